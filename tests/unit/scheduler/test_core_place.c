/* Where a sequence is placed: to the last block, by what it costs there, and who gives way. */
#include "stage.h"

static struct stage *with_blocks(uint32_t block_count) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->group.block_count = block_count;
    CHECK(stage_hello(stage, w) == 0);
    return stage;
}

static uint32_t running(const struct stage *stage) {
    return sched_counts(stage->s).running;
}

/* Positions that a request in a slot of worker 0 was placed with. */
static uint32_t computed_from(const struct stage *stage, uint32_t idx) {
    for (size_t i = 0; i < ARRAY_LEN(stage->workers[0].slots); i++)
        if (u128_equal(stage->workers[0].slots[i].request, stage_id(idx)))
            return stage->workers[0].slots[i].computed_from;
    return UINT32_MAX;
}

static void turns(struct stage *stage, int count) {
    for (int i = 0; i < count; i++) {
        stage_run(stage);
        sched_check(stage->s);
        stage_answer(stage, &stage->workers[0]);
    }
}

/* `count` prompts of several lengths that begin alike, each with a short answer beside it: worker 0
 * then knows what steps of several sizes cost. */
static void learn_costs(struct stage *stage, uint32_t count, uint32_t shortest) {
    for (uint32_t k = 0; k < count; k++) {
        struct wire_submit submit = stage_submit(stage, 10 + k, shortest + 30 * k, 8, 5);
        stage_send(stage, &submit);
        stage_simple(stage, 20 + k, 8 + k, 16);
        stage_finish(stage);
    }
}

/* A long answer is under way on worker 0 when worker 1 comes, which has nothing. */
static void add_idle_worker(struct stage *stage) {
    stage_simple(stage, 0, 8, 200);
    turns(stage, 3);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 1)), 0);
    stage_run(stage);
}

TEST(place_the_last_block_is_used) {
    struct stage *stage = with_blocks(8);
    stage_simple(stage, 0, 8 * 16 - 1, 1); /* and one token */
    stage_ends_right(stage, 1, 1);
}

/* Each that runs may need a block more soon, and so many stay free, of an eighth of all at most. */
TEST(place_leaves_blocks_for_those_that_run) {
    static const struct {
        uint32_t blocks, first, second;
        bool both;
    } CASES[] = {
        /* blocks in all; blocks of the first; of the second */
        {16, 4, 11, true}, {16, 4, 12, false}, {7, 3, 4, true}, /* an eighth of seven is none */
        {8, 3, 4, true},   {8, 3, 5, false},                    /* and of eight it is one */
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct stage *stage = with_blocks(CASES[i].blocks);
        stage_simple(stage, 0, CASES[i].first * 16 - 2, 2);
        stage_run(stage);
        EXPECT_EQ(running(stage), 1);
        stage_simple(stage, 1, CASES[i].second * 16 - 2, 2);
        stage_run(stage);
        EXPECT_EQ(running(stage), CASES[i].both ? 2 : 1);
        stage_finish(stage);
        EXPECT(stage_is_right(stage, 0, 0, 2) && stage_is_right(stage, 1, 0, 2));
        stage_free(stage);
    }
}

/* Of a prompt that nobody uses the last blocks go first: it is found as far as others left it. */
TEST(place_the_beginning_of_a_prompt_is_forgotten_last) {
    struct stage *stage = with_blocks(16);
    struct wire_submit submit = stage_submit(stage, 0, 8 * 16 + 1, 1, 5);
    stage_send(stage, &submit);
    stage_finish(stage);
    submit = stage_submit(stage, 1, 11 * 16 + 1, 1, 6); /* 12 blocks, of which eight hold nothing */
    stage_send(stage, &submit);
    stage_finish(stage);
    EXPECT_EQ(sched_counts(stage->s).evictions, 4);
    submit = stage_submit(stage, 2, 8 * 16 + 1, 1, 5);
    stage_send(stage, &submit);
    stage_finish(stage);
    EXPECT_EQ(stage->requests[2].choices[0].cached, 4 * 16);
    for (uint32_t i = 0; i < 3; i++)
        EXPECT(stage_is_right(stage, i, 0, 1));
    stage_free(stage);
}

