/*
 * mixer_rwkv6.c - RWKV-6's time mixing (Finch; Peng et al. 2024). How much of the position before
 * each product takes depends on the input, and so does the decay:
 *
 *   m = h shifted by mix_x; d = tanh(m W1) W2, for each of w, k, v, r, g; w, k, v, r, g = h shifted
 *   by mix + d decay = decay_0 + tanh(w D1) D2; out(norm(wkv(r, k, v, decay)) * silu(G g)), k, v, r
 *   products
 */
#include "model/run/rwkv.h"

enum { MIXES = 5 };

struct rwkv6_weights {
    struct rwkv_weights common;
    const float *mix_x;                   /* [1, hidden] */
    const float *mix_down, *mix_up;       /* [hidden, MIXES * rank], [MIXES, rank, hidden] */
    const float *decay_down, *decay_up;   /* [hidden, rank], [rank, width] */
    const float *norm_weight, *norm_bias; /* [width] */
    struct matrix gate;
};

static int load_vectors(struct loader *l, uint32_t layer, struct rwkv6_weights *w) {
    const struct recurrent_spec *r = &l->spec->layers[layer].recurrent;
    uint32_t hidden = l->spec->hidden;
    const struct rwkv_columns own = {r->width, recurrent_own(l, layer).channels};
    const struct {
        const float **out;
        enum weight_role role;
        uint32_t dims[4];
        struct rwkv_columns own;
    } VECTORS[] = {{&w->common.decay, ROLE_DECAY, {r->width}, own},
                   {&w->common.first, ROLE_SKIP, {r->heads, r->head_dim}, own},
                   {&w->norm_weight, ROLE_INNER_NORM, {r->width}, own},
                   {&w->norm_bias, ROLE_INNER_NORM_BIAS, {r->width}, own},
                   {&w->mix_x, ROLE_SHIFT_X, {hidden}, {0}},
                   {&w->mix_down, ROLE_SHIFT_DOWN, {hidden, MIXES * r->rwkv6.mix_rank}, {0}},
                   {&w->mix_up, ROLE_SHIFT_UP, {MIXES, r->rwkv6.mix_rank, hidden}, {0}},
                   {&w->decay_down, ROLE_DECAY_DOWN, {hidden, r->rwkv6.decay_rank}, {0}},
                   {&w->decay_up, ROLE_DECAY_UP, {r->rwkv6.decay_rank, r->width}, own}};
    int rc = 0;
    for (size_t i = 0; !rc && i < ARRAY_LEN(VECTORS); i++)
        rc =
            rwkv_vector(l, VECTORS[i].out, VECTORS[i].role, layer, VECTORS[i].dims, VECTORS[i].own);
    return rc;
}

static int rwkv6_load(struct loader *l, uint32_t layer, void **weights) {
    static const enum weight_role ROLES[MIXES] = {ROLE_SHIFT_W, ROLE_SHIFT_K, ROLE_SHIFT_V,
                                                  ROLE_SHIFT_R, ROLE_SHIFT_G};
    struct rwkv6_weights *w = *weights = loader_new(l, sizeof *w);
    uint32_t width = l->spec->layers[layer].recurrent.width;
    CHECK(l->spec->layers[layer].recurrent.kind == MIXER_RWKV6);
    int rc = rwkv_load_mixes(l, &w->common.mix, layer, ROLES, MIXES);
    if (!rc)
        rc = load_vectors(l, layer, w);
    if (!rc)
        rc = rwkv_load_products(l, &w->common, layer, width);
    const struct product_segment gate = {.role = ROLE_IN_Z, .rows = width};
    struct shard_range own = recurrent_own(l, layer).channels;
    return rc ? rc : recurrent_product(l, &w->gate, layer, &gate, own, l->spec->hidden, false);
}

struct rwkv6_buffers {
    void *shifted, *low, *dynamic, *w, *k, *v, *r, *g, *y;
};

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                      struct rwkv6_buffers *b) {
    const struct recurrent_spec *r = &layer->recurrent;
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows, used = 0,
           row = act * rows * r->width, mixed = act * rows * MIXES * f->model->spec.hidden;
    b->shifted = forward_take(base, &used, mixed);
    b->low =
        forward_take(base, &used, act * rows * MAX(MIXES * r->rwkv6.mix_rank, r->rwkv6.decay_rank));
    b->dynamic = forward_take(base, &used, mixed);
    void **const ROWS[] = {&b->w, &b->k, &b->v, &b->r, &b->g, &b->y};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        *ROWS[i] = forward_take(base, &used, row);
    return used;
}

