#include "gateway/watch/model_metrics.h"

#include <pthread.h>

static const double TOKEN_BUCKETS[] = {1,     2,      5,      10,     20,      50,    100,
                                       200,   500,    1000,   2000,   5000,    10000, 20000,
                                       50000, 100000, 200000, 500000, 1000000, 0};
/* The bounds of a Status' step_buckets, and the 0 that ends them. */
static const double STEP_BUCKETS[WIRE_STEP_BUCKETS] = {1,   2,   4,    8,    16,   32,   64,    128,
                                                       256, 512, 1024, 2048, 4096, 8192, 16384, 0};
static const double COUNT_BUCKETS[] = {1, 2, 5, 10, 20, 50, 100, 0};

#define TOLD(id, n, k, h) [id] = {.name = n, .kind = METRIC_##k, .help = h, .told = true}
#define TOLD_MICRO(id, n, k, h)                                                                    \
    [id] = {.name = n, .kind = METRIC_##k, .help = h, .told = true, .micro = true}
#define COUNTER(id, n, h)  [id] = {.name = n, .kind = METRIC_COUNTER, .help = h}
#define SECONDS(id, n, h)  [id] = {.name = n, .kind = METRIC_HISTOGRAM, .help = h}
#define SIZES(id, n, b, h) [id] = {.name = n, .kind = METRIC_HISTOGRAM, .buckets = b, .help = h}

static const struct metric ROWS[MODEL_METRIC_COUNT] = {
    TOLD(MODEL_METRIC_RUNNING, "vllm:num_requests_running", GAUGE, "Sequences that hold a slot."),
    TOLD(MODEL_METRIC_WAITING, "vllm:num_requests_waiting", GAUGE, "Sequences that wait to run."),
    TOLD_MICRO(MODEL_METRIC_KV_USAGE, "vllm:kv_cache_usage_perc", GAUGE,
               "Share of KV blocks that sequences hold; 1 is all."),
    TOLD_MICRO(MODEL_METRIC_KV_USAGE_OLD, "vllm:gpu_cache_usage_perc", GAUGE,
               "The same, under its older name."),
    TOLD(MODEL_METRIC_PREEMPTIONS, "vllm:num_preemptions_total", COUNTER,
         "Sequences put back to be recomputed."),
    TOLD(MODEL_METRIC_PREFIX_QUERIES, "vllm:prefix_cache_queries_total", COUNTER,
         "Prompt tokens looked for in the prefix cache."),
    TOLD(MODEL_METRIC_PREFIX_HITS, "vllm:prefix_cache_hits_total", COUNTER,
         "Prompt tokens found in the prefix cache."),
    TOLD(MODEL_METRIC_REPLICAS, "trireme_model_replicas_ready", GAUGE,
         "Replicas of the model that take work."),
    TOLD(MODEL_METRIC_SLOTS, "trireme_model_slots", GAUGE, "Sequences that can run at once."),
    TOLD(MODEL_METRIC_BLOCKS, "trireme_model_blocks", GAUGE, "KV blocks of all replicas."),
    TOLD(MODEL_METRIC_BLOCKS_USED, "trireme_model_blocks_used", GAUGE,
         "KV blocks that sequences hold."),
    TOLD(MODEL_METRIC_BLOCKS_CACHED, "trireme_model_blocks_cached", GAUGE,
         "KV blocks that nobody holds but whose content can be found again."),
    TOLD(MODEL_METRIC_EVICTIONS, "trireme_model_evictions_total", COUNTER,
         "Cached blocks taken for new content."),
    TOLD(MODEL_METRIC_STEPS, "trireme_model_steps_total", COUNTER, "Steps planned."),
    TOLD(MODEL_METRIC_STEP_TOKENS, "trireme_model_step_tokens_total", COUNTER,
         "Positions computed by steps."),
    TOLD(MODEL_METRIC_STEP_OUTPUT, "trireme_model_output_tokens_total", COUNTER,
         "Tokens sampled by workers."),
    TOLD_MICRO(MODEL_METRIC_COMPUTE_SECONDS, "trireme_model_compute_seconds_total", COUNTER,
               "Time that workers computed steps."),
    [MODEL_METRIC_ITERATION_TOKENS] = {.name = "vllm:iteration_tokens_total",
                                       .kind = METRIC_HISTOGRAM,
                                       .help = "Positions computed by a step.",
                                       .told = true,
                                       .buckets = STEP_BUCKETS},
    COUNTER(MODEL_METRIC_PROMPT_TOKENS, "vllm:prompt_tokens_total",
            "Prompt tokens of requests that got a first token."),
    COUNTER(MODEL_METRIC_CACHED_TOKENS, "vllm:prompt_tokens_cached_total",
            "Of these, the tokens found in the prefix cache."),
    COUNTER(MODEL_METRIC_OUTPUT_TOKENS, "vllm:generation_tokens_total", "Output tokens taken."),
    [MODEL_METRIC_SUCCESS] = {.name = "vllm:request_success_total",
                              .kind = METRIC_COUNTER,
                              .help = "Choices by how they ended.",
                              .label = "finished_reason",
                              .label_values = "stop|length|abort|error"},
    SECONDS(MODEL_METRIC_FIRST_TOKEN, "vllm:time_to_first_token_seconds",
            "From the request's first byte to its first token."),
    SECONDS(MODEL_METRIC_NEXT_TOKEN, "vllm:inter_token_latency_seconds",
            "Between two runs of tokens of a choice."),
    SECONDS(MODEL_METRIC_TOKEN_MEAN, "vllm:request_time_per_output_token_seconds",
            "Of a request, from its first token on, for each further token of its longest choice."),
    SECONDS(MODEL_METRIC_DURATION, "vllm:e2e_request_latency_seconds",
            "From the request's first byte to the end of its response."),
    SECONDS(MODEL_METRIC_QUEUED, "vllm:request_queue_time_seconds",
            "From the scheduler's taking a request until it was first in a slot."),
    SECONDS(MODEL_METRIC_PREFILL, "vllm:request_prefill_time_seconds",
            "From there to the first token, as the scheduler saw it."),
    SECONDS(MODEL_METRIC_DECODE, "vllm:request_decode_time_seconds",
            "From the request's first token to its last."),
    SECONDS(MODEL_METRIC_INFERENCE, "vllm:request_inference_time_seconds",
            "Of a request, prefill and decode."),
    SIZES(MODEL_METRIC_REQUEST_PROMPT, "vllm:request_prompt_tokens", TOKEN_BUCKETS,
          "Prompt tokens of a request."),
    SIZES(MODEL_METRIC_REQUEST_OUTPUT, "vllm:request_generation_tokens", TOKEN_BUCKETS,
          "Output tokens of a request."),
    SIZES(MODEL_METRIC_REQUEST_OUTPUT_MAX, "vllm:request_max_num_generation_tokens", TOKEN_BUCKETS,
          "Output tokens of a request's longest choice."),
    SIZES(MODEL_METRIC_REQUEST_COMPUTED, "vllm:request_prefill_kv_computed_tokens", TOKEN_BUCKETS,
          "Prompt tokens of a request that were not in the prefix cache."),
    SIZES(MODEL_METRIC_PARAMS_N, "vllm:request_params_n", COUNT_BUCKETS,
          "Choices that a request asks for."),
    SIZES(MODEL_METRIC_PARAMS_MAX_TOKENS, "vllm:request_params_max_tokens", TOKEN_BUCKETS,
          "Output tokens that a request allows each choice."),
};

/* ---- models ---- */

static struct model {
    char *name; /* owned */
    uint64_t blocks;
    uint32_t block_tokens; /* 0: not known */
    struct metric rows[MODEL_METRIC_COUNT];
} * models[MODEL_METRICS_MAX];
static size_t model_count;
static pthread_mutex_t models_lock = PTHREAD_MUTEX_INITIALIZER;

void model_metrics_register(void) {
    static struct metric any[MODEL_METRIC_COUNT];
    memcpy(any, ROWS, sizeof any);
    metrics_register_copies(any, MODEL_METRIC_COUNT);
}

/* Under the lock. */
static struct model *find(struct bytes name) {
    for (size_t i = 0; i < model_count; i++)
        if (bytes_equal(bytes_str(models[i]->name), name))
            return models[i];
    return NULL;
}

static struct model *find_or_add(struct bytes name) {
    struct model *m = find(name);
    if (!m && model_count + 1 >= MODEL_METRICS_MAX) {
        name = bytes_str("other");
        m = find(name);
    }
    if (m)
        return m;
    m = mem_alloc(sizeof *m);
    *m = (struct model){.name = mem_strndup((const char *)name.data, MIN(name.len, (size_t)128))};
    memcpy(m->rows, ROWS, sizeof m->rows);
    metrics_register_copy(m->rows, MODEL_METRIC_COUNT, "model_name", m->name);
    models[model_count++] = m;
    return m;
}

struct metric *model_metrics_of(const char *name) {
    pthread_mutex_lock(&models_lock);
    struct metric *rows = find_or_add(bytes_str(name))->rows;
    pthread_mutex_unlock(&models_lock);
    return rows;
}

/* ---- the scheduler's figures ---- */

static void clear_gauges(struct metric *rows) {
    for (int k = 0; k < MODEL_METRIC_COUNT; k++)
        if (ROWS[k].told && ROWS[k].kind == METRIC_GAUGE)
            metric_set(&rows[k], 0);
}

static void tell_steps(struct metric *row, const struct wire_model_status *s) {
    uint64_t counts[WIRE_STEP_BUCKETS];
    size_t count = MIN(s->step_bucket_count, (size_t)WIRE_STEP_BUCKETS);
    for (size_t i = 0; i < count; i++)
        counts[i] = s->step_buckets[i].steps;
    /* a scheduler that is a build older tells no buckets */
    metric_set_histogram(row, counts, count, count ? (double)s->step_tokens : 0);
}

static void report_status(struct model *m, const struct wire_model_status *s) {
    struct metric *rows = m->rows;
    uint64_t usage = s->blocks ? s->blocks_used * 1000000 / s->blocks : 0;
    const uint64_t values[MODEL_METRIC_COUNT] = {
        [MODEL_METRIC_RUNNING] = s->running,
        [MODEL_METRIC_WAITING] = s->waiting,
        [MODEL_METRIC_KV_USAGE] = usage,
        [MODEL_METRIC_KV_USAGE_OLD] = usage,
        [MODEL_METRIC_PREEMPTIONS] = s->preemptions,
        [MODEL_METRIC_PREFIX_QUERIES] = s->prefix_queries,
        [MODEL_METRIC_PREFIX_HITS] = s->prefix_hits,
        [MODEL_METRIC_REPLICAS] = s->replicas_ready,
        [MODEL_METRIC_SLOTS] = s->slots,
        [MODEL_METRIC_BLOCKS] = s->blocks,
        [MODEL_METRIC_BLOCKS_USED] = s->blocks_used,
        [MODEL_METRIC_BLOCKS_CACHED] = s->blocks_cached,
        [MODEL_METRIC_EVICTIONS] = s->evictions,
        [MODEL_METRIC_STEPS] = s->steps,
        [MODEL_METRIC_STEP_TOKENS] = s->step_tokens,
        [MODEL_METRIC_STEP_OUTPUT] = s->output_tokens,
        [MODEL_METRIC_COMPUTE_SECONDS] = s->compute_us,
    };
    m->blocks = s->blocks;
    m->block_tokens = s->block_tokens;
    tell_steps(&rows[MODEL_METRIC_ITERATION_TOKENS], s);
    for (int k = 0; k < MODEL_METRIC_COUNT; k++)
        if (ROWS[k].told && ROWS[k].kind != METRIC_HISTOGRAM)
            metric_set(&rows[k], (int64_t)MIN(values[k], (uint64_t)INT64_MAX));
}

void model_metrics_tell(const struct wire_status *status) {
    bool told[MODEL_METRICS_MAX] = {false};
    pthread_mutex_lock(&models_lock);
    for (size_t i = 0; i < status->model_count; i++) {
        struct model *m = find_or_add(status->models[i].model);
        for (size_t k = 0; k < model_count; k++)
            told[k] |= models[k] == m;
        report_status(m, &status->models[i]);
    }
    for (size_t i = 0; i < model_count; i++)
        if (!told[i])
            clear_gauges(models[i]->rows);
    pthread_mutex_unlock(&models_lock);
}

void model_metrics_lost(void) {
    pthread_mutex_lock(&models_lock);
    for (size_t i = 0; i < model_count; i++)
        clear_gauges(models[i]->rows);
    pthread_mutex_unlock(&models_lock);
}

void model_metrics_load(const char *name, struct model_load *out) {
    *out = (struct model_load){0};
    pthread_mutex_lock(&models_lock);
    const struct model *m = find(bytes_str(name));
    if (m) {
        const struct metric *rows = m->rows;
        *out = (struct model_load){
            .running = (uint32_t)metric_value(&rows[MODEL_METRIC_RUNNING], 0),
            .waiting = (uint32_t)metric_value(&rows[MODEL_METRIC_WAITING], 0),
            .slots = (uint32_t)metric_value(&rows[MODEL_METRIC_SLOTS], 0),
            .tokens = (uint64_t)metric_value(&rows[MODEL_METRIC_BLOCKS], 0) * m->block_tokens,
            .tokens_used =
                (uint64_t)metric_value(&rows[MODEL_METRIC_BLOCKS_USED], 0) * m->block_tokens};
    }
    pthread_mutex_unlock(&models_lock);
}

void model_metrics_write_info(struct buf *out) {
    static const char NAME[] = "vllm:cache_config_info";
    pthread_mutex_lock(&models_lock);
    bool any = false;
    for (size_t i = 0; i < model_count; i++) {
        const struct model *m = models[i];
        if (!m->block_tokens || !m->blocks)
            continue;
        if (!any)
            buf_addf(out,
                     "# HELP %s Positions of a KV block, and blocks of all replicas.\n"
                     "# TYPE %s gauge\n",
                     NAME, NAME);
        any = true;
        buf_addf(out, "%s{", NAME);
        metric_add_label_text(out, "model_name", m->name);
        buf_addf(out, ",block_size=\"%u\",num_gpu_blocks=\"%llu\"} 1\n", m->block_tokens,
                 (unsigned long long)m->blocks);
    }
    pthread_mutex_unlock(&models_lock);
}

/* ---- requests ---- */

void model_metrics_request(struct metric *m, const struct model_request *r) {
    double decode_s = (double)r->decode_us * 1e-6;
    metric_observe(&m[MODEL_METRIC_DURATION], (double)r->duration_us * 1e-6);
    if (r->decode_us >= 0)
        metric_observe(&m[MODEL_METRIC_DECODE], decode_s);
    if (r->queued_us >= 0) {
        double prefill_s = (double)r->prefill_us * 1e-6;
        metric_observe(&m[MODEL_METRIC_QUEUED], (double)r->queued_us * 1e-6);
        metric_observe(&m[MODEL_METRIC_PREFILL], prefill_s);
        metric_observe(&m[MODEL_METRIC_INFERENCE], prefill_s + decode_s);
    }
    if (r->decode_us >= 0 && r->longest > 1)
        metric_observe(&m[MODEL_METRIC_TOKEN_MEAN], decode_s / (r->longest - 1));
    metric_observe(&m[MODEL_METRIC_REQUEST_PROMPT], r->prompt_tokens);
    metric_observe(&m[MODEL_METRIC_REQUEST_OUTPUT], r->output_tokens);
    metric_observe(&m[MODEL_METRIC_REQUEST_OUTPUT_MAX], r->longest);
    metric_observe(&m[MODEL_METRIC_REQUEST_COMPUTED], r->prompt_tokens - r->cached_tokens);
    metric_observe(&m[MODEL_METRIC_PARAMS_N], r->choice_count);
    metric_observe(&m[MODEL_METRIC_PARAMS_MAX_TOKENS], r->max_tokens);
}
