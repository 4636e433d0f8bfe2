/*
 * expert.cu - rows to experts, their products, and back (kernels/ops_expert.h).
 *
 * Row-wise operations: a value a thread, 256 a block. The product, where neither expert_packed.cu
 * (weights in units) nor expert_mma.cu (weights and rows of one 16-bit type) makes it: a warp an output
 * of an expert; lane l sums columns l, l + 32, ..., then a fixed tree, for EXPERT_ROWS of the expert's
 * rows at a time. Weights are read once for EXPERT_ROWS rows. Types that are no plain numbers: a lane
 * takes runs of 32 columns and dequantizes each (dequantize.h). Tolerance: ops.h with 32 lanes.
 */
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/dequantize.cuh"
#include "kernels/cuda/experts.cuh"
#include "kernels/cuda/row_norm.cuh"

static inline launch_shape per_value(struct stream *s, uint32_t width, uint32_t rows) {
    return {dim3(rows, blocks_for(width, 256)), dim3(256), 0, device_of(s)->dependent_launch};
}

/* ---- gather ---- */

template <int A>
static __global__ void expert_gather_kernel(typename values<A>::raw *out,
                                            const typename values<A>::raw *x, struct plan_view plan,
                                            uint32_t width, bool weighted) {
    dependency_wait();
    dependents_launch();
    const uint32_t i = blockIdx.y * blockDim.x + threadIdx.x, pair = plan.pairs[blockIdx.x];
    if (i >= width)
        return;
    const float v = values<A>::get(x + (size_t)(pair / plan.top_k) * width + i);
    values<A>::set(out + (size_t)blockIdx.x * width + i, weighted ? v * plan.weights[pair] : v);
}

/* Eight values a thread of the residual's norm: each warp sums its row's squares up. */
template <int A>
static __global__ void expert_gather_normed_kernel(typename values<A>::raw *out, const float *x,
                                                   struct plan_view plan, uint32_t width,
                                                   struct norm_of_x norm) {
    const uint32_t i = (blockIdx.y * blockDim.x + threadIdx.x) * 8, groups = width / NORM_GROUP;
    if (i < width)
        prefetch_l2(norm.weight + i); /* a weight: no kernel writes it */
    dependency_wait();
    dependents_launch();
    const uint32_t row = plan.pairs[blockIdx.x] / plan.top_k;
    float v[8] = {}, weight[8] = {};
    if (i < width) {
        values<STORAGE_F32>::get8(x + (size_t)row * width + i, v);
        values<STORAGE_F32>::get8(norm.weight + i, weight);
    }
    const float scale =
        norm_scale(total_squares(norm.squares + (size_t)row * groups, groups), width, norm.eps);
    if (i >= width)
        return;
#pragma unroll
    for (uint32_t j = 0; j < 8; j++)
        v[j] = normed_value(v[j], scale, weight[j] + norm.weight_offset);
    values<A>::set8(out + (size_t)blockIdx.x * width + i, v);
}

void cuda_expert_gather(struct stream *s, const struct op_expert_gather *a) {
    if (!a->rows)
        return;
    const struct plan_view plan = plan_view_of(a->plan, a->top_k);
    if (a->norm) {
        CHECK(!a->weighted && a->width % NORM_GROUP == 0);
        WITH_ACTIVATION(s->dev->activation_type, A,
                        LAUNCH(expert_gather_normed_kernel<A>,
                               per_value(s, a->width / 8, a->rows * a->top_k), cuda_stream_of(s),
                               (typename values<A>::raw *)a->out, (const float *)a->x, plan,
                               a->width, *a->norm));
        return;
    }
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(expert_gather_kernel<A>, per_value(s, a->width, a->rows * a->top_k),
                           cuda_stream_of(s), (typename values<A>::raw *)a->out,
                           (const typename values<A>::raw *)a->x, plan, a->width, a->weighted));
}

/* ---- products ---- */

enum { EXPERT_ROWS = 4, EXPERT_WARPS = 4 };

/* The segment that holds row *n of a matrix; *n becomes the row within. */
static __device__ __forceinline__ const struct matrix_segment &segment_of(const struct matrix &m,
                                                                          uint32_t *n) {
    uint32_t segment = 0;
    while (*n >= m.segments[segment].rows)
        *n -= m.segments[segment++].rows;
    return m.segments[segment];
}

template <int A, int W>
static __global__ void expert_linear_kernel(typename values<A>::raw *out,
                                            const typename values<A>::raw *x,
                                            const struct matrix *experts, const uint32_t *offsets) {
    typedef typename values<W>::raw stored;
    dependency_wait();
    dependents_launch();
    const struct matrix &m = experts[blockIdx.y];
    const uint32_t n = blockIdx.x * EXPERT_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32,
                   cols = m.cols;
    const uint32_t end = offsets[blockIdx.y + 1];
    if (n >= m.rows)
        return;
    uint32_t row = n;
    const stored *w = (const stored *)segment_of(m, &row).data;
    w += (size_t)row * cols;
    for (uint32_t t = offsets[blockIdx.y]; t < end; t += EXPERT_ROWS) {
        float sums[EXPERT_ROWS] = {};
        for (uint32_t k = lane; k < cols; k += 32) {
            const float v = values<W>::get(w + k);
#pragma unroll
            for (uint32_t i = 0; i < EXPERT_ROWS; i++)
                if (t + i < end)
                    sums[i] += values<A>::get(x + (size_t)(t + i) * cols + k) * v;
        }
#pragma unroll
        for (uint32_t i = 0; i < EXPERT_ROWS; i++) {
            const float sum = warp_sum(sums[i]);
            if (lane == 0 && t + i < end)
                values<A>::set(out + (size_t)(t + i) * m.rows + n, m.bias ? sum + m.bias[n] : sum);
        }
    }
}

