/*
 * build.h - a grammar while it is being put together: rules of expressions, and the objects of JSON
 * schemas. Front ends (regex.c, schema.c, gbnf.c) fill a builder; program_compile (program.h) makes
 * of it what the matcher runs.
 *
 * Expressions are numbers into the builder's pools and are never changed, so one may be used in
 * several places. Text is bytes of what the model writes; EXPR_DFA reads code points, spelled
 * either as plain UTF-8 or as the inside of a JSON string.
 *
 * Errors are sticky: once `failed`, calls return EXPR_NEVER's number and do nothing; the caller
 * looks once at the end (builder.error).
 *
 * Threading: a builder belongs to one thread.
 */
#ifndef GRAMMAR_BUILD_H
#define GRAMMAR_BUILD_H

#include "base/buf.h"
#include "grammar/fa.h"

enum { REPEAT_NO_END = 0xffffffff };

enum expr_kind {
    EXPR_NEVER,   /* matches nothing at all */
    EXPR_EMPTY,   /* the empty text */
    EXPR_BYTES,   /* text[a, a + b) */
    EXPR_CHARS,   /* one code point out of ranges[a, a + b), as UTF-8 */
    EXPR_CONCAT,  /* kids[a, a + b), one after the other */
    EXPR_ALT,     /* one of kids[a, a + b) */
    EXPR_REPEAT,  /* a, b to c times (c REPEAT_NO_END: any number) */
    EXPR_RULE,    /* rule a */
    EXPR_DFA,     /* dfas[a] over code points, as plain UTF-8 */
    EXPR_QUOTED,  /* dfas[a] over code points, as the inside of a JSON string */
    EXPR_COUNTED, /* the same of at most b code points, which are counted as they come */
    EXPR_STRING,  /* a JSON string of a to b characters, quotes included (b REPEAT_NO_END: any) */
    EXPR_OBJECT,  /* objects[a], braces included */
    EXPR_UNIQUE,  /* a, of which all EXPR_ITEM differ as JSON; b: 1 where these cannot run out */
    EXPR_ITEM,    /* a, as an item of the innermost EXPR_UNIQUE */
};

struct expr {
    uint8_t kind; /* enum expr_kind */
    uint32_t a, b, c;
};

struct code_range {
    uint32_t lo, hi; /* code points, both included */
};
typedef VEC(struct code_range) code_range_vec;
/* All code points that are in none of the ranges, in order. */
void code_ranges_complement(code_range_vec *v);

/* A value that may stand behind a label, by a rule of its own, with which members are there that an
 * object needs (a bit of object_rules.some each). */
struct object_some {
    uint32_t label, rule, set;
};

/* How a JSON object may be filled. Labels below property_count are properties, each allowed once;
 * the others may come any number of times. */
struct object_rules {
    uint32_t property_count;
    VEC(uint32_t) values; /* by label: the rule of its value */
    struct dfa keys;      /* over a key's code points; accepts with the label */
    uint64_t *required;   /* [words of property_count], or NULL */
    uint64_t **needs;     /* [property_count] of such words or NULL: present when it is; or NULL */
    uint32_t count_min;   /* members */
    uint32_t count_max;   /* REPEAT_NO_END: any number */
    bool ordered;         /* properties come in the order of their labels, others last */
    uint32_t some;        /* one member or more of each of these kinds must come; no count_max */
    VEC(struct object_some) somes;
};

struct grammar_limits {
    uint32_t states; /* of all automata made on the way, and of the program */
    uint32_t exprs;  /* expressions and rules */
    uint32_t bytes;  /* of the source */
    uint32_t depth;  /* of brackets, objects, groups */
};
/* 200 000 states, 200 000 expressions, 1 MB, 64 deep. */
struct grammar_limits grammar_limits_default(void);

/* The number of an expression that matches nothing, as a rule does that is not set yet. */
enum { EXPR_NOT_SET = 2 };

struct builder {
    VEC(struct expr) exprs;
    VEC(uint32_t) kids;
    VEC(struct code_range) ranges;
    VEC(struct dfa) dfas;
    VEC(uint32_t) rules; /* [rule]: its expression; EXPR_NOT_SET until then */
    VEC(struct object_rules) objects;
    struct buf text;
    struct fa_fuel fuel;
    struct grammar_limits limits;
    bool loose_space;    /* JSON may hold white space between tokens */
    bool plain;          /* grammar.h */
    bool may_refuse_all; /* grammar.h */
    uint32_t space;      /* the expression of that white space; made when first asked for */
    uint32_t any_json;   /* the rule of any JSON value; FA_NONE until asked for */
    uint32_t any_string; /* the expression of a string in it; 0: any */
    bool failed;
    struct error error;
};

