/* test_core_quota.c - what one tenant may take, with virtual time. */
#include "stage.h"

#include "scheduler/core/core.h"
#include "scheduler/core/quota.h"
#include "scheduler/core/request.h"

static struct stage *one_worker(void) {
    struct stage *stage = stage_new(NULL);
    CHECK(stage_hello(stage, stage_worker(stage, 0)) == 0);
    return stage;
}

/* Asks for a tenant with these bounds; what was said by the end of the turn. */
static uint32_t ask(struct stage *stage, uint32_t idx, uint64_t tenant, uint32_t requests,
                    uint32_t minute_tokens, uint32_t prompt, uint32_t output) {
    struct wire_submit submit = stage_submit(stage, idx, prompt, output, idx);
    submit.tenant = (struct u128){tenant, 0};
    submit.tenant_requests = requests;
    submit.tenant_minute_tokens = minute_tokens;
    stage_send(stage, &submit);
    stage_run(stage);
    return stage->requests[idx].reject;
}

TEST(quota_bounds_requests_at_one_time) {
    struct stage *stage = one_worker();
    EXPECT_EQ(ask(stage, 0, 1, 2, 0, 20, 6), 0);
    EXPECT_EQ(ask(stage, 1, 1, 2, 0, 20, 6), 0);
    EXPECT_EQ(ask(stage, 2, 1, 2, 0, 20, 6), WIRE_REJECT_TENANT_REQUESTS);
    EXPECT(stage->requests[2].retry_after_ms > 0);
    EXPECT_EQ(ask(stage, 3, 2, 2, 0, 20, 6), 0); /* another's are another's */
    EXPECT_EQ(ask(stage, 4, 1, 3, 0, 20, 6), 0); /* the last bound told counts */
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 6) && stage_is_right(stage, 1, 0, 6));
    EXPECT_EQ(ask(stage, 5, 1, 2, 0, 20, 6), 0); /* they have ended */
    EXPECT_EQ(ask(stage, 6, 1, 2, 0, 20, 6), 0);
    EXPECT_EQ(ask(stage, 7, 1, 2, 0, 20, 6), WIRE_REJECT_TENANT_REQUESTS);
    struct wire_cancel cancel = {.request = stage_id(5), .choice = WIRE_ALL_CHOICES};
    sched_cancel(stage->s, stage->now, stage->gateway, &cancel);
    EXPECT_EQ(ask(stage, 8, 1, 2, 0, 20, 6), 0);
    stage_finish(stage);
    EXPECT_EQ(sched_counts(stage->s).rejected[WIRE_REJECT_TENANT_REQUESTS], 2);
    stage_free(stage);
}

/* A minute's tokens are prompts and output; what was used past them is paid back before another is
 * taken, and Retry-After says when that is. */
TEST(quota_bounds_tokens_of_a_minute) {
    struct stage *stage = one_worker();
    EXPECT_EQ(ask(stage, 0, 1, 0, 600, 580, 40), 0); /* 20 are left, and 40 come */
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 40));
    int64_t spent_at = stage->now;
    EXPECT_EQ(ask(stage, 1, 1, 0, 600, 20, 4), WIRE_REJECT_TENANT_TOKENS);
    int64_t retry_ms = stage->requests[1].retry_after_ms;
    /* 620 of 600 are used, 10 a second come back, but for the time that the answer took */
    EXPECT(retry_ms > 2000 - (spent_at - 1000) && retry_ms <= 2200);
    EXPECT_EQ(ask(stage, 2, 2, 0, 600, 20, 4), 0);
    stage->now += retry_ms - 200;
    EXPECT_EQ(ask(stage, 3, 1, 0, 600, 20, 4), WIRE_REJECT_TENANT_TOKENS);
    stage->now += 200;
    EXPECT_EQ(ask(stage, 4, 1, 0, 600, 20, 4), 0);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 4, 0, 4));
    stage_free(stage);
}

