/* Rows of an item from its views (export.h). */
#include "model/convert/export.h"

#include "kernels/encode.h"
#include "model/load/mxfp4.h"
#include "model/load/storage_map.h"

#include <math.h>

static struct matrix matrix_of(const struct export_view *v) {
    const struct tensor *t = v->tensor;
    uint64_t values = 1;
    for (uint32_t i = 0; i < t->dim_count; i++)
        values *= t->dims[i];
    struct matrix m = {.type = storage_of(t),
                       .rows = (uint32_t)(values / v->cols),
                       .cols = v->cols,
                       .segment_count = 1};
    m.segments[0] = (struct matrix_segment){.data = t->data, .rows = m.rows};
    if (t->scales) {
        m.segments[0].scale_rows = t->scales->rows_each;
        m.segments[0].scale_cols = t->scales->cols_each;
        m.segments[0].scale_stride = t->scales->stride;
        m.segments[0].zero = t->scales->zero;
        m.segments[0].scales = t->scales->scales;
        m.segments[0].zeros = t->scales->zeros;
        m.segments[0].groups = t->scales->groups;
    }
    return m;
}

size_t export_row_bytes(const struct export_item *item) {
    return item->cols / tensor_type_block(item->type) * tensor_type_size(item->type);
}

bool export_changes(const struct export_item *item) {
    return item->add != 0 || item->map;
}

float export_changed(const struct export_item *item, float value) {
    if (item->map == MAP_NONE)
        return value + item->add;
    return item->map == MAP_NEGATED_EXP ? -expf(value) : logf(-value);
}

float export_unchanged(const struct export_item *item, float value) {
    if (item->map == MAP_NONE)
        return value - item->add;
    return item->map == MAP_NEGATED_EXP ? logf(-value) : -expf(value);
}

/* Where row r of plane p lies: a row, or for a turned view the column and the plane's first row. */
struct place {
    uint64_t row;
    uint32_t col;
};
static struct place place_of(const struct export_view *v, uint32_t plane, uint32_t r) {
    uint64_t begin = (uint64_t)(v->plane_first + plane) * v->plane_rows,
             at = v->first + (uint64_t)r * v->step;
    return v->turned ? (struct place){begin, (uint32_t)at} : (struct place){begin + at, 0};
}

/* One value; of block types by way of those beside it. */
static float value_at(const struct matrix *m, uint64_t row, uint32_t col) {
    float group[32];
    uint32_t first = col / 32 * 32;
    if (storage_is_plain(m->type))
        return storage_get(m->type, m->segments[0].data, row * m->cols + col);
    matrix_dequantize(m, (uint32_t)row, first, MIN(32, m->cols - first), group);
    return group[col - first];
}

/* `count` values of a row of a view. */
static void view_row(const struct export_view *v, uint32_t plane, uint32_t r, uint32_t count,
                     float *out) {
    struct place at = place_of(v, plane, r);
    struct matrix m = matrix_of(v);
    if (!v->turned)
        matrix_dequantize(&m, (uint32_t)at.row, 0, count, out);
    for (uint32_t c = 0; v->turned && c < count; c++)
        out[c] = value_at(&m, at.row + c, at.col);
}

/* The view that gives row *r of a plane; *plane and *r become its own. */
static const struct export_view *view_of(const struct export_item *item, uint32_t *plane,
                                         uint32_t *r) {
    const struct export_view *v = item->views;
    switch (item->join) {
    case EXPORT_STACK:
        for (; *r >= v->count; v++)
            *r -= v->count;
        return v;
    case EXPORT_TURNS:
    case EXPORT_BLOCKS:
    case EXPORT_SCALES:
        v += *r % item->view_count;
        *r /= item->view_count;
        return v;
    case EXPORT_PLANES:
        v += *plane;
        *plane = 0;
        return v;
    case EXPORT_COLUMNS:
    case EXPORT_PACKED: break;
    }
    return v;
}

/* Each view's columns go to their places; `row` has room for a row. */
static void joined_columns(const struct export_item *item, uint32_t plane, uint32_t r, float *out,
                           float *row) {
    uint32_t step = item->alternate ? item->view_count : 1, at = 0;
    for (uint32_t i = 0; i < item->view_count; i++) {
        const struct export_view *v = &item->views[i];
        view_row(v, plane, r, v->count, row);
        for (uint32_t c = 0; c < v->count; c++)
            out[at + c * step] = row[c];
        at += item->alternate ? 1 : v->count;
    }
}

/* A row of an item that folders have as blocks and scales. values: f32 [2 * cols]. */
static void mxfp4_row(const struct export_item *item, const struct export_view *v, uint64_t row,
                      float *values, void *out) {
    size_t groups = v->cols / (item->join == EXPORT_PACKED ? MXFP4_BLOCK : MXFP4_VALUES_EACH);
    const uint8_t *from = v->tensor->data;
    if (item->join == EXPORT_BLOCKS)
        return mxfp4_blocks(out, from + row * groups * MXFP4_SIZE, groups);
    if (item->join == EXPORT_SCALES)
        return mxfp4_scales(out, from + row * groups * MXFP4_SIZE, groups);
    uint8_t *packed = item->type == TENSOR_MXFP4 ? out : (uint8_t *)(values + item->cols);
    mxfp4_pack(packed, from + row * groups * MXFP4_BLOCK,
               item->views[1].tensor->data + row * groups, groups);
    if (item->type == TENSOR_MXFP4)
        return;
    const struct matrix m = {.type = STORAGE_MXFP4,
                             .rows = 1,
                             .cols = item->cols,
                             .segment_count = 1,
                             .segments = {{.data = packed, .rows = 1}}};
    matrix_dequantize(&m, 0, 0, item->cols, values);
    storage_encode(storage_of(&(struct tensor){.type = item->type}), values, item->cols, out);
}

void export_row(const struct export_item *item, uint64_t row, float *values, void *out) {
    uint32_t plane = (uint32_t)(row / item->rows), r = (uint32_t)(row % item->rows);
    if (item->order)
        r = item->order[r];
    const struct export_view *v = view_of(item, &plane, &r);
    if (item->join >= EXPORT_PACKED)
        return mxfp4_row(item, v, place_of(v, plane, r).row, values, out);
    size_t size = export_row_bytes(item);
    bool columns = item->join == EXPORT_COLUMNS;
    if (item->type == v->tensor->type && !export_changes(item) && !v->turned && !columns &&
        !item->columns) {
        memcpy(out, v->tensor->data + place_of(v, plane, r).row * size, size);
        return;
    }
    if (item->exact)
        memcpy(values, item->exact + row * item->cols * sizeof *values,
               item->cols * sizeof *values);
    else if (columns)
        joined_columns(item, plane, r, values, values + item->cols);
    else
        view_row(v, plane, r, item->cols, values);
    if (item->columns) {
        memcpy(values + item->cols, values, item->cols * sizeof *values);
        for (uint32_t c = 0; c < item->cols; c++)
            values[c] = values[item->cols + item->columns[c]];
    }
    for (uint32_t i = 0; !item->exact && export_changes(item) && i < item->cols; i++)
        values[i] = export_changed(item, values[i]);
    storage_encode(storage_of(&(struct tensor){.type = item->type}), values, item->cols, out);
}
