/*
 * schema_accepts.c - whether one value satisfies a schema: for the values that enum and const list.
 *
 * Nothing has to be turned around or kept apart here, so every keyword holds, whatever stands beside
 * it. Which members and items were evaluated is noted where the document asks for it
 * (unevaluatedProperties, unevaluatedItems).
 */
#include "formats/json.h"
#include "grammar/schema_internal.h"

enum { ACCEPTS_DEPTH_MAX = 100 };

/* One value before one schema. */
struct check {
    struct schema *s;
    uint32_t node, value, depth;
    bool *evaluated; /* [children of the value]; NULL: nobody asks */
    bool own;        /* what applies in its place is not asked: it was worked off */
};

static bool check_holds(const struct check *c);
static bool check_alone(struct check c);

/* A child of the value satisfies a schema. */
static bool child_holds(const struct check *c, uint32_t node, uint32_t child) {
    return check_alone(
        (struct check){.s = c->s, .node = node, .value = child, .depth = c->depth + 1});
}

/* The value satisfies a schema that applies to it as well; what that evaluates counts. */
static bool holds(const struct check *c, uint32_t node) {
    struct schema *s = c->s;
    uint32_t count = tree_count(&s->t, c->value);
    struct check other = {.s = s, .node = node, .value = c->value, .depth = c->depth + 1};
    if (c->evaluated)
        other.evaluated = mem_calloc(count + 1, sizeof *other.evaluated);
    bool ok = check_holds(&other);
    for (uint32_t i = 0; i < count && ok && c->evaluated; i++)
        c->evaluated[i] |= other.evaluated[i];
    mem_free(other.evaluated);
    return ok;
}

static uint32_t keyword(const struct check *c, const char *name) {
    return tree_get(&c->s->t, c->node, name);
}

static void note(const struct check *c, size_t child) {
    if (c->evaluated)
        c->evaluated[child] = true;
}

static uint32_t value_types(struct schema *s, uint32_t value) {
    int64_t whole;
    switch (tree_kind(&s->t, value)) {
    case TREE_NULL: return TYPE_NULL;
    case TREE_TRUE:
    case TREE_FALSE: return TYPE_BOOL;
    case TREE_NUMBER:
        return json_number_int64(tree_text(&s->t, value), &whole) ? TYPE_INTEGER : TYPE_FRACTION;
    case TREE_STRING: return TYPE_STRING;
    case TREE_ARRAY: return TYPE_ARRAY;
    default: return TYPE_OBJECT;
    }
}

/* ---- objects ---- */

static bool has_all(const struct check *c, uint32_t names) {
    const struct tree *t = &c->s->t;
    for (uint32_t k = tree_kind(t, names) == TREE_ARRAY ? tree_first(t, names) : 0; k;
         k = tree_next(t, k))
        if (!tree_find(t, c->value, tree_text(t, k)))
            return false;
    return true;
}

static bool dependents_hold(const struct check *c) {
    static const char *const KEYWORDS[] = {"dependentRequired", "dependentSchemas", "dependencies"};
    const struct tree *t = &c->s->t;
    for (size_t i = 0; i < ARRAY_LEN(KEYWORDS); i++)
        for (uint32_t d = tree_first(t, keyword(c, KEYWORDS[i])); d; d = tree_next(t, d)) {
            if (!tree_find(t, c->value, tree_key(t, d)))
                continue;
            bool ok = tree_kind(t, d) == TREE_ARRAY ? has_all(c, d) : c->own || holds(c, d);
            if (!ok)
                return false;
        }
    return true;
}

/* What the schema says of one member. */
static bool member_holds(const struct check *c, uint32_t child, size_t at) {
    struct tree *t = &c->s->t;
    struct bytes key = tree_key(t, child);
    uint32_t own = tree_find(t, keyword(c, "properties"), key), names = keyword(c, "propertyNames"),
             others = keyword(c, "additionalProperties");
    bool found = own != 0;
    if (own && !child_holds(c, own, child))
        return false;
    for (uint32_t k = tree_first(t, keyword(c, "patternProperties")); k; k = tree_next(t, k)) {
        if (!schema_key_matches(c->s, k, key))
            continue;
        found = true;
        if (!child_holds(c, k, child))
            return false;
    }
    if (!found && others && !child_holds(c, others, child))
        return false;
    if (found || others)
        note(c, at);
    return !names || child_holds(c, names, tree_new_string(t, key));
}

