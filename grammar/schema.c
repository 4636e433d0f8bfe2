/*
 * schema.c - conjunctions: references, alternatives, memory of what was compiled.
 */
#include "grammar/schema_internal.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SCHEMA_DEPTH_MAX = 200,
    MEMOS_MAX = 20000,
    CASES_MAX = 1 << 17,
    ONE_OF_MAX = 100,
    SETS_OF_MAX = 5
};

uint32_t schema_fail(struct schema *s, int code, const char *fmt, ...) {
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return builder_fail(s->b, code, "%s", text);
}

/* Appends the steps from a node of the document to another; false: they do not lie in each other. */
static bool add_place(struct schema *s, uint32_t from, uint32_t to, uint32_t depth,
                      struct buf *out) {
    enum { PLACE_DEPTH_MAX = 200 };
    size_t len = out->len, at = 0;
    if (from == to)
        return true;
    for (uint32_t k = tree_first(&s->t, from); k && depth < PLACE_DEPTH_MAX;
         k = tree_next(&s->t, k), at++) {
        buf_add_byte(out, '/');
        if (tree_kind(&s->t, from) == TREE_ARRAY)
            buf_add_u64(out, at);
        else
            buf_add_bytes(out, tree_key(&s->t, k));
        if (add_place(s, k, to, depth + 1, out))
            return true;
        out->len = len;
    }
    return false;
}

uint32_t schema_refuse(struct schema *s, uint32_t keyword, const char *what, bool stuck) {
    struct bytes key = tree_key(&s->t, keyword), other = {0};
    struct buf text = {0};
    if (s->b->failed)
        return 0;
    buf_addf(&text, "keyword \"%.*s\"", (int)MIN(key.len, (size_t)100), (const char *)key.data);
    size_t len = text.len;
    buf_add_str(&text, " at #");
    if (!add_place(s, s->root, keyword, 0, &text))
        text.len = len;
    text.len = MIN(text.len, (size_t)300);
    buf_addf(&text, ": %s", what);
    if (stuck && s->stuck)
        other = tree_key(&s->t, s->stuck);
    if (other.len && other.data[0] != 0xff)
        buf_addf(&text, " (because of \"%.*s\")", (int)MIN(other.len, (size_t)100),
                 (const char *)other.data);
    schema_fail(s, ERR_UNSUPPORTED, "%s", buf_text(&text));
    buf_release(&text);
    return 0;
}

void conjunction_add(conjunction *c, uint32_t node, uint32_t done) {
    for (size_t i = 0; i < c->count; i++)
        if (c->items[i].node == node) {
            c->items[i].done = (c->items[i].done & done) | ((c->items[i].done | done) & DONE_PAIR);
            return;
        }
    vec_push(c, ((struct member){node, done}));
}

static int compare_members(const void *a, const void *b) {
    const struct member *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->done < y->done ? -1 : x->done > y->done;
}

/* ---- rewriting ---- */

static uint32_t new_list(struct schema *s, const char *keyword, uint32_t *list) {
    uint32_t node = tree_new(&s->t, TREE_OBJECT);
    uint32_t array = tree_new(&s->t, TREE_ARRAY);
    *list = tree_add(&s->t, node, keyword, array);
    return node;
}

/* A member that came along under a new name keeps its children: lists are built before they are
 * added, or grow in place. */
static void list_add(struct schema *s, uint32_t list, uint32_t child) {
    tree_add(&s->t, list, NULL, child);
}

/* if A then B else C: (A and B) or (not A and C). */
static uint32_t rewrite_if(struct schema *s, uint32_t node) {
    uint32_t condition = tree_get(&s->t, node, "if"), yes = tree_get(&s->t, node, "then"),
             no = tree_get(&s->t, node, "else");
    if (!yes && !no && !s->has_unevaluated)
        return 0;
    uint32_t negated = schema_negate(s, condition, 0);
    if (!negated)
        return schema_refuse(s, condition, "its schema cannot be turned around", true);
    uint32_t either, both, neither;
    uint32_t out = new_list(s, "anyOf", &either); /* of which one holds */
    tree_add(&s->t, out, KEY_SILENT, tree_new(&s->t, TREE_TRUE));
    uint32_t first = new_list(s, "allOf", &both), second = new_list(s, "allOf", &neither);
    list_add(s, both, condition);
    if (yes)
        list_add(s, both, yes);
    list_add(s, neither, negated);
    if (no)
        list_add(s, neither, no);
    list_add(s, either, first);
    list_add(s, either, second);
    return out;
}

