/* test_core_share.c - who shares turns, places, slots and steps where no key is asked: addresses. */
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "stage.h"

static struct stage *one_worker(uint32_t slots, uint32_t places) {
    struct sched_config config;
    sched_config_default(&config);
    config.waiting_max = places;
    struct stage *stage = stage_new(&config);
    stage_worker(stage, 0)->hello.slot_count = slots;
    CHECK(stage_hello(stage, &stage->workers[0]) == 0);
    return stage;
}

/* Without a key; of this address. */
static void ask(struct stage *stage, uint32_t idx, uint64_t address, uint32_t max_tokens) {
    struct wire_submit submit = stage_submit(stage, idx, 10, max_tokens, idx);
    submit.share = (struct u128){address, 9};
    stage_send(stage, &submit);
}

static void turns(struct stage *stage, int count) {
    for (int i = 0; i < count; i++) {
        stage_run(stage);
        sched_check(stage->s);
        const struct stage_worker *w = &stage->workers[0];
        for (size_t row = 0; w->results.count && row < w->results.items[0].row_count; row++)
            stage->now += w->results.items[0].lens[row] * w->ms_per_token;
        stage_answer(stage, &stage->workers[0]);
    }
}

/* Thirty of one address came first, then ten of another: when those have ended, so have as many. */
TEST(share_addresses_take_turns) {
    struct stage *stage = one_worker(2, 1000);
    uint32_t done[2] = {0};
    bool seen[40] = {0};
    for (uint32_t i = 0; i < 40; i++)
        ask(stage, i, i < 30 ? 1 : 2, 4);
    for (int turn = 0; turn < 1000 && done[1] < 10; turn++) {
        turns(stage, 1);
        for (uint32_t i = 0; i < 40; i++)
            if (stage->requests[i].choices[0].finish && !seen[i]) {
                seen[i] = true;
                done[i >= 30]++;
            }
    }
    EXPECT_EQ(done[1], 10);
    EXPECT(done[0] >= 8 && done[0] <= 13);
    stage_finish(stage);
    stage_free(stage);
}

static uint32_t accepted(const struct stage *stage, uint32_t first, uint32_t count) {
    uint32_t sum = 0;
    for (uint32_t i = first; i < first + count; i++)
        sum += stage->requests[i].accepted;
    return sum;
}

TEST(share_addresses_have_places_in_the_queue) {
    struct stage *stage = one_worker(2, 12);
    for (uint32_t i = 0; i < 30; i++)
        ask(stage, i, 1, 6);
    turns(stage, 1);
    EXPECT_EQ(accepted(stage, 0, 30), 2 + 12);
    for (uint32_t i = 30; i < 40; i++)
        ask(stage, i, 2, 6);
    turns(stage, 1);
    EXPECT_EQ(accepted(stage, 30, 10), 6);
    stage_finish(stage);
    stage_free(stage);
}

/* Before the model is known, too. */
TEST(share_addresses_have_places_before_a_worker_is_there) {
    struct sched_config config;
    sched_config_default(&config);
    config.waiting_max = 12;
    struct stage *stage = stage_new(&config);
    for (uint32_t i = 0; i < 30; i++)
        ask(stage, i, 1, 6);
    stage_run(stage);
    for (uint32_t i = 30; i < 40; i++)
        ask(stage, i, 2, 6);
    stage_run(stage);
    CHECK(stage_hello(stage, stage_worker(stage, 0)) == 0);
    stage_finish(stage);
    EXPECT_EQ(accepted(stage, 0, 30), 12);
    EXPECT_EQ(accepted(stage, 30, 10), 6);
    stage_free(stage);
}

/* One that has all slots for long answers gives one up. */
TEST(share_addresses_have_slots) {
    struct stage *stage = one_worker(3, 1000);
    for (uint32_t i = 0; i < 3; i++)
        ask(stage, i, 1, 300);
    turns(stage, 4);
    ask(stage, 10, 2, 4);
    turns(stage, 1);
    stage->now += stage->config.slot_wait_ms;
    turns(stage, 12);
    EXPECT(stage->requests[10].choices[0].finish != 0);
    EXPECT_EQ(sched_counts(stage->s).preemptions, 1);
    stage_ends_right(stage, 3, 300);
}

