/*
 * test_core_admission.c - admission by time, with virtual time: 4 slots whose requests take 1.6 s
 * each, so 2.5 requests a second, and clients that ask for more.
 */
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/replica.h"
#include "scheduler/core/request.h"
#include "stage.h"

enum { STEP_MS = 25, OUTPUT = 64, BOUND_MS = 10000, TURNOVER_MS = 400 };
enum { NO_CROWD = 64 }; /* sequences, where nobody has asked for a bound */

struct crowd {
    struct stage *stage;
    int64_t asked_at[STAGE_REQUESTS], first_at[STAGE_REQUESTS];
    uint32_t count;
};

static struct crowd *crowd_new(uint32_t wait_crowd) {
    struct crowd *crowd = mem_alloc(sizeof *crowd);
    struct sched_config config;
    sched_config_default(&config);
    config.wait_crowd = wait_crowd;
    crowd->stage = stage_new(&config);
    struct stage_worker *w = stage_worker(crowd->stage, 0);
    w->hello.slot_count = 4;
    w->hello.steps_in_flight = 1;
    w->step_ms = STEP_MS;
    CHECK(stage_hello(crowd->stage, w) == 0);
    return crowd;
}

static void crowd_free(struct crowd **crowd) {
    stage_free((*crowd)->stage);
    mem_free(*crowd);
    *crowd = NULL;
}

/* Asks; its index. */
static uint32_t crowd_ask(struct crowd *crowd, uint64_t tenant, uint32_t deadline_ms) {
    uint32_t idx = crowd->count++;
    struct wire_submit submit = stage_submit(crowd->stage, idx, 10, OUTPUT, idx);
    submit.tenant = (struct u128){tenant, 0};
    submit.deadline_ms = deadline_ms;
    crowd->asked_at[idx] = crowd->stage->now;
    stage_send(crowd->stage, &submit);
    return idx;
}

/* A step's time passes. */
static void crowd_step(struct crowd *crowd) {
    struct stage *stage = crowd->stage;
    stage_run(stage);
    stage->now += STEP_MS;
    stage_answer(stage, &stage->workers[0]);
    stage_run(stage);
    for (uint32_t i = 0; i < crowd->count; i++)
        if (!crowd->first_at[i] && stage->requests[i].choices[0].tokens.count)
            crowd->first_at[i] = stage->now;
}

