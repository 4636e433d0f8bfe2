/* POST /v1/messages: the fields of Anthropic's requests. */
#include "gateway/dialects/anthropic.h"

#include "gateway/fields/field.h"

/* A request; g first, so that the rows of the other dialects serve here too. */
struct messages_request {
    struct genreq g;
    struct bytes system; /* raw; empty: none */
    int64_t budget_tokens;
    bool is_counted; /* budget_tokens was given */
};

static struct messages_request *request_of(struct field_reader *r) {
    return (struct messages_request *)(void *)r->g;
}

static int read_system(struct field_reader *r, enum json_event first) {
    if (first != JSON_STRING && first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "a string or an array of text blocks", first);
    return field_span(r, first, &request_of(r)->system);
}

/* What a string of some few is; -1: none of them. */
static int word_of(const struct field_reader *r, enum json_event event, const char *const *words,
                   int count) {
    for (int i = 0; i < count && event == JSON_STRING; i++)
        if (bytes_equal(r->json.text, bytes_str(words[i])))
            return i;
    return -1;
}

static int read_disable(struct field_reader *r, enum json_event event) {
    if (event != JSON_TRUE && event != JSON_FALSE)
        return api_error_set(r->err, API_BAD_REQUEST, r->name,
                             "'%s.disable_parallel_tool_use' must be a boolean", r->name);
    r->g->parallel_tool_calls = event == JSON_FALSE;
    return 0;
}

static int read_tool_choice(struct field_reader *r, enum json_event first) {
    enum { AUTO, ANY, TOOL, NONE, TYPE_COUNT };
    static const char *const TYPES[TYPE_COUNT] = {"auto", "any", "tool", "none"};
    struct bytes name = {0};
    int type = -1;
    if (first != JSON_OBJECT_BEGIN)
        return field_wrong_type(r, "an object", first);
    for (enum json_event event; (event = json_next(&r->json)) == JSON_KEY;) {
        bool is_type = bytes_equal(r->json.text, bytes_str("type")),
             is_name = bytes_equal(r->json.text, bytes_str("name")),
             is_disable = bytes_equal(r->json.text, bytes_str("disable_parallel_tool_use"));
        event = json_next(&r->json);
        if (is_type)
            type = word_of(r, event, TYPES, TYPE_COUNT);
        int rc = is_name                            ? field_string(r, event, GENREQ_NAME_MAX, &name)
                 : is_disable && event != JSON_NULL ? read_disable(r, event)
                                                    : field_span(r, event, NULL);
        if (rc)
            return -1;
    }
    if (type < 0)
        return api_error_set(r->err, API_BAD_REQUEST, r->name,
                             "'%s.type' must be auto, any, tool or none", r->name);
    if (type == TOOL && !name.len)
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' needs a 'name'", r->name);
    r->g->tool_choice_required = type == ANY;
    r->g->tool_choice_none = type == NONE;
    if (type == TOOL)
        r->g->tool_choice_name = name;
    return 0;
}

static int read_thinking(struct field_reader *r, enum json_event first) {
    static const char *const TYPES[] = {"adaptive", "enabled", "disabled"};
    static const char *const DISPLAYS[] = {"summarized", "omitted"};
    struct messages_request *m = request_of(r);
    int type = -1, display = 0;
    if (first != JSON_OBJECT_BEGIN)
        return field_wrong_type(r, "an object", first);
    for (enum json_event event; (event = json_next(&r->json)) == JSON_KEY;) {
        bool is_type = bytes_equal(r->json.text, bytes_str("type")),
             is_budget = bytes_equal(r->json.text, bytes_str("budget_tokens")),
             is_display = bytes_equal(r->json.text, bytes_str("display"));
        event = json_next(&r->json);
        if (is_type)
            type = word_of(r, event, TYPES, ARRAY_LEN(TYPES));
        if (is_display && event != JSON_NULL)
            display = word_of(r, event, DISPLAYS, ARRAY_LEN(DISPLAYS));
        m->is_counted |= is_budget;
        if (is_budget ? field_int(r, event, 1024, WIRE_MAX_TOKENS, &m->budget_tokens)
                      : field_span(r, event, NULL))
            return -1;
    }
    if (type < 0)
        return api_error_set(r->err, API_BAD_REQUEST, r->name,
                             "'%s.type' must be enabled, disabled or adaptive", r->name);
    if (display < 0)
        return api_error_set(r->err, API_BAD_REQUEST, r->name,
                             "'%s.display' must be summarized or omitted", r->name);
    m->g.thinking = (enum genreq_thinking)type;
    m->g.include_reasoning = display == 0;
    return 0;
}

static int read_output_config(struct field_reader *r, enum json_event first) {
    if (first != JSON_OBJECT_BEGIN)
        return field_wrong_type(r, "an object", first);
    const char *name = r->name;
    int rc = 0;
    for (enum json_event event; rc == 0 && (event = json_next(&r->json)) == JSON_KEY;) {
        bool is_effort = bytes_equal(r->json.text, bytes_str("effort")),
             is_format = bytes_equal(r->json.text, bytes_str("format")),
             is_budget = bytes_equal(r->json.text, bytes_str("task_budget"));
        event = json_next(&r->json);
        r->name = is_effort ? "output_config.effort" : "output_config.format";
        if (is_budget && event != JSON_NULL)
            rc = api_error_set(r->err, API_UNSUPPORTED, "output_config.task_budget",
                               "'output_config.task_budget' is not offered by this server");
        else if (event == JSON_NULL || !(is_effort || is_format))
            rc = field_span(r, event, NULL);
        else
            rc = is_effort ? field_reasoning_effort(r, event) : field_response_format(r, event);
    }
    r->name = name;
    return rc;
}

