/* The sampler: Philox against published vectors, the noise's distribution, each step against the
 * scalar definition, statistics. */
#include <stdio.h>

#include "kernels/philox.h"
#include "sample_rig.h"

/* ---- randomness ---- */

/* Known answers of Random123 (kat_vectors, philox4x32 10). */
TEST(philox_gives_the_published_vectors) {
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        uint32_t out[4];
        philox4x32_10(vectors[i].counter, vectors[i].key, out);
        EXPECT(!memcmp(out, vectors[i].out, sizeof out));
    }
}

TEST(noise_is_a_function_of_its_coordinates_alone) {
    const uint32_t counter[4] = {77 / 4, 9, 3, NOISE_SAMPLE}, key[2] = {0x89abcdef, 0x01234567};
    uint32_t out[4];
    philox4x32_10(counter, key, out);
    EXPECT_EQ(noise_bits(0x0123456789abcdefull, 3, 9, 77, NOISE_SAMPLE), out[77 % 4]);
}

TEST(gumbel_noise_is_accurate_at_both_ends) {
    static const uint32_t bits[] = {0,          1,          2,          1000,      0x7fffffff,
                                    0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
    for (size_t i = 0; i < 100000; i++) {
        uint32_t b = i < ARRAY_LEN(bits) ? bits[i] : (uint32_t)check_random();
        double w = (b + 0.5) * 0x1p-32, want = -log(-log1p(-w));
        float got = gumbel_of_bits(b);
        /* two logarithms of 3 u each (scalar_math.h): the inner one's relative error is the outer
         * one's absolute error */
        EXPECT(fabs(got - want) <= 6 * 0x1p-24 * fmax(fabs(want), 1));
        EXPECT(got > -3.3f && got < 23.1f);
    }
}

/* Kolmogorov-Smirnov against exp(-exp(-x)): for 20000 draws the statistic exceeds 1.95 / sqrt(n)
 * once in a thousand seeds; the seed is fixed. */
TEST(gumbel_noise_has_its_distribution) {
    enum { N = 20000 };
    static float x[N];
    for (int i = 0; i < N; i++)
        x[i] =
            gumbel_of_bits(noise_bits(42, 0, (uint32_t)i / 100, (uint32_t)i % 100, NOISE_SAMPLE));
    double worst = 0;
    for (int bin = -30; bin < 100; bin++) {
        double at = bin * 0.1, below = 0;
        for (int i = 0; i < N; i++)
            below += x[i] <= at;
        worst = fmax(worst, fabs(below / N - exp(-exp(-at))));
    }
    EXPECT(worst < 1.95 / sqrt(N));
}

TEST(greedy_takes_the_largest_and_the_lowest_id_among_equals) {
    float logits[50] = {0};
    logits[17] = logits[31] = 2;
    struct setting set = plain(0);
    FOR_EACH_ISA(isa) {
        struct draw d = sample_one(isa, logits, 50, &set, 3);
        EXPECT(d.status == SAMPLE_TOKEN && d.token == 17 && d.token_count == 5 && d.active &&
               d.top_count == SAMPLE_NO_LOGPROBS);
    }
}

TEST(a_stop_token_and_the_last_token_end_the_slot) {
    float logits[10] = {0, 0, 0, 9};
    struct setting stop = plain(0), last = plain(0), early = plain(0);
    stop.state.stop_count = early.state.stop_count = 2;
    stop.state.stops[1] = early.state.stops[1] = 3;
    stop.state.max_total = 5;
    last.state.max_total = 5;
    early.state.min_total = 5;
    FOR_EACH_ISA(isa) {
        struct draw d = sample_one(isa, logits, 10, &stop, 1),
                    e = sample_one(isa, logits, 10, &last, 1),
                    f = sample_one(isa, logits, 10, &early, 1);
        EXPECT(d.status == SAMPLE_STOP && d.token == 3 && !d.active);
        EXPECT(e.status == SAMPLE_LENGTH && e.token == 3 && !e.active);
        /* 0 is the other stop token: masked too */
        EXPECT(f.status == SAMPLE_TOKEN && f.token == 1 && f.active);
    }
}

/* min_total counts the prompt, too: with so many tokens there the next may be a stop. */
TEST(a_stop_token_is_allowed_as_soon_as_there_are_min_total_tokens) {
    float logits[10] = {0, 0, 0, 9};
    FOR_EACH_ISA(isa)
    for (uint32_t min_total = 3; min_total <= 6; min_total++) {
        struct setting set = plain(0); /* four tokens */
        set.state.stop_count = 1;
        set.state.stops[0] = 3;
        set.state.min_total = min_total;
        struct draw d = sample_one(isa, logits, 10, &set, 1);
        EXPECT_EQ(d.token, min_total <= 4 ? 3 : 0);
        EXPECT_EQ(d.status, min_total <= 4 ? SAMPLE_STOP : SAMPLE_TOKEN);
    }
}

/* Among equals the lowest ids are listed, lowest first, also where the list ends amidst them. */
TEST(equal_logits_at_the_end_of_the_list_are_those_of_the_lowest_ids) {
    static const uint32_t BEST[] = {9, 20, 33, 4, 7, 11, 40}; /* 3, 2, 2, then those with 1 */
    float logits[50] = {0};
    logits[9] = 3;
    logits[20] = logits[33] = 2;
    logits[4] = logits[7] = logits[11] = logits[40] = 1;
    FOR_EACH_ISA(isa)
    for (int32_t want = 0; want <= (int32_t)ARRAY_LEN(BEST); want++) {
        struct setting set = plain(0);
        set.state.logprobs = want;
        struct draw d = sample_one(isa, logits, 50, &set, 2),
                    ref = sample_one("ref", logits, 50, &set, 1);
        EXPECT_EQ(d.top_count, want);
        EXPECT_EQ(ref.top_count, want);
        for (int32_t i = 0; i < want; i++) {
            EXPECT_EQ(d.top_ids[i], BEST[i]);
            EXPECT_EQ(ref.top_ids[i], BEST[i]);
        }
    }
}

TEST(logits_that_are_not_finite_end_their_row_alone) {
    float nan_row[40], inf_row[40], empty[40], low[40];
    for (int i = 0; i < 40; i++)
        nan_row[i] = inf_row[i] = 1, empty[i] = -INFINITY, low[i] = i ? -INFINITY : 0;
    nan_row[33] = NAN;
    inf_row[2] = INFINITY;
    struct setting set = plain(0.5f);
    FOR_EACH_ISA(isa) {
        struct draw a = sample_one(isa, nan_row, 40, &set, 2),
                    b = sample_one(isa, inf_row, 40, &set, 2),
                    c = sample_one(isa, empty, 40, &set, 2), d = sample_one(isa, low, 40, &set, 2);
        EXPECT(a.status == SAMPLE_NONFINITE && !a.active && a.token_count == 4);
        EXPECT(b.status == SAMPLE_NONFINITE && c.status == SAMPLE_NONFINITE);
        EXPECT(d.status == SAMPLE_TOKEN && d.token == 0);
    }
}

TEST(an_ended_slot_wastes_its_row) {
    float logits[10] = {0};
    struct setting set = plain(0);
    set.state.active = 0;
    FOR_EACH_ISA(isa) EXPECT_EQ(sample_one(isa, logits, 10, &set, 2).status, SAMPLE_WASTED);
}

TEST(masks_allow_only_their_ids) {
    enum { V = 100 };
    float logits[V];
    for (int i = 0; i < V; i++)
        logits[i] = (float)i;
    uint32_t mask[4] = {0, 1u << 8 | 1, 0, 0}, none[4] = {0};
    struct setting set = plain(0), empty = plain(1);
    set.mask = mask;
    empty.mask = none;
    FOR_EACH_ISA(isa) {
        EXPECT_EQ(sample_one(isa, logits, V, &set, 1).token, 40);
        EXPECT_EQ(sample_one(isa, logits, V, &empty, 1).status, SAMPLE_NONFINITE);
    }
}

/* Random logits and settings: the same draw as the definition, and logprobs within the rounding of
 * a logarithm of a sum. */
TEST(every_setting_draws_what_the_definition_draws) {
    static const uint32_t vocabs[] = {1, 2, 5, 16, 17, 63, 257, 1031};
    FOR_EACH_ISA(isa)
    for (int round = 0; round < 400; round++) {
        uint32_t vocab = vocabs[check_random() % ARRAY_LEN(vocabs)];
        float *logits = random_array(vocab);
        for (uint32_t i = 0; i < vocab; i++)
            logits[i] = check_random() % 50 ? logits[i] * 4 : -INFINITY;
        logits[check_random() % vocab] = 1;
        struct setting set = plain(round % 4 ? 0.3f + (float)(round % 7) * 0.3f : 0);
        struct slot_state *s = &set.state;
        for (int i = 0; i < 12; i++)
            set.history[i] = (uint32_t)(check_random() % vocab);
        s->token_count = 12;
        s->prompt_count = 5;
        s->seed = check_random();
        s->choice = (uint32_t)(round % 3);
        s->top_k = round % 3 ? 0 : 1 + (uint32_t)(check_random() % 20);
        s->top_p = round % 5 ? 1 : 0.05f + 0.9f * (float)(check_random() % 100) / 100;
        s->min_p = round % 7 ? 0 : 0.1f;
        s->top_n_sigma = round % 3 == 1 ? 0.1f * (float)(check_random() % 30) : 0;
        s->repetition_penalty = round % 2 ? 1 : 1.3f;
        s->presence_penalty = round % 6 ? 0 : 0.5f;
        s->frequency_penalty = round % 6 ? 0 : -0.25f;
        s->logprobs = round % 5 - 1;
        s->bias_count = 2;
        set.bias_ids[0] = (uint32_t)(check_random() % vocab);
        set.bias_ids[1] = vocab + 3; /* past the vocabulary: ignored */
        set.bias_values[0] = 3;
        struct draw got = sample_one(isa, logits, vocab, &set, 1 + (uint32_t)round % 4),
                    want = sample_one("ref", logits, vocab, &set, 1);
        EXPECT_EQ(got.status, want.status);
        EXPECT_EQ(got.token, want.token);
        EXPECT_EQ(got.top_count, want.top_count);
        for (uint32_t i = 0; want.top_count != SAMPLE_NO_LOGPROBS && i < want.top_count; i++) {
            EXPECT_EQ(got.top_ids[i], want.top_ids[i]);
            EXPECT(got.top_logprobs[i] == want.top_logprobs[i] ||
                   fabsf(got.top_logprobs[i] - want.top_logprobs[i]) <=
                       1e-5f * (1 + fabsf(want.top_logprobs[i])));
        }
        if (s->logprobs >= 0)
            EXPECT(got.logprob == want.logprob ||
                   fabsf(got.logprob - want.logprob) <= 1e-5f * (1 + fabsf(want.logprob)));
        unguard(logits);
    }
}

/* A vocabulary of several slices (sample.inc.h), the last not whole, whose rows are shared by
 * threads when they are few and dealt out when they are many. */
enum { WIDE = 20011 };
static const struct {
    const char *name;
    float temperature, top_p, min_p, repetition_penalty;
    uint32_t top_k;
    bool masked;
    float top_n_sigma;
} WIDE_SETTINGS[] = {
    {"greedy", 0, 1, 0, 1, 0, false, 0},           {"all", 1, 1, 0, 1, 0, false, 0},
    {"cold", 0.3f, 1, 0, 1.2f, 0, false, 0},       {"hot", 5, 1, 0, 1, 0, false, 0},
    {"top_k", 1, 1, 0, 1, 40, false, 0},           {"more than blocks", 1, 1, 0, 1, 2000, false, 0},
    {"top_p", 1.5f, 0.9f, 0, 1, 0, false, 0},      {"low top_p", 0.7f, 0.2f, 0, 1, 0, false, 0},
    {"high top_p", 3, 0.999f, 0, 1, 0, false, 0},  {"both", 1, 0.8f, 0, 1, 300, false, 0},
    {"min_p", 2, 1, 0.1f, 1, 0, false, 0},         {"masked", 1, 0.95f, 0, 1, 0, true, 0},
    {"top_n_sigma", 2, 1, 0, 1, 0, false, 1},      {"sigma, top_p", 2, 0.9f, 0, 1, 0, true, 1.5f},
    {"sigma, top_k", 1, 0.9f, 0, 1, 50, false, 2},
};

TEST(a_wide_vocabulary_draws_what_the_definition_draws_shared_or_not) {
    static float logits[WIDE];
    static uint32_t mask[(WIDE + 31) / 32];
    for (int i = 0; i < WIDE / 32; i++)
        mask[i] = i % 3 ? (uint32_t)check_random() : i % 2 ? 0 : UINT32_MAX;
    for (size_t i = 0; i < ARRAY_LEN(WIDE_SETTINGS); i++) {
        for (int v = 0; v < WIDE; v++)
            logits[v] = fminf(random_value(), 2) * (i % 2 ? 0.1f : 3);
        logits[9000] = logits[19999] = 8; /* equal, in two slices */
        struct setting set = plain(WIDE_SETTINGS[i].temperature);
        set.state.seed = check_random();
        set.state.top_k = WIDE_SETTINGS[i].top_k;
        set.state.top_p = WIDE_SETTINGS[i].top_p;
        set.state.min_p = WIDE_SETTINGS[i].min_p;
        set.state.top_n_sigma = WIDE_SETTINGS[i].top_n_sigma;
        set.state.repetition_penalty = WIDE_SETTINGS[i].repetition_penalty;
        set.state.logprobs = 3;
        set.mask = WIDE_SETTINGS[i].masked ? mask : NULL;
        set.history[0] = 19999;
        struct draw want = sample_one("ref", logits, WIDE, &set, 1);
        EXPECT_EQ(want.status, SAMPLE_TOKEN);
        FOR_EACH_ISA(isa)
        for (uint32_t count = 1; count <= 5; count += 4) {
            struct draw got = sample_one(isa, logits, WIDE, &set, count);
            if (got.token != want.token || got.status != want.status)
                check_fail(__FILE__, __LINE__, "%s: %s: %u rows: token %u, expected %u", isa,
                           WIDE_SETTINGS[i].name, count, got.token, want.token);
            EXPECT(!memcmp(got.top_ids, want.top_ids, 3 * sizeof *got.top_ids));
            EXPECT(fabsf(got.logprob - want.logprob) <= 1e-5f * (1 + fabsf(want.logprob)));
        }
    }
}

TEST(what_is_not_finite_is_found_in_every_slice_and_under_masks) {
    static const uint32_t places[] = {0, 63, 8191, 8192, 16383, 20000, WIDE - 1};
    static float logits[WIDE];
    static uint32_t mask[(WIDE + 31) / 32] = {2};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        memset(logits, 0, sizeof logits);
        logits[places[i]] = i % 2 ? NAN : INFINITY;
        struct setting set = plain(1), stop = plain(1);
        set.mask = i % 3 ? mask : NULL;
        stop.state.stop_count = 1;
        stop.state.stops[0] = places[i];
        stop.state.min_total = 10;
        FOR_EACH_ISA(isa) {
            EXPECT_EQ(sample_one(isa, logits, WIDE, &set, 1).status, SAMPLE_NONFINITE);
            EXPECT_EQ(sample_one(isa, logits, WIDE, &stop, 1).status, SAMPLE_NONFINITE);
        }
    }
}

