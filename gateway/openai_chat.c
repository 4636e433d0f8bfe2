/* POST /v1/chat/completions: the fields of OpenAI's and vLLM's chat requests. */
#include "gateway/field.h"

#include <stdio.h>

/* The parts of a message's content: text alone for now. */
static int check_part(struct field_reader *r, uint32_t message_idx) {
    bool has_text = false;
    for (enum json_event event = json_next(&r->json); event != JSON_OBJECT_END; event = json_next(&r->json)) {
        if (event != JSON_KEY) return field_wrong_type(r, "an array", event);
        bool is_type = bytes_equal(r->json.text, bytes_str("type")),
             is_text = bytes_equal(r->json.text, bytes_str("text"));
        event = json_next(&r->json);
        if (is_type && (event != JSON_STRING || !bytes_equal(r->json.text, bytes_str("text"))))
            return api_error_set(r->err, API_UNSUPPORTED, "messages",
                                 "messages[%u].content holds a part that is not text", message_idx);
        if (is_text && event != JSON_STRING)
            return api_error_set(r->err, API_BAD_REQUEST, "messages", "messages[%u].content: 'text' must be a string",
                                 message_idx);
        has_text |= is_text;
        if (field_span(r, event, NULL)) return -1;
    }
    if (has_text) return 0;
    return api_error_set(r->err, API_BAD_REQUEST, "messages", "messages[%u].content holds a part without 'text'",
                         message_idx);
}

static int check_content(struct field_reader *r, enum json_event first, uint32_t message_idx) {
    if (first == JSON_STRING || first == JSON_NULL) return 0;
    if (first != JSON_ARRAY_BEGIN)
        return api_error_set(r->err, API_BAD_REQUEST, "messages",
                             "messages[%u].content must be a string or an array of parts", message_idx);
    for (enum json_event event = json_next(&r->json); event != JSON_ARRAY_END; event = json_next(&r->json)) {
        if (event != JSON_OBJECT_BEGIN)
            return api_error_set(r->err, API_BAD_REQUEST, "messages", "messages[%u].content: a part must be an object",
                                 message_idx);
        if (check_part(r, message_idx)) return -1;
    }
    return 0;
}

static bool known_role(struct bytes role) {
    static const char *const ROLES[] = {"system", "developer", "user", "assistant", "tool", "function"};
    for (size_t i = 0; i < ARRAY_LEN(ROLES); i++)
        if (bytes_equal(role, bytes_str(ROLES[i]))) return true;
    return false;
}

static int check_message(struct field_reader *r, uint32_t message_idx) {
    bool has_role = false, has_content = false, is_assistant = false;
    for (enum json_event event = json_next(&r->json); event != JSON_OBJECT_END; event = json_next(&r->json)) {
        if (event != JSON_KEY) return field_wrong_type(r, "an array of messages", event);
        bool is_role = bytes_equal(r->json.text, bytes_str("role")),
             is_content = bytes_equal(r->json.text, bytes_str("content"));
        event = json_next(&r->json);
        if (is_role && (event != JSON_STRING || !known_role(r->json.text)))
            return api_error_set(r->err, API_BAD_REQUEST, "messages",
                                 "messages[%u].role must be system, developer, user, assistant, tool or function",
                                 message_idx);
        has_role |= is_role;
        is_assistant |= is_role && bytes_equal(r->json.text, bytes_str("assistant"));
        has_content |= is_content && event != JSON_NULL;
        if (is_content ? check_content(r, event, message_idx) : field_span(r, event, NULL)) return -1;
    }
    if (!has_role) return api_error_set(r->err, API_BAD_REQUEST, "messages", "messages[%u] has no 'role'", message_idx);
    if (!has_content && !is_assistant)
        return api_error_set(r->err, API_BAD_REQUEST, "messages", "messages[%u] has no 'content'", message_idx);
    return 0;
}

int field_read_messages(struct field_reader *r, enum json_event first) {
    size_t begin = r->json.offset;
    uint32_t count = 0;
    if (first != JSON_ARRAY_BEGIN) return field_wrong_type(r, "an array of messages", first);
    for (enum json_event event = json_next(&r->json); event != JSON_ARRAY_END; event = json_next(&r->json)) {
        if (event != JSON_OBJECT_BEGIN)
            return api_error_set(r->err, API_BAD_REQUEST, "messages", "messages[%u] must be an object", count);
        if (count == GENREQ_MESSAGES_MAX)
            return api_error_set(r->err, API_BAD_REQUEST, "messages", "more than %d messages", GENREQ_MESSAGES_MAX);
        if (check_message(r, count++)) return -1;
    }
    if (count == 0) return api_error_set(r->err, API_BAD_REQUEST, "messages", "'messages' is empty");
    r->g->messages = bytes_of(r->json.start + begin, r->json.offset + r->json.raw.len - begin);
    return 0;
}

