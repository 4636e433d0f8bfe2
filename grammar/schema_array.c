/*
 * schema_array.c - arrays: items by place, their number, how many must satisfy a schema.
 */
#include "grammar/schema_internal.h"

enum { PREFIX_MAX = 1000, UNIQUE_MAX = 10, COUNTED_MAX = 4096 };
#define UNIQUE_TEXT "10"

struct array_rules {
    uint32_t min, max;
    uint32_t prefix; /* places with schemas of their own */
    bool unique;     /* items differ, and are told apart while they are read */
};

/* How many items satisfy a schema. */
struct contained {
    uint32_t schema; /* 0: that is not asked */
    uint32_t min, max;
};

void schema_items(struct schema *s, uint32_t node, uint32_t *prefix, uint32_t *rest) {
    uint32_t items = tree_get(&s->t, node, "items");
    *prefix = tree_get(&s->t, node, "prefixItems");
    *rest = items;
    if (tree_kind(&s->t, items) == TREE_ARRAY) {
        *prefix = items;
        *rest = tree_get(&s->t, node, "additionalItems");
    }
}

/* What all members ask of the item at a place (or behind all places). */
static uint32_t item_at(struct schema *s, const conjunction *c, uint32_t place, uint32_t more) {
    conjunction all = {0};
    bool evaluated = false;
    for (size_t i = 0; i < c->count; i++) {
        uint32_t prefix, rest;
        schema_items(s, c->items[i].node, &prefix, &rest);
        uint32_t k = tree_first(&s->t, prefix);
        for (uint32_t n = 0; n < place && k; n++)
            k = tree_next(&s->t, k);
        if (k || rest)
            conjunction_add(&all, k ? k : rest, 0);
        bool all_are =
            tree_kind(&s->t, tree_get(&s->t, c->items[i].node, "unevaluatedItems")) == TREE_TRUE;
        evaluated |= (k || rest || all_are) && !tree_get(&s->t, c->items[i].node, KEY_SILENT);
    }
    uint32_t others = s->unevaluated ? tree_get(&s->t, s->unevaluated, "unevaluatedItems") : 0;
    if (others && !evaluated)
        conjunction_add(&all, others, 0);
    if (more)
        conjunction_add(&all, more, 0);
    return schema_all(s, &all);
}

/* The same as it stands in the array. */
static uint32_t placed_item(struct schema *s, const conjunction *c, const struct array_rules *r,
                            uint32_t place, uint32_t more) {
    uint32_t item = item_at(s, c, place, more);
    return r->unique ? expr_item(s->b, item) : item;
}

static bool gather_rules(struct schema *s, const conjunction *c, struct array_rules *r,
                         struct contained *contains) {
    *r = (struct array_rules){.max = REPEAT_NO_END};
    *contains = (struct contained){.min = 1, .max = REPEAT_NO_END};
    for (size_t i = 0; i < c->count; i++) {
        uint32_t node = c->items[i].node, prefix, rest, bound;
        schema_items(s, node, &prefix, &rest);
        r->prefix = MAX(r->prefix, tree_count(&s->t, prefix));
        if (tree_uint(&s->t, tree_get(&s->t, node, "minItems"), &bound))
            r->min = MAX(r->min, bound);
        if (tree_uint(&s->t, tree_get(&s->t, node, "maxItems"), &bound))
            r->max = MIN(r->max, bound);
        struct contained one = {tree_get(&s->t, node, "contains"), 1, REPEAT_NO_END};
        if (tree_uint(&s->t, tree_get(&s->t, node, "minContains"), &bound))
            one.min = bound;
        if (tree_uint(&s->t, tree_get(&s->t, node, "maxContains"), &bound))
            one.max = bound;
        if (!one.schema || (one.min == 0 && one.max == REPEAT_NO_END))
            continue;
        if (contains->schema) {
            schema_fail(s, ERR_UNSUPPORTED, "keyword \"contains\" twice");
            return false;
        }
        *contains = one;
    }
    return true;
}

