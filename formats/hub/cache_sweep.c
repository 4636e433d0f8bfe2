/* cache_sweep.c - what the cache holds, and how it gets smaller: the calls of cache.h that list,
 * delete and prune. */
#include "base/fsutil.h"
#include "formats/hub/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 20 };

static bool is_dot(const char *name) {
    return !strcmp(name, ".") || !strcmp(name, "..");
}

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), tail = strlen(end);
    return len >= tail && !strcmp(text + len - tail, end);
}

/* ---- files ---- */

static void walk(const char *dir, int depth, hub_visit_fn *visit, void *ctx) {
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (is_dot(e->d_name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        char *path = path_join(dir, e->d_name);
        if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
            walk(path, depth + 1, visit, ctx);
        visit(ctx, path, &st);
        mem_free(path);
    }
    if (d)
        closedir(d);
}

void hub_walk(const char *dir, hub_visit_fn *visit, void *ctx) {
    walk(dir, 0, visit, ctx);
}

static void remove_visited(void *ctx, const char *path, const struct stat *st) {
    int *failed = ctx;
    if (S_ISDIR(st->st_mode) ? rmdir(path) : unlink(path))
        *failed = errno;
}

static int remove_tree(const char *dir, struct error *err) {
    int failed = 0;
    hub_walk(dir, remove_visited, &failed);
    if (!failed && rmdir(dir) && errno != ENOENT)
        failed = errno;
    errno = failed;
    return failed ? error_set_errno(err, "cannot remove '%s'", dir) : 0;
}

/* ---- which blobs are needed ---- */

struct needs {
    VEC(char *) blobs;    /* owned names */
    uint64_t plain_bytes; /* files of snapshots that are no links */
};

static void needs_release(struct needs *n) {
    for (size_t i = 0; i < n->blobs.count; i++)
        mem_free(n->blobs.items[i]);
    vec_release(&n->blobs);
}

static void note_need(void *ctx, const char *path, const struct stat *st) {
    struct needs *n = ctx;
    char target[PATH_MAX];
    if (S_ISREG(st->st_mode))
        n->plain_bytes += (uint64_t)st->st_size;
    if (!S_ISLNK(st->st_mode))
        return;
    ssize_t len = readlink(path, target, sizeof target - 1);
    if (len <= 0)
        return;
    target[len] = 0;
    const char *slash = strrchr(target, '/');
    vec_push(&n->blobs, mem_strdup(slash ? slash + 1 : target));
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void needs_sort(struct needs *n) {
    if (n->blobs.count)
        qsort(n->blobs.items, n->blobs.count, sizeof *n->blobs.items, compare_names);
}

static bool needs_have(const struct needs *n, const char *name) {
    return n->blobs.count &&
           bsearch(&name, n->blobs.items, n->blobs.count, sizeof *n->blobs.items, compare_names);
}

/* ---- what there is ---- */

/* "ORG/NAME" of "models--ORG--NAME"; returns owned, or NULL. */
static char *repo_of(const char *folder) {
    static const char PREFIX[] = "models--";
    if (strncmp(folder, PREFIX, sizeof PREFIX - 1))
        return NULL;
    const char *name = folder + sizeof PREFIX - 1, *sign = strstr(name, "--");
    if (!sign || strstr(sign + 2, "--"))
        return NULL;
    struct buf repo;
    buf_init(&repo, 0);
    buf_addf(&repo, "%.*s/%s", (int)(sign - name), name, sign + 2);
    char *text = hub_name_is_like(buf_text(&repo)) ? mem_strdup(buf_text(&repo)) : NULL;
    buf_release(&repo);
    return text;
}

static void measure(const char *dir, struct hub_cached *c) {
    char *snapshots = path_join(dir, "snapshots"), *blobs = path_join(dir, "blobs");
    struct needs needs = {.plain_bytes = 0};
    DIR *d = opendir(snapshots);
    for (const struct dirent *e; d && (e = readdir(d));)
        c->snapshots += !is_dot(e->d_name);
    if (d)
        closedir(d);
    hub_walk(snapshots, note_need, &needs);
    needs_sort(&needs);
    c->bytes = needs.plain_bytes;
    d = opendir(blobs);
    for (const struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (is_dot(e->d_name) || fstatat(dirfd(d), e->d_name, &st, 0) || !S_ISREG(st.st_mode))
            continue;
        uint64_t bytes = (uint64_t)st.st_blocks * 512; /* unfinished files have holes */
        bytes = MIN(bytes, (uint64_t)st.st_size);
        c->bytes += bytes;
        c->changed_s = MAX(c->changed_s, (int64_t)st.st_mtime);
        if (!needs_have(&needs, e->d_name))
            c->loose_bytes += bytes;
    }
    if (d)
        closedir(d);
    needs_release(&needs);
    mem_free(snapshots);
    mem_free(blobs);
}

static int compare_repos(const void *a, const void *b) {
    return strcmp(((const struct hub_cached *)a)->repo, ((const struct hub_cached *)b)->repo);
}

int hub_cache_read(const char *cache, struct hub_cached_list *out, struct error *err) {
    DIR *d = opendir(cache);
    *out = (struct hub_cached_list){.repos = {NULL, 0, 0}};
    if (!d && errno != ENOENT)
        return error_set_errno(err, "cannot read the cache '%s'", cache);
    for (const struct dirent *e; d && (e = readdir(d));) {
        struct hub_cached c = {.repo = repo_of(e->d_name)};
        if (!c.repo)
            continue;
        char *dir = path_join(cache, e->d_name);
        measure(dir, &c);
        vec_push(&out->repos, c);
        mem_free(dir);
    }
    if (d)
        closedir(d);
    if (out->repos.count)
        qsort(out->repos.items, out->repos.count, sizeof *out->repos.items, compare_repos);
    return 0;
}

void hub_cached_list_release(struct hub_cached_list *list) {
    for (size_t i = 0; i < list->repos.count; i++)
        mem_free(list->repos.items[i].repo);
    vec_release(&list->repos);
}

/* ---- less of it ---- */

/* The refs of a repository and the commits that they mean. */
struct refs {
    const char *dir;
    VEC(char *) commits; /* owned */
};

static void note_ref(void *ctx, const char *path, const struct stat *st) {
    struct refs *r = ctx;
    struct buf text;
    buf_init(&text, 0);
    if (S_ISREG(st->st_mode) && !file_read(path, 4096, &text, NULL))
        vec_push(&r->commits, mem_strndup(buf_text(&text), strcspn(buf_text(&text), " \r\n")));
    buf_release(&text);
}

static void refs_read(struct refs *r, const char *dir) {
    char *path = path_join(dir, "refs");
    *r = (struct refs){.dir = dir};
    hub_walk(path, note_ref, r);
    mem_free(path);
}

static bool refs_have(const struct refs *r, const char *commit) {
    for (size_t i = 0; i < r->commits.count; i++)
        if (!strcmp(r->commits.items[i], commit))
            return true;
    return false;
}

static void refs_release(struct refs *r) {
    for (size_t i = 0; i < r->commits.count; i++)
        mem_free(r->commits.items[i]);
    vec_release(&r->commits);
}

bool hub_lock_try(const char *path, int *fd) {
    *fd = open(path, O_RDWR | O_CLOEXEC);
    bool good = *fd >= 0 ? !flock(*fd, LOCK_EX | LOCK_NB) : errno == ENOENT;
    if (!good && *fd >= 0)
        close(*fd);
    return good;
}

static bool lock_blob(const char *cache, const char *repo, const char *blob, int *fd) {
    char hash[HUB_HASH_MAX];
    snprintf(hash, sizeof hash, "%.*s", (int)strcspn(blob, "."), blob);
    char *path = hub_cache_lock(cache, repo, hash);
    bool good = hub_lock_try(path, fd);
    mem_free(path);
    return good;
}

/* Removes the blobs that are not needed, but for those that are being written. */
static void sweep_blobs(const char *cache, const char *repo, const struct needs *needs, bool dry,
                        uint64_t *bytes) {
    char *dir = hub_cache_repo(cache, repo), *blobs = path_join(dir, "blobs");
    DIR *d = opendir(blobs);
    for (const struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        int fd;
        if (is_dot(e->d_name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            S_ISDIR(st.st_mode) || needs_have(needs, e->d_name) ||
            !lock_blob(cache, repo, e->d_name, &fd))
            continue;
        if (dry || !unlinkat(dirfd(d), e->d_name, 0))
            *bytes += MIN((uint64_t)st.st_blocks * 512, (uint64_t)st.st_size);
        if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
    mem_free(blobs);
    mem_free(dir);
}

/* Removes a snapshot and what is known of its commit. */
static int remove_commit(const char *dir, const char *commit, struct error *err) {
    static const char *const PLACES[] = {"snapshots", ".no_exist"};
    char name[PATH_MAX];
    int rc = 0;
    for (size_t i = 0; !rc && i < ARRAY_LEN(PLACES); i++) {
        char *place = path_join(dir, PLACES[i]), *path = path_join(place, commit);
        if (dir_exists(path))
            rc = remove_tree(path, err);
        mem_free(path);
        mem_free(place);
    }
    snprintf(name, sizeof name, "trees/%s.json", commit);
    char *copy = path_join(dir, name);
    unlink(copy);
    mem_free(copy);
    return rc;
}

/* Which snapshots stay: all, or those that a ref means. The others are removed, unless dry. What
 * the ones that stay need is added. */
static int sweep_snapshots(const char *dir, bool all, bool dry, struct needs *needs,
                           struct error *err) {
    char *snapshots = path_join(dir, "snapshots");
    struct refs refs;
    int rc = 0;
    refs_read(&refs, dir);
    DIR *d = opendir(snapshots);
    for (const struct dirent *e; !rc && d && (e = readdir(d));) {
        if (is_dot(e->d_name))
            continue;
        char *path = path_join(snapshots, e->d_name);
        if (all || !refs.commits.count || refs_have(&refs, e->d_name))
            hub_walk(path, note_need, needs);
        else if (!dry)
            rc = remove_commit(dir, e->d_name, err);
        mem_free(path);
    }
    if (d)
        closedir(d);
    needs_sort(needs);
    refs_release(&refs);
    mem_free(snapshots);
    return rc;
}

static int sweep(const char *cache, const char *repo, bool all, bool dry, uint64_t *bytes,
                 struct error *err) {
    char *dir = hub_cache_repo(cache, repo);
    struct needs needs = {.plain_bytes = 0};
    int rc = sweep_snapshots(dir, all, dry, &needs, err);
    if (!rc)
        sweep_blobs(cache, repo, &needs, dry, bytes);
    needs_release(&needs);
    mem_free(dir);
    return rc;
}

int hub_cache_prune(const char *cache, const char *repo, bool dry, uint64_t *bytes,
                    struct error *err) {
    int fd;
    *bytes = 0;
    int rc = hub_cache_hold(cache, repo, true, &fd, err);
    if (rc)
        return rc;
    rc = sweep(cache, repo, false, dry, bytes, err);
    close(fd);
    return rc;
}

/* Removes the refs that mean the commit, or the one of that name. */
struct ref_sweep {
    const char *commit, *path;
};

static void remove_ref(void *ctx, const char *path, const struct stat *st) {
    const struct ref_sweep *sweep = ctx;
    struct buf text;
    buf_init(&text, 0);
    bool meant = sweep->path ? !strcmp(path, sweep->path)
                             : !file_read(path, 4096, &text, NULL) &&
                                   !strncmp(buf_text(&text), sweep->commit, strlen(sweep->commit));
    if (S_ISREG(st->st_mode) && meant)
        unlink(path);
    buf_release(&text);
}

static bool has_entries(const char *dir, const char *name) {
    char *path = path_join(dir, name);
    DIR *d = opendir(path);
    bool found = false;
    for (const struct dirent *e; !found && d && (e = readdir(d));)
        found = !is_dot(e->d_name);
    if (d)
        closedir(d);
    mem_free(path);
    return found;
}

/* No revision of the model is left, nor a download that is under way. */
static bool is_bare(const char *dir) {
    return !has_entries(dir, "snapshots") && !has_entries(dir, "blobs");
}

int hub_cache_delete_revision(const char *cache, const char *repo, const char *revision,
                              uint64_t *bytes, struct error *err) {
    char commit[HUB_COMMIT_MAX];
    char *dir = hub_cache_repo(cache, repo), *refs_dir = path_join(dir, "refs");
    char *ref = path_join(refs_dir, revision), *snapshot = NULL;
    struct refs refs = {.dir = dir};
    int fd = -1;
    *bytes = 0;
    int rc = hub_cache_commit(cache, repo, revision, commit, err);
    if (!rc)
        rc = hub_cache_hold(cache, repo, true, &fd, err);
    if (!rc) {
        bool is_commit = !strcmp(revision, commit);
        snapshot = hub_cache_snapshot(cache, repo, commit);
        if (is_commit && !dir_exists(snapshot))
            rc = error_set(err, ERR_NOT_FOUND, "'%s@%s' is not in the cache '%s'", repo, commit,
                           cache);
        if (!rc)
            hub_walk(refs_dir, remove_ref,
                     &(struct ref_sweep){.commit = commit, .path = is_commit ? NULL : ref});
        refs_read(&refs, dir);
    }
    if (!rc && !refs_have(&refs, commit))
        rc = remove_commit(dir, commit, err);
    if (!rc)
        rc = sweep(cache, repo, true, false, bytes, err);
    if (!rc && is_bare(dir)) /* it was the last one */
        rc = remove_tree(dir, err);
    if (fd >= 0)
        close(fd);
    refs_release(&refs);
    mem_free(dir);
    mem_free(refs_dir);
    mem_free(ref);
    mem_free(snapshot);
    return rc;
}

/* ERR_AGAIN while another process writes one of its blobs. */
static int check_idle(const char *cache, const char *repo, const char *blobs, struct error *err) {
    int rc = 0;
    DIR *d = opendir(blobs);
    for (const struct dirent *e; !rc && d && (e = readdir(d));) {
        int fd = -1;
        if (!ends_with(e->d_name, ".incomplete"))
            continue;
        if (!lock_blob(cache, repo, e->d_name, &fd))
            rc = error_set(err, ERR_AGAIN, "'%s' is being downloaded; end that first", repo);
        else if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
    return rc;
}

int hub_cache_delete(const char *cache, const char *repo, uint64_t *bytes, struct error *err) {
    char *dir = hub_cache_repo(cache, repo), *blobs = path_join(dir, "blobs");
    struct hub_cached size = {.repo = NULL};
    int fd = -1;
    *bytes = 0;
    int rc = dir_exists(dir)
                 ? check_idle(cache, repo, blobs, err)
                 : error_set(err, ERR_NOT_FOUND, "'%s' is not in the cache '%s'", repo, cache);
    if (!rc)
        rc = hub_cache_hold(cache, repo, true, &fd, err);
    if (!rc) {
        measure(dir, &size);
        rc = remove_tree(dir, err);
    }
    if (!rc) {
        char *lock = hub_cache_lock(cache, repo, "x");
        lock[strlen(lock) - strlen("/x.lock")] = 0;
        if (dir_exists(lock))
            rc = remove_tree(lock, err);
        mem_free(lock);
        *bytes = size.bytes;
    }
    if (fd >= 0)
        close(fd);
    mem_free(blobs);
    mem_free(dir);
    return rc;
}
