/*
 * rope.cu - rotary angles; rotation and cache write (kernels/ops.h: op_rope_angles, op_rope_kv);
 * whole-block copies.
 *
 * angles: one (cos, sin) a thread, the bits of scalar_math.h. Cost: T * half * 40 operations in
 * double, once a step.
 *
 * rope_kv: one block a row. Each thread takes pairs of dims (i, partner) of Q and K heads; what is
 * not rotated, and V, it takes one value at a time. K and V are rounded once, from f32, to the
 * cache's type. Cost: reads and writes (H + 2 G) * D values a row. Padding rows do nothing.
 *
 * Into an int8 cache a warp writes a vector: it makes the values twice, for the largest and to
 * store them.
 *
 * Where heads are normed, a warp has a head, HEAD_WARPS of them a block: it norms its values into
 * shared memory, rounded as the norm's own kernel would, and rotates them from there.
 *
 * A cache block of a layer holds K [G, block_tokens, D], then V the same: the positions of one head
 * lie together, as attention reads them; then an int8 cache's scales.
 */
#include "kernels/cuda/cache.cuh"
#include "kernels/cuda/exact.cuh"
#include "kernels/cuda/row_norm.cuh"

size_t cuda_kv_layer_bytes(enum storage_type type, uint32_t block_tokens, uint32_t kv_heads,
                           uint32_t head_dim) {
    const size_t vectors = (size_t)2 * kv_heads * block_tokens;
    return (storage_bytes(type, vectors * head_dim) + kv_scale_bytes(type, vectors) + 63) / 64 * 64;
}

static __global__ void rope_angles_kernel(float *out, const float *inv_freq,
                                          const uint32_t *positions, const uint32_t *slots,
                                          uint32_t half, float scale) {
    dependents_launch();
    dependency_wait();
    const uint32_t i = blockIdx.y * blockDim.x + threadIdx.x, t = blockIdx.x,
                   position = positions[t];
    if (i >= half)
        return;
    if (slots)
        inv_freq += (size_t)slots[t] * half; /* a table of its own for each slot */
    float s, c;
    exact_sincos(position == (uint32_t)ROW_NONE ? 0.0f : __fmul_rn((float)position, inv_freq[i]),
                 &s, &c);
    float *to = out + ((size_t)t * half + i) * 2;
    to[0] = __fmul_rn(c, scale);
    to[1] = __fmul_rn(s, scale);
}

void cuda_rope_angles(struct stream *s, const struct op_rope_angles *a) {
    if (!a->batch->row_count || !a->half)
        return;
    launch_shape shape = {dim3(a->batch->row_count, blocks_for(a->half, 64)), dim3(64), 0,
                          device_of(s)->dependent_launch};
    LAUNCH(rope_angles_kernel, shape, cuda_stream_of(s), a->out, a->inv_freq, a->batch->positions,
           a->per_slot ? a->batch->slots : NULL, a->half, a->scale);
}

struct rope_shape {
    uint32_t heads, half;
    bool interleaved;
};

template <int A, int K>
static __global__ void rope_kv_kernel(typename values<A>::raw *qkv, const float *angles,
                                      struct rope_shape shape, struct kv_pages kv,
                                      struct batch_view batch) {
    typedef typename values<K>::raw stored;
    dependents_launch();
    dependency_wait();
    const uint32_t t = blockIdx.x, position = batch.positions[t], dim = kv.head_dim;
    if (position == (uint32_t)ROW_NONE)
        return;
    typename values<A>::raw *row = qkv + (size_t)t * (shape.heads + 2 * kv.kv_heads) * dim;
    const float *row_angles = angles + (size_t)t * shape.half * 2;
    const uint32_t half = angles ? shape.half : 0, rotated = shape.heads + kv.kv_heads;
    stored *k_rows = (stored *)kv.at(batch.slots[t], position);
    /* 1. rotated pairs of Q and K */
    for (uint32_t n = threadIdx.x; n < rotated * half; n += blockDim.x) {
        const uint32_t h = n / half, i = n % half, at0 = shape.interleaved ? 2 * i : i,
                       at1 = shape.interleaved ? 2 * i + 1 : i + half;
        typename values<A>::raw *x = row + (size_t)h * dim;
        const struct rotated_pair y = rotate(values<A>::get(x + at0), values<A>::get(x + at1),
                                             row_angles[2 * i], row_angles[2 * i + 1]);
        if (h < shape.heads) {
            values<A>::set(x + at0, y.first);
            values<A>::set(x + at1, y.second);
        } else {
            stored *to = k_rows + (size_t)(h - shape.heads) * kv.head_stride();
            values<K>::set(to + at0, y.first);
            values<K>::set(to + at1, y.second);
        }
    }
    /* 2. the rest of K, and V */
    const uint32_t rest = dim - 2 * half;
    for (uint32_t n = threadIdx.x; n < kv.kv_heads * rest; n += blockDim.x) {
        const uint32_t g = n / rest, i = 2 * half + n % rest;
        values<K>::set(k_rows + (size_t)g * kv.head_stride() + i,
                       values<A>::get(row + (size_t)(shape.heads + g) * dim + i));
    }
    for (uint32_t n = threadIdx.x; n < kv.kv_heads * dim; n += blockDim.x) {
        const uint32_t g = n / dim, i = n % dim;
        values<K>::set(k_rows + (size_t)(kv.kv_heads + g) * kv.head_stride() + i,
                       values<A>::get(row + (size_t)(rotated + g) * dim + i));
    }
}

