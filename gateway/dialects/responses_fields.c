/* POST /v1/responses: the fields of OpenAI's requests. */
#include "gateway/dialects/responses.h"
#include "gateway/fields/allowed_tools.h"
#include "gateway/fields/field.h"
#include "gateway/fields/raw_value.h"
#include "gateway/fields/tool_choice.h"

/* A request; g first, so that the rows of the other dialects serve here too. Spans are raw values
 * in the body; empty: not given. */
struct responses_request {
    struct genreq g;
    struct bytes input, instructions, metadata, text, reasoning, tool_choice, temperature, top_p;
    bool no_store, wants_logprobs;
};

static struct responses_request *request_of(struct field_reader *r) {
    return (struct responses_request *)(void *)r->g;
}

static bool is_word(const struct field_reader *r, enum json_event event, const char *word) {
    return event == JSON_STRING && bytes_equal(r->json.text, bytes_str(word));
}

static int read_input(struct field_reader *r, enum json_event first) {
    if (first != JSON_STRING && first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "a string or an array of items", first);
    return field_span(r, first, &request_of(r)->input);
}

/* Newer clients may send a list of items; here it is a text. */
static int read_instructions(struct field_reader *r, enum json_event first) {
    if (first != JSON_STRING)
        return field_wrong_type(r, "a string", first);
    return field_span(r, first, &request_of(r)->instructions);
}

static int read_metadata(struct field_reader *r, enum json_event first) {
    size_t begin = r->json.offset;
    uint32_t count = 0;
    if (first != JSON_OBJECT_BEGIN)
        return field_wrong_type(r, "an object", first);
    for (enum json_event event; (event = json_next(&r->json)) == JSON_KEY;) {
        bool long_key = r->json.text.len > RESPONSES_METADATA_KEY_MAX;
        event = json_next(&r->json);
        if (event != JSON_STRING || long_key || r->json.text.len > RESPONSES_METADATA_VALUE_MAX ||
            ++count > RESPONSES_METADATA_MAX)
            return api_error_set(r->err, API_BAD_REQUEST, r->name,
                                 "'%s' may have %d pairs, names of %d bytes and strings of %d "
                                 "bytes",
                                 r->name, RESPONSES_METADATA_MAX, RESPONSES_METADATA_KEY_MAX,
                                 RESPONSES_METADATA_VALUE_MAX);
    }
    request_of(r)->metadata = json_since(&r->json, begin);
    return 0;
}

/* A number that is told back as it was written. */
static int read_number(struct field_reader *r, enum json_event first, const struct field *range,
                       double *value, struct bytes *raw) {
    if (field_number(r, first, range, value))
        return -1;
    return field_span(r, first, raw);
}

static int read_temperature(struct field_reader *r, enum json_event first) {
    static const struct field range = {.min = 0, .max = 2};
    r->g->given |= GENREQ_TEMPERATURE;
    return read_number(r, first, &range, &r->g->temperature, &request_of(r)->temperature);
}

static int read_top_p(struct field_reader *r, enum json_event first) {
    static const struct field range = {.min = 0, .max = 1};
    r->g->given |= GENREQ_TOP_P;
    return read_number(r, first, &range, &r->g->top_p, &request_of(r)->top_p);
}

static int read_summary(struct field_reader *r, enum json_event first) {
    static const char *const WORDS[] = {"auto", "concise", "detailed"};
    for (size_t i = 0; i < ARRAY_LEN(WORDS); i++)
        if (is_word(r, first, WORDS[i])) {
            r->g->kept.summary = true;
            return 0;
        }
    return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' must be auto, concise or detailed",
                         r->name);
}

/* A member that may only say what happens anyway. */
static int check_member(struct field_reader *r, struct bytes value, const char *name,
                        const char *only) {
    if (!value.len || bytes_equal(value, bytes_str(only)))
        return 0;
    return api_error_set(r->err, API_UNSUPPORTED, name,
                         "'%s' is not offered by this server; leave it out, or give %s", name,
                         only);
}

