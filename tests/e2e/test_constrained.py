"""Answers that must have a form: schemas, patterns, grammars, choices, forced tool calls, as unchanged clients ask for them."""
import asyncio
import json
import re
from typing import Literal, Optional

from run import Skip
from serve import Serve
from stream import Result, request

try:
    import openai
    from pydantic import BaseModel, Field
except ImportError:
    openai = None

SAY = [{"role": "user", "content": "Tell me of the fox."}]


def client(server):
    if openai is None:
        raise Skip("openai", "the openai package is not installed")
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)


def refused(call):
    try:
        call()
    except openai.BadRequestError as e:
        return e
    raise AssertionError("it was taken")


def test_pydantic_parse_whole_and_streamed():
    if openai is None:
        raise Skip("openai", "the openai package is not installed")

    class Pet(BaseModel):
        name: str = Field(max_length=12)
        kind: Literal["fox", "cat", "owl é"]
        legs: int = Field(ge=0, le=4)

    class Household(BaseModel):
        pets: list[Pet] = Field(min_length=1, max_length=2)
        street: Optional[str] = Field(max_length=8)
        tall: bool

    with Serve() as s:
        c = client(s)
        for seed in range(4):
            ask = dict(model=c.models.list().data[0].id, messages=SAY, response_format=Household, seed=seed, temperature=1.2, max_tokens=400)
            whole = c.chat.completions.parse(**ask)
            pets = whole.choices[0].message.parsed
            assert whole.choices[0].finish_reason == "stop" and isinstance(pets, Household) and pets.pets, whole
            assert list(json.loads(whole.choices[0].message.content)) == ["pets", "street", "tall"]
            with c.chat.completions.stream(**ask) as stream:
                for _ in stream:
                    pass
                final = stream.get_final_completion()
            assert final.choices[0].message.parsed == pets and final.choices[0].message.content == whole.choices[0].message.content


def test_every_way_to_ask():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 70}}, "required": ["n"], "additionalProperties": False}
    number = lambda t: 3 <= json.loads(t)["n"] <= 70
    is_object = lambda t: isinstance(json.loads(t), dict)
    ways = [
        ({"guided_json": schema}, number), ({"guided_json": json.dumps(schema)}, number), ({"json_schema": schema}, number),
        ({"structured_outputs": {"json": schema}}, number), ({"format": schema}, number),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}}, number),
        ({"response_format": {"type": "json_object", "schema": schema}}, number),
        ({"guided_regex": "[0-9]{3}-[a-f]{2}"}, lambda t: re.fullmatch("[0-9]{3}-[a-f]{2}", t)),
        ({"regex": "(ab|c)d"}, lambda t: t in ("abd", "cd")), ({"structured_outputs": {"regex": "x{3}"}}, lambda t: t == "xxx"),
        ({"guided_choice": ["red", "grün"]}, lambda t: t in ("red", "grün")), ({"structured_outputs": {"choice": ["a\"b"]}}, lambda t: t == "a\"b"),
        ({"grammar": 'root ::= "yes" | "no" " "+ "way"'}, lambda t: t == "yes" or re.fullmatch("no +way", t)),
        ({"ebnf": 'root ::= [a-c]{2}'}, lambda t: re.fullmatch("[a-c]{2}", t)), ({"guided_grammar": 'root ::= "q"'}, lambda t: t == "q"),
        ({"grammar": {"type": "regex", "value": "z"}}, lambda t: t == "z"),
        ({"response_format": {"type": "structural_tag", "format": {"type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": schema},
                                                                   "end": "</a>"}}}, lambda t: re.fullmatch(r"<a>(.*)</a>", t) and number(t[3:-4])),
    ]
    with Serve() as s:
        c = client(s)
        model = c.models.list().data[0].id
        for extra, fits in ways:
            chat = c.chat.completions.create(model=model, messages=SAY, max_tokens=120, n=2, temperature=1, extra_body=extra)
            plain = c.completions.create(model=model, prompt="The fox", max_tokens=120, extra_body=extra)
            for choice, text in [(x, x.message.content) for x in chat.choices] + [(plain.choices[0], plain.choices[0].text)]:
                assert choice.finish_reason == "stop" and fits(text), (extra, text)
        free = c.chat.completions.create(model=model, messages=SAY, max_tokens=30, response_format={"type": "json_object"})
        assert free.choices[0].message.content.startswith("{") and (free.choices[0].finish_reason == "length" or is_object(free.choices[0].message.content))
        bad = [({"guided_json": {"not": {"uniqueItems": True}}}, "guided_json", "uniqueItems"), ({"regex": "(a"}, "regex", "group"),
               ({"regex": "(a|b)*a(a|b){40}"}, "regex", "states"), ({"grammar": "root ::= root \"a\""}, "grammar", ""),
               ({"guided_json": {"allOf": [{"type": "null"}, {"type": "string"}]}}, "guided_json", "no text"),
               ({"guided_regex": "a", "ignore_eos": True}, "ignore_eos", "guided_regex"), ({"guided_regex": "a", "min_tokens": 5}, "min_tokens", "guided_regex"),
               ({"guided_regex": "a", "guided_choice": ["b"]}, "guided_choice", "guided_regex")]
        for extra, param, word in bad:
            e = refused(lambda: c.chat.completions.create(model=model, messages=SAY, max_tokens=5, extra_body=extra))
            assert e.param == param and word in str(e), (extra, e)


