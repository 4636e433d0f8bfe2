/*
 * format.c - '%s and %d' % (a, b), which is also the format filter, and '{} and
 * {name:>4}'.format(a, name=b).
 */
#include <math.h>

#include "base/utf8.h"
#include "text/template/filters.h"
#include "text/template/python.h"
#include "text/template/strings.h"

/* ---- % ---- */

struct percent {
    struct run *r;
    struct bytes text;
    size_t at;
    struct args args;
    uint32_t next; /* of the positional values */
    bool named;    /* the conversion says which value */
    bool markup;   /* values are escaped */
};

static int percent_peek(const struct percent *f) {
    return f->at < f->text.len ? f->text.data[f->at] : -1;
}

static struct tvalue percent_next(struct percent *f) {
    if (f->next < f->args.count)
        return f->args.items[f->next++];
    return run_fail(f->r, ERR_INVALID, "not enough arguments for format string");
}

/* (name); nothing when the next value is meant. */
static struct tvalue percent_named(struct percent *f) {
    f->named = percent_peek(f) == '(';
    if (!f->named)
        return undefined_value();
    const uint8_t *begin = f->text.data + f->at + 1,
                  *close = memchr(begin, ')', f->text.len - f->at - 1);
    struct bytes name = bytes_of(begin, close ? (size_t)(close - begin) : 0);
    const struct tvalue *found =
        close && f->args.keywords ? tdict_find(f->args.keywords, tvalue_string(name)) : NULL;
    if (!found)
        return run_fail(f->r, ERR_INVALID, "format requires a mapping with this key");
    f->at += name.len + 2;
    return *found;
}

/* Digits, or * for the next value; -1: neither. */
static int64_t percent_count(struct percent *f) {
    int64_t n = -1;
    if (percent_peek(f) == '*') {
        f->at++;
        if (!op_is_int(percent_next(f), &n))
            run_fail(f->r, ERR_INVALID, "* wants int");
    }
    for (; percent_peek(f) >= '0' && percent_peek(f) <= '9'; f->at++)
        n = MIN(MAX(n, 0) * 10 + (percent_peek(f) - '0'), (int64_t)1000);
    if (n > 999)
        run_fail(f->r, ERR_UNSUPPORTED, "a format is wider than 999");
    return n;
}

/* Flags, width, precision, and C's sizes, which mean nothing. */
static struct format_spec percent_spec(struct percent *f) {
    struct format_spec s = FORMAT_SPEC_NONE;
    bool left = false, zeros = false;
    for (; percent_peek(f) > 0 && strchr("-+ #0", percent_peek(f)); f->at++) {
        int c = percent_peek(f);
        left |= c == '-';
        zeros |= c == '0';
        s.alternate |= c == '#';
        if (c == '+' || (c == ' ' && !s.sign))
            s.sign = (char)c;
    }
    s.width = percent_count(f);
    left |= s.width < -1; /* from a * */
    s.width = s.width == -1 ? 0 : s.width < 0 ? MIN(-s.width, (int64_t)999) : s.width;
    if (percent_peek(f) == '.') {
        f->at++;
        s.precision = percent_count(f);
        if (s.precision < 0)
            s.precision = 0;
    }
    while (percent_peek(f) > 0 && strchr("hlL", percent_peek(f)))
        f->at++;
    s.align = left ? '<' : zeros ? '=' : '>';
    if (s.align == '=')
        s.fill = bytes_str("0");
    return s;
}

static void percent_text(struct percent *f, struct tvalue v, char conversion, struct format_spec s,
                         struct buf *out) {
    struct run *r = f->r;
    struct format_spec plain = FORMAT_SPEC_NONE;
    struct buf text = {0};
    plain.width = s.width;
    plain.precision = conversion == 'c' ? -1 : s.precision;
    plain.align = s.align == '<' ? '<' : '>';
    int64_t cp;
    char utf8[4];
    if (conversion == 's' && f->markup)
        buf_add_bytes(&text, tvalue_text(markup_escape(r, v)));
    else if (conversion == 's')
        run_str(r, v, &text);
    else if (conversion == 'r')
        run_repr(r, v, &text);
    else if (v.kind == TVALUE_STRING && python_length(tvalue_text(v)) == 1)
        buf_add_bytes(&text, tvalue_text(v));
    else if (op_is_int(v, &cp) && cp >= 0 && cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff))
        buf_add(&text, utf8, utf8_encode((uint32_t)cp, utf8));
    else
        run_fail(r, ERR_INVALID, "%%c requires int or char");
    format_with(r, tvalue_string(buf_bytes(&text)), &plain, out);
    buf_release(&text);
}

