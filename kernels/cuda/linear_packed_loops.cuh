/*
 * linear_packed_loops.cuh - the two loops of products with quantized weights on sm_90a, as linear_packed.cu
 * describes them: of a matrix there, of the experts of a mixture in expert_packed_hopper.cu. One warpgroup
 * brings stages, one or two multiply them.
 */
#ifndef KERNELS_CUDA_LINEAR_PACKED_LOOPS_CUH
#define KERNELS_CUDA_LINEAR_PACKED_LOOPS_CUH

#include "kernels/cuda/linear_packed_fours.cuh"

/* Whether a product norms x on its way, adds to the residual, rotates: not the types that wait for
 * instructions. */
template <int W, int TOKENS> struct packed_folds {
    enum : bool { CAN = TOKENS == NORMED_ROWS && packed<W>::BITS == 8 };
};

/* Whether its blocks have half of the features of two tiles each, which are a head of 128. */
template <class STAGE>
static __device__ __forceinline__ bool takes_halves(const struct product &p) {
    return STAGE::FOLDS && p.rope.angles && p.rope.kv.head_dim == 2 * TILE;
}

/* One of the block's stages. BLOCKS: on an SM at a time. ALONE: the product does no more than multiply, and its
 * blocks share nothing. */
template <int W, int TOKENS, int GROUPS, int BLOCKS, bool ALONE = false> struct packed_stage {
    typedef packed<W> form;
    enum : unsigned {
        THREADS = PRODUCERS + 128 * GROUPS,
        FEATURE_GROUPS = GROUPS,
        PIECES = form::TILES * 2,
        X_TILE = TOKENS * TILE * 2,
        UNITS_AT = form::TILES * X_TILE,
        SCALES = W == STORAGE_U4 ? PIECES * PACKED_FEATURES * 4 : 0, /* and as many zeros */
        SCALES_AT = UNITS_AT + GROUPS * form::UNITS * form::UNIT,
        SUMS_AT = SCALES_AT + GROUPS * 2 * SCALES, /* of x: [PIECES, TOKENS] */
        END = SUMS_AT + (form::MINIMUM ? PIECES * TOKENS * 4 : 0),
        WHOLE = 0, /* x comes with each stage */
        FOLDS = packed_folds<W, TOKENS>::CAN && !ALONE,
        BYTES = (END + 1023) / 1024 * 1024,
        CLUSTERS = TOKENS >= 64 && !form::MINIMUM && !ALONE, /* sums of x are each block's own */
        /* of bytes: full and empty of each stage; behind them what put_rope exchanges */
        PAIRS = 1024,
        BARRIERS = PAIRS + (FOLDS ? 1024 : 0),
        ROOM = (BLOCKS == 2 ? 113 : 227) * 1024 - BARRIERS - 1024,
        STAGES = ROOM / BYTES < 12 ? ROOM / BYTES : 12,
        SHARED = BARRIERS + STAGES * BYTES + 1024
    };
    static_assert(STAGES >= 2, "a ring");
    static_assert(GROUPS * TOKENS * 256 <= STAGES * BYTES, "sums of a split");
};

/* ---- bringing ---- */

/* Of a head of 128, by one thread of each warp: the unit of stage c that is the warp's, half of the
 * features of each of the head's two tiles. */
template <int W, class STAGE>
static __device__ __forceinline__ void bring_halves(const struct packed_product &q, const char *w,
                                                    uint32_t second, unsigned char *stage,
                                                    uint64_t *full, uint32_t c) {
    typedef packed<W> form;
    enum : uint32_t { HALVES = 2, CODES = form::CODES / HALVES, SCALES = form::SCALES / HALVES };
    const uint32_t units = q.p.cols / form::UNIT_K, unit = threadIdx.x / 32,
                   at = c * form::UNITS + unit;
    static_assert((uint32_t)form::UNITS == PRODUCERS / 32 && (uint32_t)form::UNIT_K == TILE,
                  "a unit a warp");
    if (at >= units) {
        mbarrier_arrive(full);
        return;
    }
    unsigned char *to = stage + STAGE::UNITS_AT + unit * form::UNIT;
    mbarrier_arrive_expect(full, form::UNIT);
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) { /* of the tiles, the second lies behind the first */
        const char *from = w + ((size_t)i * units + at) * form::UNIT;
#pragma unroll
        for (uint32_t which = 0; which < HALVES; which++) {
            copy_bulk(to + which * CODES + i * (CODES / 2),
                      from + which * CODES + second * (CODES / 2), CODES / 2, full);
            if (SCALES > 0)
                copy_bulk(to + form::CODES + which * SCALES + i * (SCALES / 2),
                          from + form::CODES + which * SCALES + second * (SCALES / 2), SCALES / 2,
                          full);
        }
    }
}

