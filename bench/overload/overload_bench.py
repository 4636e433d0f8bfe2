"""Overload: many times more requests than a server can answer, and how long those that it takes wait for their first token.

    ./dev bench overload [TIMES] [SECONDS] [WAIT]   default 12 times what the server can do, for 60 s, waits of at most 10 (s)

One `trireme serve` whose steps take 20 ms, so that what it can do is known and needs little of the machine. What it can do is
measured first, by clients that wait for their answer and ask again. Then requests come at random times, TIMES as many as that,
from six tenants, each with a key of its own. Those that are refused are counted; of those that are taken, the time to the first
token is compared with the bound on the wait (--queue-wait) and with what it is without load, and what each tenant got with an
equal share. What the server's own metrics say of it is read, too. Standard library only.
"""
import asyncio
import json
import os
import random
import re
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from serve import Serve  # noqa: E402

SLOTS, STEP_MS, TOKENS, TENANTS = 4, 20, 20, 6


async def ask(port, tenant, seed):
    """(status, seconds to the first token, seconds to the end, Retry-After)."""
    body = json.dumps({"prompt": "The fox", "max_tokens": TOKENS, "ignore_eos": True, "stream": True, "seed": seed}).encode()
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer key-%d\r\n"
                     b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (tenant, len(body)) + body)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        status, first = int(head.split()[1]), None
        retry = [int(line.split(":")[1]) for line in head.lower().splitlines() if line.startswith("retry-after:")]
        async for line in reader:
            if first is None and line.startswith(b"data: {"):
                first = time.monotonic() - began
        return status, first, time.monotonic() - began, retry[0] if retry else None
    finally:
        writer.close()


async def capacity(port, seconds):
    """Requests a second, by twice as many clients as there are slots."""
    end, done = time.monotonic() + seconds, 0

    async def client(tenant):
        nonlocal done
        while time.monotonic() < end:
            status = (await ask(port, tenant, 1))[0]
            done += status == 200
    began = time.monotonic()
    await asyncio.gather(*(client(i % TENANTS) for i in range(2 * SLOTS)))
    return done / (time.monotonic() - began)


async def flood(port, rate, seconds):
    """Whose each request was, and the answers in the same order; what failed is an exception."""
    rng, tasks, tenants, at = random.Random(1), [], [], time.monotonic()
    end = at + seconds
    while at < end:
        at += rng.expovariate(rate)
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        tenants.append(rng.randrange(TENANTS))
        tasks.append(asyncio.create_task(ask(port, tenants[-1], len(tasks))))
    return tenants, await asyncio.gather(*tasks, return_exceptions=True)


async def calm(port, seconds):
    """Seconds to the first token of requests that come one after the other."""
    end, first = time.monotonic() + seconds, []
    while time.monotonic() < end:
        first.append((await ask(port, len(first) % TENANTS, len(first)))[1])
    return first


def counted(serve, name, **labels):
    """The sum of a metric's samples that have these labels."""
    total = 0.0
    page = urllib.request.Request(f"http://127.0.0.1:{serve.port}/metrics", headers={"Authorization": "Bearer key-0"})
    with urllib.request.urlopen(page, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    for line in lines:
        if re.match(rf"{name}[{{ ]", line) and all(f'{key}="{value}"' in line for key, value in labels.items()):
            total += float(line.rsplit(" ", 1)[1])
    return total


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def main(argv):
    quick = bool(os.environ.get("TRIREME_BENCH_QUICK"))
    times = float(argv[0]) if argv else 12
    seconds = float(argv[1]) if argv[1:] else 3 if quick else 60
    bound = float(argv[2]) if argv[2:] else 1 if quick else 10
    keys = ",".join(f"key-{i}" for i in range(TENANTS))
    with Serve(args=["--min-step-ms", STEP_MS, "--slots", SLOTS, "--queue-wait", f"{round(bound * 1000)}ms", "--api-key", keys]) as serve:
        can = asyncio.run(capacity(serve.port, 1 if quick else 10))
        alone = asyncio.run(calm(serve.port, 1 if quick else 10))
        before = {status: counted(serve, "trireme_gateway_answers_total", status=status) for status in (200, 429)}
        tenants, answers = asyncio.run(flood(serve.port, times * can, seconds))
        told = {status: counted(serve, "trireme_gateway_answers_total", status=status) - before[status] for status in before}
        got = [sum(t == tenant and not isinstance(a, BaseException) and a[0] == 200 for t, a in zip(tenants, answers)) for tenant in range(TENANTS)]
        failed = [a for a in answers if isinstance(a, BaseException)]
        answers = [a for a in answers if not isinstance(a, BaseException)]
        taken = [a for a in answers if a[0] == 200 and a[1] is not None]
        refused = [a for a in answers if a[0] == 429]
        print(f"{can:.1f} requests/s can be answered; {times * can:.0f}/s offered for {seconds:.0f} s: {len(taken)} taken, "
              f"{len(refused)} refused, {len(answers) - len(taken) - len(refused)} other, {len(failed)} failed")
        if taken:
            first = [a[1] for a in taken]
            print(f"  first token of those taken: p50 {quantile(first, 0.5):.2f} s, p99 {quantile(first, 0.99):.2f} s, most {max(first):.2f} s; "
                  f"the bound is {bound} s: p99 is {quantile(first, 0.99) / bound:.2f} of it")
            p50, p99 = quantile(alone, 0.5), quantile(alone, 0.99)
            print(f"  without load: p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms; under load p99 is {quantile(first, 0.99) / p99:.1f} times that, "
                  f"p50 {quantile(first, 0.5) / p50:.1f} times; {len(taken) / seconds / can:.2f} of what can be answered was")
            print(f"  answers by tenant: {got}; the least is {min(got) * TENANTS / sum(got):.2f} of an equal share")
            print(f"  the server's metrics: {told[200]:.0f} answered, {told[429]:.0f} refused")
        if refused:
            took, after = [a[2] * 1000 for a in refused], [a[3] for a in refused if a[3] is not None]
            print(f"  refusals: p50 {quantile(took, 0.5):.1f} ms, p99 {quantile(took, 0.99):.1f} ms; Retry-After on {len(after)} of "
                  f"{len(refused)}, {min(after, default=0)} to {max(after, default=0)} s, p50 {quantile(after or [0], 0.5)} s")
        if (told[200], told[429]) != (len(taken), len(refused)):
            raise SystemExit("the metrics do not tell what the clients saw")
        if failed or len(taken) + len(refused) != len(answers):
            raise SystemExit(f"failed: {failed[:3]}; statuses: {sorted({a[0] for a in answers})}")


if __name__ == "__main__":
    main(sys.argv[1:])
