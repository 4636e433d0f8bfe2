/*
 * linear_packed.cu - out[t, n] = sum_k x[t, k] * w[n, k] + bias[n] on sm_90a with quantized
 * weights, for any number of rows: fp8 and int8 (a scale for all, for a row, fp8 also for 128 x 128 values),
 * int4 with groups, Q8_0, Q4_0, Q4_K, Q6_K, MXFP4, put into units when they were loaded
 * (packed.cuh).
 *
 * As linear_hopper.cu: a warpgroup brings the operands through a ring of stages, weights by bulk
 * copies, x by cp.async; one or two more multiply 64 features each. But A comes from registers: each
 * thread makes its codes whole numbers of 16 bits and hands them to wgmma, and while a piece of 32 k
 * is multiplied it unpacks the next. Scales meet the sums: those of k that share one are summed
 * alone, in `partial`, and then sums += scale * partial. Types with minima, and int4 with zeros,
 * also take off minimum * (the sum of x over the piece), which the warpgroup that brings x adds up.
 *
 * Each output is one chain: over k in ascending order, 16 at a time, a piece (or what shares a
 * scale) after the other, whatever the block's shape and the number of rows: the bits of a row do
 * not depend on the others. Of output rows, where there are few features, k is cut into splits, a
 * whole number of stages each, as in linear_hopper.cu. Tolerance: ops.h with lanes = 1, where minima
 * are terms of their own.
 *
 * The segments of a matrix (queries, keys and values; gate and up) are one launch: 64 features lie in
 * one of them.
 *
 * Cost: weights once for 128 rows (twice from L2 for 256); 2 to 3 instructions a weight and 128
 * rows. Registers: 4 to 64 sums a thread, and as many partial ones.
 */
#include "kernels/cuda/linear_packed_loops.cuh"

template <int A, int W, bool BY_128, int TOKENS, int GROUPS, int BLOCKS>
static __global__ __launch_bounds__(128 * (GROUPS + 1),
                                    BLOCKS) void linear_packed_kernel(struct packed_product q) {
#if defined(PTX_SM90A) /* elsewhere nobody launches it */
    typedef packed_stage<W, TOKENS, GROUPS, BLOCKS> stage;
    DYNAMIC_SHARED(area);
    const hopper_ring ring = ring_of<stage::STAGES, stage::BARRIERS>(area);
    const uint32_t first = blockIdx.y * GROUPS, t0 = blockIdx.x * TOKENS,
                   groups = min((uint32_t)GROUPS, q.p.features / PACKED_FEATURES - first);
    const hopper_cluster cluster = hopper_cluster::of_block<stage::CLUSTERS != 0>();
    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < stage::STAGES; s++) {
            mbarrier_init(ring.full + s,
                          PRODUCERS + (takes_halves<stage>(q.p) ? PRODUCERS / 32 : 1));
            mbarrier_init(ring.empty + s, 4 * groups * cluster.size);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    cluster.synchronize();
    if (threadIdx.x < PRODUCERS) {
        if (GROUPS == 2)
            registers_shrink<40>();
        if (stage::FOLDS && q.p.norm.squares)
            bring<A, W, TOKENS, stage, stage::FOLDS != 0>(q, ring, cluster, first, groups, t0);
        else
            bring<A, W, TOKENS, stage, false>(q, ring, cluster, first, groups, t0);
        cluster.pass_splits();
        if (stage::FOLDS)
            pass_rope(q.p);
    } else {
        const uint32_t group = threadIdx.x / 128 - 1;
        if (GROUPS == 2)
            registers_grow<232>();
        if (group < groups)
            multiply<A, W, BY_128, TOKENS, stage>(q, ring, cluster, group, first + group,
                                                  block_of_grid());
        else
            cluster.pass_splits();
    }
    cluster.synchronize();
#endif
}

/* ---- launching ---- */

