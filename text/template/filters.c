/*
 * filters.c - filters on text and numbers, and the table of all filters.
 */
#include "text/template/filters.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/template/python.h"

#define FILTER(name)                                                                               \
    static struct tvalue name(struct run *r, struct tvalue v, const struct params *p,              \
                              struct args args)

/* ---- text ---- */

/* The input as a string, as jinja2's soft_str. */
static struct bytes soft(struct run *r, struct tvalue *v) {
    *v = run_to_string(r, *v);
    return tvalue_text(*v);
}

static struct tvalue cased(struct run *r, struct tvalue v, enum python_case to) {
    struct buf out = {0};
    python_add_all_cased(&out, soft(r, &v), to);
    struct tvalue made = run_take_buf(r, &out);
    return is_markup(v) ? markup_of(made) : made;
}
FILTER(filter_upper) {
    return cased(r, v, PYTHON_UPPER);
}
FILTER(filter_lower) {
    return cased(r, v, PYTHON_LOWER);
}

FILTER(filter_capitalize) {
    soft(r, &v);
    return r->rc ? v : method_call(r, v, method_find(bytes_str("capitalize")), (struct args){0});
}

/* Words begin behind -, white space and opening brackets. */
FILTER(filter_title) {
    struct bytes s = soft(r, &v);
    struct buf out = {0};
    bool start = true;
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        i += unicode_next(s.data + i, &cp);
        python_add_cased(&out, cp, start ? PYTHON_UPPER : PYTHON_LOWER);
        start =
            python_is_space(cp) || cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<';
    }
    return run_take_buf(r, &out);
}

FILTER(filter_trim) {
    struct bytes s = soft(r, &v);
    if (r->rc)
        return v;
    if (!p->given[0] || p->v[0].kind == TVALUE_NONE) {
        struct tvalue stripped = tvalue_string(python_strip(s, true, true));
        return is_markup(v) ? markup_of(stripped) : stripped;
    }
    return method_call(r, v, method_find(bytes_str("strip")),
                       (struct args){(struct tvalue *)(uintptr_t)p->v, 1, NULL});
}

FILTER(filter_string) {
    return run_to_string(r, v);
}

/* "" matches before every character and at the end, as in Python. */
static void replace_empty(struct bytes s, struct bytes to, int64_t count, struct buf *out) {
    size_t i = 0;
    while (count != 0 && !out->failed) {
        uint32_t cp;
        buf_add_bytes(out, to);
        count--;
        if (i == s.len)
            return;
        size_t n = unicode_next(s.data + i, &cp);
        buf_add(out, s.data + i, n);
        i += n;
    }
    buf_add(out, s.data + i, s.len - i);
}

struct tvalue replace_text(struct run *r, struct bytes s, struct bytes from, struct bytes to,
                           int64_t count) {
    struct buf out;
    buf_init(&out, r->out_max);
    run_burn(r, s.len / 16);
    if (!from.len) {
        replace_empty(s, to, count, &out);
        return run_take_buf(r, &out);
    }
    const uint8_t *at = s.data, *end = s.data + s.len, *hit;
    while (count-- != 0 && at < end &&
           (hit = memmem(at, (size_t)(end - at), from.data, from.len))) {
        buf_add(&out, at, (size_t)(hit - at));
        buf_add_bytes(&out, to);
        at = hit + from.len;
    }
    buf_add(&out, at, (size_t)(end - at));
    return run_take_buf(r, &out);
}

FILTER(filter_replace) {
    struct tvalue old = p->v[0], new = p->v[1];
    int64_t count = -1;
    if (p->given[2] && p->v[2].kind != TVALUE_NONE && !op_is_int(p->v[2], &count))
        return run_fail(r, ERR_INVALID, "count must be an integer");
    struct bytes s = soft(r, &v), from = soft(r, &old), to = soft(r, &new);
    if (!r->autoescape || !(is_markup(v) || is_markup(old) || is_markup(new)))
        return r->rc ? v : replace_text(r, s, from, to, count);
    v = markup_escape(r, v);
    new = markup_escape(r, new);
    return r->rc ? v : markup_of(replace_text(r, tvalue_text(v), from, tvalue_text(new), count));
}

