/* Mixers' tensors on their way to the other format (export_planner.h). */
#include "model/convert/export_planner.h"
#include "model/run/attention_weights.h"
#include "model/run/recurrent.h"

/* ---- heads ---- */

/* `dim` of each `each` rows, from `at` on, from halves to pairs, or back. */
static uint32_t *turned_order(uint32_t rows, uint32_t each, uint32_t at, uint32_t dim,
                              bool to_pairs) {
    uint32_t *order = mem_calloc(rows, sizeof *order);
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t first = i - i % each + at, k = i - first;
        bool rotates = i >= first && k < dim;
        order[i] = !rotates   ? i
                   : to_pairs ? first + k % 2 * (dim / 2) + k / 2
                              : first + k % (dim / 2) * 2 + k / (dim / 2);
    }
    return order;
}

static uint32_t *inverse(uint32_t *order, uint32_t count) {
    uint32_t *out = mem_calloc(count, sizeof *out);
    for (uint32_t i = 0; i < count; i++)
        out[order[i]] = i;
    mem_free(order);
    return out;
}

static const struct attention_spec *attention_of(const struct planner *p) {
    return &p->model->spec.layers[MIN(p->layer, p->model->spec.layer_count - 1)].attention;
}

static int check_rows(const struct planner *p, const struct export_item *item, uint32_t rows) {
    if (item->rows == rows)
        return 0;
    return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says",
                     item->views[0].tensor->name);
}

/* Rotated rows of latent heads: a folder's may be halves, GGUF's are pairs. */
static int set_latent_order(struct planner *p, struct export_item *item, enum weight_role role) {
    const struct latent_spec *a = &p->model->spec.layers[p->layer].latent;
    bool q = role == ROLE_Q || role == ROLE_LATENT_Q_UP,
         kv = role == ROLE_LATENT_KV_DOWN || role == ROLE_LATENT_KV_DOWN_BIAS;
    uint32_t each = q ? a->nope + a->rope : a->rank + a->rope, rows = q ? a->heads * each : each;
    if (!q && !kv)
        return 0;
    if (check_rows(p, item, rows))
        return p->err->code;
    item->order = turned_order(rows, each, each - a->rope, a->rope, p->o->to_gguf);
    return 0;
}

/* Of a head; all where nothing rotates, as llama.cpp's converters turn those too. */
static uint32_t rotated_dims(const struct planner *p) {
    const struct attention_spec *a = attention_of(p);
    const struct rope_spec *rope = &p->model->spec.ropes[a->rope_idx];
    return rope->kind == ROPE_NONE ? a->head_dim : rope->dims;
}

static int set_head_order(struct planner *p, struct export_item *item, enum weight_role role) {
    const struct attention_spec *a = attention_of(p);
    const bool crossing = p->o->from_gguf != p->o->to_gguf;
    if (crossing && p->model->spec.folder_halves)
        return set_latent_order(p, item, role);
    bool q = role == ROLE_Q || role == ROLE_Q_BIAS, k = role == ROLE_K || role == ROLE_K_BIAS;
    bool fused = role == ROLE_QKV || role == ROLE_QKV_BIAS,
         heads = crossing && p->o->arch->permuted && (q || k);
    uint32_t rows = fused ? qkv_width(a) : (q ? a->heads : a->kv_heads) * a->head_dim;
    if (!heads && !(fused && p->from->qkv != p->to->qkv))
        return 0;
    if (check_rows(p, item, rows))
        return p->err->code;
    if (heads)
        item->order = turned_order(rows, a->head_dim, 0, rotated_dims(p), p->o->to_gguf);
    else if (p->from->qkv == QKV_STACKED)
        item->order = inverse(attention_fused_order(a, p->to->qkv), rows);
    else
        item->order = attention_fused_order(a, p->from->qkv);
    return 0;
}

/* ---- states ---- */

bool export_is_state_value(enum weight_role role) {
    return role == ROLE_CONV || role == ROLE_DECAY || role == ROLE_SKIP || role == ROLE_INNER_NORM;
}

/* GGUF has convolutions without the dimension of 1, A itself, and of Mamba 2 A and D as columns,
 * the norm by groups. */
