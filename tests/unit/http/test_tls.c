/* A server with a certificate: whom it answers over TLS, and what becomes of those who speak something else. */
#include "http/http_tls.h"
#include "http/tls_client.h"
#include "server_bench.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { LONG_MS = 20000 }; /* more than a busy machine needs */

static char folder[] = "/tmp/trm-http-tls-XXXXXX";

static void remove_folder(void) {
    char text[100];
    snprintf(text, sizeof text, "rm -rf '%s'", folder);
    if (system(text))
        abort();
}

/* Makes a certificate for 127.0.0.1, once, and lets clients of this process believe it. */
static bool have_certificate(void) {
    static int made = -1;
    char text[640];
    if (made >= 0)
        return made;
    if (!mkdtemp(folder))
        abort();
    atexit(remove_folder);
    snprintf(
        text, sizeof text,
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=a "
        "-addext subjectAltName=IP:127.0.0.1 -keyout '%s/key' -out '%s/crt' 2>/dev/null",
        folder, folder);
    made = system(text) == 0;
    snprintf(text, sizeof text, "%s/crt", folder);
    setenv("SSL_CERT_FILE", text, 1);
    return made;
}

static int certificate(struct http_tls **tls) {
    char crt[64], key[64];
    struct error err;
    snprintf(crt, sizeof crt, "%s/crt", folder);
    snprintf(key, sizeof key, "%s/key", folder);
    return http_tls_new(tls, crt, key, &err);
}

static void free_tls(struct http_tls **tls) {
    http_tls_free(tls);
}

/* As BENCH, with a certificate and time to shake hands; "tls" goes behind the server that uses it. */
#define TLS_BENCH(...)                                                                             \
    if (!have_certificate())                                                                       \
        SKIP("openssl", "there is no openssl command to make certificates with");                  \
    __attribute__((cleanup(free_tls))) struct http_tls *tls;                                       \
    int made = certificate(&tls);                                                                  \
    if (made == ERR_UNSUPPORTED)                                                                   \
        SKIP("tls", "this build has no OpenSSL");                                                  \
    EXPECT_EQ(made, 0);                                                                            \
    BENCH(b.config.tls = tls; b.config.head_deadline_ms = b.config.idle_timeout_ms = LONG_MS;      \
          __VA_ARGS__)

static int64_t handshakes(enum http_handshake outcome) {
    return metric_value(&http_metrics[HTTP_METRIC_HANDSHAKES], (int)outcome);
}

/* One more of an outcome than before, soon. */
static bool counts(enum http_handshake outcome, int64_t before) {
    for (int i = 0; i < WIRE_TIMEOUT_MS && handshakes(outcome) == before; i++)
        sleep_ms(1);
    return handshakes(outcome) == before + 1;
}

/* Sends text in a session that has begun, and reads all until it ends. */
static bool exchange_in(struct ssl_st *session, int fd, const char *text, struct buf *in) {
    size_t sent = 0, len = strlen(text);
    struct error err;
    for (int64_t end = clock_ms() + LONG_MS; clock_ms() < end;) {
        char piece[4096];
        bool writes = sent < len;
        ssize_t rc = writes ? tls_client_write(session, text + sent, len - sent, &err)
                            : tls_client_read(session, piece, sizeof piece, &err);
        struct pollfd p = {.fd = fd, .events = writes ? POLLOUT : POLLIN};
        if (rc == ERR_AGAIN)
            poll(&p, 1, 100);
        else if (rc <= 0)
            return rc == 0 && !writes;
        else if (writes)
            sent += (size_t)rc;
        else
            buf_add(in, piece, (size_t)rc);
    }
    return false;
}

/* OpenSSL counts in ints: more than those hold is written in parts. */
TEST(a_write_may_be_larger_than_an_int) {
    TLS_BENCH();
    struct error err = {0};
    struct ssl_st *session;
    size_t len = ((size_t)1 << 31) + 4096;
    void *zeros = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(zeros != MAP_FAILED);
    int fd = wire_connect(b.port, 0);
    EXPECT_EQ(tls_client_begin(&session, fd, "127.0.0.1", LONG_MS, &err), 0);
    EXPECT(tls_client_write(session, zeros, len, &err) > 0);
    tls_client_end(&session);
    close(fd);
    munmap(zeros, len);
}

TEST(server_answers_over_tls) {
    TLS_BENCH();
    struct error err = {0};
    struct ssl_st *session;
    int64_t done = handshakes(HTTP_HANDSHAKE_DONE);
    int fd = wire_connect(b.port, 0);
    EXPECT_EQ(tls_client_begin(&session, fd, "127.0.0.1", LONG_MS, &err), 0);
    EXPECT(exchange_in(
        session, fd,
        "POST /echo HTTP/1.1\r\n" H "Connection: close\r\nContent-Length: 5\r\n\r\nhello", &in));
    EXPECT(strstr(in.data, "HTTP/1.1 200 OK\r\n") && strstr(in.data, "\r\n\r\nhello"));
    EXPECT(counts(HTTP_HANDSHAKE_DONE, done));
    tls_client_end(&session);
    EXPECT(!session);
    close(fd);
    EXPECT_EQ(b.request_count, 1);
}

/* A large answer, past what one record and one socket buffer hold. */
TEST(server_streams_much_over_tls) {
    TLS_BENCH(b.config.write_timeout_ms = LONG_MS);
    struct error err = {0};
    struct ssl_st *session;
    int fd = wire_connect(b.port, 4096);
    EXPECT_EQ(tls_client_begin(&session, fd, "127.0.0.1", LONG_MS, &err), 0);
    EXPECT(exchange_in(session, fd, "GET /many?n=700000 HTTP/1.1\r\n" H "Connection: close\r\n\r\n",
                       &in));
    EXPECT(wire_decode_chunks(&in, &out) > 0);
    EXPECT_EQ(out.len, 700000);
    for (size_t i = 0; i < out.len; i++)
        if ((uint8_t)out.data[i] != i * 7 % 251) {
            check_fail(__FILE__, __LINE__, "byte %zu is another", i);
            break;
        }
    tls_client_end(&session);
    close(fd);
}

