/*
 * state.inc.h - operations with a state (ops_state.h). A unit is a sequence of the step and some
 * channels or one head of it; it goes through its rows in order, so no bit depends on the cut.
 * Lanes are channels or value columns: sums over states and keys run in ascending order (ssm: four
 * partial sums).
 */

ALWAYS_INLINE vf v_sigmoid(vf x) {
    vf one = v_set1(1.0f);
    return v_div(one, v_add(one, v_exp(v_sub(v_set1(0.0f), x))));
}
/* max(x, 0) + log(1 + e), e = exp(-|x|): log(1 + e) = 2 atanh(e / (2 + e)), as in scalar_math.h. */
ALWAYS_INLINE vf v_softplus(vf x) {
    vf zero = v_set1(0.0f), e = v_exp(v_min(x, v_sub(zero, x))),
       s = v_div(e, v_add(e, v_set1(2.0f)));
    vf z = v_mul(s, s), p = v_set1(LOG_C13);
    p = v_fma(p, z, v_set1(LOG_C11));
    p = v_fma(p, z, v_set1(LOG_C9));
    p = v_fma(p, z, v_set1(LOG_C7));
    p = v_fma(p, z, v_set1(LOG_C5));
    p = v_fma(p, z, v_set1(LOG_C3));
    vf d = v_add(s, s);
    return v_add(v_max(x, zero), v_fma(d, v_mul(z, p), d));
}
/* 1 - 2 / (1 + exp(2 x)): right within 2^-23 absolutely. */
ALWAYS_INLINE vf v_tanh(vf x) {
    vf one = v_set1(1.0f);
    return v_sub(one, v_div(v_set1(2.0f), v_add(one, v_exp(v_add(x, x)))));
}
ALWAYS_INLINE vf v_some(const float *p, size_t n) {
    return n >= VW ? v_load(p) : v_load_n(p, n);
}
ALWAYS_INLINE void v_put(float *p, vf a, size_t n) {
    if (n >= VW)
        v_store(p, a);
    else
        v_store_n(p, a, n);
}
#define EACH_VECTOR(i, left, width)                                                                \
    for (uint32_t i = 0, left = (width); i < (width); i += VW, left -= VW)
#define ROW(array, stride, t)     ((const float *)(array) + (size_t)(t) * (stride))
#define ROW_OUT(array, stride, t) ((float *)(array) + (size_t)(t) * (stride))

/* ---- sequences in units ---- */

struct state_task {
    const void *a;
    const struct step_batch *batch;
    uint32_t units; /* of a sequence */
};
static void state_loop(struct stream *s, const void *a, const struct step_batch *batch,
                       uint32_t units, size_t row_work, cpu_unit_fn run) {
    struct state_task task = {a, batch, units};
    cpu_loop(s, (size_t)batch->run_count * units, (size_t)batch->row_count * row_work, run, &task);
}
/* Unit `unit_idx`: which unit of which sequence; false where the run continues another. */
static bool state_unit(const struct state_task *task, size_t unit_idx, struct state_walk *w,
                       uint32_t *unit, uint32_t *slot) {
    uint32_t run = (uint32_t)(unit_idx / task->units);
    *unit = (uint32_t)(unit_idx % task->units);
    *slot = task->batch->runs[run].slot;
    return state_walk_begin(w, task->batch, run);
}
#define STATE_UNIT(type)                                                                           \
    const struct state_task *task = ctx;                                                           \
    const struct type *a = task->a;                                                                \
    struct state_walk w;                                                                           \
    uint32_t unit, slot;                                                                           \
    if (!state_unit(task, unit_idx, &w, &unit, &slot))                                             \
    return

enum { CHANNELS_A_UNIT = 64 };
static uint32_t channel_units(uint32_t width) {
    return (width + CHANNELS_A_UNIT - 1) / CHANNELS_A_UNIT;
}

/* ---- convolution ---- */

