#include "model/load/loader.h"

#include "base/vec.h"
#include "model/load/loader_quantized.h"
#include "model/load/mxfp4.h"
#include "model/load/storage_map.h"
#include "model/load/weight_memory.h"

/* ---- tensors ---- */

static void advance(struct loader *l, const struct tensor *t) {
    l->done += t->byte_len;
    l->w->byte_count += t->byte_len;
    if (l->progress)
        l->progress(l->progress_ctx, l->done, l->total);
}

/* Roles outside of layers are the family's. */
static const struct name_table *names_of(const struct loader *l, enum weight_role role,
                                         uint32_t layer) {
    return role < ROLE_MIXER_NORM ? l->spec->names
                                  : layer_names(l->spec->names, l->spec->layers[layer].mixer);
}

bool loader_has(const struct loader *l, enum weight_role role, uint32_t layer) {
    char name[TENSOR_NAME_MAX];
    return role_expert_name(names_of(l, role, layer), l->prefix, role, layer, l->expert, name) &&
           safetensors_find(l->files, name);
}

static const struct tensor *find(struct loader *l, enum weight_role role, uint32_t layer) {
    char name[TENSOR_NAME_MAX];
    if (!role_expert_name(names_of(l, role, layer), l->prefix, role, layer, l->expert, name)) {
        error_set(l->err, ERR_UNSUPPORTED,
                  "config.json asks for a tensor (role %d) that no %s model has", (int)role,
                  l->spec->family);
        return NULL;
    }
    const struct tensor *t = safetensors_find(l->files, name);
    if (!t)
        error_set(l->err, ERR_INVALID,
                  "the weights lack '%s', which a %s model with this config.json has", name,
                  l->spec->family);
    return t;
}

static const struct tensor *use(struct loader *l, const struct tensor *t) {
    if (storage_of(t) == STORAGE_NONE) {
        error_set(l->err, ERR_UNSUPPORTED, "'%s' is of type %s, which is not supported for weights",
                  t->name, tensor_type_name(t->type));
        return NULL;
    }
    l->used[t - l->files->tensors] = true;
    return t;
}

static const struct tensor *wrong_shape(struct loader *l, const struct tensor *t, uint64_t rows,
                                        uint32_t cols) {
    error_set(l->err, ERR_INVALID,
              "'%s' has another shape than config.json says: expected [%llu%s%.0u]", t->name,
              (unsigned long long)rows, cols ? ", " : "", cols);
    return NULL;
}

/* The matrix of the current expert out of a tensor of three dimensions. */
static const struct tensor *slice(struct loader *l, const struct tensor *t, uint32_t layer) {
    struct tensor *view = &l->slices[l->slice_count++ % ARRAY_LEN(l->slices)];
    uint32_t experts = l->spec->layers[layer].moe.router.experts;
    if (t->dims[0] != experts || experts == 0 || t->scales)
        return NULL;
    *view = *t;
    view->dim_count = 2;
    view->dims[0] = t->dims[1];
    view->dims[1] = t->dims[2];
    view->byte_len = t->byte_len / experts;
    view->data = t->data + l->expert * view->byte_len;
    return view;
}

/* A tensor of three dimensions as one matrix of all its rows. */
static const struct tensor *flat(struct loader *l, const struct tensor *t) {
    struct tensor *view = &l->slices[l->slice_count++ % ARRAY_LEN(l->slices)];
    *view = *t;
    view->dim_count = 2;
    view->dims[0] = t->dims[0] * t->dims[1];
    view->dims[1] = t->dims[2];
    return view;
}

/* A vector as a matrix of one row. */
static const struct tensor *one_row(struct loader *l, const struct tensor *t) {
    struct tensor *view = &l->slices[l->slice_count++ % ARRAY_LEN(l->slices)];
    *view = *t;
    view->dim_count = 2;
    view->dims[0] = 1;
    view->dims[1] = t->dims[0];
    return view;
}

