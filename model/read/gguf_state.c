/* What GGUF files tell of layers with a state, as fields of a config.json (gguf_reader.h). */
#include "model/read/gguf_reader.h"

#include <math.h>

/* ---- layer by layer ---- */

/* The number of layer `layer`: of an array, or the one for all; 0: there is none. */
static int64_t int_of(const struct reader *r, const char *suffix, int64_t layer) {
    const struct gguf_kv *kv = find(r, suffix);
    int64_t value = 0;
    return kv && gguf_int_at(kv, kv->is_array ? (uint64_t)layer : 0, &value) ? value : 0;
}

static bool layer_has(const struct reader *r, int64_t layer, const char *suffix) {
    char name[TENSOR_NAME_MAX];
    snprintf(name, sizeof name, "blk.%d.%s", (int)layer, suffix);
    return has_tensor(r, name);
}

static bool any_layer_has(const struct reader *r, const char *suffix) {
    for (int64_t i = 0; i < r->layers; i++)
        if (layer_has(r, i, suffix))
            return true;
    return false;
}

static bool has_attention(const struct reader *r, int64_t layer) {
    return int_of(r, "attention.head_count_kv", layer) > 0;
}
static bool has_experts(const struct reader *r, int64_t layer) {
    return layer_has(r, layer, "ffn_gate_inp.weight");
}

/* Arrays have a number for each layer. */
static int check_arrays(const struct reader *r, struct error *err) {
    static const char *const KEYS[] = {"attention.head_count_kv", "feed_forward_length",
                                       "attention.recurrent_layers"};
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        const struct gguf_kv *kv = find(r, KEYS[i]);
        if (kv && kv->is_array && kv->count < (uint64_t)r->layers)
            return error_set(err, ERR_INVALID, "'%s.%s' has %llu numbers for %lld layers",
                             r->arch->name, KEYS[i], (unsigned long long)kv->count,
                             (long long)r->layers);
    }
    return 0;
}

bool gguf_kv_heads(const struct reader *r, int64_t *out) {
    if (!is_listed(r, HYBRIDS))
        return find_int(r, "attention.head_count_kv", out);
    *out = 0;
    for (int64_t i = 0; i < r->layers; i++) {
        int64_t here = int_of(r, "attention.head_count_kv", i);
        if (here && *out && here != *out)
            return false;
        if (here)
            *out = here;
    }
    return *out > 0 || find_int(r, "attention.head_count", out); /* no layer has any */
}

bool gguf_rotates(const struct reader *r) {
    const struct gguf_kv *on =
        is_listed(r, ",granitehybrid,") ? find(r, "rope.scaling.finetuned") : NULL;
    int64_t value = 1;
    return !is_listed(r, ",jamba," NEMOTRON_H) && !(on && gguf_int_at(on, 0, &value) && !value);
}

static void write_layer_types(const struct reader *r, const char *state, const char *attention) {
    json_key(r->w, "layer_types");
    json_begin_array(r->w);
    for (int64_t i = 0; i < r->layers; i++)
        json_string(r->w, has_attention(r, i) ? attention : state);
    json_end_array(r->w);
}

/* Which layers are of a kind, where the fields only know every so many: the first, and how far
 * apart. */
static int write_period(const struct reader *r, bool (*is)(const struct reader *, int64_t),
                        const char *period, const char *offset, struct error *err) {
    int64_t first = 0, second;
    while (first < r->layers && !is(r, first))
        first++;
    for (second = first + 1; second < r->layers && !is(r, second);)
        second++;
    for (int64_t i = 0; i < r->layers; i++)
        if (is(r, i) != (i >= first && (i - first) % (second - first) == 0))
            return error_set(err, ERR_UNSUPPORTED,
                             "layers of '%s' do not lie as '%s' and '%s' could tell", r->arch->name,
                             period, offset);
    if (second - first <= first)
        second = 2 * first + 1; /* one alone, or none */
    json_key(r->w, period);
    json_int(r->w, second - first);
    json_key(r->w, offset);
    json_int(r->w, first);
    return 0;
}