ALWAYS_INLINE void conv_vector(const struct op_conv *a, float *state, uint32_t t, uint32_t c,
                               uint32_t n) {
    vf u = v_some(ROW(a->x, a->in_stride, t) + c, n),
       sum = a->bias ? v_some(a->bias + c, n) : v_set1(0.0f);
    if (a->gate_in)
        u = v_mul(u, v_some(ROW(a->gate_in, a->in_stride, t) + c, n));
    for (uint32_t j = 0; j + 1 < a->taps; j++) {
        vf old = v_some(state + (size_t)j * a->width + c, n);
        sum = v_fma(v_some(a->weight + (size_t)j * a->width + c, n), old, sum);
        if (j)
            v_put(state + (size_t)(j - 1) * a->width + c, old, n);
    }
    if (a->taps > 1)
        v_put(state + (size_t)(a->taps - 2) * a->width + c, u, n);
    sum = v_fma(v_some(a->weight + (size_t)(a->taps - 1) * a->width + c, n), u, sum);
    if (a->silu)
        sum = v_silu(sum);
    if (a->gate_out)
        sum = v_mul(sum, v_some(ROW(a->gate_out, a->in_stride, t) + c, n));
    v_put(ROW_OUT(a->out, a->out_stride, t) + c, sum, n);
}

static void conv_unit(void *ctx, size_t unit_idx, int thread_idx) {
    STATE_UNIT(op_conv);
    uint32_t first = unit * CHANNELS_A_UNIT, end = MIN(first + CHANNELS_A_UNIT, a->width);
    float *state = state_at(&a->state, slot);
    while (state_walk_next(&w)) {
        for (uint32_t j = 0; w.fresh && j + 1 < a->taps; j++)
            memset(state + (size_t)j * a->width + first, 0, (end - first) * sizeof *state);
        for (uint32_t t = w.row; t < w.end; t++)
            for (uint32_t c = first; c < end; c += VW)
                conv_vector(a, state, t, c, end - c);
    }
}

static void cpu_conv(struct stream *s, const struct op_conv *a) {
    CHECK(a->taps >= 1 && a->taps <= CONV_TAPS_MAX);
    state_loop(s, a, a->batch, channel_units(a->width), (size_t)a->width * (a->taps + 12) / VW,
               conv_unit);
}

/* ---- state space ---- */

static void softplus_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_softplus *a = task->a;
    vf low = v_set1(a->low), high = v_set1(a->high);
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++)
        EACH_VECTOR(i, n, a->width) {
            vf x = v_some(ROW(a->x, a->in_stride, t) + i, n);
            if (a->bias)
                x = v_add(x, v_some(a->bias + i, n));
            v_put(a->out + (size_t)t * a->width + i, v_min(high, v_max(low, v_softplus(x))), n);
        }
}

static void cpu_softplus(struct stream *s, const struct op_softplus *a) {
    rows_loop(s, a, a->rows, (size_t)a->width * 30, softplus_unit);
}

/* One row, VW channels: x, its step dt; the state's column and, per channel, that of a. */
ALWAYS_INLINE vf ssm_vector(const bool per_channel, float *state, const float *a, vf decay, vf dt,
                            vf x, const float *b, const float *c, uint32_t state_size,
                            float limit) {
    vf put = v_mul(dt, x), sums[4] = {v_set1(0.0f), v_set1(0.0f), v_set1(0.0f), v_set1(0.0f)};
    for (uint32_t n = 0; n < state_size; n++) {
        if (per_channel)
            decay = v_exp(v_mul(dt, v_load(a + (size_t)n * SSM_TILE)));
        vf s = v_fma(decay, v_load(state + (size_t)n * SSM_TILE), v_mul(put, v_set1(b[n])));
        if (limit > 0)
            s = v_min(v_set1(limit), v_max(v_set1(-limit), s));
        v_store(state + (size_t)n * SSM_TILE, s);
        sums[n % 4] = v_fma(v_set1(c[n]), s, sums[n % 4]);
    }
    return v_add(v_add(sums[0], sums[2]), v_add(sums[1], sums[3]));
}

