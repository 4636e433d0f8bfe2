/* Request fields: types, ranges, bounds, spellings. One row a case. */
#include "base/base.h"
#include "check.h"
#include "gateway/fields/genreq.h"
#include "gateway/prompts/prepare_pool.h"

#define CHAT(fields) "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" fields "}"
#define COMP(fields) "{\"prompt\":\"hi\"" fields "}"

struct refused {
    enum genreq_dialect dialect;
    const char *body, *param;
};

static int parse(struct genreq *g, enum genreq_dialect dialect, const char *body,
                 struct api_error *err) {
    return genreq_parse(g, dialect, bytes_str(body), err);
}

TEST(wrong_types_and_ranges_name_their_field) {
    static const struct refused cases[] = {
        {GENREQ_CHAT, "", ""},
        {GENREQ_CHAT, "[]", ""},
        {GENREQ_CHAT, "\"x\"", ""},
        {GENREQ_CHAT, "{", ""},
        {GENREQ_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\\u0000b\"}]}", "messages"},
        {GENREQ_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "messages"},
        {GENREQ_CHAT, CHAT(",\"n\":1,\"n\":2"), ""},
        {GENREQ_CHAT, "{}", "messages"},
        {GENREQ_CHAT, "{\"messages\":null}", "messages"},
        {GENREQ_CHAT, "{\"messages\":[]}", "messages"},
        {GENREQ_CHAT, "{\"messages\":\"hi\"}", "messages"},
        {GENREQ_CHAT, "{\"messages\":[1]}", "messages"},
        {GENREQ_CHAT, "{\"messages\":[{\"content\":\"hi\"}]}", "messages"},
        {GENREQ_CHAT, "{\"messages\":[{\"role\":7,\"content\":\"hi\"}]}", "messages"},
        {GENREQ_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":5}]}", "messages"},
        {GENREQ_CHAT,
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]"
         "}]}",
         "messages"},
        {GENREQ_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
         "messages"},
        {GENREQ_CHAT,
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":3}]}]}",
         "messages"},
        {GENREQ_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[\"x\"]}]}", "messages"},
        {GENREQ_CHAT,
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"text\":\"x\"}]}]}",
         "messages"},
        {GENREQ_CHAT,
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"refusal\":\"x\",\"type\":\"text\"}]}]}",
         "messages"},
        {GENREQ_CHAT,
         "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"refusal\":3}]}]}",
         "messages"},
        {GENREQ_CHAT,
         "{\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"images\":[\"eA==\"]}]}",
         "messages"},
        {GENREQ_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"images\":5}]}",
         "messages"},
        {GENREQ_CHAT, CHAT(",\"model\":3"), "model"},
        {GENREQ_CHAT, CHAT(",\"temperature\":\"hot\""), "temperature"},
        {GENREQ_CHAT, CHAT(",\"temperature\":-0.1"), "temperature"},
        {GENREQ_CHAT, CHAT(",\"temperature\":100.1"), "temperature"},
        {GENREQ_CHAT, CHAT(",\"temperature\":1e400"), "temperature"},
        {GENREQ_CHAT, CHAT(",\"top_p\":1.5"), "top_p"},
        {GENREQ_CHAT, CHAT(",\"top_k\":-2"), "top_k"},
        {GENREQ_CHAT, CHAT(",\"top_k\":1.5"), "top_k"},
        {GENREQ_CHAT, CHAT(",\"min_p\":-1"), "min_p"},
        {GENREQ_CHAT, CHAT(",\"top_n_sigma\":1001"), "top_n_sigma"},
        {GENREQ_CHAT, CHAT(",\"repetition_penalty\":0"), "repetition_penalty"},
        {GENREQ_CHAT, CHAT(",\"repetition_penalty\":1e-38"), "repetition_penalty"},
        {GENREQ_CHAT, CHAT(",\"repetition_penalty\":0.0099"), "repetition_penalty"},
        {GENREQ_CHAT, CHAT(",\"repetition_penalty\":100.1"), "repetition_penalty"},
        {GENREQ_CHAT, CHAT(",\"presence_penalty\":101"), "presence_penalty"},
        {GENREQ_CHAT, CHAT(",\"frequency_penalty\":-101"), "frequency_penalty"},
        {GENREQ_CHAT, CHAT(",\"seed\":9223372036854775808"), "seed"},
        {GENREQ_CHAT, CHAT(",\"seed\":0.5"), "seed"},
        {GENREQ_CHAT, CHAT(",\"n\":0"), "n"},
        {GENREQ_CHAT, CHAT(",\"n\":129"), "n"},
        {GENREQ_CHAT, CHAT(",\"n\":true"), "n"},
        {GENREQ_CHAT, CHAT(",\"max_tokens\":-2"), "max_tokens"},
        {GENREQ_CHAT, CHAT(",\"max_tokens\":99999999999999999999"), "max_tokens"},
        {GENREQ_CHAT, CHAT(",\"max_completion_tokens\":\"5\""), "max_completion_tokens"},
        {GENREQ_CHAT, CHAT(",\"min_tokens\":-1"), "min_tokens"},
        {GENREQ_CHAT, CHAT(",\"stop\":7"), "stop"},
        {GENREQ_CHAT, CHAT(",\"stop\":[7]"), "stop"},
        {GENREQ_CHAT, CHAT(",\"stop\":\"\""), "stop"},
        {GENREQ_CHAT, CHAT(",\"stop\":[\"a\",\"\"]"), "stop"},
        {GENREQ_CHAT, CHAT(",\"stop_token_ids\":[-1]"), "stop_token_ids"},
        {GENREQ_CHAT, CHAT(",\"stop_token_ids\":5"), "stop_token_ids"},
        {GENREQ_CHAT, CHAT(",\"logit_bias\":{\"\":1}"), "logit_bias"},
        {GENREQ_CHAT, CHAT(",\"logit_bias\":{\"5\":101}"), "logit_bias"},
        {GENREQ_CHAT, CHAT(",\"logit_bias\":[[5]]"), "logit_bias"},
        {GENREQ_CHAT, CHAT(",\"logit_bias\":[[[],1]]"), "logit_bias"},
        {GENREQ_CHAT, CHAT(",\"logit_bias\":[5,1]"), "logit_bias"},
        {GENREQ_CHAT, CHAT(",\"logit_bias\":{\"-5\":1}"), "logit_bias"},
        {GENREQ_CHAT, CHAT(",\"logprobs\":1"), "logprobs"},
        {GENREQ_CHAT, CHAT(",\"logprobs\":true,\"top_logprobs\":21"), "top_logprobs"},
        {GENREQ_CHAT, CHAT(",\"top_logprobs\":2"), "top_logprobs"},
        {GENREQ_CHAT, CHAT(",\"stream\":\"yes\""), "stream"},
        {GENREQ_CHAT, CHAT(",\"stream\":1"), "stream"},
        {GENREQ_CHAT, CHAT(",\"stream_options\":{\"include_usage\":true}"), "stream_options"},
        {GENREQ_CHAT, CHAT(",\"stream\":true,\"stream_options\":{\"include_usage\":1}"),
         "stream_options"},
        {GENREQ_CHAT, CHAT(",\"response_format\":{\"type\":\"json_schema\"}"), "response_format"},
        {GENREQ_CHAT,
         CHAT(",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\"}}"),
         "response_format"},
        {GENREQ_CHAT, CHAT(",\"response_format\":{\"type\":\"xml\"}"), "response_format"},
        {GENREQ_CHAT, CHAT(",\"response_format\":{\"type\":\"json_object\"},\"regex\":\"a\""),
         "regex"},
        {GENREQ_CHAT, CHAT(",\"structured_outputs\":{\"json\":{},\"regex\":\"a\"}"),
         "structured_outputs"},
        {GENREQ_CHAT, CHAT(",\"structured_outputs\":{\"regex\":5}"), "structured_outputs"},
        {GENREQ_CHAT, CHAT(",\"structured_outputs\":{\"json\":{},\"disable_any_whitespace\":true}"),
         "structured_outputs"},
        {GENREQ_CHAT,
         CHAT(",\"structured_outputs\":{\"json\":{},\"disable_additional_properties\":true}"),
         "structured_outputs"},
        {GENREQ_CHAT, CHAT(",\"structured_outputs\":{\"json\":{},\"whitespace_pattern\":\" \"}"),
         "structured_outputs"},
        {GENREQ_CHAT, CHAT(",\"guided_regex\":5"), "guided_regex"},
        {GENREQ_CHAT, CHAT(",\"guided_choice\":[1]"), "guided_choice"},
        {GENREQ_CHAT, CHAT(",\"grammar\":{\"type\":\"peg\",\"value\":\"x\"}"), "grammar"},
        {GENREQ_CHAT, CHAT(",\"format\":\"xml\""), "format"},
        {GENREQ_CHAT, CHAT(",\"response_format\":{}"), "response_format"},
        {GENREQ_CHAT, CHAT(",\"tools\":5"), "tools"},
        {GENREQ_CHAT, CHAT(",\"tools\":[5]"), "tools"},
        {GENREQ_CHAT, CHAT(",\"tool_choice\":\"required\""), "tool_choice"},
        {GENREQ_CHAT, CHAT(",\"tool_choice\":{\"type\":\"allowed_tools\"}"), "tool_choice"},
        {GENREQ_CHAT, CHAT(",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":5}}"),
         "tool_choice"},
        {GENREQ_CHAT, CHAT(",\"guided_json\":\"{\""), "guided_json"},
        {GENREQ_CHAT, CHAT(",\"guided_json\":5"), "guided_json"},
        {GENREQ_CHAT, CHAT(",\"continue_final_message\":true"), "continue_final_message"},
        {GENREQ_COMPLETIONS, "{}", "prompt"},
        {GENREQ_COMPLETIONS, "{\"prompt\":[]}", "prompt"},
        {GENREQ_COMPLETIONS, "{\"prompt\":{}}", "prompt"},
        {GENREQ_COMPLETIONS, "{\"prompt\":[[]]}", "prompt"},
        {GENREQ_COMPLETIONS, "{\"prompt\":[1,\"a\"]}", "prompt"},
        {GENREQ_COMPLETIONS, "{\"prompt\":[\"a\",[1]]}", "prompt"},
        {GENREQ_COMPLETIONS, "{\"prompt\":[1.5]}", "prompt"},
        {GENREQ_COMPLETIONS, "{\"prompt\":[-1]}", "prompt"},
        {GENREQ_COMPLETIONS, "{\"prompt\":[4294967296]}", "prompt"},
        {GENREQ_COMPLETIONS, "{\"prompt\":[[[1]]]}", "prompt"},
        {GENREQ_COMPLETIONS, "{\"prompt\":[\"a\",\"b\"],\"n\":65}", "n"},
        {GENREQ_COMPLETIONS, COMP(",\"logprobs\":true"), "logprobs"},
        {GENREQ_COMPLETIONS, COMP(",\"echo\":1"), "echo"},
        {GENREQ_COMPLETIONS, COMP(",\"max_tokens\":-2,\"echo\":true"), "max_tokens"},
        {GENREQ_CHAT, CHAT(",\"echo\":true"), "echo"},
        {GENREQ_COMPLETIONS, COMP(",\"suffix\":\"x\",\"echo\":true"), "suffix"},
        {GENREQ_CHAT, CHAT(",\"suffix\":\"x\""), "suffix"},
        {GENREQ_COMPLETIONS, "{\"prompt\":[5],\"suffix\":\"x\"}", "suffix"},
        {GENREQ_CHAT, CHAT(",\"logprobs\":true,\"top_logprobs\":-2"), "top_logprobs"},
        {GENREQ_COMPLETIONS, COMP(",\"logprobs\":-2"), "logprobs"},
        {GENREQ_COMPLETIONS, COMP(",\"prompt_logprobs\":-2"), "prompt_logprobs"},
        {GENREQ_COMPLETIONS, COMP(",\"best_of\":2,\"n\":3"), "best_of"},
        {GENREQ_COMPLETIONS, COMP(",\"best_of\":2,\"stream\":true"), "best_of"},
        {GENREQ_COMPLETIONS, COMP(",\"best_of\":129"), "best_of"},
        {GENREQ_COMPLETIONS, "{\"prompt\":[\"a\",\"b\"],\"best_of\":65}", "best_of"},
        {GENREQ_CHAT, CHAT(",\"best_of\":2"), "best_of"},
        {GENREQ_CHAT, CHAT(",\"prompt_logprobs\":1,\"stream\":true"), "prompt_logprobs"},
        {GENREQ_CHAT, CHAT(",\"bad_words\":[\"a\",\"\"]"), "bad_words"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err = {0};
        int rc = parse(&g, cases[i].dialect, cases[i].body, &err);
        genreq_release(&g);
        if (rc == 0)
            check_fail(__FILE__, __LINE__, "taken: %s", cases[i].body);
        EXPECT(rc == -1);
        EXPECT_EQ(err.status, 400);
        EXPECT_STR(err.param, cases[i].param);
        EXPECT(err.text[0] != 0);
    }
}

