/*
 * schema_values.c - what is asked of each value of an enum, so that thousands of values cost
 * little: lists are searched by hash, automata are made once for a schema and not for each value.
 */
#include "base/hash.h"
#include "formats/json.h"
#include "grammar/schema_internal.h"

enum { SHORT_LIST = 8, CHECKS_MAX = 1 << 20 };

void schema_values_release(struct schema *s) {
    for (size_t i = 0; i < s->lists.count; i++)
        mem_free(s->lists.items[i].slots);
    vec_release(&s->lists);
    vec_release(&s->tests);
}

bool schema_may_check(struct schema *s, uint32_t node, uint32_t value) {
    struct tree *t = &s->t;
    uint64_t members = tree_kind(t, value) == TREE_OBJECT ? tree_count(t, value) : 0;
    /* Keywords are sought one by one, and so are members of an object among its properties. */
    s->checks += 1 + tree_count(t, node) / 8;
    if (members > 8)
        s->checks += members *
                     (members + tree_count(t, tree_get(t, node, "properties")) +
                      tree_count(t, tree_get(t, node, "required"))) /
                     16;
    if (s->checks <= CHECKS_MAX)
        return true;
    schema_fail(s, ERR_LIMIT,
                "keyword \"enum\": checking its values takes more than %d steps beside all that "
                "is asked of them",
                CHECKS_MAX);
    return false;
}

/* ---- lists ---- */

/* Equal for values that tree_equal holds equal. */
static uint64_t hash_value(const struct tree *t, uint32_t value, uint64_t seed) {
    enum tree_kind kind = tree_kind(t, value);
    struct bytes text = tree_text(t, value);
    double number = 0;
    uint64_t sum = kind + seed;
    switch (kind) {
    case TREE_STRING: return hash64(text.data, text.len, seed);
    case TREE_NUMBER:
        if (!json_number_double(text, &number))
            return hash64(text.data, text.len, seed);
        number += 0.0; /* of -0 as well */
        return hash64(&number, sizeof number, seed);
    case TREE_ARRAY:
        for (uint32_t k = tree_first(t, value); k; k = tree_next(t, k))
            sum = sum * 31 + hash_value(t, k, seed);
        return hash64(&sum, sizeof sum, seed);
    case TREE_OBJECT: /* in any order */
        for (uint32_t k = tree_first(t, value); k; k = tree_next(t, k))
            sum += hash64(tree_key(t, k).data, tree_key(t, k).len, hash_value(t, k, seed));
        return hash64(&sum, sizeof sum, seed);
    default: return sum;
    }
}

static uint32_t *find_slot(const struct tree *t, const struct value_list *l, uint32_t value) {
    size_t at = hash_value(t, value, l->seed) & (l->cap - 1);
    while (l->slots[at] && !tree_equal(t, l->slots[at], value))
        at = (at + 1) & (l->cap - 1);
    return &l->slots[at];
}

static const struct value_list *index_of(struct schema *s, uint32_t list) {
    uint32_t *bucket = &s->list_buckets[list % ARRAY_LEN(s->list_buckets)];
    for (uint32_t i = *bucket; i; i = s->lists.items[i - 1].next)
        if (s->lists.items[i - 1].node == list)
            return &s->lists.items[i - 1];
    struct value_list l = {.node = list, .next = *bucket, .cap = 16, .seed = random_u128().lo};
    while (l.cap < 2 * (size_t)tree_count(&s->t, list))
        l.cap *= 2;
    l.slots = mem_calloc(l.cap, sizeof *l.slots);
    for (uint32_t k = tree_first(&s->t, list); k; k = tree_next(&s->t, k)) {
        if (!tree_equal(&s->t, k, k)) /* a number past all bounds equals none */
            continue;
        uint32_t *slot = find_slot(&s->t, &l, k);
        *slot = *slot ? *slot : k;
    }
    vec_push(&s->lists, l);
    *bucket = (uint32_t)s->lists.count;
    return &s->lists.items[s->lists.count - 1];
}

bool schema_in_list(struct schema *s, uint32_t list, uint32_t value) {
    if (tree_count(&s->t, list) > SHORT_LIST)
        return *find_slot(&s->t, index_of(s, list), value) != 0;
    for (uint32_t k = tree_first(&s->t, list); k; k = tree_next(&s->t, k))
        if (tree_equal(&s->t, k, value))
            return true;
    return false;
}

/* ---- strings and numbers ---- */

