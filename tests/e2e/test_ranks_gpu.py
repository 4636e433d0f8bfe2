"""Replicas of several ranks on CUDA devices (emulated here: TRIREME_BIN is trireme-emu, see test_gpu.py), and pipelines that mix them with the CPU: the
same bytes alone, in a batch, after a rank was killed or stopped.
"""
import os
import signal
import tempfile

from serve import Serve
from stream import run_many
from test_gpu import bodies, keys, model, same
from test_ranks import disturb, ranks
from tiny_models import put_heads, put_whole_norm

LONG = os.environ.get("LONG") == "1"


def serve(tp, pp, devices=None, comm="auto", folder=None, options=()):
    args = [*options, "--tp", tp, "--pp", pp, "--threads", 1, "--device", "cuda", "--slots", 8, "--max-context", 256, "--comm-form-timeout", "5s", "--comm", comm]
    if devices:
        args += ["--stage-devices", devices]
    return Serve(model=folder or model(), args=args, ready_s=120)


def shape(tp, pp, faults, devices=None, comm="auto"):
    requests, what = bodies(), f"tp {tp} pp {pp} {devices or 'cuda'}"
    how = "shared memory" if devices or comm == "shm" else "NCCL" if comm == "nccl" or tp == 1 else "each other's memory" + " and NCCL" * (pp > 1)
    with serve(tp, pp, devices, comm) as s:
        wanted = keys(run_many(s.port, requests, timeout=200)[0])
        same(keys(run_many(s.port, [requests[2]], timeout=200)[0]), wanted[2:3], f"{what}: alone")
        assert f"ranks have met, by {how}\n" in s.log(), f"{what}: not by {how}"
        for place, number in faults:
            got, _ = disturb(s, requests, lambda s: os.kill(ranks(s)[place], number))
            same(got, wanted, f"{what}: rank {place} got signal {number}")


def test_tensor_parallel():
    shape(2, 1, [((0, 1), signal.SIGKILL)] + [((0, 0), signal.SIGSTOP)] * LONG)


def test_tensor_parallel_by_nccl():
    shape(2, 1, [((0, 1), signal.SIGKILL)] + [((0, 0), signal.SIGSTOP)] * LONG, comm="nccl")


def test_tensor_parallel_staged():
    shape(2, 1, [((0, 0), signal.SIGSTOP)], comm="shm")


def test_both():
    shape(2, 2, [((1, 1), signal.SIGSTOP)] + [((0, 0), signal.SIGKILL), ((1, 0), signal.SIGKILL)] * LONG)


def test_mixed_pipeline():
    shape(1, 2, [((0, 0), signal.SIGKILL)] + [((1, 0), signal.SIGSTOP)] * LONG, "cuda,cpu")


def test_mixed_the_other_way():
    shape(1, 2, [((1, 0), signal.SIGKILL)], "cpu,cuda")


def test_ranks_that_do_not_reach_each_other():
    """They say so once, and go by NCCL; where each other's memory was asked for, they do not meet. The bytes are those with it, with graphs and without."""
    requests, got = bodies()[:2], {}
    for how, options in (("each other's memory", ["--graphs=true"]), ("each other's memory", ["--graphs=false"]), ("NCCL", [])):
        os.environ["TRIREME_EMU_UNREACHABLE"] = "1" if how == "NCCL" else ""
        try:
            with serve(2, 1, options=[*options, "--log-level", "debug"]) as s:
                got[how, *options] = keys(run_many(s.port, requests, timeout=200)[0])
                log = s.log()
        finally:
            del os.environ["TRIREME_EMU_UNREACHABLE"]
        assert f"ranks have met, by {how}\n" in log, f"not by {how}"
        if how == "each other's memory":
            assert "products of up to 8 rows add up with those of the other ranks\n" in log, "the model is for other kernels than it was made for"
        assert ("layers, recorded" in log and "head, recorded" in log) == (options == ["--graphs=true"]), options
        assert "not to be recorded" not in log
        told = [line for line in log.splitlines() if "do not use each other's memory" in line]
        assert len(told) == (2 if how == "NCCL" else 0), told  # one a rank
        assert all("memory cannot be opened: peer access is not supported" in line for line in told), told
    first, *others = got.values()
    for other in others:
        same(other, first, f"{list(got)}")


