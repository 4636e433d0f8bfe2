/*
 * link_server.c - the scheduler's end: one ROUTER, a table of peers by instance, heartbeats to all
 * of them, and the judgement of silence.
 */
#include <stdio.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "proto/link_guard.h"
#include "proto/liveness.h"

enum {
    PEERS_DEFAULT = 4096,
    BUCKETS = 1024,
    ENDPOINTS_MAX = 8,
    ADDRESS_MAX = 256,
    NONE = UINT32_MAX
};

struct peer {
    struct u128 instance; /* zero: this place is free */
    enum wire_role role;
    char user[LINK_USER_MAX]; /* whose Hello it was, by link_guard.h */
    struct routing_id routing;
    uint32_t incarnation;
    bool welcomed; /* else nothing but Hello is taken from it, and nothing sent */
    struct liveness_peer live;
    uint32_t next; /* in its bucket, or of the free places */
};

struct link_server {
    void *context, *socket; /* owned */
    struct link_guard guard;
    struct link_wait wait;
    struct link_server_calls calls;
    void *ctx;
    struct epoch epoch;
    struct liveness liveness;
    /* owned; places never move */
    struct peer *peers;
    /* peer_end: none was ever at or behind it */
    uint32_t peer_cap, peer_count, peer_end, free_place, buckets[BUCKETS];
    struct link_frames *frames;
    struct arena arena; /* for Hello */
    struct buf scratch;
    struct link_stats stats;
    bool dispatching;
    char addresses[ENDPOINTS_MAX][ADDRESS_MAX];
    size_t address_count;
};

/* ---- The table of peers ---- */

static uint32_t *bucket_of(struct link_server *s, struct u128 instance) {
    return &s->buckets[(instance.lo ^ instance.hi) % BUCKETS];
}

static struct peer *peer_find(const struct link_server *s, struct u128 instance) {
    uint32_t place = *bucket_of((struct link_server *)(uintptr_t)s, instance);
    while (place != NONE && !u128_equal(s->peers[place].instance, instance))
        place = s->peers[place].next;
    return place == NONE ? NULL : &s->peers[place];
}

/* NULL: the table is full. */
static struct peer *peer_make(struct link_server *s, struct u128 instance, enum wire_role role) {
    uint32_t place = s->free_place, *bucket = bucket_of(s, instance);
    if (place == NONE)
        return NULL;
    s->free_place = s->peers[place].next;
    s->peer_end = MAX(s->peer_end, place + 1);
    s->peers[place] = (struct peer){.instance = instance, .role = role, .next = *bucket};
    *bucket = place;
    s->peer_count++;
    return &s->peers[place];
}

static void peer_forget(struct link_server *s, struct peer *peer) {
    uint32_t place = (uint32_t)(peer - s->peers), *at = bucket_of(s, peer->instance);
    while (*at != place)
        at = &s->peers[*at].next;
    *at = peer->next;
    *peer = (struct peer){.next = s->free_place};
    s->free_place = place;
    s->peer_count--;
}

static void peers_init(struct link_server *s, size_t cap) {
    s->peer_cap = (uint32_t)cap;
    s->peers = mem_calloc(cap, sizeof *s->peers);
    for (uint32_t i = 0; i < s->peer_cap; i++)
        s->peers[i].next = i + 1 < s->peer_cap ? i + 1 : NONE;
    for (size_t i = 0; i < BUCKETS; i++)
        s->buckets[i] = NONE;
}

/* ---- Sending ---- */

static int send_to(struct link_server *s, const struct routing_id *to, enum wire_kind kind,
                   struct bytes payload) {
    int rc = link_socket_send(s->socket, to, kind, s->epoch, payload, &s->stats);
    /* The call may have swallowed ZeroMQ's signal for frames that wait. */
    if (!s->dispatching && link_socket_has_input(s->socket))
        link_wait_kick(&s->wait);
    return rc;
}

static void talk(struct link_server *s, struct peer *peer, enum wire_kind kind) {
    int64_t now = clock_ms();
    if (liveness_is_sign(kind))
        return;
    liveness_talk(&peer->live, now);
    if (s->liveness.slow)
        link_wait_set_tick(&s->wait, liveness_set_slow(&s->liveness, false));
}

int link_server_send(struct link_server *s, struct u128 instance, enum wire_kind kind,
                     struct bytes payload) {
    struct peer *peer = peer_find(s, instance);
    if (!peer || !peer->welcomed)
        return ERR_CLOSED;
    talk(s, peer, kind);
    peer->live.told_ms = clock_ms();
    return send_to(s, &peer->routing, kind, payload);
}

