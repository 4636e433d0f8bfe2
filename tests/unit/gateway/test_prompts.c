/* How prompts come to be: paths and models, lengths, templates, and the calls that only make text or tokens. */
#include "world.h"

#include "gateway/gateway_state.h"
#include "gateway/generation/work_pool.h"
#include "gateway/prompts/prepare.h"
#include "gateway/watch/gateway_metrics.h"

static bool is_unready(struct world *w) {
    return !is_ready(w);
}

TEST(paths_methods_and_models_are_checked) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    EXPECT(world_start(&w));
    static const struct {
        const char *method, *path, *body;
        int status;
    } cases[] = {
        {"GET", "/", NULL, 200},
        {"GET", "//", NULL, 404},
        {"GET", "/v1/models/", NULL, 404},
        {"GET", "/v1/models/none", NULL, 404},
        {"GET", "/v1/models/fake", NULL, 200},
        {"HEAD", "/health", NULL, 200},
        {"DELETE", "/v1/models", NULL, 405},
        {"GET", "/v1/completions", NULL, 405},
        {"POST", "/health", "{}", 405},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"model\":\"other\"}", 404},
        {"POST", "/v1/completions", "{\"prompt\":[1,2,99999999]}", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"stop_token_ids\":[99999999]}", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":3,\"min_tokens\":4}", 400},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":3,\"model\":\"fake\"}", 200},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":3,\"priority\":7}", 200},
        {"POST", "/v1/completions", "{\"prompt\":\"a\",\"max_tokens\":3,\"priority\":-1}", 400},
        {"GET", "/metrics", NULL, 200},
        {"GET", "/version", NULL, 200},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        client_request(w.port, cases[i].method, cases[i].path, NULL, cases[i].body, &a);
        EXPECT_EQ(a.status, cases[i].status);
        if (a.status >= 400)
            EXPECT(strstr(buf_text(&a.body), "{\"error\":{\"message\":\"") == buf_text(&a.body));
        answer_release(&a);
    }
    world_end(&w);
}

TEST(info_tells_the_bounds_of_the_model) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.fake_config.max_context = 777;
    EXPECT(world_start(&w));
    client_request(w.port, "GET", "/info", NULL, NULL, &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(strstr(buf_text(&a.body), "\"model_id\":\"fake\""));
    EXPECT(strstr(buf_text(&a.body), "\"max_input_tokens\":776,\"max_total_tokens\":777"));
    answer_release(&a);
    client_request(w.port, "GET", "/get_model_info", NULL, NULL, &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(strstr(buf_text(&a.body), "\"model_path\":\"fake\""));
    EXPECT(strstr(buf_text(&a.body), "\"is_generation\":true"));
    answer_release(&a);
    client_request(w.port, "GET", "/server_info", NULL, NULL, &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(strstr(buf_text(&a.body), "\"is_embedding\":false,\"context_length\":777"));
    answer_release(&a);
    client_request(w.port, "GET", "/info?model=none", NULL, NULL, &a);
    EXPECT_EQ(a.status, 404);
    answer_release(&a);
    world_end(&w);
}

TEST(a_prompt_past_the_context_is_refused_and_a_long_answer_cut) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.fake_config.max_context = 8;
    EXPECT(world_start(&w));
    POST(&w, "{\"prompt\":[1,2,3,4,5,6,7,8]}", &a);
    EXPECT_EQ(a.status, 400);
    EXPECT(strstr(buf_text(&a.body), "\"context_length_exceeded\""));
    answer_release(&a);
    POST(&w, "{\"prompt\":[1,2,3,4,5],\"max_tokens\":100,\"ignore_eos\":true}", &a);
    EXPECT_EQ(a.status, 200);
    EXPECT_EQ(a.completion_tokens, 3);
    EXPECT_STR(a.finish[0], "length");
    answer_release(&a);
    world_end(&w);
}

/* Its bytes say that it is too long: it is refused before anybody tokenizes it, whatever the path. */
TEST(a_text_too_long_by_its_bytes_is_not_tokenized) {
    static const struct {
        const char *path, *before, *behind, *param, *code;
    } CASES[] = {
        {"/v1/completions", "{\"prompt\":\"", "\"}", "prompt", "context_length_exceeded"},
        {"/v1/completions", "{\"prompt\":[\"a\",\"", "\"]}", "prompt", "context_length_exceeded"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]}",
         "messages", "context_length_exceeded"},
        {"/infill", "{\"input_suffix\":\"b\",\"input_prefix\":\"", "\"}", "input_prefix",
         "exceed_context_size_error"},
        {"/infill", "{\"input_suffix\":\"b\",\"input_prefix\":\"a\",\"prompt\":\"", "\"}",
         "input_prefix", "exceed_context_size_error"},
    };
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.fake_config.max_context = 200;
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct buf body = {0};
        char said[64];
        buf_add_str(&body, CASES[i].before);
        for (int k = 0; k < 20000; k++)
            buf_add_str(&body, "word ");
        buf_add_str(&body, CASES[i].behind);
        client_request(w.port, "POST", CASES[i].path, NULL, buf_text(&body), &a);
        EXPECT_EQ(a.status, 400);
        EXPECT(strstr(buf_text(&a.body), CASES[i].code));
        snprintf(said, sizeof said, "'%s' has 100", CASES[i].param);
        EXPECT(strstr(buf_text(&a.body), said));
        EXPECT(strstr(buf_text(&a.body), " tokens; this model's context is 200\""));
        answer_release(&a);
        buf_release(&body);
    }
    world_end(&w);
}