/* Blocks that another uses now are no new ones; those that nobody holds are, for they were free. */
TEST(place_needs_no_room_for_what_is_in_use) {
    for (int in_use = 0; in_use < 2; in_use++) {
        struct stage *stage = with_blocks(16);
        struct wire_submit submit = stage_submit(stage, 0, 10 * 16 + 2, 1 + 100 * in_use, 5);
        stage_send(stage, &submit);
        stage_run(stage);
        EXPECT(stage_answer(stage, &stage->workers[0]));
        stage_run(stage);
        EXPECT_EQ(running(stage), in_use);
        submit = stage_submit(stage, 1, 10 * 16 + 2, 1, 5); /* the same prompt */
        stage_send(stage, &submit);
        while (stage_answer(stage, &stage->workers[0])) {} /* so that a plan may go out */
        stage_run(stage);
        EXPECT_EQ(running(stage), 1 + in_use);
        EXPECT_EQ(computed_from(stage, 1), 160);
        stage_finish(stage);
        EXPECT(stage_is_right(stage, 1, 0, 1));
        stage_free(stage);
    }
}

/* What is cached counts as many positions; each that runs there as 16, and what is left of its
 * prompt. Of equals the first is taken. */
TEST(place_weighs_cached_positions_against_load) {
    static const struct {
        uint32_t cached, load; /* at replica 0: positions; sequences in decode */
        int chosen;
    } CASES[] = {{0, 0, 0}, {16, 0, 0}, {0, 1, 1}, {16, 1, 0}, {16, 2, 1}, {32, 2, 0}, {48, 2, 0}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct stage *stage = stage_new(NULL);
        struct wire_submit submit;
        EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
        if (CASES[i].cached) { /* one who has been there leaves a prefix */
            submit = stage_submit(stage, 0, CASES[i].cached + 1, 1, 5);
            stage_send(stage, &submit);
            stage_finish(stage);
        }
        for (uint32_t k = 0; k < CASES[i].load; k++)
            stage_simple(stage, 10 + k, 8, 200);
        turns(stage, 3);
        EXPECT_EQ(stage_hello(stage, stage_worker(stage, 1)), 0);
        stage_run(stage);
        EXPECT_EQ(running(stage), CASES[i].load);
        submit = stage_submit(stage, 1, 100, 1, 5);
        stage_send(stage, &submit);
        stage_run(stage);
        bool at_second = stage->workers[1].results.count > 0;
        EXPECT_EQ(at_second, CASES[i].chosen);
        stage_finish(stage);
        EXPECT(stage_is_right(stage, 1, 0, 1));
        stage_free(stage);
    }
}

/* A hit of 48 positions, at a replica where another answer is being made: it saves 48 ms, and each
 * token costs a millisecond more there than on the idle one, for a quarter of those it may have. */
TEST(place_spreads_long_answers_that_begin_alike) {
    static const struct {
        uint32_t max_tokens;
        int chosen;
    } CASES[] = {{1, 0}, {60, 0}, {130, 0}, {256, 1}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct stage *stage = stage_new(NULL);
        stage_worker(stage, 0)->ms_per_token = 1;
        EXPECT_EQ(stage_hello(stage, &stage->workers[0]), 0);
        learn_costs(stage, 8, 97);
        add_idle_worker(stage);
        EXPECT_EQ(running(stage), 1);
        struct wire_submit submit = stage_submit(stage, 1, 52, CASES[i].max_tokens, 5);
        stage_send(stage, &submit);
        stage_run(stage);
        EXPECT_EQ(stage->workers[1].results.count > 0, CASES[i].chosen);
        stage_finish(stage);
        EXPECT(stage_is_right(stage, 1, 0, CASES[i].max_tokens));
        stage_free(stage);
    }
}

/* A position of a large step costs 1.2 ms, in the small ones since then 2.3: what the beginning would
 * cost elsewhere is told by the large one, so a hit of 48 positions is not worth what another answer
 * costs beside it. */
TEST(place_counts_a_beginning_as_a_large_step_computes_it) {
    struct stage *stage = stage_new(NULL);
    stage_worker(stage, 0)->ms_per_token = 1;
    stage->workers[0].fixed_ms = 50;
    EXPECT_EQ(stage_hello(stage, &stage->workers[0]), 0);
    learn_costs(stage, 4, 400);
    for (uint32_t k = 0; k < 40; k++) {
        stage_simple(stage, 100 + k, 40, 1);
        stage_finish(stage);
    }
    add_idle_worker(stage);
    struct wire_submit submit = stage_submit(stage, 1, 52, 400, 5);
    stage_send(stage, &submit);
    stage_run(stage);
    EXPECT(stage->workers[1].results.count > 0);
    stage_finish(stage);
    stage_free(stage);
}

/* One block in common is not worth eight that others may ask for, while a cache is empty elsewhere;
 * but where all are full it is. */
