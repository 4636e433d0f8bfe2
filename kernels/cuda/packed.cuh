/*
 * packed.cuh - quantised weights as the product for sm_90a reads them (linear_packed.cu): where the
 * numbers of a unit lie, and what they are in registers.
 *
 * A unit: 64 features x UNIT_K values of k (64; 256 of the types whose blocks have 256), as many
 * bytes as they had in rows, codes first, then scales. Units of 64 features follow each other along
 * k: one bulk copy brings several.
 *
 * Codes lie in pieces of 32 k, a piece as 128 threads want it: each what it holds of A in two
 * products of 16 k (ptx.cuh, mma_bf16: four pairs), side by side. So a thread reads 8 or 16 bytes at
 * once, and no two threads of a warp meet in a bank. Within a word pairs lie so that a mask and a
 * shift put both halves of a register in place:
 *   8 bits: word j: pairs 2 (j % 2) (bytes 0, 2) and the next (bytes 1, 3) of product j / 2;
 *   4 bits: word j: pair r of product j in bits 4 r (low half) and 16 + 4 r (high half);
 *   6 bits: four bits as above, and a word with the upper two: pair r of product j in bits 2 (4 j +
 *           r) and 16 + 2 (4 j + r).
 *
 * In registers codes become whole numbers (fp8 and mxfp4: numbers of few bits), which bf16 and f16
 * hold exactly: scales are applied to sums, in f32. That is more exact than rounding each weight to
 * 16 bits, and takes fewer instructions.
 */
#ifndef KERNELS_CUDA_PACKED_CUH
#define KERNELS_CUDA_PACKED_CUH

#include "kernels/cuda/decode.cuh"
#include "kernels/cuda/ptx_hopper.cuh"

enum : uint32_t { PIECE = 32, PACKED_FEATURES = 64 };

/* CODES, SCALES: bytes of a unit. TILES: of 64 k in a stage of the ring. MINIMUM: values are code *
 * scale - minimum. STEPS: products of 16 k that share a scale; 0: those of a stage, or all. */
template <int BITS_, unsigned UNIT_K_, unsigned SCALES_, unsigned TILES_, unsigned STEPS_,
          bool MINIMUM_>
struct packed_form {
    enum : unsigned {
        BITS = BITS_,
        UNIT_K = UNIT_K_,
        CODES = PACKED_FEATURES * UNIT_K_ * BITS_ / 8,
        SCALES = SCALES_,
        UNIT = CODES + SCALES_,
        TILES = TILES_,
        UNITS = TILES_ * 64 / UNIT_K_, /* in a stage */
        STEPS = STEPS_,
        MINIMUM = MINIMUM_
    };
};
template <int W> struct packed;
template <> struct packed<STORAGE_F8_E4M3> : packed_form<8, 64, 0, 2, 0, false> {};
template <> struct packed<STORAGE_I8> : packed_form<8, 64, 0, 2, 0, false> {};
template <> struct packed<STORAGE_Q8_0> : packed_form<8, 64, 256, 2, 2, false> {};
template <> struct packed<STORAGE_Q4_0> : packed_form<4, 64, 256, 4, 2, false> {};
template <> struct packed<STORAGE_MXFP4> : packed_form<4, 64, 128, 4, 2, false> {};
template <> struct packed<STORAGE_U4> : packed_form<4, 64, 0, 4, 2, true> {};
template <> struct packed<STORAGE_Q4_K> : packed_form<4, 256, 1024, 4, 2, true> {};
template <> struct packed<STORAGE_Q6_K> : packed_form<6, 256, 1152, 4, 1, false> {};

/* Calls body with W as the type, for those that there are. */
#define WITH_PACKED(type, W, body)                                                                 \
    do {                                                                                           \
        switch (type) {                                                                            \
            STORAGE_CASE(STORAGE_F8_E4M3, W, body)                                                 \
            STORAGE_CASE(STORAGE_I8, W, body)                                                      \
            STORAGE_CASE(STORAGE_Q8_0, W, body)                                                    \
            STORAGE_CASE(STORAGE_Q4_0, W, body)                                                    \
            STORAGE_CASE(STORAGE_MXFP4, W, body)                                                   \
            STORAGE_CASE(STORAGE_U4, W, body)                                                      \
            STORAGE_CASE(STORAGE_Q4_K, W, body)                                                    \
            STORAGE_CASE(STORAGE_Q6_K, W, body)                                                    \
        default: CHECK_MSG(false, "packed type %d", (int)(type));                                  \
        }                                                                                          \
    } while (0)

/* ---- codes ---- */

/* Both halves of a register the same. */
#define PAIR_OF(bf16, f16) ((A == STORAGE_BF16 ? (bf16) : (f16)) * 0x10001u)

/* Bytes to signed whole numbers: the lower 7 bits under the exponent of 2^7 (f16: 2^10), less that
 * and 128 where the sign bit is set: both exact. */
template <int A> static __device__ __forceinline__ uint32_t signed_pair(uint32_t w) {
    return pair_add<A>((w & 0x007f007fu) | PAIR_OF(0x4300u, 0x6400u),
                       (w & 0x00800080u) | PAIR_OF(0xc300u, 0xe400u));
}
/* e4m3 in bytes 1 and 3: exponent and fraction under those of the wider type, which makes numbers
 * (subnormal ones too) 2^-120 (f16: 2^-8) as large; NaN becomes 480. */
