/*
 * norm_activation.cu - the operations of kernels/ops_rows.h: layer norm, norms of heads,
 * activations, learned positions, clamps, the last touch of logits. All in f32, rounded once.
 *
 * Norms: one block of 256 threads a row (layer norm), one warp a head (head norm). A thread sums
 * its values in ascending order, then warps by a fixed tree, then the warps in order; the mean
 * first, then squared distances from it: a row's bits depend on the row alone. The rest: one value
 * a thread. Cost: each array once.
 */
#include "kernels/cuda/activate.cuh"

enum { NORM_THREADS = 256 };

/* Sum over a block, the same in every thread. */
static __device__ float block_sum(float v, float *partial) {
    v = warp_sum(v);
    __syncthreads(); /* nobody reads the last sums any more */
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = v;
    __syncthreads();
    float total = 0;
    for (int w = 0; w < NORM_THREADS / 32; w++)
        total += partial[w];
    return total;
}

struct norm_args {
    const float *weight, *bias;
    uint32_t width;
    float eps, offset, delta_scale;
};

static __device__ __forceinline__ float normed(const struct norm_args &n, float x, float mean,
                                               float scale, uint32_t i) {
    const float y = (x - mean) * scale * (n.weight[i] + n.offset);
    return n.bias ? y + n.bias[i] : y;
}

/* Of a head norm: where sums of squares come from; rows NULL: from x. */
struct norm_squares {
    const float *rows;
    uint32_t stride, whole;
};

/* Types of out, of x, of delta. */
template <int O, int X, int A>
static __global__ void layernorm_kernel(typename values<O>::raw *out, typename values<X>::raw *x,
                                        const typename values<A>::raw *delta, struct norm_args n) {
    DYNAMIC_SHARED(area);
    float *partial = (float *)area;
    dependents_launch();
    dependency_wait();
    typename values<X>::raw *row = x + (size_t)blockIdx.x * n.width;
    float sum = 0, squares = 0;
    for (uint32_t i = threadIdx.x; i < n.width; i += NORM_THREADS) {
        if (delta)
            values<X>::set(row + i, values<X>::get(row + i) +
                                        values<A>::get(delta + (size_t)blockIdx.x * n.width + i) *
                                            n.delta_scale);
        sum += values<X>::get(row + i);
    }
    if (!out)
        return;
    const float mean = block_sum(sum, partial) / (float)n.width;
    for (uint32_t i = threadIdx.x; i < n.width; i += NORM_THREADS) {
        const float d = values<X>::get(row + i) - mean;
        squares += d * d;
    }
    const float scale = 1.0f / sqrtf(block_sum(squares, partial) / (float)n.width + n.eps);
    for (uint32_t i = threadIdx.x; i < n.width; i += NORM_THREADS)
        values<O>::set(out + (size_t)blockIdx.x * n.width + i,
                       normed(n, values<X>::get(row + i), mean, scale, i));
}

template <int O, int X, int A>
static void layernorm(struct stream *s, const struct op_layernorm *a) {
    launch_shape shape = {dim3(a->rows), dim3(NORM_THREADS), NORM_THREADS / 32 * sizeof(float),
                          device_of(s)->dependent_launch};
    struct norm_args n = {a->weight, a->bias,          a->width,
                          a->eps,    a->weight_offset, a->delta_scale != 0 ? a->delta_scale : 1.0f};
    LAUNCH((layernorm_kernel<O, X, A>), shape, cuda_stream_of(s), (typename values<O>::raw *)a->out,
           (typename values<X>::raw *)a->x, (const typename values<A>::raw *)a->delta, n);
}

template <int A> static void layernorm_of(struct stream *s, const struct op_layernorm *a) {
    if (!a->x_f32)
        layernorm<A, A, A>(s, a);
    else if (a->out == a->x)
        layernorm<STORAGE_F32, STORAGE_F32, A>(s, a);
    else
        layernorm<A, STORAGE_F32, A>(s, a);
}

static void cuda_layernorm(struct stream *s, const struct op_layernorm *a) {
    if (!a->rows)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A, layernorm_of<A>(s, a));
}

