#include "gateway/calls/openapi.h"

#include "formats/json.h"

/* The forms of an error, by enum error_shape. */
static const char *const ERROR_SCHEMAS[ERROR_SHAPE_COUNT] = {
    [ERROR_SHAPE_OPENAI] =
        "{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":"
        "\"object\",\"required\":[\"message\",\"type\",\"param\",\"code\"],\"properties\":{"
        "\"message\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"},"
        "\"param\":{\"type\":[\"string\",\"null\"]},\"code\":{\"type\":[\"string\",\"null\"]}}}}}",
    [ERROR_SHAPE_ANTHROPIC] =
        "{\"type\":\"object\",\"required\":[\"type\",\"error\",\"request_id\"],\"properties\":{"
        "\"type\":{\"const\":\"error\"},\"request_id\":{\"type\":\"string\"},\"error\":{\"type\":"
        "\"object\",\"required\":[\"type\",\"message\"],\"properties\":{\"type\":{\"type\":"
        "\"string\"},\"message\":{\"type\":\"string\"}}}}}",
    [ERROR_SHAPE_OLLAMA] = "{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{"
                           "\"error\":{\"type\":\"string\"}}}",
    [ERROR_SHAPE_LLAMA] =
        "{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":"
        "\"object\",\"required\":[\"code\",\"message\",\"type\"],\"properties\":{\"code\":{"
        "\"type\":\"integer\"},\"message\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"}}}}}",
    [ERROR_SHAPE_COHERE] = "{\"type\":\"object\",\"required\":[\"message\"],\"properties\":{"
                           "\"message\":{\"type\":\"string\"}}}",
    [ERROR_SHAPE_TGI] = "{\"type\":\"object\",\"required\":[\"error\",\"error_type\"],"
                        "\"properties\":{\"error\":{\"type\":\"string\"},"
                        "\"error_type\":{\"type\":\"string\"}}}",
};
static const char *const ERROR_NAMES[ERROR_SHAPE_COUNT] = {
    [ERROR_SHAPE_OPENAI] = "Error",       [ERROR_SHAPE_ANTHROPIC] = "AnthropicError",
    [ERROR_SHAPE_OLLAMA] = "OllamaError", [ERROR_SHAPE_LLAMA] = "LlamaError",
    [ERROR_SHAPE_COHERE] = "CohereError", [ERROR_SHAPE_TGI] = "TgiError",
};

/* ---- fields ---- */

/* `null` always means "not given". */
static void write_type(struct json_writer *w, const char *type) {
    json_key(w, "type");
    json_begin_array(w);
    json_string(w, type);
    json_string(w, "null");
    json_end_array(w);
}

static void write_number(struct json_writer *w, const struct field *f, const char *type) {
    write_type(w, type);
    if (f->min == 0 && f->max == 0)
        return;
    json_key(w, "minimum");
    json_double(w, f->min);
    json_key(w, "maximum");
    json_double(w, f->max);
}

/* What is taken of a field that is not offered. */
static void write_neutral(struct json_writer *w, const struct field *f) {
    const char *values = f->neutral ? f->neutral : "false 0 \"\" [] {}";
    json_key(w, "description");
    json_string(w, "not offered: only values that change nothing are taken");
    json_key(w, "anyOf");
    json_begin_array(w);
    json_raw(w, bytes_str("{\"type\":\"null\"}"));
    while (*values) {
        size_t len = strcspn(values, " ");
        json_begin_object(w);
        json_key(w, "const");
        json_raw(w, bytes_of(values, len));
        json_end_object(w);
        values += len + (values[len] == ' ');
    }
    json_end_array(w);
}

static void write_field(struct json_writer *w, const struct field *f) {
    json_begin_object(w);
    switch (f->kind) {
    case FIELD_BOOL: write_type(w, "boolean"); break;
    case FIELD_INT: write_number(w, f, "integer"); break;
    case FIELD_NUMBER: write_number(w, f, "number"); break;
    case FIELD_STRING:
        write_type(w, "string");
        json_key(w, "maxLength");
        json_double(w, f->max);
        break;
    case FIELD_OBJECT: write_type(w, "object"); break;
    case FIELD_ARRAY: write_type(w, "array"); break;
    case FIELD_CUSTOM: break;
    case FIELD_REFUSED: write_neutral(w, f); break;
    case FIELD_PASSED:
        json_key(w, "description");
        json_string(w, "taken, whatever its value: it changes no text");
        break;
    }
    json_end_object(w);
}

