/* Which tensor of the target is made of which ones of the source (export.h). */
#include "base/buf.h"
#include "base/vec.h"
#include "model/export.h"
#include "model/gguf_names.h"
#include "model/mixer_attention.h"
#include "model/mxfp4.h"
#include "model/recurrent.h"
#include "model/storage_map.h"

#include <stdio.h>

struct planner {
    struct export_plan *plan;
    const struct model *model;
    const struct export_options *o;
    const struct name_table *from, *to;
    const struct name_prefix *prefix, *to_prefix;
    bool *used;
    bool fused; /* folder: the experts of a layer share a tensor, gate above up */
    uint32_t layer;
    struct error *err;
};

/* ---- names ---- */

static const struct name_prefix *prefixes(const struct name_table *names) {
    return names->prefixes ? names->prefixes : NAME_PREFIXES;
}

static const struct name_prefix *find_prefix(const struct name_table *names, const struct safetensors *files) {
    static const enum weight_role ROLES[] = {ROLE_EMBED, ROLE_FINAL_NORM, ROLE_MIXER_NORM, ROLE_MIXER_POST};
    char name[TENSOR_NAME_MAX];
    for (size_t i = 0; i < ARRAY_LEN(ROLES); i++)
        for (const struct name_prefix *p = prefixes(names); p->body; p++)
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

static const struct tensor *find(const struct planner *p, enum weight_role role, uint32_t piece) {
    char name[TENSOR_NAME_MAX];
    return role_expert_name(p->from, p->prefix, role, p->layer, piece, name) ? safetensors_find(&p->model->files, name)
                                                                             : NULL;
}

static void use(struct planner *p, const struct tensor *t) { p->used[t - p->model->files.tensors] = true; }
static bool is_used(const struct planner *p, const struct tensor *t) { return p->used[t - p->model->files.tensors]; }

/* ---- what was kept of a folder ---- */

/* What follows "name " on a line of its own; len 0: there is none. */
static struct bytes kept_line(const char *kept, const char *name) {
    size_t len = strlen(name);
    for (const char *at = kept; at && *at;) {
        size_t line = strcspn(at, "\n");
        if (line > len && !strncmp(at, name, len) && at[len] == ' ')
            return (struct bytes){(const uint8_t *)at + len + 1, line - len - 1};
        at += line + (at[line] == '\n');
    }
    return (struct bytes){0};
}

static const struct name_prefix *kept_prefix(const struct planner *p) {
    struct bytes line = kept_line(p->o->kept, "*");
    for (const struct name_prefix *n = prefixes(p->to); line.len && n->body; n++)
        if (bytes_equal(line, bytes_str(*n->body ? n->body : "-"))) return n;
    return NULL;
}

static enum tensor_type kept_type(const struct planner *p, const char *name) {
    struct bytes line = kept_line(p->o->kept, name);
    for (int type = 0; line.len && type < TENSOR_SAFETENSORS_COUNT; type++)
        if (bytes_equal(line, bytes_str(tensor_type_name((enum tensor_type)type)))) return (enum tensor_type)type;
    return TENSOR_TYPE_COUNT;
}

void export_kept_text(const struct model *m, const struct export_plan *plan, struct buf *out) {
    const struct name_prefix *prefix = find_prefix(m->spec.names, &m->files);
    char name[TENSOR_NAME_MAX];
    buf_addf(out, "* %s\n", prefix && *prefix->body ? prefix->body : "-");
    for (uint32_t i = 0; i < m->spec.layer_count; i++)
        if (role_name(m->spec.names, prefix, ROLE_EXPERTS_DOWN, i, name) && safetensors_find(&m->files, name)) {
            buf_add_str(out, "+ experts\n");
            break;
        }
    for (size_t i = 0; i < plan->count; i++)
        for (uint32_t k = 0; k < plan->items[i].view_count; k++) {
            const struct tensor *t = plan->items[i].views[k].tensor;
            if (plan->items[i].vector && t->type != plan->items[i].type && t->type < TENSOR_SAFETENSORS_COUNT)
                buf_addf(out, "%s %s\n", t->name, tensor_type_name(t->type));
        }
}

/* ---- items ---- */

static bool is_among(enum weight_role role, const enum weight_role *roles, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (roles[i] == role) return true;
    return false;
}

static bool is_norm(enum weight_role role) {
    static const enum weight_role NORMS[] = {ROLE_EMBED_NORM, ROLE_FINAL_NORM, ROLE_MIXER_NORM, ROLE_MIXER_POST,
                                             ROLE_FFN_NORM,   ROLE_FFN_POST,   ROLE_Q_NORM,     ROLE_K_NORM};
    return is_among(role, NORMS, ARRAY_LEN(NORMS));
}

/* One vector an expert. */
static bool is_expert_bias(enum weight_role role) {
    static const enum weight_role BIASES[] = {ROLE_EXPERTS_GATE_UP_BIAS, ROLE_EXPERTS_GATE_BIAS, ROLE_EXPERTS_UP_BIAS,
                                              ROLE_EXPERTS_DOWN_BIAS};
    return is_among(role, BIASES, ARRAY_LEN(BIASES));
}

/* Small matrices on which much depends: not of block types, in llama.cpp neither. */
static bool stays_plain(enum weight_role role) {
    static const enum weight_role ROLES[] = {ROLE_ROUTER, ROLE_SHARED_SWITCH, ROLE_POSITIONS};
    return is_among(role, ROLES, ARRAY_LEN(ROLES));
}

static enum tensor_type matrix_type(const struct tensor *t, enum storage_type want, uint32_t cols) {
    enum storage_type now = storage_of(t), type = want;
    if (want == STORAGE_NONE) return storage_is_scaled(now) ? TENSOR_F16 : t->type;
    if (cols % storage_block(type)) type = cols % 32 ? STORAGE_F16 : STORAGE_Q8_0;
    return tensor_type_of(type);
}

/* A new item for a role of the target with room for `views` views, whose type is still to be chosen; NULL: the other
 * format has no name for it. */
static struct export_item *add_item(struct planner *p, enum weight_role role, uint32_t piece, uint32_t views) {
    struct export_plan *plan = p->plan;
    if (plan->count == plan->room) {
        plan->room = 2 * plan->room + 64;
        plan->items = mem_realloc(plan->items, plan->room * sizeof *plan->items);
    }
    struct export_item *item = &plan->items[plan->count];
    *item = (struct export_item){.view_count = views, .planes = 1};
    if (!role_expert_name(p->to, p->to_prefix, role, p->layer, piece, item->name)) {
        error_set(p->err, ERR_UNSUPPORTED, "role %d of layer %u has no name in the other format", (int)role, p->layer);
        return NULL;
    }
    item->views = mem_calloc(views, sizeof *item->views);
    plan->count++;
    return item;
}

/* A view of a tensor in planes of `plane_rows` rows; 0: one plane. */
static struct export_view view(struct planner *p, const struct tensor *t, uint32_t plane_rows) {
    uint64_t values = 1;
    uint32_t cols = t->dim_count < 2 ? 1 : (uint32_t)t->dims[t->dim_count - 1];
    for (uint32_t i = 0; i < t->dim_count; i++) values *= t->dims[i];
    use(p, t);
    return (struct export_view){.tensor = t,
                                .cols = cols,
                                .plane_rows = plane_rows ? plane_rows : (uint32_t)(values / MAX(cols, 1u)),
                                .step = 1};
}

static void set_shape(struct export_item *item, uint32_t planes, uint32_t rows, uint32_t cols) {
    const uint32_t dims[] = {planes, rows, cols};
    item->planes = planes;
    item->rows = rows;
    item->cols = cols;
    item->dim_count = planes > 1 ? 3 : 2;
    for (uint32_t i = 0; i < item->dim_count; i++) item->dims[i] = dims[3 - item->dim_count + i];
}

/* After the views are there: the type, by that of the first. Fails where that cannot be converted so. */
static int finish(struct planner *p, struct export_item *item, bool is_vector) {
    const struct tensor *t = item->views[0].tensor;
    enum tensor_type kept = kept_type(p, item->name);
    item->vector = is_vector;
    for (uint32_t i = 0; i < item->view_count; i++) {
        const struct tensor *v = item->views[i].tensor;
        if (storage_of(v) == STORAGE_NONE)
            return error_set(p->err, ERR_UNSUPPORTED,
                             "'%s' is of type %s with %u dimensions, which cannot be converted", v->name,
                             tensor_type_name(v->type), v->dim_count);
    }
    item->type = is_vector ? (p->o->vectors == TENSOR_TYPE_COUNT ? t->type : p->o->vectors)
                           : matrix_type(t, p->o->matrices, item->cols);
    for (uint32_t i = 1; !is_vector && i < item->view_count; i++) /* parts of several types become one of their kind */
        if (item->views[i].tensor->type != t->type && item->type == t->type) item->type = TENSOR_F16;
    if (is_vector && kept != TENSOR_TYPE_COUNT) item->type = kept;
    return 0;
}

/* ---- heads ---- */

/* `dim` of each `each` rows, from `at` on, from halves to pairs, or back. */
static uint32_t *turned_order(uint32_t rows, uint32_t each, uint32_t at, uint32_t dim, bool to_pairs) {
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
    for (uint32_t i = 0; i < count; i++) out[order[i]] = i;
    mem_free(order);
    return out;
}

static const struct attention_spec *attention_of(const struct planner *p) {
    return &p->model->spec.layers[MIN(p->layer, p->model->spec.layer_count - 1)].attention;
}

static int check_rows(const struct planner *p, const struct export_item *item, uint32_t rows) {
    if (item->rows == rows) return 0;
    return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says", item->views[0].tensor->name);
}

/* Rotated rows of latent heads: a folder's may be halves, GGUF's are pairs. */
static int set_latent_order(struct planner *p, struct export_item *item, enum weight_role role) {
    const struct latent_spec *a = &p->model->spec.layers[p->layer].latent;
    bool q = role == ROLE_Q || role == ROLE_LATENT_Q_UP,
         kv = role == ROLE_LATENT_KV_DOWN || role == ROLE_LATENT_KV_DOWN_BIAS;
    uint32_t each = q ? a->nope + a->rope : a->rank + a->rope, rows = q ? a->heads * each : each;
    if (!q && !kv) return 0;
    if (check_rows(p, item, rows)) return p->err->code;
    item->order = turned_order(rows, each, each - a->rope, a->rope, p->o->to_gguf);
    return 0;
}

/* Of a head; all where nothing rotates, as llama.cpp's converters turn those too. */
static uint32_t rotated_dims(const struct planner *p) {
    const struct attention_spec *a = attention_of(p);
    const struct rope_spec *rope = &p->model->spec.ropes[a->rope_idx];
    return rope->kind == ROPE_NONE ? a->head_dim : rope->dims;
}

static int set_order(struct planner *p, struct export_item *item, enum weight_role role) {
    const struct attention_spec *a = attention_of(p);
    const bool crossing = p->o->from_gguf != p->o->to_gguf;
    if (crossing && p->model->spec.folder_halves) return set_latent_order(p, item, role);
    bool q = role == ROLE_Q || role == ROLE_Q_BIAS, k = role == ROLE_K || role == ROLE_K_BIAS;
    bool fused = role == ROLE_QKV || role == ROLE_QKV_BIAS, heads = crossing && p->o->arch->permuted && (q || k);
    uint32_t rows = fused ? qkv_width(a) : (q ? a->heads : a->kv_heads) * a->head_dim;
    if (!heads && !(fused && p->from->qkv != p->to->qkv)) return 0;
    if (check_rows(p, item, rows)) return p->err->code;
    if (heads)
        item->order = turned_order(rows, a->head_dim, 0, rotated_dims(p), p->o->to_gguf);
    else if (p->from->qkv == QKV_STACKED)
        item->order = inverse(attention_fused_order(a, p->to->qkv), rows);
    else
        item->order = attention_fused_order(a, p->from->qkv);
    return 0;
}

/* ---- one tensor of each kind ---- */

/* Values of a mixer with a state that are no matrix of a product, whatever their dimensions. */
static bool is_state_value(enum weight_role role) {
    return role == ROLE_CONV || role == ROLE_DECAY || role == ROLE_SKIP || role == ROLE_INNER_NORM;
}

/* GGUF has convolutions without the dimension of 1, A itself, and of Mamba 2 A and D as columns, the norm by groups. */
static void cross_state_value(const struct planner *p, struct export_item *item, enum weight_role role) {
    const struct layer_spec *l = &p->model->spec.layers[p->layer];
    uint64_t all = (uint64_t)item->rows * item->cols, taps = MAX(item->cols, 1u);
    uint64_t groups = MAX(l->recurrent.groups, 1u), last = role == ROLE_INNER_NORM ? all / groups : 1;
    if (!last || all % last) return; /* no shape that loads */
    if (role == ROLE_DECAY) item->map = p->o->to_gguf ? MAP_NEGATED_EXP : MAP_LOG_NEGATED;
    if (role == ROLE_CONV) {
        item->dim_count = p->o->to_gguf ? 2 : 3;
        memcpy(item->dims, p->o->to_gguf ? (uint64_t[]){all / taps, taps, 0} : (uint64_t[]){all / taps, 1, taps},
               sizeof item->dims);
    } else if (l->mixer == MIXER_MAMBA2) {
        item->dim_count = p->o->to_gguf ? 2 : 1;
        memcpy(item->dims, p->o->to_gguf ? (uint64_t[]){all / last, last, 0} : (uint64_t[]){all, 0, 0},
               sizeof item->dims);
    }
}

/* Value heads of a delta rule from all of a key head behind each other to rounds of one of each, or back. `first`
 * numbers before them stay, a head has `each`. */
static uint32_t *round_order(const struct recurrent_spec *r, uint32_t first, uint32_t each, bool to_rounds) {
    uint32_t count = first + r->heads * each, share = r->heads / r->groups, *order = mem_calloc(count, sizeof *order);
    for (uint32_t i = 0; i < first; i++) order[i] = i;
    for (uint32_t h = 0; h < r->heads; h++)
        for (uint32_t i = 0; i < each; i++)
            order[first + h * each + i] = first + (h % r->groups * share + h / r->groups) * each + i;
    return to_rounds ? order : inverse(order, count);
}

/* What of a layer with a delta rule lies by value heads. */
static int set_rounds(struct planner *p, struct export_item *item, enum weight_role role) {
    static const struct {
        enum weight_role role;
        bool behind_keys, per_head; /* behind the rows of q and k; a number a head */
    } BY_HEAD[] = {{ROLE_IN, true, false},      {ROLE_CONV, true, false},    {ROLE_IN_Z, false, false},
                   {ROLE_IN_BETA, false, true}, {ROLE_IN_STEP, false, true}, {ROLE_STEP_BIAS, false, true},
                   {ROLE_DECAY, false, true},   {ROLE_MIX_OUT, false, false}};
    const struct layer_spec *l = &p->model->spec.layers[p->layer];
    const struct recurrent_spec *r = &l->recurrent;
    bool columns = role == ROLE_MIX_OUT;
    if (p->o->arch->names != &GGUF_DELTA_TILED_NAMES || l->mixer != MIXER_DELTA || r->heads == r->groups) return 0;
    for (size_t i = 0; i < ARRAY_LEN(BY_HEAD); i++) {
        if (role != BY_HEAD[i].role) continue;
        uint32_t first = BY_HEAD[i].behind_keys ? 2 * r->groups * r->state_size : 0;
        uint32_t each = BY_HEAD[i].per_head ? 1 : r->head_dim;
        if ((columns ? item->cols : item->rows) != first + r->heads * each)
            return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says",
                             item->views[0].tensor->name);
        *(columns ? &item->columns : &item->order) = round_order(r, first, each, p->o->to_gguf);
    }
    return 0;
}

