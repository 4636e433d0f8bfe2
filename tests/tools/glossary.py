#!/usr/bin/env python3
"""Replaced words (tests/tools/glossary.txt) that came back in the C sources of folders that are done with them.

    glossary.py                 # prints each that is found; exit status 1 when there are any
    glossary.py --all FOLDER    # what a folder still has to rename, whatever glossary.txt says of it
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS_MAX = 60
SUFFIXES = {".c", ".h", ".cc", ".cpp", ".cu", ".cuh"}
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
CALL = re.compile(r"(?<![.>\w])([a-z]+)\s*\(")


def read_rules():
    rules, folders = [], []
    for line in (ROOT / "tests/tools/glossary.txt").read_text().splitlines():
        if line.startswith("folder "):
            folders.append(line.split()[1])
        elif line.strip() and not line.startswith("#"):
            word, instead, allowed, stays = ([field.strip() for field in line.split(" ;")] + [""] * 3)[:4]
            rules.append((word, instead, allowed, stays.split()))
    return rules, folders


def rules_of(folder, rules):
    return [r for r in rules if folder.split("/")[0] not in r[3]]


def sources(folder):
    return [p for p in sorted((ROOT / folder).rglob("*")) if p.suffix in SUFFIXES]


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def find_in(text, path, rules):
    """One finding for each rule and file: the first place."""
    code = NOT_CODE.sub(blank, text)
    lines, lower = code.split("\n"), code.lower()
    for word, instead, allowed, _ in rules:
        is_function = word.endswith("()")
        pattern = CALL if is_function else IDENTIFIER
        bare = word.removesuffix("()")
        if word.endswith(".c") or bare not in lower:
            continue
        for number, line in enumerate(lines, 1):
            if line.startswith("#include"):
                continue
            names = [m.group(1) if is_function else m.group() for m in pattern.finditer(line)]
            bad = [n for n in names if is_bad(n, bare, is_function, allowed)]
            if bad:
                yield f"{path.relative_to(ROOT)}:{number}: {bad[0]} ({word}: {instead})"
                break


def is_bad(name, word, is_function, allowed):
    if is_function:
        return name == word
    if word not in (p[:-1] if p == word + "s" else p for p in name.lower().split("_")):
        return False
    return not (allowed and re.fullmatch(allowed, name.lower()))


def bad_file_names(folder, rules):
    for path in sources(folder):
        stem = path.name.split(".")[0]
        for word, instead, allowed, _ in rules:
            if not word.endswith("()") and is_bad(stem, word.removesuffix(".c"), False, allowed):
                yield f"{path.relative_to(ROOT)}: its name has {word} ({instead})"


def check(folder, rules):
    found = list(bad_file_names(folder, rules))
    for path in sources(folder):
        found += find_in(path.read_text(errors="replace"), path, rules)
    return found


def main():
    rules, folders = read_rules()
    if sys.argv[1:2] == ["--all"]:
        found = [line for folder in sys.argv[2:] for line in check(folder, rules_of(folder, rules))]
    else:
        found = [line for folder in folders for line in check(folder, rules_of(folder, rules))]
        words = sum(l.startswith("| ") for l in (ROOT / "docs/glossary.md").read_text().splitlines()) - 2
        if words > WORDS_MAX:
            found.append(f"docs/glossary.md has {words} words; {WORDS_MAX} is the limit")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
