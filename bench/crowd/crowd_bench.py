"""Crowd: what connections that are idle, stuck or slow cost a gateway, and what they cost a client that is none of it.

    ./dev bench crowd [CONNECTIONS] [SLOW]        default 1000 connections of each kind, 10000 slow readers

One `trireme gateway` with the fake scheduler of bench/gateway behind it. Of each kind so many connections are opened, and
the gateway's processor time and resident memory are read while nothing else happens. Then so many streams are read a few
bytes a second each, and a client with short requests tells how long they take, alone and beside them, in turns.
Standard library only.
"""
import http.client
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from serve import cpu_seconds, free_port, resident_bytes  # noqa: E402

BUILD = os.environ.get("BUILD_RELEASE") or str(ROOT / "build" / "release")
SMALL = 4096  # of the clients' receive buffers
LIVE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def completion(tokens, stream):
    body = b'{"prompt":"Once","max_tokens":%d,"ignore_eos":true,"stream":%s}' % (tokens, b"true" if stream else b"false")
    return (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)) + body


class Gateway:
    """The gateway and the fake scheduler behind it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="trm-", dir="/tmp")
        self.port = free_port()
        link = f"ipc://{self.folder}/s"
        fake = [f"{BUILD}/bin/gateway_fake_scheduler", "--scheduler", link, "--model-dir", str(ROOT / "demo" / "model")]
        gateway = [f"{BUILD}/bin/trireme", "gateway", "--port", str(self.port), "--scheduler", link, "--run-dir", self.folder,
                   "--cache-dir", "none", "--connections-max", "200000", "--requests-max", "100000", "--log-level", "error",
                   "--slow-client-timeout", "10m"]
        with open(f"{self.folder}/log", "wb") as log:
            self.processes = [subprocess.Popen(argv, stdout=log, stderr=log) for argv in (fake, gateway)]
        self.pid = self.processes[1].pid
        end = time.monotonic() + 30
        while self.ask(1) is None:
            if time.monotonic() > end or self.processes[1].poll() is not None:
                raise SystemExit(Path(f"{self.folder}/log").read_text())
            time.sleep(0.1)

    def ask(self, tokens):
        """Seconds of a short request; None: it was not answered."""
        began = time.monotonic()
        try:
            with socket.create_connection(("127.0.0.1", self.port), 30) as s:
                s.sendall(completion(tokens, False))
                answer = http.client.HTTPResponse(s)
                answer.begin()
                answer.read()
                return time.monotonic() - began if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            return None

    def stop(self):
        for p in self.processes:
            p.send_signal(signal.SIGKILL)
            p.wait()
        subprocess.run(["rm", "-rf", self.folder], check=False)


def connect(gateway, i):
    """From one of many addresses, since one has a share only of what is free."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
    s.bind((f"127.0.{1 + i % 50}.1", 0))
    s.connect(("127.0.0.1", gateway.port))
    return s


def silent(gateway, i):
    return connect(gateway, i)


def idle(gateway, i):
    s = connect(gateway, i)
    s.sendall(LIVE)
    s.recv(SMALL)
    return s


def half_a_head(gateway, i):
    s = connect(gateway, i)
    s.sendall(LIVE[:30])
    return s


def half_a_body(gateway, i):
    s = connect(gateway, i)
    s.sendall(completion(9, False)[:-5])
    return s


def stuck(gateway, i):
    """Pipelines until nothing more is taken, and reads nothing."""
    s = connect(gateway, i)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
    s.setblocking(False)
    waits = 0
    while waits < 3:
        try:
            s.send(LIVE * 40)
            waits = 0
        except BlockingIOError:
            waits += 1
            time.sleep(0.001)
    return s


def unread_stream(gateway, i):
    s = connect(gateway, i)
    s.sendall(completion(100000, True))
    return s


