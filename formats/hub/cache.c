#include "formats/hub/cache.h"

#include "base/fsutil.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char PREFIX[] = "models--";

/* "models--ORG--NAME" */
static char *folder_name(const char *repo) {
    struct buf name;
    buf_init(&name, 0);
    buf_add_str(&name, PREFIX);
    for (const char *c = repo; *c; c++)
        buf_add_str(&name, *c == '/' ? "--" : (const char[]){*c, 0});
    char *text = mem_strdup(buf_text(&name));
    buf_release(&name);
    return text;
}

/* dir/a/b; returns owned and frees dir. */
static char *below(char *dir, const char *a, const char *b) {
    char *one = path_join(dir, a), *two = path_join(one, b);
    mem_free(dir);
    mem_free(one);
    return two;
}

char *hub_cache_repo(const char *cache, const char *repo) {
    char *name = folder_name(repo), *path = path_join(cache, name);
    mem_free(name);
    return path;
}

char *hub_cache_snapshot(const char *cache, const char *repo, const char *commit) {
    return below(hub_cache_repo(cache, repo), "snapshots", commit);
}

char *hub_cache_blob(const char *cache, const char *repo, const char *hash) {
    return below(hub_cache_repo(cache, repo), "blobs", hash);
}

char *hub_cache_lock(const char *cache, const char *repo, const char *hash) {
    char *name = folder_name(repo), file[HUB_HASH_MAX + 8];
    snprintf(file, sizeof file, "%s.lock", hash);
    char *path = below(path_join(cache, ".locks"), name, file);
    mem_free(name);
    return path;
}

/* The folder that a path lies in, made. */
static int make_parent(const char *path, struct error *err) {
    const char *slash = strrchr(path, '/');
    CHECK(slash);
    char *dir = mem_strndup(path, (size_t)(slash - path));
    struct error why;
    int rc = dir_make(dir, 0755, &why);
    if (rc)
        error_set(err, rc, "%s; HF_HOME may name another", why.text);
    mem_free(dir);
    return rc;
}

/* The file that we hold may have been removed meanwhile, and another made in its place. */
static bool is_in_place(int fd, const char *path) {
    struct stat ours, now;
    return !fstat(fd, &ours) && !stat(path, &now) && ours.st_ino == now.st_ino &&
           ours.st_dev == now.st_dev;
}

int hub_cache_hold(const char *cache, const char *repo, bool alone, int *fd, struct error *err) {
    char *path = repo ? hub_cache_lock(cache, repo, "trireme")
                      : below(mem_strdup(cache), ".locks", "trireme.lock");
    int rc = make_parent(path, err);
    *fd = -1;
    while (!rc && *fd < 0) {
        *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0664);
        if (*fd < 0)
            rc = error_set_errno(err, "cannot write the lock file '%s'", path);
        else if (flock(*fd, alone ? LOCK_EX | LOCK_NB : LOCK_SH) && errno != EINTR)
            rc = errno == EWOULDBLOCK
                     ? error_set(err, ERR_AGAIN, "'%s' is being downloaded; end that first",
                                 repo ? repo : "a model")
                     : error_set_errno(err, "cannot lock '%s'", path);
        if (*fd >= 0 && (rc || !is_in_place(*fd, path))) {
            close(*fd);
            *fd = -1;
            if (!rc)
                rc = make_parent(path, err);
        }
    }
    mem_free(path);
    return rc;
}

/* ---- refs ---- */

int hub_cache_commit(const char *cache, const char *repo, const char *revision,
                     char out[HUB_COMMIT_MAX], struct error *err) {
    struct buf text;
    int rc = 0;
    snprintf(out, HUB_COMMIT_MAX, "%s", revision);
    if (hub_is_commit(revision))
        return 0;
    char *path = below(hub_cache_repo(cache, repo), "refs", revision);
    buf_init(&text, 0);
    if (!file_exists(path))
        rc = error_set(err, ERR_NOT_FOUND, "'%s@%s' is not in the cache '%s'", repo, revision,
                       cache);
    if (!rc)
        rc = file_read(path, 4096, &text, err);
    if (!rc) {
        snprintf(out, HUB_COMMIT_MAX, "%.*s", (int)strcspn(buf_text(&text), " \t\r\n"),
                 buf_text(&text));
        if (!hub_is_commit(out))
            rc = error_set(err, ERR_INVALID, "'%s' holds no commit", path);
    }
    buf_release(&text);
    mem_free(path);
    return rc;
}