/* {"properties": {name: false}} */
static uint32_t without_property(struct schema *s, struct bytes name) {
    uint32_t out = tree_new(&s->t, TREE_OBJECT);
    uint32_t list = tree_add(&s->t, out, "properties", tree_new(&s->t, TREE_OBJECT));
    tree_add_bytes(&s->t, list, name, tree_new(&s->t, TREE_FALSE));
    return out;
}

/* {"required": [name]} */
static uint32_t with_property(struct schema *s, struct bytes name) {
    uint32_t list, out = new_list(s, "required", &list);
    list_add(s, list, tree_new_string(&s->t, name));
    return out;
}

/* name absent, or present and (the schema, or all the names of a list). */
static uint32_t rewrite_dependent(struct schema *s, struct bytes name, uint32_t dependent) {
    uint32_t either, both, out = new_list(s, "anyOf", &either); /* of which one holds */
    tree_add(&s->t, out, KEY_SILENT, tree_new(&s->t, TREE_TRUE));
    uint32_t second = new_list(s, "allOf", &both);
    list_add(s, both, with_property(s, name));
    if (tree_kind(&s->t, dependent) == TREE_ARRAY) {
        uint32_t all = tree_new(&s->t, TREE_OBJECT);
        tree_add(&s->t, all, "required", dependent);
        dependent = all;
    }
    list_add(s, both, dependent);
    list_add(s, either, without_property(s, name));
    list_add(s, either, second);
    return out;
}

/* ---- working off applicators ---- */

static uint32_t keyword_of(struct schema *s, const struct member *m, uint32_t done,
                           const char *keyword) {
    return m->done & done ? 0 : tree_get(&s->t, m->node, keyword);
}

static void add_dependents(struct schema *s, conjunction *c, uint32_t node, const char *keyword,
                           bool lists) {
    uint32_t all = tree_get(&s->t, node, keyword);
    for (uint32_t d = tree_first(&s->t, all); d; d = tree_next(&s->t, d))
        if (lists || tree_kind(&s->t, d) != TREE_ARRAY) {
            struct bytes name = tree_key(&s->t, d);
            conjunction_add(c, rewrite_dependent(s, name, d), 0);
        }
}

/* References, allOf, not, if, dependents: all that adds to the conjunction. False: it accepts
 * nothing, or an error. */
static bool gather(struct schema *s, conjunction *c) {
    for (size_t i = 0; i < c->count && !s->b->failed; i++) {
        c->items[i].node = schema_without_unevaluated(s, c->items[i].node);
        struct member m = c->items[i];
        enum tree_kind kind = tree_kind(&s->t, m.node);
        if (kind == TREE_FALSE)
            return false;
        if (kind == TREE_TRUE) {
            c->items[i--] = c->items[--c->count];
            continue;
        }
        if (kind != TREE_OBJECT) {
            schema_fail(s, ERR_INVALID, "a schema must be an object, true or false");
            return false;
        }
        if (!schema_check(s, m.node))
            return false;
        if (c->count > 500) {
            schema_fail(s, ERR_LIMIT, "too many schemas apply to one value");
            return false;
        }
        c->items[i].done |= DONE_REF | DONE_ALL | DONE_NOT | DONE_IF | DONE_DEPENDENT;
        uint32_t ref = keyword_of(s, &m, DONE_REF, "$ref");
        uint32_t dynamic = keyword_of(s, &m, DONE_REF, "$dynamicRef");
        if (dynamic) {
            uint32_t target = schema_dynamic_target(s, dynamic);
            if (!target)
                return false;
            conjunction_add(c, target, 0);
        }
        if (ref) {
            uint32_t target = schema_target(s, ref);
            if (!target)
                return false;
            conjunction_add(c, target, 0);
            if (s->ref_alone) {
                c->items[i].done |= DONE_ANY | DONE_ONE;
                c->items[i].node = tree_new(&s->t, TREE_OBJECT);
                continue;
            }
        }
        uint32_t all = keyword_of(s, &m, DONE_ALL, "allOf");
        for (uint32_t k = tree_first(&s->t, all); k; k = tree_next(&s->t, k))
            conjunction_add(c, k, 0);
        uint32_t not = keyword_of(s, &m, DONE_NOT, "not");
        if (not ) {
            uint32_t negated = schema_negate(s, not, 0);
            if (!negated) {
                schema_refuse(s, not, "its schema cannot be turned around", true);
                return false;
            }
            conjunction_add(c, negated, 0);
        }
        if (keyword_of(s, &m, DONE_IF, "if")) {
            uint32_t either = rewrite_if(s, m.node);
            if (either)
                conjunction_add(c, either, 0);
        }
        if (!(m.done & DONE_DEPENDENT)) {
            add_dependents(s, c, m.node, "dependentSchemas", true);
            add_dependents(s, c, m.node, "dependencies", false);
        }
    }
    return !s->b->failed;
}

