#include "base/metrics.h"

#include "base/clock.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { TABLES_MAX = 64 };

const double METRIC_SECONDS_BUCKETS[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                         0.5,   1,      2.5,   5,    10,    30,   60,  0};

static struct {
    struct metric *metrics;
    size_t count;
} tables[TABLES_MAX];
static size_t table_count;
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;

static const double *buckets_of(const struct metric *m) { return m->buckets ? m->buckets : METRIC_SECONDS_BUCKETS; }

static int bucket_count(const struct metric *m) {
    const double *bounds = buckets_of(m);
    int count = 0;
    while (bounds[count] != 0) CHECK(++count <= METRIC_BUCKETS_MAX);
    return count;
}

static int label_count(const struct metric *m) {
    if (!m->label) return 1;
    int count = 1;
    for (const char *s = m->label_values; *s; s++) count += *s == '|';
    CHECK_MSG(count <= METRIC_LABELS_MAX, "metric %s has %d label values", m->name, count);
    return count;
}

void metrics_register(struct metric *metrics, size_t count) {
    for (size_t i = 0; i < count; i++) {
        CHECK(metrics[i].name && metrics[i].help && (!metrics[i].label || metrics[i].label_values));
        (void)label_count(&metrics[i]);
        if (metrics[i].kind == METRIC_HISTOGRAM) (void)bucket_count(&metrics[i]);
    }
    pthread_mutex_lock(&tables_lock);
    bool known = false;
    for (size_t i = 0; i < table_count; i++) known |= tables[i].metrics == metrics;
    CHECK(known || table_count < TABLES_MAX);
    if (!known) {
        tables[table_count].metrics = metrics;
        tables[table_count++].count = count;
    }
    pthread_mutex_unlock(&tables_lock);
}

void metric_add_label(struct metric *m, int label_idx, int64_t by) {
    CHECK(label_idx >= 0 && label_idx < METRIC_LABELS_MAX);
    __atomic_fetch_add((int64_t *)&m->values[label_idx], by, __ATOMIC_RELAXED);
}

void metric_set_label(struct metric *m, int label_idx, int64_t value) {
    CHECK(label_idx >= 0 && label_idx < METRIC_LABELS_MAX);
    __atomic_store_n((int64_t *)&m->values[label_idx], value, __ATOMIC_RELAXED);
}

void metric_add(struct metric *m, int64_t by) { metric_add_label(m, 0, by); }
void metric_set(struct metric *m, int64_t value) { metric_set_label(m, 0, value); }

int64_t metric_value(const struct metric *m, int label_idx) {
    CHECK(label_idx >= 0 && label_idx < METRIC_LABELS_MAX);
    return __atomic_load_n((const int64_t *)&m->values[label_idx], __ATOMIC_RELAXED);
}

void metric_observe(struct metric *m, double value) {
    const double *bounds = buckets_of(m);
    int idx = 0;
    while (bounds[idx] != 0 && !(value <= bounds[idx])) idx++;
    __atomic_fetch_add((uint64_t *)&m->bucket_counts[idx], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add((uint64_t *)&m->sum_micro, value > 0 ? (uint64_t)(value * 1e6 + 0.5) : 0, __ATOMIC_RELAXED);
    __atomic_fetch_add((uint64_t *)&m->observation_count, 1, __ATOMIC_RELAXED);
}

/* Help texts: only \ and line ends are special in the format. */
static void add_help(struct buf *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\\')
            buf_add_str(out, "\\\\");
        else if (*text == '\n')
            buf_add_str(out, "\\n");
        else
            buf_add_byte(out, *text);
    }
}

static void add_head(struct buf *out, const char *name, const char *help, const char *kind) {
    buf_addf(out, "# HELP %s ", name);
    add_help(out, help);
    buf_addf(out, "\n# TYPE %s %s\n", name, kind);
}

static void write_values(const struct metric *m, struct buf *out) {
    if (!m->label) {
        buf_addf(out, "%s %lld\n", m->name, (long long)metric_value(m, 0));
        return;
    }
    const char *value = m->label_values;
    for (int i = 0; i < label_count(m); i++) {
        int len = (int)strcspn(value, "|");
        buf_addf(out, "%s{%s=\"%.*s\"} %lld\n", m->name, m->label, len, value, (long long)metric_value(m, i));
        value += len + 1;
    }
}

/* Buckets are read one by one while others add: the total is their sum, so that one scrape never contradicts itself. */
static void write_histogram(const struct metric *m, struct buf *out) {
    const double *bounds = buckets_of(m);
    int count = bucket_count(m);
    uint64_t total = 0;
    for (int i = 0; i < count; i++) {
        total += __atomic_load_n((const uint64_t *)&m->bucket_counts[i], __ATOMIC_RELAXED);
        buf_addf(out, "%s_bucket{le=\"%.12g\"} %llu\n", m->name, bounds[i], (unsigned long long)total);
    }
    total += __atomic_load_n((const uint64_t *)&m->bucket_counts[count], __ATOMIC_RELAXED);
    uint64_t sum = __atomic_load_n((const uint64_t *)&m->sum_micro, __ATOMIC_RELAXED);
    buf_addf(out, "%s_bucket{le=\"+Inf\"} %llu\n", m->name, (unsigned long long)total);
    buf_addf(out, "%s_sum %llu.%06llu\n", m->name, (unsigned long long)(sum / 1000000),
             (unsigned long long)(sum % 1000000));
    buf_addf(out, "%s_count %llu\n", m->name, (unsigned long long)total);
}

static void write_metric(const struct metric *m, struct buf *out) {
    static const char *const KINDS[] = {"counter", "gauge", "histogram"};
    add_head(out, m->name, m->help, KINDS[m->kind]);
    if (m->kind == METRIC_HISTOGRAM)
        write_histogram(m, out);
    else
        write_values(m, out);
}

static void add_process(struct buf *out, const char *name, const char *help, const char *kind, double value) {
    add_head(out, name, help, kind);
    buf_addf(out, "%s %.17g\n", name, value);
}

static double resident_bytes(void) {
    FILE *f = fopen("/proc/self/statm", "re");
    long long size = 0, resident = 0;
    if (!f) return 0;
    int got = fscanf(f, "%lld %lld", &size, &resident);
    fclose(f);
    return got == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) : 0;
}

static double open_fds(void) {
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir));) count += e->d_name[0] != '.';
    closedir(dir);
    return count - 1; /* not the one that looks */
}

static double start_time_seconds;
__attribute__((constructor)) static void note_start(void) { start_time_seconds = (double)wall_ms() / 1000; }

static void write_process(struct buf *out) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    double cpu = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                 (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
    add_process(out, "trireme_process_resident_bytes", "Memory in RAM.", "gauge", resident_bytes());
    add_process(out, "trireme_process_open_fds", "Open file descriptors.", "gauge", open_fds());
    add_process(out, "trireme_process_cpu_seconds_total", "CPU time, user and system.", "counter", cpu);
    add_process(out, "trireme_process_start_time_seconds", "Start, in seconds since 1970.", "gauge",
                start_time_seconds);
}

void metrics_write(struct buf *out) {
    pthread_mutex_lock(&tables_lock);
    for (size_t i = 0; i < table_count; i++)
        for (size_t j = 0; j < tables[i].count; j++) write_metric(&tables[i].metrics[j], out);
    pthread_mutex_unlock(&tables_lock);
    write_process(out);
}
