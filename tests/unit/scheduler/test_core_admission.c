/*
 * test_core_admission.c - admission by time, with virtual time: 4 slots whose requests take 1.6 s
 * each, so 2.5 requests a second, and clients that ask for more.
 */
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/replica.h"
#include "scheduler/core/request.h"
#include "stage.h"

enum { STEP_MS = 25, OUTPUT = 64, BOUND_MS = 10000 };

struct crowd {
    struct stage *stage;
    int64_t asked_at[STAGE_REQUESTS], first_at[STAGE_REQUESTS];
    uint32_t count;
};

static struct crowd *crowd_new(void) {
    struct crowd *crowd = mem_alloc(sizeof *crowd);
    crowd->stage = stage_new(NULL);
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
TEST(admission_keeps_its_bound_under_twelve_times_the_load) {
    struct crowd *crowd = crowd_new();
    struct stage *stage = crowd->stage;
    int64_t end = stage->now + 60000;
    for (double due = 0; stage->now < end; due += 30.0 * STEP_MS / 1000) {
        for (; due >= 1; due--)
            crowd_ask(crowd, 1, 0);
        crowd_step(crowd);
    }
    uint64_t finished = sched_counts(stage->s).finished[WIRE_FINISH_LENGTH];
    for (int i = 0; i < 2000 && sched_counts(stage->s).running; i++)
        crowd_step(crowd);
    int64_t waits[STAGE_REQUESTS];
    size_t taken = 0;
    for (uint32_t i = 0; i < crowd->count; i++) {
        const struct stage_request *request = &stage->requests[i];
        if (request->reject) {
            EXPECT_EQ(request->reject, WIRE_REJECT_OVERLOADED);
            EXPECT(request->retry_after_ms >= 1000 && request->retry_after_ms <= 2 * BOUND_MS);
            continue;
        }
        EXPECT(crowd->first_at[i] > 0);
        waits[taken++] = crowd->first_at[i] - crowd->asked_at[i];
    }
    qsort(waits, taken, sizeof *waits, compare_times);
    EXPECT(crowd->count > 1700);
    EXPECT(finished >= 60000 / 1600 * 4 - 8);
    EXPECT(waits[taken * 99 / 100] <= 2 * BOUND_MS);
    EXPECT(waits[taken / 2] >= BOUND_MS / 2); /* and it is used: nobody is refused for nothing */
    crowd_free(&crowd);
}

/* A tenant with a few requests is not refused for the crowd of another. */
TEST(admission_looks_at_a_tenants_own_queue) {
    struct crowd *crowd = crowd_new();
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
    struct crowd *crowd = crowd_new();
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

/* What goes before a newcomer: the resumed, its own tenant's, and of each other's as many by weight. */
TEST(admission_counts_what_goes_before) {
    static const struct row {
        size_t own, other, resumed;
        uint32_t weight, other_weight, choices;
        double turns;
    } ROWS[] = {
        {1, 0, 0, 1, 1, 1, 0}, /* itself alone */
        {3, 0, 0, 1, 1, 1, 2},  {3, 9, 0, 1, 1, 1, 5}, {3, 2, 0, 1, 1, 1, 4}, {3, 9, 0, 1, 2, 1, 8},
        {3, 9, 0, 1, 3, 1, 11}, {3, 9, 0, 3, 1, 1, 3}, {3, 9, 0, 2, 1, 1, 3}, {3, 9, 4, 1, 1, 1, 9},
        {4, 0, 0, 1, 1, 4, 0},  {4, 0, 3, 1, 1, 4, 3}, {2, 2, 0, 1, 1, 5, 0},
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
        for (size_t k = 0; k < ROWS[i].resumed; k++)
            vec_push(&model.waiting.resumed, &other);
        for (size_t k = 0; k < ARRAY_LEN(tenants); k++)
            vec_push(&model.waiting.tenants, &tenants[k]);
        vec_push(&model.replicas, &r);
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
