/*
 * linear_fp8.cu - out[t, n] = sum_k x[t, k] * w[n, k] + bias[n] on sm_90a with weights in fp8
 * (e4m3, in units: packed.cuh) and x rounded to fp8, which the tensor cores multiply at twice the
 * rate of 16 bits (enum compute_type: fp8, fp8-prompts; ops.h: op_linear has what is computed).
 *
 * round_rows: a block a row finds its largest value and rounds it, into tiles of 128 k as the
 * tensor cores read them, so that bulk copies of whole tiles bring x. Within 16 k values lie in the
 * order in which packed weights make pairs: byte 4 q + i of 16 is k = 2 q + i % 2 + i / 2 * 8.
 *
 * product: one thread asks for all copies, of weights and x, through a ring of stages of 256 k; one
 * or two warpgroups multiply 64 features each, A from registers: a byte permutation for four codes.
 * The tensor cores' sums of fp8 keep some 14 bits, so they add up 128 k at a time; these sums are
 * added in f32, in ascending order, times the weights' scale where there is one for 128 x 128. At
 * the end come the row's scale and the feature's. The order is the same for every number of rows,
 * so the bits of a row do not depend on the others. Of output rows k is cut into splits as in
 * linear_hopper.cu.
 *
 * From 64 rows on two blocks, neighbours in features, share x; with an even number of blocks of 128
 * rows two, neighbours in rows, share weights as well: each asks for half of what both need.
 *
 * Cost: x once from L2 for 256 features, weights once for 256 rows. Tolerance: ops.h with lanes =
 * 1, as the emulator sums; on a GPU that of 14 bits within 128 k.
 */
#include "kernels/cuda/linear_packed.cuh"

/* k of a tile's rows, of 128 bytes; rows of the largest block. */
enum : uint32_t { LINE = 128, LINE_ROWS = 128 };

/* x in tiles: values [cols / 128, rows, 128], rows a whole number of LINE_ROWS; scales: [rows]. */
struct rounded_rows {
    uint8_t *values;
    float *scales;
    uint32_t rows;
};

/* ---- rounding ---- */

enum : uint32_t { ROUND_THREADS = 256, FP8_MOST = 448 };

template <int A>
static __global__ void round_rows_kernel(rounded_rows out, const uint16_t *x, uint32_t cols) {
    DYNAMIC_SHARED(area);
    float *most_of_warps = (float *)area;
    const uint32_t row = blockIdx.x;
    const uint16_t *from = x + (size_t)row * cols;
    dependents_launch();
    dependency_wait();
    uint32_t most = 0; /* as bits: NaN is the largest */
    for (uint32_t k = threadIdx.x * 8; k < cols; k += ROUND_THREADS * 8) {
        const uint4 w = *(const uint4 *)(from + k);
        const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
            most = max(most, max(words[i] & 0x7fffu, words[i] >> 16 & 0x7fffu));
    }
#pragma unroll
    for (int by = 16; by; by /= 2)
        most = max(most, __shfl_xor_sync(0xffffffffu, most, by));
    if (threadIdx.x % 32 == 0)
        ((uint32_t *)most_of_warps)[threadIdx.x / 32] = most;
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < ROUND_THREADS / 32; i++)
        most = max(most, ((const uint32_t *)most_of_warps)[i]);
    const uint16_t bits = (uint16_t)most;
    const float largest = values<A>::get(&bits);
    const bool none = largest < 0x1p-100f;
    const float scale = none ? 0 : __fdiv_rn(largest, (float)FP8_MOST),
                inverse = none ? 0 : __fdiv_rn((float)FP8_MOST, largest);
    if (threadIdx.x == 0)
        out.scales[row] = scale;
    for (uint32_t k = threadIdx.x * 16; k < cols; k += ROUND_THREADS * 16) {
        float v[16];
        values<A>::get8(from + k, v);
        values<A>::get8(from + k + 8, v + 8);
        uint32_t words[4];
#pragma unroll
        for (int q = 0; q < 4; q++)
            words[q] =
                float2_e4m3x2(__fmul_rn(v[2 * q], inverse), __fmul_rn(v[2 * q + 1], inverse)) |
                float2_e4m3x2(__fmul_rn(v[2 * q + 8], inverse), __fmul_rn(v[2 * q + 9], inverse))
                    << 16;
        const size_t line = (size_t)(k / LINE) * out.rows + row;
        *(uint4 *)(out.values + line * LINE + ((k % LINE / 16) ^ row % 8) * 16) =
            make_uint4(words[0], words[1], words[2], words[3]);
    }
}

/* ---- the product ---- */

