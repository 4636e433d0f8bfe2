/*
 * lark_internal.h - the reader of a Lark grammar. For the lark*.c files.
 */
#ifndef GRAMMAR_LARK_INTERNAL_H
#define GRAMMAR_LARK_INTERNAL_H

#include "grammar/lark.h"
#include "grammar/names.h"

enum { LARK_PARAMETERS_MAX = 8 };

struct lark_template {
    struct bytes name, body;
    struct bytes parameters[LARK_PARAMETERS_MAX];
    size_t count;
};
struct lark_instance {
    size_t template;
    uint32_t arguments[LARK_PARAMETERS_MAX];
    uint32_t rule;
};
/* What a template's parameters stand for while its body is read. */
struct lark_scope {
    const struct lark_template *of; /* NULL: no template */
    const uint32_t *arguments;
};
struct lark_reader {
    struct builder *b;
    const uint8_t *start, *at, *end;
    struct names names;
    VEC(struct lark_template) templates;
    VEC(struct lark_instance) instances;
    VEC(uint32_t) ignored; /* expressions */
    uint32_t ignore;       /* the rule of all that may stand in front of a terminal */
    struct lark_scope scope;
    uint32_t depth, template_depth;
    bool in_terminal, ordered;
    struct error *err;
    int rc;
};

/* Records the first error, with its place. Returns EXPR_NEVER's number. */
uint32_t lark_fail(struct lark_reader *r, int code, const char *what);

/* ---- the text (lark_leaves.c) ---- */

/* This text comes next; the other passes it then. */
bool lark_begins(const struct lark_reader *r, const char *text);
bool lark_skip_text(struct lark_reader *r, const char *text);
/* Blanks and comments; line ends only with `lines`. */
void lark_skip(struct lark_reader *r, bool lines);
/* Empty: no name comes next. */
struct bytes lark_take_name(struct lark_reader *r);

/* ---- leaves (lark_leaves.c): each returns its expression ---- */

/* "text", "text"i, "a".."z"; behind the first quote. */
uint32_t lark_read_string(struct lark_reader *r);
/* Behind its slash. */
uint32_t lark_read_regex(struct lark_reader *r);
/* <|name|> or <name>: a control token. */
uint32_t lark_read_token(struct lark_reader *r);
/* %json {...}, behind the word. */
uint32_t lark_read_json(struct lark_reader *r);

#endif
