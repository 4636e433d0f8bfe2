/*
 * gbnf.h - grammars as llama.cpp writes them: rules `name ::= ...` of strings, classes of
 * characters, groups and repetitions; the text is what "root" matches.
 *
 * Source: llama.cpp's grammars/README.md.
 */
#ifndef GRAMMAR_GBNF_H
#define GRAMMAR_GBNF_H

#include "grammar/build.h"

/* Returns the rule "root", or FA_NONE with *err: ERR_INVALID (with the line), ERR_UNSUPPORTED
 * (tokens in angle brackets), ERR_LIMIT. */
MUST_CHECK uint32_t gbnf_to_rule(struct builder *b, struct bytes text, struct error *err);

#endif
