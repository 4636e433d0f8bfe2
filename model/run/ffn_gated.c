/* ffn_gated.c - down(f(gate(x)) * up(x)): Shazeer 2020 (GLU variants). */
#include "model/run/ffn_dense.h"

#include "model/run/layer_kinds.h"

static int load_gate_scale(struct loader *l, const struct ffn_spec *ffn, struct shard_range own,
                           struct column_scale *out) {
    uint32_t width = own.count ? own.count : ffn->width;
    float *by = mem_calloc(width, sizeof *by);
    for (uint32_t i = 0; i < width; i++)
        by[i] = ffn->gate_scale;
    return column_scale_load(l, out, by, width);
}

static int gated_load(struct loader *l, uint32_t layer, void **weights) {
    const struct ffn_spec *ffn = &l->spec->layers[layer].ffn;
    struct ffn_weights *w = *weights = loader_new(l, sizeof *w);
    uint32_t hidden = l->spec->hidden, width = ffn->width;
    struct shard_range own = ffn_own(l, layer);
    const struct product_segment apart[] = {{ROLE_GATE, ROLE_GATE_BIAS, width},
                                            {ROLE_UP, ROLE_UP_BIAS, width}};
    const struct cut cuts[] = {{.rows = own}, {.rows = own}};
    bool one = l->spec->names->patterns[ROLE_GATE_UP] != NULL;
    int rc = one ? ffn_load_fused(l, layer, &w->up)
                 : loader_cut(l, &w->up, apart, own.count ? cuts : NULL, 2, hidden, ffn->bias,
                              layer, NULL);
    if (!rc && ffn->gate_scale != 0)
        rc = load_gate_scale(l, ffn, own, &w->gate_scale);
    return rc ? rc : ffn_load_down(l, layer, &w->down);
}

struct gated_buffers {
    void *gate_up, *gated;
};

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                      struct gated_buffers *b) {
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows, used = 0;
    b->gate_up = forward_take(base, &used, act * rows * layer->ffn.width * 2);
    b->gated = forward_take(base, &used, act * rows * layer->ffn.width);
    return used;
}

static size_t gated_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct gated_buffers b;
    return lay_out(f, layer, base, &b);
}

static void gated_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct ffn_weights *w = f->model->weights.layers[layer].ffn;
    struct gated_buffers b;
    lay_out(f, spec, f->scratch, &b);
    forward_product(f, s, b.gate_up, f->in, &w->up);
    column_scale_apply(f, s, &w->gate_scale, b.gate_up, 2 * spec->ffn.width);
    f->dev->ops->act_mul(s, &(struct op_act_mul){.out = b.gated,
                                                 .gate_up = b.gate_up,
                                                 .rows = f->batch.row_count,
                                                 .width = spec->ffn.width,
                                                 .activation = spec->ffn.activation});
    forward_product(f, s, f->out, b.gated, &w->down);
}

const struct layer_kind ffn_gated = {.name = "gated",
                                     .read = ffn_dense_read,
                                     .load = gated_load,
                                     .buffers = gated_buffers,
                                     .step = gated_step};
