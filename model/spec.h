/*
 * spec.h - what a network is, as a table: for each layer norm, mixer, feed-forward and their options. One forward pass
 * (forward.h) walks it; no code is written per architecture.
 *
 * A family (families.c) is a row: the names it goes by, the defaults its configuration class has, the name table that
 * maps tensors to roles (names.h). A new architecture is a row, a golden and, where the mathematics is new, a new mixer
 * or feed-forward kind.
 *
 * Invariants of a spec made by spec_from_config: every count is positive and bounded (SPEC_ limits), so sizes computed
 * from it in 64 bits do not overflow; kv_heads divides heads; rotary dims are even and at most head_dim.
 *
 * Threading: plain values; owned by the model, read-only after it is made.
 */
#ifndef MODEL_SPEC_H
#define MODEL_SPEC_H

#include "base/error.h"
#include "formats/config.h"
#include "kernels/ops.h"

enum {
    SPEC_LAYERS_MAX = 1024,
    SPEC_HIDDEN_MAX = 1 << 16,
    SPEC_FFN_MAX = 1 << 20,
    SPEC_VOCAB_MAX = 1 << 22,
    SPEC_HEADS_MAX = 1024,
    SPEC_HEAD_DIM_MAX = 512,
    SPEC_CONTEXT_MAX = 1 << 20, /* longest sequence served, whatever the config says: WIRE_MAX_TOKENS */
    SPEC_ROPES_MAX = 4
};

enum mixer_kind { MIXER_ATTENTION = 1 };
enum ffn_kind { FFN_GATED = 1 };
enum rope_kind { ROPE_NONE = 0, ROPE_DEFAULT = 1, ROPE_LINEAR = 2, ROPE_LLAMA3 = 3 };

/* One table of inverse frequencies. */
struct rope_spec {
    enum rope_kind kind;
    uint32_t dims; /* of each head that are rotated */
    bool interleaved;
    double theta, factor, low_freq_factor, high_freq_factor, original_context;
    double scale; /* of cos and sin */
};

struct attention_spec {
    uint32_t heads, kv_heads, head_dim;
    uint32_t window; /* 0: all positions */
    uint32_t rope_idx;
    uint32_t kv_group;
    float scale;
    bool qkv_bias, out_bias;
};

struct ffn_spec {
    enum ffn_kind kind;
    uint32_t width;
    enum activation activation;
    bool bias;
};

struct layer_spec {
    enum mixer_kind mixer;
    struct attention_spec attention;
    struct ffn_spec ffn;
};

struct name_table;

struct model_spec {
    const char *family; /* "llama" */
    const struct name_table *names;
    uint32_t hidden, vocab, layer_count, max_context;
    float norm_eps, norm_weight_offset, embed_scale;
    bool tied_head;
    uint32_t rope_count;
    struct rope_spec ropes[SPEC_ROPES_MAX];
    struct layer_spec *layers; /* owned, [layer_count] */
};

/* Errors: ERR_UNSUPPORTED names the field (or architecture) we lack, ERR_INVALID the one that makes no sense. */
MUST_CHECK int spec_from_config(struct model_spec *spec, const struct hf_config *config, struct error *err);
void spec_release(struct model_spec *spec);
/* inv_freq[dims / 2] of a rotary table. Formulas: Su et al. 2021 (RoPE); linear: Chen et al. 2023; llama3: Llama 3.1's
 * published rope scaling. */
void rope_inv_freq(const struct rope_spec *rope, float *inv_freq);
/* Outputs of the merged Q, K, V product: (heads + 2 kv_heads) * head_dim. */
static inline uint32_t qkv_width(const struct attention_spec *a) { return (a->heads + 2 * a->kv_heads) * a->head_dim; }

#endif
