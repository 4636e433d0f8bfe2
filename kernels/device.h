/*
 * device.h - a device: its memory, streams and events, and the table of operations it offers
 * (ops.h).
 *
 * The shape is a GPU's: memory is allocated once, work is put on a stream and runs later, the host
 * learns that it is done by an event. The CPU device executes each call at once, so its events are
 * always done; callers must not count on that.
 *
 * Errors: calls that put work on a stream return nothing. A device that fails goes into a sticky
 * failed state which event_done and event_wait report as a negative code; the process then ends
 * with a fault and is restarted.
 *
 * Invariants:
 *   (1) pointers returned by device_alloc and device_import mean something only to this device's
 *       operations (on the CPU they are plain pointers);
 *   (2) memory is at least 64-byte aligned; imported memory keeps the caller's alignment;
 *   (3) nothing allocates after start-up: operations get their scratch from the caller.
 *
 * Threading: one thread uses a device (the worker's compute thread). The CPU device runs its loops
 * on its own pool.
 */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H

#include "base/error.h"
#include "kernels/types.h"

struct ops;
struct stream;
struct event;
struct graph;
struct device;

enum device_class { DEVICE_CPU = 1, DEVICE_CUDA = 2, DEVICE_EMULATED = 3 };

struct device_options {
    /* "cpu", or one that is registered, or "auto": a GPU where this program and the machine have
     * one (an emulated one is only had by name), else the CPU. NULL: cpu; "": auto */
    const char *kind;
    /* "ref", "scalar", "neon", "avx2", "avx512", "amx"; NULL or "auto": TRIREME_ISA, else the best
     * there is, less what TRIREME_CPU_FEATURES hides (base/cpu_features.h) */
    const char *isa;
    int thread_count; /* 0: one for each CPU this process may use */
    int spin_us;      /* how long idle threads spin between operations before they sleep */
    int ordinal;      /* which GPU, modulo how many there are; the CPU has one */
    enum storage_type
        /* of a GPU: f32, f16, bf16; none: TRIREME_ACTIVATION, else bf16. The CPU: always f32 */
        activation;
    /* what activations become before products (enum compute_type): "f32", "int8" with quantized
     * weights, "bf16" with weights in bf16, or "auto": what is fastest here with each; NULL: f32. A
     * GPU: "fp8" and "fp8-prompts" on sm_90a, else f32 */
    const char *compute;
    /* of a GPU: who multiplies prompt rows: "own", "cublaslt"; NULL: TRIREME_GEMM, else own */
    const char *gemm;
};

/* What a device does for memory and time; ops.h has the arithmetic. A device's author fills one of
 * these. */
struct device_calls {
    void (*close)(struct device *dev);
    void *(*alloc)(struct device *dev, size_t size);
    void (*free)(struct device *dev, void *p);
    void *(*alloc_host)(struct device *dev, size_t size);
    void (*free_host)(struct device *dev, void *p);
    const void *(*import)(struct device *dev, const void *host, size_t size);
    void (*unimport)(struct device *dev, const void *p);
    struct stream *(*stream_new)(struct device *dev);
    void (*stream_free)(struct stream *s);
    void (*copy_in)(struct stream *s, void *to, const void *host, size_t size);
    void (*copy_out)(struct stream *s, void *host, const void *from, size_t size);
    void (*fill)(struct stream *s, void *to, int byte, size_t size);
    struct event *(*event_new)(struct device *dev);
    void (*event_free)(struct event *e);
    void (*event_record)(struct event *e, struct stream *s);
    int (*event_done)(struct event *e);
    int (*event_wait)(struct event *e);
    /* All NULL where a device has no graphs (the CPU). */
    bool (*graph_begin)(struct stream *s);
    struct graph *(*graph_end)(struct stream *s);
    void (*graph_launch)(struct stream *s, struct graph *g);
    void (*graph_free)(struct graph *g);
    uint64_t (*memory_free)(struct device *dev);
    void *(*native_stream)(struct stream *s); /* NULL: it has none */
};

