/* llama.cpp's own calls over the socket, against a fake scheduler; and prompts of an infill. */
#include "world.h"

#include "gateway/prompts/infill.h"

static void post(struct world *w, const char *path, const char *body, struct answer *a) {
    client_request(w->port, "POST", path, NULL, body, a);
}

/* ---- completions ---- */

/* Joins what the events of a stream say; *last is the last one. */
static void join(const struct answer *a, struct buf *text, int *tokens, cJSON **last) {
    const char *at = buf_text(&a->body);
    *last = NULL;
    while (strncmp(at, "data: ", 6) == 0) {
        const char *end = strstr(at, "\n\n");
        cJSON_Delete(*last);
        *last = cJSON_ParseWithLength(at + 6, (size_t)(end - at) - 6);
        buf_add_str(text, client_string(*last, "content"));
        *tokens += cJSON_GetArraySize(member(*last, "tokens"));
        at = end + 2;
        EXPECT_EQ(cJSON_IsTrue(member(*last, "stop")), *at == 0);
    }
    EXPECT(*at == 0 && *last);
}

/* Ends by a word, and by the model's own end. */
TEST(a_completion_says_what_ended_it) {
    static const struct {
        const char *body, *stop_type, *word, *content;
    } cases[] = {
        {"{\"prompt\":\"one two three\",\"stop\":[\"four\",\" th\"]}", "word", " th", "one two"},
        {"{\"prompt\":\"one two\"}", "eos", "", "one two"},
        {"{\"prompt\":\"one two\",\"stop\":[\"\",\"five\"]}", "eos", "",
         "one two"}, /* empty: none */
    };
    struct world w;
    world_prepare(&w);
    w.fake_config.echo = true;
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct answer a;
        post(&w, "/completion", cases[i].body, &a);
        cJSON *json = cJSON_ParseWithLength(a.body.data, a.body.len);
        EXPECT_STR(client_string(json, "stop_type"), cases[i].stop_type);
        EXPECT_STR(client_string(json, "stopping_word"), cases[i].word);
        EXPECT_STR(client_string(json, "content"), cases[i].content);
        cJSON_Delete(json);
        answer_release(&a);
    }
    world_end(&w);
}

/* A whole answer and a stream of `path` say the same. */
static void ask_both(struct world *w, const char *path, const char *fields, const char *stop_type,
                     const char *word) {
    struct answer whole, streamed;
    struct buf body = {0}, text = {0};
    cJSON *last;
    int tokens = 0;
    buf_addf(&body, "{%s,\"return_tokens\":true}", fields);
    post(w, path, buf_text(&body), &whole);
    buf_reset(&body);
    buf_addf(&body, "{%s,\"stream\":true}", fields);
    post(w, path, buf_text(&body), &streamed);
    cJSON *json = cJSON_ParseWithLength(whole.body.data, whole.body.len);
    join(&streamed, &text, &tokens, &last);
    EXPECT_EQ(whole.status, 200);
    EXPECT_STR(buf_text(&text), client_string(json, "content"));
    EXPECT_EQ(tokens, cJSON_GetArraySize(member(json, "tokens")));
    EXPECT_EQ(tokens, member(json, "tokens_predicted")->valueint);
    for (const cJSON *one = json; one; one = one == json ? last : NULL) {
        EXPECT_STR(client_string(one, "stop_type"), stop_type);
        EXPECT_STR(client_string(one, "stopping_word"), word);
        EXPECT_STR(client_string(one, "model"), "fake");
        EXPECT_STR(client_string(one, "prompt"), "<|begin|>Once upon");
        EXPECT(cJSON_IsTrue(member(one, "stop")) && !cJSON_IsTrue(member(one, "truncated")));
        EXPECT_EQ(member(one, "tokens_predicted")->valueint, tokens);
        EXPECT(member(one, "tokens_evaluated")->valueint > 0);
        EXPECT_EQ(member(member(one, "timings"), "predicted_n")->valueint, tokens);
        EXPECT_EQ(member(member(one, "generation_settings"), "seed")->valueint, 7);
        EXPECT(member(member(one, "timings"), "prompt_per_second")->valuedouble > 0);
    }
    cJSON_Delete(json);
    cJSON_Delete(last);
    answer_release(&whole);
    answer_release(&streamed);
    buf_release(&body);
    buf_release(&text);
}

