#!/usr/bin/env python3
"""Every variable of the four processes, from docs/options.md, into docker/README.md and docker/compose.yaml (between their marks).

    docker_variables.py            # writes them
    docker_variables.py --check    # says which file is stale
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROLES = ["serve", "gateway", "scheduler", "worker"]


def options():
    """{role: [(variable, default, what it does)]}, as the program says."""
    found, role = {r: [] for r in ROLES}, None
    for line in (ROOT / "docs/options.md").read_text().splitlines():
        if line.startswith("## "):
            role = line.removeprefix("## trireme ")
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)]
        if role in found and len(cells) == 8 and cells[3].startswith("`TRIREME_"):
            found[role].append((cells[3].strip("`"), cells[5], cells[6]))
    assert all(found.values()), "docs/options.md reads otherwise by now"
    return found


def table(found):
    rows = {}
    for role in ROLES:
        for name, default, what in found[role]:
            rows.setdefault(name, []).append((role, default, what))
    lines = ["| variable | of | default | what it does |", "| --- | --- | --- | --- |"]
    for name in sorted(rows):
        defaults = list(dict.fromkeys(default or "–" for _, default, _ in rows[name]))
        lines.append(f"| `{name}` | {', '.join(role for role, _, _ in rows[name])} | {' or '.join(defaults)} | {rows[name][0][2]} |")
    return "\n".join(lines)


def lists(found):
    """A list of names alone passes those on that are set."""
    out = []
    for role in ROLES[1:]:
        out += [f"x-{role}-variables: &{role}-variables"] + [f"  {name}:" for name in sorted(name for name, _, _ in found[role])]
    return "\n".join(out)


def replaced(path, begin, end, text):
    whole = (ROOT / path).read_text()
    head, rest = whole.split(begin, 1)
    return whole, f"{head}{begin}\n{text}\n{end}{rest.split(end, 1)[1]}"


def main():
    found, stale = options(), []
    for path, begin, end, text in [("docker/README.md", "<!-- variables -->", "<!-- end -->", table(found)),
                                   ("docker/compose.yaml", "# variables:", "# end of variables", lists(found))]:
        old, new = replaced(path, begin, end, text)
        if old != new:
            stale.append(path)
            if "--check" not in sys.argv:
                (ROOT / path).write_text(new)
    if "--check" in sys.argv and stale:
        sys.exit(f"stale: {' '.join(stale)}")


main()