TEST(bytes_refuse_only_what_tokens_would) {
    struct text_model text = {.token_bytes_most = 7};
    struct served_model m = {.max_context = 10, .text = &text};
    struct api_error err;
    EXPECT_EQ(prepare_check_bytes(&m, 0, 9, "prompt", &err), 0);
    EXPECT_EQ(prepare_check_bytes(&m, 69, 9, "prompt", &err), 0); /* nine tokens, and a part */
    EXPECT_EQ(prepare_check_bytes(&m, 70, 9, "prompt", &err), -1);
    EXPECT_EQ(err.status, 400);
    EXPECT(strstr(err.text, "70 bytes") && strstr(err.text, "at least 10 tokens"));
    text.token_bytes_most = SIZE_MAX;
    EXPECT_EQ(prepare_check_bytes(&m, (size_t)1 << 40, 9, "prompt", &err), 0);
}

TEST(a_long_prompt_is_prepared_aside) {
    struct world w;
    struct answer a;
    struct buf body;
    world_prepare(&w);
    EXPECT(world_start(&w));
    buf_init(&body, 0);
    buf_add_str(&body, "{\"max_tokens\":4,\"seed\":3,\"ignore_eos\":true,\"stop\":\"\\u0001none\","
                       "\"cache_salt\":\"s\",\"prompt\":\"");
    for (int i = 0; i < 60000; i++)
        buf_addf(&body, "word%d ", i % 100);
    buf_add_str(&body, "\"}");
    int left = client_open(w.port, "POST", "/v1/completions", NULL, buf_text(&body));
    close(left);
    POST(&w, buf_text(&body), &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(a.prompt_tokens > 60000);
    EXPECT_EQ(a.completion_tokens, 4);
    answer_release(&a);
    buf_add_str(&body, "x"); /* read elsewhere as well, and refused */
    POST(&w, buf_text(&body), &a);
    EXPECT_EQ(a.status, 400);
    EXPECT(strstr(buf_text(&a.body), "malformed JSON"));
    answer_release(&a);
    body.data[--body.len] = 0;
    w.fake_config.max_context = 1000; /* as the gateway will hear */
    fake_kill(&w.fake);
    EXPECT(wait_until(is_unready, &w));
    EXPECT(world_fake(&w));
    EXPECT(wait_until(is_ready, &w));
    POST(&w, buf_text(&body), &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    buf_release(&body);
    EXPECT_EQ(atomic_load(&w.gw->open_count), 0);
    world_end(&w);
}

/* Between 32 and 128 KB: read at once, tokenized aside. And one that comes before there is a
 * model. */
TEST(a_middling_prompt_and_an_early_one) {
    struct world w;
    struct answer a;
    struct buf body;
    world_prepare(&w);
    EXPECT(world_gateway(&w));
    buf_init(&body, 0);
    for (int size = 8000; size <= 40000; size *= 5) {
        buf_reset(&body);
        buf_add_str(&body, "{\"max_tokens\":4,\"ignore_eos\":true,\"prompt\":\"");
        for (int i = 0; i < size; i++)
            buf_addf(&body, "word%d ", i % 100);
        buf_add_str(&body, "\"}");
        int fd = client_open(w.port, "POST", "/v1/completions", NULL, buf_text(&body));
        if (!w.fake) {
            sleep_ms(200);
            EXPECT(world_fake(&w));
        }
        answer_init(&a);
        client_finish(fd, &a);
        EXPECT_EQ(a.status, 200);
        EXPECT(a.prompt_tokens > size);
        EXPECT_EQ(a.completion_tokens, 4);
        answer_release(&a);
    }
    buf_release(&body);
    world_end(&w);
}

TEST(an_early_long_body_waits_for_its_model) {
    struct world w;
    struct answer a;
    struct buf body;
    world_prepare(&w);
    EXPECT(world_gateway(&w));
    buf_init(&body, 0);
    buf_add_str(&body, "{\"max_tokens\":4,\"ignore_eos\":true,\"stop\":\"\\u0001\",\"prompt\":\"");
    for (int i = 0; i < 50000; i++)
        buf_addf(&body, "word%d ", i % 100);
    buf_add_str(&body, "\"}");
    int fd = client_open(w.port, "POST", "/v1/completions", NULL, buf_text(&body));
    sleep_ms(300);
    EXPECT(world_fake(&w));
    answer_init(&a);
    client_finish(fd, &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(a.prompt_tokens > 50000);
    answer_release(&a);
    buf_release(&body);
    world_end(&w);
}

TEST(a_chat_goes_through_the_template) {
    struct world w;
    struct answer one, two;
    static const char messages[] = "{\"messages\":[{\"role\":\"user\",\"content\":%s}],"
                                   "\"max_tokens\":12,"
                                   "\"seed\":2,"
                                   "\"ignore_eos\":true%s}";
    char body[512];
    world_prepare(&w);
    EXPECT(world_start(&w));
    snprintf(body, sizeof body, messages, "\"hello\"", "");
    client_request(w.port, "POST", "/v1/chat/completions", NULL, body, &one);
    EXPECT_EQ(one.status, 200);
    EXPECT(one.prompt_tokens > 1);
    EXPECT_EQ(one.completion_tokens, 12);
    EXPECT(strstr(buf_text(&one.body), "\"object\":\"chat.completion\""));
    snprintf(body, sizeof body, messages, "[{\"type\":\"text\",\"text\":\"hello\"}]",
             ",\"stream\":true");
    client_request(w.port, "POST", "/v1/chat/completions", NULL, body, &two);
    EXPECT(two.done);
    EXPECT_STR(buf_text(&one.text[0]), buf_text(&two.text[0]));
    EXPECT(strstr(buf_text(&two.body), "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}"));
    answer_release(&one);
    answer_release(&two);
    world_end(&w);
}

/* ---- text calls ---- */

static cJSON *call_json(struct world *w, const char *path, const char *body, int status) {
    struct answer a;
    client_request(w->port, "POST", path, NULL, body, &a);
    cJSON *json = a.status == status ? cJSON_ParseWithLength(buf_text(&a.body), a.body.len) : NULL;
    if (!json)
        check_fail(__FILE__, __LINE__, "%s %s: %d %s", path, body, a.status, buf_text(&a.body));
    answer_release(&a);
    return json;
}

static int count_of(const cJSON *json) {
    return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(json, "tokens"));
}

TEST(text_becomes_tokens_and_text_again) {
    struct world w;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    cJSON *plain = call_json(&w, "/tokenize", "{\"content\":\"Hello, 🚀 world\"}", 200),
          *vllm = call_json(&w, "/tokenize",
                            "{\"prompt\":\"Hello, 🚀 world\",\"return_token_strs\":true}", 200),
          *pieces = call_json(&w, "/tokenize",
                              "{\"content\":\"Hello, 🚀 world\",\"with_pieces\":true}", 200);
    EXPECT(plain && vllm && pieces && count_of(plain) > 3);
    EXPECT_EQ(count_of(vllm), cJSON_GetObjectItemCaseSensitive(vllm, "count")->valueint);
    EXPECT_EQ(count_of(vllm),
              cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(vllm, "token_strs")));
    EXPECT(cJSON_GetObjectItemCaseSensitive(vllm, "max_model_len")->valueint > 0);
    EXPECT_EQ(count_of(pieces), count_of(plain));
    char *tokens = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(plain, "tokens"));
    struct buf body = {0}, joined = {0};
    buf_addf(&body, "{\"tokens\":%s}", tokens);
    cJSON *back = call_json(&w, "/detokenize", buf_text(&body), 200), *piece;
    EXPECT(back);
    EXPECT_STR(client_string(back, "prompt"), "Hello, 🚀 world");
    EXPECT_STR(client_string(back, "content"), "Hello, 🚀 world");
    cJSON_ArrayForEach(piece, cJSON_GetObjectItemCaseSensitive(pieces, "tokens")) {
        const cJSON *p = cJSON_GetObjectItemCaseSensitive(piece, "piece"), *byte;
        if (cJSON_IsString(p))
            buf_add_str(&joined, p->valuestring);
        cJSON_ArrayForEach(byte, p) buf_add_byte(&joined, (char)byte->valueint);
    }
    EXPECT_STR(buf_text(&joined), "Hello, 🚀 world");
    buf_release(&joined);
    buf_release(&body);
    cJSON_free(tokens);
    cJSON_Delete(plain), cJSON_Delete(vllm), cJSON_Delete(pieces), cJSON_Delete(back);
    world_echo_end(&w);
}

