/*
 * test_server.c - the server over real sockets on the loopback, with short deadlines.
 */
#include "server_bench.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

/* In place of libc's: the kernel has no room for what the server sends next, when a test wants so. */
static _Atomic bool has_no_room;
ssize_t send(int fd, const void *bytes, size_t len, int flags) {
    bool expected = true;
    if ((flags & MSG_DONTWAIT) && atomic_compare_exchange_strong(&has_no_room, &expected, false)) {
        errno = EAGAIN;
        return -1;
    }
    return syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
}

TEST(server_sends_later_what_the_kernel_has_no_room_for) {
    BENCH();
    int fd = wire_connect(b.port, 0);
    EXPECT(wire_send(fd, "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello"));
    has_no_room = true;
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(wire_take_response(fd, &in, &out), 200);
        EXPECT_STR(buf_text(&out), "hello");
        EXPECT(wire_send(fd, "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello"));
    }
    EXPECT(!has_no_room);
    close(fd);
}

TEST(server_keeps_alive) {
    BENCH();
    int fd = wire_connect(b.port, 0);
    for (int i = 0; i < 3; i++) {
        EXPECT(wire_send(fd, "POST /echo HTTP/1.1\r\n" H
                             "Content-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"));
        EXPECT_EQ(wire_take_response(fd, &in, &out), 200);
        EXPECT_STR(buf_text(&out), "hello");
    }
    EXPECT_EQ(http_server_connection_count(b.server), 1);
    close(fd);
}

TEST(server_head_has_what_it_needs) {
    BENCH();
    EXPECT(exchange(&b,
                    "POST /echo HTTP/1.1\r\n" H
                    "Content-Type: a/b\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
                    &in));
    EXPECT(strncmp(in.data, "HTTP/1.1 200 OK\r\nDate: ", 23) == 0);
    EXPECT(strstr(in.data, " GMT\r\nX-Request-Id: "));
    EXPECT(strstr(in.data,
                  "\r\nContent-Type: a/b\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"));
}

/* The date is that of the second in which the answer was made. */
TEST(server_tells_the_date) {
    BENCH();
    struct tm tm = {0};
    time_t before = time(NULL);
    EXPECT(exchange(&b,
                    "POST /echo HTTP/1.1\r\n" H
                    "Content-Type: a/b\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
                    &in));
    time_t after = time(NULL);
    const char *at = strstr(in.data, "\r\nDate: ");
    EXPECT(at && strptime(at + strlen("\r\nDate: "), "%a, %d %b %Y %H:%M:%S GMT\r", &tm));
    time_t told = timegm(&tm);
    EXPECT(told >= before - 1 && told <= after + 1); /* time() may be a tick behind */
}

/* The X-Request-Id of the only response in `in`; "": none. */
static const char *id_of(const struct buf *in) {
    static char id[HTTP_REQUEST_ID_MAX + 2];
    const char *at = strstr(buf_text(in), "\r\nX-Request-Id: ");
    id[0] = 0;
    if (at && !strstr(at + 16, "X-Request-Id"))
        sscanf(at + 16, "%129[^\r]", id);
    return id;
}

static bool is_drawn(const char *id) {
    return strlen(id) == 32 && strspn(id, "0123456789abcdef") == 32;
}

TEST(server_names_every_response) {
    static const char *const LONG =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const struct {
        const char *id;
        bool kept;
    } CASES[] = {{"mine-1", true},
                 {"Root=1-67891233-abcdef012345678912345678", true},
                 {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true},
                 {"a.b_c~d:e/f+g=h@i", true},
                 {"", false},
                 {"two words", false},
                 {"quote\"", false},
                 {"back\\slash", false},
                 {"semi;colon", false},
                 {"caf\xc3\xa9", false}};
    BENCH();
    char request[512];
    for (size_t i = 0; i < ARRAY_LEN(CASES) + 2; i++) {
        bool listed = i < ARRAY_LEN(CASES), kept = listed ? CASES[i].kept : i == ARRAY_LEN(CASES);
        char id[256];
        if (listed)
            snprintf(id, sizeof id, "%s", CASES[i].id);
        else
            snprintf(id, sizeof id, "%s%s", LONG, kept ? "" : "0");
        snprintf(request, sizeof request,
                 "POST /echo HTTP/1.1\r\n" H "x-request-id: %s\r\nConnection: close\r\n"
                 "Content-Length: 2\r\n\r\nhi",
                 id);
        buf_reset(&in);
        EXPECT(exchange(&b, request, &in));
        if (kept ? strcmp(id_of(&in), id) != 0 : !is_drawn(id_of(&in)))
            check_fail(__FILE__, __LINE__, "'%s' becomes '%s'", id, id_of(&in));
    }
}

