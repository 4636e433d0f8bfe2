"""Embeddings over real processes: by OpenAI's client unchanged, the same bits after a kill, and in every dialect's shape."""
import base64
import json
import math
import os
import signal
import struct
import threading
from pathlib import Path

from run import Skip
from serve import Serve

try:
    import openai
except ImportError:
    openai = None

TEXTS = [f"{words} number {i}" for i in range(12) for words in ("Once upon a time " * (1 + i * 3), "A fox")]


def floats(text):
    data = base64.b64decode(text)
    return struct.unpack(f"<{len(data) // 4}f", data)


def vectors(server, texts, timeout=120, **more):
    """As bytes, so that one bit counts."""
    status, body, _ = server.post("/v1/embeddings", {"input": texts, "encoding_format": "base64", **more}, timeout=timeout)
    assert status == 200, body
    assert [d["index"] for d in body["data"]] == list(range(len(body["data"])))
    return [d["embedding"] for d in body["data"]], body["usage"]


def length(vector):
    return math.sqrt(sum(x * x for x in vector))


def test_openai_client():
    if openai is None:
        raise Skip("openai", "the openai package is not installed")
    with Serve(args=["--pooling", "last"]) as s:
        c = openai.OpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="none", max_retries=0)
        model = c.models.list().data[0].id
        answer = c.embeddings.create(model=model, input=["Once upon a time", "A fox"])
        assert answer.object == "list" and [d.index for d in answer.data] == [0, 1]
        assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0 and answer.model == model
        for d in answer.data:
            assert abs(length(d.embedding) - 1) < 1e-5
        plain = c.embeddings.create(model=model, input="A fox", encoding_format="float").data[0].embedding
        assert max(abs(a - b) for a, b in zip(plain, answer.data[1].embedding)) < 1e-6
        short = c.embeddings.create(model=model, input="A fox", dimensions=16).data[0].embedding
        cut = plain[:16]
        assert len(short) == 16 and max(abs(a - b / length(cut)) for a, b in zip(short, cut)) < 1e-5
        ids = s.post("/tokenize", {"prompt": "A fox"})[1]["tokens"]
        by_ids = c.embeddings.create(model=model, input=ids, encoding_format="float").data[0].embedding
        assert by_ids == plain
        lists = c.embeddings.create(model=model, input=[ids, ids[:2]], encoding_format="float").data
        assert lists[0].embedding == plain and lists[1].embedding != plain
        many = c.embeddings.create(model=model, input=[f"text {i}" for i in range(600)])
        assert len(many.data) == 600 and len({tuple(d.embedding) for d in many.data}) == 600


def test_same_bits_alone_batched_and_after_kills():
    """Chunks of eight rows, a worker and the scheduler killed in the midst: every vector as it was alone."""
    for pooling in ("last", "mean"):
        slow = ["--pooling", pooling, "--max-step-tokens", "8", "--min-step-ms", "20", "--slots", "6"]
        with Serve(args=["--pooling", pooling]) as s:
            alone = [vectors(s, t)[0][0] for t in TEXTS]
            assert vectors(s, TEXTS)[0] == alone
        with Serve(args=slow) as s:
            for _ in range(5):  # on a busy machine all may be over before the second kill
                in_the_midst, got = vectors_after_kills(s)
                assert got == alone, pooling
                if in_the_midst:
                    break
            assert in_the_midst, "all was over before the kills, five times"


def vectors_after_kills(s):
    """Asks for the vectors of TEXTS and kills the worker, then the scheduler: (whether the answer was not there at either kill, the vectors)."""
    answers, in_the_midst = {}, True

    def ask():
        answers["got"] = vectors(s, TEXTS, timeout=110)[0]

    def steps():
        return s.metrics("scheduler").get("trireme_scheduler_steps_total", 0)
    asker = threading.Thread(target=ask)
    asker.start()
    for role in ("worker", "scheduler"):
        before = steps()
        s.wait(lambda: steps() > before + 10 or not asker.is_alive(), 20, "steps")
        in_the_midst &= asker.is_alive()
        victim = s.pids(role)[0]
        os.kill(victim, signal.SIGKILL)
        s.wait(lambda: s.pids(role) and victim not in s.pids(role), 20, f"another {role}")
        s.wait(lambda: s.get("/health/ready")[0] == 200, 30, "ready again")
    asker.join(110)
    return in_the_midst, answers["got"]


