/*
 * build.c - the pools of a builder, and the JSON values that every schema needs.
 */
#include "grammar/build.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>

struct grammar_limits grammar_limits_default(void) {
    return (struct grammar_limits){
        .states = 200000, .exprs = 200000, .bytes = 1 << 20, .depth = 64};
}

void builder_init(struct builder *b, const struct grammar_limits *limits) {
    *b = (struct builder){.limits = *limits,
                          .fuel = {.states = limits->states},
                          .loose_space = true,
                          .space = FA_NONE,
                          .any_json = FA_NONE};
    vec_push(&b->exprs, ((struct expr){.kind = EXPR_NEVER}));
    vec_push(&b->exprs, ((struct expr){.kind = EXPR_EMPTY}));
    vec_push(&b->exprs, ((struct expr){.kind = EXPR_NEVER})); /* EXPR_NOT_SET */
}

static void object_rules_release(struct object_rules *o) {
    vec_release(&o->values);
    vec_release(&o->somes);
    dfa_release(&o->keys);
    for (uint32_t i = 0; o->needs && i < o->property_count; i++)
        mem_free(o->needs[i]);
    mem_free(o->needs);
    mem_free(o->required);
}

void builder_release(struct builder *b) {
    for (size_t i = 0; i < b->dfas.count; i++)
        dfa_release(&b->dfas.items[i]);
    for (size_t i = 0; i < b->objects.count; i++)
        object_rules_release(&b->objects.items[i]);
    vec_release(&b->exprs);
    vec_release(&b->kids);
    vec_release(&b->ranges);
    vec_release(&b->dfas);
    vec_release(&b->rules);
    vec_release(&b->objects);
    buf_release(&b->text);
}

uint32_t builder_fail(struct builder *b, int code, const char *fmt, ...) {
    if (b->failed)
        return 0;
    b->failed = true;
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)error_set(&b->error, code, "%s", text);
    return 0;
}

/* ---- expressions ---- */

static uint32_t add(struct builder *b, struct expr e) {
    if (b->failed)
        return 0;
    if (b->exprs.count + b->rules.count + b->kids.count / 4 >= b->limits.exprs)
        return builder_fail(b, ERR_LIMIT, "the grammar is too large");
    vec_push(&b->exprs, e);
    return (uint32_t)b->exprs.count - 1;
}

uint32_t expr_never(struct builder *b) {
    return 0;
}

uint32_t expr_empty(struct builder *b) {
    return 1;
}

uint32_t expr_bytes(struct builder *b, struct bytes text) {
    if (!text.len)
        return expr_empty(b);
    size_t at = b->text.len;
    buf_add_bytes(&b->text, text);
    return add(b, (struct expr){EXPR_BYTES, (uint32_t)at, (uint32_t)text.len, 0});
}

uint32_t expr_text(struct builder *b, const char *text) {
    return expr_bytes(b, bytes_str(text));
}

uint32_t expr_chars(struct builder *b, const struct code_range *ranges, size_t count) {
    if (!count)
        return expr_never(b);
    size_t at = b->ranges.count;
    for (size_t i = 0; i < count; i++)
        vec_push(&b->ranges, ranges[i]);
    return add(b, (struct expr){EXPR_CHARS, (uint32_t)at, (uint32_t)count, 0});
}

/* Parts may lie in the pool that grows. */
static uint32_t add_list(struct builder *b, enum expr_kind kind, const uint32_t *terms,
                         size_t count) {
    size_t at = b->kids.count;
    for (size_t i = 0; i < count; i++)
        vec_push(&b->kids, terms[i]);
    return add(b, (struct expr){(uint8_t)kind, (uint32_t)at, (uint32_t)count, 0});
}

uint32_t expr_concat(struct builder *b, const uint32_t *terms, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (b->exprs.items[terms[i]].kind == EXPR_NEVER)
            return expr_never(b);
    return count == 0   ? expr_empty(b)
           : count == 1 ? terms[0]
                        : add_list(b, EXPR_CONCAT, terms, count);
}