/* Under another name, perhaps turned or with its rows in another order. */
static int add_plain(struct planner *p, enum weight_role role, const struct tensor *t) {
    bool matrix = t->dim_count == 2,
         turned = matrix && role > ROLE_MIXER_NORM && p->from->transposed != p->to->transposed;
    enum weight_role target = role;
    if (p->o->head_only && p->o->from_gguf != p->o->to_gguf && role == (p->o->to_gguf ? ROLE_HEAD : ROLE_EMBED))
        target = p->o->to_gguf ? ROLE_EMBED : ROLE_HEAD;
    if (t->dim_count == 0 || t->dim_count > 3)
        return error_set(p->err, ERR_UNSUPPORTED, "'%s' is of type %s with %u dimensions, which cannot be converted",
                         t->name, tensor_type_name(t->type), t->dim_count);
    struct export_item *item = add_item(p, target, 0, 1);
    if (!item) return p->err->code;
    item->views[0] = view(p, t, 0);
    set_shape(item, 1, turned ? item->views[0].cols : item->views[0].plane_rows,
              turned ? item->views[0].plane_rows : item->views[0].cols);
    item->views[0].turned = turned;
    item->views[0].count = item->rows;
    if (!turned) {
        item->dim_count = t->dim_count;
        memcpy(item->dims, t->dims, sizeof item->dims);
    }
    bool vector = t->dim_count == 1 || is_norm(role) || is_expert_bias(role);
    if (is_state_value(role)) {
        vector = true;
        if (p->o->from_gguf != p->o->to_gguf) cross_state_value(p, item, role);
    }
    float offset = is_norm(role) ? p->model->spec.folder_norm_offset : 0;
    item->add = p->o->from_gguf == p->o->to_gguf ? 0 : p->o->to_gguf ? offset : -offset;
    int rc = set_order(p, item, role);
    if (!rc && p->o->from_gguf != p->o->to_gguf) rc = set_rounds(p, item, role);
    if (!rc) rc = finish(p, item, vector);
    if (!rc && !vector && stays_plain(role) && !storage_is_plain(p->o->matrices))
        item->type = matrix_type(t, STORAGE_NONE, item->cols);
    return rc;
}

