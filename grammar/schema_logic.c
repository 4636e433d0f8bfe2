/*
 * schema_logic.c - schemas turned around, and whether a value satisfies one.
 *
 * not (A and B) is (not A) or (not B): a schema becomes an anyOf of what violates one of its
 * keywords each. A keyword for values of one type is violated only by values of that type.
 */
#include "grammar/schema_internal.h"

#include "formats/json.h"

enum { LOGIC_DEPTH_MAX = 32 };

static uint32_t object_with_key(struct schema *s, const char *type, const char *keyword,
                                uint32_t value) {
    uint32_t out = tree_new(&s->t, TREE_OBJECT);
    if (type)
        tree_add(&s->t, out, "type", tree_new_string(&s->t, bytes_str(type)));
    tree_add(&s->t, out, keyword, value);
    tree_add(&s->t, out, KEY_SILENT, tree_new(&s->t, TREE_TRUE));
    return out;
}

static uint32_t negate_type(struct schema *s, uint32_t type) {
    static const struct {
        const char *name;
        uint32_t types;
    } NAMES[] = {{"null", TYPE_NULL},
                 {"boolean", TYPE_BOOL},
                 {"string", TYPE_STRING},
                 {"array", TYPE_ARRAY},
                 {"object", TYPE_OBJECT}};
    uint32_t types = schema_types(s, type), list = tree_new(&s->t, TREE_ARRAY);
    if ((types & TYPE_INTEGER) && !(types & TYPE_FRACTION))
        return 0; /* fractions alone have no name */
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (!(types & NAMES[i].types))
            tree_add(&s->t, list, NULL, tree_new_string(&s->t, bytes_str(NAMES[i].name)));
    if (!(types & TYPE_FRACTION))
        tree_add(&s->t, list, NULL, tree_new_string(&s->t, bytes_str("number")));
    return tree_count(&s->t, list) ? object_with_key(s, NULL, "type", list)
                                   : tree_new(&s->t, TREE_FALSE);
}

/* One violation of a keyword each is added to `either`; false: it cannot be told. */
static bool negate_keyword(struct schema *s, uint32_t k, uint32_t either, uint32_t depth) {
    /* clang-format off */
    static const char *const SILENT[] = {
        "title", "description", "default", "examples", "example", "$schema", "$id", "$comment",
        "$anchor", "$defs", "definitions", "deprecated", "readOnly", "writeOnly", "then", "else",
        "format", "contentEncoding", "contentMediaType", "contentSchema", KEY_SILENT};
    /* clang-format on */
    static const struct {
        const char *keyword, *type, *opposite;
    } BOUNDS[] = {{"minimum", "number", "exclusiveMaximum"},
                  {"maximum", "number", "exclusiveMinimum"},
                  {"exclusiveMinimum", "number", "maximum"},
                  {"exclusiveMaximum", "number", "minimum"},
                  {"pattern", "string", KEY_NOT_PATTERN}};
    static const struct {
        const char *keyword, *type, *opposite;
        bool least;
    } COUNTS[] = {{"minLength", "string", "maxLength", true},
                  {"maxLength", "string", "minLength", false},
                  {"minItems", "array", "maxItems", true},
                  {"maxItems", "array", "minItems", false},
                  {"minProperties", "object", "maxProperties", true},
                  {"maxProperties", "object", "minProperties", false}};
    struct tree *t = &s->t;
    struct bytes key = tree_key(t, k);
#define IS(name) bytes_equal(key, bytes_str(name))
    for (size_t i = 0; i < ARRAY_LEN(SILENT); i++)
        if (IS(SILENT[i]))
            return true;
    for (size_t i = 0; i < ARRAY_LEN(BOUNDS); i++)
        if (IS(BOUNDS[i].keyword)) {
            tree_add(t, either, NULL, object_with_key(s, BOUNDS[i].type, BOUNDS[i].opposite, k));
            return true;
        }
    for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++)
        if (IS(COUNTS[i].keyword)) {
            uint32_t n;
            if (!tree_uint(t, k, &n))
                return false;
            if (COUNTS[i].least ? n > 0 : n < 0xfffffff0)
                tree_add(t, either, NULL,
                         object_with_key(s, COUNTS[i].type, COUNTS[i].opposite,
                                         tree_new_uint(t, COUNTS[i].least ? n - 1 : n + 1)));
            return true;
        }
    if (IS("type")) {
        uint32_t out = negate_type(s, k);
        if (out)
            tree_add(t, either, NULL, out);
        return out != 0;
    }
    if (IS("const") || IS("enum")) {
        uint32_t list = k;
        if (IS("const")) {
            list = tree_new(t, TREE_ARRAY);
            tree_add(t, list, NULL, k);
        }
        tree_add(t, either, NULL, object_with_key(s, NULL, KEY_NOT_ENUM, list));
        return true;
    }
    if (IS("required")) {
        for (uint32_t n = tree_first(t, k); n; n = tree_next(t, n)) {
            uint32_t list = tree_new(t, TREE_OBJECT);
            tree_add_bytes(t, list, tree_text(t, n), tree_new(t, TREE_FALSE));
            tree_add(t, either, NULL, object_with_key(s, "object", "properties", list));
        }
        return true;
    }
    if (IS("properties")) {
        for (uint32_t p = tree_first(t, k); p; p = tree_next(t, p)) {
            uint32_t no = schema_negate(s, p, depth + 1);
            if (!no)
                return false;
            uint32_t list = tree_new(t, TREE_OBJECT), names = tree_new(t, TREE_ARRAY);
            tree_add_bytes(t, list, tree_key(t, p), no);
            tree_add(t, names, NULL, tree_new_string(t, tree_key(t, p)));
            uint32_t out = object_with_key(s, "object", "properties", list);
            tree_add(t, out, "required", names);
            tree_add(t, either, NULL, out);
        }
        return true;
    }
    if (IS("not")) {
        if (s->has_unevaluated)
            return false; /* what stands there would count as evaluated */
        tree_add(t, either, NULL, k);
        return true;
    }
    if (IS("allOf")) {
        for (uint32_t p = tree_first(t, k); p; p = tree_next(t, p)) {
            uint32_t no = schema_negate(s, p, depth + 1);
            if (!no)
                return false;
            tree_add(t, either, NULL, no);
        }
        return true;
    }
    if (IS("anyOf")) {
        uint32_t all = tree_new(t, TREE_ARRAY);
        for (uint32_t p = tree_first(t, k); p; p = tree_next(t, p)) {
            uint32_t no = schema_negate(s, p, depth + 1);
            if (!no)
                return false;
            tree_add(t, all, NULL, no);
        }
        tree_add(t, either, NULL, object_with_key(s, NULL, "allOf", all));
        return true;
    }
    if (IS("$ref")) {
        uint32_t target = schema_target(s, tree_text(t, k));
        uint32_t no = target ? schema_negate(s, target, depth + 1) : 0;
        if (no)
            tree_add(t, either, NULL, no);
        return no != 0;
    }
