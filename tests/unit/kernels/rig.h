/*
 * rig.h - devices of every instruction set, random arrays with guard values around them, and
 * comparison with a derived tolerance.
 */
#ifndef TESTS_UNIT_KERNELS_RIG_H
#define TESTS_UNIT_KERNELS_RIG_H

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "kernels/ops.h"

#define UNIT_ROUNDOFF 0x1p-24

struct bench {
    struct device *dev;
    struct stream *stream;
};

/* A device stays open until the program ends, for the next test that asks for the same: opening
 * one starts threads, which takes longer than most of what is tested. */
static struct {
    const char *isa, *compute;
    int threads;
    struct device *dev;
} bench_devices[32];
/* The compute type of devices opened from now on; a literal, NULL: f32. */
static const char *bench_compute __attribute__((unused));

static inline void bench_close_devices(void) {
    for (size_t i = 0; i < ARRAY_LEN(bench_devices) && bench_devices[i].dev; i++)
        device_close(&bench_devices[i].dev);
}
static inline struct device *bench_device(const char *isa, int threads) {
    size_t i = 0;
    while (bench_devices[i].dev &&
           (strcmp(bench_devices[i].isa ? bench_devices[i].isa : "", isa ? isa : "") ||
            bench_devices[i].compute != bench_compute || bench_devices[i].threads != threads))
        if (++i == ARRAY_LEN(bench_devices))
            abort();
    if (!bench_devices[i].dev) {
        struct error err;
        struct device_options options = {
            .isa = isa, .compute = bench_compute, .thread_count = threads};
        if (device_open(&options, &bench_devices[i].dev, &err))
            abort();
        bench_devices[i].isa = isa;
        bench_devices[i].compute = bench_compute;
        bench_devices[i].threads = threads;
        if (i == 0)
            atexit(bench_close_devices);
    }
    return bench_devices[i].dev;
}
static inline struct bench bench_open(const char *isa, int threads) {
    struct bench b = {.dev = bench_device(isa, threads)};
    b.stream = stream_new(b.dev);
    return b;
}
static inline void bench_close(struct bench *b) {
    stream_free(&b->stream);
}

/* ---- arrays ---- */

enum { GUARD = 32 };
static const uint32_t GUARD_BITS = 0x7fc0dead; /* a NaN nobody computes */

/* count floats, poisoned, with guards on both sides. Free with unguard(). */
static inline float *guarded(size_t count) {
    uint32_t *p = aligned_alloc(64, ((count + 2 * GUARD) * 4 + 63) / 64 * 64);
    for (size_t i = 0; i < count + 2 * GUARD; i++)
        p[i] = GUARD_BITS;
    return (float *)(void *)(p + GUARD);
}
static inline bool guards_intact(const float *x, size_t count) {
    const uint32_t *p = (const uint32_t *)(const void *)x - GUARD;
    for (size_t i = 0; i < GUARD; i++)
        if (p[i] != GUARD_BITS || p[GUARD + count + i] != GUARD_BITS)
            return false;
    return true;
}
static inline void unguard(float *x) {
    if (x)
        free(x - GUARD);
}
/* Normal-ish values (sum of four uniforms), one in 97 an outlier a hundred times as large. */
static inline float random_value(void) {
    uint64_t r = check_random();
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (float)(r >> (16 * i) & 0xffff) / 65536.0f - 0.5f;
    return check_random() % 97 == 0 ? sum * 100 : sum;
}
static inline float *random_array(size_t count) {
    float *x = guarded(count);
    for (size_t i = 0; i < count; i++)
        x[i] = random_value();
    return x;
}
/* The same values in a storage type. */
static inline void *stored(enum storage_type type, const float *x, size_t count) {
    void *p = aligned_alloc(64, (storage_bytes(type, count) + 63 + 64) / 64 * 64);
    for (size_t i = 0; i < count; i++)
        storage_put(type, p, i, x[i]);
    return p;
}
static inline bool same_bits(const float *a, const float *b, size_t count) {
    return !memcmp(a, b, count * sizeof *a);
}

static const enum storage_type TYPES[] = {STORAGE_F32, STORAGE_F16, STORAGE_BF16};

/* Runs body for each instruction set of this machine. */
#define FOR_EACH_ISA(name)                                                                         \
    const char *isas_[CPU_ISAS_MAX], *name;                                                        \
    size_t isa_count_ = device_cpu_isas(isas_);                                                    \
    for (size_t isa_idx_ = 0; isa_idx_ < isa_count_ && (name = isas_[isa_idx_]); isa_idx_++)

#endif
