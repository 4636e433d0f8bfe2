"""It really batches, caches, shares the step, and says no in time (acceptance 3, second half)."""
import asyncio
import itertools
import math
import time

from serve import Serve
from stream import Result, request, run_many


def story(tokens, prompt="Once upon a time", **more):
    return "/v1/completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                               "stream_options": {"include_usage": True}, **more}


def best(measure, bound, tries=4):
    """The least of up to `tries` measurements, the first within the bound ends them: other work on the machine only adds to a time."""
    found = [measure()]
    while min(found) > bound and len(found) < tries:
        found.append(measure())
    return min(found)


def test_64_streams_share_each_step():
    """Once all have a slot, a step brings each of them a token. Counted, not timed: how fast the machine is makes no difference."""
    streams, steps = 64, 50
    with Serve(args=["--min-step-ms", 20]) as s:
        def counts():
            m = s.metrics("scheduler")
            return [m[f"trireme_scheduler_{name}"] for name in ("running", "steps_total", "output_tokens_total")]

        def watch():
            s.wait(lambda: counts()[0] == streams, 60, f"{streams} streams with a slot")
            before = counts()
            s.wait(lambda: counts()[1] >= before[1] + steps, 60, f"{steps} steps")
            return before, counts()

        async def main():
            tasks = [asyncio.create_task(request(s.port, *story(1500))) for _ in range(streams)]
            watched = await asyncio.get_running_loop().run_in_executor(None, watch)
            for t in tasks:
                t.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return watched
        before, after = asyncio.run(main())
        assert before[0] == after[0] == streams, f"{before[0]:g}, then {after[0]:g} streams had a slot"
        rows = (after[2] - before[2]) / (after[1] - before[1])
        assert rows >= 0.9 * streams, f"a step brought {rows:.1f} tokens to {streams} streams"
        return f"{rows:.1f} tokens a step"


def test_repeated_prompt_computes_its_last_block():
    words = " ".join(f"word{i}" for i in range(150))
    with Serve() as s:
        block = 32
        first = run_many(s.port, [story(4, words)])[0][0].usage
        prompt = first["prompt_tokens"]
        assert prompt >= 400, f"the prompt has only {prompt} tokens"
        before = s.metrics("scheduler")
        again = run_many(s.port, [story(4, words)])[0][0].usage
        cached = again["prompt_tokens_details"]["cached_tokens"]
        whole = (prompt - 1) // block * block
        assert first["prompt_tokens_details"]["cached_tokens"] == 0
        assert cached == whole, f"cached {cached} of {prompt}, expected {whole}"
        name = "trireme_scheduler_prefix_hit_tokens_total"
        rise = lambda: s.metrics("scheduler")[name] - before[name]
        s.wait(lambda: rise() >= whole, 5, f"{name} to rise")  # published a moment after the step
        assert rise() == whole, f"{name} rose by {rise()}"


def test_short_request_behind_long_prefill():
    begin = itertools.count(300)  # another prompt each time: nothing of it is cached
    with Serve(args=["--min-step-ms", 50, "--chunk-tokens", 128]) as s:
        async def main():
            big = Result({})
            token = next(begin)
            path, body = story(4, list(range(token, token + 1500)))
            a = asyncio.create_task(request(s.port, path, body, big))
            await asyncio.sleep(0.12)
            path, body = story(4, "Once upon a time")  # whose first token is text, so that it is seen
            small = await request(s.port, path, body)
            assert small.status == 200 and not small.error, small.error
            first = small.first_s
            await a
            return first, big.first_s
        # the rest of the step that runs, the one that is planned already, and its own, of 50 ms each
        bound = 0.05 * 3 + 0.05
        first, big = best(lambda: asyncio.run(main()), (bound, math.inf))
        assert first <= bound, f"first token after {first * 1000:.0f} ms"
        assert big > 0.4, f"the long prompt took only {big:.2f} s: the test has no force"
        return f"short request's first token after {first * 1000:.0f} ms"


def test_full_queue_says_429_at_once():
    with Serve(args=["--min-step-ms", 20, "--slots", 4, "--queue-max", 8]) as s:
        async def main():
            tasks = [asyncio.create_task(request(s.port, *story(100))) for _ in range(12)]
            await asyncio.sleep(0.5)
            late = []
            for _ in range(5):
                began = time.monotonic()
                r = await request(s.port, *story(100))
                late.append((r.status, time.monotonic() - began, r.error))
            for t in tasks:
                t.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return late
        late = asyncio.run(main())
        assert all(status == 429 for status, _, _ in late), late
        slowest = sorted(t for _, t, _ in late)[2]
        assert slowest < 0.05, f"429 after {slowest * 1000:.0f} ms (median of 5)"
        status, body, headers = 0, None, {}
        return f"429 after {slowest * 1000:.1f} ms"


def test_429_has_retry_after_and_shape():
    with Serve(args=["--min-step-ms", 50, "--slots", 1, "--queue-max", 1]) as s:
        async def main():
            tasks = [asyncio.create_task(request(s.port, *story(100))) for _ in range(2)]
            await asyncio.sleep(0.5)
            loop = asyncio.get_running_loop()
            reply = await loop.run_in_executor(None, lambda: s.post("/v1/completions", {"prompt": "x", "max_tokens": 3}))
            for t in tasks:
                t.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return reply
        status, body, headers = asyncio.run(main())
        assert status == 429, (status, body)
        assert int(headers["Retry-After"]) >= 1
        assert set(body["error"]) >= {"message", "type", "param", "code"}


def test_cancelled_client_frees_the_batch():
    with Serve(args=["--min-step-ms", 20]) as s:
        async def main():
            tasks = [asyncio.create_task(request(s.port, *story(1500))) for _ in range(16)]
            await asyncio.sleep(0.6)
            for t in tasks:
                t.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        asyncio.run(main())
        s.wait(lambda: s.metrics("scheduler")["trireme_scheduler_running"] == 0, 1.0, "all cancelled")
