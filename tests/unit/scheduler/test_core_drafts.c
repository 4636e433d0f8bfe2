/* Drafts: fewer steps make the same tokens; there are none where they do not pay or may not be; and no plan
 * is sent ahead of what they turn out to be. */
#include "stage.h"

enum { PROMPT = 20, OUTPUT = 60 };

/* A stage that may guess so many tokens a row, whose worker takes so many a plan; a step takes
 * fixed_ms and ms for each token. What that is, it has seen. */
static struct stage *stage_with(uint32_t drafts, uint32_t taken, uint32_t fixed_ms, uint32_t ms) {
    struct sched_config config;
    sched_config_default(&config);
    config.drafts = drafts;
    struct stage *stage = stage_new(&config);
    struct stage_worker *w = stage_worker(stage, 0);
    w->fixed_ms = fixed_ms;
    w->ms_per_token = ms;
    w->hello.drafts = taken;
    w->hello.features |= WIRE_FEATURE_TOKEN_LISTS;
    CHECK(stage_hello(stage, w) == 0);
    for (uint32_t i = 100; i < 104; i++) {
        stage_simple(stage, i, PROMPT * (i - 98), 2);
        stage_finish(stage);
    }
    return stage;
}

static uint64_t plans(const struct stage *stage) {
    return sched_counts(stage->s).steps;
}

/* Steps that a text of this period takes. */
static uint64_t steps_of(uint32_t period, uint32_t drafts, uint32_t taken, uint32_t fixed_ms,
                         uint32_t ms) {
    struct stage *stage = stage_with(drafts, taken, fixed_ms, ms);
    stage_period = period;
    uint64_t before = plans(stage);
    stage_simple(stage, 0, PROMPT, OUTPUT);
    stage_finish(stage);
    uint64_t steps = stage_is_right(stage, 0, 0, OUTPUT) ? plans(stage) - before : 0;
    stage_period = 0;
    stage_free(stage);
    return steps;
}

TEST(drafts_make_the_same_tokens_in_fewer_steps) {
    EXPECT_EQ(steps_of(7, 0, 16, 50, 1), OUTPUT);
    EXPECT_EQ(steps_of(7, 4, 0, 50, 1), OUTPUT); /* a worker that takes none */
    uint64_t four = steps_of(7, 4, 16, 50, 1), one = steps_of(7, 1, 16, 50, 1);
    EXPECT(four && four < OUTPUT / 2);
    EXPECT(one > four && one < OUTPUT * 2 / 3);
    EXPECT_EQ(steps_of(7, 4, 1, 50, 1), one); /* one a plan is all that the worker takes */
    EXPECT_EQ(steps_of(1, 4, 16, 50, 1), steps_of(2, 4, 16, 50, 1));
    EXPECT_EQ(steps_of(0, 4, 16, 50, 1), OUTPUT); /* nothing to guess from */
}

TEST(drafts_are_made_where_they_pay) {
    EXPECT(steps_of(7, 4, 16, 50, 1) < OUTPUT / 2);
    EXPECT_EQ(steps_of(7, 4, 16, 0, 5), OUTPUT); /* a token more costs what a step does */
}

/* Of two words any two stand somewhere, and what follows is right half of the time. */
TEST(drafts_that_are_wrong_become_few) {
    struct stage *stage = stage_with(8, 16, 12, 4);
    stage_words = 2;
    stage_simple(stage, 0, PROMPT, 400);
    stage_finish(stage);
    struct sched_counts counts = sched_counts(stage->s);
    EXPECT(stage_is_right(stage, 0, 0, 400));
    EXPECT(counts.drafted_tokens > 0 && counts.accepted_drafts > 0);
    /* the least rate is 4 of 16 + 4: of two guesses in a row a quarter, so seldom more than that */
    EXPECT(counts.drafted_tokens < 400 * 3);
    EXPECT(counts.accepted_drafts * 5 > counts.drafted_tokens);
    stage_words = STAGE_WIDTH - 1;
    stage_free(stage);
}

/* Each one's drafts are its own, and a plan's are bounded. */
TEST(drafts_of_several_share_a_plan) {
    struct stage *stage = stage_with(6, 8, 50, 1);
    stage_period = 5;
    for (uint32_t i = 0; i < 6; i++)
        stage_simple(stage, i, PROMPT + i, OUTPUT);
    stage_ends_right(stage, 6, OUTPUT);
    stage_period = 0;
}

TEST(drafts_and_choices) {
    struct stage *stage = stage_with(6, 16, 50, 1);
    stage_period = 5;
    struct wire_choice choices[] = {{.choice = 0}, {.choice = 1}, {.choice = 2}};
    struct wire_submit submit = stage_submit(stage, 0, PROMPT, OUTPUT, 3);
    submit.choices = choices;
    submit.choice_count = 3;
    submit.sampling.logprobs = 0;
    stage_send(stage, &submit);
    stage_finish(stage);
    for (uint32_t c = 0; c < 3; c++)
        EXPECT(stage_is_right(stage, 0, c, OUTPUT));
    stage_period = 0;
    stage_free(stage);
}