/* Ten minutes of a client that asks whenever it may: as many tokens as the bound says. */
TEST(quota_holds_over_time) {
    struct stage *stage = one_worker();
    uint64_t used = 0;
    uint32_t idx = 0;
    int64_t begin = stage->now, end = begin + 600000;
    while (stage->now < end && idx < STAGE_REQUESTS - 1) {
        if (ask(stage, idx, 1, 0, 3000, 90, 10)) {
            stage->now += stage->requests[idx].retry_after_ms;
        } else {
            stage_finish(stage);
            used += 100;
        }
        idx++;
    }
    double minutes = (double)(stage->now - begin) / 60000;
    EXPECT(stage->now >= end);
    EXPECT(used >= (uint64_t)(3000 * minutes) && used <= (uint64_t)(3000 * (minutes + 1)) + 100);
    stage_free(stage);
}

TEST(quota_refuses_nothing_that_was_taken_before) {
    struct stage *stage = one_worker();
    EXPECT_EQ(ask(stage, 0, 1, 1, 100, 90, 20), 0);
    struct wire_submit submit = stage_submit(stage, 1, 50, 4, 1);
    submit.tenant = (struct u128){1, 0};
    submit.tenant_requests = 1;
    submit.tenant_minute_tokens = 100;
    submit.resumed = true; /* of a scheduler before this one */
    stage_send(stage, &submit);
    stage_run(stage);
    EXPECT_EQ(stage->requests[1].reject, 0);
    submit = stage_submit(stage, 2, 50, 4, 2); /* a further prompt of a request */
    submit.tenant = (struct u128){1, 0};
    submit.tenant_requests = 1;
    submit.tenant_taken = true;
    stage_send(stage, &submit);
    stage_run(stage);
    EXPECT_EQ(stage->requests[2].reject, 0);
    EXPECT_EQ(ask(stage, 3, 1, 2, 0, 20, 4), WIRE_REJECT_TENANT_REQUESTS); /* both count */
    stage_finish(stage);
    stage_free(stage);
}

/* It was refused for now (no model, a drain), and is sent again: as new as it was. */
TEST(quota_holds_for_what_was_never_taken) {
    struct stage *stage = one_worker();
    EXPECT_EQ(ask(stage, 0, 1, 1, 0, 20, 4), 0);
    struct wire_submit submit = stage_submit(stage, 1, 20, 4, 1);
    submit.tenant = (struct u128){1, 0};
    submit.tenant_requests = 1;
    submit.attempt = stage->requests[1].attempt = 1;
    stage_send(stage, &submit);
    stage_run(stage);
    EXPECT_EQ(stage->requests[1].reject, WIRE_REJECT_TENANT_REQUESTS);
    stage_finish(stage);
    stage_free(stage);
}

/* What is refused for another reason costs nothing. */
TEST(quota_gives_back_what_was_not_taken) {
    struct sched_config config;
    sched_config_default(&config);
    config.waiting_max = 1;
    struct stage *stage = stage_new(&config);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 1;
    CHECK(stage_hello(stage, w) == 0);
    EXPECT_EQ(ask(stage, 0, 2, 0, 0, 20, 200), 0);
    EXPECT_EQ(ask(stage, 1, 2, 0, 0, 20, 4), 0);
    for (uint32_t i = 2; i < 10; i++)
        EXPECT_EQ(ask(stage, i, 1, 1, 1000, 900, 4), WIRE_REJECT_OVERLOADED);
    stage_finish(stage);
    EXPECT_EQ(ask(stage, 10, 1, 1, 1000, 900, 4), 0);
    stage_finish(stage);
    stage_free(stage);
}

/* And no more than it took: what others of the tenant used stays used. */
TEST(quota_gives_back_no_more_than_was_taken) {
    struct stage *stage = one_worker();
    EXPECT_EQ(ask(stage, 0, 1, 0, 6000, 2000, 4), 0);
    EXPECT_EQ(ask(stage, 1, 1, 0, 6000, 3000, 4), WIRE_REJECT_TOO_LONG);
    EXPECT_EQ(ask(stage, 2, 1, 0, 6000, 2000, 4), 0);
    EXPECT_EQ(ask(stage, 3, 1, 0, 6000, 2000, 4), 0);
    EXPECT_EQ(ask(stage, 4, 1, 0, 6000, 20, 4), WIRE_REJECT_TENANT_TOKENS);
    stage_finish(stage);
    stage_free(stage);
}

