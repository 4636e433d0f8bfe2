/* mixer_latent.c - latent attention, absorbed (kernels/ops_latent.h): DeepSeek-AI 2024,
 * "DeepSeek-V2". The cache has one row of rank + rope values a position, whatever the number of
 * heads. */
#include "model/run/latent_weights.h"

#include <math.h>

#include "model/run/layer_kinds.h"
#include "model/run/rope.h"

/* ---- spec ---- */

/* YaRN's second correction: of the scores, mscale(factor, mscale_all_dim)^2. */
static double yarn_scores(struct spec_reader *r) {
    static const char *const NAMES[] = {"rope_scaling", "rope_parameters"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        int64_t object = config_object(r->config, r->top, NAMES[i]);
        if (object <= 0)
            continue;
        const char *old = config_text(r->config, (uint32_t)object, "type", "default");
        if (!strcmp(config_text(r->config, (uint32_t)object, "rope_type", old), "default"))
            return 1;
        double all = config_double(r->config, (uint32_t)object, "mscale_all_dim", 0),
               factor = config_double(r->config, (uint32_t)object, "factor", 1);
        double mscale = all != 0 && factor > 1 ? 0.1 * all * log(factor) + 1 : 1;
        return mscale * mscale;
    }
    return 1;
}

/* oxidizr's: no norms, no biases, heads of hidden / heads values beside the rotated ones. */
static int read_apart(struct spec_reader *r, struct latent_spec *a) {
    *a = (struct latent_spec){.heads = read_count(r, "num_attention_heads", 0, SPEC_HEADS_MAX),
                              .q_rank = read_count(r, "q_latent_dim", 0, SPEC_HIDDEN_MAX),
                              .rank = read_count(r, "kv_latent_dim", 0, LATENT_WIDTH_MAX),
                              .rope = read_count(r, "d_rope", 0, SPEC_HEAD_DIM_MAX),
                              .apart = true};
    if (config_failed(r->config))
        return r->config->error.code;
    if (r->spec->hidden % a->heads)
        config_fail(r->config, ERR_INVALID,
                    "'hidden_size' is no multiple of 'num_attention_heads'");
    a->nope = a->value = r->spec->hidden / a->heads;
    if (a->nope > SPEC_HEAD_DIM_MAX || a->rank + a->rope > LATENT_WIDTH_MAX || a->rope % 2)
        config_fail(r->config, ERR_UNSUPPORTED,
                    "'num_attention_heads', 'kv_latent_dim' or 'd_rope' is out of range");
    a->scale = (float)(1 / sqrt((double)(a->nope + a->rope)));
    return rope_read(r, a->rope, NULL, &a->rope_idx);
}

static int latent_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    struct latent_spec *a = &out->latent;
    if (r->family->latent_apart)
        return read_apart(r, a);
    *a = (struct latent_spec){.heads = read_count(r, "num_attention_heads", 0, SPEC_HEADS_MAX),
                              .q_rank = read_int(r, "q_lora_rank", 0)
                                            ? read_count(r, "q_lora_rank", 0, SPEC_HIDDEN_MAX)
                                            : 0,
                              .rank = read_count(r, "kv_lora_rank", 0, LATENT_WIDTH_MAX),
                              .rope = read_count(r, "qk_rope_head_dim", 0, SPEC_HEAD_DIM_MAX),
                              .nope = read_count(r, "qk_nope_head_dim", 0, SPEC_HEAD_DIM_MAX),
                              .value = read_count(r, "v_head_dim", 0, SPEC_HEAD_DIM_MAX),
                              .bias = read_rule(r, r->family->qkv_bias),
                              .norm = {.kind = NORM_RMS, .eps = 1e-6f}};
    /* said again by some writers; heads share one row, so the KV heads mean nothing */
    read_int(r, "num_key_value_heads", 0);
    read_int(r, "qk_head_dim", 0);
    read_int(r, "head_dim", 0);
    if (config_failed(r->config))
        return r->config->error.code;
    if (a->rank + a->rope > LATENT_WIDTH_MAX)
        config_fail(r->config, ERR_UNSUPPORTED,
                    "'kv_lora_rank' and 'qk_rope_head_dim' add up to more than %d",
                    LATENT_WIDTH_MAX);
    a->scale = (float)(yarn_scores(r) / sqrt((double)(a->nope + a->rope)));
    return rope_read(r, a->rope, NULL, &a->rope_idx);
}

