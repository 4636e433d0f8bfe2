/*
 * regex.h - regular expressions (ECMA-262, as JSON Schema's "pattern" and clients' "regex" are
 * written) as automata over code points.
 *
 * Supported: alternatives, groups of all kinds, classes, \d \w \s \D \W \S, \p{...} of general
 * categories and of ASCII, escapes, quantifiers (lazy ones are the same language), ^ $ \b \B
 * (words are of ASCII), lookaheads and lookbehinds anywhere, within each other, too; the flags i (of
 * ASCII letters), s and u, for the rest of a group, (?i), or for one of their own, (?i:...) and
 * (?s-i:...). Refused by name: backreferences and other flags.
 *
 * What a pattern says of a place (^, \b, a lookaround) is read as a character of its own; at the end
 * of the construction these are checked and taken out (regex_marks.c).
 */
#ifndef GRAMMAR_REGEX_H
#define GRAMMAR_REGEX_H

#include "grammar/build.h"

/* The dfa over code points of texts in which the pattern is found (whole: which it matches from
 * beginning to end). Takes states from b->fuel and leaves expressions in b. ERR_INVALID: not well
 * formed, with the byte where; ERR_UNSUPPORTED; ERR_LIMIT. */
MUST_CHECK int regex_to_dfa(struct builder *b, struct bytes pattern, bool whole, struct dfa *out,
                            struct error *err);
/* The same, where the texts are also bounded by their length. *longest: how long the caller lets them be
 * (REPEAT_NO_END: any length), and then how long they may be, at most that: the dfa alone may accept
 * longer ones. So ^.{1,2048}$ takes two states. */
MUST_CHECK int regex_to_counted(struct builder *b, struct bytes pattern, bool whole,
                                uint32_t *longest, struct dfa *out, struct error *err);
/* The expression, as plain UTF-8, of the texts that the pattern matches from beginning to end. A large
 * count of one character that begins at one place alone, as in (yes|no): .{1,200}, costs no states. FA_NONE,
 * and *err, as regex_to_dfa. */
MUST_CHECK uint32_t regex_to_expr(struct builder *b, struct bytes pattern, struct error *err);

#endif
