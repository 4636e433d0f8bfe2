#include "proto/link_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zmq.h>

#include "base/log.h"

#ifndef ZMQ_ZAP_ENFORCE_DOMAIN
#define ZMQ_ZAP_ENFORCE_DOMAIN 93 /* stable in libzmq 4.3, and missing in its header */
#endif
#define ZAP_ENDPOINT "inproc://zeromq.zap.01"
#define DOMAIN_IPC   "ipc" /* a request says which of our listeners it is about */
#define DOMAIN_TCP   "tcp"

enum { ZAP_TEXT_MAX = 256, REQUESTS_MAX = 256 };

/* ---- Monitors ---- */

void *link_monitor_new(void *context, void *socket, const char *name, struct error *err) {
    const int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    int linger = 0;
    void *monitor = NULL;
    bool good = zmq_socket_monitor(socket, name, events) == 0 &&
                (monitor = zmq_socket(context, ZMQ_PAIR)) &&
                zmq_setsockopt(monitor, ZMQ_LINGER, &linger, sizeof linger) == 0 &&
                zmq_connect(monitor, name) == 0;
    if (good)
        return monitor;
    error_set(err, ERR_IO, "cannot watch a connection: %s", zmq_strerror(zmq_errno()));
    if (monitor)
        zmq_close(monitor);
    return NULL;
}

/* An event is two frames: its number (16 bits) with a value, and the endpoint. */
bool link_monitor_take(void *monitor, enum link_event *event) {
    zmq_msg_t message;
    uint16_t number = 0;
    bool first = true;
    int more = 1;
    for (; more; first = false) {
        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, monitor, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&message);
            return false;
        }
        if (first && zmq_msg_size(&message) >= sizeof number)
            memcpy(&number, zmq_msg_data(&message), sizeof number);
        more = zmq_msg_more(&message);
        zmq_msg_close(&message);
    }
    *event = number == 0                        ? LINK_EVENT_OTHER
             : number == ZMQ_EVENT_CONNECTED    ? LINK_EVENT_CONNECTED
             : number == ZMQ_EVENT_DISCONNECTED ? LINK_EVENT_DISCONNECTED
                                                : LINK_EVENT_REFUSED;
    return true;
}

/* ---- Who asks ---- */

/* A request's frames, RFC 27. */
enum {
    ZAP_VERSION,
    ZAP_ID,
    ZAP_DOMAIN,
    ZAP_ADDRESS,
    ZAP_IDENTITY,
    ZAP_MECHANISM,
    ZAP_KEY,
    ZAP_FRAMES
};
struct zap_request {
    uint8_t frame[ZAP_FRAMES][ZAP_TEXT_MAX];
    size_t len[ZAP_FRAMES], count;
};

static bool frame_is(const struct zap_request *r, int at, const char *text) {
    return r->len[at] == strlen(text) && !memcmp(r->frame[at], text, r->len[at]);
}

bool link_guard_is_user(struct bytes address, unsigned long ours) {
    char text[ZAP_TEXT_MAX + 1], *field[3], *end;
    if (address.len > ZAP_TEXT_MAX)
        return false;
    memcpy(text, address.data, address.len);
    text[address.len] = 0;
    for (int i = 0; i < 3; i++) {
        if (!(field[i] = strrchr(text, ':')))
            return false;
        *field[i]++ = 0;
    }
    unsigned long uid = strtoul(field[2], &end, 10);
    return end != field[2] && !*end && (uid == 0 || uid == ours);
}

static bool is_our_user(const struct zap_request *r) {
    return link_guard_is_user(bytes_of(r->frame[ZAP_ADDRESS], r->len[ZAP_ADDRESS]), geteuid());
}

/* Fills `user`, and returns true, when the connection is taken. */
static bool check_request(const struct link_guard *g, const struct zap_request *r,
                          char user[LINK_USER_MAX]) {
    struct link_key key;
    char text[LINK_KEY_TEXT_MAX];
    if (r->count == ZAP_KEY && frame_is(r, ZAP_DOMAIN, DOMAIN_IPC) &&
        frame_is(r, ZAP_MECHANISM, "NULL") && is_our_user(r)) {
        snprintf(user, LINK_USER_MAX, "%s", LINK_USER_LOCAL);
        return true;
    }
    const char *address = (const char *)r->frame[ZAP_ADDRESS];
    int address_len = (int)MIN(r->len[ZAP_ADDRESS], (size_t)ZAP_TEXT_MAX);
    if (r->count != ZAP_FRAMES || !frame_is(r, ZAP_DOMAIN, DOMAIN_TCP) ||
        !frame_is(r, ZAP_MECHANISM, "CURVE") || r->len[ZAP_KEY] != LINK_KEY_BYTES) {
        LOG_LIMITED(LOG_WARN, "refused a peer that is not of our user at '%.*s'", address_len,
                    address);
        return false;
    }
    memcpy(key.bytes, r->frame[ZAP_KEY], LINK_KEY_BYTES);
    link_key_text(&key, text);
    const struct allow_row *row = g->has_keys ? allow_list_find(&g->allowed, &key) : NULL;
    if (row && row->role != WIRE_ROLE_SCHEDULER) {
        snprintf(user, LINK_USER_MAX, "%s", text);
        return true;
    }
    LOG_LIMITED(LOG_WARN, "refused a peer at %.*s whose key is not in '%s': %s", address_len,
                address, g->has_keys ? g->allowed.path : "no list", text);
    return false;
}

