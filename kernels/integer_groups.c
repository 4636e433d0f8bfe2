#include "kernels/integer_groups.h"

#include <math.h>

#include "kernels/dequantize.h"
#include "kernels/integers.h"

static bool has_codes(enum storage_type type) {
    switch (type) {
    case STORAGE_Q4_0:
    case STORAGE_Q4_1:
    case STORAGE_Q4_K:
    case STORAGE_IQ4_NL:
    case STORAGE_IQ4_XS:
    case STORAGE_MXFP4:
    case STORAGE_U4: return true;
    default: return false;
    }
}

bool segment_has_codes(const struct matrix *w, const struct matrix_segment *p) {
    return has_codes(segment_type(w, p)) && segment_has_integers(w, p);
}

bool segment_has_groups(const struct matrix *w, const struct matrix_segment *p) {
    if (w->cols % 32)
        return false;
    switch (segment_type(w, p)) {
    case STORAGE_Q5_0:
    case STORAGE_Q5_1:
    case STORAGE_Q5_K:
    case STORAGE_Q6_K:
    case STORAGE_Q8_0:
    case STORAGE_I8:
    case STORAGE_U8:
    case STORAGE_F8_E4M3:
    case STORAGE_F8_E5M2: return true;
    default: return segment_has_codes(w, p);
    }
}

/* ---- codes ---- */

/* value = scale * level - minimum = per_step * unit * x + middle, x the level or 2 level - 15. */
enum level_kind { LEVELS_SIGNED, LEVELS_UP, LEVELS_IQ4, LEVELS_MXFP4, LEVEL_KINDS };
#define UP_16(X)                                                                                   \
    X(0), X(1), X(2), X(3), X(4), X(5), X(6), X(7), X(8), X(9), X(10), X(11), X(12), X(13), X(14), \
        X(15)
#define SIGNED_STEP(i) (i - 8) * 16
#define UP_STEP(i)     (2 * i - 15) * 9
static const struct {
    int16_t steps[16];
    int unit;        /* steps = unit * x */
    float low, high; /* levels */
} LEVELS[LEVEL_KINDS] = {
    [LEVELS_SIGNED] = {{UP_16(SIGNED_STEP)}, 16, -8, 7},
    [LEVELS_UP] = {{UP_16(UP_STEP)}, 9, 0, 15},
    [LEVELS_IQ4] = {{IQ4_LEVELS}, 1, -127, 113},
    [LEVELS_MXFP4] = {{0, 11, 22, 33, 44, 66, 88, 132, 0, -11, -22, -33, -44, -66, -88, -132},
                      11,
                      -12,
                      12},
};

static enum level_kind level_kind(enum storage_type type) {
    switch (type) {
    case STORAGE_Q4_0: return LEVELS_SIGNED;
    case STORAGE_IQ4_NL:
    case STORAGE_IQ4_XS: return LEVELS_IQ4;
    case STORAGE_MXFP4: return LEVELS_MXFP4;
    default: return LEVELS_UP;
    }
}

const int16_t *group_steps(enum storage_type type) {
    return LEVELS[level_kind(type)].steps;
}

/* A block of 32: its nibbles as code_group has them, value = scale * level - minimum. */
struct code_block {
    float scale, minimum;
    uint8_t nibbles[16];
};

static void k_block(const uint8_t *b, uint32_t g, struct code_block *out) {
    const uint8_t *q = b + 16 + 32 * (g / 2);
    uint32_t shift = 4 * (g % 2);
    uint8_t scale, minimum;
    dequantize_k_scale(b + 4, g, &scale, &minimum);
    out->scale = dequantize_f16(b) * (float)scale;
    out->minimum = dequantize_f16(b + 2) * (float)minimum;
    for (uint32_t i = 0; i < 16; i++)
        out->nibbles[i] = (uint8_t)((q[i] >> shift & 15) | (q[16 + i] >> shift & 15) << 4);
}
static float xs_scale(const uint8_t *b, uint32_t g) {
    return dequantize_f16(b) *
           (float)(((b[4 + g / 2] >> 4 * (g % 2) & 15) | (int)(load_u16(b + 2) >> 2 * g & 3) << 4) -
                   32);
}
static void scaled_block(const struct matrix *w, const struct matrix_segment *p, uint32_t row,
                         uint32_t block, struct code_block *out) {
    const uint8_t *q = (const uint8_t *)p->data + ((size_t)row * w->cols + 32 * block) / 2;
    size_t place = (size_t)(row / p->scale_rows) * p->scale_stride +
                   (p->scale_cols ? 32 * block / p->scale_cols : 0);
    out->scale = p->scales ? p->scales[place] : 1;
    out->minimum = (p->zeros ? p->zeros[place] : p->zero) * out->scale;
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t shift = 4 * (i % 2);
        out->nibbles[i] = (uint8_t)((q[i / 2] >> shift & 15) | (q[8 + i / 2] >> shift & 15) << 4);
    }
}

