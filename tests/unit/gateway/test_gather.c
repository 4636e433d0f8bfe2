/* Several requests in one body: cut, answered together, and what ends them early; requests that their client aborts. */
#include "world.h"

#include "gateway/answers/gather_bodies.h"

/* ---- bodies ---- */

TEST(each_request_gets_its_own_of_the_lists) {
    static const struct {
        enum genreq_dialect dialect;
        const char *body;
        uint32_t count;           /* 0: refused */
        const char *first, *last; /* or the field at fault, and what is said */
    } cases[] = {
        {GENREQ_GENERATE, "{\"text\":[\"a\",\"b\"],\"rid\":[\"1\", \"2\"],\"x\":{\"y\":[1]}}", 2,
         "{\"text\":\"a\",\"rid\":\"1\",\"x\":{\"y\":[1]}}",
         "{\"text\":\"b\",\"rid\":\"2\",\"x\":{\"y\":[1]}}"},
        {GENREQ_GENERATE, "{\"sampling_params\":[{\"n\":2},{}],\"input_ids\":[[1,2],[3]]}", 2,
         "{\"sampling_params\":{\"n\":2},\"input_ids\":[1,2]}",
         "{\"sampling_params\":{},\"input_ids\":[3]}"},
        {GENREQ_GENERATE, "{\"input_ids\":[1,2],\"rid\":[\"1\"],\"te\\u0078t\":\"\\u0061\"}", 1,
         "{\"input_ids\":[1,2],\"rid\":\"1\",\"te\\u0078t\":\"\\u0061\"}", NULL},
        {GENREQ_CHAT, "{\"messages\":[[{\"role\":\"user\"}],[]],\"stop\":[\"a\"]}", 2,
         "{\"messages\":[{\"role\":\"user\"}],\"stop\":[\"a\"]}",
         "{\"messages\":[],\"stop\":[\"a\"]}"},
        {GENREQ_CHAT, "{\"messages\":[{\"role\":\"user\"}]}", 0, "messages", "conversations"},
        {GENREQ_CHAT, "[]", 0, "messages", "conversations"},
        {GENREQ_GENERATE, "{\"text\":[\"a\",\"b\"],\"rid\":[\"1\"]}", 0, "rid", "1 values for 2"},
        {GENREQ_GENERATE, "{\"text\":[],\"rid\":[\"1\"]}", 0, "text", "empty"},
        {GENREQ_GENERATE, "{\"text\":[\"a\"", 0, "text", "malformed"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf bodies[GENREQ_PROMPTS_MAX] = {0};
        struct api_error err = {0};
        uint32_t count;
        int rc = gather_cut(cases[i].dialect, bytes_str(cases[i].body), bodies, &count, &err);
        EXPECT_EQ(rc, cases[i].count ? 0 : -1);
        if (rc == 0) {
            EXPECT_EQ(count, cases[i].count);
            EXPECT_STR(buf_text(&bodies[0]), cases[i].first);
            EXPECT(!cases[i].last || strcmp(buf_text(&bodies[count - 1]), cases[i].last) == 0);
        } else {
            EXPECT_STR(err.param, cases[i].first);
            EXPECT(strstr(err.text, cases[i].last));
        }
        for (uint32_t k = 0; k < count; k++)
            buf_release(&bodies[k]);
    }
    EXPECT(gather_is_wanted(bytes_str("{\"rid\" : [\"a\"]}")));
    EXPECT(!gather_is_wanted(bytes_str("{\"rid\":\"a\",\"text\":[\"a\"],\"sampling_params\":{}}")));
    EXPECT(!gather_is_wanted(bytes_str("{\"rid\":")));
}

/* ---- answers ---- */

TEST(requests_of_one_body_are_answered_in_their_order) {
    struct world w;
    world_prepare(&w);
    w.fake_config.echo = true;
    EXPECT(world_start(&w));
    cJSON *json =
        world_ask(&w, "/generate",
                  "{\"text\":[\"one two\",\"three\",\"four five\"],\"rid\":[\"a\",\"b\",\"c\"],"
                  "\"sampling_params\":[{\"max_new_tokens\":2},{\"n\":2},{}]}",
                  200);
    static const char *const TEXTS[] = {"one", "three", "three", "four five"}, *const IDS[] = {
                                                                                   "a", "b", "b",
                                                                                   "c"};
    int i = 0;
    const cJSON *item;
    EXPECT_EQ(cJSON_GetArraySize(json), 4);
    cJSON_ArrayForEach(item, json) {
        EXPECT_STR(client_string(item, "text"), TEXTS[i]);
        EXPECT_STR(client_string(member(item, "meta_info"), "id"), IDS[i++]);
    }
    cJSON_Delete(json);
    EXPECT(wait_until(is_empty, &w));
    world_end(&w);
}

/* A choice for each chat, under indexes of its own. */
TEST(chats_of_one_body_are_one_answer) {
    struct world w;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    cJSON *json =
        world_ask(&w, "/v1/chat/completions/batch",
                  "{\"messages\":[[{\"role\":\"user\",\"content\":\"<think>b</think>one\"}],"
                  "[{\"role\":\"user\",\"content\":\"\\u0001 \\\"two\\\"\"}]],\"n\":2}",
                  200);
    static const char *const TEXTS[] = {"one", "one", "\x01 \"two\"", "\x01 \"two\""};
    const cJSON *choice, *usage = member(json, "usage");
    int i = 0;
    cJSON_ArrayForEach(choice, member(json, "choices")) {
        EXPECT_EQ(member(choice, "index")->valueint, i);
        EXPECT_STR(client_string(member(choice, "message"), "content"), TEXTS[i++]);
    }
    EXPECT_EQ(i, 4);
    EXPECT(member(usage, "completion_tokens")->valueint > 4);
    EXPECT(member(member(usage, "completion_tokens_details"), "reasoning_tokens")->valueint > 0);
    cJSON_Delete(json);
    world_echo_end(&w);
}

/* A model may say any byte. */
TEST(an_answer_with_zero_bytes_is_joined) {
    enum { ZERO = 188 }; /* of the model's vocabulary */
    struct world w;
    world_prepare(&w);
    w.fake_config.token_low = ZERO;
    w.fake_config.token_high = ZERO + 1;
    EXPECT(world_start(&w));
    struct answer a;
    client_request(w.port, "POST", "/v1/chat/completions/batch", NULL,
                   "{\"messages\":[[{\"role\":\"user\",\"content\":\"a\"}],"
                   "[{\"role\":\"user\",\"content\":\"b\"}]],\"max_tokens\":3}",
                   &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(strstr(buf_text(&a.body), "\\u0000\\u0000\\u0000"));
    answer_release(&a);
    world_end(&w);
}

TEST(a_request_that_fails_ends_the_others_of_its_body) {
    struct world w;
    world_prepare(&w);
    w.fake_config.step_us = 20000;
    EXPECT(world_start(&w));
    cJSON *json =
        world_ask(&w, "/generate",
                  "{\"text\":[\"a\",\"b\",\"c\"],\"sampling_params\":[{\"max_new_tokens\":500},"
                  "{\"stop_token_ids\":[99999999]},{\"max_new_tokens\":500}]}",
                  400);
    EXPECT_STR(client_string(member(json, "error"), "param"), "stop_token_ids");
    cJSON_Delete(json);
    EXPECT(wait_until(is_empty, &w));
    json = world_ask(&w, "/generate", "{\"text\":[\"a\",\"b\"],\"rid\":[\"x\",7]}", 400);
    EXPECT_STR(client_string(member(json, "error"), "param"), "rid");
    cJSON_Delete(json);
    world_end(&w);
}

static bool has_two(struct world *w) {
    return fake_counts(w->fake).sequences == 2;
}

static int open_two(struct world *w) {
    return client_open(w->port, "POST", "/v1/chat/completions/batch", NULL,
                       "{\"messages\":[[{\"role\":\"user\",\"content\":\"a\"}],"
                       "[{\"role\":\"user\",\"content\":\"b\"}]],\"max_tokens\":1900,"
                       "\"ignore_eos\":true}");
}

TEST(a_client_that_leaves_ends_all_its_requests) {
    struct world w;
    world_prepare(&w);
    w.fake_config.step_us = 20000;
    EXPECT(world_start(&w));
    int fd = open_two(&w);
    EXPECT(wait_until(has_two, &w));
    close(fd);
    EXPECT(wait_until(is_empty, &w));
    fd = open_two(&w);
    EXPECT(wait_until(has_two, &w));
    world_end(&w); /* while they run */
    close(fd);
}

/* ---- aborts ---- */

static bool is_busy(struct world *w) {
    return fake_counts(w->fake).sequences > 0;
}

/* Opens one, aborts what `abort_body` says once it runs: it ends so. */
static void try_abort(struct world *w, int tokens, const char *abort_body, const char *finish) {
    struct answer a;
    char body[256];
    snprintf(body, sizeof body,
             "{\"prompt\":\"a\",\"max_tokens\":%d,\"ignore_eos\":true,\"n\":2,"
             "\"request_id\":\"mine\"}",
             tokens);
    int fd = client_open(w->port, "POST", "/v1/completions", NULL, body);
    EXPECT(wait_until(is_busy, w));
    cJSON_Delete(world_ask(w, "/abort_request", abort_body, 200));
    answer_init(&a);
    client_finish(fd, &a);
    EXPECT_EQ(a.status, 200);
    EXPECT_STR(a.finish[0], finish);
    EXPECT_STR(a.finish[1], finish);
    answer_release(&a);
    EXPECT(wait_until(is_empty, w));
}

TEST(an_aborted_request_is_answered_with_what_there_is) {
    struct world w;
    world_prepare(&w);
    w.fake_config.step_us = 10000;
    EXPECT(world_start(&w));
    try_abort(&w, 1900, "{\"rid\":\"mine\"}", "abort");
    try_abort(&w, 1900, "{\"abort_all\":true}", "abort");
    try_abort(&w, 20, "{\"rid\":[\"min\",\"mine2\"]}", "length");
    world_end(&w);
}
