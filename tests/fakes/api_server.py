"""Plays Kubernetes' API server, as far as Leases go: versions, conflicts, a token that changes, over TLS. Standard library only.

    with ApiServer(folder) as api:           # folder becomes a service account's: token, ca.crt, namespace
        ... api.environment ...              # for processes in its "pods"
        api.leases["scheduler"]              # the objects
        api.fault = lambda method, path: 503 # answer this instead
"""
import json
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SPACE = "inference"
BASE = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases"


class ApiServer:
    def __init__(self, folder):
        self.folder, self.leases, self.version, self.lock = Path(folder), {}, 100, threading.Lock()
        self.fault, self.seen = (lambda method, path: None), []
        key, pem = self.folder / "server.key", self.folder / "ca.crt"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=api", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", pem], check=True, capture_output=True)
        (self.folder / "namespace").write_text(SPACE)
        self.set_token("first")
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with api.lock:
                    api.seen.append((self.command, self.path))
                    status, out = api.handle(self.command, self.path, self.headers.get("Authorization"), body)
                data = json.dumps(out).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            do_GET = do_POST = do_PUT = answer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.server.server_address[1])}

    def set_token(self, token):
        self.token = token
        (self.folder / "token").write_text(token + "\n")

    def handle(self, method, path, authorization, body):
        fault = self.fault(method, path)
        if fault:
            return fault, {"kind": "Status", "code": fault}
        if authorization != f"Bearer {self.token}":
            return 401, {"kind": "Status", "code": 401}
        if method == "POST" and path == BASE:
            new = json.loads(body)
            name = new["metadata"]["name"]
            return self.store(name, new, 201) if name not in self.leases else (409, {"reason": "AlreadyExists"})
        name = path[len(BASE) + 1:]
        if not path.startswith(BASE + "/") or name not in self.leases:
            return 404, {"kind": "Status", "code": 404, "reason": "NotFound"}
        if method == "GET":
            return 200, self.leases[name]
        new = json.loads(body)
        if new["metadata"].get("resourceVersion") != self.leases[name]["metadata"]["resourceVersion"]:
            return 409, {"kind": "Status", "code": 409, "reason": "Conflict"}
        return self.store(name, new, 200)

    def store(self, name, new, status):
        assert new["kind"] == "Lease" and new["metadata"]["namespace"] == SPACE and new["metadata"]["name"] == name
        assert set(new["spec"]) <= {"holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions"}
        self.version += 1
        new["metadata"]["resourceVersion"] = str(self.version)
        self.leases[name] = new
        return status, new

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
