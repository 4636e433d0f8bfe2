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
 *   4 bits: the two pieces of 64 k side by side, so that a thread reads 16 bytes. A word has the four
 *           pairs of 16 k: pair r in the four bits from 3 + 4 r (low half) and 19 + 4 r (high half) on,
 *           round the word's end, so that pair 0 lies where bf16 has its upper fraction;
 *   mxfp4:  the same words, with each code's sign apart from its other bits (mxfp4_low);
 *   6 bits: word j: pair r of product j in bits 4 r and 16 + 4 r, and a word with the upper two: pair
 *           r of product j in bits 2 (4 j + r) and 16 + 2 (4 j + r).
 *
 * Scales behind the codes lie as thread / 4 wants them, who has features `row` and row + 8: of Q4_0 (f16)
 * and MXFP4 (bytes) both of a piece, then both of the next; of Q4_K 16 bytes for each feature `row`,
 * then for each row + 8: d and dmin as in the block, and 24 bits for each 64 k: scale, minimum, scale, minimum.
 * The arrays of int4 have row and row + 8 side by side, too.
 *
 * In registers codes become whole numbers (fp8 and mxfp4: numbers of few bits), which bf16 and f16
 * hold exactly: scales are applied to sums, in f32. That is more exact than rounding each weight to
 * 16 bits, and takes fewer instructions. Of int4 the zero, a whole number too, is taken off here, so
 * that sums need no minimum. Where one is taken off anyway (Q4_K) codes are 16 too large, which costs
 * nothing to make in bf16, and the minimum takes off that, too.
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
template <> struct packed<STORAGE_U4> : packed_form<4, 64, 0, 4, 2, false> {};
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

/* The 32 bits from bit `by` (0 to 31) of low on, those of high behind it. */
static __device__ __forceinline__ uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t by) {
#ifdef TRIREME_EMULATED
    return (uint32_t)(((uint64_t)high << 32 | low) >> by);
#else
    return __funnelshift_r(low, high, by);
#endif
}
static __device__ __forceinline__ uint32_t rotate_right(uint32_t w, uint32_t by) {
    return funnel_right(w, w, by);
}
/* left: negative to the right. */
static __device__ __forceinline__ uint32_t shift_by(uint32_t w, int left) {
    return left >= 0 ? w << (left >= 0 ? left : 0) : w >> (left < 0 ? -left : 0);
}

/* Where pair r of mxfp4 has the lowest of its three lower bits, and its sign, in the low half; the high half
 * is the same. Of pairs 0 and 1 one shift puts both in place, of bf16. */
static constexpr __device__ int mxfp4_low(int r) {
    return r == 0 ? 6 : r == 1 ? 3 : r == 2 ? 0 : 9;
}
static constexpr __device__ int mxfp4_sign(int r) {
    return r == 0 ? 15 : r == 1 ? 12 : r == 2 ? 13 : 14;
}
/* e2m1: exponent and fraction under those of the wider type, which makes numbers (subnormal ones too)
 * 2^-126 (f16: 2^-14) as large. */
template <int A> static __device__ __forceinline__ uint32_t e2m1_pair(uint32_t w, int r) {
    const int up = (A == STORAGE_BF16 ? 6 : 9) - mxfp4_low(r), sign_up = 15 - mxfp4_sign(r);
    const uint32_t low = PAIR_OF(0x01c0u, 0x0e00u),
                   code = up == sign_up
                              ? shift_by(w, up) & (low | 0x80008000u)
                              : (shift_by(w, sign_up) & 0x80008000u) | (shift_by(w, up) & low);
    return pair_multiply<A>(code, PAIR_OF(0x7e80u, 0x7400u));
}

/* What codes of 4 bits with a minimum are too large in registers. */
#define CODES_RAISED 16.0f
/* What int4 adds to a pair of codes with this zero, a whole number of 0 to 128: less it and what codes have
 * above them in a register. */
template <int A> static __device__ __forceinline__ uint32_t pair_of_zero(float zero) {
    const float v = (A == STORAGE_BF16 ? -16.0f : -128.0f) - zero;
    return pack<A>(v, v);
}
/* The four pairs of 16 k: of Q4_0 code - 8, of int4 code - its zero, of Q4_K code + 16. In the upper
 * fraction of bf16 a code is 16 + code, in f16, which has three bits above it, 128 + code. zeros: of int4,
 * pair_of_zero of the thread's two features. */
