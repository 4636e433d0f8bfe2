/*
 * link_client.c - everyone else's end: one DEALER for each registration, Hello until Welcome,
 * heartbeats, and the signs that the scheduler is lost.
 *
 * Two states, CONNECTING and REGISTERED. open_connection enters the first, accept_welcome the
 * second, disconnect leaves it; nothing else moves the state.
 */
#include <stdio.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "proto/link_guard.h"
#include "proto/liveness.h"

/* TURN_MS: an address of several has so long, then the next one is asked. UNANSWERED_MS: who refuses us
 * does it at once; after half of the time that a handshake has (link_socket.c) nobody was there to. */
enum {
    GIVE_UP_MS = 5000,
    REFUSED_MS = 1000,
    CLOSE_LINGER_MS = 200,
    TURN_MS = 600,
    UNANSWERED_MS = 2500
};
enum { ENDPOINTS_MAX = 8 };
enum client_state { CLIENT_CONNECTING, CLIENT_REGISTERED };

struct link_client {
    /* owned; both anew for each connection, both NULL when none could be made */
    void *context, *socket, *monitor;
    struct link_wait wait;
    struct link_client_calls calls;
    void *ctx;
    char *key_file, *allow_keys;           /* owned */
    char *endpoints[ENDPOINTS_MAX];        /* owned */
    uint32_t endpoint_count, endpoint_idx; /* the one that is connected, or tried */
    /* of each endpoint: how often it refused us; another of the schedulers' keys is tried then */
    uint64_t refusals[ENDPOINTS_MAX];
    enum wire_role role;
    struct u128 instance;
    uint32_t incarnation;
    uint64_t connection_count;
    struct epoch epoch; /* highest met */
    enum client_state state;
    bool disconnected, refused; /* told by the monitor, not yet acted on */
    bool unanswered;            /* refused: no, the handshake came to no end */
    bool hello_filled, hello_sent;
    int64_t hello_ms, opened_ms, connected_ms, refused_ms;
    struct buf hello, scratch;
    struct liveness liveness;
    struct liveness_peer server;
    struct link_frames *frames;
    struct arena arena;
    struct link_stats stats;
    bool dispatching;
};

const char *link_lost_text(enum link_lost why) {
    static const char *const TEXTS[] = {
        [LINK_LOST_CLOSED] = "its connection closed",
        [LINK_LOST_SILENT] = "it is silent",
        [LINK_LOST_UNKNOWN] = "it asked for a new registration",
        [LINK_LOST_NEW_EPOCH] = "another scheduler took over",
        [LINK_LOST_RENEW] = "we register anew",
    };
    return why >= LINK_LOST_CLOSED && why <= LINK_LOST_RENEW ? TEXTS[why] : "unknown";
}

/* ---- The connection ---- */

static const char *endpoint_of(const struct link_client *c) {
    return c->endpoints[c->endpoint_idx];
}

static void close_connection(struct link_client *c) {
    if (c->monitor) {
        zmq_socket_monitor(c->socket, NULL, 0);
        link_wait_unwatch(&c->wait, c->monitor);
        zmq_close(c->monitor);
    }
    if (c->socket) {
        link_wait_unwatch(&c->wait, c->socket);
        zmq_close(c->socket);
    }
    c->socket = c->monitor = NULL;
}

/* The monitor tells at once when the connection ends; heartbeats tell what it does not. */
static int open_monitor(struct link_client *c, struct error *err) {
    char address[64];
    snprintf(address, sizeof address, "inproc://monitor-%llu",
             (unsigned long long)c->connection_count);
    if (!(c->monitor = link_monitor_new(c->context, c->socket, address, err)))
        return ERR_IO;
    return link_wait_watch(&c->wait, c->monitor, err);
}

/* A new socket with a new routing id: what waits for the old one dies with it. */
static int open_connection(struct link_client *c, struct error *err) {
    close_connection(c);
    if (!(c->socket = link_socket_new(c->context, ZMQ_DEALER, err)))
        return ERR_IO;
    struct routing_id id = routing_id_make(c->role, c->instance, ++c->connection_count);
    CHECK(zmq_setsockopt(c->socket, ZMQ_ROUTING_ID, id.bytes, ROUTING_BYTES) == 0);
    int rc = link_wait_watch(&c->wait, c->socket, err);
    if (!rc)
        rc = link_guard_prove(c->socket, endpoint_of(c), c->role, c->key_file, c->allow_keys,
                              c->refusals[c->endpoint_idx], err);
    if (!rc)
        rc = open_monitor(c, err);
    if (rc)
        return rc;
    if (zmq_connect(c->socket, endpoint_of(c)) != 0)
        return error_set(err, ERR_IO, "cannot connect to '%s': %s", endpoint_of(c),
                         zmq_strerror(zmq_errno()));
    c->state = CLIENT_CONNECTING;
    c->disconnected = c->refused = c->unanswered = c->hello_sent = false;
    c->opened_ms = c->connected_ms = clock_ms();
    link_wait_set_tick(&c->wait, LINK_HELLO_MS);
    link_wait_kick(&c->wait);
    return 0;
}

