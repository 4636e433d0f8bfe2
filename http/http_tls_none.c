/*
 * http_tls_none.c - the same where the program is built without OpenSSL.
 */
#ifndef TRIREME_HAVE_TLS

#include "http/http_tls_internal.h"

int http_tls_new(struct http_tls **out, const char *certificate_file, const char *key_file,
                 struct error *err) {
    *out = NULL;
    return error_set(err, ERR_UNSUPPORTED, "this program was built without OpenSSL: it has no TLS");
}

/* There is never one. */
bool http_tls_changed(const struct http_tls *tls) {
    return false;
}
int http_tls_reload(struct http_tls *tls, struct error *err) {
    return error_set(err, ERR_UNSUPPORTED, "there is no TLS");
}
void http_tls_free(struct http_tls **tls) {}

struct bufferevent *http_tls_accept(struct http_tls *tls, struct event_base *base, int fd,
                                    struct ssl_st **session) {
    return NULL;
}
const char *http_tls_failure(struct bufferevent *bev, bool *plain) {
    *plain = false;
    return "";
}
void http_tls_close_notify(struct ssl_st *session) {}
void http_tls_end(struct ssl_st **session) {}

#endif
