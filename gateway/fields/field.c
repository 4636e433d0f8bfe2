#include "gateway/fields/field.h"

#include <stdio.h>

#include "base/log.h"

static const char *event_text(enum json_event event) {
    switch (event) {
    case JSON_OBJECT_BEGIN: return "an object";
    case JSON_ARRAY_BEGIN: return "an array";
    case JSON_STRING: return "a string";
    case JSON_NUMBER: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
    default: return "nothing";
    }
}

int field_wrong_type(struct field_reader *r, const char *expected, enum json_event got) {
    if (got == JSON_ERROR)
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "malformed JSON: %s",
                             r->json.error.text);
    return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' must be %s, not %s", r->name,
                         expected, event_text(got));
}

int field_too_large(struct field_reader *r) {
    return api_error_set(r->err, API_TOO_LARGE, r->name, "'%s' is too large", r->name);
}

int field_bool(struct field_reader *r, enum json_event event, bool *out) {
    if (event != JSON_TRUE && event != JSON_FALSE)
        return field_wrong_type(r, "a boolean", event);
    *out = event == JSON_TRUE;
    return 0;
}

int field_int(struct field_reader *r, enum json_event event, int64_t min, int64_t max,
              int64_t *out) {
    if (event != JSON_NUMBER)
        return field_wrong_type(r, "an integer", event);
    bool bounded = min != 0 || max != 0;
    if (!json_number_int64(r->json.text, out))
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' must be an integer%s", r->name,
                             bounded ? "" : " of 64 bits");
    if (bounded && (*out < min || *out > max))
        return api_error_set(r->err, API_BAD_REQUEST, r->name,
                             "'%s' must be between %lld and %lld, not %lld", r->name,
                             (long long)min, (long long)max, (long long)*out);
    return 0;
}

int field_number(struct field_reader *r, enum json_event event, const struct field *f,
                 double *out) {
    if (event != JSON_NUMBER)
        return field_wrong_type(r, "a number", event);
    bool in_range = json_number_double(r->json.text, out) && *out <= f->max && *out >= f->min;
    if (in_range)
        return 0;
    return api_error_set(r->err, API_BAD_REQUEST, r->name,
                         "'%s' must be at least %g and at most %g", r->name, f->min, f->max);
}

int field_string(struct field_reader *r, enum json_event event, size_t max_len, struct bytes *out) {
    if (event != JSON_STRING)
        return field_wrong_type(r, "a string", event);
    if (r->json.text.len > max_len)
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' is longer than %zu bytes",
                             r->name, max_len);
    const void *copy = arena_copy(&r->g->arena, r->json.text.data, r->json.text.len);
    if (!copy)
        return field_too_large(r);
    *out = bytes_of(copy, r->json.text.len);
    return 0;
}

int field_span(struct field_reader *r, enum json_event first, struct bytes *out) {
    if (first == JSON_ERROR || !json_take(&r->json, out))
        return field_wrong_type(r, "valid", JSON_ERROR);
    return 0;
}

int field_members(struct field_reader *r, enum json_event first, const struct json_wanted *members,
                  size_t count, struct bytes *whole) {
    size_t begin = r->json.offset;
    if (first != JSON_OBJECT_BEGIN)
        return field_wrong_type(r, "an object", first);
    if (!json_take_members(&r->json, members, count))
        return field_wrong_type(r, "valid", JSON_ERROR);
    if (whole)
        *whole = json_since(&r->json, begin);
    return 0;
}

int field_of_span(struct field_reader *r, struct bytes span, const char *name,
                  int (*read)(struct field_reader *r, enum json_event first)) {
    struct field_reader inner = *r;
    inner.name = name;
    json_reader_init(&inner.json, span, GENREQ_DEPTH_MAX, 0);
    int rc = read(&inner, json_next(&inner.json));
    json_reader_release(&inner.json);
    return rc;
}

