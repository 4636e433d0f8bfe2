/* How the length of a step is shared out, and what a step is said to cost: in numbers. */
#include "scheduler/core/step_share.h"

#include <math.h>

#include "check.h"
#include "scheduler/core/core.h"
#include "scheduler/core/models.h"
#include "scheduler/core/request.h"
#include "scheduler/core/step_cost.h"

enum { MOST = 4, LINGER_MS = 70, NOW = 1000 };

/* A replica on which up to MOST sequences run, each of a tenant of its own. A step takes 10 ms, a row
 * 1 ms and a token 0.5 ms. */
struct stage {
    struct sched s;
    struct model model;
    struct replica r;
    struct tenant tenants[MOST];
    struct request requests[MOST];
    struct sequence sequences[MOST];
    struct sequence *running[MOST];
};

static void stage_init(struct stage *t) {
    *t = (struct stage){.s = {.now = NOW, .config = {.share_linger_ms = LINGER_MS}},
                        .r = {.stage_count = 1,
                              .max_step_tokens = 100,
                              .cost = {.step_ms = 10, .row_ms = 1, .token_ms = 0.5}}};
    t->r.running = t->running;
    t->r.model = &t->model;
}

static void stage_release(struct stage *t) {
    vec_release(&t->s.plan_build.sharers);
}

/* One that runs, with so many positions to compute. */
static struct sequence *add(struct stage *t, uint32_t weight, uint32_t left) {
    uint32_t i = t->r.running_count++;
    t->requests[i] = (struct request){
        .tenant = &t->tenants[i], .weight = weight, .kind = WIRE_GENERATE, .model = &t->model};
    t->sequences[i] = (struct sequence){.request = &t->requests[i],
                                        .state = SEQ_RUNNING,
                                        .tokens_hi = 500,
                                        .computed_hi = 500 - left,
                                        .max_total = 501};
    t->model.waiting.slotted++;
    return t->running[i] = &t->sequences[i];
}

static bool is_near(double a, double b) {
    return fabs(a - b) <= 1e-9 * MAX(fabs(b), 1.0);
}

/* A wants one token, B sixty-one ms' worth: A's step alone would be 11.5 ms, so this one is 23. */
TEST(who_wants_less_than_its_share_has_it_and_others_what_is_left) {
    struct stage t;
    stage_init(&t);
    add(&t, 100, 1);
    add(&t, 100, 100);
    EXPECT(step_share(&t.s, &t.r));
    EXPECT(is_near(t.tenants[0].step_want_ms, 1.5) && is_near(t.tenants[1].step_want_ms, 51));
    EXPECT(is_near(t.r.share_ms, 23) && t.r.share_until == NOW + LINGER_MS);
    EXPECT(is_near(t.tenants[0].step_ms, 1.5) && is_near(t.tenants[1].step_ms, 11.5));
    stage_release(&t);
}

TEST(shares_follow_weights) {
    struct stage t;
    stage_init(&t);
    add(&t, 300, 100);
    add(&t, 100, 100);
    EXPECT(step_share(&t.s, &t.r)); /* (10 + 51) * 400 / 300 */
    EXPECT(is_near(t.r.share_ms, 61.0 * 4 / 3));
    EXPECT(is_near(t.tenants[0].step_ms, 51) && is_near(t.tenants[1].step_ms, 61.0 * 4 / 3 - 61));
    stage_release(&t);
    stage_init(&t);
    add(&t, 0, 100); /* of no weight: as one of 100 */
    add(&t, 50, 100);
    add(&t, 50, 1);
    EXPECT(step_share(&t.s, &t.r)); /* 11.5 * 200 / 50 */
    EXPECT(is_near(t.r.share_ms, 46) && t.tenants[0].weight == 100);
    EXPECT(is_near(t.tenants[2].step_ms, 1.5));
    EXPECT(is_near(t.tenants[0].step_ms, 34.5 * 2 / 3) && is_near(t.tenants[1].step_ms, 34.5 / 3));
    stage_release(&t);
}

/* What all want fits: nothing is shared out, but it is remembered that there were several. */
TEST(a_step_with_room_for_all_is_not_shared_out) {
    struct stage t;
    stage_init(&t);
    add(&t, 100, 1);
    add(&t, 100, 1);
    EXPECT(!step_share(&t.s, &t.r));
    EXPECT(is_near(t.r.share_ms, 23) && t.r.share_until == NOW + LINGER_MS);
    t.sequences[1].computed_hi = 500 - 21; /* 10 + 1.5 + 11.5: exactly as long as it may be */
    EXPECT(!step_share(&t.s, &t.r));
    t.sequences[1].computed_hi--;
    EXPECT(step_share(&t.s, &t.r));
    stage_release(&t);
}

/* For a moment one that is alone has no longer steps than beside the other. */
TEST(shares_linger) {
    struct stage t;
    stage_init(&t);
    add(&t, 100, 100);
    EXPECT(!step_share(&t.s, &t.r));
    t.r.share_ms = 23;
    t.r.share_until = NOW + 1;
    EXPECT(step_share(&t.s, &t.r));
    EXPECT(is_near(t.tenants[0].step_ms, 13) && t.r.share_until == NOW + 1);
    t.s.now = NOW + 1;
    EXPECT(!step_share(&t.s, &t.r));
    t.s.now = NOW;
    t.r.share_ms = 9; /* less than a step costs: a row all the same */
    EXPECT(step_share(&t.s, &t.r));
    EXPECT(t.tenants[0].step_ms > 0 && t.tenants[0].step_ms < 0.01);
    t.r.running_count = 0;
    EXPECT(!step_share(&t.s, &t.r));
    stage_release(&t);
}

