/* The sampler's definition, step by step as ops.h numbers them. Slow: sorts, and allocates its
 * scratch. */
#include <math.h>
#include <stdlib.h>

#include "kernels/philox.h"
#include "kernels/ref/sample.h"

/* a. Best first, lowest id among equals. */
static void top_logprobs(const struct row *r, double log_sum) {
    const struct sample_out *out = r->op->out;
    uint32_t want = MIN((uint32_t)MAX(r->state->logprobs, 0), MIN(r->vocab, SAMPLE_TOP_MAX)),
             count = 0;
    uint32_t *ids = out->top_ids + (size_t)r->idx * SAMPLE_TOP_MAX;
    for (; count < want; count++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t v = 0; v < r->vocab; v++) {
            bool taken = false;
            for (uint32_t i = 0; i < count; i++)
                taken |= ids[i] == v;
            if (!taken && (best == UINT32_MAX || r->logits[v] > r->logits[best]))
                best = v;
        }
        ids[count] = best;
        out->top_logprobs[(size_t)r->idx * SAMPLE_TOP_MAX + count] =
            (float)(r->logits[best] - log_sum);
    }
    out->top_counts[r->idx] = r->state->logprobs < 0 ? SAMPLE_NO_LOGPROBS : count;
}

static double log_sum_exp(const struct row *r) {
    double max = -INFINITY, sum = 0;
    for (uint32_t v = 0; v < r->vocab; v++)
        max = fmax(max, r->logits[v]);
    for (uint32_t v = 0; v < r->vocab; v++)
        sum += exp(r->logits[v] - max);
    return max + log(sum);
}

/* b. */
static bool finite_row(const struct row *r) {
    bool any = false;
    for (uint32_t v = 0; v < r->vocab; v++) {
        if (isnan(r->logits[v]) || r->logits[v] == INFINITY)
            return false;
        any |= r->logits[v] > -INFINITY;
    }
    return any;
}

/* c. */
void ref_penalties(const struct row *r) {
    const struct slot_state *s = r->state;
    uint32_t window = s->rules.penalty_window,
             first = window && window < s->token_count ? s->token_count - window : 0;
    uint32_t *counts = mem_calloc(r->vocab, sizeof *counts);
    bool *seen = mem_calloc(r->vocab, sizeof *seen);
    for (uint32_t i = first; i < s->token_count; i++) {
        seen[r->history[i]] = true;
        if (i >= s->prompt_count)
            counts[r->history[i]]++;
    }
    for (uint32_t v = 0; v < r->vocab; v++) {
        float l = r->logits[v];
        if (seen[v] && s->repetition_penalty != 1)
            l = l > 0 ? l / s->repetition_penalty : l * s->repetition_penalty;
        if (counts[v]) {
            l -= (float)counts[v] * s->frequency_penalty;
            l -= s->presence_penalty;
        }
        r->logits[v] = l;
    }
    mem_free(counts);
    mem_free(seen);
}

/* The tokens that the one at idx and those before it have in common with the end of the text. */
static uint32_t dry_match(const struct row *r, uint32_t first, uint32_t idx) {
    const uint32_t *bits = r->op->slots->breakers + (size_t)r->slot * ((r->vocab + 31) / 32);
    uint32_t length = 0, last = r->state->token_count - 1;
    while (length < DRY_MATCH_MAX && idx >= first + length &&
           r->history[idx - length] == r->history[last - length] &&
           !(bits[r->history[idx - length] / 32] >> r->history[idx - length] % 32 & 1))
        length++;
    return length;
}

void ref_dry(const struct row *r) {
    const struct slot_state *s = r->state;
    uint32_t window = s->rules.dry_window, *longest = mem_calloc(r->vocab, sizeof *longest),
             first = window && window < s->token_count ? s->token_count - window : 0;
    for (uint32_t i = first; i + 1 < s->token_count && s->rules.dry_multiplier > 0; i++) {
        uint32_t next = r->history[i + 1];
        longest[next] = MAX(longest[next], dry_match(r, first, i));
    }
    for (uint32_t v = 0; v < r->vocab; v++)
        if (longest[v] && longest[v] >= s->rules.dry_allowed)
            r->logits[v] -= rule_dry(&s->rules, longest[v]);
    mem_free(longest);
}

static void biases(const struct row *r) {
    for (uint32_t i = 0; i < r->state->bias_count; i++) {
        uint32_t id = r->op->slots->bias_ids[(size_t)r->slot * SLOT_BIAS_MAX + i];
        if (id < r->vocab)
            r->logits[id] += r->op->slots->bias_values[(size_t)r->slot * SLOT_BIAS_MAX + i];
    }
}

/* d. */
static void masks(const struct row *r) {
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

/* e. */
static uint32_t argmax(const float *x, uint32_t count) {
    uint32_t best = 0;
    for (uint32_t v = 1; v < count; v++)
        if (x[v] > x[best])
            best = v;
    return best;
}

static int descending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return x > y ? -1 : x < y;
}

