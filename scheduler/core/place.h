/*
 * place.h - who runs where: cached prefixes, the choice of a replica, and what moves from the
 * queues into slots.
 *
 * Order is strict: while the first in a model's order has no room, nobody overtakes it, but for one a
 * turn whose tenant has no slot (block_share.h). The replica is the one where it costs least: positions
 * to compute there, and those of the others on it.
 */
#ifndef SCHEDULER_CORE_PLACE_H
#define SCHEDULER_CORE_PLACE_H

#include "scheduler/core/replica.h"

/* Names the blocks of the request's prompt for this replica's geometry (chain.h), unless that is
 * done. */
void request_hash(struct sched *s, struct request *request, const struct replica *r);
/* Name of the sequence's block idx there, all of it known, given the one before. After
 * request_hash. */
struct u128 seq_block_hash(struct sched *s, const struct sequence *q, const struct replica *r,
                           struct u128 parent, uint32_t idx);
/* The longest cached prefix of its known tokens into r->hits, at least one token left to compute.
 * Returns positions. */
uint32_t prefix_find(struct sched *s, struct sequence *q, struct replica *r);
/* After prefix_find: are there blocks for all known tokens and one more, and some for the growth of
 * those that run? */
bool replica_has_room(const struct replica *r, const struct sequence *q);
/* Could it ever run there? A replica that drains takes what came before it did and is bound to its
 * revision or bundle, when no other of that kind is there. */
bool replica_fits(const struct replica *r, const struct sequence *q);
/* Could any of its sequences ever run on a replica that is there now, be it still loading? */
bool request_fits_somewhere(const struct request *request);
/* It drains: does anything that it would still take wait? O(requests). */
bool replica_is_awaited(const struct sched *s, const struct replica *r);
/* Into a free slot of r, after prefix_find; its siblings follow if the prompt they share is there
 * already, or cannot be shared. */
void place_on(struct sched *s, struct sequence *q, struct replica *r);
/* Places what can be placed: groups under suspicion first, then each model's queue. */
void place_all(struct sched *s);

#endif
