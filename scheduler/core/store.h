/*
 * store.h - arrays of 32-bit words that grow by doubling, kept for reuse when given back.
 *
 * Token logs, block tables and log-probabilities of sequences live here: after a while every size that is needed lies
 * on a free list and a growing sequence allocates nothing.
 */
#ifndef SCHEDULER_CORE_STORE_H
#define SCHEDULER_CORE_STORE_H

#include "base/base.h"

enum { STORE_CLASS_COUNT = 26, STORE_SMALLEST = 64 };

struct store {
    void *free[STORE_CLASS_COUNT]; /* owned; linked through their first bytes */
    size_t free_bytes, used_bytes, keep_bytes;
};
struct words {
    uint32_t *items; /* NULL while cap is 0 */
    uint32_t cap;
};

/* keep_bytes: what is given back beyond this goes to the system. */
void store_init(struct store *store, size_t keep_bytes);
void store_release(struct store *store); /* everything must have been given back */
/* Makes room for `want` words, keeping the first `used`. want is bounded by the callers. */
void store_reserve(struct store *store, struct words *words, uint32_t used, uint32_t want);
void store_give(struct store *store, struct words *words); /* clears *words */

#endif
