/* Requests that outlive their client, taken up again by name. */
#include "stage.h"

static struct wire_submit submit_named(struct stage *stage, uint32_t idx, const char *name) {
    struct wire_submit submit = stage_submit(stage, idx, 10, 50, 0);
    submit.resumable = true;
    submit.tenant = (struct u128){4, 4};
    submit.presentation = bytes_str("how to show it");
    submit.stream = bytes_str(name);
    return submit;
}

static void send_named(struct stage *stage, uint32_t idx, const char *name) {
    struct wire_submit submit = submit_named(stage, idx, name);
    stage_send(stage, &submit);
}

/* Another gateway asks for it, as request idx from now on. */
static void attach_as(struct stage *stage, uint32_t idx, const char *name, struct u128 tenant) {
    const struct wire_attach attach = {
        .tenant = tenant, .new_request = stage_id(idx), .stream = bytes_str(name)};
    sched_attach(stage->s, stage->now, stage->gateway, &attach);
}

static void attach(struct stage *stage, uint32_t idx, const char *name) {
    attach_as(stage, idx, name, (struct u128){4, 4});
}

static struct stage *begin(const struct sched_config *config) {
    struct stage *stage = stage_new(config);
    CHECK(stage_hello(stage, stage_worker(stage, 0)) == 0);
    return stage;
}

static void some_steps(struct stage *stage) {
    for (int i = 0; i < 6; i++) {
        stage_run(stage);
        stage_answer(stage, &stage->workers[0]);
    }
    stage_run(stage);
}

/* What request `from` was goes on as request `to`. */
static void copy_prompt(struct stage *stage, uint32_t to, uint32_t from) {
    stage->requests[to].prompt.count = 0;
    for (size_t i = 0; i < stage->requests[from].prompt.count; i++)
        vec_push(&stage->requests[to].prompt, stage->requests[from].prompt.items[i]);
}

TEST(streams_move_to_who_asks_by_name) {
    struct stage *stage = begin(NULL);
    send_named(stage, 0, "talk");
    some_steps(stage);
    EXPECT(stage->requests[0].choices[0].tokens.count > 0);
    struct u128 before = stage->gateway;
    stage->gateway = (struct u128){43, 43};
    attach(stage, 1, "talk");
    EXPECT_EQ(stage->attached_count, 1);
    EXPECT(u128_equal(stage->attached_by, stage->gateway));
    EXPECT(u128_equal(stage->attached.request, stage_id(1)));
    EXPECT_EQ(stage->attached.prompt.count, 10);
    EXPECT_EQ(stage->attached.deadline_ms, 0); /* none */
    EXPECT(bytes_equal(stage->attached.presentation, bytes_str("how to show it")));
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_MOVED); /* whoever had it is told */
    attach(stage, 1, "talk");                                /* its answer may have been lost */
    EXPECT_EQ(stage->attached_count, 2);
    copy_prompt(stage, 1, 0);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 1, 0, 50));
    struct wire_submit again = submit_named(stage, 0, "talk");
    again.resumed = true;
    stage->requests[0].reject = 0;
    sched_submit(stage->s, stage->now, before, &again); /* one that has not heard */
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_MOVED);
    stage_free(stage);
}

TEST(streams_are_of_one_tenant) {
    struct stage *stage = begin(NULL);
    send_named(stage, 0, "talk");
    some_steps(stage);
    const struct wire_attach other = {
        .tenant = {5, 5}, .new_request = stage_id(1), .stream = bytes_str("talk")};
    sched_attach(stage->s, stage->now, stage->gateway, &other);
    EXPECT_EQ(stage->requests[1].reject, WIRE_REJECT_UNKNOWN);
    const struct wire_attach by_id = {.request = stage_id(0), .attempt = 9, .tenant = {5, 5}};
    sched_attach(stage->s, stage->now, stage->gateway, &by_id);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_UNKNOWN);
    attach(stage, 2, "walk");
    EXPECT_EQ(stage->requests[2].reject, WIRE_REJECT_UNKNOWN);
    EXPECT_EQ(stage->attached_count, 0);
    struct wire_submit same = submit_named(stage, 3, "talk"); /* another's talk is not this one */
    same.tenant = (struct u128){5, 5};
    stage_send(stage, &same);
    stage->requests[0].reject = 0;
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 50));
    EXPECT(stage_is_right(stage, 3, 0, 50));
    stage_free(stage);
}

