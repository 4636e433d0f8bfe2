/*
 * step.h - a step of the model on a stream: forward pass and sampling; a decode step as two
 * recorded graphs where the device has graphs, any other one operation by operation.
 *
 * A decode step is one whose rows are all of output class, one for each slot, each to be sampled.
 * Its rows are padded to a bucket of counts, and for each bucket two graphs are recorded when it is
 * first met: the forward pass (prepare to the last layer) and the head with the sampler (for each
 * place of results: a step in flight has its own). What changes from step to step, runs, slots and
 * masks, lies in device memory; masks are awaited between the two.
 *
 * Invariants:
 *   (1) graphs change no bit: padding rows come behind and output rows do not depend on each other
 *       (kernels/ops.h);
 *   (2) a recorded graph holds pointers of `forward` and of the results' arrays, which live as
 *       long;
 *   (3) after a bucket's first step nothing is allocated.
 *
 * Threading: the device's thread.
 */
#ifndef MODEL_STEP_H
#define MODEL_STEP_H

#include "model/run/forward.h"

enum { STEP_GRAPHS_MAX = 128 };

struct step_graph {
    uint32_t rows;
    const void *results; /* of which place; NULL: the forward pass */
    struct graph *graph; /* NULL: the device refused to record it */
};

struct stepper {
    struct forward *forward; /* borrowed */
    uint32_t rows_max;       /* of a recorded step; 0: no graphs */
    struct step_run *runs;   /* [rows_max] a padded step */
    uint32_t *sample_rows;   /* [rows_max] 0, 1, 2, ... */
    struct step_graph graphs[STEP_GRAPHS_MAX];
    uint32_t graph_count;
    uint64_t launch_count; /* of graphs */
};

/* graphs false: never any. results_max: entries of the smallest array of results (padding rows
 * write theirs too). */
void stepper_init(struct stepper *t, struct forward *forward, uint32_t results_max, bool graphs);
/* Gives all graphs back: what they were recorded with does not hold any more. The stream must be
 * idle. */
void stepper_forget(struct stepper *t);
/* The stream must be idle. */
void stepper_release(struct stepper *t);
/* Puts a step on the stream: forward_layers, and forward_sample where rows sample. masks: NULL for
 * none. */
void stepper_put(struct stepper *t, struct stream *s, const struct step_input *in,
                 const struct sample_out *out, const struct sample_masks *masks);
/* The count of rows that n rows are padded to. */
uint32_t step_bucket(uint32_t n);

#endif
