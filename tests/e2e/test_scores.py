"""How likely tokens are, and classes: labels behind prompts, the cross-entropy of a text, classifiers and rerankers, against `trireme logits` and
transformers."""
import json
import math
import shutil
import tempfile
from pathlib import Path

from serve import Serve
from test_echo import TEXT, ids_of, log_probabilities

GOLDENS = Path(__file__).resolve().parents[1] / "goldens" / "embeddings"


def expected(kind):
    """The goldens that have what is asked for: {name: what is expected}."""
    found = {n: w for n, w in json.loads((GOLDENS / "expected.json").read_text()).items() if kind in w}
    assert found, f"there are no goldens with {kind}"
    return found


def near(a, b, most=1e-4):
    return len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < most


def test_labels():
    """Of each label the probability that the model's logits give it, behind texts and behind ids, whatever comes first."""
    query, items = "One day, a little girl named", [" Lily", " Tim went"]
    with Serve() as s:
        labels = [ids_of(s, t)[0] for t in (" found", " went", ".")]
        prompts = [ids_of(s, query, special=True) + ids_of(s, i) for i in items]
        plain = [[math.exp(log_probabilities([*p, label])[-1][0]) for label in labels] for p in prompts]
        shares = [[x / sum(row) for x in row] for row in plain]
        body = {"query": query, "items": items, "label_token_ids": labels}
        for apart, wanted in ((True, shares), (False, plain)):
            status, got, _ = s.post("/generative_scoring", {**body, "apply_softmax": apart})
            assert status == 200 and got["object"] == "list" and [d["index"] for d in got["data"]] == [0, 1], got
            assert near([d["score"] for d in got["data"]], [w[0] for w in wanted]), (got, wanted)
            usage = got["usage"]
            assert usage["prompt_tokens"] == sum(map(len, prompts)) and usage["completion_tokens"] == 2, usage
        status, got, _ = s.post("/v1/score", {**body, "apply_softmax": True})
        assert status == 200 and got["object"] == "scoring" and all(near(a, b) for a, b in zip(got["scores"], shares)), (got, shares)
        got = s.post("/score", body)[1]["scores"]
        assert all(near(a, b) for a, b in zip(got, plain)), (got, plain)
        ids = {"query": prompts[0][:3], "items": [p[3:] for p in (prompts[0], prompts[0] + [labels[0]])], "label_token_ids": labels[:1]}
        got = s.post("/generative_scoring", {**ids, "apply_softmax": False})[1]["data"]
        assert abs(got[0]["score"] - plain[0][0]) < 1e-4, (got, plain)
        swapped = {"query": prompts[0][3:], "items": [prompts[0][:3]], "label_token_ids": labels[:1], "item_first": True, "apply_softmax": False}
        assert s.post("/generative_scoring", swapped)[1]["data"][0]["score"] == got[0]["score"]
        one = s.post("/generative_scoring", {**body, "items": items[:1], "label_token_ids": labels[:1]})[1]["data"]
        assert one[0]["score"] == 1, one
        for more, param in (({"label_token_ids": []}, "label_token_ids"), ({"label_token_ids": [1 << 30]}, "label_token_ids"), ({"items": []}, "items"),
                            ({"query": None}, "query"), ({"items": [1, 2]}, "items"), ({"label_token_ids": None}, "label_token_ids"),
                            ({"items": ["x"] * 2048}, "items"), ({"items": ["a " * 9000]}, "items")):
            status, got, _ = s.post("/generative_scoring", {**body, **more})
            assert status == 400 and got["error"]["param"] == param, (str(more)[:99], got)


def test_cross_entropy():
    with Serve() as s:
        ids = ids_of(s, TEXT, special=True)
        wanted = -sum(p for p, _ in log_probabilities(ids)) / (len(ids) - 1)
        for given in (TEXT, ids):
            status, got, _ = s.post("/get_ppl", {"input": given})
            assert status == 200 and abs(got["ppl"] - wanted) < 1e-4, (got, wanted)
        for body in ({}, {"input": [5]}, {"input": 7}, {"input": [[1], [2]]}):
            status, got, _ = s.post("/get_ppl", body)
            assert status == 400 and got["error"]["param"] == "input", (body, got)


def test_classes():
    """Labels by name, their probabilities as the files want them, and all of them bare: against transformers."""
    for name, want in expected("classes").items():
        with Serve(model=GOLDENS / name, args=["--compute", "f32"]) as s:
            status, got, _ = s.post("/classify", {"input": want["texts"]})
            assert status == 200, (name, got)
            for d, probs in zip(got["data"], want["classes"]):
                assert near(d["probs"], probs) and d["num_classes"] == len(probs), (name, d, probs)
                assert d["label"] == want["labels"][probs.index(max(probs))], (name, d, probs)
            bare = s.post("/classify", {"input": want["texts"], "use_activation": False})[1]["data"]
            assert all(near(d["probs"], values) for d, values in zip(bare, want["values"])), (name, bare)
            for task in ({}, {"task": "classify"}):
                pooled = s.post("/pooling", {"input": want["texts"], **task})[1]["data"]
                assert all(near(p["data"], d["probs"], 1e-9) for p, d in zip(pooled, got["data"])), (name, pooled)
            for path, body, text in (("/pooling", {"input": "x", "task": "embed"}, "/classify"), ("/v1/embeddings", {"input": "x"}, "/classify"),
                                     ("/v1/score", {"text_1": "a", "text_2": "b"}, "labels"), ("/pooling", {"input": "x", "dimensions": 2}, "dimensions")):
                status, answer, _ = s.post(path, body)
                assert status == 400 and text in answer["error"]["message"], (name, path, answer)