struct device {
    const struct device_calls *calls;
    const struct ops *ops;
    enum device_class kind;
    char name[64]; /* "Intel Xeon ..." */
    char isa[40];  /* "avx512"; what decides bits: part of the fingerprint */
    char attention
        [8]; /* what keys and queries become: "f32", "bf16"; "": as isa; decides bits, too */
    /* Names the order that ops->pack makes: equal names, equal bytes, in one build of the program. */
    char packed_order[64];
    uint32_t thread_count;
    uint64_t memory_bytes;             /* in all; of the CPU: what the process may have of it */
    enum storage_type activation_type; /* of every activation buffer: f32 on the CPU */
    /* of products with weights that allow it (device_compute) */
    enum compute_type compute;
    bool bf16_of_blocks;   /* compute bf16 takes all types of fewer than 16 bits too */
    bool in_order_at_once; /* work is done when the call returns */
    bool drafts;           /* a slot may have several sampling rows (ops.h: op_sample) */
    /* which of this machine's GPUs: no two have the same; 0: not a GPU */
    uint64_t unit;
    /* rows of a step with which products are as fast as they get; a worker's default */
    uint32_t step_tokens;
};
enum { DEVICE_STEP_TOKENS = 512 }; /* of a CPU */

/* A stream, an event and a graph begin with their device, so that the calls below find it. */
struct stream {
    struct device *dev;
};
struct event {
    struct device *dev;
};
struct graph {
    struct device *dev;
};

/* A kind of device that a program brings along (CUDA; in tests the emulated one): its own file
 * calls this before main(). So this library links neither. `kind` must live on. */
typedef int (*device_open_fn)(const struct device_options *options, struct device **out,
                              struct error *err);
/* kind: the name in device_options. Once for each kind. */
void device_register(const char *kind, device_open_fn open);

/* Whether a device of this kind can be asked for in this program (the machine may still lack
 * it). */
bool device_known(const char *kind);

/* Opens a device. ERR_UNSUPPORTED when the machine lacks it or the instruction set asked for. With
 * "auto" the log says why it is not a GPU. */
MUST_CHECK int device_open(const struct device_options *options, struct device **out,
                           struct error *err);
/* After all that was made of it is gone, and no work runs. Clears *dev; NULL is allowed. */
static inline void device_close(struct device **dev) {
    if (*dev)
        (*dev)->calls->close(*dev);
    *dev = NULL;
}
/* What activations of products with `w` become on this device: a compute type of its own that every
 * segment of the matrix allows, or f32. */
enum compute_type device_compute(const struct device *dev, const struct matrix *w);
enum { CPU_ISAS_MAX = 8 };
/* The instruction sets this machine can run, best last, as names for device_options.isa; returns
 * the count (without "ref"). */
size_t device_cpu_isas(const char *names[CPU_ISAS_MAX]);

/* Device memory, contents undefined; NULL when there is not enough. */
MUST_CHECK static inline void *device_alloc(struct device *dev, size_t size) {
    return dev->calls->alloc(dev, size);
}
/* No work on any stream may use it still. p may be NULL. */
static inline void device_free(struct device *dev, void *p) {
    if (p)
        dev->calls->free(dev, p);
}
/* Host memory the device can write to by itself (pinned). */
MUST_CHECK static inline void *device_alloc_host(struct device *dev, size_t size) {
    return dev->calls->alloc_host(dev, size);
}
/* The same of host memory. */
static inline void device_free_host(struct device *dev, void *p) {
    if (p)
        dev->calls->free_host(dev, p);
}
/* Makes host bytes (a mapped weight) readable by the device: the CPU borrows them until
 * device_unimport, a GPU copies. NULL: no memory. */
MUST_CHECK static inline const void *device_import(struct device *dev, const void *host,
                                                   size_t size) {
    return dev->calls->import(dev, host, size);
}
/* No work may read it still. p may be NULL. */
static inline void device_unimport(struct device *dev, const void *p) {
    if (p)
        dev->calls->unimport(dev, p);
}

