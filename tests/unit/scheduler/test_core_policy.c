#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/plan.h"
#include "stage.h"

static struct stage *one_worker(const struct sched_config *config) {
    struct stage *stage = stage_new(config);
    CHECK(stage_hello(stage, stage_worker(stage, 0)) == 0);
    return stage;
}

/* Steps until the stream of a request has a token; the number of results it took. */
static int steps_until_token(struct stage *stage, uint32_t idx) {
    for (int steps = 0; steps < 10000; steps++) {
        stage_run(stage);
        if (stage->requests[idx].choices[0].tokens.count)
            return steps;
        if (!stage_answer(stage, &stage->workers[0]))
            return -1;
        stage->now++;
    }
    return -1;
}

TEST(policy_any_chunk_size_gives_the_same_text) {
    static const uint32_t CHUNKS[] = {0, 1, 7, 16, 512};
    for (size_t c = 0; c < ARRAY_LEN(CHUNKS); c++) {
        struct sched_config config;
        sched_config_default(&config);
        config.chunk_tokens = CHUNKS[c];
        struct stage *stage = one_worker(&config);
        for (uint32_t i = 0; i < 8; i++)
            stage_simple(stage, i, 30 + 40 * i, 12);
        stage_finish(stage);
        for (uint32_t i = 0; i < 8; i++)
            EXPECT(stage_is_right(stage, i, 0, 12));
        stage_free(stage);
    }
}

/* Two chunks: the one under way, and one more; with two plans in flight the results of both are
 * awaited. */
TEST(policy_short_request_behind_a_long_prefill_starts_within_two_chunks) {
    static const uint32_t CHUNKS[] = {0, 64, 16};
    for (size_t c = 0; c < ARRAY_LEN(CHUNKS); c++) {
        struct sched_config config;
        sched_config_default(&config);
        config.chunk_tokens = CHUNKS[c];
        struct stage *stage = one_worker(&config);
        stage_simple(stage, 0, 1500, 5);
        stage_run(stage);
        EXPECT(stage_answer(stage, &stage->workers[0]));
        stage_simple(stage, 1, 12, 5);
        int steps = steps_until_token(stage, 1);
        EXPECT(steps >= 0 && steps <= 3);
        EXPECT_EQ(stage->requests[0].choices[0].tokens.count, 0);
        stage_finish(stage);
        EXPECT(stage_is_right(stage, 0, 0, 5) && stage_is_right(stage, 1, 0, 5));
        stage_free(stage);
    }
}

TEST(policy_long_prefill_is_not_starved_by_short_ones) {
    struct stage *stage = one_worker(NULL);
    stage_simple(stage, 0, 1500, 1);
    uint32_t next = 1;
    int steps = 0;
    for (; steps < 200 && !stage->requests[0].choices[0].finish; steps++) {
        for (int i = 0; i < 4 && next < STAGE_REQUESTS; i++)
            stage_simple(stage, next++, 100, 1);
        stage_run(stage);
        EXPECT(stage_answer(stage, &stage->workers[0]));
        stage->now++;
    }
    EXPECT(steps <= 1500 / (256 / 4) + 4); /* a quarter of each step is its own */
    stage_finish(stage);
    stage_free(stage);
}

/* Also beside one other: a short prompt that fills each step is there at any time. */
TEST(policy_long_prefill_beside_one_short_has_its_quarter) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.steps_in_flight = 1;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_simple(stage, 0, 1500, 1);
    uint32_t at = 1;
    int steps = 0;
    stage_simple(stage, at, 256, 1);
    for (; steps < 100 && !stage->requests[0].choices[0].finish; steps++) {
        stage_run(stage);
        bool ended = w->results.items[0].token_count > 0;
        EXPECT(stage_answer(stage, w));
        if (ended) /* before the next plan */
            stage_simple(stage, ++at, 256, 1);
        stage->now++;
    }
    EXPECT(steps <= 1500 / (256 / 4) + 4);
    stage_finish(stage);
    stage_free(stage);
}

TEST(policy_lower_priority_number_runs_first) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 1;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 4; i++) {
        struct wire_submit submit = stage_submit(stage, i, 10, 3, i);
        submit.priority = 4 - (int32_t)i;
        stage_send(stage, &submit);
    }
    uint32_t order[4], count = 0;
    bool seen[4] = {0};
    for (int turn = 0; turn < 100 && count < 4; turn++) {
        stage_run(stage);
        for (uint32_t i = 0; i < 4; i++)
            if (stage->requests[i].choices[0].finish && !seen[i]) {
                seen[i] = true;
                order[count++] = i;
            }
        stage_answer(stage, w);
    }
    for (uint32_t i = 0; i < 4; i++)
        EXPECT_EQ(order[i], 3 - i);
    stage_free(stage);
}

TEST(policy_tenants_share_fairly) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 2;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 40;
         i++) { /* tenant 1 came first with 30 requests, then tenant 2 with 10 */
        struct wire_submit submit = stage_submit(stage, i, 10, 4, i);
        submit.tenant = (struct u128){i < 30 ? 1 : 2, 0};
        stage_send(stage, &submit);
    }
    uint32_t done[2] = {0};
    bool seen[40] = {0};
    for (int turn = 0; turn < 1000 && done[1] < 10; turn++) {
        stage_run(stage);
        for (uint32_t i = 0; i < 40; i++)
            if (stage->requests[i].choices[0].finish && !seen[i]) {
                seen[i] = true;
                done[i >= 30]++;
            }
        stage_answer(stage, w);
    }
    EXPECT_EQ(done[1], 10);
    EXPECT(done[0] >= 8 && done[0] <= 13); /* half of the machine each */
    stage_finish(stage);
    stage_free(stage);
}