/* Items, from the place on; the text in front of the first is written by the caller. */
static uint32_t items_from(struct schema *s, const conjunction *c, const struct array_rules *r,
                           uint32_t place) {
    struct builder *b = s->b;
    uint32_t space = expr_space(b);
    uint32_t comma = expr_concat(b, (uint32_t[]){space, expr_text(b, ","), space}, 3);
    uint32_t rest = FA_NONE; /* what may stand behind place i, from the end on */
    uint32_t tail_min = r->min > r->prefix ? r->min - r->prefix : 0;
    uint32_t tail_max = r->max == REPEAT_NO_END ? REPEAT_NO_END
                        : r->max > r->prefix    ? r->max - r->prefix
                                                : 0;
    uint32_t item = tail_max ? placed_item(s, c, r, r->prefix, 0) : expr_never(b);
    if (r->prefix == 0) {
        /* item (, item)* */
        uint32_t next = expr_concat(b, (uint32_t[]){comma, item}, 2);
        uint32_t more = expr_repeat(b, next, tail_min ? tail_min - 1 : 0,
                                    tail_max == REPEAT_NO_END ? tail_max : tail_max - 1);
        return expr_concat(b, (uint32_t[]){item, more}, 2);
    }
    uint32_t next = expr_concat(b, (uint32_t[]){comma, item}, 2);
    rest = expr_repeat(b, next, tail_min, tail_max);
    for (uint32_t i = r->prefix; i-- > place;) {
        uint32_t here = i < r->max ? placed_item(s, c, r, i, 0) : expr_never(b);
        uint32_t with = expr_concat(b, (uint32_t[]){here, rest}, 2);
        if (i == 0)
            return with;
        uint32_t behind = expr_concat(b, (uint32_t[]){comma, with}, 2);
        rest = i >= r->min ? expr_repeat(b, behind, 0, 1) : behind;
    }
    return rest;
}

/* Items in a row, by how many came and how many of them counted: a rule for each pair, which says what may follow. Counters
 * stop where more makes no difference. */
static uint32_t items_counted(struct schema *s, const conjunction *c, const struct array_rules *r,
                              const struct contained *k) {
    struct builder *b = s->b;
    bool bounded = k->max != REPEAT_NO_END, ends = r->max != REPEAT_NO_END;
    uint64_t places = ends ? r->max : MAX(MAX(r->min, r->prefix), 1u);
    uint64_t counts = bounded ? k->max : k->min;
    if (k->min > k->max || k->min > r->max || !places)
        return expr_never(b);
    if (bounded && ends)
        counts = MIN(counts, places);
    if ((places + 1) * (counts + 1) > COUNTED_MAX)
        return schema_fail(s, ERR_LIMIT, "keyword \"contains\" with bounds as large as these");
    uint32_t no = bounded ? schema_negate(s, k->schema, 0) : 0;
    if (bounded && !no)
        return schema_fail(s, ERR_UNSUPPORTED,
                           "keyword \"maxContains\": the schema of \"contains\" cannot be turned "
                           "around");
    uint32_t rules[COUNTED_MAX], width = (uint32_t)counts + 1, last = (uint32_t)places;
    bool ended[COUNTED_MAX] = {0}; /* nothing may follow, not even the end */
    for (uint32_t i = 0; i < (last + 1) * width; i++)
        rules[i] = builder_rule(b);
    uint32_t space = expr_space(b), one = 0, other = 0;
    uint32_t comma = expr_concat(b, (uint32_t[]){space, expr_text(b, ","), space}, 3);
    for (uint32_t i = last + 1; i-- > 0 && !b->failed;) {
        uint32_t to = MIN(i + 1, last), first = i == 0;
        if (i == last || i < r->prefix) { /* all places behind are alike */
            one = placed_item(s, c, r, MIN(i, r->prefix), k->schema);
            other = placed_item(s, c, r, MIN(i, r->prefix), no);
        }
        for (uint32_t n = width; n-- > 0;) {
            uint32_t ways[3], count = 0, more = to * width + n;
            uint32_t takes[] = {comma, one, 0}, leaves[] = {comma, other, 0};
            if (i && i >= r->min && n >= k->min)
                ways[count++] = expr_empty(b);
            if (n + 1 < width && (i < last || !ends) && !ended[more + 1]) {
                takes[2] = expr_rule(b, rules[more + 1]);
                ways[count++] = expr_concat(b, takes + first, 3 - first);
            }
            if (i < last && !ended[more]) {
                leaves[2] = expr_rule(b, rules[more]);
                ways[count++] = expr_concat(b, leaves + first, 3 - first);
            }
            uint32_t e = expr_alt(b, ways, count);
            ended[i * width + n] = b->exprs.items[e].kind == EXPR_NEVER;
            if (i == last && !ends) { /* any number of them, before what may follow */
                uint32_t others = expr_repeat(b, expr_concat(b, leaves, 2), 0, REPEAT_NO_END);
                e = expr_concat(b, (uint32_t[]){others, e}, 2);
            }
            builder_set_rule(b, rules[i * width + n], e);
        }
    }
    return ended[0] ? expr_never(b) : expr_rule(b, rules[0]);
}

/* The keyword where it asks for something, or 0. */
static uint32_t unique_of(struct schema *s, const conjunction *c) {
    for (size_t i = 0; i < c->count; i++) {
        uint32_t k = tree_get(&s->t, c->items[i].node, "uniqueItems");
        if (k && tree_kind(&s->t, k) == TREE_TRUE)
            return k;
    }
    return 0;
}

