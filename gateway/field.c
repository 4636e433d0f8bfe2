#include "gateway/field.h"

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
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "malformed JSON: %s", r->json.error.text);
    return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' must be %s, not %s", r->name, expected,
                         event_text(got));
}

static int out_of_memory(struct field_reader *r) {
    return api_error_set(r->err, API_TOO_LARGE, r->name, "'%s' is too large", r->name);
}

int field_int(struct field_reader *r, enum json_event event, int64_t min, int64_t max, int64_t *out) {
    if (event != JSON_NUMBER) return field_wrong_type(r, "an integer", event);
    bool bounded = min != 0 || max != 0;
    if (!json_number_int64(r->json.text, out))
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' must be an integer%s", r->name,
                             bounded ? "" : " of 64 bits");
    if (bounded && (*out < min || *out > max))
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' must be between %lld and %lld, not %lld", r->name,
                             (long long)min, (long long)max, (long long)*out);
    return 0;
}

static int field_number(struct field_reader *r, enum json_event event, const struct field *f, double *out) {
    if (event != JSON_NUMBER) return field_wrong_type(r, "a number", event);
    bool in_range = json_number_double(r->json.text, out) && *out <= f->max &&
                    (f->flags & FIELD_ABOVE_MIN ? *out > f->min : *out >= f->min);
    if (in_range) return 0;
    return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' must be %s %g and at most %g", r->name,
                         f->flags & FIELD_ABOVE_MIN ? "above" : "at least", f->min, f->max);
}

int field_string(struct field_reader *r, enum json_event event, size_t max_len, struct bytes *out) {
    if (event != JSON_STRING) return field_wrong_type(r, "a string", event);
    if (r->json.text.len > max_len)
        return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' is longer than %zu bytes", r->name, max_len);
    const void *copy = arena_copy(&r->g->arena, r->json.text.data, r->json.text.len);
    if (!copy) return out_of_memory(r);
    *out = bytes_of(copy, r->json.text.len);
    return 0;
}

int field_span(struct field_reader *r, enum json_event first, struct bytes *out) {
    size_t begin = r->json.offset;
    bool nested = first == JSON_OBJECT_BEGIN || first == JSON_ARRAY_BEGIN;
    if (first == JSON_ERROR || (nested && !json_skip(&r->json))) return field_wrong_type(r, "valid", JSON_ERROR);
    if (out) *out = bytes_of(r->json.start + begin, r->json.offset + r->json.raw.len - begin);
    return 0;
}

static int copy_ids(struct field_reader *r, const uint32_t *ids, size_t count, struct u32s *out) {
    *out = (struct u32s){NULL, count};
    if (count == 0) return 0;
    out->items = arena_copy(&r->g->arena, ids, count * sizeof *ids);
    return out->items ? 0 : out_of_memory(r);
}

int field_token_array(struct field_reader *r, enum json_event event, size_t max_count, struct u32s *out) {
    VEC(uint32_t) ids = {0};
    int rc = 0;
    for (; rc == 0 && event != JSON_ARRAY_END; event = json_next(&r->json)) {
        int64_t id = 0;
        if (ids.count == max_count)
            rc = api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' holds more than %zu token ids", r->name,
                               max_count);
        else
            rc = field_int(r, event, 0, INT32_MAX, &id);
        if (rc == 0) vec_push(&ids, (uint32_t)id);
    }
    if (rc == 0) rc = copy_ids(r, ids.items, ids.count, out);
    vec_release(&ids);
    return rc;
}

