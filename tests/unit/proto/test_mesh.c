/*
 * test_mesh.c - members of a mesh in one process, over the loopback.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "proto/mesh.h"

enum { MEMBERS = 4, FRAMES = 200, WAIT_MS = 10000 };

struct peer {
    struct mesh *mesh;
    uint32_t self;
    char greeting[16];
    _Atomic uint64_t next[MEMBERS]; /* number of the next frame from each */
    _Atomic int wrong;
};

static int free_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&at, len) || getsockname(fd, (struct sockaddr *)&at, &len))
        abort();
    close(fd);
    return ntohs(at.sin_port);
}

/* What member `from` sends as its frame of this number: so many bytes of this value. */
static size_t length_of(uint64_t number) {
    return number % 7 == 6 ? MESH_FRAME_MAX / 8 : number;
}
static uint8_t value_of(uint32_t from, uint64_t number) {
    return (uint8_t)(from * 50 + number);
}

static void on_frame(void *ctx, const struct mesh_frame *f) {
    struct peer *p = ctx;
    if (f->number != p->next[f->from] || f->kind != f->from + 3 ||
        f->data.len != length_of(f->number))
        p->wrong++;
    for (size_t i = 0; i < f->data.len; i += 101)
        if (f->data.data[i] != value_of(f->from, f->number))
            p->wrong++;
    p->next[f->from] = f->number + 1;
}

static int open_peer(struct peer *p, uint32_t self, uint32_t count, const uint8_t *key,
                     const char *place, const char *listen, struct error *err) {
    *p = (struct peer){.self = self};
    snprintf(p->greeting, sizeof p->greeting, "I am %u", self);
    struct mesh_config config = {.self = self,
                                 .count = count,
                                 .key = key,
                                 .rendezvous = place,
                                 .listen = listen,
                                 .greeting = p->greeting,
                                 .greeting_bytes = sizeof p->greeting,
                                 .on_frame = on_frame,
                                 .ctx = p};
    return mesh_open(&p->mesh, &config, err);
}

/* Whether all of them meet in time. */
static bool meet_all(struct peer *peers, uint32_t count, int64_t within_ms) {
    int64_t end = clock_ms() + within_ms;
    uint32_t met = 0;
    while (met < count && clock_ms() < end) {
        met = 0;
        for (uint32_t i = 0; i < count; i++)
            met += mesh_form(peers[i].mesh, 1) == 1;
    }
    return met == count;
}

static void send_to_others(struct peer *p, uint32_t count) {
    static uint8_t data[MESH_FRAME_MAX];
    for (uint64_t n = 0; n < FRAMES; n++) {
        memset(data, value_of(p->self, n), length_of(n));
        for (uint32_t to = 0; to < count; to++)
            if (to != p->self)
                p->wrong +=
                    mesh_send(p->mesh, to, p->self + 3, n, bytes_of(data, length_of(n))) != 0;
    }
}

