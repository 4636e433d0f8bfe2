/* What an answer must look like, as OpenAI, vLLM, SGLang, llama.cpp, TGI and Ollama let clients say
 * it. One of them a request. */
#include "gateway/field.h"

static const char ANY_OBJECT[] = "{\"type\":\"object\"}";

static int set(struct field_reader *r, enum constraint_kind kind, struct bytes text) {
    struct genreq_constraint *c = &r->g->constraint;
    if (c->kind != CONSTRAINT_NONE)
        return api_error_set(r->err, API_BAD_REQUEST, r->name,
                             "'%s' and '%s' cannot both be given: an answer has one constraint",
                             c->field, r->name);
    const void *copy = arena_copy(&r->g->arena, text.data, text.len);
    if (!copy)
        return field_too_large(r);
    *c = (struct genreq_constraint){kind, bytes_of(copy, text.len), r->name};
    return 0;
}

/* A string's content; empty: nothing is asked for. */
static int read_text(struct field_reader *r, enum json_event first, enum constraint_kind kind) {
    if (first != JSON_STRING)
        return field_wrong_type(r, "a string", first);
    return r->json.text.len ? set(r, kind, r->json.text) : 0;
}

/* JSON as it stands, or in a string. */
static int read_json(struct field_reader *r, enum json_event first, enum constraint_kind kind) {
    struct bytes raw;
    struct error err;
    if (first == JSON_STRING) {
        if (json_scan(r->json.text, GENREQ_DEPTH_MAX, &err))
            return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' is no JSON: %s", r->name,
                                 err.text);
        return set(r, kind, r->json.text);
    }
    bool schema = kind == CONSTRAINT_SCHEMA && (first == JSON_TRUE || first == JSON_FALSE);
    if (first != JSON_OBJECT_BEGIN && !schema)
        return field_wrong_type(r, "an object, or a string of JSON", first);
    return field_span(r, first, &raw) ? -1 : set(r, kind, raw);
}

static int read_schema(struct field_reader *r, enum json_event first) {
    return read_json(r, first, CONSTRAINT_SCHEMA);
}
static int read_regex(struct field_reader *r, enum json_event first) {
    return read_text(r, first, CONSTRAINT_REGEX);
}
static int read_gbnf(struct field_reader *r, enum json_event first) {
    return read_text(r, first, CONSTRAINT_GRAMMAR);
}
static int read_structure(struct field_reader *r, enum json_event first) {
    return read_json(r, first, CONSTRAINT_STRUCTURE);
}

static int read_object_flag(struct field_reader *r, enum json_event first) {
    if (first != JSON_TRUE && first != JSON_FALSE)
        return field_wrong_type(r, "a boolean", first);
    return first == JSON_TRUE ? set(r, CONSTRAINT_SCHEMA, bytes_str(ANY_OBJECT)) : 0;
}

static int read_choice(struct field_reader *r, enum json_event first) {
    size_t begin = r->json.offset;
    uint32_t count = 0;
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of strings", first);
    for (enum json_event event; (event = json_next(&r->json)) != JSON_ARRAY_END; count++)
        if (event != JSON_STRING)
            return field_wrong_type(r, "an array of strings", event);
    if (count == 0)
        return 0;
    return set(r, CONSTRAINT_CHOICE,
               bytes_of(r->json.start + begin, r->json.offset + r->json.raw.len - begin));
}

/* ---- objects that say it by a member ---- */

/* Members of an object that begins at the reader: spans of those asked for; empty: absent or null.
 * The object's own span is *whole. */
static int read_members(struct field_reader *r, enum json_event first, const char *const *names,
                        struct bytes *values, size_t count, struct bytes *whole) {
    size_t begin = r->json.offset;
    if (first != JSON_OBJECT_BEGIN)
        return field_wrong_type(r, "an object", first);
    for (enum json_event event = json_next(&r->json); event != JSON_OBJECT_END;
         event = json_next(&r->json)) {
        struct bytes *out = NULL;
        if (event != JSON_KEY)
            return field_wrong_type(r, "an object", event);
        for (size_t i = 0; i < count; i++)
            if (bytes_equal(r->json.text, bytes_str(names[i])))
                out = &values[i];
        event = json_next(&r->json);
        if (field_span(r, event, event == JSON_NULL ? NULL : out))
            return -1;
    }
    *whole = bytes_of(r->json.start + begin, r->json.offset + r->json.raw.len - begin);
    return 0;
}

/* Reads a span by the reader of a field. */
static int read_span(struct field_reader *r, struct bytes span,
                     int (*read)(struct field_reader *r, enum json_event first)) {
    struct field_reader inner = *r;
    json_reader_init(&inner.json, span, GENREQ_DEPTH_MAX, 0);
    int rc = read(&inner, json_next(&inner.json));
    json_reader_release(&inner.json);
    return rc;
}

static bool is_string(struct bytes raw, const char *text) {
    size_t len = strlen(text);
    return raw.len == len + 2 && raw.data[0] == '"' && !memcmp(raw.data + 1, text, len);
}

