/*
 * spec.h - what a network is, as a table: for each layer norms and their places, mixer,
 * feed-forward and their options. One forward pass (forward.h) walks it; no code is written per
 * architecture.
 *
 * A family (read/families*.c) is a row: the names it goes by, what its configuration class assumes,
 * which config field means which option, the name table that maps tensors to roles (names.h). A new
 * architecture is a row, a golden and, where the mathematics is new, a new mixer or feed-forward:
 * an entry in MIXERS or FFNS (layer_kinds.h), whose file brings its weights, its buffers, its cache
 * and its step.
 *
 * A layer, with x the residual stream and a missing norm the identity:
 *   serial:    x = x + s mixer_post(mixer(mixer_norm(x))), then the same with the feed-forward and
 *              its norms.
 *   norm_last: x = mixer_norm(x + s mixer(x)), then the same with the feed-forward.
 *   parallel:  x = x + s mixer(mixer_norm(x)) + s ffn(ffn_norm(x)); without an ffn_norm the
 *              feed-forward takes mixer_norm(x).
 * In a serial layer a second mixer may stand beside the first and take the same input:
 *              x = x + s mixer(mixer_norm(x)) + t beside(mixer_norm(x)).
 * At most one of the two has keys and values, and at most one has a state.
 *
 * Invariants of a spec made by spec_read: every count is positive and bounded (SPEC_ limits), so
 * sizes computed from it in 64 bits do not overflow; kv_heads divides heads; rotary dims are even
 * and at most head_dim.
 *
 * Threading: plain values; owned by the model, read-only after it is made.
 */
#ifndef MODEL_SPEC_H
#define MODEL_SPEC_H

#include "base/error.h"
#include "formats/config.h"
#include "kernels/ops.h"
#include "model/norm_spec.h"
#include "model/read/pooling.h"
#include "model/run/ffn_moe.h"
#include "model/run/mixer_attention.h"
#include "model/run/mixer_delta.h"
#include "model/run/mixer_latent.h"
#include "model/run/mixer_mamba1.h"
#include "model/run/mixer_mamba2.h"
#include "model/run/mixer_mamba3.h"
#include "model/run/mixer_rglru.h"
#include "model/run/mixer_rwkv.h"

enum {
    SPEC_LAYERS_MAX = 1024,
    SPEC_HIDDEN_MAX = 1 << 16,
    SPEC_FFN_MAX = 1 << 20,
    SPEC_VOCAB_MAX = 1 << 22,
    SPEC_HEADS_MAX = 1024,
    SPEC_HEAD_DIM_MAX = 512,
    SPEC_STATE_MAX = 4096,
    /* longest sequence served, whatever the config says: WIRE_MAX_TOKENS */
    SPEC_CONTEXT_MAX = 1 << 20,
    SPEC_ROPES_MAX = 4,
    SPEC_LABELS_MAX = 4096
};

enum mixer_kind {
    MIXER_NONE = 0,
    MIXER_ATTENTION = 1,
    MIXER_LATENT,
    MIXER_MAMBA1,
    MIXER_MAMBA2,
    MIXER_MAMBA3,
    MIXER_RWKV4,
    MIXER_RWKV6,
    MIXER_RWKV7,
    MIXER_RGLRU,
    MIXER_DELTA,
    MIXER_SHORT_CONV,
    MIXER_KIND_COUNT
};
enum ffn_kind { FFN_NONE = 0, FFN_GATED = 1, FFN_PLAIN, FFN_MOE, FFN_RWKV, FFN_KIND_COUNT };

/* ---- rotary ---- */

enum rope_kind {
    ROPE_NONE = 0,
    ROPE_DEFAULT = 1,
    ROPE_LINEAR = 2,
    ROPE_LLAMA3 = 3,
    ROPE_YARN = 4,
    ROPE_DYNAMIC = 5,
    ROPE_LONG = 6 /* LongRoPE */
};

/* One table of inverse frequencies. */
struct rope_spec {
    enum rope_kind kind;
    uint32_t dims; /* of each head that are rotated: even */
    bool odd;      /* the config said one less: the frequencies count that */
    bool interleaved;
    double theta, factor, low_freq_factor, high_freq_factor, original_context;
    double beta_fast, beta_slow;
    bool no_truncate;                  /* YaRN: bounds are not rounded to whole dims */
    double scale;                      /* of cos and sin */
    float *short_factor, *long_factor; /* LongRoPE: [dims / 2], owned */
};

/* ---- mixers ---- */

/* Mixers with a state (kernels/ops_state.h has the formulas): what several of them have, and what
 * only one has, declared beside it. */
struct recurrent_spec {
    enum mixer_kind kind;        /* which mixer; MIXER_NONE: the layer has no state */
    uint32_t width;              /* inner channels */
    uint32_t heads, head_dim;    /* Mamba 2 and 3, delta rule, RG-LRU, RWKV-6 and 7 */
    uint32_t groups, state_size; /* Mamba: of B and C; delta rule: key heads and their size */
    uint32_t taps;               /* of the convolution; 0: none */
    bool conv_bias, in_bias, out_bias;
    bool decay_plain;      /* files keep A itself, as GGUF does, not the logarithm of -A */
    float eps;             /* of inner norms */
    struct ssm_spec ssm;   /* Mamba 2 and 3 */
    struct rwkv_spec rwkv; /* every RWKV */
    union {                /* by kind */
        struct mamba1_spec mamba1;
        struct mamba2_spec mamba2;
        struct mamba3_spec mamba3;
        struct delta_spec delta;
        struct rglru_spec rglru;
        struct rwkv6_spec rwkv6;
        struct rwkv7_spec rwkv7;
    };
};