/* One of the block's stages, 256 k. BLOCKS: on an SM at a time. */
template <int TOKENS, int GROUPS, int BLOCKS> struct fp8_stage {
    enum : unsigned {
        THREADS = 128 * GROUPS + PRODUCERS,
        FEATURE_GROUPS = GROUPS,
        TILES = 2,
        UNITS = 2 * TILES,
        UNIT = packed<STORAGE_F8_E4M3>::UNIT,
        X_TILE = TOKENS * LINE,
        UNITS_AT = TILES * X_TILE,
        BYTES = UNITS_AT + GROUPS * UNITS * UNIT,
        BARRIERS = 1024, /* of bytes: full and empty of each stage */
        ROOM = (BLOCKS == 2 ? 113 : 227) * 1024 - BARRIERS - 1024,
        STAGES = ROOM / BYTES < 8 ? ROOM / BYTES : 8,
        SHARED = BARRIERS + STAGES * BYTES + 1024
    };
    static_assert(STAGES >= 2, "a ring");
    static_assert(GROUPS * TOKENS * 256 <= STAGES * BYTES, "sums of a split");
};

/* Blocks of a cluster along the grid's y: two have the same rows; of four, ranks 0 and 2, 1 and 3 have the
 * same features. Along z they have splits of k. */
struct fp8_cluster {
    uint32_t size, at;
    static __device__ __forceinline__ fp8_cluster of_block() {
        const uint32_t size = cluster_y();
        return {size, blockIdx.y % size};
    }
    __device__ __forceinline__ uint32_t feature_block() const {
        return size == 4 ? blockIdx.y / 4 * 2 + at % 2 : blockIdx.y;
    }
    __device__ __forceinline__ uint32_t row_block() const {
        return size == 4 ? blockIdx.x * 2 + at / 2 : blockIdx.x;
    }
    /* Ranks, as bits, that read the same x; that read the same weights, of four. */
    __device__ __forceinline__ uint16_t x_ranks() const {
        return (uint16_t)(3u << (cluster_rank() & ~1u));
    }
    __device__ __forceinline__ uint16_t weight_ranks() const {
        return (uint16_t)(5u << at % 2);
    }
    /* Blocks that read what this one asks for. */
    __device__ __forceinline__ uint32_t readers() const {
        return size == 4 ? 3 : size;
    }
    __device__ __forceinline__ void synchronize() const {
        if (size > 1 || hopper_cluster::has_splits())
            cluster_barrier();
    }
};

/* Which 256 k of all are this block's. */
template <class STAGE> struct fp8_range {
    uint32_t first, stages, tiles; /* tiles: of 128 k, of the whole matrix */
    __device__ __forceinline__ fp8_range(uint32_t cols) {
        tiles = cols / LINE;
        const uint32_t all = (tiles + STAGE::TILES - 1) / STAGE::TILES;
        first = hopper_cluster::first_of(all);
        stages = hopper_cluster::end_of(all) - first;
    }
    __device__ __forceinline__ uint32_t tiles_of(uint32_t c) const {
        return min((uint32_t)STAGE::TILES, tiles - (first + c) * STAGE::TILES);
    }
};

