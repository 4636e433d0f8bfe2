/*
 * route.cu - which experts a row goes to, and rows sorted by expert (kernels/ops_expert.h:
 * op_route).
 *
 * choose: a warp a row. Lane l holds experts l, l + 32, ...; the best of all is found by a tree
 * over (value, lower index), once a choice. Shared memory: scores, choices [experts], group values.
 * sort: a warp an expert. It counts the pairs of lower experts, then walks the pairs in order and
 * gives its own their places; no block needs another's result. Cost: experts * pairs reads from L2.
 *
 * Exponentials are expf's (2 ulp). A NaN is never the better one.
 */
#include "kernels/cuda/attention.cuh"

struct route_call {
    struct router router;
    const float *logits, *correction;
    uint32_t *chosen, *offsets, *pairs, *places;
    float *weights;
    uint32_t rows;
};

struct best_one {
    float value;
    uint32_t idx;
};
static __device__ __forceinline__ struct best_one better(struct best_one a, struct best_one b) {
    const bool b_wins = b.idx != UINT32_MAX && (a.idx == UINT32_MAX || b.value > a.value ||
                                                (!(a.value > b.value) && b.idx < a.idx));
    return b_wins ? b : a;
}
/* The best of values[i] over the i < count that are not taken; the same in every lane. */
static __device__ __forceinline__ uint32_t warp_best(const float *values,
                                                     const unsigned char *taken, uint32_t count,
                                                     uint32_t lane) {
    struct best_one best = {0, UINT32_MAX};
    for (uint32_t i = lane; i < count; i += 32)
        if (!taken[i])
            best = better(best, {values[i] == values[i] ? values[i] : MINUS_INFINITY, i});
    for (int by = 16; by; by >>= 1) {
        struct best_one other;
        other.value = __shfl_xor_sync(0xffffffffu, best.value, by);
        other.idx = __shfl_xor_sync(0xffffffffu, best.idx, by);
        best = better(best, other);
    }
    return best.idx;
}

static __device__ __forceinline__ float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

/* Sum of a run's group_best (1 or 2) largest. */
static __device__ __forceinline__ float run_value(const float *choice, uint32_t size,
                                                  uint32_t best) {
    float first = MINUS_INFINITY, second = MINUS_INFINITY;
    for (uint32_t i = 0; i < size; i++) {
        const float v = choice[i];
        if (v > first) {
            second = first;
            first = v;
        } else if (v > second) {
            second = v;
        }
    }
    return best == 1 ? first : first + second;
}

static __global__ void route_choose_kernel(struct route_call call) {
    DYNAMIC_SHARED(area);
    const struct router &r = call.router;
    float *score = (float *)area, *choice = score + r.experts, *groups = choice + r.experts;
    unsigned char *taken = (unsigned char *)(groups + r.experts), *kept = taken + r.experts;
    dependency_wait();
    dependents_launch();
    const uint32_t t = blockIdx.x, lane = threadIdx.x;
    const float *logits = call.logits + (size_t)t * r.experts;
    uint32_t *chosen = call.chosen + (size_t)t * r.top_k;
    float *weights = call.weights + (size_t)t * r.top_k;

    /* 1. scores and choices */
    float max = MINUS_INFINITY, total = 0;
    for (uint32_t e = lane; e < r.experts; e += 32)
        max = logits[e] > max ? logits[e] : max;
    max = warp_max(max);
    for (uint32_t e = lane; e < r.experts; e += 32)
        total += expf(logits[e] - max);
    total = warp_sum(total);
    for (uint32_t e = lane; e < r.experts; e += 32) {
        const float l = logits[e];
        score[e] = r.score == ROUTE_SOFTMAX   ? expf(l - max) / total
                   : r.score == ROUTE_SIGMOID ? sigmoid(l)
                                              : l;
        choice[e] = score[e] + (call.correction ? call.correction[e] : 0.0f);
        taken[e] = 0;
        kept[e] = 0;
    }
    __syncwarp();

    /* 2. runs that do not remain are taken */
    if (r.groups > 1) {
        const uint32_t size = r.experts / r.groups;
        for (uint32_t g = lane; g < r.groups; g += 32)
            groups[g] = run_value(choice + g * size, size, r.group_best);
        __syncwarp();
        for (uint32_t n = 0; n < r.groups_kept; n++) {
            const uint32_t g = warp_best(groups, kept, r.groups, lane);
            __syncwarp();
            if (lane == 0)
                kept[g] = 1;
            __syncwarp();
        }
        for (uint32_t e = lane; e < r.experts; e += 32)
            taken[e] = !kept[e / size];
        __syncwarp();
    }

    /* 3. the chosen, best first */
    for (uint32_t n = 0; n < r.top_k; n++) {
        const uint32_t e = warp_best(choice, taken, r.experts, lane);
        __syncwarp();
        if (lane == 0) {
            chosen[n] = e;
            taken[e] = 1;
        }
        __syncwarp();
    }

    /* 4. their weights: few, so by one lane, in order */
    if (lane)
        return;
    float best = MINUS_INFINITY, sum = 0;
    for (uint32_t j = 0; j < r.top_k; j++)
        best = logits[chosen[j]] > best ? logits[chosen[j]] : best;
    for (uint32_t j = 0; r.weight == ROUTE_BY_SOFTMAX && j < r.top_k; j++)
        sum += expf(logits[chosen[j]] - best);
    const float softmax_sum = sum;
    sum = 0;
    for (uint32_t j = 0; j < r.top_k; j++) {
        const float l = logits[chosen[j]];
        weights[j] = r.weight == ROUTE_BY_SCORE     ? score[chosen[j]]
                     : r.weight == ROUTE_BY_SIGMOID ? sigmoid(l)
                                                    : expf(l - best) / softmax_sum;
        sum += weights[j];
    }
    for (uint32_t j = 0; j < r.top_k; j++)
        weights[j] =
            (r.renormalise ? weights[j] / (sum + r.renormalise_eps) : weights[j]) * r.scale;
}

