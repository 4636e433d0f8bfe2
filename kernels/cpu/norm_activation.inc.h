/* norm_activation.inc.h - layer norm, norms of heads, activations, clamps and what ends the logits
 * (ops_rows.h). A unit is a run of rows. */

/* erf by the C library, lane by lane: right within an ulp, and the same on every instruction
 * set. */
ALWAYS_INLINE vf v_gelu(vf x) {
    float lanes[VW];
    v_store(lanes, x);
    for (int i = 0; i < VW; i++)
        lanes[i] = 0.5f * lanes[i] * erfcf(-lanes[i] * 0.70710678118654752440f);
    return v_load(lanes);
}

ALWAYS_INLINE vf v_gelu_quick(vf x) {
    return v_div(x, v_add(v_set1(1.0f), v_exp(v_mul(v_set1(-1.702f), x))));
}

/* max(x, 0), NaN stays (v_max gives its second operand where the comparison fails). */
ALWAYS_INLINE vf v_relu(vf x) {
    return v_max(v_set1(0.0f), x);
}

/* tanh: below 0.3 by its series, whose next term is under 2^-24; above by exp. Error under 4
 * ulp. */
ALWAYS_INLINE vf v_tanh_near(vf x) {
    vf one = v_set1(1.0f), two = v_set1(2.0f), z = v_mul(x, x), p = v_set1(62.0f / 2835.0f);
    p = v_fma(p, z, v_set1(-17.0f / 315.0f));
    p = v_fma(p, z, v_set1(2.0f / 15.0f));
    p = v_fma(p, z, v_set1(-1.0f / 3.0f));
    vf small = v_fma(v_mul(p, z), x, x);
    vf large = v_sub(one, v_div(two, v_add(v_exp(v_mul(two, x)), one)));
    vf magnitude = v_max(x, v_sub(v_set1(0.0f), x));
    return v_pick(vi_cast(v_sub(magnitude, v_set1(0.3f))), small, large);
}

ALWAYS_INLINE vf v_activate(const enum activation kind, vf x) {
    switch (kind) {
    case ACTIVATION_SILU: return v_silu(x);
    case ACTIVATION_GELU: return v_gelu(x);
    case ACTIVATION_GELU_QUICK: return v_gelu_quick(x);
    case ACTIVATION_RELU: return v_relu(x);
    case ACTIVATION_RELU2: return v_mul(v_relu(x), v_relu(x));
    default: return v_gelu_tanh(x);
    }
}

/* ---- norms ---- */

/* x += delta * scale. */
ALWAYS_INLINE void add_delta(float *x, const float *delta, uint32_t width, float scale) {
    vf factor = v_set1(scale);
    uint32_t i = 0;
    for (; i + VW <= width; i += VW)
        v_store(x + i, v_add(v_load(x + i), v_mul(v_load(delta + i), factor)));
    if (i < width)
        v_store_n(x + i,
                  v_add(v_load_n(x + i, width - i), v_mul(v_load_n(delta + i, width - i), factor)),
                  width - i);
}

/* The sum, and of squared distances from `mean`. */
ALWAYS_INLINE float sum_of(const float *x, uint32_t width) {
    vf acc = v_set1(0);
    uint32_t i = 0;
    for (; i + VW <= width; i += VW)
        acc = v_add(acc, v_load(x + i));
    if (i < width)
        acc = v_add(acc, v_load_n(x + i, width - i));
    return v_hsum(acc);
}
ALWAYS_INLINE float squares_of(const float *x, uint32_t width, float mean) {
    vf acc = v_set1(0), m = v_set1(mean);
    uint32_t i = 0;
    for (; i + VW <= width; i += VW) {
        vf d = v_sub(v_load(x + i), m);
        acc = v_fma(d, d, acc);
    }
    float total = v_hsum(acc);
    for (; i < width; i++)
        total += (x[i] - mean) * (x[i] - mean);
    return total;
}

struct norm_row {
    const float *weight, *bias;
    uint32_t width;
    bool centered;
    float eps, offset;
};

