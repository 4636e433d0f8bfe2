#include "model/read/spec_read.h"

#include <math.h>
#include <stdio.h>

#include "base/list.h"
#include "model/read/moe_read.h"
#include "model/read/state_read.h"
#include "model/read/unread.h"
#include "model/run/layer_kinds.h"
#include "model/run/rope.h"

/* ---- getters ---- */

const char *field_name(const struct spec_reader *r, const char *field, char out[64]) {
    size_t len = strlen(field);
    char other[64];
    *out = 0;
    for (const char *at = r->family->aliases; at && *at;) {
        size_t pair = strcspn(at, " ");
        if (pair > len + 1 && !strncmp(at, field, len) && at[len] == ':' && !r->common_names) {
            snprintf(out, 64, "%.*s", (int)(pair - len - 2), at + len + 2);
            return *out ? out : strcpy(out, "-"); /* no field has that name */
        }
        size_t sign = len + (pair > len && at[len] == ':');
        if (pair > sign + 1 && !strncmp(at, field, len) && at[sign] == '=') {
            snprintf(other, sizeof other, "%.*s", (int)(pair - sign - 1), at + sign + 1);
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
    if (!rule || !*rule)
        return false;
    if (!strcmp(rule, "yes"))
        return true;
    return *rule == '!' ? !read_bool(r, rule + 1, false) : read_bool(r, rule, false);
}

uint32_t read_count(struct spec_reader *r, const char *field, int64_t fallback, int64_t max) {
    char name[64];
    int64_t value = read_int(r, field, fallback);
    field_name(r, field, name);
    if (value < 1)
        config_fail(r->config, ERR_INVALID, "'%s' is missing or zero", name);
    else if (value > max)
        config_fail(r->config, ERR_UNSUPPORTED, "'%s' is %lld, more than %lld", name,
                    (long long)value, (long long)max);
    else
        return (uint32_t)value;
    return 1;
}

int read_unsupported(struct spec_reader *r, const char *field, const char *value) {
    return config_fail(r->config, ERR_UNSUPPORTED, "'%s' = '%s' is not supported", field, value);
}

static const char *types_field(const struct spec_reader *r, char name[64]) {
    const char *field = r->family->types_field;
    return field_name(r, field ? field : "layer_types", name);
}

const char *read_layer_type(struct spec_reader *r, uint32_t i) {
    char name[64];
    const struct config_node *list = config_find(r->config, r->top, types_field(r, name));
    if (!list)
        return NULL;
    if (r->family->types_repeat && list->count)
        i %= list->count;
    const struct config_node *item = config_item(r->config, list, i);
    if (list->kind == CONFIG_LIST && item && item->kind == CONFIG_TEXT)
        return config_node_text(r->config, item);
    config_fail(r->config, ERR_INVALID, "'%s' is no list of a name for each layer", name);
    return NULL;
}

bool read_factors(struct spec_reader *r, const char *field, float *out, uint32_t count) {
    double list[8];
    uint32_t have = config_doubles(r->config, r->top, field, list, ARRAY_LEN(list));
    CHECK(count <= ARRAY_LEN(list));
    if (have && have != count)
        config_fail(r->config, ERR_INVALID, "'%s' is no list of %u numbers", field, count);
    for (uint32_t i = 0; i < count && have == count; i++)
        out[i] = (float)list[i];
    return have == count;
}

float read_multiplier(struct spec_reader *r, const char *field) {
    return field ? (float)read_double(r, field, 1) : 1;
}

/* ---- common parts ---- */

struct norm_spec read_norm(struct spec_reader *r) {
    const struct family *f = r->family;
    const char *field = f->norm_eps             ? f->norm_eps
                        : f->norm == NORM_LAYER ? "layer_norm_eps"
                                                : "rms_norm_eps";
    struct norm_spec norm = {.kind = f->norm ? f->norm : NORM_RMS,
                             .bias = read_rule(r, f->norm_bias),
                             .plain = f->norm_plain,
                             .weight_offset = f->norm_weight_offset};
    double eps = read_double(r, field, norm.kind == NORM_LAYER ? 1e-5 : 1e-6);
    if (!(eps > 0 && eps < 1))
        config_fail(r->config, ERR_INVALID, "'%s' is out of range", field);
    norm.eps = (float)eps;
    return norm;
}

int read_activation(struct spec_reader *r, const char *field, enum activation *out) {
    static const struct {
        const char *name;
        enum activation activation;
    } NAMES[] = {
        {"silu", ACTIVATION_SILU},
        {"swish", ACTIVATION_SILU},
        {"swiglu", ACTIVATION_SILU}, /* of a gated feed-forward: what its gate goes through */
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
            if (*out == ACTIVATION_GELU && r->family->gelu_is_tanh)
                *out = ACTIVATION_GELU_TANH;
            return 0;
        }
    return read_unsupported(r, field, name);
}

/* ---- the network ---- */

/* Layers of a config that lists their kinds and gives no number. */
static int64_t listed_layers(struct spec_reader *r) {
    static const char *const LISTS[] = {"layer_types", "layers_block_type"};
    for (size_t i = 0; i < ARRAY_LEN(LISTS); i++) {
        const struct config_node *list = config_has(r->config, r->top, LISTS[i])
                                             ? config_find(r->config, r->top, LISTS[i])
                                             : NULL;
        if (list && list->kind == CONFIG_LIST)
            return list->count;
    }
    return config_has(r->config, r->top, "hybrid_override_pattern")
               ? (int64_t)strlen(read_text(r, "hybrid_override_pattern", ""))
               : 0;
}

/* "XModel": the network without its head. */
static bool ends_in_model(const char *architecture) {
    size_t len = strlen(architecture);
    return len > 5 && !strcmp(architecture + len - 5, "Model");
}

/* "XForSequenceClassification": with a head that scores instead. */
static bool ends_in_classification(const char *architecture) {
    static const char END[] = "ForSequenceClassification";
    size_t len = strlen(architecture), end = sizeof END - 1;
    return len > end && !strcmp(architecture + len - end, END);
}

/* Its name, where that is not one of the family's own; else "". */
static const char *foreign_architecture(struct spec_reader *r) {
    const struct config_node *list = config_find(r->config, 0, "architectures");
    if (!list || !list->count)
        return "";
    const char *name = config_node_text(r->config, config_item(r->config, list, 0));
    return list_has(r->family->architectures, ',', bytes_str(name)) ? "" : name;
}

/* As many as are named; transformers assumes two where a file says nothing. */
static uint32_t read_label_count(struct spec_reader *r) {
    const struct config_node *names = config_find(r->config, 0, "id2label");
    int64_t named = names && names->kind == CONFIG_OBJECT ? (int64_t)names->count : 0;
    int64_t count = named ? named : config_int(r->config, 0, "num_labels", 2);
    config_consume_all(r->config, 0, "id2label");
    if (count < 1 || count > SPEC_LABELS_MAX)
        config_fail(r->config, ERR_INVALID, "a model has 1 to %d labels, not %lld", SPEC_LABELS_MAX,
                    (long long)count);
    return (uint32_t)count;
}

static void read_score(struct spec_reader *r, const char *foreign) {
    const struct family *f = r->family;
    struct score_spec *score = &r->spec->score;
    bool linear = ends_in_classification(foreign);
    *score = (struct score_spec){.kind = linear ? SCORE_LINEAR : f->score,
                                 .pooling = linear ? POOLING_LAST : POOLING_CLS,
                                 .dense_bias = true,
                                 .out_bias = !linear};
    if (linear && !f->names->patterns[ROLE_SCORE_OUT])
        read_unsupported(r, "architectures", foreign);
    if (!score->kind)
        return;
    score->label_count = read_label_count(r);
    const char *way = f->score_pooling ? read_text(r, f->score_pooling, "cls") : "cls";
    if (!strcmp(way, "mean"))
        score->pooling = POOLING_MEAN;
    else if (strcmp(way, "cls") != 0)
        read_unsupported(r, f->score_pooling, way);
    if (score->kind != SCORE_NORMED)
        return;
    score->dense_bias = read_rule(r, f->score_bias);
    score->norm = read_norm(r);
    (void)read_activation(r, "classifier_activation", &score->activation);
    if (score->activation != ACTIVATION_GELU && score->activation != ACTIVATION_GELU_TANH &&
        score->activation != ACTIVATION_SILU && score->activation != ACTIVATION_RELU)
        read_unsupported(r, "classifier_activation", read_text(r, "classifier_activation", ""));
}

/* What a wrapper says itself counts before its text_config, as in transformers 5. */
static bool read_tied(struct spec_reader *r) {
    bool tied = read_bool(r, "tie_word_embeddings", true);
    return r->top ? config_bool(r->config, 0, "tie_word_embeddings", tied) : tied;
}

static void read_sizes(struct spec_reader *r) {
    struct model_spec *spec = r->spec;
    const struct family *f = r->family;
    spec->vocab = read_count(r, "vocab_size", 0, SPEC_VOCAB_MAX);
    spec->hidden = read_count(r, "hidden_size", 0, SPEC_HIDDEN_MAX);
    spec->layer_count = read_count(r, "num_hidden_layers", listed_layers(r), SPEC_LAYERS_MAX);
    spec->max_context =
        MIN(read_count(r, "max_position_embeddings", 0, INT32_MAX), (uint32_t)SPEC_CONTEXT_MAX);
    spec->embed_dim = read_has(r, "word_embed_proj_dim")
                          ? read_count(r, "word_embed_proj_dim", 0, spec->hidden)
                          : spec->hidden;
    spec->tied_head = read_tied(r);
    spec->head_bias = read_rule(r, f->head_bias);
    spec->bidirectional = f->bidirectional;
    const char *foreign = foreign_architecture(r);
    read_score(r, foreign);
    spec->headless = f->bidirectional || spec->score.kind || ends_in_model(foreign);
    if (f->token_types)
        spec->token_types = read_count(r, f->token_types, 2, 1024);
}

/* A factor by a field that must be positive; 1 where the family has none. */
static float read_factor(struct spec_reader *r, const char *field) {
    double value = field ? read_double(r, field, 1) : 1;
    if (!(value > 0 && value < 1e9))
        config_fail(r->config, ERR_INVALID, "'%s' is out of range", field);
    return (float)value;
}

static void read_ends(struct spec_reader *r) {
    struct model_spec *spec = r->spec;
    const struct family *f = r->family;
    bool root = f->embed_scale && !strcmp(f->embed_scale, "sqrt_hidden");
    spec->embed_scale = root ? (float)sqrt((double)spec->hidden) : read_factor(r, f->embed_scale);
    if (f->embed_scale_bf16)
        spec->embed_scale = bf16_to_f32(f32_to_bf16(spec->embed_scale));
    spec->final_norm = read_norm(r);
    if (read_rule(r, f->embed_norm))
        spec->embed_norm = spec->final_norm;
    spec->layer_norm = spec->final_norm;
    if (f->final_norm && !read_rule(r, f->final_norm))
        spec->final_norm.kind = NORM_NONE;
    if (f->final_norm_eps > 0)
        spec->final_norm.eps = f->final_norm_eps;
    spec->logit_scale =
        f->logit_divisor ? 1 / read_factor(r, f->logit_divisor) : read_factor(r, f->logit_scale);
    spec->logit_soft_cap = f->logit_cap ? (float)read_double(r, f->logit_cap, 0) : 0;
    if (read_rule(r, f->learned_positions)) {
        spec->position_offset = f->position_offset;
        if (f->positions_inclusive && spec->max_context <= f->position_offset)
            config_fail(r->config, ERR_INVALID, "'max_position_embeddings' is out of range");
        else if (f->positions_inclusive)
            spec->max_context -= f->position_offset;
        spec->learned_positions = spec->max_context + f->position_offset;
    }
}

static void place_norms(struct spec_reader *r, uint32_t i, struct layer_spec *layer) {
    struct norm_spec norm = r->spec->layer_norm;
    enum norm_places places = r->family->places;
    layer->parallel = read_rule(r, r->family->parallel);
    layer->norm_last = places == PLACES_RESIDUAL;
    if (places != PLACES_POST)
        layer->mixer_norm = layer->ffn_norm = norm;
    if (places == PLACES_POST || places == PLACES_SANDWICH)
        layer->mixer_post = layer->ffn_post = norm;
    if (layer->parallel && r->family->one_norm)
        layer->ffn_norm.kind = NORM_NONE;
    if (r->family->first_bare && i == 0)
        layer->mixer_norm.kind = NORM_NONE;
    if (!layer->mixer)
        layer->mixer_norm.kind = layer->mixer_post.kind = NORM_NONE;
    if (!layer->ffn.kind)
        layer->ffn_norm.kind = layer->ffn_post.kind = NORM_NONE;
}

/* ---- a layer ---- */

/* The type of layer i by the list of types or the pattern of letters; NULL: neither is there. */
static const struct layer_type *listed_type(struct spec_reader *r, uint32_t i) {
    const struct layer_type *type = r->family->layer_types;
    const char *letters =
        r->family->layer_letters ? read_text(r, r->family->layer_letters, "") : "";
    const char *name = type ? read_layer_type(r, i) : NULL;
    char field[64], letter = name || i >= strlen(letters) ? 0 : letters[i];
    if (!type || (!name && !r->family->layer_letters))
        return NULL;
    for (; type->name; type++)
        if (name ? !strcmp(type->name, name) : letter && type->letter == letter)
            return type;
    read_unsupported(r, name ? types_field(r, field) : r->family->layer_letters,
                     name ? name : letters);
    return NULL;
}

/* By a rule that says which layers are attention; those are few. */
static enum mixer_kind ruled_mixer(struct spec_reader *r, uint32_t i) {
    const struct family *f = r->family;
    enum mixer_kind usual = f->mixer ? f->mixer : MIXER_ATTENTION;
    if (f->attention_period) {
        int64_t period = read_int(r, f->attention_period, 1),
                offset = f->attention_offset ? read_int(r, f->attention_offset, 0) : period - 1;
        return period > 0 && i % period == offset ? MIXER_ATTENTION : usual;
    }
    if (f->attention_listed) {
        double listed[SPEC_LAYERS_MAX];
        uint32_t count =
            config_doubles(r->config, r->top, f->attention_listed, listed, SPEC_LAYERS_MAX);
        if (!count && f->attention_unlisted)
            return MIXER_ATTENTION;
        for (uint32_t k = 0; k < count; k++)
            if (listed[k] == i)
                return MIXER_ATTENTION;
    }
    return usual;
}

/* Norms take away that the residual is halved, and what is added to it, but for their epsilon, which
 * counts four times as much each time. */
static void read_halving(struct spec_reader *r, uint32_t i, struct layer_spec *layer) {
    int64_t every = read_int(r, r->family->halved_every, 0), halved = every > 0 ? i / every : 0;
    if (every <= 0)
        return;
    layer->mixer_norm.eps = ldexpf(layer->mixer_norm.eps, (int)(2 * halved));
    layer->ffn_norm.eps = layer->mixer_norm.eps;
    if (i + 1 == r->spec->layer_count)
        r->spec->final_norm.eps = ldexpf(r->spec->final_norm.eps, (int)(2 * ((i + 1) / every)));
}

static void read_multipliers(struct spec_reader *r, const struct multipliers *m,
                             struct layer_spec *layer) {
    float ffn[2] = {1, 1};
    layer->attention.scale *= read_multiplier(r, m->key);
    layer->mixer_in_scale = read_multiplier(r, m->mixer_in);
    layer->residual_scale = read_multiplier(r, m->mixer_out);
    layer->beside_in_scale = read_multiplier(r, m->beside_in);
    layer->beside_scale = read_multiplier(r, m->beside_out);
    if (m->ffn && read_factors(r, m->ffn, ffn, 2))
        layer->ffn.gate_scale = ffn[0];
    layer->ffn_scale = ffn[1];
}

/* Which mixers and which feed-forward. */
static void read_kinds(struct spec_reader *r, uint32_t i, struct layer_spec *layer) {
    const struct family *f = r->family;
    const struct layer_type *type = listed_type(r, i);
    enum mixer_kind ruled = ruled_mixer(r, i); /* read also where the list counts */
    layer->mixer = type ? type->mixer : ruled;
    layer->beside = f->beside;
    layer->recurrent.kind = mixer_has_state(layer->beside)  ? layer->beside
                            : mixer_has_state(layer->mixer) ? layer->mixer
                                                            : MIXER_NONE;
    layer->ffn.kind = f->no_ffn ? FFN_NONE : f->ffn ? f->ffn : FFN_GATED;
    if (type && type->own_ffn)
        layer->ffn.kind = type->ffn;
}

static void read_layer(struct spec_reader *r, uint32_t i) {
    struct layer_spec *layer = &r->spec->layers[i];
    const struct family *f = r->family;
    *layer = (struct layer_spec){.residual_scale = read_factor(r, f->residual_scale)};
    layer->ffn_scale = layer->residual_scale;
    read_kinds(r, i, layer);
    place_norms(r, i, layer);
    if (config_failed(r->config))
        return;
    const struct layer_kind *mixer = MIXERS[layer->mixer], *beside = MIXERS[layer->beside],
                            *ffn = FFNS[layer->ffn.kind];
    if ((layer->mixer && !mixer) || (layer->ffn.kind && !ffn) ||
        (layer->ffn.kind == FFN_MOE && !f->moe)) {
        read_unsupported(r, "model_type", f->name);
        return;
    }
    if (mixer && mixer->read(r, i, layer))
        return;
    if (beside && beside->read(r, i, layer))
        return;
    if (ffn && ffn->read(r, i, layer))
        return;
    if (f->halved_every)
        read_halving(r, i, layer);
    if (f->multipliers)
        read_multipliers(r, f->multipliers, layer);
}

/* ---- the network's fields that must have one value ---- */

/* A value as a family's `expects` spells it. */
static bool is_value(const struct config *c, const struct config_node *n, const char *value,
                     size_t len) {
    char text[32] = "";
    if (n->kind == CONFIG_BOOL)
        snprintf(text, sizeof text, "%s", n->truth ? "true" : "false");
    if (n->kind == CONFIG_NUMBER)
        snprintf(text, sizeof text, "%g", n->number);
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
        if (slash)
            *slash = 0;
        int64_t obj = slash ? config_object(r->config, r->top, field) : r->top;
        const struct config_node *n = obj >= 0 ? config_find(r->config, (uint32_t)obj, leaf) : NULL;
        if (n && *wanted == '*')
            config_consume_all(r->config, (uint32_t)obj, leaf);
        else if (n && !is_value(r->config, n, wanted, value))
            config_fail(r->config, ERR_UNSUPPORTED, "'%s' is not '%.*s'; nothing else is supported",
                        leaf, (int)value, wanted);
        at = wanted + value + (wanted[value] == ' ');
    }
}

static void read_network(struct spec_reader *r) {
    r->spec->family = r->family->name;
    r->spec->names = r->spec->folder_names = r->family->names;
    r->spec->folder_norm_offset = r->family->norm_weight_offset;
    r->spec->folder_halves =
        r->family->rope_interleaved_when && !read_rule(r, r->family->rope_interleaved_when);
    check_expected(r);
    read_sizes(r);
    if (config_failed(r->config))
        return;
    read_ends(r);
    r->spec->layers = mem_calloc(r->spec->layer_count, sizeof *r->spec->layers);
    for (uint32_t i = 0; i < r->spec->layer_count && !config_failed(r->config); i++)
        read_layer(r, i);
    if (!config_failed(r->config))
        consume_absent(r);
}

/* ---- the family ---- */
/* Row i of all families; NULL: past the last. */
static const struct family *family_at(size_t i) {
    const struct {
        const struct family *rows;
        size_t count;
    } TABLES[] = {{FAMILIES, FAMILY_COUNT},
                  {EARLY_FAMILIES, EARLY_FAMILY_COUNT},
                  {ENCODER_FAMILIES, ENCODER_FAMILY_COUNT},
                  {MOE_FAMILIES, MOE_FAMILY_COUNT},
                  {STATE_FAMILIES, STATE_FAMILY_COUNT}};
    for (size_t t = 0; t < ARRAY_LEN(TABLES); i -= TABLES[t++].count)
        if (i < TABLES[t].count)
            return &TABLES[t].rows[i];
    return NULL;
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
        if (!any)
            return false;
    }
    return true;
}

