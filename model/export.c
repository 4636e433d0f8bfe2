#include "model/export.h"

#include "base/vec.h"
#include "kernels/encode.h"
#include "model/spec_read.h"
#include "model/storage_map.h"

/* ---- names ---- */

static const struct name_prefix *find_prefix(const struct name_table *names, const struct safetensors *files) {
    static const enum weight_role ROLES[] = {ROLE_EMBED, ROLE_FINAL_NORM, ROLE_MIXER_NORM, ROLE_MIXER_POST};
    char name[TENSOR_NAME_MAX];
    for (size_t i = 0; i < ARRAY_LEN(ROLES); i++)
        for (const struct name_prefix *p = names->prefixes ? names->prefixes : NAME_PREFIXES; p->body; p++)
            if (role_name(names, p, ROLES[i], 0, name) && safetensors_find(files, name)) return p;
    return NULL;
}

bool export_is_head_only(const struct model *m) {
    char embed[TENSOR_NAME_MAX], head[TENSOR_NAME_MAX];
    const struct name_prefix *p = find_prefix(m->spec.names, &m->files);
    return p && m->spec.tied_head && role_name(m->spec.names, p, ROLE_EMBED, 0, embed) &&
           role_name(m->spec.names, p, ROLE_HEAD, 0, head) && !safetensors_find(&m->files, embed) &&
           safetensors_find(&m->files, head);
}

static bool is_norm(enum weight_role role) {
    static const enum weight_role NORMS[] = {ROLE_EMBED_NORM, ROLE_FINAL_NORM, ROLE_MIXER_NORM, ROLE_MIXER_POST,
                                             ROLE_FFN_NORM,   ROLE_FFN_POST,   ROLE_Q_NORM,     ROLE_K_NORM};
    for (size_t i = 0; i < ARRAY_LEN(NORMS); i++)
        if (NORMS[i] == role) return true;
    return false;
}

/* ---- items ---- */

static enum tensor_type matrix_type(const struct tensor *t, enum storage_type want, uint32_t cols) {
    enum storage_type now = storage_of(t), type = want;
    if (want == STORAGE_NONE) return storage_is_scaled(now) ? TENSOR_F16 : t->type;
    if (cols % storage_block(type)) type = cols % 32 ? STORAGE_F16 : STORAGE_Q8_0;
    return tensor_type_of(type);
}

static int make_item(struct export_item *item, const struct model *m, const struct export_options *o,
                     const struct tensor *t, enum weight_role role, uint32_t layer, struct error *err) {
    const struct attention_spec *a = &m->spec.layers[MIN(layer, m->spec.layer_count - 1)].attention;
    float offset = 0;
    if (t->dim_count == 0 || t->dim_count > 2 || storage_of(t) == STORAGE_NONE)
        return error_set(err, ERR_UNSUPPORTED, "'%s' is of type %s with %u dimensions, which cannot be converted",
                         t->name, tensor_type_name(t->type), t->dim_count);
    item->tensor = t;
    item->is_vector = t->dim_count == 1;
    item->rows = item->is_vector ? 1 : (uint32_t)t->dims[0];
    item->cols = (uint32_t)t->dims[t->dim_count - 1];
    item->type = item->is_vector ? (o->vectors == TENSOR_TYPE_COUNT ? t->type : o->vectors)
                                 : matrix_type(t, o->matrices, item->cols);
    bool q = role == ROLE_Q || role == ROLE_Q_BIAS, k = role == ROLE_K || role == ROLE_K_BIAS;
    if (o->arch->permuted && o->from_gguf != o->to_gguf && (q || k)) {
        item->turn_heads = q ? a->heads : a->kv_heads;
        item->to_interleaved = o->to_gguf;
        if ((item->is_vector ? item->cols : item->rows) != item->turn_heads * a->head_dim)
            return error_set(err, ERR_INVALID, "'%s' has another shape than config.json says", t->name);
    }
    if (is_norm(role)) offset = m->spec.final_norm.weight_offset;
    item->add = o->from_gguf == o->to_gguf ? 0 : o->to_gguf ? offset : -offset;
    return 0;
}

static int add_role(struct export_plan *plan, const struct model *m, const struct name_table *from,
                    const struct name_prefix *prefix, const struct name_table *to, const struct export_options *o,
                    enum weight_role role, uint32_t layer, bool *used, struct error *err) {
    char name[TENSOR_NAME_MAX];
    struct export_item *item = &plan->items[plan->count];
    const struct tensor *t = role_name(from, prefix, role, layer, name) ? safetensors_find(&m->files, name) : NULL;
    if (!t || used[t - m->files.tensors]) return 0;
    *item = (struct export_item){0};
    enum weight_role target = role;
    if (o->head_only && o->from_gguf != o->to_gguf && role == (o->to_gguf ? ROLE_HEAD : ROLE_EMBED))
        target = o->to_gguf ? ROLE_EMBED : ROLE_HEAD;
    if (!role_name(to, NULL, target, layer, item->name))
        return error_set(err, ERR_UNSUPPORTED, "'%s' has no name in the other format", name);
    used[t - m->files.tensors] = true;
    plan->count++;
    return make_item(item, m, o, t, role, layer, err);
}

