/*
 * bf16.h - products of weights in bf16 with activations in bf16: what they are, to the bit, and what
 * the variants of one template share.
 *
 * A row of x is rounded to bf16 (to nearest, even among two). One output is 16 chains of f32: step s
 * takes columns [32 s, 32 s + 32), of which chain i has 32 s + 2 i and the one behind it; zeros stand
 * behind the row's end. A step is two fmas a chain:
 *
 *   acc = fma(w[32 s + 2 i + 1], x[32 s + 2 i + 1], acc)
 *   acc = fma(w[32 s + 2 i], x[32 s + 2 i], acc)
 *
 * then chains are added, i and i + 8, those i and i + 4, i and i + 2, i and i + 1, then the bias.
 * Products of two bf16 are exact in f32, so these are the sums of VDPBF16PS (Intel's manual; AMD's
 * processors give the same). Numbers below 2^-126 may count as zero, and do on that instruction.
 * Weights are read as they lie in the file.
 *
 * AMX's tiles have an order of their own (tile_product.h): another instruction set, other bits.
 */
#ifndef KERNELS_CPU_BF16_H
#define KERNELS_CPU_BF16_H

#include "kernels/cpu/features.h"
#include "kernels/types.h"

enum { BF16_STEP = 32, BF16_UNIT = 16 };

/* Rows in bf16, each padded with zeros to whole steps. */
struct bf16_rows {
    char *data;
    size_t stride; /* bytes, a multiple of 64 */
    uint32_t row_count, cols;
};
/* An odd number of cache lines: rows side by side do not meet in the same sets of a cache. */
static inline size_t bf16_stride(uint32_t cols) {
    return (((size_t)cols * 2 + 63) / 64 | 1) * 64;
}

/* One product of such rows: outputs of w into out [row_count, out_stride]. All of w is bf16. */
struct bf16_product {
    const struct matrix *w;
    struct bf16_rows x;
    float *out;
    size_t out_stride;
};

struct bf16_variant {
    const char *name;
    /* Row t of x, f32 [row_count, cols], into row t of `rows`. */
    void (*round)(const float *x, const struct bf16_rows *rows, uint32_t t);
    /* Outputs [first, first + count) of all rows; count <= BF16_UNIT. */
    void (*multiply)(const struct bf16_product *p, uint32_t first, uint32_t count);
};

extern const struct bf16_variant bf16_plain, bf16_avx2, bf16_avx512, bf16_avx512_bf16;

/* Those of this build, the best last; as INT8_VARIANTS. */
extern const struct bf16_choice {
    const struct bf16_variant *variant;
    enum cpu_isa least;
    uint64_t needs;
} BF16_VARIANTS[];
extern const size_t BF16_VARIANT_COUNT;
/* The last of BF16_VARIANTS that runs with this set and these features; never NULL. */
const struct bf16_variant *bf16_best(enum cpu_isa isa, struct cpu_features features);

#endif
