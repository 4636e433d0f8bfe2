#include "stage.h"

#include "scheduler/core/poison.h"

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
    stage->gateway = (struct u128){43, 43}; /* another one's, and its answer may be lost */
    submit.attempt = stage->requests[0].attempt = 2;
    for (int i = 0; i < 2; i++) {
        stage->requests[0].reject = 0;
        stage_send(stage, &submit);
        EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_POISON);
    }
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

/* Two were in flight, one of them for the second time: either may be the killer. */
TEST(poison_the_second_death_of_one_condemns_neither_of_two) {
    for (uint32_t killer = 0; killer < 2; killer++) {
        struct stage *stage = crowd(1, 1, 0);
        struct stage_worker *w = &stage->workers[0];
        EXPECT(run_until_death(stage, w));
        die_and_return(stage, w, WIRE_EXIT_SIGNAL, true);
        stage_simple(stage, 1, 20, 30);
        w->killer = stage_id(killer);
        EXPECT(run_until_death(stage, w));
        die_and_return(stage, w, WIRE_EXIT_SIGNAL, true);
        EXPECT_EQ(stage->requests[0].reject, 0);
        EXPECT_EQ(stage->requests[1].reject, 0);
        while (run_until_death(stage, w))
            die_and_return(stage, w, WIRE_EXIT_SIGNAL, true);
        EXPECT_EQ(stage->requests[killer].reject, WIRE_REJECT_POISON);
        EXPECT_EQ(stage->requests[1 - killer].reject, 0);
        EXPECT(stage_is_right(stage, 1 - killer, 0, 30));
        stage_free(stage);
    }
}

/* Given up as silent, with what it computes in flight. */
static struct u128 fall_silent(struct stage *stage, struct stage_worker *w) {
    struct u128 was = w->instance;
    sched_worker_silent(stage->s, stage->now, was);
    w->killed = false;
    w->results.count = 0;
    return was;
}

static void tell_end(struct stage *stage, struct u128 instance, bool fault) {
    const struct wire_exited message = {
        .instance = instance, .cause = WIRE_EXIT_SIGNAL, .fault = fault};
    sched_worker_exited(stage->s, stage->now, &message);
}

/* Another process in the place of one whose end was told. */
static void replace(struct stage *stage, struct stage_worker *w) {
    w->instance = w->hello.instance = (struct u128){++instances, 9};
    w->sealed_ids.count = w->sealed_hashes.count = 0;
    CHECK(stage_hello(stage, w) == 0);
}

/* An end that is told long after the silence, or told twice, or is no fault, adds nothing. */
TEST(poison_an_end_counts_once_and_in_time) {
    struct sched_config defaults;
    sched_config_default(&defaults);
    int32_t wait = defaults.fence_wait_ms;
    const struct {
        int32_t late_ms;
        int times;
        bool fault;
        uint64_t deaths;
    } CASES[] = {{0, 1, true, 1},
                 {0, 1, false, 0},
                 {0, 3, true, 1},
                 {wait, 1, true, 1},
                 {wait + 1, 1, true, 0}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct stage *stage = crowd(1, 1, 0);
        struct stage_worker *w = &stage->workers[0];
        EXPECT(run_until_death(stage, w));
        struct u128 was = fall_silent(stage, w);
        stage->now += CASES[i].late_ms;
        for (int k = 0; k < CASES[i].times; k++)
            tell_end(stage, was, CASES[i].fault);
        EXPECT_EQ(sched_counts(stage->s).attributable_deaths, CASES[i].deaths);
        replace(stage, w);
        EXPECT(run_until_death(stage, w)); /* one death condemns nobody */
        die_and_return(stage, w, WIRE_EXIT_SIGNAL, true);
        EXPECT_EQ(stage->requests[0].reject, CASES[i].deaths ? WIRE_REJECT_POISON : 0);
        stage_free(stage);
    }
}

/* It was stopped, woke and registered anew: what it did before did not kill it. */
TEST(poison_is_not_sought_in_what_a_worker_survived) {
    struct stage *stage = crowd(2, 1, 100);
    struct stage_worker *w = &stage->workers[0];
    stage_run(stage);
    stage_answer(stage, w);
    stage_run(stage);
    struct u128 was = fall_silent(stage, w);
    w->hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, w), 0);
    tell_end(stage, was, true); /* nothing was in flight */
    EXPECT_EQ(sched_counts(stage->s).attributable_deaths, 0);
    replace(stage, w);
    stage_ends_right(stage, 2, 30);
}

/* Its client came back by the stream's name, so the request has another id, before the cause was
 * told. */
TEST(poison_is_remembered_of_a_request_that_was_renamed) {
    struct stage *stage = crowd(0, 1, 0);
    struct stage_worker *w = &stage->workers[0];
    struct wire_submit submit = stage_submit(stage, 0, 20, 30, 0);
    submit.resumable = true;
    submit.stream = bytes_str("s");
    stage_send(stage, &submit);
    EXPECT(run_until_death(stage, w));
    struct u128 was = fall_silent(stage, w);
    const struct wire_attach attach = {.new_request = stage_id(1), .stream = bytes_str("s")};
    sched_attach(stage->s, stage->now, stage->gateway, &attach);
    tell_end(stage, was, true);
    replace(stage, w);
    w->killer = stage_id(1);
    EXPECT(run_until_death(stage, w));
    die_and_return(stage, w, WIRE_EXIT_SIGNAL, true);
    EXPECT_EQ(stage->requests[1].reject, WIRE_REJECT_POISON);
    stage_free(stage);
}

