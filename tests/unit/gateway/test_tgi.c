/* TGI's /generate, /generate_stream and /: their fields; and their answers over the socket, against
 * a fake scheduler. */
#include "world.h"

#include "gateway/fields/genreq.h"

#define INPUTS(more)   "{\"inputs\":\"one two three\"" more "}"
#define PARAMS(params) INPUTS(",\"parameters\":{" params "}")

/* ---- fields ---- */

TEST(a_body_with_inputs_is_tgis) {
    static const struct {
        const char *body;
        enum genreq_dialect dialect;
    } cases[] = {
        {"{\"inputs\":\"a\"}", GENREQ_TGI},
        {"{\"parameters\":{\"text\":1,\"do_sample\":true},\"inputs\":\"a\"}", GENREQ_TGI},
        {"{\"text\":\"a\"}", GENREQ_GENERATE},
        {"{\"input_ids\":[1],\"inputs\":\"a\"}", GENREQ_GENERATE},
        {"{\"sampling_params\":{\"inputs\":1},\"text\":\"a\"}", GENREQ_GENERATE},
        {"[\"inputs\"]", GENREQ_GENERATE},
        {"{}", GENREQ_GENERATE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err;
        (void)!genreq_parse(&g, GENREQ_GENERATE, bytes_str(cases[i].body), &err);
        if (g.dialect != cases[i].dialect)
            check_fail(__FILE__, __LINE__, "%s: %d", cases[i].body, g.dialect);
        genreq_release(&g);
    }
}

TEST(what_tgi_does_and_we_do_not_is_refused_by_name) {
    static const struct {
        const char *body, *param, *text;
    } cases[] = {
        {"{}", "inputs", "missing"},
        {"{\"inputs\":[\"a\"]}", "inputs", "a string"},
        {"{\"inputs\":\"a\",\"text\":\"a\"}", "text", "not offered"},
        {"{\"inputs\":\"a\",\"parameters\":[]}", "parameters", "an object"},
        {PARAMS("\"watermark\":true"), "watermark", "not offered"},
        {PARAMS("\"adapter_id\":\"x\""), "adapter_id", "not offered"},
        {PARAMS("\"best_of\":2"), "best_of", "'do_sample'"},
        {PARAMS("\"best_of\":0"), "best_of", "between 1"},
        {PARAMS("\"top_n_tokens\":21"), "top_n_tokens", "between 0 and 20"},
        {PARAMS("\"truncate\":0"), "truncate", "1 or more"},
        {PARAMS("\"grammar\":\"x\""), "grammar", "'type' and 'value'"},
        {PARAMS("\"grammar\":{\"type\":\"xml\",\"value\":1}"), "grammar", "must be text"},
        {PARAMS("\"stream\":true"), "stream", "not offered"},
        {PARAMS("\"n\":2"), "n", "not offered"},
        {PARAMS("\"return_token_ids\":true"), "return_token_ids", "not offered"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err = {0};
        EXPECT_EQ(genreq_parse(&g, GENREQ_TGI_ROOT, bytes_str(cases[i].body), &err), -1);
        if (err.status != 400 || strcmp(err.param, cases[i].param) != 0 ||
            !strstr(err.text, cases[i].text))
            check_fail(__FILE__, __LINE__, "%s: %d '%s' '%s'", cases[i].body, err.status, err.param,
                       err.text);
        genreq_release(&g);
    }
    static const char *const streams[] = {PARAMS("\"decoder_input_details\":true"),
                                          PARAMS("\"best_of\":2,\"do_sample\":true")};
    for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
        struct genreq g;
        struct api_error err;
        EXPECT_EQ(genreq_parse(&g, GENREQ_TGI, bytes_str(streams[i]), &err), 0);
        genreq_release(&g);
        EXPECT_EQ(genreq_parse(&g, GENREQ_TGI_STREAM, bytes_str(streams[i]), &err), -1);
        EXPECT(strstr(err.text, "in a stream"));
        genreq_release(&g);
    }
}

/* The likeliest token is taken unless a value says otherwise; one that is off does not. */
TEST(only_what_asks_for_it_samples) {
    static const struct {
        const char *body;
        bool samples;
    } cases[] = {
        {INPUTS(""), false},
        {PARAMS("\"temperature\":1.0,\"top_p\":1,\"top_k\":0,\"typical_p\":1"), false},
        {PARAMS("\"do_sample\":false,\"repetition_penalty\":1.2,\"seed\":3"), false},
        {PARAMS("\"do_sample\":true"), true},
        {PARAMS("\"temperature\":0.5"), true},
        {PARAMS("\"top_k\":3"), true},
        {PARAMS("\"top_p\":0.9"), true},
        {PARAMS("\"typical_p\":0.9"), true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err;
        EXPECT_EQ(genreq_parse(&g, GENREQ_TGI, bytes_str(cases[i].body), &err), 0);
        bool greedy = g.given & GENREQ_TEMPERATURE && g.temperature == 0;
        if (greedy == cases[i].samples)
            check_fail(__FILE__, __LINE__, "%s", cases[i].body);
        EXPECT(g.max_tokens == 100 && g.include_stop_text && g.add_special_tokens);
        genreq_release(&g);
    }
}

TEST(a_grammar_is_a_schema_or_a_pattern) {
    static const struct {
        const char *grammar;
        enum constraint_kind kind;
        const char *text;
    } cases[] = {
        {"{\"type\":\"json\",\"value\":{\"type\":\"null\"}}", CONSTRAINT_SCHEMA,
         "{\"type\":\"null\"}"},
        {"{\"type\":\"regex\",\"value\":\"a+\"}", CONSTRAINT_REGEX, "a+"},
        {"{\"type\":\"json_schema\",\"value\":{\"name\":\"x\",\"schema\":{\"type\":\"null\"}}}",
         CONSTRAINT_SCHEMA, "{\"type\":\"null\"}"},
        {"{\"type\":\"json_schema\",\"value\":{\"type\":\"null\"}}", CONSTRAINT_SCHEMA,
         "{\"type\":\"null\"}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err;
        struct buf body = {0};
        buf_addf(&body, "{\"inputs\":\"a\",\"parameters\":{\"grammar\":%s}}", cases[i].grammar);
        EXPECT_EQ(genreq_parse(&g, GENREQ_TGI, buf_bytes(&body), &err), 0);
        EXPECT_EQ(g.constraint.kind, cases[i].kind);
        EXPECT(bytes_equal(g.constraint.text, bytes_str(cases[i].text)));
        genreq_release(&g);
        buf_release(&body);
    }
}

/* ---- answers ---- */

TEST(an_answer_is_an_object_or_a_list_of_one) {
    static const struct {
        const char *path, *body, *text, *reason;
        bool list;
    } cases[] = {
        {"/generate", INPUTS(""), "one two three", NULL, false},
        {"/", INPUTS(""), "one two threeone two three", NULL, true},
        {"/", PARAMS("\"return_full_text\":false"), "one two three", NULL, true},
        {"/generate", PARAMS("\"return_full_text\":true,\"details\":true"),
         "one two threeone two three", "eos_token", false},
        {"/generate", PARAMS("\"stop\":[\" th\"],\"details\":true"), "one two th", "stop_sequence",
         false},
        {"/generate", PARAMS("\"max_new_tokens\":1,\"details\":true"), NULL, "length", false},
    };
    struct world w;
    world_prepare(&w);
    w.fake_config.echo = true;
    w.fake_config.with_logprobs = true;
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *json = world_ask(&w, cases[i].path, cases[i].body, 200);
        EXPECT_EQ(cJSON_IsArray(json), cases[i].list);
        EXPECT(!cases[i].list || cJSON_GetArraySize(json) == 1);
        const cJSON *object = cases[i].list ? json->child : json;
        const cJSON *details = member(object, "details");
        if (cases[i].text)
            EXPECT_STR(client_string(object, "generated_text"), cases[i].text);
        EXPECT_EQ(details != NULL, cases[i].reason != NULL);
        if (details) {
            int count = member(details, "generated_tokens")->valueint;
            EXPECT_STR(client_string(details, "finish_reason"), cases[i].reason);
            EXPECT_EQ(cJSON_GetArraySize(member(details, "tokens")), count);
            EXPECT(cJSON_IsNull(member(details, "seed")));
            EXPECT_EQ(cJSON_GetArraySize(member(details, "prefill")), 0);
            EXPECT(!member(details, "top_tokens"));
        }
        cJSON_Delete(json);
    }
    world_end(&w);
}

TEST(details_tell_of_every_token) {
    struct world w;
    world_prepare(&w);
    w.fake_config.with_logprobs = true;
    EXPECT(world_start(&w));
    cJSON *json =
        world_ask(&w, "/generate",
                  PARAMS("\"details\":true,\"do_sample\":true,\"seed\":9,\"max_new_tokens\":4,"
                         "\"top_n_tokens\":2,\"decoder_input_details\":true"),
                  200);
    const cJSON *details = member(json, "details"), *token;
    EXPECT_EQ(member(details, "seed")->valueint, 9);
    EXPECT_EQ(member(details, "generated_tokens")->valueint, 4);
    cJSON_ArrayForEach(token, member(details, "tokens")) {
        EXPECT(cJSON_IsNumber(member(token, "id")) && cJSON_IsString(member(token, "text")));
        EXPECT(member(token, "logprob")->valuedouble < 0 &&
               cJSON_IsFalse(member(token, "special")));
    }
    const cJSON *top = member(details, "top_tokens"), *prefill = member(details, "prefill");
    EXPECT_EQ(cJSON_GetArraySize(top), 4);
    EXPECT_EQ(cJSON_GetArraySize(top->child), 2);
    EXPECT(cJSON_IsString(member(top->child->child, "text")));
    EXPECT(cJSON_GetArraySize(prefill) > 1);
    EXPECT(cJSON_IsNull(member(prefill->child, "logprob")));
    EXPECT(cJSON_IsNumber(member(prefill->child->next, "logprob")));
    cJSON_Delete(json);
    json = world_ask(
        &w, "/generate",
        PARAMS("\"details\":true,\"do_sample\":true,\"best_of\":3,\"max_new_tokens\":4"), 200);
    const cJSON *others = member(member(json, "details"), "best_of_sequences");
    EXPECT_EQ(cJSON_GetArraySize(others), 2);
    EXPECT_EQ(cJSON_GetArraySize(member(others->child, "tokens")), 4);
    EXPECT_STR(client_string(others->child, "finish_reason"), "length");
    cJSON_Delete(json);
    world_end(&w);
}

/* The texts of the events are the whole text; the last event alone tells of it and of the end. */
static void check_stream(struct world *w, const char *path, const char *body, const char *text,
                         const char *reason) {
    struct answer a;
    struct buf said = {0};
    int index = 0;
    client_request(w->port, "POST", path, NULL, body, &a);
    EXPECT_EQ(a.status, 200);
    const char *at = buf_text(&a.body);
    while (strncmp(at, "data:{", 6) == 0) {
        const char *end = strstr(at, "\n\n");
        cJSON *event = cJSON_ParseWithLength(at + 5, (size_t)(end - at) - 5);
        const cJSON *token = member(event, "token"), *details = member(event, "details");
        bool last = end[2] == 0;
        EXPECT_EQ(member(event, "index")->valueint, ++index);
        EXPECT(cJSON_IsNumber(member(token, "id")) && cJSON_IsBool(member(token, "special")));
        EXPECT(cJSON_IsNumber(member(token, "logprob")));
        buf_add_str(&said, client_string(token, "text"));
        EXPECT_EQ(cJSON_IsNull(details), !last);
        EXPECT_EQ(cJSON_IsNull(member(event, "generated_text")), !last);
        if (last) {
            EXPECT_STR(client_string(event, "generated_text"), text ? text : buf_text(&said));
            EXPECT_STR(client_string(details, "finish_reason"), reason);
            EXPECT_EQ(member(details, "generated_tokens")->valueint, index);
            EXPECT(member(details, "input_length")->valueint > 0);
        }
        cJSON_Delete(event);
        at = end + 2;
    }
    if (*at || !index)
        check_fail(__FILE__, __LINE__, "%s: %s", body, buf_text(&a.body));
    if (text)
        EXPECT(strstr(text, buf_text(&said)));
    buf_release(&said);
    answer_release(&a);
}

TEST(a_stream_has_an_event_for_each_token) {
    struct world w;
    world_prepare(&w);
    w.fake_config.echo = true;
    w.fake_config.with_logprobs = true;
    EXPECT(world_start(&w));
    check_stream(&w, "/generate_stream", INPUTS(""), "one two three", "eos_token");
    check_stream(&w, "/generate", INPUTS(",\"stream\":true"), "one two three", "eos_token");
    check_stream(&w, "/", INPUTS(",\"stream\":true"), "one two threeone two three", "eos_token");
    check_stream(&w, "/generate_stream", PARAMS("\"stop\":[\" th\"]"), "one two th",
                 "stop_sequence");
    check_stream(&w, "/generate_stream", PARAMS("\"max_new_tokens\":1"), NULL, "length");
    check_stream(&w, "/generate_stream", PARAMS("\"max_new_tokens\":2,\"stop\":[\"zzz\"]"), NULL,
                 "length");
    world_end(&w);
}

TEST(errors_are_tgis) {
    static const struct {
        const char *path, *body;
        int status;
    } cases[] = {
        {"/", PARAMS("\"watermark\":true"), 422},
        {"/generate_stream", "{", 422},
        {"/generate", PARAMS("\"watermark\":true"), 422},
        {"/generate", INPUTS(",\"model\":\"nobody\""), 404},
    };
    struct world w;
    world_prepare(&w);
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cJSON *json = world_ask(&w, cases[i].path, cases[i].body, cases[i].status);
        EXPECT_STR(client_string(json, "error_type"), "validation");
        EXPECT(cJSON_IsString(member(json, "error")));
        cJSON_Delete(json);
    }
    cJSON *json = world_ask(&w, "/generate", "{\"text\":1}", 400);
    EXPECT(cJSON_IsString(member(member(json, "error"), "message")));
    cJSON_Delete(json);
    world_end(&w);
}