/* Tensors of the same shape, one a piece (an expert, a head), as planes of one. */
static int gather(struct planner *p, enum weight_role from, enum weight_role to, uint32_t pieces) {
    const struct tensor *first = find(p, from, 0);
    struct export_item *item = add_item(p, to, 0, pieces);
    if (!item) return p->err->code;
    for (uint32_t i = 0; i < pieces; i++) {
        const struct tensor *t = find(p, from, i);
        if (!t || t->dim_count != first->dim_count || memcmp(t->dims, first->dims, t->dim_count * sizeof *t->dims) ||
            t->dim_count > 2 || (i && is_used(p, t)))
            return error_set(p->err, ERR_INVALID, "'%s' has no %u like it", first->name, pieces);
        item->views[i] = view(p, t, 0);
    }
    item->join = EXPORT_PLANES;
    set_shape(item, pieces, item->views[0].plane_rows, item->views[0].cols);
    item->dim_count = 3;
    if (first->dim_count == 2) {
        const uint64_t dims[] = {pieces, item->rows, item->cols};
        memcpy(item->dims, dims, sizeof dims);
    } else {
        item->dim_count = 2;
        item->dims[0] = pieces;
        item->dims[1] = item->rows;
    }
    return finish(p, item, first->dim_count == 1);
}

