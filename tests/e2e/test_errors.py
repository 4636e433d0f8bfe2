"""Every dialect's own error, by status and path: malformed, without a key, an unknown model, the wrong method, too long, too large, no JSON."""
import http.client
import json

from serve import Serve

KEY = {"Authorization": "Bearer k"}
SAY = [{"role": "user", "content": "Hello"}]
# path: its body, the field that is made too long, the shape
PATHS = {
    "/v1/chat/completions": ({"messages": SAY}, "messages", "openai"), "/v1/completions": ({"prompt": "a"}, "prompt", "openai"),
    "/v1/responses": ({"input": "a"}, "input", "openai"), "/generate": ({"text": "a"}, "text", "openai"),
    "/inference/v1/generate": ({"token_ids": [5]}, None, "openai"), "/tokenize": ({"content": "a"}, None, "openai"),
    "/v1/embeddings": ({"input": "a"}, None, "openai"), "/v1/rerank": ({"query": "a", "documents": ["b"]}, None, "openai"),
    "/v1/messages": ({"messages": SAY, "max_tokens": 2}, "messages", "anthropic"),
    "/v1/messages/count_tokens": ({"messages": SAY}, None, "anthropic"),
    "/api/chat": ({"messages": SAY}, "messages", "ollama"), "/api/generate": ({"prompt": "a"}, "prompt", "ollama"), "/api/show": ({"model": "demo"}, None, "ollama"),
    "/completion": ({"prompt": "a"}, "prompt", "llama"), "/infill": ({"input_prefix": "a", "input_suffix": "b"}, None, "llama"),
    "/embedding": ({"content": "a"}, None, "llama"),
    "/generate_stream": ({"inputs": "a"}, "inputs", "tgi"), "/": ({"inputs": "a"}, "inputs", "tgi"),
    "/v2/embed": ({"texts": ["a"]}, None, "cohere"), "/v2/rerank": ({"query": "a", "documents": ["b"]}, None, "cohere")}
ANTHROPIC = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 405: "invalid_request_error", 413: "request_too_large",
             415: "invalid_request_error", 429: "rate_limit_error", 503: "overloaded_error"}
LLAMA = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 405: "invalid_request_error", 413: "invalid_request_error",
         415: "invalid_request_error", 429: "rate_limit_error", 503: "unavailable_error"}
OPENAI = {401: "invalid_api_key", 404: "model_not_found", 405: "method_not_allowed", 413: "request_too_large", 415: "unsupported_media_type",
          429: "rate_limit_exceeded", 503: "service_unavailable"}


def check(shape, status, got, context=False):
    """The error, as the clients of this shape read it."""
    if shape == "anthropic":
        assert got["type"] == "error" and got["error"]["type"] == ANTHROPIC[status] and got["error"]["message"] and got["request_id"], got
    elif shape == "llama":
        wanted = "exceed_context_size_error" if context else LLAMA[status]
        assert (got["error"]["code"], got["error"]["type"]) == (status, wanted) and got["error"]["message"], got
    elif shape == "openai":
        code = "context_length_exceeded" if context else OPENAI.get(status)
        assert set(got["error"]) >= {"message", "type", "param", "code"} and got["error"]["code"] == code, got
    elif shape == "tgi":
        assert got["error"] and got["error_type"] == ("overloaded" if status in (429, 503) else "validation"), got
    else:
        assert isinstance(got["error" if shape == "ollama" else "message"], str), got
    if context and shape in ("llama", "openai"):
        assert got["error"]["n_prompt_tokens"] > got["error"]["n_ctx"] == 2048, got


def ask(port, method, path, body, headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, body if isinstance(body, (str, type(None))) else json.dumps(body), {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.headers.get_content_type() == "application/json", (path, text)
    return answer, json.loads(text)


def longer(value):
    return [{"role": "user", "content": "word " * 4000}] if isinstance(value, list) else "word " * 4000


def test_each_dialect_and_status():
    tried = 0
    with Serve(args=["--api-key", "k", "--body-max", "64k"]) as s:
        page = {**KEY, "Origin": f"http://127.0.0.1:{s.port}", "Content-Type": "text/plain"}
        for path, (body, field, shape) in PATHS.items():
            cases = [(400, "POST", "{", KEY), (401, "POST", body, {}), (404, "POST", {**body, "model": "nix"}, KEY), (405, "PUT", body, KEY),
                     (413, "POST", json.dumps(body) + " " * 70000, KEY), (415, "POST", body, page)]
            for status, method, sent, headers in cases:
                answer, got = ask(s.port, method, path, sent, headers)
                told = 422 if shape == "tgi" and status == 400 else status
                assert answer.status == told, (path, status, answer.status, got)
                check(shape, status, got)
                assert status != 401 or answer.getheader("WWW-Authenticate") == "Bearer", path
                assert status != 405 or "POST" in answer.getheader("Allow"), path
                tried += 1
            if field:
                answer, got = ask(s.port, "POST", path, {**body, field: longer(body[field])}, KEY)
                assert answer.status == (422 if shape == "tgi" else 400), (path, got)
                check(shape, 400, got, context=True)
                tried += 1
        answer, got = ask(s.port, "GET", "/v1/nothing", None, KEY)
        assert answer.status == 404 and got["error"]["code"] == "not_found", got
        answer, got = ask(s.port, "GET", "/v1/messages/nothing", None, KEY)
        assert answer.status == 404 and got["error"]["type"] == "not_found_error", got
        answer, got = ask(s.port, "GET", "/v1/messages/batches", None, KEY)  # of Anthropic's, and not here
        assert answer.status == 501 and got["type"] == "error" and got["error"]["type"] == "api_error", got
    return f"{tried} errors"


def test_busy():
    """429 while another request has the only place, and when to ask again."""
    with Serve(args=["--requests-max", "1"]) as s:
        holder = http.client.HTTPConnection("127.0.0.1", s.port, timeout=20)
        holder.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 1900, "ignore_eos": True, "stream": True}), {"Content-Type": "application/json"})
        holder.getresponse().read(10)
        for path, (body, field, shape) in PATHS.items():
            if field:
                answer, got = ask(s.port, "POST", path, body, {})
                assert answer.status == 429 and int(answer.getheader("Retry-After")) > 0, (path, answer.status, got)
                check(shape, 429, got)
        holder.close()
