/*
 * waiting.h - the queues of one model: who is next.
 *
 * A tenant here is whoever takes turns with others: a key, or, where clients need no key, an address
 * (request.share_id). Quotas, cached prefixes and streams belong to the tenant that Submit names
 * (request.tenant_id). Without keys that one is the same for all clients.
 *
 * New sequences wait in a heap of their tenant, by priority, then arrival. Resumed ones (they ran
 * before, here or under another scheduler) wait in one heap, least to compute again first, then
 * arrival: they are never refused, and are let in at a measured pace.
 *
 * Next is the first of the tenant with the least tokens computed for it, by its weight (quota.h;
 * idleness earns nothing: a tenant that comes back starts at the count of the one served last), then
 * arrival. What a client says of priority orders its own tenant's alone. Resumed ones go before new
 * ones, but of the same tenant and lower priority; those hold no other resumed one up. A probe
 * (WIRE_PRIORITY_PROBE) goes before all.
 *
 * A new one that is next of the new ones, has waited for slot_wait_ms and whose tenant has no slot
 * goes before resumed ones, too, and takes a slot of a tenant that has several (place.c). So nobody
 * waits until the long answers of another end. Nor does it wait for a slot that is kept: one that the
 * last sequence of a tenant left, for share_linger_ms. Where blocks are short, see block_share.h.
 *
 * The queue's places are bounded (submit.c). When they are all taken, a tenant still finds its share
 * of them: the places by the number of tenants with something new in the queue, itself included. So
 * one alone may have them all, and no one, however much it asks, keeps another out; nothing that
 * was taken is given up for it. With T tenants the j-th largest holds at most places / j, and all
 * together places * (1 + 1/2 + ... + 1/T). What counts is choices, those included that wait behind
 * one of theirs that runs.
 *
 * Invariants (waiting_check asserts them):
 *   (1) Each heap is ordered, and each sequence knows its index in it.
 *   (2) A tenant is known exactly while it has requests.
 *   (3) count is the number of sequences in all heaps.
 */
#ifndef SCHEDULER_CORE_WAITING_H
#define SCHEDULER_CORE_WAITING_H

#include "base/vec.h"
#include "scheduler/core/id_map.h"
#include "scheduler/core/sequence.h"

struct tenant {
    struct u128 id;
    uint64_t served; /* quota_cost of what was computed; raised when it comes back from idleness */
    uint32_t request_count;
    uint32_t new_count; /* sequences of it that wait, in the queue, held or parked, and never ran */
    uint32_t slot_count;  /* slots of its sequences */
    uint32_t idx;         /* in waiting.tenants */
    uint32_t weight;      /* as step_share.c last saw it, like those: */
    double step_want_ms;  /* all that it could have in the coming step, by its cost */
    double step_ms;       /* what it may still have of it */
    uint64_t prompt_left; /* in slots of a replica, while admission.c counts it */
    /* what its sequences took of a replica's blocks, and their number, while block_share.c counts them */
    uint32_t block_count, block_rows;
    VEC(struct sequence *) heap;
};
struct waiting {
    VEC(struct tenant *) tenants; /* owned */
    struct id_map tenant_ids;
    VEC(struct sequence *) resumed;
    uint32_t count;
    uint32_t slotted; /* tenants that have a slot */
    uint64_t floor;   /* served count of the tenant picked last */
};

/* Of a queue without sequences and tenants. */
void waiting_release(struct waiting *w);
/* The tenant of this id, made when new, with one request more. Zero is a tenant, too. */
struct tenant *waiting_tenant_ref(struct waiting *w, struct u128 id);
/* The tenant of this id; NULL: it has no requests. */
struct tenant *waiting_tenant_find(const struct waiting *w, struct u128 id);
/* One request less; the last one's tenant is freed. */
void waiting_tenant_unref(struct waiting *w, struct tenant *tenant);
void waiting_add(struct waiting *w, struct sequence *q);    /* it is in no queue */
void waiting_remove(struct waiting *w, struct sequence *q); /* it is in this one */
/* Next in order, not removed; resumed ones only when allowed. NULL: none. O(tenants), and O(resumed)
 * where a new one goes before the first of those. */
struct sequence *waiting_first(const struct waiting *w, bool resumed_allowed);
/* The first of the resumed ones whose tenants have no slot; NULL: none. O(resumed). */
struct sequence *waiting_first_slotless(const struct waiting *w);
/* Of two of the same model, in a queue or not: a would be first. */
bool waiting_before(const struct sequence *a, const struct sequence *b);
/* Of so many places those that this tenant finds even if all are taken; NULL: a new one. */
uint32_t waiting_share(const struct waiting *w, const struct tenant *tenant, uint32_t places);
/* CHECKs the invariants. */
void waiting_check(const struct waiting *w);

#endif
