/* The chain of kernels/sample_rules.h: every instruction set against the definition, and the
 * definition against float64 mathematics of the rules' papers that knows nothing of intervals,
 * integers or noise. */
#include "kernels/sample_rules.h"
#include "random_rules.h"
#include "sample_rig.h"

/* ---- against the definition ---- */

static void random_setting(struct setting *set, float *logits, uint32_t vocab, int round) {
    for (uint32_t i = 0; i < vocab; i++)
        logits[i] = check_random() % 50 ? logits[i] * 4 : -INFINITY;
    logits[check_random() % vocab] = 1;
    *set = plain(1);
    for (int i = 0; i < 12; i++)
        set->history[i] = (uint32_t)(check_random() % MIN(vocab, 3u));
    set->state.token_count = 12;
    set->state.prompt_count = 5;
    set->state.seed = check_random();
    set->state.logprobs = round % 3 - 1;
    set->breakers[0] = round % 8 ? 0 : 2;
    random_rules(&set->state, round);
}

TEST(every_chain_draws_what_the_definition_draws) {
    static const uint32_t VOCABS[] = {1, 2, 5, 16, 17, 63, 257, 1031, 9001};
    int drawn = 0;
    FOR_EACH_ISA(isa)
    for (int round = 0; round < 500; round++) {
        uint32_t vocab = VOCABS[check_random() % ARRAY_LEN(VOCABS)];
        float *logits = random_array(vocab);
        struct setting set;
        random_setting(&set, logits, vocab, round);
        struct draw got = sample_one(isa, logits, vocab, &set, 1 + (uint32_t)round % 4),
                    want = sample_one("ref", logits, vocab, &set, 1);
        if (got.token != want.token || got.status != want.status ||
            fabsf(got.state - want.state) > 1e-3f * (1 + fabsf(want.state)))
            check_fail(__FILE__, __LINE__,
                       "%s, round %d: token %u, state %g; expected token %u, state %g", isa, round,
                       got.token, (double)got.state, want.token, (double)want.state);
        if (set.state.logprobs >= 0)
            EXPECT(fabsf(got.logprob - want.logprob) <= 1e-5f * (1 + fabsf(want.logprob)));
        drawn++;
        unguard(logits);
    }
    EXPECT(drawn >= 500);
}

/* ---- against float64 ---- */

enum { V = 12, DRAWS = 3000, TEXT = 9 };

/* Candidates, best first. */
struct list {
    int count, ids[V];
    double logits[V], p[V];
};

static void sort_list(struct list *l) {
    for (int i = 1; i < l->count; i++)
        for (int k = i; k > 0 && l->logits[k] > l->logits[k - 1]; k--) {
            double logit = l->logits[k];
            int id = l->ids[k];
            l->logits[k] = l->logits[k - 1], l->ids[k] = l->ids[k - 1];
            l->logits[k - 1] = logit, l->ids[k - 1] = id;
        }
}

static void softmax(struct list *l) {
    double sum = 0;
    sort_list(l);
    for (int i = 0; i < l->count; i++)
        sum += l->p[i] = exp(l->logits[i] - l->logits[0]);
    for (int i = 0; i < l->count; i++)
        l->p[i] /= sum;
}

/* Keeps those whose place in `keep` is true. */
static void sieve(struct list *l, const bool *keep) {
    int count = 0;
    for (int i = 0; i < l->count; i++)
        if (keep[i]) {
            l->logits[count] = l->logits[i];
            l->ids[count++] = l->ids[i];
        }
    l->count = count;
}

static double entropy(const struct list *l) {
    double h = 0;
    for (int i = 0; i < l->count; i++)
        h -= l->p[i] * log(l->p[i]);
    return h;
}