/* A tile: channels [first, first + count) of the row. */
ALWAYS_INLINE void ssm_tile_row(const bool per_channel, const struct op_ssm *a, float *state,
                                uint32_t t, uint32_t head, uint32_t first, uint32_t count,
                                size_t tile_offset) {
    uint32_t group = (per_channel ? 0 : head) / (a->heads / a->groups);
    const float *b = ROW(a->b, a->bc_stride, t) + (size_t)group * a->state_size,
                *c = ROW(a->c, a->bc_stride, t) + (size_t)group * a->state_size,
                *dts = ROW(a->dt, a->heads, t);
    for (uint32_t i = 0; i < count; i += VW) {
        uint32_t n = count - i, at = first + i;
        vf x = v_some(ROW(a->x, a->x_stride, t) + at, n),
           dt = per_channel ? v_some(dts + at, n) : v_set1(dts[head]);
        vf d = per_channel ? v_some(a->d + at, n) : v_set1(a->d[head]), decay = dt;
        if (!per_channel)
            decay = v_exp(v_mul(dt, v_set1(a->a[head])));
        vf y = ssm_vector(per_channel, state + i, per_channel ? a->a + tile_offset + i : NULL,
                          decay, dt, x, b, c, a->state_size, a->limit);
        y = v_fma(d, x, y);
        if (a->z)
            y = v_mul(y, v_silu(v_some(ROW(a->z, a->z_stride, t) + at, n)));
        v_put(ROW_OUT(a->out, a->out_stride, t) + at, y, n);
    }
}

static void ssm_unit(void *ctx, size_t unit_idx, int thread_idx) {
    STATE_UNIT(op_ssm);
    uint32_t dim = a->per_channel ? a->heads : a->head_dim, tiles = (dim + SSM_TILE - 1) / SSM_TILE,
             head = unit / tiles, tile = unit % tiles,
             count = MIN((uint32_t)SSM_TILE, dim - tile * SSM_TILE);
    size_t tile_floats = (size_t)a->state_size * SSM_TILE;
    float *state = state_at(&a->state, slot) + unit * tile_floats;
    while (state_walk_next(&w)) {
        if (w.fresh)
            memset(state, 0, tile_floats * sizeof *state);
        for (uint32_t t = w.row; t < w.end; t++)
            if (a->per_channel)
                ssm_tile_row(true, a, state, t, 0, tile * SSM_TILE, count, tile * tile_floats);
            else
                ssm_tile_row(false, a, state, t, head, head * dim + tile * SSM_TILE, count, 0);
    }
}

static void cpu_ssm(struct stream *s, const struct op_ssm *a) {
    CHECK(a->heads % a->groups == 0 && (!a->per_channel || (a->head_dim == 1 && a->groups == 1)));
    uint32_t dim = a->per_channel ? a->heads : a->head_dim, tiles = (dim + SSM_TILE - 1) / SSM_TILE;
    state_loop(s, a, a->batch, (a->per_channel ? 1 : a->heads) * tiles,
               (size_t)a->heads * a->head_dim * a->state_size * (a->per_channel ? 16 : 4) / VW,
               ssm_unit);
}

/* ---- Mamba 3 ---- */

/* v = R (x + bias): lanes do not meet, so pairs go one by one. */
static void turn_pairs(float *v, const float *x, const float *bias, const float *sines,
                       const float *cosines, uint32_t count) {
    EACH_VECTOR(i, n, count) v_put(v + i, v_add(v_some(x + i, n), v_some(bias + i, n)), n);
    for (uint32_t i = 0; sines && i < count / 2; i++) {
        float re = v[2 * i], im = v[2 * i + 1];
        v[2 * i] = re * cosines[i] - im * sines[i];
        v[2 * i + 1] = re * sines[i] + im * cosines[i];
    }
}