/* ---- weights ---- */

/* This rank's heads; count 0: all. */
static struct shard_range latent_own(const struct loader *l, uint32_t layer) {
    bool divided = shard_divides_mixer(l->shard, l->spec, layer);
    return divided ? shard_latent(l->shard, l->spec->layers[layer].latent.heads)
                   : (struct shard_range){0};
}

/* Rows of this rank's heads: of a product of `dim` rows a head. */
static int load_heads(struct loader *l, uint32_t layer, struct matrix *m, enum weight_role role,
                      uint32_t dim, uint32_t cols) {
    const struct latent_spec *a = &l->spec->layers[layer].latent;
    struct shard_range own = latent_own(l, layer);
    const struct product_segment segment = {.role = role, .rows = a->heads * dim};
    const struct cut cut = {.rows = {own.first * dim, own.count * dim}};
    return loader_cut(l, m, &segment, &cut, 1, cols, false, layer, NULL);
}

static int load_out(struct loader *l, uint32_t layer, const struct latent_spec *a,
                    struct matrix *m) {
    struct shard_range own = latent_own(l, layer);
    const struct product_segment out = {
        .role = ROLE_OUT, .bias = ROLE_OUT_BIAS, .rows = l->spec->hidden};
    own.first *= a->value;
    own.count *= a->value;
    return loader_partial(l, m, &out, own, a->heads * a->value, a->bias, layer);
}

/* A tensor for each product (struct latent_spec: apart). */
static int load_apart(struct loader *l, uint32_t layer, const struct latent_spec *a,
                      struct latent_weights *w) {
    uint32_t hidden = l->spec->hidden;
    const struct product_segment q_down = {.role = ROLE_LATENT_Q_DOWN, .rows = a->q_rank},
                                 kv[] = {{.role = ROLE_LATENT_KV_DOWN, .rows = a->rank},
                                         {.role = ROLE_LATENT_K_ROPE, .rows = a->rope}};
    int rc = loader_matrix(l, &w->q_down, &q_down, 1, hidden, false, layer);
    if (!rc)
        rc = load_heads(l, layer, &w->q, ROLE_LATENT_Q_UP, a->nope, a->q_rank);
    if (!rc)
        rc = load_heads(l, layer, &w->q_rope, ROLE_LATENT_Q_ROPE, a->rope, hidden);
    if (!rc)
        rc = loader_matrix(l, &w->kv_down, kv, 2, hidden, false, layer);
    if (!rc)
        rc = load_heads(l, layer, &w->kv_up, ROLE_LATENT_K_UP, a->nope, a->rank);
    if (!rc)
        rc = load_heads(l, layer, &w->v_up, ROLE_LATENT_V_UP, a->value, a->rank);
    return rc ? rc : load_out(l, layer, a, &w->out);
}

/* From the cached latent to keys and values: one tensor, or GGUF's two of three dimensions, K's
 * turned. */
static int load_up(struct loader *l, uint32_t layer, const struct latent_spec *a,
                   struct latent_weights *w) {
    w->turned = loader_has(l, ROLE_LATENT_K_UP, layer);
    if (!w->turned)
        return load_heads(l, layer, &w->kv_up, ROLE_LATENT_KV_UP, a->nope + a->value, a->rank);
    int rc = load_heads(l, layer, &w->kv_up, ROLE_LATENT_K_UP, a->rank, a->nope);
    return rc ? rc : load_heads(l, layer, &w->v_up, ROLE_LATENT_V_UP, a->value, a->rank);
}

