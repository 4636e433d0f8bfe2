"""Models by name: pull, list, delete, prune, and the commands that take a name, against a server that plays Hugging Face's hub and
Ollama's registry with faults; and one cache shared with the real huggingface_hub."""
import fcntl
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run import Skip
from serve import ROOT, Serve, binary

sys.path.insert(0, str(ROOT / "tests" / "fakes"))
from hub_server import Hub  # noqa: E402

NAME = "org/tiny"
BIG = random.Random(1).randbytes(3_000_000)
TEXTS = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}" * 3000}
FILES = {**TEXTS, "model.safetensors": BIG, "pytorch_model.bin": b"pickle", "README.md": b"# Tiny", "original/notes.json": b"{}"}
WANTED = {"config.json", "tokenizer.json", "model.safetensors"}


class Place:
    """A home of its own, and a hub."""
    def __init__(self, files=FILES, token=None, **options):
        self.home = tempfile.mkdtemp(prefix="trm-hub-", dir="/tmp")
        self.hub = Hub(token)
        self.repo = self.hub.add(NAME, files, **options)
        self.cache = Path(self.home, "hf", "hub")
        self.folder = self.cache / "models--org--tiny"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "OLLAMA", "TRIREME_HUB")) and not k.lower().endswith("_proxy")}
        self.env.update(HOME=self.home, HF_HOME=f"{self.home}/hf", TRIREME_HUB_RANGE_BYTES="400000", TRIREME_HUB_RETRY_MS="20",
                        HF_ENDPOINT=self.hub.url, TRIREME_OLLAMA_REGISTRY=self.hub.url, HF_HUB_DOWNLOAD_TIMEOUT="2")
        for name in ("XDG_CACHE_HOME", "TRANSFORMERS_OFFLINE"):
            self.env.pop(name, None)

    def __enter__(self):
        self.hub.__enter__()
        return self

    def __exit__(self, *args):
        self.hub.__exit__(*args)
        shutil.rmtree(self.home, ignore_errors=True)

    def start(self, *args, **env):
        return subprocess.Popen([binary(), *args], env={**self.env, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run(self, *args, **env):
        process = self.start(*args, **env)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def pull(self, name=NAME, **env):
        code, out, err = self.run("pull", "--json", name, **env)
        assert code == 0, f"pull {name}: {err}"
        return json.loads(out)

    def refused(self, what, name=NAME, command="pull", **env):
        """The one line of its error, which must say so."""
        code, out, err = self.run(command, name, **env)
        assert code == 1 and what in err, f"{code}: '{what}' is not in: {err}"
        return err

    def fault(self, **faults):
        """Faults by kind (file, resolve, blob, tree, revision, manifest) for the first request, or for `times`."""
        times = faults.pop("times", 1)
        self.hub.fault = lambda r: faults.get(r.kind) if r.count <= times else None

    def snapshot(self):
        return self.folder / "snapshots" / self.repo.commit

    def check(self, files=FILES, wanted=WANTED):
        """The snapshot has these files, whole, as links to blobs that are called by their hash."""
        found = {str(p.relative_to(self.snapshot())) for p in self.snapshot().rglob("*") if not p.is_dir()}
        assert found == set(wanted), found
        for path in wanted:
            link = self.snapshot() / path
            assert link.read_bytes() == files[path], path
            target = os.readlink(link)
            assert target.startswith("../../" + "../" * path.count("/") + "blobs/") and link.resolve().name == self.repo.files[path].etag, target
        assert (self.folder / "refs" / "main").read_text() == self.repo.commit
        assert not list((self.folder / "blobs").glob("*incomplete")), "something is left over"


def requests_of(place, host, path):
    return [headers for p, headers in place.hub.asked(host) if path in p]


# ---- what is downloaded, and where it lies ----

def test_a_model_comes_whole_and_lies_where_others_look_for_it():
    with Place() as p:
        said = p.pull()
        assert said["path"] == str(p.snapshot()) and said["bytes"] == sum(len(FILES[f]) for f in WANTED)
        p.check()
        assert len(requests_of(p, "store", "/blob/")) >= 8, "a large file comes in ranges"
        before = len(p.hub.requests)
        p.pull()
        assert len(p.hub.requests) == before + 1, "only what main means is asked again"


def test_names_tell_revisions_files_and_quants_apart():
    files = {f"Tiny-{q}.gguf": f"GGUF {q}".encode() for q in ("BF16", "F16", "Q2_K", "Q4_K_M", "Q8_0")}
    files |= {f"big/Tiny-Q6_K-0000{i}-of-00003.gguf": b"GGUF" + bytes([i]) for i in (1, 2, 3)}
    files["mmproj-Q4_K_M.gguf"] = b"GGUF projector"
    with Place(files) as p:
        p.repo.revisions["v1.0"] = p.repo.revisions["refs/pr/1"] = p.repo.commit
        for name, file in (("", "Tiny-Q4_K_M.gguf"), (":q8_0", "Tiny-Q8_0.gguf"), (":F16", "Tiny-F16.gguf"), (":v1.0", "Tiny-Q4_K_M.gguf"),
                           (":v1.0:Q2_K", "Tiny-Q2_K.gguf"), ("@refs/pr/1:Q2_K", "Tiny-Q2_K.gguf"), (":tiny-bf16.gguf", "Tiny-BF16.gguf"),
                           (":Q6_K", "big/Tiny-Q6_K-00001-of-00003.gguf"), (":big/Tiny-Q6_K-00002-of-00003.gguf", "big/Tiny-Q6_K-00001-of-00003.gguf"),
                           (f"@{p.repo.commit}:latest", "Tiny-Q4_K_M.gguf")):
            assert p.pull(NAME + name)["path"] == str(p.snapshot() / file), name
        assert p.pull(f"https://huggingface.co/{NAME}:Q8_0")["path"].endswith("Q8_0.gguf")
        assert len(list((p.snapshot() / "big").iterdir())) == 3
        assert (p.folder / "refs" / "refs" / "pr" / "1").read_text() == p.repo.commit
        assert "Tiny-Q8_0.gguf" in p.refused("no GGUF file of Q5_K_M", f"{NAME}:Q5_K_M")
        p.refused("has no revision 'v2'", f"{NAME}:v2")
        p.refused("no file 'x.gguf'", f"{NAME}:x.gguf")


def test_an_index_says_which_weights_there_are():
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    files = {**TEXTS, "model.safetensors.index.json": json.dumps(index).encode(), "consolidated.safetensors": b"the same again",
             "model-00001-of-00002.safetensors": b"one", "model-00002-of-00002.safetensors": b"two"}
    with Place(files) as p:
        p.pull()
        p.check(files, set(files) - {"consolidated.safetensors"})
        (p.snapshot() / "model-00002-of-00002.safetensors").unlink()
        p.refused("HF_HUB_OFFLINE", command="info", HF_HUB_OFFLINE="1")
        p.pull()
        p.check(files, set(files) - {"consolidated.safetensors"})


def test_pickles_are_refused_with_a_reason():
    with Place({**TEXTS, "pytorch_model.bin": b"\x80\x04"}) as p:
        p.refused("to read one is to run the code in it")
        assert not requests_of(p, "store", "/")


# ---- faults ----

def test_cuts_stalls_and_busy_hosts_are_waited_out():
    for fault in ({"blob": {"cut": 100_000}, "file": {"cut": 10}}, {"blob": {"status": 503}, "tree": {"status": 500}},
                  {"resolve": {"status": 429}, "revision": {"status": 429}}, {"blob": {"cut": 0, "wait": 0.1}}):
        with Place() as p:
            p.fault(**fault)
            p.pull()
            p.check()
    with Place() as p:
        p.hub.fault = lambda r: {"wait": 20} if r.kind == "blob" and r.count == 2 else None
        began = time.monotonic()
        p.pull(HF_HUB_DOWNLOAD_TIMEOUT="1")
        p.check()
        assert time.monotonic() - began < 15


def test_retry_after_is_heeded():
    for kind in ("revision", "resolve"):
        with Place() as p:
            asked = []

            def busy_once(r):
                if r.kind != kind:
                    return None
                asked.append(time.monotonic())
                return {"status": 429, "headers": {"Retry-After": "2"}} if len(asked) == 1 else None

            p.hub.fault = busy_once
            p.pull(TRIREME_HUB_CONNECTIONS="1", TRIREME_HUB_RANGE_BYTES="9000000")
            assert len(asked) == 2 and asked[1] - asked[0] >= 1.9, asked


def test_a_range_that_was_cut_goes_on_where_it_was():
    with Place() as p:
        p.fault(blob={"cut": 100_000})
        p.pull()
        ranges = [h["Range"] for h in requests_of(p, "store", "/blob/")]
        began = [int(r.split("=")[1].split("-")[0]) for r in ranges]
        assert any(b % 400_000 not in (0,) and b % 400_000 <= 100_000 for b in began), ranges


def test_a_host_that_stays_broken_ends_it():
    with Place() as p:
        p.fault(blob={"status": 502}, times=99)
        p.refused("answers 502, also after waiting")
        p.fault(revision={"status": 429}, times=99)
        p.refused("answers 429, too many requests")
        assert "HF_TOKEN" in p.refused("429")
        p.fault(revision={"status": 429, "headers": {"Retry-After": "86400"}}, times=99)
        began = time.monotonic()
        p.refused("429")
        assert time.monotonic() - began < 5, "a day is not waited for"
        p.hub.__exit__()
        p.refused("there is no file or folder 'org/tiny'", command="info")
        p.hub = Hub()
        p.hub.__enter__()


def test_ranges_ignored_are_taken_in_one():
    with Place() as p:
        p.fault(blob={"no_ranges": True}, times=99)
        p.pull()
        p.check()
    with Place() as p:
        p.hub.fault = lambda r: {"no_ranges": True, "cut": 2_000_000 if r.count == 12 else None} if r.kind == "blob" else None
        p.pull(TRIREME_HUB_CONNECTIONS="1")
        p.check()


def test_wrong_bytes_are_found_and_fetched_again_once():
    with Place() as p:
        p.hub.fault = lambda r: {"flip": True} if (r.kind, r.count) in (("blob", 3), ("file", 1)) else None
        p.pull()
        p.check()
    for kind, what in (("blob", "its SHA-256 is"), ("file", "its SHA-1 of git is")):
        with Place() as p:
            p.fault(**{kind: {"flip": True}}, times=99)
            p.refused(what)
            names = {f.name for f in (p.folder / "blobs").iterdir()}
            bad = {p.repo.files[f].etag for f in (("model.safetensors",) if kind == "blob" else TEXTS)}
            assert not names & bad, "what is broken never gets its name"


def test_wrong_lengths_and_other_ranges_are_refused():
    with Place() as p:
        p.fault(file={"add": 5}, times=99)
        p.refused("sends more than the")

    def other(handler):
        handler.send_response(206)
        handler.send_header("Content-Range", "bytes 7-106/3000000")
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"y" * 100)

    with Place() as p:
        p.fault(blob={"raw": other}, times=99)
        p.refused("other bytes than were asked for")


def test_endless_answers_are_bounded():
    def endless(head):
        def answer(handler):
            handler.wfile.write(head)
            while True:
                handler.wfile.write((b"x-more: " + b"a" * 900 + b"\r\n" if b"\r\n\r\n" not in head else b" " * 1000) * 60)
        return answer

    body = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[" 
    for kind, head, what in (("tree", body, "is larger than"), ("revision", body, "is larger than"), ("tree", b"HTTP/1.1 200 OK\r\n", "headers"),
                             ("blob", body.replace(b"200 OK", b"206 Partial\r\nContent-Range: bytes 0-399999/3000000"), "more than")):
        with Place() as p:
            p.fault(**{kind: {"raw": endless(head)}}, times=99)
            p.refused(what, TRIREME_HUB_CONNECTIONS="1")
    deep = b"[" * 100_000
    for body in (deep, b"{}", b"[{}]", b'[{"type":"file","path":"a","size":-1,"oid":"00"}]', b'{"sha":7}', b"\xff", b""):
        with Place() as p:
            p.fault(tree={"status": 200, "body": body}, times=99)
            if body:
                p.refused("'org/tiny': ")
            p.fault(revision={"status": 200, "body": body}, times=99)
            p.refused("does not say which commit")


def test_paths_that_leave_their_folder_are_refused():
    for path in ("../../../evil.json", "/etc/evil.json", "a/../../b.json", "a//b.json", "a\\b.json", "a\nb.json", "./a.json", ""):
        with Place() as p:
            p.repo.extra = [{"type": "file", "path": path, "size": 3, "oid": "0" * 40}]
            p.refused("which cannot be its path")
            assert not p.folder.exists(), "nothing is written"
    with Place() as p:
        p.repo.extra = [{"type": "file", "path": "tokenizer_config.json", "size": 3, "oid": "../../../../x" + "0" * 27}]
        p.refused("without a size or a hash")
    with Place() as p:
        p.repo.extra = [{"type": "file", "path": "config.json", "size": 3, "oid": "0" * 40}]
        p.refused("twice")
    with Place({**TEXTS, "model.safetensors.index.json": b'{"weight_map": {"a": "../../../x.safetensors"}}'}) as p:
        p.refused("which it lacks")


def test_lists_of_several_pages_are_read_to_their_end():
    with Place() as p:
        p.hub.page_entries = 2
        p.pull()
        p.check()
        assert len(requests_of(p, "hub", "/tree/")) == 3

    def elsewhere(handler):
        handler.send_response(200)
        handler.send_header("Link", '<http://127.0.0.2:1/api/models/org/tiny/tree/x>; rel="next"')
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"[]")

    with Place() as p:
        p.fault(tree={"raw": elsewhere}, times=99)
        p.refused("goes on at another host")


# ---- redirects and tokens ----

def test_the_token_goes_to_the_hub_alone():
    with Place(token="hf_sesame") as p:
        p.pull(HF_TOKEN="hf_sesame")
        assert all(h.get("Authorization") == "Bearer hf_sesame" for _, h in p.hub.asked("hub"))
        assert p.hub.asked("store") and not any("Authorization" in h for _, h in p.hub.asked("store"))
    with Place(token="hf_file", private=True) as p:
        p.refused("set HF_TOKEN")
        Path(p.env["HF_HOME"]).mkdir(exist_ok=True)
        Path(p.env["HF_HOME"], "token").write_text("hf_file\n")
        p.pull()
        p.check()
        p.refused("does not take the token", "org/other", HF_TOKEN="hf_wrong")
        p.refused("control character", HF_TOKEN="a b")


def test_gated_models_say_what_to_do():
    with Place(token="hf_me", gated=True) as p:
        assert f"accept its terms at {p.hub.url}/{NAME}" in p.refused("is gated, and no token does not open it")
        p.refused("is gated, and the token that was sent", HF_TOKEN="hf_me")
        p.repo.gated = "open"
        p.pull(HF_TOKEN="hf_me")
        p.check()
        p.refused("has no model 'org/none'", "org/none", HF_TOKEN="hf_me")
        p.refused("has no model 'org/none'", "org/none")


def test_redirects_are_bounded_and_stay_with_http():
    with Place() as p:
        p.hub.redirect = lambda file: p.hub.url + f"/{NAME}/resolve/main/{file.path}"
        p.refused("redirected more than 8 times")
        for url in ("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/"):
            p.hub.redirect = lambda file: url
            p.refused("another protocol")


def test_https_is_never_left():
    if not shutil.which("openssl"):
        raise Skip("openssl", "the command is not here")
    import ssl
    with Place() as p:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                        "subjectAltName=IP:127.0.0.1", "-keyout", f"{p.home}/key", "-out", f"{p.home}/cert"], check=True, capture_output=True)
        with Hub() as secure:
            secure.add(NAME, FILES)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(f"{p.home}/cert", f"{p.home}/key")
            secure.servers[0].socket = context.wrap_socket(secure.servers[0].socket, server_side=True)
            secure.url = secure.url.replace("http:", "https:")
            p.refused("certificate", HF_ENDPOINT=secure.url)
            p.refused("from https to http", HF_ENDPOINT=secure.url, SSL_CERT_FILE=f"{p.home}/cert")


