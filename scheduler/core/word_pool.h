/*
 * word_pool.h - arrays of 32-bit words that grow by doubling, kept for reuse when given back.
 *
 * Token logs, block tables and log-probabilities of sequences live here: after a while every size
 * that is needed lies on a free list and a growing sequence allocates nothing.
 */
#ifndef SCHEDULER_CORE_WORD_POOL_H
#define SCHEDULER_CORE_WORD_POOL_H

#include "base/base.h"

enum { WORD_POOL_CLASS_COUNT = 26, WORD_POOL_SMALLEST = 64 };

struct word_pool {
    void *free[WORD_POOL_CLASS_COUNT]; /* owned; linked through their first bytes */
    size_t free_bytes, used_bytes, keep_bytes;
};
struct words {
    uint32_t *items; /* NULL while cap is 0 */
    uint32_t cap;
};

/* keep_bytes: what is given back beyond this goes to the system. */
void word_pool_init(struct word_pool *pool, size_t keep_bytes);
void word_pool_release(struct word_pool *pool); /* everything must have been given back */
/* Makes room for `want` words, keeping the first `used`. want is bounded by the callers. */
void word_pool_reserve(struct word_pool *pool, struct words *words, uint32_t used, uint32_t want);
void word_pool_put_back(struct word_pool *pool, struct words *words); /* clears *words */

#endif
