/* How each form of quantized checkpoint stores a matrix (quantized.h lists them). All read
 * little-endian words. */
#include "model/load/quantized_internal.h"

#include "formats/json.h"
#include "kernels/types.h"

#include <math.h>
#include <stdio.h>

static uint32_t word(const struct tensor *t, size_t idx) {
    uint32_t w;
    memcpy(&w, t->data + 4 * idx, 4);
    return w;
}

static void set_value(uint8_t *data, uint32_t bits, size_t idx, uint32_t value) {
    if (bits == 8)
        data[idx] = (uint8_t)value;
    else
        data[idx / 2] = (uint8_t)(data[idx / 2] | value << 4 * (idx % 2));
}

/* A matrix of `bits` a value with groups along its columns: the tensor, and room for its
 * numbers. */
struct grouped {
    uint32_t bits, rows, cols, groups, group_size;
    uint8_t *data;
    float *scales, *zeros; /* [rows, groups] */
    struct tensor_scales *about;
};

static bool is_words(const struct tensor *t, uint64_t rows, uint64_t cols) {
    return t && (t->type == TENSOR_I32 || t->type == TENSOR_U32) && t->dim_count == 2 &&
           t->dims[0] == rows && t->dims[1] == cols;
}

/* Checks sizes and takes memory; data only where `own`. */
static int grouped_init(const struct module *m, struct grouped *g, bool own, bool zeros) {
    if (g->rows == 0 || g->cols == 0 || g->groups == 0 || g->groups > g->cols)
        return module_invalid(m, "scales do not fit the quantized weight");
    g->group_size = (g->cols + g->groups - 1) / g->groups;
    if (m->q->config.group_size > 0 &&
        (g->cols + m->q->config.group_size - 1) / m->q->config.group_size == g->groups)
        g->group_size = (uint32_t)m->q->config.group_size;
    if (g->bits == 4 && g->cols % 2)
        return module_invalid(m, "an odd number of inputs");
    size_t count = (size_t)g->rows * g->groups;
    g->data = own ? module_memory(m, (size_t)g->rows * g->cols * g->bits / 8) : NULL;
    g->scales = module_memory(m, count * sizeof(float));
    g->zeros = zeros ? module_memory(m, count * sizeof(float)) : NULL;
    g->about = module_scales(m);
    if ((own && !g->data) || !g->scales || (zeros && !g->zeros) || !g->about)
        return m->err->code;
    *g->about = (struct tensor_scales){.scales = g->scales,
                                       .zeros = g->zeros,
                                       .count = count,
                                       .rows_each = 1,
                                       .cols_each = g->group_size,
                                       .stride = g->groups,
                                       .zero = g->bits == 4 ? 8 : 128};
    return 0;
}

static void grouped_tensor(const struct grouped *g, const uint8_t *data, struct tensor *out) {
    out->type = g->bits == 4 ? TENSOR_U4 : TENSOR_U8;
    out->dim_count = 2;
    out->dims[0] = g->rows;
    out->dims[1] = g->cols;
    out->data = data;
    out->byte_len = (uint64_t)g->rows * g->cols * g->bits / 8;
    out->scales = g->about;
}

/* The group of each input, unless they follow each other anyway. */
static int read_order(const struct module *m, const struct grouped *g, const struct tensor *order) {
    bool plain = true;
    if (!order)
        return 0;
    if (order->type != TENSOR_I32 || order->dim_count != 1 || order->dims[0] != g->cols)
        return module_invalid(m, "'g_idx' does not fit the weight");
    uint32_t *groups = module_memory(m, g->cols * sizeof *groups);
    if (!groups)
        return m->err->code;
    for (uint32_t k = 0; k < g->cols; k++) {
        groups[k] = word(order, k);
        if (groups[k] >= g->groups)
            return module_invalid(m, "'g_idx' names a group that has no scale");
        plain = plain && groups[k] == k / g->group_size;
    }
    if (!plain)
        g->about->groups = groups;
    return 0;
}