TEST(completions_are_objects_of_llama_cpps_form) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.fake_config.with_logprobs = true;
    EXPECT(world_start(&w));
    ask_both(&w, "/completion", "\"prompt\":\"Once upon\",\"seed\":7,\"n_predict\":5", "limit", "");
    ask_both(&w, "/completions", "\"prompt\":\"Once upon\",\"seed\":7,\"n_predict\":5", "limit",
             "");
    post(&w, "/completion",
         "{\"prompt\":[5,6],\"n_predict\":3,\"n_probs\":2,\"logit_bias\":[[5,1.5],[6,-100]]}", &a);
    cJSON *json = cJSON_ParseWithLength(a.body.data, a.body.len);
    const cJSON *list = member(json, "completion_probabilities"), *entry = list->child;
    EXPECT_EQ(cJSON_GetArraySize(list), 3);
    EXPECT(member(entry, "id") && member(entry, "token") && member(entry, "logprob"));
    EXPECT_EQ(cJSON_GetArraySize(member(entry, "top_logprobs")), 2);
    EXPECT(member(member(entry, "top_logprobs")->child, "id"));
    EXPECT_EQ(cJSON_GetArraySize(member(json, "tokens")), 0); /* they were not asked for */
    cJSON_Delete(json);
    answer_release(&a);
    world_end(&w);
}