/* The thread that asks for copies. first: of its 64 features; t0: of its rows. */
template <int TOKENS, class STAGE>
static __device__ __forceinline__ void bring(const packed_product &q, const rounded_rows &x,
                                             const hopper_ring &ring, const fp8_cluster &cluster,
                                             uint32_t first, uint32_t groups, uint32_t t0) {
    enum : uint32_t { STAGES = STAGE::STAGES, UNIT = STAGE::UNIT };
    const fp8_range<STAGE> range(q.p.cols);
    const char *weights[STAGE::FEATURE_GROUPS];
#pragma unroll
    for (uint32_t g = 0; g < STAGE::FEATURE_GROUPS; g++) {
        const packed_place place(q, first + g);
        weights[g] = (const char *)place.of.w + (size_t)place.tile * (q.p.cols / TILE) * UNIT;
    }
    const uint32_t lines = cluster.size > 1 ? TOKENS / 2 : TOKENS,
                   line = cluster.size > 1 ? cluster.at % 2 * lines : 0;
    auto at = [&](uint32_t c) { return ring.stages + c % STAGES * STAGE::BYTES; };
    auto bring_weights = [&](uint32_t c) {
        const uint32_t tiles = range.tiles_of(c), units = tiles * 2,
                       mine = cluster.size == 4 ? tiles : units,
                       from = cluster.size == 4 ? cluster.at / 2 * tiles : 0;
        uint64_t *full = ring.full + c % STAGES;
        mbarrier_arrive_expect(full, groups * units * UNIT + tiles * STAGE::X_TILE);
        for (uint32_t g = 0; g < groups; g++) {
            unsigned char *to = at(c) + STAGE::UNITS_AT + (g * STAGE::UNITS + from) * UNIT;
            const char *of = weights[STAGE::FEATURE_GROUPS > 1 ? g : 0] +
                             ((size_t)(range.first + c) * STAGE::UNITS + from) * UNIT;
            if (cluster.size == 4)
                copy_bulk_to_ranks(to, of, mine * UNIT, full, cluster.weight_ranks());
            else
                copy_bulk(to, of, mine * UNIT, full);
        }
    };
    auto bring_x = [&](uint32_t c) {
        for (uint32_t i = 0; i < range.tiles_of(c); i++) {
            const size_t tile = (size_t)(range.first + c) * STAGE::TILES + i;
            unsigned char *to = at(c) + i * STAGE::X_TILE + line * LINE;
            const uint8_t *from = x.values + (tile * x.rows + t0 + line) * LINE;
            if (cluster.size > 1)
                copy_bulk_to_ranks(to, from, lines * LINE, ring.full + c % STAGES,
                                   cluster.x_ranks());
            else
                copy_bulk_shared(to, from, lines * LINE, ring.full + c % STAGES);
        }
    };
    const uint32_t early = min((uint32_t)STAGES, range.stages);
    for (uint32_t c = 0; c < early; c++)
        bring_weights(c);
    dependency_wait();
    dependents_launch();
    for (uint32_t c = 0; c < range.stages; c++) {
        if (c >= STAGES) {
            mbarrier_wait(ring.empty + c % STAGES, (c / STAGES - 1) & 1);
            bring_weights(c);
        }
        bring_x(c);
    }
}

/* A of 64 k: two products of 32, from a thread's 16 bytes of each. */
[[maybe_unused]] static __device__ __forceinline__ void unit_registers(const unsigned char *unit,
                                                                       uint32_t (&a)[2][4]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint4 w = *(const uint4 *)(unit + i * (PACKED_FEATURES * PIECE));
        a[i][0] = every_other_byte(w.x, w.y, false);
        a[i][1] = every_other_byte(w.x, w.y, true);
        a[i][2] = every_other_byte(w.z, w.w, false);
        a[i][3] = every_other_byte(w.z, w.w, true);
    }
}

