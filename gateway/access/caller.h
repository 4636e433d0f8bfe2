/*
 * caller.h - who may call, by the head of a request: which pages, and with what kind of body.
 *
 * A page on another host can make its reader's browser send requests to a server on the loopback. What a
 * browser says of itself (Host, Origin, Content-Type) is looked at before any key.
 *
 * Each: 0, or -1 with *err filled.
 */
#ifndef GATEWAY_ACCESS_CALLER_H
#define GATEWAY_ACCESS_CALLER_H

#include "gateway/answers/api_error.h"
#include "gateway/gateway_state.h"
#include "http/http_server.h"

/* Host and Origin are among those that the gateway is called by and lets in. */
int caller_check(const struct gateway *gw, const struct http_request *req, struct api_error *err);
/* A form can be sent by any page, JSON only after a preflight. Who is no browser (curl -d says it sends a
 * form, and the peers' manuals type that) is not asked. */
int caller_check_media_type(const struct http_request *req, struct api_error *err);
/* Bodies are read as they come: one that was compressed would only be called malformed. */
int caller_check_coding(const struct http_request *req, struct api_error *err);

#endif
