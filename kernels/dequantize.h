/*
 * dequantize.h - what the bytes of every storage type mean: 32 values at a time, for C and CUDA.
 *
 * One function a block type, dequantize_<type>(block, g, out): values [32 g, 32 g + 32) of a block
 * as f32, each operation rounded on its own in the order written here (no contraction), so every
 * device gives the same bits, and they are those of the Python package gguf
 * (`gguf.quants.dequantize`). Formats: ggml/src/ggml-common.h and ggml-quants.c (GGUF); OCP 8-bit
 * floating point specification (e4m3fn, e5m2); QLoRA, Dettmers et al. 2023, appendix E (NF4).
 *
 * Types with scales in an array of their own (struct matrix_segment) go through dequantize_scaled:
 * value = (stored - zero) * scale, in f32.
 *
 * DEQUANTIZE_FN, DEQUANTIZE_TABLE, ROUNDED_MUL, ROUNDED_ADD, ROUNDED_SUB: set by the including
 * file for CUDA.
 */
#ifndef KERNELS_DEQUANTIZE_H
#define KERNELS_DEQUANTIZE_H

#include "kernels/types.h"

#ifndef DEQUANTIZE_FN
#define DEQUANTIZE_FN    static inline
#define DEQUANTIZE_TABLE static const
/* C is compiled with -ffp-contract=off. */
#define ROUNDED_MUL(a, b) ((a) * (b))
#define ROUNDED_ADD(a, b) ((a) + (b))
#define ROUNDED_SUB(a, b) ((a) - (b))
#endif

#include "kernels/dequantize_grids.h"

/* ---- small things ---- */

/* A float by its bits. */
DEQUANTIZE_FN float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
/* Two bytes, little-endian. */
DEQUANTIZE_FN uint32_t load_u16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
/* Four bytes, little-endian. */
DEQUANTIZE_FN uint32_t load_u32(const uint8_t *p) {
    return load_u16(p) | load_u16(p + 2) << 16;
}
/* Exponent and fraction moved into place and rescaled by 2^112: exact, subnormals too. */
DEQUANTIZE_FN float dequantize_half(uint32_t h) {
    uint32_t magnitude = (h & 0x7fff) << 13, sign = (h & 0x8000) << 16, scaled;
    float f = ROUNDED_MUL(float_of_bits(magnitude), 0x1p112f);
    memcpy(&scaled, &f, 4);
    return float_of_bits(sign | (magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : scaled));
}
/* A little-endian half. */
DEQUANTIZE_FN float dequantize_f16(const uint8_t *p) {
    return dequantize_half(load_u16(p));
}
/* OCP e4m3: no infinities; 0x7f is NaN. */
DEQUANTIZE_FN float dequantize_e4m3(uint8_t b) {
    uint32_t sign = (uint32_t)(b & 0x80) << 24;
    if ((b & 0x7f) == 0x7f)
        return float_of_bits(sign | 0x7fc00000u);
    float f = ROUNDED_MUL(float_of_bits((uint32_t)(b & 0x7f) << 20), 0x1p120f);
    return sign ? -f : f;
}
/* To the nearest, even among two; beyond 448: that; NaN stays NaN. */
DEQUANTIZE_FN uint8_t encode_e4m3(float f) {
    uint32_t bits, sign, magnitude;
    memcpy(&bits, &f, 4);
    sign = bits >> 24 & 0x80;
    magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint8_t)(sign | 0x7f);
    if (magnitude >= 0x43e00000u)
        return (uint8_t)(sign | 0x7e); /* 448 and more */
    if (magnitude < 0x3c800000u) {     /* below 2^-6: a multiple of 2^-9 */
        /* ulp 2^-9: rounds to nearest even */
        float scaled = ROUNDED_ADD(float_of_bits(magnitude), 16384.0f);
        memcpy(&bits, &scaled, 4);
        return (uint8_t)(sign | (bits - 0x46800000u));
    }
    uint32_t odd = magnitude >> 20 & 1;
    return (uint8_t)(sign | ((magnitude - 0x3c000000u + 0x7ffffu + odd) >> 20));
}
/* OCP e5m2. */
DEQUANTIZE_FN float dequantize_e5m2(uint8_t b) {
    return dequantize_half((uint32_t)b << 8);
}

/* ---- blocks of 32 ---- */

