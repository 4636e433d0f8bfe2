/*
 * infill.h - the prompt that asks a model for the text between two others, with the marks of its
 * own vocabulary: [other files] PREFIX before SUFFIX after MIDDLE, then what begins the answer.
 *
 * The texts are plain: marks that they spell stay text. Source of the order: llama.cpp's
 * tools/server (format_prompt_infill) and the papers of the models (arXiv 2207.14255).
 *
 * Threading: pure.
 */
#ifndef GATEWAY_PROMPTS_INFILL_H
#define GATEWAY_PROMPTS_INFILL_H

#include "gateway/fields/genreq.h"
#include "text/tokenizer/tokenizer.h"

/* Appends the tokens of g->infill and g's prompt. 0, or -1 with *err filled: 501 where the
 * vocabulary has no such marks. */
MUST_CHECK int infill_tokens(const struct genreq *g, const struct tokenizer *t,
                             struct token_vec *out, struct api_error *err);

/* Whether the vocabulary has such marks. */
bool infill_is_possible(const struct tokenizer *t);

/* Bytes of text that it encodes. */
size_t infill_bytes(const struct genreq *g);

#endif
