/*
 * linear_packed_mma.cu - out[t, n] = sum_k x[t, k] * w[n, k] + bias[n] with quantized weights in units
 * (packed.cuh) on GPUs that are no Hopper, for any number of rows: what linear_packed.cu is on sm_90a.
 *
 * A block makes 64 features of TOKENS rows. Units, scales and x come through a ring of cp.async stages of
 * 256 k. Four teams of four warps each take one of a stage's four tiles of 64 k, a warp 16 features: it
 * unpacks its codes to whole numbers of 16 bits, which are the left operand of mma.m16n8k16 as they lie in
 * its registers, and x is the right one. Scales meet the sums of those k that share one, in f32. Types with
 * minima, and int4 with zeros, also take off minimum * (the sum of x over the piece), which a product of x
 * with ones makes.
 *
 * Each output is four chains, tile 4 i + team of 64 k, over k in ascending order, then ((0 + 1) + 2) + 3,
 * whatever the number of rows: one order of sums for output rows and for prompt rows. Tolerance: ops.h with
 * lanes = 4, where minima are terms of their own.
 *
 * Cost: weights once for 64 rows; some three instructions a weight and 64 rows. Launch: a grid of [rows /
 * TOKENS, features / 64]. Shared memory: two to four stages, at most 99 KB, as sm_86, sm_89 and sm_120 have it.
 */
#include "kernels/cuda/packed_mma.cuh"

template <int A, int W, bool BY_128, int TOKENS, int BLOCKS>
static __global__ __launch_bounds__(MMA_THREADS,
                                    BLOCKS) void linear_packed_mma_kernel(struct packed_product q) {
#if defined(TRIREME_EMULATED) || !defined(PTX_SM90A) /* there nobody launches it */
    multiply_units<A, W, BY_128, TOKENS, BLOCKS>(q, packed_place(q, blockIdx.y), blockIdx.y,
                                                 blockIdx.x * TOKENS);
#endif
}

/* ---- launching ---- */

template <int A, int W, bool BY_128, int TOKENS, int BLOCKS>
static void mma_launch(struct stream *s, const struct packed_product &q) {
    launch_shape launch = {dim3(blocks_for(q.p.rows, TOKENS), q.p.features / PACKED_FEATURES),
                           dim3(MMA_THREADS), mma_stage<W, TOKENS, BLOCKS>::SHARED,
                           device_of(s)->dependent_launch};
    LAUNCH((linear_packed_mma_kernel<A, W, BY_128, TOKENS, BLOCKS>), launch, cuda_stream_of(s), q);
}

template <int A, int W, bool BY_128>
static void mma_shape(struct stream *s, const struct packed_product &q) {
    if (q.p.rows <= 8)
        mma_launch<A, W, BY_128, 8, 2>(s, q);
    else if (q.p.rows <= 32)
        mma_launch<A, W, BY_128, 32, 1>(s, q);
    else
        mma_launch<A, W, BY_128, 64, 1>(s, q);
}

template <int A, int W>
static void mma_scaled(struct stream *s, const struct packed_product &q, bool by_128) {
    if (W == STORAGE_F8_E4M3 && by_128)
        mma_shape<A, W, W == STORAGE_F8_E4M3>(s, q);
    else
        mma_shape<A, W, false>(s, q);
}

void linear_packed_mma(struct stream *s, const struct product &p,
                       const struct matrix_segment *segments, uint32_t count,
                       enum storage_type type) {
    const bool grouped = segments[0].scale_cols && segments[0].scale_cols < p.cols;
    const struct packed_product q = packed_product_of(p, segments, count, type);
    CHECK(!p.norm.squares && !p.residual.squares && !p.rope.angles && !p.push.table);
    if (s->dev->activation_type == STORAGE_BF16)
        WITH_PACKED(type, W, (mma_scaled<STORAGE_BF16, W>(s, q, grouped)));
    else
        WITH_PACKED(type, W, (mma_scaled<STORAGE_F16, W>(s, q, grouped)));
}
