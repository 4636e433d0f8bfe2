/*
 * spec_read.h - what readers of a config share: the config, the family's row, the spec in the
 * making; and the row itself.
 *
 * A row says in data what a family's code says in words: fields are named by strings, and a
 * yes-or-no option is a *rule*: NULL or "": no; "yes": always; "field": as that boolean of the
 * config says; "!field": the opposite.
 */
#ifndef MODEL_SPEC_READ_H
#define MODEL_SPEC_READ_H

#include "model/read/names.h"
#include "model/spec.h"

enum window_rule {
    WINDOW_NEVER,
    WINDOW_ALWAYS,   /* "sliding_window" for all layers */
    WINDOW_SWITCHED, /* the same, with "use_sliding_window" */
    WINDOW_UPPER,    /* "use_sliding_window", from max_window_layers on */
    WINDOW_FROM,     /* by "layer_types", else from max_window_layers on */
    WINDOW_NOPE,     /* "use_sliding_window", layers without rotation */
    WINDOW_LISTED, /* by "layer_types", else by sliding_window_pattern: every n-th layer sees all */
    WINDOW_SPACED  /* the same, the first and every global_attn_every_n_layers-th from there */
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
/* What a layer's name in the list of layer types, or its letter in a pattern, means. */
struct layer_type {
    const char *name;
    enum mixer_kind mixer;
    bool windowed;
    char letter;       /* 0: none */
    bool own_ffn;      /* the type says which feed-forward, not the family: */
    enum ffn_kind ffn; /* this one */
};

/* Factors at a layer's places (muP). Each a field; NULL: 1. */
struct multipliers {
    const char *key;                    /* of keys, before attention's scores */
    const char *mixer_in, *mixer_out;   /* of what the mixer takes and gives */
    const char *beside_in, *beside_out; /* of the mixer beside it */
    const char *ffn; /* two numbers: what the gate's activation takes, what comes out */
};

struct moe_family;   /* moe_read.h */
struct state_family; /* state_read.h */
struct spec_reader;
/* How many heads keys and values have. */
enum kv_rule {
    KV_FIELD, /* num_key_value_heads, else as many as queries */
    KV_HEADS, /* as many as queries */
    KV_FALCON /* num_kv_heads in the new architecture, else 1 with multi_query, else as many as queries */
};

struct family {
    const char *architectures; /* comma-separated */
    /* "field=value|value ...": of several rows of an architecture the first that fits; "null": not
     * there */
    const char *when;
    const char *model_types; /* comma-separated; of config.json, and of text_config */
    const char *name;
    const struct name_table *names;
    /* JSON: what the configuration class assumes (only fields that are read) */
    const char *defaults;
    /* "hidden_size=n_embd ...": the family's own names of common fields; ":=": its reference knows only
     * its own ("a:=": none at all) and passes over the common one */
    const char *aliases;

    enum norm_kind norm;
    const char *norm_bias; /* rule */
    const char *norm_eps;  /* field; NULL: rms_norm_eps or layer_norm_eps by kind */
    bool norm_plain;       /* without weights */
    float norm_weight_offset;
    enum norm_places places;
    const char *parallel; /* rule: parallel residual */
    bool one_norm;        /* with parallel: one norm for both */
    bool first_bare;      /* the first layer's mixer has no norm before it */

    /* A layer's mixer: by the list of layer types, else by the pattern of letters, else by the rule
     * that says which layers are attention, else this one. 0: attention. */
    enum mixer_kind mixer;
    enum mixer_kind beside;               /* a mixer beside it, in every layer; 0: none */
    const struct layer_type *layer_types; /* ended by a NULL name; NULL: the usual ones */
    const char *types_field;              /* the list of layer types; NULL: "layer_types" */
    bool types_repeat;                    /* a list shorter than the layers begins anew */
    const char *layer_letters;            /* field: a letter for each layer */
    const char *attention_listed;         /* field: the numbers of the layers that are attention */
    bool attention_unlisted;              /* without such a list all are */
    /* fields: layer i is attention where i modulo the period is the offset; without an offset the
     * last of each period */
    const char *attention_period, *attention_offset;
    const struct state_family *state;      /* of its mixers with a state; ended by MIXER_NONE */
    const struct multipliers *multipliers; /* NULL: none */
    const char *halved_every;        /* field: RWKV halves the residual every so many layers */
    const char *qkv_bias, *out_bias; /* rules */
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
    bool latent_apart; /* oxidizr's form of latent attention */
    /* field: layers that rotate see their own chunk of so many positions */
    const char *chunk;
    /* field, a truth or a number: queries of layers without rotation are tempered */
    const char *temperature;
    bool rope_scales_queries; /* rotary options say how queries are scaled (Ministral 3) */
    /* QK norms have no weights, and only layers that rotate have them (rotating an RMS norm without
     * weights changes nothing, so before or after is the same) */
    bool qk_norm_plain;
    /* of each head that is rotated where partial_rotary_factor is not given; 0: all */
    double rotary_factor;
    enum nope_rule nope;
    /* windowed layers have a rotary table of their own: unscaled, "rope_local_base_freq" */
    bool local_rope;
    const char *alibi; /* rule */
    bool alibi_scaled; /* ALiBi counts before the scale, and in bf16 (Falcon) */

