/*
 * template_strings.c - the methods of Python's str. Indexes and lengths count code points.
 */
#include "text/template_strings.h"

#include "text/python.h"

/* ---- helpers ---- */

static bool string_argument(struct run *r, struct tvalue v, struct bytes *out) {
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
    if (op_is_int(v, out)) return true;
    if (v.kind == TVALUE_UNDEFINED)
        run_fail_undefined(r, v);
    else
        run_fail(r, ERR_INVALID, "'%s' object cannot be interpreted as an integer", python_type(v));
    return false;
}

bool method_no_arguments(struct run *r, struct args args) {
    if (!args.count && !args.keywords) return true;
    run_fail(r, ERR_INVALID, "the method takes no arguments");
    return false;
}

/* C functions of Python take no keywords. */
static bool positional(struct run *r, const char *name, const char *names, unsigned required, struct args args,
                       struct params *p) {
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

static bool is_cased(uint32_t cp) { return unicode_in(cp, 1 << UNICODE_LU | 1 << UNICODE_LL | 1 << UNICODE_LT); }

struct tvalue str_title(struct run *r, struct tvalue self, struct args args) {
    struct buf out = {0};
    struct bytes s = tvalue_text(self);
    bool inside = false;
    if (!method_no_arguments(r, args)) return undefined_value();
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
    if (!method_no_arguments(r, args)) return undefined_value();
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
    if (!method_no_arguments(r, args)) return undefined_value();
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        i += unicode_next(s.data + i, &cp);
        python_add_cased(&out, cp, unicode_in(cp, 1 << UNICODE_LU) ? PYTHON_LOWER : PYTHON_UPPER);
    }
    return run_take_buf(r, &out);
}

/* ---- strip, prefix, suffix ---- */

