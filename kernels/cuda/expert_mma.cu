/*
 * expert_mma.cu - the experts' products of a mixture (kernels/ops_expert.h: op_expert_linear) with weights
 * and rows of one 16-bit type, [rows, cols] as they lie in files, by mma.sync on every GPU: for slots of rows
 * (expert_slots.cuh). cols: a multiple of 8; segments of any number of rows.
 *
 * A block makes FEATURES features of up to TOKENS rows of one expert, a warp of it WARP_N features of WARP_T
 * rows. Weights and rows stream through a ring of cp.async stages of K columns; features are the 16 rows of
 * mma.m16n8k16, the expert's rows its 8 columns. A sum is one chain over k in ascending order, whatever the
 * shape of the block, so bits do not depend on how many rows an expert has.
 *
 * Blocks are small where experts have few rows: those of a step's one row fill the GPU by themselves (eight
 * experts of 1536 features are 384 blocks, five of which an SM holds), so k need not be cut. Tiles of
 * features are side by side in the grid and slots follow each other: blocks that run at a time share rows of
 * x, and those of one expert its weights, by L2.
 *
 * Where experts have a gate (op_expert_linear.gate), of 16 features 8 are gates and 8 the ups that belong to
 * them: a thread has both of an output, and makes one of them, each rounded first as if it were written.
 *
 * Cost: an expert's weights once for TOKENS of its rows. Launch: a grid of slots x [features / FEATURES].
 * Tolerance: ops.h with lanes = 1.
 */
#include "kernels/cuda/expert_slots.cuh"
#include "kernels/cuda/experts.cuh"
#include "kernels/cuda/pairs.cuh"

/* The experts' product as kernels get it; features, cols: of each expert. */
struct mma_call {
    uint16_t *out;
    const uint16_t *x;
    const struct matrix *experts;
    const uint32_t *offsets;
    uint32_t expert_count, features, cols, tiles; /* tiles: of FEATURES */
    struct expert_gate gate;                      /* where there is one */

    /* Of a row of the tiles: the row of the expert's matrix; `features` or more: there is none. */
    template <bool GATED> __device__ __forceinline__ uint32_t row_of(uint32_t n) const {
        const uint32_t width = features / 2, i = n / 16 * 8 + n % 8, up = n / 8 % 2;
        if (!GATED)
            return n;
        if (i >= width)
            return features;
        return gate.interleaved ? 2 * i + up : up * width + i;
    }
    /* What the gate makes of two values. */
    template <int A> __device__ __forceinline__ float gated_value(float g, float up) const {
        typename values<A>::raw rounded[2];
        values<A>::set(rounded, g);
        values<A>::set(rounded + 1, up);
        g = values<A>::get(rounded);
        up = values<A>::get(rounded + 1);
        return gate.activation ? activate(ACTIVATION_SILU, g) * up
                               : clamped_swiglu(g, up, gate.limit, gate.alpha);
    }
};