def test_a_proxy_is_used_where_one_is_set():
    with Place() as p:
        asked = len(p.hub.asked("hub"))
        p.refused("http://hub.invalid", HF_ENDPOINT="http://hub.invalid", http_proxy=p.hub.url)
        assert any(path.startswith("http://hub.invalid/api/models/") for path, _ in p.hub.asked("hub")[asked:])
        p.pull(http_proxy="http://127.0.0.1:9", no_proxy="127.0.0.1")


# ---- kills, and several at once ----

def test_a_killed_download_goes_on_where_it_was():
    with Place() as p:
        p.hub.fault = lambda r: {"drip": 0.02} if r.kind == "blob" else None
        process = p.start("pull", NAME)
        blobs = p.folder / "blobs"
        for _ in range(200):
            half = list(blobs.glob(f"{p.repo.files['model.safetensors'].sha256}.trireme.incomplete")) if blobs.exists() else []
            if half and half[0].stat().st_blocks * 512 > 1_500_000:
                break
            time.sleep(0.02)
        process.kill()
        process.communicate()
        assert half, "it was not in the midst of it"
        have = half[0].stat().st_blocks * 512
        sent = len(requests_of(p, "store", "/blob/"))
        p.hub.fault = lambda r: None
        code, _, err = p.run("pull", NAME)
        assert code == 0 and "are here from an earlier download" in err, err
        p.check()
        ranges = [h.get("Range") for h in requests_of(p, "store", "/blob/")[sent:]]
        asked = sum(int(r.split("-")[1]) + 1 - int(r.split("=")[1].split("-")[0]) for r in ranges)
        assert asked < len(BIG) - have / 2, f"{have} bytes were there, {asked} were fetched again"


