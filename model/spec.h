/*
 * spec.h - what a network is, as a table: for each layer norms and their places, mixer, feed-forward and their options.
 * One forward pass (forward.h) walks it; no code is written per architecture.
 *
 * A family (families.c) is a row: the names it goes by, what its configuration class assumes, which config field means
 * which option, the name table that maps tensors to roles (names.h). A new architecture is a row, a golden and, where
 * the mathematics is new, a new mixer or feed-forward: an entry in MIXERS or FFNS (layer_kinds.h), whose file brings
 * its weights, its buffers, its cache and its step.
 *
 * A layer, with x the residual stream and a missing norm the identity:
 *   serial:    x = x + s mixer_post(mixer(mixer_norm(x))), then the same with the feed-forward and its norms.
 *   norm_last: x = mixer_norm(x + s mixer(x)), then the same with the feed-forward.
 *   parallel:  x = x + s mixer(mixer_norm(x)) + s ffn(ffn_norm(x)); without an ffn_norm the feed-forward takes
 *              mixer_norm(x).
 * A mixer may have another beside it that takes the same: x = x + s mixer(mixer_norm(x)) + t beside(mixer_norm(x)),
 * serial. Only one of the two has keys and values, and only one a state.
 *
 * Invariants of a spec made by spec_read: every count is positive and bounded (SPEC_ limits), so sizes computed from it
 * in 64 bits do not overflow; kv_heads divides heads; rotary dims are even and at most head_dim.
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
    SPEC_STATE_MAX = 4096,
    SPEC_CONTEXT_MAX = 1 << 20, /* longest sequence served, whatever the config says: WIRE_MAX_TOKENS */
    SPEC_ROPES_MAX = 4
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

/* ---- norms ---- */

enum norm_kind { NORM_NONE = 0, NORM_RMS, NORM_LAYER };
struct norm_spec {
    enum norm_kind kind;
    bool bias, plain;         /* plain: without weights */
    float eps, weight_offset; /* (weight + offset): Gemma and Nemotron store weight - 1 */
};

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
    struct norm_spec q_norm;            /* of both q and k */
    uint32_t norm_heads, norm_kv_heads; /* QK_NORM_WHOLE: heads of all ranks where they divide them (shard.h), or 0; */
    bool norm_first;                    /* and whether this rank is the first that has its KV heads */
    bool alibi, alibi_scaled;           /* scaled: slopes are rounded to bf16 and count before the scale */
    float clip;                         /* of Q, K and V; 0: none */
    uint32_t chunk;                     /* attention within chunks of so many positions; 0: none */
    float temperature, temperature_floor; /* op_temper_queries; temperature 0: none */
    float temperature_offset;
    bool sinks; /* a score of each head that has no value */
};

/* Latent attention (kernels/ops_latent.h). A head's query and key have nope dims without and rope dims with rotation.
 */
struct latent_spec {
    uint32_t heads;
    uint32_t q_rank, rank; /* of the queries' latent (0: none) and of the cached one */
    uint32_t nope, rope, value;
    uint32_t rope_idx;
    float scale;
    bool bias;             /* of the products into the latents, and of the last */
    bool apart;            /* rotated queries come from the hidden state; K's and V's products up are two */
    struct norm_spec norm; /* of both latents */
};

/* Mixers with a state (kernels/ops_state.h has the formulas). */
enum inner_norm { INNER_NORM_NONE = 0, INNER_NORM_GATE_FIRST, INNER_NORM_FIRST };
struct recurrent_spec {
    uint32_t width;              /* inner channels */
    uint32_t heads, head_dim;    /* Mamba 2; delta rule: of values; RG-LRU: blocks of the gates */
    uint32_t groups, state_size; /* Mamba: of B and C; delta rule: key heads and their size */
    uint32_t taps;               /* of the convolution; 0: none */
    uint32_t rank;               /* Mamba 1: of the step's product */
    bool conv_bias, in_bias, out_bias;
    enum inner_norm inner_norm;    /* before the output product, together with the gate */
    uint32_t norm_group;           /* channels a group of it */
    uint32_t norm_width;           /* 0, or the channels of all ranks: its groups span several, */
    uint32_t norm_first;           /* and where this rank's begin (shard.h) */
    float eps;                     /* of inner norms */
    bool part_norms;               /* Mamba 1: norms of step, B and C, */
    bool part_weights;             /* with weights */
    bool rising;                   /* Mamba 1: A is exp(-a_log), not -exp(A_log), */
    float state_limit;             /* and the state is kept within this; 0: no limit */
    float step_low, step_high;     /* limits of the step */
    bool fused_heads, fused_beta;  /* delta rule: q, k, v, z, and beta and step, interleaved by key head, */
    bool tiled;                    /* and which key head a value head has (op_delta) */
    enum gate_kind branch;         /* RG-LRU: of the second branch */
    uint32_t mix_rank, decay_rank; /* RWKV-6 */
    uint32_t decay_low, rate_low, value_low, gate_low; /* RWKV-7: ranks of low-rank products */
    bool first;                                        /* RWKV-7: the layer whose values the others mix in */
    bool mix_present;  /* RWKV: files keep how much of the present position is taken, not of the one before */
    bool receptance;   /* RWKV: channel mixing has a gate */
    bool decay_plain;  /* files keep A itself, as GGUF does, not the logarithm of -A */
    bool turns;        /* Mamba 3: states turn, */
    uint32_t widening; /* and heads are so many times as wide inside; 0: they are not */
    bool scaled;       /* Mamba 2: what the first product gives is multiplied: */
    float scales[5];   /* of z, x, B, C and the step */
};

