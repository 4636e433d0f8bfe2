/*
 * sample.cu - one token for each sampling row (kernels/ops.h: op_sample), step by step as numbered
 * there.
 *
 * One block of 1024 threads a row; logits stay in L2 between the passes over them (about nine:
 * finite, penalties only over the history, masks, max, scaling, thresholds, draw). Thresholds
 * without sorting: z <= 0, so the bits of -z order the candidates; three passes of counting (11,
 * 11, 9 bits) narrow a threshold's key. Weights are integers, so their sums depend on no order. The
 * draw is an argmax of z + noise with the lowest id among equals: no order either. Noise is drawn
 * where it could still win (gumbel < GUMBEL_MAX).
 *
 * Scratch: counts u32 [R, V], raw logits f32 [R, V]. Shared memory: 17 KB.
 */
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/exact.cuh"

enum { SAMPLE_THREADS = 1024, BINS = 2048 };
enum : uint32_t { SEEN = 0x80000000u, FINITE_KEY = 0x7f7fffffu };
#define GUMBEL_MAX     23.1f
#define MINUS_INFINITY (__uint_as_float(0xff800000u))

struct sample_call {
    float *logits;
    uint32_t stride, vocab;
    const uint32_t *masks, *mask_rows;
    uint32_t mask_stride;
    struct slot_table slots;
    const uint32_t *sample_rows, *row_slots, *positions;
    struct sample_out out;
    uint32_t *counts;
    float *raw;
};

/* A candidate: larger value first, then lower id. */
struct pick {
    float value;
    uint32_t id;
};
static __device__ __forceinline__ struct pick better(struct pick a, struct pick b) {
    return b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a;
}

/* What a block's threads use together. */
struct sample_block {
    unsigned long long *histogram; /* [BINS] */
    struct pick *picks;            /* [32] */
    double *sums;                  /* [32] */
    unsigned long long *wide;      /* [2] */
};

static __device__ struct pick block_pick(const struct sample_block &b, struct pick mine) {
    for (int by = 16; by; by >>= 1) {
        struct pick other = {__shfl_xor_sync(0xffffffffu, mine.value, by),
                             __shfl_xor_sync(0xffffffffu, mine.id, by)};
        mine = better(mine, other);
    }
    __syncthreads(); /* all have read the result before */
    if (threadIdx.x % 32 == 0)
        b.picks[threadIdx.x / 32] = mine;
    __syncthreads();
    struct pick best = b.picks[0];
    for (int w = 1; w < SAMPLE_THREADS / 32; w++)
        best = better(best, b.picks[w]);
    return best;
}

static __device__ double block_sum(const struct sample_block &b, double mine) {
    for (int by = 16; by; by >>= 1)
        mine += __shfl_xor_sync(0xffffffffu, mine, by);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        b.sums[threadIdx.x / 32] = mine;
    __syncthreads();
    double total = 0;
    for (int w = 0; w < SAMPLE_THREADS / 32; w++)
        total += b.sums[w];
    return total;
}

/* The largest; id UINT32_MAX when any is NaN or +inf, or none is above -inf. */
static __device__ struct pick finite_max(const struct sample_block &b, const float *x,
                                         uint32_t count) {
    struct pick best = {MINUS_INFINITY, UINT32_MAX};
    int sick = 0;
    for (uint32_t v = threadIdx.x; v < count; v += SAMPLE_THREADS) {
        const float l = x[v];
        sick |= !(l <= 3.402823466e38f);
        if (l > best.value || (l == best.value && v < best.id && l > MINUS_INFINITY))
            best = {l, v};
    }
    if (sick)
        best = {__uint_as_float(0x7f800000u), UINT32_MAX};
    best = block_pick(b, best);
    if (best.value == MINUS_INFINITY)
        best.id = UINT32_MAX;
    return best;
}

