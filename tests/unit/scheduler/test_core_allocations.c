/* A step of running sequences allocates nothing: counted at malloc itself, with or without a
 * sanitizer. */
#include "stage.h"

static uint64_t allocation_count;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
static void on_malloc(const volatile void *p, size_t size) {
    allocation_count++;
}
static void on_free(const volatile void *p) {}
static void start_counting(void) {
    __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}
#else
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *malloc(size_t size) {
    allocation_count++;
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
    allocation_count++;
    return __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) {
    allocation_count++;
    return __libc_realloc(old, size);
}
static void start_counting(void) {}
#endif

enum { RUNNING = 48, PROMPT = 37, STEPS = 400 };

/* Answers in place, without memory of its own. */
struct quick {
    struct sched *s;
    uint64_t numbers[2];
    size_t counts[2], first, pending;
    uint32_t slots[2][RUNNING], samples[2][RUNNING], lens[RUNNING];
    uint64_t items;
};

static void quick_plan(void *ctx, struct u128s ranks, const struct wire_plan *plan) {
    struct quick *q = ctx;
    size_t at = (q->first + q->pending++) % 2;
    q->numbers[at] = plan->number;
    q->counts[at] = plan->row_slots.count;
    for (size_t i = 0; i < plan->admit_count; i++)
        q->lens[plan->admits[i].slot] =
            (uint32_t)plan->admits[i].tokens.count - plan->admits[i].computed_count;
    for (size_t i = 0; i < plan->row_slots.count; i++) {
        uint32_t slot = plan->row_slots.items[i], count = plan->row_token_counts.items[i];
        q->slots[at][i] = slot;
        q->samples[at][i] = q->lens[slot] <= count;
        q->lens[slot] = q->lens[slot] <= count ? 1 : q->lens[slot] - count;
    }
}
static void quick_deltas(void *ctx, struct u128 gateway, const struct wire_deltas *deltas) {
    ((struct quick *)ctx)->items += deltas->requests.count;
}
static void quick_reject(void *ctx, struct u128 gateway, const struct wire_reject *reject) {
    CHECK(!reject);
}
static void quick_fence(void *ctx, struct u128 instance, uint32_t pid) {
    CHECK(!pid);
}
static void quick_reregister(void *ctx, struct u128 instance) {
    CHECK(!ctx);
}

static void quick_step(struct quick *q, int64_t now) {
    static const uint32_t zeros[RUNNING], tokens[RUNNING] = {7};
    if (q->pending) {
        size_t at = q->first, samples = 0;
        for (size_t i = 0; i < q->counts[at]; i++)
            samples += q->samples[at][i];
        q->first = (q->first + 1) % 2;
        q->pending--;
        struct wire_step_result result = {.plan_number = q->numbers[at],
                                          .slots = {q->slots[at], q->counts[at]},
                                          .token_counts = {q->samples[at], q->counts[at]},
                                          .finishes = {zeros, q->counts[at]},
                                          .tokens = {tokens, samples},
                                          .compute_us = 100};
        CHECK(sched_step_result(q->s, now, stage_instance(0), &result) == 0);
    }
    sched_run(q->s, now);
}

static void quick_acks(struct quick *q, int64_t now, uint32_t count) {
    for (uint32_t i = 0; i < RUNNING; i++) {
        struct u128 id = stage_id(i);
        uint32_t zero = 0;
        struct wire_ack ack = {{&id, 1}, {&zero, 1}, {&zero, 1}, {&count, 1}};
        sched_ack(q->s, now, (struct u128){1, 1}, &ack);
    }
}

static void generation(struct quick *q, struct stage *world, int64_t now) {
    for (uint32_t i = 0; i < RUNNING; i++) {
        struct wire_submit submit = stage_submit(world, i, PROMPT, 2000, i);
        sched_submit(q->s, now, (struct u128){1, 1}, &submit);
    }
    for (int i = 0; i < 20; i++)
        quick_step(q, now);
}

TEST(step_of_running_sequences_allocates_nothing) {
    static struct stage world;
    struct quick q = {0};
    struct sched_config config;
    struct sched_sink sink = {.ctx = &q,
                              .plan = quick_plan,
                              .deltas = quick_deltas,
                              .reject = quick_reject,
                              .fence = quick_fence,
                              .reregister = quick_reregister};
    sched_config_default(&config);
    q.s = sched_new(&config, &sink);
    struct stage_worker *w = stage_worker(&world, 0);
    w->hello.slot_count = RUNNING;
    w->group.block_count = 4096;
    struct error err;
    EXPECT_EQ(sched_worker_hello(q.s, 0, &w->hello, &err), 0);
    start_counting();
    generation(&q, &world, 1); /* the first one makes the pools grow */
    for (int i = 0; i < STEPS; i++)
        quick_step(&q, 1);
    EXPECT(allocation_count > 0); /* the counter works */
    for (uint32_t i = 0; i < RUNNING; i++) {
        struct wire_cancel cancel = {.request = stage_id(i), .choice = WIRE_ALL_CHOICES};
        sched_cancel(q.s, 1, (struct u128){1, 1}, &cancel);
    }
    while (q.pending)
        quick_step(&q, 1);
    generation(&q, &world, 2);
    uint64_t items = q.items, worst = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        uint64_t before = allocation_count;
        quick_step(&q, 2 + i);
        quick_acks(&q, 2 + i, i + 1);
        worst = worst > allocation_count - before ? worst : allocation_count - before;
    }
    EXPECT_EQ(worst, 0);
    EXPECT_EQ(q.items - items, RUNNING * STEPS);
    EXPECT_EQ(sched_counts(q.s).running, RUNNING);
    sched_free(&q.s);
    for (uint32_t i = 0; i < RUNNING; i++)
        vec_release(&world.requests[i].prompt);
}
