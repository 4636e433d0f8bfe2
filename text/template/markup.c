/*
 * markup.c - strings that are marked as safe, as markupsafe's Markup: what they are joined with is escaped.
 *
 * Chat templates render without escaping, so the mark only comes from the filters here; where it spreads is in op_add,
 * str_join, format.c and markup_of_method.
 */
#include "text/template/filters.h"

#define FILTER(name) struct tvalue name(struct run *r, struct tvalue v, const struct params *p, struct args args)

struct tvalue markup_of(struct tvalue v) {
    v.flags |= v.kind == TVALUE_STRING ? TVALUE_SAFE : 0;
    return v;
}

void markup_add_escaped(struct bytes s, struct buf *out) {
    static const char *const ESCAPES[256] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&#34;", ['\''] = "&#39;"};
    size_t start = 0;
    for (size_t i = 0; i < s.len; i++) {
        const char *escape = ESCAPES[s.data[i]];
        if (!escape) continue;
        buf_add(out, s.data + start, i - start);
        buf_add_str(out, escape);
        start = i + 1;
    }
    buf_add(out, s.data + start, s.len - start);
}

static struct tvalue escaped(struct run *r, struct tvalue v) {
    struct buf out;
    v = run_to_string(r, v);
    buf_init(&out, r->out_max);
    markup_add_escaped(tvalue_text(v), &out);
    return markup_of(run_take_buf(r, &out));
}

struct tvalue markup_escape(struct run *r, struct tvalue v) {
    return is_markup(v) ? v : escaped(r, v);
}

struct tvalue markup_of_method(struct run *r, struct tvalue result) {
    if (result.kind != TVALUE_LIST && result.kind != TVALUE_TUPLE) return markup_of(result);
    for (uint32_t i = 0; i < result.list->count && !r->rc; i++)
        result.list->items[i] = markup_of(result.list->items[i]);
    return result;
}

/* ---- filters ---- */

FILTER(filter_safe) { return markup_of(run_to_string(r, v)); }
FILTER(filter_forceescape) { return escaped(r, v); }
FILTER(filter_escape) { return markup_escape(r, v); }
