/*
 * text_calls.h - text to tokens and back, and templates, for clients that count or cut: /tokenize,
 * /detokenize, /apply-template, /v1/messages/count_tokens, /v1/responses/input_tokens,
 * /v1/chat/completions/input_tokens, /chat_tokenize, /v1/encode, and what a model wrote taken apart:
 * /separate_reasoning, /parse_function_call.
 *
 * vLLM's, llama.cpp's and TGI's forms are taken; the fields tell which (docs/api.md). A body
 * may have at most TEXT_CALL_BYTES_MAX; all but short ones are worked on in the pool (work_pool.h).
 */
#ifndef GATEWAY_CALLS_TEXT_CALLS_H
#define GATEWAY_CALLS_TEXT_CALLS_H

#include "gateway/calls/call.h"

enum {
    TEXT_CALL_BYTES_MAX = 4 << 20,
    TEXT_CALL_INLINE_BYTES = 4096,      /* of a body: answered where it is read */
    TEXT_CALL_ANSWER_BYTES = 128 << 20, /* of an answer */
};

/* A call that is worked on elsewhere. */
struct text_job;
/* The pool has worked it out (takes it): it is answered, if its client is still there. */
void text_call_on_done(struct text_job *job);
void text_job_free(struct text_job *job); /* nobody is answered; NULL is fine */

/* All of these are handlers (call.h). */

/* POST /tokenize: the ids of a text or of a chat's prompt. */
int text_call_tokenize(const struct call *c, struct api_error *err);
/* POST /v1/messages/count_tokens: how many tokens the prompt of such a request has. */
int text_call_count_tokens(const struct call *c, struct api_error *err);
/* POST /v1/responses/input_tokens: the same for OpenAI's responses. */
int text_call_input_tokens(const struct call *c, struct api_error *err);
/* POST /v1/chat/completions/input_tokens: the same for a chat, in llama.cpp's form. */
int text_call_chat_tokens(const struct call *c, struct api_error *err);
/* POST /v1/chat/completions/render: a chat as the tokens and parameters that would be sampled with,
 * in vLLM's form. */
int text_call_render(const struct call *c, struct api_error *err);
/* POST /v1/completions/render: a list of the same, one for each prompt. */
int text_call_completion_tokens(const struct call *c, struct api_error *err);
/* POST /chat_tokenize: a chat's prompt and its tokens, in TGI's form. */
int text_call_chat_tokenize(const struct call *c, struct api_error *err);
/* POST /v1/encode: the ids of a text, or of each of several, in LMDeploy's form. */
int text_call_encode(const struct call *c, struct api_error *err);
/* POST /separate_reasoning: what of a text is reasoning, in SGLang's form. */
int text_call_separate_reasoning(const struct call *c, struct api_error *err);
/* POST /parse_function_call: the calls in a text, in SGLang's form. */
int text_call_parse_calls(const struct call *c, struct api_error *err);
/* GET /tokenizer_info: what the only model's tokenizer is like. */
int text_call_tokenizer_info(const struct call *c, struct api_error *err);
/* POST /detokenize: the text of ids. */
int text_call_detokenize(const struct call *c, struct api_error *err);
/* POST /apply-template: a chat's prompt as text. */
int text_call_apply_template(const struct call *c, struct api_error *err);

#endif