def test_a_record_that_lies_is_found_by_the_hash():
    with Place() as p:
        blobs = p.folder / "blobs"
        blobs.mkdir(parents=True)
        part = blobs / f"{p.repo.files['model.safetensors'].sha256}.trireme.incomplete"
        count = len(BIG) // 400_000 + 1
        sizes = [400_000] * (count - 1) + [len(BIG) - 400_000 * (count - 1)]
        record = b"TRIHUB01" + b"".join(n.to_bytes(8, "little") for n in (len(BIG), 400_000, *sizes))
        part.write_bytes(bytes(len(BIG)) + record)
        code, _, err = p.run("pull", NAME)
        assert code == 0 and "is not what its hash says; downloading it again" in err, err
        p.check()
        for broken in (record[:-1], record.replace(sizes[0].to_bytes(8, "little"), b"\xff" * 8)):
            p.run("delete", NAME)
            blobs.mkdir(parents=True)
            part.write_bytes(bytes(len(BIG)) + broken)
            p.pull()
            p.check()


def test_two_at_once_download_it_once():
    with Place() as p:
        p.hub.fault = lambda r: {"drip": 0.004} if r.kind == "blob" else None
        both = [p.start("pull", NAME) for _ in range(2)]
        ends = [b.communicate(timeout=60) for b in both]
        assert [b.returncode for b in both] == [0, 0], ends
        p.check()
        first = [h["Range"] for h in requests_of(p, "store", "/blob/")]
        assert len(first) == len(set(first)) == 8, first
        assert any("is being downloaded by another process" in err for _, err in ends), ends


