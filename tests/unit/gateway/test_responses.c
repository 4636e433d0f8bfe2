/* OpenAI's responses over the socket, against a fake scheduler: what goes in, the events that come
 * out, and what is kept. */
#include "world.h"

#define ASK(w, path, headers, body, a) client_request((w)->port, "POST", path, headers, body, a)
#define RESPONSES(w, body, a)          ASK(w, "/v1/responses", NULL, body, a)

/* ---- answers in one form, however they came ---- */

/* A line for each item of a response, then how it ended and what it cost. */
static void trace_object(const cJSON *response, struct buf *out) {
    const cJSON *item, *part, *usage = member(response, "usage");
    EXPECT(starts(client_string(response, "id"), "resp_"));
    EXPECT_STR(client_string(response, "object"), "response");
    cJSON_ArrayForEach(item, member(response, "output")) {
        buf_addf(out, "%s %s", client_string(item, "type"), client_string(item, "status"));
        cJSON_ArrayForEach(part, member(item, "summary"))
            buf_addf(out, " (%s)", client_string(part, "text"));
        cJSON_ArrayForEach(part, member(item, "content"))
            buf_addf(out, " %s=%s", client_string(part, "type"), client_string(part, "text"));
        if (*client_string(item, "name"))
            buf_addf(out, " %s %zu %s", client_string(item, "name"),
                     strlen(client_string(item, "call_id")), client_string(item, "arguments"));
        buf_add_byte(out, '\n');
    }
    buf_addf(out, "%s ", client_string(response, "status"));
    add_json(member(response, "incomplete_details"), out);
    buf_addf(out, " of %d\n", member(usage, "output_tokens")->valueint);
    EXPECT_EQ(member(usage, "input_tokens")->valueint + member(usage, "output_tokens")->valueint,
              member(usage, "total_tokens")->valueint);
}

static void trace_whole(const struct answer *a, struct buf *out) {
    cJSON *json = cJSON_ParseWithLength(a->body.data, a->body.len);
    CHECK(json);
    trace_object(json, out);
    cJSON_Delete(json);
}

struct trace {
    int next, pings; /* next: the number that the next event must have */
    int item_count;
    bool open, ended, failed;
    struct buf delta; /* of the open item */
    struct buf text;  /* of the last event's response */
};

static bool is(const char *name, const char *what) {
    return strcmp(name, what) == 0;
}

static void trace_event(struct trace *t, const char *name, const cJSON *event) {
    EXPECT_STR(client_string(event, "type"), name);
    EXPECT_EQ(member(event, "sequence_number")->valueint, t->next);
    t->next++;
    const cJSON *index = member(event, "output_index");
    if (index)
        EXPECT_EQ(index->valueint, t->item_count - !is(name, "response.output_item.added"));
    if (is(name, "response.output_item.added")) {
        EXPECT(!t->open);
        EXPECT_STR(client_string(member(event, "item"), "status"), "in_progress");
        t->open = true;
        t->item_count++;
        buf_reset(&t->delta);
    } else if (ends(name, ".delta")) {
        EXPECT(t->open);
        buf_add_str(&t->delta, client_string(event, "delta"));
    } else if (is(name, "response.function_call_arguments.done")) {
        EXPECT_STR(client_string(event, "arguments"), buf_text(&t->delta));
    } else if (ends(name, "_text.done")) {
        EXPECT_STR(client_string(event, "text"), buf_text(&t->delta));
    } else if (is(name, "response.output_item.done")) {
        EXPECT(t->open);
        t->open = false;
    } else if (is(name, "response.completed") || is(name, "response.incomplete") ||
               is(name, "response.failed")) {
        EXPECT(!t->open && !t->ended);
        t->ended = true;
        t->failed = is(name, "response.failed");
        if (!t->failed)
            trace_object(member(event, "response"), &t->text);
    } else {
        EXPECT(is(name, "response.created") || is(name, "response.in_progress") ||
               ends(name, "_part.added") || ends(name, "_part.done"));
    }
}

