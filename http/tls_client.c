#include "http/tls_client.h"

#ifdef TRIREME_HAVE_TLS

#include "base/base.h"
#include "base/clock.h"
#include "http/tls_libraries.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- what all sessions begin with ---- */

static SSL_CTX *settings; /* made once, for the life of the process */
static struct error settings_problem;

/* OpenSSL knows where the distribution that it was built for keeps its certificates; a package of
 * ours may run on another one. */
static void trust_the_systems(SSL_CTX *to) {
    static const char *const BUNDLES[] = {"/etc/ssl/certs/ca-certificates.crt",
                                          "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};
    SSL_CTX_set_default_verify_paths(to); /* SSL_CERT_FILE, too */
    if (getenv("SSL_CERT_FILE"))
        return;
    for (size_t i = 0; i < ARRAY_LEN(BUNDLES); i++)
        if (access(BUNDLES[i], R_OK) == 0 && SSL_CTX_load_verify_file(to, BUNDLES[i]) == 1)
            return;
}

static void make_settings(void) {
    if (tls_openssl_open(&settings_problem))
        return;
    SSL_CTX *made = SSL_CTX_new(TLS_client_method());
    if (!made) {
        error_set(&settings_problem, ERR_UNSUPPORTED, "OpenSSL cannot begin");
        return;
    }
    SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION);
    SSL_CTX_set_options(made, SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(made, SSL_VERIFY_PEER, NULL);
    trust_the_systems(made);
    ERR_clear_error();
    settings = made;
}

/* ---- SIGPIPE: OpenSSL writes to sockets without MSG_NOSIGNAL ---- */

struct held_pipe {
    sigset_t before;
    bool was_pending;
};

static void hold_sigpipe(struct held_pipe *held) {
    sigset_t pipe, pending;
    sigpending(&pending);
    held->was_pending = sigismember(&pending, SIGPIPE);
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &held->before);
}

static void drop_sigpipe(const struct held_pipe *held) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    if (!held->was_pending)
        sigtimedwait(&pipe, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &held->before, NULL);
}

/* ---- one session ---- */

/* The certificate must be for this host; a name is told to the server as well (SNI). */
static bool expect_host(SSL *session, const char *host) {
    struct in6_addr ignored;
    if (inet_pton(AF_INET, host, &ignored) == 1 || inet_pton(AF_INET6, host, &ignored) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host) == 1;
    return SSL_set1_host(session, host) == 1 && SSL_set_tlsext_host_name(session, host) == 1;
}

/* What a call that returned rc wants: ERR_AGAIN with the poll events in *events, 0 for the end of the
 * connection, or the failure. saved: errno behind the call. */
static int outcome(SSL *session, int rc, int saved, short *events, struct error *err) {
    int code = SSL_get_error(session, rc);
    *events = code == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
    if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE)
        return ERR_AGAIN;
    if (code == SSL_ERROR_ZERO_RETURN)
        return 0;
    const char *why = ERR_reason_error_string(ERR_peek_error());
    if (!why && saved) {
        errno = saved;
        return error_set_errno(err, "the connection broke");
    }
    return error_set(err, ERR_CLOSED, "the connection broke%s%s", why ? ": " : "", why ? why : "");
}

/* Why a handshake failed. */
static int refusal(SSL *session, const char *host, struct error *err) {
    long trust = SSL_get_verify_result(session);
    unsigned long code = ERR_peek_error();
    if (trust != X509_V_OK)
        return error_set(err, ERR_INVALID,
                         "the certificate of '%s' is not believed: %s (SSL_CERT_FILE=FILE names "
                         "certificates to trust)",
                         host, X509_verify_cert_error_string(trust));
    if (ERR_GET_LIB(code) == ERR_LIB_SSL && (ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER ||
                                             ERR_GET_REASON(code) == SSL_R_PACKET_LENGTH_TOO_LONG))
        return error_set(err, ERR_INVALID,
                         "'%s' does not speak TLS at this port; its address begins with http://",
                         host);
    return 0;
}

