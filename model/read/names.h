/*
 * names.h - which tensor plays which role: per family one table of patterns.
 *
 * In a pattern the first "%u" stands for the layer, the second for the expert, a "*" in front for
 * the prefix of the network's body and a "^" in front for that of what lies outside it; the loader
 * finds out which pair of prefixes a file uses by looking for the embedding (a text model saved
 * alone, inside a wrapper, or without its head).
 */
#ifndef MODEL_NAMES_H
#define MODEL_NAMES_H

#include "base/base.h"

enum weight_role {
    ROLE_EMBED,
    ROLE_EMBED_NORM,
    ROLE_EMBED_NORM_BIAS,
    ROLE_POSITIONS,
    ROLE_TOKEN_TYPES,
    ROLE_SCORE_DENSE, /* of a head that scores prompts */
    ROLE_SCORE_DENSE_BIAS,
    ROLE_SCORE_NORM,
    ROLE_SCORE_NORM_BIAS,
    ROLE_SCORE_OUT,
    ROLE_SCORE_OUT_BIAS,
    ROLE_PROJECT_IN,
    ROLE_PROJECT_OUT,
    ROLE_FINAL_NORM,
    ROLE_FINAL_NORM_BIAS,
    ROLE_HEAD,
    ROLE_HEAD_BIAS,
    ROLE_MIXER_NORM, /* from here on: one a layer */
    ROLE_MIXER_NORM_BIAS,
    ROLE_MIXER_POST,
    ROLE_MIXER_POST_BIAS,
    ROLE_FFN_NORM,
    ROLE_FFN_NORM_BIAS,
    ROLE_FFN_POST,
    ROLE_FFN_POST_BIAS,
    /* attention */
    ROLE_QKV, /* fused, as the table's qkv layout says */
    ROLE_QKV_BIAS,
    ROLE_Q,
    ROLE_K,
    ROLE_V,
    ROLE_Q_BIAS,
    ROLE_K_BIAS,
    ROLE_V_BIAS,
    ROLE_OUT,
    ROLE_OUT_BIAS,
    ROLE_Q_NORM,
    ROLE_K_NORM,
    ROLE_Q_NORM_BIAS,
    ROLE_K_NORM_BIAS,
    ROLE_SINKS,
    /* latent attention (out: ROLE_OUT; queries without a latent of their own: ROLE_Q) */
    ROLE_LATENT_Q_DOWN,
    ROLE_LATENT_Q_DOWN_BIAS,
    ROLE_LATENT_Q_NORM,
    ROLE_LATENT_Q_UP,
    ROLE_LATENT_KV_DOWN,
    ROLE_LATENT_KV_DOWN_BIAS,
    ROLE_LATENT_KV_NORM,
    ROLE_LATENT_KV_UP,
    ROLE_LATENT_Q_ROPE, /* where rotated parts and up-projections have tensors of their own */
    ROLE_LATENT_K_ROPE,
    ROLE_LATENT_K_UP,
    ROLE_LATENT_V_UP,
    /* mixture of experts: one tensor an expert, or EXPERTS_: one of three dimensions for all */
    ROLE_ROUTER,
    ROLE_ROUTER_BIAS,
    ROLE_ROUTER_CORRECTION,
    ROLE_EXPERT_GATE,
    ROLE_EXPERT_UP,
    ROLE_EXPERT_DOWN,
    ROLE_EXPERTS_GATE_UP,
    ROLE_EXPERTS_GATE, /* where gate and up are apart */
    ROLE_EXPERTS_UP,
    ROLE_EXPERTS_DOWN,
    ROLE_EXPERTS_GATE_UP_BIAS,
    ROLE_EXPERTS_GATE_BIAS,
    ROLE_EXPERTS_UP_BIAS,
    ROLE_EXPERTS_DOWN_BIAS,
    ROLE_EXPERTS_GATE_UP_BLOCKS, /* MXFP4: values, and a scale for 32 of them */
    ROLE_EXPERTS_GATE_UP_SCALES,
    ROLE_EXPERTS_DOWN_BLOCKS,
    ROLE_EXPERTS_DOWN_SCALES,
    ROLE_SHARED_GATE,
    ROLE_SHARED_UP,
    ROLE_SHARED_GATE_UP,
    ROLE_SHARED_DOWN,
    ROLE_SHARED_SWITCH, /* what the shared expert's sigmoid is made of */
    ROLE_SHARED_UP_BIAS,
    ROLE_SHARED_DOWN_BIAS,
    ROLE_EXPERT_LATENT_IN, /* where experts work on a latent */
    ROLE_EXPERT_LATENT_IN_BIAS,
    ROLE_EXPERT_LATENT_OUT,
    ROLE_EXPERT_LATENT_OUT_BIAS,
    /* feed-forward */
    ROLE_GATE_UP, /* fused: gate above up */
    ROLE_GATE_UP_BIAS,
    ROLE_GATE,
    ROLE_UP,
    ROLE_DOWN,
    ROLE_GATE_BIAS,
    ROLE_UP_BIAS,
    ROLE_DOWN_BIAS,
    /* mixers with a state */
    ROLE_IN,
    ROLE_IN_BIAS,
    ROLE_IN_Z, /* where the gate has a product of its own */
    ROLE_IN_Z_BIAS,
    ROLE_IN_BETA, /* delta rule: beta, and the step (fused: both) */
    ROLE_IN_STEP,
    ROLE_CONV,
    ROLE_CONV_BIAS,
    ROLE_STEP_PRODUCT, /* Mamba 1: x_proj */
    ROLE_STEP,         /* dt_proj */
    ROLE_STEP_BIAS,
    ROLE_DECAY, /* A_log, time_decay, recurrent_param */
    ROLE_SKIP,  /* D, time_first */
    ROLE_STEP_NORM,
    ROLE_B_NORM,
    ROLE_C_NORM,
    /* Mamba 3: of the two ends of a step; angles; biases; what goes in and out of wide heads */
    ROLE_BLEND,
    ROLE_BLEND_BIAS,
    ROLE_TURN,
    ROLE_TURN_BIAS,
    ROLE_B_BIAS,
    ROLE_C_BIAS,
    ROLE_MIMO_UP,
    ROLE_MIMO_UP_BIAS,
    ROLE_MIMO_DOWN,
    ROLE_MIMO_DOWN_BIAS,
    ROLE_INNER_NORM,
    ROLE_INNER_NORM_BIAS,
    ROLE_MIX_OUT,
    ROLE_MIX_OUT_BIAS,
    ROLE_INPUT_GATE,
    ROLE_INPUT_GATE_BIAS,
    ROLE_DECAY_GATE,
    ROLE_DECAY_GATE_BIAS,
    ROLE_SHIFT_K, /* RWKV: how much of the position before, for each product */
    ROLE_SHIFT_V,
    ROLE_SHIFT_R,
    ROLE_SHIFT_X, /* 6: of what decides the mixes; its products */
    ROLE_SHIFT_DOWN,
    ROLE_SHIFT_UP,
    ROLE_SHIFT_W,
    ROLE_SHIFT_G,
    ROLE_SHIFT_A,
    ROLE_R,
    ROLE_DECAY_DOWN, /* low rank, down and up: 6, 7 */
    ROLE_DECAY_UP,
    ROLE_RATE_DOWN, /* 7 from here on */
    ROLE_RATE_UP,
    ROLE_RATE_BIAS,
    ROLE_VALUE_MIX_DOWN,
    ROLE_VALUE_MIX_UP,
    ROLE_VALUE_MIX_BIAS,
    ROLE_GATE_DOWN,
    ROLE_GATE_UP_PRODUCT,
    ROLE_KEY_SCALE,
    ROLE_KEY_MIX,
    ROLE_FFN_SHIFT_K,
    ROLE_FFN_SHIFT_R,
    ROLE_FFN_R,
    ROLE_COUNT
};

