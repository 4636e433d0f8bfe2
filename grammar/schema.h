/*
 * schema.h - JSON Schema (draft 2020-12 and draft 7) as a rule of a builder.
 *
 * What is held exactly: type, enum, const, allOf, anyOf, not (of what can be turned around: all but
 * uniqueItems, unevaluated..., arrays and objects that are listed), oneOf (branches that exclude
 * each other, or can be turned around), if/then/else, $ref and recursion inside the document and to
 * the schemas of schemas (schema_drafts.c), properties, required, additionalProperties,
 * patternProperties, propertyNames, min/maxProperties, dependentRequired, dependentSchemas,
 * dependencies, prefixItems, items, additionalItems, min/maxItems, contains with min/maxContains
 * (maxContains where its schema can be turned around; places times counts at most 4096, at most
 * four for one array), uniqueItems (but where items may run out and two must come, and in arguments
 * that are no JSON), unevaluatedProperties and -Items (where they see all that applies, or nothing
 * else applies in their schema, and beside anyOf of five branches at most that can be turned
 * around), $id and anchors, $dynamicRef, min/maxLength, pattern, formats of the table in
 * schema_string.c, contentEncoding base64, contentMediaType application/json (of JSON with arrays
 * and objects two deep), bounds of numbers, multipleOf (not too large). Keywords that say nothing
 * about the value (title, default, ...) are passed over, and so are unknown ones and unknown
 * formats, as the specification has it. Beside enum and const all keywords hold. Everything else
 * that would change what is accepted is refused by its name, and mostly its place; so are values
 * that a keyword has in no draft (schema_check.c).
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
/* The same of a node of a tree, to which nodes may be added; "#" is this node. closed: an object whose
 * "properties" are listed, and which says nothing of others, has none but those that the schema
 * names. */
MUST_CHECK uint32_t schema_node_to_rule(struct builder *b, struct tree *t, uint32_t node,
                                        bool ordered, bool closed, struct error *err);

/* How the arguments of a call are written where they are no JSON object: an element for each, in
 * the order of "properties". All but the flags and stops are expressions of the builder. */
struct arguments_form {
    uint32_t before;      /* before a name */
    uint32_t middle;      /* between a name and a value */
    uint32_t text_middle; /* the same where the value is a string that stands bare */
    uint32_t type_end;    /* FA_NONE; else the value's type stands between `middle` and this */
    uint32_t after_end;   /* FA_NONE; else the name stands behind `after` again, and then this */
    uint32_t after;       /* behind a value */
    uint32_t separator;   /* between two elements */
    uint32_t quote;       /* on both sides of a bare string */
    const struct bytes *stops; /* what no bare string holds; none: strings are JSON's */
    size_t stop_count;
    bool nested;       /* objects within values are written so too, between braces */
    bool python;       /* names are Python's, and True, False and None may stand for JSON's words */
    bool trusts_types; /* a reader goes by the types that stand there, not by how values look */
    bool trims;        /* a reader drops a line end at a bare string's edge, so none stands there */
};
/* The same of the arguments that a schema of objects accepts. Keywords that hold for all members
 * together are refused by name, and names that the form cannot write. Borrows form. */
MUST_CHECK uint32_t schema_arguments_to_rule(struct builder *b, struct tree *t, uint32_t node,
                                             const struct arguments_form *form, struct error *err);

#endif
