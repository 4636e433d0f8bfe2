/* Sequences with a grammar run only where it is ready, and hold nobody up meanwhile. */
#include "stage.h"

static void submit(struct stage *stage, uint32_t idx, const char *grammar, uint32_t max_tokens) {
    struct wire_submit submit = stage_submit(stage, idx, 20, max_tokens, idx);
    submit.grammar_kind = WIRE_GRAMMAR_REGEX;
    submit.grammar = bytes_str(grammar);
    stage_send(stage, &submit);
}

static void ready(struct stage *stage) {
    struct wire_ready ready = {.resource = WIRE_RESOURCE_GRAMMAR, .hash = stage->prepared};
    sched_resource_ready(stage->s, stage->now, stage->prepared_by, &ready);
}

static size_t tokens_of(const struct stage *stage, uint32_t idx) {
    return stage->requests[idx].choices[0].tokens.count;
}

TEST(a_sequence_waits_for_its_grammar_and_others_do_not) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    submit(stage, 0, "a", 5);
    stage_simple(stage, 1, 30, 7);
    stage_finish(stage);
    EXPECT_EQ(stage->prepare_count, 1);
    EXPECT(u128_equal(stage->prepared_by, stage->workers[0].instance));
    EXPECT_EQ(tokens_of(stage, 0), 0);
    EXPECT(stage_is_right(stage, 1, 0, 7));
    ready(stage);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 5));
    submit(stage, 2, "a", 3); /* known to be ready */
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 2, 0, 3));
    EXPECT_EQ(stage->prepare_count, 1);
    struct u128 hash = stage->prepared;
    submit(stage, 3, "b", 3);
    stage_finish(stage);
    EXPECT_EQ(stage->prepare_count, 2);
    EXPECT(!u128_equal(stage->prepared, hash));
    EXPECT_EQ(tokens_of(stage, 3), 0);
    stage_free(stage);
}

TEST(what_was_ready_is_asked_for_again_in_time) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    submit(stage, 0, "a", 2);
    stage_finish(stage);
    ready(stage);
    stage_finish(stage);
    stage->now += 3000; /* old, and still good */
    struct wire_heartbeat beat = {.state = WIRE_STATE_IDLE};
    (void)sched_worker_heartbeat(stage->s, stage->now, stage->workers[0].instance, &beat);
    submit(stage, 1, "a", 2);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 1, 0, 2));
    EXPECT_EQ(stage->prepare_count, 2);
    ready(stage);
    stage->now += 6000; /* too old */
    (void)sched_worker_heartbeat(stage->s, stage->now, stage->workers[0].instance, &beat);
    submit(stage, 2, "a", 2);
    stage_finish(stage);
    EXPECT_EQ(stage->prepare_count, 3);
    EXPECT_EQ(tokens_of(stage, 2), 0);
    ready(stage);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 2, 0, 2));
    stage_free(stage);
}

TEST(a_grammar_that_cannot_be_had_refuses_who_waits_for_it) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    submit(stage, 0, "a", 2);
    stage_finish(stage);
    submit(stage, 1, "a", 2);
    stage_finish(stage);
    EXPECT_EQ(stage->prepare_count, 1);
    struct wire_failed failed = {
        .resource = WIRE_RESOURCE_GRAMMAR, .hash = stage->prepared, .text = bytes_str("no")};
    sched_resource_failed(stage->s, stage->now, stage->prepared_by, &failed);
    stage_run(stage);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_UNSUPPORTED);
    EXPECT_EQ(stage->requests[1].reject, WIRE_REJECT_UNSUPPORTED);
    stage_free(stage);
}

TEST(a_worker_that_registers_anew_is_asked_anew) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    EXPECT_EQ(stage_hello(stage, w), 0);
    submit(stage, 0, "a", 6);
    stage_finish(stage);
    ready(stage);
    stage_run(stage);
    stage_answer(stage, w);
    stage_run(stage);
    sched_blocks_lost(stage->s, stage->now, w->instance, w->hello.incarnation);
    w->hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, w), 0);
    size_t before = tokens_of(stage, 0);
    stage_finish(stage);
    EXPECT_EQ(stage->prepare_count, 2);
    EXPECT_EQ(tokens_of(stage, 0), before);
    ready(stage);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 6));
    stage_free(stage);
}
