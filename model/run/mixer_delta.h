/* mixer_delta.h - what a spec says of the gated delta rule beyond what all mixers with a state
 * have. Heads are those of values; groups are key heads, state_size is their size. */
#ifndef MODEL_MIXER_DELTA_H
#define MODEL_MIXER_DELTA_H

#include "base/base.h"

struct delta_spec {
    /* the files have q, k, v, z, and beta and step, interleaved by key head */
    bool fused_heads, fused_beta;
    bool tiled; /* which key head a value head has (op_delta) */
};

#endif