/* ---- statistics ---- */

/* Draws at many positions; chi-square against the softmax of what is kept. Fixed seeds; the bound
 * is the 99.9th percentile of 9 degrees of freedom. */
static double chi_square(const char *isa, const struct setting *base, const float *logits,
                         const double *probability, uint32_t vocab, int draws) {
    double counts[16] = {0}, chi = 0;
    for (int i = 0; i < draws; i++) {
        struct setting set = *base;
        set.state.seed = 1000 + (uint64_t)i;
        struct draw d = sample_one(isa, logits, vocab, &set, 1);
        counts[d.token]++;
    }
    for (uint32_t v = 0; v < vocab; v++) {
        if (probability[v] == 0)
            chi += counts[v] ? 1e9 : 0;
        else
            chi += pow(counts[v] - draws * probability[v], 2) / (draws * probability[v]);
    }
    return chi;
}

TEST(draws_follow_the_softmax_of_what_is_kept) {
    enum { V = 10, DRAWS = 4000 };
    float logits[V];
    double p[V], sum = 0;
    for (int v = 0; v < V; v++)
        logits[v] = 0.4f * (float)v;
    FOR_EACH_ISA(isa) {
        for (int kept = V; kept >= 4; kept -= 6) { /* all, then the best four */
            struct setting set = plain(0.8f);
            set.state.top_k = kept == V ? 0 : (uint32_t)kept;
            sum = 0;
            for (int v = 0; v < V; v++)
                sum += p[v] = v >= V - kept ? exp(logits[v] / 0.8) : 0;
            for (int v = 0; v < V; v++)
                p[v] /= sum;
            double chi = chi_square(isa, &set, logits, p, V, DRAWS);
            if (chi > 27.9)
                check_fail(__FILE__, __LINE__, "%s: chi-square %g with %d kept", isa, chi, kept);
        }
    }
}