template <int TOKENS_, int FEATURES_, int WARP_T_, int WARP_N_, int K_, int STAGES_, int BLOCKS_>
struct mma_block {
    enum : uint32_t {
        TOKENS = TOKENS_,
        FEATURES = FEATURES_,
        WARP_T = WARP_T_,
        WARP_N = WARP_N_,
        K = K_,
        STAGES = STAGES_,
        BLOCKS = BLOCKS_, /* on an SM at a time, at least, by their registers */
        WARPS_N = FEATURES / WARP_N,
        THREADS = WARPS_N * (TOKENS / WARP_T) * 32,
        CHUNKS = K / 8,             /* of 16 bytes in a line of a stage */
        STRIDE = K + 8,             /* lines in other banks */
        AT_ONCE = THREADS / CHUNKS, /* lines that all threads copy together */
        STAGE = (FEATURES + TOKENS) * STRIDE,
        SLOT_AT = STAGES * STAGE * 2, /* behind the ring lies the slot */
        BYTES = SLOT_AT + (sizeof(expert_slot) + 15) / 16 * 16
    };
    static_assert(FEATURES % AT_ONCE == 0, "every thread copies as many lines of weights");
    static_assert((unsigned)BYTES <= 99 * 1024u, "sm_86, sm_89 and sm_120 have no more");
};
/* Where an SM has shared memory for one of the largest blocks only, that one has all registers. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 800 && __CUDA_ARCH__ != 900 && __CUDA_ARCH__ != 1000
enum { LARGE_BLOCKS = 1 };
#else
enum { LARGE_BLOCKS = 2 };
#endif

template <int TOKENS> struct block_of;
template <> struct block_of<8> : mma_block<8, 32, 8, 16, 128, 4, 5> {};
template <> struct block_of<32> : mma_block<32, 64, 32, 16, 64, 4, 4> {};
template <> struct block_of<64> : mma_block<64, 64, 32, 32, 64, 4, 3> {};
template <> struct block_of<128> : mma_block<128, 128, 64, 32, 32, 4, LARGE_BLOCKS> {};

/* Where a thread's chunks of weights and of x come from. */
template <class B, bool GATED> struct mma_lines {
    enum : uint32_t {
        WEIGHTS = B::FEATURES / B::AT_ONCE,
        ROWS = (B::TOKENS + B::AT_ONCE - 1) / B::AT_ONCE
    };
    const uint16_t *weights[WEIGHTS]; /* its first value of each line; NULL: there is none */
    const uint16_t *x;
    uint32_t x_left; /* lines of x from its first on */
    uint32_t cols, line, k;

    __device__ __forceinline__ mma_lines(const struct mma_call &call, const expert_slot &slot,
                                         uint32_t n0)
        : cols(call.cols), line(threadIdx.x / B::CHUNKS), k(threadIdx.x % B::CHUNKS * 8) {
        const struct matrix &m = call.experts[slot.expert];
#pragma unroll
        for (uint32_t i = 0; i < WEIGHTS; i++) {
            uint32_t row = call.row_of<GATED>(n0 + line + i * B::AT_ONCE), segment = 0;
            weights[i] = NULL;
            if (row >= call.features)
                continue;
            while (row >= m.segments[segment].rows)
                row -= m.segments[segment++].rows;
            weights[i] = (const uint16_t *)m.segments[segment].data + (size_t)row * cols + k;
        }
        const uint32_t place = slot.begin + slot.first + line;
        x = call.x + (size_t)place * cols + k;
        x_left = slot.end > place ? slot.end - place : 0;
    }
    /* Columns k0 .. k0 + K of the block's features; what is not there becomes zeros. */
    __device__ __forceinline__ void load_weights(uint16_t *stage, uint32_t k0) const {
        uint16_t *to = stage + line * B::STRIDE + k;
        const bool there = k0 + k < cols;
#pragma unroll
        for (uint32_t i = 0; i < WEIGHTS; i++)
            cp_async_16(to + i * B::AT_ONCE * B::STRIDE, weights[i] + k0,
                        there && weights[i] != NULL);
    }
    /* The same of its rows, which lie behind. */
    __device__ __forceinline__ void load_x(uint16_t *stage, uint32_t k0) const {
        uint16_t *to = stage + (B::FEATURES + line) * B::STRIDE + k;
        const bool there = k0 + k < cols;
#pragma unroll
        for (uint32_t i = 0; i < ROWS; i++)
            if (B::TOKENS % B::AT_ONCE == 0 || line + i * B::AT_ONCE < B::TOKENS)
                cp_async_16(to + i * B::AT_ONCE * B::STRIDE, x + (size_t)i * B::AT_ONCE * cols + k0,
                            there && i * B::AT_ONCE < x_left);
    }
};

/* A warp's share of a stage. ws, xs: its first line of weights and of x. */
template <int A, class B>
static __device__ __forceinline__ void
multiply_stage(const uint16_t *ws, const uint16_t *xs,
               float (&sums)[B::WARP_N / 16][B::WARP_T / 8][4]) {
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (uint32_t k = 0; k < B::K; k += 32) {
        uint32_t a[2][B::WARP_N / 16][4], b[4];
#pragma unroll
        for (uint32_t step = 0; step < 2; step++)
#pragma unroll
            for (uint32_t i = 0; i < B::WARP_N / 16; i++)
                ldmatrix_x4(a[step][i],
                            ws + (i * 16 + lane % 16) * B::STRIDE + k + step * 16 + lane / 16 * 8);
#pragma unroll
        for (uint32_t j = 0; j < B::WARP_T / 8; j++) {
            ldmatrix_x4(b, xs + (j * 8 + lane % 8) * B::STRIDE + k + lane / 8 * 8);
#pragma unroll
            for (uint32_t i = 0; i < B::WARP_N / 16; i++) {
                mma<A>(sums[i][j], a[0][i], b);
                mma<A>(sums[i][j], a[1][i], b + 2);
            }
        }
    }
}

