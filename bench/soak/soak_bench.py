"""Soak: a whole `trireme serve` under requests of mixed kinds and faults, and whether it grows.

    ./dev bench soak [REQUESTS] [CLIENTS] [WORDS] [TOKENS]      default 20000 requests from 12 clients, prompts of up to 200 words, answers of up to 24

Streams, whole answers, embeddings (refused by a text model), constrained answers, streams that their client leaves,
streams that can be resumed and are given up, and requests that are wrong. Ten times in a run, and at least every 5000 requests, comes a fault: a worker
is killed, a worker is stopped for two seconds, the scheduler is. Resident memory and open files of every process are sampled; what is printed is their
slope over the second half, in bytes and files for 1000 requests. A long run prints a line of totals for each twentieth, and SIGTERM ends it early with its
report. With few words and tokens a request costs what the gateway and the scheduler do, and little of the model. Connections that were cut are
told with their time, and so is when this program itself stood still: clients of a machine that was stopped for a minute give up by their own
time limit, whatever the server does. Standard library only.
"""
import http.client
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from serve import Serve, fd_count, resident_bytes  # noqa: E402

CHAT = {"messages": [{"role": "user", "content": "Tell me of a fox."}]}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {"a": {"type": "boolean"}},
                                                                          "required": ["a"], "additionalProperties": False}}}
BAD = [b"", b"{", b'{"messages":7}', b'{"prompt":[4294967295]}', b"\xff\xfe", b'{"messages":[],"temperature":"hot"}', b"[" * 5000]
STILL_S = 10  # this program slept for so long, where it asked for a second
ROLES = ("gateway", "scheduler", "worker", "serve")


def kinds(rng, most_words=200, most_tokens=24):
    """One request: (kind, method, path, body, headers, bytes after which the client leaves or None, statuses that are right)."""
    tokens, seed = rng.randint(1, most_tokens), rng.randrange(1 << 30)
    some = {"max_tokens": tokens, "seed": seed}
    prompt = " ".join(rng.choice(("the", "fox", "ran", "over", "a", "hill")) for _ in range(rng.randint(1, most_words)))
    name = f"s-{seed}"
    busy = (429, 503)
    return rng.choice([
        ("stream", "POST", "/v1/chat/completions", {**CHAT, **some, "stream": True}, {}, None, (200, *busy)),
        ("whole", "POST", "/v1/completions", {"prompt": prompt, **some, "n": rng.randint(1, 3), "logprobs": 2}, {}, None, (200, *busy)),
        ("messages", "POST", "/v1/messages", {**CHAT, "max_tokens": tokens, "model": "demo", "stream": rng.random() < 0.5}, {}, None, (200, *busy)),
        ("stored", "POST", "/v1/responses", {"input": prompt, "max_output_tokens": max(tokens, 16)}, {}, None, (200, *busy)),
        ("embedding", "POST", "/v1/embeddings", {"input": [prompt, "b"]}, {}, None, (200, 400, 501, *busy)),
        ("constrained", "POST", "/v1/chat/completions", {**CHAT, "max_tokens": 16, "seed": seed, "response_format": SCHEMA}, {}, None, (200, *busy)),
        ("left", "POST", "/v1/completions", {"prompt": prompt, "max_tokens": 200, "stream": True, "ignore_eos": True}, {}, 200, (200, *busy)),
        ("given up", "POST", "/v1/completions", {"prompt": prompt, "max_tokens": 200, "stream": True, "ignore_eos": True},
         {"X-Conversation-Id": name}, 200, (200, *busy)),
        ("bad", "POST", rng.choice(("/v1/completions", "/v1/chat/completions", "/v1/none")), rng.choice(BAD), {}, None, (400, 404)),
    ])


class Soak:
    def __init__(self, serve, requests, most_words, most_tokens):
        self.serve, self.left, self.done = serve, requests, 0
        self.most_words, self.most_tokens = most_words, most_tokens
        self.lock, self.counts, self.wrong, self.cut = threading.Lock(), {}, [], []
        self.began, self.stood_still = time.monotonic(), []

    def was_cut(self, kind, error, got):
        self.cut.append(f"{time.monotonic() - self.began:.1f} s: {kind}, {got}: {error!r}")

    def one(self, rng):
        kind, method, path, body, headers, leave, right = kinds(rng, self.most_words, self.most_tokens)
        connection = http.client.HTTPConnection("127.0.0.1", self.serve.port, timeout=60)
        got = "nothing answered"
        try:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            got = f"status {answer.status}"
            if answer.status not in right:
                self.wrong.append((kind, answer.status, answer.read()[:200]))
            elif leave:
                answer.read(leave)
            else:
                answer.read()
        except (OSError, http.client.HTTPException) as e:
            self.was_cut(kind, e, got)
        finally:
            connection.close()
        if headers:
            again = http.client.HTTPConnection("127.0.0.1", self.serve.port, timeout=60)
            try:
                again.request("DELETE", f"/v1/stream/{headers['X-Conversation-Id']}")
                again.getresponse().read()
            except (OSError, http.client.HTTPException) as e:
                self.was_cut("its removal", e, "")
            finally:
                again.close()
        with self.lock:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self.done += 1

    def client(self, idx):
        rng = random.Random(idx)
        while True:
            with self.lock:
                if self.left <= 0:
                    return
                self.left -= 1
            self.one(rng)

    def sample(self):
        """{role: (bytes, files)}; a worker that was just killed is left out."""
        found = {}
        for role in ROLES:
            for pid in self.serve.pids(role)[:1]:
                try:
                    found[role] = (resident_bytes(pid), fd_count(pid), pid)
                except OSError:
                    pass
        return found