static int latent_load(struct loader *l, uint32_t layer, void **weights) {
    const struct latent_spec *a = &l->spec->layers[layer].latent;
    struct latent_weights *w = *weights = loader_new(l, sizeof *w);
    uint32_t hidden = l->spec->hidden;
    const struct product_segment q_down = {.role = ROLE_LATENT_Q_DOWN,
                                           .bias = ROLE_LATENT_Q_DOWN_BIAS,
                                           .rows = a->q_rank},
                                 kv = {.role = ROLE_LATENT_KV_DOWN,
                                       .bias = ROLE_LATENT_KV_DOWN_BIAS,
                                       .rows = a->rank + a->rope};
    int rc = 0;
    if (a->apart)
        return load_apart(l, layer, a, w);
    if (a->q_rank)
        rc = loader_matrix(l, &w->q_down, &q_down, 1, hidden, a->bias, layer);
    if (!rc && a->q_rank)
        rc = loader_norm(l, &w->q_norm, &a->norm, ROLE_LATENT_Q_NORM, 0, layer, a->q_rank);
    if (!rc)
        rc = load_heads(l, layer, &w->q, a->q_rank ? ROLE_LATENT_Q_UP : ROLE_Q, a->nope + a->rope,
                        a->q_rank ? a->q_rank : hidden);
    if (!rc)
        rc = loader_matrix(l, &w->kv_down, &kv, 1, hidden, a->bias, layer);
    if (!rc)
        rc = loader_norm(l, &w->kv_norm, &a->norm, ROLE_LATENT_KV_NORM, 0, layer, a->rank);
    if (!rc)
        rc = load_up(l, layer, a, w);
    return rc ? rc : load_out(l, layer, a, &w->out);
}

/* ---- step ---- */

struct latent_buffers {
    /* act [rows, q_rank], [rows, heads, nope + rope], [rows, rank + rope] */
    void *q_latent, *q, *kv;
    void *q_rope;           /* act [rows, heads, rope]: apart */
    void *absorbed, *mixed; /* act [rows, heads, rank + rope], [rows, heads, rank] */
    void *values;           /* act [rows, heads, value] */
};

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                      struct latent_buffers *b) {
    const struct latent_spec *a = &layer->latent;
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows,
           heads = rows * a->heads, used = 0;
    b->q_latent = forward_take(base, &used, act * rows * a->q_rank);
    b->q = forward_take(base, &used, act * heads * (a->nope + a->rope));
    b->q_rope = forward_take(base, &used, a->apart ? act * heads * a->rope : 0);
    b->kv = forward_take(base, &used, act * rows * (a->rank + a->rope));
    b->absorbed = forward_take(base, &used, act * heads * (a->rank + a->rope));
    b->mixed = forward_take(base, &used, act * heads * a->rank);
    b->values = forward_take(base, &used, act * heads * a->value);
    return used;
}

static size_t latent_buffers(const struct forward *f, const struct layer_spec *layer, char *base) {
    struct latent_buffers b;
    return lay_out(f, layer, base, &b);
}

static void make_queries(struct forward *f, struct stream *s, const struct latent_spec *a,
                         const struct latent_weights *w, const struct latent_buffers *b) {
    if (!a->q_rank) {
        forward_product(f, s, b->q, f->in, &w->q);
        return;
    }
    forward_product(f, s, b->q_latent, f->in, &w->q_down);
    if (w->q_norm.weight)
        f->dev->ops->rmsnorm(s, &(struct op_rmsnorm){.out = b->q_latent,
                                                     .x = b->q_latent,
                                                     .weight = w->q_norm.weight,
                                                     .rows = f->batch.row_count,
                                                     .width = a->q_rank,
                                                     .eps = a->norm.eps});
    forward_product(f, s, b->q, b->q_latent, &w->q);
    if (a->apart)
        forward_product(f, s, b->q_rope, f->in, &w->q_rope);
}

