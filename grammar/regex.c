/*
 * regex.c - a recursive reader of patterns; the depth of groups is bounded by the builder's limit.
 */
#include "grammar/regex_internal.h"

static const struct code_range LINE_ENDS[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

static uint32_t read_alternatives(struct reader *r);

static uint32_t one_char(struct reader *r, uint32_t cp) {
    return expr_chars(r->b, &(struct code_range){cp, cp}, 1);
}

/* A character as a pattern has it. */
static uint32_t letter_of(struct reader *r, uint32_t cp) {
    uint32_t other = cp ^ 32;
    bool letter = cp < 0x80 && (cp | 32) >= 'a' && (cp | 32) <= 'z';
    if (!r->fold || !letter)
        return one_char(r, cp);
    return expr_chars(r->b, (struct code_range[]){{cp, cp}, {other, other}}, 2);
}

static uint32_t read_escape(struct reader *r) {
    code_range_vec v = {0};
    uint32_t e;
    if (r->at >= r->end)
        return regex_fail(r, ERR_INVALID, "a lone backslash");
    uint8_t letter = *r->at;
    if (letter == 'b' || letter == 'B')
        return regex_fail(r, ERR_UNSUPPORTED, "a word boundary");
    if ((letter >= '1' && letter <= '9') || letter == 'k')
        return regex_fail(r, ERR_UNSUPPORTED, "a backreference");
    if (letter == 'A' || letter == 'z' || letter == 'Z') {
        r->at++;
        return one_char(r, letter == 'A' ? BEGIN : END);
    }
    if (letter == 'p' || letter == 'P') {
        r->at++;
        (void)regex_add_property(r, &v, letter == 'P');
        e = expr_chars(r->b, v.items, v.count);
    } else if (regex_add_letter(&v, letter)) {
        r->at++;
        e = expr_chars(r->b, v.items, v.count);
    } else {
        e = letter_of(r, regex_escaped(r));
    }
    vec_release(&v);
    return e;
}

static uint32_t read_group(struct reader *r) {
    if (regex_skip(r, "?:")) {
    } else if (regex_skip(r, "?<=") || regex_skip(r, "?<!")) {
        return regex_fail(r, ERR_UNSUPPORTED, "a lookbehind");
    } else if (regex_skip(r, "?=") || regex_skip(r, "?!")) {
        return regex_fail(r, ERR_UNSUPPORTED, "a lookahead inside a group");
    } else if (regex_skip(r, "?P<") || regex_skip(r, "?<")) {
        while (r->at < r->end && *r->at != '>')
            r->at++;
        if (!regex_skip(r, ">"))
            return regex_fail(r, ERR_INVALID, "a group's name without >");
    } else if (regex_skip(r, "?")) {
        return regex_fail(r, ERR_UNSUPPORTED, "an unknown kind of group");
    }
    if (++r->depth > r->b->limits.depth)
        return regex_fail(r, ERR_LIMIT, "groups nested too deeply");
    uint32_t e = read_alternatives(r);
    r->depth--;
    if (!regex_skip(r, ")"))
        return regex_fail(r, ERR_INVALID, "a group without )");
    return e;
}

static uint32_t read_atom(struct reader *r) {
    if (regex_skip(r, "("))
        return read_group(r);
    if (regex_skip(r, "["))
        return regex_class(r);
    if (regex_skip(r, "\\"))
        return read_escape(r);
    if (regex_skip(r, "^"))
        return one_char(r, BEGIN);
    if (regex_skip(r, "$"))
        return one_char(r, END);
    if (regex_skip(r, ".")) {
        code_range_vec v = {0};
        regex_add_ranges(&v, LINE_ENDS, r->dot_all ? 0 : ARRAY_LEN(LINE_ENDS), true);
        uint32_t e = expr_chars(r->b, v.items, v.count);
        vec_release(&v);
        return e;
    }
    if (*r->at == '*' || *r->at == '+' || *r->at == '?')
        return regex_fail(r, ERR_INVALID, "a quantifier without anything to repeat");
    return letter_of(r, regex_code(r));
}

static bool take_number(struct reader *r, uint32_t *out) {
    const uint8_t *first = r->at;
    uint32_t value = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        value = MIN(value * 10 + (uint32_t)(*r->at - '0'), (uint32_t)REPEAT_MAX + 1);
    *out = value;
    return r->at > first;
}

/* {m}, {m,}, {m,n}; anything else is a brace as it stands. */
static bool take_bounds(struct reader *r, uint32_t *min, uint32_t *max) {
    const uint8_t *before = r->at;
    if (regex_skip(r, "{") && take_number(r, min)) {
        *max = *min;
        if (regex_skip(r, ",") && !take_number(r, max))
            *max = REPEAT_NO_END;
        if (regex_skip(r, "}"))
            return true;
    }
    r->at = before;
    return false;
}

static uint32_t read_repeated(struct reader *r) {
    uint32_t e = read_atom(r), min = 1, max = 1;
    while (!r->rc && r->at < r->end) {
        if (regex_skip(r, "*"))
            min = 0, max = REPEAT_NO_END;
        else if (regex_skip(r, "+"))
            min = 1, max = REPEAT_NO_END;
        else if (regex_skip(r, "?"))
            min = 0, max = 1;
        else if (!take_bounds(r, &min, &max))
            break;
        if (min > max)
            return regex_fail(r, ERR_INVALID, "a repetition whose end is below its beginning");
        if (min > REPEAT_MAX || (max != REPEAT_NO_END && max > REPEAT_MAX))
            return regex_fail(r, ERR_LIMIT, "a repetition of more than 100000");
        e = expr_repeat(r->b, e, min, max);
        (void)regex_skip(r, "?"); /* lazy: the same language */
    }
    return e;
}

/* Any text, markers included. */
static uint32_t anything(struct builder *b) {
    return expr_repeat(b, expr_chars(b, &(struct code_range){0, END}, 1), 0, REPEAT_NO_END);
}

static uint32_t read_sequence(struct reader *r, bool *bare);

/* What a and b both are, or what a is and b is not. */
static uint32_t combine(struct reader *r, uint32_t a, uint32_t b, bool without) {
    struct dfa first = {0}, second = {0}, both = {0};
    if (r->rc)
        return expr_never(r->b);
    r->rc = expr_to_dfa(r->b, a, &first, r->err);
    if (!r->rc)
        r->rc = expr_to_dfa(r->b, b, &second, r->err);
    if (!r->rc)
        r->rc = without ? dfa_without(&first, &second, &r->b->fuel, &both, r->err)
                        : dfa_and(&first, &second, &r->b->fuel, &both, r->err);
    dfa_release(&first);
    dfa_release(&second);
    return r->rc ? expr_never(r->b) : expr_dfa(r->b, &both, EXPR_DFA);
}

/* The inside of a lookaround, up to its bracket. */
static uint32_t read_inside(struct reader *r, uint32_t head, uint32_t tail) {
    struct reader outer = *r;
    if (r->lookarounds == r->b->limits.depth)
        return regex_fail(r, ERR_LIMIT, "too many lookarounds");
    r->lookarounds++;
    r->head = head;
    r->tail = tail;
    r->sees_before = r->sees_after = false;
    uint32_t e = read_alternatives(r);
    if (!r->rc && !regex_skip(r, ")"))
        regex_fail(r, ERR_INVALID, "a group without )");
    r->head = outer.head;
    r->tail = outer.tail;
    r->sees_before = outer.sees_before;
    r->sees_after = outer.sees_after;
    r->lookarounds = outer.lookarounds;
    return e;
}

/* (?=X) Y: what begins with X and is Y up to the end; (?!X) Y: what does not begin with X. pinned:
 * nothing but the beginning of the text stands in front. */
static uint32_t read_lookahead(struct reader *r, bool negative, bool pinned) {
    struct reader outer = *r;
    if (!r->sees_after)
        return regex_fail(r, ERR_UNSUPPORTED, "a lookahead inside a lookbehind or a lookahead");
    uint32_t x = read_inside(r, expr_empty(r->b), anything(r->b));
    r->lookarounds++; /* the rest is read inside of this one */
    r->head = expr_empty(r->b);
    r->sees_before = pinned;
    uint32_t y = r->lookarounds > r->b->limits.depth
                     ? regex_fail(r, ERR_LIMIT, "too many lookarounds")
                     : read_sequence(r, NULL);
    r->head = outer.head;
    r->sees_before = outer.sees_before;
    r->lookarounds = outer.lookarounds;
    return combine(r, y, x, negative);
}

/* W (?<=X): what is W, from the head on, and ends with X; (?<!X): what does not end with X. */
static uint32_t read_lookbehind(struct reader *r, bool negative, uint32_t w) {
    if (!r->sees_before)
        return regex_fail(r, ERR_UNSUPPORTED, "a lookbehind behind or inside a lookahead");
    return combine(r, w, read_inside(r, anything(r->b), expr_empty(r->b)), negative);
}

/* Outside of groups it has its head and its tail; *bare: it looks around nowhere, and both are left to
 * the caller (NULL: never). */
static uint32_t read_sequence(struct reader *r, bool *bare) {
    VEC(uint32_t) terms = {0};
    bool top = r->depth == 0, begun = false, pinned = r->sees_before && r->pinned, ends = !top;
    bool looks = !bare;
    if (top)
        vec_push(&terms, r->head);
    while (!r->rc && r->at < r->end && *r->at != '|' && *r->at != ')') {
        if (top && (regex_skip(r, "(?=") || regex_skip(r, "(?!"))) {
            bool negative = r->at[-1] == '!';
            uint32_t e = read_lookahead(r, negative, !begun && pinned);
            vec_push(&terms, e);
            ends = looks = true;
            break;
        }
        if (top && (regex_skip(r, "(?<=") || regex_skip(r, "(?<!"))) {
            bool negative = r->at[-1] == '!';
            uint32_t e = expr_concat(r->b, terms.items, terms.count);
            terms.count = 0;
            e = read_lookbehind(r, negative, e);
            vec_push(&terms, e);
            looks = true;
            continue;
        }
        pinned |= *r->at == '^' && r->sees_before;
        begun |= *r->at != '^';
        uint32_t e = read_repeated(r);
        vec_push(&terms, e);
    }
    if (!ends && looks)
        vec_push(&terms, r->tail);
    size_t from = top && !looks; /* the head */
    uint32_t e = terms.count > from ? expr_concat(r->b, &terms.items[from], terms.count - from)
                                    : expr_empty(r->b);
    vec_release(&terms);
    if (bare)
        *bare = top && !looks;
    return e;
}

/* Alternatives that look around nowhere share one head and one tail: of `a|b|c` searched for, an
 * automaton would else tell apart which of them were there. */
static uint32_t read_alternatives(struct reader *r) {
    VEC(uint32_t) terms = {0};
    VEC(uint32_t) bare = {0};
    do {
        bool is_bare;
        uint32_t e = read_sequence(r, &is_bare);
        if (is_bare)
            vec_push(&bare, e);
        else
            vec_push(&terms, e);
    } while (!r->rc && regex_skip(r, "|"));
    if (bare.count) {
        uint32_t any = expr_alt(r->b, bare.items, bare.count);
        any = expr_concat(r->b, (uint32_t[]){r->head, any, r->tail}, 3);
        vec_push(&terms, any);
    }
    uint32_t e = expr_alt(r->b, terms.items, terms.count);
    vec_release(&terms);
    vec_release(&bare);
    return e;
}

/* The texts s for which d accepts BEGIN s END. */
static int strip_markers(struct builder *b, const struct dfa *d, struct dfa *out,
                         struct error *err) {
    struct nfa n = {0};
    uint32_t first = dfa_step(d, 0, BEGIN);
    for (uint32_t i = 0; i < d->states.count; i++)
        (void)nfa_state(&n);
    uint32_t start = nfa_state(&n);
    if (first != FA_NONE)
        nfa_free_edge(&n, start, first);
    for (uint32_t i = 0; i < d->states.count; i++) {
        const struct dfa_state *s = &d->states.items[i];
        uint32_t last = dfa_step(d, i, END);
        if (last != FA_NONE && d->states.items[last].label != FA_NONE)
            n.labels.items[i] = 0;
        for (uint32_t e = 0; e < s->edge_count; e++) {
            const struct fa_edge *edge = &d->edges.items[s->edge_first + e];
            if (edge->lo <= CODE_MAX)
                nfa_edge(&n, i, edge->lo, MIN(edge->hi, (uint32_t)CODE_MAX), edge->to);
        }
    }
    int rc = dfa_from_nfa(&n, start, &b->fuel, out, err);
    nfa_release(&n);
    return rc;
}

/* (?is) in front of a pattern. */
static void read_flags(struct reader *r) {
    const uint8_t *before = r->at;
    if (!regex_skip(r, "(?"))
        return;
    for (; r->at < r->end && strchr("isu", *r->at); r->at++) {
        r->fold |= *r->at == 'i';
        r->dot_all |= *r->at == 's';
    }
    if (r->at > before + 2 && regex_skip(r, ")"))
        return;
    r->at = before;
    r->fold = r->dot_all = false;
}

int regex_to_dfa(struct builder *b, struct bytes pattern, bool whole, struct dfa *out,
                 struct error *err) {
    if (!pattern.len) /* null and zero: clang's sanitizer objects to a sum of them */
        pattern.data = (const uint8_t *)"";
    struct reader r = {.b = b,
                       .start = pattern.data,
                       .at = pattern.data,
                       .end = pattern.data + pattern.len,
                       .err = err};
    struct dfa marked;
    *out = (struct dfa){0};
    read_flags(&r);
    uint32_t begin = expr_repeat(b, one_char(&r, BEGIN), 0, 1);
    uint32_t end = expr_repeat(b, one_char(&r, END), 0, 1);
    r.head = whole ? begin : anything(b);
    r.tail = whole ? end : anything(b);
    r.sees_before = r.sees_after = true;
    r.pinned = whole;
    uint32_t e = read_alternatives(&r);
    if (!r.rc && r.at < r.end)
        regex_fail(&r, ERR_INVALID, "a ) without its group");
    if (!r.rc && b->failed)
        r.rc = error_set(err, b->error.code, "%s", b->error.text);
    if (r.rc)
        return r.rc;
    int rc = expr_to_dfa(b, e, &marked, err);
    if (rc)
        return rc;
    rc = strip_markers(b, &marked, out, err);
    dfa_release(&marked);
    return rc;
}