/* The reverse. */
static int spread(struct planner *p, const struct tensor *t, enum weight_role to, uint32_t pieces) {
    bool vectors = t->dim_count == 2;
    if (t->dim_count < 2 || t->dims[0] != pieces)
        return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says", t->name);
    for (uint32_t i = 0; i < pieces; i++) {
        struct export_item *item = add_item(p, to, i, 1);
        if (!item) return p->err->code;
        item->views[0] = view(p, t, (uint32_t)t->dims[1]);
        if (vectors) item->views[0].cols = 1;
        item->views[0].plane_first = i;
        item->views[0].count = (uint32_t)t->dims[1];
        set_shape(item, 1, (uint32_t)t->dims[1], item->views[0].cols);
        if (vectors) item->dim_count = 1;
        int rc = finish(p, item, vectors);
        if (rc) return rc;
    }
    return 0;
}

/* ---- gate and up, fused or apart ---- */

struct halves {
    enum weight_role whole, parts[2];
    bool experts, bias;
};
static const struct halves HALVES[] = {
    {ROLE_EXPERTS_GATE_UP, {ROLE_EXPERTS_GATE, ROLE_EXPERTS_UP}, true, false},
    {ROLE_EXPERTS_GATE_UP_BIAS, {ROLE_EXPERTS_GATE_BIAS, ROLE_EXPERTS_UP_BIAS}, true, true},
    {ROLE_SHARED_GATE_UP, {ROLE_SHARED_GATE, ROLE_SHARED_UP}, false, false},
    {ROLE_GATE_UP, {ROLE_GATE, ROLE_UP}, false, false}};

