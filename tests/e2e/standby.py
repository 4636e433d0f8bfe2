"""Processes of several "hosts", begun one by one as docs/operating.md says: two schedulers of which one leads, gateways, workers. Hosts may be
network namespaces (Host), so that the way between them can be cut."""
import base64
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from serve import binary, bundled_model, free_port


class Host:
    """A network namespace with an address on a bridge, or, without a name, this machine as it is."""

    def __init__(self, name=None, number=0):
        self.name = name
        self.address = f"10.213.7.{10 + number}" if name else "127.0.0.1"
        if not name:
            return
        run = lambda *w: subprocess.run(w, check=True, capture_output=True)
        run("ip", "netns", "add", name)
        run("ip", "link", "add", f"{name}-o", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", f"{name}-o", "master", "trm-br", "up")
        for words in (("addr", "add", f"{self.address}/24", "dev", "eth0"), ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):
            run("ip", "-n", name, *words)

    def wrap(self, argv):
        return ["ip", "netns", "exec", self.name, *argv] if self.name else argv

    def cut(self, on=True):
        subprocess.run(["ip", "link", "set", f"{self.name}-o", "down" if on else "up"], check=True)

    def remove(self):
        if self.name:
            subprocess.run(["ip", "netns", "del", self.name], capture_output=True)


class Bridge:
    """Joins hosts; its own address is this machine's among them."""
    address = "10.213.7.1"

    def __enter__(self):
        for words in (("link", "add", "trm-br", "type", "bridge"), ("addr", "add", f"{self.address}/24", "dev", "trm-br"), ("link", "set", "trm-br", "up")):
            subprocess.run(["ip", *words], check=True, capture_output=True)
        return self

    def __exit__(self, *_):
        subprocess.run(["ip", "link", "del", "trm-br"], capture_output=True)


class Cluster:
    """Schedulers 0 and 1 on hosts[0] and hosts[1]; worker and gateway where they are asked for."""

    def __init__(self, lease, hosts=None, ttl="2s", program=None, env=None, lease_words=()):
        self.hosts = hosts or [Host(), Host()]
        self.lease, self.ttl, self.lease_words = lease, ttl, lease_words
        self.programs = program or {}
        self.env = dict(os.environ, **(env or {}))
        self.folder = tempfile.mkdtemp(prefix="trm-", dir="/tmp")
        self.keys = f"{self.folder}/keys"
        subprocess.run([binary(), "keygen", "all", "--out", self.keys], check=True, capture_output=True)
        self.ports = [free_port(), free_port()]
        self.admin = [free_port(), free_port()]
        self.addresses = ",".join(f"tcp://{h.address}:{p}" for h, p in zip(self.hosts, self.ports))
        self.processes = {}
        self.port = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for name, p in self.processes.items():
            if kind:
                print(f"--- {name}\n" + self.log(name)[-1500:])
            if p.poll() is None:
                p.kill()
                p.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, name):
        path = Path(f"{self.folder}/{name}.log")
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self, name, host, role, *words):
        key = ("--key-file", f"{self.keys}/{role}.key", "--allow-keys", f"{self.keys}/allow")
        argv = host.wrap([self.programs.get(role) or binary(), role, *map(str, (*words, *key))])
        with open(f"{self.folder}/{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, start_new_session=True)
        return self.processes[name]

    def scheduler(self, i):
        host = self.hosts[i]
        return self.start(f"scheduler-{i}", host, "scheduler", "--listen", f"tcp://{host.address}:{self.ports[i]}", "--lease", self.lease, *self.lease_words,
                          "--lease-ttl", self.ttl, "--lease-name", self.folder, "--admin-host", host.address, "--admin-port", self.admin[i],
                          "--run-dir", f"{self.folder}/run-{i}", "--secret-file", f"{self.folder}/cache.key")

    def worker(self, i=0, host=None):
        return self.start(f"worker-{i}", host or Host(), "worker", "--model", bundled_model(), "--connect", self.addresses, "--threads", 1,
                          "--min-step-ms", 10)

    def gateway(self, i=0, host=None):
        self.port = free_port()
        host = host or Host()
        self.url = f"http://{host.address}:{self.port}"
        return self.start(f"gateway-{i}", host, "gateway", "--host", host.address, "--port", self.port, "--scheduler", self.addresses,
                          "--allow-hosts", "*", "--cache-dir", f"{self.folder}/cache")

    def get(self, url):
        try:
            with urllib.request.urlopen(url, timeout=2) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, ""
        except OSError:
            return 0, ""

    def wait(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.05)
        raise AssertionError(f"{what}: not within {seconds} s")

    def ready(self):
        self.wait(lambda: self.get(self.url + "/health/ready")[0] == 200, 30, "ready")

    def leads(self, i):
        told = [line for line in self.log(f"scheduler-{i}").splitlines() if any(w in line for w in ("leading lease=", "standing by", "stopped:"))]
        return bool(told) and "leading lease=" in told[-1]  # one that was killed says nothing of it, the next one does

    def wait_leader(self, i, seconds=20):
        self.wait(lambda: self.leads(i), seconds, f"scheduler {i} leads")


class Etcd:
    """A cluster of etcd on the loopback, or on a bridge's address. guarded: one member that asks for certificates of its own authority."""

    def __init__(self, count=1, address="127.0.0.1", guarded=False):
        self.folder = tempfile.mkdtemp(prefix="trm-etcd-", dir="/tmp")
        self.scheme, self.words, self.context = "http", [], None
        if guarded:
            self.make_certificates()
            self.scheme, self.context = "https", ssl.create_default_context(cafile=f"{self.folder}/ca.pem")
            self.context.load_cert_chain(f"{self.folder}/client.pem", f"{self.folder}/client.key")
            self.words = ["--cert-file", f"{self.folder}/server.pem", "--key-file", f"{self.folder}/server.key", "--client-cert-auth",
                          "--trusted-ca-file", f"{self.folder}/ca.pem", "--bcrypt-cost", "4"]
        self.members = [(f"m{i}", free_port(), free_port()) for i in range(count)]
        self.address = address
        self.processes = []

    def make_certificates(self):
        """An authority (ca.pem), and server and client by it."""
        run = lambda *w: subprocess.run(["openssl", *w], check=True, capture_output=True, cwd=self.folder)
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        run("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "2")
        Path(f"{self.folder}/extensions").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
        for name in ("server", "client"):
            run("req", "-new", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/O={name}")  # etcd's gateway refuses clients with a common name once there are users
            run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", f"{name}.pem", "-days", "2",
                "-extfile", "extensions")

    def call(self, path, body, token=None):
        headers = {"Content-Type": "application/json", **({"Authorization": token} if token else {})}
        request = urllib.request.Request(self.urls + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=5, context=self.context) as r:
            return json.load(r)

    def guard(self, user, password, prefix):
        """From now on a name and a password are asked for; `user` may use the keys that begin with `prefix`."""
        text = lambda s: base64.b64encode(s.encode()).decode()
        allowed = {"permType": "READWRITE", "key": text(prefix), "range_end": text(prefix[:-1] + chr(ord(prefix[-1]) + 1))}
        for name, secret in (("root", "root's"), (user, password)):
            self.call("/v3/auth/user/add", {"name": name, "password": secret})
            self.call("/v3/auth/role/add", {"name": name})
            self.call("/v3/auth/user/grant", {"user": name, "role": name})
        self.call("/v3/auth/role/grant", {"name": user, "perm": allowed})
        self.call("/v3/auth/enable", {})

    def end_logins(self, user, password):
        """etcd forgets the tokens of a user whose password is set, also to what it was."""
        token = self.call("/v3/auth/authenticate", {"name": "root", "password": "root's"})["token"]
        self.call("/v3/auth/user/changepw", {"name": user, "password": password}, token)

    def __enter__(self):
        peers = ",".join(f"{n}=http://{self.address}:{peer}" for n, _, peer in self.members)
        for name, client, peer in self.members:
            at, there = f"{self.scheme}://{self.address}:{client}", f"http://{self.address}:{peer}"
            with open(f"{self.folder}/{name}.log", "ab") as log:
                self.processes.append(subprocess.Popen(
                    ["etcd", "--name", name, "--data-dir", f"{self.folder}/{name}", "--listen-client-urls", at, "--advertise-client-urls", at,
                     "--listen-peer-urls", there, "--initial-advertise-peer-urls", there, "--initial-cluster", peers, *self.words], stdout=log, stderr=log))
        self.urls = ",".join(f"{self.scheme}://{self.address}:{client}" for _, client, _ in self.members)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"{self.scheme}://{self.address}:{self.members[0][1]}/health", timeout=1, context=self.context) as r:
                    if json.load(r)["health"] == "true":
                        return self
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError("etcd does not start")

    def kill(self, i):
        self.processes[i].send_signal(signal.SIGKILL)
        self.processes[i].wait()

    def __exit__(self, *_):
        for p in self.processes:
            p.kill()
            p.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
