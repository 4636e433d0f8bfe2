/* Figures of each model: what a scheduler tells is the model's, and a figure of now is nothing
 * where nobody tells it. */
#include "base/metrics.h"
#include "check.h"
#include "gateway/watch/model_metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void tell(const char *const *names, const uint32_t *running, size_t count) {
    struct wire_model_status models[3];
    for (size_t i = 0; i < count; i++)
        models[i] = (struct wire_model_status){.model = bytes_str(names[i]),
                                               .running = running[i],
                                               .preemptions = 7,
                                               .blocks = 10,
                                               .block_tokens = 16};
    const struct wire_status status = {.models = models, .model_count = count};
    model_metrics_tell(&status);
}

static int64_t figure(const char *name, int row) {
    return metric_value(model_metrics_of(name) + row, 0);
}

TEST(model_figures_of_now_end_with_who_tells_them) {
    static const char *const NAMES[] = {"a", "b", "c"};
    tell(NAMES, (const uint32_t[]){3, 4, 5}, 3);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(figure(NAMES[i], MODEL_METRIC_RUNNING), 3 + i);
    tell(NAMES + 1, (const uint32_t[]){6}, 1);
    EXPECT_EQ(figure("a", MODEL_METRIC_RUNNING), 0);
    EXPECT_EQ(figure("b", MODEL_METRIC_RUNNING), 6);
    EXPECT_EQ(figure("c", MODEL_METRIC_RUNNING), 0);
    tell(NAMES, (const uint32_t[]){3, 4, 5}, 3);
    model_metrics_lost();
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(figure(NAMES[i], MODEL_METRIC_RUNNING), 0);
        EXPECT_EQ(figure(NAMES[i], MODEL_METRIC_PREEMPTIONS), 7); /* a count stays */
    }
}

/* Models are copies of one table: each name is explained once, and each model has its line. */
TEST(model_figures_are_explained_once) {
    struct buf page = {0};
    static const char TYPE[] = "# TYPE vllm:num_requests_running ";
    model_metrics_of("a");
    model_metrics_of("b");
    metrics_write(&page);
    const char *first = strstr(buf_text(&page), TYPE);
    EXPECT(first && !strstr(first + 1, TYPE));
    EXPECT(strstr(first, "\nvllm:num_requests_running{model_name=\"a\"}") &&
           strstr(first, "\nvllm:num_requests_running{model_name=\"b\"}"));
    buf_release(&page);
}

/* ---- every row has its own figure ---- */

/* What the page says for model "m" behind a name and a suffix of it; -1: nothing. */
static double told(const char *name, const char *suffix) {
    struct buf page = {0};
    char sample[200];
    double value = -1;
    metrics_write(&page);
    int len = snprintf(sample, sizeof sample, "\n%s%s{model_name=\"m\"} ", name, suffix);
    const char *at = strstr(buf_text(&page), sample);
    if (at)
        value = strtod(at + len, NULL);
    buf_release(&page);
    return value;
}

/* Figures are told in millionths. */
#define EXPECT_FIGURE(name, suffix, wanted)                                                        \
    expect_figure(__LINE__, name, suffix, told(name, suffix), wanted)
static void expect_figure(int line, const char *name, const char *suffix, double got,
                          double wanted) {
    if (!(fabs(got - wanted) < 1e-7))
        check_fail(__FILE__, line, "%s%s is %.9g, not %.9g", name, suffix, got, wanted);
}

