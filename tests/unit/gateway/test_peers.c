/* Fields of other servers: each that would change the text is refused by its name, each value that
 * changes nothing is taken, and each other name of a field of ours does what it says. */
#include <stdio.h>

#include "base/base.h"
#include "check.h"
#include "gateway/dialects/embed.h"
#include "gateway/dialects/labels.h"
#include "gateway/fields/field.h"

/* refused and taken: values, one space between; taken besides null. */
struct peer_field {
    const char *name, *refused, *taken;
};

#define ANY   "true 0 1.5 \"x\" [1] {\"a\":[]}"
#define USUAL "false 0 \"\" [] {}"

static const struct peer_field FIELDS[] = {
    /* samplers */
    {"typical_p", "-0.1 1.1 true \"1\"", "0 0.9 1 1.0"},
    {"tfs_z", "0.5 0", "1"},
    {"top_p_min", "0.1", "0"},
    {"min_keep", "2", "0 1"},
    {"dynatemp_range", "2.1 -1", "0 0.0 2"},
    {"dynatemp_exponent", "-1 101", "0 1 1.5 100"},
    {"xtc_probability", "1.1 true", "0 0.5 1 -1"},
    {"xtc_threshold", "-0.1 1.1", "0 0.1 1"},
    {"dry_multiplier", "-1 101 true", "0 0.0 0.8 100"},
    {"dry_base", "0.9 101", "1 1.75 100"},
    {"dry_allowed_length", "0 1.5", "1 2"},
    {"dry_penalty_last_n", "-2 1.5", "-1 0 64"},
    {"dry_sequence_breakers", "[] [\"\"] [1] \"x\"", "[\"x\",\"yz\"]"},
    {"mirostat", "-1 3 true 0.5", "0 1 2"},
    {"mirostat_tau", "-1 101", "0 5"},
    {"mirostat_eta", "-1 1.1", "0 0.1 1"},
    {"adaptive_target", "1.1 true", "-1 0 0.5 1"},
    {"adaptive_decay", "-0.1 1", "0 0.9 0.99"},
    {"samplers", "[\"top_k\",\"top_k\"] \"kpk\" [\"infill\"] \"z\" [1] 1",
     "[] [\"top_k\",\"typ_p\"] \"edskypmxt\" [\"adaptive_p\"]"},
    {"do_sample", "0 \"x\"", "true false"},
    {"repetition_ngram_size", "3", "0"},
    {"prompt_ignore_length", "5", "0"},
    {"repetition_detection", "{\"max_pattern_size\":4}", "{}"},
    {"use_beam_search", "true", "false"},
    {"best_of", "-1 true", "0 1"}, /* a completion has it: test_fields */
    {"bad_words", "[\"\"] [1] \"x\"", "[] [\"x\",\"yz\"]"},
    {"allowed_token_ids", "[-1] [\"x\"] 1", "[] [1,2]"},
    {"logits_processors", "[\"x\"]", "[]"},
    {"custom_logit_processor", "\"x\"", "\"\""},
    {"custom_params", "{\"a\":1}", "{}"},
    {"vllm_xargs", "{\"a\":1}", "{}"},
    {"watermark", "true", "false"},
    {"watermarking", "{\"a\":1} true", "false {}"},
    {"repetition_ngram_threshold", "", ANY},
    {"length_penalty", "", ANY},
    {"early_stopping", "", ANY},
    /* constraints */
    {"guided_whitespace_pattern", "\"\" \"x\"", ""},
    {"grammar_lazy", "true", "false"},
    {"preserved_tokens", "[\"x\"]", "[]"},
    {"guided_decoding_backend", "", ANY},
    {"grammar_triggers", "", ANY},
    /* what is put in, what is left out */
    {"echo", "", "false"}, /* a completion has it: test_fields */
    {"return_full_text", "true", "false"},
    {"suffix", "5", "\"\""}, /* a completion has it: below */
    {"prompt_embeds", "\"x\"", "\"\""},
    {"input_ids", "[1]", "[]"},
    {"input_embeds", "[1]", "[]"},
    {"image_data", "\"x\"", "[]"},
    {"images", "[\"x\"]", "[]"},
    {"multimodal_data", "[\"x\"]", "[]"},
    {"audio", "{\"voice\":\"x\"}", "{}"},
    {"modalities", "[\"text\",\"audio\"] [\"audio\"]", "[\"text\"]"},
    {"truncate_prompt_tokens", "0 -2 true", "-1 1 5"},
    {"truncate", "0 5", ""},
    {"truncate_sequence", "true", "false"},
    {"truncation_side", "\"x\" 1", "\"left\" \"right\""},
    {"n_indent", "4", "0"},
    {"session_params", "{\"id\":1}", "{}"},
    {"context", "[1]", "[]"},
    {"system", "\"x\"", "\"\""},
    {"template", "\"x\"", "\"\""},
    {"raw", "true", "false"},
    {"options", "{\"num_predict\":1}", "{}"},
    {"do_preprocess", "false", "true"},
    {"detokenize", "false", "true"},
    {"stop_regex", "1 [\"\"] [1]", "\"\" [] \"x\" [\"x\"]"},
    {"no_stop_trim", "1 \"x\"", "true false"},
    {"t_max_predict_ms", "true 1.5", "-1 0 100"},
    {"prompt_logprobs", "-2 21 true", "-1 0 1 20"},
    /* reasoning, style, other sources */
    {"think", "true false \"low\"", ""},
    {"enable_thinking", "1 \"on\"", ""}, /* a chat has them: below */
    {"reasoning", "5", "{}"},
    {"thinking_token_budget", "-2 1.5", "-1"}, /* a chat has them: below */
    {"thinking_budget_tokens", "-2 true", "-1"},
    {"reasoning_budget", "-2 \"1\"", "-1"},
    {"reasoning_budget_tokens", "-2 \"1\"", "-1"},
    {"reasoning_budget_message", "\"x\" 1", "\"\""},
    {"reasoning_budget_start_tag", "\"<a>\"", "\"\""},
    {"reasoning_budget_end_tag", "\"<a>\"", "\"\""},
    {"reasoning_budget_end_tags", "[\"<a>\"]", "[]"},
    {"parse_tool_calls", "false 0", "true"},
    {"chat_parser", "\"x\" 1", "\"\""},
    {"generation_prompt", "\"x\" 1", "\"\""},
    {"backend_sampling", "", ANY},
    {"reasoning_control", "true", "false"},
    {"stream_reasoning", "false 0", "true"},
    {"verbosity", "\"loud\" 5", "\"medium\""}, /* a chat has it: below */
    {"nvext", "5 []", "{} {\"annotations\":[\"a\"]}"},
    {"web_search_options", "{} {\"a\":1}", ""},
    {"functions", "[7] 1", "[]"}, /* chats take them */
    {"function_call", "7 \"x\"", "\"none\" \"auto\""},
    /* other weights, other engines */
    {"lora", "[{\"id\":0}]", "[]"},
    {"lora_path", "\"x\"", "\"\""},
    {"lora_request", "{\"a\":1}", "{}"},
    {"adapter", "\"x\"", "\"\""},
    {"adapter_id", "\"x\"", "\"\""},
    {"kv_transfer_params", "{\"a\":1}", "{}"},
    {"ec_transfer_params", "{\"a\":1}", "{}"},
    {"disaggregated_params", "{\"a\":1}", "{}"},
    {"ngram_corpus_id", "0 \"x\"", ""},
    /* members of the answer that it would not have */
    {"logprob_token_ids", "[1]", "[]"},
    {"return_token_offsets", "true", "false"},
    {"return_prompt_text", "true", "false"},
    {"return_hidden_states", "true", "false"},
    {"return_routed_experts", "true", "false"},
    {"return_prompt_token_ids", "true", "false"},
    {"return_cached_tokens_details", "true 1", "false"},
    {"return_meta_info", "true", "false"},
    {"return_context_logits", "true", "false"},
    {"return_logprob", "true", "false"},
    {"n_probs", "3", "0"},
    {"top_n_tokens", "3", "0"},
    {"decoder_input_details", "true", "false"},
    {"details", "true", "false"},
    {"post_sampling_probs", "true", "false"},
    {"response_fields", "[\"content\"]", "[]"},
    /* no text changes */
    {"store", "", ANY},
    {"prediction", "", ANY},
    {"metadata", "", ANY},
    {"service_tier", "1 {}", "\"auto\" \"flex\""},
    {"safety_identifier", "", ANY},
    {"prompt_cache_key", "", ANY},
    {"prompt_cache_retention", "", ANY},
    {"prompt_cache_options", "", ANY},
    {"spaces_between_special_tokens", "", ANY},
    {"request_id", "1 \"\" \"a,b\"", "\"my-7\""},
    {"rid", "1 []", "\"my-7\""},
    {"session_id", "", ANY},
    {"conversation_params", "", ANY},
    {"return_tokens_as_token_ids", "1 \"x\"", "true false"},
    {"return_mm_kwargs", "", ANY},
    {"return_tokens", "", ANY},
    {"return_progress", "1 \"x\"", "true false"},
    {"routed_experts_prompt_start", "", ANY},
    {"media_io_kwargs", "", ANY},
    {"mm_processor_kwargs", "", ANY},
    {"images_config", "", ANY},
    {"custom_labels", "", ANY},
    {"stream_interval", "", ANY},
    {"bootstrap_host", "", ANY},
    {"bootstrap_port", "", ANY},
    {"bootstrap_room", "", ANY},
    {"routed_dp_rank", "", ANY},
    {"disagg_prefill_dp_rank", "", ANY},
    {"n_keep", "", ANY},
    {"n_discard", "", ANY},
    {"id_slot", "", ANY},
    {"cache_prompt", "", ANY},
    {"n_cache_reuse", "", ANY},
    {"timings_per_token", "1 \"x\"", "true false"},
    {"sse_ping_interval", "", ANY},
    {"keep_alive", "", ANY},
    /* other names of ours */
    {"n_predict", "-3 true 1.5", "-2 -1 0 1"},
    {"num_predict", "-3", "-2 -1 0 1"},
    {"max_new_tokens", "-1", "0 1"},
    {"min_new_tokens", "-1 1.5", "0 1"},
    {"n_cmpl", "0 129", "1 2"},
    {"repeat_penalty", "0 -1 true", "1 1.1"},
    {"repeat_last_n", "-2 1.5", "-1 0 64"},
    {"extra_key", "1", "\"x\""},
    {"reasoning_format", "\"deepseek-legacy\" 1", "\"none\" \"auto\""},
};