/* Scales [groups, rows] as [rows, groups]. */
static int transpose_scales(const struct module *m, const struct grouped *g,
                            const struct tensor *scales) {
    const float *from = module_floats(m, scales);
    if (!from)
        return m->err->code;
    for (uint32_t n = 0; n < g->rows; n++)
        for (uint32_t k = 0; k < g->groups; k++)
            g->scales[(size_t)n * g->groups + k] = from[(size_t)k * g->rows + n];
    return 0;
}

/* As AWQ and GPTQ store a matrix: scales [groups, rows], and perhaps the group of each input. */
static int grouped_by_inputs(const struct module *m, struct grouped *g, const struct tensor *scales,
                             bool zeros) {
    int rc = grouped_init(m, g, true, zeros);
    if (!rc)
        rc = transpose_scales(m, g, scales);
    return rc ? rc : read_order(m, g, module_find(m, ".g_idx"));
}

/* ---- AWQ: words of eight outputs, in the order 0 2 4 6 1 3 5 7 ---- */

static const uint8_t AWQ_SHIFT[8] = {0, 16, 4, 20, 8, 24, 12, 28}; /* of output n % 8 */

int quantized_awq(const struct module *m, struct tensor *out) {
    const struct tensor *w = module_find(m, ".qweight"), *z = module_find(m, ".qzeros"),
                        *s = module_find(m, ".scales");
    const struct quantized_config *c = &m->q->config;
    if ((c->bits && c->bits != 4) ||
        (c->version[0] && strcmp(c->version, "gemm") && strcmp(c->version, "GEMM")))
        return error_set(m->err, ERR_UNSUPPORTED,
                         "config.json: AWQ of %lld bits, version '%s' is not supported",
                         (long long)c->bits, c->version);
    if (!s || s->dim_count != 2 || w->dim_count != 2 || s->dims[1] > INT32_MAX ||
        w->dims[0] > INT32_MAX)
        return module_invalid(m, "'qweight' without 'scales'");
    struct grouped g = {.bits = 4,
                        .rows = (uint32_t)s->dims[1],
                        .cols = (uint32_t)w->dims[0],
                        .groups = (uint32_t)s->dims[0]};
    if (g.rows % 8 || !is_words(w, g.cols, g.rows / 8) || (z && !is_words(z, g.groups, g.rows / 8)))
        return module_invalid(m, "'qweight', 'qzeros' and 'scales' do not fit each other");
    int rc = grouped_by_inputs(m, &g, s, z != NULL);
    if (rc)
        return rc;
    for (uint32_t k = 0; k < g.cols; k++)
        for (uint32_t n = 0; n < g.rows; n++)
            set_value(g.data, 4, (size_t)n * g.cols + k,
                      word(w, (size_t)k * (g.rows / 8) + n / 8) >> AWQ_SHIFT[n % 8] & 15);
    for (uint32_t k = 0; z && k < g.groups; k++)
        for (uint32_t n = 0; n < g.rows; n++)
            g.zeros[(size_t)n * g.groups + k] =
                (float)(word(z, (size_t)k * (g.rows / 8) + n / 8) >> AWQ_SHIFT[n % 8] & 15);
    grouped_tensor(&g, g.data, out);
    return 0;
}

/* ---- GPTQ: words of eight (four) inputs; zeros in words of outputs, one too small in the first
 * format ---- */

