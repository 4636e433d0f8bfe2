/*
 * route.cu - which experts a row goes to, and rows sorted by expert (kernels/ops_expert.h:
 * op_route).
 *
 * choose: a warp a row. Lane l holds experts l, l + 32, ...; the best of all is found by a tree
 * over (value, lower index), once a choice. Shared memory: scores, choices [experts], group values,
 * what is chosen.
 * sort: by one block for up to SORTED_ROWS rows. A row has an expert at most once, so an expert's rows
 * are bits of a mask, and a pair's place is how many there are of lower experts and of lower rows. Of up
 * to ONCE_ROWS rows the block that chooses sorts, too: one launch. Of more rows a warp sorts an expert:
 * it counts the pairs of lower experts, then walks the pairs in order and gives its own their places; no
 * block needs another's result. Cost: experts * pairs reads from L2.
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

/* What a warp has of shared memory to choose for a row. */
struct choice_area {
    float *score, *choice, *groups, *value;
    uint32_t *chosen; /* [top_k], best first */
    unsigned char *taken, *kept;

    __device__ __forceinline__ choice_area(unsigned char *area, const struct router &r)
        : score((float *)area), choice(score + r.experts), groups(choice + r.experts),
          value(groups + r.experts), chosen((uint32_t *)(value + r.top_k)),
          taken((unsigned char *)(chosen + r.top_k)), kept(taken + r.experts) {}
    static __host__ __device__ uint32_t bytes(const struct router &r) {
        return (r.experts * (3 * 4 + 2) + r.top_k * 8 + 3) / 4 * 4;
    }
};

/* The sum of `count` values in order, the same in every lane. */
static __device__ __forceinline__ float sum_in_order(const float *values, uint32_t count) {
    float sum = 0;
    for (uint32_t j = 0; j < count; j++)
        sum += values[j];
    return sum;
}

/* By a warp: row t's experts and their weights; the former stay in the area, too. */
static __device__ __forceinline__ void choose_row(const struct route_call &call, uint32_t t,
                                                  const choice_area &a) {
    const struct router &r = call.router;
    const uint32_t lane = threadIdx.x % 32;
    const float *logits = call.logits + (size_t)t * r.experts;
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
        a.score[e] = r.score == ROUTE_SOFTMAX   ? expf(l - max) / total
                     : r.score == ROUTE_SIGMOID ? sigmoid(l)
                                                : l;
        a.choice[e] = a.score[e] + (call.correction ? call.correction[e] : 0.0f);
        a.taken[e] = 0;
        a.kept[e] = 0;
    }
    __syncwarp();

    /* 2. runs that do not remain are taken */
    if (r.groups > 1) {
        const uint32_t size = r.experts / r.groups;
        for (uint32_t g = lane; g < r.groups; g += 32)
            a.groups[g] = run_value(a.choice + g * size, size, r.group_best);
        __syncwarp();
        for (uint32_t n = 0; n < r.groups_kept; n++) {
            const uint32_t g = warp_best(a.groups, a.kept, r.groups, lane);
            __syncwarp();
            if (lane == 0)
                a.kept[g] = 1;
            __syncwarp();
        }
        for (uint32_t e = lane; e < r.experts; e += 32)
            a.taken[e] = !a.kept[e / size];
        __syncwarp();
    }

    /* 3. the chosen, best first */
    for (uint32_t n = 0; n < r.top_k; n++) {
        const uint32_t e = warp_best(a.choice, a.taken, r.experts, lane);
        __syncwarp();
        if (lane == 0) {
            a.chosen[n] = e;
            a.taken[e] = 1;
        }
        __syncwarp();
    }

    /* 4. their weights: a lane each, sums in order */
    float best = MINUS_INFINITY, sum = 0;
    for (uint32_t j = lane; j < r.top_k; j += 32) {
        call.chosen[(size_t)t * r.top_k + j] = a.chosen[j];
        best = logits[a.chosen[j]] > best ? logits[a.chosen[j]] : best;
    }
    best = warp_max(best);
    if (r.weight == ROUTE_BY_SOFTMAX) {
        for (uint32_t j = lane; j < r.top_k; j += 32)
            a.choice[j] = expf(logits[a.chosen[j]] - best); /* choices are made */
        __syncwarp();
        sum = sum_in_order(a.choice, r.top_k);
    }
    for (uint32_t j = lane; j < r.top_k; j += 32)
        a.value[j] = r.weight == ROUTE_BY_SCORE     ? a.score[a.chosen[j]]
                     : r.weight == ROUTE_BY_SIGMOID ? sigmoid(logits[a.chosen[j]])
                                                    : a.choice[j] / sum;
    __syncwarp();
    sum = sum_in_order(a.value, r.top_k);
    for (uint32_t j = lane; j < r.top_k; j += 32)
        weights[j] =
            (r.renormalise ? a.value[j] / (sum + r.renormalise_eps) : a.value[j]) * r.scale;
}

static __global__ void route_choose_kernel(struct route_call call) {
    DYNAMIC_SHARED(area);
    dependency_wait();
    dependents_launch();
    choose_row(call, blockIdx.x, choice_area(area, call.router));
}

/* ---- sorting by one block ---- */

