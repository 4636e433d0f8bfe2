/* Sequences with a grammar run only where it is ready, and hold nobody up meanwhile. */
#include "stage.h"

#include <stdio.h>

#include "scheduler/core/grammars.h"

static void submit(struct stage *stage, uint32_t idx, const char *grammar, uint32_t max_tokens) {
    struct wire_submit submit = stage_submit(stage, idx, 20, max_tokens, idx);
    submit.grammar_kind = WIRE_GRAMMAR_REGEX;
    submit.grammar = bytes_str(grammar);
    stage_send(stage, &submit);
}

static void ready(struct stage *stage) {
    struct wire_ready ready = {.resource = WIRE_RESOURCE_GRAMMAR, .hash = stage->prepared};
    sched_resource_ready(stage->s, stage->now, stage->prepared_by, &ready);
}

static size_t tokens_of(const struct stage *stage, uint32_t idx) {
    return stage->requests[idx].choices[0].tokens.count;
}

TEST(a_sequence_waits_for_its_grammar_and_others_do_not) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    submit(stage, 0, "a", 5);
    stage_simple(stage, 1, 30, 7);
    stage_finish(stage);
    EXPECT_EQ(stage->prepare_count, 1);
    EXPECT(u128_equal(stage->prepared_by, stage->workers[0].instance));
    EXPECT_EQ(tokens_of(stage, 0), 0);
    EXPECT(stage_is_right(stage, 1, 0, 7));
    ready(stage);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 5));
    submit(stage, 2, "a", 3); /* known to be ready */
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 2, 0, 3));
    EXPECT_EQ(stage->prepare_count, 1);
    struct u128 hash = stage->prepared;
    submit(stage, 3, "b", 3);
    stage_finish(stage);
    EXPECT_EQ(stage->prepare_count, 2);
    EXPECT(!u128_equal(stage->prepared, hash));
    EXPECT_EQ(tokens_of(stage, 3), 0);
    stage_free(stage);
}

TEST(what_was_ready_is_asked_for_again_in_time) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    submit(stage, 0, "a", 2);
    stage_finish(stage);
    ready(stage);
    stage_finish(stage);
    stage->now += 3000; /* old, and still good */
    struct wire_heartbeat beat = {.state = WIRE_STATE_IDLE};
    (void)sched_worker_heartbeat(stage->s, stage->now, stage->workers[0].instance, &beat);
    submit(stage, 1, "a", 2);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 1, 0, 2));
    EXPECT_EQ(stage->prepare_count, 2);
    ready(stage);
    stage->now += 6000; /* too old */
    (void)sched_worker_heartbeat(stage->s, stage->now, stage->workers[0].instance, &beat);
    submit(stage, 2, "a", 2);
    stage_finish(stage);
    EXPECT_EQ(stage->prepare_count, 3);
    EXPECT_EQ(tokens_of(stage, 2), 0);
    ready(stage);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 2, 0, 2));
    stage_free(stage);
}

TEST(a_grammar_that_cannot_be_had_refuses_who_waits_for_it) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    submit(stage, 0, "a", 2);
    stage_finish(stage);
    submit(stage, 1, "a", 2);
    stage_finish(stage);
    EXPECT_EQ(stage->prepare_count, 1);
    struct wire_failed failed = {
        .resource = WIRE_RESOURCE_GRAMMAR, .hash = stage->prepared, .text = bytes_str("no")};
    sched_resource_failed(stage->s, stage->now, stage->prepared_by, &failed);
    stage_run(stage);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_UNSUPPORTED);
    EXPECT_EQ(stage->requests[1].reject, WIRE_REJECT_UNSUPPORTED);
    stage_free(stage);
}

TEST(a_worker_that_registers_anew_is_asked_anew) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    EXPECT_EQ(stage_hello(stage, w), 0);
    submit(stage, 0, "a", 6);
    stage_finish(stage);
    ready(stage);
    stage_run(stage);
    stage_answer(stage, w);
    stage_run(stage);
    sched_blocks_lost(stage->s, stage->now, w->instance, w->hello.incarnation);
    w->hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, w), 0);
    size_t before = tokens_of(stage, 0);
    stage_finish(stage);
    EXPECT_EQ(stage->prepare_count, 2);
    EXPECT_EQ(tokens_of(stage, 0), before);
    ready(stage);
    stage_ends_right(stage, 1, 6);
}