static void trapezoid_row(const struct op_trapezoid *a, float *state, uint32_t t, uint32_t h) {
    float b[TRAPEZOID_STATE_MAX], c[TRAPEZOID_STATE_MAX], sines[TRAPEZOID_STATE_MAX / 2],
        cosines[TRAPEZOID_STATE_MAX / 2], lanes[VW];
    uint32_t count = a->state_size, g = h / (a->heads / a->groups), dim = a->dim;
    float *last_b = state + (size_t)count * dim, *last_x = last_b + count, *angle = last_x + dim,
          *out = ROW_OUT(a->out, a->heads * dim, t) + (size_t)h * dim,
          dt = ROW(a->dt, a->heads, t)[h];
    const float *x = ROW(a->x, a->x_stride, t) + (size_t)h * dim,
                *theta =
                    a->theta ? ROW(a->theta, a->turn_stride, t) + (size_t)h * (count / 2) : NULL;
    for (uint32_t i = 0; theta && i < count / 2; i++) {
        angle[i] = scalar_turned(angle[i], dt * theta[i]);
        scalar_sincos(angle[i], &sines[i], &cosines[i]);
    }
    turn_pairs(b, ROW(a->b, a->bc_stride, t) + (size_t)g * count, a->b_bias + (size_t)h * count,
               theta ? sines : NULL, cosines, count);
    turn_pairs(c, ROW(a->c, a->bc_stride, t) + (size_t)g * count, a->c_bias + (size_t)h * count,
               theta ? sines : NULL, cosines, count);
    v_store(lanes, v_exp(v_set1(dt * a->a[h])));
    float fade = lanes[0];
    v_store(lanes, v_sigmoid(v_set1(ROW(a->mix, a->turn_stride, t)[h])));
    float before = (1.0f - lanes[0]) * dt * fade, now = lanes[0] * dt;
    EACH_VECTOR(p, n, dim) v_put(out + p, v_mul(v_set1(a->d[h]), v_some(x + p, n)), n);
    for (uint32_t k = 0; k < count; k++) {
        float *row = state + (size_t)k * dim;
        vf old_b = v_set1(before * last_b[k]), new_b = v_set1(now * b[k]), ck = v_set1(c[k]);
        EACH_VECTOR(p, n, dim) {
            vf put = v_fma(old_b, v_some(last_x + p, n), v_mul(new_b, v_some(x + p, n)));
            vf s = v_fma(v_set1(fade), v_some(row + p, n), put);
            v_put(row + p, s, n);
            v_put(out + p, v_fma(ck, s, v_some(out + p, n)), n);
        }
    }
    memcpy(last_b, b, count * sizeof *b);
    memcpy(last_x, x, dim * sizeof *x);
}

static void trapezoid_unit(void *ctx, size_t unit_idx, int thread_idx) {
    STATE_UNIT(op_trapezoid);
    size_t head = trapezoid_head_floats(a->dim, a->state_size);
    float *state = state_at(&a->state, slot) + unit * head;
    while (state_walk_next(&w)) {
        if (w.fresh)
            memset(state, 0, head * sizeof *state);
        for (uint32_t t = w.row; t < w.end; t++)
            trapezoid_row(a, state, t, unit);
    }
}

static void cpu_trapezoid(struct stream *s, const struct op_trapezoid *a) {
    CHECK(a->heads % a->groups == 0 && a->state_size <= TRAPEZOID_STATE_MAX);
    state_loop(s, a, a->batch, a->heads, (size_t)a->heads * a->state_size * (4 * a->dim / VW + 30),
               trapezoid_unit);
}

/* sum[j] += factor * row[j]. */
ALWAYS_INLINE void add_scaled(float *sum, float factor, const float *row, uint32_t width) {
    vf f = v_set1(factor);
    EACH_VECTOR(j, n, width) v_put(sum + j, v_fma(f, v_some(row + j, n), v_some(sum + j, n)), n);
}

#include "kernels/cpu/delta.inc.h"

/* ---- RG-LRU ---- */

ALWAYS_INLINE void rglru_vector(const struct op_rglru *a, float *state, uint32_t t, uint32_t i,
                                uint32_t n) {
    const float *gates = ROW(a->gates, 2 * a->width, t);
    vf one = v_set1(1.0f),
       log_r = v_mul(v_some(a->a + i, n), v_sigmoid(v_some(gates + a->width + i, n)));
    vf r = v_exp(log_r), m = one,
       gated = v_mul(v_sigmoid(v_some(gates + i, n)), v_some(ROW(a->x, a->width, t) + i, n));
    if (a->batch->positions[t]) {
        float lanes[VW];
        v_store(lanes, v_add(log_r, log_r));
        /* 1 - r^2 without cancellation */
        for (int k = 0; k < VW; k++)
            lanes[k] = sqrtf(-expm1f(lanes[k]));
        m = v_load(lanes);
    }
    vf s = v_fma(r, v_some(state + i, n), v_mul(m, gated));
    v_put(state + i, s, n);
    v_put(ROW_OUT(a->out, a->width, t) + i, s, n);
}

