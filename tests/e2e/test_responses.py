"""OpenAI's responses as an unchanged openai-python asks for them and reads them."""
import json
import time
from typing import Literal

from run import Skip
from serve import Serve
from test_tools import SAYS, Echo

try:
    import openai
    import pydantic
except ImportError:
    openai = None

TOOLS = [{"type": "function", "name": name, "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 10}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
    "required": ["city", "days"], "additionalProperties": False}} for name in ("get_weather", "get_news")]
THINK = "tool <tool_call> </think>"


def client(server, key="none"):
    """Closed by its with: a server that ends waits for connections that are kept."""
    if openai is None:
        raise Skip("openai", "the openai package is not installed")
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=key, max_retries=0)


def items(response):
    """What the items hold, without ids, which differ from answer to answer."""
    without = {"id": True, "call_id": True, "parsed_arguments": True, "content": {"__all__": {"parsed"}}}
    return [i.model_dump(exclude=without) for i in response.output]


def refused(kind, call):
    try:
        call()
    except kind as e:
        return e
    raise AssertionError("it was taken")


def test_formats_streamed_and_whole():
    """The helper's own sums of the events are the whole answer; every item and event validates against the package's types."""
    checked = pydantic.TypeAdapter(openai.types.responses.ResponseStreamEvent) if openai else None
    for marks, says in SAYS.items():
        with Echo(marks) as e, client(e) as c:
            ask = dict(model="fake", input=says, tools=TOOLS)
            whole = c.responses.create(**ask)
            assert whole.object == "response" and whole.status == "completed" and whole.model == "fake", whole
            openai.types.responses.Response.model_validate(whole.model_dump())
            assert [i.type for i in whole.output] == ["reasoning", "message", "function_call"], (marks, whole)
            thought, text, call = whole.output
            assert (thought.content[0].text, whole.output_text, call.name, json.loads(call.arguments)) == (
                "Rain?", "I look.", "get_weather", {"city": "Paris", "days": 2}), whole
            assert whole.usage.output_tokens_details.reasoning_tokens > 0, whole.usage
            seen, pieces, numbers = [], "", []
            with c.responses.stream(**ask) as stream:
                for event in stream:
                    seen.append(event.type)
                    numbers.append(event.sequence_number)
                    pieces += event.delta if event.type == "response.function_call_arguments.delta" else ""
                streamed = stream.get_final_response()
            assert items(streamed) == items(whole), (marks, streamed, whole)
            assert streamed.usage.output_tokens == whole.usage.output_tokens and numbers == list(range(len(numbers))), numbers
            assert json.loads(pieces) == json.loads(call.arguments), pieces
            assert seen[0] == "response.created" and seen[-1] == "response.completed" and seen.count("response.output_item.done") == 3, seen
            for event in c.responses.create(**ask, stream=True):
                checked.validate_python(event.model_dump())
    return f"{len(SAYS)} formats"


def test_a_conversation_goes_back_into_the_template():
    with Echo(THINK) as e, client(e) as c:
        first = c.responses.create(model="fake", input=SAYS[THINK], tools=TOOLS, reasoning={"summary": "auto"})
        assert [s.text for s in first.output[0].summary] == ["Rain?"], first.output[0]
        result = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "no rain"}
        by_items = c.responses.create(model="fake", input=[{"role": "user", "content": "Rain?"}, *first.output, result], tools=TOOLS)
        by_id = c.responses.create(model="fake", previous_response_id=first.id, input=[result], tools=TOOLS)
        assert by_items.output_text == by_id.output_text == "no rain", (by_items, by_id)
        again = c.responses.retrieve(first.id)
        assert items(again) == items(first) and again.previous_response_id is None
        assert [i.content[0].text for i in c.responses.input_items.list(first.id)] == [SAYS[THINK]]
        assert [i.output for i in c.responses.input_items.list(by_id.id)] == ["no rain"]
        count = c.responses.input_tokens.count(model="fake", previous_response_id=first.id, input=[result], tools=TOOLS)
        assert count.input_tokens == by_id.usage.input_tokens, (count, by_id.usage)
        c.responses.delete(first.id)
        refused(openai.NotFoundError, lambda: c.responses.retrieve(first.id))
        error = refused(openai.BadRequestError, lambda: c.responses.create(model="fake", previous_response_id=first.id, input="x"))
        assert error.code == "previous_response_not_found" and error.param == "previous_response_id", error
        dropped = c.responses.create(model="fake", input="x", store=False)
        refused(openai.NotFoundError, lambda: c.responses.retrieve(dropped.id))


