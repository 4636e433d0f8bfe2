#include "stage.h"

static struct stage *deaf_stage(void) {
    struct stage *stage = stage_new(NULL);
    CHECK(stage_hello(stage, stage_worker(stage, 0)) == 0);
    stage->deaf = true;
    stage->auto_ack = false;
    return stage;
}

static void ack(struct stage *stage, uint32_t idx, uint32_t attempt, uint32_t count) {
    struct u128 id = stage_id(idx);
    uint32_t choice = 0;
    struct wire_ack message = {{&id, 1}, {&attempt, 1}, {&choice, 1}, {&count, 1}};
    sched_ack(stage->s, stage->now, stage->gateway, &message);
}

/* What a message's columns do not all have is nothing. */
TEST(delivery_is_acknowledged_row_by_row) {
    struct stage *stage = deaf_stage();
    stage->deaf = false;
    for (uint32_t i = 0; i < 2; i++)
        stage_simple(stage, i, 10, 5);
    stage_finish(stage);
    struct u128 ids[] = {stage_id(0), stage_id(1)};
    uint32_t attempts[2] = {0}, choices[2] = {0}, counts[] = {6, 6};
    for (int shorter = 0; shorter < 4; shorter++) {
        struct wire_ack message = {{ids, 2}, {attempts, 2}, {choices, 2}, {counts, 2}};
        *(size_t *[]){&message.requests.count, &message.attempts.count, &message.choices.count,
                      &message.counts.count}[shorter] = 1;
        sched_ack(stage->s, stage->now, stage->gateway, &message);
        stage_run(stage);
        EXPECT_EQ(sched_counts(stage->s).records, 1);
    }
    struct wire_ack whole = {{ids, 2}, {attempts, 2}, {choices, 2}, {counts, 2}};
    sched_ack(stage->s, stage->now, stage->gateway, &whole);
    stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).records, 0);
    stage_free(stage);
}

TEST(delivery_is_repeated_until_acknowledged) {
    struct stage *stage = deaf_stage();
    stage_simple(stage, 0, 10, 20);
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].choices[0].tokens.count, 0);
    EXPECT(!sched_is_idle(stage->s));
    stage->deaf = false;
    stage->now = stage->wants; /* the core knows when it has to try again */
    EXPECT(stage->wants <= stage->now + 2000);
    stage_run(stage);
    EXPECT(stage_is_right(stage, 0, 0, 20));
    EXPECT_EQ(stage->requests[0].choices[0].finish, WIRE_FINISH_LENGTH);
    uint32_t before = stage->deltas_count;
    ack(stage, 0, 0, 20); /* all tokens, but the finish may be lost */
    EXPECT_EQ(sched_counts(stage->s).records, 1);
    stage->now += 5000;
    stage_run(stage);
    EXPECT_EQ(stage->deltas_count, before + 1);
    ack(stage, 0, 0, 21);
    stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).records, 0);
    EXPECT(sched_is_idle(stage->s));
    stage_free(stage);
}

TEST(delivery_backs_off_and_ends_with_the_records_time) {
    struct stage *stage = deaf_stage();
    stage_simple(stage, 0, 10, 5);
    stage_finish(stage);
    uint32_t before = stage->deltas_count;
    for (int64_t end = stage->now + 70000; stage->now < end; stage->now += 100)
        stage_run(stage);
    EXPECT(stage->deltas_count - before <= 8);
    EXPECT_EQ(sched_counts(stage->s).records, 0);
    stage_free(stage);
}

TEST(delivery_answers_a_resend_from_the_index) {
    struct stage *stage = deaf_stage();
    stage_simple(stage, 0, 10, 20);
    stage_finish(stage);
    stage->deaf = false;
    struct wire_resend resend = {.request = stage_id(0), .index = 0};
    sched_resend(stage->s, stage->now, stage->gateway, &resend);
    stage_run(stage);
    EXPECT(stage_is_right(stage, 0, 0, 20));
    resend.index = 21; /* nothing is there */
    sched_resend(stage->s, stage->now, stage->gateway, &resend);
    resend.request = stage_id(9);
    sched_resend(stage->s, stage->now, stage->gateway, &resend);
    EXPECT_EQ(stage->requests[9].reject, WIRE_REJECT_UNKNOWN);
    stage_free(stage);
}

