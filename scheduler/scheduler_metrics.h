/*
 * scheduler_metrics.h - what /metrics of the scheduler tells.
 *
 * Most values are the core's own counts, copied by scheduler_metrics_publish from the control
 * thread; the rest are added where they happen. Readers (the admin port's thread) see atomics.
 */
#ifndef SCHEDULER_SCHEDULER_METRICS_H
#define SCHEDULER_SCHEDULER_METRICS_H

#include "base/metrics.h"
#include "proto/link.h"
#include "scheduler/core/sched.h"

enum scheduler_metric {
    METRIC_WAITING, /* new | resumed */
    METRIC_RUNNING,
    METRIC_RECORDS,
    METRIC_RECORD_BYTES,
    METRIC_REPLICAS_READY,
    METRIC_GATEWAYS,
    METRIC_BLOCKS,
    METRIC_BLOCKS_USED,
    METRIC_BLOCKS_CACHED,
    METRIC_STEPS,
    METRIC_PROMPT_TOKENS,
    METRIC_STEP_TOKENS, /* computed */
    METRIC_PREFIX_HIT_TOKENS,
    METRIC_SNAPSHOTS,
    METRIC_OUTPUT_TOKENS,
    METRIC_DRAFT_TOKENS,
    METRIC_ACCEPTED_DRAFTS,
    METRIC_WASTED_ROWS,
    METRIC_PREEMPTIONS,
    METRIC_EVICTIONS,
    METRIC_REQUESTS,
    METRIC_REJECTS,  /* by reason */
    METRIC_FINISHES, /* by reason */
    METRIC_RETRANSMITS,
    METRIC_WORKER_DEATHS,
    METRIC_WORKER_FAULTS,
    METRIC_FENCES,
    METRIC_REREGISTRATIONS,
    METRIC_STALE_MESSAGES,
    METRIC_DELTAS, /* messages sent */
    METRIC_PLANS,
    METRIC_MALFORMED,    /* messages that did not decode */
    METRIC_BUNDLE_BYTES, /* relayed to gateways */
    METRIC_FRAMES,       /* in | out */
    METRIC_FRAME_BYTES,  /* in | out */
    METRIC_BAD_FRAMES,
    METRIC_STALE_FRAMES,
    METRIC_REFUSED_PEERS,
    METRIC_REFUSED_FRAMES,
    METRIC_REFUSED_SENDS,
    METRIC_REGISTRATIONS,
    METRIC_LATE_TURNS,
    METRIC_PLAN_SECONDS, /* one turn of the core */
    METRIC_COUNT
};

extern struct metric scheduler_metrics[METRIC_COUNT];
void scheduler_metrics_register(void); /* once */
void scheduler_metrics_publish(const struct sched_counts *counts, const struct link_stats *stats,
                               uint64_t late_turns);

#endif
