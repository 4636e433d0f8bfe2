/*
 * value_data.h - how lists and dicts are laid out; for value.c and the template engine only.
 *
 * A dict is an array of entries in order of insertion; past TDICT_LINEAR entries an index of open
 * addressing is added. Removed entries do not exist: templates cannot remove.
 */
#ifndef TEXT_TEMPLATE_VALUE_DATA_H
#define TEXT_TEMPLATE_VALUE_DATA_H

#include "text/template/value.h"

enum { TDICT_LINEAR = 8, TVALUE_ITEMS_MAX = 1 << 26 };

enum { TVALUE_TUPLE = TVALUE_INTERNAL }; /* a list that may be a key */

struct tlist {
    struct tvalue *items;
    uint32_t count, cap;
};

struct tdict_entry {
    struct tvalue key, value;
    uint64_t hash;
};

struct tdict {
    struct tdict_entry *entries;
    uint32_t *index; /* NULL while small; UINT32_MAX: empty */
    uint32_t count, cap, index_mask;
};

/* An integer that 64 bits do not hold, from its digits; undefined when the arena is out. */
struct tvalue tvalue_big_int(struct arena *a, struct bytes digits);
/* Appends; false when the arena is out. */
MUST_CHECK bool tlist_push(struct arena *a, struct tlist *list, struct tvalue item);
/* Keys are equal as Python has it: 1 == 1.0 == true. Only none, booleans, numbers and strings may
 * be keys (false for others). */
MUST_CHECK bool tdict_set(struct arena *a, struct tdict *dict, struct tvalue key,
                          struct tvalue value);
/* NULL when absent. */
struct tvalue *tdict_find(const struct tdict *dict, struct tvalue key);
/* Equal for keys that are equal. */
uint64_t tdict_hash(struct tvalue key);
/* tdict_find with the hash of key. */
struct tvalue *tdict_find_hashed(const struct tdict *dict, struct tvalue key, uint64_t hash);
/* None, booleans, numbers and strings, and tuples of such, may be keys. */
bool tvalue_is_key(struct tvalue v);

/* a and b have len bytes each. Most strings a template compares are names of a few bytes: no call
 * for those. */
static inline bool same_text(const char *a, const char *b, uint32_t len) {
    uint64_t x, y;
    uint32_t p, q;
    if (len > 16)
        return !memcmp(a, b, len);
    if (len >= 8) {
        memcpy(&x, a, 8), memcpy(&y, b, 8);
        if (x != y)
            return false;
        memcpy(&x, a + len - 8, 8), memcpy(&y, b + len - 8, 8);
        return x == y;
    }
    if (len >= 4) {
        memcpy(&p, a, 4), memcpy(&q, b, 4);
        if (p != q)
            return false;
        memcpy(&p, a + len - 4, 4), memcpy(&q, b + len - 4, 4);
        return p == q;
    }
    for (uint32_t i = 0; i < len; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

/* tdict_find_hashed for a string, without calls while the dict is small. */
static inline struct tvalue *tdict_find_text(const struct tdict *dict, struct tvalue key,
                                             uint64_t hash) {
    if (dict->index)
        return tdict_find_hashed(dict, key, hash);
    for (uint32_t i = 0; i < dict->count; i++) {
        struct tdict_entry *e = &dict->entries[i];
        if (e->hash == hash && e->key.kind == TVALUE_STRING && e->key.len == key.len &&
            same_text(e->key.text, key.text, key.len))
            return &e->value;
    }
    return NULL;
}

/* As Python's repr(float). */
void tvalue_format_float(double v, struct buf *out);

#endif
