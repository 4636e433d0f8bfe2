/*
 * rig.h - the emulated device beside the scalar definition: arrays in either's memory, results back
 * as floats, the three thread orders.
 *
 * Device arrays are filled with NaN bits, so what a kernel forgets to write shows; on the emulated
 * device they end at a guard page (kernels/emu/README.md), which stops what it writes outside.
 */
#ifndef TESTS_UNIT_EMU_RIG_H
#define TESTS_UNIT_EMU_RIG_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "kernels/ops.h"

enum { ORDERS = 3 }; /* ascending, descending, seeded */
void emu_set_order(int order, uint64_t seed);
void emu_recover(void);
const char *emu_failure(void);
/* Kernels launched so far; 0 where the device does not count them. */
uint64_t emu_launch_count(void);
/* Whether each access of the kernels is watched for races (test_race_*). */
bool emu_is_watched(void);

struct rig {
    struct device *dev, *ref;
    struct stream *stream, *ref_stream;
    struct event *event;
    enum storage_type act;
    void *owned[256];
    int owned_count;
};

/* compute: of the emulated device (device_options); NULL: as usual. */
static inline struct rig rig_open_to(enum storage_type act, const char *compute) {
    struct rig r = {.act = act};
    struct error err;
    struct device_options emulated = {.kind = "cuda", .activation = act, .compute = compute},
                          ref = {.isa = "ref", .thread_count = 1};
    if (device_open(&emulated, &r.dev, &err) || device_open(&ref, &r.ref, &err))
        abort();
    r.stream = stream_new(r.dev);
    r.ref_stream = stream_new(r.ref);
    r.event = event_new(r.dev);
    return r;
}
static inline struct rig rig_open(enum storage_type act) {
    return rig_open_to(act, NULL);
}

static inline bool rig_wait(struct rig *r) {
    event_record(r->event, r->stream);
    if (!event_wait(r->event))
        return true;
    check_fail(__FILE__, __LINE__, "the emulated device failed: %s", emu_failure());
    return false;
}

static inline void rig_close(struct rig *r) {
    rig_wait(r);
    for (int i = 0; i < r->owned_count; i++)
        device_free(r->dev, r->owned[i]);
    event_free(&r->event);
    stream_free(&r->stream);
    stream_free(&r->ref_stream);
    device_close(&r->dev);
    device_close(&r->ref);
}

/* Device memory that rig_close frees, filled with NaN bits. */
static inline void *rig_alloc(struct rig *r, size_t size) {
    void *p = device_alloc(r->dev, size);
    if (!p || r->owned_count == 256)
        abort();
    stream_fill(r->stream, p, 0xff, size);
    return r->owned[r->owned_count++] = p;
}
static inline void *rig_up(struct rig *r, const void *host, size_t size) {
    void *p = rig_alloc(r, size);
    stream_copy_in(r->stream, p, host, size);
    return p;
}
/* Values as a storage type; *x is rounded to it. */
static inline void *rig_values(struct rig *r, enum storage_type type, float *x, size_t count) {
    void *host = malloc(storage_bytes(type, count) + 1);
    for (size_t i = 0; i < count; i++) {
        storage_put(type, host, i, x[i]);
        x[i] = storage_get(type, host, i);
    }
    void *p = rig_up(r, host, storage_bytes(type, count));
    free(host);
    return p;
}
/* Waits, then device values as floats. Owned by the caller. */
static inline float *rig_down(struct rig *r, enum storage_type type, const void *from,
                              size_t count) {
    void *host = malloc(storage_bytes(type, count) + 1);
    float *x = calloc(count + 1, sizeof *x);
    stream_copy_out(r->stream, host, from, storage_bytes(type, count));
    if (!rig_wait(r))
        for (size_t i = 0; i < count; i++)
            x[i] = NAN;
    else
        for (size_t i = 0; i < count; i++)
            x[i] = storage_get(type, host, i);
    free(host);
    return x;
}

/* ---- numbers ---- */

#define UNIT_ROUNDOFF 0x1p-24
/* Unit roundoff (2^-8: bf16 has 8 bits of precision), and the absolute error of what is too small
 * for a relative one. */
static inline double rounding(enum storage_type type) {
    return type == STORAGE_BF16 ? 0x1p-8 : type == STORAGE_F16 ? 0x1p-11 : UNIT_ROUNDOFF;
}
static inline double rounding_floor(enum storage_type type) {
    return type == STORAGE_F16 ? 0x1p-25 : 1e-38;
}

static inline float random_value(void) {
    return (float)(check_random() % 20001) / 10000.0f - 1.0f;
}
static inline float *random_values(size_t count) {
    float *x = calloc(count + 1, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = check_random() % 101 == 0 ? random_value() * 30 : random_value();
    return x;
}

/* Values that f16 outputs hold. */
static inline float *small_values(size_t count) {
    float *x = random_values(count);
    for (size_t i = 0; i < count; i++)
        x[i] *= 0.01f;
    return x;
}
static inline bool same_bits(const float *a, const float *b, size_t count) {
    return !memcmp(a, b, count * sizeof *a);
}
static inline bool is_long(void) {
    const char *set = getenv("LONG");
    return set && *set == '1';
}

/* Of cases that a test goes through: all, but where kernels are watched for races one of `shares` equal
 * parts, drawn by the seed. To be watched takes some thirty times as long, and a race shows whatever the
 * values are: what differs in values alone need not be watched each time. A program that ends with its
 * first failure has a planted bug, which some one share may not show: it goes through all. */
struct drawn {
    size_t shares, turn;
};
static inline struct drawn drawn_of(size_t shares) {
    const bool some = emu_is_watched() && !getenv("TRIREME_TEST_FIRST");
    return some ? (struct drawn){shares, (size_t)check_random() % shares} : (struct drawn){1, 0};
}
static inline bool is_drawn(struct drawn d, size_t i) {
    return i % d.shares == d.turn;
}

static const enum storage_type TYPES[] = {STORAGE_F32, STORAGE_F16, STORAGE_BF16};

#endif