static void send_heartbeats(struct link_server *s) {
    struct wire_heartbeat heartbeat = {.state = WIRE_STATE_IDLE};
    if (s->calls.heartbeat)
        s->calls.heartbeat(s->ctx, &heartbeat);
    buf_reset(&s->scratch);
    message_pack_heartbeat(&heartbeat, &s->scratch);
    int64_t now = clock_ms();
    bool all_quiet = heartbeat.state == WIRE_STATE_IDLE;
    for (uint32_t i = 0; i < s->peer_end; i++) {
        struct peer *peer = &s->peers[i];
        if (u128_is_zero(peer->instance))
            continue;
        bool due = liveness_is_due(&s->liveness, &peer->live, now);
        all_quiet = all_quiet && peer->live.quiet;
        if (!peer->welcomed || !due)
            continue;
        (void)!send_to(s, &peer->routing, WIRE_HEARTBEAT, buf_bytes(&s->scratch));
        peer->live.told_ms = now;
    }
    if (all_quiet != s->liveness.slow)
        link_wait_set_tick(&s->wait, liveness_set_slow(&s->liveness, all_quiet));
}

static void ask_to_register(struct link_server *s, struct bytes routing) {
    struct routing_id id;
    memcpy(id.bytes, routing.data, ROUTING_BYTES);
    s->stats.stale_frames++;
    (void)!send_to(s, &id, WIRE_BLOCKS_LOST, (struct bytes){0});
}

/* ---- Receiving ---- */

static void welcome(struct link_server *s, struct u128 instance,
                    const struct wire_welcome *message) {
    struct peer *peer = peer_find(s, instance); /* the callback may have dropped it */
    if (!peer)
        return;
    buf_reset(&s->scratch);
    message_pack_welcome(message, &s->scratch);
    peer->welcomed = send_to(s, &peer->routing, WIRE_WELCOME, buf_bytes(&s->scratch)) == 0;
}

static void accept_hello(struct link_server *s, struct bytes routing, const char *user,
                         const struct wire_hello *hello) {
    struct peer *peer = peer_find(s, hello->instance);
    /* of a connection before the one we have */
    if (peer && hello->incarnation < peer->incarnation)
        return;
    bool is_new = !peer;
    if (is_new && !(peer = peer_make(s, hello->instance, hello->role)))
        return;
    if (is_new || hello->incarnation > peer->incarnation)
        s->stats.registrations++;
    memcpy(peer->routing.bytes, routing.data, ROUTING_BYTES);
    snprintf(peer->user, sizeof peer->user, "%s", user);
    peer->incarnation = hello->incarnation;
    peer->welcomed = false;
    liveness_hear(&peer->live, clock_ms());
    peer->live.knows_quiet = hello->features & WIRE_FEATURE_QUIET;
    peer->live.idle = hello->state == WIRE_STATE_IDLE;
    talk(s, peer, WIRE_HELLO);
    struct wire_welcome message = {.heartbeat_ms = (uint32_t)s->liveness.heartbeat_ms,
                                   .silence_ms = (uint32_t)s->liveness.silence_ms,
                                   .features = WIRE_FEATURE_BASE | WIRE_FEATURE_RELEASE |
                                               WIRE_FEATURE_QUIET};
    if (s->calls.hello(s->ctx, hello->instance, hello, &message))
        welcome(s, hello->instance, &message);
    else
        link_server_drop(s, hello->instance);
}

/* Everybody has to register anew; who does not comes to be silent. */
static void unwelcome_all(struct link_server *s) {
    for (uint32_t i = 0; i < s->peer_end; i++)
        s->peers[i].welcomed = false;
}

/* False: drop the frame. */
static bool check_frame(struct link_server *s, const struct frame *frame,
                        const struct wire_hello *hello, bool served) {
    struct epoch before = s->epoch;
    enum link_verdict verdict = s->calls.check_epoch(s->ctx, &s->epoch, frame, hello, served);
    if (epoch_compare(before, s->epoch) != 0)
        unwelcome_all(s);
    if (verdict == LINK_SUPERSEDED && s->calls.superseded)
        s->calls.superseded(s->ctx, frame->epoch);
    return verdict == LINK_TAKE;
}

static bool unpack_hello(struct link_server *s, enum wire_role role, struct u128 instance,
                         struct bytes payload, struct wire_hello *hello) {
    arena_reset(&s->arena);
    if (message_unpack_hello(payload, &s->arena, hello, NULL) == 0 && hello->role == role &&
        u128_equal(hello->instance, instance))
        return true;
    s->stats.bad_frames++;
    return false;
}