DEQUANTIZE_FN void dequantize_q4_0(const uint8_t *b, uint32_t g, float *out) {
    float d = dequantize_f16(b);
    (void)g;
    for (int i = 0; i < 16; i++) {
        out[i] = ROUNDED_MUL(d, (float)((int)(b[2 + i] & 15) - 8));
        out[i + 16] = ROUNDED_MUL(d, (float)((int)(b[2 + i] >> 4) - 8));
    }
}

/* Group g of a block of Q4_1: 32 values. */
DEQUANTIZE_FN void dequantize_q4_1(const uint8_t *b, uint32_t g, float *out) {
    float d = dequantize_f16(b), m = dequantize_f16(b + 2);
    (void)g;
    for (int i = 0; i < 16; i++) {
        out[i] = ROUNDED_ADD(ROUNDED_MUL(d, (float)(b[4 + i] & 15)), m);
        out[i + 16] = ROUNDED_ADD(ROUNDED_MUL(d, (float)(b[4 + i] >> 4)), m);
    }
}

/* Group g of a block of Q5_0: 32 values. */
DEQUANTIZE_FN void dequantize_q5_0(const uint8_t *b, uint32_t g, float *out) {
    float d = dequantize_f16(b);
    uint32_t high = load_u32(b + 2);
    (void)g;
    for (int i = 0; i < 16; i++) {
        int low = (b[6 + i] & 15) | (int)(high >> i & 1) << 4,
            up = (b[6 + i] >> 4) | (int)(high >> (i + 16) & 1) << 4;
        out[i] = ROUNDED_MUL(d, (float)(low - 16));
        out[i + 16] = ROUNDED_MUL(d, (float)(up - 16));
    }
}

/* Group g of a block of Q5_1: 32 values. */
DEQUANTIZE_FN void dequantize_q5_1(const uint8_t *b, uint32_t g, float *out) {
    float d = dequantize_f16(b), m = dequantize_f16(b + 2);
    uint32_t high = load_u32(b + 4);
    (void)g;
    for (int i = 0; i < 16; i++) {
        int low = (b[8 + i] & 15) | (int)(high >> i & 1) << 4,
            up = (b[8 + i] >> 4) | (int)(high >> (i + 16) & 1) << 4;
        out[i] = ROUNDED_ADD(ROUNDED_MUL(d, (float)low), m);
        out[i + 16] = ROUNDED_ADD(ROUNDED_MUL(d, (float)up), m);
    }
}

/* Group g of a block of Q8_0: 32 values. */
DEQUANTIZE_FN void dequantize_q8_0(const uint8_t *b, uint32_t g, float *out) {
    float d = dequantize_f16(b);
    (void)g;
    for (int i = 0; i < 32; i++)
        out[i] = ROUNDED_MUL((float)(int8_t)b[2 + i], d);
}

/* e2m1 values doubled, so the scale is halved. */
#define MXFP4_LEVELS 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12
DEQUANTIZE_TABLE int8_t MXFP4_VALUES[16] = {MXFP4_LEVELS};
/* Half of the block's scale, 2^(b[0] - 128). */
DEQUANTIZE_FN float dequantize_mxfp4_scale(const uint8_t *b) {
    return float_of_bits(b[0] < 2 ? 0x00200000u << b[0] : (uint32_t)(b[0] - 1) << 23);
}
/* Group g of a block of MXFP4: 32 values. */
DEQUANTIZE_FN void dequantize_mxfp4(const uint8_t *b, uint32_t g, float *out) {
    float d = dequantize_mxfp4_scale(b);
    (void)g;
    for (int i = 0; i < 16; i++) {
        out[i] = ROUNDED_MUL(d, (float)MXFP4_VALUES[b[1 + i] & 15]);
        out[i + 16] = ROUNDED_MUL(d, (float)MXFP4_VALUES[b[1 + i] >> 4]);
    }
}

#define IQ4_LEVELS -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
DEQUANTIZE_TABLE int8_t IQ4_VALUES[16] = {IQ4_LEVELS};
/* 32 values of 4 bits by the IQ4 table, times d. */
DEQUANTIZE_FN void dequantize_iq4(const uint8_t *q, float d, float *out) {
    for (int i = 0; i < 16; i++) {
        out[i] = ROUNDED_MUL(d, (float)IQ4_VALUES[q[i] & 15]);
        out[i + 16] = ROUNDED_MUL(d, (float)IQ4_VALUES[q[i] >> 4]);
    }
}
/* Group g of a block of IQ4_NL: 32 values. */
DEQUANTIZE_FN void dequantize_iq4_nl(const uint8_t *b, uint32_t g, float *out) {
    (void)g;
    dequantize_iq4(b + 2, dequantize_f16(b), out);
}

