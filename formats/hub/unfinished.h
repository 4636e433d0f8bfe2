/*
 * unfinished.h - a file that is being downloaded by ranges, with the record of what is there.
 *
 * Layout: size bytes of content, then, little-endian, the record: "TRIHUB01", u64 size, u64
 * range_bytes, and a u64 for each range: how many of its bytes are there, from its beginning on.
 * A record that does not fit the size, or counts more than a range has, is as good as none.
 *
 * Kept across kill -9: a count is written after its bytes, both by pwrite. (A machine that loses
 * power may keep a count without its bytes. The hash tells.)
 */
#ifndef FORMATS_HUB_UNFINISHED_H
#define FORMATS_HUB_UNFINISHED_H

#include "base/error.h"

#define UNFINISHED_SUFFIX ".trireme.incomplete"

struct unfinished {
    int fd;     /* -1: not open */
    char *path; /* owned */
    uint64_t size, range_bytes;
    uint32_t range_count; /* at least 1 unless size is 0 */
    uint64_t *done;       /* owned: bytes of each range that are there */
    uint64_t found;       /* bytes that were there when it was opened */
};

/* Opens PATH.trireme.incomplete, or begins it. */
MUST_CHECK int unfinished_open(struct unfinished *u, const char *path, uint64_t size,
                               struct error *err);
/* Forgets what is there; in_one: as one range, for a host that gives no ranges. */
MUST_CHECK int unfinished_restart(struct unfinished *u, bool in_one, struct error *err);
/* Bytes that the range has when it is whole; the last one may be shorter than range_bytes. */
uint64_t unfinished_range_len(const struct unfinished *u, uint32_t range);
/* Appends bytes to those of the range; more than it has room for is a bug. */
MUST_CHECK int unfinished_add(struct unfinished *u, uint32_t range, const uint8_t *data, size_t len,
                              struct error *err);
/* Bytes that are there, of all ranges. */
uint64_t unfinished_bytes(const struct unfinished *u);
/* All of it is there and checked: renames it to path. */
MUST_CHECK int unfinished_finish(struct unfinished *u, const char *path, struct error *err);
/* Closes it; the file stays for the next try. */
void unfinished_close(struct unfinished *u);

#endif
