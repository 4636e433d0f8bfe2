/*
 * gpu_bench.h - parts of bench_gpu: the device with its ceilings, timing, and figures as lines of
 * JSON.
 *
 * Timing: the work is recorded as a graph of several repetitions (launched one by one where a
 * device has no graphs), so that the host's launches do not count; the best of some rounds, by the
 * host's clock around an event.
 *
 * Threading: one thread.
 */
#ifndef BENCH_GPU_GPU_BENCH_H
#define BENCH_GPU_GPU_BENCH_H

#include "kernels/ops.h"

enum { OWNED_MAX = 64 };

struct bench {
    struct device *dev;
    struct stream *stream;
    struct event *event;
    const char *step, *commit; /* of the figures */
    bool tiny;                 /* an emulated device: everything small, figures mean nothing */
    double memory, matrix;     /* ceilings: bytes and operations a second */
    void *owned[OWNED_MAX];
    int owned_count;
};

/* Opens the device of kind "cuda" and measures its ceilings (`verbose`: and says them). */
MUST_CHECK int bench_open(struct bench *b, const char *step, bool verbose, struct error *err);
void bench_close(struct bench *b);

/* Device memory until bench_drop; NULL: there is none left. */
MUST_CHECK void *bench_alloc(struct bench *b, size_t size);
void bench_drop(struct bench *b);

/* Puts repetition `i` of the work on the stream. */
typedef void (*bench_put_fn)(struct bench *b, void *ctx, uint32_t i);
/* Seconds of one repetition; negative: the device failed. */
double bench_time(struct bench *b, bench_put_fn put, void *ctx, uint32_t repeats);
/* 0, or ends the program with the device's failure. */
void bench_wait(struct bench *b);

/* One figure: a line of JSON on standard output. bytes, flops: what must be read and done at least;
 * 0: none of it. */
void bench_figure(struct bench *b, const char *name, double seconds, double bytes, double flops);
/* A figure in units of its own. */
void bench_value(struct bench *b, const char *name, double value, const char *unit);
/* Something that could not be measured, and why. */
void bench_skip(struct bench *b, const char *name, const char *why);

/* ceilings.cu. Returns the operations done. */
void ceiling_read(struct stream *s, const void *from, size_t size, void *out);
double ceiling_matrix(struct stream *s, uint32_t rounds, void *out);

/* The steps. A model's is "MODEL:BATCH:CONTEXT,..." or "MODEL:prefill". */
int bench_kernels(struct bench *b);
int bench_model(struct bench *b, const char *shape, const char *folder, const char *what);

#endif
