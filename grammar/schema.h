/*
 * schema.h - JSON Schema (draft 2020-12 and draft 7) as a rule of a builder.
 *
 * What is held exactly: type, enum, const, allOf, anyOf, not (of what can be turned around),
 * oneOf (branches that exclude each other, or can be turned around), if/then/else, $ref and
 * recursion inside the document, properties, required, additionalProperties, patternProperties,
 * propertyNames, min/maxProperties, dependentRequired, dependentSchemas, dependencies,
 * prefixItems, items, additionalItems, min/maxItems, contains (without bounds on length),
 * min/maxLength, pattern, formats of the table in schema_string.c, bounds of numbers, multipleOf
 * (not too large). Keywords that say nothing about the value (title, default, ...) are passed over,
 * and so are unknown ones and unknown formats, as the specification has it. Everything else that
 * would change what is accepted is refused by its name.
 *
 * Members may come in any order, or, with `ordered`, in that of "properties"; a key comes once at
 * most where the schema names it.
 *
 * Source: https://json-schema.org/draft/2020-12, draft-07.
 */
#ifndef GRAMMAR_SCHEMA_H
#define GRAMMAR_SCHEMA_H

#include "grammar/build.h"
#include "grammar/tree.h"

/* Returns the rule, or FA_NONE with *err: ERR_INVALID (not JSON, or not a schema),
 * ERR_UNSUPPORTED (names the keyword), ERR_LIMIT. */
MUST_CHECK uint32_t schema_to_rule(struct builder *b, struct bytes schema, bool ordered,
                                   struct error *err);
/* The same of a node of a tree, to which nodes may be added; "#" is this node. */
MUST_CHECK uint32_t schema_node_to_rule(struct builder *b, struct tree *t, uint32_t node,
                                        bool ordered, struct error *err);

#endif
