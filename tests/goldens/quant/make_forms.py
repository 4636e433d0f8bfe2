#!/usr/bin/env python3
"""Writes forms/: a module "m.q" in every form of quantised checkpoint, and its values decoded in float64 by the formulas
of each form's reference, rounded once to f32. Needs numpy, ml_dtypes, safetensors."""
import json
import os

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forms")
os.makedirs(OUT, exist_ok=True)
rng = np.random.default_rng(66)
ROWS, COLS, GROUP = 24, 64, 16


def write(name, config, tensors, dense):
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, f"{OUT}/{name}.safetensors")
    save_file({"m.q.weight": dense.astype(np.float32)}, f"{OUT}/{name}.expected.safetensors")
    json.dump({"model_type": "llama", "quantization_config": config}, open(f"{OUT}/{name}.json", "w"))


def pack(values, bits, axis, order=None):
    """Unsigned integers along an axis into int32 words; order[i]: which of a word's values comes i-th."""
    n = 32 // bits
    v = np.moveaxis(values, axis, -1).astype(np.uint64)
    pad = -v.shape[-1] % n
    v = np.concatenate([v, np.zeros((*v.shape[:-1], pad), np.uint64)], -1) if pad else v
    v = v.reshape(*v.shape[:-1], -1, n)
    if order:
        v = v[..., order]
    words = sum(v[..., i] << np.uint64(bits * i) for i in range(n)).astype(np.uint32).view(np.int32)
    return np.moveaxis(words, -1, axis)


def grouped(bits, groups, idx=None):
    q = rng.integers(0, 2 ** bits, (ROWS, COLS))
    z = rng.integers(1, 2 ** bits - 1, (ROWS, groups))
    s = (rng.random((ROWS, groups)) * 0.1 + 0.001).astype(np.float16)
    g = idx if idx is not None else np.arange(COLS) // (COLS // groups)
    return q, z, s, (q.astype(np.float64) - z[:, g]) * s.astype(np.float64)[:, g], g


# AWQ, "gemm"
q, z, s, dense, _ = grouped(4, COLS // GROUP)
ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
write("awq", {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True,
              "modules_to_not_convert": None},
      {"m.q.qweight": pack(q.T, 4, 1, ORDER), "m.q.qzeros": pack(z.T, 4, 1, ORDER), "m.q.scales": s.T}, dense)

# GPTQ
for name, bits, form, groups, act in [("gptq", 4, "gptq", 4, False), ("gptq_v2", 4, "gptq_v2", 4, False),
                                      ("gptq_int8", 8, "gptq", 4, False), ("gptq_act_order", 4, "gptq", 4, True),
                                      ("gptq_channel", 4, "gptq", 1, False)]:
    idx = rng.permutation(np.arange(COLS) // (COLS // groups)) if act else None
    q, z, s, dense, g = grouped(bits, groups, idx)
    stored = z if form == "gptq_v2" else z - 1
    write(name, {"quant_method": "gptq", "bits": bits, "group_size": COLS // groups if groups > 1 else -1,
                 "desc_act": act, "sym": False, "checkpoint_format": form},
          {"m.q.qweight": pack(q.T, bits, 0), "m.q.qzeros": pack(stored.T, bits, 1), "m.q.scales": s.T,
           "m.q.g_idx": g.astype(np.int32)}, dense)

# compressed-tensors, packed
CT = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {}, "ignore": ["lm_head"]}
for name, bits, asym, act, cols in [("ct_w4a16", 4, False, False, 64), ("ct_w4a16_asym", 4, True, False, 64),
                                    ("ct_w4a16_order", 4, False, True, 64), ("ct_w8a16", 8, False, False, 64),
                                    ("ct_w4a16_odd", 4, False, False, 60)]:
    COLS = cols
    groups = 4
    idx = rng.permutation(np.arange(COLS) // (COLS // groups)) if act else None
    q, z, s, dense, g = grouped(bits, groups, idx)
    s = s.astype(ml_dtypes.bfloat16)
    if not asym:
        z = np.full_like(z, 2 ** (bits - 1))
    dense = (q.astype(np.float64) - z[:, g]) * s.astype(np.float64)[:, g]
    t = {"m.q.weight_packed": pack(q, bits, 1), "m.q.weight_scale": s, "m.q.weight_shape": np.array(q.shape, np.int64)}
    if asym:
        t["m.q.weight_zero_point"] = pack(z, bits, 0)
    if act:
        t["m.q.weight_g_idx"] = g.astype(np.int32)
    write(name, CT, t, dense)
COLS = 64

# fp8 and int8
for name, kind, scale_shape, suffix, config in [
        ("fp8_tensor", "e4m3", (), "weight_scale", {"quant_method": "fp8", "activation_scheme": "static"}),
        ("fp8_channel", "e4m3", (ROWS, 1), "weight_scale", {"quant_method": "compressed-tensors", "format": "float-quantized"}),
        ("fp8_block", "e4m3", (2, 3), "weight_scale_inv", {"quant_method": "fp8", "weight_block_size": [16, 24]}),
        ("fp8_e5m2", "e5m2", (1,), "weight_scale", {"quant_method": "fp8"}),
        ("int8_channel", "i8", (ROWS, 1), "weight_scale", {"quant_method": "compressed-tensors", "format": "int-quantized"})]:
    types = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "i8": np.int8}
    w = (rng.normal(0, 40, (ROWS, COLS))).astype(types[kind])
    s = np.asarray(rng.random(scale_shape) * 0.01 + 1e-4, np.float32)
    if suffix == "weight_scale_inv":
        full = np.repeat(np.repeat(s, 16, 0), 24, 1)[:ROWS, :COLS]
    else:
        full = s
    t = {"m.q.weight": w, f"m.q.{suffix}": s, "m.q.input_scale": np.asarray(0.5, np.float32)}
    write(name, config, t, w.astype(np.float64) * full.astype(np.float64))

# bitsandbytes
NF4 = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
                1.0])
