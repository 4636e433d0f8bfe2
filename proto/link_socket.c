#include "proto/link_socket.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"

/*
 * High-water marks count messages for each peer and are no flow control (credits and
 * acknowledgements are); they bound what a peer that does not read costs us until silence ends it.
 * 8192 is more than the fastest stream of steps sends in the time until then.
 */
enum {
    HIGH_WATER_FRAMES = 8192,
    RECONNECT_MS = 10, /* then twice as long each time; peers start together, and one is first */
    RECONNECT_MAX_MS = 1000,
    CONNECT_TIMEOUT_MS = 5000,
    HANDSHAKE_MS = 5000, /* a raw peer that says nothing goes after this */
    WAIT_FDS_MAX = 16
};

/* ---- Routing ids ---- */

struct routing_id routing_id_make(enum wire_role role, struct u128 instance, uint64_t connection) {
    struct routing_id id = {{ROUTING_MAGIC, (uint8_t)role}};
    memcpy(id.bytes + 2, &instance, 16);
    memcpy(id.bytes + 18, &connection, 8);
    return id;
}

bool routing_id_read(struct bytes id, enum wire_role *role, struct u128 *instance) {
    if (id.len != ROUTING_BYTES || id.data[0] != ROUTING_MAGIC)
        return false;
    *role = (enum wire_role)id.data[1];
    memcpy(instance, id.data + 2, 16);
    return *role >= WIRE_ROLE_GATEWAY && *role <= WIRE_ROLE_SUPERVISOR && !u128_is_zero(*instance);
}

/* ---- The descriptor an owner waits on ---- */

static int watch_fd(int epoll_fd, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void link_wait_set_tick(struct link_wait *w, int64_t tick_ms) {
    struct timespec every = timespec_of_us(tick_ms * 1000);
    struct itimerspec spec = {.it_interval = every, .it_value = every};
    CHECK(timerfd_settime(w->timer_fd, 0, &spec, NULL) == 0);
}

int link_wait_init(struct link_wait *w, int64_t tick_ms, struct error *err) {
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    w->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->epoll_fd < 0 || w->timer_fd < 0 || w->kick_fd < 0 ||
        watch_fd(w->epoll_fd, w->timer_fd, EPOLLIN) || watch_fd(w->epoll_fd, w->kick_fd, EPOLLIN)) {
        error_set_errno(err, "cannot make the descriptors of a link");
        link_wait_release(w);
        return ERR_IO;
    }
    link_wait_set_tick(w, tick_ms);
    return 0;
}

void link_wait_release(struct link_wait *w) {
    int fds[] = {w->epoll_fd, w->timer_fd, w->kick_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    *w = (struct link_wait){-1, -1, -1};
}

static int socket_fd(void *socket) {
    int fd = -1;
    size_t len = sizeof fd;
    CHECK(zmq_getsockopt(socket, ZMQ_FD, &fd, &len) == 0);
    return fd;
}

/* Level-triggered although ZeroMQ's descriptor is a signal: it stays readable until a call on the
 * socket has taken the signal. */
int link_wait_watch(struct link_wait *w, void *socket, struct error *err) {
    if (watch_fd(w->epoll_fd, socket_fd(socket), EPOLLIN))
        return error_set_errno(err, "cannot watch a socket");
    return 0;
}

void link_wait_unwatch(struct link_wait *w, void *socket) {
    epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, socket_fd(socket), NULL);
}

void link_wait_kick(struct link_wait *w) {
    uint64_t one = 1;
    ssize_t n = write(w->kick_fd, &one, sizeof one);
    CHECK(n == (ssize_t)sizeof one || errno == EAGAIN);
}

static bool drain_count(int fd) {
    uint64_t count;
    return read(fd, &count, sizeof count) == (ssize_t)sizeof count;
}

bool link_wait_clear(struct link_wait *w) {
    drain_count(w->kick_fd);
    return drain_count(w->timer_fd);
}