template <int A, int W, bool BY_128, int TOKENS, int GROUPS, int BLOCKS>
static void packed_launch(struct stream *s, const struct packed_product &q, uint32_t splits) {
    typedef packed_stage<W, TOKENS, GROUPS, BLOCKS> stage;
    launch_shape launch = {dim3(blocks_for(q.p.rows, TOKENS),
                                blocks_for(q.p.features / PACKED_FEATURES, GROUPS), splits),
                           dim3(stage::THREADS), stage::SHARED, device_of(s)->dependent_launch};
    if (stage::CLUSTERS && q.p.features / PACKED_FEATURES % (2 * GROUPS) == 0)
        launch.cluster_y = 2;
    launch.cluster_z = splits;
    LAUNCH((linear_packed_kernel<A, W, BY_128, TOKENS, GROUPS, BLOCKS>), launch, cuda_stream_of(s),
           q);
}

/* Two blocks an SM for few rows. Beyond, two warpgroups share x, and blocks have 128 rows, where
 * that leaves blocks enough. */
template <int A, int W, bool BY_128>
static void packed_shape(struct stream *s, const struct packed_product &q, uint32_t splits) {
    const uint64_t sms = (uint64_t)device_of(s)->sm_count,
                   pairs = blocks_for(q.p.features / PACKED_FEATURES, 2) * splits;
    auto enough = [&](uint32_t rows) { return pairs * blocks_for(q.p.rows, rows) * 3 >= sms * 2; };
    if (q.p.rows <= NORMED_ROWS && packed_few_takes((enum storage_type)W, q.p.cols, splits))
        linear_packed_few(s, q, (enum storage_type)W, splits);
    else if (q.p.rows <= 8)
        packed_launch<A, W, BY_128, 8, 1, 2>(s, q, splits);
    else if (q.p.rows <= 32)
        packed_launch<A, W, BY_128, 32, 1, 2>(s, q, splits);
    else if (q.p.rows > 64 && enough(128))
        packed_launch<A, W, BY_128, 128, 2, 1>(s, q, splits);
    else if (enough(64))
        packed_launch<A, W, BY_128, 64, 2, 1>(s, q, splits);
    else
        packed_launch<A, W, BY_128, 64, 1, 1>(s, q, splits);
}

template <int A, int W>
static void packed_scaled(struct stream *s, const struct packed_product &q, bool by_128,
                          uint32_t splits) {
    if (W == STORAGE_F8_E4M3 && by_128)
        packed_shape<A, W, W == STORAGE_F8_E4M3>(s, q, splits);
    else
        packed_shape<A, W, false>(s, q, splits);
}

bool packed_folds_norm(enum storage_type type, uint32_t features, uint32_t cols) {
    return type == STORAGE_F8_E4M3 || type == STORAGE_I8 || type == STORAGE_Q8_0 ||
           packed_few_takes(type, cols, feature_splits(features, cols));
}

/* Whether one launch can do both: the kernel's form is the same, and what it asks of all. */
bool packed_alike(const struct matrix_segment &a, const struct matrix_segment &b, uint32_t cols) {
    auto grouped = [&](const struct matrix_segment &m) {
        return m.scale_cols && m.scale_cols < cols;
    };
    return grouped(a) == grouped(b) && (!grouped(a) || a.scale_cols == b.scale_cols) &&
           !a.scales == !b.scales && !a.zeros == !b.zeros && a.zero == b.zero;
}

void linear_packed(struct stream *s, const struct product &p, uint32_t class_rows,
                   const struct matrix_segment *segments, uint32_t count, enum storage_type type) {
    const bool grouped = segments[0].scale_cols && segments[0].scale_cols < p.cols;
    struct packed_product q = packed_product_of(p, segments, count, type);
    with_splits(p, class_rows, [&](const struct product &some, uint32_t splits) {
        q.p = some;
        if (s->dev->activation_type == STORAGE_BF16)
            WITH_PACKED(type, W, (packed_scaled<STORAGE_BF16, W>(s, q, grouped, splits)));
        else
            WITH_PACKED(type, W, (packed_scaled<STORAGE_F16, W>(s, q, grouped, splits)));
    });
}
