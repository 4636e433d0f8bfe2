#!/usr/bin/env python3
"""The hot loops of GPUs other than Hopper, and those of experts on every GPU, read from their machine code: they multiply by HMMA, operands come by
cp.async, and they have no more instructions than their budget.

machine_code_mma.py CUOBJDUMP OBJECT KERNELS [--table]: prints what is wrong, a line each (nothing: all is well), or the loops as a
table; KERNELS: how many of those below the object is to have.
"""
import re
import subprocess
import sys

import machine_code
from machine_code import count, loops

KERNEL = re.compile(
    r"Function : \S*?(linear_packed_mma_kernel|expert_packed_kernel|expert_mma_kernel|linear_rows_kernel|linear_tiles_kernel|attention_decode_kernel|attention_prompt_kernel)I((?:L[ib]\d+E)+)E"
)
# Instructions of the smallest loop, with all ways through it: at least a fifth above what there was at first, on sm_80 and on sm_120
# (docs/gpu-registers.md). By rows of a block; by head size (prompts: as the kernel rounds it up).
PACKED = {8: 290, 32: 400, 64: 470}
EXPERTS = {8: 122, 32: 118, 64: 170, 128: 148}
DECODE = {64: 1900, 80: 2500, 96: 2500, 112: 2500, 128: 2350, 160: 2750, 192: 2550, 256: 2950}
PROMPT = {64: 2850, 128: 3450, 256: 2650}


def kernel_of(line):
    """Of a kernel above (which, its numbers); of those by bulk copies, sm_90a's, nothing."""
    match = KERNEL.search(line)
    if not match:
        return None
    kind, numbers = match.group(1), tuple(int(n) for n in re.findall(r"L[ib](\d+)E", match.group(2)))
    return None if kind == "attention_decode_kernel" and numbers[3] else (kind, numbers)


def hot(code):
    """The smallest loop with copies (LDGSTS) and products (HMMA), with the loops within."""
    return next((b for b in loops(code) if count(b, "HMMA") and count(b, "LDGSTS")), [])


def budget(kind, numbers, products):
    if kind in ("linear_packed_mma_kernel", "expert_packed_kernel"):
        return PACKED[numbers[3]]
    if kind == "expert_mma_kernel":
        return EXPERTS[numbers[1]]
    if kind == "attention_decode_kernel":
        return DECODE[numbers[2]]
    if kind == "attention_prompt_kernel":
        return PROMPT[numbers[2]]
    return 4 * products + 120


def judge(kind, numbers, code):
    body, name = hot(code), f"{kind}<{', '.join(map(str, numbers))}>"
    if not body:
        return [f"{name}: no loop with HMMA and LDGSTS"]
    allowed = budget(kind, numbers, count(body, "HMMA"))
    return [f"{name}: {len(body)} instructions, of {allowed}"] if len(body) > allowed else []


def main():
    text = subprocess.run([sys.argv[1], "-sass", sys.argv[2]], check=True, capture_output=True, text=True).stdout
    found = machine_code.functions(text, kernel_of)
    if len(found) != int(sys.argv[3]):
        print(f"{len(found)} kernels of {sys.argv[3]}")
    for (kind, numbers), code in sorted(found.items()):
        if "--table" in sys.argv:
            body = hot(code)
            print(f"| `{kind}<{', '.join(map(str, numbers))}>` | {len(body)} | {count(body, 'LDGSTS')} | {count(body, 'HMMA')} |")
        else:
            print("".join(line + "\n" for line in judge(kind, numbers, code)), end="")


if __name__ == "__main__":
    main()
