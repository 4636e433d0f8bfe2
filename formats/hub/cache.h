/*
 * cache.h - Hugging Face's cache of models on disk, as huggingface_hub lays it out and llama.cpp,
 * vLLM and others share it:
 *
 *   CACHE/models--ORG--NAME/blobs/HASH               contents, by SHA-256 or git's SHA-1
 *                           refs/REVISION            the commit that a branch or tag meant last
 *                           snapshots/COMMIT/PATH    relative links into blobs
 *                           .no_exist/COMMIT/PATH    what is known not to be there
 *                           trees/COMMIT.json        the list of files (hub_listing_read_copy)
 *   CACHE/.locks/models--ORG--NAME/HASH.lock         flock(2) while the blob is written
 *
 * Whoever writes a blob holds its lock, and renames it into place when it is whole: what is in
 * blobs/ under its own name is complete. Links and refs are renamed into place as well.
 *
 * Threading: calls may come from any thread and any process.
 */
#ifndef FORMATS_HUB_CACHE_H
#define FORMATS_HUB_CACHE_H

#include "formats/hub/listing.h"
#include "formats/hub/name.h"

/* CACHE/models--ORG--NAME; returns owned. */
char *hub_cache_repo(const char *cache, const char *repo);
/* Its snapshot of a commit; returns owned. */
char *hub_cache_snapshot(const char *cache, const char *repo, const char *commit);
/* Where the blob of a hash lies; returns owned. */
char *hub_cache_blob(const char *cache, const char *repo, const char *hash);
/* Its lock file; returns owned. */
char *hub_cache_lock(const char *cache, const char *repo, const char *hash);

/* Holds the lock of a model: pulls share it, whoever removes something has it alone. Taken at
 * CACHE/.locks/models--ORG--NAME/trireme.lock (repo NULL: CACHE/.locks/trireme.lock), until *fd is
 * closed. Alone: ERR_AGAIN while something is pulled; shared: waits. Other programs do not know of
 * it; what they write is safe by the locks of blobs. */
MUST_CHECK int hub_cache_hold(const char *cache, const char *repo, bool alone, int *fd,
                              struct error *err);

enum { HUB_COMMIT_MAX = 41 };
/* The commit that a revision means here: itself, or what refs/ says. ERR_NOT_FOUND: not known. */
MUST_CHECK int hub_cache_commit(const char *cache, const char *repo, const char *revision,
                                char out[HUB_COMMIT_MAX], struct error *err);
/* Writes refs/REVISION; a revision that is the commit needs none. */
MUST_CHECK int hub_cache_set_ref(const char *cache, const char *repo, const char *revision,
                                 const char *commit, struct error *err);
/* The files of a commit: from trees/, else what its snapshot holds. *complete: the list is the
 * hub's own. ERR_NOT_FOUND: there is neither. Added to l, which is empty. */
MUST_CHECK int hub_cache_listing(const char *cache, const char *repo, const char *commit,
                                 struct hub_listing *l, bool *complete, struct error *err);
/* Writes the hub's own list of a commit's files to trees/. */
MUST_CHECK int hub_cache_set_listing(const char *cache, const char *repo, const char *commit,
                                     const struct hub_listing *l, struct error *err);
/* Makes snapshots/COMMIT/PATH a link to the blob of that hash, and the folders on its way. */
MUST_CHECK int hub_cache_link(const char *cache, const char *repo, const char *commit,
                              const char *path, const char *hash, struct error *err);

/* A repository in the cache. */
struct hub_cached {
    char *repo;           /* owned: "ORG/NAME", "ollama:NAME:TAG" */
    uint64_t bytes;       /* of blobs, and of files in snapshots that are no links */
    uint64_t loose_bytes; /* of which no snapshot needs */
    size_t snapshots;
    int64_t changed_s; /* when a blob was last written, seconds since 1970 */
};
struct hub_cached_list {
    VEC(struct hub_cached) repos; /* in the order of names */
};
/* Reads all repositories of models. A cache that is not there has none. */
MUST_CHECK int hub_cache_read(const char *cache, struct hub_cached_list *out, struct error *err);
/* Frees what hub_cache_read appended, also after it failed. */
void hub_cached_list_release(struct hub_cached_list *list);

/* True when nobody writes what the lock file at that path is for: the lock is the caller's then,
 * until *fd (-1: there is no such file) is closed. */
bool hub_lock_try(const char *path, int *fd);
struct stat;
typedef void hub_visit_fn(void *ctx, const char *path, const struct stat *st);
/* Calls visit for all files, links and folders in dir; folders come after what is in them, links
 * are not followed, what cannot be read is passed over. */
void hub_walk(const char *dir, hub_visit_fn *visit, void *ctx);
/* Removes the repository, its locks too; *bytes: what that frees. ERR_NOT_FOUND: it is not there. */
MUST_CHECK int hub_cache_delete(const char *cache, const char *repo, uint64_t *bytes,
                                struct error *err);
/* Removes one revision: its ref, its snapshot unless another ref means it, and the blobs that no
 * other snapshot needs. */
MUST_CHECK int hub_cache_delete_revision(const char *cache, const char *repo, const char *revision,
                                         uint64_t *bytes, struct error *err);
/* Removes what nothing needs: snapshots that no ref means (of repositories that have refs), blobs
 * that no snapshot needs, and files of downloads that were given up (not locked by anyone). With
 * dry only counts. *bytes: what that frees. ERR_AGAIN: it is being pulled, nothing was done. */
MUST_CHECK int hub_cache_prune(const char *cache, const char *repo, bool dry, uint64_t *bytes,
                               struct error *err);

#endif
