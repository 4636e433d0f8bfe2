/* Ollama's dialect: its requests by their fields, and a whole gateway asked by sockets. */
#include "world.h"

#include "gateway/fields/genreq.h"

/* ---- fields ---- */

static int parse(enum genreq_dialect dialect, const char *body, struct genreq *g,
                 struct api_error *err) {
    *err = (struct api_error){0};
    return genreq_parse(g, dialect, bytes_str(body), err);
}

#define CHAT_BODY(more)   "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" more "}"
#define PROMPT_BODY(more) "{\"prompt\":\"hi\"" more "}"
#define BESIDE                                                                                     \
    ",\"temperature\":0.5,\"top_p\":0.25,\"top_k\":7,\"min_p\":0.125,\"max_output_tokens\":9"

TEST(options_are_the_fields_they_name) {
    struct genreq g;
    struct api_error err;
    EXPECT_EQ(parse(GENREQ_OLLAMA_CHAT,
                    CHAT_BODY(",\"model\":\"m\",\"options\":{\"temperature\":0.5,\"top_k\":7,"
                              "\"top_p\":0.25,\"min_p\":0.125,\"num_predict\":9,\"seed\":3,"
                              "\"stop\":[\"a\",\"b\"],\"repeat_penalty\":1.5,"
                              "\"presence_penalty\":3,\"frequency_penalty\":-4,\"num_ctx\":512,"
                              "\"num_gpu\":1,\"unheard_of\":{}},\"keep_alive\":\"5m\""),
                    &g, &err),
              0);
    EXPECT(g.stream);
    EXPECT(bytes_equal(g.model, bytes_str("m")));
    EXPECT(g.temperature == 0.5 && g.top_p == 0.25 && g.min_p == 0.125 &&
           g.repetition_penalty == 1.5 && g.presence_penalty == 3 && g.frequency_penalty == -4);
    EXPECT_EQ(g.top_k, 7);
    EXPECT_EQ(genreq_max_tokens(&g, 1), 9);
    EXPECT(g.given & GENREQ_SEED && g.seed == 3);
    EXPECT_EQ(g.stop_count, 2);
    genreq_release(&g);
    EXPECT_EQ(parse(GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"options\":{\"seed\":-1},\"stream\":false"),
                    &g, &err),
              0);
    EXPECT(!(g.given & GENREQ_SEED) && !g.stream);
    genreq_release(&g);
}

/* The AI SDK's provider says beside the options what samples. */
TEST(what_samples_may_stand_beside_the_options) {
    struct genreq g;
    struct api_error err;
    for (int generate = 0; generate < 2; generate++) {
        enum genreq_dialect dialect = generate ? GENREQ_OLLAMA_GENERATE : GENREQ_OLLAMA_CHAT;
        EXPECT_EQ(parse(dialect,
                        generate ? PROMPT_BODY(BESIDE ",\"options\":{\"num_predict\":9}")
                                 : CHAT_BODY(BESIDE ",\"options\":{\"num_predict\":9}"),
                        &g, &err),
                  0);
        EXPECT(g.temperature == 0.5 && g.top_p == 0.25 && g.min_p == 0.125);
        EXPECT_EQ(g.top_k, 7);
        EXPECT_EQ(genreq_max_tokens(&g, 1), 9);
        genreq_release(&g);
    }
    EXPECT_EQ(parse(GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"max_tokens\":3"), &g, &err), 0);
    EXPECT_EQ(genreq_max_tokens(&g, 1), 3);
    genreq_release(&g);
    static const struct {
        const char *body, *param;
    } refused[] = {
        {CHAT_BODY(",\"temperature\":1,\"options\":{\"temperature\":0}"), "temperature"},
        {CHAT_BODY(",\"options\":{\"num_predict\":9},\"max_output_tokens\":8"),
         "max_output_tokens"},
        {CHAT_BODY(",\"max_tokens\":9,\"options\":{\"num_predict\":8}"), "num_predict"},
        {CHAT_BODY(",\"top_p\":2"), "top_p"},
    };
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        EXPECT_EQ(parse(GENREQ_OLLAMA_CHAT, refused[i].body, &g, &err), -1);
        EXPECT_STR(err.param, refused[i].param);
        genreq_release(&g);
    }
}

