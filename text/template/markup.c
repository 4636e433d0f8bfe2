/*
 * markup.c - strings that are marked as safe, as markupsafe's Markup: what they are joined with is
 * escaped.
 *
 * The mark comes from the filters here and, inside {% autoescape true %}, from what macros and
 * blocks put out; where it spreads is in op_add, str_join, format.c and markup_of_method.
 */
#include "text/template/filters.h"

#define FILTER(name)                                                                               \
    struct tvalue name(struct run *r, struct tvalue v, const struct params *p, struct args args)

struct tvalue markup_of(struct tvalue v) {
    v.flags |= v.kind == TVALUE_STRING ? TVALUE_SAFE : 0;
    return v;
}

enum { ESCAPE_MAX = 5, ESCAPE_AT_ONCE = 64 };

/* What stands for a character; none: itself. */
static const struct escape {
    char text[7];
    uint8_t len;
} ESCAPES[256] = {['&'] = {"&amp;", 5},
                  ['<'] = {"&lt;", 4},
                  ['>'] = {"&gt;", 4},
                  ['"'] = {"&#34;", 5},
                  ['\''] = {"&#39;", 5}};

void markup_add_escaped(struct bytes s, struct buf *out) {
    for (size_t begin = 0; begin < s.len; begin += ESCAPE_AT_ONCE) {
        size_t end = MIN(begin + ESCAPE_AT_ONCE, s.len);
        buf_reserve(out, (end - begin) * ESCAPE_MAX);
        if (out->failed)
            return;
        char *to = out->data + out->len;
        for (size_t i = begin; i < end; i++) {
            const struct escape *e = &ESCAPES[s.data[i]];
            if (e->len)
                memcpy(to, e->text, ESCAPE_MAX);
            else
                *to = (char)s.data[i];
            to += e->len ? e->len : 1;
        }
        *to = 0;
        out->len = (size_t)(to - out->data);
    }
}

static struct tvalue escaped(struct run *r, struct tvalue v) {
    v = run_to_string(r, v);
    buf_reset(&r->scratch);
    markup_add_escaped(tvalue_text(v), &r->scratch);
    if (r->scratch.failed)
        return run_fail(r, ERR_LIMIT, "a string is too large");
    return markup_of(run_string(r, r->scratch.data, r->scratch.len));
}

struct tvalue markup_escape(struct run *r, struct tvalue v) {
    return is_markup(v) ? v : escaped(r, v);
}

struct tvalue markup_of_method(struct run *r, struct tvalue result) {
    if (result.kind != TVALUE_LIST && result.kind != TVALUE_TUPLE)
        return markup_of(result);
    for (uint32_t i = 0; i < result.list->count && !r->rc; i++)
        result.list->items[i] = markup_of(result.list->items[i]);
    return result;
}

/* ---- filters ---- */

FILTER(filter_safe) {
    return markup_of(run_to_string(r, v));
}
FILTER(filter_forceescape) {
    return escaped(r, v);
}
FILTER(filter_escape) {
    return markup_escape(r, v);
}
