/*
 * hub.h - from a model's name to its files on this machine: what is in a cache is found, what is
 * missing is downloaded. name.h says what names look like, choice.h which files make a model,
 * cache.h where they are kept, fetch.h how they come.
 *
 * Threading: none of its own; processes may do the same at the same time (locks, cache.h).
 */
#ifndef FORMATS_HUB_HUB_H
#define FORMATS_HUB_HUB_H

#include "formats/hub/cache.h"
#include "formats/hub/fetch.h"
#include "formats/hub/name.h"
#include "formats/hub/places.h"

/* Where the model lies that the name means, without asking anybody: *path (owned by the caller) is
 * a folder or a GGUF file. ERR_NOT_FOUND: not here, or not all of it. */
MUST_CHECK int hub_locate(const struct hub_places *places, const struct hub_name *name, char **path,
                          struct error *err);

/* Asks the hub what the name means now, downloads what is missing, and then it is as hub_locate
 * finds it. *bytes (may be NULL): of all files of the model. Errors say what a person can do:
 * ERR_NOT_FOUND (no such model, revision or file), ERR_CLOSED (the hub refuses), ERR_AGAIN (it did
 * not work, but may later), ERR_INVALID (it sends what cannot be), ERR_LIMIT (no room),
 * ERR_UNSUPPORTED (offline, this build cannot, or only pickles). */
MUST_CHECK int hub_pull(const struct hub_places *places, const struct hub_name *name,
                        const struct hub_watch *watch, char **path, uint64_t *bytes,
                        struct error *err);

/* ---- for hub_locate and hub_pull: the two kinds ---- */

/* hub_locate in the cache of huggingface_hub. */
int hugging_face_locate(const struct hub_places *places, const struct hub_name *name, char **path,
                        struct error *err);
/* hub_pull from Hugging Face's hub. */
int hugging_face_pull(const struct hub_places *places, const struct hub_name *name,
                      const struct hub_watch *watch, char **path, uint64_t *bytes,
                      struct error *err);
/* hub_locate in our cache of Ollama's models, and in Ollama's own. */
int ollama_locate(const struct hub_places *places, const struct hub_name *name, char **path,
                  struct error *err);
/* hub_pull from Ollama's registry. */
int ollama_pull(const struct hub_places *places, const struct hub_name *name,
                const struct hub_watch *watch, char **path, uint64_t *bytes, struct error *err);

/* ---- what the cache of Ollama's models holds ---- */

/* As hub_cache_read: appends our models of Ollama's registry to *out. */
MUST_CHECK int ollama_read(const struct hub_places *places, struct hub_cached_list *out,
                           struct error *err);
/* As hub_cache_delete: removes the manifest, and the blobs that no other one needs. */
MUST_CHECK int ollama_delete(const struct hub_places *places, const struct hub_name *name,
                             uint64_t *bytes, struct error *err);
/* As hub_cache_prune: removes what no manifest needs; dry: only counts it in *bytes. */
MUST_CHECK int ollama_prune(const struct hub_places *places, bool dry, uint64_t *bytes,
                            struct error *err);

/* A manifest's layers, of those that count. */
enum { OLLAMA_MANIFEST_MAX = 1 << 20, OLLAMA_LAYERS_MAX = 64 };
struct ollama_layer {
    char type[96], hash[HUB_HASH_MAX];
    int64_t size;
};
struct ollama_manifest {
    struct ollama_layer layers[OLLAMA_LAYERS_MAX];
    size_t count;
    const struct ollama_layer *model; /* into layers */
};
/* Reads a manifest, which comes from a stranger. ERR_INVALID: it is none; ERR_UNSUPPORTED: it has
 * no model, several, or layers that change what is computed and are not read here. */
MUST_CHECK int ollama_manifest_read(struct bytes json, struct ollama_manifest *m,
                                    struct error *err);
/* CACHE/manifests/registry.ollama.ai/..., owned. */
char *ollama_manifest_path(const char *cache, const struct hub_name *name);
/* CACHE/blobs/sha256-HEX, owned. */
char *ollama_blob_path(const char *cache, const char *hash);
/* The lock file of that blob, owned. */
char *ollama_lock_path(const char *cache, const char *hash);

#endif