/* a. The k best, one pass for each; every pass takes the best behind the one before. */
static __device__ void top_logprobs(const struct sample_block &b, const struct sample_call &call,
                                    const float *x, uint32_t row, uint32_t want, double log_sum) {
    struct pick last = {0, 0};
    for (uint32_t i = 0; i < want; i++) {
        struct pick best = {MINUS_INFINITY, UINT32_MAX};
        for (uint32_t v = threadIdx.x; v < call.vocab; v += SAMPLE_THREADS) {
            const struct pick mine = {x[v], v};
            if (i && !(mine.value < last.value || (mine.value == last.value && v > last.id)))
                continue;
            best = better(best, mine);
        }
        last = block_pick(b, best);
        if (threadIdx.x == 0) {
            call.out.top_ids[(size_t)row * SAMPLE_TOP_MAX + i] = last.id;
            call.out.top_logprobs[(size_t)row * SAMPLE_TOP_MAX + i] =
                (float)((double)last.value - log_sum);
        }
    }
    if (threadIdx.x == 0)
        call.out.top_counts[row] = want;
}

/* c. Each id of the history once: the thread that takes its count away applies it. */
static __device__ void penalties(const struct slot_state *s, const uint32_t *history,
                                 uint32_t *counts, float *x) {
    if (s->repetition_penalty == 1 && s->presence_penalty == 0 && s->frequency_penalty == 0)
        return;
    for (uint32_t i = threadIdx.x; i < s->token_count; i += SAMPLE_THREADS)
        atomicExch(&counts[history[i]], 0u);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < s->token_count; i += SAMPLE_THREADS) {
        atomicOr(&counts[history[i]], (uint32_t)SEEN);
        if (i >= s->prompt_count)
            atomicAdd(&counts[history[i]], 1u);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < s->token_count; i += SAMPLE_THREADS) {
        const uint32_t c = atomicExch(&counts[history[i]], 0u), times = c & ~(uint32_t)SEEN;
        if (!c)
            continue;
        float l = x[history[i]];
        if (s->repetition_penalty != 1)
            l = l > 0 ? __fdiv_rn(l, s->repetition_penalty) : __fmul_rn(l, s->repetition_penalty);
        if (times) {
            l = __fsub_rn(l, __fmul_rn((float)times, s->frequency_penalty));
            l = __fsub_rn(l, s->presence_penalty);
        }
        x[history[i]] = l;
    }
    __syncthreads();
}

/* c. An id's entries in order, all by the thread of its first one. */
static __device__ void biases(const struct slot_state *s, const uint32_t *ids, const float *more,
                              float *x, uint32_t vocab) {
    for (uint32_t i = threadIdx.x; i < s->bias_count; i += SAMPLE_THREADS) {
        bool first = ids[i] < vocab;
        for (uint32_t j = 0; first && j < i; j++)
            first = ids[j] != ids[i];
        if (!first)
            continue;
        float l = x[ids[i]];
        for (uint32_t j = i; j < s->bias_count; j++)
            if (ids[j] == ids[i])
                l = __fadd_rn(l, more[j]);
        x[ids[i]] = l;
    }
    __syncthreads();
}

/* d. */
static __device__ void mask(const struct sample_call &call, const struct slot_state *s,
                            uint32_t row, float *x) {
    for (uint32_t i = threadIdx.x; s->token_count < s->min_total && i < s->stop_count;
         i += SAMPLE_THREADS)
        if (s->stops[i] < call.vocab)
            x[s->stops[i]] = MINUS_INFINITY;
    __syncthreads();
    if (!call.masks || call.mask_rows[row] == (uint32_t)ROW_NONE)
        return;
    const uint32_t *bits = call.masks + (size_t)call.mask_rows[row] * call.mask_stride;
    for (uint32_t v = threadIdx.x; v < call.vocab; v += SAMPLE_THREADS)
        if (!(bits[v / 32] >> v % 32 & 1))
            x[v] = MINUS_INFINITY;
    __syncthreads();
}

/* ---- f. thresholds ---- */

