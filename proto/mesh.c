#include "proto/mesh.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/url_host.h"

/* Of the mesh itself, behind the caller's kinds. */
enum {
    KIND_HELLO = MESH_KINDS, /* to member 0: address, greeting */
    KIND_ROSTER,             /* of member 0: address and greeting of each */
    KIND_THERE,              /* from each to each, once it knows all */
    KIND_STOP                /* to oneself */
};
enum { LINGER_MS = 200, RECONNECT_MS = 20, RECONNECT_MOST_MS = 500, Z85_MAX = 41 };

struct head {
    uint32_t kind, from;
    uint64_t number;
};

struct member {
    void *out; /* PUSH; NULL: not connected to yet */
    char address[MESH_ADDRESS_MAX];
    uint8_t greeting[MESH_GREETING_MAX];
    bool is_there;
};

struct mesh {
    struct mesh_config config; /* of its pointers, only ctx is used once it is open */
    uint8_t key[MESH_KEY_BYTES], public_key[MESH_KEY_BYTES];
    void *context, *in; /* PULL */
    bool knows_all, damaged, started;
    uint32_t there_count;
    pthread_t thread;
    struct member members[MESH_MEMBERS_MAX];
};

void mesh_key_new(uint8_t key[MESH_KEY_BYTES]) {
    random_bytes(key, MESH_KEY_BYTES);
}

static void public_of(const uint8_t *secret, uint8_t *out) {
    char secret_text[Z85_MAX], public_text[Z85_MAX];
    CHECK(zmq_z85_encode(secret_text, secret, MESH_KEY_BYTES));
    CHECK(zmq_curve_public(public_text, secret_text) == 0);
    CHECK(zmq_z85_decode(out, public_text));
    explicit_bzero(secret_text, sizeof secret_text);
}

/* ---- addresses ---- */

struct place {
    char host[URL_HOST_MAX + 1], port[8]; /* port: "" for none */
};