TEST(templates_are_applied_without_an_answer) {
    struct world w;
    world_echo(&w, "{{ tools|length if tools }}{% for m in messages %}<{{ m.role }}>{{ m.content "
                   "}}{% endfor %}"
                   "{% if add_generation_prompt %}<a>{% endif %}{{ x }}");
    EXPECT(world_start(&w));
#define HELLO                                                                                      \
    "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hi\"}]}]"
    cJSON *json =
        call_json(&w, "/apply-template", HELLO ",\"chat_template_kwargs\":{\"x\":5}}", 200);
    EXPECT(json);
    EXPECT_STR(client_string(json, "prompt"), "<user>Hi<a>5");
    cJSON_Delete(json);
    json = call_json(&w, "/apply-template", HELLO ",\"add_generation_prompt\":false" TOOL "}", 200);
    EXPECT(json);
    EXPECT_STR(client_string(json, "prompt"), "1<user>Hi");
    cJSON_Delete(json);
    json = call_json(&w, "/tokenize", HELLO "}", 200);
    EXPECT(json && count_of(json) > 2);
    cJSON_Delete(json);
    static const char *const BAD[][2] = {
        {"/apply-template", "{}"},
        {"/tokenize", "{}"},
        {"/tokenize", "{\"prompt\":5}"},
        {"/detokenize", "{}"},
        {"/detokenize", "{\"tokens\":[-1]}"},
        {"/detokenize", "{\"tokens\":[99999999]}"},
        {"/detokenize", "{\"tokens\":\"a\"}"},
        {"/apply-template", HELLO ",\"chat_template\":\"x\"}"},
        {"/tokenize", HELLO ",\"chat_template\":\"x\"}"},
        {"/apply-template", "{\"messages\":[{\"role\":\"user\"}]}"}};
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        json = call_json(&w, BAD[i][0], BAD[i][1], 400);
        EXPECT(json && cJSON_GetObjectItemCaseSensitive(json, "error"));
        cJSON_Delete(json);
    }
    json = call_json(&w, "/tokenize", "{\"prompt\":\"a\",\"model\":\"nobody\"}", 404);
    EXPECT(json);
    cJSON_Delete(json);
    world_echo_end(&w);
}

