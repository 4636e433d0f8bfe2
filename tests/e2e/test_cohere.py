"""Unchanged clients: of Cohere's API (embeddings and rerank of version 2, and how a refusal reaches it), and of TGI's, huggingface_hub, which
comes with it."""
import importlib.metadata
import json

from run import Skip
from serve import Serve

try:
    import cohere
except ImportError:
    cohere = None
try:
    import huggingface_hub
    from huggingface_hub.errors import ValidationError
except ImportError:
    huggingface_hub = None


def test_embed_and_rerank():
    if cohere is None:
        raise Skip("cohere", "the cohere package is not installed")
    with Serve(args=["--pooling", "mean"]) as s:
        client = cohere.ClientV2(api_key="none", base_url=f"http://127.0.0.1:{s.port}")
        model = json.loads(s.get("/v1/models")[1])["data"][0]["id"]
        texts = ["A fox", "Once upon a time", "the fox"]
        told = client.embed(model=model, texts=texts, input_type="search_document", embedding_types=["float"])
        vectors = told.embeddings.float_
        assert len(vectors) == 3 and told.texts == texts and len({len(v) for v in vectors}) == 1, told
        plain = [d["embedding"] for d in s.post("/v1/embeddings", {"input": texts})[1]["data"]]
        assert vectors == plain
        assert told.meta.billed_units.input_tokens > 0 and "input_type" in told.meta.warnings[0], told.meta
        short = client.embed(model=model, texts=["x " * 9000], input_type="search_query", embedding_types=["float"], output_dimension=4, truncate="START")
        assert len(short.embeddings.float_[0]) == 4, short
        best = client.rerank(model=model, query="A fox", documents=texts, top_n=2).results
        assert best[0].index == 0 and len(best) == 2 and best[0].relevance_score >= best[1].relevance_score, best
        for call in (lambda: client.embed(model=model, texts=texts, input_type="image", embedding_types=["float"]),
                     lambda: client.rerank(model=model, query="A fox", documents=[])):
            try:
                call()
            except cohere.errors.BadRequestError as error:
                assert error.body["message"], error
            else:
                raise AssertionError("it was taken")
    return f"cohere {importlib.metadata.version('cohere')}"


def test_text_generation_of_huggingface_hub():
    if huggingface_hub is None:
        raise Skip("huggingface_hub", "the Python package is not here")
    with Serve() as s:
        whole = s.post("/generate", {"inputs": "Once upon a time", "parameters": {"max_new_tokens": 12}})[1]["generated_text"]
        for path in ("", "/generate", "/generate_stream"):
            client = huggingface_hub.InferenceClient(model=f"http://127.0.0.1:{s.port}{path}", token="none")
            ask = lambda **fields: client.text_generation("Once upon a time", **{"max_new_tokens": 12, "return_full_text": False} | fields)  # noqa: E731
            assert "".join(ask(stream=True)) == whole, path
            events = list(ask(stream=True, details=True, top_n_tokens=2))
            assert len(events) == 12 and events[-1].details.finish_reason == "length" and events[-1].generated_text == whole, events
            assert all(e.details is None and len(e.top_tokens) == 2 for e in events[:-1]), events
            if path == "/generate_stream":
                continue
            assert ask() == whole
            told = ask(details=True, seed=3, temperature=0.7, best_of=2, decoder_input_details=True)
            assert told.details.seed == 3 and len(told.details.tokens) == told.details.generated_tokens == 12 and told.details.prefill[1].logprob < 0, told
            assert len(told.details.best_of_sequences) == 1, told
            try:
                ask(watermark=True)
            except ValidationError as error:
                assert "watermark" in str(error), error
            else:
                raise AssertionError("it was taken")
        full = huggingface_hub.InferenceClient(model=f"http://127.0.0.1:{s.port}", token="none").text_generation("Once upon a time", max_new_tokens=12)
        assert full == "Once upon a time" + whole, full
    return f"huggingface_hub {importlib.metadata.version('huggingface_hub')}"
