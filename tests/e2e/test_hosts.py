"""Two hosts, each with a scheduler and a worker, in network namespaces of their own; etcd of three members beside them. The way to the
leader is cut, a member of etcd is killed, a leader wakes late: streams of both gateways go on with the same tokens. Long: --long runs it."""
import asyncio
import contextlib
import os
import random
import shutil
import subprocess

from run import Skip
from standby import Bridge, Cluster, Etcd, Host
from stream import run_many
from test_standby import story

ROUNDS = int(os.environ.get("HOSTS_ROUNDS", "8"))
STREAMS = 8


@contextlib.contextmanager
def two_hosts():
    try:
        bridge = Bridge().__enter__()
    except (OSError, subprocess.CalledProcessError) as e:
        raise Skip("netns", f"no bridge can be made: {e}") from e
    hosts = []
    try:
        hosts += [Host("trm-a", 0)]
        hosts += [Host("trm-b", 1)]
        yield bridge, hosts
    finally:
        for host in hosts:
            host.remove()
        bridge.__exit__()


def leader_of(c):
    return 0 if c.leads(0) and c.processes["scheduler-0"].poll() is None else 1


def test_streams_outlive_partitions_of_hosts():
    if not shutil.which("etcd") or not shutil.which("ip"):
        raise Skip("etcd", "etcd or iproute2 is not installed")
    draw = random.Random(int(os.environ.get("TRIREME_TEST_SEED", "1")))
    with two_hosts() as (bridge, hosts), Etcd(3, bridge.address) as etcd:
        with Cluster("etcd:" + etcd.urls, hosts=hosts, ttl="2s") as c:
            for i in (0, 1):
                c.scheduler(i)
                c.worker(i, c.hosts[i])
            c.gateway()  # beside them: with its host a stream's client would be lost
            c.wait(lambda: c.leads(0) or c.leads(1), 20, "one leads")
            c.wait(lambda: c.get(c.url + "/health/ready")[0] == 200, 30, "ready")
            requests = [story(i, 300) for i in range(STREAMS)]
            wanted = [r.key() for r in run_many(c.port, requests)[0]]
            assert all(key[0] == 200 for key in wanted), wanted
            told = []
            for round_ in range(ROUNDS):
                kind = draw.choice(["kill", "pause", "cut", "hand over"]) if round_ >= 4 else ["cut", "pause", "kill", "hand over"][round_]
                if round_ == 2:
                    etcd.kill(0)
                led = leader_of(c)

                def act():
                    p, host = c.processes[f"scheduler-{led}"], c.hosts[led]
                    leads_now = c.log(f"scheduler-{1 - led}").count("leading")
                    if kind == "kill":
                        p.kill()
                    elif kind == "hand over":
                        p.terminate()
                    elif kind == "pause":
                        p.send_signal(19)
                    else:
                        host.cut()
                    c.wait(lambda: c.log(f"scheduler-{1 - led}").count("leading") > leads_now, 30, f"the other leads after {kind}")
                    if kind == "pause":
                        p.send_signal(18)
                    if kind == "cut":
                        c.wait(lambda: p.poll() is not None, 10, "who was cut off ends")
                        host.cut(False)
                    p.wait(10)
                    c.scheduler(led)

                async def during(results):
                    while not all(len(r.times) > 10 for r in results):
                        await asyncio.sleep(0.02)
                    await asyncio.to_thread(act)
                results, _ = run_many(c.port, requests, during=during, timeout=120)
                assert [r.key() for r in results] == wanted, (round_, kind, [(r.status, r.error, len(r.times)) for r in results])
                told.append(f"{kind} {max(y - x for r in results for x, y in zip(r.times, r.times[1:])):.1f} s")
                c.wait(lambda: c.log(f"scheduler-{led}").rstrip().endswith("leads") or "standing by" in c.log(f"scheduler-{led}"), 10, "it stands by")
            return "longest pauses: " + ", ".join(told)
