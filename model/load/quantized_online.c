/* Quantising at load: matrices of layers that are plain become fp8, int8 (a scale each row) or int4
 * (one for each 128 columns); everything else stays. */
#include "kernels/encode.h"
#include "model/load/quantized_internal.h"
#include "model/load/storage_map.h"
#include "model/read/names.h"

enum { GROUP = 128 };

/* Where the file has the body: the prefix under which the first norm lies. */
static const struct name_prefix *find_prefix(const struct model_spec *spec,
                                             const struct safetensors *set) {
    static const enum weight_role ROLES[] = {ROLE_EMBED, ROLE_FINAL_NORM, ROLE_MIXER_NORM,
                                             ROLE_MIXER_POST};
    char name[TENSOR_NAME_MAX];
    for (size_t i = 0; i < ARRAY_LEN(ROLES); i++)
        for (const struct name_prefix *p = spec->names->prefixes ? spec->names->prefixes
                                                                 : NAME_PREFIXES;
             p->body; p++)
            if (role_name(spec->names, p, ROLES[i], 0, name) && safetensors_find(set, name))
                return p;
    return NULL;
}

static int quantize(struct module *m, struct tensor *t, enum storage_type type) {
    uint32_t rows = (uint32_t)t->dims[0], cols = (uint32_t)t->dims[1],
             group = type == STORAGE_U4 ? GROUP : cols, groups = (cols + group - 1) / group;
    size_t row_size = storage_bytes(type, cols), from_size = storage_bytes(storage_of(t), cols);
    uint8_t *data = module_memory(m, rows * row_size);
    float *scales = module_memory(m, (size_t)rows * groups * sizeof *scales),
          *values = mem_calloc(cols, sizeof *values);
    struct tensor_scales *about = module_scales(m);
    for (uint32_t r = 0; data && scales && about && r < rows; r++) {
        for (uint32_t k = 0; k < cols; k++)
            values[k] = storage_get(storage_of(t), t->data + r * from_size, k);
        storage_encode_scaled(type, values, cols, group, data + r * row_size,
                              scales + (size_t)r * groups);
    }
    mem_free(values);
    if (!data || !scales || !about)
        return m->err->code;
    *about = (struct tensor_scales){.scales = scales,
                                    .count = (size_t)rows * groups,
                                    .rows_each = 1,
                                    .cols_each = group,
                                    .stride = groups,
                                    .zero = type == STORAGE_U4 ? 8 : 0};
    t->type = tensor_type_of(type);
    t->data = data;
    t->byte_len = rows * row_size;
    t->scales = about;
    return 0;
}

int quantized_online(struct quantized *q, struct safetensors *set, const struct model_spec *spec,
                     enum storage_type type,
                     void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
                     struct error *err) {
    static const enum weight_role ROLES[] = {ROLE_QKV,  ROLE_Q,  ROLE_K,    ROLE_V,      ROLE_OUT,
                                             ROLE_GATE, ROLE_UP, ROLE_DOWN, ROLE_GATE_UP};
    const struct name_prefix *prefix = find_prefix(spec, set);
    size_t done = 0;
    if (spec->names->transposed)
        return error_set(err, ERR_UNSUPPORTED, "matrices of a %s model cannot be quantized at load",
                         spec->family);
    for (uint32_t layer = 0; layer < spec->layer_count; layer++)
        for (size_t i = 0; i < ARRAY_LEN(ROLES); i++) {
            char name[TENSOR_NAME_MAX];
            bool known = role_name(layer_names(spec->names, spec->layers[layer].mixer), prefix,
                                   ROLES[i], layer, name);
            const struct tensor *found = known ? safetensors_find(set, name) : NULL;
            struct tensor *t = found ? &set->tensors[found - set->tensors] : NULL;
            struct module m = {
                .q = q, .set = set, .base = name, .base_len = strlen(name), .err = err};
            bool fits = t && t->dim_count == 2 && storage_is_plain(storage_of(t)) &&
                        t->dims[0] <= INT32_MAX && t->dims[1] <= INT32_MAX && t->dims[1] % 2 == 0;
            if (!fits || (ROLES[i] == ROLE_QKV && spec->names->qkv != QKV_STACKED))
                continue;
            int rc = quantize(&m, t, type);
            if (rc)
                return rc;
            done++;
            if (progress)
                progress(progress_ctx, (uint64_t)layer * ARRAY_LEN(ROLES) + i + 1,
                         (uint64_t)spec->layer_count * ARRAY_LEN(ROLES));
        }
    return done ? 0
                : error_set(err, ERR_UNSUPPORTED,
                            "this model has no matrix that could be quantized at load");
}