template <int A> static __device__ __forceinline__ uint32_t e4m3_pair(uint32_t sign, uint32_t w) {
    return pair_multiply<A>((sign & 0x80008000u) | (w & PAIR_OF(0x07f0u, 0x3f80u)),
                            PAIR_OF(0x7b80u, 0x5c00u));
}
template <int A, int W>
static __device__ __forceinline__ void bytes_to_pairs(uint32_t w, uint32_t *a) {
    enum { UP = A == STORAGE_BF16 ? 4 : 7 };
    if (W == STORAGE_F8_E4M3) {
        a[0] = e4m3_pair<A>(w << 8, w << UP);
        a[1] = e4m3_pair<A>(w, w >> (8 - UP));
    } else {
        a[0] = signed_pair<A>(w);
        a[1] = signed_pair<A>(w >> 8);
    }
}

/* What is taken from a code of 4 or 6 bits, as the difference of two numbers of the wider type: 8,
 * 8, 0, 32. */
template <int A, int W> static __device__ __forceinline__ uint32_t less_offset(uint32_t codes) {
    enum : uint32_t {
        OFFSET = W == STORAGE_Q4_0 || W == STORAGE_U4 ? 8
                 : W == STORAGE_Q6_K                  ? 32
                                                      : 0
    };
    return pair_add<A>(codes | PAIR_OF(0x4300u, 0x6400u),
                       PAIR_OF(0xc300u | OFFSET, 0xe400u | OFFSET));
}
/* e2m1, doubled: as e4m3. left: from the code's place to the wider type's exponent. */
template <int A> static __device__ __forceinline__ uint32_t e2m1_pair(uint32_t w, int r) {
    const int up = (A == STORAGE_BF16 ? 6 : 9) - 4 * r;
    const uint32_t magnitude =
        (up >= 0 ? w << (up >= 0 ? up : 0) : w >> (up < 0 ? -up : 0)) & PAIR_OF(0x01c0u, 0x0e00u);
    return pair_multiply<A>((w << (12 - 4 * r) & 0x80008000u) | magnitude,
                            PAIR_OF(0x7f00u, 0x7800u));
}
/* high: the upper two bits, of 6. step: which of the two products. */
template <int A, int W>
static __device__ __forceinline__ void nibbles_to_pairs(uint32_t w, uint32_t high, int step,
                                                        uint32_t *a) {
#pragma unroll
    for (int r = 0; r < 4; r++) {
        uint32_t codes = w >> 4 * r & 0x000f000fu;
        const int from = 2 * (4 * step + r);
        if (W == STORAGE_Q6_K)
            codes |= (from >= 4 ? high >> (from >= 4 ? from - 4 : 0)
                                : high << (from < 4 ? 4 - from : 0)) &
                     0x00300030u;
        a[r] = W == STORAGE_MXFP4 ? e2m1_pair<A>(w, r) : less_offset<A, W>(codes);
    }
}

/* What this thread of a warpgroup holds of a piece of a unit: A of two products. */
template <int A, int W>
static __device__ __forceinline__ void unpack_piece(const unsigned char *unit, uint32_t piece,
                                                    uint32_t (&a)[2][4]) {
    const uint32_t place = piece * 128 + threadIdx.x % 128;
    if (packed<W>::BITS == 8) {
        const uint4 w = ((const uint4 *)unit)[place];
        bytes_to_pairs<A, W>(w.x, a[0]);
        bytes_to_pairs<A, W>(w.y, a[0] + 2);
        bytes_to_pairs<A, W>(w.z, a[1]);
        bytes_to_pairs<A, W>(w.w, a[1] + 2);
        return;
    }
    const uint2 w = ((const uint2 *)unit)[place];
    const uint32_t high =
        W == STORAGE_Q6_K
            ? ((const uint32_t *)(unit + PACKED_FEATURES * packed<W>::UNIT_K / 2))[place]
            : 0;
    nibbles_to_pairs<A, W>(w.x, high, 0, a[0]);
    nibbles_to_pairs<A, W>(w.y, high, 1, a[1]);
}

/* ---- scales ---- */

/* A whole number below 2^23 as a float: quicker than a conversion. */
static __device__ __forceinline__ float small_float(uint32_t v) {
    return __uint_as_float(v | 0x4b000000u) - 8388608.0f;
}

/* Scale and minimum of one of the 64 features; step: of 16 k in the unit. Each is rounded as the
 * definition of the type (decode.h) rounds it. */
template <int W>
static __device__ __forceinline__ void unpack_scale(const unsigned char *unit, uint32_t step,
                                                    uint32_t row, float *scale, float *minimum) {
    const unsigned char *at = unit + packed<W>::CODES;
    const uint32_t piece = step / 2;
    *minimum = 0;
    if (W == STORAGE_Q8_0 || W == STORAGE_Q4_0) {
        *scale = f16x2_float2(((const uint16_t *)at)[piece * PACKED_FEATURES + row]).x;
    } else if (W == STORAGE_MXFP4) {
        const uint32_t e = at[piece * PACKED_FEATURES + row];
        *scale = __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    } else if (W == STORAGE_Q4_K) { /* 6 and 6 bits: the lower 8, the upper 4 of two pieces */
        const float2 d = f16x2_float2(((const uint32_t *)at)[row]);
        const uint32_t low = at[256 + piece * PACKED_FEATURES + row],
                       high = at[768 + piece / 2 * PACKED_FEATURES + row] >> 4 * (piece % 2) & 15,
                       both = low | high << 8;
        *scale = __fmul_rn(d.x, small_float(both & 63));
        *minimum = __fmul_rn(d.y, small_float(both >> 6));
    } else if (W == STORAGE_Q6_K) {
        const float d = f16x2_float2(((const uint16_t *)at)[row]).x;
        const uint32_t s = at[128 + step * PACKED_FEATURES + row];
        *scale = __fmul_rn(d, small_float(s ^ 128) - 128.0f);
    }
}

#endif
