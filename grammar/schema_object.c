/*
 * schema_object.c - objects: which keys may come, and what each of them holds.
 *
 * Every key that a member names is a label of its own. All other keys fall into classes by the
 * patterns they match; a class is a label as well. The value of a label is what all members ask of
 * it: of each its property, its patterns that match, or else its additionalProperties.
 */
#include "grammar/schema_internal.h"

enum { PROPERTIES_MAX = 5000, PATTERNS_MAX = 30, SOME_MAX = 4 };

struct pattern {
    uint32_t member; /* of the conjunction */
    uint32_t schema;
    uint32_t some; /* of KEY_SOME: the bit of the member that is needed; else 0 */
    struct dfa dfa;
};
struct object_work {
    struct schema *s;
    const conjunction *c;
    VEC(struct bytes) names;
    VEC(struct pattern) patterns;
    VEC(uint64_t) classes; /* of other keys: the sets of patterns that match, by label */
    uint32_t some_count;   /* members of the conjunction that ask with KEY_SOME */
    struct object_rules rules;
};

static void add_name(struct object_work *w, struct bytes name) {
    for (size_t i = 0; i < w->names.count; i++)
        if (bytes_equal(w->names.items[i], name))
            return;
    if (w->names.count == PROPERTIES_MAX) {
        schema_fail(w->s, ERR_LIMIT, "an object has more than %d properties", PROPERTIES_MAX);
        return;
    }
    vec_push(&w->names, name);
}

static void gather_names(struct object_work *w) {
    struct tree *t = &w->s->t;
    for (size_t i = 0; i < w->c->count; i++) {
        uint32_t list = tree_get(t, w->c->items[i].node, "properties");
        for (uint32_t k = tree_first(t, list); k && !w->s->b->failed; k = tree_next(t, k))
            add_name(w, tree_key(t, k));
    }
    for (size_t i = 0; i < w->c->count; i++) {
        static const char *const LISTS[] = {"dependentRequired", "dependencies"};
        uint32_t list = tree_get(t, w->c->items[i].node, "required");
        for (uint32_t k = tree_kind(t, list) == TREE_ARRAY ? tree_first(t, list) : 0; k;
             k = tree_next(t, k))
            add_name(w, tree_text(t, k));
        for (size_t l = 0; l < ARRAY_LEN(LISTS); l++) {
            list = tree_get(t, w->c->items[i].node, LISTS[l]);
            for (uint32_t k = tree_first(t, list); k; k = tree_next(t, k)) {
                if (tree_kind(t, k) != TREE_ARRAY)
                    continue;
                add_name(w, tree_key(t, k));
                for (uint32_t n = tree_first(t, k); n; n = tree_next(t, n))
                    add_name(w, tree_text(t, n));
            }
        }
    }
}

/* Takes from the keys those of another automaton, which is taken. */
static int take_out(struct object_work *w, struct dfa *keys, struct dfa *other, struct error *err) {
    struct dfa rest = {0};
    int rc = dfa_without(keys, other, &w->s->b->fuel, &rest, err);
    dfa_release(other);
    dfa_release(keys);
    *keys = rest;
    return rc;
}

/* The keys that a member of KEY_SOME may have. */
static int some_keys(struct object_work *w, uint32_t what, struct dfa *out, struct error *err) {
    struct schema *s = w->s;
    struct tree *t = &s->t;
    uint32_t match = tree_get(t, what, "match"), names = tree_get(t, what, "keys");
    VEC(struct bytes) own = {0};
    struct dfa other;
    *out = (struct dfa){0};
    if (match)
        return regex_to_dfa(s->b, tree_key(t, tree_first(t, match)), false, out, err);
    int rc = dfa_of_length(s->b, 0, REPEAT_NO_END, out, err);
    if (rc)
        return rc;
    if (names) {
        if (schema_names(s, names, 0, &other))
            return take_out(w, out, &other, err);
        return error_set(err, s->b->error.code, "%s", s->b->error.text);
    }
    for (uint32_t k = tree_first(t, tree_get(t, what, "properties")); k; k = tree_next(t, k))
        vec_push(&own, tree_key(t, k));
    rc = dfa_of_texts(s->b, own.items, own.count, false, &other, err);
    vec_release(&own);
    rc = rc ? rc : take_out(w, out, &other, err);
    for (uint32_t k = tree_first(t, tree_get(t, what, "patternProperties")); k && !rc;
         k = tree_next(t, k)) {
        rc = regex_to_dfa(s->b, tree_key(t, k), false, &other, err);
        rc = rc ? rc : take_out(w, out, &other, err);
    }
    return rc;
}