/* Who forgot the s of https:// is told so, in plain HTTP, and nothing of what he said is taken. */
TEST(server_tells_who_speaks_plain_http) {
    TLS_BENCH();
    int64_t plain = handshakes(HTTP_HANDSHAKE_PLAIN), failed = handshakes(HTTP_HANDSHAKE_FAILED);
    EXPECT(exchange(&b, "GET /echo HTTP/1.1\r\n" H "\r\n", &in));
    EXPECT(!strncmp(in.data, "HTTP/1.1 400 ", 13));
    EXPECT(strstr(in.data, "this port speaks TLS: the address begins with https://"));
    EXPECT(counts(HTTP_HANDSHAKE_PLAIN, plain));
    EXPECT_EQ(handshakes(HTTP_HANDSHAKE_FAILED), failed);
    EXPECT_EQ(b.request_count, 0);
}

TEST(server_hangs_up_on_noise_before_a_handshake) {
    TLS_BENCH();
    int64_t plain = handshakes(HTTP_HANDSHAKE_PLAIN), failed = handshakes(HTTP_HANDSHAKE_FAILED);
    int fd = wire_connect(b.port, 0);
    EXPECT(wire_send_bytes(fd, "\x16\x03\x01\x00\x05noise", 10));
    (void)wire_read_all(fd, &in); /* an alert, if anything */
    EXPECT(!in.len || !memmem(in.data, in.len, "HTTP", 4));
    EXPECT(counts(HTTP_HANDSHAKE_FAILED, failed));
    EXPECT_EQ(handshakes(HTTP_HANDSHAKE_PLAIN), plain);
    close(fd);
}

/* Who says nothing is cut when a head would be, and counted. */
TEST(server_waits_for_a_handshake_as_long_as_for_a_head) {
    TLS_BENCH(b.config.head_deadline_ms = 200);
    int64_t late = handshakes(HTTP_HANDSHAKE_TIMEOUT);
    int fd = wire_connect(b.port, 0);
    EXPECT(wire_send_bytes(fd, "\x16\x03\x01\x02", 4));
    EXPECT(wire_read_all(fd, &in));
    EXPECT_EQ(in.len, 0);
    EXPECT(counts(HTTP_HANDSHAKE_TIMEOUT, late));
    close(fd);
}

/* Past the limit of connections strangers are not worth a handshake. */
TEST(server_refuses_without_a_handshake_past_its_limit) {
    TLS_BENCH(b.config.connections_max = 1);
    int first = wire_connect(b.port, 0);
    for (int i = 0; i < WIRE_TIMEOUT_MS && http_server_connection_count(b.server) == 0; i++)
        sleep_ms(1);
    int second = wire_connect(b.port, 0);
    int end = wire_read_some(second, &in, WIRE_TIMEOUT_MS);
    EXPECT(end == 0 || end == -1); /* at once */
    close(first);
    close(second);
}

/* Connections begin with the certificate of the latest reading; a file that is none changes nothing. */
TEST(certificates_are_read_again) {
    TLS_BENCH();
    struct error err = {0};
    char text[400];
    struct ssl_st *session;
    EXPECT(!http_tls_changed(tls));
    snprintf(text, sizeof text, "cd '%s' && cp crt kept && echo none >crt", folder);
    EXPECT_EQ(system(text), 0);
    EXPECT(http_tls_changed(tls));
    EXPECT_EQ(http_tls_reload(tls, &err), ERR_INVALID);
    EXPECT(!http_tls_changed(tls)); /* it was tried */
    int fd = wire_connect(b.port, 0);
    EXPECT_EQ(tls_client_begin(&session, fd, "127.0.0.1", LONG_MS, &err), 0);
    tls_client_end(&session);
    close(fd);
    snprintf(text, sizeof text, "mv '%s/kept' '%s/crt'", folder, folder);
    EXPECT_EQ(system(text), 0);
    EXPECT(http_tls_changed(tls));
    EXPECT_EQ(http_tls_reload(tls, &err), 0);
    EXPECT(!http_tls_changed(tls));
}

/* What openssl's own client says of a session that offers these protocols. */
static void ask_with(const struct bench *b, const char *protocols, struct buf *out) {
    char command[200], line[400];
    snprintf(command, sizeof command,
             "openssl s_client -connect 127.0.0.1:%u -alpn %s </dev/null 2>&1", b->port, protocols);
    FILE *said = popen(command, "r");
    buf_reset(out);
    while (said && fgets(line, sizeof line, said))
        buf_add_str(out, line);
    if (said)
        pclose(said);
}

TEST(server_speaks_http_1_1_alone) {
    TLS_BENCH();
    ask_with(&b, "h2,http/1.1", &out);
    EXPECT(strstr(buf_text(&out), "ALPN protocol: http/1.1\n"));
    ask_with(&b, "http/1.1", &out);
    EXPECT(strstr(buf_text(&out), "ALPN protocol: http/1.1\n"));
    int64_t failed = handshakes(HTTP_HANDSHAKE_FAILED);
    ask_with(&b, "h2", &out);
    EXPECT(!strstr(buf_text(&out), "ALPN protocol"));
    EXPECT(counts(HTTP_HANDSHAKE_FAILED, failed));
}
