#include "gateway/fields/allowed_tools.h"

#include "gateway/fields/raw_value.h"

int allowed_tools_read(struct field_reader *r, enum json_event first) {
    struct bytes mode = {0}, tools = {0};
    const struct json_wanted members[] = {{"mode", &mode}, {"tools", &tools}};
    if (field_members(r, first, members, ARRAY_LEN(members), NULL))
        return -1;
    r->g->tool_choice_required = raw_is_text(mode, "required");
    if (!r->g->tool_choice_required && !raw_is_text(mode, "auto"))
        return api_error_set(r->err, API_BAD_REQUEST, "tool_choice",
                             "'mode' of allowed tools must be \"auto\" or \"required\"");
    if (!raw_is(tools, '['))
        return api_error_set(r->err, API_BAD_REQUEST, "tool_choice",
                             "'tools' of allowed tools must be an array");
    r->g->allowed_tools = tools;
    return 0;
}

/* The name of the tool begun in r, as it was written: a chat's stands in 'function', that of a response
 * beside the type. Empty: it has none, or is no function. */
static struct bytes tool_name(struct json_reader *r, enum json_event first) {
    struct bytes type = {0}, name = {0}, function = {0};
    const struct json_wanted outer[] = {{"type", &type}, {"name", &name}, {"function", &function}},
                             inner[] = {{"name", &name}};
    if (first != JSON_OBJECT_BEGIN || !json_take_members(r, outer, ARRAY_LEN(outer)) ||
        (type.len && !raw_is_text(type, "function")))
        return bytes_of(NULL, 0);
    if (raw_is(function, '{')) {
        struct json_reader f;
        json_reader_init(&f, function, GENREQ_DEPTH_MAX, 0);
        bool read = json_next(&f) == JSON_OBJECT_BEGIN && json_take_members(&f, inner, 1);
        json_reader_release(&f);
        if (!read)
            return bytes_of(NULL, 0);
    }
    return raw_is(name, '"') ? name : bytes_of(NULL, 0);
}

/* Whether one of these tools has the name; *whole (may be NULL): the tool as it was written. */
static bool find_tool(struct bytes tools, struct bytes name, struct bytes *whole) {
    struct json_reader r;
    bool found = false;
    json_reader_init(&r, tools, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    for (enum json_event event;
         !found && (event = json_next(&r)) != JSON_ARRAY_END && event != JSON_ERROR;) {
        size_t begin = r.offset;
        found = bytes_equal(tool_name(&r, event), name);
        if (found && whole)
            *whole = json_since(&r, begin);
    }
    json_reader_release(&r);
    return found;
}

/* Adds the allowed tool begun by `first`. */
static int add_allowed(const struct genreq *g, struct json_reader *r, enum json_event first,
                       struct buf *out, struct api_error *err) {
    struct bytes name = tool_name(r, first), whole = {0};
    if (!name.len)
        return api_error_set(err, API_UNSUPPORTED, "tool_choice",
                             "an allowed tool must be a function with a name");
    if (!find_tool(g->tools, name, &whole))
        return api_error_set(err, API_BAD_REQUEST, "tool_choice",
                             "the allowed tool %.*s is not among 'tools'",
                             (int)MIN(name.len, (size_t)100), (const char *)name.data);
    buf_add_byte(out, out->len ? ',' : '[');
    buf_add_bytes(out, whole);
    return 0;
}

int allowed_tools_apply(struct genreq *g, struct api_error *err) {
    struct json_reader r;
    struct buf out = {0};
    int rc = 0;
    if (!g->allowed_tools.len)
        return 0;
    json_reader_init(&r, g->allowed_tools, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    for (enum json_event event; !rc && (event = json_next(&r)) != JSON_ARRAY_END;)
        rc = add_allowed(g, &r, event, &out, err);
    json_reader_release(&r);
    if (!rc && !out.len)
        rc =
            api_error_set(err, API_BAD_REQUEST, "tool_choice", "'tools' of allowed tools is empty");
    if (!rc) {
        buf_add_byte(&out, ']');
        rc = genreq_keep(g, &out, &g->tools, err);
    }
    buf_release(&out);
    return rc;
}