static bool alternating(const struct planner *p) { return p->model->spec.layers[p->layer].moe.clamped; }

/* A fused tensor of a folder to GGUF's two. */
static int split(struct planner *p, const struct halves *h, const struct tensor *t) {
    bool turned = h->experts && !h->bias && p->from->experts_transposed, pairs = h->experts && alternating(p);
    uint32_t planes = h->experts ? (uint32_t)t->dims[0] : 1, rows_dim = h->experts ? 1 : 0;
    if (t->dim_count != (h->bias ? 2u : h->experts ? 3u : 2u) || t->dims[rows_dim + turned] % 2)
        return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says", t->name);
    uint32_t both = (uint32_t)t->dims[rows_dim + turned], width = both / 2;
    for (uint32_t i = 0; i < 2; i++) {
        struct export_item *item = add_item(p, h->parts[i], 0, 1);
        if (!item) return p->err->code;
        struct export_view *v = &item->views[0];
        *v = view(p, t, (uint32_t)t->dims[rows_dim]);
        if (h->bias) v->cols = 1;
        v->turned = turned;
        v->first = pairs ? i : i * width;
        v->step = pairs ? 2 : 1;
        v->count = width;
        set_shape(item, planes, width, turned ? v->plane_rows : v->cols);
        if (h->experts) item->dim_count = h->bias ? 2 : 3;
        if (h->experts) memcpy(item->dims, (uint64_t[]){planes, width, item->cols}, sizeof item->dims);
        int rc = finish(p, item, h->bias);
        if (rc) return rc;
    }
    return 0;
}

/* GGUF's two to the fused one of a folder. */
static int join(struct planner *p, const struct halves *h) {
    const struct tensor *parts[] = {find(p, h->parts[0], 0), find(p, h->parts[1], 0)};
    bool turned = h->experts && !h->bias && p->to->experts_transposed, pairs = h->experts && alternating(p);
    if (!parts[0] || !parts[1] || parts[0]->dim_count != parts[1]->dim_count ||
        memcmp(parts[0]->dims, parts[1]->dims, sizeof parts[0]->dims) || parts[0]->dim_count < 2)
        return error_set(p->err, ERR_INVALID, "gate and up of layer %u do not fit", p->layer);
    struct export_item *item = add_item(p, h->whole, 0, 2);
    if (!item) return p->err->code;
    uint32_t planes = h->experts ? (uint32_t)parts[0]->dims[0] : 1, rows = (uint32_t)parts[0]->dims[h->experts],
             cols = 1;
    for (uint32_t i = 0; i < 2; i++) {
        item->views[i] = view(p, parts[i], rows);
        if (h->bias) item->views[i].cols = 1;
        item->views[i].turned = turned;
        item->views[i].count = rows;
        cols = item->views[i].cols;
    }
    item->join = turned ? EXPORT_COLUMNS : pairs ? EXPORT_TURNS : EXPORT_STACK;
    item->alternate = pairs;
    set_shape(item, planes, turned ? cols : 2 * rows, turned ? 2 * rows : cols);
    if (h->experts) item->dim_count = h->bias ? 2 : 3;
    if (h->experts) memcpy(item->dims, (uint64_t[]){planes, item->rows, item->cols}, sizeof item->dims);
    return finish(p, item, h->bias);
}

/* The experts' last matrices in one tensor, turned in some folders. */
static int add_down(struct planner *p, const struct tensor *t) {
    bool turned = p->from->experts_transposed != p->to->experts_transposed;
    if (t->dim_count != 3)
        return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says", t->name);
    struct export_item *item = add_item(p, ROLE_EXPERTS_DOWN, 0, 1);
    if (!item) return p->err->code;
    item->views[0] = view(p, t, (uint32_t)t->dims[1]);
    item->views[0].turned = turned;
    set_shape(item, (uint32_t)t->dims[0], (uint32_t)t->dims[1 + turned], (uint32_t)t->dims[2 - turned]);
    item->views[0].count = item->rows;
    item->dim_count = 3;
    memcpy(item->dims, (uint64_t[]){item->planes, item->rows, item->cols}, sizeof item->dims);
    return finish(p, item, false);
}

