"""Random requests by /openapi.json, in the manner of schemathesis: no 5xx, every error in its dialect's form, every bound as it says."""
import http.client
import json
import os
import random

from test_tools import Echo

CASES = int(os.environ.get("TRIREME_OPENAPI_CASES", "5000"))
CHAT = [{"role": "user", "content": "Hello"}]
# What makes a request of each path whole.
BASES = {"/v1/chat/completions": {"messages": CHAT}, "/v1/completions": {"prompt": "Hello"}, "/v1/messages": {"messages": CHAT, "max_tokens": 8},
         "/v1/messages/count_tokens": {"messages": CHAT}, "/v1/responses": {"input": "Hello"}, "/v1/responses/input_tokens": {"input": "Hello"},
         "/api/chat": {"messages": CHAT}, "/api/generate": {"prompt": "Hello"}, "/completion": {"prompt": "Hello"}, "/completions": {"prompt": "Hello"},
         "/infill": {"input_prefix": "a", "input_suffix": "b"}, "/tokenize": {"content": "Hello"}, "/detokenize": {"tokens": [1, 2]},
         "/apply-template": {"messages": CHAT}, "/v1/chat/completions/render": {"messages": CHAT}, "/v1/completions/render": {"prompt": "Hello"},
         "/generate_stream": {"inputs": "Hello"}, "/": {"inputs": "Hello"}, "/inference/v1/generate": {"token_ids": [5, 6]},
         "/generate": {"text": "Hello"}, "/pooling": {"input": "Hello"}, "/classify": {"input": "Hello"}, "/v1/classify": {"input": "Hello"}, "/v2/embed": {"texts": ["Hello"]},
         "/encode": {"text": "Hello"}, "/invocations": {"prompt": "Hello"}, "/abort_request": {"rid": "no such request"},
         "/v1/chat/completions/batch": {"messages": [CHAT, CHAT]}, "/chat_tokenize": {"messages": CHAT}, "/v1/encode": {"input": "Hello"},
         "/separate_reasoning": {"text": "Hello", "reasoning_parser": "qwen3"}, "/parse_function_call": {"text": "Hello", "tool_call_parser": "hermes"},
         "/v1/embeddings": {"input": "Hello"}, "/embedding": {"content": "Hello"}, "/embeddings": {"content": "Hello"},
         "/api/embed": {"input": "Hello"}, "/api/embeddings": {"prompt": "Hello"},
         "/models/load": {"model": "no such model"}, "/models/unload": {"model": "no such model"}, "/models/reload": {"model": "no such model"},
         "/models/add": {"model": "no such model"}, "/models/remove": {"model": "no such model"}}
BASES |= {path: BASES[f"/v1{path}"] for path in ("/chat/completions", "/responses", "/responses/input_tokens")}
BASES |= {f"{v1}/chat/completions/input_tokens": {"messages": CHAT} for v1 in ("", "/v1")}
BASES |= {f"/v1{path}": BASES[path] for path in ("/tokenize", "/detokenize")}
BASES |= {path: {"query": "Hello", "documents": ["a", "b"]} for path in ("/v1/rerank", "/v2/rerank", "/v1/reranking", "/rerank", "/reranking")}
BASES |= {path: {"text_1": "Hello", "text_2": "b"} for path in ("/v1/score", "/score")}
BASES |= {"/generative_scoring": {"query": "Hello", "items": ["a"], "label_token_ids": [5, 6]}, "/get_ppl": {"input": "Hello you"}}
SHORT = {"/chat/completions": "max_tokens", "/responses": "max_output_tokens", "/v1/chat/completions": "max_tokens", "/v1/completions": "max_tokens", "/v1/responses": "max_output_tokens", "/completion": "n_predict", "/generate": "max_new_tokens",
         "/generate_stream": "max_new_tokens", "/": "max_new_tokens", "/inference/v1/generate": "max_tokens", "/invocations": "max_tokens", "/v1/chat/completions/batch": "max_tokens",
         "/completions": "n_predict", "/api/chat": None, "/api/generate": None}
WORDS = ["", "x", "auto", "none", "required", "json", "text", "é\n\"", "<|begin|>", "disabled", "\0", "resp_0"]


def value(rng, depth=0):
    """Any JSON."""
    kind = rng.randrange(9 if depth < 3 else 6)
    if kind < 6:
        return [None, rng.random() < 0.5, rng.choice([-1, 0, 1, 2, 7, 2**31, -2**63, 2**64, 10**30]), rng.choice([0.5, -1.5, 1e-300, 1e300]),
                rng.choice(WORDS), rng.choice([[], {}])][kind]
    if kind < 8:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    names = ["type", "text", "role", "content", "name", "function", "schema", "format", "id", "items"]
    return {rng.choice(names): value(rng, depth + 1) for _ in range(rng.randrange(4))}


def fitting(rng, schema):
    """A value that the schema takes, often at its bounds."""
    if "anyOf" in schema:
        return fitting(rng, rng.choice(schema["anyOf"]))
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "boolean":
        return rng.random() < 0.5
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", 0), schema.get("maximum", 100)
        return rng.choice([low, high, int(low) if kind == "integer" else (low + high) / 2])
    return {"null": None, "string": rng.choice(WORDS), "object": {}, "array": []}[kind] if kind else value(rng)


