/* hugging_face.c - models of Hugging Face's hub: its API, and its cache. */
#include "base/fsutil.h"
#include "formats/hub/cache.h"
#include "formats/hub/choice.h"
#include "formats/hub/hub.h"
#include "formats/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAGES_MAX = 64 };
#define INDEX_BYTES_MAX ((size_t)64 << 20)

/* A path below the snapshot; returns owned. */
static char *file_path(const struct hub_places *p, const struct hub_name *name, const char *commit,
                       const char *path) {
    char *snapshot = hub_cache_snapshot(p->cache, name->repo, commit);
    char *file = path ? path_join(snapshot, path) : mem_strdup(snapshot);
    mem_free(snapshot);
    return file;
}

/* Chooses, with the index of weights read where it is needed and here. */
static int choose(const struct hub_places *p, const struct hub_name *name, const char *commit,
                  const struct hub_listing *listing, struct hub_choice *choice, struct error *err) {
    struct buf index;
    int rc = hub_choice_make(choice, listing, name, (struct bytes){NULL, 0}, err);
    if (rc || !choice->index)
        return rc;
    char *path = file_path(p, name, commit, choice->index->path);
    buf_init(&index, 0);
    if (file_exists(path))
        rc = file_read(path, INDEX_BYTES_MAX, &index, err);
    if (!rc && index.len) {
        hub_choice_release(choice);
        rc = hub_choice_make(choice, listing, name, buf_bytes(&index), err);
    }
    buf_release(&index);
    mem_free(path);
    return rc;
}

/* ---- what is here ---- */

static bool all_here(const struct hub_places *p, const struct hub_name *name, const char *commit,
                     const struct hub_choice *choice) {
    bool good = !choice->index;
    for (size_t i = 0; good && i < choice->files.count; i++) {
        char *path = file_path(p, name, commit, choice->files.items[i]->path);
        good = file_exists(path);
        mem_free(path);
    }
    return good;
}

int hugging_face_locate(const struct hub_places *p, const struct hub_name *name, char **path,
                        struct error *err) {
    char commit[HUB_COMMIT_MAX];
    struct hub_listing listing = {.files = {NULL, 0, 0}};
    struct hub_choice choice = {.model = NULL};
    bool complete;
    int rc = hub_cache_commit(p->cache, name->repo, name->revision, commit, err);
    if (!rc)
        rc = hub_cache_listing(p->cache, name->repo, commit, &listing, &complete, err);
    if (!rc && choose(p, name, commit, &listing, &choice, err))
        rc = error_wrap(err, "'%s' in the cache '%s'", name->repo, p->cache);
    if (!rc && !all_here(p, name, commit, &choice))
        rc = error_set(err, ERR_NOT_FOUND, "'%s' is not wholly in the cache '%s'", name->repo,
                       p->cache);
    if (!rc)
        *path = file_path(p, name, commit, choice.model ? choice.model->path : NULL);
    hub_choice_release(&choice);
    hub_listing_release(&listing);
    return rc;
}

/* ---- what the hub says ---- */

/* Says what an answer means for the one who typed the name; a text of libcurl's stays. */
static int explain(const struct hub_places *p, const struct hub_name *name,
                   const struct hub_request *r, struct error *err) {
    const char *repo = name->repo, *token = p->token ? "the token that was sent" : "no token";
    long status = r->status;
    if (status == 404 && !strcmp(r->code, "RevisionNotFound"))
        return error_set(err, ERR_NOT_FOUND, "'%s' has no revision '%s'", repo, name->revision);
    if (!strcmp(r->code, "GatedRepo"))
        return error_set(err, ERR_CLOSED,
                         "'%s' is gated, and %s does not open it: accept its terms at %s/%s, then "
                         "set HF_TOKEN to a token of that account",
                         repo, token, p->endpoint, repo);
    if (status == 401 && p->token)
        return error_set(err, ERR_CLOSED,
                         "%s does not take the token (of HF_TOKEN or the file HF_HOME/token) for "
                         "'%s': %s",
                         p->endpoint, repo,
                         strcmp(r->code, "RepoNotFound") ? "it may have expired"
                                                         : "or there is no such model");
    if (status == 401 || status == 404)
        return error_set(err, ERR_NOT_FOUND,
                         "%s has no model '%s' for all to see: look at its spelling; if it is "
                         "private, set HF_TOKEN",
                         p->endpoint, repo);
    if (status == 403)
        return error_set(err, ERR_CLOSED, "%s forbids '%s' (%s): %s may not read it", p->endpoint,
                         repo, *r->code ? r->code : "403", token);
    if (status == 429)
        return error_set(err, ERR_AGAIN,
                         "%s answers 429, too many requests, also after waiting; try later%s",
                         p->endpoint, p->token ? "" : ", or set HF_TOKEN, which raises the limit");
    if (status >= 500)
        return error_set(err, ERR_AGAIN, "%s answers %ld, also after waiting; try later",
                         p->endpoint, status);
    return err->code;
}

