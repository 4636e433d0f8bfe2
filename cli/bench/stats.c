#include "cli/bench/stats.h"

#include "base/words.h"

#include <math.h>
#include <stdlib.h>

const char *const bench_measure_names[BENCH_MEASURE_COUNT] = {"ttft", "tpot", "itl", "e2el"};

typedef VEC(double) doubles;

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(double *values, size_t count) {
    if (count)
        qsort(values, count, sizeof *values, compare_doubles);
}

double bench_percentile(const double *sorted, size_t count, double percent) {
    if (!count)
        return NAN;
    double at = percent / 100 * (double)(count - 1), below = floor(at);
    size_t i = (size_t)below, next = MIN(i + 1, count - 1);
    return sorted[i] + (at - below) * (sorted[next] - sorted[i]);
}

int bench_find_measure(struct bytes name) {
    int m = 0;
    while (m < BENCH_MEASURE_COUNT && !bytes_equal(name, bytes_str(bench_measure_names[m])))
        m++;
    return m;
}

int bench_limits_parse(const char *text, struct bench_limits *out, struct error *err) {
    struct bytes word;
    *out = (struct bench_limits){0};
    for (const char *at = text ? text : ""; words_next(&at, ", ", &word);) {
        const char *colon = memchr(word.data, ':', word.len);
        size_t len = colon ? (size_t)(colon - (const char *)word.data) : word.len;
        char *end = NULL;
        double ms = colon ? strtod(colon + 1, &end) : 0;
        int measure = bench_find_measure(bytes_of(word.data, len));
        if (!colon || end == colon + 1 || end != at || !(ms > 0) || isinf(ms) ||
            measure == BENCH_MEASURE_COUNT || measure == BENCH_ITL)
            return error_set(err, ERR_INVALID,
                             "--goodput takes ttft:MS, tpot:MS and e2el:MS, not '%s'", text);
        out->ms[measure] = ms;
        out->any = true;
    }
    return 0;
}

int bench_percentiles_parse(const char *text, struct bench_percentiles *out, struct error *err) {
    struct bytes word;
    *out = (struct bench_percentiles){0};
    for (const char *at = text; words_next(&at, ", ", &word);) {
        char *end;
        double percent = strtod((const char *)word.data, &end);
        if (end != at || !(percent >= 0 && percent <= 100) || out->count == BENCH_PERCENTILES_MAX)
            return error_set(err, ERR_INVALID,
                             "--metric-percentiles takes up to %d numbers from 0 to 100, not '%s'",
                             BENCH_PERCENTILES_MAX, text);
        out->of[out->count++] = percent;
    }
    return 0;
}

static void fill_figures(doubles *values, const struct bench_percentiles *percentiles,
                         struct bench_figures *out) {
    double sum = 0, squares = 0;
    size_t n = values->count;
    *out = (struct bench_figures){.count = n};
    if (!n)
        return;
    bench_sort(values->items, n);
    for (size_t i = 0; i < n; i++)
        sum += values->items[i];
    out->mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (values->items[i] - out->mean) * (values->items[i] - out->mean);
    out->std = sqrt(squares / (double)n);
    out->median = bench_percentile(values->items, n, 50);
    for (size_t i = 0; i < percentiles->count; i++)
        out->percentiles[i] = bench_percentile(values->items, n, percentiles->of[i]);
}

/* A request's own measure in milliseconds; NAN: it has none. */
static double measure_of(const struct bench_outcome *o, enum bench_measure measure) {
    if (measure == BENCH_TTFT)
        return (o->first - o->sent) * 1000;
    if (measure == BENCH_E2EL)
        return (o->last - o->sent) * 1000;
    return o->output_tokens > 1 ? (o->last - o->first) * 1000 / (double)(o->output_tokens - 1)
                                : NAN;
}

