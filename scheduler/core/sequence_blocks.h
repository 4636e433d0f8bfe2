/*
 * sequence_blocks.h - the blocks of a sequence in a slot: one table for each KV group of its
 * replica.
 *
 * Invariants (sched_check asserts them):
 *   (1) A table has a reference to each of its blocks from `first` on; none to those before, which
 *       are behind a window.
 *   (2) The tables cover computed_hi positions.
 *   (3) A named (sealed) block holds only positions below computed_lo of every sequence that has
 *       it: nobody writes to it.
 */
#ifndef SCHEDULER_CORE_SEQUENCE_BLOCKS_H
#define SCHEDULER_CORE_SEQUENCE_BLOCKS_H

#include "scheduler/core/replica.h"

/* Who takes and gives back blocks for it. */
struct block_user seq_block_user(const struct sched *s, const struct sequence *q);
/* A sequence placed on r begins with the prefix that prefix_find has left there, and gets blocks
 * for all its known tokens. r has room (place.h). Returns the positions that need not be
 * computed. */
uint32_t seq_begin_blocks(struct sched *s, struct sequence *q, struct replica *r);
/* Blocks for positions below `upto` in every group. false: none free; what was taken is kept. */
MUST_CHECK bool seq_cover(struct sched *s, struct sequence *q, uint32_t upto);
/* Those of a group that it took, or that nobody used when it found them. */
static inline uint32_t seq_own_blocks(const struct sequence *q, uint32_t group) {
    const struct block_table *table = &q->tables[group];
    uint32_t other = group == 0 ? MAX(table->first, q->shared_count) : table->first;
    return table->count - MIN(table->count, other);
}
/* Gives back those behind a window, and names the blocks of group 0 that are complete now. */
void seq_seal(struct sched *s, struct sequence *q);
/* Has its request's prompt been computed, as far as held siblings could find it in the cache?
 * Always, where nothing is found. */
bool seq_shares_prompt(const struct sequence *q);
/* Gives all of them back, and a snapshot if it keeps one. */
void seq_release_blocks(struct sched *s, struct sequence *q);

#endif
