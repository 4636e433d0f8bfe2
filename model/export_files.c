/* Files of a conversion: GGUF's keys and data, and .safetensors. */
#include "formats/json.h"
#include "model/export.h"
#include "model/rope.h"

#include <stdio.h>
#include <unistd.h>

/* ---- keys ---- */

struct keys {
    struct gguf_writer *w;
    const char *arch;
};

static void put_int(const struct keys *k, const char *suffix, uint64_t value) {
    char key[GGUF_NAME_MAX];
    snprintf(key, sizeof key, "%s.%s", k->arch, suffix);
    gguf_put_int(k->w, key, GGUF_U32, (int64_t)value);
}

static void put_f32(const struct keys *k, const char *suffix, double value) {
    char key[GGUF_NAME_MAX];
    snprintf(key, sizeof key, "%s.%s", k->arch, suffix);
    gguf_put_f32(k->w, key, value);
}

static void put_text(const struct keys *k, const char *suffix, const char *value) {
    char key[GGUF_NAME_MAX];
    snprintf(key, sizeof key, "%s.%s", k->arch, suffix);
    gguf_put_string(k->w, key, bytes_str(value));
}

static void put_rope(const struct keys *k, const struct rope_spec *r) {
    put_f32(k, "rope.freq_base", r->theta);
    put_int(k, "rope.dimension_count", r->dims);
    if (r->kind != ROPE_LINEAR && r->kind != ROPE_YARN) return;
    put_text(k, "rope.scaling.type", r->kind == ROPE_LINEAR ? "linear" : "yarn");
    put_f32(k, "rope.scaling.factor", r->factor);
    if (r->kind == ROPE_YARN) put_int(k, "rope.scaling.original_context_length", (uint64_t)r->original_context);
}

static void put_attention(const struct keys *k, const struct model_spec *spec) {
    const struct attention_spec *a = &spec->layers[0].attention;
    put_int(k, "attention.head_count", a->heads);
    put_int(k, "attention.head_count_kv", a->kv_heads);
    if (a->head_dim * a->heads != spec->hidden) {
        put_int(k, "attention.key_length", a->head_dim);
        put_int(k, "attention.value_length", a->head_dim);
    }
    if (a->window) put_int(k, "attention.sliding_window", a->window);
    if (a->soft_cap != 0) put_f32(k, "attn_logit_softcapping", (double)a->soft_cap);
    put_f32(k,
            spec->final_norm.kind == NORM_LAYER ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
            (double)spec->final_norm.eps);
    if (spec->rope_count) put_rope(k, &spec->ropes[a->rope_idx]);
}

void export_gguf_keys(struct gguf_writer *w, const struct model *model, const struct gguf_arch *arch,
                      enum storage_type matrices) {
    static const struct {
        enum storage_type type;
        uint32_t file_type; /* llama.cpp's */
    } FILE_TYPES[] = {{STORAGE_F32, 0},   {STORAGE_F16, 1},   {STORAGE_BF16, 32}, {STORAGE_Q4_0, 2},
                      {STORAGE_Q4_1, 3},  {STORAGE_Q8_0, 7},  {STORAGE_Q5_0, 8},  {STORAGE_Q5_1, 9},
                      {STORAGE_Q2_K, 10}, {STORAGE_Q3_K, 12}, {STORAGE_Q4_K, 15}, {STORAGE_Q5_K, 17},
                      {STORAGE_Q6_K, 18}};
    const struct model_spec *spec = &model->spec;
    const struct keys k = {w, arch->name};
    gguf_put_string(w, "general.architecture", bytes_str(arch->name));
    gguf_put_int(w, "general.quantization_version", GGUF_U32, 2);
    for (size_t i = 0; i < ARRAY_LEN(FILE_TYPES); i++)
        if (FILE_TYPES[i].type == matrices) gguf_put_int(w, "general.file_type", GGUF_U32, FILE_TYPES[i].file_type);
    put_int(&k, "block_count", spec->layer_count);
    put_int(&k, "context_length", spec->max_context);
    put_int(&k, "embedding_length", spec->hidden);
    put_int(&k, "feed_forward_length", spec->layers[0].ffn.width);
    put_int(&k, "vocab_size", spec->vocab);
    put_attention(&k, spec);
    if (spec->logit_soft_cap != 0) put_f32(&k, "final_logit_softcapping", (double)spec->logit_soft_cap);
}

/* ---- tensors ---- */

typedef int (*sink_fn)(void *ctx, const void *data, size_t len, struct error *err);

