/* Items of a plan: tensors of the target out of views of the source's (export_planner.h). */
#include "model/convert/export_planner.h"
#include "model/load/storage_map.h"

const struct tensor *planner_find(const struct planner *p, enum weight_role role, uint32_t piece) {
    char name[TENSOR_NAME_MAX];
    return role_expert_name(p->from, p->prefix, role, p->layer, piece, name)
               ? safetensors_find(&p->model->files, name)
               : NULL;
}

static void use(struct planner *p, const struct tensor *t) {
    p->used[t - p->model->files.tensors] = true;
}
bool planner_has_used(const struct planner *p, const struct tensor *t) {
    return p->used[t - p->model->files.tensors];
}

enum tensor_type export_matrix_type(const struct tensor *t, enum storage_type want, uint32_t cols) {
    enum storage_type now = storage_of(t), type = want;
    if (want == STORAGE_NONE)
        return storage_is_scaled(now) ? TENSOR_F16 : t->type;
    if (cols % storage_block(type))
        type = cols % 32 ? STORAGE_F16 : STORAGE_Q8_0;
    return tensor_type_of(type);
}

struct export_item *planner_add(struct planner *p, enum weight_role role, uint32_t piece,
                                uint32_t views) {
    struct export_plan *plan = p->plan;
    if (plan->count == plan->room) {
        plan->room = 2 * plan->room + 64;
        plan->items = mem_realloc(plan->items, plan->room * sizeof *plan->items);
    }
    struct export_item *item = &plan->items[plan->count];
    *item = (struct export_item){.view_count = views, .planes = 1};
    if (!role_expert_name(p->to, p->to_prefix, role, p->layer, piece, item->name)) {
        error_set(p->err, ERR_UNSUPPORTED, "role %d of layer %u has no name in the other format",
                  (int)role, p->layer);
        return NULL;
    }
    item->views = mem_calloc(views, sizeof *item->views);
    plan->count++;
    return item;
}

struct export_view planner_view(struct planner *p, const struct tensor *t, uint32_t plane_rows) {
    uint64_t values = 1;
    uint32_t cols = t->dim_count < 2 ? 1 : (uint32_t)t->dims[t->dim_count - 1];
    for (uint32_t i = 0; i < t->dim_count; i++)
        values *= t->dims[i];
    use(p, t);
    return (struct export_view){.tensor = t,
                                .cols = cols,
                                .plane_rows =
                                    plane_rows ? plane_rows : (uint32_t)(values / MAX(cols, 1u)),
                                .step = 1};
}

void export_set_shape(struct export_item *item, uint32_t planes, uint32_t rows, uint32_t cols) {
    const uint32_t dims[] = {planes, rows, cols};
    item->planes = planes;
    item->rows = rows;
    item->cols = cols;
    item->dim_count = planes > 1 ? 3 : 2;
    for (uint32_t i = 0; i < item->dim_count; i++)
        item->dims[i] = dims[3 - item->dim_count + i];
}

int planner_finish(struct planner *p, struct export_item *item, bool is_vector) {
    const struct tensor *t = item->views[0].tensor;
    enum tensor_type kept = planner_kept_type(p, item->name);
    item->vector = is_vector;
    for (uint32_t i = 0; i < item->view_count; i++) {
        const struct tensor *v = item->views[i].tensor;
        if (storage_of(v) == STORAGE_NONE)
            return error_set(p->err, ERR_UNSUPPORTED,
                             "'%s' is of type %s with %u dimensions, which cannot be converted",
                             v->name, tensor_type_name(v->type), v->dim_count);
    }
    item->type = is_vector ? (p->o->vectors == TENSOR_TYPE_COUNT ? t->type : p->o->vectors)
                           : export_matrix_type(t, p->o->matrices, item->cols);
    for (uint32_t i = 1; !is_vector && i < item->view_count;
         i++) /* parts of several types become one of their kind */
        if (item->views[i].tensor->type != t->type && item->type == t->type)
            item->type = TENSOR_F16;
    if (is_vector && kept != TENSOR_TYPE_COUNT)
        item->type = kept;
    return 0;
}

int planner_gather(struct planner *p, enum weight_role from, enum weight_role to, uint32_t pieces) {
    const struct tensor *first = planner_find(p, from, 0);
    struct export_item *item = planner_add(p, to, 0, pieces);
    if (!item)
        return p->err->code;
    for (uint32_t i = 0; i < pieces; i++) {
        const struct tensor *t = planner_find(p, from, i);
        if (!t || t->dim_count != first->dim_count ||
            memcmp(t->dims, first->dims, t->dim_count * sizeof *t->dims) || t->dim_count > 2 ||
            (i && planner_has_used(p, t)))
            return error_set(p->err, ERR_INVALID, "'%s' has no %u like it", first->name, pieces);
        item->views[i] = planner_view(p, t, 0);
    }
    item->join = EXPORT_PLANES;
    export_set_shape(item, pieces, item->views[0].plane_rows, item->views[0].cols);
    item->dim_count = 3;
    if (first->dim_count == 2) {
        const uint64_t dims[] = {pieces, item->rows, item->cols};
        memcpy(item->dims, dims, sizeof dims);
    } else {
        item->dim_count = 2;
        item->dims[0] = pieces;
        item->dims[1] = item->rows;
    }
    return planner_finish(p, item, first->dim_count == 1);
}

int planner_spread(struct planner *p, const struct tensor *t, enum weight_role to,
                   uint32_t pieces) {
    bool vectors = t->dim_count == 2;
    if (t->dim_count < 2 || t->dims[0] != pieces)
        return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says",
                         t->name);
    for (uint32_t i = 0; i < pieces; i++) {
        struct export_item *item = planner_add(p, to, i, 1);
        if (!item)
            return p->err->code;
        item->views[0] = planner_view(p, t, (uint32_t)t->dims[1]);
        if (vectors)
            item->views[0].cols = 1;
        item->views[0].plane_first = i;
        item->views[0].count = (uint32_t)t->dims[1];
        export_set_shape(item, 1, (uint32_t)t->dims[1], item->views[0].cols);
        if (vectors)
            item->dim_count = 1;
        int rc = planner_finish(p, item, vectors);
        if (rc)
            return rc;
    }
    return 0;
}
