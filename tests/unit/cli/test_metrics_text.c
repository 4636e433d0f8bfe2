/* A page of metrics as another process reads it: which lines are samples, their labels, sums of what is
 * asked for, and quantiles from buckets. */
#include "check.h"
#include "cli/metrics_text.h"

#include <math.h>

static struct metrics_text page_of(const char *text) {
    struct metrics_text page;
    metrics_text_init(&page, bytes_str(text));
    return page;
}

TEST(metrics_text_has_the_pages_samples) {
    static const struct {
        const char *line;
        double value; /* NAN: no sample */
        const char *name, *labels;
    } ROWS[] = {
        {"a 5", 5, "a", ""},
        {"a{b=\"c\"} 5", 5, "a", "b=\"c\""},
        {"a{} -1.5e3", -1500, "a", ""},
        {"a{b=\"}\"} 7", 7, "a", "b=\"}\""},
        {"a{b=\"\\\"}\"} 8", 8, "a", "b=\"\\\"}\""},
        {"a{b=\"c\"} +Inf", INFINITY, "a", "b=\"c\""},
        {"# HELP a 5", NAN, "", ""},
        {"#a 5", NAN, "", ""},
        {"a", NAN, "", ""},
        {"", NAN, "", ""},
        {" 5", NAN, "", ""},
        {"a x", NAN, "", ""},
        {"a{b=\"c\" 5", NAN, "", ""},
        {"a{b=\"c} 5", NAN, "", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct metrics_text page = page_of(ROWS[i].line);
        bool is_sample = !isnan(ROWS[i].value);
        if (page.samples.count != is_sample)
            check_fail(__FILE__, __LINE__, "'%s': %zu samples", ROWS[i].line, page.samples.count);
        if (is_sample) {
            EXPECT(page.samples.items[0].value == ROWS[i].value);
            EXPECT_STR(page.samples.items[0].name, ROWS[i].name);
            EXPECT_STR(page.samples.items[0].labels, ROWS[i].labels);
        }
        metrics_text_release(&page);
    }
}

TEST(metrics_text_finds_labels) {
    static const struct {
        const char *labels, *label;
        size_t room;
        const char *value; /* NULL: none */
    } ROWS[] = {
        {"a=\"1\",bc=\"2\"", "a", 9, "1"},
        {"a=\"1\",bc=\"2\"", "bc", 9, "2"},
        {"a=\"1\", bc=\"2\"", "bc", 9, "2"},
        {"a=\"1\",bc=\"2\"", "b", 9, NULL},
        {"a=\"1\",bc=\"2\"", "c", 9, NULL},
        {"a=\"1\",bc=\"2\"", "", 9, NULL},
        {"a=\"b=\\\"2\\\"\"", "b", 9, NULL},
        {"a=\"x\\\"y\"", "a", 9, "x\"y"},
        {"a=\"x\\\\y\"", "a", 9, "x\\y"},
        {"a=\"x\\ny\"", "a", 9, "x\ny"},
        {"a=\"n\"", "a", 9, "n"},
        {"a=\"\"", "a", 9, ""},
        {"a=\"12\"", "a", 3, "12"},
        {"a=\"123\"", "a", 3, NULL},
        {"", "a", 9, NULL},
        {"a", "a", 9, NULL},
        {"a=1", "a", 9, NULL},
        {"a=\"1\",a=\"2\"", "a", 9, "1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct metrics_sample s = {.name = "m", .labels = ROWS[i].labels};
        char out[16] = "";
        bool found = metrics_label(&s, ROWS[i].label, out, ROWS[i].room);
        if (found != (ROWS[i].value != NULL) || (found && strcmp(out, ROWS[i].value)))
            check_fail(__FILE__, __LINE__, "%s of %s: %d '%s'", ROWS[i].label, ROWS[i].labels,
                       found, out);
    }
}

TEST(metrics_text_adds_what_is_asked_for) {
    struct metrics_text page = page_of("a{x=\"1\",y=\"p\"} 1\na{x=\"1\",y=\"q\"} 2\n"
                                       "a{x=\"2\",y=\"p\"} 4\nab{x=\"1\"} 8\na 16\n");
    EXPECT(metrics_sum(&page, "a", NULL, NULL) == 23);
    EXPECT(metrics_sum(&page, "a", "x", "1") == 3);
    EXPECT(metrics_sum(&page, "a", "y", "p") == 5);
    EXPECT(metrics_sum(&page, "a", "x", "3") == 0);
    EXPECT(metrics_sum(&page, "ab", NULL, NULL) == 8);
    EXPECT(metrics_sum(&page, "b", NULL, NULL) == 0);
    metrics_text_release(&page);
}

TEST(metrics_text_has_quantiles) {
    /* of two processes: 4 up to 1, 4 from there to 2, 2 to 4, and none past it */
    static const char NOW[] = "h_bucket{i=\"0\",le=\"1\"} 3\nh_bucket{i=\"0\",le=\"2\"} 6\n"
                              "h_bucket{i=\"0\",le=\"4\"} 7\nh_bucket{i=\"0\",le=\"+Inf\"} 7\n"
                              "h_bucket{i=\"1\",le=\"+Inf\"} 3\nh_bucket{i=\"1\",le=\"4\"} 3\n"
                              "h_bucket{i=\"1\",le=\"2\"} 2\nh_bucket{i=\"1\",le=\"1\"} 1\n"
                              "h_sum 9\nh_count 10\n";
    static const char EARLIER[] = "h_bucket{i=\"0\",le=\"1\"} 3\nh_bucket{i=\"0\",le=\"2\"} 3\n"
                                  "h_bucket{i=\"0\",le=\"4\"} 3\nh_bucket{i=\"0\",le=\"+Inf\"} 3\n";
    static const struct {
        double q, all, since, of_one;
    } ROWS[] = {
        {0, 0, 0, 0},       {0.2, 0.5, 1.1, 0.6}, {0.4, 1, 1.45, 1.2}, {0.5, 1.25, 1.625, 1.5},
        {0.8, 2, 2.6, 2.8}, {0.9, 3, 3.3, 3.4},   {1, 4, 4, 4},
    };
    struct metrics_text now = page_of(NOW), earlier = page_of(EARLIER),
                        past = page_of("h_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 4\n"
                                       "g_bucket{le=\"+Inf\"} 4\n");
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        double all = metrics_quantile(&now, NULL, "h", NULL, NULL, ROWS[i].q),
               since = metrics_quantile(&now, &earlier, "h", NULL, NULL, ROWS[i].q),
               of_one = metrics_quantile(&now, NULL, "h", "i", "1", ROWS[i].q);
        if (fabs(all - ROWS[i].all) > 1e-9 || fabs(since - ROWS[i].since) > 1e-9 ||
            fabs(of_one - ROWS[i].of_one) > 1e-9)
            check_fail(__FILE__, __LINE__, "%g: %g, %g, %g", ROWS[i].q, all, since, of_one);
    }
    EXPECT(isnan(metrics_quantile(&now, &now, "h", NULL, NULL, 0.5))); /* nothing since then */
    EXPECT(isnan(metrics_quantile(&now, NULL, "none", NULL, NULL, 0.5)));
    EXPECT(metrics_quantile(&past, NULL, "h", NULL, NULL, 0.9) == 1); /* past the last bound */
    EXPECT(isnan(metrics_quantile(&past, NULL, "g", NULL, NULL, 0.9)));
    metrics_text_release(&now);
    metrics_text_release(&earlier);
    metrics_text_release(&past);
}
