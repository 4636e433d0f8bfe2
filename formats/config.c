/*
 * Two tables say everything: FIELDS (name, type, where it goes) and HARMLESS (names that change nothing at inference).
 */
#include "formats/config.h"

#include "base/buf.h"
#include "formats/json.h"

#include <math.h>
#include <stdio.h>

enum field_type { FIELD_INT, FIELD_NUMBER, FIELD_BOOL, FIELD_TEXT };
struct field {
    const char *name;
    enum field_type type;
    size_t offset;
};

#define AT(member) offsetof(struct hf_config, member)
static const struct field FIELDS[] = {
    {"model_type", FIELD_TEXT, AT(model_type)},
    {"dtype", FIELD_TEXT, AT(dtype)},
    {"torch_dtype", FIELD_TEXT, AT(dtype)},
    {"hidden_act", FIELD_TEXT, AT(hidden_act)},
    {"vocab_size", FIELD_INT, AT(vocab_size)},
    {"hidden_size", FIELD_INT, AT(hidden_size)},
    {"intermediate_size", FIELD_INT, AT(intermediate_size)},
    {"num_hidden_layers", FIELD_INT, AT(num_hidden_layers)},
    {"num_attention_heads", FIELD_INT, AT(num_attention_heads)},
    {"num_key_value_heads", FIELD_INT, AT(num_key_value_heads)},
    {"head_dim", FIELD_INT, AT(head_dim)},
    {"max_position_embeddings", FIELD_INT, AT(max_position_embeddings)},
    {"sliding_window", FIELD_INT, AT(sliding_window)},
    {"max_window_layers", FIELD_INT, AT(max_window_layers)},
    {"rms_norm_eps", FIELD_NUMBER, AT(rms_norm_eps)},
    {"tie_word_embeddings", FIELD_BOOL, AT(tie_word_embeddings)},
    {"attention_bias", FIELD_BOOL, AT(attention_bias)},
    {"mlp_bias", FIELD_BOOL, AT(mlp_bias)},
    {"use_sliding_window", FIELD_BOOL, AT(use_sliding_window)},
    {"rope_theta", FIELD_NUMBER, AT(rope.theta)},
    {"partial_rotary_factor", FIELD_NUMBER, AT(rope.partial_rotary_factor)},
};
/* Inside rope_scaling and rope_parameters. */
static const struct field ROPE_FIELDS[] = {
    {"rope_type", FIELD_TEXT, AT(rope.type)},
    {"type", FIELD_TEXT, AT(rope.type)},
    {"rope_theta", FIELD_NUMBER, AT(rope.theta)},
    {"factor", FIELD_NUMBER, AT(rope.factor)},
    {"low_freq_factor", FIELD_NUMBER, AT(rope.low_freq_factor)},
    {"high_freq_factor", FIELD_NUMBER, AT(rope.high_freq_factor)},
    {"original_max_position_embeddings", FIELD_INT, AT(rope.original_max_position_embeddings)},
    {"attention_factor", FIELD_NUMBER, AT(rope.attention_factor)},
    {"beta_fast", FIELD_NUMBER, AT(rope.beta_fast)},
    {"beta_slow", FIELD_NUMBER, AT(rope.beta_slow)},
    {"mscale", FIELD_NUMBER, AT(rope.mscale)},
    {"mscale_all_dim", FIELD_NUMBER, AT(rope.mscale_all_dim)},
    {"partial_rotary_factor", FIELD_NUMBER, AT(rope.partial_rotary_factor)},
};

