/* Feed-forwards' tensors on their way to the other format (export_planner.h). */
#include "model/convert/export_planner.h"
#include "model/load/mxfp4.h"

/* ---- gate and up, fused or apart ---- */

struct halves {
    enum weight_role whole, each[2];
    bool experts, bias;
};
static const struct halves HALVES[] = {
    {ROLE_EXPERTS_GATE_UP, {ROLE_EXPERTS_GATE, ROLE_EXPERTS_UP}, true, false},
    {ROLE_EXPERTS_GATE_UP_BIAS, {ROLE_EXPERTS_GATE_BIAS, ROLE_EXPERTS_UP_BIAS}, true, true},
    {ROLE_SHARED_GATE_UP, {ROLE_SHARED_GATE, ROLE_SHARED_UP}, false, false},
    {ROLE_GATE_UP, {ROLE_GATE, ROLE_UP}, false, false}};

static bool alternating(const struct planner *p) {
    return p->model->spec.layers[p->layer].moe.clamped;
}

/* A fused tensor of a folder to GGUF's two. */
static int split(struct planner *p, const struct halves *h, const struct tensor *t) {
    bool turned = h->experts && !h->bias && p->from->experts_transposed,
         pairs = h->experts && alternating(p);
    uint32_t planes = h->experts ? (uint32_t)t->dims[0] : 1, rows_dim = h->experts ? 1 : 0;
    if (t->dim_count != (h->bias ? 2u : h->experts ? 3u : 2u) || t->dims[rows_dim + turned] % 2)
        return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says",
                         t->name);
    uint32_t both = (uint32_t)t->dims[rows_dim + turned], width = both / 2;
    for (uint32_t i = 0; i < 2; i++) {
        struct export_item *item = planner_add(p, h->each[i], 0, 1);
        if (!item)
            return p->err->code;
        struct export_view *v = &item->views[0];
        *v = planner_view(p, t, (uint32_t)t->dims[rows_dim]);
        if (h->bias)
            v->cols = 1;
        v->turned = turned;
        v->first = pairs ? i : i * width;
        v->step = pairs ? 2 : 1;
        v->count = width;
        export_set_shape(item, planes, width, turned ? v->plane_rows : v->cols);
        if (h->experts)
            item->dim_count = h->bias ? 2 : 3;
        if (h->experts)
            memcpy(item->dims, (uint64_t[]){planes, width, item->cols}, sizeof item->dims);
        int rc = planner_finish(p, item, h->bias);
        if (rc)
            return rc;
    }
    return 0;
}

/* GGUF's two to the fused one of a folder. */
static int join(struct planner *p, const struct halves *h) {
    const struct tensor *halves[] = {planner_find(p, h->each[0], 0),
                                     planner_find(p, h->each[1], 0)};
    bool turned = h->experts && !h->bias && p->to->experts_transposed,
         pairs = h->experts && alternating(p);
    if (!halves[0] || !halves[1] || halves[0]->dim_count != halves[1]->dim_count ||
        memcmp(halves[0]->dims, halves[1]->dims, sizeof halves[0]->dims) ||
        halves[0]->dim_count < 2)
        return error_set(p->err, ERR_INVALID, "gate and up of layer %u do not fit", p->layer);
    struct export_item *item = planner_add(p, h->whole, 0, 2);
    if (!item)
        return p->err->code;
    uint32_t planes = h->experts ? (uint32_t)halves[0]->dims[0] : 1,
             rows = (uint32_t)halves[0]->dims[h->experts], cols = 1;
    for (uint32_t i = 0; i < 2; i++) {
        item->views[i] = planner_view(p, halves[i], rows);
        if (h->bias)
            item->views[i].cols = 1;
        item->views[i].turned = turned;
        item->views[i].count = rows;
        cols = item->views[i].cols;
    }
    item->join = turned ? EXPORT_COLUMNS : pairs ? EXPORT_TURNS : EXPORT_STACK;
    item->alternate = pairs;
    export_set_shape(item, planes, turned ? cols : 2 * rows, turned ? 2 * rows : cols);
    if (h->experts)
        item->dim_count = h->bias ? 2 : 3;
    if (h->experts)
        memcpy(item->dims, (uint64_t[]){planes, item->rows, item->cols}, sizeof item->dims);
    return planner_finish(p, item, h->bias);
}

