/*
 * drop_turns.h - what stays of a conversation that is longer than the model's context: its beginning
 * goes, whole turns at a time.
 *
 * The messages of the system (and developer) at the beginning stay, and what follows begins with a
 * message of the user's, so that no call's output is left without its call. The last message of the
 * user's, and what follows it, always stays.
 *
 * Threading: pure.
 */
#ifndef GATEWAY_PROMPTS_DROP_TURNS_H
#define GATEWAY_PROMPTS_DROP_TURNS_H

#include "base/buf.h"
#include "base/vec.h"

struct turn_cuts {
    size_t head;         /* bytes of the messages that stay at the beginning, with the bracket */
    VEC(size_t) offsets; /* where what stays behind them may begin, the longest rest first */
};

/* Finds the cuts of a list of messages that is valid. The first one drops something. */
void turn_cuts_find(struct turn_cuts *cuts, struct bytes messages);
void turn_cuts_release(struct turn_cuts *cuts);
/* Writes the messages that a cut leaves into *out, which is emptied first. */
void turn_cuts_apply(const struct turn_cuts *cuts, size_t cut, struct bytes messages,
                     struct buf *out);

#endif
