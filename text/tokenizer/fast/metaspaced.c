#include "text/tokenizer/fast/metaspaced.h"

#include "text/tokenizer/fast/bpe_caches.h"
#include "text/tokenizer/fast/fast.h"
#include "text/unicode.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

static const uint8_t METASPACE[3] = {0xE2, 0x96, 0x81};
enum { BLOCK = 64, LOOKED_AT = BLOCK + 2 };

struct walk {
    const struct bpe *b;
    struct bpe_scratch *s;
    struct token_vec *out;
    const uint8_t *limit; /* bytes before it may be read */
    bool spaces;
};

/* ---- parts ---- */

struct symbol {
    uint32_t cp, id; /* id NONE: unknown */
    size_t len;
};

static inline struct symbol read_symbol(const struct walk *w, const uint8_t *p) {
    struct symbol x;
    x.len = unicode_next(p, &x.cp);
    if (x.cp == ' ' && w->spaces)
        x.cp = METASPACE_CHAR;
    x.id = bpe_cuts_symbol(&w->b->cuts, x.cp);
    return x;
}

static inline bool is_cut(const struct walk *w, struct symbol x, struct symbol y) {
    if (x.id == NONE || y.id == NONE)
        return w->b->cuts.known;
    return !bpe_cuts_is_joined(&w->b->cuts, x.cp, y.cp);
}

/* Unknown characters that are fused or dropped, unused tokens: as for any piece. */
static void encode_slowly(struct walk *w, const uint8_t *p, size_t len) {
    size_t count = 0;
    vec_reserve(&w->s->spaced[1], len * sizeof METASPACE);
    uint8_t *to = w->s->spaced[1].items;
    for (size_t i = 0; i < len; i++) {
        if (p[i] == ' ' && w->spaces) {
            memcpy(to + count, METASPACE, sizeof METASPACE);
            count += sizeof METASPACE;
        } else {
            to[count++] = p[i];
        }
    }
    fast_encode_piece(w->b, w->s, to, count, to + count, w->out);
}

/* Merges the part's symbols; there is room for them. False: one is unknown. */
static bool encode_symbols(struct walk *w, const uint8_t *p, size_t len) {
    uint32_t *ids = w->out->items + w->out->count;
    size_t count = 0;
    for (size_t i = 0; i < len; count++) {
        struct symbol x = read_symbol(w, p + i);
        if (x.id == NONE)
            return false;
        ids[count] = x.id;
        i += x.len;
    }
    if (count > w->b->short_max) {
        struct bpe_scratch *s = w->s;
        vec_reserve(&s->ids, count);
        memcpy(s->ids.items, ids, count * sizeof *ids);
        s->ids.count = count;
        count = bpe_merge_fast(w->b, s);
        memcpy(ids, s->ids.items, count * sizeof *ids);
    } else if (count > 1) {
        count = bpe_merge_vectors(w->b, ids, count, NULL);
    }
    w->out->count += count;
    return true;
}

static void encode_uncached(struct walk *w, const uint8_t *p, size_t len) {
    vec_reserve(w->out, w->out->count + len);
    if (w->b->unused_count || !encode_symbols(w, p, len))
        encode_slowly(w, p, len);
}

static void encode_by_pieces(struct walk *w, const uint8_t *p, size_t len) {
    struct piece_place place;
    if (pieces_find(w->b, w->s, p, len, &place, w->out))
        return;
    encode_uncached(w, p, len);
    pieces_add(w->s, &place, p, len, w->out);
}

/* Several characters between two cuts. */
static void encode_subpiece(struct walk *w, const uint8_t *p, size_t len) {
    struct word_place place;
    if (len > WORD_BYTES_MAX) {
        (len > PIECE_BYTES_MAX ? encode_uncached : encode_by_pieces)(w, p, len);
        return;
    }
    if (words_find(w->s, p, len, 0, w->limit, &place, w->out))
        return;
    (len > WORD_IDS_MAX ? encode_by_pieces : encode_uncached)(w, p, len);
    words_add(w->s, &place, w->out);
}

/* A character between two cuts. */
static inline void encode_char(struct walk *w, const uint8_t *p, struct symbol x) {
    vec_reserve(w->out, w->out->count + 4);
    if (x.id != NONE && !w->b->unused_count) {
        w->out->items[w->out->count++] = x.id;
    } else if (x.id == NONE && w->b->cuts.known) {
        for (size_t i = 0; i < x.len; i++)
            w->out->items[w->out->count++] = w->b->fallback_ids[p[i]];
    } else {
        encode_slowly(w, p, x.len);
    }
}

