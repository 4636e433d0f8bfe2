/*
 * mixer_mamba1.c - Mamba (Gu and Dao 2023), and as Jamba and Falcon Mamba have it, with norms of
 * step, B and C.
 *
 *   x, z = in(h); x = silu(conv(x)); d, B, C = step(x), each normed where dt_b_c_norms; dt =
 *   softplus(step_out(d) + b) out(scan(x, dt, B, C) * silu(z))
 *
 * oxidizr's has no norms, but A = exp(-a_log): the state grows, within a limit.
 */
#include <math.h>

#include "model/run/recurrent.h"

/* Of A [width, state] this rank's channels -> the tiles of op_ssm. */
static int load_decay(struct loader *l, struct recurrent_weights *w, uint32_t layer,
                      const struct recurrent_spec *r, struct shard_range own) {
    const float *plain;
    float *x = loader_values(l, ROLE_DECAY, layer, (uint32_t[]){r->width, r->state_size, 0});
    size_t count = ssm_state_floats(1, own.count, r->state_size);
    if (!x)
        return l->err->code;
    float *tiled = mem_calloc(count, sizeof *tiled);
    for (uint32_t c = 0; c < own.count; c++)
        for (uint32_t n = 0; n < r->state_size; n++)
            tiled[ssm_tile_at(c, n, r->state_size)] =
                recurrent_decay_of(r, x[(size_t)(own.first + c) * r->state_size + n]);
    mem_free(x);
    int rc = loader_put(l, &plain, tiled, count);
    w->decay = plain;
    return rc;
}

static int load_dt_b_c_norms(struct loader *l, struct recurrent_weights *w, uint32_t layer,
                             const struct recurrent_spec *r) {
    if (!r->mamba1.dt_b_c_weights)
        return 0;
    int rc = loader_vector(l, &w->step_norm, ROLE_STEP_NORM, layer, r->mamba1.rank);
    if (!rc)
        rc = loader_vector(l, &w->b_norm, ROLE_B_NORM, layer, r->state_size);
    return rc ? rc : loader_vector(l, &w->c_norm, ROLE_C_NORM, layer, r->state_size);
}

static int mamba1_load(struct loader *l, uint32_t layer, void **weights) {
    const struct recurrent_spec *r = &l->spec->layers[layer].recurrent;
    struct recurrent_weights *w = *weights = loader_new(l, sizeof *w);
    uint32_t hidden = l->spec->hidden, width = r->width;
    struct shard_range own = recurrent_own(l, layer).channels;
    const struct recurrent_pieces in = {{ROLE_IN, ROLE_IN_BIAS, 2 * width},
                                        NULL,
                                        2,
                                        {own, {width + own.first, own.count}}},
                                  conv = {{.rows = width}, NULL, 1, {own}};
    const struct product_segment step = {.role = ROLE_STEP_PRODUCT,
                                         .rows = r->mamba1.rank + 2 * r->state_size},
                                 step_out = {.role = ROLE_STEP, .rows = width},
                                 out = {ROLE_MIX_OUT, ROLE_MIX_OUT_BIAS, hidden};
    CHECK(l->spec->layers[layer].recurrent.kind == MIXER_MAMBA1);
    int rc = recurrent_rows(l, &w->in, layer, &in, 1, hidden, r->in_bias);
    if (!rc)
        rc = recurrent_load_conv(l, w, layer, &conv);
    if (!rc)
        rc = recurrent_columns_of(l, &w->step, layer, &step, own, width, false);
    if (!rc)
        rc = recurrent_product(l, &w->step_out, layer, &step_out, own, r->mamba1.rank, false);
    if (!rc)
        rc = recurrent_vector(l, &w->step_bias, layer, ROLE_STEP_BIAS, own, width);
    if (!rc)
        rc = load_dt_b_c_norms(l, w, layer, r);
    if (!rc)
        rc = load_decay(l, w, layer, r, own);
    if (!rc)
        rc = recurrent_vector(l, &w->skip, layer, ROLE_SKIP, own, width);
    return rc ? rc : recurrent_columns_of(l, &w->out, layer, &out, own, width, r->out_bias);
}

struct mamba1_buffers {
    void *xz, *x, *dt_b_c, *rank, *raw, *y;
    float *dt;
};

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                      struct mamba1_buffers *b) {
    const struct recurrent_spec *r = &layer->recurrent;
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows, used = 0;
    b->xz = forward_take(base, &used, act * rows * 2 * r->width);
    b->x = forward_take(base, &used, act * rows * r->width);
    b->dt_b_c = forward_take(base, &used, act * rows * (r->mamba1.rank + 2 * r->state_size));
    b->rank = forward_take(base, &used, act * rows * r->mamba1.rank);
    b->raw = forward_take(base, &used, act * rows * r->width);
    b->y = forward_take(base, &used, act * rows * r->width);
    b->dt = forward_take(base, &used, sizeof(float) * rows * r->width);
    return used;
}