/* The body with one field; g and *err as genreq_parse leaves them. */
static int parse_with(enum genreq_dialect dialect, const char *fields, struct genreq *g,
                      struct api_error *err) {
    struct buf body;
    buf_init(&body, 0);
    const char *asked = "\"prompt\":\"hi\"";
    if (dialect == GENREQ_CHAT || dialect == GENREQ_OLLAMA_CHAT || dialect == GENREQ_MESSAGES)
        asked = "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]";
    else if (dialect == GENREQ_RESPONSES)
        asked = "\"input\":\"hi\"";
    else if (dialect == GENREQ_GENERATE)
        asked = "\"text\":\"hi\"";
    buf_addf(&body, "{%s,%s}", asked, fields);
    int rc = genreq_parse(g, dialect, buf_bytes(&body), err);
    genreq_release(g);
    buf_release(&body);
    return rc;
}

static void try_values(const char *name, const char *values, bool taken) {
    while (*values) {
        size_t len = strcspn(values, " ");
        char field[256];
        snprintf(field, sizeof field, "\"%s\":%.*s", name, (int)len, values);
        for (int dialect = GENREQ_CHAT; dialect <= GENREQ_COMPLETIONS; dialect++) {
            struct genreq g;
            struct api_error err = {0};
            int rc = parse_with((enum genreq_dialect)dialect, field, &g, &err);
            if ((rc == 0) != taken)
                check_fail(__FILE__, __LINE__, "%s: %s", taken ? "refused" : "taken", field);
            if (rc) {
                EXPECT_EQ(err.status, 400);
                EXPECT_STR(err.param, name);
                EXPECT(strstr(err.text, name));
            }
        }
        values += len + (values[len] == ' ');
    }
}

