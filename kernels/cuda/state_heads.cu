/*
 * state_heads.cu - the gated delta rule, Mamba 3 and RWKV-6 and 7 (kernels/ops_state.h): a state
 * [keys, values] a head.
 *
 * One block of 128 threads a (sequence, head); a thread has value columns j, j + 128, ... and sums
 * over keys in ascending order, so reads of the state are coalesced and each column has one order
 * of additions. What all columns need of a row (scaled keys, decays, ...) lies in shared memory.
 * Cost: the state once in and out of memory a row.
 */
#include "kernels/cuda/exact.cuh"
#include "kernels/cuda/state.cuh"

enum { HEAD_THREADS = 128, HEAD_WARPS = HEAD_THREADS / 32 };

static launch_shape head_shape(const struct stream *s, const struct step_batch *b, uint32_t heads,
                               size_t floats) {
    return {dim3(b->run_count, heads), dim3(HEAD_THREADS), (floats + HEAD_WARPS) * sizeof(float),
            device_of(s)->dependent_launch};
}

/* to = x * scale / sqrt(sum of squares + 1e-6). */
template <int A>
static __device__ void unit_vector(float *to, const typename values<A>::raw *x, uint32_t width,
                                   float scale, float *partial) {
    float squares = 0;
    for (uint32_t i = threadIdx.x; i < width; i += HEAD_THREADS) {
        float v = values<A>::get(x + i);
        to[i] = v;
        squares += v * v;
    }
    float factor = scale / sqrtf(block_sum(squares, partial) + 1e-6f);
    for (uint32_t i = threadIdx.x; i < width; i += HEAD_THREADS)
        to[i] *= factor;
}

template <int A> static __global__ void delta_kernel(struct op_delta a, struct runs_view view) {
    typedef typename values<A>::raw raw;
    DYNAMIC_SHARED(area);
    float *partial = (float *)area, *q = partial + HEAD_WARPS, *k = q + a.key_dim;
    dependency_wait();
    dependents_launch();
    const uint32_t h = blockIdx.y, g = delta_key_head(&a, h), dk = a.key_dim, dv = a.value_dim;
    for (state_rows w(view, blockIdx.x); w.next();) {
        float *state = state_of(a.state, w.slot) + (size_t)h * dk * dv;
        for (uint32_t j = threadIdx.x; w.fresh && j < dv; j += HEAD_THREADS)
            for (uint32_t i = 0; i < dk; i++)
                state[(size_t)i * dv + j] = 0;
        for (uint32_t t = w.row; t < w.end; t++) {
            const size_t at = (size_t)t * a.in_stride;
            __syncthreads(); /* q and k of the row before are read */
            unit_vector<A>(q, (const raw *)a.q + at + (size_t)g * dk, dk, a.scale, partial);
            unit_vector<A>(k, (const raw *)a.k + at + (size_t)g * dk, dk, 1.0f, partial);
            __syncthreads();
            const float fade = expf(a.dt[(size_t)t * a.heads + h] * a.a[h]);
            const float beta =
                sigmoid_of(values<A>::get((const raw *)a.b + (size_t)t * a.b_stride + h));
            for (uint32_t j = threadIdx.x; j < dv; j += HEAD_THREADS) {
                float memory = 0, y = 0;
                for (uint32_t i = 0; i < dk; i++)
                    memory += k[i] * state[(size_t)i * dv + j];
                float e = beta * (values<A>::get((const raw *)a.v + at + (size_t)h * dv + j) -
                                  fade * memory);
                for (uint32_t i = 0; i < dk; i++) {
                    float v = fade * state[(size_t)i * dv + j] + k[i] * e;
                    state[(size_t)i * dv + j] = v;
                    y += q[i] * v;
                }
                values<A>::set((raw *)a.out + ((size_t)t * a.heads + h) * dv + j, y);
            }
        }
    }
}

void cuda_delta(struct stream *s, const struct op_delta *a) {
    CHECK(a->heads % a->key_heads == 0 && a->key_dim <= DELTA_DIM_MAX &&
          a->value_dim <= DELTA_DIM_MAX);
    if (!a->batch->run_count)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(delta_kernel<A>,
                           head_shape(s, a->batch, a->heads, 2 * (size_t)a->key_dim),
                           cuda_stream_of(s), *a, runs_view_of(a->batch)));
}

/* What the threads of a (sequence, head) share, [state] each: B and C turned, and B of the row
 * before. */
struct trapezoid_row {
    float *b, *c, *last_b;
};