/* Every event has a name, one line of data, and a blank line. */
static void trace_stream(const struct answer *a, struct trace *t) {
    const char *at = buf_text(&a->body);
    char name[64];
    while (*at) {
        int used = 0;
        if (starts(at, ": ping\n\n")) {
            t->pings++;
            at += 8;
            continue;
        }
        EXPECT(sscanf(at, "event: %63[a-z_.]\ndata: %n", name, &used) == 1 && used > 0);
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

static void trace_release(struct trace *t) {
    buf_release(&t->delta);
    buf_release(&t->text);
}

/* Asks twice, whole and streamed: both answers have one trace, which goes to *out. */
static void ask_both(struct world *w, const char *fields, struct buf *out) {
    struct answer whole, streamed;
    struct trace t = {0};
    buf_reset(out);
    world_ask_both(w, "/v1/responses", fields, &whole, &streamed);
    trace_whole(&whole, out);
    trace_stream(&streamed, &t);
    EXPECT(t.ended && !t.failed);
    EXPECT_STR(buf_text(&t.text), buf_text(out));
    trace_release(&t);
    answer_release(&whole);
    answer_release(&streamed);
}

/* ---- answers ---- */

#define SAY(text) "\"input\":\"" text "\",\"seed\":1"
#define TOOLS                                                                                      \
    ",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"type\":\"object\"}},"     \
    "{\"type\":\"function\",\"name\":\"g\",\"description\":\"d\",\"strict\":null}]"
#define CALLS                                                                                      \
    "<think>I look.</think>Wait.\\n"                                                               \
    "<tool_call>{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{\\\"a\\\":\\\"\\\\\\\"é\\\"}}"         \
    "</tool_call><tool_call>{\\\"name\\\":\\\"g\\\"}</tool_call>"

TEST(thoughts_texts_and_calls_are_items) {
    struct world w;
    struct buf trace = {0};
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    ask_both(&w, SAY(CALLS) TOOLS, &trace);
    EXPECT(starts(buf_text(&trace), "reasoning completed reasoning_text=I look.\n"
                                    "message completed output_text=Wait.\n"
                                    "function_call completed f 9 {\"a\":\"\\\"é\"}\n"
                                    "function_call completed g 9 {}\ncompleted null of "));
    /* thoughts as a summary; one call alone */
    ask_both(&w,
             SAY(CALLS) TOOLS ",\"parallel_tool_calls\":false,"
                              "\"reasoning\":{\"summary\":\"auto\"}",
             &trace);
    EXPECT(starts(buf_text(&trace), "reasoning completed (I look.)\nmessage completed"));
    EXPECT(!strstr(buf_text(&trace), " g "));
    /* no call is looked for */
    ask_both(&w, SAY(CALLS) TOOLS ",\"tool_choice\":\"none\"", &trace);
    EXPECT(strstr(buf_text(&trace), "output_text=Wait.\n<tool_call>"));
    ask_both(&w, SAY("one two three four") ",\"max_output_tokens\":2", &trace);
    EXPECT(starts(buf_text(&trace), "message incomplete output_text=one"));
    EXPECT(strstr(buf_text(&trace), "\nincomplete {\"reason\":\"max_output_tokens\"} of 2\n"));
    buf_release(&trace);
    world_echo_end(&w);
}

TEST(events_are_as_the_api_has_them) {
    static const char *const EVENTS[] = {
        "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,"
        "\"response\":{\"id\":\"resp_",
        "\",\"object\":\"response\",\"created_at\":",
        ",\"model\":\"fake\",\"status\":\"in_progress\",\"completed_at\":null,\"error\":null,"
        "\"incomplete_details\":null,\"output\":[],\"usage\":null,\"background\":false,"
        "\"instructions\":\"Be \\\"brief\\\".\",",
        "\"metadata\":{\"a\":\"b\"},",
        "\n\nevent: response.in_progress\ndata: {\"type\":\"response.in_progress\","
        "\"sequence_number\":1,\"response\":{",
        "\n\nevent: response.output_item.added\ndata: {\"type\":\"response.output_item.added\","
        "\"sequence_number\":2,\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"id\":\"rs_",
        ",\"summary\":[],\"content\":[],\"encrypted_content\":null,\"status\":\"in_progress\"}}",
        "\n\nevent: response.content_part.added\ndata: {\"type\":\"response.content_part.added\","
        "\"sequence_number\":3,\"item_id\":\"rs_",
        "\"output_index\":0,\"content_index\":0,\"part\":{\"type\":\"reasoning_text\","
        "\"text\":\"\"}}",
        "\n\nevent: response.reasoning_text.delta\ndata: {",
        "\n\nevent: response.output_item.added\n",
        "\"output_index\":1,\"item\":{\"type\":\"message\",\"id\":\"msg_",
        "\"status\":\"in_progress\",\"role\":\"assistant\",\"content\":[]}}",
        "\"content_index\":0,\"part\":{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[],"
        "\"logprobs\":[]}}",
        "\n\nevent: response.output_text.delta\n",
        "\"content_index\":0,\"logprobs\":[],\"delta\":\"x\"}",
        "\n\nevent: response.output_text.done\n",
        "\"logprobs\":[],\"text\":\"x\"}",
        "\n\nevent: response.content_part.done\n",
        "\n\nevent: response.output_item.done\n",
        "\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",",
        "\"status\":\"completed\",\"completed_at\":1",
    };
    struct world w;
    struct answer a;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    RESPONSES(&w,
              "{" SAY("<think>é</think>x") ",\"stream\":true,\"metadata\":{\"a\":\"b\"},"
                                           "\"instructions\":\"Be \\\"brief\\\".\"}",
              &a);
    const char *at = buf_text(&a.body);
    for (size_t i = 0; i < ARRAY_LEN(EVENTS); i++) {
        const char *found = strstr(at, EVENTS[i]);
        if (!found)
            check_fail(__FILE__, __LINE__, "no '%s' in '%s'", EVENTS[i], at);
        at = found ? found : at;
    }
    EXPECT(ends(at, "}}\n\n"));
    answer_release(&a);
    world_echo_end(&w);
}

/* What is told back stands in events, which are lines. */
TEST(white_space_of_a_request_breaks_no_event) {
    struct world w;
    struct answer a;
    struct trace t = {0};
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    RESPONSES(&w,
              "{" SAY("x") ",\"stream\":true,\"background\":true,\"metadata\":{\n\n\"a\\\\\" :\r\n"
                           "\"b \\\" c\"\n\n},\n\n\"tools\":[\n\n{\"type\": \"function\",\n\n"
                           "\"name\":\"f\"}]}",
              &a);
    trace_stream(&a, &t);
    EXPECT(t.ended && !t.failed);
    EXPECT(strstr(buf_text(&a.body), "\"metadata\":{\"a\\\\\":\"b \\\" c\"},"));
    EXPECT(strstr(buf_text(&a.body), "\"tools\":[{\"type\":\"function\",\"name\":\"f\"}],"));
    trace_release(&t);
    answer_release(&a);
    world_echo_end(&w);
}

TEST(log_probabilities_are_of_the_text) {
    struct world w;
    struct answer a;
    world_prepare(&w);
    w.fake_config.with_logprobs = true;
    EXPECT(world_start(&w));
    RESPONSES(&w,
              "{" SAY("x") ",\"max_output_tokens\":4,\"top_logprobs\":2,"
                           "\"include\":[\"message.output_text.logprobs\"]}",
              &a);
    cJSON *json = cJSON_ParseWithLength(a.body.data, a.body.len);
    const cJSON *item = member(json, "output")->child, *part = member(item, "content")->child,
                *entry = member(part, "logprobs")->child;
    EXPECT_EQ(cJSON_GetArraySize(member(part, "logprobs")), 4);
    EXPECT_EQ(cJSON_GetArraySize(member(entry, "top_logprobs")), 2);
    EXPECT(member(entry, "token") && member(entry, "bytes") && member(entry, "logprob"));
    cJSON_Delete(json);
    answer_release(&a);
    world_end(&w);
}

/* ---- what goes in ---- */

static void first_text(const struct answer *a, struct buf *out) {
    cJSON *json = cJSON_ParseWithLength(a->body.data, a->body.len);
    EXPECT_EQ(a->status, 200);
    if (a->status != 200)
        check_fail(__FILE__, __LINE__, "%s", buf_text(&a->body));
    else
        buf_add_str(out,
                    client_string(member(member(json, "output")->child, "content")->child, "text"));
    cJSON_Delete(json);
}

/* What a template gets for these fields. */
#define SEES(w, fields, expected)                                                                  \
    do {                                                                                           \
        struct answer a_;                                                                          \
        struct buf seen_ = {0};                                                                    \
        RESPONSES(w, "{" fields "}", &a_);                                                         \
        first_text(&a_, &seen_);                                                                   \
        EXPECT_STR(buf_text(&seen_), expected);                                                    \
        buf_release(&seen_);                                                                       \
        answer_release(&a_);                                                                       \
    } while (0)

#define SHOWS                                                                                      \
    "{% for m in messages %}{{ m.role }}={{ m.content }}"                                          \
    "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}"                           \
    "{% for t in m.tool_calls %}[{{ t.id }} {{ t.function.name }} "                                \
    "{{ t.function.arguments | tojson }}]{% endfor %}"                                             \
    "{% if m.tool_call_id %}<{{ m.tool_call_id }}>{% endif %};{% endfor %}"                        \
    "{% for t in tools %}{{ t | tojson }}{% endfor %}{{ reasoning_effort }}"                       \
    "{% if add_generation_prompt %}!{% endif %}"

TEST(items_become_messages) {
    struct world w;
    world_echo(&w, SHOWS);
    EXPECT(world_start(&w));
    SEES(&w, "\"instructions\":\"s\",\"input\":\"a\\u00e9\\n\"", "system=s;user=aé\n;!");
    SEES(&w,
         "\"input\":[{\"role\":\"developer\",\"content\":\"d\"},"
         "{\"type\":\"message\",\"role\":\"user\",\"content\":["
         "{\"type\":\"input_text\",\"text\":\"a\"},{\"type\":\"input_text\",\"text\":\"b\"}]}]",
         "developer=d;user=a\nb;!");
    SEES(&w,
         "\"input\":[{\"role\":\"user\",\"content\":\"q\"},"
         "{\"type\":\"reasoning\",\"id\":\"r\",\"summary\":[],\"content\":["
         "{\"type\":\"reasoning_text\",\"text\":\"h\\\"\"}]},"
         "{\"type\":\"message\",\"role\":\"assistant\",\"id\":\"m\",\"status\":\"completed\","
         "\"content\":[{\"type\":\"output_text\",\"text\":\"w\",\"annotations\":[]}]},"
         "{\"type\":\"function_call\",\"call_id\":\"i1\",\"name\":\"f\","
         "\"arguments\":\"{\\\"a\\\":[1]}\"},"
         "{\"type\":\"function_call\",\"call_id\":\"i2\",\"name\":\"g\",\"arguments\":\"{}\"},"
         "{\"type\":\"function_call_output\",\"call_id\":\"i1\",\"output\":\"r\"},"
         "{\"type\":\"function_call_output\",\"call_id\":\"i2\",\"output\":["
         "{\"type\":\"input_text\",\"text\":\"bad\"}]},"
         "{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"t\"}],"
         "\"encrypted_content\":null},{\"role\":\"assistant\",\"content\":\"z\"}]",
         "user=q;assistant=w(h\")[i1 f {\"a\": [1]}][i2 g {}];tool=r<i1>;tool=bad<i2>;"
         "assistant=z(t);!");
    SEES(&w,
         SAY("q") ",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"description\":\"d\","
                  "\"parameters\":{\"type\":\"object\"},\"strict\":true}],"
                  "\"reasoning\":{\"effort\":\"low\",\"context\":\"auto\"},\"store\":false,"
                  "\"metadata\":{\"u\":\"v\"},\"truncation\":\"disabled\",\"user\":\"u\","
                  "\"text\":{\"format\":{\"type\":\"text\"},\"verbosity\":\"medium\"}",
         "user=q;{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\", "
         "\"parameters\": {\"type\": \"object\"}, \"strict\": true}}low!");
    world_echo_end(&w);
}

TEST(what_does_not_fit_is_refused_by_name) {
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"", "no body"},
        {"{", "malformed JSON"},
        {"[]", "must be a JSON object"},
        {"{}", "'input' is missing"},
        {"{\"input\":[]}", "'input' is empty"},
        {"{\"input\":7}", "'input' must be a string or an array"},
        {"{\"input\":[7]}", "input[0] must be an object"},
        {"{\"input\":[{}]}", "input[0] needs a 'type'"},
        {"{\"input\":[{\"type\":\"item_reference\",\"id\":\"x\"}]}",
         "input[0]: no item \"x\" is kept here"},
        {"{\"input\":[{\"role\":\"king\",\"content\":\"x\"}]}", "input[0].role"},
        {"{\"input\":[{\"role\":\"user\",\"content\":7}]}", "input[0].content must be"},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}",
         "\"input_image\""},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"output_text\"}]}]}",
         "\"output_text\""},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"text\":\"x\"}]}]}", "without 'type'"},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}]}",
         "without its text"},
        {"{\"input\":[{\"role\":\"user\",\"content\":[7]}]}", "a part that is not an object"},
        {"{\"input\":[{\"type\":\"function_call\",\"name\":\"f\"}]}", "needs 'call_id', 'name'"},
        {"{\"input\":[{\"type\":\"function_call_output\"}]}", "needs a 'call_id'"},
        {"{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"c\"}]}", "output must be"},
        {"{" SAY("x") ",\"instructions\":[]}", "'instructions' must be a string"},
        {"{" SAY("x") ",\"temperature\":3}", "'temperature'"},
        {"{" SAY("x") ",\"max_output_tokens\":0}", "'max_output_tokens' must be between"},
        {"{" SAY("x") ",\"max_tokens\":9}", "'max_tokens' is not offered"},
        {"{" SAY("x") ",\"messages\":[{}]}", "'messages' is not offered"},
        {"{" SAY("x") ",\"n\":2}", "'n' is not offered"},
        {"{" SAY("x") ",\"truncation\":\"all\"}", "'truncation' must be auto or disabled"},
        {"{" SAY("x") ",\"conversation\":\"c\"}", "'conversation' is not offered"},
        {"{" SAY("x") ",\"prompt\":{\"id\":\"p\"}}", "'prompt' is not offered"},
        {"{" SAY("x") ",\"best_of\":2}", "'best_of' is not offered"},
        {"{" SAY("x") ",\"text\":{\"verbosity\":\"loud\"}}", "'text.verbosity' must be low"},
        {"{" SAY("x") ",\"text\":{\"format\":{\"type\":\"xml\"}}}", "'text.format.type'"},
        {"{" SAY("x") ",\"reasoning\":{\"effort\":\"huge\"}}", "'reasoning.effort' must be"},
        {"{" SAY("x") ",\"reasoning\":{\"summary\":\"long\"}}", "'reasoning.summary' must be"},
        {"{" SAY("x") ",\"reasoning\":{\"mode\":\"pro\"}}", "'reasoning.mode' is not offered"},
        {"{" SAY("x") ",\"include\":[\"file_search_call.results\"]}", "'include' may have"},
        {"{" SAY("x") ",\"tool_choice\":\"required\"}", "'tool_choice' needs 'tools'"},
        {"{" SAY("x") TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\","
                            "\"tools\":[{\"type\":\"function\",\"name\":\"nobody\"}]}}",
         "the allowed tool \"nobody\" is not among 'tools'"},
        {"{" SAY("x") ",\"tool_choice\":{\"type\":\"mcp\",\"name\":\"x\"}}", "'tool_choice' must"},
        {"{" SAY("x") ",\"tools\":[{\"type\":\"web_search\"}]}", "\"web_search\""},
        {"{" SAY("x") ",\"tools\":[{\"type\":\"function\"}]}", "tools[0] needs"},
        {"{" SAY("x") ",\"metadata\":{\"a\":1}}", "'metadata' may have"},
        {"{" SAY("x") ",\"background\":true,\"store\":false}", "'background' needs 'store'"},
        {"{" SAY("x") ",\"previous_response_id\":\"resp_0\"}", "no response 'resp_0'"},
    };
    struct world w;
    world_prepare(&w);
    EXPECT(world_start(&w));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct answer a;
        RESPONSES(&w, cases[i].body, &a);
        EXPECT_EQ(a.status, 400);
        cJSON *json = cJSON_ParseWithLength(a.body.data, a.body.len);
        const cJSON *error = member(json, "error");
        EXPECT_STR(client_string(error, "type"), "invalid_request_error");
        if (!strstr(client_string(error, "message"), cases[i].says))
            check_fail(__FILE__, __LINE__, "%s: '%s'", cases[i].body,
                       client_string(error, "message"));
        cJSON_Delete(json);
        answer_release(&a);
    }
    world_end(&w);
}

