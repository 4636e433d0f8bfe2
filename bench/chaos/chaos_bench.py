"""bench/chaos: many rounds of faults, half on ipc with one gateway, half on tcp with two. Prints lost streams (responses in the background and requests for
vectors count as such) and the gap a client sees, per fault.

    ./dev bench chaos [--rounds 1000] [--seconds 0] [--seed 1] [--faults 'kill worker,...']
"""
import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from chaos import FAULTS, Arena, percentile  # noqa: E402


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=1000, help="counted rounds to reach")
    options.add_argument("--seconds", type=float, default=0, help="stop after this time; 0: no limit")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--step-ms", type=int, default=20)
    options.add_argument("--faults", default="", help="comma list of names; default all")
    a = options.parse_args()
    if os.environ.get("TRIREME_BENCH_QUICK"):
        a.rounds, a.faults = 1, a.faults or next(iter(FAULTS))
    names = [n for n in FAULTS if not a.faults or n in a.faults.split(",")]
    gaps, lost, counted, uncounted = {n: [] for n in names}, {n: 0 for n in names}, {n: 0 for n in names}, 0
    began, seed = time.monotonic(), a.seed

    def over():
        return sum(counted.values()) >= a.rounds or (a.seconds and time.monotonic() - began > a.seconds)
    while not over():
        for tcp in (False, True):
            with Arena(tcp=tcp, step_ms=a.step_ms) as arena:
                for _ in range(4):
                    for name in names:
                        if over():
                            break
                        seed += 1
                        r = arena.round(name, seed)
                        lost[name] += len(r.lost)
                        if r.lost:
                            print(f"LOST seed {seed} tcp {tcp} '{name}': {r.lost[:3]}", flush=True)
                        if r.counted:
                            counted[name] += 1
                            gaps[name] += r.gaps
                        else:
                            uncounted += 1
    print(f"{sum(counted.values())} counted rounds of 64 streams, 6 responses in the background and 2 requests for vectors, {uncounted} not counted, {sum(lost.values())} streams lost, {time.monotonic() - began:.0f} s")
    print(f"{'fault':28} {'rounds':>6} {'lost':>5} {'gap p50 s':>10} {'p99 s':>7} {'max s':>7}")
    for name in names:
        g = gaps[name]
        print(f"{name:28} {counted[name]:6} {lost[name]:5} {percentile(g, 50):10.2f} {percentile(g, 99):7.2f} {max(g, default=0):7.2f}")
    return 1 if sum(lost.values()) or not sum(counted.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
