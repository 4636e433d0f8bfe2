/*
 * sample.inc.h - the sampler, step by step as ops.h numbers them (ref/sample.c is the definition).
 * A part is one row.
 *
 * Thresholds without sorting: z <= 0, so the bits of -z order the candidates; a threshold is found
 * by three passes of counting (11, 11, 10 bits), each narrowing the prefix. Weights are integers,
 * so their sums do not depend on any order. Noise is drawn only for candidates that could still
 * win: gumbel < GUMBEL_MAX.
 */
#include "kernels/philox.h"

#define GUMBEL_MAX 23.1f

/* Per thread, in the caller's scratch. */
struct sample_scratch {
    uint64_t histogram[2048];
    /* [vocab], zero between rows: bit 31: seen; below: times in the output; then f32 raw[vocab],
     * candidates[vocab] */
    uint32_t counts[];
};
static float *scratch_raw(struct sample_scratch *s, uint32_t vocab) {
    return (float *)(s->counts + vocab);
}
static float *scratch_candidates(struct sample_scratch *s, uint32_t vocab) {
    return (float *)(s->counts + 2 * (size_t)vocab);
}

struct sample_row {
    const struct op_sample *op;
    struct slot_state *state;
    struct sample_scratch *scratch;
    uint32_t *history;
    float *logits;
    uint32_t slot, idx, vocab;
};

/* Largest value; NaN when any value is NaN or +inf. Lanes whose bits are NaN or inf are noticed by
 * x - x. */
static float max_or_nan(const float *x, uint32_t count) {
    vf max = v_set1(-INFINITY), bad = v_set1(0);
    uint32_t i = 0;
    for (; i + VW <= count; i += VW) {
        vf a = v_load(x + i), finite = v_max(v_set1(-1e30f), a);
        bad = v_add(bad, v_sub(finite, finite)); /* NaN or +inf: NaN */
        max = v_max(max, a);
    }
    float best = v_hmax(max), sick = v_hsum(bad);
    for (; i < count; i++) {
        if (!(x[i] < INFINITY))
            sick = NAN;
        best = x[i] > best ? x[i] : best;
    }
    return sick == sick ? best : NAN;
}

/* log sum exp(x) with max known; f32 sums of 1024, those in double. */
static double log_sum_exp(const float *x, uint32_t count, float max) {
    double total = 0;
    for (uint32_t from = 0; from < count; from += 1024) {
        uint32_t i = from, end = MIN(from + 1024, count);
        vf sum = v_set1(0), shift = v_set1(max);
        for (; i + VW <= end; i += VW)
            sum = v_add(sum, v_exp(v_sub(v_load(x + i), shift)));
        if (i < end) {
            float tail[VW];
            v_store(tail, v_exp(v_sub(v_load_n(x + i, end - i), shift)));
            for (uint32_t j = 0; j < end - i; j++)
                total += tail[j];
        }
        total += v_hsum(sum);
    }
    return max + log(total);
}

/* a. The best by value, lowest id among equals: insertion into a short list. */
static void top_logprobs(const struct sample_row *r, double log_sum) {
    const struct sample_out *out = r->op->out;
    uint32_t want = MIN((uint32_t)r->state->logprobs, MIN(r->vocab, (uint32_t)SAMPLE_TOP_MAX)),
             count = 0;
    uint32_t *ids = out->top_ids + (size_t)r->idx * SAMPLE_TOP_MAX;
    float worst = -INFINITY;
    for (uint32_t v = 0; want && v < r->vocab; v++) {
        float x = r->logits[v];
        if (count == want && x <= worst)
            continue;
        uint32_t at = count < want ? count++ : want - 1;
        for (; at > 0 && r->logits[ids[at - 1]] < x; at--)
            ids[at] = ids[at - 1];
        ids[at] = v;
        worst = r->logits[ids[count - 1]];
    }
    for (uint32_t i = 0; i < count; i++)
        out->top_logprobs[(size_t)r->idx * SAMPLE_TOP_MAX + i] =
            (float)(r->logits[ids[i]] - log_sum);
    out->top_counts[r->idx] = count;
}

enum { SEEN = 0x80000000u };

