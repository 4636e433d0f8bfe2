/*
 * health.h - /health/ready and /health/e2e: does this gateway answer, really?
 *
 * Ready means that a scheduler is heard, a model with a live replica and a compiled tokenizer is
 * there, and a token was made since they are: a request of one token has gone the whole way. End to end means that a token was just made: where no client's token came for
 * HEALTH_FRESH_MS, a request of one token goes the whole way. Its result is good for as long, one
 * probe runs at a time in the process, and whoever asks meanwhile waits for it; the places of those who
 * wait are shared by address (gateway_state.h, watchers). When the gateway stops being ready, those who wait are told so at once.
 *
 * Threading: struct health is shared (atomics only); waiters belong to their event thread.
 */
#ifndef GATEWAY_CALLS_HEALTH_H
#define GATEWAY_CALLS_HEALTH_H

#include "gateway/calls/call.h"

enum { HEALTH_FRESH_MS = 500 };

/* Why not, where waiting does not help (model_table_is_broken). */
#define HEALTH_BROKEN "the model's tokenizer or template cannot be used; the log says why"

/* NULL when ready, else why not: a static text fit for a client. */
const char *health_not_ready(struct gateway *gw);
/* Handlers (call.h): each answers, or keeps the request until a result comes. */
int health_on_ready(const struct call *c, struct api_error *err);
/* 503 with the reason at once when not ready. */
int health_on_e2e(const struct call *c, struct api_error *err);
/* A token came for somebody. */
void health_note_token(struct event_thread *thread);
/* With every tick of the thread. */
void health_tick(struct event_thread *thread);

#endif