def test_rerankers_that_write():
    """The share of "yes" behind the model's template: against transformers."""
    for name, want in expected("judged").items():
        with Serve(model=GOLDENS / name, args=["--compute", "f32", *want["args"]]) as s:
            first, second = [p[0] for p in want["judged"]], [p[1] for p in want["judged"]]
            status, got, _ = s.post("/v1/score", {"text_1": first, "text_2": second})
            assert status == 200 and near([d["score"] for d in got["data"]], want["scores"]), (name, got, want["scores"])
            status, got, _ = s.post("/v1/score", {"text_1": first, "text_2": second, "instruction": want["instruction"]})
            if want["instructed"]:
                assert near([d["score"] for d in got["data"]], want["instructed"]), (name, got, want["instructed"])
            else:
                assert status == 400 and got["error"]["param"] == "instruction", got
            ranked = s.post("/v1/rerank", {"query": first[0], "documents": second, "top_n": 2})[1]["results"]
            assert len(ranked) == 2 and ranked[0]["relevance_score"] >= ranked[1]["relevance_score"], ranked
            status, got, _ = s.post("/v1/completions", {"prompt": "x", "max_tokens": 1})
            assert status == 400 and "writes no text" in got["error"]["message"], got
            # a document that is cut leaves the template whole: what fits is scored as itself
            frame = s.post("/v1/score", {"text_1": "fox", "text_2": "a"})[1]["usage"]["prompt_tokens"]
            cut = s.post("/v1/score", {"text_1": "fox", "text_2": "fox " * 400, "truncate_prompt_tokens": frame + 20})[1]
            fits = [s.post("/v1/score", {"text_1": "fox", "text_2": "fox " * n + tail})[1] for n in range(1, 24) for tail in ("", "f", "fo", "fox")]
            assert cut["usage"]["prompt_tokens"] <= frame + 20 and any(abs(cut["data"][0]["score"] - f["data"][0]["score"]) < 1e-6 for f in fits), cut
            status, got, _ = s.post("/v1/score", {"text_1": "fox", "text_2": "fox", "truncate_prompt_tokens": 3})
            assert status == 400 and "without any text" in got["error"]["message"], got


def test_rerankers_by_their_modules():
    """The module LogitScore, as sentence-transformers saves it, in place of --score-tokens: of two tokens, of one, and without the sigmoid."""
    for name, want in expected("modules").items():
        both, one = want["modules"]["tokens"], {"true_token_id": want["modules"]["tokens"]["true_token_id"], "false_token_id": None}
        texts = {"text_1": [p[0] for p in want["judged"]], "text_2": [p[1] for p in want["judged"]]}
        for tokens, activation, scores in ((both, "torch.nn.modules.activation.Sigmoid", want["scores"]), (one, None, want["modules"]["of_one"]),
                                           (both, "torch.nn.modules.linear.Identity", want["modules"]["bare"])):
            with tempfile.TemporaryDirectory() as folder:
                shutil.copytree(GOLDENS / name, folder, dirs_exist_ok=True)
                files = {"modules.json": [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
                                          {"idx": 1, "name": "1", "path": "1_LogitScore", "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}],
                         "1_LogitScore/config.json": {**tokens, "module_input_name": "causal_logits"},
                         "config_sentence_transformers.json": {"model_type": "CrossEncoder", **({"activation_fn": activation} if activation else {})}}
                (Path(folder) / "1_LogitScore").mkdir()
                for file, content in files.items():
                    (Path(folder) / file).write_text(json.dumps(content))
                with Serve(model=folder, args=["--compute", "f32"]) as s:
                    status, got, _ = s.post("/v1/score", texts)
                    assert status == 200 and near([d["score"] for d in got["data"]], scores), (name, tokens, activation, got, scores)
                    status, got, _ = s.post("/v1/completions", {"prompt": "x", "max_tokens": 1})
                    assert status == 400 and "writes no text" in got["error"]["message"], got


def test_gguf_files():
    """Encoders as llama.cpp's converter writes them: the vectors and scores of the folders that they were made of."""
    from test_embeddings import floats, vectors
    for name, want in expected("of").items():
        folder = json.loads((GOLDENS / "expected.json").read_text())[want["of"]]
        with Serve(model=GOLDENS / name, args=["--compute", "f32"]) as s:
            if "vectors" in folder:
                most = 1e-4 * max(abs(x) for v in folder["vectors"] for x in v)
                for given in ("ids", "texts"):  # ids that are too long would be cut in another way
                    some = [(g, v) for g, i, v in zip(folder[given], folder["ids"], folder["vectors"]) if given == "texts" or len(i) < 60]
                    got = [floats(v) for v in vectors(s, [g for g, _ in some], truncate_prompt_tokens=-1)[0]]
                    wrong = [g for (g, v), a in zip(some, got) if not near(a, v, most)]
                    assert not wrong, (name, given, wrong)
            else:
                pairs = folder.get("pairs") or folder["judged"]
                got = s.post("/v1/score", {"text_1": [p[0] for p in pairs], "text_2": [p[1] for p in pairs]})[1]
                assert near([d["score"] for d in got["data"]], folder["scores"]), (name, got, folder["scores"])
