/*
 * test_link.c - both ends of a link over real sockets.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <zmq.h>

#include "check.h"
#include "link_peer.h"

TEST(link_hello_gets_welcome_then_heartbeats_flow) {
    const char *endpoint = test_endpoint();
    struct test_server s = {.echo = true};
    struct test_client c = {0};
    EXPECT(test_server_open(&s, endpoint, 5, 400));
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    EXPECT_EQ(test_send_number(&c, 0), ERR_CLOSED); /* not registered yet */
    TURN_UNTIL(&s, &c, 2000, c.registered);
    EXPECT_EQ(c.registered, 1);
    EXPECT_EQ(c.hellos, 1);
    EXPECT_EQ(link_client_epoch(c.link).number, 5);
    EXPECT(u128_equal(s.peer, link_client_instance(c.link)));
    EXPECT_EQ(link_server_role(s.link, s.peer), WIRE_ROLE_GATEWAY);
    TURN_UNTIL(&s, &c, 700, false); /* longer than the silence allowed */
    EXPECT(s.heartbeats >= 8);
    EXPECT_EQ(c.lost, 0);
    EXPECT_EQ(s.gone, 0);
    EXPECT_EQ(test_send_number(&c, 0), 0);
    TURN_UNTIL(&s, &c, 1000, c.frames);
    EXPECT_EQ(c.frames, 1);
    EXPECT(c.in_order);
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
}

TEST(link_hello_waits_for_a_scheduler) {
    const char *endpoint = test_endpoint();
    struct test_server s = {0};
    struct test_client c = {0};
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(NULL, &c, 150, false);
    EXPECT(!link_client_is_registered(c.link));
    EXPECT(test_server_open(&s, endpoint, 5, 400));
    TURN_UNTIL(&s, &c, 3000, c.registered);
    EXPECT_EQ(c.registered, 1);
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
}

TEST(link_drops_a_hello_that_is_not_valid) {
    const char *endpoint = test_endpoint();
    struct test_server s = {0};
    struct test_client c = {0};
    EXPECT(test_server_open(&s, endpoint, 5, 400));
    /* our Hello lacks what a worker's must have */
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_WORKER));
    TURN_UNTIL(&s, &c, 2000, link_server_stats(s.link)->bad_frames >= 2);
    EXPECT(link_server_stats(s.link)->bad_frames >= 2);
    EXPECT_EQ(s.hellos, 0);
    EXPECT_EQ(c.registered, 0);
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
}

TEST(link_registers_again_with_the_next_scheduler) {
    const char *endpoint = test_endpoint();
    struct test_server first = {0}, second = {.echo = true};
    struct test_client c = {0};
    EXPECT(test_server_open(&first, endpoint, 5, 400));
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(&first, &c, 2000, c.registered);
    EXPECT_EQ(c.registered, 1);
    test_close(&first, NULL);
    TURN_UNTIL(NULL, &c, 1000, c.lost);
    EXPECT_EQ(c.lost, 1);
    EXPECT_EQ(c.why, LINK_LOST_CLOSED);
    EXPECT_EQ(test_send_number(&c, 99), ERR_CLOSED);
    EXPECT(test_server_open(&second, endpoint, 6, 400));
    TURN_UNTIL(&second, &c, 3000, c.registered == 2);
    EXPECT_EQ(c.registered, 2);
    EXPECT_EQ(c.hellos, 2);
    EXPECT_EQ(link_client_incarnation(c.link), 2);
    EXPECT_EQ(link_client_epoch(c.link).number, 6);
    EXPECT_EQ(test_send_number(&c, 0), 0);
    TURN_UNTIL(&second, &c, 1000, c.frames);
    EXPECT_EQ(second.frames, 1); /* nothing meant for the first */
    test_close(&second, &c);
    test_endpoint_remove(endpoint);
}

