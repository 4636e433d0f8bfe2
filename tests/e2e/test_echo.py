"""Completions that echo their prompt: the prompt's log-probabilities are those of `trireme logits`, and what follows is what follows without echo."""
import json
import math
import subprocess
import urllib.request

from serve import Serve, binary, bundled_model

TEXT = "One day, a little girl named Lily found a needle in her room."


def ids_of(s, text, special=False):
    return s.post("/tokenize", {"prompt": text, "add_special_tokens": special})[1]["tokens"]


def log_probabilities(ids):
    """Of each position: of the token behind it, and the best."""
    out = subprocess.run([binary(), "logits", "--model", bundled_model()], input=json.dumps({"ids": ids}), capture_output=True, text=True, check=True)
    found = []
    for row, token in zip(json.loads(out.stdout)["logits"], ids[1:]):
        top = max(row)
        whole = top + math.log(sum(math.exp(x - top) for x in row))
        found.append((row[token] - whole, top - whole))
    return found


def completed(s, body, status=200):
    got, reply, _ = s.post("/v1/completions", {"temperature": 0, **body})
    assert got == status, (body, reply)
    return reply


def streamed(s, body):
    """(text, logprobs) of a stream, put together."""
    request = urllib.request.Request(f"http://127.0.0.1:{s.port}/v1/completions", json.dumps({"temperature": 0, "stream": True, **body}).encode(),
                                     {"Content-Type": "application/json"})
    text, columns = "", {}
    with urllib.request.urlopen(request, timeout=60) as r:
        for line in r.read().decode().splitlines():
            if not line.startswith("data: {"):
                continue
            choice = json.loads(line[6:])["choices"][0]
            text += choice["text"]
            for name, values in (choice["logprobs"] or {}).items():
                columns.setdefault(name, []).extend(values)
    return text, columns


def test_echo():
    with Serve() as s:
        ids, asked = ids_of(s, TEXT, special=True), {"prompt": TEXT, "echo": True, "logprobs": 3}
        wanted = log_probabilities(ids)
        for more, count in (({"max_tokens": 0}, 0), ({"max_tokens": 1}, 1), ({"max_tokens": 8, "n": 2}, 8), ({"max_tokens": 8, "prompt": ids}, 8)):
            reply = completed(s, {**asked, **more})
            assert reply["usage"]["prompt_tokens"] == len(ids) and reply["usage"]["completion_tokens"] == count * more.get("n", 1), reply["usage"]
            for choice in reply["choices"]:
                told = choice["logprobs"]
                assert choice["text"].startswith(TEXT) and choice["finish_reason"] == "length", choice
                assert told["token_logprobs"][0] is None and told["top_logprobs"][0] is None, told
                assert all(len(column) == len(ids) + count for column in told.values()), told
                for got, best, (value, top) in zip(told["token_logprobs"][1:], told["top_logprobs"][1:], wanted):
                    assert abs(got - value) < 1e-3 and abs(max(best.values()) - top) < 1e-3 and 0 < len(best) <= 4, (got, best, value, top)
                    assert got in best.values(), (got, best)  # the token's own, beside the three likeliest
                for offset, token, own in zip(told["text_offset"], told["tokens"], ids):  # the first has no text
                    assert choice["text"][offset:].startswith(token) or own == ids[0] and offset == 0, (offset, token)


def test_what_follows_is_the_same():
    with Serve() as s:
        ids = ids_of(s, TEXT)
        end = json.loads(s.get("/tokenizer_info")[1])["eos_token"]
        inside = [*ids[:5], ids_of(s, end)[0], *ids[5:]]
        for body in ({"prompt": ids, "max_tokens": 20}, {"prompt": ids, "max_tokens": 20, "temperature": 1, "seed": 5, "repetition_penalty": 1.2},
                     {"prompt": inside, "max_tokens": 200, "temperature": 1, "seed": 6}, {"prompt": ids[:1], "max_tokens": 9},
                     {"prompt": ids, "max_tokens": 60, "stop": [" a", "room"], "temperature": 1, "seed": 7}):
            plain, echo = completed(s, body), completed(s, {**body, "echo": True})
            before = completed(s, {**body, "echo": True, "max_tokens": 0})["choices"][0]
            assert before["finish_reason"] == "length" and not before["logprobs"], before
            got, expected = echo["choices"][0], plain["choices"][0]
            assert got["text"] == before["text"] + expected["text"] and got["finish_reason"] == expected["finish_reason"], (body, got, expected)
            assert echo["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"], (body, echo["usage"], plain["usage"])
            told = completed(s, {**body, "echo": True, "logprobs": 2})["choices"][0]
            assert streamed(s, {**body, "echo": True, "logprobs": 2}) == (got["text"], told["logprobs"]), body
            assert streamed(s, {**body, "echo": True})[0] == got["text"], body
        both = completed(s, {"prompt": [ids, ids[:4]], "max_tokens": 3, "echo": True})["choices"]
        assert [c["index"] for c in both] == [0, 1] and both[0]["text"].startswith(both[1]["text"][:4]), both
        for more in ({"min_tokens": 2}, {"presence_penalty": 1}, {"frequency_penalty": 1}, {"guided_regex": "a+"}, {"mirostat": 2}):
            reply = completed(s, {"prompt": TEXT, "echo": True, **more}, 400)
            assert reply["error"]["param"] == "echo" and next(iter(more)) in reply["error"]["message"], reply