static int shake_hands(SSL *session, int fd, const char *host, int timeout_ms, struct error *err) {
    static const unsigned char HTTP[] = "\x08http/1.1";
    if (!expect_host(session, host) || SSL_set_fd(session, fd) != 1 ||
        SSL_set_alpn_protos(session, HTTP, sizeof HTTP - 1) != 0)
        return error_set(err, ERR_INVALID, "TLS takes no host like '%s'", host);
    for (int64_t end = clock_ms() + timeout_ms;;) {
        struct pollfd p = {.fd = fd};
        ERR_clear_error();
        int done = SSL_connect(session), saved = done < 0 ? errno : 0;
        if (done == 1)
            return 0;
        int rc = outcome(session, done, saved, &p.events, err);
        if (rc != ERR_AGAIN) {
            int why = refusal(session, host, err);
            if (!why && !rc)
                return error_set(err, ERR_CLOSED, "'%s' hung up during the handshake", host);
            return why ? why : error_wrap(err, "no TLS with '%s'", host);
        }
        int64_t left = end - clock_ms();
        if (left <= 0)
            return error_set(err, ERR_TIMEOUT, "no TLS handshake with '%s' within %d ms", host,
                             timeout_ms);
        if (poll(&p, 1, (int)left) < 0 && errno != EINTR)
            return error_set_errno(err, "the connection broke");
    }
}

int tls_client_begin(struct ssl_st **session, int fd, const char *host, int timeout_ms,
                     struct error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    *session = NULL;
    pthread_once(&once, make_settings);
    if (!settings)
        return error_set(err, settings_problem.code, "%s", settings_problem.text);
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
        return error_set_errno(err, "cannot use the connection");
    SSL *made = SSL_new(settings);
    if (!made)
        return error_set(err, ERR_MEMORY, "no memory for a TLS session");
    struct held_pipe held;
    hold_sigpipe(&held);
    int rc = shake_hands(made, fd, host, timeout_ms, err);
    drop_sigpipe(&held);
    ERR_clear_error();
    if (rc)
        SSL_free(made);
    else
        *session = made;
    return rc;
}

ssize_t tls_client_read(struct ssl_st *session, void *out, size_t size, struct error *err) {
    struct held_pipe held;
    short events;
    hold_sigpipe(&held); /* keys may change, which is answered */
    ERR_clear_error();
    int n = SSL_read(session, out, (int)MIN(size, (size_t)1 << 30)), saved = n < 0 ? errno : 0;
    drop_sigpipe(&held);
    return n > 0 ? n : outcome(session, n, saved, &events, err);
}

ssize_t tls_client_write(struct ssl_st *session, const void *bytes, size_t size,
                         struct error *err) {
    struct held_pipe held;
    short events;
    hold_sigpipe(&held);
    ERR_clear_error();
    int n = SSL_write(session, bytes, (int)MIN(size, (size_t)1 << 30)), saved = n < 0 ? errno : 0;
    drop_sigpipe(&held);
    if (n > 0)
        return n;
    int rc = outcome(session, n, saved, &events, err);
    return rc ? rc : error_set(err, ERR_CLOSED, "the connection was ended by the other side");
}

void tls_client_end(struct ssl_st **session) {
    struct held_pipe held;
    if (!*session)
        return;
    hold_sigpipe(&held);
    SSL_shutdown(*session); /* not waited for */
    drop_sigpipe(&held);
    ERR_clear_error();
    SSL_free(*session);
    *session = NULL;
}

#else

int tls_client_begin(struct ssl_st **session, int fd, const char *host, int timeout_ms,
                     struct error *err) {
    *session = NULL;
    return error_set(err, ERR_UNSUPPORTED, "this program was built without OpenSSL: it has no TLS");
}

/* There is never a session. */
ssize_t tls_client_read(struct ssl_st *session, void *out, size_t size, struct error *err) {
    return error_set(err, ERR_UNSUPPORTED, "there is no TLS");
}
ssize_t tls_client_write(struct ssl_st *session, const void *bytes, size_t size,
                         struct error *err) {
    return error_set(err, ERR_UNSUPPORTED, "there is no TLS");
}
void tls_client_end(struct ssl_st **session) {}

#endif
