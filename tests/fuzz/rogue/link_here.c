#include "rogue/link_here.h"

#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/vec.h"

enum { PEERS = 16, START_MS = 1000 };

struct packet {
    struct u128 from;
    enum wire_role role;
    enum wire_kind kind;
    struct epoch epoch;
    struct buf payload;
};
struct queue_here {
    VEC(struct packet) packets;
};

struct link_client {
    struct link_client_calls calls;
    void *ctx;
    enum wire_role role;
    struct u128 instance;
    uint32_t incarnation;
    struct epoch epoch;
    bool registered;
    int64_t hello_ms, beat_ms; /* when the next one is due */
    struct queue_here inbox;
    struct arena arena;
    struct link_stats stats;
};

struct link_server {
    struct link_server_calls calls;
    void *ctx;
    struct epoch epoch;
    int64_t heartbeat_ms, silence_ms, tick_ms;
    struct {
        struct u128 instance; /* zero: this place is free */
        enum wire_role role;
        uint32_t incarnation;
        bool welcomed;
        int64_t heard_ms;
    } peers[PEERS];
    struct queue_here inbox;
    struct arena arena;
    struct buf out;
    struct link_stats stats;
};

static int64_t now_ms = START_MS;
static uint64_t random_state;
static struct link_server *server;
static struct link_client *clients[PEERS];
static void (*listener)(void *ctx, struct u128 peer, enum wire_kind kind, struct bytes payload);
static void *listener_ctx;

/* ---- Time and chance ---- */

void link_here_reset(void) {
    now_ms = START_MS;
    random_state = 1;
}
void link_here_pass(int64_t ms) {
    now_ms += MAX(ms, (int64_t)0);
}

int64_t clock_ns(void) {
    return now_ms * 1000000;
}
int64_t clock_us(void) {
    return now_ms * 1000;
}
int64_t clock_ms(void) {
    return now_ms;
}
int64_t clock_boot_ms(void) {
    return now_ms;
}
int64_t wall_ms(void) {
    return now_ms;
}
void sleep_ms(int64_t ms) {
    link_here_pass(ms);
}

ssize_t getrandom(void *out, size_t len, unsigned flags) {
    for (size_t i = 0; i < len; i++) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        ((uint8_t *)out)[i] = (uint8_t)(random_state >> 56);
    }
    return (ssize_t)len;
}

/* ---- Queues ---- */

static void queue_add(struct queue_here *q, struct packet packet, struct bytes payload) {
    packet.payload = (struct buf){0};
    buf_add_bytes(&packet.payload, payload);
    vec_push(&q->packets, packet);
}

/* The packets of a queue, which is empty then. */
static struct queue_here queue_take(struct queue_here *q) {
    struct queue_here all = *q;
    *q = (struct queue_here){0};
    return all;
}

static void queue_release(struct queue_here *q) {
    for (size_t i = 0; i < q->packets.count; i++)
        buf_release(&q->packets.items[i].payload);
    vec_release(&q->packets);
}

static struct link_client *client_of(struct u128 instance) {
    for (int i = 0; i < PEERS; i++)
        if (clients[i] && u128_equal(clients[i]->instance, instance))
            return clients[i];
    return NULL;
}

void link_here_say(struct u128 instance, enum wire_role role, enum wire_kind kind,
                   struct epoch epoch, struct bytes payload) {
    if (server)
        queue_add(&server->inbox, (struct packet){instance, role, kind, epoch, {0}}, payload);
}

void link_here_listen(void (*hear)(void *ctx, struct u128 peer, enum wire_kind kind,
                                   struct bytes payload),
                      void *ctx) {
    listener = hear;
    listener_ctx = ctx;
}

/* ---- The scheduler's end ---- */

static int peer_idx(const struct link_server *s, struct u128 instance) {
    for (int i = 0; i < PEERS; i++)
        if (u128_equal(s->peers[i].instance, instance))
            return i;
    return -1;
}

static void tell(struct link_server *s, struct u128 instance, enum wire_kind kind,
                 struct bytes payload) {
    struct link_client *c = client_of(instance);
    if (c)
        queue_add(&c->inbox, (struct packet){.kind = kind, .epoch = s->epoch}, payload);
    else if (listener)
        listener(listener_ctx, instance, kind, payload);
}

static void take_hello(struct link_server *s, const struct wire_hello *hello) {
    int i = peer_idx(s, hello->instance);
    if (i >= 0 && hello->incarnation < s->peers[i].incarnation)
        return;
    if (i < 0 && (i = peer_idx(s, (struct u128){0})) < 0)
        return;
    s->peers[i].instance = hello->instance;
    s->peers[i].role = hello->role;
    s->peers[i].incarnation = hello->incarnation;
    s->peers[i].welcomed = false;
    s->peers[i].heard_ms = now_ms;
    struct wire_welcome welcome = {.heartbeat_ms = (uint32_t)s->heartbeat_ms,
                                   .silence_ms = (uint32_t)s->silence_ms};
    if (!s->calls.hello(s->ctx, hello->instance, hello, &welcome)) {
        link_server_drop(s, hello->instance);
        return;
    }
    i = peer_idx(s, hello->instance);
    if (i < 0)
        return;
    s->peers[i].welcomed = true;
    buf_reset(&s->out);
    message_pack_welcome(&welcome, &s->out);
    tell(s, hello->instance, WIRE_WELCOME, buf_bytes(&s->out));
}