def test_dialects():
    with Serve(args=["--pooling", "mean"]) as s:
        plain = floats(vectors(s, "A fox")[0][0])
        raw = floats(vectors(s, "A fox", normalize=False)[0][0])
        assert abs(length(plain) - 1) < 1e-5 and abs(length(raw) - 1) > 1e-3
        near = lambda a, b: len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < 1e-6 * max(map(abs, b))  # noqa: E731
        status, body, _ = s.post("/embedding", {"content": ["A fox", "x"]})
        assert status == 200 and [b["index"] for b in body] == [0, 1] and near(body[0]["embedding"][0], plain)
        status, body, _ = s.post("/embeddings", {"content": "A fox", "embd_normalize": -1})
        assert status == 200 and near(body[0]["embedding"][0], raw)
        status, body, _ = s.post("/api/embed", {"model": "", "input": ["x", "A fox"], "keep_alive": "5m"})
        assert status == 200 and near(body["embeddings"][1], plain) and body["prompt_eval_count"] > 0 and body["total_duration"] > 0
        status, body, _ = s.post("/pooling", {"input": ["x", "A fox"], "task": "embed"})
        assert status == 200 and body["object"] == "list" and body["created"] and near(body["data"][1]["data"], plain), body
        status, body, _ = s.post("/v2/embed", {"model": "", "texts": ["x", "A fox"], "input_type": "search_query", "embedding_types": ["float"]})
        assert status == 200 and near(body["embeddings"]["float"][1], plain) and body["texts"] == ["x", "A fox"], body
        assert body["meta"]["billed_units"]["input_tokens"] > 0 and "input_type" in body["meta"]["warnings"][0], body
        status, body, _ = s.post("/v2/embed", {"texts": ["A fox"], "embedding_types": ["base64"], "output_dimension": 8})
        assert status == 200 and len(floats(body["embeddings"]["base64"][0])) == 8 and "warnings" not in body["meta"], body
        status, body, _ = s.post("/v2/embed", {"texts": [], "input_type": "search_query"})
        assert status == 400 and list(body) == ["message"] and "'texts'" in body["message"], body
        status, body, _ = s.post("/classify", {"input": "A fox"})
        assert status == 400 and "no classes" in body["error"]["message"], body
        status, body, _ = s.post("/api/embeddings", {"prompt": "A fox"})
        assert status == 200 and near(body["embedding"], raw)


