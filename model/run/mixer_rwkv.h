/* mixer_rwkv.h - what a spec says of RWKV beyond what all mixers with a state have. */
#ifndef MODEL_MIXER_RWKV_H
#define MODEL_MIXER_RWKV_H

#include "base/base.h"

/* Of every generation; the channel mixing reads it too. */
struct rwkv_spec {
    bool
        mix_present; /* files keep how much of the present position is taken, not of the one before */
    bool receptance; /* channel mixing has a gate */
};

struct rwkv6_spec {
    uint32_t mix_rank, decay_rank;
};

struct rwkv7_spec {
    uint32_t decay_low, rate_low, value_low, gate_low; /* ranks of low-rank products */
    bool first; /* the layer whose values the others mix in */
};

#endif