/* ---- the states ---- */

/* The mixer's width as what it is of the hidden size, so that the product is the same number
 * again. */
static int write_width(const struct reader *r, const char *expand_field, const char *head_field,
                       struct error *err) {
    int64_t width = 0, hidden = 0, heads = 0;
    int rc = find_divisor(r, "embedding_length", &hidden, err);
    if (!rc)
        rc = find_divisor(r, "ssm.inner_size", &width, err);
    if (!rc && head_field)
        rc = find_divisor(r, "ssm.time_step_rank", &heads, err);
    if (rc)
        return rc;
    double expand = (double)width / (double)hidden;
    if (expand * (double)hidden < (double)width)
        expand = nextafter(expand, INFINITY);
    if (expand_field) {
        json_key(r->w, expand_field);
        json_double(r->w, expand);
    }
    if (!head_field)
        return 0;
    json_key(r->w, head_field);
    json_int(r->w, width / heads);
    return 0;
}

static void write_biases(const struct reader *r) {
    static const struct {
        const char *tensors[2], *field, *archs;
    } SHOWN[] = {{{"ssm_conv1d.bias"}, "use_conv_bias", STATES NEMOTRON_H},
                 {{"ssm_in.bias"}, "use_bias", STATES NEMOTRON_H},
                 {{"ssm_conv1d.bias"}, "mamba_conv_bias", ",jamba,granitehybrid,"},
                 {{"ssm_in.bias"}, "mamba_proj_bias", ",jamba,granitehybrid,"},
                 {{"shortconv.in_proj.bias"}, "conv_bias", ",lfm2,"},
                 {{"attn_q.bias"}, "attention_bias", ",granitehybrid," NEMOTRON_H DELTA},
                 {{"ffn_up.bias", "ffn_up_shexp.bias"}, "mlp_bias", NEMOTRON_H}};
    for (size_t i = 0; i < ARRAY_LEN(SHOWN); i++) {
        if (!is_listed(r, SHOWN[i].archs))
            continue;
        const char *const *tensors = SHOWN[i].tensors;
        json_key(r->w, SHOWN[i].field);
        json_bool(r->w,
                  any_layer_has(r, tensors[0]) || (tensors[1] && any_layer_has(r, tensors[1])));
    }
}

static int write_jamba(const struct reader *r, struct error *err) {
    int rc = write_period(r, has_attention, "attn_layer_period", "attn_layer_offset", err);
    if (!rc)
        rc = write_period(r, has_experts, "expert_layer_period", "expert_layer_offset", err);
    return rc ? rc : write_width(r, "mamba_expand", NULL, err);
}

/* Granite's layers without multipliers, and with rotation. */
static int write_bamba(const struct reader *r, struct error *err) {
    json_key(r->w, "attn_layer_indices");
    json_begin_array(r->w);
    for (int64_t i = 0; i < r->layers; i++)
        if (has_attention(r, i))
            json_int(r->w, i);
    json_end_array(r->w);
    if (!find(r, "rope.dimension_count")) {
        json_key(r->w, "partial_rotary_factor");
        json_int(r->w, 1);
    }
    json_key(r->w, "mlp_bias");
    json_bool(r->w, any_layer_has(r, "ffn_up.bias"));
    return write_width(r, "mamba_expand", "mamba_d_head", err);
}

static int write_granite(const struct reader *r, struct error *err) {
    int64_t experts = 0;
    if (!find_int(r, "expert_count", &experts))
        experts = 0;
    const char *width = experts ? "expert_shared_feed_forward_length" : "feed_forward_length";
    write_layer_types(r, "mamba", "attention");
    json_key(r->w, "position_embedding_type");
    json_string(r->w, gguf_rotates(r) ? "rope" : "nope");
    json_key(r->w, "num_local_experts");
    json_int(r->w, experts);
    if (!write_value(r, width, "shared_intermediate_size", KEY_INT))
        return error_set(err, ERR_INVALID, "the GGUF file lacks '%s.%s'", r->arch->name, width);
    return write_width(r, "mamba_expand", "mamba_d_head", err);
}

