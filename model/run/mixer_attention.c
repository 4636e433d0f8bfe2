#include "model/run/attention_weights.h"

#include <math.h>

#include "model/run/attention_gate.h"
#include "model/run/layer_kinds.h"

/* ---- weights ---- */

uint32_t *attention_fused_order(const struct attention_spec *a, enum qkv_layout layout) {
    uint32_t rows = qkv_width(a), dim = a->head_dim, group = a->heads / a->kv_heads, n = 0;
    uint32_t *order = mem_calloc(rows, sizeof *order);
    if (layout == QKV_PER_HEAD)
        group = 1;
    for (uint32_t kind = 0; kind < 3; kind++) {
        uint32_t heads = kind == 0 ? a->heads : a->kv_heads;
        for (uint32_t h = 0; h < heads; h++) {
            uint32_t g = kind == 0 ? h / group : h, at = kind == 0 ? h % group : group + kind - 1;
            for (uint32_t d = 0; d < dim; d++, n++)
                order[n] = layout == QKV_STACKED ? n : (g * (group + 2) + at) * dim + d;
        }
    }
    return order;
}

/* The rows of Q, and of K or V, that this rank has. */
static void own_rows(const struct loader *l, const struct attention_spec *a, struct shard_range *q,
                     struct shard_range *kv) {
    shard_heads(l->shard, a, q, kv);
    q->first *= a->head_dim;
    q->count *= a->head_dim;
    kv->first *= a->head_dim;
    kv->count *= a->head_dim;
}

/* Leaves this rank's rows of Q, K and V in the order; returns their count. */
static uint32_t keep_own(uint32_t *order, const struct attention_spec *a, struct shard_range q,
                         struct shard_range kv) {
    uint32_t width = a->heads * a->head_dim, kv_width = a->kv_heads * a->head_dim, n = q.count;
    memmove(order, order + q.first, q.count * sizeof *order);
    for (int half = 0; half < 2; half++, n += kv.count)
        memmove(order + n, order + width + (uint32_t)half * kv_width + kv.first,
                kv.count * sizeof *order);
    return n;
}

/* q_rows, kv_rows: this rank's; count 0: all. */
static int load_qkv(struct loader *l, uint32_t layer, const struct attention_spec *a,
                    struct shard_range q_rows, struct shard_range kv_rows, struct matrix *m) {
    uint32_t hidden = l->spec->hidden, q = a->heads * a->head_dim, kv = a->kv_heads * a->head_dim;
    bool divided = q_rows.count;
    const struct product_segment apart[] = {
        {ROLE_Q, ROLE_Q_BIAS, q}, {ROLE_K, ROLE_K_BIAS, kv}, {ROLE_V, ROLE_V_BIAS, kv}};
    const struct product_segment fused = {ROLE_QKV, ROLE_QKV_BIAS, qkv_width(a)};
    struct cut cuts[] = {{.rows = q_rows}, {.rows = kv_rows}, {.rows = kv_rows}};
    const char *const *patterns = l->spec->names->patterns;
    if (!patterns[ROLE_QKV] || (patterns[ROLE_Q] && !loader_has(l, ROLE_QKV, layer)))
        return loader_cut(l, m, apart, divided ? cuts : NULL, 3, hidden, a->qkv_bias, layer, NULL);
    if (l->spec->names->qkv == QKV_STACKED && !divided)
        return loader_matrix(l, m, &fused, 1, hidden, a->qkv_bias, layer);
    uint32_t *order = attention_fused_order(a, l->spec->names->qkv);
    if (divided)
        cuts[0].rows = (struct shard_range){0, keep_own(order, a, q_rows, kv_rows)};
    int rc = loader_cut(l, m, &fused, divided ? cuts : NULL, 1, hidden, a->qkv_bias, layer, order);
    mem_free(order);
    return rc;
}

