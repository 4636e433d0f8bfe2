/* Files of a conversion: GGUF's data, and .safetensors. */
#include "formats/json.h"
#include "model/export.h"
#include "model/rope.h"

#include <stdio.h>
#include <unistd.h>

/* ---- tensors ---- */

typedef int (*sink_fn)(void *ctx, const void *data, size_t len, struct error *err);

static int write_rows(const struct export_item *item, sink_fn sink, void *ctx, struct error *err) {
    size_t size = export_row_bytes(item);
    float *values = mem_try_alloc(2 * (size_t)item->cols * sizeof *values);
    void *row = mem_try_alloc(size);
    int rc = values && row ? 0 : error_set(err, ERR_MEMORY, "no memory for a row of '%s'", item->name);
    for (uint64_t i = 0; !rc && i < (uint64_t)item->planes * item->rows; i++) {
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

/* Factors of frequencies, for which GGUF has tensors: Llama 3's scaling worked out, or LongRoPE's two lists. */
struct factors {
    struct {
        const char *name;
        float values[SPEC_HEAD_DIM_MAX / 2];
    } lists[2];
    uint32_t list_count, count;
};

static void rope_factors(const struct model_spec *spec, struct factors *out) {
    const struct rope_spec *r = export_main_rope(spec);
    *out = (struct factors){.count = r ? r->dims / 2 : 0};
    if (r && r->kind == ROPE_LLAMA3) {
        struct rope_spec plain = *r;
        float scaled[SPEC_HEAD_DIM_MAX / 2];
        plain.kind = ROPE_DEFAULT;
        rope_inv_freq(r, 1, scaled);
        rope_inv_freq(&plain, 1, out->lists[0].values);
        for (uint32_t i = 0; i < out->count; i++) out->lists[0].values[i] /= scaled[i];
        out->lists[0].name = "rope_freqs.weight";
        out->list_count = 1;
    } else if (r && r->kind == ROPE_LONG) {
        memcpy(out->lists[0].values, r->long_factor, out->count * sizeof(float));
        memcpy(out->lists[1].values, r->short_factor, out->count * sizeof(float));
        out->lists[0].name = "rope_factors_long.weight";
        out->lists[1].name = "rope_factors_short.weight";
        out->list_count = 2;
    }
}

int export_write_gguf(struct gguf_writer *w, const struct model *model, const struct export_plan *plan,
                      struct error *err) {
    struct factors factors = {0};
    int rc = 0;
    if (model->spec.names == model->spec.folder_names) rope_factors(&model->spec, &factors); /* else they are there */
    for (uint32_t i = 0; !rc && i < factors.list_count; i++)
        rc = gguf_put_tensor(w, factors.lists[i].name, TENSOR_F32, (uint64_t[]){factors.count}, 1, err);
    for (size_t i = 0; !rc && i < plan->count; i++) {
        const struct export_item *item = &plan->items[i];
        rc = gguf_put_tensor(w, item->name, item->type, item->dims, item->dim_count, err);
    }
    if (!rc) rc = gguf_write_begin(w, err);
    for (uint32_t i = 0; !rc && i < factors.list_count; i++) {
        rc = gguf_write_data(w, factors.lists[i].values, factors.count * sizeof(float), err);
        if (!rc) rc = gguf_write_pad(w, err);
    }
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
        for (uint32_t k = 0; k < item->dim_count; k++) json_uint(&w, item->dims[k]);
        json_end_array(&w);
        json_key(&w, "data_offsets");
        json_begin_array(&w);
        json_uint(&w, at);
        json_uint(&w, at += (uint64_t)item->planes * item->rows * export_row_bytes(item));
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