template <int A>
static __global__ void
expert_dequantized_kernel(typename values<A>::raw *out, const typename values<A>::raw *x,
                          const struct matrix *experts, const uint32_t *offsets) {
    dependency_wait();
    dependents_launch();
    const struct matrix &m = experts[blockIdx.y];
    const uint32_t n = blockIdx.x * EXPERT_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32,
                   cols = m.cols;
    const uint32_t end = offsets[blockIdx.y + 1];
    if (n >= m.rows)
        return;
    uint32_t row = n;
    const struct matrix_segment &segment = segment_of(m, &row);
    const enum storage_type type = segment.type != STORAGE_NONE ? segment.type : m.type;
    for (uint32_t t = offsets[blockIdx.y]; t < end; t += EXPERT_ROWS) {
        float sums[EXPERT_ROWS] = {};
        for (uint32_t k = lane * 32; k < cols; k += 32 * 32) {
            const uint32_t count = min(32u, cols - k);
            float v[32];
            dequantize_group(type, segment, cols, row, k, count, v);
#pragma unroll
            for (uint32_t i = 0; i < EXPERT_ROWS; i++)
                if (t + i < end)
                    for (uint32_t j = 0; j < count; j++)
                        sums[i] += values<A>::get(x + (size_t)(t + i) * cols + k + j) * v[j];
        }
#pragma unroll
        for (uint32_t i = 0; i < EXPERT_ROWS; i++) {
            const float sum = warp_sum(sums[i]);
            if (lane == 0 && t + i < end)
                values<A>::set(out + (size_t)(t + i) * m.rows + n, m.bias ? sum + m.bias[n] : sum);
        }
    }
}

template <int A> static void expert_linear(struct stream *s, const struct op_expert_linear *a) {
    typedef typename values<A>::raw raw;
    launch_shape shape = {dim3(blocks_for(a->w->rows, EXPERT_WARPS), a->w->expert_count),
                          dim3(EXPERT_WARPS * 32), 0, device_of(s)->dependent_launch};
    if (!storage_is_plain(a->w->type)) {
        LAUNCH(expert_dequantized_kernel<A>, shape, cuda_stream_of(s), (raw *)a->out,
               (const raw *)a->x, a->w->experts, a->plan->offsets);
        return;
    }
    WITH_ACTIVATION(a->w->type, W,
                    LAUNCH((expert_linear_kernel<A, W>), shape, cuda_stream_of(s), (raw *)a->out,
                           (const raw *)a->x, a->w->experts, a->plan->offsets));
}

void cuda_expert_linear(struct stream *s, const struct op_expert_linear *a) {
    if (!a->rows)
        return;
    CHECK(!a->gate || cuda_gates_experts(s->dev, a->w, a->gate));
    if (a->w->packed) {
        expert_linear_packed(s, a);
        return;
    }
    if (!expert_linear_mma(s, a))
        WITH_ACTIVATION(s->dev->activation_type, A, expert_linear<A>(s, a));
}

/* ---- combine ---- */

template <int A>
static __global__ void
expert_combine_kernel(typename values<A>::raw *out, const typename values<A>::raw *y,
                      const typename values<A>::raw *shared, struct combine_call call) {
    dependency_wait();
    dependents_launch();
    const uint32_t i = blockIdx.y * blockDim.x + threadIdx.x, t = blockIdx.x;
    if (i >= call.width)
        return;
    float sum = 0;
    for (uint32_t j = 0; j < call.plan.top_k; j++) {
        const size_t pair = (size_t)t * call.plan.top_k + j;
        const float v = values<A>::get(y + (size_t)call.plan.places[pair] * call.width + i);
        sum = add_expert(sum, v, call.weighted ? call.plan.weights[pair] : 1.0f);
    }
    const size_t at = (size_t)t * call.width + i;
    if (shared)
        sum = add_expert(sum, values<A>::get(shared + at), shared_weight(call, t));
    values<A>::set(out + at, sum);
}

void cuda_expert_combine(struct stream *s, const struct op_expert_combine *a) {
    if (!a->rows)
        return;
    if (a->residual) {
        expert_combine_norm(s, a);
        return;
    }
    const struct combine_call call = {a->shared_gate, plan_view_of(a->plan, a->top_k), a->width,
                                      a->weighted};
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(expert_combine_kernel<A>, per_value(s, a->width, a->rows),
                           cuda_stream_of(s), (typename values<A>::raw *)a->out,
                           (const typename values<A>::raw *)a->y,
                           (const typename values<A>::raw *)a->shared, call));
}

/* ---- clamped gate ---- */

template <int A>
static __global__ void clamped_swiglu_kernel(typename values<A>::raw *out,
                                             const typename values<A>::raw *gate_up, uint32_t width,
                                             bool interleaved, float limit, float alpha) {
    dependency_wait();
    dependents_launch();
    const uint32_t i = blockIdx.y * blockDim.x + threadIdx.x;
    const typename values<A>::raw *row = gate_up + (size_t)blockIdx.x * 2 * width;
    if (i >= width)
        return;
    const float gate = values<A>::get(row + (interleaved ? 2 * i : i)),
                up = values<A>::get(row + (interleaved ? 2 * i + 1 : width + i));
    values<A>::set(out + (size_t)blockIdx.x * width + i, clamped_swiglu(gate, up, limit, alpha));
}

void cuda_clamped_swiglu(struct stream *s, const struct op_clamped_swiglu *a) {
    if (!a->rows)
        return;
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(clamped_swiglu_kernel<A>, per_value(s, a->width, a->rows),
                           cuda_stream_of(s), (typename values<A>::raw *)a->out,
                           (const typename values<A>::raw *)a->gate_up, a->width, a->interleaved,
                           a->limit, a->alpha));
}
