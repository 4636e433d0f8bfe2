/*
 * ranks.h - this rank among the others: the communicator of the current formation, and what lies
 * between it and the device (staging for devices whose memory the host cannot read, conversion
 * between stages of different devices).
 *
 * GPUs that reach each other's memory sum and gather by it (kernels/peers.h), without the host;
 * what they cannot, and what goes from stage to stage, NCCL does where it is there, and comm.h
 * else: by shared memory, or by messages between hosts. All give the same bits. Which it is, is agreed at each formation: all ranks of
 * a stage or none.
 *
 * A formation lives from plan 1 of a registration to the next reset. After an error nothing more is
 * exchanged; calls return at once, what they leave in the buffers is worthless, and ranks_failed
 * says why.
 *
 * Threading: the compute thread.
 */
#ifndef WORKER_RANKS_H
#define WORKER_RANKS_H

#include "kernels/ops.h"
#include "model/model.h"
#include "worker/comm_nccl.h"
#include "worker/progress.h"
#include "worker/settings.h"

struct ranks {
    struct comm_place place;
    struct shard shard;
    struct comm *comm;      /* NULL: not formed */
    struct comm_nccl *nccl; /* NULL: activations are staged over shared memory */
    const struct nccl_calls *nccl_calls;
    struct peers *peers; /* NULL: no memory of this rank is to be had by others */
    struct peer_card card;
    bool reached;           /* sums and gathers go by the peers' memory */
    uint32_t rows_that_add; /* and products of so many, on all of them, add up */
    struct device *dev;
    struct stream *stream; /* of the latest exchange; NULL: none yet */
    struct event *staged;  /* NULL: the host reads the device's memory */
    char *host;            /* staging */
    uint32_t hidden, vocab, max_rows, record_max, sum_width;
    int64_t form_ms, timeout_ms;
    int comm_kind;                  /* of --comm */
    const char *nccl_path, *listen; /* borrowed from the settings */
    struct worker_progress *progress;
    bool (*stopped)(void *ctx);
    void *stopped_ctx;
};

/* Reads and checks place and stages from the settings. */
MUST_CHECK int ranks_place(struct ranks *r, const struct worker_settings *settings,
                           struct error *err);
/* After the model is open. Borrows dev and progress. */
MUST_CHECK int ranks_init(struct ranks *r, const struct model *model, uint32_t max_rows,
                          uint32_t slot_count, struct worker_progress *progress, struct error *err);
/* Leaves, and frees all. */
void ranks_release(struct ranks *r);
static inline bool ranks_are_alone(const struct ranks *r) {
    return comm_place_is_alone(r->place);
}
/* Whether this rank samples and answers: rank 0 of the last stage. */
static inline bool ranks_answer(const struct ranks *r) {
    return r->place.rank == 0 && r->place.stage + 1 == r->place.pp;
}

/* Whether what a step exchanges can be recorded as part of a graph, as the ranks have met: nothing
 * that the host or NCCL does. The same on all ranks of a stage. */
static inline bool ranks_record(const struct ranks *r) {
    return ranks_are_alone(r) || (r->reached && r->place.pp == 1);
}

/* Hello's comm_id, as plan 1 brings it back. ERR_INVALID: it is none. */
MUST_CHECK int ranks_form(struct ranks *r, struct bytes comm_id, struct error *err);
/* The others' waits end, too; ranks_form may be called again. */
void ranks_leave(struct ranks *r);
/* 0 while the ranks work together; else the code, with *err filled: they have not met, or have lost
 * each other. */
int ranks_failed(const struct ranks *r, struct error *err);
/* As event_done, of work that may wait for other ranks; negative as ranks_wait, which reports it.
 * since_ms (clock_ms): when the step was put on the device. */
MUST_CHECK int ranks_done(struct ranks *r, struct event *e, int64_t since_ms);
/* As event_wait, of such work: ends when this one is told to stop. */
MUST_CHECK int ranks_wait(struct ranks *r, struct event *e);

extern const struct rank_calls ranks_calls; /* ctx: struct ranks */

#endif
