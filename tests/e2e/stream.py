"""A small streaming client: many SSE requests at once on raw sockets, with the arrival time of every chunk. Standard library only."""
import asyncio
import json
import time


# of events that Anthropic's messages are made of
BLOCKS = {"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "ping"}


class Result:
    """What one request gave: per choice text, finish reason and token count; usage; times."""

    def __init__(self, body):
        self.body = body
        self.status = 0
        self.text = {}
        self.finish = {}
        self.chunks = {}
        self.logprobs = {}
        self.usage = None
        self.last = None  # event
        self.error = None
        self.done = False
        self.times = []
        self.first_s = None
        self.started = time.monotonic()
        self.ended = None

    def key(self):
        """All that must be equal to an undisturbed run."""
        usage = self.usage or {}
        return (self.status, tuple(sorted(self.text.items())), json.dumps(self.logprobs, sort_keys=True), tuple(sorted(self.finish.items())), self.error,
                usage.get("prompt_tokens"), usage.get("completion_tokens"), self.done)

    def max_gap(self, since=None):
        times = [t for t in self.times if since is None or t >= since]
        before = [t for t in self.times if since is not None and t < since]
        times = before[-1:] + times
        return max((b - a for a, b in zip(times, times[1:])), default=0.0)

    def feed(self, event):
        now = time.monotonic()
        if "error" in event:
            self.error = json.dumps(event["error"], sort_keys=True)
            return
        self.last = event
        if event.get("type") in BLOCKS:
            self.feed_block(event, now)
            return
        if event.get("usage"):
            self.usage = event["usage"]
        for choice in event.get("choices", []):
            i = choice["index"]
            piece = choice["delta"].get("content") if "delta" in choice else choice.get("text")
            for call in choice.get("delta", {}).get("tool_calls") or []:
                piece = (piece or "") + (call["function"].get("name") or "") + call["function"]["arguments"]  # ids are drawn
            told = choice.get("logprobs") or {}
            self.logprobs.setdefault(i, []).extend(told.get("content") or told.get("token_logprobs") or [])
            if piece:
                self.text[i] = self.text.get(i, "") + piece
                self.chunks[i] = self.chunks.get(i, 0) + 1
                self.times.append(now)
                if self.first_s is None:
                    self.first_s = now - self.started
            if choice.get("finish_reason"):
                self.finish[i] = choice["finish_reason"]


    def feed_block(self, event, now):
        """An event of Anthropic's messages: the pieces of all blocks, each behind what it is."""
        kind, delta = event["type"], event.get("delta", {})
        block = event.get("content_block", {})
        piece = delta.get("text") or delta.get("thinking") or delta.get("partial_json") or block.get("name")
        if kind == "content_block_start":
            piece = f"[{block['type']}]" + (piece or "")
        if piece:
            self.text[0] = self.text.get(0, "") + piece
            self.chunks[0] = self.chunks.get(0, 0) + (kind == "content_block_delta")
            self.times.append(now)
            self.first_s = now - self.started if self.first_s is None else self.first_s
        if kind == "message_delta":
            self.finish[0] = delta["stop_reason"]
            self.usage = {"prompt_tokens": event["usage"].get("input_tokens"), "completion_tokens": event["usage"]["output_tokens"]}
        self.done |= kind == "message_stop"


async def request(port, path, body, result=None, on_chunk=None, timeout=120, headers=()):
    """One streaming POST. Returns its Result; a status other than 200 leaves the body's text in `error`."""
    result = result or Result(body)
    try:
        await asyncio.wait_for(_request(port, path, body, result, on_chunk, headers), timeout)
    except (asyncio.TimeoutError, OSError, asyncio.IncompleteReadError) as e:
        result.error = result.error or f"{type(e).__name__}: {e}"
    result.ended = time.monotonic()
    return result


async def _request(port, path, body, result, on_chunk, headers):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    try:
        data = json.dumps(body).encode()
        head = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(data)}", *headers, "", ""]
        writer.write("\r\n".join(head).encode() + data)
        await writer.drain()
        status = await reader.readuntil(b"\r\n\r\n")
        result.status = int(status.split(b" ", 2)[1])
        lower = status.lower()
        if result.status != 200 or b"text/event-stream" not in lower:
            length = [int(l.split(b":")[1]) for l in lower.split(b"\r\n") if l.startswith(b"content-length:")]
            raw = await reader.readexactly(length[0]) if length else await reader.read(1 << 20)
            result.error = raw.decode(errors="replace") if result.status != 200 else None
            result.json = json.loads(raw) if result.status == 200 else None
            return
        pending = b""
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            block = await reader.readexactly(size + 2)
            if size == 0:
                return
            pending += block[:-2]
            while b"\n\n" in pending:
                event, pending = pending.split(b"\n\n", 1)
                for line in event.split(b"\n"):
                    if line == b"data: [DONE]":
                        result.done = True
                    elif line.startswith(b"data: "):
                        result.feed(json.loads(line[6:]))
                        if on_chunk:
                            on_chunk(result)
    finally:
        writer.close()


def run_many(port_of, path_bodies, during=None, timeout=120):
    """Runs all (path, body) at once; `during(results)` is a coroutine that runs beside them. port_of: a port or a function of the index."""
    async def main():
        pick = port_of if callable(port_of) else (lambda i: port_of)
        results = [Result(body) for _, body in path_bodies]
        tasks = [asyncio.create_task(request(pick(i), path, body, results[i], timeout=timeout))
                 for i, (path, body) in enumerate(path_bodies)]
        beside = asyncio.create_task(during(results)) if during else None
        await asyncio.gather(*tasks)
        outcome = await beside if beside else None
        return results, outcome
    return asyncio.run(main())
