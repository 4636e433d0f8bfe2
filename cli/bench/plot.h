/*
 * plot.h - latencies of load tests as a picture (SVG): for the time to the first token and the time
 * between two pieces, the share of all that took no longer.
 *
 * Pure: from JSON reports with each request's own figures (bench_report_json with `detailed`, or those
 * of `vllm bench serve --save-detailed`) to text.
 */
#ifndef CLI_BENCH_PLOT_H
#define CLI_BENCH_PLOT_H

#include "cli/bench/report.h"

enum { BENCH_PLOT_REPORTS_MAX = 4 };

/* Appends the picture of `count` reports, at least one. ERR_INVALID: one is no JSON, or has no
 * request's own figures. */
MUST_CHECK int bench_plot(struct buf *out, const struct bench_report_file *reports, size_t count,
                          struct error *err);

#endif
