"""Models of random weights in shapes that bench_kernels does not write: a folder with config.json and model.safetensors (bf16).

Layers and experts are cut so that a file fits small machines; everything else has the model's own sizes.
"""
import json
import os
import random
import struct

CHUNK = 1 << 20  # values


def qwen3_30b_a3b():
    hidden, layers, heads, kv_heads, dim, experts, width, vocab = 2048, 3, 32, 4, 128, 128, 768, 16384
    config = dict(architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                  num_key_value_heads=kv_heads, head_dim=dim, intermediate_size=6144, moe_intermediate_size=width, num_experts=experts,
                  num_experts_per_tok=8, norm_topk_prob=True, vocab_size=vocab, max_position_embeddings=40960, rms_norm_eps=1e-6, rope_theta=1e6,
                  decoder_sparse_step=1, mlp_only_layers=[], tie_word_embeddings=False, hidden_act="silu")
    tensors = ends(vocab, hidden)
    for i in range(layers):
        at = f"model.layers.{i}."
        tensors |= attention(at, hidden, heads * dim, kv_heads * dim, dim) | expert_tensors(at, hidden, experts, width)
    return config, tensors


def qwen3_next():
    hidden, layers, heads, kv_heads, dim, experts, width, vocab = 2048, 4, 16, 2, 256, 64, 512, 16384
    keys, values, state = 16, 32, 128
    config = dict(architectures=["Qwen3NextForCausalLM"], model_type="qwen3_next", hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                  num_key_value_heads=kv_heads, head_dim=dim, intermediate_size=5120, moe_intermediate_size=width, shared_expert_intermediate_size=width,
                  num_experts=experts, num_experts_per_tok=10, norm_topk_prob=True, vocab_size=vocab, max_position_embeddings=40960, rms_norm_eps=1e-6,
                  rope_theta=1e7, partial_rotary_factor=0.25, decoder_sparse_step=1, mlp_only_layers=[], tie_word_embeddings=False, hidden_act="silu",
                  linear_num_key_heads=keys, linear_num_value_heads=values, linear_key_head_dim=state, linear_value_head_dim=state,
                  linear_conv_kernel_dim=4, full_attention_interval=4)
    tensors = ends(vocab, hidden)
    for i in range(layers):
        at, mixer = f"model.layers.{i}.", f"model.layers.{i}.linear_attn."
        if i % 4 == 3:
            tensors |= attention(at, hidden, 2 * heads * dim, kv_heads * dim, dim, heads * dim)
        else:
            tensors |= {mixer + "in_proj_qkvz.weight": [2 * (keys + values) * state, hidden], mixer + "in_proj_ba.weight": [2 * values, hidden],
                        mixer + "conv1d.weight": [(2 * keys + values) * state, 1, 4], mixer + "dt_bias": [values], mixer + "A_log": [values],
                        mixer + "norm.weight": [state], mixer + "out_proj.weight": [hidden, values * state],
                        at + "input_layernorm.weight": [hidden], at + "post_attention_layernorm.weight": [hidden]}
        tensors |= expert_tensors(at, hidden, experts, width)
        tensors |= linear3(at + "mlp.shared_expert.", hidden, width) | {at + "mlp.shared_expert_gate.weight": [1, hidden]}
    return config, tensors


def ends(vocab, hidden):
    return {"model.embed_tokens.weight": [vocab, hidden], "lm_head.weight": [vocab, hidden], "model.norm.weight": [hidden]}


def attention(at, hidden, q, kv, dim, out=None):
    own = at + "self_attn."
    return {own + "q_proj.weight": [q, hidden], own + "k_proj.weight": [kv, hidden], own + "v_proj.weight": [kv, hidden],
            own + "o_proj.weight": [hidden, out or q], own + "q_norm.weight": [dim], own + "k_norm.weight": [dim],
            at + "input_layernorm.weight": [hidden], at + "post_attention_layernorm.weight": [hidden]}


def linear3(at, hidden, width):
    return {at + "gate_proj.weight": [width, hidden], at + "up_proj.weight": [width, hidden], at + "down_proj.weight": [hidden, width]}


def expert_tensors(at, hidden, experts, width):
    tensors = {at + "mlp.gate.weight": [experts, hidden]}
    for e in range(experts):
        tensors |= linear3(f"{at}mlp.experts.{e}.", hidden, width)
    return tensors


SHAPES = {"qwen3-30b-a3b-cut": qwen3_30b_a3b, "qwen3-next-cut": qwen3_next}


def write(shape, folder):
    """bf16 of both signs in [2^-6, 2^-5), each chunk another window of the same."""
    config, tensors = SHAPES[shape]()
    header, offset = {}, 0
    for name, sizes in tensors.items():
        count = 1
        for size in sizes:
            count *= size
        header[name] = {"dtype": "BF16", "shape": sizes, "data_offsets": [offset, offset + 2 * count]}
        offset += 2 * count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    draw = random.Random(1)
    values = b"".join(struct.pack("<H", draw.getrandbits(1) << 15 | 0x3c80 | draw.getrandbits(7)) for _ in range(2 * CHUNK))
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        first = 0
        while offset:
            size = min(offset, 2 * CHUNK)
            f.write(values[2 * first:2 * first + size])
            first = (first + 7919 * 61) % CHUNK
            offset -= size