def test_errors_are_the_clients_own():
    with Echo(THINK, "--api-key", "secret,other") as e, client(e, "secret") as c, client(e, "other") as other, client(e) as stranger:
        mine = c.responses.create(model="fake", input="x")
        assert mine._request_id
        refused(openai.AuthenticationError, lambda: stranger.responses.create(model="fake", input="x"))
        refused(openai.NotFoundError, lambda: other.responses.retrieve(mine.id))
        refused(openai.NotFoundError, lambda: c.responses.create(model="nobody", input="x"))
        error = refused(openai.BadRequestError, lambda: c.responses.create(model="fake", input="x", tools=[{"type": "web_search"}]))
        assert error.param == "tools" and "web_search" in error.message, error
        image = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"}]}]
        assert "input_image" in refused(openai.BadRequestError, lambda: c.responses.create(model="fake", input=image)).message


def test_every_field_of_the_package_is_known():
    """A field that would be passed over in silence would change nothing that its sender asked to change."""
    from openai.types.responses import response_create_params as params
    known = set(params.ResponseCreateParamsBase.__annotations__)
    assert {"input", "text", "reasoning"} <= known
    with Echo(THINK) as e, client(e):
        for name in sorted(known - {"input", "model"}):
            status, answer = e.post("/v1/responses", {"model": "fake", "input": "x", "max_output_tokens": 1, name: [[1]]})
            passed = {"safety_identifier", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "max_tool_calls", "stream_options"}
            assert (status == 200) == (name in passed), (name, answer)
            assert status == 200 or name in answer["error"]["message"], (name, answer)


def test_a_model_answers():
    """Limits, prefixes from the cache, forced calls and forms, of a real model; in the background, and followed from any event on."""
    with Serve(args=["--tool-call-parser", "hermes"]) as s, client(s) as c:
        model = c.models.list().data[0].id
        say = dict(model=model, instructions="You are brief.", input="Hello! Who are you? " * 20, temperature=0, max_output_tokens=24)
        plain = c.responses.create(**say)
        again = c.responses.create(**say)
        assert again.output_text == plain.output_text and again.usage.input_tokens_details.cached_tokens > 0, again.usage
        with c.responses.stream(**say) as stream:
            assert "".join(x.delta for x in stream if x.type == "response.output_text.delta") == plain.output_text
        short = c.responses.create(**dict(say, max_output_tokens=2))
        assert short.status == "incomplete" and short.incomplete_details.reason == "max_output_tokens" and short.usage.output_tokens == 2, short
        told = c.responses.create(**dict(say, top_logprobs=2, include=["message.output_text.logprobs"]))
        entries = told.output[0].content[0].logprobs
        assert "".join(x.token for x in entries).startswith(plain.output_text) and all(len(x.top_logprobs) == 2 for x in entries), entries
        for choice, names in [("required", {"get_weather", "get_news"}), ({"type": "function", "name": "get_news"}, {"get_news"})]:
            forced = dict(model=model, input="Hello!", tools=TOOLS, tool_choice=choice, max_output_tokens=120, parallel_tool_calls=False, extra_body={"seed": 11})
            whole = c.responses.create(**forced)
            assert [i.type for i in whole.output] == ["function_call"], whole
            call = whole.output[0]
            assert call.name in names and set(json.loads(call.arguments)) == {"city", "days"}, call
            with c.responses.stream(**forced) as stream:
                assert items(stream.get_final_response()) == items(whole)

        class Trip(pydantic.BaseModel):
            stays: bool
            nights: Literal[1, 7, 14]

        parsed = c.responses.parse(model=model, input="Hello!", text_format=Trip)
        assert isinstance(parsed.output_parsed, Trip), parsed
        with c.responses.stream(model=model, input="Hello!", text_format=Trip) as stream:
            assert isinstance(stream.get_final_response().output_parsed, Trip)

        runs = c.responses.create(**say, background=True)
        end = time.monotonic() + 60
        while runs.status == "in_progress" and time.monotonic() < end:
            time.sleep(0.05)
            runs = c.responses.retrieve(runs.id)
        assert runs.status == "completed" and runs.output_text == plain.output_text, runs
        events = list(c.responses.create(**say, background=True, stream=True))
        tail = list(c.responses.retrieve(events[0].response.id, stream=True, starting_after=5))
        assert tail == events[6:] and tail[-1].response.output_text == plain.output_text, tail
        long = c.responses.create(**dict(say, background=True, max_output_tokens=None, extra_body={"ignore_eos": True}))
        assert c.responses.cancel(long.id).status == "cancelled"
        assert c.responses.retrieve(long.id).status == "cancelled"
