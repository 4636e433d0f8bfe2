"""bench/flagship: streams of two models while the whole of a small fleet is broken and renewed beneath them. Two hosts in network namespaces of their
own, each with a scheduler and a worker of each model; etcd of three members and two gateways beside them. Each round draws one fault, with the seed:

    kill, stop, hand over   of the scheduler that leads: the one on the other host goes on
    cut                     of the leader's host from all others
    kill worker, stop worker   of one of the models
    kill etcd               one member, once; after that it is a kill of the leader
    upgrade                 a worker, a gateway and the scheduler that leads are replaced by another version's (every second time back again)

Every stream of a round must be what it was without a fault, byte by byte.

    ./dev bench flagship [--rounds 200] [--seed 1] [--faults 'cut,upgrade,...']

It needs etcd, iproute2 and the right to make network namespaces (root); without them it ends with 77. One run at a time on a machine.
"""
import argparse
import asyncio
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from run import Skip  # noqa: E402
from serve import bundled_model, free_port  # noqa: E402
from standby import Cluster, Etcd, Host  # noqa: E402
from stream import run_many  # noqa: E402
from test_hosts import leader_of, two_hosts  # noqa: E402
from test_standby import story  # noqa: E402
from test_upgrade import other_version  # noqa: E402
from tiny_models import put_whole_norm  # noqa: E402

STREAMS = 8


class Fleet(Cluster):
    """Two schedulers, a worker of each model on each host, two gateways behind one port."""

    def begin(self, models):
        self.models, self.workers, self.gateways, self.count = models, [], [], 0
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        for i in (0, 1):
            self.scheduler(i)
        for host in (0, 1):
            for model in models:
                self.add_worker(model, host)
        for _ in range(2):
            self.add_gateway()
        self.wait(lambda: self.leads(0) or self.leads(1), 20, "one leads")
        for model in models:
            self.wait(lambda: self.get(f"{self.url}/health/ready?model={model}")[0] == 200, 30, f"{model} is ready")

    def add(self, name, host, role, *words):
        self.count += 1
        name = f"{name}-{self.count}"
        self.start(name, host, role, *words)
        said = "state=ready" if role == "worker" else "model bundle compiled"
        self.wait(lambda: said in self.log(name), 30, f"{name} is there")
        return name

    def add_worker(self, model, host):
        name = self.add(f"worker-{model}", self.hosts[host], "worker", "--model", self.models[model], "--served-model-name", model, "--connect",
                        self.addresses, "--threads", 1, "--min-step-ms", 10)
        self.workers.append((name, model, host))

    def add_gateway(self):
        self.gateways.append(self.add("gateway", Host(), "gateway", "--host", "127.0.0.1", "--port", self.port, "--share-port", "--scheduler",
                                      self.addresses, "--allow-hosts", "*", "--cache-dir", f"{self.folder}/cache", "--drain-timeout", "60s"))

    def end(self, name):
        self.processes[name].terminate()
        assert self.processes[name].wait(70) == 0, f"{name} ended with {self.processes[name].returncode}"

    def change_leader(self, how):
        """The leader is struck, the other one leads, and the first one stands by again."""
        led = leader_of(self)
        p, host = self.processes[f"scheduler-{led}"], self.hosts[led]
        before = self.log(f"scheduler-{1 - led}").count("leading")
        {"kill": p.kill, "hand over": p.terminate, "stop": lambda: p.send_signal(signal.SIGSTOP), "cut": host.cut}[how]()
        self.wait(lambda: self.log(f"scheduler-{1 - led}").count("leading") > before, 30, f"the other leads after {how}")
        if how == "stop":
            p.send_signal(signal.SIGCONT)
        if how == "cut":
            self.wait(lambda: p.poll() is not None, 20, "who was cut off ends")
            host.cut(False)
        p.wait(20)
        self.stand_by()

    def stand_by(self):
        """Schedulers that have ended are started again, as by a supervisor: one that lost its lease ends by itself."""
        for i in (0, 1):
            if self.processes[f"scheduler-{i}"].poll() is None:
                continue
            stands = self.log(f"scheduler-{i}").count("standing by")
            self.scheduler(i)
            self.wait(lambda: self.log(f"scheduler-{i}").count("standing by") > stands, 20, "it stands by")

    def strike_worker(self, how, rng):
        name, model, host = struck = rng.choice(self.workers)
        p = self.processes[name]
        if how == "stop":
            p.send_signal(signal.SIGSTOP)
            time.sleep(5)
            p.send_signal(signal.SIGCONT)
            return
        p.kill()
        p.wait()
        self.workers.remove(struck)
        self.add_worker(model, host)

    def upgrade(self, other):
        """Each process of one kind by one of the other version, the new one beside the old one first."""
        self.programs = {} if self.programs else {role: other for role in ("worker", "scheduler", "gateway")}
        for old in list(self.workers):
            self.add_worker(*old[1:])
            self.end(old[0])
            self.workers.remove(old)
        self.change_leader("hand over")
        for old in list(self.gateways):
            self.add_gateway()
            self.end(old)
            self.gateways.remove(old)


