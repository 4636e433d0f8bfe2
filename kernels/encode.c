#include "kernels/encode.h"

#include <math.h>

bool storage_can_encode(enum storage_type type) {
    return storage_is_plain(type) || (type >= STORAGE_Q4_0 && type <= STORAGE_Q6_K);
}

static void put_f16(uint8_t *out, float v) {
    uint16_t h = f32_to_f16(v);
    memcpy(out, &h, 2);
}
static float rounded_f16(float v) {
    return f16_to_f32(f32_to_f16(v));
}
static int clamp(int v, int low, int high) {
    return v < low ? low : v > high ? high : v;
}
static float inverse(float d) {
    return d != 0 ? 1 / d : 0;
}

/* ---- blocks of 32 ---- */

/* The value of largest magnitude, the first of equals. */
static float extreme(const float *x, int n) {
    float best = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(best))
            best = x[i];
    return best;
}

static void encode_q8_0(const float *x, uint8_t *out) {
    float d = fabsf(extreme(x, 32)) / 127, id = inverse(d);
    put_f16(out, d);
    for (int i = 0; i < 32; i++)
        out[2 + i] = (uint8_t)(int8_t)roundf(x[i] * id);
}

/* bits 4, 5; centred: from -2^(bits - 1), else with a minimum. */
static void encode_32(const float *x, uint8_t *out, int bits, bool centred) {
    int top = (1 << bits) - 1, middle = 1 << (bits - 1);
    float low = x[0], high = x[0];
    for (int i = 1; i < 32; i++) {
        low = MIN(low, x[i]);
        high = MAX(high, x[i]);
    }
    float d = centred ? extreme(x, 32) / (float)-middle : (high - low) / (float)top,
          id = inverse(d);
    uint32_t upper = 0;
    uint8_t *q = out + (centred ? 2 : 4) + (bits == 5 ? 4 : 0);
    put_f16(out, d);
    if (!centred)
        put_f16(out + 2, low);
    for (int i = 0; i < 32; i++) {
        float v = centred ? x[i] * id + ((float)middle + 0.5f) : (x[i] - low) * id + 0.5f;
        int n = clamp((int)v, 0, top);
        upper |= (uint32_t)(n >> 4) << i;
        if (i < 16)
            q[i] = (uint8_t)(n & 15);
        else
            q[i - 16] = (uint8_t)(q[i - 16] | (n & 15) << 4);
    }
    if (bits == 5)
        memcpy(q - 4, &upper, 4);
}

static void encode_q4_0(const float *x, uint8_t *out) {
    encode_32(x, out, 4, true);
}
static void encode_q4_1(const float *x, uint8_t *out) {
    encode_32(x, out, 4, false);
}
static void encode_q5_0(const float *x, uint8_t *out) {
    encode_32(x, out, 5, true);
}
static void encode_q5_1(const float *x, uint8_t *out) {
    encode_32(x, out, 5, false);
}

/* ---- the best scale of a few values ---- */

/* x ~ scale * q, q in [-top, top - 1]: the scale of least squared error among several. */
static float fit_centred(const float *x, int n, int top) {
    float most = extreme(x, n), best_scale = 0;
    double best = -1;
    if (most == 0)
        return 0;
    for (int step = -9; step <= 9; step++) {
        float id = -((float)top + 0.1f * (float)step) / most;
        double qx = 0, qq = 0;
        for (int i = 0; i < n; i++) {
            int q = clamp((int)rintf(x[i] * id), -top, top - 1);
            qx += (double)q * x[i];
            qq += (double)q * q;
        }
        if (qq > 0 && qx * qx / qq > best) { /* the error is sum x^2 - qx^2 / qq */
            best = qx * qx / qq;
            best_scale = (float)(qx / qq);
        }
    }
    return best_scale;
}

/* x ~ scale * q - minimum, q in [0, top], minimum >= 0. */
static float fit_affine(const float *x, int n, int top, float *minimum) {
    float low = 0, high = x[0], best_scale = 0;
    double best = INFINITY;
    for (int i = 0; i < n; i++) {
        low = MIN(low, x[i]);
        high = MAX(high, x[i]);
    }
    *minimum = -low;
    if (high <= low)
        return 0;
    for (int step = -10; step <= 10; step++) {
        float id = ((float)top + 0.1f * (float)step) / (high - low);
        double q1 = 0, q2 = 0, qx = 0, x1 = 0, error = 0;
        for (int i = 0; i < n; i++) {
            int q = clamp((int)rintf((x[i] - low) * id), 0, top);
            q1 += q;
            q2 += (double)q * q;
            qx += (double)q * x[i];
            x1 += x[i];
        }
        double det = n * q2 - q1 * q1, scale = det > 0 ? (n * qx - q1 * x1) / det : 0,
               offset = det > 0 ? (q2 * x1 - q1 * qx) / det : 0;
        if (offset > 0) {
            offset = 0;
            scale = q2 > 0 ? qx / q2 : 0;
        }
        for (int i = 0; i < n; i++) {
            int q = clamp((int)rintf((x[i] - low) * id), 0, top);
            double e = scale * q + offset - x[i];
            error += e * e;
        }
        if (scale > 0 && error < best) {
            best = error;
            best_scale = (float)scale;
            *minimum = (float)-offset;
        }
    }
    return best_scale;
}

