#include "worker/compute.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/pool.h"
#include "proto/codec.h"
#include "worker/hooks.h"
#include "worker/worker_metrics.h"

enum {
    PLAN_ARENA_BYTES = 256 << 20,
    PLAN_ARENA_CALLS = 1 << 20,
    POLL_US = 20,
    /* For so long after loading nothing is packed before the first step: what its request goes through
     * on its way may need the processors. */
    PACK_AFTER_MS = 500
};

struct compute {
    const struct worker_settings *settings;
    struct handoff *handoff;
    struct worker_progress *progress;
    struct executor *executor;
    pthread_t thread;
    struct arena arena;
    struct job job;
    struct answer answer;
    uint32_t in_flight, in_flight_max;
    uint32_t registration;
    bool lost;    /* this registration is over: plans are dropped until JOB_RESET */
    bool fetches; /* pages of weights may be mapped, and no step has come that does so */
    bool packs;   /* weights may lie as in their file still */
    int64_t packs_at_ms;
};

static void answer_bytes(struct compute *c, enum answer_kind kind, struct bytes payload) {
    c->answer.kind = kind;
    c->answer.registration = c->registration;
    buf_reset(&c->answer.payload);
    buf_add_bytes(&c->answer.payload, payload);
    handoff_answer(c->handoff, &c->answer);
}

static void answer_held(struct compute *c) {
    struct u32s blocks;
    struct u128s hashes;
    executor_held(c->executor, &blocks, &hashes);
    uint32_t count = (uint32_t)blocks.count;
    c->answer.kind = ANSWER_RESET;
    c->answer.registration = c->registration;
    buf_reset(&c->answer.payload);
    buf_add(&c->answer.payload, &count, sizeof count);
    buf_add(&c->answer.payload, blocks.items, count * sizeof *blocks.items);
    buf_add(&c->answer.payload, hashes.items, count * sizeof *hashes.items);
    handoff_answer(c->handoff, &c->answer);
}

static void answer_result(struct compute *c, const struct wire_step_result *result) {
    c->answer.kind = ANSWER_RESULT;
    c->answer.registration = c->registration;
    buf_reset(&c->answer.payload);
    message_pack_step_result(result, &c->answer.payload);
    handoff_answer(c->handoff, &c->answer);
}

static void device_failed(const struct error *err) {
    log_error("the device failed: %s", err->text);
    abort(); /* a fault: the supervisor sees it as one, and what ran is suspect */
}

/* This registration is over; the control thread is told why. */
static void end_registration(struct compute *c, const struct error *err) {
    atomic_store(&c->progress->plan_number, 0);
    atomic_store(&c->progress->step_start_ms, 0);
    c->in_flight = 0; /* what else is on the device is waited for by executor_reset */
    c->lost = true;
    answer_bytes(c, ANSWER_LOST, bytes_str(err->text));
}

/* Sends what is done; with wait, at least one result. */
static void collect(struct compute *c, bool wait) {
    struct wire_step_result result;
    struct error err = {0};
    while (c->in_flight) {
        int rc = executor_collect(c->executor, wait, &result, &err);
        if (rc == ERR_CLOSED || rc == ERR_TIMEOUT) {
            end_registration(c, &err);
            return;
        }
        if (rc < 0)
            device_failed(&err);
        if (rc == 0)
            return;
        int64_t spent_ms = clock_ms() - atomic_load(&c->progress->step_start_ms);
        if (spent_ms < c->settings->min_step_ms) {
            sleep_ms(c->settings->min_step_ms - spent_ms);
            result.compute_us = MAX(result.compute_us, (uint64_t)c->settings->min_step_ms * 1000);
        }
        c->in_flight--;
        progress_tick(c->progress);
        atomic_store(&c->progress->plan_number, 0);
        atomic_store(&c->progress->step_start_ms, c->in_flight ? clock_ms() : 0);
        metric_add(&worker_metrics[WORKER_METRIC_STEPS], 1);
        metric_observe(&worker_metrics[WORKER_METRIC_STEP_SECONDS],
                       (double)result.compute_us * 1e-6);
        if (executor_answers(c->executor))
            answer_result(c, &result);
        wait = false;
    }
}

static uint32_t plan_tokens(const struct wire_plan *plan) {
    uint64_t sum = plan->draft_tokens.count;
    for (size_t i = 0; i < plan->row_token_counts.count; i++)
        sum += plan->row_token_counts.items[i];
    return (uint32_t)MIN(sum, (uint64_t)UINT32_MAX);
}

static void run_plan(struct compute *c) {
    struct wire_plan plan;
    struct error err = {0};
    arena_reset(&c->arena);
    int rc = message_unpack_plan(buf_bytes(&c->job.payload), &c->arena, &plan, &err);
    if (!rc) {
        atomic_store(&c->progress->step_tokens, plan_tokens(&plan));
        atomic_store(&c->progress->step_start_ms, clock_ms());
        atomic_store(&c->progress->plan_number, plan.number);
        if (worker_hooks.plan)
            worker_hooks.plan(&plan);
        rc = executor_enqueue(c->executor, &plan, &err);
    }
    if (rc) {
        /* else nothing more is to be had of the other ranks */
        if (rc == ERR_INVALID)
            collect(c, true);
        if (!c->lost)
            end_registration(c, &err);
        return;
    }
    metric_add(&worker_metrics[WORKER_METRIC_STEP_TOKENS], atomic_load(&c->progress->step_tokens));
    c->in_flight++;
    collect(c, c->in_flight >= c->in_flight_max);
}

