/*
 * regex.h - regular expressions (ECMA-262, as JSON Schema's "pattern" and clients' "regex" are
 * written) as automata over code points.
 *
 * Supported: alternatives, groups of all kinds, classes, \d \w \s \D \W \S, \p{...} of general
 * categories and of ASCII, escapes, quantifiers (lazy ones are the same language), ^ and $
 * anywhere, lookaheads and lookbehinds outside of groups; Python's (?i) (of ASCII letters), (?s)
 * and (?u) in front of all.
 * Refused by name: backreferences, \b, \B, lookarounds inside groups, and a lookbehind behind a
 * lookahead that does not stand at the text's beginning.
 *
 * ^ and $ are read as two characters that stand in front of and behind every text; at the end of
 * the construction they are taken away.
 */
#ifndef GRAMMAR_REGEX_H
#define GRAMMAR_REGEX_H

#include "grammar/build.h"

/* The dfa over code points of texts in which the pattern is found (whole: which it matches from
 * beginning to end). Takes states from b->fuel and leaves expressions in b. ERR_INVALID: not well
 * formed, with the byte where; ERR_UNSUPPORTED; ERR_LIMIT. */
MUST_CHECK int regex_to_dfa(struct builder *b, struct bytes pattern, bool whole, struct dfa *out,
                            struct error *err);

#endif
