/*
 * mixer_rwkv4.c - RWKV-4 (Peng et al. 2023): time mixing and channel mixing. Both see the position before through token
 * shifts; the files keep how much of the *present* position each product takes, the operation how much of the one
 * before.
 *
 *   time:    k, v, r = products of shifted h;  out(sigmoid(r) * wkv(k, v))
 *   channel: k, r = shifted h;  sigmoid(R r) * V(relu(K k)^2)
 */
#include "model/recurrent.h"

struct rwkv_weights {
    const float *mix; /* [mixes, hidden] */
    const float *decay, *first;
    struct matrix k, v, r, out;
};

/* 1 - x of `count` tensors [1, 1, hidden], behind each other. */
static int load_mixes(struct loader *l, const float **out, uint32_t layer, const enum weight_role *roles,
                      uint32_t count) {
    uint32_t hidden = l->spec->hidden;
    float *all = mem_calloc((size_t)count * hidden, sizeof *all);
    for (uint32_t m = 0; m < count; m++) {
        float *x = loader_values(l, roles[m], layer, (uint32_t[]){1, 1, hidden, 0});
        if (!x) {
            mem_free(all);
            return l->err->code;
        }
        for (uint32_t i = 0; i < hidden; i++) all[(size_t)m * hidden + i] = 1 - x[i];
        mem_free(x);
    }
    return loader_put(l, out, all, (size_t)count * hidden);
}

static void shift(struct forward *f, struct stream *s, const struct rwkv_weights *w, void *out, uint32_t mixes,
                  struct state_view state) {
    f->dev->ops->state->shift(s, &(struct op_shift){.out = out,
                                                    .x = f->in,
                                                    .mix = w->mix,
                                                    .width = f->model->spec.hidden,
                                                    .mixes = mixes,
                                                    .state = state,
                                                    .batch = &f->batch});
}
/* Plane m of what shift made. */
static void *plane(const struct forward *f, void *shifted, uint32_t m) {
    return recurrent_columns(f, shifted, (size_t)m * f->batch.row_count * f->model->spec.hidden);
}

/* ---- time mixing ---- */

static int rwkv4_load(struct loader *l, uint32_t layer, void **weights) {
    static const enum weight_role MIXES[] = {ROLE_SHIFT_K, ROLE_SHIFT_V, ROLE_SHIFT_R};
    struct rwkv_weights *w = *weights = loader_new(l, sizeof *w);
    uint32_t hidden = l->spec->hidden, width = l->spec->layers[layer].recurrent.width;
    int rc = load_mixes(l, &w->mix, layer, MIXES, 3);
    if (!rc) rc = recurrent_load_decay(l, &w->decay, layer, (uint32_t[]){width, 0});
    if (!rc) rc = loader_vector(l, &w->first, ROLE_SKIP, layer, width);
    if (!rc) rc = recurrent_product(l, &w->k, layer, ROLE_K, 0, width, hidden, false);
    if (!rc) rc = recurrent_product(l, &w->v, layer, ROLE_V, 0, width, hidden, false);
    if (!rc) rc = recurrent_product(l, &w->r, layer, ROLE_R, 0, width, hidden, false);
    return rc ? rc : recurrent_product(l, &w->out, layer, ROLE_MIX_OUT, 0, hidden, width, false);
}

struct rwkv4_buffers {
    void *shifted, *k, *v, *r, *y;
};

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base, struct rwkv4_buffers *b) {
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
    shift(f, s, w, b.shifted, 3, forward_state(f, at, last));
    forward_product(f, s, b.k, plane(f, b.shifted, 0), &w->k);
    forward_product(f, s, b.v, plane(f, b.shifted, 1), &w->v);
    forward_product(f, s, b.r, plane(f, b.shifted, 2), &w->r);
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

/* ---- channel mixing ---- */

static int channel_load(struct loader *l, uint32_t layer, void **weights) {
    static const enum weight_role MIXES[] = {ROLE_FFN_SHIFT_K, ROLE_FFN_SHIFT_R};
    struct rwkv_weights *w = *weights = loader_new(l, sizeof *w);
    uint32_t hidden = l->spec->hidden, width = l->spec->layers[layer].ffn.width;
    int rc = load_mixes(l, &w->mix, layer, MIXES, 2);
    if (!rc) rc = recurrent_product(l, &w->k, layer, ROLE_UP, 0, width, hidden, false);
    if (!rc) rc = recurrent_product(l, &w->r, layer, ROLE_FFN_R, 0, hidden, hidden, false);
    return rc ? rc : recurrent_product(l, &w->v, layer, ROLE_DOWN, 0, hidden, width, false);
}

struct channel_buffers {
    void *shifted, *k, *r, *v;
};

static size_t channel_lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                              struct channel_buffers *b) {
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows, hidden = f->model->spec.hidden,
           used = 0;
    b->shifted = forward_take(base, &used, act * rows * 2 * hidden);
    b->k = forward_take(base, &used, act * rows * layer->ffn.width);
    b->r = forward_take(base, &used, act * rows * hidden);
    b->v = forward_take(base, &used, act * rows * hidden);
    return used;
}

static size_t channel_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct channel_buffers b;
    return channel_lay_out(f, layer, base, &b);
}

static size_t channel_state(const struct model_spec *spec, const struct layer_spec *layer) {
    return spec->hidden * sizeof(float);
}

static void channel_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct rwkv_weights *w = f->model->weights.layers[layer].ffn;
    uint32_t hidden = f->model->spec.hidden, width = spec->ffn.width;
    struct channel_buffers b;
    channel_lay_out(f, spec, f->scratch, &b);
    shift(f, s, w, b.shifted, 2, forward_state(f, f->slots->kv.geometry.ffn_states[layer], 0));
    forward_product(f, s, b.k, plane(f, b.shifted, 0), &w->k);
    f->dev->ops->state->gate(s, &(struct op_gate){.out = b.k,
                                                  .gate = b.k,
                                                  .rows = f->batch.row_count,
                                                  .width = width,
                                                  .gate_stride = width,
                                                  .out_stride = width,
                                                  .kind = GATE_RELU2});
    forward_product(f, s, b.v, b.k, &w->v);
    forward_product(f, s, b.r, plane(f, b.shifted, 1), &w->r);
    f->dev->ops->state->gate(s, &(struct op_gate){.out = f->out,
                                                  .x = b.v,
                                                  .gate = b.r,
                                                  .rows = f->batch.row_count,
                                                  .width = hidden,
                                                  .x_stride = hidden,
                                                  .gate_stride = hidden,
                                                  .out_stride = hidden,
                                                  .kind = GATE_SIGMOID});
}

const struct layer_kind ffn_rwkv = {.name = "RWKV channel mixing",
                                    .read = rwkv_ffn_read,
                                    .load = channel_load,
                                    .buffers = channel_buffers,
                                    .step = channel_step,
                                    .state_bytes = channel_state};