TEST(several_choices_or_prompts_are_a_list) {
    struct world w;
    world_prepare(&w);
    w.fake_config.with_logprobs = true;
    EXPECT(world_start(&w));
    static const struct {
        const char *path, *body;
        int count, prompts;
    } cases[] = {
        {"/completion", "{\"prompt\":\"Once\",\"n_predict\":3,\"n_cmpl\":2,\"n_probs\":1", 2, 1},
        {"/completion", "{\"prompt\":[\"Once\",\"Once upon\"],\"n_predict\":3,\"n\":2", 4, 2},
        {"/completion", "{\"prompt\":[[5,6],[7]],\"n_predict\":3", 2, 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct answer a;
        struct buf body = {0}, texts[4] = {0};
        const cJSON *one;
        int at = 0;
        buf_addf(&body, "%s,\"seed\":3,\"ignore_eos\":true", cases[i].body);
        size_t fields = body.len;
        buf_add_str(&body, "}");
        post(&w, cases[i].path, buf_text(&body), &a);
        cJSON *list = cJSON_ParseWithLength(a.body.data, a.body.len);
        EXPECT_EQ(cJSON_GetArraySize(list), cases[i].count);
        cJSON_ArrayForEach(one, list) {
            EXPECT_EQ(member(one, "index")->valueint, at);
            EXPECT_EQ(member(one, "tokens_predicted")->valueint, 3);
            EXPECT_STR(client_string(one, "stop_type"), "limit");
            buf_add_str(&texts[at++], client_string(one, "content"));
        }
        EXPECT_EQ(strcmp(client_string(list->child, "prompt"),
                         client_string(list->child->prev, "prompt")) == 0,
                  cases[i].prompts == 1);
        cJSON_Delete(list);
        answer_release(&a);
        body.len = fields;
        buf_add_str(&body, ",\"stream\":true}");
        post(&w, cases[i].path, buf_text(&body), &a);
        struct buf said[4] = {0};
        int ends = 0;
        const char *event = buf_text(&a.body);
        for (; strncmp(event, "data: ", 6) == 0; event = strstr(event, "\n\n") + 2) {
            size_t len = (size_t)(strstr(event, "\n\n") - event) - 6;
            cJSON *json = cJSON_ParseWithLength(event + 6, len);
            buf_add_str(&said[member(json, "index")->valueint], client_string(json, "content"));
            ends += cJSON_IsTrue(member(json, "stop"));
            cJSON_Delete(json);
        }
        EXPECT_EQ(ends, cases[i].count);
        for (int k = 0; k < 4; k++) {
            EXPECT_STR(buf_text(&said[k]), buf_text(&texts[k]));
            buf_release(&said[k]);
            buf_release(&texts[k]);
        }
        answer_release(&a);
        buf_release(&body);
    }
    world_end(&w);
}

TEST(response_fields_are_the_members_alone) {
    static const struct {
        const char *fields, *answer;
    } cases[] = {
        {"[\"index\",\"tokens_predicted\"]", "{\"index\":0,\"tokens_predicted\":2}"},
        {"[\"generation_settings/n_predict\",\"stop\"]", "{\"n_predict\":2,\"stop\":true}"},
        {"[\"no such\",\"generation_settings/none\",\"stop/x\"]", "{}"},
        {"[\"stop_type\",\"/stop\",\"stop/\"]", "{\"stop_type\":\"limit\"}"},
    };
    struct world w;
    world_prepare(&w);
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (int streams = 0; streams < 2; streams++) {
            struct answer a;
            struct buf body = {0};
            buf_addf(&body,
                     "{\"prompt\":\"a\",\"n_predict\":2,\"response_fields\":%s,\"stream\":%s}",
                     cases[i].fields, streams ? "true" : "false");
            post(&w, "/completion", buf_text(&body), &a);
            const char *last = buf_text(&a.body); /* a stream's last object is the one */
            for (const char *next; streams && (next = strstr(last + 1, "data: "));)
                last = next;
            cJSON *json = cJSON_Parse(last + (streams ? 6 : 0)),
                  *want = cJSON_Parse(cases[i].answer);
            if (!cJSON_Compare(json, want, true))
                check_fail(__FILE__, __LINE__, "%s: %s", cases[i].fields, buf_text(&a.body));
            cJSON_Delete(json);
            cJSON_Delete(want);
            answer_release(&a);
            buf_release(&body);
        }
    world_end(&w);
}

/* The time is asked for when a line has ended: not before, however long ago it was over. Tokens that
 * come late and together have one time, so a few may follow the line. */
TEST(an_answer_ends_by_the_clock_behind_a_line) {
    struct world w;
    world_prepare(&w);
    w.fake_config.echo = true;
    w.fake_config.step_us = 5000;
    EXPECT(world_start(&w));
    static const struct {
        const char *fields, *content, *stop_type;
    } cases[] = {
        {",\"t_max_predict_ms\":0", "one\ntwo\nthree four", "eos"},
        {",\"t_max_predict_ms\":1", "one\n", "limit"},
        {",\"t_max_predict_ms\":60000", "one\ntwo\nthree four", "eos"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct answer a;
        struct buf body = {0};
        buf_addf(&body, "{\"prompt\":\"one\\ntwo\\nthree four\"%s}", cases[i].fields);
        post(&w, "/completion", buf_text(&body), &a);
        cJSON *json = cJSON_ParseWithLength(a.body.data, a.body.len);
        const char *content = client_string(json, "content");
        EXPECT_EQ(strncmp(content, cases[i].content, strlen(cases[i].content)), 0);
        EXPECT_EQ(strlen(content) < strlen(cases[0].content), !strcmp(cases[i].stop_type, "limit"));
        EXPECT_STR(client_string(json, "stop_type"), cases[i].stop_type);
        cJSON_Delete(json);
        answer_release(&a);
        buf_release(&body);
    }
    world_end(&w);
}

/* What the answer says of the samplers, without its braces, is what was asked; or the names of
 * what is usual. */
TEST(an_answer_shows_its_samplers) {
    static const struct {
        const char *asked, *shown; /* shown NULL: as asked */
    } cases[] = {
        {"\"typical_p\":0.5,\"xtc_probability\":0.25,\"xtc_threshold\":0.125", NULL},
        {"\"dynatemp_range\":0.5,\"dynatemp_exponent\":1.5,\"repeat_last_n\":7", NULL},
        {"\"dry_multiplier\":0.5,\"dry_base\":2,\"dry_allowed_length\":3,"
         "\"dry_penalty_last_n\":64,\"dry_sequence_breakers\":[\"a\",\"b\"]",
         NULL},
        {"\"mirostat\":1,\"mirostat_tau\":4,\"mirostat_eta\":0.25", NULL},
        {"\"mirostat\":2", NULL},
        {"\"adaptive_target\":0.5,\"adaptive_decay\":0.75", NULL},
        {"\"samplers\":[\"xtc\",\"temperature\",\"top_k\"]", NULL},
        {"\"samplers\":\"kt\"", "\"samplers\":[\"top_k\",\"temperature\"]"},
        {"\"seed\":1",
         "\"mirostat\":0,\"dry_sequence_breakers\":[\"\\n\",\":\",\"\\\"\",\"*\"],"
         "\"samplers\":[\"penalties\",\"dry\",\"top_n_sigma\",\"temperature\",\"top_k\","
         "\"typ_p\",\"top_p\",\"min_p\",\"xtc\"]"},
    };
    struct world w;
    world_prepare(&w);
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct answer a;
        char body[1024];
        snprintf(body, sizeof body, "{\"prompt\":\"a\",\"n_predict\":1,%s}", cases[i].asked);
        post(&w, "/completion", body, &a);
        snprintf(body, sizeof body, "{%s}", cases[i].shown ? cases[i].shown : cases[i].asked);
        cJSON *json = cJSON_ParseWithLength(a.body.data, a.body.len), *wanted = cJSON_Parse(body);
        const cJSON *shown = member(json, "generation_settings");
        EXPECT(wanted && shown);
        for (const cJSON *one = wanted->child; one; one = one->next)
            if (!cJSON_Compare(one, member(shown, one->string), true))
                check_fail(__FILE__, __LINE__, "%s is not shown in %s", one->string,
                           buf_text(&a.body));
        cJSON_Delete(json);
        cJSON_Delete(wanted);
        answer_release(&a);
    }
    world_end(&w);
}

TEST(errors_have_llama_cpps_form) {
    static const struct {
        const char *path, *body;
        int status;
        const char *says;
    } cases[] = {
        {"/completion", "{", 400, "malformed JSON"},
        {"/completion", "{}", 400, "'prompt' is missing"},
        {"/completion", "{\"prompt\":[\"a\",\"b\"],\"n_cmpl\":65}", 400, "more than 128"},
        {"/completion", "{\"prompt\":[[1],[]]}", 400, "empty list"},
        {"/completion", "{\"prompt\":\"a\",\"response_fields\":\"content\"}", 400,
         "'response_fields' must be an array"},
        {"/completion", "{\"prompt\":\"a\",\"messages\":[{}]}", 400, "'messages' is not offered"},
        {"/completion", "{\"prompt\":\"a\",\"mirostat\":3}", 400, "'mirostat' must be between"},
        {"/completion", "{\"prompt\":\"a\",\"n_probs\":21}", 400, "'n_probs' must be between"},
        {"/completion", "{\"prompt\":\"a\",\"logit_bias\":[[1]]}", 400, "'logit_bias'"},
        {"/completion", "{\"prompt\":\"a\",\"logit_bias\":[[1,2,3]]}", 400, "'logit_bias'"},
        {"/completion", "{\"prompt\":\"a\",\"logit_bias\":[[-1,2]]}", 400, "'logit_bias'"},
        {"/infill", "{\"input_suffix\":\"a\"}", 400, "'input_prefix' is missing"},
        {"/infill", "{\"input_prefix\":\"a\"}", 400, "'input_suffix' is missing"},
        {"/infill", "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"input_extra\":[{}]}", 400,
         "without 'text'"},
        {"/infill", "{\"input_prefix\":\"a\",\"input_suffix\":\"b\"}", 501, "no marks"},
    };
    struct world w;
    world_prepare(&w);
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct answer a;
        post(&w, cases[i].path, cases[i].body, &a);
        cJSON *json = cJSON_ParseWithLength(a.body.data, a.body.len);
        const cJSON *error = member(json, "error");
        EXPECT_EQ(a.status, cases[i].status);
        EXPECT(error && member(error, "code")->valueint == cases[i].status);
        EXPECT_STR(client_string(error, "type"),
                   cases[i].status == 501 ? "not_supported_error" : "invalid_request_error");
        if (!strstr(client_string(error, "message"), cases[i].says))
            check_fail(__FILE__, __LINE__, "%s: '%s'", cases[i].body, buf_text(&a.body));
        cJSON_Delete(json);
        answer_release(&a);
    }
    world_end(&w);
}

