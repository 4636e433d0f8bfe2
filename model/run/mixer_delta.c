/*
 * mixer_delta.c - Gated DeltaNet (Yang et al. 2024) as Qwen3-Next and Qwen3.5 have it.
 *
 *   q, k, v = silu(conv(in(h)));  z, b, a = products of h;  dt = softplus(a + step_bias)
 *   y = delta(q, k, v, exp(decay dt), sigmoid(b)), q and k of unit length; out(norm(y) * silu(z)),
 *   the norm a head
 *
 * The files have q, k, v, z of one key head behind each other (fused_heads; fused_beta: b, a
 * likewise), or each by itself; here the rows are [all q, all k, all v] and [all b, all a].
 */
#include <math.h>

#include "model/run/recurrent.h"

static uint32_t key_width(const struct recurrent_spec *r) {
    return r->groups * r->state_size;
}
static uint32_t conv_width(const struct recurrent_spec *r) {
    return 2 * key_width(r) + r->width;
}

/* Rows of a fused tensor as all of the first kind, all of the second, ...; of each key head it has
 * `counts` of each. */
static uint32_t *fused_order(const struct recurrent_spec *r, const uint32_t *counts,
                             uint32_t kinds) {
    uint32_t group = 0, at = 0, n = 0;
    for (uint32_t k = 0; k < kinds; k++)
        group += counts[k];
    uint32_t *order = mem_calloc((size_t)group * r->groups, sizeof *order);
    for (uint32_t k = 0; k < kinds; at += counts[k++])
        for (uint32_t g = 0; g < r->groups; g++)
            for (uint32_t i = 0; i < counts[k]; i++)
                order[n++] = g * group + at + i;
    return order;
}

uint32_t *delta_fused_order(const struct recurrent_spec *r) {
    const uint32_t value = r->width / r->groups,
                   counts[] = {r->state_size, r->state_size, value, value};
    return fused_order(r, counts, ARRAY_LEN(counts));
}

/* The pieces of q, k, v, and of z behind them. */
static struct recurrent_pieces conv_pieces(const struct recurrent_spec *r,
                                           const struct shard_state *own) {
    struct shard_range q = {own->groups.first * r->state_size, own->groups.count * r->state_size};
    return (struct recurrent_pieces){
        {ROLE_IN, 0, conv_width(r)},
        NULL,
        3,
        {q,
         {key_width(r) + q.first, q.count},
         {2 * key_width(r) + own->channels.first, own->channels.count}}};
}

static int load_fused(struct loader *l, struct recurrent_weights *w, uint32_t layer,
                      const struct recurrent_spec *r, const struct shard_state *own) {
    struct recurrent_pieces in = conv_pieces(r, own);
    uint32_t *order = delta_fused_order(r);
    in.segment.rows += r->width;
    in.order = order;
    in.ranges[in.count++] =
        (struct shard_range){conv_width(r) + own->channels.first, own->channels.count};
    int rc = recurrent_rows(l, &w->in, layer, &in, 1, l->spec->hidden, false);
    mem_free(order);
    return rc;
}

static int load_apart(struct loader *l, struct recurrent_weights *w, uint32_t layer,
                      const struct recurrent_spec *r, const struct shard_state *own) {
    const struct recurrent_pieces in[] = {conv_pieces(r, own),
                                          {{ROLE_IN_Z, 0, r->width}, NULL, 1, {own->channels}}};
    return recurrent_rows(l, &w->in, layer, in, 2, l->spec->hidden, false);
}

static int load_beta(struct loader *l, struct recurrent_weights *w, uint32_t layer,
                     const struct recurrent_spec *r, const struct shard_state *own) {
    const struct recurrent_pieces apart[] = {{{ROLE_IN_BETA, 0, r->heads}, NULL, 1, {own->heads}},
                                             {{ROLE_IN_STEP, 0, r->heads}, NULL, 1, {own->heads}}};
    const uint32_t share = r->heads / r->groups, counts[] = {share, share};
    if (!r->delta.fused_beta)
        return recurrent_rows(l, &w->beta, layer, apart, 2, l->spec->hidden, false);
    uint32_t *order = fused_order(r, counts, 2);
    const struct recurrent_pieces fused = {
        {ROLE_IN_BETA, 0, 2 * r->heads},
        order,
        2,
        {own->heads, {r->heads + own->heads.first, own->heads.count}}};
    int rc = recurrent_rows(l, &w->beta, layer, &fused, 1, l->spec->hidden, false);
    mem_free(order);
    return rc;
}

