/*
 * rwkv.c - what the generations of RWKV share, and their channel mixing:
 *
 *   k, r = shifted h; V(relu(K k)^2), times sigmoid(R r) where there is an R (RWKV-4, 6; Peng et
 *   al. 2023, 2024, 2025)
 */
#include "model/run/rwkv.h"

#include "model/run/ffn_dense.h"

int rwkv_load_mixes(struct loader *l, const float **out, uint32_t layer,
                    const enum weight_role *roles, uint32_t count) {
    uint32_t hidden = l->spec->hidden;
    bool present = l->spec->layers[layer].recurrent.rwkv.mix_present;
    float *all = mem_calloc((size_t)count * hidden, sizeof *all);
    for (uint32_t m = 0; m < count; m++) {
        float *x = loader_values(l, roles[m], layer, (uint32_t[]){hidden, 0});
        if (!x) {
            mem_free(all);
            return l->err->code;
        }
        for (uint32_t i = 0; i < hidden; i++)
            all[(size_t)m * hidden + i] = present ? 1 - x[i] : x[i];
        mem_free(x);
    }
    return loader_put(l, out, all, (size_t)count * hidden);
}

int rwkv_load_products(struct loader *l, struct rwkv_weights *w, uint32_t layer, uint32_t width) {
    uint32_t hidden = l->spec->hidden;
    struct shard_range own = recurrent_own(l, layer).channels;
    const struct product_segment k = {.role = ROLE_K, .rows = width},
                                 v = {.role = ROLE_V, .rows = width},
                                 r = {.role = ROLE_R, .rows = width},
                                 out = {.role = ROLE_MIX_OUT, .rows = hidden};
    int rc = recurrent_product(l, &w->k, layer, &k, own, hidden, false);
    if (!rc)
        rc = recurrent_product(l, &w->v, layer, &v, own, hidden, false);
    if (!rc)
        rc = recurrent_product(l, &w->r, layer, &r, own, hidden, false);
    return rc ? rc : recurrent_columns_of(l, &w->out, layer, &out, own, width, false);
}

int rwkv_vector(struct loader *l, const float **out, enum weight_role role, uint32_t layer,
                const uint32_t *dims, struct rwkv_columns own) {
    uint32_t count = 1;
    float *host = loader_values(l, role, layer, dims);
    for (; *dims; dims++)
        count *= *dims;
    if (host && own.of)
        for (uint32_t r = 0; r < count / own.of; r++)
            memmove(host + (size_t)r * own.range.count, host + (size_t)r * own.of + own.range.first,
                    own.range.count * sizeof *host);
    return loader_put(l, out, host, own.of ? count / own.of * own.range.count : count);
}

void rwkv_shift(struct forward *f, struct stream *s, const struct op_shift *what) {
    struct op_shift a = *what;
    a.x = f->in;
    a.width = f->model->spec.hidden;
    a.batch = &f->batch;
    f->dev->ops->state->shift(s, &a);
}

void rwkv_apply(struct forward *f, struct stream *s, void *x, uint32_t width, enum gate_kind kind) {
    f->dev->ops->state->gate(s, &(struct op_gate){.out = x,
                                                  .gate = x,
                                                  .rows = f->batch.row_count,
                                                  .width = width,
                                                  .gate_stride = width,
                                                  .out_stride = width,
                                                  .kind = kind});
}

size_t rwkv_state(const struct model_spec *spec, const struct layer_spec *layer) {
    const struct recurrent_spec *r = &layer->recurrent;
    size_t used = 0;
    recurrent_state(&used, spec->hidden);
    recurrent_state(&used, (size_t)r->width * r->head_dim);
    return used;
}

/* ---- channel mixing ---- */

/* Where ranks divide the width, each gates its part of the sum: all have the whole of R. */
static int channel_load(struct loader *l, uint32_t layer, void **weights) {
    static const enum weight_role MIXES[] = {ROLE_FFN_SHIFT_K, ROLE_FFN_SHIFT_R};
    struct rwkv_weights *w = *weights = loader_new(l, sizeof *w);
    uint32_t hidden = l->spec->hidden, width = l->spec->layers[layer].ffn.width;
    bool gate = l->spec->layers[layer].recurrent.rwkv.receptance;
    int rc = rwkv_load_mixes(l, &w->mix, layer, MIXES, gate ? 2 : 1);
    const struct product_segment k = {.role = ROLE_UP, .rows = width},
                                 r = {.role = ROLE_FFN_R, .rows = hidden},
                                 v = {.role = ROLE_DOWN, .rows = hidden};
    const struct cut cut = {.rows = ffn_own(l, layer)};
    if (!rc)
        rc = loader_cut(l, &w->k, &k, &cut, 1, hidden, false, layer, NULL);
    if (!rc && gate)
        rc = loader_matrix(l, &w->r, &r, 1, hidden, false, layer);
    return rc ? rc : loader_partial(l, &w->v, &v, cut.rows, width, false, layer);
}

struct channel_buffers {
    void *shifted, *k, *r, *v;
};

static size_t channel_lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                              struct channel_buffers *b) {
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows,
           hidden = f->model->spec.hidden, used = 0;
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
    bool gate = spec->recurrent.rwkv.receptance;
    struct channel_buffers b;
    channel_lay_out(f, spec, f->scratch, &b);
    rwkv_shift(
        f, s,
        &(struct op_shift){.out = b.shifted,
                           .mix = w->mix,
                           .mixes = gate ? 2 : 1,
                           .state = forward_state(f, f->slots->kv.geometry.ffn_states[layer], 0)});
    forward_product(f, s, b.k, rwkv_plane(f, b.shifted, 0), &w->k);
    rwkv_apply(f, s, b.k, width, GATE_RELU2);
    forward_product(f, s, gate ? b.v : f->out, b.k, &w->v);
    if (!gate)
        return;
    forward_product(f, s, b.r, rwkv_plane(f, b.shifted, 1), &w->r);
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
