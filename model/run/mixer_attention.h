/* mixer_attention.h - what a spec says of attention over the paged cache. */
#ifndef MODEL_MIXER_ATTENTION_H
#define MODEL_MIXER_ATTENTION_H

#include "model/norm_spec.h"

enum qk_norm {
    QK_NORM_NONE = 0,
    QK_NORM_HEAD,  /* each head by itself, one weight [head_dim] for all */
    QK_NORM_HEADS, /* each head by itself, a weight [heads, head_dim] */
    QK_NORM_WHOLE  /* over the whole projection, weight [heads * head_dim] */
};

struct attention_spec {
    uint32_t heads, kv_heads, head_dim;
    uint32_t window; /* 0: all positions */
    uint32_t rope_idx;
    float scale, soft_cap; /* soft_cap 0: none */
    bool qkv_bias, out_bias;
    bool output_gate; /* from the query product */
    enum qk_norm qk_norm;
    struct norm_spec q_norm; /* of both q and k */
    /* QK_NORM_WHOLE: heads of all ranks where they divide them (shard.h), or 0; */
    uint32_t norm_heads, norm_kv_heads;
    /* and whether this rank is the first that has its KV heads */
    bool norm_first;
    /* scaled: slopes are rounded to bf16 and count before the scale */
    bool alibi, alibi_scaled;
    float clip;     /* of Q, K and V; 0: none */
    uint32_t chunk; /* attention within chunks of so many positions; 0: none */
    float temperature, temperature_floor; /* op_temper_queries; temperature 0: none */
    float temperature_offset;
    bool sinks; /* a score of each head that has no value */
};

/* Outputs of the merged Q, K, V product: (heads + 2 kv_heads) * head_dim. */
static inline uint32_t qkv_width(const struct attention_spec *a) {
    return (a->heads + 2 * a->kv_heads) * a->head_dim;
}

#endif