ALWAYS_INLINE vf norm_lanes(vf x, vf mean, vf scale, vf weight, vf offset) {
    return v_mul(v_mul(v_sub(x, mean), scale), v_add(weight, offset));
}

static void norm_by(const struct norm_row *n, const float *x, float *out, float mean,
                    float mean_square) {
    uint32_t width = n->width, i = 0;
    vf m = v_set1(mean), offset = v_set1(n->offset),
       scale = v_set1(1.0f / sqrtf(mean_square + n->eps));
    for (; i + VW <= width; i += VW) {
        vf y = norm_lanes(v_load(x + i), m, scale, v_load(n->weight + i), offset);
        v_store(out + i, n->bias ? v_add(y, v_load(n->bias + i)) : y);
    }
    if (i == width)
        return;
    vf y = norm_lanes(v_load_n(x + i, width - i), m, scale, v_load_n(n->weight + i, width - i),
                      offset);
    v_store_n(out + i, n->bias ? v_add(y, v_load_n(n->bias + i, width - i)) : y, width - i);
}

static void norm_one(const struct norm_row *n, const float *x, float *out) {
    float mean = n->centered ? sum_of(x, n->width) / (float)n->width : 0;
    norm_by(n, x, out, mean, squares_of(x, n->width, mean) / (float)n->width);
}

static void layernorm_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_layernorm *a = task->a;
    struct norm_row n = {a->weight, a->bias, a->width, true, a->eps, a->weight_offset};
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++) {
        size_t at = (size_t)t * a->width;
        if (a->delta)
            add_delta((float *)a->x + at, (const float *)a->delta + at, a->width,
                      a->delta_scale != 0 ? a->delta_scale : 1);
        if (a->out)
            norm_one(&n, (const float *)a->x + at, (float *)a->out + at);
    }
}
static void cpu_layernorm(struct stream *s, const struct op_layernorm *a) {
    rows_loop(s, a, a->rows, (size_t)a->width * 3, layernorm_unit);
}

static void head_norm_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_head_norm *a = task->a;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++)
        for (uint32_t h = 0; h < a->heads; h++) {
            size_t at = a->weight_each ? (size_t)h * a->width : 0;
            struct norm_row n = {a->weight + at, a->bias ? a->bias + at : NULL,
                                 a->width,       a->centered,
                                 a->eps,         a->weight_offset};
            float *x = (float *)a->x + (size_t)t * a->stride + (size_t)h * a->width;
            if (a->squares)
                norm_by(&n, x, x, 0, a->squares[(size_t)t * a->squares_stride] / (float)a->whole);
            else
                norm_one(&n, x, x);
        }
}
static void cpu_head_norm(struct stream *s, const struct op_head_norm *a) {
    rows_loop(s, a, a->rows, (size_t)a->heads * a->width * 3, head_norm_unit);
}

static void row_squares_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_row_squares *a = task->a;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++)
        a->out[(size_t)t * a->out_stride] =
            squares_of((const float *)a->x + (size_t)t * a->stride, a->width, 0);
}
static void cpu_row_squares(struct stream *s, const struct op_row_squares *a) {
    rows_loop(s, a, a->rows, a->width, row_squares_unit);
}

/* ---- value by value ---- */

#define LANES(width, i, out, x, expression)                                                        \
    do {                                                                                           \
        uint32_t i = 0;                                                                            \
        for (; i + VW <= (width); i += VW) {                                                       \
            vf v = v_load((x) + i);                                                                \
            v_store((out) + i, expression);                                                        \
        }                                                                                          \
        if (i < (width)) {                                                                         \
            vf v = v_load_n((x) + i, (width)-i);                                                   \
            v_store_n((out) + i, expression, (width)-i);                                           \
        }                                                                                          \
    } while (0)

#define ACTIVATE_CASE(kind)                                                                        \
    case kind: LANES(width, i, out, x, v_activate(kind, v)); break