TEST(place_fills_empty_caches_before_it_empties_full_ones) {
    for (uint32_t full = 0; full <= 1; full++) {
        struct stage *stage = stage_new(NULL);
        for (uint32_t i = 0; i < 2; i++) {
            struct stage_worker *w = stage_worker(stage, i);
            w->group.block_count = 16;
            EXPECT_EQ(stage_hello(stage, w), 0);
        }
        struct wire_submit both[2] = {stage_submit(stage, 10, 15 * 16 + 1, 1, 5),
                                      stage_submit(stage, 11, 15 * 16 + 1, 1, 6)};
        for (uint32_t i = 0; i <= full; i++)
            stage_send(stage, &both[i]); /* together: one on each */
        stage_finish(stage);
        struct stage_tokens *prompt = &stage->requests[1].prompt;
        struct wire_submit submit = stage_submit(stage, 1, 9 * 16 + 1, 1, 7);
        memcpy(prompt->items, stage->requests[10].prompt.items, 16 * sizeof *prompt->items);
        stage_send(stage, &submit);
        stage_finish(stage);
        EXPECT(stage_is_right(stage, 1, 0, 1));
        EXPECT_EQ(stage->requests[1].choices[0].cached, full ? 16 : 0);
        EXPECT_EQ(sched_counts(stage->s).evictions > 0, full);
        stage_free(stage);
    }
}

/* Replicas of two revisions name the same blocks differently: what the second holds is found there,
 * though the first was looked at before. */
TEST(place_finds_a_prefix_under_the_names_of_each_revision) {
    struct stage *stage = stage_new(NULL);
    for (uint32_t i = 0; i < 2; i++) {
        struct stage_worker *w = stage_worker(stage, i);
        w->hello.revision = (struct u128){1, 2 + i};
        w->hello.slot_count = i == 0 ? 1 : 4;
        EXPECT_EQ(stage_hello(stage, w), 0);
        stage_simple(stage, 10 + i, 8, 4); /* the first has no slot left for what comes now */
        stage_run(stage);
    }
    struct wire_submit submit = stage_submit(stage, 0, 49, 1, 5);
    stage_send(stage, &submit);
    stage_finish(stage);
    submit = stage_submit(stage, 1, 49, 1, 5); /* the same prompt; now both are free */
    stage_send(stage, &submit);
    stage_run(stage);
    EXPECT_EQ(stage->workers[0].results.count, 0);
    EXPECT_EQ(stage->workers[1].results.count, 1);
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 1, 0, 1));
    EXPECT_EQ(stage->requests[1].choices[0].cached, 48);
    stage_free(stage);
}

/* A probe takes the slot of the latest, not of the first, and of each only once. */
TEST(place_the_latest_gives_way_to_a_probe_once) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 3;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 3; i++)
        stage_simple(stage, i, 10 + i, 60);
    for (int turn = 0; turn < 4; turn++) {
        stage_run(stage);
        EXPECT(stage_answer(stage, w));
    }
    static const uint32_t GIVES_WAY[] = {2, 1, 0};
    for (uint32_t probe = 0; probe < 3; probe++) {
        struct wire_submit submit = stage_submit(stage, 10 + probe, 1, 1, 10 + probe);
        submit.priority = WIRE_PRIORITY_PROBE;
        stage_send(stage, &submit);
        size_t before[3];
        for (uint32_t i = 0; i < 3; i++)
            before[i] = stage->requests[i].choices[0].tokens.count;
        uint32_t passes = 0; /* who gets no token while the probe is there */
        for (int turn = 0; turn < 20 && !stage->requests[10 + probe].choices[0].finish; turn++) {
            stage_run(stage);
            stage_answer(stage, w);
        }
        EXPECT(stage->requests[10 + probe].choices[0].finish != 0);
        EXPECT_EQ(sched_counts(stage->s).preemptions, probe + 1);
        for (uint32_t i = 1; i < 3; i++)
            if (stage->requests[i].choices[0].tokens.count - before[i] <
                stage->requests[passes].choices[0].tokens.count - before[passes])
                passes = i;
        EXPECT_EQ(passes, GIVES_WAY[probe]);
        for (int turn = 0; turn < 6; turn++) {
            stage_run(stage);
            stage_answer(stage, w);
        }
    }
    stage_ends_right(stage, 3, 60);
}

static void ask_of(struct stage *stage, uint32_t idx, uint64_t tenant, uint32_t max_tokens) {
    struct wire_submit submit = stage_submit(stage, idx, 10 + idx, max_tokens, idx);
    submit.tenant = (struct u128){tenant, 0};
    stage_send(stage, &submit);
}

static struct stage *with_slots(uint32_t slots) {
    struct stage *stage = stage_new(NULL);
    stage_worker(stage, 0)->hello.slot_count = slots;
    CHECK(stage_hello(stage, &stage->workers[0]) == 0);
    return stage;
}

