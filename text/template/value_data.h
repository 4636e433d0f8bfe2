/*
 * value_data.h - how lists and dicts are laid out; for value.c and the template engine only.
 *
 * A dict is an array of entries in order of insertion; past TDICT_LINEAR entries an index of open addressing is added.
 * Removed entries do not exist: templates cannot remove.
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

MUST_CHECK bool tlist_push(struct arena *a, struct tlist *list, struct tvalue item);
/* Keys are equal as Python has it: 1 == 1.0 == true. Only none, booleans, numbers and strings may be keys (false for
 * others). */
MUST_CHECK bool tdict_set(struct arena *a, struct tdict *dict, struct tvalue key, struct tvalue value);
/* NULL when absent. */
struct tvalue *tdict_find(const struct tdict *dict, struct tvalue key);
/* The same with the key's hash known. */
uint64_t tdict_hash(struct tvalue key);
struct tvalue *tdict_find_hashed(const struct tdict *dict, struct tvalue key, uint64_t hash);
bool tvalue_is_key(struct tvalue v);

/* As Python's repr(float). */
void tvalue_format_float(double v, struct buf *out);

#endif