TEST(delivery_ignores_acks_of_other_attempts_and_beyond_the_end) {
    struct stage *stage = deaf_stage();
    stage_simple(stage, 0, 10, 20);
    stage_finish(stage);
    ack(stage, 0, 1, 21);
    ack(stage, 0, 0, 22);
    stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).records, 1);
    EXPECT_EQ(sched_counts(stage->s).stale_messages, 2);
    ack(stage, 7, 0, 1);
    EXPECT_EQ(stage->requests[7].reject, WIRE_REJECT_UNKNOWN);
    stage_free(stage);
}

TEST(delivery_takes_a_submit_twice_as_once) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    struct wire_submit submit = stage_submit(stage, 0, 10, 20, 0);
    stage_send(stage, &submit);
    stage_send(stage, &submit);
    stage_run(stage);
    stage_answer(stage, &stage->workers[0]);
    stage_send(stage, &submit);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 20));
    EXPECT_EQ(stage->requests[0].accepted, 2);
    EXPECT_EQ(sched_counts(stage->s).requests, 1);
    EXPECT_EQ(sched_counts(stage->s).output_tokens, 20);
    stage_free(stage);
}

/* The gateway holds fewer tokens than the scheduler: it gets the rest, and nothing is computed
 * again. */
TEST(delivery_higher_attempt_goes_on_from_what_the_gateway_holds) {
    struct stage *stage = deaf_stage();
    struct wire_submit submit = stage_submit(stage, 0, 10, 20, 0);
    stage_send(stage, &submit);
    stage_finish(stage);
    uint64_t computed = stage->workers[0].computed_tokens;
    stage->deaf = false;
    struct stage_tokens all = {0}; /* the first three tokens arrived */
    for (size_t i = 0; i < 10; i++)
        vec_push(&all, stage->requests[0].prompt.items[i]);
    for (size_t i = 0; i < 3; i++)
        stage_extend(&all, 0);
    for (size_t i = 0; i < 3; i++)
        vec_push(&stage->requests[0].choices[0].tokens, all.items[10 + i]);
    struct wire_choice choice = {.emitted = {all.items + 10, 3}};
    submit.choices = &choice;
    submit.choice_count = 1;
    submit.attempt = stage->requests[0].attempt = 4;
    submit.resumed = true;
    stage_send(stage, &submit);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 20));
    EXPECT_EQ(stage->workers[0].computed_tokens, computed);
    submit.attempt = 2; /* from the past */
    stage_send(stage, &submit);
    EXPECT(sched_counts(stage->s).stale_messages >= 1);
    vec_release(&all);
    stage_free(stage);
}

/* A new scheduler: the gateway submits what it holds, and the text goes on. */
TEST(delivery_resumed_request_continues_at_its_index) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    struct wire_submit submit = stage_submit(stage, 0, 30, 40, 0);
    struct stage_tokens all = {0};
    for (size_t i = 0; i < 30; i++)
        vec_push(&all, stage->requests[0].prompt.items[i]);
    for (size_t i = 0; i < 17; i++)
        stage_extend(&all, 0);
    for (size_t i = 0; i < 17; i++)
        vec_push(&stage->requests[0].choices[0].tokens, all.items[30 + i]);
    struct wire_choice choice = {.emitted = {all.items + 30, 17}};
    submit.choices = &choice;
    submit.choice_count = 1;
    submit.resumed = true;
    submit.attempt = stage->requests[0].attempt = 1;
    stage_send(stage, &submit);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 40));
    EXPECT_EQ(sched_counts(stage->s).output_tokens, 23);
    vec_release(&all);
    stage_free(stage);
}

/* The gateway holds other tokens than the scheduler, and nothing is missing from them: they are right, the
 * request has ended, and its slot is free for others. */