static void percent_int(struct run *r, struct tvalue v, char conversion, struct format_spec s,
                        struct buf *out) {
    bool decimal = strchr("diu", conversion);
    int64_t i = 0;
    if (!op_is_int(v, &i) && decimal && v.kind == TVALUE_FLOAT && fabs(v.number) < 9e18) {
        i = (int64_t)v.number;
    } else if (decimal && v.kind == TVALUE_FLOAT && isfinite(v.number)) {
        s.type = 'f';
        s.precision = 0;
        s.alternate = false;
        format_with(r, v, &s, out);
        return;
    } else if (!op_is_int(v, &i)) {
        run_fail(r, ERR_INVALID, "%%%c format: a real number is required, not %s", conversion,
                 python_type(v));
        return;
    }
    s.type = decimal ? 'd' : conversion;
    s.min_digits = s.precision;
    s.precision = -1;
    format_with(r, tvalue_int(i), &s, out);
}

static void percent_one(struct percent *f, struct buf *out) {
    struct tvalue v = percent_named(f);
    struct format_spec s = percent_spec(f);
    int c = percent_peek(f);
    if (f->r->rc)
        return;
    if (c <= 0) {
        run_fail(f->r, ERR_INVALID, "incomplete format");
        return;
    }
    f->at++;
    if (c == '%' && f->text.data[f->at - 2] == '%') {
        buf_add_byte(out, '%');
        return;
    }
    if (!strchr("sracdiuxXoeEfFgG", c)) {
        run_fail(f->r, ERR_INVALID, "unsupported format character '%c'", c);
        return;
    }
    if (!f->named)
        v = percent_next(f);
    if (f->r->rc)
        return;
    if (strchr("srac", c)) {
        percent_text(f, v, (char)c, s, out);
    } else if (strchr("diuxXo", c)) {
        percent_int(f->r, v, (char)c, s, out);
    } else if (op_is_number(v)) {
        s.type = (char)c;
        format_with(f->r, (struct tvalue){.kind = TVALUE_FLOAT, .number = op_number(v)}, &s, out);
    } else {
        run_fail(f->r, ERR_INVALID, "must be real number, not %s", python_type(v));
    }
}

struct tvalue format_percent(struct run *r, struct tvalue text, struct args args) {
    struct percent f = {.r = r, .text = tvalue_text(text), .args = args, .markup = is_markup(text)};
    struct buf out;
    buf_init(&out, r->out_max);
    while (f.at < f.text.len && !r->rc) {
        struct bytes rest = bytes_of(f.text.data + f.at, f.text.len - f.at);
        const uint8_t *sign = memchr(rest.data, '%', rest.len);
        size_t len = sign ? (size_t)(sign - rest.data) : rest.len;
        buf_add(&out, rest.data, len);
        f.at += len + 1;
        if (sign)
            percent_one(&f, &out);
    }
    if (!args.keywords && f.next < args.count && !r->rc)
        run_fail(r, ERR_INVALID, "not all arguments converted during string formatting");
    struct tvalue made = run_take_buf(r, &out);
    return f.markup ? markup_of(made) : made;
}

/* args is raw. */
struct tvalue filter_format(struct run *r, struct tvalue v, const struct params *p,
                            struct args args) {
    if (args.count && args.keywords && args.keywords->count)
        return run_fail(r, ERR_INVALID,
                        "can't handle positional and keyword arguments at the same time");
    v = run_to_string(r, v);
    return r->rc ? v : format_percent(r, v, args);
}

/* ---- str.format ---- */

enum { FIELD_DEPTH = 2 }; /* a specification may have fields, theirs none */

struct fields {
    struct run *r;
    struct args args;
    uint32_t next; /* of the fields without a name */
    bool counted, numbered;
    bool markup; /* values are escaped */
};

static bool is_number_text(struct bytes s, uint32_t *out) {
    *out = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9' || i > 8)
            return false;
        *out = *out * 10 + (uint32_t)(s.data[i] - '0');
    }
    return s.len > 0;
}

/* The value that the beginning of a field names. */
static struct tvalue field_value(struct fields *f, struct bytes name) {
    uint32_t idx = 0;
    bool number = is_number_text(name, &idx);
    if (name.len && !number) {
        const struct tvalue *found =
            f->args.keywords ? tdict_find(f->args.keywords, tvalue_string(name)) : NULL;
        return found ? *found
                     : run_fail(f->r, ERR_INVALID, "str.format: there is no '%.*s'",
                                (int)MIN(name.len, (size_t)32), (const char *)name.data);
    }
    f->numbered |= number;
    f->counted |= !number;
    if (f->numbered && f->counted)
        return run_fail(f->r, ERR_INVALID,
                        "cannot switch between manual and automatic field numbering");
    if (!number)
        idx = f->next++;
    if (idx < f->args.count)
        return f->args.items[idx];
    return run_fail(f->r, ERR_INVALID,
                    "Replacement index %u out of range for positional args tuple", idx);
}

static size_t span_to(struct bytes s, size_t at, const char *ends) {
    size_t n = at;
    while (n < s.len && !(s.data[n] && strchr(ends, s.data[n])))
        n++;
    return n - at;
}

