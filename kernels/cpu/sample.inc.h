/*
 * sample.inc.h - the sampler, step by step as ops.h numbers them (ref/sample.c is the definition).
 *
 * A row is read by slices of SAMPLE_SLICE tokens: a survey (not finite? what is masked? the
 * largest of each block of SAMPLE_BLOCK tokens), then the draw. With few rows the threads share a
 * row's slices, with many each takes rows of its own. No result depends on it: what slices say
 * is a maximum, a sum of integers, or a sum in the slices' order.
 *
 * Later steps go by the blocks' maxima and pass over nearly all blocks: those without a candidate
 * for top_k or top_p, without a token that is kept, without one that could still win. z + gumbel
 * beats the best so far only where w = (bits + 0.5) / 2^32 is below e^(z - best) (philox.h: gumbel
 * = -log(-log(1 - w)) <= -log(w)), so bits are compared first and a logarithm is taken of few.
 *
 * Thresholds without sorting: z <= 0, so the bits of -z order the candidates; a threshold is found
 * by three passes of counting (11, 11, 9 bits), each narrowing the prefix. Weights are integers, so
 * their sums do not depend on any order.
 */
#include "kernels/philox.h"

enum { SAMPLE_BLOCK = 64, SAMPLE_SLICE = 128 * SAMPLE_BLOCK, LOG_SUM_CHUNK = 1024, CUTS = 6 };

/* Log sums, and masses above so many cuts, of one slice. */
struct slice_sums {
    double log_sums[SAMPLE_SLICE / LOG_SUM_CHUNK];
    uint64_t masses[CUTS];
};

#define GUMBEL_MOST 23.1f /* above every noise */

struct best {
    float value;
    uint32_t id;
};

struct slice {
    float max;      /* NaN: it has a NaN or +inf */
    uint32_t block; /* the first that has it */
    struct best best;
    struct slice_sums sums;
};

/* Of a thread, or of the row whose slices all threads share; in the caller's scratch. */
struct sample_scratch {
    uint64_t histogram[2048];
    struct slice *slices;
    float *block_max;  /* of each block; -inf behind the last */
    uint32_t *counts;  /* [vocab] bit 31: seen; below: times in the output */
    float *raw;        /* [vocab] logits before penalties of the tokens that have them */
    float *candidates; /* [vocab + VW] */
};

struct sample_row {
    const struct op_sample *op;
    struct slot_state *state;
    struct sample_scratch *scratch;
    const struct stream *shared; /* whose threads share the row; NULL: this thread has it alone */
    uint32_t *history;
    float *logits;
    const uint32_t *allowed; /* bits; NULL: all */
    float max;
    struct best best; /* the largest logit's draw */
    uint32_t limit;   /* keys kept */
    uint32_t slot, idx, vocab;
};

static uint32_t slice_count(uint32_t vocab) {
    return (vocab + SAMPLE_SLICE - 1) / SAMPLE_SLICE;
}

/* run(r, slice, thread) for all slices. */
static void each_slice(struct sample_row *r, cpu_unit_fn run) {
    uint32_t count = slice_count(r->vocab);
    if (r->shared)
        cpu_loop(r->shared, count, r->vocab, run, r);
    for (uint32_t i = 0; !r->shared && i < count; i++)
        run(r, i, 0);
}

/* VW logits from v on; -inf behind the last. */
ALWAYS_INLINE vf load_logits(const struct sample_row *r, uint32_t v) {
    if (v + VW <= r->vocab)
        return v_load(r->logits + v);
    float x[VW];
    for (uint32_t i = 0; i < VW; i++)
        x[i] = v + i < r->vocab ? r->logits[v + i] : -INFINITY;
    return v_load(x);
}

/* ---- the survey ---- */

static const uint32_t LANE_BITS[16] = {1,       1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                       1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                       1 << 12, 1 << 13, 1 << 14, 1 << 15};

/* The largest of the SAMPLE_BLOCK logits from v on that are allowed; others become -inf. A NaN or
 * +inf among all of them makes a lane of *bad NaN: x - x. */
ALWAYS_INLINE float survey_block(const struct sample_row *r, uint32_t v, vf *bad) {
    vf max = v_set1(-INFINITY);
    UNROLL
    for (uint32_t i = 0; i < SAMPLE_BLOCK; i += VW) {
        vf a = v_load(r->logits + v + i), finite = v_max(v_set1(-1e30f), a);
        *bad = v_add(*bad, v_sub(finite, finite));
        if (r->allowed) {
            vi bits = vi_set1(r->allowed[(v + i) / 32] >> (v + i) % 32),
               kept = vi_sub(vi_set1(0), vi_and(bits, vi_load(LANE_BITS)));
            a = v_pick(kept, a, v_set1(-INFINITY));
            v_store(r->logits + v + i, a);
        }
        max = v_max(max, a);
    }
    return v_hmax(max);
}

