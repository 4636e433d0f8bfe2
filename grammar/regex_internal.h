/*
 * regex_internal.h - the reader of patterns, and what the regex*.c files share.
 */
#ifndef GRAMMAR_REGEX_INTERNAL_H
#define GRAMMAR_REGEX_INTERNAL_H

#include "grammar/regex.h"

enum { BEGIN = 0x110000, END = 0x110001, CODE_MAX = 0x10ffff, REPEAT_MAX = 100000 };

struct reader {
    struct builder *b;
    const uint8_t *start, *at, *end;
    uint32_t depth;
    bool fold;    /* letters stand for both cases */
    bool dot_all; /* '.' is also a line end */
    /* What stands in front of and behind a sequence outside of groups; lookarounds see as far as it. */
    uint32_t head, tail;
    bool sees_before, sees_after; /* head (tail) is all that stands there */
    bool pinned;                  /* in front of a sequence stands the text's beginning alone */
    uint32_t lookarounds;         /* that are open */
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

#endif
