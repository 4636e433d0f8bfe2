/*
 * gateway_metrics.h - what a gateway counts, as rows of the process's metrics registry.
 */
#ifndef GATEWAY_WATCH_GATEWAY_METRICS_H
#define GATEWAY_WATCH_GATEWAY_METRICS_H

#include "base/metrics.h"

enum gateway_metric {
    GATEWAY_METRIC_REQUESTS, /* by dialect */
    GATEWAY_METRIC_ANSWERS,  /* by status: see gateway_metrics_answer */
    GATEWAY_METRIC_FINISHES, /* choices, by enum choice_finish - 1, then cancelled */
    GATEWAY_METRIC_PROMPT_TOKENS,
    GATEWAY_METRIC_CACHED_TOKENS,
    GATEWAY_METRIC_OUTPUT_TOKENS,
    GATEWAY_METRIC_OPEN,        /* gauge: requests running or waiting */
    GATEWAY_METRIC_WAITING,     /* gauge: of these, without a model or a scheduler yet */
    GATEWAY_METRIC_PAUSED,      /* gauge: streams whose client reads too slowly */
    GATEWAY_METRIC_FIRST_TOKEN, /* histogram, seconds */
    GATEWAY_METRIC_NEXT_TOKEN,  /* histogram, seconds */
    GATEWAY_METRIC_DURATION,    /* histogram, seconds */
    GATEWAY_METRIC_RESUBMITS,
    GATEWAY_METRIC_GAPS,
    GATEWAY_METRIC_DUPLICATES,
    GATEWAY_METRIC_STALE,
    GATEWAY_METRIC_SENDS_DROPPED,
    GATEWAY_METRIC_MAIL_DROPPED,
    GATEWAY_METRIC_TRACES,    /* requests, by what became of their spans (trace_export.c) */
    GATEWAY_METRIC_SCHEDULER, /* gauge: 1 while a scheduler is there */
    GATEWAY_METRIC_COUNT
};

extern struct metric gateway_metrics[GATEWAY_METRIC_COUNT];
/* Once in a process that wants them in /metrics. Counting works without. */
void gateway_metrics_register(void);
/* Counts an answer; 499 is a client that went away. */
void gateway_metrics_answer(int status);

/* Counts choices that were not wanted any more before they had ended. */
void gateway_metrics_cancelled(int64_t choice_count);

#endif
