/* Two models behind one scheduler: each has its own replicas, queue, estimates and prefixes. */
#include "stage.h"

enum { FIRST, SECOND };
static const char *const NAMES[] = {"first", "second"};

/* A worker each, that is ready. */
static struct stage *two_models(const struct sched_config *config, uint32_t slot_count) {
    struct stage *stage = stage_new(config);
    for (uint32_t i = FIRST; i <= SECOND; i++) {
        struct stage_worker *w = stage_worker(stage, i);
        w->hello.model = bytes_str(NAMES[i]);
        w->hello.revision = (struct u128){i, 2};
        w->hello.slot_count = slot_count;
        CHECK(stage_hello(stage, w) == 0);
    }
    return stage;
}

static void ask(struct stage *stage, uint32_t idx, const char *model, uint32_t prompt_count,
                uint32_t max_tokens, uint64_t salt) {
    struct wire_submit submit = stage_submit(stage, idx, prompt_count, max_tokens, salt);
    submit.model = bytes_str(model);
    stage_send(stage, &submit);
}

TEST(models_have_replicas_of_their_own) {
    struct stage *stage = two_models(NULL, 16);
    for (uint32_t i = 0; i < 40; i++)
        ask(stage, i, NAMES[i % 4 ? SECOND : FIRST], 20, 5, i);
    stage_finish(stage);
    for (uint32_t i = 0; i < 40; i++)
        EXPECT(stage_is_right(stage, i, 0, 5));
    EXPECT_EQ(stage->workers[FIRST].computed_tokens, 10 * 24);
    EXPECT_EQ(stage->workers[SECOND].computed_tokens, 30 * 24);
    struct wire_status status = sched_status(stage->s);
    EXPECT_EQ(status.model_count, 2);
    for (size_t i = 0; i < status.model_count; i++)
        EXPECT_EQ(status.models[i].output_tokens,
                  bytes_equal(status.models[i].model, bytes_str("first")) ? 50 : 150);
    stage_free(stage);
}

TEST(models_are_asked_for_by_name) {
    struct stage *stage = two_models(NULL, 16);
    stage->now += stage->config.start_grace_ms;
    ask(stage, 0, "", 20, 5, 0);
    ask(stage, 1, "third", 20, 5, 1);
    ask(stage, 2, "second", 20, 5, 2);
    stage_finish(stage);
    EXPECT(stage->requests[0].reject == WIRE_REJECT_NO_MODEL);
    EXPECT(stage->requests[1].reject == WIRE_REJECT_NO_MODEL);
    EXPECT(!stage->requests[2].reject && stage_is_right(stage, 2, 0, 5));
    stage_free(stage);
}

static struct stage_worker *hello_of_first(struct stage *stage, uint32_t idx, uint32_t state) {
    struct stage_worker *w = stage_worker(stage, idx);
    w->hello.model = bytes_str("first");
    w->hello.state = state;
    CHECK(stage_hello(stage, w) == 0);
    return w;
}

static void lose(struct stage *stage, const struct stage_worker *w) {
    struct wire_exited message = {.instance = w->instance, .cause = WIRE_EXIT_CLEAN};
    sched_worker_exited(stage->s, stage->now, &message);
    stage_run(stage);
}

static void pass_grace(struct stage *stage) {
    stage->now += stage->config.model_grace_ms;
    stage_run(stage);
}

/* What waits for a model whose last worker is long gone is refused, and nobody who comes meanwhile
 * keeps it or waits for ever. */
TEST(models_whose_workers_are_forgotten_take_nothing_new) {
    struct stage *stage = stage_new(NULL);
    lose(stage, hello_of_first(stage, 0, WIRE_STATE_IDLE));
    stage->now += stage->config.start_grace_ms;
    ask(stage, 0, "first", 20, 5, 0); /* they may come back */
    pass_grace(stage);
    EXPECT_EQ(stage->requests[0].reject, 0);
    ask(stage, 1, "first", 20, 5, 1);
    ask(stage, 2, "", 20, 5, 2);
    stage_run(stage);
    EXPECT_EQ(stage->requests[1].reject, WIRE_REJECT_NO_MODEL);
    EXPECT_EQ(stage->requests[2].reject, WIRE_REJECT_NO_MODEL);
    struct wire_submit again = stage_submit(stage, 3, 20, 5, 3);
    again.model = bytes_str("first");
    again.attempt = 1;
    stage_send(stage, &again);
    pass_grace(stage);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_NO_MODEL);
    EXPECT_EQ(stage->requests[3].reject, WIRE_REJECT_NO_MODEL);
    hello_of_first(stage, 1, WIRE_STATE_IDLE);
    ask(stage, 4, "first", 20, 5, 4);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 4, 0, 5));
    stage_free(stage);
}