/* Of `count` requests the first `important` are of tenant 1 and priority -1, the others of tenant 2
 * and 0. Runs until all of tenant 2 have ended; how many of tenant 1 have by then. */
static uint32_t important_done(struct stage *stage, uint32_t important, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct wire_submit submit = stage_submit(stage, i, 10, 4, i);
        submit.tenant = (struct u128){i < important ? 1 : 2, 0};
        submit.priority = i < important ? -1 : 0;
        stage_send(stage, &submit);
    }
    uint32_t done[2] = {0};
    bool seen[STAGE_REQUESTS] = {0};
    for (int turn = 0; turn < 1000 && done[1] < count - important; turn++) {
        stage_run(stage);
        for (uint32_t i = 0; i < count; i++)
            if (stage->requests[i].choices[0].finish && !seen[i]) {
                seen[i] = true;
                done[i >= important]++;
            }
        stage_answer(stage, &stage->workers[0]);
    }
    CHECK(done[1] == count - important);
    return done[0];
}

TEST(policy_priority_takes_nothing_from_another_tenant) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 2;
    EXPECT_EQ(stage_hello(stage, w), 0);
    uint32_t done = important_done(stage, 30, 40);
    EXPECT(done >= 8 && done <= 13);
    stage_finish(stage);
    stage_free(stage);
}

/* Prompts in chunks: the one without priority gets its share of each step. */
TEST(policy_priority_takes_no_chunks_from_another_tenant) {
    struct stage *stage = one_worker(NULL);
    for (uint32_t i = 0; i < 9; i++) {
        struct wire_submit submit = stage_submit(stage, i, i ? 400 : 600, 1, i);
        submit.tenant = (struct u128){i == 8 ? 2 : 1, 0};
        submit.priority = i == 8 ? 0 : -1;
        stage_send(stage, &submit);
    }
    /* half of each step's 256 are its own; two plans are in flight */
    int steps = steps_until_token(stage, 8);
    EXPECT(steps >= 1 && steps <= 400 / 128 + 3);
    stage_finish(stage);
    stage_free(stage);
}

/* Room for one: the tenant that came last gives way, however important it says that it is. */
TEST(policy_priority_preempts_no_other_tenant) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->group.block_count = 8;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_submit submit = stage_submit(stage, i, 30, 60, i);
        submit.tenant = (struct u128){i + 1, 0};
        submit.priority = i == 0 ? 0 : -5;
        stage_send(stage, &submit);
    }
    for (int turn = 0; turn < 500 && !stage->requests[0].choices[0].finish; turn++) {
        stage_run(stage);
        stage_answer(stage, w);
    }
    EXPECT(stage_is_right(stage, 0, 0, 60));
    EXPECT(stage->requests[1].choices[0].tokens.count < 60);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 1, 0, 60));
    stage_free(stage);
}

static void ask_of_tenant(struct stage *stage, uint32_t first, uint32_t count, uint64_t tenant) {
    for (uint32_t i = first; i < first + count; i++) {
        struct wire_submit submit = stage_submit(stage, i, 20, 2, i);
        submit.tenant = (struct u128){tenant, 0};
        stage_send(stage, &submit);
    }
}

/* A tenant that had nothing waiting for a while is not owed what the steady one got meanwhile. */
TEST(policy_idleness_earns_nothing) {
    struct sched_config config;
    sched_config_default(&config);
    config.wait_max_ms = 0;
    struct stage *stage = stage_new(&config);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 3;
    EXPECT_EQ(stage_hello(stage, w), 0);
    struct wire_submit one = stage_submit(stage, 0, 10, 1500, 0);
    one.tenant = (struct u128){2, 0}; /* keeps its tenant known, and waits for nothing */
    stage_send(stage, &one);
    ask_of_tenant(stage, 100, 200, 1);
    for (int turn = 0; turn < 240; turn++) {
        stage_run(stage);
        stage_answer(stage, w);
    }
    ask_of_tenant(stage, 10, 30, 2);
    uint32_t steady = 0, back = 0, before = 0;
    for (uint32_t i = 100; i < 300; i++)
        before += stage->requests[i].choices[0].finish != 0;
    EXPECT(before > 100 && before < 180);
    for (int turn = 0; turn < 1000 && back < 10; turn++) {
        stage_run(stage);
        stage_answer(stage, w);
        steady = back = 0;
        for (uint32_t i = 100; i < 300; i++)
            steady += stage->requests[i].choices[0].finish != 0;
        for (uint32_t i = 10; i < 40; i++)
            back += stage->requests[i].choices[0].finish != 0;
    }
    EXPECT(back >= 10);
    EXPECT(steady - before >= 6); /* half each, but for the long one's tokens */
    stage_free(stage);
}

/* Two that lost their worker, one place: first the one with less to compute again, though it came
 * later. */
TEST(policy_resumed_that_cost_less_go_first) {
    struct stage *stage = one_worker(NULL);
    stage_simple(stage, 0, 400, 30);
    stage_simple(stage, 1, 20, 30);
    for (int turn = 0; turn < 8; turn++) {
        stage_run(stage);
        EXPECT(stage_answer(stage, &stage->workers[0]));
    }
    EXPECT_EQ(sched_counts(stage->s).running, 2);
    struct wire_exited gone = {.instance = stage->workers[0].instance, .cause = WIRE_EXIT_SIGNAL};
    sched_worker_exited(stage->s, stage->now, &gone);
    stage->workers[0].results.count = 0;
    EXPECT_EQ(sched_counts(stage->s).resumed_waiting, 2);
    struct stage_worker *next = stage_worker(stage, 1);
    next->hello.slot_count = 1;
    EXPECT_EQ(stage_hello(stage, next), 0);
    for (int turn = 0; turn < 200 && !stage->requests[1].choices[0].finish; turn++) {
        stage_run(stage);
        stage_answer(stage, next);
    }
    EXPECT(stage->requests[1].choices[0].finish && !stage->requests[0].choices[0].finish);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 30) && stage_is_right(stage, 1, 0, 30));
    stage_free(stage);
}

