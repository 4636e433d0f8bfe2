/* test_core_block_share.c - who has which part of the KV blocks when they run out. */
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "stage.h"

enum { BLOCKS = 32 }; /* of 16 positions */

static struct stage *crowded(uint32_t slots) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = slots;
    w->group.block_count = BLOCKS;
    w->hello.max_context = BLOCKS * 16;
    CHECK(stage_hello(stage, w) == 0);
    return stage;
}

/* Of this address; no two prompts begin alike. */
static void ask(struct stage *stage, uint32_t idx, uint64_t address, uint32_t prompt,
                uint32_t max_tokens) {
    struct wire_submit submit = stage_submit(stage, idx, prompt, max_tokens, idx);
    submit.share = (struct u128){address, 9};
    stage_send(stage, &submit);
}

static bool has_ended(const struct stage *stage, uint32_t idx) {
    return stage->requests[idx].choices[0].finish != 0;
}

static void turns(struct stage *stage, int count) {
    for (int i = 0; i < count; i++) {
        stage_run(stage);
        stage->now++;
        stage_answer(stage, &stage->workers[0]);
    }
}

/* Turns until this one has ended; `most`: it has not. */
static int turns_until_end(struct stage *stage, uint32_t idx, int most) {
    int count = 0;
    for (; count < most && !has_ended(stage, idx); count++)
        turns(stage, 1);
    return count;
}

/* `count` of an address, whose answers need all blocks several times over, have begun and used them up. */
static void begin_crowd(struct stage *stage, uint32_t first, uint32_t count, uint64_t address) {
    for (uint32_t i = first; i < first + count; i++)
        ask(stage, i, address, 10, 200);
    uint64_t before = sched_counts(stage->s).preemptions;
    while (sched_counts(stage->s).preemptions < before + 2)
        turns(stage, 1);
    EXPECT(sched_counts(stage->s).blocks_used + 2 >= BLOCKS);
}

static uint64_t preemptions(const struct stage *stage) {
    return sched_counts(stage->s).preemptions;
}

/* Once it has waited as for a slot, one short request takes a few turns more than what it computes. */
TEST(block_share_newcomer_has_its_block) {
    struct stage *stage = crowded(16);
    begin_crowd(stage, 0, 16, 1);
    ask(stage, 20, 2, 10, 4);
    turns(stage, 1);
    stage->now += stage->config.slot_wait_ms;
    EXPECT(turns_until_end(stage, 20, 100) <= 10);
    stage_ends_right(stage, 16, 200);
}

/* A long prompt and its answer, half of all blocks, beside a crowd that grows all the time: it is let in, and
 * keeps its slot to the end. */
TEST(block_share_newcomer_has_half_of_the_blocks) {
    struct stage *stage = crowded(16);
    begin_crowd(stage, 0, 16, 1);
    ask(stage, 20, 2, 190, 50);
    turns(stage, 1);
    stage->now += stage->config.slot_wait_ms;
    EXPECT(turns_until_end(stage, 20, 200) <= 50 + 12);
    EXPECT(stage_is_right(stage, 20, 0, 50));
    stage_ends_right(stage, 16, 200);
}

/* One at a time: whose tenant has a slot waits, and puts nobody out. */
TEST(block_share_is_for_the_first_of_a_tenant) {
    struct stage *stage = crowded(16);
    begin_crowd(stage, 0, 16, 1);
    ask(stage, 20, 2, 20, 60);
    ask(stage, 21, 2, 20, 4);
    turns(stage, 1);
    stage->now += stage->config.slot_wait_ms;
    turns(stage, 20);
    EXPECT(stage->requests[20].choices[0].tokens.count > 10);
    EXPECT_EQ(stage->requests[21].choices[0].tokens.count, 0);
    EXPECT(turns_until_end(stage, 20, 100) <= 60);
    EXPECT(turns_until_end(stage, 21, 100) <= 20);
    stage_ends_right(stage, 16, 200);
}

/* All came in while there was room, the crowd first. As they grow and nothing is left, it gives way to two
 * later ones of another address, which have a third of the blocks at most and get on in every step. */
TEST(block_share_growth_takes_from_the_crowd) {
    struct stage *stage = crowded(16);
    for (uint32_t i = 0; i < 12; i++)
        ask(stage, i, 1, 10, 200);
    ask(stage, 20, 2, 10, 60);
    ask(stage, 21, 2, 10, 60);
    turns(stage, 60 + 12);
    EXPECT(preemptions(stage) > 2);
    EXPECT(stage_is_right(stage, 20, 0, 60) && stage_is_right(stage, 21, 0, 60));
    stage_ends_right(stage, 12, 200);
}

/* Whoever ran before and came later than the crowd is treated alike when it waits again: its worker is
 * gone, and on the next one there is room for a part of all. */
TEST(block_share_of_what_ran_before) {
    struct stage *stage = crowded(16);
    ask(stage, 20, 2, 100, 150);
    for (uint32_t i = 0; i < 12; i++)
        ask(stage, i, 1, 10, 200);
    turns(stage, 30);
    EXPECT(sched_counts(stage->s).running > 1);
    sched_worker_silent(stage->s, stage->now, stage->workers[0].instance);
    stage->workers[0].results.count = 0;
    struct stage_worker *next = stage_worker(stage, 1);
    next->hello.slot_count = 16;
    next->hello.max_context = BLOCKS * 16;
    next->group.block_count = BLOCKS;
    EXPECT_EQ(stage_hello(stage, next), 0);
    stage->now += stage->config.slot_wait_ms;
    int count = 0;
    for (; count < 400 && !has_ended(stage, 20); count++) {
        stage_run(stage);
        stage->now++;
        stage_answer(stage, next);
    }
    EXPECT(count <= 150 + 30);
    stage_ends_right(stage, 12, 200);
}

/* One long answer, most of the blocks: who comes later does not end it, but waits. */
TEST(block_share_takes_nothing_from_the_only_one_of_a_tenant) {
    struct stage *stage = crowded(16);
    ask(stage, 0, 1, 440, 60);
    turns(stage, 5);
    ask(stage, 1, 2, 200, 4);
    turns(stage, 1);
    stage->now += stage->config.slot_wait_ms;
    while (!has_ended(stage, 0))
        turns(stage, 1);
    EXPECT_EQ(preemptions(stage), 0);
    EXPECT(!has_ended(stage, 1));
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 60) && stage_is_right(stage, 1, 0, 4));
    stage_free(stage);
}

/* Two crowds: both get on, as far as each other, and do not put each other out in turns. */
TEST(block_share_of_two_crowds) {
    struct stage *stage = crowded(16);
    for (uint32_t i = 0; i < 20; i++)
        ask(stage, i, 1 + i / 10, 10, 150);
    uint32_t done[2] = {0};
    for (int turn = 0; turn < 10000 && done[0] + done[1] < 20; turn++) {
        turns(stage, 1);
        done[0] = done[1] = 0;
        for (uint32_t i = 0; i < 20; i++)
            done[i / 10] += has_ended(stage, i);
        EXPECT(done[0] <= done[1] + 4 && done[1] <= done[0] + 4);
    }
    EXPECT_EQ(done[0] + done[1], 20);
    EXPECT(preemptions(stage) <= 4 * 20);
    stage_ends_right(stage, 20, 150);
}
