"""A worker on a CUDA device (or the emulated one: trireme-emu): the same bytes alone, in a batch, in chunks, preempted, after kill -9.

TRIREME_BIN is the program. TRIREME_GPU_BENCH (bench_gpu) makes a small random model for the emulated device, where the bundled one takes too long
(TRIREME_GPU_SMALL=1).
"""
import asyncio
import os
import signal
import subprocess
import tempfile
import shutil
from pathlib import Path

from serve import Serve, bundled_model
from stream import run_many

SMALL = os.environ.get("TRIREME_GPU_SMALL") == "1"
TOKENS = 10 if SMALL else 60
_model = None


def model():
    global _model
    if not SMALL:
        return bundled_model()
    if _model is None:
        _model = tempfile.mkdtemp(prefix="trm-mini-", dir="/tmp")
        subprocess.run([os.environ["TRIREME_GPU_BENCH"], "weights", "mini", _model], check=True)
        for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
            shutil.copy(Path(bundled_model()) / name, _model)
    return _model


def serve(*args):
    return Serve(model=model(), args=["--device", "cuda", "--slots", 8, "--max-context", 256, "--kv-type", "bf16", *args], ready_s=120)


def bodies(count=4):
    made = []
    for i in range(count):
        body = {"prompt": [(7 * k + 13 * i) % 2900 + 5 for k in range(25 + 5 * i)], "max_tokens": TOKENS + i, "temperature": 0 if i == 1 else 0.9,
                "seed": 40 + i, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
        if i == 2:
            body.update(top_k=40, top_p=0.9, repetition_penalty=1.1)
        made.append(("/v1/completions", body))
    return made


def keys(results):
    for r in results:
        assert not r.error and r.done and r.usage["completion_tokens"] > 0, r.error or "a stream that did not end"
    return [r.key() for r in results]


def same(got, wanted, what):
    for i, (a, b) in enumerate(zip(got, wanted)):
        assert a == b, f"{what}: stream {i} gave {a}, alone {b}"


def wanted(server):
    """Each stream alone."""
    return [keys(run_many(server.port, [body], timeout=300)[0])[0] for body in bodies()]


def test_alone_together_and_after_kill_the_same_bytes():
    with serve() as s:
        alone = wanted(s)
        assert len({k[1] for k in alone}) == len(alone), "the streams are alike: nothing would be seen"
        same(keys(run_many(s.port, bodies(), timeout=300)[0]), alone, "in a batch")

        async def kill(results):
            while not all(r.times for r in results):
                assert not any(r.done for r in results), "a stream ended before the worker could be killed"
                await asyncio.sleep(0.005)
            os.kill(s.pids("worker")[0], signal.SIGKILL)
        results, _ = run_many(s.port, bodies(), during=kill, timeout=300)
        same(keys(results), alone, "after the worker was killed")
        deaths = s.metrics("scheduler").get("trireme_scheduler_worker_faults_total", 0)
        assert deaths == 0, "a kill from outside counted as a fault"


def test_chunks_preemption_and_no_graphs_the_same_bytes():
    with serve() as s:
        alone = wanted(s)
    with serve("--graphs=false", "--max-step-tokens", 24, "--blocks", 8 if SMALL else 16, "--block-tokens", 16) as s:
        same(keys(run_many(s.port, bodies(), timeout=300)[0]), alone, "in chunks, preempted, without graphs")
        preempted = s.counted("trireme_scheduler_preemptions_total")
        assert preempted > 0, "nothing was preempted: the test shows nothing"
        return f"{preempted:.0f} preemptions"
