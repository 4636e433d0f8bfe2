#include "replay/report.h"

#include <inttypes.h>
#include <stdlib.h>

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The rank of a percentile among `count` values, from 0. */
static size_t rank_of(size_t count, int percent) {
    size_t rank = (count * (size_t)percent + 99) / 100;
    return rank ? rank - 1 : 0;
}

static struct replay_percentiles percentiles_of(int64_t *us, size_t count) {
    if (!count)
        return (struct replay_percentiles){0};
    qsort(us, count, sizeof *us, compare);
    return (struct replay_percentiles){(double)us[rank_of(count, 50)] / 1000,
                                       (double)us[rank_of(count, 90)] / 1000,
                                       (double)us[rank_of(count, 99)] / 1000};
}

static double gap_percentile(const struct replay_result *result, uint64_t count, int percent) {
    size_t rank = rank_of(count, percent), ms = 0;
    for (uint64_t seen = result->gaps.items[0]; seen <= rank && ms + 1 < result->gaps.count;)
        seen += result->gaps.items[++ms];
    return (double)ms;
}

static struct replay_percentiles gap_percentiles(const struct replay_result *result) {
    uint64_t count = 0;
    for (size_t i = 0; i < result->gaps.count; i++)
        count += result->gaps.items[i];
    if (!count)
        return (struct replay_percentiles){0};
    return (struct replay_percentiles){gap_percentile(result, count, 50),
                                       gap_percentile(result, count, 90),
                                       gap_percentile(result, count, 99)};
}

static void add_shares(const struct replay_config *config, const struct bench_trace *trace,
                       const struct replay_result *result, struct replay_figures *out) {
    uint64_t *tokens = mem_calloc(config->tenants, sizeof *tokens), total = 0;
    for (size_t i = 0; i < result->outcomes.count; i++) {
        const struct replay_outcome *o = &result->outcomes.items[i];
        uint32_t prompt = o->state == REPLAY_ANSWERED ? trace->requests.items[o->request].input : 0;
        tokens[o->tenant] += prompt - MIN(prompt, o->cached) + o->output;
        total += prompt - MIN(prompt, o->cached) + o->output;
    }
    for (uint32_t i = 0; i < config->tenants && total; i++) {
        double share = (double)tokens[i] * config->tenants / (double)total;
        out->least_share = i ? MIN(out->least_share, share) : share;
        out->most_share = MAX(out->most_share, share);
    }
    mem_free(tokens);
}

void replay_figures(const struct replay_config *config, const struct bench_trace *trace,
                    const struct replay_result *result, struct replay_figures *out) {
    size_t count = result->outcomes.count, ttfts = 0, e2es = 0;
    int64_t *ttft = mem_calloc(MAX(count, 1), sizeof *ttft);
    int64_t *e2e = mem_calloc(MAX(count, 1), sizeof *e2e);
    const struct replay_span *window = &result->window;
    *out = (struct replay_figures){.requests = count};
    for (size_t i = 0; i < count; i++) {
        const struct replay_outcome *o = &result->outcomes.items[i];
        out->answered += o->state == REPLAY_ANSWERED;
        out->refused += o->state == REPLAY_REFUSED;
        out->open += o->state == REPLAY_OPEN;
        if (o->state != REPLAY_ANSWERED)
            continue;
        out->prompt_tokens += trace->requests.items[o->request].input;
        out->cached_tokens += o->cached;
        if ((double)o->sent_us < config->warm * 1e6)
            continue;
        ttft[ttfts++] = o->first_us - o->sent_us;
        e2e[e2es++] = o->last_us - o->sent_us;
    }
    out->ttft = percentiles_of(ttft, ttfts);
    out->e2e = percentiles_of(e2e, e2es);
    out->itl = gap_percentiles(result);
    mem_free(ttft);
    mem_free(e2e);
    add_shares(config, trace, result, out);
    double seconds = MAX(window->seconds, 1e-9), cpu_us = window->cpu_seconds * 1e6;
    double events = (double)MAX(window->submits + window->steps + window->acks + window->beats, 1);
    out->request_rate = (double)window->submits / seconds;
    out->output_rate = (double)window->output_tokens / seconds;
    out->computed_rate = (double)window->computed_tokens / seconds;
    out->times_real_time = window->seconds / MAX(window->cpu_seconds, 1e-9);
    out->event_us = cpu_us / events;
    out->core_event_us = cpu_us * window->core_share / events;
    out->core_token_us = cpu_us * window->core_share / (double)MAX(window->computed_tokens, 1);
}

static void print_line(struct buf *out, const char *name, const struct replay_percentiles *p) {
    buf_addf(out, "%-34s %10.1f %10.1f %10.1f\n", name, p->p50, p->p90, p->p99);
}