/* The keys of members that are needed, as patterns. */
static bool gather_some(struct object_work *w) {
    struct tree *t = &w->s->t;
    for (size_t i = 0; i < w->c->count; i++) {
        uint32_t what = tree_get(t, w->c->items[i].node, KEY_SOME);
        struct error err;
        if (!what)
            continue;
        if (w->some_count == SOME_MAX || w->patterns.count == PATTERNS_MAX) {
            schema_fail(w->s, ERR_LIMIT, "keyword \"not\": more than %d members are needed",
                        SOME_MAX);
            return false;
        }
        uint32_t match = tree_get(t, what, "match");
        struct pattern p = {.member = (uint32_t)i,
                            .some = 1u << w->some_count++,
                            .schema = match ? tree_first(t, match) : tree_get(t, what, "value")};
        int rc = some_keys(w, what, &p.dfa, &err);
        vec_push(&w->patterns, p);
        if (rc) {
            schema_fail(w->s, rc, "keyword \"not\": %s", err.text);
            return false;
        }
    }
    return true;
}

static bool gather_patterns(struct object_work *w) {
    struct tree *t = &w->s->t;
    for (size_t i = 0; i < w->c->count; i++) {
        uint32_t list = tree_get(t, w->c->items[i].node, "patternProperties");
        for (uint32_t k = tree_first(t, list); k; k = tree_next(t, k)) {
            struct pattern p = {.member = (uint32_t)i, .schema = k};
            struct error err;
            if (w->patterns.count == PATTERNS_MAX) {
                schema_fail(w->s, ERR_LIMIT, "an object has more than %d patterns of keys",
                            PATTERNS_MAX);
                return false;
            }
            int rc = regex_to_dfa(w->s->b, tree_key(t, k), false, &p.dfa, &err);
            if (rc) {
                schema_fail(w->s, rc, "keyword \"patternProperties\": %s", err.text);
                return false;
            }
            vec_push(&w->patterns, p);
        }
    }
    return true;
}

/* Of a set of patterns those of members that are needed, as bits of them. */
static uint32_t some_of(const struct object_work *w, uint64_t set) {
    uint32_t some = 0;
    for (size_t p = 0; p < w->patterns.count; p++)
        some |= set >> p & 1 ? w->patterns.items[p].some : 0;
    return some;
}

/* The rule of the value of a key that matches these patterns (name NULL: of no property); some: it is
 * these of the members that are needed. */
static uint32_t value_rule(struct object_work *w, const struct bytes *name, uint64_t set,
                           uint32_t some) {
    struct schema *s = w->s;
    conjunction all = {0};
    for (size_t p = 0; p < w->patterns.count; p++) {
        const struct pattern *of = &w->patterns.items[p];
        if (of->some & some && of->schema)
            conjunction_add(&all, of->schema, 0);
        set &= ~(of->some ? 1ull << p : 0);
    }
    bool evaluated = false, declared = false, named = name || set;
    for (size_t i = 0; i < w->c->count; i++) {
        uint32_t node = w->c->items[i].node;
        bool silent = tree_get(&s->t, node, KEY_SILENT);
        uint32_t own = name ? tree_find(&s->t, tree_get(&s->t, node, "properties"), *name) : 0;
        bool found = own != 0;
        if (own)
            conjunction_add(&all, own, 0);
        for (size_t p = 0; p < w->patterns.count; p++)
            if (w->patterns.items[p].member == i && (set >> p & 1)) {
                conjunction_add(&all, w->patterns.items[p].schema, 0);
                found = true;
            }
        uint32_t others = tree_get(&s->t, node, "additionalProperties");
        if (!found && others)
            conjunction_add(&all, others, 0);
        declared |= !silent && tree_get(&s->t, node, "properties");
        named |= others || tree_get(&s->t, node, "unevaluatedProperties");
        evaluated |= !silent && (found || others ||
                                 tree_kind(&s->t, tree_get(&s->t, node, "unevaluatedProperties")) ==
                                     TREE_TRUE);
    }
    uint32_t rest = s->unevaluated ? tree_get(&s->t, s->unevaluated, "unevaluatedProperties") : 0;
    if (rest && !evaluated)
        conjunction_add(&all, rest, 0);
    if (s->closed && declared && !named)
        conjunction_add(&all, tree_new(&s->t, TREE_FALSE), 0);
    uint32_t e = schema_all(s, &all);
    uint32_t rule = builder_rule(s->b);
    builder_set_rule(s->b, rule, e);
    return rule;
}

