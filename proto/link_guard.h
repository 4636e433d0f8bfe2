/*
 * link_guard.h - nobody speaks unproven: which connections a link_server takes, and what each may
 * say.
 *
 * Private to proto/. Each connection is proven once, when it is made, by the ZeroMQ authentication
 * protocol (RFC 27; its requests come to a socket of ours in the same process): on tcp by a CURVE
 * key that the allow list has, on ipc by the peer's user, who must be ours or root. From then on
 * ZeroMQ hands out each of its messages with what we answered, the message's *user*: the key in hex,
 * or LINK_USER_LOCAL. A message without one is dropped.
 *
 * Invariants:
 *   (1) Every socket that is bound was prepared here: its connections are asked for, and without an
 *       answer nothing passes.
 *   (2) A user of tcp may act in the role that the list says now, in no other. One that has left the
 *       list is refused with its next frame.
 *
 * Threading: the link's thread.
 */
#ifndef PROTO_LINK_GUARD_H
#define PROTO_LINK_GUARD_H

#include "proto/link_key.h"
#include "proto/link_socket.h"

#define LINK_USER_LOCAL "local"
enum { LINK_USER_MAX = LINK_KEY_TEXT_MAX };

struct link_guard {
    void *requests, *monitor; /* owned: sockets */
    struct allow_list allowed;
    bool has_keys;
    struct link_key_pair own; /* of the scheduler; erased when released */
    uint64_t refused_count;   /* connections */
};

/* Reads key and list (both NULL: no tcp), opens the socket for requests in `context`. 0, or a code
 * with *err filled; release it either way, before the context is terminated. */
MUST_CHECK int link_guard_init(struct link_guard *g, void *context, const char *key_file,
                               const char *allow_keys, struct error *err);
/* Closes its sockets. */
void link_guard_release(struct link_guard *g);
/* Before each bind. ERR_INVALID: tcp without keys. */
MUST_CHECK int link_guard_prepare(struct link_guard *g, void *socket, const char *endpoint,
                                  struct error *err);
/* Counts the connections of `socket` that are refused. */
MUST_CHECK int link_guard_watch(struct link_guard *g, void *context, void *socket,
                                struct error *err);
/* Answers the requests that wait, at most some hundred. look: see whether the list has changed, too.
 * True: it has, so that peers may have left it. */
MUST_CHECK bool link_guard_dispatch(struct link_guard *g, bool look);
/* Requests or refusals wait. */
bool link_guard_has_input(const struct link_guard *g);
/* Whether a message of this user (NULL: none) may be one of this role's. */
bool link_guard_allows(const struct link_guard *g, const char *user, enum wire_role role);

/* Whether the address of an ipc peer, "HOST:UID:GID:PID" as ZeroMQ has it from SO_PEERCRED, is that
 * of a process of user `ours` or of root. */
bool link_guard_is_user(struct bytes address, unsigned long ours);

/* ERR_INVALID, with the commands to type. */
int link_guard_missing(const char *endpoint, enum wire_role role, struct error *err);
/* What a client has to set before it connects: on tcp its key, and the scheduler's it expects, the
 * n-th (modulo their count, from 0) of those that the list has; on ipc it looks whose the folder is.
 * ERR_AGAIN: the folder of the socket is not there yet; ERR_INVALID, ERR_IO. */
MUST_CHECK int link_guard_prove(void *socket, const char *endpoint, enum wire_role role,
                                const char *key_file, const char *allow_keys, uint64_t n,
                                struct error *err);

/* What a monitor's event (of link_monitor_new) tells. */
enum link_event {
    LINK_EVENT_OTHER,
    LINK_EVENT_CONNECTED, /* of who connects: the peer has still to prove who it is */
    LINK_EVENT_DISCONNECTED,
    LINK_EVENT_REFUSED /* or the peer never said a word */
};
/* Opens the monitor of a socket under the name `inproc://NAME`; NULL with *err filled. */
MUST_CHECK void *link_monitor_new(void *context, void *socket, const char *name, struct error *err);
/* Takes one event; false: none waits. */
bool link_monitor_take(void *monitor, enum link_event *event);

#endif