static void add_spaces(struct buf *out, int64_t n) {
    while (n-- > 0 && !out->failed)
        buf_add_byte(out, ' ');
}

/* Lines after the first (or all) get the indentation; blank ones only when asked. */
FILTER(filter_indent) {
    if (v.kind == TVALUE_UNDEFINED)
        return run_fail_undefined(r, v);
    if (v.kind != TVALUE_STRING)
        return run_fail(r, ERR_INVALID, "unsupported operand type(s) for +=: '%s' and 'str'",
                        python_type(v));
    struct bytes s = soft(r, &v), prefix = {0};
    bool first = p->given[1] && op_truth(p->v[1]), blank = p->given[2] && op_truth(p->v[2]);
    struct buf out, spaces = {0};
    int64_t width = 4;
    if (p->given[0] && p->v[0].kind == TVALUE_STRING)
        prefix = tvalue_text(p->v[0]);
    else if (p->given[0] && !op_is_int(p->v[0], &width))
        return run_fail(r, ERR_INVALID, "indent: width must be an integer or a string");
    if (!prefix.len && !(p->given[0] && p->v[0].kind == TVALUE_STRING)) {
        add_spaces(&spaces, MIN(width, 4096));
        prefix = buf_bytes(&spaces);
    }
    buf_init(&out, r->out_max);
    size_t at = 0;
    bool more = true;
    for (bool begin = true; more;
         begin = false) { /* line ends of all kinds become \n; one at the end stays */
        struct bytes line = python_take_line(s, &at, &more);
        if (begin ? first : line.len || blank)
            buf_add_bytes(&out, prefix);
        buf_add_bytes(&out, line);
        /* jinja2 adds \n, which ends the same line */
        more = more && (at < s.len || s.data[at - 1] != '\r');
        if (more)
            buf_add_byte(&out, '\n');
    }
    buf_release(&spaces);
    struct tvalue made = run_take_buf(r, &out);
    return is_markup(v) ? markup_of(made) : made;
}

FILTER(filter_center) {
    soft(r, &v);
    struct tvalue width = p->given[0] ? p->v[0] : tvalue_int(80);
    return r->rc ? v
                 : method_call(r, v, method_find(bytes_str("center")),
                               (struct args){&width, 1, NULL});
}

FILTER(filter_wordcount) {
    struct bytes s = soft(r, &v);
    int64_t n = 0;
    bool inside = false;
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        i += unicode_next(s.data + i, &cp);
        bool word = unicode_is_word(cp);
        n += word && !inside;
        inside = word;
    }
    return tvalue_int(n);
}

FILTER(filter_truncate) {
    uint32_t size, end_size;
    struct tvalue end = p->given[2] ? p->v[2] : tvalue_string(bytes_str("..."));
    if (!op_length(v, &size) || !op_length(end, &end_size))
        return run_fail(r, ERR_INVALID, "object of type '%s' has no len()",
                        python_type(op_length(v, &size) ? end : v));
    struct bytes s = tvalue_text(v);
    int64_t length = 255, leeway = 5;
    bool kill = p->given[1] && op_truth(p->v[1]);
    if ((p->given[0] && !op_is_int(p->v[0], &length)) ||
        (p->given[3] && p->v[3].kind != TVALUE_NONE && !op_is_int(p->v[3], &leeway)))
        return run_fail(r, ERR_INVALID, "truncate: length and leeway must be integers");
    if (length < end_size)
        return run_fail(r, ERR_INVALID, "expected length >= %u, got %lld", end_size,
                        (long long)length);
    if (leeway < 0)
        return run_fail(r, ERR_INVALID, "expected leeway >= 0, got %lld", (long long)leeway);
    if (size - leeway <= length)
        return v;
    if (v.kind != TVALUE_STRING)
        return run_fail(r, ERR_INVALID, "truncate: a %s is too long", python_type(v));
    struct bytes cut = bytes_of(s.data, python_offset(s, (size_t)(length - end_size)));
    for (size_t i = cut.len; !kill && i-- > 0;)
        if (cut.data[i] == ' ') {
            cut.len = i;
            break;
        }
    struct tvalue kept = tvalue_string(cut);
    return op_add(r, is_markup(v) ? markup_of(kept) : kept, end);
}

