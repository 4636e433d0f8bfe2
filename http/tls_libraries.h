/*
 * tls_libraries.h - OpenSSL's libssl and libcrypto and libevent's part for them, opened when a
 * certificate is first read or a client's session begins.
 *
 * Private to http/. Whoever includes this calls the functions by their own names, after
 * tls_libraries_open; a client's end does without libevent, after tls_openssl_open.
 *
 * Threading: any thread.
 */
#ifndef HTTP_TLS_LIBRARIES_H
#define HTTP_TLS_LIBRARIES_H

#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/error.h"

#define TLS_SSL_CALLS(X)                                                                           \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_load_verify_file)                                                                    \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_set_alpn_select_cb)                                                                  \
    X(SSL_CTX_set_cipher_list)                                                                     \
    X(SSL_CTX_set_default_passwd_cb)                                                               \
    X(SSL_CTX_set_default_passwd_cb_userdata)                                                      \
    X(SSL_CTX_set_default_verify_paths)                                                            \
    X(SSL_CTX_set_options)                                                                         \
    X(SSL_CTX_set_verify)                                                                          \
    X(SSL_CTX_use_PrivateKey_file)                                                                 \
    X(SSL_CTX_use_certificate_chain_file)                                                          \
    X(SSL_connect)                                                                                 \
    X(SSL_ctrl)                                                                                    \
    X(SSL_free)                                                                                    \
    X(SSL_get0_param)                                                                              \
    X(SSL_get_error)                                                                               \
    X(SSL_get_verify_result)                                                                       \
    X(SSL_new)                                                                                     \
    X(SSL_read)                                                                                    \
    X(SSL_select_next_proto)                                                                       \
    X(SSL_set1_host)                                                                               \
    X(SSL_set_alpn_protos)                                                                         \
    X(SSL_set_fd)                                                                                  \
    X(SSL_shutdown)                                                                                \
    X(SSL_write)                                                                                   \
    X(TLS_client_method)                                                                           \
    X(TLS_server_method)
#define TLS_CRYPTO_CALLS(X)                                                                        \
    X(ERR_clear_error)                                                                             \
    X(ERR_peek_error)                                                                              \
    X(ERR_reason_error_string)                                                                     \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                                               \
    X(X509_verify_cert_error_string)
#define TLS_LIBEVENT_CALLS(X)                                                                      \
    X(bufferevent_get_openssl_error)                                                               \
    X(bufferevent_openssl_set_allow_dirty_shutdown)                                                \
    X(bufferevent_openssl_socket_new)

struct tls_calls {
#define TLS_MEMBER(name) __typeof__(name) *name##_at;
    TLS_SSL_CALLS(TLS_MEMBER) TLS_CRYPTO_CALLS(TLS_MEMBER) TLS_LIBEVENT_CALLS(TLS_MEMBER)
#undef TLS_MEMBER
};
extern struct tls_calls tls_calls;

/* Opens all three, once in the process. ERR_UNSUPPORTED: one is not there, or lacks a call. */
MUST_CHECK int tls_libraries_open(struct error *err);
/* The first two alone. */
MUST_CHECK int tls_openssl_open(struct error *err);

#ifndef TLS_LIBRARIES_NO_NAMES
#define SSL_CTX_ctrl                           tls_calls.SSL_CTX_ctrl_at
#define SSL_CTX_free                           tls_calls.SSL_CTX_free_at
#define SSL_CTX_load_verify_file               tls_calls.SSL_CTX_load_verify_file_at
#define SSL_CTX_new                            tls_calls.SSL_CTX_new_at
#define SSL_CTX_set_alpn_select_cb             tls_calls.SSL_CTX_set_alpn_select_cb_at
#define SSL_CTX_set_cipher_list                tls_calls.SSL_CTX_set_cipher_list_at
#define SSL_CTX_set_default_passwd_cb          tls_calls.SSL_CTX_set_default_passwd_cb_at
#define SSL_CTX_set_default_passwd_cb_userdata tls_calls.SSL_CTX_set_default_passwd_cb_userdata_at
#define SSL_CTX_set_default_verify_paths       tls_calls.SSL_CTX_set_default_verify_paths_at
#define SSL_CTX_set_options                    tls_calls.SSL_CTX_set_options_at
#define SSL_CTX_set_verify                     tls_calls.SSL_CTX_set_verify_at
#define SSL_CTX_use_PrivateKey_file            tls_calls.SSL_CTX_use_PrivateKey_file_at
#define SSL_CTX_use_certificate_chain_file     tls_calls.SSL_CTX_use_certificate_chain_file_at
#define SSL_connect                            tls_calls.SSL_connect_at
#define SSL_ctrl                               tls_calls.SSL_ctrl_at
#define SSL_free                               tls_calls.SSL_free_at
#define SSL_get0_param                         tls_calls.SSL_get0_param_at
#define SSL_get_error                          tls_calls.SSL_get_error_at
#define SSL_get_verify_result                  tls_calls.SSL_get_verify_result_at
#define SSL_new                                tls_calls.SSL_new_at
#define SSL_read                               tls_calls.SSL_read_at
#define SSL_select_next_proto                  tls_calls.SSL_select_next_proto_at
#define SSL_set1_host                          tls_calls.SSL_set1_host_at
#define SSL_set_alpn_protos                    tls_calls.SSL_set_alpn_protos_at
#define SSL_set_fd                             tls_calls.SSL_set_fd_at
#define SSL_shutdown                           tls_calls.SSL_shutdown_at
#define SSL_write                              tls_calls.SSL_write_at
#define TLS_client_method                      tls_calls.TLS_client_method_at
#define TLS_server_method                      tls_calls.TLS_server_method_at
#define ERR_clear_error                        tls_calls.ERR_clear_error_at
#define ERR_peek_error                         tls_calls.ERR_peek_error_at
#define ERR_reason_error_string                tls_calls.ERR_reason_error_string_at
#define X509_VERIFY_PARAM_set1_ip_asc          tls_calls.X509_VERIFY_PARAM_set1_ip_asc_at
#define X509_verify_cert_error_string          tls_calls.X509_verify_cert_error_string_at
#define bufferevent_get_openssl_error          tls_calls.bufferevent_get_openssl_error_at
#define bufferevent_openssl_set_allow_dirty_shutdown                                               \
    tls_calls.bufferevent_openssl_set_allow_dirty_shutdown_at
#define bufferevent_openssl_socket_new tls_calls.bufferevent_openssl_socket_new_at
#endif

#endif
