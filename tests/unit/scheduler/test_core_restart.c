/* A gateway takes a request up with more tokens than the scheduler has, wherever its sequences are:
 * it is right, and the text goes on from there. */
#include "stage.h"

/* The first `count` tokens that the prompt of a request leads to; into the stream of the choice,
 * as if they had arrived. */
static struct wire_choice hold(struct stage *stage, uint32_t idx, uint32_t choice, size_t count) {
    struct stage_request *request = &stage->requests[idx];
    struct stage_tokens *stream = &request->choices[choice].tokens, all = {0};
    for (size_t i = 0; i < request->prompt.count; i++)
        vec_push(&all, request->prompt.items[i]);
    stream->count = 0;
    for (size_t i = 0; i < count; i++) {
        vec_push(stream, stage_next(&all, choice));
        stage_extend(&all, choice);
    }
    vec_release(&all);
    return (struct wire_choice){.choice = choice, .emitted = {stream->items, count}};
}

static struct wire_choice two_choices[2] = {{.choice = 0}, {.choice = 1}};

static struct wire_submit submit_two(struct stage *stage, uint32_t attempt) {
    struct wire_submit submit = stage_submit(stage, 0, 40, 30, 0);
    submit.choices = two_choices;
    submit.choice_count = 2;
    submit.attempt = stage->requests[0].attempt = attempt;
    submit.resumed = attempt > 0;
    return submit;
}

static void cancel_first(struct stage *stage, uint32_t attempt) {
    struct wire_cancel cancel = {.request = stage_id(0), .attempt = attempt, .choice = 0};
    sched_cancel(stage->s, stage->now, stage->gateway, &cancel);
    sched_check(stage->s);
}

/* Takes both choices up with these counts of tokens; both must then end as if nothing had been. */
static void take_up(struct stage *stage, uint32_t attempt, size_t first, size_t second) {
    struct wire_submit submit = submit_two(stage, attempt);
    struct wire_choice choices[2] = {hold(stage, 0, 0, first), hold(stage, 0, 1, second)};
    submit.choices = choices;
    stage_send(stage, &submit);
    sched_check(stage->s);
    stage->deaf = false;
}

static void expect_both(struct stage *stage) {
    stage_finish(stage);
    for (uint32_t choice = 0; choice < 2; choice++) {
        EXPECT(stage_is_right(stage, 0, choice, 30));
        EXPECT_EQ(stage->requests[0].choices[choice].finish, WIRE_FINISH_LENGTH);
    }
    EXPECT_EQ(sched_counts(stage->s).running, 0);
    stage_free(stage);
}

static struct stage *running_stage(uint32_t turns) {
    struct stage *stage = stage_new(NULL);
    CHECK(stage_hello(stage, stage_worker(stage, 0)) == 0);
    stage->deaf = true;
    stage->auto_ack = false;
    struct wire_submit submit = submit_two(stage, 0);
    stage_send(stage, &submit);
    for (uint32_t i = 0; i < turns; i++) {
        stage_run(stage);
        stage_answer(stage, &stage->workers[0]);
    }
    stage_run(stage); /* rows are in flight */
    return stage;
}

TEST(restart_of_a_running_sequence) {
    struct stage *stage = running_stage(6);
    take_up(stage, 1, 20, 1);
    expect_both(stage);
}

TEST(restart_of_a_sequence_that_ends) {
    struct stage *stage = running_stage(6);
    cancel_first(stage, 0);
    take_up(stage, 1, 20, 20);
    expect_both(stage);
}

TEST(restart_of_a_sequence_that_is_done) {
    struct stage *stage = running_stage(6);
    cancel_first(stage, 0);
    while (stage_answer(stage, &stage->workers[0]))
        sched_check(stage->s);
    take_up(stage, 1, 20, 20);
    expect_both(stage);
}

TEST(restart_of_a_sequence_that_is_done_before_its_model_is_known) {
    struct stage *stage = stage_new(NULL);
    struct wire_submit submit = submit_two(stage, 1);
    stage_send(stage, &submit);
    stage_run(stage);
    cancel_first(stage, 1);
    take_up(stage, 2, 20, 0);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    expect_both(stage);
}

TEST(restart_of_a_held_sequence) {
    struct stage *stage = stage_new(NULL);
    struct wire_submit submit = submit_two(stage, 1);
    stage_send(stage, &submit);
    take_up(stage, 2, 3, 20);
    EXPECT_EQ(stage_hello(stage, stage_worker(stage, 0)), 0);
    expect_both(stage);
}

/* It waited for its first slot with tokens of another scheduler's, and its time ended. Then its
 * gateway takes it up once more, when the queue is full: it is resumed work, which is counted apart. */
TEST(restart_of_what_ended_while_it_waited_is_no_new_work) {
    struct sched_config config;
    sched_config_default(&config);
    config.waiting_max = 1;
    config.wait_max_ms = 0;
    struct stage *stage = stage_new(&config);
    struct stage_worker *w = stage_worker(stage, 0);
    w->hello.slot_count = 1;
    EXPECT_EQ(stage_hello(stage, w), 0);
    stage->auto_ack = false;
    stage_simple(stage, 0, 20, 40); /* has the slot */
    stage_run(stage);
    stage_simple(stage, 1, 20, 30);
    stage_run(stage);
    struct wire_submit again = stage_submit(stage, 1, 20, 30, 1);
    struct wire_choice held = hold(stage, 1, 0, 2);
    again.choices = &held;
    again.choice_count = 1;
    again.resumed = true;
    again.deadline_ms = 10;
    again.attempt = stage->requests[1].attempt = 1;
    stage_send(stage, &again);
    stage_run(stage);
    stage->now += 11;
    stage_run(stage);
    EXPECT_EQ(sched_counts(stage->s).finished[WIRE_FINISH_DEADLINE], 1);
    stage_simple(stage, 2, 20, 5); /* fills the queue */
    stage_run(stage);
    EXPECT_EQ(stage->requests[2].reject, 0);
    held = hold(stage, 1, 0, 3);
    stage->requests[1].choices[0].finish = 0;
    again.deadline_ms = 0;
    again.attempt = stage->requests[1].attempt = 2;
    stage_send(stage, &again);
    stage_run(stage); /* checks the bound */
    EXPECT_EQ(sched_counts(stage->s).waiting, 1);
    EXPECT_EQ(sched_counts(stage->s).resumed_waiting, 1);
    stage->auto_ack = true;
    stage_finish(stage);
    EXPECT(stage_is_right(stage, 1, 0, 30));
    EXPECT(stage_is_right(stage, 2, 0, 5));
    stage_free(stage);
}
