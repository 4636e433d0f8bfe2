/*
 * golden.h - reads goldens: files of the source tree or of the shared data, as values.
 */
#ifndef TESTS_UNIT_TEXT_GOLDEN_H
#define TESTS_UNIT_TEXT_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>

#include "base/fsutil.h"
#include "formats/json_tree.h"
#include "text/template/value.h"

/* The file's bytes; ends the program when it cannot be read. Release with buf_release. */
static inline struct buf golden_read(const char *path) {
    struct buf out = {0};
    struct error err;
    if (file_read(path, (size_t)1 << 30, &out, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(99);
    }
    return out;
}

static inline struct buf golden_read_source(const char *relative) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", TRIREME_SOURCE_DIR, relative);
    return golden_read(path);
}

/* Parses JSON into the arena; ends the program when it is none. */
static inline struct tvalue golden_parse(struct arena *a, struct bytes json) {
    struct tvalue v;
    struct error err;
    if (tvalue_from_json(a, json, &v, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(99);
    }
    return v;
}

/* The same for what tokenizers load. */
static inline struct json_value golden_json(struct arena *a, struct bytes json) {
    struct json_value v;
    CHECK(!json_parse(a, json, &v, NULL));
    return v;
}

static inline struct tvalue golden_member(struct tvalue v, const char *name) {
    return tvalue_dict_get(v, bytes_str(name));
}
static inline bool golden_equal(struct bytes a, const struct buf *b) {
    return bytes_equal(a, bytes_of(buf_text(b), b->len));
}
/* The list of integers `want` is these. */
static inline bool golden_is_list(struct tvalue want, const uint32_t *got, size_t count) {
    bool same = tvalue_count(want) == count;
    for (size_t i = 0; i < count && same; i++)
        same = got[i] == (uint32_t)tvalue_list_at(want, i).integer;
    return same;
}

#endif