uint32_t expr_alt(struct builder *b, const uint32_t *terms, size_t count) {
    VEC(uint32_t) kept = {0};
    for (size_t i = 0; i < count; i++)
        if (b->exprs.items[terms[i]].kind != EXPR_NEVER)
            vec_push(&kept, terms[i]);
    uint32_t e = kept.count == 0   ? expr_never(b)
                 : kept.count == 1 ? kept.items[0]
                                   : add_list(b, EXPR_ALT, kept.items, kept.count);
    vec_release(&kept);
    return e;
}

uint32_t expr_repeat(struct builder *b, uint32_t term, uint32_t min, uint32_t max) {
    CHECK(min <= max);
    uint8_t kind = b->exprs.items[term].kind;
    if (max == 0 || kind == EXPR_EMPTY || (kind == EXPR_NEVER && min == 0))
        return expr_empty(b);
    if (kind == EXPR_NEVER)
        return expr_never(b);
    return min == 1 && max == 1 ? term : add(b, (struct expr){EXPR_REPEAT, term, min, max});
}

uint32_t expr_rule(struct builder *b, uint32_t rule) {
    CHECK(rule < b->rules.count || b->failed);
    return add(b, (struct expr){EXPR_RULE, rule, 0, 0});
}

uint32_t expr_dfa(struct builder *b, struct dfa *dfa, enum expr_kind kind) {
    CHECK(kind == EXPR_DFA || kind == EXPR_QUOTED);
    if (dfa_is_empty(dfa)) {
        dfa_release(dfa);
        return expr_never(b);
    }
    vec_push(&b->dfas, *dfa);
    *dfa = (struct dfa){0};
    return add(b, (struct expr){(uint8_t)kind, (uint32_t)b->dfas.count - 1, 0, 0});
}

uint32_t expr_counted(struct builder *b, struct dfa *dfa, uint32_t max) {
    uint32_t *shortest = dfa_shortest(dfa);
    bool fits = dfa->states.count && shortest[0] != FA_NONE && shortest[0] <= max;
    mem_free(shortest);
    if (!fits) {
        dfa_release(dfa);
        return expr_never(b);
    }
    vec_push(&b->dfas, *dfa);
    *dfa = (struct dfa){0};
    return add(b, (struct expr){EXPR_COUNTED, (uint32_t)b->dfas.count - 1, max, 0});
}

uint32_t expr_string(struct builder *b, uint32_t min, uint32_t max) {
    return min > max ? expr_never(b) : add(b, (struct expr){EXPR_STRING, min, max, 0});
}

uint32_t expr_object(struct builder *b, struct object_rules *rules) {
    vec_push(&b->objects, *rules);
    *rules = (struct object_rules){0};
    return add(b, (struct expr){EXPR_OBJECT, (uint32_t)b->objects.count - 1, 0, 0});
}

uint32_t expr_unique(struct builder *b, uint32_t term, bool endless) {
    return b->exprs.items[term].kind == EXPR_NEVER
               ? expr_never(b)
               : add(b, (struct expr){EXPR_UNIQUE, term, endless, 0});
}

uint32_t expr_item(struct builder *b, uint32_t term) {
    return b->exprs.items[term].kind == EXPR_NEVER ? expr_never(b)
                                                   : add(b, (struct expr){EXPR_ITEM, term, 0, 0});
}

uint32_t builder_rule(struct builder *b) {
    if (b->failed || b->rules.count + b->exprs.count >= b->limits.exprs)
        return builder_fail(b, ERR_LIMIT, "the grammar is too large");
    vec_push(&b->rules, EXPR_NOT_SET);
    return (uint32_t)b->rules.count - 1;
}

void builder_set_rule(struct builder *b, uint32_t rule, uint32_t expr) {
    if (b->failed)
        return;
    CHECK(rule < b->rules.count);
    b->rules.items[rule] = expr;
}

/* ---- ranges ---- */

