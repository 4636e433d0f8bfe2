"""Trust on the wire with the real program: keys on tcp, made and given by hand; a killed scheduler and a change of every key under
running streams; who is refused, and with which words."""
import asyncio
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from pathlib import Path

from serve import Serve, binary, bundled_model, fd_count, free_port
from stream import Result, request, run_many

ROLES = ["gateway", "worker", "supervisor", "scheduler"]


def story(i, count=220):
    return ("/v1/completions", {"prompt": f"Story {i}: once upon a time", "max_tokens": count, "temperature": 0.8, "seed": i, "stream": True,
                                "ignore_eos": True, "stream_options": {"include_usage": True}})


def keygen(*words):
    return subprocess.run([binary(), "keygen", *map(str, words)], capture_output=True, text=True, timeout=20)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_keygen_makes_private_files():
    with tempfile.TemporaryDirectory(prefix="trm-") as folder:
        done = keygen("gateway", "--out", f"{folder}/g.key", "--allow", f"{folder}/allow", "--name", "front-1")
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(r"gateway [0-9a-f]{64} front-1\n", done.stdout), done.stdout
        assert mode(f"{folder}/g.key") == 0o600
        assert done.stdout in Path(f"{folder}/allow").read_text()
        assert done.stdout.split()[1] in Path(f"{folder}/g.key").read_text()
        again = keygen("gateway", "--out", f"{folder}/g.key")
        assert again.returncode == 1 and "is there already" in again.stderr, again.stderr
        assert done.stdout.split()[1] in Path(f"{folder}/g.key").read_text(), "a key was written over"
        for words, says in [(("admin", "--out", f"{folder}/x"), "which role?"), (("worker",), "--out FILE"),
                            (("worker", "--out", f"{folder}/x", "--name", "a b"), "no blanks")]:
            bad = keygen(*words)
            assert bad.returncode and says in bad.stderr, bad.stderr
        done = keygen("all", "--out", f"{folder}/keys")
        assert sorted(os.listdir(f"{folder}/keys")) == sorted([f"{r}.key" for r in ROLES] + ["allow"])
        assert mode(f"{folder}/keys") == 0o700
        assert [line.split()[0] for line in done.stdout.splitlines()] == ROLES
        assert keygen("all", "--out", f"{folder}/keys").stdout == done.stdout, "the second time it keeps what is there"


def refused(*words, says):
    done = subprocess.run([binary(), *map(str, words)], capture_output=True, text=True, timeout=30)
    assert done.returncode, f"{words[0]} started"
    assert says in done.stderr, done.stderr


def test_tcp_without_good_keys_is_refused_with_what_to_type():
    with tempfile.TemporaryDirectory(prefix="trm-") as folder:
        there, run_dir = f"tcp://127.0.0.1:{free_port()}", ("--run-dir", folder)
        commands = {"scheduler": ("scheduler", "--listen", there, *run_dir), "gateway": ("gateway", "--port", 0, "--scheduler", there),
                    "worker": ("worker", "--model", bundled_model(), "--connect", there)}
        assert keygen("all", "--out", f"{folder}/keys").returncode == 0
        for role, words in commands.items():
            refused(*words, says="trireme keygen all --out DIR")
            refused(*words, says=f"--key-file DIR/{role}.key --allow-keys DIR/allow")
            key = ("--key-file", f"{folder}/keys/supervisor.key", "--allow-keys", f"{folder}/keys/allow")
            refused(*words, *key, says=f"is a supervisor's key, not a {role}'s")
            key = ("--key-file", f"{folder}/keys/{role}.key", "--allow-keys", f"{folder}/keys/allow")
            os.chmod(f"{folder}/keys/{role}.key", 0o644)
            refused(*words, *key, says="may be read by others (mode 0644); chmod 600 it")
            os.chmod(f"{folder}/keys/{role}.key", 0o600)
            refused(*words, "--insecure-listen", says="insecure-listen")


