/* mixer_latent.h - what a spec says of latent attention. */
#ifndef MODEL_MIXER_LATENT_H
#define MODEL_MIXER_LATENT_H

#include "model/norm_spec.h"

/* Latent attention (kernels/ops_latent.h). A head's query and key have nope dims without and rope
 * dims with rotation. */
struct latent_spec {
    uint32_t heads;
    uint32_t q_rank, rank; /* of the queries' latent (0: none) and of the cached one */
    uint32_t nope, rope, value;
    uint32_t rope_idx;
    float scale;
    bool bias; /* of the products into the latents, and of the last */
    /* rotated queries come from the hidden state; K's and V's products up are two */
    bool apart;
    struct norm_spec norm; /* of both latents */
};

#endif
