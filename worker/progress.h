/*
 * progress.h - what the compute thread tells the control thread without a message: read at any
 * time, for heartbeats and probes.
 */
#ifndef WORKER_PROGRESS_H
#define WORKER_PROGRESS_H

#include <stdatomic.h>

#include "base/base.h"

struct worker_progress {
    /* goes up whenever the compute thread gets anywhere: a tensor, a layer, a step */
    _Atomic uint64_t count;
    _Atomic uint64_t plan_number; /* being computed; 0: none */
    _Atomic uint32_t step_tokens;
    _Atomic int64_t step_start_ms; /* clock_ms(); 0: no step */
    _Atomic bool waiting;          /* for another rank of the replica */
};

static inline void progress_tick(struct worker_progress *p) {
    atomic_fetch_add_explicit(&p->count, 1, memory_order_relaxed);
}

#endif
