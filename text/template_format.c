/*
 * template_format.c - '%s and %d' % (a, b), which is also the format filter.
 */
#include <math.h>
#include <stdio.h>

#include "text/template_filters.h"

/* One "%...c" with value v. */
static void add_formatted(struct run *r, struct bytes flags, char conversion, struct tvalue v, struct buf *out) {
    char spec[40];
    struct buf text = {0};
    int64_t i = 0;
    if (flags.len > 16) {
        run_fail(r, ERR_UNSUPPORTED, "a format is too long");
        return;
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored                                                                                         \
    "-Wformat-nonliteral" /* spec is made here: at most 16 checked characters of flags, then a fixed end */
    switch (conversion) {
    case 's':
    case 'r':
        if (conversion == 's')
            run_str(r, v, &text);
        else
            run_repr(r, v, &text);
        snprintf(spec, sizeof spec, "%%%.*ss", (int)flags.len, (const char *)flags.data);
        buf_addf(out, spec, buf_text(&text));
        break;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        if (!op_is_int(v, &i) && v.kind == TVALUE_FLOAT && fabs(v.number) < 9e18) i = (int64_t)v.number;
        if (!op_is_number(v))
            run_fail(r, ERR_INVALID, "%%%c format: a real number is required, not %s", conversion, python_type(v));
        snprintf(spec, sizeof spec, "%%%.*sll%c", (int)flags.len, (const char *)flags.data,
                 conversion == 'i' || conversion == 'u' ? 'd' : conversion);
        buf_addf(out, spec, (long long)i);
        break;
    default:
        if (!op_is_number(v)) run_fail(r, ERR_INVALID, "must be real number, not %s", python_type(v));
        snprintf(spec, sizeof spec, "%%%.*s%c", (int)flags.len, (const char *)flags.data, conversion);
        buf_addf(out, spec, op_number(v));
    }
#pragma GCC diagnostic pop
    buf_release(&text);
}

static size_t digits_len(struct bytes s, size_t at) {
    size_t n = 0;
    while (at + n < s.len && s.data[at + n] >= '0' && s.data[at + n] <= '9') n++;
    return n;
}

/* Flags, then a width, then a precision: C's printf takes nothing else in between. SIZE_MAX: one is longer than three
 * digits. */
static size_t flags_len(struct bytes s) {
    size_t n = 0;
    while (n < s.len && s.data[n] && strchr("-+ #0", s.data[n])) n++;
    size_t width = digits_len(s, n), precision = 0;
    n += width;
    if (n < s.len && s.data[n] == '.') {
        precision = digits_len(s, n + 1);
        n += 1 + precision;
    }
    return width > 3 || precision > 3 ? SIZE_MAX : n;
}

/* args is raw: positional values, or keywords for %(name)s. */
struct tvalue filter_format(struct run *r, struct tvalue v, const struct params *p, struct args args) {
    struct bytes s;
    v = run_to_string(r, v);
    s = tvalue_text(v);
    struct buf out;
    uint32_t next = 0;
    buf_init(&out, r->out_max);
    for (size_t i = 0; i < s.len && !r->rc; i++) {
        struct tvalue value = undefined_value();
        if (s.data[i] != '%') {
            buf_add_byte(&out, (char)s.data[i]);
            continue;
        }
        struct bytes rest = bytes_of(s.data + i + 1, s.len - i - 1);
        bool named = rest.len && rest.data[0] == '(';
        if (named) {
            const uint8_t *close = memchr(rest.data, ')', rest.len);
            struct bytes name = bytes_of(rest.data + 1, close ? (size_t)(close - rest.data) - 1 : 0);
            const struct tvalue *found = close && args.keywords ? tdict_find(args.keywords, tvalue_string(name)) : NULL;
            if (!found) return buf_release(&out), run_fail(r, ERR_INVALID, "format requires a mapping with this key");
            value = *found;
            rest = bytes_of(close + 1, rest.len - name.len - 2);
        }
        size_t n = flags_len(rest);
        if (n == SIZE_MAX || n >= rest.len) return buf_release(&out), run_fail(r, ERR_INVALID, "incomplete format");
        char conversion = (char)rest.data[n];
        i = (size_t)(rest.data + n - s.data);
        if (conversion == '%') {
            buf_add_byte(&out, '%');
            continue;
        }
        if (!conversion || !strchr("sriduxXofFeEgG", conversion))
            return buf_release(&out), run_fail(r, ERR_INVALID, "unsupported format character '%c'", conversion);
        if (!named && next >= args.count)
            return buf_release(&out), run_fail(r, ERR_INVALID, "not enough arguments for format string");
        if (!named) value = args.items[next++];
        add_formatted(r, bytes_of(rest.data, n), conversion, value, &out);
    }
    if (!args.keywords && next < args.count && !r->rc)
        run_fail(r, ERR_INVALID, "not all arguments converted during string formatting");
    return run_take_buf(r, &out);
}
