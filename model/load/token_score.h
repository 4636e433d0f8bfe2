/*
 * token_score.h - a head that scores by two tokens: how much likelier a model that writes goes on
 * with the one than with the other.
 *
 * Rerankers made of such models answer "yes" or "no". Of what the last position would be given for
 * every token only these two are needed, and of them the difference, which is one product with the
 * difference of two rows of the head. Its sigmoid is the share of "yes" among both. Source: the card
 * of Qwen3-Reranker; vLLM's classifier_from_token; LogitScore of sentence-transformers.
 *
 * Threading: none.
 */
#ifndef MODEL_TOKEN_SCORE_H
#define MODEL_TOKEN_SCORE_H

#include "model/model.h"

/* Token ids; no: TOKEN_SCORE_ONE for what `yes` is given alone. */
#define TOKEN_SCORE_ONE UINT32_MAX
struct token_score {
    uint32_t yes, no;
};

/* *out takes a layer of one value. ERR_INVALID: a token that the model has not; ERR_UNSUPPORTED: a
 * model whose head is no plain product, or that has none. */
MUST_CHECK int token_score_head(const struct model *model, const struct token_score *tokens,
                                struct vector_head *out, struct error *err);

#endif
