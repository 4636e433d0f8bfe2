/*
 * mixer_rwkv4.c - RWKV-4's time mixing (Peng et al. 2023): k, v, r = products of shifted h;
 * out(sigmoid(r) * wkv(k, v)).
 */
#include "model/run/rwkv.h"

static int rwkv4_load(struct loader *l, uint32_t layer, void **weights) {
    static const enum weight_role MIXES[] = {ROLE_SHIFT_K, ROLE_SHIFT_V, ROLE_SHIFT_R};
    struct rwkv_weights *w = *weights = loader_new(l, sizeof *w);
    uint32_t width = l->spec->layers[layer].recurrent.width;
    struct shard_range own = recurrent_own(l, layer).channels;
    CHECK(l->spec->layers[layer].recurrent.kind == MIXER_RWKV4);
    int rc = rwkv_load_mixes(l, &w->mix, layer, MIXES, 3);
    if (!rc)
        rc = recurrent_load_decay(l, &w->decay, layer, own, width);
    if (!rc)
        rc = recurrent_vector(l, &w->first, layer, ROLE_SKIP, own, width);
    return rc ? rc : rwkv_load_products(l, w, layer, width);
}

struct rwkv4_buffers {
    void *shifted, *k, *v, *r, *y;
};

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                      struct rwkv4_buffers *b) {
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows, used = 0,
           row = act * rows * layer->recurrent.width;
    b->shifted = forward_take(base, &used, act * rows * 3 * f->model->spec.hidden);
    b->k = forward_take(base, &used, row);
    b->v = forward_take(base, &used, row);
    b->r = forward_take(base, &used, row);
    b->y = forward_take(base, &used, row);
    return used;
}

static size_t rwkv4_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct rwkv4_buffers b;
    return lay_out(f, layer, base, &b);
}

static size_t rwkv4_state(const struct model_spec *spec, const struct layer_spec *layer) {
    size_t used = 0;
    recurrent_state(&used, spec->hidden);
    recurrent_state(&used, 3 * (size_t)layer->recurrent.width);
    return used;
}

static void rwkv4_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct rwkv_weights *w = f->model->weights.layers[layer].mixer;
    size_t at = f->slots->kv.geometry.mixer_states[layer], used = 0;
    size_t last = recurrent_state(&used, f->model->spec.hidden);
    struct rwkv4_buffers b;
    lay_out(f, spec, f->scratch, &b);
    rwkv_shift(
        f, s,
        &(struct op_shift){
            .out = b.shifted, .mix = w->mix, .mixes = 3, .state = forward_state(f, at, last)});
    forward_product(f, s, b.k, rwkv_plane(f, b.shifted, 0), &w->k);
    forward_product(f, s, b.v, rwkv_plane(f, b.shifted, 1), &w->v);
    forward_product(f, s, b.r, rwkv_plane(f, b.shifted, 2), &w->r);
    f->dev->ops->state->wkv4(s, &(struct op_wkv4){.out = b.y,
                                                  .r = b.r,
                                                  .k = b.k,
                                                  .v = b.v,
                                                  .decay = w->decay,
                                                  .first = w->first,
                                                  .width = spec->recurrent.width,
                                                  .state = forward_state(f, at, used),
                                                  .batch = &f->batch});
    forward_product(f, s, f->out, b.y, &w->out);
}

const struct layer_kind mixer_rwkv4 = {.name = "RWKV-4",
                                       .read = rwkv4_read,
                                       .load = rwkv4_load,
                                       .buffers = rwkv4_buffers,
                                       .step = rwkv4_step,
                                       .state_bytes = rwkv4_state};
