/* The arithmetic of a load test: figures, arrivals, prompts. */
#include "base/base.h"
#include "base/fsutil.h"
#include "capture.h"
#include "check.h"
#include "cli/bench/arrivals.h"
#include "cli/bench/dataset.h"
#include "cli/bench/plot.h"
#include "cli/bench/report.h"
#include "cli/bench/trace.h"
#include "cli/commands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool near(double a, double b) {
    return fabs(a - b) < 1e-6 * MAX(1, fabs(b));
}

/* Sent at, first piece after, then pieces each `gap` apart. */
static struct bench_outcome outcome(double sent, double first_after, double gap, size_t gaps,
                                    uint32_t tokens) {
    struct bench_outcome o = {
        .sent = sent, .first = sent + first_after, .prompt_tokens = 10, .output_tokens = tokens};
    o.last = o.first + gap * (double)gaps;
    for (size_t i = 0; i < gaps; i++)
        vec_push(&o.gaps, (float)gap);
    return o;
}

TEST(bench_percentiles_interpolate_as_numpy_does) {
    const double values[] = {1, 2, 4, 8};
    EXPECT(near(bench_percentile(values, 4, 0), 1));
    EXPECT(near(bench_percentile(values, 4, 50), 3));
    EXPECT(near(bench_percentile(values, 4, 90), 6.8));
    EXPECT(near(bench_percentile(values, 4, 99), 7.88));
    EXPECT(near(bench_percentile(values, 4, 100), 8));
    EXPECT(near(bench_percentile(values, 1, 99), 1));
    EXPECT(isnan(bench_percentile(values, 0, 50)));
}

TEST(bench_counts_what_requests_saw) {
    struct bench_percentiles percentiles = {.of = {50, 99}, .count = 2};
    struct bench_limits limits;
    struct bench_report r;
    struct error err;
    struct bench_outcome all[] = {
        outcome(0, 0.1, 0.05, 4, 5),   /* 100 ms, 50 ms a token, 300 ms */
        outcome(0.2, 0.3, 0.1, 2, 5),  /* 300 ms, pieces of several tokens: 50 ms a token, 500 ms */
        outcome(2.5, 0.2, 0, 0, 1),    /* one token: no TPOT */
        outcome(2.6, 0.2, 0.1, 1, 99), /* failed */
    };
    all[3].error = mem_strdup("no");
    EXPECT_EQ(bench_limits_parse("ttft:250,tpot:60", &limits, &err), 0);
    bench_count(all, 4, 4, &limits, &percentiles, &r);
    EXPECT_EQ(r.completed, 3);
    EXPECT_EQ(r.failed, 1);
    EXPECT_EQ(r.good, 2);
    EXPECT_EQ(r.input_tokens, 30);
    EXPECT_EQ(r.output_tokens, 11);
    EXPECT(near(r.request_rate, 0.75) && near(r.goodput, 0.5) && near(r.output_rate, 2.75));
    EXPECT(near(r.total_rate, 41.0 / 4));
    EXPECT(near(r.measures[BENCH_TTFT].mean, 200) && near(r.measures[BENCH_TTFT].median, 200));
    EXPECT(near(r.measures[BENCH_TTFT].std, sqrt(20000.0 / 3)));
    EXPECT(near(r.measures[BENCH_TTFT].percentiles[1], 298));
    EXPECT_EQ(r.measures[BENCH_TPOT].count, 2);
    EXPECT(near(r.measures[BENCH_TPOT].mean, 50));
    EXPECT_EQ(r.measures[BENCH_ITL].count, 6);
    EXPECT(fabs(r.measures[BENCH_ITL].mean - 400.0 / 6) < 1e-3); /* gaps are floats */
    EXPECT(near(r.measures[BENCH_E2EL].mean, (300.0 + 500 + 200) / 3));
    EXPECT_EQ(r.peak_concurrent, 2);
    EXPECT(near(r.peak_output_rate, 10)); /* both of the first two within the first second */
    for (size_t i = 0; i < 4; i++)
        bench_outcome_release(&all[i]);
}

