/*
 * strings_split.c - the methods of Python's str that cut, join and pad.
 */
#include "text/template/filters.h"
#include "text/template/python.h"
#include "text/template/strings.h"

/* ---- split and join ---- */

static void push_slice(struct run *r, struct tvalue list, const uint8_t *begin,
                       const uint8_t *end) {
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
            if (python_is_space(cp))
                break;
        }
        push_slice(r, list, s.data, s.data + i);
        s = python_strip(bytes_of(s.data + i, s.len - i), true, false);
    }
}

static void split_at(struct run *r, struct bytes s, struct bytes separator, int64_t max,
                     struct tvalue list) {
    const uint8_t *hit;
    while (!r->rc && max-- != 0 && s.len &&
           (hit = memmem(s.data, s.len, separator.data, separator.len))) {
        push_slice(r, list, s.data, hit);
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

static void rsplit_at(struct run *r, struct bytes s, struct bytes separator, int64_t max,
                      struct tvalue list) {
    const uint8_t *hit;
    while (!r->rc && max-- != 0 && (hit = method_find_last(s, separator))) {
        push_slice(r, list, hit + separator.len, s.data + s.len);
        s.len = (size_t)(hit - s.data);
    }
    run_push(r, list, tvalue_string(s));
    if (!r->rc)
        reverse_list(list.list);
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
            if (python_is_space(cp))
                break;
            i -= n;
        }
        push_slice(r, list, s.data + i, s.data + s.len);
        s = python_strip(bytes_of(s.data, i), false, true);
    }
    if (!r->rc)
        reverse_list(list.list);
}

static struct tvalue split(struct run *r, struct tvalue self, struct args args, bool from_right) {
    struct params p;
    struct bytes separator;
    int64_t max = -1;
    if (!params_bind(r, "split", "sep maxsplit", 0, args, &p))
        return undefined_value();
    if (p.given[1] && !method_int_argument(r, p.v[1], &max))
        return undefined_value();
    if (max < 0)
        max = -1;
    struct tvalue list = run_list(r, TVALUE_LIST);
    run_burn(r, self.len / 16);
    if (r->rc)
        return undefined_value();
    if (!p.given[0] || p.v[0].kind == TVALUE_NONE) {
        (from_right ? rsplit_spaces : split_spaces)(r, tvalue_text(self), max, list);
        return list;
    }
    if (!method_string_argument(r, p.v[0], &separator))
        return undefined_value();
    if (!separator.len)
        return run_fail(r, ERR_INVALID, "empty separator");
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
    if (!params_bind(r, "splitlines", "keepends", 0, args, &p))
        return undefined_value();
    bool keep = p.given[0] && op_truth(p.v[0]);
    bool ended;
    for (size_t at = 0; at < s.len && !r->rc;) {
        struct bytes line = python_take_line(s, &at, &ended);
        push_slice(r, list, line.data, keep ? s.data + at : line.data + line.len);
    }
    return list;
}

static struct tvalue partition(struct run *r, struct tvalue self, struct args args, bool last) {
    struct params p;
    struct bytes s = tvalue_text(self), what;
    if (!method_positional(r, "partition", "sep", 1, args, &p) ||
        !method_string_argument(r, p.v[0], &what))
        return undefined_value();
    if (!what.len)
        return run_fail(r, ERR_INVALID, "empty separator");
    const uint8_t *hit = last ? method_find_last(s, what) : method_find_first(s, what);
    struct tvalue tuple = run_list(r, TVALUE_TUPLE), empty = tvalue_string(bytes_of(NULL, 0));
    if (r->rc)
        return undefined_value();
    if (!hit) {
        run_push(r, tuple, last ? empty : self);
        run_push(r, tuple, empty);
        run_push(r, tuple, last ? self : empty);
        return tuple;
    }
    push_slice(r, tuple, s.data, hit);
    run_push(r, tuple, p.v[0]);
    push_slice(r, tuple, hit + what.len, s.data + s.len);
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
    if (!method_positional(r, "join", "iterable", 1, args, &p) || !iter_open(r, p.v[0], &it))
        return undefined_value();
    buf_init(&out, r->out_max);
    for (uint32_t i = 0; iter_next(r, &it, &item); i++) {
        if (item.kind != TVALUE_STRING && !is_markup(self))
            run_fail(r, ERR_INVALID, "sequence item %u: expected str instance, %s found", i,
                     python_type(item));
        if (i)
            buf_add(&out, self.text, self.len);
        if (is_markup(self))
            item = markup_escape(r, item);
        buf_add_bytes(&out, tvalue_text(item));
    }
    return run_take_buf(r, &out);
}

