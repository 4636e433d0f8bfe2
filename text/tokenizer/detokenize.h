/*
 * detokenize.h - pieces shared by whole decoding and the incremental detokenizer.
 */
#ifndef TEXT_TOKENIZER_DETOKENIZE_H
#define TEXT_TOKENIZER_DETOKENIZE_H

#include "text/tokenizer/tokenizer_data.h"

/* Appends n times U+FFFD. */
void detokenize_add_bad(struct buf *out, size_t n);
/* Length of the maximal subpart at the start of bad input: 1 to 3, all of what could begin a
 * character; len > 0. */
size_t detokenize_bad_len(const uint8_t *data, size_t len);
/* What the token adds to a text; first: it is the first token of the sequence. Valid until scratch
 * changes. */
struct bytes detokenize_token_text(const struct tokenizer *t, uint32_t id, bool first,
                                   struct buf *scratch);
/* Whether the token stands for one byte ("<0x0A>"). */
static inline bool detokenize_is_byte(const struct tokenizer *t, uint32_t id) {
    return t->token_texts && t->token_texts[id].flags & TOKEN_TEXT_BYTE;
}
/* For decoders that are not made from JSON: room for all texts, then the text of each id in turn.
 * metaspaced: U+2581 becomes a space; byte tokens become their bytes where the decoder has
 * byte_fallback. */
void decoder_begin_texts(struct tokenizer *t);
/* Appends the text of token id to t->texts. metaspaced: U+2581 in it is a space. */
void decoder_add_text(struct tokenizer *t, uint32_t id, struct bytes text, bool metaspaced);
/* After a token that gave `text` (the first tokens' rule): is the next one still the first? */
static inline bool detokenize_still_first(const struct tokenizer *t, struct bytes spelling_text,
                                          struct bytes text) {
    bool took_space = text.len < spelling_text.len;
    switch (t->decoder.first_space) {
    case FIRST_SPACE_KEPT: return false;
    case FIRST_SPACE_ONE: return !text.len && !took_space;
    case FIRST_SPACE_EACH: return !text.len;
    }
    return false;
}
/* Appends s with every `from` as `to` (from may be empty: then s as it is). */
void detokenize_add_replaced(struct buf *out, struct bytes s, struct bytes from, struct bytes to);
/* Appends s as HF cleans tokens up: " ." to ".", " n't" to "n't" and the like. */
void detokenize_add_cleaned(struct buf *out, struct bytes s);
/* Appends bytes read as UTF-8, U+FFFD for each maximal subpart that is none. */
void detokenize_add_lossy(struct buf *out, struct bytes s);
/* The byte of "<0x0A>", or -1. */
int detokenize_fallback_byte(struct bytes s);
/* Cuts the leading characters that Strip takes off text, at most *left; *left becomes 0 when
 * something else was met. */
struct bytes detokenize_strip(const struct decoder *d, struct bytes text, uint32_t *left);

#endif
