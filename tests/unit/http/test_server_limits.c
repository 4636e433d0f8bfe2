/*
 * test_server_limits.c - what the server bounds: connections, bodies and unread answers, and how addresses
 * share them.
 */
#include "http/http_network.h"
#include "server_bench.h"

TEST(server_refuses_connections_past_the_limit) {
    BENCH(b.config.connections_max = 2; b.config.head_deadline_ms = 3000);
    int one = wire_connect(b.port, 0), two = wire_connect(b.port, 0),
        three = wire_connect(b.port, 0);
    EXPECT(wire_read_all(three, &in));
    EXPECT(strncmp(buf_text(&in), "HTTP/1.1 503 ", 13) == 0 && strstr(in.data, "server_error"));
    close(three);
    close(two);
    int64_t end = clock_ms() + WIRE_TIMEOUT_MS;
    while (http_server_connection_count(b.server) > 1 && clock_ms() < end)
        sleep_ms(2);
    buf_reset(&in);
    EXPECT(exchange(&b, "GET /204 HTTP/1.1\r\n" H "Connection: close\r\n\r\n", &in));
    EXPECT(strstr(in.data, "204 No Content"));
    close(one);
}

/* 64 at a time are told so; who comes then is not worth an answer. */
TEST(server_answers_only_so_many_past_the_limit) {
    enum { TOLD = 64 };
    BENCH(b.config.connections_max = 1; b.config.head_deadline_ms = b.config.linger_ms = 30000);
    int fds[1 + TOLD + 1];
    fds[0] = wire_connect(b.port, 0);
    for (int i = 1; i <= TOLD; i++) {
        fds[i] = wire_connect(b.port, 0);
        buf_reset(&in);
        EXPECT(wire_read_until(fds[i], &in, "\r\n\r\n") && !strncmp(in.data, "HTTP/1.1 503 ", 13));
    }
    fds[1 + TOLD] = wire_connect(b.port, 0);
    buf_reset(&in);
    int end = wire_read_some(fds[1 + TOLD], &in, WIRE_TIMEOUT_MS);
    EXPECT(end == 0 || end == -1);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        close(fds[i]);
}

/* An address with silent connections leaves as many to the others. */
TEST(server_keeps_connections_for_other_addresses) {
    BENCH(b.config.connections_max = 20; b.config.head_deadline_ms = 3000);
    int fds[20], silent_count = 0;
    for (int i = 0; i < 20; i++) {
        fds[i] = wire_connect(b.port, 0);
        buf_reset(&in);
        if (wire_read_some(fds[i], &in, 20) == -2)
            silent_count++;
        else
            EXPECT(strstr(buf_text(&in), "HTTP/1.1 503 ") && strstr(in.data, "Retry-After: 1\r\n"));
    }
    EXPECT_EQ(silent_count, 11);
    int other = wire_connect_from(b.port, 0, 0x7f000002);
    buf_reset(&in);
    EXPECT(wire_send(other, "GET /204 HTTP/1.1\r\n" H "\r\n"));
    EXPECT_EQ(wire_take_response(other, &in, &out), 204);
    close(other);
    for (int i = 0; i < 20; i++)
        close(fds[i]);
}

/* Many addresses with many idle connections each leave the last ones to those that have none. With this
 * seed none of them has the account of another. */
TEST(server_keeps_the_last_connections_for_newcomers) {
    enum { MAX = 320, ADDRESSES = 12, EACH = 40, NEWCOMERS = 10, FIRST = 0x7f000101 };
    BENCH(b.config.connections_max = MAX; b.config.holders_seed = 1;
          b.config.idle_timeout_ms = b.config.head_deadline_ms = 60000);
    int fds[ADDRESSES * EACH];
    for (int i = 0; i < ADDRESSES * EACH; i++) {
        fds[i] = wire_connect_from(b.port, 0, FIRST + (uint32_t)(i / EACH));
        EXPECT(wire_send(fds[i], "GET /204 HTTP/1.1\r\n" H "\r\n"));
        buf_reset(&in);
        (void)wire_read_some(fds[i], &in, WIRE_TIMEOUT_MS);
    }
    int served = 0;
    for (int i = 0; i < NEWCOMERS; i++) {
        int fd = wire_connect_from(b.port, 0, FIRST + ADDRESSES + (uint32_t)i);
        buf_reset(&in);
        served += wire_send(fd, "GET /204 HTTP/1.1\r\n" H "\r\n") &&
                  wire_take_response(fd, &in, &out) == 204;
        close(fd);
    }
    EXPECT_EQ(served, NEWCOMERS);
    for (int i = 0; i < ADDRESSES * EACH; i++)
        close(fds[i]);
}