/* Of two tenants that always want more, one has three times the other's weight. */
TEST(quota_weights_share_the_steps) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 2;
    w->hello.steps_in_flight = 1;
    CHECK(stage_hello(stage, w) == 0);
    for (uint32_t i = 0; i < 200; i++) {
        struct wire_submit submit = stage_submit(stage, i, 20, 6, i);
        submit.tenant = (struct u128){1 + i % 2, 0};
        submit.tenant_weight = i % 2 ? 300 : 100;
        stage_send(stage, &submit);
    }
    uint32_t ended[2] = {0};
    for (int turn = 0; turn < 5000 && ended[0] + ended[1] < 100; turn++) {
        stage_run(stage);
        stage_answer(stage, w);
        stage->now++;
        ended[0] = ended[1] = 0;
        for (uint32_t i = 0; i < 200; i++)
            ended[i % 2] += stage->requests[i].choices[0].finish != 0;
    }
    EXPECT_EQ(ended[0] + ended[1], 100);
    EXPECT(ended[1] >= 72 && ended[1] <= 78);
    stage_finish(stage);
    stage_free(stage);
}

/* ---- exact figures, without a scheduler around them ---- */

/* A request of tenant 1 with these bounds and so many tokens of prompt. */
static struct wire_submit bounds(uint32_t requests, uint32_t minute_tokens) {
    return (struct wire_submit){
        .tenant = {1, 0}, .tenant_requests = requests, .tenant_minute_tokens = minute_tokens};
}

static struct request *taken(struct sched *s, const struct wire_submit *submit, uint32_t prompt) {
    struct request *request = mem_calloc(1, sizeof *request);
    request->prompt.count = prompt;
    quota_take(s, request, submit);
    return request;
}

static void leave(struct sched *s, struct request *request) {
    quota_leave(s, request);
    mem_free(request);
}

/* Why one more is refused, and after how long to ask again. */
static uint32_t checked(struct sched *s, const struct wire_submit *submit, uint32_t *retry_ms) {
    return quota_check(s, submit, retry_ms);
}

TEST(quota_is_empty_at_nothing_left_and_tells_when_there_is_one_token) {
    struct sched s = {.now = 5000};
    struct wire_submit submit = bounds(0, 600); /* one in 100 ms */
    uint32_t retry;
    quotas_init(&s.quotas);
    EXPECT_EQ(checked(&s, &submit, &retry), 0);
    struct request *a = taken(&s, &submit, 599);
    EXPECT_EQ(checked(&s, &submit, &retry), 0);
    quota_charge(&s, a, 1);
    EXPECT_EQ(checked(&s, &submit, &retry), WIRE_REJECT_TENANT_TOKENS);
    EXPECT_EQ(retry, 100);
    quota_charge(&s, a, 20);
    EXPECT_EQ(checked(&s, &submit, &retry), WIRE_REJECT_TENANT_TOKENS);
    EXPECT_EQ(retry, 2100);
    s.now += 2000;
    EXPECT_EQ(checked(&s, &submit, &retry), WIRE_REJECT_TENANT_TOKENS);
    EXPECT_EQ(retry, 100);
    s.now += 1;
    EXPECT_EQ(checked(&s, &submit, &retry), 0);
    submit.tenant_taken = true; /* what was counted already is not asked */
    quota_charge(&s, a, 100);
    EXPECT_EQ(checked(&s, &submit, &retry), 0);
    submit.tenant_taken = false;
    submit.priority = WIRE_PRIORITY_PROBE;
    EXPECT_EQ(checked(&s, &submit, &retry), 0);
    leave(&s, a);
    quotas_release(&s.quotas);
}

