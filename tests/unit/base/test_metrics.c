#include "base/metrics.h"
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double SMALL_BUCKETS[] = {1, 2.5, 10, 0};
enum { REQUESTS, FINISHED, RUNNING, SECONDS, SIZES, METRIC_COUNT };
static struct metric metrics[METRIC_COUNT] = {
    [REQUESTS] = {"trireme_test_requests_total", "Requests \\ taken\nin all.", METRIC_COUNTER},
    [FINISHED] = {"trireme_test_finished_total", "By reason.", METRIC_COUNTER, "reason",
                  "stop|length|error"},
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
    EXPECT(
        strstr(t, "# TYPE trireme_test_requests_total counter\ntrireme_test_requests_total 2\n"));
    EXPECT(strstr(t, "trireme_test_finished_total{reason=\"stop\"} "
                     "0\ntrireme_test_finished_total{reason=\"length\"} 5\n"
                     "trireme_test_finished_total{reason=\"error\"} 0\n"));
    EXPECT(strstr(t, "# TYPE trireme_test_running gauge\ntrireme_test_running -3\n"));
    EXPECT_EQ(metric_value(&metrics[FINISHED], 1), 5);
}

TEST(metrics_histogram_is_cumulative) {
    const double values[] = {0.5, 1, 1.5, 2.5, 9.25, 11, 1000, -1};
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        metric_observe(&metrics[SIZES], values[i]);
    EXPECT(strstr(
        text(), "# TYPE trireme_test_sizes histogram\n"
                "trireme_test_sizes_bucket{le=\"1\"} 3\ntrireme_test_sizes_bucket{le=\"2.5\"} 5\n"
                "trireme_test_sizes_bucket{le=\"10\"} 6\ntrireme_test_sizes_bucket{le=\"+Inf\"} 8\n"
                "trireme_test_sizes_sum 1025.750000\ntrireme_test_sizes_count 8\n"));
    EXPECT(strstr(text(), "trireme_test_wait_seconds_bucket{le=\"3600\"} "));
    metric_observe(&metrics[SECONDS], 0.003);
    EXPECT(strstr(text(), "trireme_test_wait_seconds_bucket{le=\"0.0025\"} "
                          "0\ntrireme_test_wait_seconds_bucket{le=\"0.005\"} 1\n"));
}

/* Every line is a comment or `name[{label="value"[,...]}] number`; names are of Prometheus'
 * alphabet; each has its TYPE before it once. */
static bool line_is_sample(const char *line) {
    size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyz_0123456789");
    if (!name || strncmp(line, "trireme_", 8))
        return false;
    const char *at = line + name;
    for (; *at == '{' || *at == ','; at += *at == '}') {
        at++;
        size_t label = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        if (!label || at[label] != '=' || at[label + 1] != '"')
            return false;
        at += label + 2;
        at += strcspn(at, "\"");
        if (*at++ != '"' || !*at || !strchr(",}", *at))
            return false;
    }
    if (*at++ != ' ')
        return false;
    char *end;
    double value = strtod(at, &end);
    return end != at && !*end && isfinite(value);
}

TEST(metrics_text_is_the_prometheus_format) {
    char *copy = (char *)text();
    int samples = 0, types = 0;
    EXPECT_EQ(copy[strlen(copy) - 1], '\n');
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) {
        if (!strncmp(line, "# HELP trireme_", 15))
            continue;
        if (!strncmp(line, "# TYPE trireme_", 15))
            types++;
        else {
            if (!line_is_sample(line))
                check_fail(__FILE__, __LINE__, "bad line: %s", line);
            samples++;
        }
    }
    EXPECT_EQ(types, METRIC_COUNT + 1 + 4);
    EXPECT_EQ(samples, 1 + 3 + 1 + (20 + 3) + (3 + 3) + 1 + 4);
    EXPECT(!line_is_sample("trireme_x{a=b} 1") && !line_is_sample("trireme_x one") &&
           line_is_sample("trireme_x 1"));
}

static double value_of(const char *name) {
    const char *at = text();
    size_t len = strlen(name);
    while ((at = strstr(at, name)) && at[len] != ' ')
        at += len;
    while (at && at[-1] != '\n')
        at = strstr(at + 1, name);
    return at ? strtod(at + len, NULL) : -1;
}

