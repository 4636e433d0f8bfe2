#!/usr/bin/env python3
"""Writes dashboard.json, Grafana's dashboard of Trireme: deploy/watching/dashboard.py > deploy/watching/dashboard.json

What gateways count is summed over them. What the scheduler says (running, waiting, blocks) each gateway repeats: of it the largest counts."""
import json

MODEL = '{model_name=~"$model"}'


def quantiles(metric, by="model_name"):
    return [(f'histogram_quantile({q}, sum by (le, {by}) (rate({metric}_bucket{MODEL}[$__rate_interval])))', f"{{{{{by}}}}} p{int(q * 100)}")
            for q in (0.5, 0.9, 0.99)]


def rate(metric, by, labels=MODEL):
    return f"sum by ({by}) (rate({metric}{labels}[$__rate_interval]))"


def told(metric):
    return f"max by (model_name) ({metric}{MODEL})"


ROWS = [
    ("What clients see", [
        ("Responses by status", "reqps", [(rate("trireme_gateway_answers_total", "status", ""), "{{status}}")]),
        ("Time to first token", "s", quantiles("vllm:time_to_first_token_seconds")),
        ("Time between tokens", "s", quantiles("vllm:inter_token_latency_seconds")),
        ("Requests from end to end", "s", quantiles("vllm:e2e_request_latency_seconds")),
        ("Tokens a second", "short", [(rate("vllm:generation_tokens_total", "model_name"), "{{model_name}} output"),
                                      (rate("vllm:prompt_tokens_total", "model_name"), "{{model_name}} prompt")]),
        ("Choices by how they ended", "reqps", [(rate("vllm:request_success_total", "finished_reason"), "{{finished_reason}}")]),
    ]),
    ("Load", [
        ("Running and waiting", "short", [(told("vllm:num_requests_running"), "{{model_name}} running"),
                                          (told("vllm:num_requests_waiting"), "{{model_name}} waiting")]),
        ("KV cache in use", "percentunit", [(told("vllm:kv_cache_usage_perc"), "{{model_name}}")]),
        ("Prompt tokens found in the cache", "percentunit", [
            (f'{rate("vllm:prefix_cache_hits_total", "model_name")} / {rate("vllm:prefix_cache_queries_total", "model_name")}', "{{model_name}}")]),
        ("Tokens of a step", "short", [
            (f'{rate("trireme_model_step_tokens_total", "model_name")} / {rate("trireme_model_steps_total", "model_name")}', "{{model_name}}")]),
        ("Preempted, evicted", "ops", [(rate("vllm:num_preemptions_total", "model_name"), "{{model_name}} preempted sequences"),
                                       (rate("trireme_model_evictions_total", "model_name"), "{{model_name}} evicted blocks")]),
        ("Where a request's time goes", "s", [
            (f'{rate(f"vllm:request_{part}_time_seconds_sum", "model_name")} / {rate(f"vllm:request_{part}_time_seconds_count", "model_name")}',
             "{{model_name}} " + part) for part in ("queue", "prefill", "decode")]),
    ]),
    ("Processes", [
        ("Replicas ready", "short", [(told("trireme_model_replicas_ready"), "{{model_name}}"),
                                     ("min(trireme_gateway_scheduler_up)", "gateways have a scheduler")]),
        ("Workers lost and refused requests", "short", [
            ("sum(increase(trireme_scheduler_worker_deaths_total[$__rate_interval]))", "workers lost"),
            ("sum(increase(trireme_scheduler_worker_faults_total[$__rate_interval]))", "workers that crashed"),
            ('sum by (reason) (increase(trireme_scheduler_rejects_total{reason!="none"}[$__rate_interval]))', "refused: {{reason}}")]),
        ("Time of a step", "s", [
            (f"histogram_quantile({q}, sum by (le) (rate(trireme_worker_step_seconds_bucket[$__rate_interval])))", f"p{int(q * 100)}")
            for q in (0.5, 0.99)]),
        ("Turn of the scheduler", "s", [
            ("histogram_quantile(0.99, sum by (le) (rate(trireme_scheduler_turn_seconds_bucket[$__rate_interval])))", "p99")]),
        ("Memory", "bytes", [("trireme_process_resident_bytes", "{{job}} {{instance}}")]),
        ("Processor", "short", [("rate(trireme_process_cpu_seconds_total[$__rate_interval])", "{{job}} {{instance}}")]),
    ]),
]


def main():
    panels, y, number = [], 0, 1
    for title, row in ROWS:
        panels.append({"type": "row", "id": number, "title": title, "collapsed": False, "gridPos": {"h": 1, "w": 24, "x": 0, "y": y}, "panels": []})
        number, y = number + 1, y + 1
        for i, (name, unit, targets) in enumerate(row):
            panels.append({
                "type": "timeseries", "id": number, "title": name, "datasource": {"type": "prometheus", "uid": "${source}"},
                "gridPos": {"h": 8, "w": 8, "x": 8 * (i % 3), "y": y + 8 * (i // 3)},
                "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 10}}, "overrides": []},
                "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
                "targets": [{"refId": chr(65 + k), "expr": e, "legendFormat": legend, "datasource": {"type": "prometheus", "uid": "${source}"}}
                            for k, (e, legend) in enumerate(targets)]})
            number += 1
        y += 8 * ((len(row) + 2) // 3)
    variables = [
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {"name": "model", "label": "Model", "type": "query", "datasource": {"type": "prometheus", "uid": "${source}"}, "includeAll": True,
         "multi": True, "allValue": ".*", "refresh": 2, "current": {"text": "All", "value": "$__all"},
         "query": {"query": "label_values(vllm:num_requests_running, model_name)", "refId": "model"}}]
    print(json.dumps({"title": "Trireme", "uid": "trireme", "tags": ["trireme"], "schemaVersion": 39, "version": 1, "editable": True,
                      "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser", "templating": {"list": variables},
                      "annotations": {"list": []}, "panels": panels}, indent=1))


main()
