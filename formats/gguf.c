/*
 * One pass over the header with a cursor that knows the file's end: keys, then tensor entries, then
 * the data's start.
 */
#include "formats/gguf.h"

#include "base/fsutil.h"
#include "base/vec.h"
#include "formats/gguf_types.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- cursor ---- */

struct cursor {
    const uint8_t *at, *end;
    const char *path;
    struct error *err;
};

static int cut(struct cursor *c) {
    return error_set(c->err, ERR_INVALID, "'%s': the header is cut; download the file again",
                     c->path);
}

/* n bytes, or NULL at the end. */
static const uint8_t *take_bytes(struct cursor *c, uint64_t n) {
    if (n > (size_t)(c->end - c->at))
        return NULL;
    const uint8_t *p = c->at;
    c->at += n;
    return p;
}

static bool take_u32(struct cursor *c, uint32_t *out) {
    const uint8_t *p = take_bytes(c, 4);
    if (p)
        memcpy(out, p, 4);
    return p != NULL;
}

static bool take_u64(struct cursor *c, uint64_t *out) {
    const uint8_t *p = take_bytes(c, 8);
    if (p)
        memcpy(out, p, 8);
    return p != NULL;
}

static bool take_string(struct cursor *c, struct bytes *out) {
    uint64_t len;
    if (!take_u64(c, &len))
        return false;
    const uint8_t *p = take_bytes(c, len);
    *out = bytes_of(p, (size_t)len);
    return p != NULL;
}

static bool name_ok(struct bytes name) {
    return name.len > 0 && name.len <= GGUF_NAME_MAX && !memchr(name.data, 0, name.len);
}

/* ---- keys ---- */

struct parse {
    struct gguf *g;
    struct cursor c;
    VEC(struct gguf_kv) kvs;
    VEC(struct tensor) tensors;
    VEC(uint64_t) offsets; /* of the tensors, from the data's start */
    uint64_t alignment;
};

