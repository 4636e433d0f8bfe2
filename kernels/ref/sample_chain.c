/* The chain of sample_rules.h by sorting: what is kept is a part of a sorted list. */
#include <stdlib.h>

#include "kernels/philox.h"
#include "kernels/ref/sample.h"

struct candidate {
    float logit;
    uint32_t id;
};

struct chain {
    const struct row *row;
    struct candidate *all; /* [vocab] best first; -inf last */
    uint32_t first, end;   /* those kept */
    float heat;
};

static int best_first(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit ? 1 : -1) : x->id < y->id ? -1 : 1;
}

static void begin(struct chain *c) {
    const struct row *r = c->row;
    c->first = 0;
    c->end = 0;
    c->heat = 1;
    for (uint32_t v = 0; v < r->vocab; v++) {
        c->all[v] = (struct candidate){r->logits[v], v};
        c->end += r->logits[v] > -INFINITY;
    }
    qsort(c->all, r->vocab, sizeof *c->all, best_first);
}

static float z_at(const struct chain *c, uint32_t i) {
    return (c->all[i].logit - c->all[c->first].logit) / c->heat;
}
static double weight_at(const struct chain *c, uint32_t i) {
    return floor(exp((double)z_at(c, i)) * 0x1p40);
}

static double total_weight(const struct chain *c) {
    double total = 0;
    for (uint32_t i = c->first; i < c->end; i++)
        total += weight_at(c, i);
    return total;
}

/* The mean of -z by weight: the entropy less the logarithm of the sum of exp(z). */
static double mean_depth(const struct chain *c) {
    double sum = 0;
    for (uint32_t i = c->first; i < c->end; i++)
        sum -= weight_at(c, i) * (double)z_at(c, i);
    return sum / total_weight(c);
}

/* Keeps up to i, and what is equal to it. */
static void cut_behind(struct chain *c, uint32_t i) {
    uint32_t end = i + 1;
    while (end < c->end && c->all[end].logit == c->all[i].logit)
        end++;
    c->end = MIN(c->end, end);
}

static void top_n_sigma(struct chain *c, float n) {
    double sum = 0, squares = 0, count = c->end - c->first, best = (double)c->all[c->first].logit;
    for (uint32_t i = c->first; i < c->end; i++) {
        double d = floor(fmin(best - (double)c->all[i].logit, 2048) * 512);
        sum += d;
        squares += d * d;
    }
    double mean = sum / count, sigma = sqrt(fmax(squares / count - mean * mean, 0)) / 512;
    float least = (float)((double)n * sigma);
    while (c->all[c->first].logit - c->all[c->end - 1].logit > least)
        c->end--;
}

static void temperature(struct chain *c) {
    const struct slot_state *s = c->row->state;
    float by = s->temperature;
    if (s->rules.temperature_range > 0)
        by = rule_temperature(&s->rules, by, mean_depth(c) + log(total_weight(c) / 0x1p40),
                              c->end - c->first);
    if (by < 1e-6f)
        cut_behind(c, c->first);
    else
        c->heat *= by;
}

struct typical {
    float distance;
    double weight;
    uint32_t idx;
};

static int nearest_first(const void *a, const void *b) {
    const struct typical *x = a, *y = b;
    return x->distance < y->distance ? -1 : x->distance > y->distance;
}

static void typical_p(struct chain *c, float least) {
    uint32_t count = c->end - c->first, first = c->end, last = c->first;
    struct typical *t = mem_calloc(count, sizeof *t);
    double mean = mean_depth(c), want = floor((double)least * total_weight(c)), sum = 0;
    for (uint32_t i = 0; i < count; i++)
        t[i] = (struct typical){fabsf(-z_at(c, c->first + i) - (float)mean),
                                weight_at(c, c->first + i), c->first + i};
    qsort(t, count, sizeof *t, nearest_first);
    float farthest = t[count - 1].distance;
    for (uint32_t i = 0; i < count; i++) {
        sum += t[i].weight;
        if (sum > want) {
            farthest = t[i].distance;
            break;
        }
    }
    for (uint32_t i = 0; i < count && t[i].distance <= farthest; i++) {
        first = MIN(first, t[i].idx);
        last = MAX(last, t[i].idx);
    }
    mem_free(t);
    c->end = last + 1;
    c->first = first;
}

static void top_p(struct chain *c, float least) {
    double want = fmax(floor((double)least * total_weight(c)), 1), sum = 0;
    for (uint32_t i = c->first; i < c->end; i++) {
        sum += weight_at(c, i);
        if (sum >= want) {
            cut_behind(c, i);
            return;
        }
    }
}