/* Finds the role's matrix and checks type and shape. */
static const struct tensor *take_matrix(struct loader *l, enum weight_role role, uint32_t layer,
                                        uint32_t rows, uint32_t cols, bool transposed) {
    const struct tensor *t = find(l, role, layer);
    if (!t)
        return NULL;
    bool heads = role == ROLE_LATENT_K_UP || role == ROLE_LATENT_V_UP;
    const struct tensor *m = t->dim_count == 3 && heads       ? flat(l, t)
                             : t->dim_count == 3              ? slice(l, t, layer)
                             : t->dim_count == 1 && rows == 1 ? one_row(l, t)
                                                              : t;
    bool ok = m && m->dim_count == 2 && m->dims[transposed] == rows && m->dims[!transposed] == cols;
    if (!ok)
        return wrong_shape(l, t, transposed ? cols : rows, transposed ? rows : cols);
    return use(l, t) ? m : NULL;
}

static const struct tensor *take_vector(struct loader *l, enum weight_role role, uint32_t layer,
                                        uint32_t count) {
    const struct tensor *t = find(l, role, layer);
    uint64_t have = 1;
    if (!t)
        return NULL;
    for (uint32_t i = 0; i < t->dim_count; i++)
        have *= t->dims[i];
    bool column = role == ROLE_SKIP; /* GGUF keeps D as one */
    bool ok =
        have == count && (t->dim_count == 1 || (t->dim_count == 2 && (column || t->dims[1] > 1)));
    if (ok && !storage_is_plain(storage_of(t))) {
        error_set(l->err, ERR_UNSUPPORTED, "'%s' is a vector of type %s, which is not supported",
                  t->name, tensor_type_name(t->type));
        return NULL;
    }
    return ok ? use(l, t) : wrong_shape(l, t, count, 0);
}

static int out_of_memory(struct loader *l, uint64_t size) {
    return error_set(l->err, ERR_MEMORY, "no memory for weights (%llu MB more)",
                     (unsigned long long)(size >> 20));
}

static void *new_device_memory(struct loader *l, size_t size) {
    void *p = device_alloc(l->w->dev, size);
    if (p)
        vec_push(&l->w->memory->owned, p);
    else
        out_of_memory(l, size);
    return p;
}

void *loader_new(struct loader *l, size_t size) {
    void *p = mem_calloc(1, size);
    vec_push(&l->w->memory->heap, p);
    return p;
}

void loader_skip(struct loader *l, enum weight_role role, uint32_t layer) {
    char name[TENSOR_NAME_MAX];
    if (!role_name(names_of(l, role, layer), l->prefix, role, layer, name))
        return;
    const struct tensor *t = safetensors_find(l->files, name);
    if (t)
        l->used[t - l->files->tensors] = true;
}

int loader_bytes(struct loader *l, const void **out, const void *host, size_t size) {
    void *p = new_device_memory(l, size);
    if (!p)
        return l->err->code;
    stream_copy_in(l->stream, p, host, size);
    *out = p;
    return 0;
}

/* ---- vectors ---- */

/* Puts `count` of a vector's `all` values, widened, from `first` on or in another order, to device
 * memory at `to`. */
static int put_values(struct loader *l, float *to, enum weight_role role, uint32_t layer,
                      uint32_t all, uint32_t first, uint32_t count, const uint32_t *order) {
    const struct tensor *t = take_vector(l, role, layer, all);
    if (!t)
        return l->err->code;
    float *host = mem_calloc(count, sizeof *host);
    for (uint32_t i = 0; i < count; i++)
        host[i] = storage_get(storage_of(t), t->data, order ? order[i] : first + i);
    stream_copy_in(l->stream, to, host, count * sizeof *host);
    mem_free(host);
    advance(l, t);
    return 0;
}

int loader_vector(struct loader *l, const float **out, enum weight_role role, uint32_t layer,
                  uint32_t count) {
    float *v = new_device_memory(l, count * sizeof *v);
    if (!v)
        return l->err->code;
    *out = v;
    return put_values(l, v, role, layer, count, 0, count, NULL);
}

