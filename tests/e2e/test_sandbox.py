"""Every process gives up what it does not need, and what follows still works: links that are made again, over ipc and over tcp."""
import os
import signal

from serve import Serve

ROLES = ("gateway", "scheduler", "worker")


def status_of(pid, field):
    with open(f"/proc/{pid}/status") as lines:
        return next((int(line.split()[1]) for line in lines if line.startswith(field + ":")), None)


def filters(server):
    return {role: (status_of(pid, "NoNewPrivs"), status_of(pid, "Seccomp")) for role in ROLES for pid in server.pids(role)}


def answers(server):
    status, *rest = server.post("/v1/completions", {"prompt": "Once", "max_tokens": 3, "temperature": 0})
    assert status == 200, rest


def survives_a_scheduler(server):
    """Its successor listens where it did, and everybody makes a new socket to reach it."""
    answers(server)
    before = server.pids("scheduler")
    os.kill(before[0], signal.SIGKILL)
    server.wait(lambda: server.pids("scheduler") not in ([], before), 15, "the scheduler was replaced")
    server.wait(lambda: server.get("/health/ready")[0] == 200, 30, "ready again")
    answers(server)


def test_every_process_is_in_its_sandbox():
    with Serve() as s:
        seen = filters(s)
        assert len(seen) == len(ROLES), seen
        if status_of("self", "Seccomp") is not None:  # else the log says that there is none
            assert all(found == (1, 2) for found in seen.values()), seen
        survives_a_scheduler(s)


def test_sandbox_lets_tcp_links_come_back():
    with Serve(tcp=True) as s:
        survives_a_scheduler(s)


def test_sandbox_can_be_left_out():
    with Serve(args=["--sandbox=off"]) as s:
        own = status_of("self", "NoNewPrivs"), status_of("self", "Seccomp")
        assert all(found == own for found in filters(s).values()), filters(s)
        answers(s)