def check_error(schemas, reference, body):
    """The error's form, as the document has it: types and members."""
    def walk(schema, got, at):
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        types = {"object": dict, "string": str, "integer": int, "null": type(None)}
        assert not kinds or any(isinstance(got, types[k]) for k in kinds), (at, got)
        assert "const" not in schema or got == schema["const"], (at, got)
        assert set(schema.get("required", [])) <= set(got if isinstance(got, dict) else []), (at, got)
        for name, inner in schema.get("properties", {}).items():
            walk(inner, got[name], f"{at}.{name}")
    walk(schemas[reference.rsplit("/", 1)[1]], body, "error")


class Asker:
    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.document = self.ask("GET", "/openapi.json")[1]
        self.schemas = self.document["components"]["schemas"]

    def ask(self, method, path, body=None):
        """(status, answer): streams as None."""
        self.connection.request(method, path, body if body is None else json.dumps(body), {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if response.headers.get_content_type() == "application/json" else None

    def check(self, method, path, body=None):
        status, answer = self.ask(method, path.replace("{rest}", "nothing"), body)
        hurried = isinstance(body, dict) and isinstance(body.get("timeout"), (int, float)) and 0 < body["timeout"] < 1
        assert status < 500 or status == 501 or (status == 504 and hurried), (path, body, answer)
        if status >= 400:
            schema = self.document["paths"][path][method.lower()]["responses"]["default"]["content"]["application/json"]["schema"]
            shapes = [s["$ref"] for s in schema.get("anyOf", [schema])]  # of /generate: TGI's requests have TGI's errors
            check_error(self.schemas, shapes[-1 if "error_type" in answer else 0], answer)
        return status, answer

    def post(self, path, body, case=""):
        """As check; what fails says with which body."""
        try:
            return self.check("POST", path, body)
        except Exception as error:
            raise AssertionError(f"{case}{path} {json.dumps(body)[:400]}: {error}") from error

    def base(self, path):
        base = dict(BASES[path])
        if SHORT.get(path):
            base[SHORT[path]] = 2
        if path.startswith("/api/"):
            base["options"] = {"num_predict": 2}
        return base

    def bodies(self):
        """(path, properties) of each call with a body."""
        for path, calls in self.document["paths"].items():
            if "requestBody" in calls.get("post", {}):
                yield path, calls["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]


def test_random_requests():
    seed = int(os.environ.get("TRIREME_TEST_SEED", "0")) or random.SystemRandom().randrange(2**31)
    rng, statuses = random.Random(seed), {}
    with Echo("tool <tool_call> </think>") as e:
        asker = Asker(e.port)
        calls = list(asker.bodies())
        assert {path for path, _ in calls} == set(BASES), "a path without a request of its own here"
        for case in range(CASES):
            path, fields = calls[case % len(calls)]
            body = asker.base(path)
            for name in rng.sample(sorted(fields), rng.randrange(1, 1 + min(3, len(fields)))):
                if name != SHORT.get(path) and name != "options":
                    body[name] = fitting(rng, fields[name]) if rng.random() < 0.6 else value(rng)
            status, _ = asker.post(path, body, f"seed {seed}, case {case}, ")
            statuses[status] = statuses.get(status, 0) + 1
        for path, methods in asker.document["paths"].items():
            for method in methods:
                if not path.startswith(("/health/e2e", "/metrics", "/page", "/health/ready", "/models/sse")) and path not in BASES and path != "/v1/responses/{rest}":
                    asker.check(method.upper(), path)
        assert statuses.get(200, 0) > CASES // 10 and statuses.get(400, 0) > CASES // 10, statuses
    return f"seed {seed}: " + ", ".join(f"{n} times {status}" for status, n in sorted(statuses.items()))


def test_each_field_alone():
    """Each field of each path beside what its request needs, truth values as true."""
    rng, asked = random.Random(1), 0
    with Echo("tool <tool_call> </think>") as e:
        asker = Asker(e.port)
        for path, fields in asker.bodies():
            for name, schema in fields.items():
                body = asker.base(path)
                value_of = fitting(rng, schema)
                body[name] = True if value_of is False else value_of
                asker.post(path, body)
                asked += 1
    assert asked > 1000
    return f"{asked} fields"


def test_every_bound():
    """Each number at its bounds is taken, or refused for another reason; past them it is refused by name."""
    bounds = 0
    with Echo("tool <tool_call> </think>") as e:
        asker = Asker(e.port)
        for path, fields in asker.bodies():
            for name, schema in fields.items():
                if "minimum" not in schema or path.startswith("/api/"):
                    continue
                low, high = schema["minimum"], schema["maximum"]
                past = 1 if "integer" in schema["type"] else (high - low) / 1000
                for number, fits in [(low, True), (high, True), (low - past, False), (high + past, False)]:
                    body = asker.base(path)
                    body[name] = number
                    status, answer = asker.post(path, body)
                    text = "" if status == 200 else json.dumps(answer)
                    assert fits or status in (400, 422) and f"'{name}'" in text, (path, name, number, answer)
                    assert not fits or "must be between" not in text and "and at most" not in text, (path, name, number, answer)
                    bounds += 1
    assert bounds > 200
    return f"{bounds} bounds"
