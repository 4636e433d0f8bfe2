/*
 * schema_string.c - strings: lengths, patterns, formats; values of enum and const.
 */
#include "grammar/schema_internal.h"

#include <pthread.h>

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
#define HOST LABEL "(?:\\." LABEL ")*"
/* RFC 5321, 4.1.2; what stands in quotes, and addresses as literals */
#define ATOM_OF(more) "[A-Za-z0-9!#$%&'*+/=?^_`{|}~" more "-]+"
#define MAILBOX(more, host)                                                                        \
    "(?:" ATOM_OF(more) "(?:\\." ATOM_OF(more) ")*|\"(?:[ !#-\\[\\]-~" more                        \
                                               "]|\\\\[ -~])*\")@(?:" host "|\\[(?:" IPV4          \
                                               "|[Ii][Pp][Vv]6:" IPV6 ")\\])"

/* RFC 3986; `ucs` are the further characters of RFC 3987, `own` those of private use, in queries
 * alone. A relative reference's first segment holds no colon. */
#define UCS            "\\u00a0-\\ud7ff\\uf900-\\ufdcf\\ufdf0-\\uffef\\u{10000}-\\u{efffd}"
#define OWN            "\\ue000-\\uf8ff\\u{f0000}-\\u{10fffd}"
#define UNIT(more)     "(?:[A-Za-z0-9._~!$&'()*+,;=" more "-]|%[0-9A-Fa-f]{2})"
#define SCHEME         "[A-Za-z][A-Za-z0-9+.-]*:"
#define SEGMENTS(ucs)  "(?:/" UNIT(":@" ucs) "*)*"
#define IP_LITERAL     "\\[(?:" IPV6 "|[Vv][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]"
#define AUTHORITY(ucs) "(?:" UNIT(":" ucs) "*@)?(?:" IP_LITERAL "|" UNIT(ucs) "*)(?::[0-9]*)?"
#define HIERARCHY(ucs, first)                                                                      \
    "(?://" AUTHORITY(ucs) SEGMENTS(ucs) "|/(?:" UNIT(":@" ucs) "+" SEGMENTS(ucs) ")?|" UNIT(      \
        first ucs) "+" SEGMENTS(ucs) ")?"
#define QUERY_FRAGMENT(ucs, own) "(?:\\?" UNIT(":@/?" ucs own) "*)?(?:#" UNIT(":@/?" ucs) "*)?"
#define URI(ucs, own)            SCHEME HIERARCHY(ucs, ":@") QUERY_FRAGMENT(ucs, own)
#define REFERENCE(ucs, own)                                                                        \
    "(?:" SCHEME HIERARCHY(ucs, ":@") "|" HIERARCHY(ucs, "@") ")" QUERY_FRAGMENT(ucs, own)
/* RFC 5892, as far as a small automaton holds it: a label begins with no mark, neither begins nor
 * ends with a hyphen, and has nothing that is disallowed among letters. A middle dot stands between
 * l's, a keraia before a Greek letter, geresh and gershayim behind a Hebrew one. */
#define IDN_NOT                                                                                    \
    "\\x00-\\x7f\\u00b7\\u0375\\u05f3\\u05f4\\u0640\\u07fa\\u3002\\u302e\\u302f\\u3031-\\u3035"    \
    "\\u303b\\uff0e\\uff20\\uff61"                                                                 \
    "\\u0080-\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"
/* marks of the scripts that are seen most */
#define IDN_MARK                                                                                   \
    "\\u0300-\\u036f\\u0483-\\u0489\\u0591-\\u05bd\\u0610-\\u061a\\u064b-\\u065f\\u0900-\\u0903"   \
    "\\u093a-\\u093c\\u093e-\\u094f\\u1ab0-\\u1aff\\u1dc0-\\u1dff\\u20d0-\\u20ff\\u302a-\\u302f"   \
    "\\u3099\\u309a\\ufe20-\\ufe2f"
#define IDN_MARKED                                                                                 \
    "l(?:\\u00b7l)+|\\u0375[\\u0370-\\u03ff\\u1f00-\\u1fff]|"                                      \
    "[\\u0591-\\u05f2\\ufb1d-\\ufb4f][\\u05f3\\u05f4]+"