/* Training options, bookkeeping, and generation defaults (which the gateway takes from generation_config.json). */
static const char *const HARMLESS[] = {
    "transformers_version",
    "initializer_range",
    "attention_dropout",
    "use_cache",
    "pretraining_tp",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "sep_token_id",
    "unk_token_id",
    "decoder_start_token_id",
    "bad_words_ids",
    "hidden_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "hidden_dropout_prob",
    "return_dict",
    "output_hidden_states",
    "output_attentions",
    "torchscript",
    "tf_legacy_loss",
    "use_bfloat16",
    "pruned_heads",
    "is_encoder_decoder",
    "is_decoder",
    "add_cross_attention",
    "cross_attention_hidden_size",
    "tie_encoder_decoder",
    "max_length",
    "min_length",
    "do_sample",
    "early_stopping",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "num_return_sequences",
    "output_scores",
    "return_dict_in_generate",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
    "finetuning_task",
    "id2label",
    "label2id",
    "tokenizer_class",
    "prefix",
    "task_specific_params",
    "problem_type",
    "chunk_size_feed_forward",
    "auto_map",
    "name_or_path",
    "model_max_length",
    "unsloth_version",
    "unsloth_fixed",
    "max_new_tokens",
    "attn_implementation",
    "transformers.js_config",
};

static bool name_is(struct bytes key, const char *name) { return bytes_equal(key, bytes_str(name)); }

static bool harmless(struct bytes key) {
    if (key.len && key.data[0] == '_') return true; /* private to the library that wrote it */
    for (size_t i = 0; i < ARRAY_LEN(HARMLESS); i++)
        if (name_is(key, HARMLESS[i])) return true;
    return false;
}

static bool accepted(struct bytes key, const char *accept) {
    for (const char *at = accept; at && *at;) {
        size_t len = strcspn(at, ",");
        if (bytes_equal(key, bytes_of(at, len))) return true;
        at += len + (at[len] == ',');
    }
    return false;
}

struct config_parse {
    struct json_reader json;
    struct hf_config *config;
    const char *accept;
    struct error *err;
    int unsupported; /* set when the refusal is about meaning, not form */
};

/* The value after a key; null leaves the field absent. */
static bool read_field(struct json_reader *r, struct hf_config *c, const struct field *f) {
    void *to = (char *)c + f->offset;
    enum json_event ev = json_next(r);
    if (ev == JSON_NULL) return true;
    if (ev == JSON_ERROR) return false;
    switch (f->type) {
    case FIELD_INT:
        if (ev == JSON_NUMBER && json_number_int64(r->text, to) && *(int64_t *)to >= 0) return true;
        return json_fail(r, "'%s' is no whole number of zero or more", f->name);
    case FIELD_NUMBER:
        if (ev == JSON_NUMBER && json_number_double(r->text, to) && isfinite(*(double *)to)) return true;
        return json_fail(r, "'%s' is no number", f->name);
    case FIELD_BOOL:
        if (ev != JSON_TRUE && ev != JSON_FALSE) return json_fail(r, "'%s' is neither true nor false", f->name);
        *(int *)to = ev == JSON_TRUE;
        return true;
    case FIELD_TEXT:
        if (ev != JSON_STRING || r->text.len >= CONFIG_TEXT_MAX) return json_fail(r, "'%s' is no short text", f->name);
        memcpy(to, r->text.data, r->text.len);
        ((char *)to)[r->text.len] = 0;
        return true;
    }
    return false;
}

static const struct field *find_field(const struct field *fields, size_t count, struct bytes key) {
    for (size_t i = 0; i < count; i++)
        if (name_is(key, fields[i].name)) return &fields[i];
    return NULL;
}

/* A field nobody knows: fine when its value asks for nothing. */
static bool unknown_field(struct config_parse *p, const char *where) {
    struct json_reader *r = &p->json;
    char name[CONFIG_TEXT_MAX];
    snprintf(name, sizeof name, "%.*s", (int)MIN(r->text.len, sizeof name - 1), (const char *)r->text.data);
    bool skip = accepted(r->text, p->accept);
    enum json_event ev = json_next(r);
    if (ev == JSON_ERROR) return false;
    if (skip) return json_skip(r);
    if (ev == JSON_NULL || ev == JSON_FALSE) return true;
    p->unsupported = 1;
    return json_fail(r, "%sfield '%s' is not known to this version", where, name);
}

