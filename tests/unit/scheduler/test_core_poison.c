#include "stage.h"

static uint64_t instances = 5000;

/* Runs until the worker (NULL: any) computes its killer; the test then ends it as if it had
 * aborted; a new process takes its place. false: nothing is left to do. */
static bool run_until_death(struct stage *stage, struct stage_worker *w) {
    for (int turn = 0; turn < 20000; turn++) {
        stage_run(stage);
        for (int i = 0; i < STAGE_WORKERS; i++)
            if (stage->workers[i].killed && (!w || w == &stage->workers[i]))
                return true;
        bool any = false;
        for (int i = 0; i < STAGE_WORKERS; i++)
            any = stage_answer(stage, &stage->workers[i]) || any;
        stage->now++;
        if (!any)
            return false;
    }
    return false;
}

static void die_and_return(struct stage *stage, struct stage_worker *w, enum wire_exit_cause cause,
                           bool fault) {
    struct wire_exited message = {.instance = w->instance, .cause = cause, .fault = fault};
    w->killed = false;
    w->results.count = 0;
    sched_worker_exited(stage->s, stage->now, &message);
    w->instance = w->hello.instance = (struct u128){++instances, 9};
    w->sealed_ids.count = w->sealed_hashes.count = 0; /* its memory is gone */
    stage->now += 300;
    CHECK(stage_hello(stage, w) == 0);
}

static struct stage *crowd(uint32_t count, uint32_t workers, uint32_t killer) {
    struct stage *stage = stage_new(NULL);
    for (uint32_t i = 0; i < workers; i++) {
        struct stage_worker *w = stage_worker(stage, i);
        w->hello.slot_count = 64;
        w->group.block_count = 4096;
        w->killer = stage_id(killer);
        CHECK(stage_hello(stage, w) == 0);
    }
    for (uint32_t i = 0; i < count; i++)
        stage_simple(stage, i, 20 + i % 7, 30);
    return stage;
}

TEST(poison_one_among_64_is_refused_within_9_deaths) {
    static const uint32_t KILLERS[] = {0, 17, 31, 32, 63};
    for (size_t k = 0; k < ARRAY_LEN(KILLERS); k++) {
        struct stage *stage = crowd(64, 1, KILLERS[k]);
        int deaths = 0;
        while (run_until_death(stage, &stage->workers[0])) {
            EXPECT(++deaths <= 9);
            die_and_return(stage, &stage->workers[0], WIRE_EXIT_SIGNAL, true);
        }
        EXPECT_EQ(stage->requests[KILLERS[k]].reject, WIRE_REJECT_POISON);
        for (uint32_t i = 0; i < 64; i++) {
            if (i == KILLERS[k])
                continue;
            EXPECT_EQ(stage->requests[i].reject, 0);
            EXPECT(stage_is_right(stage, i, 0, 30));
        }
        EXPECT_EQ(sched_counts(stage->s).attributable_deaths, deaths);
        stage_free(stage);
    }
}

TEST(poison_with_another_replica_the_innocent_go_on_meanwhile) {
    struct stage *stage = crowd(100, 2, 40);
    int deaths = 0;
    while (run_until_death(stage, NULL))
        for (int i = 0; i < 2; i++)
            if (stage->workers[i].killed) {
                EXPECT(++deaths <= 9);
                die_and_return(stage, &stage->workers[i], WIRE_EXIT_SIGNAL, true);
            }
    EXPECT_EQ(stage->requests[40].reject, WIRE_REJECT_POISON);
    for (uint32_t i = 0; i < 100; i++)
        EXPECT(i == 40 || stage_is_right(stage, i, 0, 30));
    stage_free(stage);
}

TEST(poison_is_remembered_against_a_higher_attempt) {
    struct stage *stage = crowd(1, 1, 0);
    for (int i = 0; i < 2; i++) {
        EXPECT(run_until_death(stage, &stage->workers[0]));
        die_and_return(stage, &stage->workers[0], WIRE_EXIT_SIGNAL, true);
    }
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_POISON);
    stage->requests[0].reject = 0;
    struct wire_submit submit = stage_submit(stage, 0, 20, 30, 0);
    submit.attempt = stage->requests[0].attempt = 1;
    submit.resumed = true;
    stage_send(stage, &submit);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_POISON);
    EXPECT(!run_until_death(stage, &stage->workers[0]));
    stage_free(stage);
}