#define WITH_TOOL(more)                                                                            \
    CHAT_BODY(",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]" more)

TEST(a_chat_may_choose_its_tools) {
    struct genreq g;
    struct api_error err;
    static const struct {
        const char *choice, *name;
        bool required, tools;
    } taken[] = {
        {WITH_TOOL(",\"tool_choice\":\"auto\""), "", false, true},
        {WITH_TOOL(",\"tool_choice\":\"none\""), "", false, false},
        {WITH_TOOL(",\"tool_choice\":\"required\""), "", true, true},
        {WITH_TOOL(",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"), "f",
         false, true},
        {WITH_TOOL(",\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}"), "f", false, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
        EXPECT_EQ(parse(GENREQ_OLLAMA_CHAT, taken[i].choice, &g, &err), 0);
        EXPECT(bytes_equal(g.tool_choice_name, bytes_str(taken[i].name)));
        EXPECT(g.tool_choice_required == taken[i].required);
        EXPECT((g.tools.len > 0) == taken[i].tools);
        genreq_release(&g);
    }
    static const struct {
        enum genreq_dialect dialect;
        const char *body, *says;
    } refused[] = {
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"tool_choice\":\"required\""), "needs 'tools'"},
        {GENREQ_OLLAMA_CHAT, WITH_TOOL(",\"tool_choice\":\"any\""), "must be"},
        {GENREQ_OLLAMA_CHAT, WITH_TOOL(",\"tool_choice\":{\"type\":\"web\",\"name\":\"f\"}"),
         "must be"},
        {GENREQ_OLLAMA_GENERATE, PROMPT_BODY(",\"tool_choice\":\"required\""), "not offered"},
    };
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        EXPECT_EQ(parse(refused[i].dialect, refused[i].body, &g, &err), -1);
        EXPECT_STR(err.param, "tool_choice");
        EXPECT(strstr(err.text, refused[i].says));
        genreq_release(&g);
    }
}

TEST(a_prompt_is_one_message_unless_it_is_raw) {
    struct genreq g;
    struct api_error err;
    EXPECT_EQ(
        parse(GENREQ_OLLAMA_GENERATE, PROMPT_BODY(",\"system\":\"be \\\"brief\\\"\""), &g, &err),
        0);
    EXPECT(
        bytes_equal(g.messages, bytes_str("[{\"role\":\"system\",\"content\":\"be \\\"brief\\\"\"},"
                                          "{\"role\":\"user\",\"content\":\"hi\"}]")));
    EXPECT_EQ(g.prompt_count, 0);
    genreq_release(&g);
    EXPECT_EQ(parse(GENREQ_OLLAMA_GENERATE, PROMPT_BODY(",\"raw\":true"), &g, &err), 0);
    EXPECT_EQ(g.messages.len, 0);
    EXPECT_EQ(g.prompt_count, 1);
    EXPECT(bytes_equal(g.prompts[0].text, bytes_str("hi")) && g.add_special_tokens);
    genreq_release(&g);
    /* for a model without a template there is the prompt itself */
    EXPECT_EQ(parse(GENREQ_OLLAMA_GENERATE, PROMPT_BODY(""), &g, &err), 0);
    EXPECT(g.messages.len > 0 && g.prompt_count == 1);
    genreq_release(&g);
}

