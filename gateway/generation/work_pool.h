/*
 * work_pool.h - threads for what would hold an event thread up: long bodies, long prompts, long
 * texts to be tokenized.
 *
 * A tenant here is a key, or where none is asked for an address (open_places.h).
 *
 * Who is next: tenants in turn, by what was done for each, which is its bytes or, where that is more,
 * the time that they took of a processor: a pattern of a few bytes may take as long as a book. Of a
 * tenant's work the shortest goes first, but so that a long piece is passed by only so much that came
 * after it (WORK_PASSED). One thread takes short work alone, so that short work never waits for long
 * work to end; from a tenant whose work has just taken long it takes none. A tenant may have as much
 * waiting as is free: alone half of the room, and there is always some for another.
 *
 * The threads are nicer than the event threads: where the processor is short, these wait.
 *
 * Threading: work_pool_push from any thread; run() on a thread of the pool.
 */
#ifndef GATEWAY_GENERATION_WORK_POOL_H
#define GATEWAY_GENERATION_WORK_POOL_H

#include "base/base.h"

enum {
    WORK_WAITING_MAX = 512,        /* pieces; past it, and a tenant's share of it, 429 */
    WORK_SHORT_BYTES = 128 * 1024, /* what the thread for short work takes */
    WORK_PASSED = 8,               /* a piece is passed by at most so many times its own bytes */
    WORK_THREADS_MAX = 4,
};

struct work {
    struct work *next;
    struct u128 tenant;
    size_t bytes;                    /* what it will look at */
    uint64_t key;                    /* its place among its tenant's */
    void (*run)(struct work *work);  /* does it, and has taken it */
    void (*drop)(struct work *work); /* the pool ends: takes it, undone */
};

struct work_pool;
/* thread_count: 0: by the processors that are there; at least 2. */
struct work_pool *work_pool_new(int thread_count);
/* Ends what is in hand, drops the rest. */
void work_pool_free(struct work_pool **pool);
/* Takes the piece, whose tenant, bytes, run and drop are set. False: too much waits, of all or of
 * this tenant; it is still the caller's. */
MUST_CHECK bool work_pool_push(struct work_pool *pool, struct work *work);

#endif
