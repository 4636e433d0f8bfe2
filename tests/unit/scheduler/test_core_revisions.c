/* test_core_revisions.c - a new revision of a model beside the old one: where requests go. */
#include "stage.h"

static const struct u128 OLD = {1, 2}, NEW = {8, 9}, OLD_BUNDLE = {20, 1}, NEW_BUNDLE = {21, 1};

static struct stage_worker *start(struct stage *stage, uint32_t idx, bool is_new, uint32_t slots) {
    struct stage_worker *w = stage_worker(stage, idx);
    w->hello.revision = is_new ? NEW : OLD;
    w->hello.bundle = is_new ? NEW_BUNDLE : OLD_BUNDLE;
    w->hello.slot_count = slots;
    CHECK(stage_hello(stage, w) == 0);
    return w;
}

static void ask(struct stage *stage, uint32_t idx, struct u128 bundle, uint32_t output) {
    struct wire_submit submit = stage_submit(stage, idx, 20, output, idx);
    submit.bundle = bundle;
    stage_send(stage, &submit);
}

static void step(struct stage *stage) {
    stage_run(stage);
    for (uint32_t i = 0; i < 2; i++)
        stage_answer(stage, &stage->workers[i]);
    stage->now++;
}

static bool beat_releases(struct stage *stage, const struct stage_worker *w) {
    struct wire_heartbeat beat = {.state = WIRE_STATE_DRAINING};
    stage->released = (struct u128){0};
    CHECK(sched_worker_heartbeat(stage->s, stage->now, w->instance, &beat));
    return u128_equal(stage->released, w->instance);
}

/* Gateways write with the old bundle until a worker of the new revision is ready, and with the new
 * one from then on; a drained replica is not shown while another is there. */
TEST(revisions_are_shown_when_they_are_ready) {
    struct stage *stage = stage_new(NULL);
    start(stage, 0, false, 16);
    struct stage_worker *w = stage_worker(stage, 1);
    w->hello.revision = NEW;
    w->hello.bundle = NEW_BUNDLE;
    w->hello.bundle_bytes = 77;
    w->hello.state = WIRE_STATE_LOADING;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_run(stage);
    EXPECT(u128_equal(sched_status(stage->s).models[0].bundle, OLD_BUNDLE));
    w->hello.state = WIRE_STATE_IDLE;
    w->hello.incarnation = 2;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_run(stage);
    EXPECT(u128_equal(sched_status(stage->s).models[0].bundle, NEW_BUNDLE));
    EXPECT(u128_equal(sched_status(stage->s).models[0].revision, NEW));
    EXPECT_EQ(sched_status(stage->s).models[0].bundle_bytes, 77);
    sched_worker_drain(stage->s, stage->now, w->instance);
    stage_run(stage);
    EXPECT(u128_equal(sched_status(stage->s).models[0].bundle, OLD_BUNDLE));
    stage_free(stage);
}

/* What began on the old revision ends there; what was encoded for it and waits does, too. */
TEST(revisions_end_what_began_on_them) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *old = start(stage, 0, false, 2);
    for (uint32_t i = 0; i < 6; i++)
        ask(stage, i, OLD_BUNDLE, 10);
    for (int i = 0; i < 4; i++)
        step(stage);
    EXPECT(stage->requests[0].choices[0].tokens.count > 0);
    start(stage, 1, true, 2);
    sched_worker_drain(stage->s, stage->now, old->instance);
    uint64_t before = old->computed_tokens;
    for (uint32_t i = 6; i < 9; i++)
        ask(stage, i, NEW_BUNDLE, 10);
    stage_run(stage);
    EXPECT(!beat_releases(stage, old));
    for (int i = 0; i < 12; i++)
        step(stage);
    EXPECT(!beat_releases(stage, old)); /* idle for a moment or not: some wait for it */
    stage_finish(stage);
    for (uint32_t i = 0; i < 9; i++)
        EXPECT(stage_is_right(stage, i, 0, 10) && !stage->requests[i].reject);
    EXPECT(old->computed_tokens - before >= 4 * 29);
    EXPECT_EQ(stage->workers[1].computed_tokens, 3 * 29);
    EXPECT(beat_releases(stage, old));
    stage_free(stage);
}

/* Preempted on a replica that drains, a sequence goes on there if no other has its revision. */
TEST(revisions_take_their_preempted_back) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *old = stage_worker(stage, 0);
    old->group.block_count = 6; /* not enough for both */
    old->hello.revision = OLD;
    old->hello.bundle = OLD_BUNDLE;
    EXPECT_EQ(stage_hello(stage, old), 0);
    ask(stage, 0, OLD_BUNDLE, 44);
    ask(stage, 1, OLD_BUNDLE, 44);
    for (int i = 0; i < 4; i++)
        step(stage);
    start(stage, 1, true, 2);
    sched_worker_drain(stage->s, stage->now, old->instance);
    stage_finish(stage);
    EXPECT(sched_counts(stage->s).preemptions > 0);
    EXPECT(stage_is_right(stage, 0, 0, 44) && stage_is_right(stage, 1, 0, 44));
    EXPECT_EQ(stage->workers[1].computed_tokens, 0);
    EXPECT(beat_releases(stage, old));
    stage_free(stage);
}

static void lose(struct stage *stage, const struct stage_worker *w) {
    struct wire_exited message = {.instance = w->instance, .cause = WIRE_EXIT_CLEAN};
    sched_worker_exited(stage->s, stage->now, &message);
    stage_run(stage);
}

/* Its worker died and another revision runs: what had begun waits while a worker of its own loads,
 * however long that takes, and is ended soon after that one is lost, too. */
TEST(revisions_that_load_are_waited_for) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *old = start(stage, 0, false, 4);
    ask(stage, 0, OLD_BUNDLE, 10);
    for (int i = 0; i < 4; i++)
        step(stage);
    EXPECT(stage->requests[0].choices[0].tokens.count > 0);
    start(stage, 1, true, 4);
    lose(stage, old);
    struct stage_worker *again = stage_worker(stage, 2);
    again->hello.revision = OLD;
    again->hello.bundle = OLD_BUNDLE;
    again->hello.state = WIRE_STATE_LOADING;
    EXPECT_EQ(stage_hello(stage, again), 0);
    for (int i = 0; i < 5; i++) {
        stage->now += stage->config.revision_grace_ms;
        stage_run(stage);
        EXPECT_EQ(stage->requests[0].reject, 0);
    }
    lose(stage, again);
    stage->now += stage->config.model_grace_ms;
    stage_run(stage);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_REVISION);
    EXPECT_EQ(stage->workers[1].computed_tokens, 0);
    stage_free(stage);
}

/* A bundle that nobody has any more binds nobody. */
TEST(revisions_that_are_gone_bind_nobody) {
    struct stage *stage = stage_new(NULL);
    start(stage, 0, true, 4);
    ask(stage, 0, OLD_BUNDLE, 10);
    stage_ends_right(stage, 1, 10);
}

/* New requests come to a replica that drains no more, although it is the last one. */
TEST(revisions_that_drain_take_nothing_new) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *old = start(stage, 0, false, 4);
    sched_worker_drain(stage->s, stage->now, old->instance);
    ask(stage, 0, OLD_BUNDLE, 10);
    for (int i = 0; i < 20; i++)
        step(stage);
    EXPECT_EQ(old->computed_tokens, 0);
    EXPECT(beat_releases(stage, old));
    start(stage, 1, false, 4);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 10));
    EXPECT_EQ(stage->workers[1].computed_tokens, 29);
    stage_free(stage);
}