TEST(poison_kills_from_outside_never_count) {
    struct stage *stage = crowd(3, 1, 100);
    for (int i = 0; i < 20; i++) {
        stage_run(stage);
        stage_answer(stage, &stage->workers[0]);
        stage_run(stage);
        if (i % 2)
            sched_worker_silent(stage->s, stage->now, stage->workers[0].instance);
        die_and_return(stage, &stage->workers[0], i % 3 ? WIRE_EXIT_SIGNAL : WIRE_EXIT_FENCED,
                       false);
    }
    EXPECT(!run_until_death(stage, &stage->workers[0]));
    for (uint32_t i = 0; i < 3; i++)
        EXPECT(stage_is_right(stage, i, 0, 30));
    EXPECT_EQ(sched_counts(stage->s).attributable_deaths, 0);
    stage_free(stage);
}

/* The scheduler sees silence first; the supervisor tells later that it was a fault. */
TEST(poison_is_found_when_the_cause_is_told_late) {
    struct stage *stage = crowd(8, 1, 5);
    int deaths = 0;
    while (run_until_death(stage, &stage->workers[0])) {
        EXPECT(++deaths <= 9);
        sched_worker_silent(stage->s, stage->now, stage->workers[0].instance);
        stage->now += 100;
        die_and_return(stage, &stage->workers[0], WIRE_EXIT_SIGNAL, true);
    }
    EXPECT_EQ(stage->requests[5].reject, WIRE_REJECT_POISON);
    for (uint32_t i = 0; i < 8; i++)
        EXPECT(i == 5 || stage_is_right(stage, i, 0, 30));
    stage_free(stage);
}

TEST(poison_suspects_that_pass_the_place_are_cleared) {
    struct stage *stage = crowd(4, 1, 100);
    for (int round = 0; round < 3; round++) { /* faults that no request causes, far apart */
        for (int i = 0; i < 8; i++) {
            stage_run(stage);
            stage_answer(stage, &stage->workers[0]);
        }
        stage_run(stage);
        die_and_return(stage, &stage->workers[0], WIRE_EXIT_SIGNAL, true);
    }
    EXPECT(!run_until_death(stage, &stage->workers[0]));
    for (uint32_t i = 0; i < 4; i++) {
        EXPECT_EQ(stage->requests[i].reject, 0);
        EXPECT(stage_is_right(stage, i, 0, 30));
    }
    stage_free(stage);
}

TEST(poison_paused_suspects_do_not_hold_up_the_others) {
    struct stage *stage = crowd(8, 1, 6);
    for (int i = 0; i < 2; i++) {
        EXPECT(run_until_death(stage, &stage->workers[0]));
        for (uint32_t k = 0; k < 4 && i == 1; k++) {
            struct wire_pause pause = {.request = stage_id(k), .paused = true};
            sched_pause(stage->s, stage->now, stage->gateway, &pause);
        }
        die_and_return(stage, &stage->workers[0], WIRE_EXIT_SIGNAL, true);
    }
    while (run_until_death(stage, &stage->workers[0]))
        die_and_return(stage, &stage->workers[0], WIRE_EXIT_SIGNAL, true);
    EXPECT_EQ(stage->requests[6].reject, WIRE_REJECT_POISON);
    for (uint32_t i = 4; i < 8; i++)
        EXPECT(i == 6 || stage_is_right(stage, i, 0, 30));
    for (uint32_t k = 0; k < 4; k++) {
        struct wire_pause pause = {.request = stage_id(k), .paused = false};
        sched_pause(stage->s, stage->now, stage->gateway, &pause);
    }
    EXPECT(!run_until_death(stage, &stage->workers[0]));
    for (uint32_t i = 0; i < 4; i++)
        EXPECT(stage_is_right(stage, i, 0, 30));
    stage_free(stage);
}