void link_wait_poll(const struct link_wait *w, const int *fds, bool *ready, size_t fd_count,
                    int64_t timeout_ms) {
    struct pollfd polls[1 + WAIT_FDS_MAX];
    CHECK(fd_count <= WAIT_FDS_MAX);
    polls[0] = (struct pollfd){.fd = w->epoll_fd, .events = POLLIN};
    for (size_t i = 0; i < fd_count; i++)
        polls[1 + i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    int rc = poll(polls, 1 + fd_count, timeout_ms < 0 ? -1 : (int)MIN(timeout_ms, INT32_MAX));
    for (size_t i = 0; ready && i < fd_count; i++)
        ready[i] = rc > 0 && polls[1 + i].revents;
}

/* ---- Sockets ---- */

static const struct {
    int option, value, type; /* type: only for such sockets; -1: all */
} OPTIONS[] = {
    {ZMQ_LINGER, 0, -1},
    {ZMQ_SNDHWM, HIGH_WATER_FRAMES, -1},
    {ZMQ_RCVHWM, HIGH_WATER_FRAMES, -1},
    {ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS, -1},
    /* an unknown or full peer is told, not silently dropped */
    {ZMQ_ROUTER_MANDATORY, 1, ZMQ_ROUTER},
    /* queue only to a connection that is up, and drop the queue with it */
    {ZMQ_IMMEDIATE, 1, ZMQ_DEALER},
    {ZMQ_RECONNECT_IVL, RECONNECT_MS, ZMQ_DEALER},
    {ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS, ZMQ_DEALER},
    {ZMQ_CONNECT_TIMEOUT, CONNECT_TIMEOUT_MS, ZMQ_DEALER},
};

void *link_socket_new(void *context, int type, struct error *err) {
    void *socket = zmq_socket(context, type);
    if (!socket) {
        error_set(err, ERR_IO, "cannot make a socket: %s", zmq_strerror(zmq_errno()));
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(OPTIONS); i++)
        if (OPTIONS[i].type < 0 || OPTIONS[i].type == type)
            CHECK(zmq_setsockopt(socket, OPTIONS[i].option, &OPTIONS[i].value, sizeof(int)) == 0);
    int64_t largest = (int64_t)WIRE_MAX_FRAME;
    CHECK(zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &largest, sizeof largest) == 0);
    return socket;
}

bool link_socket_has_input(void *socket) {
    int events = 0;
    size_t len = sizeof events;
    return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &len) == 0 && (events & ZMQ_POLLIN);
}

static int send_error(int code, struct link_stats *stats) {
    if (code == EAGAIN) {
        stats->refused_sends++;
        return ERR_AGAIN;
    }
    CHECK_MSG(code == EHOSTUNREACH || code == EINTR || code == ETERM, "zmq_send: %s",
              zmq_strerror(code));
    return ERR_CLOSED;
}

int link_socket_send(void *socket, const struct routing_id *to, enum wire_kind kind,
                     struct epoch epoch, struct bytes payload, struct link_stats *stats) {
    uint8_t header[FRAME_BYTES];
    if (payload.len > WIRE_MAX_FRAME)
        return ERR_LIMIT;
    frame_write(header, kind, epoch, payload);
    if (to && zmq_send(socket, to->bytes, ROUTING_BYTES, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
        return send_error(zmq_errno(), stats);
    /* Once the first frame is taken the others are: the high-water mark counts whole messages. */
    if (zmq_send(socket, header, FRAME_BYTES, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
        return send_error(zmq_errno(), stats);
    if (zmq_send(socket, payload.data, payload.len, ZMQ_DONTWAIT) < 0)
        return send_error(zmq_errno(), stats);
    stats->sent_frames++;
    stats->sent_bytes += payload.len;
    return 0;
}

/* ---- Receiving ---- */

struct link_frames *link_frames_new(void) {
    struct link_frames *frames = mem_alloc(sizeof *frames);
    frames->messages = mem_calloc(FRAMES_MAX, sizeof(zmq_msg_t));
    return frames;
}

void link_frames_free(struct link_frames **frames) {
    if (!*frames)
        return;
    mem_free((*frames)->messages);
    mem_free(*frames);
    *frames = NULL;
}

/* The frames behind those we have room for: read and dropped. */
static void skip_frames(void *socket) {
    zmq_msg_t message;
    int more = 1;
    while (more) {
        zmq_msg_init(&message);
        more = zmq_msg_recv(&message, socket, ZMQ_DONTWAIT) >= 0 && zmq_msg_more(&message);
        zmq_msg_close(&message);
    }
}

bool link_socket_receive(void *socket, struct link_frames *frames) {
    zmq_msg_t *messages = frames->messages;
    frames->count = 0;
    for (int more = 1; more;) {
        if (frames->count == FRAMES_MAX) {
            skip_frames(socket);
            frames->count = FRAMES_MAX + 1;
            return true;
        }
        zmq_msg_t *m = &messages[frames->count];
        zmq_msg_init(m);
        if (zmq_msg_recv(m, socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(m);
            return frames->count > 0;
        }
        frames->frame[frames->count++] = bytes_of(zmq_msg_data(m), zmq_msg_size(m));
        more = zmq_msg_more(m);
    }
    return true;
}

const char *link_frames_user(const struct link_frames *frames) {
    zmq_msg_t *messages = frames->messages;
    size_t count = MIN(frames->count, (size_t)FRAMES_MAX);
    /* a ROUTER puts the routing id in front itself: it carries nothing */
    return count > 1 ? zmq_msg_gets(&messages[count - 1], "User-Id") : NULL;
}

void link_frames_release(struct link_frames *frames) {
    zmq_msg_t *messages = frames->messages;
    for (size_t i = 0; i < MIN(frames->count, (size_t)FRAMES_MAX); i++)
        zmq_msg_close(&messages[i]);
    frames->count = 0;
}
