#include "model/read/pooling.h"

#include <stdio.h>

#include "base/fsutil.h"
#include "formats/gguf.h"
#include "formats/json_tree.h"

enum { FILE_BYTES_MAX = 1 << 20 };

/* dir/path/name as a tree; absent where there is no such file. */
static int read_json(struct arena *arena, const char *dir, struct bytes path, const char *name,
                     struct json_value *out, struct error *err) {
    char inner[512];
    struct buf text = {0};
    *out = (struct json_value){0};
    if (path.len > 200 || (path.len && (memchr(path.data, 0, path.len) || path.data[0] == '/' ||
                                        memmem(path.data, path.len, "..", 2))))
        return error_set(err, ERR_INVALID, "'modules.json' has a module outside of the folder");
    snprintf(inner, sizeof inner, "%.*s%s%s", (int)path.len, (const char *)path.data,
             path.len ? "/" : "", name);
    char *file = path_join(dir, inner);
    int rc = file_exists(file) ? file_read(file, FILE_BYTES_MAX, &text, err) : 0;
    if (!rc && text.len)
        rc = json_parse(arena, buf_bytes(&text), out, err);
    buf_release(&text);
    mem_free(file);
    return rc;
}

/* Last part of "sentence_transformers.models.Pooling". */
static struct bytes class_of(struct json_value module) {
    struct bytes type = json_text(json_get(module, "type"));
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

static int read_folder(const char *dir, struct pooling_spec *out, struct error *err) {
    struct arena arena;
    struct json_value modules, config;
    *out = (struct pooling_spec){0};
    arena_init(&arena, 16 * (size_t)FILE_BYTES_MAX, 0);
    int rc = read_json(&arena, dir, bytes_str(""), "modules.json", &modules, err);
    for (size_t i = 0; i < json_count(modules) && !rc; i++) {
        struct json_value module = json_at(modules, i);
        struct bytes class = class_of(module);
        if (bytes_equal(class, bytes_str("Transformer")))
            continue;
        if (bytes_equal(class, bytes_str("Normalize"))) {
            out->normalize = true;
        } else if (bytes_equal(class, bytes_str("Pooling"))) {
            rc = read_json(&arena, dir, json_text(json_get(module, "path")), "config.json", &config,
                           err);
            if (!rc)
                rc = read_way(config, out, err);
        } else {
            rc = error_set(err, ERR_UNSUPPORTED,
                           "the model's embeddings need the module '%.*s', which is not offered",
                           (int)MIN(class.len, (size_t)100), (const char *)class.data);
        }
    }
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