static size_t mamba1_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct mamba1_buffers b;
    return lay_out(f, layer, base, &b);
}

static size_t mamba1_state(const struct model_spec *spec, const struct layer_spec *layer) {
    const struct recurrent_spec *r = &layer->recurrent;
    size_t used = 0;
    recurrent_state(&used, (size_t)(r->taps - 1) * r->width);
    recurrent_state(&used, ssm_state_floats(1, r->width, r->state_size));
    return used;
}

/* Norms a part of the row: columns [first, first + width), into `out` or where it is. */
static void norm_columns(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                         void *out, uint32_t out_stride, const void *dt_b_c, uint32_t first,
                         uint32_t width, const float *weight) {
    f->dev->ops->state->group_norm(
        s, &(struct op_group_norm){.out = out,
                                   .x = recurrent_columns(f, dt_b_c, first),
                                   .weight = weight,
                                   .rows = f->batch.row_count,
                                   .width = width,
                                   .group = width,
                                   .in_stride = r->mamba1.rank + 2 * r->state_size,
                                   .out_stride = out_stride,
                                   .eps = r->eps});
}

static void split_dt_b_c(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                         const struct recurrent_weights *w, const struct mamba1_buffers *b) {
    uint32_t stride = r->mamba1.rank + 2 * r->state_size, at = r->mamba1.rank;
    if (!r->mamba1.dt_b_c_norms) {
        recurrent_copy(f, s, b->rank, b->dt_b_c, r->mamba1.rank, stride, r->mamba1.rank);
        return;
    }
    norm_columns(f, s, r, b->rank, r->mamba1.rank, b->dt_b_c, 0, r->mamba1.rank, w->step_norm);
    norm_columns(f, s, r, recurrent_columns(f, b->dt_b_c, at), stride, b->dt_b_c, at, r->state_size,
                 w->b_norm);
    at += r->state_size;
    norm_columns(f, s, r, recurrent_columns(f, b->dt_b_c, at), stride, b->dt_b_c, at, r->state_size,
                 w->c_norm);
}

static void mamba1_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct recurrent_spec *r = &spec->recurrent;
    const struct recurrent_weights *w = f->model->weights.layers[layer].mixer;
    const struct state_ops *ops = f->dev->ops->state;
    size_t at = f->slots->kv.geometry.mixer_states[layer], used = 0, conv = 0;
    struct mamba1_buffers b;
    lay_out(f, spec, f->scratch, &b);
    conv = recurrent_state(&used, (size_t)(r->taps - 1) * r->width);
    forward_product(f, s, b.xz, f->in, &w->in);
    ops->conv(s, &(struct op_conv){.out = b.x,
                                   .x = b.xz,
                                   .weight = w->conv,
                                   .bias = w->conv_bias,
                                   .width = r->width,
                                   .taps = r->taps,
                                   .in_stride = 2 * r->width,
                                   .out_stride = r->width,
                                   .silu = true,
                                   .state = forward_state(f, at, conv),
                                   .batch = &f->batch});
    forward_product(f, s, b.dt_b_c, b.x, &w->step);
    if (spec->mixer_partial)
        forward_sum(f, s, b.dt_b_c, r->mamba1.rank + 2 * r->state_size);
    split_dt_b_c(f, s, r, w, &b);
    forward_product(f, s, b.raw, b.rank, &w->step_out);
    ops->softplus(s, &(struct op_softplus){.out = b.dt,
                                           .x = b.raw,
                                           .bias = w->step_bias,
                                           .rows = f->batch.row_count,
                                           .width = r->width,
                                           .in_stride = r->width,
                                           .low = 0,
                                           .high = INFINITY});
    ops->ssm(s,
             &(struct op_ssm){.out = b.y,
                              .x = b.x,
                              .b = recurrent_columns(f, b.dt_b_c, r->mamba1.rank),
                              .c = recurrent_columns(f, b.dt_b_c, r->mamba1.rank + r->state_size),
                              .z = recurrent_columns(f, b.xz, r->width),
                              .dt = b.dt,
                              .a = w->decay,
                              .d = w->skip,
                              .heads = r->width,
                              .head_dim = 1,
                              .groups = 1,
                              .state_size = r->state_size,
                              .x_stride = r->width,
                              .bc_stride = r->mamba1.rank + 2 * r->state_size,
                              .z_stride = 2 * r->width,
                              .out_stride = r->width,
                              .per_channel = true,
                              .limit = r->mamba1.state_limit,
                              .state = forward_state(f, at, used),
                              .batch = &f->batch});
    forward_product(f, s, f->out, b.y, &w->out);
}

const struct layer_kind mixer_mamba1 = {.name = "mamba",
                                        .read = mamba1_read,
                                        .load = mamba1_load,
                                        .buffers = mamba1_buffers,
                                        .step = mamba1_step,
                                        .state_bytes = mamba1_state};