/* c. Touches only the ids of the history; counts return to zero. */
static void penalties(const struct sample_row *r) {
    const struct slot_state *s = r->state;
    uint32_t *counts = r->scratch->counts;
    bool wanted =
        s->repetition_penalty != 1 || s->presence_penalty != 0 || s->frequency_penalty != 0;
    for (uint32_t i = 0; wanted && i < s->token_count; i++) {
        uint32_t *c = &counts[r->history[i]];
        *c = (*c | SEEN) + (i >= s->prompt_count);
    }
    for (uint32_t i = 0; wanted && i < s->token_count; i++) {
        uint32_t *c = &counts[r->history[i]], times = *c & ~(uint32_t)SEEN;
        if (!*c)
            continue;
        float l = r->logits[r->history[i]];
        if (s->repetition_penalty != 1)
            l = l > 0 ? l / s->repetition_penalty : l * s->repetition_penalty;
        if (times) {
            l -= (float)times * s->frequency_penalty;
            l -= s->presence_penalty;
        }
        r->logits[r->history[i]] = l;
        *c = 0;
    }
    const uint32_t *ids = r->op->slots->bias_ids + (size_t)r->slot * SLOT_BIAS_MAX;
    const float *values = r->op->slots->bias_values + (size_t)r->slot * SLOT_BIAS_MAX;
    for (uint32_t i = 0; i < s->bias_count; i++)
        if (ids[i] < r->vocab)
            r->logits[ids[i]] += values[i];
}

/* d. */
static void masks(const struct sample_row *r) {
    const struct slot_state *s = r->state;
    for (uint32_t i = 0; s->token_count < s->min_total && i < s->stop_count; i++)
        if (s->stops[i] < r->vocab)
            r->logits[s->stops[i]] = -INFINITY;
    if (!r->op->masks || r->op->mask_rows[r->idx] == ROW_NONE)
        return;
    const uint32_t *bits = r->op->masks + (size_t)r->op->mask_rows[r->idx] * r->op->mask_stride;
    for (uint32_t v = 0; v < r->vocab; v++)
        if (!(bits[v / 32] >> v % 32 & 1))
            r->logits[v] = -INFINITY;
}

static uint32_t find_value(const float *x, uint32_t count, float value) {
    uint32_t v = 0;
    while (v + 1 < count && x[v] != value)
        v++;
    return v;
}

/* z = (l - max) / temperature, in place. */
static void scale_logits(float *x, uint32_t count, float max, float temperature) {
    vf shift = v_set1(max), t = v_set1(temperature);
    uint32_t i = 0;
    for (; i + VW <= count; i += VW)
        v_store(x + i, v_div(v_sub(v_load(x + i), shift), t));
    if (i < count)
        v_store_n(x + i, v_div(v_sub(v_load_n(x + i, count - i), shift), t), count - i);
}

/* ---- f. thresholds ---- */

/* Smaller key: larger z. z is in [-inf, 0] (or -0). */
static inline uint32_t key_of(float z) {
    return float_bits(z) & 0x7fffffffu;
}

/* floor(p * 2^40) for p = e^z; 0 below MASS_MIN (e^-28 2^40 = 0.76). */
#define MASS_MIN (-28.0f)
static void masses(const float *z, uint64_t *out, uint32_t count) {
    float p[VW];
    v_store(p, v_exp(v_load_n(z, count)));
    for (uint32_t i = 0; i < count; i++)
        out[i] = z[i] < MASS_MIN ? 0 : (uint64_t)(p[i] * 0x1p40f);
}

/* Values that a threshold is sought among. */
struct candidates {
    const float *z;
    uint32_t count;
    uint64_t *histogram;
};

/* The smallest key k such that the weight of all candidates with key <= k (and <= limit) reaches
 * `want` >= 1. by_mass: weights are masses, else 1. */
static uint32_t threshold_key(const struct candidates *c, bool by_mass, uint32_t limit,
                              uint64_t want) {
    static const struct { uint32_t shift, bits; } passes[3] = {{20, 11}, {9, 11}, {0, 9}};
    uint32_t prefix = 0;
    for (int pass = 0; pass < 3; pass++) {
        uint32_t shift = passes[pass].shift, bits = passes[pass].bits, size = 1u << bits, bin = 0;
        memset(c->histogram, 0, size * sizeof *c->histogram);
        for (uint32_t v = 0; v < c->count; v += VW) {
            uint32_t n = MIN(c->count - v, (uint32_t)VW);
            uint64_t mass[VW];
            if (by_mass)
                masses(c->z + v, mass, n);
            for (uint32_t i = 0; i < n; i++) {
                uint32_t key = key_of(c->z[v + i]);
                if (key > limit || (uint64_t)key >> (shift + bits) != prefix)
                    continue;
                c->histogram[key >> shift & (size - 1)] += by_mass ? mass[i] : 1;
            }
        }
        while (bin + 1 < size && c->histogram[bin] < want)
            want -= c->histogram[bin++];
        prefix = prefix << bits | bin;
    }
    return prefix;
}