void planner_cross_state_value(const struct planner *p, struct export_item *item,
                               enum weight_role role) {
    const struct layer_spec *l = &p->model->spec.layers[p->layer];
    uint64_t all = (uint64_t)item->rows * item->cols, taps = MAX(item->cols, 1u);
    uint64_t groups = MAX(l->recurrent.groups, 1u),
             last = role == ROLE_INNER_NORM ? all / groups : 1;
    if (!last || all % last)
        return; /* no shape that loads */
    if (role == ROLE_DECAY)
        item->map = p->o->to_gguf ? MAP_NEGATED_EXP : MAP_LOG_NEGATED;
    if (role == ROLE_CONV) {
        item->dim_count = p->o->to_gguf ? 2 : 3;
        memcpy(item->dims,
               p->o->to_gguf ? (uint64_t[]){all / taps, taps, 0}
                             : (uint64_t[]){all / taps, 1, taps},
               sizeof item->dims);
    } else if (l->mixer == MIXER_MAMBA2) {
        item->dim_count = p->o->to_gguf ? 2 : 1;
        memcpy(item->dims,
               p->o->to_gguf ? (uint64_t[]){all / last, last, 0} : (uint64_t[]){all, 0, 0},
               sizeof item->dims);
    }
}

/* Value heads of a delta rule from all of a key head behind each other to rounds of one of each, or
 * back. `first` numbers before them stay, a head has `each`. */
static uint32_t *round_order(const struct recurrent_spec *r, uint32_t first, uint32_t each,
                             bool to_rounds) {
    uint32_t count = first + r->heads * each, share = r->heads / r->groups,
             *order = mem_calloc(count, sizeof *order);
    for (uint32_t i = 0; i < first; i++)
        order[i] = i;
    for (uint32_t h = 0; h < r->heads; h++)
        for (uint32_t i = 0; i < each; i++)
            order[first + h * each + i] =
                first + (h % r->groups * share + h / r->groups) * each + i;
    return to_rounds ? order : inverse(order, count);
}

/* What of a layer with a delta rule lies by value heads. */
static int set_rounds(struct planner *p, struct export_item *item, enum weight_role role) {
    static const struct {
        enum weight_role role;
        bool behind_keys, per_head; /* behind the rows of q and k; a number a head */
    } BY_HEAD[] = {{ROLE_IN, true, false},      {ROLE_CONV, true, false},
                   {ROLE_IN_Z, false, false},   {ROLE_IN_BETA, false, true},
                   {ROLE_IN_STEP, false, true}, {ROLE_STEP_BIAS, false, true},
                   {ROLE_DECAY, false, true},   {ROLE_MIX_OUT, false, false}};
    const struct layer_spec *l = &p->model->spec.layers[p->layer];
    const struct recurrent_spec *r = &l->recurrent;
    bool columns = role == ROLE_MIX_OUT;
    if (p->o->arch->names != &GGUF_DELTA_TILED_NAMES || l->mixer != MIXER_DELTA ||
        r->heads == r->groups)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(BY_HEAD); i++) {
        if (role != BY_HEAD[i].role)
            continue;
        uint32_t first = BY_HEAD[i].behind_keys ? 2 * r->groups * r->state_size : 0;
        uint32_t each = BY_HEAD[i].per_head ? 1 : r->head_dim;
        if ((columns ? item->cols : item->rows) != first + r->heads * each)
            return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says",
                             item->views[0].tensor->name);
        *(columns ? &item->columns : &item->order) = round_order(r, first, each, p->o->to_gguf);
    }
    return 0;
}

int planner_set_order(struct planner *p, struct export_item *item, enum weight_role role) {
    int rc = set_head_order(p, item, role);
    return rc || p->o->from_gguf == p->o->to_gguf ? rc : set_rounds(p, item, role);
}

/* ---- latent attention ---- */

/* A folder's product up to keys and values to GGUF's two: [heads, rank, nope] and [heads, value,
 * rank]. */
static int split_latent(struct planner *p, const struct tensor *t) {
    const struct latent_spec *a = &p->model->spec.layers[p->layer].latent;
    uint32_t each = a->nope + a->value;
    if (t->dim_count != 2 || t->dims[0] != (uint64_t)a->heads * each || t->dims[1] != a->rank)
        return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says",
                         t->name);
    for (uint32_t i = 0; i < 2; i++) {
        struct export_item *item = planner_add(p, i ? ROLE_LATENT_V_UP : ROLE_LATENT_K_UP, 0, 1);
        if (!item)
            return p->err->code;
        item->views[0] = planner_view(p, t, each);
        item->views[0].turned = i == 0;
        item->views[0].first = i ? a->nope : 0;
        export_set_shape(item, a->heads, i ? a->value : a->rank, i ? a->rank : a->nope);
        item->views[0].count = item->rows;
        item->dim_count = 3;
        memcpy(item->dims, (uint64_t[]){a->heads, item->rows, item->cols}, sizeof item->dims);
        int rc = planner_finish(p, item, false);
        if (rc)
            return rc;
    }
    return 0;
}

