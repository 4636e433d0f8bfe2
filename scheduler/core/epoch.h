/*
 * epoch.h - which frames a scheduler may believe, and when it has been replaced.
 *
 * An epoch is (number, random instance), so any two are ordered. A scheduler starts above the wall clock and above
 * whatever peers report in their Hello; peers drop frames of lower epochs. A frame that is not a Hello and bears a
 * higher epoch can only come from a peer that serves a newer scheduler: this one has to exit.
 */
#ifndef SCHEDULER_CORE_EPOCH_H
#define SCHEDULER_CORE_EPOCH_H

#include "proto/frame.h"

enum epoch_verdict {
    EPOCH_TAKE,      /* the current epoch, or a Hello */
    EPOCH_STALE,     /* drop it; the peer is answered with our own epoch by the next heartbeat and says Hello */
    EPOCH_ROSE,      /* a Hello reported more than ours: *mine is above it now; all peers have to say Hello anew */
    EPOCH_SUPERSEDED /* exit: a newer scheduler lives */
};

struct epoch epoch_start(uint64_t wall_ms, struct u128 instance);
/* hello: the message of a WIRE_HELLO frame, else NULL. May raise *mine. */
enum epoch_verdict epoch_judge(struct epoch *mine, const struct frame *frame, const struct wire_hello *hello);

#endif
