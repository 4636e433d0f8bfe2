#include "model/read/pooling.h"

#include <stdio.h>

#include "base/fsutil.h"
#include "formats/config.h"
#include "formats/gguf.h"
#include "formats/json_tree.h"
#include "formats/safetensors.h"
#include "model/load/storage_map.h"

enum { FILE_BYTES_MAX = 1 << 20, HEAD_WIDTH_MAX = 1 << 16 };

/* dir/path/name as a tree; absent where there is no such file. */
static int read_json(struct arena *arena, const char *dir, struct bytes path, const char *name,
                     struct json_value *out, struct error *err) {
    char inner[512];
    struct buf text = {0}, room = {0};
    *out = (struct json_value){0};
    if (path.len > 200 || (path.len && (memchr(path.data, 0, path.len) || path.data[0] == '/' ||
                                        memmem(path.data, path.len, "..", 2))))
        return error_set(err, ERR_INVALID, "'modules.json' has a module outside of the folder");
    snprintf(inner, sizeof inner, "%.*s%s%s", (int)path.len, (const char *)path.data,
             path.len ? "/" : "", name);
    char *file = path_join(dir, inner);
    int rc = file_exists(file) ? file_read(file, FILE_BYTES_MAX, &text, err) : 0;
    if (!rc && text.len)
        rc = json_parse(arena, config_strict_text(buf_bytes(&text), &room), out, err);
    buf_release(&room);
    buf_release(&text);
    mem_free(file);
    return rc;
}

/* Last part of "sentence_transformers.models.Pooling". */
static struct bytes last_name(struct bytes type) {
    size_t at = type.len;
    while (at > 0 && type.data[at - 1] != '.')
        at--;
    return bytes_of(type.data + at, type.len - at);
}

/* Each way is a truth of its own in most files; later ones name it. */
static const struct {
    const char *field, *name;
    enum pooling kind; /* POOLING_NONE: we lack it */
} WAYS[] = {
    {"pooling_mode_cls_token", "cls", POOLING_CLS},
    {"pooling_mode_mean_tokens", "mean", POOLING_MEAN},
    {"pooling_mode_max_tokens", "max", POOLING_MAX},
    {"pooling_mode_lasttoken", "lasttoken", POOLING_LAST},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", POOLING_NONE},
    {"pooling_mode_weightedmean_tokens", "weightedmean", POOLING_NONE},
};

static int read_way(struct json_value config, struct pooling_spec *out, struct error *err) {
    uint32_t count = 0;
    for (size_t i = 0; i < ARRAY_LEN(WAYS); i++) {
        if (!json_get_bool(config, WAYS[i].field, false) &&
            !json_is(json_get(config, "pooling_mode"), WAYS[i].name))
            continue;
        if (WAYS[i].kind == POOLING_NONE)
            return error_set(err, ERR_UNSUPPORTED,
                             "the model's embeddings need '%s', which is not "
                             "offered; --pooling chooses another way",
                             WAYS[i].field);
        out->kind = WAYS[i].kind;
        count++;
    }
    return count == 1 ? 0
                      : error_set(err, ERR_UNSUPPORTED,
                                  "the model's embeddings are pooled in %u ways, not one; "
                                  "--pooling chooses one",
                                  count);
}

/* ---- layers behind the pooling ---- */

/* By the last part of "torch.nn.modules.activation.Tanh". */
static int read_activation(struct bytes name, enum head_activation *out, struct error *err) {
    static const struct {
        const char *name;
        enum head_activation activation;
    } NAMES[] = {{"Identity", HEAD_IDENTITY}, {"Tanh", HEAD_TANH}, {"GELU", HEAD_GELU},
                 {"ReLU", HEAD_RELU},         {"SiLU", HEAD_SILU}, {"Sigmoid", HEAD_SIGMOID}};
    struct bytes last = last_name(name);
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (bytes_equal(last, bytes_str(NAMES[i].name))) {
            *out = NAMES[i].activation;
            return 0;
        }
    return error_set(err, ERR_UNSUPPORTED,
                     "the model's embeddings need the activation '%.*s', which is not offered",
                     (int)MIN(name.len, (size_t)100), (const char *)name.data);
}

