#include "base/clock.h"
#include "base/pool.h"
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_PARTS = 5000 };
struct job {
    _Atomic int runs[MAX_PARTS];
    float sums[MAX_PARTS];
    _Atomic int bad_thread;
    int thread_count;
    uint32_t salt;
};

static void add_up(void *ctx, size_t part_idx, int thread_idx) {
    struct job *job = ctx;
    float sum = 0;
    uint32_t x = (uint32_t)part_idx * 2654435761u + job->salt;
    for (int i = 0; i < 50; i++) {
        x = x * 1664525u + 1013904223u;
        sum += (float)x / 65536.0f;
    }
    job->sums[part_idx] = sum;
    atomic_fetch_add(&job->runs[part_idx], 1);
    if (thread_idx < 0 || thread_idx >= job->thread_count)
        atomic_store(&job->bad_thread, 1);
}

TEST(pool_runs_each_part_once_and_results_do_not_depend_on_threads) {
    static struct job alone, several;
    for (int thread_count = 2; thread_count <= 6; thread_count++) {
        struct thread_pool *pool = thread_pool_new(thread_count, thread_count % 2 ? 0 : 20);
        EXPECT_EQ(thread_pool_size(pool), thread_count);
        struct thread_pool *one = thread_pool_new(1, 0);
        for (int round = 0; round < 300; round++) {
            size_t parts =
                round < 10 ? (size_t)round : check_random() % (round % 10 ? 40 : MAX_PARTS);
            memset(&alone, 0, sizeof alone);
            memset(&several, 0, sizeof several);
            alone.thread_count = 1;
            several.thread_count = thread_count;
            alone.salt = several.salt = (uint32_t)check_random();
            thread_pool_run(one, parts, add_up, &alone);
            thread_pool_run(pool, parts, add_up, &several);
            for (size_t i = 0; i < MAX_PARTS; i++)
                EXPECT_EQ(several.runs[i], i < parts);
            EXPECT(!memcmp(alone.sums, several.sums, sizeof alone.sums));
            EXPECT(!several.bad_thread && !alone.bad_thread);
        }
        thread_pool_free(&one);
        thread_pool_free(&pool);
        EXPECT(!pool);
    }
}

static void count(void *ctx, size_t part_idx, int thread_idx) {
    atomic_fetch_add((_Atomic int64_t *)ctx, (int64_t)part_idx + 1);
}

/* Rounds follow each other at once, so helpers still leaving the last round meet the next one. */
TEST(pool_many_short_rounds) {
    struct thread_pool *pool = thread_pool_new(4, 5);
    for (int round = 0; round < 30000; round++) {
        _Atomic int64_t sum = 0;
        int64_t parts = 2 + round % 7;
        thread_pool_run(pool, (size_t)parts, count, &sum);
        EXPECT_EQ(sum, parts * (parts + 1) / 2);
    }
    thread_pool_free(&pool);
}

enum { TOGETHER = 4, TOGETHER_MS = 20000 };

/* Ends when all units of its round have begun, or nobody comes. */
static void wait_for_the_others(void *ctx, size_t part_idx, int thread_idx) {
    _Atomic int *begun = ctx;
    int64_t end = clock_ms() + TOGETHER_MS;
    atomic_fetch_add(begun, 1);
    while (atomic_load(begun) < TOGETHER && clock_ms() < end)
        sched_yield();
}

/* Helpers that sleep are woken, as many as a round has units beside the caller's. */
TEST(pool_wakes_a_helper_for_each_unit) {
    struct thread_pool *pool = thread_pool_new(TOGETHER, 0);
    int64_t began = clock_ms();
    for (int round = 0; round < 5; round++) {
        _Atomic int begun = 0;
        sleep_ms(10); /* all sleep */
        thread_pool_run(pool, TOGETHER, wait_for_the_others, &begun);
    }
    EXPECT(clock_ms() - began < TOGETHER_MS);
    thread_pool_free(&pool);
}

/* A thread that wakes late tells by the number that its round is over. */
TEST(pool_rounds_have_numbers_of_their_own) {
    struct thread_pool *pool = thread_pool_new(3, 0);
    _Atomic int64_t sum = 0;
    for (uint32_t round = 0; round < 5; round++) {
        EXPECT_EQ(thread_pool_round(pool), round);
        thread_pool_run(pool, 7, count, &sum);
    }
    thread_pool_run(pool, 1, count, &sum); /* by the caller alone */
    EXPECT_EQ(thread_pool_round(pool), 5);
    thread_pool_free(&pool);
}

