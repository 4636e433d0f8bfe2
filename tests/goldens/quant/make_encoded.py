#!/usr/bin/env python3
"""Writes encoded.bin: 512 values, and what the Python package gguf makes of them as Q4_0, Q4_1, Q5_0, Q5_1, Q8_0."""
import os

import numpy as np
from gguf import GGMLQuantizationType as T, quants

rng = np.random.default_rng(7)
x = rng.normal(0, 0.05, 512).astype(np.float32)
x[:32] = 0
x[64] = 3.0  # an outlier
x[96:128] = np.abs(x[96:128])
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "encoded.bin"), "wb") as f:
    f.write(x.tobytes())
    for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"):
        f.write(quants.quantize(x, T[name]).tobytes())
