/*
 * arena.h - memory given back all at once, with a budget of bytes and of allocations.
 *
 * Memory is zeroed. Past the budget arena_alloc returns NULL, which the caller turns into an error
 * for whoever sent the data. The first chunk is kept over arena_reset, so a steady state allocates
 * nothing.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/base.h"

struct arena_chunk;
struct arena {
    struct arena_chunk *first, *current; /* owned */
    size_t byte_budget, byte_count;      /* budget 0: unlimited */
    size_t call_budget, call_count;
    bool
        starved; /* a call failed for want of memory, not for its budget; until all is given back */
};

/* Empty. Budgets of 0: unlimited. byte_budget counts what is asked for, rounded up to 16 bytes;
 * call_budget counts allocations. */
void arena_init(struct arena *a, size_t byte_budget, size_t call_budget);
/* Frees everything; the arena is empty then, with its budgets whole. */
void arena_release(struct arena *a);
/* Everything that was allocated is gone; the budgets are whole again. Keeps the first chunk. */
void arena_reset(struct arena *a);
/* 16-byte aligned, zeroed; NULL past the budget, or out of memory */
MUST_CHECK void *arena_alloc(struct arena *a, size_t size);
/* len + 1 bytes, zero-terminated */
MUST_CHECK void *arena_copy(struct arena *a, const void *data, size_t len);
/* The pieces one behind the other, zero-terminated. */
MUST_CHECK void *arena_join(struct arena *a, const struct bytes *pieces, size_t count);
/* Whether it lies in a piece of the arena's. O(chunks). */
bool arena_holds(const struct arena *a, const void *data);

#endif
