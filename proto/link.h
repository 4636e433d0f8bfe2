/*
 * link.h - the ends of the wire: a scheduler's link_server and everyone else's link_client, over
 * ZeroMQ.
 *
 * A link owns its sockets, its timer and its heartbeats, and belongs to one thread: the process's
 * control thread. All calls come from that thread; all callbacks run in it, inside link_*_dispatch,
 * link_*_wait or link_client_renew, and may send (but not free the link).
 *
 * How an owner waits. It calls link_*_wait in a loop, with what descriptors of its own it waits for
 * besides: a frame that came, a connection that came up and a heartbeat that is due end the wait.
 * (ZeroMQ's own descriptor is edge-triggered; it is hidden behind this.) link_*_dispatch does what is
 * there without waiting.
 *
 * Peers are named by the instance id of their process, as in Hello and in the scheduler's core.
 *
 * Registration. A client connects, sends Hello as soon as it is connected and every 250 ms until
 * Welcome comes; then `registered` is called and sending is possible. Whenever the scheduler is
 * lost (connection gone, silence, it says that it does not know us, a higher epoch is met) `lost`
 * is called and the client starts anew with a new socket and a new routing id, so that nothing
 * queued for one registration is ever delivered under the next. The owner only fills in Hello when
 * asked. Each Hello that is filled in has a higher incarnation than the one before.
 *
 * Delivery is what ZeroMQ gives: the frames of one peer in order, never twice, but any number may
 * be lost when a peer dies or lags. Whoever needs more has indexes, attempts and plan numbers in
 * the messages.
 *
 * Invariants:
 *   (1) A frame is counted and dropped if its header, length, checksum or major version is bad, its
 *       routing id is not of our form, its epoch is lower, or it comes before registration. Kinds
 *       that we do not know are dropped.
 *   (2) After `gone` or `lost` nothing of the old registration is delivered.
 *   (3) A server never answers a malformed frame. A well-formed one from a peer that it does not
 *       know (any more), or of a lower epoch, is answered with BLOCKS_LOST: register again.
 *   (4) Heartbeats go out every heartbeat_ms as long as the owner dispatches, and only then: they
 *       vouch for its thread.
 *   (5) A server hears nobody who is not proven (link_guard.h): ipc by the peer's user, tcp by a key
 *       that is allowed. What is not of the role of its key is counted and dropped before anything,
 *       its epoch included, is looked at.
 */
#ifndef PROTO_LINK_H
#define PROTO_LINK_H

#include "base/buf.h"
#include "base/error.h"
#include "proto/codec.h"
#include "proto/frame.h"

enum { LINK_HEARTBEAT_MS = 250, LINK_SILENCE_MS = 1500, LINK_HELLO_MS = 250 };

/* Counts since the link was made. */
struct link_stats {
    uint64_t received_frames, received_bytes, sent_frames, sent_bytes;
    uint64_t bad_frames;   /* malformed, checksum, another major, a Hello that does not decode */
    uint64_t stale_frames; /* of a lower epoch, or of no registration */
    /* server: connections without a key that is allowed, or of another user; frames of a role that
     * the sender's key is not for */
    uint64_t refused_peers, refused_frames;
    uint64_t refused_sends; /* ERR_AGAIN: the high-water mark was reached */
    uint64_t registrations; /* server: Hellos taken; client: Welcomes of new registrations */
};

/* Checks the form of "ipc:///run/trireme/sched.sock" (path at most 107 bytes) or "tcp://host:port";
 * 0 or ERR_INVALID. */
MUST_CHECK int link_endpoint_check(const char *endpoint, struct error *err);

/* The same for one or several with commas between. */
MUST_CHECK int link_endpoints_check(const char *endpoints, struct error *err);

/* ---- the scheduler's end ---- */

struct link_server;

/* How a frame stands to our epoch. */
enum link_verdict { LINK_TAKE, LINK_STALE, LINK_SUPERSEDED };

