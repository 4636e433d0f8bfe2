#include "base/base.h"
#include "check.h"
#include "cli/top_view.h"

#include <math.h>

static const char PAGE[] =
    "# HELP a b\n# TYPE a counter\n"
    "trireme_build_info{version=\"9.8\",machine=\"x\"} 1\n"
    "trireme_process_start_time_seconds{instance=\"0\"} 1000\n"
    "trireme_process_resident_bytes{instance=\"0\"} 2000000\n"
    "trireme_process_resident_bytes{instance=\"1\"} 3000000\n"
    "trireme_gateway_scheduler_up 1\n"
    "trireme_gateway_answers_total{status=\"200\"} 30\n"
    "trireme_gateway_answers_total{status=\"429\"} 0\n"
    "vllm:num_requests_running{model_name=\"a \\\"b\\\"\"} 3\n"
    "trireme_model_slots{model_name=\"a \\\"b\\\"\"} 8\n"
    "trireme_model_blocks{model_name=\"a \\\"b\\\"\"} 100\n"
    "trireme_model_blocks_used{model_name=\"a \\\"b\\\"\"} 50\n"
    "trireme_model_blocks_cached{model_name=\"a \\\"b\\\"\"} 25\n"
    "trireme_model_output_tokens_total{model_name=\"a \\\"b\\\"\"} 700\n"
    "trireme_model_steps_total{model_name=\"a \\\"b\\\"\"} 110\n"
    "trireme_model_step_tokens_total{model_name=\"a \\\"b\\\"\"} 450\n"
    "vllm:time_to_first_token_seconds_bucket{model_name=\"a \\\"b\\\"\",le=\"0.1\"} 10\n"
    "vllm:time_to_first_token_seconds_bucket{model_name=\"a \\\"b\\\"\",le=\"0.5\"} 30\n"
    "vllm:time_to_first_token_seconds_bucket{model_name=\"a \\\"b\\\"\",le=\"+Inf\"} 30\n"
    "no sample\nbroken{x=\"1 2\n{} 3\n";
static const char EARLIER[] =
    "trireme_gateway_answers_total{status=\"200\"} 10\n"
    "trireme_model_output_tokens_total{model_name=\"a \\\"b\\\"\"} 500\n"
    "trireme_model_steps_total{model_name=\"a \\\"b\\\"\"} 100\n"
    "trireme_model_step_tokens_total{model_name=\"a \\\"b\\\"\"} 400\n"
    "vllm:time_to_first_token_seconds_bucket{model_name=\"a \\\"b\\\"\",le=\"0.1\"} 10\n"
    "vllm:time_to_first_token_seconds_bucket{model_name=\"a \\\"b\\\"\",le=\"0.5\"} 20\n"
    "vllm:time_to_first_token_seconds_bucket{model_name=\"a \\\"b\\\"\",le=\"+Inf\"} 20\n";

static struct metrics_text read_page(const char *text) {
    struct metrics_text page;
    metrics_text_init(&page, bytes_of(text, strlen(text)));
    return page;
}

TEST(metrics_text_reads_samples_and_passes_over_the_rest) {
    struct metrics_text page = read_page(PAGE);
    char label[16];
    EXPECT_EQ(page.samples.count, 18);
    EXPECT_EQ(metrics_sum(&page, "trireme_process_resident_bytes", NULL, NULL), 5000000);
    EXPECT_EQ(metrics_sum(&page, "trireme_model_slots", "model_name", "a \"b\""), 8);
    EXPECT_EQ(metrics_sum(&page, "trireme_model_slots", "model_name", "a"), 0);
    EXPECT(metrics_label(&page.samples.items[0], "machine", label, sizeof label));
    EXPECT_STR(label, "x");
    EXPECT(!metrics_label(&page.samples.items[0], "machin", label, sizeof label));
    EXPECT(!metrics_label(&page.samples.items[0], "version", label, 3)); /* "9.8" and its end */
    metrics_text_release(&page);
    page = read_page("m{a=\"1\\\\n\\n\",b=\"}\"} 2\n");
    EXPECT(metrics_label(&page.samples.items[0], "a", label, sizeof label));
    EXPECT_STR(label, "1\\n\n");
    EXPECT(metrics_label(&page.samples.items[0], "b", label, sizeof label));
    EXPECT_STR(label, "}");
    metrics_text_release(&page);
}

