/*
 * sampling.h - how a request is sampled: what it asks for, what the model's defaults add, and the lists
 * of tokens that it names, as the message to the scheduler has them. Steps of prepare (prepare.h).
 *
 * Threading: pure.
 */
#ifndef GATEWAY_PROMPTS_SAMPLING_H
#define GATEWAY_PROMPTS_SAMPLING_H

#include "gateway/prompts/prepare.h"

/* The numbers that all servers have. seed: what to use when the client gave none. */
void sampling_fill(const struct genreq *g, const struct model_defaults *defaults, uint64_t seed,
                   struct wire_sampling *s);
/* What llama.cpp has beyond them, into p->sampling, which is filled. 0, or -1 with *err filled. */
MUST_CHECK int sampling_fill_rules(const struct genreq *g, const struct text_model *text,
                                   struct prepared *p, struct api_error *err);
/* Biases, tokens that alone may come, and words that may not. 0, or -1 with *err filled. */
MUST_CHECK int sampling_fill_lists(const struct genreq *g, const struct served_model *m,
                                   struct prepared *p, struct api_error *err);

#endif
