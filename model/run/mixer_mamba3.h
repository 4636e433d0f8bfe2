/* mixer_mamba3.h - what a spec says of Mamba 3 beyond what Mamba 2 has. */
#ifndef MODEL_MIXER_MAMBA3_H
#define MODEL_MIXER_MAMBA3_H

#include "base/base.h"

struct mamba3_spec {
    bool turns;        /* states turn */
    uint32_t widening; /* heads are so many times as wide inside; 0: they are not */
};

#endif