/* ---- the automaton of keys ---- */

struct class_labels {
    struct object_work *w;
    size_t pattern;
    VEC(uint64_t) before; /* the classes that labels meant so far */
};

/* Label of a pair: the class with this pattern's bit where it matched. */
static uint32_t class_label(void *ctx, uint32_t a, uint32_t b) {
    struct class_labels *x = ctx;
    if (a == FA_NONE)
        return FA_NONE;
    uint64_t set = x->before.items[a] | (b != FA_NONE ? 1ull << x->pattern : 0);
    for (uint32_t i = 0; i < x->w->classes.count; i++)
        if (x->w->classes.items[i] == set)
            return i;
    vec_push(&x->w->classes, set);
    return (uint32_t)x->w->classes.count - 1;
}

/* Any key, labelled with the class of patterns that it matches. */
static int class_dfa(struct object_work *w, struct dfa *out, struct error *err) {
    struct class_labels x = {.w = w};
    int rc = dfa_of_length(w->s->b, 0, REPEAT_NO_END, out, err);
    vec_push(&w->classes, 0);
    for (size_t p = 0; p < w->patterns.count && !rc; p++) {
        struct dfa next;
        x.pattern = p;
        x.before.count = 0;
        for (size_t i = 0; i < w->classes.count; i++)
            vec_push(&x.before, w->classes.items[i]);
        w->classes.count = 0;
        rc = dfa_product(out, &w->patterns.items[p].dfa, false, class_label, &x, &w->s->b->fuel,
                         &next, err);
        dfa_release(out);
        *out = next;
    }
    vec_release(&x.before);
    return rc;
}

/* ctx: the number of names. */
static uint32_t key_label(void *ctx, uint32_t name, uint32_t class) {
    uint32_t names = *(uint32_t *)ctx;
    return name != FA_NONE ? name : class != FA_NONE ? names + class : FA_NONE;
}

/* Keys as "propertyNames" asks. */
static bool keep_named(struct object_work *w, struct dfa *keys) {
    struct schema *s = w->s;
    for (size_t i = 0; i < w->c->count; i++) {
        uint32_t node = tree_get(&s->t, w->c->items[i].node, "propertyNames");
        struct dfa names, both;
        struct error err;
        if (!node || tree_kind(&s->t, node) == TREE_TRUE)
            continue;
        if (!schema_names(s, node, 0, &names))
            return false;
        int rc = dfa_and(keys, &names, &s->b->fuel, &both, &err);
        dfa_release(&names);
        dfa_release(keys);
        *keys = both;
        if (rc) {
            schema_fail(s, rc, "%s", err.text);
            return false;
        }
    }
    return true;
}

static bool make_keys(struct object_work *w) {
    struct dfa classes, names;
    struct error err;
    uint32_t count = (uint32_t)w->names.count;
    int rc = class_dfa(w, &classes, &err);
    if (!rc) {
        rc = dfa_of_texts(w->s->b, w->names.items, w->names.count, true, &names, &err);
        if (!rc) {
            rc = dfa_product(&names, &classes, false, key_label, &count, &w->s->b->fuel,
                             &w->rules.keys, &err);
            dfa_release(&names);
        }
        dfa_release(&classes);
    }
    if (rc)
        schema_fail(w->s, rc, "%s", err.text);
    return !rc && keep_named(w, &w->rules.keys) && schema_keep_apart(w->s, &w->rules.keys);
}

/* ---- numbers of members, and which must be there ---- */

