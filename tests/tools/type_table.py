#!/usr/bin/env python3
"""The bundled model in every storage type: writes it quantised, and once more in f32 with the weights decoded by other
code than ours (numpy, the package gguf), and compares the mean negative log-likelihoods of a committed text.

    python3 tests/tools/type_table.py [--trireme PROGRAM] [--only NAME ...]

Needs numpy and gguf. Exit status 1: some differ by more than 1e-3; 77: a package is missing.
"""
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from gguf import GGMLQuantizationType as T, GGUFReader, quants
except ImportError as e:
    print(f"skip: {e}")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL, TEXT = f"{ROOT}/demo/model", f"{ROOT}/tests/goldens/quant/story.txt"
TOLERANCE = 1e-3
GROUP = 128

# ---- files ----


def read_safetensors(path):
    """Names to f32 arrays, of a file of bf16."""
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        assert t["dtype"] == "BF16", t
        begin, end = (8 + size + at for at in t["data_offsets"])
        bits = np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16
        out[name] = bits.view(np.float32).reshape(t["shape"])
    return out


class Fp8(np.ndarray):
    """Bytes that a header calls F8_E4M3 or F8_E5M2."""


def fp8(bytes_, name):
    out = bytes_.view(Fp8)
    out.dtype_name = name
    return out


NAMES = {"float32": "F32", "float16": "F16", "int32": "I32", "int64": "I64", "int8": "I8", "uint8": "U8"}


def write_safetensors(path, tensors):
    header, at, parts = {}, 0, []
    for name, t in tensors.items():
        t = np.ascontiguousarray(t) if not isinstance(t, Fp8) else t
        kind = t.dtype_name if isinstance(t, Fp8) else NAMES[t.dtype.name]
        raw = t.tobytes()
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        parts.append(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for p in parts:
            f.write(p)


def write_folder(path, tensors, quantization=None):
    os.makedirs(path, exist_ok=True)
    for name in os.listdir(MODEL):
        if name.endswith(".json") and name != "config.json":
            open(f"{path}/{name}", "wb").write(open(f"{MODEL}/{name}", "rb").read())
    config = json.load(open(f"{MODEL}/config.json"))
    if quantization:
        config["quantization_config"] = quantization
    json.dump(config, open(f"{path}/config.json", "w"))
    write_safetensors(f"{path}/model.safetensors", tensors)


def write_gguf(path, source, reader, tensors):
    """The keys of `source` as they are; tensors: name -> (type, dims, bytes)."""
    whole = open(source, "rb").read()
    keys = whole[:min(int(t.field.offset) for t in reader.tensors)]
    out, at, data = bytearray(keys), 0, []
    struct.pack_into("<Q", out, 8, len(tensors))
    for name, (kind, dims, raw) in tensors.items():
        out += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(dims))
        out += struct.pack(f"<{len(dims)}QIQ", *dims, kind.value, at)
        data.append(raw + b"\0" * (-len(raw) % 32))
        at += len(data[-1])
    out += b"\0" * (-len(out) % 32)
    with open(path, "wb") as f:
        f.write(bytes(out) + b"".join(data))


# ---- GGUF types that the package does not encode: any valid blocks, near the values ----


def halves(d):
    return d.astype(np.float16).reshape(-1, 1)


def groups(x, size):
    return x.reshape(x.shape[0], -1, size)


def rms(x):
    return np.sqrt((x * x).mean(-1)) + 1e-12


def nearest(grid, x):
    """The grid's row nearest to each of x [n, k]."""
    grid, out = grid.reshape(-1, x.shape[-1]).astype(np.float32), np.empty(len(x), np.int64)
    squares = (grid * grid).sum(-1)
    for i in range(0, len(x), 8192):
        out[i:i + 8192] = (squares - 2 * (x[i:i + 8192] @ grid.T)).argmin(-1)
    return out


def grid_of(name):
    kind = getattr(quants, name)
    kind.init_grid()
    return kind.grid


def even_signs(x):
    """Signs of eights as bits; an odd number of them is made even at the smallest value."""
    negative = x < 0
    odd = negative.sum(-1) % 2 == 1
    at = np.abs(x).argmin(-1)
    flip = np.zeros_like(negative)
    np.put_along_axis(flip, at[..., None], odd[..., None], -1)
    negative ^= flip
    return (negative * (1 << np.arange(8))).sum(-1).astype(np.uint32)