TOOLS = [{"type": "function", "function": {"name": name, "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 10}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
    "required": ["city", "days"], "additionalProperties": False}}} for name in ("get_weather", "get_news")]


def check_call(call, names):
    assert call.function.name in names, call
    arguments = json.loads(call.function.arguments)
    assert set(arguments) == {"city", "days"} and len(arguments["city"]) <= 10 and 1 <= arguments["days"] <= 14, arguments


def test_forced_calls_in_the_format_of_each_row():
    """Whatever the model, what it must call is a call in its own format, and read back as one."""
    for parser in ["hermes", "llama3_json", "mistral", "qwen3_coder", "pythonic"]:
        with Serve(args=["--tool-call-parser", parser]) as s:
            c = client(s)
            ask = dict(model=c.models.list().data[0].id, messages=SAY, tools=TOOLS, temperature=1, max_tokens=120, seed=11)
            for choice, names in [("required", ("get_weather", "get_news")), ({"type": "function", "function": {"name": "get_news"}}, ("get_news",))]:
                whole = c.chat.completions.create(**ask, tool_choice=choice, parallel_tool_calls=False)
                message = whole.choices[0].message
                assert message.tool_calls and len(message.tool_calls) == 1 and not message.content, (parser, whole)
                check_call(message.tool_calls[0], names)
                assert whole.choices[0].finish_reason == "tool_calls", (parser, whole)
                name, arguments = "", ""
                for piece in c.chat.completions.create(**ask, tool_choice=choice, parallel_tool_calls=False, stream=True):
                    for call in piece.choices[0].delta.tool_calls or []:
                        name += call.function.name or ""
                        arguments += call.function.arguments or ""
                call = message.tool_calls[0].function
                assert (name, arguments) == (call.name, call.arguments), (parser, name, arguments)
            either = c.chat.completions.create(**ask, response_format={"type": "json_schema", "json_schema": {"name": "b", "schema": {"type": "boolean"}}})
            message = either.choices[0].message
            if message.tool_calls:
                check_call(message.tool_calls[0], ("get_weather", "get_news"))
            else:
                assert message.content in ("true", "false"), (parser, either)
            e = refused(lambda: c.chat.completions.create(**ask, tool_choice={"type": "function", "function": {"name": "no_such"}}))
            assert e.param == "tool_choice", e
            strict = [{"type": "function", "function": dict(t["function"], strict=True)} for t in TOOLS]
            may = c.chat.completions.create(**{**ask, "tools": strict}).choices[0]
            for call in may.message.tool_calls or []:
                check_call(call, ("get_weather", "get_news"))
            assert may.message.content or may.message.tool_calls or may.finish_reason == "stop", (parser, may)
            strict[0]["function"]["parameters"] = {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}
            e = refused(lambda: c.chat.completions.create(**{**ask, "tools": strict}))
            assert e.param == "tools" and "$ref" in str(e), e
    with Serve() as s:  # a template without tools
        c = client(s)
        e = refused(lambda: c.chat.completions.create(model=c.models.list().data[0].id, messages=SAY, tools=TOOLS, tool_choice="required"))
        assert e.param == "tool_choice" and "--tool-call-parser" in str(e), e


