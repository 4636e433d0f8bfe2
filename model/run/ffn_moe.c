/* ffn_moe.c - a mixture of experts: the chosen experts' gated feed-forwards, weighed and summed,
 * and a shared one that every row passes. Shazeer et al. 2017; DeepSeekMoE: Dai et al. 2024. */
#include "model/run/ffn_moe_weights.h"

#include "model/read/moe_read.h"
#include "model/run/ffn_dense.h"
#include "model/run/layer_kinds.h"

/* ---- weights ---- */

/* This rank's part of an expert's width; count 0: all of it. */
static struct shard_range expert_own(const struct loader *l, uint32_t layer, uint32_t width) {
    return shard_divides_ffn(l->shard, l->spec, layer) ? shard_expert(l->shard, width)
                                                       : (struct shard_range){0};
}

/* One product of all experts as files may have it: a tensor for each (apart), one of three
 * dimensions for each part (stacked), or for all (fused); the way up has two parts. */
struct expert_product {
    const struct product_segment *apart, *stacked, *fused;
    uint32_t segment_count, cols;
    struct shard_range
        /* this rank's part of the width (rows of the way up, columns of the way down); count 0:
         * all */
        own;
    bool down;
};

/* How it is taken: the parts, what of them, and in which order (NULL: as they lie). */
struct expert_segments {
    const struct product_segment *segments;
    uint32_t count;
    struct cut cuts[2];
    uint32_t *order; /* owned */
};

static void cut_experts(struct expert_segments *p, const struct expert_product *e,
                        const struct moe_spec *moe) {
    if (!e->own.count)
        return;
    for (uint32_t i = 0; i < p->count; i++)
        p->cuts[i] = e->down ? (struct cut){.cols = e->own} : (struct cut){e->own, {0}};
    if (e->down || p->segments != e->fused)
        return;
    p->cuts[0].rows =
        (struct shard_range){moe->interleaved ? 2 * e->own.first : 0, 2 * e->own.count};
    if (!moe->interleaved)
        p->order = ffn_fused_order(moe->width, e->own);
}

/* ---- biases ---- */

/* The biases [experts, rows] of one part of a product into [experts, width], from column `at` on;
 * how many. */
static int take_biases(struct loader *l, float *all, uint32_t width, uint32_t *at,
                       const struct product_segment *segment, struct shard_range rows,
                       const uint32_t *order, uint32_t layer) {
    uint32_t experts = l->spec->layers[layer].moe.router.experts;
    if (!rows.count)
        rows.count = segment->rows;
    float *host = loader_values(l, segment->bias, layer, (uint32_t[]){experts, segment->rows, 0});
    if (!host)
        return l->err->code;
    for (uint32_t e = 0; e < experts; e++)
        for (uint32_t i = 0; i < rows.count; i++)
            all[(size_t)e * width + *at + i] =
                host[(size_t)e * segment->rows + (order ? order[i] : rows.first + i)];
    *at += rows.count;
    mem_free(host);
    return 0;
}

/* Each expert's matrix gets its own. */
static int load_biases(struct loader *l, struct matrix *experts, const struct expert_segments *p,
                       uint32_t layer) {
    uint32_t width = experts[0].rows, at = 0, count = l->spec->layers[layer].moe.router.experts;
    float *host = mem_calloc((size_t)count * width, sizeof *host);
    const void *all = NULL;
    int rc = 0;
    for (uint32_t i = 0; !rc && i < p->count; i++)
        rc = take_biases(l, host, width, &at, &p->segments[i], p->cuts[i].rows, p->order, layer);
    if (!rc)
        rc = loader_bytes(l, &all, host, (size_t)count * width * sizeof *host);
    for (uint32_t e = 0; !rc && e < count; e++)
        experts[e].bias = (const float *)all + (size_t)e * width;
    mem_free(host);
    return rc;
}

/* ---- products ---- */

/* A GPU computes all experts of a product in one launch; the CPU takes each part as it is. */
static bool same_types(const struct loader *l, const struct matrix *m, enum storage_type type) {
    for (uint32_t i = 0; i < m->segment_count; i++)
        if (segment_type(m, &m->segments[i]) != type)
            return l->w->dev->kind == DEVICE_CPU;
    return true;
}

