"""Same request, same bytes: alone, in company, cached, chunked, preempted, under every instruction set (acceptance 3, first half)."""
import json
import os
import subprocess

from run import Skip
from serve import Serve, binary, bundled_model, shared
from stream import run_many

CHUNKS = (1, 7, 16, 512)


def isas():
    """Every set that the program itself finds here; it knows what the kernel allows and what TRIREME_CPU_FEATURES hides."""
    def runs(name):
        return subprocess.run([binary(), "doctor", "--device", "cpu", "--isa", name], capture_output=True).returncode == 0
    return [name for name in ("scalar", "neon", "avx2", "avx512", "amx") if runs(name)]


def golden_cases(name):
    """(prompt ids, text) of the committed goldens; for the models of the shared data, of theirs."""
    folder = {"tinystories-656k": "weights/tinystories-656k", "stories260k-hf-derived": "weights/stories260k"}[name]
    path = shared(f"{folder}/golden_greedy.json")
    model = shared(f"weights/{name}")
    if not path or not model:
        raise Skip("shared", f"{name} is not there")
    return str(model), [(c["prompt_ids"], c["greedy_text"], len(c["greedy_ids"])) for c in json.load(open(path))]


def greedy(ids, count):
    return "/v1/completions", {"prompt": ids, "max_tokens": count, "temperature": 0, "ignore_eos": True, "stream": True,
                               "stream_options": {"include_usage": True}}


def company(count):
    """Other requests to have in flight: seeded sampling at several temperatures and lengths."""
    return [("/v1/completions", {"prompt": f"Once upon a time there was a number {i}. It " + "went on and on " * (i % 7), "seed": i,
                                 "max_tokens": 40 + i, "temperature": 0.5 + 0.02 * i, "top_p": 0.95, "stream": True, "ignore_eos": True})
            for i in range(count)]


def texts(server, requests):
    results, _ = run_many(server.port, requests)
    for r in results:
        assert r.status == 200 and not r.error, f"status {r.status}, {r.error}"
    return [r.text.get(0, "") for r in results]


def check_goldens(name, isa):
    model, cases = golden_cases(name)
    wanted = [text for _, text, _ in cases]
    requests = [greedy(ids, count) for ids, _, count in cases]
    env = {"TRIREME_ISA": isa}
    for chunk in CHUNKS:
        with Serve(model=model, env=env, args=["--chunk-tokens", chunk]) as s:
            assert [texts(s, [r])[0] for r in requests] == wanted, f"alone, chunks of {chunk}, {isa}"
            if chunk in (1, 16):
                continue
            assert texts(s, requests) == wanted, f"together and cached, chunks of {chunk}, {isa}"
            assert texts(s, requests + company(64))[: len(wanted)] == wanted, f"with 64 others, chunks of {chunk}, {isa}"


def test_goldens_tinystories():
    for isa in isas():
        check_goldens("tinystories-656k", isa)
    return "isa " + " ".join(isas())


def test_goldens_stories260k():
    for isa in isas():
        check_goldens("stories260k-hf-derived", isa)
    return "isa " + " ".join(isas())


def test_goldens_bundled():
    """The goldens made in float32 beside the bundled model; a near tie (margin under 1e-2 in logits) ends the comparison of its case."""
    golden = json.load(open(os.path.join(os.path.dirname(bundled_model()), "golden", "golden.json")))
    compared = 0
    for isa in isas():
        with Serve(env={"TRIREME_ISA": isa}) as s:
            for case in golden["cases"]:
                sure = next((i for i, m in enumerate(case["margins"]) if m < 1e-2), len(case["margins"]))
                status, reply, _ = s.post("/v1/completions", {"prompt": case["prompt_ids"], "max_tokens": len(case["greedy_ids"]), "temperature": 0,
                                                              "ignore_eos": True, "return_token_ids": True})
                assert status == 200, reply
                ids = reply["choices"][0]["token_ids"]
                assert ids[:sure] == case["greedy_ids"][:sure], f"{isa}, '{case['name']}': {ids} is not {case['greedy_ids']}"
                compared += sure
    assert compared >= 64 * len(isas()), f"only {compared} tokens were far enough from a tie"
    return f"{compared} tokens"


def sampled(i):
    return "/v1/completions", {"prompt": f"One day a fox number {i % 5}", "max_tokens": 60, "temperature": 0.9, "top_p": 0.9, "top_k": 40,
                               "min_p": 0.01, "top_n_sigma": 2.5, "presence_penalty": 0.3, "frequency_penalty": 0.2, "repetition_penalty": 1.1, "seed": 1000 + i,
                               "n": 1 + i % 2, "stream": True, "stream_options": {"include_usage": True}}