static uint32_t name_index(const struct object_work *w, struct bytes name) {
    for (uint32_t i = 0; i < w->names.count; i++)
        if (bytes_equal(w->names.items[i], name))
            return i;
    return FA_NONE;
}

static uint64_t *name_set(const struct object_work *w, uint32_t list) {
    struct tree *t = &w->s->t;
    uint64_t *set = mem_calloc(w->names.count / 64 + 1, sizeof *set);
    for (uint32_t k = tree_first(t, list); k; k = tree_next(t, k)) {
        uint32_t i = name_index(w, tree_text(t, k));
        if (i != FA_NONE)
            set[i / 64] |= 1ull << i % 64;
    }
    return set;
}

static void merge_set(uint64_t **into, uint64_t *set, size_t count) {
    if (!*into) {
        *into = set;
        return;
    }
    for (size_t i = 0; i < count / 64 + 1; i++)
        (*into)[i] |= set[i];
    mem_free(set);
}

static void gather_counts(struct object_work *w) {
    struct tree *t = &w->s->t;
    struct object_rules *o = &w->rules;
    size_t count = w->names.count;
    o->count_max = REPEAT_NO_END;
    for (size_t i = 0; i < w->c->count; i++) {
        static const char *const LISTS[] = {"dependentRequired", "dependencies"};
        uint32_t node = w->c->items[i].node, bound;
        if (tree_uint(t, tree_get(t, node, "minProperties"), &bound))
            o->count_min = MAX(o->count_min, bound);
        if (tree_uint(t, tree_get(t, node, "maxProperties"), &bound))
            o->count_max = MIN(o->count_max, bound);
        uint32_t required = tree_get(t, node, "required");
        if (tree_kind(t, required) == TREE_ARRAY)
            merge_set(&o->required, name_set(w, required), count);
        for (size_t l = 0; l < ARRAY_LEN(LISTS); l++) {
            uint32_t list = tree_get(t, node, LISTS[l]);
            for (uint32_t k = tree_first(t, list); k; k = tree_next(t, k)) {
                if (tree_kind(t, k) != TREE_ARRAY)
                    continue;
                if (!o->needs)
                    o->needs = mem_calloc(count + 1, sizeof *o->needs);
                merge_set(&o->needs[name_index(w, tree_key(t, k))], name_set(w, k), count);
            }
        }
    }
}

/* More members than labels, or required ones that nothing can be: no object will do. */
static bool is_possible(struct object_work *w) {
    const struct object_rules *o = &w->rules;
    struct builder *b = w->s->b;
    uint32_t live = 0, required = 0;
    bool open = false;
    for (uint32_t i = 0; i < o->values.count; i++) {
        bool never = b->exprs.items[b->rules.items[o->values.items[i]]].kind == EXPR_NEVER;
        bool needed = i < o->property_count && o->required && (o->required[i / 64] >> i % 64 & 1);
        if (needed && never)
            return false;
        required += needed;
        live += !never && i < o->property_count;
        open |= !never && i >= o->property_count;
    }
    return required <= o->count_max && o->count_min <= o->count_max &&
           (open || o->count_min <= live);
}

/* Nothing is asked of objects: any will do, and keys need not be told apart. */
static bool is_plain(struct schema *s, const conjunction *c) {
    static const char *const ASKS[] = {"properties",
                                       "patternProperties",
                                       "additionalProperties",
                                       "required",
                                       "propertyNames",
                                       "minProperties",
                                       "maxProperties",
                                       "dependentRequired",
                                       "dependencies",
                                       "unevaluatedProperties",
                                       KEY_SOME};
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < ARRAY_LEN(ASKS); k++)
            if (tree_get(&s->t, c->items[i].node, ASKS[k]))
                return false;
    return true;
}

/* The values of a label, by whether they are some of the members that are needed. */
static void add_values(struct object_work *w, const struct bytes *name, uint64_t set) {
    uint32_t may = some_of(w, set), label = (uint32_t)w->rules.values.count;
    uint32_t rule = value_rule(w, name, set, 0);
    vec_push(&w->rules.values, rule);
    for (uint32_t some = may; some && !w->s->b->failed; some = (some - 1) & may) {
        rule = value_rule(w, name, set, some);
        if (w->s->b->exprs.items[w->s->b->rules.items[rule]].kind != EXPR_NEVER)
            vec_push(&w->rules.somes, ((struct object_some){label, rule, some}));
    }
}

