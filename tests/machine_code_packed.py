#!/usr/bin/env python3
"""The hot loops of the sm_90a product with quantised weights (linear_packed.cu), read from its machine code: A comes from
registers to HGMMA, weights come by bulk copies, and no loop has more instructions than its budget.

machine_code_packed.py CUOBJDUMP OBJECT [--table | --slots]: prints what is wrong, a line each (nothing: all is well), or the
loops as a table, or issue slots for each 64 k as bench/gpu/step_model.py has them.
machine_code_packed.py CUOBJDUMP OBJECT --experts [--table | --slots]: the same of expert_packed_hopper.cu, whose blocks share no x.
machine_code_packed.py CUOBJDUMP OBJECT --few [--table]: the same of linear_packed_few.cu, whose x is there before its loops begin.
"""
import re
import subprocess
import sys

import machine_code
from machine_code import count, loops

EXPERTS = "--experts" in sys.argv
KERNEL = re.compile(
    rf"Function : \S*{'expert_packed_hopper' if EXPERTS else 'linear_packed'}_kernelILi(\d)ELi(\d+)ELb(\d)ELi(\d+)ELi(\d+)ELi(\d+)E"
)
TILES = 4  # of 64 k in a stage
# Type (enum storage_type), whether scales are of 128 x 128: name; instructions of a thread that multiplies, for a tile of 64 k
# (32 codes a thread), and for each row of the block more. A fifth above what there was at first (docs/gpu-registers.md).
BUDGETS = {
    (4, 0): ("fp8", 136, 0.0),
    (4, 1): ("fp8, 128 x 128", 156, 0.5),
    (6, 0): ("int8", 120, 0.0),
    (8, 0): ("int4", 101, 0.5),
    (10, 0): ("q4_0", 125, 1.0),
    (14, 0): ("q8_0", 140, 1.0),
    (17, 0): ("q4_k", 137, 2.7),
    (19, 0): ("q6_k", 203, 2.1),
    (31, 0): ("mxfp4", 148, 1.2),
}
# The same of four bits times up to FEW rows, whose loop has the tiles of a stage behind each other, and what a stage takes beside.
FEW, FOURS = 32, {8: (89, 0.4), 10: (110, 1.2), 17: (114, 2.9), 31: (143, 1.2)}
MINIMA = (17,)  # whose blocks sum x up
# Of linear_packed_few.cu: of a thread that multiplies, for 64 k, with activations in f16 and in bf16; of the one that copies, for a stage
# and for each bulk copy; of a thread that norms, for each four rows and two stages. A fifth above what there was at first.
KERNEL_FEW = re.compile(r"Function : \S*linear_packed_few_kernelILi(\d)ELi(\d+)E")
BUDGETS_FEW = {8: (114, 101), 10: (117, 117), 17: (148, 129), 31: (160, 150)}
BUDGET_FEW_STAGE, BUDGET_FEW_BULK, BUDGET_FEW_NORMS = 35, 25, 700
# Of a thread that copies, for a stage: without sums of x, with them, for each 8 rows of them; for each copy of x, for each bulk copy.
BUDGET_STAGE, BUDGET_SUMS, BUDGET_EIGHT_SUMS, BUDGET_COPY, BUDGET_BULK = 110, 115, 15, 11, 25
# Of one that norms x on its way, for each tile of a stage, with the bulk copies of whole tiles and of halves: fp8, int8, Q8_0 of up
# to eight rows.
NORMS, BUDGET_NORMED = (4, 6, 14), 105


def kernels(text):
    """(activations, type, scales of 128 x 128, rows, warpgroups) and its instructions, as (address, text)."""
    return machine_code.functions(text, machine_code.named(KERNEL, 1, 2, 3, 4, 5))