TEST(chat_fields_are_taken) {
    struct genreq g;
    struct api_error err;
    const char *body = CHAT(","
                            "\"model\":\"m\\u00e9\","
                            "\"temperature\":0.5,"
                            "\"top_p\":0,"
                            "\"top_k\":-1,"
                            "\"min_p\":1,"
                            "\"top_n_sigma\":1.5,"
                            "\"repetition_penalty\":1.1,"
                            "\"presence_penalty\":-2,"
                            "\"frequency_penalty\":2,"
                            "\"seed\":-9223372036854775808,"
                            "\"n\":3e0,"
                            "\"max_tokens\":7,"
                            "\"max_completion_tokens\":9,"
                            "\"stop\":[\"a\\n\","
                            "\"b\"],"
                            "\"stop_token_ids\":[3,4],"
                            "\"ignore_eos\":true,"
                            "\"logprobs\":true,"
                            "\"top_logprobs\":5,"
                            "\"stream\":true,"
                            "\"stream_options\":{\"include_usage\":true,"
                            "\"x\":[1]},"
                            "\"user\":\"u\","
                            "\"logit_bias\":{\"7\":-100,"
                            "\"8\":1.5},"
                            "\"priority\":-3,"
                            "\"unknown\":{\"deep\":[1,2,{}]},"
                            "\"response_format\":{\"type\":\"text\"},"
                            "\"tool_choice\":\"auto\","
                            "\"tools\":[{\"type\":\"function\"}],"
                            "\"echo\":false,"
                            "\"guided_json\":null");
    EXPECT_EQ(parse(&g, GENREQ_CHAT, body, &err), 0);
    EXPECT(bytes_equal(g.model, bytes_str("mé")));
    EXPECT(bytes_equal(g.messages, bytes_str("[{\"role\":\"user\",\"content\":\"hi\"}]")));
    EXPECT(bytes_equal(g.tools, bytes_str("[{\"type\":\"function\"}]")));
    EXPECT(g.temperature == 0.5 && g.top_p == 0 && g.top_k == -1 && g.min_p == 1);
    EXPECT(g.top_n_sigma == 1.5);
    EXPECT(g.presence_penalty == -2 && g.frequency_penalty == 2);
    EXPECT(g.seed == INT64_MIN);
    EXPECT_EQ(g.choice_count, 3);
    EXPECT_EQ(genreq_max_tokens(&g, 1), 9);
    EXPECT_EQ(g.stop_count, 2);
    EXPECT(bytes_equal(g.stops[0], bytes_str("a\n")) && bytes_equal(g.stops[1], bytes_str("b")));
    EXPECT_EQ(g.stop_tokens.count, 2);
    EXPECT_EQ(g.stop_tokens.items[1], 4);
    EXPECT(g.ignore_eos && g.logprobs && g.stream && g.include_usage && !g.continuous_usage);
    EXPECT_EQ(g.top_logprobs, 5);
    EXPECT_EQ(g.bias_ids.count, 2);
    EXPECT(g.bias_ids.items[1] == 8 && g.bias_values.items[1] == 1.5f);
    EXPECT_EQ(g.priority, -3);
    EXPECT(g.given & GENREQ_SEED && g.given & GENREQ_TEMPERATURE);
    genreq_release(&g);
}

