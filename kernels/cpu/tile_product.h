/*
 * tile_product.h - products on AMX's tiles: what they are, to the bit.
 *
 * Weights are bf16: as they lie, or, of other types, what matrix_dequantize says (types.h), rounded
 * to bf16. A row of x becomes terms in bf16: one, x rounded (compute bf16), or three, 8 bits of x
 * each by truncation, whose sum is x (compute f32, weights stored as bf16 alone). Roundings are to
 * nearest, even among two. Numbers below 2^-126 count as zero wherever a tile or a rounding meets
 * them.
 *
 * One output is one chain over steps of 32 columns, zeros behind the row's end. A step adds, for
 * each term, the least first:
 *
 *   even = fma(w[32 s + 2 i], x[32 s + 2 i], even)          i = 0 .. 15, from 0
 *   odd = fma(w[32 s + 2 i + 1], x[32 s + 2 i + 1], odd)
 *   acc = acc + (even + odd)
 *
 * then out = acc + bias. These are the sums of TDPBF16PS (Intel's manual). Which rows share a tile,
 * how columns are cut and what is carried in memory changes no bit. With three terms the error is
 * ops.h's: from 32 columns on, the 16 roundings in a step and 3 more for each are fewer than it
 * allows.
 */
#ifndef KERNELS_CPU_TILE_PRODUCT_H
#define KERNELS_CPU_TILE_PRODUCT_H

#include "kernels/cpu/cpu.h"

/* Whether products with f32 activations go this way: weights are bf16, in whole steps or more. The
 * answer depends on the matrix alone. */
bool cpu_tiles_take(const struct matrix *w);

/* `linear` for such a matrix, or where w->compute is bf16. */
void cpu_tile_linear(struct stream *s, const struct op_linear *a);
/* expert_linear where the experts' compute is bf16. */
void cpu_tile_expert_linear(struct stream *s, const struct op_expert_linear *a);

#endif
