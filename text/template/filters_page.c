/*
 * filters_page.c - filters that were made for pages and that prompts seldom need.
 */
#include "text/template/filters.h"
#include "text/template/python.h"

#include <stdlib.h>

#define FILTER(name) struct tvalue name(struct run *r, struct tvalue v, const struct params *p, struct args args)

FILTER(filter_filesizeformat) {
    static const char *const BINARY[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}, *const DECIMAL[] = {
                                                                                                      "kB", "MB", "GB",
                                                                                                      "TB", "PB", "EB",
                                                                                                      "ZB", "YB"};
    bool binary = p->given[0] && op_truth(p->v[0]);
    double base = binary ? 1024 : 1000, bytes, unit = base;
    struct buf out = {0};
    if (op_is_number(v)) {
        bytes = op_number(v);
    } else if (v.kind == TVALUE_BIG_INT) {
        bytes = strtod(v.text, NULL);
    } else {
        char *end, *text = mem_strndup(v.kind == TVALUE_STRING ? v.text : "", tvalue_text(v).len);
        bytes = strtod(text, &end);
        bool ok = v.kind == TVALUE_STRING && end != text && *end == 0;
        mem_free(text);
        if (!ok) return run_fail(r, ERR_INVALID, "could not convert to float: '%s'", python_type(v));
    }
    if (bytes == 1) return tvalue_string(bytes_str("1 Byte"));
    if (bytes < base) {
        buf_addf(&out, "%.0f Bytes", bytes < 0 ? -__builtin_floor(-bytes) : __builtin_floor(bytes));
        return run_take_buf(r, &out);
    }
    size_t i = 0;
    for (unit = base * base; i + 1 < ARRAY_LEN(BINARY) && bytes >= unit; unit *= base) i++;
    buf_addf(&out, "%.1f %s", base * bytes / unit, binary ? BINARY[i] : DECIMAL[i]);
    return run_take_buf(r, &out);
}

/* repr; what Python would break into several lines stays on one. */
FILTER(filter_pprint) {
    struct buf out;
    buf_init(&out, r->out_max);
    run_repr(r, v, &out);
    return run_take_buf(r, &out);
}

FILTER(filter_xmlattr) {
    struct buf out;
    buf_init(&out, r->out_max);
    if (v.kind == TVALUE_UNDEFINED) return run_fail_undefined(r, v);
    if (v.kind != TVALUE_DICT) return run_fail(r, ERR_INVALID, "'%s' object has no attribute 'items'", python_type(v));
    for (uint32_t i = 0; i < v.dict->count && !r->rc; i++) {
        const struct tdict_entry *e = &v.dict->entries[i];
        struct tvalue key = run_to_string(r, e->key), value = e->value;
        if (value.kind <= TVALUE_NONE) continue;
        for (uint32_t k = 0; k < key.len; k++)
            if (strchr(" \t\n\v\f\r/>=", key.text[k]))
                return run_fail(r, ERR_INVALID, "Invalid character in attribute name: '%.*s'", (int)MIN(key.len, 64u),
                                key.text);
        key = markup_escape(r, key);
        value = markup_escape(r, value);
        if (out.len || !p->given[0] || op_truth(p->v[0])) buf_add_byte(&out, ' ');
        buf_addf(&out, "%.*s=\"", (int)key.len, key.text);
        buf_add(&out, value.text, value.len);
        buf_add_byte(&out, '"');
    }
    struct tvalue made = run_take_buf(r, &out);
    return r->autoescape ? markup_of(made) : made;
}

/* ---- wordwrap ---- */

struct wrap {
    struct buf *out;
    struct bytes separator;
    int64_t width, column;
    bool break_long, break_hyphens, any;
};

static void new_line(struct wrap *w) {
    buf_add_bytes(w->out, w->separator);
    w->column = 0;
}

/* Puts a word (or a part of one up to its hyphen) behind `spaces` spaces, on a new line where it does not fit. */
static void put_word(struct wrap *w, int64_t spaces, struct bytes word) {
    int64_t len = (int64_t)python_length(word);
    if (w->column + spaces + len > w->width && w->column > 0) {
        new_line(w);
        spaces = 0;
    }
    for (; spaces > 0; spaces--, w->column++) buf_add_byte(w->out, ' ');
    while (w->break_long && w->column + len > w->width) {
        size_t part = python_offset(word, (size_t)MAX(w->width - w->column, 1));
        buf_add(w->out, word.data, part);
        word = bytes_of(word.data + part, word.len - part);
        len = (int64_t)python_length(word);
        new_line(w);
    }
    buf_add_bytes(w->out, word);
    w->column += len;
}

/* Bytes of the word at the beginning of s: up to white space, or behind a hyphen between letters. */
static size_t word_len(const struct wrap *w, struct bytes s) {
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] == ' ') return i;
        bool hyphen = w->break_hyphens && s.data[i] == '-' && i > 0 && i + 1 < s.len;
        bool letters = hyphen && (s.data[i - 1] | 32) >= 'a' && (s.data[i - 1] | 32) <= 'z' &&
                       (s.data[i + 1] | 32) >= 'a' && (s.data[i + 1] | 32) <= 'z';
        if (letters) return i + 1;
    }
    return s.len;
}

static void wrap_line(struct wrap *w, struct bytes line) {
    w->column = 0;
    for (size_t at = 0; at < line.len && !w->out->failed;) {
        size_t spaces = 0;
        while (at + spaces < line.len && line.data[at + spaces] == ' ') spaces++;
        at += spaces;
        if (at == line.len) break; /* what ends a line is dropped */
        size_t len = word_len(w, bytes_of(line.data + at, line.len - at));
        put_word(w, (int64_t)spaces, bytes_of(line.data + at, len));
        at += len;
    }
}

FILTER(filter_wordwrap) {
    struct tvalue text = run_to_string(r, v);
    struct bytes s = tvalue_text(text);
    struct buf out;
    struct wrap w = {.out = &out,
                     .separator = p->given[2] && p->v[2].kind == TVALUE_STRING ? tvalue_text(p->v[2]) : bytes_str("\n"),
                     .width = 79,
                     .break_long = !p->given[1] || op_truth(p->v[1]),
                     .break_hyphens = !p->given[3] || op_truth(p->v[3])};
    if (v.kind == TVALUE_UNDEFINED) return run_fail_undefined(r, v);
    if (v.kind != TVALUE_STRING)
        return run_fail(r, ERR_INVALID, "'%s object' has no attribute 'splitlines'", python_type(v));
    if (p->given[0] && !op_is_int(p->v[0], &w.width))
        return run_fail(r, ERR_INVALID, "wordwrap: width must be an integer");
    if (w.width < 1) return run_fail(r, ERR_INVALID, "invalid width %lld (must be > 0)", (long long)w.width);
    buf_init(&out, r->out_max);
    run_burn(r, s.len / 4);
    for (size_t at = 0; at < s.len;) {
        const uint8_t *nl = memchr(s.data + at, '\n', s.len - at);
        size_t len = nl ? (size_t)(nl - s.data) - at : s.len - at;
        if (at) buf_add_bytes(&out, w.separator);
        wrap_line(&w, bytes_of(s.data + at, len));
        at += len + 1;
    }
    return run_take_buf(r, &out);
}