/* The standard deviation as the paper and llama.cpp have it: of all logits, without quantising. */
static double sigma_of(const float *logits, uint32_t vocab) {
    double mean = 0, squares = 0;
    for (uint32_t v = 0; v < vocab; v++)
        mean += (double)logits[v] / vocab;
    for (uint32_t v = 0; v < vocab; v++)
        squares += pow(logits[v] - mean, 2) / vocab;
    return sqrt(squares);
}

/* What is kept does not depend on the temperature, and ids at -inf do not count. The bound is the
 * 99.9th percentile of 4 degrees of freedom. */
TEST(draws_follow_the_softmax_of_what_top_n_sigma_keeps) {
    enum { V = 10, DRAWS = 2000 };
    float logits[V + 1];
    double p[V + 1] = {0}, sum = 0;
    for (int v = 0; v < V; v++)
        logits[v] = 0.4f * (float)v;
    logits[V] = -INFINITY;
    double sigma = sigma_of(logits, V);
    EXPECT(fabs(sigma - 0.4 * sqrt(8.25)) < 1e-6);
    FOR_EACH_ISA(isa)
    for (int hot = 0; hot < 2; hot++) {
        double temperature = hot ? 3 : 0.8, n = 1.5, keeps = logits[V - 1] - n * sigma;
        struct setting set = plain((float)temperature);
        set.state.top_n_sigma = (float)n;
        sum = 0;
        for (int v = 0; v < V; v++)
            sum += p[v] = logits[v] >= keeps ? exp(logits[v] / temperature) : 0;
        for (int v = 0; v < V; v++)
            p[v] /= sum;
        EXPECT(p[V - 5] > 0 && p[V - 6] == 0);
        double chi = chi_square(isa, &set, logits, p, V + 1, DRAWS);
        if (chi > 18.5)
            check_fail(__FILE__, __LINE__, "%s: chi-square %g", isa, chi);
    }
}