/* Keeps p >= least * the largest. */
static void min_p(struct chain *c, double least) {
    while (c->end > c->first + 1 && exp((double)z_at(c, c->end - 1)) < least)
        c->end--;
}

static void xtc(struct chain *c) {
    const struct slot_state *s = c->row->state;
    const struct sample_rules *rules = &s->rules;
    uint32_t coin = noise_bits(s->seed, s->choice, s->token_count, 0, NOISE_XTC), last = c->first;
    if ((double)coin + 0.5 >= (double)rules->xtc_probability * 0x1p32)
        return;
    double least = (double)rules->xtc_threshold * total_weight(c);
    for (uint32_t i = c->first; i < c->end && weight_at(c, i) >= least; i++)
        last = i;
    while (last > c->first && c->all[last - 1].logit == c->all[last].logit)
        last--;
    c->first = last;
}

/* Penalties in the midst of the chain see the logits that are left, as they are by then. */
static void change_logits(struct chain *c, void change(const struct row *)) {
    const struct row *r = c->row;
    for (uint32_t i = 0; i < r->vocab; i++) {
        bool kept = i >= c->first && i < c->end;
        r->logits[c->all[i].id] = kept ? c->all[i].logit / c->heat : -INFINITY;
    }
    change(r);
    begin(c);
}

static void run_step(struct chain *c, enum sample_step step) {
    const struct slot_state *s = c->row->state;
    switch (step) {
    case STEP_PENALTIES: change_logits(c, ref_penalties); return;
    case STEP_DRY: change_logits(c, ref_dry); return;
    case STEP_TOP_N_SIGMA:
        if (s->top_n_sigma > 0)
            top_n_sigma(c, s->top_n_sigma);
        return;
    case STEP_TEMPERATURE: temperature(c); return;
    case STEP_TOP_K:
        if (s->top_k && s->top_k < c->end - c->first)
            cut_behind(c, c->first + s->top_k - 1);
        return;
    case STEP_TYPICAL_P:
        if (s->rules.typical_p > 0 && s->rules.typical_p < 1)
            typical_p(c, s->rules.typical_p);
        return;
    case STEP_TOP_P:
        if (s->top_p < 1)
            top_p(c, s->top_p);
        return;
    case STEP_MIN_P: min_p(c, (double)s->min_p); return;
    case STEP_XTC: xtc(c); return;
    default: return;
    }
}

static void mirostat(struct chain *c) {
    const struct sample_rules *rules = &c->row->state->rules;
    float gaps[MIROSTAT_BEST];
    uint32_t count = 0;
    if (rules->steering == STEER_MIROSTAT_2) {
        double least = total_weight(c) * pow(2, -(double)rules->state);
        uint32_t last = c->end - 1;
        while (last > c->first && weight_at(c, last) < least)
            last--;
        cut_behind(c, last);
        return;
    }
    for (; count + 1 < MIROSTAT_BEST && c->first + count + 1 < c->end; count++)
        gaps[count] = z_at(c, c->first + count) - z_at(c, c->first + count + 1);
    double k = rule_mirostat_k(rules->state, gaps, count, c->row->vocab);
    if (k < c->end - c->first)
        cut_behind(c, c->first + (uint32_t)k - 1);
}

uint32_t ref_chain_draw(const struct row *r) {
    struct slot_state *s = r->state;
    uint64_t order = s->rules.order ? s->rules.order : SAMPLE_USUAL_ORDER;
    struct chain c = {.row = r, .all = mem_calloc(r->vocab, sizeof *c.all)};
    begin(&c);
    for (; order; order >>= 4)
        run_step(&c, (enum sample_step)(order & 15));
    if (s->rules.steering && s->rules.steering != STEER_ADAPTIVE)
        mirostat(&c);
    double total = total_weight(&c) / 0x1p40;
    float aim = rule_adapted_target(&s->rules), best = -INFINITY;
    uint32_t choice = c.first;
    for (uint32_t i = c.first; i < c.end; i++) {
        uint32_t id = c.all[i].id;
        float value = s->rules.steering == STEER_ADAPTIVE
                          ? rule_adapted_logit((float)(exp((double)z_at(&c, i)) / total), aim)
                          : z_at(&c, i);
        value += gumbel_of_bits(noise_bits(s->seed, s->choice, s->token_count, id, NOISE_SAMPLE));
        if (value > best || (value == best && id < c.all[choice].id)) {
            best = value;
            choice = i;
        }
    }
    uint32_t token = c.all[choice].id;
    if (s->rules.steering)
        s->rules.state = rule_next_state(&s->rules, z_at(&c, choice), total);
    mem_free(c.all);
    return token;
}
