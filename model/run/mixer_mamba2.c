/*
 * mixer_mamba2.c - Mamba 2 (Dao and Gu 2024): one decay a head, B and C shared by groups of heads.
 *
 *   z, x, B, C, d = in(h);  x, B, C = silu(conv(x, B, C));  dt = clamp(softplus(d + step_bias))
 *   y = ssm(x, dt, B, C);  out(norm(y, z)), the norm with the gate before, after, or the gate alone
 */
#include "model/run/ssm_heads.h"

/* A factor for each of z, x, B, C and the step, of which this rank has `own`. */
static int load_scales(struct loader *l, const struct recurrent_spec *r,
                       const struct shard_state *own, struct column_scale *out) {
    uint32_t x = own->channels.count, bc = own->groups.count * r->state_size,
             widths[] = {x, x, bc, bc, own->heads.count}, at = 0;
    if (!r->mamba2.scaled)
        return 0;
    float *by = mem_calloc(ssm_in_rows(r), sizeof *by);
    for (size_t section = 0; section < ARRAY_LEN(widths); section++)
        for (uint32_t i = 0; i < widths[section]; i++)
            by[at++] = r->mamba2.scales[section];
    return column_scale_load(l, out, by, at);
}

static int mamba2_load(struct loader *l, uint32_t layer, void **weights) {
    const struct shard_state own = recurrent_own(l, layer);
    struct recurrent_weights *w = *weights = loader_new(l, sizeof *w);
    CHECK(l->spec->layers[layer].recurrent.kind == MIXER_MAMBA2);
    int rc = ssm_heads_load(l, layer, w);
    return rc ? rc : load_scales(l, &l->spec->layers[layer].recurrent, &own, &w->in_scale);
}

static size_t mamba2_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct ssm_buffers b;
    size_t used = 0;
    ssm_heads_lay_out(f, &layer->recurrent, base, &used, &b);
    return used;
}

static size_t mamba2_state(const struct model_spec *spec, const struct layer_spec *layer) {
    const struct recurrent_spec *r = &layer->recurrent;
    size_t used = 0;
    ssm_heads_state(r, &used);
    recurrent_state(&used, ssm_state_floats(r->heads, r->head_dim, r->state_size));
    return used;
}

/* The gate is applied here where there is no norm. */
static void scan(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                 const struct recurrent_weights *w, const struct ssm_buffers *b,
                 struct state_view state) {
    uint32_t width = ssm_conv_width(r), group_width = r->groups * r->state_size;
    f->dev->ops->state->ssm(
        s, &(struct op_ssm){.out = b->y,
                            .x = b->xbc,
                            .b = recurrent_columns(f, b->xbc, r->width),
                            .c = recurrent_columns(f, b->xbc, r->width + group_width),
                            .z = r->ssm.inner_norm ? NULL : b->in,
                            .dt = b->dt,
                            .a = w->decay,
                            .d = w->skip,
                            .heads = r->heads,
                            .head_dim = r->head_dim,
                            .groups = r->groups,
                            .state_size = r->state_size,
                            .x_stride = width,
                            .bc_stride = width,
                            .z_stride = ssm_in_rows(r),
                            .out_stride = r->width,
                            .state = state,
                            .batch = &f->batch});
}

static void mamba2_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct recurrent_spec *r = &spec->recurrent;
    const struct layer_weights *all = &f->model->weights.layers[layer];
    const struct recurrent_weights *w = spec->beside ? all->beside : all->mixer;
    size_t at = f->slots->kv.geometry.mixer_states[layer], used = 0, area = 0,
           conv = ssm_heads_state(r, &used);
    struct ssm_buffers b;
    ssm_heads_lay_out(f, r, f->scratch, &area, &b);
    forward_product(f, s, b.in, f->in, &w->in);
    column_scale_apply(f, s, &w->in_scale, b.in, ssm_in_rows(r));
    ssm_heads_split(f, s, r, w, &b, forward_state(f, at, conv));
    scan(f, s, r, w, &b, forward_state(f, at, used));
    ssm_heads_finish(f, s, r, w, &b);
}

const struct layer_kind mixer_mamba2 = {.name = "mamba2",
                                        .read = mamba2_read,
                                        .load = mamba2_load,
                                        .buffers = mamba2_buffers,
                                        .step = mamba2_step,
                                        .state_bytes = mamba2_state};
