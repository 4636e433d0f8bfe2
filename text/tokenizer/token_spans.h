/*
 * token_spans.h - which bytes of a piece each of its tokens stands for, found again from the
 * tokens' spellings; a model's own loop knows nothing of it.
 *
 * A token of bytes that the vocabulary lacks is one byte; an unknown token is a character, or,
 * where such are fused, the text up to the next token's. Byte tokens of Unigram models stand for
 * the whole unknown text, as HF has it, or, in SentencePiece's own models, the last of a
 * character's does and the others for nothing.
 *
 * Threading: any thread.
 */
#ifndef TEXT_TOKENIZER_TOKEN_SPANS_H
#define TEXT_TOKENIZER_TOKEN_SPANS_H

#include "text/tokenizer/tokenizer_data.h"

/* Appends a span for each id; view: of the buffer that piece, which encodes to ids, lies in. */
void token_spans_add(const struct tokenizer *t, const struct offset_view *view, struct bytes piece,
                     struct tokens ids, struct offset_map *out);
/* Takes the white space at their ends off the spans, in bytes of text, of ids that a post-processor
 * trims. */
void token_spans_trim(const struct tokenizer *t, struct bytes text, struct tokens ids,
                      struct offset_span *spans);

#endif
