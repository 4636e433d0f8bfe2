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

/* Gate above up; the device may multiply both in one go. */
static int load_up(struct loader *l, uint32_t layer, struct shard_range own, struct matrix *up) {
    const struct ffn_spec *ffn = &l->spec->layers[layer].ffn;
    const struct ops *ops = l->w->dev->ops;
    const struct product_segment apart[] = {{ROLE_GATE, ROLE_GATE_BIAS, ffn->width},
                                            {ROLE_UP, ROLE_UP_BIAS, ffn->width}};
    const struct cut cuts[] = {{.rows = own}, {.rows = own}};
    bool one = l->spec->names->patterns[ROLE_GATE_UP] != NULL;
    int rc = one ? ffn_take_fused(l, layer, up)
                 : loader_take(l, up, apart, own.count ? cuts : NULL, 2, l->spec->hidden, ffn->bias,
                               layer, NULL);
    if (rc)
        return rc;
    up->gated = ffn->gate_scale == 0 && ops->gates && ops->gates(l->w->dev, up, ffn->activation);
    return loader_pack(l, up, PACK_HERE);
}

static int gated_load(struct loader *l, uint32_t layer, void **weights) {
    const struct ffn_spec *ffn = &l->spec->layers[layer].ffn;
    struct ffn_weights *w = *weights = loader_new(l, sizeof *w);
    struct shard_range own = ffn_own(l, layer);
    int rc = load_up(l, layer, own, &w->up);
    if (!rc && ffn->gate_scale != 0)
        rc = load_gate_scale(l, ffn, own, &w->gate_scale);
    return rc ? rc : ffn_load_down(l, layer, &w->down);
}

struct gated_buffers {
    void *gate_up, *gated;
};

/* Whether the product makes the activation too, and gate and up are never there by themselves. Without
 * weights, as when memory is planned for a model that is not loaded: no. */
static bool is_one_product(const struct forward *f, const struct layer_spec *layer) {
    const struct layer_weights *all = f->model->weights.layers;
    const struct ffn_weights *w = all ? all[layer - f->model->spec.layers].ffn : NULL;
    return w && w->up.gated;
}

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                      struct gated_buffers *b) {
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows, used = 0;
    if (!is_one_product(f, layer))
        b->gate_up = forward_take(base, &used, act * rows * layer->ffn.width * 2);
    b->gated = forward_take(base, &used, act * rows * layer->ffn.width);
    return used;
}

static size_t gated_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct gated_buffers b = {0};
    return lay_out(f, layer, base, &b);
}

static void gated_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct ffn_weights *w = f->model->weights.layers[layer].ffn;
    struct gated_buffers b = {0};
    lay_out(f, spec, f->scratch, &b);
    if (w->up.gated) {
        struct op_linear product = forward_product_of(f, b.gated, f->in, &w->up);
        product.out_stride = spec->ffn.width;
        product.gated = (int)spec->ffn.activation;
        product.norm = f->norm;
        f->dev->ops->linear(s, &product);
    } else {
        forward_product_in(f, s, b.gate_up, &w->up);
        column_scale_apply(f, s, &w->gate_scale, b.gate_up, 2 * spec->ffn.width);
        f->dev->ops->act_mul(s, &(struct op_act_mul){.out = b.gated,
                                                     .gate_up = b.gate_up,
                                                     .rows = f->batch.row_count,
                                                     .width = spec->ffn.width,
                                                     .activation = spec->ffn.activation});
    }
    forward_product_out(f, s, b.gated, &w->down);
}

static void gated_ends(const struct forward *f, uint32_t layer, const struct matrix **first,
                       const struct matrix **last) {
    const struct ffn_weights *w = f->model->weights.layers[layer].ffn;
    *first = &w->up;
    *last = &w->down;
}

const struct layer_kind ffn_gated = {.name = "gated",
                                     .read = ffn_dense_read,
                                     .load = gated_load,
                                     .buffers = gated_buffers,
                                     .step = gated_step,
                                     .ends = gated_ends};
