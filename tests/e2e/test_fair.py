"""A crowd at the text calls: whoever else asks is answered, and what nobody reads is bounded."""
import http.client
import json
import multiprocessing
import os
import re
import signal
import socket
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from serve import Serve, resident_bytes


def tokenize(port, size, stop, **fields):
    body = json.dumps({"content": "the quick brown fox " * (size // 20), **fields})
    while not stop.is_set():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("POST", "/tokenize", body, {"Content-Type": "application/json"})
            connection.getresponse().read()
        except OSError:
            pass
        finally:
            connection.close()


def kept_open(port, source, count):
    """So many connections that have had an answer and stay open, or as many as are taken; those that are refused are closed."""
    kept = []
    for _ in range(count):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10, source_address=(source, 0))
        try:
            connection.request("GET", "/health/live")
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                kept.append(connection)
                continue
        except OSError:
            pass
        connection.close()
    return kept


def test_a_crowd_takes_no_files_that_a_gateway_needs():
    """A gateway that may open fewer files than --connections-max: one address takes half of those it has for clients, others and a new
    scheduler are still reached. The scheduler asks for all files that it may have."""
    files = 600
    serve = Serve(args=["--model-wait", "60s"])
    serve.argv = ["sh", "-c", f'ulimit -Sn {files - 100} && ulimit -Hn {files} && exec "$0" "$@"'] + serve.argv
    with serve as s:
        assert f"only {files} files may be open" in s.log(), "the gateway tells that it takes fewer connections"
        for role in ("gateway", "scheduler"):
            limits = Path(f"/proc/{s.pids(role)[0]}/limits").read_text()
            assert re.search(rf"Max open files +{files} +{files} ", limits), (role, limits)
        kept = kept_open(s.port, "127.0.0.1", files)
        assert files / 4 < len(kept) < files / 2, f"{len(kept)} connections of one address"
        os.kill(s.pids("scheduler")[0], signal.SIGKILL)
        connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60, source_address=("127.0.0.2", 0))
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 1}), {"Content-Type": "application/json"})
        assert connection.getresponse().status == 200
        for c in kept + [connection]:
            c.close()
        return f"{len(kept)} connections of one address, {files} files"


def percentile(times, p):
    return sorted(times)[min(len(times) - 1, int(len(times) * p / 100))] * 1000


def live_times(server, seconds):
    times, end = [], time.monotonic() + seconds
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    while time.monotonic() < end:
        began = time.monotonic()
        connection.request("GET", "/health/live")
        assert connection.getresponse().read()
        times.append(time.monotonic() - began)
        time.sleep(0.002)
    connection.close()
    return times


def test_long_texts_hold_nobody_up():
    """Six clients tokenize 4 MB each, again and again: a probe waits for no such call."""
    with Serve() as s:
        ask = {"content": "the quick brown fox " * (200000), "with_pieces": True}
        stop = multiprocessing.Event()
        crowd = [multiprocessing.Process(target=tokenize, args=(s.port, 4_000_000, stop), kwargs={"with_pieces": True}) for _ in range(6)]
        calm = live_times(s, 1)
        for process in crowd:
            process.start()
        time.sleep(0.7)
        try:
            busy = live_times(s, 4)
        finally:
            stop.set()
            for process in crowd:
                process.join()
        # what a call takes that is alone; one on an event thread holds every second probe up for half of it
        began = time.monotonic()
        assert s.post("/tokenize", ask)[0] == 200
        alone = (time.monotonic() - began) * 1000
        late = percentile(busy, 99)
        assert late < alone / 6, f"/health/live p99 {late:.1f} ms beside calls of {alone:.0f} ms"
        return f"/health/live p50/p99 {percentile(calm, 50):.1f}/{percentile(calm, 99):.1f} -> {percentile(busy, 50):.1f}/{late:.1f} ms beside calls of {alone:.0f} ms"


