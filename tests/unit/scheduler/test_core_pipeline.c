#include "stage.h"

static struct stage *worker_with_stop(uint32_t in_flight) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.steps_in_flight = in_flight;
    CHECK(stage_hello(stage, w) == 0);
    return stage;
}

TEST(pipeline_keeps_the_granted_number_of_plans_in_flight) {
    for (uint32_t in_flight = 1; in_flight <= 3; in_flight++) {
        struct stage *stage = worker_with_stop(in_flight);
        stage_simple(stage, 0, 10, 30);
        stage_run(stage);
        EXPECT_EQ(stage->workers[0].results.count, in_flight);
        stage_run(stage);
        EXPECT_EQ(stage->workers[0].results.count, in_flight);
        EXPECT(stage_answer(stage, &stage->workers[0]));
        stage_run(stage);
        EXPECT_EQ(stage->workers[0].results.count, in_flight);
        stage_finish(stage);
        EXPECT(stage_is_right(stage, 0, 0, 30));
        stage_free(stage);
    }
}

TEST(pipeline_length_wastes_no_row_but_a_stop_does) {
    struct stage *stage = worker_with_stop(2);
    stage_simple(stage, 0, 10, 5);
    stage_finish(stage);
    EXPECT_EQ(sched_counts(stage->s).wasted_rows, 0);
    EXPECT_EQ(sched_counts(stage->s).steps, 5);
    struct stage_worker *w = &stage->workers[0];
    stage_simple(stage, 1, 10, 500);
    stage_run(stage);
    for (int i = 0; i < 3; i++) {
        EXPECT(stage_answer(stage, w));
        stage_run(stage);
    }
    EXPECT_EQ(w->results.count, 2);
    w->results.items[0].finishes[0] =
        WIRE_FINISH_STOP; /* the worker stops here; the plan behind it finds the slot ended */
    w->results.items[1].counts[0] = 0;
    w->results.items[1].token_count = 0;
    EXPECT(stage_answer(stage, w));
    EXPECT(sched_counts(stage->s).blocks_used > 0); /* a step with them is in flight */
    stage_run(stage);
    EXPECT_EQ(stage->requests[1].choices[0].finish, WIRE_FINISH_STOP);
    EXPECT_EQ(w->results.count, 1); /* nothing new is planned for it */
    EXPECT(stage_answer(stage, w));
    EXPECT_EQ(sched_counts(stage->s).wasted_rows, 1);
    EXPECT_EQ(sched_counts(stage->s).blocks_used, 0);
    EXPECT(stage_is_right(stage, 1, 0, 4));
    stage_free(stage);
}

TEST(pipeline_cancel_takes_effect_within_two_steps) {
    struct stage *stage = worker_with_stop(2);
    struct stage_worker *w = &stage->workers[0];
    stage_simple(stage, 0, 10, 500);
    stage_simple(stage, 1, 10, 500);
    stage_run(stage);
    for (int i = 0; i < 4; i++) {
        EXPECT(stage_answer(stage, w));
        stage_run(stage);
    }
    struct wire_cancel cancel = {.request = stage_id(0), .choice = WIRE_ALL_CHOICES};
    sched_cancel(stage->s, stage->now, stage->gateway, &cancel);
    for (int i = 0; i < 2; i++) { /* both of these were planned before */
        EXPECT_EQ(w->results.items[0].row_count, 2);
        EXPECT(stage_answer(stage, w));
        stage_run(stage);
    }
    EXPECT_EQ(w->results.items[0].row_count, 1);
    EXPECT_EQ(sched_counts(stage->s).running, 1);
    EXPECT_EQ(sched_counts(stage->s).records, 1);
    uint32_t released = 0;
    for (size_t i = 0; i < w->results.count; i++)
        released += (uint32_t)w->results.items[i].release_count;
    EXPECT_EQ(released, 1);
    stage_free(stage);
}

TEST(pipeline_pause_stops_decoding_and_keeps_the_blocks) {
    struct stage *stage = worker_with_stop(2);
    struct stage_worker *w = &stage->workers[0];
    stage_simple(stage, 0, 40, 100);
    stage_run(stage);
    for (int i = 0; i < 10; i++) {
        EXPECT(stage_answer(stage, w));
        stage_run(stage);
    }
    struct wire_pause pause = {.request = stage_id(0), .paused = true};
    sched_pause(stage->s, stage->now, stage->gateway, &pause);
    size_t before = stage->requests[0].choices[0].tokens.count;
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].choices[0].tokens.count, before + 2);
    EXPECT(sched_counts(stage->s).blocks_used > 0);
    EXPECT_EQ(sched_counts(stage->s).running, 1);
    pause.paused = false;
    sched_pause(stage->s, stage->now, stage->gateway, &pause);
    stage_ends_right(stage, 1, 100);
}

