#include "model/spec_read.h"

#include <math.h>
#include <stdio.h>

#include "model/layer_kinds.h"
#include "model/moe_read.h"
#include "model/rope.h"

/* ---- getters ---- */

const char *field_name(const struct spec_reader *r, const char *field, char out[64]) {
    size_t len = strlen(field);
    char other[64];
    *out = 0;
    for (const char *at = r->family->aliases; at && *at;) {
        size_t pair = strcspn(at, " ");
        if (pair > len && !strncmp(at, field, len) && at[len] == '=') {
            snprintf(other, sizeof other, "%.*s", (int)(pair - len - 1), at + len + 1);
            if (*out)
                config_consume_same(r->config, r->top, other, out);
            else if (config_has_key(r->config, r->top, other))
                memcpy(out, other, sizeof other);
        }
        at += pair + (at[pair] == ' ');
    }
    if (*out)
        config_consume_same(r->config, r->top, field, out);
    else
        snprintf(out, 64, "%s", field);
    return out;
}

int64_t read_int(struct spec_reader *r, const char *field, int64_t fallback) {
    char name[64];
    return config_int(r->config, r->top, field_name(r, field, name), fallback);
}
double read_double(struct spec_reader *r, const char *field, double fallback) {
    char name[64];
    return config_double(r->config, r->top, field_name(r, field, name), fallback);
}
bool read_bool(struct spec_reader *r, const char *field, bool fallback) {
    char name[64];
    return config_bool(r->config, r->top, field_name(r, field, name), fallback);
}
const char *read_text(struct spec_reader *r, const char *field, const char *fallback) {
    char name[64];
    return config_text(r->config, r->top, field_name(r, field, name), fallback);
}
bool read_has(struct spec_reader *r, const char *field) {
    char name[64];
    return config_has(r->config, r->top, field_name(r, field, name));
}

bool read_rule(struct spec_reader *r, const char *rule) {
    if (!rule || !*rule) return false;
    if (!strcmp(rule, "yes")) return true;
    return *rule == '!' ? !read_bool(r, rule + 1, false) : read_bool(r, rule, false);
}

uint32_t read_count(struct spec_reader *r, const char *field, int64_t fallback, int64_t max) {
    char name[64];
    int64_t value = read_int(r, field, fallback);
    field_name(r, field, name);
    if (value < 1)
        config_fail(r->config, ERR_INVALID, "'%s' is missing or zero", name);
    else if (value > max)
        config_fail(r->config, ERR_UNSUPPORTED, "'%s' is %lld, more than %lld", name, (long long)value, (long long)max);
    else
        return (uint32_t)value;
    return 1;
}

int read_unsupported(struct spec_reader *r, const char *field, const char *value) {
    return config_fail(r->config, ERR_UNSUPPORTED, "'%s' = '%s' is not supported", field, value);
}

const char *read_layer_type(struct spec_reader *r, uint32_t i) {
    const struct config_node *list = config_find(r->config, r->top, "layer_types");
    if (!list) return NULL;
    const struct config_node *item = config_item(r->config, list, i);
    if (list->kind == CONFIG_LIST && item && item->kind == CONFIG_TEXT) return config_node_text(r->config, item);
    config_fail(r->config, ERR_INVALID, "'layer_types' is no list of a name for each layer");
    return NULL;
}

/* ---- common parts ---- */

struct norm_spec read_norm(struct spec_reader *r) {
    const struct family *f = r->family;
    const char *field = f->norm_eps ? f->norm_eps : f->norm == NORM_LAYER ? "layer_norm_eps" : "rms_norm_eps";
    struct norm_spec norm = {.kind = f->norm ? f->norm : NORM_RMS,
                             .bias = read_rule(r, f->norm_bias),
                             .plain = f->norm_plain,
                             .weight_offset = f->norm_weight_offset};
    double eps = read_double(r, field, norm.kind == NORM_LAYER ? 1e-5 : 1e-6);
    if (!(eps > 0 && eps < 1)) config_fail(r->config, ERR_INVALID, "'%s' is out of range", field);
    norm.eps = (float)eps;
    return norm;
}