def test_answers_that_nobody_reads_are_bounded():
    """24 calls whose answers have many times their size, and are not read."""
    body = json.dumps({"content": "a b " * (1 << 16), "with_pieces": True}).encode()
    head = f"POST /tokenize HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with Serve(args=["--answers-max", "16m"]) as s:
        status, answer, _ = s.post("/tokenize", body)
        size = len(json.dumps(answer))
        assert status == 200 and answer["count"] > 1 << 16 and size > 2 << 20
        gateway = s.pids("gateway")[0]
        before, sockets = resident_bytes(gateway), []
        for _ in range(24):
            sockets.append(socket.create_connection(("127.0.0.1", s.port)))
            sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sockets[-1].sendall(head + body)
        refused, peak = 0, 0
        end = time.monotonic() + 20
        while time.monotonic() < end and refused < 12:
            peak = max(peak, resident_bytes(gateway) - before)
            refused = sum(b" 503 " in peek(x) for x in sockets)
            time.sleep(0.05)
        assert refused >= 12, f"{refused} of 24 refused"
        held = peak / (1 << 20)
        assert held < 16 + 32, f"{held:.0f} MB for answers that nobody reads"
        for x in sockets:
            x.close()
        s.wait(lambda: s.post("/tokenize", body)[0] == 200, 10, "an answer once they are gone")
        s.wait(lambda: resident_bytes(gateway) - before < 8 << 20, 15, "the memory given back")
        return f"{held:.0f} MB held, {refused} of 24 refused, each {size >> 20} MB"