/* Out of descriptors, say: the next tick tries again. */
static void reopen(struct link_client *c) {
    struct error err;
    c->refusals[c->endpoint_idx] += c->refused;
    c->refused = false;
    c->endpoint_idx = (c->endpoint_idx + 1) % c->endpoint_count;
    if (open_connection(c, &err) == 0)
        return;
    LOG_LIMITED(LOG_ERROR, "no connection to the scheduler: %s", err.text);
    close_connection(c);
    c->state = CLIENT_CONNECTING;
}

static void disconnect(struct link_client *c, enum link_lost why) {
    bool was_registered = c->state == CLIENT_REGISTERED;
    c->hello_filled = false;
    reopen(c);
    if (was_registered && c->calls.lost)
        c->calls.lost(c->ctx, why);
}

static void drain_monitor(struct link_client *c) {
    enum link_event event;
    while (link_monitor_take(c->monitor, &event)) {
        c->disconnected |= event == LINK_EVENT_DISCONNECTED;
        if (event == LINK_EVENT_CONNECTED)
            c->connected_ms = clock_ms();
        if (event != LINK_EVENT_REFUSED)
            continue;
        c->refused = true;
        c->unanswered = clock_ms() - c->connected_ms > UNANSWERED_MS;
        if (!c->unanswered)
            c->refused_ms = clock_ms();
    }
}

/* ---- Sending ---- */

static int send_frame(struct link_client *c, enum wire_kind kind, struct bytes payload) {
    int rc = link_socket_send(c->socket, NULL, kind, c->epoch, payload, &c->stats);
    if (!c->dispatching && link_socket_has_input(c->socket))
        link_wait_kick(&c->wait);
    return rc;
}

static void talk(struct link_client *c, enum wire_kind kind) {
    int64_t now = clock_ms();
    if (liveness_is_sign(kind))
        return;
    liveness_talk(&c->server, now);
    if (c->liveness.slow)
        link_wait_set_tick(&c->wait, liveness_set_slow(&c->liveness, false));
}

int link_client_send(struct link_client *c, enum wire_kind kind, struct bytes payload) {
    if (c->state == CLIENT_REGISTERED)
        talk(c, kind);
    return c->state == CLIENT_REGISTERED ? send_frame(c, kind, payload) : ERR_CLOSED;
}

static void fill_hello(struct link_client *c) {
    struct wire_hello hello = {
        .role = c->role,
        .instance = c->instance,
        .pid = (uint32_t)getpid(),
        .features = WIRE_FEATURE_BASE | WIRE_FEATURE_QUIET,
        .version = bytes_str(TRIREME_VERSION),
        .epoch_number = c->epoch.number,
        .epoch_instance = c->epoch.instance,
        .incarnation = ++c->incarnation,
    };
    if (c->calls.hello)
        c->calls.hello(c->ctx, &hello);
    buf_reset(&c->hello);
    message_pack_hello(&hello, &c->hello);
    CHECK(!c->hello.failed);
    c->hello_filled = true;
}

static bool has_room(void *socket) {
    int events = 0;
    size_t len = sizeof events;
    return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &len) == 0 && (events & ZMQ_POLLOUT);
}

/* As soon as the connection is up, then every LINK_HELLO_MS until Welcome. */
static void send_hello(struct link_client *c, int64_t now) {
    if (c->state != CLIENT_CONNECTING || (c->hello_sent && now - c->hello_ms < LINK_HELLO_MS))
        return;
    if (!c->hello_filled)
        fill_hello(c);
    if (c->state != CLIENT_CONNECTING || !c->socket || !has_room(c->socket))
        return;
    if (send_frame(c, WIRE_HELLO, buf_bytes(&c->hello)) != 0)
        return;
    c->hello_sent = true;
    c->hello_ms = now;
}