TEST(nothing_may_be_asked) {
    static const struct {
        enum genreq_dialect dialect;
        const char *body;
        bool nothing;
    } cases[] = {
        {GENREQ_OLLAMA_CHAT, "{\"model\":\"m\"}", true},
        {GENREQ_OLLAMA_CHAT, "{\"messages\":[ ]}", true},
        {GENREQ_OLLAMA_CHAT, "{\"messages\":null}", true},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(""), false},
        {GENREQ_OLLAMA_GENERATE, "{\"model\":\"m\"}", true},
        {GENREQ_OLLAMA_GENERATE, "{\"prompt\":\"\",\"raw\":true}", true},
        {GENREQ_OLLAMA_GENERATE, PROMPT_BODY(""), false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err;
        EXPECT_EQ(parse(cases[i].dialect, cases[i].body, &g, &err), 0);
        EXPECT_EQ(genreq_asks_nothing(&g), cases[i].nothing);
        genreq_release(&g);
    }
}

TEST(thinking_is_told_to_the_template) {
    static const struct {
        const char *more, *effort;
        bool must;
    } cases[] = {
        {"", "", false},
        {",\"think\":null", "", false},
        {",\"think\":false", "none", false},
        {",\"think\":true", "", true},
        {",\"think\":\"high\"", "high", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err;
        char body[128];
        snprintf(body, sizeof body, CHAT_BODY("%s"), cases[i].more);
        EXPECT_EQ(parse(GENREQ_OLLAMA_CHAT, body, &g, &err), 0);
        EXPECT(bytes_equal(g.reasoning_effort, bytes_str(cases[i].effort)));
        EXPECT_EQ(g.must_think, cases[i].must);
        EXPECT_EQ(strstr(cases[i].more, "null") || !*cases[i].more, g.template_kwargs.len == 0);
        genreq_release(&g);
    }
}

TEST(a_format_is_a_constraint) {
    struct genreq g;
    struct api_error err;
    EXPECT_EQ(parse(GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"format\":\"json\""), &g, &err), 0);
    EXPECT_EQ(g.constraint.kind, CONSTRAINT_SCHEMA);
    genreq_release(&g);
    EXPECT_EQ(
        parse(GENREQ_OLLAMA_GENERATE, PROMPT_BODY(",\"format\":{\"type\":\"integer\"}"), &g, &err),
        0);
    EXPECT_EQ(g.constraint.kind, CONSTRAINT_SCHEMA);
    EXPECT(bytes_equal(g.constraint.text, bytes_str("{\"type\":\"integer\"}")));
    genreq_release(&g);
}

