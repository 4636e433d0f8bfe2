/*
 * regex_internal.h - the reader of patterns, and what the regex*.c files share.
 */
#ifndef GRAMMAR_REGEX_INTERNAL_H
#define GRAMMAR_REGEX_INTERNAL_H

#include "grammar/regex.h"

enum { CODE_MAX = 0x10ffff, REPEAT_MAX = 100000 };

/*
 * Marks: what a pattern says of a place in a text, as symbols of their own. A pattern is read as the
 * marked texts that it matches; a text is one of the pattern's where some marks of it hold.
 */
enum {
    MARK_BEGIN = 0x110000, /* nothing stands in front */
    MARK_END,              /* nothing stands behind */
    MARK_BOUNDARY,         /* a character of a word on one side alone */
    MARK_WITHIN,           /* on both, or on neither */
    MARK_PLACE,            /* where a lookaround stands, in the texts that it is found in */
    MARK_LOOK,             /* + the number of a lookaround, which holds here */
    MARK_MAX = MARK_LOOK + 0xffff,
};

struct look {
    uint32_t expr;  /* what comes, or came, with marks */
    uint32_t scope; /* the lookaround that it stands in; FA_NONE: in none */
    bool behind, negative;
};

struct reader {
    struct builder *b;
    const uint8_t *start, *at, *end;
    uint32_t depth;
    bool fold;    /* letters stand for both cases */
    bool dot_all; /* '.' is also a line end */
    VEC(struct look) looks;
    uint32_t scope;   /* the lookaround that is being read; FA_NONE: none */
    uint32_t longest; /* no text is longer; REPEAT_NO_END: not known */
    struct error *err;
    int rc;
};

/* Keeps the first error, with the byte where it is. Returns EXPR_NEVER's number. */
uint32_t regex_fail(struct reader *r, int code, const char *what);
/* Takes this text if it comes. */
bool regex_skip(struct reader *r, const char *text);
/* Takes a code point; where the bytes are none, the error is kept. */
uint32_t regex_code(struct reader *r);

/* Adds the ranges (outside: all but them) to v. */
void regex_add_ranges(code_range_vec *v, const struct code_range *ranges, size_t count,
                      bool outside);
/* \d and its like; false when the letter is none of them. */
bool regex_add_letter(code_range_vec *v, uint8_t letter);
/* The character of an escape, behind its backslash; class letters are not for here. */
uint32_t regex_escaped(struct reader *r);
/* Behind \p: {L}, {Lu}, {Letter}, {gc=Lu}, {ASCII}, ... False when the name is none. */
bool regex_add_property(struct reader *r, code_range_vec *v, bool outside);
/* The expression of [...], behind its bracket. */
uint32_t regex_class(struct reader *r);

/* Where the length of a text tells how often a character is repeated (^AX{m,n}B$ where n is large and all
 * texts of A and of B have one length), the expression without that bound; r->longest tells it. */
uint32_t regex_count_by_length(struct reader *r, uint32_t e);
/* A pattern AX{m,n}B where X is a character, n is large, and no text of A begins with another, as an
 * expression that counts X; *out FA_NONE: it is no such pattern. ERR_LIMIT. */
MUST_CHECK int regex_split_count(struct reader *r, uint32_t e, uint32_t *out);

/* Any text, without marks. */
uint32_t regex_anything(struct builder *b);
/* The dfa over code points (and MARK_PLACE) of the marked texts of an expression whose marks hold;
 * found: of all that begins with one of these. scope: the lookaround that it stands in. */
MUST_CHECK int regex_resolve(struct reader *r, uint32_t expr, bool found, uint32_t scope,
                             struct dfa *out);

#endif