/* The experts' last matrices in one tensor, turned in some folders. */
static int add_down(struct planner *p, const struct tensor *t) {
    bool turned = p->from->experts_transposed != p->to->experts_transposed;
    if (t->dim_count != 3)
        return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says",
                         t->name);
    struct export_item *item = planner_add(p, ROLE_EXPERTS_DOWN, 0, 1);
    if (!item)
        return p->err->code;
    item->views[0] = planner_view(p, t, (uint32_t)t->dims[1]);
    item->views[0].turned = turned;
    export_set_shape(item, (uint32_t)t->dims[0], (uint32_t)t->dims[1 + turned],
                     (uint32_t)t->dims[2 - turned]);
    item->views[0].count = item->rows;
    item->dim_count = 3;
    memcpy(item->dims, (uint64_t[]){item->planes, item->rows, item->cols}, sizeof item->dims);
    return planner_finish(p, item, false);
}

/* ---- MXFP4 ---- */

bool export_has_blocks(const struct model_spec *spec, enum tensor_type type) {
    return type == TENSOR_MXFP4 && spec->layers[spec->layer_count - 1].moe.mxfp4;
}

/* A folder's blocks and scales [experts, rows, cols / 32 (, 16)]: of each plane row `first` and
 * every `step`-th. */
static int pack_mxfp4(struct planner *p, enum weight_role blocks, enum weight_role to,
                      uint32_t first, uint32_t step) {
    const struct tensor *pair[] = {planner_find(p, blocks, 0), planner_find(p, blocks + 1, 0)},
                        *b = pair[0], *s = pair[1];
    bool ok = s && b->type == TENSOR_U8 && s->type == TENSOR_U8 && b->dim_count == 4 &&
              s->dim_count == 3 && b->dims[3] == MXFP4_BLOCK &&
              !memcmp(b->dims, s->dims, 3 * sizeof *s->dims) && b->dims[1] % step == 0;
    if (!ok)
        return error_set(p->err, ERR_INVALID, "'%s' has no scales that fit it", b->name);
    struct export_item *item = planner_add(p, to, 0, 2);
    if (!item)
        return p->err->code;
    for (uint32_t i = 0; i < 2; i++) {
        item->views[i] = planner_view(p, pair[i], (uint32_t)s->dims[1]);
        item->views[i].cols = (uint32_t)s->dims[2] * (i ? 1 : MXFP4_BLOCK);
        item->views[i].first = first;
        item->views[i].step = step;
    }
    item->join = EXPORT_PACKED;
    export_set_shape(item, (uint32_t)s->dims[0], (uint32_t)s->dims[1] / step,
                     (uint32_t)s->dims[2] * MXFP4_VALUES_EACH);
    item->dim_count = 3;
    memcpy(item->dims, (uint64_t[]){item->planes, item->rows, item->cols}, sizeof item->dims);
    item->type = p->o->matrices == STORAGE_NONE ? TENSOR_MXFP4
                                                : export_matrix_type(b, p->o->matrices, item->cols);
    return 0;
}

/* The reverse: rows of `count` of GGUF's tensors in turn. */
static int unpack_mxfp4(struct planner *p, enum weight_role blocks, const enum weight_role *from,
                        uint32_t count) {
    const struct tensor *t = planner_find(p, from[0], 0);
    uint32_t groups = (uint32_t)t->dims[t->dim_count - 1] / MXFP4_VALUES_EACH;
    for (uint32_t k = 0; k < 2; k++) {
        struct export_item *item = planner_add(p, blocks + k, 0, count);
        if (!item)
            return p->err->code;
        for (uint32_t i = 0; i < count; i++) {
            const struct tensor *source = planner_find(p, from[i], 0);
            if (!source || source->type != TENSOR_MXFP4 || source->dim_count != 3 ||
                memcmp(source->dims, t->dims, 3 * sizeof *t->dims))
                return error_set(p->err, ERR_INVALID, "gate and up of layer %u do not fit",
                                 p->layer);
            item->views[i] = planner_view(p, source, (uint32_t)t->dims[1]);
        }
        item->join = k ? EXPORT_SCALES : EXPORT_BLOCKS;
        item->type = TENSOR_U8;
        item->inner = k ? 0 : MXFP4_BLOCK;
        export_set_shape(item, (uint32_t)t->dims[0], count * (uint32_t)t->dims[1],
                         groups * (k ? 1 : MXFP4_BLOCK));
        item->dim_count = 3;
        memcpy(item->dims, (uint64_t[]){item->planes, item->rows, item->cols}, sizeof item->dims);
    }
    return 0;
}

