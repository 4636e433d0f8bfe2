/*
 * strings.c - the methods of Python's str. Indexes and lengths count code points.
 */
#include "text/template/strings.h"

#include "text/template/python.h"

/* ---- helpers ---- */

bool method_string_argument(struct run *r, struct tvalue v, struct bytes *out) {
    if (v.kind == TVALUE_STRING) {
        *out = tvalue_text(v);
        return true;
    }
    if (v.kind == TVALUE_UNDEFINED)
        run_fail_undefined(r, v);
    else
        run_fail(r, ERR_INVALID, "argument must be str, not %s", python_type(v));
    return false;
}

bool method_int_argument(struct run *r, struct tvalue v, int64_t *out) {
    if (op_is_int(v, out))
        return true;
    if (v.kind == TVALUE_UNDEFINED)
        run_fail_undefined(r, v);
    else
        run_fail(r, ERR_INVALID, "'%s' object cannot be interpreted as an integer", python_type(v));
    return false;
}

bool method_no_arguments(struct run *r, struct args args) {
    if (!args.count && !args.keywords)
        return true;
    run_fail(r, ERR_INVALID, "the method takes no arguments");
    return false;
}

/* C functions of Python take no keywords. */
bool method_positional(struct run *r, const char *name, const char *names, unsigned required,
                       struct args args, struct params *p) {
    if (args.keywords && args.keywords->count)
        return run_fail(r, ERR_INVALID, "str.%s() takes no keyword arguments", name), false;
    return params_bind(r, name, names, required, args, p);
}

static struct tvalue cased(struct run *r, struct tvalue self, enum python_case to) {
    struct buf out = {0};
    python_add_all_cased(&out, tvalue_text(self), to);
    return run_take_buf(r, &out);
}

/* ---- case ---- */

struct tvalue str_upper(struct run *r, struct tvalue self, struct args args) {
    return method_no_arguments(r, args) ? cased(r, self, PYTHON_UPPER) : undefined_value();
}
struct tvalue str_lower(struct run *r, struct tvalue self, struct args args) {
    return method_no_arguments(r, args) ? cased(r, self, PYTHON_LOWER) : undefined_value();
}

static bool is_cased(uint32_t cp) {
    return unicode_in(cp, 1 << UNICODE_LU | 1 << UNICODE_LL | 1 << UNICODE_LT);
}

struct tvalue str_title(struct run *r, struct tvalue self, struct args args) {
    struct buf out = {0};
    struct bytes s = tvalue_text(self);
    bool inside = false;
    if (!method_no_arguments(r, args))
        return undefined_value();
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        i += unicode_next(s.data + i, &cp);
        python_add_cased(&out, cp, inside ? PYTHON_LOWER : PYTHON_TITLE);
        inside = is_cased(cp);
    }
    return run_take_buf(r, &out);
}

struct tvalue str_capitalize(struct run *r, struct tvalue self, struct args args) {
    struct buf out = {0};
    struct bytes s = tvalue_text(self);
    if (!method_no_arguments(r, args))
        return undefined_value();
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        bool first = i == 0;
        i += unicode_next(s.data + i, &cp);
        python_add_cased(&out, cp, first ? PYTHON_TITLE : PYTHON_LOWER);
    }
    return run_take_buf(r, &out);
}

struct tvalue str_swapcase(struct run *r, struct tvalue self, struct args args) {
    struct buf out = {0};
    struct bytes s = tvalue_text(self);
    if (!method_no_arguments(r, args))
        return undefined_value();
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        i += unicode_next(s.data + i, &cp);
        python_add_cased(&out, cp, unicode_in(cp, 1 << UNICODE_LU) ? PYTHON_LOWER : PYTHON_UPPER);
    }
    return run_take_buf(r, &out);
}

/* ---- strip, prefix, suffix ---- */

static struct tvalue stripped(struct run *r, struct tvalue self, bool left, bool right) {
    struct bytes kept = python_strip(tvalue_text(self), left, right);
    run_burn(r, (self.len - kept.len) / 8);
    return tvalue_string(kept);
}

static struct tvalue strip(struct run *r, struct tvalue self, struct args args, bool left,
                           bool right) {
    struct params p;
    struct bytes chars;
    if (!method_positional(r, "strip", "chars", 0, args, &p))
        return undefined_value();
    if (!p.given[0] || p.v[0].kind == TVALUE_NONE)
        return stripped(r, self, left, right);
    if (!method_string_argument(r, p.v[0], &chars))
        return undefined_value();
    run_burn(r, (uint64_t)self.len * (chars.len + 1) / 16);
    return tvalue_string(python_strip_chars(tvalue_text(self), chars, left, right));
}
struct tvalue str_strip(struct run *r, struct tvalue self, struct args args) {
    return strip(r, self, args, true, true);
}
struct tvalue str_lstrip(struct run *r, struct tvalue self, struct args args) {
    return strip(r, self, args, true, false);
}
struct tvalue str_rstrip(struct run *r, struct tvalue self, struct args args) {
    return strip(r, self, args, false, true);
}

static bool has_prefix(struct bytes s, struct bytes prefix) {
    return s.len >= prefix.len && !memcmp(s.data, prefix.data, prefix.len);
}
static bool has_suffix(struct bytes s, struct bytes suffix) {
    return s.len >= suffix.len && !memcmp(s.data + s.len - suffix.len, suffix.data, suffix.len);
}

