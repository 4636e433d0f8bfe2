#include "kernels/integers.h"

#include <math.h>

#include "kernels/dequantize.h"

bool segment_has_integers(const struct matrix *w, const struct matrix_segment *p) {
    if (w->cols % 32)
        return false;
    switch (segment_type(w, p)) {
    case STORAGE_Q4_0:
    case STORAGE_Q4_1:
    case STORAGE_Q5_0:
    case STORAGE_Q5_1:
    case STORAGE_Q8_0:
    case STORAGE_Q4_K:
    case STORAGE_Q5_K:
    case STORAGE_Q6_K:
    case STORAGE_IQ4_NL:
    case STORAGE_IQ4_XS:
    case STORAGE_MXFP4: return true;
    case STORAGE_I8:
        if (p->zeros || p->zero != 0)
            return false;
        /* fall through */
    case STORAGE_U4: return p->scale_rows && p->scale_cols % 32 == 0 && !p->groups;
    default: return false;
    }
}

/* The bytes of a block type that hold columns from 32 * block on, and which 32 of them. */
static const uint8_t *block_of(const struct matrix *w, const struct matrix_segment *p, uint32_t row,
                               uint32_t block, uint32_t *g) {
    enum storage_type type = segment_type(w, p);
    uint32_t a_block = storage_block(type) / 32;
    *g = block % a_block;
    return (const uint8_t *)p->data + (size_t)row * storage_bytes(type, w->cols) +
           block / a_block * storage_bytes(type, storage_block(type));
}

static void low_and_high(const uint8_t *b, int *out) {
    for (uint32_t i = 0; i < 16; i++) {
        out[i] = b[i] & 15;
        out[i + 16] = b[i] >> 4;
    }
}
static void lower(int *values, int by) {
    for (uint32_t i = 0; i < 32; i++)
        values[i] -= by;
}
/* The fifth bit of value i is bit i. */
static void fifth_bits(uint32_t bits, int *out) {
    for (uint32_t i = 0; i < 32; i++)
        out[i] |= (int)(bits >> i & 1) << 4;
}

static void k_integers(const uint8_t *b, uint32_t g, const uint8_t *high, const uint8_t *q,
                       struct integer_block *out) {
    uint8_t scale, minimum;
    dequantize_k_scale(b + 4, g, &scale, &minimum);
    out->scale[0] = dequantize_f16(b) * (float)scale;
    out->minima = true;
    out->minimum = dequantize_f16(b + 2) * (float)minimum;
    for (uint32_t i = 0; i < 32; i++)
        out->values[i] =
            (q[32 * (g / 2) + i] >> 4 * (g % 2) & 15) | (high ? (high[i] >> g & 1) << 4 : 0);
}

static void q6_k_integers(const uint8_t *b, uint32_t g, struct integer_block *out) {
    const uint8_t *low = b + 64 * (g / 4) + 32 * (g % 2), *high = b + 128 + 32 * (g / 4);
    out->span = 16;
    for (uint32_t j = 0; j < 2; j++)
        out->scale[j] = dequantize_f16(b + 208) * (float)(int8_t)b[192 + 2 * g + j];
    for (uint32_t i = 0; i < 32; i++)
        out->values[i] = (low[i] >> 4 * (g % 4 / 2) & 15) | (high[i] >> 2 * (g % 4) & 3) << 4;
    lower(out->values, 32);
}

static void table_integers(const uint8_t *q, const int8_t *table, struct integer_block *out) {
    for (uint32_t i = 0; i < 16; i++) {
        out->values[i] = table[q[i] & 15];
        out->values[i + 16] = table[q[i] >> 4];
    }
}

static void scaled_integers(const struct matrix *w, const struct matrix_segment *p, uint32_t row,
                            uint32_t block, struct integer_block *out) {
    bool nibbles = segment_type(w, p) == STORAGE_U4;
    size_t at = (size_t)row * w->cols + 32 * block,
           place = (size_t)(row / p->scale_rows) * p->scale_stride +
                   (p->scale_cols ? 32 * block / p->scale_cols : 0);
    const uint8_t *data = p->data;
    out->scale[0] = p->scales ? p->scales[place] : 1;
    out->minima = nibbles;
    out->minimum = nibbles ? (p->zeros ? p->zeros[place] : p->zero) * out->scale[0] : 0;
    for (uint32_t i = 0; i < 32; i++)
        out->values[i] =
            nibbles ? data[(at + i) / 2] >> 4 * ((at + i) % 2) & 15 : (int8_t)data[at + i];
}

void segment_integers(const struct matrix *w, const struct matrix_segment *p, uint32_t row,
                      uint32_t block, struct integer_block *out) {
    uint32_t g;
    enum storage_type type = segment_type(w, p);
    *out = (struct integer_block){.span = 32};
    if (storage_is_scaled(type)) {
        scaled_integers(w, p, row, block, out);
        return;
    }
    const uint8_t *b = block_of(w, p, row, block, &g);
    out->scale[0] = dequantize_f16(b);
    switch (type) {
    case STORAGE_Q4_0:
        low_and_high(b + 2, out->values);
        lower(out->values, 8);
        break;
    case STORAGE_Q4_1:
        low_and_high(b + 4, out->values);
        out->minima = true;
        out->minimum = -dequantize_f16(b + 2);
        break;
    case STORAGE_Q5_0:
        low_and_high(b + 6, out->values);
        fifth_bits(load_u32(b + 2), out->values);
        lower(out->values, 16);
        break;
    case STORAGE_Q5_1:
        low_and_high(b + 8, out->values);
        fifth_bits(load_u32(b + 4), out->values);
        out->minima = true;
        out->minimum = -dequantize_f16(b + 2);
        break;
    case STORAGE_Q8_0:
        for (uint32_t i = 0; i < 32; i++)
            out->values[i] = (int8_t)b[2 + i];
        break;
    case STORAGE_Q4_K: k_integers(b, g, NULL, b + 16, out); break;
    case STORAGE_Q5_K: k_integers(b, g, b + 16, b + 48, out); break;
    case STORAGE_Q6_K: q6_k_integers(b, g, out); break;
    case STORAGE_MXFP4:
        out->scale[0] = dequantize_mxfp4_scale(b);
        table_integers(b + 1, MXFP4_VALUES, out);
        break;
    case STORAGE_IQ4_NL: table_integers(b + 2, IQ4_VALUES, out); break;
    default: /* IQ4_XS */
        out->scale[0] *= (float)(((b[4 + g / 2] >> 4 * (g % 2) & 15) |
                                  (int)(load_u16(b + 2) >> 2 * g & 3) << 4) -
                                 32);
        table_integers(b + 8 + 16 * g, IQ4_VALUES, out);
    }
}

void quantize_block(const float *x, int8_t *values, struct int8_scale *out) {
    float most = 0;
    bool finite = true;
    int32_t sums[2] = {0, 0}; /* of the halves */
    for (int i = 0; i < 32; i++) {
        finite &= isfinite(x[i]) != 0;
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    }
    float factor = finite && most >= 0x1p-100f ? 127.0f / most : 0;
    for (int i = 0; i < 32; i++) {
        values[i] = factor != 0 ? (int8_t)rintf(x[i] * factor) : 0;
        sums[i / 16] += values[i];
    }
    out->d = !finite ? NAN : factor != 0 ? most / 127.0f : 0;
    out->first = sums[0];
    out->total = sums[0] + sums[1];
    out->sum = out->d * (float)out->total;
}