static int load_matrices(struct loader *l, struct matrix *experts,
                         const struct expert_product *product, const struct expert_segments *p,
                         enum weight_role blocks, uint32_t layer) {
    int rc = 0;
    for (uint32_t e = 0; !rc && e < l->spec->layers[layer].moe.router.experts; e++) {
        l->expert = e;
        rc = blocks ? loader_mxfp4(l, &experts[e], blocks, blocks + 1, p->segments->rows,
                                   product->cols, p->cuts, layer)
                    : loader_cut(l, &experts[e], p->segments, p->cuts, p->count, product->cols,
                                 false, layer, p->order);
        if (!rc && !same_types(l, &experts[e], experts[0].type))
            rc = error_set(l->err, ERR_UNSUPPORTED, "the experts of layer %u have different types",
                           layer);
    }
    l->expert = 0;
    return rc;
}

/* Puts them into the order of a device that multiplies all of them in one launch. */
static void pack_experts(struct loader *l, struct matrix *experts, struct expert_matrix *out) {
    const struct ops *ops = l->w->dev->ops;
    if (!ops->packs_experts || !ops->packs_experts(l->w->dev, experts, out->expert_count))
        return;
    for (uint32_t e = 0; e < out->expert_count; e++)
        for (uint32_t i = 0; i < experts[e].segment_count; i++) {
            struct matrix_segment *p = &experts[e].segments[i];
            ops->pack(l->stream, &experts[e], i, (void *)p->data);
            p->packed = p->data;
        }
    out->packed = true;
    out->scale_cols = experts[0].segments[0].scale_cols;
}

static int load_experts(struct loader *l, uint32_t layer, struct expert_matrix *out,
                        const struct expert_product *product) {
    const struct moe_spec *moe = &l->spec->layers[layer].moe;
    enum weight_role blocks =
        product->down ? ROLE_EXPERTS_DOWN_BLOCKS : ROLE_EXPERTS_GATE_UP_BLOCKS;
    if (!loader_has(l, blocks, layer))
        blocks = 0;
    bool fused = blocks || loader_has(l, product->fused->role, layer);
    bool stacked = !fused && loader_has(l, product->stacked->role, layer);
    struct expert_segments p = {fused     ? product->fused
                                : stacked ? product->stacked
                                          : product->apart,
                                fused ? 1 : product->segment_count,
                                {{{0}, {0}}},
                                NULL};
    struct matrix *experts = mem_calloc(moe->router.experts, sizeof *experts);
    /* rank 0 adds the bias */
    bool elsewhere = product->down && product->own.count && l->shard->rank;
    cut_experts(&p, product, moe);
    int rc = load_matrices(l, experts, product, &p, blocks, layer);
    if (elsewhere)
        loader_skip(l, product->fused->bias, layer);
    if (!rc && moe->expert_bias && !elsewhere)
        rc = load_biases(l, experts, &p, layer);
    *out = (struct expert_matrix){.type = experts[0].type,
                                  .rows = experts[0].rows,
                                  .cols = experts[0].cols,
                                  .expert_count = moe->router.experts};
    if (!rc)
        pack_experts(l, experts, out);
    if (!rc)
        rc = loader_bytes(l, (const void **)&out->experts, experts,
                          moe->router.experts * sizeof *experts);
    mem_free(experts);
    mem_free(p.order);
    return rc;
}

/* Rows of a product that makes `width` channels: gates and ups, or ups alone. */
static uint32_t up_rows(const struct moe_spec *moe, uint32_t width) {
    return moe->plain ? width : 2 * width;
}
/* What experts take and give. */
static uint32_t expert_hidden(const struct model_spec *spec, const struct moe_spec *moe) {
    return moe->latent ? moe->latent : spec->hidden;
}

static int load_plain_shared(struct loader *l, uint32_t layer, struct moe_weights *w) {
    const struct moe_spec *moe = &l->spec->layers[layer].moe;
    uint32_t hidden = l->spec->hidden, width = moe->shared_width;
    const struct product_segment up = {ROLE_SHARED_UP, ROLE_SHARED_UP_BIAS, width},
                                 down = {ROLE_SHARED_DOWN, ROLE_SHARED_DOWN_BIAS, hidden};
    const struct cut cut = {.rows = expert_own(l, layer, width)};
    int rc = loader_cut(l, &w->shared_up, &up, &cut, 1, hidden, moe->inner_bias, layer, NULL);
    return rc ? rc
              : loader_partial(l, &w->shared_down, &down, cut.rows, width, moe->inner_bias, layer);
}