static void reset(struct compute *c) {
    while (c->in_flight)
        collect(c, true);
    executor_reset(c->executor);
    c->registration = c->job.registration;
    c->lost = false;
    answer_held(c);
}

/* A wait for another rank is over when the control thread wants another registration than the one
 * it is for. */
static bool is_void(void *ctx) {
    const struct compute *c = ctx;
    return handoff_current(c->handoff) != c->registration;
}

static bool load(struct compute *c) {
    struct error err = {0};
    int64_t start_ms = clock_ms();
    int rc = executor_new(&c->executor, c->settings, c->progress, &err);
    if (!rc && worker_hooks.loaded)
        worker_hooks.loaded(clock_ms() - start_ms);
    if (rc) {
        answer_bytes(c, ANSWER_FAILED, bytes_of(&err, sizeof err));
        return false;
    }
    struct wire_hello about = {0};
    executor_describe(c->executor, &about);
    c->in_flight_max = MAX(about.steps_in_flight, 1u);
    executor_watch(c->executor, is_void, c);
    c->fetches = c->packs = true;
    c->packs_at_ms = clock_ms() + PACK_AFTER_MS;
    log_info("loaded in %lld ms", (long long)(clock_ms() - start_ms));
    answer_bytes(c, ANSWER_LOADED, (struct bytes){0});
    return true;
}

/* ---- weights that lie as in their file ---- */

/* Packs for so long, one matrix at least. Whoever watches sees a step: plans may be waiting. */
static void pack(struct compute *c, int64_t ms) {
    int64_t end_ms = clock_ms() + ms;
    do {
        atomic_store(&c->progress->step_tokens, 0);
        atomic_store(&c->progress->step_start_ms, clock_ms());
        c->packs = executor_pack(c->executor);
        atomic_store(&c->progress->step_start_ms, 0);
        progress_tick(c->progress);
    } while (c->packs && clock_ms() < end_ms);
}

/* A first start serves with weights as they are, at the cost of longer steps. Packing them has as much
 * time as the steps, and all that nobody else wants. */
static void run_and_pack(struct compute *c) {
    int64_t start_ms = clock_ms();
    c->fetches = false;
    run_plan(c);
    c->packs_at_ms = 0;
    if (!c->in_flight)
        pack(c, clock_ms() - start_ms);
}

/* How long to wait for a job, in us. */
static int64_t patience(const struct compute *c) {
    if (c->in_flight)
        return POLL_US;
    if (c->fetches)
        return 0;
    return c->packs ? MAX(c->packs_at_ms - clock_ms(), 0) * 1000 : HANDOFF_FOREVER;
}

/* With fewer steps on the device than it may have, two things are waited for: the next plan, which
 * must be on the device before the step there ends, and the end of that step. A plan wakes this
 * thread; after the step it asks every POLL_US. With all steps on the device no plan can come, and
 * run_plan waits for the oldest step alone. */
static void *compute_main(void *arg) {
    struct compute *c = arg;
    if (!load(c))
        return NULL;
    for (;;) {
        if (!handoff_pop(c->handoff, patience(c), &c->job)) {
            collect(c, false);
            if (c->fetches)
                c->fetches = executor_fetch(c->executor);
            else if (c->packs && !c->in_flight)
                pack(c, 0);
            continue;
        }
        if (c->job.kind == JOB_END)
            return NULL;
        if (c->job.kind == JOB_RESET)
            reset(c);
        if (c->job.kind != JOB_PLAN || c->lost || c->job.registration != c->registration)
            continue;
        if (c->packs)
            run_and_pack(c);
        else
            run_plan(c);
    }
}

int compute_start(struct compute **out, const struct worker_settings *settings,
                  struct handoff *handoff, struct worker_progress *progress, struct error *err) {
    struct compute *c = mem_alloc(sizeof *c);
    c->settings = settings;
    c->handoff = handoff;
    c->progress = progress;
    arena_init(&c->arena, PLAN_ARENA_BYTES, PLAN_ARENA_CALLS);
    buf_init(&c->job.payload, 0);
    buf_init(&c->answer.payload, 0);
    if (thread_start(&c->thread, compute_main, c)) {
        arena_release(&c->arena);
        mem_free(c);
        return error_set(err, ERR_IO, "cannot start the compute thread");
    }
    *out = c;
    return 0;
}

const struct executor *compute_executor(const struct compute *c) {
    return c->executor;
}

void compute_end(struct compute **out) {
    struct compute *c = *out;
    if (!c)
        return;
    while (!handoff_push(c->handoff, JOB_END, 0, (struct bytes){0})) {
        struct answer dropped = {0};
        while (handoff_result(c->handoff, &dropped)) {}
        buf_release(&dropped.payload);
        sleep_ms(1);
    }
    pthread_join(c->thread, NULL);
    executor_free(&c->executor);
    arena_release(&c->arena);
    buf_release(&c->job.payload);
    buf_release(&c->answer.payload);
    mem_free(c);
    *out = NULL;
}