static struct tvalue strip(struct run *r, struct tvalue self, struct args args, bool left, bool right) {
    struct params p;
    struct bytes chars;
    if (!positional(r, "strip", "chars", 0, args, &p)) return undefined_value();
    if (!p.given[0] || p.v[0].kind == TVALUE_NONE) return tvalue_string(python_strip(tvalue_text(self), left, right));
    if (!string_argument(r, p.v[0], &chars)) return undefined_value();
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
static bool window(struct run *r, struct bytes s, struct params *p, struct bytes *out, int64_t *first) {
    int64_t length = (int64_t)python_length(s), start = 0, stop = length;
    if (p->given[1] && p->v[1].kind != TVALUE_NONE && !method_int_argument(r, p->v[1], &start)) return false;
    if (p->given[2] && p->v[2].kind != TVALUE_NONE && !method_int_argument(r, p->v[2], &stop)) return false;
    if (start < 0) start = MAX(start + length, 0);
    if (stop < 0) stop = MAX(stop + length, 0);
    stop = MIN(stop, length);
    if (start > stop) return false;
    size_t from = python_offset(s, (size_t)start), to = python_offset(s, (size_t)stop);
    *out = bytes_of(s.data + from, to - from);
    *first = start;
    return true;
}

static struct tvalue starts_or_ends(struct run *r, struct tvalue self, struct args args, bool suffix) {
    struct params p;
    struct bytes s, affix;
    int64_t first;
    if (!positional(r, suffix ? "endswith" : "startswith", "prefix start end", 1, args, &p)) return undefined_value();
    if (!window(r, tvalue_text(self), &p, &s, &first)) return r->rc ? undefined_value() : tvalue_bool(false);
    struct tvalue one = p.v[0];
    uint32_t count = one.kind == TVALUE_TUPLE ? one.list->count : 1;
    for (uint32_t i = 0; i < count; i++) {
        struct tvalue v = one.kind == TVALUE_TUPLE ? one.list->items[i] : one;
        if (v.kind != TVALUE_STRING && v.kind != TVALUE_UNDEFINED)
            return run_fail(r, ERR_INVALID, "%s first arg must be str or a tuple of str, not %s",
                            suffix ? "endswith" : "startswith", python_type(v));
        if (!string_argument(r, v, &affix)) return undefined_value();
        if (suffix ? has_suffix(s, affix) : has_prefix(s, affix)) return tvalue_bool(true);
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
    if (!positional(r, "removeprefix", "prefix", 1, args, &p) || !string_argument(r, p.v[0], &affix))
        return undefined_value();
    return has_prefix(s, affix) ? tvalue_string(bytes_of(s.data + affix.len, s.len - affix.len)) : self;
}
struct tvalue str_removesuffix(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    struct bytes s = tvalue_text(self), affix;
    if (!positional(r, "removesuffix", "suffix", 1, args, &p) || !string_argument(r, p.v[0], &affix))
        return undefined_value();
    return has_suffix(s, affix) ? tvalue_string(bytes_of(s.data, s.len - affix.len)) : self;
}

/* ---- search ---- */

static const uint8_t *find_last(struct bytes s, struct bytes what) {
    if (what.len > s.len) return NULL;
    for (size_t i = s.len - what.len + 1; i-- > 0;)
        if (!memcmp(s.data + i, what.data, what.len)) return s.data + i;
    return NULL;
}

static const uint8_t *find_first(struct bytes s, struct bytes what) {
    if (!what.len) return s.data;
    return memmem(s.data, s.len, what.data, what.len);
}

static struct tvalue find(struct run *r, struct tvalue self, struct args args, bool last, bool must) {
    struct params p;
    struct bytes s, what;
    int64_t first;
    if (!positional(r, "find", "sub start end", 1, args, &p) || !string_argument(r, p.v[0], &what))
        return undefined_value();
    const uint8_t *hit = NULL;
    if (window(r, tvalue_text(self), &p, &s, &first)) hit = last ? find_last(s, what) : find_first(s, what);
    run_burn(r, self.len / 16);
    if (r->rc) return undefined_value();
    if (!hit) return must ? run_fail(r, ERR_INVALID, "substring not found") : tvalue_int(-1);
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
    if (!positional(r, "count", "sub start end", 1, args, &p) || !string_argument(r, p.v[0], &what))
        return undefined_value();
    if (!window(r, tvalue_text(self), &p, &s, &first)) return r->rc ? undefined_value() : tvalue_int(0);
    if (!what.len) return tvalue_int((int64_t)python_length(s) + 1);
    for (const uint8_t *hit; s.len && (hit = memmem(s.data, s.len, what.data, what.len)); n++) {
        size_t used = (size_t)(hit - s.data) + what.len;
        s = bytes_of(s.data + used, s.len - used);
    }
    return tvalue_int(n);
}

/* ---- split and join ---- */

static void push_part(struct run *r, struct tvalue list, const uint8_t *begin, const uint8_t *end) {
    run_push(r, list, tvalue_string(bytes_of(begin, (size_t)(end - begin))));
}

/* At white space: runs separate, none at the ends. */
static void split_spaces(struct run *r, struct bytes s, int64_t max, struct tvalue list) {
    s = python_strip(s, true, false);
    while (s.len && !r->rc) {
        if (max-- == 0) {
            run_push(r, list, tvalue_string(s));
            return;
        }
        size_t i = 0, n;
        for (uint32_t cp; i < s.len; i += n) {
            n = unicode_next(s.data + i, &cp);
            if (python_is_space(cp)) break;
        }
        push_part(r, list, s.data, s.data + i);
        s = python_strip(bytes_of(s.data + i, s.len - i), true, false);
    }
}

static void split_at(struct run *r, struct bytes s, struct bytes separator, int64_t max, struct tvalue list) {
    const uint8_t *hit;
    while (!r->rc && max-- != 0 && s.len && (hit = memmem(s.data, s.len, separator.data, separator.len))) {
        push_part(r, list, s.data, hit);
        size_t used = (size_t)(hit - s.data) + separator.len;
        s = bytes_of(s.data + used, s.len - used);
    }
    run_push(r, list, tvalue_string(s));
}

static void reverse_list(struct tlist *list) {
    for (uint32_t i = 0; i < list->count / 2; i++) {
        struct tvalue v = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = v;
    }
}

static void rsplit_at(struct run *r, struct bytes s, struct bytes separator, int64_t max, struct tvalue list) {
    const uint8_t *hit;
    while (!r->rc && max-- != 0 && (hit = find_last(s, separator))) {
        push_part(r, list, hit + separator.len, s.data + s.len);
        s.len = (size_t)(hit - s.data);
    }
    run_push(r, list, tvalue_string(s));
    if (!r->rc) reverse_list(list.list);
}

static void rsplit_spaces(struct run *r, struct bytes s, int64_t max, struct tvalue list) {
    s = python_strip(s, false, true);
    while (s.len && !r->rc) {
        if (max-- == 0) {
            run_push(r, list, tvalue_string(s));
            break;
        }
        size_t i = s.len;
        for (uint32_t cp; i;) {
            size_t n = unicode_prev(s.data + i, &cp);
            if (python_is_space(cp)) break;
            i -= n;
        }
        push_part(r, list, s.data + i, s.data + s.len);
        s = python_strip(bytes_of(s.data, i), false, true);
    }
    if (!r->rc) reverse_list(list.list);
}

static struct tvalue split(struct run *r, struct tvalue self, struct args args, bool from_right) {
    struct params p;
    struct bytes separator;
    int64_t max = -1;
    if (!params_bind(r, "split", "sep maxsplit", 0, args, &p)) return undefined_value();
    if (p.given[1] && !method_int_argument(r, p.v[1], &max)) return undefined_value();
    if (max < 0) max = -1;
    struct tvalue list = run_list(r, TVALUE_LIST);
    run_burn(r, self.len / 16);
    if (r->rc) return undefined_value();
    if (!p.given[0] || p.v[0].kind == TVALUE_NONE) {
        (from_right ? rsplit_spaces : split_spaces)(r, tvalue_text(self), max, list);
        return list;
    }
    if (!string_argument(r, p.v[0], &separator)) return undefined_value();
    if (!separator.len) return run_fail(r, ERR_INVALID, "empty separator");
    (from_right ? rsplit_at : split_at)(r, tvalue_text(self), separator, max, list);
    return list;
}
struct tvalue str_split(struct run *r, struct tvalue self, struct args args) {
    return split(r, self, args, false);
}
struct tvalue str_rsplit(struct run *r, struct tvalue self, struct args args) {
    return split(r, self, args, true);
}

struct tvalue str_splitlines(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    struct bytes s = tvalue_text(self);
    struct tvalue list = run_list(r, TVALUE_LIST);
    if (!params_bind(r, "splitlines", "keepends", 0, args, &p)) return undefined_value();
    bool keep = p.given[0] && op_truth(p.v[0]);
    size_t begin = 0;
    for (size_t i = 0, n; i < s.len && !r->rc;) {
        uint32_t cp;
        n = unicode_next(s.data + i, &cp);
        bool line_end =
            (cp >= 10 && cp <= 13) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
        if (cp == '\r' && i + 1 < s.len && s.data[i + 1] == '\n') n = 2;
        if (line_end) {
            push_part(r, list, s.data + begin, s.data + i + (keep ? n : 0));
            begin = i + n;
        }
        i += n;
    }
    if (begin < s.len) push_part(r, list, s.data + begin, s.data + s.len);
    return list;
}

static struct tvalue partition(struct run *r, struct tvalue self, struct args args, bool last) {
    struct params p;
    struct bytes s = tvalue_text(self), what;
    if (!positional(r, "partition", "sep", 1, args, &p) || !string_argument(r, p.v[0], &what)) return undefined_value();
    if (!what.len) return run_fail(r, ERR_INVALID, "empty separator");
    const uint8_t *hit = last ? find_last(s, what) : find_first(s, what);
    struct tvalue tuple = run_list(r, TVALUE_TUPLE), empty = tvalue_string(bytes_of(NULL, 0));
    if (r->rc) return undefined_value();
    if (!hit) {
        run_push(r, tuple, last ? empty : self);
        run_push(r, tuple, empty);
        run_push(r, tuple, last ? self : empty);
        return tuple;
    }
    push_part(r, tuple, s.data, hit);
    run_push(r, tuple, p.v[0]);
    push_part(r, tuple, hit + what.len, s.data + s.len);
    return tuple;
}
struct tvalue str_partition(struct run *r, struct tvalue self, struct args args) {
    return partition(r, self, args, false);
}
struct tvalue str_rpartition(struct run *r, struct tvalue self, struct args args) {
    return partition(r, self, args, true);
}

struct tvalue str_join(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    struct iter it;
    struct tvalue item;
    struct buf out;
    if (!positional(r, "join", "iterable", 1, args, &p) || !iter_open(r, p.v[0], &it)) return undefined_value();
    buf_init(&out, r->out_max);
    for (uint32_t i = 0; iter_next(r, &it, &item); i++) {
        if (item.kind != TVALUE_STRING)
            run_fail(r, ERR_INVALID, "sequence item %u: expected str instance, %s found", i, python_type(item));
        if (i) buf_add(&out, self.text, self.len);
        buf_add_bytes(&out, tvalue_text(item));
    }
    return run_take_buf(r, &out);
}

struct tvalue str_replace(struct run *r, struct tvalue self, struct args args) {
    if (args.keywords && args.keywords->count)
        return run_fail(r, ERR_INVALID, "str.replace() takes no keyword arguments");
    if (args.count < 2) return run_fail(r, ERR_INVALID, "replace expected at least 2 arguments, got %u", args.count);
    for (int i = 0; i < 2; i++) {
        struct bytes ignored;
        if (!string_argument(r, args.items[i], &ignored)) return undefined_value();
    }
    return filter_call(r, filter_find(bytes_str("replace")), self, args);
}

/* ---- padding ---- */

static struct tvalue pad(struct run *r, struct tvalue self, struct args args, int left_part) {
    struct params p;
    int64_t width;
    struct bytes fill = bytes_str(" ");
    if (!positional(r, "ljust", "width fillchar", 1, args, &p) || !method_int_argument(r, p.v[0], &width))
        return undefined_value();
    if (p.given[1] && !string_argument(r, p.v[1], &fill)) return undefined_value();
    if (python_length(fill) != 1)
        return run_fail(r, ERR_INVALID, "The fill character must be exactly one character long");
    int64_t length = (int64_t)python_length(tvalue_text(self)), total = width - length;
    if (total <= 0) return self;
    if (!run_burn(r, (uint64_t)total / 16 + 1) || (uint64_t)total > r->out_max)
        return run_fail(r, ERR_LIMIT, "a string is too large");
    int64_t left = left_part == 2   ? total / 2 + (total & width & 1)
                   : left_part == 1 ? total
                                    : 0; /* as CPython centres */
    struct buf out = {0};
    for (int64_t i = 0; i < left; i++) buf_add_bytes(&out, fill);
    buf_add(&out, self.text, self.len);
    for (int64_t i = left; i < total; i++) buf_add_bytes(&out, fill);
    return run_take_buf(r, &out);
}
struct tvalue str_ljust(struct run *r, struct tvalue self, struct args args) {
    return pad(r, self, args, 0);
}
struct tvalue str_rjust(struct run *r, struct tvalue self, struct args args) {
    return pad(r, self, args, 1);
}
struct tvalue str_center(struct run *r, struct tvalue self, struct args args) {
    return pad(r, self, args, 2);
}

struct tvalue str_zfill(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    int64_t width;
    if (!positional(r, "zfill", "width", 1, args, &p) || !method_int_argument(r, p.v[0], &width))
        return undefined_value();
    int64_t total = width - (int64_t)python_length(tvalue_text(self));
    if (total <= 0) return self;
    if (!run_burn(r, (uint64_t)total / 16 + 1) || (uint64_t)total > r->out_max)
        return run_fail(r, ERR_LIMIT, "a string is too large");
    bool sign = self.len && (self.text[0] == '-' || self.text[0] == '+');
    struct buf out = {0};
    buf_add(&out, self.text, sign);
    for (int64_t i = 0; i < total; i++) buf_add_byte(&out, '0');
    buf_add(&out, self.text + sign, self.len - sign);
    return run_take_buf(r, &out);
}

/* ---- questions ---- */

static struct tvalue all_in(struct run *r, struct tvalue self, struct args args, uint32_t set) {
    struct bytes s = tvalue_text(self);
    bool all = s.len;
    if (!method_no_arguments(r, args)) return undefined_value();
    for (size_t i = 0; i < s.len && all;) {
        uint32_t cp;
        i += unicode_next(s.data + i, &cp);
        all = unicode_in(cp, set);
    }
    return tvalue_bool(all);
}
struct tvalue str_isalpha(struct run *r, struct tvalue self, struct args args) {
    return all_in(r, self, args, UNICODE_L);
}
struct tvalue str_isdigit(struct run *r, struct tvalue self, struct args args) {
    return all_in(r, self, args, 1 << UNICODE_ND);
}
struct tvalue str_isnumeric(struct run *r, struct tvalue self, struct args args) {
    return all_in(r, self, args, UNICODE_N);
}
struct tvalue str_isalnum(struct run *r, struct tvalue self, struct args args) {
    return all_in(r, self, args, UNICODE_L | UNICODE_N);
}

struct tvalue str_isspace(struct run *r, struct tvalue self, struct args args) {
    struct bytes s = tvalue_text(self);
    return method_no_arguments(r, args) ? tvalue_bool(s.len && !python_strip(s, true, false).len) : undefined_value();
}

struct tvalue str_isascii(struct run *r, struct tvalue self, struct args args) {
    bool ascii = method_no_arguments(r, args);
    for (uint32_t i = 0; i < self.len && ascii; i++) ascii = (uint8_t)self.text[i] < 0x80;
    return tvalue_bool(ascii);
}

static struct tvalue is_case(struct run *r, struct tvalue self, struct args args, uint32_t good, uint32_t bad) {
    struct bytes s = tvalue_text(self);
    bool some = false, all = method_no_arguments(r, args);
    for (size_t i = 0; i < s.len && all;) {
        uint32_t cp;
        i += unicode_next(s.data + i, &cp);
        some |= unicode_in(cp, good);
        all = !unicode_in(cp, bad);
    }
    return tvalue_bool(some && all);
}
struct tvalue str_isupper(struct run *r, struct tvalue self, struct args args) {
    return is_case(r, self, args, 1 << UNICODE_LU, 1 << UNICODE_LL | 1 << UNICODE_LT);
}
struct tvalue str_islower(struct run *r, struct tvalue self, struct args args) {
    return is_case(r, self, args, 1 << UNICODE_LL, 1 << UNICODE_LU | 1 << UNICODE_LT);
}

/* ---- format ---- */

/* "{}", "{0}", "{name}", with a format of ">10", "05d", ".2f" and the like left to the format filter's code. */
struct tvalue str_format(struct run *r, struct tvalue self, struct args args) {
    struct bytes s = tvalue_text(self);
    struct buf out;
    uint32_t next = 0;
    buf_init(&out, r->out_max);
    for (size_t i = 0; i < s.len && !r->rc; i++) {
        char c = (char)s.data[i];
        if ((c == '{' || c == '}') && i + 1 < s.len && (char)s.data[i + 1] == c) {
            buf_add_byte(&out, c);
            i++;
            continue;
        }
        if (c != '{') {
            if (c == '}') run_fail(r, ERR_INVALID, "Single '}' encountered in format string");
            buf_add_byte(&out, c);
            continue;
        }
        const uint8_t *close = memchr(s.data + i, '}', s.len - i);
        if (!close) {
            run_fail(r, ERR_INVALID, "Single '{' encountered in format string");
            break;
        }
        struct bytes field = bytes_of(s.data + i + 1, (size_t)(close - s.data) - i - 1);
        struct tvalue v = undefined_value();
        bool digits = field.len && field.len < 9;
        uint32_t idx = 0;
        for (size_t k = 0; k < field.len && digits; k++) {
            digits = field.data[k] >= '0' && field.data[k] <= '9';
            idx = idx * 10 + (uint32_t)(field.data[k] - '0');
        }
        const struct tvalue *named = args.keywords ? tdict_find(args.keywords, tvalue_string(field)) : NULL;
        if (!field.len) idx = next++;
        if ((!field.len || digits) && idx < args.count)
            v = args.items[idx];
        else if (named)
            v = *named;
        else
            run_fail(r, ERR_INVALID, "str.format: the field '{%.*s}' is missing or not supported",
                     (int)MIN(field.len, (size_t)32), (const char *)field.data);
        run_str(r, v, &out);
        i += field.len + 1;
    }
    return run_take_buf(r, &out);
}