/* By the first of "architectures", else by "model_type"; a wrapper's text model by its own
 * model_type. */
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
        if (!*architecture)
            config_fail(c, ERR_INVALID, "'architectures' is no list of one name");
    }
    /* oxidizr writes neither; its latent models show by this */
    if (!*architecture && !*type && config_has_key(c, 0, "kv_latent_dim"))
        type = "oxidizr";
    const struct family *f;
    for (size_t i = 0; *architecture && (f = family_at(i)); i++)
        if (list_has(f->architectures, ',', bytes_str(architecture)) && fits(r, f->when))
            return f;
    bool by_type = !*architecture || r->top || ends_in_model(architecture) ||
                   ends_in_classification(architecture);
    for (size_t i = 0; by_type && (f = family_at(i)); i++)
        if (list_has(f->model_types, ',', bytes_str(type)) && fits(r, f->when))
            return f;
    if (*architecture)
        read_unsupported(r, "architectures", architecture);
    else if (*type)
        read_unsupported(r, "model_type", type);
    else
        config_fail(c, ERR_UNSUPPORTED,
                    "neither 'architectures' nor 'model_type' says which network it is");
    return NULL;
}

/* A wrapper's parts that are not its text model. */
static void skip_wrapper(struct config *c) {
    static const char *const UNREAD[] = {"vision_config",
                                         "audio_config",
                                         "projector_hidden_act",
                                         "vision_feature_layer",
                                         "vision_feature_select_strategy",
                                         "multimodal_projector_bias",
                                         "spatial_merge_size",
                                         "image_seq_length",
                                         "image_size"};
    for (size_t i = 0; i < ARRAY_LEN(UNREAD); i++)
        config_consume_all(c, 0, UNREAD[i]);
}

