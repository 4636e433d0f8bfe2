/* latent_weights.h - the weights of latent attention. */
#ifndef MODEL_LATENT_WEIGHTS_H
#define MODEL_LATENT_WEIGHTS_H

#include "model/load/weights.h"

struct latent_weights {
    struct matrix q_down;       /* [q_rank, hidden]; with q_rank */
    struct norm_weights q_norm; /* [q_rank] */
    /* [heads * (nope + rope), q_rank or hidden]; apart: [heads * nope, q_rank] */
    struct matrix q;
    struct matrix q_rope;        /* apart: [heads * rope, hidden] */
    struct matrix kv_down;       /* [rank + rope, hidden] */
    struct norm_weights kv_norm; /* [rank] */
    /* [heads * (nope + value), rank]; apart: [heads * nope, rank]; turned: see there */
    struct matrix kv_up;
    struct matrix v_up; /* apart or turned: [heads * value, rank] */
    bool turned;        /* kv_up is [heads * rank, nope], as GGUF files have it */
    struct matrix out;  /* [hidden, heads * value] */
};

#endif
