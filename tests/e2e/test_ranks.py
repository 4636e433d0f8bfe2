"""Replicas of several ranks on the CPU: tensor parallel, pipelines, both. The same bytes in any batch; a rank killed or stopped, or the scheduler:
the replica forms anew and every stream ends as in an undisturbed run of the same shape. LONG=1: every rank of every shape, several times.
"""
import asyncio
import os
import random
import resource
import signal
import tempfile
import time

from serve import Serve, binary, cpu_seconds, processes
from stream import run_many
from tiny_models import put_experts, put_hybrid

LONG = os.environ.get("LONG") == "1"
SHAPES = {"tp2": (2, 1), "pp2": (1, 2), "tp2 pp2": (2, 2)}
STREAMS, TOKENS = 12, 60


def bodies():
    made = []
    for i in range(STREAMS):
        body = {"prompt": f"Story {i}: once upon a time a fox met the sea. " * (1 + i % 5), "max_tokens": TOKENS + i, "ignore_eos": True,
                "stream": True, "stream_options": {"include_usage": True}, "temperature": 0.9 if i % 2 else 0, "seed": 90 + i}
        if i % 3 == 2:
            body.update(top_p=0.9, top_k=40, presence_penalty=0.4, repetition_penalty=1.1)
        if i % 5 == 4:
            body["n"] = 2
        made.append(("/v1/completions", body))
    return made


def serve(tp, pp, *args):
    return Serve(args=["--tp", tp, "--pp", pp, "--threads", 1, "--slots", 32, "--comm-form-timeout", "5s", *args])


def keys(results):
    for i, r in enumerate(results):
        assert not r.error and r.done and r.usage["completion_tokens"] > 0, f"stream {i}: {r.error or 'no end'}"
    return [r.key() for r in results]


def same(got, wanted, what):
    wrong = [i for i, (a, b) in enumerate(zip(got, wanted)) if a != b]
    assert not wrong, f"{what}: {len(wrong)} of {len(wanted)} streams differ; {got[wrong[0]]} is not {wanted[wrong[0]]}"


def ranks(server):
    """{(stage, rank): pid}"""
    found = {}
    for pid, argv in processes(server.run_dir).items():
        words = dict(w[2:].split("=", 1) for w in argv if w.startswith("--") and "=" in w)
        if len(argv) > 1 and argv[1] == "worker":
            found[int(words.get("stage", 0)), int(words.get("rank", 0))] = pid
    return found


def disturb(server, requests, fault):
    """Runs the streams and calls fault(server) once each of them has had a token and none its half."""
    async def main(results):
        while not all(r.times for r in results):
            assert not any(r.error for r in results), [r.error for r in results if r.error][0]
            await asyncio.sleep(0.005)
        half = [r for r in results if max(r.chunks.values()) >= TOKENS / 2]
        fault(server)
        return len(half)
    results, late = run_many(server.port, requests, during=main, timeout=100)
    return keys(results), late


def segments():
    return {n for n in os.listdir("/dev/shm") if n.startswith("trireme-")}


OTHERS = segments()  # of before: not of these tests


def no_segment_is_left():
    left = segments() - OTHERS
    time.sleep(2)
    return not [n for n in left if os.path.exists(f"/dev/shm/{n}")]


def shape_serves(name):
    tp, pp = SHAPES[name]
    requests = bodies()
    with serve(tp, pp) as s:
        assert len(s.pids("worker")) == tp * pp
        together = keys(run_many(s.port, requests)[0])
        for i in (1, 4, 8):
            same(keys(run_many(s.port, [requests[i]])[0]), [together[i]], f"{name}: alone")
        same(keys(run_many(s.port, requests[::-1])[0])[::-1], together, f"{name}: again, in another order")
        assert no_segment_is_left(), "/dev/shm holds a segment of ours"
    return together


def test_every_shape_serves_the_same_bytes_in_any_batch():
    whole = None
    with serve(1, 1) as s:
        whole = keys(run_many(s.port, bodies())[0])
    got = {name: shape_serves(name) for name in SHAPES}
    same(got["pp2"], whole, "stages change a bit")
    same(got["tp2 pp2"], got["tp2"], "stages change a bit of tp2")


def kill(place):
    return lambda s: os.kill(ranks(s)[place], signal.SIGKILL)


def stop(place):
    return lambda s: os.kill(ranks(s)[place], signal.SIGSTOP)


def kill_scheduler(s):
    os.kill(s.pids("scheduler")[0], signal.SIGKILL)


def faults_of(tp, pp):
    places = [(stage, rank) for stage in range(pp) for rank in range(tp)]
    every = [("kill", p, kill(p)) for p in places] + [("stop", p, stop(p)) for p in places] + [("kill scheduler", "", kill_scheduler)]
    if LONG:
        return every * 3
    rng = random.Random(tp * 10 + pp)
    return [rng.choice(every[: len(places)]), rng.choice(every[len(places): 2 * len(places)]), every[-1]]


def survive(name):
    tp, pp = SHAPES[name]
    requests = bodies()
    with serve(tp, pp, "--min-step-ms", 20) as s:
        wanted = keys(run_many(s.port, requests)[0])
        for what, place, fault in faults_of(tp, pp):
            got, late = disturb(s, requests, fault)
            same(got, wanted, f"{name}: {what} {place}")
            assert not late, f"{name}: {what} {place}: {late} streams were past their half"
        s.wait(lambda: len(s.pids("worker")) == tp * pp, 10, "all ranks run again")
        poison = s.metrics("scheduler").get('trireme_scheduler_rejects_total{reason="poison"}', 0)
        assert poison == 0, "a stream was refused as poison"