static int compare_times(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Twelve times what can be done, for a minute: who is taken has a first token in twice the bound,
 * the machine is busy all the time, and the others are told when to come again. */
static void twelve_times(uint32_t wait_crowd, int64_t bound_ms) {
    struct crowd *crowd = crowd_new(wait_crowd);
    struct stage *stage = crowd->stage;
    int64_t end = stage->now + 60000;
    for (double due = 0; stage->now < end; due += 30.0 * STEP_MS / 1000) {
        for (; due >= 1; due--)
            crowd_ask(crowd, 1, 0);
        crowd_step(crowd);
    }
    uint64_t finished = sched_counts(stage->s).finished[WIRE_FINISH_LENGTH];
    for (int i = 0; i < 4000 && sched_counts(stage->s).running; i++)
        crowd_step(crowd);
    int64_t waits[STAGE_REQUESTS];
    size_t taken = 0;
    for (uint32_t i = 0; i < crowd->count; i++) {
        const struct stage_request *request = &stage->requests[i];
        if (request->reject) {
            EXPECT_EQ(request->reject, WIRE_REJECT_OVERLOADED);
            EXPECT(request->retry_after_ms >= 1000 && request->retry_after_ms <= 2 * bound_ms);
            continue;
        }
        EXPECT(crowd->first_at[i] > 0);
        waits[taken++] = crowd->first_at[i] - crowd->asked_at[i];
    }
    qsort(waits, taken, sizeof *waits, compare_times);
    EXPECT(crowd->count > 1700);
    EXPECT(finished >= 60000 / 1600 * 4 - 8);
    EXPECT(waits[taken * 99 / 100] <= 2 * bound_ms);
    EXPECT(waits[taken / 2] >= bound_ms / 2); /* and it is used: nobody is refused for nothing */
    crowd_free(&crowd);
}

TEST(admission_keeps_its_bound_under_twelve_times_the_load) {
    twelve_times(0, BOUND_MS);
}

/* Where nobody has asked for a bound, it is what so many requests take, if that is longer. */
TEST(admission_has_a_bound_where_nobody_asked_for_one) {
    twelve_times(NO_CROWD, NO_CROWD * TURNOVER_MS);
    twelve_times(NO_CROWD / 8, BOUND_MS);
}

/* A tenant with a few requests is not refused for the crowd of another. */
TEST(admission_looks_at_a_tenants_own_queue) {
    struct crowd *crowd = crowd_new(0);
    uint32_t few[16], few_count = 0;
    for (int step = 0; step < 2000; step++) {
        crowd_ask(crowd, 1, 0);
        if (step >= 400 && step % 100 == 0)
            few[few_count++] = crowd_ask(crowd, 2, 0);
        if (crowd->count + 4 >= STAGE_REQUESTS)
            break;
        crowd_step(crowd);
    }
    for (int i = 0; i < 2000 && sched_counts(crowd->stage->s).running; i++)
        crowd_step(crowd);
    EXPECT_EQ(few_count, 16);
    for (uint32_t i = 0; i < few_count; i++) {
        EXPECT_EQ(crowd->stage->requests[few[i]].reject, 0);
        EXPECT(crowd->first_at[few[i]] - crowd->asked_at[few[i]] < BOUND_MS);
    }
    crowd_free(&crowd);
}

/* Who has less time than the queue takes is told so at once. */
TEST(admission_looks_at_a_requests_own_time) {
    struct crowd *crowd = crowd_new(0);
    for (int step = 0; step < 200; step++) {
        crowd_ask(crowd, 1, 0);
        crowd_step(crowd);
    }
    /* let some go, so that there is room again but no time */
    for (int step = 0; step < 80; step++)
        crowd_step(crowd);
    uint32_t hurried = crowd_ask(crowd, 1, 2000), patient = crowd_ask(crowd, 1, 60000);
    crowd_step(crowd);
    EXPECT_EQ(crowd->stage->requests[hurried].reject, WIRE_REJECT_OVERLOADED);
    EXPECT_EQ(crowd->stage->requests[patient].reject, 0);
    for (int i = 0; i < 2000 && sched_counts(crowd->stage->s).running; i++)
        crowd_step(crowd);
    crowd_free(&crowd);
}

/* ---- prompts that wait in slots ---- */

/* A worker that takes 2 ms for each token of a step, however few share it, and has more slots than it
 * can serve in time. */
enum { TOKEN_MS = 2, PROMPT = 200, ANSWER = 20 };

static struct crowd *slow_crowd_new(int32_t bound_ms, uint32_t wait_crowd) {
    struct crowd *crowd = mem_alloc(sizeof *crowd);
    struct sched_config config;
    sched_config_default(&config);
    config.wait_max_ms = bound_ms;
    config.wait_crowd = wait_crowd;
    crowd->stage = stage_new(&config);
    struct stage_worker *w = stage_worker(crowd->stage, 0);
    w->hello.slot_count = 64;
    w->hello.steps_in_flight = 1;
    w->group.block_count = 4096;
    w->hello.max_context = 16384;
    w->ms_per_token = TOKEN_MS;
    CHECK(stage_hello(crowd->stage, w) == 0);
    return crowd;
}

static uint32_t slow_ask(struct crowd *crowd, uint64_t tenant, uint32_t prompt_count,
                         uint32_t max_tokens) {
    uint32_t idx = crowd->count++;
    struct wire_submit submit = stage_submit(crowd->stage, idx, prompt_count, max_tokens, idx);
    submit.tenant = (struct u128){tenant, 0};
    crowd->asked_at[idx] = crowd->stage->now;
    stage_send(crowd->stage, &submit);
    return idx;
}

/* The next step, and the time that its tokens take; a turn without one takes a millisecond. */
static void slow_step(struct crowd *crowd) {
    struct stage *stage = crowd->stage;
    const struct stage_worker *w = &stage->workers[0];
    stage_run(stage);
    int64_t ms = 1;
    if (w->results.count) {
        ms = 0;
        for (size_t i = 0; i < w->results.items[0].row_count; i++)
            ms += (int64_t)w->results.items[0].lens[i] * TOKEN_MS;
    }
    stage->now += ms;
    stage_answer(stage, &stage->workers[0]);
    stage_run(stage);
    for (uint32_t i = 0; i < crowd->count; i++)
        if (!crowd->first_at[i] && stage->requests[i].choices[0].tokens.count)
            crowd->first_at[i] = stage->now;
}

static void slow_finish(struct crowd *crowd) {
    while (sched_counts(crowd->stage->s).running)
        slow_step(crowd);
}

/* It has seen what its steps cost, of which the first does not count, and rests. */
static void slow_warm_up(struct crowd *crowd) {
    for (int i = 0; i < 2; i++) {
        slow_ask(crowd, 9, 4000, 10);
        slow_step(crowd);
        slow_finish(crowd);
    }
}

/* What becomes of a minute of prompts of `least` to `most` tokens, from three tenants, at so many times
 * what can be computed. */
struct outcome {
    int64_t p50, p99;  /* until the first token of those taken */
    uint64_t finished; /* within the minute */
    double possible;
};

static void slow_minute(int times, uint32_t least, uint32_t most, struct outcome *outcome) {
    const double possible = 1000.0 / (TOKEN_MS * ((least + most) / 2.0 + ANSWER)); /* a second */
    struct crowd *crowd = slow_crowd_new(BOUND_MS, 0);
    struct stage *stage = crowd->stage;
    slow_warm_up(crowd);
    uint32_t first = crowd->count;
    int64_t begin = stage->now, end = begin + 60000;
    uint64_t random = 1;
    for (uint32_t asked = 0; stage->now < end;) {
        for (; asked < (double)(stage->now - begin) / 1000 * possible * times; asked++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            slow_ask(crowd, 1 + asked % 3, least + (uint32_t)((random >> 33) % (most - least + 1)),
                     ANSWER);
        }
        slow_step(crowd);
    }
    outcome->finished = sched_counts(stage->s).finished[WIRE_FINISH_LENGTH];
    outcome->possible = possible * 60;
    slow_finish(crowd);
    int64_t waits[STAGE_REQUESTS];
    size_t taken = 0;
    for (uint32_t i = first; i < crowd->count; i++) {
        const struct stage_request *request = &stage->requests[i];
        if (!request->reject) {
            waits[taken++] = crowd->first_at[i] - crowd->asked_at[i];
            continue;
        }
        EXPECT_EQ(request->reject, WIRE_REJECT_OVERLOADED);
        EXPECT(request->retry_after_ms >= 1000 && request->retry_after_ms <= 2 * BOUND_MS);
    }
    qsort(waits, taken, sizeof *waits, compare_times);
    outcome->p99 = waits[taken * 99 / 100];
    outcome->p50 = waits[taken / 2];
    crowd_free(&crowd);
}

/* Slots for all, and more than it can compute, prompts alike or of very different lengths: who is taken
 * has a first token in twice the bound, most of what can be answered is, and the others hear at once
 * when to come again. */
TEST(admission_counts_prompts_that_wait_in_slots) {
    static const int TIMES[] = {2, 4, 12};
    static const uint32_t LENGTHS[][2] = {{PROMPT, PROMPT}, {20, 700}};
    for (size_t l = 0; l < ARRAY_LEN(LENGTHS); l++)
        for (size_t t = 0; t < ARRAY_LEN(TIMES); t++) {
            struct outcome o = {0};
            slow_minute(TIMES[t], LENGTHS[l][0], LENGTHS[l][1], &o);
            if (o.p99 > 2 * BOUND_MS || o.p50 < BOUND_MS / 4 ||
                (double)o.finished < o.possible * 0.8)
                check_fail(__FILE__, __LINE__,
                           "%u to %u tokens, %d times: p50 %lld ms, p99 %lld ms, %llu of %.0f "
                           "answered",
                           LENGTHS[l][0], LENGTHS[l][1], TIMES[t], (long long)o.p50,
                           (long long)o.p99, (unsigned long long)o.finished, o.possible);
        }
}

/* ---- where nobody has asked for a bound ---- */

/* A machine that takes 440 ms for a request. Clients that each ask again when they have their answer: of
 * as many as are no crowd nobody is refused, though most wait for longer than the bound; of more, and
 * where a bound was asked for, some are. */
TEST(admission_lets_a_slow_machines_clients_wait) {
    static const struct {
        uint32_t wait_crowd, clients;
        bool all;
    } ROWS[] = {{NO_CROWD, 40, true}, {NO_CROWD, 64, true}, {NO_CROWD, 90, false}, {0, 40, false}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct crowd *crowd = slow_crowd_new(BOUND_MS, ROWS[i].wait_crowd);
        struct stage *stage = crowd->stage;
        slow_warm_up(crowd);
        uint32_t client[90], refused = 0, answered = 0;
        for (uint32_t k = 0; k < ROWS[i].clients; k++)
            client[k] = slow_ask(crowd, 1, PROMPT, ANSWER);
        while (answered + refused < 300) {
            slow_step(crowd);
            for (uint32_t k = 0; k < ROWS[i].clients; k++) {
                const struct stage_request *request = &stage->requests[client[k]];
                if (!request->reject && !request->choices[0].finish)
                    continue;
                refused += request->reject != 0;
                answered += !request->reject;
                client[k] = slow_ask(crowd, 1, PROMPT, ANSWER);
            }
        }
        if ((refused == 0) != ROWS[i].all)
            check_fail(__FILE__, __LINE__, "row %zu: %u refused, %u answered", i, refused,
                       answered);
        slow_finish(crowd);
        crowd_free(&crowd);
    }
}

/* A long prompt takes longer than the bound. In a crowd of answers it is taken, and so are short ones,
 * which go before it; a second long one would make one of the two wait for longer. */
TEST(admission_takes_short_prompts_beside_a_long_one) {
    struct crowd *crowd = slow_crowd_new(BOUND_MS, 0);
    slow_warm_up(crowd);
    for (int i = 0; i < 4; i++)
        slow_ask(crowd, 3, 10, 1000);
    slow_step(crowd);
    uint32_t alone = slow_ask(crowd, 1, 8000, 1);
    slow_step(crowd);
    uint32_t small = slow_ask(crowd, 1, 100, 1), second = slow_ask(crowd, 1, 7000, 1);
    uint32_t other = slow_ask(crowd, 2, 100, 1);
    slow_step(crowd);
    EXPECT_EQ(crowd->stage->requests[alone].reject, 0);
    EXPECT_EQ(crowd->stage->requests[small].reject, 0);
    EXPECT_EQ(crowd->stage->requests[other].reject, 0);
    EXPECT_EQ(crowd->stage->requests[second].reject, WIRE_REJECT_OVERLOADED);
    EXPECT(crowd->stage->requests[second].retry_after_ms >= 10000);
    slow_finish(crowd);
    EXPECT(crowd->first_at[small] - crowd->asked_at[small] < 2000);
    crowd_free(&crowd);
}

/* Four long ones are no crowd, and all are taken; one more is refused. */
TEST(admission_takes_a_few_long_prompts) {
    struct crowd *crowd = slow_crowd_new(BOUND_MS, 0);
    uint32_t asked[5];
    slow_warm_up(crowd);
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        asked[i] = slow_ask(crowd, 1, 8000, 1);
        slow_step(crowd);
        EXPECT_EQ(crowd->stage->requests[asked[i]].reject, i < 4 ? 0 : WIRE_REJECT_OVERLOADED);
    }
    slow_finish(crowd);
    crowd_free(&crowd);
}