template <int A, int W>
static __device__ __forceinline__ void fours_to_pairs(uint32_t w, const uint32_t (&zeros)[2],
                                                      uint32_t *a) {
#pragma unroll
    for (int r = 0; r < 4; r++) {
        if (W == STORAGE_MXFP4) {
            a[r] = e2m1_pair<A>(w, r);
            continue;
        }
        const uint32_t there = r == 3 ? rotate_right(w, 12) : w >> 4 * r;
        a[r] = mask_or(there, 0x00780078u, PAIR_OF(0x4180u, 0x5800u));
        if (W == STORAGE_Q4_0)
            a[r] = pair_add<A>(a[r], PAIR_OF(0xc1c0u, 0xd840u)); /* - 24, - 136 */
        else if (W == STORAGE_U4)
            a[r] = pair_add<A>(a[r], zeros[r % 2]);
        else if (A != STORAGE_BF16)
            a[r] = pair_add<A>(a[r], 0xd700d700u); /* - 112 */
    }
}
/* The four pairs of product `step` of a piece of 6 bits. high: the upper two bits. */
template <int A>
static __device__ __forceinline__ void sixes_to_pairs(uint32_t w, uint32_t high, int step,
                                                      uint32_t *a) {
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const uint32_t low = mask_or(w >> 4 * r, 0x000f000fu, PAIR_OF(0x4300u, 0x6400u)),
                       both = mask_or(shift_by(high, 4 - 2 * (4 * step + r)), 0x00300030u, low);
        a[r] = pair_add<A>(both, PAIR_OF(0xc320u, 0xe420u)); /* less 32, too */
    }
}

/* ---- a thread's way through the units of a stage ---- */

/* d * v, rounded once, of a small whole number: 1.5 * 2^23 + v is had by an addition of integers, and
 * less, d times -1.5 * 2^23, is exact where d has 22 bits at most. Quicker than a conversion. */
#define RAISED 12582912.0f
static __device__ __forceinline__ float times_whole(float d, int32_t v, float less) {
    return __fmaf_rn(d, __uint_as_float(0x4b400000u + (uint32_t)v), less);
}
/* The same of the six bits from bit `at` on: under the exponent of 2^(23 - at) they are 2^(23 - at) more
 * than what they say. less: d times -2^(23 - at). */
static __device__ __forceinline__ float times_six_bits(float d, uint32_t w, uint32_t at,
                                                       float less) {
    return __fmaf_rn(d, __uint_as_float(mask_or(w, 63u << at, 0x4b000000u - (at << 23))), less);
}

/* Where a thread of a warpgroup reads; moves along k, 64 at a time. Its two features are `row` and
 * row + 8. Scales are rounded as the definition of the type (dequantize.h) rounds them. */
