/*
 * text_calls.h - text to tokens and back, and templates, for clients that count or cut: /tokenize, /detokenize,
 * /apply-template.
 *
 * Both vLLM's and llama.cpp's forms are taken; the fields tell which (docs/api.md). Answered on the event thread that
 * reads the request, so a body may have at most TEXT_CALL_BYTES_MAX.
 */
#ifndef GATEWAY_TEXT_CALLS_H
#define GATEWAY_TEXT_CALLS_H

#include "http/http_server.h"

struct shard;

enum { TEXT_CALL_BYTES_MAX = 4 << 20 };

void text_call_tokenize(struct shard *shard, struct http_request *req);
void text_call_detokenize(struct shard *shard, struct http_request *req);
void text_call_apply_template(struct shard *shard, struct http_request *req);

#endif