/* Nor is a tenant refused for what another has in slots: their prompts take turns. */
TEST(admission_takes_a_tenant_beside_anothers_prompts) {
    struct crowd *crowd = slow_crowd_new(BOUND_MS, 0);
    slow_warm_up(crowd);
    for (int i = 0; i < 60; i++)
        slow_ask(crowd, 1, 400, 1);
    slow_step(crowd);
    uint32_t few = slow_ask(crowd, 2, 400, 1), more = 0;
    for (int i = 0; i < 3; i++) /* more than the step before has computed */
        more = slow_ask(crowd, 1, 400, 1);
    slow_step(crowd);
    EXPECT_EQ(crowd->stage->requests[few].reject, 0);
    EXPECT_EQ(crowd->stage->requests[more].reject, WIRE_REJECT_OVERLOADED);
    slow_finish(crowd);
    EXPECT(crowd->first_at[few] - crowd->asked_at[few] < BOUND_MS);
    crowd_free(&crowd);
}

/* ---- nobody waits, and no slot is free ---- */

TEST(admission_counts_the_slot_that_has_to_come_free) {
    struct sched_config config;
    sched_config_default(&config);
    config.wait_max_ms = 200;
    struct crowd *crowd = mem_alloc(sizeof *crowd);
    crowd->stage = stage_new(&config);
    struct stage_worker *w = stage_worker(crowd->stage, 0);
    w->hello.slot_count = 4;
    w->hello.steps_in_flight = 1;
    w->step_ms = STEP_MS;
    CHECK(stage_hello(crowd->stage, w) == 0);
    for (int i = 0; i < 4; i++)
        crowd_ask(crowd, 1, 0);
    for (int i = 0; i < 8; i++) /* an answer takes 1600 ms: a slot comes free after 400 */
        crowd_step(crowd);
    uint32_t late = crowd_ask(crowd, 1, 0), other = crowd_ask(crowd, 2, 0);
    crowd_step(crowd);
    EXPECT_EQ(crowd->stage->requests[late].reject, WIRE_REJECT_OVERLOADED);
    EXPECT_EQ(crowd->stage->requests[other].reject, 0); /* takes one of the other tenant's four */
    for (int i = 0; i < 2000 && sched_counts(crowd->stage->s).running; i++)
        crowd_step(crowd);
    EXPECT(crowd->first_at[other] - crowd->asked_at[other] <= 200);
    uint32_t free = crowd_ask(crowd, 1, 0);
    crowd_step(crowd);
    EXPECT_EQ(crowd->stage->requests[free].reject, 0);
    crowd_free(&crowd);
}

