/*
 * schema_logic.c - schemas turned around.
 *
 * not (A and B) is (not A) or (not B): a schema becomes an anyOf of what violates one of its
 * keywords each. A keyword for values of one type is violated only by values of that type.
 */
#include "grammar/schema_internal.h"

enum { LOGIC_DEPTH_MAX = 32 };

bool schema_asks(struct bytes keyword) {
    static const char *const KEYWORDS[] = {"type",
                                           "enum",
                                           "const",
                                           "multipleOf",
                                           "maximum",
                                           "exclusiveMaximum",
                                           "minimum",
                                           "exclusiveMinimum",
                                           "maxLength",
                                           "minLength",
                                           "pattern",
                                           "format",
                                           "contentEncoding",
                                           "contentMediaType",
                                           "items",
                                           "prefixItems",
                                           "additionalItems",
                                           "maxItems",
                                           "minItems",
                                           "uniqueItems",
                                           "contains",
                                           "minContains",
                                           "maxContains",
                                           "properties",
                                           "patternProperties",
                                           "additionalProperties",
                                           "propertyNames",
                                           "maxProperties",
                                           "minProperties",
                                           "required",
                                           "dependentRequired",
                                           "dependentSchemas",
                                           "dependencies",
                                           "unevaluatedItems",
                                           "unevaluatedProperties",
                                           "allOf",
                                           "anyOf",
                                           "oneOf",
                                           "not",
                                           "if",
                                           "$ref",
                                           "$dynamicRef",
                                           "$recursiveRef"};
    for (size_t i = 0; i < ARRAY_LEN(KEYWORDS); i++)
        if (bytes_equal(keyword, bytes_str(KEYWORDS[i])))
            return true;
    return false;
}

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
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (!(types & NAMES[i].types))
            tree_add(&s->t, list, NULL, tree_new_string(&s->t, bytes_str(NAMES[i].name)));
    const char *numbers = !(types & (TYPE_INTEGER | TYPE_FRACTION)) ? "number"
                          : !(types & TYPE_FRACTION)                ? NAME_FRACTION
                          : !(types & TYPE_INTEGER)                 ? "integer"
                                                                    : NULL;
    if (numbers)
        tree_add(&s->t, list, NULL, tree_new_string(&s->t, bytes_str(numbers)));
    return tree_count(&s->t, list) ? object_with_key(s, NULL, "type", list)
                                   : tree_new(&s->t, TREE_FALSE);
}

/* An object with one member and without the other. */
static uint32_t one_without_other(struct schema *s, struct bytes one, struct bytes other) {
    struct tree *t = &s->t;
    uint32_t names = tree_new(t, TREE_ARRAY), list = tree_new(t, TREE_OBJECT);
    tree_add(t, names, NULL, tree_new_string(t, one));
    tree_add_bytes(t, list, other, tree_new(t, TREE_FALSE));
    uint32_t out = object_with_key(s, "object", "properties", list);
    tree_add(t, out, "required", names);
    return out;
}

static uint32_t both_of(struct schema *s, uint32_t a, uint32_t b) {
    uint32_t all = tree_new(&s->t, TREE_ARRAY);
    tree_add(&s->t, all, NULL, a);
    tree_add(&s->t, all, NULL, b);
    return object_with_key(s, NULL, "allOf", all);
}

/* (if and not then) or (not if and not else) */
static bool negate_if(struct schema *s, uint32_t node, uint32_t either, uint32_t depth) {
    struct tree *t = &s->t;
    uint32_t condition = tree_get(t, node, "if"), yes = tree_get(t, node, "then"),
             no = tree_get(t, node, "else");
    uint32_t not_yes = yes ? schema_negate(s, yes, depth + 1) : 0,
             not_no = no ? schema_negate(s, no, depth + 1) : 0,
             other = no ? schema_negate(s, condition, depth + 1) : 0;
    if ((yes && !not_yes) || (no && (!not_no || !other)))
        return false;
    if (yes)
        tree_add(t, either, NULL, both_of(s, schema_silent(s, condition), not_yes));
    if (no)
        tree_add(t, either, NULL, both_of(s, other, not_no));
    return true;
}

