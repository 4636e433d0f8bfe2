/*
 * linear_packed_fours.cuh - of the product of linear_packed.cu: sums of x for minima, and the loop that
 * multiplies codes of four bits times few rows, where instructions are what there is least of.
 *
 * Both have the order of sums that linear_packed.cu has for any number of rows.
 */
#ifndef KERNELS_CUDA_LINEAR_PACKED_FOURS_CUH
#define KERNELS_CUDA_LINEAR_PACKED_FOURS_CUH

#include "kernels/cuda/linear_packed.cuh"

/* ---- sums of x ---- */

/* Whether scales meet the sums of each piece. Those of int4 with groups of 128 meet the sums of 128 k, with groups
 * of 64 of both their pieces. */
template <int W> static __device__ __forceinline__ bool scales_by_piece(const packed_product &q) {
    return W != STORAGE_U4 || q.group_bits != 7;
}

/* Sums of x of a tile that this warp copied, by products with ones, of its two pieces.
 * to: [TOKENS / 2] of the sums of two rows of the first piece, then of the second. */
template <int A, int TOKENS>
static __device__ __forceinline__ void sum_tile(const uint16_t *x, float4 *to) {
    enum : uint32_t { ONES = A == STORAGE_BF16 ? 0x3f803f80u : 0x3c003c00u };
    const uint32_t lane = threadIdx.x % 32, ones[4] = {ONES, ONES, ONES, ONES};
#pragma unroll(TOKENS > 32 ? 1 : TOKENS / 8)
    for (uint32_t j = 0; j < TOKENS / 8; j++) {
        float first[4] = {}, second[4] = {};
        uint32_t b[2][4];
        ldmatrix_x4(b[0], x + swizzled_chunk(j * 8 + lane % 8, lane / 8));
        ldmatrix_x4(b[1], x + swizzled_chunk(j * 8 + lane % 8, 4 + lane / 8));
        mma<A>(first, ones, b[0]);
        mma<A>(first, ones, b[0] + 2);
        mma<A>(second, ones, b[1]);
        mma<A>(second, ones, b[1] + 2);
        if (lane < 4)
            to[j * 4 + lane] = make_float4(first[0], first[1], second[0], second[1]);
    }
}

/* ---- multiplying ---- */

/* sums += scale * partial - minimum * (sum of x). x_sums: of this thread's columns, those of eight rows
 * eight float2 apart. */
template <int TOKENS, bool MINIMUM>
static __device__ __forceinline__ void add_partial(float (&sums)[TOKENS / 2],
                                                   const float (&partial)[TOKENS / 2],
                                                   const two_scales &s, const float2 *x_sums) {
#pragma unroll
    for (int j = 0; j < TOKENS / 8; j++) {
        const float2 x = MINIMUM ? x_sums[j * 8] : make_float2(0, 0);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float &sum = sums[j * 4 + i];
            sum = __fmaf_rn(s.scale[i / 2], partial[j * 4 + i], sum);
            if (MINIMUM)
                sum = __fmaf_rn(-s.minimum[i / 2], i % 2 ? x.y : x.x, sum);
        }
    }
}

/* wgmma_tile from k = 0 on, of a tile that all lanes name alike, by lane 0: what is made of it the compiler
 * keeps in uniform registers, where products want it. */
static __device__ __forceinline__ uint64_t tile_of_warp(const void *tile) {
    const uint64_t own = wgmma_tile(tile, 0);
#ifdef TRIREME_EMULATED
    return own;
#else
    return own >> 32 << 32 | __shfl_sync(0xffffffffu, (uint32_t)own, 0);
#endif
}
/* wgmma_tile_past by an addition of 32 bits: the address has the lower half of a tile to itself. */
static __device__ __forceinline__ uint64_t tile_past_low(uint64_t tile, uint32_t bytes) {
#ifdef TRIREME_EMULATED
    return wgmma_tile_past(tile, bytes);
#else
    return (tile >> 32 << 32) | ((uint32_t)tile + (bytes >> 4));
#endif
}

/* The loop over stages of a warpgroup that multiplies codes of four bits times up to 32 rows: while a
 * tile is multiplied the next is unpacked, also that of the next stage. BY_PIECE: as scales_by_piece.
 * x lies in the stage, or, STAGE::WHOLE bytes long, that of all stages and then its sums ahead of the ring. */