/* ---- blocks of 256 ---- */

/* Scales 16, quants 64 (two bits; bytes [32 (g / 4), ...) shifted by 2 (g % 4)), d, dmin. */
DEQUANTIZE_FN void dequantize_q2_k(const uint8_t *b, uint32_t g, float *out) {
    float d = dequantize_f16(b + 80), dmin = dequantize_f16(b + 82);
    const uint8_t *q = b + 16 + 32 * (g / 4);
    for (int half = 0; half < 2; half++) {
        uint8_t s = b[2 * g + (uint32_t)half];
        float dl = ROUNDED_MUL(d, (float)(s & 15)), ml = ROUNDED_MUL(dmin, (float)(s >> 4));
        for (int i = 16 * half; i < 16 * half + 16; i++)
            out[i] = ROUNDED_SUB(ROUNDED_MUL(dl, (float)(q[i] >> 2 * (g % 4) & 3)), ml);
    }
}

/* High bits 32, quants 64, scales 12 (six bits each), d. */
DEQUANTIZE_FN void dequantize_q3_k(const uint8_t *b, uint32_t g, float *out) {
    float d = dequantize_f16(b + 108);
    const uint8_t *q = b + 32 + 32 * (g / 4), *scales = b + 96;
    for (uint32_t half = 0; half < 2; half++) {
        uint32_t j = 2 * g + half;
        int low = scales[j % 8] >> (j < 8 ? 0 : 4) & 15,
            high = scales[8 + j % 4] >> 2 * (j / 4) & 3;
        float dl = ROUNDED_MUL(d, (float)((low | high << 4) - 32));
        for (uint32_t i = 16 * half; i < 16 * half + 16; i++)
            out[i] = ROUNDED_MUL(
                dl, (float)((int)(q[i] >> 2 * (g % 4) & 3) - ((b[i] >> g & 1) ? 0 : 4)));
    }
}

/* Scale and minimum of sub-block g, six bits each in 12 bytes. */
DEQUANTIZE_FN void dequantize_k_scale(const uint8_t *s, uint32_t g, uint8_t *scale,
                                      uint8_t *minimum) {
    if (g < 4) {
        *scale = s[g] & 63;
        *minimum = s[g + 4] & 63;
    } else {
        *scale = (uint8_t)((s[g + 4] & 15) | (s[g - 4] >> 2 & 48));
        *minimum = (uint8_t)((s[g + 4] >> 4) | (s[g] >> 2 & 48));
    }
}

/* Group g of a block of Q4_K: 32 values. */
DEQUANTIZE_FN void dequantize_q4_k(const uint8_t *b, uint32_t g, float *out) {
    uint8_t scale, minimum;
    dequantize_k_scale(b + 4, g, &scale, &minimum);
    float d = ROUNDED_MUL(dequantize_f16(b), (float)scale),
          m = ROUNDED_MUL(dequantize_f16(b + 2), (float)minimum);
    const uint8_t *q = b + 16 + 32 * (g / 2);
    for (int i = 0; i < 32; i++)
        out[i] = ROUNDED_SUB(ROUNDED_MUL(d, (float)(q[i] >> 4 * (g % 2) & 15)), m);
}

/* Group g of a block of Q5_K: 32 values. */
DEQUANTIZE_FN void dequantize_q5_k(const uint8_t *b, uint32_t g, float *out) {
    uint8_t scale, minimum;
    dequantize_k_scale(b + 4, g, &scale, &minimum);
    float d = ROUNDED_MUL(dequantize_f16(b), (float)scale),
          m = ROUNDED_MUL(dequantize_f16(b + 2), (float)minimum);
    const uint8_t *high = b + 16, *q = b + 48 + 32 * (g / 2);
    for (int i = 0; i < 32; i++)
        out[i] = ROUNDED_SUB(
            ROUNDED_MUL(d, (float)((q[i] >> 4 * (g % 2) & 15) | (high[i] >> g & 1) << 4)), m);
}

