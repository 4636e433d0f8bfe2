/*
 * mixer_mamba3.c - Mamba 3 (Lahoti et al. 2026) in oxidizr's form, by op_trapezoid:
 *
 *   z, x, B, C, d = in(h);  x, B, C = silu(conv(x, B, C)), or without a convolution x = silu(x)
 *   B, C = rms(B), rms(C) for each group, one weight for both;  mix, theta = turn(h)
 *   x = mimo_up(x) in each head; y = trapezoid(x, B + b_bias, C + c_bias, dt, mix, theta); y =
 *   mimo_down(y) out(norm(y * silu(z)))
 *
 * theta (states that turn), the convolution, and mimo_up and mimo_down (several inputs and outputs
 * a channel) are optional.
 */
#include "model/run/ssm_heads.h"

/* Values of a head inside. */
static uint32_t wide_dim(const struct recurrent_spec *r) {
    return r->head_dim * MAX(r->mamba3.widening, 1u);
}
static uint32_t turn_width(const struct recurrent_spec *r) {
    return r->heads * (1 + (r->mamba3.turns ? r->state_size / 2 : 0));
}

/* A tensor [rows, cols] and its bias as op_block_linear wants them. */
static int load_block(struct loader *l, struct block_weights *b, uint32_t layer,
                      const struct product_segment *segment, uint32_t cols) {
    float *x = loader_values(l, segment->role, layer, (uint32_t[]){segment->rows, cols, 0});
    if (!x)
        return l->err->code;
    float *turned = mem_calloc((size_t)segment->rows * cols, sizeof *turned);
    for (uint32_t i = 0; i < segment->rows; i++)
        for (uint32_t j = 0; j < cols; j++)
            turned[(size_t)j * segment->rows + i] = x[(size_t)i * cols + j];
    mem_free(x);
    int rc = loader_put(l, &b->weight, turned, (size_t)segment->rows * cols);
    return rc ? rc : loader_vector(l, &b->bias, segment->bias, layer, segment->rows);
}

static int load_widening(struct loader *l, struct recurrent_weights *w, uint32_t layer,
                         const struct recurrent_spec *r) {
    const struct product_segment mimo_up = {ROLE_MIMO_UP, ROLE_MIMO_UP_BIAS, wide_dim(r)},
                                 mimo_down = {ROLE_MIMO_DOWN, ROLE_MIMO_DOWN_BIAS, r->head_dim};
    if (!r->mamba3.widening)
        return 0;
    int rc = load_block(l, &w->mimo_up, layer, &mimo_up, r->head_dim);
    return rc ? rc : load_block(l, &w->mimo_down, layer, &mimo_down, wide_dim(r));
}

static int mamba3_load(struct loader *l, uint32_t layer, void **weights) {
    const struct recurrent_spec *r = &l->spec->layers[layer].recurrent;
    struct recurrent_weights *w = *weights = loader_new(l, sizeof *w);
    const struct shard_range own = recurrent_own(l, layer).heads;
    uint32_t half = r->state_size / 2;
    const struct shard_range states = {own.first * r->state_size, own.count * r->state_size};
    const struct recurrent_pieces turn[] = {
        {{ROLE_BLEND, ROLE_BLEND_BIAS, r->heads}, NULL, 1, {own}},
        {{ROLE_TURN, ROLE_TURN_BIAS, r->heads * half},
         NULL,
         1,
         {{own.first * half, own.count * half}}}};
    CHECK(l->spec->layers[layer].recurrent.kind == MIXER_MAMBA3);
    int rc = ssm_heads_load(l, layer, w);
    if (!rc)
        rc = recurrent_rows(l, &w->turn, layer, turn, r->mamba3.turns ? 2 : 1, l->spec->hidden,
                            true);
    if (!rc)
        rc = loader_vector(l, &w->b_norm, ROLE_B_NORM, layer, r->state_size);
    if (!rc)
        rc = recurrent_vector(l, &w->b_bias, layer, ROLE_B_BIAS, states, r->heads * r->state_size);
    if (!rc)
        rc = recurrent_vector(l, &w->c_bias, layer, ROLE_C_BIAS, states, r->heads * r->state_size);
    return rc ? rc : load_widening(l, w, layer, r);
}

struct mamba3_buffers {
    struct ssm_buffers ssm;
    void *turn, *wide_x, *wide_y;
};

static size_t lay_out(const struct forward *f, const struct recurrent_spec *r, char *base,
                      struct mamba3_buffers *b) {
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows, used = 0,
           wide = r->mamba3.widening ? act * rows * r->heads * wide_dim(r) : 0;
    ssm_heads_lay_out(f, r, base, &used, &b->ssm);
    b->turn = forward_take(base, &used, act * rows * turn_width(r));
    b->wide_x = forward_take(base, &used, wide);
    b->wide_y = forward_take(base, &used, wide);
    return used;
}

