"""Reasoning and tool calls as an unchanged openai-python reads them: a gateway before a model that says what the last message says."""
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from run import Skip
from serve import binary, bundled_model, free_port, shared

try:
    import openai
except ImportError:
    openai = None

TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}]
ECHO = "{# %s #}{{ messages[-1]['content'] }}"


class Echo:
    """A gateway and the fake scheduler that echoes prompts; the template, or a comment in one that says the last message, shows the marks that choose the parsers."""

    def __init__(self, marks, *args, source=None):
        if openai is None:
            raise Skip("openai", "the openai package is not installed")
        fake = Path(binary()).parent / "gateway_fake_scheduler"
        if not fake.exists():
            raise Skip("fake", f"{fake} is not built")
        self.dir = tempfile.mkdtemp(prefix="trm-", dir="/tmp")
        template = Path(self.dir, "echo.jinja")
        template.write_text(source or ECHO % marks)
        self.port, endpoint = free_port(), f"ipc://{self.dir}/s"
        log = open(os.path.join(self.dir, "log.txt"), "wb")
        start = lambda argv: subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.children = [start([str(fake), "--scheduler", endpoint, "--model-dir", bundled_model(), "--echo"]),
                         start([binary(), "gateway", "--scheduler", endpoint, "--port", str(self.port), "--chat-template", str(template), *args])]
        log.close()
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", max_retries=0)

    def __enter__(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health/ready", timeout=5) as r:
                    if r.status == 200:
                        return self
            except OSError:
                time.sleep(0.05)
        self.__exit__(None, None, None)
        raise AssertionError("the gateway does not become ready")

    def __exit__(self, kind, value, trace):
        for child in self.children:
            child.send_signal(signal.SIGTERM)
        for child in self.children:
            child.wait(30)
        shutil.rmtree(self.dir, ignore_errors=True)

    def post(self, path, body):
        """(status, answer)"""
        ask = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(ask, timeout=30) as r:
                return r.status, json.load(r)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def log(self):
        return Path(self.dir, "log.txt").read_text(errors="replace")

    def ask(self, says, **more):
        ask = dict(model="fake", messages=[{"role": "user", "content": says}], tools=TOOLS, max_tokens=1000)
        ask.update(more)
        return self.client.chat.completions.create(**ask)


def joined(chunks):
    """(content, reasoning, [(name, arguments, id)], finish_reason, number of deltas with calls) of a stream."""
    content = reasoning = ""
    calls, finish, pieces = {}, None, 0
    for chunk in chunks:
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning", None) or ""
            pieces += bool(choice.delta.tool_calls)
            for c in choice.delta.tool_calls or []:
                name, arguments, known = calls.get(c.index, ("", "", ""))
                calls[c.index] = (name + (c.function.name or ""), arguments + (c.function.arguments or ""), known + (c.id or ""))
            finish = choice.finish_reason or finish
    return content, reasoning, [calls[i] for i in sorted(calls)], finish, pieces


SAYS = {
    "tool <tool_call> </think>": '<think>Rain?</think>I look.\n<tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}</tool_call>',
    "tool <tool_call> <function= <parameter= </think>": "<think>Rain?</think>I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
                                                       "<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
    "tool <|open|> <|close|> <|sep|>": '<|open|>think<|sep|>Rain?<|close|>think<|sep|><|open|>response<|sep|>I look.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>'
                                      '<|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|><|open|>argument key="days" type="number"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|>'
                                      '<|close|>tools<|sep|><|close|>message<|sep|>',
    "tool [TOOL_CALLS] [THINK]": '[THINK]Rain?[/THINK]I look.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 2}',
    "function <|channel|> <|message|>": '<|channel|>analysis<|message|>Rain?<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant'
                                       '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris", "days": 2}<|call|>',
}


def test_formats_streamed_and_whole():
    for marks, says in SAYS.items():
        with Echo(marks) as e:
            asked = e.ask(says)
            whole = asked.choices[0]
            calls = whole.message.tool_calls
            assert whole.finish_reason == "tool_calls" and len(calls) == 1, (marks, whole)
            assert calls[0].type == "function" and calls[0].function.name == "get_weather"
            assert json.loads(calls[0].function.arguments) == {"city": "Paris", "days": 2}, calls[0]
            assert asked.usage.completion_tokens_details.reasoning_tokens > 0, asked.usage
            assert whole.message.content == "I look." and whole.message.reasoning == "Rain?" == whole.message.reasoning_content, whole
            content, reasoning, streamed, finish, pieces = joined(e.ask(says, stream=True))
            assert (content, reasoning, finish) == ("I look.", "Rain?", "tool_calls"), (marks, content, reasoning, finish)
            assert [s[:2] for s in streamed] == [("get_weather", calls[0].function.arguments)] and len(streamed[0][2]) == 9, streamed
            assert pieces > 1, pieces
            assert "tool_call_parser=none" not in e.log() and "chat_template=option" in e.log()
    return f"{len(SAYS)} formats"


def test_a_conversation_goes_back_into_the_template():
    with Echo("tool <tool_call> </think>") as e:
        message = e.ask(SAYS["tool <tool_call> </think>"]).choices[0].message
        history = [{"role": "user", "content": "Rain?"}, message.model_dump(exclude_none=True),
                   {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "no rain"}]
        answer = e.client.chat.completions.create(model="fake", messages=history, tools=TOOLS, max_tokens=100).choices[0]
        assert answer.message.content == "no rain" and answer.finish_reason == "stop", answer


def test_what_is_refused_and_what_is_left():
    with Echo("tool <tool_call> </think>") as e:
        for bad in (dict(tool_choice="sometimes"), dict(tool_choice={"type": "function", "function": {"name": "nobody"}}), dict(reasoning_effort="huge")):
            try:
                e.ask("x", **bad)
                raise AssertionError(f"{bad} was taken")
            except openai.BadRequestError as error:
                assert error.param in ("tool_choice", "reasoning_effort"), error
        broken = '<tool_call>{"name": "get_weather", "arguments": {"city": </tool_call>'
        choice = e.ask(broken).choices[0]
        assert choice.message.content == broken and not choice.message.tool_calls and choice.finish_reason == "stop", choice
        content, _, calls, finish, _ = joined(e.ask(broken, stream=True))
        assert content == "" and [c[:2] for c in calls] == [("get_weather", '{"city": ')] and finish == "tool_calls", (content, calls, finish)
        plain = e.ask(SAYS["tool <tool_call> </think>"], tool_choice="none").choices[0]
        assert "<tool_call>" in plain.message.content and plain.finish_reason == "stop", plain


def expected_prompts(goldens):
    """{template: {context: jinja2's text, None where it fails}}. The gateway gives templates objects for tool calls' arguments, or strings where only those work."""
    made = {}
    for line in (goldens / "rendered_jinja2.jsonl").open():
        r = json.loads(line)
        if "context" in r:
            made.setdefault(r["template"], {})[r["context"]] = r.get("output")
    for texts in made.values():
        texts["tool_use"] = texts.get("tool_use_dict") or texts.get("tool_use")
    return made


GOLDEN_DAY = datetime.date(2025, 7, 10)


def of_today(text, source):
    """A golden's text with the date its template asks for, as it is now; two, when midnight is near."""
    formats = re.findall(r"strftime_now\(\s*['\"](.*?)['\"]", source)
    made = set()
    for day in (datetime.date.today(), (datetime.datetime.now() - datetime.timedelta(minutes=1)).date()):
        today = text
        for form in formats:
            today = today.replace(GOLDEN_DAY.strftime(form), day.strftime(form))
        made.add(today)
    return made


def said(e, body):
    """What is read of an answer, whole and streamed: (content, reasoning, [(name, arguments)])."""
    ask = dict(model="fake", messages=body["messages"], tools=body.get("tools") or openai.NOT_GIVEN, max_tokens=24, extra_body={"chat_template_kwargs": body["chat_template_kwargs"]})
    message = e.client.chat.completions.create(**ask).choices[0].message
    calls = [(c.function.name, c.function.arguments) for c in message.tool_calls or []]
    content, reasoning, streamed, _, _ = joined(e.client.chat.completions.create(stream=True, **ask))
    return (message.content or "", getattr(message, "reasoning", None) or "", calls), (content, reasoning, [c[:2] for c in streamed])


def test_templates_of_the_goldens_are_served():
    root = shared("chat_templates")
    if not root:
        raise Skip("shared", "the shared data is not here")
    contexts = json.loads((root / "goldens" / "contexts.json").read_text())
    expected = expected_prompts(root / "goldens")
    for name in sorted(expected):
        source = (root / name).read_text()
        with Echo("", source=source) as e:
            for context in ("simple", "system", "tool_use", "multi_no_gen", "reasoning"):
                variables = dict(contexts[context])
                if "tools" not in variables and "tools is " in source:  # here they are not given; the gateway's are none then, as HF's
                    continue
                body = {key: variables.pop(key) for key in ("messages", "add_generation_prompt", "tools") if key in variables}
                body["chat_template_kwargs"] = variables
                status, answer = e.post("/apply-template", body)
                want = expected[name][context]
                if want is None:
                    assert status == 400, (name, context, status, answer)
                    continue
                assert status == 200 and answer["prompt"] in of_today(want, source), (name, context, status, answer)
                want = answer["prompt"]
                if context == "simple":
                    whole, streamed = said(e, body)
                    assert whole == streamed and (whole[0] or whole[1]), (name, whole, streamed)
                status, tokens = e.post("/tokenize", body)
                assert status == 200, (name, context, tokens)
                status, text = e.post("/detokenize", {"tokens": tokens["tokens"]})
                assert status == 200 and want in text.values(), (name, context, text)
    return f"{len(expected)} templates"


def test_older_functions():
    """OpenAI's functions and function_call, whole and streamed: the client reads the call where it was before there were tools."""
    says = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call><tool_call>{"name": "get_weather", "arguments": {"city": "Rome"}}</tool_call>'
    functions = [t["function"] for t in TOOLS]
    with Echo("tool <tool_call> </think>") as e:
        ask = dict(model="fake", messages=[{"role": "user", "content": says}], functions=functions, max_tokens=1000)
        choice = e.client.chat.completions.create(**ask).choices[0]
        call = choice.message.function_call
        assert choice.finish_reason == "function_call" and not choice.message.tool_calls, choice
        assert call.name == "get_weather" and json.loads(call.arguments) == {"city": "Paris"}, call
        name = arguments = ""
        for chunk in e.client.chat.completions.create(**ask, stream=True):
            delta, finish = chunk.choices[0].delta, chunk.choices[0].finish_reason
            assert not delta.tool_calls, chunk
            if delta.function_call:
                name += delta.function_call.name or ""
                arguments += delta.function_call.arguments or ""
        assert (name, json.loads(arguments), finish) == ("get_weather", {"city": "Paris"}, "function_call")
        history = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}]
        told = e.client.chat.completions.create(**{**ask, "messages": history + [{"role": "function", "name": "f", "content": "seven"}]})
        assert told.choices[0].message.content == "seven" and told.choices[0].finish_reason == "stop"