static void typical(struct list *l, double least) {
    bool keep[V] = {0};
    double sum = 0, h = entropy(l);
    while (sum <= least) {
        int next = -1;
        for (int i = 0; i < l->count; i++)
            if (!keep[i] && (next < 0 || fabs(-log(l->p[i]) - h) < fabs(-log(l->p[next]) - h)))
                next = i;
        if (next < 0)
            break;
        keep[next] = true;
        sum += l->p[next];
    }
    sieve(l, keep);
}

static void heat(struct list *l, const struct slot_state *s) {
    double t = (double)s->temperature, r = (double)s->rules.temperature_range;
    if (r > 0)
        t = fmax(t - r, 0) + (t + r - fmax(t - r, 0)) * pow(entropy(l) / log(l->count),
                                                            (double)s->rules.temperature_exponent);
    for (int i = 0; i < l->count; i++)
        l->logits[i] /= t;
}

static void top_p(struct list *l, double least) {
    double sum = 0;
    for (int i = 0; i < l->count; i++) {
        sum += l->p[i];
        if (sum >= least)
            l->count = i + 1;
    }
}

static void min_p(struct list *l, double least) {
    while (l->p[l->count - 1] < least * l->p[0])
        l->count--;
}

static void sigma(struct list *l, double n) {
    double mean = 0, square = 0;
    for (int i = 0; i < l->count; i++)
        mean += l->logits[i] / l->count;
    for (int i = 0; i < l->count; i++)
        square += pow(l->logits[i] - mean, 2) / l->count;
    while (l->logits[l->count - 1] < l->logits[0] - n * sqrt(square))
        l->count--;
}

static void xtc(struct list *l, double least) {
    bool keep[V] = {0};
    int above = 0;
    while (above < l->count && l->p[above] >= least)
        above++;
    for (int i = 0; i < l->count; i++)
        keep[i] = above < 2 || i >= above - 1;
    sieve(l, keep);
}

/* The text's last tokens repeat what stood before `id` at some place: the longest such run. */
static int repetition(const struct setting *set, int window, int id) {
    int longest = 0, count = (int)set->state.token_count, first = window ? count - window : 0;
    for (int at = first + 1; at < count; at++)
        for (int n = 1; (int)set->history[at] == id && n <= at - first; n++) {
            bool same = true;
            for (int k = 1; k <= n; k++)
                same = same && set->history[at - k] == set->history[count - k] &&
                       !(set->breakers[0] >> set->history[at - k] & 1);
            if (same && n > longest)
                longest = n;
        }
    return longest;
}

static void penalise(struct list *l, const struct setting *set, bool dry) {
    const struct slot_state *s = &set->state;
    const struct sample_rules *r = &s->rules;
    int count = (int)s->token_count, window = (int)(dry ? r->dry_window : r->penalty_window);
    for (int i = 0; i < l->count; i++) {
        int repeats = dry ? repetition(set, window, l->ids[i]) : 0, times = 0, seen = 0;
        if (dry && repeats >= (int)r->dry_allowed)
            l->logits[i] -=
                (double)r->dry_multiplier * pow((double)r->dry_base, repeats - (int)r->dry_allowed);
        for (int k = window ? count - window : 0; !dry && k < count; k++) {
            seen |= (int)set->history[k] == l->ids[i];
            times += (int)set->history[k] == l->ids[i] && k >= (int)s->prompt_count;
        }
        if (seen)
            l->logits[i] *= l->logits[i] > 0 ? 1 / (double)s->repetition_penalty
                                             : (double)s->repetition_penalty;
        l->logits[i] -= times * (double)s->frequency_penalty;
    }
}

static int mirostat_k(const struct list *l, double mu) {
    double sum = 0, squares = 0;
    for (int i = 0; i + 1 < l->count && i + 1 < 100; i++) {
        double t = log((i + 2.0) / (i + 1)), b = log(l->p[i] / l->p[i + 1]);
        sum += t * b, squares += t * t;
    }
    double s = sum / squares, e = s - 1;
    return (int)fmax(pow(e * pow(2, mu) / (1 - pow(V, -e)), 1 / s), 1);
}