int quantized_gptq(const struct module *m, struct tensor *out) {
    const struct tensor *w = module_find(m, ".qweight"), *z = module_find(m, ".qzeros"),
                        *s = module_find(m, ".scales");
    const struct quantized_config *c = &m->q->config;
    int64_t bits = c->bits ? c->bits : 4;
    bool second = !strcmp(c->checkpoint_format, "gptq_v2");
    if ((bits != 4 && bits != 8) ||
        (c->checkpoint_format[0] && !second && strcmp(c->checkpoint_format, "gptq")))
        return error_set(m->err, ERR_UNSUPPORTED,
                         "config.json: GPTQ of %lld bits, checkpoint_format '%s' is not supported",
                         (long long)bits, c->checkpoint_format);
    uint32_t per_word = (uint32_t)(32 / bits), mask = (1u << bits) - 1;
    if (!s || s->dim_count != 2 || w->dim_count != 2 || s->dims[1] > INT32_MAX ||
        w->dims[0] > INT32_MAX / 8)
        return module_invalid(m, "'qweight' without 'scales'");
    struct grouped g = {.bits = (uint32_t)bits,
                        .rows = (uint32_t)s->dims[1],
                        .cols = (uint32_t)w->dims[0] * per_word,
                        .groups = (uint32_t)s->dims[0]};
    uint32_t zero_words = (g.rows + per_word - 1) / per_word;
    if (!is_words(w, g.cols / per_word, g.rows) || (z && !is_words(z, g.groups, zero_words)))
        return module_invalid(m, "'qweight', 'qzeros' and 'scales' do not fit each other");
    int rc = grouped_by_inputs(m, &g, s, z != NULL);
    if (rc)
        return rc;
    for (uint32_t k = 0; k < g.cols; k++)
        for (uint32_t n = 0; n < g.rows; n++)
            set_value(g.data, g.bits, (size_t)n * g.cols + k,
                      word(w, (size_t)(k / per_word) * g.rows + n) >> bits * (k % per_word) & mask);
    for (uint32_t k = 0; z && k < g.groups; k++)
        for (uint32_t n = 0; n < g.rows; n++)
            g.zeros[(size_t)n * g.groups + k] =
                (float)((word(z, (size_t)k * zero_words + n / per_word) >> bits * (n % per_word) &
                         mask) +
                        (second ? 0 : 1));
    grouped_tensor(&g, g.data, out);
    return 0;
}

/* ---- compressed-tensors: words of inputs, lowest first, stored above their middle ---- */

static int packed_zeros(const struct module *m, const struct grouped *g, const struct tensor *z) {
    uint32_t per_word = 32 / g->bits, mask = (1u << g->bits) - 1;
    if (!is_words(z, (g->rows + per_word - 1) / per_word, g->groups))
        return module_invalid(m, "'weight_zero_point' does not fit the weight");
    for (uint32_t n = 0; n < g->rows; n++)
        for (uint32_t k = 0; k < g->groups; k++)
            g->zeros[(size_t)n * g->groups + k] =
                (float)(word(z, (size_t)(n / per_word) * g->groups + k) >>
                            g->bits * (n % per_word) &
                        mask);
    return 0;
}

int quantized_packed(const struct module *m, struct tensor *out) {
    const struct tensor *w = module_find(m, ".weight_packed"), *s = module_find(m, ".weight_scale"),
                        *shape = module_find(m, ".weight_shape"),
                        *z = module_find(m, ".weight_zero_point");
    int64_t dims[2] = {0, 0};
    if (shape && shape->type == TENSOR_I64 && shape->byte_len == 16)
        memcpy(dims, shape->data, 16);
    if (shape && shape->type == TENSOR_I32 && shape->byte_len == 8)
        for (int i = 0; i < 2; i++)
            dims[i] = word(shape, (size_t)i);
    if (!s || s->dim_count == 0 || s->dim_count > 2 || w->dim_count != 2 || dims[0] <= 0 ||
        dims[1] <= 0 || dims[0] > INT32_MAX || dims[1] > INT32_MAX ||
        (uint64_t)dims[0] != w->dims[0])
        return module_invalid(
            m, "'weight_packed', 'weight_scale' and 'weight_shape' do not fit each other");
    struct grouped g = {.rows = (uint32_t)dims[0],
                        .cols = (uint32_t)dims[1],
                        .groups = s->dim_count == 2 ? (uint32_t)s->dims[1] : 1};
    g.bits = w->dims[1] == ((uint64_t)g.cols + 7) / 8 ? 4 : 8;
    uint32_t per_word = 32 / g.bits;
    if (!is_words(w, g.rows, (g.cols + per_word - 1) / per_word) || s->dims[0] != g.rows)
        return error_set(m->err, ERR_UNSUPPORTED,
                         "'%s': only 4 and 8 bits in words of 32 are supported", w->name);
    bool in_place = g.cols % per_word == 0;
    int rc = grouped_init(m, &g, !in_place, z != NULL);
    const float *scales = rc ? NULL : module_floats(m, s);
    if (!rc && !scales)
        rc = m->err->code;
    if (!rc)
        memcpy(g.scales, scales, (size_t)g.rows * g.groups * sizeof *scales);
    if (!rc && z)
        rc = packed_zeros(m, &g, z);
    if (!rc)
        rc = read_order(m, &g, module_find(m, ".weight_g_idx"));
    if (rc)
        return rc;
    for (uint32_t n = 0; !in_place && n < g.rows; n++)
        for (uint32_t k = 0; k < g.cols; k++)
            set_value(g.data, g.bits, (size_t)n * g.cols + k,
                      word(w, (size_t)n * w->dims[1] + k / per_word) >> g.bits * (k % per_word) &
                          ((1u << g.bits) - 1));
    grouped_tensor(&g, in_place ? w->data : g.data, out);
    return 0;
}