static int load_qk_norms(struct loader *l, uint32_t layer, const struct attention_spec *a,
                         struct attention_weights *w) {
    static const enum weight_role ROLES[] = {ROLE_Q_NORM, ROLE_K_NORM},
                                  BIASES[] = {ROLE_Q_NORM_BIAS, ROLE_K_NORM_BIAS};
    struct norm_weights *norms[] = {&w->q_norm, &w->k_norm};
    for (int i = 0; i < 2; i++) {
        uint32_t heads = i ? a->kv_heads : a->heads;
        uint32_t pieces = a->qk_norm == QK_NORM_HEADS && l->spec->names->head_norms ? heads : 1,
                 width = a->qk_norm == QK_NORM_HEAD ? a->head_dim : heads * a->head_dim / pieces;
        int rc = a->q_norm.plain
                     ? loader_ones(l, &norms[i]->weight, width)
                     : loader_vectors(l, &norms[i]->weight, ROLES[i], layer, pieces, width);
        if (!rc && a->q_norm.bias)
            rc = loader_vectors(l, &norms[i]->bias, BIASES[i], layer, pieces, width);
        if (rc)
            return rc;
    }
    return 0;
}

/* ALiBi's slopes: powers of 2^(-8 / n) for n heads; where n is no power of two those of the next
 * lower one, then every other one of the next higher. */
static int make_slopes(struct loader *l, const struct attention_spec *a,
                       struct attention_weights *w) {
    float host[SPEC_HEADS_MAX];
    uint32_t low = 1;
    while (low * 2 <= a->heads)
        low *= 2;
    for (uint32_t h = 0; h < a->heads; h++) {
        double slope =
            h < low ? exp2(-8.0 * (h + 1) / low) : exp2(-4.0 * (2 * (h - low) + 1) / low);
        host[h] = (float)slope;
        if (a->alibi_scaled)
            host[h] = bf16_to_f32(f32_to_bf16(host[h])) * a->scale;
    }
    const void *slopes = NULL;
    int rc = loader_bytes(l, &slopes, host, a->heads * sizeof *host);
    w->slopes = slopes;
    return rc;
}

/* Of what is loaded for all heads, this rank's part; q, kv: its first rows. */
static void skip_heads(const struct attention_spec *a, struct attention_weights *w, uint32_t q,
                       uint32_t kv) {
    bool each = a->qk_norm != QK_NORM_HEAD;
    if (w->sinks)
        w->sinks += q / a->head_dim;
    if (w->slopes)
        w->slopes += q / a->head_dim;
    if (each && w->q_norm.weight)
        w->q_norm.weight += q;
    if (each && w->q_norm.bias)
        w->q_norm.bias += q;
    if (each && w->k_norm.weight)
        w->k_norm.weight += kv;
    if (each && w->k_norm.bias)
        w->k_norm.bias += kv;
}

static int attention_load(struct loader *l, uint32_t layer, void **weights) {
    const struct attention_spec *a = &l->spec->layers[layer].attention;
    struct attention_weights *w = *weights = loader_new(l, sizeof *w);
    const struct product_segment out = {ROLE_OUT, ROLE_OUT_BIAS, l->spec->hidden};
    struct shard_range q = {0}, kv = {0};
    if (shard_divides_mixer(l->shard, l->spec, layer))
        own_rows(l, a, &q, &kv);
    int rc = a->output_gate ? attention_gate_load(l, layer, a, q, kv, w)
                            : load_qkv(l, layer, a, q, kv, &w->qkv);
    if (!rc && a->qk_norm)
        rc = load_qk_norms(l, layer, a, w);
    if (!rc && a->alibi)
        rc = make_slopes(l, a, w);
    if (!rc && a->sinks)
        rc = loader_vector(l, &w->sinks, ROLE_SINKS, layer, a->heads);
    if (rc)
        return rc;
    skip_heads(a, w, q.first, kv.first);
    return loader_partial(l, &w->out, &out, q, a->heads * a->head_dim, a->out_bias, layer);
}

/* ---- step ---- */

struct attention_buffers {
    void *qkv, *mixed, *scratch, *gate;
    float *squares; /* [rows, 2]: of queries and keys that are normed over all ranks' heads */
};

static size_t lay_out(const struct forward *f, const struct layer_spec *layer, char *base,
                      struct attention_buffers *b) {
    const struct attention_spec *a = &layer->attention;
    size_t act = storage_bytes(f->dev->activation_type, 1), rows = f->max_rows, used = 0;
    b->qkv = forward_take(base, &used, act * rows * qkv_width(a));
    b->mixed = forward_take(base, &used, act * rows * a->heads * a->head_dim);
    b->gate = forward_take(base, &used, act * rows * attention_gate_width(a));
    b->squares = forward_take(base, &used, a->norm_heads ? sizeof(float) * 2 * rows : 0);
    b->scratch = forward_take(
        base, &used,
        f->dev->ops->attention_scratch(f->dev, f->max_rows, a->heads, a->head_dim, f->max_context));
    return used;
}