TEST(server_takes_its_owners_name_for_a_request_that_has_none) {
    static const struct {
        const char *given, *set, *expected;
    } CASES[] = {{"", "a", "a"},
                 {"", "run-12345", "run-12345"},
                 {"",
                  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
                  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
                  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
                 {"X-Request-Id: mine\r\n", "a", "mine"}};
    BENCH();
    int fd = wire_connect(b.port, 0);
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char request[512], head[200], body[200];
        snprintf(request, sizeof request, "GET /named?id=%s HTTP/1.1\r\n" H "%s\r\n", CASES[i].set,
                 CASES[i].given);
        snprintf(head, sizeof head, "\r\nX-Request-Id: %s\r\n", CASES[i].expected);
        snprintf(body, sizeof body, "\r\n\r\n%s", CASES[i].expected);
        buf_reset(&in);
        EXPECT(wire_send(fd, request) && wire_read_until(fd, &in, body));
        EXPECT(strstr(buf_text(&in), head) && !strcmp(strstr(buf_text(&in), "\r\n\r\n"), body));
    }
    close(fd);
}

TEST(server_names_its_refusals) {
    BENCH();
    /* the head was complete: the body alone is refused */
    EXPECT(exchange(
        &b, "POST / HTTP/1.1\r\n" H "X-Request-Id: big\r\nContent-Length: 100001\r\n\r\n", &in));
    EXPECT(strstr(in.data, "413 ") && !strcmp(id_of(&in), "big"));
    buf_reset(&in);
    EXPECT(exchange(&b,
                    "POST / HTTP/1.1\r\n" H
                    "X-Request-Id: chunk\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                    &in));
    EXPECT(strstr(in.data, "400 ") && !strcmp(id_of(&in), "chunk"));
    buf_reset(&in);
    EXPECT(exchange(&b, "GET / HTTP/1.1\r\n" H "X-Request-Id: lost\r\nBad : x\r\n\r\n", &in));
    EXPECT(strstr(in.data, "400 ") && is_drawn(id_of(&in)));
}

static size_t add_fields(void *ctx, struct http_request *req, int status,
                         struct http_field *fields) {
    static _Thread_local char seen[64];
    struct bytes origin = http_request_header(req, "Origin");
    snprintf(seen, sizeof seen, "%d %.*s", status, (int)origin.len,
             origin.len ? (const char *)origin.data : "");
    fields[0] = (struct http_field){"X-Seen", seen};
    return 1;
}

TEST(server_lets_its_owner_add_to_every_head) {
    BENCH(b.config.on_head = add_fields);
    EXPECT(
        exchange(&b, "GET /fields HTTP/1.1\r\n" H "Origin: o\r\nConnection: close\r\n\r\n", &in));
    EXPECT(strstr(in.data, "\r\nX-Seen: 429 o\r\n"));
    buf_reset(&in);
    EXPECT(
        exchange(&b, "POST / HTTP/1.1\r\n" H "Origin: p\r\nContent-Length: 100001\r\n\r\n", &in));
    EXPECT(strstr(in.data, "\r\nX-Seen: 413 p\r\n"));
}

TEST(server_answers_pipelined_requests_in_order) {
    BENCH();
    EXPECT(exchange(&b,
                    "GET /late HTTP/1.1\r\n" H "\r\n"
                    "POST /echo HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\n"
                    "twoGET /late HTTP/1.1\r\n" H "\r\n"
                    "POST /echo HTTP/1.1\r\n" H "Connection: close\r\nContent-Length: "
                    "4\r\n\r\nfourGET /never HTTP/1.1\r\n" H "\r\n",
                    &in));
    EXPECT_EQ(b.request_count, 4);
    EXPECT_EQ(b.timer_count, 2);
    const char *one = strstr(in.data, "late"), *two = strstr(in.data, "two"),
               *four = strstr(in.data, "four");
    EXPECT(one && two && four && one < two && two < strstr(one + 4, "late") &&
           strstr(one + 4, "late") < four);
}

/* What was read ahead while a request ran does not stop the reading of the next one's large
 * body. */
TEST(server_reads_a_large_body_behind_a_held_request) {
    BENCH();
    static char body[90000];
    int fd = wire_connect(b.port, 0);
    memset(body, 'b', sizeof body);
    EXPECT(wire_send(fd, "GET /late HTTP/1.1\r\n" H "\r\nPOST /echo HTTP/1.1\r\n" H
                         "Content-Length: 90000\r\n\r\n"));
    EXPECT(wire_send_bytes(fd, body, sizeof body));
    EXPECT_EQ(wire_take_response(fd, &in, &out), 200);
    EXPECT_EQ(wire_take_response(fd, &in, &out), 200);
    EXPECT_EQ(out.len, sizeof body);
    close(fd);
}

static int64_t processor_us(void) {
    struct rusage u;
    CHECK(getrusage(RUSAGE_SELF, &u) == 0);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000000) + u.ru_utime.tv_usec +
           u.ru_stime.tv_usec;
}

/* Out of descriptors, the server waits and then goes on; it neither spins nor stops accepting. */
TEST(server_survives_running_out_of_descriptors) {
    BENCH(b.config.head_deadline_ms = 5000);
    struct rlimit old, low;
    int clients[6];
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons(b.port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    EXPECT(getrlimit(RLIMIT_NOFILE, &old) == 0);
    low = old;
    low.rlim_cur = (rlim_t)clients[ARRAY_LEN(clients) - 1] + 2;
    EXPECT(setrlimit(RLIMIT_NOFILE, &low) == 0);
    for (size_t i = 0; i < ARRAY_LEN(clients); i++)
        EXPECT(connect(clients[i], (struct sockaddr *)&addr, sizeof addr) == 0);
    int64_t used_us = processor_us();
    sleep_ms(500);
    EXPECT(processor_us() - used_us < 250 * 1000); /* a loop would have used all of it */
    uint32_t before = http_server_connection_count(b.server);
    EXPECT(setrlimit(RLIMIT_NOFILE, &old) == 0);
    EXPECT(before < ARRAY_LEN(clients));
    for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
        buf_reset(&in);
        EXPECT(wire_send(clients[i], "GET /204 HTTP/1.1\r\n" H "\r\n"));
        EXPECT(wire_read_until(clients[i], &in, "204 No Content"));
        close(clients[i]);
    }
}

TEST(server_takes_one_byte_at_a_time) {
    BENCH(b.config.head_deadline_ms = b.config.body_deadline_ms = 5000);
    const char *text =
        "POST /echo HTTP/1.1\r\n" H "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n";
    int fd = wire_connect(b.port, 0);
    for (size_t i = 0; i < strlen(text); i++)
        EXPECT(wire_send_bytes(fd, text + i, 1));
    EXPECT(wire_read_all(fd, &in));
    EXPECT(strstr(buf_text(&in), "\r\n\r\nabc"));
    close(fd);
}

TEST(server_head_requests_get_no_body) {
    BENCH();
    EXPECT(exchange(&b,
                    "HEAD /fields HTTP/1.1\r\n" H "\r\nHEAD /stream?n=3 HTTP/1.1\r\n" H "\r\n"
                    "HEAD /big HTTP/1.1\r\n" H "Connection: close\r\n\r\n",
                    &in));
    EXPECT(strstr(in.data, "Transfer-Encoding: chunked\r\n\r\nHTTP/1.1 200"));
    EXPECT(strstr(in.data, "Content-Length: 3145728\r\n\r\n"));
    EXPECT(in.len < 1000);
}

TEST(server_http_1_0) {
    BENCH();
    EXPECT(exchange(&b, "GET /stream?n=3 HTTP/1.0\r\n\r\n", &in));
    EXPECT(strstr(in.data, "Connection: close\r\n\r\nxxx") && !strstr(in.data, "chunked"));
    int fd = wire_connect(b.port, 0);
    buf_reset(&in);
    for (int i = 0; i < 2; i++) {
        EXPECT(wire_send(
            fd, "POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi"));
        EXPECT(wire_read_until(fd, &in, "hi"));
        EXPECT(strstr(in.data, "Connection: keep-alive\r\n"));
        buf_reset(&in);
    }
    close(fd);
}

TEST(server_204_has_no_length) {
    BENCH();
    EXPECT(exchange(&b, "GET /204 HTTP/1.1\r\n" H "Connection: close\r\n\r\n", &in));
    EXPECT(strstr(in.data, "204 No Content") && !strstr(in.data, "Content-Length") &&
           !strstr(in.data, "dropped"));
}

TEST(server_asks_for_the_body_when_expected) {
    BENCH();
    int fd = wire_connect(b.port, 0);
    EXPECT(wire_send(fd, "POST /echo HTTP/1.1\r\n" H
                         "Expect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"));
    EXPECT(wire_read_until(fd, &in, "HTTP/1.1 100 Continue\r\n\r\n"));
    EXPECT(wire_send(fd, "hi"));
    EXPECT(wire_read_all(fd, &in));
    EXPECT(strstr(in.data, "200 OK"));
    close(fd);
    buf_reset(&in);
    EXPECT(exchange(
        &b, "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 200000\r\n\r\n",
        &in));
    EXPECT(strncmp(in.data, "HTTP/1.1 413 ", 13) == 0);
    buf_reset(&in);
    EXPECT(exchange(&b,
                    "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n"
                    "Connection: close\r\n\r\nhi",
                    &in)); /* it is here already */
    EXPECT(strncmp(in.data, "HTTP/1.1 200 ", 13) == 0);
}

TEST(server_fields_cannot_split_a_response) {
    BENCH();
    EXPECT(exchange(&b, "GET /fields HTTP/1.1\r\n" H "Connection: close\r\n\r\n", &in));
    EXPECT(strstr(in.data, "HTTP/1.1 429 Too Many Requests\r\n"));
    EXPECT(strstr(in.data, "\r\nX-Echo: one  X-Evil: two\r\nRetry-After: 3\r\n"));
}

TEST(server_refuses_in_the_error_shape) {
    BENCH();
    EXPECT(exchange(&b, "GET / HTTP/1.1\r\n" H "Bad : x\r\n\r\n", &in));
    EXPECT(strncmp(in.data, "HTTP/1.1 400 Bad Request\r\n", 26) == 0);
    EXPECT(strstr(in.data, "Content-Type: application/json\r\nConnection: close\r\n"));
    EXPECT(strstr(in.data, "{\"error\":{\"message\":\"bad header "
                           "name\",\"type\":\"invalid_request_error\",\"param\":null,"
                           "\"code\":null}}"));
    EXPECT_EQ(b.request_count, 0);
}

static void own_reject(void *ctx, struct http_request *req, int status, const char *text,
                       struct buf *body) {
    buf_addf(body, "mine %d %s of '%.*s'", status, text, (int)req->path.len,
             (const char *)req->path.data);
}

TEST(server_refuses_with_the_owners_body) {
    BENCH(b.config.on_reject = own_reject);
    EXPECT(exchange(&b, "GET / HTTP/2.0\r\n\r\n", &in));
    EXPECT(strstr(in.data, "\r\n\r\nmine 505 only HTTP/1.0 and HTTP/1.1 are served of ''"));
}

/* The path is known once the head is complete, also of a later request of the connection. */
TEST(server_tells_the_owner_which_path_it_refuses) {
    BENCH(b.config.on_reject = own_reject);
    EXPECT(exchange(&b, "POST /echo HTTP/1.1\r\n" H "Content-Length: 60000000\r\n\r\n", &in));
    EXPECT(strstr(in.data, "mine 413 request body is too large of '/echo'"));
    buf_reset(&in);
    EXPECT(exchange(&b, "GET /echo HTTP/1.1\r\n" H "\r\nGET / HTTP/2.0\r\n\r\n", &in));
    EXPECT(strstr(in.data, "mine 505 only HTTP/1.0 and HTTP/1.1 are served of ''"));
}

/* Without the lingering close the kernel would reset the connection over the unread body, and the
 * answer could be lost. */
TEST(server_lingers_so_that_the_refusal_is_read) {
    BENCH();
    int fd = wire_connect(b.port, 0);
    static char body[60000];
    EXPECT(wire_send(fd, "POST /echo HTTP/1.1\r\n" H "Content-Length: 60000000\r\n\r\n"));
    for (int i = 0; i < 20; i++)
        (void)wire_send_bytes(fd, body, sizeof body);
    EXPECT(wire_read_all(fd, &in));
    EXPECT(strncmp(in.data, "HTTP/1.1 413 ", 13) == 0);
    close(fd);
}

TEST(server_garbage_behind_a_request_is_refused_after_its_answer) {
    BENCH();
    EXPECT(exchange(&b, "POST /echo HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nhi\x01garbage", &in));
    EXPECT(strstr(in.data, "200 OK") && strstr(in.data, "hiHTTP/1.1 400 Bad Request"));
}

/* A byte every 20 ms does not keep a head or a body open past its deadline. */
static void expect_deadline(struct bench *b, const char *begin, const char *drip) {
    struct buf in;
    buf_init(&in, 0);
    int fd = wire_connect(b->port, 0), rc;
    int64_t start = clock_ms(), took;
    (void)wire_send(fd, begin);
    do {
        (void)wire_send(fd, drip);
        rc = wire_read_some(fd, &in, 20);
    } while (rc == -2 && clock_ms() < start + WIRE_TIMEOUT_MS);
    took = clock_ms() - start;
    if (rc != 1 || strncmp(in.data, "HTTP/1.1 408 ", 13) != 0 || took < 150 || took > 2000)
        check_fail(__FILE__, __LINE__, "after %lld ms: %s", (long long)took, buf_text(&in));
    close(fd);
    buf_release(&in);
}

TEST(server_deadlines_are_absolute) {
    BENCH();
    expect_deadline(&b, "GET / HTTP/1.1\r\n", "X");
    expect_deadline(&b, "POST /echo HTTP/1.1\r\n" H "Content-Length: 90000\r\n\r\n", "x");
    expect_deadline(&b, "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n",
                    "1\r\nx\r\n");
    EXPECT_EQ(b.request_count, 0);
}

TEST(server_closes_silent_and_idle_connections) {
    BENCH();
    int silent = wire_connect(b.port, 0), idle = wire_connect(b.port, 0);
    int64_t start = clock_ms();
    EXPECT(wire_send(idle, "GET /204 HTTP/1.1\r\n" H "\r\n"));
    EXPECT(wire_read_until(idle, &in, "\r\n\r\n"));
    buf_reset(&in);
    EXPECT(wire_read_all(silent, &in));
    EXPECT(clock_ms() - start >= 150);
    EXPECT(wire_read_all(idle, &in));
    EXPECT(clock_ms() - start >= 350);
    EXPECT_EQ(in.len, 0);
    close(silent);
    close(idle);
}

TEST(server_sees_a_client_go_while_nothing_is_written) {
    BENCH();
    for (int i = 0; i < 3; i++) {
        static const char *const requests[] = {
            "GET /hold HTTP/1.1\r\n" H "\r\n", "GET /hold?stream HTTP/1.1\r\n" H "\r\n",
            "GET /hold HTTP/1.1\r\n" H "\r\nGET /echo HTTP/1.1\r\n" H "\r\n"};
        int fd = wire_connect(b.port, 0);
        EXPECT(wire_send(fd, requests[i]));
        EXPECT(wire_wait_for(&b.request_count, i + 1));
        EXPECT_EQ(b.closed_count, i);
        int64_t start = clock_ms();
        close(fd);
        EXPECT(wire_wait_for(&b.closed_count, i + 1));
        EXPECT(clock_ms() - start < 1000);
    }
    EXPECT(http_server_connection_count(b.server) <= 1);
}

TEST(server_lets_owners_write_to_a_client_that_is_gone) {
    BENCH(b.writes_to_nobody = true);
    for (int i = 0; i < 2; i++) {
        int fd = wire_connect(b.port, 0);
        EXPECT(wire_send(fd, i ? "GET /hold?stream HTTP/1.1\r\n" H "\r\n"
                               : "GET /hold HTTP/1.1\r\n" H "\r\n"));
        EXPECT(wire_wait_for(&b.request_count, i + 1));
        close(fd);
        EXPECT(wire_wait_for(&b.closed_count, i + 1));
        EXPECT_EQ(b.more_to_nobody, i + 1); /* it need not wait for room */
    }
    int fd = wire_connect(b.port, 0);
    EXPECT(wire_send(fd, "POST /echo HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nok"));
    EXPECT_EQ(wire_take_response(fd, &in, &out), 200);
    EXPECT_STR(buf_text(&out), "ok");
    close(fd);
    EXPECT(b.closed_count == 2 && b.drained_count == 0 && b.timer_count == 0);
}

TEST(server_sees_a_reset) {
    BENCH();
    struct linger hard = {.l_onoff = 1};
    int fd = wire_connect(b.port, 0);
    EXPECT(wire_send(fd, "GET /hold?stream HTTP/1.1\r\n" H "\r\n"));
    EXPECT(wire_read_until(fd, &in, "begun"));
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
    EXPECT(wire_wait_for(&b.closed_count, 1));
}

/* What a client sends while its request runs stays in the kernel past the read-ahead. */
TEST(server_stops_reading_a_flood) {
    BENCH();
    int fd = wire_connect(b.port, 0);
    static char flood[1 << 16];
    size_t sent = 0;
    int64_t before = metric_value(&http_metrics[HTTP_METRIC_BYTES], 0);
    EXPECT(wire_send(fd, "GET /hold?stream HTTP/1.1\r\n" H "\r\n"));
    EXPECT(wire_wait_for(&b.request_count, 1));
    for (int i = 0; i < 1000; i++) {
        ssize_t rc = send(fd, flood, sizeof flood, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (rc > 0)
            sent += (size_t)rc;
        else
            sleep_ms(1);
    }
    EXPECT(sent < 32u << 20);
    EXPECT(metric_value(&http_metrics[HTTP_METRIC_BYTES], 0) - before < 1000);
    EXPECT_EQ(b.closed_count, 0);
    close(fd);
    http_server_free(&b.server);
    EXPECT_EQ(b.closed_count, 1);
}

TEST(server_gathers_the_writes_of_a_turn_into_one_chunk) {
    BENCH();
    EXPECT(exchange(&b, "GET /stream?n=500 HTTP/1.1\r\n" H "Connection: close\r\n\r\n", &in));
    EXPECT_EQ(wire_decode_chunks(&in, &out), 1);
    EXPECT_EQ(out.len, 500);
}

/* 20 MB to a client that reads slowly: complete and in order, with a bounded amount waiting. */
TEST(server_waits_for_a_slow_reader) {
    BENCH(b.config.write_timeout_ms = 5000);
    size_t total = 20u << 20;
    char request[128];
    int fd = wire_connect(b.port, 4096);
    snprintf(request, sizeof request, "GET /many?n=%zu HTTP/1.1\r\n" H "Connection: close\r\n\r\n",
             total);
    EXPECT(wire_send(fd, request));
    EXPECT(wire_wait_for(&b.refused_write_count, 1));
    sleep_ms(50);
    EXPECT(b.written < total);
    EXPECT(wire_read_all(fd, &in));
    EXPECT(wire_decode_chunks(&in, &out) > 0);
    EXPECT_EQ(out.len, total);
    for (size_t i = 0; i < total; i++)
        EXPECT((uint8_t)out.data[i] == i * 7 % 251);
    EXPECT(b.drained_count > 10);
    EXPECT(b.pending_max <= b.config.high_water + 2000);
    close(fd);
    http_server_free(&b.server);
    EXPECT_EQ(b.closed_count, 0);
}

TEST(server_cuts_a_stream_past_its_bound) {
    BENCH(b.config.pending_max_bytes = 1u << 20);
    int fd = wire_connect(b.port, 4096);
    EXPECT(wire_send(fd, "GET /flood HTTP/1.1\r\n" H "\r\n"));
    EXPECT(wire_wait_for(&b.closed_count, 1));
    close(fd);
}

TEST(server_cuts_a_client_that_takes_nothing) {
    BENCH();
    int fd = wire_connect(b.port, 4096);
    EXPECT(wire_send(fd, "GET /many?n=30000000 HTTP/1.1\r\n" H "\r\n"));
    int64_t start = clock_ms();
    EXPECT(wire_wait_for(&b.closed_count, 1));
    EXPECT(clock_ms() - start >= 250);
    close(fd);
    fd = wire_connect(b.port, 4096); /* the same for a complete answer */
    for (int i = 0; i < 4; i++)
        EXPECT(wire_send(fd, "GET /big HTTP/1.1\r\n" H "\r\n"));
    int64_t end = clock_ms() + WIRE_TIMEOUT_MS;
    while (http_server_connection_count(b.server) && clock_ms() < end)
        sleep_ms(5);
    EXPECT_EQ(http_server_connection_count(b.server), 0);
    close(fd);
}

/* A client that pipelines and does not read gets no further than high_water: one answer of 3 MB is
 * made, not a hundred. */
TEST(server_does_not_answer_ahead_of_the_reader) {
    BENCH(b.config.write_timeout_ms = 5000);
    int fd = wire_connect(b.port, 4096);
    for (int i = 0; i < 100; i++)
        EXPECT(wire_send(fd, "GET /big HTTP/1.1\r\n" H "\r\n"));
    EXPECT(wire_wait_for(&b.request_count, 1));
    sleep_ms(100);
    EXPECT_EQ(b.request_count, 1);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(wire_take_response(fd, &in, &out), 200);
    EXPECT(wire_wait_for(&b.request_count, 5));
    close(fd);
}

/* Pipelines until nothing more is taken, and reads nothing. */
static int stuck_connection(uint16_t port) {
    static const char wish[] = "GET /hello HTTP/1.1\r\n" H "\r\n";
    int fd = wire_connect(port, 4096), waited = 0;
    while (fd >= 0 && waited < 10) {
        ssize_t sent = send(fd, wish, sizeof wish - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent == (ssize_t)sizeof wish - 1) {
            waited = 0;
            continue;
        }
        if (sent >= 0)
            break; /* part of a request: the socket is full */
        waited++;
        sleep_ms(10);
    }
    return fd;
}

/* Who pipelines and never reads costs nothing once both sides are full. */
TEST(server_rests_while_nobody_reads) {
    BENCH(b.config.write_timeout_ms = 60000; b.config.idle_timeout_ms = 60000);
    int fds[4];
    for (int i = 0; i < 4; i++)
        EXPECT((fds[i] = stuck_connection(b.port)) >= 0);
    sleep_ms(100);
    int64_t before = processor_us();
    sleep_ms(500);
    EXPECT(processor_us() - before < 50000); /* a spinning thread takes 500000 */
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

/* The idle timeout does not run while the last answer is still on its way. */
TEST(server_is_not_idle_while_it_sends) {
    BENCH(b.config.write_timeout_ms = 5000; b.config.idle_timeout_ms = 50);
    int fd = wire_connect(b.port, 4096);
    EXPECT(wire_send(fd, "GET /big HTTP/1.1\r\n" H "\r\n"));
    EXPECT(wire_wait_for(&b.request_count, 1));
    sleep_ms(300);
    EXPECT_EQ(wire_take_response(fd, &in, &out), 200);
    EXPECT_EQ(out.len, 3u << 20);
    close(fd);
}

TEST(server_abort_is_seen_as_a_cut) {
    BENCH();
    EXPECT(exchange(&b, "GET /cut HTTP/1.1\r\n" H "\r\n", &in));
    EXPECT_EQ(wire_decode_chunks(&in, &out), -1);
    EXPECT_STR(buf_text(&out), "half");
}

static void finish_held(void *ctx) {
    struct bench *b = ctx;
    struct http_request *req = b->held;
    b->held = NULL;
    if (!req)
        return;
    (void)http_stream_write(req, " ended", 6);
    http_stream_end(req);
}

static bool connections_are(struct bench *b, uint32_t count) {
    int64_t end = clock_ms() + WIRE_TIMEOUT_MS;
    while (http_server_connection_count(b->server) != count && clock_ms() < end)
        sleep_ms(1);
    return http_server_connection_count(b->server) == count;
}

TEST(server_drains) {
    BENCH(b.config.thread_count = 2; b.config.idle_timeout_ms = b.config.linger_ms = 60000);
    int idle = wire_connect(b.port, 0), busy = wire_connect(b.port, 0);
    int fresh = wire_connect(b.port, 0);
    EXPECT(wire_send(idle, "GET /204 HTTP/1.1\r\n" H "\r\n"));
    EXPECT(wire_read_until(idle, &in, "\r\n\r\n"));
    buf_reset(&in);
    EXPECT(wire_send(busy, "GET /hold?stream HTTP/1.1\r\n" H "\r\n"));
    EXPECT(wire_read_until(busy, &in, "begun"));
    http_server_drain(b.server);
    buf_reset(&out);
    EXPECT(wire_read_all(idle, &out));
    EXPECT(wire_read_all(fresh, &out));
    /* clients that keep theirs open are not waited for */
    EXPECT(connections_are(&b, 1));
    EXPECT(!http_server_wait_drained(b.server, 50));
    int late = wire_connect(b.port, 0);
    EXPECT(late < 0);
    EXPECT_EQ(b.closed_count, 0);
    EXPECT(http_thread_post(b.server, http_request_thread(b.held), finish_held, &b));
    EXPECT(wire_read_all(busy, &in));
    EXPECT(strstr(in.data, "begun") && strstr(in.data, " ended"));
    close(busy);
    EXPECT(http_server_wait_drained(b.server, 3000));
    close(idle);
    close(fresh);
}

TEST(server_free_tells_running_requests) {
    BENCH(b.config.thread_count = 2);
    int fds[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = wire_connect(b.port, 0);
        EXPECT(wire_send(fds[i], "GET /hold HTTP/1.1\r\n" H "\r\n"));
    }
    EXPECT(wire_wait_for(&b.request_count, 4));
    http_server_free(&b.server);
    EXPECT(!b.server);
    EXPECT_EQ(b.closed_count, 4);
    EXPECT_EQ(b.thread_bits, 3);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    buf_release(&in);
    buf_release(&out);
}

struct poster {
    struct bench *b;
    int thread_idx, next;
};
struct ordered {
    struct poster *poster;
    int number;
};
static struct ordered ordered[4][2000];

static void check_order(void *ctx) {
    struct ordered *o = ctx;
    if (o->poster->next++ == o->number)
        o->poster->b->post_count++;
}

static void *post_many(void *arg) {
    struct poster *p = arg;
    struct ordered *mine = ordered[p->thread_idx + 2 * (p->next != 0)];
    p->next = 0;
    for (int i = 0; i < 2000; i++) {
        mine[i] = (struct ordered){p, i};
        while (!http_thread_post(p->b->server, p->thread_idx, check_order, &mine[i]))
            sched_yield();
    }
    return NULL;
}

TEST(server_runs_posted_functions_in_order) {
    BENCH(b.config.thread_count = 2; b.config.posts_max = 100);
    pthread_t threads[4];
    struct poster posters[4] = {{&b, 0, 0}, {&b, 1, 0}, {&b, 0, 1}, {&b, 1, 1}};
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    EXPECT(wire_wait_for(&b.post_count, 8000));
}

static void wait_for_word(void *ctx) {
    struct bench *b = ctx;
    b->post_count++;
    while (!b->tick_count)
        sched_yield();
}

/* What is past the bound is refused and counted, what is within it runs. */
TEST(server_takes_as_many_posts_as_it_may) {
    BENCH(b.config.posts_max = 3);
    int64_t full = metric_value(&http_metrics[HTTP_METRIC_POSTS_FULL], 0);
    EXPECT(http_thread_post(b.server, 0, wait_for_word, &b));
    EXPECT(wire_wait_for(&b.post_count, 1)); /* the thread is busy */
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(http_thread_post(b.server, 0, wait_for_word, &b), i < 3);
    EXPECT_EQ(metric_value(&http_metrics[HTTP_METRIC_POSTS_FULL], 0), full + 2);
    b.tick_count = 1;
    EXPECT(wire_wait_for(&b.post_count, 4));
    EXPECT(http_thread_post(b.server, 0, wait_for_word, &b));
    EXPECT(wire_wait_for(&b.post_count, 5));
    EXPECT_EQ(metric_value(&http_metrics[HTTP_METRIC_POSTS_FULL], 0), full + 2);
}

TEST(server_ticks) {
    BENCH(b.config.thread_count = 2; b.config.tick_ms = 10; b.config.on_tick = on_tick);
    EXPECT(wire_wait_for(&b.tick_count, 6));
}

/* Both, how often and what, or there are no ticks. */
TEST(server_ticks_where_it_is_told_both) {
    for (int what = 0; what < 2; what++) {
        BENCH(b.config.tick_ms = what ? 0 : 1; b.config.on_tick = what ? on_tick : NULL);
        usleep(20000);
        EXPECT(exchange(&b, "GET /204 HTTP/1.1\r\n" H "Connection: close\r\n\r\n", &in));
        EXPECT_EQ(b.tick_count, 0);
    }
}

static void count_post(void *ctx) {
    ((struct bench *)ctx)->post_count++;
}

/* 30 ticks in which something waits, as many as make a thread calm, and then none for a long time,
 * until something comes. */
TEST(server_ticks_seldom_when_nothing_waits) {
    BENCH(b.config.thread_count = 1; b.config.tick_ms = 2; b.config.calm_tick_ms = 60000;
          b.config.on_tick = on_tick);
    EXPECT(wire_wait_for(&b.tick_count, 30 + HTTP_TICKS_CALM));
    usleep(200000);
    EXPECT_EQ(b.tick_count, 30 + HTTP_TICKS_CALM);
    EXPECT(http_thread_post(b.server, 0, count_post, &b));
    EXPECT(wire_wait_for(&b.tick_count, 30 + 2 * HTTP_TICKS_CALM));
    EXPECT_EQ(b.post_count, 1);
    usleep(200000);
    EXPECT_EQ(b.tick_count, 30 + 2 * HTTP_TICKS_CALM);
}

TEST(server_says_what_it_cannot_bind) {
    struct bench b;
    struct error err;
    bench_config(&b);
    b.config.host = "192.0.2.77";
    EXPECT(!http_server_new(&b.config, &err));
    EXPECT(strstr(err.text, "cannot listen on '192.0.2.77'"));
    b.config.host = "no such host.";
    EXPECT(!http_server_new(&b.config, &err));
    EXPECT(strstr(err.text, "cannot resolve the host"));
}

/* Many clients at once over two threads, some of which leave in the middle: every answer is right,
 * nothing stays behind. */
static void *hammer(void *arg) {
    struct bench *b = arg;
    struct buf in, out;
    buf_init(&in, 0);
    buf_init(&out, 0);
    for (int round = 0; round < 60; round++) {
        int fd = wire_connect(b->port, 0);
        char request[200], body[64];
        for (int i = 0; fd >= 0 && i < 5; i++) {
            int len = snprintf(body, sizeof body, "%d-%d-%p", round, i, (void *)&in);
            snprintf(request, sizeof request,
                     "POST /echo HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n%s", len, body);
            if (!wire_send(fd, request) || wire_take_response(fd, &in, &out) != 200)
                break;
            if (strcmp(buf_text(&out), body) == 0)
                b->post_count++;
        }
        if (round % 3 == 0)
            (void)wire_send(fd, "GET /hold?s HTTP/1.1\r\n" H "\r\n");
        if (round % 3 == 1)
            (void)wire_send(fd, "GET /late HTTP/1.1\r\n" H "\r\n");
        close(fd);
        buf_reset(&in);
    }
    buf_release(&in);
    buf_release(&out);
    return NULL;
}

TEST(server_under_many_clients) {
    BENCH(b.config.thread_count = 2; b.config.idle_timeout_ms = b.config.head_deadline_ms = 5000);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, hammer, &b), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQ(b.post_count, 8 * 60 * 5);
    int64_t end = clock_ms() + WIRE_TIMEOUT_MS;
    while (http_server_connection_count(b.server) && clock_ms() < end)
        sleep_ms(2);
    EXPECT_EQ(http_server_connection_count(b.server), 0);
    EXPECT_EQ(metric_value(&http_metrics[HTTP_METRIC_CONNECTIONS], 0), 0);
}

TEST(server_tells_where_a_request_comes_from) {
    BENCH();
    struct sockaddr_in own;
    socklen_t own_len = sizeof own;
    char wanted[40];
    int fd = wire_connect(b.port, 0);
    EXPECT_EQ(getsockname(fd, (struct sockaddr *)&own, &own_len), 0);
    snprintf(wanted, sizeof wanted, "127.0.0.1:%u", ntohs(own.sin_port));
    EXPECT(wire_send(fd, "GET /peer HTTP/1.1\r\n" H "\r\n"));
    EXPECT_EQ(wire_take_response(fd, &in, &out), 200);
    EXPECT_STR(buf_text(&out), wanted);
    close(fd);
}