/* Connections that are being answered are nobody's hoard. */
TEST(server_serves_one_address_to_the_limit) {
    BENCH(b.config.connections_max = 8);
    int fds[8];
    for (int i = 0; i < 8; i++) {
        fds[i] = wire_connect(b.port, 0);
        EXPECT(wire_send(fds[i], "GET /hold?stream HTTP/1.1\r\n" H "\r\n"));
        buf_reset(&in);
        EXPECT(wire_read_until(fds[i], &in, "begun"));
    }
    for (int i = 0; i < 8; i++)
        close(fds[i]);
}

/* But an address whose requests all run leaves a part of them to the others, too, and what it gives back is
 * counted back. */
TEST(server_keeps_connections_from_one_that_is_always_answered) {
    enum { MAX = 64, ONE = 61, OTHER = 2 };
    BENCH(b.config.connections_max = MAX; b.config.holders_seed = 1);
    int fds[ONE + 1], others[OTHER];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < ONE + 1; i++) {
            fds[i] = wire_connect(b.port, 0);
            EXPECT(wire_send(fds[i], "GET /hold?stream HTTP/1.1\r\n" H "\r\n"));
            buf_reset(&in);
            EXPECT(wire_read_until(fds[i], &in, i < ONE ? "begun" : "\r\n\r\n"));
        }
        EXPECT(!strncmp(buf_text(&in), "HTTP/1.1 503 ", 13));
        for (int i = 0; i < OTHER; i++) {
            others[i] = wire_connect_from(b.port, 0, 0x7f000002);
            EXPECT(wire_send(others[i], "GET /hold?stream HTTP/1.1\r\n" H "\r\n"));
            buf_reset(&in);
            EXPECT(wire_read_until(others[i], &in, "begun"));
        }
        for (int i = 0; i < ONE + 1; i++)
            close(fds[i]);
        for (int i = 0; i < OTHER; i++)
            close(others[i]);
        int64_t end = clock_ms() + WIRE_TIMEOUT_MS;
        while (http_server_connection_count(b.server) && clock_ms() < end)
            sleep_ms(2);
        EXPECT_EQ(http_server_connection_count(b.server), 0);
    }
}

TEST(server_lets_its_owner_refuse_before_the_body) {
    BENCH(b.config.on_body = on_body; b.config.body_deadline_ms = 3000);
    int64_t held = metric_value(&http_metrics[HTTP_METRIC_BODY_BYTES], 0);
    int fd = wire_connect(b.port, 0);
    EXPECT(wire_send(fd, "POST /closed HTTP/1.1\r\n" H
                         "Expect: 100-continue\r\nContent-Length: 90000\r\n\r\n"));
    EXPECT(wire_read_all(fd, &in));
    EXPECT(strncmp(buf_text(&in), "HTTP/1.1 401 ", 13) == 0 && strstr(in.data, "close\r\n"));
    EXPECT_EQ(metric_value(&http_metrics[HTTP_METRIC_BODY_BYTES], 0), held);
    EXPECT_EQ(b.request_count, 0);
    close(fd);
    fd = wire_connect(b.port, 0);
    EXPECT(wire_send(fd, "POST /echo HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nhi"));
    buf_reset(&in);
    EXPECT_EQ(wire_take_response(fd, &in, &out), 200);
    close(fd);
}

static void send_most_of_a_body(int fd, const char *target, size_t len) {
    static char body[90000];
    char head[128];
    snprintf(head, sizeof head, "POST %s HTTP/1.1\r\n" H "Content-Length: %zu\r\n\r\n", target,
             len);
    (void)wire_send(fd, head);
    (void)wire_send_bytes(fd, body, len - 1);
}

