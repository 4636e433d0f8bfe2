#include "stage.h"

static struct stage *running_stage(uint32_t requests) {
    struct stage *stage = stage_new(NULL);
    CHECK(stage_hello(stage, stage_worker(stage, 0)) == 0);
    for (uint32_t i = 0; i < requests; i++)
        stage_simple(stage, i, 40, 60);
    for (int i = 0; i < 12; i++) {
        stage_run(stage);
        CHECK(stage_answer(stage, &stage->workers[0]));
    }
    stage_run(stage);
    return stage;
}

static void exited(struct stage *stage, struct u128 instance, enum wire_exit_cause cause,
                   bool fault) {
    struct wire_exited message = {.instance = instance, .cause = cause, .fault = fault};
    sched_worker_exited(stage->s, stage->now, &message);
}

static void beat(struct stage *stage, const struct stage_worker *w, enum wire_state state,
                 uint32_t tokens, uint32_t age_ms) {
    struct wire_heartbeat message = {
        .state = state, .plan_number = 1, .step_tokens = tokens, .step_age_ms = age_ms};
    sched_worker_heartbeat(stage->s, stage->now, w->instance, &message);
}

TEST(workers_death_requeues_and_another_goes_on) {
    struct stage *stage = running_stage(8);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 1)), 0);
    exited(stage, stage->workers[0].instance, WIRE_EXIT_SIGNAL, false);
    stage->workers[0].results.count = 0;
    EXPECT_EQ(sched_counts(stage->s).running, 0);
    EXPECT_EQ(sched_counts(stage->s).resumed_waiting, 8);
    stage_finish(stage);
    for (uint32_t i = 0; i < 8; i++)
        EXPECT(stage_is_right(stage, i, 0, 60));
    EXPECT_EQ(sched_counts(stage->s).attributable_deaths, 0);
    stage_free(stage);
}

TEST(workers_silence_fences_and_the_replacement_waits_for_it) {
    struct stage *stage = running_stage(4);
    struct stage_worker *w = &stage->workers[0];
    struct u128 old = w->instance;
    sched_worker_silent(stage->s, stage->now, old);
    EXPECT(u128_equal(stage->fenced, old));
    w->instance = w->hello.instance = (struct u128){777, 9};
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).replicas_ready, 0); /* the old one may still write */
    EXPECT_EQ(w->results.count, 0);
    exited(stage, old, WIRE_EXIT_FENCED, false);
    EXPECT_EQ(sched_counts(stage->s).replicas_ready, 1);
    stage_ends_right(stage, 4, 60);
}

TEST(workers_fence_without_answer_ends_with_time) {
    struct stage *stage = running_stage(1);
    struct stage_worker *w = &stage->workers[0];
    w->instance = w->hello.instance = (struct u128){777, 9};
    /* a second process for the same place: the first is fenced */
    EXPECT_EQ(stage_hello(stage, w), 0);
    EXPECT_EQ(stage->fence_count, 1);
    EXPECT_EQ(sched_counts(stage->s).replicas_ready, 0);
    stage_run(stage);
    EXPECT(stage->wants <= stage->now + stage->config.fence_wait_ms);
    stage->now += stage->config.fence_wait_ms;
    stage_ends_right(stage, 1, 60);
}

TEST(workers_given_up_that_wake_register_anew) {
    struct stage *stage = running_stage(2);
    struct stage_worker *w = &stage->workers[0];
    sched_worker_silent(stage->s, stage->now, w->instance);
    EXPECT(!sched_worker_heartbeat(stage->s, stage->now, w->instance,
                                   &(struct wire_heartbeat){.state = WIRE_STATE_STEPPING}));
    EXPECT(u128_equal(stage->asked, w->instance));
    stage_answer(stage, w); /* late: of nobody's registration */
    w->hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_ends_right(stage, 2, 60);
}