/* f. The smallest z that top_n_sigma keeps; the logits as they are before the temperature. */
static float sigma_threshold(const struct row *r, float max) {
    double sum = 0, squares = 0, count = 0; /* integers; squares below 2^53 are exact */
    if (r->state->top_n_sigma == 0)
        return -INFINITY;
    for (uint32_t v = 0; v < r->vocab; v++) {
        if (r->logits[v] == -INFINITY)
            continue;
        double d = floor(fmin((double)(max - r->logits[v]), 2048) * 512);
        sum += d;
        squares += d * d;
        count++;
    }
    double mean = sum / count, variance = squares / count - mean * mean;
    double sigma = sqrt(fmax(variance, 0)) / 512;
    return -(float)(r->state->top_n_sigma * sigma) / r->state->temperature;
}

/* f. The smallest z kept, none of them below `limit`. */
static float threshold(const struct row *r, const float *z, float limit) {
    const struct slot_state *s = r->state;
    float *sorted = mem_calloc(r->vocab, sizeof *sorted);
    memcpy(sorted, z, r->vocab * sizeof *sorted);
    qsort(sorted, r->vocab, sizeof *sorted, descending);
    if (s->top_k && s->top_k < r->vocab)
        limit = fmaxf(limit, sorted[s->top_k - 1]);
    if (s->top_p < 1) {
        uint64_t total = 0, sum = 0;
        for (uint32_t v = 0; v < r->vocab && sorted[v] >= limit; v++)
            total += (uint64_t)(exp((double)sorted[v]) * 0x1p40);
        uint64_t want = (uint64_t)((double)s->top_p * (double)total);
        uint32_t v = 0;
        for (; v < r->vocab && sorted[v] >= limit; v++) {
            sum += (uint64_t)(exp((double)sorted[v]) * 0x1p40);
            if (sum >= want)
                break;
        }
        limit = sorted[MIN(v, r->vocab - 1)];
    }
    mem_free(sorted);
    return limit;
}

/* f, g. */
static uint32_t draw(const struct row *r) {
    const struct slot_state *s = r->state;
    float max = r->logits[argmax(r->logits, r->vocab)], best = -INFINITY;
    uint32_t choice = 0;
    float limit = sigma_threshold(r, max);
    for (uint32_t v = 0; v < r->vocab; v++)
        r->logits[v] = (r->logits[v] - max) / s->temperature;
    limit = threshold(r, r->logits, limit);
    for (uint32_t v = 0; v < r->vocab; v++) {
        float z = r->logits[v];
        if (z == -INFINITY || z < limit || (s->min_p > 0 && exp((double)z) < s->min_p))
            continue;
        z += gumbel_of_bits(noise_bits(s->seed, s->choice, s->token_count, v, NOISE_SAMPLE));
        if (z > best) {
            best = z;
            choice = v;
        }
    }
    return choice;
}

static enum sample_status append(const struct row *r, uint32_t token) {
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

static enum sample_status sample_row(const struct row *r) {
    const struct sample_out *out = r->op->out;
    out->top_counts[r->idx] = SAMPLE_NO_LOGPROBS;
    if (!finite_row(r)) {
        r->state->active = 0;
        return SAMPLE_NONFINITE;
    }
    double log_sum = r->state->logprobs >= 0 ? log_sum_exp(r) : 0;
    if (r->state->logprobs >= 0)
        top_logprobs(r, log_sum);
    float *raw = mem_calloc(r->vocab, sizeof *raw);
    memcpy(raw, r->logits, r->vocab * sizeof *raw);
    if (!r->state->rules.order) {
        ref_penalties(r);
        ref_dry(r);
    }
    biases(r);
    masks(r);
    enum sample_status status = SAMPLE_NONFINITE;
    if (finite_row(r)) {
        uint32_t token = rules_need_chain(&r->state->rules) ? ref_chain_draw(r)
                         : r->state->temperature == 0       ? argmax(r->logits, r->vocab)
                                                            : draw(r);
        if (out->states)
            out->states[r->idx] = r->state->rules.state;
        out->tokens[r->idx] = token;
        out->logprobs[r->idx] = (float)(raw[token] - log_sum);
        status = append(r, token);
    } else {
        r->state->active = 0;
    }
    mem_free(raw);
    return status;
}

void ref_sample(struct stream *s, const struct op_sample *a) {
    for (uint32_t i = 0; i < a->batch->sample_count; i++) {
        uint32_t t = a->batch->sample_rows[i], slot = a->batch->slots[t];
        struct row r = {.op = a,
                        .state = &a->slots->states[slot],
                        .history = a->slots->tokens + (size_t)slot * a->slots->max_context,
                        .slot = slot,
                        .idx = i,
                        .vocab = a->vocab_size,
                        .logits = a->logits + (size_t)i * a->logits_stride};
        bool wasted = a->batch->positions[t] == ROW_NONE || !r.state->active ||
                      ref_draft_failed(a->batch, t, r.state, r.history);
        a->out->tokens[i] = 0;
        a->out->top_counts[i] = SAMPLE_NO_LOGPROBS;
        a->out->status[i] = wasted ? SAMPLE_WASTED : sample_row(&r);
    }
}