int read_activation(struct spec_reader *r, const char *field, enum activation *out) {
    static const struct {
        const char *name;
        enum activation activation;
    } NAMES[] = {{"silu", ACTIVATION_SILU},
                 {"swish", ACTIVATION_SILU},
                 {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
                 {"gelu_new", ACTIVATION_GELU_TANH},
                 {"gelu_fast", ACTIVATION_GELU_TANH},
                 {"gelu", ACTIVATION_GELU},
                 {"gelu_python", ACTIVATION_GELU},
                 {"quick_gelu", ACTIVATION_GELU_QUICK},
                 {"relu", ACTIVATION_RELU},
                 {"relu2", ACTIVATION_RELU2}};
    const char *name = read_text(r, field, "silu");
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (!strcmp(name, NAMES[i].name)) {
            *out = NAMES[i].activation;
            return 0;
        }
    return read_unsupported(r, field, name);
}

/* ---- the network ---- */

/* Layers of a config that lists their kinds and gives no number. */
static int64_t listed_layers(struct spec_reader *r) {
    static const char *const LISTS[] = {"layer_types", "layers_block_type"};
    for (size_t i = 0; i < ARRAY_LEN(LISTS); i++) {
        const struct config_node *list =
            config_has(r->config, r->top, LISTS[i]) ? config_find(r->config, r->top, LISTS[i]) : NULL;
        if (list && list->kind == CONFIG_LIST) return list->count;
    }
    return config_has(r->config, r->top, "hybrid_override_pattern")
               ? (int64_t)strlen(read_text(r, "hybrid_override_pattern", ""))
               : 0;
}

static void read_sizes(struct spec_reader *r) {
    struct model_spec *spec = r->spec;
    const struct family *f = r->family;
    spec->vocab = read_count(r, "vocab_size", 0, SPEC_VOCAB_MAX);
    spec->hidden = read_count(r, "hidden_size", 0, SPEC_HIDDEN_MAX);
    spec->layer_count = read_count(r, "num_hidden_layers", listed_layers(r), SPEC_LAYERS_MAX);
    spec->max_context = MIN(read_count(r, "max_position_embeddings", 0, INT32_MAX), (uint32_t)SPEC_CONTEXT_MAX);
    spec->embed_dim =
        read_has(r, "word_embed_proj_dim") ? read_count(r, "word_embed_proj_dim", 0, spec->hidden) : spec->hidden;
    spec->tied_head = read_bool(r, "tie_word_embeddings", true);
    spec->head_bias = read_rule(r, f->head_bias);
}

/* A factor by a field that must be positive; 1 where the family has none. */
static float read_factor(struct spec_reader *r, const char *field) {
    double value = field ? read_double(r, field, 1) : 1;
    if (!(value > 0 && value < 1e9)) config_fail(r->config, ERR_INVALID, "'%s' is out of range", field);
    return (float)value;
}

static void read_ends(struct spec_reader *r) {
    struct model_spec *spec = r->spec;
    const struct family *f = r->family;
    bool root = f->embed_scale && !strcmp(f->embed_scale, "sqrt_hidden");
    spec->embed_scale = root ? (float)sqrt((double)spec->hidden) : read_factor(r, f->embed_scale);
    spec->final_norm = read_norm(r);
    if (read_rule(r, f->embed_norm)) spec->embed_norm = spec->final_norm;
    spec->layer_norm = spec->final_norm;
    if (f->final_norm && !read_rule(r, f->final_norm)) spec->final_norm.kind = NORM_NONE;
    spec->logit_scale = f->logit_divisor ? 1 / read_factor(r, f->logit_divisor) : read_factor(r, f->logit_scale);
    spec->logit_soft_cap = f->logit_cap ? (float)read_double(r, f->logit_cap, 0) : 0;
    if (read_rule(r, f->learned_positions)) {
        spec->position_offset = f->position_offset;
        spec->learned_positions = spec->max_context + f->position_offset;
    }
}

static void place_norms(struct spec_reader *r, struct layer_spec *layer) {
    struct norm_spec norm = r->spec->layer_norm;
    enum norm_places places = r->family->places;
    layer->parallel = read_rule(r, r->family->parallel);
    layer->norm_last = places == PLACES_RESIDUAL;
    if (places != PLACES_POST) layer->mixer_norm = layer->ffn_norm = norm;
    if (places == PLACES_POST || places == PLACES_SANDWICH) layer->mixer_post = layer->ffn_post = norm;
    if (layer->parallel && r->family->one_norm) layer->ffn_norm.kind = NORM_NONE;
    if (!layer->mixer) layer->mixer_norm.kind = layer->mixer_post.kind = NORM_NONE;
    if (!layer->ffn.kind) layer->ffn_norm.kind = layer->ffn_post.kind = NORM_NONE;
}

/* By "layer_types" where that names it, else the family's. */
static enum mixer_kind mixer_of(struct spec_reader *r, uint32_t i) {
    const struct layer_type *types = r->family->layer_types;
    const char *name = types ? read_layer_type(r, i) : NULL;
    for (; name && types->name; types++)
        if (!strcmp(types->name, name)) return types->mixer;
    if (name) read_unsupported(r, "layer_types", name);
    return r->family->mixer ? r->family->mixer : MIXER_ATTENTION;
}

static void read_layer(struct spec_reader *r, uint32_t i) {
    struct layer_spec *layer = &r->spec->layers[i];
    const struct family *f = r->family;
    *layer = (struct layer_spec){.mixer = mixer_of(r, i),
                                 .ffn.kind = f->ffn ? f->ffn : FFN_GATED,
                                 .residual_scale = read_factor(r, f->residual_scale)};
    layer->ffn_scale = layer->residual_scale;
    if (f->kinds) f->kinds(r, i, layer);
    place_norms(r, layer);
    if (config_failed(r->config)) return;
    const struct layer_kind *mixer = MIXERS[layer->mixer], *beside = MIXERS[layer->beside],
                            *ffn = FFNS[layer->ffn.kind];
    if ((layer->mixer && !mixer) || (layer->ffn.kind && !ffn) || (layer->ffn.kind == FFN_MOE && !f->moe)) {
        read_unsupported(r, "model_type", f->name);
        return;
    }
    if (mixer && mixer->read(r, i, layer)) return;
    if (beside && beside->read(r, i, layer)) return;
    if (ffn && ffn->read(r, i, layer)) return;
    if (f->finish) f->finish(r, i, layer);
}

/* A value as a family's `expects` spells it. */
static bool is_value(const struct config *c, const struct config_node *n, const char *value, size_t len) {
    char text[32] = "";
    if (n->kind == CONFIG_BOOL) snprintf(text, sizeof text, "%s", n->truth ? "true" : "false");
    if (n->kind == CONFIG_NUMBER) snprintf(text, sizeof text, "%g", n->number);
    const char *have = n->kind == CONFIG_TEXT ? config_node_text(c, n) : text;
    return strlen(have) == len && !strncmp(have, value, len);
}

static void check_expected(struct spec_reader *r) {
    for (const char *at = r->family->expects; at && *at;) {
        char field[64];
        size_t name = strcspn(at, "="), value = strcspn(at + name, " ") - 1;
        const char *wanted = at + name + 1;
        CHECK(name < sizeof field && at[name]);
        snprintf(field, sizeof field, "%.*s", (int)name, at);
        char *slash = strchr(field, '/'), *leaf = slash ? slash + 1 : field;
        if (slash) *slash = 0;
        int64_t obj = slash ? config_object(r->config, r->top, field) : r->top;
        const struct config_node *n = obj >= 0 ? config_find(r->config, (uint32_t)obj, leaf) : NULL;
        if (n && *wanted == '*')
            config_consume_all(r->config, (uint32_t)obj, leaf);
        else if (n && !is_value(r->config, n, wanted, value))
            config_fail(r->config, ERR_UNSUPPORTED, "'%s' is not '%.*s'; nothing else is supported", leaf, (int)value,
                        wanted);
        at = wanted + value + (wanted[value] == ' ');
    }
}

static void read_network(struct spec_reader *r) {
    r->spec->family = r->family->name;
    r->spec->names = r->spec->folder_names = r->family->names;
    r->spec->folder_norm_offset = r->family->norm_weight_offset;
    r->spec->folder_halves = r->family->rope_interleaved_when && !read_rule(r, r->family->rope_interleaved_when);
    check_expected(r);
    read_sizes(r);
    if (config_failed(r->config)) return;
    read_ends(r);
    r->spec->layers = mem_calloc(r->spec->layer_count, sizeof *r->spec->layers);
    for (uint32_t i = 0; i < r->spec->layer_count && !config_failed(r->config); i++) read_layer(r, i);
    if (!config_failed(r->config)) consume_absent(r);
}

/* ---- the family ---- */

static bool listed(const char *list, const char *name) {
    size_t len = strlen(name);
    for (const char *at = list; at && *at;) {
        size_t item = strcspn(at, ",");
        if (item == len && !strncmp(at, name, len)) return true;
        at += item + (at[item] == ',');
    }
    return false;
}

/* Row i of all families; NULL: past the last. */
static const struct family *family_at(size_t i) {
    if (i < FAMILY_COUNT) return &FAMILIES[i];
    return i - FAMILY_COUNT < MOE_FAMILY_COUNT ? &MOE_FAMILIES[i - FAMILY_COUNT] : NULL;
}

/* Whether the config has what a row's `when` says. */
static bool fits(struct spec_reader *r, const char *when) {
    for (const char *at = when; at && *at; at += *at == ' ') {
        char field[64];
        size_t name = strcspn(at, "=");
        bool any = false;
        CHECK(name < sizeof field && at[name]);
        snprintf(field, sizeof field, "%.*s", (int)name, at);
        const struct config_node *n = config_find(r->config, r->top, field);
        at += name;
        while (*at == '=' || *at == '|') {
            size_t len = strcspn(++at, "| ");
            any |= n ? is_value(r->config, n, at, len) : len == 4 && !strncmp(at, "null", 4);
            at += len;
        }
        if (!any) return false;
    }
    return true;
}

/* By the first of "architectures", else by "model_type"; a wrapper's text model by its own model_type. */
static const struct family *find_family(struct spec_reader *r) {
    struct config *c = r->config;
    const struct config_node *list = config_find(c, 0, "architectures");
    const char *type = config_text(c, r->top, "model_type", ""), *architecture = "";
    if (list && (list->kind != CONFIG_LIST || list->count > 1)) {
        config_fail(c, ERR_INVALID, "'architectures' is no list of one name");
        return NULL;
    }
    if (list && list->count) {
        architecture = config_node_text(c, config_item(c, list, 0));
        if (!*architecture) config_fail(c, ERR_INVALID, "'architectures' is no list of one name");
    }
    /* oxidizr writes neither; its latent models show by this */
    if (!*architecture && !*type && config_has_key(c, 0, "kv_latent_dim")) type = "oxidizr";
    const struct family *f;
    for (size_t i = 0; *architecture && (f = family_at(i)); i++)
        if (listed(f->architectures, architecture) && fits(r, f->when)) return f;
    for (size_t i = 0; (!*architecture || r->top) && (f = family_at(i)); i++)
        if (listed(f->model_types, type) && fits(r, f->when)) return f;
    if (*architecture)
        read_unsupported(r, "architectures", architecture);
    else
        read_unsupported(r, "model_type", *type ? type : "(missing)");
    return NULL;
}

/* A wrapper's parts that are not its text model. */
static void skip_wrapper(struct config *c) {
    static const char *const PARTS[] = {"vision_config",
                                        "audio_config",
                                        "projector_hidden_act",
                                        "vision_feature_layer",
                                        "vision_feature_select_strategy",
                                        "multimodal_projector_bias",
                                        "spatial_merge_size",
                                        "image_seq_length",
                                        "image_size"};
    for (size_t i = 0; i < ARRAY_LEN(PARTS); i++) config_consume_all(c, 0, PARTS[i]);
}

/* How weights are stored: quantised.h reads that. */
static void skip_storage(struct config *c, uint32_t obj) {
    config_consume_all(c, obj, "quantization_config");
    config_consume_all(c, obj, "compression_config");
}

int spec_read(struct model_spec *spec, struct config *config, const char *accept, struct error *err) {
    struct spec_reader r = {.config = config, .spec = spec};
    struct config defaults = {0};
    *spec = (struct model_spec){0};
    int64_t text = config_object(config, 0, "text_config");
    int rc = 0;
    if (text > 0) {
        r.top = (uint32_t)text;
        skip_wrapper(config);
    }
    skip_storage(config, 0);
    skip_storage(config, r.top);
    r.family = find_family(&r);
    if (r.family) {
        rc = config_open(&defaults, bytes_str(r.family->defaults ? r.family->defaults : "{}"), err);
        CHECK(!rc);
        config_set_defaults(config, r.top, &defaults);
        read_network(&r);
    }
    rc = config_finish(config, accept, err);
    config_set_defaults(config, 0, NULL);
    config_close(&defaults);
    if (rc) spec_release(spec);
    return rc;
}

int spec_read_text(struct model_spec *spec, struct bytes text, const char *accept, struct error *err) {
    struct config config;
    *spec = (struct model_spec){0};
    int rc = config_open(&config, text, err);
    if (!rc) rc = spec_read(spec, &config, accept, err);
    config_close(&config);
    return rc;
}

void spec_release(struct model_spec *spec) {
    for (uint32_t i = 0; i < spec->rope_count; i++) {
        mem_free(spec->ropes[i].short_factor);
        mem_free(spec->ropes[i].long_factor);
    }
    mem_free(spec->layers);
    *spec = (struct model_spec){0};
}
