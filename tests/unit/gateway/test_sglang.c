/* SGLang's /generate: its fields; and its answers over the socket, against a fake scheduler. */
#include "world.h"

#include "gateway/fields/genreq.h"

static const cJSON *info(const cJSON *object, const char *name) {
    return member(member(object, "meta_info"), name);
}

/* Returns owned: the answer's JSON. */
static cJSON *ask(struct world *w, const char *body, int status) {
    return world_ask(w, "/generate", body, status);
}

/* ---- fields ---- */

#define TEXT(more)     "{\"text\":\"a\"" more "}"
#define PARAMS(params) TEXT(",\"sampling_params\":{" params "}")

TEST(what_generate_cannot_do_is_refused_by_name) {
    static const struct {
        const char *body, *param, *text;
    } cases[] = {
        {"{}", "text", "input_ids"},
        {"{\"text\":[]}", "text", "empty"},
        {"{\"text\":[1,2]}", "text", "a string"},
        {"{\"text\":[[1]]}", "text", "a string"},
        {"{\"text\":7}", "text", "a string"},
        {"{\"input_ids\":\"a\"}", "input_ids", "token ids"},
        {"{\"input_ids\":[\"a\"]}", "input_ids", "token ids"},
        {"{\"input_ids\":[[1],[]]}", "input_ids", "empty list"},
        {"{\"text\":\"a\",\"input_ids\":[1]}", "input_ids", "both"},
        {PARAMS("\"max_new_tokens\":-1"), "max_new_tokens", "between 0"},
        {PARAMS("\"temperature\":101"), "temperature", "at most 100"},
        {PARAMS("\"stop_regex\":1"), "stop_regex", "array of strings"},
        {PARAMS("\"stream\":true"), "stream", "not offered"},
        {PARAMS("\"n\":129"), "n", "128"},
        {PARAMS("\"regex\":\"a\",\"json_schema\":\"{}\""), "json_schema", "both"},
        {PARAMS("\"structural_tag\":\"{\""), "structural_tag", "no JSON"},
        {TEXT(",\"sampling_params\":[{}]"), "sampling_params",
         "one object, which holds for all texts, not"},
        {TEXT(",\"return_logprob\":[true]"), "return_logprob", "a boolean"},
        {TEXT(",\"top_logprobs_num\":21"), "top_logprobs_num", "between 0 and 20"},
        {TEXT(",\"logprob_start_len\":-2"), "logprob_start_len", "between -1 and"},
        {TEXT(",\"return_logprob\":true,\"logprob_start_len\":0,\"stream\":true"),
         "logprob_start_len", "'stream'"},
        {TEXT(",\"token_ids_logprob\":[1]"), "token_ids_logprob", "not offered"},
        {TEXT(",\"priority\":1"), "priority", "0"},
        {TEXT(",\"lora_path\":\"x\""), "lora_path", "not offered"},
        {TEXT(",\"return_hidden_states\":true"), "return_hidden_states", "not offered"},
        {TEXT(",\"rid\":[\"a\"]"), "rid", "a string"},
        {"{\"inputs\":\"a\",\"text\":\"a\"}", "inputs", "not offered"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err = {0};
        EXPECT_EQ(genreq_parse(&g, GENREQ_GENERATE, bytes_str(cases[i].body), &err), -1);
        if (err.status != 400 || strcmp(err.param, cases[i].param) != 0 ||
            !strstr(err.text, cases[i].text))
            check_fail(__FILE__, __LINE__, "%s: %d '%s' '%s'", cases[i].body, err.status, err.param,
                       err.text);
        genreq_release(&g);
    }
}

TEST(sampling_params_are_the_requests_own) {
    struct genreq g;
    struct api_error err;
    EXPECT_EQ(genreq_parse(&g, GENREQ_GENERATE,
                           bytes_str(PARAMS("\"temperature\":0.5,\"max_new_tokens\":7,\"top_k\":3,"
                                            "\"stop\":\"x\",\"no_stop_trim\":true,"
                                            "\"sampling_seed\":9,\"ebnf\":\"root ::= \\\"a\\\"\"")),
                           &err),
              0);
    EXPECT(g.temperature == 0.5 && g.top_k == 3 && g.seed == 9 && g.max_tokens == 7);
    EXPECT(g.given & GENREQ_SEED && g.stop_count == 1 && g.include_stop_text);
    EXPECT_EQ(g.constraint.kind, CONSTRAINT_GRAMMAR);
    EXPECT(!g.answers_list && g.add_special_tokens && g.return_token_ids && g.tokens_as_ids);
    genreq_release(&g);
    EXPECT_EQ(genreq_parse(&g, GENREQ_GENERATE, bytes_str("{\"input_ids\": [ [5,6] ]}"), &err), 0);
    EXPECT(g.answers_list && g.prompt_count == 1 && g.prompts[0].is_ids && g.max_tokens == 128);
    genreq_release(&g);
    EXPECT_EQ(genreq_parse(&g, GENREQ_GENERATE, bytes_str("{\"input_ids\":[5,6]}"), &err), 0);
    EXPECT(!g.answers_list);
    genreq_release(&g);
}

/* ---- answers ---- */

TEST(an_answer_says_what_ended_it) {
    static const struct {
        const char *body, *text, *type;
        const char *word; /* NULL: a token */
    } cases[] = {
        {"{\"text\":\"one two three\",\"sampling_params\":{\"stop\":[\" th\"]}}", "one two", "stop",
         " th"},
        {"{\"text\":\"one two three\",\"sampling_params\":{\"stop\":\" th\",\"no_stop_trim\":true}}",
         "one two th", "stop", " th"},
        {"{\"text\":\"one two three\",\"sampling_params\":{\"stop_regex\":\"x|[a-z]+ t\"}}",
         "one t", "stop", "x|[a-z]+ t"},
        {"{\"text\":\"one two\"}", "one two", "stop", NULL},
    };
    struct world w;
    world_prepare(&w);
    w.fake_config.echo = true;
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *json = ask(&w, cases[i].body, 200);
        const cJSON *finish = info(json, "finish_reason"), *matched = member(finish, "matched");
        EXPECT_STR(client_string(json, "text"), cases[i].text);
        EXPECT_STR(client_string(finish, "type"), cases[i].type);
        if (cases[i].word) {
            EXPECT_STR(matched->valuestring, cases[i].word);
        } else { /* the last of them */
            const cJSON *id = member(json, "output_ids")->child;
            while (id->next)
                id = id->next;
            EXPECT_EQ(matched->valueint, id->valueint);
        }
        cJSON_Delete(json);
    }
    world_end(&w);
}

