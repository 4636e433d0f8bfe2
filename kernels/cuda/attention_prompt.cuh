/*
 * attention_prompt.cuh - what the kernels of prompt attention share: a block's rows and their
 * segments, which are runs of rows of one slot.
 */
#ifndef KERNELS_CUDA_ATTENTION_PROMPT_CUH
#define KERNELS_CUDA_ATTENTION_PROMPT_CUH

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/pairs.cuh"

/* Of four numbers of 8 bits the lower or the upper two, as a pair of type A, exactly. A NaN of fp8
 * becomes 480. */
template <int A, int C>
static __device__ __forceinline__ uint32_t dequantize_two(uint32_t four, bool upper) {
    if (C == STORAGE_F8_E4M3) { /* moved to the wider type's exponent, whose bias is put right */
        const uint32_t x = spread_bytes(four, upper, true), sign = x & 0x80008000u;
        return A == STORAGE_BF16
                   ? fma_bf16x2((x >> 4 & 0x07f007f0u) | sign, 0x7b807b80u, 0x80008000u)
                   : fma_f16x2((x >> 1 & 0x3f803f80u) | sign, 0x5c005c00u, 0x80008000u);
    }
    /* 128 + the low seven bits, less 128 or 256; f16: 1024 and 1152 */
    const uint32_t x = spread_bytes(four, upper, false), low = x & 0x007f007fu,
                   high = x & 0x00800080u;
    return A == STORAGE_BF16 ? fma_bf16x2(low | 0x43004300u, 0x3f803f80u, high | 0xc300c300u)
                             : fma_f16x2(low | 0x64006400u, 0x3c003c00u, high | 0xe400e400u);
}

/* Rows [first, end) of the block are of one slot and see positions [low, high]. */
struct segment {
    uint32_t first, end, slot, low, high;
};

static __device__ __forceinline__ uint32_t warp_min_u32(uint32_t v) {
    for (int by = 16; by; by >>= 1)
        v = min(v, __shfl_xor_sync(0xffffffffu, v, by));
    return v;
}
static __device__ __forceinline__ uint32_t warp_max_u32(uint32_t v) {
    for (int by = 16; by; by >>= 1)
        v = max(v, __shfl_xor_sync(0xffffffffu, v, by));
    return v;
}

/* The ROWS rows of a block: 3 * ROWS numbers of shared memory. */
template <uint32_t ROWS> struct prompt_rows {
    uint32_t *numbers;

    __device__ __forceinline__ uint32_t &slot(uint32_t r) const {
        return numbers[r];
    }
    /* ROW_NONE: padding. */
    __device__ __forceinline__ uint32_t &position(uint32_t r) const {
        return numbers[ROWS + r];
    }
    /* The last position that it sees. */
    __device__ __forceinline__ uint32_t &last(uint32_t r) const {
        return numbers[2 * ROWS + r];
    }

    /* All threads of the block, those from row t0 of the call on; rows past its end are padding. */
    __device__ __forceinline__ void load(const struct attention_call &call, uint32_t t0) const {
        for (uint32_t r = threadIdx.x; r < ROWS; r += blockDim.x) {
            const bool inside = t0 + r < call.row_count;
            slot(r) = inside ? call.slots[call.row_first + t0 + r] : 0;
            position(r) = inside ? call.positions[call.row_first + t0 + r] : (uint32_t)ROW_NONE;
            last(r) = inside ? call.last_position(call.row_first + t0 + r) : 0;
        }
    }
    /* What rows [from, to) of a segment see: low > high where there are none. All lanes of a warp. */
    __device__ __forceinline__ void see(const struct attention_call &call, uint32_t from,
                                        uint32_t to, uint32_t *low, uint32_t *high) const {
        uint32_t least = UINT32_MAX, most = 0;
        for (uint32_t r = threadIdx.x % 32; r < ROWS; r += 32)
            if (r >= from && r < to) {
                least = min(least, call.first_position(position(r)));
                most = max(most, last(r));
            }
        *low = warp_min_u32(least);
        *high = warp_max_u32(most);
    }
    /* The segment that begins at or after `from` (rows of padding are passed by); first == ROWS:
     * none. All lanes of all warps get the same. */
    __device__ __forceinline__ struct segment next_segment(const struct attention_call &call,
                                                           uint32_t from) const {
        const uint32_t lane = threadIdx.x % 32;
        struct segment s = {ROWS, ROWS, 0, UINT32_MAX, 0};
        for (uint32_t r = lane; r < ROWS; r += 32)
            if (r >= from && position(r) != (uint32_t)ROW_NONE)
                s.first = min(s.first, r);
        s.first = warp_min_u32(s.first);
        if (s.first == ROWS)
            return s;
        s.slot = slot(s.first);
        for (uint32_t r = lane; r < ROWS; r += 32)
            if (r > s.first && (position(r) == (uint32_t)ROW_NONE || slot(r) != s.slot))
                s.end = min(s.end, r);
        s.end = warp_min_u32(s.end);
        see(call, s.first, s.end, &s.low, &s.high);
        return s;
    }
};

#endif