/* A tensor of rows x cols values as f32; cols 0: a vector. NULL: err is set. */
static float *read_tensor(const struct safetensors *files, const char *name, uint32_t rows,
                          uint32_t cols, struct error *err) {
    const struct tensor *t = safetensors_find(files, name);
    enum storage_type type = t ? storage_of(t) : STORAGE_NONE;
    if (!t || t->dim_count != (cols ? 2u : 1u) || t->dims[0] != rows ||
        (cols && t->dims[1] != cols) || !type) {
        error_set(err, ERR_INVALID,
                  "a module of the model's embeddings has no '%s' of the size that its config.json "
                  "says",
                  name);
        return NULL;
    }
    size_t count = (size_t)rows * MAX(cols, 1u);
    float *values = mem_calloc(count, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = storage_get(type, t->data, i);
    return values;
}

static int read_size(struct json_value config, const char *field, uint32_t *out,
                     struct error *err) {
    struct json_value size = json_get(config, field);
    *out = 0;
    if (size.kind == JSON_IS_INT && size.integer > 0 && size.integer <= HEAD_WIDTH_MAX)
        *out = (uint32_t)size.integer;
    return *out ? 0
                : error_set(err, ERR_INVALID,
                            "'%s' of a module of the model's embeddings is missing or out of range",
                            field);
}

static int read_dense(struct json_value config, struct head_layer *l, bool *bias,
                      struct error *err) {
    struct json_value activation = json_get(config, "activation_function"),
                      input = json_get(config, "module_input_name"),
                      output = json_get(config, "module_output_name");
    if (json_get_bool(config, "use_residual", false))
        return error_set(err, ERR_UNSUPPORTED,
                         "the model's embeddings need 'use_residual', which is not offered");
    if ((input.kind == JSON_IS_STRING && !json_is(input, "sentence_embedding")) ||
        (output.kind == JSON_IS_STRING && !json_is(output, "sentence_embedding")))
        return error_set(err, ERR_UNSUPPORTED,
                         "a module of the model's embeddings takes or gives something else than "
                         "'sentence_embedding'");
    int rc = read_size(config, "in_features", &l->in, err);
    if (!rc)
        rc = read_size(config, "out_features", &l->out, err);
    *bias = json_get_bool(config, "bias", true);
    l->activation = HEAD_TANH; /* the class's */
    return rc || activation.kind != JSON_IS_STRING
               ? rc
               : read_activation(json_text(activation), &l->activation, err);
}

static int read_layer_norm(struct json_value config, struct head_layer *l, bool *bias,
                           struct error *err) {
    int rc = read_size(config, "dimension", &l->in, err);
    l->out = l->in;
    l->norm = *bias = true;
    l->eps = 1e-5f; /* torch.nn.LayerNorm's */
    return rc;
}

static int load_layer(const char *dir, struct bytes path, struct head_layer *l, bool bias,
                      struct error *err) {
    struct safetensors files = {0};
    char inner[256];
    snprintf(inner, sizeof inner, "%.*s", (int)path.len, (const char *)path.data);
    char *folder = path_join(dir, inner);
    int rc = safetensors_open(&files, folder, err);
    if (!rc)
        l->weight = read_tensor(&files, l->norm ? "norm.weight" : "linear.weight", l->out,
                                l->norm ? 0 : l->in, err);
    if (l->weight && bias)
        l->bias = read_tensor(&files, l->norm ? "norm.bias" : "linear.bias", l->out, 0, err);
    if (!rc && (!l->weight || (bias && !l->bias)))
        rc = ERR_INVALID;
    safetensors_close(&files);
    mem_free(folder);
    return rc;
}

static int add_layer(const char *dir, struct bytes path, struct bytes class,
                     struct json_value config, struct pooling_spec *out, struct error *err) {
    struct vector_head *h = &out->head;
    struct head_layer layer = {0};
    bool bias = false, dense = bytes_equal(class, bytes_str("Dense"));
    if (!out->kind || out->normalize || h->count == VECTOR_HEAD_LAYERS_MAX)
        return error_set(err, ERR_UNSUPPORTED,
                         "the model's embeddings have the module '%.*s' where it is not offered",
                         (int)class.len, (const char *)class.data);
    int rc = dense ? read_dense(config, &layer, &bias, err)
                   : read_layer_norm(config, &layer, &bias, err);
    if (!rc && h->count && h->layers[h->count - 1].out != layer.in)
        rc = error_set(err, ERR_INVALID,
                       "a module of the model's embeddings takes %u values, the one before gives "
                       "%u",
                       layer.in, h->layers[h->count - 1].out);
    if (!rc)
        rc = load_layer(dir, path, &layer, bias, err);
    h->layers[h->count++] = layer; /* also to be released */
    return rc;
}

static int read_token(struct json_value config, const char *field, bool needed, int64_t *out,
                      struct error *err) {
    struct json_value id = json_get(config, field);
    *out = id.kind == JSON_IS_INT && id.integer >= 0 ? id.integer : -1;
    return *out < 0 && (needed || (id.kind != JSON_IS_ABSENT && id.kind != JSON_IS_NULL))
               ? error_set(err, ERR_INVALID, "'%s' of a module of the model's scores is no token",
                           field)
               : 0;
}

static int read_logit_score(struct json_value config, struct pooling_spec *out, struct error *err) {
    out->kind = POOLING_LAST;
    out->by_tokens = true;
    int rc = read_token(config, "true_token_id", true, &out->true_token, err);
    return rc ? rc : read_token(config, "false_token_id", false, &out->false_token, err);
}

static int read_module(const char *dir, struct arena *arena, struct json_value module,
                       struct pooling_spec *out, struct error *err) {
    struct bytes class = last_name(json_text(json_get(module, "type"))),
                 path = json_text(json_get(module, "path"));
    struct json_value config;
    bool pools = bytes_equal(class, bytes_str("Pooling")),
         tokens = bytes_equal(class, bytes_str("LogitScore")),
         layer =
             bytes_equal(class, bytes_str("Dense")) || bytes_equal(class, bytes_str("LayerNorm"));
    if (bytes_equal(class, bytes_str("Transformer")) || bytes_equal(class, bytes_str("Dropout")))
        return 0;
    if (bytes_equal(class, bytes_str("Normalize"))) {
        out->normalize = true;
        return 0;
    }
    if (!pools && !layer && !tokens)
        return error_set(err, ERR_UNSUPPORTED,
                         "the model's embeddings need the module '%.*s', which is not offered",
                         (int)MIN(class.len, (size_t)100), (const char *)class.data);
    int rc = read_json(arena, dir, path, "config.json", &config, err);
    if (rc)
        return rc;
    if (tokens)
        return read_logit_score(config, out, err);
    return pools ? read_way(config, out, err) : add_layer(dir, path, class, config, out, err);
}

static int read_folder(const char *dir, struct pooling_spec *out, struct error *err) {
    struct arena arena;
    struct json_value modules;
    *out = (struct pooling_spec){0};
    arena_init(&arena, 16 * (size_t)FILE_BYTES_MAX, 0);
    int rc = read_json(&arena, dir, bytes_str(""), "modules.json", &modules, err);
    for (size_t i = 0; i < json_count(modules) && !rc; i++)
        rc = read_module(dir, &arena, json_at(modules, i), out, err);
    if (rc)
        pooling_spec_release(out);
    arena_release(&arena);
    return rc;
}

static int read_gguf(const char *path, struct pooling_spec *out, struct error *err) {
    static const enum pooling KINDS[] = {POOLING_NONE, POOLING_MEAN, POOLING_CLS, POOLING_LAST};
    struct gguf g;
    struct bytes arch;
    char key[128];
    int64_t type = 0;
    *out = (struct pooling_spec){0};
    int rc = gguf_open(&g, path, err);
    if (rc)
        return rc;
    if (gguf_string(&g, "general.architecture", &arch) && arch.len < 64) {
        snprintf(key, sizeof key, "%.*s.pooling_type", (int)arch.len, (const char *)arch.data);
        if (!gguf_int(&g, key, &type))
            type = 0;
    }
    if (type < 0 || type >= (int64_t)ARRAY_LEN(KINDS))
        rc = error_set(err, ERR_UNSUPPORTED, "'%s' is %lld, which is not offered", key,
                       (long long)type);
    else
        out->kind = KINDS[type];
    out->normalize = out->kind != POOLING_NONE;
    gguf_close(&g);
    return rc;
}

int pooling_read(const char *dir, struct pooling_spec *out, struct error *err) {
    char *gguf = gguf_path_of(dir);
    int rc = gguf ? read_gguf(gguf, out, err) : read_folder(dir, out, err);
    mem_free(gguf);
    return rc;
}

void pooling_spec_release(struct pooling_spec *spec) {
    vector_head_release(&spec->head);
    *spec = (struct pooling_spec){0};
}

/* sentence-transformers' names of functions, the newest place first. */
static int read_score_function(struct json_value own, struct json_value config,
                               enum score_activation *out, struct error *err) {
    const struct json_value places[] = {
        json_get(own, "activation_fn"),
        json_get(json_get(config, "sentence_transformers"), "activation_fn"),
        json_get(config, "sbert_ce_default_activation_function")};
    size_t i = 0;
    while (i < ARRAY_LEN(places) && places[i].kind != JSON_IS_STRING)
        i++;
    if (i == ARRAY_LEN(places))
        return 0;
    struct bytes name = json_text(places[i]), last = last_name(name);
    bool bare = bytes_equal(last, bytes_str("Identity"));
    *out = bare ? SCORES_BARE : SCORES_SIGMOID;
    return bare || bytes_equal(last, bytes_str("Sigmoid"))
               ? 0
               : error_set(err, ERR_UNSUPPORTED,
                           "the model's scores need the activation '%.*s', which is not offered",
                           (int)MIN(name.len, (size_t)100), (const char *)name.data);
}

/* transformers' names of what a classifier was trained for. */
static int read_problem(struct json_value config, enum score_activation *out, struct error *err) {
    struct json_value problem = json_get(config, "problem_type");
    struct bytes name = json_text(problem);
    *out = SCORES_SOFTMAX;
    if (problem.kind != JSON_IS_STRING || json_is(problem, "single_label_classification"))
        return 0;
    *out = json_is(problem, "regression") ? SCORES_BARE : SCORES_SIGMOID;
    return *out == SCORES_BARE || json_is(problem, "multi_label_classification")
               ? 0
               : error_set(err, ERR_UNSUPPORTED, "'problem_type' is '%.*s', which is not offered",
                           (int)MIN(name.len, (size_t)100), (const char *)name.data);
}

int score_activation_read(const char *dir, uint32_t label_count, enum score_activation *out,
                          struct error *err) {
    struct arena arena;
    struct json_value own = {0}, config = {0};
    *out = label_count > 1 ? SCORES_SOFTMAX : SCORES_SIGMOID;
    char *gguf = gguf_path_of(dir);
    if (gguf) {
        mem_free(gguf);
        return 0;
    }
    arena_init(&arena, 16 * (size_t)FILE_BYTES_MAX, 0);
    int rc = read_json(&arena, dir, bytes_str(""), "config_sentence_transformers.json", &own, err);
    if (!rc)
        rc = read_json(&arena, dir, bytes_str(""), "config.json", &config, err);
    if (!rc)
        rc = label_count > 1 ? read_problem(config, out, err)
                             : read_score_function(own, config, out, err);
    arena_release(&arena);
    return rc;
}
