/* What requests leave behind: for the next one on their connection, for a server that drains, for a thread that
 * has ended. And what the heads of answers without a body say. */
#include "server_bench.h"

TEST(server_304_has_no_length) {
    BENCH();
    EXPECT(exchange(&b, "GET /304 HTTP/1.1\r\n" H "Connection: close\r\n\r\n", &in));
    EXPECT(strstr(in.data, "304 Not Modified") && !strstr(in.data, "Content-Length") &&
           !strstr(in.data, "dropped"));
}

/* A stream without a body does not need the end of the connection to end. */
TEST(server_keeps_alive_behind_the_head_of_a_stream) {
    BENCH();
    int fd = wire_connect(b.port, 0);
    for (int i = 0; i < 2; i++) {
        EXPECT(wire_send(fd, "HEAD /stream?n=3 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
        EXPECT(wire_read_until(fd, &in, "\r\n\r\n"));
        EXPECT(strstr(in.data, "Connection: keep-alive\r\n"));
        buf_reset(&in);
    }
    close(fd);
}

/* Nor does one whose status has none, whatever is written to it. */
TEST(server_streams_of_204_and_304_have_no_body) {
    static const char *const STATUSES[] = {"204", "304"};
    BENCH();
    for (size_t i = 0; i < ARRAY_LEN(STATUSES); i++)
        for (int minor = 0; minor < 2; minor++) {
            char text[200];
            int fd = wire_connect(b.port, 0);
            buf_reset(&in);
            snprintf(text, sizeof text,
                     "GET /stream?n=3&status=%s HTTP/1.%d\r\n" H "%s\r\n"
                     "GET /204 HTTP/1.1\r\n" H "Connection: close\r\n\r\n",
                     STATUSES[i], minor, minor ? "" : "Connection: keep-alive\r\n");
            EXPECT(wire_send(fd, text));
            EXPECT(wire_read_all(fd, &in));
            const char *end = strstr(buf_text(&in), "\r\n\r\n");
            EXPECT(!strncmp(buf_text(&in) + strlen("HTTP/1.1 "), STATUSES[i], 3) && end);
            EXPECT(!strncmp(end + 4, "HTTP/1.", 7)); /* the next answer at once */
            EXPECT(!strstr(buf_text(&in), "chunked"));
            close(fd);
        }
}

/* A timer, and what waits for a slow reader, end with their request. */
TEST(server_requests_leave_nothing_to_the_next) {
    BENCH(b.config.idle_timeout_ms = 60000);
    int fd = wire_connect(b.port, 0), other = wire_connect(b.port, 0);
    EXPECT(wire_send(fd, "GET /timer HTTP/1.1\r\n" H "\r\n"));
    EXPECT_EQ(wire_take_response(fd, &in, &out), 200);
    EXPECT(wire_send(fd, "GET /brim?1 HTTP/1.1\r\n" H "\r\n")); /* more than high_water */
    EXPECT(wire_read_until(fd, &in, "\r\n0\r\n\r\n"));
    buf_reset(&in);
    EXPECT(wire_send(fd, "GET /hold?stream HTTP/1.1\r\n" H "\r\n"));
    EXPECT(wire_read_until(fd, &in, "begun"));
    sleep_ms(60); /* of which the timer's time is the half */
    buf_reset(&in);
    EXPECT(wire_send(other, "GET /204 HTTP/1.1\r\n" H "\r\n"));
    EXPECT_EQ(wire_take_response(other, &in, &out), 204);
    EXPECT(!b.drained_count && !b.timer_count && !b.closed_count);
    close(fd);
    close(other);
}

static void begin_held(void *ctx) {
    struct bench *b = ctx;
    stream_begin(b->held);
    http_stream_end(b->held);
}

/* Who drains says so in the head of what begins later. */
TEST(server_drains_streams_that_have_not_begun) {
    BENCH(b.config.idle_timeout_ms = b.config.linger_ms = 60000);
    int fd = wire_connect(b.port, 0);
    EXPECT(wire_send(fd, "GET /hold HTTP/1.1\r\n" H "\r\n"));
    EXPECT(wire_wait_for(&b.request_count, 1));
    http_server_drain(b.server);
    EXPECT(http_thread_post(b.server, 0, begin_held, &b));
    EXPECT(wire_read_all(fd, &in));
    EXPECT(strstr(in.data, "\r\nConnection: close\r\n"));
    close(fd);
    EXPECT(http_server_wait_drained(b.server, 3000));
}

static void rest(void *ctx) {}

struct late_post {
    struct bench *b;
    bool refused;
};

/* Posts to the other thread until that has ended. */
static void post_until_refused(void *ctx) {
    struct late_post *late = ctx;
    for (int i = 0; i < 10000 && !late->refused; i++) {
        sleep_ms(1);
        late->refused = !http_thread_post(late->b->server, 1, rest, NULL);
    }
}

/* A thread that has ended takes nothing more, or whoever posts would wait for it in vain. */
TEST(server_takes_no_posts_for_a_thread_that_has_ended) {
    BENCH(b.config.thread_count = 2);
    struct late_post late = {&b, false};
    EXPECT(http_thread_post(b.server, 0, post_until_refused, &late));
    http_server_free(&b.server);
    EXPECT(late.refused);
}

TEST(server_says_whose_fault_it_is) {
    for (int status = 400; status < 600; status++) {
        struct buf body;
        buf_init(&body, 0);
        http_reject_json(status, "a \"b\"", &body);
        const char *want = status < 500 ? "{\"error\":{\"message\":\"a \\\"b\\\"\",\"type\":"
                                          "\"invalid_request_error\",\"param\":null,\"code\":null}}"
                                        : "{\"error\":{\"message\":\"a \\\"b\\\"\",\"type\":"
                                          "\"server_error\",\"param\":null,\"code\":null}}";
        EXPECT_STR(buf_text(&body), want);
        buf_release(&body);
    }
}
