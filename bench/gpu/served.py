"""Start to ready, time to first token and streaming of a random-weight model over HTTP; figures as lines of JSON.

    served.py SHAPE FOLDER DEVICE      (TRIREME_BIN: the program; TRIREME_STEP, TRIREME_COMMIT: for the lines)
"""
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "tests" / "e2e"))

from serve import Serve  # noqa: E402
from stream import run_many  # noqa: E402

SHAPE, FOLDER, DEVICE = sys.argv[1:4]


def figure(name, value, unit):
    print(json.dumps({"kind": "figure", "step": os.environ.get("TRIREME_STEP", "served"), "device": DEVICE, "commit": os.environ.get("TRIREME_COMMIT", "unknown"),
                      "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "name": f"{name}, {SHAPE} bf16", "value": value, "unit": unit},
                     separators=(",", ":")), flush=True)


def body(prompt_tokens, max_tokens, seed):
    tokens = [(i * 7919 + seed * 31) % 3000 for i in range(prompt_tokens)]
    return "/v1/completions", {"prompt": tokens, "max_tokens": max_tokens, "temperature": 1.0, "seed": seed, "ignore_eos": True, "stream": True,
                               "stream_options": {"include_usage": True}}


def main():
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"):
        shutil.copy(HERE / "demo" / "model" / name, FOLDER)
    began = time.monotonic()
    with Serve(model=FOLDER, args=["--device", "cuda", "--max-context", 8192], ready_s=300) as server:
        figure("start to ready, weights in the page cache", round(time.monotonic() - began, 3), "s")
        for prompt in (128, 1024, 4096):
            firsts = []
            for i in range(6):
                started = time.monotonic()
                results, _ = run_many(server.port, [body(prompt, 4, 100 * prompt + i)], timeout=120)
                r = results[0]
                assert not r.error, r.error
                firsts.append(r.first_s if r.first_s is not None else time.monotonic() - started)
            figure(f"time to first token over HTTP, {prompt} tokens", round(statistics.median(firsts[1:]) * 1000, 3), "ms")
        for streams in (1, 32, 128):
            started = time.monotonic()
            results, _ = run_many(server.port, [body(128, 256, i) for i in range(streams)], timeout=300)
            assert not any(r.error for r in results), next(r.error for r in results if r.error)
            tokens = sum(r.usage["completion_tokens"] for r in results)
            figure(f"{streams} streams of 128 + 256 tokens over HTTP", round(tokens / (time.monotonic() - started), 1), "tok/s")


if __name__ == "__main__":
    main()
