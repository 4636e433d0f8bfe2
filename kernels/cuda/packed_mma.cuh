/*
 * packed_mma.cuh - products of rows with weights in units (packed.cuh) by mma.sync, as linear_packed_mma.cu
 * describes them: of one matrix there, of the experts of a mixture in expert_packed.cu.
 */
#ifndef KERNELS_CUDA_PACKED_MMA_CUH
#define KERNELS_CUDA_PACKED_MMA_CUH

#include "kernels/cuda/linear_packed.cuh"

enum : uint32_t { TEAMS = 4, TEAM_THREADS = 128, MMA_THREADS = TEAMS * TEAM_THREADS };

/* BLOCKS: on an SM at a time, of the smallest ones. BEHIND: bytes that the kernel has behind the ring. */
template <int W, int TOKENS, int BLOCKS, unsigned BEHIND = 0> struct mma_stage {
    typedef packed<W> form;
    enum : unsigned {
        TILES = form::TILES,
        X_TILE = TOKENS * TILE * 2,
        UNITS_AT = TILES * X_TILE,
        UNIT_BYTES = form::UNITS * form::UNIT,
        SCALES_AT = UNITS_AT + UNIT_BYTES,
        SCALES = W == STORAGE_U4 ? 2 * TILES * PACKED_FEATURES * 4 : 0, /* and as many zeros */
        BYTES = SCALES_AT + 2 * SCALES,
        ROOM = (BLOCKS == 2 ? 49 : 99) * 1024 - BEHIND,
        STAGES = ROOM / BYTES < 4 ? ROOM / BYTES : 4,
        SHARED = STAGES * BYTES
    };
    static_assert((unsigned)TILES == (unsigned)TEAMS, "a tile a team");
    static_assert(STAGES >= 2, "a ring");
    static_assert((unsigned)TEAMS * TOKENS * PACKED_FEATURES * 4 <= (unsigned)SHARED,
                  "the sums lie where the ring was");
};

/* `bytes`, a multiple of 16 and at most MOST, by all threads. */
template <uint32_t MOST>
static __device__ __forceinline__ void copy_all(unsigned char *to, const char *from,
                                                uint32_t bytes) {
#pragma unroll
    for (uint32_t i = 0; i < MOST; i += MMA_THREADS * 16)
        if (i + threadIdx.x * 16 < bytes)
            cp_async_16(to + i + threadIdx.x * 16, from + i + threadIdx.x * 16, true);
}

/* Where a block's weights and x lie. */
template <int W, int TOKENS, class STAGE> struct mma_source {
    typedef packed<W> form;
    const packed_product &q;
    const char *w;
    const float *scales, *zeros;
    const uint32_t &t0, tiles;

    __device__ __forceinline__ mma_source(const packed_product &all, const packed_place &place,
                                          const uint32_t &first)
        : q(all), t0(first), tiles(all.p.cols / TILE) {
        const size_t spans = q.group ? q.p.cols >> q.group_bits : 0;
        w = (const char *)place.of.w + (size_t)place.tile * (q.p.cols / form::UNIT_K) * form::UNIT;
        scales = place.of.scales + place.tile * spans * PACKED_FEATURES;
        zeros = place.of.zeros ? place.of.zeros + place.tile * spans * PACKED_FEATURES : NULL;
    }
    __device__ __forceinline__ void load_weights(unsigned char *stage, uint32_t c) const {
        const uint32_t done = c * form::UNITS, units = q.p.cols / form::UNIT_K;
        copy_all<STAGE::UNIT_BYTES>(stage + STAGE::UNITS_AT, w + (size_t)done * form::UNIT,
                                    min((uint32_t)form::UNITS, units - done) * form::UNIT);
        if constexpr (W == STORAGE_U4) {
            const uint32_t each = STAGE::TILES * TILE >> q.group_bits,
                           spans = q.p.cols >> q.group_bits,
                           bytes = min(each, spans - c * each) * PACKED_FEATURES * 4;
            const size_t from = (size_t)c * each * PACKED_FEATURES;
            copy_all<STAGE::SCALES>(stage + STAGE::SCALES_AT, (const char *)(scales + from), bytes);
            if (zeros)
                copy_all<STAGE::SCALES>(stage + STAGE::SCALES_AT + STAGE::SCALES,
                                        (const char *)(zeros + from), bytes);
        }
    }
    /* Rows that are not there become zeros. */
    __device__ __forceinline__ void load_x(unsigned char *stage, uint32_t c) const {
        enum : uint32_t { CHUNKS = STAGE::TILES * TOKENS * 8 };
#pragma unroll
        for (uint32_t i = 0; i < CHUNKS; i += MMA_THREADS) {
            const uint32_t at = i + threadIdx.x, chunk = at % 8, row = at / 8 % TOKENS,
                           tile = at / (TOKENS * 8), k = (c * STAGE::TILES + tile) * TILE;
            if (at < CHUNKS && c * STAGE::TILES + tile < tiles)
                cp_async_16((uint16_t *)(stage + tile * STAGE::X_TILE) + swizzled_chunk(row, chunk),
                            (const uint16_t *)q.p.x + (size_t)(t0 + row) * q.p.cols + k + chunk * 8,
                            t0 + row < q.p.rows);
        }
    }
};

