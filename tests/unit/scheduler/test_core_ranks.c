/* Replicas of several ranks: how they come together, what they have in common, and the
 * micro-batches of pipelines. */
#include "stage.h"

static struct u128 meet = {77, 78};

/* Workers 0 .. tp * pp - 1 as one replica; rank 0 stands for all in the stage's plans. */
static void put_together(struct stage *stage, uint32_t tp, uint32_t pp) {
    for (uint32_t i = 0; i < tp * pp; i++) {
        struct stage_worker *w = stage_worker(stage, i);
        w->hello.replica = (struct u128){500, 1};
        w->hello.rank = i % tp;
        w->hello.tp = tp;
        w->hello.stage = i / tp;
        w->hello.pp = pp;
        w->hello.steps_in_flight = pp > 1 ? pp + 1 : 2;
        if (i == 0)
            w->hello.comm_id = bytes_of(&meet, sizeof meet);
    }
}

static bool hello_all(struct stage *stage, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (stage_hello(stage, &stage->workers[i]))
            return false;
    return true;
}

/* The oldest result, sent by worker `from`. */
static bool answer_from(struct stage *stage, uint32_t from) {
    struct stage_worker *w = &stage->workers[0];
    struct u128 own = w->instance;
    w->instance = stage->workers[from].instance;
    bool any = stage_answer(stage, w);
    w->instance = own;
    return any;
}

static void finish_from(struct stage *stage, uint32_t from) {
    for (bool any = true; any; stage->now++) {
        stage_run(stage);
        any = answer_from(stage, from);
    }
}

TEST(ranks_get_the_meeting_place_with_plan_1_only) {
    struct stage *stage = stage_new(NULL);
    put_together(stage, 2, 1);
    EXPECT(hello_all(stage, 2));
    stage_simple(stage, 0, 5, 8);
    finish_from(stage, 0);
    EXPECT(stage_is_right(stage, 0, 0, 8));
    EXPECT_EQ(stage->workers[0].comm_plan, 1);
    EXPECT(u128_equal(stage->workers[0].comm_id, meet));
    EXPECT_EQ(stage->workers[0].rank_count, 2);
    stage_free(stage);
}

/* A rank that has lost its blocks comes by itself; the others have to be asked to come again. */
TEST(ranks_come_again_when_one_has_lost_its_blocks) {
    struct stage *stage = stage_new(NULL);
    put_together(stage, 2, 1);
    EXPECT(hello_all(stage, 2));
    stage_simple(stage, 1, 5, 2); /* they have met */
    finish_from(stage, 0);
    uint32_t before = stage->ask_count;
    sched_blocks_lost(stage->s, stage->now, stage->workers[0].instance,
                      stage->workers[0].hello.incarnation);
    stage_run(stage);
    EXPECT_EQ(stage->ask_count, before + 1);
    EXPECT(u128_equal(stage->asked, stage->workers[1].instance));
    stage_free(stage);
}

TEST(only_rank_0_of_the_last_stage_answers) {
    struct stage *stage = stage_new(NULL);
    put_together(stage, 1, 2);
    EXPECT(hello_all(stage, 2));
    stage_simple(stage, 0, 5, 4);
    stage_run(stage);
    struct stage_worker *w = &stage->workers[0];
    struct stage_result kept = w->results.items[0];
    EXPECT(answer_from(stage, 0)); /* the first stage: ignored */
    EXPECT_EQ(sched_counts(stage->s).output_tokens, 0);
    vec_push(&w->results, kept);
    memmove(w->results.items + 1, w->results.items, (w->results.count - 1) * sizeof kept);
    w->results.items[0] = kept;
    finish_from(stage, 1);
    EXPECT(stage_is_right(stage, 0, 0, 4));
    stage_free(stage);
}

static bool share_a_sequence(const struct stage_result *a, const struct stage_result *b) {
    for (size_t i = 0; i < a->row_count; i++)
        for (size_t k = 0; k < b->row_count; k++)
            if (a->sequences[i] == b->sequences[k])
                return true;
    return false;
}

