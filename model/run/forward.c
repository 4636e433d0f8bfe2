#include "model/run/forward.h"

#include "model/run/forward_shared.h"
#include "model/run/layer_kinds.h"

/* A run is a whole prompt, and each row sees all of it, or no more than `ahead` positions behind its
 * own. */
static void load_last(struct forward *f, struct stream *s, const struct step_input *in,
                      uint32_t ahead, uint32_t *out) {
    for (uint32_t i = 0; i < in->run_count; i++)
        for (uint32_t r = 0, last = in->runs[i].token_count - 1; r <= last; r++)
            f->rows_host[in->runs[i].row_first + r] = last - r > ahead ? r + ahead : last;
    stream_copy_in(s, out, f->rows_host, in->row_count * sizeof *out);
}

/* Rows of a pair's second text are of the second type. */
static void load_types(struct forward *f, struct stream *s, const struct step_input *in) {
    for (uint32_t i = 0; i < in->run_count; i++)
        for (uint32_t r = 0, n = in->first_counts ? in->first_counts[i] : 0;
             r < in->runs[i].token_count; r++)
            f->rows_host[in->runs[i].row_first + r] = n && r >= n;
    stream_copy_in(s, f->row_types, f->rows_host, in->row_count * sizeof *f->row_types);
}

void forward_load(struct forward *f, struct stream *s, const struct step_input *in) {
    CHECK(in->row_count <= f->max_rows && in->run_count <= f->max_runs &&
          in->sample_count <= f->max_rows);
    if (f->row_last)
        load_last(f, s, in, UINT32_MAX, f->row_last);
    if (f->row_last_near)
        load_last(f, s, in, f->model->spec.window_ahead, f->row_last_near);
    if (f->row_types)
        load_types(f, s, in);
    stream_copy_in(s, f->runs, in->runs, in->run_count * sizeof *in->runs);
    stream_copy_in(s, f->sample_rows, in->sample_rows, in->sample_count * sizeof *in->sample_rows);
    f->batch = (struct step_batch){.row_count = in->row_count,
                                   .output_count = in->output_count,
                                   .run_count = in->run_count,
                                   .sample_count = in->sample_count,
                                   .drafted = in->drafted,
                                   .runs = f->runs,
                                   .sample_rows = f->sample_rows,
                                   .ids = f->ids,
                                   .slots = f->slot_ids,
                                   .positions = f->positions};
}

static struct op_rmsnorm rmsnorm_of(const struct forward *f, const struct norm_call *c,
                                    const struct norm_spec *spec, const struct norm_weights *w) {
    return (struct op_rmsnorm){.out = c->out,
                               .x = c->x,
                               .delta = c->delta,
                               .delta_scale = c->delta_scale,
                               .weight = w ? w->weight : NULL,
                               .rows = c->rows,
                               .width = f->model->spec.hidden,
                               .eps = spec ? spec->eps : 1,
                               .weight_offset = spec ? spec->weight_offset : 0,
                               .x_f32 = c->x_f32};
}

void forward_norm_rows(struct forward *f, struct stream *s, const struct norm_call *c,
                       const struct norm_spec *spec, const struct norm_weights *w) {
    uint32_t width = f->model->spec.hidden;
    if (w && spec->kind == NORM_LAYER) {
        f->dev->ops->rows->layernorm(s, &(struct op_layernorm){.out = c->out,
                                                               .x = c->x,
                                                               .delta = c->delta,
                                                               .delta_scale = c->delta_scale,
                                                               .weight = w->weight,
                                                               .bias = w->bias,
                                                               .rows = c->rows,
                                                               .width = width,
                                                               .eps = spec->eps,
                                                               .weight_offset = spec->weight_offset,
                                                               .x_f32 = c->x_f32});
    } else {
        const struct op_rmsnorm rms = rmsnorm_of(f, c, spec, w);
        f->dev->ops->rmsnorm(s, &rms);
    }
}

/* What is pending becomes the sum of all ranks'. */
static void sum_pending(struct forward *f, struct stream *s) {
    if (f->pending_partial)
        forward_sum(f, s, f->pending, f->model->spec.hidden);
    f->pending_partial = false;
}

