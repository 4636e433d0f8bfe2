"""Fields whose effect only a model shows: the tokens that may come, the words that may not, the best of several choices, a prompt's own
log-probabilities, prompts that are cut, answers of no tokens."""
import http.client
import json
import os
import tempfile
import urllib.request

from serve import Serve
from stream import run_many

SAY = [{"role": "user", "content": "Tell me of the fox."}]
PROMPT = "One day, a little girl named Lily found a needle in her room."


def asked(s, body, path="/v1/completions", status=200):
    got, reply, _ = s.post(path, {"temperature": 1, "seed": 3, "max_tokens": 30, **body})
    assert got == status, (body, reply)
    return reply


def ids_of(s, text):
    return s.post("/tokenize", {"prompt": text, "add_special_tokens": False})[1]["tokens"]


def events_of(s, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    events = [json.loads(line[6:]) for line in connection.getresponse().read().decode().splitlines() if line.startswith("data: {")]
    connection.close()
    return events


def listed(i):
    """Requests with lists of tokens and words of their own, longer than a fault takes."""
    body = {"prompt": f"One day a fox number {i % 5}", "max_tokens": 60, "temperature": 1, "seed": i, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}, "n": 1 + i % 2}
    lists = [{"bad_words": ["the", "was", "a"]}, {"allowed_token_ids": list(range(300, 900))},
             {"bad_words": [" little girl", "and"], "allowed_token_ids": list(range(250, 2000, 2))}]
    return "/v1/completions", dict(body, **lists[i % 3])


def test_only_allowed_tokens_and_no_bad_words():
    with Serve() as s:
        allowed = sorted({i for word in (" the", " fox", " ran", ".") for i in ids_of(s, word)})
        for path, body in (("/v1/completions", {"prompt": PROMPT}), ("/v1/chat/completions", {"messages": SAY})):
            for n in (1, 3):
                for choice in asked(s, {**body, "allowed_token_ids": allowed, "return_token_ids": True, "n": n}, path)["choices"]:
                    assert choice["token_ids"] and set(choice["token_ids"]) <= set(allowed), choice
                    assert choice["finish_reason"] == "length", choice  # no token that ends an answer is allowed
            plain = asked(s, {**body, "temperature": 0}, path)["choices"][0]
            text = plain.get("text") or plain["message"]["content"]
            word = next(w.strip(".,!\"") for w in text.split()[1:] if len(w) > 2)
            other = asked(s, {**body, "temperature": 0, "bad_words": [word], "return_token_ids": True}, path)["choices"][0]
            banned = [ids_of(s, w) for w in (word, " " + word)]
            for ids in banned:
                assert all(other["token_ids"][i: i + len(ids)] != ids for i in range(len(other["token_ids"]))), (word, other)
            assert (other.get("text") or other["message"]["content"]) != text, other
        reply = asked(s, {"prompt": PROMPT, "allowed_token_ids": [10 ** 6]}, status=400)
        assert reply["error"]["param"] == "allowed_token_ids", reply
        for more in ({"guided_regex": "a+"}, {"min_tokens": 2, "stop_token_ids": [7], "allowed_token_ids": [7]}):
            reply = asked(s, {"prompt": PROMPT, "allowed_token_ids": [7, 8], **more}, status=400)
            assert reply["error"]["param"] == "allowed_token_ids", reply
        constrained = asked(s, {"prompt": PROMPT, "guided_choice": ["red", "blue"], "bad_words": ["red", "blue", "b", "r"]})["choices"][0]
        assert constrained["text"] in ("red", "blue"), constrained  # where nothing else may come, a bad word does


