/*
 * plan.h - the plans of a turn: decode rows first, then pieces of prompts from what is left of the
 * step's token budget.
 */
#ifndef SCHEDULER_CORE_PLAN_H
#define SCHEDULER_CORE_PLAN_H

#include "base/vec.h"
#include "scheduler/core/sequence.h"

enum { PLAN_STEP_LEAST_MS = 30 }; /* of itl_auto: shorter gaps nobody sees */

/* Columns of the plan under construction; capacity stays. */
struct plan_build {
    VEC(struct wire_admit) admits;
    VEC(uint32_t) row_slots;
    VEC(uint32_t) row_token_counts;
    VEC(uint32_t) draft_counts;
    VEC(uint32_t) draft_tokens;
    VEC(uint32_t) new_rows;
    VEC(uint32_t) new_groups;
    VEC(uint32_t) new_ids;
    VEC(uint32_t) sealed_ids;
    VEC(uint32_t) admit_groups;
    VEC(uint32_t) admit_ids;
    VEC(uint32_t) op_kinds;
    VEC(uint32_t) op_groups;
    VEC(uint32_t) op_sources;
    VEC(uint32_t) op_targets;
    VEC(struct u128) sealed_hashes;
    VEC(struct sequence *) prefills; /* have more than one token to compute */
    VEC(struct sequence *) order;    /* of decode rows */
    VEC(struct tenant *) sharers;    /* want something of the step; step_share.c's */
    VEC(struct sequence *) admitted; /* their first row is in this plan */
};

/* Most tokens that a step of this replica may have. */
uint32_t plan_step_tokens(const struct sched *s, const struct replica *r);
/* How long a step should take whose rows, one at least, alone take rows_ms, while so many others have
 * slots: itl_target_ms. With itl_auto each of them has as much time as two rows, and all together as much as
 * the rows at least; the step at least PLAN_STEP_LEAST_MS and at most itl_target_ms. */
double plan_step_target_ms(const struct sched *s, double rows_ms, uint32_t rows, uint32_t others);
/* Of so many left of them, what prompts may have beside so many rows that get a token each, by what
 * steps have cost: the step takes plan_step_target_ms, or prompts have as much time of it as the rows.
 * A few tokens they have in any case. */
uint32_t plan_chunk_tokens(const struct sched *s, const struct replica *r, uint32_t left,
                           uint32_t rows);
/*
 * Sends plans to every replica that is ready, until steps_in_flight are out or nothing is left to
 * compute. May preempt.
 *
 * A plan that goes out as soon as it may waits at the worker for the whole step before it, and whoever comes
 * meanwhile is in the one after: two steps later than need be. So while a step takes long enough, the next plan
 * is kept back until a quarter of that is left, as steps have cost (replica_free_at). One that ends
 * earlier leaves the worker idle for no longer than its result and the plan are under way.
 */
void plan_all(struct sched *s);
/* When the first of those that were kept back is due; NEVER. */
int64_t plan_next(const struct sched *s);
/* Frees the columns that plans were built in. */
void plan_release(struct sched *s);

#endif