/* Tables of one name whose histograms have other bounds are not one. */
TEST(metrics_of_other_bounds_are_other_metrics) {
    static const double LOW[] = {1, 2, 0}, HIGH[] = {1, 7, 0};
    static struct metric low[] = {{"trireme_test_bounds", "A.", METRIC_HISTOGRAM, .buckets = LOW}};
    static struct metric high[] = {
        {"trireme_test_bounds", "A.", METRIC_HISTOGRAM, .buckets = HIGH}};
    metrics_register(low, 1);
    metrics_register(high, 1);
    metric_observe(&low[0], 1.5);
    metric_observe(&high[0], 5);
    const char *t = text();
    EXPECT(strstr(t, "trireme_test_bounds_bucket{le=\"1\"} 0\ntrireme_test_bounds_bucket{le=\"2\"} "
                     "1\ntrireme_test_bounds_bucket{le=\"+Inf\"} 1\n"));
    EXPECT(strstr(t, "trireme_test_bounds_bucket{le=\"1\"} 0\ntrireme_test_bounds_bucket{le=\"7\"} "
                     "1\ntrireme_test_bounds_bucket{le=\"+Inf\"} 1\n"));
}

/* Open ones, counted another way. */
static int count_descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 4096; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST(metrics_process_values_are_real) {
    EXPECT(strstr(text(), "\ntrireme_build_info{version=\"" TRIREME_VERSION "\",compiler=\""));
    EXPECT(value_of("trireme_process_resident_bytes") > 500e3);
    double fds = value_of("trireme_process_open_fds");
    EXPECT_EQ(fds, count_descriptors());
    FILE *f = fopen("/dev/null", "r");
    EXPECT_EQ(value_of("trireme_process_open_fds"), fds + 1);
    fclose(f);
    EXPECT(value_of("trireme_process_cpu_seconds_total") >= 0);
    double started = value_of("trireme_process_start_time_seconds");
    EXPECT(started < (double)time(NULL) + 1 && started > (double)time(NULL) - 3600);
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
    uint64_t seen = metrics[SIZES].own.bucket_counts[0];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, add_many, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQ(metric_value(&metrics[REQUESTS], 0) - before, 200000);
    EXPECT_EQ(metrics[SIZES].own.bucket_counts[0] - seen, 200000);
}

/* ---- processes that share ---- */

enum { KID_COUNT, KID_OPEN, KID_TOLD, KID_TOLD_SIZES, KID_METRICS };
static const double KID_BUCKETS[] = {1, 0};
static struct metric kid_metrics[KID_METRICS] = {
    [KID_COUNT] = {"trireme_kid_total", "Counter.", METRIC_COUNTER},
    [KID_OPEN] = {"trireme_kid_open", "Gauge.", METRIC_GAUGE},
    [KID_TOLD] = {"trireme_kid_told_total", "Told.", METRIC_COUNTER, .told = true},
    [KID_TOLD_SIZES] = {"trireme_kid_told_sizes", "Told.", METRIC_HISTOGRAM, .buckets = KID_BUCKETS,
                        .told = true},
};
static const struct metric KID_MODEL[] = {
    {"trireme_kid_model_ratio", "Gauge in millionths.", METRIC_GAUGE, .micro = true},
    {"trireme_kid_model_sizes", "Histogram.", METRIC_HISTOGRAM, .buckets = KID_BUCKETS},
    {"trireme_kid_model_total", "Counter.", METRIC_COUNTER, "reason", .label_values = "a|b"},
};
static struct metric kid_models[2][ARRAY_LEN(KID_MODEL)], kid_any[ARRAY_LEN(KID_MODEL)];

struct kid {
    pid_t pid;
    int in, out;
};

/* Files of the folder that this process has mapped: a line for each. */
static void add_mapped(const char *folder, struct buf *out) {
    char line[600];
    FILE *maps = fopen("/proc/self/maps", "re");
    CHECK(maps);
    while (fgets(line, sizeof line, maps))
        if (strstr(line, folder))
            buf_add_str(out, strstr(line, "rw-s") ? "own\n" : "other\n");
    fclose(maps);
}

