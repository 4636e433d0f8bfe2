/*
 * forward_shared.h - what the files of the forward pass share: forward.c (a step's layers),
 * forward_buffers.c (its memory), forward_head.c (logits, states and the sampler behind them).
 *
 * Threading: as forward.h.
 */
#ifndef MODEL_RUN_FORWARD_SHARED_H
#define MODEL_RUN_FORWARD_SHARED_H

#include "model/run/forward.h"

/* Rows whose logits are made at once. A GPU would read the head's weights anew for each part of a
 * large batch. */
uint32_t forward_head_rows(const struct forward *f);

struct norm_call {
    void *out, *x; /* [rows, hidden]: act, but x (and out, where it is x) f32 where x_f32 */
    const void *delta;
    float delta_scale;
    uint32_t rows;
    bool x_f32;
};

/* x += delta * delta_scale; out = norm(x), or x where w is NULL. out NULL: only the sum. */
void forward_norm_rows(struct forward *f, struct stream *s, const struct norm_call *c,
                       const struct norm_spec *spec, const struct norm_weights *w);

#endif
