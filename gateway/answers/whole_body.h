/*
 * whole_body.h - a large answer in one piece: sent part by part as its client reads, never more than
 * a stream may have waiting, and cut when the client reads too slowly.
 *
 * Threading: the event thread of the request.
 */
#ifndef GATEWAY_ANSWERS_WHOLE_BODY_H
#define GATEWAY_ANSWERS_WHOLE_BODY_H

#include "gateway/gateway_state.h"

enum {
    WHOLE_BODY_SMALL = 256 * 1024,       /* at once, with its length */
    WHOLE_BODY_WINDOW_MS = 10000,        /* in each of these a client reads */
    WHOLE_BODY_WINDOW_BYTES = 64 * 1024, /* so much, or what is left */
};

/* Answers 200 with body, JSON (moved out of *body), and ends the request. room: bytes of gw's
 * answer_room that are the tenant's for it; they are given back when all is sent. */
void whole_body_send(struct gateway *gw, struct http_request *req, struct buf *body,
                     struct u128 tenant, uint64_t room);

#endif
