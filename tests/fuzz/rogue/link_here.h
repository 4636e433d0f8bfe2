/*
 * link_here.h - proto/link.h within one process: queues in place of sockets, and a clock that only
 * the program moves.
 *
 * Linked before the library, it stands in for both ends of the link, the clock and the source of
 * random numbers, so that a scheduler and its peers run in one thread and an input replays exactly.
 * There is one server at a time; clients find it. A rogue speaks by link_here_say, with any epoch,
 * and hears by link_here_listen.
 *
 * Waiting on a client moves the clock; nothing else does but link_here_pass.
 */
#ifndef TESTS_FUZZ_ROGUE_LINK_HERE_H
#define TESTS_FUZZ_ROGUE_LINK_HERE_H

#include "proto/link.h"

/* The clock starts anew, and so do the random numbers. */
void link_here_reset(void);
/* ms go by. */
void link_here_pass(int64_t ms);
/* Queues a frame for the server, as if it came from this peer. Copies the payload. */
void link_here_say(struct u128 instance, enum wire_role role, enum wire_kind kind,
                   struct epoch epoch, struct bytes payload);
/* What the server sends to a peer without a client of its own. NULL: nobody listens. */
void link_here_listen(void (*hear)(void *ctx, struct u128 peer, enum wire_kind kind,
                                   struct bytes payload),
                      void *ctx);

#endif
