/*
 * sample_chain.inc.h - the chain of sample_rules.h, and dry's penalties (ref/sample_chain.c is the
 * definition).
 *
 * One thread has the row alone, so sums run in one order. The logits still kept lie side by side as
 * d = l - max, in order of their ids; each rule finds the new ends of their interval and drops what
 * is outside. Thresholds are found as in sample.inc.h, by counting bits of a key from above.
 */

struct chain {
    struct sample_row *row;
    float *d; /* [count] of those kept, within [worst, best] */
    uint32_t count;
    float worst, best, heat;
};

/* What a threshold is sought by: a key, smaller first, and how much each candidate adds. */
enum chain_weight { WEIGH_COUNT, WEIGH_MASS, WEIGH_DISTANCE };

static void chain_begin(struct chain *c) {
    struct sample_row *r = c->row;
    c->count = 0;
    for (uint32_t v = 0; v < r->vocab; v += VW)
        c->count += v_keep(c->d + c->count, load_logits(r, v), v_set1(-0x1.fffffep127f));
    for (uint32_t i = 0; i < c->count; i++)
        c->d[i] -= r->max;
    c->best = 0;
    c->worst = -INFINITY;
    c->heat = 1;
}

/* z and e^z of n <= VW candidates from `at` on. */
ALWAYS_INLINE void chain_z(const struct chain *c, uint32_t at, uint32_t n, float z[VW],
                           float p[VW]) {
    vf x = v_div(v_sub(v_load_n(c->d + at, n), v_set1(c->best)), v_set1(c->heat));
    v_store(z, x);
    v_store(p, v_exp(x));
}

static uint64_t chain_mass(float z, float p) {
    return z < MASS_MIN ? 0 : (uint64_t)(p * 0x1p40f);
}

/* Drops what is outside [worst, best]. */
static void chain_narrow(struct chain *c, float worst, float best) {
    uint32_t count = 0;
    float least = INFINITY, most = -INFINITY;
    for (uint32_t i = 0; i < c->count; i++) {
        float d = c->d[i];
        if (d < worst || d > best)
            continue;
        c->d[count++] = d;
        least = MIN(least, d);
        most = MAX(most, d);
    }
    CHECK(count);
    c->count = count;
    c->worst = least;
    c->best = most;
}

/* The sum of all masses; *depth is the mean of -z by mass, unless NULL. */
static uint64_t chain_total(const struct chain *c, double *depth) {
    uint64_t total = 0;
    double sum = 0;
    for (uint32_t i = 0; i < c->count; i += VW) {
        uint32_t n = MIN(c->count - i, (uint32_t)VW);
        float z[VW], p[VW];
        chain_z(c, i, n, z, p);
        for (uint32_t k = 0; k < n; k++) {
            uint64_t mass = chain_mass(z[k], p[k]);
            total += mass;
            sum -= (double)mass * (double)z[k];
        }
    }
    if (depth)
        *depth = sum / (double)total;
    return total;
}

static void chain_weigh(const struct chain *c, enum chain_weight by, float depth, uint32_t at,
                        uint32_t n, uint32_t *keys, uint64_t *weights) {
    float z[VW], p[VW];
    if (by != WEIGH_COUNT)
        chain_z(c, at, n, z, p);
    for (uint32_t k = 0; k < n; k++) {
        keys[k] = by == WEIGH_DISTANCE ? float_bits(fabsf(-z[k] - depth)) : key_of(c->d[at + k]);
        weights[k] = by == WEIGH_COUNT ? 1 : chain_mass(z[k], p[k]);
    }
}

/* The smallest key such that the weight of all candidates with keys up to it reaches want >= 1, if
 * all together do. */
static uint32_t chain_key(const struct chain *c, enum chain_weight by, float depth, uint64_t want) {
    static const struct { uint32_t shift, bits; } PASSES[3] = {{20, 11}, {9, 11}, {0, 9}};
    uint64_t *histogram = c->row->scratch->histogram, weights[VW];
    uint32_t prefix = 0, keys[VW];
    for (int pass = 0; pass < 3; pass++) {
        uint32_t shift = PASSES[pass].shift, bits = PASSES[pass].bits, size = 1u << bits, bin = 0;
        memset(histogram, 0, size * sizeof *histogram);
        for (uint32_t i = 0; i < c->count; i += VW) {
            uint32_t n = MIN(c->count - i, (uint32_t)VW);
            chain_weigh(c, by, depth, i, n, keys, weights);
            for (uint32_t k = 0; k < n; k++)
                if ((uint64_t)keys[k] >> (shift + bits) == prefix)
                    histogram[keys[k] >> shift & (size - 1)] += weights[k];
        }
        while (bin + 1 < size && histogram[bin] < want)
            want -= histogram[bin++];
        prefix = prefix << bits | bin;
    }
    return prefix;
}

