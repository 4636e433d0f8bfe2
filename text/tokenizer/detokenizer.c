#include "text/tokenizer/detokenizer.h"

#include "base/utf8.h"
#include "text/tokenizer/detokenize.h"

void detok_init(struct detok *d, const struct tokenizer *t, unsigned flags) {
    CHECK(d && t);
    bool continues = flags & DETOKENIZE_CONTINUES;
    *d = (struct detok){.tokenizer = t, .flags = flags, .started = continues};
    d->strip_left = continues ? 0 : t->decoder.strip_count;
}

/* Bytes that are no character: one U+FFFD each from byte tokens, one together at byte level. */
static void add_bad(const struct detok *d, size_t bytes, struct buf *out) {
    detokenize_add_bad(out, d->tokenizer->decoder.kind == DECODER_BYTES ? 1 : bytes);
}

/* Completes or gives up the held character with the bytes that follow; returns how many of them it
 * used. */
static size_t finish_held(struct detok *d, struct bytes s, struct buf *out) {
    size_t used = 0;
    while (d->held_count && used < s.len) {
        uint32_t cp;
        d->held[d->held_count] = s.data[used];
        size_t n = d->held_count + 1u;
        if (utf8_decode(d->held, n, &cp) == n) {
            buf_add(out, d->held, n);
            d->held_count = 0;
        } else if (n < 4 && utf8_is_partial(d->held, n)) {
            d->held_count++;
        } else { /* the new byte does not belong to it and is looked at anew */
            add_bad(d, d->held_count, out);
            d->held_count = 0;
            return used;
        }
        used++;
    }
    return used;
}

static void feed(struct detok *d, struct bytes s, struct buf *out) {
    size_t used = finish_held(d, s, out);
    s = bytes_of(s.data + used, s.len - used);
    while (s.len) {
        size_t good = utf8_valid_prefix(s.data, s.len);
        buf_add(out, s.data, good);
        s = bytes_of(s.data + good, s.len - good);
        if (!s.len)
            return;
        if (s.len < 4 && utf8_is_partial(s.data, s.len)) {
            memcpy(d->held, s.data, s.len);
            d->held_count = (uint8_t)s.len;
            return;
        }
        size_t bad = detokenize_bad_len(s.data, s.len);
        add_bad(d, bad, out);
        s = bytes_of(s.data + bad, s.len - bad);
    }
}

static void push_text(struct detok *d, uint32_t id, bool first, struct buf *out) {
    const struct tokenizer *t = d->tokenizer;
    struct buf scratch = {0};
    if (!detokenize_is_byte(t, id))
        detok_flush(d, out);
    if (t->decoder.kind == DECODER_SPACED && !first)
        buf_add_byte(out, ' ');
    struct bytes text = detokenize_token_text(t, id, first, &scratch);
    d->started = !first || !detokenize_still_first(t, tokenizer_token_bytes(t, id), text);
    feed(d, d->strip_left ? detokenize_strip(&t->decoder, text, &d->strip_left) : text, out);
    buf_release(&scratch);
}

void detok_push(struct detok *d, uint32_t id, struct buf *out) {
    CHECK(d->tokenizer && d->held_count < sizeof d->held);
    const struct tokenizer *t = d->tokenizer;
    if (id >= t->vocab.entries.count || t->vocab.entries.items[id].start == VOCAB_ABSENT)
        return;
    if (d->flags & DETOKENIZE_SKIP_SPECIAL && tokenizer_is_special(t, id))
        return;
    if (t->decoder.kind == DECODER_BYTES)
        feed(d, tokenizer_token_bytes(t, id), out);
    else
        push_text(d, id, !d->started, out);
}

void detok_flush(struct detok *d, struct buf *out) {
    CHECK(d->tokenizer && d->held_count < sizeof d->held);
    if (d->held_count)
        add_bad(d, d->held_count, out);
    d->held_count = 0;
}

/* ---- which token made what ---- */

void detok_spans(const struct tokenizer *t, struct tokens ids, unsigned flags,
                 struct token_span *spans, struct buf *out) {
    size_t start = out->len;
    struct detok d;
    detok_init(&d, t, flags);
    for (size_t i = 0; i < ids.count; i++) {
        size_t begin = out->len - start, held = d.held_count;
        detok_push(&d, ids.ids[i], out);
        size_t end = out->len - start;
        bool cut = d.held_count && (end > begin || d.held_count > held);
        /* the cut character's end is not known yet */
        spans[i] = (struct token_span){begin, end + cut};
    }
    detok_flush(&d, out);
    size_t len = out->len - start;
    for (size_t i = 0; i < ids.count; i++)
        while (spans[i].end < len && ((uint8_t)out->data[start + spans[i].end] & 0xC0) == 0x80)
            spans[i].end++;
}
