#!/usr/bin/env python3
"""Parsing and rendering the chat templates of the shared data, ours and jinja2's in one run: the best of many rounds each, medians of the ratios, and the slowest.

    ./dev bench templates

Needs ../shared/data and jinja2 (pip install jinja2). One thread each; a render counts without its parse, as both keep parsed templates.
"""
import copy
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tools"))
from template_diff import environment  # noqa: E402


def best(f, rounds):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        f()
        times.append((time.perf_counter() - begin) * 1e6)
    return min(times)


def main():
    program = (os.environ.get("BUILD_RELEASE") or str(ROOT / "build" / "release")) + "/bin/bench_templates"
    data = Path(os.environ.get("TRIREME_SHARED") or ROOT.parent / "shared" / "data") / "chat_templates"
    if not data.exists():
        sys.exit("the shared data is not here")
    contexts = json.loads((data / "goldens" / "contexts.json").read_text())
    env = environment()
    ours = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    rows = []
    paths = sorted((data / "llama.cpp").glob("*.jinja"))
    for path in paths[:3] if os.environ.get("TRIREME_BENCH_QUICK") else paths:
        source = path.read_text()
        for name in ("simple", "tool_use"):
            if name not in contexts:
                continue
            ours.stdin.write((json.dumps({"template": source, "vars": contexts[name]}, ensure_ascii=False) + "\n").encode())
            ours.stdin.flush()
            got = json.loads(ours.stdout.readline())
            try:
                t = env.from_string(source)
                t.render(**copy.deepcopy(contexts[name]))
            except Exception:
                continue
            if got["render_us"] < 0:
                continue
            env.cache.clear() if env.cache else None
            parse = best(lambda: env.compile(source), 3)
            render = best(lambda: t.render(**contexts[name]), 100)
            rows.append((f"{path.stem} {name}", got["parse_us"], parse, got["render_us"], render))
    print(f"{len(rows)} renders; ours, jinja2's, and how many times faster")
    for what, mine, theirs in (("parse", 1, 2), ("render", 3, 4)):
        ratios = sorted(r[theirs] / r[mine] for r in rows)
        print(f"{what}: median {statistics.median(r[mine] for r in rows):.1f} us against {statistics.median(r[theirs] for r in rows):.1f} us; "
              f"{statistics.median(ratios):.0f} times faster, at least {ratios[0]:.0f}")
    for what, mine, theirs, goal in (("parse", 1, 2, 100), ("render", 3, 4, 10)):
        slowest = sorted(rows, key=lambda r: r[theirs] / r[mine])
        print(f"{what}: {sum(r[theirs] / r[mine] < goal for r in rows)} of {len(rows)} less than {goal} times as fast; the slowest beside jinja2:")
        for r in slowest[:3]:
            print(f"  {r[0]}: {r[mine]:.1f} us against {r[theirs]:.0f} us, {r[theirs] / r[mine]:.1f} times")


if __name__ == "__main__":
    main()
