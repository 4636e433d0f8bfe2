"""What brought other servers down, tried here (docs/cves.md): each is refused or served, and a neighbour notices nothing."""
import http.client
import json
import os
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from serve import Serve, binary, bundled_model, resident_bytes

VICTIM = {"prompt": "Once upon a time", "max_tokens": 20, "temperature": 0.9, "seed": 5, "ignore_eos": True, "logprobs": 2}


def answer_of(server):
    status, body, _ = server.post("/v1/completions", VICTIM)
    assert status == 200, (status, body)
    return body["choices"]


def test_counts_and_ids_past_their_bounds():
    """Huge counts, limits that contradict each other, token ids past the vocabulary and past the logits."""
    bad = [{"n": 10**9}, {"n": -1}, {"best_of": 10**9}, {"max_tokens": 5, "min_tokens": 6}, {"logprobs": 10**6}, {"top_k": -7}, {"stop": ["x"] * 1000},
           {"logit_bias": {"999999999": 5}}, {"logit_bias": {"-1": 5}}, {"stop_token_ids": [999999999]}, {"stop_token_ids": [-5]},
           {"allowed_token_ids": [999999999]}, {"prompt": [999999999]}, {"prompt": [[0] * 10] * 5000}, {"prompt_embeds": "gASVAA=="},
           {"repetition_penalty": 1e-38}, {"temperature": 1e39}, {"cache_salt": "\u0000" * 5000}, {"priority": -(10**12)}, {"seed": 10**30}]
    with Serve() as s:
        wanted = answer_of(s)
        pids = s.pids("worker") + s.pids("scheduler") + s.pids("gateway")
        for fields in bad:
            status, body, _ = s.post("/v1/completions", {"prompt": "a", "max_tokens": 4, **fields})
            assert 400 <= status < 500 and body["error"]["message"], (fields, status, body)
        chat = [{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x.png"}}]}]},
                {"messages": [{"role": "user", "content": "a"}], "top_logprobs": 10**6, "logprobs": True},
                {"messages": [{"role": "user", "content": "a"}], "chat_template": "{{ ''.__class__ }}"}]
        for fields in chat:
            status, body, _ = s.post("/v1/chat/completions", {"max_tokens": 4, **fields})
            assert 400 <= status < 500, (fields, status, body)
        assert answer_of(s) == wanted, "a neighbour's answer changed"
        assert s.get("/health/e2e")[0] == 200
        assert s.pids("worker") + s.pids("scheduler") + s.pids("gateway") == pids, "a process ended"
    return f"{len(bad) + len(chat)} requests"


def test_patterns_that_explode():
    """Regexes, schemas and grammars that take other servers minutes: an answer or a 400, soon, and bounded."""
    deep = {"type": "string"}
    for _ in range(60):
        deep = {"type": "array", "items": deep}
    hostile = [{"regex": "(a{1,1000}){1,1000}"}, {"regex": "(a*)*b"}, {"regex": "(" * 5000 + "a" + ")" * 5000}, {"regex": "(.*a){25}"}, {"regex": "(a|aa)+" * 60},
               {"json": {"$ref": "#"}}, {"json": {"type": "string", "maxLength": 10**9}},
               {"grammar": 'root ::= root "a" | "b"'}, {"grammar": 'root ::= ("a"*)*'}, {"grammar": "root ::= " + "(" * 5000 + '"a"' + ")" * 5000}]
    with Serve() as s:
        wanted, slowest = answer_of(s), 0
        for structure in hostile:
            began = time.monotonic()
            status, body, _ = s.post("/v1/completions", {"prompt": "a", "max_tokens": 3, "structured_outputs": structure})
            slowest = max(slowest, time.monotonic() - began)
            assert status in (200, 400), (str(structure)[:80], status, str(body)[:200])
        assert slowest < 10, f"one took {slowest:.1f} s"
        assert answer_of(s) == wanted
        gateway = s.pids("gateway")[0]
        before = resident_bytes(gateway)
        for i in range(60):
            s.post("/v1/completions", {"prompt": "a", "max_tokens": 1, "structured_outputs": {"json": {"const": f"unlike {i} " + "x" * 40}}})
        grown = (resident_bytes(gateway) - before) >> 20
        assert grown < 64, f"{grown} MB for 60 schemas"
    return f"slowest {slowest:.2f} s; {grown} MB for 60 schemas"


def raw(port, text):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as c:
        c.sendall(text.encode())
        return c.recv(65536).decode(errors="replace")


def test_no_path_goes_around_the_key():
    """Each route without a key and with a wrong one, and spellings that another parser might read otherwise."""
    routes = [("POST", p) for p in ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/api/chat", "/api/generate", "/tokenize", "/detokenize", "/apply-template")]
    routes += [("GET", p) for p in ("/v1/models", "/v1/models/demo", "/v1/stream/a", "/metrics", "/version", "/load", "/props", "/api/tags")]
    spellings = ["//v1/models", "/v1//models", "/v1%2fmodels", "/v1/./models", "/health/../v1/models", "/V1/models", "/v1/models/", "/v1/models;a=b", "/health/live/../../v1/models",
                 "/page/../v1/models", "/page/%2e%2e/v1/models"]
    with Serve(args=["--api-key", "secret-key"]) as s:
        for method, path in routes:
            for key in ("", "Authorization: Bearer wrong\r\n", "Authorization: Bearer secret-ke\r\n", "X-Api-Key: \r\n", "Authorization: Basic c2VjcmV0LWtleQ==\r\n"):
                for version in ("1.1", "1.0"):
                    text = raw(s.port, f"{method} {path} HTTP/{version}\r\nHost: localhost\r\n{key}Content-Length: 0\r\nConnection: close\r\n\r\n")
                    assert " 401 " in text.split("\r\n")[0], (method, path, key, version, text[:200])
        for path in spellings:
            text = raw(s.port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert text.split(" ")[1] in ("400", "401", "404"), (path, text[:200])
        text = raw(s.port, f"GET http://localhost:{s.port}/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert text.split(" ")[1] in ("400", "401"), text[:200]
        assert "secret-key" not in s.log()
    return f"{len(routes)} routes, {len(spellings)} spellings"


def test_errors_tell_nothing_of_the_inside():
    """No path, address, process or number of ours in what a client is told."""
    with Serve() as s:
        for path, body in [("/v1/completions", {"prompt": "a", "model": "../../etc/passwd"}), ("/v1/completions", b"{"), ("/v1/completions", {"prompt": 7}),
                           ("/v1/chat/completions", {"messages": [{"role": "nobody", "content": "a"}] * 3}), ("/v1/stream/../x", {}), ("/nothing", {}),
                           ("/tokenize", {"content": "a", "model": "/etc/passwd"}), ("/api/show", {"model": "../x"})]:
            status, answer, _ = s.post(path, body)
            text = json.dumps(answer)
            assert 400 <= status < 500, (path, status)
            for inside in (s.run_dir, "/tmp/", "ipc://", "tcp://", ".sock", ".c:", str(bundled_model()), "0x"):
                assert inside not in text, (path, inside, text)


def test_code_in_a_model_is_never_run():
    """A pickle is no model, and code beside the weights is passed by."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "ran"
        config = json.loads((Path(bundled_model()) / "config.json").read_text())
        config["auto_map"] = {"AutoModelForCausalLM": "modeling.Model"}
        (Path(folder) / "config.json").write_text(json.dumps(config))
        (Path(folder) / "modeling.py").write_text(f"open({str(trace)!r}, 'w')")
        # what pickle.loads would run: os.system("touch ...")
        (Path(folder) / "pytorch_model.bin").write_bytes(b"cposix\nsystem\n(S'touch " + str(trace).encode() + b"'\ntR.")
        for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            source = Path(bundled_model()) / name
            if source.exists():
                (Path(folder) / name).write_bytes(source.read_bytes())
        for command in (["info", folder], ["worker", "--model", folder, "--connect", f"ipc://{folder}/none.sock"]):
            ended = subprocess.run([binary(), *command], capture_output=True, text=True, timeout=30, env=dict(os.environ, TRIREME_CACHE_DIR=folder))
            assert ended.returncode > 0, (command, ended.returncode, ended.stdout[-300:])
        assert "safetensors" in ended.stderr + ended.stdout, ended.stderr[-300:]
        assert not trace.exists(), "code of the model ran"


def test_a_body_in_a_million_pieces():
    """One byte a chunk, as far as a body may go in a test: no more memory than for one piece."""
    body = json.dumps({"prompt": "a " * 20000, "max_tokens": 1}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % b for b in body) + b"0\r\n\r\n"
    with Serve() as s:
        gateway = s.pids("gateway")[0]
        before = resident_bytes(gateway)
        with socket.create_connection(("127.0.0.1", s.port), timeout=30) as c:
            c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks)
            status = int(c.recv(100).split(b" ")[1])
        assert status in (200, 400, 413), status
        grown = (resident_bytes(gateway) - before) >> 20
        assert grown < 32, f"{grown} MB"