/* {"effort": ..., "summary": ...} */
static int read_reasoning(struct field_reader *r, enum json_event first) {
    struct bytes effort = {0}, summaries[2] = {{0}}, context = {0}, mode = {0};
    const struct json_wanted members[] = {{"effort", &effort},
                                          {"summary", &summaries[0]},
                                          {"generate_summary", &summaries[1]},
                                          {"context", &context},
                                          {"mode", &mode}};
    if (field_members(r, first, members, ARRAY_LEN(members), &request_of(r)->reasoning) ||
        check_member(r, context, "reasoning.context", "\"auto\"") ||
        check_member(r, mode, "reasoning.mode", "\"standard\""))
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(summaries); i++)
        if (summaries[i].len && field_of_span(r, summaries[i], "reasoning.summary", read_summary))
            return -1;
    return effort.len ? field_of_span(r, effort, "reasoning.effort", field_reasoning_effort) : 0;
}

/* {"format": ..., "verbosity": ...} */
static int read_text(struct field_reader *r, enum json_event first) {
    struct bytes format = {0}, verbosity = {0};
    const struct json_wanted members[] = {{"format", &format}, {"verbosity", &verbosity}};
    if (field_members(r, first, members, ARRAY_LEN(members), &request_of(r)->text) ||
        (verbosity.len && field_of_span(r, verbosity, "text.verbosity", field_verbosity)))
        return -1;
    return format.len ? field_of_span(r, format, "text.format", field_response_format) : 0;
}

static int read_choice_name(struct field_reader *r, enum json_event first) {
    return field_string(r, first, GENREQ_NAME_MAX, &r->g->tool_choice_name);
}

/* "none", "auto", "required", {"type": "function", "name": NAME} or {"type": "allowed_tools", ...}. */
static int read_tool_choice(struct field_reader *r, enum json_event first) {
    struct genreq *g = r->g;
    size_t begin = r->json.offset;
    bool known = false;
    if (first == JSON_STRING) {
        g->tool_choice_none = is_word(r, first, "none");
        g->tool_choice_required = is_word(r, first, "required");
        known = g->tool_choice_none || g->tool_choice_required || is_word(r, first, "auto");
    } else if (first == JSON_OBJECT_BEGIN) {
        struct bytes type = {0}, name = {0}, whole;
        const struct json_wanted members[] = {{"type", &type}, {"name", &name}};
        if (field_members(r, first, members, ARRAY_LEN(members), &whole))
            return -1;
        bool function = raw_is_text(type, "function"), allowed = raw_is_text(type, "allowed_tools");
        if (allowed && field_of_span(r, whole, r->name, allowed_tools_read))
            return -1;
        if (function && name.len && field_of_span(r, name, r->name, read_choice_name))
            return -1;
        known = allowed || (function && g->tool_choice_name.len);
    }
    if (!known)
        return api_error_set(r->err, API_UNSUPPORTED, r->name,
                             "'%s' must be \"none\", \"auto\", \"required\" or {\"type\": "
                             "\"function\", \"name\": ...}",
                             r->name);
    request_of(r)->tool_choice = json_since(&r->json, begin);
    return 0;
}

static int read_store(struct field_reader *r, enum json_event first) {
    bool store = true;
    if (field_bool(r, first, &store))
        return -1;
    request_of(r)->no_store = !store;
    return 0;
}

static int read_background(struct field_reader *r, enum json_event first) {
    return field_bool(r, first, &r->g->kept.background);
}

static int read_truncation(struct field_reader *r, enum json_event first) {
    r->g->kept.drops_turns = is_word(r, first, "auto");
    if (r->g->kept.drops_turns || is_word(r, first, "disabled"))
        return 0;
    return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' must be auto or disabled",
                         r->name);
}

static int read_previous(struct field_reader *r, enum json_event first) {
    return field_string(r, first, GENREQ_NAME_MAX, &r->g->kept.previous);
}

/* What more an answer shall have. What is encrypted there stands openly in an item's content
 * here. */
