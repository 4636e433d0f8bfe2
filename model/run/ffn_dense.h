/* ffn_dense.h - the dense feed-forwards, gated and plain: their weights, and their part of a
 * spec. */
#ifndef MODEL_FFN_DENSE_H
#define MODEL_FFN_DENSE_H

#include "model/read/spec_read.h"
#include "model/run/column_scale.h"

struct ffn_weights {
    struct matrix up;   /* gated: [2 * width, hidden], gate above up; plain: [width, hidden] */
    struct matrix down; /* [hidden, width] */
    struct column_scale gate_scale;
};

/* Fills layer->ffn from the config; its kind is set. */
int ffn_dense_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);

/* This rank's part of the width; count 0: all of it (ffn_shard.c). */
struct shard_range ffn_own(const struct loader *l, uint32_t layer);
/* The down projection, of that part. Rank 0 adds the bias. */
MUST_CHECK int ffn_load_down(struct loader *l, uint32_t layer, struct matrix *down);
/* Of a fused tensor [2 * width, ...] the rows of a part of the width, gate above up. The caller
 * frees it. */
uint32_t *ffn_fused_order(uint32_t width, struct shard_range own);
/* Gate above up from one fused tensor, not packed yet (loader_pack). */
MUST_CHECK int ffn_take_fused(struct loader *l, uint32_t layer, struct matrix *up);

#endif