struct link_server_config {
    const char *const *endpoints; /* borrowed during the call */
    size_t endpoint_count;
    struct epoch epoch;
    int64_t heartbeat_ms, silence_ms; /* 0: LINK_HEARTBEAT_MS, LINK_SILENCE_MS */
    size_t peer_max;                  /* 0: 4096; more are not taken */
    /* borrowed during the call: the scheduler's key and the list of those that may speak
     * (link_key.h); NULL: no tcp. The list is read again whenever it changes. */
    const char *key_file, *allow_keys;
};

struct link_server_calls {
    /* Judges a frame by its epoch. hello: decoded, of a HELLO frame; else NULL. served: the peer is
     * registered, and has been since *mine last changed. May raise *mine: then every peer has to
     * register anew. */
    enum link_verdict (*check_epoch)(void *ctx, struct epoch *mine, const struct frame *frame,
                                     const struct wire_hello *hello, bool served);
    /* A Hello (valid, and its role and instance are those of its connection). The same one may come
     * again until the peer has seen our Welcome. *welcome has both times filled in; fill in the
     * rest. True: the peer is taken, and Welcome is sent after this call (frames sent to it from
     * inside are refused). False: not taken; it will ask again. */
    bool (*hello)(void *ctx, struct u128 peer, const struct wire_hello *hello,
                  struct wire_welcome *welcome);
    /* Any other frame of a peer that was taken, heartbeats included. */
    void (*frame)(void *ctx, struct u128 peer, enum wire_role role, enum wire_kind kind,
                  struct bytes payload);
    /* Nothing was heard for silence_ms (counted fairly, see liveness.h). The peer is forgotten. */
    void (*gone)(void *ctx, struct u128 peer, enum wire_role role);
    /* A newer scheduler lives: exit. */
    void (*superseded)(void *ctx, struct epoch by);
    /* Fills in our own heartbeat; NULL: idle. */
    void (*heartbeat)(void *ctx, struct wire_heartbeat *heartbeat);
};

/* Binds all endpoints. Makes the folder of an ipc path (mode 0700) and refuses one that others may
 * enter; refuses tcp without keys, loopback too. Returns owned. Keeps a copy of calls. */
MUST_CHECK int link_server_new(struct link_server **out, const struct link_server_config *config,
                               const struct link_server_calls *calls, void *ctx, struct error *err);
/* Closes the sockets; peers are told nothing. NULL in *server is fine. */
void link_server_free(struct link_server **server);
/* Handles what is there (at most some thousand frames; the next call goes on), heartbeats and silence. */
void link_server_dispatch(struct link_server *server);
/* Waits until the link or one of the descriptors (borrowed, for reading) is ready, or timeout_ms
 * passed (-1: none), then dispatches. Sets ready[i] for each descriptor unless ready is NULL. At
 * most 16 descriptors. */
void link_server_wait(struct link_server *server, const int *fds, bool *ready, size_t fd_count,
                      int64_t timeout_ms);
/* 0; ERR_CLOSED: no such peer, or its connection is gone (it registers again, or silence will
 * tell); ERR_AGAIN: its queue is full; ERR_LIMIT: payload over WIRE_MAX_FRAME. Only 0 means that
 * the frame was taken. */
MUST_CHECK int link_server_send(struct link_server *server, struct u128 peer, enum wire_kind kind,
                                struct bytes payload);
/* Forgets a peer without calling gone; it has to register again. */
void link_server_drop(struct link_server *server, struct u128 peer);
/* The one it gives out now. */
struct epoch link_server_epoch(const struct link_server *server);
/* 0: not known */
enum wire_role link_server_role(const struct link_server *server, struct u128 peer);
/* Peers that are registered. */
size_t link_server_peer_count(const struct link_server *server);
/* Borrowed; changes with every dispatch and send. */
const struct link_stats *link_server_stats(const struct link_server *server);
/* The endpoint as bound, with the port the system chose for "tcp://127.0.0.1:*"; NULL past the
 * last. */