TEST(what_is_not_offered_is_refused_by_name) {
    static const struct {
        enum genreq_dialect dialect;
        const char *body, *param;
    } cases[] = {
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"options\":{\"temperature\":101}"), "temperature"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"options\":{\"mirostat\":3}"), "mirostat"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"options\":{\"typical_p\":1.5}"), "typical_p"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"options\":{\"penalize_newline\":false}"),
         "penalize_newline"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"options\":{\"stop\":\"\"}"), "stop"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"options\":[]"), "options"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"stream\":1"), "stream"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"think\":\"hard\""), "think"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"think\":5"), "think"},
        /* what else tells the template to think, in either order */
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"think\":true,\"chat_template_kwargs\":{\"a\":1}"),
         "think"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"chat_template_kwargs\":{\"a\":1},\"think\":false"),
         "think"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"think\":false,\"reasoning_effort\":\"high\""), "think"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"reasoning_effort\":\"low\",\"think\":\"high\""),
         "think"},
        {GENREQ_OLLAMA_GENERATE, PROMPT_BODY(",\"think\":true,\"chat_template_kwargs\":{\"a\":1}"),
         "chat_template_kwargs"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"format\":\"xml\""), "format"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"top_logprobs\":2"), "top_logprobs"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"n_cmpl\":2"), "n_cmpl"},
        {GENREQ_OLLAMA_CHAT, CHAT_BODY(",\"template\":\"x\""), "template"},
        {GENREQ_OLLAMA_CHAT, "{\"messages\":[{\"content\":\"hi\"}]}", "messages"},
        {GENREQ_OLLAMA_CHAT,
         "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\",\"images\":[\"aGk=\"]}]}",
         "messages"},
        {GENREQ_OLLAMA_CHAT, "{\"prompt\":\"hi\"}", "prompt"},
        {GENREQ_OLLAMA_GENERATE, PROMPT_BODY(",\"template\":\"x\""), "template"},
        {GENREQ_OLLAMA_GENERATE, PROMPT_BODY(",\"suffix\":\"x\",\"system\":\"y\""), "suffix"},
        {GENREQ_OLLAMA_GENERATE, PROMPT_BODY(",\"images\":[\"aGk=\"]"), "images"},
        {GENREQ_OLLAMA_GENERATE, PROMPT_BODY(",\"context\":[1,2]"), "context"},
        {GENREQ_OLLAMA_GENERATE, PROMPT_BODY(",\"raw\":1"), "raw"},
        {GENREQ_OLLAMA_GENERATE, PROMPT_BODY(",\"raw\":true,\"system\":\"x\""), "system"},
        {GENREQ_OLLAMA_GENERATE, PROMPT_BODY(",\"messages\":[{}]"), "messages"},
        {GENREQ_OLLAMA_GENERATE, "{\"prompt\":[1,2]}", "prompt"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err;
        EXPECT_EQ(parse(cases[i].dialect, cases[i].body, &g, &err), -1);
        EXPECT_EQ(err.status, 400);
        EXPECT_STR(err.param, cases[i].param);
        EXPECT(strstr(err.text, cases[i].param));
        genreq_release(&g);
    }
    /* what changes nothing is taken */
    static const char *const taken[] = {
        PROMPT_BODY(",\"template\":\"\",\"suffix\":\"\",\"images\":[],\"context\":[]"),
        PROMPT_BODY(",\"truncate\":true,\"shift\":false,\"keep_alive\":-1"),
        PROMPT_BODY(",\"options\":{\"typical_p\":1,\"mirostat\":0,\"num_predict\":-2}"),
        PROMPT_BODY(",\"options\":{\"num_predict\":0}"),
    };
    for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
        struct genreq g;
        struct api_error err;
        EXPECT_EQ(parse(GENREQ_OLLAMA_GENERATE, taken[i], &g, &err), 0);
        genreq_release(&g);
    }
}

/* ---- answers ---- */

/* What the lines of an answer say, joined. */
struct lines {
    int count, done, status;
    struct buf content, thinking, calls; /* calls: NAME INDEX ARGUMENTS, a line each */
    char reason[16], error[256];
    double tokens, prompt_tokens;
};

static void lines_release(struct lines *l) {
    buf_release(&l->content);
    buf_release(&l->thinking);
    buf_release(&l->calls);
}

static double number(const cJSON *object, const char *name) {
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(v) ? v->valuedouble : -1;
}

/* The sum of the parts is the whole; nothing is said of how long they took. */
static void check_durations(const cJSON *line) {
    EXPECT(number(line, "load_duration") >= 0);
    EXPECT(number(line, "prompt_eval_duration") > 0);
    EXPECT(number(line, "eval_duration") > 0);
    EXPECT(number(line, "total_duration") == number(line, "load_duration") +
                                                 number(line, "prompt_eval_duration") +
                                                 number(line, "eval_duration"));
}