static size_t attention_buffers(const struct forward *f, const struct layer_spec *layer,
                                char *base) {
    struct attention_buffers b;
    return lay_out(f, layer, base, &b);
}

/* Of Q, or of K: `heads` pieces from x on. squares: of all_heads, those of all ranks; NULL: this
 * rank has all. */
static void qk_norm(struct forward *f, struct stream *s, const struct attention_spec *a, char *x,
                    uint32_t heads, const struct norm_weights *w, const float *squares,
                    uint32_t all_heads) {
    bool whole = a->qk_norm == QK_NORM_WHOLE;
    f->dev->ops->rows->head_norm(
        s, &(struct op_head_norm){.x = x,
                                  .weight = w->weight,
                                  .bias = w->bias,
                                  .rows = f->batch.row_count,
                                  .stride = qkv_width(a),
                                  .heads = whole ? 1 : heads,
                                  .width = whole ? heads * a->head_dim : a->head_dim,
                                  .centered = a->q_norm.kind == NORM_LAYER,
                                  .weight_each = a->qk_norm == QK_NORM_HEADS,
                                  .eps = a->q_norm.eps,
                                  .weight_offset = a->q_norm.weight_offset,
                                  .squares = squares,
                                  .squares_stride = 2,
                                  .whole = all_heads * a->head_dim});
}

/* What the norm over all heads needs where ranks divide them: each head counts once, whoever else
 * has it. */
static void sum_squares(struct forward *f, struct stream *s, const struct attention_spec *a,
                        char *q, char *k, float *squares) {
    struct op_row_squares of = {.out = squares,
                                .x = q,
                                .rows = f->batch.row_count,
                                .stride = qkv_width(a),
                                .width = a->heads * a->head_dim,
                                .out_stride = 2};
    if (!a->norm_first)
        stream_fill(s, squares, 0, sizeof *squares * 2 * f->batch.row_count);
    f->dev->ops->rows->row_squares(s, &of);
    of.out++;
    of.x = k;
    of.width = a->kv_heads * a->head_dim;
    if (a->norm_first)
        f->dev->ops->rows->row_squares(s, &of);
    forward_sum_f32(f, s, squares, 2);
}

/* What comes between the product and the rotation. */
static void touch_qkv(struct forward *f, struct stream *s, const struct attention_spec *a,
                      const struct attention_weights *w, char *qkv, float *squares) {
    char *k = qkv + storage_bytes(f->dev->activation_type, (size_t)a->heads * a->head_dim);
    bool across = a->norm_heads;
    if (across)
        sum_squares(f, s, a, qkv, k, squares);
    if (a->qk_norm) {
        qk_norm(f, s, a, qkv, a->heads, &w->q_norm, across ? squares : NULL, a->norm_heads);
        qk_norm(f, s, a, k, a->kv_heads, &w->k_norm, across ? squares + 1 : NULL, a->norm_kv_heads);
    }
    if (a->clip > 0)
        f->dev->ops->rows->clamp(
            s, &(struct op_clamp){
                   .x = qkv, .rows = f->batch.row_count, .width = qkv_width(a), .limit = a->clip});
}

/* Whether the rotation norms Q and K on its way: where nothing else comes between. */
static bool norms_on_the_way(const struct forward *f, const struct attention_spec *a,
                             const struct attention_weights *w) {
    return f->dev->ops->norms_heads && a->qk_norm == QK_NORM_HEAD && !a->norm_heads &&
           a->q_norm.kind == NORM_RMS && !w->q_norm.bias && !w->k_norm.bias && !(a->clip > 0) &&
           a->temperature == 0;
}

/* Q, rotated, and K and V in the cache: by one product where the device can do it so and nothing comes
 * between. */
