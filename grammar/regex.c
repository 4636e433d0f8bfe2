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

static struct reader reader_of(struct builder *b, struct bytes pattern, struct error *err) {
    if (!pattern.len) /* null and zero: clang's sanitizer objects to a sum of them */
        pattern.data = (const uint8_t *)"";
    return (struct reader){.b = b,
                           .start = pattern.data,
                           .at = pattern.data,
                           .end = pattern.data + pattern.len,
                           .scope = FA_NONE,
                           .longest = REPEAT_NO_END,
                           .err = err};
}

static uint32_t read_pattern(struct reader *r) {
    uint32_t e = read_alternatives(r);
    return !r->rc && r->at < r->end ? regex_fail(r, ERR_INVALID, "a ) without its group") : e;
}

/* What the reader or the builder has failed with. */
static int reader_error(struct reader *r) {
    if (!r->rc && r->b->failed)
        r->rc = error_set(r->err, r->b->error.code, "%s", r->b->error.text);
    return r->rc;
}

int regex_to_counted(struct builder *b, struct bytes pattern, bool whole, uint32_t *longest,
                     struct dfa *out, struct error *err) {
    struct reader r = reader_of(b, pattern, err);
    *out = (struct dfa){0};
    r.longest = longest ? *longest : REPEAT_NO_END;
    uint32_t e = read_pattern(&r);
    if (!r.rc && longest && !b->failed) {
        e = regex_count_by_length(&r, e);
        *longest = r.longest;
    }
    if (!r.rc && !whole)
        e = expr_concat(b, (uint32_t[]){regex_anything(b), e}, 2);
    int rc = reader_error(&r);
    if (!rc)
        rc = regex_resolve(&r, e, !whole, FA_NONE, out);
    vec_release(&r.looks);
    return rc;
}

int regex_to_dfa(struct builder *b, struct bytes pattern, bool whole, struct dfa *out,
                 struct error *err) {
    return regex_to_counted(b, pattern, whole, NULL, out, err);
}

uint32_t regex_to_expr(struct builder *b, struct bytes pattern, struct error *err) {
    struct reader r = reader_of(b, pattern, err);
    struct dfa d;
    uint32_t e = read_pattern(&r), counted = FA_NONE;
    int rc = reader_error(&r);
    if (!rc && !r.looks.count)
        rc = regex_split_count(&r, e, &counted);
    if (!rc && counted == FA_NONE) {
        rc = regex_resolve(&r, e, false, FA_NONE, &d);
        counted = rc ? FA_NONE : expr_dfa(b, &d, EXPR_DFA);
    }
    vec_release(&r.looks);
    return rc ? FA_NONE : counted;
}