TEST(fields_of_other_servers_are_refused_by_name_or_change_nothing) {
    for (size_t i = 0; i < ARRAY_LEN(FIELDS); i++) {
        try_values(FIELDS[i].name, FIELDS[i].refused, false);
        try_values(FIELDS[i].name, FIELDS[i].taken, true);
        try_values(FIELDS[i].name, "null", true);
    }
}

TEST(each_row_has_a_case) {
    EXPECT_EQ(field_peers.row_count, ARRAY_LEN(FIELDS));
    for (size_t i = 0; i < field_peers.row_count; i++) {
        bool found = false;
        for (size_t k = 0; k < ARRAY_LEN(FIELDS); k++)
            found |= strcmp(field_peers.rows[i].name, FIELDS[k].name) == 0;
        if (!found)
            check_fail(__FILE__, __LINE__, "no case for '%s'", field_peers.rows[i].name);
    }
}

TEST(a_refusal_says_which_values_change_nothing) {
    static const char *const CASES[][2] = {
        {"\"best_of\":2", "give a value that changes nothing: 0 or 1"},
        {"\"modalities\":[\"audio\"]", "give a value that changes nothing: [\"text\"]"},
        {"\"tfs_z\":0.5", "give a value that changes nothing: 1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct genreq g;
        struct api_error err = {0};
        EXPECT_EQ(parse_with(GENREQ_CHAT, CASES[i][0], &g, &err), -1);
        const char *said = strstr(err.text, "give a value");
        EXPECT_STR(said ? said : err.text, CASES[i][1]);
    }
}

TEST(white_space_in_a_value_changes_nothing) {
    struct genreq g;
    struct api_error err;
    EXPECT_EQ(parse_with(GENREQ_CHAT, "\"modalities\": [ \"text\" ], \"lora\" : [ ]", &g, &err), 0);
}

TEST(other_names_do_what_they_say) {
    struct genreq g;
    struct api_error err;
    EXPECT_EQ(parse_with(GENREQ_CHAT,
                         "\"n_predict\":7,\"min_new_tokens\":2,\"n_cmpl\":3,\"repeat_penalty\":1.5,"
                         "\"reasoning_format\":\"none\"",
                         &g, &err),
              0);
    EXPECT_EQ(genreq_max_tokens(&g, 99), 7);
    EXPECT_EQ(g.min_tokens, 2);
    EXPECT_EQ(g.choice_count, 3);
    EXPECT(g.repetition_penalty == 1.5 && g.given & GENREQ_REPETITION);
    EXPECT(!g.separate_reasoning);
    EXPECT_EQ(parse_with(GENREQ_COMPLETIONS, "\"n_predict\":-1", &g, &err), 0);
    EXPECT_EQ(genreq_max_tokens(&g, 16), WIRE_MAX_TOKENS);
}

TEST(minus_one_asks_for_as_many_tokens_as_fit) {
    static const char *const FIELDS_OF_IT[] = {
        "\"max_tokens\":-1", "\"max_tokens\":-1,\"n_predict\":-1", "\"max_completion_tokens\":-1"};
    for (size_t i = 0; i < ARRAY_LEN(FIELDS_OF_IT); i++) {
        struct genreq g;
        struct api_error err = {0};
        EXPECT_EQ(parse_with(GENREQ_CHAT, FIELDS_OF_IT[i], &g, &err), 0);
        EXPECT_EQ(genreq_max_tokens(&g, 16), WIRE_MAX_TOKENS);
    }
}

/* NVIDIA Dynamo's own object holds fields of ours, and none that is passed over. */
TEST(an_object_of_further_fields_is_read) {
    struct genreq g;
    struct api_error err = {0};
    EXPECT_EQ(parse_with(GENREQ_COMPLETIONS,
                         "\"nvext\":{\"ignore_eos\":true,\"top_k\":3,\"repetition_penalty\":1.5,"
                         "\"greed_sampling\":true,\"annotations\":[\"a\"],\"guided_regex\":\"a\"}",
                         &g, &err),
              0);
    EXPECT(g.ignore_eos && g.top_k == 3 && g.repetition_penalty == 1.5 && g.greedy);
    EXPECT_EQ(g.constraint.kind, CONSTRAINT_REGEX);
    static const char *const REFUSED[] = {"use_raw_prompt", "stream", "model", "tfs_z"};
    for (size_t i = 0; i < ARRAY_LEN(REFUSED); i++) {
        char fields[64];
        snprintf(fields, sizeof fields, "\"nvext\":{\"%s\":true}", REFUSED[i]);
        EXPECT_EQ(parse_with(GENREQ_CHAT, fields, &g, &err), -1);
        EXPECT_STR(err.param, REFUSED[i]);
    }
}

TEST(who_does_not_sample_takes_the_likeliest) {
    struct genreq g;
    struct api_error err = {0};
    EXPECT_EQ(parse_with(GENREQ_CHAT, "\"do_sample\":false,\"temperature\":1", &g, &err), 0);
    EXPECT(g.greedy);
    EXPECT_EQ(parse_with(GENREQ_CHAT, "\"do_sample\":true", &g, &err), 0);
    EXPECT(!g.greedy);
}

static void expect_kwargs(const char *fields, const char *kwargs) {
    char body[512];
    struct genreq g;
    struct api_error err = {0};
    snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],%s}",
             fields);
    EXPECT_EQ(genreq_parse(&g, GENREQ_CHAT, bytes_str(body), &err), 0);
    EXPECT(bytes_equal(g.template_kwargs, bytes_str(kwargs)));
    genreq_release(&g);
}