static void take_line(struct lines *l, const cJSON *line) {
    const cJSON *message = cJSON_GetObjectItemCaseSensitive(line, "message"), *call;
    const cJSON *texts = message ? message : line;
    bool done = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(line, "done"));
    snprintf(l->error, sizeof l->error, "%s", client_string(line, "error"));
    if (*l->error) {
        EXPECT(cJSON_GetArraySize(line) == 1); /* that and no more */
        return;
    }
    EXPECT_STR(client_string(line, "model"), "fake");
    EXPECT(strchr(client_string(line, "created_at"), 'T'));
    EXPECT(!l->done); /* the last line is the last */
    l->count++;
    l->done += done;
    buf_add_str(&l->content, client_string(texts, message ? "content" : "response"));
    buf_add_str(&l->thinking, client_string(texts, "thinking"));
    cJSON_ArrayForEach(call, cJSON_GetObjectItemCaseSensitive(message, "tool_calls")) {
        const cJSON *function = cJSON_GetObjectItemCaseSensitive(call, "function");
        const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(function, "arguments");
        EXPECT(cJSON_IsObject(arguments));
        char *text = cJSON_PrintUnformatted(arguments);
        buf_addf(&l->calls, "%s %d %s\n", client_string(function, "name"),
                 (int)number(function, "index"), text);
        cJSON_free(text);
    }
    if (!done)
        return;
    snprintf(l->reason, sizeof l->reason, "%s", client_string(line, "done_reason"));
    l->tokens = number(line, "eval_count");
    l->prompt_tokens = number(line, "prompt_eval_count");
    if (strcmp(l->reason, "load") != 0)
        check_durations(line);
}

static struct lines ask(struct world *w, const char *method, const char *path, const char *body) {
    struct lines l = {0};
    struct answer a;
    client_request(w->port, method, path, NULL, body, &a);
    l.status = a.status;
    const char *at = buf_text(&a.body), *end;
    for (; *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, "\n");
        cJSON *line = cJSON_ParseWithLength(at, (size_t)(end - at));
        if (cJSON_IsObject(line))
            take_line(&l, line);
        else
            check_fail(__FILE__, __LINE__, "no object: %.*s", (int)(end - at), at);
        cJSON_Delete(line);
    }
    answer_release(&a);
    return l;
}