TEST(delivery_higher_attempt_that_holds_all_gets_its_finish) {
    static const struct {
        uint32_t max_tokens, held, finish;
    } ENDS[] = {{3, 3, WIRE_FINISH_LENGTH},
                {4000, 2038, WIRE_FINISH_LENGTH}, /* all that the worker has room for */
                {50, 3, WIRE_FINISH_STOP}};
    static uint32_t emitted[2038];
    for (size_t i = 0; i < ARRAY_LEN(emitted); i++)
        emitted[i] = 1 + (uint32_t)(i % 4);
    for (size_t end = 0; end < ARRAY_LEN(ENDS); end++)
        for (uint32_t begun = 0; begun < 3; begun++) { /* waiting, with rows in flight, without */
            struct stage *stage = stage_new(NULL);
            EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
            uint32_t stop = 3;
            uint32_t held = ENDS[end].held;
            struct wire_choice choice = {.emitted = {emitted, held}};
            struct wire_submit submit = stage_submit(stage, 0, 10, ENDS[end].max_tokens, 0);
            submit.stop_tokens = (struct u32s){&stop, ENDS[end].finish == WIRE_FINISH_STOP};
            stage->auto_ack = false;
            stage_send(stage, &submit);
            if (begun)
                stage_run(stage);
            if (begun == 2)
                stage_answer(stage, &stage->workers[0]);
            submit.choices = &choice;
            submit.choice_count = 1;
            submit.attempt = stage->requests[0].attempt = 1;
            submit.resumed = true;
            struct stage_tokens *tokens = &stage->requests[0].choices[0].tokens;
            tokens->count = 0;
            for (size_t i = 0; i < held; i++)
                vec_push(tokens, emitted[i]);
            stage_send(stage, &submit);
            stage_finish(stage);
            EXPECT_EQ(stage->requests[0].choices[0].finish, ENDS[end].finish);
            EXPECT_EQ(tokens->count, held);
            EXPECT_EQ(sched_counts(stage->s).running, 0);
            ack(stage, 0, 1, held + 1);
            stage_run(stage);
            EXPECT_EQ(sched_counts(stage->s).records, 0);
            stage_free(stage);
        }
}

/* Nothing is kept of what has ended: its gateway is told, and no timer is left of it. */
TEST(delivery_higher_attempt_that_holds_all_may_leave_no_record) {
    struct sched_config config;
    sched_config_default(&config);
    config.record_bytes = 1;
    struct stage *stage = stage_new(&config);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    uint32_t emitted[3] = {1, 2, 3};
    struct wire_choice choice = {.emitted = {emitted, 3}};
    struct wire_submit submit = stage_submit(stage, 0, 10, 3, 0);
    stage->auto_ack = false;
    stage_send(stage, &submit);
    submit.choices = &choice;
    submit.choice_count = 1;
    submit.attempt = stage->requests[0].attempt = 1;
    submit.resumed = true;
    submit.deadline_ms = 1000;
    stage_send(stage, &submit);
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_UNKNOWN);
    EXPECT_EQ(sched_counts(stage->s).records, 0);
    stage->now += 1000000;
    stage_run(stage);
    stage_free(stage);
}

TEST(delivery_resumed_request_that_was_complete_gets_its_finish) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    uint32_t stop = 5, emitted[3] = {1, 2, 5};
    struct wire_choice choice = {.emitted = {emitted, 3}};
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_submit submit = stage_submit(stage, i, 10, i ? 3 : 50, 0);
        if (!i)
            submit.stop_tokens = (struct u32s){&stop, 1};
        submit.choices = &choice;
        submit.choice_count = 1;
        submit.resumed = true;
        for (size_t k = 0; k < 3; k++)
            vec_push(&stage->requests[i].choices[0].tokens, emitted[k]);
        stage_send(stage, &submit);
    }
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].choices[0].finish, WIRE_FINISH_STOP);
    EXPECT_EQ(stage->requests[1].choices[0].finish, WIRE_FINISH_LENGTH);
    EXPECT_EQ(stage->workers[0].computed_tokens, 0);
    stage_free(stage);
}

/* A stop token ends a resumed request only where it may: as the last of more than min_tokens. */
TEST(delivery_resumed_request_that_may_not_stop_goes_on) {
    static const struct {
        uint32_t last, min_tokens, finish;
    } ROWS[] = {{5, 0, WIRE_FINISH_STOP},
                {5, 2, WIRE_FINISH_STOP},
                {5, 3, WIRE_FINISH_LENGTH}, /* the third is not more than three */
                {2, 0, WIRE_FINISH_LENGTH}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct stage *stage = stage_new(NULL);
        EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
        uint32_t stop = 5, emitted[3] = {5, 1, ROWS[i].last};
        struct wire_choice choice = {.emitted = {emitted, 3}};
        struct wire_submit submit = stage_submit(stage, 0, 10, 8, 0);
        submit.stop_tokens = (struct u32s){&stop, 1};
        submit.sampling.min_tokens = ROWS[i].min_tokens;
        submit.choices = &choice;
        submit.choice_count = 1;
        submit.resumed = true;
        for (size_t k = 0; k < 3; k++)
            vec_push(&stage->requests[0].choices[0].tokens, emitted[k]);
        stage_send(stage, &submit);
        stage_finish(stage);
        bool goes_on = ROWS[i].finish == WIRE_FINISH_LENGTH;
        EXPECT_EQ(stage->requests[0].choices[0].finish, ROWS[i].finish);
        EXPECT_EQ(stage->requests[0].choices[0].tokens.count, goes_on ? 8 : 3);
        EXPECT_EQ(stage->workers[0].computed_tokens > 0, goes_on);
        stage_free(stage);
    }
}