/* A tenant has all slots for long. Another waits its second, then the latest of them gives way; what
 * gave way has a slot again as soon as there is one, and ends as if nothing had been. */
TEST(place_a_tenant_without_a_slot_gets_one) {
    struct stage *stage = with_slots(3);
    for (uint32_t i = 0; i < 3; i++)
        ask_of(stage, i, 1, 300);
    turns(stage, 4);
    for (uint32_t round = 0; round < 3; round++) {
        ask_of(stage, 10 + round, 2, 4);
        turns(stage, 4);
        EXPECT_EQ(sched_counts(stage->s).preemptions, round);
        stage->now += stage->config.slot_wait_ms;
        turns(stage, 12);
        EXPECT(stage->requests[10 + round].choices[0].finish != 0);
        EXPECT_EQ(sched_counts(stage->s).preemptions, round + 1);
        EXPECT(stage->requests[0].choices[0].tokens.count >
               stage->requests[2].choices[0].tokens.count);
        EXPECT_EQ(running(stage), 2); /* it is kept for who may come back, */
        stage->now += stage->config.share_linger_ms;
        turns(stage, 1);
        EXPECT_EQ(running(stage), 3); /* for a moment */
    }
    stage_ends_right(stage, 3, 300);
}

/* Who asks for one thing after the other finds its slot each time, before those that ran; nothing else
 * has to give way. */
TEST(place_a_slot_is_kept_for_who_comes_back) {
    struct stage *stage = with_slots(3);
    for (uint32_t i = 0; i < 4; i++)
        ask_of(stage, i, 1, 300);
    turns(stage, 4);
    ask_of(stage, 10, 2, 4);
    turns(stage, 1);
    stage->now += stage->config.slot_wait_ms;
    turns(stage, 12);
    for (uint32_t round = 0; round < 5; round++) {
        EXPECT(stage->requests[10 + round].choices[0].finish != 0);
        EXPECT_EQ(running(stage), 2);
        stage->now += stage->config.share_linger_ms - 1;
        ask_of(stage, 11 + round, 2, 4);
        turns(stage, 12);
    }
    EXPECT_EQ(sched_counts(stage->s).preemptions, 1);
    stage->now += stage->config.share_linger_ms - 1;
    stage_run(stage);
    EXPECT(stage->wants <= stage->now + 1); /* nobody has to come for it to be given away */
    stage->now++;
    stage_run(stage);
    EXPECT_EQ(running(stage), 3);
    stage_ends_right(stage, 4, 300);
}

/* Of two replicas: while one slot of either is being left, no other is asked for. */
TEST(place_one_slot_at_a_time_of_all_replicas) {
    struct stage *stage = stage_new(NULL);
    for (uint32_t k = 0; k < 2; k++) {
        stage_worker(stage, k)->hello.slot_count = 2;
        EXPECT_EQ(stage_hello(stage, &stage->workers[k]), 0);
    }
    for (uint32_t i = 0; i < 4; i++)
        ask_of(stage, i, 1, 300);
    for (int turn = 0; turn < 6; turn++) {
        stage_run(stage);
        for (uint32_t k = 0; k < 2; k++)
            EXPECT(stage_answer(stage, &stage->workers[k]));
    }
    ask_of(stage, 10, 2, 4);
    stage_run(stage);
    stage->now += stage->config.slot_wait_ms;
    for (int turn = 0; turn < 3; turn++) /* whose rows are all under way */
        stage_run(stage);
    EXPECT(stage->workers[0].results.count && stage->workers[1].results.count);
    for (int turn = 0; turn < 20 && !stage->requests[10].choices[0].finish; turn++) {
        for (uint32_t k = 0; k < 2; k++)
            stage_answer(stage, &stage->workers[k]);
        stage_run(stage);
    }
    EXPECT(stage->requests[10].choices[0].finish != 0);
    EXPECT_EQ(sched_counts(stage->s).preemptions, 1);
    stage_ends_right(stage, 4, 300);
}

/* A tenant whose answers all end at once has all their slots again at once. */
TEST(place_a_tenant_keeps_no_slot_from_itself) {
    struct stage *stage = with_slots(3);
    ask_of(stage, 0, 2, 200);
    for (uint32_t i = 1; i < 7; i++) {
        struct wire_submit submit = stage_submit(stage, i, 20, 6, i);
        submit.tenant = (struct u128){1, 0};
        stage_send(stage, &submit);
    }
    turns(stage, 40);
    for (uint32_t i = 1; i < 7; i++)
        EXPECT(stage->requests[i].choices[0].finish != 0);
    stage_finish(stage);
    stage_free(stage);
}

