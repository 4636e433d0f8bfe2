/* mixer_mamba1.h - what a spec says of Mamba 1 beyond what all mixers with a state have. */
#ifndef MODEL_MIXER_MAMBA1_H
#define MODEL_MIXER_MAMBA1_H

#include "base/base.h"

struct mamba1_spec {
    uint32_t rank;       /* of the step's product */
    bool dt_b_c_norms;   /* norms of step, B and C, */
    bool dt_b_c_weights; /* with weights */
    bool rising;         /* A is exp(-a_log), not -exp(A_log), */
    float state_limit;   /* and the state is kept within this; 0: no limit */
};

#endif
