/*
 * The families, one row each, and the reading of a config in a family's sense.
 */
#include <math.h>
#include <stdio.h>

#include "model/names.h"
#include "model/spec.h"

/* When a layer sees only a window of positions. */
enum window_rule {
    WINDOW_NEVER,
    WINDOW_ALWAYS /* "sliding_window" for all layers */,
    WINDOW_UPPER /* "use_sliding_window", from max_window_layers on */
};
/* Which biases the projections have. */
enum bias_rule { BIAS_CONFIG /* "attention_bias": q, k, v, o */, BIAS_QKV /* always on q, k, v */, BIAS_NONE };

struct family {
    const char *architecture, *model_type, *name;
    const struct name_table *names;
    enum bias_rule attention_bias;
    bool mlp_bias_option; /* "mlp_bias" means something */
    enum window_rule window;
    /* What the configuration class assumes where the file says nothing. */
    int64_t default_context, default_kv_heads /* 0: as many as heads */, default_window;
    double default_eps, default_theta;
    bool default_tied;
};

static const struct family FAMILIES[] = {
    {"LlamaForCausalLM", "llama", "llama", &LLAMA_NAMES, BIAS_CONFIG, true, WINDOW_NEVER, 2048, 0, 0, 1e-6, 10000,
     false},
    {"MistralForCausalLM", "mistral", "mistral", &LLAMA_NAMES, BIAS_NONE, false, WINDOW_ALWAYS, 131072, 8, 4096, 1e-6,
     10000, false},
    {"Qwen2ForCausalLM", "qwen2", "qwen2", &LLAMA_NAMES, BIAS_QKV, false, WINDOW_UPPER, 32768, 32, 4096, 1e-6, 10000,
     false},
};

static const struct family *find_family(const struct hf_config *c) {
    for (size_t i = 0; i < ARRAY_LEN(FAMILIES); i++)
        if (c->architecture[0] ? !strcmp(c->architecture, FAMILIES[i].architecture)
                               : !strcmp(c->model_type, FAMILIES[i].model_type))
            return &FAMILIES[i];
    return NULL;
}

static int64_t or_default(int64_t value, int64_t fallback) { return value ? value : fallback; }

static int check_range(const char *field, int64_t value, int64_t max, struct error *err) {
    if (value < 1) return error_set(err, ERR_INVALID, "config.json: '%s' is missing or zero", field);
    if (value > max)
        return error_set(err, ERR_UNSUPPORTED, "config.json: '%s' is %lld, more than %lld", field, (long long)value,
                         (long long)max);
    return 0;
}

static int unsupported(struct error *err, const char *field, const char *value) {
    return error_set(err, ERR_UNSUPPORTED, "config.json: '%s' = '%s' is not supported", field, value);
}

/* ---- rotary ---- */

static int read_rope(struct rope_spec *rope, const struct hf_config *c, const struct family *f, uint32_t head_dim,
                     struct error *err) {
    static const struct {
        const char *name;
        enum rope_kind kind;
    } KINDS[] = {{"", ROPE_DEFAULT}, {"default", ROPE_DEFAULT}, {"linear", ROPE_LINEAR}, {"llama3", ROPE_LLAMA3}};
    const struct config_rope *r = &c->rope;
    *rope = (struct rope_spec){.theta = r->theta != 0 ? r->theta : f->default_theta, .factor = 1, .scale = 1};
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++)
        if (!strcmp(r->type, KINDS[i].name)) rope->kind = KINDS[i].kind;
    if (rope->kind == ROPE_NONE) return unsupported(err, "rope_type", r->type);
    if (!(rope->theta >= 1 && rope->theta <= 1e12))
        return error_set(err, ERR_INVALID, "config.json: 'rope_theta' is out of range");
    if (r->attention_factor != 0 && r->attention_factor != 1) return unsupported(err, "attention_factor", "not 1");
    if (r->mscale != 0 || r->mscale_all_dim != 0) return unsupported(err, "mscale", "set");
    if (r->beta_fast != 0 || r->beta_slow != 0) return unsupported(err, "beta_fast", "set");
    double part = r->partial_rotary_factor != 0 ? r->partial_rotary_factor : 1;
    if (!(part > 0 && part <= 1))
        return error_set(err, ERR_INVALID, "config.json: 'partial_rotary_factor' is out of range");
    rope->dims = (uint32_t)(head_dim * part);
    if (rope->dims % 2 || rope->dims == 0)
        return error_set(err, ERR_UNSUPPORTED, "config.json: %u rotated dimensions are not even", rope->dims);
    if (rope->kind == ROPE_DEFAULT) return 0;
    if (!(r->factor >= 1 && r->factor <= 1e6))
        return error_set(err, ERR_INVALID, "config.json: rotary 'factor' is missing or out of range");
    rope->factor = r->factor;
    if (rope->kind == ROPE_LINEAR) return 0;
    rope->low_freq_factor = r->low_freq_factor;
    rope->high_freq_factor = r->high_freq_factor;
    rope->original_context = (double)r->original_max_position_embeddings;
    if (!(rope->low_freq_factor > 0 && rope->high_freq_factor > rope->low_freq_factor && rope->original_context >= 1))
        return error_set(err, ERR_INVALID,
                         "config.json: rotary 'low_freq_factor', 'high_freq_factor' or "
                         "'original_max_position_embeddings' is missing or out of order");
    return 0;
}

