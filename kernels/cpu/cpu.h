/*
 * cpu.h - what the CPU device's files share: the device with its thread pool, the parallel loop, the tables of the
 * instruction sets.
 *
 * A loop is cut into parts with bounds that depend on sizes alone; small loops run on the caller. Neither changes a
 * bit: every output element is computed by one part, in one order.
 */
#ifndef KERNELS_CPU_CPU_H
#define KERNELS_CPU_CPU_H

#include "base/pool.h"
#include "kernels/ops.h"

enum { CPU_THREADS_MAX = 256, CPU_PACK_BYTES = 16 << 20 };

struct cpu_device {
    struct device dev; /* first */
    struct thread_pool *pool;
    char *pack; /* owned; CPU_PACK_BYTES where linear packs activations (AMX), else NULL */
};

static inline struct thread_pool *cpu_pool(const struct stream *s) { return ((struct cpu_device *)s->dev)->pool; }

typedef void (*cpu_part_fn)(void *ctx, size_t part_idx, int thread_idx);
/* Runs the parts on the pool, or all on the caller where `work` (about one per vector operation) is too little to wake
 * anybody. */
static inline void cpu_loop(const struct stream *s, size_t part_count, size_t work, cpu_part_fn run, void *ctx) {
    enum { WORTH_WAKING = 20000 };
    if (part_count > 1 && work >= WORTH_WAKING) {
        thread_pool_run(cpu_pool(s), part_count, run, ctx);
        return;
    }
    for (size_t i = 0; i < part_count; i++) run(ctx, i, 0);
}

int cpu_device_open(const struct device_options *options, struct device **out, struct error *err);

extern const struct ops cpu_ops_scalar, cpu_ops_avx2, cpu_ops_avx512, cpu_ops_amx;

#endif
