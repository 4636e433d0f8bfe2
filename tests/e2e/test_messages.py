"""Anthropic's messages as an unchanged anthropic-sdk-python asks for them and reads them."""
import json
import re
from typing import Literal

from run import Skip
from serve import Serve
from test_tools import SAYS, Echo

try:
    import anthropic
    import pydantic
except ImportError:
    anthropic = None

SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 10}, "days": {"type": "integer", "minimum": 1, "maximum": 14}},
          "required": ["city", "days"], "additionalProperties": False}
TOOLS = [{"name": name, "description": "d", "input_schema": SCHEMA} for name in ("get_weather", "get_news")]
THINK = "tool <tool_call> </think>"


def client(server, key="none"):
    """Closed by its with: a server that ends waits for connections that are kept."""
    if anthropic is None:
        raise Skip("anthropic", "the anthropic package is not installed")
    return anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.port}", api_key=key, max_retries=0)


def ask(says, **more):
    return dict(dict(model="fake", max_tokens=1000, messages=[{"role": "user", "content": says}]), **more)


def blocks(message):
    """What the blocks hold, without ids, which differ from answer to answer."""
    return [b.model_dump(exclude={"id", "signature"}) for b in message.content]


def refused(kind, call):
    try:
        call()
    except kind as e:
        return e
    raise AssertionError("it was taken")


def test_formats_streamed_and_whole():
    """The helper's own sums of the events are the whole answer; each event that it derives comes."""
    for marks, says in SAYS.items():
        with Echo(marks) as e, client(e) as c:
            whole = c.messages.create(**ask(says, tools=TOOLS))
            assert whole.type == "message" and whole.role == "assistant" and whole.model == "fake" and whole.id.startswith("msg_"), whole
            assert [b.type for b in whole.content] == ["thinking", "text", "tool_use"], (marks, whole)
            thought, text, call = whole.content
            assert (thought.thinking, text.text, call.name, call.input) == ("Rain?", "I look.", "get_weather", {"city": "Paris", "days": 2}), whole
            assert thought.signature and whole.stop_reason == "tool_use" and whole.stop_sequence is None, whole
            assert whole.usage.output_tokens_details.thinking_tokens > 0, whole.usage
            seen, pieces = [], ""
            with c.messages.stream(**ask(says, tools=TOOLS)) as stream:
                for event in stream:
                    seen.append(event.type)
                    pieces += event.partial_json if event.type == "input_json" else ""
                streamed = stream.get_final_message()
            assert blocks(streamed) == blocks(whole), (marks, streamed, whole)
            assert (streamed.stop_reason, streamed.usage.output_tokens) == ("tool_use", whole.usage.output_tokens), streamed
            assert json.loads(pieces) == call.input, pieces
            assert seen[0] == "message_start" and seen[-1] == "message_stop" and {"thinking", "signature", "text", "input_json", "message_delta"} <= set(seen), seen
            assert seen.count("content_block_start") == seen.count("content_block_stop") == 3, seen
    return f"{len(SAYS)} formats"


def test_a_conversation_goes_back_into_the_template():
    with Echo(THINK) as e, client(e) as c:
        first = c.messages.create(**ask(SAYS[THINK], tools=TOOLS))
        call = first.content[-1]
        history = [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": first.content},
                   {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "no rain"}]}]}]
        answer = c.messages.create(model="fake", max_tokens=100, messages=history, tools=TOOLS)
        assert [b.text for b in answer.content] == ["no rain"] and answer.stop_reason == "end_turn", answer
        count = c.messages.count_tokens(model="fake", messages=history, tools=TOOLS).input_tokens
        assert count == answer.usage.input_tokens + answer.usage.cache_read_input_tokens > 0, (count, answer.usage)


