#ifdef TRIREME_HAVE_HUB

#define HUB_LIBRARIES_NO_NAMES
#include "formats/hub/libraries.h"

#include "base/library.h"

#include <dlfcn.h>
#include <pthread.h>

struct hub_calls hub_calls;
static struct error problem; /* of opening; code 0: none */

#define SYMBOL(name) {#name, offsetof(struct hub_calls, name##_at)},
static const struct library_symbol CURL_SYMBOLS[] = {HUB_CURL_CALLS(SYMBOL)};
static const struct library_symbol CRYPTO_SYMBOLS[] = {HUB_CRYPTO_CALLS(SYMBOL)};
#undef SYMBOL

static int open_library(const char *file, const struct library_symbol *symbols, size_t count) {
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(&problem, ERR_UNSUPPORTED,
                         "downloads need libcurl and OpenSSL (Debian's packages libcurl4 and "
                         "libssl3): %s",
                         dlerror());
    return library_symbols(library, file, symbols, count, &hub_calls, &problem);
}

static void open_once(void) {
    if (!open_library("libcurl.so.4", CURL_SYMBOLS, ARRAY_LEN(CURL_SYMBOLS)) &&
        !open_library("libcrypto.so.3", CRYPTO_SYMBOLS, ARRAY_LEN(CRYPTO_SYMBOLS)))
        CHECK(hub_calls.curl_global_init_at(CURL_GLOBAL_DEFAULT) == 0);
}

int hub_libraries_open(struct error *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    return problem.code ? error_set(err, problem.code, "%s", problem.text) : 0;
}

#endif