/* ---- blocks of 256 ---- */

/* Scales and minima of `count` sub-blocks as multiples in [0, top] of *d, *dmin (rounded to
 * f16). */
static void fit_block(const float *x, int count, int top_q, int top, uint8_t *scale,
                      uint8_t *minimum, float *d, float *dmin) {
    float scales[16], minima[16], most = 0, lowest = 0;
    int n = 256 / count;
    for (int j = 0; j < count; j++) {
        scales[j] = fit_affine(x + n * j, n, top_q, &minima[j]);
        most = MAX(most, scales[j]);
        lowest = MAX(lowest, minima[j]);
    }
    *d = rounded_f16(most / (float)top);
    *dmin = rounded_f16(lowest / (float)top);
    for (int j = 0; j < count; j++) {
        scale[j] = (uint8_t)clamp((int)rintf(scales[j] * inverse(*d)), 0, top);
        minimum[j] = (uint8_t)clamp((int)rintf(minima[j] * inverse(*dmin)), 0, top);
    }
}

static int quant(float x, float d, float m, int top) {
    return clamp((int)rintf((x + m) * inverse(d)), 0, top);
}

static void encode_q2_k(const float *x, uint8_t *out) {
    uint8_t scale[16], minimum[16];
    float d, dmin;
    fit_block(x, 16, 3, 15, scale, minimum, &d, &dmin);
    memset(out, 0, 84);
    put_f16(out + 80, d);
    put_f16(out + 82, dmin);
    for (int j = 0; j < 16; j++) {
        out[j] = (uint8_t)(scale[j] | minimum[j] << 4);
        for (int i = 0; i < 16; i++) {
            int v = 16 * j + i, q = quant(x[v], d * scale[j], dmin * minimum[j], 3);
            out[16 + v / 128 * 32 + v % 32] |= (uint8_t)(q << v % 128 / 32 * 2);
        }
    }
}

/* Scales and minima of Q4_K, Q5_K: eight of six bits each. */
static void put_k_scales(uint8_t *s, const uint8_t *scale, const uint8_t *minimum) {
    for (int j = 0; j < 4; j++) {
        s[j] = (uint8_t)(scale[j] | (scale[j + 4] >> 4) << 6);
        s[j + 4] = (uint8_t)(minimum[j] | (minimum[j + 4] >> 4) << 6);
        s[j + 8] = (uint8_t)((scale[j + 4] & 15) | (minimum[j + 4] & 15) << 4);
    }
}

static void encode_q45_k(const float *x, uint8_t *out, int bits) {
    uint8_t scale[8], minimum[8], *q = out + (bits == 5 ? 48 : 16);
    float d, dmin;
    fit_block(x, 8, (1 << bits) - 1, 63, scale, minimum, &d, &dmin);
    memset(out, 0, bits == 5 ? 176 : 144);
    put_f16(out, d);
    put_f16(out + 2, dmin);
    put_k_scales(out + 4, scale, minimum);
    for (int v = 0; v < 256; v++) {
        int n = quant(x[v], d * scale[v / 32], dmin * minimum[v / 32], (1 << bits) - 1);
        q[v / 64 * 32 + v % 32] |= (uint8_t)((n & 15) << v / 32 % 2 * 4);
        if (bits == 5)
            out[16 + v % 32] |= (uint8_t)(n >> 4 << v / 32);
    }
}
static void encode_q4_k(const float *x, uint8_t *out) {
    encode_q45_k(x, out, 4);
}
static void encode_q5_k(const float *x, uint8_t *out) {
    encode_q45_k(x, out, 5);
}

/* Sixteen scales as signed multiples in [-top, top - 1] of *d. */
static void fit_scales(const float *x, int top_q, int top, int *scale, float *d) {
    float scales[16];
    for (int j = 0; j < 16; j++)
        scales[j] = fit_centred(x + 16 * j, 16, top_q);
    *d = rounded_f16(extreme(scales, 16) / (float)-top);
    for (int j = 0; j < 16; j++)
        scale[j] = clamp((int)rintf(scales[j] * inverse(*d)), -top, top - 1);
}

