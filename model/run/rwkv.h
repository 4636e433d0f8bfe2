/*
 * rwkv.h - what the generations of RWKV share: token shifts, vectors in whatever shape a file has
 * them, and the channel mixing, which differs only in its gate.
 */
#ifndef MODEL_RWKV_H
#define MODEL_RWKV_H

#include "model/run/recurrent.h"

/* Every generation's weights begin so. */
struct rwkv_weights {
    const float *mix; /* [mixes, hidden]: how much of the position before each product takes */
    const float *decay, *first;
    struct matrix k, v, r, out;
};

/* `count` tensors [hidden] behind each other, as shares of the position before. */
MUST_CHECK int rwkv_load_mixes(struct loader *l, const float **out, uint32_t layer,
                               const enum weight_role *roles, uint32_t count);
/* K, V, R [width, hidden], and the product out [hidden, width]; of the width this rank's part. */
MUST_CHECK int rwkv_load_products(struct loader *l, struct rwkv_weights *w, uint32_t layer,
                                  uint32_t width);
/* Of rows of `of` values those in the range; of 0: all. */
struct rwkv_columns {
    uint32_t of;
    struct shard_range range;
};
/* f32 of a tensor with as many values in its last dimensions as `dims` says. */
MUST_CHECK int rwkv_vector(struct loader *l, const float **out, enum weight_role role,
                           uint32_t layer, const uint32_t *dims, struct rwkv_columns own);
/* f->in shifted `mixes` times into out [mixes, rows, hidden]. */
void rwkv_shift(struct forward *f, struct stream *s, const struct op_shift *what);
/* Plane m of it. */
static inline void *rwkv_plane(const struct forward *f, void *shifted, uint32_t m) {
    return recurrent_columns(f, shifted, (size_t)m * f->batch.row_count * f->model->spec.hidden);
}
/* A slot's state of RWKV-6 and 7: the last input, and a matrix for each head. */
size_t rwkv_state(const struct model_spec *spec, const struct layer_spec *layer);
/* x = kind(x), [rows of the step, width]. */
void rwkv_apply(struct forward *f, struct stream *s, void *x, uint32_t width, enum gate_kind kind);

#endif