/* name, then .attribute and [index]. */
static struct tvalue field_path(struct fields *f, struct bytes path) {
    size_t at = span_to(path, 0, ".[");
    struct tvalue v = field_value(f, bytes_of(path.data, at));
    while (at < path.len && !f->r->rc) {
        if (v.kind == TVALUE_UNDEFINED)
            return run_fail_undefined(f->r, v);
        bool item = path.data[at++] == '[';
        size_t len = span_to(path, at, item ? "]" : ".[");
        struct bytes name = bytes_of(path.data + at, len);
        uint32_t idx;
        at += len + item;
        if (!len || at > path.len)
            return run_fail(f->r, ERR_INVALID, "Empty attribute in format string");
        v = !item
                ? run_get_attribute(f->r, v, tvalue_string(name), tdict_hash(tvalue_string(name)),
                                    method_find(name))
                : run_get_item(f->r, v,
                               is_number_text(name, &idx) ? tvalue_int(idx) : tvalue_string(name));
    }
    return v;
}

static void format_fields(struct fields *f, struct bytes s, unsigned depth, struct buf *out);

/* What stands between braces. */
static void format_field(struct fields *f, struct bytes field, unsigned depth, struct buf *out) {
    size_t path_len = span_to(field, 0, "!:");
    const uint8_t *bracket = memchr(field.data, '[', path_len); /* an index may hold anything */
    if (bracket) {
        size_t at = (size_t)(bracket - field.data);
        path_len = at + span_to(field, at, "]");
        path_len += span_to(field, path_len, "!:");
    }
    struct tvalue v = field_path(f, bytes_of(field.data, path_len));
    struct buf spec = {0}, text = {0};
    size_t at = path_len;
    if (at + 1 < field.len && field.data[at] == '!') {
        char conversion = (char)field.data[at + 1];
        at += 2;
        if (conversion == 's')
            run_str(f->r, v, &text);
        else if (conversion == 'r')
            run_repr(f->r, v, &text);
        else
            run_fail(f->r, ERR_UNSUPPORTED, "str.format: the conversion '!%c'", conversion);
        v = tvalue_string(buf_bytes(&text));
    }
    if (at < field.len && field.data[at] != ':')
        run_fail(f->r, ERR_INVALID, "expected ':' after conversion specifier");
    if (at < field.len)
        format_fields(f, bytes_of(field.data + at + 1, field.len - at - 1), depth + 1, &spec);
    if (f->markup && is_markup(v) && spec.len)
        run_fail(f->r, ERR_INVALID, "Unsupported format specification for Markup.");
    if (!f->r->rc && f->markup && depth == 0) {
        struct buf value = {0};
        format_value(f->r, v, buf_bytes(&spec), &value);
        if (is_markup(v))
            buf_add_bytes(out, buf_bytes(&value));
        else
            markup_add_escaped(buf_bytes(&value), out);
        buf_release(&value);
    } else if (!f->r->rc) {
        format_value(f->r, v, buf_bytes(&spec), out);
    }
    buf_release(&spec);
    buf_release(&text);
}

/* The length of a field up to the brace that closes it; SIZE_MAX: none does. */
static size_t field_len(struct bytes s, size_t at) {
    unsigned open = 1;
    for (size_t i = at; i < s.len; i++) {
        open += s.data[i] == '{';
        open -= s.data[i] == '}';
        if (!open)
            return i - at;
    }
    return SIZE_MAX;
}

static void format_fields(struct fields *f, struct bytes s, unsigned depth, struct buf *out) {
    if (depth >= FIELD_DEPTH)
        run_fail(f->r, ERR_INVALID, "Max string recursion exceeded");
    for (size_t i = 0; i < s.len && !f->r->rc; i++) {
        char c = (char)s.data[i];
        if (c != '{' && c != '}') {
            buf_add_byte(out, c);
        } else if (i + 1 < s.len && (char)s.data[i + 1] == c) {
            buf_add_byte(out, c);
            i++;
        } else {
            size_t len = c == '{' ? field_len(s, i + 1) : SIZE_MAX;
            if (len == SIZE_MAX) {
                run_fail(f->r, ERR_INVALID, "Single '%c' encountered in format string", c);
                return;
            }
            format_field(f, bytes_of(s.data + i + 1, len), depth, out);
            i += len + 1;
        }
    }
}

/* "{}", "{0}", "{name.key[0]!r:>10}". */
struct tvalue str_format(struct run *r, struct tvalue self, struct args args) {
    struct fields f = {.r = r, .args = args, .markup = is_markup(self)};
    struct buf out;
    buf_init(&out, r->out_max);
    format_fields(&f, tvalue_text(self), 0, &out);
    return run_take_buf(r, &out);
}

struct tvalue str_format_map(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    if (!method_positional(r, "format_map", "mapping", 1, args, &p))
        return undefined_value();
    if (p.v[0].kind != TVALUE_DICT)
        return run_fail(r, ERR_INVALID, "format_map: a dict is expected, not %s",
                        python_type(p.v[0]));
    return str_format(r, self, (struct args){.keywords = p.v[0].dict});
}
