/*
 * packed.cuh - quantized weights as products read them (linear_packed.cu on sm_90a, linear_packed_mma.cu on
 * other GPUs): where the numbers of a unit lie, and what they are in registers.
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

#include "kernels/cuda/dequantize.cuh"
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
template <> struct packed<STORAGE_F8_E4M3> : packed_form<8, 64, 0, 4, 0, false> {};
template <> struct packed<STORAGE_I8> : packed_form<8, 64, 0, 4, 0, false> {};
template <> struct packed<STORAGE_Q8_0> : packed_form<8, 64, 256, 4, 2, false> {};
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
    return pair_add<A>(mask_or(w, 0x007f007fu, PAIR_OF(0x4300u, 0x6400u)),
                       mask_or(w, 0x00800080u, PAIR_OF(0xc300u, 0xe400u)));
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
template <int A, int W> static __device__ __forceinline__ uint32_t less_offset(uint32_t raised) {
    enum : uint32_t {
        OFFSET = W == STORAGE_Q4_0 || W == STORAGE_U4 ? 8
                 : W == STORAGE_Q6_K                  ? 32
                                                      : 0
    };
    return pair_add<A>(raised, PAIR_OF(0xc300u | OFFSET, 0xe400u | OFFSET));
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
        if (W == STORAGE_MXFP4) {
            a[r] = e2m1_pair<A>(w, r);
            continue;
        }
        uint32_t raised = mask_or(w >> 4 * r, 0x000f000fu, PAIR_OF(0x4300u, 0x6400u));
        const int from = 2 * (4 * step + r);
        if (W == STORAGE_Q6_K)
            raised = mask_or(from >= 4 ? high >> (from >= 4 ? from - 4 : 0)
                                       : high << (from < 4 ? 4 - from : 0),
                             0x00300030u, raised);
        a[r] = less_offset<A, W>(raised);
    }
}

/* ---- a thread's way through the units of a stage ---- */

/* d * v, rounded once, of a small whole number: 1.5 * 2^23 + v is had by an addition of integers, and
 * less, d times -1.5 * 2^23, is exact where d has 22 bits at most. Quicker than a conversion. */
#define RAISED 12582912.0f
static __device__ __forceinline__ float times_whole(float d, int32_t v, float less) {
    return __fmaf_rn(d, __uint_as_float(0x4b400000u + (uint32_t)v), less);
}

/* Where a thread of a warpgroup reads; moves along k, 64 at a time. Its two features are `row` and
 * row + 8. Scales are rounded as the definition of the type (dequantize.h) rounds them. */
template <int A, int W> struct unit_reader {
    typedef packed<W> form;
    enum : uint32_t {
        LARGE = form::UNIT_K == 256,
        PIECE_CODES = PACKED_FEATURES * PIECE * (form::BITS == 8 ? 8 : 4) / 8,
        NIBBLES = PACKED_FEATURES * form::UNIT_K / 2,
        SCALE_SIZE = W == STORAGE_Q8_0 || W == STORAGE_Q4_0 ? 2 : 1,
        /* of the first scale behind the codes, and from one tile to the next */
        SCALES_AT = form::CODES + (W == STORAGE_Q4_K   ? 256
                                   : W == STORAGE_Q6_K ? 128
                                                       : 0),
        SCALES_STEP = W == STORAGE_Q4_K   ? 128
                      : W == STORAGE_Q6_K ? 256
                                          : (uint32_t)form::UNIT
    };
    uint32_t thread, row;
    const unsigned char *codes, *high, *scales, *tops;
    float d[2], d_less[2], m[2], m_less[2]; /* of Q4_K and Q6_K */

    __device__ __forceinline__ unit_reader() : codes(), high(), scales(), tops() {
        thread = threadIdx.x % 128;
        row = thread / 32 * 16 + thread % 32 / 4;
        register_hold(thread);
        register_hold(row);
    }
    __device__ __forceinline__ void begin(const unsigned char *units) {
        codes = units + thread * (PIECE_CODES / 128);
        high = units + NIBBLES + thread * 4;
        scales = units + SCALES_AT + row * SCALE_SIZE;
        tops = units + form::CODES + 768 + row;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t at = row + i * 8;
            if (W == STORAGE_Q4_K) {
                const float2 both = f16x2_float2(((const uint32_t *)(units + form::CODES))[at]);
                d[i] = both.x;
                m[i] = both.y;
                m_less[i] = m[i] * -RAISED;
            } else if (W == STORAGE_Q6_K) {
                d[i] = f16x2_float2(((const uint16_t *)(units + form::CODES))[at]).x;
            }
            if (LARGE)
                d_less[i] = d[i] * -RAISED;
        }
    }
    __device__ __forceinline__ void move(uint32_t tiles = 1) {
        codes += tiles * (LARGE ? 2 * PIECE_CODES : (uint32_t)form::UNIT);
        high += tiles * PACKED_FEATURES * 16;
        scales += tiles * SCALES_STEP;
        tops += tiles * PACKED_FEATURES;
    }
    /* A of the two products of a half of the tile. */
    __device__ __forceinline__ void unpack(uint32_t half, uint32_t (&a)[2][4]) const {
        const unsigned char *from = codes + half * PIECE_CODES;
        if (form::BITS == 8) {
            const uint4 w = *(const uint4 *)from;
            bytes_to_pairs<A, W>(w.x, a[0]);
            bytes_to_pairs<A, W>(w.y, a[0] + 2);
            bytes_to_pairs<A, W>(w.z, a[1]);
            bytes_to_pairs<A, W>(w.w, a[1] + 2);
            return;
        }
        const uint2 w = *(const uint2 *)from;
        const uint32_t upper =
            W == STORAGE_Q6_K ? *(const uint32_t *)(high + half * PACKED_FEATURES * 8) : 0;
        nibbles_to_pairs<A, W>(w.x, upper, 0, a[0]);
        nibbles_to_pairs<A, W>(w.y, upper, 1, a[1]);
    }
    /* Of feature i (0, 1), half of the tile, and (Q6_K) product of it. */
    __device__ __forceinline__ void scale_of(uint32_t i, uint32_t half, uint32_t step, float *scale,
                                             float *minimum) const {
        const unsigned char *at = scales + i * 8 * SCALE_SIZE + half * PACKED_FEATURES * SCALE_SIZE;
        *minimum = 0;
        if (SCALE_SIZE == 2) {
            *scale = f16x2_float2(*(const uint16_t *)at).x;
        } else if (W == STORAGE_MXFP4) {
            const uint32_t e = *at;
            *scale = __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
        } else if (W == STORAGE_Q4_K) { /* 6 and 6 bits: the lower 8, the upper 4 of two pieces */
            const uint32_t both = *at | (uint32_t)(tops[i * 8] >> 4 * half & 15) << 8;
            *scale = times_whole(d[i], both & 63, d_less[i]);
            *minimum = times_whole(m[i], both >> 6, m_less[i]);
        } else if (W == STORAGE_Q6_K) {
            *scale = times_whole(d[i], (int8_t)at[(half + step) * PACKED_FEATURES], d_less[i]);
        }
    }
};

#endif