TEST(delivery_silent_gateway_is_preempted_at_once_and_dropped_later) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    stage->auto_ack = false; /* that would be a sign of life */
    stage_simple(stage, 0, 10, 100);
    stage_run(stage);
    stage_answer(stage, &stage->workers[0]);
    stage_run(stage);
    sched_gateway_silent(stage->s, stage->now, stage->gateway);
    while (stage_answer(stage, &stage->workers[0]))
        stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).running, 0);
    EXPECT_EQ(sched_counts(stage->s).blocks_used, 0);
    EXPECT_EQ(sched_counts(stage->s).records, 1);
    stage->now += 9000;
    stage_run(stage);
    sched_gateway_up(stage->s, stage->now, stage->gateway); /* it wakes, and goes on */
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 100));
    stage_simple(stage, 1, 10, 100);
    stage_run(stage);
    sched_gateway_silent(stage->s, stage->now, stage->gateway);
    stage->now += 10000;
    stage_run(stage);
    while (stage_answer(stage, &stage->workers[0]))
        stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).records, 0);
    EXPECT_EQ(sched_counts(stage->s).gateways, 0);
    ack(stage, 1, 0, 1);
    EXPECT_EQ(stage->requests[1].reject, WIRE_REJECT_UNKNOWN);
    stage_free(stage);
}

TEST(delivery_resumable_request_outlives_its_gateway_and_is_attached) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    struct wire_submit submit = stage_submit(stage, 0, 10, 50, 0);
    submit.resumable = true;
    submit.tenant = (struct u128){4, 4};
    stage_send(stage, &submit);
    stage_run(stage);
    stage_answer(stage, &stage->workers[0]);
    sched_gateway_gone(stage->s, stage->now, stage->gateway);
    stage_finish(stage);
    EXPECT_EQ(sched_counts(stage->s).output_tokens, 50);
    stage->requests[0].choices[0].tokens.count = 0; /* the other gateway has nothing */
    stage->gateway = (struct u128){43, 43};
    uint32_t choice = 0, index = 0;
    struct wire_attach attach = {.request = stage_id(0),
                                 .attempt = 1,
                                 .tenant = {5, 5},
                                 .choices = {&choice, 1},
                                 .indexes = {&index, 1}};
    sched_attach(stage->s, stage->now, stage->gateway, &attach); /* another tenant's */
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_UNKNOWN);
    stage->requests[0].reject = 0;
    stage->requests[0].attempt = 1;
    attach.tenant = (struct u128){4, 4};
    sched_attach(stage->s, stage->now, stage->gateway, &attach);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 50));
    EXPECT_EQ(stage->requests[0].choices[0].finish, WIRE_FINISH_LENGTH);
    stage->now += stage->config.record_ttl_ms;
    stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).records, 0);
    stage_free(stage);
}

/* Those that are dropped were not acknowledged: their gateway is told to submit them again. */
TEST(delivery_records_keep_to_their_budget) {
    struct sched_config config;
    sched_config_default(&config);
    config.record_bytes = 20000;
    struct stage *stage = stage_new(&config);
    stage->auto_ack = false;
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    for (uint32_t i = 0; i < 60; i++)
        stage_simple(stage, i, 50, 10);
    stage_finish(stage);
    EXPECT(sched_counts(stage->s).record_bytes <= 20000);
    EXPECT(sched_counts(stage->s).records > 0 && sched_counts(stage->s).records < 60);
    uint32_t told = 0;
    for (uint32_t i = 0; i < 60; i++)
        told += stage->requests[i].reject == WIRE_REJECT_UNKNOWN;
    EXPECT_EQ(told, 60 - sched_counts(stage->s).records);
    stage_free(stage);
}

