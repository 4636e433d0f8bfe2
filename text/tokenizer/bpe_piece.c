/*
 * bpe_piece.c - the tokens of one piece: from the caches, as a token by itself, or by merging its symbols.
 */
#include <sys/mman.h>

#include "text/tokenizer/bpe_caches.h"
#include "text/unicode.h"

enum { WHOLE_BYTES_MAX = 48 }; /* longer pieces are hardly ever tokens */

/* ---- symbols ---- */

static bool add_fallback(const struct bpe *b, struct bpe_scratch *s, const uint8_t *c, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (b->fallback_ids[c[i]] == NONE) return false;
    for (size_t i = 0; i < len; i++) vec_push(&s->ids, b->fallback_ids[c[i]]);
    return true;
}

/* The character as the vocabulary has it in its place in the word. Returns its bytes. */
static size_t add_affixes(const struct bpe *b, const uint8_t *c, size_t len, bool first, bool last, char *out) {
    size_t n = 0, prefix = first ? 0 : strlen(b->prefix), suffix = last ? strlen(b->suffix) : 0;
    memcpy(out, b->prefix, prefix);
    n += prefix;
    memcpy(out + n, c, len);
    n += len;
    memcpy(out + n, b->suffix, suffix);
    return n + suffix;
}

/* The symbols of one character, as the vocabulary has it; returns how many. *unk_pending: an unknown one before it. */
static size_t add_symbol(const struct bpe *b, struct bpe_scratch *s, const uint8_t *symbol, size_t len,
                         bool *unk_pending) {
    uint32_t id = len == 1 ? b->ascii_ids[*symbol] : vocab_find(b->vocab, symbol, len);
    if (id != NONE) {
        if (*unk_pending) vec_push(&s->ids, b->unk_id);
        *unk_pending = false;
        vec_push(&s->ids, id);
        return 1;
    }
    if (b->byte_fallback && add_fallback(b, s, symbol, len)) return len;
    if (b->unk_id == NONE) return 0;
    if (*unk_pending && !b->fuse_unk) vec_push(&s->ids, b->unk_id);
    *unk_pending = true;
    return 0;
}

/* Appends the last `made` symbols again for each time that the character of n bytes at p follows itself before end.
 * Returns the bytes passed over. */
static size_t repeat_symbols(struct bpe_scratch *s, size_t made, const uint8_t *p, size_t n, const uint8_t *end) {
    const uint8_t *next = p + n;
    while ((size_t)(end - next) >= n && !memcmp(next, p, n)) {
        vec_reserve(&s->ids, s->ids.count + made);
        memcpy(s->ids.items + s->ids.count, s->ids.items + s->ids.count - made, made * sizeof *s->ids.items);
        s->ids.count += made;
        next += n;
    }
    return (size_t)(next - p) - n;
}

/* One symbol a character (byte, at byte level). An unknown one falls back to bytes, else is the unknown token (adjacent
 * ones fused where the model says so), else is dropped. A pending unknown is put before the next *known* character, as
 * HF does. */
static void split_symbols(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len) {
    s->ids.count = 0;
    vec_reserve(&s->ids, len + 1);
    bool unk_pending = false;
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t cp;
        n = b->vocab->byte_level ? 1 : unicode_next(piece + i, &cp);
        if (b->has_affix) {
            char text[2 * BPE_AFFIX_MAX + 5];
            size_t text_len = add_affixes(b, piece + i, n, i == 0, i + n == len, text);
            add_symbol(b, s, (const uint8_t *)text, text_len, &unk_pending);
            continue;
        }
        size_t made = add_symbol(b, s, piece + i, n, &unk_pending);
        if (made) i += repeat_symbols(s, made, piece + i, n, piece + len);
    }
    if (unk_pending) vec_push(&s->ids, b->unk_id);
}

/* ---- short pieces ---- */

/* Pieces of few bytes: straight from the tables, in place in `out`. */
static void encode_short_bytes(const struct bpe *b, const uint8_t *piece, size_t len, struct token_vec *out) {
    vec_reserve(out, out->count + len);
    uint32_t *ids = out->items + out->count;
    for (size_t i = 0; i < len; i++) ids[i] = b->ascii_ids[piece[i]];
    out->count += len > 1 ? b->merge_short(b, ids, len, piece) : len;
}

/* ---- a piece ---- */

static void release_lists(struct bpe_scratch *s) {
    vec_release(&s->ids);
    vec_release(&s->next);
    vec_release(&s->prev);
    vec_release(&s->entries);
    vec_release(&s->order);
    vec_release(&s->order_other);
    vec_release(&s->heap);
    vec_release(&s->runs);
    for (int i = 0; i < 2; i++) vec_release(&s->spaced[i]);
}

void bpe_scratch_trim(struct bpe_scratch *s, size_t symbols_max) {
    if (MAX(s->ids.cap, MAX(s->spaced[0].cap, s->spaced[1].cap)) > symbols_max) release_lists(s);
}

void bpe_scratch_release(struct bpe_scratch *s) {
    release_lists(s);
    mem_free(s->buckets);
    if (s->caches_memory) munmap(s->caches_memory, s->caches_size);
    for (int level = 0; level < 4; level++) mem_free(s->bits[level]);
    *s = (struct bpe_scratch){0};
}

/* bytes: each symbol is that of one byte. */
static void encode_uncut(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len, bool bytes,
                         struct token_vec *out) {
    split_symbols(b, s, piece, len);
    size_t count = s->ids.count;
    if (count > b->short_max)
        count = bpe_merge_long(b, s, bytes ? piece : NULL);
    else if (count > 1)
        count = b->merge_short(b, s->ids.items, count, NULL);
    if (!count) return; /* all characters unknown, and no token for that */
    vec_reserve(out, out->count + count);
    memcpy(out->items + out->count, s->ids.items, count * sizeof *out->items);
    out->count += count;
}