static void write_fields(struct json_writer *w, const struct field_set *set) {
    json_begin_object(w);
    json_key(w, "type");
    json_string(w, "object");
    json_key(w, "properties");
    json_begin_object(w);
    for (size_t t = 0; t < set->table_count; t++)
        for (size_t i = 0; i < set->tables[t]->row_count; i++) {
            const struct field *f = &set->tables[t]->rows[i];
            if (field_find(set, bytes_str(f->name)) != f)
                continue; /* another table's row is taken */
            json_key(w, f->name);
            write_field(w, f);
        }
    json_end_object(w);
    json_end_object(w);
}

/* ---- calls ---- */

static void write_json_content(struct json_writer *w) {
    json_key(w, "content");
    json_begin_object(w);
    json_key(w, "application/json");
    json_begin_object(w);
    json_key(w, "schema");
}

static void write_responses(struct json_writer *w, const struct openapi_call *call) {
    struct buf ref = {0};
    json_key(w, "responses");
    json_begin_object(w);
    json_key(w, "200");
    json_raw(w, bytes_str("{\"description\":\"an answer\"}"));
    json_key(w, "default");
    json_begin_object(w);
    json_key(w, "description");
    json_string(w, "an error");
    write_json_content(w);
    if (call->tgi_too)
        buf_add_str(&ref, "{\"anyOf\":[");
    buf_addf(&ref, "{\"$ref\":\"#/components/schemas/%s\"}", ERROR_NAMES[call->shape]);
    if (call->tgi_too)
        buf_addf(&ref, ",{\"$ref\":\"#/components/schemas/%s\"}]}", ERROR_NAMES[ERROR_SHAPE_TGI]);
    json_raw(w, buf_bytes(&ref));
    buf_release(&ref);
    json_end_object(w);
    json_end_object(w);
    json_end_object(w);
    json_end_object(w);
}

static const char *method_key(enum http_method method) {
    switch (method) {
    case HTTP_GET: return "get";
    case HTTP_DELETE: return "delete";
    default: return "post";
    }
}

static void write_call(struct json_writer *w, const struct openapi_call *call, bool prefix) {
    json_key(w, method_key(call->method));
    json_begin_object(w);
    if (prefix) {
        json_key(w, "parameters");
        json_raw(w, bytes_str("[{\"name\":\"rest\",\"in\":\"path\",\"required\":true,"
                              "\"schema\":{\"type\":\"string\",\"minLength\":1}}]"));
    }
    if (!call->open) {
        json_key(w, "security");
        json_raw(w, bytes_str("[{\"bearer\":[]},{\"header\":[]}]"));
    }
    if (call->fields) {
        json_key(w, "requestBody");
        json_begin_object(w);
        json_key(w, "required");
        json_bool(w, true);
        write_json_content(w);
        write_fields(w, call->fields);
        json_end_object(w);
        json_end_object(w);
        json_end_object(w);
    }
    write_responses(w, call);
    json_end_object(w);
}

static bool is_first(const struct openapi_call *calls, size_t idx) {
    for (size_t i = 0; i < idx; i++)
        if (strcmp(calls[i].path, calls[idx].path) == 0)
            return false;
    return true;
}

/* All calls of the path of calls[idx]. */
static void write_path(struct json_writer *w, const struct openapi_call *calls, size_t count,
                       size_t idx) {
    const char *path = calls[idx].path;
    size_t len = strlen(path);
    bool prefix = len > 1 && path[len - 1] == '/';
    struct buf key = {0};
    buf_addf(&key, "%s%s", path, prefix ? "{rest}" : "");
    json_key_bytes(w, buf_bytes(&key));
    buf_release(&key);
    json_begin_object(w);
    for (size_t i = idx; i < count; i++)
        if (strcmp(calls[i].path, path) == 0)
            write_call(w, &calls[i], prefix);
    json_end_object(w);
}

void openapi_write(const struct openapi_call *calls, size_t count, struct buf *out) {
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, "openapi");
    json_string(&w, "3.1.0");
    json_key(&w, "info");
    json_begin_object(&w);
    json_key(&w, "title");
    json_string(&w, "Trireme");
    json_key(&w, "version");
    json_string(&w, TRIREME_VERSION);
    json_end_object(&w);
    json_key(&w, "paths");
    json_begin_object(&w);
    for (size_t i = 0; i < count; i++)
        if (is_first(calls, i))
            write_path(&w, calls, count, i);
    json_end_object(&w);
    json_key(&w, "components");
    json_begin_object(&w);
    json_key(&w, "schemas");
    json_begin_object(&w);
    for (int i = 0; i < ERROR_SHAPE_COUNT; i++) {
        json_key(&w, ERROR_NAMES[i]);
        json_raw(&w, bytes_str(ERROR_SCHEMAS[i]));
    }
    json_end_object(&w);
    json_key(&w, "securitySchemes");
    json_raw(&w, bytes_str("{\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\"},\"header\":{"
                           "\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"X-Api-Key\"}}"));
    json_end_object(&w);
    json_end_object(&w);
}
