/* The client against answers served byte by byte, in pieces and broken. */
#include "capture.h"
#include "check.h"
#include "cli/api_client.h"
#include "cli/commands.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* One connection: reads the request up to its body's end, answers with text in pieces of `piece`
 * bytes, hangs up. */
struct server {
    int fd;
    uint16_t port;
    const char *answer;
    size_t piece;
    char request[4096];
    pthread_t thread;
};

static void *serve_one(void *arg) {
    struct server *s = arg;
    int fd = accept(s->fd, NULL, NULL);
    size_t len = 0;
    for (ssize_t n; len < sizeof s->request - 1 &&
                    (n = recv(fd, s->request + len, sizeof s->request - 1 - len, 0)) > 0;) {
        len += (size_t)n;
        s->request[len] = 0;
        char *body = strstr(s->request, "\r\n\r\n"),
             *length = strstr(s->request, "Content-Length: ");
        if (body &&
            len >= (size_t)(body + 4 - s->request) + (length ? (size_t)atoi(length + 16) : 0))
            break;
    }
    for (size_t at = 0, total = strlen(s->answer); at < total; at += s->piece) {
        if (send(fd, s->answer + at, total - at < s->piece ? total - at : s->piece, MSG_NOSIGNAL) <
            0)
            break;
        if (s->piece < 16)
            usleep(100);
    }
    close(fd);
    return NULL;
}

static void begin(struct server *s, const char *answer, size_t piece) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    *s = (struct server){.answer = answer, .piece = piece, .fd = socket(AF_INET, SOCK_STREAM, 0)};
    if (bind(s->fd, (struct sockaddr *)&at, sizeof at) || listen(s->fd, 1) ||
        getsockname(s->fd, (struct sockaddr *)&at, &len))
        abort();
    s->port = ntohs(at.sin_port);
    pthread_create(&s->thread, NULL, serve_one, s);
}

static void end(struct server *s) {
    pthread_join(s->thread, NULL);
    close(s->fd);
}

struct heard {
    char text[1024];
    int count, stop_after;
};
static bool hear(void *ctx, struct bytes data) {
    struct heard *h = ctx;
    size_t len = strlen(h->text);
    snprintf(h->text + len, sizeof h->text - len, "%.*s|", (int)data.len, (const char *)data.data);
    return ++h->count != h->stop_after;
}

/* Asks a server of one answer: the client's return value; events in *h, anything else in out. */
static int ask(const char *answer, size_t piece, const char *body, struct heard *h, struct buf *out,
               struct error *err, char *request) {
    struct server s;
    struct api_client c;
    char url[64];
    begin(&s, answer, piece);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/v1", s.port);
    int rc = api_client_init(&c, url, "sesame", err);
    if (!rc)
        rc = api_stream(&c, "/path", body, h ? hear : NULL, h, out, 5000, err);
    end(&s);
    if (request)
        strcpy(request, s.request);
    return rc;
}

#define CHUNKED                                                                                    \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

TEST(api_client_reads_events_however_they_are_cut) {
    static const char ANSWER[] = CHUNKED "10\r\ndata: {\"a\":1}\n\nd\r\n"
                                         "c\r\nata: second\r\r\n"
                                         "13\r\n\n\n: a comment\n\ndata\r\n"
                                         "A\r\n: [DONE]\n\n\r\n0\r\n\r\n";
    for (size_t piece = 1; piece < 40; piece += 1 + piece / 4) {
        struct heard h = {0};
        struct buf out;
        struct error err = {0};
        buf_init(&out, 0);
        EXPECT_EQ(ask(ANSWER, piece, "{}", &h, &out, &err, NULL), 200);
        EXPECT_STR(h.text, "{\"a\":1}|second|[DONE]|");
        buf_release(&out);
    }
}

TEST(api_client_sends_what_it_should) {
    struct buf out;
    struct error err;
    char request[4096];
    buf_init(&out, 0);
    EXPECT_EQ(ask("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello extra", 1000, "{\"x\":1}",
                  NULL, &out, &err, request),
              200);
    EXPECT_STR(buf_text(&out), "hello");
    EXPECT(!strncmp(request, "POST /path HTTP/1.1\r\nHost: 127.0.0.1:", 37));
    EXPECT(strstr(request, "\r\nAuthorization: Bearer sesame\r\n") &&
           strstr(request, "\r\nContent-Length: 7\r\n\r\n{\"x\":1}"));
    buf_reset(&out);
    EXPECT_EQ(ask("HTTP/1.1 204 No Content\r\n\r\n", 1000, NULL, NULL, &out, &err, request), 204);
    EXPECT(!strncmp(request, "GET /path HTTP/1.1\r\n", 20) && !strstr(request, "Content-Length"));
    buf_release(&out);
}

