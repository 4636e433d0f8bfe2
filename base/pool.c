/*
 * Each thread has a range of a round's units, that of units side by side, and takes them in turn: what
 * they read lies in one piece for the machine that reads ahead. Whoever is done with its own takes from
 * the others'.
 *
 * One 64-bit ticket says everything of a range: the round in its upper half, the next unit in its lower
 * half. A thread claims a unit by moving the ticket on with a compare-and-swap, so a thread that wakes
 * late, in a round already over, fails to claim and goes back to sleep: the caller waits for units,
 * never for threads. While the round's fields are being written all unit numbers are UNIT_CLOSED.
 */
#include "base/pool.h"

#include "base/clock.h"
#include "base/spin.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNIT_CLOSED 0xffffffffu

typedef void (*unit_fn)(void *ctx, size_t unit_idx, int thread_idx);

struct helper {
    struct thread_pool *pool;
    pthread_t thread;
    int idx;
};

struct range {
    _Alignas(64) _Atomic uint64_t ticket;
    _Atomic uint32_t end;
};

struct thread_pool {
    int thread_count, spin_us;
    struct helper *helpers; /* owned, thread_count - 1 */
    struct range *ranges;   /* owned, thread_count */
    _Atomic(unit_fn) run;
    _Atomic(void *) ctx;
    _Atomic uint32_t unit_count;
    _Alignas(64) _Atomic uint32_t done_count;
    _Atomic uint32_t caller_sleeps;
    _Alignas(64) _Atomic uint32_t wake_seq;
    _Atomic uint32_t sleeper_count;
    _Atomic bool closing;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* True as soon as *word is no longer `seen`, false when the time to spin is over. */
static bool spin_while(_Atomic uint32_t *word, uint32_t seen, int spin_us) {
    if (spin_us <= 0)
        return atomic_load(word) != seen;
    int64_t until = clock_ns() + (int64_t)spin_us * 1000;
    do {
        for (int i = 0; i < 64; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != seen)
                return true;
            spin_relax();
        }
    } while (clock_ns() < until);
    return false;
}

/* Runs units of a range of the open round until none is left to claim. How many. */
static uint32_t run_range(struct thread_pool *pool, struct range *range, int thread_idx) {
    for (uint32_t count = 0;;) {
        uint64_t ticket = atomic_load_explicit(&range->ticket, memory_order_acquire);
        uint32_t unit = (uint32_t)ticket;
        if (unit == UNIT_CLOSED || unit >= atomic_load_explicit(&range->end, memory_order_acquire))
            return count;
        unit_fn run = atomic_load_explicit(&pool->run, memory_order_acquire);
        void *ctx = atomic_load_explicit(&pool->ctx, memory_order_acquire);
        if (!atomic_compare_exchange_weak(&range->ticket, &ticket, ticket + 1))
            continue;
        run(ctx, unit, thread_idx);
        count++;
    }
}

/* Runs what is left of the open round, the thread's own range first. */
static void run_units(struct thread_pool *pool, int thread_idx) {
    uint32_t count = 0;
    for (int i = 0, at = thread_idx; i < pool->thread_count; i++) {
        count += run_range(pool, &pool->ranges[at], thread_idx);
        at = at + 1 < pool->thread_count ? at + 1 : 0;
    }
    if (!count) /* the round may be over, and with it what is written here */
        return;
    /* What this thread has run is not told yet, so the round is still open. */
    uint32_t unit_count = atomic_load(&pool->unit_count);
    if (atomic_fetch_add(&pool->done_count, count) + count == unit_count &&
        atomic_load(&pool->caller_sleeps))
        futex_wake(&pool->done_count, 1);
}

static void *help(void *arg) {
    struct helper *self = arg;
    struct thread_pool *pool = self->pool;
    while (!atomic_load(&pool->closing)) {
        uint32_t seen = atomic_load(&pool->wake_seq);
        run_units(pool, self->idx);
        if (spin_while(&pool->wake_seq, seen, pool->spin_us))
            continue;
        atomic_fetch_add(&pool->sleeper_count, 1);
        if (!atomic_load(&pool->closing))
            futex_wait(&pool->wake_seq, seen);
        atomic_fetch_sub(&pool->sleeper_count, 1);
    }
    return NULL;
}

int thread_start(pthread_t *out, void *(*run)(void *), void *arg) {
    enum { GUARD_BYTES = 2 << 20 };
    pthread_attr_t attributes;
    CHECK(!pthread_attr_init(&attributes) && !pthread_attr_setguardsize(&attributes, GUARD_BYTES));
    int rc = pthread_create(out, &attributes, run, arg);
    pthread_attr_destroy(&attributes);
    return rc;
}

