/* test_core_queue.c - who finds a place in a queue that is full. */
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/request.h"
#include "stage.h"

enum { PLACES = 8, SLOTS = 2, TENANTS = 6 };

static struct stage *queue_without_workers(uint32_t places) {
    struct sched_config config;
    sched_config_default(&config);
    config.waiting_max = places;
    config.wait_max_ms = 0;
    return stage_new(&config);
}

static void add_worker(struct stage *stage) {
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = SLOTS;
    CHECK(stage_hello(stage, w) == 0);
}

static struct stage *queue_of(uint32_t places) {
    struct stage *stage = queue_without_workers(places);
    add_worker(stage);
    return stage;
}

static void ask(struct stage *stage, uint32_t idx, uint64_t tenant, uint32_t choice_count) {
    struct wire_choice choices[STAGE_CHOICES];
    struct wire_submit submit = stage_submit(stage, idx, 20, 6, idx);
    for (uint32_t i = 0; i < choice_count; i++)
        choices[i] = (struct wire_choice){.choice = i};
    submit.choices = choices;
    submit.choice_count = choice_count;
    submit.tenant = (struct u128){tenant, 0};
    stage_send(stage, &submit);
}

static void ask_many(struct stage *stage, uint32_t first, uint32_t count, uint64_t tenant) {
    for (uint32_t i = first; i < first + count; i++)
        ask(stage, i, tenant, 1);
}

static void turn(struct stage *stage) {
    stage_run(stage);
    sched_check(stage->s);
}

/* Of these requests. */
static uint32_t taken(struct stage *stage, uint32_t first, uint32_t count) {
    uint32_t taken = 0;
    for (uint32_t i = first; i < first + count; i++)
        taken += stage->requests[i].accepted;
    return taken;
}

static void finish_all(struct stage *stage, uint32_t first, uint32_t end) {
    stage_finish(stage);
    for (uint32_t i = first; i < end; i++) {
        const struct stage_request *request = &stage->requests[i];
        EXPECT_EQ(request->accepted, request->reject ? 0 : 1);
        EXPECT(!request->reject || request->retry_after_ms >= 1000);
        EXPECT(request->reject || stage_is_right(stage, i, 0, 6));
    }
}

TEST(queue_is_all_a_tenants_that_is_alone) {
    struct stage *stage = queue_of(PLACES);
    ask_many(stage, 0, 30, 1);
    turn(stage);
    EXPECT_EQ(taken(stage, 0, 30), SLOTS + PLACES);
    ask_many(stage, 30, 3, 1);
    turn(stage);
    EXPECT_EQ(taken(stage, 30, 3), 0);
    finish_all(stage, 0, 33);
    stage_free(stage);
}

/* Who waits takes nobody else's share: half of the places with two that wait, a third with three.
 * Nothing that was taken is given up for it. */
TEST(queue_has_a_share_for_each_tenant) {
    struct stage *stage = queue_of(PLACES);
    ask_many(stage, 0, 30, 1);
    turn(stage);
    ask_many(stage, 30, 10, 2);
    turn(stage);
    EXPECT_EQ(taken(stage, 30, 10), PLACES / 2);
    ask_many(stage, 40, 10, 3);
    turn(stage);
    EXPECT_EQ(taken(stage, 40, 10), PLACES / 3);
    ask_many(stage, 50, 10, 1);
    turn(stage);
    EXPECT_EQ(taken(stage, 50, 10), 0);
    finish_all(stage, 0, 60);
    stage_free(stage);
}

/* In one turn, too, in whatever order they came. */
TEST(queue_has_shares_within_a_turn) {
    for (uint32_t order = 0; order < 2; order++) {
        struct stage *stage = queue_of(PLACES);
        if (order)
            ask_many(stage, 30, 3, 2);
        ask_many(stage, 0, 30, 1);
        if (!order)
            ask_many(stage, 30, 3, 2);
        turn(stage);
        EXPECT_EQ(taken(stage, 30, 3), 3);
        EXPECT(taken(stage, 0, 30) >= PLACES - 3);
        EXPECT(taken(stage, 0, 30) <= SLOTS + PLACES);
        finish_all(stage, 0, 33);
        stage_free(stage);
    }
}

/* Before a worker has said what its model is called, too: whoever comes first takes nobody's share. */
TEST(queue_has_shares_before_a_model_is_known) {
    struct stage *stage = queue_without_workers(PLACES);
    ask_many(stage, 0, 30, 1);
    turn(stage);
    EXPECT_EQ(taken(stage, 0, 30), PLACES);
    ask_many(stage, 30, 10, 2);
    turn(stage);
    EXPECT_EQ(taken(stage, 30, 10), PLACES / 2);
    ask_many(stage, 40, 10, 3);
    ask_many(stage, 50, 10, 1);
    turn(stage);
    EXPECT_EQ(taken(stage, 40, 10), PLACES / 3);
    EXPECT_EQ(taken(stage, 50, 10), 0);
    add_worker(stage);
    turn(stage);
    ask_many(stage, 60, 4, 4);
    turn(stage);
    EXPECT_EQ(taken(stage, 60, 4), PLACES / 4);
    finish_all(stage, 0, 64);
    stage_free(stage);
}

