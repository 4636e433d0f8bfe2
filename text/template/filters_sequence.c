/*
 * filters_sequence.c - filters on sequences. Those that are generators in jinja2 are generators here:
 * they have no length, no items, and run once.
 */
#include "text/template/filters.h"
#include "text/template/python.h"

#define FILTER(name)                                                                               \
    struct tvalue name(struct run *r, struct tvalue v, const struct params *p, struct args args)

/* ---- simple ones ---- */

FILTER(filter_length) {
    uint32_t count;
    if (op_length(v, &count))
        return tvalue_int(count);
    return run_fail(r, ERR_INVALID, "object of type '%s' has no len()", python_type(v));
}

FILTER(filter_list) {
    return op_to_list(r, v);
}

static struct tvalue nothing(const char *why) {
    return (struct tvalue){.tag = UNDEFINED_TEXT, .text = why, .len = (uint32_t)strlen(why)};
}

FILTER(filter_first) {
    struct iter it;
    struct tvalue item;
    if (!iter_open(r, v, &it))
        return undefined_value();
    return iter_next(r, &it, &item) ? item : nothing("No first item, sequence was empty.");
}

FILTER(filter_last) {
    struct seq s;
    if (v.kind == TVALUE_GENERATOR)
        return run_fail(r, ERR_INVALID, "'generator' object is not reversible");
    if (!seq_open(r, v, &s))
        return undefined_value();
    if (!s.count)
        return nothing("No last item, sequence was empty.");
    struct tvalue last = seq_at(r, &s, s.count - 1);
    return is_markup(v) ? markup_of(last) : last;
}

/* Inside {% autoescape true %}: where a step or the separator is marked, the others are escaped. */
static struct tvalue join_escaped(struct run *r, struct tvalue list, struct tvalue between) {
    bool marked = is_markup(between);
    for (uint32_t i = 0; i < list.list->count && !r->rc; i++) {
        list.list->items[i] = run_to_string(r, list.list->items[i]);
        marked |= is_markup(list.list->items[i]);
    }
    if (marked)
        between = markup_escape(r, between);
    struct args args = {&list, 1, NULL};
    return r->rc ? undefined_value()
                 : method_call(r, between, method_find(bytes_str("join")), args);
}

FILTER(filter_join) {
    struct tvalue between =
                      p->given[0] ? run_to_string(r, p->v[0]) : tvalue_string(bytes_of(NULL, 0)),
                  item;
    struct iter it;
    struct buf out;
    if (!iter_open(r, v, &it))
        return undefined_value();
    if (r->autoescape) {
        struct tvalue list = run_list(r, TVALUE_LIST);
        while (iter_next(r, &it, &item))
            run_push(r, list,
                     p->given[1] && p->v[1].kind != TVALUE_NONE
                         ? run_attribute_path(r, item, p->v[1])
                         : item);
        return r->rc ? undefined_value() : join_escaped(r, list, between);
    }
    buf_init(&out, r->out_max);
    for (bool first = true; iter_next(r, &it, &item); first = false) {
        if (p->given[1] && p->v[1].kind != TVALUE_NONE)
            item = run_attribute_path(r, item, p->v[1]);
        if (!first)
            buf_add(&out, between.text, between.len);
        run_str(r, item, &out);
    }
    return run_take_buf(r, &out);
}

FILTER(filter_items) {
    struct tgenerator *g;
    return new_generator(r, GENERATE_ITEMS, v, &g);
}

FILTER(filter_reverse) {
    struct tgenerator *g;
    if (v.kind == TVALUE_STRING)
        return run_slice(r, v, tvalue_none(), tvalue_none(), tvalue_int(-1));
    uint32_t count;
    if (v.kind != TVALUE_GENERATOR && v.kind != TVALUE_UNDEFINED && !op_length(v, &count))
        return run_fail(r, ERR_INVALID, "argument must be iterable");
    if (v.kind != TVALUE_GENERATOR)
        return new_generator(r, GENERATE_REVERSED, v, &g);
    struct tvalue list = op_to_list(r, v);
    return run_slice(r, list, tvalue_none(), tvalue_none(), tvalue_int(-1));
}

/* ---- map, select, reject ---- */

static const struct tvalue *keyword(struct args args, const char *name) {
    return args.keywords ? tdict_find(args.keywords, tvalue_string(bytes_str(name))) : NULL;
}

static struct args rest(struct args args, uint32_t skip) {
    return (struct args){args.items + skip, args.count - skip,
                         args.keywords && args.keywords->count ? args.keywords : NULL};
}

/* What is nothing gives nothing, whatever the arguments are. */
static struct tvalue empty_generator(struct run *r) {
    struct tgenerator *g;
    return new_generator(r, GENERATE_PLAIN, run_list(r, TVALUE_LIST), &g);
}

