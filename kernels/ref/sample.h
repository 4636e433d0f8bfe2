/* sample.h - what the two files of the sampler's definition share: a row, and its parts. */
#ifndef KERNELS_REF_SAMPLE_H
#define KERNELS_REF_SAMPLE_H

#include "kernels/ref/ref.h"

struct row {
    const struct op_sample *op;
    struct slot_state *state;
    uint32_t *history; /* [token_count], and room for one more */
    uint32_t slot, idx, vocab;
    float *logits;
};

/* Changes the row's logits by the penalties (ops.h, op_sample, c). */
void ref_penalties(const struct row *r);
/* Changes the row's logits by dry's penalty (sample_rules.h). */
void ref_dry(const struct row *r);
/* The chain of sample_rules.h, and its draw. Changes the logits and the rules' state. */
uint32_t ref_chain_draw(const struct row *r);

#endif