def slope(points):
    """Least squares of [(x, y)], for each 1000 of x."""
    n = len(points)
    if n < 2:
        return 0.0
    mx, my = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    below = sum((x - mx) ** 2 for x, _ in points)
    return 1000 * sum((x - mx) * (y - my) for x, y in points) / below if below else 0.0


def go_on(pid):
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass  # it was held to be dead, and is


def fault(serve, number):
    """One of three, in turn. None ends the gateway or the scheduler, whose growth is what is looked for."""
    role, stop = (("worker", False), ("worker", True), ("scheduler", True))[number % 3]
    for pid in serve.pids(role)[:1]:
        if stop:
            os.kill(pid, signal.SIGSTOP)
            threading.Timer(2, go_on, (pid,)).start()
        else:
            os.kill(pid, signal.SIGKILL)


def report(soak, samples, requests, head):
    print(head, flush=True)
    late = [(x, s) for x, s in samples if x >= requests / 2]
    for role in ROLES:
        mine = [(x, s[role]) for x, s in late if role in s]
        if not mine:
            continue
        if role == "worker":  # its restarts begin anew
            mine = [(x, v) for x, v in mine if v[2] == mine[-1][1][2]]
        print(f"  {role:10} {mine[-1][1][0] / 1e6:7.1f} MB, {mine[-1][1][1]:3} files; for 1000 requests "
              f"{slope([(x, v[0]) for x, v in mine]) / 1e3:+8.1f} KB, {slope([(x, v[1]) for x, v in mine]):+6.2f} files")


def main(argv):
    quick = bool(os.environ.get("TRIREME_BENCH_QUICK"))
    requests = int(argv[0]) if argv else 300 if quick else 20000
    clients = int(argv[1]) if argv[1:] else 12
    most_words, most_tokens = int(argv[2]) if argv[2:] else 200, int(argv[3]) if argv[3:] else 24
    fault_every, samples, faults, told = min(max(requests // 10, 100), 5000), [], 0, 0
    with Serve(args=["--record-ttl", "5s", "--responses-bytes", "256k", "--kv-bytes", "64m"]) as serve:  # bounds that are met early
        soak = Soak(serve, requests, most_words, most_tokens)

        def end_early(*_):
            soak.left = 0
        signal.signal(signal.SIGTERM, end_early)
        threads = [threading.Thread(target=soak.client, args=(i,)) for i in range(clients)]
        began = time.monotonic()
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            before = time.monotonic()
            time.sleep(0.2 if quick else 1)
            if time.monotonic() - before > STILL_S:
                soak.stood_still.append(f"{before - soak.began:.1f} to {time.monotonic() - soak.began:.1f} s")
            samples.append((soak.done, soak.sample()))
            if soak.done // fault_every > faults and soak.left > 0:
                fault(serve, faults)
                faults += 1
            if not quick and soak.done * 20 // requests > told:
                told = soak.done * 20 // requests
                sizes = ", ".join(f"{role} {v[0] / 1e6:.2f} MB {v[1]} files" for role, v in samples[-1][1].items())
                print(f"{soak.done} after {time.monotonic() - began:.0f} s: {sizes}, {len(soak.cut)} cut, {len(soak.wrong)} wrong", flush=True)
        seconds = time.monotonic() - began
        report(soak, samples, soak.done, f"{soak.done} requests in {seconds:.0f} s, {clients} clients, {faults} faults, {len(soak.cut)} connections cut")
        print("  " + ", ".join(f"{n} {k}" for k, n in sorted(soak.counts.items())))
        for still in soak.stood_still[:10]:
            print("  this program stood still:", still)
        for cut in soak.cut[:10]:
            print("  cut:", cut)
        for wrong in soak.wrong[:10]:
            print("  wrong:", wrong)
        if soak.wrong:
            raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
