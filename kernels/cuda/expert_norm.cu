/*
 * expert_norm.cu - the sum of a row's experts with the residual's addition and the norm that is behind it
 * (kernels/ops_expert.h: op_expert_combine with a residual).
 *
 * The bits of expert_combine (expert.cu) and then op_rmsnorm (norm.cu): the sum is rounded to act before it
 * is added. One block of 256 threads a row; a thread has NORM_GROUP features that lie together, whose
 * experts it adds up in the order of the row's choices. Cost: top_k rows of y, x twice, out once.
 * Shared memory: a float for NORM_GROUP features, a place and a weight for each choice.
 */
#include "kernels/cuda/experts.cuh"
#include "kernels/cuda/row_norm.cuh"

enum : uint32_t { THREADS = 256, ONCE = THREADS * NORM_GROUP };

/* Where a row's experts lie, and what each weighs. */
struct row_choices {
    const uint32_t *places;
    const float *weights;
    uint32_t count;
    float shared; /* the weight of the shared one */
};

/* A group of the residual, `row` from its first feature on, with the experts' sum, written; its squares. */
template <int A>
static __device__ __forceinline__ float
take_group(float h[NORM_GROUP], float *row, const typename values<A>::raw *y,
           const typename values<A>::raw *shared, const row_choices &c, uint32_t width,
           float scale) {
    enum { HALF = NORM_GROUP / 2 };
    float sums[NORM_GROUP] = {};
    auto add = [&](const typename values<A>::raw *from, float weight) {
        float v[NORM_GROUP];
        values<A>::get8(from, v);
        values<A>::get8(from + HALF, v + HALF);
#pragma unroll
        for (uint32_t i = 0; i < NORM_GROUP; i++)
            sums[i] = add_expert(sums[i], v[i], weight);
    };
#pragma unroll 4
    for (uint32_t j = 0; j < c.count; j++)
        add(y + (size_t)c.places[j] * width, c.weights[j]);
    if (shared)
        add(shared, c.shared);
    values<STORAGE_F32>::get8(row, h);
    values<STORAGE_F32>::get8(row + HALF, h + HALF);
#pragma unroll
    for (uint32_t i = 0; i < NORM_GROUP; i++) {
        typename values<A>::raw rounded;
        values<A>::set(&rounded, sums[i]);
        h[i] = residual_sum(h[i], values<A>::get(&rounded), scale);
    }
    values<STORAGE_F32>::set8(row, h);
    values<STORAGE_F32>::set8(row + HALF, h + HALF);
    return group_squares(h);
}

template <int A>
static __device__ __forceinline__ void put_normed(typename values<A>::raw *out,
                                                  const float h[NORM_GROUP], const float *weight,
                                                  float scale, float offset) {
    float v[NORM_GROUP];
    values<STORAGE_F32>::get8(weight, v);
    values<STORAGE_F32>::get8(weight + NORM_GROUP / 2, v + NORM_GROUP / 2);
#pragma unroll
    for (uint32_t i = 0; i < NORM_GROUP; i++)
        v[i] = normed_value(h[i], scale, v[i] + offset);
    values<A>::set8(out, v);
    values<A>::set8(out + NORM_GROUP / 2, v + NORM_GROUP / 2);
}

template <int A>
static __global__ __launch_bounds__(THREADS) void expert_combine_norm_kernel(
    const typename values<A>::raw *y, const typename values<A>::raw *shared,
    struct combine_call call, struct expert_residual to) {
    typedef typename values<A>::raw raw;
    DYNAMIC_SHARED(area);
    const uint32_t t = blockIdx.x, width = call.width, groups = width / NORM_GROUP,
                   top_k = call.plan.top_k, mine = threadIdx.x * NORM_GROUP;
    float *squares = (float *)area, *weights = squares + groups;
    uint32_t *places = (uint32_t *)(weights + top_k);
    if (to.out && threadIdx.x * 32 < width)
        prefetch_l2(to.weight + threadIdx.x * 32); /* a weight: no kernel writes it */
    dependents_launch();
    dependency_wait();
    for (uint32_t j = threadIdx.x; j < top_k; j += THREADS) {
        places[j] = call.plan.places[t * top_k + j];
        weights[j] = call.weighted ? call.plan.weights[t * top_k + j] : 1.0f;
    }
    const row_choices choices = {places, weights, top_k, shared ? shared_weight(call, t) : 0.0f};
    float *row = to.x + (size_t)t * width;
    const raw *beside = shared ? shared + (size_t)t * width : NULL;
    __syncthreads();

    /* 1. the residual, and its squares; of a row wider than ONCE the first values are kept */
    float kept[NORM_GROUP];
    auto sum_up = [&](float h[NORM_GROUP], uint32_t first) {
        const uint32_t group = first / NORM_GROUP;
        squares[group] = take_group<A>(h, row + first, y + first, beside ? beside + first : NULL,
                                       choices, width, to.scale);
        if (to.squares)
            to.squares[(size_t)t * groups + group] = squares[group];
    };
    if (mine < width)
        sum_up(kept, mine);
    for (uint32_t first = ONCE + mine; first < width; first += ONCE) {
        float h[NORM_GROUP];
        sum_up(h, first);
    }
    if (!to.out)
        return;
    __syncthreads();

    /* 2. the norm; each thread reads back what it wrote itself and did not keep */
    raw *out = (raw *)to.out + (size_t)t * width;
    const float scale = norm_scale(total_squares(squares, groups), width, to.eps);
    if (mine < width)
        put_normed<A>(out + mine, kept, to.weight + mine, scale, to.weight_offset);
    for (uint32_t first = ONCE + mine; first < width; first += ONCE) {
        float h[NORM_GROUP];
        values<STORAGE_F32>::get8(row + first, h);
        values<STORAGE_F32>::get8(row + first + NORM_GROUP / 2, h + NORM_GROUP / 2);
        put_normed<A>(out + first, h, to.weight + first, scale, to.weight_offset);
    }
}

void expert_combine_norm(struct stream *s, const struct op_expert_combine *a) {
    const struct combine_call call = {a->shared_gate, plan_view_of(a->plan, a->top_k), a->width,
                                      a->weighted};
    struct expert_residual to = *a->residual;
    const launch_shape shape = {dim3(a->rows), dim3(THREADS),
                                (a->width / NORM_GROUP + 2 * a->top_k) * sizeof(float),
                                device_of(s)->dependent_launch};
    CHECK(a->width % NORM_GROUP == 0);
    to.scale = to.scale != 0 ? to.scale : 1;
    WITH_ACTIVATION(s->dev->activation_type, A,
                    LAUNCH(expert_combine_norm_kernel<A>, shape, cuda_stream_of(s),
                           (const typename values<A>::raw *)a->y,
                           (const typename values<A>::raw *)a->shared, call, to));
}