def check_seeded(requests, others, what, env=None, args=()):
    """The answers alone, in company (the prompts' blocks are cached by then) and preempted."""
    with Serve(env=env, args=list(args)) as s:
        alone = [run_many(s.port, [r])[0][0].key() for r in requests]
        together = [r.key() for r in run_many(s.port, requests + company(others))[0][: len(requests)]]
        assert together == alone, f"{what}: in company"
    # 24 blocks of 16 tokens hold few of these sequences at once: the others are preempted and recomputed. Slow steps make them meet, however late each is sent.
    with Serve(env=env, args=["--blocks", 24, "--block-tokens", 16, "--min-step-ms", 5, *args]) as s:
        squeezed = [r.key() for r in run_many(s.port, requests)[0]]
        assert s.counted("trireme_scheduler_preemptions_total"), "nothing was preempted: the test has no force"
        assert squeezed == alone, f"{what}: after preemption"


def test_seeded_equals_itself_alone_and_preempted():
    for isa in isas():
        check_seeded([sampled(i) for i in range(24)], 40, isa, env={"TRIREME_ISA": isa})


def hot(i):
    path, body = sampled(i)
    return path, dict(body, temperature=1, top_p=1, top_k=0, min_p=0, top_n_sigma=0, repetition_penalty=1.05, ignore_eos=True)


def ruled(i):
    """llama.cpp's samplers, one after the other and together; every third steers by what it drew before."""
    path, body = hot(i)
    more = [{"typical_p": 0.5}, {"xtc_probability": 0.5, "xtc_threshold": 0.05}, {"dry_multiplier": 5, "dry_base": 2, "dry_allowed_length": 1, "dry_sequence_breakers": ["\n"]},
            {"mirostat": 2, "mirostat_tau": 2}, {"dynatemp_range": 0.9, "dynatemp_exponent": 1.5}, {"mirostat": 1, "mirostat_tau": 2},
            {"repeat_last_n": 3}, {"adaptive_target": 0.3}, {"samplers": ["top_k", "typ_p", "penalties", "temperature", "xtc"], "xtc_probability": 0.3},
            {"samplers": "edskypmxt", "dry_multiplier": 0.5, "typical_p": 0.95, "xtc_probability": 0.2, "adaptive_target": 0.2}]
    return path, dict(body, **more[i % len(more)], n=1 + i % 2)


def test_rules_equal_themselves_alone_and_preempted():
    check_seeded([ruled(i) for i in range(20)], 20, "rules")
    with Serve(args=["--chunk-tokens", 7]) as chunked, Serve() as whole:
        for i in range(10):
            a, b = [run_many(s.port, [ruled(i)])[0][0].key() for s in (chunked, whole)]
            assert a == b, f"rules {i}: in chunks of 7"


def test_each_rule_changes_the_text_and_an_unknown_breaker_is_refused():
    with Serve() as s:
        plain = [run_many(s.port, [hot(i)])[0][0].text for i in range(10)]
        changed = [run_many(s.port, [ruled(i)])[0][0].text != plain[i] for i in range(10)]
        assert all(changed), f"the same text as without the rule: {changed}"
        status, reply, _ = s.post("/v1/completions", {"prompt": "a", "dry_multiplier": 1, "dry_sequence_breakers": ["\n", "no token holds this text"]})
        assert status == 400 and reply["error"]["param"] == "dry_sequence_breakers", reply
        status, reply, _ = s.post("/v1/completions", {"prompt": "a", "mirostat": 1, "adaptive_target": 0.5})
        assert status == 400 and reply["error"]["param"] == "adaptive_target", reply


def test_drafts_change_no_token():
    # Steps are slow, so a guess costs nothing beside one. The first request says one token again and again: its guesses are right,
    # however many a busy machine lets it make.
    again = ("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 60, "temperature": 0, "logit_bias": {"300": 100}, "logprobs": 2,
                                 "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}})
    requests = [again, ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 60, "temperature": 0,
                                                 "stop": ["frog"], "stream": True}), *map(ruled, range(10)), *map(sampled, range(4))]
    slow = ["--min-step-ms", 10]
    with Serve(args=slow) as s:
        wanted = [r.key() for r in run_many(s.port, requests)[0]]
    with Serve(args=["--drafts", 6, *slow]) as s:
        assert run_many(s.port, [again])[0][0].key() == wanted[0], "with drafts, alone"
        right = s.counted("trireme_scheduler_accepted_drafts_total", 20)
        assert [r.key() for r in run_many(s.port, requests)[0]] == wanted, "with drafts"
    with Serve(args=["--drafts", 6, "--blocks", 24, "--block-tokens", 16, *slow]) as s:
        assert [r.key() for r in run_many(s.port, requests)[0]] == wanted, "with drafts, after preemption"
        assert s.counted("trireme_scheduler_preemptions_total"), "nothing was preempted: the test has no force"
    return f"{right:g} of 60 tokens were guessed"


def test_small_caches_are_exact_too():
    for kind in ("fp8", "int8"):
        check_seeded([sampled(i) for i in range(8)], 4, f"cache of {kind}", args=["--kv-type", kind])
