#!/usr/bin/env python3
"""Makes tests/goldens/llama/*.json: tiny random models of the Llama family with the logits an independent reference gives.

Only config, tokens and logits are committed. Weights are drawn by a counter-based generator of (seed, tensor name), so that the test
makes the same ones: word i of a tensor is Philox4x32-10(counter = (i / 4, 0, 0, 0), key = FNV-1a(name) ^ seed)[i % 4]; its four bytes'
sum, less 510, times a float32 scale is nearly normal; then it is rounded to the storage type.

The reference below is numpy in float64 on the stored weights (angles rounded to float32 as the reference implementations do). With
--check it is compared with transformers, where that and torch are installed.

    python3 tests/goldens/make_llama_goldens.py [--check]
"""
import json, math, os, sys
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from draw import SIGMA, bf16_round, words  # noqa: E402


def draw(seed, name, shape, mean, sigma, dtype):
    count = int(np.prod(shape))
    w = words(seed, name, count)
    total = sum(((w >> s) & 255).astype(np.int64) for s in (0, 8, 16, 24)) - 510
    x = total.astype(np.float32) * np.float32(sigma / SIGMA) + np.float32(mean)
    x = x.astype(np.float16).astype(np.float32) if dtype == "F16" else bf16_round(x) if dtype == "BF16" else x
    return x.reshape(shape)


