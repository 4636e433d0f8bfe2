"""A client that comes back for its stream: X-Conversation-Id, then GET /v1/stream/ID with Last-Event-ID. Standard library only.

It keeps every byte that it got, without the ids of the pieces that it lost: what it has at the end is one whole stream."""
import asyncio
import http.client
import json
import time

from stream import Result


class Cut(Exception):
    pass


def events_of(raw):
    """[(id, event bytes with its empty line)] of whole events."""
    return [(e.split(b"\n", 1)[0][4:].decode() if e.startswith(b"id: ") else None, e + b"\n\n") for e in raw.split(b"\n\n")[:-1]]


def fetch(port, method, path, body=None, headers=None, timeout=60, stop_after=None):
    """(status, raw body); with stop_after the connection is closed once so many bytes have come."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        if stop_after is None:
            return answer.status, answer.read()
        raw = b""
        while len(raw) < stop_after:
            piece = answer.read1(stop_after - len(raw))
            if not piece:
                break
            raw += piece
        return answer.status, raw
    finally:
        connection.close()


async def resuming(port, path, body, name, result=None, timeout=90, leaves_after=None):
    """As stream.request, but it comes back whenever its connection is lost, and leaves the first one by itself after so many events.
    result.raw has the stream; result.resumes counts."""
    result = result or Result(body)
    result.raw, result.resumes, last = b"", 0, None
    end = time.monotonic() + timeout
    while not result.done and time.monotonic() < end and result.error is None:
        try:
            last = await asyncio.wait_for(_once(port, path, body, name, result, last, leaves_after), end - time.monotonic())
        except Cut as cut:
            last = cut.args[0]
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            pass
        if not result.done:
            result.resumes += 1
            await asyncio.sleep(0.05)
    result.ended = time.monotonic()
    return result


async def _once(port, path, body, name, result, last, leaves_after):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    try:
        again = result.resumes > 0 and not getattr(result, "anew", False)
        result.anew = False
        data = b"" if again else json.dumps(body).encode()
        head = [f"GET /v1/stream/{name} HTTP/1.1" if again else f"POST {path} HTTP/1.1", "Host: 127.0.0.1"]
        head += [f"Last-Event-ID: {last}"] if again and last else []
        head += [] if again else ["Content-Type: application/json", f"X-Conversation-Id: {name}", f"Content-Length: {len(data)}"]
        writer.write("\r\n".join([*head, "", ""]).encode() + data)
        await writer.drain()
        status = int((await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1])
        if status in (404, 429, 503):
            if status == 404 and last is not None:
                result.status, result.error = status, "the stream is gone"
            result.anew = status == 404  # it never arrived
            return last
        result.status = status
        pending, events = b"", 0
        while True:
            if leaves_after and not again and events >= leaves_after:
                raise Cut(last)
            try:
                size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
                block = await reader.readexactly(size + 2)
            except (OSError, asyncio.IncompleteReadError, ValueError):
                raise Cut(last)
            if size == 0:
                return last
            pending += block[:-2]
            while b"\n\n" in pending:
                event, pending = pending.split(b"\n\n", 1)
                events += 1
                result.raw += event + b"\n\n"
                for line in event.split(b"\n"):
                    if line.startswith(b"id: "):
                        last = line[4:].decode()
                    elif line == b"data: [DONE]":
                        result.done = True
                    elif line.startswith(b"data: "):
                        result.feed(json.loads(line[6:]))
    finally:
        writer.close()
