/*
 * experts.cuh - what the kernels of mixtures share: the plan as they get it, a row's sum over its experts,
 * and what a gate makes of two values (kernels/ops_expert.h).
 */
#ifndef KERNELS_CUDA_EXPERTS_CUH
#define KERNELS_CUDA_EXPERTS_CUH

#include "kernels/cuda/activate.cuh"

struct plan_view {
    const uint32_t *offsets, *pairs, *places;
    const float *weights;
    uint32_t top_k;
};
static inline struct plan_view plan_view_of(const struct expert_plan *plan, uint32_t top_k) {
    return {plan->offsets, plan->pairs, plan->places, plan->weights, top_k};
}

struct combine_call {
    const float *shared_gate;
    struct plan_view plan;
    uint32_t width;
    bool weighted;
};

/* A row's sum with what one more expert gives; and with the shared one's. */
static __device__ __forceinline__ float add_expert(float sum, float v, float weight) {
    return __fmaf_rn(v, weight, sum);
}
static __device__ __forceinline__ float shared_weight(const struct combine_call &call, uint32_t t) {
    return call.shared_gate ? 1.0f / (1.0f + expf(-call.shared_gate[t])) : 1.0f;
}

/* op_clamped_swiglu's. */
static __device__ __forceinline__ float clamped_swiglu(float gate, float up, float limit,
                                                       float alpha) {
    gate = gate > limit ? limit : gate;
    up = up > limit ? limit : up < -limit ? -limit : up;
    return (up + 1.0f) * (gate * (1.0f / (1.0f + expf(-alpha * gate))));
}

#endif
