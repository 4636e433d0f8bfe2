#include "text/tokenizer/token_spans.h"

#include "text/unicode.h"

struct walk {
    const struct tokenizer *t;
    struct bytes piece;
    struct tokens ids;
};

static bool starts_with(struct bytes s, struct bytes start) {
    return s.len >= start.len && !memcmp(s.data, start.data, start.len);
}

/* Bytes of `rest` that are the key, which may begin with the model's prefix and end with its
 * suffix; 0: it is not. */
static size_t match_affixed(struct bytes key, const char *prefix, const char *suffix,
                            struct bytes rest) {
    struct bytes front = bytes_str(prefix), back = bytes_str(suffix);
    if (front.len && starts_with(key, front))
        key = bytes_of(key.data + front.len, key.len - front.len);
    if (starts_with(rest, key))
        return key.len;
    if (!back.len || key.len < back.len || key.len - back.len != rest.len)
        return 0;
    return memcmp(key.data + rest.len, back.data, back.len) || memcmp(key.data, rest.data, rest.len)
               ? 0
               : rest.len;
}

/* Bytes at `at` that the token spells; 0: it spells something else. */
static size_t match_token(const struct walk *w, uint32_t id, size_t at) {
    const struct tokenizer *t = w->t;
    struct bytes key = vocab_key(&t->vocab, id),
                 rest = bytes_of(w->piece.data + at, w->piece.len - at);
    if (!key.len)
        return 0;
    if (starts_with(rest, key))
        return key.len;
    if (t->model == MODEL_WORDPIECE)
        return at ? match_affixed(key, t->wordpiece.prefix, "", rest) : 0;
    if (t->model != MODEL_BPE || !t->bpe.has_affix)
        return 0;
    return match_affixed(key, at ? t->bpe.prefix : "", t->bpe.suffix, rest);
}

static bool is_byte(const struct tokenizer *t, uint32_t id, uint8_t byte) {
    if (t->model == MODEL_BPE)
        return t->bpe.byte_fallback && t->bpe.fallback_ids[byte] == id;
    if (t->model == MODEL_WORDLEVEL)
        return t->wordlevel.byte_fallback && t->wordlevel.fallback_ids[byte] == id;
    return t->model == MODEL_UNIGRAM && t->unigram.byte_fallback &&
           t->unigram.fallback_ids[byte] == id;
}

/* What the model takes for a character. */
static size_t character_len(const struct walk *w, size_t at) {
    uint32_t cp;
    if (w->t->vocab.byte_level)
        return 1;
    return MIN(unicode_next(w->piece.data + at, &cp), w->piece.len - at);
}

static uint32_t unknown_id(const struct tokenizer *t) {
    switch (t->model) {
    case MODEL_BPE: return t->bpe.unk_id;
    case MODEL_UNIGRAM: return t->unigram.unk_id;
    case MODEL_WORDPIECE: return t->wordpiece.unk_id;
    case MODEL_WORDLEVEL: return t->wordlevel.unk_id;
    case MODEL_GREEDY: break;
    }
    return TOKEN_NONE;
}

/* Of an unknown token at `at`; next: the index of the token behind it. */
static size_t unknown_len(const struct walk *w, size_t at, size_t next) {
    const struct tokenizer *t = w->t;
    bool unigram = t->model == MODEL_UNIGRAM,
         fused = unigram ? t->unigram.fuse_unk : t->bpe.fuse_unk;
    if (t->model == MODEL_WORDPIECE || t->model == MODEL_WORDLEVEL ||
        (fused && next == w->ids.count))
        return w->piece.len - at;
    size_t end = at;
    do { /* HF's Unigram takes the unknown token's own spelling for one, too */
        size_t spelled = unigram && !t->spm_offsets ? match_token(w, unknown_id(t), end) : 0;
        end += spelled ? spelled : character_len(w, end);
    } while (fused && end < w->piece.len && !match_token(w, w->ids.ids[next], end) &&
             !is_byte(t, w->ids.ids[next], w->piece.data[end]));
    return end - at;
}