TEST(requests_bring_a_template_where_they_are_trusted) {
    struct world w;
    struct answer a;
    world_echo(&w, ECHO_TEMPLATE);
    w.settings.trust_request_template = true;
    EXPECT(world_start(&w));
    cJSON *json = call_json(&w, "/apply-template",
                            HELLO ",\"chat_template\":\"{{ messages[0].role }}!\"}", 200);
    EXPECT(json);
    EXPECT_STR(client_string(json, "prompt"), "user!");
    cJSON_Delete(json);
    CHAT(&w, "Hi", ",\"chat_template\":\"own {{ messages[0].content }}\"", &a);
    EXPECT_STR(buf_text(&a.text[0]), "own Hi");
    answer_release(&a);
    json = call_json(&w, "/apply-template", HELLO ",\"chat_template\":\"{% if %}\"}", 400);
    EXPECT(json && strstr(client_string(cJSON_GetObjectItemCaseSensitive(json, "error"), "message"),
                          "chat_template"));
    cJSON_Delete(json);
    json = call_json(&w, "/apply-template", HELLO ",\"chat_template\":7}", 400);
    EXPECT(json);
    cJSON_Delete(json);
    world_echo_end(&w);
}

/* Threads for long work whose work lasts until the test lets go: what needs one of them waits. */
static pthread_mutex_t hold = PTHREAD_MUTEX_INITIALIZER;
static atomic_int holders;

static void be_held(struct work *work) {
    atomic_fetch_add(&holders, 1);
    pthread_mutex_lock(&hold);
    atomic_fetch_sub(&holders, 1);
    pthread_mutex_unlock(&hold);
    mem_free(work);
}

