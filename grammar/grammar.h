/*
 * grammar.h - from what a client sends to a program: the one door to this folder's front ends.
 *
 * Nothing here needs a vocabulary; matcher.h runs a program on one.
 */
#ifndef GRAMMAR_GRAMMAR_H
#define GRAMMAR_GRAMMAR_H

#include "grammar/matcher.h"

enum grammar_kind {
    GRAMMAR_JSON_SCHEMA, /* schema.h */
    GRAMMAR_REGEX,       /* regex.h; the whole text matches */
    GRAMMAR_GBNF,        /* gbnf.h */
    GRAMMAR_STRUCTURE,   /* structure.h */
    GRAMMAR_LARK,        /* lark.h */
};

struct grammar_source {
    enum grammar_kind kind;
    struct bytes text;
    bool ordered; /* of schemas: members come in the order of "properties" */
    bool compact; /* of schemas: no white space between tokens of JSON */
    /* of schemas: JSON as it is best generated, so that no model writes white space or zeros for
     * ever: one space at most, in objects behind ':' and ',' alone; integers without fraction or
     * exponent; 19 digits, 17 behind the point and two of an exponent, where bounds allow that */
    bool plain;
    /* of schemas: one that accepts nothing, such as false, is compiled as well; else it is an error,
     * since nothing can be generated */
    bool may_refuse_all;
    /* matcher_can_begin was asked of it elsewhere, and is not asked again: that is nearly half of
     * what compiling costs. A matcher still fails where there are too many threads. */
    bool looked_ahead;
};

/* limits NULL: grammar_limits_default. 0, or an error in the words of the source: ERR_INVALID (not
 * well formed, or no text can satisfy it), ERR_UNSUPPORTED (names what), ERR_LIMIT. *out is
 * released with program_release; it is empty after an error. */
MUST_CHECK int grammar_compile(const struct grammar_source *source,
                               const struct grammar_limits *limits, struct program *out,
                               struct error *err);

#endif