TEST(policy_probe_goes_before_everybody) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 1;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 20; i++) {
        struct wire_submit submit = stage_submit(stage, i, 10, 4, i);
        submit.tenant = (struct u128){1 + i % 2, 0};
        submit.priority = -1000;
        if (i == 19) { /* its tenant has been served much */
            submit.tenant = (struct u128){1, 0};
            submit.priority = WIRE_PRIORITY_PROBE;
        }
        stage_send(stage, &submit);
    }
    for (int turn = 0; turn < 1000 && !stage->requests[19].choices[0].finish; turn++) {
        stage_run(stage);
        stage_answer(stage, w);
    }
    uint32_t done = 0;
    for (uint32_t i = 0; i < 19; i++)
        done += stage->requests[i].choices[0].finish != 0;
    EXPECT(done <= 1);
    stage_finish(stage);
    stage_free(stage);
}

/* Who asks again and again whether anything runs, which needs no key, takes its slot from nobody more
 * than once. */
TEST(policy_probes_keep_nobody_from_its_end) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 1;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_simple(stage, 0, 20, 40);
    uint32_t probes = 0;
    for (int turn = 0; turn < 500 && !stage->requests[0].choices[0].finish; turn++) {
        if (turn > 5 && (!probes || stage->requests[probes].choices[0].finish)) {
            probes++;
            struct wire_submit submit = stage_submit(stage, probes, 1, 1, probes);
            submit.priority = WIRE_PRIORITY_PROBE;
            stage_send(stage, &submit);
        }
        stage_run(stage);
        stage_answer(stage, w);
    }
    EXPECT(stage->requests[0].choices[0].finish != 0);
    EXPECT(probes > 1 && stage->requests[1].choices[0].finish != 0);
    EXPECT_EQ(sched_counts(stage->s).preemptions, 1);
    stage_finish(stage);
    stage_free(stage);
}

TEST(policy_bound_is_told_with_a_time_and_resumed_work_passes_it) {
    struct sched_config config;
    sched_config_default(&config);
    config.waiting_max = 4;
    struct stage *stage = stage_new(&config);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 2;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 10; i++)
        stage_simple(stage, i, 20, 6);
    stage_run(stage);
    uint32_t refused = 0;
    for (uint32_t i = 0; i < 10; i++) {
        refused += stage->requests[i].reject == WIRE_REJECT_OVERLOADED;
        EXPECT(!stage->requests[i].reject || stage->requests[i].retry_after_ms >= 1000);
        EXPECT_EQ(stage->requests[i].accepted, stage->requests[i].reject ? 0 : 1);
    }
    EXPECT_EQ(refused, 4); /* two slots, four places */
    EXPECT(!stage->requests[0].reject && stage->requests[9].reject);
    for (uint32_t i = 20; i < 40; i++) {
        struct wire_submit submit = stage_submit(stage, i, 20, 6, i);
        submit.resumed = true;
        stage_send(stage, &submit);
    }
    stage_finish(stage);
    for (uint32_t i = 20; i < 40; i++)
        EXPECT(stage_is_right(stage, i, 0, 6));
    stage_free(stage);
}

TEST(policy_repeated_prompt_computes_only_its_last_block) {
    struct stage *stage = one_worker(NULL);
    struct wire_submit submit = stage_submit(stage, 0, 400, 4, 7);
    stage_send(stage, &submit);
    stage_finish(stage);
    uint64_t before = stage->workers[0].computed_tokens;
    submit = stage_submit(stage, 1, 400, 4, 7);
    stage_send(stage, &submit);
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].choices[0].cached, 0);
    /* 400 is 25 blocks of 16: the last is computed again */
    EXPECT_EQ(stage->requests[1].choices[0].cached, 384);
    EXPECT_EQ(stage->workers[0].computed_tokens - before, 16 + 3);
    EXPECT(stage_is_right(stage, 1, 0, 4));
    stage_free(stage);
}

TEST(policy_salt_tenant_and_revision_keep_caches_apart) {
    struct stage *stage = one_worker(NULL);
    for (uint32_t i = 0; i < 4; i++) {
        struct wire_submit submit = stage_submit(stage, i, 100, 2, 7);
        if (i == 1)
            submit.cache_salt = bytes_str("salt");
        if (i == 2)
            submit.tenant = (struct u128){5, 5};
        stage_send(stage, &submit);
        stage_finish(stage);
        EXPECT_EQ(stage->requests[i].choices[0].cached, i == 3 ? 96 : 0);
    }
    stage_free(stage);
}

/* --share-prefixes: another tenant's prompt is found, another salt's is not. */
TEST(policy_tenants_may_share_their_caches) {
    struct sched_config config;
    sched_config_default(&config);
    config.isolate_tenants = false;
    struct stage *stage = one_worker(&config);
    for (uint32_t i = 0; i < 3; i++) {
        struct wire_submit submit = stage_submit(stage, i, 100, 2, 7);
        submit.tenant = (struct u128){i + 1, 5};
        if (i == 2)
            submit.cache_salt = bytes_str("salt");
        stage_send(stage, &submit);
        stage_finish(stage);
        EXPECT_EQ(stage->requests[i].choices[0].cached, i == 1 ? 96 : 0);
    }
    stage_free(stage);
}