TEST(model_figures_of_a_status_are_each_in_their_row) {
    static const struct {
        const char *name;
        double value;
    } ROWS[] = {
        {"vllm:num_requests_running", 1},
        {"vllm:num_requests_waiting", 2},
        {"vllm:kv_cache_usage_perc", 0.3},
        {"vllm:gpu_cache_usage_perc", 0.3},
        {"vllm:num_preemptions_total", 4},
        {"vllm:prefix_cache_queries_total", 5},
        {"vllm:prefix_cache_hits_total", 6},
        {"trireme_model_replicas_ready", 7},
        {"trireme_model_slots", 8},
        {"trireme_model_blocks", 110},
        {"trireme_model_blocks_used", 33},
        {"trireme_model_blocks_cached", 9},
        {"trireme_model_evictions_total", 10},
        {"trireme_model_steps_total", 11},
        {"trireme_model_step_tokens_total", 12},
        {"trireme_model_output_tokens_total", 13},
        {"trireme_model_compute_seconds_total", 14.000015},
    };
    const struct wire_step_bucket buckets[] = {{.steps = 3}, {.steps = 2}, {.steps = 6}};
    struct wire_model_status model = {.model = bytes_str("m"),
                                      .running = 1,
                                      .waiting = 2,
                                      .preemptions = 4,
                                      .prefix_queries = 5,
                                      .prefix_hits = 6,
                                      .replicas_ready = 7,
                                      .slots = 8,
                                      .blocks = 110,
                                      .blocks_used = 33,
                                      .blocks_cached = 9,
                                      .evictions = 10,
                                      .steps = 11,
                                      .step_tokens = 12,
                                      .output_tokens = 13,
                                      .compute_us = 14000015,
                                      .block_tokens = 16,
                                      .step_buckets = buckets,
                                      .step_bucket_count = ARRAY_LEN(buckets)};
    model_metrics_tell(&(struct wire_status){.models = &model, .model_count = 1});
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        EXPECT_FIGURE(ROWS[i].name, "", ROWS[i].value);
    EXPECT_FIGURE("vllm:iteration_tokens_total", "_count", 11);
    EXPECT_FIGURE("vllm:iteration_tokens_total", "_sum", 12);
    model = (struct wire_model_status){.model = model.model, .step_tokens = 12};
    model_metrics_tell(&(struct wire_status){.models = &model, .model_count = 1});
    EXPECT_FIGURE("vllm:kv_cache_usage_perc", "", 0);          /* no blocks: of nothing, nothing */
    EXPECT_FIGURE("vllm:iteration_tokens_total", "_count", 0); /* an older scheduler */
    EXPECT_FIGURE("vllm:iteration_tokens_total", "_sum", 0);
}

/* The same histograms before and after one request: each has one observation more, of its own value,
 * where it is known. */
TEST(model_figures_of_a_request_are_each_in_their_row) {
    static const struct {
        const char *name;
        double value, without_token, unplaced; /* -1: not observed */
    } ROWS[] = {
        {"vllm:e2e_request_latency_seconds", 9, 9, 9},
        {"vllm:request_queue_time_seconds", 1, -1, -1},
        {"vllm:request_prefill_time_seconds", 2, -1, -1},
        {"vllm:request_decode_time_seconds", 4, -1, 4},
        {"vllm:request_inference_time_seconds", 6, -1, -1},
        {"vllm:request_time_per_output_token_seconds", 0.5, -1, 0.5},
        {"vllm:request_prompt_tokens", 100, 100, 100},
        {"vllm:request_generation_tokens", 15, 15, 15},
        {"vllm:request_max_num_generation_tokens", 9, 9, 9},
        {"vllm:request_prefill_kv_computed_tokens", 68, 68, 68},
        {"vllm:request_params_n", 3, 3, 3},
        {"vllm:request_params_max_tokens", 50, 50, 50},
    };
    static const struct {
        int64_t queued_us, decode_us;
    } KNOWN[] = {{1000000, 4000000}, {-1, -1}, {-1, 4000000}};
    struct metric *rows = model_metrics_of("m");
    for (size_t k = 0; k < ARRAY_LEN(KNOWN); k++) {
        double count[ARRAY_LEN(ROWS)], sum[ARRAY_LEN(ROWS)];
        for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
            count[i] = told(ROWS[i].name, "_count");
            sum[i] = told(ROWS[i].name, "_sum");
        }
        model_metrics_request(rows, &(struct model_request){.prompt_tokens = 100,
                                                            .cached_tokens = 32,
                                                            .output_tokens = 15,
                                                            .longest = 9,
                                                            .choice_count = 3,
                                                            .max_tokens = 50,
                                                            .duration_us = 9000000,
                                                            .queued_us = KNOWN[k].queued_us,
                                                            .prefill_us = 2000000,
                                                            .decode_us = KNOWN[k].decode_us});
        for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
            double value = k == 0   ? ROWS[i].value
                           : k == 1 ? ROWS[i].without_token
                                    : ROWS[i].unplaced;
            EXPECT_FIGURE(ROWS[i].name, "_count", count[i] + (value >= 0));
            EXPECT_FIGURE(ROWS[i].name, "_sum", sum[i] + MAX(value, 0));
        }
    }
    double before = told("vllm:request_time_per_output_token_seconds", "_count");
    model_metrics_request(rows, &(struct model_request){.longest = 1, .decode_us = 0});
    EXPECT_FIGURE("vllm:request_time_per_output_token_seconds", "_count", before);
    model_metrics_request(rows, &(struct model_request){.longest = 2, .decode_us = 0});
    EXPECT_FIGURE("vllm:request_time_per_output_token_seconds", "_count", before + 1);
}

