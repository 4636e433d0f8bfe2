/* What is said of files that are no certificate or no key, and how the sessions of a good one are set up. */
#include "base/fsutil.h"
#include "check.h"
#include "http/http_tls.h"
#include "http/http_tls_internal.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#if __has_include(<openssl/ssl.h>)
#include <dlfcn.h>
#include <openssl/ssl.h>
#endif

static const struct row {
    const char *certificate, *key; /* files of the folder */
    int code;
    const char *text; /* %s: the folder */
} ROWS[] = {
    {"none", "other", ERR_NOT_FOUND,
     "cannot read the TLS certificate '%s/none': No such file or directory"},
    {"other", "none", ERR_NOT_FOUND,
     "cannot read the TLS key '%s/none': No such file or directory"},
    {"none", "pipe", ERR_NOT_FOUND,
     "cannot read the TLS certificate '%s/none': No such file or directory"},
    {"pipe", "other", ERR_INVALID, "the TLS certificate '%s/pipe' is no regular file"},
    {"other", "pipe", ERR_INVALID, "the TLS key '%s/pipe' is no regular file"},
    {"other", "folder", ERR_INVALID, "the TLS key '%s/folder' is no regular file"},
    {"other", "other", ERR_INVALID, "cannot take the TLS certificate '%s/other': no start line"},
    {"empty", "other", ERR_INVALID, "cannot take the TLS certificate '%s/empty': no start line"},
};

TEST(files_that_are_no_certificate_are_refused_by_name) {
    char dir[] = "/tmp/trm-tls-XXXXXX", certificate[100], key[100], text[300];
    EXPECT(mkdtemp(dir));
    snprintf(key, sizeof key, "%s/other", dir);
    EXPECT_EQ(file_write_atomic(key, "no certificate\n", 15, 0600, NULL), 0);
    snprintf(key, sizeof key, "%s/empty", dir);
    EXPECT_EQ(file_write_atomic(key, "", 0, 0600, NULL), 0);
    snprintf(key, sizeof key, "%s/pipe", dir);
    EXPECT_EQ(mkfifo(key, 0600), 0);
    snprintf(key, sizeof key, "%s/folder", dir);
    EXPECT_EQ(mkdir(key, 0700), 0);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct http_tls *tls;
        struct error err;
        snprintf(certificate, sizeof certificate, "%s/%s", dir, ROWS[i].certificate);
        snprintf(key, sizeof key, "%s/%s", dir, ROWS[i].key);
        int rc = http_tls_new(&tls, certificate, key, &err);
        if (rc == ERR_UNSUPPORTED)
            SKIP("tls", "this build has no OpenSSL");
        const char *at = strstr(ROWS[i].text, "%s");
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - ROWS[i].text), ROWS[i].text, dir,
                 at + 2);
        EXPECT_EQ(rc, ROWS[i].code);
        EXPECT(!tls);
        if (strcmp(err.text, text) != 0)
            check_fail(__FILE__, __LINE__, "row %zu: %s", i, err.text);
    }
    snprintf(text, sizeof text, "rm -rf '%s'", dir);
    EXPECT_EQ(system(text), 0);
}

#if __has_include(<openssl/ssl.h>)
/* A certificate and its key in one file. */
static bool make_certificate(const char *file) {
    char command[640];
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
             "-subj /CN=localhost -keyout '%s' -out '%s.crt' 2>/dev/null && cat '%s.crt' >>'%s'",
             file, file, file, file);
    return system(command) == 0;
}

/* A key that cannot be taken with a good certificate: why, and no word of passphrases where none was
 * asked for. */
TEST(keys_that_are_none_are_refused_by_name) {
    static const char *const KEYS[] = {
        "no key\n", "", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"};
    char dir[] = "/tmp/trm-tls-XXXXXX", file[100], key[100], command[256];
    struct http_tls *tls;
    struct error err = {0};
    EXPECT(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/both", dir);
    snprintf(key, sizeof key, "%s/key", dir);
    if (!make_certificate(file) || http_tls_new(&tls, file, file, &err))
        SKIP("tls", "no openssl command, or a build without it");
    http_tls_free(&tls);
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        EXPECT_EQ(file_write_atomic(key, KEYS[i], strlen(KEYS[i]), 0600, NULL), 0);
        EXPECT_EQ(http_tls_new(&tls, file, key, &err), ERR_INVALID);
        EXPECT(strstr(err.text, "cannot take the TLS key '") && strstr(err.text, key));
        EXPECT(!strstr(err.text, "passphrase"));
    }
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    EXPECT_EQ(system(command), 0);
}

/* OpenSSL's own getters say what http_tls.h promises. */
TEST(sessions_are_as_the_contract_says) {
    char dir[] = "/tmp/trm-tls-XXXXXX", file[100], command[256];
    struct http_tls *tls;
    struct error err = {0};
    struct ssl_st *session;
    EXPECT(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/both", dir);
    bool made = make_certificate(file);
    int rc = made ? http_tls_new(&tls, file, file, &err) : 0;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    EXPECT_EQ(system(command), 0);
    if (!made)
        SKIP("openssl", "there is no openssl command");
    if (rc == ERR_UNSUPPORTED)
        SKIP("tls", "this build has no OpenSSL");
    EXPECT_EQ(rc, 0);
    int ends[2];
    struct event_base *base = event_base_new();
    EXPECT(base && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends));
    struct bufferevent *bev = http_tls_accept(tls, base, ends[0], &session);
    EXPECT(bev && session);
    void *lib = dlopen("libssl.so.3", RTLD_NOW | RTLD_NOLOAD); /* http_tls_new has opened it */
    EXPECT(lib);
    __typeof__(SSL_get_SSL_CTX) *settings_of = dlsym(lib, "SSL_get_SSL_CTX");
    __typeof__(SSL_get_options) *options_of = dlsym(lib, "SSL_get_options");
    __typeof__(SSL_CTX_ctrl) *setting = dlsym(lib, "SSL_CTX_ctrl");
    __typeof__(SSL_get_cipher_list) *cipher = dlsym(lib, "SSL_get_cipher_list");
    EXPECT(settings_of && options_of && setting && cipher);
    SSL_CTX *settings = settings_of(session);
    EXPECT_EQ(setting(settings, SSL_CTRL_GET_SESS_CACHE_MODE, 0, NULL), SSL_SESS_CACHE_OFF);
    EXPECT_EQ(setting(settings, SSL_CTRL_GET_MIN_PROTO_VERSION, 0, NULL), TLS1_2_VERSION);
    EXPECT(setting(settings, SSL_CTRL_MODE, 0, NULL) & SSL_MODE_RELEASE_BUFFERS);
    uint64_t wanted =
        SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE;
    EXPECT_EQ(options_of(session) & (wanted | SSL_OP_NO_TICKET), wanted);
    int ciphers = 0;
    for (const char *name; (name = cipher(session, ciphers)); ciphers++)
        EXPECT(
            !strncmp(name, "TLS_", 4) || /* of TLS 1.3 */
            (!strncmp(name, "ECDHE-", 6) && (strstr(name, "-GCM-") || strstr(name, "CHACHA20"))));
    EXPECT(ciphers > 0);
    bufferevent_free(bev);
    http_tls_end(&session);
    EXPECT(!session);
    http_tls_free(&tls);
    EXPECT(!tls);
    event_base_free(base);
    close(ends[0]);
    close(ends[1]);
    dlclose(lib);
}
#endif
