/* Calls as JSON: objects with a name and arguments, one or several, or a list of them; and forms
 * that carry JSON arguments. */
#include "formats/json.h"
#include "text/parse/internal.h"

static size_t keep(struct call_reader *r, struct bytes s) {
    size_t at = r->made.len;
    buf_add_bytes(&r->made, s);
    return at;
}

/* Markup in a name means that something was misread. */
bool is_call_name(struct bytes s) {
    for (size_t i = 0; i < s.len; i++)
        if (is_blank(s.data[i]) || strchr("<>{}[]()\"'", s.data[i]))
            return false;
    return s.len > 0;
}

bool read_add(struct call_reader *r, struct bytes id, struct bytes name, struct bytes arguments) {
    arguments = arguments.len ? strip_blank(arguments) : bytes_str("{}");
    name = strip_blank(name);
    if (!is_call_name(name) || !json_is_object(arguments))
        return false;
    struct read_call c = {.id_len = id.len, .name_len = name.len, .arguments_len = arguments.len};
    c.id_at = keep(r, id);
    c.name_at = keep(r, name);
    c.arguments_at = keep(r, arguments);
    vec_push(&r->calls, c);
    return !r->made.failed;
}

/* ---- objects with a name and arguments ---- */

struct json_call {
    struct buf name, arguments; /* arguments: JSON text */
    bool has_arguments;
    size_t arguments_at; /* where they begin */
};

static bool is_one_of(struct bytes key, const char *const *names) {
    for (; *names; names++)
        if (bytes_equal(key, bytes_str(*names)))
            return true;
    return false;
}

/* The raw text of the value that comes next. */
static bool take_value(struct json_reader *j, enum json_event event, struct bytes *raw) {
    size_t begin = j->offset;
    if (event == JSON_ERROR || event == JSON_END)
        return false;
    if ((event == JSON_OBJECT_BEGIN || event == JSON_ARRAY_BEGIN) && !json_skip(j))
        return false;
    *raw = bytes_of(j->start + begin, j->offset + j->raw.len - begin);
    return true;
}

/* Arguments: an object, null, or either as JSON in a string. */
static bool take_arguments(struct json_reader *j, struct json_call *c) {
    enum json_event event = json_next(j);
    struct bytes raw;
    c->has_arguments = true;
    c->arguments_at = j->offset;
    buf_reset(&c->arguments);
    if (event == JSON_STRING) {
        if (!bytes_equal(j->text, bytes_str("null")))
            buf_add_bytes(&c->arguments, j->text);
        return true;
    }
    if (!take_value(j, event, &raw))
        return false;
    if (event != JSON_NULL)
        buf_add_bytes(&c->arguments, raw);
    return event == JSON_OBJECT_BEGIN || event == JSON_NULL;
}

static bool read_members(struct json_reader *j, struct json_call *c, unsigned depth) {
    static const char *const NAMES[] = {"name", "tool_name", "function", NULL},
                             *const ARGUMENTS[] = {"arguments", "parameters", "args", NULL};
    enum json_event event;
    struct bytes ignored;
    while ((event = json_next(j)) == JSON_KEY) {
        bool is_function = bytes_equal(j->text, bytes_str("function"));
        if (is_one_of(j->text, ARGUMENTS)) {
            if (!take_arguments(j, c))
                return false;
        } else if (is_one_of(j->text, NAMES)) {
            event = json_next(j);
            if (event == JSON_OBJECT_BEGIN && is_function && depth == 0) {
                if (!read_members(j, c, 1))
                    return false; /* OpenAI's own form */
                continue;
            }
            if (event != JSON_STRING)
                return false;
            buf_reset(&c->name);
            buf_add_bytes(&c->name, j->text);
        } else if (!take_value(j, json_next(j), &ignored)) {
            return false;
        }
    }
    return event == JSON_OBJECT_END;
}

static bool read_object(struct call_reader *r, struct json_reader *j, bool strict) {
    struct json_call c = {0};
    bool ok = read_members(j, &c, 0) && (c.has_arguments || !strict) &&
              read_add(r, bytes_of(NULL, 0), buf_bytes(&c.name), buf_bytes(&c.arguments));
    buf_release(&c.name);
    buf_release(&c.arguments);
    return ok;
}

/* {NAME: {arguments}, ...} */
static bool read_keyed_object(struct call_reader *r, struct json_reader *j) {
    struct bytes raw;
    enum json_event event;
    bool ok = true;
    while (ok && (event = json_next(j)) == JSON_KEY) {
        struct buf name = {0};
        buf_add_bytes(&name, j->text);
        ok = take_value(j, json_next(j), &raw) &&
             read_add(r, bytes_of(NULL, 0), buf_bytes(&name), raw);
        buf_release(&name);
    }
    return ok && event == JSON_OBJECT_END;
}

bool read_json(struct call_reader *r, struct bytes object, enum envelope envelope) {
    struct json_reader j;
    json_reader_init(&j, object, PARSE_DEPTH_MAX, JSON_ALLOW_NUL);
    bool ok = json_next(&j) == JSON_OBJECT_BEGIN;
    if (ok)
        ok = envelope == ENVELOPE_KEYED ? read_keyed_object(r, &j)
                                        : read_object(r, &j, envelope == ENVELOPE_STRICT);
    json_reader_release(&j);
    return ok;
}

/* {NAME: { */
static bool opens_keyed(struct json_reader *j, struct buf *name, size_t *at) {
    if (json_next(j) != JSON_KEY)
        return false;
    buf_add_bytes(name, j->text);
    if (json_next(j) != JSON_OBJECT_BEGIN)
        return false;
    *at = j->offset;
    return true;
}