static void activate_row(enum activation kind, float *out, const float *x, uint32_t width) {
    switch (kind) {
        ACTIVATE_CASE(ACTIVATION_SILU);
        ACTIVATE_CASE(ACTIVATION_GELU_TANH);
        ACTIVATE_CASE(ACTIVATION_GELU);
        ACTIVATE_CASE(ACTIVATION_GELU_QUICK);
        ACTIVATE_CASE(ACTIVATION_RELU);
        ACTIVATE_CASE(ACTIVATION_RELU2);
    case ACTIVATION_COUNT: break;
    }
}
static void activate_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_activate *a = task->a;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++)
        activate_row((enum activation)a->activation, (float *)a->out + (size_t)t * a->width,
                     (const float *)a->x + (size_t)t * a->width, a->width);
}
static void cpu_activate(struct stream *s, const struct op_activate *a) {
    rows_loop(s, a, a->rows, (size_t)a->width * 16, activate_unit);
}

static void clamp_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_clamp *a = task->a;
    vf high = v_set1(a->limit), low = v_set1(-a->limit);
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++) {
        float *row = (float *)a->x + (size_t)t * a->width;
        LANES(a->width, i, row, row, v_min(high, v_max(low, v)));
    }
}
static void cpu_clamp(struct stream *s, const struct op_clamp *a) {
    rows_loop(s, a, a->rows, a->width, clamp_unit);
}

ALWAYS_INLINE vf finish_lanes(const struct op_finish_logits *a, vf v) {
    vf l = v_mul(v, v_set1(a->scale));
    return a->soft_cap != 0 ? v_mul(v_tanh_near(v_div(l, v_set1(a->soft_cap))), v_set1(a->soft_cap))
                            : l;
}
static void finish_logits_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_finish_logits *a = task->a;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++) {
        float *row = a->logits + (size_t)t * a->width;
        LANES(a->width, i, row, row, finish_lanes(a, v));
    }
}
static void cpu_finish_logits(struct stream *s, const struct op_finish_logits *a) {
    rows_loop(s, a, a->rows, (size_t)a->width * 8, finish_logits_unit);
}

/* ---- gated activation ---- */

#define ACT_MUL_CASE(kind)                                                                         \
    case kind:                                                                                     \
        for (; i + VW <= width; i += VW)                                                           \
            v_store(out + i, v_mul(v_activate(kind, v_load(gate + i)), v_load(up + i)));           \
        if (i < width)                                                                             \
            v_store_n(out + i,                                                                     \
                      v_mul(v_activate(kind, v_load_n(gate + i, width - i)),                       \
                            v_load_n(up + i, width - i)),                                          \
                      width - i);                                                                  \
        break
static void act_mul_row(enum activation kind, float *out, const float *gate, const float *up,
                        uint32_t width) {
    uint32_t i = 0;
    switch (kind) {
        ACT_MUL_CASE(ACTIVATION_SILU);
        ACT_MUL_CASE(ACTIVATION_GELU_TANH);
        ACT_MUL_CASE(ACTIVATION_GELU);
        ACT_MUL_CASE(ACTIVATION_GELU_QUICK);
        ACT_MUL_CASE(ACTIVATION_RELU);
        ACT_MUL_CASE(ACTIVATION_RELU2);
    case ACTIVATION_COUNT: break;
    }
}

static void act_mul_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_act_mul *a = task->a;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++) {
        const float *gate = (const float *)a->gate_up + (size_t)t * 2 * a->width;
        act_mul_row(a->activation, (float *)a->out + (size_t)t * a->width, gate, gate + a->width,
                    a->width);
    }
}

static void cpu_act_mul(struct stream *s, const struct op_act_mul *a) {
    rows_loop(s, a, a->rows, (size_t)a->width * 16, act_mul_unit);
}

static const struct row_ops cpu_row_ops = {.layernorm = cpu_layernorm,
                                           .head_norm = cpu_head_norm,
                                           .row_squares = cpu_row_squares,
                                           .activate = cpu_activate,
                                           .add_positions = ref_add_positions,
                                           .clamp = cpu_clamp,
                                           .finish_logits = cpu_finish_logits,
                                           .sum_addends = ref_sum_addends};