/* The row's B and C; the thread of a pair has its angle. */
template <int A>
static __device__ void trapezoid_turn(const struct op_trapezoid &a, const struct trapezoid_row &p,
                                      float *angle, uint32_t t, uint32_t h, float dt) {
    typedef typename values<A>::raw raw;
    const uint32_t count = a.state_size, half = count / 2;
    const size_t in = (size_t)h * count,
                 bc = (size_t)t * a.bc_stride + (size_t)(h / (a.heads / a.groups)) * count;
    for (uint32_t n = threadIdx.x; n < count; n += HEAD_THREADS) {
        p.b[n] = values<A>::get((const raw *)a.b + bc + n) + a.b_bias[in + n];
        p.c[n] = values<A>::get((const raw *)a.c + bc + n) + a.c_bias[in + n];
    }
    if (!a.theta)
        return;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < half; i += HEAD_THREADS) {
        const float theta =
            values<A>::get((const raw *)a.theta + (size_t)t * a.turn_stride + (size_t)h * half + i);
        float *pairs[] = {p.b + 2 * i, p.c + 2 * i}, sine, cosine;
        angle[i] = exact_turned(angle[i], __fmul_rn(dt, theta));
        exact_sincos(angle[i], &sine, &cosine);
        for (int k = 0; k < 2; k++) {
            const float re = pairs[k][0], im = pairs[k][1];
            pairs[k][0] = re * cosine - im * sine;
            pairs[k][1] = re * sine + im * cosine;
        }
    }
}

/* Column p of the state goes one position on. */
static __device__ __forceinline__ float trapezoid_column(const struct op_trapezoid &a,
                                                         const struct trapezoid_row &p,
                                                         float *state, float fade, float before,
                                                         float now) {
    float y = 0;
    for (uint32_t n = 0; n < a.state_size; n++) {
        float v = fade * state[(size_t)n * a.dim] + (before * p.last_b[n] + now * p.b[n]);
        state[(size_t)n * a.dim] = v;
        y += p.c[n] * v;
    }
    return y;
}

template <int A>
static __global__ void trapezoid_kernel(struct op_trapezoid a, struct runs_view view) {
    typedef typename values<A>::raw raw;
    DYNAMIC_SHARED(area);
    const uint32_t count = a.state_size, h = blockIdx.y;
    struct trapezoid_row p = {(float *)area, (float *)area + count, (float *)area + 2 * count};
    dependency_wait();
    dependents_launch();
    for (state_rows w(view, blockIdx.x); w.next();) {
        float *state = state_of(a.state, w.slot) + h * trapezoid_head_floats(a.dim, count),
              *last_b = state + (size_t)count * a.dim, *last_x = last_b + count,
              *angle = last_x + a.dim;
        if (w.fresh)
            for (size_t i = threadIdx.x; i < trapezoid_head_floats(a.dim, count); i += HEAD_THREADS)
                state[i] = 0;
        __syncthreads();
        for (uint32_t n = threadIdx.x; n < count; n += HEAD_THREADS)
            p.last_b[n] = last_b[n];
        for (uint32_t t = w.row; t < w.end; t++) {
            const float dt = a.dt[(size_t)t * a.heads + h], fade = expf(dt * a.a[h]),
                        mix = sigmoid_of(
                            values<A>::get((const raw *)a.mix + (size_t)t * a.turn_stride + h));
            trapezoid_turn<A>(a, p, angle, t, h, dt);
            __syncthreads(); /* B and C are there */
            for (uint32_t i = threadIdx.x; i < a.dim; i += HEAD_THREADS) {
                const float x = values<A>::get((const raw *)a.x + (size_t)t * a.x_stride +
                                               (size_t)h * a.dim + i);
                float y = trapezoid_column(a, p, state + i, fade,
                                           (1.0f - mix) * dt * fade * last_x[i], mix * dt * x);
                values<A>::set((raw *)a.out + ((size_t)t * a.heads + h) * a.dim + i,
                               a.d[h] * x + y);
                last_x[i] = x;
            }
            __syncthreads(); /* and read */
            float *free_row = p.last_b;
            p.last_b = p.b;
            p.b = free_row;
        }
        for (uint32_t n = threadIdx.x; n < count; n += HEAD_THREADS)
            last_b[n] = p.last_b[n];
        __syncthreads();
    }
}

void cuda_trapezoid(struct stream *s, const struct op_trapezoid *a) {
    CHECK(a->heads % a->groups == 0 && a->state_size <= TRAPEZOID_STATE_MAX);
    if (!a->batch->run_count)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(trapezoid_kernel<A>,
                           head_shape(s, a->batch, a->heads, 3 * (size_t)a->state_size),
                           cuda_stream_of(s), *a, runs_view_of(a->batch)));
}

/* A head's vectors of one row, in shared memory: [dim] each. */
struct wkv_row {
    float *r, *k, *w, *remove, *put, *y, bonus;
};

/* From inputs at `at` of the row and parameters at `in` of the head; ends with all threads seeing
 * all of it. */