/* divided: what comes out of the latent is a part of a sum, to which rank 0 adds the bias. */
static int load_latent(struct loader *l, uint32_t layer, struct moe_weights *w, bool divided) {
    const struct moe_spec *moe = &l->spec->layers[layer].moe;
    uint32_t hidden = l->spec->hidden;
    const struct product_segment in = {ROLE_EXPERT_LATENT_IN, ROLE_EXPERT_LATENT_IN_BIAS,
                                       moe->latent},
                                 out = {ROLE_EXPERT_LATENT_OUT, ROLE_EXPERT_LATENT_OUT_BIAS,
                                        hidden};
    int rc = loader_matrix(l, &w->latent_in, &in, 1, hidden, moe->inner_bias, layer);
    bool elsewhere = divided && l->shard->rank;
    if (elsewhere)
        loader_skip(l, out.bias, layer);
    return rc ? rc
              : loader_matrix(l, &w->latent_out, &out, 1, moe->latent,
                              moe->inner_bias && !elsewhere, layer);
}

static int load_shared(struct loader *l, uint32_t layer, struct moe_weights *w) {
    const struct moe_spec *moe = &l->spec->layers[layer].moe;
    uint32_t hidden = l->spec->hidden, width = moe->shared_width;
    struct shard_range own = expert_own(l, layer, width);
    if (moe->plain)
        return load_plain_shared(l, layer, w);
    const struct product_segment apart[] = {{.role = ROLE_SHARED_GATE, .rows = width},
                                            {.role = ROLE_SHARED_UP, .rows = width}};
    const struct product_segment fused = {.role = ROLE_SHARED_GATE_UP, .rows = 2 * width},
                                 down = {.role = ROLE_SHARED_DOWN, .rows = hidden},
                                 gate = {.role = ROLE_SHARED_SWITCH, .rows = 1};
    bool one = l->spec->names->patterns[ROLE_SHARED_GATE_UP] != NULL;
    uint32_t *order = one && own.count ? ffn_fused_order(width, own) : NULL;
    const struct cut cuts[] = {{.rows = {order ? 0 : own.first, order ? 2 * own.count : own.count}},
                               {.rows = own}};
    int rc = loader_cut(l, &w->shared_up, one ? &fused : apart, cuts, one ? 1 : 2, hidden, false,
                        layer, order);
    mem_free(order);
    if (!rc)
        rc = loader_partial(l, &w->shared_down, &down, own, width, false, layer);
    return rc || !moe->shared_gate
               ? rc
               : loader_matrix(l, &w->shared_gate, &gate, 1, hidden, false, layer);
}

static int moe_load(struct loader *l, uint32_t layer, void **weights) {
    const struct moe_spec *moe = &l->spec->layers[layer].moe;
    struct moe_weights *w = *weights = loader_new(l, sizeof *w);
    uint32_t hidden = l->spec->hidden, inner = expert_hidden(l->spec, moe), width = moe->width;
    struct shard_range own = expert_own(l, layer, width);
    const struct product_segment router = {
        .role = ROLE_ROUTER, .bias = ROLE_ROUTER_BIAS, .rows = moe->router.experts};
    const struct product_segment apart[] = {{.role = ROLE_EXPERT_GATE, .rows = width},
                                            {.role = ROLE_EXPERT_UP, .rows = width}};
    const struct product_segment fused = {
        .role = ROLE_EXPERTS_GATE_UP, .bias = ROLE_EXPERTS_GATE_UP_BIAS, .rows = 2 * width};
    const struct product_segment stacked[] = {
        {.role = ROLE_EXPERTS_GATE, .bias = ROLE_EXPERTS_GATE_BIAS, .rows = width},
        {.role = ROLE_EXPERTS_UP, .bias = ROLE_EXPERTS_UP_BIAS, .rows = width}};
    const struct product_segment one_down = {.role = ROLE_EXPERT_DOWN, .rows = inner},
                                 all_down = {.role = ROLE_EXPERTS_DOWN,
                                             .bias = ROLE_EXPERTS_DOWN_BIAS,
                                             .rows = inner};
    uint32_t gate = moe->plain; /* parts from here on */
    const struct expert_product up = {apart + gate, stacked + gate, &fused, 2 - gate, inner,
                                      own,          false},
                                down = {&one_down, &all_down, &all_down, 1, width, own, true};
    int rc = loader_matrix(l, &w->router, &router, 1, hidden, moe->router_bias, layer);
    if (!rc && moe->correction)
        rc = loader_vector(l, &w->correction, ROLE_ROUTER_CORRECTION, layer, router.rows);
    if (!rc && moe->latent)
        rc = load_latent(l, layer, w, own.count);
    if (!rc)
        rc = load_experts(l, layer, &w->up, &up);
    if (!rc)
        rc = load_experts(l, layer, &w->down, &down);
    return rc || !moe->shared_width ? rc : load_shared(l, layer, w);
}

