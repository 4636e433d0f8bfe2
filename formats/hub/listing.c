#include "formats/hub/listing.h"

#include "base/fsutil.h"
#include "formats/hub/name.h"
#include "formats/json.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { FOLDERS_DEEP_MAX = 16 };
#define FILE_BYTES_MAX ((int64_t)1 << 45)

/* A file as an answer tells it, before it is checked. */
struct entry {
    struct buf path;
    char hash[HUB_HASH_MAX], large_hash[HUB_HASH_MAX];
    int64_t size, large_size; /* -1: not told */
    bool is_file;
};

static void entry_init(struct entry *e) {
    *e = (struct entry){.size = -1, .large_size = -1};
    buf_init(&e->path, HUB_FILE_MAX);
}

static bool is_hash(const char *text, size_t digits) {
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

static int add_entry(struct hub_listing *l, const struct entry *e, struct error *err) {
    struct hub_file file = {.is_large = e->large_hash[0] || e->large_size >= 0};
    int64_t size = file.is_large && e->large_size >= 0 ? e->large_size : e->size;
    const char *hash = file.is_large ? e->large_hash : e->hash;
    if (e->path.failed || !hub_path_is_safe(buf_bytes(&e->path)))
        return error_set(err, ERR_INVALID, "it lists a file '%.100s', which cannot be its path",
                         buf_text(&e->path));
    if (size < 0 || size > FILE_BYTES_MAX || !is_hash(hash, file.is_large ? 64 : 40))
        return error_set(err, ERR_INVALID, "it lists '%.100s' without a size or a hash",
                         buf_text(&e->path));
    if (l->files.count >= HUB_FILES_MAX)
        return error_set(err, ERR_LIMIT, "it lists more than %d files", HUB_FILES_MAX);
    file.size = (uint64_t)size;
    snprintf(file.hash, sizeof file.hash, "%s", hash);
    snprintf(file.git_hash, sizeof file.git_hash, "%s", is_hash(e->hash, 40) ? e->hash : "");
    file.path = mem_strdup(buf_text(&e->path));
    vec_push(&l->files, file);
    return 0;
}

/* A string that is no hash at all is as good as none: add_entry says so. */
static bool read_hash(struct json_reader *r, char out[HUB_HASH_MAX]) {
    struct bytes text;
    if (!json_read_string(r, &text))
        return false;
    snprintf(out, HUB_HASH_MAX, "%.*s", (int)MIN(text.len, HUB_HASH_MAX - 1u), text.data);
    return true;
}

/* {oid, size, pointerSize}, or null. */
static bool read_large(struct json_reader *r, struct entry *e) {
    enum json_event event = json_next(r);
    if (event == JSON_NULL)
        return true;
    if (event != JSON_OBJECT_BEGIN)
        return json_fail(r, "expected an object");
    while ((event = json_next(r)) == JSON_KEY) {
        bool good = json_text_is(r, "oid")    ? read_hash(r, e->large_hash)
                    : json_text_is(r, "size") ? json_read_int64(r, &e->large_size)
                                              : json_skip(r);
        if (!good)
            return false;
    }
    return event == JSON_OBJECT_END;
}

static bool read_text(struct json_reader *r, struct buf *out) {
    struct bytes text;
    if (!json_read_string(r, &text))
        return false;
    buf_reset(out);
    buf_add_bytes(out, text);
    return true;
}

static bool read_type(struct json_reader *r, struct entry *e) {
    struct bytes type;
    if (!json_read_string(r, &type))
        return false;
    e->is_file = bytes_equal(type, bytes_str("file"));
    return true;
}

/* One object of a page; its begin was read. */
static bool read_item(struct json_reader *r, struct entry *e) {
    enum json_event event;
    while ((event = json_next(r)) == JSON_KEY) {
        bool good = json_text_is(r, "path")   ? read_text(r, &e->path)
                    : json_text_is(r, "oid")  ? read_hash(r, e->hash)
                    : json_text_is(r, "size") ? json_read_int64(r, &e->size)
                    : json_text_is(r, "lfs")  ? read_large(r, e)
                    : json_text_is(r, "type") ? read_type(r, e)
                                              : json_skip(r);
        if (!good)
            return false;
    }
    return event == JSON_OBJECT_END;
}

int hub_listing_add_page(struct hub_listing *l, struct bytes json, struct error *err) {
    struct json_reader r;
    enum json_event event = JSON_ERROR;
    int rc = json_scan(json, 0, err);
    if (rc)
        return rc;
    json_reader_init(&r, json, 0, 0);
    bool good = json_expect(&r, JSON_ARRAY_BEGIN);
    while (good && !rc && (event = json_next(&r)) == JSON_OBJECT_BEGIN) {
        struct entry e;
        entry_init(&e);
        good = read_item(&r, &e);
        if (good && e.is_file)
            rc = add_entry(l, &e, err);
        buf_release(&e.path);
    }
    if (!rc && (!good || event != JSON_ARRAY_END))
        rc = error_set(err, ERR_INVALID, "its list of files is none: %s",
                       *r.error.text ? r.error.text : "expected an array of objects");
    json_reader_release(&r);
    return rc;
}

static int compare_paths(const void *a, const void *b) {
    return strcmp(((const struct hub_file *)a)->path, ((const struct hub_file *)b)->path);
}

int hub_listing_sort(struct hub_listing *l, struct error *err) {
    if (l->files.count)
        qsort(l->files.items, l->files.count, sizeof *l->files.items, compare_paths);
    for (size_t i = 1; i < l->files.count; i++)
        if (!strcmp(l->files.items[i - 1].path, l->files.items[i].path))
            return error_set(err, ERR_INVALID, "it lists '%s' twice", l->files.items[i].path);
    return 0;
}

/* ---- the copy in the cache ---- */

static bool read_copied(struct json_reader *r, struct entry *e) {
    enum json_event event;
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return false;
    while ((event = json_next(r)) == JSON_KEY) {
        bool good = json_text_is(r, "size")         ? json_read_int64(r, &e->size)
                    : json_text_is(r, "blob_id")    ? read_hash(r, e->hash)
                    : json_text_is(r, "lfs_sha256") ? read_hash(r, e->large_hash)
                    : json_text_is(r, "lfs_size")   ? json_read_int64(r, &e->large_size)
                                                    : json_skip(r);
        if (!good)
            return false;
    }
    return event == JSON_OBJECT_END;
}

static bool read_copied_files(struct hub_listing *l, struct json_reader *r, int *rc,
                              struct error *err) {
    enum json_event event = JSON_ERROR;
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return false;
    while (!*rc && (event = json_next(r)) == JSON_KEY) {
        struct entry e;
        entry_init(&e);
        buf_add_bytes(&e.path, r->text);
        bool good = read_copied(r, &e);
        if (good)
            *rc = add_entry(l, &e, err);
        buf_release(&e.path);
        if (!good)
            return false;
    }
    return *rc || event == JSON_OBJECT_END;
}

int hub_listing_read_copy(struct hub_listing *l, struct bytes json, struct error *err) {
    struct json_reader r;
    int64_t version = 0;
    int rc = json_scan(json, 0, err);
    if (rc)
        return rc;
    json_reader_init(&r, json, 0, 0);
    bool good = json_expect(&r, JSON_OBJECT_BEGIN);
    while (good && !rc && json_next(&r) == JSON_KEY)
        good = json_text_is(&r, "format_version") ? json_read_int64(&r, &version)
               : json_text_is(&r, "files")        ? read_copied_files(l, &r, &rc, err)
                                                  : json_skip(&r);
    if (!rc && (!good || version != 1))
        rc = error_set(err, ERR_UNSUPPORTED, "this is no list of files of format 1");
    json_reader_release(&r);
    return rc ? rc : hub_listing_sort(l, err);
}

void hub_listing_add_copy(const struct hub_listing *l, struct buf *out) {
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, "format_version");
    json_int(&w, 1);
    json_key(&w, "files");
    json_begin_object(&w);
    for (size_t i = 0; i < l->files.count; i++) {
        const struct hub_file *f = &l->files.items[i];
        json_key(&w, f->path);
        json_begin_object(&w);
        json_key(&w, "size");
        json_uint(&w, f->size);
        json_key(&w, "blob_id");
        json_string(&w, f->git_hash);
        if (f->is_large) {
            json_key(&w, "lfs_sha256");
            json_string(&w, f->hash);
            json_key(&w, "lfs_size");
            json_uint(&w, f->size);
        }
        json_end_object(&w);
    }
    json_end_object(&w);
    json_end_object(&w);
}

