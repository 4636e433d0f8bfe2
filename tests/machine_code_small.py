#!/usr/bin/env python3
"""The small kernels between the products of a layer, read from their machine code: each has no more instructions than its budget, all ways
through it counted.

machine_code_small.py CUOBJDUMP OBJECT... [--table]: prints what is wrong, a line each (nothing: all is well), or the kernels as a table.
"""
import re
import subprocess
import sys

import machine_code

# Instructions of the largest form of each (its types), a fifth or more above what there was at first on sm_90a (docs/gpu-registers.md).
BUDGETS = {
    "route_once_kernel": 3900,
    "route_sorted_kernel": 900,
    "rope_normed_kernel": 1620,
    "expert_gather_normed_kernel": 650,
    "expert_combine_norm_kernel": 2500,
}
KERNEL = re.compile(r"Function : \S*?\d(" + "|".join(BUDGETS) + r")(\S*)")


def largest(objects):
    """Of each kernel the instructions of its largest form."""
    found = {}
    for path in objects:
        text = subprocess.run([sys.argv[1], "-sass", path], check=True, capture_output=True, text=True).stdout
        for (kind, _), code in machine_code.functions(text, machine_code.named(KERNEL)).items():
            found[kind] = max(found.get(kind, 0), sum("NOP" not in text for _, text in code))
    return found


def main():
    found = largest([path for path in sys.argv[2:] if path != "--table"])
    for kind, allowed in BUDGETS.items():
        have = found.get(kind, 0)
        if "--table" in sys.argv:
            print(f"| `{kind}` | {have} | {allowed} |")
        elif not 0 < have <= allowed:
            print(f"{kind}: {have} instructions, of {allowed}")


if __name__ == "__main__":
    main()