/* One choice is ended by the gateway (a stop string); the other goes on, and the record ends with
 * it. */
TEST(delivery_cancel_of_one_choice_leaves_the_other) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    struct wire_submit submit = stage_submit(stage, 0, 10, 30, 0);
    struct wire_choice choices[2] = {{.choice = 0}, {.choice = 1}};
    submit.choices = choices;
    submit.choice_count = 2;
    stage_send(stage, &submit);
    for (int i = 0; i < 6; i++) {
        stage_run(stage);
        stage_answer(stage, &stage->workers[0]);
    }
    struct wire_cancel cancel = {.request = stage_id(0), .choice = 0};
    sched_cancel(stage->s, stage->now, stage->gateway, &cancel);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 1, 30));
    EXPECT(stage->requests[0].choices[0].tokens.count < 30 &&
           !stage->requests[0].choices[0].finish);
    EXPECT_EQ(sched_counts(stage->s).records, 0);
    stage_free(stage);
}

/* Its Cancel was lost while it waited: it is told as ACCEPTED again, so that a gateway without it
 * can say so. */
TEST(delivery_probes_what_nobody_speaks_of) {
    struct stage *stage = stage_new(NULL);
    stage_simple(stage, 0, 10, 30);
    stage_run(stage);
    EXPECT_EQ(stage->requests[0].accepted, 1);
    stage->now += stage->config.start_grace_ms - 1;
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    struct wire_pause pause = {.request = stage_id(0), .paused = true};
    sched_pause(stage->s, stage->now, stage->gateway, &pause);
    for (int i = 0; i < 25; i++) {
        stage->now += 1000;
        stage_run(stage);
    }
    EXPECT_EQ(stage->requests[0].accepted, 3);
    stage_free(stage);
}

/* Each word of its gateway puts the question off: it is asked so long after the last one. */
TEST(delivery_probes_come_so_long_after_the_last_word) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    stage_simple(stage, 0, 10, 30);
    stage_run(stage);
    struct wire_pause pause = {.request = stage_id(0), .paused = true};
    int64_t said_at = stage->now + 7;
    for (int word = 0; word < 3; word++) {
        stage->now = said_at;
        sched_pause(stage->s, stage->now, stage->gateway, &pause);
        stage->now = said_at + stage->config.probe_ms - 1;
        stage_run(stage);
        EXPECT_EQ(stage->requests[0].accepted, 1);
        said_at = stage->now;
    }
    stage->now = said_at;
    stage_run(stage);
    EXPECT_EQ(stage->requests[0].accepted, 1);
    stage->now++;
    stage_run(stage);
    EXPECT_EQ(stage->requests[0].accepted, 2);
    stage_free(stage);
}

/* Workers come after a scheduler that has just begun: nobody is told for a moment that there is no
 * model. */
TEST(delivery_waits_for_the_first_workers) {
    struct stage *stage = stage_new(NULL);
    int64_t until = stage->now + stage->config.start_grace_ms;
    stage->now = until - 1;
    stage_simple(stage, 0, 10, 5);
    stage_run(stage);
    EXPECT_EQ(stage->requests[0].reject, 0);
    stage->now = until;
    stage_simple(stage, 1, 10, 5);
    stage_run(stage);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_NO_MODEL);
    EXPECT_EQ(stage->requests[1].reject, WIRE_REJECT_NO_MODEL);
    stage_free(stage);
}

struct seen_logprobs {
    size_t count;
    uint32_t tops[64], ids[64];
    float values[64];
};
static struct seen_logprobs seen;

static void see_deltas(void *ctx, struct u128 gateway, const struct wire_deltas *d) {
    size_t entry = 0;
    for (size_t i = 0; i < d->logprobs.tops.count; i++) {
        seen.tops[seen.count] = d->logprobs.tops.items[i];
        seen.ids[seen.count] = d->logprobs.ids.items[entry + 1];
        seen.values[seen.count++] = d->logprobs.values.items[entry];
        entry += d->logprobs.tops.items[i] + 1;
    }
}
static void ignore_plan(void *ctx, struct u128s ranks, const struct wire_plan *plan) {}
static void ignore_reject(void *ctx, struct u128 gateway, const struct wire_reject *reject) {}
static void ignore_fence(void *ctx, struct u128 instance, uint32_t pid) {}
static void ignore_reregister(void *ctx, struct u128 instance) {}

