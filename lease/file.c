/*
 * file.c - one host: flock, which the kernel takes back when its holder dies. The file has the number of
 * the latest grant. A lock is on the file that was opened, whatever its path leads to later: a holder whose
 * file was removed or replaced has lost the lease, since another can lock the new one.
 */
#include "lease/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct file_engine {
    struct engine base;
    char *path; /* owned */
    int fd;     /* -1: not held */
};

static uint64_t next_number(int fd, uint64_t least) {
    char text[64];
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    text[MAX(len, (ssize_t)0)] = 0;
    text[strcspn(text, "\n")] = 0;
    return lease_number_after(text, least);
}

/* Whether the path still leads to what was opened. */
static bool is_there(const struct file_engine *e, int fd) {
    struct stat opened, there;
    return fstat(fd, &opened) == 0 && stat(e->path, &there) == 0 && opened.st_dev == there.st_dev &&
           opened.st_ino == there.st_ino;
}

/* Synced: a machine that loses power must not grant the same number twice. */
static int write_number(int fd, uint64_t number) {
    char text[32];
    int len = snprintf(text, sizeof text, "%020" PRIu64 "\n", number);
    return pwrite(fd, text, (size_t)len, 0) == len && ftruncate(fd, len) == 0 && fsync(fd) == 0
               ? 0
               : ERR_IO;
}

static int take(struct engine *base, uint64_t least, uint64_t *number, struct error *err) {
    struct file_engine *e = (struct file_engine *)base;
    int fd = open(e->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(err, "cannot open the lease's file '%s'", e->path);
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        int rc = errno == EWOULDBLOCK
                     ? error_set(err, ERR_AGAIN, "another process has locked '%s'", e->path)
                     : error_set_errno(err, "cannot lock '%s'", e->path);
        close(fd);
        return rc;
    }
    if (!is_there(e, fd)) {
        close(fd);
        return error_set(err, ERR_AGAIN, "'%s' is being replaced", e->path);
    }
    *number = next_number(fd, least);
    if (write_number(fd, *number)) {
        int rc = error_set_errno(err, "cannot write the lease's file '%s'", e->path);
        close(fd);
        return rc;
    }
    e->fd = fd;
    return 0;
}

static int keep(struct engine *base, struct error *err) {
    struct file_engine *e = (struct file_engine *)base;
    return is_there(e, e->fd)
               ? 0
               : error_set(err, ERR_NOT_FOUND, "'%s' was removed or replaced while it was locked",
                           e->path);
}

static void give_back(struct engine *base) {
    struct file_engine *e = (struct file_engine *)base;
    close(e->fd);
    e->fd = -1;
}

static void free_engine(struct engine *base) {
    struct file_engine *e = (struct file_engine *)base;
    if (e->fd >= 0)
        close(e->fd);
    mem_free(e->path);
    mem_free(e);
}

int file_engine_new(struct engine **out, const char *path, struct error *err) {
    static const struct engine_calls CALLS = {
        .take = take, .keep = keep, .give_back = give_back, .free = free_engine, .lasts = true};
    if (*path != '/')
        return error_set(err, ERR_INVALID, "the lease 'file:%s' is no absolute path", path);
    struct file_engine *e = mem_alloc(sizeof *e);
    *e = (struct file_engine){.base = {&CALLS}, .path = mem_strdup(path), .fd = -1};
    *out = &e->base;
    return 0;
}