static void encode_subpieces(struct walk *w, const uint8_t *p, const uint8_t *end) {
    struct symbol first = read_symbol(w, p), last, next = first;
    for (const uint8_t *stop; p < end; p = stop, first = next) {
        last = first;
        for (stop = p + first.len; stop < end; stop += next.len, last = next) {
            next = read_symbol(w, stop);
            if (is_cut(w, last, next))
                break;
        }
        if (stop == p + first.len)
            encode_char(w, p, first);
        else
            encode_subpiece(w, p, (size_t)(stop - p));
    }
}

/* ---- words ---- */

static void encode_word(struct walk *w, const uint8_t *p, size_t len) {
    struct word_place place;
    bool is_short = len <= WORD_BYTES_MAX;
    if (is_short && words_find(w->s, p, len, 0, w->limit, &place, w->out))
        return;
    encode_subpieces(w, p, p + len);
    if (is_short)
        words_add(w->s, &place, w->out);
}

/* The word with one more space before it. */
static void encode_prefixed(struct walk *w, const uint8_t *p, size_t len) {
    struct walk inner = *w;
    vec_reserve(&w->s->spaced[0], len + 1);
    uint8_t *to = w->s->spaced[0].items;
    to[0] = ' ';
    memcpy(to + 1, p, len);
    inner.limit = to + 1 + len;
    encode_word(&inner, to, len + 1);
}

static inline uint64_t equal_mask(const uint8_t *p, uint8_t byte) {
    uint64_t mask = 0;
#if defined(__SSE2__)
    const __m128i want = _mm_set1_epi8((char)byte);
    for (int i = 0; i < BLOCK; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
        mask |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, want)) << i;
    }
#else
    for (int i = 0; i < BLOCK; i++)
        mask |= (uint64_t)(p[i] == byte) << i;
#endif
    return mask;
}

/* What the block before ended with. */
struct carry {
    uint64_t spaces, metaspaces, line_ends;
};

/* Where words begin among 64 bytes; LOOKED_AT bytes from p are read. */
static inline uint64_t find_words(const struct walk *w, const uint8_t *p, struct carry *carry) {
    uint64_t spaces = w->spaces ? equal_mask(p, ' ') : 0, line_ends = 0;
    uint64_t metaspaces = equal_mask(p, METASPACE[0]);
    if (metaspaces)
        metaspaces &= equal_mask(p + 1, METASPACE[1]) & equal_mask(p + 2, METASPACE[2]);
    uint64_t behind = spaces << 1 | carry->spaces | metaspaces << 3 | carry->metaspaces;
    uint64_t starts = (spaces | metaspaces) & ~behind;
    if (w->b->cuts.line_ends) {
        line_ends = equal_mask(p, '\n');
        starts |= line_ends ^ (line_ends << 1 | carry->line_ends);
    }
    *carry = (struct carry){spaces >> 63, metaspaces >> 61, line_ends >> 63};
    return starts;
}

void metaspaced_encode(const struct bpe *b, struct bpe_scratch *s, struct bytes text,
                       struct metaspaced how, struct token_vec *out) {
    CHECK(metaspaced_fits(b) && (how.spaces || !how.prefix));
    struct walk w = {b, s, out, text.data + text.len, how.spaces};
    struct carry carry = {0};
    uint8_t tail[LOOKED_AT];
    const uint8_t *end = w.limit, *word = text.data;
    bool prefix = how.prefix;
    bpe_need_caches(s);
    for (const uint8_t *p = text.data; p < end; p += BLOCK) {
        size_t left = (size_t)(end - p);
        if (left < LOOKED_AT) {
            memset(tail, 0, sizeof tail);
            memcpy(tail, p, left);
        }
        uint64_t starts = find_words(&w, left < LOOKED_AT ? tail : p, &carry);
        for (; starts; starts &= starts - 1) {
            const uint8_t *next = p + __builtin_ctzll(starts);
            if (next == word)
                continue;
            if (next >= end)
                break; /* behind a line end that is the last byte */
            (prefix ? encode_prefixed : encode_word)(&w, word, (size_t)(next - word));
            prefix = false;
            word = next;
        }
    }
    if (word < end)
        (prefix ? encode_prefixed : encode_word)(&w, word, (size_t)(end - word));
}