/* It counts from Ready on for GRAMMAR_VALID_MS, and is asked for again from GRAMMAR_REFRESH_MS on. */
TEST(what_is_ready_counts_to_the_millisecond) {
    static const struct {
        int64_t age_ms;
        bool runs, asks;
    } CASES[] = {{GRAMMAR_REFRESH_MS - 1, true, false},
                 {GRAMMAR_REFRESH_MS, true, true},
                 {GRAMMAR_VALID_MS - 1, true, true},
                 {GRAMMAR_VALID_MS, false, true}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct stage *stage = stage_new(NULL);
        struct wire_heartbeat beat = {.state = WIRE_STATE_IDLE};
        EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
        submit(stage, 0, "a", 2);
        stage_finish(stage);
        int64_t ready_at = stage->now;
        ready(stage);
        stage_finish(stage);
        EXPECT(stage_is_right(stage, 0, 0, 2));
        stage->now = ready_at + CASES[i].age_ms;
        (void)sched_worker_heartbeat(stage->s, stage->now, stage->workers[0].instance, &beat);
        submit(stage, 1, "a", 1);
        stage_run(stage);
        EXPECT_EQ(sched_counts(stage->s).running, CASES[i].runs);
        EXPECT_EQ(stage->prepare_count, 1 + CASES[i].asks);
        ready(stage);
        stage_finish(stage);
        EXPECT(stage_is_right(stage, 1, 0, 1));
        stage_free(stage);
    }
}

/* Of several stages the last one samples, and of its ranks the first one answers for it. */
TEST(the_rank_that_samples_is_asked) {
    static const struct {
        uint32_t tp, pp, asked;
    } CASES[] = {{1, 1, 0}, {2, 1, 0}, {1, 2, 1}, {2, 2, 2}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        static const struct u128 meet = {77, 78};
        uint32_t tp = CASES[i].tp, pp = CASES[i].pp;
        struct stage *stage = stage_new(NULL);
        for (uint32_t k = 0; k < tp * pp; k++) {
            struct stage_worker *w = stage_worker(stage, k);
            w->hello.replica = (struct u128){500, 1};
            w->hello.rank = k % tp;
            w->hello.tp = tp;
            w->hello.stage = k / tp;
            w->hello.pp = pp;
            w->hello.steps_in_flight = pp > 1 ? pp + 1 : 2;
            if (k == 0)
                w->hello.comm_id = bytes_of(&meet, sizeof meet);
            EXPECT_EQ(stage_hello(stage, w), 0);
        }
        submit(stage, 0, "a", 2);
        stage_run(stage);
        EXPECT_EQ(stage->prepare_count, 1);
        EXPECT(u128_equal(stage->prepared_by, stage->workers[CASES[i].asked].instance));
        stage_free(stage);
    }
}

/* An answer is about what it names: another grammar's, another resource's, or a stranger's changes
 * nothing. */
TEST(only_its_own_answer_lets_a_sequence_run) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    submit(stage, 0, "a", 2);
    stage_run(stage);
    struct u128 hash = stage->prepared, worker = stage->prepared_by;
    const struct {
        struct u128 from;
        struct wire_ready ready;
    } WRONG[] = {{worker, {.resource = WIRE_RESOURCE_ADAPTER, .hash = hash}},
                 {worker, {.resource = WIRE_RESOURCE_GRAMMAR, .hash = {hash.lo + 1, hash.hi}}},
                 {stage->gateway, {.resource = WIRE_RESOURCE_GRAMMAR, .hash = hash}}};
    for (size_t i = 0; i < ARRAY_LEN(WRONG); i++) {
        struct wire_failed failed = {.resource = WRONG[i].ready.resource,
                                     .hash = WRONG[i].ready.hash};
        sched_resource_ready(stage->s, stage->now, WRONG[i].from, &WRONG[i].ready);
        stage_run(stage);
        sched_resource_failed(stage->s, stage->now, WRONG[i].from, &failed);
        stage_run(stage);
        EXPECT_EQ(sched_counts(stage->s).running, 0);
        EXPECT_EQ(stage->requests[0].reject, 0);
    }
    ready(stage);
    stage_ends_right(stage, 1, 2);
}