/* ---- step ---- */

struct moe_buffers {
    struct expert_plan plan;
    float *logits, *shared_gate;    /* f32 [rows, experts], [rows] */
    void *sorted, *up, *gated;      /* act [pairs, ...] */
    void *shared_up, *shared_gated; /* act [rows, ...] */
    void *latent, *shared;          /* act [rows, latent], [rows, hidden]; only with a latent */
};

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                      struct moe_buffers *b) {
    const struct moe_spec *moe = &layer->moe;
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows,
           pairs = rows * moe->router.top_k;
    size_t used = 0;
    b->plan.chosen = forward_take(base, &used, pairs * sizeof(uint32_t));
    b->plan.weights = forward_take(base, &used, pairs * sizeof(float));
    b->plan.pairs = forward_take(base, &used, pairs * sizeof(uint32_t));
    b->plan.places = forward_take(base, &used, pairs * sizeof(uint32_t));
    b->plan.offsets = forward_take(base, &used, (moe->router.experts + 1) * sizeof(uint32_t));
    b->logits = forward_take(base, &used, rows * moe->router.experts * sizeof(float));
    b->shared_gate = forward_take(base, &used, rows * sizeof(float));
    b->sorted = forward_take(base, &used, act * pairs * expert_hidden(&f->model->spec, moe));
    b->up = forward_take(base, &used, act * pairs * up_rows(moe, moe->width));
    b->gated = forward_take(base, &used, act * pairs * moe->width);
    b->shared_up = forward_take(base, &used, act * rows * up_rows(moe, moe->shared_width));
    b->shared_gated = forward_take(base, &used, act * rows * moe->shared_width);
    b->latent = forward_take(base, &used, act * rows * moe->latent);
    b->shared = forward_take(base, &used, moe->latent ? act * rows * f->model->spec.hidden : 0);
    return used;
}

static size_t moe_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct moe_buffers b;
    return lay_out(f, layer, base, &b);
}

const uint32_t *ffn_moe_chosen(const struct forward *f, uint32_t layer) {
    struct moe_buffers b;
    lay_out(f, &f->model->spec.layers[layer], f->scratch, &b);
    return b.plan.chosen;
}

static void product_f32(struct forward *f, struct stream *s, float *out, const struct matrix *w) {
    struct op_linear product = forward_product_of(f, out, f->in, w);
    product.out_f32 = true;
    product.norm = f->norm;
    f->dev->ops->linear(s, &product);
}

static void activate_gate_up(struct forward *f, struct stream *s, const struct layer_spec *layer,
                             void *out, const void *gate_up, uint32_t rows, uint32_t width) {
    const struct moe_spec *moe = &layer->moe;
    if (moe->plain)
        f->dev->ops->rows->activate(s, &(struct op_activate){.out = out,
                                                             .x = gate_up,
                                                             .rows = rows,
                                                             .width = width,
                                                             .activation = layer->ffn.activation});
    else if (moe->clamped)
        f->dev->ops->clamped_swiglu(s, &(struct op_clamped_swiglu){.out = out,
                                                                   .gate_up = gate_up,
                                                                   .rows = rows,
                                                                   .width = width,
                                                                   .interleaved = moe->interleaved,
                                                                   .limit = moe->limit,
                                                                   .alpha = moe->alpha});
    else
        f->dev->ops->act_mul(s, &(struct op_act_mul){.out = out,
                                                     .gate_up = gate_up,
                                                     .rows = rows,
                                                     .width = width,
                                                     .activation = layer->ffn.activation});
}

