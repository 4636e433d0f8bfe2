/*
 * fetch.h - downloads blobs: several ranges at once, taken up again where an earlier process was
 * killed, checked by size and hash, then renamed into place.
 *
 * While a blob is fetched it lies in HASH.trireme.incomplete beside its place: its bytes, and
 * behind them a record of how many bytes of each range are there. (Not HASH.incomplete: other
 * programs take the length of that file for what they have of it.) Whoever fetches it holds its
 * lock file (flock); another process waits, and finds the blob done.
 *
 * Invariants:
 *   (1) a file has its own name only when it is whole and its hash was checked;
 *   (2) what the record says of a range was written to the file before;
 *   (3) nothing is written past the size that the hub told beforehand.
 */
#ifndef FORMATS_HUB_FETCH_H
#define FORMATS_HUB_FETCH_H

#include "formats/hub/digest.h"
#include "formats/hub/http.h"

struct hub_blob {
    char *label;       /* for people: "model.safetensors" */
    char *url;         /* where to get it */
    char *path, *lock; /* where it will be; its lock file */
    uint64_t size;
    enum hub_digest digest;
    char hash[HUB_HASH_MAX];
};
/* Frees what a blob owns: all its texts. */
void hub_blob_release(struct hub_blob *blob);

struct hub_watch {
    void *ctx;
    /* How far it is, several times a second. May be NULL. */
    void (*on_bytes)(void *ctx, uint64_t done, uint64_t total);
    /* Something that a person would want to know: a line. May be NULL. */
    void (*on_note)(void *ctx, const char *text);
};

/* Fetches those of count blobs that are not in their places. *last: the request that failed, if it
 * was one (status 0: none). ERR_LIMIT: the disk is too full; ERR_INVALID: a host sends what the hub
 * did not announce; ERR_AGAIN: it may work later; ERR_IO. */
MUST_CHECK int hub_fetch(struct hub_http *http, const struct hub_blob *blobs, size_t count,
                         const struct hub_watch *watch, struct hub_request *last,
                         struct error *err);

#endif
