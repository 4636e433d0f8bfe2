/*
 * streams.h - resumable requests: found by the name that their client gave them, and kept while
 * nobody reads them.
 *
 * A resumable request outlives its gateway, and its client. While it has no gateway, and from its
 * end on, it is *kept*: for record_ttl_ms, counted for its tenant, and the tenant's oldest go first
 * when they are too many or too large. Clients without keys are one tenant: of the addresses that they
 * come from the one that holds most gives way first. Addresses share STREAM_ADDRESSES accounts, drawn by
 * a keyed hash, so that nobody's many addresses make the search for the largest long. Who attaches takes
 * it up again.
 *
 * Invariants (sched_check asserts them):
 *   (1) A request that is kept is resumable and expires some day; a resumable one without a gateway
 *       is kept.
 *   (2) An owner is there while requests of it are kept; its count and bytes are theirs, and those of
 *       its accounts.
 *   (3) A name belongs to one request, which is not dropped.
 */
#ifndef SCHEDULER_CORE_STREAMS_H
#define SCHEDULER_CORE_STREAMS_H

#include "scheduler/core/request.h"

enum { STREAM_ADDRESSES = 64 };

/* What is kept of a key, or of the addresses that share it. */
struct stream_account {
    struct list_node kept; /* oldest first */
    uint32_t count;
    uint64_t bytes;
};

/* A tenant of whom requests are kept. */
struct stream_owner {
    struct u128 tenant;
    uint32_t count;
    uint64_t bytes;
    struct list_node over_link; /* on sched.streams_over while they are too many */
    uint32_t account_count;     /* 1, or STREAM_ADDRESSES of the tenant that has no key */
    struct stream_account accounts[];
};

/* Whether a new request may have the name it asks for. One that is resubmitted must not take it
 * from whoever has taken its stream up; a new one puts an end to the stream before. */
bool stream_is_free(struct sched *s, const struct wire_submit *submit);
/* A new request, whose name is free, gets it. */
void stream_name(struct sched *s, struct request *request);
/* The tenant's request of this name; NULL: there is none. */
struct request *stream_find(struct sched *s, struct u128 tenant, struct bytes name);
/* Tells a gateway what the request is (sink.attached). */
void stream_tell(struct sched *s, const struct request *request, struct u128 gateway);
/* Nobody reads it, or it has ended: it is kept from now on. */
void stream_keep(struct sched *s, struct request *request);
/* Somebody reads it: it is kept no longer, or, where it has ended, as long again. */
void stream_taken(struct sched *s, struct request *request);
/* It had ended, and runs again. */
void stream_reopen(struct sched *s, struct request *request);
/* It is dropped, or resumable no longer. */
void stream_forget(struct sched *s, struct request *request);
/* Drops the oldest of tenants that have too many, of their account that holds most. */
void streams_run(struct sched *s);
/* Asserts the invariants for one request; and for all owners. */
void stream_check(const struct sched *s, const struct request *request);
void stream_owners_check(const struct sched *s);

#endif
