/*
 * latent.cu - latent attention (kernels/ops_latent.h): products per head, cache rows, attention in
 * the latent space.
 *
 * head_linear: a warp an output (lanes over columns, a fixed tree), or, transposed, a thread an
 * output that ascends over the head's rows of w. latent_write: a block of 128 threads a row; the
 * norm's sum as in norm.cu. Types that are no plain numbers: groups of 32 columns are dequantized
 * (dequantize.h); transposed, a thread makes such a group of outputs.
 *
 * latent_attention: a block of 128 threads a row and head, split after split, as attention.cu's
 * plain kernel: a warp makes the score of a position, a thread the sums of dims tid, tid + 128, ...
 */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/cache.cuh"

enum { LATENT_THREADS = 128, LATENT_SUMS = LATENT_WIDTH_MAX / LATENT_THREADS };

/* ---- products per head ---- */

struct head_call {
    const void *w;
    uint32_t cols, heads, head_rows, first, count, x_stride, out_stride;
};

template <int A, int W>
static __global__ void head_linear_kernel(typename values<A>::raw *out,
                                          const typename values<A>::raw *x, struct head_call call) {
    dependency_wait();
    dependents_launch();
    const uint32_t n = blockIdx.y * 4 + threadIdx.x / 32, lane = threadIdx.x % 32, h = blockIdx.z;
    const size_t i = (size_t)blockIdx.x * call.heads + h;
    if (n >= call.count)
        return;
    const typename values<W>::raw *w = (const typename values<W>::raw *)call.w +
                                       ((size_t)h * call.head_rows + call.first + n) * call.cols;
    float sum = 0;
    for (uint32_t k = lane; k < call.cols; k += 32)
        sum += values<A>::get(x + i * call.x_stride + k) * values<W>::get(w + k);
    sum = warp_sum(sum);
    if (lane == 0)
        values<A>::set(out + i * call.out_stride + n, sum);
}

template <int A, int W>
static __global__ void head_transposed_kernel(typename values<A>::raw *out,
                                              const typename values<A>::raw *x,
                                              struct head_call call) {
    dependency_wait();
    dependents_launch();
    const uint32_t k = blockIdx.y * LATENT_THREADS + threadIdx.x, h = blockIdx.z;
    const size_t i = (size_t)blockIdx.x * call.heads + h;
    if (k >= call.cols)
        return;
    const typename values<W>::raw *w = (const typename values<W>::raw *)call.w +
                                       ((size_t)h * call.head_rows + call.first) * call.cols + k;
    float sum = 0;
    for (uint32_t n = 0; n < call.count; n++)
        sum +=
            values<A>::get(x + i * call.x_stride + n) * values<W>::get(w + (size_t)n * call.cols);
    values<A>::set(out + i * call.out_stride + k, sum);
}

template <int A>
static __global__ void head_dequantized_kernel(typename values<A>::raw *out,
                                               const typename values<A>::raw *x,
                                               struct matrix_segment segment,
                                               enum storage_type type, struct head_call call) {
    dependency_wait();
    dependents_launch();
    const uint32_t n = blockIdx.y * 4 + threadIdx.x / 32, lane = threadIdx.x % 32, h = blockIdx.z;
    const size_t i = (size_t)blockIdx.x * call.heads + h;
    if (n >= call.count)
        return;
    float sum = 0;
    for (uint32_t k = lane * 32; k < call.cols; k += 32 * 32) {
        const uint32_t count = min(32u, call.cols - k);
        float v[32];
        dequantize_group(type, segment, call.cols, h * call.head_rows + call.first + n, k, count,
                         v);
        for (uint32_t j = 0; j < count; j++)
            sum += values<A>::get(x + i * call.x_stride + k + j) * v[j];
    }
    sum = warp_sum(sum);
    if (lane == 0)
        values<A>::set(out + i * call.out_stride + n, sum);
}