def peek(connection):
    try:
        return connection.recv(32, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return b""


def test_documents_that_nobody_reads_are_bounded():
    """Without a key, one address asks for the largest document again and again and reads none: it has half of the room, another the rest."""
    with Serve(args=["--connections-max", "2000"]) as s:
        document = len(s.get("/openapi.json")[1])
        gateway = s.pids("gateway")[0]
        before, sockets = resident_bytes(gateway), []
        for _ in range((192 << 20) // document):
            sockets.append(socket.socket())
            sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sockets[-1].connect(("127.0.0.1", s.port))
            sockets[-1].sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        s.wait(lambda: all(peek(x) for x in sockets), 20, "each has its first bytes")
        refused = sum(b" 503 " in peek(x) for x in sockets)
        held = (resident_bytes(gateway) - before) / (1 << 20)
        assert len(sockets) / 8 < refused < len(sockets) / 2, f"{refused} of {len(sockets)} refused"
        assert held < 128 + 32, f"{held:.0f} MB for documents that nobody reads"
        connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=30, source_address=("127.0.0.2", 0))
        connection.request("GET", "/openapi.json")
        answer = connection.getresponse()
        assert answer.status == 200 and len(answer.read()) > document / 2
        for x in sockets + [connection]:
            x.close()
        return f"{held:.0f} MB held, {refused} of {len(sockets)} refused"


def test_nobody_keeps_a_response_by_not_reading_it():
    """Who follows a kept response and does not read is cut once it is gone: its memory is nobody's else. Who reads has all of it."""
    ask = {"input": "Once upon a time", "background": True, "stream": True, "max_output_tokens": 400, "ignore_eos": True,
           "include": ["message.output_text.logprobs"], "top_logprobs": 20}
    with Serve() as s:
        made = socket.create_connection(("127.0.0.1", s.port))
        body = json.dumps(ask).encode()
        made.sendall(b"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        text = made.recv(65536)
        while b'"id":"resp_' not in text:
            text += made.recv(65536)
        made.close()
        path = "/v1/responses/" + text.split(b'"id":"')[1].split(b'"')[0].decode()
        s.wait(lambda: json.loads(s.get(path)[1])["status"] == "incomplete", 60, "it is made")
        status, whole = s.get(path + "?stream=true", timeout=30)
        assert status == 200 and len(whole) > 1 << 20 and "response.incomplete" in whole, (status, len(whole))
        gone = socket.socket()
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        gone.connect(("127.0.0.1", s.port))
        gone.sendall(f"GET {path}?stream=true HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        s.wait(lambda: peek(gone), 10, "its first events")
        count = lambda: s.metrics("gateway")["trireme_http_connections"]
        s.wait(lambda: count() == 2, 10, "the follower and who asks for metrics")
        request = urllib.request.Request(f"http://127.0.0.1:{s.port}{path}", method="DELETE")
        assert urllib.request.urlopen(request, timeout=10).status == 200
        s.wait(lambda: count() == 1, 10, "the follower is cut")
        gone.close()


def test_keys_have_their_bounds():
    """Two gateways, three keys: each may have what stands behind it, whichever gateway it asks, and metrics say so."""
    with tempfile.NamedTemporaryFile("w", prefix="trm-keys-") as keys:
        keys.write("few requests=1 name=few\nlittle tokens-per-minute=60 name=little\nfree\n")
        keys.flush()
        with Serve(gateways=2, args=["--api-key-file", keys.name, "--threads", 1, "--min-step-ms", 5]) as s:
            def ask(key, tokens=8):
                return s.post("/v1/completions", {"prompt": "Once upon a time", "max_tokens": tokens, "ignore_eos": True},
                              headers={"Authorization": f"Bearer {key}"})
            held = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
            held.request("POST", "/v1/completions", json.dumps({"prompt": "Once", "max_tokens": 1500, "ignore_eos": True, "stream": True}),
                         {"Content-Type": "application/json", "Authorization": "Bearer few"})
            answer = held.getresponse()
            assert answer.status == 200 and answer.readline().startswith(b"data: ")
            for _ in range(6):  # new connections: both gateways are asked
                status, body, headers = ask("few")
                assert status == 429 and int(headers["Retry-After"]) >= 1, (status, body)
                assert body["error"]["code"] == "rate_limit_exceeded" and "running" in body["error"]["message"], body
            assert ask("free")[0] == 200
            answer.close()
            held.close()
            s.wait(lambda: ask("few")[0] == 200, 10, "a place is free once the stream has ended")
            assert ask("little", 56)[0] == 200
            status, body, headers = ask("little")
            assert status == 429 and "minute" in body["error"]["message"], (status, body)
            assert 1 <= int(headers["Retry-After"]) <= 10, headers["Retry-After"]
            assert ask("free")[0] == 200
            told = s.metrics("gateway", headers={"Authorization": "Bearer free"})
            assert told['trireme_key_refused_total{key="few",bound="requests"}'] >= 6, sorted(k for k in told if "_key_" in k)
            assert told['trireme_key_refused_total{key="little",bound="tokens"}'] >= 1
            assert told['trireme_key_output_tokens_total{key="little"}'] == 56
            assert not any("free" in name for name in told)
            for reason, least in (("tenant_requests", 6), ("tenant_tokens", 1)):
                name = f'trireme_scheduler_rejects_total{{reason="{reason}"}}'
                assert s.counted(name, least), name


def test_whole_answers_share_their_room():
    """n choices with 20 log-probabilities a token: past the room 503; within it the answer is whole."""
    ask = {"prompt": "Once upon a time", "max_tokens": 60, "ignore_eos": True, "logprobs": 5, "n": 4, "seed": 1}
    with Serve(args=["--answers-max", "1m"]) as s:
        status, answer, _ = s.post("/v1/completions", ask)
        assert status == 200 and len(answer["choices"]) == 4
        status, answer, headers = s.post("/v1/completions", dict(ask, n=64, max_tokens=100))
        assert status == 503 and headers.get("Retry-After"), (status, str(answer)[:200])
        s.wait(lambda: s.metrics("scheduler")["trireme_scheduler_running"] == 0, 5, "the refused choices ended")
        computed = s.metrics("gateway")["trireme_gateway_output_tokens_total"]
        for many in (dict(ask, n=64, max_tokens=400), dict(ask, n=120, max_tokens=400, logprobs=1, ignore_eos=False)):
            status, answer, headers = s.post("/v1/completions", many)
            assert status == 503 and headers.get("Retry-After"), (status, str(answer)[:200])
        assert s.metrics("gateway")["trireme_gateway_output_tokens_total"] == computed, "what cannot be held is computed all the same"
        status, answer, _ = s.post("/v1/completions", dict(ask, n=20, max_tokens=100))  # past what is sent at once
        assert status == 200 and len(answer["choices"]) == 20 and len(json.dumps(answer)) > 256 << 10
        assert all(len(c["logprobs"]["tokens"]) == 100 for c in answer["choices"])


def test_one_key_does_not_fill_the_queue():
    """A key keeps far more choices waiting than there are places: another's requests are taken all the same."""
    greedy = {"prompt": "Once upon a time", "max_tokens": 40, "ignore_eos": True, "n": 16}
    small = {"prompt": "Once upon a time", "max_tokens": 2, "ignore_eos": True}
    with tempfile.NamedTemporaryFile("w", prefix="trm-keys-") as keys:
        keys.write("greedy\nother\n")
        keys.flush()
        with Serve(args=["--api-key-file", keys.name, "--slots", 4, "--queue-max", 32, "--queue-wait", "0"]) as s:
            def ask(key, body):
                return s.post("/v1/completions", body, headers={"Authorization": f"Bearer {key}"})
            stop, refused = threading.Event(), []

            def crowd():
                while not stop.is_set():
                    refused.append(ask("greedy", greedy)[0] == 429)
                    stop.wait(0.02)
            threads = [threading.Thread(target=crowd) for _ in range(8)]
            for thread in threads:
                thread.start()
            try:
                s.wait(lambda: refused.count(True) >= 8, 20, "a queue that is full")
                answers = [ask("other", small)[0] for _ in range(20)]
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
        assert answers == [200] * 20, answers
        return f"20 of 20 taken beside {refused.count(True)} of {len(refused)} of the other key refused"


def test_one_key_does_not_open_all_requests():
    """A key has as many requests open as the gateway takes: another's are taken all the same, up to its share."""
    stream = json.dumps({"prompt": "Once", "max_tokens": 450, "ignore_eos": True, "stream": True, "n": 32})
    with tempfile.NamedTemporaryFile("w", prefix="trm-keys-") as keys:
        keys.write("greedy\nother\nthird\n")
        keys.flush()
        with Serve(args=["--api-key-file", keys.name, "--slots", 2, "--requests-max", 12, "--queue-wait", "0", "--threads", 1]) as s:
            def opened(key):
                connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
                connection.request("POST", "/v1/completions", stream, {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
                connection.sock.setblocking(False)
                held.append(connection)
                return connection

            def is_refused(connection):
                answer = peek(connection.sock)
                assert not answer or answer.startswith(b"HTTP/1.1 200") or answer.startswith(b"HTTP/1.1 429"), answer
                return answer.startswith(b"HTTP/1.1 429")
            held = []
            of = {"greedy": [opened("greedy") for _ in range(20)]}
            s.wait(lambda: sum(map(is_refused, of["greedy"])) == 8, 10, "8 of 20 refused, 12 open")
            for key, share in (("other", 6), ("third", 4)):
                of[key] = [opened(key) for _ in range(share + 3)]
                s.wait(lambda: sum(map(is_refused, of[key])) == 3, 10, f"{share} of {share + 3} taken of {key}")
            time.sleep(0.2)
            refused = {key: sum(map(is_refused, connections)) for key, connections in of.items()}
            for connection in held:
                connection.close()
            assert refused == {"greedy": 8, "other": 3, "third": 3}, refused
            s.wait(lambda: s.post("/v1/completions", {"prompt": "Once", "max_tokens": 1}, headers={"Authorization": "Bearer greedy"})[0] == 200,
                   10, "a place once all have gone")


def ask_from(address, port, tally, stop):
    """Answers of 24 tokens, one after the other, as a client at this address; tally counts their tokens."""
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": 24, "ignore_eos": True})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120, source_address=(address, 0))
    while not stop.is_set():
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = json.loads(answer.read())
        if answer.status == 200 and not stop.is_set():
            tally.append(text["usage"]["completion_tokens"])
    connection.close()


def test_addresses_share_where_no_key_is_asked():
    """Thirty clients at one address, four at another, two slots: each address has its half of the tokens, and finds the other's prefix."""
    with Serve(args=["--slots", 2]) as s:
        crowd, few, stop = [], [], threading.Event()
        clients = [threading.Thread(target=ask_from, args=("127.0.0.1", s.port, crowd, stop)) for _ in range(30)]
        clients += [threading.Thread(target=ask_from, args=("127.0.0.2", s.port, few, stop)) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            s.wait(lambda: len(crowd) >= 10 and few, 60, "both addresses are served")
            del crowd[:], few[:]
            s.wait(lambda: len(crowd) + len(few) >= 150, 120, "150 answers")
            part = sum(few) / (sum(few) + sum(crowd))
        finally:
            stop.set()
            for client in clients:
                client.join()
        # in order of arrival it would be 4 of 34
        assert 0.35 < part < 0.65, f"the four got {part:.2f} of the tokens"
        prompt = "A prompt that has blocks enough to be found again. " * 12
        cached = []
        for address in ("127.0.0.3", "127.0.0.4"):
            connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60, source_address=(address, 0))
            connection.request("POST", "/v1/completions", json.dumps({"prompt": prompt, "max_tokens": 1}), {"Content-Type": "application/json"})
            cached.append(json.loads(connection.getresponse().read())["usage"]["prompt_tokens_details"]["cached_tokens"])
            connection.close()
        assert cached[0] < cached[1] and cached[1] > 32, f"cached tokens of the first and the second address: {cached}"
        return f"the four got {part:.2f} of the tokens; {cached[1]} tokens cached by another address"