static bool parse_rope(struct config_parse *p) {
    struct json_reader *r = &p->json;
    enum json_event ev = json_next(r);
    if (ev == JSON_NULL) return true;
    if (ev != JSON_OBJECT_BEGIN) return json_fail(r, "rotary options are no object");
    while ((ev = json_next(r)) == JSON_KEY) {
        const struct field *f = find_field(ROPE_FIELDS, ARRAY_LEN(ROPE_FIELDS), r->text);
        if (!(f ? read_field(r, p->config, f) : unknown_field(p, "rotary "))) return false;
    }
    return ev == JSON_OBJECT_END;
}

static bool parse_architectures(struct config_parse *p) {
    struct json_reader *r = &p->json;
    static const struct field first = {"architectures", FIELD_TEXT, AT(architecture)};
    enum json_event ev = json_next(r);
    if (ev == JSON_NULL) return true;
    if (ev != JSON_ARRAY_BEGIN) return json_fail(r, "'architectures' is no list");
    if (!read_field(r, p->config, &first)) return false;
    if (json_next(r) != JSON_ARRAY_END) return json_fail(r, "'architectures' has more than one name");
    return true;
}

static bool parse_layer_types(struct config_parse *p) {
    struct json_reader *r = &p->json;
    enum json_event ev = json_next(r);
    if (ev == JSON_NULL) return true;
    if (ev != JSON_ARRAY_BEGIN) return json_fail(r, "'layer_types' is no list");
    while ((ev = json_next(r)) == JSON_STRING) {
        bool sliding = name_is(r->text, "sliding_attention");
        if (!sliding && !name_is(r->text, "full_attention")) {
            p->unsupported = 1;
            return json_fail(r, "'layer_types' has a kind of layer not known to this version");
        }
        uint32_t *count = sliding ? &p->config->sliding_layer_count : &p->config->full_layer_count;
        if (++*count > CONFIG_LAYERS_MAX) return json_fail(r, "'layer_types' is too long");
    }
    return ev == JSON_ARRAY_END || json_fail(r, "'layer_types' is no list of names");
}

static bool parse_top(struct config_parse *p) {
    struct json_reader *r = &p->json;
    if (!json_expect(r, JSON_OBJECT_BEGIN)) return false;
    enum json_event ev;
    while ((ev = json_next(r)) == JSON_KEY) {
        const struct field *f = find_field(FIELDS, ARRAY_LEN(FIELDS), r->text);
        bool ok;
        if (f && f->offset == AT(sliding_window)) p->config->sliding_window_set = true;
        if (f)
            ok = read_field(r, p->config, f);
        else if (name_is(r->text, "architectures"))
            ok = parse_architectures(p);
        else if (name_is(r->text, "layer_types"))
            ok = parse_layer_types(p);
        else if (name_is(r->text, "rope_scaling") || name_is(r->text, "rope_parameters"))
            ok = parse_rope(p);
        else
            ok = harmless(r->text) ? json_skip(r) : unknown_field(p, "");
        if (!ok) return false;
    }
    return ev == JSON_OBJECT_END && json_next(r) == JSON_END;
}

int config_read(struct hf_config *config, struct bytes text, const char *accept, struct error *err) {
    *config = (struct hf_config){.tie_word_embeddings = CONFIG_UNSET,
                                 .attention_bias = CONFIG_UNSET,
                                 .mlp_bias = CONFIG_UNSET,
                                 .use_sliding_window = CONFIG_UNSET};
    if (text.len > CONFIG_BYTES_MAX)
        return error_set(err, ERR_LIMIT, "config.json is larger than %zu bytes", CONFIG_BYTES_MAX);
    int rc = json_scan(text, 0, err);
    if (rc) return error_wrap(err, "config.json");
    struct config_parse p = {.config = config, .accept = accept, .err = err};
    json_reader_init(&p.json, text, 0, 0);
    if (!parse_top(&p))
        rc = error_set(err, p.unsupported ? ERR_UNSUPPORTED : ERR_INVALID, "config.json: %s",
                       p.json.error.code ? p.json.error.text : "malformed");
    json_reader_release(&p.json);
    return rc;
}