enum : uint32_t {
    ONCE_ROWS = 32,
    SORTED_ROWS = 512,
    SORT_THREADS = 512,
    SORT_WARPS = 4,          /* at least, of a block that chooses, too */
    ROUTE_SHARED = 48 * 1024 /* bytes that every block may have */
};

/* Shared memory of a block that sorts so many rows: a mask of each expert's, and its first place. */
static __host__ __device__ uint32_t sort_bytes(uint32_t experts, uint32_t rows) {
    return experts * ((rows + 31) / 32 + 1) * 4;
}

/* By a block: the plan of what is chosen, [rows, top_k] in shared or device memory; area: sort_bytes. */
static __device__ __forceinline__ void sort_rows(const struct route_call &call,
                                                 const uint32_t *chosen, uint32_t chosen_stride,
                                                 unsigned char *area) {
    const uint32_t experts = call.router.experts, top_k = call.router.top_k,
                   pairs = call.rows * top_k, words = (call.rows + 31) / 32;
    uint32_t *masks = (uint32_t *)area, *first = masks + experts * words;

    /* 1. which rows each expert has */
    for (uint32_t i = threadIdx.x; i < experts * words; i += blockDim.x)
        masks[i] = 0;
    __syncthreads(); /* and what is chosen is there */
    for (uint32_t p = threadIdx.x; p < pairs; p += blockDim.x) {
        const uint32_t t = p / top_k, e = chosen[t * chosen_stride + p % top_k];
        atomicOr(masks + e * words + t / 32, 1u << t % 32);
    }
    __syncthreads();

    /* 2. its first place: the rows of lower experts, which lanes of a warp have side by side */
    for (uint32_t e = threadIdx.x; e < experts; e += blockDim.x) {
        uint32_t count = 0;
        for (uint32_t w = 0; w < words; w++)
            count += (uint32_t)__popc(masks[e * words + w]);
        first[e] = count;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        const uint32_t lane = threadIdx.x, each = (experts + 31) / 32,
                       from = min(lane * each, experts), to = min(from + each, experts);
        uint32_t own = 0;
        for (uint32_t e = from; e < to; e++)
            own += first[e];
        uint32_t before = own;
        for (uint32_t by = 1; by < 32; by *= 2) {
            const uint32_t other = __shfl_up_sync(0xffffffffu, before, by);
            before += lane >= by ? other : 0;
        }
        before -= own;
        for (uint32_t e = from; e < to; e++) {
            const uint32_t count = first[e];
            first[e] = before;
            call.offsets[e] = before;
            before += count;
        }
        if (lane == 31)
            call.offsets[experts] = pairs;
    }
    __syncthreads();

    /* 3. a pair's place: behind the expert's lower rows */
    for (uint32_t p = threadIdx.x; p < pairs; p += blockDim.x) {
        const uint32_t t = p / top_k, e = chosen[t * chosen_stride + p % top_k];
        uint32_t place = first[e];
        for (uint32_t w = 0; w < t / 32; w++)
            place += (uint32_t)__popc(masks[e * words + w]);
        place += (uint32_t)__popc(masks[e * words + t / 32] & ((1u << t % 32) - 1));
        call.pairs[place] = p;
        call.places[p] = place;
    }
}

/* A warp a row, and then the block. */
static __global__ __launch_bounds__(ONCE_ROWS * 32) void route_once_kernel(struct route_call call) {
    DYNAMIC_SHARED(area);
    dependency_wait();
    dependents_launch();
    const uint32_t each = choice_area::bytes(call.router), warp = threadIdx.x / 32;
    const choice_area mine(area + warp * each, call.router);
    if (warp < call.rows)
        choose_row(call, warp, mine);
    sort_rows(call, choice_area(area, call.router).chosen, each / 4, area + call.rows * each);
}

static __global__ __launch_bounds__(SORT_THREADS) void route_sorted_kernel(struct route_call call) {
    DYNAMIC_SHARED(area);
    dependency_wait();
    dependents_launch();
    sort_rows(call, call.chosen, call.router.top_k, area);
}

/* ---- sorting by a warp an expert ---- */

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
    const bool dependent = device_of(s)->dependent_launch;
    const uint32_t each = choice_area::bytes(*r), sorting = sort_bytes(r->experts, a->rows),
                   warps = a->rows > SORT_WARPS ? a->rows : SORT_WARPS;
    const size_t once_bytes = (size_t)a->rows * each + sorting;
    if (a->rows && a->rows <= ONCE_ROWS && once_bytes <= ROUTE_SHARED) {
        launch_shape once = {dim3(1), dim3(warps * 32), once_bytes, dependent};
        LAUNCH(route_once_kernel, once, cuda_stream_of(s), call);
        return;
    }
    launch_shape choose = {dim3(a->rows), dim3(32), each, dependent};
    launch_shape sorted = {dim3(1), dim3(SORT_THREADS), sorting, dependent};
    launch_shape sort = {dim3(r->experts), dim3(32), 0, dependent};
    if (a->rows)
        LAUNCH(route_choose_kernel, choose, cuda_stream_of(s), call);
    if (a->rows && a->rows <= SORTED_ROWS && sorting <= ROUTE_SHARED)
        LAUNCH(route_sorted_kernel, sorted, cuda_stream_of(s), call);
    else
        LAUNCH(route_sort_kernel, sort, cuda_stream_of(s), call);
}