/* Dimensions of size 1 do not count: some files have them, some have not. */
static bool same_dims(const struct tensor *t, const uint32_t *dims) {
    uint32_t i = 0;
    for (;; i++, dims++) {
        while (i < t->dim_count && t->dims[i] == 1)
            i++;
        while (*dims == 1)
            dims++;
        if (!*dims || i == t->dim_count)
            return !*dims && i == t->dim_count;
        if (t->dims[i] != *dims)
            return false;
    }
}

float *loader_values(struct loader *l, enum weight_role role, uint32_t layer,
                     const uint32_t *dims) {
    const struct tensor *t = find(l, role, layer);
    size_t values = 1;
    if (!t)
        return NULL;
    for (uint32_t i = 0; dims[i]; i++)
        values *= dims[i];
    if (!same_dims(t, dims)) {
        wrong_shape(l, t, dims[0], dims[1]);
        return NULL;
    }
    if (!use(l, t))
        return NULL;
    float *host = mem_calloc(values, sizeof *host);
    for (size_t i = 0; i < values; i++)
        host[i] = storage_get(storage_of(t), t->data, i);
    advance(l, t);
    return host;
}

int loader_put(struct loader *l, const float **out, float *host, size_t count) {
    if (!host)
        return l->err->code;
    float *v = new_device_memory(l, count * sizeof *v);
    *out = v;
    if (v)
        stream_copy_in(l->stream, v, host, count * sizeof *v);
    mem_free(host);
    return v ? 0 : l->err->code;
}

int loader_vectors(struct loader *l, const float **out, enum weight_role role, uint32_t layer,
                   uint32_t pieces, uint32_t count) {
    if (pieces == 1)
        return loader_vector(l, out, role, layer, count);
    float *v = new_device_memory(l, (size_t)pieces * count * sizeof *v);
    if (!v)
        return l->err->code;
    *out = v;
    int rc = 0;
    for (l->expert = 0; l->expert < pieces && !rc; l->expert++)
        rc = put_values(l, v + (size_t)l->expert * count, role, layer, count, 0, count, NULL);
    l->expert = 0;
    return rc;
}

int loader_ones(struct loader *l, const float **out, uint32_t count) {
    float *host = mem_calloc(count, sizeof *host);
    for (uint32_t i = 0; i < count; i++)
        host[i] = 1;
    return loader_put(l, out, host, count);
}

int loader_norm(struct loader *l, struct norm_weights *out, const struct norm_spec *spec,
                enum weight_role weight, enum weight_role bias, uint32_t layer, uint32_t width) {
    *out = (struct norm_weights){0};
    if (spec->kind == NORM_NONE)
        return 0;
    int rc = spec->plain ? loader_ones(l, &out->weight, width)
                         : loader_vector(l, &out->weight, weight, layer, width);
    return rc || !spec->bias ? rc : loader_vector(l, &out->bias, bias, layer, width);
}

/* ---- matrices ---- */

static struct shard_range rows_of(const struct product_segment *p, const struct cut *cut) {
    return cut && cut->rows.count ? cut->rows : (struct shard_range){0, p->rows};
}

static const struct cut *cut_at(const struct cut *cuts, uint32_t i) {
    return cuts ? &cuts[i] : NULL;
}

/* Bytes of a file where the device can read them; copied when the file does not align them. */
static const void *import(struct loader *l, const void *host, size_t len, size_t align) {
    if ((uintptr_t)host % align) {
        void *copy = mem_try_alloc(len);
        if (!copy)
            return NULL;
        memcpy(copy, host, len);
        vec_push(&l->w->memory->heap, copy);
        host = copy;
    }
    const void *p = device_import(l->w->dev, host, len);
    if (p)
        vec_push(&l->w->memory->imported, p);
    return p;
}

