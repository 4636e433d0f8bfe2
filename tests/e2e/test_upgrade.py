"""A cluster is upgraded process by process under load, and back again: no stream is cut and no byte differs, though at each moment processes of
two versions speak to each other. The other version is TRIREME_OTHER_BUILD, a program of another build, or this program saying another number."""
import asyncio
import os
import re
import stat
import subprocess
import tempfile

from serve import ROOT, binary, free_port
from standby import Cluster
from stream import request
from test_standby import story

CLIENTS = 10


def other_version(folder):
    """(program, its version): one version apart from binary()."""
    version = re.search(r"^project\(trireme VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)
    given = os.environ.get("TRIREME_OTHER_BUILD")
    if given:
        return given, subprocess.run([given, "version"], capture_output=True, text=True, check=True).stdout.split()[1]
    other = f"{(int(version[0]) + 1) % 10}{version[1:]}"  # the linker lets other texts share its end: "1.0"
    with open(binary(), "rb") as f:
        program, count = re.subn(rb"(?<![\d.])" + re.escape(version.encode()) + rb"(?![\d.])", other.encode(), f.read())
    assert count and len(other) == len(version)
    path = os.path.join(folder, "trireme")
    with open(path, "wb") as f:
        f.write(program)
    os.chmod(path, stat.S_IRWXU)
    assert subprocess.run([path, "version"], capture_output=True, text=True, check=True).stdout == f"trireme {other}\n"
    return path, other


class Fleet(Cluster):
    """One scheduler that leads, two workers, two gateways behind one port; each can be replaced by one of another program."""

    def __init__(self):
        super().__init__("file:/tmp/" + os.urandom(8).hex())
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.leader, self.count, self.names = 0, 0, {"worker": [], "gateway": []}

    def begin(self):
        self.scheduler(0)
        self.wait_leader(0)
        for role in ("worker", "worker", "gateway", "gateway"):
            self.add(role)
        self.ready()

    def add(self, role):
        self.count += 1
        name = f"{role}-{self.count}"
        if role == "worker":
            self.worker(self.count)
        else:
            self.start(name, self.hosts[0], "gateway", "--host", "127.0.0.1", "--port", self.port, "--share-port", "--scheduler", self.addresses,
                       "--allow-hosts", "*", "--cache-dir", f"{self.folder}/cache", "--drain-timeout", "60s")
        said = "state=ready" if role == "worker" else "model bundle compiled"
        self.wait(lambda: said in self.log(name), 30, f"{name} is there")
        self.names[role].append(name)

    def end(self, name):
        self.processes[name].terminate()
        assert self.processes[name].wait(70) == 0, f"{name} ended with {self.processes[name].returncode}"

    def replace(self, role):
        """One after the other, the new one beside the old one first."""
        for old in list(self.names[role]):
            self.add(role)
            self.end(old)
            self.names[role].remove(old)

    def replace_scheduler(self):
        other = 1 - self.leader
        before = self.log(f"scheduler-{other}").count("standing by")
        self.scheduler(other)
        self.wait(lambda: self.log(f"scheduler-{other}").count("standing by") > before, 10, "the other one stands by")
        self.end(f"scheduler-{self.leader}")
        self.wait_leader(other, 10)
        self.leader = other

    def versions(self):
        return {self.get(self.url + "/version")[1].strip() for _ in range(8)}


async def keep_asking(c, over, wanted, ended):
    async def client(i):
        while not over.is_set():
            r = await request(c.port, *story(i, 60))
            ended.append((i, r.key() == wanted[i], r.status, r.error, len(r.times)))
    await asyncio.gather(*[client(i) for i in range(CLIENTS)])


def under_load(c, wanted, act):
    """act() while clients ask again and again; how many answers there were, all of them right."""
    async def main():
        over, ended = asyncio.Event(), []
        asking = asyncio.create_task(keep_asking(c, over, wanted, ended))
        await asyncio.sleep(0.5)
        try:
            await asyncio.to_thread(act)
        finally:
            over.set()
        await asyncio.wait_for(asking, 60)
        return ended
    ended = asyncio.run(main())
    wrong = [e for e in ended if not e[1]]
    assert not wrong, f"{len(wrong)} of {len(ended)} streams: {wrong[:3]}"
    assert len(ended) >= 2 * CLIENTS, f"{len(ended)} streams are no load"
    return len(ended)


def test_one_process_after_the_other():
    with tempfile.TemporaryDirectory(prefix="trm-other-") as folder, Fleet() as c:
        other, version = other_version(folder)
        c.begin()

        async def alone():
            return [(await request(c.port, *story(i, 60))).key() for i in range(CLIENTS)]
        wanted = asyncio.run(alone())
        assert all(key[0] == 200 for key in wanted)

        def up():
            c.programs = {role: other for role in ("worker", "scheduler", "gateway")}
            c.replace("worker")
            c.replace_scheduler()
            c.replace("gateway")

        def back():
            c.programs = {}
            c.replace("gateway")
            c.replace_scheduler()
            c.replace("worker")
        counts = [under_load(c, wanted, up)]
        assert c.versions() == {f'{{"version":"{version}"}}'}, c.versions()
        counts.append(under_load(c, wanted, back))
        assert os.environ.get("TRIREME_OTHER_BUILD") or f'{{"version":"{version}"}}' not in c.versions()
        os.unlink(c.lease[5:])
        return f"{counts[0]} streams on the way to {version}, {counts[1]} on the way back"
