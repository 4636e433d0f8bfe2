/*
 * model_events.h - GET /models/sse: clients that are told when the state of a model changes, in the
 * form of llama-server's router.
 *
 * A client first gets the state of every model that its key may use, then an event for each change:
 * "model_status" with "unloaded", "loading" or "loaded", and "model_remove". What it misses because it
 * does not read is told as the state that there is when it reads again. The states are looked at in
 * every tick of the thread and when mail tells of models. A follower has a place among the watchers
 * (gateway_state.h): where they are all taken it finds its share, or gets 429. A gateway that drains ends these answers, which
 * would never end by themselves.
 *
 * Source: github.com/ggml-org/llama.cpp, tools/server/README.md.
 *
 * Threading: the event thread of the request.
 */
#ifndef GATEWAY_CALLS_MODEL_EVENTS_H
#define GATEWAY_CALLS_MODEL_EVENTS_H

#include "gateway/calls/call.h"

/* A handler (call.h). */
int model_events_follow(const struct call *c, struct api_error *err);
/* Tells followers what is new. */
void model_events_turn(struct event_thread *thread);

#endif
