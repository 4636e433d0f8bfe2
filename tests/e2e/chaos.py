"""The flagship: streams outlive processes. Rounds of faults against 64 streams, 6 responses in the background and 2 requests for vectors, each
compared with an undisturbed run (acceptance 4). Every eighth stream's client leaves and comes back for the rest. When a gateway is killed, all
clients resume their streams, and ask again for what it kept.

A round counts only when, at the fault, every stream had received at least one and fewer than half of its tokens. bench/chaos runs many rounds and
prints the table; test_survive.py runs a few.
"""
import asyncio
import os
import random
import signal
import time

from serve import Serve, fd_count, processes
from stream import Result, request
from background import Kept, in_background
from resuming import fetch, resuming

STREAMS = 64
BACKGROUND = 6
VECTORS = 2
TOKENS = 100
# the run-time faults, each: name -> coroutine(server, rng)


# how the model's calls are written
# a slow machine refuses nothing: what is refused is no answer to compare; and prompts are not put off, so that all streams begin before one is half done
SERVE = ["--tool-call-parser", "hermes", "--pooling", "last", "--queue-wait", "0", "--itl-target", "0"]


def bodies():
    """Greedy, seeded, steered by what was drawn, n = 3, constrained, forced and strict calls, lists of tokens, log-probabilities, chat, plain and
    Anthropic's messages; every one unlike the others."""
    made = []
    for i in range(STREAMS):
        body = {"max_tokens": TOKENS + i % 9, "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True}
        if i % 3 == 0:
            body["temperature"] = 0
        else:
            body.update(temperature=0.7 + 0.01 * i, top_p=0.95, top_k=50, seed=77 + i)
        if i % 3 == 2:
            body.update(presence_penalty=0.4, frequency_penalty=0.3, repetition_penalty=1.1)
        if i % 6 == 1:
            body.update([{"mirostat": 2, "mirostat_tau": 4}, {"adaptive_target": 0.3}, {"mirostat": 1}][i // 6 % 3], dry_multiplier=0.5, typical_p=0.95)
        if i % 8 == 5:
            body["n"] = 3
        if i % 7 == 4:
            body.update({"logprobs": True, "top_logprobs": 2} if i % 2 else {"logprobs": 2})
        if i % 5 == 3:
            del body["ignore_eos"]  # they are longer than their tokens
            items = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20 + i}, "age": {"type": "integer"}}, "required": ["name", "age"]}
            people = {"type": "array", "items": items, "minItems": 400}
            if i % 4 == 1:
                schema = {"type": "object", "properties": {"people": people}, "required": ["people"], "additionalProperties": False}
                body["response_format"] = {"type": "json_schema", "json_schema": {"name": "people", "strict": True, "schema": schema}}
            else:
                body["structured_outputs"] = {"json": people} if i % 2 else {"regex": "([A-Za-z]{1,9}[ ,.]){500}"}
        elif i % 9 == 2:
            body.update([{"bad_words": ["the", "and", "was"]}, {"allowed_token_ids": list(range(260, 1500))}][i % 2])
        elif i % 10 == 7:
            del body["ignore_eos"]
            some = {"type": "object", "properties": {"lines": {"type": "array", "items": {"type": "string", "maxLength": 30}, "minItems": 400}}, "required": ["lines"]}
            body["tools"] = [{"type": "function", "function": {"name": f"write_{i}", "parameters": some, "strict": True}}]
            body["tool_choice"] = "required" if i % 20 == 7 else "auto"
        if i % 16 in (7, 9) and not {"n", "logprobs"} & set(body):
            made.append(("/v1/messages", as_messages(body, i)))
        elif i % 2:
            made.append(("/v1/chat/completions", dict(body, messages=[{"role": "user", "content": f"Tell me story number {i} about a fox and the sea."}])))
        else:
            made.append(("/v1/completions", dict(body, prompt=f"Once upon a time, in year {i}, there was a little ship. " * (1 + i % 4))))
    return made


def as_messages(body, i):
    """The same in Anthropic's form."""
    body = {k: v for k, v in body.items() if k not in ("stream_options", "tools", "tool_choice", "response_format")} | (
        {"tools": [{"name": t["function"]["name"], "input_schema": t["function"]["parameters"]} for t in body["tools"]], "tool_choice": {"type": "any"}}
        if "tools" in body else {})
    return dict(body, messages=[{"role": "user", "content": f"Tell me letter number {i} about a fox and the sea."}])


def vector_bodies():
    """Requests for vectors, of more texts than run at a time."""
    return [{"input": [f"text {i} of {k}: " + "once upon a time " * (i % 9) for i in range(150)], "encoding_format": "base64"} for k in range(VECTORS)]