/* Leaves the segments where they are. */
static int map_segments(struct loader *l, struct matrix *m, const struct tensor *const *tensors,
                        const struct product_segment *segments, const struct cut *cuts,
                        uint32_t count) {
    size_t row_size = storage_bytes(m->type, m->cols);
    for (uint32_t i = 0; i < count; i++) {
        struct shard_range rows = rows_of(&segments[i], cut_at(cuts, i));
        const char *data = (const char *)tensors[i]->data + rows.first * row_size;
        m->segments[i].data =
            import(l, data, rows.count * row_size, tensor_type_size(tensors[i]->type));
        m->segments[i].rows = rows.count;
        if (!m->segments[i].data)
            return out_of_memory(l, rows.count * row_size);
    }
    m->segment_count = count;
    return 0;
}

/* [cols, rows] -> [rows, cols], values of `size` bytes. */
static void transpose(char *out, const char *in, uint64_t rows, uint64_t cols, size_t size) {
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < cols; c++)
            memcpy(out + (r * cols + c) * size, in + (c * rows + r) * size, size);
}

static void reorder(char *out, const char *in, uint64_t rows, size_t row_size,
                    const uint32_t *order) {
    for (uint64_t r = 0; r < rows; r++)
        memcpy(out + r * row_size, in + order[r] * row_size, row_size);
}

/* A host copy of a tensor with its rows as the product wants them; NULL: no memory. The caller
 * frees it. */
static char *arranged(const struct tensor *t, uint32_t rows, uint32_t cols, bool transposed,
                      const uint32_t *order) {
    size_t size = tensor_type_size(t->type), row_size = storage_bytes(storage_of(t), cols);
    char *out = mem_try_alloc(t->byte_len), *turned = out;
    if (!out)
        return NULL;
    if (transposed && order && !(turned = mem_try_alloc(t->byte_len))) {
        mem_free(out);
        return NULL;
    }
    if (transposed)
        transpose(turned, (const char *)t->data, t->dims[1], cols, size);
    if (order)
        reorder(out, transposed ? turned : (const char *)t->data, rows, row_size, order);
    if (turned != out)
        mem_free(turned);
    return out;
}

/* Rows and columns of an arranged tensor (rows of whole_cols values), at `out`. */
static void cut_out(char *out, const char *in, const struct matrix *m, uint32_t whole_cols,
                    struct shard_range rows, uint32_t first_col) {
    size_t in_size = storage_bytes(m->type, whole_cols), out_size = storage_bytes(m->type, m->cols);
    size_t skip = storage_bytes(m->type, first_col);
    for (size_t r = 0; r < rows.count; r++)
        memcpy(out + r * out_size, in + (rows.first + r) * in_size + skip, out_size);
}

/* One segment with only some of its rows or columns. With an order, that has chosen the rows
 * already. */
static int pack_cut(struct loader *l, char *to, const struct matrix *m, const struct tensor *t,
                    const struct product_segment *p, const struct cut *cut, uint32_t cols,
                    bool transposed, const uint32_t *order) {
    struct shard_range rows = rows_of(p, cut);
    if (order)
        rows.first = 0;
    char *whole = transposed || order
                      ? arranged(t, order ? rows.count : p->rows, cols, transposed, order)
                      : NULL;
    char *own = mem_try_alloc(rows.count * storage_bytes(m->type, m->cols));
    if (!own || ((transposed || order) && !whole)) {
        mem_free(whole);
        mem_free(own);
        return out_of_memory(l, t->byte_len);
    }
    cut_out(own, whole ? whole : (const char *)t->data, m, cols, rows, cut->cols.first);
    stream_copy_in(l->stream, to, own, rows.count * storage_bytes(m->type, m->cols));
    mem_free(whole);
    mem_free(own);
    return 0;
}