/* A warpgroup that multiplies: 64 features. BY_128: scales of 128 x 128. */
template <int A, bool BY_128, int TOKENS, class STAGE>
static __device__ __forceinline__ void
multiply(const packed_product &q, const rounded_rows &rounded, const hopper_ring &ring,
         const fp8_cluster &cluster, uint32_t group, uint32_t tile, uint32_t t0) {
    enum : uint32_t { STAGES = STAGE::STAGES, UNIT = STAGE::UNIT };
    typedef wgmma_shape<STORAGE_F8_E4M3, TOKENS> shape;
    const struct product &p = q.p;
    const packed_place place(q, tile);
    const fp8_range<STAGE> range(p.cols);
    const uint32_t first_row = /* of the segments that a thread's two rows are of */
        p.gated ? tile * (PACKED_FEATURES / 2) : place.tile * PACKED_FEATURES;
    const packed_segment lower = p.gated ? q.segments[0] : place.of,
                         upper = p.gated ? q.segments[1] : place.of;
    const float *block_scales[2] = {NULL, NULL};
    if (BY_128) {
        block_scales[0] = lower.scales + (size_t)(first_row / lower.scale_rows) * lower.stride;
        block_scales[1] = upper.scales + (size_t)(first_row / upper.scale_rows) * upper.stride;
    }
    const peer_barriers x_mate = cluster.size > 1 ? barriers_of_peer(ring.empty, cluster_rank() ^ 1)
                                                  : peer_barriers{},
                        weight_mate = cluster.size == 4
                                          ? barriers_of_peer(ring.empty, cluster_rank() ^ 2)
                                          : peer_barriers{};
    float sums[TOKENS / 2] = {}, partial[TOKENS / 2] = {};
    uint32_t a[2][2][4],
        codes = STAGE::UNITS_AT + group * STAGE::UNITS * UNIT + threadIdx.x % 128 * 16;
    register_hold(codes);

    for (uint32_t c = 0; c < range.stages; c++) {
        const unsigned char *stage = ring.stages + c % STAGES * STAGE::BYTES, *unit = stage + codes;
        const uint32_t tiles = range.tiles_of(c), tile_0 = (range.first + c) * STAGE::TILES;
        uint64_t x = wgmma_tile(stage, 0);
        mbarrier_wait(ring.full + c % STAGES, c / STAGES & 1);
        unit_registers(unit, a[0]);
#pragma unroll 1
        for (uint32_t i = 0; i < tiles; i++) {
            float scale[2] = {1, 1};
            if (BY_128)
                scale[0] = block_scales[0][tile_0 + i], scale[1] = block_scales[1][tile_0 + i];
            wgmma_fence();
            shape::registers(partial, a[0][0], x, true);
            shape::registers(partial, a[0][1], wgmma_tile_past(x, 32), false);
            wgmma_commit();
            unit_registers(unit + UNIT, a[1]);
            wgmma_fence();
            shape::registers(partial, a[1][0], wgmma_tile_past(x, 64), false);
            shape::registers(partial, a[1][1], wgmma_tile_past(x, 96), false);
            wgmma_commit();
            wgmma_wait<1>(); /* a[0] has been read */
            unit += 2 * UNIT;
            if (i + 1 < tiles)
                unit_registers(unit, a[0]);
            wgmma_wait<0>();
            wgmma_hold(partial);
#pragma unroll
            for (int j = 0; j < TOKENS / 2; j++)
                sums[j] = BY_128 ? __fmaf_rn(scale[j % 4 / 2], partial[j], sums[j])
                                 : __fadd_rn(sums[j], partial[j]);
            x = wgmma_tile_past(x, STAGE::X_TILE);
        }
        __syncwarp(); /* the stage has been read */
        if (threadIdx.x % 32 == 0) {
            mbarrier_arrive(ring.empty + c % STAGES);
            if (cluster.size > 1)
                mbarrier_arrive_peer(x_mate, c % STAGES);
            if (cluster.size == 4)
                mbarrier_arrive_peer(weight_mate, c % STAGES);
        }
    }

    float scale[2] = {1, 1};
    if (!BY_128 && lower.scales) {
        const uint32_t row = threadIdx.x % 32 / 4, warp = threadIdx.x % 128 / 32,
                       n = first_row + (p.gated ? warp * 8 : warp * 16) + row,
                       below = p.gated ? n : n + 8;
        scale[0] = lower.scales[(size_t)(n / lower.scale_rows) * lower.stride];
        scale[1] = upper.scales[(size_t)(below / upper.scale_rows) * upper.stride];
    }
    dependency_wait(); /* the rows' scales are there */
    const float *row_scales = rounded.scales + t0 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < TOKENS / 8; j++) {
        const float2 of_rows = *(const float2 *)(row_scales + j * 8);
#pragma unroll
        for (int i = 0; i < 4; i++)
            sums[j * 4 + i] =
                __fmul_rn(__fmul_rn(sums[j * 4 + i], i % 2 ? of_rows.y : of_rows.x), scale[i / 2]);
    }
    if (hopper_cluster::has_splits())
        put_splits<A, TOKENS>(p, ring.stages, sums, group, tile * PACKED_FEATURES, t0);
    else
        put_sums<A, TOKENS>(p, sums, tile * PACKED_FEATURES, t0);
}

template <int A, bool BY_128, int TOKENS, int GROUPS, int BLOCKS>
static __global__ __launch_bounds__(128 * GROUPS + PRODUCERS,
                                    BLOCKS) void linear_fp8_kernel(packed_product q,
                                                                   rounded_rows x) {
#if defined(PTX_SM90A) /* elsewhere nobody launches it */
    typedef fp8_stage<TOKENS, GROUPS, BLOCKS> stage;
    DYNAMIC_SHARED(area);
    const hopper_ring ring = ring_of<stage::STAGES, stage::BARRIERS>(area);
    const fp8_cluster cluster = fp8_cluster::of_block();
    const uint32_t first = cluster.feature_block() * GROUPS, t0 = cluster.row_block() * TOKENS,
                   groups = min((uint32_t)GROUPS, q.p.features / PACKED_FEATURES - first);
    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < stage::STAGES; s++) {
            mbarrier_init(ring.full + s, 1);
            mbarrier_init(ring.empty + s, 4 * groups * cluster.readers());
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    cluster.synchronize();
    const uint32_t group = threadIdx.x / 128;
    if (group < GROUPS) {
        if (GROUPS == 2)
            registers_grow<232>();
        if (group < groups)
            multiply<A, BY_128, TOKENS, stage>(q, x, ring, cluster, group, first + group, t0);
        else
            hopper_cluster::pass_splits();
    } else {
        if (GROUPS == 2)
            registers_shrink<40>();
        if (threadIdx.x == 128 * GROUPS)
            bring<TOKENS, stage>(q, x, ring, cluster, first, groups, t0);
        __syncwarp();
        hopper_cluster::pass_splits();
    }
    cluster.synchronize();
#endif
}

