/*
 * cpu.h - what the CPU device's files share: the device with its thread pool, the parallel loop,
 * the tables of the instruction sets.
 *
 * A loop is cut into units by its sizes, rows, experts and threads, never by which thread is free;
 * a small one runs on the caller. No bit changes: one unit computes an output, in one order.
 */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include "base/pool.h"
#include "kernels/cpu/features.h"
#include "kernels/ops.h"

enum { CPU_THREADS_MAX = 256, CPU_PACK_BYTES = 16 << 20 };

struct cpu_device {
    struct device dev;            /* first */
    struct cpu_features features; /* of this process: what an operation may use */
    struct thread_pool *pool;
    char *pack; /* owned, CPU_PACK_BYTES: activations of a product in the kernel's order */
    const struct int8_variant *int8; /* for matrices whose compute is int8 */
    const struct bf16_variant *bf16; /* ... bf16 */
    bool attends_in_bf16;            /* over caches that allow it (attention_tiles.inc.h) */
    bool tiles;                      /* by AMX: products in bf16 (tile_product.h), attention's */
};

static inline struct thread_pool *cpu_pool(const struct stream *s) {
    return ((struct cpu_device *)s->dev)->pool;
}

typedef void (*cpu_unit_fn)(void *ctx, size_t unit_idx, int thread_idx);
/* Runs the units on the pool, or all on the caller where `work` (about one per vector operation) is
 * too little to wake anybody. */
static inline void cpu_loop(const struct stream *s, size_t unit_count, size_t work, cpu_unit_fn run,
                            void *ctx) {
    enum { WORTH_WAKING = 4000 };
    if (unit_count > 1 && work >= WORTH_WAKING) {
        thread_pool_run(cpu_pool(s), unit_count, run, ctx);
        return;
    }
    for (size_t i = 0; i < unit_count; i++)
        run(ctx, i, 0);
}

/* Rows of each pass where about `near` stay in a cache: as many in all, a multiple of four, since a
 * last one of a few rows would read all weights again. Up to an eighth more than `near`. */
static inline uint32_t cpu_even_pass(uint32_t rows, uint32_t near) {
    uint32_t passes = MAX((rows + near - 1 - near / 8) / near, 1u);
    return ((rows + passes - 1) / passes + 3) / 4 * 4;
}

/* linear where w->compute is bf16 (bf16.c). */
void cpu_bf16_linear(struct stream *s, const struct op_linear *a);
/* expert_linear where w->compute is bf16. */
void cpu_bf16_expert_linear(struct stream *s, const struct op_expert_linear *a);

/* linear where w->compute is int8 (int8_linear.c). */
void cpu_int8_linear(struct stream *s, const struct op_linear *a);
/* expert_linear where w->compute is int8. */
void cpu_int8_expert_linear(struct stream *s, const struct op_expert_linear *a);
/* Bytes of a segment of w once it is packed; 0: it stays as it is. */
size_t cpu_packed_bytes(const struct device *dev, const struct matrix *w, uint32_t segment);
/* Writes the segment, packed for products of int8, to out [cpu_packed_bytes]. */
void cpu_pack(struct stream *s, const struct matrix *w, uint32_t segment, void *out);

/* Opens the CPU as a device (device_open, device.h). *out is owned by the caller. ERR_UNSUPPORTED:
 * the instruction set that was asked for does not run here. */
int cpu_device_open(const struct device_options *options, struct device **out, struct error *err);

extern const struct ops cpu_ops_scalar, cpu_ops_neon, cpu_ops_avx2, cpu_ops_avx512;

#endif
