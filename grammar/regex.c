/*
 * regex.c - a recursive reader of patterns; the depth of groups is bounded by the builder's limit.
 */
#include "grammar/regex_internal.h"

static const struct code_range LINE_ENDS[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

static uint32_t read_alternatives(struct reader *r);

static uint32_t one_char(struct reader *r, uint32_t cp) {
    return expr_chars(r->b, &(struct code_range){cp, cp}, 1);
}

static bool is_letter(uint32_t c) {
    return c < 0x80 && (c | 32) >= 'a' && (c | 32) <= 'z';
}

/* A character as a pattern has it. */
static uint32_t letter_of(struct reader *r, uint32_t cp) {
    uint32_t other = cp ^ 32;
    if (!r->fold || !is_letter(cp))
        return one_char(r, cp);
    return expr_chars(r->b, (struct code_range[]){{cp, cp}, {other, other}}, 2);
}

static uint32_t read_escape(struct reader *r) {
    code_range_vec v = {0};
    uint32_t e;
    if (r->at >= r->end)
        return regex_fail(r, ERR_INVALID, "a lone backslash");
    uint8_t letter = *r->at;
    if ((letter >= '1' && letter <= '9') || letter == 'k')
        return regex_fail(r, ERR_UNSUPPORTED, "a backreference");
    if (strchr("AzZbB", letter)) {
        r->at++;
        return one_char(r, letter == 'A'   ? MARK_BEGIN
                           : letter == 'b' ? MARK_BOUNDARY
                           : letter == 'B' ? MARK_WITHIN
                                           : MARK_END);
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

/* Flags are on until a hyphen, and off behind it. */
static void read_flags(struct reader *r) {
    bool on = true;
    for (; r->at < r->end && (is_letter(*r->at) || *r->at == '-'); r->at++) {
        if (*r->at == '-')
            on = false;
        else if (*r->at == 'i')
            r->fold = on;
        else if (*r->at == 's')
            r->dot_all = on;
        else if (*r->at != 'u')
            regex_fail(r, ERR_UNSUPPORTED, "a flag other than i, s and u");
    }
}

/* Whether flags begin here, those of a group of their own or not. */
static bool flags_come(const uint8_t *at, const uint8_t *end, uint8_t last) {
    if (at == end || *at == 'P' || *at == last)
        return false;
    while (at < end && (is_letter(*at) || *at == '-'))
        at++;
    return at < end && *at == last;
}

/* (?is-s): flags for what stands behind it in its group, in other alternatives, too. */
static bool take_flags(struct reader *r) {
    if (r->end - r->at < 4 || memcmp(r->at, "(?", 2) != 0 || !flags_come(r->at + 2, r->end, ')'))
        return false;
    r->at += 2;
    read_flags(r);
    return regex_skip(r, ")");
}

/* (?=X), (?!X), (?<=X), (?<!X), behind their heads: a mark stands for it. */
static uint32_t read_look(struct reader *r, bool behind, bool negative) {
    uint32_t idx = (uint32_t)r->looks.count, scope = r->scope;
    if (idx == r->b->limits.depth)
        return regex_fail(r, ERR_LIMIT, "too many lookarounds");
    vec_push(&r->looks, ((struct look){.scope = scope, .behind = behind, .negative = negative}));
    r->scope = idx;
    uint32_t e = read_alternatives(r);
    r->looks.items[idx].expr = e;
    r->scope = scope;
    return one_char(r, MARK_LOOK + idx);
}

static uint32_t read_inside(struct reader *r) {
    if (regex_skip(r, "?<=") || regex_skip(r, "?<!"))
        return read_look(r, true, r->at[-1] == '!');
    if (regex_skip(r, "?=") || regex_skip(r, "?!"))
        return read_look(r, false, r->at[-1] == '!');
    if (regex_skip(r, "?P<") || regex_skip(r, "?<")) {
        while (r->at < r->end && *r->at != '>')
            r->at++;
        if (!regex_skip(r, ">"))
            return regex_fail(r, ERR_INVALID, "a group's name without >");
    } else if (!regex_skip(r, "?:") && regex_skip(r, "?")) {
        if (!flags_come(r->at, r->end, ':'))
            return regex_fail(r, ERR_UNSUPPORTED, "an unknown kind of group");
        read_flags(r);
        (void)regex_skip(r, ":");
    }
    return read_alternatives(r);
}

static uint32_t read_group(struct reader *r) {
    bool fold = r->fold, dot_all = r->dot_all;
    if (++r->depth > r->b->limits.depth)
        return regex_fail(r, ERR_LIMIT, "groups nested too deeply");
    uint32_t e = read_inside(r);
    r->depth--;
    r->fold = fold;
    r->dot_all = dot_all;
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
        return one_char(r, MARK_BEGIN);
    if (regex_skip(r, "$"))
        return one_char(r, MARK_END);
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
        if (max >= r->longest) /* no text has as many */
            max = REPEAT_NO_END;
        e = expr_repeat(r->b, e, min, max);
        (void)regex_skip(r, "?"); /* lazy: the same language */
    }
    return e;
}

static uint32_t read_sequence(struct reader *r) {
    VEC(uint32_t) terms = {0};
    while (!r->rc && r->at < r->end && *r->at != '|' && *r->at != ')') {
        if (take_flags(r))
            continue;
        uint32_t e = read_repeated(r);
        vec_push(&terms, e);
    }
    uint32_t e = expr_concat(r->b, terms.items, terms.count);
    vec_release(&terms);
    return e;
}

static uint32_t read_alternatives(struct reader *r) {
    VEC(uint32_t) terms = {0};
    do {
        uint32_t e = read_sequence(r);
        vec_push(&terms, e);
    } while (!r->rc && regex_skip(r, "|"));
    uint32_t e = expr_alt(r->b, terms.items, terms.count);
    vec_release(&terms);
    return e;
}

/* ---- a count that is the text's length ---- */

/* The length of all texts of an expression without marks; FA_NONE: they differ, or it has some. */
static uint32_t fixed_length(const struct builder *b, uint32_t e, uint32_t depth) {
    const struct expr x = b->exprs.items[e];
    uint64_t sum = 0;
    if (depth > b->limits.depth)
        return FA_NONE;
    switch ((enum expr_kind)x.kind) {
    case EXPR_EMPTY: return 0;
    case EXPR_CHARS: return b->ranges.items[x.a].lo <= CODE_MAX ? 1 : FA_NONE;
    case EXPR_CONCAT:
    case EXPR_ALT:
        for (uint32_t i = 0; i < x.b; i++) {
            uint32_t length = fixed_length(b, b->kids.items[x.a + i], depth + 1);
            if (length == FA_NONE || (x.kind == EXPR_ALT && i && length != sum))
                return FA_NONE;
            sum = x.kind == EXPR_ALT ? length : sum + length;
        }
        break;
    case EXPR_REPEAT:
        sum = fixed_length(b, x.a, depth + 1);
        if (sum == FA_NONE || x.b != x.c)
            return FA_NONE;
        sum *= x.b;
        break;
    default: return FA_NONE;
    }
    return sum < FA_NONE ? (uint32_t)sum : FA_NONE;
}

static bool is_mark(const struct builder *b, uint32_t e, uint32_t mark) {
    const struct expr x = b->exprs.items[e];
    return x.kind == EXPR_CHARS && b->ranges.items[x.a].lo == mark;
}

/* ^AX{m,n}B$, where X is a character, n is large, and the texts of A and of B have one length: it is
 * ^AX{m,}B$ of at most |A| + n + |B| characters. */
static uint32_t count_by_length(struct reader *r, uint32_t e) {
    enum { COUNT_MIN = 64 };
    struct builder *b = r->b;
    const struct expr all = b->exprs.items[e];
    uint64_t others = 0;
    uint32_t at = FA_NONE;
    if (all.kind != EXPR_CONCAT || !is_mark(b, b->kids.items[all.a], MARK_BEGIN) ||
        !is_mark(b, b->kids.items[all.a + all.b - 1], MARK_END))
        return e;
    for (uint32_t i = 1; i + 1 < all.b; i++) {
        uint32_t kid = b->kids.items[all.a + i], length = fixed_length(b, kid, 0);
        const struct expr x = b->exprs.items[kid];
        bool counts = x.kind == EXPR_REPEAT && x.c != REPEAT_NO_END && x.c >= COUNT_MIN &&
                      fixed_length(b, x.a, 0) == 1;
        if (length != FA_NONE)
            others += length;
        else if (counts && at == FA_NONE)
            at = i;
        else
            return e;
    }
    if (at == FA_NONE)
        return e;
    const struct expr x = b->exprs.items[b->kids.items[all.a + at]];
    VEC(uint32_t) kids = {0}; /* the builder's list moves while it grows */
    for (uint32_t i = 0; i < all.b; i++)
        vec_push(&kids, b->kids.items[all.a + i]);
    kids.items[at] = expr_repeat(b, x.a, x.b, REPEAT_NO_END);
    r->longest = (uint32_t)MIN(r->longest, others + x.c);
    e = expr_concat(b, kids.items, kids.count);
    vec_release(&kids);
    return e;
}

int regex_to_counted(struct builder *b, struct bytes pattern, bool whole, uint32_t *longest,
                     struct dfa *out, struct error *err) {
    if (!pattern.len) /* null and zero: clang's sanitizer objects to a sum of them */
        pattern.data = (const uint8_t *)"";
    struct reader r = {.b = b,
                       .start = pattern.data,
                       .at = pattern.data,
                       .end = pattern.data + pattern.len,
                       .scope = FA_NONE,
                       .longest = longest ? *longest : REPEAT_NO_END,
                       .err = err};
    *out = (struct dfa){0};
    uint32_t e = read_alternatives(&r);
    if (!r.rc && r.at < r.end)
        regex_fail(&r, ERR_INVALID, "a ) without its group");
    if (!r.rc && longest && !b->failed) {
        e = count_by_length(&r, e);
        *longest = r.longest;
    }
    if (!r.rc && !whole)
        e = expr_concat(b, (uint32_t[]){regex_anything(b), e}, 2);
    if (!r.rc && b->failed)
        r.rc = error_set(err, b->error.code, "%s", b->error.text);
    if (!r.rc)
        r.rc = regex_resolve(&r, e, !whole, FA_NONE, out);
    vec_release(&r.looks);
    return r.rc;
}

int regex_to_dfa(struct builder *b, struct bytes pattern, bool whole, struct dfa *out,
                 struct error *err) {
    return regex_to_counted(b, pattern, whole, NULL, out, err);
}
