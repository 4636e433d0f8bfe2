/*
 * ollama.c - models of Ollama's registry: a manifest names layers by digest. The layout on disk is
 * Ollama's own, in a folder of ours:
 *
 *   CACHE/manifests/registry.ollama.ai/library/NAME/TAG    the manifest, as it came
 *   CACHE/blobs/sha256-HEX                                 layers
 *   CACHE/.locks/sha256-HEX.lock                           flock(2) while one is written
 *
 * What Ollama pulled itself is found and read, too. Of the layers the model (GGUF) is what is
 * served. Its chat template is the one in the GGUF file: the layer's is written for Go's
 * text/template, which we do not read; parameters, system prompts, messages and licences are kept
 * in the cache and not applied. Adapters and projectors are refused, since the model would not be
 * what was asked for.
 */
#include "base/fsutil.h"
#include "formats/hub/hub.h"
#include "formats/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MODEL_TYPE    "application/vnd.ollama.image.model"
#define MANIFEST_TYPE "application/vnd.docker.distribution.manifest.v2+json"

/* ---- manifests ---- */

static bool read_text(struct json_reader *r, char *out, size_t max) {
    struct bytes text;
    if (!json_read_string(r, &text))
        return false;
    snprintf(out, max, "%.*s", (int)MIN(text.len, max - 1), text.data);
    return true;
}

/* {mediaType, digest: "sha256:HEX", size} */
static bool read_layer(struct json_reader *r, struct ollama_layer *layer) {
    static const char SIGN[] = "sha256:";
    char digest[HUB_HASH_MAX + sizeof SIGN - 1];
    *layer = (struct ollama_layer){.size = -1};
    digest[0] = 0;
    while (json_next(r) == JSON_KEY) {
        bool good = json_text_is(r, "mediaType") ? read_text(r, layer->type, sizeof layer->type)
                    : json_text_is(r, "digest")  ? read_text(r, digest, sizeof digest)
                    : json_text_is(r, "size")    ? json_read_int64(r, &layer->size)
                                                 : json_skip(r);
        if (!good)
            return false;
    }
    const char *hex = digest + sizeof SIGN - 1;
    if (strncmp(digest, SIGN, sizeof SIGN - 1) || strlen(hex) != 64 ||
        strspn(hex, "0123456789abcdef") != 64 || layer->size < 0)
        return json_fail(r, "a layer has no digest or no size");
    snprintf(layer->hash, sizeof layer->hash, "%.64s", hex);
    return r->last == JSON_OBJECT_END;
}

static bool read_layers(struct json_reader *r, struct ollama_manifest *m) {
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return false;
    enum json_event event;
    while ((event = json_next(r)) == JSON_OBJECT_BEGIN) {
        if (m->count >= OLLAMA_LAYERS_MAX)
            return json_fail(r, "more than %d layers", OLLAMA_LAYERS_MAX);
        if (!read_layer(r, &m->layers[m->count++]))
            return false;
    }
    return event == JSON_ARRAY_END;
}

/* Layers that change what the model computes, and that we do not read. */
static int check_layers(struct ollama_manifest *m, struct error *err) {
    static const char *const REFUSED[] = {"adapter", "projector"};
    for (size_t i = 0; i < m->count; i++) {
        const char *type = m->layers[i].type, *kind = strrchr(type, '.');
        for (size_t j = 0; kind && j < ARRAY_LEN(REFUSED); j++)
            if (!strcmp(kind + 1, REFUSED[j]))
                return error_set(err, ERR_UNSUPPORTED,
                                 "it has a layer of kind %s, which is not "
                                 "read here",
                                 REFUSED[j]);
        if (strcmp(type, MODEL_TYPE))
            continue;
        if (m->model)
            return error_set(err, ERR_UNSUPPORTED, "it has several layers with a model");
        m->model = &m->layers[i];
    }
    return m->model ? 0 : error_set(err, ERR_UNSUPPORTED, "it has no layer with a model");
}

int ollama_manifest_read(struct bytes json, struct ollama_manifest *m, struct error *err) {
    struct json_reader r;
    *m = (struct ollama_manifest){.count = 0};
    int rc = json_scan(json, 0, err);
    if (rc)
        return rc;
    json_reader_init(&r, json, 0, 0);
    bool good = json_expect(&r, JSON_OBJECT_BEGIN);
    while (good && json_next(&r) == JSON_KEY)
        good = json_text_is(&r, "layers") ? read_layers(&r, m) : json_skip(&r);
    if (!good)
        rc = error_set(err, ERR_INVALID, "its manifest cannot be read: %s", r.error.text);
    json_reader_release(&r);
    return rc ? rc : check_layers(m, err);
}

/* ---- on disk ---- */

char *ollama_manifest_path(const char *cache, const struct hub_name *name) {
    struct buf path;
    buf_init(&path, 0);
    buf_addf(&path, "%s/manifests/registry.ollama.ai/%s/%s", cache, name->repo, name->revision);
    char *text = mem_strdup(buf_text(&path));
    buf_release(&path);
    return text;
}

static char *path_of_hash(const char *cache, const char *folder, const char *hash,
                          const char *end) {
    struct buf path;
    buf_init(&path, 0);
    buf_addf(&path, "%s/%s/sha256-%s%s", cache, folder, hash, end);
    char *text = mem_strdup(buf_text(&path));
    buf_release(&path);
    return text;
}

char *ollama_blob_path(const char *cache, const char *hash) {
    return path_of_hash(cache, "blobs", hash, "");
}

char *ollama_lock_path(const char *cache, const char *hash) {
    return path_of_hash(cache, ".locks", hash, ".lock");
}

