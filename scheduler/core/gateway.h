/*
 * gateway.h - one gateway's process: its requests, and what it is owed.
 *
 * A silent one's requests give their slots up at once (resumable ones run on); when it has been
 * silent for silence_drop_ms, or is known to be dead, they are dropped and resumable ones run on
 * without a gateway.
 */
#ifndef SCHEDULER_CORE_GATEWAY_H
#define SCHEDULER_CORE_GATEWAY_H

#include "scheduler/core/list.h"
#include "scheduler/core/sched.h"

struct gateway {
    struct u128 instance;
    bool silent;
    int64_t silent_since;
    struct list_node requests; /* by gateway_link */
    struct list_node dirty;    /* sequences with something to send */
    struct list_node link;     /* of sched.gateways */
};

/* The gateway of this instance, made when new; one that was silent is not any more. */
struct gateway *gateway_get(struct sched *s, struct u128 instance);
/* Drops its requests and frees it; resumable ones run on without it. */
void gateway_drop(struct sched *s, struct gateway *gateway);
/* Drops those that have been silent for too long. */
void gateways_run(struct sched *s);
/* When gateways_run has something to do; NEVER. */
int64_t gateways_next(const struct sched *s);

#endif
