/*
 * link_peer.h - a scheduler's and a worker's end that keep count of what they see, for the tests of
 * link.h.
 */
#ifndef TESTS_UNIT_PROTO_LINK_PEER_H
#define TESTS_UNIT_PROTO_LINK_PEER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "proto/link.h"
#include "tcp_keys.h"

struct test_server {
    struct link_server *link;
    struct u128 peer; /* the latest that said Hello */
    int hellos, gone, superseded, frames, heartbeats;
    int early;         /* frames that went to a peer before its Welcome */
    uint64_t received; /* by echo */
    bool echo, refuse;
};

struct test_client {
    struct link_client *link;
    int hellos, registered, lost, frames;
    enum link_lost why;
    uint64_t next; /* number expected in the next Ack */
    bool in_order;
    int reply; /* send so many in each frame callback */
    struct buf buf;
};

static inline enum link_verdict test_judge(void *ctx, struct epoch *mine, const struct frame *frame,
                                           const struct wire_hello *hello, bool served) {
    if (hello && hello->epoch_number > mine->number)
        mine->number = hello->epoch_number + 1;
    if (hello)
        return LINK_TAKE;
    int order = epoch_compare(frame->epoch, *mine);
    return order < 0 ? LINK_STALE : order > 0 ? LINK_SUPERSEDED : LINK_TAKE;
}

static inline bool test_hello(void *ctx, struct u128 peer, const struct wire_hello *hello,
                              struct wire_welcome *welcome) {
    struct test_server *t = ctx;
    t->hellos++;
    t->peer = peer;
    t->early += link_server_send(t->link, peer, WIRE_DRAIN, (struct bytes){0}) == 0;
    return !t->refuse;
}

static inline void test_server_frame(void *ctx, struct u128 peer, enum wire_role role,
                                     enum wire_kind kind, struct bytes payload) {
    struct test_server *t = ctx;
    if (kind == WIRE_HEARTBEAT) {
        t->heartbeats++;
        return;
    }
    t->frames++;
    if (t->echo && link_server_send(t->link, peer, kind, payload) == 0)
        t->received++;
}

static inline void test_gone(void *ctx, struct u128 peer, enum wire_role role) {
    ((struct test_server *)ctx)->gone++;
}
static inline void test_superseded(void *ctx, struct epoch by) {
    ((struct test_server *)ctx)->superseded++;
}

static const struct link_server_calls TEST_SERVER_CALLS = {.check_epoch = test_judge,
                                                           .hello = test_hello,
                                                           .frame = test_server_frame,
                                                           .gone = test_gone,
                                                           .superseded = test_superseded};

static inline void test_client_hello(void *ctx, struct wire_hello *hello) {
    ((struct test_client *)ctx)->hellos++;
    hello->name = bytes_str("tester");
}
static inline void test_registered(void *ctx, struct epoch epoch,
                                   const struct wire_welcome *welcome) {
    ((struct test_client *)ctx)->registered++;
}
static inline void test_lost(void *ctx, enum link_lost why) {
    struct test_client *t = ctx;
    t->lost++;
    t->why = why;
}

/* The messages of these tests are Drains that carry a number. */
static inline int test_send_number(struct test_client *t, uint32_t number) {
    struct wire_drain message = {.deadline_ms = number};
    buf_reset(&t->buf);
    message_pack_drain(&message, &t->buf);
    return link_client_send(t->link, WIRE_DRAIN, buf_bytes(&t->buf));
}

static inline void test_client_frame(void *ctx, enum wire_kind kind, struct bytes payload) {
    struct test_client *t = ctx;
    struct arena arena;
    struct wire_drain message;
    t->frames++;
    if (kind != WIRE_DRAIN)
        return;
    arena_init(&arena, 0, 0);
    if (message_unpack_drain(payload, &arena, &message, NULL) != 0 ||
        message.deadline_ms != t->next++)
        t->in_order = false;
    arena_release(&arena);
}

static const struct link_client_calls TEST_CLIENT_CALLS = {.hello = test_client_hello,
                                                           .registered = test_registered,
                                                           .lost = test_lost,
                                                           .frame = test_client_frame};

/* keys: for tcp; else NULL */
static inline bool test_server_open_with(struct test_server *t, const char *endpoint,
                                         const struct tcp_keys *keys, uint64_t epoch,
                                         int64_t silence_ms) {
    struct link_server_config config = {.endpoints = &endpoint,
                                        .endpoint_count = 1,
                                        .epoch = {epoch, {epoch, 7}},
                                        .heartbeat_ms = 50,
                                        .silence_ms = silence_ms,
                                        .key_file = keys ? keys->files[WIRE_ROLE_SCHEDULER] : NULL,
                                        .allow_keys = keys ? keys->allow : NULL};
    struct error err;
    int rc = link_server_new(&t->link, &config, &TEST_SERVER_CALLS, t, &err);
    if (rc)
        printf("# %s\n", err.text);
    return rc == 0;
}

static inline bool test_server_open(struct test_server *t, const char *endpoint, uint64_t epoch,
                                    int64_t silence_ms) {
    return test_server_open_with(t, endpoint, NULL, epoch, silence_ms);
}

static inline bool test_client_open_with(struct test_client *t, const char *endpoint,
                                         const struct tcp_keys *keys, enum wire_role role) {
    struct link_client_config config = {.endpoint = endpoint,
                                        .role = role,
                                        .key_file = keys ? keys->files[role] : NULL,
                                        .allow_keys = keys ? keys->allow : NULL};
    struct error err;
    t->in_order = true;
    int rc = link_client_new(&t->link, &config, &TEST_CLIENT_CALLS, t, &err);
    if (rc)
        printf("# %s\n", err.text);
    return rc == 0;
}

static inline bool test_client_open(struct test_client *t, const char *endpoint,
                                    enum wire_role role) {
    return test_client_open_with(t, endpoint, NULL, role);
}

static inline void test_close(struct test_server *s, struct test_client *c) {
    if (c) {
        link_client_free(&c->link);
        buf_release(&c->buf);
    }
    if (s)
        link_server_free(&s->link);
}

/* Turns the ends that are not NULL once. */
static inline void test_turn(struct test_server *s, struct test_client *c) {
    if (s)
        link_server_wait(s->link, NULL, NULL, 0, 2);
    if (c)
        link_client_wait(c->link, NULL, NULL, 0, 2);
}

/* Turns until cond holds or ms passed. */
#define TURN_UNTIL(s, c, ms, cond)                                                                 \
    do {                                                                                           \
        int64_t end_ = clock_ms() + (ms);                                                          \
        while (!(cond) && clock_ms() < end_)                                                       \
            test_turn(s, c);                                                                       \
    } while (0)

/* "ipc://<fresh folder, 0700>/s"; static buffer. */
static inline const char *test_endpoint(void) {
    static char endpoint[64];
    char folder[] = "/tmp/trmXXXXXX";
    if (!mkdtemp(folder))
        return NULL;
    snprintf(endpoint, sizeof endpoint, "ipc://%s/s", folder);
    return endpoint;
}
/* Removes what test_endpoint made. */
static inline void test_endpoint_remove(const char *endpoint) {
    char path[64];
    snprintf(path, sizeof path, "%s", endpoint + strlen("ipc://"));
    unlink(path);
    *strrchr(path, '/') = 0;
    rmdir(path);
}

#endif