TEST(policy_choices_share_the_prompt) {
    struct stage *stage = one_worker(NULL);
    struct wire_submit submit = stage_submit(stage, 0, 200, 10, 3);
    struct wire_choice choices[3] = {{.choice = 0}, {.choice = 1}, {.choice = 2}};
    submit.choices = choices;
    submit.choice_count = 3;
    stage_send(stage, &submit);
    stage_finish(stage);
    for (uint32_t c = 0; c < 3; c++)
        EXPECT(stage_is_right(stage, 0, c, 10));
    /* 12 full blocks are shared */
    EXPECT_EQ(stage->workers[0].computed_tokens, 200 + 2 * 8 + 3 * 9);
    EXPECT_EQ(sched_counts(stage->s).records, 0);
    stage_free(stage);
}

TEST(policy_output_of_another_class_is_no_hit) {
    for (int sensitive = 0; sensitive < 2; sensitive++) {
        struct stage *stage = stage_new(NULL);
        struct stage_worker *w = stage_worker(stage, 0);
        w->hello.class_sensitive = sensitive;
        EXPECT_EQ(stage_hello(stage, w), 0);
        stage_simple(stage, 0, 20, 60);
        stage_finish(stage);
        /* the next turn's prompt: the first one's prompt, its output, and more */
        struct stage_tokens all = {0};
        for (size_t i = 0; i < 20; i++)
            vec_push(&all, stage->requests[0].prompt.items[i]);
        for (size_t i = 0; i < 60; i++)
            vec_push(&all, stage->requests[0].choices[0].tokens.items[i]);
        struct wire_submit submit = stage_submit(stage, 1, 90, 2, 9);
        memcpy(stage->requests[1].prompt.items, all.items, all.count * 4);
        stage_send(stage, &submit);
        stage_finish(stage);
        /* 79 positions have been computed */
        EXPECT_EQ(stage->requests[1].choices[0].cached, sensitive ? 16 : 64);
        EXPECT(stage_is_right(stage, 1, 0, 2));
        vec_release(&all);
        stage_free(stage);
    }
}

/* The only model's figures in Status are the scheduler's own. */
static bool figures_agree(struct sched *s) {
    const struct sched_counts c = sched_counts(s);
    const struct wire_status status = sched_status(s);
    const struct wire_model_status *m = status.models;
    return status.model_count == 1 && m->running == c.running &&
           m->waiting == c.waiting + c.resumed_waiting && m->blocks == c.blocks_total &&
           m->blocks_used == c.blocks_used && m->blocks_cached == c.blocks_cached &&
           m->steps == c.steps && m->step_tokens == c.computed_tokens &&
           m->output_tokens == c.output_tokens && m->prefix_queries == c.prompt_tokens &&
           m->prefix_hits <= c.cached_tokens && m->preemptions == c.preemptions &&
           m->evictions == c.evictions;
}

TEST(policy_figures_have_what_may_not_run_now) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_simple(stage, 0, 20, 100);
    stage_run(stage);
    sched_gateway_silent(stage->s, stage->now, stage->gateway);
    for (int i = 0; i < 4 && sched_counts(stage->s).running; i++) {
        EXPECT(stage_answer(stage, w));
        stage_run(stage);
    }
    const struct sched_counts c = sched_counts(stage->s);
    EXPECT_EQ(c.waiting + c.resumed_waiting, 1);
    EXPECT(figures_agree(stage->s));
    stage_free(stage);
}

TEST(policy_preemption_keeps_the_text) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->group.block_count = 20; /* 320 positions for 8 streams of 120 */
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 8; i++)
        stage_simple(stage, i, 20 + i, 100);
    stage_run(stage);
    EXPECT(sched_status(stage->s).models[0].running > 0 && figures_agree(stage->s));
    stage_finish(stage);
    for (uint32_t i = 0; i < 8; i++)
        EXPECT(stage_is_right(stage, i, 0, 100));
    EXPECT(sched_counts(stage->s).preemptions > 0);
    EXPECT_EQ(sched_counts(stage->s).blocks_used, 0);
    EXPECT(figures_agree(stage->s));
    /* evictions of a replica that is gone still count */
    uint64_t evictions = sched_counts(stage->s).evictions;
    EXPECT(evictions > 0);
    sched_worker_silent(stage->s, stage->now, w->instance);
    stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).evictions, evictions);
    stage_free(stage);
}

TEST(policy_latest_of_lowest_priority_is_preempted) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->group.block_count = 8;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_submit submit = stage_submit(stage, i, 30, 60, i);
        submit.priority = i == 0 ? 5 : 0;
        stage_send(stage, &submit);
    }
    for (int turn = 0; turn < 500 && !stage->requests[1].choices[0].finish; turn++) {
        stage_run(stage);
        stage_answer(stage, w);
    }
    EXPECT(stage_is_right(stage, 1, 0, 60)); /* the important one never gave way */
    EXPECT(stage->requests[0].choices[0].tokens.count < 60);
    stage_ends_right(stage, 1, 60);
}

/* Both have been running when the room ends: the earlier one, which is paused, gives way, and the
 * later one goes on without a pause of its own. */