static void send_heartbeat(struct link_client *c) {
    struct wire_heartbeat heartbeat = {.state = WIRE_STATE_IDLE};
    int64_t now = clock_ms();
    if (c->calls.heartbeat)
        c->calls.heartbeat(c->ctx, &heartbeat);
    c->server.idle = heartbeat.state == WIRE_STATE_IDLE; /* the quiet is ours as well */
    bool due = liveness_is_due(&c->liveness, &c->server, now);
    if (c->server.quiet != c->liveness.slow)
        link_wait_set_tick(&c->wait, liveness_set_slow(&c->liveness, c->server.quiet));
    if (!due)
        return;
    c->server.told_ms = now;
    buf_reset(&c->scratch);
    message_pack_heartbeat(&heartbeat, &c->scratch);
    (void)!send_frame(c, WIRE_HEARTBEAT, buf_bytes(&c->scratch));
}

/* ---- Receiving ---- */

static void accept_welcome(struct link_client *c, const struct frame *frame, struct bytes payload) {
    struct wire_welcome welcome;
    arena_reset(&c->arena);
    if (message_unpack_welcome(payload, &c->arena, &welcome, NULL) != 0) {
        c->stats.bad_frames++;
        return;
    }
    c->epoch = frame->epoch;
    c->state = CLIENT_REGISTERED;
    c->stats.registrations++;
    liveness_init(&c->liveness, welcome.heartbeat_ms, welcome.silence_ms, clock_ms());
    c->server = (struct liveness_peer){.knows_quiet = welcome.features & WIRE_FEATURE_QUIET,
                                       .talk_ms = clock_ms()};
    liveness_hear(&c->server, clock_ms());
    link_wait_set_tick(&c->wait, welcome.heartbeat_ms);
    if (c->calls.registered)
        c->calls.registered(c->ctx, c->epoch, &welcome);
}

static void handle_frame(struct link_client *c, const struct frame *frame, struct bytes payload) {
    int order = epoch_compare(frame->epoch, c->epoch);
    bool registered = c->state == CLIENT_REGISTERED;
    if (order < 0 || (!registered && frame->kind != WIRE_WELCOME)) {
        c->stats.stale_frames++;
        return;
    }
    if (!registered) {
        accept_welcome(c, frame, payload);
        return;
    }
    if (order > 0) {
        c->epoch = frame->epoch;
        disconnect(c, LINK_LOST_NEW_EPOCH);
        return;
    }
    liveness_hear(&c->server, clock_ms());
    talk(c, (enum wire_kind)frame->kind);
    if (frame->kind == WIRE_BLOCKS_LOST)
        disconnect(c, LINK_LOST_UNKNOWN);
    else if (frame->kind != WIRE_WELCOME && frame->kind != WIRE_HEARTBEAT &&
             message_size(frame->kind))
        c->calls.frame(c->ctx, (enum wire_kind)frame->kind, payload);
}

static void receive_frames(struct link_client *c) {
    const struct link_frames *p = c->frames;
    struct frame frame;
    if (p->count != 2 || frame_read(p->frame[0], p->frame[1], &frame) != 0) {
        c->stats.bad_frames++;
        return;
    }
    c->stats.received_frames++;
    c->stats.received_bytes += p->frame[1].len;
    handle_frame(c, &frame, p->frame[1]);
}

/* True when nothing is left. A callback may change the socket. */
static bool drain(struct link_client *c) {
    for (int i = 0; i < DISPATCH_FRAMES_MAX; i++) {
        if (!c->socket || !link_socket_receive(c->socket, c->frames))
            return true;
        receive_frames(c);
        link_frames_release(c->frames);
    }
    return false;
}

static void act_on_disconnect(struct link_client *c) {
    c->disconnected = false;
    if (c->state == CLIENT_REGISTERED)
        disconnect(c, LINK_LOST_CLOSED);
    else
        c->hello_sent = false;
}

static void tick(struct link_client *c, int64_t now, bool drained) {
    if (c->state == CLIENT_CONNECTING) {
        if (c->refused && c->unanswered)
            LOG_LIMITED(LOG_ERROR, "the scheduler at '%s' does not answer", endpoint_of(c));
        else if (c->refused)
            LOG_LIMITED(LOG_ERROR,
                        "the scheduler at '%s' refuses us, or is not who we expect: see that the "
                        "keys of both are in the other's --allow-keys",
                        endpoint_of(c));
        /* Connected, yet nobody answers: the connection may be half open. Refused: ZeroMQ itself
         * tries no more; the keys may be others by now. */
        if ((c->hello_sent && now - c->opened_ms > GIVE_UP_MS) ||
            (c->endpoint_count > 1 && now - c->opened_ms > TURN_MS) ||
            (c->refused && now - c->opened_ms > REFUSED_MS))
            reopen(c);
        return;
    }
    bool fair = liveness_tick(&c->liveness, now);
    if (fair && drained && liveness_is_dead(&c->liveness, &c->server))
        disconnect(c, LINK_LOST_SILENT);
    else
        send_heartbeat(c);
}

