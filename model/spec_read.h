/*
 * spec_read.h - what readers of a config share: the config, the family's row, the spec in the making; and the row
 * itself.
 *
 * A row says in data what a family's code says in words: fields are named by strings, and a yes-or-no option is a
 * *rule*: NULL or "": no; "yes": always; "field": as that boolean of the config says; "!field": the opposite.
 */
#ifndef MODEL_SPEC_READ_H
#define MODEL_SPEC_READ_H

#include "model/names.h"
#include "model/spec.h"

enum window_rule {
    WINDOW_NEVER,
    WINDOW_ALWAYS,   /* "sliding_window" for all layers */
    WINDOW_SWITCHED, /* the same, with "use_sliding_window" */
    WINDOW_UPPER,    /* "use_sliding_window", from max_window_layers on */
    WINDOW_FROM,     /* by "layer_types", else from max_window_layers on */
    WINDOW_NOPE,     /* "use_sliding_window", layers without rotation */
    WINDOW_LISTED    /* by "layer_types", else by sliding_window_pattern: every n-th layer sees all */
};
enum norm_places {
    PLACES_PRE,      /* x + f(norm(x)) */
    PLACES_POST,     /* x + norm(f(x)) */
    PLACES_SANDWICH, /* x + norm(f(norm(x))) */
    PLACES_RESIDUAL  /* norm(x + f(x)) */
};
/* Which layers have no rotation. */
enum nope_rule {
    NOPE_NEVER,
    NOPE_FULL,       /* those that see all positions */
    NOPE_FULL_MIXED, /* the same, where the config has a window at all */
    NOPE_TYPE,       /* all, unless "position_embedding_type" is "rope" */
    NOPE_LISTED      /* zeros of "no_rope_layers", else every no_rope_layer_interval-th */
};
/* What a layer type of "layer_types" (or of a rule of the family's) means. */
struct layer_type {
    const char *name;
    enum mixer_kind mixer;
    bool windowed;
};

struct moe_family; /* moe_read.h */
struct spec_reader;
/* How many heads keys and values have. */
enum kv_rule {
    KV_FIELD, /* num_key_value_heads, else as many as queries */
    KV_HEADS, /* as many as queries */
    KV_FALCON /* num_kv_heads in the new architecture, else 1 with multi_query, else as many as queries */
};

struct family {
    const char *architectures; /* comma-separated */
    const char *when;          /* "field=value|value ...": of several rows of an architecture the first that fits;
                                  "null": not there */
    const char *model_types;   /* comma-separated; of config.json, and of text_config */
    const char *name;
    const struct name_table *names;
    const char *defaults; /* JSON: what the configuration class assumes (only fields that are read) */
    const char *aliases;  /* "hidden_size=n_embd ...": the family's own names of common fields */

    enum norm_kind norm;
    const char *norm_bias; /* rule */
    const char *norm_eps;  /* field; NULL: rms_norm_eps or layer_norm_eps by kind */
    bool norm_plain;       /* without weights */
    float norm_weight_offset;
    enum norm_places places;
    const char *parallel; /* rule: parallel residual */
    bool one_norm;        /* with parallel: one norm for both */

