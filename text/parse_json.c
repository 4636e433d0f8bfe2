/* Calls as JSON: objects with a name and arguments, one or several, or a list of them; and forms that carry JSON
 * arguments. */
#include "formats/json.h"
#include "text/parse_internal.h"

static size_t keep(struct call_reader *r, struct bytes s) {
    size_t at = r->made.len;
    buf_add_bytes(&r->made, s);
    return at;
}

/* Markup in a name means that something was misread. */
static bool is_name(struct bytes s) {
    for (size_t i = 0; i < s.len; i++)
        if (is_blank(s.data[i]) || strchr("<>{}[]()\"'", s.data[i])) return false;
    return s.len > 0;
}

bool read_add(struct call_reader *r, struct bytes id, struct bytes name, struct bytes arguments) {
    arguments = arguments.len ? strip_blank(arguments) : bytes_str("{}");
    name = strip_blank(name);
    if (!is_name(name) || !json_is_object(arguments)) return false;
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
};

static bool is_one_of(struct bytes key, const char *const *names) {
    for (; *names; names++)
        if (bytes_equal(key, bytes_str(*names))) return true;
    return false;
}

/* The raw text of the value that comes next. */
static bool take_value(struct json_reader *j, enum json_event event, struct bytes *raw) {
    size_t begin = j->offset;
    if (event == JSON_ERROR || event == JSON_END) return false;
    if ((event == JSON_OBJECT_BEGIN || event == JSON_ARRAY_BEGIN) && !json_skip(j)) return false;
    *raw = bytes_of(j->start + begin, j->offset + j->raw.len - begin);
    return true;
}

/* Arguments: an object, null, or either as JSON in a string. */
static bool take_arguments(struct json_reader *j, struct json_call *c) {
    enum json_event event = json_next(j);
    struct bytes raw;
    c->has_arguments = true;
    buf_reset(&c->arguments);
    if (event == JSON_STRING) {
        if (!bytes_equal(j->text, bytes_str("null"))) buf_add_bytes(&c->arguments, j->text);
        return true;
    }
    if (!take_value(j, event, &raw)) return false;
    if (event != JSON_NULL) buf_add_bytes(&c->arguments, raw);
    return event == JSON_OBJECT_BEGIN || event == JSON_NULL;
}

