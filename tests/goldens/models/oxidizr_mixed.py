"""Checkpoints in oxidizr's layout, of each kind of layer and of all of them mixed, with a config.json as oxidizr writes it and without one.
The reference is the published mathematics in float64 numpy, position by position, written from the papers and the layout alone."""
import numpy as np

from make import case

V, H = 96, 48


def mamba1_shapes(i, state=16, taps=4):
    width, at = 2 * H, f"layers.{i}.mamba."
    return {f"layers.{i}.norm.weight": [H], at + "in_proj.weight": [2 * width, H], at + "conv1d.weight": [width, 1, taps],
            at + "conv1d.bias": [width], at + "x_proj.weight": [2 * state + width, width], at + "dt_proj.weight": [width, width],
            at + "dt_proj.bias": [width], at + "a_log": [width, state], at + "d": [width], at + "out_proj.weight": [H, width]}


def mamba2_shapes(i, heads, state, groups=1, taps=4, expand=2):
    width = H * expand
    conv, at = width + 2 * groups * state, f"layers.{i}.mamba2."
    return {at + "norm.weight": [H], at + "norm.bias": [H], at + "mixer.in_proj.weight": [width + conv + heads, H],
            at + "mixer.in_proj.bias": [width + conv + heads], at + "mixer.conv1d.weight": [conv, 1, taps], at + "mixer.conv1d.bias": [conv],
            at + "mixer.dt_bias": [heads], at + "mixer.A_log": [heads], at + "mixer.D": [heads], at + "mixer.norm.weight": [width],
            at + "mixer.out_proj.weight": [H, width], at + "mixer.out_proj.bias": [H]}