TEST(policy_paused_is_preempted_before_later) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->group.block_count = 8;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 2; i++)
        stage_simple(stage, i, 30, 60);
    for (int turn = 0; turn < 8; turn++) {
        stage_run(stage);
        EXPECT(stage_answer(stage, w));
    }
    EXPECT(stage->requests[0].choices[0].tokens.count &&
           stage->requests[1].choices[0].tokens.count);
    EXPECT_EQ(sched_counts(stage->s).preemptions, 0);
    struct wire_pause pause = {.request = stage_id(0), .paused = true};
    sched_pause(stage->s, stage->now, stage->gateway, &pause);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 1, 0, 60));
    EXPECT_EQ(sched_counts(stage->s).preemptions, 1);
    pause.paused = false;
    sched_pause(stage->s, stage->now, stage->gateway, &pause);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 60));
    EXPECT_EQ(sched_counts(stage->s).preemptions, 1);
    stage_free(stage);
}

TEST(policy_replica_with_the_prefix_is_chosen_and_load_is_spread) {
    struct stage *stage = stage_new(NULL);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 1)), 0);
    struct wire_submit submit = stage_submit(stage, 0, 300, 2, 1);
    stage_send(stage, &submit);
    stage_finish(stage);
    int first = stage->workers[0].computed_tokens ? 0 : 1;
    submit = stage_submit(stage, 1, 300, 2, 1);
    stage_send(stage, &submit);
    stage_finish(stage);
    EXPECT_EQ(stage->requests[1].choices[0].cached, 288);
    EXPECT_EQ(stage->workers[1 - first].computed_tokens, 0);
    for (uint32_t i = 2; i < 30; i++)
        stage_simple(stage, i, 20, 8);
    stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).running, 28); /* more than one worker's slots */
    stage_finish(stage);
    EXPECT(stage->workers[1 - first].computed_tokens > 200);
    stage_free(stage);
}

TEST(policy_refuses_what_can_never_run) {
    struct stage *stage = one_worker(NULL);
    stage_simple(stage, 0, 2048, 5); /* no room for one token */
    struct wire_submit submit = stage_submit(stage, 1, 10, 5, 1);
    stage->requests[1].prompt.items[3] = STAGE_WIDTH;
    stage_send(stage, &submit);
    submit = stage_submit(stage, 2, 10, 5, 1);
    submit.model = bytes_str("another");
    stage->now += stage->config.start_grace_ms;
    stage_send(stage, &submit);
    submit = stage_submit(stage, 3, 10, 5, 1);
    submit.kind = WIRE_EMBED;
    stage_send(stage, &submit);
    submit = stage_submit(stage, 4, 10, 5, 1);
    submit.sampling.temperature = -1;
    stage_send(stage, &submit);
    submit = stage_submit(stage, 5, 0, 5, 1);
    stage_send(stage, &submit);
    for (uint32_t i = 7; i < 9; i++) {
        submit = stage_submit(stage, i, 10, 5, 1);
        submit.sampling.repetition_penalty = i == 7 ? 1e-38f : 1e30f;
        stage_send(stage, &submit);
    }
    stage_simple(stage, 6, 2040, 50); /* ends at the context's end */
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_TOO_LONG);
    EXPECT_EQ(stage->requests[1].reject, WIRE_REJECT_INVALID);
    EXPECT_EQ(stage->requests[2].reject, WIRE_REJECT_NO_MODEL);
    EXPECT_EQ(stage->requests[3].reject, WIRE_REJECT_UNSUPPORTED);
    EXPECT_EQ(stage->requests[4].reject, WIRE_REJECT_INVALID);
    EXPECT_EQ(stage->requests[5].reject, WIRE_REJECT_INVALID);
    EXPECT_EQ(stage->requests[7].reject, WIRE_REJECT_INVALID);
    EXPECT_EQ(stage->requests[8].reject, WIRE_REJECT_INVALID);
    EXPECT(stage_is_right(stage, 6, 0, 8));
    EXPECT_EQ(sched_counts(stage->s).records, 0);
    stage_free(stage);
}

TEST(policy_cache_smaller_than_the_context_bounds_the_length) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->group.block_count = 8; /* 128 positions */
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_simple(stage, 0, 128, 5);
    stage_simple(stage, 1, 100, 500);
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].reject, WIRE_REJECT_TOO_LONG);
    EXPECT(stage_is_right(stage, 1, 0, 28));
    EXPECT_EQ(stage->requests[1].choices[0].finish, WIRE_FINISH_LENGTH);
    stage_free(stage);
}

TEST(policy_deadlines_end_what_waits_and_what_runs) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 1;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_submit submit = stage_submit(stage, i, 10, 1000, i);
        submit.deadline_ms = 500;
        stage_send(stage, &submit);
    }
    for (int i = 0; i < 20; i++) {
        stage_run(stage);
        stage_answer(stage, w);
        stage->now++;
    }
    stage->now += 500;
    stage_finish(stage);
    EXPECT_EQ(stage->requests[0].choices[0].finish, WIRE_FINISH_DEADLINE);
    EXPECT(stage_is_right(stage, 0, 0, stage->requests[0].choices[0].tokens.count));
    EXPECT_EQ(stage->requests[1].reject, WIRE_REJECT_DEADLINE);
    EXPECT_EQ(sched_counts(stage->s).running, 0);
    stage_free(stage);
}

TEST(policy_draining_takes_only_resumed_work) {
    struct stage *stage = one_worker(NULL);
    stage_simple(stage, 0, 10, 5);
    sched_drain(stage->s, stage->now);
    stage_simple(stage, 1, 10, 5);
    struct wire_submit submit = stage_submit(stage, 2, 10, 5, 2);
    submit.resumed = true;
    stage_send(stage, &submit);
    EXPECT(!sched_is_idle(stage->s));
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 5) && stage_is_right(stage, 2, 0, 5));
    EXPECT_EQ(stage->requests[1].reject, WIRE_REJECT_DRAINING);
    EXPECT(sched_is_idle(stage->s) && sched_status(stage->s).draining);
    stage_free(stage);
}