/* The same for the residual of all rows of the step; what was pending is added. */
static void norm(struct forward *f, struct stream *s, void *out, const struct norm_spec *spec,
                 const struct norm_weights *w) {
    const struct norm_call c = {out, f->x, f->pending, f->pending_scale, f->batch.row_count, true};
    const struct op_rmsnorm rms = rmsnorm_of(f, &c, spec, w);
    f->squared = f->squared && !f->pending && out != f->x;
    f->normed_by = NULL;
    if (f->pending_partial && w && spec->kind == NORM_RMS &&
        f->ranks->norm(f->ranks_ctx, s, &rms, f->pending_pushed))
        f->pending_partial = false;
    else {
        sum_pending(f, s);
        forward_norm_rows(f, s, &c, spec, w);
    }
    f->pending = NULL;
    f->pending_pushed = false;
}

/* The norm of delta, in place. */
static void norm_delta(struct forward *f, struct stream *s, const struct norm_spec *spec,
                       const struct norm_weights *w) {
    forward_norm_rows(
        f, s, &(struct norm_call){.out = f->delta, .x = f->delta, .rows = f->batch.row_count}, spec,
        w);
}

static void add_pending(struct forward *f, struct stream *s) {
    if (f->pending)
        norm(f, s, NULL, NULL, NULL);
}

/* The residual's norm, or itself where there is none, in `out`, which is returned; what was pending
 * is added. */
static const void *normed(struct forward *f, struct stream *s, void *out,
                          const struct norm_spec *spec, const struct norm_weights *w) {
    bool any = spec->kind != NORM_NONE;
    if (any && f->normed_by == w && out == f->normed && !f->pending)
        return out; /* the step before has made it */
    norm(f, s, out, any ? spec : NULL, any ? w : NULL);
    return out;
}

struct op_linear forward_product_of(const struct forward *f, void *out, const void *x,
                                    const struct matrix *w) {
    return (struct op_linear){.out = out,
                              .x = x,
                              .w = w,
                              .rows = f->batch.row_count,
                              .class_rows = f->batch.output_count,
                              .out_stride = w->rows,
                              .scratch = f->linear_scratch};
}

void forward_product(struct forward *f, struct stream *s, void *out, const void *x,
                     const struct matrix *w) {
    const struct op_linear product = forward_product_of(f, out, x, w);
    f->dev->ops->linear(s, &product);
}

void forward_product_in(struct forward *f, struct stream *s, void *out, const struct matrix *w) {
    struct op_linear product = forward_product_of(f, out, f->in, w);
    product.norm = f->norm;
    f->dev->ops->linear(s, &product);
}

void forward_product_out(struct forward *f, struct stream *s, const void *x,
                         const struct matrix *w) {
    struct op_linear product = forward_product_of(f, f->out, x, w);
    product.residual = f->residual;
    product.push = f->push;
    f->dev->ops->linear(s, &product);
}

struct state_view forward_state(const struct forward *f, size_t layer_offset, size_t offset) {
    return (struct state_view){.base = f->slots->state,
                               .slot_stride = f->slots->kv.geometry.state_bytes,
                               .offset = layer_offset + offset};
}

struct kv_view forward_kv(const struct forward *f, uint32_t layer) {
    const struct attention_spec *a = &f->model->spec.layers[layer].attention;
    const struct kv_cache *cache = &f->slots->kv;
    return (struct kv_view){.base = cache->base,
                            .block_stride = cache->geometry.block_bytes,
                            .layer_offset = cache->geometry.layer_offsets[layer],
                            .type = cache->geometry.type,
                            .block_tokens = cache->geometry.block_tokens,
                            .kv_heads = a->kv_heads,
                            .head_dim = a->head_dim,
                            .block_count = cache->block_count,
                            .tables = f->slots->table.blocks,
                            .max_blocks = f->slots->table.max_blocks};
}

