/*
 * timer.h - one timer a request, in a binary heap: deadline, retransmission, probe, expiry.
 *
 * A key may be earlier than what is due: then nothing happens but that it moves back. So progress,
 * which only puts things off, costs nothing.
 */
#ifndef SCHEDULER_CORE_TIMER_H
#define SCHEDULER_CORE_TIMER_H

#include "scheduler/core/request.h"

/* One of the request's times has changed: its timer rings no later than the earliest. */
void timer_update(struct sched *s, struct request *request);
/* Nothing happens if it has none. */
void timer_remove(struct sched *s, struct request *request);
/* Does what is due now; may reject, finish and drop requests. */
void timers_run(struct sched *s);
/* When timers_run has something to do at the earliest; NEVER. */
int64_t timers_next(const struct sched *s);

#endif
