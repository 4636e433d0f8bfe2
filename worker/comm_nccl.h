/*
 * comm_nccl.h - the same exchanges as comm.h's, from GPU to GPU: NCCL sends and receives on the
 * device's stream.
 *
 * The shared-memory communicator stays beside it: it brings the ranks together, gives NCCL's id to
 * all of them and carries the tokens. Sums are taken in rank order by our own additions, from what
 * every rank got of every other.
 *
 * Nothing here blocks for ever: the library's communicator is non-blocking, and every wait ends
 * when this rank is told to stop, when NCCL reports an error, or in time; then the communicator is
 * aborted (which ends what is on the stream) and every later call fails. Re-forming makes a new
 * one.
 *
 * Threading: the compute thread.
 */
#ifndef WORKER_COMM_NCCL_H
#define WORKER_COMM_NCCL_H

#include "kernels/nccl.h"
#include "model/run/shard.h"
#include "worker/comm.h"

struct comm_nccl;

struct comm_nccl_config {
    const struct nccl_calls *calls;
    struct device *dev;
    struct comm_place place;
    size_t sum_max; /* most values of one sum, of the activation type */
    int64_t form_ms, timeout_ms;
    _Atomic bool *waiting;
    bool (*stopped)(void *ctx);
    void *ctx;
};

/* All ranks at once, with the id that one of them made (nccl_calls.unique_id). */
MUST_CHECK int comm_nccl_form(struct comm_nccl **out, const struct comm_nccl_config *config,
                              const struct nccl_id *id, struct error *err);
/* Ends the communicator. NULL in *c is fine. */
void comm_nccl_free(struct comm_nccl **c);
/* 0, or the code that every call returns by now, with *err filled. */
int comm_nccl_failed(const struct comm_nccl *c, struct error *err);

/* As comm_sum, bit for bit, of [rows, width] in device memory, act or f32, in stream order. */
void comm_nccl_sum(struct comm_nccl *c, struct stream *s, void *x, uint32_t rows, uint32_t width,
                   enum storage_type type);
/* As rank_calls.gather. ranges: [tp], each rank's columns. */
void comm_nccl_gather(struct comm_nccl *c, struct stream *s, float *all, size_t stride,
                      const float *own_columns, uint32_t rows, const struct shard_range *ranges);
/* To the rank with the same number in the next stage: count f32 values of device memory, in stream
 * order. A failure shows at comm_nccl_done. */
void comm_nccl_send(struct comm_nccl *c, struct stream *s, const float *x, size_t count);
/* The other end of comm_nccl_send: of the previous stage, the same count. */
void comm_nccl_receive(struct comm_nccl *c, struct stream *s, float *x, size_t count);
/* As event_done; aborts the communicator when it is told to stop or, at end_ms (clock_ms), the time
 * is over. */
MUST_CHECK int comm_nccl_done(struct comm_nccl *c, struct event *e, int64_t end_ms);
/* As event_wait, the same. */
MUST_CHECK int comm_nccl_wait(struct comm_nccl *c, struct event *e);

#endif
