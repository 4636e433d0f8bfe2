/* Metadata of a GGUF file: finding keys, reading values. Everything lies in the mapping and was
 * checked at open. */
#include "formats/gguf.h"
#include "formats/gguf_types.h"

#include <stdlib.h>

static const struct {
    uint32_t number;
    enum tensor_type type;
} TYPES[] = {
    {0, TENSOR_F32},      {1, TENSOR_F16},     {2, TENSOR_Q4_0},     {3, TENSOR_Q4_1},
    {6, TENSOR_Q5_0},     {7, TENSOR_Q5_1},    {8, TENSOR_Q8_0},     {10, TENSOR_Q2_K},
    {11, TENSOR_Q3_K},    {12, TENSOR_Q4_K},   {13, TENSOR_Q5_K},    {14, TENSOR_Q6_K},
    {16, TENSOR_IQ2_XXS}, {17, TENSOR_IQ2_XS}, {18, TENSOR_IQ3_XXS}, {19, TENSOR_IQ1_S},
    {20, TENSOR_IQ4_NL},  {21, TENSOR_IQ3_S},  {22, TENSOR_IQ2_S},   {23, TENSOR_IQ4_XS},
    {24, TENSOR_I8},      {25, TENSOR_I16},    {26, TENSOR_I32},     {27, TENSOR_I64},
    {28, TENSOR_F64},     {29, TENSOR_IQ1_M},  {30, TENSOR_BF16},    {34, TENSOR_TQ1_0},
    {35, TENSOR_TQ2_0},   {39, TENSOR_MXFP4},  {41, TENSOR_Q1_0},
};

bool gguf_tensor_type(uint32_t number, enum tensor_type *out) {
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++)
        if (TYPES[i].number == number) {
            *out = TYPES[i].type;
            return true;
        }
    return false;
}

uint32_t gguf_number_of(enum tensor_type type) {
    for (size_t i = 0; i < ARRAY_LEN(TYPES); i++)
        if (TYPES[i].type == type)
            return TYPES[i].number;
    return UINT32_MAX;
}

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key) {
    struct bytes want = bytes_str(key);
    size_t low = 0, high = g->kv_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        struct bytes have = g->kvs[mid].key;
        int order = memcmp(have.data, want.data, MIN(have.len, want.len));
        if (order == 0 && have.len == want.len)
            return &g->kvs[mid];
        if (order < 0 || (order == 0 && have.len < want.len))
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

#define READ(type_)                                                                                \
    type_ v;                                                                                       \
    memcpy(&v, kv->data + idx * sizeof v, sizeof v);

bool gguf_int_at(const struct gguf_kv *kv, uint64_t idx, int64_t *out) {
    if (idx >= kv->count)
        return false;
    switch (kv->type) {
    case GGUF_U8: *out = kv->data[idx]; return true;
    case GGUF_BOOL: *out = kv->data[idx] != 0; return true;
    case GGUF_I8: *out = (int8_t)kv->data[idx]; return true;
    case GGUF_U16: {
        READ(uint16_t) *out = v;
        return true;
    }
    case GGUF_I16: {
        READ(int16_t) *out = v;
        return true;
    }
    case GGUF_U32: {
        READ(uint32_t) *out = v;
        return true;
    }
    case GGUF_I32: {
        READ(int32_t) *out = v;
        return true;
    }
    case GGUF_U64: {
        READ(uint64_t) *out = (int64_t)v;
        return v <= INT64_MAX;
    }
    case GGUF_I64: {
        READ(int64_t) *out = v;
        return true;
    }
    case GGUF_F32:
    case GGUF_F64:
    case GGUF_STRING:
    case GGUF_ARRAY: break;
    }
    return false;
}

bool gguf_double_at(const struct gguf_kv *kv, uint64_t idx, double *out) {
    int64_t i;
    if (idx >= kv->count)
        return false;
    if (kv->type == GGUF_F32) {
        READ(float) *out = (double)v;
        return true;
    }
    if (kv->type == GGUF_F64) {
        READ(double) *out = v;
        return true;
    }
    if (!gguf_int_at(kv, idx, &i))
        return false;
    *out = (double)i;
    return true;
}

static const struct gguf_kv *single(const struct gguf *g, const char *key) {
    const struct gguf_kv *kv = gguf_find(g, key);
    return kv && !kv->is_array ? kv : NULL;
}

bool gguf_int(const struct gguf *g, const char *key, int64_t *out) {
    const struct gguf_kv *kv = single(g, key);
    return kv && gguf_int_at(kv, 0, out);
}

bool gguf_double(const struct gguf *g, const char *key, double *out) {
    const struct gguf_kv *kv = single(g, key);
    return kv && gguf_double_at(kv, 0, out);
}

bool gguf_bool(const struct gguf *g, const char *key, bool *out) {
    const struct gguf_kv *kv = single(g, key);
    if (!kv || kv->type != GGUF_BOOL)
        return false;
    *out = kv->data[0] != 0;
    return true;
}

bool gguf_string(const struct gguf *g, const char *key, struct bytes *out) {
    const struct gguf_kv *kv = single(g, key);
    if (!kv || kv->type != GGUF_STRING)
        return false;
    struct gguf_strings s = gguf_strings_of(kv);
    return gguf_strings_next(&s, out);
}

struct gguf_strings gguf_strings_of(const struct gguf_kv *kv) {
    if (kv->type != GGUF_STRING)
        return (struct gguf_strings){NULL, NULL};
    return (struct gguf_strings){kv->data, kv->data + kv->byte_len};
}

bool gguf_strings_next(struct gguf_strings *s, struct bytes *out) {
    uint64_t len;
    if (s->end - s->at < 8)
        return false;
    memcpy(&len, s->at, 8);
    s->at += 8;
    *out = bytes_of(s->at, (size_t)len);
    s->at += len;
    return true;
}