TEST(api_client_gives_error_answers_whole) {
    struct buf out;
    struct error err;
    struct heard h = {0};
    buf_init(&out, 0);
    EXPECT_EQ(ask("HTTP/1.1 429 Too Many\r\nContent-Length: "
                  "46\r\n\r\n{\"error\":{\"type\":\"x\",\"message\":\"too "
                  "\\u00e9 much\"}}",
                  7, "{}", &h, &out, &err, NULL),
              429);
    EXPECT_EQ(h.count, 0);
    buf_reset(&out);
    buf_add_str(&out, "{\"error\":{\"type\":\"x\",\"message\":\"too \\u00e9 much\"}}");
    char *text = api_error_text(buf_bytes(&out));
    EXPECT_STR(text, "too \xc3\xa9 much");
    mem_free(text);
    text = api_error_text(bytes_str("{\"error\":\"of another server\"}"));
    EXPECT_STR(text, "of another server");
    mem_free(text);
    text = api_error_text(bytes_str("{\"id\":{\"message\":\"none\"}}"));
    EXPECT_STR(text, "");
    mem_free(text);
    text = api_error_text(bytes_str("<html>"));
    EXPECT_STR(text, "");
    mem_free(text);
    buf_release(&out);
}

TEST(api_client_stops_when_told) {
    struct heard h = {.stop_after = 1};
    struct buf out;
    struct error err;
    buf_init(&out, 0);
    EXPECT_EQ(ask(CHUNKED "100\r\ndata: one\n\ndata: two\n\n", 1000, "{}", &h, &out, &err, NULL),
              200);
    EXPECT_STR(h.text, "one|");
    buf_release(&out);
}

TEST(api_client_says_what_is_broken) {
    static const struct {
        const char *answer, *in_text;
    } CASES[] = {{"", "hung up"},
                 {"HTTP/1.1 200 OK\r\nContent-Le", "hung up"},
                 {"SSH-2.0-OpenSSH\r\n\r\n", "not HTTP"},
                 {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "cut"},
                 {CHUNKED "5\r\nab", "cut"},
                 {CHUNKED "2\r\nab\r\n", "cut"},
                 {CHUNKED "-2\r\nab\r\n", "framing"}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct buf out;
        struct error err = {0};
        buf_init(&out, 0);
        int rc = ask(CASES[i].answer, 1000, "{}", NULL, &out, &err, NULL);
        if (rc >= 0 || !strstr(err.text, CASES[i].in_text))
            check_fail(__FILE__, __LINE__, "case %zu: %d '%s'", i, rc, err.text);
        buf_release(&out);
    }
}

TEST(api_client_takes_addresses_apart) {
    static const struct {
        const char *url, *host;
        int port;
        bool tls;
    } GOOD[] = {{"http://localhost", "localhost", 80, false},
                {"http://a.b:8000/v1/", "a.b", 8000, false},
                {"http://[::1]:9/x", "::1", 9, false},
                {"http://h:1", "h", 1, false},
                {"http://h:65535/", "h", 65535, false},
                {"http://h/x:5", "h", 80, false},
                {"https://x", "x", 443, true},
                {"https://[::1]:8443/v1", "::1", 8443, true}};
    static const char *const BAD[] = {"ftp://x",     "x",          "http://",    "https://",
                                      "https://:80", "http://:80", "http://x:0", "http://x:65536",
                                      "http://x:",   "http://[",   "http://[]"};
    struct api_client c;
    struct error err;
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++) {
        EXPECT_EQ(api_client_init(&c, GOOD[i].url, "", &err), 0);
        EXPECT_STR(c.host, GOOD[i].host);
        EXPECT_EQ(c.port, GOOD[i].port);
        EXPECT_EQ(c.tls, GOOD[i].tls);
        EXPECT(!c.api_key);
    }
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        if (!api_client_init(&c, BAD[i], NULL, &err))
            check_fail(__FILE__, __LINE__, "'%s' was taken", BAD[i]);
}

TEST(api_client_says_why_a_server_refuses) {
    static const char BODY[] = "{\"error\":{\"message\":\"not here\"}}";
    struct error err;
    EXPECT_EQ(api_status_error("http://x", "/metrics", 400, bytes_str(BODY), &err), ERR_INVALID);
    EXPECT_STR(err.text, "http://x answers /metrics with status 400: not here");
    EXPECT_EQ(api_status_error("http://x", "/y", 502, bytes_str("<html>"), &err), ERR_INVALID);
    EXPECT_STR(err.text, "http://x answers /y with status 502");
}

/* `trireme status --url`: each model with its state, where the server says one; entries without an id
 * are passed over. */
TEST(status_lists_the_models_of_a_server) {
    static const struct {
        const char *answer, *out;
        int rc;
    } ROWS[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 79\r\n\r\n"
         "{\"data\":[{\"id\":\"a\",\"status\":{\"value\":\"loaded\"}},{\"id\":\"b\"},{\"object\":\"model\"}]}",
         "model loaded: a\nmodel listed: b\n", 0},
        {"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}", "", 1},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{", "", 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct server s;
        struct buf out = {0}, err = {0};
        char url[64], name[] = "status", option[] = "--url";
        char *argv[] = {name, option, url, NULL};
        begin(&s, ROWS[i].answer, 1000);
        snprintf(url, sizeof url, "http://127.0.0.1:%u", s.port);
        struct capture o = capture_begin(STDOUT_FILENO), e = capture_begin(STDERR_FILENO);
        int rc = status_main(3, argv);
        capture_end(&e, &err);
        capture_end(&o, &out);
        end(&s);
        EXPECT_EQ(rc, ROWS[i].rc);
        EXPECT_STR(buf_text(&out), ROWS[i].out);
        EXPECT_EQ(err.len > 0, rc != 0);
        EXPECT(!strncmp(s.request, "GET /v1/models HTTP/1.1\r\n", 25));
        buf_release(&out);
        buf_release(&err);
    }
}
