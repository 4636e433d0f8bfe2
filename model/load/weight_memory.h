/* weight_memory.h - what weights_release gives back (weights.c, loader.c). */
#ifndef MODEL_WEIGHT_MEMORY_H
#define MODEL_WEIGHT_MEMORY_H

#include "base/vec.h"

struct weight_memory {
    VEC(void *) owned;          /* device_alloc */
    VEC(const void *) imported; /* device_import */
    VEC(void *) heap;           /* loader_new, and copies of misaligned tensors, imported above */
};

#endif
