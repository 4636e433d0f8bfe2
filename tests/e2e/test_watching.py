"""Dashboard and alerts ask for what is there: every metric and label they name is on a real server's pages."""
import json
import os
import pty
import re
import select
import shutil
import subprocess
import tempfile
import termios
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families

from run import Skip
from serve import ROOT, Serve, binary, free_port

WATCHING = ROOT / "deploy" / "watching"
METRIC = re.compile(r"\b((?:vllm:|trireme_)\w+)(?:\{([^}]*)\})?")
OUTSIDE = {"le", "job", "instance"}  # le of histograms is on the page, too; Prometheus adds the others


def expressions():
    """(where, PromQL) of every panel, variable and alert."""
    board = json.loads((WATCHING / "dashboard.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]
    for rule in yaml.safe_load((WATCHING / "alerts.yml").read_text())["groups"][0]["rules"]:
        yield rule["alert"], rule["expr"]


def page_of(server, *ports):
    """{sample name: {label: values}} of the pages of all processes."""
    found = {}
    for port in ports:
        status, text = server.get("/metrics", port=port)
        assert status == 200, (port, status)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = found.setdefault(sample.name, {})
                for key, value in sample.labels.items():
                    labels.setdefault(key, set()).add(value)
    return found


def faults_of(where, expr, page):
    used = set()
    for name, matchers in METRIC.findall(expr):
        if name not in page:
            yield f"{where}: there is no {name}"
            continue
        used |= set(page[name])
        for label, operator, value in re.findall(r'(\w+)(=~|!=|!~|=)"([^"]*)"', matchers):
            wanted = [] if "$" in value else value.split("|")
            if label not in page[name]:
                yield f"{where}: {name} has no label {label}"
            elif label != "model_name" and not set(wanted) <= page[name][label]:
                yield f"{where}: {name}'s {label} is never {value}"
    for group in re.findall(r"\bby \(([^)]*)\)", expr):
        for label in re.split(r", *", group):
            if label not in used | OUTSIDE:
                yield f"{where}: none of its metrics has the label {label}"


def test_dashboard_and_alerts_name_what_is_there():
    admin = free_port()
    with Serve(args=["--admin-port", admin]) as s:
        status, answer, _ = s.post("/v1/completions", {"prompt": "Once", "max_tokens": 3})
        assert status == 200, answer
        s.wait(lambda: "trireme_worker_steps_total" in page_of(s, admin + 1), 10, "the worker tells its figures")
        page = page_of(s, s.port, admin, admin + 1)
    said = list(expressions())
    assert len(said) > 30, len(said)
    faults = [f for where, expr in said for f in faults_of(where, expr, page)]
    assert not faults, faults
    # the check sees a mistake of each kind
    for wrong in ("rate(trireme_gateway_answer_total[1m])", 'trireme_gateway_answers_total{code="200"}',
                  'trireme_gateway_answers_total{status="418"}', "sum by (model) (vllm:num_requests_running)"):
        assert len(list(faults_of("wrong", wrong, page))) == 1, wrong


def test_dashboard_is_what_its_script_writes():
    written = subprocess.run(["python3", WATCHING / "dashboard.py"], capture_output=True, text=True, check=True).stdout
    assert json.loads(written) == json.loads((WATCHING / "dashboard.json").read_text())
    ids = [p["id"] for p in json.loads(written)["panels"]]
    assert len(ids) == len(set(ids))


def test_alerts_fire_when_they_should():
    promtool = shutil.which("promtool")
    if not promtool:
        raise Skip("prometheus", "there is no promtool; --long installs it")
    for what in (["check", "rules", "alerts.yml"], ["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run([promtool, *what], cwd=WATCHING, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """Debian's own, with the configuration of deploy/watching: its ports are those of a server here, its intervals half a second."""

    def __init__(self, gateway, admin):
        self.folder = tempfile.mkdtemp(prefix="trm-prometheus-")
        self.port = free_port()
        config = (WATCHING / "prometheus.yml").read_text()
        for theirs, ours in (("127.0.0.1:8000", f"127.0.0.1:{gateway}"), ("127.0.0.1:9100", f"127.0.0.1:{admin}"),
                             ("127.0.0.1:9101", f"127.0.0.1:{admin + 1}"), ("127.0.0.1:9102", f"127.0.0.1:{admin + 2}"),
                             ("10s", "500ms")):
            assert theirs in config, theirs
            config = config.replace(theirs, ours)
        Path(self.folder, "prometheus.yml").write_text("global: {evaluation_interval: 500ms}\n" + config)
        shutil.copy(WATCHING / "alerts.yml", self.folder)
        self.log = open(f"{self.folder}/log", "wb")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self.log, stderr=self.log)

    def ask(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as e:  # PromQL that cannot be read
            return {"result": [], "why": e.read().decode()}
        except OSError:
            assert self.process.poll() is None, Path(self.folder, "log").read_text()[-2000:]
            return {"result": [], "groups": [], "activeTargets": [], "why": "it does not answer yet"}

    def has_data(self, expr):
        """Whether a panel would draw something: a value that is a number."""
        found = self.ask("query?" + urllib.parse.urlencode({"query": expr}))["result"]
        return any(row["value"][1] != "NaN" for row in found)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder)


def operands(expr):
    """What an alert compares with its bounds: an expression for each."""
    return [re.sub(r" [<>] [0-9.]+$", "", part) for part in expr.split(" and ")]


def test_prometheus_finds_data_for_every_panel_and_alert():
    if not shutil.which("prometheus"):
        raise Skip("prometheus", "there is no prometheus; --long installs it")
    admin = free_port()
    alerts = {r["alert"] for r in yaml.safe_load((WATCHING / "alerts.yml").read_text())["groups"][0]["rules"]}
    asked = []
    for where, expr in expressions():
        expr = expr.replace("$__rate_interval", "10s").replace("$model", ".*")
        expr = re.sub(r"^label_values\((.*), \w+\)$", r"\1", expr)
        asked += [(where, part) for part in (operands(expr) if where in alerts else [expr])]
    with Serve(args=["--admin-port", admin, "--workers", 2]) as s:
        prometheus = Prometheus(s.port, admin)
        try:
            ask = {"prompt": "Once upon a time", "max_tokens": 8}
            missing, end = asked, time.monotonic() + 90
            while missing and time.monotonic() < end:
                for _ in range(4):
                    status, answer, _ = s.post("/v1/completions", ask)
                    assert status == 200, answer
                missing = [(where, expr) for where, expr in missing if not prometheus.has_data(expr)]
            assert not missing, f"no data: {missing}"
            targets = prometheus.ask("targets")["activeTargets"]
            assert sorted(t["health"] for t in targets) == ["up"] * 4, targets
            rules = prometheus.ask("rules")["groups"][0]["rules"]
            assert {r["name"] for r in rules} == alerts and all(r["health"] == "ok" for r in rules), rules
            assert not [r["name"] for r in rules if r["state"] == "firing"], rules
            assert not prometheus.has_data("no_such_metric")
        finally:
            prometheus.end()


class Terminal:
    """trireme top on a terminal of 24 lines and 100 columns; its screen is what the last frame left."""

    def __init__(self, *argv):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(binary(), [binary(), "top", *argv])
        termios.tcsetwinsize(self.fd, (24, 100))
        self.seen = ""

    def wait(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    break
            frames = re.findall(r"\x1b\[H(.*?)\x1b\[J", self.seen, re.S)
            if frames and condition(frames[-1].replace("\x1b[K", "")):
                return frames[-1]
        raise AssertionError(f"the screen shows {self.seen[-2000:]!r}")

    def end(self, key):
        os.write(self.fd, key)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("it does not end")


def test_top_shows_the_load_as_it_changes():
    with Serve(args=["--min-step-ms", 50, "--slots", 8]) as s:
        top = Terminal("--url", f"http://127.0.0.1:{s.port}", "--interval", "200ms")
        top.wait(lambda frame: "replicas 1   running 0 of 8 slots   waiting 0" in frame)
        ask = {"prompt": "Once upon a time", "max_tokens": 60, "ignore_eos": True, "n": 3}
        asking = threading.Thread(target=lambda: s.post("/v1/completions", ask))
        asking.start()
        frame = top.wait(lambda frame: "running 3 of 8" in frame and re.search(r"output [1-9][0-9.]*,", frame) and "next token p50 -" not in frame)
        assert "[" in frame and "scheduler yes" in frame
        asking.join()
        top.wait(lambda frame: "running 0 of 8" in frame and "200: " in frame)
        assert top.end(b"q") == 0
        assert "\x1b[?1049h" in top.seen and top.seen.rstrip().endswith("\x1b[?1049l"), "the screen is not given back"
        flags = termios.tcgetattr(top.fd)[3]
        assert flags & termios.ICANON and flags & termios.ECHO, "the terminal is left without lines or echo"
        top = Terminal(f"http://127.0.0.1:{s.port}")
        top.wait(lambda frame: "running 0" in frame)
        assert top.end(b"\x03") == 0
        once = subprocess.run([binary(), "top", "--once", "--interval", "100ms", f"http://127.0.0.1:{s.port}"], capture_output=True, text=True)
        assert once.returncode == 0 and "KV blocks [" in once.stdout and "\x1b" not in once.stdout, once
        for words in (["--port", s.port], ["--base-url", f"http://127.0.0.1:{s.port}"]):  # as other commands have it
            again = subprocess.run([binary(), "top", "--once", "--interval", "100ms", *map(str, words)], capture_output=True, text=True)
            assert again.returncode == 0 and f"http://127.0.0.1:{s.port}" in again.stdout, again
        said = subprocess.run([binary(), "run", "--port", str(s.port), "-n", "4", "Hello"], capture_output=True, text=True)
        assert said.returncode == 0 and said.stdout.strip(), said
    gone = subprocess.run([binary(), "top", f"http://127.0.0.1:{s.port}"], capture_output=True, text=True)
    assert gone.returncode == 1 and "cannot reach" in gone.stderr, gone