#define IDN_FIRST     "(?:[^" IDN_NOT IDN_MARK "\\u200c\\u200d]|" IDN_MARKED ")"
#define IDN_OTHER     "(?:[^" IDN_NOT "]|" IDN_MARKED ")"
#define IDN_LABEL     "(?:[A-Za-z0-9]|" IDN_FIRST ")(?:-*(?:[A-Za-z0-9]|" IDN_OTHER "))*"
#define IDN_HOST      IDN_LABEL "(?:[.\\u3002\\uff0e\\uff61]" IDN_LABEL ")*"
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
    {"email", MAILBOX("", HOST)},
    {"idn-email", MAILBOX("\\u0080-\\ud7ff\\ue000-\\u{10ffff}", IDN_HOST)},
    {"hostname", HOST},
    {"idn-hostname", IDN_HOST},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uuid", "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"},
    {"uri", URI("", "")},
    {"uri-reference", REFERENCE("", "")},
    {"iri", URI(UCS, OWN)},
    {"iri-reference", REFERENCE(UCS, OWN)},
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

/* A format's automaton is made once in a process, however many schemas ask for it; each of them is
 * charged what it took, so that its limits do not depend on those before. */
static struct {
    struct dfa dfa; /* empty: not made yet */
    uint32_t cost;  /* states of the fuel */
} made[ARRAY_LEN(FORMATS)];
static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;

static void dfa_copy(const struct dfa *from, struct dfa *to) {
    *to = (struct dfa){0};
    vec_reserve(&to->states, from->states.count);
    vec_reserve(&to->edges, from->edges.count);
    memcpy(to->states.items, from->states.items, from->states.count * sizeof *to->states.items);
    if (from->edges.count)
        memcpy(to->edges.items, from->edges.items, from->edges.count * sizeof *to->edges.items);
    to->states.count = from->states.count;
    to->edges.count = from->edges.count;
}

static int format_dfa(struct builder *b, size_t format, struct dfa *out, struct error *err) {
    int rc = 0;
    pthread_mutex_lock(&made_lock);
    uint32_t before = b->fuel.states, cost = made[format].cost;
    if (made[format].dfa.states.count) {
        if (cost > before)
            rc = error_set(err, ERR_LIMIT, "the schema has too many states");
        b->fuel.states -= MIN(cost, before);
    } else {
        rc = regex_to_dfa(b, bytes_str(FORMATS[format].pattern), true, &made[format].dfa, err);
        if (rc)
            dfa_release(&made[format].dfa);
        made[format].cost = before - b->fuel.states;
    }
    if (!rc)
        dfa_copy(&made[format].dfa, out);
    pthread_mutex_unlock(&made_lock);
    return rc;
}

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

/* All strings but those of an automaton, which is taken. */
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

/* The place in FORMATS of what a keyword names; their number: it names none of them. */
static size_t find_format(struct schema *s, uint32_t name) {
    size_t i = name && tree_kind(&s->t, name) == TREE_STRING ? 0 : ARRAY_LEN(FORMATS);
    while (i < ARRAY_LEN(FORMATS) && !tree_is(&s->t, name, FORMATS[i].name))
        i++;
    return i;
}

bool schema_format_known(struct schema *s, uint32_t format) {
    return find_format(s, format) < ARRAY_LEN(FORMATS);
}

/* not (which schema_negate made): all strings that are none of the pattern's. *longest (NULL: see to it
 * here): as regex_to_counted. */
static bool add_pattern(struct schema *s, const char *keyword, struct bytes pattern, bool whole,
                        bool not, uint32_t *longest, struct dfa *have, bool *any) {
    struct dfa d;
    struct error err;
    int rc = regex_to_counted(s->b, pattern, whole, longest, &d, &err);
    if (rc) {
        schema_fail(s, rc, "keyword \"%s\": %s", keyword, err.text);
        return false;
    }
    return not ? add_without(s, &d, have, any) : join(s, have, any, &d);
}

/* The same of a format; one that is not known says nothing. */
static bool add_format(struct schema *s, uint32_t name, bool not, struct dfa *have, bool *any) {
    size_t format = find_format(s, name);
    struct dfa d;
    struct error err;
    if (format == ARRAY_LEN(FORMATS))
        return true;
    int rc = format_dfa(s->b, format, &d, &err);
    if (rc) {
        schema_fail(s, rc, "keyword \"format\": %s", err.text);
        return false;
    }
    return not ? add_without(s, &d, have, any) : join(s, have, any, &d);
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
        return add_pattern(s, "contentEncoding", bytes_str(BASE64), true, false, NULL, have, any);
    if (json && !encoding)
        return add_pattern(s, "contentMediaType", bytes_str(JSON_TEXT), true, false, NULL, have,
                           any);
    return true;
}