/* Low bits 128, high bits 64, scales 16, d. */
DEQUANTIZE_FN void dequantize_q6_k(const uint8_t *b, uint32_t g, float *out) {
    float d = dequantize_f16(b + 208);
    const uint8_t *low = b + 64 * (g / 4) + 32 * (g % 2), *high = b + 128 + 32 * (g / 4);
    for (uint32_t half = 0; half < 2; half++) {
        float dl = ROUNDED_MUL(d, (float)(int8_t)b[192 + 2 * g + half]);
        for (uint32_t i = 16 * half; i < 16 * half + 16; i++) {
            int q = (low[i] >> 4 * (g % 4 / 2) & 15) | (high[i] >> 2 * (g % 4) & 3) << 4;
            out[i] = ROUNDED_MUL(dl, (float)(q - 32));
        }
    }
}

/* Group g of a block of IQ4_XS: 32 values. */
DEQUANTIZE_FN void dequantize_iq4_xs(const uint8_t *b, uint32_t g, float *out) {
    int low = b[4 + g / 2] >> 4 * (g % 2) & 15, high = (int)(load_u16(b + 2) >> 2 * g & 3);
    dequantize_iq4(b + 8 + 16 * g, ROUNDED_MUL(dequantize_f16(b), (float)((low | high << 4) - 32)),
                   out);
}

/* Base 3 digit n of a byte, highest first: 0, 1, 2. */
DEQUANTIZE_FN int dequantize_trit(uint8_t byte, uint32_t n) {
    uint32_t power = n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81;
    return (int)((byte * power & 255) * 3 >> 8);
}
/* 32 bytes of 5 digits each (values 0..159), 16 of 5 (160..239), 4 of 4 (240..255), d. */
DEQUANTIZE_FN void dequantize_tq1_0(const uint8_t *b, uint32_t g, float *out) {
    float d = dequantize_f16(b + 52);
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t v = 32 * g + i;
        int digit = v < 160   ? dequantize_trit(b[v % 32], v / 32)
                    : v < 240 ? dequantize_trit(b[32 + v % 16], (v - 160) / 16)
                              : dequantize_trit(b[48 + v % 4], (v - 240) / 4);
        out[i] = ROUNDED_MUL(d, (float)(digit - 1));
    }
}

/* Group g of a block of TQ2_0: 32 values. */
DEQUANTIZE_FN void dequantize_tq2_0(const uint8_t *b, uint32_t g, float *out) {
    float d = dequantize_f16(b + 64);
    const uint8_t *q = b + 32 * (g / 4);
    for (int i = 0; i < 32; i++)
        out[i] = ROUNDED_MUL(d, (float)((int)(q[i] >> 2 * (g % 4) & 3) - 1));
}

/* Group g of a block of Q1_0: 128 signs, lowest bit first; a set bit is +d. */
DEQUANTIZE_FN void dequantize_q1_0(const uint8_t *b, uint32_t g, float *out) {
    float d = dequantize_f16(b);
    uint32_t signs = load_u32(b + 2 + 4 * g);
    for (uint32_t i = 0; i < 32; i++)
        out[i] = signs >> i & 1 ? d : -d;
}

/* ---- blocks of 256 by grids ---- */

/* Seven signs and the eighth that makes their number even. */
DEQUANTIZE_FN uint32_t dequantize_even_signs(uint32_t s) {
    uint32_t parity = s ^ s >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return s | (parity & 1) << 7;
}

/* Eight values of a grid of {8, 25, 43}, times db, with signs. */
DEQUANTIZE_FN void dequantize_grid8(uint32_t word, uint32_t signs, float db, float *out) {
    for (int i = 0; i < 8; i++) {
        uint32_t digit = word >> 2 * i & 3;
        float v = ROUNDED_MUL(db, digit == 0 ? 8.0f : digit == 1 ? 25.0f : 43.0f);
        out[i] = signs >> i & 1 ? -v : v;
    }
}