/* The conjunction without an alternative of member i, with one branch instead. */
static uint32_t with_branch(struct schema *s, const conjunction *c, size_t i, uint32_t done,
                            const uint32_t *branches, size_t count) {
    conjunction next = {0};
    for (size_t k = 0; k < c->count; k++)
        vec_push(&next, c->items[k]);
    next.items[i].done |= done;
    for (size_t k = 0; k < count; k++)
        conjunction_add(&next, branches[k], 0);
    return schema_all(s, &next);
}

static uint32_t any_of(struct schema *s, const conjunction *c, size_t i, uint32_t list) {
    VEC(uint32_t) terms = {0};
    for (uint32_t k = tree_first(&s->t, list); k && !s->b->failed; k = tree_next(&s->t, k)) {
        uint32_t e = with_branch(s, c, i, DONE_ANY, &k, 1);
        vec_push(&terms, e);
    }
    uint32_t e = expr_alt(s->b, terms.items, terms.count);
    vec_release(&terms);
    return e;
}

/* Which branches hold is told, since what they evaluate counts: each set of them, the others turned
 * around. */
static uint32_t any_of_told(struct schema *s, const conjunction *c, size_t i, uint32_t list) {
    uint32_t yes[SETS_OF_MAX], no[SETS_OF_MAX], count = 0;
    VEC(uint32_t) terms = {0};
    for (uint32_t k = tree_first(&s->t, list); k; k = tree_next(&s->t, k), count++) {
        if (count < SETS_OF_MAX) {
            yes[count] = k;
            no[count] = schema_negate(s, k, 0);
        }
        if (count == SETS_OF_MAX || !no[count])
            return schema_refuse(s, list,
                                 "beside \"unevaluated...\" it has too many branches, or one that "
                                 "cannot be turned around",
                                 true);
    }
    for (uint32_t set = 1; set < 1u << count && !s->b->failed; set++) {
        uint32_t branches[SETS_OF_MAX];
        for (uint32_t k = 0; k < count; k++)
            branches[k] = set >> k & 1 ? yes[k] : no[k];
        uint32_t e = with_branch(s, c, i, DONE_ANY, branches, count);
        vec_push(&terms, e);
    }
    uint32_t e = expr_alt(s->b, terms.items, terms.count);
    vec_release(&terms);
    return e;
}

static bool is_never(struct schema *s, uint32_t e) {
    return s->b->exprs.items[e].kind == EXPR_NEVER;
}

/* Branches that exclude each other are plain alternatives. Of two that do not, each is taken
 * without the other. */
static uint32_t one_of(struct schema *s, const conjunction *c, size_t i, uint32_t list) {
    uint32_t branches[ONE_OF_MAX];
    VEC(uint32_t) terms = {0};
    VEC(uint32_t) apart = {0};
    size_t count = 0;
    for (uint32_t k = tree_first(&s->t, list); k; k = tree_next(&s->t, k)) {
        if (count == ONE_OF_MAX)
            return schema_fail(s, ERR_LIMIT, "keyword \"oneOf\" has more than %d branches",
                               ONE_OF_MAX);
        branches[count++] = k;
    }
    for (size_t a = 0; a < count && !s->b->failed; a++) {
        apart.count = 0;
        vec_push(&apart, branches[a]);
        for (size_t b = 0; b < count && !s->b->failed; b++) {
            uint32_t pair[] = {branches[a], branches[b]};
            if (a == b || is_never(s, with_branch(s, c, i, DONE_ONE | DONE_PAIR, pair, 2)))
                continue;
            uint32_t negated = s->b->failed ? 0 : schema_negate(s, branches[b], 0);
            if (!negated)
                schema_refuse(
                    s, list, "two branches may hold for one value, and one cannot be turned around",
                    true);
            vec_push(&apart, negated);
        }
        uint32_t e = s->b->failed ? 0 : with_branch(s, c, i, DONE_ONE, apart.items, apart.count);
        vec_push(&terms, e);
    }
    uint32_t e = expr_alt(s->b, terms.items, terms.count);
    vec_release(&terms);
    vec_release(&apart);
    return e;
}