/* What is right of them is not known before their result: until then nothing is sent ahead, for anybody;
 * when no guess is at hand again, plans are. */
TEST(no_plan_is_sent_ahead_of_drafts) {
    struct stage *stage = stage_with(4, 16, 1, 0);
    struct stage_worker *w = &stage->workers[0];
    bool alone = false, ahead = false;
    stage_period = 7;
    stage_simple(stage, 0, PROMPT, OUTPUT);
    stage_simple(stage, 1, PROMPT, OUTPUT);
    for (int step = 0; step < 100; step++, stage->now++) {
        stage_run(stage);
        uint32_t drafts = 0;
        for (size_t i = 0; w->results.count && i < w->results.items[0].row_count; i++)
            drafts += w->results.items[0].drafts[i];
        EXPECT(!drafts || w->results.count == 1);
        alone |= drafts > 0;
        ahead |= w->results.count == 2;
        if (!stage_answer(stage, w))
            break;
    }
    EXPECT(alone && ahead);
    stage_period = 0;
    stage_ends_right(stage, 0, 0);
}

/* A worker that dies with drafts in flight, or a sequence that is put back. */
TEST(drafts_that_are_lost_cost_no_token) {
    struct stage *stage = stage_with(4, 16, 50, 1);
    struct stage_worker *w = &stage->workers[0];
    stage_period = 7;
    stage_simple(stage, 0, PROMPT, OUTPUT);
    for (int deaths = 0; deaths < 3;) {
        stage_run(stage);
        if (w->results.count && w->results.items[0].drafts[0]) {
            sched_blocks_lost(stage->s, stage->now, w->instance, w->hello.incarnation);
            w->results.count = 0;
            w->next_plan = 0;
            w->hello.incarnation++;
            EXPECT_EQ(stage_hello(stage, w), 0);
            deaths++;
        } else {
            EXPECT(stage_answer(stage, w));
        }
        stage->now++;
    }
    stage_ends_right(stage, 1, OUTPUT);
    stage_period = 0;
}

/* Lists of tokens and grammars are held to on the host, one token at a time. */
TEST(constrained_ones_have_no_drafts) {
    static const uint8_t ALL[STAGE_WIDTH / 8 + 1] = {0xff};
    static const uint32_t WORDS[] = {1, 5};
    for (int what = 0; what < 3; what++) {
        struct stage *stage = stage_with(4, 16, 50, 1);
        stage_period = 7;
        struct wire_submit submit = stage_submit(stage, 0, PROMPT, OUTPUT, 3);
        if (what == 0)
            submit.sampling.allowed = bytes_of(ALL, sizeof ALL);
        if (what == 1)
            submit.sampling.bad_words = (struct u32s){WORDS, 2};
        if (what == 2)
            submit.sampling.steering = WIRE_STEERING_MIROSTAT_2;
        stage->workers[0].steers = what == 2;
        uint64_t before = sched_counts(stage->s).drafted_tokens;
        stage_send(stage, &submit);
        stage_finish(stage);
        EXPECT(stage_is_right(stage, 0, 0, OUTPUT));
        EXPECT_EQ(sched_counts(stage->s).drafted_tokens > before, what == 2);
        if (what == 2) {
            EXPECT_EQ(stage->requests[0].choices[0].state_count, OUTPUT);
            EXPECT_EQ(stage->requests[0].choices[0].state_errors, 0);
        }
        stage_period = 0;
        stage_free(stage);
    }
}

/* A result with more tokens than guesses allow, or one of them out of the vocabulary. */
TEST(results_with_drafts_are_checked_whole) {
    for (int what = 0; what < 3; what++) {
        struct stage *stage = stage_with(4, 16, 50, 1);
        struct stage_worker *w = &stage->workers[0];
        stage_period = 7;
        stage_simple(stage, 0, PROMPT, OUTPUT);
        stage_run(stage);
        while (!w->results.items[0].drafts[0]) {
            EXPECT(stage_answer(stage, w));
            stage->now++;
            stage_run(stage);
        }
        struct stage_result r = w->results.items[0];
        uint32_t most = 1 + r.drafts[0], count = what == 1 ? most + 1 : most,
                 tokens[STAGE_DRAFTS + 2] = {0};
        memcpy(tokens, r.tokens, r.token_count * sizeof *tokens);
        EXPECT_EQ(r.token_count, most);
        if (what == 2)
            tokens[most - 1] = STAGE_WIDTH;
        struct wire_step_result result = {.plan_number = r.number,
                                          .incarnation = w->hello.incarnation,
                                          .slots = {r.slots, 1},
                                          .token_counts = {&count, 1},
                                          .finishes = {r.finishes, 1},
                                          .tokens = {tokens, count},
                                          .compute_us = 1000};
        EXPECT_EQ(sched_step_result(stage->s, stage->now, w->instance, &result),
                  what ? ERR_INVALID : 0);
        stage_period = 0;
        stage_free(stage);
    }
}