TEST(the_template_is_told_how_much_to_say) {
    expect_kwargs("\"verbosity\":\"low\"", "{\"verbosity\":\"low\"}");
    expect_kwargs("\"verbosity\":\"high\",\"chat_template_kwargs\":{}", "{\"verbosity\":\"high\"}");
    expect_kwargs("\"verbosity\":\"low\",\"chat_template_kwargs\":{ \"a\":1}",
                  "{\"verbosity\":\"low\", \"a\":1}");
    expect_kwargs("\"verbosity\":\"low\",\"enable_thinking\":true",
                  "{\"verbosity\":\"low\",\"enable_thinking\":true,\"thinking\":true}");
}

/* What peers call thinking; the templates' own word for it is chat_template_kwargs. */
TEST(a_chat_is_told_to_think_by_other_names) {
    static const struct {
        const char *fields;
        enum genreq_thinking thinking;
        const char *effort, *param;
        bool shows;
    } CASES[] = {
        {"\"enable_thinking\":true", THINKING_ON, "", "", true},
        {"\"enable_thinking\":false", THINKING_OFF, "", "", true},
        {"\"reasoning\":{\"effort\":\"low\"}", THINKING_AS_TEMPLATE, "low", "", true},
        {"\"reasoning\":{\"enabled\":false,\"effort\":null}", THINKING_OFF, "", "", true},
        {"\"reasoning\":{\"enabled\":true,\"exclude\":true}", THINKING_ON, "", "", false},
        {"\"reasoning\":{\"enable\":true}", THINKING_ON, "", "", true},
        {"\"reasoning\":{\"effort\":\"high\",\"summary\":\"auto\"},\"reasoning_effort\":\"high\"",
         THINKING_AS_TEMPLATE, "high", "", true},
        {"\"enable_thinking\":true,\"thinking\":{\"type\":\"enabled\"}", THINKING_ON, "", "", true},
        {"\"enable_thinking\":true,\"thinking\":{\"type\":\"disabled\"}", 0, NULL, "thinking", 0},
        {"\"reasoning\":{\"enabled\":true},\"enable_thinking\":false", 0, NULL, "enable_thinking",
         0},
        {"\"reasoning_effort\":\"low\",\"reasoning\":{\"effort\":\"high\"}", 0, NULL,
         "reasoning.effort", 0},
        {"\"reasoning\":{\"effort\":\"much\"}", 0, NULL, "reasoning.effort", 0},
        {"\"reasoning\":{\"enabled\":1}", 0, NULL, "reasoning.enabled", 0},
        {"\"enable_thinking\":true,\"chat_template_kwargs\":{\"a\":1}", 0, NULL, "enable_thinking",
         0},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct genreq g;
        struct api_error err = {0};
        int rc = parse_with(GENREQ_CHAT, CASES[i].fields, &g, &err);
        EXPECT_EQ(rc, *CASES[i].param ? -1 : 0);
        EXPECT_STR(err.param, CASES[i].param);
        if (rc == 0) {
            EXPECT_EQ(g.thinking, CASES[i].thinking);
            EXPECT_EQ(g.template_kwargs.len > 0, g.thinking != THINKING_AS_TEMPLATE);
            EXPECT_EQ(g.reasoning_effort.len, strlen(CASES[i].effort));
            EXPECT_EQ(g.include_reasoning, CASES[i].shows);
        }
    }
}