TEST(link_scheduler_rises_above_what_a_peer_has_met) {
    const char *endpoint = test_endpoint();
    struct test_server first = {0}, second = {0};
    struct test_client c = {0};
    EXPECT(test_server_open(&first, endpoint, 50, 400));
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(&first, &c, 2000, c.registered);
    test_close(&first, NULL);
    EXPECT(test_server_open(&second, endpoint, 6, 400)); /* its clock went back */
    TURN_UNTIL(&second, &c, 3000, c.registered == 2);
    EXPECT_EQ(c.registered, 2);
    EXPECT_EQ(link_client_epoch(c.link).number, 51);
    EXPECT_EQ(link_server_epoch(second.link).number, 51);
    test_close(&second, &c);
    test_endpoint_remove(endpoint);
}

static bool counts_agree(const struct test_server *s, const struct test_client *c) {
    const struct link_stats *here = link_server_stats(s->link), *there = link_client_stats(c->link);
    return here->received_frames == there->sent_frames &&
           here->received_bytes == there->sent_bytes &&
           here->sent_frames == there->received_frames && here->sent_bytes == there->received_bytes;
}

/* Once nothing is under way, what one has sent the other has received. */
TEST(link_counts_what_goes_and_what_comes) {
    const char *endpoint = test_endpoint();
    struct test_server s = {.echo = true};
    struct test_client c = {0};
    EXPECT(test_server_open(&s, endpoint, 5, 4000));
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(&s, &c, 5000, c.registered);
    for (uint32_t i = 0; i < 20; i++)
        EXPECT_EQ(test_send_number(&c, i << i), 0);
    TURN_UNTIL(&s, &c, 5000, c.frames == 20);
    EXPECT_EQ(c.frames, 20);
    TURN_UNTIL(&s, &c, 20000, counts_agree(&s, &c));
    EXPECT(counts_agree(&s, &c));
    EXPECT(link_server_stats(s.link)->received_frames >= 21);
    EXPECT(link_server_stats(s.link)->received_bytes > 20);
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
}

TEST(link_renew_says_hello_again_and_only_then) {
    const char *endpoint = test_endpoint();
    struct test_server s = {0};
    struct test_client c = {0};
    EXPECT(test_server_open(&s, endpoint, 5, 400));
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(&s, &c, 2000, c.registered);
    link_client_renew(c.link);
    EXPECT_EQ(c.why, LINK_LOST_RENEW);
    TURN_UNTIL(&s, &c, 2000, c.registered == 2);
    EXPECT_EQ(c.registered, 2);
    EXPECT_EQ(s.hellos, 2);
    EXPECT_EQ(s.early, 0);                        /* its Welcome comes first, this time too */
    EXPECT_EQ(link_server_peer_count(s.link), 1); /* one process, one peer */
    /* its next heartbeat is answered with "register" */
    link_server_drop(s.link, s.peer);
    TURN_UNTIL(&s, &c, 2000, c.registered == 3);
    EXPECT_EQ(c.registered, 3);
    EXPECT_EQ(c.why, LINK_LOST_UNKNOWN);
    EXPECT_EQ(s.gone, 0);
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
}

TEST(link_outlives_a_lack_of_descriptors) {
    const char *endpoint = test_endpoint();
    struct test_server first = {0}, second = {0};
    struct test_client c = {0};
    struct rlimit limit, none;
    EXPECT(test_server_open(&first, endpoint, 5, 400));
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(&first, &c, 2000, c.registered);
    EXPECT_EQ(c.registered, 1);
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){3, limit.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    test_close(&first, NULL);
    TURN_UNTIL(NULL, &c, 700, false); /* the client cannot make a socket, and lives */
    int lost = c.lost;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(lost, 1);
    EXPECT_EQ(test_send_number(&c, 0), ERR_CLOSED);
    EXPECT(test_server_open(&second, endpoint, 6, 400));
    TURN_UNTIL(&second, &c, 3000, c.registered == 2);
    EXPECT_EQ(c.registered, 2);
    test_close(&second, &c);
    test_endpoint_remove(endpoint);
}

