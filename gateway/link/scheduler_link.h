/*
 * scheduler_link.h - the gateway's control thread: it owns the link to the scheduler.
 *
 * Event threads hand it encoded messages (scheduler_link_send); it hands them mail (mailbox.h): the
 * runs of tokens of their requests, rejections, the coming and going of the scheduler. A request's
 * event thread is written in its id (request_id.h), so no table is shared. It also keeps the model
 * table fed: Status, and the bundles that are wanted, chunk by chunk.
 *
 * The scheduler's death is no event here but `lost`, then `registered`: who owns a request submits
 * it again then.
 *
 * Threading: scheduler_link_send, scheduler_link_wake and the questions from any thread; the rest
 * from the thread that made it.
 */
#ifndef GATEWAY_LINK_SCHEDULER_LINK_H
#define GATEWAY_LINK_SCHEDULER_LINK_H

#include "base/buf.h"
#include "base/error.h"
#include "gateway/link/mailbox.h"
#include "gateway/models/model_table.h"

struct scheduler_link;

struct scheduler_link_config {
    const char *endpoint;
    const char *key_file, *allow_keys; /* for tcp; as link_client_config has them */
    struct u128 instance;              /* of this process; zero: drawn */
    struct model_table *models;        /* borrowed */
    struct mailbox *boxes;             /* borrowed: one for each event thread */
    int box_count;
    bool (*wake)(void *ctx, int box_idx); /* have the event thread take its mail; false: not now */
    void *ctx;
};

/* Copies *config, borrows what it points to while the link lives. Connects to nothing yet. 0, with
 * *out owned, or a code with *err filled and *out NULL. */
MUST_CHECK int scheduler_link_new(struct scheduler_link **out,
                                  const struct scheduler_link_config *config, struct error *err);
/* Starts the thread. 0 or ERR_IO. */
MUST_CHECK int scheduler_link_start(struct scheduler_link *link, struct error *err);
/* sends what waits, ends the thread; scheduler_link_send and scheduler_link_wake may still be
 * called */
void scheduler_link_stop(struct scheduler_link *link);
/* Stops it first; drops what was not sent. NULL in *link is fine. */
void scheduler_link_free(struct scheduler_link **link);

/* Takes the payload's memory (*payload is empty afterwards). May be dropped when the scheduler is
 * away or the queue is full: every message is one that is sent again when it matters. */
void scheduler_link_send(struct scheduler_link *link, enum wire_kind kind, struct buf *payload);
/* Wakes the owners of boxes that have mail; after mailbox_push from another thread. */
void scheduler_link_wake(struct scheduler_link *link);
/* True while a scheduler is there. */
/* Asks for the workers of this model (model_table_asks). */
void scheduler_link_want(struct scheduler_link *link, struct bytes model);
bool scheduler_link_is_registered(const struct scheduler_link *link);

#endif
