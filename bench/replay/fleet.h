/*
 * fleet.h - the simulated workers: each computes its plans in order, and a step takes what the cost
 * model says.
 *
 * A worker samples one token for each row that reaches the end of its prompt. The token is always 0
 * and nothing ends a sequence but its length. This file knows the messages, not the core.
 */
#ifndef REPLAY_FLEET_H
#define REPLAY_FLEET_H

#include "proto/messages.h"
#include "replay/cluster.h"

struct fleet_worker;
/* A worker that computes. */
struct fleet_due {
    int64_t ends_us; /* its step */
    uint32_t worker;
};

struct fleet {
    const struct replay_config *config; /* borrowed */
    struct fleet_worker *workers;       /* owned [replicas] */
    struct fleet_due *computing;        /* owned [replicas]: a heap, the first to end in front */
    uint32_t computing_count;
    uint32_t *zeros; /* owned [slots] */
    int64_t busy_us; /* of all steps that have ended */
};

/* Idle workers. The configuration must outlive the fleet, which must be released. */
void fleet_init(struct fleet *fleet, const struct replay_config *config);
void fleet_release(struct fleet *fleet);
/* What worker idx registers with; *hello borrows *group. */
void fleet_hello(const struct fleet *fleet, uint32_t idx, struct wire_kv_group *group,
                 struct wire_hello *hello);
/* What worker idx says of itself now. Returns who it is. */
struct u128 fleet_beat(const struct fleet *fleet, uint32_t idx, int64_t now_ms,
                       struct wire_heartbeat *beat);
/* A worker gets a plan; it begins at once when it has no other. */
void fleet_take_plan(struct fleet *fleet, int64_t now_us, struct u128 instance,
                     const struct wire_plan *plan);
/* When the next step ends; INT64_MAX: nobody computes. */
int64_t fleet_next_us(const struct fleet *fleet);
/* That step ends, and the worker begins its next one. Returns who it is; the result's arrays are valid
 * until it takes a plan. */
struct u128 fleet_end_step(struct fleet *fleet, struct wire_step_result *result);
/* Microseconds that the workers have computed until now, all together. */
int64_t fleet_busy_us(const struct fleet *fleet, int64_t now_us);

#endif
