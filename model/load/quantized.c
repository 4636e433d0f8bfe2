#include "model/load/quantized_internal.h"

#include "formats/config.h"
#include "formats/gguf_types.h"
#include "formats/json.h"
#include "kernels/types.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- quantization_config ---- */

static bool read_text(struct json_reader *r, char *out, size_t size) {
    struct bytes text;
    if (!json_read_string(r, &text))
        return false;
    snprintf(out, size, "%.*s", (int)MIN(text.len, size), (const char *)text.data);
    return true;
}

static bool read_pair(struct json_reader *r, int64_t out[2]) {
    enum json_event ev = json_next(r);
    if (ev != JSON_ARRAY_BEGIN)
        return ev == JSON_NULL;
    for (size_t n = 0; (ev = json_next(r)) == JSON_NUMBER; n++)
        if (n < 2 && !json_number_int64(r->text, &out[n]))
            return false;
    return ev == JSON_ARRAY_END;
}

/* Of an object that has begun. */
static bool read_fields(struct json_reader *r, struct quantized_config *c) {
    enum json_event ev;
    while ((ev = json_next(r)) == JSON_KEY) {
        struct bytes key = r->text;
        bool ok;
        if (bytes_equal(key, bytes_str("quant_method")))
            ok = read_text(r, c->method, sizeof c->method);
        else if (bytes_equal(key, bytes_str("quant_algo")))
            ok = read_text(r, c->algo, sizeof c->algo);
        else if (bytes_equal(key, bytes_str("version")) && c->version[0] == 0)
            ok = read_text(r, c->version, sizeof c->version);
        else if (bytes_equal(key, bytes_str("checkpoint_format")))
            ok = read_text(r, c->checkpoint_format, sizeof c->checkpoint_format);
        else if (bytes_equal(key, bytes_str("bits")) || bytes_equal(key, bytes_str("w_bit")))
            ok = json_read_int64(r, &c->bits);
        else if (bytes_equal(key, bytes_str("group_size")) ||
                 bytes_equal(key, bytes_str("q_group_size")))
            ok = json_read_int64(r, &c->group_size);
        else if (bytes_equal(key, bytes_str("weight_block_size")))
            ok = read_pair(r, c->block);
        else
            ok = json_skip(r);
        if (!ok)
            return false;
    }
    return ev == JSON_OBJECT_END;
}

static bool read_config(struct json_reader *r, struct quantized_config *c) {
    return json_next(r) == JSON_OBJECT_BEGIN && read_fields(r, c);
}

/* MLX's `quantization`; whatever else has that name says nothing here. */
static bool read_mlx(struct json_reader *r, struct quantized_config *c) {
    enum json_event ev = json_next(r);
    return ev == JSON_OBJECT_BEGIN ? read_fields(r, c) : ev >= JSON_STRING;
}

static bool find_config(struct json_reader *r, struct quantized_config *c);

/* Finds quantization_config (or compression_config, or quantization) at the top, or in
 * text_config. */
static bool find_in_object(struct json_reader *r, struct quantized_config *c) {
    enum json_event ev;
    while ((ev = json_next(r)) == JSON_KEY) {
        bool here = bytes_equal(r->text, bytes_str("quantization_config")) ||
                    bytes_equal(r->text, bytes_str("compression_config"));
        bool inside = bytes_equal(r->text, bytes_str("text_config"));
        bool mlx = bytes_equal(r->text, bytes_str("quantization"));
        if (here     ? !read_config(r, c)
            : mlx    ? !read_mlx(r, c)
            : inside ? !find_config(r, c)
                     : !json_skip(r))
            return false;
    }
    return ev == JSON_OBJECT_END;
}

static bool find_config(struct json_reader *r, struct quantized_config *c) {
    enum json_event ev = json_next(r);
    return ev == JSON_OBJECT_BEGIN ? find_in_object(r, c) : ev == JSON_NULL;
}