/* Smaller key: larger z. z is in [-inf, 0] (or -0). */
static __device__ __forceinline__ uint32_t key_of(float z) {
    return __float_as_uint(z) & 0x7fffffffu;
}
static __device__ __forceinline__ unsigned long long mass_of(float z) {
    return z < -28.0f ? 0 : (unsigned long long)(expf(z) * 1099511627776.0f);
}

/* The smallest key such that the weight of all ids with keys up to it (and to limit) reaches want
 * >= 1. */
static __device__ uint32_t threshold_key(const struct sample_block &b, const float *z,
                                         uint32_t count, bool by_mass, uint32_t limit,
                                         unsigned long long want) {
    uint32_t prefix = 0, upper = 31; /* bits of the key not yet decided */
    while (upper) {
        const uint32_t bits = upper > 11 ? 11 : upper, shift = upper - bits, size = 1u << bits;
        for (uint32_t i = threadIdx.x; i < size; i += SAMPLE_THREADS)
            b.histogram[i] = 0;
        __syncthreads();
        for (uint32_t v = threadIdx.x; v < count; v += SAMPLE_THREADS) {
            const uint32_t key = key_of(z[v]);
            if (key > limit || (uint64_t)key >> upper != prefix)
                continue;
            const unsigned long long weight = by_mass ? mass_of(z[v]) : 1;
            if (weight)
                atomicAdd(&b.histogram[key >> shift & (size - 1)], weight);
        }
        __syncthreads();
        /* the first warp walks the bins, 32 at a time */
        if (threadIdx.x < 32) {
            unsigned long long left = want;
            uint32_t bin = size - 1;
            for (uint32_t base = 0; base < size; base += 32) {
                unsigned long long upto =
                    base + threadIdx.x < size ? b.histogram[base + threadIdx.x] : 0;
                const unsigned long long own = upto;
                for (uint32_t by = 1; by < 32; by *= 2) {
                    const unsigned long long other = __shfl_up_sync(0xffffffffu, upto, by);
                    if (threadIdx.x >= by)
                        upto += other;
                }
                const unsigned found = __ballot_sync(0xffffffffu, upto >= left);
                if (found) {
                    const int at = __ffs((int)found) - 1;
                    bin = base + (uint32_t)at;
                    left -= __shfl_sync(0xffffffffu, upto - own, at);
                    break;
                }
                left -= __shfl_sync(0xffffffffu, upto, 31);
            }
            if (threadIdx.x == 0) {
                b.wide[0] = bin;
                b.wide[1] = left;
            }
        }
        __syncthreads();
        prefix = prefix << bits | (uint32_t)b.wide[0];
        want = b.wide[1];
        upper = shift;
        __syncthreads(); /* all have read before the next pass */
    }
    return prefix;
}

static __device__ unsigned long long block_total(const struct sample_block &b,
                                                 unsigned long long mine) {
    if (threadIdx.x == 0)
        b.wide[0] = 0;
    __syncthreads();
    for (int by = 16; by; by >>= 1)
        mine += __shfl_xor_sync(0xffffffffu, mine, by);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&b.wide[0], mine);
    __syncthreads();
    const unsigned long long total = b.wide[0];
    __syncthreads();
    return total;
}

static __device__ unsigned long long total_mass(const struct sample_block &b, const float *z,
                                                uint32_t count, uint32_t limit) {
    unsigned long long mine = 0;
    for (uint32_t v = threadIdx.x; v < count; v += SAMPLE_THREADS)
        if (key_of(z[v]) <= limit)
            mine += mass_of(z[v]);
    return block_total(b, mine);
}