/* The same of the row's last tokens, fewer than a block. */
static float survey_tail(const struct sample_row *r, uint32_t v, vf *bad) {
    float max = -INFINITY;
    for (; v < r->vocab; v++) {
        float *x = r->logits + v;
        if (!(*x < INFINITY))
            *bad = v_set1(NAN);
        if (r->allowed && !(r->allowed[v / 32] >> v % 32 & 1))
            *x = -INFINITY;
        max = *x > max ? *x : max;
    }
    return max;
}

static void survey_unit(void *ctx, size_t unit_idx, int thread_idx) {
    struct sample_row *r = ctx;
    uint32_t first = (uint32_t)unit_idx * SAMPLE_SLICE, end = MIN(first + SAMPLE_SLICE, r->vocab),
             block = first / SAMPLE_BLOCK;
    struct slice s = {.max = -INFINITY, .block = block};
    vf bad = v_set1(0);
    for (uint32_t v = first; v < end; v += SAMPLE_BLOCK, block++) {
        float max = end - v < SAMPLE_BLOCK ? survey_tail(r, v, &bad) : survey_block(r, v, &bad);
        r->scratch->block_max[block] = max;
        if (max > s.max) {
            s.max = max;
            s.block = block;
        }
    }
    float sick = v_hsum(bad);
    if (!(sick == sick))
        s.max = NAN;
    r->scratch->slices[unit_idx] = s;
}

/* Fills the blocks' maxima and r->max, whose token becomes r->best.id, the lowest of equals. False
 * when the row has a NaN or +inf, or no finite logit. */
static bool survey(struct sample_row *r) {
    each_slice(r, survey_unit);
    const struct slice *s = r->scratch->slices;
    uint32_t block = 0;
    r->max = -INFINITY;
    for (uint32_t i = 0; i < slice_count(r->vocab); i++) {
        if (!(s[i].max == s[i].max))
            return false;
        if (s[i].max > r->max) {
            r->max = s[i].max;
            block = s[i].block;
        }
    }
    r->best.id = block * SAMPLE_BLOCK;
    while (r->max > -INFINITY && r->logits[r->best.id] != r->max)
        r->best.id++;
    return r->max > -INFINITY;
}

/* ---- a. logprobs ---- */

static void log_sums_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct sample_row *r = ctx;
    uint32_t first = (uint32_t)unit_idx * SAMPLE_SLICE,
             slice_end = MIN(first + SAMPLE_SLICE, r->vocab);
    double *out = r->scratch->slices[unit_idx].sums.log_sums;
    for (; first < slice_end; first += LOG_SUM_CHUNK) {
        vf sum = v_set1(0), shift = v_set1(r->max);
        for (uint32_t v = first; v < MIN(first + LOG_SUM_CHUNK, slice_end); v += VW)
            sum = v_add(sum, v_exp(v_sub(load_logits(r, v), shift)));
        *out++ = v_hsum(sum);
    }
}

/* log sum exp(x) with max known; f32 sums of LOG_SUM_CHUNK, those in double. */
static double log_sum_exp(struct sample_row *r) {
    double total = 0;
    each_slice(r, log_sums_unit);
    for (uint32_t v = 0; v < r->vocab; v += LOG_SUM_CHUNK)
        total +=
            r->scratch->slices[v / SAMPLE_SLICE].sums.log_sums[v % SAMPLE_SLICE / LOG_SUM_CHUNK];
    return r->max + log(total);
}

