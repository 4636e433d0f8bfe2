"""/metrics as an operator scrapes it: read by Prometheus' own parser, of several gateways behind one port, while they are used and killed."""
import contextlib
import http.client
import os
import signal
import threading
import time

from prometheus_client.parser import text_string_to_metric_families

from serve import Serve

# vLLM's page, as far as it has a meaning here: name without _total, type, labels beside model_name.
VLLM = """
vllm:num_requests_running gauge
vllm:num_requests_waiting gauge
vllm:kv_cache_usage_perc gauge
vllm:gpu_cache_usage_perc gauge
vllm:num_preemptions counter
vllm:prefix_cache_queries counter
vllm:prefix_cache_hits counter
vllm:prompt_tokens counter
vllm:prompt_tokens_cached counter
vllm:generation_tokens counter
vllm:request_success counter finished_reason
vllm:time_to_first_token_seconds histogram
vllm:inter_token_latency_seconds histogram
vllm:request_time_per_output_token_seconds histogram
vllm:e2e_request_latency_seconds histogram
vllm:request_queue_time_seconds histogram
vllm:request_prefill_time_seconds histogram
vllm:request_decode_time_seconds histogram
vllm:request_inference_time_seconds histogram
vllm:iteration_tokens_total histogram
vllm:cache_config gauge block_size num_gpu_blocks
vllm:request_prompt_tokens histogram
vllm:request_generation_tokens histogram
vllm:request_max_num_generation_tokens histogram
vllm:request_prefill_kv_computed_tokens histogram
vllm:request_params_n histogram
vllm:request_params_max_tokens histogram
"""
OURS = """
trireme_build gauge
trireme_gateway_requests counter
trireme_gateway_finishes counter
trireme_gateway_request_seconds histogram
trireme_gateway_scheduler_up gauge
trireme_http_connections gauge
trireme_model_replicas_ready gauge
trireme_model_slots gauge
trireme_model_blocks gauge
trireme_model_blocks_used gauge
trireme_model_blocks_cached gauge
trireme_model_evictions counter
trireme_model_steps counter
trireme_model_step_tokens counter
trireme_model_output_tokens counter
trireme_model_compute_seconds counter
trireme_process_resident_bytes gauge
"""


def scrape(server):
    """{family: metric}, each asked for on a connection of its own: whichever gateway takes it."""
    status, text = server.get("/metrics", timeout=20)
    if status == 0:  # its gateway was killed
        return None
    assert status == 200, status
    families = {}
    for family in text_string_to_metric_families(text):
        assert family.name not in families, f"{family.name} is there twice"
        assert family.documentation and family.type != "unknown", family.name
        families[family.name] = family
    return families


def samples(families):
    """{(name, labels): value} of what may only rise."""
    found = {}
    for family in families.values():
        if family.type in ("counter", "histogram") and not family.name.startswith("trireme_process"):
            for sample in family.samples:
                key = sample.name, tuple(sorted(sample.labels.items()))
                assert key not in found, f"{key} is there twice"
                found[key] = sample.value
    return found


def value(families, name, **labels):
    return sum(s.value for f in families.values() for s in f.samples
               if s.name == name and all(s.labels.get(k) == v for k, v in labels.items()))


def complete(server, tokens, **more):
    return server.post("/v1/completions", {"prompt": "Once upon a time", "max_tokens": tokens, "ignore_eos": True, **more})


