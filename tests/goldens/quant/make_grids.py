#!/usr/bin/env python3
"""Writes kernels/dequantize_grids.h: the constant tables of GGUF's IQ types, from the Python package gguf.

Each 8-value entry is 8 two-bit digits of a u16, each 4-value entry 4 four-bit digits, first value lowest.
"""
import sys
from math import ceil, log2

import numpy as np
from gguf import quants


def table(out, name, cls):
    bits = ceil(log2(len(cls.grid_map)))
    per_byte = 8 // bits
    raw = bytes.fromhex(cls.grid_hex.decode())
    digits = np.array([b >> (i * (8 // per_byte)) & ((1 << bits) - 1) for b in raw for i in range(per_byte)])
    digits = digits.reshape(cls.grid_shape)
    width = 16 // cls.grid_shape[1]
    words = [sum(int(d) << (width * i) for i, d in enumerate(row)) for row in digits]
    out.write(f"DEQUANTIZE_TABLE uint16_t {name}[{len(words)}] = {{\n")
    for i in range(0, len(words), 14):
        out.write("    " + ", ".join(f"0x{w:04x}" for w in words[i:i + 14]) + ",\n")
    out.write("};\n")


with open(sys.argv[1], "w") as f:
    f.write("/* dequantize_grids.h - constants of GGUF's IQ types, written by tests/goldens/quant/make_grids.py: not for\n"
            " * reading. Eight 2-bit digits or four 4-bit digits a word, first value lowest. */\n"
            "/* clang-format off */\n")
    table(f, "IQ2_XXS_GRID", quants.IQ2_XXS)
    table(f, "IQ2_XS_GRID", quants.IQ2_XS)
    table(f, "IQ2_S_GRID", quants.IQ2_S)
    table(f, "IQ3_XXS_GRID", quants.IQ3_XXS)
    table(f, "IQ3_S_GRID", quants.IQ3_S)
    table(f, "IQ1_GRID", quants.IQ1_S)
    f.write("/* clang-format on */\n")