/* Copies the segments behind each other into device memory. */
static int pack_segments(struct loader *l, struct matrix *m, const struct tensor *const *tensors,
                         const struct product_segment *segments, const struct cut *cuts,
                         uint32_t count, uint32_t cols, bool transposed, const uint32_t *order) {
    char *data = new_device_memory(l, m->rows * storage_bytes(m->type, m->cols));
    if (!data)
        return l->err->code;
    m->segment_count = 1;
    m->segments[0] = (struct matrix_segment){.data = data, .rows = m->rows};
    for (uint32_t i = 0; i < count; i++) {
        const struct tensor *t = tensors[i];
        char *copy = NULL;
        if (cuts) {
            uint32_t rows = rows_of(&segments[i], &cuts[i]).count;
            int rc = pack_cut(l, data, m, t, &segments[i], &cuts[i], cols, transposed, order);
            if (rc)
                return rc;
            data += rows * storage_bytes(m->type, m->cols);
            if (order)
                order += rows;
            continue;
        }
        if (transposed || order) {
            copy = arranged(t, (uint32_t)t->dims[transposed], m->cols, transposed, order);
            if (!copy)
                return out_of_memory(l, t->byte_len);
        }
        stream_copy_in(l->stream, data, copy ? copy : (const char *)t->data, t->byte_len);
        mem_free(copy);
        data += t->byte_len;
        if (order)
            order += segments[i].rows;
    }
    return 0;
}

static int load_bias(struct loader *l, struct matrix *m, const struct product_segment *segments,
                     const struct cut *cuts, uint32_t count, uint32_t layer,
                     const uint32_t *order) {
    float *bias = new_device_memory(l, m->rows * sizeof *bias);
    if (!bias)
        return l->err->code;
    m->bias = bias;
    for (uint32_t i = 0; i < count; i++) {
        struct shard_range rows = rows_of(&segments[i], cut_at(cuts, i));
        int rc = put_values(l, bias, segments[i].bias, layer, segments[i].rows, rows.first,
                            rows.count, order);
        if (rc)
            return rc;
        bias += rows.count;
        if (order)
            order += rows.count;
    }
    return 0;
}

static bool is_transposed(const struct loader *l, enum weight_role role) {
    const struct name_table *names = l->spec->names;
    bool experts = role == ROLE_EXPERTS_GATE_UP || role == ROLE_EXPERTS_DOWN;
    return (names->transposed && role > ROLE_MIXER_NORM) || (names->experts_transposed && experts);
}

/* Whether columns [first, first + cols) of a tensor are whole blocks, or whole groups of scales. */
static bool ends_between(const struct tensor *t, uint32_t whole_cols, uint32_t first,
                         uint32_t cols) {
    uint32_t unit = t->scales ? quantized_column_unit(t, whole_cols) : storage_block(storage_of(t));
    return first % unit == 0 &&
           (cols % unit == 0 || (first + cols == whole_cols && t->scales && cols % 2 == 0));
}

static bool is_one_type(const struct matrix *m) {
    for (uint32_t i = 1; i < m->segment_count; i++)
        if (m->segments[i].type != m->type)
            return false;
    return true;
}

/* Whether a product that is not plain can be arranged so: rows can change places, and lose columns
 * between blocks. */
static int check_arranged(struct loader *l, const struct matrix *m,
                          const struct tensor *const *tensors, const struct cut *cuts,
                          uint32_t cols, bool transposed) {
    bool whole = true;
    for (uint32_t i = 0; i < m->segment_count && cuts; i++)
        whole = whole && (!cuts[i].cols.count ||
                          ends_between(tensors[i], cols, cuts[i].cols.first, m->cols));
    if (matrix_is_plain(m) || (!transposed && whole))
        return 0;
    return error_set(l->err, ERR_UNSUPPORTED, "'%s' is of type %s, which cannot be %s",
                     tensors[0]->name, tensor_type_name(tensors[0]->type),
                     whole ? "put into another order" : "cut into columns for several ranks");
}