void forward_sum(struct forward *f, struct stream *s, void *x, uint32_t width) {
    f->ranks->sum(f->ranks_ctx, s, x, f->batch.row_count, width, f->dev->activation_type);
}

void forward_sum_f32(struct forward *f, struct stream *s, float *x, uint32_t width) {
    f->ranks->sum(f->ranks_ctx, s, x, f->batch.row_count, width, STORAGE_F32);
}

/* f->out of a mixer or feed-forward that the stage's ranks divide: their sum. */
static void add_up(struct forward *f, struct stream *s, bool partial) {
    if (partial)
        forward_sum(f, s, f->out, f->model->spec.hidden);
}

/* A norm of all rows, into f->normed. spec NULL: there is none. first: the product that alone reads it;
 * NULL: there is none. */
struct row_norm {
    const struct norm_spec *spec;
    const struct norm_weights *weights;
    const struct matrix *first;
};

/* One half of a serial layer. next: what takes up its result. */
struct half {
    const struct layer_kind *kind;
    bool partial;
    float scale;
    const struct norm_spec *pre, *post;
    const struct norm_weights *pre_weights, *post_weights;
    struct row_norm next;
};

static struct row_norm norm_of_half(const struct forward *f, uint32_t layer,
                                    const struct layer_kind *kind, const struct norm_spec *spec,
                                    const struct norm_weights *weights) {
    const struct matrix *first = NULL, *last = NULL;
    if (kind->ends)
        kind->ends(f, layer, &first, &last);
    return (struct row_norm){spec, weights, first};
}

/* What a layer begins with. */
static struct row_norm first_norm(const struct forward *f, uint32_t layer) {
    if (layer >= f->model->spec.layer_count || f->model->spec.layers[layer].norm_last)
        return (struct row_norm){0};
    const struct layer_spec *l = &f->model->spec.layers[layer];
    const struct layer_weights *w = &f->model->weights.layers[layer];
    if (l->parallel || l->beside)
        return (struct row_norm){&l->mixer_norm, &w->mixer_norm, NULL};
    if (l->mixer)
        return norm_of_half(f, layer, MIXERS[l->mixer], &l->mixer_norm, &w->mixer_norm);
    return norm_of_half(f, layer, FFNS[l->ffn.kind], &l->ffn_norm, &w->ffn_norm);
}

static bool is_rms(const struct row_norm *n) {
    return n->spec && n->spec->kind == NORM_RMS && n->weights->weight;
}

/* Who gets the out of a half's last product, one addend of what the next norm takes up; NULL: nobody. */
static struct peers *pushes(const struct forward *f, const struct half *h,
                            const struct matrix *last) {
    const struct norm_call c = {f->normed, f->x, f->delta, h->scale, f->batch.row_count, true};
    const struct row_norm *next = &h->next;
    if (!last || !is_rms(next))
        return NULL;
    const struct op_rmsnorm rms = rmsnorm_of(f, &c, next->spec, next->weights);
    return f->ranks->pushes(f->ranks_ctx, &rms, last);
}

/* Whether the product with w makes its part of a norm in this step. */
static bool folds_norm(const struct forward *f, const struct matrix *w) {
    return w && f->squares && f->batch.output_count == f->batch.row_count &&
           f->dev->ops->folds_norm(f->dev, w, f->batch.row_count);
}

/* What a step that adds to the residual itself does: with the norm behind it, or, where a product makes
 * that, with the squares. */
static struct expert_residual sum_of(const struct forward *f, const struct half *h) {
    struct expert_residual sum = {.x = f->x, .scale = h->scale};
    if (!is_rms(&h->next))
        return sum;
    if (folds_norm(f, h->next.first)) {
        sum.squares = f->squares;
        return sum;
    }
    sum.out = f->normed;
    sum.weight = h->next.weights->weight;
    sum.eps = h->next.spec->eps;
    sum.weight_offset = h->next.spec->weight_offset;
    return sum;
}

