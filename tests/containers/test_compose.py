"""docker/compose.yaml brought up for real: three workers, a stream that outlives the worker's and the scheduler's kill -9, scaling, probes.

    python3 tests/containers/test_compose.py      (needs docker with compose; builds the image trireme:latest)
"""
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
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
        name = compose("ps", "-q", "front").split()[0]
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


def told(metric):
    name = compose("ps", "-q", "scheduler").split()[0]
    text = run("docker", "exec", name, "wget", "-q", "-O", "-", "http://127.0.0.1:9100/metrics")
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(metric + " "))


def replicas():
    return told("trireme_scheduler_replicas_ready")


def services(*profile):
    return set(compose(*profile, "config", "--services").split())


def test_files_are_valid():
    compose("config", "-q")
    assert services() == {"keys", "scheduler", "front", "gateway", "worker"} == services("--profile", "cpu")
    assert services("--profile", "gpu") == {"keys", "scheduler", "front", "gateway", "worker-gpu"}
    of_gpu = json.loads(compose("--profile", "gpu", "config", "--format", "json"))["services"]["worker-gpu"]
    assert of_gpu["build"]["target"] == "cuda" and of_gpu["deploy"]["resources"]["reservations"]["devices"][0]["driver"] == "nvidia"
    secrets = ["-f", "docker/compose.yaml", "-f", "docker/compose.secrets.yaml"]
    refused = compose("config", "-q", files=secrets, check=False)  # names whichever it came to first
    assert any(f"{name}_FILE is missing" in refused for name in ("API_KEYS", "TLS_CERT", "TLS_KEY")), "secrets without files were taken"
    ENV.update(API_KEYS_FILE="/dev/null", TLS_CERT_FILE="/dev/null", TLS_KEY_FILE="/dev/null")
    compose("config", "-q", files=secrets)


def answered_by():
    """The gateways that have written a line of a request."""
    names = compose("ps", "-q", "gateway").split()
    return {name for name in names if " path=/v1/completions " in run("docker", "logs", name)}


def containers_are_closed():
    """Nobody writes to the image, no process is root's or may become it, and the cache in the volume is written."""
    for service in ("scheduler", "worker", "front", "gateway"):
        name = compose("ps", "-q", service).split()[0]
        touch = run("docker", "exec", name, "/bin/sh", "-c", "echo x > /home/x; cat /proc/1/status", check=False)
        assert "Read-only file system" in touch, touch
        assert re.search(r"^Uid:\s+10001\s+10001", touch, re.M) and re.search(r"^CapBnd:\s+0+$", touch, re.M) and re.search(r"^NoNewPrivs:\s+1$", touch, re.M), touch
    kept = run("docker", "exec", compose("ps", "-q", "gateway").split()[0], "ls", "/home/trireme/.cache/trireme")
    assert kept, "nothing was kept in the cache"


def gateways_share_the_port(url, wanted):
    compose("up", "-d", "--scale", "gateway=3", "--scale", "worker=1", "--no-recreate")
    wait_for("three gateways", lambda: told("trireme_scheduler_gateways") == 3)
    wait_for("answers of all three", lambda: ask(url, "Once", 2) is not None and len(answered_by()) == 3, 60)
    first = sorted(answered_by())[0]
    streams, got = [], []
    for _ in range(12):  # some on each
        streams.append(threading.Thread(target=lambda: got.append(ask(url, "Once upon a time", 200))))
        streams[-1].start()
    time.sleep(2)
    run("docker", "stop", first)  # its streams go on to their end
    for s in streams:
        s.join()
    assert got == [wanted] * 12, f"{sum(g != wanted for g in got)} of {len(got)} streams were cut when a gateway was stopped"
    assert ask(url, "Once upon a time", 200) == wanted


def has_secrets(url):
    """Keys and a certificate by files."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        files = {"API_KEYS_FILE": f"{folder}/keys", "TLS_CERT_FILE": f"{folder}/cert.pem", "TLS_KEY_FILE": f"{folder}/key.pem"}
        Path(files["API_KEYS_FILE"]).write_text("secret name=one\n")
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=x",
            "-keyout", files["TLS_KEY_FILE"], "-out", files["TLS_CERT_FILE"])
        for path in files.values():
            os.chmod(path, 0o644)
        ENV.update(files)
        compose("up", "-d", "--no-build", "--scale", "worker=1", "--scale", "gateway=1", files=[*FILES, "-f", "docker/compose.secrets.yaml"])
        context = ssl.create_default_context(cafile=files["TLS_CERT_FILE"])
        context.check_hostname = False

        def status(key):
            request = urllib.request.Request(url.replace("http:", "https:") + "/v1/models", headers={"Authorization": f"Bearer {key}"} if key else {})
            try:
                return urllib.request.urlopen(request, timeout=5, context=context).status
            except urllib.error.HTTPError as e:
                return e.code
        wait_for("an answer to who has the key", lambda: status("secret") == 200)
        assert status(None) == 401 and status("other") == 401


def test_streams_outlive_containers():
    if not os.environ.get("TRIREME_IMAGE_BUILT"):  # trireme:latest is there
        compose("build")
    try:
        compose("up", "-d", "--scale", "worker=3")  # --wait takes a service that has done its work for one that failed
        wait_for("the gateway", lambda: urllib.request.urlopen(address() + "/health/ready", timeout=2).status == 200, 90)
        url = address()
        containers_are_closed()
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
        gateways_share_the_port(url, wanted)
        has_secrets(url)
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
