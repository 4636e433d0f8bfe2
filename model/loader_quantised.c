#include "model/loader_quantised.h"

#include "base/vec.h"
#include "model/weight_memory.h"

/* Bytes where the device can read them, aligned to their numbers. */
static const void *import(struct loader *l, const void *host, size_t size, size_t align) {
    if ((uintptr_t)host % align) {
        void *copy = mem_try_alloc(size);
        if (!copy) return NULL;
        memcpy(copy, host, size);
        vec_push(&l->w->memory->heap, copy);
        host = copy;
    }
    const void *p = device_import(l->w->dev, host, size);
    if (p) vec_push(&l->w->memory->imported, p);
    return p;
}

/* Where the scales of rows from `first` on begin; -1: in the midst of rows that share one. */
static int64_t scale_offset(const struct tensor_scales *s, uint32_t first, uint32_t cols) {
    if (s->rows_each == 0) return (uint64_t)first * cols % s->cols_each ? -1 : (int64_t)first * cols / s->cols_each;
    if (first == 0 || s->rows_each >= INT32_MAX) return 0;
    return first % s->rows_each ? -1 : (int64_t)(first / s->rows_each) * s->stride;
}

static bool import_scales(struct loader *l, struct matrix_part *p, const struct tensor_scales *s, size_t skip,
                          uint32_t cols) {
    size_t count = s->count - skip;
    p->scale_rows = s->rows_each;
    p->scale_cols = s->cols_each;
    p->scale_stride = s->stride;
    p->zero = s->zero;
    if (s->scales) p->scales = import(l, s->scales + skip, count * sizeof *s->scales, 4);
    if (s->zeros) p->zeros = import(l, s->zeros + skip, count * sizeof *s->zeros, 4);
    if (s->groups) p->groups = import(l, s->groups, cols * sizeof *s->groups, 4);
    return (!s->scales || p->scales) && (!s->zeros || p->zeros) && (!s->groups || p->groups);
}

static int map_part(struct loader *l, struct matrix_part *p, const struct tensor *t, struct shard_range rows,
                    uint32_t cols) {
    size_t row_size = storage_bytes(p->type, cols), align = storage_is_plain(p->type) ? storage_bytes(p->type, 1) : 1;
    int64_t skip = t->scales ? scale_offset(t->scales, rows.first, cols) : 0;
    if (skip < 0)
        return error_set(l->err, ERR_UNSUPPORTED, "'%s': rows that share a scale cannot be cut for several ranks",
                         t->name);
    p->rows = rows.count;
    p->data = import(l, t->data + rows.first * row_size, rows.count * row_size, align);
    if (p->data && (!t->scales || import_scales(l, p, t->scales, (size_t)skip, cols))) return 0;
    return error_set(l->err, ERR_MEMORY, "no memory for '%s'", t->name);
}

int loader_map_quantised(struct loader *l, struct matrix *m, const struct tensor *const *tensors,
                         const struct part *parts, const struct cut *cuts, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct shard_range all = {0, parts[i].rows};
        int rc = map_part(l, &m->parts[i], tensors[i], cuts && cuts[i].rows.count ? cuts[i].rows : all, m->cols);
        if (rc) return rc;
    }
    m->part_count = count;
    return 0;
}
