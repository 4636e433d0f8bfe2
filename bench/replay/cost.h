/*
 * cost.h - how long a step takes on a simulated worker: the longer of its arithmetic and its reads,
 * and a fixed part.
 *
 *   arithmetic  2 * parameters operations a position, and for attention 4 * layers * width for each
 *               pair of a position and one that it attends to (scores and weighted sum)
 *   reads       all weights once, and the keys and values of each row's context
 */
#ifndef REPLAY_COST_H
#define REPLAY_COST_H

#include <stdint.h>

struct replay_cost {
    double parameters;
    double weight_bytes;
    double kv_bytes;        /* of one position, all layers */
    double attention_width; /* layers * heads * size of a head */
    double operations;      /* a second that are reached */
    double bandwidth;       /* bytes a second that are reached */
    double fixed_us;        /* of every step */
};

/* What a step has to do; zeroed first. */
struct replay_work {
    uint64_t positions; /* computed */
    double pairs;       /* of a position and one that it attends to */
    uint64_t context;   /* positions whose keys and values are read, all rows together */
};

/* A row of `count` positions behind `before` that are computed already. */
void replay_work_add(struct replay_work *work, uint32_t before, uint32_t count);
/* Microseconds, at least 1. */
int64_t replay_step_us(const struct replay_cost *cost, const struct replay_work *work);

#endif
