#include "base/pulse.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { BEAT_MS = 1000, PATH_BYTES = 4096 };

static bool path_of(const char *run_dir, int pid, char out[PATH_BYTES]) {
    int len = snprintf(out, PATH_BYTES, "%s/pulse-%d", run_dir, pid);
    return len > 0 && len < PATH_BYTES;
}

static void write_count(struct pulse *p) {
    ssize_t written = pwrite(p->fd, &p->count, sizeof p->count, 0);
    (void)written; /* a full disk: the watcher sees no pulse, and that is no reason to end here */
}

void pulse_open(struct pulse *p, const char *run_dir, int64_t now_ms) {
    char path[PATH_BYTES];
    *p = (struct pulse){.fd = -1, .count = 1, .last_ms = now_ms};
    if (!run_dir || !*run_dir || !path_of(run_dir, (int)getpid(), path))
        return;
    p->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (p->fd >= 0)
        write_count(p);
}

void pulse_beat(struct pulse *p, int64_t now_ms) {
    if (p->fd < 0 || now_ms - p->last_ms < BEAT_MS)
        return;
    p->last_ms = now_ms;
    p->count++;
    write_count(p);
}

void pulse_close(struct pulse *p) {
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

bool pulse_read(const char *run_dir, int pid, uint64_t *count) {
    char path[PATH_BYTES];
    int fd = path_of(run_dir, pid, path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    bool whole = fd >= 0 && pread(fd, count, sizeof *count, 0) == (ssize_t)sizeof *count;
    if (fd >= 0)
        close(fd);
    return whole;
}

void pulse_remove(const char *run_dir, int pid) {
    char path[PATH_BYTES];
    if (path_of(run_dir, pid, path))
        unlink(path);
}
