"""The real program on processors that are not here: qemu's user emulation gives it a lesser (or another) one, the set of instructions is
left to `auto`, and the answers must be right. TRIREME_MACHINES: x86_64 (default) or aarch64, then with TRIREME_SYSROOT for its libraries."""
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from run import Skip
from serve import ROOT, Serve, binary, bundled_model

ARCH = os.environ.get("TRIREME_MACHINES") or "x86_64"
EMULATOR = f"qemu-{ARCH}-static"
GOLDEN = json.loads((ROOT / "demo" / "golden" / "golden.json").read_text())["cases"][0]
BEST = {"Nehalem": {"scalar"}, "Haswell": {"avx2"}, "cortex-a72": {"neon"}, "neoverse-n1": {"neon"},
        "max": {"avx2", "avx512", "amx"} if ARCH == "x86_64" else {"neon"}}  # qemu 7.2 ends at AVX2, a later one may not
DECIDED = 1e-3  # of the reference's margin between the best token and the next
TOKENS = 24     # an emulated step is slow


class Machine:
    """A folder with a program `trireme` that runs the real one on an emulated processor."""

    def __init__(self, cpu):
        if not shutil.which(EMULATOR):
            raise Skip("qemu", f"no {EMULATOR} (package qemu-user-static)")
        self.cpu = cpu

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="trm-", dir="/tmp")
        self.program = f"{self.dir}/trireme"
        root = f"-L {os.environ['TRIREME_SYSROOT']} " if os.environ.get("TRIREME_SYSROOT") else ""
        Path(self.program).write_text(f'#!/bin/sh\nexec {EMULATOR} {root}-cpu {self.cpu} {binary()} "$@"\n')
        os.chmod(self.program, 0o755)
        for name in ("TRIREME_ISA", "TRIREME_CPU_FEATURES"):
            os.environ.pop(name, None)
        return self

    def __exit__(self, kind, value, trace):
        shutil.rmtree(self.dir, ignore_errors=True)

    def run(self, *args, given=""):
        done = subprocess.run([self.program, *args], input=given, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, f"{args[0]} ended with {done.returncode}: {done.stderr[-300:]}"
        return done.stdout

    def instruction_set(self):
        row = next(line for line in self.run("doctor").splitlines() if line.startswith("device "))
        return row.rsplit(", ", 2)[1]


def best_tokens(machine):
    """The likeliest next token behind each token of the golden, and the golden's own."""
    ids = GOLDEN["prompt_ids"] + GOLDEN["greedy_ids"][:TOKENS]
    answer = json.loads(machine.run("logits", "--model", bundled_model(), "--compute", "f32", given=json.dumps({"ids": ids}) + "\n"))
    first = len(GOLDEN["prompt_ids"]) - 1
    rows = answer["logits"][first:first + TOKENS]
    assert len(rows) == TOKENS, f"{len(rows)} rows"
    return [max(range(len(row)), key=row.__getitem__) for row in rows]


def check(cpu):
    with Machine(cpu) as machine:
        chosen = machine.instruction_set()
        assert chosen in BEST[cpu], f"auto chose {chosen}"
        wrong = [i for i, token in enumerate(best_tokens(machine))
                 if token != GOLDEN["greedy_ids"][i] and GOLDEN["margins"][i] > DECIDED]
        assert not wrong, f"other tokens than the golden's at {wrong}"
        with Serve(args=["--exe", machine.program, "--threads", "2"], ready_s=120, program=machine.program) as s:
            status, answer, _ = s.post("/v1/chat/completions", {"messages": GOLDEN["messages"], "temperature": 0, "max_tokens": TOKENS},
                                       timeout=120)
            assert status == 200, answer
            text = answer["choices"][0]["message"]["content"]
            assert text == GOLDEN["greedy_text"], f"it said {text!r}"
            assert f"({chosen}, " in s.log(), "the worker took another set"
        return chosen


if ARCH == "x86_64":
    def test_nehalem():
        return check("Nehalem")

    def test_haswell():
        return check("Haswell")
else:
    def test_cortex_a72():
        return check("cortex-a72")

    def test_neoverse_n1():
        return check("neoverse-n1")


def test_max():
    return check("max")
