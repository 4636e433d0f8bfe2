/*
 * state_channels.cu - operations with a state whose channels do not meet (kernels/ops_state.h):
 * conv, ssm, rglru, shift, wkv4. One thread a channel, 128 a block; grid (runs, channels / 128). A
 * thread keeps to its channel through the sequence's rows, so its sums have one order. Cost: the
 * state once in and out of memory a row. No shared memory.
 */
#include "kernels/cuda/state.cuh"

enum { CHANNEL_THREADS = 128 };

static launch_shape channel_shape(const struct stream *s, const struct step_batch *b,
                                  uint32_t channels) {
    return {dim3(b->run_count, blocks_for(channels, CHANNEL_THREADS)), dim3(CHANNEL_THREADS), 0,
            device_of(s)->dependent_launch};
}
#define CHANNEL (blockIdx.y * CHANNEL_THREADS + threadIdx.x)

template <int A> static __global__ void conv_kernel(struct op_conv a, struct runs_view view) {
    typedef typename values<A>::raw raw;
    dependency_wait();
    dependents_launch();
    const uint32_t c = CHANNEL, last = a.taps - 1;
    if (c >= a.width)
        return;
    for (state_rows w(view, blockIdx.x); w.next();) {
        float *state = state_of(a.state, w.slot) + c;
        for (uint32_t j = 0; w.fresh && j < last; j++)
            state[(size_t)j * a.width] = 0;
        for (uint32_t t = w.row; t < w.end; t++) {
            const size_t at = (size_t)t * a.in_stride + c;
            float u = values<A>::get((const raw *)a.x + at), sum = a.bias ? a.bias[c] : 0.0f;
            if (a.gate_in)
                u *= values<A>::get((const raw *)a.gate_in + at);
            for (uint32_t j = 0; j < last; j++) {
                float old = state[(size_t)j * a.width];
                sum += a.weight[(size_t)j * a.width + c] * old;
                if (j)
                    state[(size_t)(j - 1) * a.width] = old;
            }
            if (last)
                state[(size_t)(last - 1) * a.width] = u;
            sum += a.weight[(size_t)last * a.width + c] * u;
            if (a.silu)
                sum = silu_of(sum);
            if (a.gate_out)
                sum *= values<A>::get((const raw *)a.gate_out + at);
            values<A>::set((raw *)a.out + (size_t)t * a.out_stride + c, sum);
        }
    }
}

void cuda_conv(struct stream *s, const struct op_conv *a) {
    CHECK(a->taps >= 1 && a->taps <= CONV_TAPS_MAX);
    if (!a->batch->run_count)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(conv_kernel<A>, channel_shape(s, a->batch, a->width), cuda_stream_of(s),
                           *a, runs_view_of(a->batch)));
}

template <int A> static __global__ void ssm_kernel(struct op_ssm a, struct runs_view view) {
    typedef typename values<A>::raw raw;
    dependency_wait();
    dependents_launch();
    const uint32_t channels = a.heads * a.head_dim, c = CHANNEL,
                   dim = a.per_channel ? channels : a.head_dim;
    if (c >= channels)
        return;
    const uint32_t h = c / a.head_dim, i = a.per_channel ? c : h, group = h / (a.heads / a.groups);
    const size_t unit = ssm_state_floats(1, dim, a.state_size),
                 first = ssm_tile_at(c % dim, 0, a.state_size);
    for (state_rows w(view, blockIdx.x); w.next();) {
        float *state = state_of(a.state, w.slot) + c / dim * unit + first;
        for (uint32_t n = 0; w.fresh && n < a.state_size; n++)
            state[(size_t)n * SSM_TILE] = 0;
        for (uint32_t t = w.row; t < w.end; t++) {
            const size_t bc = (size_t)t * a.bc_stride + (size_t)group * a.state_size;
            const raw *b = (const raw *)a.b + bc, *cs = (const raw *)a.c + bc;
            float x = values<A>::get((const raw *)a.x + (size_t)t * a.x_stride + c);
            float dt = a.dt[(size_t)t * (a.per_channel ? channels : a.heads) + i], put = dt * x;
            float decay = a.per_channel ? 0.0f : expf(dt * a.a[h]), y = a.d[i] * x;
            for (uint32_t n = 0; n < a.state_size; n++) {
                if (a.per_channel)
                    decay = expf(dt * a.a[first + (size_t)n * SSM_TILE]);
                float v = decay * state[(size_t)n * SSM_TILE] + put * values<A>::get(b + n);
                /* NaN stays */
                if (a.limit > 0)
                    v = v < -a.limit ? -a.limit : v > a.limit ? a.limit : v;
                state[(size_t)n * SSM_TILE] = v;
                y += values<A>::get(cs + n) * v;
            }
            if (a.z)
                y *= silu_of(values<A>::get((const raw *)a.z + (size_t)t * a.z_stride + c));
            values<A>::set((raw *)a.out + (size_t)t * a.out_stride + c, y);
        }
    }
}