static const uint8_t VALUE_BYTES[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static int parse_array(struct parse *p, struct gguf_kv *kv, const char *key) {
    uint32_t type;
    uint64_t size;
    struct bytes skip;
    if (!take_u32(&p->c, &type) || !take_u64(&p->c, &kv->count))
        return cut(&p->c);
    if (type > GGUF_F64 || type == GGUF_ARRAY)
        return error_set(p->c.err, ERR_UNSUPPORTED, "'%s': '%s' is an array of type %u", p->c.path,
                         key, type);
    kv->type = (enum gguf_type)type;
    kv->data = p->c.at;
    if (type == GGUF_STRING) {
        for (uint64_t i = 0; i < kv->count; i++)
            if (!take_string(&p->c, &skip))
                return cut(&p->c);
        return 0;
    }
    return mul_ok(kv->count, VALUE_BYTES[type], &size) && take_bytes(&p->c, size) ? 0 : cut(&p->c);
}

static int parse_kv(struct parse *p) {
    struct gguf_kv kv = {.count = 1};
    uint32_t type;
    struct bytes skip;
    char key[GGUF_NAME_MAX + 1];
    if (!take_string(&p->c, &kv.key) || !take_u32(&p->c, &type))
        return cut(&p->c);
    if (!name_ok(kv.key))
        return error_set(p->c.err, ERR_INVALID, "'%s': a key of %zu bytes", p->c.path, kv.key.len);
    snprintf(key, sizeof key, "%.*s", (int)kv.key.len, (const char *)kv.key.data);
    if (type > GGUF_F64)
        return error_set(p->c.err, ERR_UNSUPPORTED, "'%s': '%s' is of type %u", p->c.path, key,
                         type);
    kv.type = (enum gguf_type)type;
    kv.is_array = type == GGUF_ARRAY;
    kv.data = p->c.at;
    int rc = 0;
    if (kv.is_array)
        rc = parse_array(p, &kv, key);
    else if (type == GGUF_STRING ? !take_string(&p->c, &skip)
                                 : !take_bytes(&p->c, VALUE_BYTES[type]))
        rc = cut(&p->c);
    kv.byte_len = (size_t)(p->c.at - kv.data);
    if (!rc)
        vec_push(&p->kvs, kv);
    return rc;
}

static int by_key(const void *a, const void *b) {
    const struct gguf_kv *x = a, *y = b;
    int order = memcmp(x->key.data, y->key.data, MIN(x->key.len, y->key.len));
    return order ? order : x->key.len < y->key.len ? -1 : x->key.len > y->key.len;
}

static int parse_kvs(struct parse *p, uint64_t count) {
    if (count > GGUF_KEYS_MAX)
        return error_set(p->c.err, ERR_LIMIT, "'%s': more than %d keys", p->c.path, GGUF_KEYS_MAX);
    for (uint64_t i = 0; i < count; i++) {
        int rc = parse_kv(p);
        if (rc)
            return rc;
    }
    if (p->kvs.count)
        qsort(p->kvs.items, p->kvs.count, sizeof *p->kvs.items, by_key);
    for (size_t i = 1; i < p->kvs.count; i++)
        if (bytes_equal(p->kvs.items[i - 1].key, p->kvs.items[i].key))
            return error_set(p->c.err, ERR_INVALID, "'%s': key '%.*s' appears twice", p->c.path,
                             (int)p->kvs.items[i].key.len, (const char *)p->kvs.items[i].key.data);
    return 0;
}

/* ---- tensors ---- */

static int check_size(struct parse *p, struct tensor *t, const uint64_t *ne) {
    uint64_t count = 1, block = tensor_type_block(t->type);
    for (uint32_t i = 0; i < t->dim_count; i++) {
        t->dims[t->dim_count - 1 - i] = ne[i];
        if (!mul_ok(count, ne[i], &count))
            return error_set(p->c.err, ERR_INVALID, "'%s': shape of '%s' overflows", p->c.path,
                             t->name);
    }
    if (ne[0] % block)
        return error_set(p->c.err, ERR_INVALID,
                         "'%s': rows of '%s' have %llu values, no multiple of a %s block of %u",
                         p->c.path, t->name, (unsigned long long)ne[0], tensor_type_name(t->type),
                         (unsigned)block);
    if (!mul_ok(count / block, tensor_type_size(t->type), &t->byte_len))
        return error_set(p->c.err, ERR_INVALID, "'%s': size of '%s' overflows", p->c.path, t->name);
    return 0;
}

static int parse_tensor(struct parse *p) {
    struct bytes name;
    uint32_t dims, type;
    uint64_t ne[4] = {1, 1, 1, 1}, offset;
    if (!take_string(&p->c, &name) || !take_u32(&p->c, &dims))
        return cut(&p->c);
    if (!name_ok(name))
        return error_set(p->c.err, ERR_INVALID, "'%s': a tensor's name has %zu bytes", p->c.path,
                         name.len);
    if (dims == 0 || dims > 4)
        return error_set(p->c.err, ERR_INVALID, "'%s': '%.*s' has %u dimensions", p->c.path,
                         (int)name.len, (const char *)name.data, dims);
    for (uint32_t i = 0; i < dims; i++)
        if (!take_u64(&p->c, &ne[i]))
            return cut(&p->c);
    if (!take_u32(&p->c, &type) || !take_u64(&p->c, &offset))
        return cut(&p->c);
    struct tensor t = {.dim_count = dims, .file_idx = (uint32_t)(p->g->set.file_count - 1)};
    if (!gguf_tensor_type(type, &t.type))
        return error_set(p->c.err, ERR_UNSUPPORTED,
                         "'%s': '%.*s' is of tensor type %u, which is not known", p->c.path,
                         (int)name.len, (const char *)name.data, type);
    t.name = mem_strndup((const char *)name.data, name.len);
    vec_push(&p->tensors, t);
    vec_push(&p->offsets, offset);
    return check_size(p, &p->tensors.items[p->tensors.count - 1], ne);
}

/* Where the data begins, and that every tensor lies in it. */
static int place_tensors(struct parse *p, struct bytes file, struct bytes *header) {
    uint64_t start = (uint64_t)(p->c.at - file.data);
    if (p->tensors.count)
        start = (start + p->alignment - 1) / p->alignment * p->alignment;
    if (start > file.len)
        return cut(&p->c);
    *header = bytes_of(file.data, (size_t)start);
    for (size_t i = 0; i < p->tensors.count; i++) {
        struct tensor *t = &p->tensors.items[i];
        uint64_t offset = p->offsets.items[i], room = file.len - start;
        if (offset % p->alignment)
            return error_set(p->c.err, ERR_INVALID,
                             "'%s': '%s' begins at %llu, which is not aligned", p->c.path, t->name,
                             (unsigned long long)offset);
        if (offset > room || t->byte_len > room - offset)
            return error_set(p->c.err, ERR_INVALID,
                             "'%s': '%s' lies beyond the file's end; the file is cut, download "
                             "it again",
                             p->c.path, t->name);
        t->data = file.data + start + offset;
    }
    return 0;
}

/* ---- one file ---- */

static void find_alignment(struct parse *p, const struct gguf *view) {
    int64_t v;
    p->alignment = 32;
    if (gguf_int(view, "general.alignment", &v))
        p->alignment = v > 0 && v <= 1 << 20 ? (uint64_t)v : 0;
}

static int parse_file(struct parse *p, struct bytes file, struct bytes *header) {
    uint32_t magic, version;
    uint64_t tensors, kvs;
    if (!take_u32(&p->c, &magic) || memcmp(&magic, "GGUF", 4) || !take_u32(&p->c, &version))
        return error_set(p->c.err, ERR_INVALID, "'%s' is no GGUF file", p->c.path);
    if (version == 0x02000000 || version == 0x03000000)
        return error_set(p->c.err, ERR_UNSUPPORTED, "'%s' is a big-endian GGUF file", p->c.path);
    if (version != 2 && version != 3)
        return error_set(p->c.err, ERR_UNSUPPORTED, "'%s' is of GGUF version %u; known are 2 and 3",
                         p->c.path, version);
    if (!take_u64(&p->c, &tensors) || !take_u64(&p->c, &kvs))
        return cut(&p->c);
    if (tensors > GGUF_TENSORS_MAX)
        return error_set(p->c.err, ERR_LIMIT, "'%s': more than %d tensors", p->c.path,
                         GGUF_TENSORS_MAX);
    if (p->g->set.file_count == 1)
        p->g->version = version;
    int rc = parse_kvs(p, kvs);
    for (uint64_t i = 0; !rc && i < tensors; i++)
        rc = parse_tensor(p);
    if (rc)
        return rc;
    struct gguf view = {.kvs = p->kvs.items, .kv_count = p->kvs.count};
    find_alignment(p, &view);
    if (p->alignment == 0 || p->alignment & (p->alignment - 1))
        return error_set(p->c.err, ERR_INVALID, "'%s': general.alignment is no power of two",
                         p->c.path);
    return place_tensors(p, file, header);
}

/* Appends a file's tensors; the first file's keys become the set's. */
static int add_bytes(struct gguf *g, struct bytes file, const char *path, struct bytes *header,
                     struct error *err) {
    struct parse p = {
        .g = g, .c = {.at = file.data, .end = file.data + file.len, .path = path, .err = err}};
    int rc = parse_file(&p, file, header);
    if (!rc && g->set.tensor_count + p.tensors.count > GGUF_TENSORS_MAX)
        rc = error_set(err, ERR_LIMIT, "'%s': more than %d tensors", path, GGUF_TENSORS_MAX);
    if (!rc && p.tensors.count) {
        size_t count = g->set.tensor_count + p.tensors.count;
        g->set.tensors = mem_realloc(g->set.tensors, count * sizeof *g->set.tensors);
        memcpy(g->set.tensors + g->set.tensor_count, p.tensors.items,
               p.tensors.count * sizeof *g->set.tensors);
        g->set.tensor_count = count;
        p.tensors.count = 0;
    }
    if (!rc && g->set.file_count == 1) {
        g->kvs = p.kvs.items;
        g->kv_count = p.kvs.count;
        p.kvs.items = NULL;
    }
    for (size_t i = 0; i < p.tensors.count; i++)
        mem_free((char *)p.tensors.items[i].name);
    vec_release(&p.tensors);
    vec_release(&p.offsets);
    vec_release(&p.kvs);
    return rc;
}

static struct safetensors_file *new_file(struct gguf *g, const char *path) {
    g->set.files = mem_realloc(g->set.files, (g->set.file_count + 1) * sizeof *g->set.files);
    struct safetensors_file *f = &g->set.files[g->set.file_count++];
    *f = (struct safetensors_file){.path = mem_strdup(path)};
    return f;
}

static int add_path(struct gguf *g, const char *path, struct error *err) {
    struct safetensors_file *f = new_file(g, path);
    int rc = file_map_open(&f->map, path, err);
    return rc ? rc : add_bytes(g, bytes_of(f->map.data, f->map.len), path, &f->header, err);
}

static int sort_tensors(struct gguf *g, struct error *err) {
    tensors_sort(&g->set);
    for (size_t i = 1; i < g->set.tensor_count; i++)
        if (!strcmp(g->set.tensors[i - 1].name, g->set.tensors[i].name))
            return error_set(err, ERR_INVALID, "'%s': tensor '%s' appears twice",
                             g->set.files[g->set.tensors[i].file_idx].path, g->set.tensors[i].name);
    return 0;
}

int gguf_open_bytes(struct gguf *g, struct bytes file, const char *path, struct error *err) {
    int64_t file_count = 0;
    *g = (struct gguf){0};
    struct safetensors_file *f = new_file(g, path);
    int rc = add_bytes(g, file, path, &f->header, err);
    if (!rc && gguf_int(g, "split.count", &file_count) && file_count > 1)
        rc = error_set(err, ERR_UNSUPPORTED, "'%s' is one of %lld parts", path,
                       (long long)file_count);
    if (!rc)
        rc = sort_tensors(g, err);
    if (rc)
        gguf_close(g);
    return rc;
}

void gguf_close(struct gguf *g) {
    safetensors_close(&g->set);
    mem_free(g->kvs);
    *g = (struct gguf){0};
}

/* ---- several files ---- */

enum { SUFFIX_LEN = 20 }; /* "-00001-of-00003.gguf" */

/* The number in the name of one of *count files; 0 when the name has none. */
static uint32_t file_number(const char *path, uint32_t *count) {
    size_t len = strlen(path);
    unsigned number, total;
    int end = 0;
    if (len <= SUFFIX_LEN ||
        sscanf(path + len - SUFFIX_LEN, "-%5u-of-%5u.gguf%n", &number, &total, &end) != 2 ||
        end != SUFFIX_LEN || number == 0 || number > total)
        return 0;
    *count = total;
    return number;
}

static int add_files(struct gguf *g, const char *path, uint32_t count, struct error *err) {
    size_t stem = strlen(path) - SUFFIX_LEN;
    int64_t said = 0;
    if (count > GGUF_FILES_MAX)
        return error_set(err, ERR_LIMIT, "'%s': more than %d parts", path, GGUF_FILES_MAX);
    for (uint32_t i = 1; i <= count; i++) {
        struct buf name;
        buf_init(&name, 0);
        buf_addf(&name, "%.*s-%05u-of-%05u.gguf", (int)stem, path, i, count);
        int rc = add_path(g, buf_text(&name), err);
        buf_release(&name);
        if (rc)
            return rc;
        if (i == 1 && gguf_int(g, "split.count", &said) && said != count)
            return error_set(err, ERR_INVALID,
                             "'%s': the name says %u parts, split.count says %lld", path, count,
                             (long long)said);
    }
    return 0;
}

int gguf_open(struct gguf *g, const char *path, struct error *err) {
    uint32_t count = 0;
    int64_t said = 0;
    *g = (struct gguf){0};
    bool is_numbered = file_number(path, &count) > 0;
    int rc = is_numbered ? add_files(g, path, count, err) : add_path(g, path, err);
    if (!rc && !is_numbered && gguf_int(g, "split.count", &said) && said > 1)
        rc = error_set(err, ERR_INVALID,
                       "'%s' is one of %lld parts, but its name does not end as theirs do", path,
                       (long long)said);
    if (!rc && gguf_int(g, "split.tensors.count", &said) && said != (int64_t)g->set.tensor_count)
        rc = error_set(err, ERR_INVALID, "'%s': %zu tensors, split.tensors.count says %lld", path,
                       g->set.tensor_count, (long long)said);
    if (!rc)
        rc = sort_tensors(g, err);
    if (rc)
        gguf_close(g);
    return rc;
}

bool gguf_is(const char *path) {
    char magic[4];
    int fd;
    size_t len;
    if (file_open(path, &fd, &len, NULL))
        return false;
    bool is = read(fd, magic, sizeof magic) == sizeof magic && !memcmp(magic, "GGUF", 4);
    close(fd);
    return is;
}

char *gguf_path_of(const char *path) {
    if (!dir_exists(path))
        return gguf_is(path) ? mem_strdup(path) : NULL;
    char *config = path_join(path, "config.json"), *found = NULL;
    bool has_config = file_exists(config), several = false;
    mem_free(config);
    DIR *dir = has_config ? NULL : opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t len = strlen(e->d_name);
        uint32_t count;
        if (len < 6 || strcmp(e->d_name + len - 5, ".gguf") || file_number(e->d_name, &count) > 1)
            continue;
        several = found != NULL;
        if (several)
            break;
        found = path_join(path, e->d_name);
    }
    if (dir)
        closedir(dir);
    if (several || (found && !gguf_is(found))) {
        mem_free(found);
        return NULL;
    }
    return found;
}
