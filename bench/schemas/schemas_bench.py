"""Many constrained requests: whether what is sampled is valid, and what a flood of distinct schemas costs.

    ./dev bench schemas [OUTPUTS [SCHEMAS]]

Two parts, with the bundled model. OUTPUTS (10 000) answers under the MaskBench schemas of ../shared/data, sampled at temperature 1: those that
end by themselves must parse, and jsonschema must find them valid (pip install jsonschema). Then SCHEMAS (100 000) requests, each with a schema
that no other has: memory of gateway, scheduler and worker, the scheduler's turns, and the gaps between the tokens of free streams beside them,
compared with the same streams beside free requests, by turns.
"""
import asyncio
import json
import os
import random
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from serve import Serve, resident_bytes, shared  # noqa: E402
from stream import Result, request  # noqa: E402

QUICK = bool(os.environ.get("TRIREME_BENCH_QUICK"))
AT_ONCE, ROLES = 48, ("gateway", "scheduler", "worker")


async def flood(port, bodies, each):
    """At most AT_ONCE requests at a time; each(body, result) of all."""
    bodies = iter(bodies)

    async def one():
        for body in bodies:
            result = await request(port, "/v1/completions", body, Result(body), timeout=300)
            each(body, result)
    await asyncio.gather(*(one() for _ in range(AT_ONCE)))


# ---- what is sampled is valid ----

def in_year_zero(error):
    """RFC 3339 has a year 0, Python's dates have none; so a branch of an anyOf may be missed."""
    at_fault = getattr(error, "validator", "") == "format" and str(error.instance).startswith("0000-")
    return at_fault or any(map(in_year_zero, getattr(error, "context", None) or []))


def sampled(count):
    path = shared("structured/maskbench_subset.jsonl")
    if not path:
        return print("no ../shared/data: nothing is sampled")
    try:
        import jsonschema
    except ImportError:
        return print("no jsonschema: nothing is sampled")
    lines = path.read_text().splitlines()
    random.Random(5).shuffle(lines)
    schemas = [json.loads(line)["schema"] for line in lines]
    judged = [json.loads(line, parse_float=Decimal)["schema"] for line in lines]  # 20604.1 is a multiple of 0.01
    tally, wrong, validators = dict.fromkeys(("valid", "cut off", "refused", "failed"), 0), [], {}

    def bodies(quotes):  # a bias for what ends strings, so that more answers end
        for i in range(count):
            yield {"logit_bias": quotes, "prompt": "One day", "guided_json": schemas[i % len(schemas)], "temperature": 1, "seed": i, "max_tokens": 300, "at": i % len(schemas)}

    def each(body, result):
        at = body["at"]
        if result.status != 200:
            tally["refused" if result.status == 400 else "failed"] += 1
            return
        choice = result.json["choices"][0]
        if choice["finish_reason"] != "stop":
            tally["cut off"] += 1
            return
        if at not in validators:
            kind = jsonschema.validators.validator_for(judged[at], default=jsonschema.Draft202012Validator)
            validators[at] = kind(judged[at], format_checker=kind.FORMAT_CHECKER)
        try:
            error = next(validators[at].iter_errors(json.loads(choice["text"], parse_float=Decimal)), None)
        except Exception as e:  # the validator's own: what it cannot resolve
            error = None if "Unresolvable" in type(e).__name__ or "Ref" in type(e).__name__ else e
        if error and in_year_zero(error):
            error = None
        if error:
            wrong.append((at, choice["text"], str(error)[:200]))
        tally["valid"] += not error
    with Serve() as s:
        quotes = {str(s.post("/tokenize", {"prompt": text, "add_special_tokens": False})[1]["tokens"][-1]): 5 for text in ('"', '",', '"}')}
        begin = time.monotonic()
        asyncio.run(flood(s.port, bodies(quotes), each))
        print(f"{count} outputs in {time.monotonic() - begin:.0f} s: " + ", ".join(f"{n} {k}" for k, n in tally.items()) + f", {len(wrong)} wrong")
    for at, text, error in wrong[:10]:
        print(f"  schema {at}: {text[:200]!r}: {error}")
    return not wrong and not tally["failed"]


