/* What the core takes of a Submit, before it knows the model: each value at its edge, and the next one. */
#include "check.h"
#include "scheduler/core/request.h"

#include <float.h>
#include <math.h>

#define OF(field) offsetof(struct wire_sampling, field)
static const struct edge {
    size_t at;
    float least, most;
    bool open_least, open_most; /* the edge itself is out of bounds */
} EDGES[] = {
    {OF(temperature), 0, FLT_MAX, false, false},
    {OF(top_p), 0, 1, true, false},
    {OF(min_p), 0, 1, false, true},
    {OF(top_n_sigma), 0, FLT_MAX, false, false},
    {OF(repetition_penalty), 1e-3f, 1e3f, false, false},
    {OF(presence_penalty), -FLT_MAX, FLT_MAX, false, false},
    {OF(frequency_penalty), -FLT_MAX, FLT_MAX, false, false},
    {OF(typical_p), 0, 1, false, false},
    {OF(xtc_probability), 0, 1, false, false},
    {OF(xtc_threshold), 0, 1, false, false},
    {OF(temperature_range), 0, FLT_MAX, false, false},
    {OF(temperature_exponent), 0, FLT_MAX, false, false},
    {OF(dry_multiplier), 0, FLT_MAX, false, false},
    {OF(dry_base), 0, FLT_MAX, false, false},
    {OF(target), -1e3f, 1e3f, false, false},
    {OF(rate), 0, 1e3f, false, false},
};
#undef OF

static struct wire_submit plain_submit(void) {
    static const uint32_t prompt[1] = {1};
    return (struct wire_submit){.request = {1, 1},
                                .kind = WIRE_GENERATE,
                                .prompt = {prompt, 1},
                                .max_tokens = 1,
                                .sampling = {.top_p = 1, .repetition_penalty = 1, .logprobs = -1}};
}

static bool takes_number(size_t at, float value) {
    struct wire_submit submit = plain_submit();
    memcpy((char *)&submit.sampling + at, &value, sizeof value);
    return submit_check(&submit) == 0;
}

TEST(submit_bounds_of_numbers_are_exact) {
    for (size_t i = 0; i < ARRAY_LEN(EDGES); i++) {
        const struct edge *e = &EDGES[i];
        const float tries[] = {nextafterf(e->least, -INFINITY),
                               e->least,
                               nextafterf(e->least, INFINITY),
                               nextafterf(e->most, -INFINITY),
                               e->most,
                               nextafterf(e->most, INFINITY),
                               NAN};
        const bool good[] = {false, !e->open_least, true, true, !e->open_most, false, false};
        for (size_t k = 0; k < ARRAY_LEN(tries); k++)
            if (takes_number(e->at, tries[k]) != good[k])
                check_fail(__FILE__, __LINE__, "of number %zu, %g", i, (double)tries[k]);
    }
    struct wire_submit submit = plain_submit();
    submit.sampling.steering = WIRE_STEERING_ADAPTIVE;
    submit.sampling.rate = 0.99f;
    EXPECT_EQ(submit_check(&submit), 0);
    submit.sampling.rate = nextafterf(0.99f, 1);
    EXPECT_EQ(submit_check(&submit), WIRE_REJECT_INVALID);
}

/* Sets one count to n. */
static void set_count(struct wire_submit *submit, int which, size_t n) {
    struct wire_sampling *p = &submit->sampling;
    switch (which) {
    case 0: submit->max_tokens = (uint32_t)n; break;
    case 1: submit->stop_tokens.count = n; break;
    case 2: submit->model.len = n; break;
    case 3: submit->cache_salt.len = n; break;
    case 4: submit->presentation.len = n; break;
    case 5: submit->stream.len = n; break;
    case 6: submit->grammar.len = n; break;
    case 7: p->dry_breakers.len = n; break;
    case 8: p->allowed.len = n; break;
    case 9: p->bad_words.count = n; break;
    case 10: p->bias_ids.count = p->bias_values.count = n; break;
    case 11: p->logprobs = (int32_t)n; break;
    default: CHECK(false);
    }
}