TEST(plans_of_a_pipeline_are_micro_batches_that_take_turns) {
    struct stage *stage = stage_new(NULL);
    put_together(stage, 1, 3);
    EXPECT(hello_all(stage, 3));
    for (uint32_t i = 0; i < 6; i++)
        stage_simple(stage, i, 3, 40);
    for (int turn = 0; turn < 60; turn++) {
        stage_run(stage);
        const struct stage_result *plans = stage->workers[0].results.items;
        EXPECT(stage->workers[0].results.count > 0);
        if (turn > 20 &&
            turn <
                50) { /* all run: the pipe is full, each plan has its share, neighbours share nothing */
            EXPECT_EQ(stage->workers[0].results.count, 4);
            for (int i = 0; i < 4; i++)
                EXPECT_EQ(plans[i].row_count, 2);
            EXPECT(!share_a_sequence(&plans[0], &plans[1]) &&
                   !share_a_sequence(&plans[0], &plans[2]));
        }
        EXPECT(answer_from(stage, 2));
        stage->now++;
    }
    finish_from(stage, 2);
    for (uint32_t i = 0; i < 6; i++)
        EXPECT(stage_is_right(stage, i, 0, 40));
    stage_free(stage);
}

/* Three on two stages do not come out even: the one that is left goes alone rather than beside one
 * whose token is still under way. */
TEST(a_token_under_way_on_two_stages_is_not_in_the_very_next_plan) {
    struct stage *stage = stage_new(NULL);
    put_together(stage, 1, 2);
    EXPECT(hello_all(stage, 2));
    for (uint32_t i = 0; i < 3; i++)
        stage_simple(stage, i, 3, 40);
    for (int turn = 0; turn < 50; turn++) {
        stage_run(stage);
        const struct stage_result *plans = stage->workers[0].results.items;
        EXPECT(stage->workers[0].results.count > 1);
        if (turn > 10 && turn < 40) {
            EXPECT_EQ(plans[0].row_count + plans[1].row_count, 3);
            EXPECT(!share_a_sequence(&plans[0], &plans[1]));
        }
        EXPECT(answer_from(stage, 1));
        stage->now++;
    }
    finish_from(stage, 1);
    for (uint32_t i = 0; i < 3; i++)
        EXPECT(stage_is_right(stage, i, 0, 40));
    stage_free(stage);
}

/* One plan at a time: nothing is under way when the next one is made, so it is filled. */
TEST(whose_token_is_back_is_in_the_very_next_plan) {
    struct stage *stage = stage_new(NULL);
    put_together(stage, 1, 2);
    for (uint32_t i = 0; i < 2; i++)
        stage->workers[i].hello.steps_in_flight = 1;
    EXPECT(hello_all(stage, 2));
    for (uint32_t i = 0; i < 3; i++)
        stage_simple(stage, i, 3, 40);
    for (int turn = 0; turn < 30; turn++) {
        stage_run(stage);
        EXPECT_EQ(stage->workers[0].results.count, 1);
        if (turn > 10)
            EXPECT_EQ(stage->workers[0].results.items[0].row_count, 2);
        EXPECT(answer_from(stage, 1));
        stage->now++;
    }
    stage_free(stage);
}

TEST(a_lone_sequence_does_not_wait_for_its_turn) {
    struct stage *stage = stage_new(NULL);
    put_together(stage, 1, 3);
    EXPECT(hello_all(stage, 3));
    stage_simple(stage, 0, 3, 20);
    stage_run(stage);
    /* the next step is out before the first token is back */
    EXPECT_EQ(stage->workers[0].results.count, 2);
    finish_from(stage, 2);
    EXPECT(stage_is_right(stage, 0, 0, 20));
    EXPECT(stage->workers[0].next_plan <= 22);
    stage_free(stage);
}

TEST(a_prompt_passes_a_pipeline_in_pieces) {
    struct stage *stage = stage_new(NULL);
    put_together(stage, 1, 2);
    EXPECT(hello_all(stage, 2));
    stage_simple(stage, 0, 256, 2);
    stage_run(stage);
    EXPECT(stage->workers[0].results.count >= 2);
    EXPECT_EQ(stage->workers[0].results.items[0].lens[0], 128);
    finish_from(stage, 1);
    stage_free(stage);
}