def mamba3_shapes(i, heads, state, groups=1, turns=True, taps=0, mimo=0, expand=2):
    width, at = H * expand, f"layers.{i}.mamba3."
    conv, dim, m = width + 2 * groups * state, width // heads, at + "mixer."
    linear = lambda name, rows, cols: {m + name + ".weight": [rows, cols], m + name + ".bias": [rows]}
    shapes = {at + "norm.weight": [H], at + "norm.bias": [H], m + "b_bias": [heads, state], m + "c_bias": [heads, state], m + "dt_bias": [heads],
              m + "A_log": [heads], m + "D": [heads], m + "bc_norm.weight": [state], m + "norm.weight": [width]}
    shapes |= linear("in_proj", width + conv + heads, H) | linear("out_proj", H, width) | linear("lambda_proj", heads, H)
    if turns:
        shapes |= linear("theta_proj", heads * state // 2, H)
    if taps:
        shapes |= {m + "conv1d.weight": [conv, 1, taps], m + "conv1d.bias": [conv]}
    if mimo:
        shapes |= linear("mimo_x_up", dim * mimo, dim) | linear("mimo_x_down", dim, dim * mimo)
    return shapes


def latent_shapes(i, heads, rank, q_rank, rope):
    dim, at = H // heads, f"layers.{i}.self_attn."
    return {at + "w_dkv.weight": [rank, H], at + "w_dq.weight": [q_rank, H], at + "w_uq.weight": [heads * dim, q_rank],
            at + "w_uk.weight": [heads * dim, rank], at + "w_uv.weight": [heads * dim, rank], at + "w_qr.weight": [heads * rope, H],
            at + "w_kr.weight": [rope, H], at + "o_proj.weight": [H, H]} | norm_shapes(i)


def attention_shapes(i, heads, kv_heads, dim):
    at = f"layers.{i}.self_attn."
    return {at + "q_proj.weight": [heads * dim, H], at + "k_proj.weight": [kv_heads * dim, H], at + "v_proj.weight": [kv_heads * dim, H],
            at + "o_proj.weight": [H, heads * dim]} | norm_shapes(i)


def norm_shapes(i):
    return {f"layers.{i}.input_layernorm.weight": [H], f"layers.{i}.post_attention_layernorm.weight": [H]}


def gated_shapes(at, width):
    return {at + "gate_proj.weight": [width, H], at + "up_proj.weight": [width, H], at + "down_proj.weight": [H, width]}


def expert_shapes(i, experts, width):
    shapes = {f"layers.{i}.moe.router.gate.weight": [experts, H]} | gated_shapes(f"layers.{i}.moe.shared_expert.", width)
    for e in range(experts):
        shapes |= gated_shapes(f"layers.{i}.moe.experts.{e}.", width)
    return shapes


def ends():
    return {"embed_tokens.weight": [V, H], "norm.weight": [H], "lm_head.weight": [V, H]}


# ---- the reference ----

def silu(x):
    return x / (1 + np.exp(-x))


def rms(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rotate(x, theta):
    """x: [T, heads, dim], pairs (i, i + dim / 2)."""
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attend(q, k, v, scale):
    scores = np.einsum("thd,shd->hts", q, k) * scale
    scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hts,shd->thd", p / p.sum(-1, keepdims=True), v)


def convolve(w, x):
    taps = w["conv1d.weight"].shape[-1]
    padded = np.concatenate([np.zeros((taps - 1, x.shape[1])), x])
    return silu(sum(padded[j:j + len(x)] * w["conv1d.weight"][:, 0, j] for j in range(taps)) + w["conv1d.bias"])


def mamba1(w, x):
    width, state = w["a_log"].shape
    u = x @ w["in_proj.weight"].T
    xs, z = convolve(w, u[:, :width]), u[:, width:]
    d, b, c = np.split(xs @ w["x_proj.weight"].T, [width, width + state], -1)
    dt, a = np.log1p(np.exp(d @ w["dt_proj.weight"].T + w["dt_proj.bias"])), np.exp(-w["a_log"])  # it grows
    s, y = np.zeros((width, state)), np.zeros_like(xs)
    for t in range(len(x)):
        s = np.clip(np.exp(dt[t][:, None] * a) * s + (dt[t] * xs[t])[:, None] * b[t], -30, 30)
        y[t] = s @ c[t] + w["d"] * xs[t]
    return (y * silu(z)) @ w["out_proj.weight"].T


def mamba2(w, x, groups):
    heads, width = len(w["A_log"]), len(w["norm.weight"])
    dim, state = width // heads, (len(w["conv1d.bias"]) - width) // 2 // groups
    u = x @ w["in_proj.weight"].T + w["in_proj.bias"]
    z, xbc, d = u[:, :width], u[:, width:-heads], u[:, -heads:]
    xbc = convolve(w, xbc)
    xs = xbc[:, :width].reshape(len(x), heads, dim)
    b, c = (xbc[:, width + k * groups * state:width + (k + 1) * groups * state].reshape(len(x), groups, state) for k in (0, 1))
    b, c = np.repeat(b, heads // groups, 1), np.repeat(c, heads // groups, 1)
    dt, a = np.clip(np.log1p(np.exp(d + w["dt_bias"])), 0.001, 0.1), -np.exp(w["A_log"])
    s, y = np.zeros((heads, dim, state)), np.zeros_like(xs)
    for t in range(len(x)):
        s = np.exp(dt[t] * a)[:, None, None] * s + (dt[t][:, None] * xs[t])[:, :, None] * b[t][:, None]
        y[t] = (s * c[t][:, None]).sum(-1) + w["D"][:, None] * xs[t]
    return rms(y.reshape(len(x), width) * silu(z), w["norm.weight"], 1e-6) @ w["out_proj.weight"].T + w["out_proj.bias"]


def turned(x, angle):
    """x [..., state]: neighbouring values are a pair."""
    a, b, cos, sin = x[..., ::2], x[..., 1::2], np.cos(angle), np.sin(angle)
    return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


def mamba3(w, x):
    heads, width, state, t = len(w["A_log"]), len(w["norm.weight"]), len(w["bc_norm.weight"]), len(x)
    linear = lambda name, v: v @ w[name + ".weight"].T + w[name + ".bias"]
    u = linear("in_proj", x)
    z, xbc, d = u[:, :width], u[:, width:-heads], u[:, -heads:]
    groups = (xbc.shape[1] - width) // 2 // state
    xbc = convolve(w, xbc) if "conv1d.weight" in w else np.concatenate([silu(xbc[:, :width]), xbc[:, width:]], -1)
    xs = xbc[:, :width].reshape(t, heads, -1)
    b, c = (rms(v.reshape(t, groups, state), w["bc_norm.weight"], 1e-6).repeat(heads // groups, 1) for v in np.split(xbc[:, width:], 2, -1))
    b, c = b + w["b_bias"], c + w["c_bias"]
    dt = np.clip(np.log1p(np.exp(d + w["dt_bias"])), 0.001, 0.1)
    if "theta_proj.weight" in w:
        angle = np.cumsum(linear("theta_proj", x).reshape(t, heads, -1) * dt[..., None], 0)
        b, c = turned(b, angle), turned(c, angle)
    if "mimo_x_up.weight" in w:
        xs = linear("mimo_x_up", xs)
    mix, alpha = 1 / (1 + np.exp(-linear("lambda_proj", x))), np.exp(-dt * np.exp(w["A_log"]))
    s, y = np.zeros((heads, xs.shape[-1], state)), np.zeros_like(xs)
    for i in range(t):
        s = alpha[i][:, None, None] * s + (mix[i] * dt[i])[:, None, None] * xs[i][:, :, None] * b[i][:, None]
        if i:
            s = s + ((1 - mix[i]) * dt[i] * alpha[i])[:, None, None] * xs[i - 1][:, :, None] * b[i - 1][:, None]
        y[i] = (s * c[i][:, None]).sum(-1) + w["D"][:, None] * xs[i]
    if "mimo_x_down.weight" in w:
        y = linear("mimo_x_down", y)
    return linear("out_proj", rms(y.reshape(t, width) * silu(z), w["norm.weight"], 1e-6))


def latent(w, x, theta):
    rope = len(w["w_kr.weight"])
    heads = len(w["w_qr.weight"]) // rope
    split = lambda y: y.reshape(len(x), heads, -1)
    c = x @ w["w_dkv.weight"].T
    q = np.concatenate([split(x @ w["w_dq.weight"].T @ w["w_uq.weight"].T), rotate(split(x @ w["w_qr.weight"].T), theta)], -1)
    shared = np.repeat(rotate((x @ w["w_kr.weight"].T)[:, None], theta), heads, 1)
    k = np.concatenate([split(c @ w["w_uk.weight"].T), shared], -1)
    return attend(q, k, split(c @ w["w_uv.weight"].T), q.shape[-1] ** -0.5).reshape(len(x), -1) @ w["o_proj.weight"].T


def attention(w, x, theta, heads):
    dim = len(w["q_proj.weight"]) // heads
    q, k, v = (((x @ w[f"{p}_proj.weight"].T).reshape(len(x), -1, dim)) for p in "qkv")
    k, v = (np.repeat(y, heads // y.shape[1], 1) for y in (rotate(k, theta), v))
    return attend(rotate(q, theta), k, v, dim ** -0.5).reshape(len(x), -1) @ w["o_proj.weight"].T


def gated(w, at, x):
    return (silu(x @ w[at + "gate_proj.weight"].T) * (x @ w[at + "up_proj.weight"].T)) @ w[at + "down_proj.weight"].T


def experts(w, x, top):
    logits = x @ w["router.gate.weight"].T
    out = gated(w, "shared_expert.", x)
    for t, row in enumerate(logits):
        best = np.argsort(-row, kind="stable")[:top]
        p = np.exp(row[best] - row[best].max())
        for e, share in zip(best, p / p.sum()):
            out[t] += share * gated(w, f"experts.{e}.", x[t])
    return out


def part(w, prefix):
    return {k[len(prefix):]: v for k, v in w.items() if k.startswith(prefix)}


def latent_heads(w):
    """Of a layer of latent attention, whose shapes tell them; None: there is none."""
    return next((len(v) // len(w[k.replace("w_qr", "w_kr")]) for k, v in w.items() if k.endswith("w_qr.weight")), None)


def reference(config, tensors, ids):
    w = {k: v.astype(np.float64) for k, v in tensors.items()}
    eps, theta, groups, top = (config.get(k, d) for k, d in (("rms_norm_eps", 1e-5), ("rope_theta", 1e4), ("mamba2_n_groups", 1), ("experts_per_tok", 2)))
    x = w["embed_tokens.weight"][ids]
    for i in range(1 + max(int(k.split(".")[1]) for k in w if k.startswith("layers."))):
        layer = part(w, f"layers.{i}.")
        heads = next((k for k in ("mamba2.", "mamba3.") if k + "norm.weight" in layer), None)
        if heads:
            c, w_norm = x - x.mean(-1, keepdims=True), part(layer, heads + "norm.")
            normed = c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-6) * w_norm["weight"] + w_norm["bias"]
            mixer = part(layer, heads + "mixer.")
            x = x + (mamba2(mixer, normed, groups) if heads == "mamba2." else mamba3(mixer, normed))
            continue
        if "mamba.a_log" in layer:
            x = x + mamba1(part(layer, "mamba."), rms(x, layer["norm.weight"], eps))
            continue
        normed, mixer = rms(x, layer["input_layernorm.weight"], eps), part(layer, "self_attn.")
        heads = config.get("num_attention_heads") or latent_heads(w) or len(mixer["q_proj.weight"]) // 64
        x = x + (latent(mixer, normed, theta) if "w_dkv.weight" in mixer else attention(mixer, normed, theta, heads))
        normed = rms(x, layer["post_attention_layernorm.weight"], eps)
        x = x + (experts(part(layer, "moe."), normed, top) if "moe.router.gate.weight" in layer else gated(layer, "mlp.", normed))
    return rms(x, w["norm.weight"], eps) @ w["lm_head.weight"].T


# steps of 0.001 to 0.1 need decays of 1 to 60 to matter, and inputs of some size
DRAW = [(r"A_log$", 2.0, 1.0), (r"dt_bias$", -2.5, 1.0), (r"mixer\.D$", 0.3, 0.4), (r"conv1d\.weight$", 0.2, 0.6), (r"router\.gate\.weight$", 0.0, 0.4),
        (r"mixer\.in_proj\.weight$", 0.0, 0.4), (r"theta_proj\.weight$", 0.0, 1.0), (r"theta_proj\.bias$", 0.0, 5.0), (r"\.[bc]_bias$", 0.5, 0.5)]


def checkpoint(name, config, *shapes):
    """As oxidizr writes config.json: without an architecture, rotary base or groups of Mamba."""
    tensors = {k: v for s in (ends(),) + shapes for k, v in s.items()}
    return case(name, config, draw=DRAW, shapes=tensors, reference=reference)


KEYS = dict(hidden_size=H, vocab_size=V, rms_norm_eps=1e-5, max_seq_len=512)
CASES = [
    checkpoint("oxidizr-mamba2", KEYS | dict(num_layers=2, mamba2_num_heads=6, mamba2_head_dim=16, mamba2_state_size=40, mamba2_expand=2,
                                             mamba2_conv_kernel=4, mamba2_chunk_size=64, mamba_layers=[0, 1]),
               mamba2_shapes(0, 6, 40), mamba2_shapes(1, 6, 40)),  # 2 G N > H: the size that a naive loader gets wrong
    checkpoint("oxidizr-latent", KEYS | dict(num_layers=2, num_attention_heads=4, kv_latent_dim=20, q_latent_dim=28, d_rope=8, num_experts=4,
                                             experts_per_tok=2, shared_expert_enabled=False, intermediate_size=40),
               latent_shapes(0, 4, 20, 28, 8), expert_shapes(0, 4, 40), latent_shapes(1, 4, 20, 28, 8), expert_shapes(1, 4, 40)),
    checkpoint("oxidizr-attention", KEYS | dict(num_layers=2, num_attention_heads=4, num_kv_heads=2, intermediate_size=80, rms_norm_eps=1e-3),
               attention_shapes(0, 4, 2, 12), gated_shapes("layers.0.mlp.", 80), attention_shapes(1, 4, 2, 12), gated_shapes("layers.1.mlp.", 80)),
    checkpoint("oxidizr-mixed", {},  # no config.json at all
               mamba2_shapes(0, 6, 16, taps=3), latent_shapes(1, 2, 20, 28, 8), expert_shapes(1, 3, 40), mamba2_shapes(2, 6, 16, taps=3),
               latent_shapes(3, 2, 20, 28, 8), gated_shapes("layers.3.mlp.", 40)),
    checkpoint("oxidizr-mamba1", KEYS | dict(num_layers=2, num_attention_heads=4, mamba_layers=[0, 1]), mamba1_shapes(0), mamba1_shapes(1)),
    checkpoint("oxidizr-mamba2-groups", KEYS | dict(num_layers=1, mamba2_num_heads=6, mamba2_head_dim=16, mamba2_state_size=12, mamba2_n_groups=2,
                                                    mamba_layers=[0]), mamba2_shapes(0, 6, 12, groups=2)),
    checkpoint("oxidizr-mamba3", KEYS | dict(num_layers=2, mamba3_enabled=True, mamba3_complex_rope=True, mamba3_mimo_rank=0, mamba3_use_conv=False,
                                             mamba2_num_heads=6, mamba2_head_dim=16, mamba2_state_size=10, mamba2_expand=2, mamba2_chunk_size=64,
                                             mamba2_conv_kernel=4, num_attention_heads=6, mamba_layers=[0, 1]),
               mamba3_shapes(0, 6, 10), mamba3_shapes(1, 6, 10)),
    checkpoint("oxidizr-mamba3-real", {}, mamba3_shapes(0, 6, 9, groups=2, turns=False)),
    checkpoint("oxidizr-mamba3-conv", KEYS | dict(num_layers=1, mamba3_enabled=True, mamba3_use_conv=True, mamba2_num_heads=6, mamba2_head_dim=16,
                                                  mamba2_state_size=12, mamba2_conv_kernel=3, mamba_layers=[0]),
               mamba3_shapes(0, 6, 12, groups=3, taps=3)),
    checkpoint("oxidizr-mamba3-mimo", KEYS | dict(num_layers=1, mamba3_enabled=True, mamba3_mimo_rank=3, mamba2_num_heads=12, mamba2_head_dim=8,
                                                  mamba2_state_size=8, mamba_layers=[0]), mamba3_shapes(0, 12, 8, mimo=3)),
    checkpoint("oxidizr-all", {}, mamba1_shapes(0), mamba2_shapes(1, 6, 10, taps=3), mamba3_shapes(2, 4, 8, taps=4, mimo=2),
               latent_shapes(3, 2, 20, 28, 8), expert_shapes(3, 3, 40), attention_shapes(4, 2, 1, 24), gated_shapes("layers.4.mlp.", 40),
               latent_shapes(5, 2, 20, 28, 8), gated_shapes("layers.5.mlp.", 40), mamba3_shapes(6, 4, 8, taps=4, mimo=2)),
    checkpoint("oxidizr-attention-bare", {}, mamba2_shapes(0, 6, 16), attention_shapes(1, 2, 1, 64), gated_shapes("layers.1.mlp.", 80)),
]
