/*
 * sample.cu - one token for each sampling row (kernels/ops.h: op_sample), step by step as numbered
 * there.
 *
 * One block of 1024 threads a row, or, of few rows with a large vocabulary on sm_90, a cluster of
 * eight; logits stay in L2 between the passes over them (about nine: finite, penalties only over the
 * history, masks, max, scaling, thresholds, draw). The one sum of floats is cut the same either way. Thresholds
 * without sorting: z <= 0, so the bits of -z order the candidates; three passes of counting (11,
 * 11, 9 bits) narrow a threshold's key. Weights are integers, so their sums depend on no order. The
 * draw is an argmax of z + noise with the lowest id among equals: no order either. Noise is drawn
 * where it could still win (gumbel < GUMBEL_MAX).
 *
 * Scratch: counts u32 [R, V], raw logits f32 [R, V]. Shared memory: 19 KB.
 */
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/exact.cuh"
#include "kernels/cuda/ptx_cluster.cuh"

enum { SAMPLE_THREADS = 1024, BINS = 2048 };
/* Blocks that have a row together where the vocabulary is this large, and for how many rows; with
 * more, rows alone fill the GPU. */
enum : uint32_t { SAMPLE_CLUSTER = 8, CLUSTER_VOCAB = 32768, CLUSTER_ROWS = 32 };
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

/* What a block's threads use together, and the blocks that have the row: SIZE, a cluster along y.
 * Functions that take it are called by all threads of all of them. */
template <uint32_t SIZE> struct sample_block {
    float4 *told;                  /* what this block tells the others */
    unsigned long long *histogram; /* [BINS] */
    unsigned long long *merged; /* [BINS / SAMPLE_CLUSTER] this block's share of all histograms */
    struct pick *picks;         /* [32] */
    double *sums;               /* [32] */
    unsigned long long *wide;   /* [2] */
    __device__ __forceinline__ uint32_t rank() const {
        return SIZE > 1 ? blockIdx.y : 0;
    }
    /* A thread has every step()-th of a row's values, from first() on. */
    __device__ __forceinline__ uint32_t first() const {
        return rank() * SAMPLE_THREADS + threadIdx.x;
    }
    __device__ __forceinline__ uint32_t step() const {
        return SIZE * SAMPLE_THREADS;
    }
    __device__ __forceinline__ void sync() const {
        if (SIZE > 1)
            cluster_barrier();
        else
            __syncthreads();
    }
    /* use_value(what each block's thread 0 has), in order of rank. */
    template <class USE>
    __device__ __forceinline__ void exchange_values(float4 mine, USE use_value) const {
        if (threadIdx.x == 0)
            *told = mine;
        cluster_barrier();
        for (uint32_t r = 0; r < SIZE; r++)
            use_value(load_of_peer(told, r));
        cluster_barrier(); /* all have read */
    }
};
/* 64 bits to tell. */
static __device__ __forceinline__ float4 told_bits(unsigned long long v) {
    return make_float4(__uint_as_float((uint32_t)v), __uint_as_float((uint32_t)(v >> 32)), 0, 0);
}
static __device__ __forceinline__ unsigned long long bits_told(float4 v) {
    return (unsigned long long)__float_as_uint(v.y) << 32 | __float_as_uint(v.x);
}

template <uint32_t SIZE>
static __device__ struct pick block_pick(const sample_block<SIZE> &b, struct pick mine) {
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
    if (SIZE > 1)
        b.exchange_values(make_float4(best.value, __uint_as_float(best.id), 0, 0),
                          [&](float4 other) {
                              best = better(best, {other.x, __float_as_uint(other.y)});
                          });
    return best;
}

