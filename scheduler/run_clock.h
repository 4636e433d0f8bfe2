/*
 * run_clock.h - milliseconds that count only while this process runs: the core's time.
 *
 * The loop turns at least every heartbeat. A turn that comes much later means that the process was
 * stopped or starved; what lies between is cut to one heartbeat, so that nobody's deadline passes
 * while we could not hear them. Pure: the wall is an argument.
 */
#ifndef SCHEDULER_RUN_CLOCK_H
#define SCHEDULER_RUN_CLOCK_H

#include "base/base.h"

struct run_clock {
    int64_t late_ms, step_ms; /* a gap above late_ms counts as step_ms */
    int64_t wall_ms, now_ms;
    uint64_t late_count;
};

static inline void run_clock_init(struct run_clock *c, int64_t heartbeat_ms, int64_t wall_ms) {
    *c = (struct run_clock){.late_ms = 4 * heartbeat_ms,
                            .step_ms = heartbeat_ms,
                            .wall_ms = wall_ms,
                            .now_ms = wall_ms};
}

static inline int64_t run_clock_turn(struct run_clock *c, int64_t wall_ms) {
    int64_t gap = MAX(wall_ms - c->wall_ms, (int64_t)0);
    if (gap > c->late_ms) {
        gap = c->step_ms;
        c->late_count++;
    }
    c->wall_ms = wall_ms;
    return c->now_ms += gap;
}

#endif
