/*
 * shard.h - one event thread's share of the gateway: its requests, and the way between them and the control thread.
 *
 * Everything here runs on that thread, so nothing is locked. Mail comes in (shard_collect), ticks come every
 * SHARD_TICK_MS (deadlines, repeated Submits, keep-alive comments: no request has a timer of its own), messages go out
 * through wire_send. Acknowledgements of all requests are gathered and sent as one message a turn at most every
 * SHARD_ACK_MS.
 */
#ifndef GATEWAY_SHARD_H
#define GATEWAY_SHARD_H

#include "base/vec.h"
#include "gateway/gateway.h"
#include "gateway/health.h"
#include "gateway/part_map.h"
#include "gateway/stream.h"

enum { SHARD_TICK_MS = 100, SHARD_ACK_MS = 10, SHARD_GHOSTS = 256, SHARD_GHOST_MS = 500 };

struct shard_ack {
    struct part *part; /* NULL: its stream has ended, what follows is final */
    struct u128 request;
    uint32_t attempt, choice, count;
};

struct shard {
    struct gateway *gw;
    int idx;
    bool registered;    /* a scheduler is there, as far as this thread was told */
    struct epoch epoch; /* of it */
    struct part_map parts;
    struct stream *streams; /* open ones, newest first */
    VEC(struct shard_ack) acks;
    int64_t acks_ms;        /* when they were last sent */
    int64_t now_us, now_ms; /* of this turn */
    int64_t output_tokens;  /* taken and not yet in the metrics */
    struct { /* requests that tokens came for though we have none such: told to stop, at most every SHARD_GHOST_MS */
        struct u128 request;
        int64_t at_ms;
    } ghosts[SHARD_GHOSTS];
    struct health_waiters health;
    struct buf out, piece, entries, extra; /* scratch of one event */
};

struct shard *shard_new(struct gateway *gw, int idx);
void shard_free(struct shard **shard); /* after its thread has ended; the wire is still there */
void shard_set_now(struct shard *shard);
/* Takes what waits in the mailbox. */
void shard_collect(struct shard *shard);
void shard_tick(struct shard *shard);

/* Notes that tokens of a choice were taken. */
void shard_ack(struct shard *shard, struct part *part, uint32_t choice);
/* The part goes away: what is to be acknowledged of it is settled now, or forgotten when nobody wants to know. */
void shard_settle_acks(struct shard *shard, struct part *part, bool wanted);
void shard_flush_acks(struct shard *shard);
void shard_cancel(struct shard *shard, struct u128 request, uint32_t attempt, uint32_t choice);

#endif
