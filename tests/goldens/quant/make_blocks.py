#!/usr/bin/env python3
"""Writes blocks.bin: random blocks of every GGUF type and what the Python package gguf decodes them to.

Per type: u32 GGUF number, u32 blocks, u32 bytes a block, u32 values a block, the blocks, the values (f32).
"""
import os
import struct

import numpy as np
from gguf import GGMLQuantizationType as T, quants
from gguf.constants import GGML_QUANT_SIZES

NAMES = ("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_NL "
         "IQ4_XS TQ1_0 TQ2_0 MXFP4 Q1_0").split()
# Where a block has f16 numbers, which must be finite here.
HALVES = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2),
          "Q6_K": (208,), "TQ1_0": (52,), "TQ2_0": (64,), "MXFP4": (), "IQ1_M": ()}


def decode_q1_0(blocks):
    """The package has its sizes but no decoder: as llama.cpp's dequantize_row_q1_0, +d where a bit is set, else -d, lowest bit first."""
    d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    return np.where(np.unpackbits(blocks[:, 2:], axis=1, bitorder="little") == 1, d, -d)


rng = np.random.default_rng(6)
with open(os.path.join(os.path.dirname(__file__), "blocks.bin"), "wb") as f:
    for name in NAMES:
        values, size = GGML_QUANT_SIZES[T[name]]
        count = 16 if values == 32 else 3
        blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
        for at in HALVES.get(name, (0,)):
            half = (rng.normal(0, 0.02, count)).astype(np.float16)
            half[0] = np.float16(-3e-6)  # subnormal
            blocks[:, at:at + 2] = half.view(np.uint8).reshape(count, 2)
        if name == "IQ1_M":  # the exponent's top bits are the last word's
            blocks[:, 55] &= 0xbf
        if name == "MXFP4":
            blocks[:, 0] = rng.integers(100, 140, count)
            blocks[0, 0], blocks[1, 0], blocks[2, 0] = 0, 1, 2
        out = (decode_q1_0(blocks) if name == "Q1_0" else quants.dequantize(blocks, T[name])).astype(np.float32)
        assert np.isfinite(out).all(), name
        f.write(struct.pack("<4I", T[name].value, count, size, values) + blocks.tobytes() + out.tobytes())