/* Of this block alone. */
template <uint32_t SIZE>
static __device__ double block_sum(const sample_block<SIZE> &b, double mine) {
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

/* The sum of term(v) over a row: of a large vocabulary in slices, as a cluster's blocks have them. */
template <uint32_t SIZE, class TERM>
static __device__ double row_sum(const sample_block<SIZE> &b, uint32_t count, TERM term) {
    const uint32_t slices = count >= CLUSTER_VOCAB ? (uint32_t)SAMPLE_CLUSTER : 1;
    double total = 0;
    for (uint32_t slice = b.rank(); slice < slices; slice += SIZE) {
        double mine = 0;
        for (uint32_t v = slice * SAMPLE_THREADS + threadIdx.x; v < count;
             v += slices * SAMPLE_THREADS)
            mine += term(v);
        total += block_sum(b, mine);
    }
    if (SIZE > 1) {
        const double own = total;
        total = 0;
        b.exchange_values(
            told_bits((unsigned long long)__double_as_longlong(own)),
            [&](float4 other) { total += __longlong_as_double((long long)bits_told(other)); });
    }
    return total;
}

/* The largest; id UINT32_MAX when any is NaN or +inf, or none is above -inf. */
template <uint32_t SIZE>
static __device__ struct pick finite_max(const sample_block<SIZE> &b, const float *x,
                                         uint32_t count) {
    struct pick best = {MINUS_INFINITY, UINT32_MAX};
    int sick = 0;
    for (uint32_t v = b.first(); v < count; v += b.step()) {
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
template <uint32_t SIZE>
static __device__ void top_logprobs(const sample_block<SIZE> &b, const struct sample_call &call,
                                    const float *x, uint32_t row, uint32_t want, double log_sum) {
    struct pick last = {0, 0};
    for (uint32_t i = 0; i < want; i++) {
        struct pick best = {MINUS_INFINITY, UINT32_MAX};
        for (uint32_t v = b.first(); v < call.vocab; v += b.step()) {
            const struct pick mine = {x[v], v};
            if (i && !(mine.value < last.value || (mine.value == last.value && v > last.id)))
                continue;
            best = better(best, mine);
        }
        last = block_pick(b, best);
        if (b.first() == 0) {
            call.out.top_ids[(size_t)row * SAMPLE_TOP_MAX + i] = last.id;
            call.out.top_logprobs[(size_t)row * SAMPLE_TOP_MAX + i] =
                (float)((double)last.value - log_sum);
        }
    }
    if (b.first() == 0)
        call.out.top_counts[row] = want;
}

/* c. Each id of the history once: the thread that takes its count away applies it. */
template <uint32_t SIZE>
static __device__ void penalties(const sample_block<SIZE> &b, const struct slot_state *s,
                                 const uint32_t *history, uint32_t *counts, float *x) {
    if (s->repetition_penalty == 1 && s->presence_penalty == 0 && s->frequency_penalty == 0)
        return;
    const uint32_t window = s->rules.penalty_window,
                   first = window && window < s->token_count ? s->token_count - window : 0;
    for (uint32_t i = first + b.first(); i < s->token_count; i += b.step())
        atomicExch(&counts[history[i]], 0u);
    b.sync();
    for (uint32_t i = first + b.first(); i < s->token_count; i += b.step()) {
        atomicOr(&counts[history[i]], (uint32_t)SEEN);
        if (i >= s->prompt_count)
            atomicAdd(&counts[history[i]], 1u);
    }
    b.sync();
    for (uint32_t i = first + b.first(); i < s->token_count; i += b.step()) {
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
    b.sync();
}

/* c. An id's entries in order, all by the thread of its first one. */
template <uint32_t SIZE>
static __device__ void biases(const sample_block<SIZE> &b, const struct slot_state *s,
                              const uint32_t *ids, const float *more, float *x, uint32_t vocab) {
    for (uint32_t i = b.first(); i < s->bias_count; i += b.step()) {
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
    b.sync();
}

/* d. */
template <uint32_t SIZE>
static __device__ void mask(const sample_block<SIZE> &b, const struct sample_call &call,
                            const struct slot_state *s, uint32_t row, float *x) {
    for (uint32_t i = b.first(); s->token_count < s->min_total && i < s->stop_count; i += b.step())
        if (s->stops[i] < call.vocab)
            x[s->stops[i]] = MINUS_INFINITY;
    b.sync();
    if (!call.masks || call.mask_rows[row] == (uint32_t)ROW_NONE)
        return;
    const uint32_t *bits = call.masks + (size_t)call.mask_rows[row] * call.mask_stride;
    for (uint32_t v = b.first(); v < call.vocab; v += b.step())
        if (!(bits[v / 32] >> v % 32 & 1))
            x[v] = MINUS_INFINITY;
    b.sync();
}

/* ---- f. thresholds ---- */

/* Smaller key: larger z. z is in [-inf, 0] (or -0). */
static __device__ __forceinline__ uint32_t key_of(float z) {
    return __float_as_uint(z) & 0x7fffffffu;
}
static __device__ __forceinline__ unsigned long long mass_of(float z) {
    return z < -28.0f ? 0 : (unsigned long long)(expf(z) * 1099511627776.0f);
}

/* By the first warp: the first of `size` bins up to which the weights reach `want`, the last where
 * none is, into b.wide[0]; what is left of `want` before it, into b.wide[1]. */
template <uint32_t SIZE>
static __device__ void walk_bins(const sample_block<SIZE> &b, const unsigned long long *bins,
                                 uint32_t size, unsigned long long left) {
    uint32_t bin = size - 1;
    for (uint32_t base = 0; base < size; base += 32) {
        unsigned long long upto = base + threadIdx.x < size ? bins[base + threadIdx.x] : 0;
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

template <uint32_t SIZE>
static __device__ unsigned long long total_here(const sample_block<SIZE> &b,
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

template <uint32_t SIZE>
static __device__ unsigned long long block_total(const sample_block<SIZE> &b,
                                                 unsigned long long mine) {
    unsigned long long total = total_here(b, mine);
    if (SIZE > 1) {
        const unsigned long long own = total;
        total = 0;
        b.exchange_values(told_bits(own), [&](float4 other) { total += bits_told(other); });
    }
    return total;
}

/* walk_bins over the sums of all blocks' histograms; returns the bin, *want is what is left. Each
 * block adds up a share of the bins, and the one whose share reaches `want` walks it. */
template <uint32_t SIZE>
static __device__ uint32_t walk_all_bins(const sample_block<SIZE> &b, uint32_t size,
                                         unsigned long long *want) {
    const uint32_t share = size / SIZE, first = b.rank() * share;
    unsigned long long low = 0, high = 0;
    cluster_barrier(); /* the histograms are there */
    if (threadIdx.x < share / 2) {
        for (uint32_t r = 0; r < SIZE; r++) {
            const float4 two = load_of_peer((const float4 *)(b.histogram + first) + threadIdx.x, r);
            low += bits_told(two);
            high += bits_told(make_float4(two.z, two.w, 0, 0));
        }
        b.merged[threadIdx.x * 2] = low;
        b.merged[threadIdx.x * 2 + 1] = high;
    }
    const unsigned long long own = total_here(b, low + high);
    unsigned long long left = *want;
    uint32_t owner = 0, r = 0;
    b.exchange_values(told_bits(own), [&](float4 other) {
        const unsigned long long weight = bits_told(other);
        if (owner == r && r + 1 < SIZE && weight < left) {
            left -= weight;
            owner = r + 1;
        }
        r++;
    });
    if (owner == b.rank() && threadIdx.x < 32)
        walk_bins(b, b.merged, share, left);
    __syncthreads();
    uint32_t bin = 0;
    const unsigned long long found = b.wide[0], after = b.wide[1];
    float4 mine = told_bits(after);
    mine.z = __uint_as_float((uint32_t)found + first);
    r = 0;
    b.exchange_values(mine, [&](float4 other) {
        if (r++ == owner) {
            *want = bits_told(other);
            bin = __float_as_uint(other.z);
        }
    });
    return bin;
}

/* The smallest key such that the weight of all ids with keys up to it reaches want >= 1;
 * weigh(id, &key) tells an id's. */
template <uint32_t SIZE, class WEIGH>
static __device__ uint32_t find_key(const sample_block<SIZE> &b, uint32_t count,
                                    unsigned long long want, WEIGH weigh) {
    uint32_t prefix = 0, upper = 31; /* bits of the key not yet decided */
    while (upper) {
        const uint32_t bits = upper > 11 ? 11 : upper, shift = upper - bits, size = 1u << bits;
        for (uint32_t i = threadIdx.x; i < size; i += SAMPLE_THREADS)
            b.histogram[i] = 0;
        __syncthreads();
        for (uint32_t v = b.first(); v < count; v += b.step()) {
            uint32_t key;
            const unsigned long long weight = weigh(v, &key);
            if (weight && (uint64_t)key >> upper == prefix)
                atomicAdd(&b.histogram[key >> shift & (size - 1)], weight);
        }
        __syncthreads();
        uint32_t bin;
        if (SIZE > 1) {
            bin = walk_all_bins(b, size, &want);
        } else {
            if (threadIdx.x < 32)
                walk_bins(b, b.histogram, size, want);
            __syncthreads();
            bin = (uint32_t)b.wide[0];
            want = b.wide[1];
        }
        prefix = prefix << bits | bin;
        upper = shift;
        __syncthreads(); /* all have read before the next pass */
    }
    return prefix;
}

/* The same of keys up to limit, by masses or by counts. */
template <uint32_t SIZE>
static __device__ uint32_t threshold_key(const sample_block<SIZE> &b, const float *z,
                                         uint32_t count, bool by_mass, uint32_t limit,
                                         unsigned long long want) {
    return find_key(b, count, want, [=](uint32_t v, uint32_t *key) {
        *key = key_of(z[v]);
        return *key > limit ? 0 : by_mass ? mass_of(z[v]) : 1ull;
    });
}

template <uint32_t SIZE>
static __device__ unsigned long long total_mass(const sample_block<SIZE> &b, const float *z,
                                                uint32_t count, uint32_t limit) {
    unsigned long long mine = 0;
    for (uint32_t v = b.first(); v < count; v += b.step())
        if (key_of(z[v]) <= limit)
            mine += mass_of(z[v]);
    return block_total(b, mine);
}

/* The largest key that top_n_sigma keeps; x holds the logits, max the largest. */
template <uint32_t SIZE>
static __device__ uint32_t sigma_key(const sample_block<SIZE> &b, const struct slot_state *s,
                                     const float *x, uint32_t count, float max) {
    unsigned long long sum = 0, squares = 0, finite = 0;
    for (uint32_t v = b.first(); v < count; v += b.step()) {
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
template <uint32_t SIZE>
static __device__ uint32_t kept_key(const sample_block<SIZE> &b, const struct slot_state *s,
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
template <uint32_t SIZE>
static __device__ uint32_t draw(const sample_block<SIZE> &b, const struct slot_state *s, float *x,
                                uint32_t count, struct pick best) {
    uint32_t limit = FINITE_KEY;
    if (s->top_n_sigma > 0)
        limit = sigma_key(b, s, x, count, best.value);
    for (uint32_t v = b.first(); v < count; v += b.step())
        x[v] = __fdiv_rn(__fsub_rn(x[v], best.value), s->temperature);
    b.sync();
    limit = kept_key(b, s, x, count, limit);
    struct pick mine = {exact_gumbel(exact_noise(s->seed, s->choice, s->token_count, best.id)),
                        best.id};
    for (uint32_t v = b.first(); v < count; v += b.step()) {
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

#include "kernels/cuda/sample_chain.cuh"

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
template <uint32_t SIZE>
static __device__ uint32_t sample_row(const sample_block<SIZE> &b, const struct sample_call &call,
                                      const struct slot_state *s, uint32_t slot, uint32_t row,
                                      float *logprob, struct chain_drawn *drawn) {
    float *x = call.logits + (size_t)row * call.stride, *raw = call.raw + (size_t)row * call.vocab;
    struct pick best = finite_max(b, x, call.vocab);
    if (best.id == UINT32_MAX)
        return UINT32_MAX;
    const bool logprobs = s->logprobs >= 0;
    double log_sum = 0;
    if (logprobs) {
        const double sum = row_sum(b, call.vocab, [&](uint32_t v) {
            raw[v] = x[v];
            return (double)expf(x[v] - best.value);
        });
        log_sum = (double)best.value + log(sum);
        top_logprobs(b, call, x, row,
                     min((uint32_t)s->logprobs, min(call.vocab, (uint32_t)SAMPLE_TOP_MAX)),
                     log_sum);
    }
    b.sync(); /* all have read x */
    if (!s->rules.order) {
        penalties(b, s, call.slots.tokens + (size_t)slot * call.slots.max_context,
                  call.counts + (size_t)row * call.vocab, x);
        dry(b, call, s, slot, row, x);
    }
    biases(b, s, call.slots.bias_ids + (size_t)slot * SLOT_BIAS_MAX,
           call.slots.bias_values + (size_t)slot * SLOT_BIAS_MAX, x, call.vocab);
    mask(b, call, s, row, x);
    best = finite_max(b, x, call.vocab);
    if (best.id == UINT32_MAX)
        return UINT32_MAX;
    uint32_t token = best.id;
    if (rules_need_chain(&s->rules)) {
        sample_chain<SIZE> c = {b, &call, s, x, 0, 0, 0, 1};
        token = chain_draw(c, drawn);
    } else if (s->temperature > 0) {
        token = draw(b, s, x, call.vocab, best);
    }
    *logprob = logprobs ? (float)((double)raw[token] - log_sum) : 0;
    return token;
}

/* One block a processor: two would leave 32 registers, and top_n_sigma spills. */
template <uint32_t SIZE>
static __global__ __launch_bounds__(SAMPLE_THREADS, 1) void sample_kernel(struct sample_call call) {
#if defined(PTX_SM90A)
    enum { CAN = true };
#else
    enum { CAN = SIZE == 1 }; /* elsewhere nobody launches a cluster */
#endif
    if (!CAN)
        return;
    DYNAMIC_SHARED(area);
    sample_block<SIZE> b;
    b.told = (float4 *)area;
    b.histogram = (unsigned long long *)(b.told + 1);
    b.merged = b.histogram + BINS;
    b.wide = b.merged + BINS / SAMPLE_CLUSTER;
    b.sums = (double *)(b.wide + 2);
    b.picks = (struct pick *)(b.sums + 32);
    dependency_wait();
    dependents_launch();
    const uint32_t row = blockIdx.x, t = call.sample_rows[row], slot = call.row_slots[t];
    struct slot_state *s = &call.slots.states[slot];
    const bool wasted = call.positions[t] == (uint32_t)ROW_NONE || !s->active;
    float logprob = 0;
    if (b.first() == 0) {
        call.out.tokens[row] = 0;
        call.out.top_counts[row] = SAMPLE_NO_LOGPROBS;
    }
    struct chain_drawn drawn = {0, 1};
    const uint32_t token = wasted ? 0 : sample_row(b, call, s, slot, row, &logprob, &drawn);
    b.sync(); /* all are done with the slot's state */
    if (b.first())
        return;
    call.out.logprobs[row] = token == UINT32_MAX ? 0 : logprob;
    if (wasted) {
        call.out.status[row] = SAMPLE_WASTED;
    } else if (token == UINT32_MAX) {
        s->active = 0;
        call.out.status[row] = SAMPLE_NONFINITE;
    } else {
        call.out.tokens[row] = token;
        if (s->rules.steering)
            s->rules.state = rule_next_state(&s->rules, drawn.z, drawn.total);
        if (call.out.states)
            call.out.states[row] = s->rules.state;
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
    const bool cluster =
        device_of(s)->hopper && a->vocab_size >= CLUSTER_VOCAB && rows <= CLUSTER_ROWS;
    launch_shape shape = {dim3(rows), dim3(SAMPLE_THREADS),
                          16 + (BINS + BINS / SAMPLE_CLUSTER + 2 + 32 + 32) * 8,
                          device_of(s)->dependent_launch};
    if (cluster) {
        shape.grid.y = shape.cluster_y = SAMPLE_CLUSTER;
        LAUNCH(sample_kernel<SAMPLE_CLUSTER>, shape, cuda_stream_of(s), call);
    } else {
        LAUNCH(sample_kernel<1>, shape, cuda_stream_of(s), call);
    }
}