def test_refusals():
    width = 256
    with Serve(args=["--pooling", "mean", "--max-context", "64"]) as s:
        for body, param, text in (
            ({}, "input", "missing"), ({"input": []}, "input", "empty"), ({"input": [[]]}, "input", "empty"),
            ({"input": 7}, "input", "string"), ({"input": ["x", 3]}, "input", "string"), ({"input": [3, "x"]}, "input", "integer"),
            ({"input": ["x", [3]]}, "input", "string"), ({"input": ["x"] * 2049}, "input", "2048"), ({"input": [1 << 30]}, "input", "ids below"),
            ({"input": "x", "encoding_format": "int8"}, "encoding_format", "float or base64"),
            ({"input": "x", "dimensions": 0}, "dimensions", "between"), ({"input": "x", "dimensions": width + 1}, "dimensions", str(width)),
            ({"input": "x", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens", "-1"),
            ({"input": "x", "truncate_prompt_tokens": 65}, "truncate_prompt_tokens", "64"),
            ({"input": "x", "input_type": "query"}, "input_type", "not offered"), ({"input": "x", "user": 3}, "user", "string"),
            ({"input": "x " * 80}, "input", "context"),
        ):
            status, answer, _ = s.post("/v1/embeddings", body)
            assert status == 400 and answer["error"]["param"] == param and text in answer["error"]["message"], (str(body)[:80], answer)
        usage = vectors(s, "x " * 80, truncate_prompt_tokens=-1)[1]
        assert usage["prompt_tokens"] == 64
        assert vectors(s, "x " * 80, truncate_prompt_tokens=10)[1]["prompt_tokens"] == 10
        ids = list(range(100, 180))
        first, last = vectors(s, ids[:10])[0], vectors(s, ids[-10:])[0]
        assert first != last
        assert vectors(s, ids, truncate_prompt_tokens=10)[0] == first
        assert vectors(s, ids, truncate_prompt_tokens=10, truncation_side="left")[0] == last
        assert s.post("/api/embed", {"input": "x " * 80})[0] == 200
        assert s.post("/api/embed", {"input": "x " * 80, "truncate": False})[0] == 400
        assert s.post("/v1/embeddings", {"input": list(range(100, 164))})[0] == 200  # the whole context
    with Serve() as s:
        status, answer, _ = s.post("/v1/embeddings", {"input": "x"})
        assert status == 400 and "--pooling" in answer["error"]["message"]
        assert "error" in s.post("/api/embed", {"input": "x"})[1]


def test_goldens():
    """Tiny models as sentence-transformers saves them, against what it makes of the same texts."""
    goldens = Path(__file__).resolve().parents[1] / "goldens" / "embeddings"
    for name, want in json.loads((goldens / "expected.json").read_text()).items():
        if "vectors" not in want:
            continue
        with Serve(model=goldens / name, args=["--compute", "f32"]) as s:
            by_text = [floats(v) for v in vectors(s, want["texts"], truncate_prompt_tokens=-1)[0]]
            by_ids = [floats(v) for v in vectors(s, want["ids"], truncate_prompt_tokens=-1)[0]]
            worst = max(abs(a - b) for got, v in zip(by_text, want["vectors"]) for a, b in zip(got, v))
            assert worst < 1e-4 * max(abs(x) for v in want["vectors"] for x in v), (name, worst)
            assert by_text[:-1] == by_ids[:-1], name
            only = s.post("/v1/completions", {"prompt": "fox", "max_tokens": 1})
            assert only[0] == 400 and "embeddings" in only[1]["error"]["message"], only
            assert s.post("/api/show", {"model": name})[1]["capabilities"] == ["embedding"]
            assert json.loads(s.get("/server_info")[1])["is_embedding"] is True
            assert s.get("/health/e2e", timeout=20)[0] == 200


def test_rerank_and_score_by_cosine():
    goldens = Path(__file__).resolve().parents[1] / "goldens" / "embeddings"
    with Serve(model=goldens / "bert-mean") as s:
        documents = ["a lazy dog", "the quick brown fox", "numbers", "unicode text", "the fox"]
        query = floats(vectors(s, "the quick fox")[0][0])
        want = [sum(a * b for a, b in zip(query, floats(v))) for v in vectors(s, documents)[0]]
        order = sorted(range(len(want)), key=lambda i: -want[i])
        for path in ("/v1/rerank", "/rerank", "/v2/rerank", "/reranking"):
            status, body, _ = s.post(path, {"query": "the quick fox", "documents": documents})
            assert status == 200 and [r["index"] for r in body["results"]] == order, body
            assert all(abs(r["relevance_score"] - want[r["index"]]) < 1e-6 for r in body["results"])
            assert "document" not in body["results"][0] and body["usage"]["total_tokens"] > 0
        texts = [{"text": d} for d in documents]
        status, body, _ = s.post("/v1/rerank", {"query": "the quick fox", "documents": texts, "top_n": 2, "return_documents": True})
        assert [(r["index"], r["document"]["text"]) for r in body["results"]] == [(i, documents[i]) for i in order[:2]], body
        status, body, _ = s.post("/v1/score", {"text_1": "the quick fox", "text_2": documents})
        assert [d["index"] for d in body["data"]] == list(range(5)) and all(abs(d["score"] - w) < 1e-6 for d, w in zip(body["data"], want))
        status, body, _ = s.post("/score", {"text_1": documents, "text_2": documents})
        assert status == 200 and all(abs(d["score"] - 1) < 1e-6 for d in body["data"])
        for path, body, param in (
            ("/v1/rerank", {"query": "x"}, "documents"), ("/v1/rerank", {"documents": ["x"]}, "query"),
            ("/v1/rerank", {"query": ["x"], "documents": ["x"]}, "query"), ("/v1/rerank", {"query": "x", "documents": "x"}, "documents"),
            ("/v1/rerank", {"query": "x", "documents": []}, "documents"), ("/v1/rerank", {"query": "x", "documents": [{}]}, "documents"),
            ("/v1/rerank", {"query": "x", "documents": ["x"], "top_n": 0}, "top_n"),
            ("/v1/rerank", {"query": "x", "documents": ["x"] * 2049}, "documents"),
            ("/v1/score", {"text_1": ["a", "b"], "text_2": ["a", "b", "c"]}, "text_1"), ("/v1/score", {"text_1": "a"}, "text_2"),
        ):
            status, answer, _ = s.post(path, body)
            assert status == 400 and answer["error"]["param"] == param, (body, answer)


def test_cross_encoders_of_each_kind():
    """Segments, poolings and heads of every family, and a score that its files want as it is: against sentence-transformers' CrossEncoder."""
    goldens = Path(__file__).resolve().parents[1] / "goldens" / "embeddings"
    expected = {n: w for n, w in json.loads((goldens / "expected.json").read_text()).items() if "pairs" in w and n != "xlm-roberta-rank"}
    assert len(expected) >= 5
    for name, want in expected.items():
        first, second = [p[0] for p in want["pairs"]], [p[1] for p in want["pairs"]]
        with Serve(model=goldens / name, args=["--compute", "f32"]) as s:
            status, body, _ = s.post("/v1/score", {"text_1": first, "text_2": second})
            assert status == 200, (name, body)
            assert max(abs(d["score"] - w) for d, w in zip(body["data"], want["scores"])) < 1e-4, (name, body, want["scores"])
            ranked = s.post("/v1/rerank", {"query": first[0], "documents": second})[1]["results"]
            assert abs(next(r["relevance_score"] for r in ranked if r["index"] == 0) - want["scores"][0]) < 1e-4, (name, ranked)
            if name == "bert-rank":  # cut at either end, each token keeps its text's segment
                long = "the quick fox jumps over " * 20
                last = s.post("/v1/score", {"text_1": "fox", "text_2": long, "truncate_prompt_tokens": 20})[1]["data"][0]["score"]
                # [CLS] fox [SEP], 16 words, [SEP]
                whole = s.post("/v1/score", {"text_1": "fox", "text_2": " ".join(long.split()[:16])})[1]["data"][0]["score"]
                assert abs(last - whole) < 1e-6, (last, whole)


def test_cross_encoder():
    """One label for a pair, against sentence-transformers' CrossEncoder."""
    goldens = Path(__file__).resolve().parents[1] / "goldens" / "embeddings"
    want = json.loads((goldens / "expected.json").read_text())["xlm-roberta-rank"]
    with Serve(model=goldens / "xlm-roberta-rank", args=["--compute", "f32"]) as s:
        first, second = [p[0] for p in want["pairs"]], [p[1] for p in want["pairs"]]
        status, body, _ = s.post("/v1/score", {"text_1": first, "text_2": second})
        assert status == 200, body
        worst = max(abs(d["score"] - w) for d, w in zip(body["data"], want["scores"]))
        assert len({round(w, 3) for w in want["scores"]}) > 1 and worst < 1e-4, (worst, want["scores"], body)
        status, body, _ = s.post("/v1/rerank", {"query": first[0], "documents": second})
        scores = [r["relevance_score"] for r in body["results"]]
        assert scores == sorted(scores, reverse=True) and len(scores) == len(second)
        assert abs(next(r["relevance_score"] for r in body["results"] if r["index"] == 0) - want["scores"][0]) < 1e-4
        for name in ("use_activation", "activation"):  # without the sigmoid
            bare = s.post("/v1/score", {"text_1": first, "text_2": second, name: False})[1]["data"]
            assert max(abs(1 / (1 + math.exp(-d["score"])) - w) for d, w in zip(bare, want["scores"])) < 1e-4, bare
            ranked = s.post("/v1/rerank", {"query": first[0], "documents": second, name: False})[1]["results"]
            assert abs(next(r["relevance_score"] for r in ranked if r["index"] == 0) - bare[0]["score"]) < 1e-5, (ranked, bare)
        # one text alone: the pair's own tokens, and another score of the same kind
        ids = s.post("/tokenize", {"prompt": "the fox"})[1]["tokens"]
        status, body, _ = s.post("/classify", {"input": ["the fox", "a lazy dog"]})
        by_ids, raw = s.post("/classify", {"input": ids})[1], s.post("/classify", {"input": "the fox", "use_activation": False})[1]
        assert status == 200 and [d["num_classes"] for d in body["data"]] == [1, 1] and body["data"][0]["label"] == "LABEL_0", body
        assert by_ids["data"][0]["probs"] == body["data"][0]["probs"] and len({d["probs"][0] for d in body["data"]}) == 2, (by_ids, body)
        assert abs(1 / (1 + math.exp(-raw["data"][0]["probs"][0])) - body["data"][0]["probs"][0]) < 1e-6, (raw, body)
        status, body, _ = s.post("/v1/embeddings", {"input": "x"})
        assert status == 400 and "/v1/rerank" in body["error"]["message"]
        assert s.post("/v1/rerank", {"query": "fox", "documents": ["the fox " * 80]})[0] == 400
        assert s.post("/v1/rerank", {"query": "fox", "documents": ["the fox " * 80], "truncate_prompt_tokens": -1})[0] == 200
        status, body, _ = s.post("/v1/rerank", {"query": "fox " * 3000, "documents": ["a", "b"], "truncate_prompt_tokens": -1})
        assert status == 400 and "the query has" in body["error"]["message"], body  # no text would be left of any pair
        assert s.get("/health/e2e", timeout=20)[0] == 200
