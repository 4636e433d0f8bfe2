/*
 * request_id.h - the ids of submissions: random, but for the low byte, which is the number of the
 * event thread that owns the request. So nobody needs a table to find the owner.
 */
#ifndef GATEWAY_LINK_REQUEST_ID_H
#define GATEWAY_LINK_REQUEST_ID_H

#include "base/base.h"
#include "base/hash.h"

/* One event thread owns what has its number in the id. */
enum { EVENT_THREADS_MAX = 64 };

/* A new id for a request of event thread thread_idx, in [0, EVENT_THREADS_MAX). */
static inline struct u128 request_id_new(int thread_idx) {
    CHECK(thread_idx >= 0 && thread_idx < EVENT_THREADS_MAX);
    struct u128 id = random_u128();
    id.lo = (id.lo & ~(uint64_t)0xff) | (uint64_t)thread_idx;
    return id;
}

/* The event thread of a request, in [0, 256): the wire may bring ids that are not ours. */
static inline int request_thread_idx(struct u128 request) {
    return (int)(request.lo & 0xff);
}

#endif
