/*
 * column_scale.h - a constant for each column of a product: what muP multipliers scale in the
 * middle of a layer, where no norm's weight and no residual's scale takes them up. Not folded into
 * the weights, which stay what the file has.
 */
#ifndef MODEL_COLUMN_SCALE_H
#define MODEL_COLUMN_SCALE_H

#include "model/load/loader.h"
#include "model/run/forward.h"

struct column_scale {
    const float *by;   /* f32 [width], device memory; NULL: nothing is scaled */
    const float *zero; /* as many zeros, of any type */
    uint32_t width;
};

/* Takes `by` [width]. */
MUST_CHECK int column_scale_load(struct loader *l, struct column_scale *out, float *by,
                                 uint32_t width);
/* x[t, i] *= by[i] for the step's rows; x: act [rows, stride]. */
void column_scale_apply(struct forward *f, struct stream *s, const struct column_scale *c, void *x,
                        uint32_t stride);

#endif
