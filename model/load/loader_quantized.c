#include "model/load/loader_quantized.h"

#include "base/vec.h"
#include "model/load/weight_memory.h"

/* Bytes where the device can read them, aligned to their numbers. */
static const void *import(struct loader *l, const void *host, size_t size, size_t align) {
    if ((uintptr_t)host % align) {
        void *copy = mem_try_alloc(size);
        if (!copy)
            return NULL;
        memcpy(copy, host, size);
        vec_push(&l->w->memory->heap, copy);
        host = copy;
    }
    const void *p = device_import(l->w->dev, host, size);
    if (p)
        vec_push(&l->w->memory->imported, p);
    return p;
}

/* Where the scales of rows from `first` on begin; -1: in the midst of what shares one. */
static int64_t scale_offset(const struct tensor_scales *s, uint32_t first, uint32_t cols) {
    if (s->rows_each == 0)
        return (uint64_t)first * cols % s->cols_each ? -1 : (int64_t)first * cols / s->cols_each;
    if (first == 0 || s->rows_each >= INT32_MAX)
        return 0;
    return first % s->rows_each ? -1 : (int64_t)(first / s->rows_each) * s->stride;
}

static bool import_scales(struct loader *l, struct matrix_segment *p, const struct tensor_scales *s,
                          size_t skip, uint32_t cols) {
    size_t count = s->count - skip;
    p->scale_rows = s->rows_each;
    p->scale_cols = s->cols_each;
    p->scale_stride = s->stride;
    p->zero = s->zero;
    if (s->scales)
        p->scales = import(l, s->scales + skip, count * sizeof *s->scales, 4);
    if (s->zeros)
        p->zeros = import(l, s->zeros + skip, count * sizeof *s->zeros, 4);
    if (s->groups)
        p->groups = import(l, s->groups, cols * sizeof *s->groups, 4);
    return (!s->scales || p->scales) && (!s->zeros || p->zeros) && (!s->groups || p->groups);
}

/* ---- some of the columns, or rows in another order ---- */

/* Columns that share a scale; 0: all of a row do. */
static uint32_t scale_width(const struct tensor_scales *s, uint64_t cols) {
    return s->rows_each && s->cols_each >= cols ? 0 : s->cols_each;
}

uint32_t quantized_column_unit(const struct tensor *t, uint64_t cols) {
    const struct tensor_scales *s = t->scales;
    uint32_t pair = t->type == TENSOR_U4 || t->type == TENSOR_NF4 ? 2 : 1;
    if (s->groups)
        return pair;
    uint32_t width = scale_width(s, cols);
    /* scales run on from row to row */
    if (s->rows_each == 0 && cols % s->cols_each)
        return UINT32_MAX;
    return width ? width * (width % pair ? 2 : 1) : pair;
}

/* What is taken of a tensor: rows [first_row ..) or those of `order`, columns [first_col, first_col
 * + cols). */
struct taken {
    const struct tensor *t;
    uint32_t whole_cols, first_row, rows, first_col, cols;
    const uint32_t *order; /* NULL: as they lie */
};

static uint32_t row_at(const struct taken *a, uint32_t i) {
    return a->order ? a->order[i] : a->first_row + i;
}

static int take_data(struct loader *l, struct matrix_segment *p, const struct taken *a) {
    size_t whole = storage_bytes(p->type, a->whole_cols), size = storage_bytes(p->type, a->cols),
           skip = storage_bytes(p->type, a->first_col);
    uint8_t *host = mem_try_alloc(MAX(a->rows * size, (size_t)1));
    if (!host)
        return error_set(l->err, ERR_MEMORY, "no memory for '%s'", a->t->name);
    for (uint32_t i = 0; i < a->rows; i++)
        memcpy(host + i * size, a->t->data + row_at(a, i) * whole + skip, size);
    int rc = loader_bytes(l, &p->data, host, a->rows * size);
    mem_free(host);
    p->rows = a->rows;
    return rc;
}