const char *link_server_address(const struct link_server *server, size_t endpoint_idx);

/* ---- everyone else's end ---- */

struct link_client;

enum link_lost {
    LINK_LOST_CLOSED = 1, /* the connection is gone */
    LINK_LOST_SILENT,     /* nothing heard for Welcome's silence_ms */
    LINK_LOST_UNKNOWN,    /* the scheduler asked us to register again */
    LINK_LOST_NEW_EPOCH,  /* another scheduler has taken over */
    LINK_LOST_RENEW,      /* link_client_renew */
};
const char *link_lost_text(enum link_lost why); /* for logs */

struct link_client_config {
    /* where a scheduler may be: one, or several with commas between, of which one leads; they are tried in
     * turn */
    const char *endpoint;
    enum wire_role role;
    struct u128 instance; /* of this process; zero: drawn */
    /* for tcp: its key, and the list with the scheduler's (link_key.h). Both are read again for each
     * connection; of several schedulers' keys each is tried in turn. */
    const char *key_file, *allow_keys;
};

struct link_client_calls {
    /* Fills in *hello, which comes with role, instance, pid, epoch, incarnation and features set.
     * What it points to must stay until the callback has returned and the link has encoded it (so:
     * memory of the owner's, not the stack). */
    void (*hello)(void *ctx, struct wire_hello *hello);
    void (*registered)(void *ctx, struct epoch epoch, const struct wire_welcome *welcome);
    /* Called once after each `registered`, when that registration has ended. */
    void (*lost)(void *ctx, enum link_lost why);
    /* Any frame but Welcome, Heartbeat and BLOCKS_LOST, which the link handles. */
    void (*frame)(void *ctx, enum wire_kind kind, struct bytes payload);
    /* Fills in our heartbeat; NULL: idle. */
    void (*heartbeat)(void *ctx, struct wire_heartbeat *heartbeat);
};

/* Does not fail because nobody listens yet: it keeps trying (after 50 ms, doubling to 1 s).
 * ERR_INVALID: tcp without keys, or with files that cannot be used; ipc in a folder where others may
 * write. Keeps a copy of calls. No callback comes before the first dispatch. */
MUST_CHECK int link_client_new(struct link_client **out, const struct link_client_config *config,
                               const struct link_client_calls *calls, void *ctx, struct error *err);
/* Gives frames already sent up to 200 ms to leave. */
void link_client_free(struct link_client **client);
/* Connects, handles what is there, heartbeats and silence; as link_server_dispatch. */
void link_client_dispatch(struct link_client *client);
/* As link_server_wait. */
void link_client_wait(struct link_client *client, const int *fds, bool *ready, size_t fd_count,
                      int64_t timeout_ms);
/* 0; ERR_CLOSED: not registered, or the connection is gone; ERR_AGAIN: the queue is full;
 * ERR_LIMIT: payload over WIRE_MAX_FRAME. Only 0 means that the frame was taken. */
MUST_CHECK int link_client_send(struct link_client *client, enum wire_kind kind,
                                struct bytes payload);
/* Between `registered` and `lost`. */
bool link_client_is_registered(const struct link_client *client);
/* When (clock_ms) the scheduler has last refused our key: it lives, and must be told of it. One
 * that takes the connection and says nothing, since it hangs, has not. 0: never. */
int64_t link_client_refused_ms(const struct link_client *client);
/* Registers anew with a new Hello (a worker that has finished loading, or lost its slots). Calls
 * lost(RENEW) when it was registered. */
void link_client_renew(struct link_client *client);
struct epoch link_client_epoch(const struct link_client *client); /* highest met */
struct u128 link_client_instance(const struct link_client *client);
uint32_t link_client_incarnation(const struct link_client *client); /* of the latest Hello */
const struct link_stats *link_client_stats(const struct link_client *client);

#endif
