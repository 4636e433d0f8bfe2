/*
 * added.h - finds added tokens in a text: leftmost first, of those the longest; then their rules
 * about neighbours.
 *
 * Rules, as HF has them: single_word (no word character may touch it), lstrip and rstrip (takes the
 * white space beside it along).
 *
 * Threading: const once all tokens are added.
 */
#ifndef TEXT_TOKENIZER_ADDED_H
#define TEXT_TOKENIZER_ADDED_H

#include "base/error.h"
#include "base/vec.h"

enum { ADDED_BYTES_MAX = 1024, ADDED_TOKENS_MAX = 1 << 20 };

struct added_token {
    uint32_t id;
    bool special, normalized, lstrip, rstrip, single_word;
};

struct added_node {
    uint32_t child, sibling; /* indexes of nodes; 0: none */
    uint32_t token;          /* index + 1 of the token that ends here; 0: none */
    uint8_t byte;
};

struct added_set {
    VEC(struct added_token) tokens;
    VEC(struct added_node) nodes; /* [0] unused */
    uint32_t roots[256];          /* node of each first byte */
    int first_byte;               /* the only first byte, -1: several, -2: no tokens */
};

struct added_match {
    size_t begin, end; /* with the white space that its rules take along */
    size_t content;    /* where its spelling begins */
    const struct added_token *token;
};

/* An empty set. */
void added_init(struct added_set *set);
/* Gives back all memory. */
void added_release(struct added_set *set);
/* Adds a token that matches `content` (empty ones match nothing). A content given again replaces
 * the token. */
MUST_CHECK int added_add(struct added_set *set, struct bytes content, struct added_token token,
                         struct error *err);
/* The token of the longest content that text begins with, that content's bytes in *len; NULL:
 * none. */
const struct added_token *added_longest(const struct added_set *set, struct bytes text,
                                        size_t *len);
/* Bytes of the longest content that text begins with; 0: none. */
size_t added_prefix(const struct added_set *set, struct bytes text);
/* Where special tokens match nothing, though the text they cover is passed over, as in HF. */
struct added_skips {
    bool all;            /* everywhere */
    const size_t *spots; /* at these offsets in text, rising */
    size_t spot_count;
};
/* True when a spot lies in [begin, end). */
bool added_has_spot(const struct added_skips *skips, size_t begin, size_t end);
/* The next match that begins at or after from; strips reach back at most to from. False: none up to
 * the end of text. */
bool added_next(const struct added_set *set, struct bytes text, size_t from,
                const struct added_skips *skips, struct added_match *out);

#endif
