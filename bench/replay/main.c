/*
 * bench_replay [TRACE] [OPTIONS] - replays a trace in a simulated cluster (cluster.h) and prints what its
 * clients see and what the scheduler costs.
 *
 * Without a trace a synthetic one is made, of Mooncake's form.
 *
 * By default a replica is one H100 with Llama 3.1 8B in bf16 and the defaults of the scheduler and
 * the worker on such a GPU. The model is from its config.json: 8.03e9 parameters, 32 layers, 32 heads
 * of 128, 8 heads of keys and values. The H100 SXM is from NVIDIA's data sheet (3.35 TB/s, 989 TFLOPS
 * dense in bf16), at the shares of both that bench/gpu/step_model.py predicts for our kernels
 * (docs/performance.md): 0.83 of memory, and 8192 prompt tokens in 220 ms, which is 0.60 of the
 * arithmetic. The fixed part of a step is in those shares.
 */
#include "base/option.h"
#include "replay/report.h"
#include "replay/synthetic.h"

#include <stdio.h>
#include <stdlib.h>

struct settings {
    const char *trace;
    int64_t replicas, copies, tenants, gateways, slots, blocks, block_tokens, step_tokens, context,
        steps_in_flight, seed, queue_max, queue_wait_ms;
    double speed, until, warm, fixed_us, bandwidth, operations, parameters, weight_bytes, kv_bytes,
        attention_width;
    bool json, synthetic_alone;
};
#define AT(m) offsetof(struct settings, m)
#define ROW(member, flag, kind, ...)                                                               \
    { .name = flag, .type = kind, .offset = AT(member), __VA_ARGS__ }
static const struct option_row rows[] = {
    ROW(trace, "trace", OPTION_STRING,
        .help = "Mooncake's JSON lines or Azure's CSV; none: a synthetic one, of conversations."),
    ROW(synthetic_alone, "synthetic-alone", OPTION_BOOL, .fallback = "false",
        .help = "A synthetic trace whose prompts share nothing, as Azure's."),
    ROW(replicas, "replicas", OPTION_INT, .fallback = "1000", .min = 1, .max = 10000,
        .help = "Simulated workers."),
    ROW(copies, "copies", OPTION_INT, .fallback = "1", .min = 1, .max = 100000,
        .help = "Copies of the trace, each begun at another time of it, with prompts of its own."),
    ROW(speed, "speed", OPTION_FLOAT, .fallback = "1", .min = 1e-6, .max = 1e6,
        .help = "The trace's time runs so many times as fast."),
    ROW(until, "until", OPTION_FLOAT, .max = 1e9, .unit = "s",
        .help = "Seconds of the trace that are replayed; 0: all."),
    ROW(warm, "warm", OPTION_FLOAT, .max = 1e9, .unit = "s",
        .help = "Virtual seconds before the window whose figures are printed."),
    ROW(tenants, "tenants", OPTION_INT, .fallback = "1", .min = 1, .max = REPLAY_TENANTS_MAX,
        .help = "Tenants that the conversations are divided among."),
    ROW(gateways, "gateways", OPTION_INT, .fallback = "4", .min = 1, .max = 1024,
        .help = "Gateways that the requests come through."),
    ROW(seed, "seed", OPTION_INT, .fallback = "1", .min = 0, .max = 1e15,
        .help = "Of all that is drawn."),
    ROW(slots, "slots", OPTION_INT, .fallback = "256", .min = 1, .max = 16384, .unit = "sequences",
        .help = "That a replica runs at once."),
    ROW(block_tokens, "block-tokens", OPTION_INT, .fallback = "32", .min = 16, .max = 256,
        .unit = "tokens", .help = "Of a KV block."),
    ROW(blocks, "blocks", OPTION_INT, .fallback = "12500", .min = 1, .max = 1 << 24,
        .help = "KV blocks of a replica; 12500 of 32 tokens are 52 GB for Llama 3.1 8B."),
    ROW(step_tokens, "step-tokens", OPTION_INT, .fallback = "2048", .min = 16, .max = 65536,
        .unit = "tokens", .help = "Most positions of a step."),
    ROW(context, "context", OPTION_INT, .fallback = "131072", .min = 16, .max = 1 << 20,
        .unit = "tokens", .help = "Of one sequence; longer ones are refused."),
    ROW(steps_in_flight, "steps-in-flight", OPTION_INT, .fallback = "2", .min = 1, .max = 8,
        .help = "Plans that a worker may have."),
    ROW(queue_max, "queue-max", OPTION_INT, .fallback = "1024", .min = 1, .max = 1e9,
        .help = "As the scheduler's."),
    ROW(queue_wait_ms, "queue-wait", OPTION_DURATION, .fallback = "10s", .max = 1e9,
        .help = "As the scheduler's."),
    ROW(parameters, "parameters", OPTION_FLOAT, .fallback = "8.03e9", .min = 1, .max = 1e15,
        .help = "Of the model; a position takes twice as many operations."),
    ROW(weight_bytes, "weight-bytes", OPTION_FLOAT, .fallback = "16.06e9", .max = 1e15,
        .help = "Read by every step."),
    ROW(kv_bytes, "kv-bytes", OPTION_FLOAT, .fallback = "131072", .max = 1e9,
        .help = "Of a position of the context, read by every row."),
    ROW(attention_width, "attention-width", OPTION_FLOAT, .fallback = "131072", .max = 1e9,
        .help = "Layers times heads times the size of a head."),
    ROW(operations, "operations", OPTION_FLOAT, .fallback = "593e12", .min = 1, .max = 1e20,
        .help = "A second that a replica reaches: 0.60 of an H100's 989e12 in bf16."),
    ROW(bandwidth, "bandwidth", OPTION_FLOAT, .fallback = "2.78e12", .min = 1, .max = 1e20,
        .help = "Bytes a second that it reaches: 0.83 of an H100's 3.35e12."),
    ROW(fixed_us, "fixed-us", OPTION_FLOAT, .fallback = "0", .max = 1e9,
        .help = "Of every step, beside those."),
    ROW(json, "json", OPTION_BOOL, .fallback = "false", .help = "Figures as JSON."),
};
static const struct option_table options = {
    .program = "bench_replay",
    .synopsis = "[OPTIONS] [TRACE]",
    .summary = "Replays a trace in a simulated cluster with the real scheduler's core.",
    .rows = rows,
    .count = ARRAY_LEN(rows),
    .arguments = "trace"};

