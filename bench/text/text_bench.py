"""bench/text: encoding, loading and worst cases against HF tokenizers, tiktoken, sentencepiece and fastokens, one thread each, in one run.

    ./dev bench text [--files a.txt b.txt] [--tokenizers llama3 qwen2.5 ...]

Texts and tokenizers are ../shared/data's. Each library runs in a process of its own, next to ours, file by file, so that both meet the same
machine. MB/s: the first megabyte of the process / the file as one text / in texts of 1 kB; the latter two warm, medians. Libraries that are
not installed in this Python are left out and named: pip install tokenizers tiktoken sentencepiece fastokens. Loading is without importing them;
ours twice: from the file, and from the vocabulary that was kept (--cache-dir), as every start but the first does.
"""
import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("TRIREME_SHARED") or ROOT.parent / "shared" / "data")
PROGRAM = (os.environ.get("BUILD_RELEASE") or str(ROOT / "build" / "release")) + "/bin/bench_text"
TOKENIZERS = {
    "llama3": ("llama3/tokenizer.derived.json", {"hf": "llama3/tokenizer.derived.json", "fastokens": "llama3/tokenizer.derived.json", "tiktoken": "llama3/llama3.tiktoken"}),
    "qwen2.5": ("qwen2.5/tokenizer.derived.json", {"hf": "qwen2.5/tokenizer.derived.json", "fastokens": "qwen2.5/tokenizer.derived.json"}),
    "smollm2": ("smollm2/tokenizer.json", {"hf": "smollm2/tokenizer.json", "fastokens": "smollm2/tokenizer.json"}),
    "gpt2": ("openai/r50k_base.tiktoken", {"tiktoken": "openai/r50k_base.tiktoken"}),
    "llama2": ("llama2/tokenizer.model", {"sentencepiece": "llama2/tokenizer.model"}),
    "mistral": ("mistral-hf/tokenizer.json", {"hf": "mistral-hf/tokenizer.json", "fastokens": "mistral-hf/tokenizer.json"}),
}
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def opener(library, path):
    """encode(text) of a peer."""
    if library == "hf":
        import tokenizers
        t = tokenizers.Tokenizer.from_file(path)
        return lambda text: t.encode(text, add_special_tokens=False)
    if library == "fastokens":
        import fastokens
        t = fastokens._native.Tokenizer.from_file(path)
        return lambda text: t.encode(text, add_special_tokens=False)
    if library == "tiktoken":
        import tiktoken
        import tiktoken.load
        t = tiktoken.Encoding("bench", pat_str=LLAMA3 if "llama3" in path else GPT2, mergeable_ranks=tiktoken.load.load_tiktoken_bpe(path), special_tokens={})
        return t.encode_ordinary
    import sentencepiece
    return sentencepiece.SentencePieceProcessor(model_file=path).encode


def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6


def peer(library, path, files):
    """In a process of its own: the same lines as bench_text."""
    importlib.import_module("tokenizers" if library == "hf" else library)
    before, start = resident_mb(), time.perf_counter()
    encode = opener(library, path)
    print(json.dumps({"load_ms": (time.perf_counter() - start) * 1e3, "load_mb": resident_mb() - before}), flush=True)

    def rate(texts, size, runs=7):
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            for text in texts:
                encode(text)
            times.append(time.perf_counter() - start)
            if sum(times) > 5:
                break
        return size / statistics.median(times) / 1e6
    for file in files:
        raw = Path(file).read_bytes()
        text = raw.decode()
        first = raw[:1000000].decode(errors="ignore")
        start = time.perf_counter()
        encode(first)
        cold = len(first.encode()) / (time.perf_counter() - start) / 1e6
        size = len(raw)
        if cold < 5:  # slow ones get a part: their rate does not depend on it
            text = first
            size = len(first.encode())
        document = rate([text], size)
        cut, at, step = [], 0, 1000 * len(text) // max(1, size)
        while at < len(text):
            cut.append(text[at:at + step])
            at += step
        print(json.dumps({"file": file, "cold": cold, "document": document, "pieces": rate(cut, size)}), flush=True)


def run(words):
    env = dict(os.environ, RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
    done = subprocess.run(words, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=1800)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1:] or ["no reason given"]
    return [json.loads(line) for line in done.stdout.splitlines()], None


def kept_load(path):
    """Of ours, with a vocabulary kept by a run before."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, TRIREME_CACHE_DIR=folder)
        for _ in range(2):
            done = subprocess.run([PROGRAM, path], env=env, text=True, stdout=subprocess.PIPE, timeout=600, check=True)
    return json.loads(done.stdout.splitlines()[0])


def show(rate):
    return f"{rate['cold']:.0f} / {rate['document']:.0f} / {rate['pieces']:.0f}"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--peer", nargs=2)
    options.add_argument("--files", nargs="*", default=["war-and-peace.txt", "promessi_sposi_it.txt", "wagahaiwa_nekodearu_ja.txt"])
    options.add_argument("--tokenizers", nargs="*", default=list(TOKENIZERS))
    a = options.parse_args()
    if os.environ.get("TRIREME_BENCH_QUICK"):
        a.tokenizers, a.files = a.tokenizers[:1], a.files[:1]
    files = [f if os.path.isabs(f) else str(DATA / "text" / f) for f in a.files]
    if a.peer:
        return peer(*a.peer, files)
    print("| tokenizer | who | load ms | load MB | " + " | ".join(Path(f).name for f in files) + " |")
    print("| --- " * (4 + len(files)) + "|")
    for name in a.tokenizers:
        ours, peers = TOKENIZERS[name]
        for who, path in [("trireme", ours), *peers.items()]:
            cells, load = [], None
            for file in files:  # a process a file, so that each first megabyte is one
                command = [PROGRAM, str(DATA / "tokenizers" / path), file] if who == "trireme" else [
                    sys.executable, __file__, "--peer", who, str(DATA / "tokenizers" / path), "--files", file]
                lines, why = run(command)
                if not lines:
                    print(f"{who} of {name} left out: {why}", file=sys.stderr)
                    cells.append("–")
                    continue
                load = load or lines[0]
                cells.append(show(lines[1]))
            if load:
                ms, mb = f"{load['load_ms']:.0f}", f"{load['load_mb']:.0f}"
                if who == "trireme":
                    kept = kept_load(str(DATA / "tokenizers" / path))
                    ms, mb = f"{ms}, kept {kept['load_ms']:.1f}", f"{mb}, kept {kept['load_mb']:.0f}"
                print(f"| {name} | {who} | {ms} | {mb} | " + " | ".join(cells) + " |", flush=True)
    print("\n| tokenizer | 1 MB of one letter, ms | of spaces | of emoji |\n| --- | --- | --- | --- |")
    for name in a.tokenizers:
        lines, why = run([PROGRAM, str(DATA / "tokenizers" / TOKENIZERS[name][0])])
        if lines:
            print(f"| {name} | " + " | ".join(f"{x['ms']:.1f}" for x in lines[1:]) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