def test_what_llama_and_hugging_face_call_their_fields():
    """A text in place of its tokens in logit_bias; do_sample; a suffix where the vocabulary has no marks for it."""
    with Serve() as s:
        plain = asked(s, {"prompt": PROMPT, "temperature": 0})["choices"][0]["text"]
        assert asked(s, {"prompt": PROMPT, "temperature": 1, "do_sample": False})["choices"][0]["text"] == plain
        word = " " + plain.split()[1]
        for bias in ([[word, False]], {word: -100}):
            other = asked(s, {"prompt": PROMPT, "temperature": 0, "logit_bias": bias, "return_token_ids": True})["choices"][0]
            assert not set(ids_of(s, word)) & set(other["token_ids"]) and other["text"] != plain, (word, other)
        assert asked(s, {"prompt": PROMPT, "suffix": "x"}, status=501)["error"]["message"].endswith("between two others")


def test_what_an_answer_tells_on_request():
    """Tokens called by their ids, timings, a client's own time, and the paths of other servers for the same calls."""
    chat = {"messages": SAY, "max_tokens": 4, "temperature": 0, "logprobs": True, "top_logprobs": 2, "return_tokens_as_token_ids": True}
    with Serve(args=["--min-step-ms", 10]) as s:
        choice = asked(s, {**chat, "return_token_ids": True}, "/chat/completions")["choices"][0]
        assert [e["token"] for e in choice["logprobs"]["content"]] == [f"token_id:{i}" for i in choice["token_ids"]], choice
        assert all(t["token"].startswith("token_id:") for e in choice["logprobs"]["content"] for t in e["top_logprobs"]), choice
        choice = asked(s, {"prompt": PROMPT, "logprobs": 1, "return_tokens_as_token_ids": True, "return_token_ids": True})["choices"][0]
        assert choice["logprobs"]["tokens"] == [f"token_id:{i}" for i in choice["token_ids"]], choice
        for path, body in (("/v1/completions", {"prompt": PROMPT}), ("/v1/chat/completions", {"messages": SAY})):
            assert "timings" not in asked(s, body, path)
            body["timings_per_token"] = True
            whole = asked(s, body, path)
            (streamed,), _ = run_many(s.port, [(path, dict(body, max_tokens=30, stream=True, stream_options={"include_usage": True}))])
            assert streamed.done and streamed.error is None, streamed.error
            for told, usage in ((whole["timings"], whole["usage"]), (streamed.last["timings"], streamed.usage)):
                assert told["predicted_n"] == usage["completion_tokens"] and told["predicted_ms"] > 0, (told, usage)
                assert told["prompt_n"] + told["cache_n"] == usage["prompt_tokens"], (told, usage)
            assert "__verbose" not in whole
            whole = asked(s, {**body, "verbose": True, "top_k": 40, "max_tokens": 20, "temperature": None, "seed": None}, path)
            told = whole["__verbose"]["generation_settings"]
            assert (told["temperature"], told["top_p"], told["top_k"], told["n_predict"]) == (0.7, 0.9, 40, 20), told  # two of them are the model's defaults
            again = asked(s, {**body, "seed": told["seed"], "temperature": 0.7, "top_p": 0.9, "top_k": 40, "max_tokens": 20}, path)
            assert told["seed"] < 1 << 53, "a client that knows floats alone would send back another"
            assert again["choices"] == whole["choices"], "what was told does not lead to the same answer"
            (streamed,), _ = run_many(s.port, [(path, dict(body, verbose=True, seed=3, max_tokens=5, stream=True))])
            assert streamed.last["__verbose"]["generation_settings"]["seed"] == 3 and streamed.last["choices"] == [], streamed.last
        for path, body in (("/v1/completions", {"prompt": PROMPT, "n": 2}), ("/v1/chat/completions", {"messages": SAY}), ("/completion", {"prompt": PROMPT})):
            body.update(stream=True, max_tokens=5, return_progress=True)
            events = events_of(s, path, body)
            parts = [(i, e["prompt_progress"]) for i, e in enumerate(events) if "prompt_progress" in e]
            firsts = [e["choices"][0] if e.get("choices") else e for e in events]
            texts = [i for i, c in enumerate(firsts) if not c.get("index") and (c.get("text") or c.get("content") or c.get("delta", {}).get("content"))]
            done, times = [p["processed"] for _, p in parts], [p["time_ms"] for _, p in parts]
            assert parts[-1][0] < texts[0] and len({p["total"] for _, p in parts}) == len({p["cache"] for _, p in parts}) == 1, events
            assert done[0] == parts[0][1]["cache"] and done == sorted(set(done)) and done[-1] == parts[0][1]["total"], parts
            assert times[0] == 0 and times == sorted(times), parts
            assert len(done) == 2 or path != "/v1/completions", "a prompt of one part is told of when it begins and when it is done"
        usual = json.loads(s.get("/props")[1])["default_generation_settings"]["params"]
        assert (usual["temperature"], usual["top_p"], usual["top_k"], usual["n_predict"]) == (0.7, 0.9, 0, -1), usual
        assert set(told) - set(usual) == {"seed"}, "a request's own seed is drawn"
        late = {"prompt": PROMPT, "max_tokens": 1000, "ignore_eos": True}
        assert asked(s, {**late, "timeout": 0.3}, status=504)["error"]["code"] == "timeout"
        asked(s, {**late, "max_tokens": 5, "timeout": 60})
        count = asked(s, {"messages": SAY}, "/v1/chat/completions/input_tokens")
        assert count == {"object": "response.input_tokens", "input_tokens": whole["usage"]["prompt_tokens"]}, count
        assert s.get("/models")[1] == s.get("/v1/models")[1] and s.get("/lora-adapters") == (200, "[]")
        for path in ("/v1/health", "/ping", "/health_generate"):
            assert s.get(path)[0] == 200, path
        assert s.post("/ping", b"")[0] == 200


