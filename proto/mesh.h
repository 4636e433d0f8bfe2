/*
 * mesh.h - frames between a few equal processes on several hosts: each sends to each, over ZeroMQ and tcp.
 *
 * All members are told the same key, fresh for each mesh, and where member 0 listens. Whoever has the key
 * is a member and nobody else: it is the secret key of both ends of every connection (CURVE), so frames are
 * encrypted too. The others tell member 0 where they listen, and get the list of all from it. A mesh is met
 * when every member has heard from every other one.
 *
 * Frames from one member to another arrive once and in order, or, when a connection is lost for good, not at
 * all: nobody is told. Whoever waits needs a limit of his own.
 *
 * Invariants:
 *   (1) on_frame runs on one thread at a time: the caller's in mesh_form, the mesh's own after mesh_start;
 *   (2) no frame is given to on_frame before the greetings of all are known.
 *
 * Threading: one thread opens, meets, sends and closes.
 */
#ifndef PROTO_MESH_H
#define PROTO_MESH_H

#include "base/error.h"
#include "base/vec.h"

enum {
    MESH_KEY_BYTES = 32,
    MESH_MEMBERS_MAX = 64,
    MESH_ADDRESS_MAX = 320, /* of "host:port" and its zero */
    MESH_GREETING_MAX = 256,
    MESH_FRAME_MAX = 1 << 20 /* bytes of a frame's data */
};

struct mesh_frame {
    uint32_t from, kind; /* the caller's, below MESH_KINDS */
    uint64_t number;     /* the caller's */
    struct bytes data;   /* until on_frame returns */
};
enum { MESH_KINDS = 1 << 16 };

struct mesh_config {
    uint32_t self, count; /* 2 to MESH_MEMBERS_MAX */
    const uint8_t *key;   /* [MESH_KEY_BYTES] */
    const char
        *rendezvous; /* where member 0 listens, as the others reach it: "host:port", "[::1]:port" */
    /* Where this member listens, "host:port" or "host"; member 0 listens where all meet. NULL or empty: at a
     * port that is free, of the address from which this host reaches member 0. */
    const char *listen;
    const void *greeting;  /* what all others are told of this one before any frame */
    size_t greeting_bytes; /* equal for all; MESH_GREETING_MAX at most */
    void (*on_frame)(void *ctx, const struct mesh_frame *frame);
    void *ctx;
};

struct mesh;

/* Draws a key. */
void mesh_key_new(uint8_t key[MESH_KEY_BYTES]);
/* Whether this process could listen there: for member 0, where all meet, "host:port"; else for another,
 * "host" or "host:port". Errors as mesh_open's. */
MUST_CHECK int mesh_check(const char *listen, bool is_rendezvous, struct error *err);
/* Listens, and begins to meet. ERR_INVALID: an address is none; ERR_IO: it cannot be listened at. */
MUST_CHECK int mesh_open(struct mesh **out, const struct mesh_config *config, struct error *err);
/* Goes on meeting for at most slice_ms. 1: met; 0: not yet; ERR_INVALID: who has the key says nonsense. */
MUST_CHECK int mesh_form(struct mesh *m, int slice_ms);
/* What a member said of itself: greeting_bytes. Once met. */
const void *mesh_greeting(const struct mesh *m, uint32_t member);
/* Once met: from now on frames are taken by a thread of the mesh. */
void mesh_start(struct mesh *m);
/* Copies the data, MESH_FRAME_MAX at most, and never waits: what is not read yet has to be bounded by the
 * caller's own rules. Once met. ERR_MEMORY. */
MUST_CHECK int mesh_send(struct mesh *m, uint32_t to, uint32_t kind, uint64_t number,
                         struct bytes data);
/* What was sent has a moment to go out. on_frame does not run any more. */
void mesh_close(struct mesh **m);

#endif
