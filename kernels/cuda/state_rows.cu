/*
 * state_rows.cu - the row operations that only mixers with a state need (kernels/ops_state.h):
 * softplus, block_linear, group_norm, gate, lerp; and the table of them all.
 *
 * One value a thread, 256 a block, but for group_norm: 128 threads a (row, group), sums by
 * block_sum. Tolerance: expf's 2 ulp and the rounding of the activation type.
 */
#include "kernels/cuda/state.cuh"

enum { ROWS_THREADS = 256, GROUP_THREADS = 128 };

static launch_shape rows_shape(const struct stream *s, uint32_t rows, uint32_t width) {
    return {dim3(rows, blocks_for(width, ROWS_THREADS)), dim3(ROWS_THREADS), 0,
            device_of(s)->dependent_launch};
}
#define COLUMN (blockIdx.y * ROWS_THREADS + threadIdx.x)

template <int A> static __global__ void softplus_kernel(struct op_softplus a) {
    dependency_wait();
    dependents_launch();
    const uint32_t i = COLUMN, t = blockIdx.x;
    if (i >= a.width)
        return;
    float x = values<A>::get((const typename values<A>::raw *)a.x + (size_t)t * a.in_stride + i);
    if (a.bias)
        x += a.bias[i];
    float v = (x > 0 ? x : 0.0f) + log1pf(expf(-fabsf(x)));
    v = v < a.low ? a.low : v;
    a.out[(size_t)t * a.width + i] = v > a.high ? a.high : v;
}

static void cuda_softplus(struct stream *s, const struct op_softplus *a) {
    if (!a->rows)
        return;
    WITH_ACTIVATION(
        s->dev->activation_type, A,
        LAUNCH(softplus_kernel<A>, rows_shape(s, a->rows, a->width), cuda_stream_of(s), *a));
}

template <int A> static __global__ void block_linear_kernel(struct op_block_linear a) {
    typedef typename values<A>::raw raw;
    dependency_wait();
    dependents_launch();
    const uint32_t o = COLUMN, t = blockIdx.x;
    if (o >= a.blocks * a.cols)
        return;
    const uint32_t n = o / a.cols, block = a.one_weight ? 0 : n;
    const raw *x = (const raw *)a.x + (size_t)t * a.in_stride + (size_t)n * a.x_block;
    const float *weight = a.weight + (size_t)block * a.inputs * a.cols + o % a.cols;
    float sum = a.bias ? a.bias[(size_t)block * a.cols + o % a.cols] : 0.0f;
    for (uint32_t i = 0; i < a.inputs; i++)
        sum += values<A>::get(x + i) * weight[(size_t)i * a.cols];
    values<A>::set((raw *)a.out + (size_t)t * a.blocks * a.cols + o, sum);
}

static void cuda_block_linear(struct stream *s, const struct op_block_linear *a) {
    if (!a->rows)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(block_linear_kernel<A>, rows_shape(s, a->rows, a->blocks * a->cols),
                           cuda_stream_of(s), *a));
}

template <int A> static __global__ void group_norm_kernel(struct op_group_norm a) {
    typedef typename values<A>::raw raw;
    DYNAMIC_SHARED(area);
    dependency_wait();
    dependents_launch();
    const uint32_t first = blockIdx.y * a.group, t = blockIdx.x;
    const raw *x = (const raw *)a.x + (size_t)t * a.in_stride + first,
              *gate = a.gate ? (const raw *)a.gate + (size_t)t * a.gate_stride + first : NULL;
    float squares = 0;
    for (uint32_t i = threadIdx.x; i < a.group; i += GROUP_THREADS) {
        float u = values<A>::get(x + i);
        if (gate && a.gate_first)
            u *= silu_of(values<A>::get(gate + i));
        squares += u * u;
    }
    const float scale = 1.0f / sqrtf(block_sum(squares, (float *)area) / (float)a.group + a.eps);
    for (uint32_t i = threadIdx.x; i < a.group; i += GROUP_THREADS) {
        float u = values<A>::get(x + i), f = gate ? silu_of(values<A>::get(gate + i)) : 1.0f;
        if (gate && a.gate_first)
            u *= f;
        u *= scale;
        if (a.weight)
            u *= a.weight[a.weight_shared ? i : first + i];
        if (gate && !a.gate_first)
            u *= f;
        values<A>::set((raw *)a.out + (size_t)t * a.out_stride + first + i, u);
    }
}