FAULTS = ["kill", "stop", "hand over", "cut", "kill worker", "stop worker", "kill etcd", "upgrade"]


def strike(c, etcd, name, rng, other):
    if name == "upgrade":
        c.upgrade(other)
    elif name.endswith(" worker"):
        c.strike_worker(name.split()[0], rng)
    elif name == "kill etcd" and etcd.processes[0].poll() is None:
        etcd.kill(0)
        time.sleep(5)  # a leader whose lease it held may lose it
        c.stand_by()
    else:
        c.change_leader("kill" if name == "kill etcd" else name)


def one_round(c, etcd, name, rng, other, requests, wanted):
    """(streams that are not what they should be, longest silence)."""
    async def during(results):
        while not all(len(r.times) > 10 for r in results):
            await asyncio.sleep(0.02)
        await asyncio.to_thread(strike, c, etcd, name, rng, other)
    results, _ = run_many(c.port, requests, during=during, timeout=180)
    lost = [(i, r.status, r.error, len(r.times)) for i, (r, w) in enumerate(zip(results, wanted)) if r.key() != w]
    return lost, max((b - a for r in results for a, b in zip(r.times, r.times[1:])), default=0)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--faults", default="", help="comma list of names; default all")
    a = options.parse_args()
    names = [n for n in FAULTS if not a.faults or n in a.faults.split(",")]
    if os.environ.get("TRIREME_BENCH_QUICK"):
        a.rounds, names = 1, names[:1]
    if not shutil.which("etcd") or not shutil.which("ip"):
        raise Skip("etcd", "etcd or iproute2 is not installed")
    rng, told, lost, began = random.Random(a.seed), {n: [] for n in names}, 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="trm-flagship-") as folder, two_hosts() as (bridge, hosts), Etcd(3, bridge.address) as etcd:
        os.mkdir(f"{folder}/tiny")
        put_whole_norm(f"{folder}/tiny")
        other, version = other_version(folder)
        with Fleet("etcd:" + etcd.urls, hosts=hosts, ttl="2s") as c:
            c.begin({"demo": bundled_model(), "tiny": f"{folder}/tiny"})
            requests = [(path, dict(body, model="demo" if i % 2 else "tiny")) for i in range(STREAMS) for path, body in [story(i, 200)]]
            wanted = [r.key() for r in run_many(c.port, requests)[0]]
            assert all(key[0] == 200 for key in wanted), wanted
            order = []
            for n in range(a.rounds):
                order = order or rng.sample(names, len(names))  # each as often as the others
                name = order.pop()
                bad, gap = one_round(c, etcd, name, rng, other, requests, wanted)
                told[name].append(gap)
                lost += len(bad)
                print(f"round {n + 1} '{name}': {len(bad)} lost, longest silence {gap:.1f} s {bad[:3] if bad else ''}".rstrip(), flush=True)
    print(f"{a.rounds} rounds of {STREAMS} streams of two models, seed {a.seed}, other version {version}: {lost} lost, {time.monotonic() - began:.0f} s")
    print(f"{'fault':12} {'rounds':>6} {'longest silence s':>18}")
    for name in names:
        print(f"{name:12} {len(told[name]):6} {max(told[name], default=0):18.1f}")
    return 1 if lost else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Skip as missing:
        print(missing)
        sys.exit(77)