/* ---- what is kept ---- */

static void id_of(const struct answer *a, char id[64]) {
    cJSON *json = cJSON_ParseWithLength(a->body.data, a->body.len);
    snprintf(id, 64, "%s", client_string(json, "id"));
    cJSON_Delete(json);
}

static int get(struct world *w, const char *headers, const char *id, const char *more,
               struct answer *a) {
    char path[160];
    snprintf(path, sizeof path, "/v1/responses/%s%s", id, more);
    client_request(w->port, "GET", path, headers, NULL, a);
    return a->status;
}

static int get_status(struct world *w, const char *headers, const char *id, const char *more) {
    struct answer a;
    int status = get(w, headers, id, more, &a);
    answer_release(&a);
    return status;
}

TEST(what_is_kept_is_found_again_and_gone_on_from) {
    struct world w;
    struct answer a, again;
    char id[64], path[160];
    struct buf body = {0};
    world_echo(&w, SHOWS);
    EXPECT(world_start(&w));
    RESPONSES(&w, "{\"instructions\":\"s\",\"input\":\"one\"}", &a);
    id_of(&a, id);
    EXPECT_EQ(get(&w, NULL, id, "", &again), 200);
    EXPECT_STR(buf_text(&again.body), buf_text(&a.body));
    answer_release(&again);
    answer_release(&a);
    /* the instructions are not carried over, the turns are */
    buf_addf(&body, "{\"input\":\"two\",\"previous_response_id\":\"%s\"}", id);
    RESPONSES(&w, buf_text(&body), &a);
    EXPECT(
        strstr(buf_text(&a.body), "\"text\":\"user=one;assistant=system=s;user=one;!;user=two;!"));
    ASK(&w, "/v1/responses/input_tokens", NULL, buf_text(&body), &again);
    EXPECT(strstr(buf_text(&again.body), "{\"object\":\"response.input_tokens\","));
    answer_release(&again);
    answer_release(&a);
    /* what it was asked, with ids */
    EXPECT_EQ(get(&w, NULL, id, "/input_items", &a), 200);
    EXPECT(starts(buf_text(&a.body), "{\"object\":\"list\",\"data\":[{\"id\":\"item_"));
    EXPECT(strstr(buf_text(&a.body), "\"type\":\"message\",\"status\":\"completed\","
                                     "\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
                                     "\"text\":\"one\"}]}],\"first_id\":\"item_"));
    EXPECT(strstr(buf_text(&a.body), "\"has_more\":false}"));
    answer_release(&a);
    EXPECT_EQ(get_status(&w, NULL, id, "/input_items?limit=101"), 400);
    EXPECT_EQ(get_status(&w, NULL, id, "/input_items?order=up"), 400);
    EXPECT_EQ(get_status(&w, NULL, id, "?stream=true"), 400);
    EXPECT_EQ(get_status(&w, NULL, id, "/nothing"), 404);
    snprintf(path, sizeof path, "/v1/responses/%s/cancel", id);
    ASK(&w, path, NULL, NULL, &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    snprintf(path, sizeof path, "/v1/responses/%s", id);
    client_request(w.port, "DELETE", path, NULL, NULL, &a);
    EXPECT(strstr(buf_text(&a.body), "\"deleted\":true}"));
    answer_release(&a);
    EXPECT_EQ(get_status(&w, NULL, id, ""), 404);
    client_request(w.port, "PUT", path, NULL, NULL, &a);
    EXPECT(a.status == 405 || a.status == 501);
    answer_release(&a);
    buf_release(&body);
    world_echo_end(&w);
}

/* As the AI SDK does: what an answer said is only named. */
TEST(items_of_kept_responses_may_be_named) {
    struct world w;
    struct answer a;
    char id[64];
    struct buf body = {0};
    world_echo(&w, SHOWS);
    EXPECT(world_start(&w));
    RESPONSES(&w, "{\"input\":\"one\"}", &a);
    id_of(&a, id);
    answer_release(&a);
    buf_addf(&body,
             "{\"input\":[{\"role\":\"user\",\"content\":\"one\"},{\"type\":\"item_reference\","
             "\"id\":\"msg_%s00\"},{\"role\":\"user\",\"content\":\"two\"}]}",
             id + strlen("resp_"));
    RESPONSES(&w, buf_text(&body), &a);
    EXPECT(strstr(buf_text(&a.body), "\"text\":\"user=one;assistant=user=one;!;user=two;!"));
    id_of(&a, id);
    answer_release(&a);
    /* and stands among the items of the request that named it */
    EXPECT_EQ(get(&w, NULL, id, "/input_items?order=asc", &a), 200);
    EXPECT(strstr(buf_text(&a.body), "\"text\":\"user=one;!\""));
    EXPECT(!strstr(buf_text(&a.body), "item_reference"));
    answer_release(&a);
    /* by its id alone, and in the conversation that it goes on from */
    buf_reset(&body);
    buf_addf(&body, "{\"input\":[{\"id\":\"msg_%s00\"}],\"previous_response_id\":\"%s\"}",
             id + strlen("resp_"), id);
    RESPONSES(&w, buf_text(&body), &a);
    EXPECT_EQ(a.status, 200);
    answer_release(&a);
    ASK(&w, "/v1/responses", "Authorization: Bearer other\r\n",
        "{\"input\":[{\"id\":\"msg_00000000000000000000000000000000ff\"}]}", &a);
    EXPECT_EQ(a.status, 400);
    EXPECT(strstr(buf_text(&a.body), "no item \\\"msg_00000000000000000000000000000000ff\\\""));
    answer_release(&a);
    buf_release(&body);
    world_echo_end(&w);
}

#define WORDS "first first first first first first first first first first first first "
#define TALK                                                                                       \
    "\"instructions\":\"sys\",\"max_output_tokens\":40,\"input\":["                                \
    "{\"role\":\"user\",\"content\":\"" WORDS "\"},{\"role\":\"assistant\",\"content\":\"a1\"},"   \
    "{\"role\":\"user\",\"content\":\"" WORDS WORDS "\"},"                                         \
    "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"},"          \
    "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"o\"},"                      \
    "{\"role\":\"user\",\"content\":\"q3\"},{\"role\":\"assistant\",\"content\":\"a3\"},"          \
    "{\"role\":\"user\",\"content\":\"q4\"}]"