/* ---- a folder ---- */

static int add_folder(struct hub_listing *l, const char *dir, const char *below, int depth,
                      struct error *err) {
    DIR *d = opendir(dir);
    int rc = d ? 0 : error_set_errno(err, "cannot read the folder '%s'", dir);
    for (const struct dirent *e; !rc && d && (e = readdir(d));) {
        struct stat st;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            fstatat(dirfd(d), e->d_name, &st, 0))
            continue; /* a link that leads nowhere is no file */
        char *path = *below ? path_join(below, e->d_name) : mem_strdup(e->d_name);
        if (S_ISDIR(st.st_mode) && depth < FOLDERS_DEEP_MAX) {
            char *sub = path_join(dir, e->d_name);
            rc = add_folder(l, sub, path, depth + 1, err);
            mem_free(sub);
        }
        bool listed = S_ISREG(st.st_mode) && hub_path_is_safe(bytes_str(path)) &&
                      l->files.count < HUB_FILES_MAX;
        struct hub_file file = {.path = path, .size = (uint64_t)st.st_size};
        if (listed)
            vec_push(&l->files, file);
        else
            mem_free(path);
    }
    if (d)
        closedir(d);
    return rc;
}

int hub_listing_read_folder(struct hub_listing *l, const char *dir, struct error *err) {
    int rc = add_folder(l, dir, "", 0, err);
    return rc ? rc : hub_listing_sort(l, err);
}

const struct hub_file *hub_listing_find(const struct hub_listing *l, const char *path) {
    const struct hub_file wanted = {.path = (char *)(uintptr_t)path};
    return l->files.count ? bsearch(&wanted, l->files.items, l->files.count, sizeof *l->files.items,
                                    compare_paths)
                          : NULL;
}

void hub_listing_release(struct hub_listing *l) {
    for (size_t i = 0; i < l->files.count; i++)
        mem_free(l->files.items[i].path);
    vec_release(&l->files);
}
