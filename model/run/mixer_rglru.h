/* mixer_rglru.h - what a spec says of the RG-LRU beyond what all mixers with a state have. Heads are
 * the blocks of the gates. */
#ifndef MODEL_MIXER_RGLRU_H
#define MODEL_MIXER_RGLRU_H

#include "kernels/ops_state.h"

struct rglru_spec {
    enum gate_kind branch; /* of the second branch */
};

#endif
