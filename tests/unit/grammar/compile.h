/* compile.h - constraints as the tests of grammar/ compile them, and what they accept. */
#ifndef TEST_GRAMMAR_COMPILE_H
#define TEST_GRAMMAR_COMPILE_H

#include "base/buf.h"
#include "check.h"
#include "grammar/grammar.h"

static inline int compile(enum grammar_kind kind, const char *text, struct program *p,
                          struct error *err) {
    struct grammar_source source = {.kind = kind, .text = bytes_str(text)};
    return grammar_compile(&source, NULL, p, err);
}

static inline bool accepts(const struct program *p, struct bytes text) {
    struct grammar_run *run = grammar_run_new(p, NULL);
    struct matcher *m = matcher_new(run);
    bool fits = matcher_bytes(m, text) && matcher_may_end(m);
    matcher_free(&m);
    grammar_run_free(&run);
    return fits;
}

/* The same of a text that is released. */
static inline int compile_text(enum grammar_kind kind, struct buf *text, struct program *p,
                               struct error *err) {
    int rc = compile(kind, buf_text(text), p, err);
    buf_release(text);
    return rc;
}

/* Each of up to `max` good texts is accepted and no bad one; NULL ends a list. `what` was compiled. */
static inline void check_texts(const char *file, int line, const struct program *p,
                               const char *what, const char *const *good, const char *const *bad,
                               size_t max) {
    for (size_t i = 0; i < max && good[i]; i++)
        if (!accepts(p, bytes_str(good[i])))
            check_fail(file, line, "%s refuses %s", what, good[i]);
    for (size_t i = 0; i < max && bad[i]; i++)
        if (accepts(p, bytes_str(bad[i])))
            check_fail(file, line, "%s accepts %s", what, bad[i]);
}
/* The same of a row with .schema, and .good and .bad of one length. */
#define CHECK_TEXTS(program, row)                                                                  \
    check_texts(__FILE__, __LINE__, program, (row).schema, (row).good, (row).bad,                  \
                ARRAY_LEN((row).good))

#endif
