#!/usr/bin/env python3
"""Compares embeddings and scores with sentence-transformers, on random tiny models of each kind that is served.

Each round draws a kind, its sizes, its pooling and its weights, saves it as sentence-transformers does, serves it, and asks for the vectors
of texts of many lengths: one by one, in one request, and cut to fewer dimensions. Cross-encoders score pairs. A vector agrees when no value
is off by more than 1e-4 of the largest one; a score, by 1e-4.

    python3 tests/tools/embedding_diff.py [--rounds N] [--seed N] [--trireme PATH] [KIND...]      (needs torch, transformers, sentence-transformers)
"""
import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "goldens" / "embeddings"), str(HERE.parent / "e2e")]
import make
import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.models import Dense, Normalize, Pooling, Transformer

TOLERANCE = 1e-4
ACTIVATIONS = ["gelu", "gelu_new", "relu"]


def sizes(rng, heads_of_two=False):
    heads = rng.choice([1, 2, 3, 4])
    return dict(hidden_size=heads * rng.choice([8, 12, 16, 24]), num_hidden_layers=rng.randrange(1, 5), num_attention_heads=heads,
                intermediate_size=rng.randrange(9, 80), hidden_act=rng.choice(ACTIVATIONS))


def bert(rng):
    tokens, vocab = make.wordpiece()
    return tokens, transformers.BertConfig(vocab_size=vocab, max_position_embeddings=64, layer_norm_eps=rng.choice([1e-12, 1e-5]), **sizes(rng))


def xlm_roberta(rng, **more):
    tokens, vocab = make.unigram()
    return tokens, transformers.XLMRobertaConfig(vocab_size=vocab, max_position_embeddings=66, type_vocab_size=1, layer_norm_eps=rng.choice([1e-12, 1e-5]), **sizes(rng), **more)


def qwen3(rng):
    tokens, vocab = make.byte_pairs()
    s = dict(sizes(rng), hidden_act="silu")
    kv = rng.choice([d for d in range(1, s["num_attention_heads"] + 1) if s["num_attention_heads"] % d == 0])
    return tokens, transformers.Qwen3Config(vocab_size=vocab, max_position_embeddings=256, num_key_value_heads=kv, head_dim=rng.choice([8, 16, 24]),
                                            tie_word_embeddings=rng.random() < 0.5, rope_theta=rng.choice([1e4, 1e6]), **s)


def modernbert(rng, **more):
    tokens, vocab = make.cls_and_sep()
    s = sizes(rng)
    s["hidden_activation"] = s.pop("hidden_act")
    return tokens, transformers.ModernBertConfig(vocab_size=vocab, max_position_embeddings=256, local_attention=rng.choice([2, 5, 12, 128]),
                                                 global_attn_every_n_layers=rng.choice([1, 2, 3]), norm_bias=rng.random() < 0.3,
                                                 attention_bias=rng.random() < 0.3, mlp_bias=rng.random() < 0.3, **make.IDS, **s, **more)


def gemma(rng):
    tokens, vocab = make.bos_and_eos()
    s = sizes(rng)
    s["hidden_activation"] = "gelu_pytorch_tanh" if s.pop("hidden_act") else ""
    kinds = ["sliding_attention", "full_attention"]
    return tokens, transformers.Gemma3TextConfig(vocab_size=vocab, max_position_embeddings=256, num_key_value_heads=1, head_dim=rng.choice([8, 16, 24]),
                                                 sliding_window=rng.choice([2, 7, 16, 512]), query_pre_attn_scalar=rng.choice([8, 16, 256]),
                                                 use_bidirectional_attention=True,
                                                 layer_types=[rng.choice(kinds) for _ in range(s["num_hidden_layers"])], **s)


def cross_encoder(rng, **more):
    kind = rng.choice([bert_scores, xlm_roberta, modernbert, qwen3_scores])
    if kind is modernbert:
        more |= dict(classifier_pooling=rng.choice(["cls", "mean"]), classifier_bias=rng.random() < 0.5, classifier_activation=rng.choice(["gelu", "silu"]))
    return kind(rng, **more)


def bert_scores(rng, **more):
    tokens, vocab = make.wordpiece()
    return tokens, transformers.BertConfig(vocab_size=vocab, max_position_embeddings=64, **sizes(rng), **more)


def qwen3_scores(rng, **more):
    tokens, config = qwen3(rng)
    config.num_labels, config.pad_token_id = more["num_labels"], 0
    return tokens, config


KINDS = {"bert": bert, "xlm-roberta": xlm_roberta, "qwen3": qwen3, "modernbert": modernbert, "gemma": gemma, "cross-encoder": cross_encoder}
POOLINGS = ["mean", "cls", "max", "lasttoken"]


def texts(rng, whole=True):
    words = make.WORDS + ["zebra", "7", "Ünï", "!", "42nd"]
    lengths = [1, 2, 3, 5, 8, 13, 20] + ([0] if whole else [])
    return [" ".join(rng.choice(words) for _ in range(n)) for n in lengths]


