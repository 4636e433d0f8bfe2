/* What an answer must look like, as OpenAI, vLLM, SGLang, llama.cpp, TGI and Ollama let clients say
 * it. One of them a request. */
#include "gateway/fields/field.h"
#include "gateway/fields/raw_value.h"

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
int field_structural_tag(struct field_reader *r, enum json_event first) {
    return read_json(r, first, CONSTRAINT_STRUCTURE);
}

static int read_object_flag(struct field_reader *r, enum json_event first) {
    bool asked;
    if (field_bool(r, first, &asked))
        return -1;
    return asked ? set(r, CONSTRAINT_SCHEMA, bytes_str(ANY_OBJECT)) : 0;
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
    return set(r, CONSTRAINT_CHOICE, json_since(&r->json, begin));
}

/* ---- objects that say it by a member ---- */

static int read_named_schema(struct field_reader *r, enum json_event first) {
    struct bytes schema = {0};
    const struct json_wanted members[] = {{"schema", &schema}};
    if (field_members(r, first, members, 1, NULL))
        return -1;
    if (!schema.len)
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s.json_schema' needs a 'schema'",
                             r->name);
    return field_of_span(r, schema, r->name, read_schema);
}

/* TGI's value of a json_schema: {"name": ..., "schema": SCHEMA}; or the schema itself. */
static int read_value_schema(struct field_reader *r, enum json_event first) {
    struct bytes schema = {0}, whole;
    const struct json_wanted members[] = {{"schema", &schema}};
    if (first != JSON_OBJECT_BEGIN)
        return read_schema(r, first);
    if (field_members(r, first, members, 1, &whole))
        return -1;
    return field_of_span(r, schema.len ? schema : whole, r->name, read_schema);
}

static int lacks_member(struct field_reader *r, const char *member) {
    return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' needs a '%s'", r->name, member);
}

/* OpenAI's; regex and ebnf are TensorRT-LLM's and others', value is TGI's. */
int field_response_format(struct field_reader *r, enum json_event first) {
    struct bytes type = {0}, named = {0}, schema = {0}, pattern = {0}, grammar = {0}, value = {0},
                 whole;
    const struct json_wanted members[] = {
        {"type", &type},       {"json_schema", &named}, {"schema", &schema}, {"regex", &pattern},
        {"pattern", &pattern}, {"grammar", &grammar},   {"ebnf", &grammar},  {"value", &value}};
    if (field_members(r, first, members, ARRAY_LEN(members), &whole))
        return -1;
    if (raw_is_text(type, "text"))
        return 0;
    if (raw_is_text(type, "json_schema") && named.len)
        return field_of_span(r, named, r->name, read_named_schema);
    bool any_object = raw_is_text(type, "json_object") || raw_is_text(type, "json");
    if (raw_is_text(type, "json_schema") || any_object)
        return schema.len   ? field_of_span(r, schema, r->name, read_schema)
               : value.len  ? field_of_span(r, value, r->name, read_value_schema)
               : any_object ? set(r, CONSTRAINT_SCHEMA, bytes_str(ANY_OBJECT))
                            : lacks_member(r, "json_schema");
    if (raw_is_text(type, "regex"))
        return pattern.len || value.len
                   ? field_of_span(r, pattern.len ? pattern : value, r->name, read_regex)
                   : lacks_member(r, "regex");
    if (raw_is_text(type, "grammar") || raw_is_text(type, "ebnf"))
        return grammar.len || value.len
                   ? field_of_span(r, grammar.len ? grammar : value, r->name, read_gbnf)
                   : lacks_member(r, "grammar");
    if (raw_is_text(type, "structural_tag"))
        return set(r, CONSTRAINT_STRUCTURE, whole);
    if (!raw_is(type, '"'))
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s.type' must be a string",
                             r->name);
    return api_error_set(r->err, API_UNSUPPORTED, r->name,
                         "'%s.type' must be text, json_object, json_schema, structural_tag, regex "
                         "or grammar",
                         r->name);
}

/* What vLLM's object has beside the constraint, and would change the text: taken where it is off. */
static int refuse_on(struct field_reader *r, struct bytes value, const char *member) {
    if (!value.len || bytes_equal(value, bytes_str("false")))
        return 0;
    return api_error_set(r->err, API_UNSUPPORTED, r->name,
                         "'%s.%s' is not offered by this server; leave it out", r->name, member);
}

/* vLLM's object of one of these. */
static int read_structured(struct field_reader *r, enum json_event first) {
    static int (*const READ[])(struct field_reader *, enum json_event) = {
        read_schema, read_regex, read_choice, read_gbnf, read_object_flag, field_structural_tag};
    struct bytes values[ARRAY_LEN(READ)] = {{0}}, white_space = {0}, compact = {0}, closed = {0};
    const struct json_wanted members[] = {{"json", &values[0]},
                                          {"regex", &values[1]},
                                          {"choice", &values[2]},
                                          {"grammar", &values[3]},
                                          {"json_object", &values[4]},
                                          {"structural_tag", &values[5]},
                                          {"whitespace_pattern", &white_space},
                                          {"disable_any_whitespace", &compact},
                                          {"disable_additional_properties", &closed}};
    if (field_members(r, first, members, ARRAY_LEN(members), NULL))
        return -1;
    if (refuse_on(r, white_space, "whitespace_pattern") ||
        refuse_on(r, compact, "disable_any_whitespace") ||
        refuse_on(r, closed, "disable_additional_properties"))
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(READ); i++)
        if (values[i].len && field_of_span(r, values[i], r->name, READ[i]))
            return -1;
    return 0;
}

/* llama.cpp's text, or {"type", "value"} of TGI and mistral.rs. */
static int read_grammar(struct field_reader *r, enum json_event first) {
    struct bytes type = {0}, value = {0};
    const struct json_wanted members[] = {{"type", &type}, {"value", &value}};
    if (first != JSON_OBJECT_BEGIN)
        return read_gbnf(r, first);
    if (field_members(r, first, members, ARRAY_LEN(members), NULL))
        return -1;
    if (value.len && raw_is_text(type, "regex"))
        return field_of_span(r, value, r->name, read_regex);
    if (value.len && raw_is_text(type, "lark"))
        return field_of_span(r, value, r->name, read_gbnf);
    if (value.len && (raw_is_text(type, "json") || raw_is_text(type, "json_schema")))
        return field_of_span(r, value, r->name, read_schema);
    return api_error_set(r->err, API_UNSUPPORTED, r->name,
                         "'%s' must be a string, or have type regex, lark, json or json_schema and "
                         "a value",
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
