"""Paths that other servers' clients call: SGLang's aborts and encode, SageMaker's invocations, TGI's and LMDeploy's tokens."""
import http.client
import json

from serve import Serve

CHAT = [{"role": "user", "content": "Once upon a time"}]
GREEDY = {"temperature": 0, "max_tokens": 6}


def ended_by_abort(port, path, body, name_of, finish_of, key="k1", by="k1"):
    """Begins a stream that would be long, aborts it by the name that name_of finds in its first event; how it ended."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, json.dumps({**body, "stream": True}), headers)
    answer = connection.getresponse()
    finish, asked, events = None, False, 0
    for line in answer:
        if not line.startswith(b"data: {"):
            continue
        event, events = json.loads(line[6:]), events + 1
        assert "error" not in event, event
        finish = finish_of(event) or finish
        if not asked:
            asked = True
            other = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            other.request("POST", "/abort_request", json.dumps(name_of(event)), {**headers, "Authorization": f"Bearer {by}"})
            assert other.getresponse().status == 200
            other.close()
    connection.close()
    return finish, events


def test_aborts():
    """By the client's name and by the answer's, all of a key, and never another key's; what runs in one piece, too."""
    long = {"max_tokens": 1900, "ignore_eos": True}
    of_chat = lambda event: event["choices"][0]["finish_reason"] if event.get("choices") else None
    with Serve(args=["--api-key", "k1,k2", "--min-step-ms", "5"]) as s:
        for name_of in (lambda e: {"rid": "mine"}, lambda e: {"rid": [e["id"], "other"]}, lambda e: {"abort_all": True}):
            finish, events = ended_by_abort(s.port, "/v1/chat/completions", {"messages": CHAT, "rid": "mine", **long}, name_of, of_chat)
            assert finish == "abort" and events < 1900, finish
        generate = {"text": "Once", "rid": "g", "sampling_params": {"max_new_tokens": 1900, "ignore_eos": True}}
        finish, _ = ended_by_abort(s.port, "/generate", generate, lambda e: {"rid": e["meta_info"]["id"]}, lambda e: e["meta_info"]["finish_reason"])
        assert finish["type"] == "abort", finish
        few = {"messages": CHAT, "max_tokens": 40, "ignore_eos": True, "rid": "mine"}
        finish, _ = ended_by_abort(s.port, "/v1/chat/completions", few, lambda e: {"rid": "mine"}, of_chat, by="k2")
        assert finish == "length", "another key's abort"
        key = {"Authorization": "Bearer k1"}
        for body, param in (({}, "rid"), ({"rid": 7}, "rid"), ({"rid": "a", "session_id": 3}, "session_id"), ({"abort_all": 1}, "abort_all")):
            status, got, _ = s.post("/abort_request", body, headers=key)
            assert status == 400 and got["error"]["param"] == param, got
        assert s.post("/abort_request", {"rid": "nobody"}, headers=key)[0] == 200
        open_requests = lambda: s.metrics("gateway", headers=key)["trireme_gateway_requests_open"]
        s.wait(lambda: open_requests() == 0, 20, "no request open")


def test_loads():
    """What the scheduler told, while requests run; and what other servers have and this one does not."""
    with Serve(args=["--slots", "8", "--min-step-ms", "20"]) as s:
        calm = json.loads(s.get("/v1/loads")[1])
        assert calm["loads"][0]["dp_rank"] == 0 and calm["loads"][0]["num_total_reqs"] == 0 and calm["loads"][0]["max_running_requests"] == 8, calm
        assert calm["loads"][0]["max_total_num_tokens"] > 0 and calm["timestamp"] and calm["version"], calm
        gone = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        gone.request("POST", "/v1/completions", json.dumps({"prompt": "Once", "n": 3, "max_tokens": 1900, "ignore_eos": True}), {"Content-Type": "application/json"})
        load = lambda: json.loads(s.get("/get_load")[1])[0]
        s.wait(lambda: load()["num_reqs"] == 3 and load()["num_tokens"] > 0, 20, "three running sequences")
        lines = s.get("/v1/loads?format=prometheus&include=core,queues")[1].splitlines()
        assert 'sglang_num_running_reqs{dp_rank="0"} 3' in lines, lines
        assert json.loads(s.get("/v1/loads?dp_rank=0")[1])["loads"][0]["token_usage"] > 0
        gone.close()
        for query in ("dp_rank=1", "dp_rank=x", "include=cores", "format=xml"):
            status, body = s.get(f"/v1/loads?{query}")
            assert status == 400 and json.loads(body)["error"]["param"] == query.split("=")[0], body