    bool gelu_is_tanh; /* a hidden_act of "gelu" means gelu_pytorch_tanh (Gemma 1 as published) */
    enum ffn_kind ffn; /* 0: gated */
    bool no_ffn;       /* layers are a mixer alone */
    const char *ffn_bias;  /* rule */
    const char *down_bias; /* rule: of the last projection alone */
    uint32_t ffn_factor;   /* without a width: so many times the hidden size */
    const char *ffn_ratio; /* field: the same factor */
    bool ffn_halved;       /* intermediate_size counts gate and up together */
    /* rule: the width is two thirds of intermediate_size, times block_ffn_dim_multiplier, rounded up
     * to a multiple of block_multiple_of */
    const char *ffn_two_thirds;
    const struct moe_family *moe; /* of FFN_MOE */
    /* "field=value ...": a field that is there must have this value; "*": any, it changes nothing
     * here. */
    const char *expects;

    const char *final_norm;        /* rule; NULL: yes */
    float final_norm_eps;          /* whatever the config says; 0: as the config says */
    const char *embed_scale;       /* field; "sqrt_hidden": sqrt(hidden) */
    bool embed_scale_bf16;         /* rounded so */
    const char *residual_scale;    /* field */
    const char *logit_scale;       /* field */
    const char *logit_divisor;     /* field: 1 / it */
    const char *logit_cap;         /* field */
    const char *head_bias;         /* rule */
    const char *learned_positions; /* rule */
    uint32_t position_offset;
    bool positions_inclusive; /* the context as told counts the offset */
    bool bidirectional;
    enum score_kind score;     /* a head of one label */
    const char *score_pooling; /* field: "cls" or "mean"; NULL: the first position */
    const char *score_bias;    /* rule, of SCORE_NORMED's first product */
    const char *token_types;   /* field: how many segments have a row; NULL: none */
    const char *embed_norm;    /* rule: a norm after the embedding */
};

struct spec_reader {
    struct config *config;
    uint32_t top; /* node of the object read: 0, or text_config */
    const struct family *family;
    struct model_spec *spec;
    bool common_names; /* of spec_options */
};

/* The family's name of a common field. */
const char *field_name(const struct spec_reader *r, const char *field, char out[64]);
/* Getters by common names; what is absent in file and defaults is the fallback. */
int64_t read_int(struct spec_reader *r, const char *field, int64_t fallback);
/* A number, with or without a fraction. */
double read_double(struct spec_reader *r, const char *field, double fallback);
/* true or false; null counts as absent. */
bool read_bool(struct spec_reader *r, const char *field, bool fallback);
/* A string; borrowed from the config. */
const char *read_text(struct spec_reader *r, const char *field, const char *fallback);
bool read_has(struct spec_reader *r, const char *field); /* in the file, not null */
/* "yes", a field that is true, or "!" and one that is not; NULL or "": false. */
bool read_rule(struct spec_reader *r, const char *rule);
/* An integer in [1, max], else the config fails. */
uint32_t read_count(struct spec_reader *r, const char *field, int64_t fallback, int64_t max);
/* Fails with "'field' = 'value' is not supported". Returns the code. */
int read_unsupported(struct spec_reader *r, const char *field, const char *value);
/* The family's norm. */
struct norm_spec read_norm(struct spec_reader *r);
/* By HF's names; a name we lack fails as read_unsupported. */
int read_activation(struct spec_reader *r, const char *field, enum activation *out);
/* What the list of layer types says of layer i; NULL where the config has no such list. */
const char *read_layer_type(struct spec_reader *r, uint32_t i);

/* spec_absent.c: marks what describes parts that no layer of this model has. */
void consume_absent(struct spec_reader *r);

/* `count` numbers into out. False: the field is not there; another count is an error. */
bool read_factors(struct spec_reader *r, const char *field, float *out, uint32_t count);
/* NULL: gives 1. */
float read_multiplier(struct spec_reader *r, const char *field);

/* Fills layer->attention (attention_read.c). */
int attention_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out);

/* families.c, families_early.c, families_encoders.c, families_moe.c, families_state.c */
extern const struct family FAMILIES[], EARLY_FAMILIES[], ENCODER_FAMILIES[];
extern const struct family MOE_FAMILIES[], STATE_FAMILIES[];
extern const size_t FAMILY_COUNT, EARLY_FAMILY_COUNT, ENCODER_FAMILY_COUNT;
extern const size_t MOE_FAMILY_COUNT, STATE_FAMILY_COUNT;

#endif