/* A request takes as many places as it has choices, those included whose first one runs already. */
TEST(queue_counts_choices) {
    struct stage *stage = queue_of(PLACES);
    for (uint32_t i = 0; i < 10; i++)
        ask(stage, i, 1, 4);
    turn(stage);
    /* two run a choice each, six wait behind them, and one more request was whole */
    EXPECT_EQ(taken(stage, 0, 10), 2);
    ask(stage, 10, 2, 4);
    turn(stage);
    EXPECT_EQ(taken(stage, 10, 1), 1);
    ask(stage, 11, 2, 1);
    ask(stage, 12, 3, 3);
    turn(stage);
    EXPECT_EQ(taken(stage, 11, 2), 0);
    ask(stage, 13, 3, 2);
    turn(stage);
    EXPECT_EQ(taken(stage, 13, 1), 1);
    finish_all(stage, 0, 14);
    stage_free(stage);
}

/* Whether anything runs is asked however many wait, of the same tenant (none) too. */
/* Refused for want of a model or by a drain, and sent again: no way round the bound. */
TEST(queue_is_full_for_what_was_never_taken) {
    struct stage *stage = queue_of(PLACES);
    ask_many(stage, 0, PLACES + SLOTS, 1);
    turn(stage);
    for (uint32_t k = 0; k < 2; k++) {
        struct wire_submit submit = stage_submit(stage, 20 + k, 20, 6, 20);
        submit.tenant = (struct u128){1, 0};
        submit.attempt = stage->requests[20 + k].attempt = 1;
        submit.resumed = k;
        stage_send(stage, &submit);
    }
    turn(stage);
    EXPECT_EQ(stage->requests[20].reject, WIRE_REJECT_OVERLOADED);
    EXPECT_EQ(stage->requests[21].reject, 0);
    finish_all(stage, 0, PLACES + SLOTS);
    stage_free(stage);
}

TEST(queue_is_never_full_for_a_probe) {
    struct stage *stage = queue_of(PLACES);
    ask_many(stage, 0, 30, 0);
    turn(stage);
    struct wire_submit probe = stage_submit(stage, 40, 1, 1, 40);
    probe.priority = WIRE_PRIORITY_PROBE;
    stage_send(stage, &probe);
    turn(stage);
    EXPECT_EQ(taken(stage, 40, 1), 1);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 40, 0, 1));
    stage_free(stage);
}

/* Of the only model's queue: what a tenant has in it, and how many tenants have something. */
static uint32_t look(const struct stage *stage, uint64_t tenant, uint32_t *sharers) {
    const struct request *request;
    uint32_t own = 0, held[TENANTS + 1] = {0};
    for (size_t i = 0; i < stage->s->request_ids.cap; i++) {
        if (!(request = stage->s->request_ids.entries[i].value))
            continue;
        for (uint32_t k = 0; k < request->sequence_count; k++)
            held[request->tenant_id.lo] += !request->sequences[k].started;
    }
    *sharers = 0;
    for (uint64_t i = 1; i <= TENANTS; i++) {
        *sharers += held[i] || i == tenant;
        own += i == tenant ? held[i] : 0;
    }
    return own;
}

/* Six tenants, at random: nobody within its share is refused, and (sched_check) nobody past it is
 * taken while more wait than there are places. */
TEST(queue_shares_hold_at_random) {
    struct stage *stage = queue_of(PLACES);
    uint32_t next = 0, refused = 0, beyond = 0, ignored;
    for (uint32_t round = 0; round < 300; round++) {
        uint64_t draw = check_random(), tenant = 1 + draw % TENANTS;
        uint32_t choices = 1 + (uint32_t)(draw >> 8) % 3, count = (uint32_t)(draw >> 16) % 6;
        uint32_t first = next, sharers;
        look(stage, tenant, &sharers);
        for (uint32_t i = 0; i < count; i++)
            ask(stage, next++, tenant, choices);
        turn(stage);
        for (uint32_t i = first; i < next; i++) {
            refused += stage->requests[i].reject != 0;
            EXPECT(!stage->requests[i].reject ||
                   look(stage, tenant, &ignored) + choices > PLACES / sharers);
        }
        beyond += sched_counts(stage->s).waiting > PLACES;
        for (uint64_t i = 0; i < (draw >> 32) % 4; i++)
            stage_answer(stage, &stage->workers[0]);
    }
    EXPECT(refused > next / 20 && refused < next && beyond > 10);
    finish_all(stage, 0, next);
    stage_free(stage);
}