/* In a query "/" is quoted too, and spaces are "+". */
static void add_url(struct bytes s, bool query, struct buf *out) {
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = s.data[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr(query ? "_.-~" : "_.-~/", c));
        if (plain)
            buf_add_byte(out, (char)c);
        else if (query && c == ' ')
            buf_add_byte(out, '+');
        else
            buf_addf(out, "%%%02X", c);
    }
}

/* A text, or pairs: a dict or a sequence of two each. */
FILTER(filter_urlencode) {
    struct buf out;
    struct iter it;
    struct tvalue pair, item;
    struct seq two;
    buf_init(&out, r->out_max);
    if (v.kind == TVALUE_DICT)
        v = (struct tvalue){.kind = TVALUE_VIEW, .tag = VIEW_ITEMS, .dict = v.dict};
    if (v.kind == TVALUE_STRING || op_is_number(v) || v.kind <= TVALUE_NONE) {
        add_url(soft(r, &v), false, &out);
        return run_take_buf(r, &out);
    }
    if (!iter_open(r, v, &it))
        return undefined_value();
    for (bool first = true; iter_next(r, &it, &pair); first = false) {
        if (!seq_open(r, pair, &two))
            break;
        if (two.count != 2) {
            run_fail(r, ERR_INVALID, "cannot unpack %u values into two", two.count);
            break;
        }
        if (!first)
            buf_add_byte(&out, '&');
        item = seq_at(r, &two, 0);
        add_url(soft(r, &item), true, &out);
        buf_add_byte(&out, '=');
        item = seq_at(r, &two, 1);
        add_url(soft(r, &item), true, &out);
    }
    return run_take_buf(r, &out);
}

FILTER(filter_striptags) {
    struct bytes s = soft(r, &v);
    struct buf out = {0};
    bool space = false;
    const uint8_t *last = memrchr(s.data, '>', s.len); /* behind it no tag ends */
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        if (s.data[i] == '<' && last && s.data + i < last) {
            i = (size_t)((const uint8_t *)memchr(s.data + i, '>', s.len - i) - s.data) + 1;
            continue;
        }
        size_t n = unicode_next(s.data + i, &cp);
        if (python_is_space(cp)) {
            space = true;
        } else {
            if (space && out.len)
                buf_add_byte(&out, ' ');
            space = false;
            buf_add(&out, s.data + i, n);
        }
        i += n;
    }
    return run_take_buf(r, &out);
}

/* ---- values ---- */

FILTER(filter_default) {
    bool boolean = p->given[1] && op_truth(p->v[1]);
    if (v.kind != TVALUE_UNDEFINED && !(boolean && !op_truth(v)))
        return v;
    return p->given[0] ? p->v[0] : tvalue_string(bytes_of(NULL, 0));
}

FILTER(filter_attr) {
    struct tvalue name = run_to_string(r, p->v[0]);
    if (r->rc)
        return undefined_value();
    if (v.kind == TVALUE_DICT && !method_find(tvalue_text(name)))
        return (struct tvalue){
            .tag = (uint16_t)(UNDEFINED_ATTRIBUTE + v.kind), .len = name.len, .text = name.text};
    return run_get_attribute(r, v, name, tdict_hash(name), method_find(tvalue_text(name)));
}

static bool separator(struct tvalue pair, uint32_t idx, struct bytes *out) {
    if (pair.kind != TVALUE_LIST && pair.kind != TVALUE_TUPLE)
        return false;
    if (pair.list->count != 2 || pair.list->items[idx].kind != TVALUE_STRING)
        return false;
    *out = tvalue_text(pair.list->items[idx]);
    return true;
}