static bool has_symbol(const struct walk *w, size_t at) {
    return vocab_find(&w->t->vocab, w->piece.data + at, character_len(w, at)) != TOKEN_NONE;
}

/* Bytes of a token of BPE without the prefix and the suffix that a word's symbols have. */
static size_t bare_len(const struct walk *w, uint32_t id, size_t at, bool last) {
    struct bytes key = vocab_key(&w->t->vocab, id), front = bytes_str(w->t->bpe.prefix);
    size_t suffix = strlen(w->t->bpe.suffix);
    if (w->t->model != MODEL_BPE)
        return key.len;
    bool spelled = at == 0 && starts_with(w->piece, key);
    size_t taken = front.len && !spelled && starts_with(key, front) ? front.len : 0;
    if (last && suffix && key.len >= taken + suffix &&
        !memcmp(key.data + key.len - suffix, w->t->bpe.suffix, suffix))
        taken += suffix;
    return key.len - taken;
}

static size_t token_len(const struct walk *w, size_t at, size_t i) {
    const struct tokenizer *t = w->t;
    uint32_t id = w->ids.ids[i];
    bool spelled = id != unknown_id(t) || (t->model == MODEL_BPE && has_symbol(w, at));
    size_t n = spelled ? match_token(w, id, at) : 0;
    if (n)
        return n;
    if (is_byte(t, id, w->piece.data[at]))
        return 1;
    if (id == unknown_id(t))
        return unknown_len(w, at, i + 1);
    /* A character before this one had no symbol and is left out; HF counts on as if it were not
     * there. */
    return MIN(MAX(bare_len(w, id, at, i + 1 == w->ids.count), 1), w->piece.len - at);
}

/* Tokens from i on that are the bytes from `at` on, one by one. */
static size_t count_bytes(const struct walk *w, size_t at, size_t i) {
    size_t n = 0;
    while (i + n < w->ids.count && at + n < w->piece.len &&
           is_byte(w->t, w->ids.ids[i + n], w->piece.data[at + n]) &&
           !match_token(w, w->ids.ids[i + n], at + n))
        n++;
    return n;
}

/* Spans of n byte tokens of unknown text. */
static void add_bytes(const struct walk *w, const struct offset_view *view, size_t at, size_t n,
                      struct offset_map *out) {
    struct offset_span whole = offset_of(view, bytes_of(w->piece.data + at, n));
    if (!w->t->spm_offsets) {
        offset_map_add(out, whole, n);
        return;
    }
    for (size_t i = 0, len; i < n; i += len) {
        len = MIN(character_len(w, at + i), n - i);
        struct offset_span span = offset_of(view, bytes_of(w->piece.data + at + i, len));
        offset_map_add(out, (struct offset_span){span.begin, span.begin}, len - 1);
        offset_map_add(out, span, 1);
    }
}

/* Bytes that a byte-level model has no symbol for are left out, and HF counts on in the byte
 * alphabet's characters as if they were not there: offsets behind them are too low. */
static bool lacks_symbols(const struct walk *w) {
    size_t spelled = 0;
    if (!w->t->vocab.byte_level || w->t->model != MODEL_BPE || unknown_id(w->t) != TOKEN_NONE)
        return false;
    for (size_t i = 0; i < w->ids.count; i++)
        spelled += vocab_key(&w->t->vocab, w->ids.ids[i]).len;
    return spelled < w->piece.len;
}

