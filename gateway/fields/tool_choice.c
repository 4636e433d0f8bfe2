#include "gateway/fields/tool_choice.h"

#include "gateway/fields/allowed_tools.h"
#include "gateway/fields/raw_value.h"

/* {"name": NAME}, the value of "function". */
static int read_function_name(struct field_reader *r, enum json_event first) {
    if (first != JSON_OBJECT_BEGIN)
        return field_wrong_type(r, "\"none\", \"auto\", \"required\" or a function", first);
    for (enum json_event event = json_next(&r->json); event == JSON_KEY;
         event = json_next(&r->json)) {
        bool is_name = bytes_equal(r->json.text, bytes_str("name"));
        event = json_next(&r->json);
        if (is_name ? field_string(r, event, GENREQ_NAME_MAX, &r->g->tool_choice_name)
                    : field_span(r, event, NULL))
            return -1;
    }
    return 0;
}

static int read_name(struct field_reader *r, enum json_event first) {
    return field_string(r, first, GENREQ_NAME_MAX, &r->g->tool_choice_name);
}

/* {"type": "function", "function": {"name": NAME}}, the same without an object for the function, or
 * {"type": "allowed_tools", "allowed_tools": ...} */
static int read_function_choice(struct field_reader *r, enum json_event first) {
    struct bytes type = {0}, function = {0}, name = {0}, allowed = {0};
    const struct json_wanted members[] = {
        {"type", &type}, {"function", &function}, {"name", &name}, {"allowed_tools", &allowed}};
    if (field_members(r, first, members, ARRAY_LEN(members), NULL))
        return -1;
    if (raw_is_text(type, "allowed_tools") && allowed.len)
        return field_of_span(r, allowed, "tool_choice", allowed_tools_read);
    if (function.len ? field_of_span(r, function, "tool_choice", read_function_name)
                     : name.len && raw_is_text(type, "function") &&
                           field_of_span(r, name, "tool_choice", read_name))
        return -1;
    if (r->g->tool_choice_name.len)
        return 0;
    return api_error_set(
        r->err, API_UNSUPPORTED, r->name,
        "'%s' must be \"none\", \"auto\", \"required\" or {\"type\": \"function\", "
        "\"function\": {\"name\": ...}}",
        r->name);
}

int tool_choice_read(struct field_reader *r, enum json_event first) {
    if (first == JSON_OBJECT_BEGIN)
        return read_function_choice(r, first);
    if (first != JSON_STRING)
        return field_wrong_type(r, "a string or an object", first);
    r->g->tool_choice_none = bytes_equal(r->json.text, bytes_str("none"));
    r->g->tool_choice_required = bytes_equal(r->json.text, bytes_str("required"));
    if (r->g->tool_choice_none || r->g->tool_choice_required ||
        bytes_equal(r->json.text, bytes_str("auto")))
        return 0;
    return api_error_set(r->err, API_UNSUPPORTED, r->name,
                         "'%s' must be \"none\", \"auto\", \"required\" or a function", r->name);
}

int tool_choice_check(const struct genreq *g, struct api_error *err) {
    if ((g->tool_choice_required || g->tool_choice_name.len) && g->tools.len == 0)
        return api_error_set(err, API_BAD_REQUEST, "tool_choice", "'tool_choice' needs 'tools'");
    if (g->tool_choice_name.len && g->constraint.kind != CONSTRAINT_NONE)
        return api_error_set(err, API_BAD_REQUEST, g->constraint.field,
                             "'%s' and a function that must be called cannot both be given",
                             g->constraint.field);
    return 0;
}