/* OpenAI's older form is today's; what it cannot be told apart from is refused. */
TEST(functions_are_tools) {
    struct genreq g;
    struct api_error err = {0};
    EXPECT_EQ(genreq_parse(&g, GENREQ_CHAT,
                           bytes_str("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"
                                     "{\"role\":\"assistant\",\"content\":null,\"function_call\":"
                                     "{\"name\":\"f\",\"arguments\":\"{}\"}},"
                                     "{\"role\":\"function\",\"name\":\"f\",\"content\":\"7\"},"
                                     "{\"role\":\"assistant\",\"content\":\"x\","
                                     "\"function_call\":null}],"
                                     "\"functions\":[{\"name\":\"f\",\"parameters\":{}}],"
                                     "\"function_call\":{\"name\":\"f\"}}"),
                           &err),
              0);
    EXPECT(bytes_equal(g.tools, bytes_str("[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                                          "\"parameters\":{}}}]")));
    EXPECT(bytes_equal(
        g.messages,
        bytes_str(
            "[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":null,"
            "\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\",\"function\":"
            "{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
            "{\"role\":\"tool\",\"tool_call_id\":\"call00001\",\"name\":\"f\",\"content\":\"7\"},"
            "{\"role\":\"assistant\",\"content\":\"x\"}]")));
    EXPECT(bytes_equal(g.tool_choice_name, bytes_str("f")));
    EXPECT(g.bare_calls && !g.parallel_tool_calls);
    genreq_release(&g);
    static const struct {
        const char *fields, *param, *text;
    } CASES[] = {
        {"\"functions\":{}", "functions", "an array"},
        {"\"functions\":[7]", "functions", "functions[0] must be an object"},
        {"\"functions\":[{\"description\":\"\"}]", "functions", "needs a 'name'"},
        {"\"functions\":[{\"name\":\"f\"}],\"tools\":[{\"type\":\"function\"}]", "functions",
         "both"},
        {"\"functions\":[{\"name\":\"f\"}],\"tool_choice\":\"required\"", "function_call",
         "is of 'tools'"},
        {"\"function_call\":{\"name\":\"f\"}", "function_call", "needs 'functions'"},
        {"\"function_call\":\"required\"", "function_call", "must be \"none\""},
        {"\"function_call\":{}", "function_call.name", "a string"},
        {"\"tools\":[{\"type\":\"web_search\"}]", "tools", "type \"web_search\" are not offered"},
        {"\"tools\":[{\"type\":\"function\"},{\"type\":\"custom\"}]", "tools", "tools[1]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        EXPECT_EQ(parse_with(GENREQ_CHAT, CASES[i].fields, &g, &err), -1);
        if (strcmp(err.param, CASES[i].param) != 0 || !strstr(err.text, CASES[i].text))
            check_fail(__FILE__, __LINE__, "%s: '%s' '%s'", CASES[i].fields, err.param, err.text);
    }
    EXPECT_EQ(parse_with(GENREQ_CHAT, "\"functions\":[],\"function_call\":\"auto\"", &g, &err), 0);
    EXPECT_EQ(parse_with(GENREQ_CHAT, "\"tools\":[{\"name\":\"f\"}]", &g, &err), 0);
}

TEST(a_chat_may_bound_what_is_thought) {
    static const struct {
        const char *fields;
        int64_t budget;
        const char *field; /* NULL: none; refused where `disagrees` */
        bool disagrees;
    } CASES[] = {
        {"\"seed\":1", -1, NULL, false},
        {"\"thinking_token_budget\":0", 0, "thinking_token_budget", false},
        {"\"thinking_budget_tokens\":100", 100, "thinking_budget_tokens", false},
        {"\"reasoning_budget\":7", 7, "reasoning_budget", false},
        {"\"reasoning\":{\"max_tokens\":100}", 100, "reasoning.max_tokens", false},
        {"\"reasoning_budget_tokens\":7", 7, "reasoning_budget_tokens", false},
        {"\"reasoning_budget\":7,\"thinking_token_budget\":7", 7, "thinking_token_budget", false},
        {"\"reasoning_budget\":7,\"thinking_token_budget\":8", 0, "thinking_token_budget", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct genreq g;
        struct api_error err = {0};
        int rc = parse_with(GENREQ_CHAT, CASES[i].fields, &g, &err);
        EXPECT_EQ(rc, CASES[i].disagrees ? -1 : 0);
        if (rc) {
            EXPECT_STR(err.param, CASES[i].field);
            continue;
        }
        EXPECT_EQ(g.thinking_budget, CASES[i].budget);
        EXPECT_EQ(g.thinking_budget_field != NULL, CASES[i].field != NULL);
        if (CASES[i].field)
            EXPECT_STR(g.thinking_budget_field, CASES[i].field);
        EXPECT_EQ(parse_with(GENREQ_COMPLETIONS, CASES[i].fields, &g, &err),
                  CASES[i].field ? -1 : 0);
    }
}

/* Clients that ask for thinking have to send one, so it is refused nowhere: no field is named. */
TEST(messages_bound_what_is_thought_where_it_is_asked_for) {
    static const struct {
        const char *thinking;
        int64_t budget;
    } CASES[] = {
        {"{\"type\":\"enabled\",\"budget_tokens\":1024}", 1024},
        {"{\"type\":\"disabled\",\"budget_tokens\":1024}", -1},
        {"{\"type\":\"adaptive\"}", -1},
        {"{\"type\":\"enabled\"}", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct genreq g;
        struct api_error err = {0};
        char fields[128];
        snprintf(fields, sizeof fields, "\"max_tokens\":2000,\"thinking\":%s", CASES[i].thinking);
        EXPECT_EQ(parse_with(GENREQ_MESSAGES, fields, &g, &err), 0);
        EXPECT_EQ(g.thinking_budget, CASES[i].budget);
        EXPECT(!g.thinking_budget_field);
    }
}

/* TensorRT-LLM's forms of response_format, and those of TGI, Fireworks and Together. */
TEST(response_formats_of_other_servers) {
    static const struct {
        const char *format;
        enum constraint_kind kind;
    } CASES[] = {
        {"{\"type\":\"regex\",\"regex\":\"a+\"}", CONSTRAINT_REGEX},
        {"{\"type\":\"regex\",\"pattern\":\"a+\"}", CONSTRAINT_REGEX},
        {"{\"type\":\"regex\",\"value\":\"a+\"}", CONSTRAINT_REGEX},
        {"{\"type\":\"regex\"}", CONSTRAINT_NONE},
        {"{\"type\":\"ebnf\",\"ebnf\":\"root ::= \\\"a\\\"\"}", CONSTRAINT_GRAMMAR},
        {"{\"type\":\"grammar\",\"grammar\":\"root ::= \\\"a\\\"\"}", CONSTRAINT_GRAMMAR},
        {"{\"type\":\"grammar\",\"regex\":\"a\"}", CONSTRAINT_NONE},
        {"{\"type\":\"json\",\"schema\":{\"type\":\"array\"}}", CONSTRAINT_SCHEMA},
        {"{\"type\":\"json_object\",\"value\":{\"type\":\"array\"}}", CONSTRAINT_SCHEMA},
        {"{\"type\":\"json_schema\"}", CONSTRAINT_NONE},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct genreq g;
        struct api_error err = {0};
        struct buf body = {0};
        buf_addf(&body, "{\"prompt\":\"hi\",\"response_format\":%s}", CASES[i].format);
        int rc = genreq_parse(&g, GENREQ_COMPLETIONS, buf_bytes(&body), &err);
        EXPECT_EQ(rc, CASES[i].kind ? 0 : -1);
        EXPECT_EQ(g.constraint.kind, CASES[i].kind);
        if (CASES[i].kind == CONSTRAINT_SCHEMA)
            EXPECT(memmem(g.constraint.text.data, g.constraint.text.len, "array", 5) != NULL);
        genreq_release(&g);
        buf_release(&body);
    }
}

TEST(two_names_of_a_field_must_agree) {
    static const struct {
        const char *fields, *param;
    } cases[] = {
        {"\"max_tokens\":5,\"n_predict\":5", NULL},
        {"\"n_predict\":5,\"max_tokens\":5,\"max_new_tokens\":5", NULL},
        {"\"max_tokens\":5,\"n_predict\":6", "n_predict"},
        {"\"n_predict\":6,\"max_tokens\":5", "max_tokens"},
        {"\"repeat_penalty\":1.5,\"repetition_penalty\":1.5", NULL},
        {"\"repeat_penalty\":1.5,\"repetition_penalty\":1", "repetition_penalty"},
        {"\"cache_salt\":\"a\",\"extra_key\":\"a\"", NULL},
        {"\"cache_salt\":\"a\",\"extra_key\":\"b\"", "extra_key"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct genreq g;
        struct api_error err = {0};
        int rc = parse_with(GENREQ_CHAT, cases[i].fields, &g, &err);
        EXPECT_EQ(rc, cases[i].param ? -1 : 0);
        EXPECT_STR(err.param, cases[i].param ? cases[i].param : "");
    }
}

/* Fails for each field of a set that another set has no row for, but for what is passed over anyway and
 * the names in silent[]. Returns how many fields were sought. */
static size_t look_for_silence(const struct field_set *const *sets, size_t set_count,
                               const char *const *silent, size_t silent_count) {
    size_t sought = 0;
    for (size_t s = 0; s < set_count; s++)
        for (size_t t = 0; t < sets[s]->table_count; t++)
            for (size_t i = 0; i < sets[s]->tables[t]->row_count; i++) {
                const struct field *f = &sets[s]->tables[t]->rows[i];
                bool may = f->kind == FIELD_PASSED;
                for (size_t k = 0; k < silent_count; k++)
                    may |= strcmp(f->name, silent[k]) == 0;
                for (size_t k = 0; k < set_count && !may; k++, sought++)
                    if (!field_find(sets[k], bytes_str(f->name)))
                        check_fail(__FILE__, __LINE__, "set %zu passes over '%s' of set %zu", k,
                                   f->name, s);
            }
    return sought;
}

/* What changes an answer on one path is never passed over on another: it has a row there, which reads or refuses it. The others
 * here change no answer: they are of nobody's concern, or nothing without what is refused. */
TEST(no_path_is_silent_about_a_field_of_another) {
    static const struct field_set *const SETS[] = {
        &fields_chat,       &fields_completions, &fields_messages,
        &fields_responses,  &fields_ollama_chat, &fields_ollama_generate,
        &fields_completion, &fields_infill,      &fields_generate,
    };
    static const char *const SILENT[] = {
        "user",            /* nobody's concern */
        "stream_options",  /* what a stream tells of its end */
        "access_programs", /* of what is refused: */
        "background_options",
        "return_text_in_logprobs",
        "parallel_tool_calls", /* of calls, on paths without */
        "include_reasoning",   /* of reasoning, on paths that do not part it from the text */
        "separate_reasoning",
        "add_generation_prompt", /* of a template, on paths without */
        "continue_final_message",
    };
    size_t seen = look_for_silence(SETS, ARRAY_LEN(SETS), SILENT, ARRAY_LEN(SILENT));
    EXPECT(seen > 5000);
}

/* The same of what makes vectors of texts, or compares them. */
TEST(no_path_of_texts_is_silent_about_a_field_of_another) {
    static const struct field_set *const SETS[] = {
        &fields_embeddings, &fields_llama_embedding,   &fields_ollama_embed,
        &fields_pooling,    &fields_ollama_embeddings, &fields_cohere_embed,
        &fields_encode,     &fields_classify,          &fields_rerank,
        &fields_score,      &fields_label_scores,      &fields_generative_scoring,
    };
    static const char *const SILENT[] = {
        /* what is asked: where it is missing, that is an error */
        "input",
        "content",
        "prompt",
        "text",
        "texts",
        "input_ids",
        "inputs",
        "data",
        "query",
        "documents",
        "text_1",
        "text_2",
        "data_1",
        "data_2",
        "queries",
        "items",
        "label_token_ids",
        /* nobody's concern */
        "user",
        "priority",
        "cache_salt",
        "options",
        "sampling_params",
        "rid",
        "request_id",
        "max_tokens",
        /* what is said of an answer that is not there */
        "apply_softmax",
        "item_first",
        "raw_scores",
        "activation",
        "is_cross_encoder_request",
        "embed_dtype",
        "endianness",
        "video_data",
        "audio_data",
        "input_embeds",
        "mm_processor_kwargs",
    };
    EXPECT(look_for_silence(SETS, ARRAY_LEN(SETS), SILENT, ARRAY_LEN(SILENT)) > 0);
}

TEST(a_field_of_another_path_is_refused_with_its_name_here) {
    static const struct {
        enum genreq_dialect dialect;
        const char *fields, *param, *says; /* says NULL: taken */
    } CASES[] = {
        {GENREQ_COMPLETIONS, "\"max_completion_tokens\":5", "max_completion_tokens",
         "use max_tokens"},
        {GENREQ_COMPLETIONS, "\"max_completion_tokens\":null", "", NULL},
        {GENREQ_COMPLETION, "\"max_completion_tokens\":5,\"n_predict\":5", "", NULL},
        {GENREQ_COMPLETION, "\"logprobs\":5,\"n_probs\":5", "", NULL},
        {GENREQ_COMPLETION, "\"logprobs\":5,\"n_probs\":4", "n_probs", "different values"},
        {GENREQ_CHAT, "\"task\":\"query\"", "task", "is not offered by this server"},
        {GENREQ_COMPLETIONS, "\"top_logprobs\":0", "", NULL},
        {GENREQ_COMPLETIONS, "\"top_logprobs\":2", "top_logprobs", "use logprobs"},
        {GENREQ_COMPLETIONS, "\"reasoning_effort\":\"high\"", "reasoning_effort",
         "is not offered by this server"},
        {GENREQ_CHAT, "\"max_output_tokens\":5", "max_output_tokens", "use max_tokens"},
        {GENREQ_CHAT, "\"stop_sequences\":[\"x\"]", "stop_sequences", "use stop"},
        {GENREQ_CHAT, "\"sampling_params\":{\"temperature\":0}", "sampling_params",
         "the fields in it"},
        {GENREQ_CHAT, "\"thinking\":{\"type\":\"disabled\"}", "", NULL},
        {GENREQ_COMPLETIONS, "\"thinking\":{\"type\":\"disabled\"}", "thinking", "enable_thinking"},
        {GENREQ_CHAT, "\"truncation\":\"disabled\"", "", NULL},
        {GENREQ_CHAT, "\"background\":true", "background", "is not offered by this server"},
        {GENREQ_OLLAMA_CHAT, "\"seed\":1", "seed", "use options"},
        {GENREQ_OLLAMA_CHAT, "\"options\":{\"temperature\":0}", "", NULL},
        {GENREQ_OLLAMA_CHAT, "\"max_completion_tokens\":5", "max_completion_tokens",
         "use options.num_predict"},
        {GENREQ_OLLAMA_CHAT, "\"options\":{\"max_tokens\":5}", "max_tokens", "use num_predict"},
        {GENREQ_OLLAMA_CHAT, "\"options\":{\"format\":\"json\"}", "format", "beside options"},
        {GENREQ_OLLAMA_CHAT, "\"options\":{\"n\":1,\"num_gqa\":1}", "", NULL},
        {GENREQ_OLLAMA_GENERATE, "\"continue_final_message\":true", "continue_final_message",
         "offered"},
        {GENREQ_OLLAMA_GENERATE, "\"width\":512", "width", "is not offered by this server"},
        {GENREQ_RESPONSES, "\"previous_input_messages\":[{}]", "previous_input_messages",
         "use input"},
        {GENREQ_MESSAGES, "\"max_tokens_to_sample\":5", "max_tokens_to_sample", "use max_tokens"},
        {GENREQ_GENERATE, "\"audio_data\":[\"x\"]", "audio_data", "is not offered"},
        {GENREQ_GENERATE, "\"return_entropy\":true", "return_entropy", "is not offered"},
        {GENREQ_COMPLETIONS, "\"num_beams\":4", "num_beams", "is not offered"},
        {GENREQ_COMPLETIONS, "\"num_beams\":1,\"guidance_scale\":1", "", NULL},
        {GENREQ_COMPLETIONS, "\"max_length\":5", "max_length", "use max_tokens"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct genreq g;
        struct api_error err = {0};
        int rc = parse_with(CASES[i].dialect, CASES[i].fields, &g, &err);
        if ((rc == 0) != !CASES[i].says)
            check_fail(__FILE__, __LINE__, "case %zu: %d", i, rc);
        EXPECT_STR(rc ? err.param : "", CASES[i].param);
        if (rc && !strstr(err.text, CASES[i].says))
            check_fail(__FILE__, __LINE__, "case %zu: %s", i, err.text);
    }
}