/* ---- leaves ---- */

uint32_t schema_types(struct schema *s, uint32_t node) {
    static const struct {
        const char *name;
        uint32_t types;
    } NAMES[] = {{"null", TYPE_NULL},           {"boolean", TYPE_BOOL},
                 {"integer", TYPE_INTEGER},     {"number", TYPE_INTEGER | TYPE_FRACTION},
                 {"string", TYPE_STRING},       {"array", TYPE_ARRAY},
                 {"object", TYPE_OBJECT},       {"any", TYPE_ANY},
                 {NAME_FRACTION, TYPE_FRACTION}};
    uint32_t types = 0;
    if (tree_kind(&s->t, node) == TREE_ARRAY) {
        for (uint32_t k = tree_first(&s->t, node); k; k = tree_next(&s->t, k))
            types |= schema_types(s, k);
        return types;
    }
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (tree_is(&s->t, node, NAMES[i].name))
            return NAMES[i].types;
    schema_fail(s, ERR_INVALID, "keyword \"type\" has an unknown type");
    return 0;
}

static bool refuse_unheld(struct schema *s, uint32_t node) {
    if (!tree_get(&s->t, node, "$recursiveRef"))
        return false;
    schema_fail(s, ERR_UNSUPPORTED, "keyword \"$recursiveRef\" is not supported");
    return true;
}

static uint32_t word(struct schema *s, const char *json, const char *python) {
    uint32_t ways[] = {expr_text(s->b, json), expr_text(s->b, python)};
    return s->form && s->form->python ? expr_alt(s->b, ways, 2) : ways[0];
}

static uint32_t leaf(struct schema *s, const conjunction *c) {
    uint32_t types = TYPE_ANY, terms[8];
    size_t count = 0;
    if (!c->count)
        return schema_any(s);
    for (size_t i = 0; i < c->count; i++) {
        uint32_t node = c->items[i].node, type = tree_get(&s->t, node, "type");
        if (refuse_unheld(s, node))
            return expr_never(s->b);
        if (type)
            types &= schema_types(s, type);
    }
    struct listed values = schema_find_listed(s, c, false);
    if (values.known)
        return schema_listed_leaf(s, c, values);
    for (size_t i = 0; i < c->count; i++) { /* made by schema_negate */
        uint32_t list = tree_get(&s->t, c->items[i].node, KEY_NOT_ENUM);
        for (uint32_t k = tree_first(&s->t, list); k; k = tree_next(&s->t, k)) {
            enum tree_kind kind = tree_kind(&s->t, k);
            uint32_t hit = kind == TREE_NULL                         ? TYPE_NULL
                           : kind == TREE_ARRAY                      ? TYPE_ARRAY
                           : kind == TREE_OBJECT                     ? TYPE_OBJECT
                           : kind == TREE_TRUE || kind == TREE_FALSE ? TYPE_BOOL
                                                                     : 0;
            if (hit & TYPE_NULL)
                types &= ~(uint32_t)TYPE_NULL;
            else if (hit & types & ~(uint32_t)TYPE_BOOL)
                return schema_fail(s, ERR_UNSUPPORTED,
                                   "keyword \"not\": values other than one array or object");
        }
    }
    if (types & TYPE_NULL)
        terms[count++] = word(s, "null", "None");
    if (types & TYPE_BOOL) {
        static const enum tree_kind KINDS[] = {TREE_TRUE, TREE_FALSE};
        for (size_t k = 0; k < 2; k++) {
            bool out = false;
            for (size_t i = 0; i < c->count; i++)
                for (uint32_t v =
                         tree_first(&s->t, tree_get(&s->t, c->items[i].node, KEY_NOT_ENUM));
                     v; v = tree_next(&s->t, v))
                    out |= tree_kind(&s->t, v) == KINDS[k];
            if (!out)
                terms[count++] = k ? word(s, "false", "False") : word(s, "true", "True");
        }
    }
    if (types & (TYPE_INTEGER | TYPE_FRACTION))
        terms[count++] = leaf_number(s, c, types & (TYPE_INTEGER | TYPE_FRACTION));
    if (types & TYPE_STRING)
        terms[count++] = leaf_string(s, c);
    if (types & TYPE_ARRAY)
        terms[count++] = leaf_array(s, c);
    if (types & TYPE_OBJECT)
        terms[count++] = leaf_object(s, c);
    return expr_alt(s->b, terms, count);
}

