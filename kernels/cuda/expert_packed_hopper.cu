/*
 * expert_packed_hopper.cu - the experts' products of a mixture (kernels/ops_expert.h: op_expert_linear) with
 * quantized weights in units (packed.cuh) on sm_90a: linear_packed.cu's product by wgmma
 * (linear_packed_loops.cuh) for slots of rows (expert_slots.cuh).
 *
 * A block makes 64 features of up to 8, 16 or 32 rows of one expert, or 128 of up to 64 or 128 rows: each
 * weight is made a number of 16 bits once for all of them. Tiles of features are side by side in the grid and
 * slots follow each other: blocks that run at a time share rows of x, and those of one expert its weights, by
 * L2. TOKENS is chosen by how many rows an expert has on average.
 *
 * An output is one chain over k in ascending order, as linear_packed.cu has it without splits, whatever
 * TOKENS is: bits do not depend on how many rows an expert has.
 *
 * Cost: an expert's weights once for TOKENS of its rows. Launch: a grid of slots x [features / 64 or 128].
 * Tolerance: as linear_packed.cu.
 */
#include "kernels/cuda/expert_packed.cuh"
#include "kernels/cuda/linear_packed_loops.cuh"

/* The product of a slot's rows: all of the expert's segments, and rows from 0 on. */
[[maybe_unused]] static __device__ __forceinline__ packed_product
product_of_slot(const struct expert_call &call, const expert_slot &slot) {
    const struct matrix &m = call.experts[slot.expert];
    const size_t row = slot.begin + slot.first;
    packed_product q = {};
    uint32_t end = 0;
#pragma unroll
    for (uint32_t i = 0; i < MATRIX_SEGMENTS_MAX; i++) {
        end += i < m.segment_count ? m.segments[i].rows / PACKED_FEATURES : 0;
        q.segments[i] = packed_segment_of(m.segments[i], end);
    }
    q.group = call.group;
    q.group_bits = call.group_bits;
    q.p.out = (uint16_t *)call.out + row * call.features;
    q.p.x = (const uint16_t *)call.x + row * call.cols;
    q.p.bias = m.bias;
    q.p.rows = slot.end - (uint32_t)row;
    q.p.features = q.p.out_stride = call.features;
    q.p.cols = call.cols;
    return q;
}

enum : uint32_t { KEPT_AT = 512 };

/* As block_of_grid: in shared memory, behind the barriers. */
struct block_of_slot {
    struct kept {
        void *out;
        const float *bias;
        uint32_t rows, features, tile; /* the block's first, of 64 features */
    };
    const volatile kept *of;
    template <class STAGE> __device__ __forceinline__ uint32_t first_feature(uint32_t group) const {
        return (of->tile + group) * PACKED_FEATURES;
    }
    template <int TOKENS> static __device__ __forceinline__ uint32_t first_row() {
        return 0;
    }
    __device__ __forceinline__ product product_of(const product &) const {
        product p = {};
        p.out = of->out;
        p.bias = of->bias;
        p.rows = of->rows;
        p.features = p.out_stride = of->features;
        return p;
    }
};

