/* vLLM's /inference/v1/generate: token ids in, token ids out. */
#include "world.h"

#include "gateway/fields/genreq.h"

/* Returns owned: the answer's JSON. */
static cJSON *ask(struct world *w, const char *body, int status) {
    return world_ask(w, "/inference/v1/generate", body, status);
}

#define IDS(more)      "{\"token_ids\":[5,6,7]" more "}"
#define PARAMS(params) IDS(",\"sampling_params\":{" params "}")

TEST(what_the_token_route_cannot_do_is_refused_by_name) {
    static const struct {
        const char *body, *param, *text;
    } cases[] = {
        {"{}", "token_ids", "missing"},
        {"{\"token_ids\":[[1]]}", "token_ids", "an integer"},
        {"{\"token_ids\":[\"a\"]}", "token_ids", "an integer"},
        {"{\"token_ids\":\"a\"}", "token_ids", "array of token ids"},
        {"{\"token_ids\":[]}", "token_ids", "empty"},
        {IDS(",\"features\":{\"mm\":1}"), "features", "not offered"},
        {IDS(",\"kv_transfer_params\":{\"a\":1}"), "kv_transfer_params", "not offered"},
        {IDS(",\"sampling_params\":1"), "sampling_params", "an object"},
        {IDS(",\"prompt\":\"a\""), "prompt", "not offered"},
        {PARAMS("\"stream\":true"), "stream", "not offered"},
        {PARAMS("\"logprobs\":21"), "logprobs", "between 0 and 20"},
        {PARAMS("\"n\":129"), "n", "128"},
        {PARAMS("\"prompt_logprobs\":1},\"stream\":true,\"x\":{"), "prompt_logprobs", "'stream'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err = {0};
        EXPECT_EQ(genreq_parse(&g, GENREQ_TOKENS, bytes_str(cases[i].body), &err), -1);
        if (err.status != 400 || strcmp(err.param, cases[i].param) != 0 ||
            !strstr(err.text, cases[i].text))
            check_fail(__FILE__, __LINE__, "%s: %d '%s' '%s'", cases[i].body, err.status, err.param,
                       err.text);
        genreq_release(&g);
    }
}

TEST(token_ids_become_token_ids) {
    struct world w;
    world_prepare(&w);
    w.fake_config.with_logprobs = true;
    EXPECT(world_start(&w));
    cJSON *json = ask(&w,
                      PARAMS("\"max_tokens\":3,\"n\":2,\"logprobs\":2,\"seed\":1},"
                             "\"request_id\":\"my-1\",\"model\":null,\"x\":{"),
                      200);
    const cJSON *choice;
    int index = 0;
    EXPECT_STR(client_string(json, "request_id"), "my-1");
    EXPECT(cJSON_IsNull(member(json, "prompt_logprobs")));
    EXPECT(cJSON_IsNull(member(json, "kv_transfer_params")));
    EXPECT_EQ(cJSON_GetArraySize(member(json, "choices")), 2);
    cJSON_ArrayForEach(choice, member(json, "choices")) {
        const cJSON *content = member(member(choice, "logprobs"), "content");
        const cJSON *ids = member(choice, "token_ids");
        char name[32];
        EXPECT_EQ(member(choice, "index")->valueint, index++);
        EXPECT_STR(client_string(choice, "finish_reason"), "length");
        EXPECT_EQ(cJSON_GetArraySize(ids), 3);
        EXPECT_EQ(cJSON_GetArraySize(content), 3);
        EXPECT_EQ(cJSON_GetArraySize(member(content->child, "top_logprobs")), 2);
        snprintf(name, sizeof name, "token_id:%d", ids->child->valueint);
        EXPECT_STR(client_string(content->child, "token"), name);
        EXPECT(!member(choice, "text"));
    }
    cJSON_Delete(json);
    /* without sampling_params: vLLM's sixteen tokens */
    json = ask(&w, IDS(",\"sampling_params\":{\"ignore_eos\":true,\"prompt_logprobs\":0}"), 200);
    choice = member(json, "choices")->child;
    EXPECT_EQ(cJSON_GetArraySize(member(choice, "token_ids")), 16);
    EXPECT(cJSON_IsNull(member(choice, "logprobs")));
    EXPECT_EQ(cJSON_GetArraySize(member(json, "prompt_logprobs")), 3);
    EXPECT(cJSON_IsNull(member(json, "prompt_logprobs")->child));
    EXPECT(strncmp(client_string(json, "request_id"), "generate-tokens-", 16) == 0);
    cJSON_Delete(json);
    world_end(&w);
}

/* The ids of a stream are those of the answer in one piece. */
TEST(a_stream_has_the_same_ids) {
    struct world w;
    world_prepare(&w);
    w.fake_config.echo = true;
    w.fake_config.with_logprobs = true;
    EXPECT(world_start(&w));
    cJSON *whole = ask(&w, PARAMS("\"max_tokens\":2,\"logprobs\":0,\"stop\":[\"zzz\"]"), 200);
    const cJSON *id = member(member(whole, "choices")->child, "token_ids")->child;
    struct answer a;
    client_request(w.port, "POST", "/inference/v1/generate", NULL,
                   PARAMS("\"max_tokens\":2,\"logprobs\":0,\"stop\":[\"zzz\"]},\"stream\":true,"
                          "\"stream_options\":{\"include_usage\":true},\"x\":{"),
                   &a);
    const char *at = buf_text(&a.body);
    int finishes = 0, usages = 0;
    for (; strncmp(at, "data: {", 7) == 0; at = strstr(at, "\n\n") + 2) {
        cJSON *event = cJSON_ParseWithLength(at + 6, (size_t)(strstr(at, "\n\n") - at) - 6);
        const cJSON *choice = member(event, "choices")->child, *usage = member(event, "usage"),
                    *got;
        if (cJSON_IsObject(usage)) {
            usages++;
            EXPECT(!choice && member(usage, "completion_tokens")->valueint == 2);
        } else {
            EXPECT(!usages && !finishes);
            finishes += cJSON_IsString(member(choice, "finish_reason"));
            cJSON_ArrayForEach(got, member(choice, "token_ids")) {
                EXPECT(id && got->valueint == id->valueint);
                EXPECT(cJSON_IsObject(member(choice, "logprobs")));
                id = id ? id->next : NULL;
            }
        }
        cJSON_Delete(event);
    }
    EXPECT_STR(at, "data: [DONE]\n\n");
    EXPECT(!id && finishes == 1 && usages == 1);
    answer_release(&a);
    cJSON_Delete(whole);
    world_end(&w);
}
