/*
 * test_link_wakes.c - when a link wakes its owner, how often it says Hello, and that nobody is called
 * silent whose words were not read. Nothing here depends on how long anything takes: what may happen
 * once in so many milliseconds is held against those that passed.
 */
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zmq.h>

#include "check.h"
#include "link_peer.h"
#include "proto/link_socket.h"

enum { TAKEN_AT_ONCE = 2000 }; /* frames, by one dispatch */

/* Is an open descriptor of this kind? */
static bool is_kind(int fd, const char *kind) {
    char path[64], target[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(path, target, sizeof target);
    return len == (ssize_t)strlen(kind) && !memcmp(target, kind, (size_t)len);
}

static bool watches_a_timer(int fd) {
    char path[64], line[256];
    bool any = false;
    int watched;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        any = any ||
              (sscanf(line, "tfd: %d", &watched) == 1 && is_kind(watched, "anon_inode:[timerfd]"));
    if (file)
        fclose(file);
    return any;
}

/* What the owner of a link waits on, of the descriptors from `first` on: the set that has a timer. -1: none. */
static int waited_on(int first) {
    for (int fd = first; fd < first + 64; fd++)
        if (is_kind(fd, "anon_inode:[eventpoll]") && watches_a_timer(fd))
            return fd;
    return -1;
}

static bool is_readable(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* Of many sends, each when nothing was left to do, one at least leaves it so: what ZeroMQ and the
 * clock have to say comes between some of them. */
TEST(a_send_wakes_nobody_where_nothing_waits) {
    const char *endpoint = test_endpoint();
    struct test_server s = {0};
    struct test_client c = {0};
    EXPECT(test_server_open(&s, endpoint, 5, 60000));
    int server_fd = waited_on(3);
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    int client_fd = waited_on(server_fd + 1);
    EXPECT(server_fd > 0 && client_fd > 0);
    TURN_UNTIL(&s, &c, 10000, c.registered);
    EXPECT_EQ(c.registered, 1);
    int quiet = 0, quiet_server = 0;
    for (int i = 0; i < 200 && !(quiet && quiet_server); i++) {
        for (int k = 0; k < 1000 && is_readable(client_fd); k++)
            link_client_dispatch(c.link);
        (void)!test_send_number(&c, 0);
        quiet += !is_readable(client_fd);
        for (int k = 0; k < 1000 && is_readable(server_fd); k++)
            link_server_dispatch(s.link);
        (void)!link_server_send(s.link, s.peer, WIRE_DRAIN, (struct bytes){0});
        quiet_server += !is_readable(server_fd);
    }
    EXPECT(quiet && quiet_server);
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
}

/* Carries bytes between a client and who listens elsewhere, and can end the connection. */
struct between {
    int listener, client, server; /* -1: no connection now */
    struct sockaddr_un here, there;
};

/* False: one of the two has ended. */
static bool copy_bytes(int from, int to) {
    uint8_t bytes[4096];
    ssize_t len;
    while ((len = recv(from, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        if (send(to, bytes, (size_t)len, MSG_NOSIGNAL) != len)
            return false;
    return len < 0;
}

static void between_open(struct between *b, const char *endpoint) {
    *b = (struct between){.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0),
                          .client = -1,
                          .server = -1,
                          .here.sun_family = AF_UNIX,
                          .there.sun_family = AF_UNIX};
    snprintf(b->here.sun_path, sizeof b->here.sun_path, "%s", endpoint + strlen("ipc://"));
    snprintf(b->there.sun_path, sizeof b->there.sun_path, "%s.there", endpoint + strlen("ipc://"));
    CHECK(bind(b->listener, (struct sockaddr *)&b->here, sizeof b->here) == 0 &&
          listen(b->listener, 8) == 0);
}

static void between_cut(struct between *b) {
    if (b->client >= 0) {
        close(b->client);
        close(b->server);
    }
    b->client = b->server = -1;
}

static void between_turn(struct between *b) {
    if (b->client < 0 && (b->client = accept(b->listener, NULL, NULL)) >= 0) {
        b->server = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(connect(b->server, (struct sockaddr *)&b->there, sizeof b->there) == 0);
    }
    if (b->client >= 0 && !(copy_bytes(b->client, b->server) && copy_bytes(b->server, b->client)))
        between_cut(b);
}

static void turn_both(struct between *b, struct test_client *c) {
    between_turn(b);
    link_client_wait(c->link, NULL, NULL, 0, 1);
}

/* A router in the place of a scheduler never answers, and the connection to it ends. There is another
 * one, and Hello goes out on it at once, then every LINK_HELLO_MS. */
TEST(a_connection_that_broke_before_welcome_is_no_reason_to_say_hello_all_the_time) {
    const char *endpoint = test_endpoint();
    struct test_client c = {0};
    struct between b;
    char there[128];
    int none = 0;
    void *context = zmq_ctx_new(), *raw = zmq_socket(context, ZMQ_ROUTER);
    between_open(&b, endpoint);
    snprintf(there, sizeof there, "ipc://%s", b.there.sun_path);
    zmq_setsockopt(raw, ZMQ_LINGER, &none, sizeof none);
    EXPECT_EQ(zmq_bind(raw, there), 0);
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    const struct link_stats *stats = link_client_stats(c.link);
    for (int64_t end = clock_ms() + 20000; !stats->sent_frames && clock_ms() < end;)
        turn_both(&b, &c);
    uint64_t before = stats->sent_frames;
    EXPECT(before > 0);
    int64_t start_ms = clock_ms();
    between_cut(&b);
    for (int64_t end = start_ms + 20000;
         (b.client < 0 || stats->sent_frames == before) && clock_ms() < end;)
        turn_both(&b, &c);
    EXPECT(stats->sent_frames > before);
    for (int i = 0; i < 200; i++)
        turn_both(&b, &c);
    EXPECT(stats->sent_frames - before <= 2 + (uint64_t)(clock_ms() - start_ms) / LINK_HELLO_MS);
    link_client_renew(c.link); /* of a registration that never was */
    EXPECT(c.lost == 0 && c.registered == 0);
    zmq_close(raw);
    test_close(NULL, &c);
    between_cut(&b);
    close(b.listener);
    zmq_ctx_term(context);
    unlink(b.there.sun_path);
    test_endpoint_remove(endpoint);
}

/* Nobody is at the first of two addresses: the second has its turn. */
TEST(an_address_where_nobody_is_gives_way_to_the_next) {
    const char *endpoint = test_endpoint();
    struct test_server s = {0};
    struct test_client c = {0};
    char both[160];
    snprintf(both, sizeof both, "%s.none,%s", endpoint, endpoint);
    EXPECT(test_server_open(&s, endpoint, 5, 60000));
    EXPECT(test_client_open(&c, both, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(&s, &c, 20000, c.registered);
    EXPECT_EQ(c.registered, 1);
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
}

/* What waits for one connection of a process is not for its next. */
TEST(each_connection_has_a_name_of_its_own) {
    struct u128 instance = {0x0102030405060708, 0x1112131415161718}, read;
    enum wire_role role;
    struct routing_id first = routing_id_make(WIRE_ROLE_WORKER, instance, 1),
                      next = routing_id_make(WIRE_ROLE_WORKER, instance, 2),
                      far = routing_id_make(WIRE_ROLE_WORKER, instance, UINT64_C(1) << 56 | 1);
    EXPECT(memcmp(&first, &next, sizeof first) && memcmp(&first, &far, sizeof first));
    EXPECT(routing_id_read(bytes_of(far.bytes, sizeof far.bytes), &role, &read));
    EXPECT(role == WIRE_ROLE_WORKER && u128_equal(read, instance));
}

static uint64_t come(const struct link_server *link) {
    const struct link_stats *stats = link_server_stats(link);
    return stats->received_frames + stats->bad_frames;
}

/* A stranger sends more than is read at a time; a peer says nothing for longer than it may. While
 * frames wait, its own may be among them. */
TEST(nobody_is_silent_while_frames_wait) {
    const char *endpoint = test_endpoint();
    struct test_server s = {0};
    struct test_client c = {0};
    struct link_server_config config = {.endpoints = &endpoint,
                                        .endpoint_count = 1,
                                        .epoch = {5, {5, 7}},
                                        .heartbeat_ms = 50,
                                        .silence_ms = 1};
    struct error err;
    EXPECT_EQ(link_server_new(&s.link, &config, &TEST_SERVER_CALLS, &s, &err), 0);
    void *context = zmq_ctx_new(), *raw = zmq_socket(context, ZMQ_DEALER);
    int none = 0;
    zmq_setsockopt(raw, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(raw, ZMQ_SNDHWM, &none, sizeof none); /* no bound */
    EXPECT_EQ(zmq_connect(raw, endpoint), 0);
    zmq_send(raw, "x", 1, 0);
    TURN_UNTIL(&s, NULL, 10000, come(s.link)); /* it is connected */
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    bool all_waited = true; /* each time, when something was read, more was left */
    for (int round = 0, heard = 0; round < 40 && heard < 4; round++) {
        for (int i = 0; i < 2 * TAKEN_AT_ONCE; i++)
            zmq_send(raw, "x", 1, 0);
        if (!s.hellos)
            link_client_wait(c.link, NULL, NULL, 0, 1);
        sleep_ms(s.hellos ? 55 : 5);
        uint64_t before = come(s.link);
        link_server_dispatch(s.link);
        all_waited = all_waited && come(s.link) - before == TAKEN_AT_ONCE;
        EXPECT(!all_waited || s.gone == 0);
        heard += s.hellos;
    }
    zmq_close(raw);
    zmq_ctx_term(context);
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
}