TEST(pipeline_paused_ones_give_way_first) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->group.block_count = 10;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_simple(stage, 0, 70, 20);
    stage_run(stage);
    EXPECT(stage_answer(stage, w));
    stage_run(stage);
    struct wire_pause pause = {.request = stage_id(0), .paused = true};
    sched_pause(stage->s, stage->now, stage->gateway, &pause);
    stage_simple(stage, 1, 30, 100); /* needs more than is left */
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 1, 0, 100)); /* although it came later */
    EXPECT(stage->requests[0].choices[0].tokens.count < 20);
    pause.paused = false;
    sched_pause(stage->s, stage->now, stage->gateway, &pause);
    stage_ends_right(stage, 1, 20);
}

/* Who takes a request up reads it: that the one before it had paused does not count any more. */
TEST(pipeline_paused_one_that_waits_goes_on_when_it_is_taken_up) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 1;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_simple(stage, 0, 10, 30);
    stage_run(stage);
    stage_simple(stage, 1, 10, 5);
    stage_run(stage);
    struct wire_pause pause = {.request = stage_id(1), .paused = true};
    sched_pause(stage->s, stage->now, stage->gateway, &pause);
    struct wire_submit submit = stage_submit(stage, 1, 10, 5, 1);
    submit.attempt = stage->requests[1].attempt = 1;
    submit.resumed = true;
    stage_send(stage, &submit);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 30));
    EXPECT(stage_is_right(stage, 1, 0, 5));
    stage_free(stage);
}

/* A worker that does not say so: nobody gets more tokens than he may have. */
TEST(pipeline_length_ends_a_sequence_whatever_the_worker_says) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_simple(stage, 0, 10, 6);
    for (int turn = 0; turn < 50 && !stage->requests[0].choices[0].finish; turn++) {
        stage_run(stage);
        for (size_t i = 0; i < w->results.count; i++)
            memset(w->results.items[i].finishes, 0, sizeof w->results.items[i].finishes);
        stage_answer(stage, w);
    }
    EXPECT_EQ(stage->requests[0].choices[0].finish, WIRE_FINISH_LENGTH);
    EXPECT_EQ(stage->requests[0].choices[0].tokens.count, 6);
    stage_free(stage);
}

TEST(pipeline_results_that_do_not_fit_start_the_worker_anew) {
    struct stage *stage = worker_with_stop(2);
    struct stage_worker *w = &stage->workers[0];
    stage_simple(stage, 0, 10, 20);
    stage_run(stage);
    uint32_t slot = 0, count = 1, finish = 0, token = STAGE_WIDTH; /* no such token */
    struct wire_step_result result = {.plan_number = 1,
                                      .incarnation = 1,
                                      .slots = {&slot, 1},
                                      .token_counts = {&count, 1},
                                      .finishes = {&finish, 1},
                                      .tokens = {&token, 1}};
    EXPECT_EQ(sched_step_result(stage->s, stage->now, w->instance, &result), ERR_INVALID);
    EXPECT(u128_equal(stage->asked, w->instance));
    EXPECT_EQ(sched_counts(stage->s).running, 0);
    EXPECT_EQ(sched_counts(stage->s).resumed_waiting, 1);
    w->hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_ends_right(stage, 1, 20);
}

/* One column that is too short or too long at a time. */
TEST(pipeline_results_of_another_shape_start_the_worker_anew) {
    struct stage *stage = worker_with_stop(1);
    struct stage_worker *w = &stage->workers[0];
    stage_simple(stage, 0, 10, 20);
    for (size_t i = 0; i < 12; i++) {
        stage_run(stage);
        EXPECT_EQ(w->results.count, 1);
        struct stage_result *r = &w->results.items[0];
        uint32_t none[2] = {0};
        float states[2] = {0};
        struct wire_step_result result = {.plan_number = r->number,
                                          .incarnation = w->hello.incarnation,
                                          .slots = {r->slots, 1},
                                          .token_counts = {r->counts, 1},
                                          .finishes = {r->finishes, 1},
                                          .tokens = {r->tokens, 1},
                                          .logprobs.tops = {none, 0},
                                          .sampler_states = {states, 0}};
        size_t *columns[] = {&result.slots.count,         &result.token_counts.count,
                             &result.finishes.count,      &result.tokens.count,
                             &result.logprobs.tops.count, &result.sampler_states.count};
        r->slots[1] = r->slots[0];
        *columns[i / 2] = i < 8 ? i % 2 * 2 : 2 + i % 2;
        EXPECT_EQ(sched_step_result(stage->s, stage->now, w->instance, &result), ERR_INVALID);
        EXPECT_EQ(stage->requests[0].choices[0].tokens.count, 0);
        w->hello.incarnation++;
        EXPECT_EQ(stage_hello(stage, w), 0);
    }
    stage_ends_right(stage, 1, 20);
}

/* What a row says that it cannot: of a sampling row of 10 tokens, or of one that is part of a
 * longer prompt. */
