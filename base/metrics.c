#include "base/metrics.h"

#include "base/hash.h"
#include "base/metrics_internal.h"
#include "base/metrics_share.h"

const double METRIC_SECONDS_BUCKETS[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                         0.25,  0.5,    1,     2.5,  5,     10,   30,
                                         60,    120,    300,   600,  1800,  3600, 0};

struct metric_table metric_tables[METRIC_TABLES_MAX];
size_t metric_table_count;
pthread_mutex_t metric_tables_lock = PTHREAD_MUTEX_INITIALIZER;

const double *metric_buckets(const struct metric *m) {
    return m->buckets ? m->buckets : METRIC_SECONDS_BUCKETS;
}

int metric_bucket_count(const struct metric *m) {
    const double *bounds = metric_buckets(m);
    int count = 0;
    while (bounds[count] != 0)
        CHECK(++count <= METRIC_BUCKETS_MAX);
    return count;
}

int metric_label_count(const struct metric *m) {
    if (!m->label)
        return 1;
    int count = 1;
    for (const char *s = m->label_values; *s; s++)
        count += *s == '|';
    CHECK_MSG(count <= METRIC_LABELS_MAX, "metric %s has %d label values", m->name, count);
    return count;
}

/* ---- registration ---- */

static uint64_t hash_text(uint64_t seed, const char *text) {
    return text ? hash64(text, strlen(text) + 1, seed) : hash64("", 0, seed);
}

/* Whatever tells two tables apart. */
static uint64_t layout_of(const struct metric *metrics, size_t count) {
    uint64_t h = count;
    for (size_t i = 0; i < count; i++) {
        const struct metric *m = &metrics[i];
        const int traits[] = {(int)m->kind, m->micro, m->told};
        h = hash_text(hash_text(hash_text(h, m->name), m->label), m->label_values);
        h = hash64(traits, sizeof traits, h);
        if (m->kind == METRIC_HISTOGRAM)
            h = hash64(metric_buckets(m), (size_t)metric_bucket_count(m) * sizeof(double), h);
    }
    return h;
}

static void share_table(const struct metric_table *t) {
    struct metric_cells *cells =
        t->label ? share_cells(t->layout, t->label, t->metrics, t->count) : NULL;
    for (size_t i = 0; cells && i < t->count; i++)
        t->metrics[i].shared = &cells[i];
}

/* label NULL: no samples of its own. */
static void add_table(struct metric *metrics, size_t count, const char *label) {
    for (size_t i = 0; i < metric_table_count; i++)
        if (metric_tables[i].metrics == metrics)
            return;
    CHECK(metric_table_count < METRIC_TABLES_MAX);
    struct metric_table *t = &metric_tables[metric_table_count++];
    *t = (struct metric_table){metrics, count, layout_of(metrics, count),
                               label ? mem_strdup(label) : NULL};
    share_table(t);
}

static void check_row(const struct metric *m) {
    CHECK(m->name && m->help && (!m->label || m->label_values));
    (void)metric_label_count(m);
    if (m->kind == METRIC_HISTOGRAM)
        (void)metric_bucket_count(m);
}

void metrics_register(struct metric *metrics, size_t count) {
    for (size_t i = 0; i < count; i++)
        check_row(&metrics[i]);
    pthread_mutex_lock(&metric_tables_lock);
    add_table(metrics, count, "");
    pthread_mutex_unlock(&metric_tables_lock);
}

void metrics_register_copies(struct metric *metrics, size_t count) {
    for (size_t i = 0; i < count; i++)
        check_row(&metrics[i]);
    pthread_mutex_lock(&metric_tables_lock);
    add_table(metrics, count, NULL);
    pthread_mutex_unlock(&metric_tables_lock);
}

void metric_add_label_text(struct buf *out, const char *label, const char *value) {
    buf_addf(out, "%s=\"", label);
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            buf_add_byte(out, '\\');
        if (*value == '\n')
            buf_add_str(out, "\\n");
        else
            buf_add_byte(out, *value);
    }
    buf_add_byte(out, '"');
}

void metrics_register_copy(struct metric *metrics, size_t count, const char *label,
                           const char *value) {
    struct buf text;
    buf_init(&text, 0);
    metric_add_label_text(&text, label, value);
    CHECK(text.len < METRIC_COPY_LABEL_MAX);
    for (size_t i = 0; i < count; i++)
        check_row(&metrics[i]);
    pthread_mutex_lock(&metric_tables_lock);
    add_table(metrics, count, buf_text(&text));
    pthread_mutex_unlock(&metric_tables_lock);
    buf_release(&text);
}

int metrics_share(const char *folder, const char *name, struct error *err) {
    pthread_mutex_lock(&metric_tables_lock);
    int rc = share_open(folder, name, err);
    for (size_t i = 0; rc == 0 && i < metric_table_count; i++)
        share_table(&metric_tables[i]);
    pthread_mutex_unlock(&metric_tables_lock);
    return rc;
}

/* ---- counting ---- */

static struct metric_cells *cells_of(struct metric *m) {
    return m->shared ? m->shared : &m->own;
}

void metric_add_label(struct metric *m, int label_idx, int64_t by) {
    CHECK(label_idx >= 0 && label_idx < METRIC_LABELS_MAX);
    __atomic_fetch_add((int64_t *)&cells_of(m)->values[label_idx], by, __ATOMIC_RELAXED);
}

void metric_set_label(struct metric *m, int label_idx, int64_t value) {
    CHECK(label_idx >= 0 && label_idx < METRIC_LABELS_MAX);
    __atomic_store_n((int64_t *)&cells_of(m)->values[label_idx], value, __ATOMIC_RELAXED);
}

void metric_add(struct metric *m, int64_t by) {
    metric_add_label(m, 0, by);
}
void metric_set(struct metric *m, int64_t value) {
    metric_set_label(m, 0, value);
}

int64_t metric_value(const struct metric *m, int label_idx) {
    const struct metric_cells *cells = m->shared ? m->shared : &m->own;
    CHECK(label_idx >= 0 && label_idx < METRIC_LABELS_MAX);
    return __atomic_load_n((const int64_t *)&cells->values[label_idx], __ATOMIC_RELAXED);
}

void metric_set_histogram(struct metric *m, const uint64_t *counts, size_t count, double sum) {
    struct metric_cells *cells = cells_of(m);
    size_t bucket_count = (size_t)metric_bucket_count(m) + 1;
    CHECK(m->told && m->kind == METRIC_HISTOGRAM && count <= bucket_count);
    for (size_t i = 0; i < bucket_count; i++)
        __atomic_store_n((uint64_t *)&cells->bucket_counts[i], i < count ? counts[i] : 0,
                         __ATOMIC_RELAXED);
    __atomic_store_n((uint64_t *)&cells->sum_micro, (uint64_t)(sum * 1e6 + 0.5), __ATOMIC_RELAXED);
}

void metric_observe(struct metric *m, double value) {
    struct metric_cells *cells = cells_of(m);
    const double *bounds = metric_buckets(m);
    int idx = 0;
    while (bounds[idx] != 0 && !(value <= bounds[idx]))
        idx++;
    __atomic_fetch_add((uint64_t *)&cells->bucket_counts[idx], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add((uint64_t *)&cells->sum_micro, value > 0 ? (uint64_t)(value * 1e6 + 0.5) : 0,
                       __ATOMIC_RELAXED);
}
