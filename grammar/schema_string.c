/*
 * schema_string.c - strings: lengths, patterns, formats; values of enum and const.
 */
#include "grammar/schema_internal.h"

#include "formats/json.h"

enum { FEW_NUMBERS = 32 }; /* the numbers of a longer list are taken without exponents alone */

/* RFC 3339 */
#define DATE                                                                                       \
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|"                                    \
    "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|"                              \
    "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
/* A leap second is one in UTC; with other offsets it is left out. */
#define TIME                                                                                           \
    "(?:(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d))|" \
    "23:59:60(?:\\.\\d+)?(?:[Zz]|[+-]00:00))"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4  OCTET "(?:\\." OCTET "){3}"
#define H     "[0-9A-Fa-f]{1,4}"
/* RFC 4291, written out by the number of groups in front of "::" */
#define IPV6                                                                                       \
    "(?:(?:" H ":){7}" H "|(?:" H ":){1,7}:|(?:" H ":){1,6}:" H "|(?:" H ":){1,5}(?::" H "){1,2}|" \
    "(?:" H ":){1,4}(?::" H "){1,3}|(?:" H ":){1,3}(?::" H "){1,4}|"                               \
    "(?:" H ":){1,2}(?::" H "){1,5}|" H ":(?::" H "){1,6}|:(?:(?::" H "){1,7}|:)|"                 \
    "(?:" H ":){6}" IPV4 "|::(?:" H ":){0,5}" IPV4 "|(?:" H ":){1,5}:(?:" H ":){0,1}" IPV4 ")"
#define ATOM     "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define URI_TAIL "(?:[A-Za-z0-9._~:/?\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
#define FRAGMENT "(?:#" URI_TAIL ")?"
#define SCHEME   "[A-Za-z][A-Za-z0-9+.-]*:"
/* A relative reference's first segment holds no colon (RFC 3986, 4.2). */
#define RELATIVE      "(?:[A-Za-z0-9._~@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*(?:[/?]" URI_TAIL ")?"
#define VARIABLE_CHAR "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
#define VARIABLE      VARIABLE_CHAR "(?:\\.?" VARIABLE_CHAR ")*(?:\\*|:[1-9]\\d{0,3})?"
#define PERIOD        "(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)"
#define CLOCK         "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"

static const struct {
    const char *name, *pattern;
} FORMATS[] = {
    {"date-time", DATE "[Tt]" TIME},
    {"date", DATE},
    {"time", TIME},
    {"duration", "P(?:" PERIOD "(?:" CLOCK ")?|" CLOCK "|\\d+W)"},
    {"email", ATOM "(?:\\." ATOM ")*@" LABEL "(?:\\." LABEL ")*"},
    {"hostname", LABEL "(?:\\." LABEL ")*"},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uuid", "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"},
    {"uri", SCHEME URI_TAIL FRAGMENT},
    {"uri-reference", "(?:" SCHEME URI_TAIL "|" RELATIVE ")" FRAGMENT},
    /* RFC 6570: literals and expressions in braces */
    {"uri-template",
     "(?:[^\\x00-\\x20\"%<>\\\\^`{|}\\x7f]|%[0-9A-Fa-f]{2}|\\{[+#./;?&=,!@|]?" VARIABLE
     "(?:," VARIABLE ")*\\})*"},
    {"json-pointer", "(?:/(?:[^~/]|~[01])*)*"},
    {"relative-json-pointer", "(?:0|[1-9]\\d*)(?:#|(?:/(?:[^~/]|~[01])*)*)"},
};

/* contentEncoding: RFC 4648, with its padding */
#define BASE64 "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
/* contentMediaType: JSON with arrays and objects two deep, which is what an automaton can hold */
#define JSON_STRING "\"(?:[^\"\\\\\\x00-\\x1f]|\\\\(?:[\"\\\\/bfnrt]|u[0-9A-Fa-f]{4}))*\""
#define JSON_LEAF   JSON_STRING "|-?(?:0|[1-9]\\d*)(?:\\.\\d+)?(?:[eE][+-]?\\d+)?|true|false|null|"
#define JSON_SPACE  "[ \\t\\r\\n]*"
#define JSON_AROUND(leaf, value)                                                                   \
    JSON_SPACE "(?:" leaf "\\[(?:" JSON_SPACE "|" value "(?:," value ")*)\\]|\\{(?:" JSON_SPACE    \
               "|" JSON_SPACE JSON_STRING JSON_SPACE ":" value                                     \
               "(?:," JSON_SPACE JSON_STRING JSON_SPACE ":" value ")*)\\})" JSON_SPACE
#define JSON_FLAT JSON_SPACE "(?:" JSON_LEAF "\\[" JSON_SPACE "\\]|\\{" JSON_SPACE "\\})" JSON_SPACE
#define JSON_TEXT JSON_AROUND(JSON_LEAF, JSON_AROUND(JSON_LEAF, JSON_FLAT))