static void serial_half(struct forward *f, struct stream *s, uint32_t layer, const struct half *h) {
    static const struct norm_spec none;
    bool last_norm = f->model->spec.layers[layer].norm_last;
    const struct norm_spec *pre = last_norm ? &none : h->pre;
    const struct matrix *first = NULL, *last = NULL;
    if ((f->squares || h->partial) && h->kind->ends)
        h->kind->ends(f, layer, &first, &last);
    if (f->squared && pre->kind == NORM_RMS && h->pre_weights->weight && folds_norm(f, first)) {
        f->in = f->x;
        f->norm =
            (struct norm_of_x){f->squares, h->pre_weights->weight, pre->eps, pre->weight_offset};
    } else {
        f->in = normed(f, s, f->normed, pre, h->pre_weights);
    }
    bool stays = !h->post->kind && !last_norm;
    bool adds = stays && !f->pending && folds_norm(f, last);
    if (adds && h->partial) { /* where the product behind norms: else the norm's kernel adds up */
        if (is_rms(&h->next) && h->next.first)
            f->push = f->ranks->adds(f->ranks_ctx, s, last, f->batch.row_count);
        adds = f->push != NULL;
    }
    bool sums = stays && !h->partial && !f->pending && h->kind->adds && h->kind->adds(f, layer);
    f->out = adds || sums ? (void *)f->x : f->delta;
    if (sums)
        f->sum = sum_of(f, h);
    if (adds)
        f->residual = (struct residual_out){f->squares, h->scale};
    if (!adds && stays && h->partial)
        f->push = pushes(f, h, last);
    h->kind->step(f, s, layer);
    f->norm = (struct norm_of_x){0};
    f->residual = (struct residual_out){0};
    f->squared = adds || f->sum.squares;
    f->normed_by = f->sum.out ? h->next.weights : NULL;
    f->sum = (struct expert_residual){0};
    f->pending_pushed = !adds && f->push;
    f->push = NULL;
    if (adds || sums)
        return;
    f->pending_partial = stays && h->partial && f->ranks->norm;
    if (!f->pending_partial)
        add_up(f, s, h->partial);
    if (h->post->kind)
        norm_delta(f, s, h->post, h->post_weights);
    f->pending = f->delta;
    f->pending_scale = h->scale;
    if (last_norm)
        norm(f, s, f->x, h->pre, h->pre_weights);
}

/* Two mixers beside each other. */
static void beside_half(struct forward *f, struct stream *s, uint32_t i) {
    const struct layer_spec *spec = &f->model->spec.layers[i];
    const struct layer_weights *w = &f->model->weights.layers[i];
    f->in = normed(f, s, f->normed, &spec->mixer_norm, &w->mixer_norm);
    norm(f, s, f->normed_ffn, &spec->mixer_norm, &w->beside_norm);
    f->out = f->delta;
    MIXERS[spec->mixer]->step(f, s, i);
    add_up(f, s, spec->mixer_partial);
    f->in = f->normed_ffn;
    f->out = f->delta_ffn;
    MIXERS[spec->beside]->step(f, s, i);
    add_up(f, s, spec->beside_partial);
    f->pending = f->delta;
    f->pending_scale = spec->residual_scale;
    add_pending(f, s);
    f->pending = f->delta_ffn;
    f->pending_scale = spec->beside_scale;
}

static void parallel_layer(struct forward *f, struct stream *s, uint32_t i) {
    const struct layer_spec *spec = &f->model->spec.layers[i];
    const struct layer_weights *w = &f->model->weights.layers[i];
    const void *in = normed(f, s, f->normed, &spec->mixer_norm, &w->mixer_norm), *ffn_in = in;
    if (spec->ffn_norm.kind)
        ffn_in = normed(f, s, f->normed_ffn, &spec->ffn_norm, &w->ffn_norm);
    f->in = in;
    f->out = f->delta;
    MIXERS[spec->mixer]->step(f, s, i);
    add_up(f, s, spec->mixer_partial);
    f->in = ffn_in;
    f->out = f->delta_ffn;
    FFNS[spec->ffn.kind]->step(f, s, i);
    add_up(f, s, spec->ffn_partial);
    f->pending = f->delta;
    f->pending_scale = spec->residual_scale;
    add_pending(f, s);
    f->pending = f->delta_ffn;
    f->pending_scale = spec->ffn_scale;
}

