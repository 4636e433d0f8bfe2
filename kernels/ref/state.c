/* Operations with a state (ops_state.h), in the plainest form: sequences one after the other,
 * positions in order. */
#include <math.h>

#include "kernels/ref/ref.h"
#include "kernels/scalar_math.h"

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double silu(double x) {
    return x / (1 + exp(-x));
}
static double softplus(double x) {
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

#define AT(array, stride, t)  ((const float *)(array) + (size_t)(t) * (stride))
#define OUT(array, stride, t) ((float *)(array) + (size_t)(t) * (stride))

/* Runs `body` for each sequence `w` of the batch with its state `S` of `count` floats, cleared
 * where it begins, and each of its rows `t`. */
#define EACH_ROW(a, count, empty, body)                                                            \
    for (uint32_t run_ = 0; run_ < (a)->batch->run_count; run_++) {                                \
        struct state_walk w;                                                                       \
        if (!state_walk_begin(&w, (a)->batch, run_))                                               \
            continue;                                                                              \
        float *S = state_at(&(a)->state, (a)->batch->runs[run_].slot);                             \
        while (state_walk_next(&w)) {                                                              \
            if (w.fresh)                                                                           \
                empty(S, count);                                                                   \
            for (uint32_t t = w.row; t < w.end; t++)                                               \
                body;                                                                              \
        }                                                                                          \
    }

static void zeros(float *s, size_t count) {
    memset(s, 0, count * sizeof *s);
}

/* ---- convolution ---- */

static void conv_row(const struct op_conv *a, float *state, uint32_t t) {
    const float *x = AT(a->x, a->in_stride, t),
                *in = a->gate_in ? AT(a->gate_in, a->in_stride, t) : NULL,
                *gate = a->gate_out ? AT(a->gate_out, a->in_stride, t) : NULL;
    for (uint32_t c = 0; c < a->width; c++) {
        float u = in ? x[c] * in[c] : x[c];
        double sum = a->bias ? a->bias[c] : 0;
        for (uint32_t j = 0; j + 1 < a->taps; j++)
            sum += (double)a->weight[(size_t)j * a->width + c] * state[(size_t)j * a->width + c];
        sum += (double)a->weight[(size_t)(a->taps - 1) * a->width + c] * u;
        if (a->silu)
            sum = silu(sum);
        OUT(a->out, a->out_stride, t)[c] = (float)(gate ? sum * gate[c] : sum);
        for (uint32_t j = 0; j + 2 < a->taps; j++)
            state[(size_t)j * a->width + c] = state[(size_t)(j + 1) * a->width + c];
        if (a->taps > 1)
            state[(size_t)(a->taps - 2) * a->width + c] = u;
    }
}

static void ref_conv(struct stream *s, const struct op_conv *a) {
    CHECK(a->taps >= 1 && a->taps <= CONV_TAPS_MAX);
    EACH_ROW(a, (size_t)(a->taps - 1) * a->width, zeros, conv_row(a, S, t));
}

/* ---- state space ---- */

static void ref_softplus(struct stream *s, const struct op_softplus *a) {
    for (uint32_t t = 0; t < a->rows; t++)
        for (uint32_t i = 0; i < a->width; i++) {
            double x = AT(a->x, a->in_stride, t)[i] + (a->bias ? a->bias[i] : 0.0f);
            a->out[(size_t)t * a->width + i] = (float)fmin(fmax(softplus(x), a->low), a->high);
        }
}

static void ssm_row(const struct op_ssm *a, float *state, uint32_t t) {
    uint32_t channels = a->heads * a->head_dim, dim = a->per_channel ? channels : a->head_dim;
    size_t unit = ssm_state_floats(1, dim, a->state_size);
    for (uint32_t c = 0; c < channels; c++) {
        uint32_t h = c / a->head_dim, g = h / (a->heads / a->groups), i = a->per_channel ? c : h;
        const float *b = AT(a->b, a->bc_stride, t) + (size_t)g * a->state_size,
                    *cs = AT(a->c, a->bc_stride, t) + (size_t)g * a->state_size;
        float x = AT(a->x, a->x_stride, t)[c];
        double dt = AT(a->dt, a->per_channel ? channels : a->heads, t)[i], y = (double)a->d[i] * x;
        for (uint32_t n = 0; n < a->state_size; n++) {
            size_t at = ssm_tile_at(c % dim, n, a->state_size);
            float *v = &state[c / dim * unit + at];
            *v = (float)(exp(dt * a->a[a->per_channel ? at : h]) * *v + dt * x * b[n]);
            if (a->limit > 0)
                *v = *v < -a->limit ? -a->limit : *v > a->limit ? a->limit : *v;
            y += (double)cs[n] * *v;
        }
        OUT(a->out, a->out_stride, t)
        [c] = (float)(a->z ? y * silu(AT(a->z, a->z_stride, t)[c]) : y);
    }
}

static void ref_ssm(struct stream *s, const struct op_ssm *a) {
    CHECK(a->heads % a->groups == 0 && (!a->per_channel || a->head_dim == 1));
    size_t count = a->per_channel ? ssm_state_floats(1, a->heads, a->state_size)
                                  : ssm_state_floats(a->heads, a->head_dim, a->state_size);
    EACH_ROW(a, count, zeros, ssm_row(a, S, t));
}

/* ---- Mamba 3 ---- */

/* v = R (x + bias) */
static void turn(float *v, const float *x, const float *bias, const float *angle, uint32_t count) {
    for (uint32_t n = 0; n < count; n++)
        v[n] = x[n] + bias[n];
    for (uint32_t i = 0; angle && i < count / 2; i++) {
        double re = v[2 * i], im = v[2 * i + 1];
        float s, c;
        scalar_sincos(angle[i], &s, &c);
        v[2 * i] = (float)(re * c - im * s);
        v[2 * i + 1] = (float)(re * s + im * c);
    }
}

static void trapezoid_head(const struct op_trapezoid *a, float *state, uint32_t t, uint32_t h) {
    uint32_t count = a->state_size, g = h / (a->heads / a->groups);
    float *last_b = state + (size_t)count * a->dim, *last_x = last_b + count,
          *angle = last_x + a->dim, b[TRAPEZOID_STATE_MAX], c[TRAPEZOID_STATE_MAX];
    const float *x = AT(a->x, a->x_stride, t) + (size_t)h * a->dim, dt = AT(a->dt, a->heads, t)[h];
    for (uint32_t i = 0; a->theta && i < count / 2; i++)
        angle[i] = scalar_turned(angle[i],
                                 dt * AT(a->theta, a->turn_stride, t)[(size_t)h * (count / 2) + i]);
    turn(b, AT(a->b, a->bc_stride, t) + (size_t)g * count, a->b_bias + (size_t)h * count,
         a->theta ? angle : NULL, count);
    turn(c, AT(a->c, a->bc_stride, t) + (size_t)g * count, a->c_bias + (size_t)h * count,
         a->theta ? angle : NULL, count);
    double fade = exp((double)dt * a->a[h]), mix = sigmoid(AT(a->mix, a->turn_stride, t)[h]);
    for (uint32_t p = 0; p < a->dim; p++) {
        double y = (double)a->d[h] * x[p];
        for (uint32_t n = 0; n < count; n++) {
            float *s = &state[(size_t)n * a->dim + p];
            *s = (float)(fade * *s + (1 - mix) * dt * fade * last_b[n] * last_x[p] +
                         mix * dt * b[n] * x[p]);
            y += (double)c[n] * *s;
        }
        OUT(a->out, a->heads * a->dim, t)[(size_t)h * a->dim + p] = (float)y;
        last_x[p] = x[p];
    }
    memcpy(last_b, b, count * sizeof *b);
}

static void ref_trapezoid(struct stream *s, const struct op_trapezoid *a) {
    CHECK(a->heads % a->groups == 0 && a->state_size <= TRAPEZOID_STATE_MAX);
    size_t head = trapezoid_head_floats(a->dim, a->state_size);
    EACH_ROW(a, head * a->heads, zeros,
             for (uint32_t h = 0; h < a->heads; h++) trapezoid_head(a, S + h * head, t, h));
}

/* ---- gated delta rule ---- */

static double inverse_length(const float *x, uint32_t count) {
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)x[i] * x[i];
    return 1 / sqrt(sum + 1e-6);
}

