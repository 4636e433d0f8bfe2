/*
 * fsutil.h - whole files and mappings, with errors a person can act on.
 */
#ifndef BASE_FSUTIL_H
#define BASE_FSUTIL_H

#include "base/buf.h"
#include "base/error.h"

#include <sys/types.h>
#include <time.h>

/* Opens a regular file for reading; *out is the caller's, *len its bytes now (0 in /proc). A pipe, a
 * device or a folder is ERR_INVALID, at once: none of them is waited for. */
MUST_CHECK int file_open(const char *path, int *out, size_t *len, struct error *err);
/* Appends the regular file to out; ERR_LIMIT when it is larger than max_len, else as file_open. */
MUST_CHECK int file_read(const char *path, size_t max_len, struct buf *out, struct error *err);
/* The same for a file that a person named: /dev/stdin and <(command) are read, too, to their end. */
MUST_CHECK int file_read_any(const char *path, size_t max_len, struct buf *out, struct error *err);
/* Writes beside the target, fsyncs, renames. mode as in open(2). */
MUST_CHECK int file_write_atomic(const char *path, const void *data, size_t len, int mode,
                                 struct error *err);
/* True for a regular file, or a link to one. */
bool file_exists(const char *path);
/* True for a folder, or a link to one. */
bool dir_exists(const char *path);
/* with parents; an existing folder is fine */
MUST_CHECK int dir_make(const char *path, int mode, struct error *err);
char *path_join(const char *dir, const char *name); /* returns owned */

/* What tells one content of a regular file from another; zero where there is none. Folders that are
 * mounted into containers change by a link, which is followed. */
struct file_mark {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};
struct file_mark file_mark_of(const char *path);
bool file_marks_equal(struct file_mark a, struct file_mark b);

struct file_map {
    const uint8_t *data;
    size_t len;
};
/* read-only, shared; a regular file, as file_open takes it */
MUST_CHECK int file_map_open(struct file_map *map, const char *path, struct error *err);
/* Takes the pages out of the process's memory, while the system may keep them in its cache: for
 * those that were read once. Pointers stay good; what is read again is fetched again. */
void file_map_forget(const struct file_map *map);
/* Has the system map the pages of these bytes now, of a map or of other memory: who reads them next does
 * not stop at every few of them. What its cache lacks comes from the disk first. Nothing happens on a
 * system that cannot (Linux before 5.14). */
void file_map_fetch(const void *data, size_t len);
/* Unmaps; pointers into data are stale then. Nothing happens to a map that was closed or never
 * opened (zeroed). */
void file_map_close(struct file_map *map);

#endif