/* One slot, and answers that take longer than the bound: who comes then waits, if it is no crowd. */
TEST(admission_lets_a_few_wait) {
    struct sched_config config;
    sched_config_default(&config);
    config.wait_max_ms = 200;
    struct crowd *crowd = mem_alloc(sizeof *crowd);
    crowd->stage = stage_new(&config);
    struct stage_worker *w = stage_worker(crowd->stage, 0);
    w->hello.slot_count = 1;
    w->hello.steps_in_flight = 1;
    w->step_ms = STEP_MS;
    CHECK(stage_hello(crowd->stage, w) == 0);
    crowd_ask(crowd, 1, 0);
    for (int i = 0; i < 8; i++)
        crowd_step(crowd);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t few = crowd_ask(crowd, 1, 0);
        crowd_step(crowd);
        EXPECT_EQ(crowd->stage->requests[few].reject, 0);
    }
    uint32_t more = crowd_ask(crowd, 1, 0);
    crowd_step(crowd);
    EXPECT_EQ(crowd->stage->requests[more].reject, WIRE_REJECT_OVERLOADED);
    crowd_free(&crowd);
}

/* ---- a bound that is shorter than an answer ---- */

enum { SHORT_STEP_MS = 20, SHORT_ANSWER = 20, SHORT_TENANTS = 6, SHORT_END_MS = 10000 };