/* b->sorted: what each pair's expert gives. */
static void run_experts(struct forward *f, struct stream *s, const struct layer_spec *layer,
                        const struct moe_weights *w, const struct moe_buffers *b) {
    const struct ops *ops = f->dev->ops;
    const struct moe_spec *moe = &layer->moe;
    uint32_t rows = f->batch.row_count, top_k = moe->router.top_k;
    product_f32(f, s, b->logits, &w->router);
    ops->route(s, &(struct op_route){.plan = &b->plan,
                                     .router = &moe->router,
                                     .logits = b->logits,
                                     .correction = w->correction,
                                     .rows = rows});
    if (moe->latent)
        forward_product(f, s, b->latent, f->in, &w->latent_in);
    ops->expert_gather(s, &(struct op_expert_gather){.out = b->sorted,
                                                     .x = moe->latent ? b->latent : f->in,
                                                     .plan = &b->plan,
                                                     .rows = rows,
                                                     .top_k = top_k,
                                                     .width = expert_hidden(&f->model->spec, moe),
                                                     .weighted = moe->weigh_input,
                                                     .norm = f->norm.squares ? &f->norm : NULL});
    const struct expert_gate gate = {moe->clamped ? 0 : (int)layer->ffn.activation,
                                     moe->clamped && moe->interleaved, moe->limit, moe->alpha};
    struct op_expert_linear up = {b->up, b->sorted, &w->up, &b->plan, rows, top_k, NULL};
    if (!moe->plain && ops->gates_experts && ops->gates_experts(f->dev, &w->up, &gate)) {
        up.out = b->gated;
        up.gate = &gate;
    }
    ops->expert_linear(s, &up);
    if (!up.gate)
        activate_gate_up(f, s, layer, b->gated, b->up, rows * top_k, moe->width);
    ops->expert_linear(
        s, &(struct op_expert_linear){b->sorted, b->gated, &w->down, &b->plan, rows, top_k, NULL});
}

static void run_shared(struct forward *f, struct stream *s, const struct layer_spec *layer,
                       const struct moe_weights *w, const struct moe_buffers *b, void *out) {
    const struct moe_spec *moe = &layer->moe;
    forward_product(f, s, b->shared_up, f->in, &w->shared_up);
    activate_gate_up(f, s, layer, b->shared_gated, b->shared_up, f->batch.row_count,
                     moe->shared_width);
    if (moe->shared_gate)
        product_f32(f, s, b->shared_gate, &w->shared_gate);
    forward_product(f, s, out, b->shared_gated, &w->shared_down);
}

/* f->out = latent_out(b->latent), plus the shared expert. */
static void leave_latent(struct forward *f, struct stream *s, const struct layer_spec *layer,
                         const struct moe_weights *w, const struct moe_buffers *b) {
    forward_product(f, s, f->out, b->latent, &w->latent_out);
    if (!layer->moe.shared_width)
        return;
    run_shared(f, s, layer, w, b, b->shared);
    f->dev->ops->rmsnorm(s, &(struct op_rmsnorm){.x = f->out,
                                                 .delta = b->shared,
                                                 .delta_scale = 1,
                                                 .rows = f->batch.row_count,
                                                 .width = f->model->spec.hidden,
                                                 .eps = 1});
}

static void moe_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct moe_spec *moe = &spec->moe;
    const struct moe_weights *w = f->model->weights.layers[layer].ffn;
    struct moe_buffers b;
    lay_out(f, spec, f->scratch, &b);
    run_experts(f, s, spec, w, &b);
    const bool shared = moe->shared_width && !moe->latent, adds = f->out == f->x;
    void *beside = adds ? f->delta : f->out;
    if (shared)
        run_shared(f, s, spec, w, &b, beside);
    f->dev->ops->expert_combine(
        s, &(struct op_expert_combine){.out = moe->latent ? b.latent : f->out,
                                       .y = b.sorted,
                                       .shared = shared ? beside : NULL,
                                       .shared_gate = moe->shared_gate ? b.shared_gate : NULL,
                                       .plan = &b.plan,
                                       .rows = f->batch.row_count,
                                       .top_k = moe->router.top_k,
                                       .width = expert_hidden(&f->model->spec, moe),
                                       .weighted = !moe->weigh_input,
                                       .residual = adds ? &f->sum : NULL});
    if (moe->latent)
        leave_latent(f, s, spec, w, &b);
}

/* Whether the device norms on the way to the experts and adds up on the way back. */
static bool folds(const struct forward *f, uint32_t layer) {
    return f->model->dev->ops->folds_experts && !f->model->spec.layers[layer].moe.latent &&
           f->model->spec.hidden % NORM_GROUP == 0;
}

/* f->in is read by the router, and gathered: with f->norm both norm it. */
static void moe_ends(const struct forward *f, uint32_t layer, const struct matrix **first,
                     const struct matrix **last) {
    const struct moe_weights *w = f->model->weights.layers[layer].ffn;
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const bool alone = !spec->moe.shared_width && !spec->moe.weigh_input && !spec->ffn_partial;
    *first = w && alone && folds(f, layer) ? &w->router : NULL;
    *last = NULL;
}

const struct layer_kind ffn_moe = {.name = "experts",
                                   .read = moe_read,
                                   .load = moe_load,
                                   .buffers = moe_buffers,
                                   .step = moe_step,
                                   .ends = moe_ends,
                                   .adds = folds};