TEST(policy_window_group_gives_blocks_back) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    struct wire_kv_group groups[2] = {
        {.kind = WIRE_GROUP_FULL, .block_tokens = 16, .block_count = 64},
        {.kind = WIRE_GROUP_WINDOW, .block_tokens = 8, .block_count = 64, .window_tokens = 32}};
    w->hello.groups = groups;
    w->hello.group_count = 2;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage_simple(stage, 0, 40, 400);
    uint64_t most = 0;
    const struct replica *r = model_find(stage->s, bytes_str(""))->replicas.items[0];
    for (int i = 0; i < 300; i++) {
        stage_run(stage);
        most = MAX(most, sched_counts(stage->s).blocks_used);
        EXPECT(stage_answer(stage, w));
        /* each as soon as nothing of it lies within the window */
        const struct sequence *q = r->running[0];
        EXPECT_EQ(q->tables[1].first, q->computed_lo > 32 ? (q->computed_lo - 32) / 8 : 0);
    }
    EXPECT(most <= 340 / 16 + 2 + (40 + 32) / 8 + 3);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 0, 0, 400));
    EXPECT_EQ(sched_counts(stage->s).blocks_used, 0);
    stage_free(stage);
}

/* A state in the slot is not in the blocks: nobody may begin behind somebody else's prefix. */
TEST(policy_models_with_a_state_share_no_prefix) {
    for (int kind = WIRE_GROUP_FULL; kind <= WIRE_GROUP_RECURRENT;
         kind += WIRE_GROUP_RECURRENT - WIRE_GROUP_FULL) {
        struct stage *stage = stage_new(NULL);
        struct stage_worker *w = stage_worker(stage, 0);
        w->group.kind = (enum wire_group_kind)kind;
        EXPECT_EQ(stage_hello(stage, w), 0);
        for (uint32_t idx = 0; idx < 2; idx++) { /* the same prompt twice */
            struct wire_submit submit = stage_submit(stage, idx, 100, 5, 7);
            stage_send(stage, &submit);
            stage_finish(stage);
        }
        EXPECT((sched_counts(stage->s).cached_tokens > 0) == (kind == WIRE_GROUP_FULL));
        stage_free(stage);
    }
}

/* Prompt chunks shrink until a step with decoding rows takes about as long as asked for. */
TEST(policy_chunks_are_sized_for_the_steps_length) {
    struct sched_config config;
    sched_config_default(&config);
    config.itl_target_ms = 100;
    struct stage *stage = one_worker(&config);
    stage->workers[0].ms_per_token = 2;
    stage_simple(stage, 0, 20, 400);
    for (int i = 0; i < 10; i++) {
        stage_run(stage);
        EXPECT(stage_answer(stage, &stage->workers[0]));
    }
    stage_simple(stage, 1, 1500, 5);
    uint32_t widest = 0;
    for (int i = 0; i < 12; i++) {
        stage_run(stage);
        struct stage_result *last =
            &stage->workers[0].results.items[stage->workers[0].results.count - 1];
        uint32_t tokens = 0;
        for (size_t row = 0; row < last->row_count; row++)
            tokens += last->lens[row];
        if (i > 4)
            widest = MAX(widest, tokens);
        EXPECT(stage_answer(stage, &stage->workers[0]));
    }
    EXPECT(widest > 33 && widest <= 52);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 1, 0, 5));
    stage_free(stage);
}

/* Beside many decoding rows a prompt gets what they leave of the step's length, or as much time as they
 * take, where that is more. Left to itself a step with one prompt is twice as long as they
 * take, within its bounds. */
TEST(policy_prompts_get_what_decoding_rows_leave) {
    static const struct {
        int32_t target_ms;
        bool follows; /* itl_auto */
        uint32_t row_count;
        uint32_t least, most; /* tokens of a step with these rows and the prompt, 1 ms each */
    } ROWS[] = {{100, false, 40, 90, 101}, {160, false, 40, 145, 161}, {50, false, 40, 73, 81},
                {0, false, 40, 250, 256},  {300, true, 40, 73, 81},    {60, true, 40, 73, 81},
                {100, true, 5, 27, 31},    {20, true, 10, 24, 26},     {0, true, 40, 250, 256}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct sched_config config;
        sched_config_default(&config);
        config.itl_target_ms = ROWS[i].target_ms;
        config.itl_auto = ROWS[i].follows;
        struct stage *stage = stage_new(&config);
        struct stage_worker *w = stage_worker(stage, 0);
        w->hello.slot_count = 64;
        w->group.block_count = 4096;
        w->ms_per_token = 1;
        EXPECT_EQ(stage_hello(stage, w), 0);
        for (uint32_t idx = 0; idx < ROWS[i].row_count; idx++)
            stage_simple(stage, idx, 10, 300);
        for (int turn = 0; turn < 60; turn++) {
            stage_run(stage);
            EXPECT(stage_answer(stage, w));
        }
        stage_simple(stage, 50, 1800, 5);
        uint32_t steps = 0;
        for (int turn = 0; turn < 12; turn++) {
            stage_run(stage);
            const struct stage_result *last = &w->results.items[w->results.count - 1];
            uint32_t tokens = 0;
            for (size_t row = 0; row < last->row_count; row++)
                tokens += last->lens[row];
            if (turn > 3) { /* what rows and prompts cost is known by then */
                EXPECT(tokens <= ROWS[i].most);
                steps += tokens >= ROWS[i].least;
            }
            EXPECT(stage_answer(stage, w));
        }
        if (steps < 3)
            check_fail(__FILE__, __LINE__, "row %zu: %u steps are as long as they may be", i,
                       steps);
        stage_finish(stage);
        EXPECT(stage_is_right(stage, 50, 0, 5));
        stage_free(stage);
    }
}