/* ---- MXFP4 ---- */

bool export_has_blocks(const struct model_spec *spec, enum tensor_type type) {
    return type == TENSOR_MXFP4 && spec->layers[spec->layer_count - 1].moe.mxfp4;
}

/* A folder's blocks and scales [experts, rows, cols / 32 (, 16)]: of each plane row `first` and every `step`-th. */
static int pack_mxfp4(struct planner *p, enum weight_role blocks, enum weight_role to, uint32_t first, uint32_t step) {
    const struct tensor *parts[] = {find(p, blocks, 0), find(p, blocks + 1, 0)}, *b = parts[0], *s = parts[1];
    bool ok = s && b->type == TENSOR_U8 && s->type == TENSOR_U8 && b->dim_count == 4 && s->dim_count == 3 &&
              b->dims[3] == MXFP4_BLOCK && !memcmp(b->dims, s->dims, 3 * sizeof *s->dims) && b->dims[1] % step == 0;
    if (!ok) return error_set(p->err, ERR_INVALID, "'%s' has no scales that fit it", b->name);
    struct export_item *item = add_item(p, to, 0, 2);
    if (!item) return p->err->code;
    for (uint32_t i = 0; i < 2; i++) {
        item->views[i] = view(p, parts[i], (uint32_t)s->dims[1]);
        item->views[i].cols = (uint32_t)s->dims[2] * (i ? 1 : MXFP4_BLOCK);
        item->views[i].first = first;
        item->views[i].step = step;
    }
    item->join = EXPORT_PACKED;
    set_shape(item, (uint32_t)s->dims[0], (uint32_t)s->dims[1] / step, (uint32_t)s->dims[2] * MXFP4_VALUES_EACH);
    item->dim_count = 3;
    memcpy(item->dims, (uint64_t[]){item->planes, item->rows, item->cols}, sizeof item->dims);
    item->type = p->o->matrices == STORAGE_NONE ? TENSOR_MXFP4 : matrix_type(b, p->o->matrices, item->cols);
    return 0;
}

/* The reverse: rows of `count` of GGUF's tensors in turn. */
static int unpack_mxfp4(struct planner *p, enum weight_role blocks, const enum weight_role *from, uint32_t count) {
    const struct tensor *t = find(p, from[0], 0);
    uint32_t groups = (uint32_t)t->dims[t->dim_count - 1] / MXFP4_VALUES_EACH;
    for (uint32_t k = 0; k < 2; k++) {
        struct export_item *item = add_item(p, blocks + k, 0, count);
        if (!item) return p->err->code;
        for (uint32_t i = 0; i < count; i++) {
            const struct tensor *part = find(p, from[i], 0);
            if (!part || part->type != TENSOR_MXFP4 || part->dim_count != 3 ||
                memcmp(part->dims, t->dims, 3 * sizeof *t->dims))
                return error_set(p->err, ERR_INVALID, "gate and up of layer %u do not fit", p->layer);
            item->views[i] = view(p, part, (uint32_t)t->dims[1]);
        }
        item->join = k ? EXPORT_SCALES : EXPORT_BLOCKS;
        item->type = TENSOR_U8;
        item->inner = k ? 0 : MXFP4_BLOCK;
        set_shape(item, (uint32_t)t->dims[0], count * (uint32_t)t->dims[1], groups * (k ? 1 : MXFP4_BLOCK));
        item->dim_count = 3;
        memcpy(item->dims, (uint64_t[]){item->planes, item->rows, item->cols}, sizeof item->dims);
    }
    return 0;
}

static int add_mxfp4(struct planner *p, enum weight_role role, const struct tensor *t, bool *done) {
    static const enum weight_role HALF[] = {ROLE_EXPERTS_GATE, ROLE_EXPERTS_UP}, DOWN[] = {ROLE_EXPERTS_DOWN};
    bool kept = !p->o->to_gguf && p->o->matrices == STORAGE_NONE && export_has_blocks(&p->model->spec, t->type);
    *done = true;
    if (role == ROLE_EXPERTS_DOWN_BLOCKS) return pack_mxfp4(p, role, ROLE_EXPERTS_DOWN, 0, 1);
    if (role == ROLE_EXPERTS_GATE_UP_BLOCKS) {
        int rc = pack_mxfp4(p, role, ROLE_EXPERTS_GATE, 0, 2);
        return rc ? rc : pack_mxfp4(p, role, ROLE_EXPERTS_UP, 1, 2);
    }
    if (kept && role == ROLE_EXPERTS_GATE) return unpack_mxfp4(p, ROLE_EXPERTS_GATE_UP_BLOCKS, HALF, 2);
    if (kept && role == ROLE_EXPERTS_DOWN) return unpack_mxfp4(p, ROLE_EXPERTS_DOWN_BLOCKS, DOWN, 1);
    *done = false;
    return 0;
}

/* ---- latent attention ---- */

