/*
 * describe.h - what a gateway tells of its models and of itself, as the clients of each peer ask for it.
 *
 * All but describe_state are handlers (call.h). Where a path names no model, it is that of ?model=NAME, else the one for
 * requests that name none; a model that is not ready is refused as a request to it would be.
 */
#ifndef GATEWAY_CALLS_DESCRIBE_H
#define GATEWAY_CALLS_DESCRIBE_H

#include "gateway/calls/call.h"

/* What is called so in llama-server's words. */
const char *describe_state(enum model_state state);

/* The models that this key may use: OpenAI's list, which is Anthropic's one page too. */
int describe_models(const struct call *c, struct api_error *err);
/* The one that the rest of the path names. */
int describe_model(const struct call *c, struct api_error *err);
/* How many requests are open: vLLM's /load. */
int describe_load(const struct call *c, struct api_error *err);
/* llama-server's slots and properties. */
int describe_slots(const struct call *c, struct api_error *err);
int describe_props(const struct call *c, struct api_error *err);
/* TGI's /info. */
int describe_info(const struct call *c, struct api_error *err);
/* SGLang's. */
int describe_model_info(const struct call *c, struct api_error *err);
int describe_server_info(const struct call *c, struct api_error *err);

#endif