# ---- a flood of schemas ----

def distinct(i):
    return {"type": "object", "required": [f"name{i}"], "additionalProperties": False,
            "properties": {f"name{i}": {"type": "string", "maxLength": 10 + i % 30}, "tags": {"type": "array", "items": {"enum": ["a", f"b{i}", "c"]}}, "n": {"type": "integer", "maximum": i}}}


def gaps_beside(s, stop, out):
    """Gaps of four free streams, one after another, in ms."""
    async def one():
        while not stop.is_set():
            body = {"prompt": "One day", "max_tokens": 200, "ignore_eos": True, "stream": True, "temperature": 0}
            result = await request(s.port, "/v1/completions", body, Result(body))
            out.extend(1000 * (b - a) for a, b in zip(result.times, result.times[1:]))

    async def all_of_them():
        await asyncio.gather(*(one() for _ in range(4)))
    asyncio.run(all_of_them())


def measured(s, bodies, label):
    gaps, stop, failed = [], threading.Event(), []
    beside = threading.Thread(target=gaps_beside, args=(s, stop, gaps))
    beside.start()
    begin = time.monotonic()
    asyncio.run(flood(s.port, bodies, lambda body, r: failed.append(r.error) if r.status != 200 else None))
    seconds = time.monotonic() - begin
    stop.set()
    beside.join()
    gaps.sort()
    at = lambda p: gaps[min(len(gaps) - 1, int(p * len(gaps)))]  # noqa: E731
    memory = ", ".join(f"{role} {sum(map(resident_bytes, s.pids(role))) / 1e6:.1f} MB" for role in ROLES)
    print(f"{label}: {seconds:.0f} s, {len(failed)} failed; gaps of free streams p50/p99/p99.9 {at(.5):.1f}/{at(.99):.1f}/{at(.999):.1f} ms; {memory}", flush=True)
    return not failed


def turns(s):
    """Of the scheduler so far: all, over 5 ms, over 25 ms."""
    m = {k.split("turn_seconds_")[-1]: v for k, v in s.metrics("scheduler").items() if "turn_seconds" in k}
    return [m["count"], *(m["count"] - m[f'bucket{{le="{bound}"}}'] for bound in ("0.005", "0.025"))]


def flooded(count):
    free = {"prompt": "One day", "max_tokens": 4, "temperature": 1, "ignore_eos": True}
    with Serve(args=["--blocks", 4096]) as s:  # so that cached prefixes do not look like growth
        ok, parts = True, {"free requests": [0, 0, 0], "schemas": [0, 0, 0]}
        for part in range(4):
            some = range(part * count // 4, (part + 1) * count // 4)
            schemas = ({"prompt": "One day", "max_tokens": 4, "temperature": 1, "seed": i, "guided_json": distinct(i)} for i in some)
            for kind, bodies in (("free requests", ({**free, "seed": i} for i in some)), ("schemas", schemas)):
                before = turns(s)
                ok &= measured(s, bodies, f"beside {kind} {some.start} to {some.stop}")
                parts[kind] = [a + b - c for a, b, c in zip(parts[kind], turns(s), before)]
        for kind, (all_of_them, late, very_late) in parts.items():
            print(f"the scheduler's turns beside {kind}: {all_of_them:g}, over 5 ms {late:g}, over 25 ms {very_late:g}")
    return ok


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:]] + [10, 40][len(sys.argv) - 1:] if QUICK else ([int(a) for a in sys.argv[1:]] + [10000, 100000][len(sys.argv) - 1:])
    ok = [numbers[0] == 0 or sampled(numbers[0]) is not False, numbers[1] == 0 or flooded(numbers[1])]
    sys.exit(not all(ok))
