#ifdef TRIREME_HAVE_TLS

#define TLS_LIBRARIES_NO_NAMES
#include "http/tls_libraries.h"

#include "base/library.h"

#include <dlfcn.h>
#include <pthread.h>

struct tls_calls tls_calls;
static struct error problem; /* of opening; code 0: none */

#define SYMBOL(name) {#name, offsetof(struct tls_calls, name##_at)},
static const struct library_symbol SSL_SYMBOLS[] = {TLS_SSL_CALLS(SYMBOL)};
static const struct library_symbol CRYPTO_SYMBOLS[] = {TLS_CRYPTO_CALLS(SYMBOL)};
static const struct library_symbol LIBEVENT_SYMBOLS[] = {TLS_LIBEVENT_CALLS(SYMBOL)};
#undef SYMBOL

static int open_library(const char *file, const struct library_symbol *symbols, size_t count) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(&problem, ERR_UNSUPPORTED,
                         "TLS needs OpenSSL and libevent's part for it (Debian's packages libssl3 "
                         "and libevent-openssl-2.1-7): %s",
                         dlerror());
    return library_symbols(library, file, symbols, count, &tls_calls, &problem);
}

static void open_once(void) {
    int rc = open_library("libcrypto.so.3", CRYPTO_SYMBOLS, ARRAY_LEN(CRYPTO_SYMBOLS));
    if (!rc)
        rc = open_library("libssl.so.3", SSL_SYMBOLS, ARRAY_LEN(SSL_SYMBOLS));
    if (!rc)
        rc = open_library("libevent_openssl-2.1.so.7", LIBEVENT_SYMBOLS,
                          ARRAY_LEN(LIBEVENT_SYMBOLS));
    problem.code = rc;
}

int tls_libraries_open(struct error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    return problem.code ? error_set(err, problem.code, "%s", problem.text) : 0;
}

#endif
