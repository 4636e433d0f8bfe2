/*
 * group_product.h - products of integers with a scale for each 128 columns (kernels/integer_groups.h)
 * on AMX's tiles.
 *
 * Packed, a segment is panels of 16 outputs, those behind its end zeros. A panel is D of [group][16]
 * outputs in bf16, up to a whole line of 64 bytes, then the groups:
 *
 *   types with codes      [16][4] slopes, [16][4] offsets where there are minima, [16][64] nibbles
 *   others                two steps of [16][64] values
 *
 * A step is what a tile holds: 64 columns, of each 32 the first or the second 16.
 */
#ifndef KERNELS_CPU_GROUP_PRODUCT_H
#define KERNELS_CPU_GROUP_PRODUCT_H

#include "kernels/cpu/cpu.h"

/* linear and expert_linear where w->compute is COMPUTE_INT8_GROUPS. */
void cpu_group_linear(struct stream *s, const struct op_linear *a);
void cpu_group_expert_linear(struct stream *s, const struct op_expert_linear *a);

/* As ops->packed_bytes and ops->pack for such a matrix. */
size_t cpu_group_packed_bytes(const struct matrix *w, const struct matrix_segment *p);
void cpu_group_pack(struct stream *s, const struct matrix *w, const struct matrix_segment *p,
                    uint8_t *out);

#endif