def scale_steps(x, size, unit, step, top):
    """Sub-scales of groups: d [n], their numbers, and the unit each group gets: d * step(number)."""
    wanted = rms(groups(x, size)) / unit
    d = (wanted.max(-1) / step(top)).astype(np.float16).astype(np.float32)
    numbers = np.arange(top + 1)
    steps = d[:, None, None] * step(numbers)
    n = np.abs(steps - wanted[..., None]).argmin(-1)
    return d, n, np.maximum(d[:, None] * step(n), 1e-12)


def iq2_xxs(x):
    d, n, unit = scale_steps(x, 32, 20, lambda s: (0.5 + s) * 0.25, 15)
    parts = groups(x, 32).reshape(len(x), 8, 4, 8)
    signs = even_signs(parts) & 127
    idx = nearest(grid_of("IQ2_XXS"), (np.abs(parts) / unit[..., None, None]).reshape(-1, 8)).reshape(len(x), 8, 4)
    words = np.empty((len(x), 8, 2), np.uint32)
    words[..., 0] = (idx.astype(np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)).sum(-1)
    words[..., 1] = (signs << np.arange(0, 28, 7, dtype=np.uint32)).sum(-1) | n.astype(np.uint32) << 28
    return [halves(d), words.reshape(len(x), -1)]


def iq2_xs(x):
    d, n, unit = scale_steps(x, 16, 20, lambda s: (0.5 + s) * 0.25, 15)
    parts = groups(x, 16).reshape(len(x), 16, 2, 8)
    idx = nearest(grid_of("IQ2_XS"), (np.abs(parts) / unit[..., None, None]).reshape(-1, 8)).reshape(len(x), 32)
    q = idx.astype(np.uint32) | (even_signs(parts).reshape(len(x), 32) & 127) << 9
    return [halves(d), q.astype(np.uint16), nibbles(n)]


def nibbles(n):
    return (n[:, 0::2] | n[:, 1::2] << 4).astype(np.uint8)


def signs_of(parts):
    return ((parts < 0) * (1 << np.arange(8))).sum(-1).astype(np.uint8)


def iq2_s(x):
    d, n, unit = scale_steps(x, 16, 20, lambda s: (0.5 + s) * 0.25, 15)
    parts = groups(x, 16).reshape(len(x), 16, 2, 8)
    idx = nearest(grid_of("IQ2_S"), (np.abs(parts) / unit[..., None, None]).reshape(-1, 8)).reshape(len(x), 32)
    high = ((idx >> 8).reshape(len(x), 8, 4) << np.arange(0, 8, 2)).sum(-1)
    return [halves(d), idx.astype(np.uint8), signs_of(parts.reshape(len(x), 32, 8)), high.astype(np.uint8), nibbles(n)]


def iq3_xxs(x):
    d, n, unit = scale_steps(x, 32, 28, lambda s: (0.5 + s) * 0.5, 15)
    eights = groups(x, 32).reshape(len(x), 8, 4, 8)
    fours = np.abs(eights).reshape(len(x), 8, 8, 4) / unit[..., None, None]
    idx = nearest(grid_of("IQ3_XXS"), fours.reshape(-1, 4)).reshape(len(x), 64)
    signs = even_signs(eights) & 127
    words = (signs << np.arange(0, 28, 7, dtype=np.uint32)).sum(-1).astype(np.uint32) | n.astype(np.uint32) << 28
    return [halves(d), idx.astype(np.uint8), words]


def iq3_s(x):
    d, n, unit = scale_steps(x, 32, 7, lambda s: 1 + 2 * s, 15)
    fours = np.abs(groups(x, 32)).reshape(len(x), 8, 8, 4) / unit[..., None, None]
    idx = nearest(grid_of("IQ3_S"), fours.reshape(-1, 4)).reshape(len(x), 64)
    high = ((idx >> 8).reshape(len(x), 8, 8) << np.arange(8)).sum(-1)
    return [halves(d), idx.astype(np.uint8), high.astype(np.uint8), signs_of(groups(x, 8)), nibbles(n)]