    /* Sets the kinds of a layer where they differ from layer to layer; NULL: all are alike, or by layer_types. */
    void (*kinds)(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
    void (*finish)(struct spec_reader *r, uint32_t layer, struct layer_spec *out); /* last word on a layer; NULL */
    enum mixer_kind mixer;                /* 0: attention; of layers that layer_types gives no other */
    const struct layer_type *layer_types; /* ended by a NULL name; NULL: the usual ones */
    const char *qkv_bias, *out_bias;      /* rules */
    enum kv_rule kv_heads;
    bool output_gate;
    enum qk_norm qk_norm;
    const char *qk_norm_when;    /* rule; NULL: always */
    enum norm_kind qk_norm_kind; /* 0: the family's norm */
    enum window_rule window;
    const char *attention_scale;    /* field: the scale itself; NULL: 1 / sqrt(head_dim) */
    const char *attention_scale_of; /* field: 1 / sqrt of it */
    const char *attention_cap;      /* field */
    bool no_rope;
    bool rope_interleaved;
    const char *rope_interleaved_when; /* rule; instead of the line above */
    bool sinks;
    bool latent_apart;       /* oxidizr's form of latent attention */
    const char *chunk;       /* field: layers that rotate see their own chunk of so many positions */
    const char *temperature; /* field, a truth or a number: queries of layers without rotation are tempered */
    bool rope_tempers;       /* rotary options say how queries are tempered (Ministral 3) */
    bool qk_norm_plain;      /* QK norms have no weights, and only layers that rotate have them (rotating an RMS norm
                                without weights changes nothing, so before or after is the same) */
    double rope_part;        /* of each head that is rotated where partial_rotary_factor is not given; 0: all */
    enum nope_rule nope;
    bool local_rope;   /* windowed layers have a rotary table of their own: unscaled, "rope_local_base_freq" */
    const char *alibi; /* rule */
    bool alibi_scaled; /* ALiBi counts before the scale, and in bf16 (Falcon) */

    enum ffn_kind ffn;            /* 0: gated */
    const char *ffn_bias;         /* rule */
    uint32_t ffn_factor;          /* without a width: so many times the hidden size */
    const struct moe_family *moe; /* of FFN_MOE */
    /* "field=value ...": a field that is there must have this value; "*": any, it changes nothing here. */
    const char *expects;

    const char *final_norm;        /* rule; NULL: yes */
    const char *embed_scale;       /* field; "sqrt_hidden": sqrt(hidden) */
    const char *residual_scale;    /* field */
    const char *logit_scale;       /* field */
    const char *logit_divisor;     /* field: 1 / it */
    const char *logit_cap;         /* field */
    const char *head_bias;         /* rule */
    const char *learned_positions; /* rule */
    uint32_t position_offset;
    const char *embed_norm; /* rule: a norm after the embedding */
};

struct spec_reader {
    struct config *config;
    uint32_t top; /* node of the object read: 0, or text_config */
    const struct family *family;
    struct model_spec *spec;
};

/* The family's name of a common field. */
const char *field_name(const struct spec_reader *r, const char *field, char out[64]);
/* Getters by common names; what is absent in file and defaults is the fallback. */
int64_t read_int(struct spec_reader *r, const char *field, int64_t fallback);
double read_double(struct spec_reader *r, const char *field, double fallback);
bool read_bool(struct spec_reader *r, const char *field, bool fallback);
const char *read_text(struct spec_reader *r, const char *field, const char *fallback);
bool read_has(struct spec_reader *r, const char *field); /* in the file, not null */
bool read_rule(struct spec_reader *r, const char *rule);
/* An integer in [1, max], else the config fails. */
uint32_t read_count(struct spec_reader *r, const char *field, int64_t fallback, int64_t max);
/* Fails with "'field' = 'value' is not supported". Returns the code. */
int read_unsupported(struct spec_reader *r, const char *field, const char *value);
/* The family's norm. */
struct norm_spec read_norm(struct spec_reader *r);
int read_activation(struct spec_reader *r, const char *field, enum activation *out);
/* What "layer_types" says of layer i; NULL where the config has no such list. */
const char *read_layer_type(struct spec_reader *r, uint32_t i);

/* spec_absent.c: marks what describes parts that no layer of this model has. */
void consume_absent(struct spec_reader *r);

/* recurrent_read.c, oxidizr_read.c: read functions of mixers with a state, and what hybrids need
 * (families_state.inc.h). */
int mamba1_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
int mamba2_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
int delta_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
int short_conv_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
int rwkv4_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
int rwkv6_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
int rwkv7_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
int rwkv_ffn_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void finish_rwkv4(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
int rglru_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
extern const struct moe_family JAMBA_MOE, GRANITE_HYBRID_MOE, NEMOTRON_H_MOE, QWEN2_MOE, QWEN3_5_MOE;
extern const struct layer_type GRANITE_HYBRID_TYPES[], QWEN_NEXT_TYPES[], LFM2_TYPES[], OXIDIZR_TYPES[];
int oxidizr_mamba1_read(struct spec_reader *r, struct recurrent_spec *s);
int oxidizr_mamba3_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void kinds_oxidizr(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void finish_oxidizr(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void kinds_lfm2(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void kinds_no_ffn(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void kinds_jamba(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void kinds_bamba(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void kinds_granite_hybrid(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void kinds_falcon_h1(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void finish_falcon_h1(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void kinds_nemotron_h(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void kinds_qwen_next(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void kinds_recurrent_gemma(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void finish_lfm2(struct spec_reader *r, uint32_t layer, struct layer_spec *out);
void finish_recurrent_gemma(struct spec_reader *r, uint32_t layer, struct layer_spec *out);

/* families.c */
extern const struct family FAMILIES[];
extern const size_t FAMILY_COUNT;

#endif