bool field_begins_with_array(const struct field_reader *r) {
    const uint8_t *at = r->json.at;
    while (at < r->json.end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at < r->json.end && *at == '[';
}

int field_copy_ids(struct field_reader *r, const uint32_t *ids, size_t count, struct u32s *out) {
    *out = (struct u32s){NULL, count};
    if (count == 0)
        return 0;
    out->items = arena_copy(&r->g->arena, ids, count * sizeof *ids);
    return out->items ? 0 : field_too_large(r);
}

int field_token_array(struct field_reader *r, enum json_event event, size_t max_count,
                      struct u32s *out) {
    VEC(uint32_t) ids = {0};
    int rc = 0;
    for (; rc == 0 && event != JSON_ARRAY_END; event = json_next(&r->json)) {
        int64_t id = 0;
        if (ids.count == max_count)
            rc = api_error_set(r->err, API_BAD_REQUEST, r->name,
                               "'%s' holds more than %zu token ids", r->name, max_count);
        else
            rc = field_int(r, event, 0, INT32_MAX, &id);
        if (rc == 0)
            vec_push(&ids, (uint32_t)id);
    }
    if (rc == 0)
        rc = field_copy_ids(r, ids.items, ids.count, out);
    vec_release(&ids);
    return rc;
}

static int fail_empty(const struct field_reader *r) {
    return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' holds an empty string", r->name);
}

/* llama.cpp's own calls pass over empty strings in a list; others, and vLLM with them, refuse them. */
static bool passes_over_empty(const struct field_reader *r) {
    return r->g->dialect == GENREQ_COMPLETION || r->g->dialect == GENREQ_INFILL;
}

int field_strings(struct field_reader *r, enum json_event first, uint32_t most, size_t bytes_max,
                  const struct bytes **out, uint32_t *count) {
    VEC(struct bytes) list = {0};
    struct bytes text;
    int rc = 0;
    if (first != JSON_ARRAY_BEGIN)
        return field_wrong_type(r, "an array of strings", first);
    for (enum json_event event; rc == 0 && (event = json_next(&r->json)) != JSON_ARRAY_END;) {
        if (list.count == most)
            rc = api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' holds more than %u strings",
                               r->name, most);
        else
            rc = field_string(r, event, bytes_max, &text);
        if (rc == 0 && text.len == 0 && passes_over_empty(r))
            continue;
        if (rc == 0 && text.len == 0)
            rc = fail_empty(r);
        if (rc == 0)
            vec_push(&list, text);
    }
    *count = (uint32_t)list.count;
    *out = rc || !list.count
               ? NULL
               : arena_copy(&r->g->arena, list.items, list.count * sizeof list.items[0]);
    if (rc == 0 && list.count && !*out)
        rc = field_too_large(r);
    vec_release(&list);
    return rc;
}

int field_string_or_strings(struct field_reader *r, enum json_event first, uint32_t most,
                            size_t bytes_max, const struct bytes **out, uint32_t *count) {
    struct bytes one;
    if (first == JSON_ARRAY_BEGIN)
        return field_strings(r, first, most, bytes_max, out, count);
    if (first != JSON_STRING)
        return field_wrong_type(r, "a string or an array of strings", first);
    if (field_string(r, first, bytes_max, &one))
        return -1;
    if (one.len == 0)
        return fail_empty(r);
    *out = arena_copy(&r->g->arena, &one, sizeof one);
    *count = *out != NULL;
    return *out ? 0 : field_too_large(r);
}

int field_disagrees(struct field_reader *r) {
    return api_error_set(r->err, API_BAD_REQUEST, r->name,
                         "'%s' and another name of the same field have different values", r->name);
}

enum { NEUTRAL_MAX = 64, NEUTRAL_SENTENCE_MAX = 128 };

/* A value as it is written in struct field's `neutral`: without white space. False: too long. */
static bool compact(struct bytes value, char *out) {
    size_t len = 0;
    for (size_t i = 0; i < value.len; i++) {
        char c = (char)value.data[i];
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            continue;
        if (len == NEUTRAL_MAX - 1)
            return false;
        out[len++] = c;
    }
    out[len] = 0;
    return true;
}

static bool is_neutral(const char *values, enum json_event kind, const char *text) {
    double number = 0, value;
    bool is_number = kind == JSON_NUMBER && json_number_double(bytes_str(text), &number);
    while (*values) {
        size_t len = strcspn(values, " ");
        struct bytes item = bytes_of(values, len);
        if (is_number && json_number_double(item, &value) && number == value)
            return true;
        if (!is_number && bytes_equal(item, bytes_str(text)))
            return true;
        values += len + (values[len] == ' ');
    }
    return false;
}