/* A warp's sums with the bias to memory. n0, t0: its first; first: the expert's place of row 0 of `rows`. */
template <int A, class B>
static __device__ __forceinline__ void
put_plain(const struct mma_call &call, const float (&sums)[B::WARP_N / 16][B::WARP_T / 8][4],
          const float *bias, uint32_t n0, uint32_t t0, uint32_t first, uint32_t rows) {
    const uint32_t lane = threadIdx.x % 32;
    uint16_t *out = call.out + (size_t)first * call.features;
#pragma unroll
    for (uint32_t i = 0; i < B::WARP_N / 16; i++)
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t n = n0 + i * 16 + half * 8 + lane / 4;
            if (n >= call.features)
                continue;
            const float add = bias ? bias[n] : 0;
#pragma unroll
            for (uint32_t j = 0; j < B::WARP_T / 8; j++)
#pragma unroll
                for (uint32_t e = 0; e < 2; e++) {
                    const uint32_t t = t0 + j * 8 + lane % 4 * 2 + e;
                    if (t < rows)
                        values<A>::set(out + (size_t)t * call.features + n,
                                       sums[i][j][half * 2 + e] + add);
                }
        }
}

/* The same of what the gate makes of them: a thread has gate and up of an output. */
template <int A, class B>
static __device__ __forceinline__ void
put_gated(const struct mma_call &call, const float (&sums)[B::WARP_N / 16][B::WARP_T / 8][4],
          const float *bias, uint32_t n0, uint32_t t0, uint32_t first, uint32_t rows) {
    const uint32_t lane = threadIdx.x % 32, width = call.features / 2;
    uint16_t *out = call.out + (size_t)first * width;
#pragma unroll
    for (uint32_t i = 0; i < B::WARP_N / 16; i++) {
        const uint32_t n = n0 + i * 16 + lane / 4, to = n / 16 * 8 + n % 8;
        if (to >= width)
            continue;
        const float add = bias ? bias[call.row_of<true>(n)] : 0,
                    add_up = bias ? bias[call.row_of<true>(n + 8)] : 0;
#pragma unroll
        for (uint32_t j = 0; j < B::WARP_T / 8; j++)
#pragma unroll
            for (uint32_t e = 0; e < 2; e++) {
                const uint32_t t = t0 + j * 8 + lane % 4 * 2 + e;
                if (t < rows)
                    values<A>::set(
                        out + (size_t)t * width + to,
                        call.gated_value<A>(sums[i][j][e] + add, sums[i][j][2 + e] + add_up));
            }
    }
}

/* What lies ahead of the kernel ahead has ended: the plan and the weights' descriptions are there. */
template <int A, int TOKENS, bool GATED>
static __global__
__launch_bounds__(block_of<TOKENS>::THREADS,
                  block_of<TOKENS>::BLOCKS) void expert_mma_kernel(struct mma_call call) {
    typedef block_of<TOKENS> B;
    DYNAMIC_SHARED(area);
    uint16_t *ring = (uint16_t *)area;
    const expert_slot slot =
        slot_of<TOKENS>(call.offsets, call.expert_count, blockIdx.x / call.tiles);
    if (!slot.there)
        return;
    const uint32_t n0 = blockIdx.x % call.tiles * B::FEATURES, warp = threadIdx.x / 32,
                   warp_n = warp % B::WARPS_N * B::WARP_N, warp_t = warp / B::WARPS_N * B::WARP_T,
                   stages = (call.cols + B::K - 1) / B::K;
    const mma_lines<B, GATED> lines(call, slot, n0);
    expert_slot *kept = (expert_slot *)(area + B::SLOT_AT); /* for step 3: it takes no registers */
    if (threadIdx.x == 0)
        *kept = slot;
    auto stage_of = [&](uint32_t c) { return ring + c % B::STAGES * B::STAGE; };
    float sums[B::WARP_N / 16][B::WARP_T / 8][4] = {};

    /* 1. weights may be asked for before the kernel ahead has ended, its results only after */
    for (uint32_t c = 0; c < B::STAGES - 1; c++)
        if (c < stages)
            lines.load_weights(stage_of(c), c * B::K);
    dependency_wait();
    dependents_launch();
    for (uint32_t c = 0; c < B::STAGES - 1; c++) {
        if (c < stages)
            lines.load_x(stage_of(c), c * B::K);
        cp_async_commit();
    }

    /* 2. each warp its features of its rows */
    for (uint32_t c = 0; c < stages; c++) {
        const uint32_t next = c + B::STAGES - 1;
        cp_async_wait<B::STAGES - 2>();
        __syncthreads(); /* stage c is here for all; everyone is done with stage c - 1 */
        if (next < stages) {
            lines.load_weights(stage_of(next), next * B::K);
            lines.load_x(stage_of(next), next * B::K);
        }
        cp_async_commit();
        const uint16_t *stage = stage_of(c);
        multiply_stage<A, B>(stage + warp_n * B::STRIDE, stage + (B::FEATURES + warp_t) * B::STRIDE,
                             sums);
    }
    cp_async_wait<0>(); /* groups that are empty by now */
    __syncthreads();

    /* 3. with the bias to memory */
    const uint32_t first = kept->begin + kept->first, rows = kept->end - first;
    const float *bias = call.experts[kept->expert].bias;
    if (GATED)
        put_gated<A, B>(call, sums, bias, n0 + warp_n, warp_t, first, rows);
    else
        put_plain<A, B>(call, sums, bias, n0 + warp_n, warp_t, first, rows);
}

