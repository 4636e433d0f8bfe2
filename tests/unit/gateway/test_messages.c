/* Anthropic's messages over the socket, against a fake scheduler: what goes in, and the events that
 * come out. */
#include "world.h"

#define ASK(w, path, headers, body, a) client_request((w)->port, "POST", path, headers, body, a)
#define MESSAGES(w, body, a)           ASK(w, "/v1/messages", NULL, body, a)

/* ---- answers in one form, however they came ---- */

/* The last lines of a trace: how it ended and what it cost. */
static void trace_end(const cJSON *stop, const cJSON *usage, struct buf *out) {
    buf_addf(out, "%s ", client_string(stop, "stop_reason"));
    add_json(member(stop, "stop_sequence"), out);
    buf_addf(out, " of %d\n", member(usage, "output_tokens")->valueint);
}

/* A line for each block: its type and what it holds; of an id how long it is. */
static void trace_whole(const struct answer *a, struct buf *out) {
    cJSON *json = cJSON_ParseWithLength(a->body.data, a->body.len);
    const cJSON *block;
    CHECK(json);
    cJSON_ArrayForEach(block, member(json, "content")) {
        const char *type = client_string(block, "type");
        buf_addf(out, "%s %s%s", type, client_string(block, "thinking"),
                 client_string(block, "text"));
        if (strcmp(type, "tool_use") == 0) {
            buf_addf(out, "%s %zu ", client_string(block, "name"),
                     strlen(client_string(block, "id")));
            add_json(member(block, "input"), out);
        }
        buf_add_byte(out, '\n');
    }
    trace_end(json, member(json, "usage"), out);
    cJSON_Delete(json);
}

struct trace {
    int block_count, pings;
    bool open, begun, ended, failed;
    struct buf text;
};

static void trace_block(struct trace *t, const cJSON *event) {
    const cJSON *block = member(event, "content_block");
    EXPECT(!t->open && t->begun && !t->ended);
    EXPECT_EQ(member(event, "index")->valueint, t->block_count);
    t->open = true;
    t->block_count++;
    buf_addf(&t->text, "%s ", client_string(block, "type"));
    if (*client_string(block, "name"))
        buf_addf(&t->text, "%s %zu ", client_string(block, "name"),
                 strlen(client_string(block, "id")));
}

static void trace_delta(struct trace *t, const cJSON *event) {
    const cJSON *delta = member(event, "delta");
    EXPECT(t->open);
    EXPECT_EQ(member(event, "index")->valueint, t->block_count - 1);
    buf_addf(&t->text, "%s%s%s", client_string(delta, "thinking"), client_string(delta, "text"),
             client_string(delta, "partial_json"));
}

static void trace_event(struct trace *t, const char *name, const cJSON *event) {
    EXPECT_STR(client_string(event, "type"), name);
    if (strcmp(name, "message_start") == 0) {
        const cJSON *message = member(event, "message");
        EXPECT(!t->begun && cJSON_GetArraySize(member(message, "content")) == 0);
        EXPECT(strncmp(client_string(message, "id"), "msg_", 4) == 0);
        t->begun = true;
    } else if (strcmp(name, "content_block_start") == 0) {
        trace_block(t, event);
    } else if (strcmp(name, "content_block_delta") == 0) {
        trace_delta(t, event);
    } else if (strcmp(name, "content_block_stop") == 0) {
        EXPECT(t->open);
        EXPECT_EQ(member(event, "index")->valueint, t->block_count - 1);
        buf_add_byte(&t->text, '\n');
        t->open = false;
    } else if (strcmp(name, "message_delta") == 0) {
        EXPECT(!t->open);
        trace_end(member(event, "delta"), member(event, "usage"), &t->text);
    } else if (strcmp(name, "message_stop") == 0) {
        t->ended = true;
    } else if (strcmp(name, "ping") == 0) {
        t->pings++;
    } else if (strcmp(name, "error") == 0) {
        t->failed = true;
        buf_addf(&t->text, "error %s\n", client_string(member(event, "error"), "type"));
    } else {
        check_fail(__FILE__, __LINE__, "unknown event: %s", name);
    }
}