int loader_pack(struct loader *l, struct matrix *m, enum pack_place place) {
    struct device *dev = l->w->dev;
    m->compute = device_compute(dev, m);
    if (m->compute & (COMPUTE_FP8 | COMPUTE_FP8_PROMPTS))
        l->w->fp8_cols = MAX(l->w->fp8_cols, m->cols);
    for (uint32_t i = 0; i < m->segment_count && dev->ops->packed_bytes; i++) {
        size_t size = dev->ops->packed_bytes(dev, m, i);
        void *packed = NULL;
        bool apart = size && size != PACKED_IN_PLACE, keeps = l->packed && apart;
        /* the file's segments come in order: behind one that is not there none is */
        if (keeps && !l->w->memory->unpacked.count &&
            (m->segments[i].packed = packed_file_next(l->packed, size)))
            continue;
        if (apart && l->packs_later) {
            struct unpacked_segment later = {m, i, size};
            vec_push(&l->w->memory->unpacked, later);
            continue;
        }
        if (size == PACKED_IN_PLACE && place == PACK_HERE)
            packed = (void *)m->segments[i].data;
        else if (size == PACKED_IN_PLACE)
            size = place == PACK_NOT ? 0
                                     : m->segments[i].rows *
                                           storage_bytes(segment_type(m, &m->segments[i]), m->cols);
        if (size && !packed && !(packed = new_device_memory(l, size)))
            return l->err->code;
        if (packed)
            dev->ops->pack(l->stream, m, i, packed);
        if (keeps)
            packed_file_add(l->packed, packed, size);
        m->segments[i].packed = packed;
    }
    return 0;
}

/* Whether products with the role's matrix go through linear or expert_linear. */
static bool goes_through_linear(enum weight_role role) {
    return role != ROLE_POSITIONS && role != ROLE_LATENT_KV_UP && role != ROLE_LATENT_K_UP &&
           role != ROLE_LATENT_V_UP;
}

static bool is_expert(enum weight_role role) {
    return role >= ROLE_EXPERT_GATE && role <= ROLE_EXPERTS_DOWN;
}

static bool is_whole(const struct product_segment *segments, const struct cut *cuts,
                     uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (cuts[i].cols.count || rows_of(&segments[i], &cuts[i]).count != segments[i].rows)
            return false;
    return true;
}

int loader_take(struct loader *l, struct matrix *m, const struct product_segment *segments,
                const struct cut *cuts, uint32_t count, uint32_t cols, bool bias, uint32_t layer,
                const uint32_t *order) {
    const struct tensor *tensors[MATRIX_SEGMENTS_MAX] = {NULL};
    bool transposed = is_transposed(l, segments[0].role);
    if (cuts && is_whole(segments, cuts, count))
        cuts = NULL;
    *m = (struct matrix){.cols = cuts && cuts[0].cols.count ? cuts[0].cols.count : cols,
                         .segment_count = count};
    for (uint32_t i = 0; i < count; i++) {
        tensors[i] = take_matrix(l, segments[i].role, layer, segments[i].rows, cols, transposed);
        if (!tensors[i])
            return l->err->code;
        m->segments[i].type = storage_of(tensors[i]);
        if (i == 0)
            m->type = m->segments[0].type;
        m->rows += rows_of(&segments[i], cut_at(cuts, i)).count;
        advance(l, tensors[i]);
    }
    int rc = check_arranged(l, m, tensors, cuts, cols, transposed);
    if (rc)
        return rc;
    if (l->w->main_type == STORAGE_NONE && segments[0].role > ROLE_MIXER_NORM)
        l->w->main_type = m->type;
    bool same_place = !transposed && !order && m->cols == cols;
    if (same_place && !matrix_is_plain(m))
        rc = loader_map_quantized(l, m, tensors, segments, cuts, count);
    else if (storage_is_scaled(m->type) || !is_one_type(m))
        rc = loader_take_scaled(l, m, tensors, segments, cuts, count, cols, order);
    else if (same_place && l->w->dev->kind == DEVICE_CPU)
        rc = map_segments(l, m, tensors, segments, cuts, count);
    else
        rc = pack_segments(l, m, tensors, segments, cuts, count, cols, transposed, order);
    return rc || !bias ? rc : load_bias(l, m, segments, cuts, count, layer, order);
}

int loader_cut(struct loader *l, struct matrix *m, const struct product_segment *segments,
               const struct cut *cuts, uint32_t count, uint32_t cols, bool bias, uint32_t layer,
               const uint32_t *order) {
    enum weight_role role = segments[0].role;
    int rc = loader_take(l, m, segments, cuts, count, cols, bias, layer, order);
    if (rc || !goes_through_linear(role))
        return rc;
    return loader_pack(l, m, is_expert(role) ? PACK_NOT : PACK_HERE);
}

