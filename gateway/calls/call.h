/*
 * call.h - one HTTP request that has come whole, as the handler of its route gets it.
 *
 * A handler answers, or sees to it that someone will, and returns 0; or it fills *err, which is answered
 * for it.
 *
 * Threading: the event thread of the request.
 */
#ifndef GATEWAY_CALLS_CALL_H
#define GATEWAY_CALLS_CALL_H

#include "gateway/fields/genreq.h"
#include "gateway/generation/event_thread.h"
#include "http/http_server.h"

struct call {
    struct event_thread *thread;
    struct http_request *req;
    struct u128 tenant;
    struct bytes rest;           /* of the path, behind a prefix route; lies in the request */
    enum genreq_dialect dialect; /* of a route that generates */
};

/* *out: a reference to the model of this name (empty: the only one). -1 with *err filled: it cannot serve
 * now; where it could be loaded, that is asked for. */
MUST_CHECK int call_find_model(struct gateway *gw, struct bytes name, struct served_model **out,
                               struct api_error *err);

#endif
