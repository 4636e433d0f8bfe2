/*
 * lark_leaves.c - the text of a Lark grammar, and what has no parts: strings, patterns, control
 * tokens, schemas.
 */
#include "base/utf8.h"
#include "formats/json.h"
#include "grammar/lark_internal.h"
#include "grammar/regex.h"
#include "grammar/schema.h"
#include "grammar/structure.h"

uint32_t lark_fail(struct lark_reader *r, int code, const char *what) {
    if (!r->rc)
        r->rc = names_error(r->err, code, what, r->start, r->at);
    return expr_never(r->b);
}

/* ---- the text ---- */

bool lark_begins(const struct lark_reader *r, const char *text) {
    size_t len = strlen(text);
    return (size_t)(r->end - r->at) >= len && !memcmp(r->at, text, len);
}

bool lark_skip_text(struct lark_reader *r, const char *text) {
    bool found = lark_begins(r, text);
    r->at += found ? strlen(text) : 0;
    return found;
}

void lark_skip(struct lark_reader *r, bool lines) {
    while (r->at < r->end) {
        if (lark_begins(r, "//") || *r->at == '#')
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        else if (*r->at == ' ' || *r->at == '\t' || *r->at == '\r' || (lines && *r->at == '\n'))
            r->at++;
        else if (lark_begins(r, "\\\n"))
            r->at += 2;
        else
            return;
    }
}

struct bytes lark_take_name(struct lark_reader *r) {
    const uint8_t *first = r->at;
    while (r->at < r->end && is_name_byte(*r->at) && !lark_begins(r, "->"))
        r->at++;
    return bytes_of(first, (size_t)(r->at - first));
}

/* ---- leaves ---- */

static uint32_t hex_escape(struct lark_reader *r, int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        int digit = r->at < r->end ? hex_value(*r->at) : -1;
        if (digit < 0)
            return lark_fail(r, ERR_INVALID, "a bad escape");
        value = value << 4 | (uint32_t)digit;
    }
    return value;
}

/* Behind a backslash in a string; what is unknown stays as it stands. */
static void add_escaped(struct lark_reader *r, struct buf *out) {
    static const char FROM[] = "nrtf\\\"'", TO[] = "\n\r\t\f\\\"'";
    uint8_t c = r->at < r->end ? *r->at++ : 0;
    const char *simple = c ? strchr(FROM, c) : NULL;
    char utf8[4];
    if (simple) {
        buf_add_byte(out, TO[simple - FROM]);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        uint32_t cp = hex_escape(r, c == 'x' ? 2 : c == 'u' ? 4 : 8);
        if (cp > 0x10ffff)
            lark_fail(r, ERR_INVALID, "a code point past 10FFFF");
        else
            buf_add(out, utf8, utf8_encode(cp, utf8));
    } else {
        buf_add_byte(out, '\\');
        r->at -= c != 0;
    }
}

/* Behind its opening quote, up to and with the closing one. */
static void take_string(struct lark_reader *r, struct buf *out) {
    while (!r->rc && !lark_skip_text(r, "\"")) {
        if (r->at >= r->end || *r->at == '\n')
            lark_fail(r, ERR_INVALID, "a string without its closing quote");
        else if (lark_skip_text(r, "\\"))
            add_escaped(r, out);
        else
            buf_add_byte(out, (char)*r->at++);
    }
    if (!r->rc && !utf8_valid(out->data, out->len))
        lark_fail(r, ERR_INVALID, "bytes that are not UTF-8");
}

/* Every letter of either case. */
static uint32_t folded(struct builder *b, struct bytes text) {
    VEC(uint32_t) terms = {0};
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
        struct code_range both[] = {{c, c}, {c ^ 32u, c ^ 32u}};
        uint32_t e = letter ? expr_chars(b, both, 2) : expr_bytes(b, bytes_of(&text.data[i], 1));
        vec_push(&terms, e);
    }
    uint32_t e = expr_concat(b, terms.items, terms.count);
    vec_release(&terms);
    return e;
}

static uint32_t one_code(struct lark_reader *r, const struct buf *text) {
    uint32_t cp = 0;
    size_t len = utf8_decode((const uint8_t *)text->data, text->len, &cp);
    return len && len == text->len
               ? cp
               : lark_fail(r, ERR_INVALID, "an end of a range of more than one character");
}

