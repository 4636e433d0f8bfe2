/*
 * attention.cuh - what the attention kernels share: the call as kernels take it, the splits of a
 * row, and how two splits become one.
 *
 * The positions of a row are cut at absolute places (attention_call::split_start, multiples of
 * ATTENTION_SPLIT). A split is (max, sum, acc[D]): max
 * of the scores, sum of 2^(score - max) (scores carry a factor log2 e), acc = sum of 2^(score -
 * max) * v. Splits are merged from the empty split on in ascending order, by the same operations
 * wherever that happens, so it does not matter who merges.
 */
#ifndef KERNELS_CUDA_ATTENTION_CUH
#define KERNELS_CUDA_ATTENTION_CUH

#include "kernels/cuda/paged.cuh"

#define MINUS_INFINITY (__uint_as_float(0xff800000u))

enum : uint32_t { LONG_SPLITS_FROM = 16384, LONG_SPLIT = 1024 };

struct attention_call {
    void *out;
    const void *qkv;
    uint32_t heads, window, chunk;
    float scale;        /* times log2 e */
    const float *sinks; /* [heads] or NULL */
    /* of scores not times log2 e; 0: none. This and slopes: not in attention_prompt_hopper.cuh */
    float soft_cap;
    const float *slopes; /* [heads] or NULL */
    uint32_t row_first, row_count;
    struct kv_pages kv;
    const uint32_t *slots, *positions;
    const uint32_t *last; /* as op_attention's; NULL: positions */
    uint32_t step_rows;   /* of the step, whatever their class */
    /* scratch of the output class */
    float *split_stats; /* [unit_max, heads, 2]: max, sum; a unit is one split of a row */
    float *split_sums;  /* [unit_max, heads, D] */
    uint32_t unit_max;
    uint32_t *arrivals; /* [ARRIVALS_MAX] of the stream: splits that are there; noughts */

    /* Splits lie at absolute places, longer ones far from the beginning: a step of few rows fills
     * the GPU, and a row of many positions has splits that are merged in little time. */
    static __host__ __device__ __forceinline__ uint32_t split_of(uint32_t position) {
        return position < LONG_SPLITS_FROM ? position / ATTENTION_SPLIT
                                           : LONG_SPLITS_FROM / ATTENTION_SPLIT +
                                                 (position - LONG_SPLITS_FROM) / LONG_SPLIT;
    }
    static __host__ __device__ __forceinline__ uint32_t split_start(uint32_t split) {
        const uint32_t few = LONG_SPLITS_FROM / ATTENTION_SPLIT;
        return split < few ? split * ATTENTION_SPLIT
                           : LONG_SPLITS_FROM + (split - few) * LONG_SPLIT;
    }
    /* No position below this is written in the step of a row at `position`: a slot's rows are
     * consecutive (op_prepare), and no more than the step's. */
    __device__ __forceinline__ uint32_t written_before(uint32_t position) const {
        return position >= step_rows ? position + 1 - step_rows : 0u;
    }
    __device__ __forceinline__ uint32_t first_position(uint32_t position) const {
        const uint32_t from = window && position + 1 > window ? position + 1 - window : 0;
        return max(from, chunk ? position / chunk * chunk : 0u);
    }
    /* The last position that row t, no padding, sees. */
    __device__ __forceinline__ uint32_t last_position(uint32_t t) const {
        return last ? last[t] : positions[t];
    }
    /* Splits of a row; padding has one, which is zeros. */
    __device__ __forceinline__ uint32_t splits_of(uint32_t position) const {
        if (position == (uint32_t)ROW_NONE)
            return 1;
        return split_of(position) - split_of(first_position(position)) + 1;
    }
    __device__ __forceinline__ uint32_t row_width() const {
        return (heads + 2 * kv.kv_heads) * kv.head_dim;
    }
};

/* Factors of merging a split into what is there; *max becomes the larger one. */
struct merge_factors {
    float old_one, new_one;
};
__device__ __forceinline__ struct merge_factors merge_max(float *max, float split_max) {
    const float now = *max > split_max ? *max : split_max;
    struct merge_factors f = {fast_exp2(*max - now), fast_exp2(split_max - now)};
    *max = now;
    return f;
}
__device__ __forceinline__ float merge(struct merge_factors f, float a, float split) {
    return __fmaf_rn(split, f.new_one, __fmul_rn(a, f.old_one));
}

/* cap * tanh(score / cap), of a score times log2 e: tanh(x) = 1 - 2 / (e^2x + 1). */
__device__ __forceinline__ float soft_capped(float score, float soft_cap) {
    const float log2_e = 1.44269504088896340736f, cap = soft_cap * log2_e, twice = 2 * log2_e / cap;
    return cap - 2 * cap * __frcp_rn(fast_exp2(score * twice) + 1);
}

/* The sink is one more split, which has a score and no value: the factor of acc; *sum becomes the
 * sum with it. */
__device__ __forceinline__ float take_sink(const struct attention_call &call, uint32_t h, float max,
                                           float *sum) {
    if (!call.sinks)
        return 1.0f;
    const struct merge_factors f = merge_max(&max, call.sinks[h] * 1.44269504088896340736f);
    *sum = __fmaf_rn(*sum, f.old_one, f.new_one);
    return f.old_one;
}

/* False: not for these types or this head size, nothing is done. */
bool attention_decode_rows(struct stream *s, const struct attention_call &call,
                           enum storage_type kv_type);
/* The same of activations of 16 bits and a cache of fp8 or int8. */
bool attention_decode_narrow_rows(struct stream *s, const struct attention_call &call,
                                  enum storage_type kv_type);
/* Of it, f16 activations. */
bool attention_decode_narrow_f16_rows(struct stream *s, const struct attention_call &call,
                                      enum storage_type kv_type);
/* False: not for this cache, nothing is done. */
bool attention_prompt_rows(struct stream *s, const struct attention_call &call,
                           enum storage_type kv_type);
/* The same by wgmma. False: not on this GPU, for this head size or cache, nothing is done. */
bool attention_prompt_hopper_rows(struct stream *s, const struct attention_call &call,
                                  enum storage_type kv_type);
/* Of it, a cache of fp8 or int8. */
bool attention_prompt_narrow_rows(struct stream *s, const struct attention_call &call,
                                  enum storage_type kv_type);
void attention_plain_rows(struct stream *s, const struct attention_call &call,
                          enum storage_type kv_type);

#endif
