/*
 * structure.h - texts put together from parts: marks, free text, and what schemas, patterns and
 * grammars describe. For tool calls in a model's own format, for an answer behind free reasoning,
 * and for clients' structural tags.
 *
 * A structure is JSON. A part is an object with a "type":
 *
 *   const_string      "value"
 *   choice            "values": one of these texts
 *   token             "value": a control token, as it is spelled (vocab.h); no text matches it
 *   json_schema       "json_schema": a schema, true for any value; "closed": see schema_node_to_rule; "style" is passed over
 *   arguments         "json_schema" of an object, whose members are elements (schema.h). Parts:
 *                     "before", "middle", "text_middle", "type_end", "after", "after_end",
 *                     "separator", "quote"; a list of texts: "stops"; flags: "nested", "python",
 *                     "trusts_types", "trims"
 *   regex             "pattern"
 *   grammar           "grammar": GBNF, or Lark where no line has "::="
 *   any_text          any text; "excludes": a list of what does not occur in it
 *   until             "value": any text up to and including the first time this comes; "excludes"
 *   sequence, or      "elements": one after the other; one of them
 *   optional, plus, star   "content", so often
 *   tag               "begin", "content", "end" (a string, or a list of which one comes)
 *   triggered_tags    "triggers", "tags", "at_least_one", "stop_after_first": free text in which a
 *                     trigger begins one of the tags that begin with it
 *   tags_with_separator   "tags", "separator", "at_least_one", "stop_after_first"
 *   structural_tag    "format": a part
 *
 * "choice", "token", "arguments" and "until" are ours, the others are xgrammar's (docs/structural_tag.md). Also the older
 * form of vLLM: {"type": "structural_tag", "structures": [{"begin", "schema", "end"}], "triggers"}.
 */
#ifndef GRAMMAR_STRUCTURE_H
#define GRAMMAR_STRUCTURE_H

#include "grammar/build.h"

/* In front of a control token's text in the vocabulary; no text of UTF-8 has it. */
enum { STRUCTURE_TOKEN_BYTE = 0xff };

/* Returns the rule, or FA_NONE with *err: ERR_INVALID (not JSON, or no structure), ERR_UNSUPPORTED
 * (names the part), ERR_LIMIT. `ordered` as of schema_to_rule. */
MUST_CHECK uint32_t structure_to_rule(struct builder *b, struct bytes text, bool ordered,
                                      struct error *err);

#endif