FILTER(filter_map) {
    struct tgenerator *g;
    if (!op_truth(v))
        return empty_generator(r);
    const struct tvalue *attribute = keyword(args, "attribute"),
                        *fallback = keyword(args, "default");
    if (!args.count && attribute) {
        if (args.keywords->count > 1u + (fallback != NULL))
            return run_fail(r, ERR_INVALID, "map: unexpected keyword argument");
        struct tvalue out = new_generator(r, GENERATE_MAP_ATTRIBUTE, v, &g);
        if (g)
            g->attribute = *attribute;
        if (g && fallback)
            g->fallback = *fallback;
        return out;
    }
    if (!args.count || args.items[0].kind != TVALUE_STRING)
        return run_fail(r, ERR_INVALID, "map requires a filter argument");
    int filter = filter_find(tvalue_text(args.items[0]));
    if (filter < 0)
        return run_fail(r, ERR_INVALID, "No filter named '%.*s'.", (int)MIN(args.items[0].len, 64u),
                        args.items[0].text);
    struct tvalue out = new_generator(r, GENERATE_MAP_FILTER, v, &g);
    if (g)
        g->function = filter;
    if (g)
        g->args = rest(args, 1);
    return out;
}

/* select(test, ...) or selectattr(attribute, test, ...). */
static struct tvalue choose(struct run *r, struct tvalue v, struct args args,
                            enum generator_kind kind, bool by_attribute) {
    struct tgenerator *g;
    uint32_t test_at = by_attribute;
    int test = -1;
    if (!op_truth(v))
        return empty_generator(r);
    if (by_attribute && !args.count)
        return run_fail(r, ERR_INVALID, "Missing parameter for attribute name");
    if (args.count > test_at) {
        struct tvalue name = args.items[test_at];
        test = name.kind == TVALUE_STRING ? test_find(tvalue_text(name)) : -1;
        if (test < 0)
            return run_fail(r, ERR_INVALID, "No test named '%.*s'.",
                            (int)MIN(tvalue_text(name).len, (size_t)64),
                            name.kind == TVALUE_STRING ? name.text : "");
    }
    struct tvalue out = new_generator(r, kind, v, &g);
    if (!g)
        return out;
    g->function = test;
    if (by_attribute)
        g->attribute = args.items[0];
    if (test >= 0)
        g->args = rest(args, test_at + 1);
    return out;
}
FILTER(filter_select) {
    return choose(r, v, args, GENERATE_SELECT, false);
}
FILTER(filter_reject) {
    return choose(r, v, args, GENERATE_REJECT, false);
}
FILTER(filter_selectattr) {
    return choose(r, v, args, GENERATE_SELECT_ATTRIBUTE, true);
}
FILTER(filter_rejectattr) {
    return choose(r, v, args, GENERATE_REJECT_ATTRIBUTE, true);
}

FILTER(filter_unique) {
    struct tgenerator *g;
    struct tvalue out = new_generator(r, GENERATE_UNIQUE, v, &g);
    if (!g)
        return out;
    g->case_sensitive = p->given[0] && op_truth(p->v[0]);
    if (p->given[1] && p->v[1].kind != TVALUE_NONE)
        g->attribute = p->v[1];
    g->seen = tvalue_dict(&r->arena);
    if (g->seen.kind != TVALUE_DICT)
        run_fail(r, ERR_LIMIT, "the template uses too much memory");
    return out;
}

/* ---- order ---- */

/* What an item is sorted by: its attribute (several, with commas, make a tuple), strings in lower
 * case unless case_sensitive. */
static struct tvalue sort_key(struct run *r, struct tvalue item, struct tvalue attribute,
                              bool case_sensitive) {
    struct buf lower = {0};
    struct bytes path = tvalue_text(attribute);
    const uint8_t *comma = path.len ? memchr(path.data, ',', path.len) : NULL;
    if (comma) {
        struct tvalue tuple = run_list(r, TVALUE_TUPLE);
        while (!r->rc) {
            struct bytes step = bytes_of(path.data, comma ? (size_t)(comma - path.data) : path.len);
            run_push(r, tuple, sort_key(r, item, tvalue_string(step), case_sensitive));
            if (!comma)
                break;
            path = bytes_of(comma + 1, path.len - step.len - 1);
            comma = memchr(path.data, ',', path.len);
        }
        return tuple;
    }
    struct tvalue key =
        attribute.kind > TVALUE_NONE ? run_attribute_path(r, item, attribute) : item;
    if (key.kind != TVALUE_STRING || case_sensitive)
        return key;
    python_add_all_cased(&lower, tvalue_text(key), PYTHON_LOWER);
    return run_take_buf(r, &lower);
}

struct keyed {
    struct tvalue key, item;
};