/* False: nothing waits. A frame that is too long counts as many. */
static bool take_request(void *socket, struct zap_request *r) {
    zmq_msg_t message;
    r->count = 0;
    memset(r->len, 0, sizeof r->len);
    for (int more = 1; more; r->count++) {
        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&message);
            return false;
        }
        size_t len = zmq_msg_size(&message);
        if (r->count < ZAP_FRAMES && len <= ZAP_TEXT_MAX) {
            memcpy(r->frame[r->count], zmq_msg_data(&message), len);
            r->len[r->count] = len;
        } else {
            r->count = ZAP_FRAMES;
        }
        more = zmq_msg_more(&message);
        zmq_msg_close(&message);
    }
    return true;
}

static void answer(void *socket, const struct zap_request *r, const char *user) {
    const struct bytes frames[] = {
        bytes_str("1.0"),
        bytes_of(r->frame[ZAP_ID], r->count > ZAP_ID ? r->len[ZAP_ID] : 0),
        bytes_str(user ? "200" : "400"),
        bytes_str(user ? "OK" : "not allowed"),
        bytes_str(user ? user : ""),
        bytes_str("")};
    for (size_t i = 0; i < ARRAY_LEN(frames); i++)
        if (zmq_send(socket, frames[i].data, frames[i].len,
                     ZMQ_DONTWAIT | (i + 1 < ARRAY_LEN(frames) ? ZMQ_SNDMORE : 0)) < 0)
            return; /* it did not wait for the answer */
}

static void count_refusals(struct link_guard *g) {
    enum link_event event;
    while (g->monitor && link_monitor_take(g->monitor, &event)) {
        if (event != LINK_EVENT_REFUSED)
            continue;
        g->refused_count++;
        LOG_LIMITED(LOG_WARN,
                    "a connection ended before its peer was proven: refused, or it hung up");
    }
}

bool link_guard_dispatch(struct link_guard *g, bool look) {
    struct zap_request request;
    char user[LINK_USER_MAX];
    bool changed = look && g->has_keys && allow_list_refresh(&g->allowed);
    for (int i = 0; i < REQUESTS_MAX && take_request(g->requests, &request); i++) {
        if (i == 0 && !look && g->has_keys)
            changed = allow_list_refresh(&g->allowed);
        answer(g->requests, &request, check_request(g, &request, user) ? user : NULL);
    }
    count_refusals(g);
    return changed;
}

bool link_guard_has_input(const struct link_guard *g) {
    return link_socket_has_input(g->requests) || (g->monitor && link_socket_has_input(g->monitor));
}

bool link_guard_allows(const struct link_guard *g, const char *user, enum wire_role role) {
    struct link_key key;
    if (!user)
        return false;
    if (!strcmp(user, LINK_USER_LOCAL))
        return true;
    if (!g->has_keys || link_key_parse(user, &key))
        return false;
    const struct allow_row *row = allow_list_find(&g->allowed, &key);
    return row && row->role == role;
}

/* ---- Life ---- */

int link_guard_init(struct link_guard *g, void *context, const char *key_file,
                    const char *allow_keys, struct error *err) {
    int rc = 0;
    *g = (struct link_guard){0};
    if (!key_file != !allow_keys)
        return error_set(err, ERR_INVALID, "--key-file and --allow-keys go together");
    if (key_file) {
        rc = link_key_file_read(key_file, WIRE_ROLE_SCHEDULER, &g->own, err);
        if (!rc)
            rc = allow_list_open(&g->allowed, allow_keys, err);
        g->has_keys = !rc;
    }
    if (rc)
        return rc;
    if (!(g->requests = link_socket_new(context, ZMQ_REP, err)))
        return ERR_IO;
    if (zmq_bind(g->requests, ZAP_ENDPOINT) != 0)
        return error_set(err, ERR_IO, "cannot listen on '%s': %s", ZAP_ENDPOINT,
                         zmq_strerror(zmq_errno()));
    return 0;
}

