/*
 * worker.h - one rank's process: it registers, beats, falls silent, exits (events of sched.h).
 */
#ifndef SCHEDULER_CORE_WORKER_H
#define SCHEDULER_CORE_WORKER_H

#include "scheduler/core/capabilities.h"

enum { ASK_AGAIN_MS = 1000 };

struct worker {
    struct u128 instance;
    uint32_t pid;
    uint32_t rank; /* in its replica, stage by stage */
    uint32_t incarnation;
    bool loading;
    bool registered;
    struct replica *replica;
    struct rank_capabilities capabilities;
    uint64_t progress;    /* of its last heartbeat */
    uint32_t idle_beats;  /* that say idle, or waiting for another rank, while plans are out */
    uint32_t stuck_beats; /* past the deadline of one step */
    int64_t asked_at;     /* last time it was asked to register */
};

/* Asks it to register anew. */
void worker_ask(struct sched *s, struct worker *worker);
/* Forgets and frees it; its replica has no such rank any more. */
void worker_remove(struct sched *s, struct worker *worker);

#endif
