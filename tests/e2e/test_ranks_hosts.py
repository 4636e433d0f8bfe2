"""The ranks of one replica on several hosts, begun one by one as docs/operating.md says: they meet over tcp and make the same bytes as ranks
that share memory; one is killed, or (LONG=1, in network namespaces) the way to it is cut: every stream goes on with the same tokens."""
import asyncio
import contextlib
import os
import secrets
import socket
import subprocess

from run import Skip
from serve import binary, bundled_model, free_port
from standby import Bridge, Cluster, Host
from stream import run_many
from test_ranks import bodies, keys, same, serve

TP, PP = 2, 2


class Ranks(Cluster):
    """One replica of TP x PP ranks; the first rank of each stage is on hosts[0], the second on hosts[1]."""

    def __init__(self, hosts=None):
        super().__init__(None, hosts=hosts)
        self.replica, self.meet = f"replica-{secrets.token_hex(4)}", free_port()

    def scheduler(self, i=0):
        host = self.hosts[i]
        return self.start("scheduler-0", host, "scheduler", "--listen", f"tcp://{host.address}:{self.ports[i]}", "--run-dir", f"{self.folder}/run-0")

    def rank(self, rank, stage):
        host = self.hosts[rank]
        listen = ("--comm-listen", f"{host.address}:{self.meet}") if (rank, stage) == (0, 0) else ()
        return self.start(f"rank-{rank}-{stage}", host, "worker", "--model", bundled_model(), "--connect",
                          f"tcp://{self.hosts[0].address}:{self.ports[0]}", "--threads", 1, "--slots", 32, "--comm-form-timeout", "5s", "--tp", TP,
                          "--pp", PP, "--rank", stage * TP + rank, "--replica", self.replica, *listen)

    def begin(self):
        self.addresses = f"tcp://{self.hosts[0].address}:{self.ports[0]}"
        self.scheduler()
        for stage in range(PP):
            for rank in range(TP):
                self.rank(rank, stage)
        self.gateway()
        self.ready()
        assert "have met, by messages between hosts" in self.log("rank-0-0"), self.log("rank-0-0")[-800:]

    def disturbed(self, requests, act):
        """The streams' keys, act() having run once each of them had a few tokens."""
        async def during(results):
            while not all(len(r.times) > 3 for r in results):
                await asyncio.sleep(0.02)
            await asyncio.to_thread(act)
        return keys(run_many(self.port, requests, during=during, timeout=120)[0])


def by_shared_memory(requests):
    with serve(TP, PP) as s:
        return keys(run_many(s.port, requests)[0])


def killed_and_begun_again(c, rank, stage):
    def act():
        p = c.processes[f"rank-{rank}-{stage}"]
        p.kill()
        p.wait()
        c.rank(rank, stage)
    return act


def test_ranks_of_several_hosts_make_the_bytes_of_one():
    requests = bodies()
    wanted = by_shared_memory(requests)
    with Ranks() as c:
        c.begin()
        same(keys(run_many(c.port, requests)[0]), wanted, "undisturbed")
        same(c.disturbed(requests, killed_and_begun_again(c, 1, 1)), wanted, "a rank was killed")


def test_a_rank_that_cannot_listen_says_so():
    def refused(place):
        argv = [binary(), "worker", "--model", bundled_model(), "--connect", f"tcp://127.0.0.1:{free_port()}", "--key-file", f"{c.keys}/worker.key",
                "--allow-keys", f"{c.keys}/allow", "--threads", "1", "--tp", "2", "--replica", c.replica, "--comm-listen", place]
        p = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert p.returncode, place
        return p.stderr

    with Ranks() as c, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = "127.0.0.1:%d" % taken.getsockname()[1]
        said = refused(place)
        assert f"--comm-listen: cannot listen at '{place}' for the other ranks: Address already in use" in said, said
        said = refused("a-host-without-a-port")
        assert "--comm-listen: 'a-host-without-a-port' is not where ranks can meet: HOST:PORT" in said, said


@contextlib.contextmanager
def two_hosts():
    try:
        bridge = Bridge().__enter__()
    except (OSError, subprocess.CalledProcessError) as e:
        raise Skip("netns", f"no bridge can be made: {e}") from e
    hosts = []
    try:
        for i, name in enumerate(("trm-c", "trm-d")):
            hosts.append(Host(name, i))
        yield hosts
    finally:
        for host in hosts:
            host.remove()
        bridge.__exit__()


def test_ranks_outlive_a_way_that_is_cut():
    if os.environ.get("LONG") != "1":
        return "only with LONG=1"
    requests = bodies()
    wanted = by_shared_memory(requests)
    with two_hosts() as hosts, Ranks(hosts) as c:
        c.begin()
        same(keys(run_many(c.port, requests)[0]), wanted, "undisturbed")

        def cut():
            c.hosts[1].cut()
            c.wait(lambda: "is silent" in c.log("scheduler-0"), 60, "the scheduler misses the ranks")
            c.hosts[1].cut(False)
        same(c.disturbed(requests, cut), wanted, "the way was cut")
        same(c.disturbed(requests, killed_and_begun_again(c, 1, 0)), wanted, "a rank was killed")