/* By a warp: a head of K, its first 2 * half dims rotated, or of V as number `head` of both in a row's
 * place of an int8 cache. */
template <int A>
static __device__ __forceinline__ void
put_int8_vector(const struct kv_pages &kv, uint32_t slot, uint32_t position, uint32_t head,
                const typename values<A>::raw *x, uint32_t half, bool interleaved,
                const float *angles) {
    const uint32_t lane = threadIdx.x % 32, dim = kv.head_dim;
    int8_t *to = (int8_t *)kv.at(slot, position) + (size_t)head * kv.head_stride();
    float most = 0, poison = 0;
    for (uint32_t i = lane; i < dim; i += 32) {
        const float v = rotated_value<A>(x, i, half, interleaved, angles);
        most = fmaxf(most, fabsf(v));
        poison += v * 0.0f;
    }
    const float scale = warp_kv_scale(most, poison), inverse = kv_inverse(scale);
    for (uint32_t i = lane; i < dim; i += 32)
        to[i] = kv_stored(rotated_value<A>(x, i, half, interleaved, angles), inverse);
    if (lane == 0)
        *kv.scale(slot, position, head) = scale;
}

template <int A>
static __global__ void rope_int8_kernel(typename values<A>::raw *qkv, const float *angles,
                                        struct rope_shape shape, struct kv_pages kv,
                                        struct batch_view batch) {
    dependents_launch();
    dependency_wait();
    const uint32_t t = blockIdx.x, position = batch.positions[t], dim = kv.head_dim;
    if (position == (uint32_t)ROW_NONE)
        return;
    typename values<A>::raw *row = qkv + (size_t)t * (shape.heads + 2 * kv.kv_heads) * dim;
    const float *row_angles = angles + (size_t)t * shape.half * 2;
    const uint32_t half = angles ? shape.half : 0;
    /* 1. rotated pairs of Q */
    for (uint32_t n = threadIdx.x; n < shape.heads * half; n += blockDim.x) {
        const uint32_t i = n % half, at0 = shape.interleaved ? 2 * i : i,
                       at1 = shape.interleaved ? at0 + 1 : i + half;
        typename values<A>::raw *x = row + (size_t)(n / half) * dim;
        const float y0 = rotated_value<A>(x, at0, half, shape.interleaved, row_angles);
        const float y1 = rotated_value<A>(x, at1, half, shape.interleaved, row_angles);
        values<A>::set(x + at0, y0);
        values<A>::set(x + at1, y1);
    }
    /* 2. a warp a vector of K or V */
    for (uint32_t head = threadIdx.x / 32; head < 2 * kv.kv_heads; head += blockDim.x / 32)
        put_int8_vector<A>(kv, batch.slots[t], position, head,
                           row + (size_t)(shape.heads + head) * dim, head < kv.kv_heads ? half : 0,
                           shape.interleaved, row_angles);
}

/* ---- with norms ---- */

enum : uint32_t { HEAD_WARPS = 4 };

/* A head as its norm leaves it, rounded, by a warp, a lane the values that it has in head_norm_kernel
 * (norm_activation.cu): the same sums. weight NULL: as it is. */
template <int A>
static __device__ __forceinline__ void
norm_head(typename values<A>::raw *to, const typename values<A>::raw *x, const float *weight,
          const struct rope_norms &n, uint32_t dim) {
    const uint32_t lane = threadIdx.x % 32;
    float squares = 0;
    for (uint32_t i = lane; i < dim; i += 32) {
        const float v = values<A>::get(x + i);
        squares = __fmaf_rn(v, v, squares);
    }
    const float scale = norm_scale(warp_sum(squares), dim, n.eps);
    for (uint32_t i = lane; i < dim; i += 32) {
        const float v = values<A>::get(x + i);
        values<A>::set(to + i, weight ? normed_value(v, scale, weight[i] + n.weight_offset) : v);
    }
}