def iq1_s(x):
    d, n, unit = scale_steps(x, 32, 0.8, lambda s: 2 * s + 1, 7)
    parts = groups(x, 32).reshape(len(x), 8, 4, 8) / unit[..., None, None] - 0.125
    idx = nearest(grid_of("IQ1_S"), parts.reshape(-1, 8)).reshape(len(x), 8, 4)
    high = ((idx >> 8) << np.arange(0, 12, 3)).sum(-1) | n << 12
    return [halves(d), idx.reshape(len(x), 32).astype(np.uint8), high.astype(np.uint16)]


def iq1_m(x):
    d, n, unit = scale_steps(x, 16, 0.8, lambda s: 2 * s + 1, 7)
    parts = groups(x, 16).reshape(len(x), 16, 2, 8) / unit[..., None, None] - 0.125
    idx = nearest(grid_of("IQ1_M"), parts.reshape(-1, 8)).reshape(len(x), 32)
    high = (idx[:, 0::2] >> 8) | (idx[:, 1::2] >> 8) << 4
    scales = (n.reshape(len(x), 4, 4) << np.arange(0, 12, 3)).sum(-1)
    bits = d.astype(np.float16).view(np.uint16).astype(np.int64)
    scales |= (bits[:, None] >> np.array([0, 4, 8, 12]) & 15) << 12
    return [idx.astype(np.uint8), high.astype(np.uint8), scales.astype(np.uint16)]


def fours_of(x, unit):
    values = np.array(quants.IQ4_NL.kvalues, np.float32)
    return np.abs(x[..., None] / unit[..., None, None] - values).argmin(-1)


def pack_halves(q):
    """[.., 32] numbers of four bits: the first sixteen in the lower halves."""
    return (q[..., :16] | q[..., 16:] << 4).astype(np.uint8)


def iq4_nl(x):
    d = (np.abs(x).max(-1) / 113).astype(np.float16).astype(np.float32)
    return [halves(d), pack_halves(fours_of(x, np.maximum(d, 1e-12)))]


def iq4_xs(x):
    parts = groups(x, 32)
    wanted = np.abs(parts).max(-1) / 113
    d = (wanted.max(-1) / 31).astype(np.float16).astype(np.float32)
    n = np.clip(np.rint(wanted / np.maximum(d, 1e-12)[:, None]), 1, 31).astype(np.int64)
    q = pack_halves(fours_of(parts, np.maximum(d[:, None] * n, 1e-12)))
    n += 32
    high = ((n >> 4) << np.arange(0, 16, 2)).sum(-1).astype(np.uint16).reshape(-1, 1)
    return [halves(d), high, nibbles(n & 15), q.reshape(len(x), -1)]


OWN = {"IQ1_S": iq1_s, "IQ1_M": iq1_m, "IQ2_XXS": iq2_xxs, "IQ2_XS": iq2_xs, "IQ2_S": iq2_s, "IQ3_XXS": iq3_xxs,
       "IQ3_S": iq3_s, "IQ4_NL": iq4_nl, "IQ4_XS": iq4_xs}
PACKAGE = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4"]
COMPUTED_GGUF = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "MXFP4", "IQ4_NL", "IQ4_XS"]
COMPUTED_FOLDERS = ["awq int4", "gptq int4", "compressed-tensors W8A8", "compressed-tensors FP8"]
K_QUANTS = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]


def encode(name, w):
    """A matrix's blocks as bytes."""
    if name in PACKAGE:
        return quants.quantize(w, T[name]).tobytes()
    blocks = w.reshape(-1, 32 if name == "IQ4_NL" else 256)
    return np.concatenate([np.ascontiguousarray(p).view(np.uint8).reshape(len(blocks), -1) for p in OWN[name](blocks)],
                          -1).tobytes()


def gguf_pair(run, name):
    source, target, dense = f"{run.dir}/f32.gguf", f"{run.dir}/q.gguf", f"{run.dir}/dense.gguf"
    if not os.path.exists(source):
        run.command("convert", "--model", MODEL, "--out", source, "--type", "f32", "--force")
    if name in K_QUANTS:
        run.command("quantize", "--model", MODEL, "--out", target, "--type", name.lower(), "--force")
        reader = GGUFReader(target)
        made = {t.name: (t.tensor_type, [int(d) for d in t.shape], t.data.tobytes()) for t in reader.tensors}
    else:
        reader, made = GGUFReader(source), {}
        for t in reader.tensors:
            kind, raw = (T[name], encode(name, t.data)) if t.data.ndim == 2 else (T.F32, t.data.tobytes())
            made[t.name] = (kind, [int(d) for d in t.shape], raw)
        write_gguf(target, source, reader, made)
    decoded = {}
    for tensor, (kind, dims, raw) in made.items():
        size = quants.quant_shape_to_byte_shape(tuple(reversed(dims)), kind) if kind != T.F32 else None
        values = np.frombuffer(raw, np.float32 if kind == T.F32 else np.uint8)
        if kind != T.F32:
            values = quants.dequantize(values.reshape(size), kind).astype(np.float32)
        decoded[tensor] = (T.F32, dims, values.tobytes())
    write_gguf(dense, source, GGUFReader(source), decoded)
    return target, dense