/* The scales of fp8 weights by 128 x 128 that a thread's two features have; at: of 64 features; block: of 128 k. */
[[maybe_unused]] static __device__ __forceinline__ two_scales
scales_of_128(const packed_product &q, const packed_place &place, uint32_t at, uint32_t block) {
    const struct product &p = q.p;
    const packed_segment &lower = p.gated ? q.segments[0] : place.of,
                         &upper = p.gated ? q.segments[1] : place.of;
    const uint32_t row = p.gated ? at * (PACKED_FEATURES / 2) : place.tile * PACKED_FEATURES;
    return {{lower.scales[(size_t)(row / lower.scale_rows) * lower.stride + block],
             upper.scales[(size_t)(row / upper.scale_rows) * upper.stride + block]},
            {0, 0}};
}

/* sums += scale * partial - minimum * (the sum of x), of eight rows. */
template <bool MINIMUM>
static __device__ __forceinline__ void add_scaled(float *sums, const float partial[4],
                                                  const two_scales &s, const float x_sums[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        sums[i] = __fmaf_rn(s.scale[i / 2], partial[i], sums[i]);
        if (MINIMUM)
            sums[i] = __fmaf_rn(-s.minimum[i / 2], x_sums[i], sums[i]);
    }
}

/* The team's tile of a stage. by_128: the scales of its 128 k. */
template <int A, int W, bool BY_128, int TOKENS, class STAGE>
static __device__ __forceinline__ void
multiply_tile(const packed_product &q, const unsigned char *stage, unit_reader<A, W> &reader,
              uint32_t team, const two_scales &by_128, float (&sums)[TOKENS / 2]) {
    typedef packed<W> form;
    enum : uint32_t { ONES = A == STORAGE_BF16 ? 0x3f803f80u : 0x3c003c00u };
    const uint32_t lane = threadIdx.x % 32, ones[4] = {ONES, ONES, ONES, ONES};
    const uint16_t *x = (const uint16_t *)(stage + team * STAGE::X_TILE);
    reader.begin_at(stage + STAGE::UNITS_AT, team);
    reader.fetch();
#pragma unroll(TOKENS > 32 ? 1 : 2)
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t a[2][4];
        two_scales scales[2] = {by_128, by_128};
        ask_zeros<A, W, STAGE>(q, stage, 0, reader, team, half);
        reader.unpack(half, a);
        if (form::STEPS != 0)
#pragma unroll
            for (uint32_t step = 0; step < (form::STEPS == 1 ? 2 : 1); step++)
                scales[step] = scales_of<A, W, STAGE>(q, stage, 0, reader, team, half, step);
#pragma unroll
        for (uint32_t j = 0; j < TOKENS / 8; j++) {
            float *to = sums + j * 4, partial[4] = {}, x_sums[4] = {};
            uint32_t b[4];
            ldmatrix_x4(b, x + swizzled_chunk(j * 8 + lane % 8, half * 4 + lane / 8));
            if (form::STEPS == 0 && !BY_128) { /* one scale for all k of a row */
                mma<A>(to, a[0], b);
                mma<A>(to, a[1], b + 2);
                continue;
            }
            if (form::MINIMUM) {
                mma<A>(x_sums, ones, b);
                mma<A>(x_sums, ones, b + 2);
            }
            mma<A>(partial, a[0], b);
            if (form::STEPS == 1) {
                add_scaled<false>(to, partial, scales[0], x_sums);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    partial[i] = 0;
            }
            mma<A>(partial, a[1], b + 2);
            add_scaled<form::MINIMUM != 0>(to, partial, scales[form::STEPS == 1], x_sums);
        }
    }
}