TEST(link_silence_ends_both_ways) {
    const char *endpoint = test_endpoint();
    struct test_server s = {0};
    struct test_client c = {0};
    EXPECT(test_server_open(&s, endpoint, 5, 300));
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(&s, &c, 2000, c.registered);
    TURN_UNTIL(&s, NULL, 1000, s.gone); /* the client's thread stands still */
    EXPECT_EQ(s.gone, 1);
    TURN_UNTIL(&s, &c, 2000, c.registered == 2);
    EXPECT_EQ(c.registered, 2);
    TURN_UNTIL(NULL, &c, 1000, c.lost == 2); /* now the scheduler's does */
    EXPECT_EQ(c.lost, 2);
    EXPECT_EQ(c.why, LINK_LOST_SILENT);
    TURN_UNTIL(&s, &c, 2000, c.registered == 3); /* and it condemns nobody when it goes on */
    EXPECT_EQ(c.registered, 3);
    EXPECT_EQ(s.gone, 1);
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
}

TEST(link_refused_hello_is_asked_again) {
    const char *endpoint = test_endpoint();
    struct test_server s = {.refuse = true};
    struct test_client c = {0};
    EXPECT(test_server_open(&s, endpoint, 5, 300));
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(&s, &c, 2000, s.hellos >= 2);
    EXPECT_EQ(c.registered, 0);
    EXPECT_EQ(link_server_peer_count(s.link), 0);
    s.refuse = false;
    TURN_UNTIL(&s, &c, 2000, c.registered);
    EXPECT_EQ(c.registered, 1);
    EXPECT_EQ(c.hellos, 1); /* the same Hello all the time */
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
}

/* ---- Many frames, both ways, sent from inside callbacks, waited for through the descriptors only
 * ---- */

enum { MANY = 100000, WINDOW = 500 };

struct flood {
    struct test_server server;
    _Atomic bool stop;
};

static void *run_server(void *arg) {
    struct flood *f = arg;
    while (!f->stop)
        link_server_wait(f->server.link, NULL, NULL, 0, 100);
    return NULL;
}

static void flood_frame(void *ctx, enum wire_kind kind, struct bytes payload) {
    struct test_client *t = ctx;
    test_client_frame(ctx, kind, payload);
    uint64_t to_send = t->next + WINDOW - 1;
    if (to_send < MANY && test_send_number(t, (uint32_t)to_send) != 0)
        t->in_order = false;
}

TEST(link_carries_100000_frames_each_way_from_inside_callbacks) {
    const char *endpoint = test_endpoint();
    struct flood f = {.server = {.echo = true}};
    struct test_client c = {.in_order = true};
    struct link_client_calls calls = TEST_CLIENT_CALLS;
    struct error err;
    calls.frame = flood_frame;
    EXPECT(test_server_open(&f.server, endpoint, 5, 5000));
    struct link_client_config config = {.endpoint = endpoint, .role = WIRE_ROLE_GATEWAY};
    EXPECT_EQ(link_client_new(&c.link, &config, &calls, &c, &err), 0);
    pthread_t thread;
    EXPECT_EQ(pthread_create(&thread, NULL, run_server, &f), 0);
    int64_t end = clock_ms() + 60000;
    while (!c.registered && clock_ms() < end)
        link_client_wait(c.link, NULL, NULL, 0, 1000);
    for (uint32_t i = 0; i < WINDOW; i++)
        EXPECT_EQ(test_send_number(&c, i), 0);
    while (c.next < MANY && c.in_order && clock_ms() < end)
        link_client_wait(c.link, NULL, NULL, 0, 1000);
    f.stop = true;
    pthread_join(thread, NULL);
    EXPECT_EQ(c.next, MANY);
    EXPECT(c.in_order);
    EXPECT_EQ(c.lost, 0);
    EXPECT_EQ(f.server.received, MANY);
    test_close(&f.server, &c);
    test_endpoint_remove(endpoint);
}

