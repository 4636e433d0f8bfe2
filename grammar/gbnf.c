/*
 * gbnf.c - a recursive reader; the depth of groups is bounded by the builder's limit.
 */
#include "grammar/gbnf.h"

#include "base/utf8.h"
#include "grammar/names.h"

enum { REPEAT_MAX = 100000 };

struct reader {
    struct builder *b;
    const uint8_t *start, *at, *end;
    struct names names;
    uint32_t depth;
    struct error *err;
    int rc;
};

static uint32_t fail(struct reader *r, int code, const char *what) {
    if (!r->rc)
        r->rc = names_error(r->err, code, what, r->start, r->at);
    return expr_never(r->b);
}

/* White space and comments; line ends only where an expression may go on. */
static void skip_space(struct reader *r, bool lines) {
    while (r->at < r->end) {
        if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        else if (*r->at == ' ' || *r->at == '\t' || (lines && (*r->at == '\n' || *r->at == '\r')))
            r->at++;
        else
            return;
    }
}

static bool skip_char(struct reader *r, uint8_t c) {
    bool found = r->at < r->end && *r->at == c;
    r->at += found;
    return found;
}

static struct bytes take_name(struct reader *r) {
    const uint8_t *first = r->at;
    while (r->at < r->end && is_name_byte(*r->at))
        r->at++;
    return bytes_of(first, (size_t)(r->at - first));
}

/* ---- characters ---- */

static uint32_t take_hex(struct reader *r, int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        int digit = r->at < r->end ? hex_value(*r->at) : -1;
        if (digit < 0)
            return fail(r, ERR_INVALID, "a bad escape");
        value = value << 4 | (uint32_t)digit;
    }
    return value;
}

/* One code point of a string or class, escapes decoded. */
static uint32_t take_char(struct reader *r) {
    uint32_t cp = 0;
    if (skip_char(r, '\\')) {
        uint8_t c = r->at < r->end ? *r->at++ : 0;
        switch (c) {
        case 'n': return '\n';
        case 'r': return '\r';
        case 't': return '\t';
        case 'x': return take_hex(r, 2);
        case 'u': return take_hex(r, 4);
        case 'U': cp = take_hex(r, 8); break;
        case '\\':
        case '"':
        case '[':
        case ']':
        case '-':
        case '^': return c;
        default: return fail(r, ERR_INVALID, "an unknown escape");
        }
    } else {
        size_t len = utf8_decode(r->at, (size_t)(r->end - r->at), &cp);
        if (!len)
            return fail(r, ERR_INVALID, "bytes that are not UTF-8");
        r->at += len;
    }
    return cp <= 0x10ffff ? cp : fail(r, ERR_INVALID, "a code point past 10FFFF");
}

static uint32_t read_string(struct reader *r) {
    struct buf text = {0};
    while (!r->rc && !skip_char(r, '"')) {
        char utf8[4];
        if (r->at >= r->end || *r->at == '\n')
            fail(r, ERR_INVALID, "a string without its closing quote");
        else
            buf_add(&text, utf8, utf8_encode(take_char(r), utf8));
    }
    uint32_t e = expr_bytes(r->b, buf_bytes(&text));
    buf_release(&text);
    return e;
}

static uint32_t read_class(struct reader *r) {
    code_range_vec in = {0};
    bool outside = skip_char(r, '^');
    while (!r->rc && !skip_char(r, ']')) {
        if (r->at >= r->end) {
            fail(r, ERR_INVALID, "a class without ]");
            break;
        }
        uint32_t lo = take_char(r), hi = lo;
        if (r->end - r->at >= 2 && r->at[0] == '-' && r->at[1] != ']') {
            r->at++;
            hi = take_char(r);
        }
        if (hi < lo)
            fail(r, ERR_INVALID, "a range whose end is before its beginning");
        vec_push(&in, ((struct code_range){lo, hi}));
    }
    if (outside)
        code_ranges_complement(&in);
    uint32_t e = r->rc ? expr_never(r->b) : expr_chars(r->b, in.items, in.count);
    vec_release(&in);
    return e;
}

/* ---- expressions ---- */

static uint32_t read_alternatives(struct reader *r, bool grouped);

static uint32_t read_atom(struct reader *r) {
    if (skip_char(r, '"'))
        return read_string(r);
    if (skip_char(r, '['))
        return read_class(r);
    if (skip_char(r, '.'))
        return expr_chars(r->b, &(struct code_range){0, 0x10ffff}, 1);
    if (skip_char(r, '(')) {
        if (++r->depth > r->b->limits.depth)
            return fail(r, ERR_LIMIT, "groups nested too deeply");
        uint32_t e = read_alternatives(r, true);
        r->depth--;
        return skip_char(r, ')') ? e : fail(r, ERR_INVALID, "a group without )");
    }
    if (*r->at == '<' || *r->at == '!')
        return fail(r, ERR_UNSUPPORTED, "a token in angle brackets");
    struct bytes name = take_name(r);
    return name.len ? expr_rule(r->b, names_get(&r->names, r->b, name)->rule)
                    : fail(r, ERR_INVALID, "an unexpected character");
}