template <int A, int K>
static __global__ __launch_bounds__(HEAD_WARPS * 32) void rope_normed_kernel(
    typename values<A>::raw *qkv, const float *angles, struct rope_shape shape,
    struct rope_norms norms, struct kv_pages kv, struct batch_view batch) {
    typedef typename values<A>::raw raw;
    DYNAMIC_SHARED(area);
    const uint32_t t = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32,
                   head = blockIdx.y * HEAD_WARPS + warp, dim = kv.head_dim,
                   rotated = shape.heads + kv.kv_heads, heads = rotated + kv.kv_heads;
    raw *mine = (raw *)area + warp * dim;
    const float *weight = head < shape.heads ? norms.q : head < rotated ? norms.k : NULL;
    if (weight && lane * 32 < dim)
        prefetch_l2(weight + lane * 32); /* a weight: no kernel writes it */
    dependents_launch();
    dependency_wait();
    const uint32_t position = batch.positions[t];
    if (position == (uint32_t)ROW_NONE || head >= heads)
        return;
    raw *x = qkv + ((size_t)t * heads + head) * dim;
    const float *row_angles = angles + (size_t)t * shape.half * 2;
    const uint32_t half = angles && weight ? shape.half : 0, slot = batch.slots[t];
    norm_head<A>(mine, x, weight, norms, dim);
    __syncwarp();
    if (head < shape.heads) {
        for (uint32_t i = lane; i < dim; i += 32)
            values<A>::set(x + i, rotated_value<A>(mine, i, half, shape.interleaved, row_angles));
        return;
    }
    if constexpr (K == STORAGE_I8) {
        put_int8_vector<A>(kv, slot, position, head - shape.heads, mine, half, shape.interleaved,
                           row_angles);
    } else {
        typename values<K>::raw *to = (typename values<K>::raw *)kv.at(slot, position) +
                                      (size_t)(head - shape.heads) * kv.head_stride();
        for (uint32_t i = lane; i < dim; i += 32)
            values<K>::set(to + i, rotated_value<A>(mine, i, half, shape.interleaved, row_angles));
    }
}

/* ---- launching ---- */

template <int A, int K> struct rope_kernel { static constexpr auto kernel = rope_kv_kernel<A, K>; };
template <int A> struct rope_kernel<A, STORAGE_I8> {
    static constexpr auto kernel = rope_int8_kernel<A>;
};

template <int A, int K> static void rope_kv_typed(struct stream *s, const struct op_rope_kv *a) {
    typedef typename values<A>::raw raw;
    launch_shape shape = {dim3(a->batch->row_count), dim3(256), 0, device_of(s)->dependent_launch};
    struct rope_shape rope = {a->heads, a->half, a->interleaved};
    if (a->norms) {
        shape.grid.y = blocks_for(a->heads + 2 * a->kv->kv_heads, HEAD_WARPS);
        shape.block.x = HEAD_WARPS * 32;
        shape.shared_bytes = (size_t)HEAD_WARPS * a->kv->head_dim * sizeof(raw);
        LAUNCH((rope_normed_kernel<A, K>), shape, cuda_stream_of(s), (raw *)a->qkv, a->angles, rope,
               *a->norms, kv_pages_of(a->kv), batch_view_of(a->batch));
        return;
    }
    LAUNCH((rope_kernel<A, K>::kernel), shape, cuda_stream_of(s), (typename values<A>::raw *)a->qkv,
           a->angles, rope, kv_pages_of(a->kv), batch_view_of(a->batch));
}

template <int A> static void rope_kv(struct stream *s, const struct op_rope_kv *a) {
    WITH_CACHE(a->kv->type, K, (rope_kv_typed<A, K>(s, a)));
}

void cuda_rope_kv(struct stream *s, const struct op_rope_kv *a) {
    CHECK(!a->angles || 2 * a->half <= a->kv->head_dim);
    if (!a->batch->row_count)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A, rope_kv<A>(s, a));
}

void cuda_kv_copy(struct stream *s, const struct op_kv_copy *a) {
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->sources[i] == a->targets[i])
            continue;
        cuda_stream_of(s)->kernel_last = false;
        cuda_note(cuda_stream_of(s),
                  cudaMemcpyAsync((char *)a->base + a->targets[i] * a->block_stride,
                                  (const char *)a->base + a->sources[i] * a->block_stride,
                                  a->block_stride, cudaMemcpyDeviceToDevice,
                                  cuda_stream_of(s)->handle),
                  "copying KV blocks");
    }
}
