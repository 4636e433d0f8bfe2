/*
 * poison.h - finds the request that crashes its worker.
 *
 * Only a crash counts: an end of the worker that a request can have caused. Sequences that were in
 * flight at a crash are suspects until they are past the position where they were. When a sequence
 * sees its second crash, the suspects are set apart from all others. Halves of them run alone on one
 * replica, one half at a time. The half that crashes is halved again, and one that crashes its worker
 * alone is refused. So one bad request among n costs two crashes and then log2(n).
 */
#ifndef SCHEDULER_CORE_POISON_H
#define SCHEDULER_CORE_POISON_H

#include "base/vec.h"
#include "scheduler/core/replica.h"

enum { SCHED_CRASH_RECORDS = 8 };

/* Suspects that run apart from the others. */
struct suspect_group {
    struct list_node link;    /* of sched.groups; the front one is tested */
    struct list_node members; /* sequences, by group_link */
    uint32_t id;
    uint32_t count;
    struct replica *replica; /* being tested there; NULL: waits */
};

/* Who was in flight when a worker was given up without a known cause: its exit may tell later. */
struct crash_suspect {
    struct u128 request;
    uint32_t choice;
    uint32_t danger_until;
};
struct crash_record {
    struct u128 instances[4];
    uint32_t instance_count;
    int64_t until;
    VEC(struct crash_suspect) suspects;
};

/* These were in flight at an attributable death, computing positions below dangers. Reorders
 * suspects. May refuse a request. */
void suspects_crashed(struct sched *s, struct sequence **suspects, const uint32_t *dangers,
                      size_t count);
/* After progress: cleared when it is past the position in danger. */
void suspect_review(struct sched *s, struct sequence *q);
/* It is no longer under suspicion, or has ended. */
void suspect_clear(struct sched *s, struct sequence *q);
/* A request that may be among those remembered has another id. */
void crash_rename(struct sched *s, struct u128 from, struct u128 to);
/* The ranks of r were given up with these in flight; the cause may become known. */
void crash_remember(struct sched *s, struct replica *r, struct sequence **suspects,
                    const uint32_t *dangers, size_t count);
/* The cause is known now: with fault, those that were in flight become suspects. */
void crash_explained(struct sched *s, struct u128 instance, bool fault);
/* It registered anew, done with its steps: what kills it later has nothing to do with the
 * crashes before. */
void crash_survived(struct sched *s, struct u128 instance);
/* The front group gets a replica, and its members slots. */
void groups_place(struct sched *s);
/* No group is tested on r any more. */
void groups_unassign(struct sched *s, struct replica *r);

#endif