/* The values of struct field's `neutral` as a sentence has them: "0 or 1". */
static void say_neutral(const char *values, char out[NEUTRAL_SENTENCE_MAX]) {
    int len = 0;
    *out = 0;
    while (*values && len < NEUTRAL_SENTENCE_MAX) {
        int item = (int)strcspn(values, " ");
        len += snprintf(out + len, (size_t)(NEUTRAL_SENTENCE_MAX - len), "%s%.*s",
                        len ? " or " : "", item, values);
        values += item + (values[item] == ' ');
    }
}

static int read_refused(struct field_reader *r, const struct field *f, enum json_event first) {
    const char *values = f->neutral ? f->neutral : "false 0 \"\" [] {}";
    struct bytes value;
    char text[NEUTRAL_MAX], sentence[NEUTRAL_SENTENCE_MAX];
    if (field_span(r, first, &value))
        return -1;
    if (compact(value, text) && is_neutral(values, first, text))
        return 0;
    if (f->instead)
        return api_error_set(r->err, API_UNSUPPORTED, r->name,
                             "'%s' is no field of this path, and would change the answer; use %s",
                             r->name, f->instead);
    if (!f->neutral || !*f->neutral)
        return api_error_set(r->err, API_UNSUPPORTED, r->name, "'%s' is not offered by this server",
                             r->name);
    say_neutral(f->neutral, sentence);
    return api_error_set(r->err, API_UNSUPPORTED, r->name,
                         "'%s' is not offered by this server; leave it out, or give a value that "
                         "changes nothing: %s",
                         r->name, sentence);
}

static int read_value(struct field_reader *r, const struct field *f, enum json_event first) {
    void *at = (char *)r->g + f->offset;
    switch (f->kind) {
    case FIELD_BOOL: return field_bool(r, first, at);
    case FIELD_INT: return field_int(r, first, (int64_t)f->min, (int64_t)f->max, at);
    case FIELD_NUMBER: return field_number(r, first, f, at);
    case FIELD_STRING: return field_string(r, first, (size_t)f->max, at);
    case FIELD_OBJECT:
        if (first != JSON_OBJECT_BEGIN)
            return field_wrong_type(r, "an object", first);
        return field_span(r, first, at);
    case FIELD_ARRAY:
        if (first != JSON_ARRAY_BEGIN)
            return field_wrong_type(r, "an array", first);
        return field_span(r, first, at);
    case FIELD_CUSTOM: return f->read(r, first);
    case FIELD_REFUSED: return read_refused(r, f, first);
    case FIELD_PASSED: return field_span(r, first, NULL);
    }
    return 0;
}

static size_t value_size(enum field_kind kind) {
    switch (kind) {
    case FIELD_INT: return sizeof(int64_t);
    case FIELD_NUMBER: return sizeof(double);
    default: return 0;
    }
}

/* A field that has a second name, and was given under that one already. */
static int read_again(struct field_reader *r, const struct field *f, enum json_event first) {
    void *at = (char *)r->g + f->offset;
    struct bytes text = {0};
    uint8_t old[sizeof(int64_t)];
    if (f->kind == FIELD_STRING)
        memcpy(&text, at, sizeof text);
    memcpy(old, at, value_size(f->kind));
    if (read_value(r, f, first))
        return -1;
    bool same = f->kind == FIELD_STRING ? bytes_equal(text, *(struct bytes *)at)
                                        : memcmp(old, at, value_size(f->kind)) == 0;
    return same ? 0 : field_disagrees(r);
}

const struct field *field_find(const struct field_set *set, struct bytes name) {
    for (size_t t = 0; t < set->table_count; t++)
        for (size_t i = 0; i < set->tables[t]->row_count; i++)
            if (bytes_equal(name, bytes_str(set->tables[t]->rows[i].name)))
                return &set->tables[t]->rows[i];
    return NULL;
}

static void note_alias(struct genreq *g, const struct field *f) {
    if (f->of && g->alias_count < GENREQ_ALIASES_MAX)
        g->aliases[g->alias_count++] = (struct genreq_alias){f->of, f->name};
}

/* 'FROM' becomes 'TO' in the text, which is cut where it grows too long. */
static void rename_quoted(char text[API_ERROR_TEXT_MAX], const char *from, const char *to) {
    char quoted[API_ERROR_PARAM_MAX], out[API_ERROR_TEXT_MAX] = "";
    size_t len = 0;
    int quoted_len = snprintf(quoted, sizeof quoted, "'%s'", from);
    const char *at = text;
    for (const char *hit; (hit = strstr(at, quoted)) && len < sizeof out; at = hit + quoted_len)
        len += (size_t)snprintf(out + len, sizeof out - len, "%.*s'%s'", (int)(hit - at), at, to);
    if (at == text)
        return;
    if (len < sizeof out)
        snprintf(out + len, sizeof out - len, "%s", at);
    memcpy(text, out, sizeof out);
}

