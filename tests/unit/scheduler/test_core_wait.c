/* How long a request is expected to wait: where it takes a slot of a tenant that has several, and how much of
 * the prompts in slots goes before it. */
#include "scheduler/core/admission.h"
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/replica.h"
#include "scheduler/core/request.h"
#include "stage.h"

/* One sequence holds a slot, for 100 ms so far: the next comes free in as long. */
TEST(wait_for_a_slot_of_another_is_short) {
    static const struct {
        uint32_t own_slots, other_slots, own_waiting, choices;
        int32_t slot_wait_ms;
        double ms;
    } ROWS[] = {
        {0, 2, 1, 1, 30, 30},                          /* taken of who has two */
        {0, 3, 1, 1, 30, 30},   {0, 1, 1, 1, 30, 100}, /* nobody gives his only one up */
        {0, 0, 1, 1, 30, 100},  {1, 2, 1, 1, 30, 100}, /* a tenant that has one takes none */
        {0, 2, 2, 1, 30, 200},                         /* only its first does */
        {0, 2, 2, 2, 30, 30},                          /* with all its choices */
        {0, 2, 1, 1, 500, 100},                        /* and where one comes free before */
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct sched s = {.now = 100000, .config = {.slot_wait_ms = ROWS[i].slot_wait_ms}};
        struct request others = {.weight = 1, .max_tokens = 1};
        struct sequence running = {.placed_at = s.now - 100, .request = &others};
        struct sequence *slots[1] = {&running};
        struct model model = {.waiting = {.count = 0}};
        struct request request = {.model = &model, .weight = 1, .sequence_count = ROWS[i].choices};
        struct sequence mine = {.request = &request};
        struct tenant tenants[2] = {{.slot_count = ROWS[i].own_slots},
                                    {.slot_count = ROWS[i].other_slots}};
        struct replica r = {.running = slots, .running_count = 1};
        request.tenant = &tenants[0];
        for (size_t k = 0; k < ROWS[i].own_waiting; k++)
            vec_push(&tenants[0].heap, &mine);
        tenants[0].new_count = ROWS[i].own_waiting;
        vec_push(&model.waiting.tenants, &tenants[0]);
        vec_push(&model.waiting.tenants, &tenants[1]);
        vec_push(&model.replicas, &r);
        admission_enter(&model, &running);
        double ms = admission_wait_ms(&s, &request);
        if (ms < ROWS[i].ms - 0.001 || ms > ROWS[i].ms + 0.001)
            check_fail(__FILE__, __LINE__, "row %zu: %g ms, expected %g", i, ms, ROWS[i].ms);
        vec_release(&tenants[0].heap);
        vec_release(&model.waiting.tenants);
        vec_release(&model.replicas);
    }
}

/* ---- prompts in slots ---- */

enum { TOKEN_MS = 2, PROMPT = 4000 };

static void answer_step(struct stage *stage) {
    const struct stage_worker *w = &stage->workers[0];
    stage_run(stage);
    int64_t ms = 1;
    for (size_t i = 0; w->results.count && i < w->results.items[0].row_count; i++)
        ms += (int64_t)w->results.items[0].lens[i] * TOKEN_MS;
    stage->now += ms;
    stage_answer(stage, &stage->workers[0]);
    stage_run(stage);
}

static const struct request *ask(struct stage *stage, uint32_t idx, uint64_t tenant) {
    struct wire_submit submit = stage_submit(stage, idx, PROMPT, 4, idx);
    submit.tenant = (struct u128){tenant, 0};
    stage_send(stage, &submit);
    return id_map_get(&stage->s->request_ids, submit.request);
}

/* Of three tenants the first has one slot of six, the second two, the third three: as far as its slots tell,
 * half of the prompts go before the first one's next, and all before the second's and the third's: nobody has
 * more than all. */
TEST(wait_for_prompts_is_by_a_tenants_slots) {
    struct sched_config config;
    sched_config_default(&config);
    config.wait_max_ms = 0; /* nobody is refused */
    struct stage *stage = stage_new(&config);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 16;
    w->hello.steps_in_flight = 1;
    w->group.block_count = 8192;
    w->hello.max_context = 16384;
    w->ms_per_token = TOKEN_MS;
    EXPECT_EQ(stage_hello(stage, w), 0);
    for (uint32_t i = 0; i < 2; i++) { /* what its steps cost is seen */
        ask(stage, i, 9);
        do
            answer_step(stage);
        while (sched_counts(stage->s).running);
    }
    const struct request *of[4] = {NULL};
    uint32_t idx = 2;
    for (uint64_t tenant = 1; tenant <= 3; tenant++)
        for (uint64_t k = 0; k < tenant; k++)
            of[tenant] = ask(stage, idx++, tenant);
    stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).running, 6);
    double first = admission_wait_ms(stage->s, of[1]), second = admission_wait_ms(stage->s, of[2]),
           third = admission_wait_ms(stage->s, of[3]);
    EXPECT(second == third);
    EXPECT(first < second);
    while (sched_counts(stage->s).running)
        answer_step(stage);
    stage_free(stage);
}

/* A prompt that was taken is late when half of the bound is over and it has said nothing yet. */
TEST(wait_is_too_long_after_half_of_the_bound) {
    static const struct {
        int64_t waited_ms;
        int32_t bound_ms;
        bool fresh, has_output, late;
    } ROWS[] = {
        {499, 1000, false, false, false}, {500, 1000, false, false, true},
        {500, 0, false, false, false},    {500, 1000, true, false, false},
        {500, 1000, false, true, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct sched s = {.now = 5000, .config = {.wait_max_ms = ROWS[i].bound_ms}};
        struct request request = {.max_tokens = 9};
        request.submitted_at = s.now - ROWS[i].waited_ms;
        request.fresh = ROWS[i].fresh;
        const struct sequence q = {.request = &request,
                                   .prompt_count = 7,
                                   .token_count = 7 + (ROWS[i].has_output ? 1 : 0)};
        EXPECT_EQ(admission_is_overdue(&s, &q), ROWS[i].late);
    }
}
