#!/usr/bin/env python3
"""Trireme beside llama.cpp, in turns: seconds to a first token, prefill 512, decode of one sequence, batches of 4 to 32, and the floor.

    ./dev bench cpu [--shapes qwen2.5-0.5b,llama-3.2-1b] [--types Q4_0,Q8_0,Q4_K_M,BF16] [--threads 1] [--rounds 3] [--models FILE,FILE]
                    [--long 8192,32768]

--long: instead of all that, one prompt of so many tokens, 512 at a time, the peer with flash attention, and steps behind it. Further shapes:
qwen3-30b-a3b-cut, qwen3-next-cut (shapes.py), llama-3.1-70b-cut (one layer with 8192 inputs).

The floor of a step is the bytes it must read (each weight once, without the table of embeddings) over the bandwidth of the machine, which
bench_kernels measures in the same run. Every round runs both engines on every model, one after the other; the table has the medians of the
rounds and the median of the rounds' ratios. Where the machine is busy with other things, say so beside the table: figures drift, ratios less.
With --threads 1 both count processor time, which is fair on a machine that is busy.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import shapes

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.join(os.environ.get("BUILD_RELEASE", os.path.join(ROOT, "build", "release")), "bin")
COLUMNS = {"start": "start, s", "prefill": "prefill 512", "batch_1": "decode", "batch_4": "batch 4", "batch_8": "batch 8", "batch_16": "batch 16", "batch_32": "batch 32"}


def run(options, *command):
    variables = dict(os.environ, TRIREME_CACHE_DIR=os.path.join(options.folder, "packed"))
    if options.threads == 1:
        variables["TRIREME_BENCH_CPU_TIME"] = "1"
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed: {done.stderr.strip()[-400:]}")
    return done.stdout


def model_of(options, shape, kind):
    """A GGUF file of the shape with a small vocabulary's tokenizer, quantized by the peer's own tool; made once."""
    folder = os.path.join(options.folder, shape)
    plain, path = f"{folder}.BF16.gguf", f"{folder}.{kind}.gguf"
    if os.path.exists(path):
        return path
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(plain):
        if shape in shapes.SHAPES:
            shapes.write(shape, folder)
        else:
            run(options, os.path.join(BIN, "bench_kernels"), "write", shape, folder)
        run(options, os.path.join(BIN, "trireme"), "convert", "--model", folder, "--out", plain)
    if not os.path.exists(path):
        run(options, options.peer, "quantize", plain, path, kind, options.libraries)
    return path


def ours(options, path):
    if options.long:
        return {f"{column}_{count}": value for count in options.long
                for column, value in json.loads(run(options, os.path.join(BIN, "bench_kernels"), "long", count, path)).items()}
    return json.loads(run(options, os.path.join(BIN, "bench_kernels"), "speeds", path))


def theirs(options, path):
    if options.long:
        return {f"{column}_{count}": value for count in options.long
                for column, value in json.loads(run(options, options.peer, "long", path, str(options.threads), count, options.libraries)).items()}
    return json.loads(run(options, options.peer, "speeds", path, str(options.threads), options.libraries))


def table(results, columns, last=None):
    """A row for each model: what each column's key has, and what `last` says of the rounds."""
    print(f"| model | {' | '.join(columns.values())} |{f' {last[0]} |' if last else ''}\n| {'--- | ' * (len(columns) + 1 + bool(last))}".rstrip())
    for pair, rounds in results.items():
        cells = [cell(rounds, c) for c in columns] + ([last[1](rounds)] if last else [])
        print(f"| {' '.join(pair).strip()} | {' | '.join(cells)} |", flush=True)


def cell(rounds, column):
    mine = statistics.median(m[column] for m, _ in rounds)
    peer = statistics.median(p[column] for _, p in rounds)
    ratio = statistics.median(m[column] / p[column] for m, p in rounds)
    digits = 2 if column == "start" else 1
    return f"{mine:.{digits}f} / {peer:.{digits}f} ({ratio:.2f})"


def of_floor(rounds):
    return f"{100 * statistics.median(m['batch_1'] * m['step_bytes'] / m['read'] for m, _ in rounds):.0f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, help="bench/cpu/peer.c as a program")
    parser.add_argument("--libraries", required=True, help="folder with llama.cpp's libraries")
    parser.add_argument("--folder", required=True, help="for the made-up models")
    parser.add_argument("--shapes", default="qwen2.5-0.5b,llama-3.2-1b")
    parser.add_argument("--types", default="Q4_0,Q8_0,Q4_K_M,BF16")
    parser.add_argument("--models", help="GGUF files in their place")
    parser.add_argument("--threads", type=int, choices=(1, 0), default=0, help="1: one, counting processor time; 0: one for each CPU")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", type=lambda text: text.split(","), help="prompts of so many tokens")
    options = parser.parse_args()
    cpus = len(os.sched_getaffinity(0))
    options.threads = options.threads or cpus
    if options.models:
        paths = {(os.path.basename(path), ""): path for path in options.models.split(",")}
    else:
        paths = {(shape, kind): model_of(options, shape, kind) for shape in options.shapes.split(",") for kind in options.types.split(",")}
    os.makedirs(os.path.join(options.folder, "packed"), exist_ok=True)
    for path in paths.values():  # what any start but the first finds
        run(options, os.path.join(BIN, "bench_kernels"), "pack", path)
    results = {pair: [] for pair in paths}
    for _ in range(options.rounds):
        for pair, path in paths.items():
            results[pair].append((ours(options, path), theirs(options, path)))
    machine = f"{options.threads} threads; tokens/s, Trireme / llama.cpp (ratio)"
    if options.long:
        print(f"{machine}\n")
        table(results, {f"{column}_{count}": f"{column} {count}" for count in options.long for column in ("prefill", "decode")})
        return
    first = next(iter(results.values()))[0][0]
    read = statistics.median(m["read"] for rounds in results.values() for m, _ in rounds)
    print(f"{first['isa']}, {first['compute']}, reads {read * 1e-9:.1f} GB/s, {machine}\n")
    table(results, COLUMNS, ("decode, of the floor", of_floor))


if __name__ == "__main__":
    main()