/* Whoever holds bodies that do not end leaves room for another holder's. */
TEST(server_shares_the_room_for_bodies) {
    BENCH(b.config.on_body = on_body; b.config.bodies_max_bytes = 200000;
          b.config.body_deadline_ms = 3000; b.config.body_window_ms = 3000);
    int fds[4], refused_count = 0;
    for (int i = 0; i < 4; i++) {
        fds[i] = wire_connect(b.port, 0);
        send_most_of_a_body(fds[i], "/echo?a", 60000);
        buf_reset(&in);
        if (wire_read_some(fds[i], &in, 50) == 1)
            refused_count += strncmp(buf_text(&in), "HTTP/1.1 503 ", 13) == 0;
    }
    EXPECT_EQ(refused_count, 3);
    int other = wire_connect(b.port, 0);
    send_most_of_a_body(other, "/echo?b", 60000);
    EXPECT(wire_send(other, "x"));
    buf_reset(&in);
    EXPECT_EQ(wire_take_response(other, &in, &out), 200);
    close(other);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

/* Of answers that nobody reads an address has no more than is free; what others ask for comes whole,
 * and so does its own again once it has let go. */
TEST(server_shares_the_room_for_unread_answers) {
    enum { FIRST = 0x7f000001, OTHER = 0x7f000002, COUNT = 8, BIG = 3 << 20 };
    BENCH(b.config.unread_max_bytes = 16 << 20; b.config.write_timeout_ms = 60000);
    int fds[COUNT], refused_count = 0;
    for (int i = 0; i < COUNT; i++) {
        fds[i] = wire_connect_from(b.port, 4096, FIRST);
        EXPECT(wire_send(fds[i], "GET /big HTTP/1.1\r\n" H "\r\n"));
        buf_reset(&in);
        EXPECT_EQ(wire_read_some(fds[i], &in, WIRE_TIMEOUT_MS), 1);
        bool refused = !strncmp(buf_text(&in), "HTTP/1.1 503 ", 13);
        EXPECT(refused == (i >= 3)); /* 3 MB of 16, 6, 9; who has 9 has more than 7 */
        refused_count += refused;
    }
    EXPECT_EQ(refused_count, COUNT - 3);
    for (int round = 0; round < 2; round++) { /* what was read takes nothing */
        int other = wire_connect_from(b.port, 0, OTHER);
        EXPECT(wire_send(other, "GET /big HTTP/1.1\r\n" H "\r\n"));
        buf_reset(&in);
        EXPECT_EQ(wire_take_response(other, &in, &out), 200);
        EXPECT_EQ(out.len, BIG);
        close(other);
    }
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
    int status = 503;
    for (int i = 0; i < 100 && status != 200; i++) {
        sleep_ms(20);
        int fd = wire_connect_from(b.port, 0, FIRST);
        EXPECT(wire_send(fd, "GET /big HTTP/1.1\r\n" H "\r\n"));
        buf_reset(&in);
        status = wire_take_response(fd, &in, &out);
        close(fd);
    }
    EXPECT_EQ(status, 200);
}

/* A body that comes to a halt is not waited for as long as one that comes. */
TEST(server_wants_a_body_to_come) {
    BENCH(b.config.body_deadline_ms = 60000; b.config.body_window_ms = 100;
          b.config.body_window_bytes = 10);
    int fd = wire_connect(b.port, 0);
    send_most_of_a_body(fd, "/echo", 90000);
    EXPECT_EQ(wire_take_response(fd, &in, &out), 408);
    close(fd);
    fd = wire_connect(b.port, 0);
    EXPECT(wire_send(fd, "POST /echo HTTP/1.1\r\n" H "Content-Length: 1000\r\n\r\n"));
    static const char piece[100];
    for (int i = 0; i < 10; i++) { /* slowly, and through several windows */
        EXPECT(wire_send_bytes(fd, piece, sizeof piece));
        sleep_ms(30);
    }
    buf_reset(&in);
    EXPECT_EQ(wire_take_response(fd, &in, &out), 200);
    close(fd);
}

/* As much as a window asks for is enough, and a body's first window knows of no body before it. */
TEST(server_counts_the_bytes_of_each_window) {
    BENCH(b.config.body_deadline_ms = 60000; b.config.body_window_ms = 100;
          b.config.body_window_bytes = 10; b.config.idle_timeout_ms = 60000);
    char whole[1200];
    int fd = wire_connect(b.port, 0);
    int len =
        snprintf(whole, sizeof whole, "POST /echo HTTP/1.1\r\n" H "Content-Length: 1000\r\n\r\n");
    memset(whole + len, 'x', 1000);
    EXPECT(wire_send_bytes(fd, whole, (size_t)len + 1000)); /* at once: no window ends meanwhile */
    EXPECT_EQ(wire_take_response(fd, &in, &out), 200);
    int64_t start = clock_ms();
    EXPECT(wire_send(fd, "POST /echo HTTP/1.1\r\n" H "Content-Length: 1000\r\n\r\n0123456789"));
    buf_reset(&in);
    EXPECT_EQ(wire_take_response(fd, &in, &out), 408);
    EXPECT(clock_ms() - start >= 150); /* the second window is that in which nothing came */
    close(fd);
}

/* Answers of so many bytes need no room among those that nobody has read. */
TEST(server_needs_no_room_for_short_answers) {
    BENCH(b.config.unread_max_bytes = 1; b.config.high_water = 50000);
    char *request = mem_calloc(1, 60000);
    for (int more = 0; more < 2; more++) {
        int fd = wire_connect(b.port, 0);
        int len = snprintf(request, 60000, "POST /echo HTTP/1.1\r\n" H "Content-Length: %d\r\n\r\n",
                           50000 + more);
        EXPECT(wire_send_bytes(fd, request, (size_t)(len + 50000 + more)));
        buf_reset(&in);
        EXPECT_EQ(wire_take_response(fd, &in, &out), more ? 503 : 200);
        close(fd);
    }
    mem_free(request);
}

/* A stream may have as much pending as it says. */
TEST(server_cuts_no_stream_at_its_bound) {
    BENCH(b.config.pending_max_bytes = 65536);
    EXPECT(exchange(&b, "GET /brim HTTP/1.1\r\n" H "Connection: close\r\n\r\n", &in));
    EXPECT(wire_decode_chunks(&in, &out) == 1);
    EXPECT_EQ(b.closed_count, 0);
    buf_reset(&in);
    buf_reset(&out);
    EXPECT(exchange(&b, "GET /brim?1 HTTP/1.1\r\n" H "Connection: close\r\n\r\n", &in));
    EXPECT(wire_decode_chunks(&in, &out) < 0);
}

/* What servers are that say nothing of it: the bounds that README.md and SECURITY.md build on. */
TEST(server_has_bounds_from_the_start) {
    struct http_config c;
    http_config_init(&c);
    EXPECT(c.connections_max == 4096 && c.backlog == 1024 && c.thread_count == 1);
    EXPECT(c.head_max_bytes == 16384 && c.target_max_bytes == 8192 && c.headers_max == 100);
    EXPECT(c.body_max_bytes == 4u << 20 && c.bodies_max_bytes == 256u << 20);
    EXPECT(c.unread_max_bytes == 256u << 20 && c.pending_max_bytes == 4u << 20);
    EXPECT(c.head_deadline_ms == 10000 && c.body_deadline_ms == 30000);
    EXPECT(c.body_window_ms == 5000 && c.body_window_bytes == 5120);
    EXPECT(c.idle_timeout_ms == 75000 && c.write_timeout_ms == 30000 && c.linger_ms == 2000);
    EXPECT(c.low_water == 16384 && c.high_water == 65536 && c.posts_max == 65536);
}

/* Half a body does not keep a server that ends. */
TEST(server_drains_half_a_body) {
    BENCH(b.config.body_deadline_ms = 20000; b.config.body_window_ms = 20000);
    int fd = wire_connect(b.port, 0);
    int64_t held = metric_value(&http_metrics[HTTP_METRIC_BODY_BYTES], 0);
    send_most_of_a_body(fd, "/echo", 90000);
    int64_t end = clock_ms() + WIRE_TIMEOUT_MS;
    while (metric_value(&http_metrics[HTTP_METRIC_BODY_BYTES], 0) < held + 89999 &&
           clock_ms() < end)
        sleep_ms(2);
    http_server_drain(b.server);
    EXPECT(wire_read_all(fd, &in));
    EXPECT(strncmp(buf_text(&in), "HTTP/1.1 503 ", 13) == 0);
    close(fd);
    EXPECT(http_server_wait_drained(b.server, 3000));
}

TEST(server_bounds_all_bodies_together) {
    BENCH(b.config.bodies_max_bytes = 50000; b.config.body_deadline_ms = 3000);
    static char body[20000];
    int64_t held = metric_value(&http_metrics[HTTP_METRIC_BODY_BYTES], 0);
    int one = wire_connect(b.port, 0), two = wire_connect(b.port, 0);
    EXPECT(wire_send(one, "POST /echo HTTP/1.1\r\n" H "Content-Length: 20001\r\n\r\n"));
    EXPECT(wire_send_bytes(one, body, sizeof body));
    int64_t end = clock_ms() + WIRE_TIMEOUT_MS;
    while (metric_value(&http_metrics[HTTP_METRIC_BODY_BYTES], 0) < held + 20000 &&
           clock_ms() < end)
        sleep_ms(2);
    EXPECT(wire_send(two, "POST /echo HTTP/1.1\r\n" H "Content-Length: 20000\r\n\r\n"));
    (void)wire_send_bytes(two, body, sizeof body);
    EXPECT_EQ(wire_take_response(two, &in, &out), 503); /* of 50000, two of 20000 are not fair */
    EXPECT(wire_send(one, "x"));
    buf_reset(&in);
    EXPECT_EQ(wire_take_response(one, &in, &out), 200);
    EXPECT_EQ(metric_value(&http_metrics[HTTP_METRIC_BODY_BYTES], 0), held);
    close(one);
    close(two);
}

static struct u128 address_of(const char *text) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)check_random())};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = v4.sin_port};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return http_address_of((const struct sockaddr *)(const void *)&v4);
    CHECK(inet_pton(AF_INET6, text, &v6.sin6_addr) == 1);
    return http_address_of((const struct sockaddr *)(const void *)&v6);
}

