/*
 * lex.c - source text to tokens, with jinja2's rules for white space: trim_blocks, lstrip_blocks,
 * and the signs - and + in tags.
 */
#include <stdlib.h>

#include "base/utf8.h"
#include "text/template/ast.h"
#include "text/template/python.h"
#include "text/unicode.h"

struct lexer {
    struct arena *arena;
    const char *at, *end;
    uint32_t line;
    bool line_starting; /* the last token ended with a line end */
    struct lexed *out;
    struct error *err;
    int rc;
};

static int fail(struct lexer *l, int code, const char *what) {
    if (!l->rc)
        l->rc = error_set(l->err, code, "template line %u: %s", l->line, what);
    return l->rc;
}

static struct token *push(struct lexer *l, enum token_kind kind) {
    vec_push(&l->out->tokens, ((struct token){.kind = kind, .line = l->line}));
    return &l->out->tokens.items[l->out->tokens.count - 1];
}

/* Moves on to `to`, counting lines. */
static void advance(struct lexer *l, const char *to) {
    for (; l->at < to; l->at++)
        l->line += *l->at == '\n';
}

static bool looking_at(const struct lexer *l, const char *at, const char *s) {
    size_t n = strlen(s);
    return (size_t)(l->end - at) >= n && !memcmp(at, s, n);
}

static const char *skip_spaces(const struct lexer *l, const char *at) {
    while (at < l->end) {
        uint32_t cp;
        size_t n = unicode_next((const uint8_t *)at, &cp);
        if (!python_is_space(cp))
            break;
        at += n;
    }
    return at;
}

/* ---- data ---- */

/* Where data [at, end) ends when its trailing white space goes: all of it for '-', the indentation
 * of a tag alone on its line else. */
static const char *strip_data(const struct lexer *l, const char *begin, const char *end, char sign,
                              bool is_print) {
    if (sign == '-') {
        while (end > begin) {
            uint32_t cp;
            size_t n = unicode_prev((const uint8_t *)end, &cp);
            if (!python_is_space(cp))
                break;
            end -= n;
        }
        return end;
    }
    if (sign == '+' || is_print)
        return end;
    const char *line = end;
    while (line > begin && line[-1] != '\n')
        line--;
    if (line == begin && !l->line_starting)
        return end;
    return skip_spaces(l, line) >= end ? line : end;
}

static void push_data(struct lexer *l, const char *begin, const char *end) {
    if (end > begin)
        push(l, T_DATA)->text = bytes_of(begin, (size_t)(end - begin));
}

static char sign_at(const struct lexer *l, const char *at) {
    return at < l->end && (*at == '-' || *at == '+') ? *at : 0;
}

/* The end of a block or comment tag at `at`: "-%}" and the white space after it, "+%}", or "%}" and
 * one line end. NULL: not here. */
static const char *tag_end(const struct lexer *l, const char *at, const char *mark) {
    if (looking_at(l, at, "-") && looking_at(l, at + 1, mark))
        return skip_spaces(l, at + 3);
    if (looking_at(l, at, "+") && looking_at(l, at + 1, mark))
        return at + 3;
    if (!looking_at(l, at, mark))
        return NULL;
    return at + 2 < l->end && at[2] == '\n' ? at + 3 : at + 2;
}

/* The end of a print tag: "-}}" with white space, or "}}". */
static const char *print_end(const struct lexer *l, const char *at) {
    if (looking_at(l, at, "-}}"))
        return skip_spaces(l, at + 3);
    return looking_at(l, at, "}}") ? at + 2 : NULL;
}

static void finish_tag(struct lexer *l, const char *to) {
    advance(l, to);
    l->line_starting = to[-1] == '\n';
}

static void lex_comment(struct lexer *l) {
    for (const char *p = l->at + 2; p < l->end; p++) {
        const char *to = tag_end(l, p, "#}");
        if (!to)
            continue;
        finish_tag(l, to);
        return;
    }
    if (l->at + 2 < l->end)
        fail(l, ERR_INVALID, "a comment has no end");
    advance(l, l->end); /* jinja2 minds only what follows */
}