static void rglru_unit(void *ctx, size_t unit_idx, int thread_idx) {
    STATE_UNIT(op_rglru);
    uint32_t first = unit * CHANNELS_A_UNIT, end = MIN(first + CHANNELS_A_UNIT, a->width);
    float *state = state_at(&a->state, slot);
    while (state_walk_next(&w)) {
        if (w.fresh)
            memset(state + first, 0, (end - first) * sizeof *state);
        for (uint32_t t = w.row; t < w.end; t++)
            for (uint32_t i = first; i < end; i += VW)
                rglru_vector(a, state, t, i, end - i);
    }
}

static void cpu_rglru(struct stream *s, const struct op_rglru *a) {
    state_loop(s, a, a->batch, channel_units(a->width), (size_t)a->width * 100 / VW, rglru_unit);
}

/* ---- RWKV ---- */

ALWAYS_INLINE void shift_vector(const struct op_shift *a, vf x, vf last, uint32_t t, uint32_t i,
                                uint32_t n) {
    vf step = v_sub(last, x);
    for (uint32_t m = 0; m < a->mixes; m++) {
        vf mix = v_some(a->mix + (size_t)m * a->width + i, n);
        if (a->dynamic)
            mix = v_add(
                mix, v_some(ROW(a->dynamic, a->mixes * a->width, t) + (size_t)m * a->width + i, n));
        v_put(ROW_OUT(a->out, a->width, (size_t)m * a->batch->row_count + t) + i,
              v_fma(step, mix, x), n);
    }
}

static void shift_unit(void *ctx, size_t unit_idx, int thread_idx) {
    STATE_UNIT(op_shift);
    uint32_t first = unit * CHANNELS_A_UNIT, end = MIN(first + CHANNELS_A_UNIT, a->width);
    float *state = state_at(&a->state, slot), kept[CHANNELS_A_UNIT];
    memcpy(kept, state + first, (end - first) * sizeof *kept);
    while (state_walk_next(&w)) {
        if (w.fresh)
            memset(kept, 0, sizeof kept);
        for (uint32_t t = w.row; t < w.end; t++)
            for (uint32_t i = first; i < end; i += VW) {
                vf x = v_some(ROW(a->x, a->width, t) + i, end - i);
                shift_vector(a, x, v_some(kept + i - first, end - i), t, i, end - i);
                v_put(kept + i - first, x, end - i);
            }
    }
    if (w.step && !a->peek && w.end)
        memcpy(state + first, kept, (end - first) * sizeof *kept);
}

static void cpu_shift(struct stream *s, const struct op_shift *a) {
    state_loop(s, a, a->batch, channel_units(a->width), (size_t)a->width * (a->mixes + 2) / VW,
               shift_unit);
}

ALWAYS_INLINE void wkv4_vector(const struct op_wkv4 *a, float *state, uint32_t t, uint32_t i,
                               uint32_t n) {
    float *num = state + i, *den = num + a->width, *max = den + a->width;
    vf k = v_some(ROW(a->k, a->width, t) + i, n), v = v_some(ROW(a->v, a->width, t) + i, n);
    vf A = v_some(num, n), B = v_some(den, n), m = v_some(max, n),
       own = v_add(k, v_some(a->first + i, n));
    vf o = v_max(m, own), e1 = v_exp(v_sub(m, o)), e2 = v_exp(v_sub(own, o));
    vf y = v_div(v_fma(e1, A, v_mul(e2, v)), v_fma(e1, B, e2));
    v_put(ROW_OUT(a->out, a->width, t) + i,
          v_mul(y, v_sigmoid(v_some(ROW(a->r, a->width, t) + i, n))), n);
    vf faded = v_add(m, v_some(a->decay + i, n)), top = v_max(faded, k);
    e1 = v_exp(v_sub(faded, top));
    e2 = v_exp(v_sub(k, top));
    v_put(num, v_fma(e1, A, v_mul(e2, v)), n);
    v_put(den, v_fma(e1, B, e2), n);
    v_put(max, top, n);
}