static void layer_step(struct forward *f, struct stream *s, uint32_t i) {
    const struct layer_spec *spec = &f->model->spec.layers[i];
    const struct layer_weights *w = &f->model->weights.layers[i];
    if (spec->parallel) {
        parallel_layer(f, s, i);
        return;
    }
    const struct row_norm after = first_norm(f, i + 1);
    const struct row_norm inside =
        spec->norm_last || !spec->ffn.kind
            ? after
            : norm_of_half(f, i, FFNS[spec->ffn.kind], &spec->ffn_norm, &w->ffn_norm);
    const struct half mixer = {.kind = MIXERS[spec->mixer],
                               .partial = spec->mixer_partial,
                               .scale = spec->residual_scale,
                               .pre = &spec->mixer_norm,
                               .post = &spec->mixer_post,
                               .pre_weights = &w->mixer_norm,
                               .post_weights = &w->mixer_post,
                               .next = inside};
    const struct half ffn = {.kind = FFNS[spec->ffn.kind],
                             .partial = spec->ffn_partial,
                             .scale = spec->ffn_scale,
                             .pre = &spec->ffn_norm,
                             .post = &spec->ffn_post,
                             .pre_weights = &w->ffn_norm,
                             .post_weights = &w->ffn_post,
                             .next = after};
    if (spec->beside)
        beside_half(f, s, i);
    else if (spec->mixer)
        serial_half(f, s, i, &mixer);
    if (spec->ffn.kind)
        serial_half(f, s, i, &ffn);
}

/* Into delta; it is what the residual, zero, has pending. */
static void embed(struct forward *f, struct stream *s) {
    const struct model_spec *spec = &f->model->spec;
    const struct model_weights *w = &f->model->weights;
    bool project = spec->embed_dim != spec->hidden, divided = shard_tp(&f->model->shard) > 1;
    void *out = project ? f->normed : f->delta;
    uint32_t first = divided ? shard_vocab(&f->model->shard, spec->vocab).first : 0;
    f->dev->ops->embed(s, &(struct op_embed){.out = out,
                                             .table = &w->embed,
                                             .batch = &f->batch,
                                             .scale = spec->embed_scale,
                                             .first = first});
    f->pending_partial =
        divided && !project && !spec->learned_positions && !spec->embed_norm.kind && f->ranks->norm;
    if (divided && !f->pending_partial)
        forward_sum(f, s, out, spec->embed_dim);
    if (project)
        forward_product(f, s, f->delta, f->normed, &w->project_in);
    if (spec->learned_positions)
        f->dev->ops->rows->add_positions(s,
                                         &(struct op_add_positions){.x = f->delta,
                                                                    .table = &w->positions,
                                                                    .offset = spec->position_offset,
                                                                    .batch = &f->batch});
    if (f->row_types) {
        struct step_batch types = f->batch; /* a type in the place of a position */
        types.positions = f->row_types;
        f->dev->ops->rows->add_positions(
            s, &(struct op_add_positions){.x = f->delta, .table = &w->types, .batch = &types});
    }
    if (spec->embed_norm.kind)
        norm_delta(f, s, &spec->embed_norm, &w->embed_norm);
    stream_fill(s, f->x, 0, (size_t)f->batch.row_count * spec->hidden * sizeof *f->x);
    f->pending = f->delta;
}

void forward_layers(struct forward *f, struct stream *s, const struct step_input *input) {
    forward_load(f, s, input);
    forward_put_layers(f, s);
}

static void no_sum(void *ctx, struct stream *s, void *x, uint32_t rows, uint32_t width,
                   enum storage_type type) {}
static bool no_norm(void *ctx, struct stream *s, const struct op_rmsnorm *norm, bool pushed) {
    return false;
}
static struct peers *no_push(void *ctx, const struct op_rmsnorm *norm, const struct matrix *w) {
    return NULL;
}
static struct peers *no_adds(void *ctx, struct stream *s, const struct matrix *w, uint32_t rows) {
    return NULL;
}
static void no_gather(void *ctx, struct stream *s, float *all, size_t stride, const float *own,
                      uint32_t rows) {}