TEST(pipeline_results_that_cannot_be_start_the_worker_anew) {
    static const struct {
        uint32_t prompt, slot, count, finish, tops;
        bool valid;
    } cases[] = {
        {10, 1, 1, 0, 0, false}, /* another slot */
        {10, 0, 2, 0, 0, false},
        {10, 0, 0, 0, 0, false}, /* no token where one is sampled */
        {10, 0, 0, WIRE_FINISH_STOP, 0, false},
        {10, 0, 1, WIRE_FINISH_CANCELLED, 0, false},
        {10, 0, 1, WIRE_FINISH_DEADLINE, 0, false},
        {10, 0, 1, WIRE_FINISH_CONSTRAINT + 1, 0, false},
        {10, 0, 1, WIRE_FINISH_ERROR, 0, false},
        {10, 0, 1, WIRE_FINISH_CONSTRAINT, 0, false},
        {10, 0, 1, 0, 3, false}, /* more logprobs than were asked for */
        {300, 0, 1, 0, 0, false},
        {300, 0, 0, WIRE_FINISH_STOP, 0, false},
        {300, 0, 0, 0, 0, true},
        {10, 0, 1, 0, 2, true},
        {10, 0, 1, WIRE_FINISH_STOP, 0, true},
        {10, 0, 0, WIRE_FINISH_ERROR, 0, true},
        {10, 0, 0, WIRE_FINISH_CONSTRAINT, 0, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct stage *stage = worker_with_stop(1);
        struct stage_worker *w = &stage->workers[0];
        struct wire_submit submit = stage_submit(stage, 0, cases[i].prompt, 20, 0);
        submit.sampling.logprobs = 2;
        stage_send(stage, &submit);
        stage_run(stage);
        uint32_t slot = cases[i].slot, count = cases[i].count, finish = cases[i].finish,
                 tokens[2] = {1, 1}, tops[2] = {cases[i].tops, cases[i].tops}, ids[8] = {0};
        float values[8] = {0};
        struct wire_step_result result = {.plan_number = 1,
                                          .incarnation = 1,
                                          .slots = {&slot, 1},
                                          .token_counts = {&count, 1},
                                          .finishes = {&finish, 1},
                                          .tokens = {tokens, count},
                                          .logprobs.tops = {tops, count},
                                          .logprobs.ids = {ids, 8},
                                          .logprobs.values = {values, 8}};
        int rc = sched_step_result(stage->s, stage->now, w->instance, &result);
        stage_run(stage);
        const struct stage_stream *stream = &stage->requests[0].choices[0];
        if (rc != (cases[i].valid ? 0 : ERR_INVALID))
            check_fail(__FILE__, __LINE__, "case %zu: %d", i, rc);
        EXPECT_EQ(stream->tokens.count, cases[i].valid ? count : 0);
        EXPECT_EQ(stream->finish, cases[i].valid ? finish : 0);
        stage_free(stage);
    }
}

TEST(pipeline_results_that_came_before_or_of_another_life_are_counted_and_change_nothing) {
    struct stage *stage = worker_with_stop(1);
    struct stage_worker *w = &stage->workers[0];
    stage_simple(stage, 0, 10, 20);
    stage_run(stage);
    EXPECT(stage_answer(stage, w));
    stage_run(stage);
    struct stage_result *r = &w->results.items[0];
    struct wire_step_result result = {.plan_number = r->number - 1,
                                      .incarnation = w->hello.incarnation,
                                      .slots = {r->slots, 1},
                                      .token_counts = {r->counts, 1},
                                      .finishes = {r->finishes, 1},
                                      .tokens = {r->tokens, 1}};
    EXPECT_EQ(sched_step_result(stage->s, stage->now, w->instance, &result), 0);
    EXPECT_EQ(sched_counts(stage->s).stale_messages, 1);
    result.plan_number = r->number;
    result.incarnation++;
    EXPECT_EQ(sched_step_result(stage->s, stage->now, w->instance, &result), 0);
    EXPECT_EQ(sched_counts(stage->s).stale_messages, 2);
    EXPECT_EQ(sched_step_result(stage->s, stage->now, stage_instance(3), &result), 0);
    EXPECT_EQ(sched_counts(stage->s).stale_messages, 3);
    stage_run(stage);
    EXPECT_EQ(stage->requests[0].choices[0].tokens.count, 1);
    stage_ends_right(stage, 1, 20);
}

TEST(pipeline_paused_ones_give_their_slots_to_who_waits) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 2;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 2; i++)
        stage_simple(stage, i, 20, 40);
    stage_run(stage);
    EXPECT(stage_answer(stage, w));
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_pause pause = {.request = stage_id(i), .paused = true};
        sched_pause(stage->s, stage->now, stage->gateway, &pause);
    }
    stage_simple(stage, 2, 20, 10);
    struct wire_submit submit = stage_submit(stage, 3, 20, 10, 3);
    submit.resumed = true;
    stage_send(stage, &submit);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 2, 0, 10) && stage_is_right(stage, 3, 0, 10));
    EXPECT(stage->requests[0].choices[0].tokens.count < 40);
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_pause pause = {.request = stage_id(i), .paused = false};
        sched_pause(stage->s, stage->now, stage->gateway, &pause);
    }
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 40) && stage_is_right(stage, 1, 0, 40));
    stage_free(stage);
}