static void wkv4_unit(void *ctx, size_t unit_idx, int thread_idx) {
    STATE_UNIT(op_wkv4);
    uint32_t first = unit * CHANNELS_A_UNIT, end = MIN(first + CHANNELS_A_UNIT, a->width);
    float *state = state_at(&a->state, slot);
    while (state_walk_next(&w)) {
        for (uint32_t i = first; w.fresh && i < end; i++) {
            state[i] = state[a->width + i] = 0;
            state[2 * (size_t)a->width + i] = -1e38f;
        }
        for (uint32_t t = w.row; t < w.end; t++)
            for (uint32_t i = first; i < end; i += VW)
                wkv4_vector(a, state, t, i, end - i);
    }
}

static void cpu_wkv4(struct stream *s, const struct op_wkv4 *a) {
    state_loop(s, a, a->batch, channel_units(a->width), (size_t)a->width * 80 / VW, wkv4_unit);
}

struct wkv_vectors {
    float k[WKV_DIM_MAX], w[WKV_DIM_MAX], remove[WKV_DIM_MAX], put[WKV_DIM_MAX];
    float bonus; /* sum r u k */
};

static void wkv6_vectors(const struct op_wkv *a, struct wkv_vectors *p, size_t row, size_t at) {
    const float *r = (const float *)a->r + row, *k = (const float *)a->k + row,
                *w = (const float *)a->w + row;
    vf bonus = v_set1(0.0f), zero = bonus;
    EACH_VECTOR(i, n, a->dim) {
        vf raw = v_add(v_some(w + i, n), v_some(a->w_bias + at + i, n)), ki = v_some(k + i, n);
        v_put(p->w + i, v_exp(v_sub(zero, v_exp(raw))), n);
        v_put(p->k + i, ki, n);
        bonus = v_fma(v_mul(v_some(r + i, n), v_some(a->u + at + i, n)), ki, bonus);
    }
    p->bonus = v_hsum(bonus);
}

static void wkv7_vectors(const struct op_wkv *a, struct wkv_vectors *p, size_t row, size_t at) {
    const float *r = (const float *)a->r + row, *k = (const float *)a->k + row,
                *w = (const float *)a->w + row, *s = (const float *)a->s + row;
    vf bonus = v_set1(0.0f), squares = bonus, one = v_set1(1.0f);
    EACH_VECTOR(i, n, a->dim) {
        vf scaled = v_mul(v_some(k + i, n), v_some(a->key_scale + at + i, n));
        squares = v_fma(scaled, scaled, squares);
    }
    float length = sqrtf(v_hsum(squares));
    vf inverse = v_set1(-1.0f / (length < 1e-12f ? 1e-12f : length));
    EACH_VECTOR(i, n, a->dim) {
        vf ki = v_some(k + i, n),
           rate = v_sigmoid(v_add(v_some(s + i, n), v_some(a->s_bias + at + i, n)));
        vf remove = v_mul(v_mul(ki, v_some(a->key_scale + at + i, n)), inverse);
        vf raw = v_add(v_some(w + i, n), v_some(a->w_bias + at + i, n));
        v_put(p->w + i, v_exp(v_mul(v_set1(-0.606530659713f), v_sigmoid(raw))), n);
        v_put(p->remove + i, remove, n);
        v_put(p->put + i, v_mul(v_sub(v_set1(0.0f), remove), rate), n);
        ki = v_mul(ki, v_fma(v_sub(rate, one), v_some(a->key_mix + at + i, n), one));
        v_put(p->k + i, ki, n);
        bonus = v_fma(v_mul(v_some(r + i, n), v_some(a->u + at + i, n)), ki, bonus);
    }
    p->bonus = v_hsum(bonus);
}

/* out = norm(y), 7: + bonus * v; times the gate. */
static void wkv_finish(const struct op_wkv *a, const float *y, float bonus, size_t row, size_t at) {
    const float *v = (const float *)a->v + row,
                *gate = a->gate ? (const float *)a->gate + row : NULL;
    vf sum = v_set1(0.0f), squares = sum;
    EACH_VECTOR(j, n, a->dim) sum = v_add(sum, v_some(y + j, n));
    float mean = v_hsum(sum) / (float)a->dim;
    for (uint32_t j = 0; j < a->dim; j += VW) {
        float lanes[VW];
        for (uint32_t k = 0; k < VW; k++)
            lanes[k] = j + k < a->dim ? y[j + k] - mean : 0.0f;
        squares = v_fma(v_load(lanes), v_load(lanes), squares);
    }
    vf scale = v_set1(1.0f / sqrtf(v_hsum(squares) / (float)a->dim + a->eps)),
       middle = v_set1(mean);
    EACH_VECTOR(j, n, a->dim) {
        vf o = v_mul(v_sub(v_some(y + j, n), middle), scale);
        o = v_fma(o, v_some(a->norm_weight + at + j, n), v_some(a->norm_bias + at + j, n));
        if (a->seven)
            o = v_fma(v_set1(bonus), v_some(v + j, n), o);
        if (gate)
            o = v_mul(o, a->seven ? v_some(gate + j, n) : v_silu(v_some(gate + j, n)));
        v_put((float *)a->out + row + j, o, n);
    }
}

