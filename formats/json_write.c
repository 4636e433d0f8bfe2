/*
 * json_write.c - the writer: appends to a buf, sets commas itself, keeps one bit a level.
 */
#include "formats/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void json_writer_init(struct json_writer *w, struct buf *out) {
    memset(w, 0, sizeof *w);
    w->out = out;
}

static bool bit(const uint64_t *bits, uint32_t d) {
    return bits[d / 64] >> (d % 64) & 1;
}
static void set_bit(uint64_t *bits, uint32_t d, bool on) {
    bits[d / 64] = (bits[d / 64] & ~(1ull << (d % 64))) | (uint64_t)on << (d % 64);
}

static void comma(struct json_writer *w) {
    if (bit(w->has_item, w->depth))
        buf_add_byte(w->out, ',');
    set_bit(w->has_item, w->depth, true);
}

/* Before a value: in an object a key must have been written, elsewhere a comma may be due. */
static void before_value(struct json_writer *w) {
    if (w->after_key)
        w->after_key = false;
    else {
        CHECK(!bit(w->in_object, w->depth));
        comma(w);
    }
}

static void begin(struct json_writer *w, bool object) {
    before_value(w);
    CHECK(w->depth + 1 < JSON_DEPTH_MAX);
    w->depth++;
    set_bit(w->in_object, w->depth, object);
    set_bit(w->has_item, w->depth, false);
    buf_add_byte(w->out, object ? '{' : '[');
}

static void end(struct json_writer *w, bool object) {
    CHECK(w->depth && !w->after_key && bit(w->in_object, w->depth) == object);
    w->depth--;
    buf_add_byte(w->out, object ? '}' : ']');
}

void json_begin_object(struct json_writer *w) {
    begin(w, true);
}
void json_end_object(struct json_writer *w) {
    end(w, true);
}
void json_begin_array(struct json_writer *w) {
    begin(w, false);
}
void json_end_array(struct json_writer *w) {
    end(w, false);
}

static void quoted(struct json_writer *w, struct bytes s) {
    buf_add_byte(w->out, '"');
    buf_add_json(w->out, s);
    buf_add_byte(w->out, '"');
}

void json_key_bytes(struct json_writer *w, struct bytes key) {
    CHECK(bit(w->in_object, w->depth) && !w->after_key);
    comma(w);
    quoted(w, key);
    buf_add_byte(w->out, ':');
    w->after_key = true;
}

void json_key(struct json_writer *w, const char *key) {
    json_key_bytes(w, bytes_str(key));
}

void json_string_bytes(struct json_writer *w, struct bytes s) {
    before_value(w);
    quoted(w, s);
}

void json_string(struct json_writer *w, const char *s) {
    if (s)
        json_string_bytes(w, bytes_str(s));
    else
        json_null(w);
}

void json_raw(struct json_writer *w, struct bytes value) {
    before_value(w);
    buf_add_bytes(w->out, value);
}

void json_null(struct json_writer *w) {
    json_raw(w, bytes_str("null"));
}
void json_bool(struct json_writer *w, bool v) {
    json_raw(w, bytes_str(v ? "true" : "false"));
}

void json_uint(struct json_writer *w, uint64_t v) {
    before_value(w);
    buf_add_u64(w->out, v);
}

void json_int(struct json_writer *w, int64_t v) {
    before_value(w);
    if (v < 0)
        buf_add_byte(w->out, '-');
    buf_add_u64(w->out, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void json_double(struct json_writer *w, double v) {
    char text[40];
    if (!isfinite(v)) {
        json_null(w);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        double back;
        snprintf(text, sizeof text, "%.*g", digits, v);
        for (char *c = text; *c; c++)
            if (*c == ',')
                *c = '.'; /* a locale with a decimal comma */
        if (json_number_double(bytes_str(text), &back) && back == v)
            break;
    }
    json_raw(w, bytes_str(text));
}
