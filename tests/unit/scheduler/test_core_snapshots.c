/* States of layers that carry one: kept at the end of a prompt's last whole block, restored where a
 * prompt begins alike. */
#include "stage.h"

enum { BLOCK = 16 };

static struct stage *recurrent(uint32_t snapshots) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->group.kind = WIRE_GROUP_RECURRENT;
    w->hello.snapshot_count = snapshots;
    CHECK(stage_hello(stage, w) == 0);
    return stage;
}

/* Prompt `salt`, `count` tokens of it, to its end. Returns the positions that were not computed. */
static uint32_t ask(struct stage *stage, uint32_t idx, uint32_t count, uint64_t salt) {
    struct wire_submit submit = stage_submit(stage, idx, count, 3, salt);
    stage_send(stage, &submit);
    stage_finish(stage);
    if (!stage_is_right(stage, idx, 0, 3))
        check_fail(__FILE__, __LINE__, "request %u has another text", idx);
    return stage->requests[idx].choices[0].cached;
}

TEST(snapshot_is_taken_behind_the_last_whole_block_of_a_prompt) {
    struct stage *stage = recurrent(4);
    struct stage_worker *w = &stage->workers[0];
    stage_simple(stage, 0, 40, 3);
    stage_run(stage);
    EXPECT(w->results.count == 2 && w->results.items[0].lens[0] == 32 &&
           w->results.items[1].lens[0] == 8);
    EXPECT(w->ops.count == 1 && w->ops.items[0].kind == WIRE_OP_SNAPSHOT &&
           w->ops.items[0].plan == 2);
    EXPECT(w->ops.count == 1 && w->ops.items[0].source == w->results.items[1].slots[0]);
    stage_finish(stage);
    /* ends with a block: one token is left to compute, so the block before */
    EXPECT_EQ(ask(stage, 1, 48, 7), 0);
    EXPECT(w->ops.count == 2 && sched_counts(stage->s).snapshots == 2);
    EXPECT_EQ(ask(stage, 2, BLOCK, 8), 0); /* no block before that */
    EXPECT_EQ(w->ops.count, 2);
    stage_free(stage);
}

TEST(snapshot_is_restored_for_prompts_that_begin_alike) {
    struct stage *stage = recurrent(4);
    struct stage_worker *w = &stage->workers[0];
    EXPECT_EQ(ask(stage, 0, 40, 7), 0);
    uint32_t kept = w->ops.count ? w->ops.items[0].target : 0;
    EXPECT_EQ(ask(stage, 1, 40, 7), 32);
    EXPECT(w->ops.count == 2 && w->ops.items[1].kind == WIRE_OP_RESTORE &&
           w->ops.items[1].source == kept);
    EXPECT_EQ(ask(stage, 2, 75, 7), 32); /* the next turn of a chat: and a snapshot of its own */
    EXPECT_EQ(ask(stage, 3, 75, 7), 64);
    EXPECT_EQ(ask(stage, 4, 40, 7), 32);
    EXPECT_EQ(ask(stage, 5, 31, 7), 0); /* blocks alone are no prefix */
    stage_free(stage);
}

TEST(snapshot_least_recently_used_goes_first) {
    struct stage *stage = recurrent(2);
    for (uint32_t i = 0; i < 3; i++)
        EXPECT_EQ(ask(stage, i, 40, i), 0);
    EXPECT_EQ(ask(stage, 3, 40, 2), 32);
    EXPECT_EQ(ask(stage, 4, 40, 1), 32);
    EXPECT_EQ(ask(stage, 5, 40, 0), 0); /* has taken the place of 2 */
    EXPECT_EQ(ask(stage, 6, 40, 1), 32);
    EXPECT_EQ(ask(stage, 7, 40, 2), 0);
    stage_free(stage);
}

TEST(snapshot_serves_the_other_choices_of_a_request) {
    struct stage *stage = recurrent(2);
    struct wire_choice choices[2] = {{.choice = 0}, {.choice = 1}};
    struct wire_submit submit = stage_submit(stage, 0, 40, 3, 5);
    submit.choices = choices;
    submit.choice_count = 2;
    stage_send(stage, &submit);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 3) && stage_is_right(stage, 0, 1, 3));
    EXPECT_EQ(stage->requests[0].choices[1].cached, 32);
    stage_free(stage);
}

TEST(snapshot_of_a_row_that_failed_is_none) {
    struct stage *stage = recurrent(2);
    struct stage_worker *w = &stage->workers[0];
    stage_simple(stage, 0, 40, 3);
    stage_run(stage);
    EXPECT(w->results.count == 2 && w->ops.count == 1);
    w->results.items[1].finishes[0] = WIRE_FINISH_ERROR;
    w->results.items[1].counts[0] = 0;
    w->results.items[1].token_count = 0;
    while (stage_answer(stage, w))
        stage_run(stage);
    EXPECT_EQ(ask(stage, 1, 40, 0), 0);
    EXPECT_EQ(ask(stage, 2, 40, 0), 32);
    stage_free(stage);
}

TEST(snapshots_do_not_outlive_a_registration) {
    struct stage *stage = recurrent(2);
    struct stage_worker *w = &stage->workers[0];
    EXPECT_EQ(ask(stage, 0, 40, 7), 0);
    w->hello.incarnation++;
    CHECK(stage_hello(stage, w) == 0);
    EXPECT_EQ(ask(stage, 1, 40, 7), 0); /* the blocks were held, and told */
    EXPECT_EQ(ask(stage, 2, 40, 7), 32);
    stage_free(stage);
}

TEST(snapshots_are_not_asked_of_a_worker_without_room_for_them) {
    struct stage *stage = recurrent(0);
    for (uint32_t i = 0; i < 3; i++)
        EXPECT_EQ(ask(stage, i, 40, 7), 0);
    EXPECT_EQ(stage->workers[0].ops.count, 0);
    stage_free(stage);
}

/* A worker that registers anew with more or less room: what it says now counts. */
TEST(snapshots_are_as_many_as_the_last_hello_says) {
    static const uint32_t COUNTS[] = {1, 3, 2};
    struct stage *stage = recurrent(COUNTS[0]);
    struct stage_worker *w = &stage->workers[0];
    uint32_t idx = 0;
    for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++) {
        if (i) {
            w->hello.snapshot_count = COUNTS[i];
            w->hello.incarnation++;
            w->ops.count = w->sealed_ids.count = w->sealed_hashes.count = 0;
            CHECK(stage_hello(stage, w) == 0);
        }
        for (uint32_t again = 0; again < 2; again++)
            for (uint32_t salt = 0; salt < COUNTS[i]; salt++)
                EXPECT_EQ(ask(stage, idx++, 40, salt), again ? 32 : 0);
        for (size_t k = 0; k < w->ops.count; k++)
            EXPECT(w->ops.items[k].kind != WIRE_OP_SNAPSHOT || w->ops.items[k].target < COUNTS[i]);
    }
    stage_free(stage);
}