static void delta_head(const struct op_delta *a, float *state, uint32_t t, uint32_t h) {
    uint32_t g = delta_key_head(a, h), dk = a->key_dim, dv = a->value_dim;
    const float *q = AT(a->q, a->in_stride, t) + (size_t)g * dk,
                *k = AT(a->k, a->in_stride, t) + (size_t)g * dk,
                *v = AT(a->v, a->in_stride, t) + (size_t)h * dv;
    double qs = inverse_length(q, dk) * a->scale, ks = inverse_length(k, dk),
           decay = exp((double)AT(a->dt, a->heads, t)[h] * a->a[h]),
           beta = sigmoid(AT(a->b, a->b_stride, t)[h]);
    for (uint32_t j = 0; j < dv; j++) {
        double memory = 0, y = 0;
        for (uint32_t i = 0; i < dk; i++)
            memory += decay * state[(size_t)i * dv + j] * k[i] * ks;
        double e = beta * (v[j] - memory);
        for (uint32_t i = 0; i < dk; i++) {
            float *s = &state[(size_t)i * dv + j];
            *s = (float)(decay * *s + k[i] * ks * e);
            y += *s * (q[i] * qs);
        }
        OUT(a->out, a->heads * dv, t)[(size_t)h * dv + j] = (float)y;
    }
}

