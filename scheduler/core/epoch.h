/*
 * epoch.h - which frames a scheduler may believe, and when it has been replaced.
 *
 * An epoch is (number, random instance), so any two are ordered. Peers adopt higher epochs. They drop
 * a frame of a lower one, and answer it with a heartbeat on the same connection. A scheduler starts
 * above the wall clock. While it is young, it rises above a higher epoch of a peer that it has not
 * served yet: that epoch is left from a scheduler that is gone, or a clock went back. Later, or from
 * a peer that it has served, a higher epoch means that a newer scheduler lives, and this one has to
 * exit. A number too far ahead of the clock (EPOCH_AHEAD_MAX_MS) is ignored.
 */
#ifndef SCHEDULER_CORE_EPOCH_H
#define SCHEDULER_CORE_EPOCH_H

#include "proto/frame.h"

enum epoch_verdict {
    EPOCH_TAKE, /* of the current epoch, or a Hello */
    /* drop it; answer the peer with any frame of ours (a heartbeat): it adopts our epoch and says
     * Hello */
    EPOCH_STALE,
    /* *mine is above it now: every peer has to say Hello anew, none counts as served. Take it if it
     * is a Hello, else do as for EPOCH_STALE */
    EPOCH_ROSE,
    EPOCH_SUPERSEDED /* exit: a newer scheduler lives */
};

enum { EPOCH_YOUNG_MS = 5000 };

/* The epoch of a scheduler that starts: its number is the wall clock's milliseconds + 1, so
 * that it is above those of schedulers before it; it may rise (EPOCH_ROSE). */
struct epoch epoch_start(uint64_t wall_ms, struct u128 instance);
/* No scheduler's epoch is further above the wall clock: 139 years, so that a clock which was wrong
 * is forgiven, and no peer can name a number that nothing is above. */
#define EPOCH_AHEAD_MAX_MS (UINT64_C(1) << 42)
/* hello: the message of a WIRE_HELLO frame, else NULL. served: the peer has said Hello to the
 * current *mine. age_ms: since epoch_start, sleep included. May raise *mine. */
enum epoch_verdict epoch_compare_frame(struct epoch *mine, const struct frame *frame,
                                       const struct wire_hello *hello, bool served, int64_t age_ms,
                                       uint64_t wall_ms);

#endif