/* ---- automata of strings ---- */

/* *have: what was gathered so far, if anything; joined with *more, which is taken. */
static bool join(struct schema *s, struct dfa *have, bool *any, struct dfa *more) {
    struct dfa both;
    struct error err;
    if (*any) {
        *have = *more;
        *any = false;
        return true;
    }
    int rc = dfa_and(have, more, &s->b->fuel, &both, &err);
    dfa_release(have);
    dfa_release(more);
    *have = (struct dfa){0};
    if (rc) {
        schema_fail(s, err.code, "%s", err.text);
        return false;
    }
    *have = both;
    return true;
}

static bool add_pattern(struct schema *s, const char *keyword, struct bytes pattern, bool whole,
                        struct dfa *have, bool *any) {
    struct dfa d;
    struct error err;
    int rc = regex_to_dfa(s->b, pattern, whole, &d, &err);
    if (rc) {
        schema_fail(s, rc, "keyword \"%s\": %s", keyword, err.text);
        return false;
    }
    return join(s, have, any, &d);
}

/* All strings but those of an automaton (made by schema_negate). */
static bool add_without(struct schema *s, struct dfa *out, struct dfa *have, bool *any) {
    struct dfa all, rest;
    struct error err;
    int rc = dfa_of_length(s->b, 0, REPEAT_NO_END, &all, &err);
    if (!rc) {
        rc = dfa_without(&all, out, &s->b->fuel, &rest, &err);
        dfa_release(&all);
    }
    dfa_release(out);
    if (rc) {
        schema_fail(s, rc, "%s", err.text);
        return false;
    }
    return join(s, have, any, &rest);
}

static bool add_not_enum(struct schema *s, uint32_t list, struct dfa *have, bool *any) {
    VEC(struct bytes) texts = {0};
    struct dfa d;
    struct error err;
    for (uint32_t k = tree_first(&s->t, list); k; k = tree_next(&s->t, k))
        if (tree_kind(&s->t, k) == TREE_STRING)
            vec_push(&texts, tree_text(&s->t, k));
    bool ok = true;
    if (texts.count) {
        int rc = dfa_of_texts(s->b, texts.items, texts.count, false, &d, &err);
        if (rc)
            schema_fail(s, rc, "%s", err.text);
        ok = !rc && add_without(s, &d, have, any);
    }
    vec_release(&texts);
    return ok;
}

/* Keywords that say what a string holds, as draft 7 lets them bind. Other encodings and types say
 * nothing that could be enforced. */
static bool add_content(struct schema *s, uint32_t node, struct dfa *have, bool *any) {
    uint32_t type = tree_get(&s->t, node, "contentMediaType");
    uint32_t encoding = tree_get(&s->t, node, "contentEncoding");
    bool json = type && tree_is(&s->t, type, "application/json");
    bool base64 = encoding && tree_is(&s->t, encoding, "base64");
    if (json && base64) {
        schema_fail(s, ERR_UNSUPPORTED,
                    "keyword \"contentMediaType\": JSON in base64 cannot be enforced");
        return false;
    }
    if (base64)
        return add_pattern(s, "contentEncoding", bytes_str(BASE64), true, have, any);
    if (json && !encoding)
        return add_pattern(s, "contentMediaType", bytes_str(JSON_TEXT), true, have, any);
    return true;
}

static bool add_member(struct schema *s, uint32_t node, struct dfa *have, bool *any) {
    uint32_t pattern = tree_get(&s->t, node, "pattern");
    uint32_t format = tree_get(&s->t, node, "format");
    uint32_t other = tree_get(&s->t, node, KEY_NOT_PATTERN);
    bool ok = true;
    if (pattern && tree_kind(&s->t, pattern) == TREE_STRING)
        ok = add_pattern(s, "pattern", tree_text(&s->t, pattern), false, have, any);
    for (size_t i = 0; i < ARRAY_LEN(FORMATS) && format && ok; i++)
        if (tree_is(&s->t, format, FORMATS[i].name))
            ok = add_pattern(s, "format", bytes_str(FORMATS[i].pattern), true, have, any);
    ok = ok && add_content(s, node, have, any);
    if (ok && other) {
        struct dfa d;
        struct error err;
        int rc = regex_to_dfa(s->b, tree_text(&s->t, other), false, &d, &err);
        if (rc)
            schema_fail(s, rc, "keyword \"pattern\": %s", err.text);
        ok = !rc && add_without(s, &d, have, any);
    }
    return ok && add_not_enum(s, tree_get(&s->t, node, KEY_NOT_ENUM), have, any);
}

static void length_bounds(struct schema *s, const conjunction *c, uint32_t *min, uint32_t *max) {
    *min = 0;
    *max = REPEAT_NO_END;
    for (size_t i = 0; i < c->count; i++) {
        uint32_t bound;
        if (tree_uint(&s->t, tree_get(&s->t, c->items[i].node, "minLength"), &bound))
            *min = MAX(*min, bound);
        if (tree_uint(&s->t, tree_get(&s->t, c->items[i].node, "maxLength"), &bound))
            *max = MIN(*max, bound);
    }
}

