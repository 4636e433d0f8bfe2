/*
 * http_tls.h - the certificate that a server speaks TLS with, and how it is read again.
 *
 * OpenSSL and libevent's part for it are opened here (tls_libraries.h), so a process that serves
 * plain HTTP carries none of it. TLS 1.2 and later, with ECDHE and AEAD ciphers alone; session
 * tickets and no table of sessions; no renegotiation and no compression; ALPN picks http/1.1, and a
 * client that offers other protocols alone is refused.
 *
 * Invariants:
 *   (1) A connection ends with the certificate that it began with.
 *   (2) A certificate that cannot be taken changes nothing: the one before stays.
 *
 * Threading: http_tls_changed and http_tls_reload from one thread; connections may begin on any
 * other meanwhile.
 */
#ifndef HTTP_HTTP_TLS_H
#define HTTP_HTTP_TLS_H

#include "base/error.h"

struct http_tls;

/* Reads both files (PEM; the certificate's chain in order, the key without a passphrase; one file
 * may hold both). Copies the paths. 0 with *out owned, or a code with *err filled and *out NULL:
 * ERR_UNSUPPORTED when OpenSSL is not there. */
MUST_CHECK int http_tls_new(struct http_tls **out, const char *certificate_file,
                            const char *key_file, struct error *err);
/* Is a file another one than when they were read last (or tried)? */
bool http_tls_changed(const struct http_tls *tls);
/* Reads both again, for the connections that begin from now on. */
MUST_CHECK int http_tls_reload(struct http_tls *tls, struct error *err);
/* After the servers that use it. NULL in *tls is fine. */
void http_tls_free(struct http_tls **tls);

#endif