/* Products per head with the rows of K's (of V's) part of the way up. */
static struct op_head_linear per_head(const struct forward *f, const struct latent_spec *a,
                                      const struct latent_weights *w, bool value) {
    struct op_head_linear op = {.w = &w->kv_up,
                                .rows = f->batch.row_count,
                                .heads = a->heads,
                                .head_rows = a->nope + a->value,
                                .first = value ? a->nope : 0,
                                .count = value ? a->value : a->nope};
    op.transposed = !value && !w->turned;
    if (!a->apart && !w->turned)
        return op;
    op.w = value ? &w->v_up : &w->kv_up;
    if (w->turned && !value)
        op.count = a->rank;
    op.head_rows = op.count;
    op.first = 0;
    return op;
}

/* The queries into the latent space, the step's rows into the cache. */
static void absorb(struct forward *f, struct stream *s, const struct latent_spec *a,
                   const struct latent_weights *w, const struct latent_buffers *b,
                   const struct kv_view *kv) {
    const struct rope_spec *rope = &f->model->spec.ropes[a->rope_idx];
    struct op_head_linear up = per_head(f, a, w, false);
    uint32_t q_width = a->apart ? a->nope : a->nope + a->rope;
    up.out = b->absorbed;
    up.x = b->q;
    up.x_stride = q_width;
    up.out_stride = a->rank + a->rope;
    f->dev->ops->head_linear(s, &up);
    f->dev->ops->latent_write(
        s, &(struct op_latent_write){.q = b->absorbed,
                                     .q_rope = a->apart ? b->q_rope : b->q,
                                     .kv = b->kv,
                                     .heads = a->heads,
                                     .rank = a->rank,
                                     .rope = a->rope,
                                     .q_stride = a->apart ? a->rope : q_width,
                                     .q_offset = a->apart ? 0 : a->nope,
                                     .norm = w->kv_norm.weight,
                                     .eps = a->norm.eps,
                                     .angles = rope->kind ? f->angles[a->rope_idx] : NULL,
                                     .interleaved = rope->interleaved,
                                     .view = kv,
                                     .batch = &f->batch});
}

static void latent_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct latent_spec *a = &spec->latent;
    const struct latent_weights *w = f->model->weights.layers[layer].mixer;
    struct latent_buffers b;
    struct kv_view kv = forward_kv(f, layer);
    lay_out(f, spec, f->scratch, &b);
    kv.kv_heads = 1;
    kv.head_dim = a->rank + a->rope;
    make_queries(f, s, a, w, &b);
    forward_product(f, s, b.kv, f->in, &w->kv_down);
    absorb(f, s, a, w, &b, &kv);
    f->dev->ops->latent_attention(s, &(struct op_latent_attention){.out = b.mixed,
                                                                   .q = b.absorbed,
                                                                   .heads = a->heads,
                                                                   .rank = a->rank,
                                                                   .scale = a->scale,
                                                                   .view = &kv,
                                                                   .batch = &f->batch});
    struct op_head_linear down = per_head(f, a, w, true);
    down.out = b.values;
    down.x = b.mixed;
    down.x_stride = a->rank;
    down.out_stride = a->value;
    f->dev->ops->head_linear(s, &down);
    forward_product(f, s, f->out, b.values, &w->out);
}

/* ---- the kind ---- */

static size_t latent_kv_bytes(const struct ops *ops, const struct layer_spec *layer,
                              enum storage_type type, uint32_t block_tokens) {
    return ops->latent_layer_bytes(type, block_tokens, layer->latent.rank + layer->latent.rope);
}

static int latent_supports(const struct device *dev, const struct layer_spec *layer,
                           enum storage_type weights, enum storage_type kv, uint32_t block_tokens,
                           struct error *err) {
    enum { ANY_HEAD = 64 };
    return dev->ops->supports(weights, kv, block_tokens, ANY_HEAD, err);
}

const struct layer_kind mixer_latent = {
    .name = "latent attention",
    .read = latent_read,
    .load = latent_load,
    .buffers = latent_buffers,
    .step = latent_step,
    .kv_bytes = latent_kv_bytes,
    .supports = latent_supports,
};