TEST(model_figures_of_blocks_are_told_where_they_are_known) {
    struct wire_model_status models[] = {
        {.model = bytes_str("m"), .blocks = 7, .block_tokens = 16},
        {.model = bytes_str("no blocks"), .block_tokens = 16},
        {.model = bytes_str("no \"tokens\""), .blocks = 9},
        {.model = bytes_str("n"), .blocks = 8, .block_tokens = 32},
    };
    struct buf page = {0};
    model_metrics_tell(&(struct wire_status){.models = models, .model_count = 4});
    model_metrics_write_info(&page);
    const char *t = buf_text(&page), *m = strstr(t, "vllm:cache_config_info{model_name=\"m\","
                                                    "block_size=\"16\",num_gpu_blocks=\"7\"} 1\n");
    EXPECT(!strncmp(t, "# HELP vllm:cache_config_info ", 30) && m);
    EXPECT(strstr(m, "vllm:cache_config_info{model_name=\"n\",block_size=\"32\","
                     "num_gpu_blocks=\"8\"} 1\n"));
    EXPECT(!strstr(t, "model_name=\"no"));
    EXPECT(!strstr(t + 1, "# HELP")); /* explained once */
    buf_release(&page);
}

/* A histogram's bounds on the page, "1 2 ... +Inf ". */
static const char *bounds_of(const char *name) {
    static char bounds[400];
    struct buf page = {0};
    char sample[200];
    size_t len = 0;
    metrics_write(&page);
    snprintf(sample, sizeof sample, "\n%s_bucket{model_name=\"m\",le=\"", name);
    for (const char *at = buf_text(&page); (at = strstr(at, sample));) {
        at += strlen(sample);
        len += (size_t)snprintf(bounds + len, sizeof bounds - len, "%.*s ", (int)strcspn(at, "\""),
                                at);
    }
    buf_release(&page);
    return len ? bounds : "";
}

TEST(model_figures_have_the_bounds_that_dashboards_know) {
    model_metrics_of("m");
    EXPECT_STR(bounds_of("vllm:iteration_tokens_total"),
               "1 2 4 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 +Inf ");
    static const char *const TOKENS[] = {
        "vllm:request_prompt_tokens", "vllm:request_generation_tokens",
        "vllm:request_max_num_generation_tokens", "vllm:request_prefill_kv_computed_tokens",
        "vllm:request_params_max_tokens"};
    for (size_t i = 0; i < ARRAY_LEN(TOKENS); i++)
        EXPECT_STR(bounds_of(TOKENS[i]), "1 2 5 10 20 50 100 200 500 1000 2000 5000 10000 20000 "
                                         "50000 100000 200000 500000 1000000 +Inf ");
    EXPECT_STR(bounds_of("vllm:request_params_n"), "1 2 5 10 20 50 100 +Inf ");
}

/* Names past the bound share a row, whichever they are: no client makes more. Last, as it fills the
 * list for good. */
TEST(model_figures_past_the_last_row_are_shared) {
    char name[16];
    const struct metric *rows[MODEL_METRICS_MAX + 2], *m = model_metrics_of("m");
    for (int i = 0; i < MODEL_METRICS_MAX + 2; i++) {
        snprintf(name, sizeof name, "many-%d", i);
        rows[i] = model_metrics_of(name);
    }
    const struct metric *other = model_metrics_of("other");
    int own = 0;
    for (int i = 0; i < MODEL_METRICS_MAX + 2; i++) {
        own += rows[i] != other;
        EXPECT(i == 0 || rows[i] != rows[i - 1] || rows[i] == other);
    }
    struct buf page = {0};
    metrics_write(&page);
    int samples = 0;
    for (const char *at = buf_text(&page); (at = strstr(at, "\ntrireme_model_slots{")); at++)
        samples++;
    buf_release(&page);
    EXPECT_EQ(samples, MODEL_METRICS_MAX);
    EXPECT(own > 0 && own < MODEL_METRICS_MAX);
    EXPECT(model_metrics_of("m") == m);
}