static void configure(const struct settings *s, struct replay_config *config) {
    *config = (struct replay_config){0};
    sched_config_default(&config->sched);
    config->sched.table_bytes = UINT64_C(4) << 30; /* enough for the blocks of 1000 replicas */
    config->replicas = (uint32_t)s->replicas;
    config->copies = (uint32_t)s->copies;
    config->tenants = (uint32_t)s->tenants;
    config->gateways = (uint32_t)s->gateways;
    config->slots = (uint32_t)s->slots;
    config->block_count = (uint32_t)s->blocks;
    config->block_tokens = (uint32_t)s->block_tokens;
    config->max_step_tokens = (uint32_t)s->step_tokens;
    config->max_context = (uint32_t)s->context;
    config->steps_in_flight = (uint32_t)s->steps_in_flight;
    config->speed = s->speed;
    config->until = s->until;
    config->warm = s->warm;
    config->seed = (uint64_t)s->seed;
    config->sched.waiting_max = (uint32_t)s->queue_max;
    config->sched.wait_max_ms = (int32_t)s->queue_wait_ms;
    config->cost = (struct replay_cost){.parameters = s->parameters,
                                        .weight_bytes = s->weight_bytes,
                                        .kv_bytes = s->kv_bytes,
                                        .attention_width = s->attention_width,
                                        .operations = s->operations,
                                        .bandwidth = s->bandwidth,
                                        .fixed_us = s->fixed_us};
    if (getenv("TRIREME_BENCH_QUICK")) {
        config->replicas = MIN(config->replicas, 50);
        config->until = config->until > 0 ? MIN(config->until, 20) : 20;
    }
}

static int load(const struct settings *s, struct bench_trace *trace, struct error *err) {
    struct replay_synthetic synthetic = {.requests = 12000,
                                         .seconds = 3600,
                                         .conversations = s->synthetic_alone ? 0 : 1000,
                                         .input = s->synthetic_alone ? 1150 : 3000,
                                         .output = s->synthetic_alone ? 210 : 340,
                                         .input_max = 100000,
                                         .seed = (uint64_t)s->seed};
    if (s->trace)
        return bench_trace_read(s->trace, SIZE_MAX, trace, err);
    replay_synthetic_make(&synthetic, trace);
    return 0;
}

int main(int argc, char **argv) {
    struct settings s;
    struct error err;
    size_t positional;
    int outcome = option_parse(&options, &s, argc, argv, NULL, 0, &positional, &err);
    if (outcome == OPTION_HELP_PRINTED)
        return 0;
    struct bench_trace trace = {0};
    if (outcome < 0 || load(&s, &trace, &err)) {
        fprintf(stderr, "bench_replay: %s\n", err.text);
        return 2;
    }
    struct replay_config config;
    struct replay_result result;
    struct replay_figures figures;
    struct buf text;
    configure(&s, &config);
    replay_run(&config, &trace, &result);
    replay_figures(&config, &trace, &result, &figures);
    buf_init(&text, 0);
    (s.json ? replay_print_json : replay_print)(&config, &result, &figures, &text);
    fwrite(text.data, 1, text.len, stdout);
    bool good = figures.open == 0 && result.faults == 0 && result.idle;
    buf_release(&text);
    replay_result_release(&result);
    bench_trace_release(&trace);
    option_free(&options, &s);
    return good ? 0 : 1;
}