/* Whose connection it is: of an IPv6 address the /64, but not where it carries one of IPv4. */
static struct http_network *enter(struct http_networks *networks, const char *text,
                                  struct u128 *address) {
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    CHECK(inet_pton(AF_INET6, text, &v6.sin6_addr) == 1);
    return http_network_enter(networks, (const struct sockaddr *)(const void *)&v6, address);
}

/* A customer with a /48 has a few addresses and not 65536, and keeps nobody else from having his. */
TEST(server_counts_few_addresses_of_a_network) {
    enum { MANY = 100 };
    struct http_networks networks;
    struct http_network *held[MANY], *neighbour, *again;
    struct u128 address[MANY], other, same;
    char text[64];
    http_networks_init(&networks, 5);
    for (int i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, "2001:db8:1:%x::7", i * 0x281); /* to the last bit in front */
        held[i] = enter(&networks, text, &address[i]);
        bool own = i < HTTP_NETWORK_OWN;
        EXPECT(u128_equal(address[i], address_of(text)) == own);
        for (int k = 0; k < i; k++)
            EXPECT(u128_equal(address[i], address[k]) == (k >= HTTP_NETWORK_OWN));
    }
    neighbour = enter(&networks, "2001:db8:0:50::7", &other);
    EXPECT(u128_equal(other, address_of("2001:db8:0:50::7")));
    again = enter(&networks, "2001:db8:1:783:ffff::", &same);
    EXPECT(u128_equal(same, address[3]) && again == held[3]);
    EXPECT(!enter(&networks, "::ffff:192.0.2.1", &same));
    EXPECT(u128_equal(same, address_of("192.0.2.1")));
    /* one that has left makes room for another */
    http_network_leave(&networks, held[0]);
    held[0] = enter(&networks, "2001:db8:1:77::", &same);
    EXPECT(u128_equal(same, address_of("2001:db8:1:77::")));
    http_network_leave(&networks, again);
    again = enter(&networks, "2001:db8:1:99::", &same);
    EXPECT(u128_equal(same, address[MANY - 1]));
    http_network_leave(&networks, again);
    http_network_leave(&networks, neighbour);
    for (int i = 0; i < MANY; i++)
        http_network_leave(&networks, held[i]);
    http_networks_release(&networks);
}

TEST(server_tells_addresses_apart) {
    static const char *const APART[] = {
        "192.0.2.1",      "192.0.2.2",           "2001:db8::1",
        "2001:db8:0:1::", "::ffff:198.51.100.7", "::ffff:198.51.100.8"};
    for (size_t i = 0; i < ARRAY_LEN(APART); i++) {
        EXPECT(!u128_is_zero(address_of(APART[i])));
        for (size_t k = 0; k < ARRAY_LEN(APART); k++)
            EXPECT(u128_equal(address_of(APART[i]), address_of(APART[k])) == (i == k));
    }
    EXPECT(u128_equal(address_of("2001:db8::1"), address_of("2001:db8::ffff:1:2:3")));
    EXPECT(u128_equal(address_of("198.51.100.7"), address_of("::ffff:198.51.100.7")));
}
