"""Responses in the background: asked for, left alone, read again on the way and at the end. Standard library only."""
import asyncio
import json
import time


class Lost(Exception):
    """Its gateway is gone, and what it kept with it."""


class Kept:
    """What one such response gave."""

    def __init__(self, body):
        self.body, self.status, self.output, self.usage, self.events, self.error = body, None, None, None, [], None
        self.tries, self.polls = 0, 0

    def key(self):
        """All that must be equal to an undisturbed run: ids are drawn, and what was cached depends on who came before."""
        return self.status, self.output, self.usage, tuple(self.events), self.error


def without_ids(items):
    drawn = ("id", "call_id")
    if isinstance(items, list):
        return [without_ids(i) for i in items]
    return {k: without_ids(v) for k, v in items.items() if k not in drawn} if isinstance(items, dict) else items


class Connection:
    """One connection, so one gateway of those that share the port."""

    def __init__(self, port):
        self.port = port

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 22)
        return self

    async def __aexit__(self, *trace):
        self.writer.close()

    async def ask(self, method, path, body=None):
        """(status, whole body, or None for a stream)"""
        data = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(data)}", "", ""]
        self.writer.write("\r\n".join(head).encode() + data)
        await self.writer.drain()
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head.split(b" ", 2)[1])
        length = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
        return status, json.loads(await self.reader.readexactly(length[0])) if length else None

    async def events(self):
        pending = b""
        while True:
            size = int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16)
            pending += (await self.reader.readexactly(size + 2))[:-2]
            while b"\n\n" in pending:
                event, pending = pending.split(b"\n\n", 1)
                for line in event.split(b"\n"):
                    if line.startswith(b"data: "):
                        yield json.loads(line[6:])
            if size == 0:
                return


def take(kept, response):
    kept.status, kept.output = response["status"], json.dumps(without_ids(response["output"]), sort_keys=True)
    usage = response["usage"]
    kept.usage = usage and (usage["input_tokens"], usage["output_tokens"])


def over(status):
    return status not in ("queued", "in_progress")


async def poll(port, kept):
    """Asks for it, and reads it every now and then until it is over."""
    async with Connection(port) as c:
        status, response = await c.ask("POST", "/v1/responses", kept.body)
        assert status == 200 and response["status"] in ("queued", "in_progress"), (status, response)
        while not over(response["status"]):
            await asyncio.sleep(0.1)
            status, response = await c.ask("GET", f"/v1/responses/{response['id']}")
            assert status == 200, (status, response)
            kept.polls += 1
        take(kept, response)


def note(kept, event):
    """The bytes of text and arguments, in order."""
    assert event["sequence_number"] == kept.next, (event, kept.next)
    kept.next += 1
    if "delta" in event:
        kept.events.append((event["type"], event["delta"]))


async def follow(port, kept):
    """Asks for its events, leaves after some, and comes back for those behind."""
    kept.events, kept.next = [], 0
    async with Connection(port) as c:
        status, _ = await c.ask("POST", "/v1/responses", kept.body)
        assert status == 200, status
        async for event in c.events():
            note(kept, event)
            if event["type"] == "response.created":
                name = event["response"]["id"]
            if kept.next == 12:
                break
    for _ in range(200):  # until the gateway that has it answers
        async with Connection(port) as c:
            status, _ = await c.ask("GET", f"/v1/responses/{name}?stream=true&starting_after={kept.next - 1}")
            if status == 404:
                continue
            async for event in c.events():
                note(kept, event)
            take(kept, event["response"])
            return
    raise Lost("no gateway has it")


async def in_background(port, kept, may_be_lost=False, timeout=90):
    """Runs it to its end; where its gateway may die, it is asked for again."""
    end = time.monotonic() + timeout
    while True:
        kept.tries += 1
        try:
            await asyncio.wait_for((follow if kept.body.get("stream") else poll)(port, kept), end - time.monotonic())
            return kept
        except (OSError, ValueError, asyncio.IncompleteReadError, Lost) as e:
            if not may_be_lost or time.monotonic() > end:
                kept.error = f"{type(e).__name__}: {e}"
                return kept
            await asyncio.sleep(0.1)
        except (AssertionError, asyncio.TimeoutError) as e:
            kept.error = f"{type(e).__name__}: {e}"
            return kept