static void ref_delta(struct stream *s, const struct op_delta *a) {
    CHECK(a->heads % a->key_heads == 0 && a->key_dim <= DELTA_DIM_MAX);
    size_t head = (size_t)a->key_dim * a->value_dim;
    EACH_ROW(a, head * a->heads, zeros,
             for (uint32_t h = 0; h < a->heads; h++) delta_head(a, S + h * head, t, h));
}

/* ---- RG-LRU ---- */

static void rglru_row(const struct op_rglru *a, float *state, uint32_t t) {
    const float *gates = AT(a->gates, 2 * a->width, t);
    bool first = a->batch->positions[t] == 0;
    for (uint32_t i = 0; i < a->width; i++) {
        double log_r = a->a[i] * sigmoid(gates[a->width + i]),
               m = first ? 1 : sqrt(-expm1(2 * log_r));
        state[i] =
            (float)(exp(log_r) * state[i] + m * sigmoid(gates[i]) * AT(a->x, a->width, t)[i]);
        OUT(a->out, a->width, t)[i] = state[i];
    }
}

static void ref_rglru(struct stream *s, const struct op_rglru *a) {
    EACH_ROW(a, a->width, zeros, rglru_row(a, S, t));
}

/* ---- RWKV ---- */

static void shift_row(const struct op_shift *a, float *last, uint32_t t) {
    const float *x = AT(a->x, a->width, t);
    for (uint32_t i = 0; i < a->width; i++)
        for (uint32_t m = 0; m < a->mixes; m++) {
            double mix = a->mix[(size_t)m * a->width + i];
            if (a->dynamic)
                mix += AT(a->dynamic, a->mixes * a->width, t)[(size_t)m * a->width + i];
            OUT(a->out, a->width, (size_t)m * a->batch->row_count + t)
            [i] = (float)(x[i] + (last[i] - x[i]) * mix);
        }
    memcpy(last, x, a->width * sizeof *x);
}

static void ref_shift(struct stream *s, const struct op_shift *a) {
    float *kept = mem_calloc(a->width, sizeof *kept);
    for (uint32_t run = 0; run < a->batch->run_count; run++) {
        struct state_walk w;
        if (!state_walk_begin(&w, a->batch, run))
            continue;
        float *last = state_at(&a->state, a->batch->runs[run].slot);
        memcpy(kept, last, a->width * sizeof *kept);
        while (state_walk_next(&w)) {
            if (w.fresh)
                zeros(kept, a->width);
            for (uint32_t t = w.row; t < w.end; t++)
                shift_row(a, kept, t);
            if (!a->peek)
                memcpy(last, kept, a->width * sizeof *kept);
        }
    }
    mem_free(kept);
}

static void wkv4_empty(float *s, size_t count) {
    for (size_t i = 0; i < count; i++)
        s[i] = i < count / 3 * 2 ? 0 : -1e38f;
}

