"""Starts and looks after a real `trireme serve` for the end-to-end tests and bench/chaos. Standard library only.

Everything runs on the loopback with ephemeral ports and a run folder of its own, so tests can run side by side.
"""
import ctypes
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def binary() -> str:
    folder = os.environ.get("BUILD_RELEASE") or str(ROOT / "build" / "release")
    return os.environ.get("TRIREME_BIN") or f"{folder}/bin/trireme"


def shared(relative: str):
    """A path in the optional test data, or None."""
    base = Path(os.environ.get("TRIREME_SHARED") or ROOT.parent / "shared" / "data")
    path = base / relative
    return path if path.exists() else None


def bundled_model() -> str:
    return str(ROOT / "demo" / "model")


PORTS_KEPT = []  # a socket for each port given out: while this process lives, no other test takes the port


def free_port() -> int:
    """A port that nobody listens at, for one that is started soon. It is below those that the system gives to whoever asks for any, or
    a connection or an admin port could get it before the server does."""
    while True:
        port = random.SystemRandom().randrange(16384, 32768)
        kept = socket.socket(socket.AF_UNIX)
        try:
            kept.bind(f"\0trireme-test-port-{port}")
            with socket.socket() as s:
                s.bind(("127.0.0.1", port))
        except OSError:
            kept.close()
            continue
        PORTS_KEPT.append(kept)
        return port


def processes(marker: str) -> dict:
    """{pid: argv} of living processes whose command line has `marker`."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            argv = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            state = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        words = [w.decode("utf-8", "replace") for w in argv if w]
        if state != "Z" and any(marker in w for w in words):
            found[int(entry)] = words
    return found


def fd_count(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def cpu_seconds(pid: int) -> float:
    """Of all threads that live; schedstat counts nanoseconds, where stat counts hundredths of a second."""
    return sum(int(t.read_text().split()[0]) for t in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def has_landlock() -> bool:
    """Does this kernel restrict files where a process asks for it?"""
    create_ruleset, ask_version = 444, 1
    return ctypes.CDLL(None).syscall(create_ruleset, None, ctypes.c_size_t(0), ask_version) > 0


class Serve:
    """A supervisor with its children. `with Serve(model=..., workers=2) as s:` waits until it is ready.

    hooks: variables of tests/hooks, whose program is run instead of the product."""

    def __init__(self, model=None, workers=1, gateways=1, tcp=False, args=(), env=None, ready_s=60, name=None, program=None, hooks=None):
        self.run_dir = tempfile.mkdtemp(prefix="trm-", dir="/tmp")
        self.port = free_port()
        self.ports = [self.port]
        self.model = model or bundled_model()
        program = program or binary() + ("-hooked" if hooks else "")
        self.argv = [program, "serve", "--model", str(self.model), "--host", "127.0.0.1", "--port", str(self.port),
                     "--workers", str(workers), "--gateways", str(gateways), "--run-dir", self.run_dir]
        if tcp:
            self.argv += ["--listen", f"tcp://127.0.0.1:{free_port()}"]
        self.argv += [str(a) for a in args]
        self.env = dict(os.environ, **{"TRIREME_CACHE_DIR": f"{self.run_dir}/cache", **(env or {}), **(hooks or {})})
        self.log_path = os.path.join(self.run_dir, "log.txt")
        self.process = None
        self.ready_s = ready_s

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env,
                                            start_new_session=True)
        return self

    def __enter__(self):
        self.start()
        try:
            self.wait_ready(self.ready_s)
        except BaseException:
            sys.stderr.write(self.log()[-6000:])
            self.stop()
            raise
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            keep = os.environ.get("TRIREME_KEEP_LOGS")
            if keep:
                shutil.copy(self.log_path, keep)
            sys.stderr.write(self.log()[-4000:])
        self.stop()

    def log(self) -> str:
        try:
            return Path(self.log_path).read_text(errors="replace")
        except OSError:
            return ""

    def pids(self, role: str) -> list:
        """Living children of a role (gateway, scheduler, worker, serve), oldest first."""
        return sorted(p for p, argv in processes(self.run_dir).items() if len(argv) > 1 and argv[1] == role)

    def supervisor_pid(self) -> int:
        return self.pids("serve")[0]

    def get(self, path: str, port=None, timeout=5, headers=None):
        """(status, body text); status 0 when nothing answers."""
        try:
            request = urllib.request.Request(f"http://127.0.0.1:{port or self.port}{path}", headers=headers or {})
            with urllib.request.urlopen(request, timeout=timeout) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode(errors="replace")
        except (OSError, urllib.error.URLError):
            return 0, ""

    def post(self, path: str, body, port=None, timeout=60, headers=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port or self.port}{path}", data=data,
                                         headers={"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as r:
                return r.status, json.loads(r.read() or b"null"), dict(r.headers)
        except urllib.error.HTTPError as e:
            raw = e.read()
            try:
                return e.code, json.loads(raw), dict(e.headers)
            except ValueError:
                return e.code, {"raw": raw.decode(errors="replace")}, dict(e.headers)

    def wait(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            if self.process is not None and self.process.poll() is not None and "serve" in what:
                break
            time.sleep(0.02)
        raise AssertionError(f"{what}: not within {seconds} s")

    def wait_ready(self, seconds=60):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"trireme serve ended with {self.process.returncode}")
            return self.get("/health/ready", timeout=2)[0] == 200
        self.wait(ready, seconds, "ready")

    def counted(self, name: str, least=1, seconds=10) -> float:
        """The scheduler's counter once it is `least` or more: what it did is published a moment later."""
        reached = lambda: (value := self.metrics("scheduler").get(name, 0)) >= least and value
        return self.wait(reached, seconds, f"{name} of {least:g} or more")

    def metrics(self, role: str, index=0, headers=None) -> dict:
        """{name or name{labels}: value} of a process, by its admin port (gateway: the public one)."""
        port = self.port if role == "gateway" else self.admin_port(role, index)
        status, text = self.get("/metrics", port=port, headers=headers)
        assert status == 200, f"/metrics of {role} answers {status}"
        values = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def admin_port(self, role: str, index=0) -> int:
        pids = self.pids(role)
        argv = processes(self.run_dir)[pids[index]]
        for i, word in enumerate(argv):
            found = re.match(r"--admin-port(?:=(\d+))?$", word)
            if found:
                return int(found.group(1) or argv[i + 1])
        raise AssertionError(f"{role} has no --admin-port in {argv}")

    def stop(self, grace_s=5):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(grace_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in processes(self.run_dir):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.run_dir, ignore_errors=True)
