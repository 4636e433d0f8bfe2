/* Files of a conversion: GGUF's data, and .safetensors. */
#include "formats/json.h"
#include "model/convert/export.h"
#include "model/run/rope.h"

#include <stdio.h>
#include <unistd.h>

/* ---- tensors ---- */

typedef int (*sink_fn)(void *ctx, const void *data, size_t len, struct error *err);

static uint64_t bytes_of_item(const struct export_item *item) {
    return (uint64_t)item->planes * item->rows * export_row_bytes(item);
}

static uint64_t bytes_of_plan(const struct export_plan *plan) {
    uint64_t total = 0;
    for (size_t i = 0; i < plan->count; i++)
        total += bytes_of_item(&plan->items[i]);
    return total;
}

/* Item `idx` of the plan; `before`: bytes of those before it, of `total`. */
static int write_rows(const struct export_plan *plan, size_t idx, uint64_t before, uint64_t total,
                      sink_fn sink, void *ctx, struct error *err) {
    const struct export_item *item = &plan->items[idx];
    size_t size = export_row_bytes(item);
    float *values = mem_try_alloc(2 * (size_t)item->cols * sizeof *values);
    void *row = mem_try_alloc(size);
    int rc =
        values && row ? 0 : error_set(err, ERR_MEMORY, "no memory for a row of '%s'", item->name);
    for (uint64_t i = 0; !rc && i < (uint64_t)item->planes * item->rows; i++) {
        export_row(item, i, values, row);
        rc = sink(ctx, row, size, err);
        if (plan->on_progress)
            plan->on_progress(plan->progress_ctx, before + (i + 1) * size, total);
    }
    mem_free(values);
    mem_free(row);
    return rc;
}

static int gguf_sink(void *ctx, const void *data, size_t len, struct error *err) {
    return gguf_write_data(ctx, data, len, err);
}

/* Factors of frequencies, for which GGUF has tensors: Llama 3's scaling worked out, or LongRoPE's
 * two lists. */
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
        for (uint32_t i = 0; i < out->count; i++)
            out->lists[0].values[i] /= scaled[i];
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

int export_write_gguf(struct gguf_writer *w, const struct model *model,
                      const struct export_plan *plan, struct error *err) {
    struct factors factors = {0};
    int rc = 0;
    /* else they are there */
    if (model->spec.names == model->spec.folder_names)
        rope_factors(&model->spec, &factors);
    for (uint32_t i = 0; !rc && i < factors.list_count; i++)
        rc = gguf_put_tensor(w, factors.lists[i].name, TENSOR_F32, (uint64_t[]){factors.count}, 1,
                             err);
    for (size_t i = 0; !rc && i < plan->count; i++) {
        const struct export_item *item = &plan->items[i];
        rc = gguf_put_tensor(w, item->name, item->type, item->dims, item->dim_count, err);
    }
    if (!rc)
        rc = gguf_write_begin(w, err);
    for (uint32_t i = 0; !rc && i < factors.list_count; i++) {
        rc = gguf_write_data(w, factors.lists[i].values, factors.count * sizeof(float), err);
        if (!rc)
            rc = gguf_write_pad(w, err);
    }
    uint64_t done = 0, total = bytes_of_plan(plan);
    for (size_t i = 0; !rc && i < plan->count; i++) {
        rc = write_rows(plan, i, done, total, gguf_sink, w, err);
        done += bytes_of_item(&plan->items[i]);
        if (!rc)
            rc = gguf_write_pad(w, err);
    }
    return rc ? rc : gguf_write_end(w, err);
}

/* ---- safetensors ---- */

static void begin_header(struct json_writer *w, struct buf *header) {
    buf_init(header, 0);
    json_writer_init(w, header);
    json_begin_object(w);
    json_key(w, "__metadata__");
    json_begin_object(w);
    json_key(w, "format");
    json_string(w, "pt");
    json_end_object(w);
}

/* One tensor whose data begin at *at, which becomes their end. */
static void put_entry(struct json_writer *w, const char *name, enum tensor_type type,
                      const uint64_t *dims, uint32_t dim_count, uint64_t size, uint64_t *at) {
    json_key(w, name);
    json_begin_object(w);
    json_key(w, "dtype");
    json_string(w, tensor_type_name(type));
    json_key(w, "shape");
    json_begin_array(w);
    for (uint32_t k = 0; k < dim_count; k++)
        json_uint(w, dims[k]);
    json_end_array(w);
    json_key(w, "data_offsets");
    json_begin_array(w);
    json_uint(w, *at);
    json_uint(w, *at += size);
    json_end_array(w);
    json_end_object(w);
}

