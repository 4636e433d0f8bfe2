/*
 * schema_names.c - the strings that a schema accepts, whatever logic it is put together with.
 *
 * Automata of strings can be joined, cut and turned around, so for names of members (and there
 * alone, where only strings come) no applicator has to be refused.
 */
#include "grammar/schema_internal.h"

enum { NAMES_DEPTH_MAX = 24 };

enum set_kind { SET_AND, SET_OR, SET_WITHOUT };

static uint32_t either_label(void *ctx, uint32_t a, uint32_t b) {
    (void)ctx;
    return a != FA_NONE || b != FA_NONE ? 0 : FA_NONE;
}

static bool failed(struct schema *s, int rc, const struct error *err) {
    if (rc)
        schema_fail(s, rc, "keyword \"propertyNames\": %s", err->text);
    return rc != 0;
}

/* All strings, or none. */
static bool all_or_none(struct schema *s, bool all, struct dfa *out) {
    struct error err;
    return !failed(s, dfa_of_length(s->b, !all, all ? REPEAT_NO_END : 0, out, &err), &err);
}

/* *have joined with *other; b is left alone. */
static bool combine(struct schema *s, struct dfa *have, enum set_kind kind,
                    const struct dfa *other) {
    struct dfa both = {0};
    struct error err;
    int rc = kind == SET_AND ? dfa_and(have, other, &s->b->fuel, &both, &err)
             : kind == SET_OR
                 ? dfa_product(have, other, false, either_label, NULL, &s->b->fuel, &both, &err)
                 : dfa_without(have, other, &s->b->fuel, &both, &err);
    dfa_release(have);
    *have = both;
    return !failed(s, rc, &err);
}

/* The same with what a schema accepts. */
static bool combine_with(struct schema *s, struct dfa *have, enum set_kind kind, uint32_t node,
                         uint32_t depth) {
    struct dfa other = {0};
    bool ok = schema_names(s, node, depth + 1, &other) && combine(s, have, kind, &other);
    dfa_release(&other);
    return ok;
}

/* Strings of the schema's own list and keywords. */
static bool own_keywords(struct schema *s, uint32_t node, struct dfa *out) {
    uint32_t list = tree_get(&s->t, node, "enum"), constant = tree_get(&s->t, node, "const");
    conjunction c = {0};
    VEC(struct bytes) texts = {0};
    struct dfa listed = {0};
    struct error err;
    bool any;
    conjunction_add(&c, node, 0);
    bool ok = string_dfa(s, &c, out, &any) && (!any || all_or_none(s, true, out));
    vec_release(&c);
    if (ok && list) {
        for (uint32_t v = tree_first(&s->t, list); v; v = tree_next(&s->t, v))
            if (tree_kind(&s->t, v) == TREE_STRING)
                vec_push(&texts, tree_text(&s->t, v));
        ok = !failed(s, dfa_of_texts(s->b, texts.items, texts.count, false, &listed, &err), &err) &&
             combine(s, out, SET_AND, &listed);
        dfa_release(&listed);
    }
    vec_release(&texts);
    if (ok && constant) {
        struct bytes text = tree_text(&s->t, constant);
        bool string = tree_kind(&s->t, constant) == TREE_STRING;
        ok = !failed(s, dfa_of_texts(s->b, &text, string, false, &listed, &err), &err) &&
             combine(s, out, SET_AND, &listed);
        dfa_release(&listed);
    }
    return ok;
}

