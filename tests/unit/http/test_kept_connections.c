/* What a connection holds between two requests: nothing of a large body, answer or stream. */
#include "live_bytes.h"
#include "server_bench.h"

enum { CONNECTIONS = 8, LARGE = 1 << 20, HELD_MOST = 96 << 10 };

/* One request on each of the connections, whose answer is LARGE, or is sent back. */
static bool ask_each(const int fds[CONNECTIONS], bool posts, struct buf *in, struct buf *out) {
    char *head = mem_alloc(200 + LARGE);
    int len =
        posts ? snprintf(head, 200, "POST /echo HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n", LARGE)
              : snprintf(head, 200, "GET /many?n=%d HTTP/1.1\r\n" H "\r\n", LARGE);
    memset(head + len, 'x', LARGE);
    bool ok = true;
    for (int i = 0; i < CONNECTIONS && ok; i++) {
        buf_reset(in);
        ok = wire_send_bytes(fds[i], head, (size_t)len + (posts ? LARGE : 0)) &&
             (posts ? wire_take_response(fds[i], in, out) == 200 && out->len == LARGE
                    : wire_read_until(fds[i], in, "\r\n0\r\n\r\n"));
    }
    mem_free(head);
    return ok;
}

/* Waits until no more than that is held. */
static bool falls_to(int64_t most) {
    int64_t end = clock_ms() + WIRE_TIMEOUT_MS;
    while (live_bytes() > most && clock_ms() < end)
        sleep_ms(5);
    return live_bytes() <= most;
}

static void keeps_nothing_of(bool posts) {
    BENCH(b.config.body_max_bytes = 2 * LARGE; b.config.idle_timeout_ms = 60000;
          b.config.head_deadline_ms = b.config.body_deadline_ms = 60000;
          b.config.write_timeout_ms = 60000; b.config.high_water = 2 * LARGE;
          b.config.pending_max_bytes = 4 * LARGE);
    int fds[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; i++) {
        fds[i] = wire_connect(b.port, 0);
        EXPECT(wire_send(fds[i], "GET /204 HTTP/1.1\r\n" H "\r\n"));
        buf_reset(&in);
        EXPECT_EQ(wire_take_response(fds[i], &in, &out), 204);
    }
    buf_reserve(&in, 2 * LARGE);
    buf_reserve(&out, 2 * LARGE);
    int64_t before = live_bytes();
    EXPECT(ask_each(fds, posts, &in, &out));
    EXPECT(falls_to(before + CONNECTIONS * HELD_MOST));
    EXPECT_EQ(http_server_connection_count(b.server), CONNECTIONS);
    for (int i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
}

TEST(a_connection_keeps_no_large_body_and_answer) {
    keeps_nothing_of(true);
}

TEST(a_connection_keeps_no_large_stream) {
    keeps_nothing_of(false);
}
