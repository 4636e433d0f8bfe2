#!/usr/bin/env python3
"""Trireme beside llama.cpp, in turns: prefill 512, decode of one sequence, batches of 8 and 32, and the floor.

    ./dev bench cpu [--shapes qwen2.5-0.5b,llama-3.2-1b] [--types Q4_0,Q8_0,Q4_K_M,BF16] [--rounds 3]

The floor of a step is the bytes it must read (each weight once, without the table of embeddings) over the bandwidth of the machine, which
bench_kernels measures in the same run. Every round runs both engines on every model, one after the other; the table has the medians of the
rounds and the median of the rounds' ratios. Where the machine is busy with other things, say so beside the table: figures drift, ratios less.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.join(ROOT, "build", "release", "bin")
COLUMNS = ("prefill", "batch_1", "batch_8", "batch_32")


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed: {done.stderr.strip()[-400:]}")
    return done.stdout


def model_of(options, shape, kind):
    """A GGUF file of the shape, quantized by the peer's own tool; made once."""
    folder = os.path.join(options.models, shape)
    plain, path = f"{folder}.BF16.gguf", f"{folder}.{kind}.gguf"
    os.makedirs(options.models, exist_ok=True)
    if not os.path.exists(plain):
        os.makedirs(folder, exist_ok=True)
        run(os.path.join(BIN, "bench_kernels"), "write", shape, folder)
        run(os.path.join(BIN, "trireme"), "convert", "--model", folder, "--out", plain)
    if not os.path.exists(path):
        run(os.path.join(options.peer, "llama-quantize"), plain, path, kind)
    return path


def ours(options, path):
    return json.loads(run(os.path.join(BIN, "bench_kernels"), "speeds", path))


def theirs(options, path):
    threads = str(len(os.sched_getaffinity(0)))
    speeds = {}
    for line in json.loads(run(os.path.join(options.peer, "llama-bench"), "-m", path, "-t", threads, "-r", "1", "-p", "512", "-n", "16",
                               "-o", "json")):
        speeds["prefill" if line["n_prompt"] else "batch_1"] = line["avg_ts"]
    batched = run(os.path.join(options.peer, "llama-batched-bench"), "-m", path, "-t", threads, "-c", "2048", "-npp", "16", "-ntg", "16",
                  "-npl", "8,32", "--output-format", "jsonl")
    for line in re.findall(r"^\{.*\}$", batched, re.M):
        line = json.loads(line)
        speeds[f"batch_{line['pl']}"] = line["speed_tg"]
    return speeds


def cell(rounds, column):
    mine = statistics.median(m[column] for m, _ in rounds)
    peer = statistics.median(p[column] for _, p in rounds)
    ratio = statistics.median(m[column] / p[column] for m, p in rounds)
    return f"{mine:.1f} / {peer:.1f} ({ratio:.2f})"


def of_floor(rounds):
    return 100 * statistics.median(m["batch_1"] * m["step_bytes"] / m["read"] for m, _ in rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True, help="folder with llama-bench, llama-batched-bench, llama-quantize")
    parser.add_argument("--models", required=True, help="folder for the made-up models")
    parser.add_argument("--shapes", default="qwen2.5-0.5b,llama-3.2-1b")
    parser.add_argument("--types", default="Q4_0,Q8_0,Q4_K_M,BF16")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    cells = [(shape, kind) for shape in options.shapes.split(",") for kind in options.types.split(",")]
    paths = {pair: model_of(options, *pair) for pair in cells}
    results = {pair: [] for pair in cells}
    for _ in range(options.rounds):
        for pair in cells:
            results[pair].append((ours(options, paths[pair]), theirs(options, paths[pair])))
    first = results[cells[0]][0][0]
    read = statistics.median(m["read"] for rounds in results.values() for m, _ in rounds)
    print(f"{first['isa']}, {len(os.sched_getaffinity(0))} threads, reads {read * 1e-9:.1f} GB/s; tokens/s, Trireme / llama.cpp (ratio)\n")
    print("| model | prefill 512 | decode | batch 8 | batch 32 | decode, of the floor |\n| --- | --- | --- | --- | --- | --- |")
    for pair in cells:
        print(f"| {pair[0]} {pair[1]} | {' | '.join(cell(results[pair], c) for c in COLUMNS)} | {of_floor(results[pair]):.0f} % |", flush=True)


if __name__ == "__main__":
    main()