/* Scales of whole rows. at: of 64 features. */
[[maybe_unused]] static __device__ __forceinline__ two_scales row_scales(const packed_product &q,
                                                                         const packed_place &place,
                                                                         uint32_t at) {
    const struct product &p = q.p;
    const uint32_t warp = threadIdx.x % TEAM_THREADS / 32, lane = threadIdx.x % 32;
    const packed_segment &lower = p.gated ? q.segments[0] : place.of,
                         &upper = p.gated ? q.segments[1] : place.of;
    const uint32_t n = p.gated ? at * (PACKED_FEATURES / 2) + warp * 8 + lane / 4
                               : place.tile * PACKED_FEATURES + warp * 16 + lane / 4,
                   below = p.gated ? n : n + 8;
    two_scales s = {{1, 1}, {0, 0}};
    if (place.of.scales) {
        s.scale[0] = lower.scales[(size_t)(n / lower.scale_rows) * lower.stride];
        s.scale[1] = upper.scales[(size_t)(below / upper.scale_rows) * upper.stride];
    }
    return s;
}

/* A block: features `at` of the product in 64, which lie at `place`, of TOKENS rows from t0 on. What it is asked to do may lie in shared
 * memory, behind the ring. */
template <int A, int W, bool BY_128, int TOKENS, int BLOCKS, unsigned BEHIND = 0>
static __device__ __forceinline__ void multiply_units(const packed_product &q,
                                                      const packed_place &place, const uint32_t &at,
                                                      const uint32_t &t0) {
    typedef mma_stage<W, TOKENS, BLOCKS, BEHIND> stage_type;
    enum : uint32_t { STAGES = stage_type::STAGES };
    DYNAMIC_SHARED(ring);
    const uint32_t team = threadIdx.x / TEAM_THREADS, tiles = q.p.cols / TILE,
                   stages = (tiles + TEAMS - 1) / TEAMS;
    const mma_source<W, TOKENS, stage_type> source(q, place, t0);
    auto stage_of = [&](uint32_t c) { return ring + c % STAGES * stage_type::BYTES; };
    float sums[TOKENS / 2] = {};
    unit_reader<A, W> reader;
    begin_zeros(q, reader);

    /* 1. weights may be asked for before the kernel ahead has ended, its results only after */
    for (uint32_t c = 0; c < STAGES - 1; c++)
        if (c < stages)
            source.load_weights(stage_of(c), c);
    dependency_wait();
    dependents_launch();
    for (uint32_t c = 0; c < STAGES - 1; c++) {
        if (c < stages)
            source.load_x(stage_of(c), c);
        cp_async_commit();
    }

    /* 2. each team its tile of every stage */
    for (uint32_t c = 0; c < stages; c++) {
        const uint32_t tile = c * TEAMS + team, next = c + STAGES - 1;
        two_scales by_128 = {{1, 1}, {0, 0}};
        if constexpr (BY_128)
            if (tile < tiles)
                by_128 = scales_of_128(q, place, at, tile / 2);
        cp_async_wait<STAGES - 2>();
        __syncthreads(); /* stage c is here for all; everyone is done with stage c - 1 */
        if (next < stages) {
            source.load_weights(stage_of(next), next);
            source.load_x(stage_of(next), next);
        }
        cp_async_commit();
        if (tile < tiles)
            multiply_tile<A, W, BY_128, TOKENS, stage_type>(q, stage_of(c), reader, team, by_128,
                                                            sums);
    }
    cp_async_wait<0>();
    __syncthreads();

    /* 3. the teams' sums in order, eight rows a team at a time */
    const uint32_t thread = threadIdx.x % TEAM_THREADS;
    float4 *area = (float4 *)ring;
#pragma unroll
    for (uint32_t j = 0; j < TOKENS / 8; j++)
        area[(team * (TOKENS / 8) + j) * TEAM_THREADS + thread] =
            make_float4(sums[j * 4], sums[j * 4 + 1], sums[j * 4 + 2], sums[j * 4 + 3]);
    __syncthreads();
    const two_scales rows =
        packed<W>::STEPS == 0 && !BY_128 ? row_scales(q, place, at) : two_scales{{1, 1}, {0, 0}};
#pragma unroll 1
    for (uint32_t j = team; j < TOKENS / 8; j += TEAMS) {
        float4 sum = area[j * TEAM_THREADS + thread];
        for (uint32_t of = 1; of < TEAMS; of++) {
            const float4 more = area[(of * (TOKENS / 8) + j) * TEAM_THREADS + thread];
            sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
        }
        const float four[4] = {__fmul_rn(sum.x, rows.scale[0]), __fmul_rn(sum.y, rows.scale[0]),
                               __fmul_rn(sum.z, rows.scale[1]), __fmul_rn(sum.w, rows.scale[1])};
        put_sums<A, 8, false, false>(q.p, four, at * PACKED_FEATURES, t0 + j * 8);
    }
}

#endif
