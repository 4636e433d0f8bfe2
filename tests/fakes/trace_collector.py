"""A collector of OpenTelemetry traces: keeps what is posted to /v1/traces (OTLP/JSON), or answers badly when told to."""
import http.server
import json
import threading
import time


class TraceCollector:
    """`with TraceCollector() as c:` listens at c.url; c.status is what it answers, c.delay_s how late."""

    def __init__(self):
        self.spans, self.bodies, self.status, self.delay_s = [], [], 200, 0
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(collector.delay_s)
                if collector.status == 200:
                    collector.take(self.path, self.headers["Content-Type"], body)
                self.send_response(collector.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take(self, path, kind, body):
        assert (path, kind) == ("/v1/traces", "application/json"), (path, kind)
        document = json.loads(body)
        self.bodies.append(document)
        self.spans += [span for r in document["resourceSpans"] for s in r["scopeSpans"] for span in s["spans"]]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
