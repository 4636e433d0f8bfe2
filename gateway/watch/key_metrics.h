/*
 * key_metrics.h - what requests of one API key cost, for keys that have a name (auth.h).
 *
 * Every sample has the label key="NAME", the operator's word for it; of the key itself nothing is
 * ever shown. Keys of one name are counted together. They stay while the process lives.
 *
 * Threading: any.
 */
#ifndef GATEWAY_WATCH_KEY_METRICS_H
#define GATEWAY_WATCH_KEY_METRICS_H

#include "base/metrics.h"

enum { KEY_METRICS_MAX = 64 }; /* names; those past it share one, "other" */

enum key_metric {
    KEY_METRIC_REQUESTS,
    KEY_METRIC_PROMPT_TOKENS,
    KEY_METRIC_OUTPUT_TOKENS,
    KEY_METRIC_REFUSED, /* by enum key_bound */
    KEY_METRIC_COUNT
};
enum key_bound { KEY_BOUND_REQUESTS, KEY_BOUND_TOKENS };

/* A process that has them in /metrics, once. */
void key_metrics_register(void);
/* The metrics of keys of this name, KEY_METRIC_COUNT rows; made when new. */
struct metric *key_metrics_of(const char *name);

#endif