enum { TENSOR_NAME_MAX = 160 };

/* How the rows of a fused Q, K, V tensor lie. */
enum qkv_layout {
    QKV_STACKED,  /* all of Q, all of K, all of V */
    QKV_PER_HEAD, /* for each head its q, k, v */
    QKV_PER_GROUP /* for each KV head its queries, then its k, its v */
};

struct name_prefix {
    const char *body, *outside;
};

struct name_table {
    const char *patterns[ROLE_COUNT];
    /* [MIXER_KIND_COUNT], or NULL: of layers whose mixer has names of its own (NULL: it has none);
     * roles outside of layers are here */
    const struct name_table *const *by_mixer;
    const struct name_prefix *prefixes; /* ended by a NULL body; NULL: NAME_PREFIXES */
    /* patterns of tensors that carry nothing (old buffers) or belong to a part that is not served
     * ("%s" at the end: anything), ended by NULL */
    const char *const *ignored;
    enum qkv_layout qkv;
    bool head_norms;         /* QK_NORM_HEADS: a tensor each, the second "%u" */
    bool transposed;         /* matrices of layers are stored [in, out] */
    bool experts_transposed; /* ROLE_EXPERTS_ are [experts, in, out] */
    /* layers behind the last (for drafting) are not served and may be there */
    bool extra_layers;
};

