"""trireme bench serve against the bundled model: what it reports is what the server saw."""
import json
import os
import re
import subprocess
from xml.etree import ElementTree

from serve import Serve, binary


def bench(server, *args, backend="openai"):
    argv = [binary(), "bench", "serve", "--base-url", f"http://127.0.0.1:{server.port}", "--backend", backend, *map(str, args)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120)


def report(server, name, *args, **more):
    done = bench(server, "--save-result", "--save-detailed", "--result-dir", server.run_dir, "--result-filename", name, *args, **more)
    assert done.returncode == 0, done
    path = os.path.join(server.run_dir, name)
    return done.stdout, json.load(open(path)), path


def test_bench_reports_what_the_server_saw():
    with Serve(args=["--min-step-ms", 10]) as s:
        text, a, first = report(s, "a.json", "--num-prompts", 24, "--random-input-len", 30, "--random-output-len", 8, "--random-range-ratio", 0.5,
                                "--random-prefix-len", 5, "--request-rate", 20, "--ignore-eos", "--goodput", "ttft:60000", "tpot:60000",
                                "--metric-percentiles", "50,90", "--seed", 3)
        assert a["completed"] == 24 and a["failed"] == 0 and a["model_id"] == json.loads(s.get("/v1/models")[1])["data"][0]["id"], a
        assert sum(a["output_lens"]) == a["total_output_tokens"] and all(4 <= n <= 12 for n in a["output_lens"])
        assert all(20 <= n <= 50 for n in a["input_lens"]) and len(set(a["input_lens"])) > 3
        assert all(0 < len(gaps) < n for gaps, n in zip(a["itls"], a["output_lens"])), "a piece a token, or fewer"
        gaps = [gap for answer in a["itls"] for gap in answer]  # of one answer they may all be short: the client was held still meanwhile
        assert sum(gaps) >= 0.005 * len(gaps), "a step takes 10 ms"
        assert a["request_goodput"] == a["request_throughput"] > 0
        starts = sorted(a["start_times"])  # each waits by itself: two that are close may change places, and all may be late, but none is early
        assert 0.6 <= starts[11] and 1.1 <= starts[-1], f"24 requests at 20 a second: {starts}"
        assert a["p50_ttft_ms"] == a["median_ttft_ms"] <= a["p90_ttft_ms"]
        counted = re.search(r"trireme_gateway_output_tokens_total (\d+)", s.get("/metrics")[1])
        assert int(counted[1]) == a["total_output_tokens"]
        assert re.search(r"^Successful requests: +24 ", text, re.M) and "P90 E2EL (ms):" in text and "Request goodput" in text

        text, b, second = report(s, "b.json", "--num-prompts", 24, "--random-input-len", 30, "--random-output-len", 8, "--random-range-ratio", 0.5,
                                 "--random-prefix-len", 5, "--ignore-eos", "--max-concurrency", 2, "--goodput", "ttft:0.001", "--seed", 3)
        assert b["input_lens"] == a["input_lens"] and b["output_lens"] == a["output_lens"], "one seed, one set of requests"
        assert b["max_concurrent_requests"] == 2 and b["request_goodput"] == 0
        done = subprocess.run([binary(), "bench", "compare", first, second], capture_output=True, text=True)
        row = next(line.split() for line in done.stdout.splitlines() if line.startswith("mean_ttft_ms"))
        assert done.returncode == 0 and abs(float(row[1]) - a["mean_ttft_ms"]) < 0.01 and abs(float(row[2]) - b["mean_ttft_ms"]) < 0.01
        drawn = subprocess.run([binary(), "bench", "plot", first, second], capture_output=True, text=True)
        curves = ElementTree.fromstring(drawn.stdout).findall("{http://www.w3.org/2000/svg}polyline")
        assert drawn.returncode == 0 and len(curves) == 4, drawn

        text, c, _ = report(s, f"{s.run_dir}/c.json", "--num-prompts", 4, "--random-input-len", 20, "--random-output-len", 3, "--ignore-eos", backend="openai-chat")
        assert c["completed"] == 4 and c["total_output_tokens"] == 12 and all(20 <= n <= 80 for n in c["input_lens"]), c["input_lens"]


def test_bench_follows_files():
    with Serve() as s:
        trace = f"{s.run_dir}/trace.jsonl"
        with open(trace, "w") as f:
            for ms, count in ((0, 600), (3000, 600), (3600, 40)):
                f.write(json.dumps({"timestamp": ms, "input_length": count, "output_length": 4, "hash_ids": [1, 2][:1 + (count > 512)]}) + "\n")
        _, a, _ = report(s, "t.json", "--dataset-name", "trace", "--dataset-path", trace, "--trace-speed", 2, "--ignore-eos")
        assert a["input_lens"] == [600, 600, 40] and a["output_lens"] == [4, 4, 4], a
        for start, wanted in zip(a["start_times"], (0, 1.5, 1.8)):
            assert wanted <= start, a["start_times"]
        hits = lambda: int(re.search(r"vllm:prefix_cache_hits_total{[^}]*} (\d+)", s.get("/metrics")[1])[1])
        s.wait(lambda: hits() >= 512, 10, "prompts of the same hashes begin alike")
        chats = f"{s.run_dir}/chats.json"
        with open(chats, "w") as f:
            json.dump([{"conversations": [{"from": "human", "value": f"Hello {i}, \"who\" are you?"}, {"from": "gpt", "value": "x" * 40}]} for i in range(5)], f)
        _, b, _ = report(s, "s.json", "--dataset-name", "sharegpt", "--dataset-path", chats, "--ignore-eos", backend="openai-chat")
        assert b["completed"] == 5 and b["output_lens"] == [10] * 5, b


def test_bench_tells_failures():
    with Serve() as s:
        done = bench(s, "--model", "nobody", "--num-prompts", 3)
        assert done.returncode == 1 and "'nobody'" in done.stdout and re.search(r"^Failed requests: +3 ", done.stdout, re.M), done
        for args, wanted in ((["--request-rate", "fast"], "--request-rate"), (["--goodput", "itl:3"], "--goodput"), (["--dataset-name", "trace"], "--dataset-path"),
                             (["--dataset-name", "sharegpt", "--dataset-path", binary()], "no list of conversations")):
            done = bench(s, *args)
            assert done.returncode == 1 and wanted in done.stderr, done
    done = bench(s)
    assert done.returncode == 1 and "cannot reach" in done.stderr, done
    done = subprocess.run([binary(), "bench", "sail"], capture_output=True, text=True)
    assert done.returncode == 2 and "serve, compare or plot" in done.stderr, done
    for what in ("compare", "plot"):
        done = subprocess.run([binary(), "bench", what, "a.json", "--out"], capture_output=True, text=True)
        assert done.returncode == 2 and "takes files alone" in done.stderr and "'--out'" in done.stderr, done
        done = subprocess.run([binary(), "bench", what, "--help"], capture_output=True, text=True)
        assert done.returncode == 0 and "bench compare A.json" in done.stdout, done
