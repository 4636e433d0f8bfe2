"""RWKV-6 (Finch) and RWKV-7 (Goose) against a plain float64 recurrence written from the papers (Peng et al. 2024, 2025): transformers has
neither. Tensors are named as Rwkv6ForCausalLM and as flash-linear-attention's RWKV7ForCausalLM save them."""
import numpy as np

from make import case


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def layer_norm(x, w, b, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w + (0 if b is None else b)


def before(x):
    """Row t: row t - 1; the first: zeros."""
    return np.concatenate([np.zeros_like(x[:1]), x[:-1]])


def head_norm(y, w, b, eps):
    """y [tokens, heads, dim]."""
    return layer_norm(y, w.reshape(y.shape[1:]), b.reshape(y.shape[1:]), eps)


# ---- RWKV-6 ----

MIX6, DECAY6 = 32, 64  # ranks, by the class


def shapes6(c):
    h, a, n = c["hidden_size"], c.get("attention_hidden_size", c["hidden_size"]), c["head_size"]
    f = c.get("intermediate_size") or int(h * 3.5 // 32 * 32)
    out = {"rwkv.embeddings.weight": [c["vocab_size"], h], "rwkv.blocks.0.pre_ln.weight": [h], "rwkv.blocks.0.pre_ln.bias": [h],
           "rwkv.ln_out.weight": [h], "rwkv.ln_out.bias": [h], "head.weight": [c["vocab_size"], h]}
    for i in range(c["num_hidden_layers"]):
        b = f"rwkv.blocks.{i}."
        out.update({f"{b}{ln}.{x}": [h] for ln in ("ln1", "ln2") for x in ("weight", "bias")})
        t = b + "attention."
        out.update({f"{t}time_maa_{x}": [1, 1, h] for x in "xwkvrg"})
        out.update({t + "time_maa_w1": [h, 5 * MIX6], t + "time_maa_w2": [5, MIX6, h], t + "time_decay": [1, 1, a], t + "time_decay_w1": [h, DECAY6],
                    t + "time_decay_w2": [DECAY6, a], t + "time_faaaa": [a // n, n], t + "ln_x.weight": [a], t + "ln_x.bias": [a], t + "output.weight": [h, a]})
        out.update({f"{t}{x}.weight": [a, h] for x in ("receptance", "key", "value", "gate")})
        m = b + "feed_forward."
        out.update({m + "time_maa_k": [1, 1, h], m + "time_maa_r": [1, 1, h], m + "key.weight": [f, h], m + "receptance.weight": [h, h],
                    m + "value.weight": [h, f]})
    return out


def time_mix6(c, w, x):
    n, eps = c["head_size"], 1e-5 * c.get("head_size_divisor", 8) ** 2
    step = before(x) - x
    low = np.tanh((x + step * w("time_maa_x").reshape(-1)) @ w("time_maa_w1")).reshape(len(x), 5, -1)
    moved = {k: x + step * (w(f"time_maa_{k}").reshape(-1) + low[:, i] @ w("time_maa_w2")[i]) for i, k in enumerate("wkvrg")}
    k, v, r, g = (moved[a] @ w(b + ".weight").T for a, b in (("k", "key"), ("v", "value"), ("r", "receptance"), ("g", "gate")))
    decay = np.exp(-np.exp(w("time_decay").reshape(-1) + np.tanh(moved["w"] @ w("time_decay_w1")) @ w("time_decay_w2")))
    k, v, r, decay = (z.reshape(len(x), -1, n) for z in (k, v, r, decay))
    state, y = np.zeros((k.shape[1], n, n)), np.zeros_like(v)
    for t in range(len(x)):
        kv = k[t][:, :, None] * v[t][:, None, :]
        y[t] = np.einsum("hi,hij->hj", r[t], state + w("time_faaaa")[:, :, None] * kv)
        state = state * decay[t][:, :, None] + kv
    y = head_norm(y, w("ln_x.weight"), w("ln_x.bias"), eps).reshape(len(x), -1)
    return (y * g * sigmoid(g)) @ w("output.weight").T


def channel_mix6(w, x):
    step = before(x) - x
    k = np.maximum((x + step * w("time_maa_k").reshape(-1)) @ w("key.weight").T, 0) ** 2
    return sigmoid((x + step * w("time_maa_r").reshape(-1)) @ w("receptance.weight").T) * (k @ w("value.weight").T)


def rwkv6(c, tensors, ids):
    w = {k: v.astype(np.float64) for k, v in tensors.items()}
    ln = lambda x, name, eps=c.get("layer_norm_epsilon", 1e-5): layer_norm(x, w[name + ".weight"], w[name + ".bias"], eps)
    x = ln(w["rwkv.embeddings.weight"][ids], "rwkv.blocks.0.pre_ln")
    for i in range(c["num_hidden_layers"]):
        b = f"rwkv.blocks.{i}."
        halved = 2.0 ** (i // c["rescale_every"]) if c.get("rescale_every") else 1  # the class halves the stream, and what is added
        x = x + time_mix6(c, lambda n: w[b + "attention." + n], ln(x / halved, b + "ln1"))
        x = x + channel_mix6(lambda n: w[b + "feed_forward." + n], ln(x / halved, b + "ln2"))
    halved = 2.0 ** (c["num_hidden_layers"] // c["rescale_every"]) if c.get("rescale_every") else 1
    return ln(x / halved, "rwkv.ln_out", 1e-5) @ w["head.weight"].T


# ---- RWKV-7 ----

def shapes7(c):
    h, n = c["hidden_size"], c["head_dim"]
    f = c.get("intermediate_size") or -(-int(h * c.get("hidden_ratio", 4)) // 32) * 32
    norm = ("weight", "bias") if c.get("norm_bias", True) else ("weight",)
    out = {"model.embeddings.weight": [c["vocab_size"], h], "lm_head.weight": [c["vocab_size"], h]}
    out.update({f"model.norm.{x}": [h] for x in norm})
    if c.get("norm_first", True):
        out.update({f"model.layers.0.pre_norm.{x}": [h] for x in norm})
    for i in range(c["num_hidden_layers"]):
        b = f"model.layers.{i}."
        out.update({f"{b}{ln}.{x}": [h] for ln in ("attn_norm", "ffn_norm") for x in norm})
        t = b + "attn."
        out.update({f"{t}x_{x}": [1, 1, h] for x in "rwkvag"})
        out.update({t + "k_k": [h], t + "k_a": [h], t + "r_k": [h // n, n], t + "g_norm.weight": [h], t + "g_norm.bias": [h]})
        out.update({f"{t}{x}_proj.weight": [h, h] for x in "rkvo"})
        for x, rank in (("w", "decay"), ("a", "a"), ("v", "v"), ("g", "gate")):
            if x == "v" and i == 0:
                continue
            rank = c[rank + "_low_rank_dim"]
            out.update({f"{t}{x}_lora.lora.0.weight": [rank, h], f"{t}{x}_lora.lora.2.weight": [h, rank]})
            if x != "g":
                out[f"{t}{x}_lora.lora.2.bias"] = [h]
        out.update({b + "ffn.x_k": [h], b + "ffn.key.weight": [f, h], b + "ffn.value.weight": [h, f]})
    return out


def low_rank(w, name, x, between=lambda z: z):
    return between(x @ w(f"{name}_lora.lora.0.weight").T) @ w(f"{name}_lora.lora.2.weight").T


def time_mix7(c, w, x, first):
    n = c["head_dim"]
    step = before(x) - x
    xr, xw, xk, xv, xa, xg = (x + step * w(f"x_{k}").reshape(-1) for k in "rwkvag")
    r, k, v = xr @ w("r_proj.weight").T, xk @ w("k_proj.weight").T, xv @ w("v_proj.weight").T
    decay = np.exp(-np.exp(-0.5) * sigmoid(low_rank(w, "w", xw, np.tanh) + w("w_lora.lora.2.bias")))
    if first is None:
        first = v
    else:
        v = v + (first - v) * sigmoid(low_rank(w, "v", xv) + w("v_lora.lora.2.bias"))
    a = sigmoid(low_rank(w, "a", xa) + w("a_lora.lora.2.bias"))
    g = low_rank(w, "g", xg, sigmoid)
    heads = lambda z: z.reshape(len(x), -1, n)
    removed = heads(k * w("k_k"))
    removed = removed / np.maximum(np.sqrt((removed**2).sum(-1, keepdims=True)), 1e-12)
    k = k * (1 + (a - 1) * w("k_a"))
    r, k, v, a, decay = map(heads, (r, k, v, a, decay))
    state, y = np.zeros((r.shape[1], n, n)), np.zeros_like(v)  # [value, key]
    for t in range(len(x)):
        taken = np.einsum("hji,hi->hj", state, removed[t])
        state = state * decay[t][:, None, :] - taken[:, :, None] * (removed[t] * a[t])[:, None, :] + v[t][:, :, None] * k[t][:, None, :]
        y[t] = np.einsum("hji,hi->hj", state, r[t])
    y = head_norm(y, w("g_norm.weight"), w("g_norm.bias"), n * c.get("norm_eps", 1e-5))
    y = y + (r * k * w("r_k")).sum(-1, keepdims=True) * v
    return (y.reshape(len(x), -1) * g) @ w("o_proj.weight").T, first


def rwkv7(c, tensors, ids):
    w = {k: v.astype(np.float64) for k, v in tensors.items()}
    ln = lambda x, name: layer_norm(x, w[name + ".weight"], w.get(name + ".bias"), c.get("norm_eps", 1e-5))
    x, first = w["model.embeddings.weight"][ids], None
    if c.get("norm_first", True):
        x = ln(x, "model.layers.0.pre_norm")
    for i in range(c["num_hidden_layers"]):
        b = f"model.layers.{i}."
        out, first = time_mix7(c, lambda n: w[b + "attn." + n], ln(x, b + "attn_norm"), first)
        x = x + out
        z = ln(x, b + "ffn_norm")
        z = z + (before(z) - z) * w[b + "ffn.x_k"]
        x = x + np.maximum(z @ w[b + "ffn.key.weight"].T, 0) ** 2 @ w[b + "ffn.value.weight"].T
    return ln(x, "model.norm") @ w["lm_head.weight"].T


# shares of the position before in [0, 1] mostly; decays that remember some tens of positions
DRAW6 = [(r"time_maa_[xwkvrg]$", 0.5, 0.25), (r"time_maa_w2$", 0.0, 0.08), (r"time_decay$", -2.0, 1.0), (r"time_decay_w2$", 0.0, 0.1),
         (r"time_(maa|decay)_w1$", 0.0, 0.12), (r"time_faaaa$", 0.2, 0.4), (r"ln_x\.weight$", 1.0, 0.2)]
DRAW7 = [(r"attn\.x_\w$|ffn\.x_k$", 0.5, 0.25), (r"k_k$", 0.8, 0.2), (r"k_a$", 1.0, 0.3), (r"r_k$", 0.1, 0.3), (r"w_lora\.lora\.2\.bias$", -1.0, 1.5),
         (r"[av]_lora\.lora\.2\.bias$", 0.0, 1.0), (r"g_norm\.weight$", 1.0, 0.2)]


def config6(**fields):
    return dict(architectures=["Rwkv6ForCausalLM"], model_type="rwkv6", vocab_size=96, num_hidden_layers=2, head_size=16, hidden_size=48, **fields)


def config7(**fields):
    return dict(dict(architectures=["RWKV7ForCausalLM"], model_type="rwkv7", vocab_size=96, num_hidden_layers=3, head_dim=16, hidden_size=48,
                     decay_low_rank_dim=12, gate_low_rank_dim=20, a_low_rank_dim=10, v_low_rank_dim=8, hidden_act="sqrelu", max_position_embeddings=4096),
                **fields)


CASES = [case(name, config, shapes=shapes(config), reference=reference, draw=draws)
         for name, config, shapes, reference, draws in (
             ("rwkv6", config6(rescale_every=6, head_size_divisor=8, num_attention_heads=64), shapes6, rwkv6, DRAW6),
             ("rwkv6-odd", config6(attention_hidden_size=80, intermediate_size=72, rescale_every=1, head_size_divisor=40,
                                   layer_norm_epsilon=1e-3), shapes6, rwkv6, DRAW6),
             ("rwkv7", config7(norm_first=True, norm_bias=True, hidden_ratio=4.0, value_dim=[48, 48, 48], attn=None, num_heads=32), shapes7, rwkv7, DRAW7),
             ("rwkv7-odd", config7(head_dim=12, norm_first=False, norm_bias=False, norm_eps=1e-2, intermediate_size=104, fuse_norm=False), shapes7, rwkv7, DRAW7))]