static uint32_t draw(uint64_t *random, uint32_t below) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*random >> 33) % below);
}

static struct crowd *short_crowd_new(uint32_t slots, int32_t bound_ms, uint32_t steps_in_flight) {
    struct sched_config config;
    sched_config_default(&config);
    config.wait_max_ms = bound_ms;
    struct crowd *crowd = mem_alloc(sizeof *crowd);
    crowd->stage = stage_new(&config);
    struct stage_worker *w = stage_worker(crowd->stage, 0);
    w->hello.slot_count = slots;
    w->hello.steps_in_flight = steps_in_flight;
    w->step_ms = SHORT_STEP_MS;
    CHECK(stage_hello(crowd->stage, w) == 0);
    return crowd;
}

/* A millisecond passes; a step ends when it has run for its time. */
static void short_tick(struct crowd *crowd, int64_t *step_began) {
    struct stage *stage = crowd->stage;
    struct stage_worker *w = &stage->workers[0];
    stage_run(stage);
    if (!w->results.count)
        *step_began = stage->now;
    if (++stage->now - *step_began < SHORT_STEP_MS)
        return;
    stage_answer(stage, w);
    *step_began = stage->now;
    stage_run(stage);
    for (uint32_t i = 0; i < crowd->count; i++)
        if (!crowd->first_at[i] && stage->requests[i].choices[0].tokens.count)
            crowd->first_at[i] = stage->now;
}

/* Requests at random times from six tenants, ten times what the slots can do, and a bound of one step:
 * whoever is taken has a first token within what is left of the step that runs and its own, though now
 * and then a slot comes free for a moment, or is kept for a tenant without one, and few are there. Estimates are
 * rounded to a millisecond. */
static void keeps_a_short_bound(uint32_t slots, uint32_t steps_in_flight) {
    struct crowd *crowd = short_crowd_new(slots, SHORT_STEP_MS, steps_in_flight);
    struct stage *stage = crowd->stage;
    uint32_t gap_ms = SHORT_STEP_MS * SHORT_ANSWER / slots / 10; /* on average */
    uint64_t random = slots;
    int64_t end = stage->now + SHORT_END_MS, step_began = 0;
    while (stage->now < end || sched_counts(stage->s).running) {
        if (stage->now < end && !draw(&random, gap_ms))
            slow_ask(crowd, 1 + draw(&random, SHORT_TENANTS), 10, SHORT_ANSWER);
        short_tick(crowd, &step_began);
    }
    uint32_t taken = 0, judged = 0, late = 0;
    for (uint32_t i = 0; i < crowd->count; i++) {
        taken += !stage->requests[i].reject;
        if (stage->requests[i].reject || crowd->asked_at[i] < end - SHORT_END_MS + 1000)
            continue; /* before the crowd a few are no crowd */
        judged++;
        late += crowd->first_at[i] - crowd->asked_at[i] > 2 * SHORT_STEP_MS + 1;
    }
    double possible = (double)SHORT_END_MS * slots / (SHORT_STEP_MS * SHORT_ANSWER);
    if (late * 100 > judged || taken < possible * 0.8)
        check_fail(__FILE__, __LINE__, "%u slots, %u in flight: %u of %u late, %u of %.0f taken",
                   slots, steps_in_flight, late, judged, taken, possible);
    crowd_free(&crowd);
}

