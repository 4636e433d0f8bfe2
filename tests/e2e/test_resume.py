"""Streams that are resumed: at any gateway, with the same key, byte by byte what the first connection would have had."""
import asyncio
import concurrent.futures
import json
import os
import random
import signal
import sys
import time

from resuming import events_of, fetch
from run import Skip
from serve import ROOT, Serve
from stream import request

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}


def asked():
    """Streams of each form: (path, body)."""
    chat = {"messages": [{"role": "user", "content": "Tell me of a fox."}], "max_tokens": 30, "stream": True, "seed": 5, "ignore_eos": True}
    plain = {"prompt": "Once upon a time", "max_tokens": 30, "stream": True, "seed": 6, "ignore_eos": True}
    usage = {"stream_options": {"include_usage": True}}
    return [("/v1/chat/completions", chat), ("/v1/chat/completions", {**chat, **usage, "logprobs": True, "top_logprobs": 3}),
            ("/v1/chat/completions", {**chat, "tools": [TOOL], "tool_choice": "required", "max_tokens": 60, "ignore_eos": False}),
            ("/v1/completions", {**plain, "max_tokens": 1200, "logprobs": 3}),  # a run that is written in many turns
            ("/v1/completions", {**plain, **usage, "stop": ["the", "a b"]}), ("/v1/completions", {**plain, "logprobs": 2, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}),
            ("/v1/messages", {"messages": chat["messages"], "max_tokens": 30, "stream": True})]


def test_any_part_again_byte_by_byte():
    """The rest from any event, and from any byte, at either of two gateways."""
    rng, compared = random.Random(3), 0
    with Serve(gateways=2, args=["--tool-call-parser", "hermes", "--reasoning-parser", "think"]) as s:
        for i, (path, body) in enumerate(asked()):
            name = f"talk-{i}"
            status, whole = fetch(s.port, "POST", path, body, {"X-Conversation-Id": name})
            assert status == 200 and whole.endswith((b"[DONE]\n\n", b'"message_stop"}\n\n')), (path, status, whole[-200:])
            events = events_of(whole)
            assert all(id for id, _ in events) and len(set(id for id, _ in events)) == len(events), events[:3]
            for k in rng.sample(range(len(events)), min(8, len(events))) + [len(events) - 1]:
                status, rest = fetch(s.port, "GET", f"/v1/stream/{name}", headers={"Last-Event-ID": events[k][0]})
                assert status == 200 and rest == b"".join(e for _, e in events[k + 1:]), (path, k, rest[:300])
                compared += 1
            for at in [0, 1, len(whole) - 1, len(whole)] + rng.sample(range(len(whole)), 6):
                status, rest = fetch(s.port, "GET", f"/v1/stream/{name}?from={at}")
                assert status == 200 and rest == whole[at:], (path, at, rest[:300])
                compared += 1
            status, rest = fetch(s.port, "POST", path, body, {"X-Conversation-Id": name, "Last-Event-ID": events[1][0]})
            assert status == 200 and rest == b"".join(e for _, e in events[2:]), path
    return f"{compared} parts"


def test_a_pattern_ends_it_at_the_same_byte_again():
    """A stop_regex inside of a word: in one piece, streamed, and the rest of the stream at another gateway, which compiles it anew."""
    plain = {"prompt": "Once upon a time", "max_tokens": 40, "seed": 6, "ignore_eos": True}
    with Serve(gateways=2) as s:
        text = s.post("/v1/completions", plain)[1]
        free = text["choices"][0]["text"]
        at = next(i for i in range(30, len(free)) if free[i - 2:i].isalpha() and free.index(free[i - 2:i]) == i - 2)
        pattern = {"stop_regex": ["[" + free[at - 2] + "]" + free[at - 1], "never so"], "stop": "never so"}
        choice = s.post("/v1/completions", {**plain, **pattern})[1]["choices"][0]
        assert (choice["text"], choice["finish_reason"]) == (free[:at], "stop"), (free, choice)
        _, whole = fetch(s.port, "POST", "/v1/completions", {**plain, **pattern, "stream": True}, {"X-Conversation-Id": "found"})
        events = events_of(whole)
        said = lambda raw: "".join(json.loads(e.split(b"data: ", 1)[1])["choices"][0]["text"] for _, e in events_of(raw) if b'"text"' in e)
        assert said(whole) == free[:at] and b'"finish_reason":"stop"' in whole, whole[-300:]
        for k in range(0, len(events), 3):
            _, rest = fetch(s.port, "GET", "/v1/stream/found", headers={"Last-Event-ID": events[k][0]})
            assert rest == b"".join(e for _, e in events[k + 1:]), (k, rest[:300])
        status, refused = s.post("/v1/completions", {**plain, "stop_regex": "a*"})[:2]
        assert status == 400 and refused["error"]["param"] == "stop_regex", refused


