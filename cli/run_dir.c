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
    if (runtime && *runtime == '/')
        buf_addf(&path, "%s/trireme/%lld", runtime, (long long)port);
    if (!path.len || path.len > RUN_DIR_MAX) {
        buf_reset(&path);
        buf_addf(&path, "/tmp/trireme-%d/%lld", (int)getuid(), (long long)port);
    }
    CHECK(!path.failed);
    return path.data;
}

/* A folder on the way: whoever may write into it could put another in the place of ours. In one with
 * the sticky bit (/tmp) only owners may. */
static int check_parent(int fd, const char *name, struct error *err) {
    struct stat st;
    if (fstat(fd, &st))
        return error_set_errno(err, "cannot look at '%s'", name);
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return error_set(err, ERR_INVALID,
                         "'%s' on the way to the run folder is another user's; give another "
                         "--run-dir",
                         name);
    if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))
        return error_set(err, ERR_INVALID,
                         "others may write into '%s' on the way to the run folder; chmod go-w it, "
                         "or give another --run-dir",
                         name);
    return 0;
}

static int check_private(int fd, const char *path, struct error *err) {
    struct stat st;
    if (fstat(fd, &st))
        return error_set_errno(err, "cannot look at '%s'", path);
    if (st.st_uid != geteuid())
        return error_set(err, ERR_INVALID,
                         "the run folder '%s' is another user's; give another --run-dir", path);
    if (st.st_mode & 022)
        return error_set(err, ERR_INVALID, "others may write into '%s'; chmod 700 it", path);
    if ((st.st_mode & 077) && fchmod(fd, 0700))
        return error_set_errno(err, "cannot close '%s' to others", path);
    return 0;
}

enum { LINKS_MAX = 8 }; /* on one way */

static int walk(const char *path, bool last_is_ours, int links_left, int *fd_out,
                struct error *err);

/* Where a link of ours or root's leads to: the folders on that way are looked at, too. `path` is the
 * link's own. */
static int follow(int parent, const char *name, const char *path, int links_left, int *fd_out,
                  struct error *err) {
    char target[4096];
    ssize_t len = readlinkat(parent, name, target, sizeof target);
    if (len < 0)
        return error_set_errno(err, "cannot read the link '%s'", path);
    if (len == sizeof target || !links_left)
        return error_set(err, ERR_INVALID,
                         "the links on the way to the run folder do not end at '%s'; give another "
                         "--run-dir",
                         path);
    struct buf way;
    buf_init(&way, 0);
    if (*target != '/')
        buf_addf(&way, "%.*s/", (int)(strrchr(path, '/') - path), path);
    buf_add(&way, target, (size_t)len);
    int rc = walk(buf_text(&way), false, links_left - 1, fd_out, err);
    buf_release(&way);
    return rc;
}

/* The folder `name` of the folder `parent`, made when it is not there. A link is followed when it is
 * ours or root's, and never the last one. `path`: its own. 0, with *fd_out, or a code. */
static int open_folder(int parent, const char *name, const char *path, bool last, int links_left,
                       int *fd_out, struct error *err) {
    const int flags = (last ? O_RDONLY : O_PATH) | O_DIRECTORY | O_CLOEXEC;
    struct stat st;
    int made = mkdirat(parent, name, 0700) ? errno : 0;
    *fd_out = openat(parent, name, flags | O_NOFOLLOW);
    if (*fd_out >= 0)
        return 0;
    int saved = errno == ENOENT ? made : errno;
    bool link = !fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode);
    if (link && !last && (st.st_uid == 0 || st.st_uid == geteuid()))
        return follow(parent, name, path, links_left, fd_out, err);
    if (link)
        return error_set(err, ERR_INVALID,
                         "'%s' is a link, and may lead anywhere; give another --run-dir", path);
    errno = saved;
    return error_set_errno(err, "cannot make or open the folder '%s'", path);
}

/* From the root down by descriptors: what was looked at is what is used. 0, with *fd_out the caller's,
 * or a code. */
static int walk(const char *path, bool last_is_ours, int links_left, int *fd_out,
                struct error *err) {
    char *text = mem_strdup(path), *at = text;
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), rc = 0;
    if (fd < 0)
        rc = error_set_errno(err, "cannot open '/'");
    while (rc == 0 && *(at += strspn(at, "/")) != 0) {
        size_t len = strcspn(at, "/");
        bool last = last_is_ours && at[len + strspn(at + len, "/")] == 0;
        char *name = mem_strndup(at, len), rest = at[len];
        int next = -1;
        at[len] = 0; /* text is the path up to here */
        rc = open_folder(fd, name, text, last, links_left, &next, err);
        if (!rc)
            rc = last ? check_private(next, text, err) : check_parent(next, text, err);
        close(fd);
        fd = next;
        at[len] = rest;
        at += len;
        mem_free(name);
    }
    mem_free(text);
    if (rc && fd >= 0)
        close(fd);
    *fd_out = rc ? -1 : fd;
    return rc;
}

int run_dir_make(const char *path, struct error *err) {
    if (*path != '/')
        return error_set(err, ERR_INVALID, "the run folder '%s' must begin with /", path);
    if (strlen(path) > RUN_DIR_MAX)
        return error_set(
            err, ERR_INVALID,
            "the run folder '%s' is too long for the names of sockets (%d bytes at most)", path,
            RUN_DIR_MAX);
    int fd, rc = walk(path, true, LINKS_MAX, &fd, err);
    if (!rc)
        close(fd);
    return rc;
}

/* Who holds the lock wrote its number there: only for the error's text. */
static int held(const char *path, int fd, struct error *err) {
    char pid[16] = "";
    ssize_t n = pread(fd, pid, sizeof pid - 1, 0);
    pid[n > 0 ? n : 0] = 0;
    pid[strcspn(pid, "\n")] = 0;
    return error_set(
        err, ERR_LIMIT,
        "trireme serve already runs in '%s' (process %s); give another --run-dir or --port", path,
        *pid ? pid : "unknown");
}

int run_dir_lock(const char *path, int64_t wait_ms, int *fd_out, struct error *err) {
    char *name = path_join(path, "lock");
    int rc = 0, fd = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        rc = error_set_errno(err, "cannot open '%s'", name);
        goto out;
    }
    for (int64_t end = clock_ms() + wait_ms; flock(fd, LOCK_EX | LOCK_NB);) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            rc = error_set_errno(err, "cannot lock '%s'", name);
        else if (clock_ms() >= end)
            rc = held(path, fd, err);
        if (rc)
            goto out;
        sleep_ms(20);
    }
    char text[16];
    int len = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)len, 0) != len)
        rc = error_set_errno(err, "cannot write '%s'", name);
out:
    if (rc && fd >= 0)
        close(fd);
    if (!rc)
        *fd_out = fd;
    mem_free(name);
    return rc;
}