void cuda_ssm(struct stream *s, const struct op_ssm *a) {
    CHECK(a->heads % a->groups == 0 && (!a->per_channel || (a->head_dim == 1 && a->groups == 1)));
    if (!a->batch->run_count)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(ssm_kernel<A>, channel_shape(s, a->batch, a->heads * a->head_dim),
                           cuda_stream_of(s), *a, runs_view_of(a->batch)));
}

template <int A> static __global__ void rglru_kernel(struct op_rglru a, struct runs_view view) {
    typedef typename values<A>::raw raw;
    dependency_wait();
    dependents_launch();
    const uint32_t i = CHANNEL;
    if (i >= a.width)
        return;
    for (state_rows w(view, blockIdx.x); w.next();) {
        float *state = state_of(a.state, w.slot) + i, v = w.fresh ? 0.0f : *state;
        for (uint32_t t = w.row; t < w.end; t++) {
            const raw *gates = (const raw *)a.gates + (size_t)t * 2 * a.width + i;
            float log_r = a.a[i] * sigmoid_of(values<A>::get(gates + a.width));
            float m = w.fresh && t == w.row ? 1.0f : sqrtf(-expm1f(2.0f * log_r));
            float x = values<A>::get((const raw *)a.x + (size_t)t * a.width + i);
            v = expf(log_r) * v + m * (sigmoid_of(values<A>::get(gates)) * x);
            values<A>::set((raw *)a.out + (size_t)t * a.width + i, v);
        }
        *state = v;
    }
}

void cuda_rglru(struct stream *s, const struct op_rglru *a) {
    if (!a->batch->run_count)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(rglru_kernel<A>, channel_shape(s, a->batch, a->width), cuda_stream_of(s),
                           *a, runs_view_of(a->batch)));
}

template <int A> static __global__ void shift_kernel(struct op_shift a, struct runs_view view) {
    typedef typename values<A>::raw raw;
    dependency_wait();
    dependents_launch();
    const uint32_t i = CHANNEL;
    if (i >= a.width)
        return;
    float last = 0;
    bool known = false;
    for (state_rows w(view, blockIdx.x); w.next();) {
        float *state = state_of(a.state, w.slot) + i;
        if (w.fresh)
            last = 0;
        else if (!known)
            last = *state;
        known = true;
        for (uint32_t t = w.row; t < w.end; t++) {
            float x = values<A>::get((const raw *)a.x + (size_t)t * a.width + i);
            for (uint32_t m = 0; m < a.mixes; m++) {
                float mix = a.mix[(size_t)m * a.width + i];
                const raw *dynamic =
                    (const raw *)a.dynamic + ((size_t)t * a.mixes + m) * a.width + i;
                if (a.dynamic)
                    mix += values<A>::get(dynamic);
                values<A>::set((raw *)a.out + ((size_t)m * view.row_count + t) * a.width + i,
                               x + (last - x) * mix);
            }
            last = x;
        }
        if (!a.peek)
            *state = last;
    }
}

void cuda_shift(struct stream *s, const struct op_shift *a) {
    if (!a->batch->run_count)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(shift_kernel<A>, channel_shape(s, a->batch, a->width), cuda_stream_of(s),
                           *a, runs_view_of(a->batch)));
}

template <int A> static __global__ void wkv4_kernel(struct op_wkv4 a, struct runs_view view) {
    typedef typename values<A>::raw raw;
    dependency_wait();
    dependents_launch();
    const uint32_t i = CHANNEL;
    if (i >= a.width)
        return;
    for (state_rows w(view, blockIdx.x); w.next();) {
        float *state = state_of(a.state, w.slot) + i;
        float num = w.fresh ? 0.0f : state[0], den = w.fresh ? 0.0f : state[a.width],
              max = w.fresh ? -1e38f : state[2 * (size_t)a.width];
        for (uint32_t t = w.row; t < w.end; t++) {
            const size_t at = (size_t)t * a.width + i;
            float k = values<A>::get((const raw *)a.k + at),
                  v = values<A>::get((const raw *)a.v + at);
            float own = k + a.first[i], top = own > max ? own : max, e1 = expf(max - top),
                  e2 = expf(own - top);
            float y = (e1 * num + e2 * v) / (e1 * den + e2);
            values<A>::set((raw *)a.out + at,
                           y * sigmoid_of(values<A>::get((const raw *)a.r + at)));
            float faded = max + a.decay[i];
            top = k > faded ? k : faded, e1 = expf(faded - top), e2 = expf(k - top);
            num = e1 * num + e2 * v;
            den = e1 * den + e2;
            max = top;
        }
        state[0] = num;
        state[a.width] = den;
        state[2 * (size_t)a.width] = max;
    }
}

void cuda_wkv4(struct stream *s, const struct op_wkv4 *a) {
    if (!a->batch->run_count)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(wkv4_kernel<A>, channel_shape(s, a->batch, a->width), cuda_stream_of(s),
                           *a, runs_view_of(a->batch)));
}