static int join_latent(struct planner *p) {
    const struct latent_spec *a = &p->model->spec.layers[p->layer].latent;
    const struct tensor *k = planner_find(p, ROLE_LATENT_K_UP, 0),
                        *v = planner_find(p, ROLE_LATENT_V_UP, 0);
    if (!k || !v || k->dim_count != 3 || v->dim_count != 3 || k->dims[1] != a->rank ||
        k->dims[2] != a->nope || v->dims[1] != a->value || v->dims[2] != a->rank ||
        k->dims[0] != a->heads || v->dims[0] != a->heads)
        return error_set(p->err, ERR_INVALID, "attn_k_b and attn_v_b of layer %u do not fit",
                         p->layer);
    struct export_item *item = planner_add(p, ROLE_LATENT_KV_UP, 0, 2);
    if (!item)
        return p->err->code;
    item->views[0] = planner_view(p, k, a->rank);
    item->views[0].turned = true;
    item->views[0].count = a->nope;
    item->views[1] = planner_view(p, v, a->value);
    item->views[1].count = a->value;
    export_set_shape(item, a->heads, a->nope + a->value, a->rank);
    item->dim_count = 2;
    item->dims[0] = (uint64_t)a->heads * (a->nope + a->value);
    item->dims[1] = a->rank;
    return planner_finish(p, item, false);
}

/* ---- the delta rule's fused product ---- */

static void delta_rows(const struct recurrent_spec *r, uint32_t rows[2]) {
    rows[0] = 2 * r->groups * r->state_size + r->width;
    rows[1] = r->width;
}

/* A folder's to GGUF's two: all of q, k and v, and all of z. */
static int split_delta(struct planner *p, const struct tensor *t) {
    const struct recurrent_spec *r = &p->model->spec.layers[p->layer].recurrent;
    uint32_t rows[2];
    delta_rows(r, rows);
    if (t->dim_count != 2 || t->dims[0] != (uint64_t)rows[0] + rows[1])
        return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says",
                         t->name);
    for (uint32_t i = 0; i < 2; i++) {
        struct export_item *item = planner_add(p, i ? ROLE_IN_Z : ROLE_IN, 0, 1);
        if (!item)
            return p->err->code;
        item->views[0] = planner_view(p, t, 0);
        item->views[0].count = (uint32_t)t->dims[0];
        export_set_shape(item, 1, rows[i], item->views[0].cols);
        item->order = delta_fused_order(r);
        if (i)
            memmove(item->order, item->order + rows[0], rows[1] * sizeof *item->order);
        int rc = planner_finish(p, item, false);
        if (rc)
            return rc;
    }
    return 0;
}

static int join_delta(struct planner *p) {
    const struct recurrent_spec *r = &p->model->spec.layers[p->layer].recurrent;
    const struct tensor *sources[] = {planner_find(p, ROLE_IN, 0), planner_find(p, ROLE_IN_Z, 0)};
    struct export_item *item = planner_add(p, ROLE_IN, 0, 2);
    uint32_t rows[2], hidden = p->model->spec.hidden;
    delta_rows(r, rows);
    if (!item)
        return p->err->code;
    for (uint32_t i = 0; i < 2; i++) {
        const struct tensor *t = sources[i];
        if (!t || t->dim_count != 2 || t->dims[0] != rows[i] || t->dims[1] != hidden)
            return error_set(p->err, ERR_INVALID, "attn_qkv and attn_gate of layer %u do not fit",
                             p->layer);
        item->views[i] = planner_view(p, t, 0);
        item->views[i].count = rows[i];
    }
    export_set_shape(item, 1, rows[0] + rows[1], hidden);
    item->order = inverse(delta_fused_order(r), rows[0] + rows[1]);
    return planner_finish(p, item, false);
}

/* ---- which of these ---- */

int planner_add_mixer(struct planner *p, enum weight_role role, const struct tensor *t,
                      bool *done) {
    const struct attention_spec *a = attention_of(p);
    *done = true;
    bool delta = role == ROLE_IN && p->model->spec.layers[p->layer].mixer == MIXER_DELTA,
         fused = !p->from->patterns[ROLE_IN_Z], fuses = !p->to->patterns[ROLE_IN_Z];
    if (delta && fused && !fuses)
        return split_delta(p, t);
    if (delta && !fused && fuses)
        return join_delta(p);
    if (role == ROLE_LATENT_KV_UP && p->o->to_gguf)
        return split_latent(p, t);
    if (role == ROLE_LATENT_K_UP && !p->o->to_gguf)
        return join_latent(p);
    if ((role == ROLE_Q_NORM || role == ROLE_K_NORM) && p->from->head_norms != p->to->head_norms) {
        uint32_t heads = role == ROLE_Q_NORM ? a->heads : a->kv_heads;
        return p->o->to_gguf ? planner_gather(p, role, role, heads)
                             : planner_spread(p, t, role, heads);
    }
    *done = false;
    return 0;
}