/* The best by value, lowest id among equals: insertion into a short list. */
static void top_logprobs(const struct sample_row *r, double log_sum) {
    const struct sample_out *out = r->op->out;
    uint32_t want = MIN((uint32_t)r->state->logprobs, MIN(r->vocab, (uint32_t)SAMPLE_TOP_MAX)),
             count = 0;
    uint32_t *ids = out->top_ids + (size_t)r->idx * SAMPLE_TOP_MAX;
    float worst = -INFINITY;
    for (uint32_t v = 0; want && v < r->vocab; v++) {
        float x = r->logits[v];
        if (count == want && v % SAMPLE_BLOCK == 0 &&
            r->scratch->block_max[v / SAMPLE_BLOCK] <= worst) {
            v += SAMPLE_BLOCK - 1;
            continue;
        }
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

static bool penalised(const struct slot_state *s) {
    return s->repetition_penalty != 1 || s->presence_penalty != 0 || s->frequency_penalty != 0;
}

/* Logits that c changes, as they are before: those of the history and of the bias; all, where
 * penalties come late. */
static void keep_raw(const struct sample_row *r) {
    const struct slot_state *s = r->state;
    const uint32_t *ids = r->op->slots->bias_ids + (size_t)r->slot * SLOT_BIAS_MAX;
    bool of_history = penalised(s) || s->rules.dry_multiplier > 0;
    if (s->rules.order && s->logprobs >= 0) {
        memcpy(r->scratch->raw, r->logits, r->vocab * sizeof *r->logits);
        return;
    }
    for (uint32_t i = 0; i < s->bias_count; i++)
        if (ids[i] < r->vocab)
            r->scratch->raw[ids[i]] = r->logits[ids[i]];
    for (uint32_t i = 0; of_history && i < s->token_count; i++)
        r->scratch->raw[r->history[i]] = r->logits[r->history[i]];
}

/* The first token of a window at the text's end. */
static uint32_t window_first(const struct slot_state *s, uint32_t window) {
    return window && window < s->token_count ? s->token_count - window : 0;
}

/* c. */
static void penalties(const struct sample_row *r) {
    const struct slot_state *s = r->state;
    uint32_t *counts = r->scratch->counts, first = window_first(s, s->rules.penalty_window);
    if (!penalised(s))
        return;
    for (uint32_t i = first; i < s->token_count; i++)
        counts[r->history[i]] = 0;
    for (uint32_t i = first; i < s->token_count; i++) {
        uint32_t *c = &counts[r->history[i]];
        *c = (*c | SEEN) + (i >= s->prompt_count);
    }
    for (uint32_t i = first; i < s->token_count; i++) {
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
}

/* The longest end of the text that dry compares: no breaker in it. */
static uint32_t dry_reach(const struct sample_row *r, uint32_t first) {
    const uint32_t *bits = r->op->slots->breakers + (size_t)r->slot * ((r->vocab + 31) / 32);
    uint32_t reach = 0, count = r->state->token_count - first;
    while (reach < MIN(count, (uint32_t)DRY_MATCH_MAX)) {
        uint32_t token = r->history[r->state->token_count - 1 - reach];
        if (bits[token / 32] >> token % 32 & 1)
            break;
        reach++;
    }
    return reach;
}

static void dry(const struct sample_row *r) {
    const struct slot_state *s = r->state;
    uint32_t *longest = r->scratch->counts, first = window_first(s, s->rules.dry_window),
             last = s->token_count - 1;
    if (s->rules.dry_multiplier <= 0)
        return;
    uint32_t reach = dry_reach(r, first);
    if (reach < s->rules.dry_allowed)
        return;
    for (uint32_t i = first; i < last; i++)
        longest[r->history[i + 1]] = 0;
    for (uint32_t i = first; i < last; i++) {
        uint32_t most = MIN(reach, i - first + 1), *l = &longest[r->history[i + 1]], length = 0;
        while (length < most && r->history[i - length] == r->history[last - length])
            length++;
        *l = MAX(*l, length);
    }
    for (uint32_t i = first; i < last; i++) {
        uint32_t *l = &longest[r->history[i + 1]];
        if (*l && *l >= s->rules.dry_allowed)
            r->logits[r->history[i + 1]] -= rule_dry(&s->rules, *l);
        *l = 0;
    }
}

static void biases(const struct sample_row *r) {
    const uint32_t *ids = r->op->slots->bias_ids + (size_t)r->slot * SLOT_BIAS_MAX;
    const float *values = r->op->slots->bias_values + (size_t)r->slot * SLOT_BIAS_MAX;
    for (uint32_t i = 0; i < r->state->bias_count; i++)
        if (ids[i] < r->vocab)
            r->logits[ids[i]] += values[i];
}

/* The logit of `token` as it was before penalties. */
static float raw_logit(const struct sample_row *r, uint32_t token) {
    const struct slot_state *s = r->state;
    const uint32_t *ids = r->op->slots->bias_ids + (size_t)r->slot * SLOT_BIAS_MAX;
    bool changed = s->rules.order, of_history = penalised(s) || s->rules.dry_multiplier > 0;
    for (uint32_t i = 0; i < s->bias_count; i++)
        changed |= ids[i] == token;
    for (uint32_t i = 0; of_history && i < s->token_count; i++)
        changed |= r->history[i] == token;
    return changed ? r->scratch->raw[token] : r->logits[token];
}

/* d. What is not allowed becomes -inf in the survey, stop tokens here. False: one of them is not
 * finite, which the survey would no longer see. */
static bool masks(struct sample_row *r) {
    const struct slot_state *s = r->state;
    bool finite = true;
    for (uint32_t i = 0; s->token_count < s->min_total && i < s->stop_count; i++)
        if (s->stops[i] < r->vocab) {
            finite &= r->logits[s->stops[i]] < INFINITY;
            r->logits[s->stops[i]] = -INFINITY;
        }
    if (r->op->masks && r->op->mask_rows[r->idx] != ROW_NONE)
        r->allowed = r->op->masks + (size_t)r->op->mask_rows[r->idx] * r->op->mask_stride;
    return finite;
}

#include "kernels/cpu/sample_thresholds.inc.h"

#include "kernels/cpu/sample_draw.inc.h"

/* The chain of sample_rules.h (sample_chain.inc.h). */
static uint32_t chain_draw(struct sample_row *r);

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

static enum sample_status sample_row(struct sample_row *r) {
    const struct sample_out *out = r->op->out;
    bool logprobs = r->state->logprobs >= 0;
    double log_sum = 0;
    if (logprobs) {
        if (!survey(r))
            goto nothing;
        log_sum = log_sum_exp(r);
        top_logprobs(r, log_sum);
    }
    keep_raw(r);
    if (!r->state->rules.order) {
        penalties(r);
        dry(r);
    }
    biases(r);
    if (!masks(r) || !survey(r))
        goto nothing;
    bool chained = rules_need_chain(&r->state->rules);
    uint32_t token = chained ? chain_draw(r) : r->state->temperature > 0 ? draw(r) : r->best.id;
    if (out->states)
        out->states[r->idx] = r->state->rules.state;
    out->tokens[r->idx] = token;
    out->logprobs[r->idx] = logprobs ? (float)(raw_logit(r, token) - log_sum) : 0;
    return append_token(r, token);
nothing:
    r->state->active = 0;
    out->top_counts[r->idx] = SAMPLE_NO_LOGPROBS;
    return SAMPLE_NONFINITE;
}

/* ---- the operation ---- */

/* Blocks' maxima are read VW at a time. */
static uint32_t padded_blocks(uint32_t vocab) {
    return slice_count(vocab) * (SAMPLE_SLICE / SAMPLE_BLOCK);
}

static size_t scratch_bytes(uint32_t vocab) {
    size_t bytes = sizeof(struct sample_scratch) + slice_count(vocab) * sizeof(struct slice) +
                   ((size_t)padded_blocks(vocab) + 3 * (size_t)vocab + VW) * 4;
    return (bytes + 63) / 64 * 64;
}

static size_t cpu_sample_scratch(const struct device *dev, uint32_t sample_count,
                                 uint32_t vocab_size) {
    return dev->thread_count * scratch_bytes(vocab_size);
}

static struct sample_scratch *scratch_of(const struct op_sample *a, int thread_idx) {
    uint32_t vocab = a->vocab_size, blocks = padded_blocks(vocab);
    struct sample_scratch *s =
        (struct sample_scratch *)((char *)a->scratch + (size_t)thread_idx * scratch_bytes(vocab));
    s->slices = (struct slice *)(s + 1);
    s->block_max = (float *)(s->slices + slice_count(vocab));
    s->counts = (uint32_t *)(s->block_max + blocks);
    s->raw = (float *)(s->counts + vocab);
    s->candidates = s->raw + vocab;
    for (uint32_t b = vocab / SAMPLE_BLOCK; b < blocks; b++)
        s->block_max[b] = -INFINITY;
    return s;
}

static void sample_at(const struct op_sample *a, uint32_t i, int thread_idx,
                      const struct stream *shared) {
    uint32_t t = a->batch->sample_rows[i], slot = a->batch->slots[t];
    struct sample_row r = {.op = a,
                           .state = &a->slots->states[slot],
                           .scratch = scratch_of(a, thread_idx),
                           .shared = shared,
                           .history = a->slots->tokens + (size_t)slot * a->slots->max_context,
                           .logits = a->logits + (size_t)i * a->logits_stride,
                           .slot = slot,
                           .idx = i,
                           .vocab = a->vocab_size};
    bool wasted = a->batch->positions[t] == ROW_NONE || !r.state->active ||
                  ref_draft_failed(a->batch, t, r.state, r.history);
    a->out->tokens[i] = 0;
    a->out->logprobs[i] = 0;
    a->out->top_counts[i] = SAMPLE_NO_LOGPROBS;
    a->out->status[i] = wasted ? SAMPLE_WASTED : sample_row(&r);
}

static void sample_unit(void *ctx, size_t unit_idx, int thread_idx) {
    sample_at(ctx, (uint32_t)unit_idx, thread_idx, NULL);
}

/* Up to two rows a thread are better shared than dealt out. Those of one slot come in order. */
static void cpu_sample(struct stream *s, const struct op_sample *a) {
    uint32_t count = a->batch->sample_count;
    if (count > 2 * s->dev->thread_count && !a->batch->drafted) {
        cpu_loop(s, count, (size_t)count * a->vocab_size, sample_unit, (void *)a);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        sample_at(a, i, 0, s);
}