void rope_inv_freq(const struct rope_spec *rope, float *inv_freq) {
    double low = rope->original_context / rope->low_freq_factor, high = rope->original_context / rope->high_freq_factor;
    for (uint32_t i = 0; i < rope->dims / 2; i++) {
        double f = pow(rope->theta, -2.0 * i / rope->dims), wave = 2 * M_PI / f;
        if (rope->kind == ROPE_LINEAR) f /= rope->factor;
        if (rope->kind == ROPE_LLAMA3 && wave > low)
            f /= rope->factor;
        else if (rope->kind == ROPE_LLAMA3 && wave >= high) {
            double smooth = (rope->original_context / wave - rope->low_freq_factor) /
                            (rope->high_freq_factor - rope->low_freq_factor);
            f = (1 - smooth) * f / rope->factor + smooth * f;
        }
        inv_freq[i] = (float)f;
    }
}

/* ---- layers ---- */

static int read_biases(struct layer_spec *layer, const struct hf_config *c, const struct family *f, struct error *err) {
    if (f->attention_bias != BIAS_CONFIG && c->attention_bias == CONFIG_TRUE && f->attention_bias != BIAS_QKV)
        return unsupported(err, "attention_bias", "true");
    if (!f->mlp_bias_option && c->mlp_bias == CONFIG_TRUE) return unsupported(err, "mlp_bias", "true");
    layer->attention.qkv_bias =
        f->attention_bias == BIAS_QKV || (f->attention_bias == BIAS_CONFIG && c->attention_bias == CONFIG_TRUE);
    layer->attention.out_bias = f->attention_bias == BIAS_CONFIG && c->attention_bias == CONFIG_TRUE;
    layer->ffn.bias = f->mlp_bias_option && c->mlp_bias == CONFIG_TRUE;
    return 0;
}

static int read_heads(struct attention_spec *a, const struct hf_config *c, const struct family *f, struct error *err) {
    int64_t heads = c->num_attention_heads, fallback = f->default_kv_heads ? f->default_kv_heads : heads;
    int64_t kv_heads = or_default(c->num_key_value_heads, fallback);
    int rc = check_range("num_attention_heads", heads, SPEC_HEADS_MAX, err);
    if (!rc) rc = check_range("num_key_value_heads", kv_heads, heads, err);
    if (rc) return rc;
    if (!c->head_dim && c->hidden_size % heads)
        return error_set(err, ERR_INVALID, "config.json: 'hidden_size' is no multiple of 'num_attention_heads'");
    int64_t dim = or_default(c->head_dim, c->hidden_size / heads);
    rc = check_range("head_dim", dim, SPEC_HEAD_DIM_MAX, err);
    if (rc) return rc;
    if (heads % kv_heads)
        return error_set(err, ERR_INVALID, "config.json: 'num_key_value_heads' does not divide 'num_attention_heads'");
    a->heads = (uint32_t)heads;
    a->kv_heads = (uint32_t)kv_heads;
    a->head_dim = (uint32_t)dim;
    a->scale = (float)(1 / sqrt((double)dim));
    return 0;
}

