/*
 * schema_copies.c - copies of schemas that mean something else where they stand.
 *
 * What a "$dynamicRef" means depends on the way to it: of the schemas with addresses of their own (resources)
 * that were entered on the way, the first that has the anchor counts. A scope says which that is for
 * each name, so a copy of a schema for a scope has references that are plain again. Where no
 * reference depends on the way, nothing is copied.
 *
 * A silent copy accepts what the schema accepts and evaluates nothing: it stands in conditions that are
 * asked only whether they hold, beside "unevaluated...".
 *
 * A copy's references have texts of ours, and their targets are copied when somebody asks for them: a
 * schema that leads to itself has as many copies as there are scopes.
 */
#include "grammar/schema_internal.h"

#include <stdlib.h>

enum { COPY_STEPS_MAX = 1 << 18, SCOPES_MAX = 1000, SCOPE_NAMES_MAX = 32, COPY_DEPTH_MAX = 200 };

/* The text of a copy's reference: no JSON spells it. Its number follows. */
#define COPIED_MARK 0xff

/* ---- scopes ---- */

static uint32_t *scope_of(struct schema *s, uint32_t scope) {
    return s->copies.scopes.items + (size_t)(scope - 1) * s->copies.names.count;
}

/* The scope behind a resource that is entered; names that are known keep their schema. */
static uint32_t scope_enter(struct schema *s, uint32_t scope, uint32_t resource) {
    struct schema_copies *k = &s->copies;
    uint32_t next[SCOPE_NAMES_MAX] = {0}, count = (uint32_t)k->names.count;
    if (!scope || !count)
        return scope;
    k->steps += (uint32_t)(s->anchors.count + k->scopes.count) / 16;
    memcpy(next, scope_of(s, scope), count * sizeof *next);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = schema_anchor_of(s, resource, k->names.items[i]);
        next[i] = next[i] ? next[i] : node;
    }
    uint32_t scopes = (uint32_t)(k->scopes.count / count);
    for (uint32_t i = 1; i <= scopes; i++)
        if (!memcmp(scope_of(s, i), next, count * sizeof *next))
            return i;
    if (scopes == SCOPES_MAX) {
        schema_fail(s, ERR_LIMIT, "keyword \"$dynamicRef\": it may mean too many schemas");
        return scope;
    }
    for (uint32_t i = 0; i < count; i++)
        vec_push(&k->scopes, next[i]);
    return scopes + 1;
}

/* ---- copies ---- */

static uint32_t copy(struct schema *s, struct schema_copy what, uint32_t depth);