/* KEY_SOME of one member. */
static bool is_needed(const struct check *c, uint32_t what, uint32_t child) {
    struct tree *t = &c->s->t;
    struct bytes key = tree_key(t, child);
    uint32_t match = tree_get(t, what, "match"), keys = tree_get(t, what, "keys");
    if (match)
        return schema_key_matches(c->s, tree_first(t, match), key) &&
               child_holds(c, tree_first(t, match), child);
    if (keys)
        return !child_holds(c, keys, tree_new_string(t, key));
    if (tree_find(t, tree_get(t, what, "properties"), key))
        return false;
    for (uint32_t k = tree_first(t, tree_get(t, what, "patternProperties")); k; k = tree_next(t, k))
        if (schema_key_matches(c->s, k, key))
            return false;
    return child_holds(c, tree_get(t, what, "value"), child);
}

static bool has_needed(const struct check *c) {
    uint32_t what = keyword(c, KEY_SOME);
    bool found = !what;
    for (uint32_t v = tree_first(&c->s->t, c->value); v && !found; v = tree_next(&c->s->t, v))
        found = is_needed(c, what, v);
    return found;
}

static bool object_holds(const struct check *c) {
    struct tree *t = &c->s->t;
    uint32_t bound, count = tree_count(t, c->value);
    if ((tree_uint(t, keyword(c, "minProperties"), &bound) && count < bound) ||
        (tree_uint(t, keyword(c, "maxProperties"), &bound) && count > bound) ||
        !has_all(c, keyword(c, "required")) || !dependents_hold(c) || !has_needed(c))
        return false;
    size_t at = 0;
    for (uint32_t v = tree_first(t, c->value); v; v = tree_next(t, v))
        if (!member_holds(c, v, at++))
            return false;
    return true;
}

/* ---- arrays ---- */

static bool items_differ(const struct check *c) {
    struct tree *t = &c->s->t;
    for (uint32_t v = tree_first(t, c->value); v; v = tree_next(t, v))
        for (uint32_t w = tree_next(t, v); w; w = tree_next(t, w))
            if (!schema_may_check(c->s, c->node, w) || tree_equal(t, v, w))
                return false;
    return true;
}

static bool contains_holds(const struct check *c) {
    struct tree *t = &c->s->t;
    struct contained asked = schema_contained(t, c->node);
    size_t at = 0, count = 0;
    for (uint32_t v = tree_first(t, c->value); v && asked.schema; v = tree_next(t, v), at++)
        if (at >= asked.from && child_holds(c, asked.schema, v)) {
            count++;
            if (c->s->dialect != DIALECT_2019)
                note(c, at);
        }
    return !asked.schema || (count >= asked.min && count <= asked.max);
}

static bool array_holds(const struct check *c) {
    struct tree *t = &c->s->t;
    uint32_t bound, prefix, rest, count = tree_count(t, c->value);
    schema_items(c->s, c->node, &prefix, &rest);
    if ((tree_uint(t, keyword(c, "minItems"), &bound) && count < bound) ||
        (tree_uint(t, keyword(c, "maxItems"), &bound) && count > bound) ||
        (tree_kind(t, keyword(c, "uniqueItems")) == TREE_TRUE && !items_differ(c)))
        return false;
    uint32_t place = tree_first(t, prefix);
    size_t at = 0;
    for (uint32_t v = tree_first(t, c->value); v; v = tree_next(t, v), at++) {
        uint32_t of = place ? place : rest;
        if (of && !child_holds(c, of, v))
            return false;
        if (of)
            note(c, at);
        place = place ? tree_next(t, place) : 0;
    }
    return contains_holds(c);
}

/* ---- all of them ---- */

static bool references_hold(const struct check *c) {
    uint32_t ref = keyword(c, "$ref"), dynamic = keyword(c, "$dynamicRef");
    uint32_t target = ref ? schema_target(c->s, ref) : 0;
    if (ref && (!target || !holds(c, target)))
        return false;
    target = dynamic ? schema_dynamic_target(c->s, dynamic) : 0;
    return !dynamic || (target && holds(c, target));
}