/* Stable merge sort; reversed keeps equal items in their order, as Python's. listed: keys are
 * compared as if each were a list of one, so that equal ones need no order. */
static void merge_sort(struct run *r, struct keyed *items, struct keyed *scratch, uint32_t count,
                       bool reverse, bool listed) {
    if (count < 2 || r->rc)
        return;
    uint32_t half = count / 2, i = 0, k = half, at = 0;
    merge_sort(r, items, scratch, half, reverse, listed);
    merge_sort(r, items + half, scratch, count - half, reverse, listed);
    while (i < half && k < count && !r->rc) {
        run_burn(r, 1);
        bool equal = listed && op_equal(r, items[k].key, items[i].key);
        int order = equal ? 0 : op_order(r, items[k].key, items[i].key);
        bool second = reverse ? order == 1 : order < 0;
        scratch[at++] = second ? items[k++] : items[i++];
    }
    if (r->rc)
        return;
    while (i < half)
        scratch[at++] = items[i++];
    while (k < count)
        scratch[at++] = items[k++];
    memcpy(items, scratch, count * sizeof *items);
}

struct order {
    struct tvalue attribute, fallback; /* fallback: the key of what lacks the attribute */
    bool case_sensitive, reverse, listed;
};

/* The items with their keys, sorted; NULL after failing. */
static struct keyed *sorted(struct run *r, struct tvalue v, const struct order *o,
                            uint32_t *count) {
    struct seq s;
    if (!seq_open(r, v, &s))
        return NULL;
    *count = s.count;
    struct keyed *items = run_alloc(r, MAX(s.count, 1u) * sizeof *items),
                 *scratch = run_alloc(r, MAX(s.count, 1u) * sizeof *scratch);
    for (uint32_t i = 0; i < s.count && !r->rc; i++) {
        items[i].item = seq_at(r, &s, i);
        items[i].key = sort_key(r, items[i].item, o->attribute, o->case_sensitive);
        if (items[i].key.kind == TVALUE_UNDEFINED && o->fallback.kind != TVALUE_UNDEFINED)
            items[i].key = o->fallback;
    }
    if (!r->rc)
        merge_sort(r, items, scratch, s.count, o->reverse, o->listed);
    return r->rc ? NULL : items;
}

FILTER(filter_sort) {
    uint32_t count;
    int64_t reverse = 0;
    if (p->given[0] && !op_is_int(p->v[0], &reverse))
        return run_fail(r, ERR_INVALID, "'%s' object cannot be interpreted as an integer",
                        python_type(p->v[0]));
    struct order o = {.attribute = p->given[2] ? p->v[2] : tvalue_none(),
                      .case_sensitive = p->given[1] && op_truth(p->v[1]),
                      .reverse = reverse != 0,
                      .listed = true};
    struct keyed *items = sorted(r, v, &o, &count);
    struct tvalue list = run_list(r, TVALUE_LIST);
    for (uint32_t i = 0; items && i < count && !r->rc; i++)
        run_push(r, list, items[i].item);
    return list;
}

FILTER(filter_dictsort) {
    uint32_t count;
    bool by_value = p->given[1] && bytes_equal(tvalue_text(p->v[1]), bytes_str("value"));
    if (v.kind == TVALUE_UNDEFINED)
        return run_fail_undefined(r, v);
    if (v.kind != TVALUE_DICT)
        return run_fail(r, ERR_INVALID, "'%s' object has no attribute 'items'", python_type(v));
    if (p->given[1] && !by_value && !bytes_equal(tvalue_text(p->v[1]), bytes_str("key")))
        return run_fail(r, ERR_INVALID, "You can only sort by either \"key\" or \"value\"");
    struct tvalue pairs = {.kind = TVALUE_VIEW, .tag = VIEW_ITEMS, .dict = v.dict};
    struct order o = {.attribute = tvalue_int(by_value),
                      .case_sensitive = p->given[0] && op_truth(p->v[0]),
                      .reverse = p->given[2] && op_truth(p->v[2])};
    struct keyed *items = sorted(r, pairs, &o, &count);
    struct tvalue list = run_list(r, TVALUE_LIST);
    for (uint32_t i = 0; items && i < count && !r->rc; i++)
        run_push(r, list, items[i].item);
    return list;
}

static struct tvalue extreme(struct run *r, struct tvalue v, const struct params *p, int want) {
    struct iter it;
    struct tvalue item, best = undefined_value(), best_key = undefined_value();
    struct tvalue attribute = p->given[1] ? p->v[1] : tvalue_none();
    bool case_sensitive = p->given[0] && op_truth(p->v[0]), first = true;
    if (!iter_open(r, v, &it))
        return undefined_value();
    for (; iter_next(r, &it, &item); first = false) {
        struct tvalue key = sort_key(r, item, attribute, case_sensitive);
        if (!first && op_order(r, key, best_key) != want)
            continue;
        best = item;
        best_key = key;
    }
    return first ? nothing("No aggregated item, sequence was empty.") : best;
}
FILTER(filter_min) {
    return extreme(r, v, p, -1);
}
FILTER(filter_max) {
    return extreme(r, v, p, 1);
}

