#!/usr/bin/env python3
"""Opens damaged copies of the bundled model: COUNT kinds of damage to each kind of file (damaged_files_main.c says what must hold).

    python3 tests/tools/damaged_files.py COUNT [--bin FOLDER] [--seed N] [--only KIND ...]
"""
import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = f"{ROOT}/demo/model"


def split(folder):
    """The weights in two files with an index."""
    path = f"{folder}/model.safetensors"
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    names, index = sorted(header), {}
    for k in range(2):
        part, body = {}, b""
        for name in names[k::2]:
            begin, end = header[name]["data_offsets"]
            part[name] = header[name] | {"data_offsets": [len(body), len(body) + end - begin]}
            body += data[8 + size + begin:8 + size + end]
            index[name] = f"model-{k + 1:05}-of-00002.safetensors"
        text = json.dumps(part).encode()
        text += b" " * (-len(text) % 8)
        with open(f"{folder}/model-{k + 1:05}-of-00002.safetensors", "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + body)
    os.remove(path)
    json.dump({"metadata": {}, "weight_map": index}, open(f"{folder}/model.safetensors.index.json", "w"))


def make(kind, folder, trireme):
    """A copy of the model; the file to change."""
    def run(*args):
        subprocess.run([trireme, *args], check=True, stdout=subprocess.DEVNULL)
    if kind == "gguf":
        run("quantize", "--model", MODEL, "--out", f"{folder}/m.gguf", "--type", "q4_k")
        return f"{folder}/m.gguf"
    if kind.startswith("quantised"):
        run("quantize", "--model", MODEL, "--out", folder, "--type", "int4")
        return f"{folder}/" + ("config.json" if kind == "quantised-config" else "model.safetensors")
    shutil.copytree(MODEL, folder, dirs_exist_ok=True)
    if kind == "index":
        split(folder)
        return f"{folder}/model.safetensors.index.json"
    return f"{folder}/" + {"safetensors": "model.safetensors", "config": "config.json", "tokenizer": "tokenizer.json"}[kind]


def main():
    kinds = ["safetensors", "index", "config", "gguf", "quantised", "quantised-config", "tokenizer"]
    p = argparse.ArgumentParser()
    p.add_argument("count", type=int)
    p.add_argument("--bin", default=f"{ROOT}/build/release/bin")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", nargs="*", default=kinds)
    args = p.parse_args()
    bad = 0
    for kind in args.only:
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as d:
            path = make(kind, d, f"{args.bin}/trireme")
            done = subprocess.run([f"{args.bin}/damaged_files", path, str(args.count), str(args.seed)], capture_output=True, text=True)
            print(f"{kind}: " + (done.stdout + done.stderr).replace(d + "/", "").strip(), flush=True)
            bad += done.returncode != 0
    return 1 if bad else 0


sys.exit(main())
