/*
 * norm.cu - fused residual addition and RMSNorm (kernels/ops.h: op_rmsnorm).
 *
 * h = x + delta * delta_scale (rounded as x is stored); x = h; out = h * rsqrt(mean(h^2) + eps) * (weight + offset), or
 * h. One block of 256 threads a row; each thread sums its values in ascending order, then warps by a
 * fixed tree, then the eight warps in order: a row's bits depend on the row alone. Cost: reads x, delta, writes x, out
 * once. Shared memory: 8 floats.
 */
#include "kernels/cuda/cuda_device.cuh"

enum { NORM_THREADS = 256 };

struct rms_args {
    const float *weight;
    uint32_t width;
    float eps, weight_offset, delta_scale;
};

/* Types of out, of x, of delta. */
template <int O, int X, int A>
static __global__ void rmsnorm_kernel(typename values<O>::raw *out, typename values<X>::raw *x,
                                      const typename values<A>::raw *delta, struct rms_args n) {
    DYNAMIC_SHARED(area);
    float *partial = (float *)area; /* [warps] */
    dependency_wait();
    typename values<X>::raw *row = x + (size_t)blockIdx.x * n.width;
    /* 1. h, and the sum of its squares */
    float squares = 0;
    for (uint32_t i = threadIdx.x; i < n.width; i += NORM_THREADS) {
        float h = values<X>::get(row + i);
        if (delta) {
            values<X>::put(row + i, h + values<A>::get(delta + (size_t)blockIdx.x * n.width + i) * n.delta_scale);
            h = values<X>::get(row + i);
        }
        squares += h * h;
    }
    if (!out) return;
    squares = warp_sum(squares);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = squares;
    __syncthreads();
    float total = 0;
    for (int w = 0; w < NORM_THREADS / 32; w++) total += partial[w];
    /* 2. scale; each thread reads back what it wrote itself */
    const float scale = 1.0f / sqrtf(total / (float)n.width + n.eps);
    dependents_launch();
    for (uint32_t i = threadIdx.x; i < n.width; i += NORM_THREADS) {
        const float h = values<X>::get(row + i);
        values<O>::put(out + (size_t)blockIdx.x * n.width + i,
                       n.weight ? h * scale * (n.weight[i] + n.weight_offset) : h);
    }
}

template <int O, int X, int A> static void rmsnorm(struct stream *s, const struct op_rmsnorm *a) {
    launch_shape shape = {dim3(a->rows), dim3(NORM_THREADS), NORM_THREADS / 32 * sizeof(float),
                          device_of(s)->dependent_launch};
    const struct rms_args n = {a->weight, a->width, a->eps, a->weight_offset, a->delta_scale != 0 ? a->delta_scale : 1};
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
    if (!a->rows) return;
    WITH_ACTIVATION(s->dev->activation_type, A, rmsnorm_of<A>(s, a));
}