TEST(several_texts_or_choices_are_a_list) {
    static const struct {
        const char *body;
        int count; /* 0: an object */
    } cases[] = {
        {"{\"text\":\"a\",\"sampling_params\":{\"max_new_tokens\":2}}", 0},
        {"{\"text\":[\"a\"],\"sampling_params\":{\"max_new_tokens\":2}}", 1},
        {"{\"text\":[\"a\",\"b\"],\"sampling_params\":{\"max_new_tokens\":2,\"n\":2}}", 4},
        {"{\"text\":\"a\",\"sampling_params\":{\"max_new_tokens\":2,\"n\":3}}", 3},
        {"{\"input_ids\":[[5],[6,7]],\"sampling_params\":{\"max_new_tokens\":2}}", 2},
    };
    struct world w;
    world_prepare(&w);
    w.fake_config.with_logprobs = true;
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *json = ask(&w, cases[i].body, 200);
        EXPECT_EQ(cJSON_IsArray(json), cases[i].count > 0);
        EXPECT(!cases[i].count || cJSON_GetArraySize(json) == cases[i].count);
        cJSON_Delete(json);
    }
    cJSON *json = ask(&w,
                      "{\"text\":\"a\",\"rid\":\"my-1\",\"return_logprob\":true,"
                      "\"top_logprobs_num\":2,\"sampling_params\":{\"max_new_tokens\":3}}",
                      200);
    const cJSON *own = info(json, "output_token_logprobs"), *ids = member(json, "output_ids");
    EXPECT_STR(client_string(member(json, "meta_info"), "id"), "my-1");
    EXPECT_EQ(cJSON_GetArraySize(own), 3);
    EXPECT_EQ(cJSON_GetArraySize(info(json, "output_top_logprobs")), 3);
    EXPECT_EQ(cJSON_GetArraySize(info(json, "output_top_logprobs")->child), 2);
    EXPECT(own->child->child->valuedouble < 0 && cJSON_IsNull(own->child->child->next->next));
    EXPECT_EQ(own->child->child->next->valueint, ids->child->valueint);
    EXPECT_EQ(info(json, "completion_tokens")->valueint, 3);
    EXPECT_EQ(member(info(json, "finish_reason"), "length")->valueint, 3);
    cJSON_Delete(json);
    world_end(&w);
}