def test_errors_are_the_clients_own():
    with Echo(THINK, "--api-key", "secret") as e, client(e, "secret") as c, client(e) as stranger:
        assert c.messages.create(**ask("x"))._request_id
        error = refused(anthropic.AuthenticationError, lambda: stranger.messages.create(**ask("x")))
        assert error.body["error"]["type"] == "authentication_error", error.body
        error = refused(anthropic.NotFoundError, lambda: c.messages.create(**ask("x", model="nobody")))
        assert error.body["error"]["type"] == "not_found_error" and error.request_id == error.body["request_id"], error.body
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
        error = refused(anthropic.BadRequestError, lambda: c.messages.create(**ask([image])))
        assert error.body["type"] == "error" and "'image'" in error.body["error"]["message"], error.body
        error = refused(anthropic.BadRequestError, lambda: c.messages.count_tokens(model="fake", messages=[]))
        assert "'messages' is empty" in str(error), error
        with_tool = dict(tools=[{"type": "web_search_20250305", "name": "web_search"}])
        assert "web_search_20250305" in str(refused(anthropic.BadRequestError, lambda: c.messages.create(**ask("x", **with_tool))))


def test_a_model_answers():
    """Stops, limits, prefixes from the cache, forced calls and forms, of a real model."""
    with Serve(args=["--tool-call-parser", "hermes"]) as s, client(s) as c:
        listed = c.models.list()
        model = listed.data[0].id
        assert (listed.first_id, listed.last_id, listed.has_more) == (model, model, False), listed
        for told in (listed.data[0], c.models.retrieve(model)):
            assert (told.type, told.display_name, told.max_input_tokens) == ("model", model, 2048) and told.created_at.year > 2000, told
        more = dict(model=model, extra_body={"seed": 11, "temperature": 0}, system=[{"type": "text", "text": "You are brief."}])
        say = ask("Hello! Who are you? " * 20, **more)
        plain = c.messages.create(**dict(say, max_tokens=24))
        assert [b.type for b in plain.content] == ["text"] and plain.usage.output_tokens <= 24, plain
        again = c.messages.create(**dict(say, max_tokens=24))
        assert blocks(again) == blocks(plain) and again.usage.cache_read_input_tokens > 0, again.usage
        assert sum((again.usage.input_tokens, again.usage.cache_read_input_tokens)) == c.messages.count_tokens(
            model=model, system=say["system"], messages=say["messages"]).input_tokens
        with c.messages.stream(**dict(say, max_tokens=24)) as stream:
            assert "".join(stream.text_stream) == plain.content[0].text
        short = c.messages.create(**dict(say, max_tokens=2))
        assert short.stop_reason == "max_tokens" and short.usage.output_tokens == 2, short
        word = re.findall(r"\w+", plain.content[0].text)[1]
        cut = c.messages.create(**dict(say, max_tokens=24, stop_sequences=["\x01", word]))
        assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", word), cut
        assert "".join(b.text for b in cut.content) == plain.content[0].text.split(word)[0], (cut, plain)
        for choice, names in [({"type": "any", "disable_parallel_tool_use": True}, {"get_weather", "get_news"}), ({"type": "tool", "name": "get_news"}, {"get_news"})]:
            forced = dict(ask("Hello!", **more), tools=TOOLS, tool_choice=choice, max_tokens=120, extra_body={"seed": 11, "temperature": 1})
            whole = c.messages.create(**forced)
            assert [b.type for b in whole.content] == ["tool_use"] and whole.stop_reason == "tool_use", whole
            call = whole.content[0]
            assert call.name in names and set(call.input) == {"city", "days"} and 1 <= call.input["days"] <= 14, call
            with c.messages.stream(**forced) as stream:
                assert blocks(stream.get_final_message()) == blocks(whole)

        class Trip(pydantic.BaseModel):
            stays: bool
            nights: Literal[1, 7, 14]

        # the package hands on no bounds of numbers, so the form has none
        parsed = c.messages.parse(**dict(ask("Hello!", **more), output_format=Trip)).parsed_output
        assert isinstance(parsed, Trip), parsed
