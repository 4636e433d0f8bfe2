#include "model/run/ssm_heads.h"

int ssm_heads_load(struct loader *l, uint32_t layer, struct recurrent_weights *w) {
    const struct recurrent_spec *r = &l->spec->layers[layer].recurrent;
    uint32_t hidden = l->spec->hidden, width = r->width, all = r->groups * r->state_size;
    struct shard_state own = recurrent_own(l, layer);
    struct shard_range x = own.channels,
                       b = {width + own.groups.first * r->state_size,
                            own.groups.count * r->state_size},
                       c = {all + b.first, b.count}; /* of the convolution's channels */
    const struct recurrent_pieces in = {{ROLE_IN, ROLE_IN_BIAS, ssm_in_rows(r)},
                                        NULL,
                                        5,
                                        {x,
                                         {width + x.first, x.count},
                                         {width + b.first, b.count},
                                         {width + c.first, c.count},
                                         {width + ssm_conv_width(r) + own.heads.first,
                                          own.heads.count}}},
                                  conv = {{.rows = ssm_conv_width(r)}, NULL, 3, {x, b, c}};
    const struct product_segment out = {ROLE_MIX_OUT, ROLE_MIX_OUT_BIAS, hidden};
    bool spans = shard_norm_spans(l->shard, l->spec, layer);
    int rc = recurrent_rows(l, &w->in, layer, &in, 1, hidden, r->in_bias);
    if (!rc && r->taps)
        rc = recurrent_load_conv(l, w, layer, &conv);
    if (!rc)
        rc = recurrent_vector(l, &w->step_bias, layer, ROLE_STEP_BIAS, own.heads, r->heads);
    if (!rc)
        rc = recurrent_load_decay(l, &w->decay, layer, own.heads, r->heads);
    if (!rc)
        rc = recurrent_vector(l, &w->skip, layer, ROLE_SKIP, own.heads, r->heads);
    if (!rc && r->ssm.inner_norm)
        rc = recurrent_vector(l, &w->inner_norm, layer, ROLE_INNER_NORM,
                              spans ? (struct shard_range){0} : x, width);
    return rc ? rc : recurrent_columns_of(l, &w->out, layer, &out, x, width, r->out_bias);
}

void ssm_heads_lay_out(const struct forward *f, const struct recurrent_spec *r, char *base,
                       size_t *used, struct ssm_buffers *b) {
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows;
    b->in = forward_take(base, used, act * rows * ssm_in_rows(r));
    b->xbc = forward_take(base, used, act * rows * ssm_conv_width(r));
    b->y = forward_take(base, used, act * rows * r->width);
    b->whole = forward_take(base, used, act * rows * r->ssm.norm_width);
    b->dt = forward_take(base, used, sizeof(float) * rows * r->heads);
}

size_t ssm_heads_state(const struct recurrent_spec *r, size_t *used) {
    return recurrent_state(used, (size_t)(r->taps ? r->taps - 1 : 0) * ssm_conv_width(r));
}

/* x, B and C without a convolution: only x passes the activation. */
static void activate(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                     const struct ssm_buffers *b) {
    f->dev->ops->state->gate(s, &(struct op_gate){.out = b->xbc,
                                                  .gate = recurrent_columns(f, b->in, r->width),
                                                  .rows = f->batch.row_count,
                                                  .width = r->width,
                                                  .gate_stride = ssm_in_rows(r),
                                                  .out_stride = ssm_conv_width(r),
                                                  .kind = GATE_SILU});
    recurrent_copy(f, s, recurrent_columns(f, b->xbc, r->width),
                   recurrent_columns(f, b->in, 2 * (size_t)r->width), ssm_conv_width(r) - r->width,
                   ssm_in_rows(r), ssm_conv_width(r));
}

static void convolve(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                     const struct recurrent_weights *w, const struct ssm_buffers *b,
                     struct state_view state) {
    f->dev->ops->state->conv(s, &(struct op_conv){.out = b->xbc,
                                                  .x = recurrent_columns(f, b->in, r->width),
                                                  .weight = w->conv,
                                                  .bias = w->conv_bias,
                                                  .width = ssm_conv_width(r),
                                                  .taps = r->taps,
                                                  .in_stride = ssm_in_rows(r),
                                                  .out_stride = ssm_conv_width(r),
                                                  .silu = true,
                                                  .state = state,
                                                  .batch = &f->batch});
}

void ssm_heads_split(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                     const struct recurrent_weights *w, const struct ssm_buffers *b,
                     struct state_view conv) {
    if (r->taps)
        convolve(f, s, r, w, b, conv);
    else
        activate(f, s, r, b);
    f->dev->ops->state->softplus(
        s, &(struct op_softplus){.out = b->dt,
                                 .x = recurrent_columns(f, b->in, r->width + ssm_conv_width(r)),
                                 .bias = w->step_bias,
                                 .rows = f->batch.row_count,
                                 .width = r->heads,
                                 .in_stride = ssm_in_rows(r),
                                 .low = r->ssm.step_low,
                                 .high = r->ssm.step_high});
}

/* The norm within this rank. */
static void norm_own(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                     const struct recurrent_weights *w, const struct ssm_buffers *b) {
    f->dev->ops->state->group_norm(
        s, &(struct op_group_norm){.out = b->y,
                                   .x = b->y,
                                   .gate = b->in,
                                   .weight = w->inner_norm,
                                   .rows = f->batch.row_count,
                                   .width = r->width,
                                   .group = r->ssm.norm_group,
                                   .in_stride = r->width,
                                   .gate_stride = ssm_in_rows(r),
                                   .out_stride = r->width,
                                   .eps = r->eps,
                                   .gate_first = r->ssm.inner_norm == INNER_NORM_GATE_FIRST});
}

/* The norm of all ranks' channels, behind their gates: those of the others are zeros here until
 * they are summed. */
static void norm_spanning(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                          const struct recurrent_weights *w, const struct ssm_buffers *b) {
    void *own = recurrent_columns(f, b->whole, r->ssm.norm_first);
    size_t values = (size_t)f->batch.row_count * r->ssm.norm_width;
    stream_fill(s, b->whole, 0, storage_bytes(f->dev->activation_type, values));
    f->dev->ops->state->gate(s, &(struct op_gate){.out = own,
                                                  .x = b->y,
                                                  .gate = b->in,
                                                  .rows = f->batch.row_count,
                                                  .width = r->width,
                                                  .x_stride = r->width,
                                                  .gate_stride = ssm_in_rows(r),
                                                  .out_stride = r->ssm.norm_width,
                                                  .kind = GATE_SILU});
    forward_sum(f, s, b->whole, r->ssm.norm_width);
    f->dev->ops->state->group_norm(s, &(struct op_group_norm){.out = b->whole,
                                                              .x = b->whole,
                                                              .weight = w->inner_norm,
                                                              .rows = f->batch.row_count,
                                                              .width = r->ssm.norm_width,
                                                              .group = r->ssm.norm_group,
                                                              .in_stride = r->ssm.norm_width,
                                                              .out_stride = r->ssm.norm_width,
                                                              .eps = r->eps});
    recurrent_copy(f, s, b->y, own, r->width, r->ssm.norm_width, r->width);
}

void ssm_heads_finish(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                      const struct recurrent_weights *w, const struct ssm_buffers *b) {
    if (r->ssm.norm_width)
        norm_spanning(f, s, r, w, b);
    else if (r->ssm.inner_norm)
        norm_own(f, s, r, w, b);
    forward_product(f, s, f->out, b->y, &w->out);
}
