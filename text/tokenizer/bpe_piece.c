/*
 * bpe_piece.c - the tokens of one piece: its symbols, merged.
 */
#include "text/tokenizer/bpe_internal.h"
#include "text/tokenizer/fast/fast.h"
#include "text/unicode.h"

/* ---- symbols ---- */

static bool add_fallback(const struct bpe *b, struct bpe_scratch *s, const uint8_t *c, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (b->fallback_ids[c[i]] == NONE)
            return false;
    for (size_t i = 0; i < len; i++)
        vec_push(&s->ids, b->fallback_ids[c[i]]);
    return true;
}

/* The character as the vocabulary has it in its place in the word. Returns its bytes. */
static size_t add_affixes(const struct bpe *b, const uint8_t *c, size_t len, bool first, bool last,
                          char *out) {
    size_t n = 0, prefix = first ? 0 : strlen(b->prefix), suffix = last ? strlen(b->suffix) : 0;
    memcpy(out, b->prefix, prefix);
    n += prefix;
    memcpy(out + n, c, len);
    n += len;
    memcpy(out + n, b->suffix, suffix);
    return n + suffix;
}

/* Appends the symbols of one character, as the vocabulary has it. *unk_pending: an unknown one
 * before it. */
static void add_symbol(const struct bpe *b, struct bpe_scratch *s, const uint8_t *symbol,
                       size_t len, bool *unk_pending) {
    uint32_t id = len == 1 ? b->ascii_ids[*symbol] : vocab_find(b->vocab, symbol, len);
    if (id != NONE) {
        if (*unk_pending)
            vec_push(&s->ids, b->unk_id);
        *unk_pending = false;
        vec_push(&s->ids, id);
        return;
    }
    if ((b->byte_fallback && add_fallback(b, s, symbol, len)) || b->unk_id == NONE)
        return;
    if (*unk_pending && !b->fuse_unk)
        vec_push(&s->ids, b->unk_id);
    *unk_pending = true;
}

/* One symbol a character (byte, at byte level). An unknown one falls back to bytes, else is the
 * unknown token (adjacent ones fused where the model says so), else is dropped. A pending unknown
 * is put before the next *known* character, as HF does. */
void bpe_split_symbols(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece,
                       size_t len) {
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
        add_symbol(b, s, piece + i, n, &unk_pending);
    }
    if (unk_pending)
        vec_push(&s->ids, b->unk_id);
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
    for (int i = 0; i < 2; i++)
        vec_release(&s->spaced[i]);
}

void bpe_scratch_trim(struct bpe_scratch *s, size_t symbols_max) {
    if (MAX(s->ids.cap, MAX(s->spaced[0].cap, s->spaced[1].cap)) > symbols_max)
        release_lists(s);
}

void bpe_scratch_release(struct bpe_scratch *s) {
    release_lists(s);
    mem_free(s->buckets);
    fast_scratch_release(s);
    for (int level = 0; level < 4; level++)
        mem_free(s->bits[level]);
    *s = (struct bpe_scratch){0};
}

/* Appends the piece's tokens by merging its symbols. */
static void encode_merged(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece,
                          size_t len, struct token_vec *out) {
    bpe_split_symbols(b, s, piece, len);
    size_t count = s->ids.count;
    if (count > b->short_max)
        count = bpe_merge_long(b, s);
    else if (count > 1)
        count = bpe_merge_short(b, s->ids.items, count);
    bpe_append(out, s->ids.items, count); /* 0: all unknown, and no token for that */
}

void bpe_encode(const struct bpe *b, struct bpe_scratch *s, const uint8_t *piece, size_t len,
                struct token_vec *out) {
    uint32_t whole = b->ignore_merges ? vocab_find(b->vocab, piece, len) : NONE;
    size_t before = out->count;
    CHECK(len > 0);
    if (whole != NONE) {
        vec_push(out, whole);
        return;
    }
    encode_merged(b, s, piece, len, out);
    if (b->unused_count)
        bpe_cut_unused(b, before, out);
}