bool string_dfa(struct schema *s, const conjunction *c, struct dfa *out, bool *any) {
    uint32_t min, max;
    *any = true;
    *out = (struct dfa){0};
    for (size_t i = 0; i < c->count; i++)
        if (!add_member(s, c->items[i].node, out, any))
            return false;
    length_bounds(s, c, &min, &max);
    if (min == 0 && max == REPEAT_NO_END)
        return true;
    struct dfa lengths;
    struct error err;
    int rc = min > max ? dfa_of_length(s->b, 1, 0, &lengths, &err)
                       : dfa_of_length(s->b, min, max, &lengths, &err);
    if (rc) {
        dfa_release(out);
        schema_fail(s, rc, "%s", err.text);
        return false;
    }
    return join(s, out, any, &lengths);
}

/* Lengths alone are counted, so they cost no states; only beside a pattern they are written out. */
uint32_t leaf_string(struct schema *s, const conjunction *c) {
    uint32_t min, max;
    struct dfa d = {0};
    bool any = true;
    length_bounds(s, c, &min, &max);
    if (min > max)
        return expr_never(s->b);
    for (size_t i = 0; i < c->count; i++)
        if (!add_member(s, c->items[i].node, &d, &any))
            return expr_never(s->b);
    bool bare = schema_is_bare(s, c);
    if (any && !bare && !(s->form && s->form->stop_count))
        return expr_string(s->b, min, max);
    dfa_release(&d);
    if (!string_dfa(s, c, &d, &any))
        return expr_never(s->b);
    return bare ? schema_bare_text(s, c, any ? NULL : &d) : schema_quoted(s, any ? NULL : &d);
}

/* ---- values ---- */

/* The schema of which only this array or object is a value; then its members' order and white
 * space are free as everywhere. */
static uint32_t const_container(struct schema *s, uint32_t value) {
    bool object = tree_kind(&s->t, value) == TREE_OBJECT;
    uint32_t out = tree_new(&s->t, TREE_OBJECT);
    uint32_t kind = tree_new_string(&s->t, bytes_str(object ? "object" : "array"));
    tree_add(&s->t, out, "type", kind);
    uint32_t list = tree_add(&s->t, out, object ? "properties" : "prefixItems",
                             tree_new(&s->t, object ? TREE_OBJECT : TREE_ARRAY));
    uint32_t names = object ? tree_add(&s->t, out, "required", tree_new(&s->t, TREE_ARRAY)) : 0;
    for (uint32_t v = tree_first(&s->t, value); v; v = tree_next(&s->t, v)) {
        uint32_t one = tree_new(&s->t, TREE_OBJECT);
        tree_add(&s->t, one, "const", v);
        struct bytes key = tree_key(&s->t, v);
        if (object)
            tree_add(&s->t, names, NULL, tree_new_string(&s->t, key));
        tree_add_bytes(&s->t, list, tree_key(&s->t, v), one);
    }
    tree_add(&s->t, out, object ? "additionalProperties" : "items", tree_new(&s->t, TREE_FALSE));
    if (!object)
        tree_add(&s->t, out, "minItems", tree_new_uint(&s->t, tree_count(&s->t, value)));
    return schema_one(s, out);
}

static uint32_t const_value(struct schema *s, uint32_t value, bool few) {
    switch (tree_kind(&s->t, value)) {
    case TREE_NULL: return expr_text(s->b, "null");
    case TREE_TRUE: return expr_text(s->b, "true");
    case TREE_FALSE: return expr_text(s->b, "false");
    case TREE_NUMBER: return schema_number_expr(s, tree_text(&s->t, value), few);
    default: return const_container(s, value);
    }
}

uint32_t schema_enum(struct schema *s, const conjunction *c, const uint32_t *values, size_t count) {
    VEC(uint32_t) terms = {0};
    VEC(struct bytes) texts = {0};
    for (size_t i = 0; i < count; i++) {
        if (tree_kind(&s->t, values[i]) == TREE_STRING) {
            vec_push(&texts, tree_text(&s->t, values[i]));
            continue;
        }
        uint32_t e = const_value(s, values[i], count <= FEW_NUMBERS);
        vec_push(&terms, e);
    }
    if (texts.count && !s->b->failed) {
        struct dfa d;
        struct error err;
        int rc = dfa_of_texts(s->b, texts.items, texts.count, false, &d, &err);
        uint32_t e = rc                     ? schema_fail(s, rc, "%s", err.text)
                     : schema_is_bare(s, c) ? schema_bare_text(s, c, &d)
                                            : schema_quoted(s, &d);
        vec_push(&terms, e);
    }
    uint32_t e = expr_alt(s->b, terms.items, terms.count);
    vec_release(&terms);
    vec_release(&texts);
    return e;
}
