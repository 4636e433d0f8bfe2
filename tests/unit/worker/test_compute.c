/*
 * The compute thread keeps two steps in flight: with a device whose steps end when the test says
 * so, every plan is on the device while the step before it still runs.
 */
#include <stdatomic.h>

#include "base/clock.h"
#include "kernels/device.h"
#include "planner.h"
#include "proto/codec.h"
#include "worker/compute.h"

/* ---- a device with a latency: the CPU, but for when its events are done ---- */

enum { PATIENCE_MS = 10000 };

static _Atomic uint64_t recorded; /* steps put on the device */
static _Atomic uint64_t ended;    /* steps that the test lets be over */
static struct {
    struct event base;
    uint64_t number; /* of the step recorded last */
} events[8];
static _Atomic uint32_t event_count;

static struct event *slow_event_new(struct device *dev) {
    CHECK(event_count < ARRAY_LEN(events));
    events[event_count].base.dev = dev;
    return &events[event_count++].base;
}
static void slow_event_free(struct event *e) {}
static void slow_event_record(struct event *e, struct stream *s) {
    for (uint32_t i = 0; i < event_count; i++)
        if (&events[i].base == e)
            events[i].number = ++recorded;
}
static int slow_event_done(struct event *e) {
    for (uint32_t i = 0; i < event_count; i++)
        if (&events[i].base == e)
            return events[i].number <= ended;
    return -1;
}
static int slow_event_wait(struct event *e) {
    while (slow_event_done(e) == 0)
        sleep_ms(1);
    return 0;
}

static int slow_open(const struct device_options *options, struct device **out, struct error *err) {
    static struct device_calls calls;
    struct device_options cpu = {.kind = "cpu", .thread_count = 1};
    int rc = device_open(&cpu, out, err);
    if (rc)
        return rc;
    calls = *(*out)->calls;
    calls.event_new = slow_event_new;
    calls.event_free = slow_event_free;
    calls.event_record = slow_event_record;
    calls.event_done = slow_event_done;
    calls.event_wait = slow_event_wait;
    (*out)->calls = &calls;
    (*out)->in_order_at_once = false;
    return 0;
}
__attribute__((constructor)) static void register_slow(void) {
    device_register("slow", slow_open);
}

/* ---- the control thread's part ---- */

struct bench {
    struct handoff *handoff;
    struct compute *compute;
    struct planner p;
    struct answer answer;
    struct buf frame;
};

static bool reaches(const _Atomic uint64_t *count, uint64_t wanted) {
    const int64_t until_ms = clock_ms() + PATIENCE_MS;
    while (*count < wanted && clock_ms() < until_ms)
        sleep_ms(1);
    return *count >= wanted;
}

static bool answered(struct bench *b, enum answer_kind kind) {
    const int64_t until_ms = clock_ms() + PATIENCE_MS;
    while (!handoff_result(b->handoff, &b->answer)) {
        if (clock_ms() > until_ms)
            return false;
        sleep_ms(1);
    }
    return b->answer.kind == kind;
}

/* One more token of the sequence in slot 0. */
static bool put_plan(struct bench *b) {
    struct planner *p = &b->p;
    if (!p->slots[0].told)
        planner_admit(p, 0);
    if (!planner_row(p, 0, 100))
        return false;
    const struct wire_plan plan = planner_plan(p);
    buf_reset(&b->frame);
    message_pack_plan(&plan, &b->frame);
    p->admits.count = p->rows.count = p->counts.count = p->new_rows.count = p->new_groups.count =
        p->new_ids.count = 0;
    return handoff_push(b->handoff, JOB_PLAN, 1, buf_bytes(&b->frame));
}

static bool bench_open(struct bench *b, struct worker_settings *settings,
                       struct worker_progress *progress) {
    static const uint32_t prompt[] = {5, 7, 11, 13};
    struct error err;
    b->handoff = handoff_new();
    event_count = 0;
    ended = UINT64_MAX; /* loading waits for the device, too */
    *settings = planner_settings(TRIREME_SOURCE_DIR "/demo/model", NULL);
    settings->device = "slow";
    if (compute_start(&b->compute, settings, b->handoff, progress, &err) ||
        !answered(b, ANSWER_LOADED))
        return false;
    executor_describe(compute_executor(b->compute), &b->p.about);
    planner_put(&b->p, 0, prompt, ARRAY_LEN(prompt), 200);
    if (!handoff_push(b->handoff, JOB_RESET, 1, (struct bytes){0}) || !answered(b, ANSWER_RESET))
        return false;
    recorded = ended = 0;
    return true;
}

static void bench_close(struct bench *b) {
    ended = UINT64_MAX;
    compute_end(&b->compute);
    handoff_free(&b->handoff);
    buf_release(&b->answer.payload);
    buf_release(&b->frame);
    vec_release(&b->p.admits);
    vec_release(&b->p.rows);
    vec_release(&b->p.counts);
    vec_release(&b->p.new_rows);
    vec_release(&b->p.new_groups);
    vec_release(&b->p.new_ids);
}

/* Step n ends; its result comes; plan n + 2 is made from that, as a scheduler would; and it is on
 * the device while step n + 1 runs on. */
TEST(a_plan_is_on_the_device_before_the_step_ahead_of_it_ends) {
    static struct bench b;
    static struct worker_settings settings;
    static struct worker_progress progress;
    enum { STEPS = 40 };
    EXPECT(bench_open(&b, &settings, &progress));
    EXPECT(put_plan(&b) && put_plan(&b));
    EXPECT(reaches(&recorded, 2));
    for (uint64_t n = 1; n <= STEPS; n++) {
        ended = n;
        EXPECT(answered(&b, ANSWER_RESULT));
        if (n % 3 == 0)
            sleep_ms(5); /* the loop has asked after step n + 1, in vain, when the plan comes */
        EXPECT(put_plan(&b));
        EXPECT(reaches(&recorded, n + 2) && ended == n);
    }
    bench_close(&b);
}

/* A result does not wait for the next plan either. */
TEST(a_result_comes_while_no_plan_does) {
    static struct bench b;
    static struct worker_settings settings;
    static struct worker_progress progress;
    EXPECT(bench_open(&b, &settings, &progress));
    EXPECT(put_plan(&b) && put_plan(&b) && reaches(&recorded, 2));
    ended = 1;
    EXPECT(answered(&b, ANSWER_RESULT));
    ended = 2;
    EXPECT(answered(&b, ANSWER_RESULT));
    bench_close(&b);
}

/* A new registration begins while a step is on the device: its result comes first, and counts for the
 * old one; plans of that one that come late are dropped. */
TEST(a_reset_waits_for_the_step_on_the_device) {
    static struct bench b;
    static struct worker_settings settings;
    static struct worker_progress progress;
    EXPECT(bench_open(&b, &settings, &progress));
    EXPECT(put_plan(&b) && reaches(&recorded, 1)); /* with two it would wait without a reset */
    EXPECT(handoff_push(b.handoff, JOB_RESET, 2, (struct bytes){0}));
    sleep_ms(5);
    ended = 1;
    EXPECT(answered(&b, ANSWER_RESULT) && b.answer.registration == 1);
    EXPECT(answered(&b, ANSWER_RESET) && b.answer.registration == 2);
    EXPECT(put_plan(&b)); /* of registration 1 */
    EXPECT(handoff_push(b.handoff, JOB_RESET, 3, (struct bytes){0}));
    EXPECT(answered(&b, ANSWER_RESET) && b.answer.registration == 3);
    EXPECT_EQ(recorded, 1);
    bench_close(&b);
}