def test_calls_that_are_not_here():
    """501 with the reason, in the form of the server whose call it is; never a bare 404 or 405."""
    with Serve() as s:
        def ask(method, path):
            connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
            connection.request(method, path, "{}" if method == "POST" else None, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        for path in ("/sleep", "/v1/audio/transcriptions", "/update_weights_from_disk", "/flush_cache", "/v1/load_lora_adapter", "/v1/streams", "/slots/0",
                     "/v1/messages/batches", "/v1/messages/batches/b1/results", "/v1/threads/t/runs", "/v1/vector_stores", "/v1/realtime/sessions",
                     "/v1/chat/completions/derender", "/v1/complete", "/api/blobs/sha256:0", "/api/web_search", "/vertex_generate", "/abort_requests"):
            for method in ("POST", "GET"):
                status, body = ask(method, path)
                assert status == 501 and path[:6] in body and ": " in body, (method, path, body)
        for method, path in (("POST", "/models"), ("DELETE", "/models?model=demo"), ("DELETE", "/v1/models/demo"), ("POST", "/props"), ("POST", "/lora-adapters"),
                             ("GET", "/v1/chat/completions"), ("GET", "/v1/chat/completions/chatcmpl-1"), ("POST", "/v1/responses/compact")):
            status, body = ask(method, path)
            assert status == 501 and (method in body or path.endswith("-1")), (method, path, body)
        assert json.loads(ask("GET", "/api/status")[1])["error"].startswith("this server does not offer '/api/status': ")
        assert ask("POST", "/v1/audio")[0] == ask("POST", "/sleepy")[0] == ask("GET", "/v1/messages/x")[0] == 404
        assert ask("DELETE", "/props")[0] == ask("PUT", "/models")[0] == ask("POST", "/v1/models/demo")[0] == 405


def test_invocations():
    """Each body is answered as on the path whose it is; one of none is refused."""
    with Serve() as s:
        def text(path, body):
            status, got, _ = s.post(path, body)
            assert status == 200, got
            first = got[0] if isinstance(got, list) else got
            if "choices" in first:
                return first["choices"][0].get("text") or first["choices"][0]["message"]["content"]
            return first.get("text") or first["generated_text"]
        for path, body in (("/v1/chat/completions", {"messages": CHAT, **GREEDY}), ("/v1/completions", {"prompt": "Once", **GREEDY}),
                           ("/generate", {"text": "Once", "sampling_params": {"temperature": 0, "max_new_tokens": 6}}),
                           ("/generate", {"inputs": "Once", "parameters": {"max_new_tokens": 6}})):
            assert text("/invocations", body) == text(path, body), body
            large = {**body, "session_id": "x" * 200000}  # read off the event threads
            assert text("/invocations", large) == text(path, body), path
        for body, param in (({"input": "a"}, "model"), ({"query": "a", "documents": ["b"]}, "model"), ({"text_1": "a", "text_2": "b"}, "model"), ({"model": "x"}, None)):
            status, got, _ = s.post("/invocations", body)
            assert status == 400 and got["error"]["param"] == param, got


def test_tokens_in_other_forms():
    text = "Once upon a time, é and 中 stood"
    with Serve() as s:
        ids = s.post("/tokenize", {"prompt": text, "add_special_tokens": False})[1]["tokens"]
        tgi = s.post("/tokenize", {"inputs": text, "add_special_tokens": False})[1]
        assert [t["id"] for t in tgi] == ids and "".join(t["text"] for t in tgi) == text
        assert tgi[0]["start"] == 0 and tgi[-1]["stop"] == len(text)
        assert all(a["stop"] == b["start"] and text[a["start"]:a["stop"]] == a["text"] for a, b in zip(tgi, tgi[1:]))
        chat = s.post("/tokenize", {"messages": CHAT})[1]["tokens"]
        status, got, _ = s.post("/chat_tokenize", {"messages": CHAT})
        assert status == 200 and [t["id"] for t in got["tokenize_response"]] == chat
        assert got["templated_text"] == s.post("/apply-template", {"messages": CHAT})[1]["prompt"]
        marks = [t for t in got["tokenize_response"] if t["start"] == t["stop"] == 0]
        assert marks and all(t["text"] in got["templated_text"] for t in marks)
        one, many = s.post("/v1/encode", {"input": "A fox", "add_bos": False})[1], s.post("/v1/encode", {"input": ["A fox", "Once"]})[1]
        assert one == {"input_ids": s.post("/tokenize", {"prompt": "A fox", "add_special_tokens": False})[1]["tokens"], "length": len(one["input_ids"])}
        assert many["input_ids"] == [s.post("/tokenize", {"prompt": t})[1]["tokens"] for t in ("A fox", "Once")] and many["length"] == [len(i) for i in many["input_ids"]]
        for body, param in (({}, "input"), ({"input": [1]}, "input"), ({"input": "a", "do_preprocess": True}, "do_preprocess")):
            status, got, _ = s.post("/v1/encode", body)
            assert status == 400 and got["error"]["param"] == param, got


def test_encode():
    with Serve(args=["--pooling", "last"]) as s:
        wanted = [d["embedding"] for d in s.post("/v1/embeddings", {"input": ["A fox", "Once"]})[1]["data"]]
        status, one, _ = s.post("/encode", {"text": "A fox", "rid": "mine"})
        assert status == 200 and one["embedding"] == wanted[0] and one["meta_info"]["id"] == "mine", one
        ids = s.post("/tokenize", {"prompt": "A fox"})[1]["tokens"]
        assert one["meta_info"]["prompt_tokens"] == len(ids)
        many = s.post("/encode", {"text": ["A fox", "Once"]})[1]
        assert [m["embedding"] for m in many] == wanted and many[1]["meta_info"]["id"].startswith("embd-")
        assert s.post("/encode", {"input_ids": ids})[1]["embedding"] == wanted[0]
        assert [m["embedding"] for m in s.post("/encode", {"input_ids": [ids]})[1]] == wanted[:1]
        scores = [s.post("/v1/score", {a: "A fox", b: ["Once", "A fox"]})[1]["data"] for a, b in (("text_1", "text_2"), ("data_1", "data_2"), ("queries", "items"))]
        assert scores[0] == scores[1] == scores[2] and scores[0][1]["score"] > 0.999, scores
        assert len(s.post("/encode", {"text": "A fox", "dimensions": 8})[1]["embedding"]) == 8
        for body, param in (({}, "text"), ({"text": "a", "input_ids": [1]}, "input_ids"), ({"text": [1]}, "text"), ({"input_ids": ["a"]}, "input_ids"),
                            ({"text": "a", "image_data": "x"}, "image_data")):
            status, got, _ = s.post("/encode", body)
            assert status == 400 and got["error"]["param"] == param, got


def test_generate_with_lists():
    """A list for each value: every answer is as that of a request alone."""
    with Serve(args=["--min-step-ms", "2"]) as s:
        params = [{"temperature": 0, "max_new_tokens": 4}, {"temperature": 0, "max_new_tokens": 9, "stop": "z"}, {"temperature": 1, "seed": 5, "max_new_tokens": 6, "n": 2}]
        texts = ["Once", "A fox", "Two"]
        alone = [s.post("/generate", {"text": t, "sampling_params": p, "rid": f"r{i}", "return_logprob": i == 1})[1] for i, (t, p) in enumerate(zip(texts, params))]
        status, got, _ = s.post("/generate", {"text": texts, "sampling_params": params, "rid": ["r0", "r1", "r2"], "return_logprob": [False, True, False]})
        assert status == 200 and len(got) == 4, got
        flat = [alone[0], alone[1], *alone[2]]
        forget = lambda o: {**o, "meta_info": {k: v for k, v in o["meta_info"].items() if k not in ("e2e_latency", "cached_tokens")}}
        assert [forget(o) for o in got] == [forget(o) for o in flat], (got, flat)
        ids = [s.post("/tokenize", {"prompt": t})[1]["tokens"] for t in texts]
        by_ids = s.post("/generate", {"input_ids": ids, "sampling_params": [params[0]] * 3})[1]
        assert [o["text"] for o in by_ids][0] == alone[0]["text"] and len(by_ids) == 3
        many = s.post("/generate", {"text": ["Once"] * 128, "sampling_params": [{"temperature": 0, "max_new_tokens": 1 + i % 7} for i in range(128)]})[1]
        assert [len(o["output_ids"]) for o in many] == [1 + i % 7 for i in range(128)]
        refused = [({"text": texts, "sampling_params": params[:2]}, "sampling_params"), ({"text": [], "rid": ["a"]}, "text"),
                   ({"text": texts, "rid": ["a", "b", "c"], "stream": True}, "stream"), ({"text": texts, "sampling_params": [{}, {}, {"top_p": 7}]}, "top_p"),
                   ({"text": ["a"] * 129, "sampling_params": [{}] * 129}, "text"), ({"rid": ["a"]}, "text")]
        for body, param in refused:
            status, got, _ = s.post("/generate", body)
            assert status == 400 and got["error"]["param"] == param, (body, got)
        status, got, _ = s.post("/generate", {"text": ["a"] * 128, "sampling_params": [{}] * 128, "user": "x" * 200000})
        assert status == 413, got
        # a client that leaves, and another that aborts one of several
        long = {"text": texts, "sampling_params": [{"max_new_tokens": 1900, "ignore_eos": True}] * 3}
        gone = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        gone.request("POST", "/generate", json.dumps(long), {"Content-Type": "application/json"})
        open_requests = lambda: s.metrics("gateway")["trireme_gateway_requests_open"]
        s.wait(lambda: open_requests() == 3, 20, "three requests open")
        gone.close()
        s.wait(lambda: open_requests() == 0, 20, "no request open")
        waiting = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        short = [{"max_new_tokens": 4, "ignore_eos": True}, long["sampling_params"][0]]
        waiting.request("POST", "/generate", json.dumps({"text": texts[:2], "sampling_params": short, "rid": ["s", "l"]}), {"Content-Type": "application/json"})
        s.wait(lambda: open_requests() == 1, 20, "one request open")
        assert s.post("/abort_request", {"rid": "l"})[0] == 200
        first, second = json.load(waiting.getresponse())
        assert first["meta_info"]["finish_reason"]["type"] == "length" and second["meta_info"]["finish_reason"]["type"] == "abort", second
        waiting.close()


def test_batch_of_chats():
    """vLLM's: a choice for each conversation, as it would be alone, and the usage of all."""
    chats = [CHAT, [{"role": "user", "content": "A fox"}], CHAT + [{"role": "assistant", "content": "x"}, {"role": "user", "content": "Two"}]]
    with Serve() as s:
        alone = [s.post("/v1/chat/completions", {"messages": c, "logprobs": True, **GREEDY})[1] for c in chats]
        status, got, _ = s.post("/v1/chat/completions/batch", {"messages": chats, "logprobs": True, **GREEDY})
        assert status == 200 and got["object"] == "chat.completion" and got["model"] == alone[0]["model"], got
        assert [c["index"] for c in got["choices"]] == [0, 1, 2]
        assert [{**c, "index": 0} for c in got["choices"]] == [a["choices"][0] for a in alone]
        for count in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert got["usage"][count] == sum(a["usage"][count] for a in alone), count
        two = s.post("/v1/chat/completions/batch", {"messages": chats[:2], "n": 2, **GREEDY})[1]
        assert [c["index"] for c in two["choices"]] == [0, 1, 2, 3] and two["choices"][0]["message"] == two["choices"][1]["message"] == alone[0]["choices"][0]["message"]
        for body, param in (({"messages": CHAT}, "messages"), ({}, "messages"), ({"messages": [CHAT, []]}, "messages"), ({"messages": [CHAT], "stream": True}, "stream"),
                            ({"messages": [CHAT], "return_token_ids": True}, "return_token_ids"), ({"messages": [CHAT] * 129}, "messages")):
            status, got, _ = s.post("/v1/chat/completions/batch", body)
            assert status == 400 and got["error"]["param"] == param, (body, got)


def test_texts_taken_apart():
    """What a model wrote, by formats that are named: SGLang's /separate_reasoning and /parse_function_call."""
    with Serve() as s:
        def reasoning(text, **more):
            return s.post("/separate_reasoning", {"text": text, **more})[:2]
        for text, thought, rest in (
            ("<think>Two and two.</think>Four.", "Two and two.", "Four."), ("Two and two.</think>\n\nFour.", "Two and two.", "Four."),
            ("Four.", "", "Four."), ("<think>endless", "endless", ""),
        ):
            status, body = reasoning(text, reasoning_parser="qwen3")
            assert status == 200 and body["reasoning_text"].strip() == thought and body["text"].strip() == rest, (text, body)
        tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
        text = 'Let me look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "K\u00f6ln"}}\n</tool_call>\n' \
               '<tool_call>\n{"name": "weather", "arguments": {"city": "Rom"}}\n</tool_call>'
        status, body, _ = s.post("/parse_function_call", {"text": text, "tools": tools, "tool_call_parser": "qwen25"})
        assert status == 200 and body["normal_text"].strip() == "Let me look.", body
        assert [(c["tool_index"], c["name"], json.loads(c["parameters"])) for c in body["calls"]] == \
            [(0, "weather", {"city": "K\u00f6ln"}), (1, "weather", {"city": "Rom"})], body
        status, body, _ = s.post("/parse_function_call", {"text": "No call.", "tool_call_parser": "hermes"})
        assert (status, body) == (200, {"normal_text": "No call.", "calls": []}), body
        for path, body, param, says in (
            ("/separate_reasoning", {}, "text", "missing"), ("/separate_reasoning", {"text": 3}, "text", "string"),
            ("/separate_reasoning", {"text": "x", "reasoning_parser": "nobody"}, "reasoning_parser", "'nobody'"),
            ("/parse_function_call", {"text": "x", "tool_call_parser": "nobody"}, "tool_call_parser", "'nobody'"), ("/parse_function_call", {"text": "x"}, "tool_call_parser", "is needed"),
            ("/parse_function_call", {"text": "x", "tool_call_parser": "hermes", "tools": {}}, "tools", "array"),
        ):
            status, got, _ = s.post(path, body)
            assert status == 400 and got["error"]["param"] == param and says in got["error"]["message"], (path, body, got)


def test_who_follows_models_is_told_and_let_go():
    """llama.cpp's /models/sse: the state of each model at once; it never ends by itself, and holds up no drain."""
    with Serve() as s:
        connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=20)
        connection.request("GET", "/models/sse")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.headers.get_content_type() == "text/event-stream", answer.headers
        first = json.loads(answer.readline().removeprefix(b"data: "))
        assert first == {"model": "demo", "event": "model_status", "data": {"status": "loaded"}}, first
        s.process.terminate()
        rest = answer.read()  # until the answer ends as it should, and not with its connection
        assert all(line in (b"", b": ping") for line in rest.split(b"\n")), rest
        assert s.process.wait(20) == 0
        connection.close()
