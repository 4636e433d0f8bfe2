/*
 * schema_check.c - keywords whose values are no values for them ("minimum": "3"): they are refused, since
 * who wrote them meant something by them.
 */
#include "grammar/schema_internal.h"

enum form {
    FORM_NUMBER,
    FORM_BOUND, /* a number; of draft 4 true or false */
    FORM_COUNT,
    FORM_BOOLEAN,
    FORM_STRING,
    FORM_ARRAY,
    FORM_OBJECT,
    FORM_NAMES, /* a list of strings; of draft 3 true or false */
};
static const char *const NEEDS[] = {
    [FORM_NUMBER] = "its value must be a number",
    [FORM_BOUND] = "its value must be a number",
    [FORM_COUNT] = "its value must be a whole number that is not negative",
    [FORM_BOOLEAN] = "its value must be true or false",
    [FORM_STRING] = "its value must be a string",
    [FORM_ARRAY] = "its value must be an array",
    [FORM_OBJECT] = "its value must be an object",
    [FORM_NAMES] = "its value must be an array of strings",
};
#define ROW(keyword, form)                                                                         \
    { keyword, sizeof keyword - 1, form }
static const struct {
    const char *keyword;
    size_t len;
    enum form form;
} FORMS[] = {
    ROW("minimum", FORM_NUMBER),
    ROW("maximum", FORM_NUMBER),
    ROW("multipleOf", FORM_NUMBER),
    ROW("exclusiveMinimum", FORM_BOUND),
    ROW("exclusiveMaximum", FORM_BOUND),
    ROW("minLength", FORM_COUNT),
    ROW("maxLength", FORM_COUNT),
    ROW("minItems", FORM_COUNT),
    ROW("maxItems", FORM_COUNT),
    ROW("minContains", FORM_COUNT),
    ROW("maxContains", FORM_COUNT),
    ROW("minProperties", FORM_COUNT),
    ROW("maxProperties", FORM_COUNT),
    ROW("uniqueItems", FORM_BOOLEAN),
    ROW("pattern", FORM_STRING),
    ROW("format", FORM_STRING),
    ROW("enum", FORM_ARRAY),
    ROW("allOf", FORM_ARRAY),
    ROW("anyOf", FORM_ARRAY),
    ROW("oneOf", FORM_ARRAY),
    ROW("prefixItems", FORM_ARRAY),
    ROW("properties", FORM_OBJECT),
    ROW("patternProperties", FORM_OBJECT),
    ROW("dependencies", FORM_OBJECT),
    ROW("dependentSchemas", FORM_OBJECT),
    ROW("dependentRequired", FORM_OBJECT),
    ROW("required", FORM_NAMES),
};
#undef ROW

static bool is_boolean(enum tree_kind kind) {
    return kind == TREE_TRUE || kind == TREE_FALSE;
}

/* Large ones are counts, too; 2.0 is one, 1.5 is none. */
static bool is_count(const struct tree *t, uint32_t value) {
    struct bytes text = tree_text(t, value);
    uint32_t count;
    return tree_kind(t, value) == TREE_NUMBER &&
           (tree_uint(t, value, &count) ||
            (text.data[0] != '-' && !memchr(text.data, '.', text.len)));
}

static bool is_names(const struct tree *t, uint32_t value) {
    for (uint32_t n = tree_first(t, value); n; n = tree_next(t, n))
        if (tree_kind(t, n) != TREE_STRING)
            return false;
    return tree_kind(t, value) == TREE_ARRAY || is_boolean(tree_kind(t, value));
}

static bool has_form(const struct tree *t, uint32_t value, enum form form) {
    enum tree_kind kind = tree_kind(t, value);
    switch (form) {
    case FORM_NUMBER: return kind == TREE_NUMBER;
    case FORM_BOUND: return kind == TREE_NUMBER || is_boolean(kind);
    case FORM_COUNT: return is_count(t, value);
    case FORM_BOOLEAN: return is_boolean(kind);
    case FORM_STRING: return kind == TREE_STRING;
    case FORM_ARRAY: return kind == TREE_ARRAY;
    case FORM_OBJECT: return kind == TREE_OBJECT;
    case FORM_NAMES: return is_names(t, value);
    }
    return false;
}

/* Whether a keyword's value, if it is one of these, has its form; else it is refused. */
static bool check_keyword(struct schema *s, uint32_t keyword) {
    struct bytes key = tree_key(&s->t, keyword);
    for (size_t i = 0; i < ARRAY_LEN(FORMS); i++)
        if (key.len == FORMS[i].len && !memcmp(key.data, FORMS[i].keyword, key.len)) {
            bool fits = has_form(&s->t, keyword, FORMS[i].form);
            if (!fits)
                schema_refuse(s, keyword, NEEDS[FORMS[i].form], false);
            return fits;
        }
    return true;
}

bool schema_check(struct schema *s, uint32_t node) {
    const struct tree *t = &s->t;
    while (s->checked.count <= node)
        vec_push(&s->checked, false);
    if (s->checked.items[node] || (s->ref_alone && tree_get(t, node, "$ref")))
        return true;
    s->checked.items[node] = true;
    for (uint32_t k = tree_first(t, node); k; k = tree_next(t, k))
        if (!check_keyword(s, k))
            return false;
    return true;
}
