"""Probes tell the truth, idle costs nothing, malformed requests harm nobody (acceptance 8, 9, 10)."""
import contextlib
import os
import signal
import sys
import time

from serve import ROOT, Serve, cpu_seconds, processes, resident_bytes
from stream import run_many


def within(server, path, status, seconds):
    began = time.monotonic()
    server.wait(lambda: server.get(path, timeout=3)[0] == status, seconds, f"{path} {status}")
    return time.monotonic() - began


def stopped_worker(server, path):
    """Stops the worker, and the supervisor first, which would replace it within these two seconds. Returns how long `path` took to turn 503."""
    stopped = [server.supervisor_pid(), server.pids("worker")[0]]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        took = within(server, path, 503, 2.0)
        assert server.get("/health/live")[0] == 200 and server.get("/health")[0] == 200
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):  # the supervisor may be quicker to end the worker, as it was told
                os.kill(pid, signal.SIGCONT)
    within(server, "/health/ready", 200, 15)
    within(server, "/health/e2e", 200, 15)
    return took


def test_probes_follow_a_stopped_worker():
    with Serve() as s:
        assert s.get("/health/e2e", timeout=5)[0] == 200
        return f"ready turned 503 after {stopped_worker(s, '/health/ready'):.2f} s"


def test_e2e_probe_follows_a_stopped_worker():
    with Serve() as s:
        assert s.get("/health/e2e", timeout=5)[0] == 200
        return f"e2e turned 503 after {stopped_worker(s, '/health/e2e'):.2f} s"


def test_stopped_worker_is_replaced():
    with Serve() as s:
        worker = s.pids("worker")
        os.kill(worker[0], signal.SIGSTOP)
        s.wait(lambda: s.pids("worker") and s.pids("worker") != worker, 10, "the stopped worker was replaced")
        within(s, "/health/e2e", 200, 15)


def test_scheduler_that_hangs_is_replaced():
    """Its socket takes connections still, and no handshake on it comes to an end: that is not a scheduler that refuses its supervisor's key. The
    silence is longer than a handshake has."""
    with Serve(args=["--scheduler-silence", "7s"]) as s:
        scheduler = s.pids("scheduler")
        os.kill(scheduler[0], signal.SIGSTOP)
        s.wait(lambda: s.pids("scheduler") and s.pids("scheduler") != scheduler, 40, "the scheduler was replaced")
        within(s, "/health/e2e", 200, 20)
        assert "does not answer" in s.log(), s.log()[-2000:]


def test_what_the_scheduler_never_met_is_replaced_too():
    """A worker that hangs while the scheduler is replaced has no judge on the wire; a gateway never has one. Their pulse tells."""
    with Serve(args=["--scheduler-silence", "4s"]) as s:
        worker, scheduler = s.pids("worker"), s.pids("scheduler")
        os.kill(worker[0], signal.SIGSTOP)
        os.kill(scheduler[0], signal.SIGKILL)
        s.wait(lambda: s.pids("worker") and s.pids("worker") != worker, 15, "the worker was replaced")
        within(s, "/health/e2e", 200, 15)
        gateway = s.pids("gateway")
        os.kill(gateway[0], signal.SIGSTOP)
        s.wait(lambda: s.pids("gateway") and s.pids("gateway") != gateway, 15, "the gateway was replaced")
        within(s, "/health/e2e", 200, 15)


def test_slow_load_is_not_death():
    s = Serve(hooks={"HOOK_LOAD_MS": "12000"}).start()
    try:
        time.sleep(3)
        first = s.wait(lambda: s.pids("worker"), 10, "worker started")
        assert s.get("/health/live")[0] == 200
        assert s.get("/health/ready")[0] == 503
        s.wait_ready(40)
        assert s.pids("worker") == first, "the loading worker was replaced"
    finally:
        s.stop()


def test_slow_prefill_is_not_death():
    # one step of six seconds: heartbeats come from another thread
    with Serve(args=["--min-step-ms", 6000]) as s:
        worker = s.pids("worker")
        results, _ = run_many(s.port, [("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 2, "stream": True})], timeout=60)
        assert results[0].status == 200 and not results[0].error, results[0].error
        assert s.pids("worker") == worker, "the worker was replaced in a slow step"


def idle_use(pids, seconds):
    """Per second: the share of a core, and how often their threads woke."""
    def now():
        return time.monotonic(), sum(map(cpu_seconds, pids)), sum(map(wakes, pids))
    (began, cpu, woke), _, (ended, cpu_then, woke_then) = now(), time.sleep(seconds), now()
    return (cpu_then - cpu) / (ended - began), (woke_then - woke) / (ended - began)


def wakes(pid):
    count = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/task/{thread}/status") as f:
            count += int(f.read().rpartition("nonvoluntary_ctxt_switches:")[0].rpartition("voluntary_ctxt_switches:")[2])
    return count


def test_idle_costs_nothing():
    with Serve() as s:
        run_many(s.port, [("/v1/completions", {"prompt": "Once", "max_tokens": 8, "stream": True})])
        time.sleep(7)  # its links are quiet five seconds after the last word
        used, woke = 1.0, 1e9
        for _ in range(5):  # whatever else the machine does can only add to it
            share, count = idle_use(list(processes(s.run_dir)), 4)
            used, woke = min(used, share), min(woke, count)
            if used < 0.01 and woke < 40:
                break
        memory = sum(resident_bytes(p) for p in s.pids("gateway") + s.pids("scheduler"))
        assert woke < 40, f"idle threads wake {woke:.0f} times a second"
        assert used < 0.01, f"idle uses {used * 100:.2f} % of a core"
        assert memory < 30e6, f"gateway and scheduler hold {memory / 1e6:.1f} MB"
        return f"idle {used * 100:.2f} % of a core, {woke:.0f} wakes a second, gateway + scheduler {memory / 1e6:.1f} MB"


def test_malformed_requests_harm_nobody():
    sys.path.insert(0, str(ROOT / "tests" / "e2e" / "malformed"))
    import cases
    victim = ("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 300, "temperature": 0.8, "seed": 5, "stream": True,
                                  "ignore_eos": True, "stream_options": {"include_usage": True}})
    with Serve(args=["--min-step-ms", 15]) as s:
        wanted = run_many(s.port, [victim])[0][0].key()
        pids = s.pids("gateway") + s.pids("scheduler") + s.pids("worker")

        async def attack(results):
            import asyncio
            loop = asyncio.get_running_loop()
            while not results[0].times:
                await asyncio.sleep(0.01)
            return await loop.run_in_executor(None, lambda: cases.run_cases("127.0.0.1", s.port))
        results, wrong = run_many(s.port, [victim], during=attack)
        assert not wrong, f"{len(wrong)} cases: {'; '.join(wrong[:8])}"
        assert results[0].key() == wanted, "the victim's stream changed"
        assert s.pids("gateway") + s.pids("scheduler") + s.pids("worker") == pids, "a process died"
        return f"{len(cases.all_cases('m'))} cases"