TEST(delivery_carries_logprobs_and_repeats_them) {
    struct sched_config config;
    struct sched_sink sink = {.plan = ignore_plan,
                              .deltas = see_deltas,
                              .reject = ignore_reject,
                              .fence = ignore_fence,
                              .reregister = ignore_reregister};
    struct stage world = {0};
    sched_config_default(&config);
    struct sched *s = sched_new(&config, &sink);
    struct stage_worker *w = stage_worker(&world, 0);
    struct error err;
    EXPECT_EQ(sched_worker_hello(s, 0, &w->hello, &err), 0);
    struct wire_submit submit = stage_submit(&world, 0, 4, 3, 0);
    submit.sampling.logprobs = 2;
    sched_submit(s, 0, (struct u128){1, 1}, &submit);
    sched_run(s, 0);
    for (uint32_t step = 0; step < 3; step++) {
        uint32_t slot = 0, count = 1, finish = step == 2 ? WIRE_FINISH_LENGTH : 0,
                 token = 10 + step, top = step % 3;
        uint32_t ids[3] = {token, 100 + step, 200};
        float values[3] = {-1.0f - (float)step, -2, -3};
        struct wire_step_result result = {
            .plan_number = step + 1,
            .slots = {&slot, 1},
            .token_counts = {&count, 1},
            .finishes = {&finish, 1},
            .tokens = {&token, 1},
            .logprobs = {{&top, 1}, {ids, top + 1}, {values, top + 1}}};
        EXPECT_EQ(sched_step_result(s, step, w->instance, &result), 0);
        sched_run(s, step);
    }
    sched_run(s, 5000); /* nobody acknowledged: all of it once more */
    EXPECT_EQ(seen.count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        EXPECT_EQ(seen.tops[i], i % 3);
        EXPECT(seen.values[i] == -1.0f - (float)(i % 3));
        if (i % 3)
            EXPECT_EQ(seen.ids[i], 100 + i % 3);
    }
    vec_release(&world.requests[0].prompt);
    sched_free(&s);
}

/* Of two in one message one is steered: each of its tokens comes with the state behind it, also when it is told
 * again, and where it goes on elsewhere the worker has the last one. */
TEST(delivery_carries_states_of_samplers_that_steer) {
    struct stage *stage = stage_new(NULL);
    stage_worker(stage, 0)->steers = true;
    EXPECT_EQ(stage_hello(stage, &stage->workers[0]), 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_submit submit = stage_submit(stage, i, 20, 30, i);
        submit.sampling.steering = i ? WIRE_STEERING_NONE : WIRE_STEERING_MIROSTAT;
        stage_send(stage, &submit);
    }
    for (int turn = 0; turn < 10; turn++) {
        stage->deaf = turn == 3 || turn == 4; /* until they are sent again */
        stage_run(stage);
        stage->now += stage->deaf ? 0 : stage->config.retransmit_ms;
        EXPECT(stage_answer(stage, &stage->workers[0]));
    }
    struct wire_exited gone = {.instance = stage->workers[0].instance, .cause = WIRE_EXIT_SIGNAL};
    sched_worker_exited(stage->s, stage->now, &gone);
    stage->workers[0].results.count = 0;
    stage_worker(stage, 1)->steers = true;
    EXPECT_EQ(stage_hello(stage, &stage->workers[1]), 0);
    stage_finish(stage);
    EXPECT_EQ(stage->workers[1].state_errors, 0);
    const struct stage_stream *steered = &stage->requests[0].choices[0],
                              *plain = &stage->requests[1].choices[0];
    EXPECT(steered->state_count == 30 && steered->state_errors == 0);
    EXPECT(plain->state_errors == plain->state_count); /* zeros beside the other's */
    for (uint32_t i = 0; i < 2; i++)
        EXPECT(stage_is_right(stage, i, 0, 30));
    stage_free(stage);
}

