/*
 * link_socket.h - what both ends of a link share: the ZeroMQ socket with its options, and the one descriptor an owner
 * waits on.
 *
 * Private to proto/. The descriptor is an epoll set of ZeroMQ's own descriptor, a timer that ticks every heartbeat, and
 * an eventfd ("kick") that says that something is left to do. ZeroMQ's descriptor tells only *changes*, and any call on
 * the socket may swallow one; so after every call outside of a dispatch, and at the end of each, socket_settle looks
 * whether frames wait and kicks.
 */
#ifndef PROTO_LINK_SOCKET_H
#define PROTO_LINK_SOCKET_H

#include "base/error.h"
#include "proto/frame.h"
#include "proto/link.h"

/* Most frames one dispatch takes before it lets its owner do other things. */
enum { DISPATCH_FRAMES_MAX = 2000 };

/* 'T', role, instance, then what makes each connection of a process another one. Never begins with a zero byte
 * (ZeroMQ's own ids do). */
enum { ROUTING_MAGIC = 'T', ROUTING_BYTES = 2 + 16 + 8 };
struct routing_id {
    uint8_t bytes[ROUTING_BYTES];
};
struct routing_id routing_id_make(enum wire_role role, struct u128 instance, uint64_t connection);
bool routing_id_read(struct bytes id, enum wire_role *role, struct u128 *instance);

struct link_wait {
    int epoll_fd, timer_fd, kick_fd;
};
MUST_CHECK int link_wait_init(struct link_wait *w, int64_t tick_ms, struct error *err);
void link_wait_release(struct link_wait *w);
void link_wait_set_tick(struct link_wait *w, int64_t tick_ms);
MUST_CHECK int link_wait_watch(struct link_wait *w, void *socket, struct error *err);
void link_wait_unwatch(struct link_wait *w, void *socket);
void link_wait_kick(struct link_wait *w);
/* Clears kick and timer. True when the timer had ticked. */
bool link_wait_clear(struct link_wait *w);
/* Waits for the link's descriptor or one of the others. */
void link_wait_poll(const struct link_wait *w, const int *fds, bool *ready, size_t fd_count, int64_t timeout_ms);

/* A socket with our options set; NULL with err filled in. */
MUST_CHECK void *link_socket_new(void *context, int type, struct error *err);
bool link_socket_has_input(void *socket);
/* Sends [header][payload], after `to` when it is not NULL. 0, ERR_AGAIN, ERR_CLOSED (no such peer, not connected),
 * ERR_LIMIT. */
MUST_CHECK int link_socket_send(void *socket, const struct routing_id *to, enum wire_kind kind, struct epoch epoch,
                                struct bytes payload, struct link_stats *stats);

/* One message's parts; release after each receive that returned true. */
enum { PARTS_MAX = 3 };
struct link_parts {
    struct bytes part[PARTS_MAX];
    size_t count;   /* PARTS_MAX + 1: there were more */
    void *messages; /* of zmq_msg_t */
};
struct link_parts *link_parts_new(void);
void link_parts_free(struct link_parts **parts);
/* False: nothing there. */
bool link_socket_receive(void *socket, struct link_parts *parts);
void link_parts_release(struct link_parts *parts);

/* For binding: checks form, folder (made, 0700) and, unless insecure, loopback. */
MUST_CHECK int link_endpoint_prepare(const char *endpoint, bool insecure, struct error *err);

#endif