/* Each object's text begins with that of the one before it. *last_out is returned owned. */
static void read_stream(const struct answer *a, size_t *count, cJSON **last_out) {
    const char *at = buf_text(&a->body);
    cJSON *last = NULL;
    *last_out = NULL;
    for (*count = 0; strncmp(at, "data: {", 7) == 0; ++*count) {
        const char *end = strstr(at, "\n\n");
        cJSON *next = cJSON_ParseWithLength(at + 6, (size_t)(end - at) - 6);
        const char *before = last ? client_string(last, "text") : "";
        EXPECT(strncmp(client_string(next, "text"), before, strlen(before)) == 0);
        EXPECT_EQ(cJSON_IsNull(info(next, "finish_reason")), strncmp(end + 2, "data: {", 7) == 0);
        cJSON_Delete(last);
        *last_out = last = next;
        at = end + 2;
    }
    EXPECT_STR(at, "data: [DONE]\n\n");
}

/* A long one takes far fewer bytes than one object a token would. */
TEST(a_stream_has_the_whole_text_each_time_and_stays_small) {
    enum { SHORT = 20, LONG = 2000 };
    struct world w;
    world_prepare(&w);
    w.fake_config.with_logprobs = true;
    w.fake_config.max_context = 8192;
    w.fake_config.step_us = 0;
    EXPECT(world_start(&w));
    for (int tokens = SHORT; tokens <= LONG; tokens += LONG - SHORT) {
        struct answer a;
        struct buf body = {0};
        size_t events;
        buf_addf(&body,
                 "{\"text\":\"a\",%s\"sampling_params\":{\"max_new_tokens\":%d,"
                 "\"ignore_eos\":true,\"sampling_seed\":1}",
                 tokens == SHORT ? "\"return_logprob\":true," : "", tokens);
        buf_addf(&body, ",\"stream\":true}");
        client_request(w.port, "POST", "/generate", NULL, buf_text(&body), &a);
        body.len -= strlen(",\"stream\":true}");
        buf_add_str(&body, "}");
        cJSON *last, *whole = ask(&w, buf_text(&body), 200);
        read_stream(&a, &events, &last);
        size_t len = strlen(client_string(whole, "text"));
        EXPECT_STR(client_string(last, "text"), client_string(whole, "text"));
        EXPECT(cJSON_Compare(member(last, "output_ids"), member(whole, "output_ids"), true));
        EXPECT(tokens == LONG || cJSON_Compare(info(last, "output_token_logprobs"),
                                               info(whole, "output_token_logprobs"), true));
        EXPECT_EQ(info(last, "completion_tokens")->valueint, tokens);
        if (tokens == SHORT)
            EXPECT_EQ(events, (size_t)SHORT + 1);
        else
            EXPECT(events < (size_t)tokens * 3 / 4 && a.body.len < (size_t)tokens * len);
        cJSON_Delete(last);
        cJSON_Delete(whole);
        answer_release(&a);
        buf_release(&body);
    }
    world_end(&w);
}

TEST(errors_have_a_message) {
    struct world w;
    world_prepare(&w);
    EXPECT(world_start(&w));
    cJSON *json = ask(&w, "{\"text\":\"a\",\"model\":\"nobody\"}", 404);
    EXPECT(strstr(client_string(member(json, "error"), "message"), "nobody"));
    cJSON_Delete(json);
    world_end(&w);
}