int loader_matrix(struct loader *l, struct matrix *m, const struct product_segment *segments,
                  uint32_t count, uint32_t cols, bool bias, uint32_t layer) {
    return loader_cut(l, m, segments, NULL, count, cols, bias, layer, NULL);
}

int loader_partial(struct loader *l, struct matrix *m, const struct product_segment *segment,
                   struct shard_range own, uint32_t cols, bool bias, uint32_t layer) {
    const struct cut cut = {.cols = own};
    bool elsewhere = own.count && l->shard->rank;
    if (elsewhere)
        loader_skip(l, segment->bias, layer);
    return loader_cut(l, m, segment, own.count ? &cut : NULL, 1, cols, bias && !elsewhere, layer,
                      NULL);
}

/* ---- MXFP4 ---- */

static const struct tensor *take_u8(struct loader *l, enum weight_role role, uint32_t layer,
                                    const uint64_t *dims, uint32_t dim_count) {
    const struct tensor *t = find(l, role, layer);
    if (!t)
        return NULL;
    bool ok = t->type == TENSOR_U8 && t->dim_count == dim_count;
    for (uint32_t i = 0; ok && i < dim_count; i++)
        ok = t->dims[i] == dims[i];
    if (!ok)
        return wrong_shape(l, t, dims[1], (uint32_t)dims[2]);
    l->used[t - l->files->tensors] = true;
    return t;
}

int loader_mxfp4(struct loader *l, struct matrix *m, enum weight_role blocks,
                 enum weight_role scales, uint32_t rows, uint32_t cols, const struct cut *cut,
                 uint32_t layer) {
    uint32_t experts = l->spec->layers[layer].moe.router.experts, row_blocks = cols / 32;
    const uint64_t dims[] = {experts, rows, row_blocks, 16};
    struct shard_range own = cut && cut->rows.count ? cut->rows : (struct shard_range){0, rows};
    struct shard_range own_cols =
        cut && cut->cols.count ? cut->cols : (struct shard_range){0, cols};
    if (cols % 32 || own_cols.first % 32 || own_cols.count % 32)
        return error_set(l->err, ERR_UNSUPPORTED, "MXFP4 rows of %u values are no whole blocks",
                         own_cols.count);
    const struct tensor *b = take_u8(l, blocks, layer, dims, 4),
                        *s = b ? take_u8(l, scales, layer, dims, 3) : NULL;
    if (!s)
        return l->err->code;
    size_t row_size = storage_bytes(STORAGE_MXFP4, own_cols.count), size = own.count * row_size;
    uint8_t *host = mem_try_alloc(size);
    if (!host)
        return out_of_memory(l, size);
    for (uint32_t r = 0; r < own.count; r++) {
        size_t at = ((size_t)l->expert * rows + own.first + r) * row_blocks + own_cols.first / 32;
        if (memchr(s->data + at, MXFP4_NO_NUMBER, own_cols.count / 32)) {
            mem_free(host);
            return error_set(
                l->err, ERR_INVALID,
                "'%s' has a scale of 255 in row %llu of expert %u, which is no number; "
                "the file is damaged or was written wrongly",
                s->name, (unsigned long long)(own.first + r), l->expert);
        }
        mxfp4_pack(host + r * row_size, b->data + at * 16, s->data + at, own_cols.count / 32);
    }
    *m = (struct matrix){.type = STORAGE_MXFP4,
                         .rows = own.count,
                         .cols = own_cols.count,
                         .segment_count = 1,
                         .segments = {{.rows = own.count}}};
    int rc = loader_bytes(l, &m->segments[0].data, host, size);
    mem_free(host);
    struct tensor given = {.byte_len = size};
    advance(l, &given);
    return rc ? rc : loader_pack(l, m, PACK_NOT);
}