static bool is_good(const struct bench_outcome *o, const struct bench_limits *limits) {
    for (int m = 0; m < BENCH_MEASURE_COUNT; m++)
        if (limits->ms[m] > 0 && m != BENCH_ITL &&
            measure_of(o, (enum bench_measure)m) > limits->ms[m])
            return false;
    return true;
}

/* Most requests between their sending and their last piece at one time. */
static size_t peak_concurrent(const struct bench_outcome *outcomes, size_t count) {
    doubles begins = {0}, ends = {0};
    size_t peak = 0, ended = 0;
    for (size_t i = 0; i < count; i++) {
        if (outcomes[i].error)
            continue;
        vec_push(&begins, outcomes[i].sent);
        vec_push(&ends, outcomes[i].last);
    }
    bench_sort(begins.items, begins.count);
    bench_sort(ends.items, ends.count);
    for (size_t i = 0; i < begins.count; i++) {
        while (ends.items[ended] < begins.items[i])
            ended++;
        peak = MAX(peak, i + 1 - ended);
    }
    vec_release(&begins);
    vec_release(&ends);
    return peak;
}

/* Adds each piece of a request to the second in which it came. Pieces share its tokens evenly: one
 * piece may be several tokens. */
static void add_pieces(const struct bench_outcome *o, double *tokens, size_t seconds) {
    double at = o->first, each = (double)o->output_tokens / (double)(o->gaps.count + 1);
    for (size_t i = 0; i <= o->gaps.count; i++) {
        if (at >= 0 && at < (double)seconds)
            tokens[(size_t)at] += each;
        if (i < o->gaps.count)
            at += (double)o->gaps.items[i];
    }
}

static double peak_output(const struct bench_outcome *outcomes, size_t count, double seconds) {
    size_t whole = (size_t)ceil(seconds) + 1;
    double *tokens = mem_calloc(whole, sizeof *tokens), peak = 0;
    for (size_t i = 0; i < count; i++)
        if (!outcomes[i].error && outcomes[i].output_tokens)
            add_pieces(&outcomes[i], tokens, whole);
    for (size_t i = 0; i < whole; i++)
        peak = MAX(peak, tokens[i]);
    mem_free(tokens);
    return peak;
}

void bench_count(const struct bench_outcome *outcomes, size_t count, double seconds,
                 const struct bench_limits *limits, const struct bench_percentiles *percentiles,
                 struct bench_report *out) {
    doubles values[BENCH_MEASURE_COUNT] = {0};
    *out = (struct bench_report){.seconds = seconds};
    for (size_t i = 0; i < count; i++) {
        const struct bench_outcome *o = &outcomes[i];
        out->failed += o->error != NULL;
        if (o->error)
            continue;
        out->completed++;
        out->good += is_good(o, limits);
        out->input_tokens += o->prompt_tokens;
        out->output_tokens += o->output_tokens;
        for (int m = 0; m < BENCH_MEASURE_COUNT; m++) {
            double ms = m == BENCH_ITL ? NAN : measure_of(o, (enum bench_measure)m);
            if (!isnan(ms))
                vec_push(&values[m], ms);
        }
        for (size_t g = 0; g < o->gaps.count; g++)
            vec_push(&values[BENCH_ITL], (double)o->gaps.items[g] * 1000);
    }
    for (int m = 0; m < BENCH_MEASURE_COUNT; m++) {
        fill_figures(&values[m], percentiles, &out->measures[m]);
        vec_release(&values[m]);
    }
    out->peak_concurrent = peak_concurrent(outcomes, count);
    out->peak_output_rate = peak_output(outcomes, count, seconds);
    if (seconds <= 0)
        return;
    out->request_rate = (double)out->completed / seconds;
    out->goodput = (double)out->good / seconds;
    out->output_rate = (double)out->output_tokens / seconds;
    out->total_rate = (double)(out->input_tokens + out->output_tokens) / seconds;
}

void bench_outcome_release(struct bench_outcome *o) {
    vec_release(&o->gaps);
    mem_free(o->error);
    o->error = NULL;
}