static void chain_top_k(struct chain *c, uint32_t k) {
    if (k && k < c->count)
        chain_narrow(c, -bits_float(chain_key(c, WEIGH_COUNT, 0, k)), c->best);
}

static void chain_top_p(struct chain *c, float top_p) {
    if (top_p >= 1)
        return;
    uint64_t want = wanted_mass(top_p, chain_total(c, NULL));
    chain_narrow(c, -bits_float(MIN(chain_key(c, WEIGH_MASS, 0, want), FINITE_KEY)), c->best);
}

/* The smallest d kept whose mass is at least this; the best, where there is none. */
static float chain_least(const struct chain *c, double least) {
    float found = c->best;
    for (uint32_t i = 0; i < c->count; i += VW) {
        uint32_t n = MIN(c->count - i, (uint32_t)VW);
        float z[VW], p[VW];
        chain_z(c, i, n, z, p);
        for (uint32_t k = 0; k < n; k++)
            if ((double)chain_mass(z[k], p[k]) >= least)
                found = MIN(found, c->d[i + k]);
    }
    return found;
}

/* Keeps those whose mass is at least this, and the best. */
static void chain_least_mass(struct chain *c, double least) {
    chain_narrow(c, chain_least(c, least), c->best);
}

static void chain_sigma(struct chain *c, float n) {
    uint64_t sum = 0, squares = 0;
    if (n <= 0)
        return;
    for (uint32_t i = 0; i < c->count; i++) {
        uint64_t d = (uint64_t)(MIN(c->best - c->d[i], 2048.0f) * 512);
        sum += d;
        squares += d * d;
    }
    double mean = (double)sum / c->count, variance = (double)squares / c->count - mean * mean;
    double sigma = sqrt(MAX(variance, 0.0)) / 512;
    chain_narrow(c, c->best - (float)((double)n * sigma), c->best);
}

static void chain_temperature(struct chain *c) {
    const struct slot_state *s = c->row->state;
    float by = s->temperature;
    if (s->rules.temperature_range > 0) {
        double depth, total = (double)chain_total(c, &depth) * 0x1p-40;
        by = rule_temperature(&s->rules, by, depth + rule_log(total), c->count);
    }
    if (by < 1e-6f)
        chain_narrow(c, c->best, c->best);
    else
        c->heat *= by;
}

static void chain_typical(struct chain *c, float least) {
    double depth;
    if (least <= 0 || least >= 1)
        return;
    uint64_t total = chain_total(c, &depth), want = (uint64_t)((double)least * (double)total) + 1;
    uint32_t key = chain_key(c, WEIGH_DISTANCE, (float)depth, MIN(want, total));
    float worst = INFINITY, best = -INFINITY;
    for (uint32_t i = 0; i < c->count; i += VW) {
        uint32_t n = MIN(c->count - i, (uint32_t)VW), keys[VW];
        uint64_t weights[VW];
        chain_weigh(c, WEIGH_DISTANCE, (float)depth, i, n, keys, weights);
        for (uint32_t k = 0; k < n; k++)
            if (keys[k] <= key) {
                worst = MIN(worst, c->d[i + k]);
                best = MAX(best, c->d[i + k]);
            }
    }
    chain_narrow(c, worst, best);
}

static void chain_xtc(struct chain *c) {
    const struct slot_state *s = c->row->state;
    uint32_t coin = noise_bits(s->seed, s->choice, s->token_count, 0, NOISE_XTC);
    if ((double)coin + 0.5 >= (double)s->rules.xtc_probability * 0x1p32)
        return;
    double least = (double)s->rules.xtc_threshold * (double)chain_total(c, NULL);
    chain_narrow(c, -INFINITY, chain_least(c, least));
}

/* Penalties in the midst of the chain see the logits that are left, as they are by then. */
static void chain_change(struct chain *c, void change(const struct sample_row *)) {
    struct sample_row *r = c->row;
    for (uint32_t v = 0; v < r->vocab; v++) {
        float d = r->logits[v] - r->max;
        bool kept = d >= c->worst && d <= c->best;
        r->logits[v] = kept ? r->logits[v] / c->heat : -INFINITY;
    }
    change(r);
    CHECK(survey(r));
    chain_begin(c);
}

