"""HTTPS of the gateway: clients that speak TLS, those that do it badly or not at all, and certificates that change while it serves."""
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
from pathlib import Path

from run import Skip
from serve import Serve, binary, free_port, has_landlock, resident_bytes

try:
    import httpx
    import openai
except ImportError:
    openai = None

ASK = {"prompt": "Once", "max_tokens": 8, "temperature": 0}


class Certificate:
    """A pair of files, signed by itself; `name` is what its subject is called."""

    def __init__(self, folder, name):
        self.cert, self.key, self.name = f"{folder}/cert.pem", f"{folder}/key.pem", name
        self.make(name)

    def make(self, name):
        new = tempfile.mkdtemp(dir=Path(self.cert).parent)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-keyout", f"{new}/key", "-out", f"{new}/cert", "-subj", f"/CN={name}",
                        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)
        os.replace(f"{new}/key", self.key)
        os.replace(f"{new}/cert", self.cert)
        self.name = name


class TlsServe(Serve):
    """Its get speaks HTTPS, so that its waits do."""

    def __init__(self, args=(), **more):
        if not shutil.which("openssl"):
            raise Skip("openssl", "there is no openssl command to make certificates with")
        self.folder = tempfile.mkdtemp(prefix="trm-tls-", dir="/tmp")
        self.certificate = Certificate(self.folder, "first")
        super().__init__(args=["--tls-cert", self.certificate.cert, "--tls-key", self.certificate.key, *args], **more)

    def stop(self, grace_s=5):
        super().stop(grace_s)
        shutil.rmtree(self.folder, ignore_errors=True)

    def trust(self):
        return ssl.create_default_context(cafile=self.certificate.cert)

    def connect(self, context=None, name="localhost"):
        return (context or self.trust()).wrap_socket(socket.create_connection(("127.0.0.1", self.port), 10), server_hostname=name)

    def client(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.trust(), timeout=20)

    def get(self, path, port=None, timeout=5):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout):
                pass
            c = self.client()
            c.request("GET", path)
            answer = c.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""

    def subject(self):
        with self.connect() as s:
            return dict(pair for group in s.getpeercert()["subject"] for pair in group)["commonName"]


def complete(connection, padding=0, **more):
    body = json.dumps({**ASK, **more}) + " " * padding
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def text_of_stream(body):
    events = [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]
    assert body.rstrip().endswith(b"data: [DONE]"), body[-80:]
    return "".join(c["text"] for e in events for c in e["choices"])


def answers_over_one_connection(s):
    """Whole answers, streams and a body of many records, kept alive; then what was agreed."""
    c = s.client()
    status, body = complete(c)
    whole = json.loads(body)["choices"][0]["text"]
    assert status == 200 and whole
    before = c.sock
    status, body = complete(c, stream=True)
    assert status == 200 and text_of_stream(body) == whole
    status, body = complete(c, padding=300_000)
    assert status == 200 and json.loads(body)["choices"][0]["text"] == whole
    assert c.sock is before, "the connection was not kept"
    assert c.sock.version() == "TLSv1.3" and c.sock.cipher()


def pipelines_past_the_read_ahead(s):
    """More than is read ahead while a request runs; every one is answered, in order, with the client's side still open."""
    one = json.dumps({**ASK, "max_tokens": 1}).encode() + b" " * 40_000
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Request-Id: %d\r\nContent-Length: %d\r\n\r\n"
    with s.connect() as t:
        t.settimeout(20)
        t.sendall(b"".join(head % (i, len(one)) + one for i in range(12)))
        got = b""
        while got.count(b"HTTP/1.1 200") < 12 or not got.endswith(b"}}}"):
            piece = t.recv(65536)
            assert piece, got[-300:]
            got += piece
    ids = [int(line.split(b": ")[1]) for line in got.split(b"\r\n") if line.lower().startswith(b"x-request-id: ")]
    assert ids == list(range(12)), ids


def agrees_on_protocols(s):
    context = s.trust()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with s.connect(context) as t:
        assert t.selected_alpn_protocol() == "http/1.1"
    context = s.trust()
    context.set_alpn_protocols(["h2"])
    fails(lambda: s.connect(context), "application protocol")
    context = s.trust()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with s.connect(context) as t:
        assert t.version() == "TLSv1.2"
        session = t.session
    with context.wrap_socket(socket.create_connection(("127.0.0.1", s.port), 10), server_hostname="localhost", session=session) as t:
        assert t.session_reused, "no session ticket was taken"
    for old in ("AES128-SHA", "ECDHE-ECDSA-AES128-SHA256", "ALL:!AESGCM:!CHACHA20"):
        context = s.trust()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(old)
        fails(lambda: s.connect(context), "handshake failure")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(s.certificate.cert)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    fails(lambda: s.connect(context), "")
    context = s.trust()
    context.check_hostname = False
    with s.connect(context, name="somewhere.example"):  # one certificate, whatever name is asked for
        pass
    if shutil.which("curl"):
        out = subprocess.run(["curl", "-sS", "--cacert", s.certificate.cert, "-d", json.dumps({**ASK, "stream": True}), "-H",
                              "Content-Type: application/json", f"https://localhost:{s.port}/v1/completions"],
                             capture_output=True, check=True, timeout=20).stdout
        assert text_of_stream(out)


