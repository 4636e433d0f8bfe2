/* From config to attention_spec: heads, biases, windows, which rotary table. */
#include <math.h>

#include "model/run/attention_weights.h"
#include "model/run/ffn_dense.h"
#include "model/run/layer_kinds.h"
#include "model/run/rope.h"

static uint32_t read_kv_heads(struct spec_reader *r, uint32_t heads) {
    switch (r->family->kv_heads) {
    case KV_FIELD: break;
    case KV_HEADS: return heads;
    case KV_FALCON:
        config_consume(r->config, r->top, "multi_query");
        if (read_bool(r, "new_decoder_architecture", false))
            return read_count(r, "num_kv_heads", heads, heads);
        (void)read_int(r, "num_kv_heads", 0);
        return read_bool(r, "multi_query", true) ? 1 : heads;
    }
    return read_count(r, "num_key_value_heads", heads, heads);
}

static void read_heads(struct spec_reader *r, struct attention_spec *a) {
    uint32_t hidden = r->spec->hidden;
    a->heads = read_count(r, "num_attention_heads", 0, SPEC_HEADS_MAX);
    a->kv_heads = read_kv_heads(r, a->heads);
    int64_t dim = read_int(r, "head_dim", 0);
    if (config_failed(r->config))
        return;
    if (!dim && hidden % a->heads)
        config_fail(r->config, ERR_INVALID,
                    "'hidden_size' is no multiple of 'num_attention_heads'");
    if (a->heads % a->kv_heads)
        config_fail(r->config, ERR_INVALID,
                    "'num_key_value_heads' does not divide 'num_attention_heads'");
    a->head_dim = read_count(r, "head_dim", hidden / a->heads, SPEC_HEAD_DIM_MAX);
}

static void read_scale(struct spec_reader *r, uint32_t layer, struct attention_spec *a) {
    const struct family *f = r->family;
    double of =
        f->attention_scale_of ? read_double(r, f->attention_scale_of, a->head_dim) : a->head_dim;
    a->scale = (float)(f->attention_scale ? read_double(r, f->attention_scale, 1 / sqrt(of))
                                          : 1 / sqrt(of));
    if (!(of > 0 && a->scale > 0))
        config_fail(r->config, ERR_INVALID, "the attention's scale is out of range");
    if (!read_bool(r, "scale_attn_weights", true))
        a->scale = 1;
    if (read_bool(r, "scale_attn_by_inverse_layer_idx", false))
        a->scale /= (float)(layer + 1);
    a->soft_cap = f->attention_cap ? (float)read_double(r, f->attention_cap, 0) : 0;
}

static const struct layer_type USUAL_TYPES[] = {
    {.name = "full_attention", .mixer = MIXER_ATTENTION},
    {.name = "sliding_attention", .mixer = MIXER_ATTENTION, .windowed = true},
    {.name = NULL}};

/* Whether "layer_types", where given, makes layer i a windowed one; 0, 1, or -1: not given. */
static int listed_window(struct spec_reader *r, uint32_t i) {
    const char *name = read_layer_type(r, i);
    if (!name)
        return -1;
    const struct layer_type *types = r->family->layer_types ? r->family->layer_types : USUAL_TYPES;
    for (; types->name; types++)
        if (!strcmp(types->name, name))
            return types->windowed;
    read_unsupported(r, "layer_types", name);
    return -1;
}

/* Every n-th layer sees all positions; 0: none is windowed. */
static bool window_by_pattern(struct spec_reader *r, uint32_t i) {
    const struct config_node *p = config_find(r->config, r->top, "sliding_window_pattern");
    if (p && p->kind == CONFIG_TEXT) { /* "LLLG": L is local */
        const char *pattern = config_node_text(r->config, p);
        size_t n = strlen(pattern);
        return n && pattern[i % n] == 'L';
    }
    int64_t n = read_int(r, "sliding_window_pattern", 0);
    return n && (i + 1) % (uint64_t)n;
}

/* Whether layer i has no rotation; a: its window is known, or NULL where the rule does not ask for
 * that. */
