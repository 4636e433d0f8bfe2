/*
 * submit.h - what gateways say of requests: Submit, Cancel, Pause, Ack, Resend, Attach (sched.h).
 *
 * A new request is taken at once and may still be refused at the end of its turn, when what could
 * be placed has been placed: so a burst into an idle scheduler is not refused for a full queue.
 */
#ifndef SCHEDULER_CORE_SUBMIT_H
#define SCHEDULER_CORE_SUBMIT_H

struct sched;

/* At the end of a turn: while more wait for a model than waiting_max, its newest of this turn are
 * refused, of tenants with more than their share (waiting.h); the others are told that they are
 * accepted. */
void new_requests_finish(struct sched *s);

#endif
