/*
 * wire.h - the gateway's control thread: it owns the link to the scheduler.
 *
 * Event threads hand it encoded messages (wire_send); it hands them mail (mailbox.h): the runs of tokens of their
 * requests, rejections, the coming and going of the scheduler. A request's event thread is written in its id
 * (wire_shard_of), so no table is shared. It also keeps the model table fed: Status, and the bundles that are wanted,
 * chunk by chunk.
 *
 * The scheduler's death is no event here but `lost`, then `registered`: who owns a request submits it again then.
 *
 * Threading: wire_send, wire_wake and the questions from any thread; the rest from the thread that made it.
 */
#ifndef GATEWAY_WIRE_H
#define GATEWAY_WIRE_H

#include "base/buf.h"
#include "base/error.h"
#include "gateway/mailbox.h"
#include "gateway/model_table.h"

struct wire;

struct wire_config {
    const char *endpoint;
    struct u128 instance;       /* of this process; zero: drawn */
    struct model_table *models; /* borrowed */
    struct mailbox *boxes;      /* borrowed: one for each event thread */
    int box_count;
    bool (*wake)(void *ctx, int box_idx); /* have the event thread take its mail; false: not now */
    void *ctx;
};

MUST_CHECK int wire_new(struct wire **out, const struct wire_config *config, struct error *err);
MUST_CHECK int wire_start(struct wire *wire, struct error *err);
void wire_stop(struct wire *wire); /* sends what waits, ends the thread; wire_send and wire_wake may still be called */
void wire_free(struct wire **wire);

/* Takes the payload's memory (*payload is empty afterwards). May be dropped when the scheduler is away or the queue is
 * full: every message is one that is sent again when it matters. */
void wire_send(struct wire *wire, enum wire_kind kind, struct buf *payload);
/* Wakes the owners of boxes that have mail; after mailbox_put from another thread. */
void wire_wake(struct wire *wire);
/* True while a scheduler is there. */
bool wire_is_registered(const struct wire *wire);

/* What the last Status said of the queues. */
struct wire_load {
    uint32_t waiting, running, waiting_max;
};
struct wire_load wire_last_load(const struct wire *wire);

/* A new request id for an event thread, and back. */
struct u128 wire_request_id(int shard_idx);
static inline int wire_shard_of(struct u128 request) { return (int)(request.lo & 0xff); }

#endif
