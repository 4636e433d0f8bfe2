/*
 * core_bench.c - what a step costs the scheduler's core: taking its result, committing, planning
 * the next, telling the gateways.
 *
 * One replica, everything decoding, two plans in flight, a worker that answers at once. Times are
 * per step, the best of several rounds' medians is what the code costs, the spread is what the
 * machine does to it. Allocations are counted by wrapping malloc.
 */
#include "scheduler/core/sched.h"

#include "base/vec.h"
#include "scheduler/core/block_pool.h"
#include "scheduler/core/chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static uint64_t allocation_count;
void *__wrap_malloc(size_t size) {
    allocation_count++;
    return __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
    allocation_count++;
    return __real_calloc(count, size);
}
void *__wrap_realloc(void *old, size_t size) {
    allocation_count++;
    return __real_realloc(old, size);
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* ---- A worker that answers at once ---- */

enum { ROWS = 1024, IN_FLIGHT = 2 };
struct answer {
    uint64_t number;
    size_t count, samples;
    uint32_t slots[ROWS], counts[ROWS], finishes[ROWS];
};
struct bench {
    struct sched *s;
    struct answer answers[IN_FLIGHT];
    size_t first, pending;
    uint32_t tokens[ROWS];
    uint32_t remaining[ROWS]; /* of a slot's prompt */
    uint64_t delta_items;
};

static void on_plan(void *ctx, struct u128s ranks, const struct wire_plan *plan) {
    struct bench *b = ctx;
    struct answer *a = &b->answers[(b->first + b->pending++) % IN_FLIGHT];
    for (size_t i = 0; i < plan->admit_count; i++)
        b->remaining[plan->admits[i].slot] =
            (uint32_t)plan->admits[i].tokens.count - plan->admits[i].computed_count;
    a->number = plan->number;
    a->count = plan->row_slots.count;
    a->samples = 0;
    for (size_t i = 0; i < a->count; i++) {
        uint32_t slot = plan->row_slots.items[i], count = plan->row_token_counts.items[i];
        bool samples = b->remaining[slot] <= count;
        b->remaining[slot] = samples ? 0 : b->remaining[slot] - count;
        a->slots[i] = slot;
        a->counts[i] = samples;
        a->samples += samples;
    }
}
static void on_deltas(void *ctx, struct u128 gateway, const struct wire_deltas *deltas) {
    ((struct bench *)ctx)->delta_items += deltas->requests.count;
}
static void on_reject(void *ctx, struct u128 gateway, const struct wire_reject *reject) {
    abort();
}
static void on_fence(void *ctx, struct u128 instance, uint32_t pid) {
    abort();
}
static void on_reregister(void *ctx, struct u128 instance) {
    abort();
}

static const struct u128 WORKER = {1, 1}, GATEWAY = {2, 2};

static void step(struct bench *b, int64_t now) {
    struct answer *a = &b->answers[b->first];
    if (b->pending) {
        b->first = (b->first + 1) % IN_FLIGHT;
        b->pending--;
        struct wire_step_result result = {.plan_number = a->number,
                                          .slots = {a->slots, a->count},
                                          .token_counts = {a->counts, a->count},
                                          .finishes = {a->finishes, a->count},
                                          .tokens = {b->tokens, a->samples},
                                          .compute_us = 1000};
        if (sched_step_result(b->s, now, WORKER, &result))
            abort();
    }
    sched_run(b->s, now);
}

static void acknowledge(struct bench *b, int64_t now, uint32_t count, uint32_t *counts) {
    static struct u128 ids[ROWS];
    static uint32_t zeros[ROWS];
    for (uint32_t i = 0; i < count; i++)
        ids[i] = (struct u128){i + 1, 77};
    struct wire_ack ack = {{ids, count}, {zeros, count}, {zeros, count}, {counts, count}};
    sched_ack(b->s, now, GATEWAY, &ack);
}

static void submit_all(struct bench *b, int64_t now, uint32_t running, uint32_t prompt_count) {
    uint32_t *prompt = calloc(prompt_count, sizeof *prompt);
    for (uint32_t i = 0; i < running; i++) {
        for (uint32_t k = 0; k < prompt_count; k++)
            prompt[k] = (i * 7919 + k * 31) % 32000;
        struct wire_submit submit = {
            .request = {i + 1, 77},
            .kind = WIRE_GENERATE,
            .prompt = {prompt, prompt_count},
            .sampling = {.top_p = 1, .repetition_penalty = 1, .logprobs = -1},
            .max_tokens = 30000};
        sched_submit(b->s, now, GATEWAY, &submit);
    }
    free(prompt);
}

static void cancel_all(struct bench *b, int64_t now, uint32_t running) {
    for (uint32_t i = 0; i < running; i++) {
        struct wire_cancel cancel = {.request = {i + 1, 77}, .choice = WIRE_ALL_CHOICES};
        sched_cancel(b->s, now, GATEWAY, &cancel);
    }
    while (b->pending)
        step(b, now);
}

static struct bench *start(uint32_t running) {
    struct bench *b = calloc(1, sizeof *b);
    struct sched_config config;
    struct sched_sink sink = {.ctx = b,
                              .plan = on_plan,
                              .deltas = on_deltas,
                              .reject = on_reject,
                              .fence = on_fence,
                              .reregister = on_reregister};
    sched_config_default(&config);
    config.waiting_max = 2 * ROWS;
    config.retransmit_ms = 1 << 30;
    b->s = sched_new(&config, &sink);
    struct wire_kv_group group = {
        .kind = WIRE_GROUP_FULL, .block_tokens = 16, .block_count = 1 << 18};
    struct wire_hello hello = {.role = WIRE_ROLE_WORKER,
                               .instance = WORKER,
                               .tp = 1,
                               .pp = 1,
                               .incarnation = 1,
                               .state = WIRE_STATE_IDLE,
                               .model = bytes_str("m"),
                               .slot_count = running,
                               .max_step_tokens = 8192,
                               .max_context = 32768,
                               .logits_width = 32000,
                               .steps_in_flight = IN_FLIGHT,
                               .groups = &group,
                               .group_count = 1};
    struct error err;
    if (sched_worker_hello(b->s, 0, &hello, &err))
        abort();
    return b;
}

static void bench_steps(uint32_t running, double goal_us) {
    enum { WARM = 100, STEPS = 2000, PROMPT = 200 };
    struct bench *b = start(running);
    int64_t now = 1;
    /* a generation before: sizes that are needed again have been seen */
    submit_all(b, now, running, PROMPT);
    for (int i = 0; i < WARM + STEPS; i++)
        step(b, now++);
    cancel_all(b, now, running);
    submit_all(b, now, running, PROMPT);
    static double times[STEPS], ack_times[STEPS];
    static uint32_t counts[ROWS];
    for (int i = 0; i < WARM; i++)
        step(b, now++);
    uint64_t allocations = 0;
    for (int i = 0; i < STEPS; i++) {
        uint64_t before = allocation_count;
        double t = now_us();
        step(b, now);
        times[i] = now_us() - t;
        allocations += allocation_count - before;
        for (uint32_t k = 0; k < running; k++)
            counts[k] = (uint32_t)i;
        t = now_us();
        acknowledge(b, now++, running, counts);
        ack_times[i] = now_us() - t;
    }
    qsort(times, STEPS, sizeof *times, compare);
    qsort(ack_times, STEPS, sizeof *ack_times, compare);
    struct sched_counts c = sched_counts(b->s);
    printf("step of %4u running: p50 %.1f us, p99 %.1f us (goal %.0f us); acks p50 %.1f us; "
           "allocations a step %.3f; "
           "%u running\n",
           running, times[STEPS / 2], times[STEPS * 99 / 100], goal_us, ack_times[STEPS / 2],
           (double)allocations / STEPS, c.running);
    sched_free(&b->s);
    free(b);
}

/* ---- Hashing and looking up a long prompt ---- */

static void bench_prefix(uint32_t block_tokens, double goal_us) {
    enum { TOKENS = 8000, ROUNDS = 400 };
    static uint32_t tokens[TOKENS];
    static double times[ROUNDS];
    struct hash_key key;
    struct block_pool pool;
    struct block_user nobody = {0};
    hash_key_init(&key, "bench", 5);
    block_pool_init(&pool, 1 << 16);
    struct chain_scope scope = {.block_tokens = block_tokens};
    struct u128 root = chain_root(&key, &scope);
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (uint32_t)i * 2654435761u % 32000;
    struct u128 hash = root;
    for (uint32_t i = 0; i < TOKENS / block_tokens; i++) {
        hash = chain_next(&key, hash, tokens + i * block_tokens, block_tokens, CHAIN_CLASS_FREE);
        uint32_t id = block_pool_take(&pool, nobody);
        if (!block_pool_seal(&pool, id, hash))
            abort();
        block_pool_unref(&pool, id, nobody);
    }
    uint64_t found = 0;
    for (int r = 0; r < ROUNDS; r++) {
        double t = now_us();
        hash = root;
        for (uint32_t i = 0; i < TOKENS / block_tokens; i++) {
            hash =
                chain_next(&key, hash, tokens + i * block_tokens, block_tokens, CHAIN_CLASS_FREE);
            found += block_pool_find(&pool, hash) != BLOCK_NONE;
        }
        times[r] = now_us() - t;
    }
    qsort(times, ROUNDS, sizeof *times, compare);
    printf("hash and look up %d tokens in blocks of %2u: p50 %.1f us, p99 %.1f us (goal %.0f us); "
           "%.0f blocks found\n",
           TOKENS, block_tokens, times[ROUNDS / 2], times[ROUNDS * 99 / 100], goal_us,
           (double)found / ROUNDS);
    block_pool_release(&pool);
}

int main(void) {
    bench_steps(1, 5);
    if (getenv("TRIREME_BENCH_QUICK"))
        return 0;
    bench_steps(256, 25);
    bench_steps(1024, 100);
    bench_prefix(16, 30);
    bench_prefix(32, 30);
    bench_prefix(64, 30);
    return 0;
}
