/*
 * handoff.h - where the control thread and the compute thread meet: jobs one way, results the
 * other.
 *
 * A job is a plan's frame, or the word to start anew; it carries the registration it belongs to.
 * Results of an older registration are dropped by the control thread. Both ways are rings of reused
 * buffers: a steady state allocates nothing.
 *
 * Invariants:
 *   (1) at most HANDOFF_JOBS jobs and as many results wait; a full ring refuses, which the wire's
 *       credit makes a bug of the peer;
 *   (2) handoff_fd is readable whenever a result waits.
 *
 * Threading: handoff_push and handoff_result by the control thread, handoff_pop and handoff_answer
 * by the compute thread.
 */
#ifndef WORKER_HANDOFF_H
#define WORKER_HANDOFF_H

#include "base/buf.h"

enum { HANDOFF_JOBS = 16 };

enum job_kind {
    JOB_PLAN = 1,
    JOB_RESET = 2, /* forget the slots: a new registration begins; answered by ANSWER_RESET */
    JOB_END = 3
};
struct job {
    enum job_kind kind;
    uint32_t registration;
    struct buf payload; /* JOB_PLAN: encoded wire_plan */
};

enum answer_kind {
    ANSWER_LOADED = 1, /* the executor is there */
    ANSWER_FAILED = 2, /* it is not, and will not be: payload is the error's text */
    ANSWER_RESET = 3,  /* payload: held blocks, see compute.h */
    ANSWER_RESULT = 4, /* payload: encoded wire_step_result */
    ANSWER_LOST = 5    /* a plan did not fit: register anew; payload is the error's text */
};
struct answer {
    enum answer_kind kind;
    uint32_t registration;
    struct buf payload;
};

struct handoff;
/* Both rings empty. Returns owned. */
struct handoff *handoff_new(void);
/* Frees what is still in it; neither thread may use it any more. NULL in *m is fine. */
void handoff_free(struct handoff **m);
/* Copies payload. False when full. */
MUST_CHECK bool handoff_push(struct handoff *m, enum job_kind kind, uint32_t registration,
                             struct bytes payload);
/* The registration of the latest JOB_RESET put; UINT32_MAX after JOB_END. Any thread: work for
 * another one is void. */
uint32_t handoff_current(const struct handoff *m);
enum { HANDOFF_FOREVER = -1 };
/* Swaps the oldest job into *job (whose buffer goes back to the ring). False when none has come
 * after wait_us microseconds; HANDOFF_FOREVER: waits until one does. */
MUST_CHECK bool handoff_pop(struct handoff *m, int64_t wait_us, struct job *job);
/* Swaps *answer in; waits while the ring is full. */
void handoff_answer(struct handoff *m, struct answer *answer);
/* Swaps the oldest answer out; false when there is none (then handoff_fd is no longer readable). */
MUST_CHECK bool handoff_result(struct handoff *m, struct answer *answer);
/* Readable while an answer waits: for the control thread to poll. Borrowed. */
int handoff_fd(const struct handoff *m);

#endif