TEST(quota_asks_nobody_to_wait_longer_than_ten_minutes) {
    struct sched s = {.now = 5000};
    struct wire_submit submit = bounds(0, 1);
    uint32_t retry;
    quotas_init(&s.quotas);
    struct request *a = taken(&s, &submit, 9);
    EXPECT_EQ(checked(&s, &submit, &retry), WIRE_REJECT_TENANT_TOKENS);
    EXPECT_EQ(retry, 540000); /* eight are owed, and one more */
    quota_charge(&s, a, 1);
    EXPECT_EQ(checked(&s, &submit, &retry), WIRE_REJECT_TENANT_TOKENS);
    EXPECT_EQ(retry, 600000);
    quota_charge(&s, a, 1);
    EXPECT_EQ(checked(&s, &submit, &retry), WIRE_REJECT_TENANT_TOKENS);
    EXPECT_EQ(retry, 600000);
    leave(&s, a);
    quotas_release(&s.quotas);
}

TEST(quota_holds_no_more_than_a_minute_and_keeps_what_is_owed) {
    struct sched s = {.now = 5000};
    struct wire_submit submit = bounds(0, 600);
    uint32_t retry;
    quotas_init(&s.quotas);
    struct request *a = taken(&s, &submit, 0);
    s.now += 600000; /* it was full, and is */
    EXPECT_EQ(checked(&s, &submit, &retry), 0);
    EXPECT(a->quota->left == 600);
    quota_charge(&s, a, 610);
    submit = bounds(0, 1200); /* more a minute from now on: ten are owed still */
    EXPECT_EQ(checked(&s, &submit, &retry), 0);
    EXPECT(a->quota->left == 590);
    submit = bounds(0, 600);
    EXPECT_EQ(checked(&s, &submit, &retry), WIRE_REJECT_TENANT_TOKENS);
    EXPECT(a->quota->left == -10 && retry == 1100);
    submit = bounds(3, 0); /* no bound of tokens any more */
    EXPECT_EQ(checked(&s, &submit, &retry), 0);
    quota_charge(&s, a, 1000);
    EXPECT_EQ(checked(&s, &submit, &retry), 0);
    leave(&s, a);
    quotas_release(&s.quotas);
}

TEST(quota_counts_each_open_request_once) {
    struct sched s = {.now = 5000};
    struct wire_submit submit = bounds(2, 0), more = bounds(2, 0);
    uint32_t retry;
    quotas_init(&s.quotas);
    struct request *a = taken(&s, &submit, 1), *b;
    EXPECT_EQ(checked(&s, &submit, &retry), 0);
    more.tenant_taken = true; /* a further prompt of a request that counts */
    b = taken(&s, &more, 1);
    EXPECT(a->quota == b->quota && a->quota->open == 1);
    quota_reopen(a);
    quota_reopen(b);
    EXPECT_EQ(a->quota->open, 1);
    struct request *c = taken(&s, &submit, 1);
    EXPECT_EQ(checked(&s, &submit, &retry), WIRE_REJECT_TENANT_REQUESTS);
    EXPECT_EQ(retry, 1000);
    quota_close(c);
    quota_close(c);
    EXPECT(c->quota->open == 1 && !checked(&s, &submit, &retry));
    quota_reopen(c);
    EXPECT_EQ(checked(&s, &submit, &retry), WIRE_REJECT_TENANT_REQUESTS);
    leave(&s, c); /* closes it */
    EXPECT_EQ(a->quota->open, 1);
    leave(&s, b);
    leave(&s, a);
    EXPECT_EQ(s.quotas.ids.count, 1); /* remembered while it is idle */
    struct request *d = taken(&s, &submit, 1);
    EXPECT(s.quotas.ids.count == 1 && d->quota->open == 1);
    leave(&s, d);
    quotas_release(&s.quotas);
    EXPECT_EQ(s.quotas.ids.count, 0);
}

