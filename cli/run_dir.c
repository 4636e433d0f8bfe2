#include "cli/run_dir.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fsutil.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

char *run_dir_default(int64_t port) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct buf path;
    buf_init(&path, 0);
    if (runtime && *runtime == '/') buf_addf(&path, "%s/trireme/%lld", runtime, (long long)port);
    if (!path.len || path.len > RUN_DIR_MAX) {
        buf_reset(&path);
        buf_addf(&path, "/tmp/trireme-%d/%lld", (int)getuid(), (long long)port);
    }
    CHECK(!path.failed);
    return path.data;
}

static int check_private(const char *path, struct error *err) {
    struct stat st;
    if (lstat(path, &st)) return error_set_errno(err, "cannot look at '%s'", path);
    if (!S_ISDIR(st.st_mode)) return error_set(err, ERR_INVALID, "'%s' is not a folder", path);
    if (st.st_uid != geteuid())
        return error_set(err, ERR_INVALID, "the run folder '%s' is another user's; give another --run-dir", path);
    if (st.st_mode & 022) return error_set(err, ERR_INVALID, "others may write into '%s'; chmod 700 it", path);
    if ((st.st_mode & 077) && chmod(path, 0700)) return error_set_errno(err, "cannot close '%s' to others", path);
    return 0;
}

int run_dir_make(const char *path, struct error *err) {
    if (*path != '/') return error_set(err, ERR_INVALID, "the run folder '%s' must begin with /", path);
    if (strlen(path) > RUN_DIR_MAX)
        return error_set(err, ERR_INVALID,
                         "the run folder '%s' is too long for the names of sockets (%d bytes at most)", path,
                         RUN_DIR_MAX);
    int rc = dir_make(path, 0700, err);
    return rc ? rc : check_private(path, err);
}

/* Who holds the lock wrote its number there: only for the error's text. */
static int held(const char *path, int fd, struct error *err) {
    char pid[16] = "";
    ssize_t n = pread(fd, pid, sizeof pid - 1, 0);
    pid[n > 0 ? n : 0] = 0;
    pid[strcspn(pid, "\n")] = 0;
    return error_set(err, ERR_LIMIT,
                     "trireme serve already runs in '%s' (process %s); give another --run-dir or --port", path,
                     *pid ? pid : "unknown");
}

int run_dir_lock(const char *path, int64_t wait_ms, int *fd_out, struct error *err) {
    char *name = path_join(path, "lock");
    int rc = 0, fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        rc = error_set_errno(err, "cannot open '%s'", name);
        goto out;
    }
    for (int64_t end = clock_ms() + wait_ms; flock(fd, LOCK_EX | LOCK_NB);) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            rc = error_set_errno(err, "cannot lock '%s'", name);
        else if (clock_ms() >= end)
            rc = held(path, fd, err);
        if (rc) goto out;
        sleep_ms(20);
    }
    char text[16];
    int len = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)len, 0) != len)
        rc = error_set_errno(err, "cannot write '%s'", name);
out:
    if (rc && fd >= 0) close(fd);
    if (!rc) *fd_out = fd;
    mem_free(name);
    return rc;
}
