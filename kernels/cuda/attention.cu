/*
 * attention.cu - which kernel computes which rows (kernels/ops.h: op_attention), and the plain one.
 *
 * Output-class rows: attention_decode.cu, which takes the usual head sizes. Prompt-class rows:
 * attention_prompt_hopper.cuh (neither soft cap nor ALiBi) or attention_prompt.cu, which take caches of the
 * activations' type and of 8 bits, head sizes that are multiples of 16. All else, f32 above all: the plain
 * kernel.
 *
 * plain: one block of 128 threads a row and head, split after split. A warp makes the score of a
 * position (lane l sums dims l, l + 32, ...), a thread the sums of dims tid, tid + 128 over
 * ascending positions.
 */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/cache.cuh"

enum { PLAIN_THREADS = 128 };

/* Soft cap, then ALiBi, of a score times log2 e. */
static __device__ __forceinline__ float cap_and_bias(const struct attention_call &call, float score,
                                                     uint32_t h, uint32_t distance) {
    const float log2_e = 1.44269504088896340736f;
    if (call.soft_cap != 0)
        score = call.soft_cap * tanhf(score / log2_e / call.soft_cap) * log2_e;
    return call.slopes ? score - call.slopes[h] * fabsf((float)(int)distance) * log2_e : score;
}

template <int A, int K> static __global__ void attention_plain_kernel(struct attention_call call) {
    typedef typename values<A>::raw raw;
    typedef typename values<K>::raw stored;
    DYNAMIC_SHARED(area);
    float *q = (float *)area, *scores = q + 256; /* [D], [ATTENTION_SPLIT] */
    dependents_launch();
    dependency_wait();
    const struct kv_pages &kv = call.kv;
    const uint32_t h = blockIdx.y, t = call.row_first + blockIdx.x, dim = kv.head_dim,
                   g = h / (call.heads / kv.kv_heads);
    const uint32_t position = call.positions[t], lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    raw *out = (raw *)call.out + ((size_t)t * call.heads + h) * dim;
    float max = MINUS_INFINITY, sum = 0, acc[2] = {0, 0};
    if (position == (uint32_t)ROW_NONE) {
        for (uint32_t d = threadIdx.x; d < dim; d += PLAIN_THREADS)
            values<A>::set(out + d, 0.0f);
        return;
    }
    for (uint32_t d = threadIdx.x; d < dim; d += PLAIN_THREADS)
        q[d] = values<A>::get((const raw *)call.qkv + (size_t)t * call.row_width() +
                              (size_t)h * dim + d);
    const uint32_t slot = call.slots[t], last = call.last_position(t);
    uint32_t from = call.first_position(position);
    while (from <= last) {
        const uint32_t end =
                           min((from / ATTENTION_SPLIT + 1) * (uint32_t)ATTENTION_SPLIT, last + 1),
                       count = end - from;
        __syncthreads(); /* q is there; nobody reads the scores before */
        for (uint32_t j = warp; j < count; j += PLAIN_THREADS / 32) {
            const stored *k = (const stored *)kv.at(slot, from + j) + (size_t)g * kv.head_stride();
            float dot = 0;
            for (uint32_t d = lane; d < dim; d += 32)
                dot += q[d] * values<K>::get(k + d);
            dot = warp_sum(dot);
            if (K == STORAGE_I8)
                dot *= *kv.scale(slot, from + j, g);
            if (lane == 0)
                scores[j] = cap_and_bias(call, dot * call.scale, h, position - (from + j));
        }
        __syncthreads();
        float split_max = MINUS_INFINITY, split_sum = 0, split[2] = {0, 0};
        for (uint32_t j = lane; j < count; j += 32)
            split_max = scores[j] > split_max ? scores[j] : split_max;
        split_max = warp_max(split_max);
        for (uint32_t j = lane; j < count; j += 32)
            split_sum += exp2f(scores[j] - split_max);
        split_sum = warp_sum(split_sum);
        for (uint32_t j = 0; j < count; j++) {
            const stored *v = (const stored *)kv.at(slot, from + j) +
                              (size_t)(kv.kv_heads + g) * kv.head_stride();
            float p = exp2f(scores[j] - split_max);
            if (K == STORAGE_I8)
                p *= *kv.scale(slot, from + j, kv.kv_heads + g);
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (threadIdx.x + i * PLAIN_THREADS < dim)
                    split[i] += p * values<K>::get(v + threadIdx.x + i * PLAIN_THREADS);
        }
        const struct merge_factors f = merge_max(&max, split_max);
        sum = merge(f, sum, split_sum);
#pragma unroll
        for (int i = 0; i < 2; i++)
            acc[i] = merge(f, acc[i], split[i]);
        from = end;
    }
    const float factor = take_sink(call, h, max, &sum);
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (threadIdx.x + i * PLAIN_THREADS < dim)
            values<A>::set(out + threadIdx.x + i * PLAIN_THREADS, __fdiv_rn(acc[i] * factor, sum));
}