static bool without_rope(struct spec_reader *r, uint32_t i, const struct attention_spec *a) {
    switch (r->family->nope) {
    case NOPE_NEVER: return false;
    case NOPE_FULL: return !a->window;
    case NOPE_FULL_MIXED: return !a->window && read_int(r, "sliding_window", 0);
    case NOPE_TYPE: return strcmp(read_text(r, "position_embedding_type", "nope"), "rope") != 0;
    case NOPE_LISTED: break;
    }
    const struct config_node *list = config_find(r->config, r->top, "no_rope_layers");
    int64_t interval = read_int(r, "no_rope_layer_interval", 4);
    if (!list || list->kind != CONFIG_LIST || !list->count)
        return interval && (i + 1) % (uint64_t)interval == 0;
    const struct config_node *item = config_item(r->config, list, i);
    if (item && item->kind == CONFIG_NUMBER)
        return item->number == 0;
    config_fail(r->config, ERR_INVALID, "'no_rope_layers' is no list of a number for each layer");
    return false;
}

static bool windowed(struct spec_reader *r, uint32_t i, int64_t window) {
    int listed = listed_window(r, i);
    if (r->family->window == WINDOW_LISTED)
        config_consume(r->config, r->top, "sliding_window_pattern");
    int64_t from = read_int(r, "max_window_layers", 0), every = 1;
    if (r->family->window == WINDOW_SPACED)
        every = read_count(r, "global_attn_every_n_layers", 3, SPEC_LAYERS_MAX);
    bool rule = false;
    switch (r->family->window) {
    case WINDOW_NEVER: break;
    case WINDOW_SWITCHED:
    case WINDOW_ALWAYS: rule = window > 0; break;
    case WINDOW_FROM:
    case WINDOW_UPPER: return listed >= 0 ? listed && window : window && i >= from;
    case WINDOW_NOPE: return listed >= 0 ? listed && window : window && without_rope(r, i, NULL);
    case WINDOW_LISTED: return listed >= 0 ? listed : window && window_by_pattern(r, i);
    case WINDOW_SPACED: return listed >= 0 ? listed && window : window && i % every != 0;
    }
    if (listed >= 0 && listed != rule)
        read_unsupported(r, "layer_types", "another order than the family's");
    return rule;
}

static void read_window(struct spec_reader *r, uint32_t i, struct attention_spec *a) {
    bool never = r->family->window == WINDOW_NEVER;
    bool switched = r->family->window == WINDOW_UPPER || r->family->window == WINDOW_SWITCHED ||
                    r->family->window == WINDOW_NOPE;
    bool off = switched && !read_bool(r, "use_sliding_window", false);
    int64_t window = read_int(r, "sliding_window", 0);
    if (never && window)
        read_unsupported(r, "sliding_window", "set");
    if (never && read_bool(r, "use_sliding_window", false))
        read_unsupported(r, "use_sliding_window", "true");
    if (off)
        window = 0;
    if (!windowed(r, i, window))
        return;
    if (!window)
        config_fail(r->config, ERR_INVALID, "'sliding_window' is missing");
    a->window = (uint32_t)MIN(window, SPEC_CONTEXT_MAX);
    if (!r->spec->bidirectional)
        return;
    r->spec->window_ahead = a->window / 2; /* half of it on either side */
    a->window = a->window / 2 + 1;
}

/* Chunks in layers that rotate, tempered queries in the others (Llama 4). */
static void read_chunk(struct spec_reader *r, uint32_t layer, bool rotates,
                       struct attention_spec *a) {
    const struct family *f = r->family;
    const char *type = read_layer_type(r, layer);
    bool chunked = type ? !strcmp(type, "chunked_attention") : rotates;
    int64_t chunk = f->chunk ? read_int(r, f->chunk, 0) : 0;
    const struct config_node *tuned =
        f->temperature ? config_find(r->config, r->top, f->temperature) : NULL;
    double scale = f->temperature ? read_double(r, "attn_scale", 0) : 0,
           floor_scale = f->temperature ? read_double(r, "floor_scale", 0) : 0;
    bool on = tuned && (tuned->kind == CONFIG_BOOL ? tuned->truth : tuned->number != 0);
    if (chunk < 0 || chunk > UINT32_MAX)
        config_fail(r->config, ERR_INVALID, "'%s' is out of range", f->chunk);
    if (chunked)
        a->chunk = (uint32_t)chunk;
    if (!on || rotates)
        return;
    if (!(floor_scale >= 1))
        config_fail(r->config, ERR_INVALID, "'floor_scale' is out of range");
    a->temperature = (float)scale;
    a->temperature_floor = (float)floor_scale;
    a->temperature_offset = 1;
}