struct pull {
    const struct hub_places *places;
    const struct hub_name *name;
    const struct hub_watch *watch;
    struct hub_http *http;
    char commit[HUB_COMMIT_MAX];
    struct hub_listing listing;
    struct hub_choice choice;
};

static int get(struct pull *pull, const char *url, struct buf *body, struct hub_request *last,
               struct error *err) {
    int rc =
        hub_http_get(pull->http, url, "application/json", HUB_LISTING_BYTES_MAX, body, last, err);
    return rc ? explain(pull->places, pull->name, last, err) : 0;
}

static void add_api(const struct pull *pull, const char *what, const char *revision,
                    struct buf *url) {
    buf_addf(url, "%s/api/models/%s/%s/", pull->places->endpoint, pull->name->repo, what);
    hub_url_add(revision, false, url);
}

/* {"sha": COMMIT, ...} */
static int read_commit(struct pull *pull, struct bytes json, struct error *err) {
    struct json_reader r;
    struct bytes sha;
    json_reader_init(&r, json, 0, 0);
    bool good = json_expect(&r, JSON_OBJECT_BEGIN);
    while (good && json_next(&r) == JSON_KEY) {
        if (!bytes_equal(r.text, bytes_str("sha"))) {
            good = json_skip(&r);
            continue;
        }
        good = json_read_string(&r, &sha);
        if (good && sha.len < sizeof pull->commit) /* a longer one is none, and not its beginning */
            snprintf(pull->commit, sizeof pull->commit, "%.*s", (int)sha.len, sha.data);
    }
    json_reader_release(&r);
    if (good && hub_is_commit(pull->commit))
        return 0;
    return error_set(err, ERR_INVALID, "%s does not say which commit '%s' of '%s' is: is it a hub?",
                     pull->places->endpoint, pull->name->revision, pull->name->repo);
}

static int ask_commit(struct pull *pull, struct error *err) {
    struct hub_request last;
    struct buf url, body;
    buf_init(&url, 0);
    buf_init(&body, 0);
    add_api(pull, "revision", pull->name->revision, &url);
    int rc = get(pull, buf_text(&url), &body, &last, err);
    if (!rc)
        rc = read_commit(pull, buf_bytes(&body), err);
    buf_release(&url);
    buf_release(&body);
    return rc;
}

/* All pages; each names the next, which must be the hub's own. */
static int ask_listing(struct pull *pull, struct error *err) {
    struct hub_request last;
    struct buf url, body;
    int rc = 0;
    buf_init(&url, 0);
    buf_init(&body, 0);
    add_api(pull, "tree", pull->commit, &url);
    buf_add_str(&url, "?recursive=true");
    for (int page = 0; !rc && url.len; page++) {
        rc = page < PAGES_MAX ? get(pull, buf_text(&url), &body, &last, err)
                              : error_set(err, ERR_LIMIT, "its list of files has no end");
        if (!rc)
            rc = hub_listing_add_page(&pull->listing, buf_bytes(&body), err);
        buf_reset(&url);
        if (!rc && last.next[0]) {
            buf_add_str(&url, last.next);
            if (!hub_url_same_origin(last.next, pull->places->endpoint))
                rc = error_set(err, ERR_INVALID, "its list of files goes on at another host");
        }
    }
    if (!rc)
        rc = hub_listing_sort(&pull->listing, err);
    buf_release(&url);
    buf_release(&body);
    return rc;
}

static int find_listing(struct pull *pull, struct error *err) {
    const char *cache = pull->places->cache, *repo = pull->name->repo;
    bool complete = false;
    if (hub_cache_listing(cache, repo, pull->commit, &pull->listing, &complete, NULL) ||
        !complete) {
        hub_listing_release(&pull->listing);
        int rc = ask_listing(pull, err);
        return rc ? rc : hub_cache_set_listing(cache, repo, pull->commit, &pull->listing, err);
    }
    return 0;
}