/* ---- fp8 and int8 with scales ---- */

int quantized_scaled(const struct module *m, const struct tensor *weight,
                     const struct tensor *scale, struct tensor *out) {
    struct tensor_scales *about = module_scales(m);
    /* dims behind dim_count are 0 */
    uint64_t rows = weight->dims[0], cols = weight->dims[1], count = 1;
    if (!scale)
        return error_set(m->err, ERR_INVALID, "'%s' is of type %s, but has no 'weight_scale'",
                         weight->name, tensor_type_name(weight->type));
    if (weight->dim_count != 2 || rows > INT32_MAX || cols > INT32_MAX || weight->type == TENSOR_U8)
        return error_set(m->err, ERR_UNSUPPORTED,
                         "'%s' is of type %s with %u dimensions, which is not supported",
                         weight->name, tensor_type_name(weight->type), weight->dim_count);
    float *scales = module_floats(m, scale);
    if (!about || !scales)
        return m->err->code;
    for (uint32_t i = 0; i < scale->dim_count; i++)
        count *= scale->dims[i];
    *about = (struct tensor_scales){.scales = scales, .count = count, .stride = 1};
    const int64_t *b = m->q->config.block;
    uint64_t block_rows = b[0] > 0 ? (uint64_t)b[0] : 128,
             block_cols = b[1] > 0 ? (uint64_t)b[1] : 128;
    if (count == 1) {
        about->rows_each = INT32_MAX;
    } else if (count == rows && (scale->dim_count == 1 || scale->dims[0] == rows)) {
        about->rows_each = 1;
    } else if (scale->dim_count == 2 && scale->dims[0] == (rows + block_rows - 1) / block_rows &&
               scale->dims[1] == (cols + block_cols - 1) / block_cols) {
        about->rows_each = (uint32_t)block_rows;
        about->cols_each = (uint32_t)block_cols;
        about->stride = (uint32_t)scale->dims[1];
    } else {
        return module_invalid(m, "scales fit neither rows nor blocks of the weight");
    }
    size_t name_len = strlen(scale->name);
    for (size_t i = 0; name_len > 4 && !strcmp(scale->name + name_len - 4, ".SCB") && i < count;
         i++)
        scales[i] /= 127;
    *out = (struct tensor){.type = weight->type,
                           .dim_count = 2,
                           .dims = {rows, cols},
                           .data = weight->data,
                           .byte_len = weight->byte_len,
                           .file_idx = weight->file_idx,
                           .scales = about};
    return 0;
}

/* ---- bitsandbytes NF4 ---- */

struct nf4_state {
    int64_t block, nested_block, shape[2];
    double nested_offset;
    bool is_nf4;
};

