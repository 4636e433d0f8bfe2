/* The fields that a chat template is rendered with: messages, tools and the like. */
#include "gateway/fields/field.h"
#include "gateway/fields/raw_value.h"

#include "text/template/template.h"

/* A content part: text alone for now, whatever its type calls it. */
struct content_part {
    bool has_text, has_refusal;
    bool refuses; /* by its type: its text is 'refusal' */
};

/* False: a part of this type is no text. */
static bool read_content_part_type(struct content_part *p, struct bytes type) {
    static const char *const TEXTS[] = {"text", "input_text", "output_text"};
    p->refuses = bytes_equal(type, bytes_str("refusal"));
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++)
        if (bytes_equal(type, bytes_str(TEXTS[i])))
            return true;
    return p->refuses;
}

/* One member, whose key was read. */
static int check_content_part_member(struct field_reader *r, uint32_t message_idx,
                                     struct content_part *p) {
    bool is_type = bytes_equal(r->json.text, bytes_str("type"));
    bool is_text = bytes_equal(r->json.text, bytes_str("text"));
    bool is_refusal = bytes_equal(r->json.text, bytes_str("refusal"));
    enum json_event event = json_next(&r->json);
    if (is_type && (event != JSON_STRING || !read_content_part_type(p, r->json.text)))
        return api_error_set(r->err, API_UNSUPPORTED, "messages",
                             "messages[%u].content holds a part that is not text", message_idx);
    if ((is_text || is_refusal) && event != JSON_STRING)
        return api_error_set(r->err, API_BAD_REQUEST, "messages",
                             "messages[%u].content: '%s' must be a string", message_idx,
                             is_text ? "text" : "refusal");
    p->has_text |= is_text;
    p->has_refusal |= is_refusal;
    return field_span(r, event, NULL);
}

static int check_content_part(struct field_reader *r, uint32_t message_idx) {
    struct content_part p = {.has_text = false};
    for (enum json_event event = json_next(&r->json); event != JSON_OBJECT_END;
         event = json_next(&r->json)) {
        if (event != JSON_KEY)
            return field_wrong_type(r, "an array", event);
        if (check_content_part_member(r, message_idx, &p))
            return -1;
    }
    if (p.refuses ? p.has_refusal : p.has_text)
        return 0;
    return api_error_set(r->err, API_BAD_REQUEST, "messages",
                         "messages[%u].content holds a part without '%s'", message_idx,
                         p.refuses ? "refusal" : "text");
}

static int check_content(struct field_reader *r, enum json_event first, uint32_t message_idx) {
    if (first == JSON_STRING || first == JSON_NULL)
        return 0;
    if (first != JSON_ARRAY_BEGIN)
        return api_error_set(r->err, API_BAD_REQUEST, "messages",
                             "messages[%u].content must be a string or an array of parts",
                             message_idx);
    for (enum json_event event = json_next(&r->json); event != JSON_ARRAY_END;
         event = json_next(&r->json)) {
        if (event != JSON_OBJECT_BEGIN)
            return api_error_set(r->err, API_BAD_REQUEST, "messages",
                                 "messages[%u].content: a part must be an object", message_idx);
        if (check_content_part(r, message_idx))
            return -1;
    }
    return 0;
}

/* Ollama's place for them. */
static int check_images(struct field_reader *r, enum json_event first, uint32_t message_idx) {
    if (first == JSON_NULL || (first == JSON_ARRAY_BEGIN && json_next(&r->json) == JSON_ARRAY_END))
        return 0;
    return api_error_set(r->err, API_UNSUPPORTED, "messages",
                         "messages[%u].images is not offered by this server", message_idx);
}

static bool known_role(struct bytes role) {
    static const char *const ROLES[] = {"system",    "developer", "user",
                                        "assistant", "tool",      "function"};
    for (size_t i = 0; i < ARRAY_LEN(ROLES); i++)
        if (bytes_equal(role, bytes_str(ROLES[i])))
            return true;
    return false;
}

static int check_message(struct field_reader *r, uint32_t message_idx) {
    bool has_role = false, has_content = false, is_assistant = false;
    for (enum json_event event = json_next(&r->json); event != JSON_OBJECT_END;
         event = json_next(&r->json)) {
        if (event != JSON_KEY)
            return field_wrong_type(r, "an array of messages", event);
        bool is_role = bytes_equal(r->json.text, bytes_str("role")),
             is_content = bytes_equal(r->json.text, bytes_str("content")),
             is_images = bytes_equal(r->json.text, bytes_str("images"));
        event = json_next(&r->json);
        if (is_role && (event != JSON_STRING || !known_role(r->json.text)))
            return api_error_set(
                r->err, API_BAD_REQUEST, "messages",
                "messages[%u].role must be system, developer, user, assistant, tool or function",
                message_idx);
        has_role |= is_role;
        is_assistant |= is_role && bytes_equal(r->json.text, bytes_str("assistant"));
        has_content |= is_content && event != JSON_NULL;
        int rc = is_content  ? check_content(r, event, message_idx)
                 : is_images ? check_images(r, event, message_idx)
                             : field_span(r, event, NULL);
        if (rc)
            return -1;
    }
    if (!has_role)
        return api_error_set(r->err, API_BAD_REQUEST, "messages", "messages[%u] has no 'role'",
                             message_idx);
    if (!has_content && !is_assistant)
        return api_error_set(r->err, API_BAD_REQUEST, "messages", "messages[%u] has no 'content'",
                             message_idx);
    return 0;
}