/* Every event has a name, one line of data, and a blank line. */
static void trace_stream(const struct answer *a, struct trace *t) {
    const char *at = buf_text(&a->body);
    char name[32];
    int used;
    *t = (struct trace){0};
    while (*at) {
        used = 0;
        EXPECT(sscanf(at, "event: %31[a-z_]\ndata: %n", name, &used) == 1 && used > 0);
        const char *data = at + used, *end = strstr(data, "\n\n");
        EXPECT(used > 0 && end && !memchr(data, '\n', (size_t)(end - data)));
        if (!used || !end)
            return;
        cJSON *event = cJSON_ParseWithLength(data, (size_t)(end - data));
        EXPECT(event);
        trace_event(t, name, event);
        cJSON_Delete(event);
        at = end + 2;
    }
}

/* Asks twice, whole and streamed: both answers have one trace, which goes to *out. */
static void ask_both(struct world *w, const char *fields, struct buf *out) {
    struct answer whole, streamed;
    struct trace t;
    buf_reset(out);
    world_ask_both(w, "/v1/messages", fields, &whole, &streamed);
    trace_whole(&whole, out);
    trace_stream(&streamed, &t);
    EXPECT(t.begun && t.ended && !t.open && !t.failed);
    EXPECT_STR(buf_text(&t.text), buf_text(out));
    buf_release(&t.text);
    answer_release(&whole);
    answer_release(&streamed);
}

/* ---- answers ---- */

#define USER(text) "\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}],\"seed\":1"
#define TOOLS                                                                                      \
    ",\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}},"                         \
    "{\"name\":\"g\",\"description\":\"d\",\"input_schema\":{}}]"
#define CALLS                                                                                      \
    "<think>I look.</think>Wait.\\n"                                                               \
    "<tool_call>{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{\\\"a\\\":\\\"\\\\\\\"é\\\"}}"         \
    "</tool_call><tool_call>{\\\"name\\\":\\\"g\\\"}</tool_call>"

TEST(thoughts_text_and_calls_are_blocks) {
    struct world w;
    int tokens = 0;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    struct buf trace = {0};
    ask_both(&w, USER(CALLS) ",\"max_tokens\":500" TOOLS, &trace);
    EXPECT(starts(buf_text(&trace), "thinking I look.\ntext Wait.\n"
                                    "tool_use f 9 {\"a\":\"\\\"é\"}\ntool_use g 9 {}\n"
                                    "tool_use null of "));
    EXPECT_EQ(sscanf(strstr(buf_text(&trace), " of "), " of %d\n", &tokens), 1);
    EXPECT(tokens > 20);
    buf_release(&trace);
    /* one call alone; thoughts left out */
    ask_both(&w,
             USER(CALLS) ",\"max_tokens\":500" TOOLS
                         ",\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true},"
                         "\"thinking\":{\"type\":\"adaptive\",\"display\":\"omitted\"}",
             &trace);
    EXPECT(starts(buf_text(&trace), "text Wait.\ntool_use f "));
    EXPECT(!strstr(buf_text(&trace), "tool_use g"));
    buf_release(&trace);
    /* no call is looked for */
    ask_both(&w, USER(CALLS) ",\"max_tokens\":500" TOOLS ",\"tool_choice\":{\"type\":\"none\"}",
             &trace);
    EXPECT(strstr(buf_text(&trace), "text Wait.\n<tool_call>"));
    EXPECT(strstr(buf_text(&trace), "\nend_turn null of "));
    buf_release(&trace);
    world_echo_end(&w);
}