def trapped(folder):
    """The program, with SIGXFSZ ignored: a file past the limit is an error."""
    path = os.path.join(folder, "trapped")
    with open(path, "w") as f:
        f.write(f"#!/bin/sh\ntrap '' XFSZ\nexec '{binary()}' \"$@\"\n")
    os.chmod(path, 0o700)
    return path


NO_SEGMENT = 512 << 10  # bytes of a file: less than the ranks meet in, more than anything else that is written


def test_memory_that_ranks_cannot_share_is_told_at_the_start():
    with tempfile.TemporaryDirectory() as folder:
        s = Serve(args=["--tp", 2, "--threads", 1, "--slots", 8], program=trapped(folder))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (NO_SEGMENT, hard))
        try:
            s.start()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        try:
            assert s.process.wait(60) != 0
            log = s.log()
            assert "shared memory for the ranks" in log and "state=ready" not in log, log[-2000:]
        finally:
            s.stop()


def limit_before_they_meet(s):
    """Kills a rank and takes from all what ranks meet in, after the killed one's start has asked for it; the other is stopped, so that they cannot have met."""
    s.wait(lambda: s.log().count("ranks have met") == 2, 10, "both have met")
    other, killed = ranks(s)[0, 0], ranks(s)[0, 1]
    os.kill(other, signal.SIGSTOP)
    try:
        os.kill(killed, signal.SIGKILL)
        s.wait(lambda: ranks(s).get((0, 1), killed) != killed and f"worker-1[{ranks(s).get((0, 1))}]: loaded" in s.log(), 10,
               "the killed rank has loaded, and its start has asked for memory")
        limit_files(s, NO_SEGMENT)
    finally:
        os.kill(other, signal.SIGCONT)


def limit_files(s, size):
    for pid in ranks(s).values():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_ranks_that_cannot_meet_take_their_time():
    """They have met, one is killed, and the memory is gone: they register anew, but not as fast as they can, and are not ready meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        with Serve(args=["--tp", 2, "--threads", 1, "--slots", 8, "--comm-form-timeout", "1s"], program=trapped(folder)) as s:
            limit_before_they_meet(s)
            lines, used = s.log().count("\n"), {pid: cpu_seconds(pid) for pid in ranks(s).values()}
            request = ("/v1/completions", {"prompt": "One", "max_tokens": 5, "ignore_eos": True, "stream": True,
                                           "stream_options": {"include_usage": True}})
            seen = []

            async def watch(results):
                for _ in range(40):
                    await asyncio.sleep(0.1)
                    seen.append((await asyncio.to_thread(s.get, "/health/ready"))[0])
                limit_files(s, resource.RLIM_INFINITY)
                assert set(ranks(s).values()) == set(used), "a rank was started anew"
                return s.log().count("\n") - lines, max(cpu_seconds(p) - used[p] for p in used)

            results, (written, seconds) = run_many(s.port, [request], during=watch, timeout=60)
            keys(results)
            assert written < 100, f"{written} lines"
            assert seen[5:].count(200) < 5, seen
            return f"{written} lines, {seconds:.2f} s of the processor, ready {seen.count(200)} times of {len(seen)}"


def test_tensor_parallel_survives_a_rank():
    survive("tp2")


def test_pipeline_survives_a_rank():
    survive("pp2")


def test_both_survive_a_rank():
    survive("tp2 pp2")


def survive_with(put):
    """A model made here, its layers divided: streams end as they would undisturbed when a rank is killed, when one stops."""
    requests = bodies()[:8]
    with tempfile.TemporaryDirectory() as folder:
        put(folder)
        with Serve(model=folder, args=["--tp", 2, "--threads", 1, "--slots", 16, "--comm-form-timeout", "5s", "--min-step-ms", 20]) as s:
            wanted = keys(run_many(s.port, requests)[0])
            same(keys(run_many(s.port, requests[:1])[0]), wanted[:1], "alone")
            for what, fault in ("kill", kill((0, 1))), ("stop", stop((0, 0))):
                got, late = disturb(s, requests, fault)
                same(got, wanted, f"{put.__name__}: {what}")
                assert not late, f"{put.__name__}: {what}: {late} streams were past their half"
            assert no_segment_is_left(), "/dev/shm holds a segment of ours"


def test_experts_survive_a_rank():
    survive_with(put_experts)


def test_states_survive_a_rank():
    survive_with(put_hybrid)


def test_two_replicas_scale():
    """Scaling counts replicas; one whose rank dies leaves the other alone."""
    requests = bodies()
    with Serve(workers=2, args=["--tp", 2, "--threads", 1, "--min-step-ms", 20, "--slots", 8]) as s:
        s.wait(lambda: s.metrics("scheduler").get("trireme_scheduler_replicas_ready") == 2, 20, "two replicas")
        wanted = keys(run_many(s.port, requests)[0])
        victim = s.pids("worker")[0]
        got, _ = disturb(s, requests, lambda _: os.kill(victim, signal.SIGKILL))
        same(got, wanted, "two replicas, a rank of one killed")
        s.wait(lambda: s.metrics("scheduler").get("trireme_scheduler_replicas_ready") == 2, 20, "two replicas again")