static uint32_t expand_gathered(struct schema *s, conjunction *c) {
    for (size_t i = 0; i < c->count; i++) {
        uint32_t list = keyword_of(s, &c->items[i], DONE_ANY, "anyOf");
        bool told = list && s->unevaluated && !tree_get(&s->t, c->items[i].node, KEY_SILENT);
        if (list)
            return told ? any_of_told(s, c, i, list) : any_of(s, c, i, list);
        list = keyword_of(s, &c->items[i], DONE_ONE, "oneOf");
        if (list)
            return one_of(s, c, i, list);
    }
    return leaf(s, c);
}

/* No type is left, whatever else holds. */
static bool no_type_left(struct schema *s, const conjunction *c) {
    uint32_t types = TYPE_ANY;
    for (size_t i = 0; i < c->count && types; i++) {
        uint32_t node = c->items[i].node, type = tree_get(&s->t, node, "type");
        if (type && !(s->ref_alone && tree_get(&s->t, node, "$ref")))
            types &= schema_types(s, type);
    }
    return !types;
}

static uint32_t expand(struct schema *s, conjunction *c) {
    uint32_t outer = s->unevaluated;
    bool alone = c->count == 1;
    if (no_type_left(s, c))
        return expr_never(s->b);
    struct listed list = schema_is_pair(c) ? (struct listed){0} : schema_find_listed(s, c, true);
    if (list.known)
        return schema_listed_leaf(s, c, list);
    uint32_t e = gather(s, c) && schema_find_unevaluated(s, c, alone) ? expand_gathered(s, c)
                                                                      : expr_never(s->b);
    s->unevaluated = outer;
    return e;
}

/* ---- memory of conjunctions ---- */

static uint32_t *bucket_of(struct schema *s, const conjunction *c) {
    return &s->buckets[c->count ? c->items[0].node % ARRAY_LEN(s->buckets) : 0];
}

static struct schema_memo *find_memo(struct schema *s, const conjunction *c) {
    for (uint32_t i = *bucket_of(s, c); i; i = s->memos.items[i - 1].next) {
        struct schema_memo *m = &s->memos.items[i - 1];
        if (m->count == c->count && (!c->count || !memcmp(s->memo_members.items + m->first,
                                                          c->items, c->count * sizeof *c->items)))
            return m;
    }
    return NULL;
}

uint32_t schema_all(struct schema *s, conjunction *c) {
    uint32_t e = 0;
    if (s->b->failed) {
        vec_release(c);
        return 0;
    }
    if (c->count > 1)
        qsort(c->items, c->count, sizeof *c->items, compare_members);
    const struct schema_memo *known = find_memo(s, c);
    if (known) {
        e = known->never ? expr_never(s->b) : expr_rule(s->b, known->rule);
        vec_release(c);
        return e;
    }
    s->cases += 1 + c->count * c->count / 16; /* what a case costs grows with its schemas */
    if (s->depth >= SCHEMA_DEPTH_MAX || s->memos.count >= MEMOS_MAX || s->cases > CASES_MAX) {
        vec_release(c);
        return schema_fail(s, ERR_LIMIT, "the schema is nested too deeply or has too many cases");
    }
    uint32_t rule = builder_rule(s->b);
    size_t at = s->memos.count;
    struct schema_memo memo = {(uint32_t)s->memo_members.count, (uint32_t)c->count, rule,
                               *bucket_of(s, c), false};
    *bucket_of(s, c) = (uint32_t)at + 1;
    for (size_t i = 0; i < c->count; i++)
        vec_push(&s->memo_members, c->items[i]);
    vec_push(&s->memos, memo);
    s->depth++;
    e = expand(s, c);
    s->depth--;
    vec_release(c);
    builder_set_rule(s->b, rule, e);
    if (is_never(s, e)) {
        s->memos.items[at].never = true;
        return expr_never(s->b);
    }
    return expr_rule(s->b, rule);
}

