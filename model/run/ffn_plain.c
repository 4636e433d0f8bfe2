/* ffn_plain.c - down(f(up(x))): Vaswani et al. 2017. */
#include "model/run/ffn_dense.h"

#include "model/run/layer_kinds.h"

static int plain_load(struct loader *l, uint32_t layer, void **weights) {
    const struct ffn_spec *ffn = &l->spec->layers[layer].ffn;
    struct ffn_weights *w = *weights = loader_new(l, sizeof *w);
    const struct product_segment up = {ROLE_UP, ROLE_UP_BIAS, ffn->width};
    const struct cut cut = {.rows = ffn_own(l, layer)};
    int rc = loader_cut(l, &w->up, &up, cut.rows.count ? &cut : NULL, 1, l->spec->hidden, ffn->bias,
                        layer, NULL);
    return rc ? rc : ffn_load_down(l, layer, &w->down);
}

static size_t plain_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    return storage_bytes(f->dev->activation_type, 1) * f->max_rows * layer->ffn.width;
}

static void plain_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct ffn_weights *w = f->model->weights.layers[layer].ffn;
    forward_product(f, s, f->scratch, f->in, &w->up);
    f->dev->ops->rows->activate(s, &(struct op_activate){.out = f->scratch,
                                                         .x = f->scratch,
                                                         .rows = f->batch.row_count,
                                                         .width = spec->ffn.width,
                                                         .activation = spec->ffn.activation});
    forward_product(f, s, f->out, f->scratch, &w->down);
}

const struct layer_kind ffn_plain = {.name = "plain",
                                     .read = ffn_dense_read,
                                     .load = plain_load,
                                     .buffers = plain_buffers,
                                     .step = plain_step};
