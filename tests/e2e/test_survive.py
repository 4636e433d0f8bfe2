"""A few rounds of the flagship test (acceptance 4), two workers (5), and the poisoned request."""
import asyncio
import os
import random
import signal
import subprocess
import time

from chaos import FAULTS, SERVE, Arena, bodies, gateways_die, run_streams, tokens_seen
from serve import Serve, binary
from stream import Result, request, run_many


def rounds(tcp, names):
    with Arena(tcp=tcp) as arena:
        before = arena.fds()
        for k, name in enumerate(names):
            for attempt in range(8):  # a busy machine misses the moment more often
                r = arena.round(name, seed=100 * k + attempt)
                assert not r.lost, f"'{name}': {len(r.lost)} of 64 streams lost; {r.lost[:2]}"
                if r.counted:
                    break
            assert r.counted, f"'{name}': eight rounds, none with every stream between its first token and its half"
        time.sleep(1)
        after = arena.fds()
        leaked = {p: (before[p], n) for p, n in after.items() if p in before and n > before[p] + 3}
        assert not leaked, f"file descriptors leaked: {leaked}"
        poison = arena.server.metrics("scheduler").get('trireme_scheduler_rejects_total{reason="poison"}', 0)
        assert poison == 0, "a stream was refused as poison"


def test_faults_on_ipc():
    rounds(False, list(FAULTS))


def test_faults_on_tcp_with_two_gateways():
    rounds(True, ["kill worker", "kill scheduler", "kill worker and scheduler", "kill supervisor"])


def test_gateways_die_under_clients_that_resume():
    return gateways_die(64, kills=3)


def test_poisoned_request_is_refused_and_others_live():
    """One prompt aborts its worker (a hook for tests); 63 others end byte-equal."""
    requests = bodies()[:63]
    trigger = 299
    with Serve(args=["--min-step-ms", 20, "--slots", 128, *SERVE], hooks={"HOOK_ABORT_TOKEN": str(trigger)}) as s:
        wanted = [r.key() for r in asyncio.run(run_streams(s, requests))[0]]

        async def main():
            results = [Result(body) for _, body in requests]
            tasks = [asyncio.create_task(request(s.port, path, body, results[i], timeout=240)) for i, (path, body) in enumerate(requests)]
            while not all(tokens_seen(r)[0] >= 1 for r in results):
                await asyncio.sleep(0.01)
            bad = await request(s.port, "/v1/completions", {"prompt": [5, 6, trigger, 7], "max_tokens": 5, "stream": True}, timeout=240)
            await asyncio.gather(*tasks)
            return results, bad
        deaths = s.metrics("scheduler").get("trireme_scheduler_worker_faults_total", 0)
        results, bad = asyncio.run(main())
        deaths = s.counted("trireme_scheduler_worker_faults_total", deaths + 1) - deaths
        wrong = [i for i, r in enumerate(results) if r.key() != wanted[i]]
        assert not wrong, f"streams {wrong[:5]} of 63 were lost: {results[wrong[0]].error}"
        assert bad.error, f"the poisoned request was served: {bad.text}"
        assert 1 <= deaths <= 9, f"{deaths:.0f} deaths"
        return f"{deaths:.0f} deaths"


def test_two_workers_scale_up_and_down():
    story = lambda i: ("/v1/completions", {"prompt": f"Story {i}: once upon a time", "max_tokens": 200, "temperature": 0.8, "seed": i, "stream": True,
                                           "ignore_eos": True, "stream_options": {"include_usage": True}})
    requests = [story(i) for i in range(32)]
    with Serve(workers=2, args=["--min-step-ms", 20, "--slots", 16]) as s:
        s.wait(lambda: s.metrics("scheduler").get("trireme_scheduler_replicas_ready") == 2, 10, "two replicas")
        wanted = [r.key() for r in run_many(s.port, requests)[0]]

        async def remove_then_add(results):
            peak = 0
            while not all(r.times for r in results):
                peak = max(peak, s.metrics("scheduler")["trireme_scheduler_running"])
                await asyncio.sleep(0.05)
            peak = max(peak, s.metrics("scheduler")["trireme_scheduler_running"])
            scale(s, 1)
            await asyncio.sleep(1.0)
            workers = len(s.pids("worker"))
            scale(s, 2)
            began = time.monotonic()
            while s.metrics("scheduler")["trireme_scheduler_replicas_ready"] < 2:
                assert time.monotonic() - began < 10
                await asyncio.sleep(0.02)
            ready = time.monotonic()
            while s.metrics("scheduler")["trireme_scheduler_running"] <= 16:
                assert time.monotonic() - ready < 1.0, "the new worker is not used within a second"
                await asyncio.sleep(0.02)
            return peak, workers
        results, (peak, workers) = run_many(s.port, requests, during=remove_then_add)
        wrong = [i for i, r in enumerate(results) if r.key() != wanted[i]]
        assert not wrong, f"streams {wrong[:5]} lost: {results[wrong[0]].error}"
        assert peak == 32, f"only {peak} slots used by two workers of 16"
        assert workers == 1, f"{workers} workers after scaling to 1"


def scale(server, count):
    subprocess.run([binary(), "scale", str(count), "--run-dir", server.run_dir], check=True, timeout=20, stdout=subprocess.DEVNULL)


def test_a_slow_disk_under_the_weights_ends_nothing():
    """The pages of the weights are gone and come back slowly (a hook for tests), while others stream: their tokens are the same, nobody is
    fenced or started again, and the gateway answers meanwhile."""
    body = {"prompt": [5, 6, 8, 9], "max_tokens": 40, "seed": 3, "ignore_eos": True, "stream": True}
    slow = {"prompt": [5, 6, 7, 9], "max_tokens": 5, "ignore_eos": True, "stream": True}
    with Serve(args=["--min-step-ms", 20], hooks={"HOOK_SLOW_DISK_MS": "60"}) as s:
        wanted = run_many(s.port, [("/v1/completions", body)])[0][0].key()
        before, workers = s.metrics("scheduler"), s.pids("worker")

        async def main():
            results, most = [Result(body) for _ in range(3)], 0.0
            tasks = [asyncio.create_task(request(s.port, "/v1/completions", body, r, timeout=60)) for r in results]
            while not all(tokens_seen(r)[0] >= 1 for r in results):
                await asyncio.sleep(0.01)
            began = time.monotonic()
            tasks.append(asyncio.create_task(request(s.port, "/v1/completions", slow, timeout=60)))
            while not all(t.done() for t in tasks):
                asked = time.monotonic()
                assert (await asyncio.to_thread(s.get, "/health/live"))[0] == 200
                most = max(most, time.monotonic() - asked)
                await asyncio.sleep(0.1)
            return results, tasks[-1].result(), time.monotonic() - began, most
        results, last, took, most = asyncio.run(main())
        assert took > 1.5, f"the disk was not slow: {took:.2f} s"
        assert all(r.key() == wanted for r in results), "other tokens after the wait"
        assert last.status == 200, last.status
        after = s.metrics("scheduler")
        for name in ("trireme_scheduler_worker_deaths_total", "trireme_scheduler_fences_total", "trireme_scheduler_reregistrations_total"):
            assert after.get(name, 0) == before.get(name, 0), name
        assert s.pids("worker") == workers
        assert most < 2, f"the gateway took {most:.2f} s to say that it lives"