template <int A>
static __global__ void
head_transposed_dequantized_kernel(typename values<A>::raw *out, const typename values<A>::raw *x,
                                   struct matrix_segment segment, enum storage_type type,
                                   struct head_call call) {
    dependency_wait();
    dependents_launch();
    const uint32_t k = (blockIdx.y * blockDim.x + threadIdx.x) * 32, h = blockIdx.z;
    const size_t i = (size_t)blockIdx.x * call.heads + h;
    if (k >= call.cols)
        return;
    const uint32_t count = min(32u, call.cols - k);
    float sums[32] = {}, v[32];
    for (uint32_t n = 0; n < call.count; n++) {
        dequantize_group(type, segment, call.cols, h * call.head_rows + call.first + n, k, count,
                         v);
        const float q = values<A>::get(x + i * call.x_stride + n);
        for (uint32_t j = 0; j < count; j++)
            sums[j] += q * v[j];
    }
    for (uint32_t j = 0; j < count; j++)
        values<A>::set(out + i * call.out_stride + k + j, sums[j]);
}

template <int A>
static void head_dequantized(struct stream *s, const struct op_head_linear *a,
                             enum storage_type type) {
    typedef typename values<A>::raw raw;
    const struct head_call call = {NULL,     a->w->cols, a->heads,    a->head_rows,
                                   a->first, a->count,   a->x_stride, a->out_stride};
    launch_shape shape = {
        dim3(a->rows,
             blocks_for(a->transposed ? a->w->cols : a->count, a->transposed ? 32 * 32 : 4),
             a->heads),
        dim3(a->transposed ? 32 : 128), 0, device_of(s)->dependent_launch};
    if (a->transposed)
        LAUNCH(head_transposed_dequantized_kernel<A>, shape, cuda_stream_of(s), (raw *)a->out,
               (const raw *)a->x, a->w->segments[0], type, call);
    else
        LAUNCH(head_dequantized_kernel<A>, shape, cuda_stream_of(s), (raw *)a->out,
               (const raw *)a->x, a->w->segments[0], type, call);
}

template <int A, int W> static void head_typed(struct stream *s, const struct op_head_linear *a) {
    typedef typename values<A>::raw raw;
    const struct head_call call = {
        a->w->segments[0].data, a->w->cols, a->heads, a->head_rows, a->first, a->count, a->x_stride,
        a->out_stride};
    launch_shape shape = {
        dim3(a->rows,
             blocks_for(a->transposed ? a->w->cols : a->count, a->transposed ? LATENT_THREADS : 4),
             a->heads),
        dim3(LATENT_THREADS), 0, device_of(s)->dependent_launch};
    if (a->transposed)
        LAUNCH((head_transposed_kernel<A, W>), shape, cuda_stream_of(s), (raw *)a->out,
               (const raw *)a->x, call);
    else
        LAUNCH((head_linear_kernel<A, W>), shape, cuda_stream_of(s), (raw *)a->out,
               (const raw *)a->x, call);
}
template <int A> static void head_any(struct stream *s, const struct op_head_linear *a) {
    const enum storage_type type = segment_type(a->w, &a->w->segments[0]);
    if (!storage_is_plain(type)) {
        head_dequantized<A>(s, a, type);
        return;
    }
    WITH_ACTIVATION(type, W, (head_typed<A, W>(s, a)));
}

void cuda_head_linear(struct stream *s, const struct op_head_linear *a) {
    CHECK(a->w->segment_count == 1 && a->first + a->count <= a->head_rows &&
          a->heads * a->head_rows == a->w->rows);
    CHECK(a->x_stride >= (a->transposed ? a->count : a->w->cols) &&
          a->out_stride >= (a->transposed ? a->w->cols : a->count));
    if (!a->rows)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A, head_any<A>(s, a));
}

/* ---- cache rows ---- */

struct latent_rows {
    unsigned char *base; /* of the layer in block 0 */
    size_t block_stride;
    const uint32_t *tables;
    uint32_t max_blocks, block_tokens, width, value_bytes;

