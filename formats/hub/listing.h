/*
 * listing.h - the files that a repository holds at one commit: read from the hub's answer, from the
 * copy of it in the cache, or, where a cache has no copy, from a snapshot's folder.
 *
 * Invariants:
 *   (1) paths are hub_path_is_safe and unique, in the order of bytes;
 *   (2) hash is empty (from a folder) or lower-case hex: 64 digits of a SHA-256 where is_large,
 *       else 40 of git's SHA-1 of a blob;
 *   (3) at most HUB_FILES_MAX files.
 *
 * A listing with a path that could leave its folder is refused as a whole.
 */
#ifndef FORMATS_HUB_LISTING_H
#define FORMATS_HUB_LISTING_H

#include "base/buf.h"
#include "base/error.h"
#include "base/vec.h"

enum { HUB_FILES_MAX = 20000, HUB_HASH_MAX = 65 };
/* Bytes of one answer that lists files. */
#define HUB_LISTING_BYTES_MAX ((size_t)16 << 20)

struct hub_file {
    char *path; /* owned */
    uint64_t size;
    bool is_large; /* kept by Git LFS or Xet */
    char hash[HUB_HASH_MAX];
    char git_hash[HUB_HASH_MAX]; /* of what git keeps: of a large file, that which points to it */
};

struct hub_listing {
    VEC(struct hub_file) files;
};

/* Adds a page of GET /api/models/REPO/tree/COMMIT?recursive=true, a JSON array of
 * {type, path, oid, size, lfs: {oid, size}}. The listing is sorted by hub_listing_sort. */
MUST_CHECK int hub_listing_add_page(struct hub_listing *l, struct bytes json, struct error *err);
/* Sorts, once all pages were added. ERR_INVALID: a path stands there twice. */
MUST_CHECK int hub_listing_sort(struct hub_listing *l, struct error *err);
/* The copy as huggingface_hub keeps it below trees/: {"format_version": 1, "files": {PATH: {size,
 * blob_id, lfs_sha256, lfs_size}}}. */
MUST_CHECK int hub_listing_read_copy(struct hub_listing *l, struct bytes json, struct error *err);
/* Appends that copy. */
void hub_listing_add_copy(const struct hub_listing *l, struct buf *out);
/* The files of a folder, links followed; without hashes. */
MUST_CHECK int hub_listing_read_folder(struct hub_listing *l, const char *dir, struct error *err);
/* The file of that path, borrowed; NULL when there is none. */
const struct hub_file *hub_listing_find(const struct hub_listing *l, const char *path);
/* Frees the files and their texts; the listing is empty then. */
void hub_listing_release(struct hub_listing *l);

#endif