/* clang-format off */
static const struct field rows[] = {
    ARRAY_FIELD("messages", messages),
    ARRAY_FIELD("tools", tools),
    CUSTOM_FIELD("system", read_system),
    INT_FIELD("max_tokens", max_tokens, 1, WIRE_MAX_TOKENS, GENREQ_MAX_TOKENS),
    NUMBER_FIELD("temperature", temperature, 0, 2, GENREQ_TEMPERATURE),
    CUSTOM_FIELD("tool_choice", read_tool_choice),
    CUSTOM_FIELD("thinking", read_thinking),
    CUSTOM_FIELD("output_config", read_output_config),
    CUSTOM_ALIAS("output_format", "response_format", field_response_format),
    CUSTOM_ALIAS("stop_sequences", "stop", field_stops),
    OBJECT_FIELD("chat_template_kwargs", template_kwargs),
    /* of Anthropic's servers alone, or of the other dialects */
    REFUSED_FIELD("container"),
    REFUSED_FIELD("mcp_servers"),
    NEUTRAL_FIELD("context_management",
                  "{} {\"edits\":[]} "
                  "{\"edits\":[{\"type\":\"clear_thinking_20251015\",\"keep\":\"all\"}]}"),
    REFUSED_FIELD("prefill"),
    REFUSED_FIELD("fallbacks"),
    REFUSED_FIELD("prompt"),
    REFUSED_FIELD("documents"),
    REFUSED_FIELD("chat_template"),
    REFUSED_FIELD("stop"),
    REFUSED_FIELD("logprobs"),
    REFUSED_FIELD("top_logprobs"),
    REFUSED_FIELD("return_token_ids"),
    REFUSED_FIELD("return_progress"),
    REFUSED_FIELD("timings_per_token"),
    REFUSED_FIELD("return_tokens_as_token_ids"),
    REFUSED_FIELD("max_completion_tokens"),
    REFUSED_FIELD("reasoning_effort"),
    REFUSED_FIELD("continue_final_message"),
    NEUTRAL_FIELD("n", "1"),
    NEUTRAL_FIELD("n_cmpl", "1"),
    NEUTRAL_FIELD("add_generation_prompt", "true"),
    NEUTRAL_FIELD("include_reasoning", "true"),
    NEUTRAL_FIELD("separate_reasoning", "true"),
    NEUTRAL_FIELD("parallel_tool_calls", "true"),
    NEUTRAL_FIELD("reasoning_format", "\"auto\" \"deepseek\""),
    /* no text changes */
    PASSED_FIELD("stream_options"), /* the usage is always told */
    PASSED_FIELD("service_tier"),
    PASSED_FIELD("cache_control"),
    PASSED_FIELD("diagnostics"),
    PASSED_FIELD("inference_geo"),
    PASSED_FIELD("speed"),
    PASSED_FIELD("user_profile_id"),
    PASSED_FIELD("workspace_id"),
    PASSED_FIELD("betas"),
};
/* clang-format on */

/* What spans fields. */
static int check(const struct messages_request *m, bool counts, struct api_error *err) {
    const struct genreq *g = &m->g;
    bool forced = g->tool_choice_required || g->tool_choice_name.len;
    if (g->messages.len == 0)
        return api_error_set(err, API_BAD_REQUEST, "messages", "'messages' is missing");
    if (!(g->given & GENREQ_MAX_TOKENS) && !counts)
        return api_error_set(err, API_BAD_REQUEST, "max_tokens", "'max_tokens' is missing");
    if (m->is_counted && !counts && m->budget_tokens >= g->max_tokens)
        return api_error_set(err, API_BAD_REQUEST, "thinking",
                             "'max_tokens' must be greater than 'thinking.budget_tokens'");
    if (forced && g->tools.len == 0)
        return api_error_set(err, API_BAD_REQUEST, "tool_choice", "'tool_choice' needs 'tools'");
    if (g->tool_choice_name.len && g->constraint.kind != CONSTRAINT_NONE)
        return api_error_set(err, API_BAD_REQUEST, g->constraint.field,
                             "'%s' and a tool that must be called cannot both be given",
                             g->constraint.field);
    return 0;
}

static const struct field_table messages_own = {rows, ARRAY_LEN(rows)};
static const struct field_table *const messages_tables[] = {
    &messages_own, &field_shared, &field_constraint, &field_peers, &field_elsewhere};
const struct field_set fields_messages = {messages_tables, ARRAY_LEN(messages_tables)};

int anthropic_parse(struct genreq *g, struct bytes body, bool counts, struct api_error *err) {
    struct messages_request m = {.g = *g};
    int rc = field_read_request(&m.g, &fields_messages, body, err);
    if (rc == 0)
        rc = check(&m, counts, err);
    if (rc == 0)
        rc = field_apply_thinking(&m.g, "thinking", err);
    if (rc == 0 && m.is_counted && m.g.thinking == THINKING_ON)
        m.g.thinking_budget = m.budget_tokens;
    if (rc == 0)
        rc = anthropic_convert(&m.g, m.system, err);
    if (rc == 0 && m.g.tool_choice_none) /* a model that must not call is not tempted */
        m.g.tools = bytes_of(NULL, 0);
    *g = m.g; /* the arena with it */
    return rc;
}
