/* The client over TLS: against a server of ours with certificates made here, and against those that
 * speak none. */
#include "check.h"
#include "cli/api_client.h"
#include "http/http_server.h"
#include "http/http_tls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Two certificates, "known" and "stranger", for localhost and 127.0.0.1; SSL_CERT_FILE has the
 * first, and is set before the process begins its first session. */
static char folder[] = "/tmp/trm-api-tls-XXXXXX";
static void remove_folder(void) {
    char text[100];
    snprintf(text, sizeof text, "rm -rf '%s'", folder);
    if (system(text))
        abort();
}
static bool have_certificates(void) {
    static int made = -1;
    static const char *const NAMES[] = {"known", "stranger"};
    char text[512];
    if (made >= 0)
        return made;
    if (!mkdtemp(folder))
        abort();
    atexit(remove_folder);
    made = 1;
    for (size_t i = 0; i < ARRAY_LEN(NAMES) && made; i++) {
        snprintf(
            text, sizeof text,
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=%s "
            "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout '%s/%s.key' -out '%s/%s' 2>/dev/null",
            NAMES[i], folder, NAMES[i], folder, NAMES[i]);
        made = system(text) == 0;
    }
    snprintf(text, sizeof text, "%s/known", folder);
    setenv("SSL_CERT_FILE", text, 1);
    return made;
}

/* Answers a body with itself, and without one with events. */
static void on_request(void *ctx, struct http_request *req) {
    if (req->body.len) {
        http_respond(req, 200, "text/plain", NULL, 0, req->body);
        return;
    }
    http_stream_begin(req, 200, "text/event-stream", NULL, 0);
    for (int i = 0; i < 1000; i++)
        (void)http_stream_write(req, "data: piece\n\n", 13);
    http_stream_end(req);
}

struct place {
    struct http_tls *tls;
    struct http_server *server;
    char url[64];
};

/* certificate NULL: plain HTTP. Nonzero: this build has no TLS. */
static int place_open(struct place *p, const char *certificate, const char *host) {
    struct http_config config;
    char file[100], key[110];
    struct error err;
    *p = (struct place){0};
    http_config_init(&config);
    if (certificate) {
        snprintf(file, sizeof file, "%s/%s", folder, certificate);
        snprintf(key, sizeof key, "%s.key", file);
        int rc = http_tls_new(&p->tls, file, key, &err);
        if (rc)
            return rc;
    }
    config.tls = p->tls;
    config.host = "0.0.0.0";
    config.on_request = on_request;
    p->server = http_server_new(&config, &err);
    if (!p->server || http_server_start(p->server, &err))
        abort();
    snprintf(p->url, sizeof p->url, "https://%s:%u/", host, http_server_port(p->server));
    return 0;
}

static void place_close(struct place *p) {
    http_server_free(&p->server);
    http_tls_free(&p->tls);
}

static bool count_piece(void *ctx, struct bytes data) {
    int *count = ctx;
    *count += bytes_equal(data, bytes_str("piece"));
    return true;
}

#define NEEDS_CERTIFICATES()                                                                       \
    if (!have_certificates())                                                                      \
    SKIP("openssl", "there is no openssl command to make certificates with")
#define PLACE(certificate, host)                                                                   \
    struct place p;                                                                                \
    struct api_client c;                                                                           \
    struct error err = {0};                                                                        \
    struct buf out;                                                                                \
    if (place_open(&p, certificate, host) == ERR_UNSUPPORTED)                                      \
        SKIP("tls", "this build has no OpenSSL");                                                  \
    buf_init(&out, 0);                                                                             \
    EXPECT_EQ(api_client_init(&c, p.url, NULL, &err), 0);                                          \
    EXPECT(c.tls)
#define END_PLACE()                                                                                \
    buf_release(&out);                                                                             \
    place_close(&p)

TEST(api_client_speaks_tls) {
    static const char *const HOSTS[] = {"127.0.0.1", "localhost"};
    NEEDS_CERTIFICATES();
    for (size_t i = 0; i < ARRAY_LEN(HOSTS); i++) {
        int pieces = 0;
        PLACE("known", HOSTS[i]);
        EXPECT_EQ(api_stream(&c, "/", NULL, count_piece, &pieces, &out, 5000, &err), 200);
        EXPECT_EQ(pieces, 1000);
        END_PLACE();
    }
}

TEST(api_client_sends_and_reads_much_over_tls) {
    enum { SIZE = 3 << 20 };
    char *body = malloc(SIZE + 1);
    NEEDS_CERTIFICATES();
    PLACE("known", "127.0.0.1");
    for (size_t i = 0; i < SIZE; i++)
        body[i] = (char)('a' + i * 31 % 23);
    body[SIZE] = 0;
    EXPECT_EQ(api_call(&c, "/", body, &out, 20000, &err), 200);
    EXPECT(bytes_equal(buf_bytes(&out), bytes_of(body, SIZE)));
    free(body);
    END_PLACE();
}

static void expect_refusal(const char *certificate, const char *host, int code, const char *text) {
    PLACE(certificate, host);
    EXPECT_EQ(api_call(&c, "/", NULL, &out, 5000, &err), code);
    EXPECT_STR(err.text, text);
    END_PLACE();
}

TEST(api_client_believes_no_other_certificate) {
    NEEDS_CERTIFICATES();
    expect_refusal("stranger", "127.0.0.1", ERR_INVALID,
                   "the certificate of '127.0.0.1' is not believed: self-signed certificate "
                   "(SSL_CERT_FILE=FILE names certificates to trust)");
    expect_refusal("known", "127.0.0.2", ERR_INVALID,
                   "the certificate of '127.0.0.2' is not believed: IP address mismatch "
                   "(SSL_CERT_FILE=FILE names certificates to trust)");
}

TEST(api_client_says_that_a_port_has_no_tls) {
    NEEDS_CERTIFICATES();
    expect_refusal(NULL, "127.0.0.1", ERR_INVALID,
                   "'127.0.0.1' does not speak TLS at this port; its address begins with http://");
}

/* One that takes the connection and keeps silent. */
TEST(api_client_waits_no_longer_for_a_handshake) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    struct api_client c;
    struct error err = {0};
    struct buf out;
    char url[64];
    NEEDS_CERTIFICATES();
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(!bind(fd, (struct sockaddr *)&at, sizeof at) && !listen(fd, 1) &&
           !getsockname(fd, (struct sockaddr *)&at, &len));
    snprintf(url, sizeof url, "https://127.0.0.1:%u", ntohs(at.sin_port));
    EXPECT_EQ(api_client_init(&c, url, NULL, &err), 0);
    buf_init(&out, 0);
    int rc = api_call(&c, "/", NULL, &out, 200, &err);
    if (rc == ERR_UNSUPPORTED)
        SKIP("tls", "this build has no OpenSSL");
    EXPECT_EQ(rc, ERR_TIMEOUT);
    EXPECT_STR(err.text, "no TLS handshake with '127.0.0.1' within 200 ms");
    buf_release(&out);
    close(fd);
}