static void encode_q3_k(const float *x, uint8_t *out) {
    int scale[16];
    float d;
    fit_scales(x, 4, 32, scale, &d);
    memset(out, 0, 110);
    put_f16(out + 108, d);
    for (int j = 0; j < 16; j++) {
        int s = scale[j] + 32;
        out[96 + j % 8] |= (uint8_t)((s & 15) << (j < 8 ? 0 : 4));
        out[104 + j % 4] |= (uint8_t)(s >> 4 << 2 * (j / 4));
    }
    for (int v = 0; v < 256; v++) {
        int q = clamp((int)rintf(x[v] * inverse(d * (float)scale[v / 16])), -4, 3) + 4;
        out[32 + v / 128 * 32 + v % 32] |= (uint8_t)((q & 3) << v % 128 / 32 * 2);
        out[v % 32] |= (uint8_t)(q >> 2 << v / 32);
    }
}

static void encode_q6_k(const float *x, uint8_t *out) {
    int scale[16];
    float d;
    fit_scales(x, 32, 128, scale, &d);
    memset(out, 0, 210);
    put_f16(out + 208, d);
    for (int j = 0; j < 16; j++)
        out[192 + j] = (uint8_t)(int8_t)scale[j];
    for (int v = 0; v < 256; v++) {
        int q = clamp((int)rintf(x[v] * inverse(d * (float)scale[v / 16])), -32, 31) + 32;
        out[v / 128 * 64 + v % 64] |= (uint8_t)((q & 15) << v % 128 / 64 * 4);
        out[128 + v / 128 * 32 + v % 32] |= (uint8_t)(q >> 4 << v % 128 / 32 * 2);
    }
}

/* ---- rows ---- */

static void (*const ENCODERS[STORAGE_TYPE_COUNT])(const float *x, uint8_t *out) = {
    [STORAGE_Q4_0] = encode_q4_0, [STORAGE_Q4_1] = encode_q4_1, [STORAGE_Q5_0] = encode_q5_0,
    [STORAGE_Q5_1] = encode_q5_1, [STORAGE_Q8_0] = encode_q8_0, [STORAGE_Q2_K] = encode_q2_k,
    [STORAGE_Q3_K] = encode_q3_k, [STORAGE_Q4_K] = encode_q4_k, [STORAGE_Q5_K] = encode_q5_k,
    [STORAGE_Q6_K] = encode_q6_k};

static float finite_or_zero(float v) {
    return isfinite(v) ? v : 0;
}

void storage_encode(enum storage_type type, const float *x, size_t count, void *out) {
    uint32_t block = storage_block(type);
    size_t bytes = storage_bytes(type, block);
    CHECK(storage_can_encode(type) && count % block == 0);
    if (storage_is_plain(type)) {
        for (size_t i = 0; i < count; i++)
            storage_put(type, out, i, x[i]);
        return;
    }
    for (size_t i = 0; i < count / block; i++) {
        float clean[256];
        for (uint32_t k = 0; k < block; k++)
            clean[k] = finite_or_zero(x[i * block + k]);
        ENCODERS[type](clean, (uint8_t *)out + i * bytes);
    }
}

void storage_encode_scaled(enum storage_type type, const float *x, uint32_t count, uint32_t group,
                           void *data, float *scales) {
    float top = type == STORAGE_F8_E4M3 ? 448 : type == STORAGE_I8 ? 127 : 7;
    uint8_t *out = data;
    CHECK(type == STORAGE_F8_E4M3 || type == STORAGE_I8 || (type == STORAGE_U4 && count % 2 == 0));
    if (type == STORAGE_U4)
        memset(out, 0, count / 2);
    if (group == 0)
        group = count;
    for (uint32_t first = 0; first < count; first += group) {
        float most = 0;
        uint32_t end = MIN(first + group, count);
        for (uint32_t k = first; k < end; k++)
            most = MAX(most, fabsf(finite_or_zero(x[k])));
        float scale = scales[first / group] = most / top, id = inverse(scale);
        for (uint32_t k = first; k < end; k++) {
            float v = finite_or_zero(x[k]) * id;
            if (type == STORAGE_F8_E4M3)
                out[k] = f32_to_e4m3(v);
            else if (type == STORAGE_I8)
                out[k] = (uint8_t)(int8_t)clamp((int)rintf(v), -127, 127);
            else
                out[k / 2] |= (uint8_t)(clamp((int)rintf(v) + 8, 0, 15) << 4 * (k % 2));
        }
    }
}