/* truncation auto: whole turns go, from the beginning, as few as will do. */
TEST(the_oldest_turns_go_where_they_do_not_fit) {
    struct world w;
    struct answer a;
    world_echo(&w, SHOWS);
    w.fake_config.max_context = 90;
    EXPECT(world_start(&w));
    RESPONSES(&w, "{" TALK "}", &a);
    EXPECT_EQ(a.status, 400);
    EXPECT(strstr(buf_text(&a.body), "context_length_exceeded"));
    answer_release(&a);
    RESPONSES(&w, "{" TALK ",\"truncation\":\"auto\"}", &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(strstr(buf_text(&a.body), "\"text\":\"system=sys;user=q3;assistant=a3;user=q4;!"));
    EXPECT(strstr(buf_text(&a.body), "\"truncation\":\"auto\""));
    answer_release(&a);
    /* what fits stays whole, and one message that does not is refused */
    RESPONSES(&w, "{" SAY("x") ",\"max_output_tokens\":40,\"truncation\":\"auto\"}", &a);
    EXPECT_EQ(a.status, 200);
    answer_release(&a);
    RESPONSES(&w,
              "{" SAY(WORDS WORDS WORDS WORDS WORDS WORDS WORDS WORDS) ",\"truncation\":\"auto\"}",
              &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    world_echo_end(&w);
}

TEST(items_are_listed_by_pages) {
    struct world w;
    struct answer a;
    char id[64];
    world_prepare(&w);
    EXPECT(world_start(&w));
    RESPONSES(&w,
              "{\"max_output_tokens\":1,\"input\":[{\"role\":\"user\",\"content\":\"a\",\"id\":"
              "\"i1\"},{\"type\":\"reasoning\",\"id\":\"i2\",\"summary\":[]},"
              "{\"type\":\"message\",\"role\":\"user\",\"id\":\"i3\",\"content\":[]}]}",
              &a);
    id_of(&a, id);
    answer_release(&a);
    EXPECT_EQ(get(&w, NULL, id, "/input_items?limit=2&order=asc", &a), 200);
    EXPECT(strstr(buf_text(&a.body), ",\"first_id\":\"i1\",\"last_id\":\"i2\",\"has_more\":true}"));
    answer_release(&a);
    EXPECT_EQ(get(&w, NULL, id, "/input_items?limit=2&order=asc&after=i2", &a), 200);
    EXPECT(strstr(buf_text(&a.body), "{\"object\":\"list\",\"data\":[{\"type\":\"message\","
                                     "\"role\":\"user\",\"id\":\"i3\",\"content\":[]}],"));
    answer_release(&a);
    EXPECT_EQ(get(&w, NULL, id, "/input_items?limit=1", &a), 200);
    EXPECT(strstr(buf_text(&a.body), ",\"first_id\":\"i3\",\"last_id\":\"i3\",\"has_more\":true}"));
    answer_release(&a);
    world_end(&w);
}

TEST(nothing_is_kept_of_what_shall_not_be) {
    struct world w;
    struct answer a;
    char id[64];
    world_prepare(&w);
    EXPECT(world_start(&w));
    RESPONSES(&w, "{" SAY("x") ",\"max_output_tokens\":1,\"store\":false}", &a);
    id_of(&a, id);
    answer_release(&a);
    EXPECT_EQ(get_status(&w, NULL, id, ""), 404);
    world_end(&w);
}

TEST(a_key_finds_its_own_alone) {
    struct world w;
    struct answer a;
    char id[64], body[160];
    static const char mine[] = "X-Api-Key: a\r\n", theirs[] = "X-Api-Key: b\r\n";
    world_prepare(&w);
    w.settings.api_key = "a,b";
    EXPECT(world_start(&w));
    ASK(&w, "/v1/responses", mine, "{" SAY("x") ",\"max_output_tokens\":1}", &a);
    id_of(&a, id);
    answer_release(&a);
    EXPECT_EQ(get_status(&w, mine, id, ""), 200);
    EXPECT_EQ(get_status(&w, theirs, id, ""), 404);
    EXPECT_EQ(get_status(&w, NULL, id, ""), 401);
    snprintf(body, sizeof body, "{\"input\":\"x\",\"previous_response_id\":\"%s\"}", id);
    ASK(&w, "/v1/responses", theirs, body, &a);
    EXPECT_EQ(a.status, 400);
    EXPECT(strstr(buf_text(&a.body), "previous_response_not_found"));
    answer_release(&a);
    snprintf(body, sizeof body, "/v1/responses/%s", id);
    client_request(w.port, "DELETE", body, theirs, NULL, &a);
    EXPECT_EQ(a.status, 404);
    answer_release(&a);
    EXPECT_EQ(get_status(&w, mine, id, ""), 200);
    world_end(&w);
}

/* ---- in the background ---- */

static void status_of(struct world *w, const char *id, char status[32]) {
    struct answer a;
    get(w, NULL, id, "", &a);
    cJSON *json = cJSON_ParseWithLength(a.body.data, a.body.len);
    snprintf(status, 32, "%s", client_string(json, "status"));
    cJSON_Delete(json);
    answer_release(&a);
}

static void wait_status(struct world *w, const char *id, const char *status) {
    char now[32] = "";
    int64_t end_ms = clock_ms() + PATIENCE_MS;
    while (strcmp(now, status) != 0 && clock_ms() < end_ms) {
        sleep_ms(5);
        status_of(w, id, now);
    }
    EXPECT_STR(now, status);
}

TEST(a_response_runs_without_its_client) {
    struct world w;
    struct answer a;
    char id[64], status[32];
    struct buf trace = {0};
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    fake_set_stepping(w.fake, false);
    RESPONSES(&w, "{" SAY(CALLS) TOOLS ",\"background\":true}", &a);
    EXPECT_EQ(a.status, 200);
    EXPECT(strstr(buf_text(&a.body), "\"status\":\"in_progress\",\"completed_at\":null"));
    id_of(&a, id);
    answer_release(&a);
    status_of(&w, id, status);
    EXPECT_STR(status, "in_progress");
    fake_set_stepping(w.fake, true);
    wait_status(&w, id, "completed");
    EXPECT_EQ(get(&w, NULL, id, "", &a), 200);
    trace_whole(&a, &trace);
    EXPECT(starts(buf_text(&trace), "reasoning completed reasoning_text=I look.\n"
                                    "message completed output_text=Wait.\n"
                                    "function_call completed f 9 {\"a\":\"\\\"é\"}\n"));
    answer_release(&a);
    buf_release(&trace);
    world_echo_end(&w);
}

/* Where event number n begins. */
static const char *event_at(const char *body, int n) {
    for (int i = 0; i < n; i++)
        body = strstr(body, "\n\n") + 2;
    return body;
}

TEST(a_stream_is_followed_from_any_event_on) {
    struct world w;
    struct answer first, again;
    struct trace t = {0};
    char id[64] = "", query[64];
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    RESPONSES(&w, "{" SAY(CALLS) TOOLS ",\"background\":true,\"stream\":true}", &first);
    trace_stream(&first, &t);
    EXPECT(t.ended && !t.failed);
    const char *at = strstr(buf_text(&first.body), "\"id\":\"resp_");
    if (at)
        snprintf(id, sizeof id, "%.37s", at + 6);
    for (int after = -1; after < t.next; after += 3) {
        if (after < 0)
            snprintf(query, sizeof query, "?stream=true");
        else
            snprintf(query, sizeof query, "?stream=true&starting_after=%d", after);
        EXPECT_EQ(get(&w, NULL, id, query, &again), 200);
        EXPECT_STR(buf_text(&again.body), event_at(buf_text(&first.body), after + 1));
        answer_release(&again);
    }
    snprintf(query, sizeof query, "?stream=true&starting_after=%d", t.next);
    EXPECT_EQ(get_status(&w, NULL, id, query), 400);
    EXPECT_EQ(get_status(&w, NULL, id, "?stream=true&starting_after=x"), 400);
    trace_release(&t);
    answer_release(&first);
    world_echo_end(&w);
}

TEST(a_follower_reads_while_it_runs) {
    struct world w;
    struct answer a;
    struct trace t = {0};
    char id[64] = "", path[128];
    world_echo(&w, ECHO_TEMPLATE);
    w.settings.ping_ms = 10;
    EXPECT(world_start(&w));
    fake_set_stepping(w.fake, false);
    int leaves = client_open(w.port, "POST", "/v1/responses", NULL,
                             "{" SAY(CALLS) TOOLS ",\"background\":true,\"stream\":true}");
    struct buf head = {0};
    char bytes[512];
    while (!*id) { /* its first event */
        ssize_t n = read(leaves, bytes, sizeof bytes);
        EXPECT(n > 0);
        if (n <= 0)
            break;
        buf_add(&head, bytes, (size_t)n);
        const char *at = strstr(buf_text(&head), "X-Request-Id: resp_");
        if (at && strlen(at) > 60)
            snprintf(id, sizeof id, "%.37s", at + 14);
    }
    close(leaves);
    buf_release(&head);
    snprintf(path, sizeof path, "/v1/responses/%s?stream=true", id);
    int fd = client_open(w.port, "GET", path, NULL, NULL);
    answer_init(&a);
    sleep_ms(300); /* a quiet stream is kept alive */
    fake_set_stepping(w.fake, true);
    client_finish(fd, &a);
    EXPECT_EQ(a.status, 200);
    trace_stream(&a, &t);
    EXPECT(t.ended && !t.failed && t.pings > 0);
    trace_release(&t);
    answer_release(&a);
    world_echo_end(&w);
}

static bool is_gone(struct world *w) {
    return atomic_load(&w->gw->open_count) == 0;
}

TEST(a_response_is_cancelled) {
    struct world w;
    struct answer a;
    char id[64], path[128];
    world_prepare(&w);
    EXPECT(world_start(&w));
    for (int deleted = 0; deleted < 2; deleted++) {
        fake_set_stepping(w.fake, false);
        RESPONSES(&w, "{" SAY("x") ",\"background\":true}", &a);
        id_of(&a, id);
        answer_release(&a);
        snprintf(path, sizeof path, "/v1/responses/%s%s", id, deleted ? "" : "/cancel");
        client_request(w.port, deleted ? "DELETE" : "POST", path, NULL, NULL, &a);
        EXPECT_EQ(a.status, 200);
        EXPECT(deleted || strstr(buf_text(&a.body), "\"status\":\"cancelled\""));
        answer_release(&a);
        EXPECT(wait_until(is_gone, &w));
        fake_set_stepping(w.fake, true);
        if (deleted)
            EXPECT_EQ(get_status(&w, NULL, id, ""), 404);
        else
            wait_status(&w, id, "cancelled");
    }
    world_end(&w);
}

TEST(memory_for_responses_is_bounded) {
    struct world w;
    struct answer a;
    char first[64], last[64] = "";
    world_prepare(&w);
    w.settings.responses_bytes = 8000;
    EXPECT(world_start(&w));
    for (int i = 0; i < 8; i++) {
        RESPONSES(&w, "{" SAY("x") ",\"max_output_tokens\":1}", &a);
        id_of(&a, i ? last : first);
        answer_release(&a);
    }
    EXPECT_EQ(get_status(&w, NULL, first, ""), 404);
    EXPECT_EQ(get_status(&w, NULL, last, ""), 200);
    world_end(&w);
    world_prepare(&w);
    w.settings.responses_bytes = 0;
    EXPECT(world_start(&w));
    RESPONSES(&w, "{" SAY("x") ",\"max_output_tokens\":1,\"background\":true}", &a);
    EXPECT_EQ(a.status, 413);
    answer_release(&a);
    world_end(&w);
}

/* A long body is read on another thread; it is kept, gone on from and run in the background all the
 * same. */
TEST(a_long_request_is_read_aside) {
    struct world w;
    struct answer a;
    char first[64], second[64];
    struct buf body = {0};
    world_echo(&w, SHOWS);
    EXPECT(world_start(&w));
    buf_addf(&body, "{\"input\":\"one\",\"padding\":\"%0*d\"}", 200000, 0);
    RESPONSES(&w, buf_text(&body), &a);
    id_of(&a, first);
    answer_release(&a);
    buf_reset(&body);
    buf_addf(&body,
             "{\"input\":\"two\",\"previous_response_id\":\"%s\",\"background\":true,"
             "\"padding\":\"%0*d\"}",
             first, 200000, 0);
    RESPONSES(&w, buf_text(&body), &a);
    EXPECT(strstr(buf_text(&a.body), "\"status\":\"in_progress\""));
    id_of(&a, second);
    answer_release(&a);
    wait_status(&w, second, "completed");
    EXPECT_EQ(get(&w, NULL, second, "", &a), 200);
    EXPECT(strstr(buf_text(&a.body), "\"text\":\"user=one;assistant=user=one;!;user=two;!\""));
    answer_release(&a);
    buf_reset(&body);
    buf_addf(&body, "{\"input\":\"x\",\"previous_response_id\":\"resp_1\",\"padding\":\"%0*d\"}",
             200000, 0);
    RESPONSES(&w, buf_text(&body), &a);
    EXPECT_EQ(a.status, 400);
    EXPECT(strstr(buf_text(&a.body), "previous_response_not_found"));
    answer_release(&a);
    buf_release(&body);
    world_echo_end(&w);
}

TEST(what_fails_says_so_and_is_kept) {
    struct world w;
    struct answer a;
    struct trace t = {0};
    char id[64] = "", status[32];
    world_prepare(&w);
    w.settings.request_timeout_ms = 1500;
    w.fake_config.step_us = 50000; /* so that some tokens come, not all */
    EXPECT(world_start(&w));
    RESPONSES(&w, "{" SAY("x") ",\"max_output_tokens\":1000,\"stream\":true}", &a);
    EXPECT_EQ(a.status, 200);
    trace_stream(&a, &t);
    EXPECT(t.ended && t.failed);
    EXPECT(strstr(buf_text(&a.body), "\"status\":\"failed\",\"completed_at\":null,\"error\":{"
                                     "\"code\":\"server_error\",\"message\":\"the request took "));
    const char *at = strstr(buf_text(&a.body), "\"id\":\"resp_");
    if (at)
        snprintf(id, sizeof id, "%.37s", at + 6);
    answer_release(&a);
    trace_release(&t);
    status_of(&w, id, status);
    EXPECT_STR(status, "failed");
    RESPONSES(&w, "{" SAY("x") ",\"max_output_tokens\":1000,\"background\":true}", &a);
    id_of(&a, id);
    answer_release(&a);
    wait_status(&w, id, "failed");
    world_end(&w);
}