static void no_send(void *ctx, struct stream *s, const float *x, size_t count) {}
static void no_receive(void *ctx, struct stream *s, float *x, size_t count) {}

void forward_rehearse(struct forward *f, struct stream *s) {
    static const struct rank_calls alone = {.sum = no_sum,
                                            .norm = no_norm,
                                            .pushes = no_push,
                                            .adds = no_adds,
                                            .gather = no_gather,
                                            .send = no_send,
                                            .receive = no_receive};
    const struct rank_calls *ranks = f->ranks;
    if (!graph_begin(s))
        return;
    f->ranks = &alone;
    f->batch = (struct step_batch){.row_count = 1,
                                   .run_count = 1,
                                   .runs = f->runs,
                                   .sample_rows = f->sample_rows,
                                   .ids = f->ids,
                                   .slots = f->slot_ids,
                                   .positions = f->positions};
    forward_put_layers(f, s);
    struct graph *unused = graph_end(s);
    graph_free(&unused);
    f->ranks = ranks;
}

void forward_put_layers(struct forward *f, struct stream *s) {
    const struct model_spec *spec = &f->model->spec;
    const struct ops *ops = f->dev->ops;
    ops->prepare(s, &(struct op_prepare){.slots = &f->slots->table, .batch = &f->batch});
    size_t values = (size_t)f->batch.row_count * spec->hidden;
    f->pending = NULL;
    f->pending_scale = 1;
    f->pending_partial = false;
    f->pending_pushed = false;
    f->squared = false;
    f->normed_by = NULL;
    if (shard_is_first(&f->model->shard))
        embed(f, s);
    else
        f->ranks->receive(f->ranks_ctx, s, f->x, values);
    for (uint32_t i = 0; i < spec->rope_count; i++)
        if (spec->ropes[i].kind)
            ops->rope_angles(s, &(struct op_rope_angles){.out = f->angles[i],
                                                         .inv_freq = f->slots->inv_freq[i]
                                                                         ? f->slots->inv_freq[i]
                                                                         : f->model->inv_freq[i],
                                                         .per_slot = f->slots->inv_freq[i] != NULL,
                                                         .half = spec->ropes[i].dims / 2,
                                                         .scale = (float)spec->ropes[i].scale,
                                                         .batch = &f->batch});
    for (uint32_t i = 0; i < spec->layer_count; i++) {
        layer_step(f, s, i);
        if (f->progress)
            f->progress(f->progress_ctx);
    }
    if (shard_is_last(&f->model->shard)) {
        sum_pending(f, s);
        return;
    }
    add_pending(f, s);
    f->ranks->send(f->ranks_ctx, s, f->x, values);
}

/* Whether all products at the ends of halves of layers do their part. */
static bool all_add(const struct model *model, const struct peers *peers, uint32_t rows) {
    const struct forward f = {.model = model};
    const struct ops *ops = model->dev->ops;
    for (uint32_t i = 0; i < model->spec.layer_count; i++) {
        const struct layer_spec *l = &model->spec.layers[i];
        const struct layer_kind *kinds[] = {MIXERS[l->mixer], FFNS[l->ffn.kind]};
        const bool partial[] = {l->mixer_partial, l->ffn_partial};
        for (int half = 0; half < 2; half++) {
            const struct matrix *first = NULL, *last = NULL;
            if (kinds[half] && kinds[half]->ends)
                kinds[half]->ends(&f, i, &first, &last);
            if ((first && !ops->folds_norm(model->dev, first, rows)) ||
                (last && partial[half] && !ops->peers->adds(peers, last, rows)))
                return false;
        }
    }
    return true;
}

uint32_t forward_rows_that_add(const struct model *model, const struct peers *peers) {
    uint32_t rows = 16;
    while (rows && !all_add(model, peers, rows))
        rows--;
    return rows;
}