#define SAYS                                                                                       \
    "<think>I look.</think>Wait.\\n<tool_call>{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":"          \
    "{\\\"a\\\":\\\"é\\\"}}</tool_call><tool_call>{\\\"name\\\":\\\"g\\\",\\\"arguments\\\":{}}"  \
    "</tool_call>"
#define OLLAMA_CHAT(w, says, more)                                                                 \
    ask(w, "POST", "/api/chat",                                                                    \
        "{\"messages\":[{\"role\":\"user\",\"content\":\"" says "\"}]" more "}")

TEST(chats_are_lines_or_one_object) {
    struct world w;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    struct lines streamed = OLLAMA_CHAT(&w, SAYS, TOOL),
                 whole = OLLAMA_CHAT(&w, SAYS, TOOL ",\"stream\":false");
    EXPECT_EQ(whole.status, 200);
    EXPECT_EQ(whole.count, 1);
    EXPECT_EQ(whole.done, 1);
    EXPECT_STR(buf_text(&whole.content), "Wait.");
    EXPECT_STR(buf_text(&whole.thinking), "I look.");
    EXPECT_STR(buf_text(&whole.calls), "f 0 {\"a\":\"é\"}\ng 1 {}\n");
    EXPECT_STR(whole.reason, "stop");
    EXPECT(whole.prompt_tokens > 0 && whole.tokens > 0);
    EXPECT_EQ(streamed.status, 200);
    EXPECT(streamed.count > 4);
    EXPECT_EQ(streamed.done, 1);
    EXPECT_STR(buf_text(&streamed.content), buf_text(&whole.content));
    EXPECT_STR(buf_text(&streamed.thinking), buf_text(&whole.thinking));
    EXPECT_STR(buf_text(&streamed.calls), buf_text(&whole.calls));
    EXPECT_STR(streamed.reason, "stop");
    EXPECT(streamed.tokens == whole.tokens);
    lines_release(&streamed);
    lines_release(&whole);
    world_echo_end(&w);
}

/* As the whole of an answer has it, a broken call of a stream is content. */
TEST(a_broken_call_is_content) {
    struct world w;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    struct lines l =
        OLLAMA_CHAT(&w, "<tool_call>{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{\\\"a\\\":", TOOL);
    EXPECT_EQ(l.calls.len, 0);
    EXPECT_STR(buf_text(&l.content), "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":");
    lines_release(&l);
    world_echo_end(&w);
}

TEST(prompts_go_through_the_template_unless_raw) {
    struct world w;
    world_echo(&w, "{% for m in messages %}<{{ m.role }}{% if m.name %} {{ m.name }}{% endif %}>"
                   "{{ m.content }}{% endfor %}{{ ' thinks' if enable_thinking is defined }}");
    w.settings.reasoning_parser = "deepseek_r1";
    EXPECT(world_start(&w));
    struct lines l = ask(&w, "POST", "/api/generate", "{\"prompt\":\"hi\",\"system\":\"be\"}");
    EXPECT_STR(buf_text(&l.content), "<system>be<user>hi");
    lines_release(&l);
    l = ask(&w, "POST", "/api/generate", "{\"prompt\":\"hi\",\"raw\":true,\"stream\":false}");
    EXPECT_STR(buf_text(&l.content), "hi");
    lines_release(&l);
    l = ask(&w, "POST", "/api/chat",
            "{\"messages\":[{\"role\":\"tool\",\"content\":\"7\",\"tool_name\":\"f\"}],"
            "\"think\":\"low\",\"stream\":false}");
    EXPECT(strstr(buf_text(&l.thinking), "<tool f>7 thinks") ||
           strstr(buf_text(&l.content), "<tool f>7 thinks"));
    lines_release(&l);
    world_echo_end(&w);
}

TEST(options_are_obeyed) {
    struct world w;
    world_prepare(&w);
    w.settings.seed = w.defaults.seed; /* -1: one is drawn for each request */
    EXPECT(world_start(&w));
#define TOLD(options)                                                                              \
    ask(&w, "POST", "/api/generate",                                                               \
        "{\"prompt\":\"hi\",\"raw\":true,\"stream\":false,\"options\":{" options "}}")
    struct lines a = TOLD("\"num_predict\":20,\"seed\":5"),
                 b = TOLD("\"num_predict\":20,\"seed\":5"),
                 c = TOLD("\"num_predict\":20,\"seed\":-1"),
                 d = TOLD("\"num_predict\":20,\"seed\":-1");
    EXPECT_STR(a.reason, "length");
    EXPECT(a.tokens == 20);
    EXPECT_STR(buf_text(&a.content), buf_text(&b.content));
    EXPECT(strcmp(buf_text(&c.content), buf_text(&d.content)) != 0);
    /* more than the model has: the context is what it is */
    struct lines wide = TOLD("\"num_predict\":20,\"seed\":5,\"num_ctx\":100000000");
    EXPECT_STR(buf_text(&wide.content), buf_text(&a.content));
    struct lines *all[] = {&a, &b, &c, &d, &wide};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        lines_release(all[i]);
    world_end(&w);
}

TEST(log_probabilities_stand_in_lines) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.fake_config.with_logprobs = true;
    EXPECT(world_start(&w));
    client_request(w.port, "POST", "/api/generate", NULL,
                   "{\"prompt\":\"hi\",\"raw\":true,\"stream\":false,\"logprobs\":true,"
                   "\"top_logprobs\":2,\"options\":{\"num_predict\":3}}",
                   &a);
    cJSON *json = cJSON_Parse(buf_text(&a.body));
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "logprobs");
    EXPECT_EQ(cJSON_GetArraySize(list), 3);
    const cJSON *first = list ? list->child : NULL;
    EXPECT(*client_string(first, "token") && number(first, "logprob") <= 0);
    EXPECT_EQ(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(first, "top_logprobs")), 2);
    cJSON_Delete(json);
    answer_release(&a);
    world_end(&w);
}

static bool is_gone(struct world *w) {
    return fake_counts(w->fake).sequences == 0;
}