struct meeting {
    _Atomic int present;
    _Atomic int alone;
};
static void meet(void *ctx, size_t part_idx, int thread_idx) {
    struct meeting *m = ctx;
    atomic_fetch_add(&m->present, 1);
    for (int i = 0; i < 5000 && atomic_load(&m->present) < 3; i++)
        sleep_ms(1);
    if (atomic_load(&m->present) < 3)
        atomic_store(&m->alone, 1);
}

TEST(pool_really_runs_parts_at_once) {
    struct thread_pool *pool = thread_pool_new(3, 0);
    struct meeting m = {0};
    thread_pool_run(pool, 3, meet, &m);
    EXPECT_EQ(m.present, 3);
    EXPECT_EQ(m.alone, 0);
    thread_pool_free(&pool);
}

enum { RANGES = 3, RANGE_UNITS = 5, RANGE_WAIT_MS = 20000 };

struct shares {
    _Atomic int begun, done;
    size_t units[RANGES][RANGES * RANGE_UNITS]; /* that a thread ran, in turn */
    size_t count[RANGES];
    int wait_for; /* units that the first unit waits for; 0: each thread's first waits for all threads */
};
static void take_share(void *ctx, size_t unit_idx, int thread_idx) {
    struct shares *s = ctx;
    int64_t end = clock_ms() + RANGE_WAIT_MS;
    s->units[thread_idx][s->count[thread_idx]++] = unit_idx;
    atomic_fetch_add(&s->begun, 1);
    while (!s->wait_for && atomic_load(&s->begun) < RANGES && clock_ms() < end)
        sched_yield();
    while (s->wait_for && unit_idx == 0 && atomic_load(&s->done) < s->wait_for && clock_ms() < end)
        sched_yield();
    atomic_fetch_add(&s->done, 1);
}

/* So that memory is read in one piece by each thread. */
TEST(pool_threads_begin_with_units_of_their_own_in_turn) {
    struct thread_pool *pool = thread_pool_new(RANGES, 0);
    struct shares s = {0};
    thread_pool_run(pool, RANGES * RANGE_UNITS, take_share, &s);
    for (size_t t = 0; t < RANGES; t++) {
        EXPECT(s.count[t] > 0);
        EXPECT_EQ(s.units[t][0], t * RANGE_UNITS);
        for (size_t i = 1; i < s.count[t] && s.units[t][i] / RANGE_UNITS == t; i++)
            EXPECT(s.units[t][i] > s.units[t][i - 1]);
    }
    thread_pool_free(&pool);
}

/* The thread that has unit 0 does nothing else until all other units are done. */
TEST(pool_threads_take_what_a_slow_one_has_left) {
    struct thread_pool *pool = thread_pool_new(RANGES, 0);
    struct shares s = {.wait_for = RANGES * RANGE_UNITS - 1};
    int64_t began = clock_ms();
    thread_pool_run(pool, RANGES * RANGE_UNITS, take_share, &s);
    EXPECT_EQ(s.done, RANGES * RANGE_UNITS);
    EXPECT(clock_ms() - began < RANGE_WAIT_MS);
    thread_pool_free(&pool);
}

static int64_t cpu_us(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 + use.ru_utime.tv_usec +
           use.ru_stime.tv_usec;
}

TEST(pool_idle_uses_no_cpu) {
    struct thread_pool *pool = thread_pool_new(4, 50);
    _Atomic int64_t sum = 0;
    thread_pool_run(pool, 16, count, &sum);
    sleep_ms(20);
    int64_t before = cpu_us();
    sleep_ms(300);
    EXPECT(cpu_us() - before < 15000);
    thread_pool_free(&pool);
}

static void *stand_back(void *nice) {
    thread_give_way();
    *(int *)nice = getpriority(PRIO_PROCESS, (id_t)gettid());
    return NULL;
}

TEST(a_thread_that_gives_way_does_so_alone) {
    int before = getpriority(PRIO_PROCESS, 0), nice = before;
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, stand_back, &nice), 0);
    pthread_join(thread, NULL);
    EXPECT(nice > before || before >= 5); /* whoever runs the tests may have given way already */
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), before);
}

static void *read_guard(void *bytes) {
    pthread_attr_t own;
    if (!pthread_getattr_np(pthread_self(), &own)) {
        pthread_attr_getguardsize(&own, bytes);
        pthread_attr_destroy(&own);
    }
    return NULL;
}

TEST(a_thread_that_runs_kernels_has_a_guard_larger_than_their_frames) {
    size_t bytes = 0;
    pthread_t thread;
    EXPECT_EQ(thread_start(&thread, read_guard, &bytes), 0);
    pthread_join(thread, NULL);
    EXPECT(bytes >= (size_t)1 << 20); /* -Wframe-larger-than of kernels/folder.cmake */
}
