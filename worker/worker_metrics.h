/*
 * worker_metrics.h - the worker's counters, as rows of the process's metrics registry.
 */
#ifndef WORKER_WORKER_METRICS_H
#define WORKER_WORKER_METRICS_H

#include "base/metrics.h"

enum worker_metric {
    WORKER_METRIC_STEPS,
    WORKER_METRIC_STEP_TOKENS,
    WORKER_METRIC_STEP_SECONDS,
    WORKER_METRIC_REGISTRATIONS,
    WORKER_METRIC_PLANS_REFUSED,
    WORKER_METRIC_RESULTS_DROPPED,
    WORKER_METRIC_READY,
    WORKER_METRIC_COUNT
};
extern struct metric worker_metrics[WORKER_METRIC_COUNT];

#endif
