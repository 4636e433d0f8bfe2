/*
 * sample_chain.cuh - the chain of kernels/sample_rules.h and dry's penalties, by the block that has
 * the row. A part of sample.cu, behind its thresholds.
 *
 * The logits stay where they are; kept are those with d = x - max within [worst, best], which all
 * threads know. Every call is made by all threads of the row's blocks.
 */
#ifndef KERNELS_CUDA_SAMPLE_CHAIN_CUH
#define KERNELS_CUDA_SAMPLE_CHAIN_CUH

template <uint32_t SIZE> struct sample_chain {
    sample_block<SIZE> block;
    const struct sample_call *call;
    const struct slot_state *state;
    float *x;
    float max, worst, best, heat;
};

template <uint32_t SIZE>
static __device__ __forceinline__ float chain_d(const sample_chain<SIZE> &c, uint32_t v) {
    return __fsub_rn(c.x[v], c.max);
}
template <uint32_t SIZE>
static __device__ __forceinline__ bool chain_keeps(const sample_chain<SIZE> &c, float d) {
    return d >= c.worst && d <= c.best;
}
template <uint32_t SIZE>
static __device__ __forceinline__ float chain_z(const sample_chain<SIZE> &c, float d) {
    return __fdiv_rn(__fsub_rn(d, c.best), c.heat);
}

template <uint32_t SIZE> static __device__ uint32_t chain_count(const sample_chain<SIZE> &c) {
    unsigned long long mine = 0;
    for (uint32_t v = c.block.first(); v < c.call->vocab; v += c.block.step())
        mine += chain_keeps(c, chain_d(c, v));
    return (uint32_t)block_total(c.block, mine);
}

template <uint32_t SIZE>
static __device__ unsigned long long chain_total(const sample_chain<SIZE> &c) {
    unsigned long long mine = 0;
    for (uint32_t v = c.block.first(); v < c.call->vocab; v += c.block.step()) {
        const float d = chain_d(c, v);
        if (chain_keeps(c, d))
            mine += mass_of(chain_z(c, d));
    }
    return block_total(c.block, mine);
}

/* The mean of -z by mass; total: of all masses. */
template <uint32_t SIZE>
static __device__ double chain_depth(const sample_chain<SIZE> &c, unsigned long long total) {
    const double sum = row_sum(c.block, c.call->vocab, [&](uint32_t v) {
        const float d = chain_d(c, v), z = chain_z(c, d);
        return chain_keeps(c, d) ? -((double)mass_of(z) * (double)z) : 0.0;
    });
    return sum / (double)total;
}

template <uint32_t SIZE> static __device__ void chain_top_k(sample_chain<SIZE> &c, uint32_t k) {
    if (!k || k >= chain_count(c))
        return;
    const uint32_t key = find_key(c.block, c.call->vocab, k, [&c](uint32_t v, uint32_t *key_out) {
        const float d = chain_d(c, v);
        *key_out = key_of(d);
        return (unsigned long long)chain_keeps(c, d);
    });
    c.worst = -__uint_as_float(key);
}

template <uint32_t SIZE> static __device__ void chain_top_p(sample_chain<SIZE> &c) {
    if (c.state->top_p >= 1)
        return;
    const unsigned long long want =
        (unsigned long long)((double)c.state->top_p * (double)chain_total(c));
    const uint32_t key =
        find_key(c.block, c.call->vocab, want ? want : 1, [&c](uint32_t v, uint32_t *key_out) {
            const float d = chain_d(c, v);
            *key_out = key_of(d);
            return chain_keeps(c, d) ? mass_of(chain_z(c, d)) : 0ull;
        });
    c.worst = fmaxf(c.worst, -__uint_as_float(min(key, (uint32_t)FINITE_KEY)));
}

/* The smallest d kept whose mass is at least this; the best, where there is none. */
template <uint32_t SIZE>
static __device__ float chain_least(const sample_chain<SIZE> &c, double least) {
    float mine = c.best;
    for (uint32_t v = c.block.first(); v < c.call->vocab; v += c.block.step()) {
        const float d = chain_d(c, v);
        if (chain_keeps(c, d) && (double)mass_of(chain_z(c, d)) >= least)
            mine = fminf(mine, d);
    }
    return -block_pick(c.block, {-mine, threadIdx.x}).value;
}

