/* What a replica is said to need for a step, a token and a position, behind each of some steps: means, and
 * the dearest and the cheapest, in numbers. */
#include "stage.h"

#include <math.h>

#include "scheduler/core/core.h"
#include "scheduler/core/replica.h"

static bool is_near(double a, double b) {
    return fabs(a - b) <= 1e-9 * MAX(fabs(b), 1.0);
}

/* The step that is in flight took so long; the next one is planned. */
static void answer(struct stage *stage, uint32_t ms) {
    stage->workers[0].step_ms = ms;
    stage_answer(stage, &stage->workers[0]);
    stage_run(stage);
}

/* A prompt of so many tokens and an answer of one, in a step that took so long. */
static void prompt(struct stage *stage, uint32_t idx, uint32_t tokens, uint32_t ms) {
    struct wire_submit submit = stage_submit(stage, idx, tokens, 1, 100 + idx);
    stage_send(stage, &submit);
    stage_run(stage);
    answer(stage, ms);
    CHECK(stage->requests[idx].choices[0].finish);
}

TEST(speeds_follow_the_steps_that_were_seen) {
    struct stage *stage = stage_new(NULL);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.steps_in_flight = 1;
    EXPECT_EQ(stage_hello(stage, w), 0);
    const struct replica *r = stage->s->replicas.items[0];
    struct wire_submit submit = stage_submit(stage, 0, 40, 3, 1);
    stage_send(stage, &submit);
    stage_run(stage);
    EXPECT(r->ms_per_step == 0 && r->ms_per_token == 0 && r->ms_per_position == 0);
    answer(stage, 80);
    EXPECT(is_near(r->ms_per_step, 80) && is_near(r->ms_per_token, 2));
    EXPECT(is_near(r->ms_per_position, 2));
    EXPECT(r->ms_per_prompt_token == 0); /* the first step reads weights, too */
    answer(stage, 10);
    EXPECT(is_near(r->ms_per_step, 73) && is_near(r->ms_per_token, 10));
    EXPECT(is_near(r->ms_per_position, 2));
    answer(stage, 1);
    EXPECT(is_near(r->ms_per_step, 65.8) && is_near(r->ms_per_token, 9.9));
    EXPECT(stage->requests[0].choices[0].finish && r->ms_per_prompt_token == 0);
    prompt(stage, 1, 31, 310); /* too few to tell what one of many takes */
    EXPECT(r->ms_per_prompt_token == 0 && is_near(r->ms_per_position, 2));
    EXPECT(is_near(r->ms_per_token, 10));
    prompt(stage, 2, 32, 64);
    EXPECT(is_near(r->ms_per_prompt_token, 2));
    prompt(stage, 3, 32, 16); /* with the row one position less than counts */
    EXPECT(is_near(r->ms_per_position, 2) && is_near(r->ms_per_prompt_token, 1.7));
    prompt(stage, 4, 33, 33);
    EXPECT(is_near(r->ms_per_position, 1) && is_near(r->ms_per_prompt_token, 1.56));
    prompt(stage, 5, 64, 128);
    EXPECT(is_near(r->ms_per_position, 1.0002) && is_near(r->ms_per_prompt_token, 1.648));
    stage_free(stage);
}