/* The warpgroup that copies: thread 0 the weights, all of them x. NORMED: x is the residual. */
template <int A, int W, int TOKENS, class STAGE, bool NORMED>
static __device__ __forceinline__ void bring(const struct packed_product &q,
                                             const hopper_ring &ring, const hopper_cluster &cluster,
                                             uint32_t first, uint32_t groups, uint32_t t0) {
    enum : uint32_t {
        STAGES = STAGE::STAGES,
        LAG = STAGES / 2,
        TILES = packed<W>::TILES,
        LINES = PRODUCERS / 8,
        COPIES = (TOKENS + LINES - 1) / LINES,
        GIVEN = COPIES > 1 ? COPIES / 2 : 1,
        OWN = TOKENS / 4 /* copies of a thread whose warp brings a tile of each stage */
    };
    const struct product &p = q.p;
    const uint32_t tiles = p.cols / TILE, all = (tiles + TILES - 1) / TILES,
                   before = cluster.first_of(all), stages = cluster.end_of(all) - before,
                   share = cluster.size > 1 ? TOKENS / 2 : TOKENS,
                   copies = cluster.size > 1 ? COPIES / 2 : COPIES,
                   row = cluster.rank * share + threadIdx.x / 8, chunk = threadIdx.x % 8;
    const uint16_t *x =
        (const uint16_t *)p.x + (size_t)(t0 + row) * p.cols + before * TILES * TILE + chunk * 8;
    const uint32_t rows_left = p.rows > t0 + row ? p.rows - t0 - row : 0;
    const size_t lines = (size_t)LINES * p.cols;
    const uint32_t place = swizzled_chunk(row, chunk);
    const packed_bases<W, STAGE::FEATURE_GROUPS> bases(q, first);
    /* where blocks share no x a warp brings a tile of its own */
    const uint32_t warp = threadIdx.x / 32, line = threadIdx.x % 32 / 8;
    const uint16_t *own = (const uint16_t *)p.x + (size_t)(t0 + line) * p.cols +
                          (before * TILES + warp) * TILE + chunk * 8;
    const uint32_t own_rows = p.rows > t0 + line ? p.rows - t0 - line : 0;
    auto at = [&](uint32_t c) { return ring.stages + c % STAGES * STAGE::BYTES; };
    auto tiles_of = [&](uint32_t c) { return min((uint32_t)TILES, tiles - (before + c) * TILES); };
    const bool halves = takes_halves<STAGE>(p),
               brings = threadIdx.x == 0 || (halves && threadIdx.x % 32 == 0);
    const char *pair = bases.w[0];
    if constexpr (STAGE::FOLDS != 0)
        if (halves && first % 2)
            pair -= (size_t)(p.cols / packed<W>::UNIT_K) * packed<W>::UNIT;
    auto weights = [&](uint32_t c) {
        if constexpr (STAGE::FOLDS != 0)
            if (halves) {
                bring_halves<W, STAGE>(q, pair, first % 2, at(c), ring.full + c % STAGES,
                                       before + c);
                return;
            }
        bring_weights<W, STAGE>(q, bases, at(c), ring.full + c % STAGES, before + c, groups,
                                tiles_of(c) * (TOKENS - share) * TILE * 2);
    };

    /* 1. weights may be asked for before the kernel ahead has ended, its results only after */
    if (brings)
        for (uint32_t c = 0; c < STAGES && c < stages; c++)
            weights(c);
    dependency_wait();
    dependents_launch();

    /* 2. x of stage c; that of LAG stages ago has come */
    if constexpr (NORMED) {
        bring_normed_stages<A, TILES>(
            p, before * TILES, min(stages * TILES, tiles - before * TILES), t0,
            [&](uint32_t c) {
                if (c >= STAGES) {
                    mbarrier_wait(ring.empty + c % STAGES, (c / STAGES - 1) & 1);
                    if (brings)
                        weights(c);
                }
                return (uint16_t *)at(c);
            },
            [&](uint32_t c) {
                fence_async();
                mbarrier_arrive(ring.full + c % STAGES);
            });
    } else if constexpr (!STAGE::CLUSTERS) {
        static_assert((uint32_t)TILES == PRODUCERS / 32, "a tile a warp");
        for (uint32_t c = 0; c < stages + LAG; c++) {
            if (c < stages) {
                if (c >= STAGES) {
                    mbarrier_wait(ring.empty + c % STAGES, (c / STAGES - 1) & 1);
                    if (halves ? brings : threadIdx.x == c % TILES * 32) /* each warp in turn */
                        weights(c);
                }
                uint16_t *to = (uint16_t *)at(c) + warp * TOKENS * TILE;
                if (warp < tiles_of(c))
#pragma unroll
                    for (uint32_t j = 0; j < OWN; j++)
                        cp_async_16(to + swizzled_chunk(line + j * 4, chunk),
                                    own + (size_t)(j * 4) * p.cols, j * 4 < own_rows);
                own += TILES * TILE;
            }
            cp_async_commit();
            if (c >= LAG) {
                unsigned char *done = at(c - LAG);
                cp_async_wait<LAG>();
                if (packed<W>::MINIMUM && warp < tiles_of(c - LAG)) {
                    __syncwarp(); /* of the tile's chunks each has been copied by its own lane */
                    sum_tile<A, TOKENS>((uint16_t *)done + warp * TOKENS * TILE,
                                        (float4 *)(done + STAGE::SUMS_AT) + warp * TOKENS / 2);
                }
                fence_async();
                mbarrier_arrive(ring.full + (c - LAG) % STAGES);
            }
        }
        cp_async_wait<0>();
    } else {
        for (uint32_t c = 0; c < stages + LAG; c++) {
            if (c < stages) {
                if (c >= STAGES) {
                    mbarrier_wait(ring.empty + c % STAGES, (c / STAGES - 1) & 1);
                    if (brings)
                        weights(c);
                }
                uint16_t *to = (uint16_t *)at(c) + place;
#pragma unroll
                for (uint32_t i = 0; i < TILES; i++)
                    if (i < tiles_of(c))
#pragma unroll
                        for (uint32_t j = 0; j < COPIES; j++)
                            if (COPIES == 1 || j < copies)
                                cp_async_16(to + i * TOKENS * TILE + j * LINES * TILE,
                                            x + i * TILE + j * lines, j * LINES < rows_left);
                x += TILES * TILE;
            }
            cp_async_commit();
            if (c >= LAG) {
                cp_async_wait<LAG>();
                fence_async();
                if (cluster.size > 1) { /* tile, pass of this warp: by a lane */
                    const uint32_t lane = threadIdx.x % 32;
                    __syncwarp();
                    if (lane < tiles_of(c - LAG) * GIVEN)
                        cluster.give_rows(at(c - LAG) + lane / GIVEN * STAGE::X_TILE +
                                              (row - lane / 8 + lane % GIVEN * LINES) * (TILE * 2),
                                          ring.full + (c - LAG) % STAGES);
                }
                mbarrier_arrive(ring.full + (c - LAG) % STAGES);
            }
        }
        cp_async_wait<0>();
    }
}