static void cuda_group_norm(struct stream *s, const struct op_group_norm *a) {
    CHECK(a->group && a->width % a->group == 0);
    if (!a->rows)
        return;
    launch_shape shape = {dim3(a->rows, a->width / a->group), dim3(GROUP_THREADS),
                          GROUP_THREADS / 32 * sizeof(float), device_of(s)->dependent_launch};
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(group_norm_kernel<A>, shape, cuda_stream_of(s), *a));
}

static __device__ __forceinline__ float gate_of(enum gate_kind kind, float x) {
    switch (kind) {
    case GATE_SIGMOID: return sigmoid_of(x);
    case GATE_SILU: return silu_of(x);
    case GATE_GELU_TANH: return x / (1.0f + expf(-1.5957691216f * (x + 0.044715f * x * x * x)));
    case GATE_TANH: return tanhf(x);
    case GATE_RELU2: return x > 0 ? x * x : 0.0f;
    default: return x;
    }
}

template <int A> static __global__ void gate_kernel(struct op_gate a) {
    typedef typename values<A>::raw raw;
    dependency_wait();
    dependents_launch();
    const uint32_t i = COLUMN, t = blockIdx.x;
    if (i >= a.width)
        return;
    float g = values<A>::get((const raw *)a.gate + (size_t)t * a.gate_stride + i);
    if (a.bias)
        g += a.bias[i];
    g = gate_of(a.kind, g);
    if (a.x)
        g *= values<A>::get((const raw *)a.x + (size_t)t * a.x_stride + i);
    values<A>::set((raw *)a.out + (size_t)t * a.out_stride + i, g);
}

static void cuda_gate(struct stream *s, const struct op_gate *a) {
    if (!a->rows)
        return;
    WITH_ACTIVATION(
        s->dev->activation_type, A,
        LAUNCH(gate_kernel<A>, rows_shape(s, a->rows, a->width), cuda_stream_of(s), *a));
}

template <int A> static __global__ void lerp_kernel(struct op_lerp a) {
    typedef typename values<A>::raw raw;
    dependency_wait();
    dependents_launch();
    const uint32_t i = COLUMN;
    const size_t at = (size_t)blockIdx.x * a.width + i;
    if (i >= a.width)
        return;
    float x = values<A>::get((const raw *)a.x + at), y = values<A>::get((const raw *)a.y + at),
          g = values<A>::get((const raw *)a.gate + at);
    if (a.bias)
        g += a.bias[i];
    values<A>::set((raw *)a.x + at, x + (y - x) * sigmoid_of(g));
}

static void cuda_lerp(struct stream *s, const struct op_lerp *a) {
    if (!a->rows)
        return;
    WITH_ACTIVATION(
        s->dev->activation_type, A,
        LAUNCH(lerp_kernel<A>, rows_shape(s, a->rows, a->width), cuda_stream_of(s), *a));
}

void cuda_conv(struct stream *s, const struct op_conv *a);
void cuda_ssm(struct stream *s, const struct op_ssm *a);
void cuda_rglru(struct stream *s, const struct op_rglru *a);
void cuda_shift(struct stream *s, const struct op_shift *a);
void cuda_wkv4(struct stream *s, const struct op_wkv4 *a);
void cuda_trapezoid(struct stream *s, const struct op_trapezoid *a);
void cuda_delta(struct stream *s, const struct op_delta *a);
void cuda_wkv(struct stream *s, const struct op_wkv *a);

/* In the order of struct state_ops. */
const struct state_ops cuda_state_ops = {
    cuda_conv,       cuda_softplus, cuda_ssm,  cuda_trapezoid, cuda_delta,
    cuda_rglru,      cuda_shift,    cuda_wkv4, cuda_wkv,       cuda_block_linear,
    cuda_group_norm, cuda_gate,     cuda_lerp};