def test_names_and_values():
    with Serve(args=["--min-step-ms", 30]) as s:  # tokens come one by one, however busy the machine is
        model = "model"
        for tokens in (1, 5, 9):
            status, answer, _ = complete(s, tokens, n=2)
            assert status == 200, answer
            model = answer["model"]
        prompt = answer["usage"]["prompt_tokens"]
        s.wait(lambda: value(scrape(s), "trireme_model_output_tokens_total") >= 30, 10, "the scheduler told its figures")
        page = scrape(s)
        for row in (VLLM + OURS).split("\n"):
            if not row:
                continue
            name, kind, *labels = row.split()
            assert name in page or f"{name}_info" in page, f"{name} is missing"
            family = page.get(name) or page[f"{name}_info"]
            assert family.type == kind, f"{name} is a {family.type}"
            assert family.samples, name
            for sample in family.samples:
                if name.startswith(("vllm:", "trireme_model_")):
                    assert sample.labels["model_name"] == model, sample
                for label in labels:
                    assert label in sample.labels, sample
        assert value(page, "vllm:generation_tokens_total") == 30
        assert value(page, "vllm:prompt_tokens_total") == 3 * prompt
        assert value(page, "vllm:request_success_total", finished_reason="length") == 6
        assert value(page, "vllm:e2e_request_latency_seconds_count") == 3
        assert value(page, "vllm:time_to_first_token_seconds_count") == 3
        assert value(page, "vllm:request_generation_tokens_sum") == 30
        assert value(page, "vllm:request_max_num_generation_tokens_sum") == 15
        assert value(page, "vllm:request_params_n_sum") == 6
        assert value(page, "vllm:request_params_max_tokens_sum") == 15
        assert value(page, "vllm:prefix_cache_queries_total") == 6 * prompt
        assert value(page, "trireme_model_replicas_ready") == 1 and value(page, "trireme_model_blocks") > 0
        assert value(page, "vllm:e2e_request_latency_seconds_bucket", le="3600") == 3
        assert value(page, "trireme_build_info") == 1
        times = {n: (value(page, f"vllm:{n}_count"), value(page, f"vllm:{n}_sum"))
                 for n in ("request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
                           "request_inference_time_seconds", "time_to_first_token_seconds", "e2e_request_latency_seconds")}
        assert all(count == 3 for count, _ in times.values()), times
        queued, prefill, decode, inference, first, whole = (seconds for _, seconds in times.values())
        assert abs(inference - prefill - decode) < 1e-5 and decode > 0, times
        # what is within another is no longer; the scheduler's clock counts milliseconds
        assert queued + prefill <= first + 0.003 and first + decode <= whole + 1e-5, times
        steps = value(page, "vllm:iteration_tokens_total_count")
        assert 0 < steps <= value(page, "trireme_model_steps_total"), steps
        assert value(page, "vllm:iteration_tokens_total_sum") == value(page, "trireme_model_step_tokens_total")
        (info,) = page["vllm:cache_config_info"].samples
        assert int(info.labels["block_size"]) > 0 and int(info.labels["num_gpu_blocks"]) == value(page, "trireme_model_blocks")
        assert value(page, "vllm:num_requests_running") == 0


def test_running_is_seen_and_a_client_that_leaves_counts():
    with Serve(args=["--min-step-ms", 20]) as s:  # it runs for long
        def ask():
            with contextlib.suppress(OSError):  # it runs until the server ends
                complete(s, 100000)
        threading.Thread(target=ask, daemon=True).start()
        s.wait(lambda: value(scrape(s), "vllm:num_requests_running") == 1, 20, "a running request is told")
        assert value(scrape(s), "vllm:kv_cache_usage_perc") > 0
        c = http.client.HTTPConnection("127.0.0.1", s.port)
        c.request("POST", "/v1/completions", '{"prompt":"b","max_tokens":100000,"ignore_eos":true,"n":2,"stream":true}',
                  {"Content-Type": "application/json"})
        c.getresponse().read(10)
        c.close()
        s.wait(lambda: value(scrape(s), "trireme_gateway_finishes_total", reason="cancelled") == 2, 20, "two choices were cancelled")
        assert value(scrape(s), "vllm:request_success_total", finished_reason="abort") == 2


def test_no_counter_goes_back_whichever_gateway_is_asked():
    with Serve(gateways=3) as s:
        stop = threading.Event()

        def use():
            while not stop.is_set():
                with contextlib.suppress(OSError):  # its gateway is the one that is killed
                    complete(s, 3)
        users = [threading.Thread(target=use, daemon=True) for _ in range(3)]
        for user in users:
            user.start()
        before, scrapes, killed, asked, end = {}, 0, False, set(), time.monotonic() + 8
        try:
            while time.monotonic() < end:
                page = scrape(s)
                if page is None:
                    continue
                now = samples(page)
                for key, old in before.items():
                    assert key in now, f"{key} is gone"
                    assert now[key] >= old, f"{key} went from {old} back to {now[key]}"
                before, scrapes = now, scrapes + 1
                asked |= {x.labels.get("instance") for x in page["trireme_process_resident_bytes"].samples}
                if not killed and time.monotonic() > end - 5:
                    killed = s.pids("gateway")[1]
                    os.kill(killed, signal.SIGKILL)
        finally:
            stop.set()
            for user in users:
                user.join()
        s.wait(lambda: len(s.pids("gateway")) == 3 and s.get("/health/ready")[0] == 200, 20, "the gateway was replaced")
        # each of them shows the same sums: the requests are more than any one of them took
        pages = [p for p in (scrape(s) for _ in range(12)) if p]
        totals = {value(p, "trireme_gateway_requests_total", dialect="completions") for p in pages}
        assert len(totals) == 1, totals
        assert asked == {"0", "1", "2"}, asked
        return f"{scrapes} scrapes of {len(before)} samples, {totals.pop():.0f} requests, one gateway killed"
