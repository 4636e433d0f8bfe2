/* mixer_attention.h - attention over the paged cache: its weights, and its part of a spec. */
#ifndef MODEL_MIXER_ATTENTION_H
#define MODEL_MIXER_ATTENTION_H

#include "model/forward.h"
#include "model/spec_read.h"

struct attention_weights {
    struct matrix qkv; /* [(heads + 2 kv_heads) * head_dim, hidden] */
    struct matrix out; /* [hidden, heads * head_dim] */
    struct norm_weights q_norm, k_norm;
    const float *sinks;       /* f32 [heads]; NULL */
    struct matrix q_gate, kv; /* with output_gate, in qkv's place (attention_gate.h) */
    const float *slopes;      /* ALiBi: f32 [heads]; NULL */
};

/* Where the rows of a fused tensor lie: row i of [all Q, all K, all V] is row order[i] of it. The caller frees it. */
uint32_t *attention_fused_order(const struct attention_spec *a, enum qkv_layout layout);
/* Fills layer->attention from the config (attention_read.c). */
int attention_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);

#endif