template <uint32_t SIZE> static __device__ void chain_sigma(sample_chain<SIZE> &c) {
    unsigned long long sum = 0, squares = 0;
    if (c.state->top_n_sigma <= 0)
        return;
    for (uint32_t v = c.block.first(); v < c.call->vocab; v += c.block.step()) {
        const float d = chain_d(c, v);
        if (!chain_keeps(c, d))
            continue;
        const unsigned long long steps =
            (unsigned long long)(fminf(__fsub_rn(c.best, d), 2048.0f) * 512.0f);
        sum += steps;
        squares += steps * steps;
    }
    const double all = (double)chain_count(c), mean = (double)block_total(c.block, sum) / all;
    const double variance =
        __dsub_rn((double)block_total(c.block, squares) / all, __dmul_rn(mean, mean));
    const double sigma = sqrt(variance > 0 ? variance : 0) / 512;
    c.worst =
        fmaxf(c.worst, __fsub_rn(c.best, (float)__dmul_rn((double)c.state->top_n_sigma, sigma)));
}

template <uint32_t SIZE> static __device__ void chain_temperature(sample_chain<SIZE> &c) {
    const struct sample_rules *rules = &c.state->rules;
    float by = c.state->temperature;
    if (rules->temperature_range > 0) {
        const unsigned long long total = chain_total(c);
        const uint32_t count = chain_count(c); /* first, or sm_86 and sm_89 spill 20 bytes */
        const double entropy = chain_depth(c, total) + rule_log((double)total * 0x1p-40);
        by = rule_temperature(rules, by, entropy, count);
    }
    if (by < 1e-6f)
        c.worst = c.best;
    else
        c.heat *= by;
}

template <uint32_t SIZE> static __device__ void chain_typical(sample_chain<SIZE> &c) {
    const float least = c.state->rules.typical_p;
    if (least <= 0 || least >= 1)
        return;
    const unsigned long long total = chain_total(c);
    const float depth = (float)chain_depth(c, total);
    unsigned long long want = (unsigned long long)((double)least * (double)total) + 1;
    want = want < total ? want : total;
    const uint32_t key =
        find_key(c.block, c.call->vocab, want, [&c, depth](uint32_t v, uint32_t *key_out) {
            const float d = chain_d(c, v), z = chain_z(c, d);
            *key_out = key_of(__fsub_rn(-z, depth));
            return chain_keeps(c, d) ? mass_of(z) : 0ull;
        });
    float worst = c.best, best = c.worst;
    for (uint32_t v = c.block.first(); v < c.call->vocab; v += c.block.step()) {
        const float d = chain_d(c, v);
        if (!chain_keeps(c, d) || key_of(__fsub_rn(-chain_z(c, d), depth)) > key)
            continue;
        worst = fminf(worst, d);
        best = fmaxf(best, d);
    }
    worst = -block_pick(c.block, {-worst, threadIdx.x}).value;
    c.best = block_pick(c.block, {best, threadIdx.x}).value;
    c.worst = worst;
}

template <uint32_t SIZE> static __device__ void chain_xtc(sample_chain<SIZE> &c) {
    const struct slot_state *s = c.state;
    const uint32_t coin = exact_noise(s->seed, s->choice, s->token_count, 0, NOISE_XTC);
    if ((double)coin + 0.5 >= (double)s->rules.xtc_probability * 0x1p32)
        return;
    c.best = chain_least(c, (double)s->rules.xtc_threshold * (double)chain_total(c));
}

/* ---- dry ---- */