static __global__ void route_sort_kernel(struct route_call call) {
    dependency_wait();
    dependents_launch();
    const uint32_t e = blockIdx.x, lane = threadIdx.x, pairs = call.rows * call.router.top_k;
    uint32_t lower = 0;
    for (uint32_t p = lane; p < pairs; p += 32)
        lower += call.chosen[p] < e;
    for (int by = 16; by; by >>= 1)
        lower += __shfl_xor_sync(0xffffffffu, lower, by);
    if (lane == 0)
        call.offsets[e] = lower;
    if (lane == 0 && e + 1 == call.router.experts)
        call.offsets[e + 1] = pairs;
    for (uint32_t base = 0; base < pairs; base += 32) {
        const uint32_t p = base + lane;
        const bool own = p < pairs && call.chosen[p] == e;
        uint32_t before = own; /* inclusive prefix sum over the lanes */
        for (int by = 1; by < 32; by *= 2) {
            const uint32_t other = __shfl_sync(0xffffffffu, before, (lane - by) & 31);
            before += lane >= (uint32_t)by ? other : 0;
        }
        if (own) {
            call.pairs[lower + before - 1] = p;
            call.places[p] = lower + before - 1;
        }
        lower += __shfl_sync(0xffffffffu, before, 31);
    }
}

void cuda_route(struct stream *s, const struct op_route *a) {
    const struct router *r = a->router;
    CHECK(r->experts && r->experts <= ROUTE_EXPERTS_MAX && r->top_k &&
          r->top_k <= MIN(r->experts, ROUTE_TOP_MAX + 0u));
    CHECK(r->groups <= 1 ||
          (r->group_best >= 1 && r->group_best <= 2 && r->experts % r->groups == 0));
    struct route_call call;
    memset((void *)&call, 0, sizeof call);
    call.router = *r;
    call.logits = a->logits;
    call.correction = a->correction;
    call.chosen = a->plan->chosen;
    call.weights = a->plan->weights;
    call.offsets = a->plan->offsets;
    call.pairs = a->plan->pairs;
    call.places = a->plan->places;
    call.rows = a->rows;
    launch_shape choose = {dim3(a->rows), dim3(32), r->experts * (3 * sizeof(float) + 2),
                           device_of(s)->dependent_launch};
    launch_shape sort = {dim3(r->experts), dim3(32), 0, device_of(s)->dependent_launch};
    if (a->rows)
        LAUNCH(route_choose_kernel, choose, cuda_stream_of(s), call);
    LAUNCH(route_sort_kernel, sort, cuda_stream_of(s), call);
}