def test_items_differ():
    strings = {"type": "array", "items": {"type": "string", "maxLength": 1}, "uniqueItems": True, "minItems": 8, "maxItems": 12}
    pair = {"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}}, "required": ["a", "b"], "additionalProperties": False}
    with Serve() as s:
        for schema, bias in ((strings, '"'), ({"type": "array", "items": pair, "uniqueItems": True, "maxItems": 4}, ", ")):
            near = s.post("/tokenize", {"prompt": bias, "add_special_tokens": False})[1]["tokens"][-1]
            for seed in range(4):  # an alphabet of few, so that items are equal unless something keeps them apart
                body = {"prompt": "One day", "max_tokens": 300, "temperature": 0.7, "seed": seed, "guided_json": schema, "logit_bias": {str(near): 3}}
                choice = s.post("/v1/completions", body)[1]["choices"][0]
                items = json.loads(choice["text"])
                assert choice["finish_reason"] == "stop" and len({json.dumps(i, sort_keys=True) for i in items}) == len(items), choice


def test_reasoning_is_free_before_the_constraint():
    """Where the prompt has opened the reasoning, any text comes before its end; behind it, and without any, only what was asked for."""
    with Serve(args=["--reasoning-parser", "think"]) as s:
        c = client(s)
        model = c.models.list().data[0].id
        prompt = SAY + [{"role": "assistant", "content": "<think>"}]
        ask = dict(model=model, messages=prompt, max_tokens=60, temperature=0, extra_body={
            "continue_final_message": True, "add_generation_prompt": False, "guided_choice": ["yes", "no"]})
        thinks = c.chat.completions.create(**ask).choices[0]
        assert thinks.finish_reason == "length" and not thinks.message.content, thinks
        assert thinks.message.reasoning, thinks
        prompt[1]["content"] = "<think>hm</think>"
        answer = c.chat.completions.create(**ask).choices[0]
        assert answer.finish_reason == "stop" and answer.message.content in ("yes", "no"), answer


def test_the_same_alone_and_among_others():
    """32 constrained and free streams at once, each as it is alone; more schemas than one."""
    bodies = []
    for i in range(32):
        body = {"messages": [{"role": "user", "content": f"Number {i}"}], "max_tokens": 40, "temperature": 0.9, "seed": i, "stream": True}
        if i % 4:
            body["guided_json"] = {"type": "object", "properties": {f"key{i % 7}": {"type": "string", "maxLength": 15 + i % 5}, "n": {"type": "integer"}}, "required": [f"key{i % 7}", "n"]}
        bodies.append(body)

    async def at_once(s):
        return await asyncio.gather(*[request(s.port, "/v1/chat/completions", b, Result(b)) for b in bodies])
    with Serve() as s:
        alone = [asyncio.run(request(s.port, "/v1/chat/completions", b, Result(b))) for b in bodies]
        together = asyncio.run(at_once(s))
        for a, b in zip(alone, together):
            assert a.status == 200 and a.done and not a.error and a.key() == b.key(), (a.body, a.text, b.text, a.error)


def test_a_grammar_that_becomes_ambiguous_late_is_the_clients_mistake():
    """Each "a" may or may not want a "b" at the end: more alternatives with every one."""
    with Serve() as s:
        a = s.post("/tokenize", {"prompt": "a", "add_special_tokens": False})[1]["tokens"][-1]
        body = {"prompt": "A fox", "grammar": 'root ::= s\ns ::= "a" s | "a" s "b" | "z"', "logit_bias": {str(a): 100}, "max_tokens": 1000}
        status, reply, _ = s.post("/v1/completions", body)
        assert status == 400 and "512" in reply["error"]["message"], reply
        status, reply, _ = s.post("/v1/completions", {**body, "max_tokens": 100})
        assert status == 200 and reply["choices"][0]["text"] == "a" * 100, reply
        assert s.counted('trireme_scheduler_finishes_total{reason="constraint"}') == 1