/* Group g of a block of IQ2_XXS: 32 values. */
DEQUANTIZE_FN void dequantize_iq2_xxs(const uint8_t *b, uint32_t g, float *out) {
    const uint8_t *q = b + 2 + 8 * g;
    uint32_t rest = load_u32(q + 4);
    float db =
        ROUNDED_MUL(ROUNDED_MUL(dequantize_f16(b), ROUNDED_ADD(0.5f, (float)(rest >> 28))), 0.25f);
    for (int j = 0; j < 4; j++)
        dequantize_grid8(IQ2_XXS_GRID[q[j]], dequantize_even_signs(rest >> 7 * j & 127), db,
                         out + 8 * j);
}

/* Group g of a block of IQ2_XS: 32 values. */
DEQUANTIZE_FN void dequantize_iq2_xs(const uint8_t *b, uint32_t g, float *out) {
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t q = load_u16(b + 2 + 8 * g + 2 * j), scale = b[66 + g] >> 4 * (j / 2) & 15;
        float db =
            ROUNDED_MUL(ROUNDED_MUL(dequantize_f16(b), ROUNDED_ADD(0.5f, (float)scale)), 0.25f);
        dequantize_grid8(IQ2_XS_GRID[q & 511], dequantize_even_signs(q >> 9), db, out + 8 * j);
    }
}

/* Group g of a block of IQ2_S: 32 values. */
DEQUANTIZE_FN void dequantize_iq2_s(const uint8_t *b, uint32_t g, float *out) {
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t q = b[2 + 4 * g + j] | (uint32_t)(b[66 + g] >> 2 * j & 3) << 8,
                 scale = b[74 + g] >> 4 * (j / 2) & 15;
        float db =
            ROUNDED_MUL(ROUNDED_MUL(dequantize_f16(b), ROUNDED_ADD(0.5f, (float)scale)), 0.25f);
        dequantize_grid8(IQ2_S_GRID[q], b[34 + 4 * g + j], db, out + 8 * j);
    }
}

/* Group g of a block of IQ3_XXS: 32 values. */
DEQUANTIZE_FN void dequantize_iq3_xxs(const uint8_t *b, uint32_t g, float *out) {
    uint32_t rest = load_u32(b + 66 + 4 * g);
    float db =
        ROUNDED_MUL(ROUNDED_MUL(dequantize_f16(b), ROUNDED_ADD(0.5f, (float)(rest >> 28))), 0.5f);
    for (uint32_t j = 0; j < 8; j++) {
        uint32_t word = IQ3_XXS_GRID[b[2 + 8 * g + j]],
                 signs = dequantize_even_signs(rest >> 7 * (j / 2) & 127) >> 4 * (j % 2);
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t digit = word >> 4 * i & 7;
            float v = ROUNDED_MUL(db, digit == 7 ? 62.0f : (float)(8 * digit + 4));
            out[4 * j + i] = signs >> i & 1 ? -v : v;
        }
    }
}

/* Group g of a block of IQ3_S: 32 values. */
DEQUANTIZE_FN void dequantize_iq3_s(const uint8_t *b, uint32_t g, float *out) {
    uint32_t scale = b[106 + g / 2] >> 4 * (g % 2) & 15;
    float db = ROUNDED_MUL(dequantize_f16(b), (float)(1 + 2 * scale));
    for (uint32_t j = 0; j < 8; j++) {
        uint32_t word = IQ3_S_GRID[b[2 + 8 * g + j] | (uint32_t)(b[66 + g] >> j & 1) << 8],
                 signs = b[74 + 4 * g + j / 2] >> 4 * (j % 2);
        for (uint32_t i = 0; i < 4; i++) {
            float v = ROUNDED_MUL(db, (float)(2 * (word >> 4 * i & 7) + 1));
            out[4 * j + i] = signs >> i & 1 ? -v : v;
        }
    }
}

/* Eight values of {-1, 0, 1} plus delta, times dl. */
DEQUANTIZE_FN void dequantize_grid1(uint32_t word, float delta, float dl, float *out) {
    for (int i = 0; i < 8; i++)
        out[i] = ROUNDED_MUL(dl, ROUNDED_ADD((float)((int)(word >> 2 * i & 3) - 1), delta));
}

/* Group g of a block of IQ1_S: 32 values. */
DEQUANTIZE_FN void dequantize_iq1_s(const uint8_t *b, uint32_t g, float *out) {
    uint32_t high = load_u16(b + 34 + 2 * g);
    float dl = ROUNDED_MUL(dequantize_f16(b), (float)(2 * (high >> 12 & 7) + 1)),
          delta = high & 0x8000 ? -0.125f : 0.125f;
    for (uint32_t j = 0; j < 4; j++)
        dequantize_grid1(IQ1_GRID[b[2 + 4 * g + j] | (high >> 3 * j & 7) << 8], delta, dl,
                         out + 8 * j);
}

