/*
 * finder.h - where one of some patterns is first found in a text that comes piece by piece.
 *
 * The patterns (regex.h) become one automaton over bytes of UTF-8. Reading a text costs a step for
 * each byte and no memory but one number, so the place is the same however the text was cut, and a
 * reader that begins again with the same text comes to the same state.
 *
 * A pattern is found behind the first bytes of the text in which it matches anything: `$` is the end
 * of what has come so far, `a+` is found behind its first a, lookaheads see no later text.
 *
 * Threading: a finder is never changed; its states belong to the readers.
 */
#ifndef GRAMMAR_FINDER_H
#define GRAMMAR_FINDER_H

#include "base/error.h"

enum {
    FINDER_PATTERNS_MAX = 16,
    FINDER_BYTES_MAX = 1024, /* of a pattern */
    FINDER_BEGIN = 0,        /* the state of an empty text */
};

struct finder;

/* Copies the patterns, at least one. ERR_INVALID (not well formed, or found in the empty text),
 * ERR_UNSUPPORTED (names what), ERR_LIMIT (too many, too long, or their automaton too large);
 * *out is NULL after an error. */
MUST_CHECK int finder_new(const struct bytes *patterns, size_t count, struct finder **out,
                          struct error *err);
/* NULL inside is fine. */
void finder_free(struct finder **finder);
/* Reads text from *state on and moves it. True when a pattern is found: *len bytes of the text are
 * up to there, its last one included, and *idx is the pattern, of several that end there the first. */
bool finder_read(const struct finder *finder, uint32_t *state, struct bytes text, size_t *len,
                 size_t *idx);
/* The pattern as it was given; borrowed. */
struct bytes finder_pattern(const struct finder *finder, size_t idx);

#endif
