/*
 * Reading is one pass of the pull reader over each header; sorting by offset then proves that
 * ranges tile the data, sorting by name proves that names are unique.
 */
#include "formats/safetensors.h"

#include "base/vec.h"
#include "formats/gguf_types.h"
#include "formats/json.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    uint16_t size, block; /* block 0: 1 */
} TYPES[TENSOR_TYPE_COUNT] = {
    [TENSOR_BOOL] = {"BOOL", 1, 0},
    [TENSOR_U8] = {"U8", 1, 0},
    [TENSOR_I8] = {"I8", 1, 0},
    [TENSOR_F8_E5M2] = {"F8_E5M2", 1, 0},
    [TENSOR_F8_E4M3] = {"F8_E4M3", 1, 0},
    [TENSOR_I16] = {"I16", 2, 0},
    [TENSOR_U16] = {"U16", 2, 0},
    [TENSOR_F16] = {"F16", 2, 0},
    [TENSOR_BF16] = {"BF16", 2, 0},
    [TENSOR_I32] = {"I32", 4, 0},
    [TENSOR_U32] = {"U32", 4, 0},
    [TENSOR_F32] = {"F32", 4, 0},
    [TENSOR_F64] = {"F64", 8, 0},
    [TENSOR_I64] = {"I64", 8, 0},
    [TENSOR_U64] = {"U64", 8, 0},
    [TENSOR_F8_E8M0] = {"F8_E8M0", 1, 0},
    [TENSOR_SAFETENSORS_COUNT] = {"", 1, 0},
    [TENSOR_Q4_0] = {"Q4_0", 18, 32},
    [TENSOR_Q4_1] = {"Q4_1", 20, 32},
    [TENSOR_Q5_0] = {"Q5_0", 22, 32},
    [TENSOR_Q5_1] = {"Q5_1", 24, 32},
    [TENSOR_Q8_0] = {"Q8_0", 34, 32},
    [TENSOR_Q2_K] = {"Q2_K", 84, 256},
    [TENSOR_Q3_K] = {"Q3_K", 110, 256},
    [TENSOR_Q4_K] = {"Q4_K", 144, 256},
    [TENSOR_Q5_K] = {"Q5_K", 176, 256},
    [TENSOR_Q6_K] = {"Q6_K", 210, 256},
    [TENSOR_IQ1_S] = {"IQ1_S", 50, 256},
    [TENSOR_IQ1_M] = {"IQ1_M", 56, 256},
    [TENSOR_IQ2_XXS] = {"IQ2_XXS", 66, 256},
    [TENSOR_IQ2_XS] = {"IQ2_XS", 74, 256},
    [TENSOR_IQ2_S] = {"IQ2_S", 82, 256},
    [TENSOR_IQ3_XXS] = {"IQ3_XXS", 98, 256},
    [TENSOR_IQ3_S] = {"IQ3_S", 110, 256},
    [TENSOR_IQ4_NL] = {"IQ4_NL", 18, 32},
    [TENSOR_IQ4_XS] = {"IQ4_XS", 136, 256},
    [TENSOR_TQ1_0] = {"TQ1_0", 54, 256},
    [TENSOR_TQ2_0] = {"TQ2_0", 66, 256},
    [TENSOR_MXFP4] = {"MXFP4", 17, 32},
    [TENSOR_Q1_0] = {"Q1_0", 18, 128},
    [TENSOR_U4] = {"int4", 1, 2},
    [TENSOR_NF4] = {"nf4", 1, 2},
};

const char *tensor_type_name(enum tensor_type type) {
    return TYPES[type].name;
}
size_t tensor_type_size(enum tensor_type type) {
    return TYPES[type].size;
}
uint32_t tensor_type_block(enum tensor_type type) {
    return MAX(TYPES[type].block, 1);
}

static bool type_of_name(struct bytes name, enum tensor_type *out) {
    for (int i = 0; i < TENSOR_SAFETENSORS_COUNT; i++)
        if (bytes_equal(name, bytes_str(TYPES[i].name))) {
            *out = (enum tensor_type)i;
            return true;
        }
    return false;
}

/* ---- one header ---- */

struct entry {
    struct tensor tensor;
    uint64_t begin, end; /* data_offsets */
};

struct header_parse {
    struct json_reader json;
    VEC(struct entry) entries;
    const char *path;
};