/* A byte is a command; each is answered by the page, what is mapped, or nothing, and a byte 1. */
static void kid_obey(const char *folder, int in, int out) {
    struct error err;
    char command, stop = 1;
    struct buf page = {0};
    metrics_register(kid_metrics, KID_METRICS);
    memcpy(kid_any, KID_MODEL, sizeof KID_MODEL);
    metrics_register_copies(kid_any, ARRAY_LEN(KID_MODEL));
    if (metrics_share(folder, "kid", &err))
        _exit(1);
    for (int i = 0; i < 2; i++)
        memcpy(kid_models[i], KID_MODEL, sizeof KID_MODEL);
    while (read(in, &command, 1) == 1 && command != 'q') {
        struct metric *m = kid_models[command == 'N'];
        if (command == 'c')
            metric_add(&kid_metrics[KID_COUNT], 10);
        if (command == 'g')
            metric_add(&kid_metrics[KID_OPEN], 2);
        if (command == 't') {
            int64_t told = metric_value(&kid_metrics[KID_TOLD], 0) + 5;
            const uint64_t counts[] = {(uint64_t)told, 2};
            metric_set(&kid_metrics[KID_TOLD], told);
            metric_set_histogram(&kid_metrics[KID_TOLD_SIZES], counts, 2, (double)told * 3);
        }
        if (command == 'M' || command == 'N') {
            metrics_register_copy(m, ARRAY_LEN(KID_MODEL), "model_name",
                                  command == 'M' ? "m" : "n \"\\");
            metric_set(&m[0], 250000);
            metric_observe(&m[1], 0.5);
            metric_add_label(&m[2], 1, 3);
        }
        buf_reset(&page);
        if (command == 'p')
            metrics_write(&page);
        if (command == 'm')
            add_mapped(folder, &page);
        if (page.len && write(out, page.data, page.len) != (ssize_t)page.len)
            _exit(1);
        if (write(out, &stop, 1) != 1)
            _exit(1);
    }
    _exit(0);
}

