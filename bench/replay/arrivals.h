/*
 * arrivals.h - when each request of a trace comes, with which prompt, and whose it is.
 *
 * All of it follows from the trace and from the configuration's seed; cluster.h says how copies of
 * the trace differ.
 */
#ifndef REPLAY_ARRIVALS_H
#define REPLAY_ARRIVALS_H

#include "replay/cluster.h"

struct replay_arrival {
    int64_t at_us;    /* of virtual time */
    uint32_t request; /* of the trace */
    uint32_t copy;
};
struct replay_arrivals {
    struct replay_arrival *items; /* owned */
    size_t count, cap;
};
struct replay_prompt {
    uint32_t *items; /* owned token ids */
    size_t count, cap;
};

/* A number that follows from two: what is drawn here is drawn by this. */
uint64_t replay_mix(uint64_t a, uint64_t b);
/* All copies of the trace, as far as config->until, by time. *out is zeroed first, and to be released
 * by vec_release. */
void replay_arrivals_make(const struct replay_config *config, const struct bench_trace *trace,
                          struct replay_arrivals *out);
/* Its prompt in the place of what is in *out, which is zeroed before the first and released by
 * vec_release. */
void replay_prompt_make(const struct replay_config *config, const struct bench_trace *trace,
                        const struct replay_arrival *arrival, struct replay_prompt *out);
/* Below config->tenants. */
uint32_t replay_tenant(const struct replay_config *config, const struct bench_trace *trace,
                       const struct replay_arrival *arrival);

#endif
