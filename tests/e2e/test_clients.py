"""Unchanged OpenAI clients: openai-python here, openai-node through client.mjs (acceptance 2)."""
import http.client
import json
import os
import subprocess
from pathlib import Path

from run import Skip
from serve import ROOT, Serve

try:
    import openai
except ImportError:
    openai = None


def client(server):
    if openai is None:
        raise Skip("openai", "the openai package is not installed")
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)


def test_page_is_there_and_loads_nothing_from_elsewhere():
    with Serve() as s:
        connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=10)
        connection.request("GET", "/")
        answer = connection.getresponse()
        page = answer.read().decode()
    assert answer.status == 200 and answer.getheader("Content-Type").startswith("text/html")
    assert "default-src 'none'" in answer.getheader("Content-Security-Policy")
    assert "v1/chat/completions" in page and "http://" not in page and "https://" not in page


def test_python_chat_and_completions():
    with Serve() as s:
        c = client(s)
        model = c.models.list().data[0].id
        ask = dict(model=model, messages=[{"role": "user", "content": "Hello!"}], temperature=0, max_tokens=24)
        whole = c.chat.completions.create(**ask)
        assert whole.object == "chat.completion" and whole.choices[0].message.role == "assistant"
        assert whole.choices[0].finish_reason in ("stop", "length")
        assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
        pieces = list(c.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
        assert pieces[0].choices[0].delta.role == "assistant"
        text = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
        assert text == whole.choices[0].message.content, (text, whole.choices[0].message.content)
        assert pieces[-1].usage == whole.usage or pieces[-1].usage.total_tokens == whole.usage.total_tokens
        assert [p.choices[0].finish_reason for p in pieces if p.choices][-1] == whole.choices[0].finish_reason
        told = [p.system_fingerprint for p in (pieces[0], *pieces[-2:])]  # the first one, the one with the finish, the one with the usage
        assert whole.system_fingerprint.startswith("fp_") and set(told) == {whole.system_fingerprint}, told

        ask = dict(model=model, prompt="Once upon a time", temperature=0, max_tokens=16)
        whole = c.completions.create(**ask)
        text = "".join(p.choices[0].text for p in c.completions.create(**ask, stream=True) if p.choices)
        assert whole.object == "text_completion" and text == whole.choices[0].text

        many = c.chat.completions.create(model=model, messages=[{"role": "user", "content": "Tell me a story."}], n=3, seed=7,
                                         temperature=1.0, max_tokens=12, logprobs=True, top_logprobs=2)
        assert [x.index for x in many.choices] == [0, 1, 2]
        assert len({x.message.content for x in many.choices}) > 1, "three choices of one seed are all equal"
        entry = many.choices[0].logprobs.content[0]
        assert len(entry.top_logprobs) == 2 and entry.logprob <= 0
        stopped = c.completions.create(model=model, prompt="Once upon a time", temperature=0, max_tokens=60, stop=[" "])
        assert " " not in stopped.choices[0].text.strip(" ") or stopped.choices[0].finish_reason == "length"
        return f"openai {openai.__version__}"


def test_python_errors():
    with Serve(args=["--api-key", "sesame"]) as s:
        if openai is None:
            raise Skip("openai", "the openai package is not installed")
        url = f"http://127.0.0.1:{s.port}/v1"
        good = openai.OpenAI(base_url=url, api_key="sesame", max_retries=0)
        bad = openai.OpenAI(base_url=url, api_key="wrong", max_retries=0)
        say = [{"role": "user", "content": "Hi"}]
        model = good.models.list().data[0].id

        def raises(kind, call):
            try:
                call()
            except kind as e:
                return e
            raise AssertionError(f"expected {kind.__name__}")
        raises(openai.AuthenticationError, lambda: bad.models.list())
        raises(openai.AuthenticationError, lambda: bad.chat.completions.create(model=model, messages=say))
        raises(openai.NotFoundError, lambda: good.chat.completions.create(model="no-such-model", messages=say))
        e = raises(openai.BadRequestError, lambda: good.chat.completions.create(model=model, messages=say, temperature=101))
        assert e.param == "temperature", e
        raises(openai.BadRequestError, lambda: good.chat.completions.create(model=model, messages=[]))
        raises(openai.BadRequestError, lambda: good.completions.create(model=model, prompt="x" * 40000, max_tokens=5))
        assert s.get("/v1/nothing")[0] in (401, 404)
        assert s.get("/health/live")[0] == 200


def node(client, package):
    """What a script that drives a server has to say of itself."""
    modules = Path(os.environ.get("NODE_DIR") or ROOT / "build" / "node") / "node_modules"
    if not (modules / package).exists():
        raise Skip("node", f"{package} is not installed")
    with Serve(args=["--tool-call-parser", "hermes"]) as s:
        done = subprocess.run(["node", str(ROOT / "tests" / "e2e" / client), f"http://127.0.0.1:{s.port}/v1", str(modules)],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)["version"]


def test_node_chat_completions_and_responses():
    return node("client.mjs", "openai")


def test_ai_sdk():
    return node("client_ai.mjs", "ai")


def test_zod():
    return node("client_zod.mjs", "zod")


def test_anthropic_typescript():
    return node("client_anthropic.mjs", "@anthropic-ai/sdk")


def test_ollama_javascript():
    return node("client_ollama.mjs", "ollama-ai-provider-v2")