enum { JSON_ROOM = 1000 }; /* bytes to begin with */

FILTER(filter_tojson) { /* parameters as HF's: ensure_ascii, indent, separators, sort_keys */
    struct json_style style = {
        .indent = -1, .item_separator = bytes_str(", "), .key_separator = bytes_str(": ")};
    style.ascii = p->given[0] && op_truth(p->v[0]);
    style.sort_keys = p->given[3] && op_truth(p->v[3]);
    if (p->given[1] && p->v[1].kind != TVALUE_NONE) {
        if (p->v[1].kind == TVALUE_STRING) {
            style.indent_text = tvalue_text(p->v[1]);
            style.indent = 0;
        } else if (!op_is_int(p->v[1], &style.indent) || style.indent > 4096)
            return run_fail(r, ERR_INVALID, "tojson: bad indent");
        style.indent = MAX(style.indent, 0);
        style.item_separator = bytes_str(",");
    }
    if (p->given[2] && p->v[2].kind != TVALUE_NONE &&
        (!separator(p->v[2], 0, &style.item_separator) ||
         !separator(p->v[2], 1, &style.key_separator)))
        return run_fail(r, ERR_INVALID, "tojson: separators must be two strings");
    buf_reset(&r->scratch);
    buf_reserve(&r->scratch, JSON_ROOM);
    run_to_json(r, v, &style, 0, &r->scratch);
    if (r->scratch.failed)
        return run_fail(r, ERR_LIMIT, "a string is too large");
    return run_string(r, r->scratch.data, r->scratch.len);
}

/* ---- numbers ---- */

FILTER(filter_abs) {
    if (v.kind == TVALUE_FLOAT)
        return tvalue_float(fabs(v.number));
    int64_t i;
    if (op_is_int(v, &i))
        return i < 0 ? op_negate(r, v, true) : tvalue_int(i);
    if (v.kind == TVALUE_UNDEFINED)
        return run_fail_undefined(r, v);
    if (v.kind == TVALUE_BIG_INT)
        return v.text[0] == '-' ? op_negate(r, v, true) : v;
    return run_fail(r, ERR_INVALID, "bad operand type for abs(): '%s'", python_type(v));
}

/* A number in text, white space around it, underscores not; false: none. */
static bool parse_float(struct bytes s, double *out) {
    char text[80], *stop;
    s = python_strip(s, true, true);
    if (!s.len || s.len >= sizeof text || memchr(s.data, 'x', s.len) || memchr(s.data, 'X', s.len))
        return false;
    memcpy(text, s.data, s.len);
    text[s.len] = 0;
    *out = strtod(text, &stop);
    return *stop == 0;
}

static bool parse_int(struct bytes s, int base, int64_t *out) {
    char text[80], *stop;
    s = python_strip(s, true, true);
    if (!s.len || s.len >= sizeof text)
        return false;
    memcpy(text, s.data, s.len);
    text[s.len] = 0;
    if (base == 10 && strpbrk(text, "xXoO"))
        return false;
    errno = 0;
    *out = strtoll(text, &stop, base);
    return *stop == 0 && !errno;
}

/* int(float); fallback where there is none. */
static struct tvalue whole_number(struct run *r, double d, struct tvalue fallback) {
    if (!isfinite(d))
        return fallback;
    if (fabs(d) < 9.2e18)
        return tvalue_int((int64_t)d);
    return run_fail(r, ERR_LIMIT, "int: the number is past 64 bits");
}

static struct tvalue int_of_text(struct run *r, struct bytes s, int64_t base,
                                 struct tvalue fallback) {
    int64_t i;
    double d;
    if (parse_int(s, (int)base, &i))
        return tvalue_int(i);
    return parse_float(s, &d) ? whole_number(r, d, fallback) : fallback;
}

