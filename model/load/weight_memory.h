/* weight_memory.h - what weights_release gives back, and what is left for weights_pack_next (weights.c,
 * loader.c). */
#ifndef MODEL_WEIGHT_MEMORY_H
#define MODEL_WEIGHT_MEMORY_H

#include "base/vec.h"

/* A segment that lies as in its file. */
struct unpacked_segment {
    struct matrix *matrix; /* stays where it is */
    uint32_t segment;
    size_t size; /* once it is packed */
};

struct weight_memory {
    VEC(struct unpacked_segment) unpacked; /* in the order in which they were loaded */
    size_t packed_count;                   /* of them, that are packed by now */
    size_t fetched_count;                  /* that weights_fetch_next has asked for */
    VEC(void *) owned;                     /* device_alloc */
    VEC(const void *) imported;            /* device_import */
    VEC(void *) heap; /* loader_new, and copies of misaligned tensors, imported above */
};

#endif