/* One of three cannot be had: who waits for another still gets it. */
TEST(a_failure_is_of_one_grammar_alone) {
    static const char *const TEXTS[] = {"a", "b", "c"};
    for (uint32_t fails = 0; fails < 3; fails++) {
        struct stage *stage = stage_new(NULL);
        struct u128 hashes[3];
        EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
        for (uint32_t i = 0; i < 3; i++) {
            submit(stage, i, TEXTS[i], 2);
            stage_run(stage);
            hashes[i] = stage->prepared;
        }
        EXPECT_EQ(stage->prepare_count, 3);
        struct wire_failed failed = {.resource = WIRE_RESOURCE_GRAMMAR, .hash = hashes[fails]};
        sched_resource_failed(stage->s, stage->now, stage->prepared_by, &failed);
        stage_run(stage);
        for (uint32_t i = 0; i < 3; i++) {
            struct wire_ready answer = {.resource = WIRE_RESOURCE_GRAMMAR, .hash = hashes[i]};
            sched_resource_ready(stage->s, stage->now, stage->prepared_by, &answer);
        }
        stage_finish(stage);
        for (uint32_t i = 0; i < 3; i++) {
            EXPECT_EQ(stage->requests[i].reject, i == fails ? WIRE_REJECT_UNSUPPORTED : 0);
            EXPECT(i == fails || stage_is_right(stage, i, 0, 2));
        }
        EXPECT_EQ(stage->prepare_count, 3);
        stage_free(stage);
    }
}

/* Two replicas: the sequence runs where its grammar is ready first, and nobody asks twice. */
TEST(the_replica_that_is_ready_first_has_the_sequence) {
    struct stage *stage = stage_new(NULL);
    for (uint32_t i = 0; i < 2; i++)
        EXPECT_EQ(stage_hello(stage, stage_worker(stage, i)), 0);
    submit(stage, 0, "a", 4);
    stage_run(stage);
    EXPECT_EQ(stage->prepare_count, 2);
    struct wire_ready answer = {.resource = WIRE_RESOURCE_GRAMMAR, .hash = stage->prepared};
    sched_resource_ready(stage->s, stage->now, stage->workers[1].instance, &answer);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 4));
    EXPECT_EQ(stage->workers[0].computed_tokens, 0);
    EXPECT_EQ(stage->prepare_count, 2);
    stage_free(stage);
}

/* By a tenant; returns what was asked for last. */
static struct u128 submit_one_more(struct stage *stage, uint32_t idx, uint64_t tenant) {
    char text[16];
    struct wire_submit submit = stage_submit(stage, idx, 20, 1, idx);
    snprintf(text, sizeof text, "a{%u}", idx);
    submit.tenant = (struct u128){tenant, tenant};
    submit.grammar_kind = WIRE_GRAMMAR_REGEX;
    submit.grammar = bytes_str(text);
    stage_send(stage, &submit);
    sched_run(stage->s, stage->now);
    return stage->prepared;
}

static void answer(struct stage *stage, struct u128 hash) {
    struct wire_ready ready = {.resource = WIRE_RESOURCE_GRAMMAR, .hash = hash};
    sched_resource_ready(stage->s, stage->now, stage->prepared_by, &ready);
    stage_finish(stage);
}

/* A flood of one tenant is asked for bit by bit, and another's only grammar at once: a replica compiles
 * in the order in which it was asked, and each of the flood may take long. Each answer lets one more be
 * asked for, until all have run. */
TEST(few_grammars_are_asked_for_at_a_time) {
    enum { FLOOD = GRAMMARS_TENANT_MAX + 20 };
    struct stage *stage = stage_new(NULL);
    struct u128 asked[FLOOD + 1];
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    for (uint32_t i = 0; i < FLOOD; i++) {
        struct u128 last = submit_one_more(stage, i, 1);
        if (i < GRAMMARS_TENANT_MAX)
            asked[i] = last;
    }
    EXPECT_EQ(stage->prepare_count, GRAMMARS_TENANT_MAX);
    answer(stage, submit_one_more(stage, FLOOD, 2));
    EXPECT_EQ(stage->prepare_count, GRAMMARS_TENANT_MAX + 1);
    EXPECT(stage_is_right(stage, FLOOD, 0, 1));
    for (uint32_t i = 0; i < FLOOD; i++) {
        size_t before = stage->prepare_count;
        answer(stage, asked[i]);
        EXPECT_EQ(stage->prepare_count,
                  before + (i + GRAMMARS_TENANT_MAX < FLOOD)); /* while any is left */
        if (stage->prepare_count > before)
            asked[i + GRAMMARS_TENANT_MAX] = stage->prepared;
    }
    for (uint32_t i = 0; i < FLOOD; i++)
        EXPECT(stage_is_right(stage, i, 0, 1));
    stage_free(stage);
}