uint32_t schema_one(struct schema *s, uint32_t node) {
    conjunction c = {0};
    conjunction_add(&c, node, 0);
    return schema_all(s, &c);
}

/* Drafts up to 7 pass over what stands beside a "$ref". A document that does not say which it follows
 * is one of them by the name of its definitions; where an answer is generated, it is held to both. */
static bool passes_over(const struct schema *s) {
    const struct tree *t = &s->t;
    if (s->dialect != DIALECT_NONE)
        return s->dialect == DIALECT_ID || s->dialect == DIALECT_DEFINITIONS;
    return s->exact && tree_get(t, s->root, "definitions") && !tree_get(t, s->root, "$defs");
}

static uint32_t node_to_rule(struct builder *b, struct tree *t, uint32_t node, bool ordered,
                             bool closed, const struct arguments_form *form, struct error *err) {
    struct schema s = {.b = b, .t = *t, .root = node, .ordered = ordered, .closed = closed};
    conjunction all = {0};
    uint32_t any_json = b->any_json;
    s.dialect = schema_dialect(t, node);
    s.exact = !b->plain && !form;
    s.annotates = s.exact && (s.dialect == DIALECT_NEW || s.dialect == DIALECT_2019);
    s.ref_alone = passes_over(&s);
    schema_refs_init(&s);
    for (uint32_t n = 1; n < t->nodes.count; n++)
        s.has_unevaluated |= bytes_equal(tree_key(t, n), bytes_str("unevaluatedProperties")) ||
                             bytes_equal(tree_key(t, n), bytes_str("unevaluatedItems"));
    if (s.exact && s.dialect == DIALECT_OTHER)
        schema_fail(&s, ERR_UNSUPPORTED,
                    "keyword \"$schema\": which keywords '%.*s' has is not known here",
                    (int)MIN(tree_text(t, tree_get(t, node, "$schema")).len, (size_t)200),
                    (const char *)tree_text(t, tree_get(t, node, "$schema")).data);
    conjunction_add(&all, schema_copies_init(&s), 0);
    if (form) {
        schema_arguments_init(&s, form);
        conjunction_add(&all, s.top, 0);
        b->any_json = FA_NONE;
        b->any_string = form->stop_count ? schema_quoted(&s, NULL) : 0;
    }
    uint32_t e = schema_all(&s, &all), rule = builder_rule(b);
    builder_set_rule(b, rule, e);
    *t = s.t;
    b->any_json = any_json;
    b->any_string = 0;
    vec_release(&s.memos);
    vec_release(&s.memo_members);
    vec_release(&s.checked);
    vec_release(&s.negations);
    vec_release(&s.plain_nodes);
    schema_refs_release(&s);
    schema_copies_release(&s);
    schema_values_release(&s);
    if (!b->failed)
        return rule;
    (void)error_set(err, b->error.code, "%s", b->error.text);
    return FA_NONE;
}

uint32_t schema_node_to_rule(struct builder *b, struct tree *t, uint32_t node, bool ordered,
                             bool closed, struct error *err) {
    return node_to_rule(b, t, node, ordered, closed, NULL, err);
}

uint32_t schema_arguments_to_rule(struct builder *b, struct tree *t, uint32_t node,
                                  const struct arguments_form *form, struct error *err) {
    return node_to_rule(b, t, node, true, true, form, err);
}

uint32_t schema_to_rule(struct builder *b, struct bytes schema, bool ordered, struct error *err) {
    struct tree t = {0};
    uint32_t rule = FA_NONE, root;
    int rc = schema.len > b->limits.bytes
                 ? error_set(err, ERR_LIMIT, "the schema is larger than %u bytes", b->limits.bytes)
                 : tree_read(&t, schema, b->limits.depth, &root, err);
    if (!rc)
        rule = schema_node_to_rule(b, &t, root, ordered, false, err);
    tree_release(&t);
    return rule;
}