static bool branches_hold(const struct check *c) {
    const struct tree *t = &c->s->t;
    uint32_t all = keyword(c, "allOf"), any = keyword(c, "anyOf"), one = keyword(c, "oneOf"),
             not = keyword(c, "not"), condition = keyword(c, "if"), any_count = 0, one_count = 0;
    for (uint32_t k = tree_first(t, all); k; k = tree_next(t, k))
        if (!holds(c, k))
            return false;
    /* what each branch that holds evaluates counts, so all are asked where somebody wants to know */
    for (uint32_t k = tree_first(t, any); k && (!any_count || c->evaluated); k = tree_next(t, k))
        any_count += holds(c, k);
    for (uint32_t k = tree_first(t, one); k; k = tree_next(t, k))
        one_count += holds(c, k);
    if ((any && !any_count) || (one && one_count != 1) || (not &&child_holds(c, not, c->value)))
        return false;
    uint32_t next = !condition ? 0 : holds(c, condition) ? keyword(c, "then") : keyword(c, "else");
    return !next || holds(c, next);
}

static bool unevaluated_hold(const struct check *c, uint32_t types) {
    const struct tree *t = &c->s->t;
    uint32_t rest = types & TYPE_OBJECT  ? keyword(c, "unevaluatedProperties")
                    : types & TYPE_ARRAY ? keyword(c, "unevaluatedItems")
                                         : 0;
    size_t at = 0;
    for (uint32_t v = rest ? tree_first(t, c->value) : 0; v; v = tree_next(t, v), at++) {
        if (c->evaluated[at])
            continue;
        if (!child_holds(c, rest, v))
            return false;
        note(c, at);
    }
    return true;
}

static bool own_keywords_hold(const struct check *c, uint32_t types) {
    struct schema *s = c->s;
    uint32_t type = keyword(c, "type"), list = keyword(c, "enum"), constant = keyword(c, "const"),
             other = keyword(c, KEY_NOT_ENUM);
    if ((type && !(schema_types(s, type) & types)) ||
        (list && !schema_in_list(s, list, c->value)) ||
        (constant && !tree_equal(&s->t, constant, c->value)) ||
        (other && schema_in_list(s, other, c->value)))
        return false;
    return types & (TYPE_STRING | TYPE_INTEGER | TYPE_FRACTION)
               ? schema_text_accepted(s, c->node, c->value)
           : types & TYPE_ARRAY  ? array_holds(c)
           : types & TYPE_OBJECT ? object_holds(c)
                                 : true;
}

static bool check_holds(const struct check *c) {
    struct schema *s = c->s;
    enum tree_kind kind = tree_kind(&s->t, c->node);
    if (kind == TREE_TRUE || kind == TREE_FALSE)
        return kind == TREE_TRUE;
    if (kind != TREE_OBJECT) {
        schema_fail(s, ERR_INVALID, "a schema must be an object, true or false");
        return false;
    }
    if (c->depth > ACCEPTS_DEPTH_MAX) {
        schema_fail(s, ERR_LIMIT, "a value of \"enum\" is nested too deeply");
        return false;
    }
    if (s->b->failed || !schema_may_check(s, c->node, c->value))
        return false;
    uint32_t types = value_types(s, c->value);
    if (c->own)
        return own_keywords_hold(c, types) && !s->b->failed;
    if (s->ref_alone && keyword(c, "$ref"))
        return references_hold(c);
    return own_keywords_hold(c, types) && references_hold(c) && branches_hold(c) &&
           unevaluated_hold(c, types) && !s->b->failed;
}

/* The same, of which nobody asks afterwards what it evaluated. */
static bool check_alone(struct check c) {
    if (c.s->has_unevaluated)
        c.evaluated = mem_calloc(tree_count(&c.s->t, c.value) + 1, sizeof *c.evaluated);
    bool ok = check_holds(&c);
    mem_free(c.evaluated);
    return ok;
}

bool schema_accepts(struct schema *s, uint32_t node, uint32_t value, bool own) {
    return check_alone((struct check){.s = s, .node = node, .value = value, .own = own});
}