static void serve(struct link_server *s, const struct packet *p) {
    struct wire_hello hello;
    struct frame frame = {.kind = p->kind, .epoch = p->epoch};
    bool is_hello = p->kind == WIRE_HELLO;
    arena_reset(&s->arena);
    if (is_hello && (message_unpack_hello(buf_bytes(&p->payload), &s->arena, &hello, NULL) != 0 ||
                     hello.role != p->role || !u128_equal(hello.instance, p->from)))
        return;
    int i = peer_idx(s, p->from);
    struct epoch before = s->epoch;
    enum link_verdict verdict = s->calls.check_epoch(
        s->ctx, &s->epoch, &frame, is_hello ? &hello : NULL, i >= 0 && s->peers[i].welcomed);
    if (epoch_compare(before, s->epoch) != 0)
        for (int k = 0; k < PEERS; k++)
            s->peers[k].welcomed = false;
    if (verdict == LINK_SUPERSEDED)
        s->calls.superseded(s->ctx, p->epoch);
    if (is_hello && verdict == LINK_TAKE)
        take_hello(s, &hello);
    if (is_hello)
        return;
    if (verdict != LINK_TAKE || i < 0 || !s->peers[i].welcomed || s->peers[i].role != p->role) {
        tell(s, p->from, WIRE_BLOCKS_LOST, (struct bytes){0});
        return;
    }
    s->peers[i].heard_ms = now_ms;
    s->calls.frame(s->ctx, p->from, p->role, p->kind, buf_bytes(&p->payload));
}

static void drop_silent(struct link_server *s) {
    for (int i = 0; i < PEERS; i++) {
        struct u128 instance = s->peers[i].instance;
        enum wire_role role = s->peers[i].role;
        if (u128_is_zero(instance) || now_ms - s->peers[i].heard_ms <= s->silence_ms)
            continue;
        link_server_drop(s, instance);
        s->calls.gone(s->ctx, instance, role);
    }
}

void link_server_dispatch(struct link_server *s) {
    struct queue_here all = queue_take(&s->inbox);
    for (size_t i = 0; i < all.packets.count; i++)
        serve(s, &all.packets.items[i]);
    queue_release(&all);
    drop_silent(s);
    if (now_ms < s->tick_ms)
        return;
    s->tick_ms = now_ms + s->heartbeat_ms;
    struct wire_heartbeat heartbeat = {.state = WIRE_STATE_IDLE};
    if (s->calls.heartbeat)
        s->calls.heartbeat(s->ctx, &heartbeat);
}

void link_server_wait(struct link_server *s, const int *fds, bool *ready, size_t fd_count,
                      int64_t timeout_ms) {
    link_server_dispatch(s);
}

int link_server_send(struct link_server *s, struct u128 peer, enum wire_kind kind,
                     struct bytes payload) {
    int i = peer_idx(s, peer);
    if (i < 0 || !s->peers[i].welcomed)
        return ERR_CLOSED;
    tell(s, peer, kind, payload);
    return 0;
}

void link_server_drop(struct link_server *s, struct u128 peer) {
    int i = peer_idx(s, peer);
    if (i >= 0)
        memset(&s->peers[i], 0, sizeof s->peers[i]);
}

int link_server_new(struct link_server **out, const struct link_server_config *config,
                    const struct link_server_calls *calls, void *ctx, struct error *err) {
    struct link_server *s = mem_alloc(sizeof *s);
    s->calls = *calls;
    s->ctx = ctx;
    s->epoch = config->epoch;
    s->heartbeat_ms = config->heartbeat_ms ? config->heartbeat_ms : LINK_HEARTBEAT_MS;
    s->silence_ms = config->silence_ms ? config->silence_ms : LINK_SILENCE_MS;
    CHECK(!server);
    *out = server = s;
    return 0;
}

void link_server_free(struct link_server **out) {
    struct link_server *s = *out;
    if (!s)
        return;
    server = NULL;
    queue_release(&s->inbox);
    arena_release(&s->arena);
    buf_release(&s->out);
    mem_free(s);
    *out = NULL;
}

struct epoch link_server_epoch(const struct link_server *s) {
    return s->epoch;
}
enum wire_role link_server_role(const struct link_server *s, struct u128 peer) {
    int i = peer_idx(s, peer);
    return i < 0 ? (enum wire_role)0 : s->peers[i].role;
}
const struct link_stats *link_server_stats(const struct link_server *s) {
    return &s->stats;
}
const char *link_server_address(const struct link_server *s, size_t endpoint_idx) {
    return endpoint_idx ? NULL : "here";
}

