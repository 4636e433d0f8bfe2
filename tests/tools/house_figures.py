#!/usr/bin/env python3
"""Figures of how the C sources look, one row a folder.

    house_figures.py [ROOT]
    house_figures.py --missing FOLDER...    # public calls without a contract line

Columns: source lines; % over 100 columns; functions; their median and 90th percentile in lines; % of static functions
with one caller; CHECKs per 1000 lines; % of public calls that have a contract line of their own, above or behind them.
"""
import collections
import pathlib
import re
import statistics
import subprocess
import sys

FOLDERS = ["base", "formats", "proto", "http", "text", "kernels", "model", "grammar", "gateway", "scheduler", "worker", "cli"]
SUFFIXES = {".c", ".h", ".cu", ".cuh"}
GENERATED = {"unicode_data.h"}


def sources(root, folder):
    found = [p for p in sorted((root / folder).rglob("*")) if p.suffix in SUFFIXES]
    return [p for p in found if p.name not in GENERATED and "emu" not in p.parts]


def functions(paths):
    """(name, lines, is static) of each function defined in C files."""
    paths = [str(p) for p in paths if p.suffix in {".c", ".h"}]
    if not paths:
        return []
    out = subprocess.run(["ctags", "-f", "-", "--languages=C", "--langmap=C:.c.h", "--c-kinds=f", "--fields=+neSf", "--excmd=number", *paths],
                         capture_output=True, text=True, check=True).stdout
    found = []
    for line in out.splitlines():
        fields = line.split("\t")
        tags = dict(f.split(":", 1) for f in fields[3:] if ":" in f)
        if "end" in tags:
            found.append((fields[0], int(tags["end"]) - int(tags["line"]) + 1, "file" in tags or "\tfile:" in line, fields[1]))
    return found


COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def one_caller(found):
    """Of static functions: how many have exactly one use in their file besides the definition."""
    once = total = 0
    text = {}
    for name, _, static, path in found:
        if not static or path.endswith(".h"):
            continue
        if path not in text:
            text[path] = collections.Counter(re.findall(r"\w+", COMMENTS.sub(" ", pathlib.Path(path).read_text(errors="replace"))))
        total += 1
        once += text[path][name] == 2
    return once, total


DECLARATION = re.compile(r"^(?:MUST_CHECK |PRINTF\([^)]*\) |NORETURN )*(?:const )?(?:struct |enum |unsigned |void|bool|int|u?int\d+_t|size_t|char|float|double)[\w \*]*\b(\w+)\(")


def calls(paths):
    """Prototypes in headers, but for *internal* ones: (path, line number, whether a comment is directly above or behind it)."""
    for p in paths:
        if p.suffix != ".h" or p.name.endswith(".inc.h") or "internal" in p.name:
            continue
        lines = p.read_text(errors="replace").splitlines()
        i = 0
        while i < len(lines):
            if DECLARATION.match(lines[i]) and not lines[i].startswith("static"):
                end = i
                while end < len(lines) - 1 and not re.search(r"[;{]", COMMENTS.sub("", lines[end])):
                    end += 1
                if ";" in lines[end] and "typedef" not in lines[i]:
                    above = lines[i - 1].rstrip() if i else ""
                    behind = any("/*" in l for l in lines[i:end + 1])
                    yield p, i + 1, lines[i], above.endswith("*/") or behind
                i = end
            i += 1


def row(root, folder):
    paths = sources(root, folder)
    texts = [p.read_text(errors="replace") for p in paths]
    lines = [l for t in texts for l in t.splitlines()]
    found = functions(paths)
    once, statics = one_caller(found)
    checks = sum(len(re.findall(r"\bCHECK\(", COMMENTS.sub(" ", t))) for t in texts)
    documented = [c[3] for c in calls(paths)]
    return dict(lines=len(lines), wide=sum(len(l) > 100 for l in lines), lengths=[f[1] for f in found],
                once=once, statics=statics, checks=checks, documented=sum(documented), calls=len(documented))


def percent(a, b):
    return f"{100 * a / b:.0f} %" if b else "-"


def show(name, r):
    lengths = sorted(r["lengths"]) or [0]
    print(f"| {name} | {r['lines']} | {100 * r['wide'] / max(r['lines'], 1):.1f} % | {len(lengths)} | {statistics.median(lengths):.0f} | "
          f"{lengths[int(len(lengths) * .9)]} | {percent(r['once'], r['statics'])} | {1000 * r['checks'] / max(r['lines'], 1):.1f} | "
          f"{percent(r['documented'], r['calls'])} of {r['calls']} |")


def show_missing(folders):
    root = pathlib.Path(__file__).resolve().parents[2]
    for folder in folders:
        for path, number, line, documented in calls(sources(root, folder)):
            if not documented:
                print(f"{path.relative_to(root)}:{number}: {line}")


def main():
    if sys.argv[1:2] == ["--missing"]:
        return show_missing(sys.argv[2:])
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
    print("| folder | lines | over 100 columns | functions | median lines | 90 % under | statics with one caller | CHECKs per 1000 lines | calls with a contract |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    total = None
    for folder in FOLDERS:
        r = row(root, folder)
        if r["lines"]:
            show(folder, r)
            total = r if total is None else {k: total[k] + r[k] for k in r}
    show("all", total)


if __name__ == "__main__":
    main()