/* s[start:stop] of the optional arguments, clipped. */
static bool window(struct run *r, struct bytes s, struct params *p, struct bytes *out,
                   int64_t *first) {
    int64_t length = (int64_t)python_length(s), start = 0, stop = length;
    if (p->given[1] && p->v[1].kind != TVALUE_NONE && !method_int_argument(r, p->v[1], &start))
        return false;
    if (p->given[2] && p->v[2].kind != TVALUE_NONE && !method_int_argument(r, p->v[2], &stop))
        return false;
    if (start < 0)
        start = MAX(start + length, 0);
    if (stop < 0)
        stop = MAX(stop + length, 0);
    stop = MIN(stop, length);
    if (start > stop)
        return false;
    size_t from = python_offset(s, (size_t)start), to = python_offset(s, (size_t)stop);
    *out = bytes_of(s.data + from, to - from);
    *first = start;
    return true;
}

static struct tvalue starts_or_ends(struct run *r, struct tvalue self, struct args args,
                                    bool suffix) {
    struct params p;
    struct bytes s, affix;
    int64_t first;
    if (!method_positional(r, suffix ? "endswith" : "startswith", "prefix start end", 1, args, &p))
        return undefined_value();
    if (!window(r, tvalue_text(self), &p, &s, &first))
        return r->rc ? undefined_value() : tvalue_bool(false);
    struct tvalue one = p.v[0];
    uint32_t count = one.kind == TVALUE_TUPLE ? one.list->count : 1;
    for (uint32_t i = 0; i < count; i++) {
        struct tvalue v = one.kind == TVALUE_TUPLE ? one.list->items[i] : one;
        if (v.kind != TVALUE_STRING && v.kind != TVALUE_UNDEFINED)
            return run_fail(r, ERR_INVALID, "%s first arg must be str or a tuple of str, not %s",
                            suffix ? "endswith" : "startswith", python_type(v));
        if (!method_string_argument(r, v, &affix))
            return undefined_value();
        if (suffix ? has_suffix(s, affix) : has_prefix(s, affix))
            return tvalue_bool(true);
    }
    return tvalue_bool(false);
}
struct tvalue str_startswith(struct run *r, struct tvalue self, struct args args) {
    return starts_or_ends(r, self, args, false);
}
struct tvalue str_endswith(struct run *r, struct tvalue self, struct args args) {
    return starts_or_ends(r, self, args, true);
}

struct tvalue str_removeprefix(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    struct bytes s = tvalue_text(self), affix;
    if (!method_positional(r, "removeprefix", "prefix", 1, args, &p) ||
        !method_string_argument(r, p.v[0], &affix))
        return undefined_value();
    return has_prefix(s, affix) ? tvalue_string(bytes_of(s.data + affix.len, s.len - affix.len))
                                : self;
}
struct tvalue str_removesuffix(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    struct bytes s = tvalue_text(self), affix;
    if (!method_positional(r, "removesuffix", "suffix", 1, args, &p) ||
        !method_string_argument(r, p.v[0], &affix))
        return undefined_value();
    return has_suffix(s, affix) ? tvalue_string(bytes_of(s.data, s.len - affix.len)) : self;
}

/* ---- search ---- */

const uint8_t *method_find_last(struct bytes s, struct bytes what) {
    if (what.len > s.len)
        return NULL;
    for (size_t i = s.len - what.len + 1; i-- > 0;)
        if (!memcmp(s.data + i, what.data, what.len))
            return s.data + i;
    return NULL;
}

const uint8_t *method_find_first(struct bytes s, struct bytes what) {
    if (!what.len)
        return s.data;
    return memmem(s.data, s.len, what.data, what.len);
}

static struct tvalue find(struct run *r, struct tvalue self, struct args args, bool last,
                          bool must) {
    struct params p;
    struct bytes s, what;
    int64_t first;
    if (!method_positional(r, "find", "sub start end", 1, args, &p) ||
        !method_string_argument(r, p.v[0], &what))
        return undefined_value();
    const uint8_t *hit = NULL;
    if (window(r, tvalue_text(self), &p, &s, &first))
        hit = last ? method_find_last(s, what) : method_find_first(s, what);
    run_burn(r, self.len / 16);
    if (r->rc)
        return undefined_value();
    if (!hit)
        return must ? run_fail(r, ERR_INVALID, "substring not found") : tvalue_int(-1);
    return tvalue_int(first + (int64_t)python_length(bytes_of(s.data, (size_t)(hit - s.data))));
}
struct tvalue str_find(struct run *r, struct tvalue self, struct args args) {
    return find(r, self, args, false, false);
}
struct tvalue str_rfind(struct run *r, struct tvalue self, struct args args) {
    return find(r, self, args, true, false);
}
struct tvalue str_index(struct run *r, struct tvalue self, struct args args) {
    return find(r, self, args, false, true);
}
struct tvalue str_rindex(struct run *r, struct tvalue self, struct args args) {
    return find(r, self, args, true, true);
}

struct tvalue str_count(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    struct bytes s, what;
    int64_t first, n = 0;
    if (!method_positional(r, "count", "sub start end", 1, args, &p) ||
        !method_string_argument(r, p.v[0], &what))
        return undefined_value();
    if (!window(r, tvalue_text(self), &p, &s, &first))
        return r->rc ? undefined_value() : tvalue_int(0);
    run_burn(r, s.len / 16);
    if (!what.len)
        return tvalue_int((int64_t)python_length(s) + 1);
    for (const uint8_t *hit; s.len && (hit = memmem(s.data, s.len, what.data, what.len)); n++) {
        size_t used = (size_t)(hit - s.data) + what.len;
        s = bytes_of(s.data + used, s.len - used);
    }
    return tvalue_int(n);
}
