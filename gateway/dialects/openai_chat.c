/* POST /v1/chat/completions: the fields of OpenAI's and vLLM's chat requests. */
#include "gateway/dialects/openai_functions.h"
#include "gateway/fields/allowed_tools.h"
#include "gateway/fields/tool_choice.h"

/* Whether the template is told to think, which several fields can say. */
static int set_thinking(struct field_reader *r, bool on) {
    enum genreq_thinking asked = on ? THINKING_ON : THINKING_OFF;
    if (r->g->thinking != THINKING_AS_TEMPLATE && r->g->thinking != asked)
        return field_disagrees(r);
    r->g->thinking = asked;
    r->g->thinking_field = r->name;
    return 0;
}

/* LMDeploy's, mistral.rs's and Qwen's. */
static int read_enable_thinking(struct field_reader *r, enum json_event first) {
    bool on;
    return field_bool(r, first, &on) ? -1 : set_thinking(r, on);
}

/* {"type": "enabled"} or "disabled", as DeepSeek, GLM and Kimi name it. */
static int read_thinking(struct field_reader *r, enum json_event first) {
    bool told = false;
    if (first != JSON_OBJECT_BEGIN)
        return field_wrong_type(r, "an object", first);
    for (enum json_event event = json_next(&r->json); event == JSON_KEY;
         event = json_next(&r->json)) {
        if (!bytes_equal(r->json.text, bytes_str("type")))
            return api_error_set(r->err, API_UNSUPPORTED, r->name, "'%s' has a 'type' alone here",
                                 r->name);
        event = json_next(&r->json);
        bool on = event == JSON_STRING && bytes_equal(r->json.text, bytes_str("enabled")),
             off = event == JSON_STRING && bytes_equal(r->json.text, bytes_str("disabled"));
        told = on || off;
        if (field_span(r, event, NULL) || (told && set_thinking(r, on)))
            return -1;
    }
    if (!told)
        return api_error_set(r->err, API_BAD_REQUEST, r->name,
                             "'%s.type' must be enabled or disabled", r->name);
    return 0;
}

/* OpenRouter's word for leaving out what was thought. */
static int read_exclude(struct field_reader *r, enum json_event first) {
    bool exclude;
    if (field_bool(r, first, &exclude))
        return -1;
    r->g->include_reasoning &= !exclude;
    return 0;
}

/* vLLM's, llama.cpp's and OpenRouter's: so many tokens may be thought; -1: any number. */
static int read_thinking_budget(struct field_reader *r, enum json_event first) {
    int64_t asked;
    if (field_int(r, first, -1, WIRE_MAX_TOKENS, &asked))
        return -1;
    if (r->g->thinking_budget_field && r->g->thinking_budget != asked)
        return field_disagrees(r);
    r->g->thinking_budget = asked;
    r->g->thinking_budget_field = r->name;
    return 0;
}

/* {"effort": ..., "enabled": ..., "exclude": ..., "max_tokens": ...}, as OpenRouter and SGLang have
 * it; SGLang has two of them under other names, too. */
static int read_reasoning(struct field_reader *r, enum json_event first) {
    struct bytes effort = {0}, enabled = {0}, exclude = {0}, bound = {0};
    const struct json_wanted members[] = {{"effort", &effort},   {"reasoning_effort", &effort},
                                          {"enabled", &enabled}, {"enable", &enabled},
                                          {"exclude", &exclude}, {"max_tokens", &bound}};
    if (field_members(r, first, members, ARRAY_LEN(members), NULL))
        return -1;
    if ((bound.len && field_of_span(r, bound, "reasoning.max_tokens", read_thinking_budget)) ||
        (effort.len && field_of_span(r, effort, "reasoning.effort", field_reasoning_effort)) ||
        (enabled.len && field_of_span(r, enabled, "reasoning.enabled", read_enable_thinking)))
        return -1;
    return exclude.len ? field_of_span(r, exclude, "reasoning.exclude", read_exclude) : 0;
}

/* clang-format off */
static const struct field rows[] = {
    INT_ALIAS("max_completion_tokens", "max_tokens", max_completion_tokens, -1, WIRE_MAX_TOKENS,
              GENREQ_MAX_COMPLETION_TOKENS),
    BOOL_FIELD("logprobs", logprobs, 0),
    INT_FIELD("top_logprobs", top_logprobs, -1, GENREQ_TOP_LOGPROBS_MAX, GENREQ_TOP_LOGPROBS),
    CUSTOM_FIELD("prompt_logprobs", field_prompt_logprobs),
    CUSTOM_FIELD("tool_choice", tool_choice_read),
    CUSTOM_FIELD("functions", functions_read),
    CUSTOM_FIELD("function_call", functions_read_choice),
    CUSTOM_FIELD("thinking", read_thinking),
    CUSTOM_FIELD("enable_thinking", read_enable_thinking),
    CUSTOM_FIELD("reasoning", read_reasoning),
    CUSTOM_FIELD("thinking_token_budget", read_thinking_budget),
    CUSTOM_ALIAS("thinking_budget_tokens", "thinking_token_budget", read_thinking_budget),
    CUSTOM_ALIAS("reasoning_budget", "thinking_token_budget", read_thinking_budget),
    CUSTOM_ALIAS("reasoning_budget_tokens", "thinking_token_budget", read_thinking_budget),
    BOOL_FIELD("parallel_tool_calls", parallel_tool_calls, 0),
    BOOL_FIELD("include_reasoning", include_reasoning, 0),
    BOOL_FIELD("separate_reasoning", separate_reasoning, 0),
    CUSTOM_FIELD("verbosity", field_verbosity),
    BOOL_FIELD("verbose", verbose, 0),
    REFUSED_FIELD("prompt"),
};
/* clang-format on */

/* its own go before those of the others that have their names */
static const struct field_table chat_own = {rows, ARRAY_LEN(rows)};
static const struct field_table *const chat_tables[] = {
    &chat_own, &field_shared, &field_constraint, &field_peers, &field_template, &field_elsewhere};
const struct field_set fields_chat = {chat_tables, ARRAY_LEN(chat_tables)};

int openai_chat_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    if (field_read_request(g, &fields_chat, body, err))
        return -1;
    if (g->messages.len == 0)
        return api_error_set(err, API_BAD_REQUEST, "messages", "'messages' is missing");
    if (functions_apply(g, err))
        return -1;
    if (tool_choice_check(g, err) || allowed_tools_apply(g, err))
        return -1;
    if (field_apply_thinking(g, g->thinking_field, err) || field_apply_verbosity(g, err))
        return -1;
    /* a model that must not call is not tempted */
    if (g->tool_choice_none)
        g->tools = bytes_of(NULL, 0);
    if (g->top_logprobs == -1) /* vLLM's: as many as there may be */
        g->top_logprobs = GENREQ_TOP_LOGPROBS_MAX;
    if (g->given & GENREQ_TOP_LOGPROBS && g->top_logprobs > 0 && !g->logprobs)
        return api_error_set(err, API_BAD_REQUEST, "top_logprobs",
                             "'top_logprobs' needs 'logprobs': true");
    if (genreq_check_prompt_logprobs(g, err))
        return -1;
    if (g->continue_final_message && g->add_generation_prompt)
        return api_error_set(err, API_BAD_REQUEST, "continue_final_message",
                             "'continue_final_message' needs 'add_generation_prompt': false");
    return 0;
}