template <int A, int W, bool BY_PIECE, int TOKENS, class STAGE>
static __device__ __forceinline__ void
multiply_fours(const packed_product &q, const hopper_ring &ring, const hopper_cluster &cluster,
               uint32_t group, uint32_t before, uint32_t stages, uint32_t tiles,
               float (&sums)[TOKENS / 2]) {
    typedef packed<W> form;
    enum : uint32_t { STAGES = STAGE::STAGES, TILES = form::TILES };
    enum : bool { LOW = TOKENS == 8 && (BY_PIECE || STAGE::WHOLE > 0) };
    float partial[BY_PIECE ? 2 : 1][TOKENS / 2] = {};
    uint32_t a[2][2][2][4]; /* of a tile and the next: half, product */
    unit_reader<A, W> reader;
    const peer_barriers peer = cluster.peer_of(ring.empty);
    const uint32_t sums_at = STAGE::SUMS_AT + threadIdx.x % 4 * 16;
    uint32_t left = min(stages * TILES, tiles - before * TILES);
    auto stage_of = [&](uint32_t c) { return ring.stages + c % STAGES * STAGE::BYTES; };
    auto begin = [&](uint32_t c) {
        mbarrier_wait(ring.full + c % STAGES, c / STAGES & 1);
        reader.begin(stage_of(c) + STAGE::UNITS_AT + group * form::UNITS * form::UNIT);
    };
    auto unpack = [&](uint32_t(&to)[2][2][4], const unsigned char *stage, uint32_t i) {
        reader.fetch();
        if (BY_PIECE || i % 2 == 0)
            ask_zeros<A, W, STAGE>(q, stage, group, reader, i, 0);
        reader.unpack(0, to[0]);
        if (BY_PIECE)
            ask_zeros<A, W, STAGE>(q, stage, group, reader, i, 1);
        reader.unpack(1, to[1]);
    };
    begin_zeros(q, reader);
    begin(0);
    unpack(a[0], stage_of(0), 0);
    for (uint32_t c = 0; c < stages; c++) {
        const unsigned char *stage = stage_of(c);
        const unsigned char *at_x = stage, *at_sums = stage + sums_at;
        if constexpr (STAGE::WHOLE > 0) {
            at_x = ring.stages - STAGE::WHOLE + c * STAGE::X_STAGE;
            at_sums = ring.stages - STAGE::SUMS + c * STAGE::SUMS_STAGE + sums_at;
        }
        const uint64_t x = LOW ? tile_of_warp(at_x) : wgmma_tile(at_x, 0);
        const float2 *x_sums = (const float2 *)at_sums;
#pragma unroll
        for (uint32_t i = 0; i < TILES; i++) {
            if (i > 0 && form::UNITS > 1 && !left)
                break;
            left--;
            /* of 128 k that share a scale, the first; the last */
            const bool opens = BY_PIECE || i % 2 == 0, closes = BY_PIECE || i % 2 == 1;
            wgmma_fence();
#pragma unroll
            for (uint32_t half = 0; half < 2; half++)
#pragma unroll
                for (uint32_t step = 0; step < 2; step++) {
                    const uint32_t past = i * STAGE::X_TILE + (half * PIECE + step * 16) * 2;
                    wgmma_shape<A, TOKENS>::registers(
                        partial[BY_PIECE ? half : 0], a[i % 2][half][step],
                        LOW || BY_PIECE ? tile_past_low(x, past) : wgmma_tile_past(x, past),
                        step == 0 && (BY_PIECE ? true : half == 0 && opens));
                }
            wgmma_commit();
            two_scales s[2];
            if (closes)
                for (uint32_t half = 0; half < (BY_PIECE ? 2 : 1); half++)
                    s[half] = scales_of<A, W, STAGE>(q, stage, group, reader, i, half, 0);
            if (i + 1 < TILES) {
                if (form::UNITS == 1 || left) {
                    reader.move();
                    unpack(a[(i + 1) % 2], stage, i + 1);
                }
            } else if (left) {
                begin(c + 1);
                unpack(a[0], stage_of(c + 1), 0);
            }
            wgmma_wait<0>();
            wgmma_hold(partial[0]);
            if (BY_PIECE) {
                wgmma_hold(partial[BY_PIECE]);
                add_partial<TOKENS, form::MINIMUM>(sums, partial[0], s[0], x_sums + i * TOKENS);
                add_partial<TOKENS, form::MINIMUM>(sums, partial[BY_PIECE], s[1],
                                                   x_sums + i * TOKENS + 1);
            } else if (closes) {
                add_partial<TOKENS, false>(sums, partial[0], s[0], NULL);
            }
        }
        __syncwarp(); /* the stage has been read */
        if (threadIdx.x % 32 == 0)
            cluster.arrive_empty(ring.empty, peer, c % STAGES);
    }
}

#endif