FILTER(filter_int) {
    int64_t base = 10, i;
    struct tvalue fallback = p->given[0] ? p->v[0] : tvalue_int(0);
    if (v.kind == TVALUE_UNDEFINED)
        return run_fail_undefined(r, v);
    if (op_is_int(v, &i))
        return tvalue_int(i);
    if (v.kind == TVALUE_BIG_INT)
        return v;
    if (v.kind == TVALUE_FLOAT && isinf(v.number))
        return run_fail(r, ERR_INVALID, "cannot convert float infinity to integer");
    if (v.kind == TVALUE_FLOAT)
        return whole_number(r, v.number, fallback);
    bool bad_base =
        p->given[1] && (!op_is_int(p->v[1], &base) || base < 0 || base > 36 || base == 1);
    return v.kind != TVALUE_STRING || bad_base ? fallback
                                               : int_of_text(r, tvalue_text(v), base, fallback);
}

FILTER(filter_float) {
    double d;
    if (v.kind == TVALUE_UNDEFINED)
        return run_fail_undefined(r, v);
    if (op_is_number(v))
        return tvalue_float(op_number(v));
    if (v.kind == TVALUE_BIG_INT)
        return tvalue_float(strtod(v.text, NULL));
    if (v.kind == TVALUE_STRING && parse_float(tvalue_text(v), &d))
        return tvalue_float(d);
    return p->given[0] ? p->v[0] : tvalue_float(0);
}

/* round(v, precision): correctly rounded, ties to even, as Python's. */
static struct tvalue round_common(struct tvalue v, int64_t precision) {
    enum { DIGITS_MAX = 323, TENS_MAX = 308 };
    char text[700];
    int64_t i;
    double scale = pow(10, (double)MIN(-precision, (int64_t)TENS_MAX));
    if (op_is_int(v, &i) && precision >= 0)
        return tvalue_int(i);
    if (op_is_int(v, &i)) {
        if (precision < -18)
            return tvalue_int(0);
        int64_t tens = (int64_t)scale, rest = i % tens, down = i - rest;
        if (rest < 0)
            rest += tens, down -= tens;
        bool up = rest > tens - rest || (rest == tens - rest && (down / tens) % 2);
        return tvalue_int(up ? down + tens : down);
    }
    if (precision > DIGITS_MAX || !isfinite(v.number))
        return v;
    if (precision < -TENS_MAX)
        return tvalue_float(0 * v.number);
    if (precision < 0)
        return tvalue_float(nearbyint(v.number / scale) * scale);
    snprintf(text, sizeof text, "%.*f", (int)precision, v.number);
    return tvalue_float(strtod(text, NULL));
}

FILTER(filter_round) {
    int64_t precision = 0;
    struct bytes method = p->given[1] ? tvalue_text(p->v[1]) : bytes_str("common");
    bool up = bytes_equal(method, bytes_str("ceil"));
    if (!up && !bytes_equal(method, bytes_str("common")) &&
        !bytes_equal(method, bytes_str("floor")))
        return run_fail(r, ERR_INVALID, "method must be common, ceil or floor");
    if (v.kind == TVALUE_UNDEFINED)
        return run_fail_undefined(r, v);
    if (v.kind == TVALUE_BIG_INT && !p->given[0] && !p->given[1])
        return v;
    if (v.kind == TVALUE_BIG_INT)
        v = tvalue_float(strtod(v.text, NULL));
    if (!op_is_number(v))
        return run_fail(r, ERR_INVALID, "type %s doesn't define __round__ method", python_type(v));
    if (p->given[0] && !op_is_int(p->v[0], &precision))
        return run_fail(r, ERR_INVALID, "round: precision must be an integer");
    if (bytes_equal(method, bytes_str("common")))
        return round_common(v, precision);
    double scale = pow(10, (double)precision), scaled = op_number(v) * scale;
    if (!isfinite(scaled) || !isfinite(scale))
        return run_fail(r, ERR_INVALID, "cannot convert float to integer");
    /* through an integer: no -0.0 */
    return tvalue_float((up ? ceil(scaled) : floor(scaled)) / scale + 0.0);
}

