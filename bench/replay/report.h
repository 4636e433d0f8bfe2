/*
 * report.h - a replay's figures, as a table and as JSON.
 *
 * Latencies are of the requests that were sent in the window; percentiles by nearest rank. Gaps between
 * pieces of text are of the whole run, in whole milliseconds, since a turn is a millisecond.
 */
#ifndef REPLAY_REPORT_H
#define REPLAY_REPORT_H

#include "base/buf.h"
#include "replay/cluster.h"

struct replay_percentiles {
    double p50, p90, p99; /* milliseconds */
};
enum { REPLAY_TENANTS_MAX = 1024 };
struct replay_figures {
    size_t requests, answered, refused, open; /* of the whole run; open: lost */
    struct replay_percentiles ttft, itl, e2e;
    uint64_t prompt_tokens, cached_tokens; /* of answered requests, at their first placing */
    double request_rate, output_rate, computed_rate; /* a virtual second of the window */
    double least_share,
        most_share;         /* tenants' tokens to an equal share; 1: equal; 0: none answered */
    double times_real_time; /* virtual seconds of the window to processor seconds */
    double event_us,
        core_event_us;    /* processor time of an event (peers included; the core's alone) */
    double core_token_us; /* the core's to computed positions */
};

void replay_figures(const struct replay_config *config, const struct bench_trace *trace,
                    const struct replay_result *result, struct replay_figures *out);
void replay_print(const struct replay_config *config, const struct replay_result *result,
                  const struct replay_figures *figures, struct buf *out);
void replay_print_json(const struct replay_config *config, const struct replay_result *result,
                       const struct replay_figures *figures, struct buf *out);

#endif