int hub_cache_set_ref(const char *cache, const char *repo, const char *revision, const char *commit,
                      struct error *err) {
    char now[HUB_COMMIT_MAX];
    CHECK(hub_is_commit(commit));
    if (!strcmp(revision, commit) ||
        (!hub_cache_commit(cache, repo, revision, now, NULL) && !strcmp(now, commit)))
        return 0;
    char *path = below(hub_cache_repo(cache, repo), "refs", revision);
    int rc = make_parent(path, err);
    if (!rc)
        rc = file_write_atomic(path, commit, strlen(commit), 0644, err);
    mem_free(path);
    return rc;
}

/* ---- the files of a commit ---- */

static char *listing_path(const char *cache, const char *repo, const char *commit) {
    char name[HUB_COMMIT_MAX + 8];
    snprintf(name, sizeof name, "%s.json", commit);
    return below(hub_cache_repo(cache, repo), "trees", name);
}

int hub_cache_listing(const char *cache, const char *repo, const char *commit,
                      struct hub_listing *l, bool *complete, struct error *err) {
    char *path = listing_path(cache, repo, commit),
         *snapshot = hub_cache_snapshot(cache, repo, commit);
    struct buf text;
    int rc = ERR_NOT_FOUND;
    buf_init(&text, 0);
    if (file_exists(path) && !file_read(path, HUB_LISTING_BYTES_MAX, &text, NULL))
        rc = hub_listing_read_copy(l, buf_bytes(&text), NULL);
    *complete = rc == 0;
    if (rc) { /* a copy of another format is as good as none */
        hub_listing_release(l);
        rc = dir_exists(snapshot)
                 ? hub_listing_read_folder(l, snapshot, err)
                 : error_set(err, ERR_NOT_FOUND, "'%s' is not in the cache '%s'", repo, cache);
    }
    buf_release(&text);
    mem_free(path);
    mem_free(snapshot);
    return rc;
}

int hub_cache_set_listing(const char *cache, const char *repo, const char *commit,
                          const struct hub_listing *l, struct error *err) {
    char *path = listing_path(cache, repo, commit);
    struct buf text;
    buf_init(&text, 0);
    hub_listing_add_copy(l, &text);
    int rc = make_parent(path, err);
    if (!rc)
        rc = file_write_atomic(path, text.data, text.len, 0644, err);
    buf_release(&text);
    mem_free(path);
    return rc;
}

/* ---- links ---- */

/* "../../blobs/HASH", with one more ".." for each folder in path. */
static void add_target(const char *path, const char *hash, struct buf *out) {
    buf_add_str(out, "../../");
    for (const char *c = path; *c; c++)
        if (*c == '/')
            buf_add_str(out, "../");
    buf_addf(out, "blobs/%s", hash);
}

static int make_link(const char *at, const char *target, struct error *err) {
    struct buf other; /* beside it, then renamed over what is there */
    uint64_t number;
    random_bytes(&number, sizeof number);
    buf_init(&other, 0);
    buf_addf(&other, "%s.%016llx.link", at, (unsigned long long)number);
    int rc = 0;
    if (symlink(target, buf_text(&other)) || rename(buf_text(&other), at)) {
        rc = error_set_errno(err, "cannot make the link '%s'", at);
        unlink(buf_text(&other));
    }
    buf_release(&other);
    return rc;
}

int hub_cache_link(const char *cache, const char *repo, const char *commit, const char *path,
                   const char *hash, struct error *err) {
    char *at = below(hub_cache_repo(cache, repo), "snapshots", commit);
    char *link_path = path_join(at, path), now[PATH_MAX];
    struct buf target;
    CHECK(hub_path_is_safe(bytes_str(path)) && hub_is_commit(commit));
    buf_init(&target, 0);
    add_target(path, hash, &target);
    ssize_t len = readlink(link_path, now, sizeof now - 1);
    bool there = len >= 0 && bytes_equal(bytes_of(now, (size_t)len), buf_bytes(&target));
    int rc = there ? 0 : make_parent(link_path, err);
    if (!rc && !there)
        rc = make_link(link_path, buf_text(&target), err);
    buf_release(&target);
    mem_free(link_path);
    mem_free(at);
    return rc;
}