TEST(delivery_higher_attempt_cannot_hold_what_the_model_has_not) {
    static const struct {
        uint32_t token, max_tokens;
        bool valid;
    } CASES[] = {{STAGE_WIDTH - 1, 2, true}, {STAGE_WIDTH, 2, false}, {STAGE_WIDTH - 1, 1, false}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct stage *stage = deaf_stage();
        struct wire_submit submit = stage_submit(stage, 0, 10, CASES[i].max_tokens, 0);
        uint32_t emitted[2] = {1, CASES[i].token};
        struct wire_choice choice = {.emitted = {emitted, 2}};
        stage_send(stage, &submit);
        stage_run(stage);
        submit.choices = &choice;
        submit.choice_count = 1;
        submit.attempt = 1;
        submit.resumed = true;
        stage_send(stage, &submit);
        EXPECT_EQ(stage->requests[0].reject, CASES[i].valid ? 0 : WIRE_REJECT_INVALID);
        stage_free(stage);
    }
}

/* Runs request 0 on worker 0 until it dies after some tokens, and to its end on worker 1. */
static struct stage *change_worker(struct u128 fingerprint, bool told_at_the_end) {
    struct stage *stage = stage_new(NULL);
    CHECK(stage_hello(stage, stage_worker(stage, 0)) == 0);
    stage->deaf = told_at_the_end;
    stage->auto_ack = !told_at_the_end;
    stage_simple(stage, 0, 10, 20);
    for (int i = 0; i < 7; i++) {
        stage_run(stage);
        CHECK(stage_answer(stage, &stage->workers[0]));
    }
    struct wire_exited exited = {.instance = stage->workers[0].instance};
    stage->workers[0].results.count = 0;
    sched_worker_exited(stage->s, stage->now, &exited);
    stage_run(stage);
    struct stage_worker *w = stage_worker(stage, 1);
    w->hello.fingerprint = fingerprint;
    CHECK(stage_hello(stage, w) == 0);
    stage_finish(stage);
    if (told_at_the_end) {
        struct wire_resend resend = {.request = stage_id(0), .index = 0};
        stage->deaf = false;
        sched_resend(stage->s, stage->now, stage->gateway, &resend);
        stage_run(stage);
    }
    return stage;
}

/* Which tokens another kind of machine made, whose bits may differ: also where all are told at once. */
TEST(delivery_tells_which_tokens_another_kind_of_replica_made) {
    for (int at_the_end = 0; at_the_end < 2; at_the_end++)
        for (int differs = 0; differs < 2; differs++) {
            struct stage *stage = change_worker((struct u128){3, differs ? 5 : 4}, at_the_end);
            EXPECT(stage_is_right(stage, 0, 0, 20));
            const struct stage_stream *stream = &stage->requests[0].choices[0];
            EXPECT_EQ(stream->other_count, differs ? 13 : 0);
            EXPECT(stream->fingerprint.hi == (differs ? 5 : 4));
            stage_free(stage);
        }
}

/* Its gateway was gone for a while, and asks again for what it had asked for. */
TEST(delivery_resumable_request_goes_back_to_its_gateway_by_the_same_submit) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    struct wire_submit submit = stage_submit(stage, 0, 10, 20, 0);
    submit.resumable = true;
    stage_send(stage, &submit);
    stage_run(stage);
    stage_answer(stage, &stage->workers[0]);
    sched_gateway_gone(stage->s, stage->now, stage->gateway);
    stage->auto_ack = false;
    stage_finish(stage);
    EXPECT(stage->requests[0].choices[0].tokens.count < 20);
    stage_send(stage, &submit);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 20));
    EXPECT_EQ(sched_counts(stage->s).stale_messages, 0);
    stage_free(stage);
}

/* What has come in part is asked for again later, not at once. */
TEST(delivery_waits_again_after_each_ack) {
    struct stage *stage = deaf_stage();
    stage_simple(stage, 0, 10, 20);
    stage_finish(stage);
    stage->now += 600;
    ack(stage, 0, 0, 5);
    uint32_t before = stage->deltas_count;
    stage->now += stage->config.retransmit_ms - 1;
    stage_run(stage);
    EXPECT_EQ(stage->deltas_count, before);
    stage->now++;
    stage_run(stage);
    EXPECT_EQ(stage->deltas_count, before + 1);
    stage_free(stage);
}

TEST(delivery_silent_gateway_without_a_request_is_dropped_in_time_too) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    stage_run(stage);
    sched_gateway_silent(stage->s, stage->now, stage->gateway);
    stage_run(stage);
    EXPECT_EQ(stage->wants, stage->now + stage->config.silence_drop_ms);
    EXPECT_EQ(sched_counts(stage->s).gateways, 1);
    stage->now = stage->wants;
    stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).gateways, 0);
    stage_free(stage);
}