/* Nobody gives up its only slot, and nobody gives one to its own tenant. */
TEST(place_only_slots_gives_no_tenant_up) {
    struct stage *stage = with_slots(3);
    for (uint32_t i = 0; i < 3; i++)
        ask_of(stage, i, 1 + i, 200);
    turns(stage, 4);
    ask_of(stage, 3, 4, 4);
    ask_of(stage, 4, 1, 4);
    turns(stage, 4);
    stage->now += 2 * stage->config.slot_wait_ms;
    turns(stage, 12);
    EXPECT_EQ(sched_counts(stage->s).preemptions, 0);
    stage_finish(stage);
    for (uint32_t i = 0; i < 5; i++)
        EXPECT(stage_is_right(stage, i, 0, i < 3 ? 200 : 4));
    stage_free(stage);
}

/* Of several tenants the one with most slots gives one up, by its least important. */
TEST(place_who_has_most_slots_gives_one_up) {
    struct stage *stage = with_slots(5);
    ask_of(stage, 0, 1, 300);
    ask_of(stage, 1, 1, 300);
    for (uint32_t i = 2; i < 4; i++)
        ask_of(stage, i, 2, 300);
    struct wire_submit submit = stage_submit(stage, 4, 20, 300, 4);
    submit.tenant = (struct u128){1, 0};
    submit.priority = -1;
    stage_send(stage, &submit);
    turns(stage, 4);
    ask_of(stage, 5, 3, 200);
    turns(stage, 4);
    stage->now += stage->config.slot_wait_ms;
    turns(stage, 12);
    EXPECT_EQ(sched_counts(stage->s).preemptions, 1);
    for (uint32_t i = 0; i < 5; i++)
        EXPECT(i == 1 || stage->requests[i].choices[0].tokens.count >
                             stage->requests[1].choices[0].tokens.count);
    stage_finish(stage);
    for (uint32_t i = 0; i < 6; i++)
        EXPECT(stage_is_right(stage, i, 0, i < 5 ? 300 : 200));
    stage_free(stage);
}

/* A probe does not take the place of another. */
TEST(place_probes_wait_for_each_other) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 1;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct wire_submit submit = stage_submit(stage, i, 10, 3, i);
        submit.priority = WIRE_PRIORITY_PROBE;
        stage_send(stage, &submit);
    }
    stage_finish(stage);
    EXPECT_EQ(sched_counts(stage->s).preemptions, 0);
    for (uint32_t i = 0; i < 2; i++)
        EXPECT(stage_is_right(stage, i, 0, 3));
    stage_free(stage);
}

/* One that is paused keeps its blocks while there is room, and gives them up for one who needs them;
 * on a replica where that one could not run anyway it keeps them. */
TEST(place_paused_gives_way_where_it_helps) {
    for (int fits = 0; fits < 2; fits++) {
        struct stage *stage = stage_new(NULL);
        struct stage_worker *w = stage_worker(stage, 0);
        w->hello.slot_count = fits ? 1 : 2;
        w->hello.revision = (struct u128){1, 2};
        EXPECT_EQ(stage_hello(stage, w), 0);
        stage_simple(stage, 0, 20, 40);
        for (int turn = 0; turn < 4; turn++) {
            stage_run(stage);
            EXPECT(stage_answer(stage, w));
        }
        struct wire_pause pause = {.request = stage_id(0), .paused = true};
        sched_pause(stage->s, stage->now, stage->gateway, &pause);
        stage_finish(stage);
        EXPECT_EQ(running(stage), 1);
        struct wire_submit submit = stage_submit(stage, 1, 20, 3, 1);
        submit.resumed = !fits;
        submit.attempt = stage->requests[1].attempt = !fits;
        submit.revision = (struct u128){1, fits ? 2 : 3}; /* begun on another model */
        int64_t sent_at = stage->now;
        stage_send(stage, &submit);
        stage_finish(stage);
        EXPECT_EQ(stage_is_right(stage, 1, 0, 3), fits);
        EXPECT_EQ(sched_counts(stage->s).preemptions, fits);
        /* and waits for such a model so long, woken in time */
        int64_t until = sent_at + stage->config.revision_grace_ms;
        for (int i = 0; !fits && i < 100 && stage->now < until; i++) {
            EXPECT_EQ(stage->requests[1].reject, 0);
            stage->now = stage->wants;
            stage_run(stage);
        }
        EXPECT_EQ(stage->requests[1].reject, fits ? 0 : WIRE_REJECT_REVISION);
        EXPECT(fits || stage->now == until);
        stage_free(stage);
    }
}