/* Left to itself a step has as much time for each sequence without a row as for two with, and for all of them
 * as for the rows, within its bounds. */
TEST(policy_steps_follow_what_their_rows_take) {
    static const struct {
        int32_t longest_ms;
        bool follows;
        double rows_ms;
        uint32_t rows, others;
        double target_ms;
    } ROWS[] = {
        {100, true, 0, 4, 0, 30},   {100, true, 15, 4, 2, 30},  {100, true, 16, 4, 2, 32},
        {100, true, 49, 8, 1, 98},  {100, true, 51, 8, 1, 100}, {100, true, 200, 8, 1, 100},
        {100, true, 16, 4, 1, 32},  {100, true, 16, 4, 4, 48},  {100, true, 16, 4, 5, 56},
        {100, true, 16, 1, 9, 100}, {20, true, 11, 4, 1, 20},   {100, false, 11, 4, 1, 100}};
    struct sched_config config;
    sched_config_default(&config);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        config.itl_target_ms = ROWS[i].longest_ms;
        config.itl_auto = ROWS[i].follows;
        struct stage *stage = stage_new(&config);
        double ms = plan_step_target_ms(stage->s, ROWS[i].rows_ms, ROWS[i].rows, ROWS[i].others);
        if (ms != ROWS[i].target_ms)
            check_fail(__FILE__, __LINE__, "row %zu: %g ms", i, ms);
        stage_free(stage);
    }
}

/* ---- Parts of a step ---- */

static void ask_of(struct stage *stage, uint32_t idx, uint64_t tenant, uint32_t prompt,
                   uint32_t tokens) {
    struct wire_submit submit = stage_submit(stage, idx, prompt, tokens, idx);
    submit.tenant = (struct u128){tenant, 0};
    stage_send(stage, &submit);
}

static size_t tokens_of(const struct stage *stage, uint32_t idx) {
    return stage->requests[idx].choices[0].tokens.count;
}

/* Turns with answers; time goes on by what the steps cost. */
static void take_turns(struct stage *stage, int count) {
    for (int i = 0; i < count; i++) {
        stage_run(stage);
        sched_check(stage->s);
        const struct stage_worker *w = &stage->workers[0];
        if (w->results.count)
            for (size_t row = 0; row < w->results.items[0].row_count; row++)
                stage->now += w->results.items[0].lens[row] * w->ms_per_token;
        stage_answer(stage, &stage->workers[0]);
    }
}

/* The widest of the steps under way, in tokens; a turn has planned one at least. */
static uint32_t widest(struct stage *stage) {
    uint32_t most = 0;
    stage_run(stage);
    const struct stage_worker *w = &stage->workers[0];
    for (size_t i = 0; i < w->results.count; i++) {
        uint32_t tokens = 0;
        for (size_t row = 0; row < w->results.items[i].row_count; row++)
            tokens += w->results.items[i].lens[row];
        most = MAX(most, tokens);
    }
    return most;
}

/* Where rows cost what they compute, one row of a tenant does not wait for twelve of another: a step
 * is twice as long as it would be alone. The twelve take turns, and have all of the next step a
 * moment after it has ended. */
TEST(policy_a_step_is_shared_by_tenants) {
    struct stage *stage = one_worker(NULL);
    stage->workers[0].ms_per_token = 5;
    for (uint32_t i = 0; i < 12; i++)
        ask_of(stage, i, 1, 10, 300);
    take_turns(stage, 30);
    EXPECT_EQ(widest(stage), 12);
    size_t before[12], least = SIZE_MAX, most = 0;
    ask_of(stage, 20, 2, 3, 60);
    take_turns(stage, 20);
    stage_run(stage); /* what was answered last is told */
    for (uint32_t i = 0; i < 12; i++)
        before[i] = tokens_of(stage, i);
    size_t own = tokens_of(stage, 20);
    EXPECT(own > 10);
    for (int i = 0; i < 20; i++) {
        take_turns(stage, 1);
        EXPECT(widest(stage) >= 2 && widest(stage) <= 3);
    }
    EXPECT_EQ(tokens_of(stage, 20), own + 20);
    for (uint32_t i = 0; i < 12; i++) {
        size_t got = tokens_of(stage, i) - before[i];
        least = MIN(least, got);
        most = MAX(most, got);
    }
    EXPECT(least >= 1 && most <= least + 1);
    take_turns(stage, 25);
    EXPECT(stage->requests[20].choices[0].finish != 0);
    EXPECT(widest(stage) <= 3); /* who has just gone may come back */
    stage->now += stage->config.share_linger_ms;
    take_turns(stage, 4);
    EXPECT_EQ(widest(stage), 12);
    stage_finish(stage);
    for (uint32_t i = 0; i <= 20; i += i == 11 ? 9 : 1)
        EXPECT(stage_is_right(stage, i, 0, i < 12 ? 300 : 60));
    stage_free(stage);
}

/* Who is alone in the slots is not looked at, whoever else waits, but for the moment after another
 * was there. */