/* Whether it has a state, not keys and values. */
static inline bool mixer_has_state(enum mixer_kind kind) {
    return kind > MIXER_LATENT;
}

/* ---- feed-forwards ---- */

struct ffn_spec {
    enum ffn_kind kind;
    uint32_t width;
    enum activation activation;
    bool bias; /* of what comes in: gate and up */
    bool down_bias;
    float gate_scale; /* gated: of what the activation takes; 0: none */
};

/* ---- layers ---- */

struct layer_spec {
    bool parallel, norm_last;
    struct norm_spec mixer_norm, mixer_post, ffn_norm, ffn_post; /* kind NORM_NONE: not there */
    /* of what mixer, beside and feed-forward add to x */
    float residual_scale, beside_scale, ffn_scale;
    enum mixer_kind mixer, beside;
    float mixer_in_scale, beside_in_scale; /* with a mixer beside: of what each takes */
    struct attention_spec attention;
    struct latent_spec latent;
    struct recurrent_spec recurrent;
    struct ffn_spec ffn;
    struct moe_spec moe;
    bool mixer_partial, beside_partial,
        ffn_partial; /* several ranks divide it (shard.h): their results are to be added up */
};

/* ---- heads that score ---- */

enum score_kind {
    SCORE_NONE = 0,
    SCORE_TANH,   /* out . tanh(dense x): BERT, RoBERTa */
    SCORE_NORMED, /* out . norm(activation(dense x)): ModernBERT */
    SCORE_LINEAR  /* out . x: decoders */
};

/* A head that makes scores of a prompt: one for each label. */
struct score_spec {
    enum score_kind kind;
    uint32_t label_count;
    enum pooling pooling; /* of what */
    enum activation activation;
    bool dense_bias, out_bias;
    struct norm_spec norm;
};

struct name_table;

struct model_spec {
    const char *family;                    /* "llama" */
    const struct name_table *names;        /* in the files that are read */
    const struct name_table *folder_names; /* in a folder of this family */
    /* what a folder's norm weights lack; GGUF files have it added */
    float folder_norm_offset;
    /* a folder's latent heads rotate halves; GGUF files' pairs */
    bool folder_halves;
    uint32_t hidden, vocab, layer_count, max_context;
    /* positions see those behind them too, of the same prompt: nothing is written, and a prompt is
     * one step */
    bool bidirectional;
    uint32_t window_ahead; /* bidirectional: of those so many, in layers with a window */
    struct score_spec score;
    bool headless; /* there is no head that writes: it makes vectors alone */
    float embed_scale;
    /* layer_norm: what layers' norms are like */
    struct norm_spec embed_norm, final_norm, layer_norm;
    float logit_scale, logit_soft_cap; /* soft_cap 0: none */
    bool tied_head, head_bias;
    /* rows of the table of learned positions; 0: none */
    uint32_t learned_positions, position_offset;
    /* rows of the table of types; 0: none. A model that scores pairs adds the first one's to the
     * first text and the second one's to the other, all others the first one's */
    uint32_t token_types;
    /* differs from hidden where the ends are projected */
    uint32_t embed_dim;
    uint32_t rope_count;
    struct rope_spec ropes[SPEC_ROPES_MAX];
    struct layer_spec *layers; /* owned, [layer_count] */
    char *unread; /* fields of the config that were passed over, "a, b"; owned, NULL: none */
};

/* Whether each token's type is added by itself: those of a pair's second text have another one, or
 * there is no table of positions that has the first one added. */
static inline bool spec_adds_types(const struct model_spec *spec) {
    return spec->score.kind ? spec->token_types > 1 : spec->token_types && !spec->learned_positions;
}

/* How a config is read. */
struct spec_options {
    const char *accept; /* comma-separated field names that may be there unread; NULL */
    bool strict;        /* a field that nobody reads is an error (read/unread.h) */
    bool common_names;  /* the config is made of a GGUF file: every field has its common name */
};

/* Reads a config in its family's sense and checks that nothing in it was ignored that could change
 * what the model computes (read/unread.h). o: NULL for the usual reading. Errors: ERR_UNSUPPORTED
 * names the field (or architecture) we lack, ERR_INVALID the one that makes no sense; the spec then
 * holds nothing. Else it is released with spec_release. */
MUST_CHECK int spec_read(struct model_spec *spec, struct config *config,
                         const struct spec_options *o, struct error *err);
/* The same from a file's bytes. */
MUST_CHECK int spec_read_text(struct model_spec *spec, struct bytes text,
                              const struct spec_options *o, struct error *err);
/* Frees its layers; spec may be zeroes, and is zeroes then. */
void spec_release(struct model_spec *spec);

#endif
