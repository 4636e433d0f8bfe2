#include "model/run/column_scale.h"

int column_scale_load(struct loader *l, struct column_scale *out, float *by, uint32_t width) {
    int rc = loader_put(l, &out->by, by, width);
    out->width = width;
    return rc ? rc : loader_put(l, &out->zero, mem_calloc(width, sizeof(float)), width);
}

/* The gate's operation with its bias as the factor: x * (0 + by). */
void column_scale_apply(struct forward *f, struct stream *s, const struct column_scale *c, void *x,
                        uint32_t stride) {
    if (!c->by)
        return;
    f->dev->ops->state->gate(s, &(struct op_gate){.out = x,
                                                  .x = x,
                                                  .gate = c->zero,
                                                  .bias = c->by,
                                                  .rows = f->batch.row_count,
                                                  .width = c->width,
                                                  .x_stride = stride,
                                                  .out_stride = stride,
                                                  .kind = GATE_IDENTITY});
}