/* None of the branches, or two of them. */
static bool negate_one_of(struct schema *s, uint32_t list, uint32_t either, uint32_t depth) {
    enum { BRANCHES_MAX = 16 };
    struct tree *t = &s->t;
    uint32_t none = tree_new(t, TREE_ARRAY);
    if (tree_count(t, list) > BRANCHES_MAX)
        return false;
    for (uint32_t a = tree_first(t, list); a; a = tree_next(t, a)) {
        uint32_t no = schema_negate(s, a, depth + 1);
        if (!no)
            return false;
        tree_add(t, none, NULL, no);
        for (uint32_t b = tree_next(t, a); b; b = tree_next(t, b))
            tree_add(t, either, NULL, both_of(s, schema_silent(s, a), schema_silent(s, b)));
    }
    tree_add(t, either, NULL, object_with_key(s, NULL, "allOf", none));
    return true;
}

/* One place has an item that its schema refuses. */
static bool negate_places(struct schema *s, uint32_t places, uint32_t either, uint32_t depth) {
    struct tree *t = &s->t;
    uint32_t at = 0;
    for (uint32_t p = tree_first(t, places); p; p = tree_next(t, p), at++) {
        uint32_t no = schema_negate(s, p, depth + 1), list = tree_new(t, TREE_ARRAY);
        if (!no)
            return false;
        for (uint32_t i = 0; i < at; i++)
            tree_add(t, list, NULL, tree_new(t, TREE_TRUE));
        tree_add(t, list, NULL, no);
        uint32_t out = object_with_key(s, "array", "prefixItems", list);
        tree_add(t, out, "minItems", tree_new_uint(t, at + 1));
        tree_add(t, either, NULL, out);
    }
    return true;
}

/* An item behind those with places of their own is refused by its schema. */
static bool negate_rest(struct schema *s, uint32_t places, uint32_t rest, uint32_t either,
                        uint32_t depth) {
    uint32_t no = schema_negate(s, rest, depth + 1), from = tree_count(&s->t, places);
    if (!no)
        return false;
    uint32_t out = object_with_key(s, "array", "contains", no);
    if (from)
        tree_add(&s->t, out, KEY_FROM, tree_new_uint(&s->t, from));
    tree_add(&s->t, either, NULL, out);
    return true;
}

/* Fewer items than are asked for satisfy the schema, or more. */
static bool negate_contains(struct schema *s, uint32_t node, uint32_t k, uint32_t either,
                            uint32_t depth) {
    struct tree *t = &s->t;
    uint32_t least = 1, most = UINT32_MAX, no = schema_negate(s, k, depth + 1);
    uint32_t min = tree_get(t, node, "minContains"), max = tree_get(t, node, "maxContains");
    if (!no || (min && !tree_uint(t, min, &least)) || (max && !tree_uint(t, max, &most)) ||
        tree_get(t, node, KEY_FROM))
        return false;
    if (least == 1)
        tree_add(t, either, NULL, object_with_key(s, "array", "items", no));
    if (least > 1) {
        uint32_t few = object_with_key(s, "array", "contains", k);
        tree_add(t, few, "minContains", tree_new_uint(t, 0));
        tree_add(t, few, "maxContains", tree_new_uint(t, least - 1));
        tree_add(t, either, NULL, few);
    }
    if (most < UINT32_MAX) {
        uint32_t many = object_with_key(s, "array", "contains", k);
        tree_add(t, many, "minContains", tree_new_uint(t, most + 1));
        tree_add(t, either, NULL, many);
    }
    return true;
}

