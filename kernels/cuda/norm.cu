/*
 * norm.cu - fused residual addition and RMSNorm (kernels/ops.h: op_rmsnorm).
 *
 * h = x + delta * delta_scale (rounded as x is stored); x = h; out = h * rsqrt(mean(h^2) + eps) *
 * (weight + offset), or h. One block of 256 threads a row; each thread sums its values in ascending
 * order, then warps by a fixed tree, then the eight warps in order: a row's bits depend on the row
 * alone. Cost: reads x, delta, writes x, out once. Shared memory: 8 floats.
 */
#include "kernels/cuda/cuda_device.cuh"

/* Values a thread keeps in registers: all its loads of them are under way before it sums. */
enum { NORM_THREADS = 256, NORM_KEPT = 16 };

struct rms_args {
    const float *weight;
    uint32_t width;
    float eps, weight_offset, delta_scale;
};

/* NORM_KEPT values of a row from `first` on, every NORM_THREADS-th; delta is added and the sum
 * written. Past the width: zeros. */
template <int X, int A>
static __device__ __forceinline__ void take_values(float h[NORM_KEPT], typename values<X>::raw *row,
                                                   const typename values<A>::raw *delta,
                                                   uint32_t first, const struct rms_args &n) {
    typename values<A>::raw added[NORM_KEPT];
    typename values<X>::raw stored[NORM_KEPT];
#pragma unroll
    for (uint32_t j = 0; j < NORM_KEPT; j++) {
        const uint32_t i = first + j * NORM_THREADS;
        stored[j] = i < n.width ? row[i] : (typename values<X>::raw)0;
        added[j] = delta && i < n.width ? delta[i] : (typename values<A>::raw)0;
    }
#pragma unroll
    for (uint32_t j = 0; j < NORM_KEPT; j++) {
        const uint32_t i = first + j * NORM_THREADS;
        h[j] = values<X>::get(&stored[j]);
        if (!delta || i >= n.width)
            continue;
        values<X>::set(&stored[j], h[j] + values<A>::get(&added[j]) * n.delta_scale);
        h[j] = values<X>::get(&stored[j]);
        row[i] = stored[j];
    }
}

/* Types of out, of x, of delta. */
template <int O, int X, int A>
static __global__ void rmsnorm_kernel(typename values<O>::raw *out, typename values<X>::raw *x,
                                      const typename values<A>::raw *delta, struct rms_args n) {
    enum { ONCE = NORM_THREADS * NORM_KEPT };
    DYNAMIC_SHARED(area);
    float *partial = (float *)area; /* [warps] */
    typename values<X>::raw *row = x + (size_t)blockIdx.x * n.width;
    typename values<O>::raw *to = out + (size_t)blockIdx.x * n.width;
    const typename values<A>::raw *add = delta ? delta + (size_t)blockIdx.x * n.width : NULL;
    if (n.weight && threadIdx.x * 32 < n.width)
        prefetch_l2(n.weight + threadIdx.x * 32); /* a weight: no kernel writes it */
    dependents_launch();
    dependency_wait();
    /* 1. h, and the sum of its squares; of a row wider than ONCE the first values are kept */
    float kept[NORM_KEPT], squares = 0;
    take_values<X, A>(kept, row, add, threadIdx.x, n);
#pragma unroll
    for (uint32_t j = 0; j < NORM_KEPT; j++)
        squares += kept[j] * kept[j];
    for (uint32_t first = ONCE + threadIdx.x; first < n.width; first += ONCE) {
        float h[NORM_KEPT];
        take_values<X, A>(h, row, add, first, n);
#pragma unroll
        for (uint32_t j = 0; j < NORM_KEPT; j++)
            squares += h[j] * h[j];
    }
    if (!out)
        return;
    squares = warp_sum(squares);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = squares;
    __syncthreads();
    float total = 0;
    for (int w = 0; w < NORM_THREADS / 32; w++)
        total += partial[w];
    /* 2. scale; each thread reads back what it wrote itself and did not keep */
    const float scale = 1.0f / sqrtf(total / (float)n.width + n.eps);
#pragma unroll
    for (uint32_t j = 0; j < NORM_KEPT; j++) {
        const uint32_t i = threadIdx.x + j * NORM_THREADS;
        if (i < n.width)
            values<O>::set(to + i,
                           n.weight ? kept[j] * scale * (n.weight[i] + n.weight_offset) : kept[j]);
    }
    for (uint32_t i = ONCE + threadIdx.x; i < n.width; i += NORM_THREADS) {
        const float h = values<X>::get(row + i);
        values<O>::set(to + i, n.weight ? h * scale * (n.weight[i] + n.weight_offset) : h);
    }
}

template <int O, int X, int A> static void rmsnorm(struct stream *s, const struct op_rmsnorm *a) {
    launch_shape shape = {dim3(a->rows), dim3(NORM_THREADS), NORM_THREADS / 32 * sizeof(float),
                          device_of(s)->dependent_launch};
    const struct rms_args n = {a->weight, a->width, a->eps, a->weight_offset,
                               a->delta_scale != 0 ? a->delta_scale : 1};
    LAUNCH((rmsnorm_kernel<O, X, A>), shape, cuda_stream_of(s), (typename values<O>::raw *)a->out,
           (typename values<X>::raw *)a->x, (const typename values<A>::raw *)a->delta, n);
}

/* x in f32; types of activations, of delta. */
template <int A, int D> static void rmsnorm_f32(struct stream *s, const struct op_rmsnorm *a) {
    if (a->out == a->x)
        rmsnorm<STORAGE_F32, STORAGE_F32, D>(s, a);
    else
        rmsnorm<A, STORAGE_F32, D>(s, a);
}

template <int A> static void rmsnorm_of(struct stream *s, const struct op_rmsnorm *a) {
    if (!a->x_f32)
        rmsnorm<A, A, A>(s, a);
    else if (a->delta_f32)
        rmsnorm_f32<A, STORAGE_F32>(s, a);
    else
        rmsnorm_f32<A, A>(s, a);
}

void cuda_rmsnorm(struct stream *s, const struct op_rmsnorm *a) {
    if (!a->rows)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A, rmsnorm_of<A>(s, a));
}