/* Nobody knows yet what fits it. */
TEST(models_that_never_load_are_waited_for_as_long_as_others) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = hello_of_first(stage, 0, WIRE_STATE_LOADING);
    ask(stage, 0, "first", 20, 5, 0);
    for (int i = 0; i < 3; i++)
        pass_grace(stage);
    EXPECT_EQ(stage->requests[0].reject, 0); /* it loads */
    lose(stage, w);
    pass_grace(stage); /* and is forgotten now */
    EXPECT_EQ(stage->requests[0].reject, 0);
    w = hello_of_first(stage, 1, WIRE_STATE_LOADING);
    for (int i = 0; i < 3; i++)
        pass_grace(stage);
    EXPECT_EQ(stage->requests[0].reject, 0);
    lose(stage, w);
    for (int i = 0; i < 2; i++)
        pass_grace(stage);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_NO_MODEL);
    stage_free(stage);
}

/* The same tokens of another model are other keys and values. */
TEST(models_share_no_prefixes) {
    struct stage *stage = two_models(NULL, 16);
    static const uint32_t MODELS[] = {FIRST, SECOND, FIRST, SECOND};
    for (uint32_t i = 0; i < ARRAY_LEN(MODELS); i++) {
        ask(stage, i, NAMES[MODELS[i]], 100, 2, 7);
        stage_finish(stage);
        EXPECT_EQ(stage->requests[i].choices[0].cached, i < 2 ? 0 : 96);
    }
    stage_free(stage);
}

/* What is too much for one is refused there alone, in whatever order it came. */
TEST(models_have_queues_of_their_own) {
    struct sched_config config;
    sched_config_default(&config);
    config.waiting_max = 4;
    struct stage *stage = two_models(&config, 1);
    for (uint32_t i = 0; i < 20; i++)
        ask(stage, i, i == 10 || i >= 16 ? "second" : "first", 20, 6, i);
    stage_run(stage);
    uint32_t refused = 0;
    for (uint32_t i = 0; i < 20; i++) {
        refused += stage->requests[i].reject != 0;
        EXPECT(!stage->requests[i].reject || (i >= 5 && i < 16 && i != 10));
    }
    EXPECT_EQ(refused, 10); /* of 15: one slot, four places */
    stage_finish(stage);
    for (uint32_t i = 16; i < 20; i++)
        EXPECT(stage_is_right(stage, i, 0, 6));
    stage_free(stage);
}

/* A long wait for one makes neither a refusal nor a longer Retry-After of the other. */
TEST(models_have_waits_of_their_own) {
    struct sched_config config;
    sched_config_default(&config);
    config.waiting_max = 50;
    config.wait_max_ms = 2000;
    struct stage *stage = two_models(&config, 1);
    struct stage_worker *slow = &stage->workers[FIRST];
    for (uint32_t i = 0; i < 40; i++)
        ask(stage, i, "first", 20, 100, i);
    for (int turn = 0; turn < 10; turn++) { /* seconds for a token: the queue is minutes long */
        stage_run(stage);
        stage->now += 5000;
        EXPECT(stage_answer(stage, slow));
    }
    ask(stage, 50, "first", 20, 1, 50);
    for (uint32_t i = 60; i < 112; i++)
        ask(stage, i, "second", 20, 1, i);
    stage_run(stage);
    EXPECT_EQ(stage->requests[50].reject, WIRE_REJECT_OVERLOADED);
    EXPECT(stage->requests[50].retry_after_ms > 60000);
    EXPECT(!stage->requests[60].reject && !stage->requests[110].reject);
    EXPECT_EQ(stage->requests[111].reject, WIRE_REJECT_OVERLOADED);
    EXPECT_EQ(stage->requests[111].retry_after_ms, 1000);
    stage_free(stage);
}

TEST(models_lose_workers_of_their_own) {
    struct stage *stage = two_models(NULL, 16);
    for (uint32_t i = 0; i < 8; i++)
        ask(stage, i, NAMES[i % 2], 20, 12, i);
    for (int turn = 0; turn < 4; turn++) {
        stage_run(stage);
        stage_answer(stage, &stage->workers[FIRST]);
        stage_answer(stage, &stage->workers[SECOND]);
    }
    stage->workers[FIRST].results.count = 0;
    sched_worker_silent(stage->s, stage->now, stage_instance(FIRST));
    stage_finish(stage);
    for (uint32_t i = 0; i < 8; i++)
        EXPECT_EQ(stage->requests[i].choices[0].finish, i % 2 ? WIRE_FINISH_LENGTH : 0);
    stage->workers[FIRST].hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, &stage->workers[FIRST]), 0);
    stage->now += stage->config.fence_wait_ms;
    stage_ends_right(stage, 8, 12);
}