    __device__ __forceinline__ unsigned char *at(uint32_t slot, uint32_t position) const {
        const uint32_t block = tables[(size_t)slot * max_blocks + position / block_tokens];
        return base + block * block_stride +
               (size_t)(position % block_tokens) * width * value_bytes;
    }
    /* Of an int8 cache: the row's two. */
    __device__ __forceinline__ float *scales(uint32_t slot, uint32_t position) const {
        const uint32_t block = tables[(size_t)slot * max_blocks + position / block_tokens];
        return (float *)(base + block * block_stride + (size_t)block_tokens * width) +
               2 * (position % block_tokens);
    }
};
static inline struct latent_rows latent_rows_of(const struct kv_view *kv) {
    return {(unsigned char *)kv->base + kv->layer_offset,
            kv->block_stride,
            kv->tables,
            kv->max_blocks,
            kv->block_tokens,
            kv->head_dim,
            (uint32_t)storage_bytes(kv->type, 1)};
}

size_t cuda_latent_layer_bytes(enum storage_type type, uint32_t block_tokens, uint32_t width) {
    return (block_tokens * storage_bytes(type, width) +
            kv_scale_bytes(type, 2 * (size_t)block_tokens) + 63) /
           64 * 64;
}

struct latent_write_call {
    uint32_t heads, rank, rope, q_stride, q_offset;
    const float *norm, *angles;
    float eps;
    bool interleaved;
    struct latent_rows rows;
    struct batch_view batch;
};

/* Element i of a rotated x [rope]. */
template <int A>
static __device__ __forceinline__ float rotated(const typename values<A>::raw *x, uint32_t i,
                                                const struct latent_write_call &call,
                                                const float *angles) {
    return rotated_value<A>(x, i, angles ? call.rope / 2 : 0, call.interleaved, angles);
}

/* Element i of the row that is cached. */
template <int A>
static __device__ __forceinline__ float cached_value(const typename values<A>::raw *row, uint32_t i,
                                                     const struct latent_write_call &call,
                                                     float scale, const float *angles) {
    if (i >= call.rank)
        return rotated<A>(row + call.rank, i - call.rank, call, angles);
    return call.norm ? values<A>::get(row + i) * scale * call.norm[i] : values<A>::get(row + i);
}

template <int K> struct latent_store {
    template <int A>
    static __device__ __forceinline__ void
    store_row(const typename values<A>::raw *row, const struct latent_write_call &call, float scale,
              const float *angles, uint32_t slot, uint32_t position) {
        typename values<K>::raw *cached = (typename values<K>::raw *)call.rows.at(slot, position);
        for (uint32_t i = threadIdx.x; i < call.rank + call.rope; i += LATENT_THREADS)
            values<K>::set(cached + i, cached_value<A>(row, i, call, scale, angles));
    }
};
/* A warp each for the latent and the rotated part. */
template <> struct latent_store<STORAGE_I8> {
    template <int A>
    static __device__ __forceinline__ void
    store_row(const typename values<A>::raw *row, const struct latent_write_call &call, float scale,
              const float *angles, uint32_t slot, uint32_t position) {
        const uint32_t which = threadIdx.x / 32, lane = threadIdx.x % 32;
        const uint32_t first = which ? call.rank : 0,
                       end = which ? call.rank + call.rope : call.rank;
        int8_t *cached = (int8_t *)call.rows.at(slot, position);
        float most = 0, poison = 0;
        if (which > 1)
            return;
        for (uint32_t i = first + lane; i < end; i += 32) {
            const float v = cached_value<A>(row, i, call, scale, angles);
            most = fmaxf(most, fabsf(v));
            poison += v * 0.0f;
        }
        const float step = warp_kv_scale(most, poison), inverse = kv_inverse(step);
        for (uint32_t i = first + lane; i < end; i += 32)
            cached[i] = kv_stored(cached_value<A>(row, i, call, scale, angles), inverse);
        if (lane == 0)
            call.rows.scales(slot, position)[which] = step;
    }
};

