/*
 * metrics_page.c - what is counted, as Prometheus text: of this process, and of those that share
 * with it.
 */
#include "base/metrics.h"

#include "base/clock.h"
#include "base/metrics_internal.h"
#include "base/metrics_share.h"
#include "base/vec.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif
#if defined(__x86_64__)
#define MACHINE "x86_64"
#elif defined(__aarch64__)
#define MACHINE "aarch64"
#else
#define MACHINE "other"
#endif

/* A table's samples: of this process, or of another that shares with it. */
struct source {
    const char *label;
    const struct metric *metrics;     /* NULL: another's */
    const struct metric_cells *cells; /* of another */
    bool live;
};
struct sources {
    struct source *items;
    size_t count, cap;
};

static void find_sources(uint64_t layout, const struct share_view *view, struct sources *out) {
    out->count = 0;
    for (size_t i = 0; i < metric_table_count; i++)
        if (metric_tables[i].layout == layout && metric_tables[i].label) {
            const struct source s = {metric_tables[i].label, metric_tables[i].metrics, NULL, true};
            vec_push(out, s);
        }
    for (size_t i = 0; i < view->count; i++) {
        struct share_block b;
        for (size_t at = 0; share_next_block(&view->peers[i], layout, &at, &b);) {
            const struct source s = {b.label, NULL, b.cells, b.live};
            vec_push(out, s);
        }
    }
}

static uint64_t joined(const struct metric *m, uint64_t sum, const _Atomic uint64_t *cell) {
    uint64_t value = __atomic_load_n((const uint64_t *)cell, __ATOMIC_RELAXED);
    return m->told ? MAX(sum, value) : sum + value;
}

/* Buckets are read one by one while others add: the total is their sum, so that one scrape never
 * contradicts itself. */
static void add_cells(const struct metric *m, const struct metric_cells *from, bool live,
                      struct metric_cells *sum) {
    if (!live && (m->kind == METRIC_GAUGE || m->told))
        return;
    for (int k = 0; k < METRIC_LABELS_MAX; k++) {
        int64_t value = __atomic_load_n((const int64_t *)&from->values[k], __ATOMIC_RELAXED);
        sum->values[k] = m->told ? MAX((int64_t)sum->values[k], value) : sum->values[k] + value;
    }
    for (int k = 0; k <= METRIC_BUCKETS_MAX && m->kind == METRIC_HISTOGRAM; k++)
        sum->bucket_counts[k] = joined(m, sum->bucket_counts[k], &from->bucket_counts[k]);
    sum->sum_micro = joined(m, sum->sum_micro, &from->sum_micro);
}

static void gather(const struct sources *sources, const struct metric *rows, size_t row,
                   const char *label, struct metric_cells *sum) {
    memset(sum, 0, sizeof *sum);
    for (size_t i = 0; i < sources->count; i++) {
        const struct source *s = &sources->items[i];
        if (strcmp(s->label, label) != 0)
            continue;
        const struct metric *own = s->metrics ? &s->metrics[row] : NULL;
        const struct metric_cells *cells = !own          ? &s->cells[row]
                                           : own->shared ? own->shared
                                                         : &own->own;
        add_cells(&rows[row], cells, s->live, sum);
    }
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

/* The labels of a sample: the copy's, then the metric's own. */
static void add_labels(struct buf *out, const char *copy, const char *name, const char *value,
                       int value_len) {
    if (!*copy && !name)
        return;
    buf_addf(out, "{%s%s", copy, *copy && name ? "," : "");
    if (name)
        buf_addf(out, "%s=\"%.*s\"", name, value_len, value);
    buf_add_byte(out, '}');
}

static void add_value(struct buf *out, const struct metric *m, int64_t value) {
    if (m->micro)
        buf_addf(out, " %.12g\n", (double)value * 1e-6);
    else
        buf_addf(out, " %lld\n", (long long)value);
}

static void write_values(const struct metric *m, const struct metric_cells *cells, const char *copy,
                         struct buf *out) {
    const char *value = m->label ? m->label_values : "";
    for (int i = 0; i < metric_label_count(m); i++) {
        int len = (int)strcspn(value, "|");
        buf_add_str(out, m->name);
        add_labels(out, copy, m->label, value, len);
        add_value(out, m, cells->values[i]);
        value += len + 1;
    }
}

static void write_histogram(const struct metric *m, const struct metric_cells *cells,
                            const char *copy, struct buf *out) {
    const double *bounds = metric_buckets(m);
    int count = metric_bucket_count(m);
    uint64_t total = 0, sum = cells->sum_micro;
    char le[32];
    for (int i = 0; i <= count; i++) {
        int len = i < count ? snprintf(le, sizeof le, "%.12g", bounds[i])
                            : snprintf(le, sizeof le, "+Inf");
        total += cells->bucket_counts[i];
        buf_addf(out, "%s_bucket", m->name);
        add_labels(out, copy, "le", le, len);
        buf_addf(out, " %llu\n", (unsigned long long)total);
    }
    buf_addf(out, "%s_sum", m->name);
    add_labels(out, copy, NULL, NULL, 0);
    buf_addf(out, " %llu.%06llu\n%s_count", (unsigned long long)(sum / 1000000),
             (unsigned long long)(sum % 1000000), m->name);
    add_labels(out, copy, NULL, NULL, 0);
    buf_addf(out, " %llu\n", (unsigned long long)total);
}

/* Whether an earlier source has this label, too. */
static bool is_repeated(const struct sources *sources, size_t at) {
    for (size_t i = 0; i < at; i++)
        if (!strcmp(sources->items[i].label, sources->items[at].label))
            return true;
    return false;
}

static void write_row(const struct metric_table *t, size_t row, const struct sources *sources,
                      struct buf *out) {
    static const char *const KINDS[] = {"counter", "gauge", "histogram"};
    const struct metric *m = &t->metrics[row];
    struct metric_cells sum;
    add_head(out, m->name, m->help, KINDS[m->kind]);
    for (size_t i = 0; i < sources->count; i++) {
        const char *copy = sources->items[i].label;
        if (is_repeated(sources, i))
            continue;
        gather(sources, t->metrics, row, copy, &sum);
        if (m->kind == METRIC_HISTOGRAM)
            write_histogram(m, &sum, copy, out);
        else
            write_values(m, &sum, copy, out);
    }
}

/* The first table of its layout writes for all. */
static bool is_copy(size_t table) {
    for (size_t i = 0; i < table; i++)
        if (metric_tables[i].layout == metric_tables[table].layout)
            return true;
    return false;
}

static void write_tables(const struct share_view *view, struct buf *out) {
    struct sources sources = {0};
    for (size_t i = 0; i < metric_table_count; i++) {
        if (is_copy(i))
            continue;
        find_sources(metric_tables[i].layout, view, &sources);
        for (size_t row = 0; row < metric_tables[i].count; row++)
            write_row(&metric_tables[i], row, &sources, out);
    }
    vec_release(&sources);
}

/* ---- processes ---- */

static double start_time_seconds;
__attribute__((constructor)) static void note_start(void) {
    start_time_seconds = (double)wall_ms() / 1000;
}

/* A file of /proc/PID; NULL: it has ended. */
static FILE *open_proc(uint32_t pid, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
    return fopen(path, "re");
}

static double resident_bytes(uint32_t pid) {
    FILE *f = open_proc(pid, "statm");
    long long size = 0, resident = 0;
    if (!f)
        return 0;
    int got = fscanf(f, "%lld %lld", &size, &resident);
    fclose(f);
    return got == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) : 0;
}