void replay_print(const struct replay_config *config, const struct replay_result *result,
                  const struct replay_figures *f, struct buf *out) {
    const struct replay_span *w = &result->window;
    buf_addf(out,
             "%" PRIu32 " replicas, %" PRIu32
             " copies of the trace, %g times as fast, seed %" PRIu64 "\n",
             config->replicas, config->copies, config->speed, config->seed);
    buf_addf(out, "requests: %zu, answered %zu, refused %zu, lost %zu\n", f->requests, f->answered,
             f->refused, f->open);
    buf_addf(out, "%-34s %10s %10s %10s\n", "milliseconds", "p50", "p90", "p99");
    print_line(out, "time to first token", &f->ttft);
    print_line(out, "between tokens", &f->itl);
    print_line(out, "whole answer", &f->e2e);
    buf_addf(out, "window: %.1f virtual seconds; replicas compute %.1f %% of it\n", w->seconds,
             w->busy * 100);
    buf_addf(out, "a virtual second: %.1f requests, %.0f tokens out, %.0f positions computed\n",
             f->request_rate, f->output_rate, f->computed_rate);
    buf_addf(out,
             "prompt tokens %" PRIu64 ", from the cache %" PRIu64 " (%.1f %%); evictions %" PRIu64
             "\n",
             f->prompt_tokens, f->cached_tokens,
             100 * (double)f->cached_tokens / (double)MAX(f->prompt_tokens, 1),
             result->counts.evictions);
    buf_addf(out, "preemptions %" PRIu64 ", wasted rows %" PRIu64 ", sent again %" PRIu64 "\n",
             result->counts.preemptions, result->counts.wasted_rows, result->counts.retransmits);
    if (config->tenants > 1)
        buf_addf(out, "%" PRIu32 " tenants: %.2f to %.2f of an equal share of tokens\n",
                 config->tenants, f->least_share, f->most_share);
    buf_addf(out,
             "%.2f times as fast as real time on one core (%.1f s of processor time, %.0f %% of "
             "it in the core)\n",
             f->times_real_time, w->cpu_seconds, w->core_share * 100);
    buf_addf(out,
             "an event: %.2f us, of the core %.2f us; a position computed: %.3f us of the core\n",
             f->event_us, f->core_event_us, f->core_token_us);
    buf_addf(out, "digest %016" PRIx64 ", faults %" PRIu64 "\n", result->digest, result->faults);
}

static void add_percentiles(struct buf *out, const char *name, const struct replay_percentiles *p) {
    buf_addf(out, "  \"p50_%s_ms\": %.3f, \"p90_%s_ms\": %.3f, \"p99_%s_ms\": %.3f,\n", name,
             p->p50, name, p->p90, name, p->p99);
}

void replay_print_json(const struct replay_config *config, const struct replay_result *result,
                       const struct replay_figures *f, struct buf *out) {
    const struct replay_span *w = &result->window;
    const struct sched_counts *counts = &result->counts;
    buf_addf(out,
             "{\n  \"replicas\": %" PRIu32 ", \"copies\": %" PRIu32
             ", \"speed\": %g, \"seed\": %" PRIu64 ",\n",
             config->replicas, config->copies, config->speed, config->seed);
    buf_addf(out, "  \"requests\": %zu, \"answered\": %zu, \"refused\": %zu, \"lost\": %zu,\n",
             f->requests, f->answered, f->refused, f->open);
    add_percentiles(out, "ttft", &f->ttft);
    add_percentiles(out, "itl", &f->itl);
    add_percentiles(out, "e2el", &f->e2e);
    buf_addf(out,
             "  \"window_seconds\": %.3f, \"busy\": %.4f, \"request_rate\": %.3f, "
             "\"output_rate\": %.3f, \"computed_rate\": %.3f,\n",
             w->seconds, w->busy, f->request_rate, f->output_rate, f->computed_rate);
    buf_addf(out,
             "  \"prompt_tokens\": %" PRIu64 ", \"cached_tokens\": %" PRIu64
             ", \"evictions\": %" PRIu64 ", \"preemptions\": %" PRIu64 ", \"wasted_rows\": %" PRIu64
             ", \"retransmits\": %" PRIu64 ",\n",
             f->prompt_tokens, f->cached_tokens, counts->evictions, counts->preemptions,
             counts->wasted_rows, counts->retransmits);
    buf_addf(out, "  \"tenants\": %" PRIu32 ", \"least_share\": %.4f, \"most_share\": %.4f,\n",
             config->tenants, f->least_share, f->most_share);
    buf_addf(
        out,
        "  \"times_real_time\": %.4f, \"cpu_seconds\": %.3f, \"core_share\": %.4f, \"event_us\": %.4f, "
        "\"core_event_us\": %.4f, \"core_token_us\": %.5f,\n",
        f->times_real_time, w->cpu_seconds, w->core_share, f->event_us, f->core_event_us,
        f->core_token_us);
    buf_addf(out, "  \"digest\": \"%016" PRIx64 "\", \"faults\": %" PRIu64 "\n}\n", result->digest,
             result->faults);
}