static void wkv4_row(const struct op_wkv4 *a, float *state, uint32_t t) {
    uint32_t width = a->width;
    float *num = state, *den = state + width, *max = state + 2 * (size_t)width;
    for (uint32_t i = 0; i < width; i++) {
        double k = AT(a->k, width, t)[i], v = AT(a->v, width, t)[i], own = k + a->first[i],
               o = fmax(max[i], own);
        double e1 = exp(max[i] - o), e2 = exp(own - o);
        OUT(a->out, width, t)
        [i] = (float)(sigmoid(AT(a->r, width, t)[i]) * (e1 * num[i] + e2 * v) / (e1 * den[i] + e2));
        double n = fmax((double)max[i] + a->decay[i], k);
        e1 = exp((double)max[i] + a->decay[i] - n);
        e2 = exp(k - n);
        num[i] = (float)(e1 * num[i] + e2 * v);
        den[i] = (float)(e1 * den[i] + e2);
        max[i] = (float)n;
    }
}

static void ref_wkv4(struct stream *s, const struct op_wkv4 *a) {
    EACH_ROW(a, 3 * (size_t)a->width, wkv4_empty, wkv4_row(a, S, t));
}

/* What a head needs of a row: keys, decays, receptance, and for 7 the two vectors of the
 * removal. */
struct wkv_head {
    double r[WKV_DIM_MAX], k[WKV_DIM_MAX], w[WKV_DIM_MAX], remove[WKV_DIM_MAX], put[WKV_DIM_MAX];
    double bonus; /* sum r u k */
};

static void wkv_prepare(const struct op_wkv *a, struct wkv_head *p, uint32_t t, uint32_t h) {
    size_t at = (size_t)h * a->dim;
    const float *r = AT(a->r, a->heads * a->dim, t) + at, *k = AT(a->k, a->heads * a->dim, t) + at,
                *w = AT(a->w, a->heads * a->dim, t) + at,
                *s = a->seven ? AT(a->s, a->heads * a->dim, t) + at : NULL;
    double squares = 0, bonus = 0;
    for (uint32_t i = 0; a->seven && i < a->dim; i++)
        squares += pow((double)k[i] * a->key_scale[at + i], 2);
    for (uint32_t i = 0; i < a->dim; i++) {
        double raw = (double)w[i] + a->w_bias[at + i];
        p->r[i] = r[i];
        p->k[i] = k[i];
        p->w[i] = a->seven ? exp(-0.60653065971263342 * sigmoid(raw)) : exp(-exp(raw));
        p->remove[i] = p->put[i] = 0;
        if (a->seven) {
            double rate = sigmoid((double)s[i] + a->s_bias[at + i]);
            p->remove[i] = -(double)k[i] * a->key_scale[at + i] / fmax(sqrt(squares), 1e-12);
            p->put[i] = -p->remove[i] * rate;
            p->k[i] = k[i] * (1 + (rate - 1) * a->key_mix[at + i]);
        }
        bonus += p->r[i] * a->u[at + i] * p->k[i];
    }
    p->bonus = bonus;
}

static void wkv_norm(const struct op_wkv *a, const double *y, uint32_t t, uint32_t h,
                     double bonus) {
    size_t at = (size_t)h * a->dim, row = (size_t)t * a->heads * a->dim + at;
    const float *v = (const float *)a->v + row,
                *gate = a->gate ? (const float *)a->gate + row : NULL;
    double mean = 0, var = 0;
    for (uint32_t j = 0; j < a->dim; j++)
        mean += y[j] / a->dim;
    for (uint32_t j = 0; j < a->dim; j++)
        var += (y[j] - mean) * (y[j] - mean) / a->dim;
    for (uint32_t j = 0; j < a->dim; j++) {
        double o =
            (y[j] - mean) / sqrt(var + a->eps) * a->norm_weight[at + j] + a->norm_bias[at + j];
        if (a->seven)
            o += bonus * v[j];
        if (gate)
            o *= a->seven ? gate[j] : silu(gate[j]);
        ((float *)a->out)[row + j] = (float)o;
    }
}

static void wkv_head_row(const struct op_wkv *a, float *state, uint32_t t, uint32_t h) {
    const float *v = AT(a->v, a->heads * a->dim, t) + (size_t)h * a->dim;
    struct wkv_head p;
    double y[WKV_DIM_MAX];
    wkv_prepare(a, &p, t, h);
    for (uint32_t j = 0; j < a->dim; j++) {
        double e = 0, sum = a->seven ? 0 : p.bonus * v[j];
        for (uint32_t i = 0; a->seven && i < a->dim; i++)
            e += p.remove[i] * state[(size_t)i * a->dim + j];
        for (uint32_t i = 0; i < a->dim; i++) {
            float *s = &state[(size_t)i * a->dim + j];
            if (!a->seven)
                sum += p.r[i] * *s;
            *s = (float)(p.w[i] * *s + p.put[i] * e + p.k[i] * v[j]);
            if (a->seven)
                sum += p.r[i] * *s;
        }
        y[j] = sum;
    }
    wkv_norm(a, y, t, h, p.bonus);
}

