#include "worker/worker_metrics.h"

struct metric worker_metrics[WORKER_METRIC_COUNT] = {
    [WORKER_METRIC_STEPS] = {.name = "trireme_worker_steps_total", .help = "steps computed", .kind = METRIC_COUNTER},
    [WORKER_METRIC_STEP_TOKENS] = {.name = "trireme_worker_step_tokens_total",
                                   .help = "rows computed in steps",
                                   .kind = METRIC_COUNTER},
    [WORKER_METRIC_STEP_SECONDS] = {.name = "trireme_worker_step_seconds",
                                    .help = "time a step's computation took",
                                    .kind = METRIC_HISTOGRAM},
    [WORKER_METRIC_REGISTRATIONS] = {.name = "trireme_worker_registrations_total",
                                     .help = "registrations with a scheduler",
                                     .kind = METRIC_COUNTER},
    [WORKER_METRIC_PLANS_REFUSED] = {.name = "trireme_worker_plans_refused_total",
                                     .help = "plans that did not fit: the worker registered anew",
                                     .kind = METRIC_COUNTER},
    [WORKER_METRIC_RESULTS_DROPPED] = {.name = "trireme_worker_results_dropped_total",
                                       .help = "results of a registration that had ended",
                                       .kind = METRIC_COUNTER},
    [WORKER_METRIC_READY] = {.name = "trireme_worker_ready",
                             .help = "1 when loaded and registered",
                             .kind = METRIC_GAUGE},
};
