/*
 * mixer_rwkv7.c - RWKV-7's time mixing (Goose; Peng et al. 2025): a state that forgets along a
 * direction of its own.
 *
 *   r, w, k, v, a, g = h shifted, each by a mix of its own;  r, k, v: products
 *   decay = W2 tanh(W1 w) + w_0, rate = A2 A1 a + a_0, gate = G2 sigmoid(G1 g): products of low
 *   rank v += (v of the first layer - v) * sigmoid(V2 V1 v' + v_0), v' being what v is a product
 *   of; not in the first layer out(wkv(r, decay, k, v, rate) * gate), kernels/ops_state.h has the
 *   formula of wkv
 */
#include "model/run/rwkv.h"

enum { MIXES = 6 };

struct low_rank {
    struct matrix down, up; /* [rank, hidden], [cols, rank] */
};

struct rwkv7_weights {
    struct rwkv_weights common;
    struct low_rank decay, rate, value, gate;
    const float *rate_bias, *value_bias, *key_scale, *key_mix;
    const float *norm_weight, *norm_bias;
};

static int load_low_rank(struct loader *l, uint32_t layer, struct low_rank *out,
                         enum weight_role down, uint32_t rank) {
    uint32_t hidden = l->spec->hidden, width = l->spec->layers[layer].recurrent.width;
    const struct product_segment low = {.role = down, .rows = rank},
                                 high = {.role = down + 1, .rows = width};
    int rc = loader_matrix(l, &out->down, &low, 1, hidden, false, layer);
    return rc ? rc
              : recurrent_product(l, &out->up, layer, &high, recurrent_own(l, layer).channels, rank,
                                  false);
}

static int load_vectors(struct loader *l, uint32_t layer, struct rwkv7_weights *w) {
    const struct recurrent_spec *r = &l->spec->layers[layer].recurrent;
    const struct rwkv_columns own = {r->width, recurrent_own(l, layer).channels};
    const struct {
        const float **out;
        enum weight_role role;
    } VECTORS[] = {{&w->common.decay, ROLE_DECAY},       {&w->rate_bias, ROLE_RATE_BIAS},
                   {&w->key_scale, ROLE_KEY_SCALE},      {&w->key_mix, ROLE_KEY_MIX},
                   {&w->norm_weight, ROLE_INNER_NORM},   {&w->norm_bias, ROLE_INNER_NORM_BIAS},
                   {&w->value_bias, ROLE_VALUE_MIX_BIAS}}; /* the last: not in the first layer */
    int rc = rwkv_vector(l, &w->common.first, ROLE_SKIP, layer,
                         (uint32_t[]){r->heads, r->head_dim, 0}, own);
    for (size_t i = 0; !rc && i < ARRAY_LEN(VECTORS) - r->rwkv7.first; i++)
        rc = rwkv_vector(l, VECTORS[i].out, VECTORS[i].role, layer, (uint32_t[]){r->width, 0}, own);
    return rc;
}

static int rwkv7_load(struct loader *l, uint32_t layer, void **weights) {
    static const enum weight_role ROLES[MIXES] = {ROLE_SHIFT_R, ROLE_SHIFT_W, ROLE_SHIFT_K,
                                                  ROLE_SHIFT_V, ROLE_SHIFT_A, ROLE_SHIFT_G};
    const struct recurrent_spec *r = &l->spec->layers[layer].recurrent;
    struct rwkv7_weights *w = *weights = loader_new(l, sizeof *w);
    CHECK(l->spec->layers[layer].recurrent.kind == MIXER_RWKV7);
    int rc = rwkv_load_mixes(l, &w->common.mix, layer, ROLES, MIXES);
    if (!rc)
        rc = load_vectors(l, layer, w);
    if (!rc)
        rc = rwkv_load_products(l, &w->common, layer, r->width);
    if (!rc)
        rc = load_low_rank(l, layer, &w->decay, ROLE_DECAY_DOWN, r->rwkv7.decay_low);
    if (!rc)
        rc = load_low_rank(l, layer, &w->rate, ROLE_RATE_DOWN, r->rwkv7.rate_low);
    if (!rc && !r->rwkv7.first)
        rc = load_low_rank(l, layer, &w->value, ROLE_VALUE_MIX_DOWN, r->rwkv7.value_low);
    return rc ? rc : load_low_rank(l, layer, &w->gate, ROLE_GATE_DOWN, r->rwkv7.gate_low);
}