/* ---- feed-forwards ---- */

struct ffn_spec {
    enum ffn_kind kind;
    uint32_t width;
    enum activation activation;
    bool bias;        /* of all its projections */
    float gate_scale; /* gated: of what the activation takes; 0: none */
};

/* FFN_MOE (kernels/ops_expert.h); ffn_spec.activation is that of its experts. */
struct moe_spec {
    struct router router;
    uint32_t width;        /* of an expert */
    uint32_t shared_width; /* of the expert every row passes; 0: none */
    bool shared_gate;      /* scaled by a sigmoid of a product of its own */
    bool correction, router_bias, expert_bias;
    bool plain;         /* experts and shared expert have no gate: down(f(up(x))) */
    bool inner_bias;    /* with it: of the shared expert and of the latent's products */
    uint32_t latent;    /* experts work on a latent of this width; 0: on the hidden state */
    bool weigh_input;   /* weights scale what goes in, not what comes out */
    bool clamped;       /* op_clamped_swiglu, not the activation */
    bool interleaved;   /* with it: gate, up, gate, up, ... */
    bool mxfp4;         /* the folder has the experts as blocks and scales (model/mxfp4.h) */
    float limit, alpha; /* of it */
};

/* ---- layers ---- */

struct layer_spec {
    bool parallel, norm_last;
    struct norm_spec mixer_norm, mixer_post, ffn_norm, ffn_post; /* kind NORM_NONE: not there */
    float residual_scale, beside_scale, ffn_scale;               /* of what mixer, beside and feed-forward add to x */
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

struct name_table;

struct model_spec {
    const char *family;                    /* "llama" */
    const struct name_table *names;        /* in the files that are read */
    const struct name_table *folder_names; /* in a folder of this family */
    float folder_norm_offset;              /* what a folder's norm weights lack; GGUF files have it added */
    bool folder_halves;                    /* a folder's latent heads rotate halves; GGUF files' pairs */
    uint32_t hidden, vocab, layer_count, max_context;
    float embed_scale;
    struct norm_spec embed_norm, final_norm, layer_norm; /* layer_norm: what layers' norms are like */
    float logit_scale, logit_soft_cap;                   /* soft_cap 0: none */
    bool tied_head, head_bias;
    uint32_t learned_positions, position_offset; /* rows of the table of learned positions; 0: none */
    uint32_t embed_dim;                          /* differs from hidden where the ends are projected */
    uint32_t rope_count;
    struct rope_spec ropes[SPEC_ROPES_MAX];
    struct layer_spec *layers; /* owned, [layer_count] */
};

/* Reads a config in its family's sense and checks that nothing in it was ignored. accept: comma-separated field names
 * that may be, or NULL. Errors: ERR_UNSUPPORTED names the field (or architecture) we lack, ERR_INVALID the one that
 * makes no sense. */
MUST_CHECK int spec_read(struct model_spec *spec, struct config *config, const char *accept, struct error *err);
/* The same from a file's bytes. */
MUST_CHECK int spec_read_text(struct model_spec *spec, struct bytes text, const char *accept, struct error *err);
void spec_release(struct model_spec *spec);
/* Outputs of the merged Q, K, V product: (heads + 2 kv_heads) * head_dim. */
static inline uint32_t qkv_width(const struct attention_spec *a) { return (a->heads + 2 * a->kv_heads) * a->head_dim; }

#endif