/* "raw" or "endraw" between a tag's marks at `at`; NULL or the end of the tag. The opening tag
 * keeps the line end behind it. */
static const char *raw_tag(const struct lexer *l, const char *at, const char *word, bool opening) {
    at += 2;
    if (sign_at(l, at))
        at++;
    at = skip_spaces(l, at);
    if (!looking_at(l, at, word))
        return NULL;
    at = skip_spaces(l, at + strlen(word));
    if (!opening)
        return tag_end(l, at, "%}");
    if (looking_at(l, at, "-%}"))
        return skip_spaces(l, at + 3);
    return looking_at(l, at, "%}") ? at + 2 : NULL;
}

static void lex_raw(struct lexer *l, const char *body) {
    finish_tag(l, body);
    for (const char *p = body; p < l->end; p++) {
        const char *to =
            *p == '{' && looking_at(l, p, "{%") ? raw_tag(l, p, "endraw", false) : NULL;
        if (!to)
            continue;
        push_data(l, body, strip_data(l, body, p, sign_at(l, p + 2), false));
        finish_tag(l, to);
        return;
    }
    if (body < l->end)
        fail(l, ERR_INVALID, "raw has no endraw");
}

/* ---- inside tags ---- */

/* Python's escapes; unknown ones keep their backslash. */
static const char *lex_escape(struct lexer *l, const char *p, const char *end, struct buf *out) {
    static const char FROM[] = "\\'\"abfnrtv", TO[] = "\\'\"\a\b\f\n\r\t\v";
    char utf8[4], digits[9] = {0};
    const char *known = strchr(FROM, *p);
    if (*p == '\n')
        return p + 1;
    if (known && *p) {
        buf_add_byte(out, TO[known - FROM]);
        return p + 1;
    }
    int want = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0, base = 16;
    const char *from = p + 1;
    if (*p >= '0' && *p <= '7') {
        for (want = 1, base = 8, from = p;
             want < 3 && p + want < end && p[want] >= '0' && p[want] <= '7';)
            want++;
    }
    if (!want) {
        if (*p == 'N')
            fail(l, ERR_UNSUPPORTED, "\\N escapes are not supported");
        buf_add_byte(out, '\\');
        return p;
    }
    if (end - from < want)
        return fail(l, ERR_INVALID, "a string has a cut escape"), end;
    memcpy(digits, from, (size_t)want);
    char *stop;
    unsigned long cp = strtoul(digits, &stop, base);
    if (*stop || digits[0] == '-' || digits[0] == '+' || digits[0] == ' ' || cp > 0x10FFFF ||
        (cp >= 0xD800 && cp <= 0xDFFF))
        fail(l, ERR_INVALID, "a string has a bad escape");
    else
        buf_add(out, utf8, utf8_encode((uint32_t)cp, utf8));
    return from + want;
}