TEST(admission_keeps_a_bound_shorter_than_an_answer) {
    for (uint32_t slots = 1; slots <= 4; slots++)
        for (uint32_t steps_in_flight = 1; steps_in_flight <= 2; steps_in_flight++)
            keeps_a_short_bound(slots, steps_in_flight);
}

/* Of six that come at once four are taken. What comes while these end is judged as a crowd's, though
 * few are there; some time later four in all are no crowd again. */
TEST(admission_a_crowd_is_one_for_a_while) {
    struct crowd *crowd = short_crowd_new(1, SHORT_STEP_MS, 1);
    struct stage *stage = crowd->stage;
    int64_t step_began = 0;
    slow_ask(crowd, 1, 10, SHORT_ANSWER); /* what an answer takes is known then */
    while (!sched_counts(stage->s).finished[WIRE_FINISH_LENGTH])
        short_tick(crowd, &step_began);
    for (uint32_t round = 0; round < 2; round++) {
        int64_t began = stage->now;
        uint32_t first = crowd->count;
        for (int i = 0; i < 6; i++)
            slow_ask(crowd, 1, 10, SHORT_ANSWER);
        short_tick(crowd, &step_began);
        for (uint32_t i = 0; i < 6; i++)
            EXPECT_EQ(stage->requests[first + i].reject, i < 4 ? 0 : WIRE_REJECT_OVERLOADED);
        while (sched_counts(stage->s).finished[WIRE_FINISH_LENGTH] < 4 * round + 4)
            short_tick(crowd, &step_began);
        uint32_t late = slow_ask(crowd, 2, 10, SHORT_ANSWER);
        short_tick(crowd, &step_began);
        EXPECT_EQ(stage->requests[late].reject, WIRE_REJECT_OVERLOADED);
        while (stage->now < began + 11000)
            short_tick(crowd, &step_began);
    }
    crowd_free(&crowd);
}

/* ---- what a step costs ---- */

/* Steps of 6 ms and half a millisecond a row. While all have three rows it is the step that costs; with
 * others it is found out, whatever prompts cost in between, and rows that cost nothing cost nothing. */
TEST(a_row_costs_what_other_numbers_of_rows_tell) {
    struct step_cost cost = {0};
    for (int i = 0; i < 300; i++)
        step_cost_observe(&cost, 3, 3, 7.5);
    EXPECT(cost.extra_row_ms < 1e-6);
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t rows = 1 + i % 5;
        step_cost_observe(&cost, rows, rows, 6 + 0.5 * rows);
        step_cost_observe(&cost, rows, rows + 2000, 60);
    }
    EXPECT(cost.extra_row_ms > 0.4 && cost.extra_row_ms < 0.5);
    for (uint32_t i = 0; i < 3000; i++)
        step_cost_observe(&cost, 1 + i % 5, 1 + i % 5, 6 - 0.1 * (i % 5));
    EXPECT(cost.extra_row_ms == 0);
}

/* Of small steps alone a large one counts as the largest of them; the first, which reads weights from
 * the disk, does not count. */
TEST(admission_takes_a_burst_before_large_steps_were_seen) {
    struct step_cost cost = {0};
    EXPECT(step_cost_ms(&cost, 1, 100) == 0);
    step_cost_observe(&cost, 1, 1, 30000);
    EXPECT(step_cost_ms(&cost, 1, 100) == 0);
    for (int i = 0; i < 3; i++)
        step_cost_observe(&cost, 1, 1, 300);
    EXPECT(step_cost_ms(&cost, 4, 500) > 299 && step_cost_ms(&cost, 4, 500) < 301);
    for (int i = 0; i < 20; i++)
        step_cost_observe(&cost, 1, 100, 400);
    EXPECT(step_cost_ms(&cost, 1, 50) > 340 && step_cost_ms(&cost, 1, 50) < 360);
    EXPECT(step_cost_ms(&cost, 1, 100) > 395 && step_cost_ms(&cost, 1, 1000) < 405);
}

/* ---- the expected wait by itself ---- */

