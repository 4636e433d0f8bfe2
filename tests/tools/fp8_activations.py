#!/usr/bin/env python3
"""What fp8 activations cost (--compute fp8, fp8-prompts of trireme worker): the bundled model's network in numpy, in f32 as ops.h
defines the products, with weights in fp8 (a scale for a row) and with activations rounded to fp8 as well. Prints a table: mean
negative log-likelihood of a committed text, and how far each position's prediction diverges (KL) from that with the same weights.

    python3 tests/tools/fp8_activations.py [TOKENS]

Needs numpy and tokenizers. What the tensor cores lose in their sums is not in it.
"""
import json
import math
import os
import sys

import numpy as np
from tokenizers import Tokenizer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL, TEXT = f"{ROOT}/demo/model", f"{ROOT}/tests/goldens/quant/story.txt"


def read(path):
    """Names to f32 arrays, of a file of bf16."""
    data = open(path, "rb").read()
    size = int.from_bytes(data[:8], "little")
    out = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in t["data_offsets"])
            bits = np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16
            out[name] = bits.view(np.float32).reshape(t["shape"])
    return out


def e4m3(x):
    """To the nearest, even among two; at most 448."""
    x = np.clip(x, -448, 448).astype(np.float64)
    exponent = np.maximum(np.floor(np.log2(np.maximum(np.abs(x), 2.0**-20))), -6)
    unit = 2.0 ** (exponent - 3)
    return (np.round(x / unit) * unit).astype(np.float32)


def rounded(x):
    """Rows times a scale each, as op_linear has them."""
    most = np.abs(x).max(-1, keepdims=True)
    return e4m3(x * (np.float32(448) / most)) * (most / np.float32(448))


def norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rotate(x, theta):
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[0])[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attend(q, k, v):
    """[T, heads, D], with causal masks."""
    t, heads, dim = q.shape
    k, v = (np.repeat(m, heads // m.shape[1], 1) for m in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(dim) + np.triu(np.full((t, t), -np.inf), 1)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hij,jhd->ihd", p / p.sum(-1, keepdims=True), v).reshape(t, heads * dim)


def log_probabilities(c, w, ids, activations):
    """[T, vocabulary]; activations: what becomes of a product's x."""
    x, eps, dim = w["model.embed_tokens.weight"][ids], c["rms_norm_eps"], c["head_dim"]
    for i in range(c["num_hidden_layers"]):
        def product(h, name, layer=f"model.layers.{i}."):
            return activations(h) @ w[f"{layer}{name}.weight"].T
        def weight(name, layer=f"model.layers.{i}."):
            return w[f"{layer}{name}.weight"]
        h = norm(x, weight("input_layernorm"), eps)
        q, k, v = (product(h, f"self_attn.{p}_proj").reshape(len(ids), -1, dim) for p in "qkv")
        x = x + product(attend(rotate(q, c["rope_theta"]), rotate(k, c["rope_theta"]), v), "self_attn.o_proj")
        h = norm(x, weight("post_attention_layernorm"), eps)
        gate, up = product(h, "mlp.gate_proj"), product(h, "mlp.up_proj")
        x = x + product(gate / (1 + np.exp(-gate)) * up, "mlp.down_proj")
    logits = norm(x, w["model.norm.weight"], eps) @ w["model.embed_tokens.weight"].T
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def main():
    c, plain = json.load(open(f"{MODEL}/config.json")), read(f"{MODEL}/model.safetensors")
    count = int(sys.argv[1]) if sys.argv[1:] else 1024
    ids = Tokenizer.from_file(f"{MODEL}/tokenizer.json").encode(open(TEXT).read()).ids[:count]
    narrow = {name: rounded(m) if "_proj" in name else m for name, m in plain.items()}
    found = {
        "bf16, not rounded": log_probabilities(c, plain, ids, lambda x: x),
        "fp8, not rounded": log_probabilities(c, narrow, ids, lambda x: x),
        "fp8, to fp8": log_probabilities(c, narrow, ids, rounded),
        "bf16, to fp8": log_probabilities(c, plain, ids, rounded),
    }
    print(f"| weights, activations | mean NLL of {len(ids)} tokens | mean KL | largest | another best token |\n| --- | --- | --- | --- | --- |")
    for name, logs in found.items():
        base = found["fp8, not rounded" if name.startswith("fp8, to") else "bf16, not rounded"]
        kl = (np.exp(base) * (base - logs)).sum(-1)
        nll = -logs[np.arange(len(ids) - 1), ids[1:]].mean()
        other = (base.argmax(-1) != logs.argmax(-1)).mean()
        print(f"| {name} | {nll:.5f} | {kl.mean():.1e} | {kl.max():.1e} | {other * 100:.1f} % |")


if __name__ == "__main__":
    main()
