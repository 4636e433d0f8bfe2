#!/usr/bin/env python3
"""The loops of prompt attention on sm_90a (attention_prompt_hopper.cuh), read from its machine code: scores and sums over V are
HGMMA, V is read across, K and V come by LDGSTS, nothing waits for all products between the two, and neither loop has more
instructions than its budget.

machine_code_prompt.py CUOBJDUMP OBJECT KERNELS [--table]: prints what is wrong, a line each (nothing: all is well), also where
there are not so many kernels, or the loops as a table.
"""
import re
import subprocess
import sys

import machine_code
from machine_code import count, loops

KERNEL = re.compile(r"Function : \S*attention_prompt_hopper_kernelILi(\d)ELi(\d+)ELi(\d+)E")
NAMES = {2: "f16", 3: "bf16", 4: "fp8", 6: "int8"}
# By the cache's type, activations and head size: instructions of a warp that multiplies for a tile, with and without a mask; of one that
# copies, and turns numbers of 8 bits. A fifth above what there was at first (docs/gpu-registers.md).
INT8 = 6
BUDGET = {3: {64: 970, 128: 1070, 256: 830}, 2: {64: 1240, 128: 1340, 256: 1010}}
BUDGET_SCALED = {3: {64: 1090, 128: 1190, 256: 950}, 2: {64: 1320, 128: 1420, 256: 1060}}
BUDGET_COPY = {64: 215, 128: 310, 256: 280}
BUDGET_NARROW = {64: 1200, 128: 1750, 256: 1650}
TILE = {64: 128, 128: 128, 256: 64}
HGMMA_RATE = 2048  # multiply-adds of an SM in a clock, 16-bit operands
EXP_RATE = 16  # exponentials of an SM in a clock


def copies(kind, cache, dim):
    """Of a thread, of 16 bytes each; beside them the scales of int8."""
    return TILE[dim] * dim // (8 if cache == kind else 16) // 64 + (cache == INT8)


def measure(key, code):
    """The body of the loop that multiplies, and of the one that copies."""
    multiply = next((b for b in loops(code) if count(b, "HGMMA") and sum("MUFU.EX2" in text for text in b)), [])
    # the one that copies queries has a copy or a few, and no mbarrier
    bring = next((b for b in loops(code) if count(b, "LDGSTS") >= copies(*key) and count(b, "SYNCS")), [])
    return multiply, bring


def judge(kind, cache, dim, code):
    multiply, bring = measure((kind, cache, dim), code)
    across = sum("HGMMA" in text and "tnspB" in text for text in multiply)
    waits = [text for text in multiply if "WARPGROUP.DEPBAR" in text]
    most = (BUDGET_SCALED if cache == INT8 else BUDGET)[kind][dim]
    most_copy = (BUDGET_COPY if cache == kind else BUDGET_NARROW)[dim]
    wrong = []
    if count(multiply, "HGMMA") - across != dim // 16 or across != TILE[dim] // 16:
        wrong.append(f"{count(multiply, 'HGMMA')} HGMMA a tile, {across} of them across")
    elif len(multiply) > most:
        wrong.append(f"{len(multiply)} instructions a tile, of {most}")
    if len(waits) != 2 or "0x1" not in waits[0]:
        wrong.append("scores become weights behind the sums over V, not beside them")
    if count(bring, "LDGSTS") != copies(kind, cache, dim):
        wrong.append(f"{count(bring, 'LDGSTS')} copies a thread and tile")
    elif len(bring) > most_copy:
        wrong.append(f"{len(bring)} instructions to copy a tile, of {most_copy}")
    if count([text for _, text in code], "STL") or count([text for _, text in code], "LDL"):
        wrong.append("spills")
    return [f"{NAMES[kind]}, a cache of {NAMES[cache]}, head size {dim}: {text}" for text in wrong]


def row(kind, cache, dim, code):
    multiply, bring = measure((kind, cache, dim), code)
    tile, slots = TILE[dim], 2 * len(multiply) + len(bring)
    return (
        f"| {NAMES[kind]} | {NAMES[cache]} | {dim} | {tile} | {len(multiply)} | {count(multiply, 'HGMMA')} | {len(bring)} | {count(bring, 'LDGSTS')} "
        f"| {2 * 128 * tile * dim // HGMMA_RATE} | {128 * tile // EXP_RATE} | {slots} |"
    )


def main():
    text = subprocess.run([sys.argv[1], "-sass", sys.argv[2]], check=True, capture_output=True, text=True).stdout
    found = machine_code.functions(text, machine_code.named(KERNEL))
    if len(found) != int(sys.argv[3]):
        print(f"{len(found)} kernels of {sys.argv[3]}")
    for (kind, cache, dim), code in sorted(found.items()):
        if "--table" in sys.argv:
            print(row(kind, cache, dim, code))
        else:
            print("".join(line + "\n" for line in judge(kind, cache, dim, code)), end="")


if __name__ == "__main__":
    main()