def measure(code):
    """Instructions of the loop over tiles and of the one over stages around it; the loop that copies. Of codes of four bits times few rows
    there is one loop, over stages, whose tiles follow each other. Of int4 those of groups of 128, which are shorter for what they multiply."""
    multiply = sorted((b for b in loops(code) if count(b, "HGMMA")), key=lambda b: len(b) / count(b, "HGMMA"))
    stage = next((b for b in multiply[1:] if count(b, "SYNCS")), [])  # waits for the stage, as the loop over tiles does not
    bring = next((b for b in loops(code) if count(b, "LDGSTS") and count(b, "UBLKCP")), [])
    return multiply[0] if multiply else [], stage, bring


def tiles_of(tile):
    """How many tiles of 64 k a turn of that loop multiplies."""
    return max(1, count(tile, "HGMMA") // 4)


def stages_of(bring, kind, rows):
    """How many stages a turn of the loop that copies brings: blocks that share no x have a copy for each 4 rows, others for each
    16 rows and tile."""
    copies = rows // 4 if rows < 64 or kind in MINIMA or EXPERTS else rows // 16 * TILES
    return max(1, count(bring, "LDGSTS") // copies)


def normed_tiles(body):
    """Of the loop that norms: a thread has half of them, and of each 8 values and 8 weights in four loads of 16 bytes."""
    return sum("LDG.E.128" in text for text in body) // 2


def judge(key, code):
    _, kind, by_128, rows, groups = key
    name, fixed, each = BUDGETS[(kind, by_128)]
    tile, _, bring = measure(code)
    wrong = []
    few = kind in FOURS and rows <= FEW
    tiles = TILES if few else 2 if kind == 8 else 1  # int4: of 128 k, which share scales
    fixed, each = FOURS[kind] if few else (fixed, each)
    if count(tile, "HGMMA") != 4 * tiles:
        wrong.append(f"{count(tile, 'HGMMA')} HGMMA in a loop, of {4 * tiles}")
    elif any("gdesc" not in text or not re.match(r"\S+ R\d+, R\d+, gdesc", text) for text in tile if "HGMMA" in text):
        wrong.append("A does not come from registers")
    elif len(tile) / tiles > fixed + each * rows:
        wrong.append(f"{len(tile) / tiles:.0f} instructions for 64 k, of {fixed + each * rows:.0f}")
    elif few and (loads := sum("LDS.128" in text for text in tile)) < TILES:
        wrong.append(f"codes of four bits come by {loads} loads of 16 bytes a stage, of {TILES}")
    copies, bulk = count(bring, "LDGSTS"), count(bring, "UBLKCP")
    stage = BUDGET_SUMS + BUDGET_EIGHT_SUMS * (rows // 8) if kind in MINIMA else BUDGET_STAGE
    budget = stages_of(bring, kind, rows) * stage + BUDGET_COPY * copies + BUDGET_BULK * bulk
    if not bulk:
        wrong.append("no loop with bulk copies (UBLKCP)")
    elif len(bring) > budget:
        wrong.append(f"{len(bring)} instructions to bring a stage, of {budget}")
    if kind in NORMS and rows <= machine_code.NORMED_ROWS and not EXPERTS:
        body = machine_code.normed(code)
        if not (tiles := normed_tiles(body)):
            wrong.append("no loop that norms x")
        elif len(body) > BUDGET_NORMED * tiles:
            wrong.append(f"{len(body)} instructions to norm {tiles} x 64 k of x, of {BUDGET_NORMED} each")
    return [f"{name}, {rows} rows, {groups} warpgroups: {text}" for text in wrong]


def measure_few(code):
    """The loop that multiplies a stage; the one that copies; the one that norms four rows."""
    bodies = loops(code)
    multiply = next((b for b in bodies if count(b, "HGMMA")), [])
    bring = next((b for b in bodies if count(b, "UBLKCP") and count(b, "SYNCS")), [])
    norm = next((b for b in bodies if sum("LDG.E.128" in text for text in b) >= 16 and count(b, "STS")), [])
    return multiply, bring, norm


def judge_few(key, code):
    act, kind = key
    multiply, bring, norm = measure_few(code)
    wrong, bulk = [], count(bring, "UBLKCP")
    stages = bulk // 3 if kind == 8 else bulk
    if count(multiply, "HGMMA") != 4 * TILES:
        wrong.append(f"{count(multiply, 'HGMMA')} HGMMA in a loop, of {4 * TILES}")
    elif len(multiply) / TILES > BUDGETS_FEW[kind][act - 2]:
        wrong.append(f"{len(multiply) / TILES:.0f} instructions for 64 k, of {BUDGETS_FEW[kind][act - 2]}")
    if not bulk:
        wrong.append("no loop with bulk copies (UBLKCP)")
    elif len(bring) > BUDGET_FEW_STAGE * stages + BUDGET_FEW_BULK * bulk:
        wrong.append(f"{len(bring)} instructions to bring {stages} stages")
    if any(count(multiply, word) for word in ("LDGSTS", "LDG")) or count(bring, "LDGSTS"):
        wrong.append("x comes while codes are multiplied")
    if not norm or len(norm) > BUDGET_FEW_NORMS:
        wrong.append(f"{len(norm)} instructions to norm four rows, of {BUDGET_FEW_NORMS}")
    return [f"{BUDGETS[(kind, 0)][0]}, few rows, activations {act}: {text}" for text in wrong]


def few(text):
    found = machine_code.functions(text, machine_code.named(KERNEL_FEW, 1, 2))
    if len(found) != 8:
        print(f"{len(found)} kernels of 8")
    for (act, kind), code in sorted(found.items()):
        multiply, bring, norm = measure_few(code)
        if "--table" not in sys.argv:
            print("".join(line + "\n" for line in judge_few((act, kind), code)), end="")
        elif act == 3:
            print(f"| {BUDGETS[(kind, 0)][0]} | {len(multiply) / TILES:.0f} | {len(bring)} | {count(bring, 'UBLKCP')} | {len(norm)} |")


def slots(found, kind):
    """What an SM's quarter issues for 64 k, by (rows, warpgroups)."""
    out = {}
    for (act, *this, rows, groups), code in found.items():
        if act == 3 and tuple(this) == kind:
            tile, stage, bring = measure(code)
            beside = 0 if tiles_of(tile) > 1 else (len(stage) - len(tile)) / TILES
            alone = groups * (len(tile) / tiles_of(tile) + beside)
            out[(rows, groups)] = round(alone + len(bring) / TILES / stages_of(bring, kind[0], rows))
            if kind[0] in NORMS and rows <= machine_code.NORMED_ROWS and not EXPERTS:
                body = machine_code.normed(code)
                out["normed"] = round(alone + len(body) / normed_tiles(body))
    return dict(sorted(out.items(), key=str))


def main():
    text = subprocess.run([sys.argv[1], "-sass", sys.argv[2]], check=True, capture_output=True, text=True).stdout
    if "--few" in sys.argv:
        few(text)
        return
    found = kernels(text)
    if len(found) < 90:
        print(f"{len(found)} kernels of 90")
    for kind, (name, _, _) in BUDGETS.items():
        if "--slots" in sys.argv:
            print(name, slots(found, kind))
    for key, code in sorted(found.items()):
        tile, _, bring = measure(code)
        if "--table" in sys.argv and key[0] == 3:
            copies, bulk = count(bring, "LDGSTS"), count(bring, "UBLKCP")
            each = f"{len(tile) / tiles_of(tile):.0f}"
            print(f"| {BUDGETS[key[1:3]][0]} | {key[3]} | {key[4]} | {each} | {len(bring)} | {copies} | {bulk} |")
        elif "--slots" not in sys.argv:
            print("".join(line + "\n" for line in judge(key, code)), end="")


if __name__ == "__main__":
    main()
