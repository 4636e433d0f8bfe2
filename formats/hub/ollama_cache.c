/* ollama_cache.c - what our cache of Ollama's models holds, and how it gets smaller. */
#include "base/fsutil.h"
#include "formats/hub/hub.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a walk over the manifests finds. */
struct survey {
    size_t root_len; /* of the folder of manifests, with the slash */
    struct hub_cached_list *list;
    VEC(char *) hashes; /* owned: of all layers */
};

/* "library/llama3.2/latest" to "ollama:llama3.2:latest"; returns owned, or NULL. */
static char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    struct hub_name name;
    struct buf text;
    char *made = NULL;
    if (!slash)
        return NULL;
    buf_init(&text, 0);
    buf_addf(&text, "ollama:%.*s:%s", (int)(slash - path), path, slash + 1);
    if (!hub_name_parse(&name, buf_text(&text), NULL)) {
        buf_reset(&text);
        hub_name_add(&name, &text);
        made = mem_strdup(buf_text(&text));
    }
    buf_release(&text);
    return made;
}

static void note_manifest(void *ctx, const char *path, const struct stat *st) {
    struct survey *s = ctx;
    struct ollama_manifest m;
    struct buf text;
    char *name = S_ISREG(st->st_mode) ? name_of(path + s->root_len) : NULL;
    if (!name)
        return;
    struct hub_cached cached = {.repo = name, .snapshots = 1, .changed_s = (int64_t)st->st_mtime};
    buf_init(&text, 0);
    if (!file_read(path, OLLAMA_MANIFEST_MAX, &text, NULL))
        (void)!ollama_manifest_read(buf_bytes(&text), &m, NULL);
    else
        m.count = 0;
    for (size_t i = 0; i < m.count; i++) {
        cached.bytes += (uint64_t)m.layers[i].size;
        vec_push(&s->hashes, mem_strdup(m.layers[i].hash));
    }
    buf_release(&text);
    vec_push(&s->list->repos, cached);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int compare_cached(const void *a, const void *b) {
    return strcmp(((const struct hub_cached *)a)->repo, ((const struct hub_cached *)b)->repo);
}

static void survey_read(const struct hub_places *places, struct survey *s,
                        struct hub_cached_list *list) {
    char *root = path_join(places->ollama_cache, "manifests/registry.ollama.ai");
    *list = (struct hub_cached_list){.repos = {NULL, 0, 0}};
    *s = (struct survey){.root_len = strlen(root) + 1, .list = list};
    hub_walk(root, note_manifest, s);
    if (s->hashes.count)
        qsort(s->hashes.items, s->hashes.count, sizeof *s->hashes.items, compare_names);
    if (list->repos.count)
        qsort(list->repos.items, list->repos.count, sizeof *list->repos.items, compare_cached);
    mem_free(root);
}

static void survey_release(struct survey *s) {
    for (size_t i = 0; i < s->hashes.count; i++)
        mem_free(s->hashes.items[i]);
    vec_release(&s->hashes);
}

int ollama_read(const struct hub_places *places, struct hub_cached_list *out, struct error *err) {
    struct survey s;
    survey_read(places, &s, out);
    survey_release(&s);
    return 0;
}

/* Layers of no manifest; the caller holds the lock. */
static void sweep(const struct hub_places *places, bool dry, uint64_t *bytes) {
    static const char SIGN[] = "sha256-";
    struct survey s;
    struct hub_cached_list list;
    char *blobs = path_join(places->ollama_cache, "blobs"), hash[HUB_HASH_MAX], *key = hash;
    survey_read(places, &s, &list);
    DIR *d = opendir(blobs);
    for (const struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        int fd;
        if (strncmp(e->d_name, SIGN, sizeof SIGN - 1) || fstatat(dirfd(d), e->d_name, &st, 0))
            continue;
        snprintf(hash, sizeof hash, "%.64s", e->d_name + sizeof SIGN - 1);
        if (s.hashes.count &&
            bsearch(&key, s.hashes.items, s.hashes.count, sizeof *s.hashes.items, compare_names))
            continue;
        char *lock = ollama_lock_path(places->ollama_cache, hash);
        bool idle = hub_lock_try(lock, &fd);
        if (idle && (dry || !unlinkat(dirfd(d), e->d_name, 0)))
            *bytes += MIN((uint64_t)st.st_blocks * 512, (uint64_t)st.st_size);
        if (idle && fd >= 0)
            close(fd);
        mem_free(lock);
    }
    if (d)
        closedir(d);
    survey_release(&s);
    hub_cached_list_release(&list);
    mem_free(blobs);
}

int ollama_prune(const struct hub_places *places, bool dry, uint64_t *bytes, struct error *err) {
    int fd;
    *bytes = 0;
    int rc = hub_cache_hold(places->ollama_cache, NULL, true, &fd, err);
    if (rc)
        return rc;
    sweep(places, dry, bytes);
    close(fd);
    return 0;
}

int ollama_delete(const struct hub_places *places, const struct hub_name *name, uint64_t *bytes,
                  struct error *err) {
    char *path = ollama_manifest_path(places->ollama_cache, name);
    int fd;
    *bytes = 0;
    int rc = hub_cache_hold(places->ollama_cache, NULL, true, &fd, err);
    if (!rc && unlink(path))
        rc = errno == ENOENT ? error_set(err, ERR_NOT_FOUND, "'%s' is not in '%s'", name->repo,
                                         places->ollama_cache)
                             : error_set_errno(err, "cannot remove '%s'", path);
    if (!rc)
        sweep(places, false, bytes);
    if (fd >= 0)
        close(fd);
    mem_free(path);
    return rc;
}
