/* attention_weights.h - the weights of attention, and how fused ones lie in files. */
#ifndef MODEL_ATTENTION_WEIGHTS_H
#define MODEL_ATTENTION_WEIGHTS_H

#include "model/load/weights.h"
#include "model/read/names.h"

struct attention_weights {
    struct matrix qkv; /* [(heads + 2 kv_heads) * head_dim, hidden] */
    struct matrix out; /* [hidden, heads * head_dim] */
    struct norm_weights q_norm, k_norm;
    const float *sinks;       /* f32 [heads]; NULL */
    struct matrix q_gate, kv; /* with output_gate, in qkv's place (attention_gate.h) */
    const float *slopes;      /* ALiBi: f32 [heads]; NULL */
};

/* Where the rows of a fused tensor lie: row i of [all Q, all K, all V] is row order[i] of it. The
 * caller frees it. */
uint32_t *attention_fused_order(const struct attention_spec *a, enum qkv_layout layout);

#endif