static int compare_ranges(const void *a, const void *b) {
    const struct code_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

void code_ranges_complement(code_range_vec *v) {
    code_range_vec out = {0};
    uint32_t next = 0;
    if (v->count)
        qsort(v->items, v->count, sizeof *v->items, compare_ranges);
    for (size_t i = 0; i < v->count; i++) {
        if (v->items[i].lo > next)
            vec_push(&out, ((struct code_range){next, v->items[i].lo - 1}));
        next = MAX(next, v->items[i].hi + 1);
    }
    if (next <= 0x10ffff)
        vec_push(&out, ((struct code_range){next, 0x10ffff}));
    vec_release(v);
    *v = out;
}

/* ---- JSON ---- */

uint32_t expr_space(struct builder *b) {
    if (!b->loose_space)
        return expr_empty(b);
    if (b->space == FA_NONE) {
        static const struct code_range SPACE[] = {{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}};
        b->space = b->plain
                       ? expr_repeat(b, expr_text(b, " "), 0, 1)
                       : expr_repeat(b, expr_chars(b, SPACE, ARRAY_LEN(SPACE)), 0, REPEAT_NO_END);
    }
    return b->space;
}

uint32_t expr_number(struct builder *b, bool whole) {
    static const struct code_range DIGIT = {'0', '9'}, FIRST = {'1', '9'};
    static const struct code_range E[] = {{'E', 'E'}, {'e', 'e'}},
                                   SIGN[] = {{'+', '+'}, {'-', '-'}};
    uint32_t digit = expr_chars(b, &DIGIT, 1), minus = expr_text(b, "-"), zero = expr_text(b, "0");
    uint32_t digits = expr_repeat(b, digit, 0, b->plain ? 18 : REPEAT_NO_END);
    uint32_t large = expr_concat(b, (uint32_t[]){expr_chars(b, &FIRST, 1), digits}, 2);
    uint32_t head[] = {expr_repeat(b, minus, 0, 1), expr_alt(b, (uint32_t[]){zero, large}, 2)};
    uint32_t term = expr_repeat(b, whole ? zero : digit, 1, b->plain ? 17 : REPEAT_NO_END);
    uint32_t fraction = expr_concat(b, (uint32_t[]){expr_text(b, "."), term}, 2);
    /* of an integer without fraction none that is negative: 1e2 is one, 1e-2 is not */
    uint32_t sign = expr_chars(b, SIGN, whole ? 1 : 2);
    uint32_t exponent =
        expr_concat(b,
                    (uint32_t[]){expr_chars(b, E, 2), expr_repeat(b, sign, 0, 1),
                                 expr_repeat(b, digit, 1, b->plain ? 2 : REPEAT_NO_END)},
                    3);
    if (whole && b->plain)
        return expr_concat(b, head, 2);
    return expr_concat(b,
                       (uint32_t[]){head[0], head[1], expr_repeat(b, fraction, 0, 1),
                                    expr_repeat(b, exponent, 0, 1)},
                       4);
}

/* open (item (, item)*)? close, white space where it may stand. */
static uint32_t bracketed(struct builder *b, const char *open, uint32_t item, const char *close) {
    uint32_t space = expr_space(b);
    uint32_t next = expr_concat(b, (uint32_t[]){space, expr_text(b, ","), space, item}, 4);
    uint32_t items =
        expr_concat(b, (uint32_t[]){item, expr_repeat(b, next, 0, REPEAT_NO_END), space}, 3);
    return expr_concat(
        b,
        (uint32_t[]){expr_text(b, open), space, expr_repeat(b, items, 0, 1), expr_text(b, close)},
        4);
}

static uint32_t any_string(struct builder *b) {
    return b->any_string ? b->any_string : expr_string(b, 0, REPEAT_NO_END);
}

uint32_t expr_any_object(struct builder *b) {
    uint32_t space = expr_space(b), string = any_string(b);
    uint32_t member =
        expr_concat(b, (uint32_t[]){string, space, expr_text(b, ":"), space, expr_any_json(b)}, 5);
    return bracketed(b, "{", member, "}");
}

uint32_t expr_any_json(struct builder *b) {
    if (b->any_json == FA_NONE && !b->failed) {
        b->any_json = builder_rule(b);
        uint32_t kinds[] = {any_string(b),        expr_number(b, false),
                            expr_any_object(b),   bracketed(b, "[", expr_rule(b, b->any_json), "]"),
                            expr_text(b, "true"), expr_text(b, "false"),
                            expr_text(b, "null")};
        builder_set_rule(b, b->any_json, expr_alt(b, kinds, ARRAY_LEN(kinds)));
    }
    return expr_rule(b, b->any_json);
}

/* ---- automata of expressions ---- */

static int add_expr(struct builder *b, struct nfa *n, uint32_t e, uint32_t from, uint32_t to,
                    uint32_t depth, struct error *err);

/* One copy of the term for each time that it must come, or may. Of those that may come, an earlier one
 * is followed by all that a later one is; where there is no end, a later one of those that must. */
static int add_repeated(struct builder *b, struct nfa *n, struct expr x, uint32_t from, uint32_t to,
                        uint32_t depth, struct error *err) {
    uint32_t min = x.b, max = x.c == REPEAT_NO_END ? min : x.c, first = 0;
    int rc = 0;
    for (uint32_t i = 0; i < max && !rc; i++) {
        if (i == 0 || (i == min && x.c != REPEAT_NO_END))
            first = (uint32_t)n->first.count;
        uint32_t next = nfa_state(n);
        if (i >= min)
            nfa_free_edge(n, from, to);
        rc = add_expr(b, n, x.a, from, next, depth + 1, err);
        from = next;
    }
    if (rc)
        return rc;
    if (x.c == REPEAT_NO_END) {
        uint32_t loop = nfa_state(n);
        nfa_free_edge(n, from, loop);
        nfa_free_edge(n, loop, to);
        rc = add_expr(b, n, x.a, loop, loop, depth + 1, err);
        if (!rc && min)
            nfa_copies(n, first, ((uint32_t)n->first.count - first) / (min + 1), min + 1, true);
        return rc;
    }
    nfa_free_edge(n, from, to);
    if (max > min)
        nfa_copies(n, first, ((uint32_t)n->first.count - first) / (max - min), max - min, false);
    return 0;
}

/* Adds e between two states; depth bounds the recursion, which follows the nesting of groups. */
static int add_expr(struct builder *b, struct nfa *n, uint32_t e, uint32_t from, uint32_t to,
                    uint32_t depth, struct error *err) {
    const struct expr x = b->exprs.items[e];
    int rc = 0;
    if (depth > 4 * b->limits.depth)
        return error_set(err, ERR_LIMIT, "the pattern is nested too deeply");
    if (n->first.count > b->limits.states)
        return error_set(err, ERR_LIMIT, "the pattern needs too many states");
    switch ((enum expr_kind)x.kind) {
    case EXPR_NEVER: return 0;
    case EXPR_EMPTY: nfa_free_edge(n, from, to); return 0;
    case EXPR_BYTES:
        for (size_t i = 0; i < x.b;) {
            uint32_t cp;
            size_t len = utf8_decode(b->text.data + x.a + i, x.b - i, &cp);
            i += len;
            uint32_t next = i < x.b ? nfa_state(n) : to;
            nfa_edge(n, from, cp, cp, next);
            from = next;
        }
        return 0;
    case EXPR_CHARS:
        for (uint32_t i = 0; i < x.b; i++)
            nfa_edge(n, from, b->ranges.items[x.a + i].lo, b->ranges.items[x.a + i].hi, to);
        return 0;
    case EXPR_DFA: nfa_add_dfa(n, &b->dfas.items[x.a], nfa_edge, from, to); return 0;
    case EXPR_CONCAT:
        for (uint32_t i = 0; i < x.b && !rc; i++) {
            uint32_t next = i + 1 < x.b ? nfa_state(n) : to;
            rc = add_expr(b, n, b->kids.items[x.a + i], from, next, depth + 1, err);
            from = next;
        }
        return rc;
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b && !rc; i++)
            rc = add_expr(b, n, b->kids.items[x.a + i], from, to, depth + 1, err);
        return rc;
    case EXPR_REPEAT: return add_repeated(b, n, x, from, to, depth, err);
    default: return error_set(err, ERR_UNSUPPORTED, "the pattern holds more than characters");
    }
}

