#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

#if defined(__x86_64__)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define WIDEST
#endif

enum { READ_BYTES = 512 << 20, FETCH_AHEAD = 4096 };

struct job {
    pthread_t thread;
    size_t streams;
    const uint64_t *data;
    size_t words;
    uint64_t sink;
    float fsink;
};

WIDEST static uint64_t sum_streams(const uint64_t *p, size_t words, size_t streams) {
    size_t each = words / streams;
    uint64_t total = 0;
    for (size_t i = 0; i < each; i += 8)
        for (size_t s = 0; s < streams; s++) {
            __builtin_prefetch((const char *)(p + s * each + i) + FETCH_AHEAD, 0, 3);
            for (size_t k = 0; k < 8; k++)
                total += p[s * each + i + k];
        }
    return total;
}

static void *read_main(void *arg) {
    struct job *j = arg;
    j->sink = sum_streams(j->data, j->words, j->streams);
    return NULL;
}

enum { FMA_LANES = 16, FMA_CHAINS = 12, FMA_ROUNDS = 1 << 23 };
typedef float lanes __attribute__((vector_size(64)));

#if defined(__x86_64__)
__attribute__((target("avx512f"), optimize("O3"))) static float fma_avx512(void) {
    lanes acc[FMA_CHAINS] = {{0}}, a, b;
    for (int i = 0; i < FMA_LANES; i++)
        a[i] = 0.5f, b[i] = 0.25f;
    __asm__ volatile("" : "+v"(a), "+v"(b));
    for (int r = 0; r < FMA_ROUNDS / FMA_CHAINS; r++) {
#pragma GCC unroll 12
        for (int c = 0; c < FMA_CHAINS; c++)
            __asm__ volatile("vfmadd231ps %1, %2, %0" : "+v"(acc[c]) : "v"(a), "v"(b));
    }
    return acc[0][0];
}
typedef float half_lanes __attribute__((vector_size(32)));
__attribute__((target("avx2,fma"), optimize("O3"))) static float fma_avx2(void) {
    half_lanes acc[FMA_CHAINS] = {{0}}, a, b;
    for (int i = 0; i < 8; i++)
        a[i] = 0.5f, b[i] = 0.25f;
    __asm__ volatile("" : "+x"(a), "+x"(b));
    for (int r = 0; r < FMA_ROUNDS / FMA_CHAINS; r++) {
#pragma GCC unroll 12
        for (int c = 0; c < FMA_CHAINS; c++)
            __asm__ volatile("vfmadd231ps %1, %2, %0" : "+x"(acc[c]) : "x"(a), "x"(b));
    }
    return acc[0][0];
}
#endif

static double fma_flops; /* of one thread's work */

static void *fma_main(void *arg) {
    struct job *j = arg;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        j->fsink = fma_avx512();
    else if (__builtin_cpu_supports("fma"))
        j->fsink = fma_avx2();
#endif
    return NULL;
}

/* As in main.c: with one thread, processor time is fair on a busy machine. */
static int64_t machine_ns(void) {
    struct timespec t;
    clock_gettime(getenv("TRIREME_BENCH_CPU_TIME") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC,
                  &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The best of several rounds, in seconds. */
static double best_of(int threads, void *(*run)(void *), struct job *jobs, int rounds) {
    double best = 1e9;
    for (int r = 0; r < rounds; r++) {
        int64_t start = machine_ns();
        for (int t = 1; t < threads; t++)
            if (pthread_create(&jobs[t].thread, NULL, run, &jobs[t]))
                abort();
        run(&jobs[0]);
        for (int t = 1; t < threads; t++)
            pthread_join(jobs[t].thread, NULL);
        double s = (double)(machine_ns() - start) * 1e-9;
        if (s < best)
            best = s;
    }
    return best;
}

double machine_read_bandwidth(int threads) {
    uint64_t *data = aligned_alloc(4096, READ_BYTES);
    struct job *jobs = calloc((size_t)threads, sizeof *jobs);
    memset(data, 1, READ_BYTES);
    size_t words = READ_BYTES / 8 / (size_t)threads / 64 * 64;
    for (int t = 0; t < threads; t++)
        jobs[t] = (struct job){.data = data + (size_t)t * words, .words = words, .streams = 1};
    double s = 1e9;
    for (size_t streams = 1; streams <= 8; streams *= 2) {
        for (int t = 0; t < threads; t++)
            jobs[t].streams = streams;
        s = MIN(s, best_of(threads, read_main, jobs, 2));
    }
    free(data);
    free(jobs);
    return (double)words * 8 * threads / s;
}

double machine_fma_rate(int threads) {
    struct job *jobs = calloc((size_t)threads, sizeof *jobs);
    int lanes_used = 0;
#if defined(__x86_64__)
    lanes_used = __builtin_cpu_supports("avx512f") ? 16 : __builtin_cpu_supports("fma") ? 8 : 0;
#endif
    fma_flops = 2.0 * lanes_used * (FMA_ROUNDS / FMA_CHAINS * FMA_CHAINS);
    double s = best_of(threads, fma_main, jobs, 5);
    free(jobs);
    return fma_flops * threads / s;
}