/* Scales or zeros of the rows, `count` a row. */
static int take_places(struct loader *l, const float **out, const float *from,
                       const struct taken *a, uint32_t count) {
    const struct tensor_scales *s = a->t->scales;
    const void *made = NULL;
    if (!from)
        return 0;
    uint32_t width = scale_width(s, a->whole_cols),
             column = s->groups || !width ? 0 : a->first_col / width;
    float *host = mem_try_alloc(MAX((size_t)a->rows * count, (size_t)1) * sizeof *host);
    if (!host)
        return error_set(l->err, ERR_MEMORY, "no memory for '%s'", a->t->name);
    for (uint32_t i = 0; i < a->rows; i++) {
        uint32_t row = row_at(a, i);
        size_t begin = s->rows_each ? (size_t)(row / s->rows_each) * s->stride
                                    : (size_t)row * a->whole_cols / s->cols_each;
        memcpy(host + (size_t)i * count, from + begin + column, count * sizeof *host);
    }
    int rc = loader_bytes(l, &made, host, (size_t)a->rows * count * sizeof *host);
    *out = made;
    mem_free(host);
    return rc;
}

static int take_scales(struct loader *l, struct matrix_segment *p, const struct taken *a) {
    const struct tensor_scales *s = a->t->scales;
    uint32_t width = scale_width(s, a->whole_cols), count = s->groups ? s->stride
                                                            : width ? (a->cols + width - 1) / width
                                                                    : 1;
    const void *groups = NULL;
    p->scale_rows = 1;
    p->scale_cols = width;
    p->scale_stride = count;
    p->zero = s->zero;
    int rc = take_places(l, &p->scales, s->scales, a, count);
    if (!rc)
        rc = take_places(l, &p->zeros, s->zeros, a, count);
    if (!rc && s->groups)
        rc = loader_bytes(l, &groups, s->groups + a->first_col, a->cols * sizeof *s->groups);
    p->groups = groups;
    return rc;
}

static int map_segment(struct loader *l, struct matrix_segment *p, const struct tensor *t,
                       struct shard_range rows, uint32_t cols) {
    size_t row_size = storage_bytes(p->type, cols),
           align = storage_is_plain(p->type) ? storage_bytes(p->type, 1) : 1;
    int64_t skip = t->scales ? scale_offset(t->scales, rows.first, cols) : 0;
    if (skip < 0) { /* rows that share a scale with others: each gets its own */
        const struct taken a = {
            .t = t, .whole_cols = cols, .first_row = rows.first, .rows = rows.count, .cols = cols};
        int rc = t->scales->rows_each || cols % t->scales->cols_each == 0 ? take_data(l, p, &a) : 1;
        if (rc <= 0)
            return rc ? rc : take_scales(l, p, &a);
        return error_set(l->err, ERR_UNSUPPORTED,
                         "'%s': rows that share a scale cannot be cut for several ranks", t->name);
    }
    p->rows = rows.count;
    p->data = import(l, t->data + rows.first * row_size, rows.count * row_size, align);
    if (p->data && (!t->scales || import_scales(l, p, t->scales, (size_t)skip, cols)))
        return 0;
    return error_set(l->err, ERR_MEMORY, "no memory for '%s'", t->name);
}

int loader_map_quantized(struct loader *l, struct matrix *m, const struct tensor *const *tensors,
                         const struct product_segment *segments, const struct cut *cuts,
                         uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct shard_range all = {0, segments[i].rows};
        int rc = map_segment(l, &m->segments[i], tensors[i],
                             cuts && cuts[i].rows.count ? cuts[i].rows : all, m->cols);
        if (rc)
            return rc;
    }
    m->segment_count = count;
    return 0;
}

int loader_take_scaled(struct loader *l, struct matrix *m, const struct tensor *const *tensors,
                       const struct product_segment *segments, const struct cut *cuts,
                       uint32_t count, uint32_t cols, const uint32_t *order) {
    for (uint32_t i = 0; i < count; i++) {
        const struct cut *cut = cuts ? &cuts[i] : NULL;
        struct shard_range rows =
            cut && cut->rows.count ? cut->rows : (struct shard_range){0, segments[i].rows};
        const struct taken a = {.t = tensors[i],
                                .whole_cols = cols,
                                .first_row = rows.first,
                                .rows = rows.count,
                                .first_col = cut ? cut->cols.first : 0,
                                .cols = m->cols,
                                .order = order};
        int rc = take_data(l, &m->segments[i], &a);
        if (!rc && a.t->scales)
            rc = take_scales(l, &m->segments[i], &a);
        if (rc)
            return rc;
        if (order)
            order += rows.count;
    }
    m->segment_count = count;
    return 0;
}