int expr_to_dfa(struct builder *b, uint32_t expr, bool found, struct dfa *out, struct error *err) {
    struct nfa n = {0};
    *out = (struct dfa){0};
    uint32_t from = nfa_state(&n), to = nfa_state(&n);
    n.labels.items[to] = 0;
    if (found) {
        nfa_edge(&n, to, 0, 0x10ffff, to);
        n.end = 1 + to;
    }
    int rc = add_expr(b, &n, expr, from, to, 0, err);
    if (!rc)
        rc = dfa_from_nfa(&n, from, &b->fuel, out, err);
    nfa_release(&n);
    return rc;
}

int dfa_of_length(struct builder *b, uint32_t min, uint32_t max, struct dfa *out,
                  struct error *err) {
    *out = (struct dfa){0};
    uint32_t last = max == REPEAT_NO_END ? min : max;
    if (last >= b->fuel.states)
        return error_set(err, ERR_LIMIT, "a length of %u is too much beside a pattern", last);
    b->fuel.states -= last;
    for (uint32_t i = 0; i <= last; i++) {
        bool more = i < last || max == REPEAT_NO_END;
        vec_push(&out->states,
                 ((struct dfa_state){(uint32_t)out->edges.count, more, i >= min ? 0 : FA_NONE}));
        if (more)
            vec_push(&out->edges, ((struct fa_edge){0, 0x10ffff, MIN(i + 1, last)}));
    }
    return 0;
}

