"""Models that carry a state: a request's bytes are what they are alone, in any batch, cut, after preemption, after
kill -9, and when it begins from a state that was kept."""
import asyncio
import os
import signal
import subprocess
import tempfile

from serve import Serve, binary
from stream import run_many
from tiny_models import put_hybrid, put_oxidizr, put_recurrent


def story(i):
    """Prompts of many lengths, some with a common beginning, greedy and seeded."""
    prompt = "Once upon a time there was a small ship. " * (i % 3) + f"Number {i} " + "sailed on and " * (5 * i % 23)
    return "/v1/completions", {"prompt": prompt, "max_tokens": 30 + i, "temperature": 0.8 if i % 2 else 0, "seed": i, "stream": True,
                               "ignore_eos": True, "stream_options": {"include_usage": True}}


def keys(results):
    for r in results:
        assert r.status == 200 and not r.error, f"status {r.status}, {r.error}"
    return [r.key() for r in results]


def kill_when_streaming(server):
    async def during(results):
        while not all(r.times for r in results):
            await asyncio.sleep(0.01)
        for pid in server.pids("worker"):
            os.kill(pid, signal.SIGKILL)
    return during


def longer(request):
    """The next turn of a talk: the prompt goes on."""
    path, body = request
    return path, dict(body, prompt=body["prompt"] + "until the wind asked where it went. " * 3)


def cached(results):
    return [(r.usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0) for r in results]


def check(put):
    requests = [story(i) for i in range(16)]
    requests += [longer(r) for r in requests[8:12]]
    with tempfile.TemporaryDirectory() as folder:
        put(folder)
        with Serve(model=folder, args=["--snapshot-bytes", 0]) as s:
            alone = [keys(run_many(s.port, [r])[0])[0] for r in requests]
            assert len({k[1] for k in alone}) > 12, "the texts are all alike: the test has no force"
            again = run_many(s.port, requests)[0]
            assert keys(again) == alone and not any(cached(again)), "in company, no state kept"
        with Serve(model=folder, args=["--chunk-tokens", 5]) as s:
            assert keys(run_many(s.port, requests[:16])[0]) == alone[:16], "in company, cut into chunks of 5"
            again = run_many(s.port, requests)[0]
            assert keys(again) == alone, "prompts seen before, and prompts that begin like one"
            hits = cached(again)
            assert sum(h > 0 for h in hits[:16]) > 8 and all(hits[16:]), f"states were not restored: {hits}"
            os.kill(s.pids("worker")[0], signal.SIGKILL)
            assert keys(run_many(s.port, requests)[0]) == alone, "after kill -9: no state is left"
            again = run_many(s.port, requests)[0]
            assert keys(again) == alone and sum(cached(again)) >= sum(hits), "kept anew"
        with Serve(model=folder, args=["--blocks", 28, "--block-tokens", 16, "--min-step-ms", 5]) as s:  # they meet, however late each is sent
            assert keys(run_many(s.port, requests)[0]) == alone, "after preemption"
            assert s.counted("trireme_scheduler_preemptions_total"), "nothing was preempted: the test has no force"
        with Serve(model=folder, args=["--min-step-ms", 15, "--chunk-tokens", 16]) as s:
            killed = run_many(s.port, requests, during=kill_when_streaming(s))[0]
            assert keys(killed) == alone, "after kill -9 of the worker"


def test_hybrid():
    check(put_hybrid)


def test_recurrent_alone():
    check(put_recurrent)


def test_oxidizr():
    check(put_oxidizr)
    with tempfile.TemporaryDirectory() as folder:
        put_oxidizr(folder)
        told = subprocess.run([binary(), "info", folder], check=True, capture_output=True, text=True).stdout
        assert "0: mamba3" in told and "can be served   yes" in told, told
