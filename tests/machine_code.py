#!/usr/bin/env python3
"""The hot loops of the sm_90a product, read from its machine code: they multiply by HGMMA, weights come by bulk copies, and
neither loop has more instructions than its budget.

machine_code.py CUOBJDUMP OBJECT [--table]: prints what is wrong, a line each (nothing: all is well), or the loops as a table.
"""
import re
import subprocess
import sys

INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?);")
KERNEL = re.compile(r"Function : \S*linear_hopper_kernelILi(\d)ELi(\d+)ELi(\d+)ELi(\d+)ELi(\d+)E")
# Instructions of a thread that multiplies, for each HGMMA; of a thread that copies, for a stage of 64 k, for each of its copies
# of x and for each bulk copy; of one that norms x on its way, for each bulk copy with the 64 k of x. A third above what there was
# at first (docs/gpu-registers.md).
BUDGET_MULTIPLY, BUDGET_STAGE, BUDGET_COPY, BUDGET_BULK, BUDGET_NORMED = 25, 60, 10, 20, 160
NORMED_ROWS = 8  # up to so many rows a product can norm x (linear_hopper.cuh)


def functions(text, name):
    """Of a listing, by name(line) of the line that begins a function: its instructions, as (address, text). None: it is passed over."""
    found, code = {}, None
    for line in text.splitlines():
        if "Function :" in line:
            key = name(line)
            code = None if key is None else found.setdefault(key, [])
        elif code is not None and (match := INSTRUCTION.match(line)):
            code.append((int(match.group(1), 16), match.group(2).strip()))
    return found


def named(pattern, *groups):
    """For functions(): what these groups of the pattern have, numbers as such; without groups: all of them."""
    def name(line):
        match = pattern.search(line)
        return match and tuple(int(part) if part.isdigit() else part for part in ([match.group(i) for i in groups] or match.groups()))
    return name


def kernels(text):
    """(type, rows, warpgroups, blocks an SM) and its instructions, as (address, text)."""
    return functions(text, named(KERNEL, 1, 2, 3, 5))


def loops(code):
    """Bodies between a jump back and where it goes, the shortest first."""
    places = {address: i for i, (address, _) in enumerate(code)}
    bodies = []
    for i, (_, text) in enumerate(code):
        target = re.search(r"\bBRA(?:\.\S+)? (?:\S+, )*`?\(?0x([0-9a-f]+)", text)
        start = places.get(int(target.group(1), 16), i) if target else i
        if start < i:
            bodies.append([text for _, text in code[start:i + 1]])
    return sorted(bodies, key=len)


def count(body, word):
    return sum(bool(re.search(rf"\b{word}\b", text)) for text in body)


def measure(code):
    """(instructions, HGMMA) of the loop that multiplies, (instructions, copies of x, bulk copies) of the one that copies."""
    multiply = next((b for b in loops(code) if count(b, "HGMMA")), [])
    bring = next((b for b in loops(code) if count(b, "LDGSTS") and count(b, "UBLKCP")), [])
    return (len(multiply), count(multiply, "HGMMA")), (len(bring), count(bring, "LDGSTS"), count(bring, "UBLKCP"))


def normed(code):
    """The loop that copies weights and brings x by loads and stores, since it norms it on the way."""
    return next((b for b in loops(code) if count(b, "UBLKCP") and count(b, "LDG") and count(b, "STS") and not count(b, "LDGSTS")), [])


def judge(rows, groups, blocks, code):
    multiply, bring = measure(code)
    wrong = []
    if rows <= NORMED_ROWS:
        body = normed(code)
        if not (tiles := count(body, "UBLKCP")):
            wrong.append("no loop that norms x")
        elif len(body) > BUDGET_NORMED * tiles:
            wrong.append(f"{len(body)} instructions to norm {tiles} x 64 k of x, of {BUDGET_NORMED} each")
        elif count(body, "LDG") < 4 * tiles:
            wrong.append("x and weights of a norm do not come in loads of 16 bytes")
    # Who asks for more registers than its block was launched with waits for ever: with two blocks an SM there are 32768.
    if blocks > 1 and count([text for _, text in code], "USETMAXREG"):
        wrong.append(f"moves registers, with {blocks} blocks an SM")
    if not multiply[1]:
        wrong.append("no loop with HGMMA")
    elif multiply[0] > BUDGET_MULTIPLY * multiply[1]:
        wrong.append(f"{multiply[0]} instructions for {multiply[1]} HGMMA, of {BUDGET_MULTIPLY} each")
    if not bring[2]:
        wrong.append("no loop with bulk copies (UBLKCP)")
    elif bring[0] > (budget := BUDGET_STAGE + BUDGET_COPY * bring[1] + BUDGET_BULK * bring[2]):
        wrong.append(f"{bring[0]} instructions for a stage, of {budget}")
    return [f"{rows} rows, {groups} warpgroups: {text}" for text in wrong]


def main():
    text = subprocess.run([sys.argv[1], "-sass", sys.argv[2]], check=True, capture_output=True, text=True).stdout
    found = kernels(text)
    if len(found) < 16:
        print(f"{len(found)} kernels of 16")
    for (kind, rows, groups, blocks), code in sorted(found.items()):
        multiply, bring = measure(code)
        if "--table" in sys.argv and kind == 3:
            print(f"| {rows} | {groups} | {multiply[0]} | {multiply[1]} | {bring[0]} | {bring[1]} | {bring[2]} |")
        elif "--table" not in sys.argv:
            print("".join(line + "\n" for line in judge(rows, groups, blocks, code)), end="")


if __name__ == "__main__":
    main()
