#!/usr/bin/env python3
"""The loop over steps of decode attention on sm_90a (attention_decode.cuh), read from its machine code: it multiplies by HMMA,
K and V come by bulk copies, and it has no more instructions than its budget.

machine_code_attention.py CUOBJDUMP OBJECT KERNELS [--table]: prints what is wrong, a line each (nothing: all is well), or the
loops as a table; KERNELS: how many there are to be.
"""
import re
import subprocess
import sys

import machine_code
from machine_code import count, loops

KERNEL = re.compile(r"Function : \S*attention_decode_kernelILi(\d)ELi(\d+)ELi(\d+)ELb1E")
NAMES = {2: "f16", 3: "bf16", 4: "fp8", 6: "int8"}
WARPS, THREADS = 4, 128
SHARE = 4.3e12 / 132 / 1.755e9  # bytes that an SM's part of the memory brings in a clock, on H200
# By head size: instructions of a warp for a step, both ways through sums over V (with a mask and without) and the ends of
# splits and rows with them. A fifth above what there was at first (docs/gpu-registers.md).
BUDGET = {64: 3450, 80: 4650, 96: 4650, 112: 4650, 128: 4100, 160: 4250, 192: 3500, 256: 4100}
BUDGET_NARROW = {64: 5050, 80: 6750, 96: 6900, 128: 6700, 256: 10200}  # caches of 8 bits


def positions(kind, dim):
    """Of a step, and bytes of K (V) of each: struct decode_shape."""
    row = dim if kind in (4, 6) else 2 * dim
    fit = 16384 // row
    return WARPS * (64 if fit >= 64 else 32 if fit >= 32 else 16), row


def measure(code):
    """(instructions of a warp and step, HMMA, bulk copies in the code). Sums over V are a loop within, run once a warp's tile."""
    bodies = [b for b in loops(code) if count(b, "HMMA")]
    step = next((b for b in bodies if count(b, "UBLKCP") > 1 and count(b, "HMMA") > count(bodies[0], "HMMA")), [])
    if not step:
        return 0, 0, 0
    sums = bodies[0]
    masked = count(sums, "HMMA") // 2
    return (
        len(step) + (WARPS - 1) * len(sums),
        count(step, "HMMA") - count(sums, "HMMA") + WARPS * masked,
        count(step, "UBLKCP"),
    )


def judge(kind, dim, code):
    instructions, products, copies = measure(code)
    budget = (BUDGET_NARROW if kind in (4, 6) else BUDGET)[dim]
    if not copies or not products:
        return [f"{NAMES[kind]}, head size {dim}: no loop with HMMA and bulk copies (UBLKCP)"]
    if instructions > budget:
        return [f"{NAMES[kind]}, head size {dim}: {instructions} instructions a step, of {budget}"]
    return []


def row(kind, dim, code):
    instructions, products, _ = measure(code)
    held, each = positions(kind, dim)
    copies = held * 2 * each / 16
    clocks = held * 2 * each / SHARE
    return (
        f"| {NAMES[kind]} | {dim} | {held} | {instructions} | {instructions / products:.0f} "
        f"| {instructions * THREADS / copies:.0f} | {clocks:.0f} | {clocks / instructions:.1f} |"
    )


def main():
    text = subprocess.run([sys.argv[1], "-sass", sys.argv[2]], check=True, capture_output=True, text=True).stdout
    found = machine_code.functions(text, machine_code.named(KERNEL))
    if len(found) < int(sys.argv[3]):
        print(f"{len(found)} kernels of {sys.argv[3]}")
    for (act, kind, dim), code in sorted(found.items()):
        if "--table" in sys.argv and act == 3:
            print(row(kind, dim, code))
        elif "--table" not in sys.argv:
            print("".join(line + "\n" for line in judge(kind, dim, code)), end="")


if __name__ == "__main__":
    main()
