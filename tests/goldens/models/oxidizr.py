#!/usr/bin/env python3
"""Makes tests/goldens/models/oxidizr.json: a checkpoint of oxidizr's latent attention with experts, against a straightforward reference in
float64 (nothing absorbed, every expert computed for every row). The format has no reference implementation that runs; this follows its
published tensors: queries, keys and values go through latents without norms, the rotated part of a query comes from the hidden state, the
softmax runs over the chosen experts' logits, a shared expert is always added.

    python3 tests/goldens/models/oxidizr.py        (needs numpy; make.py beside it)
"""
import json, math, os, sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import make  # noqa: E402

CASES = []  # none of make.py's
CONFIG = dict(hidden_size=48, num_layers=3, vocab_size=97, num_attention_heads=4, kv_latent_dim=20, q_latent_dim=28, d_rope=8, num_experts=5,
              experts_per_tok=2, shared_expert_enabled=True, intermediate_size=40, rms_norm_eps=1e-5, max_seq_len=512)
TOKENS = 80


def shapes(c):
    h, n, kl, ql, dr, i = (c[k] for k in ("hidden_size", "num_attention_heads", "kv_latent_dim", "q_latent_dim", "d_rope", "intermediate_size"))
    out = {"embed_tokens.weight": [c["vocab_size"], h], "norm.weight": [h], "lm_head.weight": [c["vocab_size"], h]}
    for x in range(c["num_layers"]):
        p = f"layers.{x}."
        out.update({p + "input_layernorm.weight": [h], p + "post_attention_layernorm.weight": [h], p + "moe.router.gate.weight": [c["num_experts"], h],
                    p + "self_attn.w_dkv.weight": [kl, h], p + "self_attn.w_dq.weight": [ql, h], p + "self_attn.w_uq.weight": [h, ql],
                    p + "self_attn.w_uk.weight": [h, kl], p + "self_attn.w_uv.weight": [h, kl], p + "self_attn.w_qr.weight": [n * dr, h],
                    p + "self_attn.w_kr.weight": [dr, h], p + "self_attn.o_proj.weight": [h, h]})
        for e in [f"experts.{k}" for k in range(c["num_experts"])] + ["shared_expert"]:
            out.update({f"{p}moe.{e}.gate_proj.weight": [i, h], f"{p}moe.{e}.up_proj.weight": [i, h], f"{p}moe.{e}.down_proj.weight": [h, i]})
    return out


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rotate(x, theta=10000.0):
    """x [tokens, ..., dr]: halves are the two parts of a pair."""
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None] * theta ** (-2.0 * np.arange(half) / x.shape[-1])
    angle = angle.reshape(len(x), *[1] * (x.ndim - 2), half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def logits_of(c, w, ids):
    heads, eps, top = c["num_attention_heads"], c["rms_norm_eps"], c["experts_per_tok"]
    dim = c["hidden_size"] // heads
    norm = lambda x, name: x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w[name]
    swiglu = lambda x, p: (lambda g: g / (1 + np.exp(-g)) * (x @ w[p + ".up_proj.weight"].T))(x @ w[p + ".gate_proj.weight"].T) @ w[p + ".down_proj.weight"].T
    x = w["embed_tokens.weight"][ids]
    t = len(ids)
    for layer in range(c["num_layers"]):
        p = f"layers.{layer}."
        a = p + "self_attn."
        h = norm(x, p + "input_layernorm.weight")
        split = lambda v: v.reshape(t, heads, -1)
        latent, q_latent = h @ w[a + "w_dkv.weight"].T, h @ w[a + "w_dq.weight"].T
        q = np.concatenate([split(q_latent @ w[a + "w_uq.weight"].T), rotate(split(h @ w[a + "w_qr.weight"].T))], -1)
        k_rope = np.repeat(rotate(h @ w[a + "w_kr.weight"].T)[:, None], heads, 1)
        k = np.concatenate([split(latent @ w[a + "w_uk.weight"].T), k_rope], -1)
        v = split(latent @ w[a + "w_uv.weight"].T)
        scores = np.einsum("thd,shd->hts", q, k) / math.sqrt(dim + c["d_rope"])
        scores[:, np.triu(np.ones((t, t), bool), 1)] = -np.inf
        x = x + np.einsum("hts,shd->thd", softmax(scores), v).reshape(t, -1) @ w[a + "o_proj.weight"].T
        h = norm(x, p + "post_attention_layernorm.weight")
        route = h @ w[p + "moe.router.gate.weight"].T
        chosen = np.argsort(-route, axis=-1, kind="stable")[:, :top]
        weights = np.zeros_like(route)
        np.put_along_axis(weights, chosen, softmax(np.take_along_axis(route, chosen, -1)), -1)
        y = swiglu(h, p + "moe.shared_expert")
        for e in range(c["num_experts"]):
            y = y + weights[:, e : e + 1] * swiglu(h, f"{p}moe.experts.{e}")
        x = x + y
    return norm(x, "norm.weight") @ w["lm_head.weight"].T


def main():
    vocab = CONFIG["vocab_size"]
    for seed in range(1, 200):
        spec = []
        for name, shape in sorted(shapes(CONFIG).items()):
            mean, sigma = (1.0, 0.2) if len(shape) == 1 else (0.0, 0.3 if "router" in name else 1 / math.sqrt(shape[-1]))
            spec.append([name, shape, mean, sigma])
        drawn = {n: make.draw(seed, n, s, m, g) for n, s, m, g in spec}
        wide = {k: v.astype(np.float64) for k, v in drawn.items()}
        ids = [int(x) for x in make.words(seed, "tokens", TOKENS) % vocab]
        have, greedy = list(ids), []
        while len(greedy) < make.GREEDY:
            row = logits_of(CONFIG, wide, have)[-1]
            best = np.sort(row)[-2:]
            if best[1] - best[0] < make.MARGIN * np.abs(row).max():
                break
            greedy.append(int(row.argmax()))
            have.append(greedy[-1])
        if len(greedy) == make.GREEDY:
            break
    rounded = {k: make.bf16_round(v.reshape(-1)).reshape(v.shape).astype(np.float64) for k, v in drawn.items()}
    rows, rows16 = make.rows_of(TOKENS, make.LOGIT_ROWS), make.rows_of(TOKENS, make.BF16_ROWS)
    golden = dict(name="oxidizr", reference="float64", config=json.dumps(CONFIG), seed=seed, vocab=vocab, tensors=spec, tokens=ids, rows=rows,
                  logits=make.b64(logits_of(CONFIG, wide, ids)[rows]), rows_bf16=rows16,
                  logits_bf16=make.b64(logits_of(CONFIG, rounded, ids)[rows16]), greedy=greedy)
    with open(HERE + "/oxidizr.json", "w") as f:
        lines = [f"  {json.dumps(k)}: " + ("[\n    " + ",\n    ".join(json.dumps(t) for t in v) + "\n  ]" if k == "tensors" else json.dumps(v))
                 for k, v in golden.items()]
        f.write("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"oxidizr: seed {seed}, {len(spec)} tensors")


if __name__ == "__main__":
    main()