FILTER(filter_sum) {
    struct iter it;
    struct tvalue item, total = p->given[1] ? p->v[1] : tvalue_int(0);
    if (total.kind == TVALUE_STRING)
        return run_fail(r, ERR_INVALID, "sum() can't sum strings [use ''.join(seq) instead]");
    if (!iter_open(r, v, &it))
        return undefined_value();
    while (iter_next(r, &it, &item)) {
        if (p->given[0] && p->v[0].kind != TVALUE_NONE)
            item = run_attribute_path(r, item, p->v[0]);
        total = op_add(r, total, item);
    }
    return total;
}

/* ---- groups ---- */

/* Rows are made when the first is asked for, as by jinja2's generators, so errors come then. */
static struct tvalue rows_later(struct run *r, struct tvalue v, const struct params *p,
                                make_rows *make) {
    struct tgenerator *g;
    struct tvalue out = new_generator(r, GENERATE_ROWS, v, &g);
    if (!g)
        return out;
    g->make = make;
    g->attribute = p->v[0];
    g->fallback = p->given[1] ? p->v[1] : tvalue_none();
    return out;
}

static struct tvalue batch_rows(struct run *r, struct tvalue v, struct tvalue count,
                                struct tvalue fill) {
    struct seq s;
    struct tvalue rows = run_list(r, TVALUE_LIST), row = run_list(r, TVALUE_LIST);
    if (!seq_open(r, v, &s))
        return undefined_value();
    for (uint32_t i = 0; i < s.count && !r->rc; i++) {
        if (op_equal(r, tvalue_int(row.list->count), count)) {
            run_push(r, rows, row);
            row = run_list(r, TVALUE_LIST);
        }
        run_push(r, row, seq_at(r, &s, i));
    }
    if (r->rc || !s.count)
        return rows;
    while (fill.kind != TVALUE_NONE && !r->rc &&
           op_order(r, tvalue_int(row.list->count), count) < 0 && run_burn(r, 1))
        run_push(r, row, fill);
    run_push(r, rows, row);
    return rows;
}
FILTER(filter_batch) {
    return rows_later(r, v, p, batch_rows);
}

static struct tvalue slice_rows(struct run *r, struct tvalue v, struct tvalue count,
                                struct tvalue fill) {
    int64_t slices;
    struct seq s;
    struct tvalue rows = run_list(r, TVALUE_LIST);
    if (!seq_open(r, v, &s))
        return undefined_value();
    if (!op_is_int(count, &slices))
        return run_fail(r, ERR_INVALID, "slice: the count must be an integer");
    if (!slices)
        return run_fail(r, ERR_INVALID, "integer division or modulo by zero");
    int64_t per = s.count / MAX(slices, (int64_t)1), extra = s.count % MAX(slices, (int64_t)1);
    uint32_t at = 0;
    for (int64_t i = 0; i < slices && run_burn(r, 1); i++) {
        struct tvalue row = run_list(r, TVALUE_LIST);
        for (int64_t k = 0; k < per + (i < extra) && !r->rc; k++)
            run_push(r, row, seq_at(r, &s, at++));
        if (fill.kind != TVALUE_NONE && i >= extra)
            run_push(r, row, fill);
        run_push(r, rows, row);
    }
    return rows;
}
FILTER(filter_slice) {
    return rows_later(r, v, p, slice_rows);
}

/* Pairs (key, items), sorted by key; their parts have the names grouper and list too. */
FILTER(filter_groupby) {
    uint32_t count;
    struct order o = {.attribute = p->v[0],
                      .fallback = p->given[1] ? p->v[1] : undefined_value(),
                      .case_sensitive = p->given[2] && op_truth(p->v[2])};
    struct keyed *items = sorted(r, v, &o, &count);
    struct tvalue groups = run_list(r, TVALUE_LIST), members = undefined_value();
    for (uint32_t i = 0; items && i < count && !r->rc; i++) {
        if (!i || !op_equal(r, items[i].key, items[i - 1].key)) {
            struct tvalue group = run_list(r, TVALUE_TUPLE);
            members = run_list(r, TVALUE_LIST);
            struct tvalue key = run_attribute_path(r, items[i].item, p->v[0]);
            if (key.kind == TVALUE_UNDEFINED && p->given[1])
                key = p->v[1];
            run_push(r, group, key);
            run_push(r, group, members);
            group.flags |= TVALUE_GROUP;
            run_push(r, groups, group);
        }
        run_push(r, members, items[i].item);
    }
    return groups;
}