/* ---- launching ---- */

template <int A, int TOKENS, bool GATED>
static void launch_mma(struct stream *s, struct mma_call call, uint64_t pairs) {
    typedef block_of<TOKENS> B;
    const uint32_t lines = GATED ? blocks_for(call.features / 2, 8) * 16 : call.features;
    call.tiles = blocks_for(lines, B::FEATURES);
    const uint64_t slots = slots_at_most(pairs, call.expert_count, TOKENS);
    const launch_shape shape = {dim3((unsigned)(slots * call.tiles)), dim3(B::THREADS), B::BYTES,
                                device_of(s)->dependent_launch};
    LAUNCH((expert_mma_kernel<A, TOKENS, GATED>), shape, cuda_stream_of(s), call);
}

/* By the rows that an expert has on average, of all. */
template <int A, bool GATED>
static void multiply_experts(struct stream *s, const struct mma_call &call, uint64_t pairs) {
    const uint64_t each = pairs / call.expert_count;
    if (each < 4)
        launch_mma<A, 8, GATED>(s, call, pairs);
    else if (each < 24)
        launch_mma<A, 32, GATED>(s, call, pairs);
    else if (each < 96)
        launch_mma<A, 64, GATED>(s, call, pairs);
    else
        launch_mma<A, 128, GATED>(s, call, pairs);
}

/* Weights and rows of one 16-bit type. */
static bool multiplies(const struct device *dev, const struct expert_matrix *w) {
    return !w->packed && w->type == dev->activation_type && w->type != STORAGE_F32 &&
           w->cols % 8 == 0;
}

bool cuda_gates_experts(const struct device *dev, const struct expert_matrix *w,
                        const struct expert_gate *gate) {
    return multiplies(dev, w) && w->rows % 2 == 0 &&
           (!gate->activation || gate->activation == ACTIVATION_SILU);
}

bool expert_linear_mma(struct stream *s, const struct op_expert_linear *a) {
    const struct expert_matrix *w = a->w;
    const uint64_t pairs = (uint64_t)a->rows * a->top_k;
    const struct mma_call call = {(uint16_t *)a->out,
                                  (const uint16_t *)a->x,
                                  w->experts,
                                  a->plan->offsets,
                                  w->expert_count,
                                  w->rows,
                                  w->cols,
                                  0,
                                  a->gate ? *a->gate : expert_gate()};
    if (!multiplies(s->dev, w))
        return false;
    if (!pairs || !w->rows)
        return true;
    if (w->type == STORAGE_BF16 && a->gate)
        multiply_experts<STORAGE_BF16, true>(s, call, pairs);
    else if (w->type == STORAGE_BF16)
        multiply_experts<STORAGE_BF16, false>(s, call, pairs);
    else if (a->gate)
        multiply_experts<STORAGE_F16, true>(s, call, pairs);
    else
        multiply_experts<STORAGE_F16, false>(s, call, pairs);
    return true;
}
