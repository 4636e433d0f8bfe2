/*
 * stats.h - from what each request of a load test saw to the figures of its report. Pure.
 *
 * As `vllm bench serve` counts them: TTFT from sending to the first token, TPOT the rest of the time
 * over the tokens after the first, ITL between two pieces of text, E2EL from sending to the last;
 * percentiles with linear interpolation, standard deviations of the population. A request counts for
 * goodput when it was answered and each of its measures is within its limit.
 */
#ifndef CLI_BENCH_STATS_H
#define CLI_BENCH_STATS_H

#include "base/buf.h"
#include "base/error.h"
#include "base/vec.h"

enum bench_measure { BENCH_TTFT, BENCH_TPOT, BENCH_ITL, BENCH_E2EL, BENCH_MEASURE_COUNT };
enum { BENCH_PERCENTILES_MAX = 8 };

/* What one request saw; times in seconds since the run began. */
struct bench_outcome {
    double sent, first, last; /* first and last piece of text */
    VEC(float) gaps;          /* seconds between pieces */
    uint32_t prompt_tokens, output_tokens, max_tokens;
    char *error; /* owned; NULL: it was answered */
};

struct bench_limits {
    double ms[BENCH_MEASURE_COUNT]; /* 0: none */
    bool any;
};
struct bench_percentiles {
    double of[BENCH_PERCENTILES_MAX];
    size_t count;
};

struct bench_figures { /* milliseconds */
    double mean, median, std, percentiles[BENCH_PERCENTILES_MAX];
    size_t count; /* 0: the rest means nothing */
};
struct bench_report {
    size_t completed, failed, good;
    uint64_t input_tokens, output_tokens;
    double seconds;
    double request_rate, goodput, output_rate, total_rate; /* a second */
    double peak_output_rate; /* most tokens that came within one whole second of the run */
    size_t peak_concurrent;  /* most requests open at one time */
    struct bench_figures measures[BENCH_MEASURE_COUNT];
};

/* Puts them in ascending order. */
void bench_sort(double *values, size_t count);
/* The percentile 0 to 100 of values, which are sorted; NAN without any. */
double bench_percentile(const double *sorted, size_t count, double percent);
/* "ttft:200,tpot:50": limits in milliseconds. NULL or "": none. */
MUST_CHECK int bench_limits_parse(const char *text, struct bench_limits *out, struct error *err);
/* "50,90,99". */
MUST_CHECK int bench_percentiles_parse(const char *text, struct bench_percentiles *out,
                                       struct error *err);
/* The figures of a run that took `seconds`. */
void bench_count(const struct bench_outcome *outcomes, size_t count, double seconds,
                 const struct bench_limits *limits, const struct bench_percentiles *percentiles,
                 struct bench_report *out);
/* Frees what an outcome owns. */
void bench_outcome_release(struct bench_outcome *o);

extern const char *const bench_measure_names[BENCH_MEASURE_COUNT]; /* "ttft", ... */
/* BENCH_MEASURE_COUNT: no measure is called so. */
int bench_find_measure(struct bytes name);

#endif