static void chain_step(struct chain *c, enum sample_step step) {
    const struct slot_state *s = c->row->state;
    switch (step) {
    case STEP_PENALTIES: chain_change(c, penalties); return;
    case STEP_DRY: chain_change(c, dry); return;
    case STEP_TOP_N_SIGMA: chain_sigma(c, s->top_n_sigma); return;
    case STEP_TEMPERATURE: chain_temperature(c); return;
    case STEP_TOP_K: chain_top_k(c, s->top_k); return;
    case STEP_TYPICAL_P: chain_typical(c, s->rules.typical_p); return;
    case STEP_TOP_P: chain_top_p(c, s->top_p); return;
    case STEP_MIN_P:
        if (s->min_p > 0)
            chain_least_mass(c, (double)s->min_p * 0x1p40);
        return;
    case STEP_XTC: chain_xtc(c); return;
    default: return;
    }
}

/* The gaps between the likeliest, best first; returns how many. */
static uint32_t chain_gaps(const struct chain *c, float gaps[MIROSTAT_BEST]) {
    float best[MIROSTAT_BEST];
    uint32_t most = MIN(c->count, (uint32_t)MIROSTAT_BEST), count = 0,
             key = chain_key(c, WEIGH_COUNT, 0, most);
    for (uint32_t i = 0; i < c->count; i++) {
        float d = c->d[i];
        if (key_of(d) > key || (count == most && d <= best[most - 1]))
            continue;
        uint32_t at = count < most ? count++ : most - 1;
        for (; at > 0 && best[at - 1] < d; at--)
            best[at] = best[at - 1];
        best[at] = d;
    }
    for (uint32_t i = 0; i + 1 < count; i++)
        gaps[i] = (best[i] - best[i + 1]) / c->heat;
    return count - 1;
}

static void chain_mirostat(struct chain *c) {
    const struct sample_rules *rules = &c->row->state->rules;
    float gaps[MIROSTAT_BEST];
    if (rules->steering == STEER_MIROSTAT_2) {
        double aim = MAX(MIN((double)rules->state, 500.0), -500.0);
        chain_least_mass(c, (double)chain_total(c, NULL) * rule_exp(-aim * 0.69314718055994531));
        return;
    }
    uint32_t count = chain_gaps(c, gaps);
    double k = rule_mirostat_k(rules->state, gaps, count, c->row->vocab);
    chain_top_k(c, k < c->count ? (uint32_t)k : 0);
}

struct chain_draw {
    float aim;
    double total;
    struct best best;
    float z; /* of it */
};

/* VW tokens from v on. */
static void chain_draw_lanes(const struct chain *c, uint32_t v, struct chain_draw *draw) {
    const struct slot_state *s = c->row->state;
    bool adapts = s->rules.steering == STEER_ADAPTIVE;
    float d[VW], z[VW], p[VW];
    vf from_max = v_sub(load_logits(c->row, v), v_set1(c->row->max)),
       x = v_div(v_sub(from_max, v_set1(c->best)), v_set1(c->heat));
    v_store(d, from_max);
    v_store(z, x);
    v_store(p, v_exp(x));
    for (uint32_t i = 0; i < MIN(c->row->vocab - v, (uint32_t)VW); i++) {
        if (!(d[i] >= c->worst && d[i] <= c->best))
            continue;
        float value = z[i];
        if (adapts)
            value = rule_adapted_logit((float)((double)p[i] / draw->total), draw->aim);
        if (value + GUMBEL_MOST <= draw->best.value)
            continue;
        value +=
            gumbel_of_bits(noise_bits(s->seed, s->choice, s->token_count, v + i, NOISE_SAMPLE));
        if (value > draw->best.value) {
            draw->best = (struct best){value, v + i};
            draw->z = z[i];
        }
    }
}

static uint32_t chain_draw(struct sample_row *r) {
    struct slot_state *s = r->state;
    uint64_t order = s->rules.order ? s->rules.order : SAMPLE_USUAL_ORDER;
    struct chain c = {.row = r, .d = r->scratch->candidates};
    chain_begin(&c);
    for (; order; order >>= 4)
        chain_step(&c, (enum sample_step)(order & 15));
    if (s->rules.steering && s->rules.steering != STEER_ADAPTIVE)
        chain_mirostat(&c);
    c.worst = MAX(c.worst, -0x1.fffffep127f);
    struct chain_draw draw = {.aim = rule_adapted_target(&s->rules),
                              .total = (double)chain_total(&c, NULL) * 0x1p-40,
                              .best = {-INFINITY, UINT32_MAX}};
    for (uint32_t v = 0; v < r->vocab; v += SAMPLE_BLOCK)
        for (uint32_t i = 0; r->scratch->block_max[v / SAMPLE_BLOCK] - r->max >= c.worst &&
                             i < MIN(r->vocab - v, (uint32_t)SAMPLE_BLOCK);
             i += VW)
            chain_draw_lanes(&c, v + i, &draw);
    if (s->rules.steering)
        s->rules.state = rule_next_state(&s->rules, draw.z, draw.total);
    return draw.best.id;
}