def test_a_prompt_is_told_of_part_by_part():
    body = {"prompt": " ".join(PROMPT.split() * 8), "max_tokens": 3, "stream": True, "n": 2}
    with Serve(args=["--max-step-tokens", "32"]) as s:
        for asks in (True, False):
            events = events_of(s, "/v1/completions", dict(body, return_progress=asks, cache_salt=str(asks)))
            done = [e["prompt_progress"]["processed"] for e in events if "prompt_progress" in e]
            assert not done or asks
            # at most two steps are in flight, so no more than two parts are told at once
            assert not asks or (done[0] == 0 and len(done) >= 3 and all(n % 32 == 0 for n in done[:-1]) and done == sorted(set(done))), done
            first = [e for e in events if e["choices"] and e["choices"][0]["index"] == 0]  # the other one may be ahead of it
            assert all("prompt_progress" in e for e in first[: len(done)]), first


def test_lists_are_the_same_alone_and_preempted():
    requests = [listed(i) for i in range(9)]
    with Serve() as s:
        alone = [run_many(s.port, [r])[0][0].key() for r in requests]
        assert [r.key() for r in run_many(s.port, requests)[0]] == alone
        free = [run_many(s.port, [("/v1/completions", {k: v for k, v in body.items() if k not in ("bad_words", "allowed_token_ids")})])[0][0].key() for _, body in requests]
        assert all(a != b for a, b in zip(alone, free)), "the same text as without the lists"
    with Serve(args=["--blocks", 24, "--block-tokens", 16, "--min-step-ms", 5]) as s:  # they meet, however late each is sent
        assert [r.key() for r in run_many(s.port, requests)[0]] == alone
        assert s.counted("trireme_scheduler_preemptions_total"), "nothing was preempted: the test has no force"


def mean(choice):
    values = choice["logprobs"]["token_logprobs"]
    return sum(values) / len(values)