template <int A, int K>
static __global__ void
latent_write_kernel(typename values<A>::raw *q, const typename values<A>::raw *q_rope,
                    const typename values<A>::raw *kv, struct latent_write_call call) {
    DYNAMIC_SHARED(area);
    float *partial = (float *)area; /* [warps] */
    dependency_wait();
    dependents_launch();
    const uint32_t t = blockIdx.x, position = call.batch.positions[t],
                   width = call.rank + call.rope;
    if (position == (uint32_t)ROW_NONE)
        return;
    const typename values<A>::raw *row = kv + (size_t)t * width;
    const float *angles = call.angles ? call.angles + (size_t)t * call.rope : NULL;
    /* 1. the row: the latent, normed, and the rotated part of the key */
    float squares = 0, total = 0;
    for (uint32_t i = threadIdx.x; i < call.rank; i += LATENT_THREADS) {
        const float v = values<A>::get(row + i);
        squares += v * v;
    }
    squares = warp_sum(squares);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = squares;
    __syncthreads();
    for (int w = 0; w < LATENT_THREADS / 32; w++)
        total += partial[w];
    const float scale = 1.0f / sqrtf(total / (float)call.rank + call.eps);
    latent_store<K>::template store_row<A>(row, call, scale, angles, call.batch.slots[t], position);
    /* 2. rotated parts of the heads' queries */
    for (uint32_t n = threadIdx.x; n < call.heads * call.rope; n += LATENT_THREADS) {
        const size_t h = (size_t)t * call.heads + n / call.rope;
        values<A>::set(
            q + h * width + call.rank + n % call.rope,
            rotated<A>(q_rope + h * call.q_stride + call.q_offset, n % call.rope, call, angles));
    }
}

template <int A, int K> static void write_typed(struct stream *s, const struct op_latent_write *a) {
    typedef typename values<A>::raw raw;
    struct latent_write_call call;
    memset((void *)&call, 0, sizeof call);
    call.heads = a->heads;
    call.rank = a->rank;
    call.rope = a->rope;
    call.q_stride = a->q_stride;
    call.q_offset = a->q_offset;
    call.norm = a->norm;
    call.angles = a->angles;
    call.eps = a->eps;
    call.interleaved = a->interleaved;
    call.rows = latent_rows_of(a->view);
    call.batch = batch_view_of(a->batch);
    launch_shape shape = {dim3(a->batch->row_count), dim3(LATENT_THREADS),
                          LATENT_THREADS / 32 * sizeof(float), device_of(s)->dependent_launch};
    LAUNCH((latent_write_kernel<A, K>), shape, cuda_stream_of(s), (raw *)a->q,
           (const raw *)a->q_rope, (const raw *)a->kv, call);
}
template <int A> static void write_any(struct stream *s, const struct op_latent_write *a) {
    WITH_CACHE(a->view->type, K, (write_typed<A, K>(s, a)));
}

void cuda_latent_write(struct stream *s, const struct op_latent_write *a) {
    CHECK(a->rank + a->rope <= LATENT_WIDTH_MAX && a->view->head_dim == a->rank + a->rope);
    if (!a->batch->row_count)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A, write_any<A>(s, a));
}

/* ---- attention ---- */

struct latent_call {
    uint32_t heads, rank;
    float scale; /* times log2 e */
    struct latent_rows rows;
    const uint32_t *slots, *positions;
};

