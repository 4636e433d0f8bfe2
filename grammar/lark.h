/*
 * lark.h - grammars as Lark (https://lark-parser.readthedocs.io/en/stable/grammar.html) and
 * llguidance (its docs/syntax.md) write them: rules of terminals; the text is what "start" matches.
 *
 * A terminal may stand anywhere in the text where a rule has it, however else the text could be cut
 * into terminals, as with Lark's Earley parser: no lexer decides first. What %ignore names may stand
 * in front of each terminal and behind the last. A rule may begin with itself (left recursion)
 * where an alternative says so at once.
 *
 * Held: rules and terminals, their priorities, aliases and modifiers (which change no text),
 * templates, ranges, repetitions of both kinds, %import of common, %ignore, %declare, %json,
 * <|control tokens|>. Refused by name: other imports, %override, %extend, %regex, attributes that
 * change what is generated, patterns' flags other than i, s, u.
 */
#ifndef GRAMMAR_LARK_H
#define GRAMMAR_LARK_H

#include "grammar/build.h"

/* Whether a grammar in either notation is rather this one than GBNF (gbnf.h): no line has "::=". */
bool lark_is_likely(struct bytes text);

/* Returns the rule "start", or FA_NONE with *err: ERR_INVALID (with the line), ERR_UNSUPPORTED,
 * ERR_LIMIT. `ordered` as of schema_to_rule, for %json. */
MUST_CHECK uint32_t lark_to_rule(struct builder *b, struct bytes text, bool ordered,
                                 struct error *err);

#endif