static bool parse_dims(struct json_reader *r, struct tensor *t) {
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return false;
    for (;;) {
        enum json_event ev = json_next(r);
        if (ev == JSON_ARRAY_END)
            return true;
        if (ev != JSON_NUMBER)
            return json_fail(r, "shape of '%s' is not a list of numbers", t->name);
        if (t->dim_count == TENSOR_DIMS_MAX)
            return json_fail(r, "'%s' has more than %d dimensions", t->name, TENSOR_DIMS_MAX);
        if (!json_number_uint64(r->text, &t->dims[t->dim_count++]))
            return json_fail(r, "bad dimension in '%s'", t->name);
    }
}

static bool parse_offsets(struct json_reader *r, struct entry *e) {
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return false;
    uint64_t *const targets[2] = {&e->begin, &e->end};
    for (int i = 0; i < 2; i++) {
        if (!json_expect(r, JSON_NUMBER))
            return false;
        if (!json_number_uint64(r->text, targets[i]))
            return json_fail(r, "bad offset in '%s'", e->tensor.name);
    }
    return json_expect(r, JSON_ARRAY_END);
}

enum { SEEN_TYPE = 1, SEEN_SHAPE = 2, SEEN_OFFSETS = 4, SEEN_ALL = 7 };

static bool parse_field(struct json_reader *r, struct entry *e, unsigned *seen) {
    struct bytes key = r->text;
    unsigned bit = bytes_equal(key, bytes_str("dtype"))          ? SEEN_TYPE
                   : bytes_equal(key, bytes_str("shape"))        ? SEEN_SHAPE
                   : bytes_equal(key, bytes_str("data_offsets")) ? SEEN_OFFSETS
                                                                 : 0;
    if (!bit)
        return json_fail(r, "unknown field in '%s'", e->tensor.name);
    if (*seen & bit)
        return json_fail(r, "repeated field in '%s'", e->tensor.name);
    *seen |= bit;
    if (bit == SEEN_SHAPE)
        return parse_dims(r, &e->tensor);
    if (bit == SEEN_OFFSETS)
        return parse_offsets(r, e);
    struct bytes name;
    if (!json_read_string(r, &name))
        return false;
    if (!type_of_name(name, &e->tensor.type))
        return json_fail(r, "unknown dtype of '%s'", e->tensor.name);
    return true;
}

static bool parse_tensor(struct header_parse *p, struct entry *e) {
    struct json_reader *r = &p->json;
    if (r->text.len == 0 || r->text.len > 1024)
        return json_fail(r, "tensor name of %zu bytes", r->text.len);
    e->tensor.name = mem_strndup((const char *)r->text.data, r->text.len);
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return false;
    unsigned seen = 0;
    enum json_event ev;
    while ((ev = json_next(r)) == JSON_KEY)
        if (!parse_field(r, e, &seen))
            return false;
    if (ev != JSON_OBJECT_END)
        return false;
    if (seen != SEEN_ALL)
        return json_fail(r, "'%s' lacks dtype, shape or data_offsets", e->tensor.name);
    return true;
}

static bool parse_metadata(struct json_reader *r) {
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return false;
    enum json_event ev;
    struct bytes value;
    while ((ev = json_next(r)) == JSON_KEY)
        if (!json_read_string(r, &value))
            return false;
    return ev == JSON_OBJECT_END;
}

static bool parse_header(struct header_parse *p) {
    struct json_reader *r = &p->json;
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return false;
    bool metadata = false;
    enum json_event ev;
    while ((ev = json_next(r)) == JSON_KEY) {
        if (bytes_equal(r->text, bytes_str("__metadata__"))) {
            if (metadata)
                return json_fail(r, "repeated __metadata__");
            metadata = true;
            if (!parse_metadata(r))
                return false;
            continue;
        }
        if (p->entries.count == SAFETENSORS_TENSORS_MAX)
            return json_fail(r, "too many tensors");
        vec_push(&p->entries, (struct entry){0});
        if (!parse_tensor(p, &p->entries.items[p->entries.count - 1]))
            return false;
    }
    return ev == JSON_OBJECT_END && json_next(r) == JSON_END;
}

/* ---- ranges ---- */