static bool is_port(const char *text) {
    char *end;
    long n = strtol(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && n > 0 && n < 65536;
}

/* "host", "host:port", "[::1]", "[::1]:port", "::1" */
static bool split(const char *text, struct place *out) {
    bool bracket = *text == '[';
    const char *host = text + bracket, *end = bracket ? strchr(text, ']') : NULL, *port = "";
    if (bracket && !end)
        return false;
    if (!bracket) {
        const char *colon = strchr(text, ':');
        bool bare = colon && strchr(colon + 1, ':'); /* an address of version 6 without a port */
        end = colon && !bare ? colon : text + strlen(text);
    }
    const char *rest = end + bracket;
    if (*rest == ':')
        port = rest + 1;
    else if (*rest)
        return false;
    if (end == host || end - host > URL_HOST_MAX || (*rest == ':' && !is_port(port)))
        return false;
    snprintf(out->host, sizeof out->host, "%.*s", (int)(end - host), host);
    snprintf(out->port, sizeof out->port, "%s", port);
    return true;
}

static bool is_numeric(const char *host) {
    uint8_t address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

/* The address that this host has towards another one, in digits. Nothing is sent. */
static bool own_host(const struct place *other, char out[URL_HOST_MAX + 1]) {
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list = NULL;
    bool found = false;
    if (getaddrinfo(other->host, other->port, &hints, &list))
        return false;
    for (const struct addrinfo *a = list; a && !found; a = a->ai_next) {
        struct sockaddr_storage own;
        socklen_t len = sizeof own;
        int fd = socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        found = fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
                getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
                getnameinfo((struct sockaddr *)&own, len, out, URL_HOST_MAX + 1, NULL, 0,
                            NI_NUMERICHOST) == 0;
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(list);
    return found;
}

/* ---- sockets ---- */

static void set_number(void *socket, int option, int value) {
    CHECK(zmq_setsockopt(socket, option, &value, sizeof value) == 0);
}

static void *new_socket(struct mesh *m, int type, struct error *err) {
    void *s = zmq_socket(m->context, type);
    if (!s) {
        error_set(err, ERR_IO, "cannot make a socket for the ranks: %s", zmq_strerror(zmq_errno()));
        return NULL;
    }
    int64_t largest = MESH_FRAME_MAX + sizeof(struct head);
    set_number(s, ZMQ_IPV6, 1);
    set_number(s, ZMQ_SNDHWM, 0);
    set_number(s, ZMQ_RCVHWM, 0);
    set_number(s, ZMQ_LINGER, LINGER_MS);
    set_number(s, ZMQ_RECONNECT_IVL, RECONNECT_MS);
    set_number(s, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MOST_MS);
    CHECK(zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &largest, sizeof largest) == 0);
    if (type == ZMQ_PULL)
        set_number(s, ZMQ_CURVE_SERVER, 1);
    else
        CHECK(zmq_setsockopt(s, ZMQ_CURVE_SERVERKEY, m->public_key, MESH_KEY_BYTES) == 0 &&
              zmq_setsockopt(s, ZMQ_CURVE_PUBLICKEY, m->public_key, MESH_KEY_BYTES) == 0);
    CHECK(zmq_setsockopt(s, ZMQ_CURVE_SECRETKEY, m->key, MESH_KEY_BYTES) == 0);
    return s;
}

static int connect_to(struct mesh *m, uint32_t member, struct error *err) {
    struct member *it = &m->members[member];
    char endpoint[MESH_ADDRESS_MAX + 8];
    it->out = new_socket(m, ZMQ_PUSH, err);
    if (!it->out)
        return err->code;
    snprintf(endpoint, sizeof endpoint, "tcp://%s", it->address);
    if (zmq_connect(it->out, endpoint))
        return error_set(err, ERR_INVALID, "'%s' is no address of another rank: %s", it->address,
                         zmq_strerror(zmq_errno()));
    return 0;
}

/* At the host and port that are asked for; at every address where a name or nothing is. */
static int listen_at(struct mesh *m, const struct place *at, const char *shown, struct error *err) {
    char endpoint[URL_HOST_MAX + 32], bound[URL_HOST_MAX + 32];
    size_t len = sizeof bound;
    bool numeric = is_numeric(at->host);
    m->in = new_socket(m, ZMQ_PULL, err);
    if (!m->in)
        return err->code;
    snprintf(endpoint, sizeof endpoint, "tcp://%s:%s", numeric ? url_host(at->host).text : "*",
             *at->port ? at->port : "*");
    if (zmq_bind(m->in, endpoint))
        return error_set(err, ERR_IO, "cannot listen at '%s' for the other ranks: %s", shown,
                         zmq_strerror(zmq_errno()));
    CHECK(zmq_getsockopt(m->in, ZMQ_LAST_ENDPOINT, bound, &len) == 0);
    snprintf(m->members[m->config.self].address, MESH_ADDRESS_MAX, "%s:%s", url_host(at->host).text,
             strrchr(bound, ':') + 1);
    return 0;
}

static int split_rendezvous(const char *rendezvous, struct place *out, struct error *err) {
    return split(rendezvous, out) && *out->port
               ? 0
               : error_set(err, ERR_INVALID, "'%s' is not where ranks can meet: HOST:PORT",
                           rendezvous);
}

static int split_listen(const char *listen, struct place *out, struct error *err) {
    return split(listen, out)
               ? 0
               : error_set(err, ERR_INVALID,
                           "'%s' is not where a rank can listen: HOST or HOST:PORT", listen);
}

int mesh_check(const char *listen, bool is_rendezvous, struct error *err) {
    struct place at;
    int rc = is_rendezvous ? split_rendezvous(listen, &at, err) : split_listen(listen, &at, err);
    if (rc)
        return rc;
    struct mesh *m = mem_alloc(sizeof *m);
    mesh_key_new(m->key);
    public_of(m->key, m->public_key);
    m->context = zmq_ctx_new();
    CHECK(m->context);
    rc = listen_at(m, &at, listen, err);
    mesh_close(&m);
    return rc;
}

static int listen_where_asked(struct mesh *m, struct error *err) {
    const struct mesh_config *c = &m->config;
    const char *listen = c->self && c->listen ? c->listen : "";
    struct place rendezvous, at = {.port = ""};
    int rc = split_rendezvous(c->rendezvous, &rendezvous, err);
    if (!rc && *listen)
        rc = split_listen(listen, &at, err);
    if (rc)
        return rc;
    if (!c->self)
        return listen_at(m, &rendezvous, c->rendezvous, err);
    snprintf(m->members[0].address, MESH_ADDRESS_MAX, "%s:%s", url_host(rendezvous.host).text,
             rendezvous.port);
    if (!*listen && !own_host(&rendezvous, at.host))
        return error_set(err, ERR_IO, "this host has no way to '%s', where the ranks meet",
                         c->rendezvous);
    return listen_at(m, &at, *listen ? listen : at.host, err);
}

static int send_frame(struct mesh *m, uint32_t to, const struct head *head, struct bytes data) {
    zmq_msg_t message;
    CHECK(data.len <= MESH_FRAME_MAX && m->members[to].out);
    if (zmq_msg_init_size(&message, sizeof *head + data.len))
        return ERR_MEMORY;
    char *at = zmq_msg_data(&message);
    memcpy(at, head, sizeof *head);
    if (data.len)
        memcpy(at + sizeof *head, data.data, data.len);
    while (zmq_msg_send(&message, m->members[to].out, ZMQ_DONTWAIT) < 0)
        if (zmq_errno() != EINTR) {
            zmq_msg_close(&message);
            return ERR_MEMORY;
        }
    return 0;
}

int mesh_send(struct mesh *m, uint32_t to, uint32_t kind, uint64_t number, struct bytes data) {
    struct head head = {kind, m->config.self, number};
    CHECK(kind < MESH_KINDS && to < m->config.count && to != m->config.self);
    return send_frame(m, to, &head, data);
}

/* ---- meeting ---- */

static size_t card_bytes(const struct mesh *m) {
    return MESH_ADDRESS_MAX + m->config.greeting_bytes;
}

static void put_card(const struct mesh *m, uint32_t member, char *out) {
    memcpy(out, m->members[member].address, MESH_ADDRESS_MAX);
    memcpy(out + MESH_ADDRESS_MAX, m->members[member].greeting, m->config.greeting_bytes);
}

static void take_card(struct mesh *m, uint32_t member, const uint8_t *card) {
    struct member *it = &m->members[member];
    memcpy(it->address, card, MESH_ADDRESS_MAX);
    it->address[MESH_ADDRESS_MAX - 1] = 0;
    memcpy(it->greeting, card + MESH_ADDRESS_MAX, m->config.greeting_bytes);
}

static int tell_member(struct mesh *m, uint32_t to, uint32_t kind, struct bytes data) {
    struct head head = {kind, m->config.self, 0};
    return send_frame(m, to, &head, data);
}

static int say_there(struct mesh *m) {
    int rc = 0;
    m->knows_all = true;
    for (uint32_t i = 0; i < m->config.count && !rc; i++)
        if (i != m->config.self)
            rc = tell_member(m, i, KIND_THERE, (struct bytes){0});
    return rc;
}

/* Member 0, when the last one has said where it is. */
static int tell_all(struct mesh *m) {
    char roster[MESH_MEMBERS_MAX * (MESH_ADDRESS_MAX + MESH_GREETING_MAX)];
    int rc = 0;
    for (uint32_t i = 0; i < m->config.count; i++)
        put_card(m, i, roster + i * card_bytes(m));
    for (uint32_t i = 1; i < m->config.count && !rc; i++)
        rc = tell_member(m, i, KIND_ROSTER, bytes_of(roster, m->config.count * card_bytes(m)));
    return rc ? rc : say_there(m);
}

static int on_hello(struct mesh *m, uint32_t from, struct bytes card) {
    struct error err;
    if (m->config.self || card.len != card_bytes(m) || m->members[from].out)
        return ERR_INVALID;
    take_card(m, from, card.data);
    if (connect_to(m, from, &err))
        return err.code;
    for (uint32_t i = 1; i < m->config.count; i++)
        if (!m->members[i].out)
            return 0;
    return tell_all(m);
}

static int on_roster(struct mesh *m, uint32_t from, struct bytes roster) {
    struct error err;
    if (from || m->knows_all || roster.len != m->config.count * card_bytes(m))
        return ERR_INVALID;
    for (uint32_t i = 0; i < m->config.count; i++) {
        if (i == m->config.self)
            continue;
        take_card(m, i, roster.data + i * card_bytes(m));
        if (i && connect_to(m, i, &err))
            return err.code;
    }
    return say_there(m);
}

static int take_frame(struct mesh *m, const struct head *head, struct bytes data) {
    if (head->from >= m->config.count || head->from == m->config.self)
        return ERR_INVALID;
    switch (head->kind) {
    case KIND_HELLO: return on_hello(m, head->from, data);
    case KIND_ROSTER: return on_roster(m, head->from, data);
    case KIND_THERE:
        m->there_count += !m->members[head->from].is_there;
        m->members[head->from].is_there = true;
        return 0;
    default: break;
    }
    if (head->kind >= MESH_KINDS || !m->knows_all)
        return ERR_INVALID;
    struct mesh_frame frame = {head->from, head->kind, head->number, data};
    m->config.on_frame(m->config.ctx, &frame);
    return 0;
}

/* Takes one frame, if there is one. 1: taken; 0: none; KIND_STOP; or negative. */
static int take_one(struct mesh *m, int flags) {
    zmq_msg_t message;
    struct head head;
    int rc = 1;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, m->in, flags) < 0) {
        zmq_msg_close(&message);
        return 0;
    }
    const char *at = zmq_msg_data(&message);
    size_t len = zmq_msg_size(&message);
    if (len < sizeof head) {
        rc = ERR_INVALID;
    } else {
        memcpy(&head, at, sizeof head);
        if (head.kind == KIND_STOP && head.from == m->config.self)
            rc = KIND_STOP;
        else if ((rc = take_frame(m, &head, bytes_of(at + sizeof head, len - sizeof head))) == 0)
            rc = 1;
    }
    zmq_msg_close(&message);
    return rc;
}

