/*
 * liveness.h - who is silent, judged fairly. Pure: time is an argument.
 *
 * A peer is dead when nothing was heard from it for silence_ms *while the judge itself ran*. The
 * judge ticks every heartbeat; a tick that comes later than two heartbeats after the one before
 * means that the judge was stopped or starved, and that peers' words may still wait in its sockets:
 * it counts everyone's silence anew from then. So a scheduler that was paused for ten seconds
 * condemns nobody on waking.
 *
 * Use: drain the sockets (liveness_hear for each frame), then liveness_tick, then ask
 * liveness_is_dead. When not everything could be drained, don't ask.
 *
 * A peer to which, and from which, nothing but signs of life went for LIVENESS_QUIET_AFTER_MS, and
 * which says that it idles, is quiet: signs of life are up to LIVENESS_QUIET_TIMES as seldom, and so
 * long may its silence be. So a server that nobody uses hardly wakes. The first word to it ends that,
 * and its silence counts from there. Both ends know the same words, so both come to the same.
 */
#ifndef PROTO_LIVENESS_H
#define PROTO_LIVENESS_H

#include "base/base.h"
#include "proto/messages.h"

/* Whether a frame of this kind goes also where nothing happens. */
static inline bool liveness_is_sign(uint32_t kind) {
    return kind == WIRE_HEARTBEAT || kind == WIRE_STATUS;
}

enum { LIVENESS_QUIET_TIMES = 4, LIVENESS_QUIET_MS = 1000, LIVENESS_QUIET_AFTER_MS = 5000 };

struct liveness {
    int64_t heartbeat_ms, silence_ms;
    int64_t tick_ms; /* of the latest tick */
    int64_t anew_ms; /* silence before this does not count */
    bool slow;       /* ticks come every liveness_quiet_ms */
};

/* Zero: nothing was heard. */
struct liveness_peer {
    int64_t heard_ms;
    int64_t talk_ms;  /* when there was last more than a sign of life, either way */
    int64_t told_ms;  /* when anything was last sent to it */
    bool knows_quiet; /* its build does */
    bool idle;        /* it says so */
    bool quiet;
};

/* All times are milliseconds of one clock. */
void liveness_init(struct liveness *l, int64_t heartbeat_ms, int64_t silence_ms, int64_t now_ms);
/* Between signs of life to and from a quiet peer: no more than LIVENESS_QUIET_MS, unless heartbeats
 * are rarer anyway. */
int64_t liveness_quiet_ms(const struct liveness *l);
/* How often to tick from now on; slow: all peers are quiet. The first tick after slow ones may be
 * late: then everyone's silence counts anew. */
int64_t liveness_set_slow(struct liveness *l, bool slow);
/* More than a sign of life went to the peer or came from it. */
void liveness_talk(struct liveness_peer *peer, int64_t now_ms);
/* At a tick: whether the peer is to get a sign of life now; it may become quiet. */
bool liveness_is_due(const struct liveness *l, struct liveness_peer *peer, int64_t now_ms);
/* False when the tick was late: counting began anew, and nobody is dead now. */
bool liveness_tick(struct liveness *l, int64_t now_ms);
/* Something came from the peer. */
static inline void liveness_hear(struct liveness_peer *peer, int64_t now_ms) {
    peer->heard_ms = now_ms;
}
/* Milliseconds of silence that count, at the latest tick. */
int64_t liveness_silence(const struct liveness *l, const struct liveness_peer *peer);
/* Silent for longer than silence_ms, or what is that of a quiet peer, counted fairly, at the latest
 * tick. */
bool liveness_is_dead(const struct liveness *l, const struct liveness_peer *peer);

#endif
