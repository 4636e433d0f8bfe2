/* mixer_mamba2.h - what a spec says of Mamba 2 beyond what all mixers with a state have. */
#ifndef MODEL_MIXER_MAMBA2_H
#define MODEL_MIXER_MAMBA2_H

#include "base/base.h"

enum inner_norm { INNER_NORM_NONE = 0, INNER_NORM_GATE_FIRST, INNER_NORM_FIRST };
/* Of Mamba 2 and 3 (ssm_heads.h). */
struct ssm_spec {
    enum inner_norm inner_norm; /* before the last product, together with the gate */
    uint32_t norm_group;        /* channels a group of it */
    uint32_t norm_width;        /* 0, or the channels of all ranks: its groups span several, */
    uint32_t norm_first;        /* and where this rank's begin (shard.h) */
    float step_low, step_high;  /* limits of the step */
};

struct mamba2_spec {
    bool scaled;     /* what the first product gives is multiplied: */
    float scales[5]; /* of z, x, B, C and the step */
};

#endif
