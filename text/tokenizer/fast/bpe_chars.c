/*
 * bpe_chars.c - characters that are one symbol from the start, at byte level.
 *
 * A character of several bytes nearly always becomes one token before anything else happens to its
 * bytes. Where that is certain, a piece may begin with characters instead of bytes, and most of its
 * merges are saved.
 *
 * Let the bytes alone merge into one token, the last time at rank R. As long as the character is
 * not whole, a merge inside of it is at hand whose rank is at most R. So only merges of such ranks
 * can come before, that join a symbol on the way there (its first bytes, its last bytes) to the
 * neighbour on that side. Such merges are rare, and each needs a neighbour whose last (or first)
 * byte is that of the merge's other side: for each character it is known which bytes those are.
 * Beside one of them it is taken as its bytes. And being whole early must change nothing: no merge
 * of the whole character may have a rank up to R (in trained vocabularies none has).
 */
#include "base/utf8.h"
#include "text/tokenizer/fast/bpe_caches.h"
#include "text/unicode.h"

static const struct bytes NO_BYTES = {NULL, 0};

/* What symbols are to characters of several bytes: pieces of one, or one of two or three bytes. */
enum symbol_kind { BEGINS_INSIDE = 1, BEGINS_CHAR = 2, ENDS_CHAR = 4, IS_CHAR = 8 };
/* A neighbour's byte: those of characters of several bytes by their lower six bits, all of ASCII as
 * one. */
enum { ASCII_BYTE = 64, NEIGHBOURS = 65 };

static unsigned neighbour(uint8_t byte) {
    return byte < 0x80 ? ASCII_BYTE : byte & 63;
}

/* The least ranks at which a part of a character merges with a neighbour, by the neighbour's
 * byte. */
typedef uint32_t crossing_row[NEIGHBOURS];
struct crossings {
    uint8_t *kinds;  /* by id */
    uint32_t *rows;  /* by id; 0: the empty row */
    uint32_t *whole; /* by id of a character: the least rank at which it merges with anything */
    VEC(crossing_row) ranks;
};

static uint8_t symbol_kind_of(struct bytes key) {
    size_t inside = 0;
    if (!key.len || key.data[0] < 0x80)
        return 0;
    while (inside < key.len && (key.data[inside] & 0xC0) == 0x80)
        inside++;
    if (inside)
        return (uint8_t)(BEGINS_INSIDE | (inside == key.len && inside < 4 ? ENDS_CHAR : 0));
    if (key.len > 3 || key.data[0] > 0xF4)
        return 0;
    if (utf8_is_partial(key.data, key.len))
        return BEGINS_CHAR;
    return key.len == (key.data[0] < 0xE0 ? 2u : 3u) && utf8_valid(key.data, key.len) ? IS_CHAR : 0;
}

static uint32_t add_row(struct crossings *c) {
    uint32_t row = (uint32_t)c->ranks.count;
    vec_reserve(&c->ranks, c->ranks.count + 1);
    memset(c->ranks.items[c->ranks.count++], 0xFF, sizeof(crossing_row));
    return row;
}

static void note_crossing(struct crossings *c, uint32_t id, uint8_t byte, uint32_t rank) {
    if (!c->rows[id])
        c->rows[id] = add_row(c);
    uint32_t *lowest = &c->ranks.items[c->rows[id]][neighbour(byte)];
    *lowest = MIN(*lowest, rank);
}

static void note_whole(struct crossings *c, uint32_t id, uint32_t rank) {
    if (c->kinds[id] & IS_CHAR)
        c->whole[id] = MIN(c->whole[id], rank);
}

static void find_crossings(const struct bpe *b, struct crossings *c) {
    const struct vocab *v = b->vocab;
    c->kinds = mem_calloc(v->entries.count, 1);
    c->rows = mem_calloc(v->entries.count, sizeof *c->rows);
    c->whole = mem_calloc(v->entries.count, sizeof *c->whole);
    memset(c->whole, 0xFF, v->entries.count * sizeof *c->whole);
    add_row(c);
    for (uint32_t id = 0; id < v->entries.count; id++)
        c->kinds[id] = symbol_kind_of(vocab_key(v, id));
    for (uint32_t i = 0; i < b->merge_count; i++) {
        const struct bpe_merge *m = &b->merges[i];
        note_whole(c, m->left, m->rank);
        note_whole(c, m->right, m->rank);
        bool is_left = c->kinds[m->right] & BEGINS_CHAR;
        bool is_right = c->kinds[m->left] & ENDS_CHAR && !(c->kinds[m->right] & BEGINS_INSIDE);
        struct bytes left = is_left ? vocab_key(v, m->left) : NO_BYTES;
        struct bytes right = is_right ? vocab_key(v, m->right) : NO_BYTES;
        if (left.len)
            note_crossing(c, m->right, left.data[left.len - 1], m->rank);
        if (right.len)
            note_crossing(c, m->left, right.data[0], m->rank);
    }
}