/* A stream that fails ends with a line that says so. */
TEST(an_error_in_a_stream_is_a_line) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.request_timeout_ms = 1500;
    EXPECT(world_start(&w));
    uint64_t before = fake_counts(w.fake).tokens;
    answer_init(&a);
    int fd = client_open(w.port, "POST", "/api/generate", NULL,
                         "{\"prompt\":\"hi\",\"raw\":true,\"options\":{\"seed\":5}}");
    while (fake_counts(w.fake).tokens == before)
        sleep_ms(1);
    fake_set_stepping(w.fake, false); /* it has begun, and does not end */
    client_finish(fd, &a);
    const char *last = strstr(buf_text(&a.body), "{\"error\":\"");
    EXPECT_EQ(a.status, 200);
    EXPECT(last && last[-1] == '\n' && last[strlen(last) - 1] == '\n');
    EXPECT(strstr(buf_text(&a.raw), "Content-Type: application/x-ndjson\r\n"));
    EXPECT(wait_until(is_gone, &w));
    answer_release(&a);
    world_end(&w);
}

/* A line that is no answer would be an error to Ollama's clients. */
TEST(silence_stays_silent) {
    struct world w;
    world_prepare(&w);
    w.settings.ping_ms = 10;
    w.fake_config.step_us = 200000;
    EXPECT(world_start(&w));
    struct lines l = ask(&w, "POST", "/api/generate",
                         "{\"prompt\":\"hi\",\"raw\":true,\"options\":{\"num_predict\":4}}");
    EXPECT_EQ(l.done, 1);
    lines_release(&l);
    world_end(&w);
}

TEST(errors_are_texts) {
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *text;
    } cases[] = {
        {"POST", "/api/chat", "{", 400, "malformed JSON"},
        {"POST", "/api/chat", NULL, 400, "no body"},
        {"POST", "/api/chat",
         "{\"model\":\"nix\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", 404,
         "the model 'nix' does not exist"},
        {"POST", "/api/generate", "{\"model\":\"nix\"}", 404, "the model 'nix' does not exist"},
        {"POST", "/api/generate", PROMPT_BODY(",\"suffix\":\"x\""), 501, "no marks"},
        {"POST", "/api/chat", CHAT_BODY(",\"think\":true"), 400, "does not support thinking"},
        {"POST", "/api/show", "{\"model\":\"nix\"}", 404, "'nix'"},
        {"POST", "/api/show", "{\"model\":\"fake\",\"name\":\"other\"}", 400, "'name'"},
        {"GET", "/api/chat", NULL, 405, "this path takes POST"},
        {"QUERY", "/api/chat", "{}", 405, "this path takes POST"},
        {"GET", "/api/nothing", NULL, 404, "nothing at this path"},
        {"POST", "/api/embed", "{}", 400, "'input' is missing"},
        {"POST", "/api/embeddings", "{}", 400, "'prompt' is missing"},
        {"POST", "/api/pull", "{}", 400, "'/api/pull' is not offered"},
        {"POST", "/api/push", "{}", 400, "'/api/push' is not offered"},
        {"POST", "/api/create", "{}", 400, "'/api/create' is not offered"},
        {"POST", "/api/copy", "{}", 400, "'/api/copy' is not offered"},
        {"DELETE", "/api/delete", "{}", 400, "'/api/delete' is not offered"},
    };
    struct world w;
    world_prepare(&w);
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct lines l = ask(&w, cases[i].method, cases[i].path, cases[i].body);
        EXPECT_EQ(l.status, cases[i].status);
        if (!strstr(l.error, cases[i].text))
            check_fail(__FILE__, __LINE__, "%s: '%s'", cases[i].path, l.error);
        lines_release(&l);
    }
    world_end(&w);
}

TEST(keys_are_asked_for) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.settings.api_key = "sesame";
    EXPECT(world_start(&w));
    struct lines l = ask(&w, "GET", "/api/tags", NULL);
    EXPECT_EQ(l.status, 401);
    EXPECT(strstr(l.error, "API key"));
    lines_release(&l);
    client_request(w.port, "GET", "/api/tags", "Authorization: Bearer sesame\r\n", NULL, &a);
    EXPECT_EQ(a.status, 200);
    answer_release(&a);
    world_end(&w);
}

