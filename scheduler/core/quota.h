/*
 * quota.h - what one tenant may take: requests at one time, tokens a minute, its share of steps.
 *
 * Each Submit carries the bounds of its tenant, which the gateway has from its list of keys. A tenant
 * has one quota, with the bounds that were told last. They hold for all gateways and models together,
 * which is why the scheduler judges them.
 *
 * Requests are bounded by how many of the tenant's have not ended. Tokens are bounded by a bucket
 * that holds the tokens of a minute and fills steadily. A request is accepted while the bucket has
 * any token. It takes out the tokens of its prompt when it is accepted, and one for each token made.
 * So the bucket may fall below zero, and then the tenant waits until it has filled again. Over a long
 * time no more tokens are made than the bound says, and no request is too large to be accepted.
 *
 * A request that was accepted before is never refused when it is submitted again. It counts as open,
 * and its new tokens are charged. A new scheduler begins with full buckets.
 *
 * Invariants (quotas_check asserts them):
 *   (1) open is the number of the quota's requests that are counted (request.quota_open).
 *   (2) A quota without requests is on the idle list, the longest idle first, and no other is.
 *
 * Threading: the core's. A token made allocates nothing.
 */
#ifndef SCHEDULER_CORE_QUOTA_H
#define SCHEDULER_CORE_QUOTA_H

#include "proto/messages.h"
#include "scheduler/core/id_map.h"
#include "scheduler/core/list.h"

struct request;
struct sched;

enum {
    QUOTA_WEIGHT = 100,    /* of a tenant whose key does not say one */
    QUOTA_UNIT = 10000,    /* a token adds this / weight to tenant.served */
    QUOTA_IDLE_MAX = 4096, /* tenants without requests that are remembered */
};

struct quota {
    struct u128 tenant;
    uint32_t requests_max, minute_tokens; /* 0: no bound */
    uint32_t open, request_count;         /* counted as open; that refer to it */
    double left;                          /* tokens in the bucket; below 0: owed */
    int64_t filled_at;
    struct list_node idle_link;
};
struct quotas {
    struct id_map ids; /* owned */
    struct list_node idle;
};

/* Without tenants. */
void quotas_init(struct quotas *q);
/* Frees all; none may have requests. */
void quotas_release(struct quotas *q);
/* Whether its tenant may have one request more now: 0, or why not, and after how long to ask again. */
enum wire_reject_code quota_check(struct sched *s, const struct wire_submit *submit,
                                  uint32_t *retry_ms);
/* Counts a new request, and charges its prompt unless it was taken before. Nothing happens where the
 * Submit tells no bounds. */
void quota_take(struct sched *s, struct request *request, const struct wire_submit *submit);
/* Not taken after all: as if it had not been there. */
void quota_undo(struct sched *s, struct request *request);
/* It has ended; again: nothing. */
void quota_close(struct request *request);
/* It runs again. */
void quota_reopen(struct request *request);
/* Charges tokens that were made for it. */
void quota_charge(struct sched *s, struct request *request, uint32_t tokens);
/* The record is freed: it refers to its quota no more. */
void quota_leave(struct sched *s, struct request *request);
/* What so many computed tokens add to tenant.served, at the request's weight. */
uint64_t quota_cost(const struct request *request, uint32_t tokens);
/* CHECKs the invariants. */
void quotas_check(const struct sched *s);

#endif
