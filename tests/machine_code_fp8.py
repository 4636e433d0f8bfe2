#!/usr/bin/env python3
"""The hot loops of the sm_90a product with weights and activations in fp8 (linear_fp8.cu), read from its machine code: products of
fp8 with A from registers, weights and x by bulk copies, and no loop has more instructions than its budget.

machine_code_fp8.py CUOBJDUMP OBJECT [--table | --slots]: prints what is wrong, a line each (nothing: all is well), or the loops as
a table, or issue slots for each 64 k as bench/gpu/step_model.py has them.
"""
import re
import subprocess
import sys

import machine_code
from machine_code import count, loops

KERNEL = re.compile(r"Function : \S*linear_fp8_kernelILi(\d)ELb(\d)ELi(\d+)ELi(\d+)ELi(\d+)E")
# Of a thread that multiplies, for a tile of 128 k: instructions, with scales of 128 x 128 so many more, and for each row of the block
# more, most of them additions of what the tensor cores summed. Of the one that copies, for a stage of 256 k and each bulk copy, with
# its ways of all clusters. A fifth above what there was at first (docs/gpu-registers.md).
BUDGET_TILE, BUDGET_SCALES, BUDGET_ROW, BUDGET_STAGE, BUDGET_BULK = 76, 20, 0.57, 50, 22
PRODUCTS = 4  # of m64nNk32 for 128 k


def kernels(text):
    """(activations, scales of 128 x 128, rows, warpgroups) and its instructions, as (address, text)."""
    return machine_code.functions(text, machine_code.named(KERNEL, 1, 2, 3, 4))


def measure(code):
    """Instructions of the loop over 128 k, of the one over stages around it, and of the longest that copies."""
    multiply = [b for b in loops(code) if count(b, "QGMMA")]
    bring = [b for b in loops(code) if count(b, "UBLKCP") and not count(b, "QGMMA")]
    return multiply[0] if multiply else [], multiply[1] if multiply[1:] else [], max(bring, key=len, default=[])


def judge(key, code):
    _, by_128, rows, groups = key
    tile, _, bring = measure(code)
    budget = BUDGET_TILE + BUDGET_SCALES * by_128 + BUDGET_ROW * rows
    wrong = []
    if count(tile, "QGMMA") != PRODUCTS:
        wrong.append(f"{count(tile, 'QGMMA')} QGMMA in a loop, of {PRODUCTS}")
    elif any(not re.match(r"\S+ R\d+, R\d+, gdesc", text) for text in tile if "QGMMA" in text):
        wrong.append("A does not come from registers")
    elif len(tile) > budget:
        wrong.append(f"{len(tile)} instructions for 128 k, of {budget:.0f}")
    if not (bulk := count(bring, "UBLKCP")):
        wrong.append("no loop with bulk copies (UBLKCP)")
    elif len(bring) > BUDGET_STAGE + BUDGET_BULK * bulk:
        wrong.append(f"{len(bring)} instructions to bring a stage, of {BUDGET_STAGE + BUDGET_BULK * bulk}")
    return [f"{'128 x 128' if by_128 else 'rows'}, {rows} rows, {groups} warpgroups: {text}" for text in wrong]


def slots(found, by_128):
    """What an SM's quarter issues for 64 k, by (rows, warpgroups). One quarter alone has the warp that copies."""
    out = {}
    for (act, scales, rows, groups), code in found.items():
        if (act, scales) == (3, by_128):
            tile, stage, bring = measure(code)
            out[(rows, groups)] = round(groups * (len(tile) / 2 + (len(stage) - len(tile)) / 4) + len(bring) / 4)
    return dict(sorted(out.items()))


def main():
    text = subprocess.run([sys.argv[1], "-sass", sys.argv[2]], check=True, capture_output=True, text=True).stdout
    found = kernels(text)
    if len(found) != 20:
        print(f"{len(found)} kernels of 20")
    for by_128 in (0, 1):
        if "--slots" in sys.argv:
            print("128 x 128" if by_128 else "rows", slots(found, by_128))
    for key, code in sorted(found.items()):
        tile, _, bring = measure(code)
        if "--table" in sys.argv and key[0] == 3:
            print(f"| {'128 x 128' if key[1] else 'rows'} | {key[2]} | {key[3]} | {len(tile)} | {len(bring)} | {count(bring, 'UBLKCP')} |")
        elif len(sys.argv) == 3:
            print("".join(line + "\n" for line in judge(key, code)), end="")


if __name__ == "__main__":
    main()
