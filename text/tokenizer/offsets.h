/*
 * offsets.h - where the bytes of a rewritten text come from: for the characters that each token
 * stands for, as HF's Encoding.offsets gives them, and for the rule that asks whether a piece
 * begins where the text began (Metaspace's "first").
 *
 * Each byte of a text carries the span of the text that is encoded, in bytes, that it stands for:
 * of a character all bytes have the same. A rewriting is a list of changes, one for each new
 * character, as in HF's NormalizedString: it takes the place of an old one, of several, or is put
 * in behind one and shares its span. What a token stands for goes from the beginning of its first
 * byte's span to the end of its last one's.
 *
 * Encoding without offsets does none of this.
 *
 * Threading: one thread at a time.
 */
#ifndef TEXT_TOKENIZER_OFFSETS_H
#define TEXT_TOKENIZER_OFFSETS_H

#include "base/vec.h"

struct offset_span {
    uint32_t begin, end;
};
/* For each byte of a text. */
struct offset_map {
    VEC(struct offset_span) spans;
};

struct offset_change {
    uint32_t len; /* of the new character */
    int32_t more; /* 1: put in; 0: for an old one; -n: for an old one and the n behind it */
};
struct offset_changes {
    VEC(struct offset_change) list;
};

/* A buffer and where its bytes come from; map NULL: nobody asks. */
struct offset_view {
    const uint8_t *text;
    const struct offset_map *map; /* borrowed */
};
/* Where the byte at p, in the buffer of v, comes from. */
static inline struct offset_span offset_at(const struct offset_view *v, const uint8_t *p) {
    return v->map->spans.items[p - v->text];
}
/* What [s.data, s.data + s.len) stands for, s.len > 0. */
static inline struct offset_span offset_of(const struct offset_view *v, struct bytes s) {
    return (struct offset_span){offset_at(v, s.data).begin, offset_at(v, s.data + s.len - 1).end};
}

/* Each character of s, which begins at byte `begin` of the text that is encoded, for itself. */
void offset_map_set(struct offset_map *m, struct bytes s, size_t begin);
/* n more bytes that stand for span. */
void offset_map_add(struct offset_map *m, struct offset_span span, size_t n);
/* As many bytes as len, cut or filled up with the last one's span. */
void offset_map_fit(struct offset_map *m, size_t len);
/* *to from `from` with text (whose map `from` is), of which the first `skip` bytes are gone,
 * rewritten. */
void offset_map_change(struct offset_map *to, const struct offset_map *from, struct bytes text,
                       size_t skip, const struct offset_changes *changes);

#endif