TEST(events_are_as_the_api_has_them) {
    struct world w;
    struct answer a;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    MESSAGES(&w, "{" USER("<think>é</think>x") ",\"max_tokens\":100,\"stream\":true}", &a);
    const char *body = buf_text(&a.body);
    EXPECT(starts(body,
                  "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":"
                  "\"msg_"));
    EXPECT(strstr(body, "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"fake\","
                        "\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,"
                        "\"usage\":{\"input_tokens\":"));
    EXPECT(strstr(body, "\nevent: content_block_start\ndata: {\"type\":\"content_block_start\","
                        "\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\","
                        "\"signature\":\"\"}}\n\n"));
    EXPECT(strstr(body, "\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\","
                        "\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"é\"}}"
                        "\n\n"));
    EXPECT(
        strstr(body, "\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"msg_"));
    EXPECT(strstr(body, "\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\","
                        "\"index\":0}\n\nevent: content_block_start\ndata: "
                        "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":"
                        "{\"type\":\"text\",\"text\":\"\"}}\n\n"));
    EXPECT(strstr(body, "\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n"));
    EXPECT(strstr(body, "\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":"
                        "{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{"));
    EXPECT(strstr(body, "\"output_tokens_details\":{\"thinking_tokens\":"));
    EXPECT(ends(body, "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
    answer_release(&a);
    world_echo_end(&w);
}

TEST(answers_say_why_they_stopped) {
    struct world w;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    struct buf trace = {0};
    ask_both(&w, USER("one two three four") ",\"max_tokens\":2", &trace);
    EXPECT(starts(buf_text(&trace), "text one"));
    EXPECT(strstr(buf_text(&trace), "\nmax_tokens null of 2\n"));
    buf_release(&trace);
    ask_both(&w,
             USER("one two \\\"three\\\" four") ",\"max_tokens\":50,"
                                                "\"stop_sequences\":[\"zero\",\"\\\"t\"]",
             &trace);
    EXPECT(starts(buf_text(&trace), "text one two \nstop_sequence \"\\\"t\" of "));
    buf_release(&trace);
    ask_both(&w, USER("one") ",\"max_tokens\":50", &trace);
    EXPECT(starts(buf_text(&trace), "text one\nend_turn null of "));
    buf_release(&trace);
    world_echo_end(&w);
}

/* ---- what goes in ---- */

/* What a template gets for these fields. */
static void seen_by_template(struct world *w, const char *fields, struct buf *seen) {
    struct answer a;
    struct buf body = {0};
    buf_addf(&body, "{\"max_tokens\":4000,%s}", fields);
    MESSAGES(w, buf_text(&body), &a);
    EXPECT_EQ(a.status, 200);
    cJSON *json = cJSON_ParseWithLength(a.body.data, a.body.len);
    buf_add_str(seen, client_string(member(json, "content")->child, "text"));
    cJSON_Delete(json);
    answer_release(&a);
    buf_release(&body);
}

#define SEES(w, fields, expected)                                                                  \
    do {                                                                                           \
        struct buf seen_ = {0};                                                                    \
        seen_by_template(w, fields, &seen_);                                                       \
        EXPECT_STR(buf_text(&seen_), expected);                                                    \
        buf_release(&seen_);                                                                       \
    } while (0)

TEST(turns_become_messages_of_openais_form) {
    struct world w;
    world_echo(&w, "{% for m in messages %}{{ m.role }}={{ m.content }}"
                   "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}"
                   "{% for t in m.tool_calls %}[{{ t.id }} {{ t.function.name }} "
                   "{{ t.function.arguments | tojson }}]{% endfor %}"
                   "{% if m.tool_call_id %}<{{ m.tool_call_id }}{{ m.is_error }}>{% endif %};"
                   "{% endfor %}"
                   "{% for t in tools %}{{ t | tojson }}{% endfor %}{{ enable_thinking }}"
                   "{{ reasoning_effort }}{% if add_generation_prompt %}!{% endif %}");
    EXPECT(world_start(&w));
    SEES(&w, "\"system\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":\"a\\u00e9\\n\"}]",
         "system=s;user=aé\n;!");
    SEES(&w,
         "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
         "{\"text\":\"b\",\"type\":\"text\",\"cache_control\":{\"type\":\"ephemeral\"}}]},"
         "{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"system\",\"content\":\"d\"}],"
         "\"system\":[{\"type\":\"text\",\"text\":\"s\"},{\"type\":\"text\",\"text\":\"t\"}]",
         "system=s\nt;user=a\nb\nc;system=d;!");
    SEES(
        &w,
        "\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":["
        "{\"type\":\"thinking\",\"thinking\":\"h\\\"\",\"signature\":\"x\"},"
        "{\"type\":\"redacted_thinking\",\"data\":\"x\"},{\"type\":\"text\",\"text\":\"w\"},"
        "{\"type\":\"tool_use\",\"id\":\"i1\",\"name\":\"f\",\"input\":{\"a\":[1]}},"
        "{\"type\":\"tool_use\",\"id\":\"i2\",\"name\":\"g\",\"input\":{}}]},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"i1\","
        "\"content\":\"r\"},{\"type\":\"tool_result\",\"tool_use_id\":\"i2\",\"is_error\":true,"
        "\"content\":[{\"type\":\"text\",\"text\":\"bad\"}]},{\"type\":\"text\",\"text\":\"n\"}]}]",
        "user=q;assistant=w(h\")[i1 f {\"a\": [1]}][i2 g {}];tool=r<i1>;tool=bad<i2True>;"
        "user=n;!");
    SEES(&w,
         "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"p\"},"
         "{\"type\":\"tool_result\",\"tool_use_id\":\"i\"},{\"type\":\"text\",\"text\":\"n\"}]}]",
         "user=p;tool=<i>;user=n;!");
    SEES(&w,
         USER("q") ",\"tools\":[{\"type\":\"custom\",\"name\":\"f\",\"description\":\"d\","
                   "\"input_schema\":{\"type\":\"object\"},\"cache_control\":null}],"
                   "\"thinking\":{\"type\":\"disabled\"},\"output_config\":{\"effort\":\"low\"},"
                   "\"metadata\":{\"user_id\":\"u\"},\"context_management\":{\"edits\":["
                   "{\"type\":\"clear_thinking_20251015\",\"keep\":\"all\"}]}",
         "user=q;{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\", "
         "\"parameters\": {\"type\": \"object\"}}}Falselow!");
    SEES(&w, USER("q") ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}",
         "user=q;True!");
    world_echo_end(&w);
}

TEST(a_last_turn_of_the_assistant_is_gone_on_with) {
    struct world w;
    world_echo(&w, "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}"
                   "{% if add_generation_prompt %}!{% endif %}");
    EXPECT(world_start(&w));
    SEES(&w,
         "\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
         "{\"role\":\"assistant\",\"content\":\"The answer\"}]",
         "user=q;assistant=The answer");
    SEES(&w,
         "\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
         "{\"role\":\"assistant\",\"content\":[]}]",
         "user=q;!");
    world_echo_end(&w);
}

/* ---- refusals ---- */

static const char *error_type(const cJSON *json) {
    return client_string(member(json, "error"), "type");
}

/* The answer is an error of this status and type whose text has `says`. */
static void expect_error(const struct answer *a, int status, const char *type, const char *says) {
    char header[192];
    cJSON *json = cJSON_ParseWithLength(a->body.data, a->body.len);
    const char *text = client_string(member(json, "error"), "message");
    EXPECT_EQ(a->status, status);
    EXPECT_STR(client_string(json, "type"), "error");
    EXPECT_STR(error_type(json), type);
    if (!strstr(text, says))
        check_fail(__FILE__, __LINE__, "'%s' does not say '%s'", text, says);
    snprintf(header, sizeof header, "\r\nrequest-id: %s\r\n", client_string(json, "request_id"));
    EXPECT(strstr(buf_text(&a->raw), header));
    cJSON_Delete(json);
}

#define TURN(blocks)                                                                               \
    "{\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":[" blocks "]}]}"
#define CALL "{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"f\",\"input\":{}}"

TEST(what_does_not_fit_is_refused_by_name) {
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"", "no body"},
        {"{", "malformed JSON"},
        {"[]", "must be a JSON object"},
        {"{\"max_tokens\":9}", "'messages' is missing"},
        {"{\"max_tokens\":9,\"messages\":[]}", "'messages' is empty"},
        {"{\"max_tokens\":9,\"messages\":\"x\"}", "'messages' must be an array"},
        {"{\"max_tokens\":9,\"messages\":[7]}", "messages[0] must be an object"},
        {"{" USER("x") "}", "'max_tokens' is missing"},
        {"{" USER("x") ",\"max_tokens\":0}", "'max_tokens' must be between"},
        {"{" USER("x") ",\"max_tokens\":9,\"temperature\":3}", "'temperature'"},
        {"{" USER("x") ",\"max_tokens\":9,\"system\":7}", "'system' must be"},
        {"{" USER("x") ",\"max_tokens\":9,\"system\":[7]}", "'system' must be"},
        {"{" USER("x") ",\"max_tokens\":9,\"system\":[{\"type\":\"image\"}]}", "'system' must be"},
        {"{" USER("x") ",\"max_tokens\":9,\"stop_sequences\":[\"\"]}", "'stop_sequences' holds"},
        {"{" USER("x") ",\"max_tokens\":9,\"stop\":\"a\"}", "'stop' is not offered"},
        {"{" USER("x") ",\"max_tokens\":9,\"n\":2}", "'n' is not offered"},
        {"{" USER("x") ",\"max_tokens\":9,\"return_token_ids\":true}", "'return_token_ids'"},
        {"{" USER("x") ",\"max_tokens\":9,\"mcp_servers\":[{}]}", "'mcp_servers' is not offered"},
        {"{" USER("x") ",\"max_tokens\":9,\"context_management\":{\"edits\":[{}]}}",
         "'context_management' is not offered"},
        {"{" USER("x") ",\"max_tokens\":9,\"best_of\":2}", "'best_of' is not offered"},
        {"{" USER("x") ",\"max_tokens\":9,\"thinking\":true}", "'thinking' must be an object"},
        {"{" USER("x") ",\"max_tokens\":9,\"thinking\":{\"type\":\"deep\"}}", "'thinking.type'"},
        {"{" USER("x") ",\"max_tokens\":9,\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":9}}",
         "'thinking' must be between 1024"},
        {"{" USER("x") ",\"max_tokens\":1024,"
                       "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}}",
         "greater than 'thinking.budget_tokens'"},
        {"{" USER("x") ",\"max_tokens\":9,\"thinking\":{\"type\":\"disabled\"},"
                       "\"chat_template_kwargs\":{\"a\":1}}",
         "cannot both be given"},
        {"{" USER("x") ",\"max_tokens\":9,\"output_config\":{\"effort\":\"huge\"}}",
         "'output_config.effort' must be"},
        {"{" USER("x") ",\"max_tokens\":9,\"output_config\":{\"task_budget\":{\"total\":9}}}",
         "'output_config.task_budget' is not offered"},
        {"{" USER("x") ",\"max_tokens\":9,\"output_config\":{\"format\":{\"type\":\"xml\"}}}",
         "'output_config.format.type'"},
        {"{" USER("x") ",\"max_tokens\":9,\"tool_choice\":{\"type\":\"any\"}}", "needs 'tools'"},
        {"{" USER("x") ",\"max_tokens\":9,\"tool_choice\":\"any\"}", "'tool_choice' must be"},
        {"{" USER("x") ",\"max_tokens\":9,\"tool_choice\":{\"type\":\"tool\"}}", "needs a 'name'"},
        {"{" USER("x") ",\"max_tokens\":9,\"tool_choice\":{\"type\":\"all\"}}",
         "'tool_choice.type' must be"},
        {"{" USER("x") ",\"max_tokens\":9,\"tools\":[7]}", "tools[0] must be an object"},
        {"{" USER("x") ",\"max_tokens\":9,\"tools\":[{\"name\":\"f\"}]}", "'input_schema'"},
        {"{" USER("x") ",\"max_tokens\":9,\"tools\":[{\"type\":\"bash_20250124\","
                       "\"name\":\"bash\"}]}",
         "tools of type \"bash_20250124\""},
        {"{\"max_tokens\":9,\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}",
         "messages[0].role must be"},
        {"{\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":7}]}",
         "messages[0].content must be"},
        {"{\"max_tokens\":9,\"messages\":[{\"role\":\"user\"}]}", "messages[0].content must be"},
        {TURN(""), "messages[0].content is empty"},
        {TURN("7"), "messages[0].content[0] must be an object"},
        {TURN("{\"text\":\"x\"}"), "messages[0].content[0] needs a 'type'"},
        {TURN("{\"type\":\"text\"}"), "messages[0].content[0] needs a 'text'"},
        {TURN("{\"type\":\"text\",\"text\":\"x\"},{\"type\":\"image\",\"source\":{}}"),
         "messages[0].content[1]: blocks of type 'image' are not offered"},
        {TURN(CALL), "blocks of type 'tool_use'"},
        {TURN("{\"type\":\"tool_result\"}"), "needs a 'tool_use_id'"},
        {TURN("{\"type\":\"tool_result\",\"tool_use_id\":\"i\",\"content\":7}"),
         "messages[0].content[0].content must be"},
        {TURN("{\"type\":\"tool_result\",\"tool_use_id\":\"i\",\"content\":[7]}"),
         "holds something that is not a block"},
        {TURN("{\"type\":\"tool_result\",\"tool_use_id\":\"i\",\"content\":["
              "{\"type\":\"image\"}]}"),
         "blocks of type 'image'"},
        {"{\"max_tokens\":9,\"messages\":[{\"role\":\"assistant\",\"content\":["
         "{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"f\"}]}]}",
         "needs 'id', 'name' and an object 'input'"},
        {"{\"max_tokens\":9,\"messages\":[{\"role\":\"assistant\",\"content\":[" CALL "]}]}",
         "without its 'tool_result'"},
    };
    struct world w;
    struct answer a;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        MESSAGES(&w, cases[i].body, &a);
        expect_error(&a, 400, "invalid_request_error", cases[i].says);
        answer_release(&a);
    }
    world_echo_end(&w);
}