TEST(biases_of_ids_and_of_texts) {
    static const char *const BODIES[] = {
        CHAT(",\"logit_bias\":{\"7\":-100,\" the\":1.5,\"8\":false}"),
        CHAT(",\"logit_bias\":[[7,-100],[\" the\",1.5],[8,false]]")};
    struct genreq g;
    struct api_error err;
    for (size_t i = 0; i < ARRAY_LEN(BODIES); i++) {
        EXPECT_EQ(parse(&g, GENREQ_CHAT, BODIES[i], &err), 0);
        EXPECT_EQ(g.bias_ids.count, 2);
        EXPECT(g.bias_ids.items[0] == 7 && g.bias_values.items[0] == -100);
        EXPECT(g.bias_ids.items[1] == 8 && g.bias_values.items[1] == -1e9f);
        EXPECT_EQ(g.bias_text_count, 1);
        EXPECT(bytes_equal(g.bias_texts[0].text, bytes_str(" the")));
        EXPECT(g.bias_texts[0].value == 1.5f);
        genreq_release(&g);
    }
    EXPECT_EQ(parse(&g, GENREQ_CHAT, CHAT(",\"logit_bias\":[]"), &err), 0);
    EXPECT(!g.bias_ids.count && !g.bias_text_count);
    genreq_release(&g);
}