for name, cols, nested in [("nf4", 64, False), ("nf4_nested", 64, True), ("nf4_across_rows", 40, False)]:
    q = rng.integers(0, 16, ROWS * cols)
    blocks = (ROWS * cols + 63) // 64
    absmax = (rng.random(blocks) + 0.01).astype(np.float32)
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [ROWS, cols]}
    t = {"m.q.weight": ((q[0::2] << 4) | q[1::2]).astype(np.uint8).reshape(-1, 1), "m.q.weight.quant_map": NF4.astype(np.float32)}
    if nested:
        code = np.sort(rng.normal(0, 0.5, 256)).astype(np.float32)
        index = rng.integers(0, 256, blocks).astype(np.uint8)
        outer = (rng.random((blocks + 7) // 8) + 0.5).astype(np.float32)
        state |= {"nested_blocksize": 8, "nested_offset": 0.75, "nested_dtype": "float32"}
        t |= {"m.q.weight.absmax": index, "m.q.weight.nested_absmax": outer, "m.q.weight.nested_quant_map": code}
        absmax = code[index] * np.repeat(outer, 8)[:blocks] + np.float32(0.75)
    else:
        t["m.q.weight.absmax"] = absmax
    t["m.q.weight.quant_state.bitsandbytes__nf4"] = np.frombuffer(json.dumps(state).encode(), np.uint8)
    dense = NF4.astype(np.float32).astype(np.float64)[q] * np.repeat(absmax, 64)[:ROWS * cols].astype(np.float64)
    write(name, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, t,
          dense.reshape(ROWS, cols))
s = (rng.random(ROWS) * 3 + 0.1).astype(np.float32)
w = rng.integers(-127, 128, (ROWS, COLS)).astype(np.int8)
write("bnb_int8", {"quant_method": "bitsandbytes", "load_in_8bit": True},
      {"m.q.weight": w, "m.q.SCB": s, "m.q.weight_format": np.asarray(0, np.uint8)},
      w.astype(np.float64) * (s / np.float32(127)).astype(np.float64)[:, None])
