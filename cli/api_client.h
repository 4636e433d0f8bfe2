/*
 * api_client.h - speaks to a gateway as any client would: one request a connection, with TLS where
 * the address says https, answers whole or as server-sent events.
 *
 * Blocking, for the commands a person types. The answer's framing is checked as far as reading it
 * needs (Content-Length, chunked, end of connection); lengths are bounded.
 */
#ifndef CLI_API_CLIENT_H
#define CLI_API_CLIENT_H

#include <signal.h>

#include "base/buf.h"
#include "base/error.h"

struct api_client {
    char host[256];
    uint16_t port;
    bool tls;
    const char *api_key; /* borrowed; NULL: none */
    /* A signal handler sets it to end the answer that is read (ERR_CLOSED); borrowed; NULL: none. */
    const volatile sig_atomic_t *stop;
};

/* url: "http://HOST[:PORT][/...]" or "https://..."; what follows the port is left out. */
MUST_CHECK int api_client_init(struct api_client *c, const char *url, const char *api_key,
                               struct error *err);

/* The URL of an option becomes that of this port of the machine; 0: it stays. The parse owns both texts. */
void api_client_take_port(const char **url, int64_t port);

/* Body NULL: GET, else POST of JSON. The answer's body into out (at most 16 MB). Returns the HTTP
 * status, or a negative error. */
MUST_CHECK int api_call(const struct api_client *c, const char *path, const char *body,
                        struct buf *out, int timeout_ms, struct error *err);

/* As api_call, but a 200 whose type is text/event-stream is given piece by piece: on_event gets each
 * event's data, "[DONE]" included, and returns false to stop. Any other answer lands in out. */
MUST_CHECK int api_stream(const struct api_client *c, const char *path, const char *body,
                          bool (*on_event)(void *ctx, struct bytes data), void *ctx,
                          struct buf *out, int timeout_ms, struct error *err);

/* The text of an error answer ({"error":{"message":...}}), or "". Returns owned. */
char *api_error_text(struct bytes body);

/* "URL answers PATH with status STATUS: what the body says" into err. Returns ERR_INVALID. */
int api_status_error(const char *url, const char *path, int status, struct bytes body,
                     struct error *err);

#endif
