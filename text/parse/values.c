/* Values in calls: what the request's tools say of them, and JSON from what models write
 * instead. */
#include "formats/json.h"
#include "text/parse/internal.h"
#include "text/template/value.h"

enum { TOOLS_BUDGET = 256 << 20, NAME_BYTES_MAX = 1024 };

struct parse_tools {
    struct arena arena;
    struct tvalue functions; /* dict: name to its parameters' schema, or none */
};

struct bytes strip_blank(struct bytes s) {
    while (s.len && is_blank(s.data[0]))
        s = bytes_from(s, 1);
    while (s.len && is_blank(s.data[s.len - 1]))
        s.len--;
    return s;
}

size_t find_bytes(struct bytes in, struct bytes what, size_t from) {
    if (from >= in.len || what.len == 0)
        return SIZE_MAX;
    const uint8_t *at = memmem(in.data + from, in.len - from, what.data, what.len);
    return at ? (size_t)(at - in.data) : SIZE_MAX;
}

/* ---- tools ---- */

static bool add_tool(struct parse_tools *t, struct tvalue tool) {
    struct tvalue function = tvalue_get(tool, "function");
    if (function.kind != TVALUE_DICT)
        function = tool; /* the bare form */
    struct tvalue name = tvalue_get(function, "name"),
                  parameters = tvalue_get(function, "parameters");
    if (parameters.kind != TVALUE_DICT)
        parameters = tvalue_get(function, "input_schema");
    if (name.kind != TVALUE_STRING)
        return true;
    if (parameters.kind != TVALUE_DICT)
        parameters = tvalue_none();
    return tvalue_dict_set(&t->arena, t->functions, tvalue_text(name), parameters);
}

int parse_tools_new(struct bytes tools, struct parse_tools **out, struct error *err) {
    CHECK(out);
    struct parse_tools *t = mem_alloc(sizeof *t);
    struct tvalue list;
    *out = NULL;
    arena_init(&t->arena, TOOLS_BUDGET, 0);
    t->functions = tvalue_dict(&t->arena);
    int rc = tvalue_from_json(&t->arena, tools, &list, err);
    if (!rc && list.kind != TVALUE_LIST)
        rc = error_set(err, ERR_INVALID, "tools must be a list");
    for (size_t i = 0; !rc && i < tvalue_count(list); i++)
        if (!add_tool(t, tvalue_list_at(list, i)))
            rc = error_set(err, ERR_LIMIT, "the tools are too large");
    if (rc)
        parse_tools_free(&t);
    *out = t;
    return rc;
}

void parse_tools_free(struct parse_tools **tools) {
    if (!*tools)
        return;
    arena_release(&(*tools)->arena);
    mem_free(*tools);
    *tools = NULL;
}

bool parse_tools_has(const struct parse_tools *t, struct bytes name) {
    return !t || tvalue_dict_get(t->functions, name).kind != TVALUE_UNDEFINED;
}

static enum parse_type type_of_name(struct tvalue name) {
    if (name.kind != TVALUE_STRING)
        return TYPE_UNKNOWN;
    bool string = tvalue_is(name, "string") || tvalue_is(name, "str") || tvalue_is(name, "text") ||
                  tvalue_is(name, "enum");
    return string ? TYPE_STRING : TYPE_OTHER;
}

static enum parse_type merge_types(enum parse_type a, enum parse_type b) {
    if (a == TYPE_UNKNOWN)
        return b;
    return a == b || b == TYPE_UNKNOWN ? a : TYPE_MIXED;
}

struct tvalue schema_resolve(struct tvalue root, struct tvalue schema) {
    for (unsigned n = 0; n < PARSE_DEPTH_MAX; n++) {
        struct tvalue ref = tvalue_get(schema, "$ref");
        if (ref.kind != TVALUE_STRING || !begins_with(tvalue_text(ref), bytes_str("#/")) ||
            tvalue_text(ref).len > NAME_BYTES_MAX)
            return schema;
        struct bytes path = bytes_from(tvalue_text(ref), 2);
        schema = root;
        while (schema.kind == TVALUE_DICT) {
            const uint8_t *slash = path.len ? memchr(path.data, '/', path.len) : NULL;
            size_t len = slash ? (size_t)(slash - path.data) : path.len;
            schema = tvalue_dict_get(schema, bytes_of(path.data, len));
            if (!slash)
                break;
            path = bytes_from(path, len + 1);
        }
    }
    return schema;
}

static enum parse_type type_of_schema(struct tvalue root, struct tvalue schema, unsigned *steps);

/* Of alternatives; each a name or a schema. */
static enum parse_type type_of_list(struct tvalue root, struct tvalue list, unsigned *steps) {
    enum parse_type type = TYPE_UNKNOWN;
    for (size_t i = 0; i < tvalue_count(list) && ++*steps <= PARSE_SCHEMA_STEPS; i++) {
        struct tvalue item = tvalue_list_at(list, i);
        type = merge_types(type, item.kind == TVALUE_DICT ? type_of_schema(root, item, steps)
                                                          : type_of_name(item));
    }
    return type;
}

