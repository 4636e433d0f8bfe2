/*
 * answer_calls.h - tool calls of an answer, as choice.h collects them (objects of JSON,
 * comma-separated, whole or in pieces), read back for dialects that write them in another form.
 *
 * Threading: pure.
 */
#ifndef GATEWAY_ANSWERS_ANSWER_CALLS_H
#define GATEWAY_ANSWERS_ANSWER_CALLS_H

#include "base/buf.h"

/* One call, or a piece of one. */
struct answer_call {
    bool begins; /* it has an id and a name; else it is more of the last one's arguments */
    struct buf id, name, arguments;
};

/* Runs visit(ctx, call) for each of a list; the call is borrowed until visit returns. */
void answer_each_call(struct bytes calls, void (*visit)(void *ctx, const struct answer_call *call),
                      void *ctx);

#endif