/* Signals are the main thread's, except those that a fault raises where it happens. */
static void start_helpers(struct thread_pool *pool) {
    static const int FAULTS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t blocked, old;
    sigfillset(&blocked);
    for (size_t i = 0; i < ARRAY_LEN(FAULTS); i++)
        sigdelset(&blocked, FAULTS[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &old);
    for (int i = 0; i < pool->thread_count - 1; i++) {
        struct helper *h = &pool->helpers[i];
        *h = (struct helper){.pool = pool, .idx = i + 1};
        int rc = thread_start(&h->thread, help, h);
        CHECK_MSG(rc == 0, "cannot start thread %d of a pool: %s", i + 1, strerror(rc));
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

struct thread_pool *thread_pool_new(int thread_count, int spin_us) {
    CHECK(thread_count >= 1);
    struct thread_pool *pool = aligned_alloc(64, (sizeof *pool + 63) & ~(size_t)63);
    CHECK(pool);
    memset(pool, 0, sizeof *pool);
    pool->thread_count = thread_count;
    pool->spin_us = spin_us;
    pool->ranges = aligned_alloc(64, (size_t)thread_count * sizeof *pool->ranges);
    CHECK(pool->ranges);
    for (int i = 0; i < thread_count; i++)
        pool->ranges[i] = (struct range){.ticket = UNIT_CLOSED};
    pool->helpers = mem_calloc((size_t)thread_count, sizeof *pool->helpers);
    start_helpers(pool);
    return pool;
}

void thread_pool_free(struct thread_pool **pool) {
    struct thread_pool *p = *pool;
    if (!p)
        return;
    atomic_store(&p->closing, true);
    atomic_fetch_add(&p->wake_seq, 1);
    futex_wake(&p->wake_seq, INT32_MAX);
    for (int i = 0; i < p->thread_count - 1; i++)
        pthread_join(p->helpers[i].thread, NULL);
    mem_free(p->helpers);
    mem_free(p->ranges);
    mem_free(p);
    *pool = NULL;
}

int thread_pool_size(const struct thread_pool *pool) {
    return pool->thread_count;
}

uint32_t thread_pool_round(const struct thread_pool *pool) {
    return (uint32_t)(atomic_load(&pool->ranges[0].ticket) >> 32);
}

/* Whoever sees a field of the new round sees the old tickets closed, whoever sees a ticket of it all of its
 * fields. Nothing waits for a store: a range lies in the cache of its thread. */
static void open_round(struct thread_pool *pool, uint32_t unit_count, unit_fn run, void *ctx) {
    uint64_t round = (uint64_t)thread_pool_round(pool) + 1, threads = (uint64_t)pool->thread_count;
    for (uint64_t i = 0; i < threads; i++)
        atomic_store_explicit(&pool->ranges[i].ticket, round << 32 | UNIT_CLOSED,
                              memory_order_relaxed);
    atomic_store_explicit(&pool->run, run, memory_order_release);
    atomic_store_explicit(&pool->ctx, ctx, memory_order_release);
    atomic_store_explicit(&pool->unit_count, unit_count, memory_order_release);
    atomic_store_explicit(&pool->done_count, 0, memory_order_release);
    for (uint64_t i = 0; i < threads; i++) {
        struct range *range = &pool->ranges[i];
        atomic_store_explicit(&range->end, (uint32_t)(unit_count * (i + 1) / threads),
                              memory_order_release);
        atomic_store_explicit(&range->ticket, round << 32 | unit_count * i / threads,
                              memory_order_release);
    }
    atomic_fetch_add(&pool->wake_seq, 1);
    if (atomic_load(&pool->sleeper_count))
        futex_wake(&pool->wake_seq, (int)MIN(unit_count - 1, (uint32_t)INT32_MAX));
}

static void wait_done(struct thread_pool *pool, uint32_t unit_count) {
    for (uint32_t done; (done = atomic_load(&pool->done_count)) != unit_count;) {
        if (spin_while(&pool->done_count, done, pool->spin_us))
            continue;
        atomic_store(&pool->caller_sleeps, 1);
        done = atomic_load(&pool->done_count);
        if (done != unit_count)
            futex_wait(&pool->done_count, done);
        atomic_store(&pool->caller_sleeps, 0);
    }
}

void thread_pool_run(struct thread_pool *pool, size_t unit_count, unit_fn run, void *ctx) {
    CHECK(unit_count < UNIT_CLOSED);
    if (pool->thread_count == 1 || unit_count <= 1) {
        for (size_t i = 0; i < unit_count; i++)
            run(ctx, i, 0);
        return;
    }
    open_round(pool, (uint32_t)unit_count, run, ctx);
    run_units(pool, 0);
    wait_done(pool, (uint32_t)unit_count);
}

enum { GIVE_WAY_NICE = 5 };

void thread_give_way(void) {
    /* of this thread alone, on Linux */
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), GIVE_WAY_NICE);
}