static double open_fds(uint32_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/fd", pid);
    DIR *dir = opendir(path);
    int count = 0;
    if (!dir)
        return 0;
    for (struct dirent *e; (e = readdir(dir));)
        count += e->d_name[0] != '.';
    closedir(dir);
    return count - (pid == (uint32_t)getpid()); /* not the one that looks */
}

/* Fields 14, 15 and 22 of proc(5)'s stat, in clock ticks; the name before them may hold anything
 * but ends with the last bracket. */
struct proc_ticks {
    unsigned long long user, system, start;
};
static struct proc_ticks read_ticks(uint32_t pid) {
    FILE *f = open_proc(pid, "stat");
    char line[1024] = "";
    struct proc_ticks t = {0};
    if (!f)
        return t;
    const char *rest = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    fclose(f);
    if (!rest || sscanf(rest + 1,
                        " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu %*s %*s %*s %*s "
                        "%*s %*s %llu",
                        &t.user, &t.system, &t.start) != 3)
        return (struct proc_ticks){0};
    return t;
}

static double cpu_seconds(uint32_t pid) {
    struct proc_ticks t = read_ticks(pid);
    return (double)(t.user + t.system) / (double)sysconf(_SC_CLK_TCK);
}

/* Of another process: this one's, and by how many ticks it began later. */
static double start_seconds(uint32_t pid) {
    if (pid == (uint32_t)getpid())
        return start_time_seconds;
    double ticks = (double)read_ticks(pid).start - (double)read_ticks((uint32_t)getpid()).start;
    return start_time_seconds + ticks / (double)sysconf(_SC_CLK_TCK);
}

static const struct process_row {
    const char *name, *help, *kind;
    double (*read)(uint32_t pid);
} process_rows[] = {
    {"trireme_process_resident_bytes", "Memory in RAM.", "gauge", resident_bytes},
    {"trireme_process_open_fds", "Open file descriptors.", "gauge", open_fds},
    {"trireme_process_cpu_seconds_total", "CPU time, user and system.", "counter", cpu_seconds},
    {"trireme_process_start_time_seconds", "Start, in seconds since 1970.", "gauge", start_seconds},
};

static void write_process(const struct process_row *row, uint32_t pid, int place, struct buf *out) {
    buf_add_str(out, row->name);
    if (place >= 0)
        buf_addf(out, "{instance=\"%d\"}", place);
    buf_addf(out, " %.17g\n", row->read(pid));
}

static void write_processes(const struct share_view *view, struct buf *out) {
    for (size_t i = 0; i < ARRAY_LEN(process_rows); i++) {
        const struct process_row *row = &process_rows[i];
        add_head(out, row->name, row->help, row->kind);
        write_process(row, (uint32_t)getpid(), share_place(), out);
        for (size_t k = 0; k < view->count; k++)
            if (view->peers[k].live)
                write_process(row, view->peers[k].pid, view->peers[k].place, out);
    }
}

/* What a panel joins with, to tell versions apart; its value says nothing. */
static void write_build(struct buf *out) {
    add_head(out, "trireme_build_info", "What this process was built from.", "gauge");
    buf_addf(out, "trireme_build_info{version=\"%s\",compiler=\"%s\",machine=\"%s\"} 1\n",
             TRIREME_VERSION, COMPILER, MACHINE);
}

void metrics_write(struct buf *out) {
    struct share_view view;
    pthread_mutex_lock(&metric_tables_lock);
    share_view_open(&view);
    write_tables(&view, out);
    write_build(out);
    write_processes(&view, out);
    share_view_close(&view);
    pthread_mutex_unlock(&metric_tables_lock);
}
