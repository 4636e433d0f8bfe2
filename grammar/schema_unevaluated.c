/*
 * schema_unevaluated.c - unevaluatedProperties and unevaluatedItems: which member of a conjunction
 * says what becomes of what nobody evaluates.
 */
#include "grammar/schema_internal.h"

/* The keyword where it asks for something. */
static uint32_t unevaluated_of(struct schema *s, uint32_t node) {
    static const char *const NAMES[] = {"unevaluatedProperties", "unevaluatedItems"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        uint32_t k = tree_get(&s->t, node, NAMES[i]);
        if (k && tree_kind(&s->t, k) != TREE_TRUE)
            return k;
    }
    return 0;
}

/* Nothing else applies in the schema's place. */
static bool applies_alone(struct schema *s, uint32_t node) {
    static const char *const APPLY[] = {
        "allOf",    "anyOf",        "oneOf",           "not",
        "if",       "$ref",         "$dynamicRef",     "$recursiveRef",
        "contains", "dependencies", "dependentSchemas"};
    for (size_t i = 0; i < ARRAY_LEN(APPLY); i++)
        if (tree_get(&s->t, node, APPLY[i]))
            return false;
    return true;
}

/* The name under which a keyword says the same in a schema where nothing else applies: its unevaluated
 * members and items are those that no other keyword names. NULL: it says nothing. */
static const char *plain_name(struct schema *s, uint32_t node, uint32_t keyword) {
    struct bytes key = tree_key(&s->t, keyword);
    uint32_t items = tree_get(&s->t, node, "items");
    if (bytes_equal(key, bytes_str("unevaluatedProperties")))
        return tree_get(&s->t, node, "additionalProperties") ? NULL : "additionalProperties";
    if (!bytes_equal(key, bytes_str("unevaluatedItems")))
        return "";
    if (tree_kind(&s->t, items) == TREE_ARRAY)
        return tree_get(&s->t, node, "additionalItems") ? NULL : "additionalItems";
    return items ? NULL : "items";
}

uint32_t schema_without_unevaluated(struct schema *s, uint32_t node) {
    if (!s->has_unevaluated || tree_kind(&s->t, node) != TREE_OBJECT || !unevaluated_of(s, node) ||
        !applies_alone(s, node))
        return node;
    while (s->plain_nodes.count <= node)
        vec_push(&s->plain_nodes, 0);
    if (!s->plain_nodes.items[node]) {
        uint32_t out = tree_new(&s->t, TREE_OBJECT);
        for (uint32_t k = tree_first(&s->t, node); k; k = tree_next(&s->t, k)) {
            const char *name = plain_name(s, node, k);
            if (name && *name)
                tree_add(&s->t, out, name, k);
            else if (name)
                tree_add_bytes(&s->t, out, tree_key(&s->t, k), k);
        }
        s->plain_nodes.items[node] = out;
    }
    return s->plain_nodes.items[node];
}

/* Nothing but a reference: it evaluates what its target does. */
static bool refers_only(struct schema *s, uint32_t node) {
    static const char *const ASKS[] = {"allOf",
                                       "anyOf",
                                       "oneOf",
                                       "not",
                                       "if",
                                       "properties",
                                       "items",
                                       "patternProperties",
                                       "contains",
                                       "dependencies",
                                       "prefixItems",
                                       "dependentSchemas",
                                       "additionalProperties"};
    for (size_t i = 0; i < ARRAY_LEN(ASKS); i++)
        if (tree_get(&s->t, node, ASKS[i]))
            return false;
    return !tree_get(&s->t, node, "$ref") || !tree_get(&s->t, node, "$dynamicRef");
}

bool schema_find_unevaluated(struct schema *s, const conjunction *c, bool alone) {
    uint32_t found = 0;
    for (size_t i = 0; i < c->count; i++) {
        uint32_t node = c->items[i].node;
        if (!unevaluated_of(s, node))
            continue;
        bool sees = node == s->unevaluated || alone;
        for (size_t k = 0; k < i && alone && sees && node != s->unevaluated; k++)
            sees = refers_only(s, c->items[k].node);
        if (!sees || found) {
            schema_fail(s, ERR_UNSUPPORTED,
                        "keyword \"unevaluated...\" beside or below schemas that it does not see");
            return false;
        }
        found = node;
    }
    s->unevaluated = found;
    return true;
}