TEST(link_refuses_an_oversized_payload) {
    const char *endpoint = test_endpoint();
    struct test_server s = {0};
    struct test_client c = {0};
    /* heartbeats wait behind 64 MB: no silence on a busy machine */
    EXPECT(test_server_open(&s, endpoint, 5, 30000));
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(&s, &c, 2000, c.registered);
    uint8_t *large = mem_calloc(1, (size_t)WIRE_MAX_FRAME + 1);
    EXPECT_EQ(link_client_send(c.link, WIRE_DRAIN, bytes_of(large, (size_t)WIRE_MAX_FRAME + 1)),
              ERR_LIMIT);
    EXPECT_EQ(
        link_server_send(s.link, s.peer, WIRE_DRAIN, bytes_of(large, (size_t)WIRE_MAX_FRAME + 1)),
        ERR_LIMIT);
    EXPECT_EQ(link_client_send(c.link, WIRE_DRAIN, bytes_of(large, (size_t)WIRE_MAX_FRAME)),
              0); /* the largest passes */
    TURN_UNTIL(&s, &c, 30000, s.frames);
    EXPECT_EQ(s.frames, 1);
    EXPECT_EQ(s.gone + c.lost, 0);
    mem_free(large);
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
}

/* ---- Strangers ---- */

static void *open_raw(void *context, const char *endpoint, const void *id, size_t id_len) {
    void *raw = zmq_socket(context, ZMQ_DEALER);
    int linger = 100;
    zmq_setsockopt(raw, ZMQ_LINGER, &linger, sizeof linger);
    if (id_len)
        zmq_setsockopt(raw, ZMQ_ROUTING_ID, id, id_len);
    zmq_connect(raw, endpoint);
    return raw;
}

static void send_garbage(void *raw, uint64_t round) {
    uint8_t bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)check_random();
    size_t parts = 1 + round % 5;
    for (size_t i = 0; i < parts; i++)
        zmq_send(raw, bytes + i, check_random() % 256, i + 1 < parts ? ZMQ_SNDMORE : 0);
    frame_write(bytes, (uint16_t)(round % 40), (struct epoch){round, {1, 1}},
                bytes_of("payload", 7)); /* a good header, */
    if (round % 3 == 0)
        bytes[check_random() % FRAME_BYTES] ^= 0x10; /* sometimes flipped */
    zmq_send(raw, bytes, FRAME_BYTES, ZMQ_SNDMORE);
    zmq_send(raw, "payload", 7, 0);
}

/* A good frame is dropped, too, if more comes with it: not ours, whatever it is. */
TEST(link_drops_what_has_more_parts_than_ours) {
    const char *endpoint = test_endpoint();
    struct test_server s = {0};
    EXPECT(test_server_open(&s, endpoint, 5, 400));
    void *context = zmq_ctx_new();
    uint8_t id[26] = {'T', WIRE_ROLE_WORKER, 1, 2, 3}, head[FRAME_BYTES];
    void *raw = open_raw(context, endpoint, id, sizeof id);
    frame_write(head, WIRE_HEARTBEAT, (struct epoch){5, {1, 1}}, bytes_of("payload", 7));
    for (int more = 3; more >= 0; more--) {
        zmq_send(raw, head, FRAME_BYTES, ZMQ_SNDMORE);
        zmq_send(raw, "payload", 7, more ? ZMQ_SNDMORE : 0);
        for (int i = 0; i < more; i++)
            zmq_send(raw, "more", 4, i + 1 < more ? ZMQ_SNDMORE : 0);
    }
    TURN_UNTIL(&s, NULL, 2000, link_server_stats(s.link)->received_frames);
    EXPECT_EQ(link_server_stats(s.link)->bad_frames, 3);
    EXPECT_EQ(link_server_stats(s.link)->received_frames, 1);
    zmq_close(raw);
    zmq_ctx_term(context);
    test_close(&s, NULL);
    test_endpoint_remove(endpoint);
}