static size_t rwkv6_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct rwkv6_buffers b;
    return lay_out(f, layer, base, &b);
}

/* out = tanh(x down) up, in `blocks` pieces of `rank` each. */
static void low_rank(struct forward *f, struct stream *s, const struct rwkv6_buffers *b, void *out,
                     const void *x, const float *down, const float *up, uint32_t blocks,
                     uint32_t rank, uint32_t cols) {
    uint32_t hidden = f->model->spec.hidden, rows = f->batch.row_count;
    f->dev->ops->state->block_linear(s, &(struct op_block_linear){.out = b->low,
                                                                  .x = x,
                                                                  .weight = down,
                                                                  .rows = rows,
                                                                  .blocks = 1,
                                                                  .inputs = hidden,
                                                                  .cols = blocks * rank,
                                                                  .in_stride = hidden});
    rwkv_apply(f, s, b->low, blocks * rank, GATE_TANH);
    f->dev->ops->state->block_linear(s, &(struct op_block_linear){.out = out,
                                                                  .x = b->low,
                                                                  .weight = up,
                                                                  .rows = rows,
                                                                  .blocks = blocks,
                                                                  .inputs = rank,
                                                                  .cols = cols,
                                                                  .in_stride = blocks * rank,
                                                                  .x_block = rank});
}

/* b->shifted: the inputs of w, k, v, r and g. */
static void shift(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                  const struct rwkv6_weights *w, const struct rwkv6_buffers *b,
                  struct state_view last) {
    rwkv_shift(f, s,
               &(struct op_shift){
                   .out = b->shifted, .mix = w->mix_x, .mixes = 1, .peek = true, .state = last});
    low_rank(f, s, b, b->dynamic, b->shifted, w->mix_down, w->mix_up, MIXES, r->rwkv6.mix_rank,
             f->model->spec.hidden);
    rwkv_shift(f, s,
               &(struct op_shift){.out = b->shifted,
                                  .dynamic = b->dynamic,
                                  .mix = w->common.mix,
                                  .mixes = MIXES,
                                  .state = last});
}

static void rwkv6_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct recurrent_spec *r = &spec->recurrent;
    const struct rwkv6_weights *w = f->model->weights.layers[layer].mixer;
    size_t at = f->slots->kv.geometry.mixer_states[layer], used = 0;
    size_t last = recurrent_state(&used, f->model->spec.hidden);
    struct rwkv6_buffers b;
    lay_out(f, spec, f->scratch, &b);
    shift(f, s, r, w, &b, forward_state(f, at, last));
    low_rank(f, s, &b, b.w, rwkv_plane(f, b.shifted, 0), w->decay_down, w->decay_up, 1,
             r->rwkv6.decay_rank, r->width);
    forward_product(f, s, b.k, rwkv_plane(f, b.shifted, 1), &w->common.k);
    forward_product(f, s, b.v, rwkv_plane(f, b.shifted, 2), &w->common.v);
    forward_product(f, s, b.r, rwkv_plane(f, b.shifted, 3), &w->common.r);
    forward_product(f, s, b.g, rwkv_plane(f, b.shifted, 4), &w->gate);
    f->dev->ops->state->wkv(s, &(struct op_wkv){.out = b.y,
                                                .r = b.r,
                                                .k = b.k,
                                                .v = b.v,
                                                .w = b.w,
                                                .gate = b.g,
                                                .w_bias = w->common.decay,
                                                .u = w->common.first,
                                                .norm_weight = w->norm_weight,
                                                .norm_bias = w->norm_bias,
                                                .heads = r->heads,
                                                .dim = r->head_dim,
                                                .eps = r->eps,
                                                .state = forward_state(f, at, used),
                                                .batch = &f->batch});
    forward_product(f, s, f->out, b.y, &w->common.out);
}

const struct layer_kind mixer_rwkv6 = {.name = "RWKV-6",
                                       .read = rwkv6_read,
                                       .load = rwkv6_load,
                                       .buffers = rwkv6_buffers,
                                       .step = rwkv6_step,
                                       .state_bytes = rwkv_state};