int field_read_stop(struct field_reader *r, enum json_event first) {
    struct bytes stops[GENREQ_STOPS_MAX];
    uint32_t count = 0;
    size_t bytes = 0;
    bool list = first == JSON_ARRAY_BEGIN;
    if (!list && first != JSON_STRING) return field_wrong_type(r, "a string or an array of strings", first);
    for (enum json_event event = list ? json_next(&r->json) : first; event != JSON_ARRAY_END;
         event = json_next(&r->json)) {
        if (count == GENREQ_STOPS_MAX)
            return api_error_set(r->err, API_BAD_REQUEST, "stop", "'stop' holds more than %d strings",
                                 GENREQ_STOPS_MAX);
        if (field_string(r, event, GENREQ_STOP_BYTES_MAX, &stops[count])) return -1;
        if (stops[count++].len == 0)
            return api_error_set(r->err, API_BAD_REQUEST, "stop", "'stop' holds an empty string");
        bytes += stops[count - 1].len;
        if (bytes > GENREQ_STOPS_BYTES_MAX)
            return api_error_set(r->err, API_BAD_REQUEST, "stop", "'stop' holds more than %d bytes",
                                 GENREQ_STOPS_BYTES_MAX);
        if (!list) break;
    }
    r->g->stop_count = count;
    if (count == 0) return 0;
    r->g->stops = arena_copy(&r->g->arena, stops, count * sizeof stops[0]);
    return r->g->stops ? 0 : out_of_memory(r);
}

int field_read_stop_tokens(struct field_reader *r, enum json_event first) {
    if (first != JSON_ARRAY_BEGIN) return field_wrong_type(r, "an array of token ids", first);
    return field_token_array(r, json_next(&r->json), GENREQ_STOP_TOKENS_MAX, &r->g->stop_tokens);
}

int field_read_logit_bias(struct field_reader *r, enum json_event first) {
    static const struct field range = {.min = -100, .max = 100};
    uint32_t ids[GENREQ_BIAS_MAX];
    float values[GENREQ_BIAS_MAX];
    size_t count = 0;
    if (first != JSON_OBJECT_BEGIN) return field_wrong_type(r, "an object from token ids to numbers", first);
    for (enum json_event event = json_next(&r->json); event != JSON_OBJECT_END; event = json_next(&r->json)) {
        int64_t id;
        double value;
        if (event != JSON_KEY) return field_wrong_type(r, "an object", event);
        if (count == GENREQ_BIAS_MAX)
            return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' holds more than %d entries", r->name,
                                 GENREQ_BIAS_MAX);
        if (!json_number_int64(r->json.text, &id) || id < 0 || id > INT32_MAX)
            return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s' must have token ids as keys", r->name);
        if (field_number(r, json_next(&r->json), &range, &value)) return -1;
        ids[count] = (uint32_t)id;
        values[count++] = (float)value;
    }
    if (copy_ids(r, ids, count, &r->g->bias_ids)) return -1;
    if (count == 0) return 0;
    r->g->bias_values = (struct f32s){arena_copy(&r->g->arena, values, count * sizeof values[0]), count};
    return r->g->bias_values.items ? 0 : out_of_memory(r);
}

int field_read_stream_options(struct field_reader *r, enum json_event first) {
    if (first != JSON_OBJECT_BEGIN) return field_wrong_type(r, "an object", first);
    r->g->given |= GENREQ_STREAM_OPTIONS;
    for (enum json_event event = json_next(&r->json); event != JSON_OBJECT_END; event = json_next(&r->json)) {
        if (event != JSON_KEY) return field_wrong_type(r, "an object", event);
        bool *out = bytes_equal(r->json.text, bytes_str("include_usage"))            ? &r->g->include_usage
                    : bytes_equal(r->json.text, bytes_str("continuous_usage_stats")) ? &r->g->continuous_usage
                                                                                     : NULL;
        event = json_next(&r->json);
        if (!out) {
            if (field_span(r, event, NULL)) return -1;
        } else if (event == JSON_TRUE || event == JSON_FALSE) {
            *out = event == JSON_TRUE;
        } else if (event != JSON_NULL) {
            return api_error_set(r->err, API_BAD_REQUEST, "stream_options",
                                 "the members of 'stream_options' must be booleans");
        }
    }
    return 0;
}