/* The largest key that top_n_sigma keeps; x holds the logits, max the largest. */
static __device__ uint32_t sigma_key(const struct sample_block &b, const struct slot_state *s,
                                     const float *x, uint32_t count, float max) {
    unsigned long long sum = 0, squares = 0, finite = 0;
    for (uint32_t v = threadIdx.x; v < count; v += SAMPLE_THREADS) {
        if (!(x[v] > MINUS_INFINITY))
            continue;
        const float below = fminf(__fsub_rn(max, x[v]), 2048.0f);
        const unsigned long long d = (unsigned long long)(below * 512.0f);
        sum += d;
        squares += d * d;
        finite++;
    }
    const double all = (double)block_total(b, finite), mean = (double)block_total(b, sum) / all;
    const double variance = __dsub_rn((double)block_total(b, squares) / all, __dmul_rn(mean, mean));
    const double sigma = sqrt(variance > 0 ? variance : 0) / 512;
    const float limit = __fdiv_rn((float)__dmul_rn((double)s->top_n_sigma, sigma), s->temperature);
    return min(key_of(limit), (uint32_t)FINITE_KEY);
}

/* The largest key kept, none of them above `limit`. */
static __device__ uint32_t kept_key(const struct sample_block &b, const struct slot_state *s,
                                    const float *z, uint32_t count, uint32_t limit) {
    if (s->top_k && s->top_k < count)
        limit = min(limit, threshold_key(b, z, count, false, limit, s->top_k));
    if (s->top_p < 1) {
        const unsigned long long want =
            (unsigned long long)((double)s->top_p * (double)total_mass(b, z, count, limit));
        limit = min(limit, threshold_key(b, z, count, true, limit, want ? want : 1));
    }
    return limit;
}

/* f, g. x holds the logits, best the largest; becomes z. */
static __device__ uint32_t draw(const struct sample_block &b, const struct slot_state *s, float *x,
                                uint32_t count, struct pick best) {
    uint32_t limit = FINITE_KEY;
    if (s->top_n_sigma > 0)
        limit = sigma_key(b, s, x, count, best.value);
    for (uint32_t v = threadIdx.x; v < count; v += SAMPLE_THREADS)
        x[v] = __fdiv_rn(__fsub_rn(x[v], best.value), s->temperature);
    __syncthreads();
    limit = kept_key(b, s, x, count, limit);
    struct pick mine = {exact_gumbel(exact_noise(s->seed, s->choice, s->token_count, best.id)),
                        best.id};
    for (uint32_t v = threadIdx.x; v < count; v += SAMPLE_THREADS) {
        const float z = x[v];
        if (!(z + GUMBEL_MAX > mine.value) || key_of(z) > limit || v == best.id)
            continue;
        if (s->min_p > 0 && expf(z) < s->min_p)
            continue;
        const struct pick other = {
            __fadd_rn(z, exact_gumbel(exact_noise(s->seed, s->choice, s->token_count, v))), v};
        mine = better(mine, other);
    }
    return block_pick(b, mine).id;
}

/* By one thread. */
static __device__ uint32_t append_token(struct slot_state *s, uint32_t *history, uint32_t token) {
    history[s->token_count++] = token;
    bool stop = false;
    for (uint32_t i = 0; i < s->stop_count; i++)
        stop |= s->stops[i] == token;
    if (!stop && s->token_count < s->max_total)
        return SAMPLE_TOKEN;
    s->active = 0;
    return stop ? SAMPLE_STOP : SAMPLE_LENGTH;
}

