/*
 * mixer_mamba2.c - Mamba 2 (Dao and Gu 2024): one decay a head, B and C shared by groups of heads.
 *
 *   z, x, B, C, d = in(h);  x, B, C = silu(conv(x, B, C));  dt = clamp(softplus(d + step_bias))
 *   y = ssm(x, dt, B, C);  out(norm(y, z)), the norm with the gate before, after, or the gate alone
 */
#include "model/recurrent.h"

static uint32_t conv_width(const struct recurrent_spec *r) { return r->width + 2 * r->groups * r->state_size; }
static uint32_t in_rows(const struct recurrent_spec *r) { return r->width + conv_width(r) + r->heads; }

/* A factor for each of z, x, B, C and the step, of which this rank has `own`. */
static int load_scales(struct loader *l, const struct recurrent_spec *r, const struct shard_state *own,
                       struct column_scale *out) {
    uint32_t x = own->channels.count, bc = own->groups.count * r->state_size,
             widths[] = {x, x, bc, bc, own->heads.count}, at = 0;
    if (!r->scaled) return 0;
    float *by = mem_calloc(in_rows(r), sizeof *by);
    for (size_t part = 0; part < ARRAY_LEN(widths); part++)
        for (uint32_t i = 0; i < widths[part]; i++) by[at++] = r->scales[part];
    return column_scale_load(l, out, by, at);
}

static int mamba2_load(struct loader *l, uint32_t layer, void **weights) {
    const struct recurrent_spec *r = &l->spec->layers[layer].recurrent;
    struct recurrent_weights *w = *weights = loader_new(l, sizeof *w);
    uint32_t hidden = l->spec->hidden, width = r->width, all = r->groups * r->state_size;
    struct shard_state own = recurrent_own(l, layer);
    struct shard_range x = own.channels,
                       b = {width + own.groups.first * r->state_size, own.groups.count * r->state_size},
                       c = {all + b.first, b.count}; /* of the convolution's channels */
    const struct recurrent_pieces in = {{ROLE_IN, ROLE_IN_BIAS, in_rows(r)},
                                        NULL,
                                        5,
                                        {x,
                                         {width + x.first, x.count},
                                         {width + b.first, b.count},
                                         {width + c.first, c.count},
                                         {width + conv_width(r) + own.heads.first, own.heads.count}}},
                                  conv = {{.rows = conv_width(r)}, NULL, 3, {x, b, c}};
    const struct part out = {ROLE_MIX_OUT, ROLE_MIX_OUT_BIAS, hidden};
    bool spans = shard_norm_spans(l->shard, l->spec, layer);
    int rc = recurrent_rows(l, &w->in, layer, &in, 1, hidden, r->in_bias);
    if (!rc) rc = load_scales(l, r, &own, &w->in_scale);
    if (!rc) rc = recurrent_load_conv(l, w, layer, &conv);
    if (!rc) rc = recurrent_vector(l, &w->step_bias, layer, ROLE_STEP_BIAS, own.heads, r->heads);
    if (!rc) rc = recurrent_load_decay(l, &w->decay, layer, own.heads, r->heads);
    if (!rc) rc = recurrent_vector(l, &w->skip, layer, ROLE_SKIP, own.heads, r->heads);
    if (!rc && r->inner_norm)
        rc = recurrent_vector(l, &w->inner_norm, layer, ROLE_INNER_NORM, spans ? (struct shard_range){0} : x, width);
    return rc ? rc : recurrent_columns_of(l, &w->out, layer, &out, x, width, r->out_bias);
}

struct mamba2_buffers {
    void *in, *xbc, *y;
    void *whole; /* act [rows, norm_width]: where the norm's groups span ranks */
    float *dt;
};

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base, struct mamba2_buffers *b) {
    const struct recurrent_spec *r = &layer->recurrent;
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows, used = 0;
    b->in = forward_take(base, &used, act * rows * in_rows(r));
    b->xbc = forward_take(base, &used, act * rows * conv_width(r));
    b->y = forward_take(base, &used, act * rows * r->width);
    b->whole = forward_take(base, &used, act * rows * r->norm_width);
    b->dt = forward_take(base, &used, sizeof(float) * rows * r->heads);
    return used;
}

static size_t mamba2_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct mamba2_buffers b;
    return lay_out(f, layer, base, &b);
}

static size_t mamba2_state(const struct model_spec *spec, const struct layer_spec *layer) {
    const struct recurrent_spec *r = &layer->recurrent;
    size_t used = 0;
    recurrent_state(&used, (size_t)(r->taps - 1) * conv_width(r));
    recurrent_state(&used, ssm_state_floats(r->heads, r->head_dim, r->state_size));
    return used;
}