static struct kid kid_start(const char *folder) {
    int in[2], out[2];
    CHECK(pipe(in) == 0 && pipe(out) == 0);
    struct kid k = {.in = in[1], .out = out[0]};
    k.pid = fork();
    if (k.pid == 0) {
        close(in[1]);
        close(out[0]);
        kid_obey(folder, in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    return k;
}

/* What it answers. */
static const char *kid_do(const struct kid *k, char command) {
    static char answer[65536];
    size_t len = 0;
    CHECK(write(k->in, &command, 1) == 1);
    while (len < sizeof answer - 1 && read(k->out, answer + len, 1) == 1 && answer[len] != 1)
        len++;
    answer[len] = 0;
    return answer;
}

static void kid_end(struct kid *k, bool kill_it) {
    int status;
    if (kill_it)
        kill(k->pid, SIGKILL);
    else
        CHECK(write(k->in, "q", 1) == 1);
    close(k->in);
    close(k->out);
    CHECK(waitpid(k->pid, &status, 0) == k->pid);
}

static void expect_lines(const struct kid *k, const char *const *lines, size_t count) {
    const char *page = kid_do(k, 'p');
    for (size_t i = 0; i < count; i++) {
        char line[256];
        snprintf(line, sizeof line, "\n%s\n", lines[i]);
        if (!strstr(page, line))
            check_fail(__FILE__, __LINE__, "no line '%s' in:\n%s", lines[i],
                       strstr(page, "# HELP trireme_kid_total"));
    }
}
#define EXPECT_LINES(k, ...)                                                                       \
    expect_lines(k, (const char *const[]){__VA_ARGS__},                                            \
                 sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void remove_folder(const char *folder) {
    DIR *dir = opendir(folder);
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    rmdir(folder);
}

/* A hole would need room at its first write, and a full disk then ends the process. */
TEST(metrics_that_are_shared_have_their_room_on_the_disk) {
    char folder[] = "/tmp/trireme-metrics-XXXXXX";
    struct stat st = {0};
    CHECK(mkdtemp(folder));
    struct kid kid = kid_start(folder);
    kid_do(&kid, 'c');
    DIR *dir = opendir(folder);
    for (struct dirent *e; (e = readdir(dir));)
        if (strncmp(e->d_name, "kid-", 4) == 0)
            EXPECT(fstatat(dirfd(dir), e->d_name, &st, 0) == 0);
    closedir(dir);
    EXPECT(st.st_size > 0);
    EXPECT(st.st_blocks * 512 >= st.st_size);
    kid_end(&kid, false);
    remove_folder(folder);
}

/* The files of the others are mapped for as long as a page is written, and no longer. */
TEST(metrics_that_are_shared_hold_no_others_files) {
    char folder[] = "/tmp/trireme-metrics-XXXXXX";
    CHECK(mkdtemp(folder));
    struct kid kids[3];
    for (int i = 0; i < 3; i++)
        kids[i] = kid_start(folder);
    for (int i = 0; i < 3; i++) {
        kid_do(&kids[i], 'c'); /* all have begun */
        EXPECT_STR(kid_do(&kids[i], 'm'), "own\n");
    }
    for (int i = 0; i < 3; i++) {
        for (int page = 0; page < 3; page++)
            EXPECT_LINES(&kids[i], "trireme_kid_total 30");
        EXPECT_STR(kid_do(&kids[i], 'm'), "own\n");
    }
    for (int i = 0; i < 3; i++)
        kid_end(&kids[i], false);
    remove_folder(folder);
}

/* How a child ends that registers these two rows by the n-th of the three calls. */
static int end_of_registration(int n, const struct metric *first, const struct metric *second) {
    static struct metric rows[2];
    int status;
    pid_t child = fork();
    if (!child) {
        signal(SIGABRT, SIG_DFL);
        CHECK(freopen("/dev/null", "w", stderr));
        rows[0] = *first;
        rows[1] = *second;
        if (n == 0)
            metrics_register(rows, 2);
        if (n == 1)
            metrics_register_copy(rows, 2, "model_name", "m");
        if (n == 2)
            metrics_register_copies(rows, 2);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

TEST(metrics_rows_that_say_too_little_end_the_process) {
    static const struct metric GOOD = {.name = "trireme_row_total", .help = "A row."},
                               BAD[] = {{.help = "No name."},
                                        {.name = "trireme_row_total"},
                                        {.name = "trireme_row_total", .help = "x", .label = "y"}};
    for (int n = 0; n < 3; n++) {
        EXPECT_EQ(end_of_registration(n, &GOOD, &GOOD), 0);
        for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
            EXPECT_EQ(WTERMSIG(end_of_registration(n, &BAD[i], &GOOD)), SIGABRT);
            EXPECT_EQ(WTERMSIG(end_of_registration(n, &GOOD, &BAD[i])), SIGABRT);
        }
    }
}

TEST(metrics_of_processes_that_share_are_one) {
    char folder[] = "/tmp/trireme-metrics-XXXXXX";
    CHECK(mkdtemp(folder));
    struct kid a = kid_start(folder), b = kid_start(folder);
    for (const char *c = "ccgt"; *c; c++)
        kid_do(&a, *c);
    for (const char *c = "cggtttM"; *c; c++)
        kid_do(&b, *c);
        /* whoever is asked: sums, and of what was told the largest; models that only the other knows */
#define TOLD_SIZES(one, all, sum)                                                                  \
    "trireme_kid_told_sizes_bucket{le=\"1\"} " one,                                                \
        "trireme_kid_told_sizes_bucket{le=\"+Inf\"} " all, "trireme_kid_told_sizes_sum " sum
#define ALL                                                                                        \
    "trireme_kid_total 30", "trireme_kid_open 6", "trireme_kid_told_total 15",                     \
        TOLD_SIZES("15", "17", "45.000000")
#define MODEL(name, ratio, sizes)                                                                  \
    "trireme_kid_model_ratio{model_name=\"" name "\"} " ratio,                                     \
        "trireme_kid_model_sizes_bucket{model_name=\"" name "\",le=\"1\"} " sizes,                 \
        "trireme_kid_model_sizes_sum{model_name=\"" name "\"} 0.500000",                           \
        "trireme_kid_model_total{model_name=\"" name "\",reason=\"b\"} 3"
    EXPECT_LINES(&a, ALL, MODEL("m", "0.25", "1"));
    EXPECT_LINES(&b, ALL, MODEL("m", "0.25", "1"));
    EXPECT(strstr(kid_do(&a, 'p'), "trireme_process_resident_bytes{instance=\"0\"}") &&
           strstr(kid_do(&a, 'p'), "trireme_process_resident_bytes{instance=\"1\"}"));
    /* one dies: its counters stay, its gauges and what it was told do not */
    kid_end(&b, true);
    EXPECT_LINES(&a, "trireme_kid_total 30", "trireme_kid_open 2", "trireme_kid_told_total 5",
                 TOLD_SIZES("5", "7", "15.000000"), MODEL("m", "0", "1"));
    /* its successor goes on where it had ended, before it knows the model and after */
    b = kid_start(folder);
    kid_do(&b, 'c');
    EXPECT_LINES(&a, "trireme_kid_total 40", "trireme_kid_open 2", MODEL("m", "0", "1"));
    EXPECT_LINES(&b, "trireme_kid_total 40", "trireme_kid_open 2", MODEL("m", "0", "1"));
    kid_end(&a, true); /* it alone had been told, and the other's predecessor */
    EXPECT_LINES(&b, "trireme_kid_told_total 0", TOLD_SIZES("0", "0", "0.000000"));
    a = kid_start(folder);
    kid_do(&b, 'N');
    EXPECT_LINES(&b, MODEL("m", "0", "1"), MODEL("n \\\"\\\\", "0.25", "1"));
    EXPECT_LINES(&a, MODEL("m", "0", "1"), MODEL("n \\\"\\\\", "0.25", "1"));
    kid_end(&a, false);
    kid_end(&b, false);
    remove_folder(folder);
}