static int read_include(struct field_reader *r, enum json_event first) {
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of strings", first);
    for (enum json_event event; (event = json_next(&r->json)) != JSON_ARRAY_END;) {
        if (is_word(r, event, "message.output_text.logprobs")) {
            request_of(r)->wants_logprobs = true;
        } else if (event != JSON_STRING) {
            return field_wrong_type(r, "an array of strings", event);
        } else if (!is_word(r, event, "reasoning.encrypted_content")) {
            return api_error_set(r->err, API_UNSUPPORTED, r->name,
                                 "'%s' may have \"message.output_text.logprobs\" and "
                                 "\"reasoning.encrypted_content\"",
                                 r->name);
        }
    }
    return 0;
}

/* clang-format off */
static const struct field rows[] = {
    CUSTOM_ALIAS("input", "messages", read_input), /* it becomes them */
    CUSTOM_FIELD("instructions", read_instructions),
    INT_ALIAS("max_output_tokens", "max_tokens", max_tokens, 1, WIRE_MAX_TOKENS, GENREQ_MAX_TOKENS),
    CUSTOM_FIELD("temperature", read_temperature),
    CUSTOM_FIELD("top_p", read_top_p),
    ARRAY_FIELD("tools", tools),
    CUSTOM_FIELD("tool_choice", read_tool_choice),
    BOOL_FIELD("parallel_tool_calls", parallel_tool_calls, 0),
    CUSTOM_FIELD("text", read_text),
    CUSTOM_FIELD("reasoning", read_reasoning),
    CUSTOM_FIELD("metadata", read_metadata),
    CUSTOM_FIELD("store", read_store),
    CUSTOM_FIELD("background", read_background),
    CUSTOM_FIELD("previous_response_id", read_previous),
    CUSTOM_FIELD("include", read_include),
    INT_FIELD("top_logprobs", top_logprobs, 0, GENREQ_TOP_LOGPROBS_MAX, GENREQ_TOP_LOGPROBS),
    OBJECT_FIELD("chat_template_kwargs", template_kwargs),
    CUSTOM_FIELD("truncation", read_truncation),
    /* of OpenAI's servers alone, or of the other dialects */
    REFUSED_FIELD("conversation"),
    REFUSED_FIELD("prompt"),
    REFUSED_FIELD("context_management"),
    REFUSED_FIELD("moderation"),
    REFUSED_FIELD("image"),
    REFUSED_FIELD("access_programs"),
    REFUSED_FIELD("background_options"),
    REFUSED_FIELD("messages"),
    REFUSED_FIELD("documents"),
    REFUSED_FIELD("chat_template"),
    REFUSED_FIELD("logprobs"),
    REFUSED_FIELD("return_token_ids"),
    REFUSED_FIELD("return_progress"),
    REFUSED_FIELD("timings_per_token"),
    REFUSED_FIELD("return_tokens_as_token_ids"),
    REFUSED_FIELD("max_tokens"),
    REFUSED_FIELD("max_completion_tokens"),
    REFUSED_FIELD("reasoning_effort"),
    REFUSED_FIELD("continue_final_message"),
    NEUTRAL_FIELD("n", "1"),
    NEUTRAL_FIELD("n_cmpl", "1"),
    NEUTRAL_FIELD("add_generation_prompt", "true"),
    NEUTRAL_FIELD("include_reasoning", "true"),
    NEUTRAL_FIELD("separate_reasoning", "true"),
    NEUTRAL_FIELD("reasoning_format", "\"auto\" \"deepseek\""),
    /* no text changes */
    PASSED_FIELD("max_tool_calls"),
    PASSED_FIELD("stream_options"),
};
/* clang-format on */

/* ---- what is told back ---- */

/* Without the white space between its parts: an event is one line. */
static void add_compact(struct buf *out, struct bytes raw) {
    bool in_string = false;
    for (size_t i = 0; i < raw.len; i++) {
        char c = (char)raw.data[i];
        if (!in_string && (c == ' ' || c == '\t' || c == '\n' || c == '\r'))
            continue;
        buf_add_byte(out, c);
        if (in_string && c == '\\')
            buf_add_byte(out, (char)raw.data[++i]);
        else if (c == '"')
            in_string = !in_string;
    }
}

