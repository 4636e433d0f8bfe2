/*
 * norm.cu - fused residual addition and RMSNorm (kernels/ops.h: op_rmsnorm).
 *
 * h = x + delta * delta_scale (rounded to the activation type, as x is stored); x = h; out = h * rsqrt(mean(h^2) + eps)
 * * (weight + offset). One block of 256 threads a row; each thread sums its values in ascending order, then warps by a
 * fixed tree, then the eight warps in order: a row's bits depend on the row alone. Cost: reads x, delta, writes x, out
 * once: 4 * width * sizeof(act) bytes a row. Shared memory: 8 floats.
 */
#include "kernels/cuda/cuda_device.cuh"

enum { NORM_THREADS = 256 };

template <int A>
static __global__ void rmsnorm_kernel(typename values<A>::raw *out, typename values<A>::raw *x,
                                      const typename values<A>::raw *delta, const float *weight, uint32_t width,
                                      float eps, float weight_offset, float delta_scale) {
    typedef typename values<A>::raw raw;
    DYNAMIC_SHARED(area);
    float *partial = (float *)area; /* [warps] */
    dependency_wait();
    raw *row = x + (size_t)blockIdx.x * width;
    /* 1. h, and the sum of its squares */
    float squares = 0;
    for (uint32_t i = threadIdx.x; i < width; i += NORM_THREADS) {
        float h = values<A>::get(row + i);
        if (delta) {
            values<A>::put(row + i, h + values<A>::get(delta + (size_t)blockIdx.x * width + i) * delta_scale);
            h = values<A>::get(row + i);
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
    const float scale = 1.0f / sqrtf(total / (float)width + eps);
    dependents_launch();
    for (uint32_t i = threadIdx.x; i < width; i += NORM_THREADS)
        values<A>::put(out + (size_t)blockIdx.x * width + i,
                       values<A>::get(row + i) * scale * (weight[i] + weight_offset));
}

void cuda_rmsnorm(struct stream *s, const struct op_rmsnorm *a) {
    if (!a->rows) return;
    launch_shape shape = {dim3(a->rows), dim3(NORM_THREADS), NORM_THREADS / 32 * sizeof(float),
                          device_of(s)->dependent_launch};
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(rmsnorm_kernel<A>, shape, cuda_stream_of(s), (typename values<A>::raw *)a->out,
                           (typename values<A>::raw *)a->x, (const typename values<A>::raw *)a->delta, a->weight,
                           a->width, a->eps, a->weight_offset, a->delta_scale != 0 ? a->delta_scale : 1.0f));
}
