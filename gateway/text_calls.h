/*
 * text_calls.h - text to tokens and back, and templates, for clients that count or cut: /tokenize,
 * /detokenize, /apply-template, /v1/messages/count_tokens, /v1/responses/input_tokens,
 * /v1/chat/completions/input_tokens, /chat_tokenize, /v1/encode, and what a model wrote taken apart:
 * /separate_reasoning, /parse_function_call.
 *
 * vLLM's, llama.cpp's and TGI's forms are taken; the fields tell which (docs/api.md). A body
 * may have at most TEXT_CALL_BYTES_MAX; all but short ones are worked on in the pool (work_pool.h).
 */
#ifndef GATEWAY_TEXT_CALLS_H
#define GATEWAY_TEXT_CALLS_H

#include "base/hash.h"
#include "http/http_server.h"

struct event_thread;

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

/* POST /tokenize: the ids of a text or of a chat's prompt. Each of these ends the request. */
void text_call_tokenize(struct event_thread *thread, struct http_request *req, struct u128 tenant);
/* POST /v1/messages/count_tokens: how many tokens the prompt of such a request has. */
void text_call_count_tokens(struct event_thread *thread, struct http_request *req,
                            struct u128 tenant);
/* POST /v1/responses/input_tokens: the same for OpenAI's responses; tenant: whose. */
void text_call_input_tokens(struct event_thread *thread, struct http_request *req,
                            struct u128 tenant);
/* POST /v1/chat/completions/input_tokens: the same for a chat, in llama.cpp's form. */
void text_call_chat_tokens(struct event_thread *thread, struct http_request *req,
                           struct u128 tenant);
/* POST /v1/chat/completions/render: a chat as the tokens and parameters that would be sampled with,
 * in vLLM's form. */
void text_call_render(struct event_thread *thread, struct http_request *req, struct u128 tenant);
/* POST /v1/completions/render: a list of the same, one for each prompt. */
void text_call_completion_tokens(struct event_thread *thread, struct http_request *req,
                                 struct u128 tenant);
/* POST /chat_tokenize: a chat's prompt and its tokens, in TGI's form. */
void text_call_chat_tokenize(struct event_thread *thread, struct http_request *req,
                             struct u128 tenant);
/* POST /v1/encode: the ids of a text, or of each of several, in LMDeploy's form. */
void text_call_encode(struct event_thread *thread, struct http_request *req, struct u128 tenant);
/* POST /separate_reasoning: what of a text is reasoning, in SGLang's form. */
void text_call_separate_reasoning(struct event_thread *thread, struct http_request *req,
                                  struct u128 tenant);
/* POST /parse_function_call: the calls in a text, in SGLang's form. */
void text_call_parse_calls(struct event_thread *thread, struct http_request *req,
                           struct u128 tenant);
/* GET /tokenizer_info: what the only model's tokenizer is like. */
void text_call_tokenizer_info(struct event_thread *thread, struct http_request *req);
/* POST /detokenize: the text of ids. */
void text_call_detokenize(struct event_thread *thread, struct http_request *req,
                          struct u128 tenant);
/* POST /apply-template: a chat's prompt as text. */
void text_call_apply_template(struct event_thread *thread, struct http_request *req,
                              struct u128 tenant);

#endif
