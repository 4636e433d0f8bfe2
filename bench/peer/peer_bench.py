#!/usr/bin/env python3
"""One sequence on one thread, Trireme beside llama.cpp: processor time a token, in turns.

    ./dev bench peer MODEL.gguf --peer LLAMA_BENCH [--peer-options=--repack...] [--rounds N] ...

Both programs compute two different numbers of tokens; the difference of their processor times (user and system) is what
the tokens between cost, so neither loading nor other work on the machine counts. Medians over the rounds.
"""
import argparse
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OURS = os.path.join(ROOT, "build", "release", "bin", "bench_kernels")


def processor_time(command):
    """Seconds of user and system time that a command takes."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             env=dict(os.environ, TRIREME_BENCH_CPU_TIME="1"))
    text = child.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed: {text.strip()[-400:]}")
    return usage.ru_utime + usage.ru_stime


def ours(options, what, count):
    return [OURS, what, str(count), options.model]


def peers(options, what, count):
    counts = ["-p", "0", "-n", str(count)] if what == "decode" else ["-p", str(count), "-n", "0"]
    return [options.peer, "-m", options.model, "-t", "1", "-r", "1", "--no-warmup", *options.peer_options.split(), *counts]


def a_token(command_of, options, what, low, high):
    return (processor_time(command_of(options, what, high)) - processor_time(command_of(options, what, low))) / (high - low)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a GGUF file that both read")
    parser.add_argument("--peer", required=True, help="path of llama-bench")
    parser.add_argument("--peer-options", default="", help="more for llama-bench, in one word")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--decode", type=int, default=16, help="tokens generated; 0: none")
    parser.add_argument("--prefill", type=int, default=256, help="tokens of the prompt; at most 512; 0: none")
    options = parser.parse_args()
    if os.environ.get("TRIREME_BENCH_QUICK"):
        options.rounds, options.decode, options.prefill = 1, min(options.decode, 1), min(options.prefill, 1)
    for what, low, high in (("decode", 2, 2 + options.decode), ("prefill", 1, 1 + options.prefill)):
        if high <= low:
            continue
        rounds = [(a_token(ours, options, what, low, high), a_token(peers, options, what, low, high))
                  for _ in range(options.rounds)]
        rates = [[1 / t for t in times] for times in zip(*rounds)]
        ratio = statistics.median(theirs / mine for mine, theirs in rounds)
        text = ["%.1f (%.1f to %.1f)" % (statistics.median(r), min(r), max(r)) for r in rates]
        print(f"{what}: trireme {text[0]} tokens/s, llama.cpp {text[1]}, times as fast {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