/* A folder's product up to keys and values to GGUF's two: [heads, rank, nope] and [heads, value, rank]. */
static int split_latent(struct planner *p, const struct tensor *t) {
    const struct latent_spec *a = &p->model->spec.layers[p->layer].latent;
    uint32_t each = a->nope + a->value;
    if (t->dim_count != 2 || t->dims[0] != (uint64_t)a->heads * each || t->dims[1] != a->rank)
        return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says", t->name);
    for (uint32_t i = 0; i < 2; i++) {
        struct export_item *item = add_item(p, i ? ROLE_LATENT_V_UP : ROLE_LATENT_K_UP, 0, 1);
        if (!item) return p->err->code;
        item->views[0] = view(p, t, each);
        item->views[0].turned = i == 0;
        item->views[0].first = i ? a->nope : 0;
        set_shape(item, a->heads, i ? a->value : a->rank, i ? a->rank : a->nope);
        item->views[0].count = item->rows;
        item->dim_count = 3;
        memcpy(item->dims, (uint64_t[]){a->heads, item->rows, item->cols}, sizeof item->dims);
        int rc = finish(p, item, false);
        if (rc) return rc;
    }
    return 0;
}

static int join_latent(struct planner *p) {
    const struct latent_spec *a = &p->model->spec.layers[p->layer].latent;
    const struct tensor *k = find(p, ROLE_LATENT_K_UP, 0), *v = find(p, ROLE_LATENT_V_UP, 0);
    if (!k || !v || k->dim_count != 3 || v->dim_count != 3 || k->dims[1] != a->rank || k->dims[2] != a->nope ||
        v->dims[1] != a->value || v->dims[2] != a->rank || k->dims[0] != a->heads || v->dims[0] != a->heads)
        return error_set(p->err, ERR_INVALID, "attn_k_b and attn_v_b of layer %u do not fit", p->layer);
    struct export_item *item = add_item(p, ROLE_LATENT_KV_UP, 0, 2);
    if (!item) return p->err->code;
    item->views[0] = view(p, k, a->rank);
    item->views[0].turned = true;
    item->views[0].count = a->nope;
    item->views[1] = view(p, v, a->value);
    item->views[1].count = a->value;
    set_shape(item, a->heads, a->nope + a->value, a->rank);
    item->dim_count = 2;
    item->dims[0] = (uint64_t)a->heads * (a->nope + a->value);
    item->dims[1] = a->rank;
    return finish(p, item, false);
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
        return error_set(p->err, ERR_INVALID, "'%s' has another shape than config.json says", t->name);
    for (uint32_t i = 0; i < 2; i++) {
        struct export_item *item = add_item(p, i ? ROLE_IN_Z : ROLE_IN, 0, 1);
        if (!item) return p->err->code;
        item->views[0] = view(p, t, 0);
        item->views[0].count = (uint32_t)t->dims[0];
        set_shape(item, 1, rows[i], item->views[0].cols);
        item->order = delta_fused_order(r);
        if (i) memmove(item->order, item->order + rows[0], rows[1] * sizeof *item->order);
        int rc = finish(p, item, false);
        if (rc) return rc;
    }
    return 0;
}

static int join_delta(struct planner *p) {
    const struct recurrent_spec *r = &p->model->spec.layers[p->layer].recurrent;
    const struct tensor *parts[] = {find(p, ROLE_IN, 0), find(p, ROLE_IN_Z, 0)};
    struct export_item *item = add_item(p, ROLE_IN, 0, 2);
    uint32_t rows[2], hidden = p->model->spec.hidden;
    delta_rows(r, rows);
    if (!item) return p->err->code;
    for (uint32_t i = 0; i < 2; i++) {
        const struct tensor *t = parts[i];
        if (!t || t->dim_count != 2 || t->dims[0] != rows[i] || t->dims[1] != hidden)
            return error_set(p->err, ERR_INVALID, "attn_qkv and attn_gate of layer %u do not fit", p->layer);
        item->views[i] = view(p, t, 0);
        item->views[i].count = rows[i];
    }
    set_shape(item, 1, rows[0] + rows[1], hidden);
    item->order = inverse(delta_fused_order(r), rows[0] + rows[1]);
    return finish(p, item, false);
}

/* ---- the plan ---- */

static enum weight_role one_each(enum weight_role stacked) {
    return stacked == ROLE_EXPERTS_GATE ? ROLE_EXPERT_GATE
           : stacked == ROLE_EXPERTS_UP ? ROLE_EXPERT_UP
                                        : ROLE_EXPERT_DOWN;
}

static int add_expert_role(struct planner *p, enum weight_role role, const struct tensor *t, bool *done) {
    uint32_t experts = p->model->spec.layers[p->layer].moe.router.experts;
    *done = true;
    if (role >= ROLE_EXPERT_GATE && role <= ROLE_EXPERT_DOWN && p->o->to_gguf)
        return gather(p, role,
                      role - ROLE_EXPERT_GATE == 2 ? ROLE_EXPERTS_DOWN : ROLE_EXPERTS_GATE + (role - ROLE_EXPERT_GATE),
                      experts);
    bool stacked = role == ROLE_EXPERTS_GATE || role == ROLE_EXPERTS_UP || role == ROLE_EXPERTS_DOWN;
    if (stacked && !p->o->to_gguf && !p->fused) return spread(p, t, one_each(role), experts);
    if (role == ROLE_EXPERTS_DOWN) return add_down(p, t);
    *done = false;
    return 0;
}