static void code_block(const struct matrix *w, const struct matrix_segment *p, uint32_t row,
                       uint32_t block, struct code_block *out) {
    enum storage_type type = segment_type(w, p);
    if (type == STORAGE_U4) {
        scaled_block(w, p, row, block, out);
        return;
    }
    uint32_t a_block = storage_block(type) / 32, g = block % a_block, at = 2;
    const uint8_t *b = (const uint8_t *)p->data + (size_t)row * storage_bytes(type, w->cols) +
                       block / a_block * storage_bytes(type, storage_block(type));
    out->minimum = 0;
    switch (type) {
    case STORAGE_Q4_K: k_block(b, g, out); return;
    case STORAGE_IQ4_XS:
        out->scale = xs_scale(b, g);
        at = 8 + 16 * g;
        break;
    case STORAGE_MXFP4:
        out->scale = dequantize_mxfp4_scale(b);
        at = 1;
        break;
    case STORAGE_Q4_1:
        out->minimum = -dequantize_f16(b + 2);
        at = 4;
        /* fall through */
    default: out->scale = dequantize_f16(b);
    }
    memcpy(out->nibbles, b + at, 16);
}

/* NaN stays. */
static float larger(float a, float most) {
    return a > most || isnan(a) ? a : most;
}

uint16_t group_scale(float most, float top) {
    float scale = most / top;
    uint32_t bits;
    if (!isfinite(most))
        return 0x7fc0;
    if (scale < 0x1p-100f)
        return 0;
    memcpy(&bits, &scale, 4);
    return (uint16_t)((bits + 0xffff) >> 16);
}

void segment_codes(const struct matrix *w, const struct matrix_segment *p, uint32_t row,
                   uint32_t group, struct code_group *out) {
    enum level_kind kind = level_kind(segment_type(w, p));
    uint32_t first = group * GROUP_BLOCKS,
             count = MIN(w->cols / 32 - first, (uint32_t)GROUP_BLOCKS);
    struct code_block blocks[GROUP_BLOCKS];
    float most = 0;
    memset(out, 0, sizeof *out);
    for (uint32_t b = 0; b < count; b++) {
        code_block(w, p, row, first + b, &blocks[b]);
        float low = fabsf(blocks[b].scale * LEVELS[kind].low - blocks[b].minimum),
              high = fabsf(blocks[b].scale * LEVELS[kind].high - blocks[b].minimum);
        most = larger(low, most);
        most = larger(high, most);
    }
    out->scale = group_scale(most, 126);
    float inverse = out->scale && isfinite(most) ? 1 / bf16_to_f32(out->scale) : 0;
    for (uint32_t b = 0; b < count; b++) {
        const struct code_block *in = &blocks[b];
        float slope = in->scale, middle = -in->minimum;
        if (kind == LEVELS_UP) {
            slope *= 0.5f;
            middle += 15 * slope;
        }
        memcpy(out->nibbles[b], in->nibbles, 16);
        if (inverse == 0)
            continue;
        out->slope[b] = (int8_t)lrintf(slope * inverse * (128.0f / (float)LEVELS[kind].unit));
        out->offset[b] = (int8_t)lrintf(middle * inverse);
    }
}

static int8_t code_value(const struct code_group *g, const int16_t *steps, uint32_t k) {
    uint32_t b = k / 32, code = g->nibbles[b][k % 16] >> (k % 32 < 16 ? 0 : 4) & 15;
    return (int8_t)(((steps[code] * g->slope[b] + 64) >> 7) + g->offset[b]);
}

/* ---- any type ---- */

uint16_t segment_group(const struct matrix *w, const struct matrix_segment *p, uint32_t row,
                       uint32_t group, int8_t values[GROUP_COLS]) {
    uint32_t first = group * GROUP_COLS, count = MIN(w->cols - first, (uint32_t)GROUP_COLS);
    if (segment_has_codes(w, p)) {
        struct code_group codes;
        segment_codes(w, p, row, group, &codes);
        for (uint32_t k = 0; k < GROUP_COLS; k++)
            values[k] = code_value(&codes, group_steps(segment_type(w, p)), k);
        return codes.scale;
    }
    struct matrix alone = {.type = segment_type(w, p),
                           .rows = p->rows,
                           .cols = w->cols,
                           .segment_count = 1,
                           .segments = {*p}};
    float x[GROUP_COLS] = {0}, most = 0;
    matrix_dequantize(&alone, row, first, count, x);
    for (uint32_t k = 0; k < count; k++)
        most = larger(fabsf(x[k]), most);
    uint16_t scale = group_scale(most, 127);
    float inverse = scale && isfinite(most) ? 1 / bf16_to_f32(scale) : 0;
    for (uint32_t k = 0; k < GROUP_COLS; k++)
        values[k] = inverse != 0 ? (int8_t)lrintf(x[k] * inverse) : 0;
    return scale;
}

float group_of_activations(const float *x, uint32_t count, int8_t values[GROUP_COLS]) {
    float most = 0;
    bool finite = true;
    for (uint32_t k = 0; k < count; k++) {
        finite = finite && isfinite(x[k]);
        most = fabsf(x[k]) > most ? fabsf(x[k]) : most;
    }
    float factor = finite && most >= 0x1p-100f ? 127.0f / most : 0;
    for (uint32_t k = 0; k < GROUP_COLS; k++)
        values[k] = factor != 0 && k < count ? (int8_t)lrintf(x[k] * factor) : 0;
    return !finite ? NAN : factor != 0 ? most / 127.0f : 0;
}