/* What lies ahead of the kernel ahead has ended: the plan and the weights' descriptions are there. */
template <int A, int W, bool BY_128, int TOKENS, int GROUPS, int BLOCKS>
static __global__
__launch_bounds__(128 * (GROUPS + 1),
                  BLOCKS) void expert_packed_hopper_kernel(struct expert_call call) {
#if defined(PTX_SM90A) /* elsewhere nobody launches it */
    typedef packed_stage<W, TOKENS, GROUPS, BLOCKS, true> stage;
    /* its sums, scales and sums of x want more registers than the warps that copy */
    enum : bool { FULL = TOKENS == 32 && packed<W>::MINIMUM != 0 };
    DYNAMIC_SHARED(area);
    const expert_slot slot =
        slot_of<TOKENS>(call.offsets, call.expert_count, blockIdx.x / call.tiles);
    if (!slot.there)
        return;
    const hopper_ring ring = ring_of<stage::STAGES, stage::BARRIERS>(area);
    const uint32_t first = blockIdx.x % call.tiles * GROUPS,
                   groups = min((uint32_t)GROUPS, call.features / PACKED_FEATURES - first);
    const hopper_cluster cluster = {1, 0};
    const packed_product q = product_of_slot(call, slot);
    block_of_slot::kept *kept = (block_of_slot::kept *)(area + KEPT_AT);
    static_assert((unsigned)stage::STAGES * 16 <= KEPT_AT &&
                      KEPT_AT + sizeof(block_of_slot::kept) <= (unsigned)stage::BARRIERS,
                  "it lies between the barriers and the ring");
    if (threadIdx.x == 0) {
        *kept = {q.p.out, q.p.bias, q.p.rows, q.p.features, first};
        for (uint32_t s = 0; s < stage::STAGES; s++) {
            mbarrier_init(ring.full + s, PRODUCERS + 1);
            mbarrier_init(ring.empty + s, 4 * groups);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x < PRODUCERS) {
        if (GROUPS == 2)
            registers_shrink<72>();
        else if (FULL)
            registers_shrink<96>();
        bring<A, W, TOKENS, stage, false>(q, ring, cluster, first, groups, 0);
    } else {
        const uint32_t group = threadIdx.x / 128 - 1;
        if (GROUPS == 2)
            registers_grow<216>();
        else if (FULL)
            registers_grow<160>();
        if (group < groups)
            multiply<A, W, BY_128, TOKENS, stage>(q, ring, cluster, group, first + group,
                                                  block_of_slot{kept});
    }
#endif
}

/* ---- launching ---- */

template <int A, int W, bool BY_128, int TOKENS, int GROUPS, int BLOCKS>
static void launch_experts(struct stream *s, struct expert_call call, uint64_t pairs) {
    typedef packed_stage<W, TOKENS, GROUPS, BLOCKS, true> stage;
    const uint64_t slots = slots_at_most(pairs, call.expert_count, TOKENS);
    call.tiles = blocks_for(call.features / PACKED_FEATURES, GROUPS);
    launch_shape shape = {dim3((unsigned)(slots * call.tiles)), dim3(stage::THREADS), stage::SHARED,
                          device_of(s)->dependent_launch};
    LAUNCH((expert_packed_hopper_kernel<A, W, BY_128, TOKENS, GROUPS, BLOCKS>), shape,
           cuda_stream_of(s), call);
}

/* By the rows that an expert has on average: most have no more than TOKENS. */
template <int A, int W, bool BY_128>
static void multiply_experts(struct stream *s, const struct expert_call &call, uint64_t pairs) {
    const uint64_t each = pairs / call.expert_count;
    if (each < 4)
        launch_experts<A, W, BY_128, 8, 1, 2>(s, call, pairs);
    else if (each < 10)
        launch_experts<A, W, BY_128, 16, 1, 2>(s, call, pairs);
    else if (each < 24)
        launch_experts<A, W, BY_128, 32, 1, 2>(s, call, pairs);
    else if (each < 48)
        launch_experts<A, W, BY_128, 64, 2, 1>(s, call, pairs);
    else
        launch_experts<A, W, BY_128, 128, 2, 1>(s, call, pairs);
}

template <int A, int W>
static void multiply_scaled(struct stream *s, const struct expert_call &call, uint64_t pairs,
                            bool by_128) {
    if (W == STORAGE_F8_E4M3 && by_128)
        multiply_experts<A, W, W == STORAGE_F8_E4M3>(s, call, pairs);
    else
        multiply_experts<A, W, false>(s, call, pairs);
}

void expert_linear_hopper(struct stream *s, const struct expert_call &call, enum storage_type type,
                          uint64_t pairs, bool grouped) {
    if (s->dev->activation_type == STORAGE_BF16)
        WITH_PACKED(type, W, (multiply_scaled<STORAGE_BF16, W>(s, call, pairs, grouped)));
    else
        WITH_PACKED(type, W, (multiply_scaled<STORAGE_F16, W>(s, call, pairs, grouped)));
}
