"""A scheduler that stands by for another, on one host by a file and over hosts by etcd: streams go on with the same tokens, and a leader that
was paused past its lease is not believed."""
import asyncio
import base64
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from run import Skip
from standby import Cluster, Etcd
from stream import run_many

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fakes"))
from api_server import ApiServer


def story(i, count=150):
    return ("/v1/completions", {"prompt": f"Story {i}: once upon a time", "max_tokens": count, "temperature": 0.8, "seed": i, "stream": True,
                                "ignore_eos": True, "stream_options": {"include_usage": True}})


def begin(c):
    c.scheduler(0)
    c.wait_leader(0)
    c.scheduler(1)
    c.worker()
    c.gateway()
    c.ready()
    c.wait(lambda: "standing by" in c.log("scheduler-1"), 10, "scheduler 1 stands by")


def streams_outlive(c, act, count=8):
    """Streams during which `act()` (blocking) runs once each has its first tokens; they must be those of an undisturbed run."""
    requests = [story(i) for i in range(count)]
    if not hasattr(c, "wanted"):
        c.wanted = [r.key() for r in run_many(c.port, requests)[0]]
        assert all(key[0] == 200 for key in c.wanted), c.wanted
    wanted = c.wanted[:count]

    async def during(results):
        while not all(len(r.times) > 10 for r in results):
            await asyncio.sleep(0.01)
        return await asyncio.to_thread(act)
    results, _ = run_many(c.port, requests, during=during, timeout=90)
    assert [r.key() for r in results] == wanted, [(r.status, r.error, len(r.times)) for r in results]
    return max(b - a for r in results for a, b in zip(r.times, r.times[1:]))


def test_a_scheduler_that_stands_by_goes_on_with_the_streams():
    with Cluster("file:/tmp/" + os.urandom(8).hex()) as c:
        begin(c)

        def kill():
            c.processes["scheduler-0"].kill()
            c.wait_leader(1, 5)
        pause = streams_outlive(c, kill)
        assert pause < 5, f"the longest pause was {pause:.1f} s"
        c.scheduler(0)

        def hand_over():
            c.processes["scheduler-1"].send_signal(signal.SIGTERM)
            assert c.processes["scheduler-1"].wait(5) == 0
            c.wait(lambda: c.log("scheduler-0").count("leading") == 2, 5, "scheduler 0 leads again")
        streams_outlive(c, hand_over)
        assert "whoever stands by goes on" in c.log("scheduler-1")
        os.unlink(c.lease[5:])


def test_a_paused_leader_is_fenced_by_its_lease():
    if not shutil.which("etcd"):
        raise Skip("etcd", "etcd is not installed")
    with Etcd() as etcd, Cluster("etcd:http://127.0.0.1:9," + etcd.urls, ttl="1s") as c:  # the first address is dead
        begin(c)

        def pause():
            c.processes["scheduler-0"].send_signal(signal.SIGSTOP)
            c.wait_leader(1)
            c.processes["scheduler-0"].send_signal(signal.SIGCONT)
            assert c.processes["scheduler-0"].wait(5) == 1, "the old leader went on"
        streams_outlive(c, pause)
        epochs = [int(line.split("epoch=")[1].split()[0]) for i in (0, 1) for line in c.log(f"scheduler-{i}").splitlines() if "started epoch" in line]
        assert epochs[0] < epochs[1], epochs
        c.scheduler(0)
        c.wait(lambda: c.log("scheduler-0").count("standing by") == 1, 10, "it stands by now")

        def stop_standby():
            c.processes["scheduler-0"].send_signal(signal.SIGTERM)
            assert c.processes["scheduler-0"].wait(5) == 0
        streams_outlive(c, stop_standby, 2)


def test_etcd_may_ask_for_certificates_and_a_password():
    if not shutil.which("etcd") or not shutil.which("openssl"):
        raise Skip("etcd", "etcd or openssl is not installed")
    with Etcd(guarded=True) as etcd, Cluster("etcd:" + etcd.urls, ttl="3s") as c:
        secret = Path(f"{c.folder}/password")
        secret.write_text('tri"reme\n')
        wrong = Path(f"{c.folder}/wrong")
        wrong.write_text("another\n")
        etcd.guard("trireme", 'tri"reme', c.folder)
        known = ("--lease-ca", f"{etcd.folder}/ca.pem", "--lease-cert", f"{etcd.folder}/client.pem", "--lease-key", f"{etcd.folder}/client.key")
        login = ("--lease-user", "trireme", "--lease-password-file", secret)
        for words, says in ((login, "certificate"), ((*known[:2], *login), "certificate"), (known, "does it ask for a user?"),
                            ((*known, *login[:3], wrong), "cannot log in to etcd")):
            c.lease_words = words
            c.scheduler(0)
            c.wait(lambda: says in c.log("scheduler-0"), 30, says)
            c.processes["scheduler-0"].terminate()
            assert c.processes["scheduler-0"].wait(5) == 0, c.log("scheduler-0")
            Path(f"{c.folder}/scheduler-0.log").unlink()
        c.lease_words = (*known, *login)
        begin(c)

        def kill():
            etcd.end_logins("trireme", 'tri"reme')  # the one that stands by logs in again, else it could not lead
            c.processes["scheduler-0"].kill()
            c.wait_leader(1, 30)
        streams_outlive(c, kill, 4)


