/*
 * marks.h - free text up to a mark, or without any: for the parts of structures and for values that
 * stand unquoted between marks.
 */
#ifndef GRAMMAR_MARKS_H
#define GRAMMAR_MARKS_H

#include "grammar/build.h"

/* The dfa over code points of texts that end where one of the marks (UTF-8, none empty) comes for
 * the first time, with its number as label; free: of texts in which none of them comes. ERR_LIMIT:
 * the fuel is spent; *out is empty then. */
MUST_CHECK int dfa_of_marks(struct builder *b, const struct bytes *marks, size_t count, bool free,
                            struct dfa *out, struct error *err);

#endif