TEST(calls_about_the_server) {
    struct world w;
    struct answer a;
    world_echo(&w, "{{ messages[-1]['content'] }}");
    EXPECT(world_start(&w));
    client_request(w.port, "GET", "/slots", NULL, NULL, &a);
    cJSON *json = cJSON_ParseWithLength(a.body.data, a.body.len);
    EXPECT_EQ(cJSON_GetArraySize(json), 1); /* one is free */
    EXPECT(json && cJSON_IsFalse(member(json->child, "is_processing")));
    EXPECT(json && member(json->child, "n_ctx")->valueint > 0);
    cJSON_Delete(json);
    answer_release(&a);
    client_request(w.port, "GET", "/tokenizer_info", NULL, NULL, &a);
    json = cJSON_ParseWithLength(a.body.data, a.body.len);
    EXPECT(member(json, "vocab_size")->valueint > 0);
    EXPECT_STR(client_string(json, "chat_template"), "{{ messages[-1]['content'] }}");
    cJSON_Delete(json);
    answer_release(&a);
    /* a rendered chat is what tokenizing it gives */
    static const char chat[] = "\"messages\":[{\"role\":\"user\",\"content\":\"Hello there\"}]";
    struct buf body = {0};
    struct answer tokens;
    buf_addf(&body, "{%s,\"temperature\":0.5,\"max_tokens\":3}", chat);
    post(&w, "/v1/chat/completions/render", buf_text(&body), &a);
    buf_reset(&body);
    buf_addf(&body, "{%s}", chat);
    post(&w, "/tokenize", buf_text(&body), &tokens);
    json = cJSON_ParseWithLength(a.body.data, a.body.len);
    cJSON *expected = cJSON_ParseWithLength(tokens.body.data, tokens.body.len);
    EXPECT(cJSON_Compare(member(json, "token_ids"), member(expected, "tokens"), true));
    EXPECT(member(member(json, "sampling_params"), "temperature")->valuedouble == 0.5);
    EXPECT_EQ(member(member(json, "sampling_params"), "max_tokens")->valueint, 3);
    EXPECT(!member(member(json, "sampling_params"), "top_p"));
    cJSON_Delete(json);
    cJSON_Delete(expected);
    answer_release(&a);
    answer_release(&tokens);
    buf_release(&body);
    /* of a completion: one for each prompt */
    post(&w, "/v1/completions/render",
         "{\"prompt\":[\"Hello there\",\"a b\"],\"temperature\":0,\"stream\":true}", &a);
    post(&w, "/tokenize", "{\"prompt\":\"Hello there\"}", &tokens);
    json = cJSON_ParseWithLength(a.body.data, a.body.len);
    expected = cJSON_ParseWithLength(tokens.body.data, tokens.body.len);
    EXPECT_EQ(cJSON_GetArraySize(json), 2);
    EXPECT(cJSON_Compare(member(json->child, "token_ids"), member(expected, "tokens"), true));
    EXPECT(
        !cJSON_Compare(member(json->child->next, "token_ids"), member(expected, "tokens"), true));
    EXPECT(cJSON_IsTrue(member(json->child->next, "stream")));
    cJSON_Delete(json);
    cJSON_Delete(expected);
    answer_release(&a);
    answer_release(&tokens);
    client_request(w.port, "POST", "/v1/completions/render", NULL, "{\"max_tokens\":3}", &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    client_request(w.port, "POST", "/v1/completions/render", NULL, "{\"prompt\":[[9999999]]}", &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    world_echo_end(&w);
}

/* ---- infills ---- */

/* The demo model's tokenizer with further tokens, whose ids begin at `first`. */
static struct tokenizer *tokenizer_with(const char *const *names, size_t count, uint32_t *first) {
    static const char place[] = "\"added_tokens\": [";
    struct buf file = {0}, changed = {0};
    struct tokenizer *t, *plain;
    struct error err;
    CHECK(file_read_any(TRIREME_SOURCE_DIR "/demo/model/tokenizer.json", 1 << 24, &file, &err) ==
          0);
    const struct bytes none = {0};
    CHECK(tokenizer_load(buf_bytes(&file), none, none, &plain, &err) == 0);
    *first = tokenizer_vocab_count(plain);
    tokenizer_free(&plain);
    const char *at = strstr(buf_text(&file), place);
    CHECK(at);
    at = strchr(at, ']'); /* ids go by the order in the list */
    CHECK(at);
    buf_add(&changed, file.data, (size_t)(at - file.data));
    for (size_t i = 0; i < count; i++)
        buf_addf(&changed,
                 ",{\"id\":%zu,\"content\":\"%s\",\"special\":true,\"single_word\":false,"
                 "\"lstrip\":false,\"rstrip\":false,\"normalized\":false}",
                 *first + i, names[i]);
    buf_add_str(&changed, at);
    if (tokenizer_load(buf_bytes(&changed), none, none, &t, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    buf_release(&file);
    buf_release(&changed);
    return t;
}

/* The prompt of an infill as text, a mark as {its number}. */
static void prompt_of(const struct genreq *g, const struct tokenizer *t, uint32_t first,
                      struct buf *out) {
    struct token_vec ids = {0};
    struct api_error err;
    EXPECT_EQ(infill_tokens(g, t, &ids, &err), 0);
    buf_reset(out);
    for (size_t i = 0; i < ids.count; i++)
        if (ids.items[i] >= first)
            buf_addf(out, "{%u}", ids.items[i] - first);
        else
            buf_add_bytes(out, tokenizer_token_bytes(t, ids.items[i]));
    vec_release(&ids);
}

TEST(an_infill_has_the_marks_of_its_vocabulary) {
    static const char *const qwen[] = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
                                       "<|file_sep|>"},
                             *const deepseek[] = {"<｜fim▁begin｜>", "<｜fim▁hole｜>",
                                                  "<｜fim▁end｜>"},
                             *const half[] = {"<fim_prefix>", "<fim_middle>"};
    const struct genreq_file file = {bytes_of("f.c", 3), bytes_of("int x;", 6)};
    struct genreq_prompt prompt = {.text = bytes_str("    ")};
    struct genreq g;
    struct buf out = {0};
    uint32_t first;
    genreq_init(&g, GENREQ_INFILL);
    g.infill.prefix = bytes_str("a <|fim_middle|>");
    g.infill.suffix = bytes_str("b");
    g.prompts = &prompt;
    g.prompt_count = 1;
    struct tokenizer *t = tokenizer_with(qwen, ARRAY_LEN(qwen), &first);
    EXPECT(infill_is_possible(t));
    prompt_of(&g, t, first, &out);
    EXPECT_STR(buf_text(&out),
               "<|begin|>{0}a <|fim_middle|>{1}b{2}    "); /* a spelled mark is text */
    g.infill.files = &file;
    g.infill.file_count = 1;
    prompt_of(&g, t, first, &out);
    EXPECT_STR(buf_text(&out), "<|begin|>{3}f.c\nint x;{0}a <|fim_middle|>{1}b{2}    ");
    tokenizer_free(&t);
    t = tokenizer_with(deepseek, ARRAY_LEN(deepseek), &first);
    prompt_of(&g, t, first, &out);
    EXPECT_STR(buf_text(&out), "<|begin|>int x;\n\n{0}a <|fim_middle|>{1}b{2}    ");
    tokenizer_free(&t);
    t = tokenizer_with(half, ARRAY_LEN(half), &first);
    EXPECT(!infill_is_possible(t));
    struct token_vec ids = {0};
    struct api_error err;
    EXPECT(infill_tokens(&g, t, &ids, &err) < 0 && err.status == 501);
    tokenizer_free(&t);
    buf_release(&out);
    genreq_release(&g);
}