int field_read_tools(struct field_reader *r, enum json_event first) {
    uint32_t count = 0;
    size_t begin = r->json.offset;
    if (first != JSON_ARRAY_BEGIN) return field_wrong_type(r, "an array of tools", first);
    for (enum json_event event = json_next(&r->json); event != JSON_ARRAY_END; event = json_next(&r->json), count++) {
        if (event != JSON_OBJECT_BEGIN)
            return api_error_set(r->err, API_BAD_REQUEST, "tools", "tools[%u] must be an object", count);
        if (field_span(r, event, NULL)) return -1;
    }
    if (count > 0) r->g->tools = bytes_of(r->json.start + begin, r->json.offset + r->json.raw.len - begin);
    return 0;
}

static int read_tool_choice(struct field_reader *r, enum json_event first) {
    bool none = first == JSON_STRING && bytes_equal(r->json.text, bytes_str("none"));
    if (none) r->g->tool_choice_none = true;
    if (none || (first == JSON_STRING && bytes_equal(r->json.text, bytes_str("auto")))) return 0;
    return api_error_set(r->err, API_UNSUPPORTED, "tool_choice",
                         "'tool_choice' other than \"none\" and \"auto\" is not offered yet");
}

int field_read_reasoning_effort(struct field_reader *r, enum json_event first) {
    static const char *const EFFORTS[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    if (field_string(r, first, GENREQ_NAME_MAX, &r->g->reasoning_effort)) return -1;
    for (size_t i = 0; i < ARRAY_LEN(EFFORTS); i++)
        if (bytes_equal(r->g->reasoning_effort, bytes_str(EFFORTS[i]))) return 0;
    return api_error_set(r->err, API_BAD_REQUEST, "reasoning_effort",
                         "'reasoning_effort' must be none, minimal, low, medium, high, xhigh or max");
}

#define AT FIELD_AT
static const struct field rows[] = {
    FIELD_ROWS_SHARED,
    FIELD_ROWS_TEMPLATE,
    {.name = "max_completion_tokens",
     .kind = FIELD_INT,
     .offset = AT(max_completion_tokens),
     .min = 1,
     .max = WIRE_MAX_TOKENS,
     .given = GENREQ_MAX_COMPLETION_TOKENS},
    {.name = "logprobs", .kind = FIELD_BOOL, .offset = AT(logprobs)},
    {.name = "top_logprobs",
     .kind = FIELD_INT,
     .offset = AT(top_logprobs),
     .min = 0,
     .max = GENREQ_TOP_LOGPROBS_MAX,
     .given = GENREQ_TOP_LOGPROBS},
    {.name = "tool_choice", .kind = FIELD_CUSTOM, .read = read_tool_choice},
    {.name = "parallel_tool_calls", .kind = FIELD_BOOL, .offset = AT(parallel_tool_calls)},
    {.name = "include_reasoning", .kind = FIELD_BOOL, .offset = AT(include_reasoning)},
    {.name = "separate_reasoning", .kind = FIELD_BOOL, .offset = AT(separate_reasoning)},
    {.name = "functions", .kind = FIELD_REFUSED},
    {.name = "function_call", .kind = FIELD_REFUSED},
    {.name = "audio", .kind = FIELD_REFUSED},
    {.name = "echo", .kind = FIELD_REFUSED},
};

int openai_chat_parse(struct genreq *g, struct bytes body, struct api_error *err) {
    if (field_read_all(g, rows, ARRAY_LEN(rows), body, err)) return -1;
    if (g->messages.len == 0) return api_error_set(err, API_BAD_REQUEST, "messages", "'messages' is missing");
    if (g->tool_choice_none) g->tools = bytes_of(NULL, 0); /* a model that must not call is not tempted */
    if (g->given & GENREQ_TOP_LOGPROBS && g->top_logprobs > 0 && !g->logprobs)
        return api_error_set(err, API_BAD_REQUEST, "top_logprobs", "'top_logprobs' needs 'logprobs': true");
    if (g->continue_final_message && g->add_generation_prompt)
        return api_error_set(err, API_BAD_REQUEST, "continue_final_message",
                             "'continue_final_message' needs 'add_generation_prompt': false");
    return 0;
}
