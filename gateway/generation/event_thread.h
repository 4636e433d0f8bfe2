/*
 * event_thread.h - one of the gateway's threads that serve HTTP: its generations, and what they
 * share.
 *
 * Everything here belongs to that thread, so nothing is locked. What happens in a turn of it is
 * turn.h. No generation has a timer of its own: a tick comes every EVENT_THREAD_TICK_MS, and looks at
 * EVENT_THREAD_VISITS of them in a turn, so that ten thousand are no pause for the others. Where
 * nothing waits for ticks they come every EVENT_THREAD_CALM_MS.
 */
#ifndef GATEWAY_GENERATION_EVENT_THREAD_H
#define GATEWAY_GENERATION_EVENT_THREAD_H

#include "gateway/gateway_state.h"
#include "gateway/generation/generation_list.h"
#include "gateway/generation/long_runs.h"
#include "gateway/generation/outbox.h"
#include "gateway/generation/submission_map.h"

enum {
    EVENT_THREAD_TICK_MS = 100,
    EVENT_THREAD_CALM_MS = 900, /* a pulse a second */
    EVENT_THREAD_VISITS = 256
};

struct generation;
struct follower;
struct model_follower;
struct resume;
struct model_waiter;

/* Requests of /health/e2e that wait for a probe's result (health.h). */
struct health_waiter {
    struct http_request *req;
    struct u128 holder; /* of its place among the watchers */
    int64_t since_ms;
};

/* Scratch of one event of a response; nothing in it outlives a call. */
struct scratch {
    struct buf out, piece, entries, extra;
};

struct event_thread {
    struct gateway *gw; /* borrowed */
    int idx;
    bool registered;    /* a scheduler is there, as far as this thread was told */
    struct epoch epoch; /* of it */
    struct submission_map submissions;
    struct generation_list generations;
    bool round_goes_on;                 /* a turn was asked for, in which the round goes on */
    struct long_runs long_runs;         /* that wait for their turn */
    bool long_runs_go_on;               /* which was asked for */
    struct model_waiter *model_waiters; /* operators that add a model (model_control.h) */
    struct resume *resumes;    /* clients that ask for a stream, not yet answered (resume.h) */
    struct generation *opened; /* opened in this turn, not yet tried; NULL: none */
    struct outbox outbox;
    int64_t now_us, now_ms; /* of this turn */
    int64_t busy_ms; /* thread 0: when there was last something to do; 0: calm since a trim */
    uint32_t connections_most; /* thread 0: at once, since half of them left */
    int64_t output_tokens;     /* taken and not yet in the metrics */
    VEC(struct health_waiter) health;
    struct follower *followers;             /* of response_calls.h */
    struct model_follower *model_followers; /* of model_events.h */
    struct scratch scratch;
};

/* Borrows gw; gw->link must be there. Returns owned. */
struct event_thread *event_thread_new(struct gateway *gw, int idx);
/* After its thread has ended and its generations have (turn_end); the link is still there. */
void event_thread_free(struct event_thread **thread);
/* Reads the clock: once in each callback from HTTP or the mailbox. */
void event_thread_set_now(struct event_thread *thread);

#endif