def test_the_best_of_several():
    with Serve() as s:
        body = {"prompt": PROMPT, "logprobs": 0, "max_tokens": 12}
        every = asked(s, {**body, "n": 6})["choices"]
        ranked = sorted(every, key=lambda c: (-mean(c), c["index"]))
        assert len({c["text"] for c in every}) > 2
        best = asked(s, {**body, "n": 2, "best_of": 6})
        assert [c["text"] for c in best["choices"]] == [c["text"] for c in ranked[:2]] and [c["index"] for c in best["choices"]] == [0, 1], best
        assert best["usage"]["completion_tokens"] == sum(len(c["logprobs"]["tokens"]) for c in every), best["usage"]
        del body["logprobs"]
        quiet = asked(s, {**body, "best_of": 6})["choices"]
        assert [c["text"] for c in quiet] == [ranked[0]["text"]] and quiet[0]["logprobs"] is None, quiet
        two = asked(s, {**body, "prompt": [PROMPT, "A fox"], "best_of": 3, "n": 2})["choices"]
        assert [c["index"] for c in two] == [0, 1, 2, 3]


def test_the_log_probabilities_of_a_prompt():
    with Serve() as s:
        echo = asked(s, {"prompt": PROMPT, "echo": True, "logprobs": 3, "max_tokens": 0})["choices"][0]["logprobs"]["token_logprobs"]
        ids = s.post("/tokenize", {"prompt": PROMPT})[1]["tokens"]
        plain = asked(s, {"prompt": PROMPT})["choices"][0]
        for count in (0, 3):
            reply = asked(s, {"prompt": PROMPT, "prompt_logprobs": count, "n": 2})
            assert reply["choices"][0]["text"] == plain["text"] and reply["choices"][0]["logprobs"] is None, reply
            for choice in reply["choices"]:
                told = choice["prompt_logprobs"]
                assert len(told) == len(ids) and told[0] is None, told
                for own, entry, value in zip(ids[1:], told[1:], echo[1:]):
                    assert abs(entry[str(own)]["logprob"] - value) < 1e-6 and count <= len(entry) <= count + 1, entry
                    ranks = sorted(e["rank"] for e in entry.values() if e["rank"])
                    assert ranks == list(range(1, count + 1)), entry
        both = asked(s, {"prompt": PROMPT, "prompt_logprobs": 5, "logprobs": 1})["choices"][0]
        for value, top in zip(both["logprobs"]["token_logprobs"], both["logprobs"]["top_logprobs"]):
            assert 1 <= len(top) <= 2 and value in top.values(), both  # the likeliest, and the token's own
        chat = {"messages": SAY, "return_token_ids": True}
        plain, told = asked(s, chat, "/v1/chat/completions"), asked(s, {**chat, "prompt_logprobs": 1}, "/v1/chat/completions")
        assert told["choices"][0]["message"] == plain["choices"][0]["message"] and told["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"]
        assert len(told["prompt_logprobs"]) == len(told["prompt_token_ids"]) and told["choices"][0]["token_ids"] == plain["choices"][0]["token_ids"]
        assert all(str(i) in entry for i, entry in zip(told["prompt_token_ids"][1:], told["prompt_logprobs"][1:]))


