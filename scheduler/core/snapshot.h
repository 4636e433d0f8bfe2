/*
 * snapshot.h - what a worker whose layers carry a state keeps of it. Such a model's blocks alone are
 * no prefix; with a copy of the state at their end they are.
 *
 * A worker has room for `snapshots` copies. One is taken where the last whole block of a prompt
 * ends that leaves a token to compute: a chunk ends there, and the plan with the next row says
 * SNAPSHOT, which a worker does before it computes rows. It is sealed under that block's hash when
 * the row's result is in. A sequence that is placed on cached blocks takes those up to the last one
 * with a snapshot, and its admission comes with RESTORE.
 *
 * The pool is a block_pool: sealed ones are found by hash, and taken as blocks are
 * (block_pool.h). A reference is held from placement until the plan of the admission is sent, and from a
 * SNAPSHOT's plan until its result: in between nobody may overwrite it. After that a worker's order
 * of plans keeps readers before writers.
 */
#ifndef SCHEDULER_CORE_SNAPSHOT_H
#define SCHEDULER_CORE_SNAPSHOT_H

#include "scheduler/core/replica.h"

/* Shortens r->hits to the last block with a snapshot, which goes into r->hit_snapshot. */
void snapshot_trim_hits(struct replica *r, const struct request *request);
/* Placed on r with r->hits: it keeps the snapshot that it will be restored from. */
void snapshot_hold(struct sequence *q, struct replica *r);
/* Gives that up, if it has one. */
void snapshot_let_go(struct sched *s, struct sequence *q);
/* Positions until one is to be taken: a chunk ends there. UINT32_MAX: none. */
uint32_t snapshot_room(const struct sequence *q);
/* Before a row: takes one if it is due, as an operation of the plan under construction. BLOCK_NONE:
 * not. */
uint32_t snapshot_take(struct sched *s, struct sequence *q);
/* Its admission is in the plan under construction: a RESTORE, if it keeps a snapshot. */
void snapshot_restore(struct sched *s, struct sequence *q);
/* The row's result is in: its snapshot is sealed if the row was computed (good), and let go. */
void snapshot_finish_ops(struct sched *s, const struct flight_row *row, bool good);

#endif