def replace_key(keys, role, name):
    """A second key of the role, allowed beside the first; then the first leaves. What an operator does."""
    old = Path(f"{keys}/{role}.key").read_text().split("public ")[1].split()[0]
    assert keygen(role, "--out", f"{keys}/{role}.new", "--allow", f"{keys}/allow", "--name", name).returncode == 0
    os.replace(f"{keys}/{role}.new", f"{keys}/{role}.key")
    lines = [line for line in Path(f"{keys}/allow").read_text().splitlines(True) if old not in line]
    Path(f"{keys}/allow.new").write_text("".join(lines))
    os.replace(f"{keys}/allow.new", f"{keys}/allow")


def test_streams_outlive_the_scheduler_and_the_change_of_every_key():
    requests = [story(i) for i in range(16)]
    with Serve(tcp=True, args=["--min-step-ms", 25]) as s:
        keys = f"{s.run_dir}/keys"
        assert sorted(os.listdir(keys)) == sorted([f"{r}.key" for r in ROLES] + ["allow"])
        assert mode(keys) == 0o700 and all(mode(f"{keys}/{r}.key") == 0o600 for r in ROLES)
        wanted = [r.key() for r in run_many(s.port, requests)[0]]
        registered = lambda: s.metrics("scheduler")["trireme_scheduler_registrations_total"]

        async def main():
            results = [Result(body) for _, body in requests]
            tasks = [asyncio.create_task(request(s.port, path, body, results[i])) for i, (path, body) in enumerate(requests)]
            while not all(r.times for r in results):
                await asyncio.sleep(0.01)
            for role in ("gateway", "worker", "supervisor"):
                before = registered()
                replace_key(keys, role, f"{role}-2")
                for _ in range(800):
                    if registered() > before:
                        break
                    await asyncio.sleep(0.01)
                else:
                    raise AssertionError(f"the {role} did not come again with its new key")
            open_now = sum(1 for r in results if r.ended is None)
            replace_key(keys, "scheduler", "scheduler-2")
            os.kill(s.pids("scheduler")[0], signal.SIGKILL)
            await asyncio.gather(*tasks)
            return results, open_now
        results, open_now = asyncio.run(main())
        assert open_now, "all streams had ended before the scheduler was killed"
        wrong = [i for i, r in enumerate(results) if r.key() != wanted[i]]
        assert not wrong, f"streams {wrong} differ: {results[wrong[0]].error}"
        return f"{open_now} of 16 streams saw all four changes"


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)  # ZMTP 3.1, as a client
STRANGERS = [b"", GREETING, b"GET / HTTP/1.1\r\n\r\n" * 20, GREETING + b"\x04\xc8\x05HELLO" + bytes(range(194)),
             GREETING.replace(b"CURVE", b"NULL\0") + b"\x04\x19\x05READY\x0bSocket-Type" + bytes(8)]


def test_strangers_on_tcp_hold_nobody_up():
    """Silent ones, half of a handshake, another protocol, a forged and a keyless one, a hundred each: streams run on, a killed worker comes back."""
    stories = [story(i, 120) for i in range(4)]
    with Serve(tcp=True, args=["--min-step-ms", 10]) as s:
        port = int(s.argv[s.argv.index("--listen") + 1].rsplit(":", 1)[1])
        calm = [r.key() for r in run_many(s.port, stories)[0]]
        scheduler, before = s.pids("scheduler"), fd_count(s.pids("scheduler")[0])
        there = []

        def come():
            for i in range(500):
                with contextlib.suppress(OSError):  # some are sent away at once
                    there.append(socket.create_connection(("127.0.0.1", port), 10))
                    there[-1].sendall(STRANGERS[i % len(STRANGERS)])

        async def attack(results):
            await asyncio.to_thread(come)
            os.kill(s.pids("worker")[0], signal.SIGKILL)

        try:
            results, _ = run_many(s.port, stories, during=attack, timeout=60)
            assert [r.key() for r in results] == calm
            assert s.pids("scheduler") == scheduler and len(there) > 300
        finally:
            for stranger in there:
                stranger.close()
        s.wait(lambda: fd_count(scheduler[0]) <= before + 4, 40, "their connections are given back")


