/*
 * fsutil.h - whole files and mappings, with errors a person can act on.
 */
#ifndef BASE_FSUTIL_H
#define BASE_FSUTIL_H

#include "base/buf.h"
#include "base/error.h"

/* Appends the file to out; ERR_LIMIT when it is larger than max_len. */
MUST_CHECK int file_read(const char *path, size_t max_len, struct buf *out, struct error *err);
/* Writes beside the target, fsyncs, renames. mode as in open(2). */
MUST_CHECK int file_write_atomic(const char *path, const void *data, size_t len, int mode, struct error *err);
bool file_exists(const char *path);
bool dir_exists(const char *path);
MUST_CHECK int dir_make(const char *path, int mode, struct error *err); /* with parents; an existing folder is fine */
char *path_join(const char *dir, const char *name);                     /* returns owned */

struct file_map {
    const uint8_t *data;
    size_t len;
};
MUST_CHECK int file_map_open(struct file_map *map, const char *path, struct error *err); /* read-only, shared */
void file_map_close(struct file_map *map);

#endif