/* ---- multiplying ---- */

/* The loop over stages of a warpgroup that multiplies: `before`, `stages` of the split, in 256 k; all: tiles of
 * all k. BY_128: fp8 with scales of 128 x 128, which a thread's two features find at block_scales. BY_PIECE: as
 * scales_by_piece. */
template <int A, int W, bool BY_128, bool BY_PIECE, int TOKENS, class STAGE>
static __device__ __forceinline__ void
multiply_tiles(const struct packed_product &q, const hopper_ring &ring,
               const hopper_cluster &cluster, uint32_t group, uint32_t before, uint32_t stages,
               uint32_t all, const float *const (&block_scales)[2], float (&sums)[TOKENS / 2]) {
    typedef packed<W> form;
    enum : uint32_t {
        STAGES = STAGE::STAGES,
        TILES = form::TILES,
        STEPS = form::STEPS,
        TOGETHER = BY_PIECE ? 1 : 2 /* tiles that share scales: k is a multiple of theirs */
    };
    float partial[TOKENS / 2] = {}, block_scale[2] = {1, 1}, next_scale[2] = {1, 1};
    if (BY_128)
        block_scale[0] = block_scales[0][before * TILES / 2],
        block_scale[1] = block_scales[1][before * TILES / 2];
    uint32_t a[2][2][4], sums_at = STAGE::SUMS_AT + threadIdx.x % 4 * 16;
    unit_reader<A, W> reader;
    const peer_barriers peer = cluster.peer_of(ring.empty);
    register_hold(sums_at);
    begin_zeros(q, reader);
    for (uint32_t c = 0; c < stages; c++) {
        const unsigned char *stage = ring.stages + c % STAGES * STAGE::BYTES;
        const uint32_t tile_0 = (before + c) * TILES, tiles = min((uint32_t)TILES, all - tile_0);
        const float2 *x_sums = (const float2 *)(stage + sums_at);
        uint64_t x = wgmma_tile(stage, 0);

        mbarrier_wait(ring.full + c % STAGES, c / STAGES & 1);
        reader.begin(stage + STAGE::UNITS_AT + group * form::UNITS * form::UNIT);
        reader.fetch();
        ask_zeros<A, W, STAGE>(q, stage, group, reader, 0, 0);
        reader.unpack(0, a[0]);
        for (uint32_t first = 0; first < tiles; first += TOGETHER)
#pragma unroll
            for (uint32_t of = 0; of < TOGETHER; of++) {
                const uint32_t i = first + of;
                const bool last_of_128 = i % 2 || i + 1 == tiles;
                if (BY_128 && i % 2 == 0 && tile_0 + i + 2 < all)
                    for (uint32_t j = 0; j < 2; j++)
                        next_scale[j] = block_scales[j][(tile_0 + i) / 2 + 1];
#pragma unroll
                for (uint32_t half = 0; half < 2; half++) {
                    auto next = [&] {
                        if (half == 0) {
                            if (BY_PIECE)
                                ask_zeros<A, W, STAGE>(q, stage, group, reader, i, 1);
                            reader.unpack(1, a[1]);
                        } else if (of + 1 < TOGETHER || i + 1 < tiles) {
                            reader.move();
                            reader.fetch();
                            if (of + 1 == TOGETHER)
                                ask_zeros<A, W, STAGE>(q, stage, group, reader, i + 1, 0);
                            reader.unpack(0, a[0]);
                        }
                    };
                    auto ask = [&](float(&to)[TOKENS / 2], uint32_t step, bool fresh) {
                        wgmma_shape<A, TOKENS>::registers(
                            to, a[half][step], wgmma_tile_past(x, (half * PIECE + step * 16) * 2),
                            fresh);
                    };
                    if (STEPS == 0) { /* scales wait for the end of 128 k, or of all */
                        wgmma_fence();
                        ask(BY_128 ? partial : sums, 0, BY_128 && i % 2 == 0 && half == 0);
                        ask(BY_128 ? partial : sums, 1, false);
                        wgmma_commit();
                        next();
                        wgmma_wait<0>();
                        wgmma_hold(BY_128 ? partial : sums);
                        if (BY_128 && half == 1 && last_of_128) {
                            const two_scales s = {{block_scale[0], block_scale[1]}, {0, 0}};
                            add_partial<TOKENS, false>(sums, partial, s, NULL);
                        }
                    } else if (STEPS == 2) {
                        const bool opens = BY_PIECE || (half == 0 && of == 0),
                                   closes = BY_PIECE || (half == 1 && of == 1);
                        wgmma_fence();
                        ask(partial, 0, opens);
                        ask(partial, 1, false);
                        wgmma_commit();
                        two_scales s = {};
                        if (closes)
                            s = scales_of<A, W, STAGE>(q, stage, group, reader, i, half, 0);
                        next();
                        wgmma_wait<0>();
                        wgmma_hold(partial);
                        if (closes)
                            add_partial<TOKENS, form::MINIMUM>(sums, partial, s, x_sums + half);
                    } else {
#pragma unroll
                        for (uint32_t step = 0; step < 2; step++) {
                            wgmma_fence();
                            ask(partial, step, true);
                            wgmma_commit();
                            const two_scales s =
                                scales_of<A, W, STAGE>(q, stage, group, reader, i, half, step);
                            if (step == 1)
                                next();
                            wgmma_wait<0>();
                            wgmma_hold(partial);
                            add_partial<TOKENS, false>(sums, partial, s, NULL);
                        }
                    }
                }
                x = wgmma_tile_past(x, STAGE::X_TILE);
                x_sums += TOKENS;
                if (BY_128 && last_of_128)
                    block_scale[0] = next_scale[0], block_scale[1] = next_scale[1];
            }
        __syncwarp(); /* the stage has been read */
        if (threadIdx.x % 32 == 0)
            cluster.arrive_empty(ring.empty, peer, c % STAGES);
    }
}

