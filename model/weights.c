#include "model/weights.h"

#include "base/vec.h"
#include "model/names.h"

/* What weights_release gives back. */
struct weight_memory {
    VEC(void *) owned;          /* device_alloc */
    VEC(const void *) imported; /* device_import */
    VEC(void *) copies;         /* heap copies of misaligned tensors, imported above */
};

struct loader {
    struct model_weights *w;
    const struct model_spec *spec;
    const struct safetensors *files;
    struct stream *stream;
    bool *used; /* [tensor_count] */
    weights_progress_fn progress;
    void *progress_ctx;
    uint64_t done, total;
    struct error *err;
};

/* ---- tensors ---- */

static enum storage_type storage_of(enum tensor_type type) {
    return type == TENSOR_F32    ? STORAGE_F32
           : type == TENSOR_F16  ? STORAGE_F16
           : type == TENSOR_BF16 ? STORAGE_BF16
                                 : STORAGE_NONE;
}

static void advance(struct loader *l, const struct tensor *t) {
    l->done += t->byte_len;
    l->w->byte_count += t->byte_len;
    if (l->progress) l->progress(l->progress_ctx, l->done, l->total);
}

/* Finds the role's tensor and checks type and shape: [rows, cols], or [rows] when cols is 0. */
static const struct tensor *take(struct loader *l, enum weight_role role, uint32_t layer, uint32_t rows,
                                 uint32_t cols) {
    char name[TENSOR_NAME_MAX];
    role_name(l->spec->names, role, layer, name);
    const struct tensor *t = safetensors_find(l->files, name);
    if (!t) {
        error_set(l->err, ERR_INVALID, "the weights lack '%s', which a %s model with this config.json has", name,
                  l->spec->family);
        return NULL;
    }
    bool ok = t->dim_count == (cols ? 2 : 1) && t->dims[0] == rows && (!cols || t->dims[1] == cols);
    if (!ok) {
        error_set(l->err, ERR_INVALID, "'%s' has another shape than config.json says: expected [%u%s%.0u]", name, rows,
                  cols ? ", " : "", cols);
        return NULL;
    }
    if (storage_of(t->type) == STORAGE_NONE) {
        error_set(l->err, ERR_UNSUPPORTED, "'%s' is of type %s, which is not supported for weights", name,
                  tensor_type_name(t->type));
        return NULL;
    }
    l->used[t - l->files->tensors] = true;
    return t;
}

static int out_of_memory(struct loader *l, uint64_t size) {
    return error_set(l->err, ERR_MEMORY, "no memory for weights (%llu MB more)", (unsigned long long)(size >> 20));
}

/* f32 device memory of `count` values. */
static float *new_vector(struct loader *l, size_t count) {
    float *v = device_alloc(l->w->dev, count * sizeof *v);
    if (v)
        vec_push(&l->w->memory->owned, v);
    else
        out_of_memory(l, count * sizeof *v);
    return v;
}

/* Appends a vector's values, widened, to device memory at `to`. */
static int put_vector(struct loader *l, float *to, enum weight_role role, uint32_t layer, uint32_t count) {
    const struct tensor *t = take(l, role, layer, count, 0);
    if (!t) return l->err->code;
    float *host = mem_calloc(count, sizeof *host);
    for (uint32_t i = 0; i < count; i++) host[i] = storage_get(storage_of(t->type), t->data, i);
    stream_copy_in(l->stream, to, host, count * sizeof *host);
    mem_free(host);
    advance(l, t);
    return 0;
}

static int load_norm(struct loader *l, const float **out, enum weight_role role, uint32_t layer) {
    float *v = new_vector(l, l->spec->hidden);
    if (!v) return l->err->code;
    *out = v;
    return put_vector(l, v, role, layer, l->spec->hidden);
}

/* ---- matrices ---- */

struct part {
    enum weight_role role, bias;
    uint32_t rows;
};

/* The tensor's bytes where the device can read them; copied when the file does not align them. */
static const void *import(struct loader *l, const struct tensor *t) {
    const void *host = t->data;
    if ((uintptr_t)host % tensor_type_size(t->type)) {
        void *copy = mem_try_alloc(t->byte_len);
        if (!copy) return NULL;
        memcpy(copy, t->data, t->byte_len);
        vec_push(&l->w->memory->copies, copy);
        host = copy;
    }
    const void *p = device_import(l->w->dev, host, t->byte_len);
    if (p) vec_push(&l->w->memory->imported, p);
    return p;
}