/* After a restart of the scheduler each stream costs one partial block. */
TEST(workers_held_blocks_are_hits_for_resumed_requests) {
    struct stage *stage = running_stage(4);
    struct stage *next = stage_new(NULL);
    struct stage_worker *w = stage_worker(next, 0);
    w->hello.incarnation = 2;
    for (size_t i = 0; i < stage->workers[0].sealed_ids.count; i++) {
        vec_push(&w->sealed_ids, stage->workers[0].sealed_ids.items[i]);
        vec_push(&w->sealed_hashes, stage->workers[0].sealed_hashes.items[i]);
    }
    EXPECT_EQ(stage_hello(next, w), 0);
    EXPECT(sched_counts(next->s).blocks_cached >= 4 * 2);
    uint64_t left = 0;
    for (uint32_t i = 0; i < 4; i++) {
        struct stage_stream *stream = &stage->requests[i].choices[0];
        struct wire_submit submit = stage_submit(next, i, 40, 60, i);
        struct wire_choice choice = {.emitted = {stream->tokens.items, stream->tokens.count}};
        for (size_t k = 0; k < stream->tokens.count; k++)
            vec_push(&next->requests[i].choices[0].tokens, stream->tokens.items[k]);
        submit.choices = &choice;
        submit.choice_count = 1;
        submit.resumed = true;
        left += 60 - stream->tokens.count;
        stage_send(next, &submit);
    }
    stage_finish(next);
    for (uint32_t i = 0; i < 4; i++)
        EXPECT(stage_is_right(next, i, 0, 60));
    /* the last block was told with a plan that came after */
    EXPECT(w->computed_tokens <= left + 4 * 32);
    stage_free(stage);
    stage_free(next);
}

TEST(workers_nonsense_in_held_blocks_is_ignored) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    struct u128 hashes[] = {{1, 1}, {1, 1}, {0, 0}, {2, 2}, {3, 3}};
    /* same content twice, none, out of range, a block twice */
    uint32_t ids[] = {0, 1, 2, 100000, 0};
    for (int i = 0; i < 5; i++) {
        vec_push(&w->sealed_ids, ids[i]);
        vec_push(&w->sealed_hashes, hashes[i]);
    }
    EXPECT_EQ(stage_hello(stage, w), 0);
    EXPECT_EQ(sched_counts(stage->s).blocks_cached, 1);
    stage_free(stage);
}

TEST(workers_loading_for_a_minute_are_not_dead) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.state = WIRE_STATE_LOADING;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_simple(stage, 0, 20, 10);
    for (int i = 0; i < 240; i++) {
        stage->now += 250;
        beat(stage, w, WIRE_STATE_LOADING, 0, 0);
        stage_run(stage);
    }
    EXPECT_EQ(stage->fence_count, 0);
    EXPECT_EQ(stage->requests[0].reject, 0);
    w->hello.state = WIRE_STATE_IDLE;
    w->hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_ends_right(stage, 1, 10);
}

TEST(workers_long_step_is_not_stuck_but_an_endless_one_is) {
    struct stage *stage = running_stage(2);
    struct stage_worker *w = &stage->workers[0];
    beat(stage, w, WIRE_STATE_STEPPING, 256, 6000);
    EXPECT_EQ(stage->fence_count, 0);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(stage->fence_count, 0);
        beat(stage, w, WIRE_STATE_STEPPING, 256, 30000 + 20 * 256 * 10);
    }
    EXPECT_EQ(stage->fence_count, 1);
    EXPECT(u128_equal(stage->fenced, w->instance));
    EXPECT_EQ(sched_counts(stage->s).attributable_deaths, 1);
    EXPECT_EQ(sched_counts(stage->s).running, 0);
    stage_free(stage);
}

/* What a token has taken once it may take again: fast steps since then condemn no slow one. */
TEST(workers_slow_step_after_fast_ones_is_not_stuck) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_simple(stage, 0, 40, 60);
    for (int i = 0; i < 24; i++) {
        w->step_ms = i < 4 ? 100 * (i ? 1 : 40) : 1; /* 100 ms a token, then 1 */
        stage_run(stage);
        EXPECT(stage_answer(stage, w));
    }
    stage_run(stage);
    const uint32_t floor_ms = (uint32_t)stage->config.stuck_floor_ms,
                   slow_ms = 20 * 256 * 100; /* 20 times what 256 tokens took */
    for (int i = 0; i < 3; i++)
        beat(stage, w, WIRE_STATE_STEPPING, 256, floor_ms + slow_ms * 3 / 4);
    EXPECT_EQ(stage->fence_count, 0);
    for (int i = 0; i < 3; i++)
        beat(stage, w, WIRE_STATE_STEPPING, 256, floor_ms + slow_ms + 1);
    EXPECT_EQ(stage->fence_count, 1);
    stage_free(stage);
}