/* The window of each layer; checks that "layer_types", where given, says the same. */
static int read_windows(struct model_spec *spec, const struct hf_config *c, const struct family *f, struct error *err) {
    int64_t window = c->sliding_window_set ? c->sliding_window : f->default_window, from = INT64_MAX;
    if (f->window == WINDOW_NEVER && c->sliding_window) return unsupported(err, "sliding_window", "set");
    if (f->window == WINDOW_NEVER && c->use_sliding_window == CONFIG_TRUE)
        return unsupported(err, "use_sliding_window", "true");
    if (f->window == WINDOW_ALWAYS && window) from = 0;
    if (f->window == WINDOW_UPPER && window && c->use_sliding_window == CONFIG_TRUE) from = c->max_window_layers;
    uint32_t sliding = 0;
    for (uint32_t i = 0; i < spec->layer_count; i++) {
        if ((int64_t)i < from) continue;
        spec->layers[i].attention.window = (uint32_t)MIN(window, SPEC_CONTEXT_MAX);
        sliding++;
    }
    bool listed = c->sliding_layer_count + c->full_layer_count > 0;
    if (listed && (c->sliding_layer_count != sliding || c->full_layer_count != spec->layer_count - sliding))
        return unsupported(err, "layer_types", "another order than the family's");
    return 0;
}

static int read_layers(struct model_spec *spec, const struct hf_config *c, const struct family *f, struct error *err) {
    struct layer_spec layer = {
        .mixer = MIXER_ATTENTION,
        .ffn = {.kind = FFN_GATED, .width = (uint32_t)c->intermediate_size, .activation = ACTIVATION_SILU}};
    if (c->hidden_act[0] && strcmp(c->hidden_act, "silu") && strcmp(c->hidden_act, "swish"))
        return unsupported(err, "hidden_act", c->hidden_act);
    int rc = read_heads(&layer.attention, c, f, err);
    if (!rc) rc = read_biases(&layer, c, f, err);
    if (!rc) rc = read_rope(&spec->ropes[0], c, f, layer.attention.head_dim, err);
    if (rc) return rc;
    spec->rope_count = 1;
    spec->layers = mem_calloc(spec->layer_count, sizeof *spec->layers);
    for (uint32_t i = 0; i < spec->layer_count; i++) spec->layers[i] = layer;
    return read_windows(spec, c, f, err);
}

static int read_sizes(struct model_spec *spec, const struct hf_config *c, const struct family *f, struct error *err) {
    int64_t context = or_default(c->max_position_embeddings, f->default_context);
    int rc = check_range("vocab_size", c->vocab_size, SPEC_VOCAB_MAX, err);
    if (!rc) rc = check_range("hidden_size", c->hidden_size, SPEC_HIDDEN_MAX, err);
    if (!rc) rc = check_range("intermediate_size", c->intermediate_size, SPEC_FFN_MAX, err);
    if (!rc) rc = check_range("num_hidden_layers", c->num_hidden_layers, SPEC_LAYERS_MAX, err);
    if (!rc) rc = check_range("max_position_embeddings", context, INT32_MAX, err);
    if (rc) return rc;
    double eps = c->rms_norm_eps != 0 ? c->rms_norm_eps : f->default_eps;
    if (!(eps > 0 && eps < 1)) return error_set(err, ERR_INVALID, "config.json: 'rms_norm_eps' is out of range");
    spec->vocab = (uint32_t)c->vocab_size;
    spec->hidden = (uint32_t)c->hidden_size;
    spec->layer_count = (uint32_t)c->num_hidden_layers;
    spec->max_context = (uint32_t)MIN(context, SPEC_CONTEXT_MAX);
    spec->norm_eps = (float)eps;
    spec->embed_scale = 1;
    spec->tied_head = c->tie_word_embeddings == CONFIG_UNSET ? f->default_tied : c->tie_word_embeddings == CONFIG_TRUE;
    return 0;
}

int spec_from_config(struct model_spec *spec, const struct hf_config *c, struct error *err) {
    *spec = (struct model_spec){0};
    const struct family *f = find_family(c);
    if (!f && c->architecture[0]) return unsupported(err, "architectures", c->architecture);
    if (!f) return unsupported(err, "model_type", c->model_type[0] ? c->model_type : "(missing)");
    spec->family = f->name;
    spec->names = f->names;
    int rc = read_sizes(spec, c, f, err);
    if (!rc) rc = read_layers(spec, c, f, err);
    if (rc) spec_release(spec);
    return rc;
}

void spec_release(struct model_spec *spec) {
    mem_free(spec->layers);
    *spec = (struct model_spec){0};
}
