/*
 * decode.h - pieces shared by whole decoding and the incremental detokenizer.
 */
#ifndef TEXT_DECODE_H
#define TEXT_DECODE_H

#include "text/tokenizer_data.h"

/* Appends n times U+FFFD. */
void decode_add_bad(struct buf *out, size_t n);
/* Length of the maximal subpart at the start of bad input: 1 to 3, all of what could begin a character; len > 0. */
size_t decode_bad_len(const uint8_t *data, size_t len);
/* What the token adds to a text; first: it is the first token of the sequence. Valid until scratch changes. */
struct bytes decode_token_text(const struct tokenizer *t, uint32_t id, bool first, struct buf *scratch);
static inline bool decode_is_byte(const struct tokenizer *t, uint32_t id) {
    return t->token_texts && t->token_texts[id].flags & TOKEN_TEXT_BYTE;
}
/* Cuts the leading characters that Strip takes off text, at most *left; *left becomes 0 when something else was met. */
struct bytes decode_strip(const struct decoder *d, struct bytes text, uint32_t *left);

#endif
