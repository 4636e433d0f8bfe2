/*
 * bpe_cached.c - the tokens of one piece from the caches, else by parts that merge on their own.
 */
#include <sys/mman.h>

#include "text/tokenizer/fast/bpe_caches.h"
#include "text/tokenizer/fast/fast.h"

/* ---- tables ---- */

void fast_init(struct bpe *b, size_t merge_count) {
    if (!b->vocab->byte_level)
        bpe_cuts_init(&b->cuts, b->vocab, merge_count);
}

void fast_add_merge(struct bpe *b, uint32_t left, uint32_t right, uint32_t result) {
    if (b->cuts.cut_bits)
        bpe_cuts_add(&b->cuts, b->vocab, left, right, result);
}

void fast_release(struct bpe *b) {
    mem_free(b->inner_pairs);
    mem_free(b->byte_pairs);
    bpe_cuts_release(&b->cuts);
    mem_free(b->char_rows);
    mem_free(b->chars);
    b->char_rows = NULL;
    b->chars = NULL;
    b->inner_pairs = NULL;
    b->byte_pairs = NULL;
}

static void make_inner_pairs(struct bpe *b) {
    b->inner_pairs = mem_calloc(65536 / 64, sizeof *b->inner_pairs);
    for (uint32_t id = 0; id < b->vocab->entries.count; id++) {
        struct bytes key = vocab_key(b->vocab, id);
        for (size_t i = 0; i + 1 < key.len; i++) {
            unsigned pair = (unsigned)key.data[i] << 8 | key.data[i + 1];
            b->inner_pairs[pair / 64] |= (uint64_t)1 << pair % 64;
        }
    }
}

static void finish_cuts(struct bpe *b) {
    for (unsigned i = 0; i < 256; i++)
        if (b->fallback_ids[i] == NONE)
            b->cuts.known = false;
    bool drops = !b->cuts.known && b->unk_id == NONE; /* what stood apart may meet */
    if (b->has_affix || b->ignore_merges || drops)
        bpe_cuts_release(&b->cuts);
    if (!b->cuts.known)
        b->cuts.line_ends = false;
    if (b->cuts.cut_bits && bpe_cuts_symbol(&b->cuts, METASPACE_CHAR) == NONE)
        b->cuts.words = false;
}

void fast_finish(struct bpe *b, bool is_large) {
    finish_cuts(b);
    if (!b->vocab->byte_level || !is_large || b->has_affix)
        return;
    make_inner_pairs(b);
    for (unsigned i = 0; i < 256; i++)
        b->lacks_bytes |= b->ascii_ids[i] == NONE;
    bpe_make_byte_pairs(b);
    if (b->lacks_bytes)
        return;
    bpe_make_chars(b);
    bpe_make_cuts(b);
}

void fast_scratch_release(struct bpe_scratch *s) {
    if (s->caches_memory)
        munmap(s->caches_memory, s->caches_size);
    s->caches = NULL;
    s->caches_memory = NULL;
}

/* ---- a piece ---- */

/* Pieces of few bytes: straight from the tables, in place in `out`. */
static void encode_short_bytes(const struct bpe *b, const uint8_t *piece, size_t len,
                               struct token_vec *out) {
    vec_reserve(out, out->count + len);
    uint32_t *ids = out->items + out->count;
    for (size_t i = 0; i < len; i++)
        ids[i] = b->ascii_ids[piece[i]];
    out->count += len > 1 ? bpe_merge_vectors(b, ids, len, piece) : len;
}

/* End of the subpiece of piece that begins at `at`: no merge crosses it. */
static size_t find_cut(const struct bpe *b, const uint8_t *piece, size_t at, size_t len) {
    for (at++; at < len; at++) {
        unsigned pair = (unsigned)piece[at - 1] << 8 | piece[at];
        if (!bpe_is_inner(b, pair))
            break;
    }
    return at;
}

static void encode_merging(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece,
                           size_t len, struct token_vec *out);

static void encode_uncut(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece,
                         size_t len, struct token_vec *out) {
    bpe_split_symbols(b, s, piece, len);
    size_t count = bpe_merge_fast(b, s);
    bpe_append(out, s->ids.items, count);
}

/* Each of the piece's bytes has its symbol. */
static bool is_of_symbols(const struct bpe *b, const uint8_t *piece, size_t len) {
    for (size_t i = 0; b->lacks_bytes && i < len; i++)
        if (b->ascii_ids[piece[i]] == NONE)
            return false;
    return true;
}

