/*
 * value.h - the plain data a template sees: none, booleans, numbers, strings, lists, dicts. JSON
 * in, nothing else.
 *
 * A tvalue is 16 bytes, copied freely. What it points to lives in an arena and is never freed
 * alone. Strings are UTF-8, not terminated. Dicts keep the order of insertion, as Python's do; keys
 * are strings (a template may also make dicts with other keys).
 *
 * Threading: data may be shared by threads once it is built.
 */
#ifndef TEXT_TEMPLATE_VALUE_H
#define TEXT_TEMPLATE_VALUE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum tvalue_kind {
    TVALUE_UNDEFINED = 0,
    TVALUE_NONE,
    TVALUE_BOOL,
    TVALUE_INT,
    TVALUE_FLOAT,
    TVALUE_STRING,
    TVALUE_LIST,
    TVALUE_DICT,
    TVALUE_BIG_INT, /* an integer past 64 bits: text is its digits */
    /* and above: what only a running template makes (tuples, ranges, macros, loop, ...) */
    TVALUE_INTERNAL,
};

struct tlist;
struct tdict;

struct tvalue {
    uint8_t kind;  /* enum tvalue_kind */
    uint8_t flags; /* private */
    uint16_t tag;  /* private */
    uint32_t len;  /* bytes of a string */
    union {
        bool boolean;
        int64_t integer;
        double number;
        const char *text;
        struct tlist *list;
        struct tdict *dict;
        const void *pointer;
    };
};

enum { TVALUE_DEPTH_MAX = 64 };

/* Reads one JSON text into *out; strings are copied into the arena. ERR_LIMIT past the arena's
 * budget or deeper than TVALUE_DEPTH_MAX. */
MUST_CHECK int tvalue_from_json(struct arena *a, struct bytes json, struct tvalue *out,
                                struct error *err);

/* None. */
struct tvalue tvalue_none(void);
/* True or false. */
struct tvalue tvalue_bool(bool v);
/* A whole number. */
struct tvalue tvalue_int(int64_t v);
/* A float, of any value, NaN too. */
struct tvalue tvalue_float(double v);
/* Borrows: the bytes must live as long as the value. */
struct tvalue tvalue_string(struct bytes s);
/* Copies into the arena; an undefined value when the arena is out. */
struct tvalue tvalue_string_copy(struct arena *a, struct bytes s);
/* An empty list; undefined when the arena is out. */
struct tvalue tvalue_list(struct arena *a);
/* The same of a dict, which keeps the order of its keys. */
struct tvalue tvalue_dict(struct arena *a);
/* Appends; false when the arena is out or the target is of another kind. */
MUST_CHECK bool tvalue_list_push(struct arena *a, struct tvalue list, struct tvalue item);
/* Sets, replacing, by a copy of key; false as above. */
MUST_CHECK bool tvalue_dict_set(struct arena *a, struct tvalue dict, struct bytes key,
                                struct tvalue item);
/* Undefined when there is no such key or dict is not a dict. */
struct tvalue tvalue_dict_get(struct tvalue dict, struct bytes key);
/* The same by a C string. */
static inline struct tvalue tvalue_get(struct tvalue dict, const char *key) {
    return tvalue_dict_get(dict, bytes_str(key));
}
size_t tvalue_count(struct tvalue v); /* of a list or dict; else 0 */
/* Undefined past the end, or when list is not a list. */
struct tvalue tvalue_list_at(struct tvalue list, size_t idx);
/* The bytes of a string, borrowed; else empty. */
static inline struct bytes tvalue_text(struct tvalue v) {
    return v.kind == TVALUE_STRING ? bytes_of(v.text, v.len) : bytes_of(NULL, 0);
}
/* Whether v is the string s. */
static inline bool tvalue_is(struct tvalue v, const char *s) {
    return v.kind == TVALUE_STRING && bytes_equal(tvalue_text(v), bytes_str(s));
}
/* Appends as Python's json.dumps(v, ensure_ascii=False) does: ", " and ": ", floats as repr, NaN
 * and Infinity by name. */
void tvalue_to_json(struct tvalue v, struct buf *out);

#endif