# ---- folders ----


def affine(w, bits, group, symmetric=False):
    """Numbers, zeros and scales (f16) of groups along the columns."""
    parts, top = w.reshape(len(w), -1, group), 2 ** bits - 1
    if symmetric:
        s = np.abs(parts).max(-1) / (top // 2)
        z = np.full(s.shape, (top + 1) // 2)
    else:
        low, high = np.minimum(parts.min(-1), 0), np.maximum(parts.max(-1), 0)
        s = (high - low) / top
        z = np.clip(np.rint(-low / np.maximum(s, 1e-9)), 1, top)
    s = np.maximum(s, 1e-7).astype(np.float16)
    q = np.clip(np.rint(parts / s.astype(np.float32)[..., None]) + z[..., None], 0, top)
    return q.reshape(w.shape).astype(np.int64), z.astype(np.int64), s


def spread(q, z, s, g):
    return ((q - z[:, g]).astype(np.float32) * s.astype(np.float32)[:, g]).astype(np.float32)


def pack(values, bits, axis, order=None):
    """Numbers along an axis into words; order[i]: which of a word's comes i-th."""
    v = np.moveaxis(values, axis, -1).astype(np.uint64)
    v = v.reshape(*v.shape[:-1], -1, 32 // bits)
    v = v[..., order] if order else v
    words = sum(v[..., i] << np.uint64(bits * i) for i in range(32 // bits)).astype(np.uint32).view(np.int32)
    return np.moveaxis(words, -1, axis)


def awq(base, w):
    q, z, s = affine(w, 4, GROUP)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    return ({f"{base}.qweight": pack(q.T, 4, 1, order), f"{base}.qzeros": pack(z.T, 4, 1, order), f"{base}.scales": s.T},
            spread(q, z, s, np.arange(w.shape[1]) // GROUP))


def gptq(bits, form, act):
    def make(base, w):
        g = np.arange(w.shape[1]) // GROUP
        order = np.random.default_rng(w.shape[1]).permutation(w.shape[1]) if act else np.arange(w.shape[1])
        q, z, s = affine(w[:, order], bits, GROUP)
        back = np.argsort(order)
        q, g = q[:, back], g[back]
        stored = z if form == "gptq_v2" else z - 1
        return ({f"{base}.qweight": pack(q.T, bits, 0), f"{base}.qzeros": pack(stored.T, bits, 1), f"{base}.scales": s.T,
                 f"{base}.g_idx": g.astype(np.int32)}, spread(q, z, s, g))
    return make


def packed(bits, symmetric):
    def make(base, w):
        q, z, s = affine(w, bits, GROUP, symmetric)
        out = {f"{base}.weight_packed": pack(q, bits, 1), f"{base}.weight_scale": s,
               f"{base}.weight_shape": np.array(w.shape, np.int64)}
        if not symmetric:
            out[f"{base}.weight_zero_point"] = pack(z, bits, 0)
        return out, spread(q, z, s, np.arange(w.shape[1]) // GROUP)
    return make


def fp8_values(kind):
    b = np.arange(256)
    mantissa, bias = (3, 7) if kind == "F8_E4M3" else (2, 15)
    e, f = b >> mantissa & (2 ** (7 - mantissa) - 1), b & (2 ** mantissa - 1)
    v = np.where(e == 0, f * 2.0 ** (1 - bias - mantissa), (2 ** mantissa + f) * 2.0 ** (e - bias - mantissa))
    v = np.where(b & 128, -v, v)
    bad = (b & 127) == 127 if kind == "F8_E4M3" else e == 31
    return np.where(bad, np.nan, v).astype(np.float32)


def to_fp8(x, kind):
    values = fp8_values(kind)
    order = np.argsort(values)  # those that are none come last
    sure = values[order][:int(np.isfinite(values).sum())]
    at = np.clip(np.searchsorted(sure, x), 1, len(sure) - 1)
    at -= np.abs(x - sure[at - 1]) < np.abs(sure[at] - x)
    return order[at].astype(np.uint8), values


def small(kind, scale_of, suffix):
    """fp8 or int8 with scales: scale_of(magnitudes) -> (stored scales, scales over the matrix)."""
    def make(base, w):
        top = {"F8_E4M3": 448, "F8_E5M2": 57344, "I8": 127}[kind]
        stored, full = scale_of(np.abs(w), top)
        if kind == "I8":
            q = np.clip(np.rint(w / full), -127, 127).astype(np.int8)
            return {f"{base}.weight": q, f"{base}.{suffix}": stored}, q.astype(np.float32) * full
        q, values = to_fp8(w / full, kind)
        return {f"{base}.weight": fp8(q, kind), f"{base}.{suffix}": stored}, values[q] * full
    return make


def whole(m, top):
    s = np.asarray(m.max() / top, np.float32)
    return s, np.broadcast_to(s, m.shape)


def channel(m, top):
    s = (m.max(-1, keepdims=True) / top).astype(np.float32)
    return s, np.broadcast_to(s, m.shape)


def blocks128(m, top):
    s = np.array([[m[i:i + 128, k:k + 128].max() / top for k in range(0, m.shape[1], 128)]
                  for i in range(0, m.shape[0], 128)], np.float32)
    return s, np.repeat(np.repeat(s, 128, 0), 128, 1)[:m.shape[0], :m.shape[1]]


def scb(base, w):
    out, dense = small("I8", lambda m, top: (m.max(-1).astype(np.float32), (m.max(-1) / np.float32(127))[:, None]), "SCB")(base, w)
    return out, dense


NF4 = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
                1.0], np.float32)


def nf4(base, w):
    flat = w.reshape(-1, 64)
    most = np.maximum(np.abs(flat).max(-1), 1e-9).astype(np.float32)
    q = np.abs((flat / most[:, None])[..., None] - NF4).argmin(-1).reshape(-1)
    state = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": list(w.shape)}).encode()
    name = f"{base}.weight"
    return ({name: (q[0::2] << 4 | q[1::2]).astype(np.uint8).reshape(-1, 1), f"{name}.absmax": most,
             f"{name}.quant_map": NF4, f"{name}.quant_state.bitsandbytes__nf4": np.frombuffer(state, np.uint8)},
            (NF4[q] * np.repeat(most, 64)).reshape(w.shape))


CT = {"quant_method": "compressed-tensors", "config_groups": {}, "ignore": ["lm_head"]}
FOLDERS = {
    "awq int4": (awq, {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}),
    "gptq int4": (gptq(4, "gptq", False), {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "checkpoint_format": "gptq"}),
    "gptq int4, act order": (gptq(4, "gptq", True), {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": True}),
    "gptq v2 int8": (gptq(8, "gptq_v2", False), {"quant_method": "gptq", "bits": 8, "group_size": GROUP, "checkpoint_format": "gptq_v2"}),
    "compressed-tensors W4A16": (packed(4, True), CT | {"format": "pack-quantized"}),
    "compressed-tensors W4A16, zeros": (packed(4, False), CT | {"format": "pack-quantized"}),
    "compressed-tensors W8A16": (packed(8, True), CT | {"format": "pack-quantized"}),
    "compressed-tensors W8A8": (small("I8", channel, "weight_scale"), CT | {"format": "int-quantized"}),
    "compressed-tensors FP8": (small("F8_E4M3", channel, "weight_scale"), CT | {"format": "float-quantized"}),
    "fp8 e4m3, a tensor": (small("F8_E4M3", whole, "weight_scale"), {"quant_method": "fp8", "activation_scheme": "static"}),
    "fp8 e4m3, 128 x 128": (small("F8_E4M3", blocks128, "weight_scale_inv"), {"quant_method": "fp8", "weight_block_size": [128, 128]}),
    "fp8 e5m2, a tensor": (small("F8_E5M2", whole, "weight_scale"), {"quant_method": "fp8"}),
    "bitsandbytes int8": (scb, {"quant_method": "bitsandbytes", "load_in_8bit": True}),
    "bitsandbytes NF4": (nf4, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}),
}


def folder_pair(run, name):
    make, config = FOLDERS[name]
    made, dense = {}, {}
    for tensor, w in read_safetensors(f"{MODEL}/model.safetensors").items():
        made[tensor] = dense[tensor] = w
        if w.ndim == 2 and ".layers." in tensor:
            del made[tensor]
            tensors, dense[tensor] = make(tensor.removesuffix(".weight"), w)
            made |= tensors
    write_folder(f"{run.dir}/q", made, config)
    write_folder(f"{run.dir}/dense", dense)
    return f"{run.dir}/q", f"{run.dir}/dense"


# ---- running ----


class Run:
    def __init__(self, program, dir_):
        self.program, self.dir = program, dir_

    def command(self, *args):
        done = subprocess.run([self.program, *args], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(args)}: {done.stderr}")
        return done.stdout

    def nll(self, model, *more):
        out = self.command("perplexity", "--model", model, "--file", TEXT, "--device", "cpu", "--threads", "1", *more)
        return json.loads(out)["mean_nll"]


def check(run, name, pair):
    quantised, dense = pair
    a, b = run.nll(quantised, "--compute", "f32"), run.nll(dense, "--compute", "f32")
    bad = not abs(a - b) <= TOLERANCE
    print(f"| {name} | {a:.5f} | {b:.5f} | {a - b:+.1e} |" + (" <- too far apart" if bad else ""), flush=True)
    return bad


def log_probabilities(run, model, ids, compute):
    request = json.dumps({"ids": ids}) + "\n"
    done = subprocess.run([run.program, "logits", "--model", model, "--device", "cpu", "--kv-type", run.cache, "--compute", compute],
                          input=request, capture_output=True, text=True)
    x = np.array(json.loads(done.stdout)["logits"], np.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def compute_table(run, only):
    """What fewer bits of activations cost (8, or bf16 with the model as it is): perplexity, and the divergence of the tokens' distributions from
    those of f32."""
    with open(TEXT, encoding="utf-8") as f:
        ids = [int(i) for i in run.command("tokenize", "--model", MODEL, f.read()).split(",")][:1024]
    print("| type | compute | perplexity, f32 | so | difference | mean KL | largest |\n| --- | --- | --- | --- | --- | --- | --- |")
    for names, pair, compute in [(["bf16"], lambda run, name: [MODEL], "bf16"), (COMPUTED_GGUF, gguf_pair, "auto"), (COMPUTED_FOLDERS, folder_pair, "auto")]:
        for name in names:
            if only and name not in only:
                continue
            model = pair(run, name)[0]
            exact, own = (np.exp(run.nll(model, "--kv-type", run.cache, "--compute", c)) for c in ("f32", compute))
            f32, less = (log_probabilities(run, model, ids, c) for c in ("f32", compute))
            kl = (np.exp(f32) * (f32 - less)).sum(axis=1)
            print(f"| {name} | {compute} | {exact:.4f} | {own:.4f} | {100 * (own / exact - 1):+.3f} % | {kl.mean():.1e} | {kl.max():.1e} |", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--computed", action="store_true", help="the table of compute types alone")
    p.add_argument("--cache", default="f32", choices=["f32", "f16", "bf16"], help="how keys and values are stored for that table")
    p.add_argument("--trireme", default=f"{ROOT}/build/release/bin/trireme")
    p.add_argument("--only", nargs="*")
    args = p.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as d:
        run = Run(args.trireme, d)
        if args.computed:
            run.cache = args.cache
            return compute_table(run, args.only)
        print("| type | mean NLL | f32 with the decoded weights | difference |\n| --- | --- | --- | --- |")
        print(f"| bf16, as it is | {run.nll(MODEL, '--compute', 'f32'):.5f} | | |", flush=True)
        for names, pair in [(PACKAGE + K_QUANTS + list(OWN), gguf_pair), (FOLDERS, folder_pair)]:
            for name in names:
                if not args.only or name in args.only:
                    bad += check(run, name, pair(run, name))
        print("\n| keys and values as | mean NLL | from f32 |\n| --- | --- | --- |")
        exact = run.nll(MODEL, "--kv-type", "f32")
        for kind in ["f32", "f16", "bf16", "fp8", "int8"]:
            nll = run.nll(MODEL, "--kv-type", kind)
            print(f"| {kind} | {nll:.5f} | {nll - exact:+.1e} |", flush=True)
    return 1 if bad else 0


sys.exit(main())
