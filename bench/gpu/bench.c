#include "gpu_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

/* ---- figures ---- */

static void begin_line(const struct bench *b, const char *name) {
    char when[32];
    time_t now = time(NULL);
    struct tm utc;
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    printf("{\"kind\":\"figure\",\"step\":\"%s\",\"device\":\"%s\",\"commit\":\"%s\",\"time\":\"%"
           "s\",\"name\":\"%s\"",
           b->step, b->dev->name, b->commit, when, name);
}
static void end_line(void) {
    printf("}\n");
    fflush(stdout);
}

void bench_figure(struct bench *b, const char *name, double seconds, double bytes, double flops) {
    double by_memory = bytes / b->memory, by_matrix = flops / b->matrix;
    double floor = by_memory > by_matrix ? by_memory : by_matrix;
    begin_line(b, name);
    printf(",\"us\":%.2f,\"gbps\":%.1f,\"tflops\":%.2f,\"percent\":%.1f,\"of\":\"%s\"",
           seconds * 1e6, bytes / seconds * 1e-9, flops / seconds * 1e-12, 100 * floor / seconds,
           by_memory > by_matrix ? "memory" : "matrix");
    end_line();
}

void bench_value(struct bench *b, const char *name, double value, const char *unit) {
    begin_line(b, name);
    printf(",\"value\":%.6g,\"unit\":\"%s\"", value, unit);
    end_line();
}

void bench_skip(struct bench *b, const char *name, const char *why) {
    begin_line(b, name);
    printf(",\"skipped\":\"%s\"", why);
    end_line();
}

/* ---- memory and time ---- */

void *bench_alloc(struct bench *b, size_t size) {
    if (b->owned_count == OWNED_MAX)
        return NULL;
    void *p = device_alloc(b->dev, size);
    if (p)
        b->owned[b->owned_count++] = p;
    return p;
}

void bench_drop(struct bench *b) {
    while (b->owned_count)
        device_free(b->dev, b->owned[--b->owned_count]);
}

void bench_wait(struct bench *b) {
    event_record(b->event, b->stream);
    if (!event_wait(b->event))
        return;
    fprintf(stderr, "bench_gpu: the device failed in step %s\n", b->step);
    exit(1);
}

double bench_time(struct bench *b, bench_put_fn put, void *ctx, uint32_t repeats) {
    struct graph *graph = NULL;
    if (b->tiny)
        repeats = 1;
    if (graph_begin(b->stream)) {
        for (uint32_t i = 0; i < repeats; i++)
            put(b, ctx, i);
        graph = graph_end(b->stream);
    }
    double best = 1e9;
    int rounds = b->tiny ? 1 : 6; /* the first warms up */
    for (int r = 0; r < rounds; r++) {
        int64_t start = clock_ns();
        if (graph)
            graph_launch(b->stream, graph);
        else
            for (uint32_t i = 0; i < repeats; i++)
                put(b, ctx, i);
        bench_wait(b);
        double t = (double)(clock_ns() - start) * 1e-9 / repeats;
        if (t < best)
            best = t;
    }
    graph_free(&graph);
    return best;
}

/* ---- ceilings ---- */

struct area {
    char *at, *to;
    size_t size;
};

static void put_read(struct bench *b, void *ctx, uint32_t i) {
    const struct area *a = ctx;
    ceiling_read(b->stream, a->at, a->size, a->to);
}
static void put_copy(struct bench *b, void *ctx, uint32_t i) {
    static const uint32_t from = 0, to = 1;
    const struct area *a = ctx;
    b->dev->ops->kv_copy(b->stream, &(struct op_kv_copy){.base = a->at,
                                                         .block_stride = a->size / 2,
                                                         .sources = &from,
                                                         .targets = &to,
                                                         .count = 1});
}
static void put_matrix(struct bench *b, void *ctx, uint32_t i) {
    const struct area *a = ctx;
    (void)ceiling_matrix(b->stream, b->tiny ? 1 : 4096, a->to);
}

static int measure_ceilings(struct bench *b, bool verbose, struct error *err) {
    struct area a = {.size = b->tiny ? 1 << 16 : (size_t)2 << 30};
    a.at = bench_alloc(b, a.size);
    a.to = bench_alloc(b, 4096);
    if (!a.at || !a.to)
        return error_set(err, ERR_MEMORY, "no memory on the device for measuring its bandwidth");
    stream_fill(b->stream, a.at, 0x3c, a.size);
    double read = (double)a.size / bench_time(b, put_read, &a, 4);
    /* half is read, half is written */
    double copy = (double)a.size / bench_time(b, put_copy, &a, 4);
    double operations = ceiling_matrix(b->stream, b->tiny ? 1 : 4096, a.to);
    b->matrix = operations / bench_time(b, put_matrix, &a, 2);
    b->memory = read > copy ? read : copy;
    if (verbose) {
        bench_value(b, "memory: reading", read * 1e-9, "GB/s");
        bench_value(b, "memory: copying, both ways counted", copy * 1e-9, "GB/s");
        bench_value(b, "matrix: mma.sync bf16", b->matrix * 1e-12, "TFLOP/s");
    }
    bench_drop(b);
    return 0;
}

/* ---- life ---- */

int bench_open(struct bench *b, const char *step, bool verbose, struct error *err) {
    const char *commit = getenv("TRIREME_COMMIT");
    struct device_options options = {.kind = "cuda", .activation = STORAGE_BF16};
    *b = (struct bench){.step = step, .commit = commit ? commit : "unknown"};
    int rc = device_open(&options, &b->dev, err);
    if (rc)
        return rc;
    b->tiny = b->dev->kind == DEVICE_EMULATED;
    b->stream = stream_new(b->dev);
    b->event = event_new(b->dev);
    return measure_ceilings(b, verbose, err);
}

void bench_close(struct bench *b) {
    if (!b->dev)
        return;
    bench_drop(b);
    event_free(&b->event);
    stream_free(&b->stream);
    device_close(&b->dev);
}
