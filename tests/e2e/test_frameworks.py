"""Frameworks over OpenAI's API, unchanged: LangChain's structured output in its three ways and on responses, instructor's modes."""
from typing import Literal

from run import Skip
from serve import Serve
from test_tools import Echo

try:
    import instructor
    import openai
    import pydantic
    from langchain_openai import ChatOpenAI
except ImportError:
    instructor = None

SAYS = '{"stays": true, "nights": 7}'


def needs():
    if instructor is None:
        raise Skip("frameworks", "LangChain and instructor are not installed")

    class Trip(pydantic.BaseModel):  # says nothing of other members
        """A trip."""
        stays: bool
        nights: Literal[1, 7, 14]
    return Trip


def chat(server, model, **more):
    return ChatOpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", model=model, max_retries=0, temperature=1, seed=11, max_tokens=200, **more)


def model_of(server):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none").models.list().data[0].id


def test_langchain_structured_output():
    """A model that writes nonsense must give the form, because it is held to it."""
    Trip = needs()
    with Serve(args=["--tool-call-parser", "hermes"]) as s:
        llm = chat(s, model_of(s))
        for method in ("function_calling", "json_schema"):
            told = llm.with_structured_output(Trip, method=method, include_raw=True).invoke("Hello!")
            assert isinstance(told["parsed"], Trip), (method, told)
        strict = llm.with_structured_output(Trip, method="json_schema", strict=True).invoke("Hello!")
        assert isinstance(strict, Trip), strict
        streamed = list(llm.with_structured_output(Trip, method="json_schema").stream("Hello!"))
        assert isinstance(streamed[-1], Trip), streamed
        pieces = "".join(str(p.content) for p in llm.stream("Hello!"))
        assert pieces == llm.invoke("Hello!").content, pieces
    # an object of any kind is all that this one asks for, so the words are given
    with Echo("x", source="{# x #}" + SAYS) as e:
        told = chat(e, "fake").with_structured_output(Trip, method="json_mode").invoke("Answer in JSON.")
        assert (told.stays, told.nights) == (True, 7), told


def test_langchain_on_responses():
    Trip = needs()
    with Serve(args=["--tool-call-parser", "hermes"]) as s:
        model = model_of(s)
        llm = ChatOpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="none", model=model, max_retries=0, use_responses_api=True,
                         temperature=0, max_tokens=200, output_version="responses/v1")
        first = llm.invoke("Hello!")
        assert first.text and first.response_metadata["id"].startswith("resp_"), first
        assert llm.invoke("And?", previous_response_id=first.response_metadata["id"]).text
        assert "".join(p.text for p in llm.stream("Hello!")) == first.text
        assert isinstance(llm.with_structured_output(Trip, method="json_schema").invoke("Hello!"), Trip)
        called = llm.bind_tools([Trip], tool_choice="Trip").invoke("Hello!").tool_calls
        assert called and isinstance(Trip(**called[0]["args"]), Trip), called


def test_instructor_modes():
    Trip = needs()
    with Serve(args=["--tool-call-parser", "hermes"]) as s:
        plain = openai.OpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="none", max_retries=0)
        model = plain.models.list().data[0].id
        for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
            told = instructor.from_openai(plain, mode=mode).chat.completions.create(
                model=model, response_model=Trip, messages=[{"role": "user", "content": "Hello!"}], max_retries=0, max_tokens=200, seed=11)
            assert isinstance(told, Trip), (mode, told)
    with Echo("x", source="{# x #}" + SAYS) as e:
        plain = openai.OpenAI(base_url=f"http://127.0.0.1:{e.port}/v1", api_key="none", max_retries=0)
        told = instructor.from_openai(plain, mode=instructor.Mode.JSON).chat.completions.create(
            model="fake", response_model=Trip, messages=[{"role": "user", "content": "Hello!"}], max_retries=0)
        assert (told.stays, told.nights) == (True, 7), told