/* A piece that is mostly characters of several bytes, from those; false: it is none, or has too
 * many. */
static bool encode_chars(const struct bpe *b, const uint8_t *piece, size_t len,
                         struct token_vec *out) {
    uint32_t ids[BPE_SHORT_MAX];
    size_t max = MIN(len * 2 / 3, (size_t)b->short_max), count;
    if (piece[0] < 0x80 && (len < 4 || piece[len / 2] < 0x80))
        return false;
    count = bpe_char_symbols(b, piece, len, ids, max);
    if (!count)
        return false;
    if (count > 1)
        count = bpe_merge_vectors(b, ids, count, NULL);
    bpe_append(out, ids, count);
    return true;
}

void bpe_encode_subpiece(const struct bpe *b, struct bpe_scratch *s, const uint8_t *subpiece,
                         size_t len, const uint8_t *limit, struct token_vec *out) {
    struct word_place place;
    if (len > WORD_BYTES_MAX) {
        encode_merging(b, s, subpiece, len, out);
        return;
    }
    if (words_find(s, subpiece, len, WORD_IS_SUBPIECE, limit, &place, out))
        return;
    if (!b->chars || !encode_chars(b, subpiece, len, out))
        encode_short_bytes(b, subpiece, len, out);
    words_add(s, &place, out);
}

static void encode_merging(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece,
                           size_t len, struct token_vec *out) {
    bool bytes = b->inner_pairs && is_of_symbols(b, piece, len);
    if (bytes && b->chars && encode_chars(b, piece, len, out))
        return;
    for (size_t at = 0, end; at < len; at = end) {
        bool is_short = bytes && len - at <= b->short_max;
        end = is_short || !bytes ? len : find_cut(b, piece, at, len);
        if (!bytes || end - at > b->short_max)
            encode_uncut(b, s, piece + at, end - at, out);
        else if (is_short || end - at > WORD_BYTES_MAX)
            encode_short_bytes(b, piece + at, end - at, out);
        else
            bpe_encode_subpiece(b, s, piece + at, end - at, piece + len, out);
    }
}

/* With ignore_merges a piece that is a token by itself is that token. */
static void encode_uncached(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece,
                            size_t len, const uint8_t *limit, struct token_vec *out) {
    /* no token by itself */
    if (bpe_is_wide(b, piece, len) && bpe_encode_wide(b, s, piece, len, limit, out))
        return;
    uint32_t whole = b->ignore_merges ? vocab_find(b->vocab, piece, len) : NONE;
    if (whole != NONE) {
        vec_push(out, whole);
        return;
    }
    size_t before = out->count;
    encode_merging(b, s, piece, len, out);
    if (b->unused_count)
        bpe_cut_unused(b, before, out);
}

/* Fresh zeros, in large pages where the system has them: the caches are touched all over, and each
 * first touch of a small page would cost as much as several words. */
void bpe_make_caches(struct bpe_scratch *s) {
    enum { LARGE_PAGE = 2 << 20 };
    size_t size = sizeof *s->caches + LARGE_PAGE;
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    s->caches_memory = memory;
    s->caches_size = size;
    s->caches =
        (struct bpe_caches *)(((uintptr_t)memory + LARGE_PAGE - 1) & ~(uintptr_t)(LARGE_PAGE - 1));
    (void)madvise(s->caches, sizeof *s->caches, MADV_HUGEPAGE);
}

/* By the cache of long pieces. */
static void encode_long(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece,
                        size_t len, const uint8_t *limit, struct token_vec *out) {
    struct piece_place place;
    if (pieces_find(b, s, piece, len, &place, out))
        return;
    encode_uncached(b, s, piece, len, limit, out);
    pieces_add(s, &place, piece, len, out);
}

void fast_encode_piece(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len,
                       const uint8_t *limit, struct token_vec *out) {
    struct word_place place;
    bpe_need_caches(s);
    if (len > WORD_BYTES_MAX) {
        (len > PIECE_BYTES_MAX ? encode_uncached : encode_long)(b, s, piece, len, limit, out);
        return;
    }
    if (words_find(s, piece, len, 0, limit, &place, out))
        return;
    (len > WORD_IDS_MAX ? encode_long : encode_uncached)(b, s, piece, len, limit, out);
    words_add(s, &place, out);
}