static void expect_all_hear_all(const char *place, const char *listen) {
    static struct peer peers[MEMBERS];
    uint8_t key[MESH_KEY_BYTES];
    struct error err;
    mesh_key_new(key);
    /* the last one first: nobody needs another to be there already */
    for (uint32_t i = MEMBERS; i-- > 0;)
        EXPECT_EQ(open_peer(&peers[i], i, MEMBERS, key, place, listen, &err), 0);
    EXPECT(meet_all(peers, MEMBERS, WAIT_MS));
    for (uint32_t i = 0; i < MEMBERS; i++) {
        for (uint32_t k = 0; k < MEMBERS; k++)
            EXPECT_STR((const char *)mesh_greeting(peers[i].mesh, k), peers[k].greeting);
        mesh_start(peers[i].mesh);
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        send_to_others(&peers[i], MEMBERS);
    int64_t end = clock_ms() + WAIT_MS;
    for (uint32_t i = 0; i < MEMBERS; i++)
        for (uint32_t k = 0; k < MEMBERS; k++)
            while (i != k && peers[i].next[k] < FRAMES && clock_ms() < end)
                sleep_ms(1);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        EXPECT_EQ(peers[i].wrong, 0);
        for (uint32_t k = 0; k < MEMBERS; k++)
            EXPECT_EQ(peers[i].next[k], i == k ? 0 : FRAMES);
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        mesh_close(&peers[i].mesh);
    EXPECT(!peers[0].mesh);
}

TEST(members_hear_each_other_in_order) {
    char place[64];
    snprintf(place, sizeof place, "127.0.0.1:%d", free_port());
    expect_all_hear_all(place, NULL);
}

TEST(members_listen_where_they_are_asked_to) {
    char place[64];
    snprintf(place, sizeof place, "localhost:%d", free_port());
    expect_all_hear_all(place, "127.0.0.1");
}

TEST(members_meet_over_version_6) {
    char place[64];
    struct error err;
    snprintf(place, sizeof place, "[::1]:%d", free_port());
    if (mesh_check(place, true, &err))
        SKIP("ipv6", "this machine has no ::1");
    expect_all_hear_all(place, "");
}

/* Neither heard nor answered, and those that have the key meet beside it. */
TEST(who_has_another_key_is_nobody) {
    static struct peer stranger, peers[2];
    uint8_t key[MESH_KEY_BYTES], other[MESH_KEY_BYTES];
    char place[64];
    struct error err;
    mesh_key_new(key);
    mesh_key_new(other);
    EXPECT(memcmp(key, other, sizeof key) != 0);
    snprintf(place, sizeof place, "127.0.0.1:%d", free_port());
    EXPECT_EQ(open_peer(&peers[0], 0, 2, key, place, NULL, &err), 0);
    EXPECT_EQ(open_peer(&stranger, 1, 2, other, place, NULL, &err), 0);
    struct peer pair[2] = {peers[0], stranger};
    EXPECT(!meet_all(pair, 2, 300));
    EXPECT_EQ(open_peer(&peers[1], 1, 2, key, place, NULL, &err), 0);
    EXPECT(meet_all(peers, 2, WAIT_MS));
    EXPECT_EQ(mesh_form(stranger.mesh, 1), 0);
    mesh_close(&stranger.mesh);
    for (int i = 0; i < 2; i++)
        mesh_close(&peers[i].mesh);
}

/* What member 0 says in the end, when member 1 has a greeting of so many bytes. */
static int meet_with_greeting(size_t bytes) {
    static struct peer first, other;
    static char greeting[64];
    uint8_t key[MESH_KEY_BYTES];
    char place[64];
    struct error err;
    mesh_key_new(key);
    snprintf(place, sizeof place, "127.0.0.1:%d", free_port());
    other = (struct peer){.self = 1};
    struct mesh_config config = {.self = 1,
                                 .count = 2,
                                 .key = key,
                                 .rendezvous = place,
                                 .greeting = greeting,
                                 .greeting_bytes = bytes,
                                 .on_frame = on_frame,
                                 .ctx = &other};
    if (open_peer(&first, 0, 2, key, place, NULL, &err) || mesh_open(&other.mesh, &config, &err))
        return 2;
    int rc = 0;
    for (int64_t end = clock_ms() + WAIT_MS; !rc && clock_ms() < end;) {
        rc = mesh_form(first.mesh, 1);
        (void)!mesh_form(other.mesh, 1);
    }
    mesh_close(&other.mesh);
    mesh_close(&first.mesh);
    return rc;
}

/* Another program, or another version: its card has another length. */
TEST(cards_of_another_length_are_refused) {
    EXPECT_EQ(meet_with_greeting(sizeof((struct peer *)NULL)->greeting), 1);
    EXPECT_EQ(meet_with_greeting(sizeof((struct peer *)NULL)->greeting + 1), ERR_INVALID);
    EXPECT_EQ(meet_with_greeting(sizeof((struct peer *)NULL)->greeting - 1), ERR_INVALID);
}

TEST(places_that_are_none_are_refused) {
    static const char *const NO_MEETING[] = {"",           "host",      "host:",      "host:0",
                                             "host:65536", "host:12x",  ":7000",      "[::1]",
                                             "[::1:7000",  "[]:7000",   "::1",        "[::1]7000",
                                             "host:-1",    "host: 700", "[::1]:70000"};
    struct error err;
    for (size_t i = 0; i < ARRAY_LEN(NO_MEETING); i++) {
        EXPECT_EQ(mesh_check(NO_MEETING[i], true, &err), ERR_INVALID);
        EXPECT(strstr(err.text, "HOST:PORT"));
    }
    EXPECT_EQ(mesh_check("host:x", false, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "HOST or HOST:PORT"));
    EXPECT_EQ(mesh_check("127.0.0.1", false, &err), 0);
    /* TEST-NET-1: nobody's */
    EXPECT_EQ(mesh_check("192.0.2.1:7000", true, &err), ERR_IO);
    EXPECT(strstr(err.text, "cannot listen at '192.0.2.1:7000'"));
}