template <int A>
static __global__ void head_norm_kernel(typename values<A>::raw *x, struct norm_args n,
                                        uint32_t stride, bool centered, bool weight_each,
                                        struct norm_squares given) {
    dependents_launch();
    dependency_wait();
    const uint32_t h = blockIdx.y, lane = threadIdx.x;
    typename values<A>::raw *row = x + (size_t)blockIdx.x * stride + (size_t)h * n.width;
    if (weight_each) {
        n.weight += (size_t)h * n.width;
        if (n.bias)
            n.bias += (size_t)h * n.width;
    }
    float mean = 0, squares = 0;
    if (centered) {
        for (uint32_t i = lane; i < n.width; i += 32)
            mean += values<A>::get(row + i);
        mean = warp_sum(mean) / (float)n.width;
    }
    for (uint32_t i = lane; i < n.width && !given.rows; i += 32) {
        const float d = values<A>::get(row + i) - mean;
        squares = __fmaf_rn(d, d, squares); /* as rope.cu, which norms heads on its way */
    }
    const float mean_square =
        given.rows ? given.rows[(size_t)blockIdx.x * given.stride] / (float)given.whole
                   : warp_sum(squares) / (float)n.width;
    const float scale = 1.0f / sqrtf(mean_square + n.eps);
    for (uint32_t i = lane; i < n.width; i += 32)
        values<A>::set(row + i, normed(n, values<A>::get(row + i), mean, scale, i));
}

static void cuda_head_norm(struct stream *s, const struct op_head_norm *a) {
    if (!a->rows || !a->heads)
        return;
    launch_shape shape = {dim3(a->rows, a->heads), dim3(32), 0, device_of(s)->dependent_launch};
    struct norm_args n = {a->weight, a->bias, a->width, a->eps, a->weight_offset, 1.0f};
    struct norm_squares given = {a->squares, a->squares_stride, a->whole};
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(head_norm_kernel<A>, shape, cuda_stream_of(s),
                           (typename values<A>::raw *)a->x, n, a->stride, a->centered,
                           a->weight_each, given));
}

/* One warp a row. */
template <int A>
static __global__ void row_squares_kernel(float *out, const typename values<A>::raw *x,
                                          uint32_t stride, uint32_t width, uint32_t out_stride) {
    dependents_launch();
    dependency_wait();
    const typename values<A>::raw *row = x + (size_t)blockIdx.x * stride;
    float squares = 0;
    for (uint32_t i = threadIdx.x; i < width; i += 32)
        squares += values<A>::get(row + i) * values<A>::get(row + i);
    squares = warp_sum(squares);
    if (threadIdx.x == 0)
        out[(size_t)blockIdx.x * out_stride] = squares;
}

static void cuda_row_squares(struct stream *s, const struct op_row_squares *a) {
    if (!a->rows)
        return;
    launch_shape shape = {dim3(a->rows), dim3(32), 0, device_of(s)->dependent_launch};
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(row_squares_kernel<A>, shape, cuda_stream_of(s), a->out,
                           (const typename values<A>::raw *)a->x, a->stride, a->width,
                           a->out_stride));
}

/* ---- value by value ---- */

template <int A>
static __global__ void activate_kernel(typename values<A>::raw *out,
                                       const typename values<A>::raw *x, uint32_t width, int kind) {
    dependents_launch();
    dependency_wait();
    const uint32_t i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i < width)
        values<A>::set(out + (size_t)blockIdx.x * width + i,
                       activate(kind, values<A>::get(x + (size_t)blockIdx.x * width + i)));
}

static launch_shape row_shape(struct stream *s, uint32_t rows, uint32_t width) {
    return {dim3(rows, blocks_for(width, 256)), dim3(256), 0, device_of(s)->dependent_launch};
}

static void cuda_activate(struct stream *s, const struct op_activate *a) {
    if (!a->rows)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(activate_kernel<A>, row_shape(s, a->rows, a->width), cuda_stream_of(s),
                           (typename values<A>::raw *)a->out, (const typename values<A>::raw *)a->x,
                           a->width, a->activation));
}

template <int A, int W>
static __global__ void
add_positions_kernel(typename values<A>::raw *x, const typename values<W>::raw *table,
                     uint32_t rows, uint32_t cols, uint32_t offset, const uint32_t *positions) {
    dependents_launch();
    dependency_wait();
    const uint32_t i = blockIdx.y * blockDim.x + threadIdx.x, position = positions[blockIdx.x];
    if (i >= cols || position == (uint32_t)ROW_NONE || position + offset >= rows)
        return;
    typename values<A>::raw *to = x + (size_t)blockIdx.x * cols + i;
    values<A>::set(to, values<A>::get(to) +
                           values<W>::get(table + (size_t)(position + offset) * cols + i));
}

template <int A> static void add_positions(struct stream *s, const struct op_add_positions *a) {
    const struct matrix *t = a->table;
    WITH_ACTIVATION(t->type, W,
                    LAUNCH((add_positions_kernel<A, W>), row_shape(s, a->batch->row_count, t->cols),
                           cuda_stream_of(s), (typename values<A>::raw *)a->x,
                           (const typename values<W>::raw *)t->segments[0].data, t->rows, t->cols,
                           a->offset, a->batch->positions));
}

