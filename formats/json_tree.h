/*
 * json_tree.h - a small JSON document as a tree, for the files of a model folder.
 *
 * A json_value is 16 bytes, copied freely. What it points to lives in an arena and is never freed
 * alone. Large lists (vocabularies, merges) are read with json_reader instead.
 *
 * Why not cJSON: it cuts strings at "\u0000" (some vocabularies have such tokens), keeps integers
 * as doubles, finds the first of two equal keys, and ignores the case of keys. HF reads these
 * files with Python or serde, which do none of that.
 *
 * Invariants:
 *   (1) an absent value is {0}, and asking it for anything gives nothing: json_get, json_at and
 *       json_text may be chained without checks;
 *   (2) the keys of an object differ; of equal keys in the text the last value counts, at the
 *       first one's place;
 *   (3) strings are valid UTF-8, may hold zero bytes, and are not terminated.
 *
 * Threading: values may be shared by threads once they are built.
 */
#ifndef FORMATS_JSON_TREE_H
#define FORMATS_JSON_TREE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum json_kind {
    JSON_IS_ABSENT = 0,
    JSON_IS_NULL,
    JSON_IS_BOOL,
    JSON_IS_INT,    /* written without fraction or exponent, and fits into 64 bits */
    JSON_IS_DOUBLE, /* any other number */
    JSON_IS_STRING,
    JSON_IS_ARRAY,
    JSON_IS_OBJECT,
};

struct json_member;
struct json_value {
    uint8_t kind;   /* enum json_kind */
    uint32_t count; /* bytes of a string, items of an array, members of an object */
    union {
        bool boolean;
        int64_t integer;
        double number;
        const char *text;
        const struct json_value *items;
        const struct json_member *members; /* in the order of the text */
    };
};

struct json_member {
    struct bytes key;
    struct json_value value;
};

/* Reads one JSON text into *out; strings are copied into the arena. ERR_INVALID: it is no strict
 * JSON, or a number is out of range. ERR_LIMIT: past the arena's budget, or deeper than
 * JSON_DEPTH_DEFAULT. */
MUST_CHECK int json_parse(struct arena *a, struct bytes text, struct json_value *out,
                          struct error *err);

/* The member's value; absent where there is none or v is no object. Takes time linear in the
 * number of members. */
struct json_value json_get_bytes(struct json_value v, struct bytes key);
/* The same by a C string. */
struct json_value json_get(struct json_value v, const char *key);
/* The member's truth where it is a boolean, else fallback. */
bool json_get_bool(struct json_value v, const char *key, bool fallback);
/* The item of an array; absent past its end or where v is no array. */
struct json_value json_at(struct json_value v, size_t idx);
/* Items of an array or members of an object; else 0. */
size_t json_count(struct json_value v);
/* The text of a string; else empty. Borrowed from the arena. */
struct bytes json_text(struct json_value v);
/* Whether v is the string s. */
bool json_is(struct json_value v, const char *s);

#endif
