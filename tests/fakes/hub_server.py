#!/usr/bin/env python3
"""A server that plays Hugging Face's hub, the host that its large files lie on, and Ollama's registry, with faults. Standard library only.

    with Hub() as hub:
        hub.add("org/tiny", {"config.json": b"{}", "model.safetensors": b"..."})
        hub.fault = lambda request: ...      # see Request.fault
        ... HF_ENDPOINT=hub.url, TRIREME_OLLAMA_REGISTRY=hub.url ...
        hub.requests                          # [(host, path, headers)], as they came

The hub and the store are two ports: two origins, so that a token sent to the second is seen.
Run alone it serves a folder as the model NAME, or org/FOLDER: hub_server.py FOLDER [PORT [NAME]].
"""
import hashlib
import json
import os
import re
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LARGE = (".safetensors", ".gguf", ".bin", ".model")


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class File:
    def __init__(self, path, data):
        self.path, self.data, self.is_large = path, data, path.endswith(LARGE)
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.git = git_sha1(b"pointer " + self.sha256.encode()) if self.is_large else git_sha1(data)
        self.etag = self.sha256 if self.is_large else self.git

    def entry(self):
        entry = {"type": "file", "oid": self.git, "size": len(self.data), "path": self.path}
        if self.is_large:
            entry["lfs"] = {"oid": self.sha256, "size": len(self.data), "pointerSize": 134}
        return entry


class Repo:
    def __init__(self, files, gated=False, private=False, commit=None):
        self.files = {path: File(path, data) for path, data in files.items()}
        self.commit = commit or hashlib.sha1(json.dumps(sorted(f.etag + p for p, f in self.files.items())).encode()).hexdigest()
        self.revisions = {"main": self.commit, self.commit: self.commit}
        self.gated, self.private = gated, private
        self.extra = []  # entries of the list of files that have no file


class Request:
    """What a fault function sees, and what it may ask for by returning a dict:

    status, headers, body    answer this instead
    cut                      end the connection after so many bytes of the body
    wait                     seconds before the answer
    drip                     seconds after each 4 kB of the body
    flip                     one bit of the body is wrong
    no_ranges                answer 200 with the whole, whatever range was asked for
    add                      bytes behind the body, and in its length
    raw                      a function that gets the handler and does all by itself
    """
    def __init__(self, kind, path, headers, range_, count):
        self.kind, self.path, self.headers, self.range, self.count = kind, path, headers, range_, count