/* How weights are stored: quantized.h reads that. */
static void skip_storage(struct config *c, uint32_t obj) {
    config_consume_all(c, obj, "quantization_config");
    config_consume_all(c, obj, "compression_config");
}

int spec_read(struct model_spec *spec, struct config *config, const struct spec_options *o,
              struct error *err) {
    struct spec_reader r = {.config = config, .spec = spec, .common_names = o && o->common_names};
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
    struct buf unread;
    buf_init(&unread, 0);
    rc = unread_check(config, o, &unread, err);
    config_set_defaults(config, 0, NULL);
    config_close(&defaults);
    if (!rc && unread.len)
        spec->unread = mem_strdup(buf_text(&unread));
    buf_release(&unread);
    if (rc)
        spec_release(spec);
    return rc;
}

int spec_read_text(struct model_spec *spec, struct bytes text, const struct spec_options *o,
                   struct error *err) {
    struct config config;
    *spec = (struct model_spec){0};
    int rc = config_open(&config, text, err);
    if (!rc)
        rc = spec_read(spec, &config, o, err);
    config_close(&config);
    return rc;
}

void spec_release(struct model_spec *spec) {
    for (uint32_t i = 0; i < spec->rope_count; i++) {
        mem_free(spec->ropes[i].short_factor);
        mem_free(spec->ropes[i].long_factor);
    }
    mem_free(spec->layers);
    mem_free(spec->unread);
    *spec = (struct model_spec){0};
}