static int check_method(const struct quantized_config *c, struct error *err) {
    static const char *const METHODS[] = {"",        "awq",   "gptq",         "compressed-tensors",
                                          "fp8",     "mxfp4", "bitsandbytes", "fbgemm_fp8",
                                          "modelopt"};
    if (!c->method[0] && c->bits)
        return error_set(err, ERR_UNSUPPORTED,
                         "config.json: weights of %" PRId64 " bits without a 'quant_method': MLX's "
                         "form is not supported; take the model as GGUF, or as its author gives it",
                         c->bits);
    if (!strcmp(c->method, "modelopt") && strcmp(c->algo, "FP8") != 0)
        return error_set(err, ERR_UNSUPPORTED,
                         "config.json: quant_algo '%s' of quant_method 'modelopt' is not supported "
                         "(FP8 is)",
                         c->algo);
    for (size_t i = 0; i < ARRAY_LEN(METHODS); i++)
        if (!strcmp(c->method, METHODS[i]))
            return 0;
    return error_set(err, ERR_UNSUPPORTED, "config.json: quant_method '%s' is not supported",
                     c->method);
}

int quantized_config_read(struct quantized_config *c, struct bytes text, struct error *err) {
    struct json_reader r;
    struct buf room = {0};
    json_reader_init(&r, config_strict_text(text, &room), 0, 0);
    /* what is no object is refused where the spec is read */
    bool ok = json_next(&r) != JSON_OBJECT_BEGIN || find_in_object(&r, c);
    int rc = ok             ? 0
             : r.error.code ? error_set(err, ERR_INVALID, "config.json: %s", r.error.text)
                            : error_set(err, ERR_INVALID,
                                        "config.json: 'quantization_config' cannot be understood");
    json_reader_release(&r);
    buf_release(&room);
    return rc ? rc : check_method(c, err);
}

/* ---- modules ---- */

const struct tensor *module_find(const struct module *m, const char *suffix) {
    char name[1200];
    snprintf(name, sizeof name, "%.*s%s", (int)m->base_len, m->base, suffix);
    const struct tensor *t = safetensors_find(m->set, name);
    if (t)
        m->used[t - m->set->tensors] = true;
    return t;
}

void *module_memory(const struct module *m, size_t size) {
    void *p = mem_try_alloc(MAX(size, (size_t)1));
    if (p)
        vec_push(&m->q->memory, p);
    else
        error_set(m->err, ERR_MEMORY, "no memory for weights (%zu MB more)", size >> 20);
    return p;
}

struct tensor_scales *module_scales(const struct module *m) {
    return module_memory(m, sizeof(struct tensor_scales));
}

int module_invalid(const struct module *m, const char *why) {
    return error_set(m->err, ERR_INVALID, "'%.*s': %s", (int)m->base_len, m->base, why);
}

float *module_floats(const struct module *m, const struct tensor *t) {
    enum storage_type type = t->type == TENSOR_F32    ? STORAGE_F32
                             : t->type == TENSOR_F16  ? STORAGE_F16
                             : t->type == TENSOR_BF16 ? STORAGE_BF16
                                                      : STORAGE_NONE;
    if (type == STORAGE_NONE) {
        error_set(m->err, ERR_UNSUPPORTED, "'%s' is of type %s, expected numbers", t->name,
                  tensor_type_name(t->type));
        return NULL;
    }
    size_t count = t->byte_len / storage_bytes(type, 1);
    float *out = module_memory(m, count * sizeof *out);
    for (size_t i = 0; out && i < count; i++)
        out[i] = storage_get(type, t->data, i);
    return out;
}

/* What each module is recognised by, and who reads it. */
static int read_module(struct module *m, const struct tensor *t, size_t suffix_len,
                       struct tensor *out) {
    const char *suffix = t->name + strlen(t->name) - suffix_len;
    m->base = t->name;
    m->base_len = (size_t)(suffix - t->name);
    m->used[t - m->set->tensors] = true;
    if (!strcmp(suffix, ".qweight"))
        return !strcmp(m->q->config.method, "awq") ? quantized_awq(m, out) : quantized_gptq(m, out);
    if (!strcmp(suffix, ".weight_packed"))
        return quantized_packed(m, out);
    if (module_find(m, ".weight.absmax"))
        return quantized_nf4(m, t, out);
    const struct tensor *scale = module_find(m, ".weight_scale_inv");
    if (!scale)
        scale = module_find(m, ".weight_scale");
    if (!scale)
        scale = module_find(m, ".SCB");
    return quantized_scaled(m, t, scale, out);
}

