/* The report of a load test, whole: each line of its text and each key of its JSON. */
#include "check.h"
#include "cli/bench/report.h"

#include <math.h>

static struct bench_about about(void) {
    struct bench_about a = {.backend = "openai",
                            .dataset = "random",
                            .model = "m",
                            .prompt_count = 5,
                            .rate = 2.5,
                            .burstiness = 1,
                            .max_open = 7,
                            .measures = 1u << BENCH_TTFT};
    struct error err;
    CHECK(bench_percentiles_parse("50,99", &a.percentiles, &err) == 0);
    return a;
}

static struct bench_report report(void) {
    struct bench_report r = {.completed = 3,
                             .failed = 2,
                             .input_tokens = 30,
                             .output_tokens = 45,
                             .seconds = 1.5,
                             .request_rate = 2,
                             .goodput = 1.25,
                             .output_rate = 30,
                             .total_rate = 50,
                             .peak_output_rate = 40,
                             .peak_concurrent = 4};
    r.measures[BENCH_TTFT] = (struct bench_figures){1, 2, 3, {4, 5}, 3};
    return r;
}

TEST(the_text_has_each_line) {
    struct bench_about a = about();
    struct bench_report r = report();
    struct buf text = {0};
    a.limits.any = true;
    bench_report_text(&text, &a, &r);
    EXPECT_STR(buf_text(&text), "============ Serving Benchmark Result ============\n"
                                "Successful requests:                     3         \n"
                                "Failed requests:                         2         \n"
                                "Maximum request concurrency:             7         \n"
                                "Request rate configured (RPS):           2.50      \n"
                                "Benchmark duration (s):                  1.50      \n"
                                "Total input tokens:                      30        \n"
                                "Total generated tokens:                  45        \n"
                                "Request throughput (req/s):              2.00      \n"
                                "Request goodput (req/s):                 1.25      \n"
                                "Output token throughput (tok/s):         30.00     \n"
                                "Peak output token throughput (tok/s):    40.00     \n"
                                "Peak concurrent requests:                4.00      \n"
                                "Total token throughput (tok/s):          50.00     \n"
                                "---------------Time to First Token----------------\n"
                                "Mean TTFT (ms):                          1.00      \n"
                                "Median TTFT (ms):                        2.00      \n"
                                "P50 TTFT (ms):                           4.00      \n"
                                "P99 TTFT (ms):                           5.00      \n"
                                "==================================================\n");
    buf_release(&text);
}

TEST(the_json_has_each_key) {
    struct bench_about a = about();
    struct bench_report r = report();
    float gaps[] = {0.25f, 0.5f};
    struct bench_outcome outcomes[2] = {
        {.sent = 1, .first = 1.5, .prompt_tokens = 10, .output_tokens = 3},
        {.sent = 2, .first = -1, .prompt_tokens = 20, .error = (char[]){"refused"}}};
    outcomes[0].gaps.items = gaps;
    outcomes[0].gaps.count = 2;
    struct buf json = {0};
    a.detailed = true;
    bench_report_json(&json, &a, &r, outcomes, 2);
    EXPECT_STR(buf_text(&json),
               "{\"backend\":\"openai\",\"model_id\":\"m\",\"dataset_name\":\"random\","
               "\"num_prompts\":5,\"request_rate\":2.5,\"burstiness\":1,"
               "\"max_concurrency\":7,\"duration\":1.5,\"completed\":3,\"failed\":2,"
               "\"total_input_tokens\":30,\"total_output_tokens\":45,"
               "\"max_concurrent_requests\":4,\"request_throughput\":2,"
               "\"request_goodput\":null,\"output_throughput\":30,"
               "\"max_output_tokens_per_s\":40,\"total_token_throughput\":50,"
               "\"mean_ttft_ms\":1,\"median_ttft_ms\":2,\"std_ttft_ms\":3,"
               "\"p50_ttft_ms\":4,\"p99_ttft_ms\":5,\"mean_tpot_ms\":null,"
               "\"median_tpot_ms\":null,\"std_tpot_ms\":null,\"p50_tpot_ms\":null,"
               "\"p99_tpot_ms\":null,\"mean_itl_ms\":null,\"median_itl_ms\":null,"
               "\"std_itl_ms\":null,\"p50_itl_ms\":null,\"p99_itl_ms\":null,"
               "\"mean_e2el_ms\":null,\"median_e2el_ms\":null,"
               "\"std_e2el_ms\":null,\"p50_e2el_ms\":null,\"p99_e2el_ms\":null,"
               "\"input_lens\":[10,20],\"output_lens\":[3,0],\"ttfts\":[0.5,null],"
               "\"itls\":[[0.25,0.5],[]],\"start_times\":[1,2],\"errors\":[\"\","
               "\"refused\"]}\n");
    buf_reset(&json);
    a.detailed = false;
    a.limits.any = true;
    a.max_open = 0;
    a.rate = INFINITY;
    bench_report_json(&json, &a, &r, outcomes, 2);
    EXPECT_STR(buf_text(&json),
               "{\"backend\":\"openai\",\"model_id\":\"m\",\"dataset_name\":\"random\","
               "\"num_prompts\":5,\"request_rate\":\"inf\",\"burstiness\":1,"
               "\"max_concurrency\":null,\"duration\":1.5,\"completed\":3,"
               "\"failed\":2,\"total_input_tokens\":30,\"total_output_tokens\":45,"
               "\"max_concurrent_requests\":4,\"request_throughput\":2,"
               "\"request_goodput\":1.25,\"output_throughput\":30,"
               "\"max_output_tokens_per_s\":40,\"total_token_throughput\":50,"
               "\"mean_ttft_ms\":1,\"median_ttft_ms\":2,\"std_ttft_ms\":3,"
               "\"p50_ttft_ms\":4,\"p99_ttft_ms\":5,\"mean_tpot_ms\":null,"
               "\"median_tpot_ms\":null,\"std_tpot_ms\":null,\"p50_tpot_ms\":null,"
               "\"p99_tpot_ms\":null,\"mean_itl_ms\":null,\"median_itl_ms\":null,"
               "\"std_itl_ms\":null,\"p50_itl_ms\":null,\"p99_itl_ms\":null,"
               "\"mean_e2el_ms\":null,\"median_e2el_ms\":null,"
               "\"std_e2el_ms\":null,\"p50_e2el_ms\":null,\"p99_e2el_ms\":null}\n");
    buf_release(&json);
}
