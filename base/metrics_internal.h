/*
 * metrics_internal.h - the tables of a process, as metrics.c keeps them and metrics_page.c writes
 * them. Private to both.
 */
#ifndef BASE_METRICS_INTERNAL_H
#define BASE_METRICS_INTERNAL_H

#include "base/metrics.h"

#include <pthread.h>

enum { METRIC_TABLES_MAX = 128 };

/* Tables of one layout are copies of each other: the page has their rows side by side. */
struct metric_table {
    struct metric *metrics;
    size_t count;
    uint64_t layout;
    char *label; /* owned; `name="value"`, or empty; NULL: others' alone are told */
};

/* All three under the lock. */
extern struct metric_table metric_tables[METRIC_TABLES_MAX];
extern size_t metric_table_count;
extern pthread_mutex_t metric_tables_lock;

/* The bounds of a histogram, ended by 0; how many they are. */
const double *metric_buckets(const struct metric *m);
int metric_bucket_count(const struct metric *m);
/* Values of its own label; 1 where it has none. */
int metric_label_count(const struct metric *m);

#endif
