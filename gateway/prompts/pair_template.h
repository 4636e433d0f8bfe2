/*
 * pair_template.h - how a model that judges pairs of texts is asked about one: the template that has
 * both of them in its prompt.
 *
 * Rerankers made of models that write have one; cross-encoders have none, and their tokenizer puts
 * two texts together. It is, in this order: the model's template "rerank" or "reranker"; its chat
 * template, where that looks for messages of the roles "query" and "document" (vLLM's score
 * templates; --chat-template FILE sets one); that of Qwen3-Reranker's card, for a model of its kind.
 * One with {query} and {document} in place of Jinja is llama.cpp's.
 *
 * Threading: read-only once it was found.
 */
#ifndef GATEWAY_PROMPTS_PAIR_TEMPLATE_H
#define GATEWAY_PROMPTS_PAIR_TEMPLATE_H

#include "text/chat.h"

struct pair_template {
    bool is_there;
    bool takes_instruction; /* it has a place for what the pair is judged by */
    const char *name;       /* as chat_request.template_name; a constant */
};

/* Looks through the templates of a model; qwen3_writes: it is a Qwen 3 that writes. May add one to
 * chat. 0, or the error of a template that cannot be read. */
MUST_CHECK int pair_template_find(struct chat *chat, bool qwen3_writes, struct pair_template *out,
                                  struct error *err);

/* Two texts that are judged, and by what; instruction may be empty. */
struct text_pair {
    struct bytes query, document, instruction;
};
/* Appends the prompt's tokens. What the texts spell of the model's own tokens stays text. Errors as
 * chat_prompt. */
MUST_CHECK int pair_template_tokens(const struct pair_template *template, const struct chat *chat,
                                    const struct tokenizer *tokenizer, const struct text_pair *pair,
                                    struct token_vec *out, struct error *err);

#endif