def fails(act, why):
    try:
        act().close()
    except (ssl.SSLError, ConnectionError) as e:
        assert why in str(e), e
    else:
        raise AssertionError(f"no handshake should succeed here: {why}")


def refuses_renegotiation(s):
    """A client of TLS 1.2 that asks for a second handshake keeps its connection or loses it, but is not given one."""
    run = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{s.port}", "-tls1_2", "-legacy_renegotiation"],
                         input=b"R\n", capture_output=True, timeout=20)
    assert b"no renegotiation" in run.stderr.lower(), run.stderr[-500:]


def raw(s, data):
    """What comes back on a connection that begins with `data`, up to its end."""
    with socket.create_connection(("127.0.0.1", s.port), 10) as t:
        t.sendall(data)
        got = b""
        try:
            while piece := t.recv(4096):
                got += piece
        except ConnectionResetError:
            pass
        return got


def bears_those_who_do_not_speak_tls(s):
    got = raw(s, b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n" + b"z" * 5000)
    assert got.startswith(b"HTTP/1.1 400 ") and b"https://" in got, got
    for i in range(40):
        raw(s, b"\x05" + os.urandom(200))
        raw(s, b"\x16\x03\x01\x00\x05hello")
    socket.create_connection(("127.0.0.1", s.port), 10).close()  # as a probe of a port does
    lines = [line for line in s.log().splitlines() if "TLS handshake failed" in line]
    assert 1 <= len(lines) <= 10, len(lines)
    assert metric(s, "failed") >= 40 and metric(s, "plain") == 1


def metric(s, outcome):
    text = s.get("/metrics")[1]
    name = f'trireme_http_tls_handshakes_total{{outcome="{outcome}"}} '
    return next(float(line[len(name):]) for line in text.splitlines() if line.startswith(name))


def takes_a_new_certificate(s):
    """A stream that runs meanwhile ends well, with the old one; a wrong one changes nothing."""
    c = s.client()
    c.request("POST", "/v1/completions", json.dumps({**ASK, "max_tokens": 300, "ignore_eos": True, "stream": True}),
              {"Content-Type": "application/json"})
    answer = c.getresponse()
    first = answer.read1(20)
    s.certificate.make("second")
    s.wait(lambda: subject_or_none(s) == "second", 10, "the new certificate")
    assert text_of_stream(first + answer.read())
    good = Path(s.certificate.key).read_bytes()
    Path(s.certificate.key).write_text("not a key\n")
    s.wait(lambda: "certificate of before stays: cannot take the TLS key" in s.log(), 10, "a line about the wrong key")
    assert s.subject() == "second"
    Path(s.certificate.key).write_bytes(good)
    lines = s.log().count("new connections have the TLS certificate")
    os.kill(s.pids("gateway")[0], signal.SIGHUP)
    s.wait(lambda: s.log().count("new connections have the TLS certificate") > lines, 10, "SIGHUP reads again")
    assert s.subject() == "second"


def reads_no_files_elsewhere(s):
    """The sandbox leaves the certificate's folder: one in another is not taken, though the user may read it."""
    if not has_landlock():
        return
    folder = tempfile.mkdtemp(prefix="trm-tls-", dir="/tmp")
    other, good = Certificate(folder, "elsewhere"), Path(s.certificate.cert).read_bytes()
    try:
        os.unlink(s.certificate.cert)
        os.symlink(other.cert, s.certificate.cert)
        s.wait(lambda: f"cannot read the TLS certificate '{s.certificate.cert}': Permission denied" in s.log(), 10, "a refusal")
        os.unlink(s.certificate.cert)
        Path(s.certificate.cert).write_bytes(good)
        assert s.subject() == "second"
    finally:
        shutil.rmtree(folder)


def gives_back_what_a_crowd_took(s):
    """600 connections take some 16 KB each; once they are gone, most of it is the system's again."""
    gateway, context = s.pids("gateway")[0], s.trust()
    before = resident_bytes(gateway)
    crowd = [s.connect(context) for _ in range(600)]
    took = resident_bytes(gateway) - before
    for c in crowd:
        c.close()
    assert took > 4e6, f"600 connections took {took} bytes"
    s.wait(lambda: resident_bytes(gateway) - before < took / 2, 20, "less memory without the crowd")


def subject_or_none(s):
    try:
        return s.subject()
    except ssl.SSLError:  # the files are new, the server's certificate is not yet
        return None


def python_client_speaks_https(s):
    if openai is None:
        return "without openai"
    with httpx.Client(verify=s.trust()) as transport:
        c = openai.OpenAI(base_url=f"https://localhost:{s.port}/v1", api_key="none", max_retries=0, http_client=transport)
        ask = dict(model=c.models.list().data[0].id, messages=[{"role": "user", "content": "Hello!"}], temperature=0, max_tokens=12)
        whole = c.chat.completions.create(**ask).choices[0].message.content
        pieces = c.chat.completions.create(**ask, stream=True)
        assert "".join(p.choices[0].delta.content or "" for p in pieces) == whole
    return None


def tells_commands_to_use_https(s):
    for words in (["top", "--once"], ["bench", "serve"], ["run", "Hello"]):
        done = subprocess.run([binary(), *words, "--port", str(s.port)], capture_output=True, text=True, timeout=30)
        assert done.returncode == 1 and "this port speaks TLS: the address begins with https://" in done.stderr, (words, done)


def commands_speak_https(s):
    """With the certificate trusted each command does over TLS what it does without; else it says why not."""
    url, known = f"https://localhost:{s.port}", dict(os.environ, SSL_CERT_FILE=s.certificate.cert)
    asks = (["ps", "--server", url], "model loaded"), (["top", "--once", url], f"at {url}"), (["run", "--url", url, "Hello"], ""), \
        (["bench", "serve", "--url", url, "--num-prompts", "4", "--random-input-len", "50", "--random-output-len", "8"], "Successful requests:                     4")
    for words, text in asks:
        done = subprocess.run([binary(), *words], capture_output=True, text=True, timeout=60, env=known)
        assert done.returncode == 0 and done.stdout and text in done.stdout, (words, done)
        done = subprocess.run([binary(), *words], capture_output=True, text=True, timeout=30, env={k: v for k, v in known.items() if k != "SSL_CERT_FILE"})
        assert done.returncode == 1 and "is not believed: self-signed certificate" in done.stderr, (words, done)


def test_https():
    with TlsServe() as s:
        answers_over_one_connection(s)
        pipelines_past_the_read_ahead(s)
        agrees_on_protocols(s)
        refuses_renegotiation(s)
        bears_those_who_do_not_speak_tls(s)
        tells_commands_to_use_https(s)
        commands_speak_https(s)
        note = python_client_speaks_https(s)
        gives_back_what_a_crowd_took(s)
        takes_a_new_certificate(s)
        reads_no_files_elsewhere(s)
        gateway = s.pids("gateway")
        assert s.pids("gateway") == gateway and s.get("/health/ready")[0] == 200
        assert "https://127.0.0.1" in s.log()
        return note


def start_fails(args, text):
    folder = tempfile.mkdtemp(prefix="trm-", dir="/tmp")
    run = subprocess.run([binary(), "gateway", f"--port={free_port()}", f"--scheduler=ipc://{folder}/s.sock", *args],
                         capture_output=True, timeout=20, text=True)
    shutil.rmtree(folder)
    assert run.returncode != 0 and text in run.stderr, (args, run.returncode, run.stderr[-600:])


def test_certificates_that_cannot_be_taken():
    s = TlsServe()
    other = Certificate(tempfile.mkdtemp(dir=s.folder), "other")
    locked = f"{s.folder}/locked.pem"
    subprocess.run(["openssl", "pkcs8", "-topk8", "-in", other.key, "-out", locked, "-passout", "pass:secret"], check=True)
    cert, key = s.certificate.cert, s.certificate.key
    try:
        start_fails([f"--tls-cert={cert}"], "--tls-key is missing")
        start_fails([f"--tls-cert={cert}", f"--tls-key={s.folder}/none"], f"cannot read the TLS key '{s.folder}/none'")
        start_fails([f"--tls-cert={cert}", f"--tls-key={other.key}"], "key values mismatch")
        os.mkfifo(f"{s.folder}/pipe")
        start_fails([f"--tls-cert={cert}", f"--tls-key={s.folder}/pipe"], "is no regular file")
        start_fails([f"--tls-cert={other.cert}", f"--tls-key={locked}"], "it has a passphrase")
        start_fails([f"--tls-cert={key}", f"--tls-key={key}"], f"cannot take the TLS certificate '{key}'")
    finally:
        s.stop()


def test_plain_servers_carry_no_openssl():
    with Serve() as s:
        gateway = s.pids("gateway")[0]
        assert "libssl" not in Path(f"/proc/{gateway}/maps").read_text()
        os.kill(gateway, signal.SIGHUP)  # nothing to read again, and no reason to end
        assert s.get("/health/ready")[0] == 200
        os.kill(gateway, signal.SIGTERM)
        s.wait(lambda: f"gateway 0 (process {gateway}) ended with" in s.log(), 10, "the end of the gateway")
        assert f"gateway 0 (process {gateway}) ended with exit code 0" in s.log()
    with TlsServe() as s:
        assert "libssl" in Path(f"/proc/{s.pids('gateway')[0]}/maps").read_text()
        assert resident_bytes(s.pids("gateway")[0]) < 30e6