static void steer(struct list *l, const struct sample_rules *r) {
    softmax(l);
    if (r->steering == STEER_MIROSTAT_2)
        while (l->count > 1 && -log2(l->p[l->count - 1]) > (double)r->state)
            l->count--;
    if (r->steering == STEER_MIROSTAT)
        l->count = MIN(l->count, mirostat_k(l, (double)r->state));
    double aim = 2 * (double)r->target - (double)r->state * (1 - (double)r->rate);
    for (int i = 0; i < l->count && r->steering == STEER_ADAPTIVE; i++) {
        double d = fabs(l->p[i] - fmin(fmax(aim, 0), 1)) / 0.3;
        l->logits[i] = 5 - 10 * d * d / (1 + d);
    }
    softmax(l);
}

/* What is left of the logits, with or without xtc. */
static struct list distribution(const struct setting *set, const float *logits, bool with_xtc) {
    const struct slot_state *s = &set->state;
    const struct sample_rules *r = &s->rules;
    struct list l = {.count = V};
    for (int v = 0; v < V; v++)
        l.ids[v] = v, l.logits[v] = (double)logits[v];
    uint64_t order = r->order ? r->order : SAMPLE_USUAL_ORDER << 8 | 0x21;
    for (; order; order >>= 4) {
        softmax(&l);
        switch (order & 15) {
        case STEP_PENALTIES: penalise(&l, set, false); break;
        case STEP_DRY: penalise(&l, set, true); break;
        case STEP_TOP_N_SIGMA:
            if (s->top_n_sigma > 0)
                sigma(&l, (double)s->top_n_sigma);
            break;
        case STEP_TEMPERATURE: heat(&l, s); break;
        case STEP_TOP_K: l.count = s->top_k ? MIN(l.count, (int)s->top_k) : l.count; break;
        case STEP_TYPICAL_P:
            if (r->typical_p > 0)
                typical(&l, (double)r->typical_p);
            break;
        case STEP_TOP_P: top_p(&l, (double)s->top_p); break;
        case STEP_MIN_P: min_p(&l, (double)s->min_p); break;
        default:
            if (with_xtc)
                xtc(&l, (double)r->xtc_threshold);
        }
    }
    steer(&l, r);
    return l;
}

static double chi_square(const double *p, const uint32_t *tokens) {
    double counts[V] = {0}, chi = 0;
    for (int i = 0; i < DRAWS; i++)
        counts[tokens[i]]++;
    for (int v = 0; v < V; v++)
        if (p[v] > 0)
            chi += pow(counts[v] - DRAWS * p[v], 2) / (DRAWS * p[v]);
        else
            chi += counts[v] ? 1e9 : 0;
    return chi;
}