static void make_qkv(struct forward *f, struct stream *s, const struct attention_spec *a,
                     const struct attention_weights *w, const struct op_rope_kv *rope,
                     const struct attention_buffers *b) {
    const struct ops *ops = f->dev->ops;
    const bool apart = a->output_gate || a->qk_norm || a->clip > 0 || a->temperature != 0 ||
                       f->batch.output_count != f->batch.row_count;
    if (!apart && ops->folds_rope && ops->folds_rope(f->dev, &w->qkv, rope)) {
        struct op_linear product = forward_product_of(f, b->qkv, f->in, &w->qkv);
        product.norm = f->norm;
        product.rope = rope;
        ops->linear(s, &product);
        return;
    }
    if (a->output_gate)
        attention_gate_product(f, s, a, w, b->qkv, b->gate);
    else
        forward_product_in(f, s, b->qkv, &w->qkv);
    if (norms_on_the_way(f, a, w)) {
        const struct rope_norms norms = {w->q_norm.weight, w->k_norm.weight, a->q_norm.eps,
                                         a->q_norm.weight_offset};
        struct op_rope_kv normed = *rope;
        normed.norms = &norms;
        ops->rope_kv(s, &normed);
        return;
    }
    touch_qkv(f, s, a, w, b->qkv, b->squares);
    if (a->temperature != 0)
        ops->scale_queries(s, &(struct op_scale_queries){.x = b->qkv,
                                                         .stride = qkv_width(a),
                                                         .width = a->heads * a->head_dim,
                                                         .scale = a->temperature,
                                                         .floor_scale = a->temperature_floor,
                                                         .offset = a->temperature_offset,
                                                         .batch = &f->batch});
    ops->rope_kv(s, rope);
}

static void attention_step(struct forward *f, struct stream *s, uint32_t layer) {
    const struct layer_spec *spec = &f->model->spec.layers[layer];
    const struct attention_spec *a = &spec->attention;
    const struct attention_weights *w = f->model->weights.layers[layer].mixer;
    const struct rope_spec *rope = &f->model->spec.ropes[a->rope_idx];
    struct kv_view kv = forward_kv(f, layer);
    struct attention_buffers b;
    lay_out(f, spec, f->scratch, &b);
    make_qkv(f, s, a, w,
             &(struct op_rope_kv){.qkv = b.qkv,
                                  .angles = rope->kind == ROPE_NONE ? NULL : f->angles[a->rope_idx],
                                  .half = rope->dims / 2,
                                  .interleaved = rope->interleaved,
                                  .heads = a->heads,
                                  .kv = &kv,
                                  .batch = &f->batch},
             &b);
    f->dev->ops->attention(s, &(struct op_attention){.out = b.mixed,
                                                     .qkv = b.qkv,
                                                     .heads = a->heads,
                                                     .window = a->window,
                                                     .scale = a->scale,
                                                     .sinks = w->sinks,
                                                     .soft_cap = a->soft_cap,
                                                     .slopes = w->slopes,
                                                     .chunk = a->chunk,
                                                     .last = a->window && f->row_last_near
                                                                 ? f->row_last_near
                                                                 : f->row_last,
                                                     .class_rows = f->batch.output_count,
                                                     .kv = &kv,
                                                     .batch = &f->batch,
                                                     .scratch = b.scratch});
    if (a->output_gate)
        attention_gate_apply(f, s, a, b.mixed, b.gate);
    forward_product_out(f, s, b.mixed, &w->out);
}

static void attention_ends(const struct forward *f, uint32_t layer, const struct matrix **first,
                           const struct matrix **last) {
    const struct attention_weights *w = f->model->weights.layers[layer].mixer;
    *first = f->model->spec.layers[layer].attention.output_gate ? NULL : &w->qkv;
    *last = &w->out;
}

/* ---- the kind ---- */

static size_t attention_kv_bytes(const struct ops *ops, const struct layer_spec *layer,
                                 enum storage_type type, uint32_t block_tokens) {
    return ops->kv_layer_bytes(type, block_tokens, layer->attention.kv_heads,
                               layer->attention.head_dim);
}

static int attention_supports(const struct device *dev, const struct layer_spec *layer,
                              enum storage_type weights, enum storage_type kv,
                              uint32_t block_tokens, struct error *err) {
    return dev->ops->supports(weights, kv, block_tokens, layer->attention.head_dim, err);
}

const struct layer_kind mixer_attention = {
    .name = "attention",
    .read = attention_read,
    .load = attention_load,
    .buffers = attention_buffers,
    .step = attention_step,
    .ends = attention_ends,
    .kv_bytes = attention_kv_bytes,
    .supports = attention_supports,
};