def test_a_lock_of_huggingface_hub_is_waited_for():
    with Place() as p:
        lock = p.cache / ".locks" / "models--org--tiny" / f"{p.repo.files['config.json'].etag}.lock"
        lock.parent.mkdir(parents=True)
        with open(lock, "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            process = p.start("pull", NAME)
            said = process.stderr.readline()
            assert "config.json is being downloaded by another process" in said, said
            time.sleep(0.3)
            assert process.poll() is None, "it does not wait for the lock"
        assert process.wait(timeout=20) == 0, process.communicate()
        p.check()


def test_a_disk_without_room_is_said_before():
    with Place() as p:
        p.repo.extra = [{"type": "file", "path": "tokenizer.model", "size": 1 << 44, "oid": "0" * 40, "lfs": {"oid": "1" * 64, "size": 1 << 44}}]
        p.refused("has room for")
        assert not requests_of(p, "hub", "/resolve/")


# ---- the cache ----

def test_list_delete_and_prune():
    with Place() as p:
        old = p.repo.commit
        p.pull()
        p.repo = p.hub.add(NAME, {**FILES, "config.json": b'{"model_type": "qwen2"}'})
        p.pull()
        assert p.repo.commit != old
        p.hub.add("org/other", {"a-Q4_0.gguf": b"GGUF"})
        p.pull("org/other")
        models = {m["name"]: m for m in json.loads(p.run("list", "--json")[1])["models"]}
        assert set(models) == {NAME, "org/other"} and models[NAME]["revisions"] == 2 and models[NAME]["unused_bytes"] == 0
        unused = json.loads(p.run("prune", "--json", "--dry-run")[1])["unused"]
        assert unused == len(TEXTS["config.json"]) and json.loads(p.run("prune", "--json")[1])["freed"] == unused
        p.check({**FILES, "config.json": b'{"model_type": "qwen2"}'})
        assert not (p.folder / "snapshots" / old).exists()
        p.repo.revisions["v1"] = p.repo.commit
        p.pull(f"{NAME}@v1")
        assert json.loads(p.run("delete", "--json", f"{NAME}@v1")[1])["freed"] == 0 and p.snapshot().exists(), "main still means it"
        for missing in ("v2", "0" * 40):
            p.refused(f"'{NAME}@{missing}' is not in the cache", f"{NAME}@{missing}", command="delete")
        (p.folder / "blobs" / ("a" * 64 + ".12345678.incomplete")).write_bytes(b"given up" * 1000)
        assert json.loads(p.run("prune", "--json")[1])["freed"] >= 8000
        assert json.loads(p.run("delete", "--json", NAME)[1])["freed"] > len(BIG)
        assert not p.folder.exists() and [f.name for f in (p.cache / ".locks").iterdir()] == ["models--org--other"]
        p.refused("is not in the cache", command="delete")
        p.refused("not deleted one by one", "org/other:Q4_0", command="delete")


def test_prune_leaves_what_is_being_downloaded():
    with Place() as p:
        p.hub.fault = lambda r: {"drip": 0.01} if r.kind == "blob" else None
        process = p.start("pull", NAME)
        blobs = p.folder / "blobs"
        while process.poll() is None and not (blobs.exists() and list(blobs.glob("*.trireme.incomplete"))):
            time.sleep(0.01)
        p.refused("is being downloaded", command="delete")
        while process.poll() is None:
            p.run("prune")
        assert process.returncode == 0, process.communicate()
        p.check()


def test_names_are_served_and_a_path_wins():
    model = {f.name: f.read_bytes() for f in (ROOT / "demo" / "model").iterdir() if f.is_file()}
    with Place(model) as p:
        with Serve(model=NAME, env=p.env) as s:
            import urllib.request
            models = json.load(urllib.request.urlopen(f"http://127.0.0.1:{s.port}/v1/models"))["data"]
            assert [m["id"] for m in models] == [NAME], models
        p.hub.__exit__()
        for args, what in ((["info", NAME], "can be served   yes"), (["tokenize", NAME, "Hello you"], "3066,1267,320"),
                           (["run", "--max-tokens", "2", NAME, "hello"], "")):
            code, out, err = p.run(*args)
            assert code == 0 and what in out, (args, err)
        work = Path(p.home, "work")
        (work / NAME).mkdir(parents=True)
        here = subprocess.run([binary(), "info", NAME], cwd=work, env=p.env, capture_output=True, text=True)
        assert here.returncode == 1 and "hub" not in here.stdout.split("model")[1].split("\n")[0], here.stdout
        p.hub = Hub()
        p.hub.__enter__()


# ---- Ollama ----

def test_models_of_ollama():
    model = b"GGUF" + BIG[:900_000]
    with Place() as p:
        p.hub.add_ollama("library/tiny", "latest", [("model", model), ("template", b"{{ .Prompt }}"), ("params", b'{"stop":["x"]}'), ("license", b"free")])
        p.hub.add_ollama("someone/tiny", "1b", [("model", b"GGUF other")])
        p.hub.add_ollama("library/adapted", "latest", [("model", b"GGUF"), ("adapter", b"GGUF")])
        said = p.pull("ollama:tiny")
        blob = Path(said["path"])
        assert blob.read_bytes() == model and blob.name == "sha256-" + hashlib.sha256(model).hexdigest()
        assert str(blob).startswith(f"{p.home}/.cache/trireme/ollama/blobs/")
        assert Path(p.pull("ollama:someone/tiny:1b")["path"]).read_bytes() == b"GGUF other"
        p.refused("a layer of kind adapter", "ollama:adapted")
        p.refused("no model 'library/none' with the tag 'latest'", "ollama:none")
        names = [m["name"] for m in json.loads(p.run("list", "--json")[1])["models"]]
        assert names == ["ollama:someone/tiny:1b", "ollama:tiny:latest"], names
        p.run("delete", "ollama:tiny")
        assert not blob.exists() and len(list(blob.parent.iterdir())) == 1
        models = Path(p.home, ".ollama", "models")
        shutil.copytree(p.home + "/.cache/trireme/ollama", models)
        shutil.rmtree(p.home + "/.cache/trireme/ollama")
        assert f"{models}/blobs" in p.run("info", "ollama:someone/tiny:1b", HF_HUB_OFFLINE="1")[1], "what Ollama pulled is found"
        bad = {"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../x", "size": 3}]}
        p.hub.manifests["library/bad/manifests/latest"] = bad
        p.refused("its manifest cannot be read", "ollama:bad")