static void release_crossings(struct crossings *c) {
    mem_free(c->kinds);
    mem_free(c->rows);
    mem_free(c->whole);
    vec_release(&c->ranks);
}

/* The neighbours with which the symbol may merge at a rank up to `rank`. */
static void add_dangers(const struct crossings *c, uint32_t symbol, uint32_t rank, uint64_t *bytes,
                        uint8_t *ascii) {
    const uint32_t *row = c->ranks.items[c->rows[symbol]];
    uint64_t found = 0;
    for (unsigned i = 0; i < ASCII_BYTE; i++)
        found |= (uint64_t)(row[i] <= rank) << i;
    *bytes |= found;
    *ascii |= row[ASCII_BYTE] <= rank;
}

/* Position of the pair to merge first of count symbols, its merge in *best. */
static size_t first_pair(const struct bpe *b, const uint32_t *ids, size_t count,
                         const struct bpe_merge **best) {
    size_t at = 0;
    *best = &BPE_NO_MERGE;
    for (size_t i = 0; i + 1 < count; i++) {
        const struct bpe_merge *m = find_pair(b, ids[i], ids[i + 1]);
        if (m->rank >= (*best)->rank)
            continue;
        *best = m;
        at = i;
    }
    return at;
}

/* False where the character's bytes alone do not become one token, or not in time. */
static bool make_char(const struct bpe *b, const struct crossings *c, struct bytes bytes,
                      struct bpe_char *out) {
    uint32_t ids[3], firsts[3], lasts[3], highest = 0;
    size_t count = bytes.len, steps = 0;
    for (size_t i = 0; i < count; i++)
        ids[i] = b->ascii_ids[bytes.data[i]];
    for (; count > 1; count--) {
        const struct bpe_merge *best;
        size_t at = first_pair(b, ids, count, &best);
        if (best->rank == NONE)
            return false;
        firsts[steps] = ids[0];
        lasts[steps++] = ids[count - 1];
        highest = MAX(highest, best->rank);
        ids[at] = best->result;
        for (size_t i = at + 1; i + 1 < count; i++)
            ids[i] = ids[i + 1];
    }
    if (c->whole[ids[0]] <= highest)
        return false;
    *out = (struct bpe_char){.id = ids[0]};
    for (size_t i = 0; i < steps; i++) {
        add_dangers(c, firsts[i], highest, &out->left, &out->ascii_left);
        add_dangers(c, lasts[i], highest, &out->right, &out->ascii_right);
    }
    return true;
}

void bpe_make_chars(struct bpe *b) {
    struct crossings c = {0};
    VEC(struct bpe_char) chars = {0};
    b->char_rows = mem_calloc(BPE_CHARS, sizeof *b->char_rows);
    vec_push(&chars, ((struct bpe_char){.id = NONE}));
    find_crossings(b, &c);
    for (uint32_t id = 0; id < b->vocab->entries.count && chars.count < UINT16_MAX; id++) {
        struct bytes key = vocab_key(b->vocab, id);
        struct bpe_char made;
        uint32_t cp;
        if (!(c.kinds[id] & IS_CHAR))
            continue;
        unicode_next(key.data, &cp);
        if (b->char_rows[cp] || !make_char(b, &c, key, &made))
            continue;
        b->char_rows[cp] = (uint16_t)chars.count;
        vec_push(&chars, made);
    }
    release_crossings(&c);
    b->chars = chars.items;
    b->char_count = (uint32_t)chars.count;
}

/* The character of n bytes at p, within [begin, end), or NULL where it is to be taken as bytes. */
static inline const struct bpe_char *certain_char(const struct bpe *b, const uint8_t *begin,
                                                  const uint8_t *p, size_t n, uint32_t cp,
                                                  const uint8_t *end) {
    const struct bpe_char *c = &b->chars[b->char_rows[cp]];
    unsigned before = p > begin ? p[-1] : 0, after = p + n < end ? p[n] : 0;
    if (c->id == NONE)
        return NULL;
    if (p > begin && (before < 0x80 ? c->ascii_left : c->left >> (before & 63) & 1))
        return NULL;
    if (p + n < end && (after < 0x80 ? c->ascii_right : c->right >> (after & 63) & 1))
        return NULL;
    return c;
}

size_t bpe_char_symbols(const struct bpe *b, const uint8_t *piece, size_t len, uint32_t *ids,
                        size_t max) {
    size_t count = 0;
    for (size_t i = 0, n; i < len; i += n) {
        const struct bpe_char *c = NULL;
        uint32_t cp = piece[i];
        n = 1;
        if (cp >= 0xC2 && cp < 0xF0 && i + (cp < 0xE0 ? 2 : 3) <= len) {
            n = unicode_next(piece + i, &cp);
            c = certain_char(b, piece, piece + i, n, cp, piece + len);
        }
        size_t made = c ? 1 : n;
        if (count + made > max)
            return 0;
        if (c)
            ids[count] = c->id;
        for (size_t k = 0; !c && k < n; k++)
            ids[count + k] = b->ascii_ids[piece[i + k]];
        count += made;
    }
    return count;
}
