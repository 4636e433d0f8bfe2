/*
 * expert_packed.cuh - the experts' product of a mixture with quantized weights in units (packed.cuh) as its
 * kernels get it: expert_packed.cu, and on sm_90a expert_packed_hopper.cu.
 */
#ifndef KERNELS_CUDA_EXPERT_PACKED_CUH
#define KERNELS_CUDA_EXPERT_PACKED_CUH

#include "kernels/cuda/expert_slots.cuh"
#include "kernels/cuda/linear_packed.cuh"

/* features, cols: of each expert. */
struct expert_call {
    void *out;
    const void *x;
    const struct matrix *experts;
    const uint32_t *offsets;
    uint32_t expert_count, features, cols,
        tiles;                  /* tiles: of a block's features, slots' blocks side by side */
    uint32_t group, group_bits; /* as packed_product has them */
};

/* A segment as products get it. end: of all features, in 64, the first behind it. */
static __device__ __forceinline__ packed_segment
packed_segment_of(const struct matrix_segment &from, uint32_t end) {
    return {from.packed,       from.scales, from.zeros, from.scale_rows ? from.scale_rows : 1,
            from.scale_stride, end,         from.zero};
}

/* On sm_90a, `pairs` rows in all (expert_packed_hopper.cu). grouped: scales are of less than a row. */
void expert_linear_hopper(struct stream *s, const struct expert_call &call, enum storage_type type,
                          uint64_t pairs, bool grouped);

#endif
