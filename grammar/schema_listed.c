/*
 * schema_listed.c - schemas whose values are listed (enum, const): each value is asked for itself.
 */
#include "grammar/schema_internal.h"

static void keep_shorter(struct listed *out, struct listed other) {
    if (!out->known || other.count < out->count)
        *out = other;
}

struct listed schema_find_listed(struct schema *s, const conjunction *c, bool deep) {
    struct listed found = {0};
    conjunction seen = {0};
    size_t most = deep ? c->count + 64 : 0;
    for (size_t i = 0; i < c->count; i++)
        conjunction_add(&seen, c->items[i].node, 0);
    for (size_t i = 0; i < seen.count && !s->b->failed; i++) {
        uint32_t node = seen.items[i].node;
        if (tree_kind(&s->t, node) != TREE_OBJECT)
            continue;
        uint32_t ref = deep ? tree_get(&s->t, node, "$ref") : 0;
        uint32_t target = ref ? schema_target(s, ref) : 0;
        if (target && seen.count < most)
            conjunction_add(&seen, target, 0);
        if (ref && s->ref_alone)
            continue;
        uint32_t one = tree_get(&s->t, node, "const"), some = tree_get(&s->t, node, "enum");
        if (one)
            keep_shorter(&found, (struct listed){true, true, one, 1});
        if (some && tree_kind(&s->t, some) == TREE_ARRAY)
            keep_shorter(&found, (struct listed){true, false, tree_first(&s->t, some),
                                                 tree_count(&s->t, some)});
        uint32_t all = tree_get(&s->t, node, "allOf");
        for (uint32_t k = tree_first(&s->t, all); k && seen.count < most; k = tree_next(&s->t, k))
            conjunction_add(&seen, k, 0);
    }
    vec_release(&seen);
    return found;
}

bool schema_is_pair(const conjunction *c) {
    for (size_t i = 0; i < c->count; i++)
        if (c->items[i].done & DONE_PAIR)
            return true;
    return false;
}

static bool all_accept(struct schema *s, const conjunction *c, uint32_t value) {
    bool pair = schema_is_pair(c);
    for (size_t i = 0; i < c->count; i++)
        if (!schema_accepts(s, c->items[i].node, value, pair))
            return false;
    return true;
}

uint32_t schema_listed_leaf(struct schema *s, const conjunction *c, struct listed list) {
    VEC(uint32_t) values = {0};
    if (schema_is_top(s, c))
        return schema_fail(s, ERR_UNSUPPORTED,
                           "keyword \"%s\" of objects in the notation in which this model writes "
                           "arguments",
                           list.alone ? "const" : "enum");
    for (uint32_t v = list.first; v && !s->b->failed; v = list.alone ? 0 : tree_next(&s->t, v))
        if (all_accept(s, c, v))
            vec_push(&values, v);
    uint32_t e = s->b->failed ? 0 : schema_enum(s, c, values.items, values.count);
    vec_release(&values);
    return e;
}

bool schema_listed(struct schema *s, const conjunction *c, uint32_t *out, size_t most,
                   size_t *count) {
    struct listed list = schema_find_listed(s, c, true);
    *count = 0;
    if (!list.known)
        return false;
    for (uint32_t v = list.first; v && !s->b->failed; v = list.alone ? 0 : tree_next(&s->t, v)) {
        bool fits = all_accept(s, c, v);
        for (size_t i = 0; i < *count && fits; i++)
            fits = !tree_equal(&s->t, out[i], v);
        if (fits && *count == most)
            return false;
        if (fits)
            out[(*count)++] = v;
    }
    return !s->b->failed;
}
