/*
 * detokenizer.h - ids to text, a token at a time, for streams.
 *
 * Text comes out as soon as it is certain: complete UTF-8 characters only. A character cut between
 * tokens is held back until its last byte arrives; bytes that can never become a character turn
 * into U+FFFD (one per maximal subpart, as Unicode and Rust do).
 *
 * Invariants:
 *   (1) all that is appended to out, together, is valid UTF-8, whatever the ids;
 *   (2) detok_push for each id, then detok_flush, gives the text of tokenizer_detokenize with the
 *       same flags; but for byte-fallback runs that are not valid UTF-8 as a whole (HF then replaces
 *       every byte of the run; a stream has already shown the characters that were complete).
 *
 * Threading: one thread at a time per detokenizer. No heap memory: nothing to release.
 */
#ifndef TEXT_TOKENIZER_DETOKENIZER_H
#define TEXT_TOKENIZER_DETOKENIZER_H

#include "text/tokenizer/tokenizer.h"

struct detok {
    const struct tokenizer *tokenizer; /* borrowed */
    unsigned flags;                    /* enum detokenize_flags */
    uint8_t held[4];                   /* the beginning of a character */
    uint8_t held_count;
    bool started;        /* a token was pushed */
    uint32_t strip_left; /* leading spaces that the sequence-start rule may still take */
};

/* Borrows t. flags: enum detokenize_flags. A server that answers a prompt passes
 * DETOKENIZE_CONTINUES: the answer's leading space is text. */
void detok_init(struct detok *d, const struct tokenizer *t, unsigned flags);
/* Appends the text that id makes certain (often one word, sometimes nothing) to out. */
void detok_push(struct detok *d, uint32_t id, struct buf *out);
/* The stream has ended: a character that was cut becomes U+FFFD. */
void detok_flush(struct detok *d, struct buf *out);
/* What a token took part in: bytes [begin, end) of the text. */
struct token_span {
    size_t begin, end;
};
/* Appends to out what a stream gives for ids, and writes the span of each id, offsets from where
 * that text begins. A character cut between tokens belongs whole to each of them; a token without
 * text has an empty span where the next text begins. Spans begin in rising order. */
void detok_spans(const struct tokenizer *t, struct tokens ids, unsigned flags,
                 struct token_span *spans, struct buf *out);
/* True when bytes of an incomplete character are held back. */
static inline bool detok_holds(const struct detok *d) {
    return d->held_count != 0;
}

#endif