int mesh_open(struct mesh **out, const struct mesh_config *config, struct error *err) {
    char card[MESH_ADDRESS_MAX + MESH_GREETING_MAX];
    CHECK(config->count >= 2 && config->count <= MESH_MEMBERS_MAX && config->self < config->count);
    CHECK(config->greeting_bytes <= MESH_GREETING_MAX);
    struct mesh *m = mem_alloc(sizeof *m);
    m->config = *config;
    memcpy(m->key, config->key, sizeof m->key);
    public_of(m->key, m->public_key);
    memcpy(m->members[config->self].greeting, config->greeting, config->greeting_bytes);
    m->context = zmq_ctx_new();
    CHECK(m->context);
    int rc = listen_where_asked(m, err);
    if (!rc && config->self)
        rc = connect_to(m, 0, err);
    if (!rc && config->self) {
        put_card(m, config->self, card);
        rc = tell_member(m, 0, KIND_HELLO, bytes_of(card, card_bytes(m)));
        if (rc)
            error_set(err, rc, "no memory to meet the other ranks");
    }
    if (rc) {
        mesh_close(&m);
        return rc;
    }
    *out = m;
    return 0;
}

int mesh_form(struct mesh *m, int slice_ms) {
    zmq_pollitem_t item = {.socket = m->in, .events = ZMQ_POLLIN};
    (void)zmq_poll(&item, 1, slice_ms);
    while (m->there_count + 1 < m->config.count) {
        int rc = take_one(m, ZMQ_DONTWAIT);
        if (rc <= 0)
            return rc;
    }
    return m->knows_all;
}