/* repr; what Python would break into several lines stays on one. */
FILTER(filter_pprint) {
    struct buf out;
    buf_init(&out, r->out_max);
    run_repr(r, v, &out);
    return run_take_buf(r, &out);
}

/* ---- the table ---- */

static const struct {
    const char *name;
    filter_fn *run;
    const char *params; /* NULL: takes raw arguments */
    unsigned required;
} FILTERS[] = {
    {"tojson", filter_tojson, "ensure_ascii indent separators sort_keys", 0},
    {"trim", filter_trim, "chars", 0},
    {"default", filter_default, "default_value boolean", 0},
    {"d", filter_default, "default_value boolean", 0},
    {"join", filter_join, "d attribute", 0},
    {"length", filter_length, "", 0},
    {"count", filter_length, "", 0},
    {"selectattr", filter_selectattr, NULL, 0},
    {"rejectattr", filter_rejectattr, NULL, 0},
    {"select", filter_select, NULL, 0},
    {"reject", filter_reject, NULL, 0},
    {"map", filter_map, NULL, 0},
    {"items", filter_items, "", 0},
    {"list", filter_list, "", 0},
    {"first", filter_first, "", 0},
    {"last", filter_last, "", 0},
    {"indent", filter_indent, "width first blank", 0},
    {"upper", filter_upper, "", 0},
    {"lower", filter_lower, "", 0},
    {"title", filter_title, "", 0},
    {"capitalize", filter_capitalize, "", 0},
    {"replace", filter_replace, "old new count", 2},
    {"string", filter_string, "", 0},
    {"safe", filter_safe, "", 0},
    {"escape", filter_escape, "", 0},
    {"e", filter_escape, "", 0},
    {"forceescape", filter_forceescape, "", 0},
    {"int", filter_int, "default base", 0},
    {"float", filter_float, "default", 0},
    {"round", filter_round, "precision method", 0},
    {"abs", filter_abs, "", 0},
    {"reverse", filter_reverse, "", 0},
    {"sort", filter_sort, "reverse case_sensitive attribute", 0},
    {"dictsort", filter_dictsort, "case_sensitive by reverse", 0},
    {"unique", filter_unique, "case_sensitive attribute", 0},
    {"sum", filter_sum, "attribute start", 0},
    {"min", filter_min, "case_sensitive attribute", 0},
    {"max", filter_max, "case_sensitive attribute", 0},
    {"batch", filter_batch, "linecount fill_with", 1},
    {"slice", filter_slice, "slices fill_with", 1},
    {"groupby", filter_groupby, "attribute default case_sensitive", 1},
    {"attr", filter_attr, "name", 1},
    {"format", filter_format, NULL, 0},
    {"center", filter_center, "width", 0},
    {"wordcount", filter_wordcount, "", 0},
    {"truncate", filter_truncate, "length killwords end leeway", 0},
    {"urlencode", filter_urlencode, "", 0},
    {"striptags", filter_striptags, "", 0},
    {"pprint", filter_pprint, "", 0},
};

int filter_find(struct bytes name) {
    for (size_t i = 0; i < ARRAY_LEN(FILTERS); i++)
        if (bytes_equal(name, bytes_str(FILTERS[i].name)))
            return (int)i;
    return -1;
}

struct tvalue filter_call(struct run *r, int function, struct tvalue input, struct args args) {
    struct params p;
    if (r->rc || !run_burn(r, 1) || !run_burn_read(r, input))
        return undefined_value();
    if (FILTERS[function].params &&
        !params_bind(r, FILTERS[function].name, FILTERS[function].params,
                     FILTERS[function].required, args, &p))
        return undefined_value();
    if (++r->depth > RUN_DEPTH_MAX)
        run_fail(r, ERR_LIMIT, "nested too deep");
    struct tvalue v = r->rc ? undefined_value() : FILTERS[function].run(r, input, &p, args);
    r->depth--;
    return v;
}