def background_bodies():
    """Responses in the background, read again while they run; every third followed by its events."""
    made = []
    for i in range(BACKGROUND):
        body = {"input": f"Write tale number {i} about an owl.", "max_output_tokens": TOKENS + i, "background": True, "seed": 5 + i, "temperature": 0.8}
        if i % 3 == 0:
            body["stream"] = True
        if i == 4:  # a call that is as long as its tokens
            some = {"type": "object", "properties": {"lines": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 300}}, "required": ["lines"]}
            body["tools"] = [{"type": "function", "name": "keep", "parameters": some, "strict": True}]
            body["tool_choice"] = "required"
        elif i % 3 == 1:
            names = {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 200}
            schema = {"type": "object", "properties": {"names": names}, "required": ["names"], "additionalProperties": False}
            body["text"] = {"format": {"type": "json_schema", "name": "tale", "strict": True, "schema": schema}}
        else:
            body["ignore_eos"] = True
        made.append(body)
    return made


def kill(role):
    async def fault(server, rng):
        os.kill(rng.choice(server.pids(role)), signal.SIGKILL)
    return fault


def stop_ten_seconds(role):
    async def fault(server, rng):
        pid = rng.choice(server.pids(role))
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(10)
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
    return fault


async def kill_both(server, rng):
    for role in ("worker", "scheduler"):
        os.kill(server.pids(role)[0], signal.SIGKILL)


async def kill_supervisor(server, rng):
    children = set(server.pids("worker") + server.pids("scheduler") + server.pids("gateway"))
    server.process.kill()
    server.process.wait()
    await asyncio.sleep(0.3)
    server.start()
    await asyncio.sleep(0.7)
    now = set(server.pids("worker") + server.pids("scheduler") + server.pids("gateway"))
    assert now == children, f"the new supervisor did not adopt: {children} became {now}"


FAULTS = {
    "kill worker": kill("worker"),
    "kill scheduler": kill("scheduler"),
    "stop worker 10 s": stop_ten_seconds("worker"),
    "stop scheduler 10 s": stop_ten_seconds("scheduler"),
    "kill worker and scheduler": kill_both,
    "kill supervisor": kill_supervisor,
    "kill gateway": kill("gateway"),
}
# Clients that resume their streams; a response in the background ends with its gateway and is asked for again.
RESUMED = {"kill gateway"}


class Round:
    def __init__(self, fault):
        self.fault, self.counted, self.lost, self.gaps, self.note = fault, False, [], [], ""


def tokens_seen(r):
    return min((r.chunks.get(i, 0) for i in range(r.body.get("n", 1))), default=0), max(r.chunks.values(), default=0)


class Vectors:
    """A request for vectors: what it gave."""

    def __init__(self, body):
        self.body, self.data, self.error = body, None, None

    def key(self):
        return self.data, self.error


async def vectors_of(port, v, may_be_lost, timeout=90):
    """Where its gateway may die, it is asked again."""
    end = time.monotonic() + timeout
    while v.data is None and v.error is None:
        r = await request(port, "/v1/embeddings", v.body, timeout=max(end - time.monotonic(), 1))
        if r.status == 200 and getattr(r, "json", None):
            v.data = tuple(d["embedding"] for d in r.json["data"])
        elif not may_be_lost or time.monotonic() > end:
            v.error = f"{r.status}: {r.error}"
        else:
            await asyncio.sleep(0.1)


async def run_streams(server, requests, fault=None, rng=None, round_=None, behind=(), vectors=()):
    """behind: responses in the background beside them (Kept); vectors: requests for some (Vectors)."""
    results = [Result(body) for _, body in requests]
    ports = server.ports
    resumed = round_ and round_.fault in RESUMED

    def ask(i, path, body):
        if i % 8 == 6 and not resumed and round_:
            return resuming(ports[i % len(ports)], path, body, f"{rng.random()}-{i}", results[i], timeout=90, leaves_after=3 + i % 7)
        if resumed:
            return resuming(ports[i % len(ports)], path, body, f"{rng.random()}-{i}", results[i], timeout=90)
        return request(ports[i % len(ports)], path, body, results[i], timeout=90)
    tasks = [asyncio.create_task(ask(i, path, body)) for i, (path, body) in enumerate(requests)]
    kept = [asyncio.create_task(in_background(ports[i % len(ports)], k, may_be_lost=resumed)) for i, k in enumerate(behind)]
    kept += [asyncio.create_task(vectors_of(ports[i % len(ports)], v, may_be_lost=resumed)) for i, v in enumerate(vectors)]
    since = None
    if fault:
        while not all(tokens_seen(r)[0] >= 1 for r in results) and not all(t.done() for t in tasks):
            await asyncio.sleep(0.005)
        await asyncio.sleep(rng.uniform(0, 0.15))
        round_.counted = all(tokens_seen(r)[0] >= 1 and tokens_seen(r)[1] < r.body["max_tokens"] / 2 for r in results)
        round_.counted = round_.counted and not (kept and all(k.done() for k in kept))
        since = time.monotonic()
        await fault(server, rng)
    await asyncio.gather(*tasks, *kept)
    return results, since


def settled(server):
    """Nothing runs or waits, every block is free or only cached."""
    try:
        m = server.metrics("scheduler")
    except (AssertionError, IndexError, KeyError, ConnectionError):
        return False
    return m.get("trireme_scheduler_running") == 0 and m.get("trireme_scheduler_waiting") == 0 and m.get("trireme_scheduler_blocks_used") == 0


