#!/usr/bin/env python3
"""The loops of prompt attention on sm_90a (attention_prompt_hopper.cu), read from its machine code: scores and sums over V are
HGMMA, V is read across, K and V come by LDGSTS, nothing waits for all products between the two, and neither loop has more
instructions than its budget.

machine_code_prompt.py CUOBJDUMP OBJECT [--table]: prints what is wrong, a line each (nothing: all is well), or the loops as a
table.
"""
import re
import subprocess
import sys

import machine_code
from machine_code import count, loops

KERNEL = re.compile(r"Function : \S*attention_prompt_hopper_kernelILi(\d)ELi(\d+)E")
NAMES = {2: "f16", 3: "bf16"}
# By head size: instructions of a warp that multiplies for a tile, with and without a mask; of one that copies. A fifth above what
# there was at first (docs/gpu-registers.md).
BUDGET = {3: {64: 970, 128: 1070, 256: 830}, 2: {64: 1240, 128: 1340, 256: 1010}}
BUDGET_COPY = {64: 215, 128: 310, 256: 280}
TILE = {64: 128, 128: 128, 256: 64}
HGMMA_RATE = 2048  # multiply-adds of an SM in a clock, 16-bit operands
EXP_RATE = 16  # exponentials of an SM in a clock


def measure(code):
    """The body of the loop that multiplies, and of the one that copies."""
    multiply = next((b for b in loops(code) if count(b, "HGMMA") and sum("MUFU.EX2" in text for text in b)), [])
    # the one that copies queries has a copy or a few, and no mbarrier
    bring = next((b for b in loops(code) if count(b, "LDGSTS") >= 16 and count(b, "SYNCS")), [])
    return multiply, bring


def judge(kind, dim, code):
    multiply, bring = measure(code)
    across = sum("HGMMA" in text and "tnspB" in text for text in multiply)
    waits = [text for text in multiply if "WARPGROUP.DEPBAR" in text]
    wrong = []
    if count(multiply, "HGMMA") - across != dim // 16 or across != TILE[dim] // 16:
        wrong.append(f"{count(multiply, 'HGMMA')} HGMMA a tile, {across} of them across")
    elif len(multiply) > BUDGET[kind][dim]:
        wrong.append(f"{len(multiply)} instructions a tile, of {BUDGET[kind][dim]}")
    if len(waits) != 2 or "0x1" not in waits[0]:
        wrong.append("scores become weights behind the sums over V, not beside them")
    if count(bring, "LDGSTS") != TILE[dim] * dim // 8 // 64:
        wrong.append(f"{count(bring, 'LDGSTS')} copies a thread and tile")
    elif len(bring) > BUDGET_COPY[dim]:
        wrong.append(f"{len(bring)} instructions to copy a tile, of {BUDGET_COPY[dim]}")
    if count([text for _, text in code], "STL") or count([text for _, text in code], "LDL"):
        wrong.append("spills")
    return [f"{NAMES[kind]}, head size {dim}: {text}" for text in wrong]


def row(kind, dim, code):
    multiply, bring = measure(code)
    tile, slots = TILE[dim], 2 * len(multiply) + len(bring)
    return (
        f"| {NAMES[kind]} | {dim} | {tile} | {len(multiply)} | {count(multiply, 'HGMMA')} | {len(bring)} | {count(bring, 'LDGSTS')} "
        f"| {2 * 128 * tile * dim // HGMMA_RATE} | {128 * tile // EXP_RATE} | {slots} |"
    )


def main():
    text = subprocess.run([sys.argv[1], "-sass", sys.argv[2]], check=True, capture_output=True, text=True).stdout
    found, code = {}, None
    for line in text.splitlines():
        if "Function :" in line:
            name = KERNEL.search(line)
            code = found.setdefault(tuple(int(i) for i in name.groups()), []) if name else None
        elif code is not None and (match := machine_code.INSTRUCTION.match(line)):
            code.append((int(match.group(1), 16), match.group(2).strip()))
    if len(found) != 6:
        print(f"{len(found)} kernels of 6")
    for (kind, dim), code in sorted(found.items()):
        if "--table" in sys.argv:
            print(row(kind, dim, code))
        else:
            print("".join(line + "\n" for line in judge(kind, dim, code)), end="")


if __name__ == "__main__":
    main()
