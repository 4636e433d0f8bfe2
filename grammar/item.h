/*
 * item.h - items of an array whose items must differ, as the texts they are written as: which are
 * equal, and which may still become equal to one that was there.
 *
 * Equal as JSON Schema has it: numbers by value, strings by their characters however they are
 * escaped, objects without order (of a name that comes twice, which no schema knows, both count).
 *
 * Threading: values; no shared state.
 */
#ifndef GRAMMAR_ITEM_H
#define GRAMMAR_ITEM_H

#include "base/vec.h"

enum { ITEM_DEPTH_MAX = 1000 }; /* of arrays and objects in an item */

/* The hash of what a JSON text is worth: equal values have one, other values have another (but for
 * chances of 2^-128; the seed is a secret). False: it is no JSON, or nested too deeply. */
MUST_CHECK bool item_hash(struct bytes text, uint64_t seed, struct u128 *out);

/* Which bytes may come: a bit each. */
struct byte_set {
    uint64_t bits[4];
};
static inline void byte_set_add(struct byte_set *s, uint8_t byte) {
    s->bits[byte / 64] |= UINT64_C(1) << byte % 64;
}
static inline bool byte_set_has(const struct byte_set *s, uint8_t byte) {
    return s->bits[byte / 64] >> byte % 64 & 1;
}

/* Commas and white space in front of an item are not of it. */
struct bytes item_without_lead(struct bytes text);
/* A string (between its quotes) or a number of a text. */
struct item_scalar {
    size_t at, len; /* in the text */
    bool string;
    bool whole; /* it has ended */
};
typedef VEC(struct item_scalar) item_scalar_vec;
/* Appends the scalars of a text, names of members too. */
void item_split(struct bytes text, item_scalar_vec *out);
/* A text with its scalars. It has no lead. */
struct item_text {
    struct bytes text;
    const struct item_scalar *scalars;
    size_t scalar_count;
};
/* Whether a text that has begun may become equal to an item, as far as a glance tells: false is
 * certain, true is not. Adds to *next the bytes behind which it still may (NULL: nobody asks). */
bool item_may_become(const struct item_text *begun, const struct item_text *item,
                     struct byte_set *next);

/* Where in a JSON text: brackets that are open, and whether a string is. */
struct item_place {
    int64_t depth;
    bool in_string, escaped;
};
/* The place behind an item that has begun. */
struct item_place item_place_of(struct bytes begun);
/* Where a token that comes there has the comma that ends the item; token.len: it has none. */
size_t item_token_comma(struct item_place place, struct bytes token);

#endif