template <uint32_t SIZE>
static __device__ void dry(const sample_block<SIZE> &b, const struct sample_call &call,
                           const struct slot_state *s, uint32_t slot, uint32_t row, float *x) {
    const struct sample_rules *rules = &s->rules;
    if (rules->dry_multiplier <= 0)
        return;
    const uint32_t *history = call.slots.tokens + (size_t)slot * call.slots.max_context,
                   *bits = call.slots.breakers + (size_t)slot * ((call.vocab + 31) / 32);
    uint32_t *longest = call.counts + (size_t)row * call.vocab;
    const uint32_t window = rules->dry_window, count = s->token_count, last = count - 1,
                   first = window && window < count ? count - window : 0;
    uint32_t reach = 0;
    while (reach < min(count - first, (uint32_t)DRY_MATCH_MAX)) {
        const uint32_t token = history[last - reach];
        if (bits[token / 32] >> token % 32 & 1)
            break;
        reach++;
    }
    if (reach < rules->dry_allowed)
        return;
    for (uint32_t i = first + b.first(); i < last; i += b.step())
        atomicExch(&longest[history[i + 1]], 0u);
    b.sync();
    for (uint32_t i = first + b.first(); i < last; i += b.step()) {
        const uint32_t most = min(reach, i - first + 1);
        uint32_t length = 0;
        while (length < most && history[i - length] == history[last - length])
            length++;
        atomicMax(&longest[history[i + 1]], length);
    }
    b.sync();
    for (uint32_t i = first + b.first(); i < last; i += b.step()) {
        const uint32_t length = atomicExch(&longest[history[i + 1]], 0u);
        if (length && length >= rules->dry_allowed)
            x[history[i + 1]] = __fsub_rn(x[history[i + 1]], rule_dry(rules, length));
    }
    b.sync();
}

/* ---- the chain ---- */

template <uint32_t SIZE> static __device__ void chain_begin(sample_chain<SIZE> &c) {
    c.max = finite_max(c.block, c.x, c.call->vocab).value;
    c.worst = -3.402823466e38f;
    c.best = 0;
    c.heat = 1;
}

/* Penalties in the midst of the chain see the logits that are left, as they are by then. */
template <uint32_t SIZE> static __device__ void chain_change(sample_chain<SIZE> &c, uint32_t step) {
    const uint32_t slot = c.call->row_slots[c.call->sample_rows[blockIdx.x]];
    for (uint32_t v = c.block.first(); v < c.call->vocab; v += c.block.step())
        c.x[v] = chain_keeps(c, chain_d(c, v)) ? __fdiv_rn(c.x[v], c.heat) : MINUS_INFINITY;
    c.block.sync();
    if (step == STEP_DRY)
        dry(c.block, *c.call, c.state, slot, blockIdx.x, c.x);
    else
        penalties(c.block, c.state, c.call->slots.tokens + (size_t)slot * c.call->slots.max_context,
                  c.call->counts + (size_t)blockIdx.x * c.call->vocab, c.x);
    chain_begin(c);
}

template <uint32_t SIZE> static __device__ void chain_step(sample_chain<SIZE> &c, uint32_t step) {
    switch (step) {
    case STEP_PENALTIES:
    case STEP_DRY: chain_change(c, step); return;
    case STEP_TOP_N_SIGMA: chain_sigma(c); return;
    case STEP_TEMPERATURE: chain_temperature(c); return;
    case STEP_TOP_K: chain_top_k(c, c.state->top_k); return;
    case STEP_TYPICAL_P: chain_typical(c); return;
    case STEP_TOP_P: chain_top_p(c); return;
    case STEP_MIN_P:
        if (c.state->min_p > 0)
            c.worst = chain_least(c, (double)c.state->min_p * 0x1p40);
        return;
    case STEP_XTC: chain_xtc(c); return;
    default: return;
    }
}

