/*
 * block_share.h - the KV blocks of a replica have run out: who has more than its share, and gives way.
 *
 * A tenant's share of a group's blocks is their number by the tenants that have sequences there, and by
 * one more for a tenant that waits and has none. Nothing is kept free for anybody, so one alone has all. What
 * a tenant has is what its sequences took: a block that was found in use by another does not count.
 *
 * Who gives way is a tenant that has more than its share, and several sequences there: the one that has
 * most, by its least important sequence, then its latest. Only what is paused goes before. It does
 *   - for a sequence in a slot that needs one more block (plan.c). Where no tenant has too much, whoever
 *     came last gives way;
 *   - for one that has waited for slot_wait_ms and whose tenant has no slot (place.c). One a turn.
 *
 * Tenants do not put each other out in turns: the first of a tenant's sequences never gives way here, so
 * it goes on to its end, and a tenant that has one lets nobody in at another's expense. Where every
 * tenant below its share did, several of alike load preempted up to four times as often in bench/replay,
 * and computed up to 4 % less.
 *
 * Threading: the core's.
 */
#ifndef SCHEDULER_CORE_BLOCK_SHARE_H
#define SCHEDULER_CORE_BLOCK_SHARE_H

#include "base/base.h"

struct replica;
struct sequence;
struct tenant;

/* Of one group of a replica, at one moment. */
struct block_share {
    uint32_t blocks; /* a tenant's share of them */
    uint32_t coming; /* those of sequences that leave their slots already */
};

/* Counts what each tenant has into tenant.block_count and .block_rows. newcomer: shares, too; NULL:
 * nobody does but those in slots. O(running). */
struct block_share block_share_count(const struct replica *r, uint32_t group,
                                     struct tenant *newcomer);
/* After block_share_count: has this tenant more than its share, and something to give? */
bool block_share_is_over(const struct tenant *tenant, uint32_t blocks);
/* After block_share_count: the tenant that gives way; NULL: none has too much. O(running). */
const struct tenant *block_share_giver(const struct replica *r, struct block_share share);
/* And by which sequence: a paused one of any tenant first. NULL: as there. O(running). */
struct sequence *block_share_victim(const struct replica *r, struct block_share share);

#endif