static void lex_string(struct lexer *l) {
    char quote = *l->at;
    const char *p = l->at + 1;
    bool escaped = false;
    while (p < l->end && *p != quote) {
        if (*p == '\\') {
            escaped = true;
            p++;
        }
        p++;
    }
    if (p >= l->end) {
        fail(l, ERR_INVALID, "a string has no end");
        return;
    }
    struct bytes text = bytes_of(l->at + 1, (size_t)(p - l->at - 1));
    if (escaped) {
        struct buf out = {0};
        for (const char *q = l->at + 1; q < p && !l->rc;) {
            if (*q == '\\')
                q = lex_escape(l, q + 1, p, &out);
            else
                buf_add_byte(&out, *q++);
        }
        void *copy = arena_copy(l->arena, buf_text(&out), out.len);
        text = bytes_of(copy, out.len);
        buf_release(&out);
        if (!copy)
            fail(l, ERR_LIMIT, "too large");
    }
    push(l, T_STRING)->text = text;
    advance(l, p + 1);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Copies digits with their underscores left out; returns the end. */
static const char *digits(const char *p, const char *end, char *out, size_t *n, size_t max) {
    while (p < end && (is_digit(*p) || (*p == '_' && p + 1 < end && is_digit(p[1])))) {
        if (*p != '_' && *n < max)
            out[(*n)++] = *p;
        p++;
    }
    return p;
}

static void lex_based(struct lexer *l, int base) {
    char *stop;
    char text[80] = {0};
    const char *p = l->at + 2;
    size_t n = 0;
    for (; p < l->end &&
           (is_digit(*p) || (*p >= 'a' && *p <= 'f') || (*p >= 'A' && *p <= 'F') || *p == '_') &&
           n < 70;
         p++)
        if (*p != '_')
            text[n++] = *p;
    unsigned long long v = strtoull(text, &stop, base);
    if (!n || *stop || v > INT64_MAX)
        fail(l, ERR_INVALID, "bad number");
    push(l, T_INT)->number = tvalue_int((int64_t)v);
    advance(l, p);
}

static void lex_number(struct lexer *l) {
    char text[128] = {0};
    size_t n = 0, max = sizeof text - 1;
    if (l->at[0] == '0' && l->end - l->at > 1) {
        char c = (char)(l->at[1] | 0x20);
        if (c == 'x' || c == 'o' || c == 'b') {
            lex_based(l, c == 'x' ? 16 : c == 'o' ? 8 : 2);
            return;
        }
    }
    bool after_dot = l->out->tokens.count && l->at[-1] == '.', is_float = false;
    const char *p = digits(l->at, l->end, text, &n, max), *q;
    if (!after_dot && p + 1 < l->end && *p == '.' && is_digit(p[1])) {
        is_float = true;
        if (n < max)
            text[n++] = '.';
        p = digits(p + 1, l->end, text, &n, max);
    }
    q = p < l->end && (*p == 'e' || *p == 'E') ? p + 1 : NULL;
    if (q && q < l->end && (*q == '+' || *q == '-'))
        q++;
    if (!after_dot && q && q < l->end && is_digit(*q)) {
        is_float = true;
        while (p < q && n < max)
            text[n++] = *p++;
        p = digits(q, l->end, text, &n, max);
    }
    char *stop;
    if (is_float) {
        push(l, T_FLOAT)->number = tvalue_float(strtod(text, NULL));
    } else {
        unsigned long long v = strtoull(text, &stop, 10);
        bool big = v > INT64_MAX || n > 19;
        if (n == max)
            fail(l, ERR_LIMIT, "a number is too large");
        push(l, T_INT)->number =
            big ? tvalue_big_int(l->arena, bytes_of(text, n)) : tvalue_int((int64_t)v);
    }
    advance(l, p);
}

static const char *name_end(const struct lexer *l, const char *p) {
    while (p < l->end) {
        uint32_t cp;
        size_t n = unicode_next((const uint8_t *)p, &cp);
        if (!unicode_is_word(cp))
            break;
        p += n;
    }
    return p;
}

static void lex_operator(struct lexer *l, unsigned *brackets) {
    static const char TWO[][3] = {"==", "!=", ">=", "<=", "//", "**"};
    for (size_t i = 0; i < ARRAY_LEN(TWO); i++)
        if (looking_at(l, l->at, TWO[i])) {
            push(l, T_OP)->op = OP2(TWO[i][0], TWO[i][1]);
            l->at += 2;
            return;
        }
    char c = *l->at;
    if (!c || !strchr("+-/*%~[](){}><=.:|,;", c)) {
        fail(l, ERR_INVALID, "unexpected character");
        return;
    }
    if (strchr("([{", c))
        ++*brackets;
    if (strchr(")]}", c)) {
        if (!*brackets) {
            fail(l, ERR_INVALID, "unexpected closing bracket");
            return;
        }
        --*brackets;
    }
    push(l, T_OP)->op = OP(c);
    l->at++;
}

/* Tokens up to the end of the tag. */
static void lex_inside(struct lexer *l, bool is_print) {
    unsigned brackets = 0;
    while (!l->rc) {
        const char *p = skip_spaces(l, l->at);
        advance(l, p);
        if (p >= l->end) {
            fail(l, ERR_INVALID, "a tag has no end");
            return;
        }
        const char *to = brackets ? NULL : is_print ? print_end(l, p) : tag_end(l, p, "%}");
        if (to) {
            push(l, is_print ? T_PRINT_END : T_BLOCK_END);
            finish_tag(l, to);
            return;
        }
        const char *name = is_digit(*p) ? p : name_end(l, p);
        if (*p == '\'' || *p == '"') {
            lex_string(l);
        } else if (is_digit(*p)) {
            lex_number(l);
        } else if (name > p) {
            push(l, T_NAME)->text = bytes_of(p, (size_t)(name - p));
            l->at = name;
        } else {
            lex_operator(l, &brackets);
        }
    }
}

/* ---- the whole ---- */

static const char *find_tag(const struct lexer *l) {
    for (const char *p = l->at; (p = memchr(p, '{', (size_t)(l->end - p))); p++)
        if (p + 1 < l->end && (p[1] == '{' || p[1] == '%' || p[1] == '#'))
            return p;
    return NULL;
}

static void lex_one(struct lexer *l) {
    const char *tag = find_tag(l);
    if (!tag) {
        push_data(l, l->at, l->end);
        l->at = l->end;
        return;
    }
    bool is_print = tag[1] == '{';
    char sign = sign_at(l, tag + 2);
    const char *raw = tag[1] == '%' ? raw_tag(l, tag, "raw", true) : NULL;
    push_data(l, l->at, strip_data(l, l->at, tag, sign, is_print));
    advance(l, tag);
    if (tag[1] == '#') {
        lex_comment(l);
    } else if (raw) {
        lex_raw(l, raw);
    } else {
        push(l, is_print ? T_PRINT_BEGIN : T_BLOCK_BEGIN);
        l->at += sign ? 3 : 2;
        lex_inside(l, is_print);
    }
}

/* All line ends become \n; one at the very end goes. */
static struct bytes normalize_lines(struct arena *a, struct bytes source) {
    char *out = arena_alloc(a, source.len + 1);
    size_t n = 0;
    if (!out)
        return bytes_of(NULL, 0);
    for (size_t i = 0; i < source.len; i++) {
        char c = (char)source.data[i];
        if (c == '\r') {
            if (i + 1 < source.len && source.data[i + 1] == '\n')
                i++;
            c = '\n';
        }
        out[n++] = c;
    }
    if (n && out[n - 1] == '\n')
        n--;
    return bytes_of(out, n);
}

int template_lex(struct arena *a, struct bytes source, struct lexed *out, struct error *err) {
    *out = (struct lexed){0};
    if (source.len > TEMPLATE_SOURCE_MAX)
        return error_set(err, ERR_LIMIT, "the template is longer than %d bytes",
                         TEMPLATE_SOURCE_MAX);
    if (!utf8_valid(source.data, source.len))
        return error_set(err, ERR_INVALID, "the template is not valid UTF-8");
    struct bytes text = normalize_lines(a, source);
    if (!text.data)
        return error_set(err, ERR_MEMORY, "out of memory");
    struct lexer l = {.arena = a,
                      .at = (const char *)text.data,
                      .line = 1,
                      .line_starting = true,
                      .out = out,
                      .err = err};
    l.end = l.at + text.len;
    while (!l.rc && l.at < l.end)
        lex_one(&l);
    push(&l, T_EOF);
    return l.rc;
}
