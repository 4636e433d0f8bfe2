/*
 * arena.h - memory given back all at once, with a budget of bytes and of allocations.
 *
 * Memory is zeroed. Past the budget arena_alloc returns NULL, which the caller turns into an error for whoever sent the
 * data. The first chunk is kept over arena_reset, so a steady state allocates nothing.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/base.h"

struct arena_chunk;
struct arena {
    struct arena_chunk *first, *current; /* owned */
    size_t byte_budget, byte_count;      /* budget 0: unlimited */
    size_t call_budget, call_count;
};

void arena_init(struct arena *a, size_t byte_budget, size_t call_budget);
void arena_release(struct arena *a);
void arena_reset(struct arena *a);
MUST_CHECK void *arena_alloc(struct arena *a, size_t size); /* 16-byte aligned, zeroed; NULL past the budget */
MUST_CHECK void *arena_copy(struct arena *a, const void *data, size_t len); /* len + 1 bytes, zero-terminated */

#endif