struct rwkv7_buffers {
    void *shifted, *low, *r, *w, *k, *v, *a, *g, *y;
};

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                      struct rwkv7_buffers *b) {
    const struct recurrent_spec *r = &layer->recurrent;
    uint32_t widest =
        MAX(MAX(r->rwkv7.decay_low, r->rwkv7.rate_low), MAX(r->rwkv7.value_low, r->rwkv7.gate_low));
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows, used = 0;
    void **const ROWS[] = {&b->r, &b->w, &b->k, &b->v, &b->a, &b->g, &b->y};
    b->shifted = forward_take(base, &used, act * rows * MIXES * f->model->spec.hidden);
    b->low = forward_take(base, &used, act * rows * widest);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        *ROWS[i] = forward_take(base, &used, act * rows * r->width);
    return used;
}

static size_t rwkv7_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct rwkv7_buffers b;
    return lay_out(f, layer, base, &b);
}

/* out = up(kind(down(x))). */
static void apply_low_rank(struct forward *f, struct stream *s, const struct rwkv7_buffers *b,
                           void *out, const void *x, const struct low_rank *w,
                           enum gate_kind kind) {
    forward_product(f, s, b->low, x, &w->down);
    if (kind != GATE_IDENTITY)
        rwkv_apply(f, s, b->low, w->down.rows, kind);
    forward_product(f, s, out, b->low, &w->up);
}

/* The first layer's values are kept for the others of the step. */
static void mix_values(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                       const struct rwkv7_weights *w, const struct rwkv7_buffers *b) {
    if (r->rwkv7.first) {
        recurrent_copy(f, s, f->first_values, b->v, r->width, r->width, r->width);
        return;
    }
    apply_low_rank(f, s, b, b->y, rwkv_plane(f, b->shifted, 3), &w->value, GATE_IDENTITY);
    f->dev->ops->state->lerp(s, &(struct op_lerp){.x = b->v,
                                                  .y = f->first_values,
                                                  .gate = b->y,
                                                  .bias = w->value_bias,
                                                  .rows = f->batch.row_count,
                                                  .width = r->width});
}

static void rwkv7_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct recurrent_spec *r = &spec->recurrent;
    const struct rwkv7_weights *w = f->model->weights.layers[layer].mixer;
    size_t at = f->slots->kv.geometry.mixer_states[layer], used = 0;
    size_t last = recurrent_state(&used, f->model->spec.hidden);
    struct rwkv7_buffers b;
    lay_out(f, spec, f->scratch, &b);
    rwkv_shift(f, s,
               &(struct op_shift){.out = b.shifted,
                                  .mix = w->common.mix,
                                  .mixes = MIXES,
                                  .state = forward_state(f, at, last)});
    forward_product(f, s, b.r, rwkv_plane(f, b.shifted, 0), &w->common.r);
    apply_low_rank(f, s, &b, b.w, rwkv_plane(f, b.shifted, 1), &w->decay, GATE_TANH);
    forward_product(f, s, b.k, rwkv_plane(f, b.shifted, 2), &w->common.k);
    forward_product(f, s, b.v, rwkv_plane(f, b.shifted, 3), &w->common.v);
    mix_values(f, s, r, w, &b);
    apply_low_rank(f, s, &b, b.a, rwkv_plane(f, b.shifted, 4), &w->rate, GATE_IDENTITY);
    apply_low_rank(f, s, &b, b.g, rwkv_plane(f, b.shifted, 5), &w->gate, GATE_SIGMOID);
    f->dev->ops->state->wkv(s, &(struct op_wkv){.out = b.y,
                                                .r = b.r,
                                                .k = b.k,
                                                .v = b.v,
                                                .w = b.w,
                                                .s = b.a,
                                                .gate = b.g,
                                                .w_bias = w->common.decay,
                                                .u = w->common.first,
                                                .s_bias = w->rate_bias,
                                                .key_scale = w->key_scale,
                                                .key_mix = w->key_mix,
                                                .norm_weight = w->norm_weight,
                                                .norm_bias = w->norm_bias,
                                                .heads = r->heads,
                                                .dim = r->head_dim,
                                                .eps = r->eps,
                                                .seven = true,
                                                .state = forward_state(f, at, used),
                                                .batch = &f->batch});
    forward_product(f, s, f->out, b.y, &w->common.out);
}

const struct layer_kind mixer_rwkv7 = {.name = "RWKV-7",
                                       .read = rwkv7_read,
                                       .load = rwkv7_load,
                                       .buffers = rwkv7_buffers,
                                       .step = rwkv7_step,
                                       .uses_first = true,
                                       .state_bytes = rwkv_state};