TEST(metrics_quantile_interpolates_within_a_bucket) {
    static const char NAME[] = "vllm:time_to_first_token_seconds";
    struct metrics_text page = read_page(PAGE), earlier = read_page(EARLIER);
    /* 10 of 30 up to 0.1, the other 20 up to 0.5: the 15th lies a quarter of the way */
    double q = metrics_quantile(&page, NULL, NAME, "model_name", "a \"b\"", 0.5);
    EXPECT(fabs(q - 0.2) < 1e-9);
    /* since the earlier page there were 10, all between the two bounds */
    q = metrics_quantile(&page, &earlier, NAME, "model_name", "a \"b\"", 0.5);
    EXPECT(fabs(q - 0.3) < 1e-9);
    EXPECT(isnan(metrics_quantile(&page, &page, NAME, "model_name", "a \"b\"", 0.5)));
    EXPECT(isnan(metrics_quantile(&page, NULL, "none", NULL, NULL, 0.5)));
    metrics_text_release(&page);
    metrics_text_release(&earlier);
}

static struct buf view(const struct metrics_text *page, const struct metrics_text *earlier,
                       size_t columns) {
    struct buf out;
    buf_init(&out, 0);
    struct top_input in = {
        .url = "http://h", .page = page, .earlier = earlier, .seconds = 2, .now = 1000 + 3725};
    top_view(&out, &in, columns);
    return out;
}

TEST(top_shows_rates_between_two_pages) {
    struct metrics_text page = read_page(PAGE), earlier = read_page(EARLIER);
    struct buf out = view(&page, &earlier, 200);
    const char *text = buf_text(&out);
    EXPECT(strstr(text, "trireme 9.8 at http://h, up 1:02:05\n"));
    EXPECT(strstr(text, "gateways 2 (5 MB)   scheduler yes"));
    EXPECT(strstr(text, "responses/s   200: 10\n"));
    EXPECT(strstr(text, "\na \"b\"\n"));
    EXPECT(strstr(text, "running 3 of 8 slots"));
    EXPECT(strstr(text, "[##########+++++-----] 50 used, 25 cached of 100\n"));
    EXPECT(strstr(text, "output 100, prompt 0   steps/s 5   tokens/step 5\n"));
    EXPECT(strstr(text, "first token p50 300 ms"));
    EXPECT(strstr(text, "next token p50 -"));
    buf_release(&out);
    metrics_text_release(&page);
    metrics_text_release(&earlier);
}

TEST(top_counts_no_time_before_the_start) {
    struct metrics_text page = read_page("trireme_process_start_time_seconds 4725.6\n");
    struct buf out = view(&page, NULL, 80);
    EXPECT(strstr(buf_text(&out), ", up 0:00:00\n"));
    buf_release(&out);
    metrics_text_release(&page);
}

TEST(top_has_no_rates_at_first_and_keeps_within_the_screen) {
    struct metrics_text page = read_page(PAGE);
    struct buf out = view(&page, NULL, 40);
    EXPECT(strstr(buf_text(&out), "output -, prompt -"));
    for (const char *line = buf_text(&out); *line; line += strcspn(line, "\n") + 1)
        EXPECT(strcspn(line, "\n") <= 40);
    buf_release(&out);
    metrics_text_release(&page);
    page = read_page("vllm:num_requests_running{model_name=\"a\\nb\x1b[2J\"} 3\n");
    out = view(&page, NULL, 80);
    EXPECT(strstr(buf_text(&out), "b?[2J")); /* a name is no command to the terminal */
    buf_release(&out);
    metrics_text_release(&page);
    page = read_page("nothing");
    out = view(&page, NULL, 80);
    EXPECT(strstr(buf_text(&out), "no model"));
    buf_release(&out);
    metrics_text_release(&page);
}

TEST(top_leaves_out_models_that_only_an_earlier_serve_had) {
    static const char TWO[] = "vllm:num_requests_running{model_name=\"now\"} 0\n"
                              "vllm:num_requests_running{model_name=\"before\"} 0\n"
                              "vllm:num_requests_running{model_name=\"hidden\"} 0\n"
                              "trireme_model_replicas_ready{model_name=\"hidden\"} 1\n";
    struct metrics_text page = read_page(TWO);
    cJSON *listed = cJSON_Parse("{\"data\":[{\"id\":\"other\"},{},{\"id\":\"now\"}]}");
    struct top_input in = {.url = "x", .page = &page, .listed = listed};
    struct buf out;
    buf_init(&out, 0);
    top_view(&out, &in, 80);
    EXPECT(strstr(buf_text(&out), "\nnow\n") && strstr(buf_text(&out), "\nhidden\n"));
    EXPECT(!strstr(buf_text(&out), "before"));
    buf_reset(&out);
    in.listed = NULL; /* not told, as without the key */
    top_view(&out, &in, 80);
    EXPECT(strstr(buf_text(&out), "\nbefore\n"));
    buf_release(&out);
    cJSON_Delete(listed);
    metrics_text_release(&page);
}