static int delta_load(struct loader *l, uint32_t layer, void **weights) {
    const struct recurrent_spec *r = &l->spec->layers[layer].recurrent;
    struct recurrent_weights *w = *weights = loader_new(l, sizeof *w);
    const struct shard_state own = recurrent_own(l, layer);
    const struct recurrent_pieces conv = conv_pieces(r, &own);
    const struct product_segment out = {.role = ROLE_MIX_OUT, .rows = l->spec->hidden};
    CHECK(l->spec->layers[layer].recurrent.kind == MIXER_DELTA);
    int rc =
        r->delta.fused_heads ? load_fused(l, w, layer, r, &own) : load_apart(l, w, layer, r, &own);
    if (!rc)
        rc = load_beta(l, w, layer, r, &own);
    if (!rc)
        rc = recurrent_load_conv(l, w, layer, &conv);
    if (!rc)
        rc = recurrent_vector(l, &w->step_bias, layer, ROLE_STEP_BIAS, own.heads, r->heads);
    if (!rc)
        rc = recurrent_load_decay(l, &w->decay, layer, own.heads, r->heads);
    if (!rc)
        rc = loader_vector(l, &w->inner_norm, ROLE_INNER_NORM, layer, r->head_dim);
    return rc ? rc : recurrent_columns_of(l, &w->out, layer, &out, own.channels, r->width, false);
}

struct delta_buffers {
    void *in, *qkv, *ba, *y;
    float *dt;
};

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                      struct delta_buffers *b) {
    const struct recurrent_spec *r = &layer->recurrent;
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows, used = 0;
    b->in = forward_take(base, &used, act * rows * (conv_width(r) + r->width));
    b->qkv = forward_take(base, &used, act * rows * conv_width(r));
    b->ba = forward_take(base, &used, act * rows * 2 * r->heads);
    b->y = forward_take(base, &used, act * rows * r->width);
    b->dt = forward_take(base, &used, sizeof(float) * rows * r->heads);
    return used;
}

static size_t delta_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct delta_buffers b;
    return lay_out(f, layer, base, &b);
}

static size_t delta_state(const struct model_spec *spec, const struct layer_spec *layer) {
    const struct recurrent_spec *r = &layer->recurrent;
    size_t used = 0;
    recurrent_state(&used, (size_t)(r->taps - 1) * conv_width(r));
    recurrent_state(&used, (size_t)r->heads * r->state_size * r->head_dim);
    return used;
}

static void rule(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                 const struct recurrent_weights *w, const struct delta_buffers *b,
                 struct state_view state) {
    f->dev->ops->state->delta(
        s, &(struct op_delta){.out = b->y,
                              .q = b->qkv,
                              .k = recurrent_columns(f, b->qkv, key_width(r)),
                              .v = recurrent_columns(f, b->qkv, 2 * (size_t)key_width(r)),
                              .b = b->ba,
                              .dt = b->dt,
                              .a = w->decay,
                              .heads = r->heads,
                              .key_heads = r->groups,
                              .key_dim = r->state_size,
                              .value_dim = r->head_dim,
                              .in_stride = conv_width(r),
                              .b_stride = 2 * r->heads,
                              .tiled = r->delta.tiled,
                              .scale = 1 / sqrtf((float)r->state_size),
                              .state = state,
                              .batch = &f->batch});
    f->dev->ops->state->group_norm(
        s, &(struct op_group_norm){.out = b->y,
                                   .x = b->y,
                                   .gate = recurrent_columns(f, b->in, conv_width(r)),
                                   .weight = w->inner_norm,
                                   .rows = f->batch.row_count,
                                   .width = r->width,
                                   .group = r->head_dim,
                                   .in_stride = r->width,
                                   .gate_stride = conv_width(r) + r->width,
                                   .out_stride = r->width,
                                   .eps = r->eps,
                                   .weight_shared = true});
}

static void delta_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct recurrent_spec *r = &spec->recurrent;
    const struct recurrent_weights *w = f->model->weights.layers[layer].mixer;
    size_t at = f->slots->kv.geometry.mixer_states[layer], used = 0;
    size_t conv = recurrent_state(&used, (size_t)(r->taps - 1) * conv_width(r));
    struct delta_buffers b;
    lay_out(f, spec, f->scratch, &b);
    forward_product(f, s, b.in, f->in, &w->in);
    forward_product(f, s, b.ba, f->in, &w->beta);
    f->dev->ops->state->conv(s, &(struct op_conv){.out = b.qkv,
                                                  .x = b.in,
                                                  .weight = w->conv,
                                                  .bias = w->conv_bias,
                                                  .width = conv_width(r),
                                                  .taps = r->taps,
                                                  .in_stride = conv_width(r) + r->width,
                                                  .out_stride = conv_width(r),
                                                  .silu = true,
                                                  .state = forward_state(f, at, conv),
                                                  .batch = &f->batch});
    f->dev->ops->state->softplus(s, &(struct op_softplus){.out = b.dt,
                                                          .x = recurrent_columns(f, b.ba, r->heads),
                                                          .bias = w->step_bias,
                                                          .rows = f->batch.row_count,
                                                          .width = r->heads,
                                                          .in_stride = 2 * r->heads,
                                                          .low = 0,
                                                          .high = INFINITY});
    rule(f, s, r, w, &b, forward_state(f, at, used));
    forward_product(f, s, f->out, b.y, &w->out);
}

const struct layer_kind mixer_delta = {.name = "gated delta rule",
                                       .read = delta_read,
                                       .load = delta_load,
                                       .buffers = delta_buffers,
                                       .step = delta_step,
                                       .state_bytes = delta_state};