static void ref_wkv(struct stream *s, const struct op_wkv *a) {
    CHECK(a->dim <= WKV_DIM_MAX);
    size_t head = (size_t)a->dim * a->dim;
    EACH_ROW(a, head * a->heads, zeros,
             for (uint32_t h = 0; h < a->heads; h++) wkv_head_row(a, S + h * head, t, h));
}

/* ---- rows ---- */

static void ref_block_linear(struct stream *s, const struct op_block_linear *a) {
    for (uint32_t t = 0; t < a->rows; t++)
        for (uint32_t n = 0; n < a->blocks; n++)
            for (uint32_t j = 0; j < a->cols; j++) {
                const float *x = AT(a->x, a->in_stride, t) + (size_t)n * a->x_block;
                size_t block = a->one_weight ? 0 : n;
                double sum = a->bias ? a->bias[block * a->cols + j] : 0;
                for (uint32_t i = 0; i < a->inputs; i++)
                    sum += (double)x[i] * a->weight[(block * a->inputs + i) * a->cols + j];
                OUT(a->out, a->blocks * a->cols, t)[(size_t)n * a->cols + j] = (float)sum;
            }
}

static void ref_group_norm(struct stream *s, const struct op_group_norm *a) {
    for (uint32_t t = 0; t < a->rows; t++)
        for (uint32_t first = 0; first < a->width; first += a->group) {
            const float *x = AT(a->x, a->in_stride, t) + first,
                        *gate = a->gate ? AT(a->gate, a->gate_stride, t) + first : NULL;
            float *out = OUT(a->out, a->out_stride, t) + first;
            double squares = 0;
            for (uint32_t i = 0; i < a->group; i++)
                squares += pow(gate && a->gate_first ? x[i] * silu(gate[i]) : x[i], 2);
            for (uint32_t i = 0; i < a->group; i++) {
                double weight = !a->weight ? 1 : a->weight[a->weight_shared ? i : first + i];
                out[i] = (float)(x[i] / sqrt(squares / a->group + a->eps) * weight *
                                 (gate ? silu(gate[i]) : 1));
            }
        }
}

static double gate_of(enum gate_kind kind, double x) {
    switch (kind) {
    case GATE_SIGMOID: return sigmoid(x);
    case GATE_SILU: return silu(x);
    case GATE_GELU_TANH: return x * sigmoid(1.5957691216057307118 * (x + 0.044715 * x * x * x));
    case GATE_TANH: return tanh(x);
    case GATE_RELU2: return x > 0 ? x * x : 0;
    default: return x;
    }
}

static void ref_gate(struct stream *s, const struct op_gate *a) {
    for (uint32_t t = 0; t < a->rows; t++)
        for (uint32_t i = 0; i < a->width; i++) {
            double f =
                gate_of(a->kind, AT(a->gate, a->gate_stride, t)[i] + (a->bias ? a->bias[i] : 0.0f));
            OUT(a->out, a->out_stride, t)[i] = (float)(a->x ? f * AT(a->x, a->x_stride, t)[i] : f);
        }
}

static void ref_lerp(struct stream *s, const struct op_lerp *a) {
    for (size_t i = 0; i < (size_t)a->rows * a->width; i++) {
        float *x = (float *)a->x + i;
        double g = ((const float *)a->gate)[i] + (a->bias ? a->bias[i % a->width] : 0);
        *x = (float)(*x + ((double)((const float *)a->y)[i] - *x) * sigmoid(g));
    }
}

const struct state_ops ref_state_ops = {
    .conv = ref_conv,
    .softplus = ref_softplus,
    .ssm = ref_ssm,
    .trapezoid = ref_trapezoid,
    .delta = ref_delta,
    .rglru = ref_rglru,
    .shift = ref_shift,
    .wkv4 = ref_wkv4,
    .wkv = ref_wkv,
    .block_linear = ref_block_linear,
    .group_norm = ref_group_norm,
    .gate = ref_gate,
    .lerp = ref_lerp,
};