static void wkv_row(const struct op_wkv *a, float *state, uint32_t t, uint32_t h) {
    struct wkv_vectors p;
    float y[WKV_DIM_MAX] = {0}, e[WKV_DIM_MAX] = {0};
    uint32_t dim = a->dim;
    size_t at = (size_t)h * dim, row = (size_t)t * a->heads * dim + at;
    const float *r = (const float *)a->r + row, *v = (const float *)a->v + row;
    if (a->seven) {
        wkv7_vectors(a, &p, row, at);
        for (uint32_t i = 0; i < dim; i++)
            add_scaled(e, p.remove[i], state + (size_t)i * dim, dim);
    } else {
        wkv6_vectors(a, &p, row, at);
    }
    for (uint32_t i = 0; i < dim; i++) {
        float *line = state + (size_t)i * dim;
        vf ki = v_set1(p.k[i]), wi = v_set1(p.w[i]), ri = v_set1(r[i]),
           put = v_set1(a->seven ? p.put[i] : 0.0f);
        EACH_VECTOR(j, n, dim) {
            vf old = v_some(line + j, n), s = v_fma(wi, old, v_mul(ki, v_some(v + j, n)));
            if (a->seven)
                s = v_fma(put, v_some(e + j, n), s);
            v_put(line + j, s, n);
            v_put(y + j, v_fma(ri, a->seven ? s : old, v_some(y + j, n)), n);
        }
    }
    if (!a->seven)
        add_scaled(y, p.bonus, v, dim);
    wkv_finish(a, y, p.bonus, row, at);
}

static void wkv_unit(void *ctx, size_t unit_idx, int thread_idx) {
    STATE_UNIT(op_wkv);
    size_t head = (size_t)a->dim * a->dim;
    float *state = state_at(&a->state, slot) + unit * head;
    while (state_walk_next(&w)) {
        if (w.fresh)
            memset(state, 0, head * sizeof *state);
        for (uint32_t t = w.row; t < w.end; t++)
            wkv_row(a, state, t, unit);
    }
}

static void cpu_wkv(struct stream *s, const struct op_wkv *a) {
    CHECK(a->dim <= WKV_DIM_MAX);
    state_loop(s, a, a->batch, a->heads, (size_t)a->heads * a->dim * a->dim * 3 / VW, wkv_unit);
}

/* ---- rows ---- */

static void block_linear_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_block_linear *a = task->a;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++)
        for (uint32_t n = 0; n < a->blocks; n++) {
            float *out = ROW_OUT(a->out, a->blocks * a->cols, t) + (size_t)n * a->cols;
            const float *x = ROW(a->x, a->in_stride, t) + (size_t)n * a->x_block,
                        *weight = a->weight + (a->one_weight ? 0 : (size_t)n * a->inputs * a->cols),
                        *bias =
                            a->bias ? a->bias + (a->one_weight ? 0 : (size_t)n * a->cols) : NULL;
            for (uint32_t j = 0; j < a->cols; j++)
                out[j] = bias ? bias[j] : 0.0f;
            for (uint32_t i = 0; i < a->inputs; i++)
                add_scaled(out, x[i], weight + (size_t)i * a->cols, a->cols);
        }
}

static void cpu_block_linear(struct stream *s, const struct op_block_linear *a) {
    rows_loop(s, a, a->rows, (size_t)a->blocks * a->inputs * a->cols, block_linear_unit);
}