static void cuda_add_positions(struct stream *s, const struct op_add_positions *a) {
    CHECK(a->table->segment_count == 1);
    if (!a->batch->row_count)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A, add_positions<A>(s, a));
}

template <int A>
static __global__ void clamp_kernel(typename values<A>::raw *x, uint32_t width, float limit) {
    dependents_launch();
    dependency_wait();
    const uint32_t i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= width)
        return;
    typename values<A>::raw *at = x + (size_t)blockIdx.x * width + i;
    const float v = values<A>::get(at);
    values<A>::set(at, v > limit ? limit : v < -limit ? -limit : v);
}

static void cuda_clamp(struct stream *s, const struct op_clamp *a) {
    if (!a->rows)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(clamp_kernel<A>, row_shape(s, a->rows, a->width), cuda_stream_of(s),
                           (typename values<A>::raw *)a->x, a->width, a->limit));
}

static __global__ void finish_logits_kernel(float *logits, uint32_t width, float scale,
                                            float soft_cap) {
    dependents_launch();
    dependency_wait();
    const uint32_t i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= width)
        return;
    float *at = logits + (size_t)blockIdx.x * width + i;
    const float l = *at * scale;
    *at = soft_cap != 0 ? soft_cap * tanhf(l / soft_cap) : l;
}

static void cuda_finish_logits(struct stream *s, const struct op_finish_logits *a) {
    if (!a->rows)
        return;
    LAUNCH(finish_logits_kernel, row_shape(s, a->rows, a->width), cuda_stream_of(s), a->logits,
           a->width, a->scale, a->soft_cap);
}

/* Eight values a thread, 16 bytes of each part at a time where WIDE. */
template <int T, bool WIDE>
static __global__ void sum_addends_kernel(typename values<T>::raw *x,
                                          const typename values<T>::raw *addends,
                                          uint32_t addend_count, size_t count) {
    dependents_launch();
    dependency_wait();
    const size_t first = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 8;
    const uint32_t here = first < count ? (uint32_t)min((size_t)8, count - first) : 0;
    float sums[8], v[8];
    for (uint32_t p = 0; p < addend_count && here; p++) {
        const typename values<T>::raw *from = addends + p * count + first;
        if (WIDE)
            values<T>::get8(from, v);
#pragma unroll
        for (uint32_t i = 0; i < 8; i++) {
            if (!WIDE)
                v[i] = i < here ? values<T>::get(from + i) : 0.0f;
            sums[i] = p ? sums[i] + v[i] : v[i];
        }
    }
    if (WIDE && here)
        values<T>::set8(x + first, sums);
#pragma unroll
    for (uint32_t i = 0; i < 8 && !WIDE; i++)
        if (i < here)
            values<T>::set(x + first + i, sums[i]);
}

template <int T> static void sum_addends(struct stream *s, const struct op_sum_addends *a) {
    typedef typename values<T>::raw raw;
    const launch_shape shape = {dim3(blocks_for(a->count, 256 * 8)), dim3(256), 0,
                                device_of(s)->dependent_launch};
    const bool wide = a->count % 8 == 0 && ((uintptr_t)a->x | (uintptr_t)a->addends) % 16 == 0;
    if (wide)
        LAUNCH((sum_addends_kernel<T, true>), shape, cuda_stream_of(s), (raw *)a->x,
               (const raw *)a->addends, a->addend_count, a->count);
    else
        LAUNCH((sum_addends_kernel<T, false>), shape, cuda_stream_of(s), (raw *)a->x,
               (const raw *)a->addends, a->addend_count, a->count);
}

static void cuda_sum_addends(struct stream *s, const struct op_sum_addends *a) {
    const enum storage_type type = a->f32 ? STORAGE_F32 : s->dev->activation_type;
    if (a->count)
        WITH_ACTIVATION(type, T, sum_addends<T>(s, a));
}

static struct row_ops make_row_ops() {
    struct row_ops o = {};
    o.layernorm = cuda_layernorm;
    o.head_norm = cuda_head_norm;
    o.row_squares = cuda_row_squares;
    o.activate = cuda_activate;
    o.add_positions = cuda_add_positions;
    o.clamp = cuda_clamp;
    o.finish_logits = cuda_finish_logits;
    o.sum_addends = cuda_sum_addends;
    return o;
}
const struct row_ops cuda_row_ops = make_row_ops();
