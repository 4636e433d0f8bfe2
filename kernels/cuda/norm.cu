/*
 * norm.cu - fused residual addition and RMSNorm (kernels/ops.h: op_rmsnorm).
 *
 * h = x + delta * delta_scale (rounded as x is stored); x = h; out = h * rsqrt(mean(h^2) + eps) *
 * (weight + offset), or h. One block of 256 threads a row; a thread has 16 features that lie
 * together, and squares are summed as row_norm.cuh says: a row's bits depend on the row alone, and
 * are those of a product that norms what it reads. Cost: reads x, delta, writes x, out once. Shared
 * memory: a float for 16 features.
 */
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/row_norm.cuh"

enum { NORM_THREADS = 256 };

struct rms_args {
    const float *weight;
    uint32_t width;
    float eps, weight_offset, delta_scale;
    bool whole; /* rows are whole groups that begin at a multiple of 16 bytes */
};

/* A group of values of a row. Past the width: zeros. */
template <int T>
static __device__ __forceinline__ void load_group(float v[NORM_GROUP],
                                                  const typename values<T>::raw *row,
                                                  uint32_t first, const struct rms_args &n) {
    if (n.whole) {
        values<T>::get8(row + first, v);
        values<T>::get8(row + first + 8, v + 8);
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < NORM_GROUP; i++)
        v[i] = first + i < n.width ? values<T>::get(row + first + i) : 0.0f;
}

template <int T>
static __device__ __forceinline__ void store_group(typename values<T>::raw *row,
                                                   const float v[NORM_GROUP], uint32_t first,
                                                   const struct rms_args &n) {
    if (n.whole) {
        values<T>::set8(row + first, v);
        values<T>::set8(row + first + 8, v + 8);
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < NORM_GROUP; i++)
        if (first + i < n.width)
            values<T>::set(row + first + i, v[i]);
}

/* A group of h: delta is added and the sum written. */
template <int X, int A>
static __device__ __forceinline__ void take_group(float h[NORM_GROUP], typename values<X>::raw *row,
                                                  const typename values<A>::raw *delta,
                                                  uint32_t first, const struct rms_args &n) {
    load_group<X>(h, row, first, n);
    if (!delta)
        return;
    float added[NORM_GROUP];
    load_group<A>(added, delta, first, n);
#pragma unroll
    for (uint32_t i = 0; i < NORM_GROUP; i++) {
        typename values<X>::raw stored;
        values<X>::set(&stored, residual_sum(h[i], added[i], n.delta_scale));
        h[i] = values<X>::get(&stored);
    }
    store_group<X>(row, h, first, n);
}

template <int O>
static __device__ __forceinline__ void put_group(typename values<O>::raw *out, float h[NORM_GROUP],
                                                 float scale, uint32_t first,
                                                 const struct rms_args &n) {
    if (n.weight) {
        float weight[NORM_GROUP];
        load_group<STORAGE_F32>(weight, n.weight, first, n);
#pragma unroll
        for (uint32_t i = 0; i < NORM_GROUP; i++)
            h[i] = normed_value(h[i], scale, weight[i] + n.weight_offset);
    }
    store_group<O>(out, h, first, n);
}

/* Types of out, of x, of delta. */
template <int O, int X, int A>
static __global__ void rmsnorm_kernel(typename values<O>::raw *out, typename values<X>::raw *x,
                                      const typename values<A>::raw *delta, struct rms_args n) {
    enum { ONCE = NORM_THREADS * NORM_GROUP };
    DYNAMIC_SHARED(area);
    float *squares = (float *)area; /* [groups] */
    typename values<X>::raw *row = x + (size_t)blockIdx.x * n.width;
    typename values<O>::raw *to = out + (size_t)blockIdx.x * n.width;
    const typename values<A>::raw *add = delta ? delta + (size_t)blockIdx.x * n.width : NULL;
    const uint32_t mine = threadIdx.x * NORM_GROUP;
    if (n.weight && threadIdx.x * 32 < n.width)
        prefetch_l2(n.weight + threadIdx.x * 32); /* a weight: no kernel writes it */
    dependents_launch();
    dependency_wait();
    /* 1. h, and its squares; of a row wider than ONCE the first values are kept */
    float kept[NORM_GROUP];
    if (mine < n.width) {
        take_group<X, A>(kept, row, add, mine, n);
        squares[threadIdx.x] = group_squares(kept);
    }
    for (uint32_t first = ONCE + mine; first < n.width; first += ONCE) {
        float h[NORM_GROUP];
        take_group<X, A>(h, row, add, first, n);
        squares[first / NORM_GROUP] = group_squares(h);
    }
    if (!out)
        return;
    __syncthreads();
    /* 2. scale; each thread reads back what it wrote itself and did not keep */
    const float scale =
        norm_scale(total_squares(squares, (n.width + NORM_GROUP - 1) / NORM_GROUP), n.width, n.eps);
    if (mine < n.width)
        put_group<O>(to, kept, scale, mine, n);
    for (uint32_t first = ONCE + mine; first < n.width; first += ONCE) {
        float h[NORM_GROUP];
        load_group<X>(h, row, first, n);
        put_group<O>(to, h, scale, first, n);
    }
}

template <int O, int X, int A> static void rmsnorm(struct stream *s, const struct op_rmsnorm *a) {
    launch_shape shape = {dim3(a->rows), dim3(NORM_THREADS),
                          (a->width + NORM_GROUP - 1) / NORM_GROUP * sizeof(float),
                          device_of(s)->dependent_launch};
    const uintptr_t places =
        (uintptr_t)a->out | (uintptr_t)a->x | (uintptr_t)a->delta | (uintptr_t)a->weight;
    const struct rms_args n = {a->weight,
                               a->width,
                               a->eps,
                               a->weight_offset,
                               a->delta_scale != 0 ? a->delta_scale : 1,
                               a->width % NORM_GROUP == 0 && places % 16 == 0};
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
