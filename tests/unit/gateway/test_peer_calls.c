/* Calls that other servers have beside generations: how busy a model is, texts as tokens, what a model wrote taken
 * apart. Whole answers, to the byte. */
#include "world.h"

/* One answer; JSON's white space as it comes. */
static void expect_answer(struct world *w, const char *method, const char *path, const char *body,
                          int status, const char *want) {
    struct answer a;
    client_request(w->port, method, path, NULL, body, &a);
    if (a.status != status || !strstr(buf_text(&a.body), want))
        check_fail(__FILE__, __LINE__, "%s %s: %d '%s', expected '%s'", path, body ? body : "",
                   a.status, buf_text(&a.body), want);
    answer_release(&a);
}

#define ENTRY                                                                                      \
    "\"loads\":[{\"dp_rank\":0,\"model\":\"fake\",\"num_running_reqs\":3,\"num_waiting_reqs\":2,"  \
    "\"num_total_reqs\":5,\"num_used_tokens\":528,\"max_total_num_tokens\":1760,\"token_usage\":"  \
    "0.3,\"max_running_requests\":8}]}\n"
#define PROMETHEUS                                                                                 \
    "# TYPE sglang_num_running_reqs gauge\nsglang_num_running_reqs{dp_rank=\"0\"} 3\n"             \
    "# TYPE sglang_num_waiting_reqs gauge\nsglang_num_waiting_reqs{dp_rank=\"0\"} 2\n"             \
    "# TYPE sglang_num_total_reqs gauge\nsglang_num_total_reqs{dp_rank=\"0\"} 5\n"                 \
    "# TYPE sglang_num_used_tokens gauge\nsglang_num_used_tokens{dp_rank=\"0\"} 528\n"             \
    "# TYPE sglang_max_total_num_tokens gauge\nsglang_max_total_num_tokens{dp_rank=\"0\"} 1760\n"  \
    "# TYPE sglang_token_usage gauge\nsglang_token_usage{dp_rank=\"0\"} 0.3\n"                     \
    "# TYPE sglang_max_running_requests gauge\nsglang_max_running_requests{dp_rank=\"0\"} 8\n"

TEST(loads_are_what_the_scheduler_tells) {
    static const struct {
        const char *path;
        int status;
        const char *want;
    } CASES[] = {
        {"/get_load", 200,
         "[{\"dp_rank\":0,\"num_reqs\":5,\"num_waiting_reqs\":2,\"num_tokens\":528}]\n"},
        {"/v1/loads", 200,
         "+00:00\",\"version\":\"" TRIREME_VERSION "\",\"accelerator\":null," ENTRY},
        {"/v1/loads?format=json", 200, ENTRY},
        {"/v1/loads?dp_rank=0", 200, ENTRY},
        {"/v1/loads?include=core,%20queues", 200, ENTRY},
        {"/v1/loads?include=", 200, ENTRY},
        {"/v1/loads?format=prometheus", 200, PROMETHEUS},
        {"/v1/loads?format=prometheus&dp_rank=0", 200, PROMETHEUS},
        {"/v1/loads?dp_rank=1", 400, "'dp_rank' is the number of an entry: there are 1"},
        {"/v1/loads?dp_rank=-1", 400, "'dp_rank' is the number of an entry: there are 1"},
        {"/v1/loads?dp_rank=x", 400, "'dp_rank' is the number of an entry: there are 1"},
        {"/v1/loads?include=core,speed", 400,
         "'include' takes all,core,memory,spec,lora,disagg,queues"},
        {"/v1/loads?format=xml", 400, "'format' must be json or prometheus"},
    };
    struct world w;
    world_prepare(&w);
    w.fake_config.load = (struct fake_load){.running = 3,
                                            .waiting = 2,
                                            .slots = 8,
                                            .blocks = 110,
                                            .blocks_used = 33,
                                            .block_tokens = 16};
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        expect_answer(&w, "GET", CASES[i].path, NULL, CASES[i].status, CASES[i].want);
    world_end(&w);
}

TEST(what_a_model_wrote_is_taken_apart) {
#define CALLS                                                                                      \
    "Let.\\n<tool_call>{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{\\\"a\\\":1}}</tool_call>"       \
    "<tool_call>{\\\"name\\\":\\\"g\\\",\\\"arguments\\\":{}}</tool_call>"
    static const struct {
        const char *path, *body;
        int status;
        const char *want;
    } CASES[] = {
        {"/separate_reasoning",
         "{\"text\":\"<think>a\\n\\\"b\\\"</think>c\",\"reasoning_parser\":\"qwen3\"}", 200,
         "{\"reasoning_text\":\"a\\n\\\"b\\\"\",\"text\":\"c\"}"},
        {"/separate_reasoning", "{\"text\":\"a</think>c\",\"reasoning_parser\":\"qwen3\"}", 200,
         "{\"reasoning_text\":\"a\",\"text\":\"c\"}"},
        {"/separate_reasoning", "{\"text\":\"c\",\"reasoning_parser\":\"qwen3\"}", 200,
         "{\"reasoning_text\":\"\",\"text\":\"c\"}"},
        {"/separate_reasoning", "{\"text\":\"<think>a\",\"reasoning_parser\":\"qwen3\"}", 200,
         "{\"reasoning_text\":\"a\",\"text\":\"\"}"},
        /* what is closed in front of an opening mark was not open from the start */
        {"/separate_reasoning", "{\"text\":\"x<think>a</think>c\",\"reasoning_parser\":\"qwen3\"}",
         200, "\"text\":\"x"},
        {"/separate_reasoning", "{}", 400, "'text' is missing"},
        {"/separate_reasoning", "{\"text\":\"\",\"reasoning_parser\":\"nobody\"}", 400,
         "'reasoning_parser': no format is called 'nobody'; docs/parsers.md lists them"},
        {"/parse_function_call", "{\"text\":\"" CALLS "\",\"tool_call_parser\":\"hermes\"}", 200,
         "\",\"calls\":[{\"tool_index\":0,\"name\":\"f\",\"parameters\":\"{\\\"a\\\":1}\"},{"
         "\"tool_index\":1,\"name\":\"g\",\"parameters\":\"{}\"}]}"},
        {"/parse_function_call", "{\"text\":\"No \\\"call\\\".\",\"tool_call_parser\":\"hermes\"}",
         200, "{\"normal_text\":\"No \\\"call\\\".\",\"calls\":[]}"},
        {"/parse_function_call", "{\"tool_call_parser\":\"hermes\"}", 400, "'text' is missing"},
        {"/parse_function_call", "{\"text\":\"\",\"tool_call_parser\":\"nobody\"}", 400,
         "'tool_call_parser': no format is called 'nobody'; docs/parsers.md lists them"},
    };
    struct world w;
    world_prepare(&w);
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        expect_answer(&w, "POST", CASES[i].path, CASES[i].body, CASES[i].status, CASES[i].want);
    world_end(&w);
}