static bool read_members(struct json_reader *j, struct json_call *c, unsigned depth) {
    static const char *const NAMES[] = {"name", "tool_name", "function", NULL}, *const ARGUMENTS[] = {"arguments",
                                                                                                      "parameters",
                                                                                                      "args", NULL};
    enum json_event event;
    struct bytes ignored;
    while ((event = json_next(j)) == JSON_KEY) {
        bool is_function = bytes_equal(j->text, bytes_str("function"));
        if (is_one_of(j->text, ARGUMENTS)) {
            if (!take_arguments(j, c)) return false;
        } else if (is_one_of(j->text, NAMES)) {
            event = json_next(j);
            if (event == JSON_OBJECT_BEGIN && is_function && depth == 0) {
                if (!read_members(j, c, 1)) return false; /* OpenAI's own form */
                continue;
            }
            if (event != JSON_STRING) return false;
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
        ok = take_value(j, json_next(j), &raw) && read_add(r, bytes_of(NULL, 0), buf_bytes(&name), raw);
        buf_release(&name);
    }
    return ok && event == JSON_OBJECT_END;
}

enum object_form { FORM_LOOSE, FORM_STRICT, FORM_KEYED };

static bool read_one(struct call_reader *r, struct json_reader *j, enum object_form form) {
    return form == FORM_KEYED ? read_keyed_object(r, j) : read_object(r, j, form == FORM_STRICT);
}

/* One JSON value at the beginning of text; its length, 0: it is none. */
static size_t read_value(struct call_reader *r, struct bytes text, enum object_form form) {
    struct json_reader j;
    json_reader_init(&j, text, PARSE_DEPTH_MAX, JSON_ALLOW_NUL);
    enum json_event event = json_next(&j);
    bool ok = event == JSON_OBJECT_BEGIN || event == JSON_ARRAY_BEGIN;
    if (event == JSON_OBJECT_BEGIN) ok = read_one(r, &j, form);
    while (ok && event == JSON_ARRAY_BEGIN) {
        enum json_event item = json_next(&j);
        if (item == JSON_ARRAY_END) break;
        ok = item == JSON_OBJECT_BEGIN && read_one(r, &j, form);
    }
    size_t len = j.offset + j.raw.len;
    json_reader_release(&j);
    return ok ? len : 0;
}

/* Values one after another, with commas, semicolons or only white space between them. */
static bool read_values(struct call_reader *r, struct bytes body, enum object_form form) {
    for (body = strip_blank(body); body.len; body = strip_blank(body)) {
        size_t len = read_value(r, body, form);
        if (!len) return false;
        body = strip_blank(bytes_from(body, len));
        if (body.len && (body.data[0] == ';' || body.data[0] == ',')) body = bytes_from(body, 1);
    }
    return true;
}

bool read_json(struct call_reader *r, struct bytes body) { return read_values(r, body, FORM_LOOSE); }
bool read_json_strict(struct call_reader *r, struct bytes body) { return read_values(r, body, FORM_STRICT); }
bool read_keyed(struct call_reader *r, struct bytes body) { return read_values(r, body, FORM_KEYED); }

/* {"name" or another key of a call; [ before it for a list */
bool json_may_be(struct bytes body) {
    static const char *const KEYS[] = {"name\"", "type\"", "function\"", "parameters\"", "arguments\"", "id\"", NULL};
    size_t at = 0;
    while (at < body.len && (is_blank(body.data[at]) || body.data[at] == '[')) at++;
    if (at == body.len) return true;
    if (body.data[at++] != '{') return false;
    while (at < body.len && is_blank(body.data[at])) at++;
    if (at == body.len) return true;
    if (body.data[at++] != '"') return false;
    struct bytes rest = bytes_from(body, at);
    for (const char *const *key = KEYS; *key; key++)
        if (!memcmp(*key, rest.data, MIN(rest.len, strlen(*key)))) return true;
    return rest.len == 0;
}

/* ---- a name, then JSON ---- */

/* Splits at the first mark; false: it is not there. */
static bool split(struct bytes s, const char *mark, struct bytes *before, struct bytes *after) {
    size_t at = find_bytes(s, bytes_str(mark), 0);
    if (at == SIZE_MAX) return false;
    *before = bytes_of(s.data, at);
    *after = bytes_from(s, at + strlen(mark));
    return true;
}

static struct bytes strip_fence(struct bytes s) {
    s = strip_blank(s);
    if (begins_with(s, bytes_str("```json"))) s = bytes_from(s, 7);
    if (s.len >= 3 && !memcmp(s.data + s.len - 3, "```", 3)) s.len -= 3;
    return strip_blank(s);
}

bool read_deepseek(struct call_reader *r, struct bytes body) {
    static const char SEP[] = "<｜tool▁sep｜>";
    struct bytes name, arguments;
    if (!split(body, SEP, &name, &arguments)) return false;
    if (bytes_equal(strip_blank(name), bytes_str("function"))) { /* V3, R1: the name is on a line of its own */
        struct bytes line = arguments;
        if (split(line, "\n", &name, &arguments)) arguments = strip_fence(arguments);
    }
    return read_add(r, bytes_of(NULL, 0), name, strip_fence(arguments));
}

/* The model's own id is functions.NAME:INDEX and must come back in the conversation as it is. */
bool read_kimi(struct call_reader *r, struct bytes body) {
    struct bytes id, name, arguments, rest;
    if (!split(body, "<|tool_call_argument_begin|>", &id, &arguments)) return false;
    id = name = strip_blank(id);
    if (begins_with(name, bytes_str("functions."))) name = bytes_from(name, 10);
    for (size_t at = name.len; at-- > 0;) {
        if (name.data[at] != ':') continue;
        name.len = at;
        break;
    }
    rest = strip_blank(arguments);
    return read_add(r, id, name, rest.len ? rest : bytes_str("{}"));
}

bool read_mistral(struct call_reader *r, struct bytes body) {
    struct bytes head, rest, name, id = {0};
    body = strip_blank(body);
    if (body.len && (body.data[0] == '[' || body.data[0] == '{')) return read_json(r, body);
    size_t at = find_bytes(body, bytes_str("{"), 0);
    if (at == SIZE_MAX) return false;
    head = bytes_of(body.data, at);
    rest = bytes_from(body, at);
    if (split(head, "[ARGS]", &name, &id)) {
        if (strip_blank(id).len) return false;
        head = name;
    }
    if (!split(head, "[CALL_ID]", &name, &id)) {
        name = head;
        id = bytes_of(NULL, 0);
    }
    return read_add(r, strip_blank(id), name, rest);
}
