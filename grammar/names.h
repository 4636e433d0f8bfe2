/*
 * names.h - the rules of a grammar by name, while it is read: a name may be used before it is
 * defined. Also what readers of grammars have in common: what a name is made of, and how they say
 * where a mistake is.
 */
#ifndef GRAMMAR_NAMES_H
#define GRAMMAR_NAMES_H

#include "grammar/build.h"

struct name {
    struct bytes text; /* borrowed from the grammar */
    uint32_t rule;
    bool defined;
};
struct names {
    VEC(struct name) items;
    uint32_t *slots; /* [slot_count] of name + 1 */
    size_t slot_count;
};

/* A letter or digit of ASCII, '-' or '_'. */
static inline bool is_name_byte(uint8_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}
/* Sets the error to `what` in the line of `at`, of a grammar that begins at `start`. Returns code. */
int names_error(struct error *err, int code, const char *what, const uint8_t *start,
                const uint8_t *at);

/* The name with this text, which gets a new rule when it is not there. Valid until the next call. */
struct name *names_get(struct names *n, struct builder *b, struct bytes text);
/* The rule of a name; ERR_INVALID: there is none, or a name that was used has no definition. */
MUST_CHECK int names_root(const struct names *n, const char *root, uint32_t *rule,
                          struct error *err);
/* Frees the table; it is empty then. The texts are the grammar's. */
void names_release(struct names *n);

#endif