static void add_lacking(const struct walk *w, const struct offset_view *view,
                        struct offset_map *out) {
    struct offset_map mapped = {0}; /* of the piece in the byte alphabet */
    size_t at = 0;
    for (size_t i = 0; i < w->piece.len; i++)
        offset_map_add(&mapped, offset_at(view, w->piece.data + i),
                       byte_alphabet_width(w->piece.data[i]));
    for (size_t i = 0; i < w->ids.count; i++) {
        struct bytes key = vocab_key(&w->t->vocab, w->ids.ids[i]);
        size_t begin = MIN(at, mapped.spans.count - 1);
        for (size_t k = 0; k < key.len; k++)
            at += byte_alphabet_width(key.data[k]);
        size_t last = MIN(MAX(at, 1), mapped.spans.count) - 1;
        offset_map_add(
            out,
            (struct offset_span){mapped.spans.items[begin].begin, mapped.spans.items[last].end}, 1);
    }
    vec_release(&mapped.spans);
}

void token_spans_add(const struct tokenizer *t, const struct offset_view *view, struct bytes piece,
                     struct tokens ids, struct offset_map *out) {
    struct walk w = {t, piece, ids};
    size_t at = 0;
    if (!ids.count && t->model == MODEL_WORDLEVEL &&
        out->spans.count) { /* an unknown word that goes with the one before it */
        out->spans.items[out->spans.count - 1].end = offset_of(view, piece).end;
        return;
    }
    if (lacks_symbols(&w)) {
        add_lacking(&w, view, out);
        return;
    }
    for (size_t i = 0, n; i < ids.count && at < piece.len; i += n) {
        bool together = t->model == MODEL_UNIGRAM || t->spm_offsets;
        size_t len = n = together ? count_bytes(&w, at, i) : 0;
        if (n) {
            add_bytes(&w, view, at, n, out);
        } else {
            n = 1;
            len = token_len(&w, at, i);
            offset_map_add(out, offset_of(view, bytes_of(piece.data + at, len)), 1);
        }
        at += len;
    }
}

/* ---- trimming ---- */

static bool is_blank(uint32_t cp) {
    return cp == 0x120 || unicode_is_space(cp);
}

/* White space at the two ends of a token as HF writes it, where a space may be U+0120. */
static void count_blanks(struct bytes token, uint32_t *leading, uint32_t *trailing) {
    uint32_t cp;
    *leading = *trailing = 0;
    for (size_t at = 0; at < token.len; ++*leading) {
        at += unicode_next(token.data + at, &cp);
        if (!is_blank(cp))
            break;
    }
    for (size_t end = token.len; end; ++*trailing) {
        end -= unicode_prev(token.data + end, &cp);
        if (!is_blank(cp))
            break;
    }
}

/* So many characters off the ends of span. */
static void trim_span(struct bytes text, struct offset_span *span, uint32_t leading,
                      uint32_t trailing) {
    uint32_t cp;
    for (; leading && span->begin < span->end; leading--)
        span->begin += (uint32_t)unicode_next(text.data + span->begin, &cp);
    for (; trailing && span->end > span->begin; trailing--)
        span->end -= (uint32_t)unicode_prev(text.data + span->end, &cp);
}

void token_spans_trim(const struct tokenizer *t, struct bytes text, struct tokens ids,
                      struct offset_span *spans) {
    struct buf spelling = {0};
    for (size_t i = 0; i < ids.count; i++) {
        uint32_t leading, trailing, id = ids.ids[i];
        struct offset_span *span = &spans[i];
        /* Of these HF keeps the text that they were found as. */
        bool found =
            tokenizer_is_added(t, id) || (t->model == MODEL_UNIGRAM && id == t->unigram.unk_id);
        buf_reset(&spelling);
        if (!found)
            vocab_spelling(&t->vocab, id, &spelling);
        count_blanks(found ? bytes_of(text.data + span->begin, span->end - span->begin)
                           : buf_bytes(&spelling),
                     &leading, &trailing);
        /* it was put there */
        if (t->trim_keeps_prefix && leading == 1 && (i == 0 || span->begin == 0))
            leading = 0;
        trim_span(text, span, leading, trailing);
    }
    buf_release(&spelling);
}