static int write_rows(const struct export_item *item, sink_fn sink, void *ctx, struct error *err) {
    size_t size = export_row_bytes(item);
    float *values = mem_try_alloc(item->cols * sizeof *values);
    void *row = mem_try_alloc(size);
    int rc = values && row ? 0 : error_set(err, ERR_MEMORY, "no memory for a row of '%s'", item->name);
    for (uint32_t i = 0; !rc && i < item->rows; i++) {
        export_row(item, i, values, row);
        rc = sink(ctx, row, size, err);
    }
    mem_free(values);
    mem_free(row);
    return rc;
}

static int gguf_sink(void *ctx, const void *data, size_t len, struct error *err) {
    return gguf_write_data(ctx, data, len, err);
}

/* Llama 3's scaling of frequencies, as factors: GGUF has no keys for it. */
static uint32_t rope_factors(const struct model_spec *spec, float *out) {
    const struct rope_spec *r = spec->rope_count ? &spec->ropes[spec->layers[0].attention.rope_idx] : NULL;
    if (!r || r->kind != ROPE_LLAMA3) return 0;
    struct rope_spec plain = *r;
    float scaled[SPEC_HEAD_DIM_MAX / 2];
    plain.kind = ROPE_DEFAULT;
    rope_inv_freq(r, 1, scaled);
    rope_inv_freq(&plain, 1, out);
    for (uint32_t i = 0; i < r->dims / 2; i++) out[i] /= scaled[i];
    return r->dims / 2;
}

int export_write_gguf(struct gguf_writer *w, const struct model *model, const struct export_plan *plan,
                      struct error *err) {
    float factors[SPEC_HEAD_DIM_MAX / 2];
    uint32_t factor_count = rope_factors(&model->spec, factors);
    uint64_t dims[2] = {factor_count, 0};
    int rc = factor_count ? gguf_put_tensor(w, "rope_freqs.weight", TENSOR_F32, dims, 1, err) : 0;
    for (size_t i = 0; !rc && i < plan->count; i++) {
        const struct export_item *item = &plan->items[i];
        rc = gguf_put_tensor(w, item->name, item->type, item->tensor->dims, item->tensor->dim_count, err);
    }
    if (!rc) rc = gguf_write_begin(w, err);
    if (!rc && factor_count) rc = gguf_write_data(w, factors, factor_count * sizeof *factors, err);
    if (!rc && factor_count) rc = gguf_write_pad(w, err);
    for (size_t i = 0; !rc && i < plan->count; i++) {
        rc = write_rows(&plan->items[i], gguf_sink, w, err);
        if (!rc) rc = gguf_write_pad(w, err);
    }
    return rc ? rc : gguf_write_end(w, err);
}

/* ---- safetensors ---- */

static void add_header(struct buf *header, const struct export_plan *plan) {
    struct json_writer w;
    uint64_t at = 0;
    json_writer_init(&w, header);
    json_begin_object(&w);
    json_key(&w, "__metadata__");
    json_begin_object(&w);
    json_key(&w, "format");
    json_string(&w, "pt");
    json_end_object(&w);
    for (size_t i = 0; i < plan->count; i++) {
        const struct export_item *item = &plan->items[i];
        json_key(&w, item->name);
        json_begin_object(&w);
        json_key(&w, "dtype");
        json_string(&w, tensor_type_name(item->type));
        json_key(&w, "shape");
        json_begin_array(&w);
        for (uint32_t k = 0; k < item->tensor->dim_count; k++) json_uint(&w, item->tensor->dims[k]);
        json_end_array(&w);
        json_key(&w, "data_offsets");
        json_begin_array(&w);
        json_uint(&w, at);
        json_uint(&w, at += item->rows * export_row_bytes(item));
        json_end_array(&w);
        json_end_object(&w);
    }
    json_end_object(&w);
    while (header->len % 8) buf_add_byte(header, ' ');
}

static int file_sink(void *ctx, const void *data, size_t len, struct error *err) {
    return fwrite(data, 1, len, ctx) == len ? 0 : error_set_errno(err, "cannot write the weights");
}

int export_write_safetensors(const char *path, const struct export_plan *plan, struct error *err) {
    struct buf header;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->items[i].type >= TENSOR_SAFETENSORS_COUNT)
            return error_set(err, ERR_UNSUPPORTED, "a .safetensors file has no type %s",
                             tensor_type_name(plan->items[i].type));
    FILE *f = fopen(path, "we");
    if (!f) return error_set_errno(err, "cannot write '%s'", path);
    buf_init(&header, 0);
    add_header(&header, plan);
    uint64_t len = header.len;
    int rc = file_sink(f, &len, 8, err);
    if (!rc) rc = file_sink(f, header.data, header.len, err);
    for (size_t i = 0; !rc && i < plan->count; i++) rc = write_rows(&plan->items[i], file_sink, f, err);
    if (fclose(f) && !rc) rc = error_set_errno(err, "cannot write '%s'", path);
    if (rc) unlink(path);
    buf_release(&header);
    return rc;
}