class Hub:
    def __init__(self, token=None, port=0):
        self.repos, self.blobs, self.manifests = {}, {}, {}
        self.token, self.fault = token, lambda request: None
        self.requests, self.counts, self.lock = [], {}, threading.Lock()
        self.redirect = lambda file: f"{self.store_url}/blob/{file.sha256}?signature=1"
        self.page_entries = 1000
        self.servers = [self._server(self._hub, port), self._server(self._store)]
        self.url, self.store_url = (f"http://127.0.0.1:{s.server_address[1]}" for s in self.servers)

    def _server(self, answer, port=0):
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                with hub.lock:
                    hub.requests.append((answer.__name__[1:], self.path, dict(self.headers)))
                try:
                    answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            do_HEAD = do_GET

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.daemon_threads = True
        return server

    def __enter__(self):
        for s in self.servers:
            threading.Thread(target=s.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *args):
        for s in self.servers:
            s.shutdown()
            s.server_close()

    def add(self, repo, files, **options):
        made = Repo(files, **options)
        self.repos[repo] = made
        self.blobs.update((f.sha256, f) for f in made.files.values())
        return made

    def add_ollama(self, name, tag, layers):
        """layers: [(kind, data)]"""
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "layers": []}
        for kind, data in layers:
            f = File(kind + ".bin", data)
            self.blobs[f.sha256] = f
            manifest["layers"].append({"mediaType": f"application/vnd.ollama.image.{kind}", "digest": f"sha256:{f.sha256}", "size": len(data)})
        self.manifests[f"{name}/manifests/{tag}"] = manifest
        return manifest

    def asked(self, host):
        with self.lock:
            return [(path, headers) for h, path, headers in self.requests if h == host]

    # ---- answers ----

    def _fault(self, handler, kind, path):
        with self.lock:
            count = self.counts[kind, path] = self.counts.get((kind, path), 0) + 1
        request = Request(kind, path, dict(handler.headers), handler.headers.get("Range"), count)
        fault = self.fault(request) or {}
        time.sleep(fault.get("wait", 0))
        if "raw" in fault:
            fault["raw"](handler)
            handler.close_connection = True
            return None
        if "status" in fault:
            self._send(handler, fault["status"], fault.get("headers", {}), fault.get("body", b""))
            return None
        return fault

    def _send(self, handler, status, headers, body, fault=None):
        fault = fault or {}
        if fault.get("flip") and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        body += b"x" * fault.get("add", 0)
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command == "HEAD":
            return
        cut = fault.get("cut")
        step = 4096 if "drip" in fault else 1 << 16
        for at in range(0, len(body), step):
            piece = body[at:at + step]
            if cut is not None and at + len(piece) > cut:
                handler.wfile.write(piece[:max(0, cut - at)])
                handler.wfile.flush()
                handler.close_connection = True
                return
            handler.wfile.write(piece)
            time.sleep(fault.get("drip", 0))

    def _json(self, handler, value, headers=None):
        self._send(handler, 200, {"Content-Type": "application/json", **(headers or {})}, json.dumps(value).encode())

    def _refuse(self, handler, status, code, text):
        self._send(handler, status, {"X-Error-Code": code, "X-Error-Message": text}, json.dumps({"error": text}).encode())

    def _file(self, handler, kind, file, headers):
        fault = self._fault(handler, kind, file.path)
        if fault is None:
            return
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", handler.headers.get("Range") or "")
        if not asked or fault.get("no_ranges"):
            return self._send(handler, 200, {"Accept-Ranges": "bytes", **headers}, file.data, fault)
        first, last = int(asked[1]), min(int(asked[2] or len(file.data) - 1), len(file.data) - 1)
        if first > last:
            return self._send(handler, 416, {"Content-Range": f"bytes */{len(file.data)}"}, b"")
        headers = {**headers, "Content-Range": f"bytes {first}-{last}/{len(file.data)}"}
        self._send(handler, 206, headers, file.data[first:last + 1], fault)

    def _allowed(self, handler, name, repo):
        sent = handler.headers.get("Authorization")
        if sent and sent != f"Bearer {self.token}":
            self._refuse(handler, 401, "", "Invalid credentials in Authorization header")
        elif repo is None or (repo.private and not sent):
            self._refuse(handler, 404 if sent else 401, "RepoNotFound", "Repository not found")
        elif repo.gated and not (sent and repo.gated == "open"):
            self._refuse(handler, 403 if sent else 401, "GatedRepo", f"Access to model {name} is restricted")
        else:
            return True
        return False

    def _hub(self, handler):
        path, _, query = handler.path.partition("?")
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path)
        resolve = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        ollama = re.fullmatch(r"/v2/(.+/(?:manifests|blobs)/.+)", path)
        if ollama:
            return self._ollama(handler, ollama[1])
        if not api and not resolve:
            return self._refuse(handler, 404, "", "Not found")
        name = (api or resolve)[1]
        repo = self.repos.get(name)
        revision = urllib.parse.unquote((api[3] or "main") if api else resolve[2])
        if api and self._fault(handler, api[2] or "info", name) is None:
            return None
        if not self._allowed(handler, name, repo):
            return None
        if revision not in repo.revisions:
            return self._refuse(handler, 404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if resolve:
            return self._resolve(handler, repo, urllib.parse.unquote(resolve[3]))
        if api[2] == "tree":
            return self._tree(handler, name, repo, urllib.parse.parse_qs(query))
        return self._json(handler, {"id": name, "modelId": name, "sha": repo.commit, "private": repo.private, "tags": [], "downloads": 0,
                                    "siblings": [{"rfilename": p} for p in repo.files]})

    def _tree(self, handler, name, repo, query):
        entries = [f.entry() for f in repo.files.values()] + repo.extra
        at = int(query.get("cursor", ["0"])[0])
        headers = {}
        if at + self.page_entries < len(entries):
            headers["Link"] = f'<{self.url}/api/models/{name}/tree/{repo.commit}?recursive=true&cursor={at + self.page_entries}>; rel="next"'
        self._json(handler, entries[at:at + self.page_entries], headers)

    def _resolve(self, handler, repo, path):
        file = repo.files.get(path)
        headers = {"X-Repo-Commit": repo.commit}
        if not file:
            headers.update({"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
            return self._send(handler, 404, headers, b"Entry not found")
        headers["ETag"] = f'"{file.etag}"'
        if not file.is_large:
            return self._file(handler, "file", file, headers)
        if self._fault(handler, "resolve", file.path) is None:
            return None
        headers.update({"Location": self.redirect(file), "X-Linked-Etag": f'"{file.etag}"', "X-Linked-Size": str(len(file.data))})
        return self._send(handler, 302, headers, b"Found. Redirecting")

    def _store(self, handler):
        blob = re.fullmatch(r"/blob/([0-9a-f]{64})\?.*", handler.path)
        if not blob or blob[1] not in self.blobs:
            return self._send(handler, 404, {}, b"")
        return self._file(handler, "blob", self.blobs[blob[1]], {})

    def _ollama(self, handler, path):
        blob = re.fullmatch(r".+/blobs/sha256:([0-9a-f]{64})", path)
        if blob and blob[1] in self.blobs:
            return self._send(handler, 307, {"Location": f"{self.store_url}/blob/{blob[1]}?s=1"}, b"")
        if self._fault(handler, "manifest", path) is None:
            return None
        if path in self.manifests:
            return self._json(handler, self.manifests[path])
        return self._send(handler, 404, {}, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')


def main(folder, port=0, name=None):
    hub = Hub(port=int(port))
    files = {}
    for base, _, inside in os.walk(folder):
        for file in inside:
            path = os.path.join(base, file)
            files[os.path.relpath(path, folder)] = open(path, "rb").read()
    name = name or "org/" + os.path.basename(os.path.abspath(folder))
    hub.add(name, files)
    with hub:
        print(f"{name} at HF_ENDPOINT={hub.url}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
