#ifdef TRIREME_HAVE_TLS

#define TLS_LIBRARIES_NO_NAMES
#include "http/tls_libraries.h"

#include "base/library.h"

#include <dlfcn.h>
#include <pthread.h>

struct tls_calls tls_calls;
static struct error openssl_problem, libevent_problem; /* of opening; code 0: none */

#define SYMBOL(name) {#name, offsetof(struct tls_calls, name##_at)},
static const struct library_symbol SSL_SYMBOLS[] = {TLS_SSL_CALLS(SYMBOL)};
static const struct library_symbol CRYPTO_SYMBOLS[] = {TLS_CRYPTO_CALLS(SYMBOL)};
static const struct library_symbol LIBEVENT_SYMBOLS[] = {TLS_LIBEVENT_CALLS(SYMBOL)};
#undef SYMBOL

static int open_library(const char *file, const char *package, const struct library_symbol *symbols,
                        size_t count, struct error *err) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(err, ERR_UNSUPPORTED, "TLS needs %s (in Debian's package %s): %s", file,
                         package, dlerror());
    return library_symbols(library, file, symbols, count, &tls_calls, err);
}

static void open_openssl(void) {
    struct error *err = &openssl_problem;
    int rc =
        open_library("libcrypto.so.3", "libssl3", CRYPTO_SYMBOLS, ARRAY_LEN(CRYPTO_SYMBOLS), err);
    if (!rc)
        rc = open_library("libssl.so.3", "libssl3", SSL_SYMBOLS, ARRAY_LEN(SSL_SYMBOLS), err);
    err->code = rc;
}

static void open_libevent(void) {
    libevent_problem.code =
        open_library("libevent_openssl-2.1.so.7", "libevent-openssl-2.1-7", LIBEVENT_SYMBOLS,
                     ARRAY_LEN(LIBEVENT_SYMBOLS), &libevent_problem);
}

static int outcome(const struct error *problem, struct error *err) {
    return problem->code ? error_set(err, problem->code, "%s", problem->text) : 0;
}

int tls_openssl_open(struct error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_openssl);
    return outcome(&openssl_problem, err);
}

int tls_libraries_open(struct error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int rc = tls_openssl_open(err);
    if (rc)
        return rc;
    pthread_once(&once, open_libevent);
    return outcome(&libevent_problem, err);
}

#endif