/* Different values, each of a list once: what may follow depends on the set of those that came. */
static uint32_t items_listed(struct schema *s, const conjunction *c, const struct array_rules *r,
                             const uint32_t *values, uint32_t count) {
    struct builder *b = s->b;
    uint32_t texts[UNIQUE_MAX], rules[1 << UNIQUE_MAX], terms[UNIQUE_MAX + 1];
    for (uint32_t v = 0; v < count; v++)
        texts[v] = schema_enum(s, c, &values[v], 1);
    if (r->min > count)
        return expr_never(b);
    uint32_t space = expr_space(b);
    uint32_t comma = expr_concat(b, (uint32_t[]){space, expr_text(b, ","), space}, 3);
    for (uint32_t set = 1u << count; set-- > 0;) {
        uint32_t came = (uint32_t)__builtin_popcount(set);
        size_t ways = 0;
        if (came && came >= r->min)
            terms[ways++] = expr_empty(b);
        for (size_t v = 0; v < count && came < r->max; v++) {
            if (set >> v & 1)
                continue;
            uint32_t next[] = {comma, texts[v], expr_rule(b, rules[set | 1u << v])};
            terms[ways++] = expr_concat(b, next + !came, 3 - !came);
        }
        uint32_t e = expr_alt(b, terms, ways);
        if (!set)
            return e;
        rules[set] = builder_rule(b);
        builder_set_rule(b, rules[set], e);
    }
    return expr_never(b);
}

/* The items are some of a list of values: true, with the expression of them. */
static bool find_listed_items(struct schema *s, const conjunction *c, const struct array_rules *r,
                              uint32_t *out) {
    uint32_t values[UNIQUE_MAX];
    conjunction item = {0};
    size_t count = 0;
    for (size_t i = 0; i < c->count; i++) {
        uint32_t prefix, rest;
        schema_items(s, c->items[i].node, &prefix, &rest);
        if (rest)
            conjunction_add(&item, rest, 0);
    }
    bool known =
        !r->prefix && !s->unevaluated && schema_listed(s, &item, values, UNIQUE_MAX, &count);
    if (known)
        *out = items_listed(s, &item, r, values, (uint32_t)count);
    vec_release(&item);
    return known;
}

/* Items that are told apart while they are read. Where they may run out, those that must come may
 * not be to be had: that is not known here. */
static uint32_t items_told_apart(struct schema *s, const conjunction *c, struct array_rules *r,
                                 const struct contained *contains) {
    uint32_t keyword = unique_of(s, c);
    if (s->form)
        return schema_refuse(s, keyword,
                             "of items other than at most " UNIQUE_TEXT
                             " listed values in the notation in which this model writes arguments",
                             false);
    uint32_t plain = item_at(s, c, r->prefix, 0);
    bool endless = !r->prefix && !contains->schema && expr_is_endless(s->b, plain);
    if (!endless && (r->min > 1 || (contains->schema && contains->min > 1)))
        return schema_refuse(s, keyword, "of items that may run out, where more than one must come",
                             false);
    r->unique = true;
    uint32_t items = contains->schema ? items_counted(s, c, r, contains) : items_from(s, c, r, 0);
    return expr_unique(s->b, items, endless);
}

uint32_t leaf_array(struct schema *s, const conjunction *c) {
    struct builder *b = s->b;
    struct array_rules r;
    struct contained contains;
    uint32_t items;
    if (!gather_rules(s, c, &r, &contains) || r.min > r.max)
        return expr_never(b);
    if (r.prefix > PREFIX_MAX)
        return schema_fail(s, ERR_LIMIT, "an array has more than %d places", PREFIX_MAX);
    bool unique = unique_of(s, c) && r.max > 1, evaluates = false;
    for (size_t i = 0; i < c->count && s->unevaluated; i++)
        evaluates |= tree_get(&s->t, s->unevaluated, "unevaluatedItems") &&
                     tree_get(&s->t, c->items[i].node, "contains");
    if (evaluates)
        return schema_fail(s, ERR_UNSUPPORTED, "keyword \"contains\" beside \"unevaluatedItems\"");
    bool listed = unique && !contains.schema && find_listed_items(s, c, &r, &items);
    if (unique && !listed)
        items = items_told_apart(s, c, &r, &contains);
    else if (contains.schema)
        items = r.max ? items_counted(s, c, &r, &contains) : expr_never(b);
    else if (!listed)
        items = r.max ? items_from(s, c, &r, 0) : expr_never(b);
    uint32_t space = expr_space(b);
    uint32_t filled = expr_concat(b, (uint32_t[]){items, space}, 2);
    bool may_be_empty = r.min == 0 && (!contains.schema || contains.min == 0);
    if (!may_be_empty && b->exprs.items[items].kind == EXPR_NEVER)
        return expr_never(b);
    return expr_concat(b,
                       (uint32_t[]){expr_text(b, "["), space,
                                    may_be_empty ? expr_repeat(b, filled, 0, 1) : filled,
                                    expr_text(b, "]")},
                       4);
}