static int locate_in(const char *cache, const struct hub_name *name, char **path,
                     struct error *err) {
    struct ollama_manifest m;
    struct buf text;
    char *manifest = ollama_manifest_path(cache, name);
    buf_init(&text, 0);
    int rc = file_exists(manifest)
                 ? file_read(manifest, OLLAMA_MANIFEST_MAX, &text, err)
                 : error_set(err, ERR_NOT_FOUND, "'%s' is not in '%s'", name->repo, cache);
    if (!rc)
        rc = ollama_manifest_read(buf_bytes(&text), &m, err);
    if (!rc) {
        *path = ollama_blob_path(cache, m.model->hash);
        if (!file_exists(*path)) {
            rc = error_set(err, ERR_NOT_FOUND, "'%s' is not wholly in '%s'", name->repo, cache);
            mem_free(*path);
            *path = NULL;
        }
    }
    buf_release(&text);
    mem_free(manifest);
    return rc;
}

int ollama_locate(const struct hub_places *places, const struct hub_name *name, char **path,
                  struct error *err) {
    int rc = locate_in(places->ollama_cache, name, path, err);
    if (rc && places->ollama_models && !locate_in(places->ollama_models, name, path, NULL))
        rc = 0;
    return rc;
}

/* ---- the registry ---- */

static int explain(const struct hub_places *p, const struct hub_name *name,
                   const struct hub_request *r, struct error *err) {
    if (r->status == 404 || r->status == 401)
        return error_set(err, ERR_NOT_FOUND, "%s has no model '%s' with the tag '%s'", p->registry,
                         name->repo, name->revision);
    if (r->status == 429 || r->status >= 500)
        return error_set(err, ERR_AGAIN, "%s answers %ld, also after waiting; try later",
                         p->registry, r->status);
    return err->code;
}

static int ask_manifest(const struct hub_places *p, const struct hub_name *name,
                        struct hub_http *http, struct buf *text, struct error *err) {
    struct hub_request last;
    struct buf url;
    buf_init(&url, 0);
    buf_addf(&url, "%s/v2/%s/manifests/%s", p->registry, name->repo, name->revision);
    int rc =
        hub_http_get(http, buf_text(&url), MANIFEST_TYPE, OLLAMA_MANIFEST_MAX, text, &last, err);
    buf_release(&url);
    return rc ? explain(p, name, &last, err) : 0;
}

static struct hub_blob blob_of(const struct hub_places *p, const struct hub_name *name,
                               const struct ollama_layer *layer) {
    struct buf url;
    const char *kind = strrchr(layer->type, '.');
    struct hub_blob blob = {.label = mem_strdup(kind ? kind + 1 : "layer"),
                            .path = ollama_blob_path(p->ollama_cache, layer->hash),
                            .lock = ollama_lock_path(p->ollama_cache, layer->hash),
                            .size = (uint64_t)layer->size,
                            .digest = HUB_SHA256};
    buf_init(&url, 0);
    buf_addf(&url, "%s/v2/%s/blobs/sha256:%s", p->registry, name->repo, layer->hash);
    blob.url = mem_strdup(buf_text(&url));
    buf_release(&url);
    snprintf(blob.hash, sizeof blob.hash, "%s", layer->hash);
    return blob;
}

static int fetch_layers(const struct hub_places *p, const struct hub_name *name,
                        struct hub_http *http, const struct ollama_manifest *m,
                        const struct hub_watch *watch, uint64_t *bytes, struct error *err) {
    struct hub_blob *blobs = mem_calloc(MAX(m->count, 1u), sizeof *blobs);
    struct hub_request last;
    size_t count = 0;
    *bytes = 0;
    for (size_t i = 0; i < m->count; i++) {
        size_t j = 0;
        while (j < count && strcmp(blobs[j].hash, m->layers[i].hash) != 0)
            j++;
        if (j == count)
            blobs[count++] = blob_of(p, name, &m->layers[i]);
        *bytes += (uint64_t)m->layers[i].size;
    }
    int rc = hub_fetch(http, blobs, count, watch, &last, err);
    if (rc && last.status)
        rc = explain(p, name, &last, err);
    for (size_t i = 0; i < count; i++)
        hub_blob_release(&blobs[i]);
    mem_free(blobs);
    return rc;
}

static int keep_manifest(const struct hub_places *p, const struct hub_name *name,
                         const struct buf *text, struct error *err) {
    char *path = ollama_manifest_path(p->ollama_cache, name);
    char *dir = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
    int rc = dir_make(dir, 0755, err);
    if (!rc)
        rc = file_write_atomic(path, text->data, text->len, 0644, err);
    mem_free(dir);
    mem_free(path);
    return rc;
}

int ollama_pull(const struct hub_places *places, const struct hub_name *name,
                const struct hub_watch *watch, char **path, uint64_t *bytes, struct error *err) {
    struct hub_http *http;
    struct ollama_manifest m;
    struct buf text;
    int held_fd = -1;
    int rc = hub_http_new(&http, places->registry, NULL, places->patience_s, err);
    if (rc)
        return rc;
    buf_init(&text, 0);
    rc = hub_cache_hold(places->ollama_cache, NULL, false, &held_fd, err);
    if (!rc)
        rc = ask_manifest(places, name, http, &text, err);
    if (!rc) {
        rc = ollama_manifest_read(buf_bytes(&text), &m, err);
        if (!rc)
            rc = fetch_layers(places, name, http, &m, watch, bytes, err);
        if (rc)
            error_wrap(err, "'%s'", name->repo);
    }
    if (!rc)
        rc = keep_manifest(places, name, &text, err);
    if (!rc)
        *path = ollama_blob_path(places->ollama_cache, m.model->hash);
    buf_release(&text);
    hub_http_free(&http);
    if (held_fd >= 0)
        close(held_fd);
    return rc;
}