static bool asks_any(struct schema *s, uint32_t node, const char *const *keywords) {
    for (; *keywords; keywords++)
        if (tree_get(&s->t, node, *keywords))
            return true;
    return false;
}

/* What a schema's keywords leave of the type: an EXPR_DFA, EXPR_NEVER or something that takes
 * all. */
static uint32_t make_test(struct schema *s, uint32_t node, bool string) {
    conjunction c = {0};
    struct dfa d;
    bool any = false;
    uint32_t e = 0;
    conjunction_add(&c, node, 0);
    if (!string) {
        bool plain = s->b->plain; /* which values of a list may be, however many digits they have */
        s->b->plain = false;
        e = leaf_number(s, &c, TYPE_INTEGER | TYPE_FRACTION);
        s->b->plain = plain;
    } else if (string_dfa(s, &c, &d, &any))
        e = any ? expr_empty(s->b) : expr_dfa(s->b, &d, EXPR_DFA);
    vec_release(&c);
    return e;
}

/* The keys that a pattern of "patternProperties", whose schema is at this node, matches. */
static uint32_t make_key_test(struct schema *s, uint32_t node) {
    struct dfa d;
    struct error err;
    int rc = regex_to_dfa(s->b, tree_key(&s->t, node), false, &d, &err);
    return rc ? schema_fail(s, rc, "keyword \"patternProperties\": %s", err.text)
              : expr_dfa(s->b, &d, EXPR_DFA);
}

static uint32_t test_of(struct schema *s, uint32_t node, enum text_test_kind kind) {
    uint32_t *bucket = &s->test_buckets[node % ARRAY_LEN(s->test_buckets)];
    for (uint32_t i = *bucket; i; i = s->tests.items[i - 1].next)
        if (s->tests.items[i - 1].node == node && s->tests.items[i - 1].kind == kind)
            return s->tests.items[i - 1].expr;
    uint32_t e =
        kind == TEST_KEY ? make_key_test(s, node) : make_test(s, node, kind == TEST_STRING);
    vec_push(&s->tests, ((struct text_test){node, e, *bucket, kind}));
    *bucket = (uint32_t)s->tests.count;
    return e;
}

bool schema_key_matches(struct schema *s, uint32_t node, struct bytes key) {
    uint32_t test = test_of(s, node, TEST_KEY); /* first: it moves the expressions */
    const struct expr x = s->b->exprs.items[test];
    return x.kind == EXPR_DFA && dfa_accepts(&s->b->dfas.items[x.a], key);
}

static size_t count_chars(struct bytes text) {
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += (text.data[i] & 0xC0) != 0x80;
    return count;
}

bool schema_text_accepted(struct schema *s, uint32_t node, uint32_t value) {
    static const char *const OF_STRINGS[] = {"pattern",         "format",
                                             "contentEncoding", "contentMediaType",
                                             KEY_NOT_PATTERN,   KEY_NOT_ENUM,
                                             KEY_NOT_FORMAT,    NULL},
                             *const OF_NUMBERS[] = {"minimum",
                                                    "maximum",
                                                    "exclusiveMinimum",
                                                    "exclusiveMaximum",
                                                    "multipleOf",
                                                    KEY_NOT_MULTIPLE,
                                                    NULL};
    struct bytes text = tree_text(&s->t, value);
    bool string = tree_kind(&s->t, value) == TREE_STRING;
    if (string) {
        uint32_t bound, least = tree_get(&s->t, node, "minLength"),
                        most = tree_get(&s->t, node, "maxLength");
        size_t chars = least || most ? count_chars(text) : 0;
        if ((tree_uint(&s->t, least, &bound) && chars < bound) ||
            (tree_uint(&s->t, most, &bound) && chars > bound))
            return false;
    }
    if (!asks_any(s, node, string ? OF_STRINGS : OF_NUMBERS))
        return true;
    uint32_t test =
        test_of(s, node, string ? TEST_STRING : TEST_NUMBER); /* first: it moves the expressions */
    const struct expr x = s->b->exprs.items[test];
    if (x.kind != EXPR_DFA)
        return x.kind != EXPR_NEVER;
    if (string)
        return dfa_accepts(&s->b->dfas.items[x.a], text);
    struct buf plainly = {0}; /* as the automata read numbers: without exponent */
    bool known = schema_number_plainly(text, &plainly),
         fits = known && dfa_accepts(&s->b->dfas.items[x.a], buf_bytes(&plainly));
    buf_release(&plainly);
    if (!known)
        schema_fail(s, ERR_UNSUPPORTED, "a number of a list has too many digits");
    return fits;
}