TEST(workers_lost_plan_is_noticed_by_idleness) {
    struct stage *stage = running_stage(1);
    struct stage_worker *w = &stage->workers[0];
    stage->now += 1000;
    for (int i = 0; i < 4; i++)
        beat(stage, w, WIRE_STATE_IDLE, 0, 0);
    EXPECT_EQ(stage->ask_count, 0); /* it may be under way */
    stage->now += 3000;
    beat(stage, w, WIRE_STATE_IDLE, 0, 0);
    beat(stage, w, WIRE_STATE_IDLE, 0, 0);
    EXPECT_EQ(stage->ask_count, 1);
    w->hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_ends_right(stage, 1, 60);
}

TEST(workers_results_of_an_older_registration_are_ignored) {
    struct stage *stage = running_stage(2);
    struct stage_worker *w = &stage->workers[0];
    struct stage_result old = w->results.items[0];
    sched_blocks_lost(stage->s, stage->now, w->instance, 1);
    EXPECT_EQ(sched_counts(stage->s).running, 0);
    w->hello.incarnation = 2;
    EXPECT_EQ(stage_hello(stage, w), 0);
    sched_blocks_lost(stage->s, stage->now, w->instance, 1); /* the same news again */
    EXPECT_EQ(sched_counts(stage->s).replicas_ready, 1);
    stage_run(stage);
    old.number = 1;
    struct wire_step_result result = {.plan_number = 1,
                                      .incarnation = 1,
                                      .slots = {old.slots, old.row_count},
                                      .token_counts = {old.counts, old.row_count},
                                      .finishes = {old.finishes, old.row_count},
                                      .tokens = {old.tokens, old.token_count}};
    EXPECT_EQ(sched_step_result(stage->s, stage->now, w->instance, &result), 0);
    stage_ends_right(stage, 2, 60);
}

TEST(workers_drained_replica_finishes_what_it_has) {
    struct stage *stage = running_stage(2);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 1)), 0);
    sched_worker_drain(stage->s, stage->now, stage->workers[0].instance);
    uint64_t before = stage->workers[1].computed_tokens;
    for (uint32_t i = 2; i < 6; i++)
        stage_simple(stage, i, 20, 10);
    stage_finish(stage);
    for (uint32_t i = 0; i < 6; i++)
        EXPECT(stage_is_right(stage, i, 0, i < 2 ? 60 : 10));
    EXPECT_EQ(stage->workers[1].computed_tokens - before, 4 * 29);
    stage_free(stage);
}

TEST(workers_replica_of_two_ranks_is_used_when_both_are_there) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *a = stage_worker(stage, 0), *b = stage_worker(stage, 1);
    a->hello.tp = b->hello.tp = 2;
    b->hello.rank = 1;
    b->hello.replica = a->hello.replica;
    stage_simple(stage, 0, 20, 10);
    EXPECT_EQ(stage_hello(stage, a), 0);
    stage_run(stage);
    EXPECT_EQ(a->results.count, 0);
    EXPECT_EQ(stage_hello(stage, b), 0);
    EXPECT_EQ(sched_counts(stage->s).replicas_ready, 1);
    EXPECT(u128_equal(sched_worker_replica(stage->s, b->instance), a->hello.replica));
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 10));
    stage_simple(stage, 1, 20, 10);
    stage_run(stage);
    exited(stage, b->instance, WIRE_EXIT_SIGNAL, false); /* one of two is as good as none */
    EXPECT_EQ(sched_counts(stage->s).replicas_ready, 0);
    b->instance = b->hello.instance = (struct u128){888, 9};
    EXPECT_EQ(stage_hello(stage, b), 0);
    EXPECT_EQ(sched_counts(stage->s).replicas_ready, 0);
    EXPECT(u128_equal(stage->asked, a->instance)); /* its slots are void, too */
    a->hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, a), 0);
    EXPECT_EQ(sched_counts(stage->s).replicas_ready, 1);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 1, 0, 10));
    stage_free(stage);
}

TEST(workers_resumed_request_never_continues_on_another_revision) {
    struct stage *stage = running_stage(1);
    EXPECT(stage->requests[0].choices[0].tokens.count > 0);
    exited(stage, stage->workers[0].instance, WIRE_EXIT_CLEAN, false);
    struct stage_worker *other = stage_worker(stage, 1);
    other->hello.revision = (struct u128){9, 9};
    EXPECT_EQ(stage_hello(stage, other), 0);
    stage_run(stage);
    EXPECT_EQ(other->results.count, 0);
    EXPECT(stage->config.revision_grace_ms <= 10000);
    stage->now += stage->config.revision_grace_ms - 1;
    stage_run(stage);
    EXPECT_EQ(stage->requests[0].reject, 0);
    EXPECT_EQ(stage->wants, stage->now + 1);
    stage->now += 1;
    stage_run(stage);
    EXPECT(stage->requests[0].reject == WIRE_REJECT_REVISION);
    stage_free(stage);
}

