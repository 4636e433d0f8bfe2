"""Spans of requests at a collector: their times, their parents, who is sampled, and that a collector that fails harms nobody."""
import contextlib
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from serve import Serve, binary

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fakes"))
from trace_collector import TraceCollector  # noqa: E402

ASK = {"prompt": "Once", "max_tokens": 6, "temperature": 0, "ignore_eos": True}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def ask(s, traceparent=None, status=200, **more):
    answer = s.post("/v1/completions", {**ASK, **more}, headers={"traceparent": traceparent} if traceparent else {})
    assert answer[0] == status, answer


def times(span):
    return int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])


def values(span):
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


def traces(s, outcome):
    return s.metrics("gateway").get(f'trireme_gateway_traces_total{{outcome="{outcome}"}}', 0)


def spans_are_a_tree(c, before, after):
    root = next(span for span in c.spans if span["traceId"] == TRACE and span["kind"] == 2)
    children = {span["name"]: span for span in c.spans if span.get("parentSpanId") == root["spanId"]}
    assert root["parentSpanId"] == PARENT and root["name"] == "POST /v1/completions" and "status" not in root
    assert list(children) == ["queue", "prefill", "decode"], c.spans
    assert len({span["spanId"] for span in c.spans}) == len(c.spans)
    begin, end = times(root)
    assert before * 1e9 - 5e6 <= begin < end <= after * 1e9 + 5e6
    queue, prefill, decode = (times(children[name]) for name in ("queue", "prefill", "decode"))
    assert begin <= queue[0] <= queue[1] == prefill[0] <= prefill[1] == decode[0] < decode[1] == end, [
        at - begin for span in (queue, prefill, decode, (end,)) for at in span]
    got = values(root)
    assert got["gen_ai.usage.output_tokens"] == "60" and got["gen_ai.response.model"] == "demo", got
    assert got["http.response.status_code"] == "200" and got["trireme.finish"] == "length", got


def test_requests_are_traced():
    with TraceCollector() as c, Serve(args=["--otlp-endpoint", c.url, "--trace-ratio", "0", "--min-step-ms", 5]) as s:
        before = time.time()
        ask(s, f"00-{TRACE}-{PARENT}-01", max_tokens=60)  # 300 ms: more than one message brings, on a busy machine too
        after = time.time()
        ask(s, f"00-{'1' * 32}-{PARENT}-00")  # its client does not want it
        ask(s)  # nor does the ratio
        for wrong in ("00-xyz", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{PARENT}-01",
                      f"00-{TRACE.upper()}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01-more"):
            ask(s, wrong)
        ask(s, f"01-{'2' * 32}-{PARENT}-01-more", stream=False)  # of a later version
        s.wait(lambda: len(c.spans) >= 8, 5, "the spans of two requests")
        spans_are_a_tree(c, before, after)
        assert {span["traceId"] for span in c.spans} == {TRACE, "2" * 32}, c.spans
        assert re.search(rf"finish=length status=200 trace={TRACE}$", s.log(), re.M), "the log names the trace"
        assert traces(s, "sent") == 2
        resource = c.bodies[0]["resourceSpans"][0]["resource"]
        assert values(resource)["service.name"] == "trireme"


def test_a_collector_that_fails_harms_nobody():
    """It is slow, then it refuses; the variable that others know leads to it. Requests are answered as fast as before."""
    with TraceCollector() as c, Serve(env={"OTEL_EXPORTER_OTLP_ENDPOINT": c.url + "/"}) as s:
        c.status, c.delay_s = 503, 1.5
        for _ in range(12):
            began = time.monotonic()
            ask(s)
            assert time.monotonic() - began < 1.4, "a request waited for the collector"
            time.sleep(0.1)
        s.wait(lambda: traces(s, "failed") >= 1, 8, "the failure is counted")
        c.status, c.delay_s = 200, 0
        ask(s)
        s.wait(lambda: traces(s, "sent") >= 1, 8, "it goes on")
        assert s.log().count("traces are dropped") == 1 and s.log().count("takes them again") == 1
        assert not c.spans[0].get("parentSpanId") and traces(s, "full") == 0


@contextlib.contextmanager
def dripping():
    """A collector that answers a letter each half second, for ever; the port."""
    listener, ends = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def drip():
        while not ends.is_set():
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                while not ends.wait(0.5):
                    connection.sendall(b"H")

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        ends.set()
        listener.close()


def test_a_collector_that_drips_holds_no_end_up():
    with dripping() as port, Serve(args=["--otlp-endpoint", f"http://127.0.0.1:{port}"]) as s:
        ask(s)
        time.sleep(1.5)  # it is being sent
        for _ in range(3):
            ask(s)
        began = time.monotonic()
        s.process.terminate()
        assert s.process.wait(40) == 0, s.log()[-800:]
        took = time.monotonic() - began
        assert took < 12, f"the end took {took:.0f} s"


def test_what_is_no_endpoint_is_told():
    for wrong, why in (("collector:4318", "must begin with http://"), ("http://", "has no host"), ("http://a:0", "no proper port")):
        run = subprocess.run([binary(), "gateway", "--port=0", "--scheduler=ipc:///tmp/none.sock", f"--otlp-endpoint={wrong}"],
                             capture_output=True, timeout=20, text=True)
        assert run.returncode != 0 and why in run.stderr, (wrong, run.stderr)