static const struct {
    const char *name;
    float temperature, top_p, min_p, sigma, repetition, frequency;
    uint32_t top_k;
    struct sample_rules rules;
} CASES[] = {
    {"typical_p", 1.5f, 1, 0, 0, 1, 0, 0, {.typical_p = 0.6f}},
    {"typical_p, little", 1, 1, 0, 0, 1, 0, 0, {.typical_p = 0.05f}},
    {"xtc always", 1, 1, 0, 0, 1, 0, 0, {.xtc_probability = 1, .xtc_threshold = 0.1f}},
    {"xtc at times", 1, 1, 0, 0, 1, 0, 0, {.xtc_probability = 0.4f, .xtc_threshold = 0.08f}},
    {"dynamic temperature",
     1,
     1,
     0,
     0,
     1,
     0,
     0,
     {.temperature_range = 0.8f, .temperature_exponent = 1}},
    {"dynamic, exponent",
     1.5f,
     1,
     0,
     0,
     1,
     0,
     0,
     {.temperature_range = 1.2f, .temperature_exponent = 9}},
    {"dry", 1, 1, 0, 0, 1, 0, 0, {.dry_multiplier = 0.8f, .dry_base = 1.75f, .dry_allowed = 1}},
    {"dry, window",
     1,
     1,
     0,
     0,
     1,
     0,
     0,
     {.dry_multiplier = 0.5f, .dry_base = 1.3f, .dry_allowed = 2, .dry_window = 8}},
    {"penalties' window", 1, 1, 0, 0, 1.5f, 0.3f, 0, {.penalty_window = 3}},
    {"mirostat 2", 1, 1, 0, 0, 1, 0, 0, {.steering = STEER_MIROSTAT_2, .target = 1.5f, .state = 3}},
    {"mirostat 1", 2, 1, 0, 0, 1, 0, 0, {.steering = STEER_MIROSTAT, .target = 1.5f, .state = 2}},
    {"adaptive",
     1,
     1,
     0,
     0,
     1,
     0,
     0,
     {.steering = STEER_ADAPTIVE, .target = 0.3f, .rate = 0.9f, .state = 3.5f}},
    {"adaptive behind min_p",
     1,
     1,
     0.1f,
     0,
     1,
     0,
     0,
     {.steering = STEER_ADAPTIVE, .target = 0.2f, .rate = 0.5f, .state = 0.2f}},
    {"temperature last", 2, 0.8f, 0, 0, 1, 0, 0, {.order = 0x47}},
    {"temperature first", 2, 0.8f, 0, 0, 1, 0, 0, {.order = 0x74}},
    {"llama.cpp's order",
     1.7f,
     0.95f,
     0.05f,
     2,
     1.2f,
     0.1f,
     9,
     {.order = 0x498765321,
      .typical_p = 0.9f,
      .xtc_probability = 0.5f,
      .xtc_threshold = 0.1f,
      .dry_multiplier = 0.4f,
      .dry_base = 1.75f,
      .dry_allowed = 1}},
    {"penalties last", 1.5f, 0.9f, 0, 0, 2, 0.5f, 0, {.order = 0x1274}},
    {"xtc before typical_p",
     1.2f,
     1,
     0,
     0,
     1,
     0,
     0,
     {.order = 0x694, .typical_p = 0.7f, .xtc_probability = 1, .xtc_threshold = 0.1f}},
    {"all in the usual order, mirostat 2",
     1.5f,
     0.97f,
     0.01f,
     3,
     1.1f,
     0,
     10,
     {.typical_p = 0.95f,
      .xtc_probability = 0.3f,
      .xtc_threshold = 0.15f,
      .temperature_range = 0.5f,
      .temperature_exponent = 1,
      .dry_multiplier = 0.3f,
      .dry_base = 1.75f,
      .dry_allowed = 1,
      .steering = STEER_MIROSTAT_2,
      .target = 1.5f,
      .state = 3.2f}},
};

static struct setting setting_of(size_t i) {
    static const uint32_t HISTORY[TEXT] = {9, 10, 11, 8, 10, 11, 7, 10, 11};
    struct setting set = plain(CASES[i].temperature);
    memcpy(set.history, HISTORY, sizeof HISTORY);
    set.breakers[0] = 1u << 7 | 1u << 9;
    set.state.token_count = TEXT;
    set.state.prompt_count = 4;
    set.state.seed = 1000;
    set.state.top_k = CASES[i].top_k;
    set.state.top_p = CASES[i].top_p;
    set.state.min_p = CASES[i].min_p;
    set.state.top_n_sigma = CASES[i].sigma;
    set.state.repetition_penalty = CASES[i].repetition;
    set.state.frequency_penalty = CASES[i].frequency;
    set.state.rules = CASES[i].rules;
    return set;
}

/* The bound is the 99.9th percentile of 11 degrees of freedom; seeds are fixed. The plain softmax
 * must be told from what the rules leave. */
