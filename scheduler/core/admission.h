/*
 * admission.h - is the queue short enough for one more? Judged by time, not by count.
 *
 * A slot is held for some time; with R sequences in slots one comes free every (that time) / R
 * (Little's law). So a newcomer waits for as many of those as go before it. The time is measured
 * from slots that came free, and is at least as long as those now in use have been held; until some
 * have come free, from what a step takes and the output that was asked for.
 *
 * What goes before a newcomer: all resumed ones, of its own tenant's those that wait, and of each
 * other tenant's as many, since tenants take turns, or more by its weight. Priorities are not looked
 * at.
 *
 * Threading: the core's.
 */
#ifndef SCHEDULER_CORE_ADMISSION_H
#define SCHEDULER_CORE_ADMISSION_H

#include "base/base.h"

struct model;
struct request;
struct sched;

/* Of a model; zeroed at first. Sums whose older parts count less and less. */
struct admission {
    double held_ms; /* for which slots were held */
    double weight;  /* of how many */
};

/* A slot of this model came free. */
void admission_observe(struct model *model, int64_t held_ms);
/* What a queued request has to wait at the end of its queue; 0: not known, or nobody is before it. */
double admission_wait_ms(const struct sched *s, const struct request *request);
/* Until all that waits now for this model has begun; 0: not known. */
double admission_queue_ms(const struct sched *s, const struct model *model);

#endif