def tensors(case):
    """name -> (shape, mean, sigma), in the order of the file."""
    c, qkv_bias = case["config"], case["qkv_bias"]
    h, f, v = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    d = c.get("head_dim", h // c["num_attention_heads"])
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    t = {"model.embed_tokens.weight": ((v, h), 0, 1.0), "model.norm.weight": ((h,), 1, 0.2)}
    if not c["tie_word_embeddings"]:
        t["lm_head.weight"] = ((v, h), 0, 1 / math.sqrt(h))
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        t[p + "input_layernorm.weight"] = t[p + "post_attention_layernorm.weight"] = ((h,), 1, 0.2)
        for n, rows, cols in (("q", q, h), ("k", kv, h), ("v", kv, h), ("o", h, q)):
            t[p + f"self_attn.{n}_proj.weight"] = ((rows, cols), 0, 1 / math.sqrt(cols))
            if qkv_bias and n != "o" or c.get("attention_bias"):
                t[p + f"self_attn.{n}_proj.bias"] = ((rows,), 0, 0.3)
        for n, rows, cols in (("gate", f, h), ("up", f, h), ("down", h, f)):
            t[p + f"mlp.{n}_proj.weight"] = ((rows, cols), 0, 1 / math.sqrt(cols))
            if c.get("mlp_bias"):
                t[p + f"mlp.{n}_proj.bias"] = ((rows,), 0, 0.3)
    return t


def inv_freq(c, d):
    r = c.get("rope_scaling") or c.get("rope_parameters") or {}
    theta = r.get("rope_theta", c.get("rope_theta", 10000.0))
    f = theta ** (-2.0 * np.arange(d // 2) / d)
    kind = r.get("rope_type", r.get("type", "default"))
    if kind == "linear":
        f = f / r["factor"]
    if kind == "llama3":
        old, lo, hi = r["original_max_position_embeddings"], r["low_freq_factor"], r["high_freq_factor"]
        wave = 2 * math.pi / f
        smooth = (old / wave - lo) / (hi - lo)
        mid = (1 - smooth) * f / r["factor"] + smooth * f
        f = np.where(wave > old / lo, f / r["factor"], np.where(wave < old / hi, f, mid))
    return f.astype(np.float32)


def windows(case):
    c, n = case["config"], case["config"]["num_hidden_layers"]
    w = c.get("sliding_window")
    if c["model_type"] == "mistral" and w:
        return [w] * n
    if c["model_type"] == "qwen2" and c.get("use_sliding_window") and w:
        return [w if i >= c["max_window_layers"] else None for i in range(n)]
    return [None] * n


def forward(case, w, ids):
    c = case["config"]
    heads, kvh, h = c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"]
    d, eps, T = c.get("head_dim", h // heads), c["rms_norm_eps"], len(ids)
    W = {k: v.astype(np.float64) for k, v in w.items()}
    norm = lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g
    lin = lambda x, n: x @ W[n + ".weight"].T + W.get(n + ".bias", 0)
    angle = (np.arange(T, dtype=np.float32)[:, None] * inv_freq(c, d)[None]).astype(np.float64)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    rot = lambda x: np.concatenate([x[..., : d // 2] * cos - x[..., d // 2 :] * sin, x[..., d // 2 :] * cos + x[..., : d // 2] * sin], -1)
    x = W["model.embed_tokens.weight"][ids]
    i, j = np.arange(T)[:, None], np.arange(T)[None]
    for layer, window in enumerate(windows(case)):
        p = f"model.layers.{layer}."
        n = norm(x, W[p + "input_layernorm.weight"])
        q = rot(lin(n, p + "self_attn.q_proj").reshape(T, heads, d))
        k = np.repeat(rot(lin(n, p + "self_attn.k_proj").reshape(T, kvh, d)), heads // kvh, 1)
        v = np.repeat(lin(n, p + "self_attn.v_proj").reshape(T, kvh, d), heads // kvh, 1)
        s = np.einsum("thd,shd->hts", q, k) / math.sqrt(d)
        s = np.where((j <= i) & (j > i - (window or T + 1)), s, -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        x = x + lin(np.einsum("hts,shd->thd", s, v).reshape(T, -1), p + "self_attn.o_proj")
        n = norm(x, W[p + "post_attention_layernorm.weight"])
        g = lin(n, p + "mlp.gate_proj")
        x = x + lin(g / (1 + np.exp(-g)) * lin(n, p + "mlp.up_proj"), p + "mlp.down_proj")
    x = norm(x, W["model.norm.weight"])
    return x @ W["model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"].T


ARCHITECTURE = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM"}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}


def case(name, model_type, dtype, tokens, shards=1, **config):
    base = {"architectures": [ARCHITECTURE[model_type]], "model_type": model_type, "vocab_size": 160, "hidden_size": 64, "intermediate_size": 96,
            "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 8, "hidden_act": "silu", "max_position_embeddings": 512,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
    base.update(config)
    return {"name": name, "dtype": dtype, "seed": len(name) * 7919, "shards": shards, "tokens": tokens, "qkv_bias": model_type == "qwen2", "config": base}


CASES = [
    case("mha-biases-f32", "llama", "F32", 130, attention_bias=True, mlp_bias=True, rope_theta=10000.0),
    case("gqa4-llama3-f16", "llama", "F16", 200, num_key_value_heads=2, rope_theta=500000.0, rope_scaling=LLAMA3, tie_word_embeddings=True),
    case("gqa8-llama3-new-spelling-f32", "llama", "F32", 150, num_key_value_heads=1, rope_parameters={"rope_theta": 500000.0, **LLAMA3}),
    case("qwen2-sharded-bf16", "qwen2", "BF16", 120, shards=3, num_attention_heads=7, num_key_value_heads=1, hidden_size=112, rope_theta=1000000.0),
    case("qwen2-upper-window-f32", "qwen2", "F32", 90, num_key_value_heads=4, use_sliding_window=True, max_window_layers=1, sliding_window=24),
    case("mistral-window-bf16", "mistral", "BF16", 100, num_key_value_heads=2, sliding_window=20, head_dim=24, rope_theta=10000.0),
    case("linear-head64-bf16", "llama", "BF16", 80, hidden_size=128, num_attention_heads=4, num_key_value_heads=2, head_dim=64, rope_scaling={"type": "linear", "factor": 4.0}),
    case("head128-gqa2-bf16", "llama", "BF16", 70, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=128, tie_word_embeddings=True),
    case("odd-sizes-f16", "llama", "F16", 60, hidden_size=60, intermediate_size=77, num_attention_heads=6, num_key_value_heads=3, vocab_size=131),
]


def check_with_transformers(c, w, ids, logits):
    import torch, transformers
    options = {k: v for k, v in c["config"].items() if k != "architectures"}
    if "rope_parameters" in options and int(transformers.__version__.split(".")[0]) < 5:  # knows the old spelling only
        options["rope_scaling"] = options.pop("rope_parameters")
        options["rope_theta"] = options["rope_scaling"]["rope_theta"]
    config = getattr(transformers, c["config"]["architectures"][0].replace("ForCausalLM", "Config"))(**options)
    config._attn_implementation = "eager"
    model = getattr(transformers, c["config"]["architectures"][0])(config).eval()
    state = {k: torch.from_numpy(np.array(v)) for k, v in w.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("lm_head" in m or "rotary" in m for m in missing), (missing, unexpected)
    with torch.no_grad():
        theirs = model(torch.tensor([ids])).logits[0].double().numpy()
    print(f"  transformers: relative difference {np.linalg.norm(theirs - logits) / np.linalg.norm(logits):.2e}")


def main():
    os.makedirs(os.path.join(HERE, "llama"), exist_ok=True)
    for c in CASES:
        w = {n: draw(c["seed"], n, s, m, d, c["dtype"]) for n, (s, m, d) in tensors(c).items()}
        ids = [int(x) % c["config"]["vocab_size"] for x in words(c["seed"], "tokens", c["tokens"])]
        logits = forward(c, w, ids)
        print(c["name"], f"largest logit {np.abs(logits).max():.2f}")
        if "--check" in sys.argv:
            check_with_transformers(c, w, ids, logits)
        rows = sorted({0, 1, 2, 31, 32, len(ids) // 2, len(ids) - 2, len(ids) - 1})
        out = {"dtype": c["dtype"], "seed": c["seed"], "shards": c["shards"], "config": c["config"],
               "tensors": [{"name": n, "shape": list(s), "mean": m, "sigma": d} for n, (s, m, d) in tensors(c).items()],
               "tokens": ids, "rows": rows, "logits": [[float(f"{x:.7g}") for x in logits[r]] for r in rows]}
        with open(os.path.join(HERE, "llama", c["name"] + ".json"), "w") as f:
            f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in out.items()) + "\n}\n")


main()