static void detach(struct stage *stage, uint32_t idx) {
    const struct wire_cancel cancel = {
        .request = stage_id(idx), .choice = WIRE_ALL_CHOICES, .detach = true};
    sched_cancel(stage->s, stage->now, stage->gateway, &cancel);
}

TEST(streams_stay_when_another_tenant_submits_their_id) {
    struct stage *stage = begin(NULL);
    send_named(stage, 0, "talk");
    some_steps(stage);
    struct wire_submit other = submit_named(stage, 0, "talk");
    other.attempt = 1;
    other.resumed = true;
    other.tenant = (struct u128){5, 5};
    sched_submit(stage->s, stage->now, (struct u128){43, 43}, &other);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_INVALID); /* told to who asked */
    stage->requests[0].reject = (enum wire_reject_code)0;
    stage_ends_right(stage, 1, 50);
}

TEST(streams_run_on_without_their_client) {
    struct stage *stage = begin(NULL);
    stage->auto_ack = false;
    send_named(stage, 0, "talk");
    stage_simple(stage, 1, 10, 50);
    some_steps(stage);
    detach(stage, 0);
    detach(stage, 1); /* not resumable: it ends */
    uint32_t choice = 0, count = 1, attempt = 0;
    struct u128 id = stage_id(0);
    const struct wire_ack late = {{&id, 1}, {&attempt, 1}, {&choice, 1}, {&count, 1}};
    sched_ack(stage->s, stage->now, stage->gateway, &late); /* does not take it back */
    size_t had = stage->requests[0].choices[0].tokens.count;
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].choices[0].tokens.count, had);
    EXPECT_EQ(sched_counts(stage->s).finished[WIRE_FINISH_CANCELLED], 1);
    EXPECT_EQ(sched_counts(stage->s).finished[WIRE_FINISH_LENGTH], 1);
    attach(stage, 2, "talk");
    copy_prompt(stage, 2, 0);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 2, 0, 50));
    stage_free(stage);
}

TEST(streams_end_when_nobody_comes_back) {
    struct stage *stage = begin(NULL);
    send_named(stage, 0, "talk");
    some_steps(stage);
    detach(stage, 0);
    stage->now += stage->config.record_ttl_ms - 1;
    stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).records, 1);
    EXPECT_EQ(sched_counts(stage->s).running, 1);
    stage->now += 1;
    stage_run(stage);
    stage_finish(stage);
    EXPECT_EQ(sched_counts(stage->s).records, 0);
    EXPECT_EQ(sched_counts(stage->s).running, 0);
    EXPECT(sched_counts(stage->s).output_tokens < 50);
    stage_free(stage);
}

TEST(streams_taken_up_in_time_stay) {
    struct stage *stage = begin(NULL);
    send_named(stage, 0, "talk");
    some_steps(stage);
    detach(stage, 0);
    stage->now += stage->config.record_ttl_ms - 1;
    attach(stage, 1, "talk");
    copy_prompt(stage, 1, 0);
    stage->now += stage->config.record_ttl_ms + 1;
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 1, 0, 50));
    stage_free(stage);
}