TEST(submit_bounds_of_counts_are_exact) {
    static const size_t MOST[] = {WIRE_MAX_TOKENS,    WIRE_MAX_STOP_TOKENS,  WIRE_MAX_TEXT,
                                  WIRE_MAX_TEXT,      WIRE_MAX_PRESENTATION, WIRE_MAX_STREAM,
                                  WIRE_MAX_GRAMMAR,   WIRE_MAX_TOKEN_BITS,   WIRE_MAX_TOKEN_BITS,
                                  WIRE_MAX_BAD_WORDS, WIRE_MAX_LOGIT_BIAS,   WIRE_MAX_TOP_LOGPROBS};
    for (int i = 0; i < (int)ARRAY_LEN(MOST); i++)
        for (size_t more = 0; more < 2; more++) {
            struct wire_submit submit = plain_submit();
            set_count(&submit, i, MOST[i] + more);
            if (submit_check(&submit) != (more ? WIRE_REJECT_INVALID : 0))
                check_fail(__FILE__, __LINE__, "count %d, of %zu", i, MOST[i] + more);
        }
    struct wire_submit submit = plain_submit();
    submit.max_tokens = 0;
    EXPECT_EQ(submit_check(&submit), WIRE_REJECT_INVALID);
    submit = plain_submit();
    submit.sampling.logprobs = -2;
    EXPECT_EQ(submit_check(&submit), WIRE_REJECT_INVALID);
    submit = plain_submit();
    submit.sampling.bias_ids.count = 1;
    EXPECT_EQ(submit_check(&submit), WIRE_REJECT_INVALID);
    submit = plain_submit();
    submit.prompt.count = WIRE_MAX_TOKENS;
    EXPECT_EQ(submit_check(&submit), 0);
    submit.prompt.count++;
    EXPECT_EQ(submit_check(&submit), WIRE_REJECT_TOO_LONG);
}

TEST(submit_choices_are_each_once_and_hold_no_more_than_they_may) {
    static const uint32_t held[3] = {1, 2, 3};
    static const struct {
        struct wire_choice a, b;
        bool valid;
    } CASES[] = {
        {{.choice = 0}, {.choice = 1}, true},
        {{.choice = 0}, {.choice = WIRE_MAX_CHOICES - 1}, true},
        {{.choice = 0}, {.choice = WIRE_MAX_CHOICES}, false},
        {{.choice = 1}, {.choice = 1}, false},
        {{.choice = 0, .finished = true}, {.choice = 1}, true},
        {{.choice = 0, .finished = true}, {.choice = 1, .finished = true}, false},
        {{.choice = 0, .emitted = {held, 2}}, {.choice = 1}, true},
        {{.choice = 0, .emitted = {held, 3}}, {.choice = 1}, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        const struct wire_choice choices[2] = {CASES[i].a, CASES[i].b};
        struct wire_submit submit = plain_submit();
        submit.max_tokens = 2;
        submit.choices = choices;
        submit.choice_count = 2;
        if (submit_check(&submit) != (CASES[i].valid ? 0 : WIRE_REJECT_INVALID))
            check_fail(__FILE__, __LINE__, "case %zu", i);
    }
    struct wire_choice many[WIRE_MAX_CHOICES + 1];
    struct wire_submit submit = plain_submit();
    for (uint32_t i = 0; i <= WIRE_MAX_CHOICES; i++)
        many[i] = (struct wire_choice){.choice = i};
    submit.choices = many;
    submit.choice_count = WIRE_MAX_CHOICES;
    EXPECT_EQ(submit_check(&submit), 0);
    submit.choice_count++;
    EXPECT_EQ(submit_check(&submit), WIRE_REJECT_INVALID);
}