static int by_begin(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int check_entry(const struct entry *e, uint64_t data_len, const char *path,
                       struct error *err) {
    const char *name = e->tensor.name;
    uint64_t count = 1, size;
    for (uint32_t i = 0; i < e->tensor.dim_count; i++)
        if (!mul_ok(count, e->tensor.dims[i], &count))
            return error_set(err, ERR_INVALID, "'%s': shape of '%s' overflows", path, name);
    if (!mul_ok(count, TYPES[e->tensor.type].size, &size))
        return error_set(err, ERR_INVALID, "'%s': size of '%s' overflows", path, name);
    if (e->begin > e->end)
        return error_set(err, ERR_INVALID, "'%s': offsets of '%s' are reversed", path, name);
    if (e->end > data_len)
        return error_set(err, ERR_INVALID,
                         "'%s': '%s' ends at byte %llu of %llu; the file is cut, download it again",
                         path, name, (unsigned long long)e->end, (unsigned long long)data_len);
    if (e->end - e->begin != size)
        return error_set(err, ERR_INVALID,
                         "'%s': '%s' has %llu bytes, its shape and type need %llu", path, name,
                         (unsigned long long)(e->end - e->begin), (unsigned long long)size);
    return 0;
}

/* Sorts by offset and proves invariant (3). */
static int check_ranges(struct header_parse *p, uint64_t data_len, struct error *err) {
    uint64_t at = 0;
    if (p->entries.count)
        qsort(p->entries.items, p->entries.count, sizeof *p->entries.items, by_begin);
    for (size_t i = 0; i < p->entries.count; i++) {
        const struct entry *e = &p->entries.items[i];
        int rc = check_entry(e, data_len, p->path, err);
        if (rc)
            return rc;
        if (e->begin != at)
            return error_set(err, ERR_INVALID, "'%s': '%s' begins at byte %llu, expected %llu (%s)",
                             p->path, e->tensor.name, (unsigned long long)e->begin,
                             (unsigned long long)at, e->begin < at ? "overlap" : "hole");
        at = e->end;
    }
    if (at != data_len)
        return error_set(err, ERR_INVALID, "'%s': %llu bytes behind the last tensor", p->path,
                         (unsigned long long)(data_len - at));
    return 0;
}

static void add_tensors(struct safetensors *set, struct header_parse *p, const uint8_t *data,
                        uint32_t file_idx) {
    size_t count = set->tensor_count + p->entries.count;
    set->tensors = mem_realloc(set->tensors, MAX(count, 1) * sizeof *set->tensors);
    for (size_t i = 0; i < p->entries.count; i++) {
        struct tensor t = p->entries.items[i].tensor;
        t.data = data + p->entries.items[i].begin;
        t.byte_len = p->entries.items[i].end - p->entries.items[i].begin;
        t.file_idx = file_idx;
        set->tensors[set->tensor_count++] = t;
        p->entries.items[i].tensor.name = NULL;
    }
}

/* Appends one file's tensors to the set. */
static int add_file(struct safetensors *set, struct bytes file, const char *path,
                    struct bytes *header, struct error *err) {
    if (file.len < 8)
        return error_set(err, ERR_INVALID, "'%s' is too short for a safetensors file", path);
    uint64_t header_len;
    memcpy(&header_len, file.data, 8);
    if (header_len > SAFETENSORS_HEADER_MAX)
        return error_set(err, ERR_INVALID, "'%s': header of %llu bytes is past the limit", path,
                         (unsigned long long)header_len);
    if (header_len > file.len - 8)
        return error_set(err, ERR_INVALID, "'%s': header is longer than the file", path);
    *header = bytes_of(file.data + 8, (size_t)header_len);
    struct header_parse p = {.path = path};
    json_reader_init(&p.json, *header, 3, 0);
    int rc = 0;
    if (header->len == 0 || header->data[0] != '{') {
        rc = error_set(err, ERR_INVALID, "'%s': header is no JSON object", path);
    } else if (!parse_header(&p)) {
        rc = error_set(err, ERR_INVALID, "'%s': %s", path,
                       p.json.error.code ? p.json.error.text : "header is malformed");
    } else {
        rc = check_ranges(&p, file.len - 8 - header_len, err);
    }
    if (!rc && set->tensor_count + p.entries.count > SAFETENSORS_TENSORS_MAX)
        rc = error_set(err, ERR_LIMIT, "'%s': too many tensors", path);
    if (!rc)
        add_tensors(set, &p, file.data + 8 + header_len, (uint32_t)(set->file_count - 1));
    for (size_t i = 0; i < p.entries.count; i++)
        mem_free((char *)p.entries.items[i].tensor.name);
    vec_release(&p.entries);
    json_reader_release(&p.json);
    return rc;
}

/* ---- the set ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

void tensors_sort(struct safetensors *set) {
    if (set->tensor_count)
        qsort(set->tensors, set->tensor_count, sizeof *set->tensors, by_name);
}

static int sort_names(struct safetensors *set, struct error *err) {
    tensors_sort(set);
    for (size_t i = 1; i < set->tensor_count; i++)
        if (!strcmp(set->tensors[i - 1].name, set->tensors[i].name))
            return error_set(err, ERR_INVALID, "'%s': tensor '%s' appears twice",
                             set->files[set->tensors[i].file_idx].path, set->tensors[i].name);
    return 0;
}

static struct safetensors_file *new_file(struct safetensors *set, const char *path) {
    set->files = mem_realloc(set->files, (set->file_count + 1) * sizeof *set->files);
    struct safetensors_file *f = &set->files[set->file_count++];
    *f = (struct safetensors_file){.path = mem_strdup(path)};
    return f;
}

static int map_file(struct safetensors *set, const char *path, struct error *err) {
    struct safetensors_file *f = new_file(set, path);
    int rc = file_map_open(&f->map, path, err);
    if (rc)
        return rc;
    return add_file(set, bytes_of(f->map.data, f->map.len), path, &f->header, err);
}

int safetensors_open_bytes(struct safetensors *set, struct bytes file, const char *path,
                           struct error *err) {
    *set = (struct safetensors){0};
    struct safetensors_file *f = new_file(set, path);
    int rc = add_file(set, file, path, &f->header, err);
    if (!rc)
        rc = sort_names(set, err);
    if (rc)
        safetensors_close(set);
    return rc;
}

void safetensors_forget(const struct safetensors *set) {
    for (size_t i = 0; i < set->file_count; i++)
        file_map_forget(&set->files[i].map);
}

void safetensors_close(struct safetensors *set) {
    for (size_t i = 0; i < set->tensor_count; i++)
        mem_free((char *)set->tensors[i].name);
    for (size_t i = 0; i < set->file_count; i++) {
        if (set->files[i].map.data)
            file_map_close(&set->files[i].map);
        mem_free(set->files[i].path);
    }
    mem_free(set->tensors);
    mem_free(set->files);
    *set = (struct safetensors){0};
}

const struct tensor *safetensors_find(const struct safetensors *set, const char *name) {
    struct tensor key = {.name = name};
    if (set->tensor_count == 0)
        return NULL;
    return bsearch(&key, set->tensors, set->tensor_count, sizeof *set->tensors, by_name);
}

/* ---- several files with an index ---- */

struct index_row {
    char *name, *file; /* owned */
};
struct index {
    VEC(struct index_row) rows;
};

static bool file_name_ok(struct bytes name) {
    static const char suffix[] = ".safetensors";
    size_t n = sizeof suffix - 1;
    return name.len > n && name.len < 256 && name.data[0] != '.' &&
           !memchr(name.data, '/', name.len) && memcmp(name.data + name.len - n, suffix, n) == 0;
}

static bool parse_weight_map(struct json_reader *r, struct index *index) {
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return false;
    enum json_event ev;
    while ((ev = json_next(r)) == JSON_KEY) {
        if (index->rows.count == SAFETENSORS_TENSORS_MAX)
            return json_fail(r, "too many tensors");
        vec_push(&index->rows, (struct index_row){0});
        struct index_row *row = &index->rows.items[index->rows.count - 1];
        row->name = mem_strndup((const char *)r->text.data, r->text.len);
        struct bytes file;
        if (!json_read_string(r, &file))
            return false;
        if (!file_name_ok(file))
            return json_fail(r, "bad file name for '%s'", row->name);
        row->file = mem_strndup((const char *)file.data, file.len);
    }
    return ev == JSON_OBJECT_END;
}

static bool parse_index(struct json_reader *r, struct index *index) {
    if (!json_expect(r, JSON_OBJECT_BEGIN))
        return false;
    bool seen = false;
    enum json_event ev;
    while ((ev = json_next(r)) == JSON_KEY) {
        bool map = bytes_equal(r->text, bytes_str("weight_map"));
        if (map && seen)
            return json_fail(r, "repeated weight_map");
        seen |= map;
        if (!(map ? parse_weight_map(r, index) : json_skip(r)))
            return false;
    }
    if (ev != JSON_OBJECT_END || json_next(r) != JSON_END)
        return false;
    return seen || json_fail(r, "no weight_map");
}

static int by_file(const void *a, const void *b) {
    return strcmp(((const struct index_row *)a)->file, ((const struct index_row *)b)->file);
}

/* Files in the order of their names, each once. */
static int map_files(struct safetensors *set, const struct index *index, const char *dir,
                     struct error *err) {
    for (size_t i = 0; i < index->rows.count; i++) {
        if (i && !strcmp(index->rows.items[i].file, index->rows.items[i - 1].file))
            continue;
        if (set->file_count == SAFETENSORS_FILES_MAX)
            return error_set(err, ERR_LIMIT, "'%s': more than %d files", dir,
                             SAFETENSORS_FILES_MAX);
        char *path = path_join(dir, index->rows.items[i].file);
        int rc = map_file(set, path, err);
        mem_free(path);
        if (rc)
            return rc;
    }
    return sort_names(set, err);
}

/* Invariant (4). */
static int check_index(const struct safetensors *set, const struct index *index, const char *dir,
                       struct error *err) {
    for (size_t i = 0; i < index->rows.count; i++) {
        const struct index_row *row = &index->rows.items[i];
        const struct tensor *t = safetensors_find(set, row->name);
        const char *path = t ? set->files[t->file_idx].path : NULL;
        const char *base = path ? strrchr(path, '/') : NULL;
        if (!t || strcmp(base ? base + 1 : path, row->file))
            return error_set(err, ERR_INVALID,
                             "'%s': the index puts '%s' into '%s', which does not have it", dir,
                             row->name, row->file);
    }
    return 0;
}

static int open_index(struct safetensors *set, const char *dir, const char *path,
                      struct error *err) {
    struct buf text;
    struct index index = {0};
    struct json_reader r;
    buf_init(&text, SAFETENSORS_HEADER_MAX);
    int rc = file_read(path, SAFETENSORS_HEADER_MAX, &text, err);
    json_reader_init(&r, buf_bytes(&text), 8, 0);
    if (!rc && !parse_index(&r, &index))
        rc = error_set(err, ERR_INVALID, "'%s': %s", path,
                       r.error.code ? r.error.text : "malformed");
    if (!rc && index.rows.count)
        qsort(index.rows.items, index.rows.count, sizeof *index.rows.items, by_file);
    if (!rc)
        rc = map_files(set, &index, dir, err);
    if (!rc)
        rc = check_index(set, &index, dir, err);
    for (size_t i = 0; i < index.rows.count; i++) {
        mem_free(index.rows.items[i].name);
        mem_free(index.rows.items[i].file);
    }
    vec_release(&index.rows);
    json_reader_release(&r);
    buf_release(&text);
    return rc;
}

/* How sure a file's name makes us: the last of a training run, a step of it, anything else; -1: no
 * weights. */
static long long rank_of(const char *name) {
    static const char suffix[] = ".safetensors";
    size_t len = strlen(name), tail = sizeof suffix - 1;
    if (len <= tail || strcmp(name + len - tail, suffix))
        return -1;
    const char *step = strstr(name, "_step_");
    if (len > tail + 6 && !strncmp(name + len - tail - 6, "_final", 6))
        return INT64_MAX;
    return step ? (long long)strtoul(step + 6, NULL, 10) % INT32_MAX + 1 : 0;
}

/* The file of a folder without the usual names (see the header); NULL: there is none, or they are
 * alike. */
static char *only_file(const char *dir) {
    DIR *d = opendir(dir);
    const struct dirent *e;
    char *best = NULL;
    long long best_rank = -1;
    bool alike = false;
    while (d && (e = readdir(d))) {
        long long rank = rank_of(e->d_name);
        if (rank < 0 || rank < best_rank)
            continue;
        alike = rank == best_rank;
        best_rank = rank;
        mem_free(best);
        best = path_join(dir, e->d_name);
    }
    if (d)
        closedir(d);
    if (!alike)
        return best;
    mem_free(best);
    return NULL;
}

static int open_dir(struct safetensors *set, const char *dir, struct error *err) {
    char *single = path_join(dir, "model.safetensors"),
         *index = path_join(dir, "model.safetensors.index.json"), *other = NULL;
    int rc;
    if (file_exists(index)) {
        rc = open_index(set, dir, index, err);
    } else if (file_exists(single)) {
        rc = map_file(set, single, err);
        if (!rc)
            rc = sort_names(set, err);
    } else if ((other = only_file(dir))) {
        rc = map_file(set, other, err);
        if (!rc)
            rc = sort_names(set, err);
    } else {
        rc = error_set(err, ERR_NOT_FOUND,
                       "'%s' has neither model.safetensors nor model.safetensors.index.json", dir);
    }
    mem_free(other);
    mem_free(single);
    mem_free(index);
    return rc;
}

int safetensors_open(struct safetensors *set, const char *path, struct error *err) {
    *set = (struct safetensors){0};
    int rc;
    if (dir_exists(path)) {
        rc = open_dir(set, path, err);
    } else {
        rc = map_file(set, path, err);
        if (!rc)
            rc = sort_names(set, err);
    }
    if (rc)
        safetensors_close(set);
    return rc;
}