struct tvalue str_replace(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    struct bytes from, to;
    int64_t count = -1;
    if (!method_positional(r, "replace", "old new count", 2, args, &p))
        return undefined_value();
    if (is_markup(self))
        p.v[1] = markup_escape(r, p.v[1]);
    if (!method_string_argument(r, p.v[0], &from) || !method_string_argument(r, p.v[1], &to) ||
        (p.given[2] && !method_int_argument(r, p.v[2], &count)))
        return undefined_value();
    return replace_text(r, tvalue_text(self), from, to, count);
}

/* ---- padding ---- */

static struct tvalue pad(struct run *r, struct tvalue self, struct args args, int left_slice) {
    struct params p;
    int64_t width;
    struct bytes fill = bytes_str(" ");
    if (!method_positional(r, "ljust", "width fillchar", 1, args, &p) ||
        !method_int_argument(r, p.v[0], &width))
        return undefined_value();
    if (p.given[1] && is_markup(self))
        p.v[1] = markup_escape(r, p.v[1]);
    if (p.given[1] && !method_string_argument(r, p.v[1], &fill))
        return undefined_value();
    if (python_length(fill) != 1)
        return run_fail(r, ERR_INVALID, "The fill character must be exactly one character long");
    int64_t length = (int64_t)python_length(tvalue_text(self)), total = width - length;
    if (total <= 0)
        return self;
    if (!run_burn(r, (uint64_t)total / 16 + 1) || (uint64_t)total > r->out_max)
        return run_fail(r, ERR_LIMIT, "a string is too large");
    int64_t left = left_slice == 2   ? total / 2 + (total & width & 1)
                   : left_slice == 1 ? total
                                     : 0; /* as CPython centres */
    struct buf out = {0};
    for (int64_t i = 0; i < left; i++)
        buf_add_bytes(&out, fill);
    buf_add(&out, self.text, self.len);
    for (int64_t i = left; i < total; i++)
        buf_add_bytes(&out, fill);
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
    if (!method_positional(r, "zfill", "width", 1, args, &p) ||
        !method_int_argument(r, p.v[0], &width))
        return undefined_value();
    int64_t total = width - (int64_t)python_length(tvalue_text(self));
    if (total <= 0)
        return self;
    if (!run_burn(r, (uint64_t)total / 16 + 1) || (uint64_t)total > r->out_max)
        return run_fail(r, ERR_LIMIT, "a string is too large");
    bool sign = self.len && (self.text[0] == '-' || self.text[0] == '+');
    struct buf out = {0};
    buf_add(&out, self.text, sign);
    for (int64_t i = 0; i < total; i++)
        buf_add_byte(&out, '0');
    buf_add(&out, self.text + sign, self.len - sign);
    return run_take_buf(r, &out);
}

struct tvalue str_expandtabs(struct run *r, struct tvalue self, struct args args) {
    struct params p;
    struct bytes s = tvalue_text(self);
    int64_t size = 8, column = 0;
    struct buf out;
    if (!params_bind(r, "expandtabs", "tabsize", 0, args, &p) ||
        (p.given[0] && !method_int_argument(r, p.v[0], &size)))
        return undefined_value();
    buf_init(&out, r->out_max);
    for (size_t i = 0; i < s.len && !out.failed;) {
        uint32_t cp;
        size_t n = unicode_next(s.data + i, &cp);
        if (cp == '\t') {
            int64_t fill = size > 0 ? size - column % size : 0;
            column += fill;
            if (!run_burn(r, (uint64_t)fill / 16))
                break;
            while (fill-- > 0 && !out.failed)
                buf_add_byte(&out, ' ');
        } else {
            buf_add(&out, s.data + i, n);
            column = cp == '\n' || cp == '\r' ? 0 : column + 1;
        }
        i += n;
    }
    return run_take_buf(r, &out);
}
