#!/usr/bin/env python3
"""Writes the table of docs/models.md from the rows of model/ and the goldens beside this file; --check only compares.

    python3 tests/goldens/models/table.py [--check]
"""
import glob, json, os, re, sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
BEGIN, END = "<!-- table: tests/goldens/models/table.py -->", "<!-- end of table -->"


def sources(*patterns):
    return "\n".join(open(p).read() for pattern in patterns for p in sorted(glob.glob(f"{ROOT}/model/read/{pattern}")))


def rows_of_families():
    """name -> architectures, in the order of the rows."""
    found = {}
    pattern = r'\.architectures\s*=\s*((?:"[^"]*"\s*)+),\s*\.(?:when|model_types)[^;]*?\.name\s*=\s*"([^"]+)"'
    for texts, name in re.findall(pattern, sources("families*.c", "families*.h")):
        archs = "".join(re.findall(r'"([^"]*)"', texts)).split(",")
        found.setdefault(name, [])
        found[name] += [a for a in archs if a not in found[name]]
    return found


def gguf_of():
    """architecture class -> names in GGUF files."""
    found = {}
    for gguf, _, arch in re.findall(r'\{"([\w.-]+)",\s*"(\w+)",\s*"(\w+)",\s*&', sources("gguf_archs.c")):
        found.setdefault(arch, []).append(gguf)
    return found


def goldens():
    found = {}
    for path in sorted(glob.glob(HERE + "/*.json")):
        golden = json.load(open(path))
        config = json.loads(golden["config"] or "{}")
        for arch in config.get("architectures") or ["oxidizr"]:
            found.setdefault(arch, []).append(golden["name"])
    return found


def table():
    lines = ["| family | architectures (safetensors) | GGUF | goldens |", "| --- | --- | --- | --- |"]
    proof, gguf = goldens(), gguf_of()
    for name, archs in rows_of_families().items():
        names = list(dict.fromkeys(g for a in archs for g in gguf.get(a, [])))
        tests = sorted(g for a in archs for g in proof.get(a, []))
        lines.append(f"| {name} | {', '.join(archs)} | {', '.join(names) or '–'} | {', '.join(tests) or 'none'} |")
    return "\n".join(lines)


def main():
    path = ROOT + "/docs/models.md"
    text = open(path).read()
    new = text[:text.index(BEGIN) + len(BEGIN)] + "\n\n" + table() + "\n\n" + text[text.index(END):]
    if "--check" in sys.argv:
        sys.exit("docs/models.md is stale: python3 tests/goldens/models/table.py" if new != text else 0)
    open(path, "w").write(new)


if __name__ == "__main__":
    main()