static void end_header(struct json_writer *w, struct buf *header) {
    json_end_object(w);
    while (header->len % 8)
        buf_add_byte(header, ' ');
}

static int file_sink(void *ctx, const void *data, size_t len, struct error *err) {
    return fwrite(data, 1, len, ctx) == len ? 0 : error_set_errno(err, "cannot write the weights");
}

/* The file with its header; NULL with an error. Frees the header. */
static FILE *begin_file(const char *path, struct buf *header, struct error *err) {
    FILE *f = fopen(path, "we");
    uint64_t len = header->len;
    if (!f)
        error_set_errno(err, "cannot write '%s'", path);
    else if (file_sink(f, &len, 8, err) || file_sink(f, header->data, header->len, err)) {
        fclose(f);
        unlink(path);
        f = NULL;
    }
    buf_release(header);
    return f;
}

/* Closes it; a file that is not whole is removed. */
static int end_file(const char *path, FILE *f, int rc, struct error *err) {
    if (fclose(f) && !rc)
        rc = error_set_errno(err, "cannot write '%s'", path);
    if (rc)
        unlink(path);
    return rc;
}

int export_write_safetensors(const char *path, const struct export_plan *plan, struct error *err) {
    struct buf header;
    struct json_writer w;
    uint64_t at = 0;
    int rc = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->items[i].type >= TENSOR_SAFETENSORS_COUNT)
            return error_set(err, ERR_UNSUPPORTED, "a .safetensors file has no type %s",
                             tensor_type_name(plan->items[i].type));
    begin_header(&w, &header);
    for (size_t i = 0; i < plan->count; i++) {
        const struct export_item *item = &plan->items[i];
        uint64_t dims[] = {item->dims[0], item->dims[1], item->dims[2], item->inner};
        if (item->inner)
            dims[item->dim_count - 1] /= item->inner;
        put_entry(&w, item->name, item->type, dims, item->dim_count + (item->inner > 0),
                  bytes_of_item(item), &at);
    }
    end_header(&w, &header);
    FILE *f = begin_file(path, &header, err);
    if (!f)
        return err->code;
    uint64_t done = 0;
    for (size_t i = 0; !rc && i < plan->count; i++) {
        rc = write_rows(plan, i, done, at, file_sink, f, err);
        done += bytes_of_item(&plan->items[i]);
    }
    return end_file(path, f, rc, err);
}

/* ---- compressed-tensors ---- */

/* What is written of a tensor: itself, or as compressed-tensors has it. */
struct piece {
    char name[TENSOR_NAME_MAX];
    enum tensor_type type;
    uint64_t dims[2];
    uint32_t dim_count;
    const void *data; /* borrowed */
    uint64_t size;
};

enum { PIECES_MAX = 3 };

/* Length of a name without ".weight"; 0: it has another end. */
static int base_length(const char *name) {
    size_t len = strlen(name), end = strlen(".weight");
    return len > end && !strcmp(name + len - end, ".weight") ? (int)(len - end) : 0;
}

/* A tensor's pieces, in the order they are written; check_layout found nothing. */
static uint32_t pieces_of(const struct tensor *t, struct piece *out) {
    const struct tensor_scales *s = t->scales;
    int base = base_length(t->name);
    bool words = t->type == TENSOR_U4;
    out[0] = (struct piece){
        .type = t->type, .dim_count = t->dim_count, .data = t->data, .size = t->byte_len};
    snprintf(out[0].name, sizeof out[0].name, "%s", t->name);
    if (!s)
        return 1;
    uint64_t rows = t->dims[0], places = s->count / rows;
    snprintf(out[0].name, sizeof out[0].name, "%.*s.weight%s", base, t->name,
             words ? "_packed" : "");
    out[0].type = words ? TENSOR_I32 : t->type;
    out[0].dims[0] = rows;
    out[0].dims[1] = words ? t->dims[1] / 8 : t->dims[1];
    out[1] = (struct piece){.type = TENSOR_F32,
                            .dims = {rows, places},
                            .dim_count = 2,
                            .data = s->scales,
                            .size = s->count * sizeof *s->scales};
    snprintf(out[1].name, sizeof out[1].name, "%.*s.weight_scale", base, t->name);
    out[2] = (struct piece){
        .type = TENSOR_I64, .dims = {2}, .dim_count = 1, .data = t->dims, .size = 16};
    snprintf(out[2].name, sizeof out[2].name, "%.*s.weight_shape", base, t->name);
    return words ? 3 : 2;
}

/* Whether the layout can hold what was quantized: words of eight numbers, groups that are all
 * full. */