/* The gate is applied here where there is no norm, or where the norm, after it, spans ranks. */
static void scan(struct forward *f, struct stream *s, const struct recurrent_spec *r, const struct recurrent_weights *w,
                 const struct mamba2_buffers *b, struct state_view state) {
    uint32_t width = conv_width(r), group_width = r->groups * r->state_size;
    bool gate_here = !r->inner_norm || r->norm_width;
    f->dev->ops->state->ssm(s, &(struct op_ssm){.out = b->y,
                                                .x = b->xbc,
                                                .b = recurrent_columns(f, b->xbc, r->width),
                                                .c = recurrent_columns(f, b->xbc, r->width + group_width),
                                                .z = gate_here ? b->in : NULL,
                                                .dt = b->dt,
                                                .a = w->decay,
                                                .d = w->skip,
                                                .heads = r->heads,
                                                .head_dim = r->head_dim,
                                                .groups = r->groups,
                                                .state_size = r->state_size,
                                                .x_stride = width,
                                                .bc_stride = width,
                                                .z_stride = in_rows(r),
                                                .out_stride = r->width,
                                                .state = state,
                                                .batch = &f->batch});
}

/* The norm within this rank. */
static void norm_own(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                     const struct recurrent_weights *w, const struct mamba2_buffers *b) {
    f->dev->ops->state->group_norm(s, &(struct op_group_norm){.out = b->y,
                                                              .x = b->y,
                                                              .gate = b->in,
                                                              .weight = w->inner_norm,
                                                              .rows = f->batch.row_count,
                                                              .width = r->width,
                                                              .group = r->norm_group,
                                                              .in_stride = r->width,
                                                              .gate_stride = in_rows(r),
                                                              .out_stride = r->width,
                                                              .eps = r->eps,
                                                              .gate_first = r->inner_norm == INNER_NORM_GATE_FIRST});
}

/* The norm of all ranks' channels, which have met their gates: those of the others are zeros here until they are
 * summed.
 */
static void norm_spanning(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                          const struct recurrent_weights *w, const struct mamba2_buffers *b) {
    void *own = recurrent_columns(f, b->whole, r->norm_first);
    size_t values = (size_t)f->batch.row_count * r->norm_width;
    stream_fill(s, b->whole, 0, storage_bytes(f->dev->activation_type, values));
    recurrent_copy(f, s, own, b->y, r->width, r->width, r->norm_width);
    forward_sum(f, s, b->whole, r->norm_width);
    f->dev->ops->state->group_norm(s, &(struct op_group_norm){.out = b->whole,
                                                              .x = b->whole,
                                                              .weight = w->inner_norm,
                                                              .rows = f->batch.row_count,
                                                              .width = r->norm_width,
                                                              .group = r->norm_group,
                                                              .in_stride = r->norm_width,
                                                              .out_stride = r->norm_width,
                                                              .eps = r->eps});
    recurrent_copy(f, s, b->y, own, r->width, r->norm_width, r->width);
}

static void mamba2_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct recurrent_spec *r = &spec->recurrent;
    const struct layer_weights *all = &f->model->weights.layers[layer];
    const struct recurrent_weights *w = spec->beside ? all->beside : all->mixer;
    size_t at = f->slots->kv.geometry.mixer_states[layer], used = 0;
    size_t conv = recurrent_state(&used, (size_t)(r->taps - 1) * conv_width(r));
    struct mamba2_buffers b;
    lay_out(f, spec, f->scratch, &b);
    forward_product(f, s, b.in, f->in, &w->in);
    column_scale_apply(f, s, &w->in_scale, b.in, in_rows(r));
    f->dev->ops->state->conv(s, &(struct op_conv){.out = b.xbc,
                                                  .x = recurrent_columns(f, b.in, r->width),
                                                  .weight = w->conv,
                                                  .bias = w->conv_bias,
                                                  .width = conv_width(r),
                                                  .taps = r->taps,
                                                  .in_stride = in_rows(r),
                                                  .out_stride = conv_width(r),
                                                  .silu = true,
                                                  .state = forward_state(f, at, conv),
                                                  .batch = &f->batch});
    f->dev->ops->state->softplus(s, &(struct op_softplus){.out = b.dt,
                                                          .x = recurrent_columns(f, b.in, r->width + conv_width(r)),
                                                          .bias = w->step_bias,
                                                          .rows = f->batch.row_count,
                                                          .width = r->heads,
                                                          .in_stride = in_rows(r),
                                                          .low = r->step_low,
                                                          .high = r->step_high});
    scan(f, s, r, w, &b, forward_state(f, at, used));
    if (r->norm_width)
        norm_spanning(f, s, r, w, &b);
    else if (r->inner_norm)
        norm_own(f, s, r, w, &b);
    forward_product(f, s, f->out, b.y, &w->out);
}

const struct layer_kind mixer_mamba2 = {.name = "mamba2",
                                        .read = mamba2_read,
                                        .load = mamba2_load,
                                        .buffers = mamba2_buffers,
                                        .step = mamba2_step,
                                        .state_bytes = mamba2_state};