/* *max: how long the strings may be, which the caller sees to. */
static bool add_member(struct schema *s, uint32_t node, uint32_t *max, struct dfa *have,
                       bool *any) {
    uint32_t pattern = tree_get(&s->t, node, "pattern");
    uint32_t other = tree_get(&s->t, node, KEY_NOT_PATTERN);
    bool ok = true;
    if (pattern && tree_kind(&s->t, pattern) == TREE_STRING)
        ok = add_pattern(s, "pattern", tree_text(&s->t, pattern), false, false, max, have, any);
    if (other)
        ok = ok && add_pattern(s, "pattern", tree_text(&s->t, other), false, true, NULL, have, any);
    if (!s->annotates)
        ok = ok && add_format(s, tree_get(&s->t, node, "format"), false, have, any) &&
             add_content(s, node, have, any);
    return ok && add_format(s, tree_get(&s->t, node, KEY_NOT_FORMAT), true, have, any) &&
           add_not_enum(s, tree_get(&s->t, node, KEY_NOT_ENUM), have, any);
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

/* Of what was gathered, the texts of min to max characters. */
static bool join_lengths(struct schema *s, uint32_t min, uint32_t max, struct dfa *out, bool *any) {
    struct dfa lengths;
    struct error err;
    if (min == 0 && max == REPEAT_NO_END)
        return true;
    int rc = min > max ? dfa_of_length(s->b, 1, 0, &lengths, &err)
                       : dfa_of_length(s->b, min, max, &lengths, &err);
    if (rc) {
        dfa_release(out);
        schema_fail(s, rc, "%s", err.text);
        return false;
    }
    return join(s, out, any, &lengths);
}

bool string_dfa(struct schema *s, const conjunction *c, struct dfa *out, bool *any) {
    uint32_t min, max;
    *any = true;
    *out = (struct dfa){0};
    length_bounds(s, c, &min, &max);
    for (size_t i = 0; i < c->count; i++)
        if (!add_member(s, c->items[i].node, &max, out, any))
            return false;
    return join_lengths(s, min, max, out, any);
}

/* Every text is accepted. */
static bool accepts_all(const struct dfa *d) {
    return d->states.count == 1 && d->states.items[0].label != FA_NONE && d->edges.count == 1 &&
           d->edges.items[0].lo == 0 && d->edges.items[0].hi == 0x10ffff;
}

/* States of bytes that an automaton takes, written out for each of `times` characters; roughly. */
static uint64_t written_size(const struct dfa *d, uint32_t times) {
    uint64_t sum = 0;
    for (size_t i = 0; i < d->edges.count; i++)
        sum += d->edges.items[i].hi < 0x80 ? 1 : 8;
    return sum * times;
}

/* A string of a pattern that has a length as well. The length is written out into the pattern's states;
 * where that makes many, its greatest value is counted. Takes d. */
static uint32_t patterned_string(struct schema *s, struct dfa *d, uint32_t min, uint32_t max) {
    enum { WRITTEN_MAX = 8192 };
    bool any = false;
    if (accepts_all(d)) {
        dfa_release(d);
        return expr_string(s->b, min, max);
    }
    if (max == REPEAT_NO_END || written_size(d, max) <= WRITTEN_MAX)
        return join_lengths(s, min, max, d, &any) ? schema_quoted(s, d) : expr_never(s->b);
    if (!join_lengths(s, min, REPEAT_NO_END, d, &any))
        return expr_never(s->b);
    if (dfa_longest(d) <= max)
        return schema_quoted(s, d);
    uint32_t quote = expr_text(s->b, "\""), text = expr_counted(s->b, d, max);
    return expr_concat(s->b, (uint32_t[]){quote, text, quote}, 3);
}

/* Lengths alone are counted, so they cost no states. */
uint32_t leaf_string(struct schema *s, const conjunction *c) {
    uint32_t min, max;
    struct dfa d = {0};
    bool any = true;
    length_bounds(s, c, &min, &max);
    if (min > max)
        return expr_never(s->b);
    for (size_t i = 0; i < c->count; i++)
        if (!add_member(s, c->items[i].node, &max, &d, &any))
            return expr_never(s->b);
    bool bare = schema_is_bare(s, c);
    if (any && !bare && !(s->form && s->form->stop_count))
        return expr_string(s->b, min, max);
    if (!any && !s->form)
        return patterned_string(s, &d, min, max);
    if (!join_lengths(s, min, max, &d, &any))
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
