/*
 * outbox.h - what an event thread tells the scheduler about its submissions: acknowledgements,
 * cancels, pauses, questions.
 *
 * Acknowledgements of all submissions are gathered and sent as one message at most every
 * OUTBOX_ACK_MS. The other messages go at once. Any of them may be lost with the scheduler: each is
 * sent again when it matters.
 *
 * Invariants:
 *   (1) A choice is in `acks` at most once; its delivery_choice.ack_place is 1 + its index there.
 *   (2) An entry whose delivery is NULL is settled: what it holds is final.
 *
 * Threading: the event thread that owns it.
 */
#ifndef GATEWAY_GENERATION_OUTBOX_H
#define GATEWAY_GENERATION_OUTBOX_H

#include "base/vec.h"
#include "gateway/generation/delivery.h"
#include "proto/messages.h"

enum { OUTBOX_ACK_MS = 10, OUTBOX_UNKNOWN_MAX = 256, OUTBOX_UNKNOWN_AGAIN_MS = 500 };

struct scheduler_link;

struct ack_entry {
    struct delivery *delivery; /* borrowed; NULL: settled */
    struct u128 request;       /* settled and zero: nobody wants to know */
    uint32_t attempt, choice, count;
};

struct outbox {
    struct scheduler_link *link; /* borrowed */
    VEC(struct ack_entry) acks;
    int64_t acks_ms; /* when they were last sent */
    /* requests that tokens came for though none such is here: when each was last cancelled */
    struct {
        struct u128 request;
        int64_t at_ms;
    } unknown[OUTBOX_UNKNOWN_MAX];
};

/* Borrows the link. */
void outbox_init(struct outbox *o, struct scheduler_link *link);
/* Frees the list; what was not sent is forgotten. */
void outbox_release(struct outbox *o);

/* Notes that tokens of a choice were taken. Borrows the delivery until outbox_finish_acks. */
void outbox_ack(struct outbox *o, struct delivery *d, uint32_t choice);
/* The delivery goes away: what is to be acknowledged of it is fixed now (wanted), or forgotten. */
void outbox_finish_acks(struct outbox *o, struct delivery *d, bool wanted);
/* Sends what was gathered, if `force` or OUTBOX_ACK_MS have passed. */
void outbox_flush_acks(struct outbox *o, int64_t now_ms, bool force);

/* Ends a choice (or WIRE_ALL_CHOICES) at the scheduler. */
void outbox_cancel(struct outbox *o, struct u128 request, uint32_t attempt, uint32_t choice);
/* Has a request run on for whoever attaches, if it is resumable; else ends it. */
void outbox_detach(struct outbox *o, struct u128 request, uint32_t attempt);
/* The same for a request that is not here; at most every OUTBOX_UNKNOWN_AGAIN_MS. */
void outbox_cancel_unknown(struct outbox *o, struct u128 request, uint32_t attempt, int64_t now_ms);
/* Asks for a choice's tokens from the next index on. */
void outbox_ask(struct outbox *o, const struct delivery *d, uint32_t choice);
/* Asks for a stream of another gateway's. */
void outbox_attach(struct outbox *o, const struct wire_attach *attach);
/* Has the scheduler stop or resume making tokens. */
void outbox_pause(struct outbox *o, const struct delivery *d, bool paused);

#endif
