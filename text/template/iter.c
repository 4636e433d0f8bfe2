/*
 * iter.c - iteration: sequences of known length, and generators, which make their items when asked
 * and run once.
 */
#include "text/template/python.h"
#include "text/template/run.h"

static struct tvalue pair(struct run *r, struct tvalue a, struct tvalue b) {
    struct tvalue tuple = run_list(r, TVALUE_TUPLE);
    run_push(r, tuple, a);
    run_push(r, tuple, b);
    return tuple;
}

static struct tvalue characters(struct run *r, struct tvalue v) {
    struct tvalue list = run_list(r, TVALUE_LIST);
    struct bytes s = tvalue_text(v);
    for (size_t i = 0, n; i < s.len && !r->rc; i += n) {
        uint32_t cp;
        n = unicode_next(s.data + i, &cp);
        run_push(r, list, tvalue_string(bytes_of(s.data + i, n)));
    }
    return list;
}

struct tvalue seq_at(struct run *r, const struct seq *s, uint32_t idx) {
    const struct tdict *dict = s->of.dict;
    switch (s->of.kind) {
    case TVALUE_DICT: return dict->entries[idx].key;
    case TVALUE_VIEW:
        if (s->of.tag == VIEW_KEYS)
            return dict->entries[idx].key;
        if (s->of.tag == VIEW_VALUES)
            return dict->entries[idx].value;
        return pair(r, dict->entries[idx].key, dict->entries[idx].value);
    case TVALUE_RANGE: {
        const struct trange *range = s->of.pointer;
        return tvalue_int(range->start + range->step * (int64_t)idx);
    }
    default: return s->of.list->items[idx];
    }
}

/* Sequences that need no collecting. */
static bool plain_seq(struct run *r, struct tvalue v, struct seq *s) {
    if (v.kind == TVALUE_STRING)
        v = characters(r, v);
    s->of = v;
    s->count = 0;
    switch (v.kind) {
    case TVALUE_UNDEFINED: return true;
    case TVALUE_LIST:
    case TVALUE_TUPLE:
    case TVALUE_DICT:
    case TVALUE_VIEW:
    case TVALUE_RANGE: return op_length(v, &s->count);
    default: return false;
    }
}

bool iter_open(struct run *r, struct tvalue v, struct iter *it) {
    *it = (struct iter){0};
    if (r->rc)
        return false;
    if (v.kind == TVALUE_UNDEFINED && v.tag == UNDEFINED_UNSAFE)
        return run_fail_undefined(r, v), false;
    if (v.kind == TVALUE_GENERATOR) {
        it->generator = (struct tgenerator *)(uintptr_t)v.pointer;
        return true;
    }
    if (plain_seq(r, v, &it->seq))
        return !r->rc;
    run_fail(r, ERR_INVALID, "'%s' object is not iterable", python_type(v));
    return false;
}

bool seq_open(struct run *r, struct tvalue v, struct seq *s) {
    struct iter it;
    struct tvalue item;
    if (r->rc)
        return false;
    if (v.kind != TVALUE_GENERATOR && plain_seq(r, v, s))
        return !r->rc;
    if (!iter_open(r, v, &it))
        return false;
    s->of = run_list(r, TVALUE_LIST);
    while (iter_next(r, &it, &item))
        run_push(r, s->of, item);
    s->count = r->rc ? 0 : s->of.list->count;
    return !r->rc;
}

struct tvalue op_to_list(struct run *r, struct tvalue v) {
    struct iter it;
    struct tvalue item, list = run_list(r, TVALUE_LIST);
    if (!iter_open(r, v, &it))
        return undefined_value();
    while (iter_next(r, &it, &item))
        run_push(r, list, item);
    return list;
}

/* ---- generators ---- */

struct tvalue new_generator(struct run *r, enum generator_kind kind, struct tvalue source,
                            struct tgenerator **out) {
    struct tgenerator *g = run_alloc(r, sizeof *g);
    *out = g;
    if (!g)
        return undefined_value();
    g->kind = kind;
    g->source = source;
    g->function = -1;
    return (struct tvalue){.kind = TVALUE_GENERATOR, .pointer = g};
}

struct tvalue run_attribute_path(struct run *r, struct tvalue of, struct tvalue path) {
    if (path.kind != TVALUE_STRING)
        return run_get_item(r, of, path);
    struct bytes rest = tvalue_text(path);
    for (;;) {
        const uint8_t *dot = rest.len ? memchr(rest.data, '.', rest.len) : NULL;
        struct bytes step = bytes_of(rest.data, dot ? (size_t)(dot - rest.data) : rest.len);
        struct tvalue key = tvalue_string(step);
        bool digits = step.len && step.len < 10;
        int64_t number = 0;
        for (size_t i = 0; digits && i < step.len; i++) {
            digits = step.data[i] >= '0' && step.data[i] <= '9';
            number = number * 10 + (step.data[i] - '0');
        }
        of = run_get_item(r, of, digits ? tvalue_int(number) : key);
        if (!dot || r->rc)
            return of;
        rest = bytes_of(dot + 1, rest.len - step.len - 1);
    }
}