void link_guard_release(struct link_guard *g) {
    if (g->monitor)
        zmq_close(g->monitor);
    if (g->requests)
        zmq_close(g->requests);
    allow_list_release(&g->allowed);
    explicit_bzero(&g->own, sizeof g->own);
    *g = (struct link_guard){0};
}

/* All set, or the socket cannot be trusted. */
static void set_option(void *socket, int option, const void *value, size_t len) {
    CHECK_MSG(zmq_setsockopt(socket, option, value, len) == 0, "socket option %d: %s", option,
              zmq_strerror(zmq_errno()));
}

int link_guard_prepare(struct link_guard *g, void *socket, const char *endpoint,
                       struct error *err) {
    const int yes = 1, no = 0;
    bool tcp = !strncmp(endpoint, "tcp://", 6);
    const char *domain = tcp ? DOMAIN_TCP : DOMAIN_IPC;
    if (tcp && !g->has_keys)
        return link_guard_missing(endpoint, WIRE_ROLE_SCHEDULER, err);
    set_option(socket, ZMQ_ZAP_DOMAIN, domain, strlen(domain));
    set_option(socket, ZMQ_ZAP_ENFORCE_DOMAIN, &yes, sizeof yes);
    if (tcp)
        set_option(socket, ZMQ_CURVE_SECRETKEY, g->own.secret_key.bytes, LINK_KEY_BYTES);
    set_option(socket, ZMQ_CURVE_SERVER, tcp ? &yes : &no, sizeof yes);
    return 0;
}

int link_guard_watch(struct link_guard *g, void *context, void *socket, struct error *err) {
    g->monitor = link_monitor_new(context, socket, "inproc://refused", err);
    return g->monitor ? 0 : ERR_IO;
}

/* ---- A client's side ---- */

int link_guard_missing(const char *endpoint, enum wire_role role, struct error *err) {
    const char *name = link_role_name(role);
    return error_set(err, ERR_INVALID,
                     "'%s' needs keys: nobody speaks on tcp without. Make them once with "
                     "'trireme keygen all --out DIR', and give each process its own and the list: "
                     "--key-file DIR/%s.key --allow-keys DIR/allow",
                     endpoint, name);
}

/* The n-th scheduler of the list, modulo how many there are. */
static const struct allow_row *find_scheduler(const struct allow_list *list, uint64_t n) {
    const struct allow_row *found = NULL;
    uint64_t count = 0;
    for (size_t i = 0; i < list->rows.count; i++)
        count += list->rows.items[i].role == WIRE_ROLE_SCHEDULER;
    if (!count)
        return NULL;
    n %= count;
    for (size_t i = 0; i < list->rows.count && !found; i++)
        if (list->rows.items[i].role == WIRE_ROLE_SCHEDULER && n-- == 0)
            found = &list->rows.items[i];
    return found;
}

static int prove_by_key(void *socket, enum wire_role role, const char *key_file,
                        const char *allow_keys, uint64_t n, struct error *err) {
    struct link_key_pair own;
    struct allow_list list;
    int rc = link_key_file_read(key_file, role, &own, err);
    if (rc)
        return rc;
    rc = allow_list_open(&list, allow_keys, err);
    const struct allow_row *scheduler = rc ? NULL : find_scheduler(&list, n);
    if (scheduler) {
        set_option(socket, ZMQ_CURVE_SERVERKEY, scheduler->key.bytes, LINK_KEY_BYTES);
        set_option(socket, ZMQ_CURVE_PUBLICKEY, own.public_key.bytes, LINK_KEY_BYTES);
        set_option(socket, ZMQ_CURVE_SECRETKEY, own.secret_key.bytes, LINK_KEY_BYTES);
    } else if (!rc) {
        rc = error_set(err, ERR_INVALID, "'%s' has no scheduler's key", allow_keys);
    }
    allow_list_release(&list);
    explicit_bzero(&own, sizeof own);
    return rc;
}

int link_guard_prove(void *socket, const char *endpoint, enum wire_role role, const char *key_file,
                     const char *allow_keys, uint64_t n, struct error *err) {
    if (!strncmp(endpoint, "ipc://", 6))
        return link_endpoint_trust(endpoint, err);
    if (!key_file || !allow_keys)
        return link_guard_missing(endpoint, role, err);
    return prove_by_key(socket, role, key_file, allow_keys, n, err);
}
