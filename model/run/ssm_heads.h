/*
 * ssm_heads.h - what Mamba 2 and 3 share: one product gives z, x, B, C and what the step is made
 * of; channels in heads, B and C in groups of them; a gated norm before the last product. Where
 * ranks divide the mixer, each has whole heads with their groups, and the spec counts only those.
 */
#ifndef MODEL_SSM_HEADS_H
#define MODEL_SSM_HEADS_H

#include "model/run/recurrent.h"

/* Columns of x, B and C. */
static inline uint32_t ssm_conv_width(const struct recurrent_spec *r) {
    return r->width + 2 * r->groups * r->state_size;
}
/* Rows of the first product: z, then those, then the step of each head. */
static inline uint32_t ssm_in_rows(const struct recurrent_spec *r) {
    return r->width + ssm_conv_width(r) + r->heads;
}

/* Into w: first and last product, convolution (taps 0: there is none), step's bias, decay, skip and
 * inner norm. */
MUST_CHECK int ssm_heads_load(struct loader *l, uint32_t layer, struct recurrent_weights *w);

struct ssm_buffers {
    void *in, *xbc, *y; /* act [rows, ssm_in_rows], [rows, ssm_conv_width], [rows, width] */
    void *whole;        /* act [rows, norm_width]: where the norm's groups span ranks */
    float *dt;          /* f32 [rows, heads] */
};
/* Behind `*used` bytes of the area. */
void ssm_heads_lay_out(const struct forward *f, const struct recurrent_spec *r, char *base,
                       size_t *used, struct ssm_buffers *b);
/* The convolution's part of a slot's state: the bytes before it. */
size_t ssm_heads_state(const struct recurrent_spec *r, size_t *used);

/* b->in -> b->xbc, b->dt: x, B, C = silu(conv(x, B, C)), or x = silu(x) without a convolution; dt
 * within its limits. */
void ssm_heads_split(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                     const struct recurrent_weights *w, const struct ssm_buffers *b,
                     struct state_view conv);
/* f->out = out(norm(b->y, z)), the norm with the gate before or after, or b->y as it is where the
 * spec has no norm. */
void ssm_heads_finish(struct forward *f, struct stream *s, const struct recurrent_spec *r,
                      const struct recurrent_weights *w, const struct ssm_buffers *b);

#endif