/* ---- launching ---- */

template <int A, bool BY_128, int TOKENS, int GROUPS, int BLOCKS>
static void fp8_launch(struct stream *s, const packed_product &q, const rounded_rows &x,
                       uint32_t splits) {
    typedef fp8_stage<TOKENS, GROUPS, BLOCKS> stage;
    const uint32_t tiles = q.p.features / PACKED_FEATURES, blocks = blocks_for(q.p.rows, TOKENS);
    launch_shape launch = {dim3(blocks, blocks_for(tiles, GROUPS), splits), dim3(stage::THREADS),
                           stage::SHARED, device_of(s)->dependent_launch};
    if (TOKENS >= 64 && tiles % (2 * GROUPS) == 0)
        launch.cluster_y = 2;
    if (TOKENS == 128 && launch.cluster_y == 2 && splits == 1 && blocks % 2 == 0) {
        launch.cluster_y = 4;
        launch.grid.x /= 2;
        launch.grid.y *= 2;
    }
    launch.cluster_z = splits;
    LAUNCH((linear_fp8_kernel<A, BY_128, TOKENS, GROUPS, BLOCKS>), launch, cuda_stream_of(s), q, x);
}

/* As packed_shape of linear_packed.cu. */
template <int A, bool BY_128>
static void fp8_shape(struct stream *s, const packed_product &q, const rounded_rows &x,
                      uint32_t splits) {
    const uint64_t sms = (uint64_t)device_of(s)->sm_count,
                   pairs = blocks_for(q.p.features / PACKED_FEATURES, 2) * splits;
    auto enough = [&](uint32_t rows) { return pairs * blocks_for(q.p.rows, rows) * 3 >= sms * 2; };
    if (q.p.rows <= 8)
        fp8_launch<A, BY_128, 8, 1, 2>(s, q, x, splits);
    else if (q.p.rows <= 32)
        fp8_launch<A, BY_128, 32, 1, 2>(s, q, x, splits);
    else if (q.p.rows > 64 && enough(128))
        fp8_launch<A, BY_128, 128, 2, 1>(s, q, x, splits);
    else if (enough(64))
        fp8_launch<A, BY_128, 64, 2, 1>(s, q, x, splits);
    else
        fp8_launch<A, BY_128, 64, 1, 1>(s, q, x, splits);
}

template <int A>
static void fp8_rows(struct stream *s, const packed_product &q, const rounded_rows &x, bool by_128,
                     uint32_t splits) {
    const launch_shape launch = {dim3(q.p.rows), dim3(ROUND_THREADS), ROUND_THREADS / 32 * 4,
                                 device_of(s)->dependent_launch};
    LAUNCH(round_rows_kernel<A>, launch, cuda_stream_of(s), x, (const uint16_t *)q.p.x, q.p.cols);
    if (by_128)
        fp8_shape<A, true>(s, q, x, splits);
    else
        fp8_shape<A, false>(s, q, x, splits);
}

static uint32_t rounded_lines(uint32_t rows) {
    return (rows + LINE_ROWS - 1) / LINE_ROWS * LINE_ROWS;
}

size_t cuda_linear_scratch(const struct device *dev, uint32_t rows, uint32_t cols) {
    (void)dev;
    return (size_t)rounded_lines(rows) * (cols + sizeof(float));
}

void linear_fp8(struct stream *s, const struct product &p, uint32_t class_rows,
                const struct matrix_segment *segments, uint32_t count, void *scratch) {
    CHECK(scratch && (uintptr_t)scratch % 16 == 0 && p.cols % LINE == 0 && !p.norm.squares &&
          !p.residual.squares && !p.rope.angles);
    const bool by_128 = segments[0].scale_cols && segments[0].scale_cols < p.cols;
    packed_product q = packed_product_of(p, segments, count, STORAGE_F8_E4M3);
    with_splits(p, class_rows, [&](const struct product &some, uint32_t splits) {
        const uint32_t rows = rounded_lines(some.rows);
        const rounded_rows x = {(uint8_t *)scratch,
                                (float *)((uint8_t *)scratch + (size_t)rows * p.cols), rows};
        q.p = some;
        if (!some.rows)
            return;
        if (s->dev->activation_type == STORAGE_BF16)
            fp8_rows<STORAGE_BF16>(s, q, x, by_128, splits);
        else
            fp8_rows<STORAGE_F16>(s, q, x, by_128, splits);
    });
}