/* The f16 scale lies in the upper four bits of the four words of scales. */
DEQUANTIZE_FN void dequantize_iq1_m(const uint8_t *b, uint32_t g, float *out) {
    uint32_t h = 0;
    for (int i = 0; i < 4; i++)
        h |= (load_u16(b + 48 + 2 * i) >> 12) << 4 * i;
    float d = dequantize_half(h);
    uint32_t scales = load_u16(b + 48 + 2 * (g / 2));
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t high = b[32 + 2 * g + j / 2] >> 4 * (j % 2),
                 scale = scales >> (6 * (g % 2) + 3 * (j / 2)) & 7;
        float dl = ROUNDED_MUL(d, (float)(2 * scale + 1));
        dequantize_grid1(IQ1_GRID[b[4 * g + j] | (high & 7) << 8], high & 8 ? -0.125f : 0.125f, dl,
                         out + 8 * j);
    }
}

/* ---- types with scales of their own ---- */

DEQUANTIZE_TABLE float NF4_VALUES[16] = {-1.0f,
                                         -0.6961928009986877f,
                                         -0.5250730514526367f,
                                         -0.39491748809814453f,
                                         -0.28444138169288635f,
                                         -0.18477343022823334f,
                                         -0.09105003625154495f,
                                         0.0f,
                                         0.07958029955625534f,
                                         0.16093020141124725f,
                                         0.24611230194568634f,
                                         0.33791524171829224f,
                                         0.44070982933044434f,
                                         0.5626170039176941f,
                                         0.7229568362236023f,
                                         1.0f};

/* The stored number of element idx of a segment, before zero and scale. */
DEQUANTIZE_FN float dequantize_stored(enum storage_type type, const uint8_t *data, size_t idx) {
    switch (type) {
    case STORAGE_F8_E4M3: return dequantize_e4m3(data[idx]);
    case STORAGE_F8_E5M2: return dequantize_e5m2(data[idx]);
    case STORAGE_I8: return (float)(int8_t)data[idx];
    case STORAGE_U8: return (float)data[idx];
    case STORAGE_U4: return (float)(data[idx / 2] >> 4 * (idx % 2) & 15);
    case STORAGE_NF4: return NF4_VALUES[data[idx / 2] >> 4 * (1 - idx % 2) & 15];
    default: return 0;
    }
}

/* Of values [k, k + n) of a segment's row: the end of the run from i on that shares a scale; the
 * zero and the scale. */
DEQUANTIZE_FN uint32_t dequantize_run(const struct matrix_segment *p, uint32_t cols, uint32_t row,
                                      uint32_t k, uint32_t n, uint32_t i, float *zero,
                                      float *scale) {
    const bool flat = p->scale_rows == 0;
    const size_t along = flat ? (size_t)row * cols + k + i : k + i;
    const size_t at = p->groups ? p->groups[k + i] : p->scale_cols ? along / p->scale_cols : 0;
    const size_t place = flat ? at : (size_t)(row / p->scale_rows) * p->scale_stride + at;
    const size_t left = p->groups       ? 1
                        : p->scale_cols ? p->scale_cols - along % p->scale_cols
                                        : n - i;
    *zero = p->zeros ? p->zeros[place] : p->zero;
    *scale = p->scales ? p->scales[place] : 1.0f;
    return left < n - i ? i + (uint32_t)left : n;
}

/* Values [k, k + n) of a row of a segment. */
DEQUANTIZE_FN void dequantize_scaled(enum storage_type type, const struct matrix_segment *p,
                                     uint32_t cols, uint32_t row, uint32_t k, uint32_t n,
                                     float *out) {
    const uint8_t *data = (const uint8_t *)p->data;
    const size_t first = (size_t)row * cols + k;
    for (uint32_t i = 0; i < n;) {
        float zero, scale;
        const uint32_t end = dequantize_run(p, cols, row, k, n, i, &zero, &scale);
        for (; i < end; i++)
            out[i] =
                ROUNDED_MUL(ROUNDED_SUB(dequantize_stored(type, data, first + i), zero), scale);
    }
}

#endif
