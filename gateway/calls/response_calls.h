/*
 * response_calls.h - calls about responses that are kept: GET, DELETE, cancel, input_items; and
 * followers, the clients that read the events of one in the background.
 *
 * A follower reads from the store at its own pace, on any event thread, from any event on; that it
 * leaves changes nothing for the response. One that does not read is cut once the response is out of
 * the store, whose bound would not hold otherwise. It looks at the store in every turn of its thread and
 * at every tick.
 *
 * Threading: the event thread of the request.
 */
#ifndef GATEWAY_CALLS_RESPONSE_CALLS_H
#define GATEWAY_CALLS_RESPONSE_CALLS_H

#include "gateway/calls/call.h"
#include "gateway/generation/generation.h"

/* Handlers (call.h). The rest of the path: ID or ID/input_items. */
int response_call_get(const struct call *c, struct api_error *err);
/* ID. */
int response_call_delete(const struct call *c, struct api_error *err);
/* ID/cancel. */
int response_call_cancel(const struct call *c, struct api_error *err);

/* A generation that is to run in the background is about to be submitted: its client is answered,
 * or follows it. 0, or -1 with *err filled and nothing done. */
MUST_CHECK int response_call_detach(struct generation *gen, struct api_error *err);

/* Hands followers what is new. */
void response_calls_turn(struct event_thread *thread);

#endif
