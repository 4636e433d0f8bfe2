#include "text/tokenizer/offsets.h"

#include "text/unicode.h"

void offset_map_add(struct offset_map *m, struct offset_span span, size_t n) {
    vec_reserve(&m->spans, m->spans.count + n);
    for (size_t i = 0; i < n; i++)
        m->spans.items[m->spans.count++] = span;
}

void offset_map_set(struct offset_map *m, struct bytes s, size_t begin) {
    uint32_t cp;
    m->spans.count = 0;
    for (size_t at = 0, n; at < s.len; at += n) {
        n = unicode_next(s.data + at, &cp);
        offset_map_add(m, (struct offset_span){(uint32_t)(begin + at), (uint32_t)(begin + at + n)},
                       n);
    }
}

void offset_map_change(struct offset_map *to, const struct offset_map *from, struct bytes text,
                       size_t skip, const struct offset_changes *changes) {
    size_t at = skip;
    uint32_t cp;
    to->spans.count = 0;
    for (size_t i = 0; i < changes->list.count; i++) {
        struct offset_change c = changes->list.items[i];
        struct offset_span none = {0};
        if (from->spans.count)
            none.begin = none.end = from->spans.items[0].begin;
        size_t source = c.more > 0 || at == text.len ? at - 1 : at; /* SIZE_MAX: in front of all */
        offset_map_add(to, source < text.len ? from->spans.items[source] : none, c.len);
        for (int32_t n = c.more; n <= 0 && at < text.len; n++)
            at += unicode_next(text.data + at, &cp);
    }
}

void offset_map_fit(struct offset_map *m, size_t len) {
    struct offset_span last =
        m->spans.count ? m->spans.items[m->spans.count - 1] : (struct offset_span){0};
    if (m->spans.count < len)
        offset_map_add(m, last, len - m->spans.count);
    m->spans.count = len;
}
