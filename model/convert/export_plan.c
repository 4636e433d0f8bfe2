/* Which tensor of the target is made of which ones of the source (export.h). */
#include "model/convert/export_planner.h"

/* ---- tensors that go over as they are ---- */

static bool is_among(enum weight_role role, const enum weight_role *roles, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (roles[i] == role)
            return true;
    return false;
}

static bool is_norm(enum weight_role role) {
    static const enum weight_role NORMS[] = {ROLE_EMBED_NORM, ROLE_FINAL_NORM, ROLE_MIXER_NORM,
                                             ROLE_MIXER_POST, ROLE_FFN_NORM,   ROLE_FFN_POST,
                                             ROLE_Q_NORM,     ROLE_K_NORM};
    return is_among(role, NORMS, ARRAY_LEN(NORMS));
}

/* One vector an expert. */
static bool is_expert_bias(enum weight_role role) {
    static const enum weight_role BIASES[] = {ROLE_EXPERTS_GATE_UP_BIAS, ROLE_EXPERTS_GATE_BIAS,
                                              ROLE_EXPERTS_UP_BIAS, ROLE_EXPERTS_DOWN_BIAS};
    return is_among(role, BIASES, ARRAY_LEN(BIASES));
}

/* Small matrices on which much depends: not of block types, in llama.cpp neither. */
static bool stays_plain(enum weight_role role) {
    static const enum weight_role ROLES[] = {ROLE_ROUTER, ROLE_SHARED_SWITCH, ROLE_POSITIONS};
    return is_among(role, ROLES, ARRAY_LEN(ROLES));
}

/* Under another name, perhaps turned or with its rows in another order. */
static int add_plain(struct planner *p, enum weight_role role, const struct tensor *t) {
    bool matrix = t->dim_count == 2,
         turned = matrix && role > ROLE_MIXER_NORM && p->from->transposed != p->to->transposed;
    enum weight_role target = role;
    if (p->o->head_only && p->o->from_gguf != p->o->to_gguf &&
        role == (p->o->to_gguf ? ROLE_HEAD : ROLE_EMBED))
        target = p->o->to_gguf ? ROLE_EMBED : ROLE_HEAD;
    if (t->dim_count == 0 || t->dim_count > 3)
        return error_set(p->err, ERR_UNSUPPORTED,
                         "'%s' is of type %s with %u dimensions, which cannot be converted",
                         t->name, tensor_type_name(t->type), t->dim_count);
    struct export_item *item = planner_add(p, target, 0, 1);
    if (!item)
        return p->err->code;
    item->views[0] = planner_view(p, t, 0);
    export_set_shape(item, 1, turned ? item->views[0].cols : item->views[0].plane_rows,
                     turned ? item->views[0].plane_rows : item->views[0].cols);
    item->views[0].turned = turned;
    item->views[0].count = item->rows;
    if (!turned) {
        item->dim_count = t->dim_count;
        memcpy(item->dims, t->dims, sizeof item->dims);
    }
    bool vector = t->dim_count == 1 || is_norm(role) || is_expert_bias(role);
    if (export_is_state_value(role)) {
        vector = true;
        if (p->o->from_gguf != p->o->to_gguf)
            planner_cross_state_value(p, item, role);
    }
    float offset = is_norm(role) ? p->model->spec.folder_norm_offset : 0;
    item->add = p->o->from_gguf == p->o->to_gguf ? 0 : p->o->to_gguf ? offset : -offset;
    int rc = planner_set_order(p, item, role);
    if (!rc)
        rc = planner_finish(p, item, vector);
    if (!rc && !vector && stays_plain(role) && !storage_is_plain(p->o->matrices))
        item->type = export_matrix_type(t, STORAGE_NONE, item->cols);
    return rc;
}

/* ---- the plan ---- */

/* Where a layer's one feed-forward has the names that a shared expert has in others. */
static bool is_of_layer(const struct planner *p, enum weight_role role) {
    bool shared = role >= ROLE_SHARED_GATE && role <= ROLE_SHARED_DOWN_BIAS,
         experts = p->model->spec.layers[p->layer].ffn.kind == FFN_MOE;
    return !shared || experts;
}

static int add_role(struct planner *p, enum weight_role role) {
    const struct tensor *t = is_of_layer(p, role) ? planner_find(p, role, 0) : NULL;
    bool done = false;
    if (!t || planner_has_used(p, t))
        return 0;
    bool crosses = p->o->from_gguf != p->o->to_gguf;
    int rc = crosses ? planner_add_ffn(p, role, t, &done) : 0;
    if (!rc && crosses && !done)
        rc = planner_add_mixer(p, role, t, &done);
    return rc || done ? rc : add_plain(p, role, t);
}

static int check_all(const struct planner *p) {
    const struct safetensors *files = &p->model->files;
    for (size_t i = 0; i < files->tensor_count; i++)
        if (!p->used[i] && !name_is_ignored(p->from, p->prefix, files->tensors[i].name) &&
            !name_is_beyond(p->from, p->prefix, files->tensors[i].name, p->model->spec.layer_count))
            return error_set(p->err, ERR_UNSUPPORTED, "'%s' has no name in the other format",
                             files->tensors[i].name);
    return 0;
}

int export_plan_make(struct export_plan *plan, const struct model *m,
                     const struct export_options *o, struct error *err) {
    struct planner p = {.plan = plan, .model = m, .o = o, .err = err};
    p.from = o->from_gguf ? o->arch->names : m->spec.folder_names;
    p.to = o->to_gguf ? o->arch->names : m->spec.folder_names;
    p.prefix = export_find_prefix(p.from, &m->files);
    p.to_prefix = o->from_gguf && !o->to_gguf ? planner_kept_prefix(&p) : NULL;
    p.fused =
        !m->spec.folder_names->patterns[ROLE_EXPERT_DOWN] || export_kept_line(o->kept, "+").len;
    p.used = mem_calloc(m->files.tensor_count + 1, sizeof *p.used);
    *plan = (struct export_plan){0};
    int rc =
        p.prefix ? 0 : error_set(err, ERR_INVALID, "the weights have neither embedding nor norms");
    for (enum weight_role role = 0; !rc && role < ROLE_COUNT; role++)
        for (p.layer = 0; !rc && p.layer < (role < ROLE_MIXER_NORM ? 1 : m->spec.layer_count);
             p.layer++)
            rc = add_role(&p, role);
    if (!rc)
        rc = check_all(&p);
    mem_free(p.used);
    if (rc)
        export_plan_release(plan);
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