/* The gaps between the likeliest, best first, into shared memory; returns how many. */
template <uint32_t SIZE>
static __device__ uint32_t chain_gaps(const sample_chain<SIZE> &c, float *sorted) {
    const sample_block<SIZE> &b = c.block;
    const uint32_t kept = chain_count(c), most = min(kept, (uint32_t)MIROSTAT_BEST);
    const uint32_t key = find_key(b, c.call->vocab, most, [&c](uint32_t v, uint32_t *key_out) {
        const float d = chain_d(c, v);
        *key_out = key_of(d);
        return (unsigned long long)chain_keeps(c, d);
    });
    float *found = sorted + MIROSTAT_BEST;
    if (threadIdx.x == 0)
        b.wide[0] = 0;
    __syncthreads();
    for (uint32_t v = c.block.first(); v < c.call->vocab; v += c.block.step()) {
        const float d = chain_d(c, v);
        if (chain_keeps(c, d) && key_of(d) < key)
            found[atomicAdd(&b.wide[0], 1ull)] = d;
    }
    __syncthreads();
    uint32_t count = (uint32_t)b.wide[0];
    if (SIZE > 1) { /* what each block has found, behind each other */
        float *all = found + MIROSTAT_BEST;
        uint32_t before = 0, r = 0;
        b.exchange_values(told_bits(count), [&](float4 other) {
            const uint32_t theirs = (uint32_t)bits_told(other), i = threadIdx.x * 4;
            if (i < theirs) {
                const float4 four = load_of_peer((const float4 *)found + threadIdx.x, r);
                const float values[4] = {four.x, four.y, four.z, four.w};
                for (uint32_t e = 0; e < 4 && i + e < theirs; e++)
                    all[before + i + e] = values[e];
            }
            before += theirs;
            r++;
        });
        __syncthreads();
        found = all;
        count = before;
    }
    if (threadIdx.x < most)
        sorted[threadIdx.x] = -__uint_as_float(key);
    __syncthreads();
    if (threadIdx.x < count) {
        uint32_t before = 0;
        for (uint32_t i = 0; i < count; i++)
            before += found[i] > found[threadIdx.x] ||
                      (found[i] == found[threadIdx.x] && i < threadIdx.x);
        sorted[before] = found[threadIdx.x];
    }
    __syncthreads();
    if (threadIdx.x == 0)
        for (uint32_t i = 0; i + 1 < most; i++)
            sorted[i] = (sorted[i] - sorted[i + 1]) / c.heat;
    __syncthreads();
    return most - 1;
}

template <uint32_t SIZE> static __device__ void chain_mirostat(sample_chain<SIZE> &c) {
    const struct sample_rules *rules = &c.state->rules;
    if (rules->steering == STEER_MIROSTAT_2) {
        const double aim = fmax(fmin((double)rules->state, 500.0), -500.0);
        c.worst = chain_least(c, (double)chain_total(c) * rule_exp(-aim * 0.69314718055994531));
        return;
    }
    float *gaps = (float *)c.block.histogram;
    const uint32_t count = chain_gaps(c, gaps);
    const double k = rule_mirostat_k(rules->state, gaps, count, c.call->vocab);
    __syncthreads(); /* all have read the gaps */
    chain_top_k(c, k < c.call->vocab ? (uint32_t)k : 0);
}

/* What a steering rule's next state comes from. */
struct chain_drawn {
    float z;
    double total;
};

/* f, g. x holds the logits, as they are behind the masks. */
template <uint32_t SIZE>
static __device__ uint32_t chain_draw(sample_chain<SIZE> &c, struct chain_drawn *drawn) {
    const struct slot_state *s = c.state;
    chain_begin(c);
    for (uint32_t i = 0; i < 64; i += 4) {
        const uint64_t order = s->rules.order ? s->rules.order : SAMPLE_USUAL_ORDER;
        chain_step(c, (uint32_t)(order >> i & 15));
    }
    if (s->rules.steering && s->rules.steering != STEER_ADAPTIVE)
        chain_mirostat(c);
    const double total = (double)chain_total(c) * 0x1p-40;
    const float aim = rule_adapted_target(&s->rules);
    struct pick mine = {MINUS_INFINITY, UINT32_MAX};
    for (uint32_t v = c.block.first(); v < c.call->vocab; v += c.block.step()) {
        const float d = chain_d(c, v);
        if (!chain_keeps(c, d))
            continue;
        float value = chain_z(c, d);
        if (s->rules.steering == STEER_ADAPTIVE)
            value = rule_adapted_logit((float)((double)expf(value) / total), aim);
        if (value + GUMBEL_MAX <= mine.value)
            continue;
        const struct pick other = {
            __fadd_rn(value, exact_gumbel(
                                 exact_noise(s->seed, s->choice, s->token_count, v, NOISE_SAMPLE))),
            v};
        mine = better(mine, other);
    }
    const uint32_t token = block_pick(c.block, mine).id;
    *drawn = {chain_z(c, chain_d(c, token)), total};
    return token;
}

#endif