/* One of the two replicas lies about its model; whichever it is, no worker gets tokens that it has
 * no row for. */
TEST(workers_sequence_never_continues_where_its_tokens_are_unknown) {
    struct stage *stage = running_stage(1);
    EXPECT(stage->requests[0].choices[0].tokens.count > 0);
    exited(stage, stage->workers[0].instance, WIRE_EXIT_CLEAN, false);
    struct stage_worker *other = stage_worker(stage, 1);
    other->hello.logits_width = 1;
    EXPECT_EQ(stage_hello(stage, other), 0);
    stage_run(stage);
    sched_check(stage->s);
    EXPECT_EQ(other->results.count, 0);
    stage_free(stage);
}

/* The link forgets a peer whose Hello was refused, so nobody else would notice. */
TEST(workers_whose_new_hello_is_refused_are_lost) {
    struct stage *stage = running_stage(1);
    struct stage_worker *w = &stage->workers[0];
    w->hello.slot_count = 0;
    EXPECT(stage_hello(stage, w) != 0);
    EXPECT_EQ(sched_counts(stage->s).replicas_ready, 0);
    EXPECT(u128_equal(stage->fenced, w->instance));
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 1)), 0);
    stage_ends_right(stage, 1, 60);
}

TEST(workers_status_tells_models_and_replicas) {
    struct stage *stage = stage_new(NULL);
    uint64_t version = sched_status_version(stage->s);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.bundle = (struct u128){6, 6};
    w->hello.bundle_bytes = 1234;
    w->hello.state = WIRE_STATE_LOADING;
    EXPECT_EQ(stage_hello(stage, w), 0);
    EXPECT(sched_status_version(stage->s) != version);
    struct wire_status status = sched_status(stage->s);
    EXPECT_EQ(status.model_count, 1);
    EXPECT_EQ(status.models[0].replicas_known, 1);
    EXPECT_EQ(status.models[0].replicas_ready, 0);
    EXPECT(u128_equal(sched_bundle_source(stage->s, w->hello.bundle), w->instance));
    w->hello.state = WIRE_STATE_IDLE;
    w->hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, w), 0);
    status = sched_status(stage->s);
    EXPECT_EQ(status.models[0].replicas_ready, 1);
    EXPECT_EQ(status.models[0].max_context, 2048);
    EXPECT_EQ(status.models[0].bundle_bytes, 1234);
    EXPECT(bytes_equal(status.models[0].model, bytes_str("m")));
    stage_free(stage);
}

/* Figures add up over replicas and groups; what a replica that is not ready has left does not count. */
TEST(workers_status_adds_up_what_replicas_have) {
    struct stage *stage = stage_new(NULL);
    struct wire_kv_group groups[3][2];
    for (uint32_t i = 0; i < 3; i++) {
        struct stage_worker *w = stage_worker(stage, i);
        groups[i][0] = w->group;
        groups[i][1] = (struct wire_kv_group){
            .kind = WIRE_GROUP_WINDOW, .block_tokens = 16, .block_count = 40, .window_tokens = 64};
        groups[i][0].block_count = 100 * (i + 1);
        w->hello.groups = groups[i];
        w->hello.group_count = i ? 1 : 2;
        w->hello.slot_count = 10 + i;
        EXPECT_EQ(stage_hello(stage, w), 0);
    }
    for (uint32_t i = 0; i < 6; i++)
        stage_simple(stage, i, 33, 40);
    stage_run(stage);
    struct wire_status status = sched_status(stage->s);
    struct sched_counts counts = sched_counts(stage->s);
    const struct wire_model_status *m = &status.models[0];
    EXPECT_EQ(m->replicas_known, 3);
    EXPECT_EQ(m->replicas_ready, 3);
    EXPECT_EQ(m->replicas_loading, 0);
    EXPECT_EQ(m->slots, 33);
    EXPECT_EQ(m->running, 6);
    EXPECT_EQ(m->blocks, 640);
    EXPECT_EQ(m->blocks_used, 2 * 3 * 2 + 4 * 3); /* two of them have both groups */
    EXPECT(counts.blocks_total == m->blocks && counts.blocks_used == m->blocks_used);
    EXPECT_EQ(counts.replicas_ready, 3);
    stage_finish(stage);
    stage->workers[2].hello.state = WIRE_STATE_LOADING;
    stage->workers[2].hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, &stage->workers[2]), 0);
    status = sched_status(stage->s);
    counts = sched_counts(stage->s);
    m = &status.models[0];
    EXPECT_EQ(m->replicas_known, 3);
    EXPECT_EQ(m->replicas_ready, 2);
    EXPECT_EQ(m->replicas_loading, 1);
    EXPECT_EQ(m->slots, 21);
    EXPECT_EQ(m->running, 0);
    EXPECT_EQ(m->blocks, 340);
    EXPECT_EQ(m->blocks_used, 0);
    EXPECT(m->blocks_cached > 0 && counts.blocks_cached == m->blocks_cached);
    EXPECT(counts.blocks_total == m->blocks && counts.blocks_used == 0);
    EXPECT_EQ(counts.replicas_ready, 2);
    stage_free(stage);
}