/* The token, or UINT32_MAX when nothing is left to draw. *logprob: of the token, when asked for. */
static __device__ uint32_t sample_row(const struct sample_block &b, const struct sample_call &call,
                                      const struct slot_state *s, uint32_t slot, uint32_t row,
                                      float *logprob) {
    float *x = call.logits + (size_t)row * call.stride, *raw = call.raw + (size_t)row * call.vocab;
    struct pick best = finite_max(b, x, call.vocab);
    if (best.id == UINT32_MAX)
        return UINT32_MAX;
    const bool logprobs = s->logprobs >= 0;
    double log_sum = 0;
    if (logprobs) {
        double mine = 0;
        for (uint32_t v = threadIdx.x; v < call.vocab; v += SAMPLE_THREADS) {
            raw[v] = x[v];
            mine += (double)expf(x[v] - best.value);
        }
        log_sum = (double)best.value + log(block_sum(b, mine));
        top_logprobs(b, call, x, row,
                     min((uint32_t)s->logprobs, min(call.vocab, (uint32_t)SAMPLE_TOP_MAX)),
                     log_sum);
    }
    __syncthreads(); /* all have read x */
    penalties(s, call.slots.tokens + (size_t)slot * call.slots.max_context,
              call.counts + (size_t)row * call.vocab, x);
    biases(s, call.slots.bias_ids + (size_t)slot * SLOT_BIAS_MAX,
           call.slots.bias_values + (size_t)slot * SLOT_BIAS_MAX, x, call.vocab);
    mask(call, s, row, x);
    best = finite_max(b, x, call.vocab);
    if (best.id == UINT32_MAX)
        return UINT32_MAX;
    const uint32_t token = s->temperature > 0 ? draw(b, s, x, call.vocab, best) : best.id;
    *logprob = logprobs ? (float)((double)raw[token] - log_sum) : 0;
    return token;
}

/* One block a processor: two would leave 32 registers, and top_n_sigma spills. */
static __global__ __launch_bounds__(SAMPLE_THREADS, 1) void sample_kernel(struct sample_call call) {
    DYNAMIC_SHARED(area);
    struct sample_block b;
    b.histogram = (unsigned long long *)area;
    b.wide = b.histogram + BINS;
    b.sums = (double *)(b.wide + 2);
    b.picks = (struct pick *)(b.sums + 32);
    dependency_wait();
    dependents_launch();
    const uint32_t row = blockIdx.x, t = call.sample_rows[row], slot = call.row_slots[t];
    struct slot_state *s = &call.slots.states[slot];
    const bool wasted = call.positions[t] == (uint32_t)ROW_NONE || !s->active;
    float logprob = 0;
    if (threadIdx.x == 0) {
        call.out.tokens[row] = 0;
        call.out.top_counts[row] = SAMPLE_NO_LOGPROBS;
    }
    const uint32_t token = wasted ? 0 : sample_row(b, call, s, slot, row, &logprob);
    __syncthreads(); /* all are done with the slot's state */
    if (threadIdx.x)
        return;
    call.out.logprobs[row] = token == UINT32_MAX ? 0 : logprob;
    if (wasted) {
        call.out.status[row] = SAMPLE_WASTED;
    } else if (token == UINT32_MAX) {
        s->active = 0;
        call.out.status[row] = SAMPLE_NONFINITE;
    } else {
        call.out.tokens[row] = token;
        call.out.status[row] =
            append_token(s, call.slots.tokens + (size_t)slot * call.slots.max_context, token);
    }
}

size_t cuda_sample_scratch(const struct device *dev, uint32_t sample_count, uint32_t vocab_size) {
    (void)dev;
    return (size_t)sample_count * vocab_size * 8 + 64;
}

void cuda_sample(struct stream *s, const struct op_sample *a) {
    const uint32_t rows = a->batch->sample_count;
    if (!rows)
        return;
    struct sample_call call;
    call.logits = a->logits;
    call.stride = a->logits_stride;
    call.vocab = a->vocab_size;
    call.masks = a->masks;
    call.mask_rows = a->mask_rows;
    call.mask_stride = a->mask_stride;
    call.slots = *a->slots;
    call.sample_rows = a->batch->sample_rows;
    call.row_slots = a->batch->slots;
    call.positions = a->batch->positions;
    call.out = *a->out;
    call.counts = (uint32_t *)a->scratch;
    call.raw = (float *)a->scratch + (size_t)rows * a->vocab_size;
    launch_shape shape = {dim3(rows), dim3(SAMPLE_THREADS), (BINS + 2 + 32 + 32) * 8,
                          device_of(s)->dependent_launch};
    LAUNCH(sample_kernel, shape, cuda_stream_of(s), call);
}