/* Which features and rows a block of a grid over [rows, features] has, and of which product, asked for when sums
 * are there, so that they take no registers before. */
struct block_of_grid {
    static __device__ __forceinline__ const product &product_of(const product &p) {
        return p;
    }
    template <class STAGE>
    static __device__ __forceinline__ uint32_t first_feature(uint32_t group) {
        return (block_y_again() * STAGE::FEATURE_GROUPS + group) * PACKED_FEATURES;
    }
    template <int TOKENS> static __device__ __forceinline__ uint32_t first_row() {
        return block_x_again() * TOKENS;
    }
};

/* A warpgroup that multiplies: 64 features. BY_128: fp8 with scales of 128 x 128. block: as block_of_grid. */
template <int A, int W, bool BY_128, int TOKENS, class STAGE, class BLOCK>
static __device__ __forceinline__ void
multiply(const struct packed_product &q, const hopper_ring &ring, const hopper_cluster &cluster,
         uint32_t group, uint32_t tile, const BLOCK &block) {
    typedef packed<W> form;
    enum : uint32_t { TILES = form::TILES, STEPS = form::STEPS };
    const struct product &p = q.p;
    const packed_place place(q, tile);
    const packed_segment segment = place.of;
    const uint32_t all = p.cols / TILE, stages_of_all = (all + TILES - 1) / TILES,
                   before = cluster.first_of(stages_of_all),
                   stages = cluster.end_of(stages_of_all) - before,
                   /* of the segments that a thread's two rows are of */
        first_row = p.gated ? tile * (PACKED_FEATURES / 2) : place.tile * PACKED_FEATURES;
    const packed_segment lower = p.gated ? q.segments[0] : segment,
                         upper = p.gated ? q.segments[1] : segment;
    const float *block_scales[2] = {NULL, NULL};
    if (BY_128) {
        block_scales[0] = lower.scales + (size_t)(first_row / lower.scale_rows) * lower.stride;
        block_scales[1] = upper.scales + (size_t)(first_row / upper.scale_rows) * upper.stride;
    }
    float sums[TOKENS / 2] = {};
    const bool ropes = STAGE::FOLDS && p.rope.angles;
    rope_ahead ahead = {};
    if constexpr (STAGE::FOLDS != 0)
        if (ropes) {
            dependency_wait();
            ahead = rope_ahead_of<A>(p, tile, blockIdx.x * TOKENS);
        }

    if constexpr (form::BITS == 4 && TOKENS <= 32) {
        if (scales_by_piece<W>(q))
            multiply_fours<A, W, true, TOKENS, STAGE>(q, ring, cluster, group, before, stages, all,
                                                      sums);
        else
            multiply_fours<A, W, W != STORAGE_U4, TOKENS, STAGE>(q, ring, cluster, group, before,
                                                                 stages, all, sums);
    } else if (scales_by_piece<W>(q)) {
        multiply_tiles<A, W, BY_128, true, TOKENS, STAGE>(q, ring, cluster, group, before, stages,
                                                          all, block_scales, sums);
    } else {
        multiply_tiles<A, W, BY_128, W != STORAGE_U4, TOKENS, STAGE>(
            q, ring, cluster, group, before, stages, all, block_scales, sums);
    }
    if (STEPS == 0 && !BY_128 && segment.scales) {
        const uint32_t row = threadIdx.x % 32 / 4, warp = threadIdx.x % 128 / 32;
        uint32_t n = first_row + (p.gated ? warp * 8 : warp * 16) + row,
                 below = p.gated ? n : n + 8;
        if (takes_halves<STAGE>(p)) {
            const rope_place at = rope_place::of_tile(p, tile);
            const uint32_t head = place.tile / 2 * 2 * PACKED_FEATURES;
            n = head + at.dim(p, 0);
            below = head + at.dim(p, 1);
        }
        const float scale[2] = {lower.scales[(size_t)(n / lower.scale_rows) * lower.stride],
                                upper.scales[(size_t)(below / upper.scale_rows) * upper.stride]};
#pragma unroll
        for (int i = 0; i < TOKENS / 2; i++)
            sums[i] = __fmul_rn(sums[i], scale[i % 4 / 2]);
    }
    const uint32_t n0 = block.template first_feature<STAGE>(group),
                   t0 = block.template first_row<TOKENS>();
    if constexpr (STAGE::FOLDS != 0)
        if (ropes) {
            auto put_four = [&](const float *four, uint32_t) {
                put_rope<A>(p, (uint32_t *)((unsigned char *)ring.full + STAGE::PAIRS), four, ahead,
                            n0 / TILE);
            };
            if (cluster.has_splits())
                add_splits<TOKENS>(
                    ring.stages, sums, group, [] {}, put_four);
            else
                put_four(sums, 0);
            return;
        }
    if (cluster.has_splits())
        put_splits<A, TOKENS, STAGE::FOLDS != 0>(p, ring.stages, sums, group, n0, t0);
    else
        put_sums<A, TOKENS, STAGE::FOLDS != 0>(block.product_of(p), sums, n0, t0);
}

#endif
