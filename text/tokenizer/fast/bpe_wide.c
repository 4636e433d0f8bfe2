/*
 * bpe_wide.c - text of characters of three bytes, such as Chinese, Japanese, Korean or Thai, at byte
 * level: long pieces are cut where no merge crosses.
 *
 * A merge that crosses the border between two characters makes a token that holds the bytes on both
 * sides of it, so where no token does, a piece may be cut and its tokens are those of its parts.
 * Most tokens hold both characters whole: those pairs are in a hashed set. Few begin or end inside
 * of one: for these the whole neighbour knows, by a byte of the other, which characters it may be.
 * Parts are short and come back often, most are one character.
 */
#include "base/utf8.h"
#include "text/tokenizer/fast/bpe_caches.h"
#include "text/unicode.h"

enum { BITS_MIN_LOG = 16, BITS_PER_PAIR = 16, PLANE = BPE_CHARS };

/* ---- which characters stand together in a token ---- */

struct cut_bits {
    struct bpe *b;
    VEC(struct bpe_char) chars; /* becomes b's */
    VEC(uint64_t) pairs;        /* first << 32 | second */
};

static size_t char_len(uint8_t first) {
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}
static bool is_inside(uint8_t byte) {
    return (byte & 0xC0) == 0x80;
}

static struct bpe_char *char_row(struct cut_bits *j, uint32_t cp) {
    uint16_t *row = &j->b->char_rows[cp];
    if (!*row && j->chars.count < UINT16_MAX) {
        *row = (uint16_t)j->chars.count;
        vec_push(&j->chars, ((struct bpe_char){.id = NONE}));
    }
    return *row ? &j->chars.items[*row] : NULL;
}

/* The characters, or what the token has of them, on both sides of a border in it. len 0: none that
 * text can have. */
struct side {
    uint32_t cp;
    /* byte: of a partial, the one that tells: the last before the border, the second behind */
    uint8_t len, byte;
    bool whole, any; /* any: of a partial that is only a first byte */
};

static struct side left_side(struct bytes key, size_t border) {
    size_t from = border - 1;
    uint32_t cp;
    while (from && is_inside(key.data[from]))
        from--;
    if (is_inside(key.data[from]))
        return (struct side){.len = (uint8_t)MIN(border, 4u), .byte = key.data[border - 1]};
    if (utf8_decode(key.data + from, border - from, &cp) != border - from)
        return (struct side){0};
    return (struct side){cp, (uint8_t)(border - from), 0, true, false};
}

static struct side right_side(struct bytes key, size_t border) {
    size_t left = key.len - border, len = char_len(key.data[border]);
    uint32_t cp;
    if (left < len)
        return (struct side){
            .len = (uint8_t)left, .byte = left > 1 ? key.data[border + 1] : 0, .any = left < 2};
    if (utf8_decode(key.data + border, left, &cp) != len)
        return (struct side){0};
    return (struct side){cp, (uint8_t)len, 0, true, false};
}

static uint64_t bytes_mask(struct side partial) {
    return partial.any ? UINT64_MAX : (uint64_t)1 << (partial.byte & 63);
}

static bool note_border(struct cut_bits *j, struct side left, struct side right) {
    if (!left.len || !right.len || (left.whole && left.cp >= PLANE) ||
        (right.whole && right.cp >= PLANE))
        return true;
    if (left.whole && right.whole) {
        if (left.cp >= 0x80 || right.cp >= 0x80)
            vec_push(&j->pairs, (uint64_t)left.cp << 32 | right.cp);
        return true;
    }
    if (!left.whole && !right.whole) {
        j->b->inner_cuts[left.byte & 63] |= bytes_mask(right);
        return true;
    }
    struct bpe_char *c = char_row(j, left.whole ? left.cp : right.cp);
    if (!c)
        return false;
    if (left.whole)
        c->open_right |= bytes_mask(right);
    else
        c->open_left |= bytes_mask(left);
    return true;
}

static bool is_ascii(struct bytes key) {
    uint8_t all = 0;
    for (size_t i = 0; i < key.len; i++)
        all |= key.data[i];
    return all < 0x80;
}

/* False: there is no room for a character. */
static bool note_token(struct cut_bits *j, struct bytes key) {
    if (is_ascii(key))
        return true;
    for (size_t i = 1; i < key.len; i++)
        if (!is_inside(key.data[i]) && !note_border(j, left_side(key, i), right_side(key, i)))
            return false;
    return true;
}

void bpe_make_cuts(struct bpe *b) {
    struct cut_bits j = {b, {b->chars, b->char_count, b->char_count}, {0}};
    bool good = !b->unused_count;
    uint32_t log = BITS_MIN_LOG;
    for (uint32_t id = 0; id < b->vocab->entries.count && good; id++)
        good = note_token(&j, vocab_key(b->vocab, id));
    b->chars = j.chars.items;
    b->char_count = (uint32_t)j.chars.count;
    while (((size_t)1 << log) < j.pairs.count * BITS_PER_PAIR)
        log++;
    if (good) {
        b->cuts.cut_shift = 32 - log;
        b->cuts.cut_bits = mem_calloc(((size_t)1 << log) / 64, sizeof *b->cuts.cut_bits);
    }
    for (size_t i = 0; i < j.pairs.count && good; i++)
        bpe_cuts_join(&b->cuts, (uint32_t)(j.pairs.items[i] >> 32), (uint32_t)j.pairs.items[i]);
    vec_release(&j.pairs);
}

/* ---- encoding ---- */

struct wide_char {
    const struct bpe_char *known;
    uint32_t cp;
    uint8_t len, second, last;
};

static inline struct wide_char read_char(const struct bpe *b, const uint8_t *p) {
    struct wide_char c;
    c.len = (uint8_t)unicode_next(p, &c.cp);
    c.known = &b->chars[c.cp < PLANE ? b->char_rows[c.cp] : 0];
    c.second = c.len > 1 ? p[1] : 0;
    c.last = p[c.len - 1];
    return c;
}

static inline bool is_joined(const struct bpe *b, struct wide_char x, struct wide_char y) {
    if ((x.cp | y.cp) < 0x80 || x.cp >= PLANE || y.cp >= PLANE ||
        bpe_cuts_is_joined(&b->cuts, x.cp, y.cp))
        return true;
    bool wide_x = x.cp >= 0x80, wide_y = y.cp >= 0x80; /* others have no parts */
    uint64_t joined = wide_x ? y.known->open_left >> (x.last & 63) : 0;
    if (wide_y)
        joined |= x.known->open_right >> (y.second & 63);
    if (wide_x && wide_y)
        joined |= b->inner_cuts[x.last & 63] >> (y.second & 63);
    return joined & 1;
}

bool bpe_encode_wide(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len,
                     const uint8_t *limit, struct token_vec *out) {
    const uint8_t *p = piece, *end = piece + len, *stop;
    struct wide_char first = read_char(b, p), last, next = first;
    for (; p < end; p = stop, first = next) {
        last = first;
        for (stop = p + first.len; stop < end; stop += next.len, last = next) {
            next = read_char(b, stop);
            if (!is_joined(b, last, next))
                break;
        }
        if (p == piece && stop == end)
            return false;
        uint32_t id = first.cp < 0x80 ? b->ascii_ids[first.cp] : first.known->id;
        if (stop == p + first.len && id != NONE)
            vec_push(out, id);
        else
            bpe_encode_subpiece(b, s, p, (size_t)(stop - p), limit, out);
    }
    return true;
}
