#include "stage.h"

TEST(core_runs_one_request_to_its_end) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    stage_simple(stage, 0, 40, 25);
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].accepted, 1);
    EXPECT_EQ(stage->requests[0].choices[0].finish, WIRE_FINISH_LENGTH);
    EXPECT(stage_is_right(stage, 0, 0, 25));
    EXPECT(sched_is_idle(stage->s));
    EXPECT_EQ(sched_counts(stage->s).records, 0);
    EXPECT_EQ(sched_counts(stage->s).blocks_used, 0);
    stage_free(stage);
}

/* One slot, and each answer takes 50 ms: the second request waits for all of the first one's. What
 * comes in between turns bears the time of the turn before, as in the process. */
TEST(core_tells_how_long_a_first_token_took) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 1;
    w->hello.max_step_tokens = 16;
    w->hello.steps_in_flight = 1;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_simple(stage, 0, 40, 3);
    stage_simple(stage, 1, 10, 1);
    int64_t begin = stage->now += 30;
    for (stage_run(stage); w->results.count; stage_run(stage)) {
        EXPECT(stage_answer(stage, w));
        stage->now += 50;
    }
    EXPECT_EQ(stage->now - begin, 6 * 50); /* 16, 16, 8, 1, 1 and 10 positions */
    const struct stage_stream *first = &stage->requests[0].choices[0];
    const struct stage_stream *second = &stage->requests[1].choices[0];
    EXPECT(first->queued_ms == 0 && first->prefill_ms == 150);
    EXPECT(second->queued_ms == 250 && second->prefill_ms == 50);
    /* not with the tokens after it */
    EXPECT(first->tokens.count == 3 && first->times_told == 1 && second->times_told == 1);
    stage_free(stage);
}

/* Where the request asks for it: what is found at first, then each part but the last one, whose end
 * the first token tells. */
TEST(core_tells_how_far_a_prompt_is) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.max_step_tokens = 16;
    w->hello.steps_in_flight = 1;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t idx = 0; idx < 3; idx++) {
        struct wire_submit submit = stage_submit(stage, idx, 40, 3, idx % 2);
        submit.progress = idx != 1;
        stage_send(stage, &submit);
        stage_finish(stage);
        EXPECT_EQ(stage->requests[idx].choices[0].tokens.count, 3);
    }
    const struct stage_tokens *first = &stage->requests[0].choices[0].progress;
    EXPECT(first->count == 3 && first->items[0] == 0 && first->items[1] == 16 &&
           first->items[2] == 32);
    EXPECT_EQ(stage->requests[1].choices[0].progress.count, 0);
    const struct stage_stream *again = &stage->requests[2].choices[0];
    EXPECT(again->cached > 0 && again->progress.count > 0 &&
           again->progress.items[0] == again->cached);
    stage_free(stage);
}

TEST(core_counts_steps_by_their_size) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.max_step_tokens = 33;
    w->hello.steps_in_flight = 1;
    EXPECT_EQ(sched_status(stage->s).model_count, 0);
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_simple(stage, 0, 33 + 32 + 3, 3); /* and then 1 and 1 */
    stage_run(stage);
    EXPECT(stage_answer(stage, w));
    stage_run(stage);
    stage_simple(stage, 1, 1, 1); /* with the last 2 */
    stage_finish(stage);
    const struct wire_model_status *m = sched_status(stage->s).models;
    uint64_t total = 0;
    EXPECT_EQ(m->step_bucket_count, WIRE_STEP_BUCKETS);
    for (size_t i = 0; i < m->step_bucket_count; i++)
        total += m->step_buckets[i].steps;
    EXPECT_EQ(m->block_tokens, 16);
    EXPECT_EQ(total, m->steps);
    EXPECT_EQ(m->step_buckets[0].steps, 2); /* the two decoded */
    EXPECT_EQ(m->step_buckets[2].steps, 1); /* 3 */
    EXPECT_EQ(m->step_buckets[6].steps, 2); /* 33 and 33 */
    EXPECT_EQ(m->step_tokens, 33 + 33 + 3 + 1 + 1);
    stage_free(stage);
}

/* The last bucket has all that is larger. */
TEST(core_counts_the_largest_steps_together) {
    static const uint32_t sizes[] = {16384, 16385, 40000};
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.max_step_tokens = w->hello.max_context = 50000;
    w->group.block_count = 4096;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++) {
        stage_simple(stage, i, sizes[i], 1);
        stage_finish(stage);
        EXPECT(stage_is_right(stage, i, 0, 1));
    }
    const struct wire_model_status *m = sched_status(stage->s).models;
    EXPECT_EQ(m->step_buckets[WIRE_STEP_BUCKETS - 2].steps, 1);
    EXPECT_EQ(m->step_buckets[WIRE_STEP_BUCKETS - 1].steps, 2);
    EXPECT_EQ(m->steps, 3);
    stage_free(stage);
}

TEST(core_batches_many_requests) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    for (uint32_t i = 0; i < 64; i++)
        stage_simple(stage, i, 1 + i * 7 % 90, 1 + i % 30);
    stage_finish(stage);
    for (uint32_t i = 0; i < 64; i++)
        EXPECT(stage_is_right(stage, i, 0, 1 + i % 30));
    EXPECT(sched_counts(stage->s).steps < 200);
    EXPECT_EQ(sched_counts(stage->s).blocks_used, 0);
    stage_free(stage);
}