static size_t mamba3_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct mamba3_buffers b;
    return lay_out(f, &layer->recurrent, base, &b);
}

static size_t mamba3_state(const struct model_spec *spec, const struct layer_spec *layer) {
    const struct recurrent_spec *r = &layer->recurrent;
    size_t used = 0;
    ssm_heads_state(r, &used);
    recurrent_state(&used, r->heads * trapezoid_head_floats(wide_dim(r), r->state_size));
    return used;
}

static void norm_groups(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                        const struct recurrent_weights *w, const struct ssm_buffers *b) {
    void *groups = recurrent_columns(f, b->xbc, r->width);
    f->dev->ops->state->group_norm(s,
                                   &(struct op_group_norm){.out = groups,
                                                           .x = groups,
                                                           .weight = w->b_norm,
                                                           .rows = f->batch.row_count,
                                                           .width = 2 * r->groups * r->state_size,
                                                           .group = r->state_size,
                                                           .in_stride = ssm_conv_width(r),
                                                           .out_stride = ssm_conv_width(r),
                                                           .eps = r->eps,
                                                           .weight_shared = true});
}

/* The same product for every head. */
static void each_head(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                      void *out, uint32_t cols, const void *x, uint32_t inputs, uint32_t stride,
                      const struct block_weights *w) {
    f->dev->ops->state->block_linear(s, &(struct op_block_linear){.out = out,
                                                                  .x = x,
                                                                  .weight = w->weight,
                                                                  .bias = w->bias,
                                                                  .rows = f->batch.row_count,
                                                                  .blocks = r->heads,
                                                                  .inputs = inputs,
                                                                  .cols = cols,
                                                                  .in_stride = stride,
                                                                  .x_block = inputs,
                                                                  .one_weight = true});
}

static void scan(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                 const struct recurrent_weights *w, const struct mamba3_buffers *b,
                 struct state_view state) {
    const struct ssm_buffers *ssm = &b->ssm;
    uint32_t dim = wide_dim(r), stride = ssm_conv_width(r);
    f->dev->ops->state->trapezoid(
        s, &(struct op_trapezoid){
               .out = r->mamba3.widening ? b->wide_y : ssm->y,
               .x = r->mamba3.widening ? b->wide_x : ssm->xbc,
               .b = recurrent_columns(f, ssm->xbc, r->width),
               .c = recurrent_columns(f, ssm->xbc, r->width + r->groups * r->state_size),
               .mix = b->turn,
               .theta = r->mamba3.turns ? recurrent_columns(f, b->turn, r->heads) : NULL,
               .dt = ssm->dt,
               .a = w->decay,
               .d = w->skip,
               .b_bias = w->b_bias,
               .c_bias = w->c_bias,
               .heads = r->heads,
               .dim = dim,
               .groups = r->groups,
               .state_size = r->state_size,
               .x_stride = r->mamba3.widening ? r->heads * dim : stride,
               .bc_stride = stride,
               .turn_stride = turn_width(r),
               .state = state,
               .batch = &f->batch});
}

static void mamba3_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct recurrent_spec *r = &f->model->spec.layers[layer].recurrent;
    const struct recurrent_weights *w = f->model->weights.layers[layer].mixer;
    size_t at = f->slots->kv.geometry.mixer_states[layer], used = 0,
           conv = ssm_heads_state(r, &used);
    uint32_t dim = wide_dim(r);
    struct mamba3_buffers b;
    lay_out(f, r, f->scratch, &b);
    forward_product(f, s, b.ssm.in, f->in, &w->in);
    forward_product(f, s, b.turn, f->in, &w->turn);
    ssm_heads_split(f, s, r, w, &b.ssm, forward_state(f, at, conv));
    norm_groups(f, s, r, w, &b.ssm);
    if (r->mamba3.widening)
        each_head(f, s, r, b.wide_x, dim, b.ssm.xbc, r->head_dim, ssm_conv_width(r), &w->mimo_up);
    scan(f, s, r, w, &b, forward_state(f, at, used));
    if (r->mamba3.widening)
        each_head(f, s, r, b.ssm.y, r->head_dim, b.wide_y, dim, r->heads * dim, &w->mimo_down);
    ssm_heads_finish(f, s, r, w, &b.ssm);
}

const struct layer_kind mixer_mamba3 = {.name = "mamba3",
                                        .read = mamba3_read,
                                        .load = mamba3_load,
                                        .buffers = mamba3_buffers,
                                        .step = mamba3_step,
                                        .state_bytes = mamba3_state};
