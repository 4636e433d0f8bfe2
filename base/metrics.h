/*
 * metrics.h - counters, gauges and histograms from static tables, written as Prometheus text
 * (version 0.0.4).
 *
 * A process declares an array of struct metric (name, kind, unit, help, label) and registers it
 * once. Values are atomics: any thread may add. One optional label per metric with a fixed set of
 * values ("reason": "stop|length|..."): no client string ever becomes a label. Histograms have
 * fixed buckets. Names: trireme_<folder>_<what>_<unit>[_total].
 *
 * Copies of a table may be registered under a label of their own each (model_name="..."): the page
 * has their samples side by side.
 *
 * Several processes behind one port are one to whoever scrapes it (metrics_share): their cells lie
 * in files that each of them reads, so every one shows the same sums, and no counter goes back,
 * whichever answers and whichever was replaced.
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include "base/buf.h"
#include "base/error.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
enum { METRIC_LABELS_MAX = 20, METRIC_BUCKETS_MAX = 24, METRIC_COPY_LABEL_MAX = 320 };

/* The values of one metric. */
struct metric_cells {
    _Atomic int64_t values[METRIC_LABELS_MAX]; /* counters, gauges (by label index) */
    _Atomic uint64_t bucket_counts[METRIC_BUCKETS_MAX + 1];
    _Atomic uint64_t sum_micro;
};

struct metric {
    const char *name, *help;
    enum metric_kind kind;
    const char *label;        /* NULL: none */
    const char *label_values; /* "stop|length|error": index order */
    /* ascending upper bounds, ended by 0; NULL for METRIC_SECONDS_BUCKETS */
    const double *buckets;
    bool micro; /* values count millionths */
    bool told;  /* what another process said last: of processes that share, the largest counts */
    struct metric_cells own;
    struct metric_cells *shared; /* NULL: own; set by metrics_share */
};
extern const double METRIC_SECONDS_BUCKETS[]; /* 1 ms to 1 h */

/* Keeps `metrics` for metrics_write, for as long as the process runs. A table that is registered
 * twice is written once. */
void metrics_register(struct metric *metrics, size_t count);
/* As metrics_register, for a table of which there are several: each of their samples has the label
 * `label="value"`. All have the same rows, in one order. Both texts are copied; the label with its
 * value must fit into METRIC_COPY_LABEL_MAX bytes. Before anything counts in it. */
void metrics_register_copy(struct metric *metrics, size_t count, const char *label,
                           const char *value);
/* Has the page tell what other processes count in copies of this table, whether or not this process
 * has one yet. The table itself has no samples. */
void metrics_register_copies(struct metric *metrics, size_t count);
/* From here on this process and all that called it with the same folder and name show the same
 * values: of counters and histograms the sum over all that live or lived, of gauges over those that
 * live. Tables registered before and after are shared. Counts go on where the process before it in
 * its place had ended. Call it before any thread counts. 0, or a code with *err filled: the process
 * counts alone. */
MUST_CHECK int metrics_share(const char *folder, const char *name, struct error *err);
/* Adds to a metric without labels. */
void metric_add(struct metric *m, int64_t by);
/* Adds to the value of one label, 0 <= label_idx < count of label_values. */
void metric_add_label(struct metric *m, int label_idx, int64_t by);
/* Sets a gauge without labels. */
void metric_set(struct metric *m, int64_t value);
/* Sets a gauge for one label. */
void metric_set_label(struct metric *m, int label_idx, int64_t value);
/* Adds an observation to a histogram, in the unit of its buckets. */
void metric_observe(struct metric *m, double value);
/* Sets a told histogram without labels: counts[i] observations in bucket i, whose last one has those
 * past every bound, and their sum. Buckets from `count` on, which is no more than there are, become
 * 0. */
void metric_set_histogram(struct metric *m, const uint64_t *counts, size_t count, double sum);
/* The value of a counter or gauge; label_idx 0 where there are no labels. */
int64_t metric_value(const struct metric *m, int label_idx);
/* Appends `label="value"`, escaped as Prometheus' text wants. */
void metric_add_label_text(struct buf *out, const char *label, const char *value);
/* Appends every registered metric as Prometheus text, then trireme_build_info and
 * trireme_process_* (resident bytes, open fds, cpu seconds, start time); of processes that share,
 * the latter for each, with the label instance. */
void metrics_write(struct buf *out);

#endif
