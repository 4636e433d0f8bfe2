/*
 * paged.cuh - the paged KV cache as kernels see it (kernels/ops.h: kv_view). Offsets are 64 bits.
 */
#ifndef KERNELS_CUDA_PAGED_CUH
#define KERNELS_CUDA_PAGED_CUH

#include "kernels/cuda/cuda_device.cuh"

struct kv_pages {
    unsigned char *base; /* of the layer in block 0 */
    size_t block_stride;
    const uint32_t *tables;
    uint32_t max_blocks, block_tokens, kv_heads, head_dim, value_bytes;

    /* Values from a head to the next; the V head of g is kv_heads + g. */
    __device__ __forceinline__ size_t head_stride() const {
        return (size_t)block_tokens * head_dim;
    }
    /* K of head 0 at a slot's position; other heads are head_stride() apart. */
    __device__ __forceinline__ unsigned char *at(uint32_t slot, uint32_t position) const {
        const uint32_t block = tables[(size_t)slot * max_blocks + position / block_tokens];
        return base + block * block_stride +
               (size_t)(position % block_tokens) * head_dim * value_bytes;
    }
    /* Of an int8 cache: the scale of a head's vector at a position. */
    __device__ __forceinline__ float *scale(uint32_t slot, uint32_t position, uint32_t head) const {
        const uint32_t block = tables[(size_t)slot * max_blocks + position / block_tokens];
        unsigned char *scales = base + block * block_stride + 2 * kv_heads * head_stride();
        return (float *)scales + (size_t)head * block_tokens + position % block_tokens;
    }
};

static inline struct kv_pages kv_pages_of(const struct kv_view *kv) {
    struct kv_pages p;
    p.base = (unsigned char *)kv->base + kv->layer_offset;
    p.block_stride = kv->block_stride;
    p.tables = kv->tables;
    p.max_blocks = kv->max_blocks;
    p.block_tokens = kv->block_tokens;
    p.kv_heads = kv->kv_heads;
    p.head_dim = kv->head_dim;
    p.value_bytes = (uint32_t)storage_bytes(kv->type, 1);
    return p;
}

#endif