static int check_layout(const struct tensor *t, struct error *err) {
    const struct tensor_scales *s = t->scales;
    if (t->type >= TENSOR_SAFETENSORS_COUNT && !s)
        return error_set(err, ERR_UNSUPPORTED, "a .safetensors file has no type %s",
                         tensor_type_name(t->type));
    if (s && !base_length(t->name))
        return error_set(err, ERR_UNSUPPORTED, "'%s' does not end with '.weight'", t->name);
    if (s && t->type == TENSOR_U4 && t->dims[1] % s->cols_each)
        return error_set(err, ERR_UNSUPPORTED,
                         "'%s' has rows of %llu, which are no groups of %u; choose int8", t->name,
                         (unsigned long long)t->dims[1], s->cols_each);
    return 0;
}

int export_write_compressed(const char *path, const struct model *m, struct error *err) {
    struct buf header;
    struct json_writer w;
    struct piece pieces[PIECES_MAX];
    uint64_t at = 0;
    int rc = 0;
    for (size_t i = 0; !rc && i < m->files.tensor_count; i++)
        rc = check_layout(&m->files.tensors[i], err);
    if (rc)
        return rc;
    begin_header(&w, &header);
    for (size_t i = 0; i < m->files.tensor_count; i++) {
        const struct tensor *t = &m->files.tensors[i];
        uint32_t count = pieces_of(t, pieces);
        for (uint32_t k = 0; k < count; k++)
            put_entry(&w, pieces[k].name, pieces[k].type, t->scales ? pieces[k].dims : t->dims,
                      pieces[k].dim_count, pieces[k].size, &at);
    }
    end_header(&w, &header);
    FILE *f = begin_file(path, &header, err);
    if (!f)
        return err->code;
    for (size_t i = 0; !rc && i < m->files.tensor_count; i++) {
        uint32_t count = pieces_of(&m->files.tensors[i], pieces);
        for (uint32_t k = 0; !rc && k < count; k++)
            rc = file_sink(f, pieces[k].data, pieces[k].size, err);
    }
    return end_file(path, f, rc, err);
}

static void put_numbers(struct json_writer *w, const char *key, int bits, bool is_float,
                        const char *strategy, uint32_t group, bool dynamic) {
    json_key(w, key);
    json_begin_object(w);
    json_key(w, "num_bits");
    json_int(w, bits);
    json_key(w, "type");
    json_string(w, is_float ? "float" : "int");
    json_key(w, "symmetric");
    json_bool(w, true);
    json_key(w, "strategy");
    json_string(w, strategy);
    json_key(w, "group_size");
    if (group)
        json_uint(w, group);
    else
        json_null(w);
    json_key(w, "dynamic");
    json_bool(w, dynamic);
    json_end_object(w);
}

/* Modules that were left as they are. */
static void put_ignored(struct json_writer *w, const struct model *m) {
    json_key(w, "ignore");
    json_begin_array(w);
    json_string(w, "lm_head");
    for (size_t i = 0; i < m->files.tensor_count; i++) {
        const struct tensor *t = &m->files.tensors[i];
        int base = base_length(t->name);
        if (t->scales || t->dim_count != 2 || !base || !strcmp(t->name, "lm_head.weight"))
            continue;
        json_string_bytes(w, bytes_of(t->name, (size_t)base));
    }
    json_end_array(w);
}

void export_compressed_config(struct buf *out, const struct model *m, enum storage_type type) {
    struct json_writer w;
    bool words = type == STORAGE_U4, is_float = type == STORAGE_F8_E4M3;
    uint32_t group = 0;
    for (size_t i = 0; i < m->files.tensor_count && words && !group; i++)
        if (m->files.tensors[i].scales)
            group = m->files.tensors[i].scales->cols_each;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, "quant_method");
    json_string(&w, "compressed-tensors");
    json_key(&w, "quantization_status");
    json_string(&w, "compressed");
    json_key(&w, "format");
    json_string(&w, words ? "pack-quantized" : is_float ? "float-quantized" : "int-quantized");
    json_key(&w, "config_groups");
    json_begin_object(&w);
    json_key(&w, "group_0");
    json_begin_object(&w);
    json_key(&w, "targets");
    json_begin_array(&w);
    json_string(&w, "Linear");
    json_end_array(&w);
    put_numbers(&w, "weights", words ? 4 : 8, is_float, words ? "group" : "channel", group, false);
    if (!words)
        put_numbers(&w, "input_activations", 8, is_float, "token", 0, true);
    json_end_object(&w);
    json_end_object(&w);
    put_ignored(&w, m);
    json_end_object(&w);
}