int field_read_response_format(struct field_reader *r, enum json_event first) {
    bool text = false;
    if (first != JSON_OBJECT_BEGIN) return field_wrong_type(r, "an object", first);
    for (enum json_event event = json_next(&r->json); event != JSON_OBJECT_END; event = json_next(&r->json)) {
        if (event != JSON_KEY) return field_wrong_type(r, "an object", event);
        bool is_type = bytes_equal(r->json.text, bytes_str("type"));
        event = json_next(&r->json);
        if (is_type && event != JSON_STRING)
            return api_error_set(r->err, API_BAD_REQUEST, r->name, "'%s.type' must be a string", r->name);
        if (is_type) text = bytes_equal(r->json.text, bytes_str("text"));
        if (field_span(r, event, NULL)) return -1;
    }
    if (text) return 0;
    return api_error_set(r->err, API_UNSUPPORTED, r->name, "'%s' other than {\"type\":\"text\"} is not offered yet",
                         r->name);
}

static int read_refused(struct field_reader *r, enum json_event first) {
    bool harmless = first == JSON_FALSE || (first == JSON_STRING && r->json.text.len == 0);
    int64_t number = 1;
    if (first == JSON_NUMBER) harmless = json_number_int64(r->json.text, &number) && number == 0;
    if (first == JSON_OBJECT_BEGIN || first == JSON_ARRAY_BEGIN) {
        enum json_event second = json_next(&r->json);
        harmless = second == JSON_OBJECT_END || second == JSON_ARRAY_END;
    }
    if (harmless) return 0;
    return api_error_set(r->err, API_UNSUPPORTED, r->name, "'%s' is not offered by this server", r->name);
}

static int read_value(struct field_reader *r, const struct field *f, enum json_event first) {
    void *at = (char *)r->g + f->offset;
    switch (f->kind) {
    case FIELD_BOOL:
        if (first != JSON_TRUE && first != JSON_FALSE) return field_wrong_type(r, "a boolean", first);
        *(bool *)at = first == JSON_TRUE;
        return 0;
    case FIELD_INT: return field_int(r, first, (int64_t)f->min, (int64_t)f->max, at);
    case FIELD_NUMBER: return field_number(r, first, f, at);
    case FIELD_STRING: return field_string(r, first, (size_t)f->max, at);
    case FIELD_OBJECT:
        if (first != JSON_OBJECT_BEGIN) return field_wrong_type(r, "an object", first);
        return field_span(r, first, at);
    case FIELD_ARRAY:
        if (first != JSON_ARRAY_BEGIN) return field_wrong_type(r, "an array", first);
        return field_span(r, first, at);
    case FIELD_CUSTOM: return f->read(r, first);
    case FIELD_REFUSED: return read_refused(r, first);
    }
    return 0;
}

static const struct field *find_row(const struct field *rows, size_t count, struct bytes name) {
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(name, bytes_str(rows[i].name))) return &rows[i];
    return NULL;
}

static int read_member(struct field_reader *r, const struct field *rows, size_t row_count) {
    const struct field *f = find_row(rows, row_count, r->json.text);
    if (!f) log_debug("request field ignored len=%zu", r->json.text.len);
    r->name = f ? f->name : "";
    enum json_event first = json_next(&r->json);
    if (!f) return field_span(r, first, NULL);
    if (first == JSON_NULL) return 0;
    if (read_value(r, f, first)) return -1;
    r->g->given |= f->given;
    return 0;
}

int field_read_all(struct genreq *g, const struct field *rows, size_t row_count, struct bytes body,
                   struct api_error *err) {
    struct field_reader r = {.g = g, .err = err, .name = ""};
    json_reader_init(&r.json, body, GENREQ_DEPTH_MAX, 0);
    int rc = 0;
    if (json_next(&r.json) != JSON_OBJECT_BEGIN)
        rc = api_error_set(err, API_BAD_REQUEST, NULL, "the body must be a JSON object");
    while (rc == 0) {
        enum json_event event = json_next(&r.json);
        if (event == JSON_OBJECT_END) break;
        r.name = "";
        rc = event == JSON_KEY ? read_member(&r, rows, row_count) : field_wrong_type(&r, "valid", JSON_ERROR);
    }
    json_reader_release(&r.json);
    return rc;
}