TEST(who_cannot_run_has_no_share) {
    struct stage t;
    for (int why = 0; why < 6; why++) {
        stage_init(&t);
        add(&t, 100, 100);
        struct sequence *q = add(&t, 100, 1);
        if (why == 0)
            q->request->priority = WIRE_PRIORITY_PROBE;
        else if (why == 1)
            q->request->paused = true;
        else if (why == 2)
            q->state = SEQ_ENDING;
        else if (why == 3)
            q->max_total = q->tokens_hi;
        else if (why == 4)
            t.r.stage_count = 2;
        else
            t.r.cost.row_ms = t.r.cost.token_ms = 0;
        EXPECT(!step_share(&t.s, &t.r));
        EXPECT_EQ(t.r.share_until, 0);
        stage_release(&t);
    }
    stage_init(&t);
    add(&t, 100, 100);
    add(&t, 100, 1);
    t.model.waiting.slotted = 1; /* two sequences of one */
    EXPECT(!step_share(&t.s, &t.r));
    stage_release(&t);
}

TEST(what_may_run_has_something_to_compute) {
    struct stage t;
    stage_init(&t);
    struct sequence *q = add(&t, 100, 1);
    EXPECT(step_may_run(&t.r, q));
    q->max_total = 500;
    EXPECT(!step_may_run(&t.r, q)); /* its last token is under way */
    q->request->kind = WIRE_EMBED;
    EXPECT(step_may_run(&t.r, q));
    q->computed_hi = 500;
    EXPECT(!step_may_run(&t.r, q));
    struct suspect_group *group = (struct suspect_group *)&t; /* never looked into */
    q->request->kind = WIRE_GENERATE;
    q->max_total = 501;
    t.r.testing = group;
    EXPECT(!step_may_run(&t.r, q));
    q->group = group;
    EXPECT(step_may_run(&t.r, q));
    stage_release(&t);
}

/* More than a step holds is not wanted of one step. */
TEST(no_more_is_wanted_than_a_step_holds) {
    struct stage t;
    stage_init(&t);
    add(&t, 100, 500);
    add(&t, 100, 0);
    t.r.max_step_tokens = 60;
    EXPECT(step_share(&t.s, &t.r));
    EXPECT(is_near(t.tenants[0].step_want_ms, 31) && is_near(t.tenants[1].step_want_ms, 1.5));
    stage_release(&t);
}

/* ---- what a step costs ---- */

static void observe(struct step_cost *cost, uint32_t rows, uint32_t tokens, double ms) {
    for (int i = 0; i < 300; i++)
        step_cost_observe(cost, rows + (uint32_t)i % 3, tokens + (uint32_t)i % 7 * 10,
                          ms + (double)(i % 3) * 0.5 + (double)(i % 7 * 10) * 0.125);
}

/* Of steps that take 4 ms, 0.5 ms a row and 0.125 ms a token. */
TEST(cost_of_a_step_is_found_and_bounded_by_what_was_seen) {
    struct step_cost cost = {0};
    EXPECT(step_cost_ms(&cost, 3, 5) == 0 && step_cost_rows_ms(&cost, 3) == 0);
    step_cost_observe(&cost, 1, 1, 5000); /* the first is that of a cold start */
    EXPECT(!cost.most_rows && step_cost_ms(&cost, 1, 1) == 0);
    observe(&cost, 2, 40, 4 + 2 * 0.5 + 40 * 0.125);
    EXPECT_EQ(cost.most_rows, 4);
    EXPECT_EQ(cost.most_tokens, 100);
    EXPECT(fabs(step_cost_ms(&cost, 3, 60) - (4 + 1.5 + 7.5)) < 0.05);
    EXPECT(fabs(cost.token_ms - 0.125) < 0.01);
    EXPECT(step_cost_ms(&cost, 5, 60) == step_cost_ms(&cost, 4, 60));
    EXPECT(step_cost_ms(&cost, 4, 101) == step_cost_ms(&cost, 4, 100));
    EXPECT(step_cost_ms(&cost, 4, 99) < step_cost_ms(&cost, 4, 100));
    EXPECT_EQ((int)step_cost_rows_ms(&cost, 3), 0); /* rows alone were never seen */
}

TEST(cost_of_rows_is_that_of_steps_without_prompts) {
    struct step_cost cost = {0};
    step_cost_observe(&cost, 1, 1, 1);
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t rows = 1 + i % 8;
        step_cost_observe(&cost, rows, rows, 6 + 0.25 * rows);
        step_cost_observe(&cost, rows, 200, 90); /* is none of them */
    }
    EXPECT(fabs(step_cost_rows_ms(&cost, 4) - 7) < 0.1);
    EXPECT(fabs(step_cost_rows_ms(&cost, 40) - 16) < 0.6);
    EXPECT(step_cost_rows_ms(&cost, 0) == 0);
}

/* What would cost less than nothing costs nothing: more tokens that are said to be cheaper. */
TEST(nothing_costs_less_than_nothing) {
    struct step_cost cost = {0};
    for (uint32_t i = 0; i < 400; i++) {
        step_cost_observe(&cost, 1 + i % 3, 10 + i % 5, 20 - (double)(i % 5) - (double)(i % 3));
        EXPECT(cost.step_ms >= 0 && cost.row_ms >= 0 && cost.token_ms >= 0);
        EXPECT(cost.extra_row_ms >= 0);
    }
    EXPECT(cost.row_ms == 0 && cost.token_ms == 0);
    EXPECT(fabs(cost.step_ms - 17) < 0.2);
}