# ---- one cache for both ----

CLIENT = """
import sys, json, huggingface_hub as h
print(json.dumps(eval(sys.argv[1])))
"""


def ask_client(p, expression, **env):
    try:
        import huggingface_hub  # noqa: F401
    except ImportError:
        raise Skip("huggingface_hub", "the Python package is not here")
    r = subprocess.run([sys.executable, "-c", CLIENT, expression], env={**p.env, "HF_HUB_DISABLE_XET": "1", **env}, capture_output=True, text=True, timeout=60)
    return json.loads(r.stdout) if r.returncode == 0 else r.stderr.strip().splitlines()[-1]


def test_huggingface_hub_reads_what_we_pulled():
    with Place() as p:
        p.pull()
        paths = ask_client(p, f"[h.hf_hub_download('{NAME}', f) for f in {sorted(WANTED)}]", HF_HUB_OFFLINE="1")
        assert paths == [str(p.snapshot() / f) for f in sorted(WANTED)], paths
        path = ask_client(p, f"h.snapshot_download('{NAME}', allow_patterns=['*.safetensors', 'config.json'])", HF_HUB_OFFLINE="1")
        assert path == str(p.snapshot()), path
        # README.md was not pulled, and the client knows from our list of files that it is missing
        assert "IncompleteSnapshot" in ask_client(p, f"h.snapshot_download('{NAME}')", HF_HUB_OFFLINE="1")
        scan = ask_client(p, "(lambda c: [[r.size_on_disk for r in c.repos], list(map(str, c.warnings))])(h.scan_cache_dir())")
        assert scan == [[sum(len(FILES[f]) for f in WANTED)], []], scan
        before = len(p.hub.asked("store"))
        assert ask_client(p, f"h.snapshot_download('{NAME}')") == str(p.snapshot()), "and completes it"
        assert len([x for x, _ in p.hub.asked("store")[before:] if p.repo.files["model.safetensors"].sha256 in x]) == 0, "what is there stays"


def test_we_read_what_huggingface_hub_pulled():
    with Place() as p:
        path = ask_client(p, f"h.snapshot_download('{NAME}')")
        assert path == str(p.snapshot()), path
        before = len(p.hub.requests)
        code, out, _ = p.run("info", NAME, HF_HUB_OFFLINE="1")
        assert str(p.snapshot()) in out and len(p.hub.requests) == before, out
        assert [m["name"] for m in json.loads(p.run("list", "--json")[1])["models"]] == [NAME]
        p.pull()
        assert not [x for _, x, _ in p.hub.requests[before:] if "resolve" in x], "nothing comes twice"
    with Place() as p:  # an older client left no list of files
        assert len(ask_client(p, f"[h.hf_hub_download('{NAME}', f) for f in {sorted(WANTED)}]")) == len(WANTED)
        shutil.rmtree(p.folder / "trees", ignore_errors=True)
        assert str(p.snapshot()) in p.run("info", NAME, HF_HUB_OFFLINE="1")[1]
