/*
 * config.h - config.json of a Hugging Face model folder, read into a plain struct.
 *
 * Only spelling is settled here: old and new names of the same thing (rope_theta + rope_scaling, or rope_parameters;
 * torch_dtype or dtype) end in the same field. What a value means, which default a family has and which combinations we
 * can compute is model/'s.
 *
 * Nothing is silently ignored. A field is known and stored; or known to change nothing at inference (names of training
 * options, generation defaults, ...); or its value asks for nothing (null, false); else the config is refused with the
 * field's name, unless the caller lists it as accepted.
 *
 * Absent numbers are 0, absent texts "", absent bools CONFIG_UNSET.
 *
 * Threading: none; a struct of values that owns nothing.
 */
#ifndef FORMATS_CONFIG_H
#define FORMATS_CONFIG_H

#include "base/error.h"

enum { CONFIG_TEXT_MAX = 64, CONFIG_LAYERS_MAX = 1024 };
#define CONFIG_BYTES_MAX ((size_t)4 << 20)

enum config_bool { CONFIG_UNSET = -1, CONFIG_FALSE = 0, CONFIG_TRUE = 1 };

/* Rotary options after both spellings were merged. */
struct config_rope {
    char type[CONFIG_TEXT_MAX]; /* "default", "linear", "llama3", ...; "": not said */
    double theta;
    double factor, low_freq_factor, high_freq_factor;
    double attention_factor, beta_fast, beta_slow, mscale, mscale_all_dim;
    int64_t original_max_position_embeddings;
    double partial_rotary_factor;
};

struct hf_config {
    char architecture[CONFIG_TEXT_MAX]; /* the first of "architectures" */
    char model_type[CONFIG_TEXT_MAX];
    char dtype[CONFIG_TEXT_MAX];
    char hidden_act[CONFIG_TEXT_MAX];
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads,
        head_dim;
    int64_t max_position_embeddings, sliding_window, max_window_layers;
    double rms_norm_eps;
    int tie_word_embeddings, attention_bias, mlp_bias, use_sliding_window; /* enum config_bool */
    uint32_t sliding_layer_count, full_layer_count;                        /* of "layer_types" */
    bool sliding_window_set;                                               /* the key is there, null or not */
    struct config_rope rope;
};

/* text: the file's bytes. accept: comma-separated field names that may be ignored, or NULL. */
MUST_CHECK int config_read(struct hf_config *config, struct bytes text, const char *accept, struct error *err);

#endif