TEST(a_cached_block_counts_only_when_every_rank_holds_it) {
    for (int replaced = 0; replaced < 2; replaced++) {
        struct stage *stage = stage_new(NULL);
        put_together(stage, 2, 1);
        EXPECT(hello_all(stage, 2));
        stage_simple(stage, 0, 100, 40);
        finish_from(stage, 0);
        struct stage_worker *a = &stage->workers[0], *b = &stage->workers[1];
        EXPECT(a->sealed_ids.count >= 6);
        if (!replaced) { /* rank 1 was told the same */
            for (size_t i = 0; i < a->sealed_ids.count; i++) {
                vec_push(&b->sealed_ids, a->sealed_ids.items[i]);
                vec_push(&b->sealed_hashes, a->sealed_hashes.items[i]);
            }
        }
        a->hello.incarnation = b->hello.incarnation = 2;
        EXPECT(hello_all(stage, 2));
        struct wire_submit again = stage_submit(stage, 1, 100, 4, 0);
        stage_send(stage, &again);
        finish_from(stage, 0);
        EXPECT(stage_is_right(stage, 1, 0, 4));
        EXPECT_EQ(stage->requests[1].choices[0].cached, replaced ? 0 : 96);
        stage_free(stage);
    }
}

TEST(a_replica_is_as_small_as_its_smallest_rank) {
    struct stage *stage = stage_new(NULL);
    put_together(stage, 2, 1);
    stage->workers[1].group.block_count = 4; /* 64 tokens */
    EXPECT(hello_all(stage, 2));
    stage_simple(stage, 0, 100, 4);
    stage_run(stage);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_TOO_LONG);
    stage_free(stage);
}

TEST(ranks_of_different_models_make_no_replica) {
    struct stage *stage = stage_new(NULL);
    struct error err;
    put_together(stage, 2, 1);
    stage->workers[1].hello.revision.lo++;
    EXPECT_EQ(stage_hello(stage, &stage->workers[0]), 0);
    EXPECT_EQ(sched_worker_hello(stage->s, stage->now, &stage->workers[1].hello, &err),
              ERR_INVALID);
    EXPECT(strstr(err.text, "rank 1"));
    EXPECT_EQ(sched_counts(stage->s).replicas_ready, 0);
    stage_free(stage);
}

TEST(when_a_rank_dies_the_others_are_asked_at_once_and_the_stream_goes_on) {
    struct stage *stage = stage_new(NULL);
    put_together(stage, 2, 1);
    EXPECT(hello_all(stage, 2));
    stage_simple(stage, 0, 20, 30);
    for (int i = 0; i < 10; i++, stage->now++) {
        stage_run(stage);
        EXPECT(answer_from(stage, 0));
    }
    struct wire_exited exited = {
        .instance = stage->workers[1].instance, .cause = WIRE_EXIT_SIGNAL, .value = 9};
    sched_worker_exited(stage->s, stage->now, &exited);
    EXPECT_EQ(stage->ask_count, 1);
    EXPECT(u128_equal(stage->asked, stage->workers[0].instance));
    stage->workers[0].hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, &stage->workers[0]), 0);
    stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).running, 0); /* one rank is not enough */
    stage->workers[1].instance = stage->workers[1].hello.instance = (struct u128){999, 9};
    EXPECT_EQ(stage_hello(stage, &stage->workers[1]), 0);
    finish_from(stage, 0);
    EXPECT(stage_is_right(stage, 0, 0, 30));
    EXPECT_EQ(stage->ask_count, 1);
    stage_free(stage);
}

static void beat(struct stage *stage, uint32_t idx, bool waiting, uint64_t progress) {
    struct wire_heartbeat h = {.state = waiting ? WIRE_STATE_STEPPING : WIRE_STATE_IDLE,
                               .waiting = waiting,
                               .progress = progress};
    (void)sched_worker_heartbeat(stage->s, stage->now, stage->workers[idx].instance, &h);
}

TEST(ranks_that_wait_for_each_other_begin_anew) {
    struct stage *stage = stage_new(NULL);
    put_together(stage, 1, 2);
    EXPECT(hello_all(stage, 2));
    stage_simple(stage, 0, 20, 30);
    stage_run(stage);
    stage->now += stage->config.lost_plan_ms;
    for (int i = 0; i < 5; i++, stage->now += 250) {
        beat(stage, 0, false, 5); /* idle: done with its part */
        beat(stage, 1, true, (uint64_t)i);
    }
    EXPECT_EQ(stage->ask_count, 0); /* the other gets on */
    for (int i = 0; i < 5; i++, stage->now += 250) {
        beat(stage, 0, false, 5);
        beat(stage, 1, true, 9);
    }
    EXPECT_EQ(stage->ask_count, 2);
    stage_free(stage);
}