TEST(bench_counts_a_run_that_failed_whole) {
    struct bench_percentiles percentiles = {.of = {99}, .count = 1};
    struct bench_limits limits = {0};
    struct bench_report r;
    struct bench_outcome one = {.first = -1, .error = mem_strdup("gone")};
    bench_count(&one, 1, 0, &limits, &percentiles, &r);
    EXPECT_EQ(r.failed, 1);
    EXPECT_EQ(r.measures[BENCH_TTFT].count, 0);
    EXPECT(near(r.request_rate, 0));
    bench_outcome_release(&one);
}

TEST(bench_options_are_checked) {
    struct bench_limits limits;
    struct bench_percentiles percentiles;
    struct error err;
    EXPECT_EQ(bench_limits_parse(NULL, &limits, &err), 0);
    EXPECT(!limits.any);
    EXPECT_EQ(bench_limits_parse("e2el:5000 ttft:1.5", &limits, &err), 0);
    EXPECT(limits.any && near(limits.ms[BENCH_TTFT], 1.5) && near(limits.ms[BENCH_E2EL], 5000));
    static const char *const BAD[] = {
        "ttft",
        "ttft:",
        "ttft:x",
        "ttft:-1",
        "speed:3",
        "itl:5",
        "ttft:nan",
        "ttft:1, a_word_of_more_letters_than_any_name_of_a_measure_has_and_more:1, tpot:1"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        EXPECT(bench_limits_parse(BAD[i], &limits, &err) < 0);
    EXPECT_EQ(bench_percentiles_parse("50, 99.9", &percentiles, &err), 0);
    EXPECT(percentiles.count == 2 && near(percentiles.of[1], 99.9));
    EXPECT_EQ(bench_percentiles_parse("0,100,1,2,3,4,5,6", &percentiles, &err), 0);
    EXPECT(percentiles.count == 8 && percentiles.of[0] == 0 && percentiles.of[1] == 100);
    EXPECT(bench_percentiles_parse("100.1", &percentiles, &err) < 0);
    EXPECT(bench_percentiles_parse("-0.1", &percentiles, &err) < 0);
    EXPECT(bench_percentiles_parse("1,2,3,4,5,6,7,8,9", &percentiles, &err) < 0);
}

/* Mean and coefficient of variation of the intervals. */
static void intervals(double rate, double burstiness, double *mean, double *variation) {
    enum { COUNT = 20000 };
    static double times[COUNT];
    struct bench_random r = {check_random()};
    double sum = 0, squares = 0;
    bench_arrivals(times, COUNT, rate, burstiness, &r);
    for (size_t i = 0; i < COUNT; i++) {
        double gap = times[i] - (i ? times[i - 1] : 0);
        sum += gap;
        squares += gap * gap;
    }
    *mean = sum / COUNT;
    *variation = sqrt(squares / COUNT - *mean * *mean) / *mean;
}

TEST(bench_arrivals_have_the_rate_and_the_burstiness) {
    double mean, variation;
    /* a gamma distribution of shape k varies by 1/sqrt(k); its estimate of 20000 draws strays by
     * sqrt((2 + 6/k + ...)/n)/2 or so: 0.01 to 0.04; five times that is allowed */
    static const double SHAPES[] = {0.25, 1, 4};
    for (size_t i = 0; i < ARRAY_LEN(SHAPES); i++) {
        intervals(10, SHAPES[i], &mean, &variation);
        EXPECT(near(mean, 0.1)); /* scaled to be so */
        EXPECT(fabs(variation * sqrt(SHAPES[i]) - 1) < 0.15);
    }
    double times[3] = {1, 1, 1};
    struct bench_random r = {1};
    bench_arrivals(times, 3, INFINITY, 1, &r);
    EXPECT(times[0] == 0 && times[2] == 0);
}

static size_t count_of(const char *text, char c) {
    size_t n = 0;
    for (; *text; text++)
        n += *text == c;
    return n;
}

TEST(bench_random_prompts_have_the_lengths_and_the_prefix) {
    struct bench_dataset_config c = {.count = 200,
                                     .vocab = 500,
                                     .input_len = 20,
                                     .output_len = 8,
                                     .prefix_len = 4,
                                     .range_ratio = 0.5};
    struct bench_random r = {7}, again = {7};
    bench_prompts prompts = {0}, same = {0};
    size_t least = 1000, most = 0;
    bench_random_prompts(&c, &r, &prompts);
    bench_random_prompts(&c, &again, &same);
    EXPECT_EQ(prompts.count, 200);
    for (size_t i = 0; i < prompts.count; i++) {
        size_t tokens = count_of(prompts.items[i].json, ',') + 1;
        least = MIN(least, tokens);
        most = MAX(most, tokens);
        EXPECT(prompts.items[i].max_tokens >= 4 && prompts.items[i].max_tokens <= 12);
        EXPECT_STR(prompts.items[i].json, same.items[i].json);
        size_t prefix = 0;
        for (size_t commas = 0; commas < 4; prefix++)
            commas += prompts.items[0].json[prefix] == ',';
        EXPECT(!strncmp(prompts.items[i].json, prompts.items[0].json, prefix));
    }
    EXPECT(least >= 14 && least <= 16 && most <= 34 && most >= 32);
    bench_prompts_release(&prompts);
    bench_prompts_release(&same);
}

static char path[] = "/tmp/trireme-test-bench-XXXXXX";
static const char *file_of(const char *text) {
    if (strstr(path, "XXXXXX"))
        close(mkstemp(path));
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    return path;
}
__attribute__((destructor)) static void remove_file(void) {
    unlink(path);
}

TEST(bench_sharegpt_takes_the_first_two_turns) {
    struct bench_dataset_config c = {.count = 5};
    struct bench_random r = {1};
    struct error err;
    bench_prompts prompts = {0};
    const char *file =
        file_of("[{\"id\":1,\"conversations\":[{\"from\":\"human\",\"value\":\"one \\\"two\\\"\"},"
                "{\"value\":\"12345678\",\"from\":\"gpt\"},{\"from\":\"human\",\"value\":\"no\"}]},"
                "{\"conversations\":[{\"from\":\"human\",\"value\":\"alone\"}]},"
                "{\"conversations\":[]},{\"x\":{\"y\":[1]}}]");
    EXPECT_EQ(bench_sharegpt_prompts(file, &c, &r, &prompts, &err), 0);
    EXPECT_EQ(prompts.count, 1);
    EXPECT_STR(prompts.items[0].json, "\"one \\\"two\\\"\"");
    EXPECT_EQ(prompts.items[0].max_tokens, 2);
    bench_prompts_release(&prompts);
    static const struct {
        const char *answer;
        uint32_t max_tokens;
    } ANSWERS[] = {{"yes", 1}, {"", 1}, {"seven..", 1}, {"eight...", 2}};
    for (size_t i = 0; i < ARRAY_LEN(ANSWERS); i++) { /* four characters a token; one at least */
        char text[100];
        snprintf(text, sizeof text, "[{\"conversations\":[{\"value\":\"q\"},{\"value\":\"%s\"}]}]",
                 ANSWERS[i].answer);
        EXPECT_EQ(bench_sharegpt_prompts(file_of(text), &c, &r, &prompts, &err), 0);
        EXPECT(prompts.count == 1 && prompts.items[0].max_tokens == ANSWERS[i].max_tokens);
        bench_prompts_release(&prompts);
    }
    static const char *const BAD[] = {"",
                                      "{}",
                                      "[1]",
                                      "[]",
                                      "[{\"conversations\":[\"\\u0041\"]}]",
                                      "[{\"conversations\":[{\"value\":1}]}]",
                                      "[{\"conversations\":[{\"value\":\"x\"}"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        EXPECT(bench_sharegpt_prompts(file_of(BAD[i]), &c, &r, &prompts, &err) < 0);
        EXPECT_EQ(prompts.count, 0);
    }
}

TEST(bench_traces_are_read_in_both_forms) {
    struct bench_dataset_config c = {.count = 3, .vocab = 9};
    struct bench_random r = {1};
    struct error err;
    bench_prompts prompts = {0};
    const char *file = file_of(
        "{\"timestamp\":1000,\"input_length\":600,\"output_length\":5,\"hash_ids\":[7,8]}\n"
        "{\"timestamp\":1500,\"input_length\":512,\"output_length\":0,\"hash_ids\":[7]}\n"
        "{\"timestamp\":4000,\"input_length\":3,\"output_length\":6,\"hash_ids\":[8],\"z\":[]}\n"
        "{\"timestamp\":5000,\"input_length\":3,\"output_length\":6}\n");
    EXPECT_EQ(bench_trace_prompts(file, &c, &r, &prompts, &err), 0);
    EXPECT_EQ(prompts.count, 3);
    EXPECT(prompts.items[0].at == 0 && near(prompts.items[1].at, 0.5));
    EXPECT(near(prompts.items[2].at, 3));
    EXPECT_EQ(count_of(prompts.items[0].json, ','), 599);
    EXPECT_EQ(prompts.items[1].max_tokens, 1);
    size_t common = strlen(prompts.items[1].json) - 1; /* one block: its bracket differs */
    EXPECT(!strncmp(prompts.items[0].json, prompts.items[1].json, common));
    EXPECT(strncmp(prompts.items[0].json, prompts.items[2].json, 6));
    bench_prompts_release(&prompts);
    c.max_len = 100;
    file = file_of("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                   "2023-11-16 23:59:59.7500000,374,44\r\n2023-11-17 00:00:00.2500000,3,440\n");
    EXPECT_EQ(bench_trace_prompts(file, &c, &r, &prompts, &err), 0);
    EXPECT_EQ(prompts.count, 2);
    EXPECT(near(prompts.items[1].at, 0.5));
    EXPECT_EQ(count_of(prompts.items[0].json, ','), 99);
    EXPECT_EQ(prompts.items[1].max_tokens, 100);
    bench_prompts_release(&prompts);
    static const char *const BAD[] = {"",
                                      "{\"timestamp\":1}\n",
                                      "{\"timestamp\":1,\"input_length\":-4,\"output_length\":5}\n",
                                      "a,b,c\n2023-11-16 23:59,1,2\n",
                                      "a,b,c\n2023-11-16 23:59:59,1,2,3\n",
                                      "a,b,c\n2023-13-16 23:59:59,1,2\n",
                                      "a,b,c\n-2147483648-1-1 23:59:59,1,2\n",
                                      "{\"timestamp\":9,\"input_length\":4,\"output_length\":5}\n"
                                      "{\"timestamp\":1,\"input_length\":4,\"output_length\":5}\n"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        EXPECT(bench_trace_prompts(file_of(BAD[i]), &c, &r, &prompts, &err) < 0);
        bench_prompts_release(&prompts);
    }
}

/* Each number of a line at its edge, and the next one. */
TEST(bench_traces_bounds_are_exact) {
    static const struct {
        const char *line;
        bool good;
    } LINES[] = {
        {"1900-01-01 00:00:00,1,0", true},
        {"1899-01-01 00:00:00,1,0", false},
        {"9999-12-31 23:59:60,16777216,16777216", true},
        {"10000-12-31 23:59:59,1,0", false},
        {"2023-00-01 00:00:00,1,0", false},
        {"2023-13-01 00:00:00,1,0", false},
        {"2023-01-00 00:00:00,1,0", false},
        {"2023-01-32 00:00:00,1,0", false},
        {"2023-01-01 -1:00:00,1,0", false},
        {"2023-01-01 24:00:00,1,0", false},
        {"2023-01-01 00:-1:00,1,0", false},
        {"2023-01-01 00:60:00,1,0", false},
        {"2023-01-01 00:00:-1,1,0", false},
        {"2023-01-01 00:00:61,1,0", false},
        {"2023-01-01 00:00:00,0,0", false},
        {"2023-01-01 00:00:00,1,-1", false},
        {"2023-01-01 00:00:00,16777217,0", false},
        {"2023-01-01 00:00:00,1,16777217", false},
        {"2023-01-01 00:00:00.5,1,0", true},
        {"2023-01-01 00:00:00,1", false},
        {"2023-01-01 00:00:00,1,0 ", false},
        {"{\"timestamp\":0,\"input_length\":1,\"output_length\":0}", true},
        {"{\"timestamp\":-1,\"input_length\":1,\"output_length\":0}", false},
        {"{\"timestamp\":0,\"input_length\":1,\"output_length\":0,\"hash_ids\":[1.5]}", false},
        {"{\"timestamp\":0,\"input_length\":1,\"output_length\":0}x", false}};
    for (size_t i = 0; i < ARRAY_LEN(LINES); i++) {
        struct bench_trace trace;
        struct error err = {0};
        char text[200], said[200];
        bool csv = LINES[i].line[0] != '{';
        snprintf(text, sizeof text, "%s%s\n", csv ? "names\n" : "", LINES[i].line);
        int rc = bench_trace_read(file_of(text), 10, &trace, &err);
        snprintf(said, sizeof said, "line %d of the trace '%s' has no time and lengths",
                 csv ? 2 : 1, path);
        if (rc != (LINES[i].good ? 0 : ERR_INVALID) || (rc && strcmp(err.text, said) != 0) ||
            trace.requests.count != LINES[i].good)
            check_fail(__FILE__, __LINE__, "%s: %d, %s", LINES[i].line, rc, err.text);
        bench_trace_release(&trace);
    }
}

/* SplitMix64's own first numbers, from 0. */
TEST(bench_random_numbers_are_those_that_were_published) {
    struct bench_random r = {0};
    EXPECT(bench_random_next(&r) == 0xE220A8397B1DCDAFu);
    EXPECT(bench_random_next(&r) == 0x6E789E6AA1B965F4u);
    EXPECT(bench_random_next(&r) == 0x06C45D188009454Fu);
    bool seen[3] = {false};
    for (int i = 0; i < 200; i++) {
        uint64_t n = bench_random_range(&r, 5, 7);
        EXPECT(n >= 5 && n <= 7);
        seen[n - 5] = true;
        double unit = bench_random_unit(&r);
        EXPECT(unit > 0 && unit < 1);
    }
    EXPECT(seen[0] && seen[1] && seen[2]);
}

TEST(bench_report_has_the_known_layout) {
    struct bench_about about = {.backend = "openai",
                                .dataset = "random",
                                .model = "m",
                                .rate = 2.5,
                                .burstiness = 1,
                                .max_open = 7,
                                .measures = 1u << BENCH_TTFT | 1u << BENCH_TPOT};
    struct bench_report r = {.completed = 3, .seconds = 1.5, .request_rate = 2};
    struct error err;
    struct buf text, json, table;
    buf_init(&text, 0);
    buf_init(&json, 0);
    buf_init(&table, 0);
    EXPECT_EQ(bench_percentiles_parse("99.9", &about.percentiles, &err), 0);
    r.measures[BENCH_TTFT] = (struct bench_figures){1, 2, 3, {4}, 3};
    bench_report_text(&text, &about, &r);
    EXPECT(strstr(buf_text(&text), "============ Serving Benchmark Result ============\n"
                                   "Successful requests:                     3         \n"));
    EXPECT(strstr(buf_text(&text), "Maximum request concurrency:             7         \n"));
    EXPECT(strstr(buf_text(&text), "---------------Time to First Token----------------\n"
                                   "Mean TTFT (ms):                          1.00      \n"));
    EXPECT(strstr(buf_text(&text), "P99.9 TTFT (ms):                         4.00      \n"));
    EXPECT(!strstr(buf_text(&text), "TPOT")); /* no request had one */
    EXPECT(!strstr(buf_text(&text), "goodput"));
    bench_report_json(&json, &about, &r, NULL, 0);
    EXPECT(strstr(buf_text(&json), "\"p99.9_ttft_ms\":4,") &&
           strstr(buf_text(&json), "\"mean_tpot_ms\":null"));
    EXPECT(strstr(buf_text(&json), "\"request_goodput\":null") &&
           !strstr(buf_text(&json), "ttfts"));
    const struct bench_report_file before = {"before.json", buf_bytes(&json)},
                                   after = {"after.json",
                                            bytes_str("{\"completed\":6,\"failed\":1}")},
                                   empty = {"empty.json", bytes_str("{}")},
                                   broken = {"broken.json", bytes_str("x")};
    EXPECT_EQ(bench_compare(&table, &before, &after, &err), 0);
    EXPECT(strstr(buf_text(&table), "completed"));
    EXPECT(strstr(buf_text(&table), "          3.00           6.00    2.000\n"));
    EXPECT(!strstr(buf_text(&table), "duration"));
    EXPECT(bench_compare(&table, &before, &empty, &err) < 0);
    EXPECT_STR(err.text, "'before.json' and 'empty.json' have no figure in common");
    EXPECT(bench_compare(&table, &before, &broken, &err) < 0);
    EXPECT(!strncmp(err.text, "'broken.json' is no JSON report: ", 33));
    buf_release(&text);
    buf_release(&json);
    buf_release(&table);
}

TEST(bench_plot_draws_a_curve_for_each_report_and_measure) {
    static const char A[] = "{\"ttfts\":[0.03,0.01,null,0.02],\"itls\":[[0.002,0.004],[],[0.006]]}",
                      B[] = "{\"ttfts\":[0.05],\"itls\":[]}";
    struct bench_report_file reports[] = {{"a<b", bytes_str(A)}, {"second", bytes_str(B)}};
    struct error err;
    struct buf out;
    buf_init(&out, 0);
    EXPECT_EQ(bench_plot(&out, reports, 2, &err), 0);
    const char *svg = buf_text(&out);
    EXPECT(!strncmp(svg, "<svg ", 5) && strstr(svg, "</svg>\n"));
    EXPECT(strstr(svg, ">a&#60;b</text>") && strstr(svg, ">second</text>"));
    EXPECT(strstr(svg, ">50</text>") && strstr(svg, ">10</text>")); /* where the axes end, in ms */
    size_t curves = 0;
    for (const char *at = svg; (at = strstr(at, "<polyline")); at++)
        curves++;
    EXPECT_EQ(curves, 3);
    /* 10 ms of 50 is a fifth of 420 to the right of 50, at 0 %; 30 ms, the most of A, at 100 % */
    EXPECT(strstr(svg, "points=\"134.0,320.0 ") && strstr(svg, " 302.0,60.0\""));
    buf_release(&out);
    static const char *const BAD[] = {"", "[]", "{\"ttfts\":[null]}", "{\"mean_ttft_ms\":3}"};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct bench_report_file bad = {"x", bytes_str(BAD[i])};
        EXPECT_EQ(bench_plot(&out, &bad, 1, &err), ERR_INVALID);
        EXPECT_EQ(out.len, 0);
    }
    buf_release(&out);
}

/* ---- the command ---- */

/* What `trireme bench` with these words ends with, and prints to fd. */
static int bench_prints(int fd, char **words, struct buf *out) {
    char *argv[8] = {(char *)"bench"};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = words[argc - 1];
    struct capture shown = capture_begin(fd);
    int rc = bench_main(argc, argv);
    capture_end(&shown, out);
    return rc;
}

TEST(bench_plots_the_files_that_it_is_given) {
    static const char *const REPORTS[] = {"{\"ttfts\":[0.03,0.01]}", "{\"ttfts\":[0.05]}"};
    char folder[] = "/tmp/trireme-bench-XXXXXX", paths[2][64], missing[64];
    struct buf out = {0};
    struct error err;
    CHECK(mkdtemp(folder));
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%c.json", folder, 'a' + i);
        CHECK(!file_write_atomic(paths[i], REPORTS[i], strlen(REPORTS[i]), 0600, &err));
    }
    snprintf(missing, sizeof missing, "%s/none.json", folder);
    EXPECT_EQ(
        bench_prints(STDOUT_FILENO, (char *[]){(char *)"plot", paths[0], paths[1], NULL}, &out), 0);
    EXPECT(!strncmp(buf_text(&out), "<svg ", 5) && strstr(buf_text(&out), paths[0]) &&
           strstr(buf_text(&out), paths[1]));
    EXPECT_EQ(
        bench_prints(STDERR_FILENO, (char *[]){(char *)"plot", paths[0], missing, NULL}, &out), 1);
    EXPECT(strstr(buf_text(&out), missing));
    EXPECT_EQ(bench_prints(STDERR_FILENO, (char *[]){(char *)"plot", NULL}, &out), 2);
    EXPECT(strstr(buf_text(&out), "one to "));
    for (int i = 0; i < 2; i++)
        unlink(paths[i]);
    rmdir(folder);
    buf_release(&out);
}

TEST(bench_refuses_a_measure_that_is_none) {
    struct buf out = {0};
    char option[] = "--percentile-metrics";
    EXPECT_EQ(bench_prints(STDERR_FILENO,
                           (char *[]){(char *)"serve", option, (char *)"ttft, e2el,itl2", NULL},
                           &out),
              1);
    EXPECT(strstr(buf_text(&out), "not 'ttft, e2el,itl2'"));
    EXPECT_EQ(
        bench_prints(STDERR_FILENO, (char *[]){(char *)"serve", option, (char *)"ttf", NULL}, &out),
        1);
    EXPECT(strstr(buf_text(&out), "not 'ttf'"));
    buf_release(&out);
}