class Arena:
    """A server with its undisturbed results, ready for rounds."""

    def __init__(self, tcp=False, step_ms=20, workers=1):
        self.requests = bodies()
        self.server = Serve(tcp=tcp, gateways=2 if tcp else 1, workers=workers, args=["--min-step-ms", step_ms, "--slots", 128, *SERVE, *(["--drafts", 4] if tcp else [])])
        self.tcp = tcp

    def __enter__(self):
        self.server.__enter__()
        self.wanted = self.undisturbed()
        assert any(k[3] for k in self.wanted[STREAMS:STREAMS + BACKGROUND]), "no events were followed"
        for i, (got, wanted) in enumerate(zip(self.undisturbed(), self.wanted)):
            assert got == wanted, f"two undisturbed runs differ in request {i}: {first_difference(got, wanted)}"
        self.server.wait(lambda: settled(self.server), 10, "blocks returned")
        return self

    def __exit__(self, *trace):
        return self.server.__exit__(*trace)

    def undisturbed(self):
        kept = [Kept(body) for body in background_bodies()]
        vectors = [Vectors(body) for body in vector_bodies()]
        results, _ = asyncio.run(run_streams(self.server, self.requests, behind=kept, vectors=vectors))
        bad = [r.error or r.status for r in results if r.error or r.status != 200 or not r.done]
        bad += [k.error or k.status for k in kept if k.error or k.status != "incomplete"]  # they are longer than their tokens
        bad += [v.error or "no vectors" for v in vectors if not v.data]
        assert not bad, f"an undisturbed run failed: {bad[:3]}"
        return [r.key() for r in results + kept + vectors]

    def fds(self):
        return {p: fd_count(p) for role in ("gateway", "scheduler", "worker", "serve") for p in self.server.pids(role)}

    def round(self, name, seed):
        """One round; a lost stream, or response in the background, is one that does not end byte-equal."""
        r, rng = Round(name), random.Random(seed)
        kept = [Kept(body) for body in background_bodies()]
        vectors = [Vectors(body) for body in vector_bodies()]
        results, since = asyncio.run(run_streams(self.server, self.requests, FAULTS[name], rng, r, kept, vectors))
        left = sum(getattr(result, "resumes", 0) > 0 for result in results)
        assert name in RESUMED or left >= STREAMS // 16, f"only {left} clients came back for their streams"
        for i, (result, wanted) in enumerate(zip(results + kept + vectors, self.wanted)):
            if result.key() != wanted:
                r.lost.append((i, result.error or f"differs: {first_difference(result.key(), wanted)}"))
        r.gaps = [result.max_gap(since) for result in results]
        self.server.wait_ready(30)
        self.server.wait(lambda: settled(self.server), 20, f"blocks returned after '{name}'")
        return r


def kill_a_gateway(s, rng):
    pids = s.pids("gateway")
    if pids:
        os.kill(rng.choice(pids), signal.SIGKILL)


def gateways_die(streams, kills, gateways=2, tokens=None):
    """Streams of all kinds while gateways are killed: each ends, and is what an undisturbed one is."""
    rng = random.Random(11)
    kinds = [(path, dict(body, max_tokens=tokens or body["max_tokens"])) for path, body in bodies()]
    requests = [kinds[i % len(kinds)] for i in range(streams)]
    with Serve(gateways=gateways, args=["--min-step-ms", 20, "--slots", 128, "--queue-max", streams, *SERVE]) as s:
        wanted = [r.key() for r in asyncio.run(run_streams(s, kinds))[0]]

        async def main():
            results = [Result(body) for _, body in requests]
            tasks = [asyncio.create_task(resuming(s.port, path, body, f"s-{i}", results[i], timeout=240)) for i, (path, body) in enumerate(requests)]
            for _ in range(kills):
                await asyncio.sleep(rng.uniform(0.4, 0.8))
                kill_a_gateway(s, rng)
            await asyncio.gather(*tasks)
            return results
        results = asyncio.run(main())
        lost = [(i, r.error, r.resumes) for i, r in enumerate(results) if r.key() != wanted[i % len(kinds)]]
        assert not lost, f"{len(lost)} of {streams} streams lost: {lost[:3]}"
        for i, r in enumerate(results):
            if r.body.get("n", 1) == 1:
                again = fetch(s.port, "GET", f"/v1/stream/s-{i}")[1]
                assert again == r.raw, f"stream {i} is not, byte by byte, what it was: {r.resumes} resumes"
        s.wait(lambda: settled(s), 20, "blocks returned")
        resumed = sum(r.resumes > 0 for r in results)
        assert resumed >= streams // 8, f"only {resumed} streams were cut"
        return f"{resumed} of {streams} streams resumed, 0 lost"


def first_difference(got, wanted):
    for a, b in zip(got, wanted):
        if a != b:
            return f"{str(a)[:160]} is not {str(b)[:160]}"
    return "nothing?"


def percentile(values, p):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(p / 100 * len(ordered)))] if ordered else 0.0