/* The member is there, and what it asks for is refused. */
static bool negate_dependent(struct schema *s, uint32_t dependent, uint32_t either,
                             uint32_t depth) {
    struct tree *t = &s->t;
    struct bytes name = tree_key(t, dependent);
    if (tree_kind(t, dependent) == TREE_ARRAY) {
        for (uint32_t n = tree_first(t, dependent); n; n = tree_next(t, n))
            tree_add(t, either, NULL, one_without_other(s, name, tree_text(t, n)));
        return true;
    }
    uint32_t no = schema_negate(s, dependent, depth + 1), names = tree_new(t, TREE_ARRAY);
    if (!no)
        return false;
    tree_add(t, names, NULL, tree_new_string(t, name));
    tree_add(t, either, NULL, both_of(s, object_with_key(s, "object", "required", names), no));
    return true;
}

/* A member of which `what` holds (KEY_SOME). */
static void add_some(struct schema *s, uint32_t either, uint32_t what) {
    tree_add(&s->t, either, NULL, object_with_key(s, "object", KEY_SOME, what));
}

/* "additionalProperties", "patternProperties" and "propertyNames" are violated by one member. */
static bool negate_members(struct schema *s, uint32_t node, uint32_t k, uint32_t either,
                           uint32_t depth) {
    static const char *const NAMED[] = {"properties", "patternProperties"};
    struct tree *t = &s->t;
    uint32_t what = tree_new(t, TREE_OBJECT);
    if (bytes_equal(tree_key(t, k), bytes_str("propertyNames"))) {
        tree_add(t, what, "keys", k);
        add_some(s, either, what);
        return true;
    }
    if (bytes_equal(tree_key(t, k), bytes_str("patternProperties"))) {
        for (uint32_t p = tree_first(t, k); p; p = tree_next(t, p)) {
            uint32_t no = schema_negate(s, p, depth + 1), one = tree_new(t, TREE_OBJECT);
            if (!no)
                return false;
            tree_add_bytes(t, tree_add(t, one, "match", tree_new(t, TREE_OBJECT)), tree_key(t, p),
                           no);
            add_some(s, either, one);
        }
        return true;
    }
    uint32_t no = schema_negate(s, k, depth + 1);
    if (!no)
        return false;
    if (tree_kind(t, no) == TREE_FALSE)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(NAMED); i++) {
        uint32_t named = tree_get(t, node, NAMED[i]);
        if (named)
            tree_add(t, what, NAMED[i], named);
    }
    tree_add(t, what, "value", no);
    add_some(s, either, what);
    return true;
}