/* A model with two replicas, whose sequences were all placed `age` ms ago. */
static const struct turnover {
    double held_ms, weight; /* of slots that came free */
    double step_ms[2];      /* of the replicas */
    uint32_t running[2];
    int64_t age;
    uint32_t max_tokens; /* of every request */
    uint32_t waiting;
    double want;
} TURNOVERS[] = {
    {0, 0, {10, 10}, {0, 0}, 0, 100, 5, 0}, /* nothing runs: not known */
    {1000, 2, {10, 10}, {0, 0}, 0, 100, 5, 0},
    {0, 0, {0, 0}, {2, 0}, 0, 100, 5, 0},         /* nothing was seen yet */
    {0, 0, {0, 0}, {2, 0}, 300, 100, 5, 5 * 150}, /* but how long they have run */
    {0, 0, {10, 0}, {2, 0}, 0, 100, 5, 5 * 500},  /* the guess: 100 steps of 10 ms */
    {0, 0, {10, 0}, {2, 0}, 0, 256, 1, 1280},     /* of 256 tokens at most */
    {0, 0, {10, 0}, {2, 0}, 0, 257, 1, 1280},
    {0, 0, {10, 0}, {2, 0}, 0, 1, 1, 5},
    {0, 0, {10, 0}, {2, 0}, 0, 0, 1, 5},       /* a vector is one step */
    {0, 0, {10, 30}, {1, 1}, 0, 100, 1, 1500}, /* by the slower replica */
    {0, 0, {30, 10}, {1, 1}, 0, 100, 1, 1500},
    {0, 0, {10, 30}, {2, 2}, 0, 100, 1, 750},
    {6000, 6, {10, 0}, {1, 0}, 0, 100, 1, 1000},     /* what was seen is as was guessed */
    {12000, 6, {10, 0}, {1, 0}, 0, 100, 1, 1600},    /* six of 2000, four of 1000 */
    {12000, 6, {0, 0}, {1, 0}, 0, 100, 1, 2000},     /* nothing to guess by */
    {12000, 6, {10, 0}, {1, 0}, 1601, 100, 1, 1601}, /* one that runs has run longer */
    {12000, 6, {10, 0}, {1, 0}, 1599, 100, 1, 1600},
    {1200, 6, {0.005, 0}, {1, 0}, 0, 100, 1, 120.2}, /* a guess of half a ms is one, too */
};

TEST(admission_waits_for_as_many_slots_as_go_before) {
    for (size_t i = 0; i < ARRAY_LEN(TURNOVERS); i++) {
        const struct turnover *t = &TURNOVERS[i];
        struct sched s = {.now = 100000};
        struct request request = {.max_tokens = t->max_tokens};
        struct sequence sequence = {.request = &request, .placed_at = s.now - t->age};
        struct sequence *running[4] = {&sequence, &sequence, &sequence, &sequence};
        struct replica replicas[2];
        struct model model = {.admission = {t->held_ms, t->weight}, .waiting.count = t->waiting};
        for (int k = 0; k < 2; k++) {
            struct replica *r = &replicas[k];
            *r = (struct replica){
                .running = running, .running_count = t->running[k], .ms_per_step = t->step_ms[k]};
            vec_push(&model.replicas, r);
            for (uint32_t n = 0; n < t->running[k]; n++)
                admission_enter(&model, &sequence);
        }
        double got = admission_queue_ms(&s, &model);
        if (got < t->want - 0.001 || got > t->want + 0.001)
            check_fail(__FILE__, __LINE__, "row %zu: %g ms, expected %g", i, got, t->want);
        vec_release(&model.replicas);
    }
}

/* The sums forget: after many equal ones their mean is that; one other counts for a fiftieth. */
TEST(admission_forgets_what_was_long_ago) {
    struct model model = {.admission = {0, 0}};
    admission_observe(&model, 700);
    EXPECT(model.admission.held_ms == 700 && model.admission.weight == 1);
    for (int i = 0; i < 1000; i++)
        admission_observe(&model, 500);
    EXPECT(model.admission.weight > 49.99 && model.admission.weight < 50.01);
    EXPECT(model.admission.held_ms > 24999 && model.admission.held_ms < 25001);
    admission_observe(&model, 0);
    EXPECT(model.admission.held_ms > 24499 && model.admission.held_ms < 24501);
}

