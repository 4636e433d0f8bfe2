#!/usr/bin/env python3
"""The sum over ranks with the norm behind it (peers_norm.cu), read from its sm_90a machine code: values go to other GPUs and are looked at
by 16 bytes at system scope, four ranks at a look; nothing is fenced but where a block gives up; and neither a look nor a push has
more instructions than its budget.

machine_code_peers.py CUOBJDUMP OBJECT [--table]: prints what is wrong, a line each (nothing: all is well), or the loops as a table.
machine_code_peers.py CUOBJDUMP OBJECT --products KERNELS: of products (linear_hopper.cu, linear_packed.cu, linear_packed_few.cu, linear_fp8.cu), so many of
which push their sums (peers_push.cuh): by 8 bytes at system scope, to each other rank once for each eight rows and way; those that add up look
at four ranks in a loop; and nothing is fenced there either.
"""
import re
import subprocess
import sys

import machine_code
from machine_code import count, loops

KERNEL = re.compile(r"Function : \S*peer_norm_kernelILi(\d)ELb(\d)E")
LOAD, STORE = r"LDG\.E\.128\.STRONG\.SYS", r"STG\.E\.128\.STRONG\.SYS"
# Of a look at four ranks, with asking the host now and then; of a push to four of them (two shots: to one). A fifth above what there was at
# first (docs/gpu-registers.md).
BUDGET_LOOK, BUDGET_PUSH = 128, (115, 64)
RANKS_AT_ONCE = 4


def has(body, what):
    return sum(bool(re.search(what, text)) for text in body)


PUSH, SEEN = r"STG\.E\.64\.STRONG\.SYS", r"LDG\.E\.64\.STRONG\.SYS"
PRODUCT = re.compile(r"Function : (\S*linear_(?:hopper|packed|packed_few|fp8)_kernel\S*)")
BUDGET_SEEN = 100  # of a look at four ranks by a product, a fifth above what there was at first
PEERS_MAX = 8


def judge_products(text, expected):
    wrong, pushing, adding = [], 0, 0
    for (name,), code in sorted(kernels(text, PRODUCT).items()):
        body = [line for _, line in code]
        pushes = has(body, PUSH)
        pushing += pushes > 0
        if pushes % PEERS_MAX:
            wrong.append(f"{name}: {pushes} stores to other ranks are no whole {PEERS_MAX}")
        fences = has(body, r"\bMEMBAR\S*\.SYS\b")
        if fences != has(body, r"\bATOMG\b"):
            wrong.append(f"{name}: {fences} fences of the system, of {has(body, r'ATOMG')} where a block gives up")
        if has(body, SEEN):
            adding += 1
            look = next((b for b in loops(code) if has(b, SEEN) == RANKS_AT_ONCE), [])
            if not look or len(look) > BUDGET_SEEN:
                wrong.append(f"{name}: {len(look)} instructions for a look at {RANKS_AT_ONCE} ranks, of {BUDGET_SEEN}")
    if pushing != expected:
        wrong.append(f"{pushing} products push, {adding} of them add up; {expected} were to push")
    return wrong


def kernels(text, pattern=KERNEL):
    """(activations, two shots) and its instructions, as (address, text)."""
    return machine_code.functions(text, machine_code.named(pattern))


def measure(code):
    """The shortest loop that looks at so many ranks, and the shortest that pushes and does not look."""
    looks = [b for b in loops(code) if has(b, LOAD) == RANKS_AT_ONCE]
    pushes = [b for b in loops(code) if has(b, STORE) and not has(b, LOAD)]
    return looks[0] if looks else [], pushes[0] if pushes else []


def judge(key, code):
    look, push = measure(code)
    body = [text for _, text in code]
    wrong = []
    if not look:
        wrong.append(f"no loop that looks at {RANKS_AT_ONCE} ranks by 16 bytes")
    elif len(look) > BUDGET_LOOK:
        wrong.append(f"{len(look)} instructions for a look, of {BUDGET_LOOK}")
    if not push:
        wrong.append("no loop that pushes by 16 bytes")
    elif len(push) > BUDGET_PUSH[key[1]]:
        wrong.append(f"{len(push)} instructions for a push, of {BUDGET_PUSH[key[1]]}")
    if count(body, "MEMBAR") != has(body, r"\bATOMG\b"):
        wrong.append(f"{count(body, 'MEMBAR')} fences, of {has(body, r'ATOMG')} where a block gives up")
    return [f"{'two shots' if key[1] else 'one shot'}: {text}" for text in wrong]


def main():
    text = subprocess.run([sys.argv[1], "-sass", sys.argv[2]], check=True, capture_output=True, text=True).stdout
    if "--products" in sys.argv:
        print("".join(line + "\n" for line in judge_products(text, int(sys.argv[4]))), end="")
        return
    found = kernels(text)
    if len(found) != 4:
        print(f"{len(found)} kernels of 4")
    for key, code in sorted(found.items()):
        look, push = measure(code)
        if "--table" in sys.argv and key[0] == 3:
            print(f"| {'two' if key[1] else 'one'} | {len(code)} | {len(look)} | {has(look, LOAD)} | {len(push)} | {has(push, STORE)} |")
        elif len(sys.argv) == 3:
            print("".join(line + "\n" for line in judge(key, code)), end="")


if __name__ == "__main__":
    main()
