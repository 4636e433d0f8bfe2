/*
 * spec.c - Python's format specifications,
 * [[fill]align][sign][#][0][width][grouping][.precision][type]:
 * https://docs.python.org/3/library/string.html#formatspec. str.format and '%' both end here.
 */
#include <math.h>
#include <stdlib.h>

#include "text/template/filters.h"
#include "text/template/python.h"

enum { SPEC_MAX = 999 }; /* of a width or a precision */

const struct format_spec FORMAT_SPEC_NONE = {.fill = {(const uint8_t *)" ", 1}, .precision = -1};

static bool is_one(const char *of, uint8_t c) {
    return c && strchr(of, c);
}

/* ---- reading ---- */

static bool take_count(struct run *r, struct bytes text, size_t *at, int64_t *out) {
    size_t begin = *at;
    int64_t n = 0;
    for (; *at < text.len && text.data[*at] >= '0' && text.data[*at] <= '9'; ++*at)
        n = MIN(n * 10 + (text.data[*at] - '0'), (int64_t)SPEC_MAX + 1);
    if (n > SPEC_MAX)
        run_fail(r, ERR_UNSUPPORTED, "a format is wider than %d", SPEC_MAX);
    if (*at > begin)
        *out = n;
    return *at > begin;
}

/* A fill character and an alignment; returns their length. */
static size_t read_align(struct bytes text, struct format_spec *s) {
    uint32_t cp;
    size_t n = text.len ? unicode_next(text.data, &cp) : 0;
    if (n && n < text.len && is_one("<>=^", text.data[n])) {
        s->fill = bytes_of(text.data, n);
        s->align = (char)text.data[n];
        return n + 1;
    }
    if (!n || !is_one("<>=^", text.data[0]))
        return 0;
    s->align = (char)text.data[0];
    return 1;
}

static bool read_spec(struct run *r, struct bytes text, bool number, struct format_spec *s) {
    *s = FORMAT_SPEC_NONE;
    size_t at = read_align(text, s);
    bool filled = at > 1;
    if (at < text.len && is_one("+- ", text.data[at]))
        s->sign = (char)text.data[at++];
    if (at < text.len && text.data[at] == '#')
        s->alternate = text.data[at++];
    if (at < text.len && text.data[at] == '0' && !filled) {
        s->fill = bytes_str("0");
        if (!s->align && number)
            s->align = '=';
        at++;
    }
    take_count(r, text, &at, &s->width);
    if (at < text.len && is_one(",_", text.data[at]))
        s->grouping = (char)text.data[at++];
    if (at < text.len && text.data[at] == '.') {
        at++;
        if (!take_count(r, text, &at, &s->precision))
            return run_fail(r, ERR_INVALID, "Format specifier missing precision"), false;
    }
    if (at < text.len)
        s->type = (char)text.data[at++];
    if (at < text.len)
        run_fail(r, ERR_INVALID, "Invalid format specifier");
    return !r->rc;
}

/* ---- writing ---- */

static void add_fill(const struct format_spec *s, int64_t count, struct buf *out) {
    for (; count > 0 && !out->failed; count--)
        buf_add_bytes(out, s->fill);
}

/* head and body with the fill before, between or behind them. */
static void add_padded(const struct format_spec *s, char align, struct bytes head,
                       struct bytes body, struct buf *out) {
    int64_t missing = MAX(s->width - (int64_t)(python_length(head) + python_length(body)), 0);
    int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    add_fill(s, left, out);
    buf_add_bytes(out, head);
    if (align == '=')
        add_fill(s, missing, out);
    buf_add_bytes(out, body);
    if (align != '=')
        add_fill(s, missing - left, out);
}

static void format_text(struct run *r, struct bytes text, const struct format_spec *s,
                        struct buf *out) {
    if (s->sign || s->grouping || s->alternate || s->align == '=' || (s->type && s->type != 's')) {
        run_fail(r, ERR_INVALID, "a format specifier that is not allowed for strings");
        return;
    }
    if (s->precision >= 0 && (size_t)s->precision < python_length(text))
        text.len = python_offset(text, (size_t)s->precision);
    add_padded(s, s->align ? s->align : '<', bytes_of(NULL, 0), text, out);
}

static size_t grouped_len(size_t digits, size_t group) {
    return group ? digits + (digits - 1) / group : digits;
}

/* Digits with separators and zeros before them, up to min characters. */
static void add_grouped(struct bytes digits, char separator, size_t group, size_t min,
                        struct buf *out) {
    size_t count = digits.len;
    while (grouped_len(count, group) < min)
        count++;
    for (size_t left = count; left > 0; left--) {
        if (group && left < count && left % group == 0)
            buf_add_byte(out, separator);
        buf_add_byte(out, left > digits.len ? '0' : (char)digits.data[digits.len - left]);
    }
}

/* head: sign and base; digits: of the integer part; rest: point, fraction, exponent. */
static void add_number(struct bytes head, struct bytes digits, struct bytes rest, size_t group,
                       const struct format_spec *s, struct buf *out) {
    struct buf body = {0};
    char align = s->align ? s->align : '>';
    bool zeros = align == '=' && bytes_equal(s->fill, bytes_str("0"));
    int64_t min = MAX(zeros ? s->width - (int64_t)(head.len + rest.len) : 0, s->min_digits);
    add_grouped(digits, s->grouping, s->grouping ? group : 0, (size_t)MAX(min, 1), &body);
    buf_add_bytes(&body, rest);
    add_padded(s, align, head, buf_bytes(&body), out);
    buf_release(&body);
}