static uint64_t total_mass(const struct candidates *c, uint32_t limit) {
    uint64_t total = 0, mass[VW];
    for (uint32_t v = 0; v < c->count; v += VW) {
        uint32_t n = MIN(c->count - v, (uint32_t)VW);
        masses(c->z + v, mass, n);
        for (uint32_t i = 0; i < n; i++)
            total += key_of(c->z[v + i]) <= limit ? mass[i] : 0;
    }
    return total;
}

/* The z that have a mass: nearly always few. */
static struct candidates with_mass(const struct sample_row *r) {
    float *out = scratch_candidates(r->scratch, r->vocab);
    uint32_t count = 0;
    for (uint32_t v = 0; v < r->vocab; v += VW) {
        uint32_t n = MIN(r->vocab - v, (uint32_t)VW);
        if (n == VW && v_hmax(v_load(r->logits + v)) < MASS_MIN)
            continue;
        for (uint32_t i = 0; i < n; i++) {
            out[count] = r->logits[v + i];
            count += r->logits[v + i] >= MASS_MIN;
        }
    }
    return (struct candidates){out, count, r->scratch->histogram};
}

/* Drops the candidates past the limit. `c` lies in the scratch. */
static void narrow(struct candidates *c, uint32_t limit) {
    float *out = (float *)c->z;
    uint32_t count = 0;
    for (uint32_t v = 0; v < c->count; v++) {
        out[count] = c->z[v];
        count += key_of(c->z[v]) <= limit;
    }
    c->count = count;
}

#define FINITE_KEY 0x7f7fffffu

/* The largest key that top_n_sigma keeps; the logits as they are before the temperature. */
static uint32_t sigma_key(const struct sample_row *r, float max) {
    const struct slot_state *s = r->state;
    uint64_t sum = 0, squares = 0, count = 0;
    for (uint32_t v = 0; v < r->vocab; v++) {
        float below = MIN(max - r->logits[v], 2048.0f);
        uint64_t counts = r->logits[v] > -INFINITY, d = (uint64_t)(below * 512) * counts;
        sum += d;
        squares += d * d;
        count += counts;
    }
    double mean = (double)sum / (double)count,
           variance = (double)squares / (double)count - mean * mean;
    double sigma = sqrt(MAX(variance, 0.0)) / 512;
    float limit = (float)((double)s->top_n_sigma * sigma) / s->temperature;
    return MIN(key_of(limit), FINITE_KEY);
}

/* The largest key kept, none of them above `limit`. */
static uint32_t kept_key(const struct sample_row *r, uint32_t limit) {
    const struct slot_state *s = r->state;
    if (!s->top_k && s->top_p >= 1)
        return limit;
    struct candidates all = {r->logits, r->vocab, r->scratch->histogram}, few = with_mass(r);
    if (s->top_k && s->top_k < r->vocab)
        limit =
            MIN(limit, threshold_key(s->top_k <= few.count ? &few : &all, false, limit, s->top_k));
    if (s->top_p < 1) {
        narrow(&few, limit);
        uint64_t want = (uint64_t)((double)s->top_p * (double)total_mass(&few, limit));
        limit = MIN(limit, threshold_key(&few, true, limit, MAX(want, (uint64_t)1)));
    }
    return limit;
}

/* ---- g. noise ---- */

/* philox.h's and scalar_math.h's operations, lane by lane. */
ALWAYS_INLINE vf v_atanh2(vf s) {
    vf z = v_mul(s, s), p = v_set1(LOG_C13);
    p = v_add(v_mul(p, z), v_set1(LOG_C11));
    p = v_add(v_mul(p, z), v_set1(LOG_C9));
    p = v_add(v_mul(p, z), v_set1(LOG_C7));
    p = v_add(v_mul(p, z), v_set1(LOG_C5));
    p = v_add(v_mul(p, z), v_set1(LOG_C3));
    vf d = v_add(s, s);
    return v_add(d, v_mul(d, v_mul(z, p)));
}