void field_name_as_asked(const struct genreq *g, struct api_error *err) {
    for (uint32_t i = 0; i < g->alias_count; i++) {
        const struct genreq_alias *alias = &g->aliases[i];
        rename_quoted(err->text, alias->of, alias->name);
        if (strcmp(err->param, alias->of) == 0)
            snprintf(err->param, sizeof err->param, "%s", alias->name);
    }
}

/* f NULL: a field that we do not know; it only has to be valid JSON. */
static int read_field(struct field_reader *r, const struct field *f) {
    if (!f)
        log_debug("request field ignored len=%zu", r->json.text.len);
    r->name = f ? f->name : "";
    enum json_event first = json_next(&r->json);
    if (!f)
        return field_span(r, first, NULL);
    if (first == JSON_NULL)
        return 0;
    bool again = r->g->given & f->given;
    if (again ? read_again(r, f, first) : read_value(r, f, first))
        return -1;
    r->g->given |= f->given;
    note_alias(r->g, f);
    return 0;
}

int field_read_request(struct genreq *g, const struct field_set *set, struct bytes body,
                       struct api_error *err) {
    struct field_reader r = {.g = g, .err = err, .name = ""};
    json_reader_init(&r.json, body, GENREQ_DEPTH_MAX, 0);
    int rc = 0;
    if (json_next(&r.json) != JSON_OBJECT_BEGIN)
        rc = api_error_set(err, API_BAD_REQUEST, NULL, "the body must be a JSON object");
    while (rc == 0) {
        enum json_event event = json_next(&r.json);
        if (event == JSON_OBJECT_END)
            break;
        r.name = "";
        rc = event == JSON_KEY ? read_field(&r, field_find(set, r.json.text))
                               : field_wrong_type(&r, "valid", JSON_ERROR);
    }
    if (rc)
        g->alias_count = 0; /* a reader names its field as the client does */
    json_reader_release(&r.json);
    return rc;
}

int field_check_json(struct bytes body, struct api_error *err) {
    struct json_reader r;
    struct error why;
    char name[API_ERROR_PARAM_MAX] = "";
    bool inside = false;
    int rc = json_scan(body, GENREQ_DEPTH_MAX, &why);
    if (rc == 0)
        return 0;
    json_reader_init(&r, body, GENREQ_DEPTH_MAX, 0);
    bool is_object = json_next(&r) == JSON_OBJECT_BEGIN;
    while (is_object && !inside && json_next(&r) == JSON_KEY) {
        snprintf(name, sizeof name, "%.*s", (int)r.text.len, (const char *)r.text.data);
        inside = !json_skip(&r);
    }
    json_reader_release(&r);
    if (inside && rc == ERR_UNSUPPORTED)
        return api_error_set(err, API_BAD_REQUEST, name, "'%s' holds a %s, which no field may have",
                             name, why.text);
    if (inside)
        return api_error_set(err, API_BAD_REQUEST, name, "malformed JSON in '%s': %s", name,
                             why.text);
    return api_error_set(err, API_BAD_REQUEST, NULL, "malformed JSON: %s", why.text);
}

int field_nested(struct field_reader *r, enum json_event first, const struct field_set *set,
                 const char *expected) {
    struct bytes object;
    if (first != JSON_OBJECT_BEGIN)
        return field_wrong_type(r, expected, first);
    if (field_span(r, first, &object))
        return -1;
    return field_read_request(r->g, set, object, r->err);
}

uint32_t field_names_there(struct bytes body, const char *const *names, size_t count) {
    struct json_reader r;
    uint32_t there = 0;
    CHECK(count <= 32);
    json_reader_init(&r, body, GENREQ_DEPTH_MAX, 0);
    bool is_object = json_next(&r) == JSON_OBJECT_BEGIN;
    while (is_object && json_next(&r) == JSON_KEY) {
        for (size_t i = 0; i < count; i++)
            there |= (uint32_t)json_text_is(&r, names[i]) << i;
        if (!json_skip(&r))
            break;
    }
    json_reader_release(&r);
    return there;
}