def build(rng, kind, folder):
    """Saves a model; returns what computes its reference and what it was."""
    score = kind == "cross-encoder"
    tokenizer, config = KINDS[kind](rng, num_labels=1) if score else KINDS[kind](rng)
    auto = transformers.AutoModelForSequenceClassification if score else transformers.AutoModel
    model = auto.from_config(config).eval()
    make.draw(model, rng.randrange(2**31))
    if score:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        if isinstance(config, transformers.BertConfig):
            make.add_field(os.path.join(folder, "tokenizer_config.json"), "model_input_names", ["input_ids", "token_type_ids", "attention_mask"])
        return CrossEncoder(folder, device="cpu"), "scores"
    way, normalize = rng.choice(POOLINGS), rng.random() < 0.5
    with tempfile.TemporaryDirectory() as plain:
        model.save_pretrained(plain)
        tokenizer.save_pretrained(plain)
        modules = [Transformer(plain), Pooling(config.hidden_size, pooling_mode=way)]
        width = config.hidden_size
        for _ in range(rng.choice([0, 0, 1, 2])):
            out_width = rng.randrange(5, 70)
            modules.append(Dense(width, out_width, bias=rng.random() < 0.5, activation_function=rng.choice([torch.nn.Identity(), torch.nn.Tanh(), torch.nn.GELU()])))
            make.draw(modules[-1], rng.randrange(2**31))
            width = out_width
        modules += [Normalize()] if normalize else []
        whole = SentenceTransformer(modules=modules, device="cpu")
        whole.save(folder)
    return whole, f"{way}{', normalized' if normalize else ''}"


def off(got, want):
    return max(abs(a - b) for a, b in zip(got, want)) / max(abs(b) for b in want)


def compare(server, kind, reference, rng):
    """The largest error."""
    if kind == "cross-encoder":
        drawn = [(rng.choice(texts(rng, False)), t) for t in texts(rng, False)]
        pairs = [p for p in drawn if len(reference.tokenizer(*p)["input_ids"]) <= 64]
        want = [float(x) for x in reference.predict(pairs, convert_to_numpy=True)]
        got = [d["score"] for d in server.post("/v1/score", {"text_1": [p[0] for p in pairs], "text_2": [p[1] for p in pairs]})[1]["data"]]
        query, documents = "a fox", [p[1] for p in pairs]
        ranked = {r["index"]: r["relevance_score"] for r in server.post("/v1/rerank", {"query": query, "documents": documents})[1]["results"]}
        scores = [float(x) for x in reference.predict([(query, d) for d in documents], convert_to_numpy=True)]
        return max([abs(a - b) for a, b in zip(got, want)] + [abs(ranked[i] - s) for i, s in enumerate(scores)])
    asked = [t for t in texts(rng, kind != "qwen3")]
    want = [reference.encode(t, convert_to_numpy=True).tolist() for t in asked]
    many = [d["embedding"] for d in server.post("/v1/embeddings", {"input": asked})[1]["data"]]
    worst = max(off(a, b) for a, b in zip(many, want))
    for i, text in enumerate(asked[:3]):
        assert server.post("/v1/embeddings", {"input": text})[1]["data"][0]["embedding"] == many[i], "alone and in a batch"
    cut = max(1, len(want[0]) // 2)
    short = [d["embedding"] for d in server.post("/v1/embeddings", {"input": asked, "dimensions": cut})[1]["data"]]
    by_peer = [reference.encode(t, convert_to_numpy=True, truncate_dim=cut).tolist() for t in asked]
    scaled = lambda v: [x / sum(y * y for y in v) ** 0.5 for x in v] if abs(sum(y * y for y in want[0]) - 1) < 1e-5 else v
    return max([worst] + [off(a, scaled(b)) for a, b in zip(short, by_peer)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--trireme", default=None)
    parser.add_argument("--compute", default="f32")
    parser.add_argument("kinds", nargs="*")
    args = parser.parse_args()
    if args.trireme:
        os.environ["TRIREME_BIN"] = args.trireme
    from serve import Serve
    torch.set_num_threads(1)
    rng, failed, worst = random.Random(args.seed), 0, {}
    print(f"seed {args.seed}", flush=True)
    for i in range(args.rounds):
        kind = rng.choice(args.kinds or list(KINDS))
        with tempfile.TemporaryDirectory() as folder:
            reference, what = build(rng, kind, folder)
            with Serve(model=folder, args=["--compute", args.compute]) as s:
                error = compare(s, kind, reference, rng)
        worst[kind] = max(worst.get(kind, 0), error)
        failed += error > TOLERANCE
        print(f"{'ok' if error <= TOLERANCE else 'NOT OK'} {i} {kind} ({what}): {error:.1e}", flush=True)
    print(", ".join(f"{kind}: {error:.1e}" for kind, error in sorted(worst.items())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