uint32_t lark_read_string(struct lark_reader *r) {
    struct buf text = {0}, last = {0};
    uint32_t e = 0;
    take_string(r, &text);
    if (!r->rc && lark_skip_text(r, "..")) {
        if (!lark_skip_text(r, "\""))
            lark_fail(r, ERR_INVALID, "a range without its end");
        else
            take_string(r, &last);
        struct code_range range = {r->rc ? 0 : one_code(r, &text), r->rc ? 0 : one_code(r, &last)};
        if (!r->rc && range.lo > range.hi)
            lark_fail(r, ERR_INVALID, "a range whose end is before its beginning");
        e = r->rc ? 0 : expr_chars(r->b, &range, 1);
    } else if (!r->rc) {
        bool fold = lark_begins(r, "i") && (r->end - r->at < 2 || !is_name_byte(r->at[1]));
        r->at += fold;
        e = fold ? folded(r->b, buf_bytes(&text)) : expr_bytes(r->b, buf_bytes(&text));
    }
    buf_release(&text);
    buf_release(&last);
    return e;
}

uint32_t lark_read_regex(struct lark_reader *r) {
    struct buf pattern = {0}, flagged = {0};
    struct error err;
    struct dfa d;
    bool in_class = false;
    while (r->at < r->end && *r->at != '\n' && (in_class || *r->at != '/')) {
        bool escape = *r->at == '\\' && r->end - r->at >= 2;
        in_class = escape ? in_class : *r->at == '[' ? true : *r->at == ']' ? false : in_class;
        if (!(escape && r->at[1] == '/'))
            buf_add_byte(&pattern, (char)*r->at);
        r->at++;
        if (escape)
            buf_add_byte(&pattern, (char)*r->at++);
    }
    if (!lark_skip_text(r, "/"))
        lark_fail(r, ERR_INVALID, "a pattern without its closing slash");
    const uint8_t *flags = r->at;
    while (r->at < r->end && strchr("imslux", *r->at) && *r->at)
        r->at++;
    for (const uint8_t *f = flags; f < r->at && !r->rc; f++)
        if (strchr("mlx", *f))
            lark_fail(r, ERR_UNSUPPORTED, "a flag of a pattern other than i, s and u");
    if (r->at > flags)
        buf_addf(&flagged, "(?%.*s)", (int)(r->at - flags), (const char *)flags);
    buf_add_bytes(&flagged, buf_bytes(&pattern));
    uint32_t e = 0;
    if (!r->rc) {
        r->rc = regex_to_dfa(r->b, buf_bytes(&flagged), true, &d, &err);
        if (r->rc)
            r->rc = error_set(r->err, r->rc, "a pattern of the grammar: %s", err.text);
        else
            e = expr_dfa(r->b, &d, EXPR_DFA);
    }
    buf_release(&pattern);
    buf_release(&flagged);
    return e;
}

uint32_t lark_read_token(struct lark_reader *r) {
    static const uint8_t BYTE = STRUCTURE_TOKEN_BYTE;
    const uint8_t *first = r->at;
    while (r->at < r->end && *r->at != '>' && *r->at != '\n')
        r->at++;
    if (!lark_skip_text(r, ">"))
        return lark_fail(r, ERR_INVALID, "a token without >");
    if (first[1] == '[')
        return lark_fail(r, ERR_UNSUPPORTED, "a token by its number");
    uint32_t terms[] = {expr_bytes(r->b, bytes_of(&BYTE, 1)),
                        expr_bytes(r->b, bytes_of(first, (size_t)(r->at - first)))};
    return expr_concat(r->b, terms, 2);
}

uint32_t lark_read_json(struct lark_reader *r) {
    struct json_reader j;
    struct bytes raw;
    struct error err = {0};
    lark_skip(r, true);
    json_reader_init(&j, bytes_of(r->at, (size_t)(r->end - r->at)), r->b->limits.depth, 0);
    enum json_event event = json_next(&j);
    bool ok = event != JSON_ERROR && event != JSON_END && json_take(&j, &raw);
    uint32_t rule = FA_NONE;
    if (!ok)
        lark_fail(r, ERR_INVALID, "%json without JSON");
    else
        rule = schema_to_rule(r->b, raw, r->ordered, &err);
    if (ok)
        r->at = raw.data + raw.len;
    json_reader_release(&j);
    if (ok && rule == FA_NONE && !r->rc)
        r->rc = error_set(r->err, err.code, "%s", err.text);
    return rule == FA_NONE ? 0 : expr_rule(r->b, rule);
}