static bool read_state(struct bytes text, struct nf4_state *s) {
    struct json_reader r;
    enum json_event ev = JSON_ERROR;
    struct bytes kind;
    json_reader_init(&r, text, 0, 0);
    bool ok = json_next(&r) == JSON_OBJECT_BEGIN;
    while (ok && (ev = json_next(&r)) == JSON_KEY) {
        if (bytes_equal(r.text, bytes_str("quant_type"))) {
            ok = json_read_string(&r, &kind);
            s->is_nf4 = ok && bytes_equal(kind, bytes_str("nf4"));
        } else if (bytes_equal(r.text, bytes_str("blocksize"))) {
            ok = json_read_int64(&r, &s->block);
        } else if (bytes_equal(r.text, bytes_str("nested_blocksize"))) {
            ok = json_read_int64(&r, &s->nested_block);
        } else if (bytes_equal(r.text, bytes_str("nested_offset"))) {
            ok = json_read_double(&r, &s->nested_offset);
        } else if (bytes_equal(r.text, bytes_str("shape"))) {
            ok = json_next(&r) == JSON_ARRAY_BEGIN;
            for (int i = 0; ok && i < 2; i++)
                ok = json_next(&r) == JSON_NUMBER && json_number_int64(r.text, &s->shape[i]);
            ok = ok && json_next(&r) == JSON_ARRAY_END;
        } else {
            ok = json_skip(&r);
        }
    }
    json_reader_release(&r);
    return ok && ev == JSON_OBJECT_END;
}

/* The blocks' largest magnitudes; those that are quantized once more are worked out. */
static float *nf4_scales(const struct module *m, const struct nf4_state *s, uint64_t count) {
    const struct tensor *absmax = module_find(m, ".weight.absmax"),
                        *nested = module_find(m, ".weight.nested_absmax"),
                        *map = module_find(m, ".weight.nested_quant_map");
    if (absmax->type != TENSOR_U8) {
        if (absmax->byte_len / tensor_type_size(absmax->type) >= count)
            return module_floats(m, absmax);
        module_invalid(m, "too few block scales");
        return NULL;
    }
    bool fits =
        nested && map && s->nested_block > 0 && map->type == TENSOR_F32 && map->byte_len == 1024 &&
        nested->type == TENSOR_F32 && absmax->byte_len >= count &&
        nested->byte_len / 4 >= (count + (uint64_t)s->nested_block - 1) / (uint64_t)s->nested_block;
    if (!fits) {
        module_invalid(m, "nested scales do not fit");
        return NULL;
    }
    const float *code = module_floats(m, map), *outer = module_floats(m, nested);
    float *out = module_memory(m, count * sizeof *out);
    if (!code || !outer || !out)
        return NULL;
    for (uint64_t i = 0; i < count; i++)
        out[i] =
            code[absmax->data[i]] * outer[i / (uint64_t)s->nested_block] + (float)s->nested_offset;
    return out;
}

int quantized_nf4(const struct module *m, const struct tensor *weight, struct tensor *out) {
    const struct tensor *state = module_find(m, ".weight.quant_state.bitsandbytes__nf4");
    struct nf4_state s = {0};
    module_find(m, ".weight.quant_map"); /* the type's own values */
    if (!state || state->type != TENSOR_U8 ||
        !read_state(bytes_of(state->data, (size_t)state->byte_len), &s) || !s.is_nf4)
        return error_set(m->err, ERR_UNSUPPORTED,
                         "'%s' is quantized by bitsandbytes, but not as NF4", weight->name);
    uint64_t count = 0;
    if (s.block < 2 || s.block > 1 << 20 || s.shape[0] <= 0 || s.shape[1] <= 0 ||
        s.shape[0] > INT32_MAX || s.shape[1] > INT32_MAX || s.shape[1] % 2 ||
        !mul_ok((uint64_t)s.shape[0], (uint64_t)s.shape[1], &count) || weight->type != TENSOR_U8 ||
        weight->byte_len != count / 2)
        return module_invalid(m, "its quant_state does not fit the weight");
    struct tensor_scales *about = module_scales(m);
    uint64_t blocks = (count + (uint64_t)s.block - 1) / (uint64_t)s.block;
    const float *scales = about ? nf4_scales(m, &s, blocks) : NULL;
    if (!scales)
        return m->err->code;
    *about = (struct tensor_scales){
        .scales = scales, .count = blocks, .rows_each = 0, .cols_each = (uint32_t)s.block};
    *out = (struct tensor){.type = TENSOR_NF4,
                           .dim_count = 2,
                           .dims = {(uint64_t)s.shape[0], (uint64_t)s.shape[1]},
                           .data = weight->data,
                           .byte_len = weight->byte_len,
                           .file_idx = weight->file_idx,
                           .scales = about};
    return 0;
}