/* Leaves the parts where they are. */
static int map_parts(struct loader *l, struct matrix *m, const struct tensor *const *tensors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        m->parts[i] = (struct matrix_part){.data = import(l, tensors[i]), .rows = (uint32_t)tensors[i]->dims[0]};
        if (!m->parts[i].data) return out_of_memory(l, tensors[i]->byte_len);
    }
    m->part_count = count;
    return 0;
}

/* Copies the parts behind each other into device memory. */
static int pack_parts(struct loader *l, struct matrix *m, const struct tensor *const *tensors, uint32_t count) {
    char *data = device_alloc(l->w->dev, m->rows * storage_bytes(m->type, m->cols));
    if (!data) return out_of_memory(l, m->rows * storage_bytes(m->type, m->cols));
    vec_push(&l->w->memory->owned, (void *)data);
    m->part_count = 1;
    m->parts[0] = (struct matrix_part){.data = data, .rows = m->rows};
    for (uint32_t i = 0; i < count; i++) {
        stream_copy_in(l->stream, data, tensors[i]->data, tensors[i]->byte_len);
        data += tensors[i]->byte_len;
    }
    return 0;
}

static int load_bias(struct loader *l, struct matrix *m, const struct part *parts, uint32_t count, uint32_t layer) {
    float *bias = new_vector(l, m->rows);
    if (!bias) return l->err->code;
    m->bias = bias;
    for (uint32_t i = 0; i < count; i++) {
        int rc = put_vector(l, bias, parts[i].bias, layer, parts[i].rows);
        if (rc) return rc;
        bias += parts[i].rows;
    }
    return 0;
}

static int load_matrix(struct loader *l, struct matrix *m, const struct part *parts, uint32_t count, uint32_t cols,
                       bool bias, uint32_t layer) {
    const struct tensor *tensors[MATRIX_PARTS_MAX] = {NULL};
    *m = (struct matrix){.cols = cols};
    for (uint32_t i = 0; i < count; i++) {
        tensors[i] = take(l, parts[i].role, layer, parts[i].rows, cols);
        if (!tensors[i]) return l->err->code;
        if (i && tensors[i]->type != tensors[0]->type)
            return error_set(l->err, ERR_UNSUPPORTED,
                             "'%s' and '%s' have different types; they are computed as one product", tensors[0]->name,
                             tensors[i]->name);
        m->rows += parts[i].rows;
        advance(l, tensors[i]);
    }
    m->type = storage_of(tensors[0]->type);
    int rc = l->w->dev->kind == DEVICE_CPU ? map_parts(l, m, tensors, count) : pack_parts(l, m, tensors, count);
    return rc || !bias ? rc : load_bias(l, m, parts, count, layer);
}

static int load_layer(struct loader *l, uint32_t i) {
    const struct layer_spec *spec = &l->spec->layers[i];
    const struct attention_spec *a = &spec->attention;
    struct layer_weights *w = &l->w->layers[i];
    uint32_t hidden = l->spec->hidden, q = a->heads * a->head_dim, kv = a->kv_heads * a->head_dim,
             width = spec->ffn.width;
    const struct part qkv[] = {{ROLE_Q, ROLE_Q_BIAS, q}, {ROLE_K, ROLE_K_BIAS, kv}, {ROLE_V, ROLE_V_BIAS, kv}};
    const struct part out[] = {{ROLE_OUT, ROLE_OUT_BIAS, hidden}};
    const struct part gate_up[] = {{ROLE_GATE, ROLE_GATE_BIAS, width}, {ROLE_UP, ROLE_UP_BIAS, width}};
    const struct part down[] = {{ROLE_DOWN, ROLE_DOWN_BIAS, hidden}};
    int rc = load_norm(l, &w->mixer_norm, ROLE_MIXER_NORM, i);
    if (!rc) rc = load_matrix(l, &w->qkv, qkv, 3, hidden, a->qkv_bias, i);
    if (!rc) rc = load_matrix(l, &w->out, out, 1, q, a->out_bias, i);
    if (!rc) rc = load_norm(l, &w->ffn_norm, ROLE_FFN_NORM, i);
    if (!rc) rc = load_matrix(l, &w->gate_up, gate_up, 2, hidden, spec->ffn.bias, i);
    if (!rc) rc = load_matrix(l, &w->down, down, 1, width, spec->ffn.bias, i);
    return rc;
}

