/*
 * test_link_trust.c - nobody speaks on the wire unproven: who is heard on tcp and on ipc, in which
 * role, for how long, and what the others cost.
 */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "check.h"
#include "link_peer.h"
#include "proto/link_guard.h"
#include "proto/link_socket.h"

enum { STUCK = 100 };
#define LATER (UINT64_C(1) << 50) /* an epoch above every other */

struct stage {
    struct tcp_keys keys;
    struct test_server server;
    struct test_client client; /* a gateway with its key */
    const char *endpoint;
    void *context; /* of strangers */
};

static bool stage_open(struct stage *t, int64_t silence_ms) {
    *t = (struct stage){.server = {.echo = true}, .context = zmq_ctx_new()};
    if (!tcp_keys_make(&t->keys) ||
        !test_server_open_with(&t->server, "tcp://127.0.0.1:*", &t->keys, 5, silence_ms))
        return false;
    t->endpoint = link_server_address(t->server.link, 0);
    if (!test_client_open_with(&t->client, t->endpoint, &t->keys, WIRE_ROLE_GATEWAY))
        return false;
    TURN_UNTIL(&t->server, &t->client, 5000, t->client.registered);
    return t->client.registered == 1;
}

static void stage_close(struct stage *t) {
    zmq_ctx_term(t->context);
    test_close(&t->server, &t->client);
    tcp_keys_remove(&t->keys);
}

/* The gateway's words come back. */
static bool serves(struct stage *t) {
    int before = t->client.frames;
    if (test_send_number(&t->client, (uint32_t)t->client.next) != 0)
        return false;
    TURN_UNTIL(&t->server, &t->client, 10000, t->client.frames > before);
    return t->client.frames > before && t->client.in_order;
}

static struct link_key_pair key_of(const struct stage *t, enum wire_role role) {
    struct link_key_pair pair;
    CHECK(link_key_file_read(t->keys.files[role], role, &pair, NULL) == 0);
    return pair;
}

struct identity {
    uint8_t bytes[26];
};
static struct identity identity_of(enum wire_role role, struct u128 instance) {
    struct identity id = {{'T', (uint8_t)role}};
    memcpy(id.bytes + 2, &instance, 16);
    return id;
}

