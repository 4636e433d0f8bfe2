"""What a constraint costs: 64 requests at once, free and under a JSON schema in turn: the processor time that each role spends for a token, and
how many tokens come in a second.

    ./dev bench constrained [ROUNDS [MODEL]]

Other work on the machine matters little to processor time, but for threads that wait for each other's part of a step; tokens a second want a
quiet machine. The turns are interleaved. `free` is without a constraint, `shared` has one schema in all requests, `each` another in each.
"""
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from serve import Serve, cpu_seconds  # noqa: E402
from stream import run_many  # noqa: E402

QUICK = bool(os.environ.get("TRIREME_BENCH_QUICK"))
REQUESTS, TOKENS, ROLES = 64, 8 if QUICK else 128, ("gateway", "scheduler", "worker")


def schema(i):
    """Never complete before the tokens are spent."""
    item = {"type": "object", "required": ["name", "tags", f"n{i}"], "additionalProperties": False,
            "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1}, f"n{i}": {"type": "integer"}}}
    return {"type": "array", "items": item, "minItems": 500}


def requests(kind, round_number):
    body = {"prompt": "One day", "max_tokens": TOKENS, "temperature": 1, "stream": True}
    more = {"free": lambda i: {"ignore_eos": True}, "shared": lambda i: {"guided_json": schema(0)}, "each": lambda i: {"guided_json": schema(1 + i + REQUESTS * round_number)}}[kind]
    return [("/v1/completions", {**body, "seed": 1000 * round_number + i, **more(i)}) for i in range(REQUESTS)]


def turn(s, kind, round_number):
    """{role: microseconds of processor for a token}, and tokens a second as "tokens/s"."""
    pids = {role: s.pids(role) for role in ROLES}
    before = {role: sum(map(cpu_seconds, pids[role])) for role in ROLES}
    begin = time.monotonic()
    results, _ = run_many(s.port, requests(kind, round_number))
    seconds = time.monotonic() - begin
    for r in results:
        assert r.status == 200 and not r.error and set(r.finish.values()) == {"length"}, (kind, r.status, r.error, r.finish)
    spent = {role: (sum(map(cpu_seconds, pids[role])) - before[role]) * 1e6 / (REQUESTS * TOKENS) for role in ROLES}
    return {**spent, "tokens/s": REQUESTS * TOKENS / seconds}


def main():
    rounds, kinds, told = int((sys.argv[1:] or ["1" if QUICK else "7"])[0]), ("free", "shared", "each"), {}
    with Serve(model=(sys.argv[2:] or [None])[0], args=["--slots", REQUESTS], ready_s=200) as s:
        for kind in kinds:
            turn(s, kind, 0)
        for n in range(1, rounds + 1):
            for kind in kinds:
                for role, us in turn(s, kind, n).items():
                    told.setdefault((kind, role), []).append(us)
    print(f"{'us a token':10}" + "".join(f"{role:>12}" for role in (*ROLES, "all", "tokens/s")) + "   rounds")
    for kind in kinds:
        row = [statistics.median(told[kind, role]) for role in ROLES]
        speeds = sorted(told[kind, "tokens/s"])
        print(f"{kind:10}" + "".join(f"{us:12.1f}" for us in [*row, sum(row)]) + f"{statistics.median(speeds):12.0f}   {speeds[0]:.0f} to {speeds[-1]:.0f}")


if __name__ == "__main__":
    main()
