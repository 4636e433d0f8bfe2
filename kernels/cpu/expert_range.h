/*
 * expert_range.h - experts' products by ranges of pairs: as many at a time as the device has room for
 * rows that are made ready for its product (CPU_PACK_BYTES).
 *
 * Pairs lie by expert (struct expert_plan), so an expert's part of a range is one piece.
 */
#ifndef KERNELS_CPU_EXPERT_RANGE_H
#define KERNELS_CPU_EXPERT_RANGE_H

#include "kernels/ops.h"

struct expert_range {
    uint32_t first, count; /* pairs [first, first + count) */
    uint32_t active;
    uint32_t experts[ROUTE_EXPERTS_MAX]; /* [active], with pairs in it */
};

/* The range of `most` pairs at most that begins behind those of `r`: false, there is none. Begin with
 * zeros. */
static inline bool expert_range_next(const struct op_expert_linear *a, uint32_t most,
                                     struct expert_range *r) {
    const uint32_t *offsets = a->plan->offsets, pairs = a->rows * a->top_k;
    CHECK(most > 0 && a->w->expert_count <= ROUTE_EXPERTS_MAX &&
          offsets[a->w->expert_count] == pairs);
    r->first += r->count;
    r->count = MIN(pairs - r->first, most);
    r->active = 0;
    for (uint32_t e = 0; e < a->w->expert_count; e++)
        if (MAX(offsets[e], r->first) < MIN(offsets[e + 1], r->first + r->count))
            r->experts[r->active++] = e;
    return r->count > 0;
}

/* How many pairs of the range are the expert's; *begin: its first one, counted from the range's. */
static inline uint32_t expert_range_pairs(const struct op_expert_linear *a,
                                          const struct expert_range *r, uint32_t e,
                                          uint32_t *begin) {
    const uint32_t *offsets = a->plan->offsets;
    *begin = MAX(offsets[e], r->first) - r->first;
    return MIN(offsets[e + 1], r->first + r->count) - r->first - *begin;
}

#endif