/* A Hello, good but for what a worker's needs, of an epoch that is to come. */
static void send_hello(void *raw, enum wire_role role, struct u128 instance) {
    struct wire_hello hello = {
        .role = role, .instance = instance, .pid = 1, .incarnation = 1, .epoch_number = LATER};
    struct epoch epoch = {LATER, {1, 1}};
    uint8_t header[FRAME_BYTES];
    struct buf out = {0};
    message_pack_hello(&hello, &out);
    frame_write(header, WIRE_HELLO, epoch, buf_bytes(&out));
    zmq_send(raw, header, FRAME_BYTES, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(raw, out.data, out.len, ZMQ_DONTWAIT);
    buf_release(&out);
}

/* A frame of a kind, of an epoch that is to come. */
static void send_kind(void *raw, enum wire_kind kind) {
    uint8_t header[FRAME_BYTES];
    frame_write(header, (uint16_t)kind, (struct epoch){LATER, {1, 1}}, (struct bytes){0});
    zmq_send(raw, header, FRAME_BYTES, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(raw, "", 0, ZMQ_DONTWAIT);
}

TEST(trust_tcp_needs_keys) {
    static const char *const ENDPOINTS[] = {"tcp://127.0.0.1:*", "tcp://0.0.0.0:*",
                                            "tcp://[::1]:*"};
    for (size_t i = 0; i < ARRAY_LEN(ENDPOINTS); i++) {
        struct link_server_config config = {
            .endpoints = &ENDPOINTS[i], .endpoint_count = 1, .epoch = {1, {1, 1}}};
        struct link_server *server;
        struct error err;
        EXPECT_EQ(link_server_new(&server, &config, &TEST_SERVER_CALLS, NULL, &err), ERR_INVALID);
        EXPECT(strstr(err.text, "trireme keygen all --out DIR"));
        EXPECT(strstr(err.text, "--key-file DIR/scheduler.key --allow-keys DIR/allow"));
    }
    struct link_client_config config = {.endpoint = "tcp://127.0.0.1:9", .role = WIRE_ROLE_WORKER};
    struct link_client *client;
    struct error err;
    EXPECT_EQ(link_client_new(&client, &config, &TEST_CLIENT_CALLS, NULL, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "--key-file DIR/worker.key --allow-keys DIR/allow"));
}

TEST(trust_a_peers_user_is_read_from_its_address) {
    static const struct {
        const char *address;
        bool is_ours; /* of 1998 */
    } ROWS[] = {
        {"localhost:1998:1998:77", true},
        {"localhost:0:0:1", true},
        {"localhost:1999:1998:77", false},
        {"localhost:1997:1998:77", false},
        {"localhost:8:1998:77", false},
        {"localhost:199:1998:77", false},
        {"localhost:19980:1998:77", false},
        {"localhost:1:0:1998", false},
        {"a:b:1998:5:6", true}, /* whatever the host's name has */
        {"localhost:1998x:0:0", false},
        {"localhost::0:0", false},
        {"localhost:07CE:0:0", false},
        {"1998:0:0", false},
        {"localhost", false},
        {"", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        if (link_guard_is_user(bytes_str(ROWS[i].address), 1998) != ROWS[i].is_ours)
            check_fail(__FILE__, __LINE__, "'%s'", ROWS[i].address);
}

TEST(trust_one_key_file_of_two_is_a_mistake) {
    const char *endpoint = "tcp://127.0.0.1:*";
    struct tcp_keys k;
    struct link_server_config config = {
        .endpoints = &endpoint, .endpoint_count = 1, .epoch = {1, {1, 1}}};
    struct link_server *server;
    struct error err;
    EXPECT(tcp_keys_make(&k));
    config.key_file = k.files[WIRE_ROLE_SCHEDULER];
    EXPECT_EQ(link_server_new(&server, &config, &TEST_SERVER_CALLS, NULL, &err), ERR_INVALID);
    config.key_file = k.files[WIRE_ROLE_GATEWAY]; /* a scheduler is none */
    config.allow_keys = k.allow;
    EXPECT_EQ(link_server_new(&server, &config, &TEST_SERVER_CALLS, NULL, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "a gateway's key, not a scheduler's"));
    tcp_keys_remove(&k);
}

/* Without a key, with one that nobody allowed, with one that is the scheduler's own, or to a
 * scheduler that is not the one expected: nothing that they say arrives. */
TEST(trust_strangers_get_nothing_and_others_go_on) {
    enum { NO_KEY, UNKNOWN_KEY, SCHEDULERS_KEY, OTHER_SERVER, STRANGERS };
    struct stage t;
    EXPECT(stage_open(&t, 3000));
    struct link_key_pair unknown, gateway = key_of(&t, WIRE_ROLE_GATEWAY),
                                  scheduler = key_of(&t, WIRE_ROLE_SCHEDULER);
    link_key_pair_make(&unknown, WIRE_ROLE_GATEWAY);
    const struct link_key_pair *keys[STRANGERS] = {NULL, &unknown, &scheduler, &gateway};
    for (int i = 0; i < STRANGERS; i++) {
        struct u128 instance = {7, (uint64_t)i};
        struct identity id = identity_of(WIRE_ROLE_GATEWAY, instance);
        uint64_t refused = link_server_stats(t.server.link)->refused_peers;
        void *raw = raw_peer(t.context, t.endpoint, &t.keys, keys[i], i == OTHER_SERVER, id.bytes,
                             sizeof id.bytes);
        send_hello(raw, WIRE_ROLE_GATEWAY, instance);
        send_kind(raw, WIRE_SUBMIT);
        TURN_UNTIL(&t.server, &t.client, 10000,
                   link_server_stats(t.server.link)->refused_peers > refused);
        EXPECT(link_server_stats(t.server.link)->refused_peers > refused);
        EXPECT(serves(&t));
        uint8_t byte;
        EXPECT(zmq_recv(raw, &byte, 1, ZMQ_DONTWAIT) < 0); /* it hears nothing */
        zmq_close(raw);
    }
    EXPECT_EQ(t.server.hellos, 1);
    EXPECT_EQ(t.server.superseded, 0);
    EXPECT_EQ(link_server_epoch(t.server.link).number, 5);
    EXPECT_EQ(t.client.lost, 0);
    stage_close(&t);
}

static int connect_raw(const char *endpoint) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

/* Connections that never say a word, or stop in the middle of the greeting. */
TEST(trust_stuck_strangers_hold_up_nobody) {
    static const char GREETING[] = "\xff\0\0\0\0\0\0\0\x01\x7f\x03\0CURVE";
    struct stage t;
    struct test_client late = {0};
    int fds[STUCK];
    EXPECT(stage_open(&t, 3000));
    for (int i = 0; i < STUCK; i++) {
        fds[i] = connect_raw(t.endpoint);
        (void)!send(fds[i], GREETING, (size_t)(i % 18), MSG_NOSIGNAL);
    }
    EXPECT(test_client_open_with(&late, t.endpoint, &t.keys, WIRE_ROLE_SUPERVISOR));
    for (int64_t end = clock_ms() + 10000; !late.registered && clock_ms() < end;) {
        test_turn(&t.server, &t.client);
        test_turn(NULL, &late);
    }
    EXPECT_EQ(late.registered, 1);
    EXPECT(serves(&t));
    EXPECT_EQ(t.client.lost, 0);
    for (int i = 0; i < STUCK; i++)
        close(fds[i]);
    test_close(NULL, &late);
    stage_close(&t);
}

/* A worker that is ready before anybody has answered it: it does not hang up for that, which would look
 * like one that was refused. What it says is of then. */
TEST(trust_who_registers_anew_in_time_keeps_its_connection) {
    const char *ipc = test_endpoint();
    struct test_server s = {0};
    struct stage t;
    EXPECT(stage_open(&t, 3000));
    EXPECT(test_server_open(&s, ipc, 5, 3000));
    for (int i = 0; i < 2; i++) {
        struct test_server *server = i ? &t.server : &s;
        struct test_client c = {0};
        EXPECT(
            test_client_open_with(&c, i ? t.endpoint : ipc, i ? &t.keys : NULL, WIRE_ROLE_GATEWAY));
        for (int k = 0; k < 5; k++) {
            sleep_ms(10); /* the library connects and greets; the scheduler does not look */
            test_turn(NULL, &c);
            int before = c.hellos;
            link_client_renew(c.link);
            test_turn(NULL, &c);
            EXPECT_EQ(c.hellos, before + 1);
        }
        TURN_UNTIL(server, &c, 10000, c.registered);
        EXPECT_EQ(c.registered, 1);
        EXPECT_EQ(link_client_incarnation(c.link), c.hellos);
        link_client_renew(c.link); /* of one that is registered: a connection of its own */
        TURN_UNTIL(server, &c, 10000, c.registered == 2);
        EXPECT_EQ(c.registered, 2);
        EXPECT_EQ(link_server_stats(server->link)->refused_peers, 0);
        test_close(NULL, &c);
    }
    test_close(&s, NULL);
    test_endpoint_remove(ipc);
    stage_close(&t);
}

/* Each key, under the name of each role, says every kind. */
TEST(trust_a_key_speaks_for_its_role_alone) {
    struct stage t;
    EXPECT(stage_open(&t, 20000));
    for (int own = WIRE_ROLE_GATEWAY; own <= WIRE_ROLE_SUPERVISOR; own++) {
        struct link_key_pair key = key_of(&t, (enum wire_role)own);
        for (int role = WIRE_ROLE_GATEWAY; role <= WIRE_ROLE_SUPERVISOR; role++) {
            if (role == own)
                continue;
            const struct link_stats *stats = link_server_stats(t.server.link);
            struct u128 instance = {(uint64_t)own, (uint64_t)role};
            struct identity id = identity_of((enum wire_role)role, instance);
            uint64_t before = stats->refused_frames;
            void *raw =
                raw_peer(t.context, t.endpoint, &t.keys, &key, false, id.bytes, sizeof id.bytes);
            send_hello(raw, (enum wire_role)role, instance);
            for (int kind = 1; kind < WIRE_KIND_MAX; kind++)
                send_kind(raw, (enum wire_kind)kind);
            TURN_UNTIL(&t.server, &t.client, 10000,
                       stats->refused_frames == before + WIRE_KIND_MAX);
            EXPECT_EQ(stats->refused_frames - before, WIRE_KIND_MAX);
            zmq_close(raw);
        }
    }
    EXPECT_EQ(t.server.hellos, 1);
    EXPECT_EQ(t.server.superseded, 0);
    EXPECT_EQ(link_server_epoch(t.server.link).number, 5);
    EXPECT(serves(&t));
    stage_close(&t);
}

/* Not even in its own role may it take the place of a peer of another. */
TEST(trust_an_instance_keeps_its_role) {
    struct stage t;
    EXPECT(stage_open(&t, 20000));
    struct u128 instance = link_client_instance(t.client.link);
    struct link_key_pair key = key_of(&t, WIRE_ROLE_SUPERVISOR);
    struct identity id = identity_of(WIRE_ROLE_SUPERVISOR, instance);
    void *raw = raw_peer(t.context, t.endpoint, &t.keys, &key, false, id.bytes, sizeof id.bytes);
    send_hello(raw, WIRE_ROLE_SUPERVISOR, instance);
    TURN_UNTIL(&t.server, &t.client, 10000, link_server_stats(t.server.link)->refused_frames);
    EXPECT_EQ(link_server_stats(t.server.link)->refused_frames, 1);
    EXPECT_EQ(link_server_role(t.server.link, instance), WIRE_ROLE_GATEWAY);
    EXPECT(serves(&t));
    zmq_close(raw);
    stage_close(&t);
}

TEST(trust_ends_when_a_key_leaves_the_list) {
    struct stage t;
    struct test_client other = {0};
    EXPECT(stage_open(&t, 1000));
    EXPECT(test_client_open_with(&other, t.endpoint, &t.keys, WIRE_ROLE_SUPERVISOR));
    TURN_UNTIL(&t.server, &other, 10000, other.registered);
    EXPECT_EQ(other.registered, 1);
    EXPECT(tcp_keys_disallow(&t.keys, WIRE_ROLE_GATEWAY));
    int64_t end = clock_ms() + 3000;
    while (!t.server.gone && clock_ms() < end) {
        test_turn(&t.server, &t.client);
        test_turn(NULL, &other);
    }
    EXPECT_EQ(t.server.gone, 1);
    int frames = t.server.frames;
    (void)!test_send_number(&t.client, 0);
    for (end = clock_ms() + 2500; clock_ms() < end;) {
        test_turn(&t.server, &t.client);
        test_turn(NULL, &other);
    }
    EXPECT_EQ(t.server.frames, frames); /* heard no more, */
    EXPECT_EQ(t.client.registered, 1);  /* nor taken again; */
    EXPECT_EQ(other.lost, 0);           /* the other goes on */
    EXPECT_EQ(link_server_peer_count(t.server.link), 1);
    EXPECT_EQ(link_keys_make(t.keys.folder, NULL), 0); /* it is allowed again */
    for (end = clock_ms() + 5000; t.client.registered < 2 && clock_ms() < end;) {
        test_turn(&t.server, &t.client);
        test_turn(NULL, &other);
    }
    EXPECT_EQ(t.client.registered, 2);
    test_close(NULL, &other);
    stage_close(&t);
}

/* A key that has just come to the list is good for the next who connects, long before the server looks at the list by
 * itself. */
TEST(trust_begins_when_a_key_comes_to_the_list) {
    struct tcp_keys k;
    struct test_server s = {.echo = true};
    struct test_client c = {0};
    const char *endpoint = "tcp://127.0.0.1:*";
    struct error err;
    EXPECT(tcp_keys_make(&k) && tcp_keys_disallow(&k, WIRE_ROLE_GATEWAY));
    struct link_server_config config = {.endpoints = &endpoint,
                                        .endpoint_count = 1,
                                        .epoch = {5, {5, 7}},
                                        .heartbeat_ms = 60000,
                                        .silence_ms = 600000,
                                        .key_file = k.files[WIRE_ROLE_SCHEDULER],
                                        .allow_keys = k.allow};
    EXPECT_EQ(link_server_new(&s.link, &config, &TEST_SERVER_CALLS, &s, &err), 0);
    EXPECT_EQ(link_keys_make(k.folder, NULL), 0);
    EXPECT(test_client_open_with(&c, link_server_address(s.link, 0), &k, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(&s, &c, 10000, c.registered);
    EXPECT_EQ(c.registered, 1);
    test_close(&s, &c);
    tcp_keys_remove(&k);
}

/* A new key beside the old one; the old one leaves; the process finds the new one by itself. */
TEST(trust_a_gateways_key_is_changed_while_it_runs) {
    struct stage t;
    struct link_key_pair fresh;
    EXPECT(stage_open(&t, 1000));
    EXPECT_EQ(unlink(t.keys.files[WIRE_ROLE_GATEWAY]), 0);
    EXPECT(serves(&t)); /* the file is not needed while the connection lasts */
    EXPECT(tcp_keys_disallow(&t.keys, WIRE_ROLE_GATEWAY));
    EXPECT_EQ(link_keys_make(t.keys.folder, NULL), 0); /* a new pair, and the list has it */
    fresh = key_of(&t, WIRE_ROLE_GATEWAY);
    TURN_UNTIL(&t.server, &t.client, 6000, t.client.registered == 2);
    EXPECT_EQ(t.client.registered, 2);
    EXPECT(serves(&t));
    explicit_bzero(&fresh, sizeof fresh);
    stage_close(&t);
}

/* A second key of the scheduler, in the place of the first, which is at `aside` then; the list has both. */
static void make_second_key(const struct tcp_keys *k, char aside[80]) {
    snprintf(aside, 80, "%s/old", k->folder);
    EXPECT_EQ(rename(k->files[WIRE_ROLE_SCHEDULER], aside), 0);
    EXPECT_EQ(link_keys_make(k->folder, NULL), 0);
}

/* The list has two keys of schedulers; the one that listens has the second, then the first. */
TEST(trust_a_client_finds_the_scheduler_of_two_keys) {
    struct tcp_keys k;
    struct test_server s = {.echo = true};
    struct test_client c = {0};
    char endpoint[64], aside[80];
    EXPECT(tcp_keys_make(&k));
    make_second_key(&k, aside);
    for (int round = 0; round < 2; round++) {
        if (round)
            EXPECT_EQ(rename(aside, k.files[WIRE_ROLE_SCHEDULER]), 0);
        EXPECT(test_server_open_with(&s, round ? endpoint : "tcp://127.0.0.1:*", &k,
                                     5 + (uint64_t)round, 1000));
        snprintf(endpoint, sizeof endpoint, "%s", link_server_address(s.link, 0));
        if (!round)
            EXPECT(test_client_open_with(&c, endpoint, &k, WIRE_ROLE_GATEWAY));
        TURN_UNTIL(&s, &c, 10000, c.registered == round + 1);
        EXPECT_EQ(c.registered, round + 1);
        test_close(&s, NULL);
    }
    test_close(NULL, &c);
    tcp_keys_remove(&k);
}

/* Two addresses and two keys: whichever address it is at, and whichever key it has. */
TEST(trust_a_client_finds_a_scheduler_by_address_and_key) {
    struct tcp_keys k;
    char aside[80], endpoints[128];
    EXPECT(tcp_keys_make(&k));
    make_second_key(&k, aside);
    for (int round = 0; round < 4; round++) {
        struct test_server s = {.echo = true};
        struct test_client c = {0};
        if (round == 2)
            EXPECT_EQ(rename(aside, k.files[WIRE_ROLE_SCHEDULER]), 0);
        EXPECT(test_server_open_with(&s, "tcp://127.0.0.1:*", &k, 5, 3000));
        const char *address = link_server_address(s.link, 0), *nobody = "tcp://127.0.0.1:9";
        snprintf(endpoints, sizeof endpoints, "%s,%s", round % 2 ? nobody : address,
                 round % 2 ? address : nobody);
        EXPECT(test_client_open_with(&c, endpoints, &k, WIRE_ROLE_GATEWAY));
        TURN_UNTIL(&s, &c, 20000, c.registered);
        EXPECT_EQ(c.registered, 1);
        test_close(&s, &c);
    }
    tcp_keys_remove(&k);
}

/* Where a key stands in the list does not matter. */
TEST(trust_a_client_finds_the_schedulers_key_anywhere_in_the_list) {
    struct tcp_keys k;
    struct buf lines[2] = {0};
    char line[256];
    EXPECT(tcp_keys_make(&k));
    FILE *f = fopen(k.allow, "r");
    while (f && fgets(line, sizeof line, f))
        buf_add_str(&lines[strncmp(line, "scheduler", 9) == 0], line);
    EXPECT(f && !fclose(f) && lines[0].len && lines[1].len);
    for (int first = 0; first < 2; first++) {
        struct test_server s = {.echo = true};
        struct test_client c = {0};
        EXPECT((f = fopen(k.allow, "w")));
        fprintf(f, "%s%s", buf_text(&lines[first]), buf_text(&lines[!first]));
        EXPECT_EQ(fclose(f), 0);
        EXPECT(test_server_open_with(&s, "tcp://127.0.0.1:*", &k, 5, 3000));
        EXPECT(test_client_open_with(&c, link_server_address(s.link, 0), &k, WIRE_ROLE_GATEWAY));
        TURN_UNTIL(&s, &c, 10000, c.registered);
        EXPECT_EQ(c.registered, 1);
        test_close(&s, &c);
    }
    struct link_client_config config = {.endpoint = "tcp://127.0.0.1:9",
                                        .role = WIRE_ROLE_WORKER,
                                        .key_file = k.files[WIRE_ROLE_WORKER],
                                        .allow_keys = k.allow};
    struct link_client *client;
    struct error err;
    EXPECT(tcp_keys_disallow(&k, WIRE_ROLE_SCHEDULER));
    EXPECT_EQ(link_client_new(&client, &config, &TEST_CLIENT_CALLS, NULL, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "/allow' has no scheduler's key"));
    buf_release(&lines[0]);
    buf_release(&lines[1]);
    tcp_keys_remove(&k);
}

/* ---- ipc ---- */

/* As another user: whether anything was heard of a scheduler. */
static int stranger_on_ipc(const char *endpoint) {
    char answer[256];
    int timeout_ms = 1500;
    if (setgid(65534) || setuid(65534))
        return 2;
    void *context = zmq_ctx_new(), *raw = zmq_socket(context, ZMQ_DEALER);
    struct identity id = identity_of(WIRE_ROLE_GATEWAY, (struct u128){3, 3});
    zmq_setsockopt(raw, ZMQ_ROUTING_ID, id.bytes, sizeof id.bytes);
    zmq_setsockopt(raw, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    zmq_connect(raw, endpoint);
    send_hello(raw, WIRE_ROLE_GATEWAY, (struct u128){3, 3});
    return zmq_recv(raw, answer, sizeof answer, 0) >= 0;
}

TEST(trust_ipc_hears_no_other_user) {
    const char *endpoint = test_endpoint();
    struct test_server s = {.echo = true};
    struct test_client c = {0};
    char folder[64];
    int status = -1;
    if (geteuid() != 0) {
        SKIP("root", "only root can play another user");
    }
    EXPECT(test_server_open(&s, endpoint, 5, 3000));
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(&s, &c, 10000, c.registered);
    /* The folder's mode keeps him out; were it open, and the socket too: */
    snprintf(folder, sizeof folder, "%s", endpoint + strlen("ipc://"));
    EXPECT_EQ(chmod(folder, 0777), 0);
    *strrchr(folder, '/') = 0;
    EXPECT_EQ(chmod(folder, 0711), 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(stranger_on_ipc(endpoint));
    TURN_UNTIL(&s, &c, 8000, waitpid(pid, &status, WNOHANG) == pid);
    EXPECT(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(s.hellos, 1);
    EXPECT(link_server_stats(s.link)->refused_peers > 0);
    EXPECT_EQ(c.lost, 0);
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
}

TEST(trust_ipc_connects_only_where_nobody_else_writes) {
    char folder[] = "/tmp/trmXXXXXX", endpoint[64];
    struct link_client_config config = {.endpoint = endpoint, .role = WIRE_ROLE_GATEWAY};
    struct link_client *client;
    struct error err;
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(endpoint, sizeof endpoint, "ipc://%s/s", folder);
    EXPECT_EQ(chmod(folder, 0777), 0);
    EXPECT_EQ(link_client_new(&client, &config, &TEST_CLIENT_CALLS, NULL, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "others may write"));
    EXPECT_EQ(chmod(folder, 0700), 0);
    EXPECT_EQ(link_client_new(&client, &config, &TEST_CLIENT_CALLS, NULL, &err), 0);
    link_client_free(&client);
    if (geteuid() == 0) {
        EXPECT_EQ(chown(folder, 12345, (gid_t)-1), 0);
        EXPECT_EQ(link_client_new(&client, &config, &TEST_CLIENT_CALLS, NULL, &err), ERR_INVALID);
        EXPECT(strstr(err.text, "another user's"));
    }
    rmdir(folder);
}

/* A folder is good that is one's own or root's, and no other's: for root and for everybody else. */
TEST(trust_ipc_connects_where_root_or_we_own_the_folder) {
    static const uid_t USERS[] = {0, 12345, 54321};
    char folder[] = "/tmp/trmXXXXXX", endpoint[64];
    struct error err;
    if (geteuid() != 0) {
        SKIP("root", "only root can play another user");
    }
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(endpoint, sizeof endpoint, "ipc://%s/s", folder);
    for (size_t owner = 0; owner < ARRAY_LEN(USERS); owner++)
        for (size_t we = 0; we < ARRAY_LEN(USERS); we++) {
            EXPECT_EQ(chown(folder, USERS[owner], (gid_t)-1), 0);
            EXPECT_EQ(seteuid(USERS[we]), 0);
            int rc = link_endpoint_trust(endpoint, &err);
            EXPECT_EQ(seteuid(0), 0);
            EXPECT_EQ(rc, USERS[owner] == USERS[we] || USERS[owner] == 0 ? 0 : ERR_INVALID);
        }
    EXPECT_EQ(chown(folder, 0, (gid_t)-1), 0);
    static const mode_t MODES[] = {0700, 0755, 0720, 0702, 0777, 01777};
    for (size_t i = 0; i < ARRAY_LEN(MODES); i++) {
        EXPECT_EQ(chmod(folder, MODES[i]), 0);
        EXPECT_EQ(link_endpoint_trust(endpoint, &err), i < 2 ? 0 : ERR_INVALID);
    }
    rmdir(folder);
    EXPECT_EQ(link_endpoint_trust(endpoint, &err), ERR_AGAIN);
}

TEST(trust_ipc_waits_for_the_folder) {
    char folder[] = "/tmp/trmXXXXXX", endpoint[64];
    struct test_server s = {.echo = true};
    struct test_client c = {0};
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(endpoint, sizeof endpoint, "ipc://%s/run/s", folder);
    EXPECT(test_client_open(&c, endpoint, WIRE_ROLE_GATEWAY));
    TURN_UNTIL(NULL, &c, 100, false);
    EXPECT(test_server_open(&s, endpoint, 5, 3000));
    TURN_UNTIL(&s, &c, 10000, c.registered);
    EXPECT_EQ(c.registered, 1);
    test_close(&s, &c);
    test_endpoint_remove(endpoint);
    rmdir(folder);
}

/* ---- Both ---- */

/* Whether a peer with that key (NULL: none) is refused there. */
static bool is_refused(struct test_server *s, void *context, const char *endpoint,
                       const struct tcp_keys *k, const struct link_key_pair *own) {
    struct u128 instance = {11, 12};
    struct identity id = identity_of(WIRE_ROLE_GATEWAY, instance);
    uint64_t refused = link_server_stats(s->link)->refused_peers;
    void *raw = raw_peer(context, endpoint, k, own, false, id.bytes, sizeof id.bytes);
    send_hello(raw, WIRE_ROLE_GATEWAY, instance);
    TURN_UNTIL(s, NULL, 10000, link_server_stats(s->link)->refused_peers > refused);
    zmq_close(raw);
    return link_server_stats(s->link)->refused_peers > refused;
}

/* What one endpoint asks for does not change what the other does, in whichever order. */
TEST(trust_ipc_and_tcp_of_one_scheduler_are_apart) {
    for (int tcp_first = 0; tcp_first < 2; tcp_first++) {
        const char *ipc = test_endpoint(), *tcp = "tcp://127.0.0.1:*";
        const char *endpoints[] = {tcp_first ? tcp : ipc, tcp_first ? ipc : tcp};
        struct tcp_keys k;
        struct test_server s = {.echo = true};
        struct test_client clients[2] = {{0}, {0}};
        struct error err;
        EXPECT(tcp_keys_make(&k));
        struct link_server_config config = {.endpoints = endpoints,
                                            .endpoint_count = 2,
                                            .epoch = {5, {5, 5}},
                                            .heartbeat_ms = 50,
                                            .silence_ms = 3000,
                                            .key_file = k.files[WIRE_ROLE_SCHEDULER],
                                            .allow_keys = k.allow};
        EXPECT_EQ(link_server_new(&s.link, &config, &TEST_SERVER_CALLS, &s, &err), 0);
        const char *bound = link_server_address(s.link, tcp_first ? 0 : 1);
        EXPECT(strncmp(bound, "tcp://", 6) == 0);
        void *context = zmq_ctx_new();
        EXPECT(is_refused(&s, context, bound, &k, NULL));
        EXPECT_EQ(s.hellos, 0);
        EXPECT(test_client_open(&clients[0], ipc, WIRE_ROLE_SUPERVISOR));
        EXPECT(test_client_open_with(&clients[1], bound, &k, WIRE_ROLE_GATEWAY));
        for (int i = 0; i < 2; i++) {
            TURN_UNTIL(&s, &clients[i], 10000, clients[i].registered);
            EXPECT_EQ(clients[i].registered, 1);
        }
        zmq_ctx_term(context);
        test_close(NULL, &clients[1]);
        test_close(&s, &clients[0]);
        tcp_keys_remove(&k);
        test_endpoint_remove(ipc);
    }
}