/* ---- files ---- */

static struct hub_blob blob_of(const struct pull *pull, const struct hub_file *f) {
    const struct hub_places *p = pull->places;
    const char *repo = pull->name->repo;
    struct buf url;
    struct hub_blob blob = {.label = mem_strdup(f->path),
                            .path = hub_cache_blob(p->cache, repo, f->hash),
                            .lock = hub_cache_lock(p->cache, repo, f->hash),
                            .size = f->size,
                            .digest = f->is_large ? HUB_SHA256 : HUB_GIT_SHA1};
    buf_init(&url, 0);
    buf_addf(&url, "%s/%s/resolve/%s/", p->endpoint, repo, pull->commit);
    hub_url_add(f->path, true, &url);
    blob.url = mem_strdup(buf_text(&url));
    buf_release(&url);
    snprintf(blob.hash, sizeof blob.hash, "%s", f->hash);
    return blob;
}

/* Blobs, then the links to them. */
static int fetch_files(struct pull *pull, const struct hub_file *const *files, size_t count,
                       struct error *err) {
    struct hub_blob *blobs = mem_calloc(MAX(count, 1u), sizeof *blobs);
    struct hub_request last;
    size_t blob_count = 0;
    for (size_t i = 0; i < count; i++) { /* two files may have the same content */
        size_t j = 0;
        while (j < blob_count && strcmp(blobs[j].hash, files[i]->hash) != 0)
            j++;
        if (j == blob_count)
            blobs[blob_count++] = blob_of(pull, files[i]);
    }
    int rc = hub_fetch(pull->http, blobs, blob_count, pull->watch, &last, err);
    if (rc && last.status)
        rc = explain(pull->places, pull->name, &last, err);
    for (size_t i = 0; !rc && i < count; i++)
        rc = hub_cache_link(pull->places->cache, pull->name->repo, pull->commit, files[i]->path,
                            files[i]->hash, err);
    for (size_t i = 0; i < blob_count; i++)
        hub_blob_release(&blobs[i]);
    mem_free(blobs);
    return rc;
}

static int choose_and_fetch(struct pull *pull, struct error *err) {
    int rc = choose(pull->places, pull->name, pull->commit, &pull->listing, &pull->choice, err);
    if (!rc && pull->choice.index) { /* which weights there are is in a file to fetch first */
        const struct hub_file *index = pull->choice.index;
        if (index->size > INDEX_BYTES_MAX)
            return error_set(err, ERR_LIMIT, "its index of weights is larger than %zu bytes",
                             INDEX_BYTES_MAX);
        rc = fetch_files(pull, &index, 1, err);
        hub_choice_release(&pull->choice);
        if (!rc)
            rc = choose(pull->places, pull->name, pull->commit, &pull->listing, &pull->choice, err);
    }
    return rc ? rc : fetch_files(pull, pull->choice.files.items, pull->choice.files.count, err);
}

int hugging_face_pull(const struct hub_places *places, const struct hub_name *name,
                      const struct hub_watch *watch, char **path, uint64_t *bytes,
                      struct error *err) {
    struct pull pull = {.places = places, .name = name, .watch = watch};
    int held_fd = -1;
    int rc = hub_http_new(&pull.http, places->endpoint, places->token, places->patience_s, err);
    if (rc)
        return rc;
    rc = hub_cache_hold(places->cache, name->repo, false, &held_fd, err);
    if (!rc)
        rc = ask_commit(&pull, err);
    if (!rc) {
        rc = find_listing(&pull, err);
        if (!rc)
            rc = choose_and_fetch(&pull, err);
        if (rc)
            error_wrap(err, "'%s'", name->repo);
    }
    if (!rc)
        rc = hub_cache_set_ref(places->cache, name->repo, name->revision, pull.commit, err);
    if (!rc) {
        *bytes = hub_choice_bytes(&pull.choice);
        *path = file_path(places, name, pull.commit,
                          pull.choice.model ? pull.choice.model->path : NULL);
    }
    hub_choice_release(&pull.choice);
    hub_listing_release(&pull.listing);
    hub_http_free(&pull.http);
    if (held_fd >= 0)
        close(held_fd);
    return rc;
}
