"""Unchanged client of Cohere's API: embeddings and rerank of version 2, and how a refusal reaches it."""
import importlib.metadata
import json

from run import Skip
from serve import Serve

try:
    import cohere
except ImportError:
    cohere = None


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