TEST(streams_kept_are_bounded_for_each_tenant) {
    struct sched_config config;
    sched_config_default(&config);
    config.tenant_streams = 3;
    struct stage *stage = begin(&config);
    char name[8] = "t0";
    for (uint32_t i = 0; i < 6; i++, name[1]++)
        send_named(stage, i, name);
    struct wire_submit other = submit_named(stage, 6, "t0");
    other.tenant = (struct u128){9, 9};
    stage_send(stage, &other);
    some_steps(stage);
    for (uint32_t i = 0; i < 7; i++)
        detach(stage, i);
    stage_run(stage);
    stage_finish(stage);
    EXPECT_EQ(sched_counts(stage->s).records, 4); /* three, and one of the other's */
    attach(stage, 10, "t2");
    EXPECT_EQ(stage->requests[10].reject, WIRE_REJECT_UNKNOWN);
    attach(stage, 11, "t3");
    EXPECT_EQ(stage->requests[11].reject, 0);
    copy_prompt(stage, 11, 3);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 11, 0, 50));
    stage_free(stage);
}

/* Without keys all are one tenant, and the address that has most gives way. */
TEST(streams_kept_are_shared_by_address) {
    struct sched_config config;
    sched_config_default(&config);
    config.tenant_streams = 4;
    struct stage *stage = begin(&config);
    for (uint32_t i = 0; i < 8; i++) { /* two of a client that came first, six of another */
        char name[8] = "t0";
        name[1] += (char)i;
        struct wire_submit submit = submit_named(stage, i, name);
        submit.tenant = (struct u128){0};
        submit.share = (struct u128){i < 2 ? 5 : 11, 1};
        stage_send(stage, &submit);
    }
    some_steps(stage);
    for (uint32_t i = 0; i < 8; i++)
        detach(stage, i);
    stage_run(stage);
    stage_finish(stage);
    EXPECT_EQ(sched_counts(stage->s).records, 4);
    static const bool KEPT[8] = {[0] = true, [1] = true, [6] = true, [7] = true};
    for (uint32_t i = 0; i < 8; i++) {
        char name[8] = "t0";
        name[1] += (char)i;
        attach_as(stage, 10 + i, name, (struct u128){0});
        EXPECT_EQ(stage->requests[10 + i].reject, KEPT[i] ? 0 : WIRE_REJECT_UNKNOWN);
    }
    stage_free(stage);
}

TEST(streams_kept_are_bounded_in_bytes) {
    struct sched_config config;
    sched_config_default(&config);
    config.tenant_stream_bytes = 1; /* none at all, running or ended */
    struct stage *stage = begin(&config);
    send_named(stage, 0, "a");
    send_named(stage, 1, "b");
    some_steps(stage);
    detach(stage, 0);
    stage_finish(stage);
    EXPECT_EQ(sched_counts(stage->s).records, 0);
    EXPECT_EQ(sched_counts(stage->s).finished[WIRE_FINISH_CANCELLED], 1);
    stage_free(stage);
}

TEST(streams_with_a_name_that_is_asked_for_again_end) {
    struct stage *stage = begin(NULL);
    send_named(stage, 0, "talk");
    some_steps(stage);
    send_named(stage, 1, "talk");
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_MOVED);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 1, 0, 50));
    EXPECT_EQ(sched_counts(stage->s).finished[WIRE_FINISH_CANCELLED], 1);
    EXPECT_EQ(sched_counts(stage->s).records, 1);
    stage_free(stage);
}

/* What is left of its time goes along; 0 would mean that there is no end to it. */
TEST(streams_keep_their_deadlines) {
    struct stage *stage = begin(NULL);
    struct wire_submit submit = submit_named(stage, 0, "talk");
    submit.deadline_ms = 60000;
    stage_send(stage, &submit);
    some_steps(stage);
    stage->now += 20000;
    attach(stage, 1, "talk");
    EXPECT_EQ(stage->attached.deadline_ms, 40000);
    stage->now += 40000;
    attach(stage, 2, "talk");
    EXPECT_EQ(stage->attached_count, 2);
    EXPECT_EQ(stage->attached.deadline_ms, 1);
    stage_free(stage);
}
