/*
 * embed.h - embeddings: requests that ask for vectors of texts, in the dialects of OpenAI, vLLM,
 * llama.cpp, Ollama and Cohere.
 *
 * A request's inputs are its prompts (genreq.h); each is a submission of one choice, which ends with
 * a vector in place of tokens. The worker sends what the model pools; what a client asked of it
 * (its first dimensions, a length of 1) is done here, when it comes, and its text is all that is
 * kept of it.
 *
 * Threading: pure, or the event thread of the generation.
 */
#ifndef GATEWAY_DIALECTS_EMBED_H
#define GATEWAY_DIALECTS_EMBED_H

#include "gateway/answers/answer.h"

/* Parsers, as those of field.h. */
extern const struct field_set fields_embeddings, fields_llama_embedding, fields_ollama_embed,
    fields_ollama_embeddings, fields_rerank, fields_score, fields_pooling, fields_classify,
    fields_cohere_embed, fields_encode;
/* POST /v1/embeddings, of OpenAI and vLLM. */
MUST_CHECK int embeddings_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* POST /pooling, of vLLM: embeddings, or a classifier's scores, in another form. */
MUST_CHECK int pooling_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* POST /classify, of vLLM: a model's scores of each text, not of a pair. */
MUST_CHECK int classify_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* POST /v2/embed, of Cohere. */
MUST_CHECK int cohere_embed_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* POST /encode, of SGLang. */
MUST_CHECK int encode_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* POST /embedding, of llama.cpp. */
MUST_CHECK int llama_embedding_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* POST /api/embed, of Ollama. */
MUST_CHECK int ollama_embed_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* POST /api/embeddings, of Ollama's older clients: one prompt. */
MUST_CHECK int ollama_embeddings_parse(struct genreq *g, struct bytes body, struct api_error *err);

/* POST /v1/rerank (rerank_fields.c): the prompts are the query, then the documents. */
MUST_CHECK int rerank_parse(struct genreq *g, struct bytes body, struct api_error *err);
/* POST /v1/score: the prompts are both lists of texts. */
MUST_CHECK int score_parse(struct genreq *g, struct bytes body, struct api_error *err);

/* What prepare (prepare.h) does for such a request. *p is zero, and released by the caller. */
MUST_CHECK int embed_prepare(const struct genreq *g, const struct served_model *m,
                             struct prepared *p, struct api_error *err);

/* How a model's vectors are shown. The model is borrowed. */
void embed_form_init(struct embed_form *form, const struct genreq *g, const struct served_model *m);
/* What becomes of a prompt's scores, [width] each, before they are shown. */
void embed_activate(const struct embed_form *form, const float *values, uint32_t width,
                    double *out);
/* Appends a vector as the form has it: an array of numbers, or a string of base64. width: that of the
 * model. */
void embed_write(const struct embed_form *form, const float *values, uint32_t width,
                 struct buf *out);

#endif
