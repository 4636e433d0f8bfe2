#include "gateway/fields/allowed_tools.h"

#include "gateway/fields/raw_value.h"

/* A tool that is named again and again must not be copied as often, nor all be sought for each. */
enum { ALLOWED_TOOLS_MAX = 256 };

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

/* What is allowed, each name once. */
struct allowed {
    struct bytes names[ALLOWED_TOOLS_MAX];
    struct bytes tools[ALLOWED_TOOLS_MAX]; /* as they were written; empty: not found yet */
    size_t count;
};

static size_t place_of(const struct allowed *a, struct bytes name) {
    size_t at = 0;
    while (at < a->count && !bytes_equal(a->names[at], name))
        at++;
    return at;
}

static int add_name(struct allowed *a, struct bytes name, struct api_error *err) {
    if (!name.len)
        return api_error_set(err, API_UNSUPPORTED, "tool_choice",
                             "an allowed tool must be a function with a name");
    if (place_of(a, name) < a->count)
        return 0;
    if (a->count == ALLOWED_TOOLS_MAX)
        return api_error_set(err, API_BAD_REQUEST, "tool_choice",
                             "'tool_choice' allows more than %d tools", ALLOWED_TOOLS_MAX);
    a->names[a->count++] = name;
    return 0;
}

static int read_names(struct bytes list, struct allowed *a, struct api_error *err) {
    struct json_reader r;
    int rc = 0;
    json_reader_init(&r, list, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    for (enum json_event event; !rc && (event = json_next(&r)) != JSON_ARRAY_END;)
        rc = add_name(a, tool_name(&r, event), err);
    json_reader_release(&r);
    return rc;
}

/* Each name's first tool. */
static void find_tools(struct bytes tools, struct allowed *a) {
    struct json_reader r;
    json_reader_init(&r, tools, GENREQ_DEPTH_MAX, 0);
    (void)json_next(&r);
    for (enum json_event event; (event = json_next(&r)) != JSON_ARRAY_END && event != JSON_ERROR;) {
        size_t begin = r.offset, place = place_of(a, tool_name(&r, event));
        if (place < a->count && !a->tools[place].len)
            a->tools[place] = json_since(&r, begin);
    }
    json_reader_release(&r);
}

int allowed_tools_apply(struct genreq *g, struct api_error *err) {
    struct allowed a = {0};
    struct buf out = {0};
    if (!g->allowed_tools.len)
        return 0;
    int rc = read_names(g->allowed_tools, &a, err);
    if (!rc && !a.count)
        rc =
            api_error_set(err, API_BAD_REQUEST, "tool_choice", "'tools' of allowed tools is empty");
    if (!rc && g->tools.len)
        find_tools(g->tools, &a);
    for (size_t i = 0; !rc && i < a.count; i++) {
        buf_add_byte(&out, i ? ',' : '[');
        buf_add_bytes(&out, a.tools[i]);
        if (!a.tools[i].len)
            rc = api_error_set(
                err, API_BAD_REQUEST, "tool_choice", "the allowed tool %.*s is not among 'tools'",
                (int)MIN(a.names[i].len, (size_t)100), (const char *)a.names[i].data);
    }
    if (!rc) {
        buf_add_byte(&out, ']');
        rc = genreq_keep(g, &out, &g->tools, err);
    }
    buf_release(&out);
    return rc;
}