template <int A, int W> struct unit_reader {
    typedef packed<W> form;
    enum : uint32_t {
        LARGE = form::UNIT_K == 256,
        FOURS = form::BITS == 4,
        PIECE_CODES = PACKED_FEATURES * PIECE * (form::BITS == 8 ? 8 : 4) / 8,
        TILE_CODES = 2 * PIECE_CODES,
        NIBBLES = PACKED_FEATURES * form::UNIT_K / 2,
        /* of a thread's part of them, of types that have four bits */
        SCALES_OF_FOUR = W == STORAGE_Q4_0    ? 8
                         : W == STORAGE_MXFP4 ? 4
                                              : 16,
        SCALE_SIZE = W == STORAGE_Q8_0 ? 2 : 1,
        /* of the first scale behind the codes, and from one tile to the next */
        SCALES_AT = form::CODES + (W == STORAGE_Q6_K ? 128 : 0),
        SCALES_STEP = W == STORAGE_Q6_K   ? 256
                      : W == STORAGE_Q4_K ? 0
                                          : (uint32_t)form::UNIT
    };
    uint32_t thread, row;
    const unsigned char *codes, *high, *scales;
    uint4 four;           /* codes of the tile, of four bits */
    uint32_t zeros[2];    /* of int4: pair_of_zero of what is unpacked next */
    float d[2], less[2];  /* of Q4_K and Q6_K */
    float m[2], upper[2]; /* of Q4_K: dmin; and less of the scale of the second piece */
    float m_less[2], m_upper[2];
    uint32_t fields[2][3]; /* of Q4_K: from this tile on */

    __device__ __forceinline__ unit_reader() : codes(), high(), scales(), four(), zeros() {
        thread = threadIdx.x % 128;
        row = thread / 32 * 16 + thread % 32 / 4;
        register_hold(thread);
        register_hold(row);
    }
    /* d, dmin and what is taken off with them; both: the block's first four bytes. */
    __device__ __forceinline__ void begin_large(uint32_t i, uint32_t both) {
        const float2 v = f16x2_float2(both);
        d[i] = v.x;
        m[i] = v.y;
        less[i] = v.x * -0x1p23f;
        upper[i] = v.x * -0x1p11f;
        m_less[i] = v.y * -0x1p17f;
        m_upper[i] = v.y * -0x1p11f;
    }
    __device__ __forceinline__ void begin(const unsigned char *units) {
        codes = units + thread * (FOURS ? 16 : PIECE_CODES / 128);
        high = units + NIBBLES + thread * 4;
        scales = units + SCALES_AT + (FOURS ? thread / 4 * SCALES_OF_FOUR : row * SCALE_SIZE);
#pragma unroll
        for (uint32_t i = 0; i < 2; i++)
            if (W == STORAGE_Q4_K) {
                const uint4 all = *(const uint4 *)(scales + i * 512);
                begin_large(i, all.x);
                fields[i][0] = all.y;
                fields[i][1] = all.z;
                fields[i][2] = all.w;
            } else if (W == STORAGE_Q6_K) {
                const uint16_t *at = (const uint16_t *)(units + form::CODES) + row + i * 8;
                d[i] = f16x2_float2(*at).x;
                less[i] = d[i] * -RAISED;
            }
    }
    /* The same from a tile of the stage on, to read that one alone. */
    __device__ __forceinline__ void begin_at(const unsigned char *units, uint32_t tile) {
        if (W != STORAGE_Q4_K) {
            begin(units);
            move(tile);
            return;
        }
        const unsigned char *from = units + SCALES_AT + thread / 4 * SCALES_OF_FOUR;
        const uint32_t at = tile * 3 / 4;
        codes = units + thread * 16 + tile * TILE_CODES;
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t *words = (const uint32_t *)(from + i * 512);
            begin_large(i, words[0]);
            fields[i][0] = funnel_right(words[1 + at], words[min(2 + at, 3u)], tile * 3 % 4 * 8);
        }
    }
    __device__ __forceinline__ void move(uint32_t tiles = 1) {
        codes += tiles * (LARGE ? TILE_CODES : (uint32_t)form::UNIT);
        high += tiles * PACKED_FEATURES * 16;
        scales += tiles * SCALES_STEP;
        if (W == STORAGE_Q4_K) /* one at a time */
#pragma unroll
            for (uint32_t i = 0; i < 2; i++) {
                fields[i][0] = funnel_right(fields[i][0], fields[i][1], 24);
                fields[i][1] = funnel_right(fields[i][1], fields[i][2], 24);
                fields[i][2] >>= 24;
            }
    }
    /* Codes of four bits: once a tile, ahead of its unpack. */
    __device__ __forceinline__ void fetch() {
        if (FOURS)
            four = *(const uint4 *)codes;
    }
    /* A of the two products of a half of the tile. */
    __device__ __forceinline__ void unpack(uint32_t half, uint32_t (&a)[2][4]) const {
        if (FOURS) {
            fours_to_pairs<A, W>(half ? four.z : four.x, zeros, a[0]);
            fours_to_pairs<A, W>(half ? four.w : four.y, zeros, a[1]);
            return;
        }
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
        const uint32_t upper_bits = *(const uint32_t *)(high + half * PACKED_FEATURES * 8);
        sixes_to_pairs<A>(w.x, upper_bits, 0, a[0]);
        sixes_to_pairs<A>(w.y, upper_bits, 1, a[1]);
    }
    /* Of feature i (0, 1), half of the tile, and (Q6_K) product of it. */
    __device__ __forceinline__ void scale_of(uint32_t i, uint32_t half, uint32_t step, float *scale,
                                             float *minimum) const {
        *minimum = 0;
        if (W == STORAGE_Q8_0) {
            const uint16_t *at = (const uint16_t *)scales + i * 8 + half * PACKED_FEATURES;
            *scale = f16x2_float2(*at).x;
        } else if (W == STORAGE_Q4_0) {
            const float2 both = f16x2_float2(((const uint32_t *)scales)[half]);
            *scale = i ? both.y : both.x;
        } else if (W == STORAGE_MXFP4) { /* 2^(e - 127), of 0 a subnormal number */
            const uint32_t e = *(const uint32_t *)scales >> (half * 16 + i * 8) & 255;
            *scale = fmaxf(__uint_as_float(e << 23), 0x1p-127f);
        } else if (W == STORAGE_Q4_K) {
            const uint32_t w = fields[i][0];
            *scale =
                half ? times_six_bits(d[i], w, 12, upper[i]) : times_six_bits(d[i], w, 0, less[i]);
            *minimum = half ? times_six_bits(m[i], w >> 6, 12, m_upper[i])
                            : times_six_bits(m[i], w, 6, m_less[i]);
            *minimum = __fmaf_rn(CODES_RAISED, *scale, *minimum);
        } else if (W == STORAGE_Q6_K) {
            const unsigned char *at = scales + i * 8 + (2 * half + step) * PACKED_FEATURES;
            *scale = times_whole(d[i], (int8_t)*at, less[i]);
        }
    }
};

#endif