ALWAYS_INLINE vf v_log(vf x) {
    vi bits = vi_cast(x), e = vi_sra23(vi_sub(bits, vi_set1(LOG_SQRT_HALF_BITS)));
    vf m = v_cast(vi_sub(bits, vi_shl23(e))), n = v_of_int(e), one = v_set1(1.0f);
    vf l = v_atanh2(v_div(v_sub(m, one), v_add(m, one)));
    return v_add(v_mul(n, v_set1(LOG_LN2_HI)), v_add(v_mul(n, v_set1(LOG_LN2_LO)), l));
}

ALWAYS_INLINE vf v_gumbel(vi bits) {
    vi upper = vi_sign(bits); /* all ones from 2^31 on */
    vf zero = v_set1(0),
       w = v_mul(v_add(v_of_int(vi_xor(bits, upper)), v_set1(0.5f)), v_set1(0x1p-32f));
    vf low = v_atanh2(v_div(w, v_sub(v_set1(2.0f), w))), high = v_sub(zero, v_log(w));
    return v_sub(zero, v_log(v_pick(upper, high, low)));
}

enum { NOISE_BLOCK = 4 * VW };

/* Noise of NOISE_BLOCK consecutive tokens, the first a multiple of 4. */
static void noise_block(const struct slot_state *s, uint32_t first, float *out) {
    uint32_t counters[VW];
    float words[4][VW];
    for (uint32_t i = 0; i < VW; i++)
        counters[i] = first / 4 + i;
    vi c0 = vi_load(counters), c1 = vi_set1(s->token_count), c2 = vi_set1(s->choice),
       c3 = vi_set1(NOISE_SAMPLE);
    vi k0 = vi_set1((uint32_t)s->seed), k1 = vi_set1((uint32_t)(s->seed >> 32)),
       m0 = vi_set1(PHILOX_M0), m1 = vi_set1(PHILOX_M1);
    for (int round = 0; round < 10; round++) {
        vi n0 = vi_xor(vi_xor(vi_mulhi(m1, c2), c1), k0),
           n2 = vi_xor(vi_xor(vi_mulhi(m0, c0), c3), k1);
        c1 = vi_mullo(m1, c2);
        c3 = vi_mullo(m0, c0);
        c0 = n0;
        c2 = n2;
        k0 = vi_add(k0, vi_set1(PHILOX_W0));
        k1 = vi_add(k1, vi_set1(PHILOX_W1));
    }
    v_store(words[0], v_gumbel(c0));
    v_store(words[1], v_gumbel(c1));
    v_store(words[2], v_gumbel(c2));
    v_store(words[3], v_gumbel(c3));
    for (uint32_t i = 0; i < VW; i++)
        for (uint32_t k = 0; k < 4; k++)
            out[4 * i + k] = words[k][i];
}

struct best {
    float value;
    uint32_t id;
};

/* One block: noise only when something in it is kept and could still win. Ids ascend, so the first
 * of equals stays. */
static void draw_block(const struct sample_row *r, uint32_t first, uint32_t count, uint32_t limit,
                       struct best *best) {
    const struct slot_state *s = r->state;
    const float *z = r->logits + first;
    float noise[NOISE_BLOCK], p[NOISE_BLOCK];
    bool any = false;
    for (uint32_t i = 0; i < count; i++)
        any |= (z[i] + GUMBEL_MAX > best->value) & (key_of(z[i]) <= limit);
    if (!any)
        return;
    noise_block(s, first, noise);
    for (uint32_t i = 0; s->min_p > 0 && i < count; i += VW)
        v_store(p + i, v_exp(v_load_n(z + i, MIN(count - i, (uint32_t)VW))));
    for (uint32_t i = 0; i < count; i++) {
        float noisy = z[i] + noise[i];
        bool kept = key_of(z[i]) <= limit && !(s->min_p > 0 && p[i] < s->min_p);
        if (kept && (best->id == UINT32_MAX || noisy > best->value))
            *best = (struct best){noisy, first + i};
    }
}