/* A scheduler whose Welcome cannot be read is none: it is counted, and the next one is heard. */
TEST(link_wants_a_welcome_that_is_valid) {
    const char *endpoint = test_endpoint();
    struct test_client c = {0};
    struct wire_welcome welcome = {.heartbeat_ms = 50, .silence_ms = 3000};
    struct buf good = {0};
    uint8_t id[64], head[FRAME_BYTES], rest[4096];
    int id_len = -1;
    void *context = zmq_ctx_new(), *raw = zmq_socket(context, ZMQ_ROUTER);
    EXPECT_EQ(zmq_bind(raw, endpoint), 0);
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(NULL, &c, 5000, (id_len = zmq_recv(raw, id, sizeof id, ZMQ_DONTWAIT)) > 0);
    EXPECT(id_len > 0);
    while (zmq_recv(raw, rest, sizeof rest, ZMQ_DONTWAIT) >= 0) {}
    message_pack_welcome(&welcome, &good);
    struct bytes payloads[] = {bytes_of("\xff\xff\xff", 3), buf_bytes(&good)};
    for (int valid = 0; valid < 2; valid++) {
        frame_write(head, WIRE_WELCOME, (struct epoch){5, {1, 1}}, payloads[valid]);
        zmq_send(raw, id, (size_t)id_len, ZMQ_SNDMORE);
        zmq_send(raw, head, FRAME_BYTES, ZMQ_SNDMORE);
        zmq_send(raw, payloads[valid].data, payloads[valid].len, 0);
        TURN_UNTIL(NULL, &c, 5000, link_client_stats(c.link)->received_frames == 1u + valid);
        EXPECT_EQ(link_client_stats(c.link)->received_frames, 1 + valid);
        EXPECT_EQ(link_client_stats(c.link)->bad_frames, 1);
        EXPECT_EQ(link_client_stats(c.link)->registrations, valid);
        EXPECT_EQ(link_client_is_registered(c.link), valid);
        EXPECT_EQ(link_client_epoch(c.link).number, valid ? 5 : 0);
        EXPECT_EQ(c.registered, valid);
    }
    /* what is no frame is counted, and is no reason to leave */
    for (int parts = 1; parts <= 3; parts++) {
        zmq_send(raw, id, (size_t)id_len, ZMQ_SNDMORE);
        for (int i = 1; i <= parts; i++)
            zmq_send(raw, "part", 4, i < parts ? ZMQ_SNDMORE : 0);
    }
    TURN_UNTIL(NULL, &c, 5000, link_client_stats(c.link)->bad_frames == 4);
    EXPECT_EQ(link_client_stats(c.link)->bad_frames, 4);
    EXPECT_EQ(link_client_stats(c.link)->received_frames, 2);
    EXPECT(link_client_is_registered(c.link));
    zmq_close(raw);
    buf_release(&good);
    test_close(NULL, &c);
    zmq_ctx_term(context);
    test_endpoint_remove(endpoint);
}

TEST(link_ignores_garbage_from_raw_peers) {
    const char *endpoint = test_endpoint();
    struct test_server s = {.echo = true};
    struct test_client c = {0};
    EXPECT(test_server_open(&s, endpoint, UINT64_C(1) << 40, 2000));
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(&s, &c, 2000, c.registered);
    void *context = zmq_ctx_new();
    uint8_t id[26] = {'T', WIRE_ROLE_WORKER, 1, 2, 3};
    void *anonymous = open_raw(context, endpoint, NULL, 0),
         *impostor = open_raw(context, endpoint, id, sizeof id);
    for (uint64_t i = 0; i < 500; i++) {
        send_garbage(anonymous, i);
        send_garbage(impostor, i);
        if (i % 10 == 0)
            TURN_UNTIL(&s, &c, 1, false);
    }
    TURN_UNTIL(&s, &c, 300, false);
    EXPECT(link_server_stats(s.link)->bad_frames > 700);
    EXPECT_EQ(s.hellos, 1);
    EXPECT_EQ(s.frames, 0);
    EXPECT_EQ(link_server_peer_count(s.link), 1);
    EXPECT_EQ(test_send_number(&c, 0), 0);
    TURN_UNTIL(&s, &c, 1000, c.frames);
    EXPECT_EQ(c.frames, 1); /* the one next to it is served on */
    zmq_close(anonymous);
    zmq_close(impostor);
    zmq_ctx_term(context);
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
}