static int check_all(const struct model *m, const struct name_table *from, const struct name_prefix *prefix,
                     const bool *used, struct error *err) {
    for (size_t i = 0; i < m->files.tensor_count; i++)
        if (!used[i] && !name_is_ignored(from, prefix, m->files.tensors[i].name))
            return error_set(err, ERR_UNSUPPORTED, "'%s' has no name in the other format", m->files.tensors[i].name);
    return 0;
}

/* The names the family has in a folder, also where the spec is a GGUF file's. */
static const struct name_table *folder_names(const struct model_spec *spec) {
    for (size_t i = 0; i < FAMILY_COUNT; i++)
        if (!strcmp(FAMILIES[i].name, spec->family)) return FAMILIES[i].names;
    return spec->names;
}

int export_plan_make(struct export_plan *plan, const struct model *m, const struct export_options *o,
                     struct error *err) {
    const struct name_table *hf_names = folder_names(&m->spec);
    const struct name_table *from = o->from_gguf ? o->arch->names : hf_names,
                            *to = o->to_gguf ? o->arch->names : hf_names;
    const struct name_prefix *prefix = find_prefix(from, &m->files);
    bool *used = mem_calloc(m->files.tensor_count + 1, sizeof *used);
    int rc = 0;
    *plan = (struct export_plan){.items = mem_calloc(m->files.tensor_count + 1, sizeof *plan->items)};
    if (!prefix) rc = error_set(err, ERR_INVALID, "the weights have neither embedding nor norms");
    if (!rc && (from->transposed || from->qkv != to->qkv))
        rc = error_set(err, ERR_UNSUPPORTED, "matrices of a %s model cannot be converted", m->spec.family);
    for (enum weight_role role = 0; !rc && role < ROLE_COUNT; role++)
        for (uint32_t i = 0; !rc && i < (role < ROLE_MIXER_NORM ? 1 : m->spec.layer_count); i++)
            rc = add_role(plan, m, from, prefix, to, o, role, i, used, err);
    if (!rc) rc = check_all(m, from, prefix, used, err);
    mem_free(used);
    if (rc) export_plan_release(plan);
    return rc;
}

void export_plan_release(struct export_plan *plan) {
    mem_free(plan->items);
    *plan = (struct export_plan){0};
}

/* ---- rows ---- */

static struct matrix matrix_of(const struct export_item *item) {
    const struct tensor *t = item->tensor;
    struct matrix m = {.type = storage_of(t), .rows = item->rows, .cols = item->cols, .part_count = 1};
    m.parts[0] = (struct matrix_part){.data = t->data, .rows = item->rows};
    if (t->scales) {
        m.parts[0].scale_rows = t->scales->rows_each;
        m.parts[0].scale_cols = t->scales->cols_each;
        m.parts[0].scale_stride = t->scales->stride;
        m.parts[0].zero = t->scales->zero;
        m.parts[0].scales = t->scales->scales;
        m.parts[0].zeros = t->scales->zeros;
        m.parts[0].groups = t->scales->groups;
    }
    return m;
}

size_t export_row_bytes(const struct export_item *item) {
    return item->cols / tensor_type_block(item->type) * tensor_type_size(item->type);
}

/* Where position i of a head of dim rows comes from. */
static uint32_t turned(uint32_t i, uint32_t dim, bool to_interleaved) {
    return to_interleaved ? i % 2 * (dim / 2) + i / 2 : i % (dim / 2) * 2 + i / (dim / 2);
}

static uint32_t source_of(const struct export_item *item, uint32_t i, uint32_t count) {
    if (!item->turn_heads) return i;
    uint32_t dim = count / item->turn_heads;
    return i / dim * dim + turned(i % dim, dim, item->to_interleaved);
}

void export_row(const struct export_item *item, uint32_t row, float *values, void *out) {
    struct matrix m = matrix_of(item);
    uint32_t source = item->is_vector ? row : source_of(item, row, item->rows);
    bool as_is = item->type == item->tensor->type && item->add == 0 && !(item->is_vector && item->turn_heads);
    if (as_is) {
        size_t size = export_row_bytes(item);
        memcpy(out, item->tensor->data + source * size, size);
        return;
    }
    matrix_decode(&m, source, 0, item->cols, values);
    if (item->is_vector && item->turn_heads) {
        float *copy = mem_calloc(item->cols, sizeof *copy);
        for (uint32_t i = 0; i < item->cols; i++) copy[i] = values[source_of(item, i, item->cols)];
        memcpy(values, copy, item->cols * sizeof *copy);
        mem_free(copy);
    }
    for (uint32_t i = 0; item->add != 0 && i < item->cols; i++) values[i] += item->add;
    enum storage_type type = storage_of(&(struct tensor){.type = item->type});
    storage_encode(type, values, item->cols, out);
}