/* Where rows cost what they compute, a step has two or three rows beside one of another address, not
 * thirteen. */
TEST(share_addresses_have_parts_of_a_step) {
    struct stage *stage = one_worker(16, 1000);
    struct stage_worker *w = &stage->workers[0];
    w->ms_per_token = 5;
    for (uint32_t i = 0; i < 12; i++)
        ask(stage, i, 1, 300);
    turns(stage, 30);
    ask(stage, 20, 2, 60);
    turns(stage, 20);
    size_t before = stage->requests[20].choices[0].tokens.count;
    for (int i = 0; i < 20; i++) {
        turns(stage, 1);
        for (size_t k = 0; k < w->results.count; k++)
            EXPECT(w->results.items[k].row_count <= 3);
    }
    EXPECT_EQ(stage->requests[20].choices[0].tokens.count, before + 20);
    stage_finish(stage);
    stage_free(stage);
}

/* Prefixes and bounds are the tenant's, whoever shares: here of all that come without a key. */
TEST(share_leaves_prefixes_and_bounds_to_the_tenant) {
    struct stage *stage = one_worker(16, 1000);
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_submit submit = stage_submit(stage, i, 100, 2, 7);
        submit.share = (struct u128){1 + i, 9};
        stage_send(stage, &submit);
        stage_finish(stage);
        EXPECT_EQ(stage->requests[i].choices[0].cached, i ? 96 : 0);
    }
    for (uint32_t i = 2; i < 4; i++) {
        struct wire_submit submit = stage_submit(stage, i, 10, 6, i);
        submit.share = (struct u128){i, 9};
        submit.tenant_requests = 1;
        stage_send(stage, &submit);
        stage_run(stage);
        EXPECT_EQ(stage->requests[i].reject, i == 2 ? 0 : WIRE_REJECT_TENANT_REQUESTS);
    }
    stage_finish(stage);
    stage_free(stage);
}

/* A gateway that tells none, and one that tells the tenant, mean the same. */
TEST(share_that_is_not_told_is_the_tenants) {
    struct stage *stage = one_worker(2, 1000);
    for (uint32_t i = 0; i < 3; i++) {
        struct wire_submit submit = stage_submit(stage, i, 10, 6, i);
        submit.tenant = (struct u128){5, 5};
        if (i == 1)
            submit.share = submit.tenant;
        if (i == 2)
            submit.share = (struct u128){6, 6};
        stage_send(stage, &submit);
    }
    stage_run(stage);
    EXPECT_EQ(model_find(stage->s, bytes_str(""))->waiting.tenants.count, 2);
    stage_finish(stage);
    stage_free(stage);
}

static void ask_once(struct stage *stage, uint32_t idx, uint64_t address, uint32_t prompt) {
    struct wire_submit submit = stage_submit(stage, idx, 800, 2, prompt);
    submit.tenant = (struct u128){address, 9};
    stage_send(stage, &submit);
    stage_finish(stage);
}

/* 256 blocks; two prompts of 50 each come again behind 20 others of another tenant, as many as fill
 * them four times. */
TEST(share_of_cached_prefixes_outlives_a_flood) {
    struct stage *stage = one_worker(4, 1000);
    uint32_t idx = 0;
    for (uint32_t prompt = 0; prompt < 2; prompt++)
        ask_once(stage, idx++, 1, prompt);
    for (uint32_t prompt = 0; prompt < 20; prompt++)
        ask_once(stage, idx++, 2, 100 + prompt);
    for (uint32_t prompt = 0; prompt < 2; prompt++) {
        ask_once(stage, idx, 1, prompt);
        EXPECT_EQ(stage->requests[idx++].choices[0].cached, 784);
    }
    sched_check(stage->s);
    stage_free(stage);
}