/* Strings that an odd one of the schemas accepts: exactly one (oneOf), or any of them. */
static bool some_of(struct schema *s, uint32_t list, bool one, uint32_t depth, struct dfa *have) {
    struct dfa any = {0}, once = {0}, own = {0}, fresh = {0};
    bool ok = all_or_none(s, false, &any) && all_or_none(s, false, &once);
    for (uint32_t k = tree_first(&s->t, list); k && ok; k = tree_next(&s->t, k)) {
        ok = schema_names(s, k, depth + 1, &own);
        if (ok && one) { /* once: (once without own) or (own without any) */
            ok = all_or_none(s, true, &fresh) && combine(s, &fresh, SET_AND, &own) &&
                 combine(s, &fresh, SET_WITHOUT, &any) && combine(s, &once, SET_WITHOUT, &own) &&
                 combine(s, &once, SET_OR, &fresh);
        }
        ok = ok && combine(s, &any, SET_OR, &own);
        dfa_release(&own);
        dfa_release(&fresh);
    }
    ok = ok && combine(s, have, SET_AND, one ? &once : &any);
    dfa_release(&any);
    dfa_release(&once);
    return ok;
}

/* (if and then) or (else, without if) */
static bool branches(struct schema *s, uint32_t node, uint32_t depth, struct dfa *have) {
    uint32_t yes = tree_get(&s->t, node, "then"), no = tree_get(&s->t, node, "else");
    struct dfa condition = {0}, first = {0}, second = {0};
    bool ok = schema_names(s, tree_get(&s->t, node, "if"), depth + 1, &condition) &&
              all_or_none(s, true, &first) && all_or_none(s, true, &second) &&
              combine(s, &first, SET_AND, &condition) &&
              combine(s, &second, SET_WITHOUT, &condition) &&
              (!yes || combine_with(s, &first, SET_AND, yes, depth)) &&
              (!no || combine_with(s, &second, SET_AND, no, depth)) &&
              combine(s, &first, SET_OR, &second) && combine(s, have, SET_AND, &first);
    dfa_release(&condition);
    dfa_release(&first);
    dfa_release(&second);
    return ok;
}

static bool names_of_object(struct schema *s, uint32_t node, uint32_t depth, struct dfa *out) {
    struct tree *t = &s->t;
    uint32_t ref = tree_get(t, node, "$ref"), type = tree_get(t, node, "type"),
             all = tree_get(t, node, "allOf"), not = tree_get(t, node, "not");
    uint32_t any = tree_get(t, node, "anyOf"), one = tree_get(t, node, "oneOf");
    if (tree_get(t, node, "$dynamicRef")) {
        schema_fail(s, ERR_UNSUPPORTED, "keyword \"propertyNames\" with \"$dynamicRef\"");
        return false;
    }
    uint32_t target = ref ? schema_target(s, ref) : 0;
    if (ref && !target)
        return false;
    if (ref && s->ref_alone)
        return schema_names(s, target, depth + 1, out);
    if (type && !(schema_types(s, type) & TYPE_STRING))
        return !s->b->failed && all_or_none(s, false, out);
    bool ok = own_keywords(s, node, out);
    ok = ok && (!target || combine_with(s, out, SET_AND, target, depth));
    for (uint32_t k = tree_first(t, all); k && ok; k = tree_next(t, k))
        ok = combine_with(s, out, SET_AND, k, depth);
    return ok && (!not || combine_with(s, out, SET_WITHOUT, not, depth)) &&
           (!any || some_of(s, any, false, depth, out)) &&
           (!one || some_of(s, one, true, depth, out)) &&
           (!tree_get(t, node, "if") || branches(s, node, depth, out));
}

bool schema_names(struct schema *s, uint32_t node, uint32_t depth, struct dfa *out) {
    enum tree_kind kind = tree_kind(&s->t, node);
    *out = (struct dfa){0};
    if (depth > NAMES_DEPTH_MAX) {
        schema_fail(s, ERR_LIMIT, "keyword \"propertyNames\" is nested too deeply");
        return false;
    }
    if (kind == TREE_TRUE || kind == TREE_FALSE)
        return all_or_none(s, kind == TREE_TRUE, out);
    if (kind == TREE_OBJECT && names_of_object(s, node, depth, out))
        return true;
    dfa_release(out);
    if (kind != TREE_OBJECT)
        schema_fail(s, ERR_INVALID, "a schema must be an object, true or false");
    return false;
}
