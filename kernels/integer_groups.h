/*
 * integer_groups.h - products of integers with a scale for each 128 columns: what they are, to the
 * bit. For devices whose sums are dear to take out: AMX's tiles.
 *
 * A group is 128 columns of a row, at the row's end perhaps fewer. Of activations it becomes
 * integers q with a scale d (group_of_activations):
 *
 *   m = max |x|;  d = m / 127;  q = x * (127 / m), to nearest, even among two
 *   m < 2^-100: d = 0 and q = 0;  a value that is not finite: d = NaN and q = 0
 *
 * Of weights it becomes integers v from -127 to 127 with a scale D in bf16, so that a weight is about
 * D * v. Types of 4 bits (value = s * level - minimum in blocks of 32) keep their codes: a block has
 * a slope and an offset of 8 bits, and
 *
 *   v = ((steps[code] * slope + 64) >> 7) + offset              steps: group_steps(type)
 *   D: at least 1 / 126 of the largest |s * level - minimum| that the group's codes could mean
 *
 * Of other types v = w * (1 / D), to nearest, and D is at least 1 / 127 of the largest |w|. D is
 * rounded upwards; it is 0 below 2^-100 and NaN where a weight is not finite. |D v - w| is at most
 * D / 2, for codes 2 D (rounding of the slope, the offset and v).
 *
 * The product adds, in f32, one fma a group, ascending:
 *
 *   acc = fma(sum v q, D * d, acc)                              sum over the group, exact
 *
 * then out = acc + bias. Nothing else is rounded, so the number of rows changes no bit.
 */
#ifndef KERNELS_INTEGER_GROUPS_H
#define KERNELS_INTEGER_GROUPS_H

#include "kernels/types.h"

enum { GROUP_COLS = 128, GROUP_BLOCKS = GROUP_COLS / 32 };

/* A group of a type of 4 bits. Byte i of nibbles[b]: columns 32 b + i and, above it, 32 b + 16 + i.
 * Behind the row's end slopes, offsets and codes are 0. */
struct code_group {
    uint16_t scale; /* bf16 */
    int8_t slope[GROUP_BLOCKS], offset[GROUP_BLOCKS];
    uint8_t nibbles[GROUP_BLOCKS][16];
};

/* Whether the type has such groups; `p` may hold scales of its own. */
bool segment_has_groups(const struct matrix *w, const struct matrix_segment *p);
/* Whether they keep codes of 4 bits. */
bool segment_has_codes(const struct matrix *w, const struct matrix_segment *p);
/* [16] of such a type. */
const int16_t *group_steps(enum storage_type type);

/* Group `group` of a segment's row that keeps codes. */
void segment_codes(const struct matrix *w, const struct matrix_segment *p, uint32_t row,
                   uint32_t group, struct code_group *out);
/* Of any segment with groups: v of the columns, 0 behind the row's end; returns D, in bf16. */
uint16_t segment_group(const struct matrix *w, const struct matrix_segment *p, uint32_t row,
                       uint32_t group, int8_t values[GROUP_COLS]);
/* D in bf16: the least that is not below most / top. */
uint16_t group_scale(float most, float top);
/* `count` activations; values behind them are 0. Returns d. */
float group_of_activations(const float *x, uint32_t count, int8_t values[GROUP_COLS]);

#endif
