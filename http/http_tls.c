#ifdef TRIREME_HAVE_TLS

#include "http/http_tls_internal.h"

#include "base/base.h"
#include "base/fsutil.h"
#include "http/tls_libraries.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct http_tls {
    char *certificate_file, *key_file;
    struct file_mark certificate_mark, key_mark; /* when they were read last */
    pthread_mutex_t lock;
    SSL_CTX *settings; /* under the lock: what connections begin with */
};

/* ---- reading ---- */

static int choose_protocol(SSL *session, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned int offered_len, void *ctx) {
    static const unsigned char OURS[] = "\x08http/1.1";
    unsigned char *chosen;
    if (SSL_select_next_proto(&chosen, out_len, OURS, sizeof OURS - 1, offered, offered_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* OpenSSL would ask on the terminal. */
static int refuse_passphrase(char *out, int size, int writes, void *ctx) {
    bool *asked = ctx;
    *asked = true;
    return -1;
}

/* What OpenSSL says of its last failure; of a file that it knows no format of it says little. */
static const char *reason(void) {
    unsigned long code = ERR_peek_error();
    const char *text =
        ERR_GET_LIB(code) == ERR_LIB_OSSL_DECODER ? NULL : ERR_reason_error_string(code);
    return text ? text : "it holds nothing of that kind in PEM";
}

/* OpenSSL does not say why it could not, and waits for a pipe. */
static int check_readable(const char *what, const char *path, struct error *err) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, "cannot read the %s '%s'", what, path);
    bool regular = !fstat(fd, &st) && S_ISREG(st.st_mode);
    close(fd);
    return regular ? 0 : error_set(err, ERR_INVALID, "the %s '%s' is no regular file", what, path);
}

static int read_files(SSL_CTX *settings, const struct http_tls *tls, struct error *err) {
    bool asked = false;
    int rc = check_readable("TLS certificate", tls->certificate_file, err);
    if (!rc)
        rc = check_readable("TLS key", tls->key_file, err);
    if (rc)
        return rc;
    SSL_CTX_set_default_passwd_cb(settings, refuse_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(settings, &asked);
    if (SSL_CTX_use_certificate_chain_file(settings, tls->certificate_file) != 1)
        rc = error_set(err, ERR_INVALID, "cannot take the TLS certificate '%s': %s",
                       tls->certificate_file, reason());
    else if (SSL_CTX_use_PrivateKey_file(settings, tls->key_file, SSL_FILETYPE_PEM) != 1)
        rc = error_set(err, ERR_INVALID,
                       "cannot take the TLS key '%s' with the certificate '%s': %s", tls->key_file,
                       tls->certificate_file,
                       asked ? "it has a passphrase; give a key without one" : reason());
    SSL_CTX_set_default_passwd_cb_userdata(settings, NULL);
    return rc;
}

/* Of TLS 1.2: keys that a certificate's key taken later does not open, and no CBC. TLS 1.3 has no others. */
#define CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

static int restrict_protocol(SSL_CTX *settings, struct error *err) {
    SSL_CTX_set_min_proto_version(settings, TLS1_2_VERSION);
    if (SSL_CTX_set_cipher_list(settings, CIPHERS) != 1)
        return error_set(err, ERR_UNSUPPORTED, "OpenSSL has none of the ciphers " CIPHERS ": %s",
                         reason());
    SSL_CTX_set_options(settings, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                      SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                      SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(settings, SSL_MODE_RELEASE_BUFFERS); /* of connections that rest */
    SSL_CTX_set_session_cache_mode(settings, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(settings, choose_protocol, NULL);
    return 0;
}

static int read_settings(struct http_tls *tls, SSL_CTX **out, struct error *err) {
    tls->certificate_mark = file_mark_of(tls->certificate_file);
    tls->key_mark = file_mark_of(tls->key_file);
    *out = SSL_CTX_new(TLS_server_method());
    if (!*out)
        return error_set(err, ERR_UNSUPPORTED, "OpenSSL cannot begin: %s", reason());
    int rc = restrict_protocol(*out, err);
    if (!rc)
        rc = read_files(*out, tls, err);
    ERR_clear_error();
    if (rc)
        SSL_CTX_free(*out);
    return rc;
}

int http_tls_new(struct http_tls **out, const char *certificate_file, const char *key_file,
                 struct error *err) {
    *out = NULL;
    int rc = tls_libraries_open(err);
    if (rc)
        return rc;
    struct http_tls *tls = mem_calloc(1, sizeof *tls);
    tls->certificate_file = mem_strdup(certificate_file);
    tls->key_file = mem_strdup(key_file);
    pthread_mutex_init(&tls->lock, NULL);
    rc = http_tls_reload(tls, err);
    if (rc)
        http_tls_free(&tls);
    *out = tls;
    return rc;
}

bool http_tls_changed(const struct http_tls *tls) {
    return !file_marks_equal(file_mark_of(tls->certificate_file), tls->certificate_mark) ||
           !file_marks_equal(file_mark_of(tls->key_file), tls->key_mark);
}

/* Connections that run keep the settings that they began with: OpenSSL counts its users. */
int http_tls_reload(struct http_tls *tls, struct error *err) {
    SSL_CTX *settings, *before;
    int rc = read_settings(tls, &settings, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&tls->lock);
    before = tls->settings;
    tls->settings = settings;
    pthread_mutex_unlock(&tls->lock);
    SSL_CTX_free(before);
    return 0;
}

void http_tls_free(struct http_tls **tls_ptr) {
    struct http_tls *tls = *tls_ptr;
    if (!tls)
        return;
    SSL_CTX_free(tls->settings);
    pthread_mutex_destroy(&tls->lock);
    mem_free(tls->certificate_file);
    mem_free(tls->key_file);
    mem_free(tls);
    *tls_ptr = NULL;
}

/* ---- one connection ---- */

struct bufferevent *http_tls_accept(struct http_tls *tls, struct event_base *base, int fd,
                                    struct ssl_st **session) {
    pthread_mutex_lock(&tls->lock);
    *session = SSL_new(tls->settings);
    pthread_mutex_unlock(&tls->lock);
    if (!*session)
        return NULL;
    struct bufferevent *bev =
        bufferevent_openssl_socket_new(base, fd, *session, BUFFEREVENT_SSL_ACCEPTING, 0);
    if (bev)
        bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
    else
        http_tls_end(session);
    return bev;
}

const char *http_tls_failure(struct bufferevent *bev, bool *plain) {
    unsigned long code = bufferevent_get_openssl_error(bev);
    const char *text = code ? ERR_reason_error_string(code) : NULL;
    *plain = ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_HTTP_REQUEST;
    return text ? text : "the connection broke";
}

void http_tls_close_notify(struct ssl_st *session) {
    SSL_shutdown(session);
    ERR_clear_error(); /* of this thread, whose next connection would be blamed */
}

void http_tls_end(struct ssl_st **session) {
    if (*session)
        SSL_free(*session);
    *session = NULL;
}

#endif