/* ---- Everyone else's end ---- */

const char *link_lost_text(enum link_lost why) {
    return "lost";
}

static void lose(struct link_client *c, enum link_lost why) {
    bool was_registered = c->registered;
    c->registered = false;
    c->hello_ms = now_ms;
    if (was_registered && c->calls.lost)
        c->calls.lost(c->ctx, why);
}

static void send_hello(struct link_client *c) {
    struct wire_hello hello = {.role = c->role,
                               .instance = c->instance,
                               .epoch_number = c->epoch.number,
                               .epoch_instance = c->epoch.instance,
                               .incarnation = ++c->incarnation};
    struct buf out = {0};
    if (c->calls.hello)
        c->calls.hello(c->ctx, &hello);
    message_pack_hello(&hello, &out);
    link_here_say(c->instance, c->role, WIRE_HELLO, c->epoch, buf_bytes(&out));
    buf_release(&out);
    c->hello_ms = now_ms + LINK_HELLO_MS;
}

static void send_heartbeat(struct link_client *c) {
    struct wire_heartbeat heartbeat = {.state = WIRE_STATE_IDLE};
    struct buf out = {0};
    if (c->calls.heartbeat)
        c->calls.heartbeat(c->ctx, &heartbeat);
    message_pack_heartbeat(&heartbeat, &out);
    link_here_say(c->instance, c->role, WIRE_HEARTBEAT, c->epoch, buf_bytes(&out));
    buf_release(&out);
    c->beat_ms = now_ms + LINK_HEARTBEAT_MS;
}

static void hear(struct link_client *c, const struct packet *p) {
    int order = epoch_compare(p->epoch, c->epoch);
    struct wire_welcome welcome;
    if (order < 0 || (!c->registered && p->kind != WIRE_WELCOME))
        return;
    if (!c->registered) {
        arena_reset(&c->arena);
        if (message_unpack_welcome(buf_bytes(&p->payload), &c->arena, &welcome, NULL) != 0)
            return;
        c->epoch = p->epoch;
        c->registered = true;
        if (c->calls.registered)
            c->calls.registered(c->ctx, c->epoch, &welcome);
        return;
    }
    if (order > 0) {
        c->epoch = p->epoch;
        lose(c, LINK_LOST_NEW_EPOCH);
    } else if (p->kind == WIRE_BLOCKS_LOST)
        lose(c, LINK_LOST_UNKNOWN);
    else if (p->kind != WIRE_WELCOME && p->kind != WIRE_HEARTBEAT)
        c->calls.frame(c->ctx, p->kind, buf_bytes(&p->payload));
}

void link_client_dispatch(struct link_client *c) {
    struct queue_here all = queue_take(&c->inbox);
    for (size_t i = 0; i < all.packets.count; i++)
        hear(c, &all.packets.items[i]);
    queue_release(&all);
    if (!c->registered && now_ms >= c->hello_ms)
        send_hello(c);
    if (c->registered && now_ms >= c->beat_ms)
        send_heartbeat(c);
}

void link_client_wait(struct link_client *c, const int *fds, bool *ready, size_t fd_count,
                      int64_t timeout_ms) {
    link_here_pass(timeout_ms);
    link_client_dispatch(c);
}

int link_client_send(struct link_client *c, enum wire_kind kind, struct bytes payload) {
    if (!c->registered)
        return ERR_CLOSED;
    link_here_say(c->instance, c->role, kind, c->epoch, payload);
    return 0;
}

void link_client_renew(struct link_client *c) {
    lose(c, LINK_LOST_RENEW);
}

int link_client_new(struct link_client **out, const struct link_client_config *config,
                    const struct link_client_calls *calls, void *ctx, struct error *err) {
    struct link_client *c = mem_alloc(sizeof *c);
    int place = 0;
    c->calls = *calls;
    c->ctx = ctx;
    c->role = config->role;
    c->instance = u128_is_zero(config->instance) ? random_u128() : config->instance;
    while (clients[place])
        CHECK(++place < PEERS);
    *out = clients[place] = c;
    return 0;
}

void link_client_free(struct link_client **out) {
    struct link_client *c = *out;
    if (!c)
        return;
    for (int i = 0; i < PEERS; i++)
        if (clients[i] == c)
            clients[i] = NULL;
    queue_release(&c->inbox);
    arena_release(&c->arena);
    mem_free(c);
    *out = NULL;
}

bool link_client_is_registered(const struct link_client *c) {
    return c->registered;
}
struct u128 link_client_instance(const struct link_client *c) {
    return c->instance;
}
uint32_t link_client_incarnation(const struct link_client *c) {
    return c->incarnation;
}
