/*
 * report.h - a load test's figures as `vllm bench serve` lays them out, for people and as JSON, and two
 * such JSON files side by side.
 */
#ifndef CLI_BENCH_REPORT_H
#define CLI_BENCH_REPORT_H

#include "cli/bench/stats.h"

#include <cjson/cJSON.h>

struct bench_about { /* what was asked for */
    const char *backend, *model, *dataset;
    double rate, burstiness; /* rate INFINITY: none */
    size_t prompt_count, max_open;
    bool detailed;     /* JSON: each request's own figures, too */
    uint32_t measures; /* bit m: measure m is printed */
    struct bench_limits limits;
    struct bench_percentiles percentiles;
};

/* Appends the report for people. */
void bench_report_text(struct buf *out, const struct bench_about *about,
                       const struct bench_report *report);
/* Appends it as one JSON object, with the names that vLLM's has. */
void bench_report_json(struct buf *out, const struct bench_about *about,
                       const struct bench_report *report, const struct bench_outcome *outcomes,
                       size_t count);

/* A report that was saved; both borrowed. */
struct bench_report_file {
    const char *name;  /* its path: what errors and a picture's legend call it */
    struct bytes json; /* its text */
};
/* The file's one JSON value; owned, cJSON_Delete() it. The error names the file. */
MUST_CHECK int bench_report_parse(const struct bench_report_file *file, cJSON **document,
                                  struct error *err);
/* Appends a table of what two reports both tell: a, b, and b over a. */
MUST_CHECK int bench_compare(struct buf *out, const struct bench_report_file *a,
                             const struct bench_report_file *b, struct error *err);

#endif