struct label_text {
    struct bytes text;
    uint32_t label;
};
/* Texts of the list that have begun alike, up to a place in them. */
struct prefix {
    size_t begin, end, at;
};

static int compare_texts(const void *a, const void *b) {
    const struct label_text *x = a, *y = b;
    size_t len = MIN(x->text.len, y->text.len);
    int order = len ? memcmp(x->text.data, y->text.data, len) : 0;
    if (order == 0 && x->text.len != y->text.len)
        order = x->text.len < y->text.len ? -1 : 1;
    return order ? order : x->label < y->label ? -1 : x->label > y->label;
}

static uint32_t code_point_at(struct bytes text, size_t at, size_t *len) {
    uint32_t cp = 0;
    *len = MAX(utf8_decode(text.data + at, text.len - at, &cp), (size_t)1);
    return cp;
}

/* The tree of sorted texts, a state for each prefix; UTF-8 sorts as its code points do. */
static void add_prefixes(const struct label_text *texts, size_t count, struct dfa *out) {
    VEC(struct prefix) prefixes = {0};
    vec_push(&prefixes, ((struct prefix){0, count, 0}));
    for (size_t i = 0; i < prefixes.count; i++) {
        struct prefix p = prefixes.items[i];
        struct dfa_state state = {(uint32_t)out->edges.count, 0, FA_NONE};
        if (p.begin < p.end && texts[p.begin].text.len == p.at)
            state.label = texts[p.begin].label;
        while (p.begin < p.end && texts[p.begin].text.len == p.at)
            p.begin++;
        while (p.begin < p.end) {
            size_t len, other, next = p.begin;
            uint32_t cp = code_point_at(texts[next].text, p.at, &len);
            while (next < p.end && code_point_at(texts[next].text, p.at, &other) == cp)
                next++;
            vec_push(&out->edges, ((struct fa_edge){cp, cp, (uint32_t)prefixes.count}));
            vec_push(&prefixes, ((struct prefix){p.begin, next, p.at + len}));
            p.begin = next;
        }
        state.edge_count = (uint32_t)out->edges.count - state.edge_first;
        vec_push(&out->states, state);
    }
    vec_release(&prefixes);
}

int dfa_of_texts(struct builder *b, const struct bytes *texts, size_t count, bool told_apart,
                 struct dfa *out, struct error *err) {
    VEC(struct label_text) sorted = {0};
    *out = (struct dfa){0};
    for (size_t i = 0; i < count; i++)
        vec_push(&sorted, ((struct label_text){texts[i], told_apart ? (uint32_t)i : 0}));
    if (count > 1)
        qsort(sorted.items, count, sizeof *sorted.items, compare_texts);
    add_prefixes(sorted.items, count, out);
    vec_release(&sorted);
    return dfa_fold(out, &b->fuel, err);
}

bool dfa_accepts(const struct dfa *d, struct bytes text) {
    uint32_t state = 0;
    for (size_t i = 0; i < text.len && state != FA_NONE;) {
        uint32_t cp = 0;
        i += MAX(utf8_decode(text.data + i, text.len - i, &cp), (size_t)1);
        state = dfa_step(d, state, cp);
    }
    return state != FA_NONE && d->states.items[state].label != FA_NONE;
}