/* The members that are needed and that no key but properties can be: when these have passed, nothing
 * may be left. */
static uint32_t some_by_name(const struct object_work *w) {
    uint32_t left = w->rules.some;
    for (size_t i = 0; i < w->rules.somes.count; i++)
        left &= w->rules.somes.items[i].label < w->rules.property_count
                    ? UINT32_MAX
                    : ~w->rules.somes.items[i].set;
    return left;
}

/* The object where one of the properties is the member that is needed. */
static uint32_t one_of_properties(struct object_work *w, uint32_t some) {
    struct schema *s = w->s;
    struct tree *t = &s->t;
    VEC(uint32_t) terms = {0};
    size_t p = 0;
    while (w->patterns.items[p].some != some)
        p++;
    const struct pattern *of = &w->patterns.items[p];
    for (size_t i = 0; i < w->names.count && !s->b->failed; i++) {
        conjunction c = {0};
        if (!dfa_accepts(&of->dfa, w->names.items[i]))
            continue;
        for (size_t k = 0; k < w->c->count; k++)
            if (k != of->member)
                vec_push(&c, w->c->items[k]);
        uint32_t one = tree_new(t, TREE_OBJECT), list = tree_new(t, TREE_OBJECT),
                 names = tree_new(t, TREE_ARRAY);
        if (of->schema)
            tree_add_bytes(t, list, w->names.items[i], of->schema);
        tree_add(t, names, NULL, tree_new_string(t, w->names.items[i]));
        tree_add(t, one, "type", tree_new_string(t, bytes_str("object")));
        tree_add(t, one, "properties", list);
        tree_add(t, one, "required", names);
        tree_add(t, one, KEY_SILENT, tree_new(t, TREE_TRUE));
        conjunction_add(&c, one, 0);
        uint32_t e = schema_all(s, &c);
        vec_push(&terms, e);
    }
    uint32_t e = expr_alt(s->b, terms.items, terms.count);
    vec_release(&terms);
    return e;
}

static uint32_t finish_object(struct object_work *w) {
    struct schema *s = w->s;
    uint32_t named = some_by_name(w);
    if (named)
        return one_of_properties(w, named & -named);
    if (w->rules.some && w->rules.count_max != REPEAT_NO_END)
        return schema_fail(s, ERR_UNSUPPORTED,
                           "keyword \"maxProperties\" beside \"not\" of what it asks of members");
    return is_possible(w) ? expr_object(s->b, &w->rules) : expr_never(s->b);
}

uint32_t leaf_object(struct schema *s, const conjunction *c) {
    struct object_work w = {.s = s, .c = c};
    uint32_t e = 0;
    if (schema_is_arguments(s, c))
        return schema_arguments(s, c);
    if (is_plain(s, c))
        return expr_any_object(s->b);
    gather_names(&w);
    if (gather_patterns(&w) && gather_some(&w) && make_keys(&w)) {
        w.rules.property_count = (uint32_t)w.names.count;
        w.rules.ordered = s->ordered;
        w.rules.some = (1u << w.some_count) - 1;
        gather_counts(&w);
        for (size_t i = 0; i < w.names.count && !s->b->failed; i++) {
            uint64_t set = 0;
            for (size_t p = 0; p < w.patterns.count; p++)
                set |= (uint64_t)dfa_accepts(&w.patterns.items[p].dfa, w.names.items[i]) << p;
            add_values(&w, &w.names.items[i], set);
        }
        for (size_t i = 0; i < w.classes.count && !s->b->failed; i++)
            add_values(&w, NULL, w.classes.items[i]);
        if (!s->b->failed)
            e = finish_object(&w);
    }
    /* What a builder did not take over goes with a builder of nothing else. */
    struct builder rest = {0};
    vec_push(&rest.objects, w.rules);
    builder_release(&rest);
    for (size_t i = 0; i < w.patterns.count; i++)
        dfa_release(&w.patterns.items[i].dfa);
    vec_release(&w.names);
    vec_release(&w.patterns);
    vec_release(&w.classes);
    return e;
}