template <int A, int K>
static __global__ void latent_attention_kernel(typename values<A>::raw *out_rows,
                                               const typename values<A>::raw *q_rows,
                                               struct latent_call call) {
    typedef typename values<K>::raw stored;
    DYNAMIC_SHARED(area);
    float *q = (float *)area, *scores = q + LATENT_WIDTH_MAX; /* [width], [ATTENTION_SPLIT] */
    dependency_wait();
    dependents_launch();
    const uint32_t h = blockIdx.y, t = blockIdx.x, width = call.rows.width, rank = call.rank;
    const uint32_t position = call.positions[t], lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    typename values<A>::raw *out = out_rows + ((size_t)t * call.heads + h) * rank;
    if (position == (uint32_t)ROW_NONE) {
        for (uint32_t d = threadIdx.x; d < rank; d += LATENT_THREADS)
            values<A>::set(out + d, 0.0f);
        return;
    }
    for (uint32_t d = threadIdx.x; d < width; d += LATENT_THREADS)
        q[d] = values<A>::get(q_rows + ((size_t)t * call.heads + h) * width + d);
    const uint32_t slot = call.slots[t];
    float max = MINUS_INFINITY, sum = 0, acc[LATENT_SUMS] = {};
    for (uint32_t from = 0; from <= position; from += ATTENTION_SPLIT) {
        const uint32_t count = min((uint32_t)ATTENTION_SPLIT, position + 1 - from);
        __syncthreads(); /* q is there; nobody reads the scores before */
        for (uint32_t j = warp; j < count; j += LATENT_THREADS / 32) {
            const stored *k = (const stored *)call.rows.at(slot, from + j);
            const float *scales = K == STORAGE_I8 ? call.rows.scales(slot, from + j) : NULL;
            float dot = 0;
            for (uint32_t d = lane; d < width; d += 32)
                dot += q[d] * values<K>::get(k + d) * (scales ? scales[d >= rank] : 1.0f);
            dot = warp_sum(dot);
            if (lane == 0)
                scores[j] = dot * call.scale;
        }
        __syncthreads();
        float split_max = MINUS_INFINITY, split_sum = 0, split[LATENT_SUMS] = {};
        for (uint32_t j = lane; j < count; j += 32)
            split_max = scores[j] > split_max ? scores[j] : split_max;
        split_max = warp_max(split_max);
        for (uint32_t j = lane; j < count; j += 32)
            split_sum += exp2f(scores[j] - split_max);
        split_sum = warp_sum(split_sum);
        for (uint32_t j = 0; j < count; j++) {
            const stored *v = (const stored *)call.rows.at(slot, from + j);
            float p = exp2f(scores[j] - split_max);
            if (K == STORAGE_I8)
                p *= call.rows.scales(slot, from + j)[0];
#pragma unroll
            for (uint32_t i = 0; i < LATENT_SUMS; i++)
                if (threadIdx.x + i * LATENT_THREADS < rank)
                    split[i] += p * values<K>::get(v + threadIdx.x + i * LATENT_THREADS);
        }
        const struct merge_factors f = merge_max(&max, split_max);
        sum = merge(f, sum, split_sum);
#pragma unroll
        for (uint32_t i = 0; i < LATENT_SUMS; i++)
            acc[i] = merge(f, acc[i], split[i]);
    }
#pragma unroll
    for (uint32_t i = 0; i < LATENT_SUMS; i++)
        if (threadIdx.x + i * LATENT_THREADS < rank)
            values<A>::set(out + threadIdx.x + i * LATENT_THREADS, __fdiv_rn(acc[i], sum));
}

template <int A, int K>
static void attention_typed(struct stream *s, const struct op_latent_attention *a) {
    typedef typename values<A>::raw raw;
    const struct latent_call call = {a->heads,
                                     a->rank,
                                     a->scale * 1.44269504088896340736f,
                                     latent_rows_of(a->view),
                                     a->batch->slots,
                                     a->batch->positions};
    launch_shape shape = {dim3(a->batch->row_count, a->heads), dim3(LATENT_THREADS),
                          (LATENT_WIDTH_MAX + ATTENTION_SPLIT) * sizeof(float),
                          device_of(s)->dependent_launch};
    LAUNCH((latent_attention_kernel<A, K>), shape, cuda_stream_of(s), (raw *)a->out,
           (const raw *)a->q, call);
}
template <int A> static void attention_any(struct stream *s, const struct op_latent_attention *a) {
    WITH_CACHE(a->view->type, K, (attention_typed<A, K>(s, a)));
}

void cuda_latent_attention(struct stream *s, const struct op_latent_attention *a) {
    CHECK(a->view->head_dim <= LATENT_WIDTH_MAX && a->rank <= a->view->head_dim);
    if (!a->batch->row_count)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A, attention_any<A>(s, a));
}