TEST(draws_follow_the_distribution_that_the_rules_leave) {
    float logits[V];
    for (int v = 0; v < V; v++)
        logits[v] = 0.35f * (float)v - 0.02f * (float)(v * v % 7);
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct setting set = setting_of(i);
        struct list with = distribution(&set, logits, true),
                    without = distribution(&set, logits, false);
        double p[V] = {0}, plain_p[V] = {0}, share = (double)set.state.rules.xtc_probability;
        for (int k = 0; k < with.count; k++)
            p[with.ids[k]] += share * with.p[k];
        for (int k = 0; k < without.count; k++)
            p[without.ids[k]] += (1 - share) * without.p[k];
        for (int v = 0; v < V; v++)
            plain_p[v] = exp((double)(logits[v] / CASES[i].temperature));
        double sum = 0;
        for (int v = 0; v < V; v++)
            sum += plain_p[v];
        for (int v = 0; v < V; v++)
            plain_p[v] /= sum;
        FOR_EACH_ISA(isa) {
            uint32_t tokens[DRAWS];
            sample_all(isa, logits, V, &set, DRAWS, tokens);
            double chi = chi_square(p, tokens), blind = chi_square(plain_p, tokens);
            if (chi > 31.3)
                check_fail(__FILE__, __LINE__, "%s: %s: chi-square %g", isa, CASES[i].name, chi);
            if (blind < 60)
                check_fail(__FILE__, __LINE__, "%s: %s: the rules change too little (%g)", isa,
                           CASES[i].name, blind);
        }
    }
}

/* The state behind the token, from that token's own surprise. */
TEST(a_steering_rule_moves_its_state_by_what_it_drew) {
    float logits[V];
    for (int v = 0; v < V; v++)
        logits[v] = 0.35f * (float)v;
    FOR_EACH_ISA(isa)
    for (uint32_t kind = STEER_MIROSTAT; kind < STEER_COUNT; kind++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct setting set = plain(1);
            bool adapts = kind == STEER_ADAPTIVE;
            set.state.seed = seed;
            set.state.rules = (struct sample_rules){.steering = kind,
                                                    .target = adapts ? 0.3f : 1.5f,
                                                    .rate = adapts ? 0.9f : 0.2f,
                                                    .state = 3};
            struct draw d = sample_one(isa, logits, V, &set, 1);
            struct setting before = set;
            if (adapts)
                before.state.rules.steering = STEER_NONE; /* p as it was */
            struct list l = distribution(&before, logits, false);
            double p = 0;
            for (int i = 0; i < l.count; i++)
                if (l.ids[i] == (int)d.token)
                    p = l.p[i];
            double want = adapts ? p + (double)0.9f * 3 : 3 - (double)0.2f * (-log2(p) - 1.5);
            if (fabs((double)d.state - want) > 1e-4)
                check_fail(__FILE__, __LINE__, "%s: kind %u: state %g, expected %g", isa, kind,
                           (double)d.state, want);
        }
}

/* Greedy stays greedy where the temperature comes before the rest, and rules stand what is odd. */
TEST(rules_stand_extremes) {
    float equal[V], far[V], alone[V];
    for (int v = 0; v < V; v++) {
        equal[v] = 3;
        far[v] = v % 2 ? 1e30f : -1e30f;
        alone[v] = v == 7 ? 0 : -INFINITY;
    }
    FOR_EACH_ISA(isa)
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct setting set = setting_of(i);
        uint32_t token = sample_one(isa, equal, V, &set, 1).token,
                 want = sample_one("ref", equal, V, &set, 1).token;
        if (token != want)
            check_fail(__FILE__, __LINE__, "%s: %s: equal logits: token %u, expected %u", isa,
                       CASES[i].name, token, want);
        EXPECT_EQ(sample_one(isa, far, V, &set, 1).status, SAMPLE_TOKEN);
        EXPECT_EQ(sample_one(isa, alone, V, &set, 1).token, 7);
        set.state.rules.order = 0;
        set.state.temperature = 0;
        set.state.rules.temperature_range = 0;
        EXPECT_EQ(sample_one(isa, alone, V, &set, 1).token, 7);
    }
}
