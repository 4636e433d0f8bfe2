/* ffn_moe_weights.h - the weights of a mixture of experts. */
#ifndef MODEL_FFN_MOE_WEIGHTS_H
#define MODEL_FFN_MOE_WEIGHTS_H

#include "model/run/forward.h"

struct moe_weights {
    struct matrix router;    /* [experts, hidden] */
    const float *correction; /* f32 [experts] */
    /* [2 * width, hidden], [hidden, width] each; without a gate [width, hidden] */
    struct expert_matrix up, down;
    struct matrix shared_up, shared_down, shared_gate;
    struct matrix latent_in, latent_out; /* [latent, hidden], [hidden, latent] */
};

/* The experts the step's rows went to in this layer, [rows, top_k] in device memory; until the next
 * step of a mixer or feed-forward. */
const uint32_t *ffn_moe_chosen(const struct forward *f, uint32_t layer);

#endif