bool json_opens_arguments(struct bytes object, enum envelope envelope, struct buf *name) {
    struct json_reader j;
    struct json_call c = {0};
    bool opened;
    json_reader_init(&j, object, PARSE_DEPTH_MAX, JSON_ALLOW_NUL);
    if (json_next(&j) != JSON_OBJECT_BEGIN)
        opened = false;
    else if (envelope == ENVELOPE_KEYED)
        opened = opens_keyed(&j, &c.name, &c.arguments_at);
    else
        opened = !read_members(&j, &c, 0) && c.has_arguments && c.name.len;
    if (opened && c.arguments_at + 1 == object.len)
        buf_add_bytes(name, buf_bytes(&c.name));
    json_reader_release(&j);
    buf_release(&c.name);
    buf_release(&c.arguments);
    return name->len;
}

/* {"name" or another key of a call; [ before it for a list */
bool json_may_be(struct bytes body) {
    static const char *const KEYS[] = {"name\"",      "type\"", "function\"", "parameters\"",
                                       "arguments\"", "id\"",   NULL};
    size_t at = 0;
    while (at < body.len && (is_blank(body.data[at]) || body.data[at] == '['))
        at++;
    if (at == body.len)
        return true;
    if (body.data[at++] != '{')
        return false;
    while (at < body.len && is_blank(body.data[at]))
        at++;
    if (at == body.len)
        return true;
    if (body.data[at++] != '"')
        return false;
    struct bytes rest = bytes_from(body, at);
    for (const char *const *key = KEYS; *key; key++)
        if (!memcmp(*key, rest.data, MIN(rest.len, strlen(*key))))
            return true;
    return rest.len == 0;
}

/* ---- a name, then JSON ---- */

/* Splits at the first mark; false: it is not there. */
static bool split(struct bytes s, const char *mark, struct bytes *before, struct bytes *after) {
    size_t at = find_bytes(s, bytes_str(mark), 0);
    if (at == SIZE_MAX)
        return false;
    *before = bytes_of(s.data, at);
    *after = bytes_from(s, at + strlen(mark));
    return true;
}

struct bytes strip_fence(struct bytes s) {
    s = strip_blank(s);
    if (s.len >= 3 && !memcmp(s.data + s.len - 3, "```", 3))
        s.len -= 3;
    return strip_blank(s);
}

bool head_function(struct bytes head, bool more, struct bytes *id, struct bytes *name) {
    struct bytes rest;
    (void)id;
    return more && split(head, ">", name, &rest) && !strip_blank(rest).len;
}

bool head_line(struct bytes head, bool more, struct bytes *id, struct bytes *name) {
    struct bytes rest;
    (void)id;
    return more && split(head, "\n", name, &rest) && !strip_blank(rest).len;
}

/* A name, a line end, { */
bool line_may_be(struct bytes body) {
    const uint8_t *end = memchr(body.data, '\n', body.len);
    size_t len = end ? (size_t)(end - body.data) : body.len;
    struct bytes rest = strip_blank(bytes_from(body, len));
    return (!body.len || is_call_name(bytes_of(body.data, len))) &&
           (!rest.len || rest.data[0] == '{');
}

bool head_deepseek(struct bytes head, bool more, struct bytes *id, struct bytes *name) {
    static const char SEP[] = "<｜tool▁sep｜>";
    struct bytes rest, fence;
    (void)id, (void)more;
    if (!split(head, SEP, name, &rest))
        return false;
    if (!bytes_equal(strip_blank(*name), bytes_str("function")))
        return !strip_blank(rest).len;
    /* V3, R1: the name is on a line of its own */
    if (!split(rest, "\n", name, &fence))
        return false;
    fence = strip_blank(fence);
    return !fence.len || bytes_equal(fence, bytes_str("```json"));
}

/* The model's own id is functions.NAME:INDEX and must come back in the conversation as it is. */
bool head_kimi(struct bytes head, bool more, struct bytes *id, struct bytes *name) {
    struct bytes rest;
    (void)more;
    if (!split(head, "<|tool_call_argument_begin|>", id, &rest) || strip_blank(rest).len)
        return false;
    *name = strip_blank(*id);
    if (begins_with(*name, bytes_str("functions.")))
        *name = bytes_from(*name, 10);
    for (size_t at = name->len; at-- > 0;) {
        if (name->data[at] != ':')
            continue;
        name->len = at;
        break;
    }
    return true;
}

bool head_solar(struct bytes head, bool more, struct bytes *id, struct bytes *name) {
    struct bytes rest, end;
    (void)more;
    return split(head, "<|tool_call:name|>", id, &rest) &&
           split(rest, "<|tool_call:args|>", name, &end) && !strip_blank(end).len;
}

bool head_plamo(struct bytes head, bool more, struct bytes *id, struct bytes *name) {
    struct bytes rest;
    (void)id;
    return more && split(head, PLAMO_NAME_END, name, &rest) &&
           bytes_equal(strip_blank(rest), bytes_str(PLAMO_ARGUMENTS));
}

bool head_mistral(struct bytes head, bool more, struct bytes *id, struct bytes *name) {
    struct bytes before, rest;
    if (!more)
        return false;
    if (split(head, "[ARGS]", &before, &rest)) {
        if (strip_blank(rest).len)
            return false;
        head = before;
    }
    if (!split(head, "[CALL_ID]", name, id))
        *name = head;
    return true;
}