/* No expressions but EXPR_NEVER, EXPR_EMPTY and EXPR_NOT_SET; limits are copied. */
void builder_init(struct builder *b, const struct grammar_limits *limits);
/* Frees all expressions, rules and automata; b may be zeroes. */
void builder_release(struct builder *b);
/* Keeps the first error. Returns EXPR_NEVER's number. */
uint32_t builder_fail(struct builder *b, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Expressions; each returns its number. */
uint32_t expr_never(struct builder *b);
/* The empty text. */
uint32_t expr_empty(struct builder *b);
uint32_t expr_bytes(struct builder *b, struct bytes text);                             /* copies */
uint32_t expr_text(struct builder *b, const char *text);                               /* copies */
uint32_t expr_chars(struct builder *b, const struct code_range *ranges, size_t count); /* copies */
/* The terms one behind the other (terms[count] is copied); none: the empty text. */
uint32_t expr_concat(struct builder *b, const uint32_t *terms, size_t count);
/* Any one of the terms (copied); none: nothing. */
uint32_t expr_alt(struct builder *b, const uint32_t *terms, size_t count);
/* min to max times the term; max REPEAT_NO_END: any number. */
uint32_t expr_repeat(struct builder *b, uint32_t term, uint32_t min, uint32_t max);
/* What the rule accepts, which builder_set_rule may say later. */
uint32_t expr_rule(struct builder *b, uint32_t rule);
uint32_t expr_dfa(struct builder *b, struct dfa *dfa, enum expr_kind kind); /* takes *dfa */
/* What the dfa accepts of at most `max` code points, as the inside of a JSON string; max costs no
 * states. Takes *dfa. */
uint32_t expr_counted(struct builder *b, struct dfa *dfa, uint32_t max);
/* A JSON string with its quotes, of min to max characters as JSON Schema counts them. */
uint32_t expr_string(struct builder *b, uint32_t min, uint32_t max);
uint32_t expr_object(struct builder *b, struct object_rules *rules); /* takes what *rules owns */
/* The term, in which all items that expr_item made (the innermost such term's) are JSON texts that
 * differ in value. endless: of these there is always one more. */
uint32_t expr_unique(struct builder *b, uint32_t term, bool endless);
uint32_t expr_item(struct builder *b, uint32_t term);
/* Whether a term has more texts than anybody writes. A rule without an expression is taken to. */
bool expr_is_endless(const struct builder *b, uint32_t term);
/* White space of JSON where it may stand: any run of it with loose_space (with `plain` one at
 * most), else nothing. */
uint32_t expr_space(struct builder *b);
/* Any JSON value (RFC 8259). */
uint32_t expr_any_json(struct builder *b);
/* Any JSON object. */
uint32_t expr_any_object(struct builder *b);
/* Any JSON number; with `whole` only integers: 1.0 and 1e2 are some, and 1.5e1 is left out. */
uint32_t expr_number(struct builder *b, bool whole);

/* A new rule without an expression. */
uint32_t builder_rule(struct builder *b);
/* Gives the rule its expression, once. */
void builder_set_rule(struct builder *b, uint32_t rule, uint32_t expr);

/* The dfa over code points of an expression of EMPTY, NEVER, BYTES (UTF-8), CHARS, CONCAT, ALT,
 * REPEAT and DFA; anything else fails. found: of all texts that begin with one of its texts. */
MUST_CHECK int expr_to_dfa(struct builder *b, uint32_t expr, bool found, struct dfa *out,
                           struct error *err);
/* The dfa over code points of some texts (UTF-8): accepts texts[i] with label i, of equal ones the
 * first; unless `told_apart` all of them with label 0, which makes it smaller. */
MUST_CHECK int dfa_of_texts(struct builder *b, const struct bytes *texts, size_t count,
                            bool told_apart, struct dfa *out, struct error *err);
/* Whether d, over code points, accepts a text. */
bool dfa_accepts(const struct dfa *d, struct bytes text);
/* The dfa over code points that accepts texts of min to max characters. */
MUST_CHECK int dfa_of_length(struct builder *b, uint32_t min, uint32_t max, struct dfa *out,
                             struct error *err);

/* Adds to n the spellings of the code points lo to hi between two states. */
void nfa_add_utf8(struct nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to);
/* As they stand inside a JSON string: ", \ and control characters escaped, others as they are; all
 * but printable ASCII also as \uXXXX, / also as \/. */
void nfa_add_quoted(struct nfa *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to);

#endif
