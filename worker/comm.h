/*
 * comm.h - what the ranks of one replica say to each other: sums over the ranks of a stage,
 * activations from stage to stage, sampled tokens to everyone.
 *
 * Ranks on one host share a segment of memory, named by an id that all ranks are told and that is
 * fresh for each formation. On several hosts each rank has a segment of its own, and what it puts
 * there for the others to see is sent to them (proto/mesh.h), so that the same waits and the same
 * sums serve both. All buffers here are host memory; what lies on a GPU is staged by the caller
 * (ranks.h). Nothing is ever repaired: when a rank dies or stops,
 * the others are told to give up (`stopped`), every call fails from then on, and the replica forms
 * anew under another id.
 *
 * Invariants:
 *   (1) a sum is taken in rank order, so its bits depend on nothing but the addends;
 *   (2) all ranks of a stage make the same calls of comm_sum and comm_gather in the same order with
 *       the same sizes;
 *   (3) areas are used in turn: who writes the k-th chunk has seen everybody post chunk k - 1,
 *       hence has seen everybody done with chunk k - 2, which lay there before;
 *   (4) the segment's name is gone once all ranks are in, so nothing is left behind by a kill later
 *       on;
 *   (5) after forming nothing is allocated, but for frames on their way to another host; of those
 *       there are never more than the areas, rings and records hold.
 *
 * Waiting spins shortly, then sleeps on a futex in the segment; it ends with ERR_CLOSED when this
 * rank is told to stop or a peer has given up, with ERR_TIMEOUT after timeout_ms. That a rank on
 * another host is lost is known by that alone, or by being told to stop.
 *
 * Threading: one thread (the compute thread) per struct comm.
 */
#ifndef WORKER_COMM_H
#define WORKER_COMM_H

#include <stdatomic.h>

#include "base/error.h"
#include "kernels/types.h"
#include "proto/mesh.h"

enum { COMM_RANKS_MAX = 64, COMM_RECORDS = 16, COMM_SHARED_MAX = 128, COMM_CARD_MAX = 128 };

/* rank in [0, tp) of stage in [0, pp). */
struct comm_place {
    uint32_t rank, tp, stage, pp;
};
static inline bool comm_place_is_alone(struct comm_place p) {
    return p.tp * p.pp <= 1;
}

/* Where the ranks of a formation meet. */
struct comm_meeting {
    struct u128 id;                    /* on one host: of the segment */
    char rendezvous[MESH_ADDRESS_MAX]; /* on several: where rank 0 of stage 0 listens; "": on one */
    uint8_t key[MESH_KEY_BYTES];       /* of the mesh */
};
enum { COMM_MEETING_MAX = MESH_KEY_BYTES + MESH_ADDRESS_MAX };

struct comm_config {
    struct comm_place place;
    struct comm_meeting at;     /* equal for all ranks, fresh for each formation */
    const char *listen;         /* on several hosts: as mesh_config's; borrowed while forming */
    size_t channel_bytes;       /* of the ring between two stages; equal for all */
    uint32_t record_max;        /* sampling rows of a step; equal for all */
    int64_t form_ms;            /* for all ranks to come */
    int64_t timeout_ms;         /* for one wait */
    uint32_t spin_us;           /* before a wait sleeps */
    _Atomic bool *waiting;      /* set while a wait sleeps; NULL: nobody asks */
    bool (*stopped)(void *ctx); /* asked in waits, every few milliseconds; NULL: never */
    void *ctx;
    uint64_t unit; /* the GPU that this rank could use NCCL on; 0: none */
    /* what the others may read of this rank (comm_card), COMM_CARD_MAX at most; 0: nothing */
    const void *card;
    size_t card_bytes;
    /* tests: the segment (comm_segment_bytes, zeroed), instead of a shared-memory object */
    void *memory;
};

/* What a step sampled, told by rank 0 of the last stage to every other rank. */
struct comm_record {
    uint64_t plan_number;
    uint32_t count;
    uint32_t *tokens, *status; /* [record_max]; status as enum sample_status */
};

struct comm;

/* A fresh meeting, as its ranks are told of it (wire_hello's comm_id); returns its bytes. rendezvous:
 * where rank 0 of stage 0 listens for those on other hosts, "host:port"; NULL or empty: all are on one. */
size_t comm_meeting_new(const char *rendezvous, uint8_t out[COMM_MEETING_MAX]);
/* Reads that. ERR_INVALID: it is none. */
MUST_CHECK int comm_meeting_read(struct bytes told, struct comm_meeting *out);
/* Bytes of the shared memory that ranks of this configuration meet in. */
uint64_t comm_segment_bytes(const struct comm_config *config);
/* Takes the memory that ranks of this configuration meet in, and gives it back, or with `listen` the
 * port: 0, or why they could not meet, before anybody counts on it. The meeting does not matter. */
MUST_CHECK int comm_check(const struct comm_config *config, struct error *err);
/* Waits until all ranks are there. ERR_INVALID: they disagree about sizes, or an address is none;
 * ERR_CLOSED, ERR_TIMEOUT; ERR_IO: no shared memory, or no port, to be had. */
MUST_CHECK int comm_form(struct comm **out, const struct comm_config *config, struct error *err);
/* The others' waits end, too. */
void comm_free(struct comm **c);
/* Whether every rank has a GPU of its own for NCCL. */
bool comm_has_gpus(const struct comm *c);
/* Whether its ranks may be on several hosts. */
bool comm_is_spread(const struct comm *c);
/* COMM_CARD_MAX bytes: the card of a rank of this stage, zeros behind it. */
const void *comm_card(const struct comm *c, uint32_t rank);
/* Rank 0 of stage 0 gives bytes to all, once; COMM_SHARED_MAX at most. */
MUST_CHECK int comm_share(struct comm *c, void *bytes, size_t len);
/* As a wait of comm's own that is not over: fails when this rank is told to stop, when another has
 * given up, or at end_ms (clock_ms). */
MUST_CHECK int comm_look(struct comm *c, int64_t end_ms);
/* Fails for this reason, unless it has failed already: the code that it failed with. */
int comm_give_up(struct comm *c, int code, const char *why);
/* 0, or why every call fails by now. */
int comm_failed(const struct comm *c, struct error *err);

/* x[i] = x_0[i] + x_1[i] + ... over the ranks of the stage, in f32, rounded once to `type` (f32,
 * f16, bf16). */
MUST_CHECK int comm_sum(struct comm *c, void *x, size_t count, enum storage_type type);
/* Rank 0 of the stage gets bytes[r] bytes of rank r at out[r]; the others give theirs (out may be
 * NULL). */
MUST_CHECK int comm_gather(struct comm *c, const void *mine, void *const *out, const size_t *bytes);
/* Between this rank and the one with the same rank in the next (or previous) stage: bytes in order.
 * Sending waits while the ring is full. */
MUST_CHECK int comm_send(struct comm *c, const void *data, size_t bytes);
/* The other end of comm_send: waits until exactly `bytes` have come. Both: 0, or as comm_failed. */
MUST_CHECK int comm_receive(struct comm *c, void *data, size_t bytes);
/* Rank 0 of the last stage. Waits while the slowest of the others has COMM_RECORDS to read. */
MUST_CHECK int comm_post(struct comm *c, const struct comm_record *record);
/* Any other rank: the next record in order, 1; 0: there is none yet (never with wait); or a
 * negative code. */
MUST_CHECK int comm_read(struct comm *c, bool wait, struct comm_record *record);

#endif
