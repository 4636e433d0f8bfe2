#include "base/fsutil.h"

#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_all(int fd, const char *path, size_t max_len, struct buf *out, struct error *err) {
    size_t total = 0;
    char chunk[16384];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set_errno(err, "cannot read '%s'", path);
        if (n == 0)
            return out->failed ? error_set(err, ERR_MEMORY, "no memory for '%s'", path) : 0;
        total += (size_t)n;
        if (total > max_len)
            return error_set(err, ERR_LIMIT, "cannot read '%s': it is larger than %zu bytes", path,
                             max_len);
        buf_add(out, chunk, (size_t)n);
    }
}

int file_open(const char *path, int *out, size_t *len, struct error *err) {
    /* without O_NONBLOCK a pipe that nobody writes to would hold us here for ever */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return error_set_errno(err, "cannot open '%s'", path);
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st))
        rc = error_set_errno(err, "cannot look at '%s'", path);
    else if (!S_ISREG(st.st_mode))
        rc = error_set(err, ERR_INVALID, "cannot read '%s': it is %s, not a file", path,
                       S_ISDIR(st.st_mode)    ? "a folder"
                       : S_ISFIFO(st.st_mode) ? "a pipe"
                                              : "a device");
    if (rc) {
        close(fd);
        return rc;
    }
    *out = fd;
    *len = (size_t)st.st_size;
    return 0;
}

int file_read(const char *path, size_t max_len, struct buf *out, struct error *err) {
    int fd;
    size_t len;
    int rc = file_open(path, &fd, &len, err);
    if (rc)
        return rc;
    if (len > max_len)
        rc = error_set(err, ERR_LIMIT, "cannot read '%s': it is larger than %zu bytes", path,
                       max_len);
    else if (len)
        buf_reserve(out, len);
    if (!rc)
        rc = read_all(fd, path, max_len, out, err);
    close(fd);
    return rc;
}

struct file_mark file_mark_of(const char *path) {
    struct stat s;
    struct file_mark mark = {0};
    if (stat(path, &s) == 0 && S_ISREG(s.st_mode))
        mark = (struct file_mark){s.st_dev, s.st_ino, s.st_size, s.st_mtim};
    return mark;
}

bool file_marks_equal(struct file_mark a, struct file_mark b) {
    return a.device == b.device && a.inode == b.inode && a.size == b.size &&
           a.changed.tv_sec == b.changed.tv_sec && a.changed.tv_nsec == b.changed.tv_nsec;
}

int file_read_any(const char *path, size_t max_len, struct buf *out, struct error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return error_set_errno(err, "cannot open '%s'", path);
    int rc = read_all(fd, path, max_len, out, err);
    close(fd);
    return rc;
}

static int write_all(int fd, const uint8_t *data, size_t len) {
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* The rename itself is lasting only once the folder is on disk. */
static void sync_parent(const char *path) {
    const char *slash = strrchr(path, '/');
    char *dir = slash ? mem_strndup(path, MAX((size_t)(slash - path), (size_t)1)) : mem_strdup(".");
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!fsync(fd);
        close(fd);
    }
    mem_free(dir);
}

int file_write_atomic(const char *path, const void *data, size_t len, int mode, struct error *err) {
    struct buf temp;
    uint64_t random;
    random_bytes(&random, sizeof random);
    buf_init(&temp, 0);
    buf_addf(&temp, "%s.tmp.%016llx", path, (unsigned long long)random);
    int rc = 0, fd = open(buf_text(&temp), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) {
        rc = error_set_errno(err, "cannot write '%s'", path);
        goto out;
    }
    if (write_all(fd, data, len) || fsync(fd))
        rc = error_set_errno(err, "cannot write '%s'", path);
    if (close(fd) && !rc)
        rc = error_set_errno(err, "cannot write '%s'", path);
    if (!rc && rename(buf_text(&temp), path))
        rc = error_set_errno(err, "cannot put '%s' in place", path);
    if (rc)
        unlink(buf_text(&temp));
    else
        sync_parent(path);
out:
    buf_release(&temp);
    return rc;
}

bool file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool dir_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int dir_make(const char *path, int mode, struct error *err) {
    char *prefix = mem_strdup(path);
    int rc = 0;
    for (char *at = prefix + 1; *path && !rc; at++) {
        char c = *at;
        if (c && c != '/')
            continue;
        *at = 0;
        if (mkdir(prefix, (mode_t)mode) && !(errno == EEXIST && dir_exists(prefix)))
            rc = error_set_errno(err, "cannot make the folder '%s'", prefix);
        *at = c;
        if (!c)
            break;
    }
    mem_free(prefix);
    return rc;
}

char *path_join(const char *dir, const char *name) {
    size_t len = strlen(dir);
    bool slash = len && dir[len - 1] != '/';
    char *path = mem_alloc(len + slash + strlen(name) + 1);
    memcpy(path, dir, len);
    if (slash)
        path[len] = '/';
    strcpy(path + len + slash, name);
    return path;
}

int file_map_open(struct file_map *map, const char *path, struct error *err) {
    *map = (struct file_map){0};
    int fd;
    size_t len;
    int rc = file_open(path, &fd, &len, err);
    if (rc)
        return rc;
    void *data = len ? mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0) : NULL;
    if (data == MAP_FAILED)
        rc = error_set_errno(err, "cannot map '%s'", path);
    else if (len)
        *map = (struct file_map){data, len};
    close(fd);
    return rc;
}

void file_map_forget(const struct file_map *map) {
    if (map->data)
        (void)madvise((void *)map->data, map->len, MADV_DONTNEED);
}

void file_map_fetch(const void *data, size_t len) {
#ifndef MADV_POPULATE_READ
    enum { MADV_POPULATE_READ = 22 }; /* since Linux 5.14, later than some headers */
#endif
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)data & ~(page - 1);
    (void)madvise((void *)from, (uintptr_t)data + len - from, MADV_POPULATE_READ);
}

void file_map_close(struct file_map *map) {
    if (map->data)
        munmap((void *)map->data, map->len);
    *map = (struct file_map){0};
}