/* f, g. logits hold z; only keys up to `limit` are drawn. */
static uint32_t draw(const struct sample_row *r, uint32_t limit) {
    limit = kept_key(r, limit);
    struct best best = {-INFINITY, UINT32_MAX};
    for (uint32_t v = 0; v < r->vocab; v += NOISE_BLOCK)
        draw_block(r, v, MIN(r->vocab - v, (uint32_t)NOISE_BLOCK), limit, &best);
    return best.id;
}

static enum sample_status append_token(const struct sample_row *r, uint32_t token) {
    struct slot_state *s = r->state;
    CHECK(s->token_count < r->op->slots->max_context);
    r->history[s->token_count++] = token;
    bool stop = false;
    for (uint32_t i = 0; i < s->stop_count; i++)
        stop |= s->stops[i] == token;
    if (!stop && s->token_count < s->max_total)
        return SAMPLE_TOKEN;
    s->active = 0;
    return stop ? SAMPLE_STOP : SAMPLE_LENGTH;
}

static enum sample_status sample_row(const struct sample_row *r) {
    const struct sample_out *out = r->op->out;
    float max = max_or_nan(r->logits, r->vocab);
    if (!(max > -INFINITY))
        goto nothing;
    bool logprobs = r->state->logprobs >= 0;
    double log_sum = logprobs ? log_sum_exp(r->logits, r->vocab, max) : 0;
    if (logprobs)
        top_logprobs(r, log_sum);
    float *raw =
        /* the penalties change what the chosen token's logprob is made of */
        scratch_raw(r->scratch, r->vocab);
    if (logprobs)
        memcpy(raw, r->logits, r->vocab * sizeof *raw);
    penalties(r);
    masks(r);
    max = max_or_nan(r->logits, r->vocab);
    if (!(max > -INFINITY))
        goto nothing;
    uint32_t token = find_value(r->logits, r->vocab, max);
    if (r->state->temperature > 0) {
        uint32_t limit = r->state->top_n_sigma > 0 ? sigma_key(r, max) : FINITE_KEY;
        scale_logits(r->logits, r->vocab, max, r->state->temperature);
        token = draw(r, limit);
    }
    out->tokens[r->idx] = token;
    out->logprobs[r->idx] = logprobs ? (float)(raw[token] - log_sum) : 0;
    return append_token(r, token);
nothing:
    r->state->active = 0;
    out->top_counts[r->idx] = SAMPLE_NO_LOGPROBS;
    return SAMPLE_NONFINITE;
}

static size_t scratch_bytes(uint32_t vocab_size) {
    return (sizeof(struct sample_scratch) + (size_t)vocab_size * 12 + 63) / 64 * 64;
}

static size_t cpu_sample_scratch(const struct device *dev, uint32_t sample_count,
                                 uint32_t vocab_size) {
    return dev->thread_count * scratch_bytes(vocab_size);
}

static void sample_part(void *ctx, size_t part_idx, int thread_idx) {
    const struct op_sample *a = ctx;
    uint32_t i = (uint32_t)part_idx, t = a->batch->sample_rows[i], slot = a->batch->slots[t];
    struct sample_row r = {
        .op = a,
        .state = &a->slots->states[slot],
        .scratch = (struct sample_scratch *)((char *)a->scratch +
                                             (size_t)thread_idx * scratch_bytes(a->vocab_size)),
        .history = a->slots->tokens + (size_t)slot * a->slots->max_context,
        .logits = a->logits + (size_t)i * a->logits_stride,
        .slot = slot,
        .idx = i,
        .vocab = a->vocab_size};
    bool wasted = a->batch->positions[t] == ROW_NONE || !r.state->active;
    a->out->tokens[i] = 0;
    a->out->logprobs[i] = 0;
    a->out->top_counts[i] = SAMPLE_NO_LOGPROBS;
    a->out->status[i] = wasted ? SAMPLE_WASTED : sample_row(&r);
}

static void cpu_sample(struct stream *s, const struct op_sample *a) {
    for (uint32_t i = 0; i < s->dev->thread_count; i++)
        memset(((struct sample_scratch *)((char *)a->scratch + i * scratch_bytes(a->vocab_size)))
                   ->counts,
               0, (size_t)a->vocab_size * 4);
    cpu_loop(s, a->batch->sample_count, (size_t)a->batch->sample_count * a->vocab_size, sample_part,
             (void *)a);
}