/* Keywords whose schemas apply to the same value. */
static bool applies_in_place(struct bytes keyword) {
    static const char *const NAMES[] = {
        "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (bytes_equal(keyword, bytes_str(NAMES[i])))
            return true;
    return false;
}

/* A reference that is followed as the copy has it. */
static void copy_reference(struct schema *s, uint32_t out, uint32_t ref, struct schema_copy what) {
    struct schema_turn turn = {.ref = ref, .scope = what.scope, .silent = what.silent};
    struct buf text = {0};
    buf_add_byte(&text, (char)COPIED_MARK);
    buf_add_u64(&text, s->copies.turns.count);
    turn.dynamic = bytes_equal(tree_key(&s->t, ref), bytes_str("$dynamicRef"));
    vec_push(&s->copies.turns, turn);
    uint32_t node = tree_new_string(&s->t, buf_bytes(&text));
    tree_add_bytes(&s->t, out, tree_key(&s->t, ref), node);
    buf_release(&text);
}

static void copy_keyword(struct schema *s, uint32_t out, uint32_t k, struct schema_copy what,
                         uint32_t depth) {
    struct tree *t = &s->t;
    struct bytes key = tree_key(t, k);
    enum holds holds = schema_keyword_holds(key);
    enum tree_kind kind = tree_kind(t, k);
    what.silent = what.silent && applies_in_place(key);
    if (holds == HOLDS_SCHEMA && kind == TREE_ARRAY) /* "items" of drafts before 2020-12 */
        holds = HOLDS_MANY;
    if (!(what.silent || what.scope) || holds == HOLDS_NONE) {
        tree_add_bytes(t, out, key, k);
        return;
    }
    what.node = k;
    if (holds == HOLDS_SCHEMA) {
        tree_add_bytes(t, out, key, copy(s, what, depth + 1));
        return;
    }
    uint32_t list = tree_new(t, kind);
    for (uint32_t m = tree_first(t, k); m; m = tree_next(t, m)) {
        what.node = m;
        tree_add_bytes(t, list, tree_key(t, m), copy(s, what, depth + 1));
    }
    tree_add_bytes(t, out, key, list);
}

static uint32_t *copy_bucket(struct schema *s, struct schema_copy what) {
    uint32_t hash = what.node * 2654435761u ^ what.scope * 2246822519u ^ (uint32_t)what.silent;
    return &s->copies.buckets[hash % ARRAY_LEN(s->copies.buckets)];
}

static uint32_t copy(struct schema *s, struct schema_copy what, uint32_t depth) {
    struct schema_copies *c = &s->copies;
    struct tree *t = &s->t;
    if (tree_kind(t, what.node) != TREE_OBJECT || s->b->failed)
        return what.node;
    if (depth > COPY_DEPTH_MAX || c->steps > COPY_STEPS_MAX)
        return schema_fail(s, ERR_LIMIT, "the schema has too many cases");
    uint32_t own = schema_resource_at(s, what.node), *bucket = copy_bucket(s, what);
    for (uint32_t i = *bucket; i; i = c->known.items[i - 1].next)
        if (c->known.items[i - 1].node == what.node && c->known.items[i - 1].scope == what.scope &&
            c->known.items[i - 1].silent == what.silent)
            return c->known.items[i - 1].copy;
    struct schema_copy done = what;
    if (own != FA_NONE)
        what.scope = scope_enter(s, what.scope, own);
    done.copy = tree_new(t, TREE_OBJECT);
    for (uint32_t k = tree_first(t, what.node); k; k = tree_next(t, k), c->steps++) {
        struct bytes key = tree_key(t, k);
        bool refers =
            bytes_equal(key, bytes_str("$ref")) || bytes_equal(key, bytes_str("$dynamicRef"));
        if (refers && tree_kind(t, k) == TREE_STRING)
            copy_reference(s, done.copy, k, what);
        else
            copy_keyword(s, done.copy, k, what, depth);
    }
    if (what.silent)
        tree_add(t, done.copy, KEY_SILENT, tree_new(t, TREE_TRUE));
    done.next = *bucket;
    vec_push(&c->known, done);
    *bucket = (uint32_t)c->known.count;
    return done.copy;
}

bool schema_is_copied(const struct schema *s, uint32_t ref) {
    struct bytes text = tree_text(&s->t, ref);
    return text.len && text.data[0] == COPIED_MARK;
}

uint32_t schema_copied_target(struct schema *s, uint32_t ref) {
    struct bytes text = tree_text(&s->t, ref);
    char digits[16] = {0};
    memcpy(digits, text.data + 1, MIN(text.len - 1, sizeof digits - 1));
    size_t number = strtoul(digits, NULL, 10);
    CHECK(number < s->copies.turns.count);
    struct schema_turn turn = s->copies.turns.items[number];
    if (turn.target)
        return turn.target;
    uint32_t name = 0, node;
    const struct schema_anchor *anchor =
        turn.dynamic && turn.scope ? schema_dynamic_anchor(s, turn.ref) : NULL;
    while (anchor && name < s->copies.names.count &&
           !bytes_equal(s->copies.names.items[name], anchor->name))
        name++;
    if (anchor && name < s->copies.names.count) {
        node = scope_of(s, turn.scope)[name];
        node = node ? node : anchor->node;
    } else {
        node = turn.dynamic ? schema_dynamic_target(s, turn.ref) : schema_target(s, turn.ref);
    }
    if (!node)
        return 0;
    turn.scope = scope_enter(s, turn.scope, schema_resource_of(s, node));
    turn.target =
        copy(s, (struct schema_copy){.node = node, .scope = turn.scope, .silent = turn.silent}, 0);
    s->copies.turns.items[number] = turn;
    return turn.target;
}

uint32_t schema_silent(struct schema *s, uint32_t node) {
    return s->has_unevaluated ? copy(s, (struct schema_copy){.node = node, .silent = true}, 0)
                              : node;
}

/* ---- the document ---- */

static int compare_anchors(const void *a, const void *b) {
    const struct schema_anchor *x = a, *y = b;
    size_t len = MIN(x->name.len, y->name.len);
    int by_name = len ? memcmp(x->name.data, y->name.data, len) : 0;
    if (!by_name && x->name.len != y->name.len)
        return x->name.len < y->name.len ? -1 : 1;
    return by_name ? by_name : x->node < y->node ? -1 : x->node > y->node;
}

/* Notes the names that several schemas have. The document's own counts wherever it has one, since it is
 * entered first. */
static void find_names(struct schema *s) {
    VEC(struct schema_anchor) dynamic = {0};
    uint32_t root = schema_resource_of(s, s->root);
    for (size_t i = 0; i < s->anchors.count; i++)
        if (s->anchors.items[i].dynamic)
            vec_push(&dynamic, s->anchors.items[i]);
    if (dynamic.count)
        qsort(dynamic.items, dynamic.count, sizeof *dynamic.items, compare_anchors);
    for (size_t i = 0, n; i < dynamic.count && !s->b->failed; i = n) {
        struct bytes name = dynamic.items[i].name;
        bool several = false;
        for (n = i + 1; n < dynamic.count && bytes_equal(dynamic.items[n].name, name); n++)
            several |= dynamic.items[n].node != dynamic.items[i].node;
        if (several && s->copies.names.count == SCOPE_NAMES_MAX)
            schema_fail(s, ERR_LIMIT,
                        "keyword \"$dynamicRef\": more than %d names depend on the way",
                        SCOPE_NAMES_MAX);
        else if (several && !schema_anchor_of(s, root, name))
            vec_push(&s->copies.names, name);
    }
    vec_release(&dynamic);
}

uint32_t schema_copies_init(struct schema *s) {
    bool asked = false;
    for (uint32_t n = 1; n < s->t.nodes.count && s->anchors.count && !asked; n++)
        asked = bytes_equal(tree_key(&s->t, n), bytes_str("$dynamicRef"));
    if (asked)
        find_names(s);
    if (!s->copies.names.count)
        return s->root;
    for (size_t i = 0; i < s->copies.names.count; i++) /* scope 1: nothing was entered */
        vec_push(&s->copies.scopes, 0);
    uint32_t scope = scope_enter(s, 1, schema_resource_of(s, s->root));
    return copy(s, (struct schema_copy){.node = s->root, .scope = scope}, 0);
}

void schema_copies_release(struct schema *s) {
    vec_release(&s->copies.names);
    vec_release(&s->copies.scopes);
    vec_release(&s->copies.known);
    vec_release(&s->copies.turns);
}