def test_a_lease_of_kubernetes_says_who_leads():
    """A killed leader, one that ends, one that was paused, a token that changed and a server that is away for a moment."""
    with tempfile.TemporaryDirectory(prefix="trm-account-") as folder, ApiServer(folder) as api, \
            Cluster(f"kubernetes:{folder}", ttl="1s", env=api.environment) as c:
        begin(c)
        (name,) = api.leases
        number = lambda: int(api.leases[name]["metadata"]["annotations"]["trireme/lease-number"])
        first, holder = number(), api.leases[name]["spec"]["holderIdentity"]
        assert holder and api.leases[name]["spec"]["leaseDurationSeconds"] == 1

        def kill():
            api.set_token("second")
            c.processes["scheduler-0"].kill()
            c.wait_leader(1, 8)
        pause = streams_outlive(c, kill)
        assert number() > first and api.leases[name]["spec"]["leaseTransitions"] == 1
        assert api.leases[name]["spec"]["holderIdentity"] != holder and 0.7 < pause < 8, pause
        c.scheduler(0)
        c.wait(lambda: "leads" in c.log("scheduler-0")[-400:], 10, "it stands by")

        def away():
            before = len(api.seen)
            api.fault = lambda method, path: 503
            c.wait(lambda: len(api.seen) > before + 3, 5, "the server is asked")
            api.fault = lambda method, path: None
            c.processes["scheduler-1"].terminate()
            assert c.processes["scheduler-1"].wait(5) == 0
            c.wait_leader(0, 5)
        streams_outlive(c, away)

        c.scheduler(1)
        c.wait(lambda: "leads" in c.log("scheduler-1")[-400:], 10, "it stands by")

        def paused():
            c.processes["scheduler-0"].send_signal(signal.SIGSTOP)
            c.wait_leader(1, 10)
            c.processes["scheduler-0"].send_signal(signal.SIGCONT)
            assert c.processes["scheduler-0"].wait(5) == 1, "the old leader went on"
        streams_outlive(c, paused)
        assert api.leases[name]["spec"]["leaseTransitions"] == 3


def epoch_of(c, i):
    c.wait(lambda: "started epoch" in c.log(f"scheduler-{i}"), 20, "it started")
    return int(c.log(f"scheduler-{i}").split("started epoch=")[-1].split()[0])


def is_of_today(epoch):
    return abs(epoch - time.time() * 1000) < 3600_000


def test_a_key_of_etcd_that_others_write():
    """A leader whose key was removed, or written by another, ends; a number that no grant has written is none."""
    if not shutil.which("etcd"):
        raise Skip("etcd", "etcd is not installed")
    text = lambda s: base64.b64encode(s.encode()).decode()
    with Etcd() as etcd, Cluster("etcd:" + etcd.urls, ttl="1s") as c:
        key = c.folder
        acts = (lambda: etcd.call("/v3/kv/deleterange", {"key": text(key)}),
                lambda: etcd.call("/v3/kv/put", {"key": text(key), "value": text("rogue 1")}))
        for act, number in zip(acts, ("18446744073709551615", "-7")):
            etcd.call("/v3/kv/put", {"key": text(key + "/number"), "value": text(number)})
            c.scheduler(0)
            c.wait_leader(0)
            assert is_of_today(epoch_of(c, 0)), c.log("scheduler-0")
            act()
            assert c.processes["scheduler-0"].wait(10) == 1, "it leads without its key"
            assert "removed or written its key" in c.log("scheduler-0")
            Path(f"{c.folder}/scheduler-0.log").unlink()
        c.scheduler(0)
        c.wait(lambda: "'rogue 1' leads" in c.log("scheduler-0"), 10, "it stands by")


def test_a_lease_of_kubernetes_that_others_write():
    """Nonsense in a Lease, a holder that is gone while somebody writes labels, and one that takes it from its leader."""
    with tempfile.TemporaryDirectory(prefix="trm-account-") as folder, ApiServer(folder) as api, \
            Cluster(f"kubernetes:{folder}", ttl="1s", env=api.environment) as c:
        c.scheduler(0)
        c.wait_leader(0)
        first = epoch_of(c, 0)
        (name,) = api.leases
        quiet = threading.Event()

        def write(**spec):
            with api.lock:
                api.version += 1
                api.leases[name]["metadata"]["resourceVersion"] = str(api.version)
                api.leases[name]["spec"].update(spec)

        write(holderIdentity="rogue", renewTime="when\u0000ever")
        assert c.processes["scheduler-0"].wait(10) == 1, "it leads though another holds the Lease"
        assert "'rogue' holds it now" in c.log("scheduler-0")

        def write_labels():
            while not quiet.wait(0.4):
                write()
        labels = threading.Thread(target=write_labels)
        labels.start()
        try:
            lease = api.leases[name]
            lease["metadata"]["annotations"]["trireme/lease-number"] = "18446744073709551615"
            write(leaseTransitions=2147483647, leaseDurationSeconds=1)
            Path(f"{c.folder}/scheduler-0.log").unlink()
            c.scheduler(0)
            c.wait_leader(0)
        finally:
            quiet.set()
            labels.join()
        assert is_of_today(epoch_of(c, 0)) and epoch_of(c, 0) > first, c.log("scheduler-0")
        assert api.leases[name]["spec"]["leaseTransitions"] == 0
