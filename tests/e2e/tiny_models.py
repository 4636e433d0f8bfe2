"""Folders of tiny random models with the bundled model's tokenizer, for tests of how any model of a kind is served. Standard library only."""
import array
import json
import math
import os
import random
import shutil
import struct

from serve import bundled_model

VOCAB = 3072  # the bundled tokenizer's


def write_safetensors(path, tensors):
    """{name: (shape, array of floats)} as f32."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * len(values)]}
        at += 4 * len(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            f.write(values.tobytes())


def put_model(folder, config, shapes, draw):
    """config None: no config.json; shapes: {name: shape}; draw: name, shape -> (mean, sigma)."""
    random.seed(7)
    tensors = {}
    for name, shape in sorted(shapes.items()):
        mean, sigma = draw(name, shape)
        tensors[name] = (shape, array.array("f", (random.gauss(mean, sigma) for _ in range(math.prod(shape)))))
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    if config:
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(config, f)
    for name in os.listdir(bundled_model()):
        if name.startswith("tokenizer") or name in ("special_tokens_map.json", "generation_config.json"):
            shutil.copy(os.path.join(bundled_model(), name), folder)


def put_whole_norm(folder):
    """OLMo 2: queries and keys are normed over all heads, of which there are fewer with keys than with queries."""
    hidden, ffn = 64, 96
    shapes = {"model.embed_tokens.weight": [VOCAB, hidden], "model.norm.weight": [hidden]}
    for i in range(2):
        at = f"model.layers.{i}."
        shapes |= {at + f"self_attn.{p}_proj.weight": [n, hidden] for p, n in (("q", 64), ("k", 32), ("v", 32), ("o", 64))}
        shapes |= {at + "self_attn.q_norm.weight": [64], at + "self_attn.k_norm.weight": [32], at + "post_attention_layernorm.weight": [hidden],
                   at + "post_feedforward_layernorm.weight": [hidden], at + "mlp.gate_proj.weight": [ffn, hidden],
                   at + "mlp.up_proj.weight": [ffn, hidden], at + "mlp.down_proj.weight": [hidden, ffn]}
    config = dict(architectures=["Olmo2ForCausalLM"], model_type="olmo2", vocab_size=VOCAB, hidden_size=hidden, intermediate_size=ffn,
                  num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2048, tie_word_embeddings=True,
                  eos_token_id=3067)
    put_model(folder, config, shapes, draw)


def put_heads(folder, heads=8, hidden=128, ffn=128):
    """Llama with as many heads as there may be ranks, each with keys of its own."""
    shapes = {"model.embed_tokens.weight": [VOCAB, hidden], "model.norm.weight": [hidden]}
    for i in range(2):
        at = f"model.layers.{i}."
        shapes |= {at + f"self_attn.{p}_proj.weight": [hidden, hidden] for p in "qkvo"}
        shapes |= {at + "input_layernorm.weight": [hidden], at + "post_attention_layernorm.weight": [hidden],
                   at + "mlp.gate_proj.weight": [ffn, hidden], at + "mlp.up_proj.weight": [ffn, hidden], at + "mlp.down_proj.weight": [hidden, ffn]}
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=VOCAB, hidden_size=hidden, intermediate_size=ffn,
                  num_hidden_layers=2, num_attention_heads=heads, num_key_value_heads=heads, max_position_embeddings=2048, tie_word_embeddings=True,
                  eos_token_id=3067)
    put_model(folder, config, shapes, draw)


def mamba2_shapes(at, hidden, heads, dim, groups, state, taps):
    width, conv = heads * dim, heads * dim + 2 * groups * state
    return {at + "in_proj.weight": [width + conv + heads, hidden], at + "conv1d.weight": [conv, 1, taps], at + "conv1d.bias": [conv],
            at + "dt_bias": [heads], at + "A_log": [heads], at + "D": [heads], at + "norm.weight": [width], at + "out_proj.weight": [hidden, width]}


def draw(name, shape):
    if name.endswith("A_log"):
        return -1.5, 0.8  # remembers some tens of positions
    if name.endswith("dt_bias"):
        return -1.0, 0.7
    if name.endswith("conv1d.weight"):
        return 0.1, 0.5
    if len(shape) == 1:
        return (1.0, 0.2) if "norm" in name or name.endswith(".D") else (0.0, 0.2)
    return 0.0, (2.0 if "embed" in name else 1.0) / math.sqrt(shape[-1])


def put_hybrid(folder):
    """Bamba: Mamba 2, attention, Mamba 2, each with a gated feed-forward."""
    hidden, ffn = 64, 96
    shapes = {"model.embed_tokens.weight": [VOCAB, hidden], "model.final_layernorm.weight": [hidden]}
    for i in range(3):
        at = f"model.layers.{i}."
        shapes |= {at + "input_layernorm.weight": [hidden], at + "pre_ff_layernorm.weight": [hidden],
                   at + "feed_forward.gate_proj.weight": [ffn, hidden], at + "feed_forward.up_proj.weight": [ffn, hidden],
                   at + "feed_forward.down_proj.weight": [hidden, ffn]}
        if i == 1:
            shapes |= {at + f"self_attn.{p}_proj.weight": [n, hidden] for p, n in (("q", 64), ("k", 32), ("v", 32), ("o", 64))}
        else:
            shapes |= mamba2_shapes(at + "mamba.", hidden, 8, 16, 2, 16, 4)
    config = dict(architectures=["BambaForCausalLM"], model_type="bamba", vocab_size=VOCAB, hidden_size=hidden, intermediate_size=ffn,
                  num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, attn_layer_indices=[1], mamba_n_heads=8, mamba_d_head=16,
                  mamba_n_groups=2, mamba_d_state=16, max_position_embeddings=2048, tie_word_embeddings=True, eos_token_id=3067)
    put_model(folder, config, shapes, draw)


def put_experts(folder):
    """DeepSeek-V2: latent attention, a dense layer, then mixtures of eight experts with a shared one."""
    hidden, ffn, heads, nope, rope, value, rank, width = 64, 96, 4, 16, 8, 16, 32, 32
    shapes = {"model.embed_tokens.weight": [VOCAB, hidden], "model.norm.weight": [hidden], "lm_head.weight": [VOCAB, hidden]}
    for i in range(3):
        at, attention = f"model.layers.{i}.", f"model.layers.{i}.self_attn."
        shapes |= {at + "input_layernorm.weight": [hidden], at + "post_attention_layernorm.weight": [hidden],
                   attention + "q_proj.weight": [heads * (nope + rope), hidden], attention + "kv_a_proj_with_mqa.weight": [rank + rope, hidden],
                   attention + "kv_a_layernorm.weight": [rank], attention + "kv_b_proj.weight": [heads * (nope + value), rank],
                   attention + "o_proj.weight": [hidden, heads * value]}
        parts = [("mlp.", ffn)] if i == 0 else [(f"mlp.experts.{e}.", width) for e in range(8)] + [("mlp.shared_experts.", width)]
        for part, rows in parts:
            shapes |= {at + part + "gate_proj.weight": [rows, hidden], at + part + "up_proj.weight": [rows, hidden],
                       at + part + "down_proj.weight": [hidden, rows]}
        if i:
            shapes[at + "mlp.gate.weight"] = [8, hidden]
    config = dict(architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2", vocab_size=VOCAB, hidden_size=hidden, intermediate_size=ffn,
                  num_hidden_layers=3, num_attention_heads=heads, num_key_value_heads=heads, q_lora_rank=None, kv_lora_rank=rank,
                  qk_nope_head_dim=nope, qk_rope_head_dim=rope, v_head_dim=value, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1,
                  moe_intermediate_size=width, first_k_dense_replace=1, norm_topk_prob=False, routed_scaling_factor=1.0, topk_method="greedy",
                  scoring_func="softmax", max_position_embeddings=2048, eos_token_id=3067)
    put_model(folder, config, shapes, draw)


def put_recurrent(folder):
    """Mamba 2 alone: no layer has keys and values."""
    hidden = 64
    shapes = {"backbone.embeddings.weight": [VOCAB, hidden], "backbone.norm_f.weight": [hidden]}
    for i in range(2):
        shapes[f"backbone.layers.{i}.norm.weight"] = [hidden]
        shapes |= mamba2_shapes(f"backbone.layers.{i}.mixer.", hidden, 8, 16, 1, 16, 4)
    config = dict(architectures=["Mamba2ForCausalLM"], model_type="mamba2", vocab_size=VOCAB, hidden_size=hidden, num_hidden_layers=2, num_heads=8,
                  head_dim=16, n_groups=1, state_size=16, tie_word_embeddings=True, eos_token_id=3067)
    put_model(folder, config, shapes, draw)


def mamba3_shapes(at, hidden, heads, state, taps, inputs):
    width = 2 * hidden
    conv, dim, shapes = width + 2 * state, width // heads, {at + "norm.weight": [hidden], at + "norm.bias": [hidden]}
    for name, rows, cols in (("in_proj", width + conv + heads, hidden), ("out_proj", hidden, width), ("lambda_proj", heads, hidden),
                             ("theta_proj", heads * state // 2, hidden), ("mimo_x_up", dim * inputs, dim), ("mimo_x_down", dim, dim * inputs)):
        shapes |= {f"{at}mixer.{name}.weight": [rows, cols], f"{at}mixer.{name}.bias": [rows]}
    for name, shape in (("conv1d.weight", [conv, 1, taps]), ("conv1d.bias", [conv]), ("b_bias", [heads, state]), ("c_bias", [heads, state]),
                        ("dt_bias", [heads]), ("A_log", [heads]), ("D", [heads]), ("bc_norm.weight", [state]), ("norm.weight", [width])):
        shapes[f"{at}mixer.{name}"] = shape
    return shapes


def put_oxidizr(folder):
    """Mamba 3, latent attention, Mamba 1, in oxidizr's layout and without a config.json."""
    hidden, heads, rope = 64, 4, 8
    shapes = {"embed_tokens.weight": [VOCAB, hidden], "norm.weight": [hidden], "lm_head.weight": [VOCAB, hidden]}
    shapes |= mamba3_shapes("layers.0.mamba3.", hidden, 8, 16, 4, 2)
    latent = {"w_dkv": [24, hidden], "w_dq": [32, hidden], "w_uq": [hidden, 32], "w_uk": [hidden, 24], "w_uv": [hidden, 24],
              "w_qr": [heads * rope, hidden], "w_kr": [rope, hidden], "o_proj": [hidden, hidden]}
    shapes |= {f"layers.1.self_attn.{name}.weight": shape for name, shape in latent.items()}
    shapes |= {f"layers.1.mlp.{p}_proj.weight": s for p, s in (("gate", [96, hidden]), ("up", [96, hidden]), ("down", [hidden, 96]))}
    shapes |= {"layers.1.input_layernorm.weight": [hidden], "layers.1.post_attention_layernorm.weight": [hidden], "layers.2.norm.weight": [hidden]}
    mamba = {"in_proj.weight": [4 * hidden, hidden], "conv1d.weight": [2 * hidden, 1, 4], "conv1d.bias": [2 * hidden], "d": [2 * hidden],
             "x_proj.weight": [32 + 2 * hidden, 2 * hidden], "dt_proj.weight": [2 * hidden, 2 * hidden], "dt_proj.bias": [2 * hidden],
             "a_log": [2 * hidden, 16], "out_proj.weight": [hidden, 2 * hidden]}
    shapes |= {"layers.2.mamba." + name: shape for name, shape in mamba.items()}
    put_model(folder, None, shapes, draw)