def test_several_choices_by_events():
    body = {"prompt": "Once upon a time", "max_tokens": 20, "stream": True, "seed": 9, "n": 3, "ignore_eos": True}
    with Serve(gateways=2) as s:
        _, whole = fetch(s.port, "POST", "/v1/completions", body, {"X-Conversation-Id": "three"})
        events = events_of(whole)
        for k in (0, 7, len(events) // 2):
            _, rest = fetch(s.port, "GET", "/v1/stream/three", headers={"Last-Event-ID": events[k][0]})
            strip = lambda es: sorted(e.split(b"\n", 1)[1] for _, e in es)  # choices take turns in another order
            assert strip(events[: k + 1]) + strip(events_of(rest)) and strip(events[: k + 1] + events_of(rest)) == strip(events), k
        assert fetch(s.port, "GET", "/v1/stream/three?from=10")[0] == 400, "bytes of three choices that take turns"


def test_only_the_same_key():
    body = {"prompt": "Once", "max_tokens": 5, "stream": True, "seed": 1}
    with Serve(args=["--api-key", "one,two"]) as s:
        one, two = ({"Authorization": f"Bearer {k}"} for k in ("one", "two"))
        assert fetch(s.port, "POST", "/v1/completions", body, {**one, "X-Conversation-Id": "mine"})[0] == 200
        assert fetch(s.port, "GET", "/v1/stream/mine", headers=two)[0] == 404
        assert fetch(s.port, "GET", "/v1/stream/mine")[0] == 401
        assert fetch(s.port, "GET", "/v1/stream/mine", headers=one)[0] == 200
        assert fetch(s.port, "GET", "/v1/stream/other", headers=one)[0] == 404
        for bad in ("a%20b", "x" * 129, "%ff"):
            assert fetch(s.port, "GET", f"/v1/stream/{bad}", headers=one)[0] == 400, bad
        assert fetch(s.port, "POST", "/v1/completions", body, {**one, "X-Conversation-Id": "no/name"})[0] == 400
        assert fetch(s.port, "GET", "/v1/stream/mine", headers={**one, "Last-Event-ID": "x"})[0] == 400


LONG = {"prompt": "Once upon a time", "max_tokens": 200, "stream": True, "seed": 4, "ignore_eos": True}


def running(s):
    return s.metrics("scheduler")["trireme_scheduler_running"]


def cancelled(s):
    return s.counted('trireme_scheduler_finishes_total{reason="cancelled"}')


def test_who_leaves_for_good_is_not_waited_for():
    """Without X-Conversation-Id a stream ends with its client; with it, it runs on and is whole for who comes back."""
    with Serve(args=["--min-step-ms", 10]) as s:
        fetch(s.port, "POST", "/v1/completions", LONG, stop_after=300)
        s.wait(lambda: running(s) == 0, 10, "the cancelled stream's end")
        assert cancelled(s) == 1
        _, begun = fetch(s.port, "POST", "/v1/completions", LONG, {"X-Conversation-Id": "stay"}, stop_after=300)
        time.sleep(0.5)
        assert running(s) == 1, "it did not run on"
        _, rest = fetch(s.port, "GET", f"/v1/stream/stay?from={len(begun)}")
        _, whole = fetch(s.port, "GET", "/v1/stream/stay")
        assert begun + rest == whole and whole.endswith(b"[DONE]\n\n"), "the two parts are not the whole"
        assert cancelled(s) == 1


def test_a_client_that_wants_no_more_ends_it():
    """DELETE ends a stream that runs without a reader, one that is read, and one that is whole; only its key may."""
    with Serve(args=["--min-step-ms", 10, "--api-key", "one,two"]) as s:
        one, two = ({"Authorization": f"Bearer {key}"} for key in ("one", "two"))
        for name, tokens, until in (("runs", 400, 300), ("whole", 5, None)):
            fetch(s.port, "POST", "/v1/completions", dict(LONG, max_tokens=tokens), {**one, "X-Conversation-Id": name}, stop_after=until)
            assert fetch(s.port, "DELETE", f"/v1/stream/{name}", headers=two)[0] == 404, "another key's"
            assert fetch(s.port, "DELETE", f"/v1/stream/{name}", headers=one) == (204, b"")
            s.wait(lambda: running(s) == 0, 2, f"the end of '{name}'")
            assert fetch(s.port, "GET", f"/v1/stream/{name}", headers=one)[0] == 404
            assert fetch(s.port, "DELETE", f"/v1/stream/{name}", headers=one)[0] == 404
        assert fetch(s.port, "DELETE", "/v1/stream/a%20b", headers=one)[0] == 400

        async def read_and_delete():
            reader = asyncio.create_task(request(s.port, "/v1/completions", LONG, headers=["X-Conversation-Id: read", "Authorization: Bearer one"]))
            await asyncio.sleep(0.6)
            status = await asyncio.get_running_loop().run_in_executor(None, lambda: fetch(s.port, "DELETE", "/v1/stream/read", headers=one)[0])
            return await reader, status
        reader, status = asyncio.run(read_and_delete())
        assert status == 204 and json.loads(reader.error)["code"] == "stream_taken" and not reader.finish, (status, reader)
        s.wait(lambda: running(s) == 0, 2, "what was read ran on")
        s.wait(lambda: s.metrics("scheduler")["trireme_scheduler_record_bytes"] == 0, 10, "nothing is kept")


def test_how_many_and_how_long():
    with Serve(args=["--tenant-streams", 2, "--record-ttl", "2s", "--min-step-ms", 10]) as s:
        for name in ("a", "b", "c"):
            fetch(s.port, "POST", "/v1/completions", dict(LONG, max_tokens=5), {"X-Conversation-Id": name})
        found = [fetch(s.port, "GET", f"/v1/stream/{n}")[0] for n in ("b", "c", "a")]
        assert found == [200, 200, 404], found
        longer = dict(LONG, max_tokens=900)  # 9 s: it must not end before it is given up, for an answer that ended is kept anew
        fetch(s.port, "POST", "/v1/completions", longer, {"X-Conversation-Id": "left"}, stop_after=300)
        s.wait(lambda: running(s) == 0, 8, "nobody came back")
        status, rest = fetch(s.port, "GET", "/v1/stream/left")
        assert status == 404, (status, rest[-300:])


def test_the_latest_reader_has_it():
    """A second connection takes the stream from the first, which is told; a new question with the same id ends the old answer."""
    with Serve(args=["--min-step-ms", 10]) as s:
        async def main():
            first = asyncio.create_task(request(s.port, "/v1/completions", LONG, headers=["X-Conversation-Id: one"]))
            await asyncio.sleep(0.6)
            second = await request_get(s.port, "/v1/stream/one")
            return await first, second
        first, second = asyncio.run(main())
        assert json.loads(first.error)["code"] == "stream_taken" and first.status == 200 and not first.finish, first.error
        assert second.endswith(b"[DONE]\n\n")
        fetch(s.port, "POST", "/v1/completions", LONG, {"X-Conversation-Id": "one"}, stop_after=300)
        _, short = fetch(s.port, "POST", "/v1/completions", dict(LONG, max_tokens=3), {"X-Conversation-Id": "one"})
        assert fetch(s.port, "GET", "/v1/stream/one")[1] == short
        s.wait(lambda: running(s) == 0, 2, "the answer before ran on")


def test_who_has_nothing_yet_is_told_too():
    """Three want a stream before its first token: each of the first two gets an answer when the next one comes, the last when it is ended."""
    with Serve(args=["--min-step-ms", 4000]) as s, concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(fetch, s.port, "POST", "/v1/completions", dict(LONG, max_tokens=2), {"X-Conversation-Id": "new"})
        s.wait(lambda: running(s) == 1, 4, "the request's arrival")
        for way in (("GET", "/v1/stream/new"), ("GET", "/v1/stream?conv_id=new"), ("DELETE", "/v1/stream?conv_id=new")):
            before, waiting = waiting, pool.submit(fetch, s.port, *way)
            status, body = before.result(20)
            error = json.loads(body)["error"]
            assert (status, error["code"]) == (409, "stream_taken") and "another" in error["message"], (way, status, body)
        assert waiting.result(20) == (204, b"")
        assert fetch(s.port, "GET", "/v1/stream?conv_id=new")[0] == 404
        for way in ("/v1/stream", "/v1/stream?conv_id=", "/v1/stream?conv_id=a%20b", "/v1/stream?from=3"):
            assert fetch(s.port, "GET", way)[0] == 400, way


async def request_get(port, path):
    return (await asyncio.get_running_loop().run_in_executor(None, fetch, port, "GET", path))[1]


def test_example_with_the_openai_package():
    """docs/examples/resume.py, while its gateway is killed again and again."""
    try:
        import openai
    except ImportError:
        raise Skip("openai", "the openai package is not installed")
    sys.path.insert(0, str(ROOT / "docs" / "examples"))
    import resume
    ask = dict(model="demo", messages=[{"role": "user", "content": "Tell me a story."}], max_tokens=120, seed=3, extra_body={"ignore_eos": True},
               stream_options={"include_usage": True})
    with Serve(args=["--min-step-ms", 20]) as s:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="none", max_retries=0)
        wanted = client.chat.completions.create(**{k: v for k, v in ask.items() if k != "stream_options"})
        chunks, killed = [], 0
        for chunk in resume.stream_chat(client, **ask):
            chunks.append(chunk)
            if len(chunks) in (5, 40):
                os.kill(s.pids("gateway")[0], signal.SIGKILL)
                killed += 1
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert killed == 2 and text == wanted.choices[0].message.content, text
        assert len({c.id for c in chunks}) == 1, "two answers were mixed"
        assert chunks[-1].usage and chunks[-1].usage.completion_tokens == 120, chunks[-1]
    return f"{killed} gateways killed under one answer"
