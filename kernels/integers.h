/*
 * integers.h - products with activations of 8 bits: what they are, to the bit.
 *
 * A block of 32 columns of a weight row is integers v with a scale for each span of 16 or 32 of
 * them; types with minima have one for the block: value = scale * v - minimum. Of each row of x a
 * block becomes integers q with one scale d:
 *
 *   m = max |x|;  d = m / 127;  q = x * (127 / m), to nearest, even among two
 *   m < 2^-100: d = 0 and q = 0;  a value that is not finite: d = NaN and q = 0
 *
 * The product adds, in f32, one fma a line, over blocks and in them over spans, ascending:
 *
 *   acc = fma(sum v q, scale * d, acc)        sum over the span, exact in integers
 *   acc = fma(-minimum, d * sum q, acc)       types with minima alone
 *
 * then out = acc + bias. Nothing else is rounded, so every device and instruction set gives these
 * bits, for any number of rows. Against the product with exact activations: |error| <= sum over
 * blocks of d / 2 * sum |w|, and of f32 sums what ops.h allows for twice as many terms.
 */
#ifndef KERNELS_INTEGERS_H
#define KERNELS_INTEGERS_H

#include "kernels/types.h"

/* Of 32 activations. */
struct int8_scale {
    float d;
    float sum;            /* d * sum q */
    int32_t total, first; /* sum q: of the block, of its first half */
};

/* Of 32 weights. */
struct integer_block {
    int values[32]; /* from -128 to 127 */
    uint32_t span;  /* 16 or 32; with minima 32 */
    bool minima;
    float scale[2], minimum;
};

/* Whether the type has such blocks; `p` may hold scales of its own. */
bool segment_has_integers(const struct matrix *w, const struct matrix_segment *p);
/* Columns [32 block, 32 block + 32) of a segment's row; the segment has integers. */
void segment_integers(const struct matrix *w, const struct matrix_segment *p, uint32_t row,
                      uint32_t block, struct integer_block *out);
/* 32 activations. */
void quantize_block(const float *x, int8_t *values, struct int8_scale *out);

#endif