/* One that gives its slot up comes back for another: what it has held counts with what it holds then. */
TEST(admission_counts_what_a_slot_that_was_given_up_had_held) {
    struct model model = {.waiting = {.count = 0}};
    struct request request = {.model = &model, .max_tokens = 1};
    struct sequence q = {.request = &request, .placed_at = 1000};
    admission_enter(&model, &q);
    admission_leave(&model, &q, 1300, false);
    EXPECT(model.admission.held_ms == 300 && model.admission.weight == 0);
    q.placed_at = 2000;
    admission_enter(&model, &q);
    admission_leave(&model, &q, 2500, true);
    EXPECT(model.admission.weight == 1 && model.admission.running == 0);
    EXPECT(model.admission.held_ms > 790 && model.admission.held_ms < 800);
}

/* What goes before a newcomer: the resumed, its own tenant's, choices included that wait behind one of
 * theirs, and of each other's as many by weight, what it has in slots included; and its own slot. */
TEST(admission_counts_what_goes_before) {
    static const struct row {
        size_t own, other, resumed;
        uint32_t weight, other_weight, choices;
        double turns;
        uint32_t own_behind, other_behind, other_slots;
    } ROWS[] = {
        /* itself alone: the slot that has to come free */
        {1, 0, 0, 1, 1, 1, 1, 0, 0, 0},
        {3, 0, 0, 1, 1, 1, 3, 0, 0, 0},
        {3, 9, 0, 1, 1, 1, 6, 0, 0, 0},
        {3, 2, 0, 1, 1, 1, 5, 0, 0, 0},
        {3, 9, 0, 1, 2, 1, 9, 0, 0, 0},
        {3, 9, 0, 1, 3, 1, 12, 0, 0, 0},
        {3, 9, 0, 3, 1, 1, 4, 0, 0, 0},
        {3, 9, 0, 2, 1, 1, 4, 0, 0, 0},
        {3, 9, 4, 1, 1, 1, 10, 0, 0, 0},
        {4, 0, 0, 1, 1, 4, 1, 0, 0, 0},
        {4, 0, 3, 1, 1, 4, 4, 0, 0, 0},
        {2, 2, 0, 1, 1, 5, 1, 0, 0, 0},
        /* choices that wait for the prompt of another */
        {3, 0, 0, 1, 1, 1, 5, 2, 0, 0},
        {3, 1, 0, 1, 1, 1, 6, 0, 7, 0},
        {3, 0, 0, 1, 1, 1, 4, 0, 1, 0},
        /* others ask for the next when one of theirs has ended */
        {3, 1, 0, 1, 1, 1, 6, 0, 0, 2},
        {3, 1, 0, 1, 1, 1, 5, 0, 0, 1},
        {3, 0, 0, 1, 1, 1, 3, 0, 0, 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct sched s = {.now = 100000};
        struct sequence running = {.placed_at = s.now - 100}, mine = {.request = NULL},
                        other = mine;
        struct sequence *slots[1] = {&running};
        struct model model = {.waiting = {.count = 0}};
        struct request request = {.model = &model,
                                  .weight = ROWS[i].weight,
                                  .sequence_count = ROWS[i].choices},
                       others = {.weight = ROWS[i].other_weight, .max_tokens = 1};
        struct tenant tenants[3] = {0};
        struct replica r = {.running = slots, .running_count = 1};
        running.request = other.request = &others;
        mine.request = &request;
        request.tenant = &tenants[0];
        for (size_t k = 0; k < ROWS[i].own; k++)
            vec_push(&tenants[0].heap, &mine);
        for (size_t k = 0; k < ROWS[i].other; k++)
            vec_push(&tenants[1].heap, &other);
        tenants[0].new_count = (uint32_t)ROWS[i].own + ROWS[i].own_behind;
        tenants[1].new_count = (uint32_t)ROWS[i].other + ROWS[i].other_behind;
        tenants[1].slot_count = ROWS[i].other_slots;
        for (size_t k = 0; k < ROWS[i].resumed; k++)
            vec_push(&model.waiting.resumed, &other);
        for (size_t k = 0; k < ARRAY_LEN(tenants); k++)
            vec_push(&model.waiting.tenants, &tenants[k]);
        vec_push(&model.replicas, &r);
        admission_enter(&model, &running);
        double turns = admission_wait_ms(&s, &request) / 100;
        if (turns < ROWS[i].turns - 0.001 || turns > ROWS[i].turns + 0.001)
            check_fail(__FILE__, __LINE__, "row %zu: %g before it, expected %g", i, turns,
                       ROWS[i].turns);
        for (size_t k = 0; k < ARRAY_LEN(tenants); k++)
            vec_release(&tenants[k].heap);
        vec_release(&model.waiting.resumed);
        vec_release(&model.waiting.tenants);
        vec_release(&model.replicas);
    }
}
