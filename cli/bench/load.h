/*
 * load.h - sends the requests of a load test at their times and notes what comes back.
 *
 * A thread for each request that is open, with a connection of its own: what is measured is what a
 * client sees, the connection's making included. Answers are read as streams.
 */
#ifndef CLI_BENCH_LOAD_H
#define CLI_BENCH_LOAD_H

#include "cli/api_client.h"
#include "cli/bench/dataset.h"
#include "cli/bench/stats.h"

enum { BENCH_OPEN_MAX = 4096 }; /* requests at one time, whatever is asked */

struct bench_load_config {
    struct api_client client;
    const char *endpoint; /* "/v1/completions" */
    const char *model;    /* NULL: the field is left out */
    bool chat, ignore_eos;
    double temperature;
    size_t max_open; /* 1 to BENCH_OPEN_MAX */
    int timeout_ms;  /* without a byte */
    /* Told after each request, from any thread, one at a time; NULL: not. */
    void (*on_done)(void *ctx, size_t done);
    void *ctx;
};

/* Sends prompts[i] at times[i] seconds (ascending), or when fewer than max_open are open. Fills
 * outcomes[count], which the caller releases. Returns the seconds it took. */
double bench_load(const struct bench_load_config *c, const struct bench_prompt *prompts,
                  const double *times, size_t count, struct bench_outcome *outcomes);
/* The body of one request. */
void bench_body(const struct bench_load_config *c, const struct bench_prompt *prompt,
                struct buf *out);

#endif
