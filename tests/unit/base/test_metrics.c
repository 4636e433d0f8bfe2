#include "base/metrics.h"
#include "check.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const double SMALL_BUCKETS[] = {1, 2.5, 10, 0};
enum { REQUESTS, FINISHED, RUNNING, SECONDS, SIZES, METRIC_COUNT };
static struct metric metrics[METRIC_COUNT] = {
    [REQUESTS] = {"trireme_test_requests_total", "Requests \\ taken\nin all.", METRIC_COUNTER},
    [FINISHED] = {"trireme_test_finished_total", "By reason.", METRIC_COUNTER, "reason", "stop|length|error"},
    [RUNNING] = {"trireme_test_running", "Now.", METRIC_GAUGE},
    [SECONDS] = {"trireme_test_wait_seconds", "Wait.", METRIC_HISTOGRAM},
    [SIZES] = {"trireme_test_sizes", "Sizes.", METRIC_HISTOGRAM, .buckets = SMALL_BUCKETS},
};
__attribute__((constructor)) static void register_all(void) {
    metrics_register(metrics, METRIC_COUNT);
    metrics_register(metrics, METRIC_COUNT); /* twice is once */
}

static const char *text(void) {
    static struct buf b;
    buf_reset(&b);
    metrics_write(&b);
    static char copy[65536];
    snprintf(copy, sizeof copy, "%s", buf_text(&b));
    buf_release(&b);
    return copy;
}

TEST(metrics_counters_and_gauges) {
    metric_add(&metrics[REQUESTS], 2);
    metric_add_label(&metrics[FINISHED], 1, 5);
    metric_set(&metrics[RUNNING], -3);
    const char *t = text();
    EXPECT(strstr(t, "# HELP trireme_test_requests_total Requests \\\\ taken\\nin all.\n"));
    EXPECT(strstr(t, "# TYPE trireme_test_requests_total counter\ntrireme_test_requests_total 2\n"));
    EXPECT(strstr(t,
                  "trireme_test_finished_total{reason=\"stop\"} 0\ntrireme_test_finished_total{reason=\"length\"} 5\n"
                  "trireme_test_finished_total{reason=\"error\"} 0\n"));
    EXPECT(strstr(t, "# TYPE trireme_test_running gauge\ntrireme_test_running -3\n"));
    EXPECT_EQ(metric_value(&metrics[FINISHED], 1), 5);
}

TEST(metrics_histogram_is_cumulative) {
    const double values[] = {0.5, 1, 1.5, 2.5, 9.25, 11, 1000, -1};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) metric_observe(&metrics[SIZES], values[i]);
    EXPECT(strstr(text(), "# TYPE trireme_test_sizes histogram\n"
                          "trireme_test_sizes_bucket{le=\"1\"} 3\ntrireme_test_sizes_bucket{le=\"2.5\"} 5\n"
                          "trireme_test_sizes_bucket{le=\"10\"} 6\ntrireme_test_sizes_bucket{le=\"+Inf\"} 8\n"
                          "trireme_test_sizes_sum 1025.750000\ntrireme_test_sizes_count 8\n"));
    metric_observe(&metrics[SECONDS], 0.003);
    EXPECT(strstr(
        text(),
        "trireme_test_wait_seconds_bucket{le=\"0.0025\"} 0\ntrireme_test_wait_seconds_bucket{le=\"0.005\"} 1\n"));
}

/* Every line is a comment or `name[{label="value"[,...]}] number`; names are of Prometheus' alphabet; each has its TYPE
 * before it once. */
static bool line_is_sample(const char *line) {
    size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyz_0123456789");
    if (!name || strncmp(line, "trireme_", 8)) return false;
    const char *at = line + name;
    if (*at == '{') {
        at++;
        size_t label = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        if (!label || at[label] != '=' || at[label + 1] != '"') return false;
        at += label + 2;
        at += strcspn(at, "\"");
        if (strncmp(at, "\"}", 2)) return false;
        at += 2;
    }
    if (*at++ != ' ') return false;
    char *end;
    double value = strtod(at, &end);
    return end != at && !*end && isfinite(value);
}

TEST(metrics_text_is_the_prometheus_format) {
    char *copy = (char *)text();
    int samples = 0, types = 0;
    EXPECT_EQ(copy[strlen(copy) - 1], '\n');
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) {
        if (!strncmp(line, "# HELP trireme_", 15)) continue;
        if (!strncmp(line, "# TYPE trireme_", 15))
            types++;
        else {
            if (!line_is_sample(line)) check_fail(__FILE__, __LINE__, "bad line: %s", line);
            samples++;
        }
    }
    EXPECT_EQ(types, METRIC_COUNT + 4);
    EXPECT_EQ(samples, 1 + 3 + 1 + (15 + 3) + (3 + 3) + 4);
    EXPECT(!line_is_sample("trireme_x{a=b} 1") && !line_is_sample("trireme_x one") && line_is_sample("trireme_x 1"));
}

static double value_of(const char *name) {
    const char *at = text();
    size_t len = strlen(name);
    while ((at = strstr(at, name)) && at[len] != ' ') at += len;
    while (at && at[-1] != '\n') at = strstr(at + 1, name);
    return at ? strtod(at + len, NULL) : -1;
}

TEST(metrics_process_values_are_real) {
    EXPECT(value_of("trireme_process_resident_bytes") > 500e3);
    double fds = value_of("trireme_process_open_fds");
    FILE *f = fopen("/dev/null", "r");
    EXPECT_EQ(value_of("trireme_process_open_fds"), fds + 1);
    fclose(f);
    EXPECT(value_of("trireme_process_cpu_seconds_total") >= 0);
    EXPECT(value_of("trireme_process_start_time_seconds") > 1.6e9);
}

static void *add_many(void *unused) {
    for (int i = 0; i < 50000; i++) {
        metric_add(&metrics[REQUESTS], 1);
        metric_observe(&metrics[SIZES], 1);
    }
    return NULL;
}

TEST(metrics_threads_lose_nothing) {
    pthread_t threads[4];
    int64_t before = metric_value(&metrics[REQUESTS], 0);
    uint64_t seen = metrics[SIZES].observation_count;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, add_many, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    EXPECT_EQ(metric_value(&metrics[REQUESTS], 0) - before, 200000);
    EXPECT_EQ(metrics[SIZES].observation_count - seen, 200000);
}