def test_the_log_probabilities_of_a_prompt_from_a_place_on():
    def told(s, body, start, status=200, prompt=PROMPT):
        return asked(s, {"text": prompt, "return_logprob": True, "logprob_start_len": start, **body}, "/generate", status)

    with Serve() as s:
        echo = asked(s, {"prompt": PROMPT, "echo": True, "logprobs": 3, "max_tokens": 0})["choices"][0]["logprobs"]["token_logprobs"]
        ids = s.post("/tokenize", {"prompt": PROMPT})[1]["tokens"]
        plain = told(s, {"top_logprobs_num": 2}, -1)
        assert plain["meta_info"]["input_token_logprobs"] == plain["meta_info"]["input_top_logprobs"] == []
        for start in (0, 1, 5, len(ids) - 1, len(ids)):
            for top in (0, 2):
                answer = told(s, {"top_logprobs_num": top}, start)
                info = answer["meta_info"]
                values = info["input_token_logprobs"]
                assert [v[1] for v in values] == ids[start:] and all(v[0] is None for v in values[:1]), values
                for value, known in zip(values[1:], echo[start + 1:]):
                    assert abs(value[0] - known) < 1e-6 and value[2] is None, (value, known)
                tops = info.get("input_top_logprobs", [])
                assert [t and len(t) for t in tops] == [None, *[2] * (len(ids) - start - 1)][:len(values)] * (top > 0), tops
                assert info["prompt_tokens"] == len(ids) and info["completion_tokens"] == len(answer["output_ids"]), info
                assert answer["text"] == plain["text"] and answer["output_ids"] == plain["output_ids"], answer
                assert len(info["output_token_logprobs"]) == len(answer["output_ids"]), info
        two = told(s, {"sampling_params": {"n": 2}, "max_tokens": 0, "return_text_in_logprobs": True}, 3, prompt=[PROMPT, "A fox in the room"])
        assert [len(x["meta_info"]["input_token_logprobs"]) for x in two[:2]] == [len(ids) - 3] * 2 and len(two) == 4, two
        assert "One day" + "".join(v[2] for v in two[0]["meta_info"]["input_token_logprobs"]) == PROMPT, two[0]
        assert two[0]["output_ids"] == [] and two[0]["meta_info"]["finish_reason"]["type"] == "length", two[0]
        past = told(s, {}, len(ids) + 1, status=400)
        assert "logprob_start_len" in json.dumps(past), past
        assert "logprob_start_len" in json.dumps(told(s, {"sampling_params": {"json_schema": "{}"}}, 0, status=400))


def test_names_of_requests_and_tiers():
    with Serve() as s:
        for path, body in (("/v1/completions", {"prompt": PROMPT}), ("/v1/chat/completions", {"messages": SAY})):
            for more, header, name in (({"request_id": "mine-1"}, {}, "mine-1"), ({"rid": "mine-2"}, {}, "mine-2"), ({"rid": "mine-3"}, {"X-Request-Id": "head-3"}, "head-3")):
                status, reply, headers = s.post(path, {**body, "max_tokens": 2, **more}, headers=header)
                assert status == 200 and headers["X-Request-Id"] == name and "service_tier" not in reply, (headers, reply)
            assert asked(s, {**body, "service_tier": "flex"}, path)["service_tier"] == "default"
            assert asked(s, {**body, "request_id": "a b"}, path, 400)["error"]["param"] == "request_id"
        s.wait(lambda: "mine-1" in s.log() and "mine-2" in s.log(), 5, "the log names them")