/* The usual places of a body: "model.", inside a wrapper, or nowhere. */
extern const struct name_prefix NAME_PREFIXES[];
extern const struct name_table LLAMA_NAMES, OLMO2_NAMES, GEMMA2_NAMES, PHI3_NAMES, STABLELM_NAMES,
    PHI_NAMES, STARCODER2_NAMES, GLM4_NAMES, GLM_NAMES, FALCON_NAMES, FALCON_TWO_NORM_NAMES,
    GPT2_NAMES, NEOX_NAMES, GPTJ_NAMES, OPT_NAMES, BLOOM_NAMES, MPT_NAMES, BERT_NAMES,
    BERT_SCORE_NAMES, ROBERTA_SCORE_NAMES, MODERNBERT_NAMES, MODERNBERT_SCORE_NAMES,
    NOMIC_BERT_NAMES, JINA_BERT_NAMES;
/* name_tables_moe.c */
extern const struct name_table OXIDIZR_NAMES, EXPERT_NAMES, DEEPSEEK_NAMES, MIXTRAL_NAMES,
    GRANITE_MOE_NAMES, GPT_OSS_NAMES, LLAMA4_NAMES;
/* name_tables_state.c */
extern const struct name_table MAMBA_NAMES, MAMBA2_NAMES, NEMOTRON_H_NAMES, FALCON_H1_NAMES,
    JAMBA_NAMES, BAMBA_NAMES, GRANITE_HYBRID_NAMES, LFM2_NAMES, LFM2_MOE_NAMES, QWEN3_NEXT_NAMES,
    QWEN3_5_NAMES, RECURRENT_GEMMA_NAMES, RWKV4_NAMES, RWKV6_NAMES, RWKV7_NAMES;
extern const struct name_table *const OXIDIZR_MIXER_NAMES[];

/* The table of a layer with this mixer (enum mixer_kind). */
static inline const struct name_table *layer_names(const struct name_table *names, int mixer) {
    return names->by_mixer && names->by_mixer[mixer] ? names->by_mixer[mixer] : names;
}

/* The tensor's name; layer counts only where the pattern has one. prefix NULL: the table's first.
 * False when the table has no such role. */
bool role_name(const struct name_table *names, const struct name_prefix *prefix,
               enum weight_role role, uint32_t layer, char out[TENSOR_NAME_MAX]);
/* The same with an expert. */
bool role_expert_name(const struct name_table *names, const struct name_prefix *prefix,
                      enum weight_role role, uint32_t layer, uint32_t expert,
                      char out[TENSOR_NAME_MAX]);
/* True when the name is one of a layer from `layer_count` on and the table has extra_layers. */
bool name_is_beyond(const struct name_table *names, const struct name_prefix *prefix,
                    const char *name, uint32_t layer_count);
/* True when the name matches an ignored pattern ("%u": any digits). */
bool name_is_ignored(const struct name_table *names, const struct name_prefix *prefix,
                     const char *name);

#endif
