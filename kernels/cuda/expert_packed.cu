/*
 * expert_packed.cu - the experts' products of a mixture (kernels/ops_expert.h: op_expert_linear) with
 * quantized weights in units (packed.cuh), on GPUs that are no Hopper (there expert_packed_hopper.cu does it):
 * linear_packed_mma.cu's product (packed_mma.cuh) for slots of rows (expert_slots.cuh).
 *
 * A block makes 64 features of up to TOKENS rows of one expert. Tiles of features are side by side in the
 * grid and slots follow each other: blocks that run at a time share rows of x, and those of one expert its
 * weights, by L2. TOKENS is chosen by how many rows an expert has on average; an output has one order of
 * sums, whatever it is.
 *
 * Cost: an expert's weights once for TOKENS of its rows. Launch: a grid of slots x [features / 64].
 * Tolerance: as linear_packed_mma.cu.
 */
#include "kernels/cuda/expert_packed.cuh"
#include "kernels/cuda/packed_mma.cuh"

/* The product of a slot's rows with features 64 `tile` .. of its expert, which lie in one segment: in shared
 * memory, so that it takes no registers. */
struct expert_product {
    packed_product q;
    packed_place place;
    uint32_t tile, first;

    __device__ __forceinline__ expert_product(const struct expert_call &call,
                                              const expert_slot &slot, uint32_t at)
        : q(), place(packed_segment(), at), tile(at), first(slot.first) {
        const struct matrix &m = call.experts[slot.expert];
        uint32_t i = 0;
        while (place.tile >= m.segments[i].rows / PACKED_FEATURES)
            place.tile -= m.segments[i++].rows / PACKED_FEATURES;
        place.of = packed_segment_of(m.segments[i], 0);
        q.segments[0] = place.of;
        q.group = call.group;
        q.group_bits = call.group_bits;
        q.p.out = (uint16_t *)call.out + (size_t)slot.begin * call.features;
        q.p.x = (const uint16_t *)call.x + (size_t)slot.begin * call.cols;
        q.p.bias = m.bias;
        q.p.rows = slot.end - slot.begin;
        q.p.features = q.p.out_stride = call.features;
        q.p.cols = call.cols;
    }
};
enum : uint32_t { EXPERT_PRODUCT_BYTES = (sizeof(expert_product) + 15) / 16 * 16 };

/* What lies ahead of the kernel ahead has ended: the plan and the weights' descriptions are there. */
template <int A, int W, bool BY_128, int TOKENS, int BLOCKS>
static __global__ __launch_bounds__(MMA_THREADS,
                                    BLOCKS) void expert_packed_kernel(struct expert_call call) {
#if defined(TRIREME_EMULATED) || !defined(PTX_SM90A) /* there nobody launches it */
    typedef mma_stage<W, TOKENS, BLOCKS, EXPERT_PRODUCT_BYTES> stage;
    DYNAMIC_SHARED(area);
    const expert_slot slot =
        slot_of<TOKENS>(call.offsets, call.expert_count, blockIdx.x / call.tiles);
    if (!slot.there)
        return;
    expert_product *mine = (expert_product *)(area + stage::SHARED);
    if (threadIdx.x == 0)
        *mine = expert_product(call, slot, blockIdx.x % call.tiles);
    __syncthreads();
    multiply_units<A, W, BY_128, TOKENS, BLOCKS, EXPERT_PRODUCT_BYTES>(mine->q, mine->place,
                                                                       mine->tile, mine->first);
#endif
}

/* ---- launching ---- */

template <int A, int W, bool BY_128, int TOKENS, int BLOCKS>
static void expert_launch(struct stream *s, const struct expert_call &call, uint64_t pairs) {
    const uint64_t slots = slots_at_most(pairs, call.expert_count, TOKENS);
    launch_shape shape = {dim3((unsigned)(slots * call.tiles)), dim3(MMA_THREADS),
                          mma_stage<W, TOKENS, BLOCKS, EXPERT_PRODUCT_BYTES>::SHARED +
                              EXPERT_PRODUCT_BYTES,
                          device_of(s)->dependent_launch};
    LAUNCH((expert_packed_kernel<A, W, BY_128, TOKENS, BLOCKS>), shape, cuda_stream_of(s), call);
}

template <int A, int W, bool BY_128>
static void expert_shape(struct stream *s, const struct expert_call &call, uint64_t pairs) {
    const uint64_t each = pairs / call.expert_count;
    if (each < 4)
        expert_launch<A, W, BY_128, 8, 2>(s, call, pairs);
    else if (each < 24)
        expert_launch<A, W, BY_128, 32, 1>(s, call, pairs);
    else
        expert_launch<A, W, BY_128, 64, 1>(s, call, pairs);
}

template <int A, int W>
static void expert_scaled(struct stream *s, const struct expert_call &call, uint64_t pairs,
                          bool by_128) {
    if (W == STORAGE_F8_E4M3 && by_128)
        expert_shape<A, W, W == STORAGE_F8_E4M3>(s, call, pairs);
    else
        expert_shape<A, W, false>(s, call, pairs);
}

void expert_linear_packed(struct stream *s, const struct op_expert_linear *a) {
    const struct expert_matrix *w = a->w;
    const uint32_t span = w->scale_cols;
    const bool grouped = span && span < w->cols;
    const struct expert_call call = {a->out,
                                     a->x,
                                     w->experts,
                                     a->plan->offsets,
                                     w->expert_count,
                                     w->rows,
                                     w->cols,
                                     w->rows / PACKED_FEATURES,
                                     w->type == STORAGE_U4 ? span : 0,
                                     span == 32   ? 5u
                                     : span == 64 ? 6u
                                                  : 7u};
    const uint64_t pairs = (uint64_t)a->rows * a->top_k;
    if (device_of(s)->hopper) {
        expert_linear_hopper(s, call, w->type, pairs, grouped);
        return;
    }
    if (s->dev->activation_type == STORAGE_BF16)
        WITH_PACKED(w->type, W, (expert_scaled<STORAGE_BF16, W>(s, call, pairs, grouped)));
    else
        WITH_PACKED(w->type, W, (expert_scaled<STORAGE_F16, W>(s, call, pairs, grouped)));
}
