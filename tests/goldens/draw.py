"""The counter-based generator that draws the weights of goldens from (seed, tensor name), as tests/unit/model does in C: word i of a tensor is
Philox4x32-10(counter = (i / 4, 0, 0, 0), key = FNV-1a(name) ^ seed)[i % 4]; its four bytes' sum, less 510, times a scale is nearly normal."""
import math

import numpy as np

M0, M1, W0, W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
SIGMA = math.sqrt(4 * (256 * 256 - 1) / 12)  # of the sum of four bytes


def fnv1a(name):
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def words(seed, name, count):
    key = fnv1a(name) ^ seed
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    c0 = np.arange((count + 3) // 4, dtype=np.uint64)
    c1 = c2 = c3 = np.zeros_like(c0)
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = c0 * np.uint64(M0), c2 * np.uint64(M1)
        c0, c1, c2, c3 = (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0), p1 & low, (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1), p0 & low
        k0, k1 = (k0 + W0) & 0xFFFFFFFF, (k1 + W1) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], 1).reshape(-1)[:count].astype(np.uint32)


def bf16_round(x):
    b = x.view(np.uint32)
    return (((b + 0x7FFF + ((b >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)