#define TOOL_NAMED(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"
#define ALLOWED(mode, tools)                                                                       \
    CHAT(",\"tools\":[" TOOL_NAMED("a") "," TOOL_NAMED("b") "," TOOL_NAMED(                        \
        "c") "],"                                                                                  \
             "\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"" mode     \
             "\","                                                                                 \
             "\"tools\":[" tools "]}}")

/* Of the tools only those are left, in the order in which they are allowed. */
TEST(tools_that_are_not_allowed_are_gone) {
    static const struct {
        const char *body, *tools, *error;
        bool required;
    } CASES[] = {
        {ALLOWED("auto", TOOL_NAMED("b")), "[" TOOL_NAMED("b") "]", NULL, false},
        {ALLOWED("required", TOOL_NAMED("c") "," TOOL_NAMED("a")),
         "[" TOOL_NAMED("c") "," TOOL_NAMED("a") "]", NULL, true},
        {ALLOWED("auto", "{\"type\":\"function\",\"name\":\"a\"}"), "[" TOOL_NAMED("a") "]", NULL,
         false}, /* as a response has them */
        {ALLOWED("auto", TOOL_NAMED("b") "," TOOL_NAMED("a") "," TOOL_NAMED("b")),
         "[" TOOL_NAMED("b") "," TOOL_NAMED("a") "]", NULL, false}, /* none twice */
        {ALLOWED("auto", TOOL_NAMED("d")), NULL, "the allowed tool \"d\" is not among 'tools'",
         false},
        {ALLOWED("auto", ""), NULL, "'tools' of allowed tools is empty", false},
        {ALLOWED("auto", "{\"type\":\"mcp\",\"server_label\":\"a\"}"), NULL,
         "must be a function with a name", false},
        {ALLOWED("auto", "7"), NULL, "must be a function with a name", false},
        {ALLOWED("any", TOOL_NAMED("a")), NULL, "'mode' of allowed tools must be", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct genreq g;
        struct api_error err;
        int rc = parse(&g, GENREQ_CHAT, CASES[i].body, &err);
        if ((rc == 0) != (CASES[i].error == NULL) || (rc && !strstr(err.text, CASES[i].error)))
            check_fail(__FILE__, __LINE__, "case %zu: %d '%s'", i, rc, rc ? err.text : "");
        if (rc == 0)
            EXPECT(bytes_equal(g.tools, bytes_str(CASES[i].tools)) &&
                   g.tool_choice_required == CASES[i].required);
        genreq_release(&g);
    }
}

/* What an event thread leaves to the pool: long texts, and what takes long though it is short. */
TEST(what_takes_long_is_told_from_what_does_not) {
    static const struct {
        const char *more;
        bool takes_long;
    } ROWS[] = {
        {"", false},
        {",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", false},
        {",\"logit_bias\":{\"7\":1}", false},
        {",\"dry_multiplier\":1", false},
        {",\"dry_multiplier\":1,\"dry_sequence_breakers\":[\"a\"]", true},
        {",\"stop\":\"a\"", false},
        {",\"stop_regex\":\"a+\"", true},
        {",\"chat_template\":\"x\"", true},
        {",\"response_format\":{\"type\":\"json_object\"}", true},
    };
    struct genreq g;
    struct api_error err;
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct buf body = {0};
        buf_addf(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]%s}", ROWS[i].more);
        EXPECT_EQ(parse(&g, GENREQ_CHAT, buf_text(&body), &err), 0);
        if (prepare_takes_long(&g) != ROWS[i].takes_long)
            check_fail(__FILE__, __LINE__, "%s", ROWS[i].more);
        genreq_release(&g);
        buf_release(&body);
    }
    for (int len = PREPARE_LONG_BYTES - 1; len <= PREPARE_LONG_BYTES; len++) {
        struct buf body = {0};
        buf_addf(&body, "{\"prompt\":\"%0*d\"}", len, 7);
        EXPECT_EQ(parse(&g, GENREQ_COMPLETIONS, buf_text(&body), &err), 0);
        EXPECT_EQ(prepare_takes_long(&g), len == PREPARE_LONG_BYTES);
        genreq_release(&g);
        buf_release(&body);
    }
}