/* Those without requests are forgotten once nothing is missing of their minute. */
TEST(quota_forgets_who_owes_nothing) {
    struct sched s = {.now = 5000};
    quotas_init(&s.quotas);
    for (uint64_t i = 1; i <= 3; i++) {
        struct wire_submit submit = bounds(0, 600);
        submit.tenant = (struct u128){i, 5};
        leave(&s, taken(&s, &submit, 10));
    }
    EXPECT_EQ(s.quotas.ids.count, 3);
    s.now += 1000; /* all have their ten back */
    struct wire_submit submit = bounds(0, 600);
    struct request *a = taken(&s, &submit, 10);
    EXPECT_EQ(s.quotas.ids.count, 1);
    leave(&s, a);
    quotas_release(&s.quotas);
}

/* And of those who owe something so many are remembered: who has been idle longest is forgotten first. */
TEST(quota_remembers_so_many_who_are_idle) {
    struct sched s = {.now = 5000};
    struct wire_submit submit = bounds(0, 600);
    quotas_init(&s.quotas);
    for (uint64_t i = 1; i <= QUOTA_IDLE_MAX + 2; i++) {
        submit.tenant = (struct u128){i, 5};
        leave(&s, taken(&s, &submit, 10));
        EXPECT_EQ(s.quotas.ids.count, MIN(i, (uint64_t)QUOTA_IDLE_MAX));
    }
    for (uint64_t i = 1; i <= 3; i++) { /* the first two are as new */
        submit.tenant = (struct u128){4 - i, 5};
        struct request *a = taken(&s, &submit, 10);
        EXPECT(a->quota->left == (i == 1 ? 580 : 590));
        leave(&s, a);
    }
    quotas_release(&s.quotas);
}

TEST(quota_gives_a_prompt_back_as_far_as_there_is_room) {
    struct sched s = {.now = 5000};
    struct wire_submit submit = bounds(1, 600);
    quotas_init(&s.quotas);
    struct request *a = taken(&s, &submit, 500);
    EXPECT(a->quota->left == 100 && a->quota->open == 1);
    s.now += 10000; /* 100 more */
    quota_undo(&s, a);
    EXPECT(a->quota->left == 600 && a->quota->open == 0); /* not 700 */
    leave(&s, a);
    a = taken(&s, &submit, 500);
    quota_undo(&s, a);
    EXPECT(a->quota->left == 600);
    leave(&s, a);
    quotas_release(&s.quotas);
}

/* Tenants whose ids differ in one bit are two, and nobody is one. */
TEST(quota_is_of_one_tenant_alone) {
    static const struct u128 IDS[] = {{7, 2}, {7, 3}, {6, 2}, {0, 0}, {0, 1}};
    struct sched s = {.now = 5000};
    struct wire_submit submit = bounds(1, 600);
    struct request *requests[ARRAY_LEN(IDS)];
    quotas_init(&s.quotas);
    for (size_t i = 0; i < ARRAY_LEN(IDS); i++) {
        submit.tenant = IDS[i];
        requests[i] = taken(&s, &submit, 10);
        EXPECT(s.quotas.ids.count == i + 1 && requests[i]->quota->open == 1);
    }
    for (size_t i = 0; i < ARRAY_LEN(IDS); i++)
        leave(&s, requests[i]);
    quotas_release(&s.quotas);
}

/* What another scheduler took already is open, and its prompt is paid. */
TEST(quota_charges_no_prompt_twice) {
    struct sched s = {.now = 5000};
    struct wire_submit submit = bounds(2, 600);
    quotas_init(&s.quotas);
    struct request *request = mem_calloc(1, sizeof *request);
    request->prompt.count = 100;
    request->resumed = true;
    quota_take(&s, request, &submit);
    EXPECT(request->quota->left == 600 && request->quota->open == 1);
    quota_undo(&s, request);
    EXPECT(request->quota->left == 600 && request->quota->open == 0);
    leave(&s, request);
    quotas_release(&s.quotas);
}

TEST(quota_cost_is_by_weight) {
    struct request request = {0};
    EXPECT_EQ(quota_cost(&request, 7), 700);
    request.weight = 100;
    EXPECT_EQ(quota_cost(&request, 7), 700);
    request.weight = 300;
    EXPECT_EQ(quota_cost(&request, 3), 100);
    request.weight = 1;
    EXPECT_EQ(quota_cost(&request, UINT32_MAX), UINT64_C(42949672950000));
}