/* Of two choices one has ended when the other is in flight at the crash. */
TEST(poison_told_late_is_of_the_choice_that_was_in_flight) {
    for (uint32_t left = 0; left < 2; left++) {
        struct stage *stage = crowd(0, 1, 0);
        struct stage_worker *w = &stage->workers[0];
        struct wire_choice choices[2] = {{.choice = 0}, {.choice = 1}};
        struct wire_submit submit = stage_submit(stage, 0, 20, 30, 0);
        submit.choices = choices;
        submit.choice_count = 2;
        stage_send(stage, &submit);
        w->killer = (struct u128){0};
        for (int i = 0; i < 4; i++) {
            stage_run(stage);
            stage_answer(stage, w);
        }
        struct wire_cancel cancel = {.request = stage_id(0), .choice = 1 - left};
        sched_cancel(stage->s, stage->now, stage->gateway, &cancel);
        for (int i = 0; i < 4; i++) {
            stage_run(stage);
            stage_answer(stage, w);
        }
        w->killer = stage_id(0);
        for (int death = 0; death < 2; death++) {
            EXPECT(run_until_death(stage, w));
            EXPECT_EQ(stage->requests[0].reject, 0);
            struct u128 was = fall_silent(stage, w);
            tell_end(stage, was, true);
            replace(stage, w);
        }
        EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_POISON);
        stage_free(stage);
    }
}

/* While one half is tried, none of the other has a slot on that replica, whatever waits. */
TEST(poison_four_suspects_take_two_deaths_more) {
    static const uint32_t RUNNING[] = {4, 2, 1}; /* after each death */
    for (uint32_t killer = 0; killer < 4; killer++) {
        struct stage *stage = crowd(4, 1, killer);
        struct stage_worker *w = &stage->workers[0];
        int deaths = 0;
        while (run_until_death(stage, w)) {
            deaths++;
            die_and_return(stage, w, WIRE_EXIT_SIGNAL, true);
            stage_run(stage);
            if (deaths <= 3)
                EXPECT_EQ(sched_counts(stage->s).running, RUNNING[deaths - 1]);
        }
        EXPECT_EQ(deaths, 4);
        EXPECT_EQ(stage->requests[killer].reject, WIRE_REJECT_POISON);
        stage_free(stage);
    }
}

/* So many crashes without a cause are remembered; the oldest is forgotten whole. */
TEST(poison_forgets_the_oldest_of_the_unexplained) {
    struct stage *stage = crowd(2, 1, 100);
    struct stage_worker *w = &stage->workers[0];
    struct u128 was = {0};
    for (int crash = 0; crash <= SCHED_CRASH_RECORDS; crash++) {
        /* the first one is of request 0 alone, the others of request 1 */
        for (uint32_t i = 0; i < 2; i++) {
            struct wire_pause pause = {.request = stage_id(i), .paused = (crash == 0) == (i == 1)};
            sched_pause(stage->s, stage->now, stage->gateway, &pause);
        }
        stage_run(stage);
        EXPECT(w->results.count > 0);
        was = fall_silent(stage, w);
        if (crash == SCHED_CRASH_RECORDS)
            break;
        tell_end(stage, (struct u128){77, 77}, true); /* a stranger's */
        stage->now += stage->config.fence_wait_ms;
        stage_run(stage);
        replace(stage, w);
    }
    tell_end(stage, was, true);
    EXPECT_EQ(sched_counts(stage->s).attributable_deaths, 1);
    replace(stage, w);
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_pause pause = {.request = stage_id(i), .paused = i == 1};
        sched_pause(stage->s, stage->now, stage->gateway, &pause);
    }
    stage_run(stage);
    EXPECT(w->results.count > 0);
    die_and_return(stage, w, WIRE_EXIT_SIGNAL, true);
    EXPECT_EQ(stage->requests[0].reject, 0); /* its first */
    stage_free(stage);
}

/* It had a death behind it and was cancelled when the worker crashed again: it is nobody's suspect, and
 * the other is tried alone. */
TEST(poison_leaves_out_who_has_ended) {
    struct stage *stage = crowd(2, 1, 100);
    struct stage_worker *w = &stage->workers[0];
    stage_run(stage);
    EXPECT(w->results.count > 0);
    die_and_return(stage, w, WIRE_EXIT_SIGNAL, true);
    stage_run(stage);
    EXPECT(w->results.count > 0);
    struct wire_cancel cancel = {.request = stage_id(0), .choice = WIRE_ALL_CHOICES};
    sched_cancel(stage->s, stage->now, stage->gateway, &cancel);
    die_and_return(stage, w, WIRE_EXIT_SIGNAL, true);
    EXPECT_EQ(stage->requests[1].reject, 0);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 1, 0, 30));
    stage_free(stage);
}