/* Whether the sender is one who may speak in this role, and as this instance. */
static bool is_proven(struct link_server *s, const struct peer *peer, const char *user,
                      enum wire_role role) {
    bool known = user && peer && peer->role == role && !strcmp(peer->user, user);
    if (known || (link_guard_allows(&s->guard, user, role) && (!peer || peer->role == role)))
        return true;
    s->stats.refused_frames++;
    LOG_LIMITED(LOG_WARN, "dropped what a peer said as a %s: its key is not for that",
                link_role_name(role));
    return false;
}

static void hear_heartbeat(struct link_server *s, struct peer *peer, struct bytes payload) {
    struct wire_heartbeat heartbeat;
    arena_reset(&s->arena);
    peer->live.idle = message_unpack_heartbeat(payload, &s->arena, &heartbeat, NULL) == 0 &&
                      heartbeat.state == WIRE_STATE_IDLE;
}

static void handle_frame(struct link_server *s, struct bytes routing, const struct frame *frame,
                         struct bytes payload, enum wire_role role, struct u128 instance) {
    struct wire_hello hello;
    bool is_hello = frame->kind == WIRE_HELLO;
    struct peer *peer = peer_find(s, instance);
    const char *user = link_frames_user(s->frames);
    if (!is_proven(s, peer, user, role))
        return;
    if (is_hello && !unpack_hello(s, role, instance, payload, &hello))
        return;
    bool good = check_frame(s, frame, is_hello ? &hello : NULL, peer && peer->welcomed);
    if (is_hello) {
        if (good)
            accept_hello(s, routing, user, &hello);
        return;
    }
    if (!good || !peer || !peer->welcomed ||
        memcmp(peer->routing.bytes, routing.data, ROUTING_BYTES) != 0) {
        ask_to_register(s, routing);
        return;
    }
    liveness_hear(&peer->live, clock_ms());
    talk(s, peer, (enum wire_kind)frame->kind);
    if (frame->kind == WIRE_HEARTBEAT)
        hear_heartbeat(s, peer, payload);
    if (message_size(frame->kind))
        s->calls.frame(s->ctx, instance, role, (enum wire_kind)frame->kind, payload);
}

static void receive_frames(struct link_server *s) {
    const struct link_frames *p = s->frames;
    enum wire_role role;
    struct u128 instance;
    struct frame frame;
    if (p->count != 3 || !routing_id_read(p->frame[0], &role, &instance) ||
        frame_read(p->frame[1], p->frame[2], &frame) != 0) {
        s->stats.bad_frames++;
        return;
    }
    s->stats.received_frames++;
    s->stats.received_bytes += p->frame[2].len;
    handle_frame(s, p->frame[0], &frame, p->frame[2], role, instance);
}

/* True when nothing is left. */
static bool drain(struct link_server *s) {
    for (int i = 0; i < DISPATCH_FRAMES_MAX; i++) {
        if (!link_socket_receive(s->socket, s->frames))
            return true;
        receive_frames(s);
        link_frames_release(s->frames);
    }
    return false;
}

static void forget_and_tell(struct link_server *s, struct peer *peer) {
    struct u128 instance = peer->instance;
    enum wire_role role = peer->role;
    peer_forget(s, peer);
    s->calls.gone(s->ctx, instance, role);
}

static void drop_silent_peers(struct link_server *s) {
    for (uint32_t i = 0; i < s->peer_end; i++) {
        struct peer *peer = &s->peers[i];
        if (!u128_is_zero(peer->instance) && liveness_is_dead(&s->liveness, &peer->live))
            forget_and_tell(s, peer);
    }
}

/* Those whose keys have left the list. */
static void drop_refused_peers(struct link_server *s) {
    for (uint32_t i = 0; i < s->peer_end; i++) {
        struct peer *peer = &s->peers[i];
        if (u128_is_zero(peer->instance) || link_guard_allows(&s->guard, peer->user, peer->role))
            continue;
        LOG_SOME(LOG_WARN, "a %s is heard no more: its key is not allowed now",
                 link_role_name(peer->role));
        forget_and_tell(s, peer);
    }
}

void link_server_dispatch(struct link_server *s) {
    s->dispatching = true;
    bool ticked = link_wait_clear(&s->wait);
    if (link_guard_dispatch(&s->guard, ticked))
        drop_refused_peers(s);
    s->stats.refused_peers = s->guard.refused_count;
    bool drained = drain(s);
    if (ticked) {
        bool fair = liveness_tick(&s->liveness, clock_ms());
        if (fair && drained)
            drop_silent_peers(s);
        send_heartbeats(s);
    }
    s->dispatching = false;
    if (link_socket_has_input(s->socket) || link_guard_has_input(&s->guard))
        link_wait_kick(&s->wait);
}