/* End of the part of piece that begins at `at`: no merge crosses it. */
static size_t find_cut(const struct bpe *b, const uint8_t *piece, size_t at, size_t len) {
    for (at++; at < len; at++) {
        unsigned pair = (unsigned)piece[at - 1] << 8 | piece[at];
        if (!bpe_is_inner(b, pair)) break;
    }
    return at;
}

static void encode_merging(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len,
                           struct token_vec *out);

/* Each of the piece's bytes has its symbol. */
static bool is_of_symbols(const struct bpe *b, const uint8_t *piece, size_t len) {
    for (size_t i = 0; b->lacks_bytes && i < len; i++)
        if (b->ascii_ids[piece[i]] == NONE) return false;
    return true;
}

/* A piece that is mostly characters of several bytes, from those; false: it is none, or has too many. */
static bool encode_chars(const struct bpe *b, const uint8_t *piece, size_t len, struct token_vec *out) {
    uint32_t ids[BPE_SHORT_MAX];
    size_t max = MIN(len * 2 / 3, (size_t)b->short_max), count;
    if (piece[0] < 0x80 && (len < 4 || piece[len / 2] < 0x80)) return false;
    count = bpe_char_symbols(b, piece, len, ids, max);
    if (!count) return false;
    if (count > 1) count = b->merge_short(b, ids, count, NULL);
    vec_reserve(out, out->count + count);
    memcpy(out->items + out->count, ids, count * sizeof *ids);
    out->count += count;
    return true;
}

void bpe_encode_part(const struct bpe *b, struct bpe_scratch *s, const uint8_t *part, size_t len, const uint8_t *limit,
                     struct token_vec *out) {
    struct word_place place;
    if (len > WORD_BYTES_MAX) {
        encode_merging(b, s, part, len, out);
        return;
    }
    if (words_take(s, part, len, WORD_IS_PART, limit, &place, out)) return;
    if (!b->chars || !encode_chars(b, part, len, out)) encode_short_bytes(b, part, len, out);
    words_put(s, &place, out);
}

static void encode_merging(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len,
                           struct token_vec *out) {
    bool bytes = b->byte_pairs && is_of_symbols(b, piece, len);
    if (bytes && b->chars && encode_chars(b, piece, len, out)) return;
    for (size_t at = 0, end; at < len; at = end) {
        bool is_short = bytes && len - at <= b->short_max;
        end = is_short || !bytes ? len : find_cut(b, piece, at, len);
        if (!bytes || end - at > b->short_max)
            encode_uncut(b, s, piece + at, end - at, bytes, out);
        else if (is_short || end - at > WORD_BYTES_MAX)
            encode_short_bytes(b, piece + at, end - at, out);
        else
            bpe_encode_part(b, s, piece + at, end - at, piece + len, out);
    }
}

/* A piece that is a token by itself is that token: always with ignore_merges, else once merging was seen to end there.
 */
static void encode_uncached(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len,
                            const uint8_t *limit, struct token_vec *out) {
    if (bpe_is_far(b, piece, len) && bpe_encode_far(b, s, piece, len, limit, out)) return; /* no token by itself */
    uint32_t whole = len <= WHOLE_BYTES_MAX || b->ignore_merges ? vocab_find(b->vocab, piece, len) : NONE;
    uint8_t known = whole == NONE ? 0 : __atomic_load_n(&b->vocab->flags[whole], __ATOMIC_RELAXED);
    if (whole != NONE && (b->ignore_merges || known & VOCAB_ALWAYS_WHOLE)) {
        vec_push(out, whole);
        return;
    }
    size_t before = out->count;
    encode_merging(b, s, piece, len, out);
    if (b->unused_count) bpe_cut_unused(b, before, out);
    if (whole == NONE || known & VOCAB_NEVER_WHOLE) return;
    bool is_whole = out->count == before + 1 && out->items[before] == whole;
    __atomic_fetch_or(&b->vocab->flags[whole], is_whole ? VOCAB_ALWAYS_WHOLE : VOCAB_NEVER_WHOLE, __ATOMIC_RELAXED);
}

/* Fresh zeros, in large pages where the system has them: the caches are touched all over, and each first touch of a
 * small page would cost as much as several words. */
void bpe_make_caches(struct bpe_scratch *s) {
    enum { LARGE_PAGE = 2 << 20 };
    size_t size = sizeof *s->caches + LARGE_PAGE;
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    s->caches_memory = memory;
    s->caches_size = size;
    s->caches = (struct bpe_caches *)(((uintptr_t)memory + LARGE_PAGE - 1) & ~(uintptr_t)(LARGE_PAGE - 1));
    (void)madvise(s->caches, sizeof *s->caches, MADV_HUGEPAGE);
}

/* By the cache of long pieces. */
static void encode_long(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len,
                        const uint8_t *limit, struct token_vec *out) {
    struct piece_place place;
    if (pieces_take(b, s, piece, len, &place, out)) return;
    encode_uncached(b, s, piece, len, limit, out);
    pieces_put(s, &place, piece, len, out);
}

void bpe_encode(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len, const uint8_t *limit,
                struct token_vec *out) {
    struct word_place place;
    bpe_need_caches(s);
    if (len > WORD_BYTES_MAX) {
        (len > PIECE_BYTES_MAX ? encode_uncached : encode_long)(b, s, piece, len, limit, out);
        return;
    }
    if (words_take(s, piece, len, 0, limit, &place, out)) return;
    (len > WORD_IDS_MAX ? encode_long : encode_uncached)(b, s, piece, len, limit, out);
    words_put(s, &place, out);
}