template <int A>
static __device__ void wkv_prepare(const struct op_wkv &a, struct wkv_row &p, size_t at, size_t in,
                                   float *partial) {
    typedef typename values<A>::raw raw;
    float inverse = 0, bonus = 0;
    if (a.seven) {
        float squares = 0;
        for (uint32_t i = threadIdx.x; i < a.dim; i += HEAD_THREADS) {
            float v = values<A>::get((const raw *)a.k + at + i) * a.key_scale[in + i];
            squares += v * v;
        }
        float length = sqrtf(block_sum(squares, partial));
        inverse = -1.0f / (length < 1e-12f ? 1e-12f : length);
    }
    for (uint32_t i = threadIdx.x; i < a.dim; i += HEAD_THREADS) {
        float k = values<A>::get((const raw *)a.k + at + i),
              raw_w = values<A>::get((const raw *)a.w + at + i) + a.w_bias[in + i];
        p.r[i] = values<A>::get((const raw *)a.r + at + i);
        p.w[i] = a.seven ? expf(-0.606530659713f * sigmoid_of(raw_w)) : expf(-expf(raw_w));
        p.remove[i] = p.put[i] = 0;
        if (a.seven) {
            float rate = sigmoid_of(values<A>::get((const raw *)a.s + at + i) + a.s_bias[in + i]);
            p.remove[i] = k * a.key_scale[in + i] * inverse;
            p.put[i] = -p.remove[i] * rate;
            k *= 1.0f + (rate - 1.0f) * a.key_mix[in + i];
        }
        p.k[i] = k;
        bonus += p.r[i] * a.u[in + i] * k;
    }
    p.bonus = block_sum(bonus, partial);
}

/* One value column of the state goes one position on; y without its bonus. */
static __device__ __forceinline__ float wkv_column(const struct op_wkv &a, const struct wkv_row &p,
                                                   float *state, float v) {
    float e = 0, y = 0;
    for (uint32_t i = 0; a.seven && i < a.dim; i++)
        e += p.remove[i] * state[(size_t)i * a.dim];
    for (uint32_t i = 0; i < a.dim; i++) {
        float old = state[(size_t)i * a.dim], now = p.w[i] * old + p.k[i] * v + p.put[i] * e;
        state[(size_t)i * a.dim] = now;
        y += p.r[i] * (a.seven ? now : old);
    }
    return y;
}

template <int A>
static __device__ void wkv_finish(const struct op_wkv &a, const struct wkv_row &p, size_t at,
                                  size_t in, float *partial) {
    typedef typename values<A>::raw raw;
    float sum = 0, squares = 0;
    for (uint32_t j = threadIdx.x; j < a.dim; j += HEAD_THREADS)
        sum += p.y[j];
    const float mean = block_sum(sum, partial) / (float)a.dim;
    for (uint32_t j = threadIdx.x; j < a.dim; j += HEAD_THREADS)
        squares += (p.y[j] - mean) * (p.y[j] - mean);
    const float scale = 1.0f / sqrtf(block_sum(squares, partial) / (float)a.dim + a.eps);
    for (uint32_t j = threadIdx.x; j < a.dim; j += HEAD_THREADS) {
        float o = (p.y[j] - mean) * scale * a.norm_weight[in + j] + a.norm_bias[in + j];
        if (a.seven)
            o += p.bonus * values<A>::get((const raw *)a.v + at + j);
        if (a.gate) {
            float gate = values<A>::get((const raw *)a.gate + at + j);
            o *= a.seven ? gate : silu_of(gate);
        }
        values<A>::set((raw *)a.out + at + j, o);
    }
}

template <int A> static __global__ void wkv_kernel(struct op_wkv a, struct runs_view view) {
    typedef typename values<A>::raw raw;
    DYNAMIC_SHARED(area);
    float *partial = (float *)area, *vectors = partial + HEAD_WARPS;
    const uint32_t dim = a.dim, h = blockIdx.y;
    struct wkv_row p = {vectors,
                        vectors + dim,
                        vectors + 2 * dim,
                        vectors + 3 * dim,
                        vectors + 4 * dim,
                        vectors + 5 * dim,
                        0};
    dependency_wait();
    dependents_launch();
    for (state_rows w(view, blockIdx.x); w.next();) {
        float *state = state_of(a.state, w.slot) + (size_t)h * dim * dim;
        for (uint32_t j = threadIdx.x; w.fresh && j < dim; j += HEAD_THREADS)
            for (uint32_t i = 0; i < dim; i++)
                state[(size_t)i * dim + j] = 0;
        for (uint32_t t = w.row; t < w.end; t++) {
            const size_t in = (size_t)h * dim, at = (size_t)t * a.heads * dim + in;
            __syncthreads(); /* the row before is done with the vectors */
            wkv_prepare<A>(a, p, at, in, partial);
            for (uint32_t j = threadIdx.x; j < dim; j += HEAD_THREADS) {
                float v = values<A>::get((const raw *)a.v + at + j),
                      y = wkv_column(a, p, state + j, v);
                p.y[j] = a.seven ? y : y + p.bonus * v;
            }
            wkv_finish<A>(a, p, at, in, partial);
        }
    }
}

void cuda_wkv(struct stream *s, const struct op_wkv *a) {
    CHECK(a->dim <= WKV_DIM_MAX);
    if (!a->batch->run_count)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(wkv_kernel<A>, head_shape(s, a->batch, a->heads, 6 * (size_t)a->dim),
                           cuda_stream_of(s), *a, runs_view_of(a->batch)));
}
