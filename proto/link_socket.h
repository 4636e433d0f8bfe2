/*
 * link_socket.h - what both ends of a link share: the ZeroMQ socket with its options, and the one
 * descriptor an owner waits on.
 *
 * Private to proto/. The descriptor is an epoll set of ZeroMQ's own descriptor, a timer that ticks
 * every heartbeat, and an eventfd ("kick") that says that something is left to do. ZeroMQ's
 * descriptor tells only *changes*, and any call on the socket may swallow one; so after every call
 * outside of a dispatch, and at the end of each, socket_settle looks whether frames wait and kicks.
 */
#ifndef PROTO_LINK_SOCKET_H
#define PROTO_LINK_SOCKET_H

#include "base/error.h"
#include "proto/frame.h"
#include "proto/link.h"

/* Most frames one dispatch takes before it lets its owner do other things. */
enum { DISPATCH_FRAMES_MAX = 2000 };

/* 'T', role, instance, then what makes each connection of a process another one. Never begins with
 * a zero byte (ZeroMQ's own ids do). */
enum { ROUTING_MAGIC = 'T', ROUTING_BYTES = 2 + 16 + 8 };
struct routing_id {
    uint8_t bytes[ROUTING_BYTES];
};
/* connection: a number that no other connection of the process has. */
struct routing_id routing_id_make(enum wire_role role, struct u128 instance, uint64_t connection);
/* False when the id is not one of ours; *role is then not set. */
bool routing_id_read(struct bytes id, enum wire_role *role, struct u128 *instance);

struct link_wait {
    int epoll_fd, timer_fd, kick_fd;
};
/* Ticks every tick_ms. 0, or ERR_IO with *err filled; must be released either way. */
MUST_CHECK int link_wait_init(struct link_wait *w, int64_t tick_ms, struct error *err);
/* Closes its descriptors. */
void link_wait_release(struct link_wait *w);
/* From now on every tick_ms. */
void link_wait_set_tick(struct link_wait *w, int64_t tick_ms);
/* Wakes on the socket's descriptor too. 0, or ERR_IO with *err filled. */
MUST_CHECK int link_wait_watch(struct link_wait *w, void *socket, struct error *err);
/* Before the socket is closed. */
void link_wait_unwatch(struct link_wait *w, void *socket);
/* Wakes the waiting once; any thread. */
void link_wait_kick(struct link_wait *w);
/* Clears kick and timer. True when the timer had ticked. */
bool link_wait_clear(struct link_wait *w);
/* Waits for the link's descriptor or one of the others. */
void link_wait_poll(const struct link_wait *w, const int *fds, bool *ready, size_t fd_count,
                    int64_t timeout_ms);

/* A socket with our options set; NULL with err filled in. */
MUST_CHECK void *link_socket_new(void *context, int type, struct error *err);
/* A message can be received now. */
bool link_socket_has_input(void *socket);
/* Sends [header][payload], after `to` when it is not NULL. 0, ERR_AGAIN, ERR_CLOSED (no such peer,
 * not connected), ERR_LIMIT. */
MUST_CHECK int link_socket_send(void *socket, const struct routing_id *to, enum wire_kind kind,
                                struct epoch epoch, struct bytes payload, struct link_stats *stats);

/* One message's frames; release after each receive that returned true. */
enum { FRAMES_MAX = 3 };
struct link_frames {
    struct bytes frame[FRAMES_MAX];
    size_t count;   /* FRAMES_MAX + 1: there were more */
    void *messages; /* of zmq_msg_t */
};
/* Returns owned. */
struct link_frames *link_frames_new(void);
/* They must have been released. */
void link_frames_free(struct link_frames **frames);
/* False: nothing there. */
bool link_socket_receive(void *socket, struct link_frames *frames);
/* Closes the frames of one message; their bytes are gone. */
void link_frames_release(struct link_frames *frames);

/* Who sent the message, as link_guard.h answered for its connection; NULL: nobody knows. Borrowed
 * until the frames are released. */
const char *link_frames_user(const struct link_frames *frames);

/* For binding: checks form and folder (made, 0700). */
MUST_CHECK int link_endpoint_prepare(const char *endpoint, struct error *err);
/* For connecting to ipc: ERR_INVALID when others could have made the socket, ERR_AGAIN when its
 * folder is not there yet. */
MUST_CHECK int link_endpoint_trust(const char *endpoint, struct error *err);

#endif