/* A tensor that crosses from one format to the other in another form; *done: it was one. */
static int add_crossing(struct planner *p, enum weight_role role, const struct tensor *t, bool *done) {
    const struct attention_spec *a = attention_of(p);
    int rc = add_mxfp4(p, role, t, done);
    if (!*done) rc = add_expert_role(p, role, t, done);
    if (*done) return rc;
    *done = true;
    for (size_t i = 0; i < ARRAY_LEN(HALVES); i++) {
        const struct halves *h = &HALVES[i];
        bool apart = h->experts || !p->to->patterns[h->whole];
        if (role == h->whole && p->o->to_gguf && apart) return split(p, h, t);
        bool whole = h->experts ? p->fused : p->to->patterns[h->whole] != NULL;
        if (role == h->parts[0] && !p->o->to_gguf && whole) return join(p, h);
    }
    bool delta = role == ROLE_IN && p->model->spec.layers[p->layer].mixer == MIXER_DELTA,
         fused = !p->from->patterns[ROLE_IN_Z], fuses = !p->to->patterns[ROLE_IN_Z];
    if (delta && fused && !fuses) return split_delta(p, t);
    if (delta && !fused && fuses) return join_delta(p);
    if (role == ROLE_LATENT_KV_UP && p->o->to_gguf) return split_latent(p, t);
    if (role == ROLE_LATENT_K_UP && !p->o->to_gguf) return join_latent(p);
    if ((role == ROLE_Q_NORM || role == ROLE_K_NORM) && p->from->head_norms != p->to->head_norms) {
        uint32_t heads = role == ROLE_Q_NORM ? a->heads : a->kv_heads;
        return p->o->to_gguf ? gather(p, role, role, heads) : spread(p, t, role, heads);
    }
    *done = false;
    return 0;
}

/* Where a layer's one feed-forward has the names that a shared expert has in others. */
static bool is_of_layer(const struct planner *p, enum weight_role role) {
    bool shared = role >= ROLE_SHARED_GATE && role <= ROLE_SHARED_DOWN_BIAS,
         experts = p->model->spec.layers[p->layer].ffn.kind == FFN_MOE;
    return !shared || experts;
}

static int add_role(struct planner *p, enum weight_role role) {
    const struct tensor *t = is_of_layer(p, role) ? find(p, role, 0) : NULL;
    bool done = false;
    if (!t || is_used(p, t)) return 0;
    int rc = p->o->from_gguf == p->o->to_gguf ? 0 : add_crossing(p, role, t, &done);
    return rc || done ? rc : add_plain(p, role, t);
}

static int check_all(const struct planner *p) {
    const struct safetensors *files = &p->model->files;
    for (size_t i = 0; i < files->tensor_count; i++)
        if (!p->used[i] && !name_is_ignored(p->from, p->prefix, files->tensors[i].name) &&
            !name_is_beyond(p->from, p->prefix, files->tensors[i].name, p->model->spec.layer_count))
            return error_set(p->err, ERR_UNSUPPORTED, "'%s' has no name in the other format", files->tensors[i].name);
    return 0;
}

int export_plan_make(struct export_plan *plan, const struct model *m, const struct export_options *o,
                     struct error *err) {
    struct planner p = {.plan = plan, .model = m, .o = o, .err = err};
    p.from = o->from_gguf ? o->arch->names : m->spec.folder_names;
    p.to = o->to_gguf ? o->arch->names : m->spec.folder_names;
    p.prefix = find_prefix(p.from, &m->files);
    p.to_prefix = o->from_gguf && !o->to_gguf ? kept_prefix(&p) : NULL;
    p.fused = !m->spec.folder_names->patterns[ROLE_EXPERT_DOWN] || kept_line(o->kept, "+").len;
    p.used = mem_calloc(m->files.tensor_count + 1, sizeof *p.used);
    *plan = (struct export_plan){0};
    int rc = p.prefix ? 0 : error_set(err, ERR_INVALID, "the weights have neither embedding nor norms");
    for (enum weight_role role = 0; !rc && role < ROLE_COUNT; role++)
        for (p.layer = 0; !rc && p.layer < (role < ROLE_MIXER_NORM ? 1 : m->spec.layer_count); p.layer++)
            rc = add_role(&p, role);
    if (!rc) rc = check_all(&p);
    mem_free(p.used);
    if (rc) export_plan_release(plan);
    return rc;
}

void export_plan_release(struct export_plan *plan) {
    for (size_t i = 0; i < plan->count; i++) {
        mem_free(plan->items[i].views);
        mem_free(plan->items[i].order);
        mem_free(plan->items[i].columns);
    }
    mem_free(plan->items);
    *plan = (struct export_plan){0};
}
