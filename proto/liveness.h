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
 */
#ifndef PROTO_LIVENESS_H
#define PROTO_LIVENESS_H

#include "base/base.h"

struct liveness {
    int64_t heartbeat_ms, silence_ms;
    int64_t tick_ms; /* of the latest tick */
    int64_t anew_ms; /* silence before this does not count */
};

struct liveness_peer {
    int64_t heard_ms;
};

/* All times are milliseconds of one clock. */
void liveness_init(struct liveness *l, int64_t heartbeat_ms, int64_t silence_ms, int64_t now_ms);
/* False when the tick was late: counting began anew, and nobody is dead now. */
bool liveness_tick(struct liveness *l, int64_t now_ms);
/* Something came from the peer. */
static inline void liveness_hear(struct liveness_peer *peer, int64_t now_ms) {
    peer->heard_ms = now_ms;
}
/* Milliseconds of silence that count, at the latest tick. */
int64_t liveness_silence(const struct liveness *l, const struct liveness_peer *peer);
/* Silent for longer than silence_ms, counted fairly, at the latest tick. */
bool liveness_is_dead(const struct liveness *l, const struct liveness_peer *peer);

#endif