/* Many tenants together: the next one waits for the first answer, whose-ever it is. */
TEST(grammars_of_all_tenants_have_a_bound) {
    enum { TENANTS = GRAMMARS_ASKED_MAX / GRAMMARS_TENANT_MAX };
    struct stage *stage = stage_new(NULL);
    struct u128 first = {0};
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    for (uint32_t i = 0; i < GRAMMARS_ASKED_MAX; i++) {
        struct u128 last = submit_one_more(stage, i, 1 + i % TENANTS);
        first = i ? first : last;
    }
    EXPECT_EQ(stage->prepare_count, GRAMMARS_ASKED_MAX);
    submit_one_more(stage, GRAMMARS_ASKED_MAX, 1);
    submit_one_more(stage, GRAMMARS_ASKED_MAX + 1, 100);
    EXPECT_EQ(stage->prepare_count, GRAMMARS_ASKED_MAX);
    answer(stage, first);
    EXPECT_EQ(stage->prepare_count, GRAMMARS_ASKED_MAX + 1);
    answer(stage, stage->prepared);
    EXPECT_EQ(stage->prepare_count, GRAMMARS_ASKED_MAX + 2);
    answer(stage, stage->prepared);
    EXPECT(stage_is_right(stage, GRAMMARS_ASKED_MAX, 0, 1));
    EXPECT(stage_is_right(stage, GRAMMARS_ASKED_MAX + 1, 0, 1));
    EXPECT_EQ(stage->prepare_count, GRAMMARS_ASKED_MAX + 2);
    stage_free(stage);
}

/* What was turned away is asked for when another has failed, too. */
TEST(a_failure_makes_room_as_well) {
    struct stage *stage = stage_new(NULL);
    struct u128 asked[GRAMMARS_TENANT_MAX];
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    for (uint32_t i = 0; i < GRAMMARS_TENANT_MAX; i++)
        asked[i] = submit_one_more(stage, i, 1);
    submit_one_more(stage, GRAMMARS_TENANT_MAX, 1);
    submit_one_more(stage, GRAMMARS_TENANT_MAX + 1, 1);
    struct wire_failed failed = {.resource = WIRE_RESOURCE_GRAMMAR, .hash = asked[0]};
    sched_resource_failed(stage->s, stage->now, stage->prepared_by, &failed);
    stage_run(stage);
    EXPECT_EQ(stage->prepare_count, GRAMMARS_TENANT_MAX + 1);
    answer(stage, stage->prepared);
    EXPECT(stage_is_right(stage, GRAMMARS_TENANT_MAX, 0, 1));
    EXPECT_EQ(stage->prepare_count, GRAMMARS_TENANT_MAX + 2);
    stage_free(stage);
}

/* One more takes the place of what was ready longest ago, though that is still good. */
TEST(a_full_table_takes_the_place_of_what_was_ready_longest_ago) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    for (uint32_t i = 0; i < GRAMMARS_MAX; i++) {
        stage->now += i < 3;
        answer(stage, submit_one_more(stage, i, 1));
    }
    EXPECT_EQ(stage->prepare_count, GRAMMARS_MAX);
    answer(stage, submit_one_more(stage, GRAMMARS_MAX, 1));
    EXPECT(stage_is_right(stage, GRAMMARS_MAX, 0, 1));
    EXPECT_EQ(stage->prepare_count, GRAMMARS_MAX + 1);
    submit(stage, GRAMMARS_MAX + 1, "a{1}", 1); /* the second is still known */
    stage_finish(stage);
    EXPECT(stage_is_right(stage, GRAMMARS_MAX + 1, 0, 1));
    submit(stage, GRAMMARS_MAX + 2, "a{0}", 1); /* the first is not */
    stage_finish(stage);
    EXPECT_EQ(tokens_of(stage, GRAMMARS_MAX + 2), 0);
    ready(stage);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, GRAMMARS_MAX + 2, 0, 1));
    stage_free(stage);
}
