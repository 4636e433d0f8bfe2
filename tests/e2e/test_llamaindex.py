"""LiteLLM and LlamaIndex, unchanged: text, streams, structured output, tool calls, embeddings."""
import asyncio
import os

from run import Skip
from serve import Serve

try:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm
    import pydantic
    from llama_index.core.llms import ChatMessage
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding
    from llama_index.llms.openai_like import OpenAILike
except ImportError:
    litellm = None

HELLO = [{"role": "user", "content": "Hello!"}]
TOOL = {"type": "function", "function": {"name": "book", "parameters": {"type": "object", "properties": {"nights": {"enum": [1, 7]}}, "required": ["nights"], "additionalProperties": False}}}


def needs():
    if litellm is None:
        raise Skip("llamaindex", "LiteLLM and LlamaIndex are not installed")

    class Trip(pydantic.BaseModel):
        """A trip."""
        stays: bool
        nights: int = pydantic.Field(ge=1, le=14)
    return Trip


def test_litellm():
    Trip = needs()
    with Serve(args=["--tool-call-parser", "hermes", "--served-model-name", "demo"]) as s:
        base = {"model": "openai/demo", "api_base": f"http://127.0.0.1:{s.port}/v1", "api_key": "none", "max_retries": 0, "temperature": 0, "max_tokens": 200}
        whole = litellm.completion(messages=HELLO, **base).choices[0].message.content
        assert whole and "".join(c.choices[0].delta.content or "" for c in litellm.completion(messages=HELLO, stream=True, **base)) == whole
        told = litellm.completion(messages=HELLO, response_format=Trip, **base).choices[0].message.content
        assert isinstance(Trip.model_validate_json(told), Trip), told
        call = litellm.completion(messages=HELLO, tools=[TOOL], tool_choice="required", **base).choices[0].message.tool_calls[0]
        assert call.function.name == "book" and "nights" in call.function.arguments, call
        text = litellm.text_completion(prompt="Once upon", **{**base, "model": "text-completion-openai/demo", "max_tokens": 9})
        assert text.choices[0].text and text.usage.completion_tokens == 9, text
        try:
            litellm.completion(messages=HELLO, **{**base, "model": "openai/nobody"})
            raise AssertionError("a model that is not there was found")
        except litellm.NotFoundError:
            pass


def test_llamaindex():
    Trip = needs()
    with Serve(args=["--tool-call-parser", "hermes", "--served-model-name", "demo"]) as s:
        llm = OpenAILike(model="demo", api_base=f"http://127.0.0.1:{s.port}/v1", api_key="none", is_chat_model=True, is_function_calling_model=True,
                         max_retries=0, temperature=0, max_tokens=60, context_window=2048)
        messages = [ChatMessage(role="user", content="Hello!")]
        whole = llm.chat(messages).message.content
        assert whole and list(llm.stream_chat(messages))[-1].message.content == whole
        assert asyncio.run(llm.achat(messages)).message.content == whole
        assert isinstance(llm.as_structured_llm(Trip).chat(messages).raw, Trip)
        plain = OpenAILike(model="demo", api_base=f"http://127.0.0.1:{s.port}/v1", api_key="none", is_chat_model=False, max_retries=0, temperature=0, max_tokens=9, context_window=2048)
        said = plain.complete("Once upon").text
        assert said and list(plain.stream_complete("Once upon"))[-1].text == said


def test_embeddings_of_litellm_and_llamaindex():
    needs()
    with Serve(args=["--pooling", "last", "--served-model-name", "demo"]) as s:
        base = f"http://127.0.0.1:{s.port}/v1"
        one = litellm.embedding(model="openai/demo", input=["A fox", "A dog"], api_base=base, api_key="none").data
        index = OpenAILikeEmbedding(model_name="demo", api_base=base, api_key="none", max_retries=0)
        two = index.get_text_embedding_batch(["A fox", "A dog"])
        assert len(two) == 2 and two[0] != two[1], two
        for a, b in zip(one, two):
            assert max(abs(x - y) for x, y in zip(a["embedding"], b)) < 1e-6
        assert max(abs(x - y) for x, y in zip(index.get_query_embedding("A fox"), two[0])) < 1e-6