int field_messages(struct field_reader *r, enum json_event first) {
    size_t begin = r->json.offset;
    uint32_t count = 0;
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of messages", first);
    for (enum json_event event = json_next(&r->json); event != JSON_ARRAY_END;
         event = json_next(&r->json)) {
        if (event != JSON_OBJECT_BEGIN)
            return api_error_set(r->err, API_BAD_REQUEST, "messages",
                                 "messages[%u] must be an object", count);
        if (count == GENREQ_MESSAGES_MAX)
            return api_error_set(r->err, API_BAD_REQUEST, "messages", "more than %d messages",
                                 GENREQ_MESSAGES_MAX);
        if (check_message(r, count++))
            return -1;
    }
    if (count == 0)
        return api_error_set(r->err, API_BAD_REQUEST, "messages", "'messages' is empty");
    r->g->messages = json_since(&r->json, begin);
    return 0;
}

/* Functions alone: nothing else is run or known here. */
static int check_tool(struct field_reader *r, enum json_event first, uint32_t idx) {
    struct bytes type = {0};
    const struct json_wanted members[] = {{"type", &type}};
    if (field_members(r, first, members, ARRAY_LEN(members), NULL))
        return -1;
    if (!type.len || raw_is_text(type, "function"))
        return 0;
    return api_error_set(r->err, API_UNSUPPORTED, "tools",
                         "tools[%u]: tools of type %.*s are not offered by this server", idx,
                         (int)MIN(type.len, (size_t)64), (const char *)type.data);
}

static int read_tools(struct field_reader *r, enum json_event first) {
    uint32_t count = 0;
    size_t begin = r->json.offset;
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of tools", first);
    for (enum json_event event = json_next(&r->json); event != JSON_ARRAY_END;
         event = json_next(&r->json), count++) {
        if (event != JSON_OBJECT_BEGIN)
            return api_error_set(r->err, API_BAD_REQUEST, "tools", "tools[%u] must be an object",
                                 count);
        if (check_tool(r, event, count))
            return -1;
    }
    if (count > 0)
        r->g->tools = json_since(&r->json, begin);
    return 0;
}

int field_reasoning_effort(struct field_reader *r, enum json_event first) {
    static const char *const EFFORTS[] = {"none", "minimal", "low", "medium",
                                          "high", "xhigh",   "max"};
    struct bytes before = r->g->reasoning_effort;
    if (field_string(r, first, GENREQ_NAME_MAX, &r->g->reasoning_effort))
        return -1;
    if (before.len && !bytes_equal(before, r->g->reasoning_effort))
        return field_disagrees(r);
    for (size_t i = 0; i < ARRAY_LEN(EFFORTS); i++)
        if (bytes_equal(r->g->reasoning_effort, bytes_str(EFFORTS[i])))
            return 0;
    return api_error_set(r->err, API_BAD_REQUEST, r->name,
                         "'%s' must be none, minimal, low, medium, high, xhigh or max", r->name);
}

int field_verbosity(struct field_reader *r, enum json_event first) {
    static const char *const WORDS[] = {"low", "medium", "high"};
    for (size_t i = 0; first == JSON_STRING && i < ARRAY_LEN(WORDS); i++)
        if (bytes_equal(r->json.text, bytes_str(WORDS[i]))) {
            r->g->verbosity = WORDS[i];
            return 0;
        }
    return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' must be low, medium or high",
                         r->name);
}

int field_apply_verbosity(struct genreq *g, struct api_error *err) {
    struct buf kwargs = {0};
    struct json_reader r;
    if (!g->verbosity)
        return 0;
    json_reader_init(&r, g->template_kwargs, GENREQ_DEPTH_MAX, 0);
    bool more = json_next(&r) == JSON_OBJECT_BEGIN && json_next(&r) == JSON_KEY;
    json_reader_release(&r);
    buf_addf(&kwargs, "{\"verbosity\":\"%s\"", g->verbosity);
    if (more) {
        buf_add_byte(&kwargs, ',');
        buf_add(&kwargs, g->template_kwargs.data + 1, g->template_kwargs.len - 1);
    } else {
        buf_add_byte(&kwargs, '}');
    }
    int rc = genreq_keep(g, &kwargs, &g->template_kwargs, err);
    buf_release(&kwargs);
    return rc;
}

struct bytes field_thinking_kwargs(bool on) {
    return bytes_str(on ? "{\"enable_thinking\":true,\"thinking\":true}"
                        : "{\"enable_thinking\":false,\"thinking\":false}");
}

int field_apply_thinking(struct genreq *g, const char *name, struct api_error *err) {
    if (g->thinking == THINKING_AS_TEMPLATE)
        return 0;
    if (g->template_kwargs.len)
        return api_error_set(err, API_BAD_REQUEST, name,
                             "'%s' and 'chat_template_kwargs' cannot both be given", name);
    g->template_kwargs = field_thinking_kwargs(g->thinking == THINKING_ON);
    return 0;
}

/* clang-format off */
static const struct field rows[] = {
    CUSTOM_FIELD("messages", field_messages),
    CUSTOM_FIELD("tools", read_tools),
    CUSTOM_FIELD("reasoning_effort", field_reasoning_effort),
    ARRAY_FIELD("documents", documents),
    OBJECT_FIELD("chat_template_kwargs", template_kwargs),
    BOOL_FIELD("add_generation_prompt", add_generation_prompt, 0),
    BOOL_FIELD("continue_final_message", continue_final_message, 0),
    STRING_FIELD("chat_template", chat_template, TEMPLATE_SOURCE_MAX),
};
/* clang-format on */

const struct field_table field_template = {rows, ARRAY_LEN(rows)};