/* ---- What a Hello may cost ---- */

TEST(workers_that_claim_more_blocks_than_tables_may_have_are_refused) {
    struct stage *stage = running_stage(2);
    struct stage_worker *w = stage_worker(stage, 1);
    struct error err;
    uint32_t honest = w->hello.groups[0].block_count;
    ((struct wire_kv_group *)w->hello.groups)[0].block_count = WIRE_MAX_BLOCKS;
    uint64_t before = sched_counts(stage->s).blocks_total;
    EXPECT_EQ(sched_worker_hello(stage->s, stage->now, &w->hello, &err), ERR_LIMIT);
    EXPECT(strstr(err.text, "--table-bytes") != NULL);
    EXPECT_EQ(sched_counts(stage->s).blocks_total, before);
    EXPECT_EQ(sched_counts(stage->s).replicas_ready, 1);
    stage_finish(stage); /* the others' work goes on */
    EXPECT(stage_is_right(stage, 0, 0, 60));
    ((struct wire_kv_group *)w->hello.groups)[0].block_count = honest;
    w->hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, w), 0);
    EXPECT_EQ(sched_counts(stage->s).replicas_ready, 2);
    stage_free(stage);
}

/* Each start of a worker is another replica. The tables of those that are gone, as large as a GPU's
 * memory makes them, do not wait for the model to be forgotten. */
TEST(workers_that_start_again_and_again_leave_no_tables_behind) {
    struct sched_config config;
    sched_config_default(&config);
    config.table_bytes = 1 << 20; /* of two, not of three */
    struct stage *stage = stage_new(&config);
    for (uint32_t life = 0; life < 6; life++) {
        struct stage_worker *w = stage_worker(stage, life % STAGE_WORKERS);
        w->group.block_count = 4096;
        w->instance.hi = w->hello.instance.hi = 20 + life;
        w->hello.replica.hi = 20 + life;
        EXPECT_EQ(stage_hello(stage, w), 0);
        stage_run(stage);
        exited(stage, w->instance, WIRE_EXIT_SIGNAL, false);
        stage->now += 100;
        stage_run(stage);
    }
    stage_free(stage);
}

/* ---- A worker that would pass over a part of a request ---- */

enum lists { NO_LIST, ALLOWED, BAD_WORDS };

static void submit_with(struct stage *stage, uint32_t idx, enum lists lists) {
    static const uint8_t allowed[STAGE_WIDTH / 8] = {0xff};
    static const uint32_t bad[] = {1, 7};
    struct wire_submit submit = stage_submit(stage, idx, 20, 3, idx);
    if (lists == ALLOWED)
        submit.sampling.allowed = bytes_of(allowed, sizeof allowed);
    if (lists == BAD_WORDS)
        submit.sampling.bad_words = (struct u32s){bad, ARRAY_LEN(bad)};
    stage_send(stage, &submit);
    stage_finish(stage);
}