/* Length of the suffix by which a tensor is a quantized module's first one; 0: it is none. */
static size_t first_of_module(const struct tensor *t) {
    static const char *const SUFFIXES[] = {".qweight", ".weight_packed", ".weight"};
    size_t len = strlen(t->name);
    for (size_t i = 0; i < ARRAY_LEN(SUFFIXES); i++) {
        size_t n = strlen(SUFFIXES[i]);
        if (len <= n || strcmp(t->name + len - n, SUFFIXES[i]))
            continue;
        bool small = t->type == TENSOR_U8 || t->type == TENSOR_I8 || t->type == TENSOR_F8_E4M3 ||
                     t->type == TENSOR_F8_E5M2;
        return i < 2 || small ? n : 0;
    }
    return 0;
}

/* Companions that say nothing about weights. */
static bool is_idle(const char *name) {
    static const char *const SUFFIXES[] = {
        ".input_scale", ".output_scale", ".input_zero_point", ".k_scale",
        ".v_scale",     ".q_scale",      ".weight_format",    ".activation_scale"};
    size_t len = strlen(name);
    for (size_t i = 0; i < ARRAY_LEN(SUFFIXES); i++) {
        size_t n = strlen(SUFFIXES[i]);
        if (len > n && !strcmp(name + len - n, SUFFIXES[i]))
            return true;
    }
    return false;
}

/* ---- the set ---- */

static int read_modules(struct quantized *q, struct safetensors *set, bool *used,
                        struct tensor *made, size_t *made_count, struct error *err) {
    for (size_t i = 0; i < set->tensor_count; i++) {
        const struct tensor *t = &set->tensors[i];
        size_t suffix = used[i] ? 0 : first_of_module(t);
        if (!suffix)
            continue;
        struct module m = {.q = q, .set = set, .used = used, .err = err};
        struct tensor *out = &made[*made_count];
        *out = (struct tensor){.file_idx = t->file_idx};
        int rc = read_module(&m, t, suffix, out);
        if (rc)
            return rc;
        struct buf name;
        buf_init(&name, 0);
        buf_addf(&name, "%.*s.weight", (int)m.base_len, m.base);
        out->name = mem_strdup(buf_text(&name));
        buf_release(&name);
        ++*made_count;
    }
    return 0;
}

/* Puts what was made in the place of what it was made of. */
static void replace(struct safetensors *set, const bool *used, const struct tensor *made,
                    size_t made_count) {
    size_t kept = 0;
    for (size_t i = 0; i < set->tensor_count; i++) {
        if (used[i] || (made_count && is_idle(set->tensors[i].name)))
            mem_free((char *)set->tensors[i].name);
        else
            set->tensors[kept++] = set->tensors[i];
    }
    set->tensors = mem_realloc(set->tensors, MAX(kept + made_count, 1) * sizeof *set->tensors);
    if (made_count)
        memcpy(set->tensors + kept, made, made_count * sizeof *made);
    set->tensor_count = kept + made_count;
    tensors_sort(set);
}

int quantized_open(struct quantized *q, struct safetensors *set, struct bytes config_json,
                   struct error *err) {
    *q = (struct quantized){0};
    int rc = quantized_config_read(&q->config, config_json, err);
    if (rc || !strcmp(q->config.method, "mxfp4"))
        return rc; /* experts: their loader reads those */
    bool *used = mem_calloc(set->tensor_count + 1, sizeof *used);
    struct tensor *made = mem_calloc(set->tensor_count + 1, sizeof *made);
    size_t made_count = 0;
    rc = read_modules(q, set, used, made, &made_count, err);
    if (!rc && made_count)
        replace(set, used, made, made_count);
    for (size_t i = 0; rc && i < made_count; i++)
        mem_free((char *)made[i].name);
    mem_free(used);
    mem_free(made);
    if (rc)
        quantized_close(q);
    return rc;
}

void quantized_close(struct quantized *q) {
    for (size_t i = 0; i < q->memory.count; i++)
        mem_free(q->memory.items[i]);
    vec_release(&q->memory);
    *q = (struct quantized){0};
}