/* ---- models ---- */

static cJSON *get(struct world *w, const char *method, const char *path, const char *body) {
    struct answer a;
    client_request(w->port, method, path, NULL, body, &a);
    if (a.status != 200)
        check_fail(__FILE__, __LINE__, "%s: %d", path, a.status);
    cJSON *json = cJSON_Parse(buf_text(&a.body));
    answer_release(&a);
    return json;
}

static void check_listed(struct world *w, const char *path) {
    cJSON *json = get(w, "GET", path, NULL);
    const cJSON *models = cJSON_GetObjectItemCaseSensitive(json, "models");
    EXPECT_EQ(cJSON_GetArraySize(models), 1);
    const cJSON *model = models ? models->child : NULL;
    EXPECT_STR(client_string(model, "name"), "fake");
    EXPECT_STR(client_string(model, "model"), "fake");
    EXPECT_STR(client_string(cJSON_GetObjectItemCaseSensitive(model, "details"), "family"),
               "llama");
    cJSON_Delete(json);
}

TEST(models_are_listed_and_shown) {
    struct world w;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    check_listed(&w, "/api/tags");
    check_listed(&w, "/api/ps");
    cJSON *json = get(&w, "GET", "/api/version", NULL);
    EXPECT_STR(client_string(json, "trireme"), TRIREME_VERSION);
    EXPECT(*client_string(json, "version"));
    cJSON_Delete(json);
    json = get(&w, "POST", "/api/show", "{\"model\":\"fake:latest\"}");
    EXPECT_STR(client_string(json, "template"), ECHO_TEMPLATE);
    EXPECT(strstr(client_string(json, "parameters"), "temperature"));
    const cJSON *info = cJSON_GetObjectItemCaseSensitive(json, "model_info");
    EXPECT_STR(client_string(info, "general.architecture"), "llama");
    EXPECT(number(info, "llama.context_length") == (double)w.fake_config.max_context);
    /* its template has calls and reasoning */
    char *can = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(json, "capabilities"));
    EXPECT_STR(can, "[\"completion\",\"tools\",\"thinking\"]");
    cJSON_free(can);
    cJSON_Delete(json);
    world_echo_end(&w);
}

TEST(a_model_is_found_with_and_without_latest) {
    static const char *const NAMES[] = {"fake", "fake:latest"};
    struct world w;
    world_prepare(&w);
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"model\":\"%s\",\"keep_alive\":\"5m\"}", NAMES[i]);
        struct lines chat = ask(&w, "POST", "/api/chat", body),
                     generate = ask(&w, "POST", "/api/generate", body);
        EXPECT_EQ(chat.status, 200);
        EXPECT_STR(chat.reason, "load");
        EXPECT_STR(generate.reason, "load");
        lines_release(&chat);
        lines_release(&generate);
    }
    struct lines other = ask(&w, "POST", "/api/chat", "{\"model\":\"fake:7b\"}");
    EXPECT_EQ(other.status, 404);
    lines_release(&other);
    struct lines bare = ask(&w, "POST", "/api/chat", "{\"model\":\":latest\"}");
    EXPECT_EQ(bare.status, 404);
    lines_release(&bare);
    world_end(&w);
}

/* A long body is read elsewhere, where it is too late for an answer of its own. */
TEST(a_long_request_that_asks_nothing_is_refused) {
    struct world w;
    struct buf body = {0};
    world_prepare(&w);
    EXPECT(world_start(&w));
    buf_add_str(&body, "{\"model\":\"fake\",\"unknown\":\"");
    for (int i = 0; i < 200 * 1024; i++)
        buf_add_byte(&body, 'x');
    buf_add_str(&body, "\"}");
    struct lines l = ask(&w, "POST", "/api/generate", buf_text(&body));
    EXPECT_EQ(l.status, 400);
    EXPECT(strstr(l.error, "no prompt"));
    lines_release(&l);
    buf_release(&body);
    world_end(&w);
}