TEST(errors_have_the_types_of_this_api) {
    struct world w;
    struct answer a;
    struct trace t;
    world_prepare(&w);
    w.settings.api_key = "secret";
    w.settings.request_timeout_ms = 300;
    EXPECT(world_start(&w));
    MESSAGES(&w, "{" USER("x") ",\"max_tokens\":9}", &a);
    expect_error(&a, 401, "authentication_error", "API key");
    answer_release(&a);
    static const char KEY[] = "x-api-key: secret\r\nanthropic-version: 2023-06-01\r\n";
    ASK(&w, "/v1/messages", KEY, "{" USER("x") ",\"max_tokens\":9,\"model\":\"nobody\"}", &a);
    expect_error(&a, 404, "not_found_error", "'nobody' does not exist");
    answer_release(&a);
    client_request(w.port, "GET", "/v1/messages", KEY, NULL, &a);
    expect_error(&a, 405, "invalid_request_error", "takes POST");
    answer_release(&a);
    ASK(&w, "/v1/messages/count_tokens", KEY, "{}", &a);
    expect_error(&a, 400, "invalid_request_error", "'messages' is missing");
    answer_release(&a);
    ASK(&w, "/v1/messages", KEY, "{" USER("x") ",\"max_tokens\":90000,\"ignore_eos\":true}", &a);
    expect_error(&a, 504, "timeout_error", "longer than this server allows");
    answer_release(&a);
    ASK(&w, "/v1/messages", KEY,
        "{" USER("x") ",\"max_tokens\":90000,\"ignore_eos\":true,\"stream\":true}", &a);
    EXPECT_EQ(a.status, 200);
    trace_stream(&a, &t);
    EXPECT(t.begun && t.failed && !t.ended);
    EXPECT(strstr(buf_text(&t.text), "\nerror timeout_error\n") ||
           strstr(buf_text(&t.text), "error timeout_error\n"));
    buf_release(&t.text);
    answer_release(&a);
    world_end(&w);
}