static enum parse_type type_of_enum(struct tvalue values) {
    enum parse_type type = TYPE_UNKNOWN;
    for (size_t i = 0; i < MIN(tvalue_count(values), (size_t)PARSE_SCHEMA_STEPS); i++)
        type = merge_types(type, tvalue_list_at(values, i).kind == TVALUE_STRING ? TYPE_STRING
                                                                                 : TYPE_OTHER);
    return type;
}

static enum parse_type type_of_schema(struct tvalue root, struct tvalue schema, unsigned *steps) {
    static const char *const ALTERNATIVES[] = {"anyOf", "oneOf", "allOf"};
    schema = schema_resolve(root, schema);
    struct tvalue type = tvalue_get(schema, "type");
    if (++*steps > PARSE_SCHEMA_STEPS)
        return TYPE_UNKNOWN;
    if (type.kind == TVALUE_STRING)
        return type_of_name(type);
    if (type.kind == TVALUE_LIST)
        return type_of_list(root, type, steps);
    for (size_t i = 0; i < ARRAY_LEN(ALTERNATIVES); i++)
        if (tvalue_get(schema, ALTERNATIVES[i]).kind == TVALUE_LIST)
            return type_of_list(root, tvalue_get(schema, ALTERNATIVES[i]), steps);
    return type_of_enum(tvalue_get(schema, "enum"));
}

static enum parse_type type_in(struct tvalue root, struct tvalue schema) {
    unsigned steps = 0;
    return type_of_schema(root, schema, &steps);
}

struct tvalue parse_tools_parameters(const struct parse_tools *t, struct bytes function) {
    return t && function.len <= NAME_BYTES_MAX ? tvalue_dict_get(t->functions, function)
                                               : tvalue_none();
}

static struct tvalue properties_of(const struct parse_tools *t, struct bytes function) {
    return tvalue_get(parse_tools_parameters(t, function), "properties");
}

bool parse_tools_has_parameters(const struct parse_tools *t, struct bytes function) {
    return tvalue_count(properties_of(t, function)) > 0;
}

bool parse_tools_has_parameter(const struct parse_tools *t, struct bytes function,
                               struct bytes parameter) {
    return tvalue_dict_get(properties_of(t, function), parameter).kind != TVALUE_UNDEFINED;
}

bool schema_has_string(struct tvalue schema) {
    enum parse_type type = type_in(schema, schema);
    return type == TYPE_STRING || type == TYPE_MIXED;
}

enum parse_type parse_tools_type(const struct parse_tools *t, struct bytes function,
                                 struct bytes parameter) {
    return type_in(parse_tools_parameters(t, function),
                   tvalue_dict_get(properties_of(t, function), parameter));
}

/* ---- JSON ---- */

static bool json_is(struct bytes text, bool object) {
    struct json_reader r;
    json_reader_init(&r, text, PARSE_DEPTH_MAX, JSON_ALLOW_NUL);
    enum json_event event = json_next(&r);
    bool ok = event != JSON_ERROR && event != JSON_END && (!object || event == JSON_OBJECT_BEGIN);
    if (ok && (event == JSON_OBJECT_BEGIN || event == JSON_ARRAY_BEGIN))
        ok = json_skip(&r);
    if (ok)
        ok = json_next(&r) == JSON_END;
    json_reader_release(&r);
    return ok;
}

bool json_is_value(struct bytes text) {
    return json_is(text, false);
}
bool json_is_object(struct bytes text) {
    return json_is(text, true);
}

void add_quoted(struct bytes text, struct buf *out) {
    buf_add_byte(out, '"');
    buf_add_json(out, text);
    buf_add_byte(out, '"');
}

static bool is_null(struct bytes s) {
    return s.len == 4 && !strncasecmp((const char *)s.data, "null", 4);
}

static bool add_literal(struct bytes value, struct buf *out) {
    size_t before = out->len, at = 0;
    if (python_literal(value, &at, out) && at == value.len)
        return true;
    out->len = before;
    return false;
}

static void add_by_type(enum parse_type type, struct bytes value, struct buf *out) {
    struct bytes plain = strip_blank(value);
    if (type == TYPE_STRING) {
        add_quoted(value, out);
    } else if (is_null(plain)) {
        buf_add_str(out, "null");
    } else if (json_is_value(plain)) {
        buf_add_bytes(out, plain);
    } else if (!add_literal(plain, out)) {
        add_quoted(value, out);
    }
}

void add_typed(const struct parse_tools *t, struct bytes function, struct bytes parameter,
               enum parse_type unknown, struct bytes value, struct buf *out) {
    enum parse_type type = parse_tools_type(t, function, parameter);
    add_by_type(type == TYPE_UNKNOWN ? unknown : type, value, out);
}

void add_of_schema(struct tvalue schema, struct bytes value, struct buf *out) {
    enum parse_type type = type_in(schema, schema);
    add_by_type(type == TYPE_UNKNOWN ? TYPE_STRING : type, value, out);
}