/* What a request says once is not copied as often as it is named. */
TEST(tools_that_are_allowed_have_a_bound) {
    for (int count = 256; count <= 257; count++) {
        struct genreq g;
        struct api_error err = {0};
        struct buf body = {0};
        buf_add_str(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[");
        for (int i = 0; i < 300; i++)
            buf_addf(&body, "%s{\"type\":\"function\",\"function\":{\"name\":\"t%d\"}}",
                     i ? "," : "", i);
        buf_add_str(
            &body,
            "],\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\","
            "\"tools\":[");
        for (int i = 0; i < 2 * count; i++) /* each twice */
            buf_addf(&body, "%s{\"type\":\"function\",\"function\":{\"name\":\"t%d\"}}",
                     i ? "," : "", i % count);
        buf_add_str(&body, "]}}}");
        EXPECT_EQ(parse(&g, GENREQ_CHAT, buf_text(&body), &err), count == 256 ? 0 : -1);
        EXPECT(count == 256 ? g.tools.len < body.len / 2
                            : strstr(err.text, "allows more than 256 tools") != NULL);
        genreq_release(&g);
        buf_release(&body);
    }
}

/* vLLM's -1: as many alternatives as there may be. */
TEST(all_alternatives) {
    struct genreq g;
    struct api_error err;
    EXPECT_EQ(parse(&g, GENREQ_CHAT,
                    CHAT(",\"logprobs\":true,\"top_logprobs\":-1,\"prompt_logprobs\":-1"), &err),
              0);
    EXPECT(g.logprobs && g.top_logprobs == 20 && g.prompt_logprobs == 20);
    genreq_release(&g);
    EXPECT_EQ(parse(&g, GENREQ_COMPLETIONS, COMP(",\"logprobs\":-1"), &err), 0);
    EXPECT(g.logprobs && g.top_logprobs == 20 && g.prompt_logprobs == -1);
    genreq_release(&g);
}

TEST(a_suffix_asks_for_what_stands_between) {
    struct genreq g;
    struct api_error err;
    EXPECT_EQ(parse(&g, GENREQ_COMPLETIONS, COMP(",\"suffix\":\"x\""), &err), 0);
    EXPECT(g.infill.wanted && bytes_equal(g.infill.suffix, bytes_str("x")));
    EXPECT(g.infill.prefix.len && !g.prompts[0].text.len && g.prompt_count == 1);
    genreq_release(&g);
    EXPECT_EQ(parse(&g, GENREQ_COMPLETIONS, COMP(",\"suffix\":\"\""), &err), 0);
    EXPECT(!g.infill.wanted && g.prompts[0].text.len);
    genreq_release(&g);
}

TEST(thinking_is_told_to_the_template) {
    static const struct {
        const char *body, *kwargs, *says; /* says NULL: taken */
    } CASES[] = {
        {CHAT(",\"thinking\":null"), "", NULL},
        {CHAT(",\"thinking\":{\"type\":\"enabled\"}"),
         "{\"enable_thinking\":true,\"thinking\":true}", NULL},
        {CHAT(",\"thinking\":{\"type\":\"disabled\"}"),
         "{\"enable_thinking\":false,\"thinking\":false}", NULL},
        {CHAT(",\"thinking\":{}"), "", "enabled or disabled"},
        {CHAT(",\"thinking\":{\"type\":1}"), "", "enabled or disabled"},
        {CHAT(",\"thinking\":{\"type\":\"enabled\",\"budget\":1}"), "", "'type' alone"},
        {CHAT(",\"thinking\":true"), "", "an object"},
        {CHAT(",\"thinking\":{\"type\":\"enabled\"},\"chat_template_kwargs\":{\"a\":1}"), "",
         "cannot both"},
        {CHAT(",\"chat_template_kwargs\":{\"a\":1},\"thinking\":{\"type\":\"enabled\"}"), "",
         "cannot both"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct genreq g;
        struct api_error err = {0};
        int rc = parse(&g, GENREQ_CHAT, CASES[i].body, &err);
        EXPECT_EQ(rc == 0, !CASES[i].says);
        if (rc)
            EXPECT(strstr(err.text, CASES[i].says));
        else
            EXPECT(bytes_equal(g.template_kwargs, bytes_str(CASES[i].kwargs)));
        genreq_release(&g);
    }
}

TEST(null_means_not_given) {
    struct genreq g;
    struct api_error err;
    EXPECT_EQ(parse(&g, GENREQ_CHAT,
                    CHAT(","
                         "\"temperature\":null,"
                         "\"n\":null,"
                         "\"stop\":null,"
                         "\"seed\":null,"
                         "\"stream_options\":null,"
                         "\"tools\":null"),
                    &err),
              0);
    EXPECT_EQ(g.given, 0);
    EXPECT(g.temperature == 1 && g.choice_count == 1 && g.stop_count == 0);
    EXPECT_EQ(genreq_max_tokens(&g, 77), 77);
    genreq_release(&g);
}

TEST(prompts_come_in_four_forms) {
    static const struct {
        const char *body;
        uint32_t prompts, ids; /* ids of the last one; 0: text */
    } cases[] = {
        {"{\"prompt\":\"a\"}", 1, 0},
        {"{\"prompt\":[\"a\",\"b\",\"\"]}", 3, 0},
        {"{\"prompt\":[1,2,3]}", 1, 3},
        {"{\"prompt\":[[1],[2,3]]}", 2, 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err;
        EXPECT_EQ(parse(&g, GENREQ_COMPLETIONS, cases[i].body, &err), 0);
        EXPECT_EQ(g.prompt_count, cases[i].prompts);
        EXPECT_EQ(g.prompts[g.prompt_count - 1].is_ids, cases[i].ids > 0);
        EXPECT_EQ(g.prompts[g.prompt_count - 1].ids.count, cases[i].ids);
        if (cases[i].ids)
            EXPECT_EQ(g.prompts[g.prompt_count - 1].ids.ids[cases[i].ids - 1], 3);
        genreq_release(&g);
    }
}

TEST(counts_are_bounded) {
    struct genreq g;
    struct api_error err;
    struct buf body;
    buf_init(&body, 0);
    buf_add_str(&body, "{\"prompt\":[");
    for (int i = 0; i <= WIRE_MAX_TOKENS; i++)
        buf_add_str(&body, i ? ",7" : "7");
    buf_add_str(&body, "]}");
    EXPECT_EQ(genreq_parse(&g, GENREQ_COMPLETIONS, buf_bytes(&body), &err), -1);
    EXPECT_STR(err.param, "prompt");
    genreq_release(&g);
    buf_reset(&body);
    buf_add_str(&body, "{\"prompt\":\"x\",\"stop\":[");
    for (int i = 0; i <= GENREQ_STOPS_MAX; i++)
        buf_addf(&body, "%s\"s%d\"", i ? "," : "", i);
    buf_add_str(&body, "]}");
    EXPECT_EQ(genreq_parse(&g, GENREQ_COMPLETIONS, buf_bytes(&body), &err), -1);
    EXPECT_STR(err.param, "stop");
    genreq_release(&g);
    buf_reset(&body);
    buf_add_str(&body, "{\"prompt\":\"x\",\"stop\":[");
    for (int i = 0; i < 17; i++)
        buf_addf(&body, "%s\"%0999d\"", i ? "," : "", i);
    buf_add_str(&body, "]}");
    EXPECT_EQ(genreq_parse(&g, GENREQ_COMPLETIONS, buf_bytes(&body), &err), -1);
    EXPECT_STR(err.param, "stop");
    genreq_release(&g);
    buf_release(&body);
}

TEST(errors_have_openais_shape) {
    struct api_error err;
    struct buf out;
    buf_init(&out, 0);
    api_error_set(&err, API_BAD_REQUEST, "top_p", "not \"%s\" \xff", "x\n");
    api_error_write(&err, &out);
    EXPECT_STR(buf_text(&out),
               "{\"error\":{\"message\":\"not \\\"x\\n\\\" "
               "?\",\"type\":\"invalid_request_error\",\"param\":\"top_p\",\"code\":null}}");
    buf_reset(&out);
    api_error_set(&err, API_OVERLOADED, NULL, "busy");
    EXPECT_EQ(err.status, 429);
    EXPECT(err.retry_after_ms > 0);
    api_error_write(&err, &out);
    EXPECT_STR(
        buf_text(&out),
        "{\"error\":{\"message\":\"busy\",\"type\":\"rate_limit_error\",\"param\":null,\"code\":"
        "\"rate_limit_exceeded\"}}");
    buf_release(&out);
}

TEST(long_error_texts_stay_valid_utf8) {
    struct api_error err;
    char text[1200];
    memset(text, 0, sizeof text);
    for (int i = 0; i < 399; i++)
        memcpy(text + 3 * i, "\xe2\x82\xac", 3);
    api_error_set(&err, API_BAD_REQUEST, "p", "x%s", text);
    EXPECT(strlen(err.text) < API_ERROR_TEXT_MAX);
    for (size_t i = 1; err.text[i] && err.text[i] != '?'; i += 3)
        EXPECT((unsigned char)err.text[i] == 0xe2);
}