void link_server_wait(struct link_server *s, const int *fds, bool *ready, size_t fd_count,
                      int64_t timeout_ms) {
    link_wait_poll(&s->wait, fds, ready, fd_count, timeout_ms);
    link_server_dispatch(s);
}

/* ---- Life ---- */

static int bind_endpoint(struct link_server *s, const char *endpoint, struct error *err) {
    int rc = link_endpoint_prepare(endpoint, err);
    if (!rc)
        rc = link_guard_prepare(&s->guard, s->socket, endpoint, err);
    if (rc)
        return rc;
    if (s->address_count == ENDPOINTS_MAX)
        return error_set(err, ERR_LIMIT, "more than %d endpoints", ENDPOINTS_MAX);
    if (zmq_bind(s->socket, endpoint) != 0)
        return error_set(err, ERR_IO, "cannot listen on '%s': %s", endpoint,
                         zmq_strerror(zmq_errno()));
    size_t len = ADDRESS_MAX;
    CHECK(zmq_getsockopt(s->socket, ZMQ_LAST_ENDPOINT, s->addresses[s->address_count++], &len) ==
          0);
    return 0;
}

static int open_server(struct link_server *s, const struct link_server_config *config,
                       struct error *err) {
    int rc = link_wait_init(&s->wait, s->liveness.heartbeat_ms, err);
    if (rc)
        return rc;
    s->context = zmq_ctx_new();
    CHECK(s->context);
    rc = link_guard_init(&s->guard, s->context, config->key_file, config->allow_keys, err);
    if (rc)
        return rc;
    if (!(s->socket = link_socket_new(s->context, ZMQ_ROUTER, err)))
        return ERR_IO;
    if (!config->endpoint_count)
        return error_set(err, ERR_INVALID, "no endpoint to listen on");
    for (size_t i = 0; i < config->endpoint_count && !rc; i++)
        rc = bind_endpoint(s, config->endpoints[i], err);
    if (!rc)
        rc = link_guard_watch(&s->guard, s->context, s->socket, err);
    if (!rc)
        rc = link_wait_watch(&s->wait, s->guard.requests, err);
    if (!rc)
        rc = link_wait_watch(&s->wait, s->guard.monitor, err);
    return rc ? rc : link_wait_watch(&s->wait, s->socket, err);
}

int link_server_new(struct link_server **out, const struct link_server_config *config,
                    const struct link_server_calls *calls, void *ctx, struct error *err) {
    struct link_server *s = mem_alloc(sizeof *s);
    CHECK(calls->check_epoch && calls->hello && calls->frame && calls->gone);
    s->wait = (struct link_wait){-1, -1, -1};
    s->calls = *calls;
    s->ctx = ctx;
    s->epoch = config->epoch;
    liveness_init(&s->liveness, config->heartbeat_ms ? config->heartbeat_ms : LINK_HEARTBEAT_MS,
                  config->silence_ms ? config->silence_ms : LINK_SILENCE_MS, clock_ms());
    peers_init(s, config->peer_max ? config->peer_max : PEERS_DEFAULT);
    s->frames = link_frames_new();
    arena_init(&s->arena, 0, 0);
    buf_init(&s->scratch, 0);
    int rc = open_server(s, config, err);
    *out = s;
    if (rc)
        link_server_free(out);
    return rc;
}

void link_server_free(struct link_server **server) {
    struct link_server *s = *server;
    if (!s)
        return;
    if (s->socket) {
        if (s->wait.epoll_fd >= 0)
            link_wait_unwatch(&s->wait, s->socket);
        zmq_socket_monitor(s->socket, NULL, 0);
        zmq_close(s->socket);
    }
    link_guard_release(&s->guard);
    if (s->context)
        zmq_ctx_term(s->context);
    link_wait_release(&s->wait);
    link_frames_free(&s->frames);
    arena_release(&s->arena);
    buf_release(&s->scratch);
    mem_free(s->peers);
    mem_free(s);
    *server = NULL;
}

/* ---- Looking in ---- */

struct epoch link_server_epoch(const struct link_server *s) {
    return s->epoch;
}
size_t link_server_peer_count(const struct link_server *s) {
    return s->peer_count;
}
const struct link_stats *link_server_stats(const struct link_server *s) {
    return &s->stats;
}

void link_server_drop(struct link_server *s, struct u128 instance) {
    struct peer *peer = peer_find(s, instance);
    if (peer)
        peer_forget(s, peer);
}

enum wire_role link_server_role(const struct link_server *s, struct u128 instance) {
    const struct peer *peer = peer_find(s, instance);
    return peer ? peer->role : (enum wire_role)0;
}

const char *link_server_address(const struct link_server *s, size_t endpoint_idx) {
    return endpoint_idx < s->address_count ? s->addresses[endpoint_idx] : NULL;
}
