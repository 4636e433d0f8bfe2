#!/usr/bin/env python3
"""Trireme's server beside llama-server: one load, in turns, each server started anew for every round.

    ./dev bench server [--clients 1,8,32] [--rounds 3] [--requests N] [--limit S] [--threads N] [-- OPTIONS of trireme serve]

The load is `trireme bench serve`: prompts of 128 random tokens (--prompt), answers of 64 (--answer), streamed, each client sending its next request when the last
has ended; a few others first that are not counted. Both servers have a slot for each client, let requests wait as long as it takes, and compute
with as many threads as there are CPUs. Per row: tokens/s, times to the first token and between tokens (p50 / p99, ms), processor time of all of the server's threads for each token
of the answers (prompts included; the figure to compare on a busy machine), resident memory. Then: from nothing to the first
token, with the files in the page cache, and what an idle server uses of a core. Medians of the rounds.

A load that takes longer than --limit is ended by ending the server. Its figures are then of the tokens that had come until then, in requests
that may not have ended, and * marks them: times between the last tokens are missing, so they flatter the server that was cut.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRIREME = os.path.join(os.environ.get("BUILD_RELEASE", os.path.join(ROOT, "build", "release")), "bin", "trireme")
FIGURES = {"tok/s": "output_throughput", "TTFT p50": "median_ttft_ms", "TTFT p99": "p99_ttft_ms", "ITL p50": "median_itl_ms", "ITL p99": "p99_itl_ms"}

CPU = "cpu ms a token"
CUT, TOKENS = "cut", "tokens"  # whether a load was cut; how many tokens it then had


def tree(pid):
    """The process and its children."""
    children = read(pid, f"task/{pid}/children")
    return [pid] + [p for child in children.split() for p in tree(int(child))]


def read(pid, name):
    """"": the process has ended meanwhile."""
    try:
        with open(f"/proc/{pid}/{name}") as f:
            return f.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def resident_mb(pid):
    """Of all its processes; a page that several have counts for each by its share."""
    total = 0
    for p in tree(pid):
        total += sum(int(line.split()[1]) for line in read(p, "smaps_rollup").splitlines() if line.startswith("Pss:"))
    return total / 1024


def cpu_seconds(pid):
    total = 0
    for p in tree(pid):
        total += sum(map(int, read(p, "stat").rpartition(")")[2].split()[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


def thread_seconds(pid):
    """What the threads that live now have run, to the nanosecond: an idle server uses less than a tick of the clock."""
    total = 0
    for p in tree(pid):
        for thread in os.listdir(f"/proc/{p}/task"):
            total += int((read(p, f"task/{thread}/schedstat") or "0").split()[0])
    return total * 1e-9


class Server:
    def __init__(self, options, ours, clients, folder):
        self.url = f"http://127.0.0.1:{options.port}"
        context = (options.prompt + options.answer) * 5 // 4
        if ours:
            command = [TRIREME, "serve", options.model, "--port", str(options.port), "--run-dir", os.path.join(folder, "run"),
                       "--slots", str(clients), "--threads", str(options.threads), "--cache-dir", os.path.join(folder, "cache"), "--queue-wait", "0",
                       *options.rest]
        else:
            command = [options.llama_server, "-m", options.model, "--port", str(options.port), "-t", str(options.threads), "-np", str(clients),
                       "-c", str(context * clients), "--no-webui"]
        self.log = open(os.path.join(folder, "trireme.log" if ours else "llama-server.log"), "w+")
        self.began = time.monotonic()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def end_now(self):
        """Without waiting for open requests; its processes, too."""
        for p in tree(self.process.pid):
            os.kill(p, signal.SIGKILL)

    def fail(self, what):
        self.log.seek(0)
        sys.exit(f"{what}: {self.log.read()[-600:]}")

    def first_token(self):
        """Seconds from the start of the process to the first token, asked for until the server takes the request."""
        body = json.dumps({"prompt": [1, 2, 3, 4], "max_tokens": 1, "temperature": 0}).encode()
        while time.monotonic() - self.began < 120:
            if self.process.poll() is not None:
                self.fail("the server ended")
            try:
                request = urllib.request.Request(self.url + "/v1/completions", body, {"Content-Type": "application/json"})
                urllib.request.urlopen(request, timeout=60).read()
                return time.monotonic() - self.began
            except OSError:
                time.sleep(0.005)
        self.fail("the server was not ready within 120 s")

    def begin_load(self, options, clients, requests, folder):
        """Of prompts that no load before had: what a server keeps of a prompt is not what is measured."""
        options.seed += 1
        return subprocess.Popen([TRIREME, "bench", "serve", "--base-url", self.url, "--random-vocab", str(options.vocab), "--num-prompts", str(requests),
                                 "--max-concurrency", str(clients), "--random-input-len", str(options.prompt), "--random-output-len", str(options.answer),
                                 "--ignore-eos", "--disable-tqdm", "--seed", str(options.seed), "--metric-percentiles", "99", "--save-result",
                                 "--save-detailed", "--result-dir", folder, "--result-filename", "result.json"],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def warm_up(self, options, clients, folder):
        load = self.begin_load(options, clients, min(clients, 4), folder)
        text = load.communicate()[0]
        if load.returncode:
            self.fail(f"the requests that are not counted failed: {text[-400:]}")
        os.remove(os.path.join(folder, "result.json"))

    def load(self, options, clients, folder):
        path = os.path.join(folder, "result.json")
        requests = options.requests or max(3, 96 // clients) * clients
        self.warm_up(options, clients, folder)
        before, cut = cpu_seconds(self.process.pid), False
        load = self.begin_load(options, clients, requests, folder)
        try:
            load.wait(options.limit)
        except subprocess.TimeoutExpired:
            cut = True
        figures = {"resident MB": resident_mb(self.process.pid), CUT: cut}
        spent = cpu_seconds(self.process.pid) - before
        if cut:
            self.end_now()
        text = load.communicate()[0]
        if load.returncode and not cut:
            self.fail(f"the load failed: {text[-400:]}")
        result = {"ttfts": [], "itls": [], "duration": options.limit}  # cut before the first token
        if os.path.exists(path):
            with open(path) as f:
                result = json.load(f)
            os.remove(path)
        if cut:
            figures |= reached(result)
            tokens = figures[TOKENS] or float("nan")
        elif result.get("failed"):
            self.fail(f"{result['failed']} requests failed")
        else:
            figures |= {name: result[key] for name, key in FIGURES.items()}
            tokens = requests * options.answer
        return dict(figures, **{CPU: 1000 * spent / tokens})

    def idle(self, seconds):
        time.sleep(0.5)
        before = thread_seconds(self.process.pid)
        time.sleep(seconds)
        return (thread_seconds(self.process.pid) - before) / seconds * 100


def percentile(values, part):
    """nan: there is none."""
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


def reached(result):
    """What FIGURES has, of a load that was cut: of all tokens that came."""
    first = [1000 * t for t in result["ttfts"] if t is not None]
    gaps = [1000 * gap for gaps in result["itls"] for gap in gaps]
    tokens = len(first) + len(gaps)
    return {"tok/s": tokens / result["duration"], "TTFT p50": percentile(first, 0.5), "TTFT p99": percentile(first, 0.99),
            "ITL p50": percentile(gaps, 0.5), "ITL p99": percentile(gaps, 0.99), TOKENS: tokens}


def measure(options, ours, clients, folder):
    with Server(options, ours, clients, folder) as server:
        figures = {"start s": server.first_token()}
        figures.update(server.load(options, clients, folder))
        if options.idle and not figures[CUT]:
            figures["idle %"] = server.idle(options.idle)
    return figures


def cell(mine, theirs, name):
    digits = 2 if name in ("start s", "idle %", CPU) else 0 if name.startswith(("TTFT", "ITL p99", "resident")) else 1
    cells = []
    for rounds in filter(None, (mine, theirs)):
        values = [r[name] for r in rounds if name in r]
        cells.append(f"{statistics.median(values):.{digits}f}" + "*" * any(r[CUT] for r in rounds) if values else "-")
    return " / ".join(cells)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--llama-server", help="the peer; without it only ours is measured")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=0, help="of one row; 0: at least 96, and three for each client")
    parser.add_argument("--prompt", type=int, default=128, help="tokens of a prompt")
    parser.add_argument("--answer", type=int, default=64, help="tokens of an answer")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a load may take, once for each server, row and round")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--vocab", type=int, default=1000, help="token ids of prompts are below")
    parser.add_argument("--idle", type=float, default=5, help="seconds that an idle server is watched")
    parser.add_argument("--port", type=int, default=8137)
    parser.add_argument("rest", nargs="*", help="options of trireme serve, behind --")
    options = parser.parse_args()
    options.seed = 1
    names = ["start s", *FIGURES, CPU, "resident MB", *(["idle %"] if options.idle else [])]
    folder = tempfile.mkdtemp(prefix="trireme-bench-server-", dir=os.path.join(ROOT, "build"))
    try:
        print(f"{options.threads} threads, prompts of {options.prompt}, answers of {options.answer}; Trireme" + (" / llama-server" if options.llama_server else ""))
        print(f"\n| clients | {' | '.join(names)} |\n| {'--- | ' * (len(names) + 1)}".rstrip())
        for clients in map(int, options.clients.split(",")):
            mine, theirs = [], []
            for _ in range(options.rounds):
                mine.append(measure(options, True, clients, folder))
                if options.llama_server:
                    theirs.append(measure(options, False, clients, folder))
            print(f"| {clients} | {' | '.join(cell(mine, theirs, name) for name in names)} |", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