TEST(policy_steps_of_one_alone_are_not_shared_out) {
    enum { NOT_LOOKED_AT = 77 };
    struct stage *stage = one_worker(NULL);
    stage->workers[0].ms_per_token = 5;
    for (uint32_t i = 0; i < 12; i++)
        ask_of(stage, i, 1, 10, 300);
    take_turns(stage, 10);
    struct waiting *waiting = &model_find(stage->s, bytes_str(""))->waiting;
    struct tenant *tenant = waiting_tenant_find(waiting, (struct u128){1, 0});
    tenant->step_want_ms = NOT_LOOKED_AT;
    take_turns(stage, 10);
    EXPECT(tenant->step_want_ms == NOT_LOOKED_AT);
    ask_of(stage, 20, 2, 3, 4);
    for (int i = 0; i < 20 && !stage->requests[20].choices[0].finish; i++)
        take_turns(stage, 1);
    EXPECT(stage->requests[20].choices[0].finish != 0);
    EXPECT(tenant->step_want_ms != NOT_LOOKED_AT);
    tenant->step_want_ms = NOT_LOOKED_AT;
    take_turns(stage, 1); /* it may come back */
    EXPECT(tenant->step_want_ms != NOT_LOOKED_AT);
    stage->now += stage->config.share_linger_ms;
    take_turns(stage, 1);
    tenant->step_want_ms = NOT_LOOKED_AT;
    take_turns(stage, 5);
    EXPECT(tenant->step_want_ms == NOT_LOOKED_AT);
    stage_finish(stage);
    stage_free(stage);
}

/* Where a step costs the same whatever is in it, none is left out. */
TEST(policy_rows_that_cost_nothing_are_not_bounded) {
    struct stage *stage = one_worker(NULL);
    stage->workers[0].step_ms = 20;
    for (uint32_t i = 0; i < 12; i++)
        ask_of(stage, i, 1, 10 + i, 300);
    take_turns(stage, 30);
    ask_of(stage, 20, 2, 3, 100);
    take_turns(stage, 30);
    for (int i = 0; i < 20; i++) {
        take_turns(stage, 1);
        EXPECT_EQ(widest(stage), 13);
    }
    stage_finish(stage);
    stage_free(stage);
}

/* Short prompts of a crowd, embeddings among them, leave the other tenant its part, too; a long one
 * of the crowd's gets on all the same. */
TEST(policy_prompts_of_a_crowd_leave_parts_of_a_step) {
    struct stage *stage = one_worker(NULL);
    stage->workers[0].ms_per_token = 2;
    ask_of(stage, 0, 1, 20, 4);
    take_turns(stage, 20);
    ask_of(stage, 1, 2, 4, 200);
    take_turns(stage, 20);
    for (uint32_t i = 10; i < 40; i++)
        ask_of(stage, i, 1, 30, 1);
    ask_of(stage, 2, 1, 1500, 1);
    size_t before = tokens_of(stage, 1);
    take_turns(stage, 4);
    for (int i = 0; i < 30; i++) {
        take_turns(stage, 1);
        EXPECT(widest(stage) <= 1 + 2 * 32);
    }
    EXPECT(tokens_of(stage, 1) > before + 30);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 2, 0, 1) && stage_is_right(stage, 39, 0, 1));
    stage_free(stage);
}

/* A tenant of three times the weight has three times as much. */
TEST(policy_parts_of_a_step_follow_weights) {
    struct stage *stage = one_worker(NULL);
    stage->workers[0].ms_per_token = 5;
    for (uint32_t i = 0; i < 13; i++) {
        struct wire_submit submit = stage_submit(stage, i, 10, 400, i);
        uint64_t tenant = i < 6 ? 1 : i < 12 ? 2 : 3;
        submit.tenant = (struct u128){tenant, 0};
        submit.tenant_weight = tenant == 1 ? 300 : 100;
        stage_send(stage, &submit);
    }
    take_turns(stage, 60);
    size_t sums[2] = {0}, before[2] = {0}, single = tokens_of(stage, 12);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 12; i++)
            (round ? sums : before)[i / 6] += tokens_of(stage, i);
        if (!round)
            take_turns(stage, 60);
    }
    double heavy = (double)(sums[0] - before[0]), light = (double)(sums[1] - before[1]);
    EXPECT_EQ(tokens_of(stage, 12), single + 60);
    EXPECT(heavy > 1.5 * light && heavy < 4 * light);
    stage_finish(stage);
    stage_free(stage);
}

/* A step of 40 ms is under way: the next plan waits for newcomers until 10 ms of it are left, and a turn is
 * asked for then. Behind a short step it goes out at once, and so it does where none is under way. */
TEST(policy_a_plan_waits_for_newcomers_while_a_long_step_runs) {
    static const struct { uint32_t step_ms, wait_ms; } ROWS[] = {{40, 30}, {8, 6}, {7, 0}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct stage *stage = stage_new(NULL);
        struct stage_worker *w = stage_worker(stage, 0);
        w->step_ms = ROWS[i].step_ms;
        EXPECT_EQ(stage_hello(stage, w), 0);
        stage_simple(stage, 0, 10, 100);
        for (int step = 0; step < 8; step++) { /* what a step costs is known then */
            stage_run(stage);
            stage->now += ROWS[i].step_ms;
            EXPECT(stage_answer(stage, w));
        }
        stage_run(stage);
        int64_t began = stage->now;
        if (ROWS[i].wait_ms) {
            EXPECT_EQ(w->results.count, 1);
            EXPECT_EQ(stage->wants, began + ROWS[i].wait_ms);
            stage->now = began + ROWS[i].wait_ms - 1;
            stage_simple(stage, 1, 10, 1);
            stage_run(stage);
            EXPECT_EQ(w->results.count, 1);
            stage->now++;
            stage_run(stage);
        }
        EXPECT_EQ(w->results.count, 2);
        EXPECT_EQ(w->results.items[1].admit_count, ROWS[i].wait_ms ? 1 : 0);
        stage_finish(stage);
        EXPECT(stage_is_right(stage, 0, 0, 100));
        stage_free(stage);
    }
}