TEST(top_n_sigma_stands_logits_that_are_far_apart_or_all_equal) {
    enum { V = 40 };
    float equal[V], far[V], alone[V];
    for (int v = 0; v < V; v++) {
        equal[v] = 3;
        far[v] = v % 2 ? 1e30f : -1e30f;
        alone[v] = v == 7 ? 0 : -INFINITY;
    }
    FOR_EACH_ISA(isa)
    for (int i = 0; i < 40; i++) {
        struct setting set = plain(1);
        set.state.seed = (uint64_t)i;
        set.state.top_n_sigma = 0.5f;
        EXPECT_EQ(sample_one(isa, equal, V, &set, 1).token,
                  sample_one("ref", equal, V, &set, 1).token);
        EXPECT(sample_one(isa, far, V, &set, 1).token % 2 == 1);
        EXPECT_EQ(sample_one(isa, alone, V, &set, 1).token, 7);
        set.state.top_n_sigma = 1000;
        EXPECT_EQ(sample_one(isa, far, V, &set, 1).token % 2, 1);
        EXPECT_EQ(sample_one(isa, alone, V, &set, 1).token, 7);
    }
}

TEST(top_p_keeps_the_smallest_set_that_holds_the_mass) {
    enum { V = 5 };
    static const double p[V] = {0.5, 0.25, 0.125, 0.0625, 0.0625};
    float logits[V];
    for (int v = 0; v < V; v++)
        logits[v] = (float)log(p[v]);
    FOR_EACH_ISA(isa)
    for (int i = 0; i < 300; i++) {
        struct setting set = plain(1);
        set.state.seed = (uint64_t)i;
        set.state.top_p = 0.7f;
        EXPECT(sample_one(isa, logits, V, &set, 1).token <= 1);
        set.state.top_p = 1e-9f;
        EXPECT(sample_one(isa, logits, V, &set, 1).token == 0);
        set.state.top_p = 1;
        set.state.min_p = 0.2f;
        EXPECT(sample_one(isa, logits, V, &set, 1).token <= 2);
    }
}

/* The noise does not depend on the instruction set: equal logits give equal draws everywhere. */
TEST(equal_logits_draw_the_same_token_on_every_instruction_set) {
    enum { V = 3000 };
    static float logits[V];
    for (int i = 0; i < 200; i++) {
        for (int v = 0; v < V; v++)
            logits[v] = random_value();
        struct setting set = plain(1);
        set.state.seed = check_random();
        uint32_t first = sample_one("scalar", logits, V, &set, 1).token;
        FOR_EACH_ISA(isa) EXPECT_EQ(sample_one(isa, logits, V, &set, 1).token, first);
    }
}
