/* loader_quantised.h - products of tensors that are no plain numbers: they stay as they lie, each a part with a type
 * and scales of its own. For loader.c. */
#ifndef MODEL_LOADER_QUANTISED_H
#define MODEL_LOADER_QUANTISED_H

#include "model/loader.h"

/* Fills m->parts (types are set) from the tensors, whole or the rows of their cuts. */
MUST_CHECK int loader_map_quantised(struct loader *l, struct matrix *m, const struct tensor *const *tensors,
                                    const struct part *parts, const struct cut *cuts, uint32_t count);

#endif
