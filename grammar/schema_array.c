/*
 * schema_array.c - arrays: items by place, their number, how many must satisfy a schema.
 */
#include "grammar/schema_internal.h"

enum { PREFIX_MAX = 1000, UNIQUE_MAX = 10, COUNTED_MAX = 4096, CONTAINS_MAX = 4 };
#define UNIQUE_TEXT "10"

struct array_rules {
    uint32_t min, max;
    uint32_t prefix; /* places with schemas of their own */
    bool unique;     /* items differ, and are told apart while they are read */
    struct contained contains[CONTAINS_MAX];
    bool evaluates[CONTAINS_MAX]; /* "unevaluatedItems" asks nothing of an item that satisfies it */
    uint32_t contains_count;
};

/* Which schemas of "contains" an item satisfies. */
struct satisfied {
    const struct array_rules *r;
    const uint32_t *no; /* each turned around, for the others; 0: it is not asked */
    uint32_t set;       /* bits of them */
    uint32_t place;     /* of the item */
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

/* What all members ask of the item at a place (or behind all places); of: and "contains", or NULL. */
static uint32_t item_at(struct schema *s, const conjunction *c, uint32_t place,
                        const struct satisfied *of) {
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
    for (uint32_t i = 0; of && i < of->r->contains_count; i++) {
        const struct contained *one = &of->r->contains[i];
        bool is = of->set >> i & 1;
        if (is || (of->no[i] && of->place >= one->from))
            conjunction_add(&all, is ? one->schema : of->no[i], 0);
        evaluated |= is && of->r->evaluates[i];
    }
    uint32_t others = s->unevaluated ? tree_get(&s->t, s->unevaluated, "unevaluatedItems") : 0;
    if (others && !evaluated)
        conjunction_add(&all, others, 0);
    return schema_all(s, &all);
}

/* The same as it stands in the array. */
static uint32_t placed_item(struct schema *s, const conjunction *c, const struct array_rules *r,
                            uint32_t place, const struct satisfied *of) {
    uint32_t item = item_at(s, c, place, of);
    return r->unique ? expr_item(s->b, item) : item;
}

struct contained schema_contained(const struct tree *t, uint32_t node) {
    struct contained one = {.schema = tree_get(t, node, "contains"), .min = 1, .max = UINT32_MAX};
    tree_uint(t, tree_get(t, node, KEY_FROM), &one.from);
    tree_uint(t, tree_get(t, node, "minContains"), &one.min);
    tree_uint(t, tree_get(t, node, "maxContains"), &one.max);
    return one;
}

/* A member's "contains", where it says something. */
static bool add_contained(struct schema *s, uint32_t node, struct array_rules *r) {
    struct contained one = schema_contained(&s->t, node);
    bool evaluates = s->unevaluated && tree_get(&s->t, s->unevaluated, "unevaluatedItems") &&
                     s->dialect != DIALECT_2019 && !tree_get(&s->t, node, KEY_SILENT);
    if (!one.schema || (one.min == 0 && one.max == REPEAT_NO_END && !evaluates))
        return true;
    if (r->contains_count == CONTAINS_MAX) {
        schema_fail(s, ERR_LIMIT, "keyword \"contains\" more than %d times", CONTAINS_MAX);
        return false;
    }
    r->evaluates[r->contains_count] = evaluates;
    r->contains[r->contains_count++] = one;
    return true;
}

static bool gather_rules(struct schema *s, const conjunction *c, struct array_rules *r) {
    *r = (struct array_rules){.max = REPEAT_NO_END};
    for (size_t i = 0; i < c->count; i++) {
        uint32_t node = c->items[i].node, prefix, rest, bound;
        schema_items(s, node, &prefix, &rest);
        r->prefix = MAX(r->prefix, tree_count(&s->t, prefix));
        if (tree_uint(&s->t, tree_get(&s->t, node, "minItems"), &bound))
            r->min = MAX(r->min, bound);
        if (tree_uint(&s->t, tree_get(&s->t, node, "maxItems"), &bound))
            r->max = MIN(r->max, bound);
        if (!add_contained(s, node, r))
            return false;
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
    uint32_t item = tail_max ? placed_item(s, c, r, r->prefix, NULL) : expr_never(b);
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
        uint32_t here = i < r->max ? placed_item(s, c, r, i, NULL) : expr_never(b);
        uint32_t with = expr_concat(b, (uint32_t[]){here, rest}, 2);
        if (i == 0)
            return with;
        uint32_t behind = expr_concat(b, (uint32_t[]){comma, with}, 2);
        rest = i >= r->min ? expr_repeat(b, behind, 0, 1) : behind;
    }
    return rest;
}

/* How many items have satisfied each "contains": the digits of one number. Counters stop where more
 * makes no difference. */
struct counters {
    const struct array_rules *r;
    uint32_t no[CONTAINS_MAX];     /* the schema turned around, or 0 */
    uint32_t most[CONTAINS_MAX];   /* where the counter stops */
    uint32_t stride[CONTAINS_MAX]; /* of its digit */
    uint32_t width;                /* numbers */
    uint32_t places;               /* all behind are alike */
    uint32_t own;                  /* each in front of it may ask something else */
};

/* False: no array has as many, or an error. */
static bool counters_init(struct schema *s, const struct array_rules *r, struct counters *k) {
    bool ends = r->max != REPEAT_NO_END;
    *k = (struct counters){.r = r, .own = r->prefix, .width = 1};
    for (uint32_t i = 0; i < r->contains_count; i++)
        k->own = MAX(k->own, r->contains[i].from);
    k->places = ends ? r->max : MAX(MAX(r->min, k->own), 1u);
    uint64_t places = k->places, all = places + 1;
    for (uint32_t i = 0; i < r->contains_count; i++) {
        const struct contained *one = &r->contains[i];
        bool bounded = one->max != REPEAT_NO_END;
        uint64_t most = bounded ? one->max : one->min;
        if (one->min > one->max || one->min > r->max || !places)
            return false;
        if (bounded && ends)
            most = MIN(most, places);
        all *= most + 1;
        if (all > COUNTED_MAX) {
            schema_fail(s, ERR_LIMIT, "keyword \"contains\" with bounds as large as these");
            return false;
        }
        /* of several the sets exclude each other where they can, or all of them would be open */
        uint32_t stuck = s->stuck;
        k->no[i] = bounded || r->contains_count > 1 ? schema_negate(s, one->schema, 0) : 0;
        s->stuck = bounded ? s->stuck : stuck; /* nothing is refused for it */
        if (bounded && !k->no[i]) {
            schema_fail(s, ERR_UNSUPPORTED,
                        "keyword \"maxContains\": the schema of \"contains\" cannot be turned "
                        "around");
            return false;
        }
        k->most[i] = (uint32_t)most;
        k->stride[i] = k->width;
        k->width *= (uint32_t)most + 1;
    }
    return true;
}

static uint32_t counter(const struct counters *k, uint32_t count, uint32_t i) {
    return count / k->stride[i] % (k->most[i] + 1);
}

/* The numbers behind an item that satisfies these; false: it may not come, or is among the others. */
static bool counters_take(const struct counters *k, uint32_t place, uint32_t set, uint32_t *count) {
    uint32_t next = *count;
    for (uint32_t i = 0; i < k->r->contains_count; i++) {
        if (!(set >> i & 1))
            continue;
        const struct contained *of = &k->r->contains[i];
        if (place < of->from)
            return false;
        if (counter(k, *count, i) < k->most[i])
            next += k->stride[i];
        else if (of->max != REPEAT_NO_END || !(k->no[i] || k->r->evaluates[i]))
            return false;
    }
    *count = next;
    return true;
}

static bool counters_suffice(const struct counters *k, uint32_t count) {
    for (uint32_t i = 0; i < k->r->contains_count; i++)
        if (counter(k, count, i) < k->r->contains[i].min)
            return false;
    return true;
}

/* Items in a row, by how many came and how many of them counted: a rule for each pair, which says what
 * may follow. */
static uint32_t items_counted(struct schema *s, const conjunction *c, const struct array_rules *r) {
    struct builder *b = s->b;
    struct counters k;
    if (!counters_init(s, r, &k))
        return expr_never(b);
    uint32_t rules[COUNTED_MAX], items[1 << CONTAINS_MAX], sets = 1u << r->contains_count;
    bool ended[COUNTED_MAX] = {0}; /* nothing may follow, not even the end */
    for (uint32_t i = 0; i < (k.places + 1) * k.width; i++)
        rules[i] = builder_rule(b);
    uint32_t space = expr_space(b);
    uint32_t comma = expr_concat(b, (uint32_t[]){space, expr_text(b, ","), space}, 3);
    for (uint32_t i = k.places + 1; i-- > 0 && !b->failed;) {
        uint32_t to = MIN(i + 1, k.places), first = i == 0;
        bool more = i < k.places || r->max == REPEAT_NO_END;
        for (uint32_t set = 0; set < sets && (i == k.places || i < k.own); set++) {
            struct satisfied of = {r, k.no, set, i};
            items[set] = placed_item(s, c, r, MIN(i, r->prefix), &of);
        }
        for (uint32_t n = k.width; n-- > 0;) {
            uint32_t ways[1 + (1 << CONTAINS_MAX)], count = 0;
            uint32_t same[1 << CONTAINS_MAX], same_count = 0; /* nothing is other behind them */
            uint32_t here = i * k.width + n;
            if (i && i >= r->min && counters_suffice(&k, n))
                ways[count++] = expr_empty(b);
            for (uint32_t set = more ? sets : 0; set-- > 0;) {
                uint32_t then = n;
                if (!counters_take(&k, i, set, &then))
                    continue;
                then += to * k.width;
                uint32_t next[] = {comma, items[set], 0};
                if (then == here) {
                    same[same_count++] = expr_concat(b, next, 2);
                } else if (!ended[then]) {
                    next[2] = expr_rule(b, rules[then]);
                    ways[count++] = expr_concat(b, next + first, 3 - first);
                }
            }
            uint32_t e = expr_alt(b, ways, count);
            ended[here] = b->exprs.items[e].kind == EXPR_NEVER;
            if (same_count) {
                uint32_t others = expr_alt(b, same, same_count);
                e = expr_concat(b, (uint32_t[]){expr_repeat(b, others, 0, REPEAT_NO_END), e}, 2);
            }
            builder_set_rule(b, rules[here], e);
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
static uint32_t items_told_apart(struct schema *s, const conjunction *c, struct array_rules *r) {
    uint32_t keyword = unique_of(s, c);
    if (s->form)
        return schema_refuse(s, keyword,
                             "of items other than at most " UNIQUE_TEXT
                             " listed values in the notation in which this model writes arguments",
                             false);
    uint32_t plain = item_at(s, c, r->prefix, NULL);
    bool endless = !r->prefix && !r->contains_count && expr_is_endless(s->b, plain);
    uint64_t counted = 0; /* items that must come, at most */
    for (uint32_t i = 0; i < r->contains_count; i++)
        counted += r->contains[i].min;
    if (!endless && (r->min > 1 || counted > 1))
        return schema_refuse(s, keyword, "of items that may run out, where more than one must come",
                             false);
    r->unique = true;
    uint32_t items = r->contains_count ? items_counted(s, c, r) : items_from(s, c, r, 0);
    return expr_unique(s->b, items, endless);
}

uint32_t leaf_array(struct schema *s, const conjunction *c) {
    struct builder *b = s->b;
    struct array_rules r;
    uint32_t items;
    if (!gather_rules(s, c, &r) || r.min > r.max)
        return expr_never(b);
    if (r.prefix > PREFIX_MAX)
        return schema_fail(s, ERR_LIMIT, "an array has more than %d places", PREFIX_MAX);
    bool unique = unique_of(s, c) && r.max > 1, may_be_empty = r.min == 0;
    for (uint32_t i = 0; i < r.contains_count; i++)
        may_be_empty &= r.contains[i].min == 0;
    bool listed = unique && !r.contains_count && find_listed_items(s, c, &r, &items);
    if (unique && !listed)
        items = items_told_apart(s, c, &r);
    else if (r.contains_count)
        items = r.max ? items_counted(s, c, &r) : expr_never(b);
    else if (!listed)
        items = r.max ? items_from(s, c, &r, 0) : expr_never(b);
    uint32_t space = expr_space(b);
    uint32_t filled = expr_concat(b, (uint32_t[]){items, space}, 2);
    if (!may_be_empty && b->exprs.items[items].kind == EXPR_NEVER)
        return expr_never(b);
    return expr_concat(b,
                       (uint32_t[]){expr_text(b, "["), space,
                                    may_be_empty ? expr_repeat(b, filled, 0, 1) : filled,
                                    expr_text(b, "]")},
                       4);
}
