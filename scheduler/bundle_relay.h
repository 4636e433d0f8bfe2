/*
 * bundle_relay.h - bundles on their way from workers to gateways: fetched once, chunk by chunk,
 * checked, kept.
 *
 * A gateway asks for a chunk of a bundle by the bundle's hash. What is kept is answered at once;
 * else the gateway waits while the bundle is fetched from a worker that has it, WINDOW chunks in
 * flight. A bundle whose bytes do not have its hash is thrown away. The relay does not read
 * bundles; it knows that an id is hash128 of the bytes (text/bundle.h).
 *
 * Invariants:
 *   (1) nothing unchecked is ever answered;
 *   (2) at most ENTRIES_MAX bundles and byte_budget bytes are kept, the least recently used goes
 *       first;
 *   (3) at most WAITERS_MAX gateways wait for a bundle: the oldest is forgotten (it asks again by
 *       itself).
 *
 * Threading: one thread. Time is an argument.
 */
#ifndef SCHEDULER_BUNDLE_RELAY_H
#define SCHEDULER_BUNDLE_RELAY_H

#include "base/buf.h"
#include "base/vec.h"
#include "proto/messages.h"

enum {
    BUNDLE_ENTRIES_MAX = 16,
    BUNDLE_WINDOW = 4,
    BUNDLE_WAITERS_MAX = 256,
    BUNDLE_RETRY_MS = 1000
};

struct bundle_relay_calls {
    void *ctx;
    /* Sends a chunk to a gateway; what it points to is the relay's. */
    void (*answer)(void *ctx, struct u128 gateway, const struct wire_bundle_chunk *chunk);
    /* Asks some worker that has the bundle; false: there is none now. */
    bool (*ask)(void *ctx, const struct wire_bundle_get *get);
};

struct bundle_waiter {
    struct u128 gateway;
    uint64_t offset;
};

struct bundle_entry {
    struct u128 bundle; /* zero: free */
    struct buf data;
    uint64_t total, asked; /* bytes; total 0: not known yet */
    bool complete;
    int64_t used_ms, progress_ms;
    VEC(struct bundle_waiter) waiters;
};

struct bundle_relay {
    struct bundle_relay_calls calls;
    size_t byte_budget;
    struct bundle_entry entries[BUNDLE_ENTRIES_MAX];
    uint64_t refused_count; /* bundles whose hash was wrong */
};

/* Empty. Copies *calls; byte_budget: of all bundles that it keeps, in bytes; past it the one used
 * longest ago goes. */
void bundle_relay_init(struct bundle_relay *r, const struct bundle_relay_calls *calls,
                       size_t byte_budget);
/* Frees what it keeps; who waits is told nothing. */
void bundle_relay_release(struct bundle_relay *r);
/* From a gateway. */
void bundle_relay_get(struct bundle_relay *r, int64_t now_ms, struct u128 gateway,
                      const struct wire_bundle_get *get);
/* From a worker. */
void bundle_relay_chunk(struct bundle_relay *r, int64_t now_ms,
                        const struct wire_bundle_chunk *chunk);
/* Now and then: asks again where nothing came for BUNDLE_RETRY_MS. */
void bundle_relay_tick(struct bundle_relay *r, int64_t now_ms);

#endif