def test_prompts_are_cut_and_answers_may_have_no_tokens():
    with Serve() as s:
        ids = ids_of(s, PROMPT)
        cut = asked(s, {"prompt": ids, "truncate_prompt_tokens": 5, "return_token_ids": True})
        assert cut["choices"][0]["prompt_token_ids"] == ids[-5:] and cut["usage"]["prompt_tokens"] == 5, cut
        cut = asked(s, {"prompt": ids, "truncate_prompt_tokens": 5, "truncation_side": "right", "return_token_ids": True})
        assert cut["choices"][0]["prompt_token_ids"] == ids[:5], cut
        chat = asked(s, {"messages": SAY, "return_token_ids": True}, "/v1/chat/completions")
        cut = asked(s, {"messages": SAY, "return_token_ids": True, "truncate_prompt_tokens": 4}, "/v1/chat/completions")
        assert cut["prompt_token_ids"] == chat["prompt_token_ids"][-4:], cut
        context = json.loads(s.get("/v1/models")[1])["data"][0]["max_model_len"]
        long = {"prompt": ids * (context // len(ids) + 1), "max_tokens": 9, "ignore_eos": True}
        assert asked(s, long, status=400)["error"]["code"] == "context_length_exceeded"
        assert asked(s, {**long, "truncate_prompt_tokens": -1})["usage"]["prompt_tokens"] == context - 9
        assert asked(s, {**long, "truncate_prompt_tokens": context + 1}, status=400)["error"]["param"] == "truncate_prompt_tokens"
        for path, body in (("/v1/completions", {"prompt": PROMPT}), ("/v1/chat/completions", {"messages": SAY})):
            none = asked(s, {**body, "max_tokens": 0}, path)
            choice = none["choices"][0]
            assert (choice.get("text") or choice.get("message", {}).get("content")) in ("", None), none
            assert choice["finish_reason"] == "length" and none["usage"]["completion_tokens"] == 0 < none["usage"]["prompt_tokens"], none
            result = run_many(s.port, [(path, {**body, "max_tokens": 0, "stream": True})])[0][0]
            assert result.status == 200 and result.done and not result.text and result.finish == {0: "length"}, vars(result)


def test_reasoning_has_a_bound():
    """The answer goes on from the end that was put behind the reasoning as it does from the same tokens in a prompt."""
    with tempfile.TemporaryDirectory() as folder:
        template = os.path.join(folder, "thinks.jinja")
        with open(template, "w") as f:
            f.write("{{ bos_token }}{{ messages[-1]['content'] }}<think>")
        with Serve(args=["--chat-template", template, "--reasoning-parser", "deepseek_r1"]) as s:
            end = ids_of(s, "</think>")
            body = {"messages": SAY, "temperature": 0, "max_tokens": 40, "ignore_eos": True, "return_token_ids": True}
            path = "/v1/chat/completions"
            free = asked(s, body, path)["choices"][0]
            assert not free["message"]["content"], free
            for budget in (0, 1, 8):
                reply = asked(s, {**body, "thinking_token_budget": budget}, path)
                choice = reply["choices"][0]
                ids = choice["token_ids"]
                assert ids[:budget] == free["token_ids"][:budget] and ids[budget:budget + len(end)] == end and len(ids) == 40, (budget, choice, end)
                assert reply["usage"]["completion_tokens"] == 40 and choice["message"]["content"], reply
                begun = reply["prompt_token_ids"] + ids[:budget + len(end)]
                rest = asked(s, {"prompt": begun, "temperature": 0, "max_tokens": 40 - budget - len(end), "ignore_eos": True, "return_token_ids": True})
                assert rest["choices"][0]["token_ids"] == ids[budget + len(end):], (budget, rest, ids)
            bound = {**body, "thinking_token_budget": 5, "temperature": 1, "n": 3}
            several = asked(s, bound, path)["choices"]
            assert asked(s, bound, path)["choices"] == several, "a seed gives the same answer"
            assert all(c["token_ids"][5:5 + len(end)] == end for c in several), several
            constrained = asked(s, {**body, "thinking_token_budget": 5, "max_tokens": 60, "ignore_eos": False, "response_format": {"type": "json_schema", "json_schema": {
                "name": "x", "schema": {"type": "object", "properties": {"a": {"enum": ["b", "c"]}}, "required": ["a"]}}}}, path)["choices"][0]
            assert json.loads(constrained["message"]["content"])["a"] in ("b", "c") and constrained["token_ids"][5:5 + len(end)] == end, constrained
            named = {"X-Conversation-Id": "thinks"}
            request = urllib.request.Request(f"http://127.0.0.1:{s.port}{path}", headers={"Content-Type": "application/json", **named},
                                             data=json.dumps({**body, "thinking_token_budget": 5, "stream": True}).encode())
            with urllib.request.urlopen(request, timeout=60) as reply:
                first = reply.read().decode()
            assert s.get("/v1/stream/thinks") == (200, first), "another reader gets the same bytes"
            streams = [(path, {**body, "thinking_token_budget": 1 + i % 9, "temperature": 1, "seed": i, "stream": True, "n": 1 + i % 2}) for i in range(24)]
            alone = [asked(s, {k: v for k, v in b.items() if k != "stream"}, path)["choices"] for _, b in streams]
            for (_, request), told, result in zip(streams, alone, run_many(s.port, streams)[0]):
                assert [c["message"]["content"] for c in told] == [result.text.get(i, "") for i in range(request["n"])], (request, told, result.text)
