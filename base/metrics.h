/*
 * metrics.h - counters, gauges and histograms from static tables, written as Prometheus text (version 0.0.4).
 *
 * A process declares an array of struct metric (name, kind, unit, help, label) and registers it once. Values are
 * atomics: any thread may add. One optional label per metric with a fixed set of values ("reason": "stop|length|..."):
 * no client string ever becomes a label. Histograms have fixed buckets. Names: trireme_<folder>_<what>_<unit>[_total].
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include "base/buf.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
enum { METRIC_LABELS_MAX = 16, METRIC_BUCKETS_MAX = 24 };

struct metric {
    const char *name, *help;
    enum metric_kind kind;
    const char *label;                         /* NULL: none */
    const char *label_values;                  /* "stop|length|error": index order */
    const double *buckets;                     /* ascending upper bounds, ended by 0; NULL for METRIC_SECONDS_BUCKETS */
    _Atomic int64_t values[METRIC_LABELS_MAX]; /* counters, gauges (by label index) */
    _Atomic uint64_t bucket_counts[METRIC_BUCKETS_MAX + 1];
    _Atomic uint64_t observation_count, sum_micro;
};
extern const double METRIC_SECONDS_BUCKETS[]; /* 0.001 .. 60 s */

void metrics_register(struct metric *metrics, size_t count);
void metric_add(struct metric *m, int64_t by);
void metric_add_label(struct metric *m, int label_idx, int64_t by);
void metric_set(struct metric *m, int64_t value);
void metric_set_label(struct metric *m, int label_idx, int64_t value);
void metric_observe(struct metric *m, double value);
int64_t metric_value(const struct metric *m, int label_idx);
/* Appends every registered metric as Prometheus text, then trireme_process_* (resident bytes, open fds, cpu seconds,
 * start time). */
void metrics_write(struct buf *out);

#endif