def test_processes_started_by_hand_with_keys_of_their_own():
    """Two gateways with a key each; one leaves the list: it hears nothing more, the other goes on."""
    folder = tempfile.mkdtemp(prefix="trm-", dir="/tmp")
    children, ports = [], [free_port(), free_port()]
    there = f"tcp://127.0.0.1:{free_port()}"
    with open(f"{folder}/log", "wb") as log:
        def start(name, *words):
            key = ("--key-file", f"{folder}/{name}.key", "--allow-keys", f"{folder}/allow")
            children.append(subprocess.Popen([binary(), *map(str, words), *key], stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        s = Serve()
        shutil.rmtree(s.run_dir)
        s.run_dir = folder
        try:
            for name in ("scheduler", "worker", "gateway-0", "gateway-1"):
                assert keygen(name.split("-")[0], "--out", f"{folder}/{name}.key", "--allow", f"{folder}/allow", "--name", name).returncode == 0
            start("scheduler", "scheduler", "--listen", there, "--run-dir", folder)
            start("worker", "worker", "--model", bundled_model(), "--connect", there, "--threads", 2)
            for i, port in enumerate(ports):
                start(f"gateway-{i}", "gateway", "--host", "127.0.0.1", "--port", port, "--scheduler", there)
            say = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
            for port in ports:
                s.wait(lambda: s.get("/health/ready", port=port)[0] == 200, 60, "ready")
                assert s.post("/v1/completions", say, port=port)[0] == 200
            lines = Path(f"{folder}/allow").read_text().splitlines(True)
            Path(f"{folder}/allow").write_text("".join(line for line in lines if "gateway-0" not in line))
            s.wait(lambda: s.get("/health/ready", port=ports[0])[0] == 503, 10, "the one without a key lost its scheduler")
            status, answer, _ = s.post("/v1/completions", say, port=ports[1])
            assert status == 200, answer
            said = Path(f"{folder}/log").read_text()
            assert "its key is not allowed now" in said, said[-2000:]
        finally:
            for child in children:
                child.kill()
                child.wait()
            shutil.rmtree(folder, ignore_errors=True)


def test_keys_of_clients_are_read_again():
    """By SIGHUP to the supervisor, and without it; a wrong file changes nothing, and a stream outlives its key."""
    story = {"prompt": "Once upon a time", "max_tokens": 300, "ignore_eos": True, "stream": True}
    with tempfile.TemporaryDirectory(prefix="trm-") as folder:
        path = f"{folder}/clients"

        def write(text):
            Path(f"{path}.new").write_text(text)
            os.replace(f"{path}.new", path)

        def status(s, key):
            return s.get("/v1/models", headers={"Authorization": f"Bearer {key}"})[0]
        write("first\n")
        with Serve(gateways=2, args=["--api-key-file", path, "--threads", 1, "--min-step-ms", 5]) as s:
            told = lambda line, count: s.wait(lambda: s.log().count(line) >= count, 30, f"{count} of '{line}'")
            connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
            connection.request("POST", "/v1/completions", json.dumps(story), {"Content-Type": "application/json", "Authorization": "Bearer first"})
            answer = connection.getresponse()
            assert answer.status == 200 and status(s, "second") == 401
            write("second\n")
            os.kill(s.supervisor_pid(), signal.SIGHUP)
            told("requests have the API keys as they are now count=1", 2)
            assert {status(s, "second") for _ in range(8)} == {200} and {status(s, "first") for _ in range(8)} == {401}
            assert b"[DONE]" in answer.read()
            write("# nobody\n")
            os.kill(s.supervisor_pid(), signal.SIGHUP)
            told(f"the API keys of before stay: no API key in '{path}'", 2)
            assert status(s, "second") == 200
            write("second\nthird\n")
            told("requests have the API keys as they are now count=2", 2)
            assert {status(s, "third") for _ in range(8)} == {200}