static void add_member(struct buf *out, const char *name, struct bytes raw, const char *fallback) {
    buf_addf(out, ",\"%s\":", name);
    if (raw.len)
        add_compact(out, raw);
    else
        buf_add_str(out, fallback);
}

static void add_flag(struct buf *out, const char *name, bool flag) {
    add_member(out, name, bytes_str(flag ? "true" : "false"), "");
}

static void add_string(struct buf *out, const char *name, struct bytes text) {
    buf_addf(out, ",\"%s\":", name);
    if (!text.len) {
        buf_add_str(out, "null");
        return;
    }
    buf_add_byte(out, '"');
    buf_add_json(out, text);
    buf_add_byte(out, '"');
}

/* tools: as the client wrote them. */
static int write_echo(struct responses_request *q, struct bytes tools, struct api_error *err) {
    struct genreq *g = &q->g;
    struct buf out = {0};
    add_flag(&out, "background", g->kept.background);
    add_member(&out, "instructions", q->instructions, "null");
    buf_add_str(&out, ",\"max_output_tokens\":");
    if (g->given & GENREQ_MAX_TOKENS)
        buf_add_i64(&out, g->max_tokens);
    else
        buf_add_str(&out, "null");
    buf_add_str(&out, ",\"max_tool_calls\":null");
    add_member(&out, "metadata", q->metadata, "{}");
    add_flag(&out, "parallel_tool_calls", g->parallel_tool_calls);
    add_string(&out, "previous_response_id", g->kept.previous);
    add_member(&out, "reasoning", q->reasoning, "{\"effort\":null,\"summary\":null}");
    buf_add_str(&out, ",\"service_tier\":\"default\"");
    add_flag(&out, "store", !q->no_store);
    add_member(&out, "temperature", q->temperature, "null");
    add_member(&out, "text", q->text, "{\"format\":{\"type\":\"text\"}}");
    add_member(&out, "tool_choice", q->tool_choice, "\"auto\"");
    add_member(&out, "tools", tools, "[]");
    buf_addf(&out, ",\"top_logprobs\":%lld", (long long)g->top_logprobs);
    add_member(&out, "top_p", q->top_p, "null");
    add_string(&out, "truncation", bytes_str(g->kept.drops_turns ? "auto" : "disabled"));
    add_string(&out, "user", g->user);
    int rc = genreq_keep(g, &out, &g->kept.echo, err);
    buf_release(&out);
    return rc;
}

/* ---- what spans fields ---- */

static int check(struct responses_request *q, struct api_error *err) {
    struct genreq *g = &q->g;
    if (!q->input.len)
        return api_error_set(err, API_BAD_REQUEST, "input", "'input' is missing");
    if (tool_choice_check(g, err))
        return -1;
    if (g->kept.background && q->no_store)
        return api_error_set(err, API_BAD_REQUEST, "background",
                             "'background' needs 'store': what it makes is read from there");
    return 0;
}

static const struct field_table responses_own = {rows, ARRAY_LEN(rows)};
static const struct field_table *const responses_tables[] = {
    &responses_own, &field_shared, &field_constraint, &field_peers, &field_elsewhere};
const struct field_set fields_responses = {responses_tables, ARRAY_LEN(responses_tables)};

int responses_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    struct responses_request q = {.g = *g};
    int rc = field_read_request(&q.g, &fields_responses, body, err);
    if (rc == 0)
        rc = check(&q, err);
    q.g.kept.store = !q.no_store;
    q.g.logprobs = q.wants_logprobs;
    if (rc == 0)
        rc = field_apply_verbosity(&q.g, err);
    if (rc == 0)
        rc = write_echo(&q, q.g.tools, err);
    if (rc == 0)
        rc = responses_convert(&q.g, q.input, q.instructions, err);
    if (rc == 0 && q.g.tool_choice_none) /* a model that must not call is not tempted */
        q.g.tools = bytes_of(NULL, 0);
    *g = q.g; /* the arena with it */
    return rc;
}
