/*
 * bench.h - parts of the kernel benchmark: the machine's ceilings, and models of random weights in
 * real shapes.
 */
#ifndef BENCH_KERNELS_BENCH_H
#define BENCH_KERNELS_BENCH_H

#include "base/error.h"

/* Bytes a second that `threads` threads read together from 512 MB (the best of one to eight
 * streams each, memory asked for ahead). */
double machine_read_bandwidth(int threads);
/* f32 operations a second in fused multiply-adds held in registers, with the widest vectors the
 * compiler's target clones offer. */
double machine_fma_rate(int threads);

struct random_shape {
    const char *name;
    int hidden, layers, heads, kv_heads, head_dim, ffn, vocab;
    bool tied, qkv_bias;
};
extern const struct random_shape RANDOM_SHAPES[];
extern const int RANDOM_SHAPE_COUNT;
/* Writes config.json and model.safetensors (bf16) into dir, unless they are there. */
MUST_CHECK int random_model_write(const struct random_shape *shape, const char *dir,
                                  struct error *err);

#endif