template <int A, int K>
static void plain_typed(struct stream *s, const struct attention_call &call) {
    launch_shape shape = {dim3(call.row_count, call.heads), dim3(PLAIN_THREADS),
                          (256 + ATTENTION_SPLIT) * sizeof(float), device_of(s)->dependent_launch};
    LAUNCH((attention_plain_kernel<A, K>), shape, cuda_stream_of(s), call);
}
template <int A>
static void plain(struct stream *s, const struct attention_call &call, enum storage_type kv_type) {
    WITH_CACHE(kv_type, K, (plain_typed<A, K>(s, call)));
}
void attention_plain_rows(struct stream *s, const struct attention_call &call,
                          enum storage_type kv_type) {
    WITH_ACTIVATION(s->dev->activation_type, A, plain<A>(s, call, kv_type));
}

/* ---- scratch ---- */

/* Splits that have no room are computed one after the other by their row's block: the same bits,
 * less parallel. A context and the blocks it lies in have the same number of splits, because
 * a split is a whole number of blocks. */
enum : size_t { SPLITS_BYTES_MAX = (size_t)128 << 20 };

static uint32_t unit_max_of(uint32_t row_count, uint32_t heads, uint32_t head_dim,
                            uint32_t max_context) {
    const uint64_t unit = (uint64_t)heads * (head_dim + 2) * sizeof(float);
    const uint64_t wanted =
        (uint64_t)row_count * (attention_call::split_of(MAX(max_context, 1u) - 1) + 1);
    return (uint32_t)MIN(wanted, MAX((uint64_t)SPLITS_BYTES_MAX / unit, (uint64_t)1));
}

size_t cuda_attention_scratch(const struct device *dev, uint32_t row_count, uint32_t heads,
                              uint32_t head_dim, uint32_t max_context) {
    (void)dev;
    const size_t units = unit_max_of(row_count, heads, head_dim, max_context);
    return units * heads * (head_dim + 2) * sizeof(float) + 64;
}

void cuda_attention(struct stream *s, const struct op_attention *a) {
    const struct kv_view *kv = a->kv;
    const uint32_t rows = a->batch->row_count;
    CHECK(kv->kv_heads && a->heads % kv->kv_heads == 0 && a->class_rows <= rows &&
          kv->head_dim <= 256);
    CHECK(!a->last || !a->class_rows);
    struct attention_call call;
    memset((void *)&call, 0, sizeof call);
    call.out = a->out;
    call.qkv = a->qkv;
    call.heads = a->heads;
    call.window = a->window;
    call.chunk = a->chunk;
    call.sinks = a->sinks;
    call.soft_cap = a->soft_cap;
    call.slopes = a->slopes;
    call.scale = a->scale * 1.44269504088896340736f;
    call.kv = kv_pages_of(kv);
    call.slots = a->batch->slots;
    call.positions = a->batch->positions;
    call.last = a->last;
    call.step_rows = rows;
    call.unit_max = unit_max_of(rows, a->heads, kv->head_dim, kv->max_blocks * kv->block_tokens);
    /* sums first: their rows are read 16 bytes at a time */
    call.split_sums = (float *)a->scratch;
    call.split_stats = call.split_sums + (size_t)call.unit_max * a->heads * kv->head_dim;
    call.arrivals = cuda_stream_of(s)->arrivals;
    call.row_count = a->class_rows;
    if (call.row_count && !attention_decode_rows(s, call, kv->type))
        attention_plain_rows(s, call, kv->type);
    call.row_first = a->class_rows;
    call.row_count = rows - a->class_rows;
    if (!call.row_count)
        return;
    const enum storage_type act = s->dev->activation_type;
    /* tensor cores take the last position that a biased row sees for its own */
    const bool usual = act != STORAGE_F32 && kv->head_dim % 16 == 0 && !(a->slopes && a->last),
               as_they_are = a->soft_cap == 0 && !a->slopes;
    if (!usual || !((as_they_are && attention_prompt_hopper_rows(s, call, kv->type)) ||
                    attention_prompt_rows(s, call, kv->type)))
        attention_plain_rows(s, call, kv->type);
}