static int add_mxfp4(struct planner *p, enum weight_role role, const struct tensor *t, bool *done) {
    static const enum weight_role HALF[] = {ROLE_EXPERTS_GATE, ROLE_EXPERTS_UP},
                                  DOWN[] = {ROLE_EXPERTS_DOWN};
    bool kept = !p->o->to_gguf && p->o->matrices == STORAGE_NONE &&
                export_has_blocks(&p->model->spec, t->type);
    *done = true;
    if (role == ROLE_EXPERTS_DOWN_BLOCKS)
        return pack_mxfp4(p, role, ROLE_EXPERTS_DOWN, 0, 1);
    if (role == ROLE_EXPERTS_GATE_UP_BLOCKS) {
        int rc = pack_mxfp4(p, role, ROLE_EXPERTS_GATE, 0, 2);
        return rc ? rc : pack_mxfp4(p, role, ROLE_EXPERTS_UP, 1, 2);
    }
    if (kept && role == ROLE_EXPERTS_GATE)
        return unpack_mxfp4(p, ROLE_EXPERTS_GATE_UP_BLOCKS, HALF, 2);
    if (kept && role == ROLE_EXPERTS_DOWN)
        return unpack_mxfp4(p, ROLE_EXPERTS_DOWN_BLOCKS, DOWN, 1);
    *done = false;
    return 0;
}

/* ---- which of these ---- */

static enum weight_role one_each(enum weight_role stacked) {
    return stacked == ROLE_EXPERTS_GATE ? ROLE_EXPERT_GATE
           : stacked == ROLE_EXPERTS_UP ? ROLE_EXPERT_UP
                                        : ROLE_EXPERT_DOWN;
}

static int add_expert_role(struct planner *p, enum weight_role role, const struct tensor *t,
                           bool *done) {
    uint32_t experts = p->model->spec.layers[p->layer].moe.router.experts;
    *done = true;
    if (role >= ROLE_EXPERT_GATE && role <= ROLE_EXPERT_DOWN && p->o->to_gguf)
        return planner_gather(p, role,
                              role - ROLE_EXPERT_GATE == 2
                                  ? ROLE_EXPERTS_DOWN
                                  : ROLE_EXPERTS_GATE + (role - ROLE_EXPERT_GATE),
                              experts);
    bool stacked =
        role == ROLE_EXPERTS_GATE || role == ROLE_EXPERTS_UP || role == ROLE_EXPERTS_DOWN;
    if (stacked && !p->o->to_gguf && !p->fused)
        return planner_spread(p, t, one_each(role), experts);
    if (role == ROLE_EXPERTS_DOWN)
        return add_down(p, t);
    *done = false;
    return 0;
}

int planner_add_ffn(struct planner *p, enum weight_role role, const struct tensor *t, bool *done) {
    int rc = add_mxfp4(p, role, t, done);
    if (!*done)
        rc = add_expert_role(p, role, t, done);
    if (*done)
        return rc;
    *done = true;
    for (size_t i = 0; i < ARRAY_LEN(HALVES); i++) {
        const struct halves *h = &HALVES[i];
        bool apart = h->experts || !p->to->patterns[h->whole];
        if (role == h->whole && p->o->to_gguf && apart)
            return split(p, h, t);
        bool whole = h->experts ? p->fused : p->to->patterns[h->whole] != NULL;
        if (role == h->each[0] && !p->o->to_gguf && whole)
            return join(p, h);
    }
    *done = false;
    return 0;
}