#undef IS
    return false;
}

uint32_t schema_negate(struct schema *s, uint32_t node, uint32_t depth) {
    struct tree *t = &s->t;
    enum tree_kind kind = tree_kind(t, node);
    if (kind == TREE_TRUE || kind == TREE_FALSE)
        return tree_new(t, kind == TREE_TRUE ? TREE_FALSE : TREE_TRUE);
    if (kind != TREE_OBJECT || depth > LOGIC_DEPTH_MAX || s->b->failed)
        return 0;
    uint32_t either = tree_new(t, TREE_ARRAY);
    for (uint32_t k = tree_first(t, node); k; k = tree_next(t, k)) {
        if (bytes_equal(tree_key(t, k), bytes_str("if")) || !negate_keyword(s, k, either, depth))
            return 0;
    }
    return tree_count(t, either) ? object_with_key(s, NULL, "anyOf", either)
                                 : tree_new(t, TREE_FALSE);
}

/* ---- values ---- */

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

static bool object_accepted(struct schema *s, uint32_t node, uint32_t value, uint32_t depth) {
    struct tree *t = &s->t;
    uint32_t bound, properties = tree_get(t, node, "properties"),
                    required = tree_get(t, node, "required"),
                    others = tree_get(t, node, "additionalProperties");
    for (uint32_t k = tree_kind(t, required) == TREE_ARRAY ? tree_first(t, required) : 0; k;
         k = tree_next(t, k))
        if (!tree_find(t, value, tree_text(t, k)))
            return false;
    for (uint32_t v = tree_first(t, value); v; v = tree_next(t, v)) {
        uint32_t p = tree_find(t, properties, tree_key(t, v));
        bool found = p != 0;
        if (p && !schema_accepts(s, p, v, depth + 1))
            return false;
        for (uint32_t k = tree_first(t, tree_get(t, node, "patternProperties")); k;
             k = tree_next(t, k)) {
            struct dfa d;
            struct error err;
            int rc = regex_to_dfa(s->b, tree_key(t, k), false, &d, &err);
            if (rc)
                return schema_fail(s, rc, "keyword \"patternProperties\": %s", err.text) != 0;
            bool hit = dfa_accepts(&d, tree_key(t, v));
            dfa_release(&d);
            found |= hit;
            if (hit && !schema_accepts(s, k, v, depth + 1))
                return false;
        }
        if (!found && others && !schema_accepts(s, others, v, depth + 1))
            return false;
    }
    return !(tree_uint(t, tree_get(t, node, "minProperties"), &bound) &&
             tree_count(t, value) < bound) &&
           !(tree_uint(t, tree_get(t, node, "maxProperties"), &bound) &&
             tree_count(t, value) > bound);
}