static void hold_threads(const struct world *w) {
    int count = (int)MIN(MAX(sysconf(_SC_NPROCESSORS_ONLN) / 2 + 1, 2L), (long)WORK_THREADS_MAX);
    pthread_mutex_lock(&hold);
    for (int i = 0; i < WORK_THREADS_MAX; i++) {
        struct work *work = mem_alloc(sizeof *work);
        *work =
            (struct work){.tenant = {7, (uint64_t)i}, .bytes = 1, .run = be_held, .drop = be_held};
        CHECK(work_pool_push(w->gw->workers, work));
    }
    while (atomic_load(&holders) < count)
        sleep_ms(1);
}

/* Does a request wait for one of these threads, while the only event thread answers another that came
 * after it? */
static bool leaves_event_thread(const struct world *w, const char *path, const char *body) {
    char byte;
    hold_threads(w);
    int fd = client_open(w->port, "POST", path, NULL, body);
    for (int i = 0; i < 3; i++)
        CHECK(client_status(w->port, "/health/live") == 200);
    bool waits = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
    pthread_mutex_unlock(&hold);
    CHECK(recv(fd, &byte, 1, MSG_PEEK) == 1);
    close(fd);
    return waits;
}

TEST(templates_of_requests_hold_no_event_thread_up) {
    static const char BODY[] = HELLO ",\"max_tokens\":1,\"chat_template\":\"x\"}";
    struct world w;
    world_echo(&w, ECHO_TEMPLATE);
    w.settings.trust_request_template = true;
    w.settings.threads = 1;
    EXPECT(world_start(&w));
    EXPECT(leaves_event_thread(&w, "/apply-template", BODY));
    EXPECT(leaves_event_thread(&w, "/v1/chat/completions", BODY));
    world_echo_end(&w);
}

TEST(kept_conversations_hold_no_event_thread_up) {
    struct world w;
    char body[200];
    world_echo(&w, ECHO_TEMPLATE);
    w.settings.threads = 1;
    EXPECT(world_start(&w));
    cJSON *json = world_ask(&w, "/v1/responses", "{\"max_output_tokens\":1,\"input\":\"x\"}", 200);
    snprintf(body, sizeof body, "{\"input\":\"x\",\"previous_response_id\":\"%s\"}",
             client_string(json, "id"));
    EXPECT(leaves_event_thread(&w, "/v1/responses/input_tokens", body));
    cJSON_Delete(json);
    world_echo_end(&w);
}

/* Refused before there is any prompt: nothing of one may be freed. */
TEST(constraints_of_completions_are_refused_too) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    EXPECT(world_start(&w));
    POST(&w, "{\"prompt\":\"x\",\"guided_json\":false}", &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    POST(&w, "{\"prompt\":\"x\",\"guided_regex\":\"(\"}", &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    POST(&w, "{\"prompt\":[5],\"max_tokens\":2,\"ignore_eos\":true}", &a);
    EXPECT_EQ(a.status, 200);
    answer_release(&a);
    world_end(&w);
}

/* How often `what` stands in an answer. */
static int times(const struct answer *a, const char *what) {
    int count = 0;
    for (const char *at = buf_text(&a->body); (at = strstr(at, what)); at++)
        count++;
    return count;
}

TEST(token_ids_of_the_prompt_come_along) {
    struct world w;
    struct answer a;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    static const char *const streams[] = {"", ",\"stream\":true"};
    for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
        struct buf body = {0};
        buf_addf(&body,
                 "{\"prompt\":[[5,6],[7]],\"n\":2,\"max_tokens\":2,\"ignore_eos\":true,"
                 "\"return_token_ids\":true%s}",
                 streams[i]);
        POST(&w, buf_text(&body), &a);
        EXPECT_EQ(a.status, 200);
        EXPECT_EQ(times(&a, "\"prompt_token_ids\":[5,6]"), 2);
        EXPECT_EQ(times(&a, "\"prompt_token_ids\":[7]"), 2);
        answer_release(&a);
        buf_reset(&body);
        buf_addf(&body,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"n\":2,"
                 "\"return_token_ids\":true%s}",
                 streams[i]);
        client_request(w.port, "POST", "/v1/chat/completions", NULL, buf_text(&body), &a);
        EXPECT_EQ(times(&a, "\"prompt_token_ids\":["), 1);
        EXPECT_STR(buf_text(&a.text[0]), "Hi");
        answer_release(&a);
        buf_release(&body);
    }
    world_echo_end(&w);
}