static void add_sign(bool negative, const struct format_spec *s, struct buf *head) {
    if (negative)
        buf_add_byte(head, '-');
    else if (s->sign == '+' || s->sign == ' ')
        buf_add_byte(head, s->sign);
}

/* ---- numbers ---- */

static size_t base_digits(uint64_t n, unsigned base, bool upper, char *to) {
    char reversed[64];
    size_t len = 0;
    do
        reversed[len++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[n % base];
    while (n /= base);
    for (size_t i = 0; i < len; i++)
        to[i] = reversed[len - 1 - i];
    return len;
}

static void format_int(struct run *r, int64_t v, const struct format_spec *s, struct buf *out) {
    char type = s->type ? s->type : 'd', digits[64];
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
    struct buf head = {0};
    if (s->precision >= 0 || (s->grouping == ',' && base != 10) || (s->grouping && type == 'n')) {
        run_fail(r, ERR_INVALID, "a format specifier that is not allowed for integers");
        return;
    }
    uint64_t magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    size_t len = base_digits(magnitude, base, type == 'X', digits);
    add_sign(v < 0, s, &head);
    if (s->alternate && base != 10)
        buf_addf(&head, "0%c", type);
    add_number(buf_bytes(&head), bytes_of(digits, len), bytes_of(NULL, 0), base == 10 ? 3 : 4, s,
               out);
    buf_release(&head);
}

/* As repr, or with a precision as 'g', but with a point always. */
static void plain_float(struct run *r, double v, int64_t precision, struct buf *out) {
    if (precision < 0) {
        run_str(r, (struct tvalue){.kind = TVALUE_FLOAT, .number = v}, out);
        return;
    }
    int digits = (int)MAX(precision, 1), exponent = 0;
    buf_addf(out, "%.*e", digits - 1, v);
    const char *e = strchr(buf_text(out), 'e');
    if (e)
        exponent = atoi(e + 1);
    if (e && exponent >= -4 && exponent + 1 < digits) {
        buf_reset(out);
        buf_addf(out, "%#.*g", digits, v);
        while (out->len > 1 && out->data[out->len - 1] == '0' && out->data[out->len - 2] != '.')
            out->len--;
        out->data[out->len] = 0;
        return;
    }
    if (!e)
        return;
    size_t at = (size_t)(e - out->data), end = at;
    char *tail = mem_strdup(e);
    while (memchr(out->data, '.', end) && (out->data[end - 1] == '0' || out->data[end - 1] == '.'))
        end--;
    out->len = end;
    buf_add_str(out, tail);
    mem_free(tail);
}

static void float_text(struct run *r, double v, const struct format_spec *s, struct buf *out) {
    int precision = s->precision < 0 ? 6 : (int)s->precision;
    switch (s->type | 32) {
    case 'f':
    case '%' | 32: buf_addf(out, s->alternate ? "%#.*f" : "%.*f", precision, v); break;
    case 'e': buf_addf(out, s->alternate ? "%#.*e" : "%.*e", precision, v); break;
    case 'g':
    case 'n': buf_addf(out, s->alternate ? "%#.*g" : "%.*g", precision, v); break;
    default: plain_float(r, v, s->precision, out);
    }
    for (size_t i = 0; s->type && is_one("EFG", (uint8_t)s->type) && i < out->len; i++)
        if (out->data[i] >= 'a' && out->data[i] <= 'z')
            out->data[i] -= 32;
}

static void format_float(struct run *r, double v, const struct format_spec *s, struct buf *out) {
    struct buf head = {0}, text = {0};
    size_t digits = 0;
    if (s->grouping && s->type == 'n')
        run_fail(r, ERR_INVALID, "Cannot specify '%c' with 'n'", s->grouping);
    if (s->type == '%')
        v *= 100;
    add_sign(signbit(v) && !isnan(v), s, &head);
    float_text(r, fabs(v), s, &text);
    if (s->type == '%')
        buf_add_byte(&text, '%');
    while (digits < text.len && text.data[digits] >= '0' && text.data[digits] <= '9')
        digits++;
    if (digits)
        add_number(buf_bytes(&head), bytes_of(text.data, digits),
                   bytes_of(text.data + digits, text.len - digits), 3, s, out);
    else
        add_padded(s, s->align ? s->align : '>', buf_bytes(&head), buf_bytes(&text), out);
    buf_release(&head);
    buf_release(&text);
}

void format_with(struct run *r, struct tvalue v, const struct format_spec *s, struct buf *out) {
    int64_t i;
    if (v.kind == TVALUE_STRING)
        format_text(r, tvalue_text(v), s, out);
    else if (!op_is_number(v))
        run_fail(r, ERR_INVALID, "unsupported format string passed to %s.__format__",
                 python_type(v));
    else if (op_is_int(v, &i) && (!s->type || is_one("bdoxXn", (uint8_t)s->type)))
        format_int(r, i, s, out);
    else if (!s->type || is_one("eEfFgGn%", (uint8_t)s->type))
        format_float(r, op_number(v), s, out);
    else
        run_fail(r, ERR_INVALID, "Unknown format code '%c' for object of type '%s'", s->type,
                 python_type(v));
}

void format_value(struct run *r, struct tvalue v, struct bytes text, struct buf *out) {
    struct format_spec s;
    if (!text.len)
        run_str(r, v, out);
    else if (read_spec(r, text, v.kind != TVALUE_STRING, &s))
        format_with(r, v, &s, out);
}
