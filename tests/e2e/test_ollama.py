"""Unchanged ollama-python against a real server, and against the gateway before a model that says what the last message says."""
import importlib.metadata
import json

from run import Skip
from serve import Serve
from test_tools import Echo

try:
    import ollama
except ImportError:
    ollama = None


def client(port):
    if ollama is None:
        raise Skip("ollama", "the ollama package is not installed")
    return ollama.Client(host=f"http://127.0.0.1:{port}")


def get_weather(city: str, days: int) -> str:
    """The weather to come.

    Args:
        city: Where.
        days: How many.
    """
    return f"{days} dry days in {city}"


def refused(call):
    try:
        call()
    except ollama.ResponseError as error:
        return error
    raise AssertionError("it was taken")


def test_chat_generate_and_models():
    with Serve() as s:
        c = client(s.port)
        name = c.list().models[0].model
        shown, running = c.show(name), c.ps().models[0]
        assert "completion" in shown.capabilities and shown.template, shown
        family = shown.modelinfo["general.architecture"]
        assert shown.details.family == family and running.context_length == shown.modelinfo[f"{family}.context_length"] > 0, (shown, running)
        assert running.model == name and running.expires_at.year > 2100, running

        ask = dict(model=name, messages=[{"role": "user", "content": "Hello!"}], options={"temperature": 0, "num_predict": 12}, keep_alive="5m")
        whole = c.chat(**ask)
        pieces = list(c.chat(**ask, stream=True))
        assert whole.message.content and whole.done and whole.done_reason in ("stop", "length"), whole
        assert "".join(p.message.content for p in pieces) == whole.message.content, (pieces, whole)
        assert [p.done for p in pieces] == [False] * (len(pieces) - 1) + [True] and len(pieces) > 2, pieces
        for last in (whole, pieces[-1]):
            assert last.prompt_eval_count > 0 and 0 < last.eval_count <= 12, last
            assert last.total_duration == last.load_duration + last.prompt_eval_duration + last.eval_duration > 0, last

        ask = dict(model=name + ":latest", prompt="Once upon a time", raw=True, options={"temperature": 0, "num_predict": 12})
        whole = c.generate(**ask)
        assert whole.response and "".join(p.response for p in c.generate(**ask, stream=True)) == whole.response
        assert c.generate(model=name, prompt="Hello!", system="You are brief.", options={"num_predict": 3}).eval_count <= 3
        assert c.generate(model=name).done_reason == "load"
        shape = {"type": "object", "properties": {"ok": {"type": "boolean"}, "colour": {"enum": ["red", "blue"]}}, "required": ["ok", "colour"], "additionalProperties": False}
        made = json.loads(c.chat(model=name, messages=[{"role": "user", "content": "Say it."}], format=shape, options={"num_predict": 200, "seed": 1}).message.content)
        assert isinstance(made["ok"], bool) and made["colour"] in ("red", "blue"), made
        return f"ollama {importlib.metadata.version('ollama')}"


def test_errors():
    with Serve() as s:
        c = client(s.port)
        name = c.list().models[0].model
        error = refused(lambda: c.chat("nobody", messages=[{"role": "user", "content": "x"}]))
        assert error.status_code == 404 and "nobody" in error.error, error
        error = refused(lambda: list(c.generate(name, "x", suffix="y", stream=True)))
        assert error.status_code == 501 and "no marks" in error.error, error  # as /infill answers for this model
        wide = c.generate(name, "x", options={"num_ctx": 10**8, "num_predict": 3})  # the context stays what it is
        assert wide.done and wide.eval_count == 3, wide
        error = refused(lambda: c.embed(name, "x"))
        assert error.status_code == 400 and "--pooling" in error.error, error
        for path, call in (("pull", lambda: c.pull(name)), ("delete", lambda: c.delete(name)), ("copy", lambda: c.copy(name, "x"))):
            error = refused(call)
            assert error.status_code == 400 and f"/api/{path}" in error.error, error


def test_tools_and_thinking():
    says = '<think>Rain?</think>I look.\n<tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}</tool_call>'
    with Echo("tool <tool_call> </think>") as e:
        c = client(e.port)
        assert {"tools", "thinking"} <= set(c.show("fake").capabilities)
        ask = dict(model="fake", messages=[{"role": "user", "content": says}], tools=[get_weather], think=True)
        whole = c.chat(**ask).message
        pieces = [p.message for p in c.chat(**ask, stream=True)]
        calls = [call for p in pieces for call in p.tool_calls or []]
        assert (whole.content, whole.thinking) == ("I look.", "Rain?"), whole
        assert "".join(p.content for p in pieces) == whole.content and "".join(p.thinking or "" for p in pieces) == whole.thinking, pieces
        assert calls == whole.tool_calls and len(calls) == 1, (calls, whole)
        result = get_weather(**calls[0].function.arguments)
        answer = c.chat("fake", messages=[{"role": "user", "content": "Rain?"}, whole, {"role": "tool", "content": result, "tool_name": calls[0].function.name}])
        assert answer.message.content == "2 dry days in Paris" and not answer.message.tool_calls, answer