TEST(silence_is_filled_with_pings) {
    struct world w;
    struct answer a;
    struct trace t;
    world_prepare(&w);
    w.settings.ping_ms = 150;
    EXPECT(world_start(&w));
    fake_set_stepping(w.fake, false);
    int fd = client_open(w.port, "POST", "/v1/messages", NULL,
                         "{" USER("x") ",\"max_tokens\":5,\"ignore_eos\":true,\"stream\":true}");
    sleep_ms(1500);
    fake_set_stepping(w.fake, true);
    answer_init(&a);
    client_finish(fd, &a);
    trace_stream(&a, &t);
    EXPECT(t.pings >= 2 && t.begun && t.ended);
    EXPECT(strstr(buf_text(&a.body), "event: ping\ndata: {\"type\":\"ping\"}\n\n"));
    buf_release(&t.text);
    answer_release(&a);
    world_end(&w);
}

/* ---- counting ---- */

TEST(tokens_are_counted_as_an_answer_uses_them) {
    struct world w;
    struct answer counted, a;
    world_echo(&w, "{{ tools }}" ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    ASK(&w, "/v1/messages/count_tokens", NULL, "{" USER("how many tokens are these?") TOOLS "}",
        &counted);
    EXPECT_EQ(counted.status, 200);
    MESSAGES(&w, "{" USER("how many tokens are these?") TOOLS ",\"max_tokens\":1}", &a);
    EXPECT_EQ(a.status, 200);
    cJSON *count = cJSON_ParseWithLength(counted.body.data, counted.body.len),
          *answer = cJSON_ParseWithLength(a.body.data, a.body.len);
    const cJSON *usage = member(answer, "usage");
    int input = member(count, "input_tokens")->valueint;
    EXPECT(input > 10);
    EXPECT_EQ(member(usage, "input_tokens")->valueint +
                  member(usage, "cache_read_input_tokens")->valueint,
              input);
    EXPECT_EQ(member(usage, "cache_creation_input_tokens")->valueint, 0);
    EXPECT_EQ(cJSON_GetArraySize(count), 1);
    cJSON_Delete(count);
    cJSON_Delete(answer);
    answer_release(&counted);
    answer_release(&a);
    world_echo_end(&w);
}

/* A body that is read aside, and its prompt prepared there. */
TEST(a_long_conversation_is_read_aside) {
    struct world w;
    struct answer a;
    struct buf body = {0}, trace = {0};
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    buf_add_str(&body, "{\"max_tokens\":4,\"stop_sequences\":[\"b\"],\"messages\":["
                       "{\"role\":\"user\",\"content\":\"");
    for (int i = 0; i < 20000; i++)
        buf_add_str(&body, "long ago ");
    buf_add_str(&body, "\"},{\"role\":\"assistant\",\"content\":\"yes\"},"
                       "{\"role\":\"user\",\"content\":\"a b\"}]}");
    MESSAGES(&w, buf_text(&body), &a);
    EXPECT_EQ(a.status, 200);
    trace_whole(&a, &trace);
    EXPECT(starts(buf_text(&trace), "text a \nstop_sequence \"b\" of "));
    buf_release(&trace);
    buf_release(&body);
    answer_release(&a);
    world_echo_end(&w);
}
