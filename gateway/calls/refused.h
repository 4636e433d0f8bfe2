/*
 * refused.h - calls of other servers that this one does not have, and why: a client that was made for
 * one of them reads more than that a path is not there.
 *
 * Sources: the routes of vLLM, SGLang, llama.cpp, TensorRT-LLM, LMDeploy, mistral.rs and Ollama
 * (docs/api.md).
 */
#ifndef GATEWAY_CALLS_REFUSED_H
#define GATEWAY_CALLS_REFUSED_H

#include "base/buf.h"
#include "gateway/answers/api_error.h"
#include "http/http_server.h"

/* Fills *err for such a path: 501, not_supported_error. false: it is no other server's, either. */
bool refused_call(struct bytes path, struct api_error *err);
/* The same for a path that is here without this method. */
bool refused_method(enum http_method method, struct bytes path, struct api_error *err);

#endif