def best(server, prompts):
    """Log-probabilities of the likeliest tokens behind each prompt, by token."""
    found = []
    for prompt in prompts:
        status, answer, _ = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": 5}, timeout=200)
        assert status == 200, answer
        found.append(answer["choices"][0]["logprobs"]["top_logprobs"][0])
    return found


def near(got, whole, what):
    error = norm = 0.0
    for a, b in zip(whole, got):
        assert len(set(a) & set(b)) >= 3, f"{what}: other tokens are likeliest: {a} and {b}"
        error += sum((a[t] - b[t]) ** 2 for t in a if t in b)
        norm += sum(a[t] ** 2 for t in a if t in b)
    assert error <= 1e-4 * norm, f"{what}: {(error / norm) ** 0.5:.2g} of the values' size"


def test_log_probabilities_are_those_of_the_whole():
    """bf16: the same best token, and 1e-2 of the values' size, as between devices."""
    prompts = [[(7 * k + 31 * i) % 2900 + 5 for k in range(5 + 9 * i)] for i in range(4)]
    with serve(1, 1) as s:
        whole = best(s, prompts)
    for tp, pp, devices in ((2, 1, None), (2, 2, None), (1, 2, "cuda,cpu")):
        with serve(tp, pp, devices) as s:
            near(best(s, prompts), whole, f"tp {tp} pp {pp} {devices}")


def test_norms_over_all_heads():
    """Sums of squares go between the ranks in f32. Three ranks: more than two addends, of which no sum may be rounded on the way, so NCCL and shared memory give the same."""
    prompts = [[(7 * k + 31 * i) % 2900 + 5 for k in range(5 + 9 * i)] for i in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        put_whole_norm(folder)
        with serve(1, 1, folder=folder) as s:
            whole = best(s, prompts)
        got = {}
        for comm in "peer", "nccl", "shm":
            with serve(3, 1, comm=comm, folder=folder) as s:
                got[comm] = best(s, prompts)
            near(got[comm], whole, f"tp 3 by {comm}")
        assert got["nccl"] == got["shm"], f"by NCCL {got['nccl']}, by shared memory {got['shm']}"
        assert got["peer"] == got["shm"], f"by each other's memory {got['peer']}, by shared memory {got['shm']}"


def test_four_and_eight_ranks():
    """By each other's memory, by NCCL and by shared memory the same values, those of the whole model; and of the same seed the same bytes, alone as in a batch."""
    prompts = [[(7 * k + 31 * i) % 2900 + 5 for k in range(5 + 9 * i)] for i in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        put_heads(folder)
        with serve(1, 1, folder=folder) as s:
            whole = best(s, prompts)
        for tp in 4, 8:
            got = {}
            for comm in "peer", "nccl", "shm":
                with serve(tp, 1, comm=comm, folder=folder) as s:
                    got[comm] = best(s, prompts)
                    how = {"peer": "each other's memory", "nccl": "NCCL", "shm": "shared memory"}[comm]
                    assert f"ranks have met, by {how}\n" in s.log(), f"tp {tp}: not by {how}"
                    if comm == "peer":
                        wanted = keys(run_many(s.port, bodies(), timeout=200)[0])
                        same(keys(run_many(s.port, [bodies()[2]], timeout=200)[0]), wanted[2:3], f"tp {tp}: alone")
                near(got[comm], whole, f"tp {tp} by {comm}")
            assert got["nccl"] == got["shm"], f"tp {tp}: by NCCL {got['nccl']}, by shared memory {got['shm']}"
            assert got["peer"] == got["shm"], f"tp {tp}: by each other's memory {got['peer']}, by shared memory {got['shm']}"