const void *mesh_greeting(const struct mesh *m, uint32_t member) {
    CHECK(m->knows_all && member < m->config.count);
    return m->members[member].greeting;
}

static void *mesh_main(void *arg) {
    struct mesh *m = arg;
    for (int rc = 1; rc != KIND_STOP;) {
        rc = take_one(m, 0);
        if (rc < 0) /* it has the key: a bug, or another version */
            LOG_SOME(LOG_WARN, "a rank on another host sent what makes no sense");
    }
    return NULL;
}

void mesh_start(struct mesh *m) {
    struct error err;
    struct member *self = &m->members[m->config.self];
    CHECK(m->knows_all && !m->started);
    CHECK(zmq_bind(m->in, "inproc://self") == 0); /* how the thread is told to end */
    self->out = new_socket(m, ZMQ_PUSH, &err);
    CHECK(self->out && zmq_connect(self->out, "inproc://self") == 0);
    CHECK(pthread_create(&m->thread, NULL, mesh_main, m) == 0);
    m->started = true;
}

void mesh_close(struct mesh **out) {
    struct mesh *m = *out;
    if (!m)
        return;
    if (m->started) {
        CHECK(tell_member(m, m->config.self, KIND_STOP, (struct bytes){0}) == 0);
        pthread_join(m->thread, NULL);
    }
    for (uint32_t i = 0; i < m->config.count; i++)
        if (m->members[i].out)
            zmq_close(m->members[i].out);
    if (m->in)
        zmq_close(m->in);
    while (zmq_ctx_term(m->context) && zmq_errno() == EINTR)
        continue;
    explicit_bzero(m, sizeof *m);
    mem_free(m);
    *out = NULL;
}
