/*
 * http_tls_internal.h - one connection's TLS, for http_conn.c.
 *
 * Threading: the connection's event thread.
 */
#ifndef HTTP_HTTP_TLS_INTERNAL_H
#define HTTP_HTTP_TLS_INTERNAL_H

#include "http/http_tls.h"

#include <event2/bufferevent.h>

struct ssl_st; /* OpenSSL's SSL */

/* A bufferevent that waits for the client's handshake on fd, which stays the caller's. BEV_EVENT_CONNECTED
 * tells of its end. *session is owned: http_tls_end, after the bufferevent. NULL: no memory. */
struct bufferevent *http_tls_accept(struct http_tls *tls, struct event_base *base, int fd,
                                    struct ssl_st **session);
/* What ended a handshake, in static words. *plain: the client speaks HTTP without TLS. */
const char *http_tls_failure(struct bufferevent *bev, bool *plain);
/* Tells the client that nothing more comes. */
void http_tls_close_notify(struct ssl_st *session);
/* NULL in *session is fine. */
void http_tls_end(struct ssl_st **session);

#endif