/* MPT keeps some options in an object of their own. */
static void read_clip(struct spec_reader *r, struct attention_spec *a) {
    int64_t inner = config_object(r->config, r->top, "attn_config");
    a->clip = (float)read_double(r, "clip_qkv", 0);
    if (inner <= 0)
        return;
    a->clip = (float)config_double(r->config, (uint32_t)inner, "clip_qkv", 0);
    a->scale = (float)config_double(r->config, (uint32_t)inner, "softmax_scale", a->scale);
}

int attention_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    const struct family *f = r->family;
    struct attention_spec *a = &out->attention;
    read_heads(r, a);
    if (config_failed(r->config))
        return r->config->error.code;
    read_scale(r, layer, a);
    a->qkv_bias = read_rule(r, f->qkv_bias);
    a->out_bias = read_rule(r, f->out_bias);
    a->output_gate = f->output_gate;
    a->alibi = read_rule(r, f->alibi);
    a->sinks = f->sinks;
    a->qk_norm = !f->qk_norm_when || read_rule(r, f->qk_norm_when) ? f->qk_norm : QK_NORM_NONE;
    a->q_norm = r->spec->layer_norm;
    a->alibi_scaled = f->alibi_scaled;
    read_clip(r, a);
    if (f->qk_norm_kind)
        a->q_norm.kind = f->qk_norm_kind;
    /* both families that have them: without */
    if (a->qk_norm == QK_NORM_HEADS)
        a->q_norm.bias = false;
    read_window(r, layer, a);
    bool rotates = !f->no_rope && !a->alibi && !without_rope(r, layer, a);
    if (f->chunk || f->temperature)
        read_chunk(r, layer, rotates, a);
    if (f->qk_norm_plain) {
        a->q_norm.plain = true;
        if (!rotates)
            a->qk_norm = QK_NORM_NONE;
    }
    if (!rotates)
        return rope_none(r, &a->rope_idx);
    if (f->rope_scales_queries)
        rope_read_query_scale(r, a);
    return rope_read(r, a->head_dim, a->window ? "sliding_attention" : "full_attention",
                     &a->rope_idx);
}

/* Two thirds of the width, times a factor, rounded up to a multiple. */
static uint32_t adjusted_width(struct spec_reader *r, uint32_t width) {
    double factor = read_double(r, "block_ffn_dim_multiplier", 1);
    uint32_t multiple = read_count(r, "block_multiple_of", 256, SPEC_FFN_MAX);
    if (!read_rule(r, r->family->ffn_two_thirds) || config_failed(r->config))
        return width;
    if (!(factor > 0 && factor < 1e4))
        config_fail(r->config, ERR_INVALID, "'block_ffn_dim_multiplier' is out of range");
    width = (uint32_t)(factor * (uint32_t)(2.0 * width / 3));
    width = (width + multiple - 1) / multiple * multiple;
    if (width < 1 || width > SPEC_FFN_MAX)
        config_fail(r->config, ERR_INVALID, "the feed-forward's width is out of range");
    return width;
}

int ffn_dense_read(struct spec_reader *r, uint32_t layer, struct layer_spec *out) {
    const struct family *f = r->family;
    struct ffn_spec *ffn = &out->ffn;
    int64_t factor = f->ffn_ratio ? read_int(r, f->ffn_ratio, f->ffn_factor) : f->ffn_factor;
    if (factor > SPEC_FFN_MAX)
        return config_fail(r->config, ERR_INVALID, "'%s' is out of range", f->ffn_ratio);
    ffn->width = read_count(r, "intermediate_size", r->spec->hidden * factor, SPEC_FFN_MAX);
    if (f->ffn_halved)
        ffn->width /= 2;
    if (f->ffn_two_thirds)
        ffn->width = adjusted_width(r, ffn->width);
    ffn->bias = read_rule(r, f->ffn_bias);
    ffn->down_bias = ffn->bias || read_rule(r, f->down_bias);
    return read_activation(r, "hidden_act", &ffn->activation);
}
