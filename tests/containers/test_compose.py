"""docker/compose.yaml brought up for real: three workers, a stream that outlives the worker's and the scheduler's kill -9, scaling, probes.

    python3 tests/containers/test_compose.py      (needs docker with compose; builds the image trireme:latest)
"""
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = f"trireme-test-{os.getpid()}"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


PORT = free_port()
ENV = dict(os.environ, PORT=str(PORT), BUILD_NETWORK=os.environ.get("BUILD_NETWORK", "host"), DOCKER_BUILDKIT="1")
FILES = ["-f", "docker/compose.yaml", "-f", "tests/containers/slow.yaml"]


def run(*words, check=True):
    done = subprocess.run(words, cwd=ROOT, env=ENV, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout.strip()


def compose(*words, files=FILES, check=True):
    return run("docker", "compose", "-p", PROJECT, *files, *words, check=check)


def address():
    """Where the gateway answers: the published port, or the container's own address where nothing can be published."""
    try:
        with socket.create_connection(("127.0.0.1", PORT), 1):
            return f"http://127.0.0.1:{PORT}"
    except OSError:
        name = compose("ps", "-q", "gateway").split()[0]
        ip = run("docker", "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", name)
        return f"http://{ip}:8000"


def ask(url, prompt, count, on_first=None):
    """The text of a streamed completion."""
    body = json.dumps({"prompt": prompt, "max_tokens": count, "stream": True, "ignore_eos": True, "temperature": 0}).encode()
    text, seen = [], 0
    with urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"}), timeout=120) as answer:
        for line in answer:
            if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                continue
            event = json.loads(line[6:])
            assert "error" not in event, event
            text.append("".join(c["text"] for c in event["choices"]))
            seen += 1
            if seen == 5 and on_first:
                on_first()
    return "".join(text)


def kill9(service):
    """kill -9 of every process of this kind: the program in the container, not its init, as a fault would."""
    for name in compose("ps", "-q", service).split():
        for line in run("docker", "top", name, "-eo", "pid,args").splitlines()[1:]:
            pid, args = line.split(None, 1)
            if f"trireme {service}" in args and "tini" not in args:
                os.kill(int(pid), signal.SIGKILL)


def wait_for(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"{what}: not within {seconds} s\n{compose('logs', '--tail', '20', check=False)}")


def replicas():
    name = compose("ps", "-q", "scheduler").split()[0]
    text = run("docker", "exec", name, "wget", "-q", "-O", "-", "http://127.0.0.1:9100/metrics")
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("trireme_scheduler_replicas_ready "))


def test_files_are_valid():
    compose("config", "-q")
    compose("config", "-q", files=["-f", "docker/compose.yaml", "-f", "docker/compose.gpu.yaml"])


def test_streams_outlive_containers():
    compose("build")
    try:
        compose("up", "-d", "--scale", "worker=3", "--wait", "--wait-timeout", "90")
        url = address()
        wait_for("three replicas", lambda: replicas() == 3)
        wanted = ask(url, "Once upon a time", 200)
        for service in ("worker", "scheduler"):
            fault = threading.Thread(target=kill9, args=(service,))
            got = ask(url, "Once upon a time", 200, on_first=fault.start)
            fault.join()
            assert got == wanted, f"the stream changed when every {service} was killed:\n{got}\n{wanted}"
        compose("up", "-d", "--scale", "worker=1", "--no-recreate")
        wait_for("one replica", lambda: replicas() == 1)
        assert ask(url, "Once upon a time", 200) == wanted
        with urllib.request.urlopen(url + "/health/e2e", timeout=10) as answer:
            assert answer.status == 200
    finally:
        compose("down", "-v", "--timeout", "5", check=False)


if __name__ == "__main__":
    failed = 0
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            began = time.monotonic()
            try:
                test()
                print(f"ok containers.{name[5:]} ({time.monotonic() - began:.0f} s)", flush=True)
            except Exception as e:  # each test is reported
                print(f"{e}", file=sys.stderr)
                print(f"not ok containers.{name[5:]}: {str(e).splitlines()[0]}", flush=True)
                failed = 1
    sys.exit(failed)