/* A layer is one block: attention where it has heads of keys, a feed-forward where that has a
 * length, else a state. */
static int write_nemotron(const struct reader *r, struct error *err) {
    char *pattern = mem_calloc((size_t)r->layers + 1, 1);
    int64_t dense = 0, width;
    int rc = 0;
    for (int64_t i = 0; !rc && i < r->layers; i++) {
        width = int_of(r, "feed_forward_length", i);
        pattern[i] = has_attention(r, i) ? '*' : width <= 0 ? 'M' : has_experts(r, i) ? 'E' : '-';
        if (pattern[i] != '-')
            continue;
        if (dense && dense != width)
            rc = error_set(err, ERR_UNSUPPORTED, "'%s.feed_forward_length' differs between layers",
                           r->arch->name);
        dense = width;
    }
    json_key(r->w, "hybrid_override_pattern");
    json_string(r->w, pattern);
    mem_free(pattern);
    if (!rc && dense) {
        json_key(r->w, "intermediate_size");
        json_int(r->w, dense);
    }
    if (!rc && !write_value(r, "attention.layer_norm_rms_epsilon", "layer_norm_epsilon", KEY_REAL))
        write_value(r, "attention.layer_norm_epsilon", "layer_norm_epsilon", KEY_REAL);
    return rc ? rc : write_width(r, NULL, "mamba_head_dim", err);
}

static void write_dense_layers(const struct reader *r) {
    json_key(r->w, "mlp_only_layers");
    json_begin_array(r->w);
    for (int64_t i = 0; i < r->layers; i++)
        if (!has_experts(r, i))
            json_int(r->w, i);
    json_end_array(r->w);
}

/* Layers show in an array, or every so many is attention. */
static int write_delta(const struct reader *r, struct error *err) {
    static const char STATES_KEY[] = "attention.recurrent_layers";
    bool told = find(r, STATES_KEY) != NULL;
    int64_t interval = 4;
    if (find(r, "full_attention_interval")) {
        int rc = find_divisor(r, "full_attention_interval", &interval, err);
        if (rc)
            return rc;
    }
    json_key(r->w, "layer_types");
    json_begin_array(r->w);
    for (int64_t i = 0; i < r->layers; i++) {
        bool state = told ? int_of(r, STATES_KEY, i) > 0 : (i + 1) % interval != 0;
        json_string(r->w, state ? "linear_attention" : "full_attention");
    }
    json_end_array(r->w);
    if (is_listed(r, ",qwen3next,"))
        write_dense_layers(r);
    return write_width(r, NULL, "linear_value_head_dim", err);
}

int gguf_write_state(const struct reader *r, struct error *err) {
    int rc = check_arrays(r, err);
    if (rc || !is_listed(r, STATES HYBRIDS DELTA))
        return rc;
    write_biases(r);
    if (is_listed(r, ",mamba,"))
        return write_width(r, "expand", NULL, err);
    if (is_listed(r, ",mamba2,"))
        return write_width(r, "expand", "head_dim", err);
    if (is_listed(r, ",jamba,"))
        return write_jamba(r, err);
    if (is_listed(r, ",granitehybrid,"))
        return r->arch->when ? write_granite(r, err) : write_bamba(r, err);
    if (is_listed(r, NEMOTRON_H))
        return write_nemotron(r, err);
    if (is_listed(r, DELTA))
        return write_delta(r, err);
    write_layer_types(r, "conv", "full_attention");
    json_key(r->w, "block_auto_adjust_ff_dim");
    json_bool(r->w, false);
    return 0;
}
