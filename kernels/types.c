#include "kernels/types.h"

#include "kernels/dequantize.h"

static const struct {
    const char *name;
    uint16_t values, bytes;
} TYPES[STORAGE_TYPE_COUNT] = {{"none", 1, 0},
#define TYPE_ROW(symbol, name, values, bytes, kind) {name, values, bytes},
                               STORAGE_TYPES(TYPE_ROW)
#undef TYPE_ROW
};

const char *compute_name(enum compute_type type) {
    static const char *const NAMES[] = {"f32",      "int8",          "bf16",          "int8+bf16",
                                        "int8x128", "int8x128+int8", "int8x128+bf16", "all"};
    if (type & (COMPUTE_FP8 | COMPUTE_FP8_PROMPTS))
        return type & COMPUTE_FP8 ? "fp8" : "fp8-prompts";
    return NAMES[type & 7];
}

const char *storage_name(enum storage_type type) {
    return (unsigned)type < STORAGE_TYPE_COUNT ? TYPES[type].name : "none";
}

enum storage_type storage_parse(const char *name) {
    for (int i = 1; i < STORAGE_TYPE_COUNT; i++)
        if (name && !strcmp(name, TYPES[i].name))
            return (enum storage_type)i;
    return STORAGE_NONE;
}

size_t storage_bytes(enum storage_type type, size_t count) {
    CHECK(type > STORAGE_NONE && type < STORAGE_TYPE_COUNT && count % TYPES[type].values == 0);
    return count / TYPES[type].values * TYPES[type].bytes;
}

uint32_t storage_block(enum storage_type type) {
    return TYPES[type].values;
}

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

float f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 0x3ff;
    if (exponent == 31)
        return float_of(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    float tiny = (float)fraction * 0x1p-24f; /* subnormal: exact */
    return sign ? -tiny : tiny;
}

uint16_t f32_to_f16(float f) {
    uint32_t bits = bits_of(f), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000u)
        return (uint16_t)(sign | 0x7bff); /* would round past 65504 */
    if (magnitude < 0x38800000u) {        /* below 2^-14: a multiple of 2^-24 */
        /* ulp of 0.5 is 2^-24: the addition rounds to nearest even */
        float scaled = float_of(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of(scaled) - bits_of(0.5f)));
    }
    uint32_t odd = (magnitude >> 13) & 1;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

uint16_t f32_to_bf16(float f) {
    uint32_t bits = bits_of(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

uint8_t f32_to_e4m3(float f) {
    return encode_e4m3(f);
}

float storage_get(enum storage_type type, const void *data, size_t idx) {
    float f;
    uint16_t h;
    if (type == STORAGE_F8_E4M3)
        return dequantize_e4m3(((const uint8_t *)data)[idx]);
    if (type == STORAGE_I8)
        return ((const int8_t *)data)[idx];
    if (type == STORAGE_F32) {
        memcpy(&f, (const char *)data + 4 * idx, 4);
        return f;
    }
    CHECK(storage_is_plain(type));
    memcpy(&h, (const char *)data + 2 * idx, 2);
    return type == STORAGE_F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

void storage_put(enum storage_type type, void *data, size_t idx, float value) {
    uint16_t h = type == STORAGE_F16    ? f32_to_f16(value)
                 : type == STORAGE_BF16 ? f32_to_bf16(value)
                                        : 0;
    if (type == STORAGE_F8_E4M3)
        ((uint8_t *)data)[idx] = f32_to_e4m3(value);
    else if (type == STORAGE_F32)
        memcpy((char *)data + 4 * idx, &value, 4);
    else
        memcpy((char *)data + 2 * idx, &h, 2);
}

/* ---- rows of a matrix ---- */

typedef void (*block_fn)(const uint8_t *block, uint32_t g, float *out);
static const block_fn BLOCKS[STORAGE_TYPE_COUNT] = {
#define BLOCK_ROW(symbol, name, values, bytes, lower) [STORAGE_##symbol] = dequantize_##lower,
    STORAGE_BLOCK_TYPES(BLOCK_ROW)
#undef BLOCK_ROW
};

void matrix_dequantize(const struct matrix *w, uint32_t row, uint32_t k, uint32_t n, float *out) {
    const struct matrix_segment *p = w->segments;
    CHECK(row < w->rows && k % 32 == 0 && n <= w->cols - k && (n % 32 == 0 || k + n == w->cols));
    while (row >= p->rows)
        row -= (p++)->rows;
    enum storage_type type = segment_type(w, p);
    if (storage_is_scaled(type)) {
        dequantize_scaled(type, p, w->cols, row, k, n, out);
        return;
    }
    const uint8_t *data = (const uint8_t *)p->data + row * storage_bytes(type, w->cols);
    if (storage_is_plain(type)) {
        for (uint32_t i = 0; i < n; i++)
            out[i] = storage_get(type, data, k + i);
        return;
    }
    for (uint32_t i = 0; i < n; i += 32) {
        uint32_t values = TYPES[type].values;
        BLOCKS[type](data + (k + i) / values * TYPES[type].bytes, (k + i) % values / 32, out + i);
    }
}