TEST(token_lists_are_refused_where_all_workers_are_older_than_they) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0); /* without the bit */
    submit_with(stage, 0, NO_LIST);
    submit_with(stage, 1, ALLOWED);
    submit_with(stage, 2, BAD_WORDS);
    EXPECT(stage_is_right(stage, 0, 0, 3));
    EXPECT_EQ(stage->requests[1].reject, WIRE_REJECT_OLD_WORKERS);
    EXPECT_EQ(stage->requests[2].reject, WIRE_REJECT_OLD_WORKERS);
    stage->workers[0].hello.features = WIRE_FEATURE_TOKEN_LISTS; /* it was replaced */
    stage->workers[0].hello.incarnation++;
    EXPECT_EQ(stage_hello(stage, &stage->workers[0]), 0);
    submit_with(stage, 3, ALLOWED);
    submit_with(stage, 4, BAD_WORDS);
    EXPECT(stage_is_right(stage, 3, 0, 3));
    EXPECT(stage_is_right(stage, 4, 0, 3));
    stage_free(stage);
}

TEST(token_lists_go_to_the_worker_that_holds_to_them) {
    struct stage *stage = stage_new(NULL);
    for (uint32_t i = 0; i < 2; i++) {
        struct stage_worker *w = stage_worker(stage, i);
        w->hello.features = i ? WIRE_FEATURE_TOKEN_LISTS : 0;
        EXPECT_EQ(stage_hello(stage, w), 0);
    }
    for (uint32_t i = 0; i < 6; i++) {
        submit_with(stage, i, i % 2 ? ALLOWED : BAD_WORDS);
        EXPECT(stage_is_right(stage, i, 0, 3));
    }
    EXPECT_EQ(stage->workers[0].computed_tokens, 0);
    stage_free(stage);
}

/* Which of its ranks samples may change with their versions, so all of them must know the lists. */
TEST(a_replica_with_an_older_rank_takes_no_token_lists) {
    static const struct u128 meet = {77, 78};
    struct stage *stage = stage_new(NULL);
    for (uint32_t i = 0; i < 2; i++) {
        struct stage_worker *w = stage_worker(stage, i);
        w->hello.replica = (struct u128){500, 1};
        w->hello.rank = i;
        w->hello.tp = 2;
        w->hello.features = i ? 0 : WIRE_FEATURE_TOKEN_LISTS;
        if (i == 0)
            w->hello.comm_id = bytes_of(&meet, sizeof meet);
        EXPECT_EQ(stage_hello(stage, w), 0);
    }
    submit_with(stage, 0, BAD_WORDS);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_OLD_WORKERS);
    stage_free(stage);
}

TEST(workers_bundles_come_from_one_that_has_loaded) {
    struct stage *stage = stage_new(NULL);
    const struct u128 bundle = {6, 6};
    for (uint32_t i = 0; i < 3; i++) {
        struct stage_worker *w = stage_worker(stage, i);
        w->hello.bundle = bundle;
        w->hello.state = i == 1 ? WIRE_STATE_IDLE : WIRE_STATE_LOADING;
        EXPECT_EQ(stage_hello(stage, w), 0);
    }
    EXPECT(u128_equal(sched_bundle_source(stage->s, bundle), stage_instance(1)));
    EXPECT(u128_is_zero(sched_bundle_source(stage->s, (struct u128){6, 7})));
    stage_free(stage);
}

/* A worker that loses its blocks lives: nobody has killed it. */
TEST(workers_that_lose_their_blocks_again_and_again_make_no_suspects) {
    struct stage *stage = running_stage(1);
    struct stage_worker *w = &stage->workers[0];
    for (int i = 0; i < 8; i++) {
        stage_run(stage);
        sched_blocks_lost(stage->s, stage->now, w->instance, w->hello.incarnation);
        w->hello.incarnation++;
        EXPECT_EQ(stage_hello(stage, w), 0);
    }
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].reject, 0);
    EXPECT(stage_is_right(stage, 0, 0, 60));
    EXPECT_EQ(sched_counts(stage->s).attributable_deaths, 0);
    stage_free(stage);
}

TEST(workers_names_of_models_are_as_long_as_the_wire_takes) {
    static char name[WIRE_MAX_TEXT + 1];
    memset(name, 'm', sizeof name);
    for (size_t more = 0; more < 2; more++) {
        struct stage *stage = stage_new(NULL);
        struct stage_worker *w = stage_worker(stage, 0);
        w->hello.model = bytes_of(name, WIRE_MAX_TEXT + more);
        EXPECT_EQ(stage_hello(stage, w), more ? ERR_INVALID : 0);
        stage_free(stage);
    }
}
