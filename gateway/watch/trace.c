#include "gateway/watch/trace.h"

#include "base/hash.h"
#include "formats/json.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- where a request stands ---- */

static bool is_hex(const char *text, size_t len) {
    bool hex = true, zero = true;
    for (size_t i = 0; i < len; i++) {
        hex = hex && ((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f'));
        zero = zero && text[i] == '0';
    }
    return hex && !zero;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "00-" trace-id "-" parent-id "-" flags; later versions may have more behind the flags. */
static bool read_parent(struct trace_context *c, struct bytes text, bool *sampled) {
    enum { TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53, LEN = 55 };
    const char *t = (const char *)text.data;
    if (text.len < LEN || hex_digit(t[0]) < 0 || hex_digit(t[1]) < 0 || !memcmp(t, "ff", 2) ||
        t[2] != '-' || t[PARENT_AT - 1] != '-' || t[FLAGS_AT - 1] != '-')
        return false;
    bool first_version = !memcmp(t, "00", 2);
    if (text.len > LEN && (first_version || t[LEN] != '-'))
        return false;
    int flags = hex_digit(t[FLAGS_AT + 1]);
    if (!is_hex(t + TRACE_AT, TRACE_ID_HEX) || !is_hex(t + PARENT_AT, SPAN_ID_HEX) || flags < 0 ||
        hex_digit(t[FLAGS_AT]) < 0)
        return false;
    memcpy(c->trace_id, t + TRACE_AT, TRACE_ID_HEX);
    memcpy(c->parent_id, t + PARENT_AT, SPAN_ID_HEX);
    *sampled = flags & 1;
    return true;
}

static void draw_span(char out[SPAN_ID_HEX + 1]) {
    uint64_t drawn = random_u128().lo;
    snprintf(out, SPAN_ID_HEX + 1, "%016" PRIx64, drawn ? drawn : 1);
}

void trace_context_begin(struct trace_context *c, struct bytes traceparent, double ratio) {
    bool sampled;
    *c = (struct trace_context){0};
    if (!read_parent(c, traceparent, &sampled)) {
        struct u128 id = random_u128();
        sampled = (double)(id.lo >> 11) * 0x1p-53 < ratio;
        snprintf(c->trace_id, sizeof c->trace_id, "%016" PRIx64 "%016" PRIx64, id.hi, id.lo);
    }
    if (sampled)
        draw_span(c->span_id);
    else
        *c = (struct trace_context){0};
}

/* ---- OTLP/JSON ---- */

static void add_text(struct json_writer *w, const char *key, const char *value) {
    json_begin_object(w);
    json_key(w, "key");
    json_string(w, key);
    json_key(w, "value");
    json_begin_object(w);
    json_key(w, "stringValue");
    json_string(w, value);
    json_end_object(w);
    json_end_object(w);
}

static void add_number(struct json_writer *w, const char *key, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value); /* 64 bits are text in this JSON */
    json_begin_object(w);
    json_key(w, "key");
    json_string(w, key);
    json_key(w, "value");
    json_begin_object(w);
    json_key(w, "intValue");
    json_string(w, text);
    json_end_object(w);
    json_end_object(w);
}

static void add_time(struct json_writer *w, const char *key, int64_t us) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64 "000", us);
    json_key(w, key);
    json_string(w, text);
}

enum span_kind { SPAN_INTERNAL = 1, SPAN_SERVER = 2 };

/* Leaves the span's object open. */
static void begin_span(struct json_writer *w, const struct trace_record *r, const char *id,
                       const char *parent_id, const char *name, enum span_kind kind) {
    json_begin_object(w);
    json_key(w, "traceId");
    json_string(w, r->context.trace_id);
    json_key(w, "spanId");
    json_string(w, id);
    if (*parent_id) {
        json_key(w, "parentSpanId");
        json_string(w, parent_id);
    }
    json_key(w, "name");
    json_string(w, name);
    json_key(w, "kind");
    json_int(w, kind);
}

/* A child from begin to end, in microseconds behind the request's begin. */
static void add_child(struct json_writer *w, const struct trace_record *r, const char *name,
                      int64_t begin, int64_t end) {
    char id[SPAN_ID_HEX + 1];
    draw_span(id);
    begin_span(w, r, id, r->context.span_id, name, SPAN_INTERNAL);
    add_time(w, "startTimeUnixNano", r->begin_us + begin);
    add_time(w, "endTimeUnixNano", r->begin_us + end);
    json_end_object(w);
}

/* The scheduler tells milliseconds, which may reach a little past the request's own. */
static void add_children(struct json_writer *w, const struct trace_record *r) {
    if (!r->first_us)
        return;
    if (r->queued_us >= 0) {
        int64_t placed = MAX(r->first_us - r->prefill_us, 0);
        add_child(w, r, "queue", MAX(placed - r->queued_us, 0), placed);
        add_child(w, r, "prefill", placed, r->first_us);
    }
    add_child(w, r, "decode", r->first_us, r->duration_us);
}

static void add_attributes(struct json_writer *w, const struct trace_record *r) {
    json_key(w, "attributes");
    json_begin_array(w);
    add_text(w, "http.request.method", "POST");
    add_text(w, "http.route", r->path);
    add_number(w, "http.response.status_code", r->status);
    add_text(w, "trireme.request.id", r->request_id);
    add_text(w, "trireme.finish", r->finish);
    if (*r->model)
        add_text(w, "gen_ai.response.model", r->model);
    add_number(w, "gen_ai.usage.input_tokens", r->prompt_tokens);
    add_number(w, "gen_ai.usage.output_tokens", r->output_tokens);
    add_number(w, "trireme.usage.cached_tokens", r->cached_tokens);
    json_end_array(w);
}

static void add_request(struct json_writer *w, const struct trace_record *r) {
    enum { STATUS_ERROR = 2 };
    char name[TRACE_NAME_MAX];
    snprintf(name, sizeof name, "POST %s", r->path);
    begin_span(w, r, r->context.span_id, r->context.parent_id, name, SPAN_SERVER);
    add_time(w, "startTimeUnixNano", r->begin_us);
    add_time(w, "endTimeUnixNano", r->begin_us + r->duration_us);
    add_attributes(w, r);
    if (r->status >= 500) {
        json_key(w, "status");
        json_begin_object(w);
        json_key(w, "code");
        json_int(w, STATUS_ERROR);
        json_end_object(w);
    }
    json_end_object(w);
    add_children(w, r);
}

void trace_write(struct buf *out, const struct trace_record *records, size_t count,
                 const char *version) {
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, "resourceSpans");
    json_begin_array(&w);
    json_begin_object(&w);
    json_key(&w, "resource");
    json_begin_object(&w);
    json_key(&w, "attributes");
    json_begin_array(&w);
    add_text(&w, "service.name", "trireme");
    add_text(&w, "service.version", version);
    json_end_array(&w);
    json_end_object(&w);
    json_key(&w, "scopeSpans");
    json_begin_array(&w);
    json_begin_object(&w);
    json_key(&w, "scope");
    json_begin_object(&w);
    json_key(&w, "name");
    json_string(&w, "trireme.gateway");
    json_end_object(&w);
    json_key(&w, "spans");
    json_begin_array(&w);
    for (size_t i = 0; i < count; i++)
        add_request(&w, &records[i]);
    json_end_array(&w);
    json_end_object(&w);
    json_end_array(&w);
    json_end_object(&w);
    json_end_array(&w);
    json_end_object(&w);
}