/* A tied head may be stored under either name, or under both with equal bytes. */
static int load_ends(struct loader *l) {
    char embed_name[TENSOR_NAME_MAX], head_name[TENSOR_NAME_MAX];
    role_name(l->spec->names, ROLE_EMBED, 0, embed_name);
    role_name(l->spec->names, ROLE_HEAD, 0, head_name);
    const struct tensor *embed = safetensors_find(l->files, embed_name), *head = safetensors_find(l->files, head_name);
    bool only_head = l->spec->tied_head && !embed && head;
    const struct part e = {only_head ? ROLE_HEAD : ROLE_EMBED, 0, l->spec->vocab}, h = {ROLE_HEAD, 0, l->spec->vocab};
    int rc = load_matrix(l, &l->w->embed, &e, 1, l->spec->hidden, false, 0);
    if (rc) return rc;
    if (!l->spec->tied_head) {
        rc = load_matrix(l, &l->w->head, &h, 1, l->spec->hidden, false, 0);
    } else {
        l->w->head = l->w->embed;
        if (head && embed) {
            if (head->byte_len != embed->byte_len || head->type != embed->type ||
                memcmp(head->data, embed->data, head->byte_len))
                return error_set(l->err, ERR_INVALID,
                                 "config.json ties '%s' to '%s', but the file has two different ones", head_name,
                                 embed_name);
            l->used[head - l->files->tensors] = true;
        }
    }
    return rc ? rc : load_norm(l, &l->w->final_norm, ROLE_FINAL_NORM, 0);
}

static int check_all_used(const struct loader *l) {
    for (size_t i = 0; i < l->files->tensor_count; i++)
        if (!l->used[i] && !name_is_ignored(l->spec->names, l->files->tensors[i].name))
            return error_set(l->err, ERR_UNSUPPORTED,
                             "the weights have '%s', which a %s model with this config.json does not use",
                             l->files->tensors[i].name, l->spec->family);
    return 0;
}

int weights_load(struct model_weights *weights, const struct model_spec *spec, const struct safetensors *files,
                 struct device *dev, struct stream *stream, weights_progress_fn progress, void *ctx,
                 struct error *err) {
    struct error local;
    struct loader l = {.w = weights,
                       .spec = spec,
                       .files = files,
                       .stream = stream,
                       .progress = progress,
                       .progress_ctx = ctx,
                       .err = err ? err : &local};
    *weights = (struct model_weights){.dev = dev};
    weights->memory = mem_alloc(sizeof *weights->memory);
    weights->layers = mem_calloc(spec->layer_count, sizeof *weights->layers);
    l.used = mem_calloc(files->tensor_count + 1, sizeof *l.used);
    for (size_t i = 0; i < files->tensor_count; i++) l.total += files->tensors[i].byte_len;
    int rc = load_ends(&l);
    for (uint32_t i = 0; !rc && i < spec->layer_count; i++) rc = load_layer(&l, i);
    if (!rc) rc = check_all_used(&l);
    if (!rc) weights->main_type = weights->layers[0].qkv.type;
    mem_free(l.used);
    if (rc) weights_release(weights);
    return rc;
}

void weights_release(struct model_weights *w) {
    if (w->memory) {
        for (size_t i = 0; i < w->memory->owned.count; i++) device_free(w->dev, w->memory->owned.items[i]);
        for (size_t i = 0; i < w->memory->imported.count; i++) device_unimport(w->dev, w->memory->imported.items[i]);
        for (size_t i = 0; i < w->memory->copies.count; i++) mem_free(w->memory->copies.items[i]);
        vec_release(&w->memory->owned);
        vec_release(&w->memory->imported);
        vec_release(&w->memory->copies);
    }
    mem_free(w->memory);
    mem_free(w->layers);
    *w = (struct model_weights){0};
}