ALWAYS_INLINE void group_norm_group(const struct op_group_norm *a, float *out, const float *x,
                                    const float *gate, const float *weight) {
    vf acc = v_set1(0.0f);
    EACH_VECTOR(i, n, a->group) {
        vf u = v_some(x + i, n);
        if (gate && a->gate_first)
            u = v_mul(u, v_silu(v_some(gate + i, n)));
        acc = v_fma(u, u, acc);
    }
    vf scale = v_set1(1.0f / sqrtf(v_hsum(acc) / (float)a->group + a->eps));
    EACH_VECTOR(i, n, a->group) {
        vf u = v_some(x + i, n), f = gate ? v_silu(v_some(gate + i, n)) : v_set1(1.0f);
        if (gate && a->gate_first)
            u = v_mul(u, f);
        u = v_mul(u, scale);
        if (weight)
            u = v_mul(u, v_some(weight + i, n));
        if (gate && !a->gate_first)
            u = v_mul(u, f);
        v_put(out + i, u, n);
    }
}

static void group_norm_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_group_norm *a = task->a;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++)
        for (uint32_t i = 0; i < a->width; i += a->group)
            group_norm_group(a, ROW_OUT(a->out, a->out_stride, t) + i,
                             ROW(a->x, a->in_stride, t) + i,
                             a->gate ? ROW(a->gate, a->gate_stride, t) + i : NULL,
                             a->weight ? a->weight + (a->weight_shared ? 0 : i) : NULL);
}

static void cpu_group_norm(struct stream *s, const struct op_group_norm *a) {
    CHECK(a->group && a->width % a->group == 0);
    rows_loop(s, a, a->rows, (size_t)a->width * (a->gate ? 30 : 3), group_norm_unit);
}

ALWAYS_INLINE vf v_gate(enum gate_kind kind, vf x) {
    switch (kind) {
    case GATE_SIGMOID: return v_sigmoid(x);
    case GATE_SILU: return v_silu(x);
    case GATE_GELU_TANH: return v_gelu_tanh(x);
    case GATE_TANH: return v_tanh(x);
    case GATE_RELU2: x = v_max(v_set1(0.0f), x); return v_mul(x, x);
    default: return x;
    }
}

static void gate_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_gate *a = task->a;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++)
        EACH_VECTOR(i, n, a->width) {
            vf g = v_some(ROW(a->gate, a->gate_stride, t) + i, n);
            if (a->bias)
                g = v_add(g, v_some(a->bias + i, n));
            g = v_gate(a->kind, g);
            if (a->x)
                g = v_mul(g, v_some(ROW(a->x, a->x_stride, t) + i, n));
            v_put(ROW_OUT(a->out, a->out_stride, t) + i, g, n);
        }
}

static void cpu_gate(struct stream *s, const struct op_gate *a) {
    rows_loop(s, a, a->rows, (size_t)a->width * 20, gate_unit);
}

static void lerp_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct rows_task *task = ctx;
    const struct op_lerp *a = task->a;
    ROWS_OF(task, unit_idx, t, end);
    for (; t < end; t++)
        EACH_VECTOR(i, n, a->width) {
            vf x = v_some(ROW(a->x, a->width, t) + i, n), y = v_some(ROW(a->y, a->width, t) + i, n),
               g = v_some(ROW(a->gate, a->width, t) + i, n);
            if (a->bias)
                g = v_add(g, v_some(a->bias + i, n));
            v_put(ROW_OUT(a->x, a->width, t) + i, v_fma(v_sub(y, x), v_sigmoid(g), x), n);
        }
}

static void cpu_lerp(struct stream *s, const struct op_lerp *a) {
    rows_loop(s, a, a->rows, (size_t)a->width * 20, lerp_unit);
}

static const struct state_ops cpu_state_ops = {
    .conv = cpu_conv,
    .softplus = cpu_softplus,
    .ssm = cpu_ssm,
    .trapezoid = cpu_trapezoid,
    .delta = cpu_delta,
    .rglru = cpu_rglru,
    .shift = cpu_shift,
    .wkv4 = cpu_wkv4,
    .wkv = cpu_wkv,
    .block_linear = cpu_block_linear,
    .group_norm = cpu_group_norm,
    .gate = cpu_gate,
    .lerp = cpu_lerp,
};
