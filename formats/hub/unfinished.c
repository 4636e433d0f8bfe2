#include "formats/hub/unfinished.h"

#include "base/fsutil.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[8] = "TRIHUB01";
enum { HEAD_WORDS = 3, RECORD_EVERY = 64 << 10, RANGES_MAX = 1 << 20 };
#define RANGE_MIN ((uint64_t)8 << 20)
#define RANGE_MAX ((uint64_t)128 << 20)

/* About 64 ranges a file, none too small to be worth a request. */
static uint64_t choose_range_bytes(uint64_t size) {
    const char *text = getenv("TRIREME_HUB_RANGE_BYTES");
    unsigned long long asked = text ? strtoull(text, NULL, 10) : 0;
    if (asked && size / asked < RANGES_MAX)
        return asked;
    return MIN(MAX(size / 64, RANGE_MIN), RANGE_MAX);
}

static void set_ranges(struct unfinished *u, uint64_t range_bytes) {
    u->range_bytes = MIN(range_bytes, MAX(u->size, 1u));
    u->range_count = (uint32_t)((u->size + u->range_bytes - 1) / u->range_bytes);
    mem_free(u->done);
    u->done = mem_calloc(MAX(u->range_count, 1u), sizeof *u->done);
}

uint64_t unfinished_range_len(const struct unfinished *u, uint32_t range) {
    return MIN(u->range_bytes, u->size - range * u->range_bytes);
}

uint64_t unfinished_bytes(const struct unfinished *u) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < u->range_count; i++)
        bytes += u->done[i];
    return bytes;
}

static int write_all(const struct unfinished *u, const void *data, size_t len, uint64_t at,
                     struct error *err) {
    for (const uint8_t *from = data; len;) {
        ssize_t n = pwrite(u->fd, from, len, (off_t)at);
        if (n <= 0)
            return error_set_errno(err, "cannot write '%s'", u->path);
        from += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

static int begin(struct unfinished *u, struct error *err) {
    uint64_t head[HEAD_WORDS];
    memcpy(head, MAGIC, sizeof MAGIC);
    head[1] = u->size;
    head[2] = u->range_bytes;
    u->found = 0;
    if (ftruncate(u->fd, 0) || ftruncate(u->fd, (off_t)u->size))
        return error_set_errno(err, "cannot write '%s'", u->path);
    int rc = write_all(u, head, sizeof head, u->size, err);
    return rc ? rc
              : write_all(u, u->done, u->range_count * sizeof *u->done, u->size + sizeof head, err);
}

/* True: the file has a record, and it was read. */
static bool read_record(struct unfinished *u) {
    uint64_t head[HEAD_WORDS];
    if (pread(u->fd, head, sizeof head, (off_t)u->size) != (ssize_t)sizeof head ||
        memcmp(head, MAGIC, sizeof MAGIC) != 0 || head[1] != u->size || !head[2] ||
        head[2] > MAX(u->size, 1u) || u->size / head[2] >= RANGES_MAX)
        return false;
    set_ranges(u, head[2]);
    size_t len = u->range_count * sizeof *u->done;
    bool good = pread(u->fd, u->done, len, (off_t)(u->size + sizeof head)) == (ssize_t)len;
    for (uint32_t i = 0; good && i < u->range_count; i++)
        good = u->done[i] <= unfinished_range_len(u, i);
    u->found = good ? unfinished_bytes(u) : 0;
    return good;
}

int unfinished_open(struct unfinished *u, const char *path, uint64_t size, struct error *err) {
    size_t len = strlen(path) + sizeof UNFINISHED_SUFFIX;
    *u = (struct unfinished){.path = mem_alloc(len), .size = size};
    snprintf(u->path, len, "%s%s", path, UNFINISHED_SUFFIX);
    u->fd = open(u->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (u->fd < 0)
        return error_set_errno(err, "cannot write '%s'", u->path);
    if (read_record(u))
        return 0;
    set_ranges(u, choose_range_bytes(size));
    return begin(u, err);
}

int unfinished_restart(struct unfinished *u, bool in_one, struct error *err) {
    set_ranges(u, in_one ? MAX(u->size, 1u) : u->range_bytes);
    return begin(u, err);
}

int unfinished_add(struct unfinished *u, uint32_t range, const uint8_t *data, size_t len,
                   struct error *err) {
    uint64_t before = u->done[range], end = unfinished_range_len(u, range);
    CHECK(range < u->range_count && len <= end - before);
    int rc = write_all(u, data, len, range * u->range_bytes + before, err);
    if (rc)
        return rc;
    u->done[range] += len;
    if (u->done[range] != end && before / RECORD_EVERY == u->done[range] / RECORD_EVERY)
        return 0;
    return write_all(u, &u->done[range], sizeof *u->done,
                     u->size + (HEAD_WORDS + range) * sizeof *u->done, err);
}

int unfinished_finish(struct unfinished *u, const char *path, struct error *err) {
    CHECK(unfinished_bytes(u) == u->size);
    if (ftruncate(u->fd, (off_t)u->size) || fsync(u->fd) || rename(u->path, path))
        return error_set_errno(err, "cannot finish '%s'", path);
    return 0;
}

void unfinished_close(struct unfinished *u) {
    if (u->fd >= 0)
        close(u->fd);
    mem_free(u->path);
    mem_free(u->done);
    *u = (struct unfinished){.fd = -1};
}
