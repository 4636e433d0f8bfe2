/*
 * tls_client.h - a client's end of TLS over a socket that is connected, by OpenSSL, which is opened
 * at the first session (tls_libraries.h). For the commands that a person types.
 *
 * TLS 1.2 and later, HTTP/1.1. The server's certificate must be for the host that was asked for, and
 * be signed by one that this machine trusts: one of the system's, or of the file that SSL_CERT_FILE
 * names when the process begins its first session.
 *
 * The socket does not block from tls_client_begin on; ERR_AGAIN tells the caller to wait with poll.
 *
 * Threading: a session belongs to one thread at a time.
 */
#ifndef HTTP_TLS_CLIENT_H
#define HTTP_TLS_CLIENT_H

#include <sys/types.h>

#include "base/error.h"

struct ssl_st; /* OpenSSL's SSL */

/* Shakes hands on fd, which stays the caller's, within timeout_ms; host: a name or an address, which
 * the certificate must be for. 0 with *session owned, or a code with *err filled and *session NULL:
 * ERR_UNSUPPORTED without OpenSSL, ERR_INVALID where the other end does not speak TLS or its
 * certificate is not believed. */
MUST_CHECK int tls_client_begin(struct ssl_st **session, int fd, const char *host, int timeout_ms,
                                struct error *err);
/* Bytes that were read (0: the other end has ended), ERR_AGAIN (wait for POLLIN), or another code
 * with *err filled. */
MUST_CHECK ssize_t tls_client_read(struct ssl_st *session, void *out, size_t size,
                                   struct error *err);
/* Bytes that were taken (at least 1 of size, which is not 0), ERR_AGAIN (wait for POLLOUT, then give
 * the same bytes again), or another code with *err filled. */
MUST_CHECK ssize_t tls_client_write(struct ssl_st *session, const void *bytes, size_t size,
                                    struct error *err);
/* Before fd is closed. NULL in *session is fine. */
void tls_client_end(struct ssl_st **session);

#endif