static bool passes(struct run *r, struct tgenerator *g, struct tvalue v) {
    return g->function < 0 ? op_truth(v) : test_call(r, g->function, v, g->args);
}

static struct tvalue fold_case(struct run *r, struct tvalue v) {
    struct buf out = {0};
    if (v.kind != TVALUE_STRING)
        return v;
    python_add_all_cased(&out, tvalue_text(v), PYTHON_LOWER);
    return run_take_buf(r, &out);
}

static bool is_new(struct run *r, struct tgenerator *g, struct tvalue item) {
    struct tvalue key =
        g->attribute.kind == TVALUE_UNDEFINED ? item : run_attribute_path(r, item, g->attribute);
    if (!g->case_sensitive)
        key = fold_case(r, key);
    /* equal to itself alone */
    if (key.kind == TVALUE_UNDEFINED)
        key = tvalue_string(bytes_str("\xFF"));
    if (!tvalue_is_key(key))
        return run_fail(r, ERR_INVALID, "unhashable type: '%s'", python_type(key)), false;
    if (tdict_find(g->seen.dict, key))
        return false;
    run_set(r, g->seen, key, tvalue_bool(true));
    return true;
}

/* What the generator makes of one item; false: nothing. */
static bool generate(struct run *r, struct tgenerator *g, struct tvalue item, struct tvalue *out) {
    *out = item;
    switch (g->kind) {
    case GENERATE_MAP_ATTRIBUTE:
        *out = run_attribute_path(r, item, g->attribute);
        if (out->kind == TVALUE_UNDEFINED && g->fallback.kind != TVALUE_UNDEFINED)
            *out = g->fallback;
        return true;
    case GENERATE_MAP_FILTER: *out = filter_call(r, g->function, item, g->args); return true;
    case GENERATE_SELECT: return passes(r, g, item);
    case GENERATE_REJECT: return !passes(r, g, item);
    case GENERATE_SELECT_ATTRIBUTE: return passes(r, g, run_attribute_path(r, item, g->attribute));
    case GENERATE_REJECT_ATTRIBUTE: return !passes(r, g, run_attribute_path(r, item, g->attribute));
    case GENERATE_UNIQUE: return is_new(r, g, item);
    default: return true;
    }
}

static bool open_generator(struct run *r, struct tgenerator *g) {
    if (g->opened)
        return true;
    g->opened = true;
    if (g->kind == GENERATE_ITEMS) {
        if (g->source.kind == TVALUE_UNDEFINED)
            return iter_open(r, g->source, &g->iter);
        if (g->source.kind != TVALUE_DICT)
            return run_fail(r, ERR_INVALID, "Can only get item pairs from a mapping."), false;
        g->source = (struct tvalue){.kind = TVALUE_VIEW, .tag = VIEW_ITEMS, .dict = g->source.dict};
    }
    if (g->kind == GENERATE_ROWS)
        g->source = g->make(r, g->source, g->attribute, g->fallback);
    if (g->kind == GENERATE_REVERSED) {
        if (!seq_open(r, g->source, &g->iter.seq))
            return false;
        return true;
    }
    return iter_open(r, g->source, &g->iter);
}

static bool generator_next(struct run *r, struct tgenerator *g, struct tvalue *out) {
    struct tvalue item;
    if (g->done || !open_generator(r, g))
        return false;
    if (g->kind == GENERATE_REVERSED) {
        if (g->iter.at >= g->iter.seq.count)
            return g->done = true, false;
        *out = seq_at(r, &g->iter.seq, g->iter.seq.count - 1 - g->iter.at++);
        return !r->rc;
    }
    while (iter_next(r, &g->iter, &item)) {
        bool take = generate(r, g, item, out);
        if (r->rc)
            return false;
        if (take)
            return true;
    }
    g->done = true;
    return false;
}

bool iter_next(struct run *r, struct iter *it, struct tvalue *out) {
    if (r->rc || !run_burn(r, 1))
        return false;
    if (it->generator) {
        if (++r->depth > RUN_DEPTH_MAX)
            run_fail(r, ERR_LIMIT, "nested too deep");
        bool found = !r->rc && generator_next(r, it->generator, out);
        r->depth--;
        return found;
    }
    if (it->at >= it->seq.count)
        return false;
    *out = seq_at(r, &it->seq, it->at++);
    return !r->rc;
}