static int connect_tcp(const char *endpoint) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

TEST(link_ignores_raw_bytes_on_tcp) {
    struct test_server s = {.echo = true};
    struct test_client c = {0};
    struct tcp_keys keys;
    EXPECT(tcp_keys_make(&keys));
    EXPECT(test_server_open_with(&s, "tcp://127.0.0.1:*", &keys, 5, 2000));
    const char *endpoint = link_server_address(s.link, 0);
    EXPECT(test_client_open_with(&c, endpoint, &keys, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(&s, &c, 2000, c.registered);
    EXPECT_EQ(c.registered, 1);
    for (int round = 0; round < 20; round++) {
        uint8_t bytes[4096];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)check_random();
        /* the beginning of a ZMTP greeting */
        if (round % 2)
            memcpy(bytes, "\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL", 16);
        int fd = connect_tcp(endpoint);
        EXPECT(fd >= 0);
        (void)!send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        TURN_UNTIL(&s, &c, 5, false);
        close(fd);
    }
    EXPECT_EQ(link_server_peer_count(s.link), 1);
    EXPECT_EQ(test_send_number(&c, 0), 0);
    TURN_UNTIL(&s, &c, 1000, c.frames);
    EXPECT_EQ(c.frames, 1);
    test_close(&s, &c);
    tcp_keys_remove(&keys);
}

/* ---- Endpoints ---- */

TEST(link_checks_endpoints) {
    static const char *const GOOD[] = {"ipc:///run/trireme/s",
                                       "tcp://127.0.0.1:5555",
                                       "tcp://host:*",
                                       "tcp://[::1]:1",
                                       "tcp://h:0",
                                       "tcp://h:65535"};
    static const char *const BAD[] = {"",
                                      "ipc://relative",
                                      "ipc://",
                                      "tcp://127.0.0.1",
                                      "tcp://:5",
                                      "tcp://h:65536",
                                      "tcp://h:",
                                      "tcp://h:-1",
                                      "udp://127.0.0.1:5",
                                      "inproc://x"};
    char long_path[200];
    struct error err;
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++)
        EXPECT_EQ(link_endpoint_check(GOOD[i], &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        EXPECT_EQ(link_endpoint_check(BAD[i], &err), ERR_INVALID);
    snprintf(long_path, sizeof long_path, "ipc:///%0106d", 0); /* 107 bytes of path */
    EXPECT_EQ(link_endpoint_check(long_path, &err), 0);
    snprintf(long_path, sizeof long_path, "ipc:///%0107d", 0);
    EXPECT_EQ(link_endpoint_check(long_path, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "107"));
}

static int try_bind(const char *endpoint) {
    struct link_server *link;
    struct error err;
    struct link_server_config config = {
        .endpoints = &endpoint, .endpoint_count = 1, .epoch = {1, {1, 1}}};
    int rc = link_server_new(&link, &config, &TEST_SERVER_CALLS, NULL, &err);
    link_server_free(&link);
    return rc;
}

TEST(link_binds_only_where_strangers_cannot_come) {
    char folder[] = "/tmp/trmXXXXXX", endpoint[64], deep[64];
    struct stat st;
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(deep, sizeof deep, "%s/run", folder);
    snprintf(endpoint, sizeof endpoint, "ipc://%s/run/s", folder);
    EXPECT_EQ(try_bind(endpoint), 0); /* makes the folder */
    EXPECT(stat(deep, &st) == 0);
    EXPECT_EQ(st.st_mode & 07777, 0700);
    EXPECT_EQ(chmod(deep, 0755), 0);
    EXPECT_EQ(try_bind(endpoint), ERR_INVALID);
    rmdir(deep);
    rmdir(folder);
}
