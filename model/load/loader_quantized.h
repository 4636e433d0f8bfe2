/* loader_quantized.h - products of tensors that are no plain numbers: they stay as they lie, each a
 * segment with a type and scales of its own. For loader.c. */
#ifndef MODEL_LOADER_QUANTIZED_H
#define MODEL_LOADER_QUANTIZED_H

#include "model/load/loader.h"

/* Fills m->segments (types are set) from the tensors, whole or the rows of their cuts. */
MUST_CHECK int loader_map_quantized(struct loader *l, struct matrix *m,
                                    const struct tensor *const *tensors,
                                    const struct product_segment *segments, const struct cut *cuts,
                                    uint32_t count);
/* The same, of scaled types or mixed ones: the columns of the cuts (between what shares a scale:
 * quantized_column_unit), the rows in another order (of one segment after the other). What is taken
 * is copied, with scales for each row. */
MUST_CHECK int loader_take_scaled(struct loader *l, struct matrix *m,
                                  const struct tensor *const *tensors,
                                  const struct product_segment *segments, const struct cut *cuts,
                                  uint32_t count, uint32_t cols, const uint32_t *order);
/* Columns of a scaled tensor can be cut at multiples of this; UINT32_MAX: not at all. */
uint32_t quantized_column_unit(const struct tensor *t, uint64_t cols);

#endif