static bool take_number(struct reader *r, uint32_t *out) {
    const uint8_t *first = r->at;
    for (*out = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        *out = MIN(*out * 10 + (uint32_t)(*r->at - '0'), (uint32_t)REPEAT_MAX + 1);
    return r->at > first;
}

static void read_bounds(struct reader *r, uint32_t *min, uint32_t *max) {
    skip_space(r, true);
    if (!take_number(r, min)) {
        fail(r, ERR_INVALID, "a repetition without a number");
        return;
    }
    *max = *min;
    skip_space(r, true);
    if (skip_char(r, ',')) {
        skip_space(r, true);
        if (!take_number(r, max))
            *max = REPEAT_NO_END;
        skip_space(r, true);
    }
    if (!skip_char(r, '}'))
        fail(r, ERR_INVALID, "a repetition without }");
    else if (*min > *max)
        fail(r, ERR_INVALID, "a repetition whose end is below its beginning");
    else if (*min > REPEAT_MAX || (*max != REPEAT_NO_END && *max > REPEAT_MAX))
        fail(r, ERR_LIMIT, "a repetition of more than 100000");
}

static uint32_t read_repeated(struct reader *r) {
    uint32_t e = read_atom(r);
    while (!r->rc && r->at < r->end) {
        uint32_t min = 0, max = REPEAT_NO_END;
        if (skip_char(r, '+'))
            min = 1;
        else if (skip_char(r, '?'))
            max = 1;
        else if (skip_char(r, '{'))
            read_bounds(r, &min, &max);
        else if (!skip_char(r, '*'))
            break;
        if (!r->rc)
            e = expr_repeat(r->b, e, min, max);
    }
    return e;
}

/* A name in front of "::=" begins the next rule. */
static bool rule_begins(struct reader *r) {
    const uint8_t *before = r->at;
    bool begins = take_name(r).len > 0;
    skip_space(r, true);
    begins &= r->end - r->at >= 3 && !memcmp(r->at, "::=", 3);
    r->at = before;
    return begins;
}

static uint32_t read_alternatives(struct reader *r, bool grouped) {
    VEC(uint32_t) terms = {0};
    VEC(uint32_t) sequence = {0};
    do {
        sequence.count = 0;
        for (;;) {
            skip_space(r, true);
            if (r->rc || r->at >= r->end || *r->at == '|' || *r->at == ')' ||
                (!grouped && rule_begins(r)))
                break;
            uint32_t e = read_repeated(r);
            vec_push(&sequence, e);
        }
        uint32_t e = expr_concat(r->b, sequence.items, sequence.count);
        vec_push(&terms, e);
    } while (!r->rc && skip_char(r, '|'));
    uint32_t e = expr_alt(r->b, terms.items, terms.count);
    vec_release(&terms);
    vec_release(&sequence);
    return e;
}

static void read_rule(struct reader *r) {
    struct bytes text = take_name(r);
    if (!text.len) {
        fail(r, ERR_INVALID, "a rule without a name");
        return;
    }
    skip_space(r, true);
    if (r->end - r->at < 3 || memcmp(r->at, "::=", 3) != 0) {
        fail(r, ERR_INVALID, "a rule without ::=");
        return;
    }
    r->at += 3;
    uint32_t e = read_alternatives(r, false);
    struct name *name = names_get(&r->names, r->b, text);
    if (name->defined)
        fail(r, ERR_INVALID, "a second rule of one name");
    name->defined = true;
    builder_set_rule(r->b, name->rule, e);
    if (!r->rc && r->at < r->end && *r->at == ')')
        fail(r, ERR_INVALID, "a ) without its group");
}

uint32_t gbnf_to_rule(struct builder *b, struct bytes text, struct error *err) {
    struct reader r = {
        .b = b, .start = text.data, .at = text.data, .end = text.data + text.len, .err = err};
    uint32_t root = FA_NONE;
    if (text.len > b->limits.bytes)
        fail(&r, ERR_LIMIT, "too many bytes");
    skip_space(&r, true);
    while (!r.rc && !b->failed && r.at < r.end) {
        read_rule(&r);
        skip_space(&r, true);
    }
    if (!r.rc)
        r.rc = names_root(&r.names, "root", &root, err);
    if (!r.rc && b->failed)
        r.rc = error_set(err, b->error.code, "%s", b->error.text);
    names_release(&r.names);
    return r.rc ? FA_NONE : root;
}
