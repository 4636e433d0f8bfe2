/*
 * libraries.h - libcurl and OpenSSL's libcrypto, opened when a hub is first asked: a process that
 * serves carries neither them nor the twenty libraries behind them.
 *
 * Private to hub/. Whoever includes this calls the functions by their own names, after
 * hub_libraries_open.
 *
 * Threading: any thread.
 */
#ifndef FORMATS_HUB_LIBRARIES_H
#define FORMATS_HUB_LIBRARIES_H

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <openssl/evp.h>

#include "base/error.h"

#undef curl_easy_getinfo /* curl.h has macros that only count arguments */
#undef curl_easy_setopt

#define HUB_CURL_CALLS(X)                                                                          \
    X(curl_easy_cleanup)                                                                           \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_init)                                                                              \
    X(curl_easy_reset)                                                                             \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_strerror)                                                                          \
    X(curl_free)                                                                                   \
    X(curl_global_init)                                                                            \
    X(curl_multi_add_handle)                                                                       \
    X(curl_multi_cleanup)                                                                          \
    X(curl_multi_info_read)                                                                        \
    X(curl_multi_init)                                                                             \
    X(curl_multi_perform)                                                                          \
    X(curl_multi_poll)                                                                             \
    X(curl_multi_remove_handle)                                                                    \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)                                                                         \
    X(curl_url)                                                                                    \
    X(curl_url_cleanup)                                                                            \
    X(curl_url_get)                                                                                \
    X(curl_url_set)
#define HUB_CRYPTO_CALLS(X)                                                                        \
    X(EVP_DigestUpdate)                                                                            \
    X(EVP_DigestInit_ex)                                                                           \
    X(EVP_DigestFinal_ex)                                                                          \
    X(EVP_MD_CTX_new)                                                                              \
    X(EVP_MD_CTX_free)                                                                             \
    X(EVP_sha256)                                                                                  \
    X(EVP_sha1)

struct hub_calls {
#define HUB_MEMBER(name) __typeof__(name) *name##_at;
    HUB_CURL_CALLS(HUB_MEMBER) HUB_CRYPTO_CALLS(HUB_MEMBER)
#undef HUB_MEMBER
};
extern struct hub_calls hub_calls;

/* Opens both, once in the process. ERR_UNSUPPORTED: one is not there, or lacks a call. */
MUST_CHECK int hub_libraries_open(struct error *err);

#ifndef HUB_LIBRARIES_NO_NAMES
#define curl_easy_cleanup        hub_calls.curl_easy_cleanup_at
#define curl_easy_getinfo        hub_calls.curl_easy_getinfo_at
#define curl_easy_init           hub_calls.curl_easy_init_at
#define curl_easy_reset          hub_calls.curl_easy_reset_at
#define curl_easy_setopt         hub_calls.curl_easy_setopt_at
#define curl_easy_strerror       hub_calls.curl_easy_strerror_at
#define curl_free                hub_calls.curl_free_at
#define curl_global_init         hub_calls.curl_global_init_at
#define curl_multi_add_handle    hub_calls.curl_multi_add_handle_at
#define curl_multi_cleanup       hub_calls.curl_multi_cleanup_at
#define curl_multi_info_read     hub_calls.curl_multi_info_read_at
#define curl_multi_init          hub_calls.curl_multi_init_at
#define curl_multi_perform       hub_calls.curl_multi_perform_at
#define curl_multi_poll          hub_calls.curl_multi_poll_at
#define curl_multi_remove_handle hub_calls.curl_multi_remove_handle_at
#define curl_slist_append        hub_calls.curl_slist_append_at
#define curl_slist_free_all      hub_calls.curl_slist_free_all_at
#define curl_url                 hub_calls.curl_url_at
#define curl_url_cleanup         hub_calls.curl_url_cleanup_at
#define curl_url_get             hub_calls.curl_url_get_at
#define curl_url_set             hub_calls.curl_url_set_at
#define EVP_DigestUpdate         hub_calls.EVP_DigestUpdate_at
#define EVP_DigestInit_ex        hub_calls.EVP_DigestInit_ex_at
#define EVP_DigestFinal_ex       hub_calls.EVP_DigestFinal_ex_at
#define EVP_MD_CTX_new           hub_calls.EVP_MD_CTX_new_at
#define EVP_MD_CTX_free          hub_calls.EVP_MD_CTX_free_at
#define EVP_sha256               hub_calls.EVP_sha256_at
#define EVP_sha1                 hub_calls.EVP_sha1_at
#endif

#endif