static int read_named_schema(struct field_reader *r, enum json_event first) {
    static const char *const NAMES[] = {"schema"};
    struct bytes schema = {0}, whole;
    if (read_members(r, first, NAMES, &schema, 1, &whole))
        return -1;
    if (!schema.len)
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s.json_schema' needs a 'schema'",
                             r->name);
    return read_span(r, schema, read_schema);
}

int field_response_format(struct field_reader *r, enum json_event first) {
    static const char *const NAMES[] = {"type", "json_schema", "schema"};
    struct bytes values[3] = {{0}}, whole;
    if (read_members(r, first, NAMES, values, 3, &whole))
        return -1;
    if (is_string(values[0], "text"))
        return 0;
    if (is_string(values[0], "json_schema") && values[1].len)
        return read_span(r, values[1], read_named_schema);
    if (is_string(values[0], "json_schema") || is_string(values[0], "json_object")) {
        if (values[2].len)
            return read_span(r, values[2], read_schema);
        if (is_string(values[0], "json_object"))
            return set(r, CONSTRAINT_SCHEMA, bytes_str(ANY_OBJECT));
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' needs a 'json_schema'",
                             r->name);
    }
    if (is_string(values[0], "structural_tag"))
        return set(r, CONSTRAINT_STRUCTURE, whole);
    if (!values[0].len || values[0].data[0] != '"')
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s.type' must be a string",
                             r->name);
    return api_error_set(r->err, API_UNSUPPORTED, r->name,
                         "'%s.type' must be text, json_object, json_schema or structural_tag",
                         r->name);
}

/* vLLM's object of one of these. */
static int read_structured(struct field_reader *r, enum json_event first) {
    static const char *const NAMES[] = {"json",
                                        "regex",
                                        "choice",
                                        "grammar",
                                        "json_object",
                                        "structural_tag",
                                        "whitespace_pattern"};
    static int (*const READ[])(struct field_reader *, enum json_event) = {
        read_schema, read_regex, read_choice, read_gbnf, read_object_flag, read_structure};
    struct bytes values[ARRAY_LEN(NAMES)] = {{0}}, whole;
    if (read_members(r, first, NAMES, values, ARRAY_LEN(NAMES), &whole))
        return -1;
    if (values[ARRAY_LEN(READ)].len)
        return api_error_set(r->err, API_UNSUPPORTED, r->name,
                             "'%s.whitespace_pattern' is not offered by this server", r->name);
    for (size_t i = 0; i < ARRAY_LEN(READ); i++)
        if (values[i].len && read_span(r, values[i], READ[i]))
            return -1;
    return 0;
}

/* llama.cpp's text, or {"type", "value"} of TGI and mistral.rs. */
static int read_grammar(struct field_reader *r, enum json_event first) {
    static const char *const NAMES[] = {"type", "value"};
    struct bytes values[2] = {{0}}, whole;
    if (first != JSON_OBJECT_BEGIN)
        return read_gbnf(r, first);
    if (read_members(r, first, NAMES, values, 2, &whole))
        return -1;
    if (values[1].len && is_string(values[0], "regex"))
        return read_span(r, values[1], read_regex);
    if (values[1].len && (is_string(values[0], "json") || is_string(values[0], "json_schema")))
        return read_span(r, values[1], read_schema);
    return api_error_set(r->err, API_UNSUPPORTED, r->name,
                         "'%s' must be a string, or have type regex, json or json_schema and a "
                         "value",
                         r->name);
}

/* Ollama's "json", or a schema. */
static int read_format(struct field_reader *r, enum json_event first) {
    if (first != JSON_STRING)
        return read_schema(r, first);
    if (bytes_equal(r->json.text, bytes_str("json")))
        return set(r, CONSTRAINT_SCHEMA, bytes_str(ANY_OBJECT));
    return r->json.text.len ? api_error_set(r->err, API_UNSUPPORTED, r->name,
                                            "'%s' must be \"json\" or a schema", r->name)
                            : 0;
}

/* clang-format off */
static const struct field rows[] = {
    CUSTOM_FIELD("response_format", field_response_format),
    CUSTOM_FIELD("structured_outputs", read_structured),
    CUSTOM_FIELD("guided_json", read_schema),
    CUSTOM_FIELD("guided_json_object", read_object_flag),
    CUSTOM_FIELD("guided_regex", read_regex),
    CUSTOM_FIELD("guided_choice", read_choice),
    CUSTOM_FIELD("guided_grammar", read_gbnf),
    CUSTOM_FIELD("json_schema", read_schema),
    CUSTOM_FIELD("grammar", read_grammar),
    CUSTOM_FIELD("ebnf", read_gbnf),
    CUSTOM_FIELD("regex", read_regex),
    CUSTOM_FIELD("format", read_format),
};
/* clang-format on */

const struct field_table field_constraint = {rows, ARRAY_LEN(rows)};
