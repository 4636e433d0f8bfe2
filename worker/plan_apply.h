/*
 * plan_apply.h - a plan that the mirror has checked goes onto the device: its slots change, then its
 * batch runs and samples.
 *
 * In a batch rows of output class lie in front, rows of prompt class behind: each class has one
 * family of products, so that a row's bits do not depend on the others.
 *
 * Nothing here fails or allocates, but for what a grammar needs; masks wait for the steps before.
 * Threading: the compute thread.
 */
#ifndef WORKER_PLAN_APPLY_H
#define WORKER_PLAN_APPLY_H

#include "worker/constraints.h"
#include "worker/load.h"

struct plan_apply {
    struct loaded *loaded;           /* borrowed */
    const struct mirror *mirror;     /* borrowed; as it is after the plan */
    struct step_run *runs;           /* scratch [2 * slots] */
    uint32_t *first_counts;          /* scratch [2 * slots]: of the runs */
    uint32_t *sample_rows;           /* scratch [slots + FLIGHT_DRAFTS_MAX] */
    uint32_t *state_rows;            /* scratch [max_step_tokens] */
    uint32_t *op_numbers;            /* scratch [4 * FLIGHT_OPS_MAX] */
    struct constraints *constraints; /* borrowed */
    struct sample_masks masks;
    struct flight *masked; /* the step that masks are made for */
    /* Waits for the steps before this one, and has the constraints take their tokens. */
    void (*take_earlier)(void *ctx, const struct flight *f);
    void *take_ctx;
};

/* After mirror_init. Keeps all until plan_apply_release; take_earlier is set by the caller. */
void plan_apply_init(struct plan_apply *a, struct loaded *loaded, const struct mirror *mirror,
                     struct constraints *constraints);
/* Frees the scratch. */
void plan_apply_release(struct plan_apply *a);
/* Enqueues everything and records f->done behind it. added_at and f->rows are those of mirror_apply
 * for this plan; entries [plan->admit_count] are their grammars, taken, or NULL. Fills f->sample_of and
 * sample_count, and f->out when it is done. */
void plan_apply(struct plan_apply *a, const struct wire_plan *plan, const uint32_t *added_at,
                struct grammar_entry *const *entries, struct flight *f);

#endif