/* A queue of work that runs in order. That a device has failed is said by its events. */
MUST_CHECK static inline struct stream *stream_new(struct device *dev) {
    return dev->calls->stream_new(dev);
}
/* Its work is done. Clears *s; NULL is allowed. */
static inline void stream_free(struct stream **s) {
    if (*s)
        (*s)->dev->calls->stream_free(*s);
    *s = NULL;
}
/* In stream order, as the next two. Host bytes have been read when the call returns. */
static inline void stream_copy_in(struct stream *s, void *to, const void *host, size_t size) {
    s->dev->calls->copy_in(s, to, host, size);
}
/* Host bytes are filled when an event that is recorded later is done. */
static inline void stream_copy_out(struct stream *s, void *host, const void *from, size_t size) {
    s->dev->calls->copy_out(s, host, from, size);
}
/* Sets size bytes of device memory. */
static inline void stream_fill(struct stream *s, void *to, int byte, size_t size) {
    s->dev->calls->fill(s, to, byte, size);
}

/* A mark in a stream, not yet recorded. */
MUST_CHECK static inline struct event *event_new(struct device *dev) {
    return dev->calls->event_new(dev);
}
/* Clears *e; NULL is allowed. */
static inline void event_free(struct event **e) {
    if (*e)
        (*e)->dev->calls->event_free(*e);
    *e = NULL;
}
/* Marks the work put on s so far; an earlier mark is forgotten. */
static inline void event_record(struct event *e, struct stream *s) {
    e->dev->calls->event_record(e, s);
}
/* 1: all work before the last record is done; 0: not yet; negative: the device failed. */
MUST_CHECK static inline int event_done(struct event *e) {
    return e->dev->calls->event_done(e);
}
/* 0 when done, negative when the device failed. */
MUST_CHECK static inline int event_wait(struct event *e) {
    return e->dev->calls->event_wait(e);
}

/*
 * Graphs: work that is put on a stream between graph_begin and graph_end does not run; it becomes a
 * graph, which graph_launch puts on a stream as one, any number of times. It runs with the
 * arguments it was recorded with, so all that changes from launch to launch lies in device memory.
 * Host bytes cannot be copied in while recording: no graph comes of that. Operations and
 * stream_fill can be recorded.
 */
/* False: the device has no graphs, or refused; the work is then to be put on the stream as ever. */
MUST_CHECK static inline bool graph_begin(struct stream *s) {
    return s->dev->calls->graph_begin && s->dev->calls->graph_begin(s);
}
/* The graph, owned by the caller; NULL when it could not be made. Nothing of it has run. May
 * allocate. */
MUST_CHECK static inline struct graph *graph_end(struct stream *s) {
    return s->dev->calls->graph_end(s);
}
/* Puts all of its work on the stream it was recorded on, or another of the same device. */
static inline void graph_launch(struct stream *s, struct graph *g) {
    s->dev->calls->graph_launch(s, g);
}
/* Not while a launch of it may be running. */
static inline void graph_free(struct graph **g) {
    if (*g)
        (*g)->dev->calls->graph_free(*g);
    *g = NULL;
}

/* The stream as the device's own libraries know it (cudaStream_t), for those that put work on
 * it. */
static inline void *device_native_stream(struct stream *s) {
    return s->dev->calls->native_stream ? s->dev->calls->native_stream(s) : NULL;
}

/* Bytes of the device's own memory that are free now; 0: it has none of its own (the CPU), or does
 * not know. */
static inline uint64_t device_memory_free(struct device *dev) {
    return dev->calls->memory_free ? dev->calls->memory_free(dev) : 0;
}
/* Bytes that may be allocated now: those, or what the machine and the process's control groups have
 * left (memory_available: at least 1 where that is known, 0: it is not). */
uint64_t device_memory_available(struct device *dev);

#endif