static bool array_accepted(struct schema *s, uint32_t node, uint32_t value, uint32_t depth) {
    struct tree *t = &s->t;
    uint32_t bound, items = tree_get(t, node, "items"), prefix = tree_get(t, node, "prefixItems");
    if (tree_get(t, node, "contains") || tree_kind(t, items) == TREE_ARRAY)
        return schema_fail(s, ERR_UNSUPPORTED, "keyword \"enum\" of arrays beside \"contains\"") !=
               0;
    if (tree_kind(t, tree_get(t, node, "uniqueItems")) == TREE_TRUE)
        for (uint32_t v = tree_first(t, value); v; v = tree_next(t, v))
            for (uint32_t w = tree_next(t, v); w; w = tree_next(t, w))
                if (!schema_may_check(s, node, w) || tree_equal(t, v, w))
                    return false;
    uint32_t p = tree_first(t, prefix);
    for (uint32_t v = tree_first(t, value); v; v = tree_next(t, v)) {
        uint32_t of = p ? p : items;
        if (of && !schema_accepts(s, of, v, depth + 1))
            return false;
        p = p ? tree_next(t, p) : 0;
    }
    return !(tree_uint(t, tree_get(t, node, "minItems"), &bound) && tree_count(t, value) < bound) &&
           !(tree_uint(t, tree_get(t, node, "maxItems"), &bound) && tree_count(t, value) > bound);
}

/* Applicators of a conjunction's members are its own members already, so only those inside of
 * values (depth over 0) are followed here. */
static bool applicators_accepted(struct schema *s, uint32_t node, uint32_t value, uint32_t depth) {
    struct tree *t = &s->t;
    uint32_t ref = tree_get(t, node, "$ref"), all = tree_get(t, node, "allOf"),
             any = tree_get(t, node, "anyOf"), one = tree_get(t, node, "oneOf"),
             not = tree_get(t, node, "not");
    uint32_t target = ref ? schema_target(s, tree_text(t, ref)) : 0, count = 0;
    if (ref && (!target || !schema_accepts(s, target, value, depth + 1)))
        return false;
    for (uint32_t k = tree_first(t, all); k; k = tree_next(t, k))
        if (!schema_accepts(s, k, value, depth + 1))
            return false;
    bool found = !any;
    for (uint32_t k = tree_first(t, any); k && !found; k = tree_next(t, k))
        found = schema_accepts(s, k, value, depth + 1);
    for (uint32_t k = tree_first(t, one); k; k = tree_next(t, k))
        count += schema_accepts(s, k, value, depth + 1);
    return found && (!one || count == 1) && !(not &&schema_accepts(s, not, value, depth + 1));
}

bool schema_accepts(struct schema *s, uint32_t node, uint32_t value, uint32_t depth) {
    struct tree *t = &s->t;
    enum tree_kind kind = tree_kind(t, node);
    if (kind == TREE_TRUE || kind == TREE_FALSE)
        return kind == TREE_TRUE;
    if (depth > LOGIC_DEPTH_MAX) {
        schema_fail(s, ERR_LIMIT, "a value of \"enum\" is nested too deeply");
        return false;
    }
    if (!schema_may_check(s, node, value))
        return false;
    uint32_t types = value_types(s, value), type = tree_get(t, node, "type");
    uint32_t list = tree_get(t, node, "enum"), constant = tree_get(t, node, "const"),
             other = tree_get(t, node, KEY_NOT_ENUM);
    if ((type && !(schema_types(s, type) & types)) || (list && !schema_in_list(s, list, value)) ||
        (constant && !tree_equal(t, constant, value)) || (other && schema_in_list(s, other, value)))
        return false;
    bool ok = types & (TYPE_STRING | TYPE_INTEGER | TYPE_FRACTION)
                  ? schema_text_accepted(s, node, value)
              : types & TYPE_ARRAY  ? array_accepted(s, node, value, depth)
              : types & TYPE_OBJECT ? object_accepted(s, node, value, depth)
                                    : true;
    return ok && (depth == 0 || applicators_accepted(s, node, value, depth));
}