void link_client_dispatch(struct link_client *c) {
    bool ticked = link_wait_clear(&c->wait);
    if (!c->socket && ticked)
        reopen(c);
    if (!c->socket)
        return;
    c->dispatching = true;
    drain_monitor(c);
    bool drained = drain(c);
    if (c->disconnected && drained)
        act_on_disconnect(c);
    if (ticked)
        tick(c, clock_ms(), drained);
    send_hello(c, clock_ms());
    c->dispatching = false;
    if (c->socket && (link_socket_has_input(c->socket) || link_socket_has_input(c->monitor)))
        link_wait_kick(&c->wait);
}

void link_client_wait(struct link_client *c, const int *fds, bool *ready, size_t fd_count,
                      int64_t timeout_ms) {
    link_wait_poll(&c->wait, fds, ready, fd_count, timeout_ms);
    link_client_dispatch(c);
}

/* While no Hello has gone out nobody knows of the old state, and the connection being made will do: the
 * scheduler would take hanging up before we are proven for a peer that was refused. */
void link_client_renew(struct link_client *c) {
    if (c->state == CLIENT_CONNECTING && c->socket && !c->hello_sent)
        c->hello_filled = false;
    else
        disconnect(c, LINK_LOST_RENEW);
}

/* ---- Life ---- */

static void take_endpoints(struct link_client *c, const char *list) {
    char *all = mem_strdup(list), *rest = all, *one;
    while ((one = strsep(&rest, ",")) && c->endpoint_count < ENDPOINTS_MAX)
        c->endpoints[c->endpoint_count++] = mem_strdup(one);
    mem_free(all);
}

int link_client_new(struct link_client **out, const struct link_client_config *config,
                    const struct link_client_calls *calls, void *ctx, struct error *err) {
    *out = NULL;
    int rc = link_endpoints_check(config->endpoint, err);
    if (rc)
        return rc;
    struct link_client *c = mem_alloc(sizeof *c);
    c->wait = (struct link_wait){-1, -1, -1};
    c->calls = *calls;
    c->ctx = ctx;
    take_endpoints(c, config->endpoint);
    c->key_file = config->key_file ? mem_strdup(config->key_file) : NULL;
    c->allow_keys = config->allow_keys ? mem_strdup(config->allow_keys) : NULL;
    c->role = config->role;
    c->instance = u128_is_zero(config->instance) ? random_u128() : config->instance;
    c->frames = link_frames_new();
    c->context = zmq_ctx_new();
    CHECK(c->context && calls->frame);
    rc = link_wait_init(&c->wait, LINK_HELLO_MS, err);
    if (!rc)
        rc = open_connection(c, err);
    if (rc == ERR_AGAIN) { /* where the socket will be: the next tick looks again */
        close_connection(c);
        rc = 0;
    }
    *out = c;
    if (rc)
        link_client_free(out);
    return rc;
}

void link_client_free(struct link_client **client) {
    struct link_client *c = *client;
    if (!c)
        return;
    int linger = c->state == CLIENT_REGISTERED ? CLOSE_LINGER_MS : 0;
    if (c->socket)
        zmq_setsockopt(c->socket, ZMQ_LINGER, &linger, sizeof linger);
    close_connection(c);
    zmq_ctx_term(c->context);
    link_wait_release(&c->wait);
    link_frames_free(&c->frames);
    arena_release(&c->arena);
    buf_release(&c->hello);
    buf_release(&c->scratch);
    for (uint32_t i = 0; i < c->endpoint_count; i++)
        mem_free(c->endpoints[i]);
    mem_free(c->key_file);
    mem_free(c->allow_keys);
    mem_free(c);
    *client = NULL;
}

/* ---- Looking in ---- */

bool link_client_is_registered(const struct link_client *c) {
    return c->state == CLIENT_REGISTERED;
}
int64_t link_client_refused_ms(const struct link_client *c) {
    return c->refused_ms;
}
struct epoch link_client_epoch(const struct link_client *c) {
    return c->epoch;
}
struct u128 link_client_instance(const struct link_client *c) {
    return c->instance;
}
uint32_t link_client_incarnation(const struct link_client *c) {
    return c->incarnation;
}
const struct link_stats *link_client_stats(const struct link_client *c) {
    return &c->stats;
}