/* One violation of a keyword each is added to `either`; false: it cannot be told. */
static bool negate_keyword(struct schema *s, uint32_t node, uint32_t k, uint32_t either,
                           uint32_t depth) {
    /* clang-format off */
    static const char *const SILENT[] = {
        "title", "description", "default", "examples", "example", "$schema", "$id", "$comment",
        "$anchor", "$defs", "definitions", "deprecated", "readOnly", "writeOnly", "then", "else",
        "contentSchema", KEY_SILENT};
    /* clang-format on */
    static const struct {
        const char *keyword, *type, *opposite;
    } BOUNDS[] = {
        {"minimum", "number", "exclusiveMaximum"},  {"maximum", "number", "exclusiveMinimum"},
        {"exclusiveMinimum", "number", "maximum"},  {"exclusiveMaximum", "number", "minimum"},
        {"multipleOf", "number", KEY_NOT_MULTIPLE}, {KEY_NOT_MULTIPLE, "number", "multipleOf"},
        {"pattern", "string", KEY_NOT_PATTERN},     {KEY_NOT_PATTERN, "string", "pattern"},
        {KEY_NOT_FORMAT, "string", "format"},       {KEY_NOT_ENUM, NULL, "enum"}};
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
    if (IS("format")) {
        if (!s->annotates && schema_format_known(s, k))
            tree_add(t, either, NULL, object_with_key(s, "string", KEY_NOT_FORMAT, k));
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
        tree_add(t, either, NULL, schema_silent(s, k));
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
    if (IS("$ref") || IS("$dynamicRef")) {
        uint32_t target = IS("$ref") ? schema_target(s, k) : schema_dynamic_target(s, k);
        uint32_t no = target ? schema_negate(s, target, depth + 1) : 0;
        if (no)
            tree_add(t, either, NULL, no);
        return no != 0;
    }
    if (IS("items") && tree_kind(t, k) != TREE_ARRAY)
        return negate_rest(s, tree_get(t, node, "prefixItems"), k, either, depth);
    if (IS("additionalItems")) {
        uint32_t places = tree_get(t, node, "items");
        return tree_kind(t, places) != TREE_ARRAY || negate_rest(s, places, k, either, depth);
    }
    if (IS("prefixItems") || (IS("items") && tree_kind(t, k) == TREE_ARRAY))
        return negate_places(s, k, either, depth);
    if (IS("contains"))
        return negate_contains(s, node, k, either, depth);
    if (IS("minContains") || IS("maxContains"))
        return true; /* with "contains" */
    if (IS("dependentRequired") || IS("dependentSchemas") || IS("dependencies")) {
        for (uint32_t d = tree_first(t, k); d; d = tree_next(t, d))
            if (!negate_dependent(s, d, either, depth))
                return false;
        return true;
    }
    if (IS("additionalProperties") || IS("patternProperties") || IS("propertyNames"))
        return negate_members(s, node, k, either, depth);
    if (IS("if"))
        return negate_if(s, node, either, depth);
    if (IS("oneOf"))
        return negate_one_of(s, k, either, depth);
    if (IS("unevaluatedProperties") || IS("unevaluatedItems"))
        return tree_kind(t, k) == TREE_TRUE;
    if (IS("contentEncoding") || IS("contentMediaType"))
        return s->annotates;
#undef IS
    bool ours = key.len && key.data[0] == 0xff;
    return !ours && !schema_asks(key); /* what is unknown says nothing */
}

static uint32_t negate(struct schema *s, uint32_t node, uint32_t depth) {
    struct tree *t = &s->t;
    node = schema_without_unevaluated(s, node);
    enum tree_kind kind = tree_kind(t, node);
    if (kind == TREE_TRUE || kind == TREE_FALSE)
        return tree_new(t, kind == TREE_TRUE ? TREE_FALSE : TREE_TRUE);
    if (kind != TREE_OBJECT || depth > LOGIC_DEPTH_MAX || s->b->failed || !schema_check(s, node))
        return 0;
    uint32_t either = tree_new(t, TREE_ARRAY);
    bool alone = s->ref_alone && tree_get(t, node, "$ref");
    for (uint32_t k = tree_first(t, node); k; k = tree_next(t, k)) {
        if (alone && !bytes_equal(tree_key(t, k), bytes_str("$ref")))
            continue;
        if (!negate_keyword(s, node, k, either, depth)) {
            s->stuck = s->stuck ? s->stuck : k;
            return 0;
        }
    }
    return tree_count(t, either) ? object_with_key(s, NULL, "anyOf", either)
                                 : tree_new(t, TREE_FALSE);
}

/* Each schema is turned around once, however many lead to it: what that costs is bounded by the
 * document. One that leads to itself cannot be. */
uint32_t schema_negate(struct schema *s, uint32_t node, uint32_t depth) {
    while (s->negations.count <= node)
        vec_push(&s->negations, FA_NONE);
    if (s->negations.items[node] == FA_NONE) {
        s->negations.items[node] = 0;
        uint32_t no = negate(s, node, depth);
        s->negations.items[node] = no;
        while (s->negations.count <= no)
            vec_push(&s->negations, FA_NONE);
        if (no)
            s->negations.items[no] = schema_silent(s, node);
    }
    return s->negations.items[node];
}