def measure(gateway, name, make, count):
    before = resident_bytes(gateway.pid)
    sockets = [make(gateway, i) for i in range(count)]
    time.sleep(1.5)
    cpu, began = cpu_seconds(gateway.pid), time.monotonic()
    time.sleep(3)
    share = (cpu_seconds(gateway.pid) - cpu) / (time.monotonic() - began) * 100
    kb = (resident_bytes(gateway.pid) - before) / 1024 / count
    print(f"  {name:14} {share:6.2f} % of a core, {share / count:8.5f} % each; {kb:6.1f} KB each", flush=True)
    for s in sockets:
        s.close()
    time.sleep(1)


class SlowReaders:
    """Streams of which each is read a little once a second, by a process of its own: the good client does not wait for it."""

    def __init__(self, gateway, count):
        fork = multiprocessing.get_context("fork")
        self.sockets = [unread_stream(gateway, i) for i in range(count)]
        self.ends, self.lost, self.bytes = fork.Event(), fork.Value("q", 0), fork.Value("q", 0)
        self.reader = fork.Process(target=self.read)
        self.reader.start()

    def read(self):
        for s in self.sockets:
            s.setblocking(False)
        while not self.ends.is_set():
            began = time.monotonic()
            for s in self.sockets:
                try:
                    piece = s.recv(256)
                    self.bytes.value += len(piece)
                    self.lost.value += not piece
                except BlockingIOError:
                    pass
                except OSError:
                    self.lost.value += 1
            self.ends.wait(max(0.0, 1 - (time.monotonic() - began)))

    def stop(self):
        self.ends.set()
        self.reader.join()
        for s in self.sockets:
            s.close()


def percentiles(times):
    times = sorted(times)
    return times[len(times) // 2] * 1000, times[min(len(times) - 1, len(times) * 99 // 100)] * 1000


def settle(gateway):
    """Until what the crowd has opened is under way: the streams' first pieces are made at once, and are another matter."""
    for _ in range(30):
        cpu = cpu_seconds(gateway.pid)
        time.sleep(2)
        if cpu_seconds(gateway.pid) - cpu < 0.2:
            return


def slow_readers(gateway, count, rounds):
    before, alone, beside = resident_bytes(gateway.pid), [], []
    crowd = None
    for _ in range(rounds):
        alone += [gateway.ask(8) for _ in range(200)]
        crowd = SlowReaders(gateway, count)
        settle(gateway)
        beside += [gateway.ask(8) for _ in range(200)]
        kb = (resident_bytes(gateway.pid) - before) / 1024 / count
        cpu, began = cpu_seconds(gateway.pid), time.monotonic()
        time.sleep(2)
        share = (cpu_seconds(gateway.pid) - cpu) / (time.monotonic() - began) * 100
        lost, read = crowd.lost.value, crowd.bytes.value
        crowd.stop()
        time.sleep(2)
        print(f"  {count} slow readers: {kb:.1f} KB each, {share:.1f} % of a core for all, {read} bytes read, {lost} lost", flush=True)
    refused = sum(t is None for t in alone + beside)
    if refused:
        raise SystemExit(f"{refused} requests of the good client were not answered")
    (a50, a99), (b50, b99) = percentiles(alone), percentiles(beside)
    print(f"  a good client's request, ms: p50 {a50:.2f} alone, {b50:.2f} beside them; p99 {a99:.2f} alone, {b99:.2f} beside them")


def main(argv):
    quick = bool(os.environ.get("TRIREME_BENCH_QUICK"))
    count = int(argv[0]) if argv else 20 if quick else 1000
    slow = int(argv[1]) if argv[1:] else 50 if quick else 10000
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gateway = Gateway()
    try:
        print(f"{count} connections of each kind:")
        for make in (silent, idle, half_a_head, half_a_body, stuck, unread_stream):
            measure(gateway, make.__name__.replace("_", " "), make, count)
        slow_readers(gateway, slow, 1 if quick else 3)
    finally:
        gateway.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
